// SPDX-License-Identifier: Apache-2.0
//! A NIC in software: the reference model of the `model` crate, with memory of this process where the hardware has the
//! host's, and UDP sockets, AF_XDP or a TAP device where it has a cable. On the wire it can't be told from the hardware,
//! and it talks to it.
//!
//! ```
//! use softnic::{Config, PeerAddress, Segment, Share, SoftNic, Udp};
//!
//! // Two machines; what they tell each other here goes over the management network in earnest.
//! let nic = |ip| SoftNic::new(Config::default(), Box::new(Udp::bind(ip)?));
//! let mut writer = nic([127, 9, 8, 1].into())?;
//! let mut reader = nic([127, 9, 8, 2].into())?;
//! let (at_writer, at_reader) = (writer.reserve_session()?, reader.reserve_session()?);
//! writer.open_session(at_writer, &PeerAddress::of(&reader, at_reader, 50))?;
//! reader.open_session(at_reader, &PeerAddress::of(&writer, at_writer, 50))?;
//!
//! let memory = Segment::anonymous(65536)?;
//! let shared = reader.share(&memory, &Share::writable(0, 65536))?;
//! let window = writer.map(at_writer, &shared, 0, 65536)?;
//! assert_eq!(writer.store(&window, 0x100, b"hello")?, 5);
//! let mut seen = [0; 5];
//! while seen != *b"hello" {
//!     writer.poll()?;
//!     reader.poll()?;
//!     memory.read(0x100, &mut seen);
//! }
//! # Ok::<(), softnic::Error>(())
//! ```
//!
//! What it does not do: agree with its peers on sessions, keys and epochs (the daemon does, over the management network),
//! threads (call [`SoftNic::poll`] when [`SoftNic::descriptor`] is readable and when [`SoftNic::deadline`] has passed,
//! or all the time), and pacing: it sends as fast as it is asked to.

mod config;
mod error;
mod loads;
mod memory;
mod nic;
mod outside;
mod pages;
mod transport;

pub use config::Config;
pub use error::Error;
pub use memory::Segment;
pub use nic::{Event, PeerAddress, Refusal, Share, Shared, SoftNic, Unloaded, Window};
pub use transport::{AfXdp, FaultCounts, Faults, Faulty, Identity, Tap, Transport, Udp};
