// SPDX-License-Identifier: Apache-2.0
//! The host library of IP-NUMA: memory that programs on other machines, or in other processes, store to directly.
//!
//! A server allocates a [`Region`], exports a range of it as a 64-byte [`Token`], and hands that to whom it trusts. A
//! requester connects the token and gets a [`Window`]: it stores, fences, flushes and checks.
//!
//! ```no_run
//! use std::sync::atomic::Ordering;
//! use host::{Device, Flush, Rights};
//!
//! # fn main() -> host::Result<()> {
//! let device = Device::open_default()?;
//! let region = device.alloc(4096)?;
//! let token = region.export(0..4096, Rights::Write, None)?; // 64 bytes: send them to the other program
//!
//! let window = device.connect(&token)?; // there
//! let epoch = window.epoch();
//! window.put_signal(64, b"hello", 0, 1)?; // bytes, then the word at 0, then a wake-up
//! window.flush(Flush::Delivered, None)?;
//! window.check(epoch)?; // nothing was lost
//!
//! region.wait_until(None, || (region.word(0).load(Ordering::Acquire) == 1).then_some(()))?; // here
//! # Ok(())
//! # }
//! ```
//!
//! On top of that, [`ring::create`] and [`ring::connect`] carry messages with credit. Below are the [back ends](backend):
//! `soft` needs a daemon, with which it speaks by [`ipc`]; `pcie` a board; `rack` the NIC of a guest in the virtual rack.
//! How shared memory is made, mapped and filled is in [`shm`].
//!
//! What it does not do:
//! - It does not encrypt or authenticate users: a token is a capability, the daemon serves one user (and root).
//! - Stores are not transactions: others see them line by line, in the order that fences give.
//! - In coherent memory of one machine the right to write includes the right to read; a device can tell them apart.
//! - A revoked holder's mapping on the same machine stays mapped. It is the owner's memory that moves.
//! - A [`Device`] does not survive `fork`: the child opens one of its own.

pub mod backend;
pub mod clock;
pub mod config;
pub mod device;
pub mod error;
pub mod policy;
pub mod ring;

pub use backend::{Flush, Info};
pub use config::Config;
pub use device::{Device, Epoch, Region, Stores, Window};
pub use error::{Error, Result};
pub use ipc::token::{Rights, Token};
