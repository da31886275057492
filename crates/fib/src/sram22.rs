// SPDX-License-Identifier: Apache-2.0
//! IPv4 as in section 5.2.3 of the dissertation: a 4 MB SRAM of bytes, the upper 22 address bits
//! as its address, four segments of two bits in a byte; prefixes up to /24, three next hops.
//!
//! One departure: code 0 means "the default-route register answers" and the default route is that
//! register, so that it costs one write and none of the three codes.

use crate::error::Error;
use crate::hw::Hw;
use crate::layout::{self, Leaf, Memory};
use crate::prefix::Prefix4;

const CODES: u32 = (1 << layout::SRAM22_CODE_BITS) - 1;
const BYTE_LEN: u32 = layout::SRAM22_INDEX_BITS;

#[derive(Debug, Clone)]
pub(crate) struct Sram22 {
    /// Code of each prefix of 1 to 24 bits, heap-ordered; 0 is no route.
    routes: Vec<u8>,
    /// Routes by code.
    users: [u32; CODES as usize + 1],
}

fn element(prefix: Prefix4) -> u32 {
    let bits = (u64::from(prefix.addr()) >> (32 - prefix.len())) as u32;
    1 << prefix.len() | bits
}

impl Sram22 {
    pub fn new() -> Self {
        Self {
            routes: vec![0; 2 << 24],
            users: [0; CODES as usize + 1],
        }
    }

    /// The leaf of exactly this route.
    pub fn get(&self, hw: &Hw, prefix: Prefix4) -> Leaf {
        match prefix.len() {
            0 => hw.image.leaf(Memory::Register, layout::REGISTER_DEFAULT4),
            1..=24 => match self.routes[element(prefix) as usize] {
                0 => Leaf::NONE,
                code => hw.image.leaf(Memory::Sram22NextHop, code.into()),
            },
            _ => Leaf::NONE,
        }
    }

    /// Sets a route, or withdraws it with [`Leaf::NONE`]. After an error nothing has changed.
    pub fn set(&mut self, hw: &mut Hw, prefix: Prefix4, leaf: Leaf) -> Result<(), Error> {
        if prefix.len() > 24 {
            return Err(Error::Sram22TooLong { prefix });
        }
        if prefix.len() == 0 {
            hw.write_leaf(Memory::Register, layout::REGISTER_DEFAULT4, leaf);
            return Ok(());
        }
        let element = element(prefix);
        let old = self.routes[element as usize];
        let code = if leaf == Leaf::NONE {
            0
        } else {
            self.code(hw, prefix, leaf)?
        };
        self.users[usize::from(old)] -= u32::from(old != 0);
        self.users[usize::from(code)] += u32::from(code != 0);
        self.routes[element as usize] = code;
        self.refresh(hw, element);
        Ok(())
    }

    /// The code of a next hop; a free one if it has none yet, or the code that only this prefix
    /// uses.
    fn code(&self, hw: &mut Hw, prefix: Prefix4, leaf: Leaf) -> Result<u8, Error> {
        let leaf_of = |code| hw.image.leaf(Memory::Sram22NextHop, code);
        let codes = 1..=CODES;
        let known = codes
            .clone()
            .find(|&code| self.users[code as usize] > 0 && leaf_of(code) == leaf);
        let own = u32::from(self.routes[element(prefix) as usize]);
        let unused = || codes.clone().find(|&code| self.users[code as usize] == 0);
        let own = (own != 0 && self.users[own as usize] == 1).then_some(own);
        let Some(code) = known.or_else(unused).or(own) else {
            return Err(Error::Sram22NextHops {
                prefix,
                next_hop: leaf.next_hop(),
            });
        };
        hw.write_leaf(Memory::Sram22NextHop, code, leaf);
        Ok(code as u8)
    }

    /// The code for all of a prefix that has no longer route.
    fn effective(&self, mut element: u32) -> u8 {
        while element > 1 {
            let code = self.routes[element as usize];
            if code != 0 {
                return code;
            }
            element >>= 1;
        }
        0
    }

    fn refresh(&self, hw: &mut Hw, element: u32) {
        // A prefix longer than a byte's 22 bits changes the byte it lies in.
        let depth = element.ilog2();
        if depth > BYTE_LEN {
            let byte = element >> (depth - BYTE_LEN);
            self.refresh_byte(hw, byte, self.effective(byte));
        } else {
            self.descend(hw, element, self.effective(element));
        }
    }

    fn descend(&self, hw: &mut Hw, element: u32, background: u8) {
        if element.ilog2() == BYTE_LEN {
            self.refresh_byte(hw, element, background);
            return;
        }
        for child in [2 * element, 2 * element + 1] {
            if self.routes[child as usize] == 0 {
                self.descend(hw, child, background);
            }
        }
    }

    fn refresh_byte(&self, hw: &mut Hw, byte: u32, background: u8) {
        let or = |code: u8, other: u8| if code != 0 { code } else { other };
        let mut word = 0;
        for half in 0..2 {
            let element = 2 * byte + half;
            let upper = or(self.routes[element as usize], background);
            for quarter in 0..2 {
                let code = or(self.routes[(2 * element + quarter) as usize], upper);
                word |= u64::from(code) << (layout::SRAM22_CODE_BITS * (2 * half + quarter));
            }
        }
        hw.write(Memory::Sram22, byte - (1 << BYTE_LEN), [word, 0, 0]);
    }
}
