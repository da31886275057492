// SPDX-License-Identifier: Apache-2.0
//! Connections in messages that nobody has received yet, when a program without the library is about to inherit the socket where
//! they wait. It would receive a descriptor on which nothing ever comes: so they leave their rings before.
//!
//! The messages are looked at and stay (`MSG_PEEK`, with `SO_PEEK_OFF`), which gives copies of their descriptors.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use ipc::protocol::Request;
use rustix::net::{AddressFamily, sockopt};

use crate::along::Along;
use crate::attach::{Adopted, adopt};
use crate::object::Object;
use crate::ready::Events;
use crate::stream::{borrow, mark::is_marked};
use crate::{address, hand_over, inherit, process, raw, table, wait};

/// Messages of a socket that are looked at; the kernel's buffers hold fewer that bring descriptors.
const MESSAGES: usize = 4096;
/// Descriptors that a message brings at most (`SCM_MAX_FD`).
const DESCRIPTORS: usize = 253;
/// Bytes of a message that are looked at; what is longer is looked at again.
const BYTES: usize = 1 << 16;

/// Whether messages that may bring connections wait in this process's sockets.
#[must_use]
pub fn is_any() -> bool {
    let waits = |way: &RawFd| may_wait_in(*way) && is_there(*way);
    process::is_enabled() && inherit::open_numbers().iter().any(waits)
}

/// Whether there is a message. Behind the last one lies, at times, an error that the program is to be told: to look there would
/// take it.
fn is_there(way: RawFd) -> bool {
    wait::poll_kernel(way, Events::IN, Duration::ZERO)
        .is_ok_and(|there| there.has(Events::IN) && !there.has(Events::ERR))
}

/// Takes those that the next program may receive out of their rings.
pub(crate) fn leave_to(along: &Along) {
    for way in inherit::open_numbers() {
        if may_wait_in(way) && along.takes(way) {
            look_into(way);
        }
    }
}

/// Whether descriptors may lie in what a descriptor brings.
pub(crate) fn may_wait_in(way: RawFd) -> bool {
    sockopt::socket_domain(borrow(way)) == Ok(AddressFamily::UNIX)
}

fn look_into(way: RawFd) {
    // A program that looks ahead by itself has its own place there.
    if peek_offset(way) != Some(-1) || !set_peek_offset(way, 0) {
        return;
    }
    let mut buffer = vec![0; BYTES];
    for _ in 0..MESSAGES {
        if !is_there(way) {
            break;
        }
        let Some(descriptors) = peek(way, &mut buffer) else {
            break;
        };
        descriptors.into_iter().for_each(leave_rings);
    }
    set_peek_offset(way, -1);
}

/// The connection goes to who cannot have its channel.
fn leave_rings(twin: OwnedFd) {
    let fd = twin.as_raw_fd();
    if !is_marked(fd) {
        return;
    }
    let (Some(own), Some(peer)) = (address::local(fd), address::remote(fd)) else {
        return;
    };
    let answer = process::ask(&Request::Adopt { own, peer });
    if let Some(Adopted::Stream(stream)) = answer.map(adopt) {
        let description = table::detached(Object::Stream(stream));
        if let Some(stream) = description.object().stream() {
            hand_over::hand_over(fd, stream, &description, stream.is_shared());
            stream.close(fd);
        }
    }
}

/// The descriptors of the next message. None: there is none.
fn peek(way: RawFd, buffer: &mut [u8]) -> Option<Vec<OwnedFd>> {
    const ROOM: usize = DESCRIPTORS * size_of::<RawFd>() + 64;
    #[repr(align(8))]
    struct Room([MaybeUninit<u8>; ROOM]);
    let mut room = Room([const { MaybeUninit::uninit() }; ROOM]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut message = crate::calls::header(&raw mut part, 1);
    message.msg_control = room.0.as_mut_ptr().cast();
    message.msg_controllen = ROOM;
    let how = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let at = &raw mut message as usize;
    // SAFETY: the header and what it leads to are writable for as long as the call takes.
    let bytes = unsafe { raw::call(libc::SYS_recvmsg, [way as usize, at, how as usize, 0, 0, 0]) };
    let mut found = Vec::new();
    if bytes.ok()? == 0 {
        return None;
    }
    // SAFETY: the call has filled the header in, and the descriptors that it names are new and nobody else's.
    unsafe { inherit::each_right(&message, |fd| found.push(OwnedFd::from_raw_fd(fd))) };
    Some(found)
}

fn peek_offset(way: RawFd) -> Option<i32> {
    let (mut value, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    let (at, size) = (&raw mut value as usize, &raw mut length as usize);
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_PEEK_OFF as usize);
    // SAFETY: the kernel writes a number of that length at most.
    unsafe {
        raw::call(
            libc::SYS_getsockopt,
            [way as usize, level, name, at, size, 0],
        )
    }
    .ok()?;
    Some(value)
}

fn set_peek_offset(way: RawFd, value: i32) -> bool {
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_PEEK_OFF as usize);
    let (at, size) = (&raw const value as usize, size_of::<i32>());
    // SAFETY: the kernel reads a number of that length.
    unsafe {
        raw::call(
            libc::SYS_setsockopt,
            [way as usize, level, name, at, size, 0],
        )
    }
    .is_ok()
}
