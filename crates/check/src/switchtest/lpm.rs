// SPDX-License-Identifier: Apache-2.0
//! A longest-prefix match that has nothing in common with `crates/fib`: the prefixes are cut into
//! ranges of addresses with one answer each, and an address is found by bisection.

/// Addresses cut into ranges.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    /// First address of a range and its answer; a range ends where the next begins.
    starts: Vec<(u128, Option<u16>)>,
}

impl Ranges {
    /// Cuts the ranges. Prefixes are first address, last address and answer; two are disjoint, or
    /// one is inside the other. None is there twice.
    pub fn new(mut prefixes: Vec<(u128, u128, u16)>) -> Self {
        // The one around comes before the one inside.
        prefixes.sort_unstable_by_key(|&(first, last, _)| (first, u128::MAX - last));
        let mut ranges = Self {
            starts: vec![(0, None)],
        };
        // Prefixes around the present address, the innermost last.
        let mut around: Vec<(u128, u16)> = Vec::new();
        for (first, last, answer) in prefixes {
            ranges.leave(&mut around, first);
            ranges.begin(first, Some(answer));
            around.push((last, answer));
        }
        ranges.leave(&mut around, u128::MAX);
        ranges
    }

    /// Ends all prefixes that end in front of an address.
    fn leave(&mut self, around: &mut Vec<(u128, u16)>, address: u128) {
        while let Some(&(last, _)) = around.last()
            && last < address
        {
            around.pop();
            self.begin(last + 1, around.last().map(|&(_, answer)| answer));
        }
    }

    fn begin(&mut self, first: u128, answer: Option<u16>) {
        if self.starts.last().is_some_and(|&(start, _)| start == first) {
            self.starts.pop();
        }
        self.starts.push((first, answer));
    }

    /// The answer of the longest prefix around an address.
    pub fn find(&self, address: u128) -> Option<u16> {
        let after = self.starts.partition_point(|&(start, _)| start <= address);
        self.starts[after - 1].1
    }

    /// How many ranges there are.
    pub fn count(&self) -> usize {
        self.starts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::BTreeMap;

    /// Every prefix is asked, the longest that holds the address answers.
    fn slow(prefixes: &BTreeMap<(u128, u8), u16>, address: u128) -> Option<u16> {
        let around = prefixes
            .iter()
            .filter(|((first, len), _)| *len == 0 || (first ^ address) >> (128 - len) == 0);
        around
            .max_by_key(|((_, len), _)| *len)
            .map(|(_, answer)| *answer)
    }

    #[test]
    fn ranges_agree_with_asking_every_prefix() {
        for seed in 0..40 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut prefixes = BTreeMap::new();
            for _ in 0..random.random_range(0..60) {
                // Few addresses, so that prefixes nest and touch, at both ends of the space.
                let len: u8 = random.random_range(0..=128);
                let edge = if random.random() { 0 } else { u128::MAX };
                let address =
                    edge ^ u128::from(random.random::<u8>()) << random.random_range(0..121);
                let mask = !u128::MAX.checked_shr(len.into()).unwrap_or(0);
                prefixes.insert((address & mask, len), random.random());
            }
            let list = prefixes.iter().map(|(&(first, len), &answer)| {
                (
                    first,
                    first | u128::MAX.checked_shr(len.into()).unwrap_or(0),
                    answer,
                )
            });
            let ranges = Ranges::new(list.clone().collect());
            let edges = list.flat_map(|(first, last, _)| {
                [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
            });
            for address in edges.chain([0, 1, u128::MAX, 1 << 127]) {
                assert_eq!(
                    ranges.find(address),
                    slow(&prefixes, address),
                    "seed {seed}, {address:#x}"
                );
            }
        }
    }
}
