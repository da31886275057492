// SPDX-License-Identifier: Apache-2.0
//! The one way to wait: spin for a while, then sleep in the kernel.
//!
//! A thread that is about to sleep asks the peer to ring, looks at the rings once more, and then sleeps on the twin.
//! No sleep is longer than half a second (`HEARTBEAT`): what the daemon or a dead process could not ring for, a
//! revoked channel for instance, is noticed then.

pub(crate) mod clock;
mod spin;

use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

pub(crate) use spin::{Spin, Step, after_fork, kernel_due, never as never_spins};
pub use spin::{configure, start};

use crate::epoll::SignalMask;
use crate::inside;
use crate::ready::{self, Events, Pollable};
use crate::signals::handlers::{Masked, Watch};
use crate::table::Description;

/// The longest sleep.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);
/// The longest sleep on what another process may drain.
const SHARED_HEARTBEAT: Duration = Duration::from_millis(10);
/// No limit.
pub(crate) const FOR_EVER: Duration = Duration::MAX;

static NO_HEARTBEAT: AtomicBool = AtomicBool::new(false);

/// Lets nobody wake without a reason, and nothing depend on the processor's speed: where time is simulated.
pub fn without_heartbeat() {
    NO_HEARTBEAT.store(true, Ordering::Relaxed);
    clock::count_looks();
}

/// The longest sleep, on something that another process may drain or not.
pub(crate) fn longest(shared: bool) -> Duration {
    match shared {
        true => SHARED_HEARTBEAT,
        false if NO_HEARTBEAT.load(Ordering::Relaxed) => FOR_EVER,
        false => HEARTBEAT,
    }
}

/// Heartbeats that found what should have rung: none, as long as nothing is shared with another process.
#[cfg(test)]
pub(crate) static RESCUED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// A point in time, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline(u64);

impl Deadline {
    /// The time `duration` from now.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(clock::nanoseconds().saturating_add(nanoseconds))
    }

    /// Time left; zero when it has passed.
    #[must_use]
    pub fn left(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(clock::nanoseconds()))
    }

    /// Whether it has passed.
    #[must_use]
    pub fn passed(self) -> bool {
        clock::nanoseconds() >= self.0
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// What was waited for may be there: try.
    Ready,
    /// The deadline has passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// The descriptor was closed, or refers to something else now.
    Closed,
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// As the kernel wants it; none for [`FOR_EVER`].
fn limit(timeout: Duration) -> Option<Timespec> {
    (timeout != FOR_EVER).then(|| timespec(timeout))
}

/// The kernel's word about a single descriptor, waiting at most `timeout`.
pub(crate) fn poll_kernel(fd: RawFd, want: Events, timeout: Duration) -> Result<Events, Errno> {
    // SAFETY: the number is only lent to the call; if it is closed meanwhile, the kernel says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut polled = [PollFd::from_borrowed_fd(
        borrowed,
        PollFlags::from_bits_retain(want.0 as u16),
    )];
    // Handlers that have been put off, or will be in the moment before the call begins, are to end it.
    let sleeps = timeout != Duration::ZERO;
    let masked = sleeps.then(|| Masked::begin(SignalMask::NONE)).flatten();
    let mask = masked.as_ref().map_or(SignalMask::NONE, Masked::mask);
    let mut limit = limit(timeout);
    // SAFETY: the kernel's structures, which live as long as the call.
    unsafe {
        crate::raw::call(
            libc::SYS_ppoll,
            [
                polled.as_mut_ptr() as usize,
                polled.len(),
                limit
                    .as_mut()
                    .map_or(0, |limit| ptr::from_mut(limit) as usize),
                mask.0 as usize,
                mask.1,
                0,
            ],
        )
    }?;
    Ok(Events(u32::from(polled[0].revents().bits())))
}

/// poll(2), which ends at once if a handler has run since `watch` began; without a signal mask.
fn poll(polled: &mut [PollFd<'_>], timeout: Duration, watch: Watch) -> Result<(), Errno> {
    watch.sleep(timeout, |time| {
        // SAFETY: the kernel's structures, as many as there are; the time is lent to the call.
        unsafe {
            crate::raw::call(
                libc::SYS_ppoll,
                [
                    polled.as_mut_ptr() as usize,
                    polled.len(),
                    time as usize,
                    0,
                    8,
                    0,
                ],
            )
        }
    })?;
    Ok(())
}

/// The kernel's word about the twin of `pollable`, and about its bell if it has one.
pub(crate) fn poll_twin(
    fd: RawFd,
    pollable: &dyn Pollable,
    want: Events,
    timeout: Duration,
    watch: Watch,
) -> Result<Events, Errno> {
    let interest = pollable.twin_interest(want);
    // SAFETY: as in `poll_kernel`.
    let twin = unsafe { BorrowedFd::borrow_raw(fd) };
    let Some(bell) = pollable.bell() else {
        let asked = PollFlags::from_bits_retain(interest.0 as u16);
        let mut polled = [PollFd::from_borrowed_fd(twin, asked)];
        poll(&mut polled, timeout, watch)?;
        return Ok(Events(u32::from(polled[0].revents().bits())));
    };
    // SAFETY: a bell lives as long as its connection.
    let bell = unsafe { BorrowedFd::borrow_raw(bell) };
    let mut polled = [
        PollFd::from_borrowed_fd(bell, PollFlags::IN),
        PollFd::from_borrowed_fd(twin, PollFlags::from_bits_retain(interest.0 as u16)),
    ];
    let count = if interest.has(Events::SKIP) { 1 } else { 2 };
    poll(&mut polled[..count], timeout, watch)?;
    let mut events = Events(u32::from(polled[1].revents().bits()));
    if !polled[0].revents().is_empty() {
        events |= Events::BELL;
    }
    Ok(events)
}

/// Waits until `pollable`, which is `description` under the number `fd`, is ready for one of `want`, or has an error.
pub fn wait_one(
    fd: RawFd,
    description: &Description,
    pollable: &dyn Pollable,
    want: Events,
    deadline: Option<Deadline>,
) -> Wait {
    let want = want | Events::ALWAYS | Events::KERNEL;
    // What ends a sleep ends the spin in front of it, too.
    let watch = Watch::begin();
    let mut spin = Spin::begin(clock::ticks());
    loop {
        if pollable.ready().has(want) {
            spin.found();
            return Wait::Ready;
        }
        match spin.step() {
            Step::Again => {}
            _ if watch.is_broken() => return Wait::Interrupted,
            Step::Kernel => {
                let Some(at) = inside::number(fd, description) else {
                    return Wait::Closed;
                };
                if let Ok(twin) = poll_twin(at, pollable, want, Duration::ZERO, watch)
                    && !twin.is_empty()
                {
                    description.waiters.seen(pollable, at, twin);
                }
            }
            Step::Sleep => break,
        }
    }
    drop(spin);
    let token = ready::token();
    loop {
        description.waiters.thread_sleeps(token, want, pollable);
        if pollable.ready().has(want) || pollable.is_stalled(want) {
            description
                .waiters
                .thread_wakes(token, pollable, fd, Events::NONE);
            return Wait::Ready;
        }
        let longest = longest(pollable.shared());
        let timeout = deadline.map_or(longest, |deadline| deadline.left().min(longest));
        let twin = match inside::number(fd, description) {
            Some(at) => poll_twin(at, pollable, want, timeout, watch),
            None => Ok(Events::NONE),
        };
        // It may have got another number meanwhile, and what has its old one is none of ours.
        let now = inside::number(fd, description);
        let heard = now.and(twin.ok()).unwrap_or(Events::NONE);
        let drained = description
            .waiters
            .thread_wakes(token, pollable, now.unwrap_or(fd), heard);
        if twin == Ok(Events::NONE) {
            pollable.heartbeat();
        }
        if pollable.ready().has(want) {
            #[cfg(test)]
            if twin == Ok(Events::NONE) {
                RESCUED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            return Wait::Ready;
        }
        if pollable.is_stalled(want) {
            return Wait::Ready;
        }
        if now.is_none() {
            return Wait::Closed;
        }
        if twin == Err(Errno::INTR) || watch.is_broken() {
            return Wait::Interrupted;
        }
        if deadline.is_some_and(Deadline::passed) {
            return Wait::TimedOut;
        }
        if !drained {
            // Others sleep on the same twin and have yet to wake.
            rustix::thread::sched_yield();
        }
    }
}
