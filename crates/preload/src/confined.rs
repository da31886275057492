// SPDX-License-Identifier: Apache-2.0
//! What would go on behind the library's back, io_uring, and what would end the library's work, seccomp.
//!
//! A program that puts its sockets into an io_uring waits and transfers in the kernel, which knows nothing of the rings.
//! So it is told that the kernel has no io_uring, as containers do, and every program that uses one has another way. The
//! kernel's number is asked through the C library's `syscall` (libuv) or by liburing's functions.
//!
//! A program that confines itself may not call what doorbells and the daemon take (sshd's child is killed for it). So its
//! connections leave their rings before, and its sockets are the kernel's from then on.

use std::ffi::{c_int, c_uint, c_void};

use ipc::protocol::Fallback;
use socket::signals::handlers::Quiet;
use socket::{hand_over, policy, process, reasons};

use crate::next::next;
use crate::set_errno;

/// The answer to a program that asks for an io_uring: an error number, if it is not to have one.
pub fn refuse_io_uring() -> Option<c_int> {
    if !process::is_enabled() {
        return None;
    }
    let _quiet = Quiet::begin();
    // Whose sockets are the kernel's anyhow may have what the kernel has.
    if policy::leaves_program() {
        hand_over::confine(Fallback::IoUring);
        return None;
    }
    reasons::note(Fallback::IoUring);
    Some(libc::ENOSYS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
    match refuse_io_uring() {
        Some(error) => -error,
        None => next!(io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init(
    entries: c_uint,
    ring: *mut c_void,
    flags: c_uint,
) -> c_int {
    match refuse_io_uring() {
        Some(error) => -error,
        None => {
            next!(io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    match refuse_io_uring() {
        Some(error) => -error,
        None => {
            next!(io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_mem(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
    memory: *mut c_void,
    size: usize,
) -> c_int {
    match refuse_io_uring() {
        Some(error) => -error,
        None => {
            next!(io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, size: usize) -> c_int)
        }
    }
}

/// io_uring_setup by number. None: the kernel shall do it.
pub fn by_number() -> Option<isize> {
    let error = refuse_io_uring()?;
    set_errno(error);
    Some(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> c_int {
    // To ask whether there are filters, programs pass none.
    if option == libc::PR_SET_SECCOMP && (a as c_uint == libc::SECCOMP_MODE_STRICT || b != 0) {
        hand_over::confine(Fallback::Seccomp);
    }
    next!(prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int)
}

/// The seccomp call by number is about to be made.
pub fn seccomp(operation: usize, filter: usize) {
    let strict = operation as c_uint == libc::SECCOMP_SET_MODE_STRICT;
    if strict || operation as c_uint == libc::SECCOMP_SET_MODE_FILTER && filter != 0 {
        hand_over::confine(Fallback::Seccomp);
    }
}
