// SPDX-License-Identifier: Apache-2.0
//! Control plane of the FIBNIC switch for where there is no operating system behind its host port:
//! the virtual rack, and tests. Frames of the host port go in; frames, and words for the switch's
//! memories, come out. Time is given in nanoseconds; there is no clock, no thread and no I/O.
//!
//! ```
//! use control::{Action, Config, Control, HostFrame, PortConfig};
//!
//! let mut config = Config::default();
//! for port in 0..4 {
//!     let address = format!("10.0.{port}.1/24").parse()?;
//!     config.ports.push(PortConfig {
//!         mac: [2, 0, 0, 0, 0, port],
//!         addresses: vec![address],
//!         ..PortConfig::default()
//!     });
//! }
//! config.routes.push("192.0.2.0/24 via 10.0.3.9".parse()?);
//! let mut control = Control::new(config)?;
//! for action in control.start(0) {
//!     if let Action::Write(write) = action {
//!         // Give write.memory, write.address and write.data to the switch's write channel.
//!         # let _ = write;
//!     }
//! }
//! // "Who has 10.0.1.1?" came in by port 1.
//! let mut request = vec![0xFF; 6];
//! request.extend([2, 0, 0, 0, 9, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 9, 9]);
//! request.extend([10, 0, 1, 7, 0, 0, 0, 0, 0, 0, 10, 0, 1, 1]);
//! let frame = HostFrame { port: 1, verdict: 2, bad: false, bytes: &request };
//! let actions = control.host_frame(1_000, &frame);
//! assert!(actions.iter().any(|action| matches!(action, Action::Send { port: 1, .. })));
//! # Ok::<(), control::Error>(())
//! ```
//!
//! It answers ARP and neighbour solicitations, resolves next hops, answers echo requests, sends the
//! ICMP errors that a router has to send, forwards what hardware left to it (options, fragments,
//! frames that waited for a neighbour), and keeps the lookup's tables by a [`fib::Fib`] of its own.
//! What it does of each RFC, and what not, is in `docs/fibnic-rfc.md`.
//!
//! What it does not do: routing protocols, router advertisements, multicast routing, reassembly,
//! TCP. With Linux behind the host port ([`tap`]) the kernel and its daemons do those.
#![forbid(unsafe_code)]

mod action;
mod address;
mod arp;
mod config;
mod error;
mod extension;
mod fragment;
mod icmp;
mod ipv4;
mod ipv6;
mod limit;
mod ndp;
mod neighbours;
mod plane;
mod tables;
pub mod tap;

pub use action::{Action, Change, HostFrame, Write};
pub use address::Subnet;
pub use config::{Config, Neighbour, PortConfig, Route, Timers, Via};
pub use error::Error;
pub use fib::police::Police;
pub use model::switch::{Check, Verdict};
pub use plane::{Control, Stats};
