// SPDX-License-Identifier: Apache-2.0
//! How a UDP socket becomes one of ours: at bind, at connect, or when it sends to this machine for the first time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::policy::Role;
use ipc::protocol::Request;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::outgoing::is_ordinary;
use super::{Datagram, registry, twin};
use crate::address::{self, Storage};
use crate::latch::Latch;
use crate::object::Object;
use crate::policy;
use crate::process;
use crate::raw;
use crate::ready;
use crate::ready::Events;
use crate::signals;
use crate::table::{self, Description};
use crate::wait::{Deadline, poll_kernel};

/// So long a receive sleeps before it looks whether somebody else has decided what the socket is.
const GLANCE: Duration = Duration::from_millis(20);

/// Addresses that turned out to be other machines', the latest ones.
static ELSEWHERE: Latch<[Option<IpAddr>; 8]> = Latch::new([None; 8]);

/// The address as a `sockaddr` for a socket of `family`.
pub(super) fn storage(address: SocketAddr, family: i32) -> Storage {
    let mut storage = Storage::new();
    let port = address.port().to_be_bytes();
    storage.bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    storage.bytes[2..4].copy_from_slice(&port);
    match (address.ip(), family) {
        (IpAddr::V4(ip), libc::AF_INET) => {
            storage.bytes[4..8].copy_from_slice(&ip.octets());
            storage.length = 16;
        }
        (ip, _) => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            storage.bytes[8..24].copy_from_slice(&ip.octets());
            storage.length = 28;
        }
    }
    storage
}

/// The address from which the kernel would send to `to`.
fn route(to: IpAddr) -> Option<IpAddr> {
    let family = if to.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let probe =
        rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    // Nothing is sent by connecting; the port does not matter.
    rustix::net::connect(&probe, &SocketAddr::new(to, 9)).ok()?;
    address::local(std::os::fd::AsRawFd::as_raw_fd(&probe)).map(|local| local.ip())
}

/// Whether an address is this machine's.
pub(super) fn is_here(ip: IpAddr) -> bool {
    if ip.is_loopback() {
        return true;
    }
    if ELSEWHERE.lock().contains(&Some(ip)) {
        return false;
    }
    // What is sent to oneself is sent from there.
    if route(ip) == Some(ip) {
        return true;
    }
    let mut elsewhere = ELSEWHERE.lock();
    elsewhere.rotate_right(1);
    elsewhere[0] = Some(ip);
    false
}

/// Whether datagrams to an address may go by channels: it is this machine's, or of one whose daemon this one asks.
pub(super) fn is_served(ip: IpAddr) -> bool {
    is_here(ip) || process::client().is_some_and(|client| client.is_among(ip))
}

/// The address from which `fd` sends to `to`.
pub(super) fn source(fd: RawFd, to: SocketAddr) -> Option<SocketAddr> {
    let local = address::local(fd)?;
    if !local.ip().is_unspecified() {
        return Some(local);
    }
    Some(SocketAddr::new(route(to.ip())?, local.port()))
}

fn number(fd: RawFd, level: i32, name: i32) -> Option<i32> {
    let mut value = 0i32;
    let mut length = 4u32;
    // SAFETY: the kernel writes at most four bytes.
    let result = unsafe {
        raw::syscall(
            libc::SYS_getsockopt as usize,
            [
                fd as usize,
                level as usize,
                name as usize,
                &raw mut value as usize,
                &raw mut length as usize,
                0,
            ],
        )
    };
    (result == 0).then_some(value)
}

fn set(fd: RawFd, level: i32, name: i32) -> bool {
    number(fd, level, name).is_some_and(|value| value != 0)
}

/// Makes a pending socket ours, if there is a daemon and nothing speaks against it.
fn begin(fd: RawFd, description: &Description) -> Option<&Datagram> {
    let Object::Pending(pending) = description.object() else {
        return None;
    };
    if pending.kind != libc::SOCK_DGRAM || set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) {
        return None;
    }
    process::client()?;
    let mut local = address::local(fd)?;
    if local.port() == 0 {
        let unspecified: IpAddr = if pending.family == libc::AF_INET {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let name = storage(SocketAddr::new(unspecified, 0), pending.family);
        // SAFETY: the address lives as long as the call. As sending would, this gives it a port.
        unsafe {
            raw::call(
                libc::SYS_bind,
                [
                    fd as usize,
                    name.bytes.as_ptr() as usize,
                    name.length as usize,
                    0,
                    0,
                    0,
                ],
            )
        }
        .ok()?;
        local = address::local(fd)?;
    }
    let only_six = pending.family == libc::AF_INET6
        && local.ip().is_unspecified()
        && set(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
    if only_six || registry::is_taken(local) {
        return None;
    }
    let datagram = Datagram::new(pending.family, false);
    datagram
        .nonblocking
        .store(is_nonblocking(fd), Ordering::Relaxed);
    datagram.patience.store(patience(fd), Ordering::Relaxed);
    datagram.address.lock().peer = address::remote(fd);
    let Ok(Object::Datagram(datagram)) = description.decide(Object::Datagram(datagram)) else {
        return None;
    };
    datagram.register(fd, description);
    datagram.look_at_twin(fd);
    ready::changed(description);
    Some(datagram)
}

/// Makes a pending socket ours that sends to this machine, or to one whose daemon is asked.
pub(super) fn begin_sending(
    fd: RawFd,
    description: &Description,
    to: SocketAddr,
) -> Option<&Datagram> {
    if !is_ordinary(to) || !is_served(to.ip()) || left(description, Role::Connect, to) {
        return None;
    }
    begin(fd, description)
}

/// Whether the policy leaves a pending socket to the kernel; then it is decided.
fn left(description: &Description, role: Role, address: SocketAddr) -> bool {
    let Object::Pending(pending) = description.object() else {
        return false;
    };
    let left = pending.kind == libc::SOCK_DGRAM && policy::leaves(role, address);
    if left {
        let _ = description.decide(Object::Datagram(Datagram::new(pending.family, true)));
    }
    left
}

/// SO_RCVTIMEO in nanoseconds.
fn patience(fd: RawFd) -> u64 {
    let mut value = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut length = size_of::<libc::timeval>() as u32;
    // SAFETY: the kernel writes at most the structure.
    let result = unsafe {
        raw::syscall(
            libc::SYS_getsockopt as usize,
            [
                fd as usize,
                libc::SOL_SOCKET as usize,
                libc::SO_RCVTIMEO as usize,
                &raw mut value as usize,
                &raw mut length as usize,
                0,
            ],
        )
    };
    if result != 0 {
        return 0;
    }
    value.tv_sec as u64 * 1_000_000_000 + value.tv_usec as u64 * 1_000
}

impl Datagram {
    /// Tells the daemon the address.
    pub(super) fn register(&self, fd: RawFd, description: &Description) {
        let (Some(client), Some(local)) = (process::client(), address::local(fd)) else {
            return;
        };
        let epoch = process::epoch();
        twin::learn(client.doorbell_magic());
        let Some(reference) = table::get(fd) else {
            return;
        };
        if reference.id() != description.id() {
            return;
        }
        registry::enter(local, reference);
        let before = self.address.lock().local.replace(local);
        self.serve(client.clone());
        ready::changed(description);
        if before
            .is_some_and(|before| before != local || self.epoch.load(Ordering::Relaxed) != epoch)
            && let Some(before) = before
            && self.epoch.load(Ordering::Relaxed) == epoch
        {
            let _ = process::done(&client, &Request::Unbind { address: before });
        }
        let _ = process::done(&client, &Request::Bind { address: local });
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// The socket is the kernel's from now on, but for what its rings still hold.
    fn give_up(&self, description: &Description) {
        if self.kernel_only.swap(true, Ordering::AcqRel) {
            return;
        }
        self.withdraw(description);
        // Other machines' senders go over to the kernel, too.
        let far = self.incoming.lock().close_elsewhere();
        far.iter().for_each(|far| far.call());
    }

    fn withdraw(&self, description: &Description) {
        registry::leave(description.id());
        let routes = self.outgoing.lock().clear();
        for close in routes {
            close();
        }
        let local = self.address.lock().local.take();
        if let (Some(client), Some(address)) = (process::current(), local)
            && self.epoch.load(Ordering::Relaxed) == process::epoch()
        {
            let _ = process::done(&client, &Request::Unbind { address });
        }
    }
}

/// Receives while nothing is decided. Another thread may decide it meanwhile by sending, so this one must not stay in
/// the kernel: doorbells would come to the program as datagrams. None: it is decided, or the kernel shall do it.
///
/// # Safety
/// As [`super::receive`].
pub(super) unsafe fn receive_pending(
    fd: RawFd,
    description: &Description,
    message: &mut libc::msghdr,
    flags: i32,
) -> Option<Result<usize, Errno>> {
    if flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB | libc::MSG_DONTWAIT) != 0 {
        return None;
    }
    let before = (message.msg_namelen, message.msg_controllen);
    let mut deadline = None;
    loop {
        // SAFETY: by the caller.
        let result = unsafe {
            raw::call(
                libc::SYS_recvmsg,
                [
                    fd as usize,
                    std::ptr::from_mut(message) as usize,
                    (flags | libc::MSG_DONTWAIT) as usize,
                    0,
                    0,
                    0,
                ],
            )
        };
        if !matches!(description.object(), Object::Pending(_)) && result.is_err() {
            return None;
        }
        // SAFETY: by the caller; the kernel has just written so many bytes.
        if result == Ok(twin::BELL) && unsafe { twin::holds_bell(message) } {
            (message.msg_namelen, message.msg_controllen) = before;
            continue;
        }
        if result != Err(Errno::AGAIN) || is_nonblocking(fd) {
            return Some(result);
        }
        let patience = patience(fd);
        if patience > 0 && deadline.is_none() {
            deadline = Some(Deadline::after(Duration::from_nanos(patience)));
        }
        if deadline.is_some_and(Deadline::passed) {
            return Some(Err(Errno::AGAIN));
        }
        let longest = deadline.map_or(GLANCE, |deadline| deadline.left().min(GLANCE));
        match poll_kernel(fd, Events::IN, longest) {
            Err(Errno::INTR) if patience > 0 || !signals::goes_on() => {
                return Some(Err(Errno::INTR));
            }
            Err(Errno::INTR) | Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        if !table::still(fd, description) {
            return Some(Err(Errno::BADF));
        }
        // What was shut is readable, but only a receive that may block says so.
        if result == Err(Errno::AGAIN)
            && poll_kernel(fd, Events::RDHUP, Duration::ZERO)
                .is_ok_and(|events| events.has(Events::RDHUP))
        {
            return None;
        }
    }
}

fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: asks for the description's flags.
    let flags = unsafe {
        raw::syscall(
            libc::SYS_fcntl as usize,
            [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0],
        )
    };
    flags & libc::O_NONBLOCK as isize != 0
}

/// After a successful bind.
pub fn bound(fd: RawFd, description: &Description) {
    if let Some(local) = address::local(fd)
        && left(description, Role::Listen, local)
    {
        return;
    }
    begin(fd, description);
}

/// After a successful connect, also one that dissolves the association.
pub fn connected(fd: RawFd, description: &Description) {
    let peer = address::remote(fd);
    let datagram = match description.object() {
        Object::Datagram(datagram) => datagram,
        Object::Pending(pending) if pending.kind == libc::SOCK_DGRAM => {
            if let Some(peer) = peer
                && is_ordinary(peer)
                && is_served(peer.ip())
                && !left(description, Role::Connect, peer)
            {
                begin(fd, description);
            }
            return;
        }
        _ => return,
    };
    if datagram.plain {
        return;
    }
    // Senders that have come already sent before this.
    datagram.hear();
    let local = {
        let mut address = datagram.address.lock();
        address.peer = peer;
        address.local
    };
    datagram.incoming.lock().connect(peer);
    let now = address::local(fd);
    // A wildcard that is registered covers the address that connecting has put in its place.
    let covered = |local: SocketAddr, now: SocketAddr| {
        local == now || local.ip().is_unspecified() && local.port() == now.port()
    };
    if local
        .zip(now)
        .is_some_and(|(local, now)| covered(local, now))
    {
        return;
    }
    // What it sends has another source now.
    let routes = datagram.outgoing.lock().clear();
    for close in routes {
        close();
    }
    if !datagram.kernel_only.load(Ordering::Relaxed) {
        datagram.register(fd, description);
    }
}

/// After a shutdown of the sides, also one that failed with ENOTCONN: in Linux it counts all the same.
pub fn shut(description: &Description, read: bool, write: bool) {
    match description.object() {
        Object::Datagram(datagram) => {
            let sides = if read { twin::SHUT } else { 0 } | if write { twin::MUTE } else { 0 };
            datagram.twin.fetch_or(sides, Ordering::AcqRel);
            datagram.twin_edges.fetch_add(1, Ordering::Relaxed);
        }
        // Nothing is known of it yet, and it is of little use now.
        Object::Pending(pending) if pending.kind == libc::SOCK_DGRAM => {
            let _ = description.decide(Object::Datagram(Datagram::new(pending.family, true)));
        }
        _ => {}
    }
}

/// Before the last close.
pub fn closing(_fd: RawFd, description: &Description) {
    if let Object::Datagram(datagram) = description.object()
        && !datagram.plain
    {
        datagram.withdraw(description);
    }
}

/// Options after which a socket must be the kernel's: the program wants to know what only the kernel can tell, or
/// shares the address.
fn is_kernels(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_REUSEPORT
                | libc::SO_TIMESTAMP
                | libc::SO_TIMESTAMPNS
                | libc::SO_TIMESTAMPING
                | libc::SO_RXQ_OVFL
                | libc::SO_PEEK_OFF
                | libc::SO_BINDTODEVICE
                | libc::SO_ATTACH_FILTER
                | libc::SO_ATTACH_BPF
                | libc::SO_ATTACH_REUSEPORT_CBPF
                | libc::SO_ATTACH_REUSEPORT_EBPF
        ),
        libc::IPPROTO_IP => matches!(
            name,
            libc::IP_PKTINFO
                | libc::IP_RECVOPTS
                | libc::IP_RECVTTL
                | libc::IP_RECVTOS
                | libc::IP_RECVORIGDSTADDR
                | libc::IP_RECVERR
                | libc::IP_TRANSPARENT
        ),
        libc::IPPROTO_IPV6 => matches!(
            name,
            libc::IPV6_RECVPKTINFO
                | libc::IPV6_RECVHOPLIMIT
                | libc::IPV6_RECVTCLASS
                | libc::IPV6_RECVERR
                | libc::IPV6_RECVORIGDSTADDR
                | libc::IPV6_RECVRTHDR
                | libc::IPV6_RECVHOPOPTS
                | libc::IPV6_RECVDSTOPTS
        ),
        libc::IPPROTO_UDP => true,
        _ => false,
    }
}

/// After a successful setsockopt.
pub fn option(fd: RawFd, description: &Description, level: i32, name: i32) {
    match description.object() {
        // Options are often set back to what they were.
        Object::Pending(pending)
            if pending.kind == libc::SOCK_DGRAM
                && is_kernels(level, name)
                && (level != libc::SOL_SOCKET || set(fd, level, name)) =>
        {
            let _ = description.decide(Object::Datagram(Datagram::new(pending.family, true)));
        }
        Object::Datagram(datagram) if !datagram.plain => {
            if is_kernels(level, name) && (level != libc::SOL_SOCKET || set(fd, level, name)) {
                datagram.give_up(description);
            } else if level == libc::SOL_SOCKET {
                datagram.patience.store(patience(fd), Ordering::Relaxed);
            }
        }
        _ => {}
    }
}

/// The program asks for what only the kernel can do.
pub fn kernel_only(description: &Description) {
    match description.object() {
        Object::Pending(pending) if pending.kind == libc::SOCK_DGRAM => {
            let _ = description.decide(Object::Datagram(Datagram::new(pending.family, true)));
        }
        Object::Datagram(datagram) if !datagram.plain => datagram.give_up(description),
        _ => {}
    }
}

/// After F_SETFL or FIONBIO.
pub fn nonblocking(_fd: RawFd, description: &Description, on: bool) {
    if let Object::Datagram(datagram) = description.object() {
        datagram.nonblocking.store(on, Ordering::Relaxed);
    }
}
