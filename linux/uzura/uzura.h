/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef UZURA_H
#define UZURA_H

#include <linux/idr.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "uzura_hw.h"

/* Pages of translation for all regions: 128 MB. */
#define TABLE_ENTRIES 32768
/* Work requests of a queue, and completions. */
#define MAX_LOG2 12
#define MAX_CQ_LOG2 15
/* Frames are those of ordinary Ethernet. */
#define MAX_MTU IB_MTU_1024
/* One place of a shared receive queue always stays free. */
#define MAX_SHARED ((1 << MAX_LOG2) - 1)

struct cq;
struct qp;
struct srq;

struct nic {
	struct ib_device ib; /* must be first */
	struct pci_dev *pci;
	struct net_device *netdev;
	/* The interface goes, or this device does: whichever comes first takes the verbs device with it. */
	struct notifier_block watcher;
	struct work_struct gone;
	bool registered; /* under `ending` */
	bool down; /* with the machine: its bus may be gone */
	struct mutex ending;
	void __iomem *registers;
	void __iomem *doors;
	void __iomem *poll;
	/* One command at a time, and one read of a register: two that meet in the guest's bus lose an answer. */
	struct mutex control;
	/* Who has which number; the interrupts look. */
	spinlock_t lock;
	struct cq *cqs[COMPLETION_QUEUES];
	struct qp *qps[QUEUE_PAIRS];
	struct srq *srqs[SHARED_QUEUES];
	struct delayed_work alarms; /* asks the engine which of all these have something to say */
	struct ida cq_numbers, qp_numbers, srq_numbers, region_numbers, pd_numbers;
	/* The host's translation table. */
	__le64 *table;
	dma_addr_t table_at;
	unsigned long *table_used; /* under control */
	atomic_t regions_given;
	u8 region_tags[REGIONS]; /* who has the number */
	/* Programs that poll sleep here. */
	wait_queue_head_t looks;
	unsigned int seen; /* DMA writes to what is watched */
	u32 ip;
};

struct context {
	struct ib_ucontext ib;
	u32 vain; /* looks in vain since it last had something, or did something */
	atomic_t srqs;
};

struct pd {
	struct ib_pd ib;
	u32 number;
};

struct ah {
	struct ib_ah ib;
	u64 mac;
	u32 ip;
};

struct mr {
	struct ib_mr ib;
	struct ib_umem *umem; /* none: all memory, for the kernel */
	u32 number;
	u32 first;
	u32 pages;
};

struct cq {
	struct ib_cq ib;
	struct context *context;
	u32 number;
	u32 log2;
	struct cqe *ring;
	dma_addr_t at;
	spinlock_t lock;
	u32 next; /* to be read */
	u32 told; /* how far the engine knows of it */
	u32 joint; /* the ring begins here: what comes before was in an earlier one */
	struct cqe *kept; /* and is kept here, if nobody has read it: the last one is that in front of the joint */
	u32 keeps;
	bool moving; /* to another ring: the engine may have gone already */
	bool armed;
	bool overflown;
	/* Of a program, the datagram that was taken last: its buffer, 0 if it was something else, and who sent it. */
	u64 datagram;
	u32 datagram_from;
};

/* A ring of work requests: the next one's number, and the oldest one that has not completed. */
struct queue {
	void *ring;
	dma_addr_t at;
	size_t bytes;
	u64 *ids;
	u32 log2;
	u32 segments_log2; /* of a receive queue's entry: 0 to 2 */
	u32 next;
	u32 done;
	spinlock_t lock;
};

struct srq {
	struct ib_srq ib;
	struct context *context;
	u32 number;
	u32 log2; /* of its places */
	bool listed; /* entries have several segments */
	u32 limit; /* 0: none, or reached */
	void *ring;
	dma_addr_t at;
	/* By place: the work request, the next free place or what the engine takes behind it, and whether it is posted. */
	u64 *ids;
	u16 *links;
	unsigned long *posted;
	u32 head; /* the next place to post */
	u32 tail; /* the end of the free ones, which is never posted */
	u32 next; /* entries posted so far */
	spinlock_t lock;
};

struct qp {
	struct ib_qp ib;
	u32 number;
	struct ib_qp_cap cap;
	struct ib_qp_attr attr;
	struct queue send, receive;
	struct srq *srq; /* then `receive` is empty */
	bool ended; /* its last request was completed in error, and that was told */
	bool all_signaled;
	bool user;
};

#define TO(type) \
	static inline struct type *to_##type(struct ib_##type *ib) \
	{ \
		return container_of(ib, struct type, ib); \
	}
TO(pd)
TO(ah)
TO(mr)
TO(cq)
TO(qp)
TO(srq)
#undef TO

static inline void set_segment(struct segment *segment, const struct ib_sge *sge)
{
	segment->address = cpu_to_le64(sge->addr);
	segment->key = cpu_to_le32(sge->lkey);
	segment->bytes = cpu_to_le32(sge->length);
}

static inline struct nic *to_nic(struct ib_device *ib)
{
	return container_of(ib, struct nic, ib);
}

/* Queue pair 1 is one of datagrams, too. */
static inline bool is_datagram(const struct qp *qp)
{
	return qp->ib.qp_type != IB_QPT_RC;
}

/* It sends or receives. */
static inline bool qp_runs(const struct qp *qp)
{
	return qp->attr.qp_state == IB_QPS_RTR || qp->attr.qp_state == IB_QPS_RTS;
}

/* main.c */
extern unsigned int store_ns;
void nic_write(struct nic *nic, u32 offset, u64 value);
void nic_door(struct nic *nic, u32 page, u32 offset, u64 value);
void nic_copy(struct nic *nic, u32 page, const void *entry, size_t bytes);
void nic_watch(struct nic *nic, u64 value);
void nic_charge(unsigned int ns);
u32 nic_read(struct nic *nic, u32 offset);
int nic_command_locked(struct nic *nic, enum command command, u32 index, const u64 *words, u32 count);
int nic_command(struct nic *nic, enum command command, u32 index, const u64 *words, u32 count);

/* memory.c */
int uzura_alloc_pd(struct ib_pd *ib, struct ib_udata *udata);
int uzura_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata);
struct ib_mr *uzura_reg_user_mr(struct ib_pd *ib, u64 start, u64 length, u64 address, int access,
				struct ib_udata *udata);
struct ib_mr *uzura_get_dma_mr(struct ib_pd *ib, int access);
int uzura_dereg_mr(struct ib_mr *ib, struct ib_udata *udata);

/* completion.c */
int uzura_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct ib_udata *udata);
int uzura_resize_cq(struct ib_cq *ib, int count, struct ib_udata *udata);
int uzura_destroy_cq(struct ib_cq *ib, struct ib_udata *udata);
int uzura_poll_cq(struct ib_cq *ib, int count, struct ib_wc *wc);
int uzura_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags);
void cq_forget(struct cq *cq, struct qp *qp);
bool cq_events(struct nic *nic);
void cq_overflows(struct nic *nic, u64 queues);

/* pair.c */
int uzura_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata);
int uzura_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
void qp_fail_those_of(struct nic *nic, const struct cq *cq);
int uzura_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init);
int uzura_destroy_qp(struct ib_qp *ib, struct ib_udata *udata);
int uzura_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int uzura_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
int uzura_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int uzura_destroy_ah(struct ib_ah *ib, u32 flags);

/* shared.c */
int uzura_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata);
int uzura_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask, struct ib_udata *udata);
int uzura_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr);
int uzura_destroy_srq(struct ib_srq *ib, struct ib_udata *udata);
int uzura_post_srq_recv(struct ib_srq *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
u64 srq_end(struct srq *srq, u32 place);
dma_addr_t srq_address(struct srq *srq, u32 place, u32 bytes);
int srq_release(struct nic *nic, struct qp *qp);
void srq_events(struct nic *nic, u32 below, u64 ended);

/* kernel.c */
void kernel_set_header(struct nic *nic, dma_addr_t buffer, u32 from);
void user_set_header(struct nic *nic, u64 buffer, u32 from);

#endif
