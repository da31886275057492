// SPDX-License-Identifier: Apache-2.0
//! The `pcie` back end: a board with the IP-NUMA NIC.
//!
//! Stores go to BAR 2, mapped write-combined from sysfs; registers and tables are BAR 0; memory of regions is known to
//! the board through VFIO or as huge pages. No board was at hand when this was written: everything above [`bar::Bar`] and
//! [`memory::Mapper`] is tested against the reference model of the NIC, the files of sysfs against a directory that looks
//! like it, and what remains (that a board's BARs behave as mapped memory, that the kernel's write-combining does what it
//! promises, VFIO's calls) is untested.

mod backend;
pub mod bar;
mod board;
pub mod combining;
mod config;
pub mod control;
mod error;
mod events;
pub mod memory;
mod pages;
mod share;
pub mod sysfs;
mod vfio;
mod window;

pub use backend::Pcie;
pub use board::{Board, Parts};
pub use config::{MacAddress, MemoryKind, PcieConfig, PeerConfig};
pub use error::PcieError;
pub use share::{BoardMemory, Range, Share};
pub use vfio::Vfio;
pub use window::BoardWindow;
