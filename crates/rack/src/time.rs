// SPDX-License-Identifier: Apache-2.0
//! Simulated time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Simulated time, or a span of it, in whole picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// From nanoseconds with a fraction, rounded to the nearest picosecond; negative values are 0.
    pub fn from_ns_f64(ns: f64) -> Self {
        Self((ns * 1_000.0).round().max(0.0) as u64)
    }

    /// From whole microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// In nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    /// In whole microseconds, rounded down.
    pub const fn whole_us(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The difference, or 0 if `other` is later.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The first of the times `phase + k * self` (whole k) that is not before `time`.
    ///
    /// `self` is a clock's period.
    pub const fn next_edge(self, phase: Self, time: Self) -> Self {
        if time.0 <= phase.0 {
            return phase;
        }
        Self(phase.0 + (time.0 - phase.0).div_ceil(self.0) * self.0)
    }
}

impl Add for Picoseconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Picoseconds {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Picoseconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Picoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ns", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::Picoseconds as Ps;

    #[test]
    fn edges() {
        let period = Ps(4_000);
        assert_eq!(period.next_edge(Ps(100), Ps(0)), Ps(100));
        assert_eq!(period.next_edge(Ps(100), Ps(100)), Ps(100));
        assert_eq!(period.next_edge(Ps(100), Ps(101)), Ps(4_100));
        assert_eq!(period.next_edge(Ps(100), Ps(8_100)), Ps(8_100));
    }
}
