// SPDX-License-Identifier: Apache-2.0
//! IPv4: directory of run vectors, packed leaves, groups.
//!
//! Latency in hardware: three dependent reads. What the hardware holds is a function of the routes
//! alone (up to addresses), so the memory in use after any sequence of changes depends only on the
//! routes that remain; but for words that are shed.
//!
//! A withdrawal can need more room than it frees: one run becomes three where its leaf was its
//! neighbours'. Where there is none, the whole directory word is shed: a uniform word holds its leaf
//! itself, so it can always be written, and it leads to the host until there is room again.

use crate::error::Error;
use crate::exact::Exact;
use crate::hw::{Hw, Place};
use crate::image::run_leaf;
use crate::layout::{self, Bits, Leaf, Memory, V4_DIR_INDEX_BITS, V4_GROUP_INDEX_BITS};
use crate::prefix::Prefix4;
use crate::routes::{Routes64, ShortTree};
use std::collections::{BTreeMap, HashMap};

/// Length up to which routes are kept by whole directory words.
const WORD_LEN: u8 = V4_DIR_INDEX_BITS as u8;
/// Length up to which routes need no group.
const SLOT_LEN: u8 = 24;

#[derive(Debug, Clone, Default)]
struct Word {
    routes: Routes64,
    /// Slots with routes longer than /24.
    grouped: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct RunVec {
    short: ShortTree,
    words: Vec<Option<Box<Word>>>,
    /// Routes longer than /24 by slot (the upper 24 address bits), heap-ordered.
    groups: HashMap<u32, BTreeMap<u16, u32>>,
    hosts: Option<Exact>,
    covered: Vec<u32>,
}

/// A directory word that leads to the host whatever its routes are.
const SHED: Bits = layout::v4_dir(0, Leaf::SHED.0);

/// Gives a word up to the host, which needs no room; its run and its groups are free then.
fn shed(hw: &mut Hw, index: u32) {
    let word = hw.image.read(Memory::V4Dir, index);
    let (vector, base) = (
        layout::V4_DIR_RUNS.get(&word),
        layout::V4_DIR_BASE.get(&word) as u32,
    );
    if vector != 0 {
        for addr in base..=base + vector.count_ones() {
            if let Some(group) = hw.image.leaf(Memory::V4Leaf, addr).group() {
                hw.retire(Memory::V4Group, group, 1);
            }
        }
    }
    hw.retire_run(Memory::V4Leaf, vector, base);
    hw.write(Memory::V4Dir, index, SHED);
    hw.unlinked();
    hw.add_shed(Place::V4(index));
}

/// Heap element of a prefix below a point at `base_len` bits.
fn element(prefix: Prefix4, base_len: u8) -> u32 {
    let depth = prefix.len() - base_len;
    let bits = (u64::from(prefix.addr()) >> (32 - prefix.len())) as u32;
    1 << depth | bits & ((1 << depth) - 1)
}

impl RunVec {
    pub fn new(hw: &Hw) -> Self {
        Self {
            short: ShortTree::new(V4_DIR_INDEX_BITS),
            words: vec![None; 1 << V4_DIR_INDEX_BITS],
            groups: HashMap::new(),
            hosts: Exact::new(hw, Memory::V4_HOST, 32),
            covered: Vec::new(),
        }
    }

    /// The leaf of exactly this route.
    pub fn get(&self, hw: &Hw, prefix: Prefix4) -> Leaf {
        let leaf = match prefix.len() {
            0 => return hw.image.leaf(Memory::Register, layout::REGISTER_DEFAULT4),
            1..=WORD_LEN => self.short.get(element(prefix, 0)),
            19..=SLOT_LEN => self.words[(prefix.addr() >> 14) as usize]
                .as_ref()
                .map_or(0, |word| word.routes.get(element(prefix, WORD_LEN))),
            len => {
                if len == 32
                    && let Some(hosts) = &self.hosts
                {
                    let leaf = hosts.get(hw, prefix.addr().into());
                    if leaf != Leaf::NONE {
                        return leaf;
                    }
                }
                let group = self.groups.get(&(prefix.addr() >> V4_GROUP_INDEX_BITS));
                let element = element(prefix, SLOT_LEN) as u16;
                group
                    .and_then(|group| group.get(&element))
                    .copied()
                    .unwrap_or(0)
            }
        };
        Leaf(leaf)
    }

    /// Sets a route, or withdraws it with [`Leaf::NONE`]. After an error the routes are as before;
    /// the caller rolls the hardware back.
    pub fn set(&mut self, hw: &mut Hw, prefix: Prefix4, leaf: Leaf) -> Result<(), Error> {
        match prefix.len() {
            0 => {
                hw.write_leaf(Memory::Register, layout::REGISTER_DEFAULT4, leaf);
                Ok(())
            }
            1..=WORD_LEN => self.set_short(hw, prefix, leaf),
            19..=SLOT_LEN => self.set_slots(hw, prefix, leaf),
            32 => self.set_host(hw, prefix, leaf),
            _ => self.set_group(hw, prefix, leaf),
        }
    }

    fn set_short(&mut self, hw: &mut Hw, prefix: Prefix4, leaf: Leaf) -> Result<(), Error> {
        let element = element(prefix, 0);
        let old = self.short.set(element, leaf.0);
        let background = self.short.effective(element);
        let mut covered = std::mem::take(&mut self.covered);
        covered.clear();
        self.short.covered(element, &mut covered);
        let result = covered
            .iter()
            .try_for_each(|&index| self.refresh(hw, index, background, 0));
        self.covered = covered;
        if result.is_err() {
            self.short.set(element, old);
        }
        result
    }

    fn set_slots(&mut self, hw: &mut Hw, prefix: Prefix4, leaf: Leaf) -> Result<(), Error> {
        let index = prefix.addr() >> (32 - V4_DIR_INDEX_BITS);
        let element = element(prefix, WORD_LEN);
        let old = self.word(index).routes.set(element, leaf.0);
        let result = self.refresh_alone(hw, index, 0);
        if result.is_err() {
            self.word(index).routes.set(element, old);
        }
        self.tidy(index);
        result
    }

    fn set_host(&mut self, hw: &mut Hw, prefix: Prefix4, leaf: Leaf) -> Result<(), Error> {
        let key = u128::from(prefix.addr());
        let grouped = self
            .groups
            .get(&(prefix.addr() >> V4_GROUP_INDEX_BITS))
            .is_some_and(|group| group.contains_key(&(element(prefix, SLOT_LEN) as u16)));
        if let Some(hosts) = &mut self.hosts
            && !grouped
        {
            if leaf == Leaf::NONE {
                hosts.remove(hw, key);
                return Ok(());
            }
            if hosts.set(hw, key, leaf).is_ok() {
                return Ok(());
            }
            // No place among the hosts: a group does as well.
        }
        self.set_group(hw, prefix, leaf)
    }

    fn set_group(&mut self, hw: &mut Hw, prefix: Prefix4, leaf: Leaf) -> Result<(), Error> {
        let slot = prefix.addr() >> V4_GROUP_INDEX_BITS;
        let (index, bit) = (slot >> 6, 1u64 << (slot & 63));
        let element = element(prefix, SLOT_LEN) as u16;
        let old = self.set_group_route(slot, element, leaf.0);
        let result = self.refresh_alone(hw, index, bit);
        if result.is_err() {
            self.set_group_route(slot, element, old);
        }
        self.tidy(index);
        result
    }

    fn set_group_route(&mut self, slot: u32, element: u16, leaf: u32) -> u32 {
        let group = self.groups.entry(slot).or_default();
        let old = if leaf == 0 {
            group.remove(&element)
        } else {
            group.insert(element, leaf)
        };
        let empty = group.is_empty();
        if empty {
            self.groups.remove(&slot);
        }
        let word = self.word(slot >> 6);
        word.grouped &= !(1 << (slot & 63));
        word.grouped |= u64::from(!empty) << (slot & 63);
        old.unwrap_or(0)
    }

    fn word(&mut self, index: u32) -> &mut Word {
        self.words[index as usize].get_or_insert_default()
    }

    fn tidy(&mut self, index: u32) {
        let word = &mut self.words[index as usize];
        if word
            .as_ref()
            .is_some_and(|word| word.routes.is_empty() && word.grouped == 0)
        {
            *word = None;
        }
    }

    fn refresh_alone(&mut self, hw: &mut Hw, index: u32, changed: u64) -> Result<(), Error> {
        let background = self.short.effective(1 << V4_DIR_INDEX_BITS | index);
        self.refresh(hw, index, background, changed)
    }

    /// Makes the hardware's word `index` what the routes say. `changed` marks slots whose groups
    /// may have come or gone. A word that is shed stays so.
    fn refresh(&self, hw: &mut Hw, index: u32, background: u32, changed: u64) -> Result<(), Error> {
        if hw.image.read(Memory::V4Dir, index) == SHED {
            return Ok(());
        }
        match self.rewrite(hw, index, background, changed) {
            Err(_) if hw.may_shed() => {
                shed(hw, index);
                Ok(())
            }
            result => result,
        }
    }

    /// Gives a shed word its routes back, if there is room; the caller rolls the hardware back if
    /// there is none.
    pub fn restore(&self, hw: &mut Hw, index: u32) -> Result<(), Error> {
        if hw.image.read(Memory::V4Dir, index) != SHED {
            return Ok(());
        }
        let background = self.short.effective(1 << V4_DIR_INDEX_BITS | index);
        self.rewrite(hw, index, background, 0)
    }

    /// After an error in a change that takes out, nothing is taken or retired: such a change needs
    /// no new group.
    fn rewrite(&self, hw: &mut Hw, index: u32, background: u32, changed: u64) -> Result<(), Error> {
        let word = hw.image.read(Memory::V4Dir, index);
        let old = (
            layout::V4_DIR_RUNS.get(&word),
            layout::V4_DIR_BASE.get(&word) as u32,
        );
        let mut slots = [background; 64];
        let mut gone = Vec::new();
        if let Some(routes) = &self.words[index as usize] {
            slots = routes.routes.expand(background);
            let mut rest = routes.grouped | changed;
            while rest != 0 {
                let slot = rest.trailing_zeros();
                rest &= rest - 1;
                let group = run_leaf(Memory::V4Leaf, old, slot, &mut |memory, addr| {
                    hw.image.read(memory, addr)
                })
                .group();
                let grouped = routes.grouped >> slot & 1 != 0;
                if grouped {
                    let leaf = &mut slots[slot as usize];
                    *leaf = self.refresh_group(hw, index << 6 | slot, group, *leaf)?;
                } else {
                    gone.extend(group);
                }
            }
        }
        let (vector, base) = hw.replace_run(Memory::V4Leaf, old, &slots, 0, true)?;
        for group in gone {
            hw.retire(Memory::V4Group, group, 1);
        }
        hw.write(Memory::V4Dir, index, layout::v4_dir(vector, base));
        hw.unlinked();
        Ok(())
    }

    /// Fills a group, in place if it is there: each address has its own entry, so each write takes
    /// one address from its old to its new leaf. Returns the escape leaf.
    fn refresh_group(
        &self,
        hw: &mut Hw,
        slot: u32,
        group: Option<u32>,
        background: u32,
    ) -> Result<u32, Error> {
        let group = match group {
            Some(group) => group,
            None => hw.take(Memory::V4Group, 1)?,
        };
        let mut entries = [background; 256];
        for (&element, &leaf) in &self.groups[&slot] {
            let span = 256 >> element.ilog2();
            let first = usize::from(element) * span - 256;
            entries[first..first + span].fill(leaf);
        }
        for (addr, leaf) in (group << V4_GROUP_INDEX_BITS..).zip(entries) {
            hw.write_leaf(Memory::V4Group, addr, Leaf(leaf));
        }
        Ok(Leaf::escape(group).0)
    }
}
