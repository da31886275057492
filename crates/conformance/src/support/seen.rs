// SPDX-License-Identifier: Apache-2.0
//! Counts which of a case's connections were really accelerated. A suite that only compares results would pass over
//! the kernel alone; so, where a daemon is given, each connection is looked up among those that it knows.

use super::sys::{Fd, getpeername, getsockname};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Environment variable with the path of the daemon's socket: connections are looked up there.
pub const DAEMON: &str = "IPNUMA_DAEMON";
/// Environment variable that says that this run is over the library.
pub const LIBRARY: &str = "SOCKETTEST_LIBRARY";
/// Environment variable that says that TCP connections go as between machines.
pub const FAR: &str = "SOCKETTEST_FAR";

/// Counters, shared with forked children.
#[derive(Default)]
#[repr(C)]
pub struct Seen {
    connections: AtomicU64,
    accelerated: AtomicU64,
}

static SEEN: AtomicPtr<Seen> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the counters; before a case begins.
pub fn begin() {
    // SAFETY: an anonymous mapping of our own; zeroes are valid counters.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page != libc::MAP_FAILED {
        SEEN.store(page.cast(), Ordering::Release);
    }
}

/// Connections that were looked up, and those of them that the daemon knew.
pub fn counts() -> (u64, u64) {
    let seen = SEEN.load(Ordering::Acquire);
    // SAFETY: null or the mapping that `begin` made, which is never taken away.
    unsafe { seen.as_ref() }.map_or((0, 0), |seen| {
        (
            seen.connections.load(Ordering::Acquire),
            seen.accelerated.load(Ordering::Acquire),
        )
    })
}

/// This run is over the library.
pub fn library() -> bool {
    std::env::var_os(LIBRARY).is_some()
}

/// This run is over the library, and as between machines.
pub fn far() -> bool {
    std::env::var_os(FAR).is_some()
}

/// Looks up the connection of a stream socket.
pub fn stream(fd: Fd) {
    if !library() {
        return;
    }
    let (Ok(own), Ok(peer)) = (getsockname(fd), getpeername(fd)) else {
        return;
    };
    if let (Some(own), Some(peer)) = (own.socket_addr(), peer.socket_addr()) {
        note(own, peer);
    }
}

/// Looks up the channel of datagrams between two addresses.
pub fn datagrams(from: SocketAddr, to: SocketAddr) {
    if library() {
        note(from, to);
    }
}

fn note(own: SocketAddr, peer: SocketAddr) {
    let seen = SEEN.load(Ordering::Acquire);
    // SAFETY: null or the mapping that `begin` made, which is never taken away.
    let Some(seen) = (unsafe { seen.as_ref() }) else {
        return;
    };
    seen.connections.fetch_add(1, Ordering::AcqRel);
    if crate::daemon::knows(own, peer) {
        seen.accelerated.fetch_add(1, Ordering::AcqRel);
    }
}

/// As many descriptors as a case needs for `usual`: connections to other machines have some of their own.
pub fn descriptors(usual: u64) -> u64 {
    if far() { 3 * usual } else { usual }
}
