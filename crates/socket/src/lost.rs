// SPDX-License-Identifier: Apache-2.0
//! A connection that came from another process, and whose channel this one cannot have: its twin bears the
//! mark (`stream/mark.rs`), and no daemon knows it here.
//!
//! What was sent on it is not in the kernel's socket, so nobody here may read or write that as if it were the connection. The
//! first use resets it. Until then it is left alone: a program that only inherited it must not end it for who uses it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process;
use crate::stream::borrow;

/// A connection that cannot be used here.
#[derive(Debug, Default)]
pub struct Lost {
    reset: AtomicBool,
}

impl Lost {
    /// The program uses it.
    #[cold]
    pub fn touch(&self, fd: RawFd) {
        if self.reset.swap(true, Ordering::AcqRel) {
            return;
        }
        process::trace(|| {
            format!("descriptor {fd}: reset, no daemon here knows the connection's channel")
        });
        let _ = rustix::net::connect_unspec(borrow(fd));
    }
}
