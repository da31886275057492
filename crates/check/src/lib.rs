// SPDX-License-Identifier: Apache-2.0
//! The RTL against the reference models, with more traffic than the module benches in `verif/` can bear.
//!
//! | module, program | what it runs |
//! |---|---|
//! | [`difftest`] | the NIC's RTL and its model get the same random operations, and all outputs are compared |
//! | [`switchtest`] | the switch: random frames against its model, route changes under traffic, a million routes |
//! | [`faulttest`] | pairs of NICs, RTL and model, over a channel with every fault a network has; fuzz of received frames |
//! | [`uzuratest`] | the RDMA engine: pairs, RTL and model, over a channel with faults; random packets and requests |
//!
//! ```text
//! cargo run --release -p check --bin difftest -- --help
//! cargo run --release -p check --bin switchtest -- --mode tables
//! cargo run --release -p check --bin faulttest -- --fuzz
//! cargo run --release -p check --bin uzuratest -- --packets 1000000
//! ```
//!
//! Each program prints its seed first; the same seed and options give the same run. The programs only read options and
//! print results: what they run is here, so that the tests in `tests/` can spoil an output and see that it is found.
//!
//! What it does not do: measure rates and latencies (`rack` does), or test a module alone (`verif/`).
#![forbid(unsafe_code)]

pub mod difftest;
pub mod faulttest;
pub mod program;
pub mod switchtest;
pub mod uzuratest;
