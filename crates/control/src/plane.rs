// SPDX-License-Identifier: Apache-2.0
//! The control plane as a whole: what comes in, what it is, where it goes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fib::Fib;
use smoltcp::wire::{EthernetAddress, EthernetFrame, EthernetProtocol};

use crate::action::{Action, Change, HostFrame};
use crate::address::{Mac, Subnet, is_link_local6, is_station, link_local_of};
use crate::config::{Config, Route, Via, mac_of};
use crate::error::Error;
use crate::limit::Limit;
use crate::neighbours::{Key, Neighbours, Packet};
use crate::tables::{Hop, Tables};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Verdicts there are.
const VERDICTS: usize = 18;

/// What the control plane did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames of the host port, by verdict.
    pub frames: [u64; VERDICTS],
    /// Frames that ended bad.
    pub spoiled: u64,
    /// Frames that are not for this router, malformed, or of no protocol it has.
    pub ignored: u64,
    /// Packets forwarded by software.
    pub forwarded: u64,
    /// Answers to ARP requests and neighbour solicitations.
    pub resolved_for_others: u64,
    /// Echo replies.
    pub echo_replies: u64,
    /// ICMP errors sent.
    pub errors: u64,
    /// ICMP errors that the rate limit held back.
    pub errors_limited: u64,
    /// Packets whose place was taken by a newer one while they waited for a neighbour.
    pub held_replaced: u64,
    /// Packets whose neighbour did not answer.
    pub undelivered: u64,
    /// Neighbours that did not answer.
    pub unresolved: u64,
    /// Neighbours not taken because their port has too many that are resolved.
    pub neighbours_full: u64,
    /// Neighbours without a MAC address that gave way to others of their port.
    pub neighbours_evicted: u64,
    /// Packets dropped because their port of arrival asks for too many new neighbours.
    pub asks_limited: u64,
    /// Neighbours that the lookup's tables had no room for.
    pub tables_full: u64,
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    NoRoute,
    Discard,
    /// By the route to the host, yet not for one of our addresses.
    Nobody,
    To(Key),
}

/// The control plane of one switch.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) config: Config,
    pub(crate) tables: Tables,
    pub(crate) neighbours: Neighbours,
    pub(crate) stats: Stats,
    pub(crate) limits: Vec<Limit>,
    /// Of new neighbours that are asked for, by port of arrival.
    pub(crate) asks: Vec<Limit>,
    /// Port of the frame that is being dealt with.
    pub(crate) arrival: Option<u8>,
    /// Of the packets we make.
    pub(crate) identification: u16,
    /// Writes of the configuration, until [`Control::start`].
    setup: Vec<Action>,
}

impl Control {
    /// Checks the configuration and lays out the tables.
    pub fn new(mut config: Config) -> Result<Self, Error> {
        config.check()?;
        for port in &mut config.ports {
            let v6 = port.addresses.iter().any(|subnet| subnet.address.is_ipv6());
            let has_link_local = port
                .addresses
                .iter()
                .any(|subnet| matches!(subnet.address, IpAddr::V6(own) if is_link_local6(own)));
            if v6 && !has_link_local {
                let address = link_local_of(port.mac).into();
                port.addresses.push(Subnet { address, len: 64 });
            }
        }
        let mut control = Self {
            tables: Tables::new(config.fib)?,
            neighbours: Neighbours::default(),
            stats: Stats::default(),
            limits: vec![Limit::new(config.timers.error_burst); config.ports.len()],
            asks: vec![Limit::new(config.timers.ask_burst); config.ports.len()],
            arrival: None,
            identification: 0,
            setup: Vec::new(),
            config,
        };
        let mut out = Vec::new();
        control.set_up(&mut out)?;
        control.setup = out;
        Ok(control)
    }

    fn set_up(&mut self, out: &mut Vec<Action>) -> Result<(), Error> {
        for (number, port) in (0..).zip(&self.config.ports) {
            out.push(Action::Change(Change::Port(number, port.clone())));
            out.extend(port.words(number).map(Action::Write));
        }
        self.tables.start(out)?;
        let subnets: Vec<Subnet> = self
            .config
            .ports
            .iter()
            .flat_map(|port| port.addresses.iter().copied())
            .collect();
        for subnet in subnets {
            if matches!(subnet.address, IpAddr::V6(own) if is_link_local6(own)) {
                continue;
            }
            // Unknown neighbours, and our own address.
            self.tables.announce_host(subnet, out)?;
            let len = subnet.bits();
            self.tables.announce_host(Subnet { len, ..subnet }, out)?;
            // RFC 2644: directed broadcasts go nowhere.
            for address in subnet.broadcasts().into_iter().flatten() {
                let address = address.into();
                self.tables
                    .announce_discard(Subnet { address, len: 32 }, out)?;
            }
        }
        for neighbour in self.config.neighbours.clone() {
            let address = neighbour.address;
            let port = self.config.port_of(address, neighbour.port)?;
            self.fix(Key { port, address }, neighbour.mac, out);
        }
        for route in self.config.routes.clone() {
            self.add_route(route, out)?;
        }
        Ok(())
    }

    /// The writes that take the switch from reset to the configuration.
    pub fn start(&mut self, _now: u64) -> Vec<Action> {
        std::mem::take(&mut self.setup)
    }

    /// Adds a route, or changes the one to the same prefix.
    pub fn announce(&mut self, route: Route) -> Result<Vec<Action>, Error> {
        let mut out = Vec::new();
        self.add_route(route, &mut out)?;
        Ok(out)
    }

    /// Removes a route.
    pub fn withdraw(&mut self, prefix: Subnet) -> Result<Vec<Action>, Error> {
        let mut out = Vec::new();
        self.tables.withdraw(prefix, &mut out)?;
        Ok(out)
    }

    fn add_route(&mut self, route: Route, out: &mut Vec<Action>) -> Result<(), Error> {
        match route.via {
            Via::Host => self.tables.announce_host(route.prefix, out),
            Via::Discard => self.tables.announce_discard(route.prefix, out),
            Via::Gateway(address, port) => {
                if address.is_ipv4() != route.prefix.address.is_ipv4() {
                    return Err(Error::MixedFamilies {
                        prefix: route.prefix.to_string(),
                        gateway: address,
                    });
                }
                let port = self.config.port_of(address, port)?;
                let hop = self.gateway(Key { port, address }, out)?;
                self.tables.announce(route.prefix, hop, out)
            }
        }
    }

    /// Takes a frame of the host port.
    pub fn host_frame(&mut self, now: u64, frame: &HostFrame) -> Vec<Action> {
        let mut out = Vec::new();
        self.expire(now, &mut out);
        self.arrival = Some(frame.port);
        self.take(now, frame, &mut out);
        self.arrival = None;
        out
    }

    /// Does what time brings; to be called when [`Control::next_tick`] says so.
    pub fn tick(&mut self, now: u64) -> Vec<Action> {
        let mut out = Vec::new();
        self.expire(now, &mut out);
        out
    }

    /// When [`Control::tick`] is due, in nanoseconds; `None` if nothing waits.
    pub fn next_tick(&self) -> Option<u64> {
        self.neighbours.next_deadline()
    }

    /// What was done so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The lookup's tables as they are in the hardware when all writes are done.
    pub fn fib(&self) -> &Fib {
        self.tables.fib()
    }

    /// Neighbours whose MAC address is known: port, address, MAC address.
    pub fn neighbours(&self) -> impl Iterator<Item = (u8, IpAddr, [u8; 6])> {
        self.neighbours.resolved()
    }

    fn take(&mut self, now: u64, frame: &HostFrame, out: &mut Vec<Action>) {
        if let Some(count) = self.stats.frames.get_mut(usize::from(frame.verdict)) {
            *count += 1;
        }
        if frame.bad {
            self.stats.spoiled += 1;
            return;
        }
        let Some(port) = self.config.ports.get(usize::from(frame.port)) else {
            self.stats.ignored += 1;
            return;
        };
        let Ok(ethernet) = EthernetFrame::new_checked(frame.bytes) else {
            self.stats.ignored += 1;
            return;
        };
        let group = ethernet.dst_addr().is_multicast();
        if (!group && ethernet.dst_addr().0 != port.mac) || !is_station(ethernet.src_addr().0) {
            self.stats.ignored += 1;
            return;
        }
        let taken = match ethernet.ethertype() {
            EthernetProtocol::Arp => self.take_arp(now, frame.port, ethernet.payload(), out),
            EthernetProtocol::Ipv4 => self.take_v4(now, frame.port, group, ethernet.payload(), out),
            EthernetProtocol::Ipv6 => self.take_v6(now, frame.port, group, ethernet.payload(), out),
            _ => None,
        };
        if taken.is_none() {
            self.stats.ignored += 1;
        }
    }

    /// Addresses of a port, IPv4.
    pub(crate) fn own4(&self, port: u8) -> impl Iterator<Item = (Ipv4Addr, Subnet)> {
        let addresses = &self.config.ports[usize::from(port)].addresses;
        addresses.iter().filter_map(|subnet| match subnet.address {
            IpAddr::V4(address) => Some((address, *subnet)),
            IpAddr::V6(_) => None,
        })
    }

    /// Addresses of a port, IPv6.
    pub(crate) fn own6(&self, port: u8) -> impl Iterator<Item = (Ipv6Addr, Subnet)> {
        let addresses = &self.config.ports[usize::from(port)].addresses;
        addresses.iter().filter_map(|subnet| match subnet.address {
            IpAddr::V6(address) => Some((address, *subnet)),
            IpAddr::V4(_) => None,
        })
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.config.ports.len() as u8
    }

    pub(crate) fn mtu(&self, port: u8) -> usize {
        self.config.ports[usize::from(port)].mtu.into()
    }

    /// Where a packet to an address that is not ours goes.
    pub(crate) fn step(&self, address: IpAddr) -> Step {
        match self.tables.find(address) {
            None => Step::NoRoute,
            Some(Hop::Discard) => Step::Discard,
            Some(Hop::Neighbour(key)) => Step::To(key),
            Some(Hop::Host) => match self.config.connected(address) {
                Some(port) => Step::To(Key { port, address }),
                None => Step::Nobody,
            },
        }
    }

    /// Puts an IP packet into frames, after the hop that a transit packet loses.
    pub(crate) fn transmit(&mut self, port: u8, mac: Mac, packet: Packet, out: &mut Vec<Action>) {
        let mut bytes = packet.bytes;
        let v4 = bytes.first().is_some_and(|byte| byte >> 4 == 4);
        let transit = packet.transit.is_some();
        self.stats.forwarded += u64::from(transit);
        if v4 {
            if transit {
                crate::ipv4::take_hop(&mut bytes);
            }
            for part in crate::fragment::fragments(&bytes, self.mtu(port)) {
                self.send(port, mac, EthernetProtocol::Ipv4, &part, out);
            }
        } else if bytes.len() <= self.mtu(port) {
            if transit {
                crate::ipv6::take_hop(&mut bytes);
            }
            self.send(port, mac, EthernetProtocol::Ipv6, &bytes, out);
        } else {
            self.stats.undelivered += 1;
        }
    }

    /// Sends one frame.
    pub(crate) fn send(
        &self,
        port: u8,
        mac: Mac,
        protocol: EthernetProtocol,
        payload: &[u8],
        out: &mut Vec<Action>,
    ) {
        let mut bytes = vec![0; ETHERNET + payload.len()];
        let mut frame = EthernetFrame::new_unchecked(&mut bytes);
        frame.set_dst_addr(EthernetAddress(mac));
        frame.set_src_addr(EthernetAddress(mac_of(&self.config.ports, port)));
        frame.set_ethertype(protocol);
        frame.payload_mut().copy_from_slice(payload);
        out.push(Action::Send { port, bytes });
    }
}
