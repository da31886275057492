// SPDX-License-Identifier: Apache-2.0
//! Memory that processes share, and what lies in it without the kernel's help: line rings, channels, locks.
//!
//! ```
//! use std::os::fd::AsFd;
//! use shm::channel::{Channel, attach};
//!
//! # fn main() -> shm::Result<()> {
//! let (_, memory) = Channel::create(64)?; // a memfd: other processes get its descriptor
//! let client = attach(memory.as_fd(), 0)?;
//! let server = attach(memory.as_fd(), 1)?; // there
//!
//! client.sender().try_send(1, &[b"hello"]).expect("the ring is empty");
//! let mut into = [0; 8];
//! assert_eq!(server.receiver().read(1, &mut into).0, 5);
//! # Ok(())
//! # }
//! ```
//!
//! [`memory`] makes and maps memfds of sealed size; a [`ring`] carries messages through 64-byte lines of it; a [`channel`]
//! is two rings and all that the two ends of a connection remember, with a [lock](channel::Lock) that outlives its owner, of whom
//! a register of the [living] tells.
//!
//! What it does not do:
//! - It knows no daemon, no token and no device: who may have which memory is decided by those who pass descriptors on.
//! - It does not wait. It says who has to be woken ([`channel::End::peer_armed`]); waking is the callers' business.
//! - It does not believe what lies in a ring, but it cannot stop a peer from changing bytes that are being read.

pub mod channel;
pub mod error;
pub mod living;
pub mod memory;
pub mod raw;
pub mod ring;

pub use error::{Error, Result};
