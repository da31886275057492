// SPDX-License-Identifier: Apache-2.0
//! IPv6 up to /64: a direct table of 16 bits and a trie of 6 bits a level, leaf-pushed.
//!
//! The hardware has a node where the routes have one, so the memory in use depends only on the
//! routes. The children of a node lie side by side in the memory of the next level. A node whose
//! set of children stays is overwritten in place (one word, one write); a node that gains or loses
//! a child gets a new array of children first, with the siblings copied.
//!
//! Where a withdrawal needs more room than there is, the node that needs it is shed: it becomes one
//! without children and with one leaf, which its word holds, and leads to the host with all that is
//! below it until there is room again.

use crate::error::Error;
use crate::hw::{Hw, Place};
use crate::layout::{self, Bits, Leaf, Memory, Node, V6_DIRECT_BITS, V6_LEVELS, V6_STRIDE};
use crate::prefix::Prefix6;
use crate::routes::{Routes64, ShortTree};

const DIRECT_LEN: u8 = V6_DIRECT_BITS as u8;
const NO_NODE: u32 = u32::MAX;

/// Routes of one node, and the nodes below it in the order of their slots.
#[derive(Debug, Clone, Default)]
struct Soft {
    routes: Routes64,
    slots: u64,
    children: Vec<u32>,
}

impl Soft {
    fn child(&self, slot: u32) -> Option<u32> {
        (self.slots >> slot & 1 != 0).then(|| self.children[rank(self.slots, slot)])
    }

    fn is_empty(&self) -> bool {
        self.routes.is_empty() && self.slots == 0
    }
}

/// A node that leads to the host whatever its routes are.
const SHED: Node = Node {
    children: 0,
    runs: 0,
    child_base: 0,
    leaf_base: Leaf::SHED.0,
};

/// A node, in the routes and in the hardware.
#[derive(Debug, Clone, Copy)]
struct At {
    level: usize,
    node: u32,
    addr: u32,
    /// Of the first address below it.
    key: u64,
}

impl At {
    fn word(self, hw: &Hw) -> Bits {
        hw.image.read(Memory::V6_NODE[self.level], self.addr)
    }

    fn is_shed(self, hw: &Hw) -> bool {
        self.word(hw) == SHED.to_bits()
    }

    /// The child in a slot, if the hardware has it.
    fn child(self, hw: &Hw, soft: &Soft, slot: u32) -> Option<At> {
        let word = Node::from_bits(&self.word(hw));
        let node = soft.child(slot)?;
        (word.children >> slot & 1 != 0).then(|| At {
            level: self.level + 1,
            node,
            addr: word.child_base + rank(word.children, slot) as u32,
            key: self.key | u64::from(slot) << (42 - V6_STRIDE * self.level as u32),
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Trie6 {
    short: ShortTree,
    roots: Vec<u32>,
    nodes: Vec<Soft>,
    unused: Vec<u32>,
    covered: Vec<u32>,
}

/// Slots of `bits` below `slot`.
fn rank(bits: u64, slot: u32) -> usize {
    (bits & ((1 << slot) - 1)).count_ones() as usize
}

/// The upper half of the address, all that the trie looks at.
fn key(prefix: Prefix6) -> u64 {
    (prefix.addr() >> 64) as u64
}

/// The slot of a key in a node of `level`.
fn slot(key: u64, level: usize) -> u32 {
    (key >> (42 - V6_STRIDE * level as u32)) as u32 & 63
}

/// Level of a prefix longer than the direct table, and its heap element in the node there.
fn place(prefix: Prefix6) -> (usize, u32) {
    let below = u32::from(prefix.len() - DIRECT_LEN);
    let level = (below - 1) / V6_STRIDE;
    let depth = below - level * V6_STRIDE;
    let bits = slot(key(prefix), level as usize) >> (V6_STRIDE - depth);
    (level as usize, 1 << depth | bits)
}

/// Element of a prefix that the direct table resolves.
fn short_element(prefix: Prefix6) -> u32 {
    1 << prefix.len() | (key(prefix) >> 48) as u32 >> (DIRECT_LEN - prefix.len())
}

impl Trie6 {
    pub fn new() -> Self {
        Self {
            short: ShortTree::new(V6_DIRECT_BITS),
            roots: vec![NO_NODE; 1 << V6_DIRECT_BITS],
            nodes: Vec::new(),
            unused: Vec::new(),
            covered: Vec::new(),
        }
    }

    /// The leaf of exactly this route.
    pub fn get(&self, hw: &Hw, prefix: Prefix6) -> Leaf {
        match prefix.len() {
            0 => hw.image.leaf(Memory::Register, layout::REGISTER_DEFAULT6),
            1..=DIRECT_LEN => Leaf(self.short.get(short_element(prefix))),
            _ => {
                let (target, element) = place(prefix);
                let mut node = self.roots[(key(prefix) >> 48) as usize];
                for level in 0..target {
                    if node == NO_NODE {
                        return Leaf::NONE;
                    }
                    let child = self.nodes[node as usize].child(slot(key(prefix), level));
                    node = child.unwrap_or(NO_NODE);
                }
                if node == NO_NODE {
                    return Leaf::NONE;
                }
                Leaf(self.nodes[node as usize].routes.get(element))
            }
        }
    }

    /// Sets a route, or withdraws it with [`Leaf::NONE`]. After an error the routes are as before;
    /// the caller rolls the hardware back.
    pub fn set(&mut self, hw: &mut Hw, prefix: Prefix6, leaf: Leaf) -> Result<(), Error> {
        match prefix.len() {
            0 => {
                hw.write_leaf(Memory::Register, layout::REGISTER_DEFAULT6, leaf);
                Ok(())
            }
            1..=DIRECT_LEN => self.set_short(hw, prefix, leaf),
            _ => {
                let old = self.get(hw, prefix);
                let (top, before) = self.set_soft(prefix, leaf);
                let result = self.refresh_path(hw, key(prefix), top, &before);
                if result.is_err() {
                    self.set_soft(prefix, old);
                }
                result
            }
        }
    }

    fn set_short(&mut self, hw: &mut Hw, prefix: Prefix6, leaf: Leaf) -> Result<(), Error> {
        let element = short_element(prefix);
        let before = self.short.effective(element);
        let old = self.short.set(element, leaf.0);
        let after = self.short.effective(element);
        let mut covered = std::mem::take(&mut self.covered);
        covered.clear();
        self.short.covered(element, &mut covered);
        let result = covered.iter().try_for_each(|&entry| {
            let root = self.roots[entry as usize];
            if root == NO_NODE {
                let node = Node {
                    leaf_base: after,
                    ..Node::default()
                };
                hw.write(Memory::V6Node0, entry, node.to_bits());
                return Ok(());
            }
            let routes = &self.nodes[root as usize].routes;
            let at = At {
                level: 0,
                node: root,
                addr: entry,
                key: u64::from(entry) << 48,
            };
            self.refresh(hw, at, &routes.expand(before), &routes.expand(after))
        });
        self.covered = covered;
        if result.is_err() {
            self.short.set(element, old);
        }
        result
    }

    /// Changes the routes alone. Returns the level of the deepest node on the path that was there
    /// before and is there after (`None`: the root came or went), and what its slots held before.
    fn set_soft(&mut self, prefix: Prefix6, leaf: Leaf) -> (Option<usize>, [u32; 64]) {
        let key = key(prefix);
        let (target, element) = place(prefix);
        let entry = (key >> 48) as usize;
        let mut before = [0; 64];
        let mut top = None;
        let mut path = [NO_NODE; V6_LEVELS];
        let mut background = self.short.effective(1 << V6_DIRECT_BITS | entry as u32);
        for level in 0..=target {
            let existing = match level {
                0 => Some(self.roots[entry]).filter(|&root| root != NO_NODE),
                _ => self.nodes[path[level - 1] as usize].child(slot(key, level - 1)),
            };
            path[level] = match existing {
                Some(node) => {
                    let routes = &self.nodes[node as usize].routes;
                    top = Some(level);
                    if level == target {
                        before = routes.expand(background);
                    } else {
                        background = routes.slot(slot(key, level), background);
                    }
                    node
                }
                None => {
                    let node = self.unused.pop().unwrap_or_else(|| {
                        self.nodes.push(Soft::default());
                        self.nodes.len() as u32 - 1
                    });
                    if level == 0 {
                        self.roots[entry] = node;
                    } else {
                        let parent = &mut self.nodes[path[level - 1] as usize];
                        let slot = slot(key, level - 1);
                        let rank = rank(parent.slots, slot);
                        parent.slots |= 1 << slot;
                        parent.children.insert(rank, node);
                    }
                    node
                }
            };
        }
        self.nodes[path[target] as usize]
            .routes
            .set(element, leaf.0);
        for level in (0..=target).rev() {
            let node = path[level];
            if !self.nodes[node as usize].is_empty() {
                break;
            }
            self.nodes[node as usize] = Soft::default();
            self.unused.push(node);
            if level == 0 {
                self.roots[entry] = NO_NODE;
            } else {
                let parent = &mut self.nodes[path[level - 1] as usize];
                let slot = slot(key, level - 1);
                parent.children.remove(rank(parent.slots, slot));
                parent.slots &= !(1 << slot);
            }
            if top.is_some_and(|top| top >= level) {
                top = level.checked_sub(1);
            }
        }
        (top, before)
    }

    /// Brings the hardware up to date after `set_soft`.
    fn refresh_path(
        &self,
        hw: &mut Hw,
        key: u64,
        top: Option<usize>,
        before: &[u32; 64],
    ) -> Result<(), Error> {
        let entry = (key >> 48) as u32;
        let background = self.short.effective(1 << V6_DIRECT_BITS | entry);
        let node = self.roots[entry as usize];
        let Some(top) = top else {
            // The whole path below the direct table came or went.
            let old = hw.image.read(Memory::V6Node0, entry);
            let new = if node == NO_NODE {
                Node {
                    leaf_base: background,
                    ..Node::default()
                }
            } else {
                self.build(hw, 0, node, background)?
            };
            hw.write(Memory::V6Node0, entry, new.to_bits());
            retire_tree(hw, 0, Node::from_bits(&old));
            hw.unlinked();
            return Ok(());
        };
        let Some((at, background)) = self.descend(hw, key, top) else {
            // Below a node that is shed.
            return Ok(());
        };
        let soft = &self.nodes[at.node as usize];
        let after = soft.routes.expand(background);
        let word = Node::from_bits(&at.word(hw));
        // A node that gains or loses a child keeps its own routes.
        let before = if word.children == soft.slots {
            before
        } else {
            &after
        };
        self.refresh(hw, at, before, &after)
    }

    /// The node of a level on the path of a key, and what it holds where it has no route; `None` if
    /// the hardware does not have it.
    fn descend(&self, hw: &Hw, key: u64, level: usize) -> Option<(At, u32)> {
        let entry = (key >> 48) as u32;
        let mut background = self.short.effective(1 << V6_DIRECT_BITS | entry);
        let mut at = At {
            level: 0,
            node: self.roots[entry as usize],
            addr: entry,
            key: u64::from(entry) << 48,
        };
        if at.node == NO_NODE {
            return None;
        }
        while at.level < level {
            let slot = slot(key, at.level);
            let soft = &self.nodes[at.node as usize];
            background = soft.routes.slot(slot, background);
            at = at.child(hw, soft, slot)?;
        }
        Some((at, background))
    }

    /// Gives a shed node its routes back, with all that is below it, if there is room; the caller
    /// rolls the hardware back if there is none.
    pub fn restore(&self, hw: &mut Hw, level: usize, key: u64) -> Result<(), Error> {
        match self.descend(hw, key, level) {
            Some((at, background)) if at.is_shed(hw) => {
                let new = self.build(hw, level, at.node, background)?;
                hw.write(Memory::V6_NODE[level], at.addr, new.to_bits());
                hw.unlinked();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes the hardware's node what the routes say. `before` and `after` are what the slots hold
    /// without the nodes below. A node that is shed stays so.
    fn refresh(
        &self,
        hw: &mut Hw,
        at: At,
        before: &[u32; 64],
        after: &[u32; 64],
    ) -> Result<(), Error> {
        if at.is_shed(hw) {
            return Ok(());
        }
        match self.rewrite(hw, at, before, after) {
            Err(_) if hw.may_shed() => {
                let old = Node::from_bits(&at.word(hw));
                retire_tree(hw, at.level, old);
                hw.write(Memory::V6_NODE[at.level], at.addr, SHED.to_bits());
                hw.unlinked();
                hw.add_shed(Place::V6(at.level, at.key));
                Ok(())
            }
            result => result,
        }
    }

    /// After an error in a change that takes out, nothing is taken or retired.
    fn rewrite(
        &self,
        hw: &mut Hw,
        at: At,
        before: &[u32; 64],
        after: &[u32; 64],
    ) -> Result<(), Error> {
        let soft = &self.nodes[at.node as usize];
        let (level, addr) = (at.level, at.addr);
        let memory = Memory::V6_NODE[level];
        let old = Node::from_bits(&at.word(hw));
        let same_children = old.children == soft.slots;
        let mut child_base = old.child_base;
        if same_children {
            for slot in 0..64 {
                let (before, after) = (before[slot], after[slot]);
                if before != after
                    && let Some(child) = at.child(hw, soft, slot as u32)
                {
                    let routes = &self.nodes[child.node as usize].routes;
                    let (before, after) = (routes.expand(before), routes.expand(after));
                    self.refresh(hw, child, &before, &after)?;
                }
            }
        } else {
            child_base = take_children(hw, level, soft, &old)?;
        }
        let run = (old.runs, old.leaf_base);
        let (runs, leaf_base) =
            match hw.replace_run(Memory::V6Leaf, run, after, soft.slots, same_children) {
                Ok(run) => run,
                Err(full) => {
                    if !same_children {
                        leave_children(hw, level, soft, child_base);
                    }
                    return Err(full);
                }
            };
        if !same_children {
            self.fill_children(hw, level, soft, &old, after, child_base)?;
        }
        let mut new = Node {
            children: soft.slots,
            runs,
            child_base,
            leaf_base,
        };
        hw.write(memory, addr, new.to_bits());
        hw.unlinked();
        if soft.slots != 0 && hw.scratch(Memory::V6_NODE[level + 1]) == Some(child_base) {
            // The memory is full, but one child less fits where the old children were.
            new.child_base = leave_scratch(hw, level + 1, &new)?;
            hw.write(memory, addr, new.to_bits());
        }
        Ok(())
    }

    /// A new array of children at `base`: siblings copied, new ones built, lost ones retired.
    fn fill_children(
        &self,
        hw: &mut Hw,
        level: usize,
        soft: &Soft,
        old: &Node,
        after: &[u32; 64],
        base: u32,
    ) -> Result<(), Error> {
        if soft.slots == 0 && old.children == 0 {
            return Ok(());
        }
        let below = level + 1;
        let memory = Memory::V6_NODE[below];
        if soft.slots != 0 {
            for (rank_new, &child) in soft.children.iter().enumerate() {
                let slot = nth(soft.slots, rank_new);
                let word = if old.children >> slot & 1 != 0 {
                    let from = old.child_base + rank(old.children, slot as u32) as u32;
                    hw.image.read(memory, from)
                } else {
                    self.build(hw, below, child, after[slot])?.to_bits()
                };
                hw.write(memory, base + rank_new as u32, word);
            }
        }
        if old.children != 0 {
            for rank_old in 0..old.children.count_ones() {
                let slot = nth(old.children, rank_old as usize);
                if soft.slots >> slot & 1 == 0 {
                    let lost = hw.image.read(memory, old.child_base + rank_old);
                    retire_tree(hw, below, Node::from_bits(&lost));
                }
            }
            hw.retire(memory, old.child_base, old.children.count_ones());
        }
        Ok(())
    }

    /// Writes everything below a new node, and returns the node's word, which is still to be
    /// written.
    fn build(&self, hw: &mut Hw, level: usize, node: u32, background: u32) -> Result<Node, Error> {
        let soft = &self.nodes[node as usize];
        let slots = soft.routes.expand(background);
        let none = Node::default();
        let child_base = take_children(hw, level, soft, &none)?;
        self.fill_children(hw, level, soft, &none, &slots, child_base)?;
        let (runs, leaf_base) =
            hw.replace_run(Memory::V6Leaf, (0, 0), &slots, soft.slots, false)?;
        Ok(Node {
            children: soft.slots,
            runs,
            child_base,
            leaf_base,
        })
    }
}

/// A place for a node's children; the scratch place if there are fewer than before and there is no
/// other.
fn take_children(hw: &mut Hw, level: usize, soft: &Soft, old: &Node) -> Result<u32, Error> {
    if soft.slots == 0 {
        return Ok(0);
    }
    let memory = Memory::V6_NODE[level + 1];
    let shrinks = soft.slots & !old.children == 0;
    match (
        hw.take(memory, soft.children.len() as u32),
        hw.scratch(memory),
    ) {
        (Err(_), Some(scratch)) if shrinks => Ok(scratch),
        (result, _) => result,
    }
}

/// Gives back what `take_children` took and nothing points to.
fn leave_children(hw: &mut Hw, level: usize, soft: &Soft, base: u32) {
    if soft.slots != 0 {
        let memory = Memory::V6_NODE[level + 1];
        if hw.scratch(memory) != Some(base) {
            hw.retire(memory, base, soft.children.len() as u32);
        }
    }
}

/// Copies children from the scratch place to one of their own, which the drain has freed.
fn leave_scratch(hw: &mut Hw, level: usize, node: &Node) -> Result<u32, Error> {
    let (memory, count) = (Memory::V6_NODE[level], node.children.count_ones());
    hw.drain();
    let base = hw.take(memory, count)?;
    for child in 0..count {
        let word = hw.image.read(memory, node.child_base + child);
        hw.write(memory, base + child, word);
    }
    Ok(base)
}

/// The slot of the set bit number `rank`.
fn nth(mut bits: u64, rank: usize) -> usize {
    for _ in 0..rank {
        bits &= bits - 1;
    }
    bits.trailing_zeros() as usize
}

/// Retires all that hangs under a node, but not the node's own word.
fn retire_tree(hw: &mut Hw, level: usize, node: Node) {
    hw.retire_run(Memory::V6Leaf, node.runs, node.leaf_base);
    if node.children == 0 {
        return;
    }
    let (below, count) = (Memory::V6_NODE[level + 1], node.children.count_ones());
    for addr in node.child_base..node.child_base + count {
        let child = Node::from_bits(&hw.image.read(below, addr));
        retire_tree(hw, level + 1, child);
    }
    hw.retire(below, node.child_base, count);
}
