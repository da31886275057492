// SPDX-License-Identifier: Apache-2.0
//! Options that only the kernel can follow, because they are about its packets or its buffers: a connection on which one is set
//! leaves its rings, and one that begins with one leaves them at once.
//!
//! Over the rings such an option would be taken and do nothing, or worse: with TLS in the kernel (TCP_ULP) one end would send in
//! the clear what the other believes to be sealed.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::raw;
use crate::stream::borrow;

/// Tells with each message how much is left to read; libc does not have it.
const TCP_INQ: i32 = 36;
/// Options that are set where their number is not zero.
const NUMBERS: [(i32, i32); 5] = [
    (libc::IPPROTO_TCP, TCP_INQ),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
];

/// Some socket of this process, or of one that it comes from, had such an option before it was a connection.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether the program asks by this option for what only the kernel can do.
pub(crate) fn is(level: i32, name: i32, value: Option<i32>) -> bool {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_ULP | libc::TCP_REPAIR) => true,
        // One byte is what every socket has.
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => value.is_some_and(|value| value > 1),
        _ => NUMBERS.contains(&(level, name)) && value.is_some_and(|value| value != 0),
    }
}

/// A socket that is no connection yet has such an option.
pub(crate) fn note() {
    ANY.store(true, Ordering::Relaxed);
}

/// Whether a socket that has become a connection has one.
pub(crate) fn has(fd: RawFd) -> bool {
    ANY.load(Ordering::Relaxed)
        && (is_async(fd)
            || NUMBERS
                .iter()
                .chain([&(libc::SOL_SOCKET, libc::SO_RCVLOWAT)])
                .any(|&(level, name)| is(level, name, value(fd, level, name))))
}

/// Whether the program wants a signal whenever something comes (SIGIO), which only the kernel sends.
pub(crate) fn is_async(fd: RawFd) -> bool {
    rustix::fs::fcntl_getfl(borrow(fd)).is_ok_and(|flags| flags.bits() & libc::O_ASYNC as u32 != 0)
}

fn value(fd: RawFd, level: i32, name: i32) -> Option<i32> {
    let (mut value, mut length) = (0, size_of::<i32>() as libc::socklen_t);
    let (at, size) = (&raw mut value, &raw mut length);
    let arguments = [
        fd as usize,
        level as usize,
        name as usize,
        at as usize,
        size as usize,
        0,
    ];
    // SAFETY: the kernel writes a number of that length at most.
    unsafe { raw::call(libc::SYS_getsockopt, arguments) }.ok()?;
    Some(value)
}
