// SPDX-License-Identifier: Apache-2.0
//! Who may spin, and for how long.
//!
//! Spinning is worth it while the answer comes sooner than a sleep and a wake-up would take, and while there is a core
//! to spare. So at most `spin_us` are spent since the last event, fewer threads of a process spin than it has cores,
//! and a thread whose spins were in vain several times in a row tries only now and then, until one succeeds; unless it
//! is configured to persist.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::clock;

/// Microseconds between two looks at the kernel while spinning.
const KERNEL_EVERY: u64 = 20;
/// Looks at the rings between two looks at the clock.
const CLOCK_EVERY: u32 = 8;
/// Spins in vain in a row, after which a thread becomes hesitant.
const PATIENCE: u32 = 8;
/// A hesitant thread tries once in at most two to the power of this many waits.
const HESITANCE: u32 = 6;

static SPIN_US: AtomicU32 = AtomicU32::new(50);
static PERSISTENT: AtomicBool = AtomicBool::new(false);
static SPINNING: AtomicU32 = AtomicU32::new(0);
static CORES: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static VAIN: Cell<u32> = const { Cell::new(0) };
    static SKIPPED: Cell<u32> = const { Cell::new(0) };
}

/// Sets how long a thread spins before it sleeps, 0: never, and whether it goes on so when that is in vain.
pub fn configure(spin_us: u32, persistent: bool) {
    SPIN_US.store(spin_us, Ordering::Relaxed);
    PERSISTENT.store(persistent, Ordering::Relaxed);
}

/// At start: measures the counter by which spins are timed.
pub fn start() {
    clock::per_microsecond();
}

fn spin_us() -> u32 {
    SPIN_US.load(Ordering::Relaxed)
}

/// Whether nobody spins: there may be no processor to spare.
pub(crate) fn never() -> bool {
    spin_us() == 0
}

/// Threads of this process that may spin at once.
fn places() -> u32 {
    match CORES.load(Ordering::Relaxed) {
        0 => {
            let cores = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
            CORES.store(cores.max(1), Ordering::Relaxed);
            cores.saturating_sub(1).max(1)
        }
        cores => cores.saturating_sub(1).max(1),
    }
}

/// After a fork, in the child: its other threads, spinning or not, are gone.
pub(crate) fn after_fork() {
    SPINNING.store(0, Ordering::Relaxed);
}

/// What a spinning thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Look at the rings again.
    Again,
    /// Look at the rings and at the kernel.
    Kernel,
    /// Sleep.
    Sleep,
}

/// A thread's permission to spin.
pub(crate) struct Spin {
    counted: bool,
    rounds: u32,
    end: u64,
    kernel: u64,
}

impl Spin {
    /// Asks for permission; `polled` is when the kernel was looked at last.
    #[inline]
    pub(crate) fn begin(polled: u64) -> Self {
        let us = u64::from(spin_us());
        if us == 0 || hesitates() {
            return Self::denied();
        }
        if SPINNING.fetch_add(1, Ordering::Relaxed) >= places() {
            SPINNING.fetch_sub(1, Ordering::Relaxed);
            return Self::denied();
        }
        let rate = clock::per_microsecond();
        let now = clock::ticks();
        Self {
            counted: true,
            rounds: 0,
            end: now + us * rate,
            kernel: polled.max(now.saturating_sub(KERNEL_EVERY * rate)) + KERNEL_EVERY * rate,
        }
    }

    const fn denied() -> Self {
        Self {
            counted: false,
            rounds: 0,
            end: 0,
            kernel: 0,
        }
    }

    /// After a look at the rings that found nothing.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> Step {
        std::hint::spin_loop();
        self.rounds += 1;
        if !self.counted {
            return Step::Sleep;
        }
        if !self.rounds.is_multiple_of(CLOCK_EVERY) {
            return Step::Again;
        }
        let now = clock::ticks();
        if now >= self.end {
            VAIN.set(VAIN.get().saturating_add(1));
            return Step::Sleep;
        }
        if now >= self.kernel {
            self.kernel = now + KERNEL_EVERY * clock::per_microsecond();
            return Step::Kernel;
        }
        Step::Again
    }

    /// The spin found what was waited for.
    #[inline(always)]
    pub(crate) fn found(&self) {
        if self.counted {
            VAIN.set(0);
        }
    }
}

impl Drop for Spin {
    #[inline(always)]
    fn drop(&mut self) {
        if self.counted {
            SPINNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether this thread leaves out this spin, because many were in vain.
#[inline]
fn hesitates() -> bool {
    let vain = VAIN.get();
    if vain < PATIENCE || PERSISTENT.load(Ordering::Relaxed) {
        return false;
    }
    let every = 1u32 << (vain - PATIENCE + 1).min(HESITANCE);
    let skipped = SKIPPED.get() + 1;
    if skipped < every {
        SKIPPED.set(skipped);
        return true;
    }
    SKIPPED.set(0);
    false
}

/// Whether the kernel, looked at last at `polled`, is due for another look.
#[inline(always)]
pub(crate) fn kernel_due(polled: u64, now: u64) -> bool {
    now.wrapping_sub(polled) > KERNEL_EVERY * clock::per_microsecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hesitates_after_vain_spins_and_trusts_again_after_one_that_found() {
        VAIN.set(0);
        assert!(!hesitates());
        VAIN.set(PATIENCE + 2);
        let tried = (0..64).filter(|_| !hesitates()).count();
        assert_eq!(tried, 64 / 8);
        VAIN.set(1_000);
        let tried = (0..128).filter(|_| !hesitates()).count();
        assert_eq!(tried, 2);
        configure(50, true);
        let tried = (0..128).filter(|_| !hesitates()).count();
        assert_eq!(tried, 128);
        configure(50, false);
        let spin = Spin {
            counted: true,
            rounds: 0,
            end: 0,
            kernel: 0,
        };
        SPINNING.fetch_add(1, Ordering::Relaxed);
        spin.found();
        assert!(!hesitates());
    }
}
