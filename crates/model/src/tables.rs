// SPDX-License-Identifier: Apache-2.0
//! The tables of BAR 0: entries are staged DW by DW and change at once with their last DW.

use wire::{PageMapEntry, PcIdEntry, RegionEntry, SessionEntry};

/// An entry type of a table, as the BAR window lays it out.
pub trait Entry: Copy + Default {
    /// The DWs of an entry, the lowest address first.
    type Dws: AsRef<[u32]> + AsMut<[u32]> + Copy;
    /// No bit set.
    const ZERO: Self::Dws;
    /// Decodes an entry.
    fn decode(dws: &Self::Dws) -> Self;
}

macro_rules! entry {
    ($entry:ty, $dws:literal) => {
        impl Entry for $entry {
            type Dws = [u32; $dws];
            const ZERO: Self::Dws = [0; $dws];
            fn decode(dws: &Self::Dws) -> Self {
                Self::from_dws(dws)
            }
        }
    };
}
entry!(PageMapEntry, 2);
entry!(PcIdEntry, 4);
entry!(RegionEntry, 8);
entry!(SessionEntry, 8);

/// A table of `E` with one staging register.
#[derive(Clone, Debug)]
pub struct Table<E: Entry> {
    // Decoded once when written: looked up with every operation, written rarely.
    entries: Vec<(E::Dws, E)>,
    staged: E::Dws,
}

impl<E: Entry> Table<E> {
    /// A table of `count` empty entries.
    pub fn new(count: usize) -> Self {
        Self {
            entries: vec![(E::ZERO, E::default()); count],
            staged: E::ZERO,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table has no entry at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry, unless the index is beyond the table.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&E> {
        self.entries.get(index).map(|(_, entry)| entry)
    }

    /// Bytes from one entry to the next in BAR 0.
    fn stride() -> usize {
        4 * E::ZERO.as_ref().len()
    }

    /// The DW at a byte offset in the window; `None` beyond the table.
    pub fn read_dw(&self, offset: usize) -> Option<u32> {
        let (dws, _) = self.entries.get(offset / Self::stride())?;
        Some(dws.as_ref()[offset % Self::stride() / 4])
    }

    /// Writes the DW at a byte offset in the window; `None` beyond the table.
    pub fn write_dw(&mut self, offset: usize, value: u32) -> Option<()> {
        let entry = self.entries.get_mut(offset / Self::stride())?;
        let dw = offset % Self::stride() / 4;
        self.staged.as_mut()[dw] = value;
        if 4 * (dw + 1) == Self::stride() {
            *entry = (self.staged, E::decode(&self.staged));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_changes_with_its_last_dw() {
        let mut table = Table::<PcIdEntry>::new(4);
        for (offset, value) in [(16, 0x0A00_0001), (20, 0xBBBB_CCCC), (24, 0x1234_AAAA)] {
            table.write_dw(offset, value).expect("entry 1 is there");
            assert_eq!(table.get(1), Some(&PcIdEntry::default()));
        }
        table.write_dw(28, 3).expect("entry 1 is there");
        let entry = table.get(1).expect("entry 1 is there");
        assert_eq!((entry.ip, entry.mac), (0x0A00_0001, 0xAAAA_BBBB_CCCC));
        assert!(entry.valid && entry.compact && entry.source_port == 0x1234);
        assert_eq!(table.read_dw(24), Some(0x1234_AAAA));
        assert_eq!(table.read_dw(64), None);
        assert_eq!(table.write_dw(64, 0), None);
    }
}
