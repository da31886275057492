// SPDX-License-Identifier: Apache-2.0
//! The conventional descriptor-ring NIC (`rtl/ring`): its registers, descriptors and counters.
//!
//! `wire-gen` prints `rtl/ring/ring_pkg.sv` and `docs/ring-nic.md` from them. The counter windows are where the
//! IP-NUMA NIC has them.

use crate::counters::{Counts, counters};
use crate::layout::{Field, Layout, Show};
use crate::registers::{Access, Register, Reset, registers};

/// What [`REG_ID`] reads: "RING".
pub const ID_VALUE: u32 = 0x5249_4E47;
/// What [`REG_VERSION`] reads: major version in the upper half, minor in the lower.
pub const VERSION_VALUE: u32 = 0x0001_0000;
/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u32 = 16;
/// Descriptors that one read fetches at most, and to which a ring's base is aligned.
pub const DESCRIPTOR_BATCH: u32 = 8;
/// Smallest ring, as a power of two.
pub const MIN_RING_LOG2: u32 = 4;
/// Largest ring, as a power of two.
pub const MAX_RING_LOG2: u32 = 16;

registers! {
    REG_ID "ID" = 0x00, ReadOnly, Reset::Value(ID_VALUE), 0xFFFF_FFFF,
        "\"RING\": says that this is a descriptor-ring NIC";
    REG_VERSION "VERSION" = 0x04, ReadOnly, Reset::Value(VERSION_VALUE), 0xFFFF_FFFF,
        "version of this register map: major in bits 31:16, minor in bits 15:0";
    REG_FEATURES "FEATURES" = 0x08, ReadOnly, Reset::Build, 0xFFFF_FFFF,
        "how it was built: bits 31:16 bytes of the longest frame without FCS, 7:0 packets that can be on their way from memory to the wire";
    REG_STATUS "STATUS" = 0x0C, ReadOnly, Reset::Build, 0x0000_001F,
        "bit 0 the link is up, bit 1 nothing is being sent, bit 2 nothing is being received to memory, bit 3 or 4: the send or receive ring has stopped because a descriptor could not be read";
    REG_MAC_LO "MAC_LO" = 0x10, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "own MAC address, bits 31:0 (the last four bytes on the wire)";
    REG_MAC_HI "MAC_HI" = 0x14, ReadWrite, Reset::Value(0), 0x0000_FFFF,
        "own MAC address, bits 47:32 (the first two bytes on the wire)";
    REG_FILTER "FILTER" = 0x18, ReadWrite, Reset::Value(0), 0x0000_0001,
        "bit 0 frames to any MAC address are received; else those to the own one, broadcast and multicast";
    REG_CONTROL "CONTROL" = 0x1C, ReadWrite, Reset::Value(0), 0x0000_0003,
        "bit 0 send, bit 1 receive";
    REG_TX_BASE_LO "TX_BASE_LO" = 0x20, ReadWrite, Reset::Value(0), 0xFFFF_FF80,
        "BASE of the send ring, bits 31:0; 128-byte aligned";
    REG_TX_BASE_HI "TX_BASE_HI" = 0x24, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "BASE of the send ring, bits 63:32";
    REG_TX_LOG2 "TX_LOG2" = 0x28, ReadWrite, Reset::Value(0), 0x0000_001F,
        "log2 of the entries of the send ring, 4 to 16, 0: none; writing it empties the ring: HEAD and TAIL become 0";
    REG_TX_HEAD "TX_HEAD" = 0x2C, ReadOnly, Reset::Value(0), 0x0000_FFFF,
        "HEAD of the send ring: the packets before this entry have left";
    REG_TX_TAIL "TX_TAIL" = 0x30, ReadWrite, Reset::Value(0), 0x0000_FFFF,
        "TAIL of the send ring: the entry behind the last one to be sent; writing it starts the NIC";
    REG_RX_BASE_LO "RX_BASE_LO" = 0x40, ReadWrite, Reset::Value(0), 0xFFFF_FF80,
        "BASE of the receive ring, bits 31:0; 128-byte aligned";
    REG_RX_BASE_HI "RX_BASE_HI" = 0x44, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "BASE of the receive ring, bits 63:32";
    REG_RX_LOG2 "RX_LOG2" = 0x48, ReadWrite, Reset::Value(0), 0x0000_001F,
        "log2 of the entries of the receive ring, as TX_LOG2";
    REG_RX_HEAD "RX_HEAD" = 0x4C, ReadOnly, Reset::Value(0), 0x0000_FFFF,
        "HEAD of the receive ring: the entries before this one are filled";
    REG_RX_TAIL "RX_TAIL" = 0x50, ReadWrite, Reset::Value(0), 0x0000_FFFF,
        "TAIL of the receive ring: the entry behind the last empty buffer";
    REG_MSI_ADDRESS_LO "MSI_ADDRESS_LO" = 0x60, ReadWrite, Reset::Value(0), 0xFFFF_FFFC,
        "address that an interrupt is written to, bits 31:0; DW aligned";
    REG_MSI_ADDRESS_HI "MSI_ADDRESS_HI" = 0x64, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "address that an interrupt is written to, bits 63:32";
    REG_MSI_DATA "MSI_DATA" = 0x68, ReadWrite, Reset::Value(0), 0xFFFF_FFFF,
        "what an interrupt writes";
    REG_MSI_MODERATION_US "MSI_MODERATION_US" = 0x6C, ReadWrite, Reset::Value(0), 0x0000_FFFF,
        "microseconds from one interrupt to the next at least; a cause in between waits";
    REG_IRQ_CAUSE "IRQ_CAUSE" = 0x70, ReadOnly, Reset::Value(0), 0x0000_0007,
        "bit 0 RX_HEAD is not what RX_ARM was told, bit 1 TX_HEAD is not what TX_ARM was told, bit 2 the link is not as it was when its interrupt was armed";
    REG_IRQ_ARMED "IRQ_ARMED" = 0x74, ReadWrite, Reset::Value(0), 0x0000_0007,
        "causes that may interrupt; an interrupt takes the bits of its causes away";
    REG_RX_ARM "RX_ARM" = 0x78, WriteOnly, Reset::Value(0), 0x0000_FFFF,
        "software has seen the entries before this one: arms the receive interrupt, which comes at once if RX_HEAD is further";
    REG_TX_ARM "TX_ARM" = 0x7C, WriteOnly, Reset::Value(0), 0x0000_FFFF,
        "the same for the send ring and TX_HEAD";
    REG_READ_TIMEOUT_US "READ_TIMEOUT_US" = 0x80, ReadWrite, Reset::Value(1000), 0xFFFF_FFFF,
        "microseconds that a DMA read waits for its answer";
    REG_BUS "BUS" = 0x84, ReadWrite, Reset::Value(0x20), 0x0000_0033,
        "as in the device control register of PCI Express: bits 1:0 max payload (0: 128, 1: 256 bytes), 5:4 max read request (0: 128, 1: 256, 2: 512 bytes)";
}

/// A descriptor, in memory from DW 0 up.
pub const DESCRIPTOR: Layout = Layout {
    name: "descriptor_t",
    doc: "where a packet, or an empty buffer, lies",
    fields: &[
        Field::new(
            "done",
            1,
            Show::Flag,
            "written by the NIC: the entry has been sent or filled",
        ),
        Field::new(
            "failed",
            1,
            Show::Flag,
            "written by the NIC: the packet was not sent",
        ),
        Field::new("reserved_status", 14, Show::Zero, "written as 0"),
        Field::new(
            "received",
            16,
            Show::Dec,
            "written by the NIC: bytes of the packet, without FCS",
        ),
        Field::new("reserved", 15, Show::Zero, "write 0"),
        Field::new(
            "report",
            1,
            Show::Flag,
            "send: DW 3 is written when the packet has left; receive: it always is",
        ),
        Field::new(
            "bytes",
            16,
            Show::Dec,
            "send: of the packet, without FCS; receive: of the buffer",
        ),
        Field::new(
            "address",
            64,
            Show::Hex,
            "of the packet, any byte; of the buffer, DW aligned",
        ),
    ],
};

counters! {
    /// Counters of the ring NIC's PCIe side.
    RingPcieCounter, PCIE_COUNTER_BASE {
        TlpRegisterWrite "tlp_register_write" TlpEnd "write to BAR 0: the CPU writes of figure 3.5";
        TlpRegisterRead "tlp_register_read" TlpEnd "read of BAR 0: the CPU reads of figure 3.5";
        TlpCompletion "tlp_completion" TlpEnd "completion of a DMA read";
        TlpCompletionUnexpected "tlp_completion_unexpected" TlpEnd "completion that no read waits for";
        TlpUnsupported "tlp_unsupported" TlpEnd "request that is neither a read nor a write of one or two DWs of BAR 0: UR if it wants an answer";
        TlpPoisoned "tlp_poisoned" TlpEnd "TLP with EP set";
        TlpMalformed "tlp_malformed" TlpEnd "TLP whose length is not what its header says";
        RegisterRefused "register_refused" Event "a DW of BAR 0 that is read-only, unknown, or written with byte enables other than 0xF: nothing changes, a read gives 0";
        DmaReadTimeout "dma_read_timeout" Event "DMA read not answered in READ_TIMEOUT_US";
        DmaReadFailed "dma_read_failed" Event "DMA read answered with an error";
        TxDescriptorRead "tx_descriptor_read" Event "DMA read of send descriptors, up to 8 with one";
        TxPacketRead "tx_packet_read" Event "DMA read of a packet or, where it is longer than the max read request or crosses such a boundary, of a part of it";
        TxPacket "tx_packet" Event "packet handed to the wire";
        TxDescriptorBad "tx_descriptor_bad" Event "packet shorter than 14 bytes or longer than the longest frame: not sent";
        TxPacketLost "tx_packet_lost" Event "packet not sent because it could not be read";
        TxWriteBack "tx_write_back" Event "DMA write of a send descriptor's DW 3";
        RxDescriptorRead "rx_descriptor_read" Event "DMA read of receive descriptors, up to 8 with one";
        RxPacketWrite "rx_packet_write" Event "DMA write of a packet's bytes, of the max payload at most";
        RxPacket "rx_packet" Event "packet delivered: its descriptor's DW 3 was written";
        RxNoDescriptor "rx_no_descriptor" Event "frame dropped because the receive ring was empty, or receiving off";
        RxTooLong "rx_too_long" Event "frame dropped because it is longer than the buffer at HEAD";
        Msi "msi" Event "interrupt sent";
    }
}

counters! {
    /// Counters of the ring NIC's network side.
    RingNetCounter, NET_COUNTER_BASE {
        TxFrame "tx_frame" Event "frame sent";
        TxUnderrun "tx_underrun" Event "a frame was cut because its data came too late; never in a correct build";
        RxFrames "rx_frames" Event "frame received, good or bad: the sum of all ends below";
        RxGood "rx_good" FrameEnd "frame taken into the receive buffer";
        RxBadFcs "rx_bad_fcs" FrameEnd "frame check sequence wrong";
        RxRunt "rx_runt" FrameEnd "shorter than 64 bytes";
        RxGiant "rx_giant" FrameEnd "longer than the MAC takes";
        RxPhyError "rx_phy_error" FrameEnd "error symbol from the PHY inside the frame";
        RxBadPreamble "rx_bad_preamble" FrameEnd "no start-of-frame delimiter after the preamble";
        RxNotMine "rx_not_mine" FrameEnd "destination MAC address neither own nor a group's";
        RxOverflow "rx_overflow" FrameEnd "no room in the receive buffer: the host took DMA writes too slowly";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_lie_apart() {
        for pair in REGISTERS.windows(2) {
            assert!(pair[0].offset + 4 <= pair[1].offset, "{}", pair[1].name);
        }
        assert!(
            REGISTERS
                .iter()
                .all(|r| r.offset < 0x1000 && r.offset % 4 == 0)
        );
    }

    #[test]
    fn descriptor_fills_its_bytes() {
        assert_eq!(DESCRIPTOR.bytes(), DESCRIPTOR_BYTES as usize);
    }

    #[test]
    fn counters_have_one_name_each() {
        let mut names: Vec<_> = RingPcieCounter::ALL.iter().map(|c| c.name()).collect();
        names.extend(RingNetCounter::ALL.iter().map(|c| c.name()));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(RingPcieCounter::TxPacketRead.offset(), 0x1000 + 4 * 11);
    }
}
