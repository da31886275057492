// SPDX-License-Identifier: Apache-2.0
//! `syscall()`: programs that call the kernel by number get the same sockets.

use libc::{
    c_int, c_long, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, sockaddr, socklen_t, timespec,
};
use socket::raw;

use crate::{confined, data, descriptors, events, set_errno, sockets, transfer};

/// The C library's takes any number of arguments; on the processors here they are passed like an ordinary function's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the arguments are those of the call of that number.
    if let Some(result) = unsafe { known(number, a, b, c, d, e, f) } {
        return result as c_long;
    }
    // SAFETY: the caller's business.
    let result = unsafe { raw::syscall(number as usize, [a, b, c, d, e, f]) };
    if (-4095..0).contains(&result) {
        set_errno(-result as i32);
        return -1;
    }
    result as c_long
}

/// The calls that may concern accelerated sockets.
#[inline]
unsafe fn known(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> Option<isize> {
    let fd = a as c_int;
    // Most calls by number are futex and the like: only those with a descriptor of ours go on.
    let ours = socket::table::known(fd);
    // SAFETY: the arguments are those of the call of that number.
    unsafe {
        Some(match number {
            libc::SYS_read if ours => data::read(fd, b as *mut c_void, c),
            libc::SYS_write if ours => data::write(fd, b as *const c_void, c),
            libc::SYS_readv if ours => data::readv(fd, b as *const iovec, c as c_int),
            libc::SYS_writev if ours => data::writev(fd, b as *const iovec, c as c_int),
            libc::SYS_recvfrom if ours => data::recvfrom(
                fd,
                b as *mut c_void,
                c,
                d as c_int,
                e as *mut sockaddr,
                f as *mut socklen_t,
            ),
            libc::SYS_sendto if ours => data::sendto(
                fd,
                b as *const c_void,
                c,
                d as c_int,
                e as *const sockaddr,
                f as socklen_t,
            ),
            libc::SYS_recvmsg if ours => data::recvmsg(fd, b as *mut msghdr, c as c_int),
            libc::SYS_sendmsg if ours => data::sendmsg(fd, b as *const msghdr, c as c_int),
            libc::SYS_recvmmsg if ours => data::recvmmsg(
                fd,
                b as *mut mmsghdr,
                c as c_uint,
                d as c_int,
                e as *mut timespec,
            ) as isize,
            libc::SYS_sendmmsg if ours => {
                data::sendmmsg(fd, b as *mut mmsghdr, c as c_uint, d as c_int) as isize
            }
            libc::SYS_sendfile if ours => transfer::sendfile(fd, b as c_int, c as *mut off_t, d),
            libc::SYS_splice => transfer::splice(
                fd,
                b as *mut off_t,
                c as c_int,
                d as *mut off_t,
                e,
                f as c_uint,
            ),
            libc::SYS_socket => sockets::socket(fd, b as c_int, c as c_int) as isize,
            libc::SYS_bind if ours => {
                sockets::bind(fd, b as *const sockaddr, c as socklen_t) as isize
            }
            libc::SYS_listen if ours => sockets::listen(fd, b as c_int) as isize,
            libc::SYS_accept4 if ours => {
                sockets::accept4(fd, b as *mut sockaddr, c as *mut socklen_t, d as c_int) as isize
            }
            libc::SYS_accept if ours => {
                sockets::accept(fd, b as *mut sockaddr, c as *mut socklen_t) as isize
            }
            libc::SYS_connect if ours => {
                sockets::connect(fd, b as *const sockaddr, c as socklen_t) as isize
            }
            libc::SYS_shutdown if ours => sockets::shutdown(fd, b as c_int) as isize,
            libc::SYS_getpeername if ours => {
                sockets::getpeername(fd, b as *mut sockaddr, c as *mut socklen_t) as isize
            }
            libc::SYS_setsockopt if ours => sockets::setsockopt(
                fd,
                b as c_int,
                c as c_int,
                d as *const c_void,
                e as socklen_t,
            ) as isize,
            libc::SYS_getsockopt if ours => sockets::getsockopt(
                fd,
                b as c_int,
                c as c_int,
                d as *mut c_void,
                e as *mut socklen_t,
            ) as isize,
            libc::SYS_close if socket::process::is_private(fd) => descriptors::refused(),
            libc::SYS_close if ours => descriptors::close(fd) as isize,
            libc::SYS_close_range => {
                descriptors::close_range(a as c_uint, b as c_uint, c as c_int) as isize
            }
            libc::SYS_dup if ours => descriptors::dup(fd) as isize,
            libc::SYS_dup3 => descriptors::dup3(fd, b as c_int, c as c_int) as isize,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => descriptors::dup2(fd, b as c_int) as isize,
            libc::SYS_fcntl if ours => descriptors::fcntl(fd, b as c_int, c) as isize,
            libc::SYS_ioctl if ours => descriptors::ioctl(fd, b as libc::c_ulong, c) as isize,
            libc::SYS_io_uring_setup => return confined::by_number(),
            libc::SYS_seccomp => {
                confined::seccomp(a, c);
                return None;
            }
            libc::SYS_prctl => confined::prctl(a as c_int, b, c, d, e) as isize,
            _ => return events::by_number(number, [a, b, c, d, e, f]),
        })
    }
}
