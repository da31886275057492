// SPDX-License-Identifier: Apache-2.0
//! Topologies: which hosts, NICs, switches and cables there are, and what runs on them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;

use ipnuma_rtl::NetSpeed;
use serde::Deserialize;
use toml::Spanned;

use crate::address::{Interface, Subnet};
use crate::cpu::CpuSpec;
use crate::error::{Error, line_of, located};
use crate::faults::Faults;
use crate::host::LINE_BYTES;
use crate::model::{PORTS, WIDE_PORTS};
use crate::pcie::LinkKind;

mod check;
mod route;

/// Line rate as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Rate {
    /// XGMII.
    #[serde(rename = "10g")]
    Ten,
    /// GMII.
    #[serde(rename = "1g")]
    One,
}

impl From<Rate> for NetSpeed {
    fn from(rate: Rate) -> Self {
        match rate {
            Rate::Ten => Self::TenGig,
            Rate::One => Self::OneGig,
        }
    }
}

/// Packet format of stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The short form.
    #[default]
    Compact,
    /// The whole TLP.
    Tlp,
}

/// What a NIC is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NicKind {
    /// The IP-NUMA NIC in RTL.
    #[default]
    Ipnuma,
    /// The conventional NIC in RTL, with rings of descriptors.
    Ring,
    /// No RTL: the frames of a guest go to the cable as they are.
    Virtio,
}

/// A NIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicSpec {
    /// What it is.
    #[serde(default)]
    pub kind: NicKind,
    /// Line rate.
    pub rate: Rate,
    /// Format of the stores that it sends.
    #[serde(default)]
    pub format: Format,
    /// IPv4 address; 10.0.0.1 and up if absent. Netmask and gateway are those of the switch port at the other end of
    /// its cable.
    pub ip: Option<Ipv4Addr>,
    /// Stores and loads belong to sessions: acknowledged, sent again, in order, once.
    #[serde(default = "yes")]
    pub reliable: bool,
    /// Sessions are sealed: AES-GCM with keys that the topology's seed draws.
    #[serde(default)]
    pub auth: bool,
    /// Stores that wait anyway may travel in one frame.
    #[serde(default)]
    pub merge: bool,
}

const fn yes() -> bool {
    true
}

/// What the CPU of a host runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// A program of the rack itself.
    #[default]
    Native,
    /// A whole Linux: User-Mode Linux on the rack's clock.
    Uml,
}

/// A host with one NIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Name.
    pub name: Spanned<String>,
    /// What its CPU runs.
    #[serde(default)]
    pub kind: HostKind,
    /// PCI Express link of the NIC; the platform's if absent.
    pub link: Option<LinkKind>,
    /// The NIC.
    pub nic: NicSpec,
    /// Of a guest: the command for its shell. The guest ends with it.
    pub command: Option<String>,
    /// Of a guest: memory in MB.
    #[serde(default = "guest_memory")]
    pub memory_mb: u32,
    /// Of a guest: how its kernel comes to know the MAC addresses of its neighbours.
    #[serde(default)]
    pub neighbours: Neighbours,
    /// Of a guest: costs of its CPU that are not those of the rack.
    #[serde(default)]
    pub cpu: CpuSpec,
}

/// How a switch comes to know the MAC addresses of its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Neighbours {
    /// They are written into its tables before the programs begin.
    #[default]
    Static,
    /// By ARP: an agent behind the host port asks, and holds the frame that needed the answer.
    Learn,
}

/// Latency of a switch: constant, or by the length of the frame (with FCS) and linear between the given ones.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum SwitchLatency {
    /// The same for all.
    Constant(f64),
    /// Nanoseconds by bytes.
    BySize(BTreeMap<String, f64>),
}

impl SwitchLatency {
    /// Bytes and nanoseconds, the shortest frame first; the error is a sentence.
    pub fn points(&self) -> Result<Vec<(usize, f64)>, String> {
        let mut points = match self {
            Self::Constant(ns) => vec![(0, *ns)],
            Self::BySize(map) => {
                let mut points = Vec::new();
                for (bytes, ns) in map {
                    let bytes: usize = bytes.parse().map_err(|_| {
                        format!("`{bytes}` is no length; write bytes, as in {{ 64 = 4072 }}")
                    })?;
                    points.push((bytes, *ns));
                }
                points
            }
        };
        points.sort_by_key(|(bytes, _)| *bytes);
        match points.iter().find(|(_, ns)| !(0.0..=1e9).contains(ns)) {
            Some((_, ns)) => Err(format!("{ns} is no latency; write 0 to 1000000000 ns")),
            None if points.is_empty() => Err("no latency is given; write one".to_owned()),
            None => Ok(points),
        }
    }
}

/// A port of a switch with its own subnet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSpec {
    /// 0 to 3; to 8 with nine ports.
    pub number: Spanned<usize>,
    /// Its own address, with the length of the subnet's prefix.
    pub address: Spanned<Interface>,
}

/// A static route of a switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// Where to.
    pub prefix: Spanned<Subnet>,
    /// The gateway: an address at the other end of a cable.
    pub via: Ipv4Addr,
}

/// A switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Name.
    pub name: Spanned<String>,
    /// Line rate of all its ports.
    pub rate: Rate,
    /// How many there are: 4, or 2, or at 10G 9.
    #[serde(default = "four_ports")]
    pub ports: Spanned<usize>,
    /// Not the RTL: a switch of the same latency whose outputs have queues without end, to compare with.
    #[serde(default)]
    pub ideal: bool,
    /// Not the RTL: a switch with this latency, from the first bit in to the first bit out with its physical layers.
    pub latency_ns: Option<Spanned<SwitchLatency>>,
    /// Of a switch with `latency_ns`: whether a frame must be in it whole before it leaves.
    #[serde(default = "yes")]
    pub store_and_forward: bool,
    /// How it knows its neighbours.
    #[serde(default)]
    pub neighbours: Neighbours,
    /// Ports in use.
    pub port: Vec<PortSpec>,
    /// Routes to subnets that are not its own.
    #[serde(default)]
    pub route: Vec<RouteSpec>,
}

/// A cable between two NICs, two switches, or one of each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CableSpec {
    /// The two ends: the name of a host, or `SWITCH:PORT`.
    pub between: Spanned<[String; 2]>,
    /// Length.
    pub metres: Spanned<f64>,
    /// What goes wrong on it, in both directions.
    #[serde(default)]
    pub faults: Faults,
}

/// One end of a cable, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The NIC of a host.
    Host(usize),
    /// A switch and the number of its port.
    Switch(usize, usize),
}

/// What runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "lowercase")]
pub enum ProgramSpec {
    /// Figure 4.3: a number goes back and forth, each side adds 1.
    Pingpong {
        /// The host that begins and measures.
        first: String,
        /// The other one.
        second: String,
        /// Bytes of a message: 4 to 64, a multiple of 4.
        #[serde(default = "four")]
        bytes: usize,
        /// Measured round trips.
        #[serde(default = "thousand")]
        loops: u64,
        /// Round trips before measuring.
        #[serde(default = "ten")]
        warmup: u64,
    },
    /// Hosts store to one host as fast as they can, or at a rate.
    Stream {
        /// The hosts that send.
        from: Vec<String>,
        /// The host that receives.
        to: String,
        /// Bytes of a store: 4 to 64, a multiple of 4.
        #[serde(default = "line")]
        bytes: usize,
        /// Stores of each sender.
        #[serde(default = "thousand")]
        stores: u64,
        /// Gigabits of data a second that each sender offers; as fast as the bus lets it if absent.
        rate_gbps: Option<f64>,
    },
    /// The guests' own commands; it ends when those of `until` have ended.
    Uml {
        /// The guests whose end is waited for; all that have a command if empty.
        #[serde(default)]
        until: Vec<String>,
        /// Simulated seconds after which it has failed.
        #[serde(default = "minute")]
        limit_s: f64,
    },
}

const fn guest_memory() -> u32 {
    128
}
const fn minute() -> f64 {
    60.0
}
fn four_ports() -> Spanned<usize> {
    unplaced(PORTS)
}
const fn four() -> usize {
    4
}
const fn line() -> usize {
    LINE_BYTES
}
const fn thousand() -> u64 {
    1_000
}
const fn ten() -> u64 {
    10
}

/// A whole rack.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Platform: a built-in name or the path of a .toml file.
    pub platform: String,
    /// Draws the clock phases.
    #[serde(default)]
    pub seed: u64,
    /// Hosts.
    pub host: Vec<HostSpec>,
    /// Switches.
    #[serde(default)]
    pub switch: Vec<SwitchSpec>,
    /// Cables.
    #[serde(default)]
    pub cable: Vec<CableSpec>,
    /// Costs of the guests' CPUs that are not the published ones.
    #[serde(default)]
    pub cpu: CpuSpec,
    /// Registers of every NIC that are not to have their reset values, by name, such as `WINDOW`.
    #[serde(default)]
    pub register: BTreeMap<String, u32>,
    /// The program.
    pub program: Spanned<ProgramSpec>,
}

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

/// Most senders of [`Topology::fan`].
pub const MOST_SENDERS: usize = WIDE_PORTS - 1;

/// Most switches of a rack; the subnets of [`Topology::row`] are numbered by a byte, and a packet lives for 64 hops.
pub const MOST_SWITCHES: usize = 16;
/// Prefix length of the subnets of [`Topology::row`], and of a NIC without a switch.
const PREFIX_LEN: u8 = 24;

fn unplaced<T>(value: T) -> Spanned<T> {
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
        port: vec![
            port(0, link_address(index, true)),
            port(1, link_address(index + 1, false)),
        ],
        route: routes,
    }
}

impl Topology {
    /// A topology of two hosts `pc1` and `pc2` that play ping-pong over a cable.
    pub fn pair(pair: Pair) -> Self {
        Self::row(pair, 0)
    }

    /// The same with `count` switches `sw1`, `sw2`, ... in a row between the hosts.
    pub fn row(pair: Pair, count: usize) -> Self {
        let names = ["pc1", "pc2"].map(str::to_owned);
        let ips = if count == 0 {
            [None, None]
        } else {
            [link_address(0, false), link_address(count, true)].map(Some)
        };
        let host = |(name, ip): (&String, Option<Ipv4Addr>)| HostSpec {
            name: unplaced(name.clone()),
            kind: HostKind::Native,
            link: None,
            command: None,
            memory_mb: guest_memory(),
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
        let cable = |link: usize| CableSpec {
            between: unplaced([left(link), right(link)]),
            metres: unplaced(metres),
            faults: pair.faults,
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
        }
    }

    /// Hosts `pc1`, `pc2`, ... that store to the last of them, `sink`: the sink is at port 0 of the switch `sw1`.
    pub fn fan(fan: Fan) -> Self {
        let switched = fan.switch || fan.senders > 1;
        let mut names: Vec<_> = (1..=fan.senders).map(|n| format!("pc{n}")).collect();
        names.push("sink".to_owned());
        let port_of = |host: usize| (host + 1) % (fan.senders + 1);
        let host = |(index, name): (usize, &String)| HostSpec {
            name: unplaced(name.clone()),
            kind: HostKind::Native,
            link: None,
            command: None,
            memory_mb: guest_memory(),
            neighbours: Neighbours::Static,
            cpu: CpuSpec::default(),
            nic: NicSpec {
                kind: NicKind::Ipnuma,
                rate: fan.rate,
                format: fan.format,
                ip: switched.then(|| link_address(port_of(index), false)),
                reliable: fan.nic.reliable,
                auth: fan.nic.auth,
                merge: fan.nic.merge,
            },
        };
        let port = |number: usize| PortSpec {
            number: unplaced(number),
            address: unplaced(Interface::new(link_address(number, true), PREFIX_LEN)),
        };
        let switch = SwitchSpec {
            name: unplaced("sw1".to_owned()),
            rate: fan.rate,
            ports: unplaced(if fan.senders < PORTS {
                PORTS
            } else {
                WIDE_PORTS
            }),
            ideal: false,
            latency_ns: None,
            store_and_forward: true,
            neighbours: Neighbours::Static,
            port: (0..=fan.senders).map(port).collect(),
            route: Vec::new(),
        };
        let cable = |one: String, two: String| CableSpec {
            between: unplaced([one, two]),
            metres: unplaced(fan.metres),
            faults: fan.faults,
        };
        let cables = if switched {
            let named = names.iter().enumerate();
            named
                .map(|(index, name)| cable(name.clone(), format!("sw1:{}", port_of(index))))
                .collect()
        } else {
            vec![cable(names[0].clone(), names[1].clone())]
        };
        let (to, from) = names.split_last().expect("the sink is there");
        Self {
            host: names.iter().enumerate().map(host).collect(),
            switch: if switched { vec![switch] } else { Vec::new() },
            cable: cables,
            program: unplaced(ProgramSpec::Stream {
                from: from.to_vec(),
                to: to.clone(),
                bytes: fan.bytes,
                stores: fan.stores,
                rate_gbps: fan.rate_gbps,
            }),
            platform: fan.platform,
            seed: fan.seed,
            cpu: CpuSpec::default(),
            register: BTreeMap::new(),
        }
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

    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::Config(format!(
                "cannot read the topology {}: {error}",
                path.display()
            ))
        })?;
        Self::parse(&text, path)
    }

    /// Checks a text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let topology: Self = toml::from_str(text).map_err(|error| located(path, text, &error))?;
        topology.check().map_err(|(offset, sentence)| {
            let line = line_of(text, offset);
            Error::Config(format!("{}, line {line}: {sentence}", path.display()))
        })?;
        Ok(topology)
    }

    /// Checks a topology that does not come from a file.
    pub fn checked(self) -> Result<Self, Error> {
        match self.check() {
            Ok(()) => Ok(self),
            Err((_, sentence)) => Err(Error::Config(sentence)),
        }
    }

    /// Index of a host.
    pub fn host_index(&self, name: &str) -> Option<usize> {
        self.host.iter().position(|host| host.name.as_ref() == name)
    }

    /// Index of a switch.
    pub fn switch_index(&self, name: &str) -> Option<usize> {
        let mut switches = self.switch.iter();
        switches.position(|switch| switch.name.as_ref() == name)
    }

    /// Address of a host's NIC.
    pub fn host_ip(&self, host: usize) -> Ipv4Addr {
        let default = Ipv4Addr::from_bits(0x0A00_0001 + host as u32);
        self.host[host].nic.ip.unwrap_or(default)
    }

    /// The end that a cable names, if there is such a thing.
    pub fn end(&self, name: &str) -> Option<End> {
        if let Some(host) = self.host_index(name) {
            return Some(End::Host(host));
        }
        let (switch, port) = name.rsplit_once(':')?;
        let index = self.switch_index(switch)?;
        let port = port.parse().ok()?;
        self.switch[index]
            .port(port)
            .map(|_| End::Switch(index, port))
    }

    /// Both ends of a cable; none if the topology was not checked.
    pub fn ends(&self, cable: &CableSpec) -> Option<[End; 2]> {
        let [one, two] = cable.between.as_ref();
        Some([self.end(one)?, self.end(two)?])
    }

    /// The other end of the cable at an end.
    pub fn opposite(&self, end: End) -> Option<End> {
        self.cable.iter().find_map(|cable| {
            let [one, two] = self.ends(cable)?;
            match end {
                _ if end == one => Some(two),
                _ if end == two => Some(one),
                _ => None,
            }
        })
    }

    /// IPv4 address at an end.
    pub fn address(&self, end: End) -> Ipv4Addr {
        match end {
            End::Host(host) => self.host_ip(host),
            End::Switch(switch, port) => self.switch[switch]
                .port(port)
                .map_or(Ipv4Addr::UNSPECIFIED, |port| port.address.as_ref().address),
        }
    }

    /// The switch port that a host's cable leads to, if it does: its gateway.
    pub fn gateway(&self, host: usize) -> Option<Interface> {
        match self.opposite(End::Host(host))? {
            End::Host(_) => None,
            End::Switch(switch, port) => self.switch[switch]
                .port(port)
                .map(|port| *port.address.as_ref()),
        }
    }

    /// Prefix length of a host's subnet.
    pub fn prefix_len(&self, host: usize) -> u8 {
        self.gateway(host)
            .map_or(PREFIX_LEN, |gateway| gateway.subnet.len())
    }
}

impl SwitchSpec {
    /// A port by its number.
    pub fn port(&self, number: usize) -> Option<&PortSpec> {
        self.port
            .iter()
            .find(|port| *port.number.as_ref() == number)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ten => "10g",
            Self::One => "1g",
        })
    }
}

pub use check::{check_pingpong, check_stream};
