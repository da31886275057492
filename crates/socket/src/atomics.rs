// SPDX-License-Identifier: Apache-2.0
//! What [`crate::latch`] is made of. Its model check puts other definitions in the place of these.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, Ordering};

pub use rustix::thread::sched_yield;
