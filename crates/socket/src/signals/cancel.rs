// SPDX-License-Identifier: Apache-2.0
//! Threads that are cancelled in a call of the library.
//!
//! The C library wakes a thread that it cancels, but only its own calls end then. So whoever cancels a thread notes it here first; a
//! call of that thread that waits sees the note, or that its sleep was interrupted, and goes back to where it came in
//! ([`super::entry`]), where the C library may end the thread: nothing is held there. A thread that does not let itself be
//! cancelled goes on with its call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void};
use rustix::io::Errno;

use crate::raw;

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// read(2) and write(2) with a count, recvmsg(2) and sendmsg(2) with flags.
pub type Transfer = unsafe extern "C-unwind" fn(c_int, *mut c_void, usize) -> isize;
/// epoll_pwait(2).
pub type EpollWait = unsafe extern "C-unwind" fn(
    c_int,
    *mut libc::epoll_event,
    c_int,
    c_int,
    *const libc::sigset_t,
) -> c_int;

/// The C library's own functions of calls that sleep in the kernel with no end in sight: there it ends a cancelled thread by itself.
/// Without them the calls are made past it.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the C library's functions of these names")]
pub struct Calls {
    pub read: Transfer,
    pub write: Transfer,
    pub recvmsg: Transfer,
    pub sendmsg: Transfer,
    pub epoll_pwait: EpollWait,
    pub pthread_setcanceltype: unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int,
}

static CALLS: OnceLock<Calls> = OnceLock::new();

/// Where the C library's functions are.
pub fn start(calls: Calls) {
    let _ = CALLS.set(calls);
}

fn result(value: isize) -> Result<usize, Errno> {
    match value {
        // SAFETY: the calling thread's errno.
        -1 => Err(Errno::from_raw_os_error(unsafe {
            *libc::__errno_location()
        })),
        count => Ok(count as usize),
    }
}

/// One of the four calls, at which the thread may be cancelled.
///
/// # Safety
/// As the call.
pub(crate) unsafe fn transfer(
    number: libc::c_long,
    fd: c_int,
    what: *mut c_void,
    last: usize,
) -> Result<usize, Errno> {
    let function = CALLS.get().and_then(|calls| match number {
        libc::SYS_read => Some(calls.read),
        libc::SYS_write => Some(calls.write),
        libc::SYS_recvmsg => Some(calls.recvmsg),
        libc::SYS_sendmsg => Some(calls.sendmsg),
        _ => None,
    });
    match function {
        // SAFETY: by the caller.
        Some(function) => result(unsafe { function(fd, what, last) }),
        // SAFETY: by the caller.
        None => unsafe { raw::call(number, [fd as usize, what as usize, last, 0, 0, 0]) },
    }
}

/// epoll_pwait(2) for ever, at which the thread may be cancelled.
///
/// # Safety
/// As the call. `mask` is null, or the program's set of signals.
pub(crate) unsafe fn epoll_wait(
    epoll: c_int,
    out: *mut libc::epoll_event,
    max: c_int,
    mask: (*const u8, usize),
) -> Result<usize, Errno> {
    match CALLS.get() {
        // SAFETY: by the caller.
        Some(calls) => {
            result(unsafe { (calls.epoll_pwait)(epoll, out, max, -1, mask.0.cast()) } as isize)
        }
        // SAFETY: by the caller.
        None => unsafe {
            let last = -1isize as usize;
            raw::call(
                libc::SYS_epoll_pwait,
                [
                    epoll as usize,
                    out as usize,
                    max as usize,
                    last,
                    mask.0 as usize,
                    mask.1,
                ],
            )
        },
    }
}

/// Places for notes. Threads that end elsewhere leave theirs behind.
const MARKS: usize = 1024;
/// Of these a thread's note lies in one of so many, from its own on.
const NEAR: usize = 16;

static USED: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicUsize = AtomicUsize::new(0);
static MARKED: [AtomicUsize; MARKS] = [const { AtomicUsize::new(0) }; MARKS];

/// Where a thread's note may lie.
fn places(thread: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    // Threads are addresses, far apart: Fibonacci hashing, of which the upper bits are good.
    let first = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - MARKS.ilog2());
    (0..NEAR).map(move |step| &MARKED[(first + step) % MARKS])
}

fn own() -> usize {
    // SAFETY: has no conditions.
    unsafe { libc::pthread_self() as usize }
}

/// The thread is about to be cancelled.
pub fn mark(thread: libc::pthread_t) {
    let thread = thread as usize;
    let claim = |old| {
        let (yes, no) = (Ordering::Relaxed, Ordering::Relaxed);
        places(thread).any(|place| place.compare_exchange(old, thread, yes, no).is_ok())
    };
    if !find(thread) && !claim(0) {
        // Of threads that are gone, most likely.
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % NEAR;
        if let Some(place) = places(thread).nth(step) {
            place.store(thread, Ordering::Relaxed);
        }
    }
    USED.store(true, Ordering::Release);
    super::entry::careful();
}

/// Of `pthread.h`, which the libc crate leaves out.
pub const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;
const PTHREAD_CANCEL_DEFERRED: c_int = 0;

static ASYNCHRONOUS: AtomicBool = AtomicBool::new(false);

/// Threads may let themselves be cancelled anywhere from now on.
pub fn asynchronous() {
    ASYNCHRONOUS.store(true, Ordering::Relaxed);
    super::entry::careful();
}

/// The calling thread is not cancelled anywhere until [`expose`], if this says that it could have been.
#[inline]
pub(super) fn protect() -> bool {
    ASYNCHRONOUS.load(Ordering::Relaxed)
        && set_type(PTHREAD_CANCEL_DEFERRED) == PTHREAD_CANCEL_ASYNCHRONOUS
}

/// It is again, and at once if it was cancelled meanwhile.
#[cold]
pub(super) fn expose() {
    set_type(PTHREAD_CANCEL_ASYNCHRONOUS);
}

#[cold]
fn set_type(new: c_int) -> c_int {
    let mut old = PTHREAD_CANCEL_DEFERRED;
    if let Some(calls) = CALLS.get() {
        // SAFETY: the C library's function and a place for its answer.
        unsafe { (calls.pthread_setcanceltype)(new, &raw mut old) };
    }
    old
}

/// Whether the calling thread is about to be cancelled, or may be.
#[inline]
pub(crate) fn is_marked() -> bool {
    USED.load(Ordering::Relaxed) && find(own())
}

#[cold]
fn find(thread: usize) -> bool {
    places(thread).any(|mark| mark.load(Ordering::Relaxed) == thread)
}

/// Ends the thread if it was cancelled and allows it. Else says whether it was noted; it is no more.
pub(crate) fn test() -> bool {
    if !USED.load(Ordering::Relaxed) {
        return false;
    }
    let own = own();
    let mut any = false;
    for mark in places(own) {
        any |= mark
            .compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
    }
    // SAFETY: unwinds, if at all, through frames that hold nothing.
    unsafe { pthread_testcancel() };
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_are_noted_at_once() {
        // As far apart as stacks are.
        let threads = (1..=300_u64).map(|number| 0x7000_0000_0000 + (number << 23));
        for thread in threads.clone() {
            mark(thread as libc::pthread_t);
            mark(thread as libc::pthread_t);
        }
        let lost = threads.filter(|thread| !find(*thread as usize)).count();
        assert_eq!(lost, 0);
    }
}
