// SPDX-License-Identifier: Apache-2.0
//! A clock for spin loops: reading the system's costs as much as a message.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A point in time, in ticks of the processor's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(u64);

impl Ticks {
    /// Now.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        Self(counter())
    }

    /// This point plus `duration`.
    #[inline]
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let ticks = duration
            .as_nanos()
            .saturating_mul(u128::from(per_microsecond()))
            / 1000;
        Self(
            self.0
                .saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX)),
        )
    }

    /// Whether this point is over.
    #[inline(always)]
    #[must_use]
    pub fn passed(self) -> bool {
        counter() >= self.0
    }

    /// Time from `earlier` to this point; zero if it is the later one.
    #[inline]
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let ticks = u128::from(self.0.saturating_sub(earlier.0));
        Duration::from_nanos(
            u64::try_from(ticks * 1000 / u128::from(per_microsecond())).unwrap_or(u64::MAX),
        )
    }
}

/// Ticks of the counter in a microsecond.
#[inline]
fn per_microsecond() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(rate)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and Linux lets programs read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let value;
    // SAFETY: Linux lets programs read the virtual counter.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Compares the counter with the system's clock for a moment; good to a few per cent, which is enough for spinning.
fn rate() -> u64 {
    let start = Instant::now();
    let from = counter();
    loop {
        let elapsed = start.elapsed();
        if elapsed >= Duration::from_micros(200) {
            let ticks = counter().saturating_sub(from);
            return u64::try_from(u128::from(ticks) * 1000 / elapsed.as_nanos())
                .unwrap_or(1)
                .max(1);
        }
        std::hint::spin_loop();
    }
}

/// When a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Never.
    pub const NEVER: Self = Self(None);

    /// In `timeout` from now on; never for `None`.
    #[must_use]
    pub fn after(timeout: Option<Duration>) -> Self {
        // A point beyond what the clock can name is never reached either.
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Time that is left; `None`: no limit.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        self.0
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether it is over.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}
