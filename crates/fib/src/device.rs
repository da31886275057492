// SPDX-License-Identifier: Apache-2.0
//! The switch as a device of its host: what is where in its BAR. A driver gives the BAR as a file, in which a place is the
//! same offset.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0x000 | 4 | [`MAGIC`] |
//! | 0x004 | 4 | [`VERSION`] |
//! | 0x008 | 4 | ports of the switch |
//! | 0x010 | 8 | words that its memories have taken since reset |
//! | 0x080 | 4 each | words of each memory, in the order of [`Memory::ALL`] |
//! | 0x100 | 8 | memory and first address that the window shows, 4 bytes each |
//! | 0x140 | 32 | write only: a [`Record`]; each store is one word, in the order of the stores |
//! | 0x1000 | 4096 | read only: the window, 128 records. A load is answered when all words stored before are in place |

use crate::fib::{Config, Config4, Config6};
use crate::image::{Image, Op, Write};
use crate::layout::{self, Bits, MEMORIES, Memory};

/// `FIBN` in a file.
pub const MAGIC: u32 = u32::from_le_bytes(*b"FIBN");
/// Of this layout.
pub const VERSION: u32 = 1;
/// Offset of the words that were taken.
pub const TAKEN: u64 = 0x010;
/// Offset of the memories' depths.
pub const DEPTHS: u64 = 0x080;
/// Bytes of the part that says what the switch is.
pub const HEADER_BYTES: usize = DEPTHS as usize + 4 * MEMORIES;
/// Offset of what the window shows.
pub const SELECT: u64 = 0x100;
/// Offset where records are stored.
pub const STORE: u64 = 0x140;
/// Offset of the window.
pub const WINDOW: u64 = 0x1000;
/// Records in the window.
pub const WINDOW_RECORDS: u32 = 128;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 32;
/// Bytes of the BAR.
pub const BAR_BYTES: u64 = 0x2000;
/// In the place of a memory: wait until all lookups under way have ended.
pub const DRAIN: u8 = 31;

/// One word of one memory: the memory's number and 3 bytes of zeros, the address, the word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The memory, or [`DRAIN`].
    pub memory: u8,
    /// In words.
    pub address: u32,
    /// The word.
    pub data: Bits,
}

impl Record {
    /// As it is stored.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = self.memory;
        bytes[4..8].copy_from_slice(&self.address.to_le_bytes());
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(self.data) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From what was stored; none if it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Some(Self {
            memory: bytes[0],
            address: (word(0) >> 32) as u32,
            data: [word(8), word(16), word(24)],
        })
    }
}

impl From<&Op> for Record {
    fn from(op: &Op) -> Self {
        match op {
            Op::Write(write) => Self {
                memory: write.memory.id(),
                address: write.addr,
                data: write.data,
            },
            Op::Drain => Self {
                memory: DRAIN,
                ..Self::default()
            },
        }
    }
}

/// What the first bytes of a switch's BAR say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Ports.
    pub ports: u32,
    /// Words of each memory.
    pub depths: [u32; MEMORIES],
}

impl Header {
    /// Of a switch with these memories.
    pub fn of(ports: u32, image: &Image) -> Self {
        Self {
            ports,
            depths: Memory::ALL.map(|memory| image.depth(memory)),
        }
    }

    /// As it is read; `taken` words were taken.
    pub fn to_bytes(&self, taken: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let words = [MAGIC, VERSION, self.ports];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let at = TAKEN as usize;
        bytes[at..at + 8].copy_from_slice(&taken.to_le_bytes());
        let depths = bytes[DEPTHS as usize..].chunks_exact_mut(4);
        for (place, depth) in depths.zip(self.depths) {
            place.copy_from_slice(&depth.to_le_bytes());
        }
        bytes
    }

    /// From what was read; the error is a sentence.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let (magic, version) = (word(0), word(4));
        if magic != MAGIC {
            return Err(format!(
                "it begins with {magic:#010x}, not with {MAGIC:#010x}: this is no FIBNIC switch"
            ));
        }
        if version != VERSION {
            return Err(format!(
                "its registers have version {version}, and this program knows {VERSION}: use one of the same day"
            ));
        }
        Ok(Self {
            ports: word(8),
            depths: std::array::from_fn(|memory| word(DEPTHS as usize + 4 * memory)),
        })
    }

    /// With what the switch was built; none for the dissertation's memories.
    pub fn config(&self) -> Option<Config> {
        let depth = |memory: Memory| self.depths[memory as usize];
        let config = Config {
            v4: Config4::RunVec {
                leaves: depth(Memory::V4Leaf),
                groups: depth(Memory::V4Group) >> layout::V4_GROUP_INDEX_BITS,
                hosts: depth(Memory::V4Host0),
            },
            v6: Config6::Trie {
                nodes: std::array::from_fn(|level| depth(Memory::V6_NODE[level + 1])),
                leaves: depth(Memory::V6Leaf),
                hosts: depth(Memory::V6Host0),
                tcam: depth(Memory::V6Tcam),
            },
        };
        // What it says of the others must follow from that.
        (config.depths().ok()? == self.depths).then_some(config)
    }
}

/// Writes that bring memories back to what they are after reset, while lookups go on: first the words that all lookups begin
/// with, then what these led to.
pub fn clear(image: &Image) -> Vec<Op> {
    let first = |memory: &Memory| {
        matches!(
            memory,
            Memory::V4Dir | Memory::V6Node0 | Memory::Register | Memory::Sram22
        ) || Memory::V4_HOST.contains(memory)
            || Memory::V6_HOST.contains(memory)
            || *memory == Memory::V6Tcam
    };
    let (roots, rest): (Vec<_>, Vec<_>) = Memory::ALL.into_iter().partition(first);
    let mut ops = Vec::new();
    for memories in [roots, rest] {
        let before = ops.len();
        for memory in memories {
            let set = (0..image.depth(memory)).filter(|addr| image.read(memory, *addr) != [0; 3]);
            ops.extend(set.map(|addr| {
                Op::Write(Write {
                    memory,
                    addr,
                    data: [0; 3],
                })
            }));
        }
        if ops.len() != before {
            ops.push(Op::Drain);
        }
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fib, NextHop, NextHopId, Port};

    fn config() -> Config {
        Config {
            v4: Config4::RunVec {
                leaves: 4096,
                groups: 16,
                hosts: 64,
            },
            v6: Config6::Trie {
                nodes: [256; 7],
                leaves: 512,
                hosts: 32,
                tcam: 8,
            },
        }
    }

    #[test]
    fn a_header_says_what_the_switch_was_built_with() {
        let fib = Fib::new(config()).unwrap();
        let header = Header::of(4, fib.image());
        let read = Header::from_bytes(&header.to_bytes(7)).unwrap();
        assert_eq!(read, header);
        assert_eq!(read.config(), Some(config()));
        let mut wrong = header;
        wrong.depths[Memory::V4Host2 as usize] = 32;
        assert_eq!(wrong.config(), None);
        let mut bytes = header.to_bytes(0);
        bytes[4] = 2;
        assert!(
            Header::from_bytes(&bytes)
                .unwrap_err()
                .contains("version 2")
        );
        bytes[0] = 0;
        assert!(
            Header::from_bytes(&bytes)
                .unwrap_err()
                .contains("no FIBNIC")
        );
    }

    #[test]
    fn records_are_as_they_were() {
        let record = Record {
            memory: 24,
            address: 0x0102_0304,
            data: [u64::MAX, 1, 1 << 40],
        };
        assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        assert_eq!(Record::from_bytes(&[0; 31]), None);
    }

    #[test]
    fn clearing_leaves_nothing_and_takes_the_way_in_first() {
        let mut fib = Fib::new(config()).unwrap();
        let mut image = fib.image().cleared();
        let hop = NextHop {
            port: Port::Network(1),
            mac: Some([2, 0, 0, 0, 0, 1]),
        };
        for op in fib.set_next_hop(NextHopId(3), hop).unwrap() {
            image.apply(op);
        }
        for prefix in ["192.0.2.0/25", "10.0.0.0/8", "10.1.1.1/32", "0.0.0.0/0"] {
            let prefix = prefix.parse().unwrap();
            for op in fib.announce4(prefix, NextHopId(3)).unwrap() {
                image.apply(op);
            }
        }
        let ops = clear(&image);
        let drain = ops.iter().position(|op| *op == Op::Drain).unwrap();
        let mut half = image.clone();
        ops[..drain].iter().for_each(|op| half.apply(op));
        assert_eq!(half.lookup4(0x0A01_0101), layout::Leaf::NONE);
        ops.iter().for_each(|op| image.apply(op));
        assert_eq!(image, image.cleared());
        assert!(clear(&image).is_empty());
    }
}
