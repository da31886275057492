// SPDX-License-Identifier: Apache-2.0
//! A network that is worse than the one below it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::PAYLOAD_OFFSET;

use crate::error::Error;
use crate::transport::{Identity, Transport};

/// What happens to frames, each in thousandths of those sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// They are lost.
    pub loss: u32,
    /// They come twice.
    pub duplicate: u32,
    /// Some later ones overtake them.
    pub reorder: u32,
    /// A few bits of the payload are flipped.
    pub corrupt: u32,
}

/// How often it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames that the NIC sent.
    pub sent: u64,
    /// Lost ones.
    pub lost: u64,
    /// Frames that were sent twice.
    pub duplicated: u64,
    /// Frames that others overtook.
    pub reordered: u64,
    /// Frames with flipped bits.
    pub corrupted: u64,
}

/// Frames that overtake one at most.
const OVERTAKE: u32 = 8;

/// Spoils some of the frames that are sent, always the same ones for a seed.
pub struct Faulty<T> {
    below: T,
    faults: Faults,
    rng: ChaCha8Rng,
    /// Frames that are held back, and how many are to overtake them.
    held: VecDeque<(u32, Vec<u8>)>,
    counts: FaultCounts,
}

impl<T: Transport> Faulty<T> {
    /// Spoils what is sent through `below`.
    pub fn new(below: T, faults: Faults, seed: u64) -> Self {
        Self {
            below,
            faults,
            rng: ChaCha8Rng::seed_from_u64(seed),
            held: VecDeque::new(),
            counts: FaultCounts::default(),
        }
    }

    /// Changes what happens to frames from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// How often it happened.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    fn happens(&mut self, thousandths: u32) -> bool {
        self.rng.random_range(0..1000) < thousandths
    }

    fn overtaken(&mut self) -> io::Result<()> {
        for (left, _) in &mut self.held {
            *left = left.saturating_sub(1);
        }
        while let Some((0, _)) = self.held.front() {
            if let Some((_, frame)) = self.held.pop_front() {
                self.below.send(&frame)?;
            }
        }
        Ok(())
    }
}

impl<T: Transport> Transport for Faulty<T> {
    fn identity(&self) -> Identity {
        self.below.identity()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.counts.sent += 1;
        if self.happens(self.faults.loss) {
            self.counts.lost += 1;
            return Ok(());
        }
        let mut frame = frame.to_vec();
        if self.happens(self.faults.corrupt) && frame.len() > PAYLOAD_OFFSET {
            self.counts.corrupted += 1;
            for _ in 0..self.rng.random_range(1..=3) {
                let at = self.rng.random_range(PAYLOAD_OFFSET..frame.len());
                frame[at] ^= 1 << self.rng.random_range(0..8);
            }
        }
        if self.happens(self.faults.duplicate) {
            self.counts.duplicated += 1;
            self.below.send(&frame)?;
        }
        if self.happens(self.faults.reorder) {
            self.counts.reordered += 1;
            let by = self.rng.random_range(1..=OVERTAKE);
            self.held.push_back((by, frame));
            return Ok(());
        }
        self.below.send(&frame)?;
        self.overtaken()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        self.below.receive(frame)
    }

    fn open_port(&mut self, port: u16) -> Result<(), Error> {
        self.below.open_port(port)
    }

    fn close_port(&mut self, port: u16) {
        self.below.close_port(port);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below.descriptor()
    }
}
