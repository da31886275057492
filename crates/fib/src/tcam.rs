// SPDX-License-Identifier: Apache-2.0
//! A TCAM in the order of falling prefix length; the first entry that matches answers.
//!
//! Entries move by one place with a copy first, so every state between two writes answers each key
//! as before or as after the change.

use crate::error::Error;
use crate::hw::Hw;
use crate::layout::{self, Bits, Leaf, Memory};
use crate::prefix::Prefix6;

#[derive(Debug, Clone)]
pub(crate) struct Tcam {
    max_len: u8,
}

impl Tcam {
    /// `max_len` is the number of bits that the hardware compares.
    pub fn new(max_len: u8) -> Self {
        Self { max_len }
    }

    fn word(prefix: Prefix6, leaf: Leaf) -> Bits {
        let mut word = [0; 3];
        layout::TCAM_LEAF.set(&mut word, leaf.0.into());
        layout::TCAM_LEN.set(&mut word, prefix.len().into());
        layout::TCAM_VALUE.set_wide(&mut word, prefix.addr());
        word
    }

    fn read(hw: &Hw, addr: u32) -> (Leaf, u8, u128) {
        let word = hw.image.read(Memory::V6Tcam, addr);
        (
            Leaf(layout::TCAM_LEAF.get(&word) as u32),
            layout::TCAM_LEN.get(&word) as u8,
            layout::TCAM_VALUE.get_wide(&word),
        )
    }

    fn find(hw: &Hw, prefix: Prefix6) -> Option<u32> {
        (0..Self::used(hw)).find(|&addr| {
            Self::read(hw, addr).1 == prefix.len() && Self::read(hw, addr).2 == prefix.addr()
        })
    }

    /// Entries in use; they have no holes.
    pub fn used(hw: &Hw) -> u32 {
        let depth = hw.image.depth(Memory::V6Tcam);
        (0..depth)
            .find(|&addr| Self::read(hw, addr).0 == Leaf::NONE)
            .unwrap_or(depth)
    }

    pub fn get(hw: &Hw, prefix: Prefix6) -> Leaf {
        Self::find(hw, prefix).map_or(Leaf::NONE, |addr| Self::read(hw, addr).0)
    }

    pub fn remove(hw: &mut Hw, prefix: Prefix6) {
        let Some(found) = Self::find(hw, prefix) else {
            return;
        };
        let last = Self::used(hw) - 1;
        for addr in found..last {
            let next = hw.image.read(Memory::V6Tcam, addr + 1);
            hw.write(Memory::V6Tcam, addr, next);
        }
        hw.write(Memory::V6Tcam, last, [0; 3]);
    }

    /// Writes nothing if there is no place.
    pub fn set(&self, hw: &mut Hw, prefix: Prefix6, leaf: Leaf) -> Result<(), Error> {
        if prefix.len() > self.max_len {
            return Err(Error::TcamTooLong {
                prefix,
                max: self.max_len,
            });
        }
        let word = Self::word(prefix, leaf);
        if let Some(addr) = Self::find(hw, prefix) {
            hw.write(Memory::V6Tcam, addr, word);
            return Ok(());
        }
        let (used, capacity) = (Self::used(hw), hw.image.depth(Memory::V6Tcam));
        if used == capacity {
            return Err(Error::TcamFull { prefix, capacity });
        }
        let place = (0..used)
            .find(|&addr| Self::read(hw, addr).1 < prefix.len())
            .unwrap_or(used);
        for addr in (place..used).rev() {
            let moved = hw.image.read(Memory::V6Tcam, addr);
            hw.write(Memory::V6Tcam, addr + 1, moved);
        }
        hw.write(Memory::V6Tcam, place, word);
        Ok(())
    }
}
