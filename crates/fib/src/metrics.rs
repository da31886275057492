// SPDX-License-Identifier: Apache-2.0
//! What changes cost, and what memory the tables take.

use crate::image::Op;
use crate::layout::{MEMORIES, Memory};

/// Cost of all changes since the metrics were last cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Changes done.
    pub changes: u64,
    /// Changes refused.
    pub refused: u64,
    /// Words written.
    pub writes: u64,
    /// Drain markers.
    pub drains: u64,
    /// Words written, by memory id.
    pub writes_by_memory: [u64; MEMORIES],
    /// Changes by words written: element 0 counts changes without a write, element i those of
    /// `2^(i-1)` to `2^i - 1` words.
    pub histogram: [u64; 32],
    /// Most words written by one change.
    pub most: u32,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            changes: 0,
            refused: 0,
            writes: 0,
            drains: 0,
            writes_by_memory: [0; MEMORIES],
            histogram: [0; 32],
            most: 0,
        }
    }
}

impl Metrics {
    pub(crate) fn count(&mut self, ops: &[Op]) {
        let mut words = 0u32;
        for op in ops {
            match op {
                Op::Write(write) => {
                    words += 1;
                    self.writes_by_memory[write.memory as usize] += 1;
                }
                Op::Drain => self.drains += 1,
            }
        }
        self.changes += 1;
        self.writes += u64::from(words);
        self.histogram[(32 - words.leading_zeros()).min(31) as usize] += 1;
        self.most = self.most.max(words);
    }

    /// Words a change, on average.
    pub fn mean(&self) -> f64 {
        self.writes as f64 / self.changes.max(1) as f64
    }

    /// The upper end of the histogram's class in which the given share (0 to 1) of the changes is
    /// reached.
    pub fn quantile(&self, share: f64) -> u32 {
        let goal = (self.changes as f64 * share).ceil() as u64;
        let mut sum = 0;
        for (class, count) in self.histogram.iter().enumerate() {
            sum += count;
            if sum >= goal {
                return ((1u64 << class) - 1).min(self.most.into()) as u32;
            }
        }
        self.most
    }
}

/// Use of one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// The memory.
    pub memory: Memory,
    /// Words there are.
    pub capacity: u32,
    /// Words that hold something; memories that are indexed by address bits count in full.
    pub used: u32,
    /// Words that can't hold anything else at the moment: `used` and what the allocator rounds up
    /// and holds in begun slabs.
    pub held: u32,
}

impl MemoryUse {
    /// Bytes used, eight bits a byte, as wide as the hardware's words are.
    pub fn used_bytes(&self) -> f64 {
        f64::from(self.used) * f64::from(self.memory.width()) / 8.0
    }

    /// Bytes held.
    pub fn held_bytes(&self) -> f64 {
        f64::from(self.held) * f64::from(self.memory.width()) / 8.0
    }
}
