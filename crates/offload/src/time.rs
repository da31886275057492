// SPDX-License-Identifier: Apache-2.0
//! Virtual time.

use std::ops::{Add, AddAssign};

/// Virtual time, or a span of it, in whole picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// Later than everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// From whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// From whole microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// In microseconds.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// In whole microseconds, rounded down.
    pub const fn whole_us(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The difference, or 0 if `other` is later.
    pub const fn since(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The first edge of a clock with this period that is not before `time`.
    pub const fn edge(self, time: Self) -> Self {
        Self(time.0.div_ceil(self.0) * self.0)
    }

    /// That many times as long.
    pub const fn times(self, count: u64) -> Self {
        Self(self.0 * count)
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
