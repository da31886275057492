// SPDX-License-Identifier: Apache-2.0
//! Tests of the switch's RTL that are too large for its benches: random frames against the
//! reference model, route changes under traffic, and tables of a million routes.

pub mod differential;
pub mod drive;
pub mod flow;
pub mod frames;
pub mod line;
pub mod lookup;
pub mod lpm;
pub mod resets;
pub mod tables;
pub mod updates;
pub mod whole;
pub mod world;
