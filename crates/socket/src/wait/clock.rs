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
static FIRST_TIME: AtomicU64 = AtomicU64::new(0);
static PER_MICROSECOND: AtomicU64 = AtomicU64::new(0);
/// Taken until the two clocks have run side by side for long enough; the order of magnitude matters, not the value.
const GUESS: u64 = 2_000;
/// What is taken for ticks in a microsecond by [`milliseconds`] where looks are counted.
const COUNTED_RATE: u64 = 2_500;
/// So many nanoseconds side by side make a measurement.
const LONG_ENOUGH: u64 = 1_000_000;

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

#[cold]
fn measure() -> u64 {
    let (now, time) = (counter(), nanoseconds());
    let first = FIRST_TIME.load(Ordering::Acquire);
    if first == 0 {
        FIRST_TICKS.store(now, Ordering::Relaxed);
        FIRST_TIME.store(time, Ordering::Release);
        return GUESS;
    }
    let elapsed = time.saturating_sub(first);
    if elapsed < LONG_ENOUGH {
        return GUESS;
    }
    let counted = now.saturating_sub(FIRST_TICKS.load(Ordering::Relaxed));
    let rate = (u128::from(counted) * 1_000 / u128::from(elapsed)).max(1) as u64;
    PER_MICROSECOND.store(rate, Ordering::Relaxed);
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

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
