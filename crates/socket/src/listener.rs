// SPDX-License-Identifier: Apache-2.0
//! Listening sockets: the kernel accepts, the daemon says which connections are accelerated.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::policy::Role;
use ipc::protocol::{Fallback, Reply, Request};
use rustix::io::Errno;

use crate::address::{self, Storage};
use crate::attach::attach;
use crate::object::Object;
use crate::signals::handlers::Quiet;
use crate::stream::{Result, borrow};
use crate::table::{self, Description};
use crate::{kernels_own, policy, process, ready, reasons};

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    address: Option<SocketAddr>,
    registered: AtomicU64,
}

/// The program is about to listen at an address that it has bound: tells the daemon, so that a client which is there in the
/// moment at which the port opens is accelerated, too. Says whether the kernel's refusal has to be told as well.
pub fn about_to_listen(fd: RawFd, description: &Description) -> bool {
    if let Object::Pending(pending) = description.object()
        && pending.kind == libc::SOCK_STREAM
        && let Some(address) = place(fd).filter(|address| address.port() != 0)
        && process::accelerates(address.port())
        && !address::local(fd).is_some_and(|own| policy::would_leave(Role::Listen, own))
        && let Some(client) = process::client()
    {
        return process::done(&client, &Request::Listen { address }).is_ok();
    }
    false
}

/// The kernel has refused.
pub fn not_listening(fd: RawFd) {
    if let Some(address) = place(fd) {
        withdraw(None, address);
    }
}

/// Nobody of this process listens at the address any more, but for sockets that share it (SO_REUSEPORT).
fn withdraw(gone: Option<&Listener>, address: SocketAddr) {
    let mut shared = false;
    table::each(|_, other| {
        if let Object::Listener(other) = other.object() {
            let same = gone.is_some_and(|gone| std::ptr::eq(other, gone));
            shared |= !same && other.address == Some(address);
        }
    });
    if let Some(client) = process::current()
        && !shared
    {
        let _ = process::done(&client, &Request::Unlisten { address });
    }
}

/// The program's listen has succeeded: tells the daemon.
pub fn listening(fd: RawFd, description: &Description) {
    if let Object::Pending(pending) = description.object()
        && pending.kind == libc::SOCK_STREAM
    {
        // What is left to the kernel stays as it was made: nothing that is accepted there is asked about.
        if address::local(fd).is_some_and(|own| {
            process::accelerates(own.port()) && policy::leaves(Role::Listen, own)
        }) {
            return;
        }
        let listener = Listener {
            address: place(fd),
            registered: AtomicU64::new(0),
        };
        if description.decide(Object::Listener(listener)).is_ok() {
            ready::changed(description);
        }
    }
    if let Object::Listener(listener) = description.object() {
        listener.register();
    }
}

/// The address to register.
fn place(fd: RawFd) -> Option<SocketAddr> {
    let address = address::local(fd)?;
    // For the daemon the IPv6 wildcard includes IPv4; a socket of IPv6 alone takes what comes to this machine.
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        && rustix::net::sockopt::ipv6_v6only(borrow(fd)).unwrap_or(true)
    {
        return Some(SocketAddr::new(
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            address.port(),
        ));
    }
    Some(address)
}

impl Listener {
    /// Tells the daemon, if this one does not know yet.
    fn register(&self) {
        let Some(address) = self.address else { return };
        if !process::accelerates(address.port()) {
            return;
        }
        let Some(client) = process::client() else {
            return;
        };
        let epoch = process::epoch();
        if self.registered.load(Ordering::Relaxed) != epoch
            && process::done(&client, &Request::Listen { address }).is_ok()
        {
            self.registered.store(epoch, Ordering::Relaxed);
        }
    }

    /// The last descriptor is about to be closed.
    pub fn close(&self) {
        let Some(address) = self.address else { return };
        if self.registered.load(Ordering::Relaxed) != process::epoch() {
            return;
        }
        withdraw(Some(self), address);
    }
}

/// The program is about to accept on a listening socket of ours. None: it is none.
///
/// The kernel's accept is the C library's: it can be left by handlers and by a thread's end, and holds nothing of ours.
pub fn about_to_accept(fd: RawFd) -> Option<Result<()>> {
    let description = table::get(fd)?;
    let Object::Listener(listener) = description.object() else {
        return None;
    };
    let _quiet = Quiet::begin();
    listener.register();
    // Whoever accepts must be able to receive the channel as well.
    if process::current().is_some() && !process::has_room() {
        return Some(Err(Errno::MFILE));
    }
    Some(Ok(()))
}

/// The kernel has accepted; its answer is in `storage`.
///
/// # Safety
/// `peer` and `length` are null or as accept(2) says.
pub unsafe fn accepted(
    fd: RawFd,
    storage: &Storage,
    peer: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) {
    let _quiet = Quiet::begin();
    // SAFETY: the caller's promise.
    unsafe { storage.give(peer, length) };
    // A stale entry of a number that was closed behind our back.
    drop(table::remove(fd));
    if let Some(from) = storage.address() {
        resolve(fd, from);
    }
}

/// Asks whether a connection that was accepted is accelerated.
fn resolve(fd: RawFd, from: SocketAddr) {
    let Some(to) = address::local(fd) else { return };
    if !process::accelerates(to.port()) {
        return;
    }
    if process::nobody_connects() {
        reasons::note(Fallback::Unannounced);
        return;
    }
    loop {
        match process::ask(&Request::Resolve { from, to }) {
            Some((Reply::Wait, _)) => {
                // The client is between its connect and its announcement; the daemon ends this after a second.
                let _ =
                    rustix::thread::nanosleep(&crate::wait::timespec(Duration::from_micros(20)));
            }
            Some(reply @ (Reply::Channel { .. } | Reply::FarChannel { .. }, _)) => {
                if let Some(stream) = attach(fd, reply, 1, 0, true) {
                    process::trace(|| format!("accepted {from} at {to}: accelerated"));
                    drop(table::install(fd, Object::Stream(stream)));
                    if kernels_own::has(fd)
                        && let Some(description) = table::get(fd)
                        && let Some(stream) = description.object().stream()
                    {
                        stream.leave_for_option(fd, &description);
                    }
                }
                return;
            }
            _ => {
                reasons::note(Fallback::Unannounced);
                process::trace(|| {
                    format!("accepted {from} at {to}: the kernel's, it was not announced")
                });
                return;
            }
        }
    }
}
