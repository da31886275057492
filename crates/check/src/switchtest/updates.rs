// SPDX-License-Identifier: Apache-2.0
//! Routes change while all ports forward at line rate: every frame follows a route that was in force
//! while it was looked up, none is lost, and none is late by a byte.
//!
//! What comes in at a port has destinations of its own, whose routes lead to the next port: outputs
//! do not contend, and which route was followed shows in the MAC address of the next hop. A second
//! switch gets the same frames and no changes, and both send at the same times; with frames of one
//! size a constant for each port and lane does.

use std::collections::VecDeque;

use fib::{Error, Fib, NextHop, NextHopId, Port, Prefix4, Prefix6};
use ipnuma_rtl::{NetSpeed, Switch, SwitchSize};
use model::switch::{SwitchConfig, SwitchModel};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::switchtest::drive::Drive;
use crate::switchtest::flow::{self, Address};
use crate::switchtest::world::{fib_config, words};

const PORTS: usize = Switch::PORTS;
/// Next hops of each port.
const HOPS: u16 = 1000;
/// Destinations of each port and family.
const POOL: usize = 16;
/// Edges from a word's being taken until all memories have it.
const WRITE_EDGES: u64 = 4;
/// Longest time from the first byte of a frame to the end of its lookup, cycles.
const LOOKUP_CYCLES: u64 = 40;
/// Cycles in which the transmitters settle into their rhythm of gaps.
const WARM_CYCLES: u64 = 300;
/// Bytes on a line below which it gets another frame.
const BACKLOG: usize = 32;
/// Idle bytes that make a gap of 12 with the terminate at 10G.
const IDLE: usize = 11;

/// What the ports carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// IPv4 in the smallest frames.
    Smallest,
    /// Both families, many sizes.
    Mixed,
}

/// Which route an address follows, and since when.
#[derive(Clone, Copy, Debug)]
struct Version {
    hop: u16,
    /// First and last cycle in which a lookup may find it.
    from: u64,
    to: u64,
}

/// A destination.
#[derive(Clone, Debug)]
struct Target {
    to: Address,
    versions: VecDeque<Version>,
}

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    target: usize,
    size: usize,
    number: u32,
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Changes done.
    pub changes: u64,
    /// Changes that a full table refused.
    pub refused: u64,
    /// Frames that were forwarded.
    pub frames: u64,
    /// Of those, frames whose lookup saw a route change.
    pub between: u64,
    /// Clock cycles.
    pub cycles: u64,
    /// Words written by each change.
    pub words: Vec<u32>,
    /// Latencies in bytes of the line's time, least and most.
    pub latency: [u64; 2],
}

impl Totals {
    /// Words of the change that so many of a thousand do not exceed.
    pub fn quantile(&self, per_mille: usize) -> u32 {
        let mut sorted = self.words.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * per_mille).div_ceil(1000).max(1) - 1;
        sorted.get(at).copied().unwrap_or(0)
    }

    /// Words of a change.
    pub fn mean(&self) -> f64 {
        let sum: u64 = self.words.iter().map(|&words| u64::from(words)).sum();
        sum as f64 / self.words.len().max(1) as f64
    }
}

/// First address of the destinations of a port, and the length that they have in common.
fn block4(port: usize) -> Prefix4 {
    Prefix4::around((4 + 4 * port as u32) << 24, 6)
}

fn block6(port: usize) -> Prefix6 {
    Prefix6::around((0x24 + port as u128) << 120, 8)
}

fn random_hop(port: usize, rng: &mut ChaCha8Rng) -> u16 {
    let out = (port + 1) % PORTS;
    out as u16 * HOPS + rng.random_range(1..=HOPS)
}

/// The switch under test, its routes, and a switch whose routes stay.
pub struct Bench {
    drive: Drive,
    still: Option<Drive>,
    fib: Fib,
    /// A longest-prefix match that shares nothing with `fib`.
    routes: SwitchModel,
    targets: Vec<Vec<Target>>,
    traffic: Traffic,
    /// Changes.
    rng: ChaCha8Rng,
    /// Frames.
    frame_rng: ChaCha8Rng,
    sent: [VecDeque<Sent>; PORTS],
    number: u32,
    lane_4: [bool; PORTS],
    /// The cycle from which on latencies must not change, and those of each port and lane.
    warm: u64,
    rhythm: [[Option<u64>; 2]; PORTS],
    /// Changed targets of a port while the words of a change are written.
    pending: Option<(usize, Vec<usize>)>,
    totals: Totals,
}

impl Bench {
    /// A switch with a route for each port's destinations.
    pub fn new(traffic: Traffic, seed: u64) -> Result<Self, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let frame_rng = ChaCha8Rng::seed_from_u64(rng.random());
        let (speed, size) = (NetSpeed::TenGig, SwitchSize::Small);
        let mut drives = vec![Drive::new(speed, size)?];
        if traffic == Traffic::Mixed {
            drives.push(Drive::new(speed, size)?);
        }
        let mut fib = Fib::new(fib_config(size)).map_err(|error| error.to_string())?;
        let mut routes = SwitchModel::new(SwitchConfig::default());
        let mut list = Vec::new();
        for id in 1..PORTS as u16 * HOPS + 1 {
            let hop = NextHop {
                port: Port::Network(((id - 1) / HOPS) as u8),
                mac: Some(flow::hop_mac(id)),
            };
            let ops = fib.set_next_hop(NextHopId(id), hop);
            list.extend(words(ops.map_err(|error| error.to_string())?));
        }
        let mut targets = Vec::new();
        for port in 0..PORTS {
            let hop = random_hop(port, &mut rng);
            let (v4, v6) = (block4(port), block6(port));
            let ops = fib.announce4(v4, NextHopId(hop));
            list.extend(words(ops.map_err(|error| error.to_string())?));
            let ops = fib.announce6(v6, NextHopId(hop));
            list.extend(words(ops.map_err(|error| error.to_string())?));
            routes.set_route4(v4.addr(), v4.len(), Some(hop));
            routes.set_route6(v6.addr(), v6.len(), Some(hop));
            let pool = (0..2 * POOL).map(|at| {
                let to = if at < POOL {
                    Address::V4(v4.addr() | rng.random::<u32>() & (v4.last() - v4.addr()))
                } else {
                    Address::V6(v6.addr() | rng.random::<u128>() & (v6.last() - v6.addr()))
                };
                let version = Version {
                    hop,
                    from: 0,
                    to: u64::MAX,
                };
                Target {
                    to,
                    versions: VecDeque::from([version]),
                }
            });
            targets.push(pool.collect());
        }
        for drive in &mut drives {
            drive.writes.extend(list.iter().copied());
            drive.finish_writes()?;
        }
        let mut drives = drives.into_iter();
        let drive = drives.next().ok_or("no switch")?;
        Ok(Self {
            warm: drive.cycles() + WARM_CYCLES,
            rhythm: Default::default(),
            drive,
            still: drives.next(),
            fib,
            routes,
            targets,
            traffic,
            rng,
            frame_rng,
            sent: Default::default(),
            number: 0,
            lane_4: [false; PORTS],
            pending: None,
            totals: Totals {
                latency: [u64::MAX, 0],
                ..Totals::default()
            },
        })
    }

    /// Counts so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Plays traffic until so many changes were made.
    pub fn run(&mut self, changes: u64) -> Result<(), String> {
        while self.totals.changes < changes || self.pending.is_some() {
            self.feed();
            if self.pending.is_none() && self.drive.cycles() > self.warm {
                self.change()?;
            }
            self.cycle()?;
        }
        while self.sent.iter().any(|sent| !sent.is_empty()) {
            self.cycle()?;
        }
        for port in 0..PORTS {
            let full = self.drive.counter(port, 18)?;
            if full != 0 {
                return Err(format!("port {port} found no room for {full} frames"));
            }
        }
        self.totals.cycles = self.drive.cycles();
        Ok(())
    }

    fn feed(&mut self) {
        for port in 0..PORTS {
            while self.drive.backlog(port) < BACKLOG {
                let rng = &mut self.frame_rng;
                let smallest = self.traffic == Traffic::Smallest;
                let target = rng.random_range(0..if smallest { POOL } else { 2 * POOL });
                let to = self.targets[port][target].to;
                let size = match rng.random_range(0..20) {
                    _ if smallest => to.shortest(),
                    0..12 => to.shortest(),
                    12..19 => rng.random_range(to.shortest()..=200),
                    _ => rng.random_range(200..=1518),
                };
                self.number += 1;
                let sent = Sent {
                    target,
                    size,
                    number: self.number,
                };
                let bytes = flow::sent(port, to, size, sent.number);
                // 84 bytes from start to start: every other in lane 4.
                let lane_4 = self.lane_4[port];
                self.lane_4[port] = !lane_4;
                for drive in [Some(&mut self.drive), self.still.as_mut()]
                    .into_iter()
                    .flatten()
                {
                    drive.send(port, bytes.clone(), IDLE, lane_4);
                }
                self.sent[port].push_back(sent);
            }
        }
    }

    /// Announces or withdraws a random route around a destination; the table may be full.
    fn change(&mut self) -> Result<(), String> {
        let port = self.rng.random_range(0..PORTS);
        let at = self.rng.random_range(0..2 * POOL);
        let hop = random_hop(port, &mut self.rng);
        let again = self.rng.random_bool(0.3);
        let result = match self.targets[port][at].to {
            Address::V4(to) => {
                // Short prefixes are many words.
                let shortest = if self.rng.random_bool(0.01) { 7 } else { 15 };
                let prefix = Prefix4::around(to, self.rng.random_range(shortest..=32));
                let there = self.fib.get4(prefix).is_some();
                let hop = (!there || again).then_some(hop);
                let result = match hop {
                    Some(hop) => self.fib.announce4(prefix, NextHopId(hop)),
                    None => self.fib.withdraw4(prefix),
                };
                if result.is_ok() {
                    self.routes.set_route4(prefix.addr(), prefix.len(), hop);
                }
                result
            }
            Address::V6(to) => {
                // Few fit between /65 and /127.
                let len = match self.rng.random_range(0..40) {
                    0 => self.rng.random_range(65..=127),
                    1..4 => 128,
                    4 => self.rng.random_range(9..=64),
                    _ => self.rng.random_range(19..=64),
                };
                let prefix = Prefix6::around(to, len);
                let there = self.fib.get6(prefix).is_some();
                let hop = (!there || again).then_some(hop);
                let result = match hop {
                    Some(hop) => self.fib.announce6(prefix, NextHopId(hop)),
                    None => self.fib.withdraw6(prefix),
                };
                if result.is_ok() {
                    self.routes.set_route6(prefix.addr(), prefix.len(), hop);
                }
                result
            }
        };
        let ops = match result {
            Ok(ops) => ops,
            Err(Error::Full { .. } | Error::TcamFull { .. } | Error::HostTableFull { .. }) => {
                self.totals.refused += 1;
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        let count = ops
            .iter()
            .filter(|op| matches!(op, fib::Op::Write(_)))
            .count();
        self.totals.words.push(count as u32);
        self.totals.changes += 1;
        self.drive.writes.extend(words(ops));
        let now = self.drive.cycles();
        let mut changed = Vec::new();
        for (index, target) in self.targets[port].iter_mut().enumerate() {
            let hop = match target.to {
                Address::V4(to) => self.routes.lookup4(to),
                Address::V6(to) => self.routes.lookup6(to),
            };
            let hop = hop.ok_or("a destination has lost its route")?;
            if target
                .versions
                .back()
                .is_some_and(|version| version.hop != hop)
            {
                target.versions.push_back(Version {
                    hop,
                    from: now,
                    to: u64::MAX,
                });
                changed.push(index);
            }
        }
        self.pending = Some((port, changed));
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), String> {
        let now = self.drive.cycles();
        let cycle = self.drive.cycle()?;
        if let Some(still) = &mut self.still {
            let other = still.cycle()?;
            let times = |frames: &[(usize, crate::switchtest::line::WireFrame)]| -> Vec<(usize, u64, usize)> {
                let times = frames
                    .iter()
                    .map(|(port, frame)| (*port, frame.start, frame.bytes.len()));
                times.collect()
            };
            let offset = still.cycles().abs_diff(self.drive.cycles());
            if offset != 0 {
                return Err("the two switches are not in step".into());
            }
            if times(&cycle.frames) != times(&other.frames) {
                return Err(format!(
                    "cycle {now}: frames end (port, start, bytes) {:?}, and {:?} without changes",
                    times(&cycle.frames),
                    times(&other.frames)
                ));
            }
            for entered in &mut still.entered {
                entered.clear();
            }
        }
        if self.drive.writes.is_empty()
            && let Some((port, changed)) = self.pending.take()
        {
            for at in changed {
                let versions = &mut self.targets[port][at].versions;
                let old = versions.len() - 2;
                versions[old].to = now + WRITE_EDGES;
            }
        }
        for (out, frame) in cycle.frames {
            self.check(out, &frame.bytes, frame.start, frame.spoiled)?;
        }
        Ok(())
    }

    fn check(&mut self, out: usize, bytes: &[u8], start: u64, spoiled: bool) -> Result<(), String> {
        let port = (out + PORTS - 1) % PORTS;
        let (Some(sent), Some(entered)) = (
            self.sent[port].pop_front(),
            self.drive.entered[port].pop_front(),
        ) else {
            return Err(format!("port {out} sent a frame too many: {bytes:02x?}"));
        };
        let target = &mut self.targets[port][sent.target];
        let expected = flow::forwarded(out, target.to, sent.size, sent.number);
        if spoiled || bytes[6..] != expected {
            return Err(format!(
                "port {out}, spoiled {spoiled}: {bytes:02x?} instead of {expected:02x?}"
            ));
        }
        // Bytes to cycles; a lookup happens between the first byte in and the first byte out.
        let width = self.drive.bytes_a_cycle();
        let (first, last) = (entered / width, start / width);
        if last - first > LOOKUP_CYCLES && self.traffic == Traffic::Smallest {
            return Err(format!(
                "frame {} took {} cycles",
                sent.number,
                last - first
            ));
        }
        while target
            .versions
            .front()
            .is_some_and(|version| version.to < first)
        {
            target.versions.pop_front();
        }
        let hop = flow::hop_of(bytes);
        let mut allowed = target
            .versions
            .iter()
            .filter(|version| version.from <= last);
        if !allowed.clone().any(|version| Some(version.hop) == hop) {
            return Err(format!(
                "frame {} to {:x?}, in from cycle {first} to {last}, went to next hop {hop:?}, \
                 where these were in force: {:?}",
                sent.number, target.to, target.versions
            ));
        }
        self.totals.between += u64::from(allowed.nth(1).is_some());
        self.totals.frames += 1;
        let latency = start + width - entered;
        let [least, most] = &mut self.totals.latency;
        (*least, *most) = ((*least).min(latency), (*most).max(latency));
        // Starts of the smallest frames alternate between the lanes on both sides, for ever.
        if self.traffic == Traffic::Smallest && self.drive.cycles() > self.warm {
            let lane = usize::from(entered % width != 0);
            let constant = *self.rhythm[port][lane].get_or_insert(latency);
            if latency != constant {
                return Err(format!(
                    "frame {} took {latency} bytes of time, and those before it {constant}",
                    sent.number
                ));
            }
        }
        Ok(())
    }
}
