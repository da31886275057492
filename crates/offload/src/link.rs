// SPDX-License-Identifier: Apache-2.0
//! A cable on which everything goes wrong that can.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Picoseconds;
use crate::mix::{BYTE_PS, ETHERNET};

/// Probabilities for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// It does not arrive.
    pub loss: f64,
    /// One of its bits is turned, and the FCS is right.
    pub corrupt: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// It arrives later than others that were sent behind it.
    pub reorder: f64,
}

/// One direction of a cable of 10 Gb/s.
#[derive(Debug)]
pub struct Link {
    delay: Picoseconds,
    faults: Faults,
    rng: ChaCha8Rng,
    free: Picoseconds,
    number: u64,
    packets: BinaryHeap<Reverse<(Picoseconds, u64, Vec<u8>)>>,
    carried: u64,
}

impl Link {
    /// Empty.
    pub fn new(delay: Picoseconds, faults: Faults, seed: u64) -> Self {
        Self {
            delay,
            faults,
            rng: ChaCha8Rng::seed_from_u64(seed),
            free: Picoseconds::ZERO,
            number: 0,
            packets: BinaryHeap::new(),
            carried: 0,
        }
    }

    /// Packets that were sent over it.
    pub const fn carried(&self) -> u64 {
        self.carried
    }

    /// Nothing goes wrong any more.
    pub fn heal(&mut self) {
        self.faults = Faults::default();
    }

    /// A packet is sent.
    pub fn send(&mut self, now: Picoseconds, mut packet: Vec<u8>) {
        self.carried += 1;
        let time = (packet.len() as u64 + ETHERNET) * BYTE_PS;
        self.free = self.free.max(now) + Picoseconds(time);
        let Faults {
            loss,
            corrupt,
            duplicate,
            reorder,
        } = self.faults;
        if self.rng.random_bool(loss) {
            return;
        }
        if self.rng.random_bool(corrupt) {
            let bit = self.rng.random_range(0..packet.len() * 8);
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        let copies = 1 + u32::from(self.rng.random_bool(duplicate));
        for _ in 0..copies {
            let mut arrival = self.free + self.delay;
            if self.rng.random_bool(reorder) {
                let most = 4 * self.delay.0.max(1_000_000);
                arrival += Picoseconds(self.rng.random_range(0..most));
            }
            self.number += 1;
            let entry = (arrival, self.number, packet.clone());
            self.packets.push(Reverse(entry));
        }
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Picoseconds {
        let first = self.packets.peek();
        first.map_or(Picoseconds::NEVER, |Reverse((time, ..))| *time)
    }

    /// A packet that has arrived by then.
    pub fn receive(&mut self, now: Picoseconds) -> Option<Vec<u8>> {
        if self.next() > now {
            return None;
        }
        self.packets.pop().map(|Reverse((_, _, packet))| packet)
    }
}
