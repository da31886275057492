// SPDX-License-Identifier: Apache-2.0
//! Tables to try the lookup with: parsed from text, or made up from a seed.
//!
//! The made-up table has the shares of prefix lengths of a full Internet table of about 2022 and
//! neighbouring prefixes as aggregated and de-aggregated address blocks have them; its addresses
//! are random.

use crate::error::Error;
use crate::prefix::{Prefix4, Prefix6};
use std::collections::HashSet;

/// A small generator of random numbers (SplitMix64), for the same table from the same seed
/// everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// 128 random bits.
    pub fn wide(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }
}

/// Prefixes of both families, without next hops.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// IPv4.
    pub v4: Vec<Prefix4>,
    /// IPv6.
    pub v6: Vec<Prefix6>,
}

/// Length in bits and number of prefixes, of 901,899.
const LENGTHS4: [(u8, u32); 25] = [
    (8, 16),
    (9, 13),
    (10, 38),
    (11, 103),
    (12, 299),
    (13, 581),
    (14, 1203),
    (15, 2100),
    (16, 13490),
    (17, 8235),
    (18, 13798),
    (19, 24870),
    (20, 42611),
    (21, 50750),
    (22, 108_623),
    (23, 96510),
    (24, 537_698),
    (25, 20),
    (26, 3),
    (27, 11),
    (28, 18),
    (29, 17),
    (30, 3),
    (31, 3),
    (32, 886),
];

/// Length in bits and number of prefixes, of about 160,000.
const LENGTHS6: [(u8, u32); 42] = [
    (16, 1),
    (19, 1),
    (20, 16),
    (21, 3),
    (22, 7),
    (23, 8),
    (24, 30),
    (25, 8),
    (26, 15),
    (27, 20),
    (28, 193),
    (29, 4371),
    (30, 650),
    (31, 284),
    (32, 22548),
    (33, 2926),
    (34, 2603),
    (35, 1043),
    (36, 5996),
    (37, 880),
    (38, 1617),
    (39, 1377),
    (40, 13418),
    (41, 903),
    (42, 2301),
    (43, 1001),
    (44, 14365),
    (45, 1553),
    (46, 3039),
    (47, 3153),
    (48, 75488),
    (49, 11),
    (50, 3),
    (52, 1),
    (56, 24),
    (58, 20),
    (60, 2),
    (64, 184),
    (112, 2),
    (126, 19),
    (127, 42),
    (128, 6),
];

/// How many of `count` prefixes have each length; the most frequent length takes the rest.
fn shares(lengths: &[(u8, u32)], count: u32) -> Vec<(u8, u32)> {
    let all: u64 = lengths.iter().map(|&(_, n)| u64::from(n)).sum();
    let mut shares: Vec<(u8, u32)> = lengths
        .iter()
        .map(|&(len, n)| (len, (u64::from(count) * u64::from(n) / all) as u32))
        .collect();
    let sum: u32 = shares.iter().map(|&(_, n)| n).sum();
    if let Some(most) = shares.iter_mut().max_by_key(|(_, n)| *n) {
        most.1 += count - sum;
    }
    shares
}

impl Table {
    /// One prefix a line, both families mixed; empty lines and lines that begin with `#` are
    /// passed over.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut table = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.contains(':') {
                table.v6.push(line.parse()?);
            } else {
                table.v4.push(line.parse()?);
            }
        }
        Ok(table)
    }

    /// A table of `v4` and `v6` different prefixes.
    pub fn synthetic(seed: u64, v4: u32, v6: u32) -> Self {
        let mut random = Random::new(seed);
        Self {
            v4: synthetic4(&mut random, v4),
            v6: synthetic6(&mut random, v6),
        }
    }
}

/// How many neighbours follow a prefix.
fn run_length(random: &mut Random) -> u64 {
    1 + u64::from(random.bits().trailing_zeros().min(6)) * random.below(6)
}

fn synthetic4(random: &mut Random, count: u32) -> Vec<Prefix4> {
    let mut seen = HashSet::with_capacity(count as usize);
    let mut table: Vec<Prefix4> = Vec::with_capacity(count as usize);
    for (len, share) in shares(&LENGTHS4, count) {
        let (shorter, mut left) = (table.len(), share);
        while left > 0 {
            let block = if shorter > 0 && random.below(10) < 8 {
                table[random.below(shorter as u64) as usize]
            } else {
                Prefix4::around(((1 + random.below(223)) << 24) as u32, 7)
            };
            if block.len() >= len {
                continue;
            }
            let inside = random.bits() as u32 & (block.last() - block.addr());
            let mut next = Prefix4::around(block.addr() | inside, len);
            for _ in 0..run_length(random) {
                if left == 0 || next.last() >= 224 << 24 {
                    break;
                }
                if seen.insert(next) {
                    table.push(next);
                    left -= 1;
                }
                next = Prefix4::around(next.last() + 1, len);
            }
        }
    }
    table
}

fn synthetic6(random: &mut Random, count: u32) -> Vec<Prefix6> {
    const BLOCKS: [u128; 6] = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00];
    let mut seen = HashSet::with_capacity(count as usize);
    let mut table: Vec<Prefix6> = Vec::with_capacity(count as usize);
    for (len, share) in shares(&LENGTHS6, count) {
        let (shorter, mut left) = (table.len(), share);
        while left > 0 {
            let block = if shorter > 0 && random.below(10) < 8 {
                table[random.below(shorter as u64) as usize]
            } else {
                let block = BLOCKS[random.below(6) as usize] << 112;
                Prefix6::around(block, if block >> 112 == 0x2001 { 16 } else { 12 })
            };
            if block.len() >= len {
                continue;
            }
            // Subnets are numbered from the low end of a block more often than not.
            let mut inside = random.wide() & (block.last() - block.addr());
            if random.below(2) == 0 {
                inside >>= random.below(8);
            }
            let mut next = Prefix6::around(block.addr() | inside, len);
            for _ in 0..run_length(random) {
                if left == 0 || next.last() >> 125 != 1 {
                    break;
                }
                if seen.insert(next) {
                    table.push(next);
                    left -= 1;
                }
                next = Prefix6::around(next.last() + 1, len);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_table_without_doubles() {
        let table = Table::synthetic(7, 20_000, 5_000);
        assert_eq!((table.v4.len(), table.v6.len()), (20_000, 5_000));
        assert_eq!(table.v4.iter().collect::<HashSet<_>>().len(), 20_000);
        assert_eq!(table.v6.iter().collect::<HashSet<_>>().len(), 5_000);
        assert_eq!(table.v4, Table::synthetic(7, 20_000, 5_000).v4);
    }

    #[test]
    fn text_is_read_and_bad_lines_are_named() {
        let table = Table::parse("# x\n10.0.0.0/8\n\n2001:db8::/32\n").unwrap();
        assert_eq!((table.v4.len(), table.v6.len()), (1, 1));
        let error = Table::parse("10.0.0.1/8").unwrap_err().to_string();
        assert!(error.contains("10.0.0.1/8"), "{error}");
    }
}
