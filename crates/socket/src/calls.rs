// SPDX-License-Identifier: Apache-2.0
//! The data calls, for whatever a descriptor is. None: the kernel shall do it.

use std::borrow::Cow;
use std::os::fd::RawFd;

use ipc::protocol::Fallback;
use rustix::io::Errno;

use crate::datagram;
use crate::object::Object;
use crate::stream::Result;
use crate::table::{self, Description};
use crate::unaligned;

/// Most buffers of one call, as in the kernel.
pub const MAX_BUFFERS: usize = 1024;

/// Flags that need a closer look.
const ODD: i32 = libc::MSG_OOB | libc::MSG_ERRQUEUE;

/// Whether a buffer is surely none: the mistakes that are worth a check. The kernel would see all of them.
#[inline(always)]
fn bad(part: &libc::iovec, flags: i32) -> bool {
    (part.iov_base as usize) < 4096 && part.iov_len > 0 && flags & libc::MSG_TRUNC == 0
}

/// read, recv.
///
/// # Safety
/// `buffer` has `length` writable bytes.
#[inline(always)]
pub unsafe fn receive(
    fd: RawFd,
    buffer: *mut libc::c_void,
    length: usize,
    flags: i32,
) -> Option<Result> {
    let description = table::get(fd)?;
    let mut part = libc::iovec {
        iov_base: buffer,
        iov_len: length,
    };
    match description.object() {
        Object::Stream(stream) if stream.is_open() && flags & ODD == 0 && !bad(&part, flags) => {
            // SAFETY: the caller's promise.
            Some(unsafe { stream.receive(fd, &description, std::slice::from_ref(&part), flags) })
        }
        // SAFETY: the caller's promise.
        _ => unsafe { receive_message(fd, &description, &mut header(&mut part, 1), flags) },
    }
}

/// write, send.
///
/// # Safety
/// `buffer` has `length` readable bytes.
#[inline(always)]
pub unsafe fn send(
    fd: RawFd,
    buffer: *const libc::c_void,
    length: usize,
    flags: i32,
) -> Option<Result> {
    let description = table::get(fd)?;
    let mut part = libc::iovec {
        iov_base: buffer.cast_mut(),
        iov_len: length,
    };
    match description.object() {
        Object::Stream(stream) if stream.is_open() && flags & ODD == 0 && !bad(&part, 0) => {
            // SAFETY: the caller's promise.
            Some(unsafe { stream.send(fd, &description, std::slice::from_ref(&part), flags) })
        }
        // SAFETY: the caller's promise.
        _ => unsafe { send_message(fd, &description, &header(&mut part, 1), flags) },
    }
}

/// A message header without a name.
pub fn header(parts: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all zeros is a header of nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts;
    header.msg_iovlen = count;
    header
}

/// readv, recvfrom, recvmsg.
///
/// # Safety
/// As recvmsg(2) says of the header.
pub unsafe fn receive_message(
    fd: RawFd,
    description: &Description,
    message: &mut libc::msghdr,
    flags: i32,
) -> Option<Result> {
    match description.object() {
        Object::Stream(stream) => {
            // Urgent data comes by the kernel, which has the queue of errors, too.
            if !connected(fd, stream) || flags & ODD != 0 {
                return None;
            }
            // SAFETY: the caller's promise.
            let parts = match unsafe { parts(message, flags) } {
                Ok(parts) => parts,
                Err(error) => return Some(Err(error)),
            };
            message.msg_controllen = 0;
            message.msg_namelen = 0;
            message.msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
            // SAFETY: the caller's promise.
            Some(unsafe { stream.receive(fd, description, &parts, flags) })
        }
        // SAFETY: passed on.
        Object::Datagram(_) | Object::Pending(_) => unsafe {
            datagram::receive(fd, description, message, flags)
        },
        Object::Lost(lost) => {
            lost.touch(fd);
            None
        }
        _ => None,
    }
}

/// writev, sendto, sendmsg.
///
/// # Safety
/// As sendmsg(2) says of the header.
pub unsafe fn send_message(
    fd: RawFd,
    description: &Description,
    message: &libc::msghdr,
    flags: i32,
) -> Option<Result> {
    match description.object() {
        Object::Stream(stream) => {
            if !connected(fd, stream) {
                return None;
            }
            // There is no urgent data in a ring: the kernel sends it, and all that follows.
            if flags & libc::MSG_OOB != 0 {
                if stream.retire(fd, description, Fallback::OutOfBand) {
                    return None;
                }
                return Some(Err(Errno::OPNOTSUPP));
            }
            // SAFETY: the caller's promise.
            let parts = match unsafe { parts(message, flags) } {
                Ok(parts) => parts,
                Err(error) => return Some(Err(error)),
            };
            // SAFETY: the caller's promise.
            Some(unsafe { stream.send(fd, description, &parts, flags) })
        }
        // SAFETY: passed on.
        Object::Datagram(_) | Object::Pending(_) => unsafe {
            datagram::send(fd, description, message, flags)
        },
        Object::Lost(lost) => {
            lost.touch(fd);
            None
        }
        _ => None,
    }
}

/// Whether the stream can be used; waits for a connection under way if the program would wait.
fn connected(fd: RawFd, stream: &crate::stream::Stream) -> bool {
    if stream.is_open() {
        return true;
    }
    if !stream.is_kernel() && !stream.nonblocking() {
        let _ = crate::wait::poll_kernel(
            fd,
            crate::ready::Events::OUT,
            std::time::Duration::from_secs(3600),
        );
    }
    stream.settle(fd)
}

/// The buffers of a message.
unsafe fn parts<'a>(
    message: &libc::msghdr,
    flags: i32,
) -> std::result::Result<Cow<'a, [libc::iovec]>, Errno> {
    if message.msg_iovlen == 0 {
        return Ok(Cow::Borrowed(&[]));
    }
    if message.msg_iovlen > MAX_BUFFERS {
        return Err(Errno::MSGSIZE);
    }
    if message.msg_iov.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: as recvmsg(2) says of the header.
    let parts = unsafe { unaligned::array(message.msg_iov, message.msg_iovlen) };
    if parts.iter().any(|part| bad(part, flags)) {
        Err(Errno::FAULT)
    } else {
        Ok(parts)
    }
}
