// SPDX-License-Identifier: Apache-2.0
//! The entries of the three tables, as software writes them through BAR 0.
//!
//! An entry is a number of 32-bit words, the least significant first. The last word written commits the entry.

use crate::layout::{Field, Layout, Show};

/// A value that fits in some bits of an entry.
trait Bits: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! bits_of {
    ($($t:ty),*) => {
        $(impl Bits for $t {
            fn to_bits(self) -> u64 {
                u64::from(self)
            }
            fn from_bits(bits: u64) -> Self {
                bits as $t
            }
        })*
    };
}
bits_of!(u16, u32, u64);

impl Bits for bool {
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
    fn from_bits(bits: u64) -> Self {
        bits & 1 == 1
    }
}

/// Describes an entry from its most significant field down: `name: type = bits, "meaning"`; `_` is reserved.
macro_rules! entry {
    (
        $(#[doc = $doc:literal])*
        $entry:ident[$dws:literal] $layout:ident = $sv:literal, $summary:literal {
            $( $field:ident : $kind:tt = $bits:literal, $show:expr, $meaning:literal; )*
        }
    ) => {
        entry!(@struct [$(#[doc = $doc])*] $entry [] $($field $kind $meaning;)*);

        #[doc = concat!("Layout of [`", stringify!($entry), "`].")]
        pub const $layout: Layout = Layout {
            name: $sv,
            doc: $summary,
            fields: &[$(Field::new(stringify!($field), $bits, $show, $meaning)),*],
        };

        impl $entry {
            /// 32-bit words of an entry.
            pub const DWS: usize = $dws;
            /// Bytes from one entry to the next in BAR 0.
            pub const BYTES: usize = 4 * $dws;

            /// The words to write, in this order; bits of a value above its field's width are dropped.
            #[must_use]
            pub fn to_dws(&self) -> [u32; $dws] {
                let mut dws = [0; $dws];
                let mut top = 32 * $dws;
                $(
                    top -= $bits;
                    entry!(@put self dws top $bits $field $kind);
                )*
                debug_assert_eq!(top, 0, "the fields fill the entry");
                dws
            }

            /// Reads an entry back; reserved bits are ignored.
            #[must_use]
            pub fn from_dws(dws: &[u32; $dws]) -> Self {
                let mut entry = Self::default();
                let mut top = 32 * $dws;
                $(
                    top -= $bits;
                    entry!(@get entry dws top $bits $field $kind);
                )*
                debug_assert_eq!(top, 0, "the fields fill the entry");
                entry
            }
        }
    };
    (@struct [$($doc:tt)*] $entry:ident [$($out:tt)*]) => {
        $($doc)*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $entry { $($out)* }
    };
    (@struct [$($doc:tt)*] $entry:ident [$($out:tt)*] $field:ident _ $meaning:literal; $($rest:tt)*) => {
        entry!(@struct [$($doc)*] $entry [$($out)*] $($rest)*);
    };
    (@struct [$($doc:tt)*] $entry:ident [$($out:tt)*] $field:ident $kind:tt $meaning:literal; $($rest:tt)*) => {
        entry!(@struct [$($doc)*] $entry [$($out)* #[doc = $meaning] pub $field: $kind,] $($rest)*);
    };
    (@put $self:ident $dws:ident $top:ident $bits:literal $field:ident _) => {};
    (@put $self:ident $dws:ident $top:ident $bits:literal $field:ident $kind:tt) => {
        put(&mut $dws, $top, $bits, $self.$field.to_bits());
    };
    (@get $entry:ident $dws:ident $top:ident $bits:literal $field:ident _) => {};
    (@get $entry:ident $dws:ident $top:ident $bits:literal $field:ident $kind:tt) => {
        $entry.$field = <$kind as Bits>::from_bits(get($dws, $top, $bits));
    };
}

fn put(dws: &mut [u32], low: usize, bits: usize, value: u64) {
    for i in 0..bits {
        let bit = low + i;
        dws[bit / 32] |= ((value >> i & 1) as u32) << (bit % 32);
    }
}

fn get(dws: &[u32], low: usize, bits: usize) -> u64 {
    (0..bits).fold(0, |value, i| {
        let bit = low + i;
        value | u64::from(dws[bit / 32] >> (bit % 32) & 1) << i
    })
}

entry! {
    /// Where the stores and loads to one 4 KB page of BAR 2 go.
    PageMapEntry[2] PAGE_MAP_ENTRY = "page_map_entry_t", "where one 4 KB page of BAR 2 goes" {
        pc_id: u16 = 16, Show::Dec, "PC ID of the peer; 0: unmapped";
        remote_page: u64 = 36, Show::Hex, "wire address bits 47:12 = key (16), offset bits 31:12 (20)";
        tag: u16 = 12, Show::Hex, "folded into the end code";
    }
}

impl PageMapEntry {
    /// An entry that maps the page to `offset` (bits 11:0 are dropped) in the region `key` of the peer `pc_id`.
    #[must_use]
    pub fn new(pc_id: u16, key: u16, offset: u32, tag: u16) -> Self {
        Self {
            pc_id,
            remote_page: u64::from(key) << 20 | u64::from(offset >> 12),
            tag,
        }
    }

    /// The shared-region key at the peer.
    #[must_use]
    pub fn key(&self) -> u16 {
        (self.remote_page >> 20) as u16
    }

    /// The offset of the page in the region, in bytes.
    #[must_use]
    pub fn offset(&self) -> u32 {
        (self.remote_page << 12) as u32
    }
}

entry! {
    /// How frames reach a peer, and in which format.
    PcIdEntry[4] PC_ID_ENTRY = "pc_id_entry_t", "how a peer is reached" {
        reserved: _ = 30, Show::Zero, "write 0";
        compact: bool = 1, Show::Flag, "stores that have a compact form are sent in it";
        valid: bool = 1, Show::Flag, "the entry may be used";
        source_port: u16 = 16, Show::Dec, "UDP source port of the frames";
        mac: u64 = 48, Show::Hex, "the peer's MAC address; bits 47:40 are the first byte on the wire";
        ip: u32 = 32, Show::Hex, "the peer's IPv4 address";
    }
}

entry! {
    /// A window of local memory that others may use.
    RegionEntry[8] REGION_ENTRY = "region_entry_t", "which local memory others may use" {
        reserved1: _ = 29, Show::Zero, "write 0";
        read: bool = 1, Show::Flag, "loads are permitted";
        write: bool = 1, Show::Flag, "stores are permitted";
        valid: bool = 1, Show::Flag, "the region exists";
        reserved0: _ = 20, Show::Zero, "write 0";
        tag: u16 = 12, Show::Hex, "expected in the end code";
        mask: u32 = 32, Show::Hex, "a frame is permitted if (its source & mask) == (ip & mask)";
        ip: u32 = 32, Show::Hex, "IPv4 address with which the region is shared";
        last: u32 = 32, Show::Hex, "offset of the last permitted byte; bits 1:0 are taken as 3";
        first: u32 = 32, Show::Hex, "offset of the first permitted byte; bits 1:0 are taken as 0";
        base: u64 = 64, Show::Hex, "local address = base + offset; 4 KB aligned";
    }
}

impl RegionEntry {
    /// Whether frames from `source` may use the region.
    #[must_use]
    pub fn shares_with(&self, source: u32) -> bool {
        source & self.mask == self.ip & self.mask
    }

    /// Whether all of `dws` DWs from the DW-aligned `offset` are inside the region and one 4 KB page.
    #[must_use]
    pub fn contains(&self, offset: u32, dws: usize) -> bool {
        let start = u64::from(offset & !3);
        let end = start + 4 * dws.max(1) as u64 - 1;
        start >= u64::from(self.first & !3)
            && end <= u64::from(self.last | 3)
            && start >> 12 == end >> 12
    }
}

/// The three tables with their base registers' names: (layout, DWs of an entry).
pub const TABLES: &[(&Layout, usize)] = &[
    (&PAGE_MAP_ENTRY, PageMapEntry::DWS),
    (&PC_ID_ENTRY, PcIdEntry::DWS),
    (&REGION_ENTRY, RegionEntry::DWS),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_where_the_window_has_them() {
        let page = PageMapEntry::new(0x1234, 0xABCD, 0x5678_9000, 0xDEF);
        assert_eq!(page.to_dws(), [0x5678_9DEF, 0x1234_ABCD]);
        assert_eq!((page.key(), page.offset()), (0xABCD, 0x5678_9000));
        let peer = PcIdEntry {
            compact: true,
            valid: true,
            source_port: 0x0D5E,
            mac: 0x0200_0000_0102,
            ip: 0x0A00_0001,
        };
        assert_eq!(
            peer.to_dws(),
            [0x0A00_0001, 0x0000_0102, 0x0D5E_0200, 0x0000_0003]
        );
        let region = RegionEntry {
            read: true,
            write: false,
            valid: true,
            tag: 0x5A5,
            mask: 0xFFFF_FF00,
            ip: 0x0A00_0002,
            last: 0xFFF,
            first: 0x10,
            base: 0x12_3456_7000,
        };
        assert_eq!(
            region.to_dws(),
            [
                0x3456_7000,
                0x12,
                0x10,
                0xFFF,
                0x0A00_0002,
                0xFFFF_FF00,
                0x5A5,
                0x5
            ]
        );
    }

    #[test]
    fn layouts_fill_their_words() {
        for (layout, dws) in TABLES {
            assert_eq!(layout.bits() as usize, 32 * dws, "{}", layout.name);
        }
    }

    #[test]
    fn bounds_are_whole_words_in_one_page() {
        let region = RegionEntry {
            first: 0x11,
            last: 0x1FFE,
            ..RegionEntry::default()
        };
        assert!(region.contains(0x10, 1));
        assert!(!region.contains(0xC, 1));
        assert!(region.contains(0x1FFC, 1));
        assert!(!region.contains(0x1FFC, 2));
        assert!(!region.contains(0xFFC, 2), "crosses a page");
        let all = RegionEntry {
            last: u32::MAX,
            ..RegionEntry::default()
        };
        assert!(all.contains(0xFFFF_FFFC, 1));
        assert!(!all.contains(0xFFFF_FFFC, 2), "does not wrap");
    }

    proptest! {
        #[test]
        fn entries_survive_their_words(words in any::<[u32; 8]>()) {
            let two = [words[0], words[1]];
            prop_assert_eq!(PageMapEntry::from_dws(&two).to_dws(), two);
            let four = [words[0], words[1], words[2], words[3] & 3];
            prop_assert_eq!(PcIdEntry::from_dws(&four).to_dws(), four);
            let mut eight = words;
            eight[6] &= 0xFFF;
            eight[7] &= 7;
            prop_assert_eq!(RegionEntry::from_dws(&eight).to_dws(), eight);
        }
    }
}
