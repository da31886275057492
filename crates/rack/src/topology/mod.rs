// SPDX-License-Identifier: Apache-2.0
//! Topologies: which hosts, NICs, switches and cables there are, and what runs on them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use ipnuma_rtl::NetSpeed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::address::{Interface, Subnet};
use crate::cpu::CpuSpec;
use crate::error::{Error, located_at};
use crate::faults::{Cut, Faults};
use crate::host::LINE_BYTES;
use crate::model::{PORTS, WIDE_PORTS};
use crate::pcie::LinkKind;
use crate::text;
use input::own_words;

mod build;
mod check;
mod place;
mod route;
mod tree;

pub use build::{Fan, GuestRow, GuestStar, NicOptions, Pair};
pub use check::{check_pingpong, check_stream, check_warmup};

/// Line rate as users write it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum Rate {
    /// XGMII.
    #[serde(rename = "10g")]
    Ten,
    /// GMII.
    #[serde(rename = "1g")]
    One,
}

impl Rate {
    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ten => "10g",
            Self::One => "1g",
        }
    }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The short form.
    #[default]
    Compact,
    /// The whole TLP.
    Tlp,
}

/// What a NIC is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NicKind {
    /// The IP-NUMA NIC in RTL.
    #[default]
    Ipnuma,
    /// The conventional NIC in RTL, with rings of descriptors.
    Ring,
    /// Both in RTL with one cable and one address, as two functions of one device.
    Shared,
    /// The conventional NIC and the RDMA engine in RTL, with one cable and one address, as two functions of one device; 10G.
    Uzura,
    /// No RTL: the frames of a guest go to the cable as they are.
    Virtio,
    /// No NIC: the guest is the host of a switch (`switch.control`), and each port of that is a network device of it.
    #[serde(rename = "host-port")]
    HostPort,
    /// The TCP offload engine in RTL, of a host that is no guest: echo, discard, chargen and HTTP are behind it; 10G.
    Toe,
}

impl NicKind {
    /// Which PCI device of a guest the IP-NUMA NIC is, where it has one.
    pub const fn ipnuma_device(self) -> usize {
        match self {
            // The function behind the conventional NIC's.
            Self::Shared => 1,
            _ => 0,
        }
    }
}

/// A NIC.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// A guest's driver finds no BAR 4, which stands for a core that polls: as on a board, the NIC's interrupts wake who
    /// waits, each of which costs the processor `interrupt_ns`, and stores cost it nothing.
    #[serde(default)]
    pub interrupts: bool,
}

const fn yes() -> bool {
    true
}

/// What the CPU of a host runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// A program of the rack itself.
    #[default]
    Native,
    /// A whole Linux: User-Mode Linux on the rack's clock.
    Uml,
    /// No machine: one more network card of a guest (`of`), with a PCI Express link and a cable of its own.
    Card,
}

/// A host with one NIC.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Name.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// What its CPU runs.
    #[serde(default)]
    pub kind: HostKind,
    /// Of a card: the guest that it is in. A guest with cards forwards IPv4 between its networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub of: Option<Spanned<String>>,
    /// PCI Express link of the NIC; the platform's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = r"^Gen[1-5]x(1|2|4|8|16)$"))]
    pub link: Option<LinkKind>,
    /// The NIC.
    #[serde(deserialize_with = "place::table")]
    pub nic: NicSpec,
    /// Of a guest: the command for its shell. The guest ends with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Of a guest: files that it finds in its directory, named from where the topology is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathBuf>,
    /// Of a host with a TCP offload engine: what it fetches by HTTP, as `HOST:PORT/PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<String>,
    /// Of a guest: memory in MB.
    #[serde(default = "guest_memory")]
    pub memory_mb: u32,
    /// Of a guest: its kernel has verbs, and RoCEv2 in software (`rdma link add`); so it is with an `uzura` NIC.
    #[serde(default)]
    pub rdma: bool,
    /// Of a guest: how its kernel comes to know the MAC addresses of its neighbours.
    #[serde(default)]
    pub neighbours: Neighbours,
    /// Of a guest: costs of its CPU that are not those of the rack.
    #[serde(
        default,
        deserialize_with = "place::table",
        skip_serializing_if = "CpuSpec::is_empty"
    )]
    pub cpu: CpuSpec,
}

/// How a switch comes to know the MAC addresses of its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Neighbours {
    /// They are written into its tables before the programs begin.
    #[default]
    Static,
    /// By ARP: an agent behind the host port asks, and holds the frame that needed the answer.
    Learn,
}

/// Latency of a switch: constant, or by the length of the frame (with FCS) and linear between the given ones.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
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
        if let Some(pair) = points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("{} bytes are there twice; remove one", pair[0].0));
        }
        match points.iter().find(|(_, ns)| !(0.0..=1e9).contains(ns)) {
            Some((_, ns)) => Err(format!("{ns} is no latency; write 0 to 1000000000 ns")),
            None if points.is_empty() => Err("no latency is given; write one".to_owned()),
            None => Ok(points),
        }
    }
}

/// A port of a switch with its own subnet.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSpec {
    /// 0 to 3; to 8 with nine ports.
    #[schemars(with = "usize")]
    pub number: Spanned<usize>,
    /// Its own address, with the length of the subnet's prefix.
    #[schemars(with = "String")]
    pub address: Spanned<Interface>,
}

/// A static route of a switch.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// Where to.
    #[schemars(with = "String")]
    pub prefix: Spanned<Subnet>,
    /// The gateway: an address at the other end of a cable.
    pub via: Ipv4Addr,
}

/// A switch.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Name.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// Line rate of all its ports.
    pub rate: Rate,
    /// How many there are: 4, 2 or 9.
    #[serde(default = "four_ports")]
    #[schemars(with = "usize")]
    pub ports: Spanned<usize>,
    /// Not the RTL: a switch of the same latency whose outputs have queues without end, to compare with.
    #[serde(default)]
    pub ideal: bool,
    /// Not the RTL: a switch with this latency, from the first bit in to the first bit out with its physical layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SwitchLatency>")]
    pub latency_ns: Option<Spanned<SwitchLatency>>,
    /// Of a switch with `latency_ns`: whether a frame must be in it whole before it leaves.
    #[serde(default = "yes")]
    pub store_and_forward: bool,
    /// How it knows its neighbours.
    #[serde(default)]
    pub neighbours: Neighbours,
    /// The guest that is its host, and writes its tables; without it the rack does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub control: Option<Spanned<String>>,
    /// Ports in use.
    pub port: Vec<PortSpec>,
    /// Routes to subnets that are not its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<RouteSpec>,
}

/// A cable between two NICs, two switches, or one of each.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CableSpec {
    /// The two ends: the name of a host, or `SWITCH:PORT`.
    #[serde(deserialize_with = "place::two_ends")]
    #[schemars(with = "[String; 2]")]
    pub between: Spanned<[String; 2]>,
    /// Length.
    #[schemars(with = "f64")]
    pub metres: Spanned<f64>,
    /// What goes wrong on it, in both directions.
    #[serde(
        default,
        deserialize_with = "place::table",
        skip_serializing_if = "Faults::is_none"
    )]
    pub faults: Faults,
    /// When it is cut, in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// One end of a cable, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The NIC of a host.
    Host(usize),
    /// A switch and the number of its port.
    Switch(usize, usize),
}

/// Something that is fetched by HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// Number of the host that has it.
    pub host: usize,
    /// Port of its server.
    pub port: u16,
    /// Path, with its slash.
    pub path: &'a str,
}

/// What runs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
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
        #[serde(skip_serializing_if = "Option::is_none")]
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
    build::unplaced(PORTS)
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
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switch: Vec<SwitchSpec>,
    /// Cables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cable: Vec<CableSpec>,
    /// Costs of the guests' CPUs that are not the published ones.
    #[serde(
        default,
        deserialize_with = "place::table",
        skip_serializing_if = "CpuSpec::is_empty"
    )]
    pub cpu: CpuSpec,
    /// Registers of every NIC that are not to have their reset values, by name, such as `WINDOW`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub register: BTreeMap<String, u32>,
    /// The program.
    #[schemars(with = "ProgramSpec")]
    pub program: Spanned<ProgramSpec>,
    /// Where it was read, if it was.
    #[serde(skip)]
    pub path: PathBuf,
}

/// Most senders of [`Topology::fan`].
pub const MOST_SENDERS: usize = WIDE_PORTS - 1;

/// Most switches of a rack; the subnets of [`Topology::row`] are numbered by a byte, and a packet lives for 64 hops.
pub const MOST_SWITCHES: usize = 16;
/// Prefix length of the subnets of [`Topology::row`], and of a NIC without a switch.
const PREFIX_LEN: u8 = 24;

impl Topology {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::parse(&text::read("topology", path)?, path)
    }

    /// The JSON schema of the file.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(Self)
    }

    /// As a file.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a topology has tables, lists, texts and numbers only")
    }

    /// Checks a text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let mut topology: Self = toml::from_str(text).map_err(|error| {
            let offset = place::of_error(text, &error);
            located_at(path, text, offset, &own_words(error.message()))
        })?;
        path.clone_into(&mut topology.path);
        let checked = topology.check().and_then(|()| topology.check_platform());
        checked.map_err(|(offset, sentence)| {
            let offset = place::of_sentence(text, offset, &sentence);
            located_at(path, text, offset, &sentence)
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

    /// A file that the topology names from where it is.
    pub fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    /// Index of a host.
    pub fn host_index(&self, name: &str) -> Option<usize> {
        self.host.iter().position(|host| host.name.as_ref() == name)
    }

    /// The switch that a guest is the host of.
    pub fn switch_of(&self, host: usize) -> Option<usize> {
        let name = self.host[host].name.as_ref();
        let mut switches = self.switch.iter();
        switches.position(|switch| {
            let control = switch.control.as_ref();
            control.is_some_and(|control| control.as_ref() == name)
        })
    }

    /// The cards that a guest has beside its first NIC, in their order.
    pub fn cards(&self, host: usize) -> Vec<usize> {
        let all = 0..self.host.len();
        all.filter(|card| self.guest_of(*card) == Some(host))
            .collect()
    }

    /// The guest that a card is in.
    pub fn guest_of(&self, card: usize) -> Option<usize> {
        self.host_index(self.host[card].of.as_ref()?.as_ref())
    }

    /// Whether a NIC is one of several of a guest, which is a router then.
    pub fn is_routers(&self, host: usize) -> bool {
        self.host[host].of.is_some() || !self.cards(host).is_empty()
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
        let spec = self.switch[index].port(port.parse().ok()?)?;
        let number = *spec.number.as_ref();
        // `00` and `+0` are no numbers of ports.
        (number.to_string() == port).then_some(End::Switch(index, number))
    }

    /// What a `fetch` names; the sentence says why it names nothing.
    pub fn fetch<'a>(&self, text: &'a str) -> Result<Fetch<'a>, String> {
        let wrong = || format!("`{text}` names nothing to fetch; write HOST:PORT/PATH");
        let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (port, path) = rest
            .find('/')
            .map(|at| rest.split_at(at))
            .ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        if port == 0 || path.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(wrong());
        }
        let host = self
            .host_index(name)
            .ok_or_else(|| format!("there is no host `{name}`; name one of this file"))?;
        Ok(Fetch { host, port, path })
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

    /// The gateway of a host: the switch port, or the NIC of a router, that its cable leads to.
    pub fn gateway(&self, host: usize) -> Option<Interface> {
        match self.opposite(End::Host(host))? {
            // Routers know of each other what their commands tell them.
            End::Host(other) => (self.is_routers(other) && !self.is_routers(host))
                .then(|| Interface::new(self.host_ip(other), PREFIX_LEN)),
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
        f.write_str(self.name())
    }
}
