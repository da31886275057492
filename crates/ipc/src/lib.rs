// SPDX-License-Identifier: Apache-2.0
//! How a process speaks with the daemon of its machine: tokens, messages, and the client that sends them.
//!
//! ```no_run
//! use ipc::client::{Client, default_path, unexpected};
//! use ipc::protocol::{Reply, Request};
//!
//! # fn main() -> ipc::Result<()> {
//! let client = Client::connect(&default_path(), "example")?;
//! let (reply, descriptors) = client.request(&Request::Create { bytes: 4096 })?;
//! let Reply::Region { region } = reply else {
//!     return Err(unexpected(reply));
//! };
//! println!("region {region} is the memory behind {:?}", descriptors[0]);
//! # Ok(())
//! # }
//! ```
//!
//! The [`protocol`] has a request for each thing that a daemon does, and says which descriptors come with the answer; they
//! travel in [packets](packet). A [`token::Token`] is the right to a range of memory, in 64 bytes. Stores to another
//! machine's memory are no requests: they go through a ring of [`operations`].
//!
//! What it does not do:
//! - It maps nothing of what the daemon gives but its own notice page; what descriptors mean is for those who asked.
//! - It does not look for the daemon again when that is gone: a [`client::Client`] that has lost it is of no more use.
//! - It keeps no version but the daemon's own: both are installed together.

pub mod client;
pub mod credentials;
pub mod error;
pub mod operations;
pub mod packet;
pub mod protocol;
pub mod token;

pub use error::{Error, Result};
pub use token::{Rights, Token};
