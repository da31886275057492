// SPDX-License-Identifier: Apache-2.0
//! What a switch of a topology is told: its ports, routes and neighbours.

use std::net::{IpAddr, Ipv4Addr};

use control::{Control, Neighbour, PortConfig, Route, Subnet, Via};
use fib::{Config4, Config6};
use ipnuma_rtl::{Switch, SwitchSize};

use crate::model::WIDE_PORTS;

use crate::error::Error;
use crate::topology::{End, Neighbours, Topology};

/// Which build of the switch with four ports is in the rack.
pub const SIZE: SwitchSize = SwitchSize::Small;

/// Depths of its tables.
pub fn sizes() -> fib::Config {
    sizes_of(SIZE)
}

/// Depths of the tables of a build.
fn sizes_of(size: SwitchSize) -> fib::Config {
    let depth = |parameter: &str| {
        Switch::depth(size, parameter).expect("the build names the depths of all tables")
    };
    fib::Config {
        v4: Config4::RunVec {
            leaves: depth("V4Leaves"),
            groups: depth("V4Groups"),
            hosts: depth("V4Hosts"),
        },
        v6: Config6::Trie {
            nodes: std::array::from_fn(|level| depth(&format!("V6Nodes{}", level + 1))),
            leaves: depth("V6Leaves"),
            hosts: depth("V6Hosts"),
            tcam: depth("V6TcamEntries"),
        },
    }
}

/// A locally administered MAC address for each host.
pub const fn host_mac(host: usize) -> u64 {
    0x0200_0000_0001 + host as u64
}

/// A locally administered MAC address for each port of each switch.
pub const fn port_mac(switch: usize, port: usize) -> u64 {
    0x0200_0001_0000 + ((switch as u64) << 8) + port as u64 + 1
}

/// MAC address of a guest in the network beside the rack's.
pub const fn management_mac(host: usize) -> u64 {
    0x0200_0900_0001 + host as u64
}

/// The guest with this address there.
pub fn management_host(mac: &[u8]) -> Option<usize> {
    let bytes: [u8; 6] = mac.try_into().ok()?;
    let value = bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    let host = value.checked_sub(management_mac(0))?;
    usize::try_from(host).ok()
}

/// IPv4 address of a guest there; the subnet has 24 bits.
pub const fn management_ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, host as u8 + 1)
}

/// MAC address at the end of a cable.
pub const fn mac(end: End) -> u64 {
    match end {
        End::Host(host) => host_mac(host),
        End::Switch(switch, port) => port_mac(switch, port),
    }
}

/// A MAC address as bytes, first on the wire first.
pub fn mac_bytes(mac: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = mac.to_be_bytes();
    bytes
}

fn subnet(address: Ipv4Addr, len: u8) -> Subnet {
    Subnet {
        address: IpAddr::V4(address),
        len,
    }
}

/// What the memories of a switch are after reset.
pub fn image(topology: &Topology, switch: usize) -> Result<fib::Image, Error> {
    let spec = &topology.switch[switch];
    let fib = fib::Fib::new(sizes_with(*spec.ports.as_ref())).map_err(|error| {
        let name = spec.name.as_ref();
        Error::Config(format!("switch `{name}`: {error}"))
    })?;
    Ok(fib.image().cleared())
}

/// The ports of a switch that are network devices of the guest that is its host, in the order of the devices.
pub fn guest_ports(topology: &Topology, switch: usize) -> Vec<u8> {
    let ports = topology.switch[switch].port.iter();
    let mut ports: Vec<u8> = ports.map(|port| *port.number.as_ref() as u8).collect();
    ports.sort_unstable();
    ports
}

/// Depths of the tables of a switch with so many ports.
fn sizes_with(ports: usize) -> fib::Config {
    match ports {
        WIDE_PORTS => sizes_of(SwitchSize::Wide),
        _ => sizes(),
    }
}

/// What is behind the host port of a switch, and knows what is to be written to its tables.
pub fn control(topology: &Topology, switch: usize) -> Result<Control, Error> {
    let spec = &topology.switch[switch];
    let mut config = control::Config {
        fib: sizes_with(*spec.ports.as_ref()),
        ..control::Config::default()
    };
    for number in 0..*spec.ports.as_ref() {
        let addresses = spec.port(number).map(|port| {
            let interface = port.address.as_ref();
            subnet(interface.address, interface.subnet.len())
        });
        config.ports.push(PortConfig {
            mac: mac_bytes(port_mac(switch, number)),
            addresses: addresses.into_iter().collect(),
            ..PortConfig::default()
        });
        if spec.neighbours == Neighbours::Static
            && let Some(end) = topology.opposite(End::Switch(switch, number))
        {
            config.neighbours.push(Neighbour {
                address: IpAddr::V4(topology.address(end)),
                mac: mac_bytes(mac(end)),
                port: None,
            });
        }
    }
    for route in &spec.route {
        let prefix = route.prefix.as_ref().prefix();
        config.routes.push(Route {
            prefix: subnet(Ipv4Addr::from_bits(prefix.addr()), prefix.len()),
            via: Via::Gateway(IpAddr::V4(route.via), None),
        });
    }
    Control::new(config).map_err(|error| {
        let name = spec.name.as_ref();
        Error::Config(format!("switch `{name}`: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_differ() {
        let mut all = vec![host_mac(0), host_mac(255)];
        for switch in 0..3 {
            all.extend((0..4).map(|port| port_mac(switch, port)));
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(mac_bytes(port_mac(2, 3)), [2, 0, 0, 1, 2, 4]);
        assert_eq!(management_host(&mac_bytes(management_mac(5))), Some(5));
        assert_eq!(management_host(&[0xFF; 6]).filter(|host| *host < 256), None);
    }
}
