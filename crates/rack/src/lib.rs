// SPDX-License-Identifier: Apache-2.0
//! The virtual rack: hosts, PCI Express links, NICs and switches in RTL, and cables on one calendar in whole picoseconds.
//!
//! A [`Topology`] says what there is and what runs, a [`platform::Platform`] has the constants of what is not
//! simulated, each with its source, and [`run::run`] makes an [`run::Outcome`] of them. Two runs with the same topology
//! and seed do the same to the picosecond; [`record::Recorder::digest`] is the proof.
//!
//! ```no_run
//! use std::path::Path;
//! use rack::{Topology, run};
//! # fn main() -> Result<(), rack::Error> {
//! let topology = Topology::load(Path::new("rack.toml"))?;
//! let outcome = run::run(&topology, &run::Options::default(), &run::rtl)?;
//! println!("one way {:.1} ns", outcome.record.one_way.mean_ns());
//! println!("run hash {}", outcome.record.digest());
//! # Ok(())
//! # }
//! ```
//!
//! Cables can lose, change, double and delay frames, see [`faults`]. Not here: caches, more than one core a host.

#![forbid(unsafe_code)]

pub mod address;
pub mod calendar;
pub mod capture;
pub mod cpu;
pub mod engine;
pub mod error;
pub mod faults;
pub mod frame;
pub mod guest;
pub mod guests;
pub mod host;
pub mod host_port;
pub mod ideal;
pub mod ids;
pub mod init;
pub mod library;
pub mod live;
pub mod memory;
pub mod meter;
pub mod model;
pub mod nic;
pub mod outage;
pub mod passage;
pub mod pcie;
pub mod pingpong;
pub mod platform;
pub mod rack;
pub mod record;
pub mod root;
pub mod run;
pub mod scratch;
pub mod sending;
pub mod setup;
pub mod stream;
pub mod switch;
pub mod switch_host;
pub mod tables;
mod text;
pub mod time;
pub mod timeline;
pub mod topology;
pub mod waiting;
pub mod wire_nic;
pub use error::{Error, located};
pub use ipnuma_rtl::NetSpeed;
pub use time::Picoseconds;
pub use topology::Topology;
