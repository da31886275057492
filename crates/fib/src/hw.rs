// SPDX-License-Identifier: Apache-2.0
//! The image with its allocators and a journal: a change either gives a write list or leaves no
//! trace.

use crate::alloc::{Allocator, MAX_RUN};
use crate::error::Error;
use crate::image::{Depths, Image, Op, Write};
use crate::layout::{Bits, Leaf, MEMORIES, Memory, V4_GROUP_INDEX_BITS};
use crate::routes::Runs;
use std::collections::BTreeSet;
use std::ops::Bound;

#[derive(Debug, Clone, Copy)]
enum Undo {
    Word(Write),
    Taken {
        memory: Memory,
        addr: u32,
        words: u32,
    },
    Given {
        memory: Memory,
        addr: u32,
        words: u32,
        class: u8,
    },
}

/// A word that was given up to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A directory word, by its index.
    V4(u32),
    /// A trie node, by its level and the upper half of the first address below it.
    V6(usize, u64),
}

/// A run in a memory with an allocator.
#[derive(Debug, Clone, Copy)]
struct Piece {
    memory: Memory,
    addr: u32,
    words: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Hw {
    pub image: Image,
    allocators: Vec<Option<Allocator>>,
    ops: Vec<Op>,
    undo: Vec<Undo>,
    /// Old runs that lookups under way may still read.
    retired: Vec<Piece>,
    /// How many of them no word in the image points to any more.
    unlinked: usize,
    use_reserve: bool,
    /// Where `ops` of the changes before this one end, which stay in the list.
    begun: usize,
    /// Where words were shed, and perhaps have been overwritten since.
    shed: BTreeSet<Place>,
}

impl Hw {
    pub fn new(depths: &Depths) -> Self {
        let mut allocators = vec![None; MEMORIES];
        let managed = [Memory::V4Leaf, Memory::V4Group, Memory::V6Leaf];
        for memory in managed.iter().chain(&Memory::V6_NODE[1..]) {
            let mut depth = depths[*memory as usize];
            if Memory::V6_NODE.contains(memory) && depth >= WITH_SCRATCH {
                depth -= MAX_RUN;
            }
            // A memory that the build leaves out is one that is full.
            allocators[*memory as usize] = Some(Allocator::new(depth / unit(*memory)));
        }
        Self {
            image: Image::new(depths),
            allocators,
            ops: Vec::new(),
            undo: Vec::new(),
            retired: Vec::new(),
            unlinked: 0,
            use_reserve: false,
            begun: 0,
            shed: BTreeSet::new(),
        }
    }

    /// Starts a change, with an empty list. One that takes a route out may use the reserve, and
    /// shed words.
    pub fn begin(&mut self, takes_out: bool) {
        self.ops.clear();
        self.resume();
        self.use_reserve = takes_out;
    }

    /// Starts another change whose writes follow those of the one before in the same list.
    pub fn resume(&mut self) {
        debug_assert!(self.undo.is_empty() && self.retired.is_empty());
        self.begun = self.ops.len();
        self.use_reserve = false;
    }

    /// Ends a change for good. A list that writes ends with a drain marker: what was replaced is
    /// free for the next change, and no lookup sees parts of two changes.
    pub fn commit(&mut self) -> &[Op] {
        self.unlinked();
        if self.ops.len() > self.begun {
            self.drain();
        }
        self.undo.clear();
        &self.ops
    }

    /// What was written since `begin`.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Whether this change may shed a word for which there is no room.
    pub fn may_shed(&self) -> bool {
        self.use_reserve
    }

    /// Remembers where a word was shed.
    pub fn add_shed(&mut self, place: Place) {
        self.shed.insert(place);
    }

    /// Forgets a place where no word is shed any more.
    pub fn remove_shed(&mut self, place: Place) {
        self.shed.remove(&place);
    }

    /// How many places are remembered.
    pub fn shed(&self) -> usize {
        self.shed.len()
    }

    /// The place behind this one, round and round.
    pub fn next_shed(&self, last: Option<Place>) -> Option<Place> {
        let behind = last.and_then(|last| {
            let range = (Bound::Excluded(last), Bound::Unbounded);
            self.shed.range(range).next()
        });
        behind.or_else(|| self.shed.first()).copied()
    }

    /// Takes everything since `begin` or `resume` back; after `commit` there is nothing to take
    /// back.
    pub fn rollback(&mut self) {
        self.retired.clear();
        self.unlinked = 0;
        self.ops.truncate(self.begun);
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Word(write) => self.image.write(&write),
                Undo::Taken {
                    memory,
                    addr,
                    words,
                } => self.allocator(memory).give(addr, words),
                Undo::Given {
                    memory,
                    addr,
                    words,
                    class,
                } => {
                    self.allocator(memory).claim(addr, words, class);
                }
            }
        }
    }

    fn allocator(&mut self, memory: Memory) -> &mut Allocator {
        self.allocators[memory as usize]
            .as_mut()
            .expect("only managed memories hold runs")
    }

    /// The allocator of a memory, if it has one.
    pub fn space(&self, memory: Memory) -> Option<&Allocator> {
        self.allocators[memory as usize].as_ref()
    }

    /// Writes a word, unless it is there already.
    pub fn write(&mut self, memory: Memory, addr: u32, data: Bits) {
        let old = self.image.read(memory, addr);
        if old != data {
            self.undo.push(Undo::Word(Write {
                memory,
                addr,
                data: old,
            }));
            let write = Write { memory, addr, data };
            self.image.write(&write);
            self.ops.push(Op::Write(write));
        }
    }

    /// Writes a leaf.
    pub fn write_leaf(&mut self, memory: Memory, addr: u32, leaf: Leaf) {
        self.write(memory, addr, [leaf.0.into(), 0, 0]);
    }

    /// Takes a place for new words.
    pub fn take(&mut self, memory: Memory, words: u32) -> Result<u32, Error> {
        let use_reserve = self.use_reserve;
        let mut addr = self.allocator(memory).take(words, use_reserve);
        if addr.is_none()
            && self.retired[..self.unlinked]
                .iter()
                .any(|piece| piece.memory == memory)
        {
            // What this change has replaced so far can be used once the pipeline is drained.
            self.drain();
            addr = self.allocator(memory).take(words, use_reserve);
        }
        let Some(addr) = addr else {
            let space = self.allocator(memory);
            return Err(Error::Full {
                memory,
                needed: words * unit(memory),
                used: space.held() * unit(memory),
                capacity: space.capacity() * unit(memory),
            });
        };
        self.undo.push(Undo::Taken {
            memory,
            addr,
            words,
        });
        Ok(addr)
    }

    /// Gives a place back, once no lookup can read it any more. The word that points to it may
    /// still have to be written; `unlinked` says that it was.
    pub fn retire(&mut self, memory: Memory, addr: u32, words: u32) {
        self.retired.push(Piece {
            memory,
            addr,
            words,
        });
    }

    /// All places retired so far are out of reach for lookups that begin now.
    pub fn unlinked(&mut self) {
        self.unlinked = self.retired.len();
    }

    fn free_unlinked(&mut self) {
        let later = self.retired.split_off(self.unlinked);
        let free = std::mem::replace(&mut self.retired, later);
        self.unlinked = 0;
        for Piece {
            memory,
            addr,
            words,
        } in free
        {
            let space = self.allocator(memory);
            let class = space.class_at(addr);
            space.give(addr, words);
            self.undo.push(Undo::Given {
                memory,
                addr,
                words,
                class,
            });
        }
    }

    /// Puts the leaves of a word or node in place; returns the run vector and the base to write
    /// into it. `old` is the run vector and base that are there now, `skip` the slots without a
    /// leaf.
    ///
    /// `same_slots` says that the old word has leaves for the same slots, so that a leaf can be
    /// overwritten where it is.
    pub fn replace_run(
        &mut self,
        memory: Memory,
        old: (u64, u32),
        slots: &[u32; 64],
        skip: u64,
        same_slots: bool,
    ) -> Result<(u64, u32), Error> {
        let (old_vector, old_base) = old;
        let runs = Runs::of(slots, skip);
        if runs.vector == 0 {
            self.retire_run(memory, old_vector, old_base);
            return Ok((0, runs.only()));
        }
        if runs.vector == old_vector {
            let same = |(addr, &leaf)| self.image.leaf(memory, addr) == Leaf(leaf);
            if same_slots || (old_base..).zip(runs.leaves()).all(same) {
                self.write_leaves(memory, old_base, runs.leaves());
                return Ok(old);
            }
        }
        match self.take(memory, runs.leaves().len() as u32) {
            Ok(base) => {
                self.retire_run(memory, old_vector, old_base);
                self.write_leaves(memory, base, runs.leaves());
                Ok((runs.vector, base))
            }
            // No room for a new run, but the old one may do, with neighbours that are the same.
            Err(full) => match Runs::under(old_vector, slots, skip) {
                Some(leaves) if same_slots && old_vector != 0 => {
                    self.write_leaves(memory, old_base, &leaves);
                    Ok(old)
                }
                _ => Err(full),
            },
        }
    }

    fn write_leaves(&mut self, memory: Memory, base: u32, leaves: &[u32]) {
        for (addr, &leaf) in (base..).zip(leaves) {
            self.write_leaf(memory, addr, Leaf(leaf));
        }
    }

    /// A place at the end of a node memory that one change may use for a while.
    pub fn scratch(&self, memory: Memory) -> Option<u32> {
        let depth = self.image.depth(memory);
        (depth >= WITH_SCRATCH).then(|| depth - MAX_RUN)
    }

    /// Lets all lookups under way end, in the middle of a change; what is unlinked is free then.
    pub fn drain(&mut self) {
        self.ops.push(Op::Drain);
        self.free_unlinked();
    }

    /// Retires the leaves under a run vector.
    pub fn retire_run(&mut self, memory: Memory, vector: u64, base: u32) {
        if vector != 0 {
            self.retire(memory, base, vector.count_ones() + 1);
        }
    }
}

/// Words of a node memory from which on it keeps a scratch place.
const WITH_SCRATCH: u32 = 256;

/// Words of a memory that one unit of its allocator stands for.
pub(crate) const fn unit(memory: Memory) -> u32 {
    if memory as u8 == Memory::V4Group as u8 {
        1 << V4_GROUP_INDEX_BITS
    } else {
        1
    }
}
