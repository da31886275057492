/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What programs say to /dev/ipnuma0. Numbers are in host order, addresses IPv4 as numbers (10.0.0.1 is 0x0A000001), MAC
 * addresses numbers whose bits 47:40 are the first byte on the wire. Fields named reserved must be zero.
 *
 * /dev/ipnuma0   INFO, NOW, CHARGE, FRAMES; with CAP_NET_ADMIN: IDENTITY, PEER, SEALED_PEER, KEYS; REGION and WINDOW give new
 *                descriptors; read, poll: struct ipnuma_event, what happened since it was opened; MARK.
 * region         mmap: the memory; read, write, poll: as an eventfd; EXPORT, REVOKE, ARM, WAIT, BYTES.
 * window         pwrite stores, pread loads; mmap of one page, read only: struct ipnuma_status; FLUSH, UNMAP.
 */
#ifndef IPNUMA_UAPI_H
#define IPNUMA_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IPNUMA_ABI 3
#define IPNUMA_MAGIC 'N'

/* struct ipnuma_info, flags */
#define IPNUMA_LINK_UP 1
/* The clock stands still while a program computes: who polls without sleeping never sees anything new. */
#define IPNUMA_FROZEN 2
/* It was built with AES-GCM: SEALED_PEER and KEYS. */
#define IPNUMA_SEALS 4
/* The rack's BAR 4 is there: CHARGE and NOW, which say EOPNOTSUPP on a board, and stores cost store_ns. */
#define IPNUMA_CHARGES 8

struct ipnuma_info {
	__u32 abi;
	__u32 version; /* of the NIC */
	__u32 pages;
	__u32 pc_ids;
	__u32 regions;
	__u32 sessions;
	__u32 flags;
	__u32 ip;
	__u32 netmask;
	__u32 store_ns; /* charged for each 64 bytes that are stored */
	__u64 mac;
	__u64 most_region; /* bytes */
};

/*
 * Without a MAC address the NIC has that of the interface with its IP address, whatever it is, and peers are reached as
 * the kernel's routes and neighbours say: gateway_mac must be 0, and what a peer has as its MAC address does not count.
 */
struct ipnuma_identity {
	__u64 mac;
	__u64 gateway_mac;
	__u32 ip;
	__u32 netmask;
};

/* struct ipnuma_peer, flags */
#define IPNUMA_PEER_VALID 1
#define IPNUMA_PEER_COMPACT 2
#define IPNUMA_PEER_LOST 4 /* only answered */
#define IPNUMA_PEER_SEALED 8 /* only answered */

struct ipnuma_peer {
	__u64 mac;
	__u32 ip;
	__u8 session; /* own number, from 1 on */
	__u8 peer_session;
	__u8 epoch;
	__u8 flags;
	__u32 start; /* sequence number of the first frame, both ways */
	__u32 reserved;
};

/*
 * Keys of a session, DWs 0 to 9 of its entry (docs/registers.md): of what is sent (4), of what is received (4), and the
 * salts of both. The NIC alone keeps them. Never the same ones twice.
 */
#define IPNUMA_KEY_WORDS 10

struct ipnuma_sealed_peer {
	struct ipnuma_peer peer;
	__u32 words[10];
};

/* The next key of a sealed session; use: 2 + phase receives with it, 4 + phase sends with it. */
struct ipnuma_keys {
	__u32 session;
	__u32 use;
	__u32 words[10];
};

/* Stores and loads to a peer since it is sent to with the present key, or since its session began. */
struct ipnuma_frames {
	__u32 session;
	__u32 reserved;
	__u64 frames; /* comes back */
};

struct ipnuma_region {
	__u64 bytes; /* wanted; whole pages come back */
	__u64 id;    /* comes back: no other region since the driver was loaded has it */
	__s32 fd;    /* comes back */
	__u32 reserved;
};

/* Rights, as in tokens. */
#define IPNUMA_READ 1
#define IPNUMA_WRITE 2

/* struct ipnuma_export, flags: only for frames that came sealed */
#define IPNUMA_EXPORT_SEALED 1

struct ipnuma_export {
	__u64 first; /* multiple of 4 */
	__u64 bytes; /* multiple of 4 */
	__u32 peer;  /* the only one that may use it; 0: all that have a session */
	__u32 rights;
	__u16 tag; /* 1 to 0xFFF */
	__u16 key; /* comes back */
	__u32 flags;
	__u32 session; /* the only one that may use it; 0: all of the peer's */
	__u32 reserved;
};

struct ipnuma_wait {
	__u64 offset;     /* multiple of 8 */
	__u64 seen;       /* returns once something else is there */
	__s64 timeout_ns; /* negative: for ever */
};

struct ipnuma_window {
	__u64 first; /* in the region */
	__u64 bytes;
	__u32 peer;    /* 0: by session */
	__u32 session; /* 0: the first with this peer; else it must be the peer's */
	__u16 key;
	__u16 tag;
	__u32 rights;
	__s32 fd; /* comes back */
	__u32 reserved;
};

/* An event will say whether all stores before it to the session's peer have arrived. */
struct ipnuma_mark {
	__u64 number; /* in the event */
	__u32 session;
	__u32 reserved;
};

/* struct ipnuma_event, code */
#define IPNUMA_BAD_KEY 1 /* to 4: the peer refused a store: key, source, rights, bounds */
#define IPNUMA_BAD_SOURCE 2
#define IPNUMA_BAD_RIGHTS 3
#define IPNUMA_BAD_BOUNDS 4
#define IPNUMA_LOST 16
#define IPNUMA_FLUSHED 17
#define IPNUMA_FLUSH_FAILED 18
#define IPNUMA_LINK_IS_DOWN 19
#define IPNUMA_LINK_IS_UP 20
#define IPNUMA_EVENTS_LOST 21 /* on the way from the NIC, or because nobody read */

struct ipnuma_event {
	__u32 code;
	__u16 session;
	__u16 key;    /* refused */
	__u64 number; /* flushed, flush failed */
};

struct ipnuma_flush {
	__s64 timeout_ns; /* negative: for ever */
};

/* struct ipnuma_status, state */
#define IPNUMA_STATE_LOST 1
#define IPNUMA_STATE_REVOKED 2

struct ipnuma_status {
	__u64 faults; /* only grows */
	__u32 state;
	__u32 reserved;
};

#define IPNUMA_INFO _IOR(IPNUMA_MAGIC, 0, struct ipnuma_info)
#define IPNUMA_NOW _IOR(IPNUMA_MAGIC, 1, __u64)
#define IPNUMA_IDENTITY _IOW(IPNUMA_MAGIC, 2, struct ipnuma_identity)
#define IPNUMA_PEER _IOW(IPNUMA_MAGIC, 3, struct ipnuma_peer)
#define IPNUMA_PEER_GET _IOWR(IPNUMA_MAGIC, 4, struct ipnuma_peer)
#define IPNUMA_REGION _IOWR(IPNUMA_MAGIC, 5, struct ipnuma_region)
#define IPNUMA_WINDOW _IOWR(IPNUMA_MAGIC, 6, struct ipnuma_window)
#define IPNUMA_MARK _IOW(IPNUMA_MAGIC, 7, struct ipnuma_mark)

/* Nanoseconds that the caller's processor is busy, at most IPNUMA_MOST_CHARGE: what its own code would take. */
#define IPNUMA_MOST_CHARGE 1000000000
#define IPNUMA_CHARGE _IOW(IPNUMA_MAGIC, 8, __u32)
#define IPNUMA_SEALED_PEER _IOW(IPNUMA_MAGIC, 9, struct ipnuma_sealed_peer)
#define IPNUMA_KEYS _IOW(IPNUMA_MAGIC, 10, struct ipnuma_keys)
#define IPNUMA_FRAMES _IOWR(IPNUMA_MAGIC, 11, struct ipnuma_frames)

#define IPNUMA_EXPORT _IOWR(IPNUMA_MAGIC, 16, struct ipnuma_export)
#define IPNUMA_REVOKE _IOW(IPNUMA_MAGIC, 17, __u32)
#define IPNUMA_ARM _IOW(IPNUMA_MAGIC, 18, __u32)
#define IPNUMA_WAIT _IOW(IPNUMA_MAGIC, 19, struct ipnuma_wait)
#define IPNUMA_BYTES _IOR(IPNUMA_MAGIC, 20, __u64)

#define IPNUMA_FLUSH _IOW(IPNUMA_MAGIC, 32, struct ipnuma_flush)
/* Gives the pages back for all who have the descriptor: their stores are refused with EPIPE. */
#define IPNUMA_UNMAP _IO(IPNUMA_MAGIC, 33)

#endif
