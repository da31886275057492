// SPDX-License-Identifier: Apache-2.0
//! The instrument in RTL with the switch in RTL, and the switch's tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fib::layout::Memory;
use fib::synth::{Random, Table};
use fib::{Config, Fib, Image, NextHop, NextHopId, Port, Prefix4, Prefix6, Write};
use ipnuma_rtl::{NetSpeed, Rig};

use crate::registers as reg;
use crate::{
    Counts, Destinations, Drops, Error, Family, Histogram, Instrument, Line, Stream, host4, host6,
};

/// The switch with an instrument at its ports, in simulated time.
///
/// Port p is in 198.18.p.0/24 and 2001:2:0:p::/64, with the instrument as the only host there.
pub struct SwitchRig {
    rig: Rig,
    fib: Fib,
    /// What the switch's memories hold.
    written: Image,
    /// Ports that send in the next trial, with the cycles that it takes them.
    armed: Vec<(usize, u64)>,
    /// What the switch dropped in the last trial.
    drops: Vec<Drops>,
    /// It has the dissertation's lookup, which knows three next hops and the default route's.
    dissertation: bool,
}

/// What a table came to in the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Loaded {
    /// IPv4 routes, the instrument's own among them.
    pub routes4: u32,
    /// IPv6 routes.
    pub routes6: u32,
    /// Prefixes that the switch had no room for.
    pub refused: u32,
    /// Words written to the switch.
    pub words: u64,
}

/// Next hops that the routes of a table are spread over, besides the instrument's own hosts.
const TABLE_NEXT_HOPS: u16 = 1024;
/// The port that table routes never lead to: sweeps send from it.
pub const SWEEP_FROM: usize = 0;

/// MAC address of the instrument at a port.
const fn tester_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

/// MAC address of the switch at a port.
const fn switch_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, port as u8]
}

/// First byte on the wire on top.
fn mac_word(mac: [u8; 6]) -> u64 {
    mac.iter()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The next hop that is the instrument at a port.
const fn neighbour(port: usize) -> NextHopId {
    NextHopId(port as u16 + 1)
}

/// The i-th next hop of a table, and its port.
fn table_next_hop(index: u16) -> (NextHopId, usize) {
    let others = Rig::PORTS - 1;
    let port = (SWEEP_FROM + 1 + usize::from(index) % others) % Rig::PORTS;
    (NextHopId(Rig::PORTS as u16 + 1 + index), port)
}

impl SwitchRig {
    /// A switch that knows its own subnets and nothing else.
    pub fn new(speed: NetSpeed) -> Result<Self, Error> {
        Self::of(Rig::new(speed)?, Config::default())
    }

    /// The same with the lookup of the dissertation: prefixes up to /24 in an SRAM of 4 MB, IPv6 in a TCAM of 32
    /// entries. The subnet of port 0 is the default route, and a table's routes lead to the instrument at the other
    /// three, for there are no more next hops.
    pub fn dissertation(speed: NetSpeed) -> Result<Self, Error> {
        Self::of(Rig::dissertation(speed)?, Config::DISSERTATION)
    }

    fn of(rig: Rig, config: Config) -> Result<Self, Error> {
        let fib = Fib::new(config)?;
        let mut this = Self {
            written: fib.image().cleared(),
            rig,
            fib,
            armed: Vec::new(),
            drops: vec![Drops::default(); Rig::PORTS],
            dissertation: config == Config::DISSERTATION,
        };
        for port in 0..Rig::PORTS {
            let mac = [mac_word(switch_mac(port)), 0, 0];
            this.rig.write(reg::MEM_PORT, reg::port_mac(port), mac)?;
            this.set_next_hop(neighbour(port), port, tester_mac(port))?;
        }
        for index in 0..TABLE_NEXT_HOPS {
            let (id, port) = table_next_hop(index);
            let [high, low] = index.to_be_bytes();
            this.set_next_hop(id, port, [2, 0, 0, 0, 2 + high, low])?;
        }
        this.connect()?;
        this.write_tables()?;
        Ok(this)
    }

    fn set_next_hop(&mut self, id: NextHopId, port: usize, mac: [u8; 6]) -> Result<(), Error> {
        let port = Port::Network(port as u8);
        let mac = Some(mac);
        self.fib.set_next_hop(id, NextHop { port, mac })?;
        Ok(())
    }

    /// The subnets of the ports.
    fn connect(&mut self) -> Result<(), Error> {
        for port in 0..Rig::PORTS {
            let [len4, len6] = match self.dissertation && port == SWEEP_FROM {
                true => [0, 0],
                false => [24, 64],
            };
            let net4 = Prefix4::around(host4(port).into(), len4);
            let net6 = Prefix6::around(host6(port).into(), len6);
            self.fib.announce4(net4, neighbour(port))?;
            self.fib.announce6(net6, neighbour(port))?;
        }
        Ok(())
    }

    /// Adds a table's routes, spread at random over many next hops at all ports but
    /// [`SWEEP_FROM`]. Must not be called while frames are under way.
    pub fn load(&mut self, table: &Table, seed: u64) -> Result<Loaded, Error> {
        let mut random = Random::new(seed);
        let few = self.dissertation;
        let mut next_hop = || match few {
            false => table_next_hop(random.below(u64::from(TABLE_NEXT_HOPS)) as u16).0,
            true => neighbour(SWEEP_FROM + 1 + random.below(Rig::PORTS as u64 - 1) as usize),
        };
        let mut refused = 0;
        for &prefix in &table.v4 {
            refused += u32::from(self.fib.announce4(prefix, next_hop()).is_err());
        }
        for &prefix in &table.v6 {
            refused += u32::from(self.fib.announce6(prefix, next_hop()).is_err());
        }
        self.connect()?;
        Ok(Loaded {
            routes4: self.fib.routes4(),
            routes6: self.fib.routes6(),
            refused,
            words: self.write_tables()?,
        })
    }

    /// Writes every word that the switch does not have yet. No lookup is under way, so any order
    /// will do.
    fn write_tables(&mut self) -> Result<u64, Error> {
        let mut words = 0;
        for memory in Memory::ALL {
            for addr in 0..self.fib.image().depth(memory) {
                let data = self.fib.image().read(memory, addr);
                if data != self.written.read(memory, addr) {
                    self.rig.write(memory.id(), addr, data)?;
                    self.written.write(&Write { memory, addr, data });
                    words += 1;
                }
            }
        }
        self.rig.write(reg::MEM_DRAIN, 0, [0; 3])?;
        self.rest("the switch's write port", PATIENCE)?;
        Ok(words)
    }

    /// One address in each of `count` prefixes drawn from the table (all, if it has no more), with
    /// the port that its route leads to. Addresses that no router forwards are left out.
    pub fn addresses(
        &self,
        table: &Table,
        family: Family,
        count: usize,
        seed: u64,
    ) -> Vec<(IpAddr, usize)> {
        let usable: Vec<IpAddr> = match family {
            Family::V4 => table
                .v4
                .iter()
                .filter_map(|&prefix| visit4(prefix))
                .collect(),
            Family::V6 => table
                .v6
                .iter()
                .filter_map(|&prefix| visit6(prefix))
                .collect(),
        };
        let mut random = Random::new(seed);
        let drawn: Vec<IpAddr> = if usable.len() <= count {
            usable
        } else {
            let draw = |_| usable[random.below(usable.len() as u64) as usize];
            (0..count).map(draw).collect()
        };
        let port = |address: &IpAddr| {
            let id = match address {
                IpAddr::V4(address) => self.fib.lookup4((*address).into()),
                IpAddr::V6(address) => self.fib.lookup6((*address).into()),
            }?;
            let ports = Rig::PORTS as u16;
            Some(if id.0 <= ports {
                usize::from(id.0) - 1
            } else {
                table_next_hop(id.0 - ports - 1).1
            })
        };
        let route = |address: IpAddr| Some((address, port(&address)?));
        drawn
            .into_iter()
            .filter_map(route)
            .filter(|&(_, port)| port != SWEEP_FROM)
            .collect()
    }

    /// Clock cycles simulated so far.
    pub fn cycles(&self) -> u64 {
        self.rig.cycles()
    }

    /// Waits until nothing is under way.
    fn rest(&mut self, what: &'static str, patience: u64) -> Result<(), Error> {
        let start = self.rig.cycles();
        let mut quiet = 0;
        while quiet < QUIET {
            self.rig.step()?;
            quiet = if self.rig.busy() { 0 } else { quiet + 1 };
            let cycles = self.rig.cycles() - start;
            if cycles > patience {
                return Err(Error::Stuck { cycles, what });
            }
        }
        Ok(())
    }

    fn set(&mut self, port: usize, register: u16, value: u64) -> Result<(), Error> {
        Ok(self.rig.set_register(port, register, value)?)
    }

    fn set_wide(&mut self, port: usize, high: u16, value: u128) -> Result<(), Error> {
        self.set(port, high, (value >> 64) as u64)?;
        self.set(port, high + 1, value as u64)
    }

    /// The switch's own counters of drops since reset, port by port.
    fn read_drops(&mut self) -> Result<Vec<Drops>, Error> {
        let mut all = Vec::new();
        for port in 0..Rig::PORTS {
            let mut drops = Drops::default();
            for index in reg::COUNT_NOT_FORWARDED {
                drops.other += u64::from(self.rig.counter(reg::counter(port, index))?);
            }
            drops.full = u64::from(self.rig.counter(reg::counter(port, reg::COUNT_FULL))?);
            all.push(drops);
        }
        Ok(all)
    }

    /// Fails if a receiver of the instrument saw what nobody sent.
    fn check_receivers(&mut self) -> Result<(), Error> {
        for port in 0..Rig::PORTS {
            for (register, what) in reg::RX_FAULTS {
                let count = self.rig.register(port, register)?;
                if count > 0 {
                    return Err(Error::Garbage { port, count, what });
                }
            }
        }
        Ok(())
    }
}

/// Cycles without anything to do after which there is nothing on the way any more: longer than
/// the pipelines of the receivers.
const QUIET: u64 = 64;
/// Cycles that a trial may take beyond its frames: queues that drain, and a wide margin.
const PATIENCE: u64 = 1_000_000;

/// Host 1 of a prefix, as section 5.3.1 of the dissertation has it; none where routers must not
/// forward (RFC 1812 5.3.7, RFC 3927) or the instrument is itself.
fn visit4(prefix: Prefix4) -> Option<IpAddr> {
    let number = prefix.addr() | u32::from(prefix.len() < 31);
    let address = Ipv4Addr::from(number);
    let forwarded = !matches!(address.octets(), [0 | 127 | 224.., ..] | [169, 254, ..]);
    let ours = matches!(address.octets(), [198, 18 | 19, ..]);
    (forwarded && !ours).then_some(IpAddr::V4(address))
}

/// As [`visit4`]: global unicast alone.
fn visit6(prefix: Prefix6) -> Option<IpAddr> {
    let number = prefix.addr() | u128::from(prefix.len() < 127);
    let address = Ipv6Addr::from(number);
    let forwarded = number >> 125 == 1;
    let ours = address.segments()[..2] == [0x2001, 2];
    (forwarded && !ours).then_some(IpAddr::V6(address))
}

impl Instrument for SwitchRig {
    fn line(&self) -> Line {
        match self.rig.speed() {
            NetSpeed::OneGig => Line::ONE_GIG,
            NetSpeed::TenGig => Line::TEN_GIG,
        }
    }

    fn ports(&self) -> usize {
        Rig::PORTS
    }

    fn smallest(&self, family: Family) -> usize {
        match family {
            Family::V4 => 64,
            // Headers, mark, stream, number, stamp and FCS in whole words: the dissertation's size.
            Family::V6 => 80,
        }
    }

    fn most_addresses(&self) -> usize {
        reg::LIST_ENTRIES
    }

    fn configure(&mut self, stream: &Stream) -> Result<(), Error> {
        const LARGEST: usize = 9216;
        let (from, size) = (stream.from, stream.size);
        let smallest = self.smallest(stream.family);
        if !(smallest..=LARGEST).contains(&size) {
            let family = stream.family.name();
            return Err(Error::Stream(format!(
                "frames of {size} bytes can't be sent; choose {smallest} to {LARGEST} for {family}"
            )));
        }
        if stream.frames == 0 || from >= Rig::PORTS {
            return Err(Error::Stream(format!(
                "a stream of {} frames from port {from} can't be sent; there are {} ports",
                stream.frames,
                Rig::PORTS
            )));
        }
        let v6 = stream.family == Family::V6;
        self.set(from, reg::SRC_MAC, mac_word(tester_mac(from)))?;
        self.set(from, reg::DST_MAC, mac_word(switch_mac(from)))?;
        self.set(from, reg::STREAM, reg::stream(v6, from))?;
        self.set(from, reg::SIZE, size as u64)?;
        self.set(from, reg::COUNT, stream.frames)?;
        self.set(from, reg::INTERVAL, stream.spacing.0)?;
        self.set(from, reg::BURST, 1)?;
        self.set(from, reg::SWEEP, 0)?;
        let own = if v6 {
            host6(from).into()
        } else {
            u128::from(u32::from(host4(from)))
        };
        self.set_wide(from, reg::SRC_IP_HI, own)?;
        let list: Vec<u128> = match &stream.to {
            Destinations::Port(port) => {
                let to = if v6 {
                    host6(*port).into()
                } else {
                    u128::from(u32::from(host4(*port)))
                };
                self.set_wide(from, reg::DST_IP_HI, to)?;
                Vec::new()
            }
            Destinations::V4(all) => all.iter().map(|&a| u128::from(u32::from(a))).collect(),
            Destinations::V6(all) => all.iter().map(|&address| address.into()).collect(),
        };
        if list.len() > reg::LIST_ENTRIES {
            return Err(Error::Stream(format!(
                "{} addresses don't fit the instrument's list of {}",
                list.len(),
                reg::LIST_ENTRIES
            )));
        }
        self.set(from, reg::LIST, list.len() as u64)?;
        for (entry, &address) in list.iter().enumerate() {
            let (low, high) = reg::list_entry(entry);
            self.set(from, low, address as u64)?;
            self.set(from, high, (address >> 64) as u64)?;
        }
        let line = self.line();
        let bytes = stream.frames * stream.spacing.0.div_ceil(256).max(Line::wire_bytes(size));
        self.armed.push((from, bytes / line.bytes_per_cycle));
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        let before = self.read_drops()?;
        self.set(Rig::ALL_PORTS, reg::CONTROL, reg::CONTROL_CLEAR)?;
        let armed = std::mem::take(&mut self.armed);
        for &(port, _) in &armed {
            self.set(port, reg::CONTROL, reg::CONTROL_START)?;
        }
        let longest = armed.iter().map(|&(_, cycles)| cycles).max().unwrap_or(0);
        self.rest("the switch or a sender", longest + PATIENCE)?;
        self.check_receivers()?;
        let now = self.read_drops()?;
        let since = |(now, before): (&Drops, &Drops)| Drops {
            full: now.full - before.full,
            other: now.other - before.other,
        };
        self.drops = now.iter().zip(&before).map(since).collect();
        Ok(())
    }

    fn sent(&mut self, from: usize) -> Result<u64, Error> {
        Ok(self.rig.register(from, reg::TX_FRAMES)?)
    }

    fn counts(&mut self, from: usize, to: usize) -> Result<Counts, Error> {
        let mut read = |offset: u16| self.rig.register(to, reg::stream_result(from, offset));
        let frames = read(reg::RX_FRAMES)?;
        if frames == 0 {
            return Ok(Counts::default());
        }
        Ok(Counts {
            frames,
            first: read(reg::RX_FIRST)?,
            last: read(reg::RX_LAST)?,
            latency_min: read(reg::LATENCY_MIN)?,
            latency_max: read(reg::LATENCY_MAX)?,
            latency_sum: read(reg::LATENCY_SUM)?,
            duplicates: read(reg::DUPLICATES)? + read(reg::STALE)?,
            reordered: read(reg::REORDERED)?,
            damaged: read(reg::PAYLOAD_ERRORS)?,
        })
    }

    fn histogram(&mut self, to: usize) -> Result<Histogram, Error> {
        let mut bins = Vec::new();
        for bin in 0..reg::HISTOGRAM_BINS {
            bins.push(self.rig.register(to, reg::HISTOGRAM + bin)?);
        }
        let below = self.rig.register(to, reg::HISTOGRAM_BELOW)?;
        let above = self.rig.register(to, reg::HISTOGRAM_ABOVE)?;
        Ok(Histogram {
            base: self.rig.register(to, reg::HISTOGRAM_BASE)? & !reg::HISTOGRAM_AUTO,
            bins,
            outside: below + above,
        })
    }

    fn drops(&mut self, port: usize) -> Result<Drops, Error> {
        Ok(self.drops[port])
    }
}
