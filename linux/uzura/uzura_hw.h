/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Registers, commands and descriptors of UZURA, as docs/uzura.md has them. All little-endian.
 */
#ifndef UZURA_HW_H
#define UZURA_HW_H

#include <linux/bits.h>
#include <linux/types.h>

/* BAR 0: the engine's, 64 bits each, and the NIC's own, 32 bits each. */
#define REG_IDENTITY 0x00
#define REG_MAC 0x08
#define REG_IP 0x10
#define REG_TABLE 0x18
#define REG_COMMAND 0x20
#define REG_BELOW 0x28 /* shared receive queues below their limit */
#define REG_ENDED 0x30 /* queue pairs with one that have ended */
#define REG_HELD 0x38 /* what COMMAND_LOOK_QP has found */
#define HELD_YES BIT(16) /* place in 15:0 */
#define REG_WORDS 0x40
#define REG_OVERFLOW 0x80 /* completion queues that had no room */
#define REG_ENGINE_COUNTERS 0x100
#define REG_ID 0x1000
#define REG_VERSION 0x1004
#define REG_STATUS 0x1008
#define REG_MSI_ADDRESS_LO 0x1010
#define REG_MSI_ADDRESS_HI 0x1014
#define REG_MSI_DATA 0x1018
#define REG_MSI_MODERATION_US 0x101C
#define REG_INTERRUPT 0x1020
#define ID_VALUE 0x525A554E
#define IDENTITY_VALUE 0x4152555A00000001ULL
#define VERSION_MAJOR 1
#define COMMAND_BUSY BIT(31) /* of the upper half */

enum command {
	COMMAND_SET_QP = 1,
	COMMAND_BEGIN_QP = 2,
	COMMAND_SET_REGION = 3,
	COMMAND_SET_CQ = 4,
	COMMAND_FLUSH = 6,
	COMMAND_RESUME_QP = 7,
	COMMAND_BEGIN_SRQ = 8,
	COMMAND_SET_SRQ = 9,
	COMMAND_LOOK_QP = 10,
};

/* BAR 2: a page of doorbells for each process, or whoever is given one. */
#define DOOR_PAGE 0x1000
#define DOOR_SEND 0x000
#define DOOR_RECEIVE 0x008
#define DOOR_COMPLETION 0x010
#define DOOR_SHARED 0x018
#define DOOR_COPY 0x800
#define DOOR_NUMBER_SHIFT 32
#define DOOR_KNOWN_SHIFT 16 /* completion: there are so many; armed for what comes behind them */
#define DOOR_FLAG BIT_ULL(63) /* send: the entry is in the page; completion: arm */

/* BAR 4: the rack's core that polls (docs/linux.md). */
#define POLL_ARM 0x00
#define POLL_DISARM_ALL 0x08

#define QUEUE_PAIRS 64
#define COMPLETION_QUEUES 64
#define SHARED_QUEUES 16
#define REGIONS 256
#define MAX_INLINE 64
#define MAX_READS 4
/* Segments of a work request: the first one of a send is in the first half of its entry, the others behind it. */
#define MAX_SEND_SEGMENTS 5
#define MAX_DATAGRAM_SEGMENTS 6 /* the last one where others have the remote address and key */
#define MAX_RECEIVE_SEGMENTS 4
#define SHARED_SEGMENTS 3 /* of an entry of a shared receive queue that has several */
#define QP_HAS_SHARED 0x10 /* behind the number */
#define QP_SHARED_SHIFT 48

enum state {
	STATE_RESET = 0,
	STATE_INIT = 1,
	STATE_RTR = 2,
	STATE_RTS = 3,
	STATE_ERROR = 6,
};

enum operation {
	OPERATION_SEND = 0,
	OPERATION_SEND_IMM = 1,
	OPERATION_SEND_INV = 2,
	OPERATION_WRITE = 3,
	OPERATION_WRITE_IMM = 4,
	OPERATION_READ = 5,
	OPERATION_COMPARE_SWAP = 6,
	OPERATION_FETCH_ADD = 7,
};

#define SEND_SIGNALED BIT(8)
#define SEND_SOLICITED BIT(9)
#define SEND_INLINE BIT(10)
#define SEND_MORE_SHIFT 11 /* segments behind the first one */
#define SEND_MORE (7U << SEND_MORE_SHIFT)
#define SEND_FENCE BIT(15)

/* In front of each datagram: room for the header of its network. */
#define HEADER_BYTES 40

struct segment {
	__le64 address;
	__le32 key;
	__le32 bytes;
};

/* Of a shared receive queue: the segments, and the place of the next entry. */
struct shared_entry {
	struct segment segment;
	__le64 link;
	__le64 kept;
};

struct shared_list_entry {
	struct segment segments[SHARED_SEGMENTS];
	__le64 link;
	__le64 kept;
};

struct send_entry {
	__le32 flags; /* operation in 7:0 */
	__le32 imm;
	__le64 remote;
	__le32 remote_key;
	__le32 bytes; /* of all segments */
	__le64 local;
	__le32 local_key;
	__le32 to; /* UD: QP */
	__le64 swap; /* UD: Q_Key, IP address << 32 */
	__le64 compare; /* UD: MAC address */
	__le32 first_bytes; /* if there are more segments */
	__le32 sixth_bytes; /* UD */
	union {
		u8 data[MAX_INLINE];
		struct segment more[MAX_SEND_SEGMENTS - 1];
	};
};

/* Written last byte last. */
struct cqe {
	__le32 bytes;
	__le32 imm;
	__le64 pairs; /* own QP in 23:0, the sender's in 47:24 */
	__le64 what; /* index 15:0, operation 23:16, flags 31:29, key 63:32; UD: the sender's IP address there */
	__le64 status; /* 7:0; the owner in the top bit */
};

#define COMPLETION_RECEIVE BIT(29)
#define COMPLETION_HAS_IMM BIT(30)
#define COMPLETION_HAS_INV BIT(31)
#define COMPLETION_OWNER BIT_ULL(63)

#define RIGHT_LOCAL_WRITE 1
#define RIGHT_REMOTE_WRITE 2
#define RIGHT_REMOTE_READ 4
#define RIGHT_REMOTE_ATOMIC 8

#endif
