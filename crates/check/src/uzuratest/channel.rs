// SPDX-License-Identifier: Apache-2.0
//! One direction between two engines: frames that come late, twice, in another order, altered, or not at all.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Cycles of the cable.
const LATENCY: u64 = 10;
/// Most cycles that a frame is late.
const LATE: u64 = 600;

/// What happens to frames; each in 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// It vanishes.
    pub loss: u32,
    /// It comes twice.
    pub duplicate: u32,
    /// Later ones overtake it.
    pub late: u32,
    /// Bits are wrong.
    pub corrupt: u32,
}

impl Faults {
    /// Each of them as often.
    #[must_use]
    pub const fn all(rate: u32) -> Self {
        Self {
            loss: rate,
            duplicate: rate,
            late: rate,
            corrupt: rate,
        }
    }
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that vanished.
    pub lost: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames that were overtaken.
    pub late: u64,
    /// Frames that were altered.
    pub corrupted: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.late += other.late;
        self.corrupted += other.corrupted;
    }
}

/// A direction.
pub struct Channel {
    /// What happens to frames.
    pub faults: Faults,
    /// Nothing comes any more.
    pub dead: bool,
    /// What has happened.
    pub stats: Stats,
    rng: ChaCha8Rng,
    order: u64,
    under_way: BTreeMap<(u64, u64), Vec<u8>>,
}

impl Channel {
    /// An empty one.
    #[must_use]
    pub fn new(faults: Faults, rng: ChaCha8Rng) -> Self {
        Self {
            faults,
            dead: false,
            stats: Stats::default(),
            rng,
            order: 0,
            under_way: BTreeMap::new(),
        }
    }

    fn happens(&mut self, rate: u32) -> bool {
        rate != 0 && self.rng.random_ratio(rate, 1000)
    }

    fn put(&mut self, due: u64, frame: Vec<u8>) {
        self.order += 1;
        self.under_way.insert((due, self.order), frame);
    }

    /// A frame is sent.
    pub fn send(&mut self, cycle: u64, mut frame: Vec<u8>) {
        self.stats.sent += 1;
        let faults = self.faults;
        let mut due = cycle + LATENCY;
        if self.dead || self.happens(faults.loss) {
            self.stats.lost += 1;
            return;
        }
        if self.happens(faults.corrupt) {
            self.stats.corrupted += 1;
            self.spoil(&mut frame);
        }
        if self.happens(faults.duplicate) {
            self.stats.duplicated += 1;
            let later = due + self.rng.random_range(0..LATE);
            self.put(later, frame.clone());
        }
        if self.happens(faults.late) {
            self.stats.late += 1;
            due += self.rng.random_range(1..LATE);
        }
        self.put(due, frame);
    }

    /// Up to three bits behind the Ethernet header, so that the frame's own checksums must find them; or an end that is missing.
    fn spoil(&mut self, frame: &mut Vec<u8>) {
        const ETHERNET: usize = 14;
        if self.rng.random_ratio(1, 5) {
            frame.truncate(self.rng.random_range(1..frame.len()));
            return;
        }
        for _ in 0..self.rng.random_range(1..=3) {
            let at = self.rng.random_range(ETHERNET..frame.len());
            frame[at] ^= 1 << self.rng.random_range(0..8);
        }
    }

    /// Takes what has come by now.
    pub fn arrived(&mut self, cycle: u64) -> Vec<Vec<u8>> {
        let later = self.under_way.split_off(&(cycle + 1, 0));
        std::mem::replace(&mut self.under_way, later)
            .into_values()
            .collect()
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}
