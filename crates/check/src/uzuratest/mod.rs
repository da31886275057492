// SPDX-License-Identifier: Apache-2.0
//! The RDMA engine UZURA: its RTL against the functional model of `crates/roce`.
//!
//! - [`flow`]: queue pairs between RTL and model, or RTL and RTL, over a channel that loses, repeats, delays and alters frames,
//!   with receivers that are not ready. An oracle knows what each message must do.
//! - [`fuzz`]: both get the same packets and work requests, right, wrong and random, one after the other, and must answer,
//!   write, complete and count the same.
//!
//! What it does not do: datagrams and shared receive queues (`verif/uzura` has them), PCI Express (`rack`), latencies.

pub mod channel;
pub mod driver;
pub mod end;
pub mod flow;
pub mod fuzz;
pub mod host;
pub mod oracle;

pub use end::End;
