// SPDX-License-Identifier: Apache-2.0
//! The entries of the tables, as software writes them through BAR 0, of the read-only window of the sessions' state, and
//! of the event ring in local memory.
//!
//! An entry is a number of 32-bit words, the least significant first. The last word written commits the entry.

use crate::format::EVENT_CODES;
use crate::layout::{Field, Layout, Show};
use crate::seal::Phase;

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
bits_of!(u8, u16, u32, u64);

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
        reserved: _ = 29, Show::Zero, "write 0";
        session: bool = 1, Show::Flag, "frames to the peer belong to the session whose number is this PC ID";
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
        reserved1: _ = 17, Show::Zero, "write 0";
        number: u8 = 8, Show::Dec, "the only session that may use it, if `bound`";
        bound: bool = 1, Show::Flag, "only for frames of session `number`";
        sealed: bool = 1, Show::Flag, "only for frames that came sealed";
        session: bool = 1, Show::Flag, "only for frames of a session";
        notify: bool = 1, Show::Flag, "a store asks for an interrupt";
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
    /// What takes the place of a region's entry when it is revoked: no region, with the tag that it had. A frame of a session
    /// for it is answered by a refusal only if its end code is right with that tag; else it is a frame that was altered, or guessed.
    #[must_use]
    pub fn revoked(tag: u16) -> Self {
        Self {
            tag,
            ..Self::default()
        }
    }

    /// Whether frames from `source`, of this session if of any, may use the region.
    #[must_use]
    pub fn shares_with(&self, source: u32, session: Option<u8>) -> bool {
        source & self.mask == self.ip & self.mask && (!self.bound || session == Some(self.number))
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

entry! {
    /// One end of a reliable connection; its number is the PC ID of the peer.
    SessionEntry[8] SESSION_ENTRY = "session_entry_t", "one end of a session: how its frames are sent, and known when they come" {
        reserved1: _ = 24, Show::Zero, "write 0";
        epoch: u8 = 6, Show::Hex, "epoch of the session, in the source port of what is received";
        sealed: bool = 1, Show::Flag, "frames are sealed, both ways";
        valid: bool = 1, Show::Flag, "the session exists";
        reserved0: _ = 96, Show::Zero, "write 0";
        start: u32 = 32, Show::Hex, "sequence number of the first frame, both ways";
        port: u16 = 16, Show::Hex, "source port of what is sent: 3, the epoch (6), session number at the peer (8)";
        mac: u64 = 48, Show::Hex, "MAC address of the peer, or of the gateway to it";
        ip: u32 = 32, Show::Hex, "the peer's IPv4 address";
    }
}

entry! {
    /// What a session does at the moment.
    SessionStatus[8] SESSION_STATUS = "session_status_t", "the state of a session" {
        reserved2: _ = 64, Show::Zero, "reads 0";
        reserved1: _ = 24, Show::Zero, "reads 0";
        retries: u8 = 8, Show::Dec, "time-outs since the last progress";
        pace: u32 = 32, Show::Dec, "network cycles from the start of a frame to the next one's at least; 0: not paced";
        expected: u32 = 32, Show::Dec, "sequence number that is taken next";
        nxt: u32 = 32, Show::Dec, "sequence number that the next new frame gets";
        una: u32 = 32, Show::Dec, "first sequence number that is not acknowledged";
        reserved0: _ = 27, Show::Zero, "reads 0";
        valid: bool = 1, Show::Flag, "the session exists";
        idle: bool = 1, Show::Flag, "all that was sent is acknowledged";
        resending: bool = 1, Show::Flag, "frames are being sent again";
        open: bool = 1, Show::Flag, "a new frame may be sent";
        lost: bool = 1, Show::Flag, "the peer does not answer; write the session's entry to begin anew";
    }
}

entry! {
    /// What the NIC tells software through the ring in local memory.
    EventEntry[4] EVENT_ENTRY = "event_entry_t", "one event in the ring in local memory" {
        address: u64 = 64, Show::Hex, "refused: the wire address; peer lost: nxt and una; overflow: events lost";
        number: u16 = 16, Show::Dec, "refused, peer lost: sequence number, bits 15:0; flush: cookie";
        who: u16 = 16, Show::Dec, "session, which is the PC ID of the peer";
        count: u16 = 16, Show::Dec, "running number of the event, bits 15:0, from 1: the entry is new when it is the one expected";
        op: u8 = 8, Show::Hex, "refused: fmt/type of the operation";
        code: u8 = 8, Show::Names(EVENT_CODES), "what happened";
    }
}

/// The two keys of a sealed session, as they are written into the window at `KEY_BASE`.
///
/// Keys are byte strings: byte 0 is in the most significant byte of its first word.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyEntry {
    /// Key of the frames that are sent.
    pub tx_key: [u8; 16],
    /// Key of the frames that are received.
    pub rx_key: [u8; 16],
    /// First four bytes of the nonces of frames that are sent.
    pub tx_salt: [u8; 4],
    /// First four bytes of the nonces of frames that are received.
    pub rx_salt: [u8; 4],
}

/// What is done with the keys that are written: the last word says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyUse {
    /// Both are those of phase 0, and all that the session had before are forgotten.
    #[default]
    Begin,
    /// The key of what is received becomes that of this phase; the other phase's stays, and so does what is sent with.
    Receive(Phase),
    /// The next frame and all after it are sent with the key of what is sent, in this phase.
    Send(Phase),
}

/// Bits of the last word: the phase; the key of what is sent is not meant; that of what is received is not.
const KEY_PHASE: u32 = 1;
const KEY_RECEIVE: u32 = 2;
const KEY_SEND: u32 = 4;

impl KeyUse {
    /// What the last word says; `None`: nothing is done.
    #[must_use]
    pub fn from_dw(dw: u32) -> Option<Self> {
        let phase = dw & KEY_PHASE != 0;
        match dw & (KEY_RECEIVE | KEY_SEND) {
            0 => Some(Self::Begin),
            KEY_RECEIVE => Some(Self::Receive(phase)),
            KEY_SEND => Some(Self::Send(phase)),
            _ => None,
        }
    }

    /// The last word.
    #[must_use]
    pub fn to_dw(self) -> u32 {
        match self {
            Self::Begin => 0,
            Self::Receive(phase) => KEY_RECEIVE | u32::from(phase),
            Self::Send(phase) => KEY_SEND | u32::from(phase),
        }
    }
}

impl std::fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyEntry { .. }")
    }
}

impl KeyEntry {
    /// 32-bit words of an entry.
    pub const DWS: usize = 16;
    /// Bytes from one entry to the next in BAR 0.
    pub const BYTES: usize = 64;

    /// The words to write, in this order, at the beginning of a session.
    #[must_use]
    pub fn to_dws(&self) -> [u32; Self::DWS] {
        self.to_dws_for(KeyUse::Begin)
    }

    /// The words to write, in this order.
    #[must_use]
    pub fn to_dws_for(&self, what: KeyUse) -> [u32; Self::DWS] {
        let mut dws = [0; Self::DWS];
        dws[Self::DWS - 1] = what.to_dw();
        let bytes = [
            &self.tx_key[..],
            &self.rx_key[..],
            &self.tx_salt[..],
            &self.rx_salt[..],
        ]
        .concat();
        for (dw, bytes) in dws.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *dw = u32::from_be_bytes(*bytes);
        }
        dws
    }

    /// The keys from the words that were written.
    #[must_use]
    pub fn from_dws(dws: &[u32; Self::DWS]) -> Self {
        let mut key = Self::default();
        let parts = [
            &mut key.tx_key[..],
            &mut key.rx_key[..],
            &mut key.tx_salt[..],
            &mut key.rx_salt[..],
        ];
        let mut dws = dws.iter();
        for part in parts {
            for (bytes, dw) in part.as_chunks_mut::<4>().0.iter_mut().zip(&mut dws) {
                *bytes = dw.to_be_bytes();
            }
        }
        key
    }
}

/// The tables with their base registers' names: (layout, DWs of an entry).
pub const TABLES: &[(&Layout, usize)] = &[
    (&PAGE_MAP_ENTRY, PageMapEntry::DWS),
    (&PC_ID_ENTRY, PcIdEntry::DWS),
    (&REGION_ENTRY, RegionEntry::DWS),
    (&SESSION_ENTRY, SessionEntry::DWS),
    (&SESSION_STATUS, SessionStatus::DWS),
    (&EVENT_ENTRY, EventEntry::DWS),
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
            session: true,
            compact: true,
            valid: true,
            source_port: 0x0D5E,
            mac: 0x0200_0000_0102,
            ip: 0x0A00_0001,
        };
        assert_eq!(
            peer.to_dws(),
            [0x0A00_0001, 0x0000_0102, 0x0D5E_0200, 0x0000_0007]
        );
        let region = RegionEntry {
            number: 0x81,
            bound: true,
            sealed: true,
            session: false,
            notify: true,
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
                0x40ED
            ]
        );
    }

    #[test]
    fn session_words_are_where_the_windows_have_them() {
        let session = SessionEntry {
            epoch: 0x2A,
            sealed: true,
            valid: true,
            start: 0xFEDC_BA98,
            port: 0xEA07,
            mac: 0x0200_0000_0102,
            ip: 0x0A00_0001,
        };
        assert_eq!(
            session.to_dws(),
            [
                0x0A00_0001,
                0x0000_0102,
                0xEA07_0200,
                0xFEDC_BA98,
                0,
                0,
                0,
                0x0000_00AB
            ]
        );
        let event = EventEntry {
            address: 0x1122_3344_5566_7788,
            number: 0x99AA,
            who: 0xBBCC,
            count: 1,
            op: 0x60,
            code: 3,
        };
        assert_eq!(
            event.to_dws(),
            [0x0001_6003, 0x99AA_BBCC, 0x5566_7788, 0x1122_3344]
        );
        let status = SessionStatus {
            retries: 5,
            pace: 4,
            expected: 3,
            nxt: 2,
            una: 1,
            valid: true,
            idle: false,
            resending: true,
            open: false,
            lost: true,
        };
        assert_eq!(status.to_dws(), [0b10101, 1, 2, 3, 4, 5, 0, 0]);
        let key = KeyEntry {
            tx_key: std::array::from_fn(|i| i as u8),
            rx_key: std::array::from_fn(|i| 0x10 + i as u8),
            tx_salt: [0x20, 0x21, 0x22, 0x23],
            rx_salt: [0x30, 0x31, 0x32, 0x33],
        };
        let dws = key.to_dws();
        assert_eq!((dws[0], dws[3]), (0x0001_0203, 0x0C0D_0E0F));
        assert_eq!((dws[4], dws[7]), (0x1011_1213, 0x1C1D_1E1F));
        assert_eq!((dws[8], dws[9]), (0x2021_2223, 0x3031_3233));
        assert_eq!(dws[10..], [0; 6]);
        assert_eq!(KeyEntry::from_dws(&dws), key);
        for (what, last) in [
            (KeyUse::Begin, 0),
            (KeyUse::Receive(false), 2),
            (KeyUse::Receive(true), 3),
            (KeyUse::Send(false), 4),
            (KeyUse::Send(true), 5),
        ] {
            let next = key.to_dws_for(what);
            assert_eq!((next[..15].to_vec(), next[15]), (dws[..15].to_vec(), last));
            assert_eq!(KeyUse::from_dw(last), Some(what));
        }
        assert_eq!(KeyUse::from_dw(7), None);
        assert_eq!(
            format!("{key:?}"),
            "KeyEntry { .. }",
            "keys are not printed"
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

    #[test]
    fn a_region_is_shared_with_the_network_of_its_mask() {
        let region = RegionEntry {
            ip: 0x0A00_0102,
            mask: 0xFFFF_FF00,
            ..RegionEntry::default()
        };
        for (source, shared) in [
            (0x0A00_0102, true),
            (0x0A00_01FF, true),
            (0x0A00_0202, false),
            (0x0B00_0102, false),
            (0xFFFF_FFFF, false),
            (0, false),
        ] {
            assert_eq!(region.shares_with(source, None), shared, "{source:08x}");
            assert_eq!(region.shares_with(source, Some(1)), shared, "{source:08x}");
        }
        let all = RegionEntry::default();
        assert!(all.shares_with(0x0A00_0001, None) && all.shares_with(0, None));
        let bound = RegionEntry {
            number: 7,
            bound: true,
            ..region
        };
        let shared = [None, Some(0), Some(6), Some(7)]
            .map(|session| bound.shares_with(0x0A00_0102, session));
        assert_eq!(shared, [false, false, false, true]);
        assert!(!bound.shares_with(0x0A00_0202, Some(7)));
    }

    proptest! {
        #[test]
        fn entries_survive_their_words(words in any::<[u32; 8]>()) {
            let two = [words[0], words[1]];
            prop_assert_eq!(PageMapEntry::from_dws(&two).to_dws(), two);
            let four = [words[0], words[1], words[2], words[3] & 7];
            prop_assert_eq!(PcIdEntry::from_dws(&four).to_dws(), four);
            let four = [words[0], words[1], words[2], words[3]];
            prop_assert_eq!(EventEntry::from_dws(&four).to_dws(), four);
            let mut eight = words;
            eight[6] &= 0xFFF;
            eight[7] &= 0x7FFF;
            prop_assert_eq!(RegionEntry::from_dws(&eight).to_dws(), eight);
            let eight = [words[0], words[1], words[2], words[3], 0, 0, 0, words[7] & 0xFF];
            prop_assert_eq!(SessionEntry::from_dws(&eight).to_dws(), eight);
        }
    }
}
