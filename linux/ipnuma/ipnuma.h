/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the driver's files share. */
#ifndef IPNUMA_H
#define IPNUMA_H

#include <linux/interrupt.h>
#include <linux/kfifo.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "ipnuma_hw.h"
#include "ipnuma_uapi.h"

#define PAGE_BYTES 4096
#define LINE_BYTES 64
#define EVENT_LOG2 8
#define EVENTS (1 << EVENT_LOG2)
#define MOST_PEERS 256

struct peer {
	u32 ip;
	u64 mac; /* of the next hop, if the kernel has said it */
	u8 session;
	u8 peer_session;
	u8 epoch;
	u32 start; /* is told nobody: who knows it can forge frames */
	bool valid;
	bool compact;
	bool sealed;
	bool lost;
	bool resolved; /* by the kernel */
	atomic64_t frames; /* under the key that it is sent to with */
};

/* An open /dev/ipnuma0: events that wait to be read. */
#define CLIENT_EVENTS 256
struct client {
	struct nic *nic;
	struct list_head list;
	wait_queue_head_t queue;
	DECLARE_KFIFO(events, struct ipnuma_event, CLIENT_EVENTS);
	bool lost;
	u32 marks;
};

/* Who has pages and keys, which all share. */
struct holder {
	struct list_head list;
	kuid_t uid;
	u32 pages, keys;
};

/*
 * A flush: somebody waits for it, or wants an event, or nobody does any more. The NIC has few places for them, and each is
 * taken until it has answered.
 */
struct mark {
	struct list_head list;
	struct client *client; /* wants an event, and does not wait */
	u64 number;
	u16 cookie;
	bool orphan;
	bool done;
	bool delivered;
};

struct nic {
	struct pci_dev *pdev;
	struct miscdevice misc;
	void __iomem *registers;
	void __iomem *pages;
	void __iomem *poll; /* NULL on a board */
	u32 version;
	int vectors;
	u32 page_count, pc_ids, keys, sessions;
	bool seals;   /* it was built with AES-GCM */
	bool unseals; /* and sealed frames are opened */
	bool arrivals; /* it interrupts for them */

	/* Registers and tables; all reads of BARs, which must not meet each other. Never taken by interrupts. */
	struct mutex control;
	unsigned long *pages_used;
	u16 *tags; /* by key, also of regions that are revoked */
	struct region **owners; /* by key, as whose they are counted */
	struct holder **holders;
	struct list_head holding;
	u32 last_key;
	u64 last_region;
	struct ipnuma_identity identity;
	int interface; /* whose MAC address it has, and by which peers are reached; 0: they are given */
	struct notifier_block netevents, interfaces;
	struct work_struct follow;
	wait_queue_head_t resolved; /* the kernel has heard of a neighbour */
	struct peer peers[MOST_PEERS];

	/* What interrupts tell of. The list of windows changes under both locks. */
	spinlock_t lock;
	struct list_head windows;
	struct list_head watched;
	struct list_head marks;
	struct list_head clients;
	wait_queue_head_t flushed;
	u16 last_cookie;
	bool link_up;

	u32 marks_left;
	__le32 *events;
	dma_addr_t events_dma;
	u32 events_taken;
};

/* Memory that peers may be allowed to use. */
struct region {
	struct nic *nic;
	struct mm_struct *mm; /* as whose memory it is counted */
	void *memory;
	struct page *made; /* the first, of memory that the DMA API did not give */
	dma_addr_t dma;
	size_t bytes;
	unsigned int order;
	wait_queue_head_t queue;
	/* Under nic->lock. */
	struct list_head watch;
	bool watched; /* the device tells of the next write to it */
	bool wanted;  /* and the owner wants to have it counted */
	u64 signals;
};

/* A part of a peer's region. */
struct window {
	struct nic *nic;
	struct list_head list;
	struct peer *peer;
	struct holder *holder;
	bool cut; /* the peer is another now: no page leads there any more */
	bool unmapped; /* the pages were given back; under lock */
	u16 key;
	u32 rights;
	u32 page, count;
	u64 base; /* in BAR 2 */
	u64 bytes;
	struct mutex lock;
	void *bounce;
	struct ipnuma_status *status;
};

u32 nic_read(struct nic *nic, u32 offset);
void nic_write(struct nic *nic, u32 offset, u32 value);
void nic_write_entry(struct nic *nic, u32 base, u32 index, const u32 *dws, u32 count);
void nic_arrivals(struct nic *nic);
void nic_poll_write(struct nic *nic, u32 offset, u64 value);
u64 nic_clock(void);
struct holder *holder_charge(struct nic *nic, u32 pages, u32 keys);
void holder_uncharge(struct holder *user, u32 pages, u32 keys);
long nic_flush(struct nic *nic, struct window *window, s64 timeout_ns);
u32 nic_store(struct nic *nic, u64 at, const void *from, size_t bytes);

void nic_set_mac(struct nic *nic, u64 mac);
void nic_peer_lost(struct nic *nic, struct peer *peer);

int neighbour_own(u32 ip, u64 *mac);
long neighbour_resolve(struct nic *nic, u32 ip, u64 *mac);
int neighbours_begin(struct nic *nic);
void neighbours_end(struct nic *nic);
u64 memory_most(struct nic *nic);
bool memory_alloc(struct nic *nic, struct region *region);
void memory_free(struct nic *nic, struct region *region);
int memory_map(struct nic *nic, struct region *region, struct vm_area_struct *area);
long region_open(struct nic *nic, struct ipnuma_region __user *arg);
bool regions_fire(struct nic *nic);
long window_open(struct nic *nic, struct ipnuma_window __user *arg);
void windows_cut(struct nic *nic, struct peer *peer);
struct peer *peer_find(struct nic *nic, u32 ip, u32 session);
void peer_fault(struct nic *nic, struct peer *peer, u32 state);
void peer_moved(struct nic *nic, struct peer *peer);
long peer_set(struct nic *nic, struct ipnuma_peer __user *arg);
long peer_set_sealed(struct nic *nic, struct ipnuma_sealed_peer __user *arg);
long peer_get(struct nic *nic, struct ipnuma_peer __user *arg);
long peer_keys(struct nic *nic, struct ipnuma_keys __user *arg);
long peer_frames(struct nic *nic, struct ipnuma_frames __user *arg);

#endif
