// SPDX-License-Identifier: Apache-2.0
//! A host's memory: pages that come into being when written.

use std::collections::HashMap;

const PAGE_BYTES: usize = 4096;

/// Sparse memory full of zeros.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pages: HashMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Memory {
    /// Reads bytes in order.
    pub fn read(&self, address: u64, into: &mut [u8]) {
        for (offset, byte) in (address..).zip(into.iter_mut()) {
            let page = self.pages.get(&(offset / PAGE_BYTES as u64));
            *byte = page.map_or(0, |page| page[offset as usize % PAGE_BYTES]);
        }
    }

    /// Writes bytes in order.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        for (offset, byte) in (address..).zip(bytes) {
            let page = self
                .pages
                .entry(offset / PAGE_BYTES as u64)
                .or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[offset as usize % PAGE_BYTES] = *byte;
        }
    }

    /// Applies the data of a memory write; only enabled bytes change.
    pub fn write_enabled(&mut self, address: u64, data: &[u8], first_be: u8, last_be: u8) {
        let dws = data.len() / 4;
        for (index, byte) in data.iter().enumerate() {
            let enables = match index / 4 {
                0 => first_be,
                dw if dw + 1 == dws => last_be,
                _ => 0xF,
            };
            if enables >> (index % 4) & 1 == 1 {
                self.write(address + index as u64, &[*byte]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_enables() {
        let mut memory = Memory::default();
        memory.write(0xFFC, &[0xEE; 12]);
        memory.write_enabled(
            0xFFC,
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            0b1100,
            0b0001,
        );
        let mut bytes = [0; 12];
        memory.read(0xFFC, &mut bytes);
        assert_eq!(bytes, [0xEE, 0xEE, 3, 4, 5, 6, 7, 8, 9, 0xEE, 0xEE, 0xEE]);
    }
}
