// SPDX-License-Identifier: Apache-2.0
//! Random trees of switches: hosts anywhere in them that store to one host.

use std::net::Ipv4Addr;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::build::{Fan, unplaced};
use super::{PortSpec, RouteSpec, Topology};
use crate::address::{Interface, Subnet};
use crate::model::WIDE_PORTS;

/// Switches of a tree, at least and at most.
const SWITCHES: (usize, usize) = (2, 4);
/// Hosts of a tree, at least and at most, the one that receives among them.
const HOSTS: (usize, usize) = (8, 16);
/// Bits of a network between a switch and what is at one of its ports.
const PREFIX_LEN: u8 = 24;
/// Bits of all networks of one switch's hosts.
const SWITCH_PREFIX_LEN: u8 = 16;

/// Which switches are connected, and where the hosts are.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// For each switch but the first the one above it.
    above: Vec<usize>,
    /// The switch of each host; the last host receives.
    hosts: Vec<usize>,
}

impl Shape {
    fn draw(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let switches = rng.random_range(SWITCHES.0..=SWITCHES.1);
        let hosts = rng.random_range(HOSTS.0..=HOSTS.1);
        let above: Vec<usize> = (1..switches)
            .map(|below| rng.random_range(0..below))
            .collect();
        let mut left = vec![WIDE_PORTS; switches];
        for (index, &above) in above.iter().enumerate() {
            left[above] -= 1;
            left[index + 1] -= 1;
        }
        let place = |_| {
            loop {
                let switch = rng.random_range(0..switches);
                if left[switch] > 0 {
                    left[switch] -= 1;
                    return switch;
                }
            }
        };
        let hosts = (0..hosts).map(place).collect();
        Self { above, hosts }
    }

    /// The first switch on the way from one to another.
    fn next(&self, from: usize, to: usize) -> usize {
        // Who is above has the smaller number, so `to` climbs until it meets `from`, or is beside or above it.
        let mut step = to;
        while step > from {
            let above = self.above[step - 1];
            if above == from {
                return step;
            }
            step = above;
        }
        self.above[from - 1]
    }
}

fn host_address(switch: usize, port: usize, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1 + switch as u8, port as u8, last)
}

/// The end of a cable between switches: 1 is the lower one's.
fn trunk_address(below: usize, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 200, below as u8, last)
}

impl Topology {
    /// Hosts `pc1`, `pc2`, ... that store to the last of them, `sink`, over a tree of switches `sw1`, `sw2`, ...: 2 to 4
    /// switches and 8 to 16 hosts, wherever the seed puts them. Of `fan` the senders and the switch do not count.
    pub fn tree(fan: Fan, seed: u64) -> Self {
        let shape = Shape::draw(seed);
        let switches = shape.above.len() + 1;
        let mut ports: Vec<Vec<PortSpec>> = vec![Vec::new(); switches];
        let mut add = |switch: usize, address: Ipv4Addr| {
            let number = ports[switch].len();
            ports[switch].push(PortSpec {
                number: unplaced(number),
                address: unplaced(Interface::new(address, PREFIX_LEN)),
            });
            format!("sw{}:{number}", switch + 1)
        };
        let mut cables = Vec::new();
        for (index, &above) in shape.above.iter().enumerate() {
            let below = index + 1;
            let ends = (
                add(below, trunk_address(below, 1)),
                add(above, trunk_address(below, 2)),
            );
            cables.push(fan.cable(ends.0, ends.1));
        }
        let mut hosts = Vec::new();
        for (index, &switch) in shape.hosts.iter().enumerate() {
            let name = match index + 1 == shape.hosts.len() {
                true => "sink".to_owned(),
                false => format!("pc{}", index + 1),
            };
            let network = index + 1;
            hosts.push(fan.host(name.clone(), Some(host_address(switch, network, 1))));
            let port = add(switch, host_address(switch, network, 254));
            cables.push(fan.cable(name, port));
        }
        let route = |from: usize, to: usize| {
            let next = shape.next(from, to);
            let via = match next > from {
                true => trunk_address(next, 1),
                false => trunk_address(from, 2),
            };
            let network = Subnet::around(host_address(to, 0, 0), SWITCH_PREFIX_LEN);
            RouteSpec {
                prefix: unplaced(network),
                via,
            }
        };
        let switch = |(from, port): (usize, Vec<PortSpec>)| {
            let others = (0..switches).filter(|&to| to != from);
            let routes = others.map(|to| route(from, to)).collect();
            fan.switch(format!("sw{}", from + 1), port, routes)
        };
        let switches = ports.into_iter().enumerate().map(switch).collect();
        fan.topology(hosts, switches, cables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_leads_there() {
        for seed in 0..1_000 {
            let shape = Shape::draw(seed);
            let switches = shape.above.len() + 1;
            assert!((SWITCHES.0..=SWITCHES.1).contains(&switches));
            assert!((HOSTS.0..=HOSTS.1).contains(&shape.hosts.len()));
            for (from, to) in (0..switches).flat_map(|from| (0..switches).map(move |to| (from, to)))
            {
                let mut at = from;
                for _ in 0..switches {
                    if at != to {
                        at = shape.next(at, to);
                    }
                }
                assert_eq!(at, to, "seed {seed}: from {from}: {shape:?}");
            }
        }
    }
}
