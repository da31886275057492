// SPDX-License-Identifier: Apache-2.0
//! A switch that looks at every word that is written to it: whatever look-ups are under way, each frame goes where one of
//! the tables sends it that the test names.
//!
//! A look-up reads its words one after the other, and the next hop last; writes come between the reads. A drain waits until
//! all that is under way has ended, so a look-up sees writes of one stretch between drains only. For short stretches all
//! ways in which reads and writes can interleave are tried.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use fib::layout::{self, Bits, Leaf, Memory};
use fib::synth::Random;
use fib::{Image, Op, Write};
use fibd::sink::Sink;

/// Stretches up to so many writes are tried in full; of longer ones so many interleavings are.
const SHORT: usize = 2;
const SAMPLES: u32 = 12;
/// Differences that are told one by one.
const MOST: usize = 5;
/// Reads of a look-up at most: nine of the trie, the default route, the next hop.
const READS: usize = 11;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// To the host port.
    Host,
    /// Nowhere.
    Dropped,
    /// To a neighbour.
    To {
        /// Port.
        port: u8,
        /// MAC address.
        mac: u64,
    },
}

/// An address, and what may become of frames for it.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub address: IpAddr,
    pub may: [Frame; 2],
}

/// What the sink does, and what it has found.
pub struct Checker {
    image: Image,
    /// The writes since the last drain, each with the word that was there.
    stretch: Vec<(Write, Bits)>,
    /// Looked up after every write, and in all ways before every drain.
    pub probes: Vec<Probe>,
    random: Random,
    /// Look-ups across writes are tried for one of so many stretches.
    pub torn_every: u64,
    /// There may be no room: the host port is right, too.
    pub may_be_full: bool,
    /// Look-ups between writes, and across them.
    pub whole: u64,
    pub torn: u64,
    pub writes: u64,
    /// Numbers of next hops that were given to another neighbour.
    pub reused: u64,
    owners: HashMap<u32, Bits>,
    /// How many frames went elsewhere, and the first of them.
    pub wrong: u64,
    pub told: Vec<String>,
}

impl Checker {
    /// Memories after reset.
    pub fn new(image: &Image, seed: u64) -> Self {
        Self {
            image: image.cleared(),
            stretch: Vec::new(),
            probes: Vec::new(),
            random: Random::new(seed),
            torn_every: 1,
            may_be_full: false,
            whole: 0,
            torn: 0,
            writes: 0,
            reused: 0,
            owners: HashMap::new(),
            wrong: 0,
            told: Vec::new(),
        }
    }

    /// The word that a read finds which comes after so many writes of the stretch.
    fn read(&self, memory: Memory, addr: u32, time: usize) -> Bits {
        let later = self.stretch[time..].iter();
        let mut later = later.filter(|(write, _)| (write.memory, write.addr) == (memory, addr));
        match later.next() {
            Some((_, before)) => *before,
            None => self.image.read(memory, addr),
        }
    }

    /// What becomes of a frame whose reads come after so many writes each.
    fn frame(&self, address: IpAddr, times: &[usize; READS]) -> Frame {
        let mut at = 0;
        let mut read = |memory: Memory, addr: u32| {
            // All banks and the TCAM are read at once, at first.
            let side = Memory::V4_HOST.contains(&memory)
                || Memory::V6_HOST.contains(&memory)
                || memory == Memory::V6Tcam;
            let time = times[if side { 0 } else { at }];
            at += usize::from(!side);
            self.read(memory, addr, time)
        };
        let leaf = match address {
            IpAddr::V4(address) => self.image.walk4(address.into(), &mut read),
            IpAddr::V6(address) => self.image.walk6(address.into(), &mut read),
        };
        let word = read(Memory::NextHop, leaf.next_hop().into());
        match leaf.port() {
            _ if leaf == Leaf::NONE => Frame::Host,
            layout::PORT_HOST => Frame::Host,
            layout::PORT_DISCARD => Frame::Dropped,
            _ if layout::NEXT_HOP_RESOLVED.get(&word) == 0 => Frame::Host,
            port => Frame::To {
                port,
                mac: layout::NEXT_HOP_MAC.get(&word),
            },
        }
    }

    fn look(&mut self, probe: &Probe, times: &[usize; READS]) {
        let found = self.frame(probe.address, times);
        let right = probe.may.contains(&found) || self.may_be_full && found == Frame::Host;
        if right {
            return;
        }
        self.wrong += 1;
        if self.told.len() < MOST {
            let (writes, [old, new]) = (&self.stretch, probe.may);
            let writes: Vec<_> = writes.iter().map(|(write, _)| write).collect();
            self.told.push(format!(
                "{}: {found:x?}, not {old:x?} or {new:x?}, by reads after {times:?} of {writes:x?}",
                probe.address
            ));
        }
    }

    fn write(&mut self, write: &Write) {
        self.writes += 1;
        if write.memory == Memory::NextHop && write.data != [0; 3] {
            let before = self.owners.insert(write.addr, write.data);
            self.reused += u64::from(before.is_some_and(|before| before != write.data));
        }
        let before = self.image.read(write.memory, write.addr);
        self.image.write(write);
        self.stretch.push((*write, before));
        let now = [self.stretch.len(); READS];
        let probes = std::mem::take(&mut self.probes);
        probes.iter().for_each(|probe| self.look(probe, &now));
        self.whole += probes.len() as u64;
        self.probes = probes;
    }

    /// Looks up what all must be by now.
    pub fn look_all(&mut self, probes: &[Probe]) {
        let now = [self.stretch.len(); READS];
        probes.iter().for_each(|probe| self.look(probe, &now));
        self.whole += probes.len() as u64;
    }

    /// All look-ups that are under way end; before, each of them may have been at any read.
    fn drain(&mut self) {
        let length = self.stretch.len();
        if length == 0 {
            return;
        }
        let tried = self.random.below(self.torn_every) == 0;
        for probe in self.probes.clone().into_iter().filter(|_| tried) {
            let reads = if probe.address.is_ipv4() { 5 } else { READS };
            if length <= SHORT {
                let mut times = [0; READS];
                loop {
                    self.look(&probe, &times);
                    self.torn += 1;
                    // The next list of times that do not go back.
                    let Some(last) = times[..reads].iter().rposition(|time| *time < length) else {
                        break;
                    };
                    let next = times[last] + 1;
                    times[last..].fill(next);
                }
            } else {
                for _ in 0..SAMPLES {
                    let random = &mut self.random;
                    let mut times: [usize; READS] =
                        std::array::from_fn(|_| random.below(length as u64 + 1) as usize);
                    times.sort_unstable();
                    self.look(&probe, &times);
                    self.torn += 1;
                }
            }
        }
        self.stretch.clear();
    }
}

/// In which order the words arrive that are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they come.
    Right,
    /// The words of each stretch from the last to the first: what leads to a run is there before the run.
    Backwards,
    /// Without a drain.
    WithoutDrains,
    /// Next hops before the routes that were written before them.
    NextHopsFirst,
}

/// The sink that hands its words to a checker.
pub struct Checking {
    pub checker: Rc<RefCell<Checker>>,
    pub order: Order,
    /// What waits while next hops pass.
    pub late: Vec<Op>,
}

impl Sink for Checking {
    fn apply(&mut self, ops: &[Op]) -> io::Result<()> {
        let mut checker = self.checker.borrow_mut();
        let mut one = |op: &Op| match (op, self.order) {
            (Op::Write(write), _) => checker.write(write),
            // No look-up is under way for ever.
            (Op::Drain, Order::WithoutDrains) if checker.stretch.len() < 16 => {}
            (Op::Drain, _) => checker.drain(),
        };
        match self.order {
            Order::Right | Order::WithoutDrains => ops.iter().for_each(one),
            Order::Backwards => {
                for stretch in ops.split_inclusive(|op| *op == Op::Drain) {
                    let writes = stretch.iter().rev().filter(|op| **op != Op::Drain);
                    writes.for_each(&mut one);
                    one(&Op::Drain);
                }
            }
            Order::NextHopsFirst => {
                let is_hop =
                    |op: &&Op| matches!(op, Op::Write(write) if write.memory == Memory::NextHop);
                let (hops, rest): (Vec<&Op>, Vec<&Op>) = ops.iter().partition(is_hop);
                hops.into_iter().for_each(&mut one);
                let late = std::mem::replace(&mut self.late, rest.into_iter().copied().collect());
                late.iter().for_each(one);
            }
        }
        Ok(())
    }

    fn image(&mut self) -> Option<&Image> {
        None
    }
}
