// SPDX-License-Identifier: Apache-2.0
//! Differential test: the NIC's RTL and the reference model get the same random operations, and
//! everything that comes out is compared: TLPs, frames, host memory and all counters.

pub mod bench;
pub mod dut;
pub mod expect;
pub mod frames;
pub mod phy;
pub mod pins;
pub mod world;
