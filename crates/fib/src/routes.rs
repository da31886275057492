// SPDX-License-Identifier: Apache-2.0
//! Where the routes themselves are kept: heap-ordered binary trees.
//!
//! Prefix p of length l is element `1 << l | p`; its parent is the element halved. An element
//! of 0 is "no route". The walk from short to long prefixes is the walk from low to high elements.

/// The routes of length 1 to `depth`, dense.
#[derive(Debug, Clone)]
pub(crate) struct ShortTree {
    depth: u32,
    leaves: Vec<u32>,
}

impl ShortTree {
    pub fn new(depth: u32) -> Self {
        Self {
            depth,
            leaves: vec![0; 2 << depth],
        }
    }

    pub fn get(&self, element: u32) -> u32 {
        self.leaves[element as usize]
    }

    /// Sets a route, or clears it with 0; returns what was there.
    pub fn set(&mut self, element: u32, leaf: u32) -> u32 {
        std::mem::replace(&mut self.leaves[element as usize], leaf)
    }

    /// The answer for all of a prefix that has no longer route: its own or a shorter one's.
    pub fn effective(&self, mut element: u32) -> u32 {
        while element > 1 {
            let leaf = self.leaves[element as usize];
            if leaf != 0 {
                return leaf;
            }
            element >>= 1;
        }
        0
    }

    /// The indices at full depth whose answer comes from `element`, or would, in order.
    pub fn covered(&self, element: u32, out: &mut Vec<u32>) {
        let first = 1u32 << self.depth;
        if element >= first {
            out.push(element - first);
            return;
        }
        for child in [2 * element, 2 * element + 1] {
            if self.leaves[child as usize] == 0 {
                self.covered(child, out);
            }
        }
    }
}

/// The routes of six more bits below some point, sparse: elements 2 to 127.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes64 {
    present: u128,
    leaves: Vec<u32>,
}

impl Routes64 {
    fn rank(&self, element: u32) -> usize {
        (self.present & ((1 << element) - 1)).count_ones() as usize
    }

    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    pub fn get(&self, element: u32) -> u32 {
        if self.present >> element & 1 == 0 {
            0
        } else {
            self.leaves[self.rank(element)]
        }
    }

    /// Sets a route, or clears it with 0; returns what was there.
    pub fn set(&mut self, element: u32, leaf: u32) -> u32 {
        let rank = self.rank(element);
        match (self.present >> element & 1 != 0, leaf != 0) {
            (true, true) => std::mem::replace(&mut self.leaves[rank], leaf),
            (true, false) => {
                self.present &= !(1 << element);
                self.leaves.remove(rank)
            }
            (false, true) => {
                self.present |= 1 << element;
                self.leaves.insert(rank, leaf);
                0
            }
            (false, false) => 0,
        }
    }

    /// The answer of each of the 64 slots.
    pub fn expand(&self, background: u32) -> [u32; 64] {
        let mut slots = [background; 64];
        let mut rest = self.present;
        for &leaf in &self.leaves {
            let element = rest.trailing_zeros();
            rest &= rest - 1;
            let span = 64 >> element.ilog2();
            let first = element as usize * span - 64;
            slots[first..first + span].fill(leaf);
        }
        slots
    }

    /// The answer of one slot.
    pub fn slot(&self, slot: u32, background: u32) -> u32 {
        let mut element = 64 + slot;
        while element > 1 {
            if self.present >> element & 1 != 0 {
                return self.leaves[self.rank(element)];
            }
            element >>= 1;
        }
        background
    }
}

/// A run vector over the slots outside `skip`, and the leaves of its runs.
pub(crate) struct Runs {
    /// Bit i: slot i has another leaf than the slot before it.
    pub vector: u64,
    leaves: [u32; 64],
    len: usize,
}

impl Runs {
    pub fn of(slots: &[u32; 64], skip: u64) -> Self {
        let mut runs = Self {
            vector: 0,
            leaves: [0; 64],
            len: 0,
        };
        for (slot, &leaf) in slots.iter().enumerate() {
            if skip >> slot & 1 != 0 {
                continue;
            }
            if runs.len == 0 || runs.leaves[runs.len - 1] != leaf {
                if runs.len != 0 {
                    runs.vector |= 1 << slot;
                }
                runs.leaves[runs.len] = leaf;
                runs.len += 1;
            }
        }
        runs
    }

    /// The leaves of the runs of a given vector; `None` if one of its runs would need two.
    pub fn under(vector: u64, slots: &[u32; 64], skip: u64) -> Option<Vec<u32>> {
        let mut leaves: Vec<u32> = Vec::new();
        for (slot, &leaf) in slots.iter().enumerate() {
            if skip >> slot & 1 != 0 {
                continue;
            }
            if leaves.is_empty() || vector >> slot & 1 != 0 {
                leaves.push(leaf);
            } else if leaves.last() != Some(&leaf) {
                return None;
            }
        }
        Some(leaves)
    }

    /// The leaves; empty only if all slots are skipped.
    pub fn leaves(&self) -> &[u32] {
        &self.leaves[..self.len]
    }

    /// The leaf of a node with one run; 0 if all slots are skipped.
    pub fn only(&self) -> u32 {
        self.leaves[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_routes_cover_shorter_ones() {
        let mut routes = Routes64::default();
        routes.set(2, 7); // slots 0 to 31
        routes.set(64 + 5, 9);
        routes.set(64 + 63, 8);
        let slots = routes.expand(1);
        for slot in 0..64 {
            let want = match slot {
                5 => 9,
                0..32 => 7,
                63 => 8,
                _ => 1,
            };
            assert_eq!(slots[slot as usize], want);
            assert_eq!(routes.slot(slot, 1), want);
        }
        let runs = Runs::of(&slots, 0);
        assert_eq!(runs.vector, 1 << 5 | 1 << 6 | 1 << 32 | 1 << 63);
        assert_eq!(runs.leaves(), [7, 9, 7, 1, 8]);
        assert_eq!(Runs::of(&slots, 1 << 5).leaves(), [7, 1, 8]);
        assert_eq!(
            Runs::under(runs.vector, &slots, 0),
            Some(vec![7, 9, 7, 1, 8])
        );
        assert_eq!(Runs::under(1 << 32, &slots, 0), None);
        assert_eq!(Runs::under(1 << 32, &[3; 64], 0), Some(vec![3, 3]));
        assert_eq!(routes.set(2, 0), 7);
        assert_eq!(routes.get(2), 0);
        assert_eq!(routes.expand(1)[0], 1);
    }
}
