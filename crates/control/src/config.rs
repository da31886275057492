// SPDX-License-Identifier: Apache-2.0
//! What a switch is told before it starts.

use std::net::IpAddr;
use std::str::FromStr;

use fib::police::{self, Police};
use model::switch::Check;

use crate::action::{MEMORY_PORT, Write};
use crate::address::{Mac, Subnet, is_host4, is_host6, is_link_local6, is_station};
use crate::error::Error;

/// Smallest MTU of IPv4 (RFC 791).
const MIN_MTU_4: u16 = 68;
/// Smallest MTU of IPv6 (RFC 8200 section 5).
const MIN_MTU_6: u16 = 1280;
/// Fields of a port's settings, as `fibnic_pkg::port_field_e` numbers them.
const FIELD_BITS: u32 = 3;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Longest IP packet that leaves here, bytes.
    pub mtu: u16,
    /// Its addresses, each with its subnet. The IPv6 link-local address is made from the MAC
    /// address if none is given.
    pub addresses: Vec<Subnet>,
    /// Frames must come with a tag of this VLAN.
    pub vlan_in: Option<u16>,
    /// Frames leave with a tag of this VLAN.
    pub vlan_out: Option<u16>,
    /// When frames are stored and checked before they leave.
    pub check: Check,
    /// How many of its frames may reach the host, so that no port takes the host's time from the others.
    pub police: Police,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            mac: [2, 0, 0, 0, 0, 0],
            mtu: 1500,
            addresses: Vec::new(),
            vlan_in: None,
            vlan_out: None,
            check: Check::Never,
            police: Police::default(),
        }
    }
}

impl PortConfig {
    /// The words of `MemPort` that set port number `port`.
    pub fn words(&self, port: u8) -> [Write; 5] {
        let mac = self
            .mac
            .iter()
            .fold(0, |mac, &byte| mac << 8 | u64::from(byte));
        let tag = |vlan: Option<u16>| match vlan {
            Some(vlan) => 1 << 12 | u64::from(vlan & 0xFFF),
            None => 0,
        };
        let check = match self.check {
            Check::Never => 0,
            Check::Auto { on, off } => u64::from(off) << 10 | u64::from(on) << 2 | 1,
            Check::Always => 2,
        };
        let fields = [
            mac,
            self.mtu.into(),
            tag(self.vlan_out) << 13 | tag(self.vlan_in),
            check,
            self.police.word(),
        ];
        debug_assert_eq!(police::FIELD as usize, fields.len() - 1);
        let mut field = 0;
        fields.map(|value| {
            let address = u32::from(port) << FIELD_BITS | field;
            field += 1;
            Write {
                memory: MEMORY_PORT,
                address,
                data: [value, 0, 0],
            }
        })
    }
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// To a neighbour; the port may be left out if the address is in a port's subnet.
    Gateway(IpAddr, Option<u8>),
    /// To the host port.
    Host,
    /// Nowhere.
    Discard,
}

/// A route. As text: `192.0.2.0/24 via 10.0.0.1`, `2001:db8::/32 via fe80::1 port 2`,
/// `10.0.0.0/8 discard`, `203.0.113.1/32 host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Destinations; bits behind the length don't matter.
    pub prefix: Subnet,
    /// Where to.
    pub via: Via,
}

impl FromStr for Route {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::NotARoute {
            text: text.to_owned(),
        };
        let words: Vec<_> = text.split_whitespace().collect();
        let (prefix, rest) = words.split_first().ok_or_else(wrong)?;
        let via = match rest {
            ["discard"] => Via::Discard,
            ["host"] => Via::Host,
            ["via", gateway] => Via::Gateway(gateway.parse().map_err(|_| wrong())?, None),
            ["via", gateway, "port", port] => Via::Gateway(
                gateway.parse().map_err(|_| wrong())?,
                Some(port.parse().map_err(|_| wrong())?),
            ),
            _ => return Err(wrong()),
        };
        Ok(Self {
            prefix: prefix.parse()?,
            via,
        })
    }
}

/// A neighbour whose MAC address is known from the start and does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// Its address, in a subnet of a port.
    pub address: IpAddr,
    /// The port it is behind; needed for link-local addresses.
    pub port: Option<u8>,
    /// Its MAC address.
    pub mac: [u8; 6],
}

/// Times in nanoseconds, and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timers {
    /// From one solicitation to the next.
    pub retry_ns: u64,
    /// Solicitations before a neighbour counts as unreachable.
    pub tries: u8,
    /// How long a neighbour that answered is believed; then it is asked again. Forwarding in
    /// hardware tells nothing of neighbours, so all are asked.
    pub reachable_ns: u64,
    /// The same for what was learned without having asked.
    pub stale_ns: u64,
    /// Neighbours of all ports at most, gateways and fixed ones not counted. Each port may have an
    /// equal share.
    pub neighbours: usize,
    /// Time in which one more new neighbour may be asked for, for each port of arrival.
    pub ask_ns: u64,
    /// New neighbours that may be asked for at once.
    pub ask_burst: u32,
    /// Time in which one more ICMP error may be sent, for each port of arrival.
    pub error_ns: u64,
    /// ICMP errors that may be sent at once.
    pub error_burst: u32,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            retry_ns: 1_000_000_000,
            tries: 3,
            reachable_ns: 30_000_000_000,
            stale_ns: 5_000_000_000,
            // Some next hops are left for gateways.
            neighbours: 3840,
            ask_ns: 1_000_000,
            ask_burst: 256,
            error_ns: 10_000_000,
            error_burst: 10,
        }
    }
}

/// A whole switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The network ports, 2 to 16.
    pub ports: Vec<PortConfig>,
    /// Routes beside those to the ports' subnets.
    pub routes: Vec<Route>,
    /// Neighbours that need not be asked for.
    pub neighbours: Vec<Neighbour>,
    /// Depths of the lookup's memories, as the switch was built.
    pub fib: fib::Config,
    /// Times and limits.
    pub timers: Timers,
}

impl Config {
    /// The port whose subnet holds an address.
    pub(crate) fn connected(&self, address: IpAddr) -> Option<u8> {
        (0..).zip(&self.ports).find_map(|(number, port)| {
            let on_link = port.addresses.iter().any(|subnet| subnet.contains(address));
            on_link.then_some(number)
        })
    }

    /// The port of a gateway or neighbour.
    pub(crate) fn port_of(&self, address: IpAddr, port: Option<u8>) -> Result<u8, Error> {
        if let Some(port) = port {
            return if usize::from(port) < self.ports.len() {
                Ok(port)
            } else {
                Err(Error::NoSuchPort {
                    port,
                    ports: self.ports.len(),
                })
            };
        }
        if matches!(address, IpAddr::V6(address) if is_link_local6(address)) {
            return Err(Error::NeedsPort { address });
        }
        self.connected(address)
            .ok_or(Error::NotConnected { address })
    }

    /// Checks what can be checked before routes are set.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(2..=16).contains(&self.ports.len()) {
            return Err(Error::Ports {
                ports: self.ports.len(),
            });
        }
        for (number, port) in (0..).zip(&self.ports) {
            check_port(number, port)?;
        }
        // Link-local subnets are the same on all ports, and a port may have several addresses in a
        // subnet.
        let subnets: Vec<(u8, Subnet)> = (0..)
            .zip(&self.ports)
            .flat_map(|(number, port)| port.addresses.iter().map(move |&subnet| (number, subnet)))
            .filter(|(_, subnet)| !matches!(subnet.address, IpAddr::V6(own) if is_link_local6(own)))
            .collect();
        for (at, (port, first)) in subnets.iter().enumerate() {
            for (other, second) in &subnets[at + 1..] {
                if port != other && first.overlaps(*second) {
                    return Err(Error::Overlap {
                        first: first.to_string(),
                        second: second.to_string(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn check_port(number: u8, port: &PortConfig) -> Result<(), Error> {
    if !is_station(port.mac) {
        return Err(Error::GroupMac { port: number });
    }
    let v6 = port.addresses.iter().any(|subnet| subnet.address.is_ipv6());
    let (family, least) = if v6 {
        ("IPv6", MIN_MTU_6)
    } else {
        ("IPv4", MIN_MTU_4)
    };
    if port.mtu < least {
        return Err(Error::Mtu {
            port: number,
            mtu: port.mtu,
            family,
            least,
        });
    }
    for vlan in [port.vlan_in, port.vlan_out].into_iter().flatten() {
        if !(1..=4094).contains(&vlan) {
            return Err(Error::Vlan { port: number, vlan });
        }
    }
    if !port.police.fits() {
        return Err(Error::Police {
            port: number,
            police: port.police,
        });
    }
    for subnet in &port.addresses {
        let good = match subnet.address {
            IpAddr::V4(address) => {
                let broadcast = subnet.broadcasts();
                is_host4(address) && !broadcast.is_some_and(|pair| pair.contains(&address))
            }
            IpAddr::V6(address) => is_host6(address) && subnet.anycast() != Some(address),
        };
        if !good {
            return Err(Error::NotAHost {
                port: number,
                address: subnet.address,
            });
        }
    }
    Ok(())
}

/// MAC address of a port, by number.
pub(crate) fn mac_of(ports: &[PortConfig], port: u8) -> Mac {
    ports[usize::from(port)].mac
}
