// SPDX-License-Identifier: Apache-2.0
//! The host's memory behind the root complex: pages that come into being when touched.

use std::collections::HashMap;

const PAGE_BITS: u32 = 12;
const PAGE: usize = 1 << PAGE_BITS;

/// A sparse memory of 4 KB pages with 64-bit addresses. Untouched bytes have a fixed pattern that
/// depends on the address (zero by default), so that stray reads show.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pages: HashMap<u64, Box<[u8; PAGE]>>,
    patterned: bool,
}

impl Memory {
    /// Memory full of zeros.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory whose untouched bytes depend on their address.
    pub fn patterned() -> Self {
        Self {
            patterned: true,
            ..Self::default()
        }
    }

    fn initial(&self, address: u64) -> u8 {
        if !self.patterned {
            return 0;
        }
        // Multiplicative hash; odd results only, so that a zero is never an untouched byte.
        (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1
    }

    /// One byte.
    pub fn get(&self, address: u64) -> u8 {
        match self.pages.get(&(address >> PAGE_BITS)) {
            Some(page) => page[(address & (PAGE as u64 - 1)) as usize],
            None => self.initial(address),
        }
    }

    /// Sets one byte.
    pub fn set(&mut self, address: u64, value: u8) {
        let number = address >> PAGE_BITS;
        if !self.pages.contains_key(&number) {
            let base = number << PAGE_BITS;
            let mut page = Box::new([0; PAGE]);
            if self.patterned {
                for (offset, byte) in page.iter_mut().enumerate() {
                    *byte = self.initial(base + offset as u64);
                }
            }
            self.pages.insert(number, page);
        }
        let page = self
            .pages
            .get_mut(&number)
            .expect("the page was inserted above");
        page[(address & (PAGE as u64 - 1)) as usize] = value;
    }

    /// Reads bytes in order.
    pub fn read(&self, address: u64, into: &mut [u8]) {
        for (offset, byte) in into.iter_mut().enumerate() {
            *byte = self.get(address.wrapping_add(offset as u64));
        }
    }

    /// Writes bytes in order.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        for (offset, byte) in bytes.iter().enumerate() {
            self.set(address.wrapping_add(offset as u64), *byte);
        }
    }

    /// Applies a memory write of whole DWs at a DW-aligned address, with PCI Express byte enables.
    pub fn write_dws(&mut self, address: u64, data: &[u8], first_be: u8, last_be: u8) {
        let dws = data.len() / 4;
        for (index, byte) in data.iter().enumerate() {
            let enables = match index / 4 {
                0 => first_be,
                dw if dw + 1 == dws => last_be,
                _ => 0xF,
            };
            if enables >> (index % 4) & 1 == 1 {
                self.set(address.wrapping_add(index as u64), *byte);
            }
        }
    }

    /// Lowest address at which two memories differ, over all pages that either has touched.
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        let mut numbers: Vec<u64> = self
            .pages
            .keys()
            .chain(other.pages.keys())
            .copied()
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
            .into_iter()
            .flat_map(|number| {
                let base = number << PAGE_BITS;
                (0..PAGE as u64).map(move |offset| base + offset)
            })
            .find(|&address| self.get(address) != other.get(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_enables_select_bytes() {
        let mut memory = Memory::new();
        let data: Vec<u8> = (1..=12).collect();
        memory.write_dws(0xFFC, &data, 0b1100, 0b0001);
        let mut seen = [0; 12];
        memory.read(0xFFC, &mut seen);
        assert_eq!(seen, [0, 0, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0]);
        memory.write_dws(0x2000, &data[..4], 0b0110, 0);
        memory.read(0x2000, &mut seen[..4]);
        assert_eq!(seen[..4], [0, 2, 3, 0]);
    }

    #[test]
    fn differences_are_found_in_pages_of_either() {
        let mut left = Memory::patterned();
        let mut right = Memory::patterned();
        assert_eq!(left.first_difference(&right), None);
        left.set(0x5000, left.get(0x5000));
        assert_eq!(left.first_difference(&right), None);
        right.set(0x7001, 0);
        assert_eq!(left.first_difference(&right), Some(0x7001));
        left.set(0x10, 0);
        assert_eq!(left.first_difference(&right), Some(0x10));
    }
}
