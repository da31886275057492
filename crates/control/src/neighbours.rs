// SPDX-License-Identifier: Apache-2.0
//! Neighbours of both families: resolved on demand, kept resolved by asking again (RFC 826, RFC
//! 1122 section 2.3.2, RFC 4861 section 7.3).
//!
//! Who sends to addresses that nobody has must not keep others from being resolved (RFC 6583): each
//! port has its own share of neighbours, in which the oldest without a MAC address gives way, and
//! packets of one port of arrival start so many questions a second.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fib::NextHopId;

use crate::action::Action;
use crate::address::{Mac, Subnet, is_link_local6};
use crate::icmp::Reason;
use crate::plane::Control;

/// A neighbour: link-local addresses are the same on all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub port: u8,
    pub address: IpAddr,
}

impl Key {
    /// The route to this neighbour alone; none for link-local addresses, which are not routed.
    fn host_route(self) -> Option<Subnet> {
        let len = match self.address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(address) if is_link_local6(address) => return None,
            IpAddr::V6(_) => 128,
        };
        let address = self.address;
        Some(Subnet { address, len })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A gateway that nobody asked for yet.
    Idle,
    /// Asked for, no answer yet.
    Incomplete,
    Reachable,
    /// Known, and asked again.
    Probe,
    /// Did not answer; packets to it are refused for a while.
    Failed,
}

/// A packet that waits for a neighbour, or goes to one.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// From the IP header on; of a transit packet as it came, before its TTL is decremented.
    pub bytes: Vec<u8>,
    /// Port of arrival of a transit packet.
    pub transit: Option<u8>,
}

#[derive(Clone, Debug)]
struct Entry {
    state: State,
    mac: Option<Mac>,
    /// Its next hop in the tables, when it has one.
    hop: Option<NextHopId>,
    /// It has a route of its own in the tables.
    routed: bool,
    /// Routes lead to it: its next hop stays.
    gateway: bool,
    /// Known from the start, for ever.
    fixed: bool,
    held: Option<Packet>,
    tries: u8,
    deadline: Option<u64>,
    /// Its number, in the order in which they came.
    born: u64,
}

impl Entry {
    /// It counts in its port's share.
    fn dynamic(&self) -> bool {
        !self.gateway && !self.fixed
    }

    fn new(state: State) -> Self {
        Self {
            state,
            mac: None,
            hop: None,
            routed: false,
            gateway: false,
            fixed: false,
            held: None,
            tries: 0,
            deadline: None,
            born: 0,
        }
    }
}

/// What is taken of a port's share, by neighbours that are neither gateways nor fixed.
#[derive(Clone, Debug, Default)]
struct Share {
    taken: usize,
    /// Those without a MAC address, the oldest first.
    unresolved: BTreeSet<(u64, Key)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    entries: BTreeMap<Key, Entry>,
    deadlines: BTreeSet<(u64, Key)>,
    shares: BTreeMap<u8, Share>,
    born: u64,
}

impl Neighbours {
    /// When something is to be done next.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Those whose MAC address is known.
    pub fn resolved(&self) -> impl Iterator<Item = (u8, IpAddr, Mac)> {
        self.entries
            .iter()
            .filter_map(|(key, entry)| Some((key.port, key.address, entry.mac?)))
    }

    /// Whether it was asked for or has talked to us: what it says of itself is of interest.
    pub fn known(&self, key: Key) -> bool {
        let entry = self.entries.get(&key);
        entry.is_some_and(|entry| entry.state != State::Idle)
    }

    /// The MAC address, while it is believed.
    pub fn mac(&self, key: Key) -> Option<Mac> {
        self.entries.get(&key)?.mac
    }

    /// Enters one that is not there yet.
    fn insert(&mut self, key: Key) {
        self.born += 1;
        let born = self.born;
        let entry = Entry::new(State::Idle);
        self.entries.insert(key, Entry { born, ..entry });
        self.count(key);
    }

    /// Counts it in its port's share.
    fn count(&mut self, key: Key) {
        if let Some(entry) = self.entries.get(&key).filter(|entry| entry.dynamic()) {
            let share = self.shares.entry(key.port).or_default();
            share.taken += 1;
            if entry.mac.is_none() {
                share.unresolved.insert((entry.born, key));
            }
        }
    }

    /// Takes it out of its port's share: before it goes, or becomes another kind.
    fn discount(&mut self, key: Key) {
        if let Some(entry) = self.entries.get(&key).filter(|entry| entry.dynamic()) {
            let share = self.shares.entry(key.port).or_default();
            share.taken -= 1;
            share.unresolved.remove(&(entry.born, key));
        }
    }

    fn wait_until(&mut self, key: Key, deadline: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if let Some(old) = entry.deadline {
            self.deadlines.remove(&(old, key));
        }
        entry.deadline = deadline;
        if let Some(new) = deadline {
            self.deadlines.insert((new, key));
        }
    }

    fn remove(&mut self, key: Key) -> Option<Entry> {
        self.wait_until(key, None);
        self.discount(key);
        self.entries.remove(&key)
    }
}

impl Control {
    /// The next hop of a gateway; there is one from now on.
    pub(crate) fn gateway(
        &mut self,
        key: Key,
        out: &mut Vec<Action>,
    ) -> Result<NextHopId, crate::Error> {
        if let Some(hop) = self
            .neighbours
            .entries
            .get(&key)
            .and_then(|entry| entry.hop)
        {
            self.neighbours.discount(key);
            let entry = self.neighbours.entries.get_mut(&key);
            entry.into_iter().for_each(|entry| entry.gateway = true);
            return Ok(hop);
        }
        let hop = self.tables.add_neighbour(key, out)?;
        self.neighbours.discount(key);
        let entry = self.neighbours.entries.entry(key);
        let entry = entry.or_insert_with(|| Entry::new(State::Idle));
        entry.hop = Some(hop);
        entry.gateway = true;
        // It may be known already, without a next hop: link-local addresses have no routes.
        if let Some(mac) = entry.mac {
            self.tables.set_mac(hop, Some(mac), out)?;
        }
        Ok(hop)
    }

    /// A neighbour that never has to be asked.
    pub(crate) fn fix(&mut self, key: Key, mac: Mac, out: &mut Vec<Action>) {
        self.neighbours.discount(key);
        let entry = self.neighbours.entries.entry(key);
        let entry = entry.or_insert_with(|| Entry::new(State::Idle));
        entry.fixed = true;
        entry.state = State::Reachable;
        self.set_mac(key, Some(mac), out);
    }

    /// Sends a packet to a neighbour, now or when it is resolved.
    pub(crate) fn send_to(&mut self, now: u64, key: Key, packet: Packet, out: &mut Vec<Action>) {
        if let Some(mac) = self.neighbours.mac(key) {
            self.transmit(key.port, mac, packet, out);
            return;
        }
        let there = self.neighbours.entries.contains_key(&key);
        if !there && (!self.may_ask(now) || !self.admit(key)) {
            return;
        }
        let Some(entry) = self.neighbours.entries.get_mut(&key) else {
            return;
        };
        match entry.state {
            State::Failed => self.unreachable(now, packet, out),
            state => {
                // The newest is kept (RFC 4861 section 7.2.2).
                if entry.held.replace(packet).is_some() {
                    self.stats.held_replaced += 1;
                }
                if state == State::Idle {
                    entry.state = State::Incomplete;
                    entry.tries = 0;
                    self.ask(now, key, out);
                }
            }
        }
    }

    /// Whether the frame that is being dealt with may start a question. What time brings answers
    /// packets that were counted when they came.
    fn may_ask(&mut self, now: u64) -> bool {
        let timers = &self.config.timers;
        let limit = self
            .arrival
            .and_then(|port| self.asks.get_mut(usize::from(port)));
        let may = limit.is_none_or(|limit| limit.take(now, timers.ask_ns, timers.ask_burst));
        self.stats.asks_limited += u64::from(!may);
        may
    }

    /// Enters a neighbour, if its port's share has room or one without a MAC address gives way.
    fn admit(&mut self, key: Key) -> bool {
        let most = self.config.timers.neighbours / self.config.ports.len();
        let share = self.neighbours.shares.entry(key.port).or_default();
        if share.taken >= most.max(1) {
            let Some(&(_, oldest)) = share.unresolved.first() else {
                self.stats.neighbours_full += 1;
                return false;
            };
            let gone = self.neighbours.remove(oldest);
            self.stats.neighbours_evicted += 1;
            self.stats.undelivered += u64::from(gone.is_some_and(|entry| entry.held.is_some()));
        }
        self.neighbours.insert(key);
        true
    }

    /// Takes what a neighbour said of itself; `asked` if it answered us.
    pub(crate) fn learn(
        &mut self,
        now: u64,
        key: Key,
        mac: Mac,
        asked: bool,
        out: &mut Vec<Action>,
    ) {
        if !self.neighbours.entries.contains_key(&key) && !self.admit(key) {
            return;
        }
        let Some(entry) = self.neighbours.entries.get_mut(&key) else {
            return;
        };
        if entry.fixed || (!asked && entry.mac == Some(mac)) {
            return;
        }
        entry.state = State::Reachable;
        entry.tries = 0;
        let held = entry.held.take();
        let timers = &self.config.timers;
        let believed = if asked {
            timers.reachable_ns
        } else {
            timers.stale_ns
        };
        self.neighbours
            .wait_until(key, Some(now.saturating_add(believed)));
        self.set_mac(key, Some(mac), out);
        if let Some(packet) = held {
            self.transmit(key.port, mac, packet, out);
        }
    }

    /// A neighbour's answer without a new address: it is still there.
    pub(crate) fn still_there(&mut self, now: u64, key: Key) {
        let reachable = self.config.timers.reachable_ns;
        if let Some(entry) = self.neighbours.entries.get_mut(&key)
            && entry.mac.is_some()
            && !entry.fixed
        {
            entry.state = State::Reachable;
            let deadline = now.saturating_add(reachable);
            self.neighbours.wait_until(key, Some(deadline));
        }
    }

    /// Asks soon whether a neighbour is still there.
    pub(crate) fn doubt(&mut self, now: u64, key: Key) {
        let stale = self.config.timers.stale_ns;
        if let Some(entry) = self.neighbours.entries.get(&key)
            && entry.state == State::Reachable
            && !entry.fixed
        {
            let soon = now.saturating_add(stale);
            let deadline = entry.deadline.map_or(soon, |deadline| deadline.min(soon));
            self.neighbours.wait_until(key, Some(deadline));
        }
    }

    /// Does all that is due.
    pub(crate) fn expire(&mut self, now: u64, out: &mut Vec<Action>) {
        while let Some(&(deadline, key)) = self.neighbours.deadlines.first() {
            if deadline > now {
                return;
            }
            self.neighbours.wait_until(key, None);
            let Some(entry) = self.neighbours.entries.get_mut(&key) else {
                continue;
            };
            match entry.state {
                State::Idle => {}
                State::Reachable => {
                    entry.state = State::Probe;
                    entry.tries = 0;
                    self.ask(now, key, out);
                }
                State::Incomplete | State::Probe if entry.tries < self.config.timers.tries => {
                    self.ask(now, key, out);
                }
                State::Incomplete => {
                    entry.state = State::Failed;
                    let held = entry.held.take();
                    let until = now.saturating_add(self.config.timers.retry_ns);
                    self.neighbours.wait_until(key, Some(until));
                    self.stats.unresolved += 1;
                    if let Some(packet) = held {
                        self.unreachable(now, packet, out);
                    }
                }
                State::Probe | State::Failed => {
                    entry.state = State::Idle;
                    self.set_mac(key, None, out);
                    let gateway = self.neighbours.entries.get(&key);
                    if !gateway.is_some_and(|entry| entry.gateway) {
                        self.neighbours.remove(key);
                    }
                }
            }
        }
    }

    /// Solicits a neighbour: its own address while it is known, all of the subnet if not.
    fn ask(&mut self, now: u64, key: Key, out: &mut Vec<Action>) {
        let again = now.saturating_add(self.config.timers.retry_ns.max(1));
        let Some(entry) = self.neighbours.entries.get_mut(&key) else {
            return;
        };
        entry.tries = entry.tries.saturating_add(1);
        let mac = entry.mac;
        self.neighbours.wait_until(key, Some(again));
        match key.address {
            IpAddr::V4(address) => self.request_arp(key.port, address, mac, out),
            IpAddr::V6(address) => self.solicit(key.port, address, mac, out),
        }
    }

    /// Keeps the tables equal to what is known of a neighbour.
    fn set_mac(&mut self, key: Key, mac: Option<Mac>, out: &mut Vec<Action>) {
        self.neighbours.discount(key);
        let Some(entry) = self.neighbours.entries.get_mut(&key) else {
            return;
        };
        let unchanged = entry.mac == mac;
        entry.mac = mac;
        self.neighbours.count(key);
        let Some(entry) = self.neighbours.entries.get_mut(&key) else {
            return;
        };
        let route = key.host_route();
        let Some(mac) = mac else {
            // What the tables gave up they took before: this can't be refused.
            if entry.routed
                && let Some(route) = route
            {
                entry.routed = false;
                let _ = self.tables.withdraw(route, out);
            }
            if let Some(hop) = entry.hop {
                if entry.gateway {
                    let _ = self.tables.set_mac(hop, None, out);
                } else {
                    entry.hop = None;
                    let _ = self.tables.remove_neighbour(hop, out);
                }
            }
            return;
        };
        // A link-local neighbour needs a next hop only as a gateway.
        if entry.hop.is_none() && route.is_some() {
            entry.hop = self.tables.add_neighbour(key, out).ok();
        }
        let Some(hop) = entry.hop else {
            // All next hops are taken: what goes there takes the way by the host port.
            self.stats.tables_full += u64::from(route.is_some());
            return;
        };
        if !unchanged {
            let _ = self.tables.set_mac(hop, Some(mac), out);
        }
        // A route that was configured is stronger.
        if let Some(route) = route
            && !entry.routed
            && self.tables.get(route).is_none()
        {
            match self.tables.announce(route, hop, out) {
                Ok(()) => entry.routed = true,
                Err(_) => {
                    self.stats.tables_full += 1;
                    if !entry.gateway {
                        entry.hop = None;
                        let _ = self.tables.remove_neighbour(hop, out);
                    }
                }
            }
        }
    }

    /// RFC 1812 section 5.2.7.1, RFC 4443 section 3.1: the source is told.
    fn unreachable(&mut self, now: u64, packet: Packet, out: &mut Vec<Action>) {
        self.stats.undelivered += 1;
        if let Some(port) = packet.transit {
            self.report(
                now,
                port,
                false,
                &packet.bytes,
                Reason::HostUnreachable,
                out,
            );
        }
    }
}
