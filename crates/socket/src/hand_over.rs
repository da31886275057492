// SPDX-License-Identifier: Apache-2.0
//! Connections of a process that cannot use the library any more: they leave their rings, and the kernel serves them.

use std::os::fd::{AsRawFd, RawFd};

use ipc::protocol::Fallback;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::along::Along;
use crate::latch::Latch;
use crate::object::Object;
use crate::stream::Stream;
use crate::table::{self, Description};
use crate::{process, queued, raw};

/// The process is about to do what the library cannot go along with: to confine itself, so that what is done for its connections
/// may be forbidden, or to use an io_uring.
pub fn confine(why: Fallback) {
    table::each(|fd, description| match description.object() {
        Object::Stream(stream) => {
            // Where it fails the ring is read on, which takes no system call; the rest the confinement will tell.
            stream.retire(fd, &description, why);
        }
        // Nobody of this process will fetch channels any more.
        Object::Listener(listener) => listener.close(),
        _ => {}
    });
    process::confine();
}

/// The process, or a child of vfork, is about to become another program; `foreign`: one that cannot have the library.
pub fn to_exec(foreign: bool) {
    // What a child of vfork takes along is dear to find out.
    if foreign || !process::is_borrowed() || !all_are_served() {
        leave_to(foreign, &Along::to_exec(), process::is_borrowed());
    }
}

/// Whether the daemon that this process can ask has made the channels of all its connections.
fn all_are_served() -> bool {
    let living = process::living();
    let mut all = true;
    table::each(|_, description| {
        if let Object::Stream(stream) = description.object() {
            all &= stream.is_kernel() || stream.is_served_by(living);
        }
    });
    all
}

/// Numbers that the program has planned to give to children that it will make.
static PLANNED: Latch<Vec<RawFd>> = Latch::new(Vec::new());

/// A child that will be made is to get a copy of `fd` (posix_spawn_file_actions_adddup2).
pub fn plan(fd: RawFd) {
    let concerns = |fd| table::known(fd) || queued::may_wait_in(fd);
    if !concerns(fd) {
        return;
    }
    let mut planned = PLANNED.lock();
    planned.retain(|other| *other != fd && concerns(*other));
    planned.push(fd);
}

/// Those numbers.
pub(crate) fn planned() -> Vec<RawFd> {
    PLANNED.lock().clone()
}

/// A child that is another program is about to be made.
pub fn to_spawn(foreign: bool) {
    leave_to(foreign, &Along::to_spawn(), true);
}

/// `kept`: this program goes on, too, as it does when a child that shares its memory becomes another.
fn leave_to(foreign: bool, along: &Along, kept: bool) {
    if foreign {
        queued::leave_to(along);
    }
    let living = std::cell::OnceCell::new();
    table::each(|fd, description| {
        if let Object::Stream(stream) = description.object()
            && !stream.is_kernel()
            && let Some(number) = along.number(fd)
            // Where the daemon that made the channel is gone, the next program could not ask for it.
            && (foreign || !stream.is_served_by(*living.get_or_init(process::living)))
        {
            hand_over(number, stream, &description, kept || stream.is_shared());
        }
    });
}

/// The connection goes to who cannot have its channel: it leaves its rings, or ends in what can be told. `kept`: somebody who has its
/// channel goes on with it as well.
pub(crate) fn hand_over(fd: RawFd, stream: &Stream, description: &Description, kept: bool) {
    if stream.retire(fd, description, Fallback::Exec) || !stream.is_open() {
        return;
    }
    let given = (stream.is_finished() || stream.was_cut()) && substitute(fd, stream, kept);
    // Who goes on with it must not pay for what the next program can't have.
    if !given && !kept {
        stream.break_off(fd);
    }
}

/// A peer that has closed can send nothing on. The next program gets what it left, and the end or the reset, from a pair of sockets.
fn substitute(fd: RawFd, stream: &Stream, kept: bool) -> bool {
    let kind = SocketType::STREAM;
    let Ok((given, filled)) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
    else {
        return false;
    };
    let _ = sockopt::set_socket_send_buffer_size(&filled, 1 << 20);
    let how = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    let put = |bytes: &[u8]| rustix::net::send(&filled, bytes, how) == Ok(bytes.len());
    let whole = stream.empty(kept, put);
    if !whole {
        return false;
    }
    // The end of a socket with bytes unread is a reset.
    if stream.was_cut() && rustix::net::send(&given, &[0], how).is_err() {
        return false;
    }
    // SAFETY: the connection's own number, under which the next program expects it.
    let result = unsafe {
        raw::syscall(
            libc::SYS_dup3 as usize,
            [given.as_raw_fd() as usize, fd as usize, 0, 0, 0, 0],
        )
    };
    result >= 0
}
