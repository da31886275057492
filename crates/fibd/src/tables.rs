// SPDX-License-Identifier: Apache-2.0
//! What is wanted, in the tables of the switch: next hops, routes, and what to do when there is no more room.
//!
//! A prefix for which the tables have no room is *spilled*: its packets go by the host port. In hardware they meet the
//! next shorter route, so that one is *demoted*: it leads to the host port, too, for as long as there is something spilled
//! below it. So nothing is ever forwarded by a route that is not the longest.
//!
//! To take a route out always works: where even that needs more room than there is, the tables *shed* all that lies around
//! it, which leads to the host then ([`Fib`] says how).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::ops::Range;

use fib::layout::{self, Memory};
use fib::{Fib, NextHop, NextHopId, Op, Port};
use thiserror::Error;

use crate::counters::Counters;
use crate::net::{Net, Table};
use crate::sink::Sink;
use crate::state::Target;

/// Next hop of routes to the host.
pub const HOST: NextHopId = NextHopId(1);
/// Next hop of routes to nowhere.
pub const DISCARD: NextHopId = NextHopId(2);
const FIRST: u16 = 3;
const LAST: u16 = 4095;
/// How many spilled prefixes are tried again at once.
const RETRIES: usize = 64;

/// Why the tables can't be kept.
#[derive(Debug, Error)]
pub enum Error {
    /// A change that can't be.
    #[error("the tables refuse a change: {0}")]
    Fib(#[from] fib::Error),
    /// The way to the switch.
    #[error("the switch does not take what is written to it: {0}")]
    Sink(#[from] io::Error),
}

#[derive(Clone, Copy, Debug)]
struct Hop {
    port: u8,
    address: IpAddr,
    routes: u32,
}

/// The tables, and the switch that has them.
pub struct Tables {
    fib: Fib,
    sink: Box<dyn Sink>,
    hops: Vec<Option<Hop>>,
    ids: HashMap<(u8, IpAddr), u16>,
    /// The one that is free for the longest time first: frames may still be under way with it.
    free: VecDeque<u16>,
    /// Next hops that may have no route any more.
    idle: Vec<u16>,
    /// Neighbours that have a next hop since a short time.
    fresh: Vec<(u8, IpAddr)>,
    /// With the route in hardware that takes their packets.
    spilled: BTreeMap<Net, Option<Net>>,
    /// How many spilled prefixes each has.
    demoted: HashMap<Net, u32>,
    /// Prefixes to be set again.
    again: Vec<Net>,
    /// Whether room may have become free.
    freed: bool,
    /// The spilled prefix that was tried last.
    tried: Option<Net>,
}

fn full(error: &fib::Error) -> bool {
    matches!(
        error,
        fib::Error::Full { .. }
            | fib::Error::HostTableFull { .. }
            | fib::Error::TcamFull { .. }
            | fib::Error::TcamTooLong { .. }
            | fib::Error::Sram22TooLong { .. }
            | fib::Error::Sram22NextHops { .. }
    )
}

impl Tables {
    /// Empty tables; `sink` makes the switch that has them.
    ///
    /// # Errors
    /// If the configuration can't be, or the switch does not take the first words.
    pub fn new(
        config: fib::Config,
        sink: impl FnOnce(&fib::Image) -> io::Result<Box<dyn Sink>>,
    ) -> Result<Self, Error> {
        let fib = Fib::new(config)?;
        let sink = sink(fib.image())?;
        let mut tables = Self {
            fib,
            sink,
            hops: vec![None; usize::from(LAST) + 1],
            ids: HashMap::new(),
            free: (FIRST..=LAST).collect(),
            idle: Vec::new(),
            fresh: Vec::new(),
            spilled: BTreeMap::new(),
            demoted: HashMap::new(),
            again: Vec::new(),
            freed: false,
            tried: None,
        };
        for (id, port) in [(HOST, Port::Host), (DISCARD, Port::Discard)] {
            let ops = tables.fib.set_next_hop(id, NextHop { port, mac: None })?;
            tables.sink.apply(ops)?;
        }
        Ok(tables)
    }

    /// The routes in hardware.
    pub const fn fib(&self) -> &Fib {
        &self.fib
    }

    /// What is in the switch, if it can be read.
    pub fn hardware(&mut self) -> Option<&fib::Image> {
        self.sink.image()
    }

    /// The image, and what is in the switch, of which only these words are those of now.
    pub fn images(
        &mut self,
        memory: Memory,
        words: Range<u32>,
    ) -> (&fib::Image, Option<&fib::Image>) {
        (self.fib.image(), self.sink.part(memory, words))
    }

    /// Prefixes that go by the host port since there is no room.
    pub fn spilled(&self) -> usize {
        self.spilled.len()
    }

    /// Words of the tables that lead to the host since there is no room for what is to be in them.
    pub fn shed(&self) -> usize {
        self.fib.shed()
    }

    /// Whether an address lies in such a word.
    pub fn is_shed(&self, address: IpAddr) -> bool {
        let found = match address {
            IpAddr::V4(address) => self.fib.lookup4(address.into()),
            IpAddr::V6(address) => self.fib.lookup6(address.into()),
        };
        found == Some(NextHopId::SHED)
    }

    /// Whether a prefix goes by the host port since there is no room, for itself, for one below it, or for what lies around
    /// one of its ends.
    pub fn by_host(&self, net: Net) -> bool {
        self.spilled.contains_key(&net)
            || self.demoted.contains_key(&net)
            || self.is_shed(net.first())
            || self.is_shed(net.last())
    }

    /// Neighbours with a next hop.
    pub fn hop_count(&self) -> usize {
        self.ids.len()
    }

    /// Whether a neighbour has a next hop.
    pub fn has_hop(&self, port: u8, address: IpAddr) -> bool {
        self.ids.contains_key(&(port, address))
    }

    /// All next hops that are neighbours.
    pub fn neighbours(&self) -> Vec<(u16, u8, IpAddr)> {
        let all = self.ids.iter();
        all.map(|(&(port, address), &id)| (id, port, address))
            .collect()
    }

    /// What a next hop is.
    pub fn meaning(&self, id: NextHopId) -> Option<Target> {
        match id {
            HOST | NextHopId::SHED => Some(Target::Host),
            DISCARD => Some(Target::Discard),
            NextHopId(id) => self.hops[usize::from(id)].map(|hop| Target::Neighbour {
                port: hop.port,
                address: hop.address,
            }),
        }
    }

    /// Neighbours that got a next hop since this was last asked.
    pub fn fresh(&mut self) -> Vec<(u8, IpAddr)> {
        std::mem::take(&mut self.fresh)
    }

    fn get(&self, net: Net) -> Option<NextHopId> {
        match net.table() {
            Table::V4(prefix) => self.fib.get4(prefix),
            Table::V6(prefix) => self.fib.get6(prefix),
        }
    }

    /// The next hop of a target; the host's if all are taken.
    fn id(
        &mut self,
        target: Target,
        mac: impl FnOnce(u8, IpAddr) -> Option<[u8; 6]>,
        counters: &mut Counters,
    ) -> Result<NextHopId, Error> {
        let (port, address) = match target {
            Target::Host => return Ok(HOST),
            Target::Discard => return Ok(DISCARD),
            Target::Neighbour { port, address } => (port, address),
        };
        if let Some(&id) = self.ids.get(&(port, address)) {
            return Ok(NextHopId(id));
        }
        let Some(id) = self.free.pop_front() else {
            counters.hops_full += 1;
            return Ok(HOST);
        };
        self.hops[usize::from(id)] = Some(Hop {
            port,
            address,
            routes: 0,
        });
        self.ids.insert((port, address), id);
        self.idle.push(id);
        self.fresh.push((port, address));
        self.write_hop(id, port, mac(port, address), counters)?;
        Ok(NextHopId(id))
    }

    fn write_hop(
        &mut self,
        id: u16,
        port: u8,
        mac: Option<[u8; 6]>,
        counters: &mut Counters,
    ) -> Result<(), Error> {
        let port = Port::Network(port);
        let ops = self
            .fib
            .set_next_hop(NextHopId(id), NextHop { port, mac })?;
        counters.hop_changes += 1;
        counters.words += ops.len() as u64;
        self.sink.apply(ops)?;
        Ok(())
    }

    /// A neighbour's MAC address is another, or not known any more.
    ///
    /// # Errors
    /// If the switch does not take it.
    pub fn set_mac(
        &mut self,
        port: u8,
        address: IpAddr,
        mac: Option<[u8; 6]>,
        counters: &mut Counters,
    ) -> Result<(), Error> {
        match self.ids.get(&(port, address)) {
            Some(&id) => self.write_hop(id, port, mac, counters),
            None => Ok(()),
        }
    }

    /// The MAC address that a next hop has in the tables.
    pub fn mac(&self, id: u16) -> Option<[u8; 6]> {
        let word = self.fib.image().read(Memory::NextHop, id.into());
        let mac = layout::NEXT_HOP_MAC.get(&word).to_be_bytes();
        let is_known = layout::NEXT_HOP_RESOLVED.get(&word) != 0;
        is_known.then(|| mac[2..].try_into().ok()).flatten()
    }

    /// Gives each next hop the MAC address that it is to have, and counts those that had another.
    ///
    /// # Errors
    /// If the switch does not take it.
    pub fn heal(
        &mut self,
        mac: impl Fn(u8, IpAddr) -> Option<[u8; 6]>,
        counters: &mut Counters,
    ) -> Result<(), Error> {
        for (id, port, address) in self.neighbours() {
            let right = mac(port, address);
            if self.mac(id) != right {
                counters.healed += 1;
                self.write_hop(id, port, right, counters)?;
            }
        }
        Ok(())
    }

    /// Puts a route into hardware, or takes it out, for which there always is room; says whether there was.
    fn write(
        &mut self,
        net: Net,
        id: Option<NextHopId>,
        counters: &mut Counters,
    ) -> Result<bool, Error> {
        let old = self.get(net);
        if old == id {
            return Ok(true);
        }
        let result = match (net.table(), id) {
            (Table::V4(prefix), Some(id)) => self.fib.announce4(prefix, id),
            (Table::V6(prefix), Some(id)) => self.fib.announce6(prefix, id),
            (Table::V4(prefix), None) => self.fib.withdraw4(prefix),
            (Table::V6(prefix), None) => self.fib.withdraw6(prefix),
        };
        match result {
            Ok(ops) => {
                counters.route_changes += 1;
                counters.words += ops.iter().filter(|op| matches!(op, Op::Write(_))).count() as u64;
                self.sink.apply(ops)?;
            }
            Err(error) if id.is_some() && full(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.freed |= id.is_none();
        if let Some(hop) = id.and_then(|id| self.hops[usize::from(id.0)].as_mut()) {
            hop.routes += 1;
        }
        if let Some(old) = old
            && let Some(hop) = self.hops[usize::from(old.0)].as_mut()
        {
            hop.routes -= 1;
            if hop.routes == 0 {
                self.idle.push(old.0);
            }
        }
        Ok(true)
    }

    /// Makes a prefix lead where it is wanted.
    ///
    /// # Errors
    /// If the switch does not take it.
    pub fn set(
        &mut self,
        net: Net,
        want: Option<Target>,
        mac: impl FnOnce(u8, IpAddr) -> Option<[u8; 6]>,
        counters: &mut Counters,
    ) -> Result<(), Error> {
        let Some(target) = want else {
            if let Some(by) = self.spilled.remove(&net) {
                self.unbind(by);
            }
            return self.take_out(net, counters);
        };
        let below = self.below(net);
        // Packets of what is spilled below must not be forwarded from here.
        let id = match below.is_empty() {
            true => self.id(target, mac, counters)?,
            false => HOST,
        };
        if !self.write(net, Some(id), counters)? {
            if !self.spilled.contains_key(&net) {
                counters.spilled += 1;
                self.spill(net, counters)?;
            }
            return Ok(());
        }
        for spilled in below {
            self.bind(spilled, Some(net));
        }
        if let Some(by) = self.spilled.remove(&net) {
            counters.unspilled += 1;
            self.unbind(by);
        }
        Ok(())
    }

    /// The nearest shorter route in hardware.
    fn ancestor(&self, net: Net) -> Option<Net> {
        net.ancestors().find(|around| self.get(*around).is_some())
    }

    /// The spilled prefixes whose packets this one takes, or would take if it were in hardware.
    fn below(&self, net: Net) -> Vec<Net> {
        if self.spilled.is_empty() {
            return Vec::new();
        }
        let range = net..=net.last_host();
        let inside = self.spilled.range(range).filter(|(spilled, by)| {
            let nearer = by.is_some_and(|by| by.len() > net.len());
            **spilled != net && net.covers(**spilled) && !nearer
        });
        inside.map(|(spilled, _)| *spilled).collect()
    }

    fn unbind(&mut self, by: Option<Net>) {
        let Some(by) = by else { return };
        if let Some(count) = self.demoted.get_mut(&by) {
            *count -= 1;
            if *count == 0 {
                self.demoted.remove(&by);
                self.again.push(by);
            }
        }
    }

    /// A spilled prefix's packets are taken by another route now, which leads to the host already.
    fn bind(&mut self, spilled: Net, by: Option<Net>) {
        let Some(old) = self.spilled.insert(spilled, by) else {
            return;
        };
        if let Some(by) = by {
            *self.demoted.entry(by).or_default() += 1;
        }
        self.unbind(old);
    }

    /// Makes the nearest shorter route lead to the host; returns it.
    fn demote(&mut self, net: Net, counters: &mut Counters) -> Result<Option<Net>, Error> {
        while let Some(around) = self.ancestor(net) {
            if self.write(around, Some(HOST), counters)? {
                return Ok(Some(around));
            }
            // There is no room even for that: the shorter route is spilled as well.
            counters.spilled += 1;
            self.spill(around, counters)?;
        }
        Ok(None)
    }

    fn spill(&mut self, net: Net, counters: &mut Counters) -> Result<(), Error> {
        let by = self.demote(net, counters)?;
        self.take_out(net, counters)?;
        if let Some(by) = by {
            *self.demoted.entry(by).or_default() += 1;
        }
        self.spilled.insert(net, by);
        Ok(())
    }

    /// Takes a route out of hardware, after the one that then takes the packets of what is spilled below it leads to the
    /// host.
    fn take_out(&mut self, net: Net, counters: &mut Counters) -> Result<(), Error> {
        if self.get(net).is_none() {
            return Ok(());
        }
        let below = self.below(net);
        if !below.is_empty() {
            let by = self.demote(net, counters)?;
            for spilled in below {
                self.bind(spilled, by);
            }
        }
        self.write(net, None, counters)?;
        Ok(())
    }

    /// Prefixes that are to be set once more: what is no longer demoted, and some of what is spilled if room has become
    /// free.
    pub fn again(&mut self) -> Vec<Net> {
        let mut again = std::mem::take(&mut self.again);
        if std::mem::take(&mut self.freed) && !self.spilled.is_empty() {
            let after = self.tried.unwrap_or(Net::default_of(false));
            let next = self
                .spilled
                .range(after..)
                .chain(self.spilled.range(..after));
            let next: Vec<Net> = next.map(|(net, _)| *net).take(RETRIES).collect();
            self.tried = next.last().copied();
            again.extend(next);
        }
        again
    }

    /// Removes next hops that no route needs any more.
    ///
    /// # Errors
    /// If the switch does not take it.
    pub fn tidy(&mut self, counters: &mut Counters) -> Result<(), Error> {
        for id in std::mem::take(&mut self.idle) {
            let place = &mut self.hops[usize::from(id)];
            let Some(hop) = place.filter(|hop| hop.routes == 0) else {
                continue;
            };
            *place = None;
            self.ids.remove(&(hop.port, hop.address));
            self.free.push_back(id);
            // Frames that found a route before it went must not meet the next hop of another neighbour.
            self.sink.apply(&[Op::Drain])?;
            let ops = self.fib.remove_next_hop(NextHopId(id))?;
            counters.hop_changes += 1;
            self.sink.apply(ops)?;
        }
        Ok(())
    }
}
