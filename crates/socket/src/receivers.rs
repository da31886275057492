// SPDX-License-Identifier: Apache-2.0
//! Whether who receives from a Unix socket can have a connection's channel: it needs the library.
//!
//! A connection that is sent to a process without the library must leave its rings before. Of a socket that was connected by name the kernel
//! tells whose process is at the other end. Of a pair it tells who made it, which is this process or one before it; so who has the
//! other end is looked up. That takes milliseconds on a machine with many processes, and a server may send thousands of
//! connections a second: an answer is believed for a while, the longer the more it has cost.

use std::os::fd::{AsFd, RawFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, sockopt};

use crate::latch::Latch;
use crate::stream::borrow;
use crate::{holders, raw};

/// How long an answer is believed at least, and how many times as long as it took to find.
const AT_LEAST_MS: u64 = 50;
const TIMES: u64 = 50;
/// Answers that are kept.
const MOST: usize = 16;

/// What was found out of a pair's other end, and until when it is believed.
struct Found {
    inode: u32,
    lacks: bool,
    until: u64,
}

static KNOWN: Latch<Vec<Found>> = Latch::new(Vec::new());

/// Held over a fork, so that the child finds it free.
pub(crate) fn before_fork() {
    KNOWN.acquire();
}

/// After a fork, in parent and child.
pub(crate) fn after_fork() {
    KNOWN.release();
}

/// Whether a process at the other end of a Unix socket runs without the library, as far as can be seen from here.
pub(crate) fn lack_library(way: RawFd) -> bool {
    let Ok(peer) = sockopt::socket_peercred(borrow(way)) else {
        return false;
    };
    let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
    let foreign = peer.pid != rustix::process::getpid() && !has_library(pid).unwrap_or(false);
    // Whoever may not be looked at belongs to another user, whose daemon is another one.
    foreign || is_pair(way) && pair_lacks_library(way)
}

/// Whether a process has loaded the library. None: it may not be looked at, or is gone.
fn has_library(pid: u32) -> Option<bool> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let name = b"libipnuma_socket";
    Some(maps.windows(name.len()).any(|part| part == name))
}

/// Neither end has a name.
fn is_pair(way: RawFd) -> bool {
    let is_named = |address: rustix::net::SocketAddrAny| {
        address.addr_len() as usize > size_of::<libc::sa_family_t>()
    };
    let socket = borrow(way);
    rustix::net::getsockname(socket).is_ok_and(|own| !is_named(own))
        && rustix::net::getpeername(socket).is_ok_and(|peer| !peer.is_some_and(is_named))
}

fn pair_lacks_library(way: RawFd) -> bool {
    let Some(inode) = other_end(way) else {
        return false;
    };
    let begin = raw::ticks();
    let known = KNOWN
        .lock()
        .iter()
        .find(|found| found.inode == inode && begin < found.until)
        .map(|found| found.lacks);
    known.unwrap_or_else(|| {
        let lacks = holders::of(inode, None).any(|(pid, _)| has_library(pid) == Some(false));
        let now = raw::ticks();
        let until = now + raw::milliseconds(AT_LEAST_MS).max(TIMES * (now - begin));
        let mut known = KNOWN.lock();
        known.retain(|found| found.inode != inode && now < found.until);
        known.truncate(MOST - 1);
        known.push(Found {
            inode,
            lacks,
            until,
        });
        lacks
    })
}

/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// `UDIAG_SHOW_PEER`
const SHOW_PEER: u32 = 4;
/// `UNIX_DIAG_PEER`
const PEER: u16 = 2;
/// Bytes of `struct nlmsghdr`, `struct unix_diag_req` and `struct unix_diag_msg`.
const HEADER: usize = 16;
const QUESTION: usize = 24;
const ANSWER: usize = 16;

/// The number of the socket at the other end of a pair.
fn other_end(way: RawFd) -> Option<u32> {
    let own = rustix::fs::fstat(borrow(way)).ok()?.st_ino as u32;
    let (family, kind, flags) = (
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
    );
    let kernel = rustix::net::socket_with(family, kind, flags, Some(netlink::SOCK_DIAG)).ok()?;
    let mut question = Vec::with_capacity(HEADER + QUESTION);
    question.extend(((HEADER + QUESTION) as u32).to_ne_bytes());
    question.extend([BY_FAMILY, REQUEST].map(u16::to_ne_bytes).concat());
    question.extend([1, 0].map(u32::to_ne_bytes).concat());
    question.extend([AddressFamily::UNIX.as_raw() as u8, 0, 0, 0]);
    // In any state, with any cookie.
    question.extend(
        [u32::MAX, own, SHOW_PEER, u32::MAX, u32::MAX]
            .map(u32::to_ne_bytes)
            .concat(),
    );
    rustix::net::send(kernel.as_fd(), &question, SendFlags::DONTWAIT).ok()?;
    let mut answer = [0; 512];
    // It was answered before `send` returned.
    let (length, _) = rustix::net::recv(kernel.as_fd(), &mut answer, RecvFlags::DONTWAIT).ok()?;
    attribute(answer.get(HEADER + ANSWER..length)?, PEER)
}

/// The number in an attribute of that kind.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<u32> {
    loop {
        let short = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(short(0)?), short(2)?);
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?));
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}
