// SPDX-License-Identifier: Apache-2.0
//! The twin says of itself that its connection's bytes go another way.
//!
//! A process that gets a connection from another one asks its daemon for the channel. Where the daemon that made the channel is
//! gone, or is not the receiver's, nobody answers, and the twin alone looks like a connection on which nothing was sent. So it
//! bears a mark: a value of TCP_NOTSENT_LOWAT that no program sets, which goes with the socket wherever it goes and bounds
//! nothing. What the program sets instead lies in the channel until the connection is the kernel's.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use super::{Stream, word};
use crate::raw;

/// More than any socket buffers.
const MARK: u32 = 0x6970_6e75;

/// Whether a socket is the twin of a connection that is in a channel.
pub(crate) fn is_marked(fd: RawFd) -> bool {
    value(fd) == Some(MARK)
}

fn value(fd: RawFd) -> Option<u32> {
    let (mut value, mut length) = (0u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the kernel writes a number of that length at most.
    let result = unsafe {
        raw::syscall(
            libc::SYS_getsockopt as usize,
            [
                fd as usize,
                libc::IPPROTO_TCP as usize,
                libc::TCP_NOTSENT_LOWAT as usize,
                &raw mut value as usize,
                &raw mut length as usize,
                0,
            ],
        )
    };
    (result == 0).then_some(value)
}

fn set(fd: RawFd, value: u32) {
    // SAFETY: the kernel reads a number of that length.
    unsafe {
        raw::syscall(
            libc::SYS_setsockopt as usize,
            [
                fd as usize,
                libc::IPPROTO_TCP as usize,
                libc::TCP_NOTSENT_LOWAT as usize,
                &raw const value as usize,
                size_of::<u32>(),
                0,
            ],
        )
    };
}

impl Stream {
    /// The connection is in its channel from now on.
    pub(crate) fn mark(&self, fd: RawFd) {
        self.set_notsent(value(fd).unwrap_or(0));
        set(fd, MARK);
    }

    /// It is the kernel's from now on.
    pub(super) fn unmark(&self, fd: RawFd) {
        if is_marked(fd) {
            set(fd, self.notsent());
        }
    }

    /// TCP_NOTSENT_LOWAT as the program knows it.
    pub(crate) fn notsent(&self) -> u32 {
        self.own().words[word::NOTSENT].load(Ordering::Relaxed)
    }

    /// The program sets it.
    pub(crate) fn set_notsent(&self, value: u32) {
        self.own().words[word::NOTSENT].store(value, Ordering::Relaxed);
    }
}
