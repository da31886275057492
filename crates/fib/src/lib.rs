// SPDX-License-Identifier: Apache-2.0
//! Routes in, ordered memory writes out: the table builder and updater of the FIBNIC switch.
//!
//! [`Fib`] keeps the routes and a copy of the lookup's memories. Each change returns the list of
//! writes that takes the hardware from the old to the new state without disturbing a lookup: new
//! words first, then one atomic word that leads to them; what was replaced is free for the next
//! use after a drain marker. [`Image`] is the memories alone, with the lookup walked as the RTL
//! walks it; [`layout`] has every field of every word.
//!
//! ```
//! use fib::{Config, Fib, NextHop, NextHopId, Op, Port};
//!
//! let mut fib = Fib::new(Config::default())?;
//! let mut hardware = fib.image().cleared();
//! let (port, mac) = (Port::Network(2), Some([2, 0, 0, 0, 0, 7]));
//! fib.set_next_hop(NextHopId(7), NextHop { port, mac })?.iter().for_each(|op| hardware.apply(op));
//! for op in fib.announce4("192.0.2.0/25".parse()?, NextHopId(7))? {
//!     match op {
//!         Op::Write(write) => hardware.write(write),
//!         Op::Drain => { /* wait for the lookups under way */ }
//!     }
//! }
//! assert_eq!(hardware.lookup4(0xc000_0201).next_hop(), 7);
//! assert_eq!(fib.lookup4(0xc000_0281), None);
//! # Ok::<(), fib::Error>(())
//! ```
//!
//! Two builds of each family: `runvec` (three dependent reads, all lengths) or `sram22` (the
//! dissertation's 4 MB SRAM) for IPv4; a trie of nine reads up to /64 with exact match for /128
//! and a TCAM between, or the dissertation's TCAM alone, for IPv6.
//!
//! It does not talk to hardware or kernel, choose among several routes to one prefix, or spread
//! over several next hops (a port code is reserved for such groups).

#![forbid(unsafe_code)]

pub mod acl;
mod alloc;
pub mod device;
mod error;
mod exact;
mod fib;
mod hw;
mod image;
pub mod layout;
mod metrics;
pub mod police;
mod prefix;
mod routes;
mod runvec;
mod sram22;
pub mod synth;
mod tcam;
mod trie6;

pub use error::Error;
pub use exact::MAX_MOVES;
pub use fib::{Config, Config4, Config6, Fib, NextHop, NextHopId, Port};
pub use image::{Image, Op, Write};
pub use metrics::{MemoryUse, Metrics};
pub use prefix::{Prefix4, Prefix6};
