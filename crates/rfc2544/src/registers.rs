// SPDX-License-Identifier: Apache-2.0
//! Registers of the instrument (`docs/rfc2544.md`), and what of the switch's is needed.

pub const CONTROL: u16 = 0x002;
pub const CONTROL_START: u64 = 1 << 0;
pub const CONTROL_CLEAR: u64 = 1 << 2;

pub const SRC_MAC: u16 = 0x010;
pub const DST_MAC: u16 = 0x011;
pub const STREAM: u16 = 0x012;
pub const SIZE: u16 = 0x013;
pub const COUNT: u16 = 0x014;
pub const INTERVAL: u16 = 0x015;
pub const BURST: u16 = 0x016;
/// The low half follows, here and below.
pub const SRC_IP_HI: u16 = 0x018;
pub const DST_IP_HI: u16 = 0x01A;
pub const SWEEP: u16 = 0x01E;
pub const LIST: u16 = 0x020;
pub const TX_FRAMES: u16 = 0x030;

/// Counters of a receiver that stay 0 when the switch passes on what it was sent.
pub const RX_FAULTS: [(u16, &str); 6] = [
    (0x040, "frames with a bad preamble"),
    (0x041, "frames with an error on the line"),
    (0x042, "frames that are too long"),
    (0x043, "frames that are too short"),
    (0x044, "frames with a wrong FCS"),
    (0x046, "frames that the instrument did not send"),
];

/// Reads as the base in use, with this bit when it was chosen by the first frame.
pub const HISTOGRAM_BASE: u16 = 0x050;
pub const HISTOGRAM_AUTO: u64 = 1 << 63;
pub const HISTOGRAM: u16 = 0x100;
pub const HISTOGRAM_BINS: u16 = 64;
pub const HISTOGRAM_BELOW: u16 = 0x140;
pub const HISTOGRAM_ABOVE: u16 = 0x141;

// Results of a stream, from its first register on.
pub const RX_FRAMES: u16 = 0;
pub const LATENCY_MIN: u16 = 2;
pub const LATENCY_MAX: u16 = 3;
pub const LATENCY_SUM: u16 = 4;
pub const DUPLICATES: u16 = 6;
pub const REORDERED: u16 = 7;
pub const STALE: u16 = 8;
pub const PAYLOAD_ERRORS: u16 = 9;
pub const RX_FIRST: u16 = 11;
pub const RX_LAST: u16 = 12;

/// Addresses that a port can go through.
pub const LIST_ENTRIES: usize = 1024;

/// Low and high half of an entry of the address list.
pub const fn list_entry(entry: usize) -> (u16, u16) {
    const LIST_AREA: u16 = 0x800;
    let low = LIST_AREA + 2 * entry as u16;
    (low, low + 1)
}

/// A result of the stream of a sender.
pub const fn stream_result(sender: usize, offset: u16) -> u16 {
    const STREAM_AREA: u16 = 0x200;
    STREAM_AREA + 16 * sender as u16 + offset
}

/// Family, sender and TTL.
pub const fn stream(v6: bool, sender: usize) -> u64 {
    const TTL: u64 = 64;
    v6 as u64 | (sender as u64) << 4 | TTL << 8
}

/// `fib_pkg::MemPort`, the settings of the switch's ports.
pub const MEM_PORT: u8 = 26;
/// `fib_pkg::MemDrain`.
pub const MEM_DRAIN: u8 = 31;

/// Address of a port's MAC address in [`MEM_PORT`].
pub const fn port_mac(port: usize) -> u32 {
    (port as u32) << 3
}

/// A counter of the switch.
pub const fn counter(port: usize, index: u16) -> u16 {
    (port as u16) << 7 | index
}

/// Verdicts other than "forward" (`fibnic_pkg::verdict_e`).
pub const COUNT_NOT_FORWARDED: std::ops::RangeInclusive<u16> = 1..=17;
/// Dropped whole as the output was occupied.
pub const COUNT_FULL: u16 = 18;
