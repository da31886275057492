// SPDX-License-Identifier: Apache-2.0
//! What [`crate::latch`] is made of. Its model check puts other definitions in the place of these.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, Ordering};

pub use rustix::thread::sched_yield;

pub use crate::signals::handlers::{enter, leave};

/// Lets others run for a while: whoever holds a latch may do what takes its time.
#[cold]
pub fn rest() {
    let _ = rustix::thread::nanosleep(&crate::wait::timespec(std::time::Duration::from_micros(
        100,
    )));
}
