// SPDX-License-Identifier: Apache-2.0
//! `libipnuma_socket.so`: preloaded into a program, it takes the C library's socket calls.
//!
//! Each function here asks the `socket` crate; where the descriptor is none of ours (one load), the C library's own
//! function runs. Nothing is linked against these symbols but programs that are started with `LD_PRELOAD`.
#![allow(
    clippy::missing_safety_doc,
    reason = "each function is the C library's of that name; its manual page is the contract"
)]
#![allow(missing_docs, reason = "as above")]

mod about;
mod also;
mod confined;
mod data;
mod descriptors;
mod elsewhere;
mod events;
mod handlers;
mod life;
mod next;
mod sockets;
mod stdio;
mod system;
mod transfer;
mod variadic;

use rustix::io::Errno;

/// Sets errno.
#[cold]
fn set_errno(errno: i32) {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// A result as the C library gives it.
#[inline(always)]
fn answer(result: Result<usize, Errno>) -> isize {
    match result {
        Ok(count) => count as isize,
        Err(error) => {
            set_errno(error.raw_os_error());
            -1
        }
    }
}

/// A result of a call that gives 0 or -1.
fn status(result: Result<(), Errno>) -> i32 {
    answer(result.map(|()| 0)) as i32
}
