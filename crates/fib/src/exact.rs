// SPDX-License-Identifier: Apache-2.0
//! Exact match for single addresses: four banks with a hash each, read in the same cycle.
//!
//! An insertion may move entries to one of their other places, at most [`MAX_MOVES`] of them;
//! an entry is copied before its old place is overwritten, so a lookup that reads all banks in one
//! cycle finds it at any time.

use crate::error::Error;
use crate::hw::Hw;
use crate::image::host_entry;
use crate::layout::{self, Bits, HOST_BANKS, Leaf, Memory};

/// Entries an insertion may move.
pub const MAX_MOVES: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct Exact {
    banks: [Memory; HOST_BANKS],
    key_bits: u32,
    index_bits: u32,
    entries: u32,
}

/// A place, and the place whose entry would move here.
#[derive(Clone, Copy)]
struct Step {
    bank: usize,
    index: u32,
    from: Option<usize>,
    moves: usize,
}

impl Exact {
    /// `None` if the build has no such table.
    pub fn new(hw: &Hw, banks: [Memory; HOST_BANKS], key_bits: u32) -> Option<Self> {
        let depth = hw.image.depth(banks[0]);
        (depth != 0).then(|| Self {
            banks,
            key_bits,
            index_bits: depth.ilog2(),
            entries: 0,
        })
    }

    pub fn get(&self, hw: &Hw, key: u128) -> Leaf {
        let read = &mut |memory, addr| hw.image.read(memory, addr);
        hw.image.host(&self.banks, key, self.key_bits, read)
    }

    fn index(&self, bank: usize, key: u128) -> u32 {
        layout::host_hash(bank, key, self.key_bits, self.index_bits)
    }

    fn entry(&self, hw: &Hw, bank: usize, index: u32) -> (u128, Leaf) {
        host_entry(self.banks[bank], &hw.image.read(self.banks[bank], index))
    }

    fn word(&self, key: u128, leaf: Leaf) -> Bits {
        let mut word = [0; 3];
        if self.key_bits == 32 {
            layout::V4_HOST_LEAF.set(&mut word, leaf.0.into());
            layout::V4_HOST_KEY.set(&mut word, key as u64);
        } else {
            layout::V6_HOST_LEAF.set(&mut word, leaf.0.into());
            layout::V6_HOST_KEY.set_wide(&mut word, key);
        }
        word
    }

    /// Takes a key out.
    pub fn remove(&mut self, hw: &mut Hw, key: u128) {
        for bank in 0..HOST_BANKS {
            let index = self.index(bank, key);
            let (found, leaf) = self.entry(hw, bank, index);
            if leaf != Leaf::NONE && found == key {
                hw.write(self.banks[bank], index, [0; 3]);
                self.entries -= 1;
            }
        }
    }

    /// Puts a key in, or gives it another leaf. Writes nothing if there is no place.
    pub fn set(&mut self, hw: &mut Hw, key: u128, leaf: Leaf) -> Result<(), Error> {
        for bank in 0..HOST_BANKS {
            let index = self.index(bank, key);
            let (found, old) = self.entry(hw, bank, index);
            if old != Leaf::NONE && found == key {
                hw.write(self.banks[bank], index, self.word(key, leaf));
                return Ok(());
            }
        }
        // Breadth first, so that the fewest entries move.
        let mut steps: Vec<Step> = (0..HOST_BANKS)
            .map(|bank| Step {
                bank,
                index: self.index(bank, key),
                from: None,
                moves: 0,
            })
            .collect();
        let mut at = 0;
        while at < steps.len() {
            let step = steps[at];
            let (found, old) = self.entry(hw, step.bank, step.index);
            if old == Leaf::NONE {
                self.shift(hw, &steps, at, self.word(key, leaf));
                self.entries += 1;
                return Ok(());
            }
            if step.moves < MAX_MOVES {
                for bank in (0..HOST_BANKS).filter(|&bank| bank != step.bank) {
                    let index = self.index(bank, found);
                    if !steps.iter().any(|s| (s.bank, s.index) == (bank, index)) {
                        steps.push(Step {
                            bank,
                            index,
                            from: Some(at),
                            moves: step.moves + 1,
                        });
                    }
                }
            }
            at += 1;
        }
        let key = if self.key_bits == 32 {
            std::net::Ipv4Addr::from(key as u32).to_string()
        } else {
            std::net::Ipv6Addr::from(key).to_string()
        };
        let capacity = (HOST_BANKS as u32) << self.index_bits;
        Err(Error::HostTableFull {
            key,
            used: self.entries,
            capacity,
        })
    }

    /// Moves entries towards the empty place `at`, last one first, then writes the new one.
    fn shift(&self, hw: &mut Hw, steps: &[Step], mut at: usize, word: Bits) {
        while let Some(from) = steps[at].from {
            let moved = hw
                .image
                .read(self.banks[steps[from].bank], steps[from].index);
            hw.write(self.banks[steps[at].bank], steps[at].index, moved);
            at = from;
        }
        hw.write(self.banks[steps[at].bank], steps[at].index, word);
    }
}
