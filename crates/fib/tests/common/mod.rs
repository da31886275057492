// SPDX-License-Identifier: Apache-2.0
//! What the tests share: an oracle that knows nothing of tables, and hardware that is written one
//! word at a time.
#![allow(dead_code, reason = "each test uses a part")]

use fib::layout::{Bits, Leaf, Memory, PORT_HOST};
use fib::{Fib, Image, NextHop, NextHopId, Op, Port, Prefix4, Prefix6, Write};
use std::collections::BTreeMap;

/// Routes of one family as (first address, length) to next hop, addresses left-aligned in 128
/// bits. The longest match is found by asking for every length.
#[derive(Clone, Default)]
pub struct Naive {
    pub routes: BTreeMap<(u128, u8), u16>,
}

impl Naive {
    pub fn lookup(&self, addr: u128) -> Option<u16> {
        (0..=128u8).rev().find_map(|len| {
            let mask = if len == 0 {
                0
            } else {
                u128::MAX << (128 - len)
            };
            self.routes.get(&(addr & mask, len)).copied()
        })
    }
}

/// A change of one route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Announce4(Prefix4, u16),
    Withdraw4(Prefix4),
    Announce6(Prefix6, u16),
    Withdraw6(Prefix6),
}

impl Change {
    pub fn is_v4(&self) -> bool {
        matches!(self, Change::Announce4(..) | Change::Withdraw4(_))
    }

    /// First and last address, left-aligned, and length.
    pub fn range(&self) -> (u128, u128, u8) {
        match *self {
            Change::Announce4(p, _) | Change::Withdraw4(p) => (
                u128::from(p.addr()) << 96,
                u128::from(p.last()) << 96,
                p.len(),
            ),
            Change::Announce6(p, _) | Change::Withdraw6(p) => (p.addr(), p.last(), p.len()),
        }
    }

    pub fn on_oracle(&self, oracle: &mut Naive) {
        let (addr, _, len) = self.range();
        match *self {
            Change::Announce4(_, hop) | Change::Announce6(_, hop) => {
                oracle.routes.insert((addr, len), hop);
            }
            Change::Withdraw4(_) | Change::Withdraw6(_) => {
                oracle.routes.remove(&(addr, len));
            }
        }
    }

    pub fn on_fib(&self, fib: &mut Fib) -> Result<Vec<Op>, fib::Error> {
        match *self {
            Change::Announce4(prefix, hop) => fib.announce4(prefix, NextHopId(hop)),
            Change::Withdraw4(prefix) => fib.withdraw4(prefix),
            Change::Announce6(prefix, hop) => fib.announce6(prefix, NextHopId(hop)),
            Change::Withdraw6(prefix) => fib.withdraw6(prefix),
        }
        .map(<[Op]>::to_vec)
    }
}

pub fn set_next_hops(fib: &mut Fib, count: u16) {
    for id in 1..=count {
        let port = Port::Network((id % 16) as u8);
        let mac = Some([2, 0, 0, 0, (id >> 8) as u8, id as u8]);
        fib.set_next_hop(NextHopId(id), NextHop { port, mac })
            .expect("the id is in range");
    }
}

pub fn id_of(leaf: Leaf) -> Option<u16> {
    (leaf != Leaf::NONE).then(|| {
        if leaf == Leaf::new(PORT_HOST, 0) {
            return 0; // a shed word
        }
        assert_eq!(
            u16::from(leaf.port()),
            leaf.next_hop() % 16,
            "the leaf names the port"
        );
        leaf.next_hop()
    })
}

/// Looks a left-aligned address up.
pub fn lookup(image: &Image, v4: bool, key: u128) -> Option<u16> {
    id_of(if v4 {
        image.lookup4((key >> 96) as u32)
    } else {
        image.lookup6(key)
    })
}

/// A lookup that reads its first `early` words after `start` of the writes and the rest after
/// `end` of them. Banks and TCAM are read in one cycle by the hardware, so they are all early.
pub fn torn_lookup(
    image: &Image,
    writes: &[Write],
    start: usize,
    end: usize,
    v4: bool,
    key: u128,
    early: usize,
) -> Option<u16> {
    let mut reads = 0;
    let mut read = |memory: Memory, addr: u32| -> Bits {
        let side = Memory::V4_HOST.contains(&memory)
            || Memory::V6_HOST.contains(&memory)
            || memory == Memory::V6Tcam;
        let done = if side || reads < early { start } else { end };
        reads += usize::from(!side);
        let newest = writes[..done]
            .iter()
            .rev()
            .find(|w| w.memory == memory && w.addr == addr);
        newest.map_or_else(|| image.read(memory, addr), |write| write.data)
    };
    id_of(if v4 {
        image.walk4((key >> 96) as u32, &mut read)
    } else {
        image.walk6(key, &mut read)
    })
}

/// The addresses around a prefix where mistakes show: its edges and theirs neighbours.
pub fn edges(v4: bool, first: u128, last: u128) -> Vec<u128> {
    let one = if v4 { 1 << 96 } else { 1 };
    let last = if v4 { last >> 96 << 96 } else { last };
    vec![
        first,
        last,
        first.wrapping_sub(one),
        last.wrapping_add(one),
        first.wrapping_add(one),
        last.wrapping_sub(one),
        first + (last - first) / 2 / one * one,
    ]
}
