// SPDX-License-Identifier: Apache-2.0
//! Functional reference model of the IP-NUMA NIC: what `docs/architecture.md` and
//! `docs/wire-format.md` say that it does, without any timing.
//!
//! TLPs from the root complex and frames from the wire go in as bytes; what the NIC sends goes to a
//! [`Sink`], in order. Registers and tables are reached as on the hardware, by TLPs to BAR 0.
//!
//! ```
//! use model::{BAR_REGISTERS, Config, Effect, Nic};
//! use wire::{MemRequest, TlpHeader, registers};
//!
//! let mut nic = Nic::new(Config::default());
//! let read_id = TlpHeader::MemRead(MemRequest {
//!     length: 1,
//!     first_be: 0xF,
//!     address: u64::from(registers::REG_ID),
//!     ..MemRequest::default()
//! });
//! let mut effects = Vec::new();
//! nic.tlp_from_root(&read_id.emit(&[])?, BAR_REGISTERS, &mut effects);
//! let Effect::Tlp(_, completion) = &effects[0] else { panic!("registers answer with TLPs") };
//! assert_eq!(completion[12..], registers::ID_VALUE.to_le_bytes());
//! # Ok::<(), wire::TlpError>(())
//! ```
//!
//! It is the golden model of the differential test against the RTL, and meant as the engine of a
//! NIC in software: nothing is allocated for an operation, except while it waits for a DMA tag, and
//! for the first time that a slot of the send buffer is used.
//!
//! What it does not do: time other than the microseconds of [`Nic::tick`] and the ticks of
//! [`Nic::tick_net`], so the frames of a session are not paced; the limits of the hardware's queues
//! for frames to the wire (so `deny_dropped`, `arp_dropped` and `tx_underrun` stay 0) and of stores
//! that wait for their session; several stores in one frame; and operations in parallel: each input
//! is worked off before the next.
//!
//! The switch has a model of its own: [`switch::SwitchModel`].
#![forbid(unsafe_code)]

mod build;
mod bytes;
mod counters;
mod effects;
mod events;
mod memory;
mod nic;
mod registers;
mod requester;
mod server;
mod session;
pub mod switch;
mod tables;
mod tags;
mod verdict;

pub use counters::Counters;
pub use effects::{Effect, FrameSource, Sink, TlpSource};
pub use memory::Memory;
pub use nic::{Config, DmaRead, Load, Nic};
pub use registers::Registers;
pub use requester::{BAR_PAGES, BAR_REGISTERS};
pub use server::LineFault;
pub use tables::{Entry, Table};
pub use tags::TagPool;
pub use verdict::{ErrorReport, Peer};
