// SPDX-License-Identifier: Apache-2.0
//! Topologies that programs make: two hosts with switches in a row between them, and senders around a switch.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use toml::Spanned;

use super::{
    CableSpec, Format, HostKind, HostSpec, Neighbours, NicKind, NicSpec, PREFIX_LEN, PortSpec,
    ProgramSpec, Rate, RouteSpec, SwitchLatency, SwitchSpec, Topology, four_ports, guest_memory,
};
use crate::address::{Interface, Subnet};
use crate::cpu::CpuSpec;
use crate::faults::Faults;
use crate::model::{NARROW_PORTS, PORTS, WIDE_PORTS};

/// Two hosts and what is between them: what the command line describes without a file.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Platform.
    pub platform: String,
    /// Seed.
    pub seed: u64,
    /// Line rate of both NICs.
    pub rate: Rate,
    /// Format of both NICs.
    pub format: Format,
    /// Length of the cable, or of all cables together.
    pub metres: f64,
    /// Bytes of a message.
    pub bytes: usize,
    /// Measured round trips.
    pub loops: u64,
    /// Round trips before measuring.
    pub warmup: u64,
    /// How the NICs send.
    pub nic: NicOptions,
    /// What goes wrong on every cable.
    pub faults: Faults,
}

/// How NICs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicOptions {
    /// In sessions.
    pub reliable: bool,
    /// In sealed ones.
    pub auth: bool,
    /// Several stores in a frame.
    pub merge: bool,
}

impl Default for NicOptions {
    fn default() -> Self {
        Self {
            reliable: true,
            auth: false,
            merge: false,
        }
    }
}

/// Senders to one receiver, through a switch or, if it is one sender, by a cable.
#[derive(Clone, Debug)]
pub struct Fan {
    /// Platform.
    pub platform: String,
    /// Seed.
    pub seed: u64,
    /// Line rate.
    pub rate: Rate,
    /// Format.
    pub format: Format,
    /// Senders.
    pub senders: usize,
    /// Whether a switch is between; with more than one sender it is.
    pub switch: bool,
    /// Metres of each cable.
    pub metres: f64,
    /// Bytes of a store.
    pub bytes: usize,
    /// Stores of each sender.
    pub stores: u64,
    /// Gigabits of data a second that each sender offers.
    pub rate_gbps: Option<f64>,
    /// How the NICs send.
    pub nic: NicOptions,
    /// What goes wrong on every cable.
    pub faults: Faults,
}

/// Two whole Linux machines with switches in a row between them.
#[derive(Clone, Debug)]
pub struct GuestRow {
    /// Platform.
    pub platform: String,
    /// Seed.
    pub seed: u64,
    /// Line rate.
    pub rate: Rate,
    /// What the NICs are.
    pub nic: NicKind,
    /// Names of the hosts. The run ends with the first one's command.
    pub names: [String; 2],
    /// Commands for their shells.
    pub commands: [String; 2],
    /// Switches between them.
    pub switches: usize,
    /// Of switches of another make: their latency in nanoseconds.
    pub latency_ns: Option<f64>,
    /// Length of all cables together.
    pub metres: f64,
    /// What goes wrong on every cable.
    pub faults: Faults,
    /// CPU costs in place of the published ones.
    pub cpu: CpuSpec,
    /// Simulated seconds after which it has failed.
    pub limit_s: f64,
}

/// Whole Linux machines around a switch: one server, and its clients.
#[derive(Clone, Debug)]
pub struct GuestStar {
    /// Platform.
    pub platform: String,
    /// Seed.
    pub seed: u64,
    /// Line rate.
    pub rate: Rate,
    /// What the NICs are.
    pub nic: NicKind,
    /// The server's name, and the command for its shell.
    pub server: (String, String),
    /// The clients' names, and the commands for their shells. The run ends when all of these have.
    pub clients: Vec<(String, String)>,
    /// Of a switch of another make: its latency in nanoseconds.
    pub latency_ns: Option<f64>,
    /// Length of each cable.
    pub metres: f64,
    /// What goes wrong on every cable.
    pub faults: Faults,
    /// CPU costs in place of the published ones.
    pub cpu: CpuSpec,
    /// Simulated seconds after which it has failed.
    pub limit_s: f64,
}

impl GuestStar {
    /// Clients at most: each has a port of the switch, and so has the server.
    pub const MOST_CLIENTS: usize = WIDE_PORTS - 1;

    /// The fewest ports that a switch can have for so many clients and their server.
    const fn ports(clients: usize) -> usize {
        if clients < NARROW_PORTS {
            NARROW_PORTS
        } else if clients < PORTS {
            PORTS
        } else {
            WIDE_PORTS
        }
    }

    /// The address of client `number` of all; that of the server is of one that follows the last.
    pub const fn address(number: usize) -> Ipv4Addr {
        link_address(number, false)
    }
}

/// A value that stands in no file.
pub(super) fn unplaced<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// Address of an end of cable `link` in a row: 1 on the left, 2 on the right.
const fn link_address(link: usize, right: bool) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, link as u8, 1 + right as u8)
}

/// Switch number `index` of a row of `count`: port 0 to the left, port 1 to the right.
fn row_switch(index: usize, count: usize, rate: Rate) -> SwitchSpec {
    let port = |number: usize, address: Ipv4Addr| PortSpec {
        number: unplaced(number),
        address: unplaced(Interface::new(address, PREFIX_LEN)),
    };
    let route = |link: usize, via: Ipv4Addr| RouteSpec {
        prefix: unplaced(Subnet::around(link_address(link, false), PREFIX_LEN)),
        via,
    };
    let mut routes = Vec::new();
    if index > 0 {
        routes.push(route(0, link_address(index, false)));
    }
    if index + 1 < count {
        routes.push(route(count, link_address(index + 1, true)));
    }
    SwitchSpec {
        name: unplaced(format!("sw{}", index + 1)),
        rate,
        ports: four_ports(),
        ideal: false,
        latency_ns: None,
        store_and_forward: true,
        neighbours: Neighbours::Static,
        control: None,
        port: vec![
            port(0, link_address(index, true)),
            port(1, link_address(index + 1, false)),
        ],
        route: routes,
    }
}

impl Fan {
    pub(super) fn host(&self, name: String, ip: Option<Ipv4Addr>) -> HostSpec {
        HostSpec {
            name: unplaced(name),
            kind: HostKind::Native,
            of: None,
            link: None,
            command: None,
            files: Vec::new(),
            fetch: None,
            memory_mb: guest_memory(),
            rdma: false,
            neighbours: Neighbours::Static,
            cpu: CpuSpec::default(),
            nic: NicSpec {
                kind: NicKind::Ipnuma,
                rate: self.rate,
                format: self.format,
                ip,
                reliable: self.nic.reliable,
                auth: self.nic.auth,
                merge: self.nic.merge,
                interrupts: false,
            },
        }
    }

    /// A switch with as many ports as it must have.
    pub(super) fn switch(
        &self,
        name: String,
        port: Vec<PortSpec>,
        route: Vec<RouteSpec>,
    ) -> SwitchSpec {
        SwitchSpec {
            name: unplaced(name),
            rate: self.rate,
            ports: unplaced(if port.len() <= PORTS {
                PORTS
            } else {
                WIDE_PORTS
            }),
            ideal: false,
            latency_ns: None,
            store_and_forward: true,
            neighbours: Neighbours::Static,
            control: None,
            port,
            route,
        }
    }

    pub(super) fn cable(&self, one: String, two: String) -> CableSpec {
        CableSpec {
            between: unplaced([one, two]),
            metres: unplaced(self.metres),
            faults: self.faults,
            cut: None,
        }
    }

    /// All hosts but the last one store to that.
    pub(super) fn topology(
        self,
        host: Vec<HostSpec>,
        switch: Vec<SwitchSpec>,
        cable: Vec<CableSpec>,
    ) -> Topology {
        let mut from: Vec<_> = host.iter().map(|host| host.name.as_ref().clone()).collect();
        let to = from.pop().expect("the sink is there");
        Topology {
            host,
            switch,
            cable,
            program: unplaced(ProgramSpec::Stream {
                from,
                to,
                bytes: self.bytes,
                stores: self.stores,
                rate_gbps: self.rate_gbps,
            }),
            platform: self.platform,
            seed: self.seed,
            cpu: CpuSpec::default(),
            register: BTreeMap::new(),
            path: PathBuf::new(),
        }
    }
}

impl Topology {
    /// A topology of two hosts `pc1` and `pc2` that play ping-pong over a cable.
    pub fn pair(pair: Pair) -> Self {
        Self::row(pair, 0)
    }

    /// The same with `count` switches `sw1`, `sw2`, ... in a row between the hosts.
    pub fn row(pair: Pair, count: usize) -> Self {
        Self::named_row(pair, count, ["pc1", "pc2"].map(str::to_owned))
    }

    fn named_row(pair: Pair, count: usize, names: [String; 2]) -> Self {
        let ips = if count == 0 {
            [None, None]
        } else {
            [link_address(0, false), link_address(count, true)].map(Some)
        };
        let host = |(name, ip): (&String, Option<Ipv4Addr>)| HostSpec {
            name: unplaced(name.clone()),
            kind: HostKind::Native,
            of: None,
            link: None,
            command: None,
            files: Vec::new(),
            fetch: None,
            memory_mb: guest_memory(),
            rdma: false,
            neighbours: Neighbours::Static,
            cpu: CpuSpec::default(),
            nic: NicSpec {
                kind: NicKind::Ipnuma,
                rate: pair.rate,
                format: pair.format,
                ip,
                reliable: pair.nic.reliable,
                auth: pair.nic.auth,
                merge: pair.nic.merge,
                interrupts: false,
            },
        };
        let [first, second] = names.clone();
        let left = |link: usize| match link {
            0 => first.clone(),
            _ => format!("sw{link}:1"),
        };
        let right = |link: usize| match link {
            _ if link == count => second.clone(),
            _ => format!("sw{}:0", link + 1),
        };
        let metres = pair.metres / (count + 1) as f64;
        // The last one has what the others leave, so that all together are as long as they are to be, to the last bit.
        let others: f64 = (0..count).map(|_| metres).sum();
        let cable = |link: usize| CableSpec {
            between: unplaced([left(link), right(link)]),
            metres: unplaced(if link < count {
                metres
            } else {
                pair.metres - others
            }),
            faults: pair.faults,
            cut: None,
        };
        Self {
            host: names.iter().zip(ips).map(host).collect(),
            switch: (0..count)
                .map(|index| row_switch(index, count, pair.rate))
                .collect(),
            cable: (0..=count).map(cable).collect(),
            program: unplaced(ProgramSpec::Pingpong {
                first,
                second,
                bytes: pair.bytes,
                loops: pair.loops,
                warmup: pair.warmup,
            }),
            platform: pair.platform,
            seed: pair.seed,
            cpu: CpuSpec::default(),
            register: BTreeMap::new(),
            path: PathBuf::new(),
        }
    }

    /// Hosts `pc1`, `pc2`, ... that store to the last of them, `sink`: the sink is at port 0 of the switch `sw1`.
    pub fn fan(fan: Fan) -> Self {
        let switched = fan.switch || fan.senders > 1;
        let mut names: Vec<_> = (1..=fan.senders).map(|n| format!("pc{n}")).collect();
        names.push("sink".to_owned());
        let port_of = |host: usize| (host + 1) % (fan.senders + 1);
        let host = |(index, name): (usize, &String)| {
            let ip = switched.then(|| link_address(port_of(index), false));
            fan.host(name.clone(), ip)
        };
        let port = |number: usize| PortSpec {
            number: unplaced(number),
            address: unplaced(Interface::new(link_address(number, true), PREFIX_LEN)),
        };
        let ports = (0..=fan.senders).map(port).collect();
        let switch = fan.switch("sw1".to_owned(), ports, Vec::new());
        let cables = if switched {
            let named = names.iter().enumerate();
            named
                .map(|(index, name)| fan.cable(name.clone(), format!("sw1:{}", port_of(index))))
                .collect()
        } else {
            vec![fan.cable(names[0].clone(), names[1].clone())]
        };
        let hosts = names.iter().enumerate().map(host).collect();
        let switches = if switched { vec![switch] } else { Vec::new() };
        fan.topology(hosts, switches, cables)
    }

    /// The same without faults, without sessions, and with ideal switches: what the figures of a run are held against.
    pub fn ideal(&self) -> Self {
        let mut ideal = self.clone();
        for host in &mut ideal.host {
            host.nic.reliable = false;
            host.nic.auth = false;
        }
        for switch in &mut ideal.switch {
            switch.ideal = true;
            switch.latency_ns = None;
        }
        for cable in &mut ideal.cable {
            cable.faults = Faults::default();
        }
        ideal
    }

    /// Two guests with switches `sw1`, `sw2`, ... in a row between them.
    pub fn guests(row: GuestRow) -> Self {
        let pair = Pair {
            platform: row.platform,
            seed: row.seed,
            rate: row.rate,
            format: Format::Compact,
            metres: row.metres,
            bytes: 4,
            loops: 1,
            warmup: 0,
            nic: NicOptions::default(),
            faults: row.faults,
        };
        let until = vec![row.names[0].clone()];
        let mut topology = Self::named_row(pair, row.switches, row.names);
        for (index, (host, command)) in topology.host.iter_mut().zip(row.commands).enumerate() {
            host.kind = HostKind::Uml;
            host.command = Some(command);
            host.nic.kind = row.nic;
            host.nic.ip = Some(link_address(index * row.switches, index == 1));
        }
        for switch in &mut topology.switch {
            switch.ports = unplaced(NARROW_PORTS);
            switch.latency_ns = row
                .latency_ns
                .map(|ns| unplaced(SwitchLatency::Constant(ns)));
        }
        topology.cpu = row.cpu;
        topology.program = unplaced(ProgramSpec::Uml {
            until,
            limit_s: row.limit_s,
        });
        topology
    }

    /// Guests around the switch `sw1`: the clients at its first ports in their order, the server at the next.
    pub fn guest_star(star: GuestStar) -> Self {
        let fan = Fan {
            platform: star.platform,
            seed: star.seed,
            rate: star.rate,
            format: Format::Compact,
            senders: star.clients.len(),
            switch: true,
            metres: star.metres,
            bytes: 4,
            stores: 1,
            rate_gbps: None,
            nic: NicOptions::default(),
            faults: star.faults,
        };
        let until = star.clients.iter().map(|(name, _)| name.clone()).collect();
        let ends: Vec<_> = star.clients.into_iter().chain([star.server]).collect();
        let ports = (0..ends.len()).map(|number| PortSpec {
            number: unplaced(number),
            address: unplaced(Interface::new(link_address(number, true), PREFIX_LEN)),
        });
        let switch = SwitchSpec {
            ports: unplaced(GuestStar::ports(ends.len() - 1)),
            latency_ns: star
                .latency_ns
                .map(|ns| unplaced(SwitchLatency::Constant(ns))),
            ..fan.switch("sw1".to_owned(), ports.collect(), Vec::new())
        };
        let cables = ends.iter().enumerate();
        let cables = cables
            .map(|(number, (name, _))| fan.cable(name.clone(), format!("sw1:{number}")))
            .collect();
        let hosts = ends.into_iter().enumerate();
        let hosts = hosts.map(|(number, (name, command))| {
            let host = fan.host(name, Some(GuestStar::address(number)));
            HostSpec {
                kind: HostKind::Uml,
                command: Some(command),
                nic: NicSpec {
                    kind: star.nic,
                    ..host.nic
                },
                ..host
            }
        });
        Self {
            cpu: star.cpu,
            host: hosts.collect(),
            switch: vec![switch],
            cable: cables,
            program: unplaced(ProgramSpec::Uml {
                until,
                limit_s: star.limit_s,
            }),
            platform: fan.platform,
            seed: fan.seed,
            register: BTreeMap::new(),
            path: PathBuf::new(),
        }
    }
}
