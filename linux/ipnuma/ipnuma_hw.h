/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Registers and tables of the NIC that the driver uses; docs/registers.md has them all. A test of crates/host compares
 * this file with crates/wire.
 */
#ifndef IPNUMA_HW_H
#define IPNUMA_HW_H

#define IPNUMA_VENDOR 0x1F3D
#define IPNUMA_DEVICE 0x0001

/* BARs. */
#define BAR_REGISTERS 0
#define BAR_PAGES 2
#define BAR_POLL 4

#define BAR0_BYTES 0x800000
#define ID_VALUE 0x49504E4D
#define VERSION_MAJOR 2

#define REG_ID 0x00
#define REG_VERSION 0x04
#define REG_FEATURES 0x08
#define REG_MAC_LO 0x10
#define REG_MAC_HI 0x14
#define REG_IP 0x18
#define REG_NETMASK 0x1C
#define REG_GATEWAY_MAC_LO 0x24
#define REG_GATEWAY_MAC_HI 0x28
#define REG_CONTROL 0x44
#define REG_ACK_TICKS 0x4C
#define REG_FLUSH 0x5C
#define REG_EVENT_BASE_LO 0x60
#define REG_EVENT_BASE_HI 0x64
#define REG_EVENT_LOG2 0x68
#define REG_EVENT_TAIL 0x6C
#define REG_MSI_ADDRESS_LO 0x70
#define REG_MSI_ADDRESS_HI 0x74
#define REG_MSI_DATA 0x78
#define REG_MSI_MODERATION_US 0x7C
#define REG_MSI_CONTROL 0x80
#define REG_PACE 0x84
/* REG_CONTROL: stores that wait anyway travel in one frame. */
#define CONTROL_MERGE 1
/* And sealed frames are opened. */
#define CONTROL_AUTH 2

#define MSI_ON_ARRIVAL 1
#define MSI_ON_EVENT 2

#define SESSION_BASE 0x010000
#define KEY_BASE 0x020000
#define PC_ID_BASE 0x100000
#define REGION_BASE 0x200000
#define PAGE_MAP_BASE 0x400000

/* Session entry. */
#define SESSION_VALID 0x1
#define SESSION_SEALED 0x2
#define SESSION_EPOCH_SHIFT 2
#define SESSION_PORT 0xC000
/* Key entry: DWs, and what the last one says. */
#define KEY_DWS 16
#define KEY_USE_BEGIN 0
#define KEY_USE_RECEIVE 2
#define KEY_USE_SEND 4
/* PC ID entry. */
#define PC_VALID 0x1
#define PC_COMPACT 0x2
#define PC_SESSION 0x4
#define UDP_PORT 3422
/* Region entry. */
#define REGION_VALID 0x01
#define REGION_WRITE 0x02
#define REGION_READ 0x04
#define REGION_NOTIFY 0x08
#define REGION_SESSION 0x10
#define REGION_SEALED 0x20
#define REGION_BOUND 0x40
#define REGION_NUMBER_SHIFT 7

/* Events. */
#define EVENT_ERR_BAD_KEY 1
#define EVENT_ERR_BAD_BOUNDS 4
#define EVENT_PEER_LOST 16
#define EVENT_FLUSHED 17
#define EVENT_FLUSH_FAILED 18
#define EVENT_LINK_DOWN 19
#define EVENT_LINK_UP 20
#define EVENT_OVERFLOW 21
#define EVENT_BYTES 16

/* Keys from here on have no compact form on the wire. */
#define COMPACT_KEYS 4096
/* Flush marks that the NIC keeps at once. */
#define FLUSH_MARKS 8

/*
 * BAR 4 is the rack's, not the NIC's: it stands for a core that polls. docs/linux.md says what it does.
 */
#define POLL_ARM 0x00
#define POLL_DISARM_ALL 0x08
#define POLL_DISARM 0x10
#define POLL_NOW 0x18

#endif
