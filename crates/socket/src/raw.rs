// SPDX-License-Identifier: Apache-2.0
//! System calls without the C library, whose symbols the preload library replaces.
//!
//! `rustix` covers most of what is needed; here is the rest: calls that take a signal mask, and structures that must
//! reach the kernel as the program laid them out.

use rustix::io::Errno;

pub use crate::wait::clock::{milliseconds, shared_milliseconds, ticks};

/// A millisecond of [`ticks`], by the order of magnitude, where the measured one would cost too much.
pub const MILLISECOND: u64 = 2_500_000;

pub use shm::raw::syscall;

/// [`syscall`] with the kernel's convention for errors taken apart.
///
/// # Safety
/// As [`syscall`].
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on.
    let result = unsafe { syscall(number as usize, arguments) };
    if (-4095..0).contains(&result) {
        Err(Errno::from_raw_os_error(-result as i32))
    } else {
        Ok(result as usize)
    }
}
