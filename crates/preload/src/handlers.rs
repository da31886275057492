// SPDX-License-Identifier: Apache-2.0
//! Handlers of signals, which run through the library.

use libc::c_int;
use socket::signals::handlers;

use crate::next::next;

unsafe extern "C" fn next_sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    next!(sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
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
pub unsafe extern "C" fn signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: as above.
    unsafe {
        handlers::set(signal, handler, |signal, new, old| {
            next_sigaction(signal, new, old)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsd_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: as above.
    unsafe { signal(number, handler) }
}
