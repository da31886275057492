// SPDX-License-Identifier: Apache-2.0
//! RoCEv2 packets, and a functional model of reliable queue pairs: what `docs/uzura.md` and the InfiniBand specification
//! (volume 1, chapters 9 to 11, and annex A17) say that a requester and a responder do.
//!
//! ```
//! use roce::{Address, Engine, Operation, Region, Segment, Settings, WorkRequest};
//! let [a, b] = [1, 2].map(|n| Address { mac: n, ip: n as u32 });
//! let mut ends = [a, b].map(|own| Engine::new(own));
//! for (end, peer) in ends.iter_mut().zip([b, a]) {
//!     end.set_region(7 << 8, Region { va: 0x1000, pd: 1, rights: Region::ALL, bytes: vec![0; 64] });
//!     end.begin(3, Settings { peer, peer_qpn: 3, ..Settings::default() });
//! }
//! let place = Segment { va: 0x1000, key: 7 << 8, bytes: 5 };
//! ends[1].post_receive(3, vec![place]);
//! ends[0].write(7, 0, b"hello");
//! ends[0].post(3, WorkRequest::new(Operation::Send, vec![place]));
//! let frame = ends[0].frames().remove(0);
//! ends[1].arrive(&frame);
//! assert_eq!(ends[1].read(7, 0, 5), b"hello");
//! ```
//!
//! It is the reference of the differential test of `crates/check` (`uzuratest`).
//!
//! What it does not do: time other than the microseconds of [`Engine::tick`]; datagrams, shared receive queues, and the
//! limits of hardware (buffers, translation tables, doorbells).
#![forbid(unsafe_code)]

mod engine;
mod frame;
mod memory;
mod packet;
mod pair;
mod request;
mod requester;
mod responder;

pub use engine::{Counters, Engine};
pub use frame::{Address, Refused, with_right_checksums};
pub use memory::{Region, Rights};
pub use packet::{Header, Packet, opcode};
pub use pair::{Settings, State};
pub use request::{Completion, Operation, Segment, Status, WorkRequest};

/// Packets that may wait for an acknowledgement, answers to READs aside.
pub const WINDOW: u32 = 64;
/// Requests that may wait for their end.
pub const OUTSTANDING: usize = 16;
/// Results of atomics that a responder keeps for a requester that asks again.
pub const REPLAYS: usize = 4;
/// Bytes that a request may have in itself.
pub const INLINE_BYTES: u32 = 64;
/// Segments of a work request.
pub const SEGMENTS: usize = 5;

/// AETH syndromes.
pub mod syndrome {
    /// Acknowledged, without a word on credits.
    pub const ACK: u8 = 0x1F;
    /// The responder is not ready; the lower bits say for how long.
    pub const NOT_READY: u8 = 0x20;
    /// A packet is missing.
    pub const SEQUENCE: u8 = 0x60;
    /// The request is none.
    pub const INVALID: u8 = 0x61;
    /// Key, rights or bounds.
    pub const ACCESS: u8 = 0x62;
    /// The responder could not do it.
    pub const OPERATION: u8 = 0x63;

    /// What the upper bits say of the lower ones: acknowledged, not ready, or not acknowledged.
    pub const KIND_BITS: u32 = 5;
}

/// Numbers of packets have this many bits.
pub const PSN_MASK: u32 = 0xFF_FFFF;

/// `a - b` modulo the range of packet numbers.
#[must_use]
pub const fn distance(a: u32, b: u32) -> u32 {
    a.wrapping_sub(b) & PSN_MASK
}

/// `a` lies before `b`: by up to half of all numbers.
#[must_use]
pub const fn is_before(a: u32, b: u32) -> bool {
    distance(a, b) > PSN_MASK / 2
}
