// SPDX-License-Identifier: Apache-2.0
//! Packet, TLP, register and table layouts of IP-NUMA, written once.
//!
//! Everything that must agree between the NIC's SystemVerilog, the host software, the reference model and Wireshark is
//! a table in this crate ([`mod@format`], [`tables`], [`registers`], [`counters`]); `wire-gen` prints the SystemVerilog
//! package, the register documentation and the dissector from the same tables, and the codecs here read their field
//! positions from them at compile time. `docs/wire-format.md` is the same thing in prose.
//!
//! ```
//! use wire::{Compact, Frame, Mac, Payload, UDP_PORT};
//!
//! let frame = Frame {
//!     dst_mac: Mac([2, 0, 0, 0, 0, 2]),
//!     src_mac: Mac([2, 0, 0, 0, 0, 1]),
//!     src_ip: [10, 0, 0, 1].into(),
//!     dst_ip: [10, 0, 0, 2].into(),
//!     src_port: UDP_PORT,
//!     dst_port: UDP_PORT,
//!     payload: Payload::Compact(Compact {
//!         sequence: 7,
//!         acknowledgement: None,
//!         key: 3,
//!         offset: 0x100,
//!         trail: 0,
//!         data: vec![1, 2, 3, 4, 5, 6, 7, 8],
//!     }),
//! };
//! let bytes = frame.emit(0x5A5)?; // 0x5A5 is the region's tag
//! assert_eq!(bytes.len(), 60); // an 8-byte store is a minimum frame; the FCS comes from `fcs`
//! let parsed = Frame::parse(&bytes)?;
//! assert_eq!((parsed.frame, parsed.tag), (frame, 0x5A5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: decide whether a frame is for this NIC or permitted (the `model` crate does, in the order of
//! `docs/wire-format.md`), keep sequence numbers, or touch sockets and devices.
#![forbid(unsafe_code)]

pub mod counters;
mod crc;
pub mod format;
mod frame;
pub mod layout;
pub mod registers;
pub mod ring;
pub mod seal;
pub mod tables;
pub mod tlp;

pub use counters::{NetCounter, PcieCounter};
pub use crc::{crc16, crc16_from, crc32c, crc32c_from, fcs};
pub use format::*;
pub use frame::*;
pub use ring::{RingNetCounter, RingPcieCounter};
pub use tables::{
    EventEntry, KeyEntry, KeyUse, PageMapEntry, PcIdEntry, RegionEntry, SessionEntry, SessionStatus,
};
pub use tlp::{
    Completion, CompletionStatus, MemRequest, TlpError, TlpHeader, TlpView, byte_enables,
    byte_enables_valid, contiguous, first_byte, read_byte_count,
};
