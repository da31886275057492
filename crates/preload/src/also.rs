// SPDX-License-Identifier: Apache-2.0
//! Other names of calls, and calls that the C library carries out from within, where no preloaded library sees them.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use libc::{
    aiocb, fd_set, iovec, msghdr, off64_t, pid_t, sigevent, size_t, sockaddr, socklen_t, ssize_t,
    termios, timeval, winsize,
};
use socket::signals::handlers::Quiet;
use socket::{options, table};

use crate::next::next;
use crate::{also as this, data, descriptors, events, life, set_errno, sockets};

/// `also!(__read = data::read(fd: c_int, ...) -> ssize_t)`: the same under another name.
macro_rules! also {
    ($($name:ident = $module:ident::$call:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the same promise.
            unsafe { $module::$call($($argument),*) }
        }
    )*};
}

also! {
    __read = data::read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t;
    __write = data::write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    __recv = data::recv(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    __send = data::send(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    __close = descriptors::close(fd: c_int) -> c_int;
    __dup2 = descriptors::dup2(old: c_int, new: c_int) -> c_int;
    __fcntl = descriptors::fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    __connect = sockets::connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    __select = events::select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
}

/// How a connection of ours is read or written at its own place, the only one that it has: flags of recvmsg and sendmsg. None for
/// other files, places, and flags that only a file has a use for.
fn how(fd: c_int, at: off64_t, flags: c_int) -> Option<c_int> {
    let stream = |description: table::Ref| description.object().stream().is_some();
    match flags {
        _ if at != -1 || !table::get(fd).is_some_and(stream) => None,
        0 => Some(0),
        libc::RWF_NOWAIT => Some(libc::MSG_DONTWAIT),
        _ => None,
    }
}

/// The header of a message of these parts, which is all.
fn message(parts: *const iovec, count: c_int) -> msghdr {
    socket::calls::header(parts.cast_mut(), count.max(0) as usize)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off64_t,
    flags: c_int,
) -> ssize_t {
    match how(fd, at, flags) {
        // SAFETY: as preadv2(2).
        Some(0) => return unsafe { data::readv(fd, parts, count) },
        // SAFETY: as preadv2(2).
        Some(how) => return unsafe { data::recvmsg(fd, &mut message(parts, count), how) },
        None => {}
    }
    next!(preadv2(fd: c_int, parts: *const iovec, count: c_int, at: off64_t, flags: c_int) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off64_t,
    flags: c_int,
) -> ssize_t {
    match how(fd, at, flags) {
        // SAFETY: as pwritev2(2).
        Some(0) => return unsafe { data::writev(fd, parts, count) },
        // SAFETY: as pwritev2(2).
        Some(how) => return unsafe { data::sendmsg(fd, &message(parts, count), how) },
        None => {}
    }
    next!(pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off64_t, flags: c_int) -> ssize_t)
}

also! {
    preadv64v2 = this::preadv2(fd: c_int, parts: *const iovec, count: c_int, at: off64_t, flags: c_int) -> ssize_t;
    pwritev64v2 = this::pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off64_t, flags: c_int) -> ssize_t;
}

/// The C library's threads read and write for the program: by the kernel.
fn by_the_kernel(fd: c_int) {
    let _quiet = Quiet::begin();
    if let Some(description) = table::get(fd) {
        options::kernel_only(fd, &description);
    }
}

/// The same for the descriptor of a control block, if there is one.
unsafe fn block_by_the_kernel(block: *const aiocb) {
    if !block.is_null() {
        // SAFETY: as aio(7).
        by_the_kernel(unsafe { (&raw const (*block).aio_fildes).read_unaligned() });
    }
}

/// Asynchronous calls with one control block.
macro_rules! asynchronous {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(block: *mut aiocb) -> c_int {
            // SAFETY: as aio(7).
            unsafe { block_by_the_kernel(block) };
            next!($name(block: *mut aiocb) -> c_int)
        }
    )*};
}

asynchronous!(aio_read aio_read64 aio_write aio_write64);

/// The same with a list of them.
macro_rules! listed {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(mode: c_int, blocks: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int {
            for index in 0..count.max(0) as usize {
                // SAFETY: as lio_listio(3).
                unsafe { block_by_the_kernel(blocks.add(index).read_unaligned()) };
            }
            next!($name(mode: c_int, blocks: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int)
        }
    )*};
}

listed!(lio_listio lio_listio64);

/// A terminal becomes the program's 0, 1 and 2, by calls of which the library knows.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn login_tty(terminal: c_int) -> c_int {
    // SAFETY: as login_tty(3).
    unsafe {
        libc::setsid();
        if libc::ioctl(terminal, libc::TIOCSCTTY, 0) < 0 {
            return -1;
        }
        for number in 0..3 {
            while descriptors::dup2(terminal, number) < 0 {
                if *libc::__errno_location() != libc::EBUSY {
                    return -1;
                }
            }
        }
        if terminal > 2 {
            descriptors::close(terminal);
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn forkpty(
    master: *mut c_int,
    name: *mut c_char,
    how: *const termios,
    size: *const winsize,
) -> pid_t {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: as forkpty(3).
    unsafe {
        if libc::openpty(&raw mut ours, &raw mut theirs, name, how, size) < 0 {
            return -1;
        }
        let child = life::fork();
        match child {
            -1 => {
                let why = *libc::__errno_location();
                descriptors::close(ours);
                descriptors::close(theirs);
                set_errno(why);
            }
            0 => {
                descriptors::close(ours);
                if login_tty(theirs) < 0 {
                    libc::_exit(1);
                }
            }
            _ => {
                descriptors::close(theirs);
                ptr::write_unaligned(master, ours);
            }
        }
        child
    }
}
