// SPDX-License-Identifier: Apache-2.0
//! A whole Linux machine on a simulated clock: a User-Mode Linux kernel in external time-travel mode, with its virtio network
//! cards and PCI devices, and nothing of what they are connected to.
//!
//! ```no_run
//! use uml::{DeviceSpec, Guest, GuestSpec, Next};
//!
//! let mut guest = Guest::start(GuestSpec {
//!     name: "a".into(),
//!     kernel: uml::kernel()?,
//!     memory_mb: 64,
//!     directory: "/tmp/a".into(),
//!     init: "/tmp/a.sh".into(),
//!     parameters: vec![],
//!     devices: vec![DeviceSpec::Network { mac: [2, 0, 0, 0, 0, 1] }],
//!     counter: false,
//!     id: 1,
//! })?;
//! let mut events = Vec::new();
//! let status = loop {
//!     match guest.next() {
//!         Next::At(time) => drop(guest.run(time, time + 1_000_000, 500, &mut events)?),
//!         Next::Never => break None, // it waits for a frame, and nobody sends one here
//!         Next::Exited(status) => break Some(status),
//!     }
//! };
//! # Ok::<(), uml::Error>(())
//! ```
//!
//! The caller owns the calendar: it lets a guest run, takes what the guest did ([`Timed`] events), and delivers frames,
//! answers, interrupts and DMA while the guest waits. The same calls give the same events, byte for byte: nothing here
//! depends on the machine's clock ([`docs/uml.md`] says what is done for that).
//!
//! What it does not do: more than one processor in a guest, a cost of computing (code takes no simulated time unless it
//! waits), memory maps of a BAR in user space, BARs above 16 MB.
//!
//! [`docs/uml.md`]: https://github.com/ip-numa/ip-numa/blob/main/docs/uml.md
#![forbid(unsafe_code)]

mod cpu;
mod error;
mod guest;
mod memory;
mod network;
mod pci;
mod process;
mod ring;
mod spec;
mod time_travel;
mod vhost_user;

pub use cpu::OneCpu;
pub use error::Error;
pub use guest::Guest;
pub use process::{WALL_CLOCK_NS, kernel, rdma_kernel};
pub use spec::{DeviceSpec, GuestEvent, GuestSpec, Next, PciSpec, Timed};
