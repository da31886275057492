// SPDX-License-Identifier: Apache-2.0
//! Handlers of signals, which run through the library.

use libc::{c_int, c_void};
use socket::signals::{cancel, handlers};

use crate::next::next;

unsafe extern "C" fn next_sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    next!(sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int)
}

unsafe extern "C-unwind" fn read(fd: c_int, into: *mut c_void, count: usize) -> isize {
    next!(read(fd: c_int, into: *mut c_void, count: usize) -> isize)
}

unsafe extern "C-unwind" fn write(fd: c_int, from: *mut c_void, count: usize) -> isize {
    next!(write(fd: c_int, from: *mut c_void, count: usize) -> isize)
}

unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut c_void, flags: usize) -> isize {
    let flags = flags as c_int;
    next!(recvmsg(fd: c_int, message: *mut c_void, flags: c_int) -> isize)
}

unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *mut c_void, flags: usize) -> isize {
    let flags = flags as c_int;
    next!(sendmsg(fd: c_int, message: *mut c_void, flags: c_int) -> isize)
}

unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    next!(epoll_pwait(epoll: c_int, events: *mut libc::epoll_event, max: c_int, timeout: c_int, mask: *const libc::sigset_t) -> c_int)
}

unsafe extern "C-unwind" fn set_type(new: c_int, old: *mut c_int) -> c_int {
    next!(pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int)
}

/// Tells where a thread can be cancelled.
pub fn start() {
    cancel::start(cancel::Calls {
        read,
        write,
        recvmsg,
        sendmsg,
        epoll_pwait,
        pthread_setcanceltype: set_type,
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the C library's function, as the program calls it.
    unsafe {
        handlers::action(signal, new, old, |signal, new, old| {
            next_sigaction(signal, new, old)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn signal(
    signal: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: as above.
    unsafe {
        handlers::set(signal, handler, |signal, new, old| {
            next_sigaction(signal, new, old)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    // Before: the thread may be woken at once. After: it may have looked for the C library's word too early.
    cancel::mark(thread);
    let result = next!(pthread_cancel(thread: libc::pthread_t) -> c_int);
    if result == 0 {
        cancel::mark(thread);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int {
    if new == cancel::PTHREAD_CANCEL_ASYNCHRONOUS {
        cancel::asynchronous();
    }
    next!(pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn bsd_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: as above.
    unsafe { signal(number, handler) }
}
