// SPDX-License-Identifier: Apache-2.0
//! The lookup alone at full size: tables of a million routes written word by word, then an address
//! of each family in every cycle, each answer compared.

use std::collections::VecDeque;

use fib::layout::Memory;
use fib::synth::Table;
use fib::{Fib, NextHop, NextHopId, Op, Port, Prefix4, Prefix6, Write};
use ipnuma_rtl::{Handle, ports};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::switchtest::flow::Address;
use crate::switchtest::lpm::Ranges;

/// Next hops that routes go to; some lead to the host, some to nowhere.
pub const HOPS: u16 = 4095;
/// Memory id that stands for a drain marker.
const DRAIN: u8 = 31;
/// Edges after which a write that is not taken means that the lookup is stuck.
const STUCK_EDGES: u32 = 1000;
/// Bits of an answer above the next hop: port, then the flags.
const PORT_BIT: u32 = 12;
const DISCARD: u32 = 1 << 16;
const PUNT: u32 = 1 << 17;
const HIT: u32 = 1 << 18;

/// Egress of a next hop.
pub fn port_of(hop: u16) -> Port {
    match hop % 61 {
        0 => Port::Host,
        1 => Port::Discard,
        _ => Port::Network((hop % 16) as u8),
    }
}

/// What the lookup says for a next hop, bit for bit.
fn answer(hop: Option<u16>) -> u32 {
    let Some(hop) = hop else { return 0 };
    let egress = match port_of(hop) {
        Port::Network(port) => u32::from(port) << PORT_BIT,
        Port::Host => PUNT,
        // The code of the discard port is 17, whose low bits are 1.
        Port::Discard => DISCARD | 1 << PORT_BIT,
    };
    HIT | egress | u32::from(hop)
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Answers compared, IPv4.
    pub answers4: u64,
    /// Answers compared, IPv6.
    pub answers6: u64,
    /// Of those, answers that were a route.
    pub hits: u64,
    /// Words written.
    pub words: u64,
    /// Clock edges.
    pub edges: u64,
}

/// An answer that is under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    edge: u64,
    key: u128,
    answer: u32,
}

ports!(Ports {
    clk_i,
    rst_i,
    latency_v4_o,
    latency_v6_o,
    v4_valid_i,
    v4_addr_i,
    v4_valid_o,
    v4_answer_o,
    v6_valid_i,
    v6_addr_i,
    v6_valid_o,
    v6_answer_o,
    wr_valid_i,
    wr_mem_i,
    wr_addr_i,
    wr_data_i,
    wr_ready_o,
});

/// The Verilated lookup with the answers it owes.
pub struct LookupBench {
    rtl: Handle,
    ports: Ports,
    latency: [u64; 2],
    asked: [VecDeque<Asked>; 2],
    totals: Totals,
}

impl LookupBench {
    /// A lookup after reset, with empty tables.
    pub fn new() -> Result<Self, String> {
        let rtl = Handle::new("fib_lookup_full").map_err(|error| error.to_string())?;
        let mut bench = Self {
            ports: Ports::of(&rtl).map_err(|error| error.to_string())?,
            rtl,
            latency: [0; 2],
            asked: Default::default(),
            totals: Totals::default(),
        };
        bench.rtl.set(bench.ports.rst_i, true);
        for _ in 0..4 {
            bench.edge([None, None])?;
        }
        bench.rtl.set(bench.ports.rst_i, false);
        bench.latency =
            [bench.ports.latency_v4_o, bench.ports.latency_v6_o].map(|port| bench.rtl.get(port));
        Ok(bench)
    }

    /// Edges from an address to its answer, IPv4 and IPv6.
    pub fn latency(&self) -> [u64; 2] {
        self.latency
    }

    /// Counts so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// One clock edge with an address of each family, or none, and the answers expected to them.
    fn edge(&mut self, ask: [Option<(u128, Option<u16>)>; 2]) -> Result<(), String> {
        let (rtl, ports) = (&mut self.rtl, &self.ports);
        rtl.set(ports.clk_i, false);
        rtl.set(ports.v4_valid_i, ask[0].is_some());
        rtl.set(ports.v6_valid_i, ask[1].is_some());
        if let Some((key, _)) = ask[0] {
            rtl.set(ports.v4_addr_i, key as u64);
        }
        if let Some((key, _)) = ask[1] {
            rtl.set_wide(ports.v6_addr_i, [key as u64, (key >> 64) as u64]);
        }
        rtl.eval().map_err(|error| error.to_string())?;
        rtl.set(ports.clk_i, true);
        rtl.eval().map_err(|error| error.to_string())?;
        self.totals.edges += 1;
        for (asked, ask) in self.asked.iter_mut().zip(ask) {
            if let Some((key, hop)) = ask {
                asked.push_back(Asked {
                    edge: self.totals.edges,
                    key,
                    answer: answer(hop),
                });
            }
        }
        self.check()
    }

    /// Answers are there exactly when they must be.
    fn check(&mut self) -> Result<(), String> {
        let now = self.totals.edges;
        let given = [
            (
                self.rtl.bit(self.ports.v4_valid_o),
                self.rtl.get(self.ports.v4_answer_o) as u32,
            ),
            (
                self.rtl.bit(self.ports.v6_valid_o),
                self.rtl.get(self.ports.v6_answer_o) as u32,
            ),
        ];
        for (family, (valid, got)) in given.into_iter().enumerate() {
            let due = self.asked[family].front().copied();
            let due = due.filter(|asked| asked.edge + self.latency[family] == now + 1);
            if due.is_some() != valid {
                return Err(format!(
                    "edge {now}: valid of IPv{} is {valid}, and the next answer is {:x?}",
                    [4, 6][family],
                    self.asked[family].front()
                ));
            }
            let Some(asked) = due else { continue };
            if got != asked.answer {
                return Err(format!(
                    "edge {now}: IPv{} address {:#x} got {got:#x} instead of {:#x}",
                    [4, 6][family],
                    asked.key,
                    asked.answer
                ));
            }
            self.asked[family].pop_front();
            self.totals.hits += u64::from(got & HIT != 0);
            match family {
                0 => self.totals.answers4 += 1,
                _ => self.totals.answers6 += 1,
            }
        }
        Ok(())
    }

    /// Writes a word, or waits at a drain marker, through the write port.
    fn write(&mut self, memory: u8, addr: u32, data: [u64; 3]) -> Result<(), String> {
        self.rtl.set(self.ports.wr_valid_i, true);
        self.rtl.set(self.ports.wr_mem_i, memory);
        self.rtl.set(self.ports.wr_addr_i, addr);
        self.rtl.set_wide(self.ports.wr_data_i, data);
        for _ in 0..STUCK_EDGES {
            // Ready depends on no input.
            let taken = self.rtl.bit(self.ports.wr_ready_o);
            self.edge([None, None])?;
            if taken {
                self.rtl.set(self.ports.wr_valid_i, false);
                self.totals.words += u64::from(memory != DRAIN);
                return Ok(());
            }
        }
        Err(format!("a write to memory {memory} is never taken"))
    }

    /// Does a list of writes in order.
    pub fn apply(&mut self, ops: &[Op]) -> Result<(), String> {
        for op in ops {
            match op {
                Op::Write(Write { memory, addr, data }) => self.write(memory.id(), *addr, *data)?,
                Op::Drain => self.write(DRAIN, 0, [0; 3])?,
            }
        }
        Ok(())
    }

    /// Writes every word of an image that is not zero; the memories are zero so far.
    pub fn load(&mut self, fib: &Fib) -> Result<(), String> {
        let image = fib.image();
        for memory in Memory::ALL {
            // The next-hop table is no part of the lookup.
            if memory == Memory::NextHop {
                continue;
            }
            for addr in 0..image.depth(memory) {
                let data = image.read(memory, addr);
                if data != [0; 3] {
                    self.write(memory.id(), addr, data)?;
                }
            }
        }
        Ok(())
    }

    /// Asks addresses of both families, one of each a cycle, with the answers expected to them.
    pub fn ask(
        &mut self,
        keys4: impl Iterator<Item = (u32, Option<u16>)>,
        keys6: impl Iterator<Item = (u128, Option<u16>)>,
    ) -> Result<(), String> {
        let mut keys4 = keys4.map(|(key, hop)| (u128::from(key), hop)).fuse();
        let mut keys6 = keys6.fuse();
        loop {
            let ask = [keys4.next(), keys6.next()];
            if ask == [None, None] {
                break;
            }
            self.edge(ask)?;
        }
        for _ in 0..=self.latency[0].max(self.latency[1]) {
            self.edge([None, None])?;
        }
        if self.asked.iter().any(|asked| !asked.is_empty()) {
            return Err("answers are missing".into());
        }
        Ok(())
    }
}

/// Routes of a family.
#[derive(Debug, Default)]
struct Family<P> {
    /// Prefixes with their next hops.
    routes: Vec<(P, u16)>,
    /// Prefixes that were withdrawn.
    gone: Vec<P>,
}

impl<P: Copy + Ord> Family<P> {
    /// Gives every prefix a random next hop; those that are there twice count once.
    fn new(prefixes: &[P], random: &mut ChaCha8Rng) -> Self {
        let mut prefixes = prefixes.to_vec();
        prefixes.sort_unstable();
        prefixes.dedup();
        let hop = |prefix| (prefix, random.random_range(1..=HOPS));
        Self {
            routes: prefixes.into_iter().map(hop).collect(),
            gone: Vec::new(),
        }
    }

    /// Withdraws a route, announces one that was withdrawn, or gives one another next hop.
    fn change(&mut self, hop: u16, random: &mut ChaCha8Rng) -> (P, Option<u16>) {
        let at = random.random_range(0..self.routes.len());
        match random.random_range(0..3) {
            0 if self.routes.len() > 1 => {
                let (prefix, _) = self.routes.swap_remove(at);
                self.gone.push(prefix);
                (prefix, None)
            }
            1 if !self.gone.is_empty() => {
                let back = random.random_range(0..self.gone.len());
                let prefix = self.gone.swap_remove(back);
                self.routes.push((prefix, hop));
                (prefix, Some(hop))
            }
            _ => {
                self.routes[at].1 = hop;
                (self.routes[at].0, Some(hop))
            }
        }
    }
}

/// A table with its next hops, in `crates/fib` and as ranges.
pub struct Routes {
    /// What the memories hold.
    pub fib: Fib,
    v4: Family<Prefix4>,
    v6: Family<Prefix6>,
    ranges4: Ranges,
    ranges6: Ranges,
}

impl Routes {
    /// Gives every prefix a random next hop and builds the memories, in random order.
    pub fn new(table: &Table, random: &mut ChaCha8Rng) -> Result<Self, String> {
        let mut fib = empty_fib()?;
        let v4 = Family::new(&table.v4, random);
        let v6 = Family::new(&table.v6, random);
        for at in shuffled(v4.routes.len(), random) {
            let (prefix, hop) = v4.routes[at];
            let result = fib.announce4(prefix, NextHopId(hop));
            result.map_err(|error| error.to_string())?;
        }
        for at in shuffled(v6.routes.len(), random) {
            let (prefix, hop) = v6.routes[at];
            let result = fib.announce6(prefix, NextHopId(hop));
            result.map_err(|error| error.to_string())?;
        }
        let mut routes = Self {
            fib,
            v4,
            v6,
            ranges4: Ranges::default(),
            ranges6: Ranges::default(),
        };
        routes.cut();
        Ok(routes)
    }

    /// Makes random changes and gives the writes of each to the hardware.
    pub fn churn(
        &mut self,
        changes: u32,
        random: &mut ChaCha8Rng,
        mut hardware: impl FnMut(&[Op]) -> Result<(), String>,
    ) -> Result<(), String> {
        for _ in 0..changes {
            let hop = random.random_range(1..=HOPS);
            let result = if random.random_bool(0.5) {
                match self.v4.change(hop, random) {
                    (prefix, Some(hop)) => self.fib.announce4(prefix, NextHopId(hop)),
                    (prefix, None) => self.fib.withdraw4(prefix),
                }
            } else {
                match self.v6.change(hop, random) {
                    (prefix, Some(hop)) => self.fib.announce6(prefix, NextHopId(hop)),
                    (prefix, None) => self.fib.withdraw6(prefix),
                }
            };
            hardware(result.map_err(|error| error.to_string())?)?;
        }
        self.cut();
        Ok(())
    }

    fn cut(&mut self) {
        let wide4 = |(prefix, hop): &(Prefix4, u16)| {
            (u128::from(prefix.addr()), u128::from(prefix.last()), *hop)
        };
        let wide6 = |(prefix, hop): &(Prefix6, u16)| (prefix.addr(), prefix.last(), *hop);
        self.ranges4 = Ranges::new(self.v4.routes.iter().map(wide4).collect());
        self.ranges6 = Ranges::new(self.v6.routes.iter().map(wide6).collect());
    }

    /// Routes of each family.
    pub fn count(&self) -> [usize; 2] {
        [self.v4.routes.len(), self.v6.routes.len()]
    }

    fn find4(&self, key: u32) -> (u32, Option<u16>) {
        (key, self.ranges4.find(key.into()))
    }

    fn find6(&self, key: u128) -> (u128, Option<u16>) {
        (key, self.ranges6.find(key))
    }

    /// A random address with a route to one of the first `ports` network ports.
    pub fn forwarded(&mut self, v6: bool, ports: u8, random: &mut ChaCha8Rng) -> (Address, u16) {
        loop {
            let (to, hop) = if v6 {
                let (prefix, _) = self.v6.routes[random.random_range(0..self.v6.routes.len())];
                let inside = random.random::<u128>() & (prefix.last() - prefix.addr());
                let (key, hop) = self.find6(prefix.addr() | inside);
                (Address::V6(key), hop)
            } else {
                let (prefix, _) = self.v4.routes[random.random_range(0..self.v4.routes.len())];
                let inside = random.random::<u32>() & (prefix.last() - prefix.addr());
                let (key, hop) = self.find4(prefix.addr() | inside);
                (Address::V4(key), hop)
            };
            // Tables have prefixes that no router forwards to.
            let plain = match to {
                Address::V4(key) => matches!(key >> 24, 1..=126 | 128..=168 | 170..=223),
                Address::V6(key) => key >> 125 == 1,
            };
            if let (true, Some(hop)) = (plain, hop)
                && matches!(port_of(hop), Port::Network(port) if port < ports)
            {
                return (to, hop);
            }
        }
    }

    /// Asks `count` random addresses a family.
    pub fn ask_random(
        &self,
        bench: &mut LookupBench,
        count: u32,
        random: &mut ChaCha8Rng,
    ) -> Result<(), String> {
        let keys: Vec<(u32, u128)> = (0..count)
            .map(|_| {
                // Most of IPv6 is empty: half of the keys are in the eighth that is not.
                let wide = random.random::<u128>();
                let global = wide >> 3 | 1 << 125;
                (random.random(), if wide & 1 == 0 { wide } else { global })
            })
            .collect();
        let (v4, v6) = (keys.iter().map(|key| key.0), keys.iter().map(|key| key.1));
        bench.ask(v4.map(|key| self.find4(key)), v6.map(|key| self.find6(key)))
    }

    /// Asks addresses where mistakes show: first and last of a prefix, their neighbours, and one
    /// inside. `prefixes` random ones a family, or all.
    pub fn ask_edges(
        &self,
        bench: &mut LookupBench,
        prefixes: Option<usize>,
        random: &mut ChaCha8Rng,
    ) -> Result<(), String> {
        let (chosen4, chosen6) = (
            choose(self.v4.routes.len(), prefixes, random),
            choose(self.v6.routes.len(), prefixes, random),
        );
        let inside = random.random::<u128>();
        let v4 = chosen4.iter().flat_map(|&at| {
            let (first, last) = (self.v4.routes[at].0.addr(), self.v4.routes[at].0.last());
            let inside = first | inside as u32 & (last - first);
            [
                first,
                last,
                first.wrapping_sub(1),
                last.wrapping_add(1),
                inside,
            ]
        });
        let v6 = chosen6.iter().flat_map(|&at| {
            let (first, last) = (self.v6.routes[at].0.addr(), self.v6.routes[at].0.last());
            let inside = first | inside & (last - first);
            [
                first,
                last,
                first.wrapping_sub(1),
                last.wrapping_add(1),
                inside,
            ]
        });
        bench.ask(v4.map(|key| self.find4(key)), v6.map(|key| self.find6(key)))
    }
}

/// A table without routes, with all next hops.
fn empty_fib() -> Result<Fib, String> {
    let mut fib = Fib::new(fib::Config::default()).map_err(|error| error.to_string())?;
    for hop in 1..=HOPS {
        let port = port_of(hop);
        let mac = Some([2, 0, 0, 0, (hop >> 8) as u8, hop as u8]);
        let result = fib.set_next_hop(NextHopId(hop), NextHop { port, mac });
        result.map_err(|error| error.to_string())?;
    }
    Ok(fib)
}

fn shuffled(count: usize, random: &mut ChaCha8Rng) -> Vec<usize> {
    use rand::seq::SliceRandom;
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(random);
    order
}

/// `wanted` numbers below `count`, or all.
fn choose(count: usize, wanted: Option<usize>, random: &mut ChaCha8Rng) -> Vec<usize> {
    match wanted {
        Some(wanted) => (0..wanted).map(|_| random.random_range(0..count)).collect(),
        None => (0..count).collect(),
    }
}

/// The leaf that `crates/fib` writes for a next hop is the answer that is expected.
#[cfg(test)]
#[test]
fn answers_are_leaves() {
    use fib::layout::Leaf;
    for hop in 1..=HOPS {
        let code = match port_of(hop) {
            Port::Network(port) => port,
            Port::Host => fib::layout::PORT_HOST,
            Port::Discard => fib::layout::PORT_DISCARD,
        };
        let leaf = Leaf::new(code, hop);
        assert_eq!(u32::from(leaf.next_hop()), answer(Some(hop)) & 0xFFF);
        assert_eq!(
            u32::from(leaf.port() & 15),
            answer(Some(hop)) >> PORT_BIT & 15
        );
    }
}
