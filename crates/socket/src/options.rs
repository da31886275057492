// SPDX-License-Identifier: Apache-2.0
//! Socket options and descriptor flags of accelerated connections.
//!
//! Most options are the twin's and pass. Those that say how calls behave are followed here; those that would spoil the
//! twin as a doorbell (delays) are remembered and not passed on.

use std::os::fd::RawFd;
use std::time::Duration;

use rustix::io::Errno;
use shm::ring::LINE;

use crate::object::Object;
use crate::stream::{Stream, option};
use crate::table::Description;
use crate::{datagram, kernels_own};

/// Before setsockopt. Some: it is done, without the kernel.
///
/// # Safety
/// `value` has `length` readable bytes.
pub unsafe fn set(
    fd: RawFd,
    description: &Description,
    level: i32,
    name: i32,
    value: *const libc::c_void,
    length: libc::socklen_t,
) -> Option<Result<(), Errno>> {
    // SAFETY: the caller's promise.
    let number = || unsafe { read::<i32>(value, length) };
    if kernels_own::is(level, name, number()) {
        return match description.object() {
            Object::Stream(stream) => match stream.leave_for_option(fd, description) {
                true => None,
                // Nothing more comes that the option could be about: the socket has it all the same.
                false if stream.has_ended() || stream.is_over() => None,
                // Between machines there is nothing else than the rings.
                false => Some(Err(Errno::NOPROTOOPT)),
            },
            _ => {
                kernels_own::note();
                None
            }
        };
    }
    let remembered = match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => option::NODELAY,
        (libc::IPPROTO_TCP, libc::TCP_CORK) => option::CORK,
        // The kernel would wait for data that does not come through the twin.
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => {
            return match description.object() {
                Object::Stream(_) | Object::Listener(_) | Object::Pending(_) => {
                    number().map(|_| Ok(()))
                }
                _ => None,
            };
        }
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => 0,
        _ => return None,
    };
    let stream = description
        .object()
        .stream()
        .filter(|stream| stream.is_open() || remembered == 0 && stream.is_twin())?;
    let number = number()?;
    if remembered == 0 {
        stream.set_notsent(number as u32);
        return Some(Ok(()));
    }
    stream.set_option(remembered, number != 0);
    Some(Ok(()))
}

/// After a setsockopt that the kernel took.
///
/// # Safety
/// `value` has `length` readable bytes.
pub unsafe fn was_set(
    fd: RawFd,
    description: &Description,
    level: i32,
    name: i32,
    value: *const libc::c_void,
    length: libc::socklen_t,
) {
    let stream = match description.object() {
        Object::Stream(stream) => stream,
        Object::Datagram(_) | Object::Pending(_) => {
            return datagram::option(fd, description, level, name);
        }
        _ => return,
    };
    if level != libc::SOL_SOCKET {
        return;
    }
    match name {
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO => {
            // SAFETY: the caller's promise.
            if let Some(time) = unsafe { read::<libc::timeval>(value, length) } {
                let limit = Duration::from_secs(time.tv_sec.max(0) as u64)
                    + Duration::from_micros(time.tv_usec.max(0) as u64);
                stream.set_timeout(
                    name == libc::SO_SNDTIMEO,
                    (!limit.is_zero()).then_some(limit),
                );
            }
        }
        libc::SO_LINGER => {
            // SAFETY: the caller's promise.
            if let Some(linger) = unsafe { read::<libc::linger>(value, length) } {
                stream.set_option(option::RESET, linger.l_onoff != 0 && linger.l_linger == 0);
            }
        }
        _ => {}
    }
}

/// Before getsockopt. Some: this is the answer, an integer.
pub fn get(fd: RawFd, description: &Description, level: i32, name: i32) -> Option<i32> {
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
        && let Object::Datagram(datagram) = description.object()
    {
        return datagram.take_error().map(Errno::raw_os_error);
    }
    let stream = description.object().stream()?;
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) && stream.is_twin() {
        return Some(stream.notsent() as i32);
    }
    if !stream.settle(fd) {
        return None;
    }
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            Some(stream.take_error().map_or(0, Errno::raw_os_error))
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
            Some(i32::from(stream.has_option(option::NODELAY)))
        }
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(i32::from(stream.has_option(option::CORK))),
        _ => None,
    }
}

/// O_NONBLOCK was set or cleared.
pub fn nonblocking(fd: RawFd, description: &Description, on: bool) {
    match description.object() {
        Object::Stream(stream) => stream.set_option(option::NONBLOCKING, on),
        Object::Datagram(_) | Object::Pending(_) => datagram::nonblocking(fd, description, on),
        _ => {}
    }
}

/// The program asks for what only the kernel can do (signals for data, asynchronous I/O): it serves from now on.
pub fn kernel_only(fd: RawFd, description: &Description) {
    match description.object() {
        Object::Stream(stream) => {
            stream.leave_for_option(fd, description);
        }
        Object::Datagram(_) | Object::Pending(_) => {
            datagram::kernel_only(description);
            kernels_own::note();
        }
        _ => kernels_own::note(),
    }
}

/// FIONREAD.
pub fn queued(fd: RawFd, description: &Description) -> Option<i32> {
    match description.object() {
        Object::Stream(stream) if stream.settle(fd) => {
            if stream.is_overdue() {
                stream.fall_back(fd, description);
            }
            (!stream.is_kernel()).then(|| clamp(stream.queued_bytes()))
        }
        Object::Lost(lost) => {
            lost.touch(fd);
            None
        }
        Object::Datagram(_) => datagram::queued(fd, description),
        _ => None,
    }
}

/// SIOCOUTQ: bytes that have not arrived, or more. On one machine all that was sent is in the peer's ring, and would be in the
/// kernel's receive buffer; of another machine it is known what was read there.
pub fn outgoing(stream: &Stream) -> i32 {
    match stream.is_far() {
        true => clamp(stream.unread_lines() * LINE),
        false => 0,
    }
}

fn clamp(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

unsafe fn read<T: Copy>(value: *const libc::c_void, length: libc::socklen_t) -> Option<T> {
    if value.is_null() || (length as usize) < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough, and the caller says that it is readable.
    Some(unsafe { value.cast::<T>().read_unaligned() })
}
