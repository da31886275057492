// SPDX-License-Identifier: Apache-2.0
//! The kernel's epoll calls, with the program's own structures.

use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libc::{c_int, c_long, epoll_event};
use rustix::io::Errno;

use crate::raw;
use crate::signals::cancel;
use crate::signals::handlers::{Masked, Watch};
use crate::wait::FOR_EVER;

/// What goes with a registration or an event: it is packed on some architectures and not on others.
pub(super) type Event = epoll_event;

pub(super) const NO_EVENT: Event = Event { events: 0, u64: 0 };

/// A signal mask as the program gave it: its address and size; null for none.
#[derive(Debug, Clone, Copy)]
pub struct SignalMask(pub *const u8, pub usize);

impl SignalMask {
    /// No mask: signals stay as they are.
    pub const NONE: Self = Self(ptr::null(), 8);
}

pub(super) fn ctl(epoll: RawFd, op: c_int, fd: RawFd, events: u32, data: u64) -> Result<(), Errno> {
    let event = Event { events, u64: data };
    // SAFETY: the structure lives as long as the call.
    unsafe {
        raw::call(
            libc::SYS_epoll_ctl,
            [
                epoll as usize,
                op as usize,
                fd as usize,
                &raw const event as usize,
                0,
                0,
            ],
        )
    }
    .map(drop)
}

/// epoll_ctl as the program called it: the pointer may be null or bad, the kernel says so.
///
/// # Safety
/// `event` is what the program passed; the kernel checks it.
pub(super) unsafe fn ctl_raw(
    epoll: RawFd,
    op: c_int,
    fd: RawFd,
    event: *const Event,
) -> Result<(), Errno> {
    // SAFETY: the kernel only reads, and answers EFAULT to a bad pointer.
    unsafe {
        raw::call(
            libc::SYS_epoll_ctl,
            [
                epoll as usize,
                op as usize,
                fd as usize,
                event as usize,
                0,
                0,
            ],
        )
    }
    .map(drop)
}

static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

/// As [`wait`], for no time if a handler has run since `watch` began.
///
/// # Safety
/// As there.
pub(super) unsafe fn wait_watched(
    epoll: RawFd,
    out: *mut Event,
    max: c_int,
    timeout: Duration,
    mask: SignalMask,
    watch: Watch,
) -> Result<usize, Errno> {
    if NO_PWAIT2.load(Ordering::Relaxed) || timeout.is_zero() {
        let timeout = (timeout != FOR_EVER).then_some(timeout);
        // SAFETY: passed on.
        return unsafe { wait(epoll, out, max, timeout, mask) };
    }
    let own = !mask.0.is_null();
    let masked = own.then(|| Masked::begin(mask)).flatten();
    let mask = masked.as_ref().map_or(mask, Masked::mask);
    let result = watch.sleep(timeout, |time| {
        // SAFETY: by the caller; the time lives as long as the call.
        unsafe {
            raw::call(
                libc::SYS_epoll_pwait2,
                [
                    epoll as usize,
                    out as usize,
                    max as usize,
                    time as usize,
                    mask.0 as usize,
                    mask.1,
                ],
            )
        }
    });
    if result == Err(Errno::NOSYS) {
        NO_PWAIT2.store(true, Ordering::Relaxed);
        // SAFETY: passed on.
        return unsafe { wait_watched(epoll, out, max, timeout, mask, watch) };
    }
    result
}

/// As [`wait`], but handlers that have run since `watch` began interrupt it.
///
/// # Safety
/// As there.
pub(super) unsafe fn wait_interrupted(
    epoll: RawFd,
    out: *mut Event,
    max: c_int,
    timeout: Option<Duration>,
    mask: SignalMask,
    watch: Watch,
) -> Result<usize, Errno> {
    // To see that they wait costs a sleep without a limit, or with a mask of its own, one call more.
    let Some(limit) = timeout.filter(|limit| mask.0.is_null() && !limit.is_zero()) else {
        // SAFETY: passed on.
        return unsafe { wait(epoll, out, max, timeout, mask) };
    };
    // SAFETY: passed on.
    match unsafe { wait_watched(epoll, out, max, limit, mask, watch) } {
        Ok(0) if watch.is_broken() => Err(Errno::INTR),
        other => other,
    }
}

/// Waits for events; no timeout: for ever.
///
/// # Safety
/// `out` is the program's or our own array of `max` events; the mask is what the program passed.
pub(super) unsafe fn wait(
    epoll: RawFd,
    out: *mut Event,
    max: c_int,
    timeout: Option<Duration>,
    mask: SignalMask,
) -> Result<usize, Errno> {
    let sleeps = timeout != Some(Duration::ZERO);
    let masked = sleeps.then(|| Masked::begin(mask)).flatten();
    let mask = masked.as_ref().map_or(mask, Masked::mask);
    let whole = timeout.is_none_or(|timeout| timeout.is_zero());
    if !whole && !NO_PWAIT2.load(Ordering::Relaxed) {
        let spec = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: c_long::from(timeout.subsec_nanos() as i32),
        });
        let spec = spec.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: by the caller; the time lives as long as the call.
        let result = unsafe {
            raw::call(
                libc::SYS_epoll_pwait2,
                [
                    epoll as usize,
                    out as usize,
                    max as usize,
                    spec as usize,
                    mask.0 as usize,
                    mask.1,
                ],
            )
        };
        if result != Err(Errno::NOSYS) {
            return result;
        }
        NO_PWAIT2.store(true, Ordering::Relaxed);
    }
    let Some(timeout) = timeout else {
        // SAFETY: by the caller.
        return unsafe { cancel::epoll_wait(epoll, out, max, (mask.0, mask.1)) };
    };
    let milliseconds = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as c_int;
    // SAFETY: by the caller.
    unsafe {
        raw::call(
            libc::SYS_epoll_pwait,
            [
                epoll as usize,
                out as usize,
                max as usize,
                milliseconds as usize,
                mask.0 as usize,
                mask.1,
            ],
        )
    }
}
