// SPDX-License-Identifier: Apache-2.0
//! The contents of the hardware's memories, and the lookup as the RTL walks them.
//!
//! Nothing here knows routes: an image changes only by writes, so a lookup in an image that was
//! brought up to date write by write answers what the hardware would.

use crate::layout::{self, Bits, Leaf, Memory, Node};

/// One entry of a write list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// One word, written at once.
    Write(Write),
    /// Wait until every lookup that began before this point has ended (the lookup's fixed latency
    /// is enough): the words that follow may overwrite what those lookups still read.
    Drain,
}

/// One word of one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The memory.
    pub memory: Memory,
    /// Address in words.
    pub addr: u32,
    /// The word; bits above the memory's width are 0.
    pub data: Bits,
}

/// The contents of all memories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    words: Vec<Vec<u64>>,
}

/// Words of each memory, by id.
pub(crate) type Depths = [u32; layout::MEMORIES];

impl Image {
    /// Memories of the given depths (in words, by memory id), all zeros.
    pub(crate) fn new(depths: &Depths) -> Self {
        let words = Memory::ALL
            .iter()
            .map(|&memory| vec![0; depths[memory as usize] as usize * memory.stride()])
            .collect();
        Self { words }
    }

    /// An image of the same depths, all zeros: the hardware after reset.
    pub fn cleared(&self) -> Self {
        Self {
            words: self
                .words
                .iter()
                .map(|memory| vec![0; memory.len()])
                .collect(),
        }
    }

    /// Words of a memory; 0 if this build does not have it.
    pub fn depth(&self, memory: Memory) -> u32 {
        (self.words[memory as usize].len() / memory.stride()) as u32
    }

    /// Reads a word.
    pub fn read(&self, memory: Memory, addr: u32) -> Bits {
        let words = &self.words[memory as usize];
        let mut word = [0; 3];
        let stride = memory.stride();
        let at = addr as usize * stride;
        word[..stride].copy_from_slice(&words[at..at + stride]);
        word
    }

    /// Writes a word.
    pub fn write(&mut self, write: &Write) {
        let stride = write.memory.stride();
        let at = write.addr as usize * stride;
        self.words[write.memory as usize][at..at + stride].copy_from_slice(&write.data[..stride]);
    }

    /// Does one entry of a write list.
    pub fn apply(&mut self, op: &Op) {
        if let Op::Write(write) = op {
            self.write(write);
        }
    }

    /// Reads a leaf of a memory that holds leaves alone.
    pub fn leaf(&self, memory: Memory, addr: u32) -> Leaf {
        Leaf(self.words[memory as usize][addr as usize] as u32)
    }

    /// The leaf that the tables give for an IPv4 address; [`Leaf::NONE`] if there is no route and
    /// no default route.
    pub fn lookup4(&self, key: u32) -> Leaf {
        self.walk4(key, &mut |memory, addr| self.read(memory, addr))
    }

    /// The leaf that the tables give for an IPv6 address.
    pub fn lookup6(&self, key: u128) -> Leaf {
        self.walk6(key, &mut |memory, addr| self.read(memory, addr))
    }

    /// [`Image::lookup4`] with the words from elsewhere: from hardware, or from memories that
    /// change while the lookup walks them. The depths are this image's.
    pub fn walk4(&self, key: u32, read: &mut impl FnMut(Memory, u32) -> Bits) -> Leaf {
        let leaf = if self.depth(Memory::Sram22) != 0 {
            sram22(key, read)
        } else {
            let host = self.host(&Memory::V4_HOST, key.into(), 32, read);
            if host == Leaf::NONE {
                runvec(key, read)
            } else {
                host
            }
        };
        or_default(leaf, layout::REGISTER_DEFAULT4, read)
    }

    /// [`Image::lookup6`] with the words from elsewhere.
    pub fn walk6(&self, key: u128, read: &mut impl FnMut(Memory, u32) -> Bits) -> Leaf {
        let mut leaf = self.host(&Memory::V6_HOST, key, 128, read);
        if leaf == Leaf::NONE {
            leaf = tcam(key, self.depth(Memory::V6Tcam), read);
        }
        if leaf == Leaf::NONE && self.depth(Memory::V6Node0) != 0 {
            leaf = trie((key >> 64) as u64, read);
        }
        or_default(leaf, layout::REGISTER_DEFAULT6, read)
    }

    /// All banks at once; at most one bank answers, or two with the same leaf while an entry moves.
    pub(crate) fn host(
        &self,
        banks: &[Memory],
        key: u128,
        key_bits: u32,
        read: &mut impl FnMut(Memory, u32) -> Bits,
    ) -> Leaf {
        for (bank, &memory) in banks.iter().enumerate() {
            let depth = self.depth(memory);
            if depth == 0 {
                return Leaf::NONE;
            }
            let index = layout::host_hash(bank, key, key_bits, depth.ilog2());
            let (entry_key, leaf) = host_entry(memory, &read(memory, index));
            if leaf != Leaf::NONE && entry_key == key {
                return leaf;
            }
        }
        Leaf::NONE
    }
}

fn plain_leaf(word: Bits) -> Leaf {
    Leaf(word[0] as u32)
}

fn or_default(leaf: Leaf, register: u32, read: &mut impl FnMut(Memory, u32) -> Bits) -> Leaf {
    if leaf == Leaf::NONE {
        plain_leaf(read(Memory::Register, register))
    } else {
        leaf
    }
}

/// The leaf of a slot under a run vector.
pub(crate) fn run_leaf(
    memory: Memory,
    (runs, base): (u64, u32),
    slot: u32,
    read: &mut impl FnMut(Memory, u32) -> Bits,
) -> Leaf {
    if runs == 0 {
        Leaf(base)
    } else {
        plain_leaf(read(
            memory,
            base + (runs & (u64::MAX >> (63 - slot))).count_ones(),
        ))
    }
}

/// Directory, leaf, group: three reads, each with an address from the one before.
fn runvec(key: u32, read: &mut impl FnMut(Memory, u32) -> Bits) -> Leaf {
    let word = read(Memory::V4Dir, key >> (32 - layout::V4_DIR_INDEX_BITS));
    let slot = key >> layout::V4_GROUP_INDEX_BITS & 63;
    let run = (
        layout::V4_DIR_RUNS.get(&word),
        layout::V4_DIR_BASE.get(&word) as u32,
    );
    let leaf = run_leaf(Memory::V4Leaf, run, slot, read);
    match leaf.group() {
        Some(group) => plain_leaf(read(
            Memory::V4Group,
            group << layout::V4_GROUP_INDEX_BITS | key & ((1 << layout::V4_GROUP_INDEX_BITS) - 1),
        )),
        None => leaf,
    }
}

/// Direct table, seven nodes, leaf: nine reads.
fn trie(key: u64, read: &mut impl FnMut(Memory, u32) -> Bits) -> Leaf {
    let mut addr = (key >> 48) as u32;
    let mut level = 0;
    loop {
        let node = Node::from_bits(&read(Memory::V6_NODE[level], addr));
        let slot = (key >> (42 - layout::V6_STRIDE * level as u32)) as u32 & 63;
        if node.children >> slot & 1 == 0 {
            return run_leaf(Memory::V6Leaf, (node.runs, node.leaf_base), slot, read);
        }
        addr = node.child_base + (node.children & ((1 << slot) - 1)).count_ones();
        level += 1;
    }
}

fn tcam(key: u128, depth: u32, read: &mut impl FnMut(Memory, u32) -> Bits) -> Leaf {
    for addr in 0..depth {
        let entry = read(Memory::V6Tcam, addr);
        let leaf = Leaf(layout::TCAM_LEAF.get(&entry) as u32);
        if leaf == Leaf::NONE {
            continue;
        }
        let len = layout::TCAM_LEN.get(&entry) as u32;
        if len == 0 || (key ^ layout::TCAM_VALUE.get_wide(&entry)) >> (128 - len) == 0 {
            return leaf;
        }
    }
    Leaf::NONE
}

fn sram22(key: u32, read: &mut impl FnMut(Memory, u32) -> Bits) -> Leaf {
    let byte = read(Memory::Sram22, key >> (32 - layout::SRAM22_INDEX_BITS))[0] as u32;
    let code = byte >> (layout::SRAM22_CODE_BITS * (key >> 8 & 3)) & 3;
    if code == 0 {
        Leaf::NONE
    } else {
        plain_leaf(read(Memory::Sram22NextHop, code))
    }
}

/// Key and leaf of an exact-match entry.
pub(crate) fn host_entry(memory: Memory, word: &Bits) -> (u128, Leaf) {
    if Memory::V4_HOST.contains(&memory) {
        let leaf = layout::V4_HOST_LEAF.get(word) as u32;
        (layout::V4_HOST_KEY.get(word).into(), Leaf(leaf))
    } else {
        let leaf = layout::V6_HOST_LEAF.get(word) as u32;
        (layout::V6_HOST_KEY.get_wide(word), Leaf(leaf))
    }
}
