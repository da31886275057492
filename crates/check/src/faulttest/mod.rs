// SPDX-License-Identifier: Apache-2.0
//! Fault matrix: two NICs, RTL or model, with a host each, and between them a channel that loses,
//! doubles, reorders, alters, delays and replays whole frames.
//!
//! Every store is written down by an oracle when it is issued ([`stream`]); it must arrive once and
//! in order, or be reported.
//!
//! What it does not do: compare the NIC with the model cycle by cycle or frame by frame ([`crate::difftest`]
//! does), or measure rates and latencies (`rack`).

pub mod channel;
pub mod end;
pub mod fuzz;
pub mod host;
pub mod ledger;
pub mod matrix;
pub mod plan;
pub mod sim;
pub mod stream;
