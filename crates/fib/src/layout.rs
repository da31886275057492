// SPDX-License-Identifier: Apache-2.0
//! Every memory of the lookup and the place of every field in its words.
//!
//! The RTL's package is to be generated from [`fields`] and the constants here, so that a bit
//! position is written down once. Bit 0 is the least significant bit. All memories start as zeros,
//! which is a valid, empty table.
//!
//! # Leaf
//!
//! The answer of a lookup has [`LEAF_BITS`] = 18 bits, the natural width of FPGA and QDR memories
//! (multiples of 9): an escape flag, the egress port (which the cut-through path needs before the
//! next-hop table has been read) and the index into the next-hop table. The value 0 means "no
//! route here": the default-route register of the family answers instead.

/// A word of any memory, 64 bits an element, least significant first.
pub type Bits = [u64; 3];

/// A field of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name in snake case, as the RTL's struct has it.
    pub name: &'static str,
    /// Place of its least significant bit.
    pub lsb: u32,
    /// Width in bits.
    pub width: u32,
}

impl Field {
    pub(crate) const fn new(name: &'static str, lsb: u32, width: u32) -> Self {
        Self { name, lsb, width }
    }

    /// Reads the field; at most 64 bits.
    pub const fn get(self, word: &Bits) -> u64 {
        debug_assert!(self.width <= 64);
        let (at, shift) = ((self.lsb / 64) as usize, self.lsb % 64);
        let mut value = word[at] >> shift;
        if shift + self.width > 64 {
            value |= word[at + 1] << (64 - shift);
        }
        if self.width == 64 {
            value
        } else {
            value & ((1 << self.width) - 1)
        }
    }

    /// Writes the field into a word where it is still zero; at most 64 bits.
    pub const fn set(self, word: &mut Bits, value: u64) {
        debug_assert!(self.width <= 64 && (self.width == 64 || value >> self.width == 0));
        let (at, shift) = ((self.lsb / 64) as usize, self.lsb % 64);
        word[at] |= value << shift;
        if shift + self.width > 64 {
            word[at + 1] |= value >> (64 - shift);
        }
    }

    /// Reads a field of 65 to 128 bits.
    pub const fn get_wide(self, word: &Bits) -> u128 {
        let low = Field::new("", self.lsb, 64).get(word) as u128;
        let high = Field::new("", self.lsb + 64, self.width - 64).get(word) as u128;
        low | high << 64
    }

    /// Writes a field of 65 to 128 bits into a word where it is still zero.
    pub const fn set_wide(self, word: &mut Bits, value: u128) {
        Field::new("", self.lsb, 64).set(word, value as u64);
        Field::new("", self.lsb + 64, self.width - 64).set(word, (value >> 64) as u64);
    }
}

// --- Leaf -------------------------------------------------------------------------------------

/// Width of a leaf in bits.
pub const LEAF_BITS: u32 = 18;
/// Index into the next-hop table.
pub const LEAF_NEXT_HOP: Field = Field::new("next_hop", 0, 12);
/// Egress port: 0 to 15 network ports, then [`PORT_HOST`], [`PORT_DISCARD`], [`PORT_GROUP`].
pub const LEAF_PORT: Field = Field::new("port", 12, 5);
/// The other 17 bits are not a next hop but the number of a group (IPv4 only).
pub const LEAF_ESCAPE: Field = Field::new("escape", 17, 1);
/// The number of a group, when the escape flag is set.
pub const LEAF_GROUP: Field = Field::new("group", 0, 17);

/// Port code: the frame goes to the host port.
pub const PORT_HOST: u8 = 16;
/// Port code: the frame is dropped and counted.
pub const PORT_DISCARD: u8 = 17;
/// Port code reserved for next-hop groups (ECMP): the index names a group, not a next hop.
pub const PORT_GROUP: u8 = 18;

// --- IPv4 run vectors -------------------------------------------------------------------------

/// Address bits that index the directory.
pub const V4_DIR_INDEX_BITS: u32 = 18;
/// Address bits that select a slot (a /24) in a directory word.
pub const V4_SLOT_BITS: u32 = 6;
/// Address bits that select an entry of a group.
pub const V4_GROUP_INDEX_BITS: u32 = 8;
/// Run vector: bit i says that slot i has another leaf than slot i-1; bit 0 is always 0. All zero:
/// the word is uniform and its leaf is in `base`.
pub const V4_DIR_RUNS: Field = Field::new("runs", 0, 64);
/// Address of the first leaf of the run, or the leaf itself of a uniform word.
pub const V4_DIR_BASE: Field = Field::new("base", 64, 22);

// --- IPv6 trie --------------------------------------------------------------------------------

/// Address bits that index the direct table, whose entries are the nodes of level 0.
pub const V6_DIRECT_BITS: u32 = 16;
/// Address bits a node consumes.
pub const V6_STRIDE: u32 = 6;
/// Levels: the direct table and seven node memories.
pub const V6_LEVELS: usize = 8;
/// Longest prefix of the trie.
pub const V6_TRIE_MAX_LEN: u8 = 64;
/// Bit i: slot i continues in a node of the next level.
pub const V6_NODE_CHILDREN: Field = Field::new("children", 0, 64);
/// Run vector over the slots without a child (slots with one are skipped, their bits are 0): bit i
/// says that slot i has another leaf than the slot before it. All zero: the one leaf of the node
/// is in `leaf_base`.
pub const V6_NODE_RUNS: Field = Field::new("runs", 64, 64);
/// Address of the first child in the memory of the next level.
pub const V6_NODE_CHILD_BASE: Field = Field::new("child_base", 128, 20);
/// Address of the first leaf of the run, or the leaf itself.
pub const V6_NODE_LEAF_BASE: Field = Field::new("leaf_base", 148, 20);

// --- Exact match ------------------------------------------------------------------------------

/// Banks of an exact-match table, read at once.
pub const HOST_BANKS: usize = 4;
/// CRC-32 polynomials of the banks' hashes (normal form, most significant bit first, start value
/// 0, no final complement). Bank b's index is the low bits of the CRC over the address.
pub const HOST_POLYNOMIALS: [u32; HOST_BANKS] =
    [0x04C1_1DB7, 0x1EDC_6F41, 0x741B_8CD7, 0x8141_41AB];
/// The leaf of a /32; 0 means that the entry is empty.
pub const V4_HOST_LEAF: Field = Field::new("leaf", 0, LEAF_BITS);
/// The address of a /32.
pub const V4_HOST_KEY: Field = Field::new("key", LEAF_BITS, 32);
/// The leaf of a /128; 0 means that the entry is empty.
pub const V6_HOST_LEAF: Field = Field::new("leaf", 0, LEAF_BITS);
/// The address of a /128.
pub const V6_HOST_KEY: Field = Field::new("key", LEAF_BITS, 128);

// --- TCAM -------------------------------------------------------------------------------------

/// The leaf of a TCAM entry; 0 means that the entry is empty. The entry with the lowest address
/// that matches answers.
pub const TCAM_LEAF: Field = Field::new("leaf", 0, LEAF_BITS);
/// Bits that are compared, from the most significant one.
pub const TCAM_LEN: Field = Field::new("len", LEAF_BITS, 8);
/// Value to compare with; bits behind `len` are 0.
pub const TCAM_VALUE: Field = Field::new("value", LEAF_BITS + 8, 128);

// --- Next hops and registers ------------------------------------------------------------------

/// Entries of the next-hop table; entry 0 is not used.
pub const NEXT_HOPS: u32 = 1 << 12;
/// The neighbour's MAC address is known; without it the frame goes to the host port and is counted.
pub const NEXT_HOP_RESOLVED: Field = Field::new("resolved", 0, 1);
/// Egress port, as in the leaf.
pub const NEXT_HOP_PORT: Field = Field::new("port", 1, 5);
/// Destination MAC address, first byte on the wire in the upper bits.
pub const NEXT_HOP_MAC: Field = Field::new("mac", 6, 48);
/// A leaf alone: leaf memories, groups, sram22 next hops, registers.
pub const PLAIN_LEAF: Field = Field::new("leaf", 0, LEAF_BITS);

/// Register: leaf of the IPv4 default route.
pub const REGISTER_DEFAULT4: u32 = 0;
/// Register: leaf of the IPv6 default route.
pub const REGISTER_DEFAULT6: u32 = 1;

// --- sram22 -----------------------------------------------------------------------------------

/// Address bits of the dissertation's SRAM (4 MB of bytes).
pub const SRAM22_INDEX_BITS: u32 = 22;
/// Bits of a segment (a /24): code 0 means no route, 1 to 3 index the next-hop codes.
pub const SRAM22_CODE_BITS: u32 = 2;
/// The four segments of a byte; segment i (address bits 9:8) is at bit 2i.
pub const SRAM22_CODES: Field = Field::new("codes", 0, 8);

// --- Memories ---------------------------------------------------------------------------------

/// A memory of the lookup, as write lists name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Memory {
    /// IPv4 directory.
    V4Dir,
    /// IPv4 leaves.
    V4Leaf,
    /// IPv4 groups of 256 leaves.
    V4Group,
    /// IPv4 /32 exact match, bank 0.
    V4Host0,
    /// Bank 1.
    V4Host1,
    /// Bank 2.
    V4Host2,
    /// Bank 3.
    V4Host3,
    /// IPv6 direct table.
    V6Node0,
    /// IPv6 nodes of bits 22 to 27.
    V6Node1,
    /// Bits 28 to 33.
    V6Node2,
    /// Bits 34 to 39.
    V6Node3,
    /// Bits 40 to 45.
    V6Node4,
    /// Bits 46 to 51.
    V6Node5,
    /// Bits 52 to 57.
    V6Node6,
    /// Bits 58 to 63.
    V6Node7,
    /// IPv6 leaves of all levels.
    V6Leaf,
    /// IPv6 /128 exact match, bank 0.
    V6Host0,
    /// Bank 1.
    V6Host1,
    /// Bank 2.
    V6Host2,
    /// Bank 3.
    V6Host3,
    /// IPv6 TCAM.
    V6Tcam,
    /// Next-hop table, for both families.
    NextHop,
    /// Default-route registers.
    Register,
    /// The dissertation's SRAM.
    Sram22,
    /// Leaves of the three codes of the SRAM.
    Sram22NextHop,
}

/// Number of memories.
pub const MEMORIES: usize = 25;

impl Memory {
    /// All memories, in the order of their ids.
    pub const ALL: [Memory; MEMORIES] = [
        Memory::V4Dir,
        Memory::V4Leaf,
        Memory::V4Group,
        Memory::V4Host0,
        Memory::V4Host1,
        Memory::V4Host2,
        Memory::V4Host3,
        Memory::V6Node0,
        Memory::V6Node1,
        Memory::V6Node2,
        Memory::V6Node3,
        Memory::V6Node4,
        Memory::V6Node5,
        Memory::V6Node6,
        Memory::V6Node7,
        Memory::V6Leaf,
        Memory::V6Host0,
        Memory::V6Host1,
        Memory::V6Host2,
        Memory::V6Host3,
        Memory::V6Tcam,
        Memory::NextHop,
        Memory::Register,
        Memory::Sram22,
        Memory::Sram22NextHop,
    ];
    /// Exact-match banks of IPv4.
    pub const V4_HOST: [Memory; HOST_BANKS] = [
        Memory::V4Host0,
        Memory::V4Host1,
        Memory::V4Host2,
        Memory::V4Host3,
    ];
    /// Exact-match banks of IPv6.
    pub const V6_HOST: [Memory; HOST_BANKS] = [
        Memory::V6Host0,
        Memory::V6Host1,
        Memory::V6Host2,
        Memory::V6Host3,
    ];
    /// Node memories of IPv6 by level.
    pub const V6_NODE: [Memory; V6_LEVELS] = [
        Memory::V6Node0,
        Memory::V6Node1,
        Memory::V6Node2,
        Memory::V6Node3,
        Memory::V6Node4,
        Memory::V6Node5,
        Memory::V6Node6,
        Memory::V6Node7,
    ];

    /// The id: the number that goes with a write to the hardware.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Name in snake case, as the RTL's enum has it.
    pub const fn name(self) -> &'static str {
        match self {
            Memory::V4Dir => "v4_dir",
            Memory::V4Leaf => "v4_leaf",
            Memory::V4Group => "v4_group",
            Memory::V4Host0 => "v4_host_0",
            Memory::V4Host1 => "v4_host_1",
            Memory::V4Host2 => "v4_host_2",
            Memory::V4Host3 => "v4_host_3",
            Memory::V6Node0 => "v6_node_0",
            Memory::V6Node1 => "v6_node_1",
            Memory::V6Node2 => "v6_node_2",
            Memory::V6Node3 => "v6_node_3",
            Memory::V6Node4 => "v6_node_4",
            Memory::V6Node5 => "v6_node_5",
            Memory::V6Node6 => "v6_node_6",
            Memory::V6Node7 => "v6_node_7",
            Memory::V6Leaf => "v6_leaf",
            Memory::V6Host0 => "v6_host_0",
            Memory::V6Host1 => "v6_host_1",
            Memory::V6Host2 => "v6_host_2",
            Memory::V6Host3 => "v6_host_3",
            Memory::V6Tcam => "v6_tcam",
            Memory::NextHop => "next_hop",
            Memory::Register => "register",
            Memory::Sram22 => "sram22",
            Memory::Sram22NextHop => "sram22_next_hop",
        }
    }

    /// Width of a word in bits.
    pub const fn width(self) -> u32 {
        let last = fields(self);
        let last = last[last.len() - 1];
        last.lsb + last.width
    }

    /// Width of a word in elements of [`Bits`].
    pub(crate) const fn stride(self) -> usize {
        self.width().div_ceil(64) as usize
    }
}

/// The fields of a memory's words, from the least significant one.
pub const fn fields(memory: Memory) -> &'static [Field] {
    match memory {
        Memory::V4Dir => &[V4_DIR_RUNS, V4_DIR_BASE],
        Memory::V4Leaf
        | Memory::V4Group
        | Memory::V6Leaf
        | Memory::Register
        | Memory::Sram22NextHop => &[PLAIN_LEAF],
        Memory::V4Host0 | Memory::V4Host1 | Memory::V4Host2 | Memory::V4Host3 => {
            &[V4_HOST_LEAF, V4_HOST_KEY]
        }
        Memory::V6Node0
        | Memory::V6Node1
        | Memory::V6Node2
        | Memory::V6Node3
        | Memory::V6Node4
        | Memory::V6Node5
        | Memory::V6Node6
        | Memory::V6Node7 => &[
            V6_NODE_CHILDREN,
            V6_NODE_RUNS,
            V6_NODE_CHILD_BASE,
            V6_NODE_LEAF_BASE,
        ],
        Memory::V6Host0 | Memory::V6Host1 | Memory::V6Host2 | Memory::V6Host3 => {
            &[V6_HOST_LEAF, V6_HOST_KEY]
        }
        Memory::V6Tcam => &[TCAM_LEAF, TCAM_LEN, TCAM_VALUE],
        Memory::NextHop => &[NEXT_HOP_RESOLVED, NEXT_HOP_PORT, NEXT_HOP_MAC],
        Memory::Sram22 => &[SRAM22_CODES],
    }
}

/// An 18-bit leaf; 0 means that the default-route register answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Leaf(pub u32);

impl Leaf {
    /// No route here.
    pub const NONE: Leaf = Leaf(0);
    /// What a shed word answers for all its addresses: the host port, by no next hop of the table.
    pub const SHED: Leaf = Leaf::new(PORT_HOST, 0);

    /// A leaf that names a port and a next hop.
    pub const fn new(port: u8, next_hop: u16) -> Self {
        debug_assert!(port < 32 && (next_hop as u32) < NEXT_HOPS);
        Leaf((port as u32) << LEAF_PORT.lsb | next_hop as u32)
    }

    /// A leaf that sends the lookup on into a group.
    pub const fn escape(group: u32) -> Self {
        debug_assert!(group >> LEAF_GROUP.width == 0);
        Leaf(1 << LEAF_ESCAPE.lsb | group)
    }

    /// The group, if it is an escape.
    pub const fn group(self) -> Option<u32> {
        if self.0 >> LEAF_ESCAPE.lsb != 0 {
            Some(self.0 & ((1 << LEAF_GROUP.width) - 1))
        } else {
            None
        }
    }

    /// Index of the next hop; 0 if there is no route.
    pub const fn next_hop(self) -> u16 {
        (self.0 & ((1 << LEAF_NEXT_HOP.width) - 1)) as u16
    }

    /// Egress port code.
    pub const fn port(self) -> u8 {
        ((self.0 >> LEAF_PORT.lsb) & ((1 << LEAF_PORT.width) - 1)) as u8
    }
}

/// A directory word.
pub const fn v4_dir(runs: u64, base: u32) -> Bits {
    [runs, base as u64, 0]
}

/// A trie node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Node {
    /// Slots that continue in the next level.
    pub children: u64,
    /// Run vector over the other slots.
    pub runs: u64,
    /// Address of the first child.
    pub child_base: u32,
    /// Address of the first leaf, or the leaf itself.
    pub leaf_base: u32,
}

impl Node {
    /// Takes a word apart.
    pub const fn from_bits(word: &Bits) -> Self {
        Self {
            children: word[0],
            runs: word[1],
            child_base: V6_NODE_CHILD_BASE.get(word) as u32,
            leaf_base: V6_NODE_LEAF_BASE.get(word) as u32,
        }
    }

    /// Puts a word together.
    pub const fn to_bits(self) -> Bits {
        let mut word = [self.children, self.runs, 0];
        V6_NODE_CHILD_BASE.set(&mut word, self.child_base as u64);
        V6_NODE_LEAF_BASE.set(&mut word, self.leaf_base as u64);
        word
    }
}

/// Index of a key into a bank of `1 << index_bits` entries: the low bits of the bank's CRC over
/// the address, most significant bit first.
pub fn host_hash(bank: usize, key: u128, key_bits: u32, index_bits: u32) -> u32 {
    let table = &HASH_TABLES[bank];
    let mut crc = 0u32;
    let mut shift = key_bits;
    while shift > 0 {
        shift -= 8;
        let byte = (key >> shift) as u8;
        crc = (crc << 8) ^ table[usize::from((crc >> 24) as u8 ^ byte)];
    }
    if index_bits == 0 {
        0
    } else {
        crc & (u32::MAX >> (32 - index_bits))
    }
}

static HASH_TABLES: [[u32; 256]; HOST_BANKS] = hash_tables();

const fn hash_tables() -> [[u32; 256]; HOST_BANKS] {
    let mut tables = [[0; 256]; HOST_BANKS];
    let mut bank = 0;
    while bank < HOST_BANKS {
        let mut byte = 0;
        while byte < 256 {
            let mut crc = (byte as u32) << 24;
            let mut bit = 0;
            while bit < 8 {
                let poly = if crc >> 31 != 0 {
                    HOST_POLYNOMIALS[bank]
                } else {
                    0
                };
                crc = (crc << 1) ^ poly;
                bit += 1;
            }
            tables[bank][byte] = crc;
            byte += 1;
        }
        bank += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_order_of_all() {
        for (id, memory) in Memory::ALL.iter().enumerate() {
            assert_eq!(usize::from(memory.id()), id);
        }
    }

    #[test]
    fn fields_fill_words_without_gap() {
        for memory in Memory::ALL {
            let mut next = 0;
            for field in fields(memory) {
                assert_eq!(field.lsb, next, "{} {}", memory.name(), field.name);
                next += field.width;
            }
            assert!(next <= 192);
        }
    }

    #[test]
    fn fields_across_elements_read_back() {
        let field = Field::new("x", 50, 30);
        let mut word = [0; 3];
        field.set(&mut word, 0x2345_6789);
        assert_eq!(field.get(&word), 0x2345_6789);
        assert_eq!(word, [0x2345_6789 << 50, 0x2345_6789 >> 14, 0]);
        let key = 0x2001_0db8_0000_0000_0123_4567_89ab_cdef;
        let mut word = [0; 3];
        V6_HOST_KEY.set_wide(&mut word, key);
        assert_eq!(V6_HOST_KEY.get_wide(&word), key);
    }

    #[test]
    fn hash_is_crc32() {
        // The check value of CRC-32/MPEG-2 without its start value: bit by bit, independent of the
        // tables.
        let key: u128 = 0x3132_3334;
        for (bank, poly) in HOST_POLYNOMIALS.into_iter().enumerate() {
            let mut crc = 0u32;
            for bit in (0..32).rev() {
                let top = (crc >> 31) ^ ((key >> bit) as u32 & 1);
                crc = (crc << 1) ^ if top != 0 { poly } else { 0 };
            }
            assert_eq!(host_hash(bank, key, 32, 32), crc);
        }
    }
}
