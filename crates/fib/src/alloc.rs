// SPDX-License-Identifier: Apache-2.0
//! Places for runs of 1 to 64 words in a memory.
//!
//! The memory is cut into slabs; a slab serves one size class at a time and goes back to the pool
//! when it is empty, so that no sequence of changes can fragment the memory for good. Places in
//! low slabs are taken first.

use std::collections::BTreeSet;

/// Longest run.
pub const MAX_RUN: u32 = 64;
const CLASSES: usize = 32;
const FREE: u8 = u8::MAX;

/// Words a run of class `class` takes.
const fn class_words(class: usize) -> u32 {
    match class {
        0..16 => class as u32 + 1,
        16..24 => 16 + 2 * (class as u32 - 15),
        _ => 32 + 4 * (class as u32 - 23),
    }
}

/// The smallest class that holds `words` words.
const fn class_of(words: u32) -> usize {
    match words {
        0..=16 => words as usize - 1,
        17..=32 => 15 + (words - 16).div_ceil(2) as usize,
        _ => 23 + (words - 32).div_ceil(4) as usize,
    }
}

/// Most words of a slab.
const SLAB: u32 = 512;

#[derive(Debug, Clone)]
struct Slab {
    class: u8,
    taken: u16,
    bits: [u64; (SLAB / 64) as usize],
}

/// An allocator of runs.
#[derive(Debug, Clone)]
pub struct Allocator {
    slab_words: u32,
    slabs: Vec<Slab>,
    free: BTreeSet<u32>,
    partial: Vec<BTreeSet<u32>>,
    used: u32,
    reserve: u32,
}

impl Allocator {
    /// An empty memory of `capacity` words. Small memories get small slabs; a last piece shorter
    /// than a slab is not used.
    pub fn new(capacity: u32) -> Self {
        let slab_words = (capacity / 1024)
            .next_power_of_two()
            .clamp(
                if capacity < 2048 {
                    MAX_RUN
                } else {
                    2 * MAX_RUN
                },
                SLAB,
            )
            .min(capacity.max(1));
        let count = capacity / slab_words;
        let slab = Slab {
            class: FREE,
            taken: 0,
            bits: [0; (SLAB / 64) as usize],
        };
        Self {
            slab_words,
            slabs: vec![slab; count as usize],
            free: (0..count).collect(),
            partial: vec![BTreeSet::new(); CLASSES],
            used: 0,
            reserve: if count >= 8 { 2 } else { 0 },
        }
    }

    /// Words in use by runs, as asked for.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Words of all slabs that are not free.
    pub fn held(&self) -> u32 {
        (self.slabs.len() as u32 - self.free.len() as u32) * self.slab_words
    }

    /// Words there are.
    pub fn capacity(&self) -> u32 {
        self.slabs.len() as u32 * self.slab_words
    }

    fn places(&self, class: usize) -> u32 {
        self.slab_words / class_words(class)
    }

    /// Takes a place for `words` words. The last slabs are kept for callers that may use the
    /// reserve: withdrawals, which need room for the new copy before the old one is free.
    pub fn take(&mut self, words: u32, use_reserve: bool) -> Option<u32> {
        let want = class_of(words);
        if self.places(want) == 0 {
            return None;
        }
        let keep = if use_reserve {
            0
        } else {
            self.reserve as usize
        };
        let (slab, class) = if let Some(&slab) = self.partial[want].first() {
            (slab, want)
        } else if self.free.len() > keep {
            (*self.free.first()?, want)
        } else {
            // No slab of this class: a place of a larger class is better than a refusal.
            let class = (want + 1..CLASSES).find(|&c| !self.partial[c].is_empty())?;
            (*self.partial[class].first()?, class)
        };
        let bits = &self.slabs[slab as usize].bits;
        let place = bits.iter().enumerate().find(|(_, b)| **b != u64::MAX)?;
        let place = place.0 as u32 * 64 + place.1.trailing_ones();
        let addr = slab * self.slab_words + place * class_words(class);
        self.claim(addr, words, class as u8);
        Some(addr)
    }

    /// The class of the slab an address lies in.
    pub fn class_at(&self, addr: u32) -> u8 {
        self.slabs[(addr / self.slab_words) as usize].class
    }

    /// Takes one known place, as `take` or the undoing of `give` does.
    pub fn claim(&mut self, addr: u32, words: u32, class: u8) {
        let index = addr / self.slab_words;
        let places = self.places(class.into());
        let size = class_words(class.into());
        let slab = &mut self.slabs[index as usize];
        if slab.class == FREE {
            slab.class = class;
            self.free.remove(&index);
            self.partial[usize::from(class)].insert(index);
        }
        let place = addr % self.slab_words / size;
        debug_assert!(slab.class == class && (addr % self.slab_words).is_multiple_of(size));
        debug_assert!(slab.bits[place as usize / 64] >> (place % 64) & 1 == 0);
        slab.bits[place as usize / 64] |= 1 << (place % 64);
        slab.taken += 1;
        if u32::from(slab.taken) == places {
            self.partial[usize::from(class)].remove(&index);
        }
        self.used += words;
    }

    /// Gives a place back.
    pub fn give(&mut self, addr: u32, words: u32) {
        let index = addr / self.slab_words;
        let class = usize::from(self.slabs[index as usize].class);
        let (places, size) = (self.places(class), class_words(class));
        let slab = &mut self.slabs[index as usize];
        let place = addr % self.slab_words / size;
        debug_assert!(slab.bits[place as usize / 64] >> (place % 64) & 1 == 1);
        slab.bits[place as usize / 64] &= !(1 << (place % 64));
        if u32::from(slab.taken) == places {
            self.partial[class].insert(index);
        }
        slab.taken -= 1;
        if slab.taken == 0 {
            slab.class = FREE;
            self.partial[class].remove(&index);
            self.free.insert(index);
        }
        self.used -= words;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_tight_and_in_order() {
        for words in 1..=MAX_RUN {
            let class = class_of(words);
            assert!(class_words(class) >= words);
            assert!(class == 0 || class_words(class - 1) < words);
        }
        assert_eq!(class_words(CLASSES - 1), MAX_RUN);
    }

    #[test]
    fn runs_never_overlap_and_come_back() {
        let mut state = 0x1234_5678u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let mut alloc = Allocator::new(32_768);
        let mut owner = vec![0u32; 32_768];
        let mut live: Vec<(u32, u32)> = Vec::new();
        let mut refused = 0;
        for round in 1..20_000u32 {
            if random() % 2 == 0 || live.is_empty() {
                let words = 1 + random() % MAX_RUN;
                match alloc.take(words, random() % 4 == 0) {
                    Some(addr) => {
                        for cell in &mut owner[addr as usize..(addr + words) as usize] {
                            assert_eq!(*cell, 0);
                            *cell = round;
                        }
                        live.push((addr, words));
                    }
                    None => refused += 1,
                }
            } else {
                let (addr, words) = live.swap_remove(random() as usize % live.len());
                owner[addr as usize..(addr + words) as usize].fill(0);
                alloc.give(addr, words);
            }
            assert_eq!(alloc.used(), live.iter().map(|l| l.1).sum::<u32>());
            if round % 5_000 == 0 {
                // Fill it up, so that refusals and larger classes are seen too.
                while let Some(addr) = alloc.take(3, false) {
                    owner[addr as usize..addr as usize + 3].fill(round);
                    live.push((addr, 3));
                }
                refused += 1;
            }
        }
        assert!(refused > 0);
        for (addr, words) in live {
            alloc.give(addr, words);
        }
        assert_eq!((alloc.used(), alloc.held()), (0, 0));
    }
}
