// SPDX-License-Identifier: Apache-2.0
//! Connecting: the twins shake hands as always; the daemon learns the addresses meanwhile.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use host::policy::Role;
use ipc::protocol::{Fallback, Reply, Request};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::attach::attach;
use crate::object::Object;
use crate::ready::{self, Events};
use crate::stream::{Result, Stream, borrow};
use crate::table::{self, Description};
use crate::wait::Deadline;
use crate::{address, avoided, kernels_own, policy, process, raw, reasons, short, signals, wait};

/// connect on a TCP socket. None: the kernel alone shall do it.
///
/// # Safety
/// `to` has `length` readable bytes.
pub unsafe fn connect(
    fd: RawFd,
    description: &Description,
    to: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Option<Result<()>> {
    if let Object::Stream(stream) = description.object() {
        // Under way, connected or failed: the twin knows best what a further call gets.
        // SAFETY: the caller's promise.
        if stream.settle(fd) && unsafe { address::is_none(to, length) } {
            return Some(stream.dissolve(fd, description));
        }
        return None;
    }
    // SAFETY: the caller's promise.
    let target = address::destination(unsafe { address::read(to, length) }?);
    if !process::accelerates(target.port()) {
        return None;
    }
    if policy::leaves(Role::Connect, target) {
        return None;
    }
    if kernels_own::has(fd) {
        reasons::note(Fallback::Option);
        return None;
    }
    if avoided::is_avoided(target) {
        reasons::note(Fallback::Avoided);
        return None;
    }
    if short::leaves_out(target) {
        return None;
    }
    if process::nobody_listens(target) {
        return no_listener(target);
    }
    // What was left to the kernel stays its: its acceptor may have been told so. Programs that do not wait call again to see
    // what has become of it.
    if is_begun(fd) {
        return None;
    }
    let request = Request::Intend {
        to: target,
        asked: policy::asks_for(Role::Connect, target),
    };
    let intent = match process::ask(&request)? {
        (Reply::Intent { intent }, _) => intent,
        (Reply::KernelIsFaster, _) => {
            reasons::note(Fallback::SoftwareNic);
            process::trace(|| {
                format!("connect to {target}: the kernel's, there is only a NIC in software")
            });
            return None;
        }
        _ => return no_listener(target),
    };
    if !process::has_room() {
        process::withdraw(intent);
        reasons::note(Fallback::NoDescriptors);
        process::trace(|| format!("connect to {target}: the kernel's, there are no descriptors"));
        return None;
    }
    // SAFETY: passed on.
    Some(unsafe { announced(fd, description, to, length, target, intent) })
}

fn no_listener(target: SocketAddr) -> Option<Result<()>> {
    reasons::note(Fallback::NoListener);
    process::trace(|| {
        format!("connect to {target}: the kernel's, no listener there has the library")
    });
    None
}

/// The kernel has begun to connect a socket that was left to it: nothing that the program does with it is looked at any more,
/// unless a set has it already.
pub fn left(fd: RawFd) {
    if let Some(description) = table::get(fd)
        && matches!(description.object(), Object::Pending(_))
        && description.waiters.is_empty()
        && table::still(fd, &description)
    {
        drop(table::remove(fd));
    }
}

/// The kernel's states of TCP sockets that matter here.
mod tcp {
    pub const ESTABLISHED: u8 = 1;
    pub const CLOSE: u8 = 7;
    pub const CLOSE_WAIT: u8 = 8;
}

/// Whether the kernel's socket is connected, or about to be.
fn is_begun(fd: RawFd) -> bool {
    state_of(fd) != tcp::CLOSE
}

/// The state of the kernel's TCP socket; CLOSE, if it is none.
fn state_of(fd: RawFd) -> u8 {
    // The state is the first byte of the kernel's structure.
    let (mut state, mut length) = (tcp::CLOSE, 1 as libc::socklen_t);
    // SAFETY: the kernel writes one byte at most.
    let result = unsafe {
        raw::syscall(
            libc::SYS_getsockopt as usize,
            [
                fd as usize,
                libc::IPPROTO_TCP as usize,
                libc::TCP_INFO as usize,
                &raw mut state as usize,
                &raw mut length as usize,
                0,
            ],
        )
    };
    match result {
        0 => state,
        _ => tcp::CLOSE,
    }
}

unsafe fn announced(
    fd: RawFd,
    description: &Description,
    to: *const libc::sockaddr,
    length: libc::socklen_t,
    target: SocketAddr,
    intent: u64,
) -> Result<()> {
    let twin = borrow(fd);
    let mode = rustix::fs::fcntl_getfl(twin).unwrap_or(OFlags::empty());
    let blocking = !mode.contains(OFlags::NONBLOCK);
    // The own address is known as soon as the handshake has begun: a blocking connect would tell it too late.
    if blocking {
        let _ = rustix::fs::fcntl_setfl(twin, mode | OFlags::NONBLOCK);
    }
    // SAFETY: the caller's promise.
    let connect = || unsafe {
        raw::syscall(
            libc::SYS_connect as usize,
            [fd as usize, to as usize, length as usize, 0, 0, 0],
        )
    };
    let under_way = -(libc::EINPROGRESS as isize);
    let mut result = connect();
    // On one machine the handshake is over by now. Said at once, as a blocking connect says it: while the connection is announced
    // the peer may accept and reset it, which is for the next call to tell.
    if blocking && result == under_way && matches!(state_of(fd), tcp::ESTABLISHED | tcp::CLOSE_WAIT)
    {
        result = connect();
    }
    let begun = result == 0 || result == under_way;
    let reply = match (begun, address::local(fd)) {
        (true, Some(from)) => {
            let to = address::remote(fd).unwrap_or(target);
            process::ask(&Request::Announce { intent, from, to })
        }
        _ => None,
    };
    if blocking {
        let _ = rustix::fs::fcntl_setfl(twin, mode);
    }
    let stream = match reply {
        Some(reply @ (Reply::Channel { .. } | Reply::FarChannel { .. }, _)) => {
            attach(fd, reply, 0, intent, result == 0)
        }
        Some((Reply::Kernel, _)) => None,
        _ => {
            process::withdraw(intent);
            None
        }
    };
    process::trace(|| match &stream {
        Some(_) => format!("connect to {target}: accelerated"),
        None => format!("connect to {target}: the kernel's, it could not be announced"),
    });
    if stream.is_none() && begun {
        reasons::note(Fallback::NotAnnounced);
    }
    if !begun {
        return Err(Errno::from_raw_os_error(-result as i32));
    }
    if result != 0 && blocking {
        let outcome = finished(fd, description);
        if outcome.is_err() && outcome != Err(Errno::INTR) && outcome != Err(Errno::INPROGRESS) {
            if let Some(stream) = stream {
                stream.settled(fd, false);
            }
            return outcome;
        }
        if outcome.is_ok() {
            // The first call after success is told so, the next one that there is a connection: this is the first.
            connect();
            if let Some(stream) = &stream {
                stream.settled(fd, true);
            }
        }
        accelerate(description, stream);
        return outcome;
    }
    accelerate(description, stream);
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::INPROGRESS)
    }
}

fn accelerate(description: &Description, stream: Option<Stream>) {
    let Some(stream) = stream else { return };
    if description.decide(Object::Stream(stream)).is_ok() {
        ready::changed(description);
    }
}

/// Waits for the twin's handshake, as a blocking connect does.
fn finished(fd: RawFd, description: &Description) -> Result<()> {
    let twin = borrow(fd);
    let limit = rustix::net::sockopt::socket_timeout(twin, rustix::net::sockopt::Timeout::Send)
        .ok()
        .flatten();
    let deadline = limit.map(Deadline::after);
    loop {
        let left = deadline.map_or(wait::HEARTBEAT, |deadline| {
            deadline.left().min(wait::HEARTBEAT)
        });
        match wait::poll_kernel(fd, Events::OUT, left) {
            Ok(events) if !events.is_empty() => {
                return match rustix::net::sockopt::socket_error(twin) {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) | Err(error) => Err(error),
                };
            }
            Err(Errno::INTR) if limit.is_none() && signals::goes_on() => {}
            Err(error) => return Err(error),
            Ok(_) if deadline.is_some_and(Deadline::passed) => return Err(Errno::INPROGRESS),
            Ok(_) if !table::still(fd, description) => return Err(Errno::BADF),
            Ok(_) => {}
        }
    }
}
