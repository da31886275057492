// SPDX-License-Identifier: Apache-2.0
//! A clock that costs a few nanoseconds: the processor's cycle counter, scaled by the kernel's clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// From now on a look at this clock takes a microsecond and nothing else does: where time is simulated, the processor's
/// counter shows how fast the simulation is, and what is decided by it is another thing in every run.
pub(super) fn count_looks() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// The counter now.
#[inline(always)]
pub fn ticks() -> u64 {
    if COUNTING.load(Ordering::Relaxed) {
        return COUNTED.fetch_add(1, Ordering::Relaxed);
    }
    counter()
}

#[inline(always)]
fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and user programs may use it on Linux.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reads a counter that user programs may read.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack));
        }
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        nanoseconds()
    }
}

/// The kernel's monotonic clock.
#[inline]
pub(crate) fn nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

static FIRST_TICKS: AtomicU64 = AtomicU64::new(0);
static FIRST_WIDTH: AtomicU64 = AtomicU64::new(0);
static FIRST_TIME: AtomicU64 = AtomicU64::new(0);
static PER_MICROSECOND: AtomicU64 = AtomicU64::new(0);
/// Taken until the two clocks have run side by side for long enough; the order of magnitude matters, not the value.
const GUESS: u64 = 2_000;
/// What is taken for ticks in a microsecond by [`milliseconds`] where looks are counted.
const COUNTED_RATE: u64 = 2_500;
/// So many nanoseconds side by side make a measurement.
const LONG_ENOUGH: u64 = 1_000_000;
/// Of a measurement, so small a part may be doubtful.
const DOUBT: u64 = 50;
/// Looks at both clocks, of which the best counts.
const LOOKS: usize = 4;

/// Ticks of the counter in a microsecond.
#[inline]
pub(crate) fn per_microsecond() -> u64 {
    if COUNTING.load(Ordering::Relaxed) {
        return 1;
    }
    match PER_MICROSECOND.load(Ordering::Relaxed) {
        0 => measure(),
        known => known,
    }
}

/// So many milliseconds in ticks. Where looks are counted these are so many that nobody has waited in vain before.
pub fn milliseconds(count: u64) -> u64 {
    let rate = match COUNTING.load(Ordering::Relaxed) {
        true => COUNTED_RATE,
        false => per_microsecond(),
    };
    count * 1_000 * rate
}

/// A time of the kernel's clock that all processes share, in milliseconds.
pub fn shared_milliseconds() -> u64 {
    match COUNTING.load(Ordering::Relaxed) {
        true => ticks() / (1_000 * COUNTED_RATE),
        false => nanoseconds() / 1_000_000,
    }
}

/// Both clocks at a moment, between two looks at the counter.
#[derive(Clone, Copy)]
struct Moment {
    ticks: u64,
    /// How far apart the two looks were: the thread may have been away in between.
    width: u64,
    time: u64,
}

impl Moment {
    fn now() -> Self {
        let look = |_| {
            let ticks = counter();
            let time = nanoseconds();
            let width = counter().saturating_sub(ticks);
            Self { ticks, width, time }
        };
        let best = (0..LOOKS).map(look).min_by_key(|moment| moment.width);
        best.unwrap_or_else(|| look(0))
    }

    /// Ticks in a microsecond since then, if enough time has gone for the looks' width not to matter.
    fn rate_since(self, first: Self) -> Option<u64> {
        let elapsed = self.time.saturating_sub(first.time);
        let counted = self.ticks.saturating_sub(first.ticks);
        let doubtful = self.width.saturating_add(first.width);
        if elapsed < LONG_ENOUGH || counted / DOUBT < doubtful {
            return None;
        }
        let rate = u128::from(counted) * 1_000 / u128::from(elapsed);
        Some(rate.max(1) as u64)
    }
}

#[cold]
fn measure() -> u64 {
    let now = Moment::now();
    let time = FIRST_TIME.load(Ordering::Acquire);
    if time == 0 {
        FIRST_TICKS.store(now.ticks, Ordering::Relaxed);
        FIRST_WIDTH.store(now.width, Ordering::Relaxed);
        FIRST_TIME.store(now.time, Ordering::Release);
        return GUESS;
    }
    let first = Moment {
        ticks: FIRST_TICKS.load(Ordering::Relaxed),
        width: FIRST_WIDTH.load(Ordering::Relaxed),
        time,
    };
    let Some(rate) = now.rate_since(first) else {
        return GUESS;
    };
    PER_MICROSECOND.store(rate, Ordering::Relaxed);
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_away_between_the_clocks_measures_nothing() {
        let at = |ticks, width, time| Moment { ticks, width, time };
        let away = at(0, 50_000_000, 20_000_000);
        let after = at(55_000_000, 100, 22_000_000);
        assert_eq!(after.rate_since(away), None);
        let (first, later) = (at(0, 100, 0), at(5_000_000, 100, 2_000_000));
        assert_eq!(later.rate_since(first), Some(2_500));
        // After long the width does not matter any more.
        let long_after = at(10_055_000_000, 100, 4_022_000_000);
        assert_eq!(long_after.rate_since(away), Some(2_512));
    }

    #[test]
    fn counts_microseconds() {
        per_microsecond();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let rate = per_microsecond();
        assert!(
            (10..20_000).contains(&rate),
            "{rate} ticks in a microsecond"
        );
        let start = ticks();
        let time = nanoseconds();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let microseconds = (ticks() - start) / rate;
        let real = (nanoseconds() - time) / 1_000;
        assert!(
            microseconds.abs_diff(real) < real / 5,
            "{microseconds} for {real}"
        );
    }
}
