// SPDX-License-Identifier: Apache-2.0
//! Sockets that this process did not make: inherited through exec, or received in a message.

use std::os::fd::{AsRawFd, RawFd};

use ipc::protocol::Request;
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::attach::{Adopted, adopt as attach_adopted};
use crate::epoll::Epoll;
use crate::lost::Lost;
use crate::object::Object;
use crate::pending::Pending;
use crate::stream::{Stream, borrow, mark::is_marked};
use crate::{address, close, datagram, hand_over, listener, process, receivers, table};

/// At start: looks at the descriptors that were there before this program.
pub fn start() {
    for fd in open_numbers() {
        adopt(fd);
    }
}

/// The descriptors of the process that asks, a child of vfork or not.
pub(crate) fn open_numbers() -> Vec<RawFd> {
    let mut found = Vec::new();
    let Ok(directory) = rustix::fs::open(
        "/proc/self/fd",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return found;
    };
    let own = directory.as_raw_fd();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        if let Some(fd) = entry
            .file_name()
            .to_str()
            .ok()
            .and_then(|name| name.parse::<RawFd>().ok())
            .filter(|fd| *fd != own)
        {
            found.push(fd);
        }
    }
    found
}

/// Makes a socket known that came from elsewhere, or an epoll set.
pub fn adopt(fd: RawFd) {
    close::finish(fd, table::remove(fd));
    let socket = borrow(fd);
    let Ok(kind) = sockopt::socket_type(socket) else {
        if is_epoll(fd) {
            // What others have put into it is the kernel's; this program's connections can be told in it.
            drop(table::install(fd, Object::Epoll(Epoll::new(fd))));
        }
        return;
    };
    let kind = match kind {
        SocketType::STREAM => libc::SOCK_STREAM,
        SocketType::DGRAM => libc::SOCK_DGRAM,
        _ => return,
    };
    let family = match sockopt::socket_domain(socket) {
        Ok(AddressFamily::INET) => libc::AF_INET,
        Ok(AddressFamily::INET6) => libc::AF_INET6,
        _ => return,
    };
    let protocol = match sockopt::socket_protocol(socket) {
        Ok(protocol) => protocol.map_or(0, |protocol| protocol.as_raw().get() as i32),
        Err(_) => return,
    };
    let Some(pending) = Pending::of(family, kind, protocol) else {
        return;
    };
    // It may be one of this process, which went round in a message.
    if let Some(other) = twin_of(fd) {
        close::duplicated(other, fd);
        if let Some(description) = table::get(fd)
            && let Some(stream) = description.object().stream()
            && stream.take_reserved()
        {
            stream.count_user(false);
        }
        return;
    }
    if kind == libc::SOCK_STREAM
        && let (Some(own), Some(peer)) = (address::local(fd), address::remote(fd))
    {
        let answer = match process::has_no_stream(own.port(), peer.port()) {
            true => None,
            false => process::ask(&Request::Adopt { own, peer }),
        };
        match answer.map_or(Adopted::Unknown, attach_adopted) {
            Adopted::Stream(stream) => drop(table::install(fd, Object::Stream(stream))),
            Adopted::Unknown if is_marked(fd) => {
                drop(table::install(fd, Object::Lost(Lost::default())));
            }
            Adopted::Unknown | Adopted::Kernel => {}
        }
        return;
    }
    let (Some(description), _) = table::install(fd, Object::Pending(pending)) else {
        return;
    };
    if kind == libc::SOCK_DGRAM {
        datagram::bound(fd, &description);
    } else if sockopt::socket_acceptconn(socket).unwrap_or(false) {
        listener::listening(fd, &description);
    }
}

/// Whether a descriptor is an epoll set. No call that changes nothing says so.
fn is_epoll(fd: RawFd) -> bool {
    let path = format!("/proc/self/fd/{fd}");
    rustix::fs::readlink(path, Vec::new())
        .is_ok_and(|name| name.as_bytes() == b"anon_inode:[eventpoll]")
}

/// A descriptor of this process that refers to the same kernel socket.
fn twin_of(fd: RawFd) -> Option<RawFd> {
    let cookie = sockopt::socket_cookie(borrow(fd)).ok()?;
    let mut found = None;
    table::each(|other, description| {
        if found.is_none()
            && !matches!(description.object(), Object::Epoll(_))
            && sockopt::socket_cookie(borrow(other)) == Ok(cookie)
        {
            found = Some(other);
        }
    });
    found
}

/// Calls `visit` for each descriptor in a message's control data.
///
/// # Safety
/// The header is the program's for sendmsg, or what recvmsg filled in.
pub(crate) unsafe fn each_right(message: &libc::msghdr, mut visit: impl FnMut(RawFd)) {
    if message.msg_control.is_null() {
        return;
    }
    let start = message.msg_control.cast::<u8>();
    // SAFETY: takes a number only.
    let head = unsafe { libc::CMSG_LEN(0) } as usize;
    // Not with the macros, which read in place: the control data may lie at any address.
    let mut at = 0;
    while let Some(left) = message.msg_controllen.checked_sub(at)
        && left >= head
    {
        // SAFETY: the caller's promise; a whole header is left.
        let control = unsafe { start.add(at).cast::<libc::cmsghdr>().read_unaligned() };
        if control.cmsg_len < head || control.cmsg_len > left {
            break;
        }
        if control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
            for index in 0..(control.cmsg_len - head) / size_of::<RawFd>() {
                // SAFETY: the caller's promise; inside of what this header says.
                let fd = unsafe { start.add(at + head).cast::<RawFd>().add(index) };
                // SAFETY: as above.
                visit(unsafe { fd.read_unaligned() });
            }
        }
        at += control
            .cmsg_len
            .next_multiple_of(align_of::<libc::cmsghdr>());
    }
}

/// After a recvmsg that brought descriptors.
///
/// # Safety
/// The header is what recvmsg filled in.
pub unsafe fn received(message: &libc::msghdr) {
    // SAFETY: the caller's promise.
    unsafe { each_right(message, adopt) };
}

/// Before a sendmsg on `way` that takes descriptors along: while they are in the message, it counts as a user. `sent` false:
/// they were not sent after all.
///
/// # Safety
/// The header is the program's.
pub unsafe fn sending(way: RawFd, message: &libc::msghdr, sent: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        each_right(message, |fd| {
            let Some(description) = table::get(fd) else {
                return;
            };
            if let Object::Epoll(epoll) = description.object()
                && sent
            {
                epoll.give_away(fd);
            }
            let Some(stream) = description.object().stream() else {
                return;
            };
            if sent && !is_known_to(way, stream) {
                hand_over::hand_over(fd, stream, &description, stream.is_shared());
            }
            if !stream.is_twin() {
                return;
            }
            if sent {
                stream.before_exec(true, true);
            } else {
                stream.after_exec_failed(true, true);
            }
        });
    }
}

/// Whether who receives from `way` can have the channel, as far as can be seen from here.
fn is_known_to(way: RawFd, stream: &Stream) -> bool {
    stream.is_served_by(process::living()) && !receivers::lack_library(way)
}
