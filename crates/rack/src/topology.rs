// SPDX-License-Identifier: Apache-2.0
//! Topologies: which hosts, NICs and cables there are, and what runs on them.

use std::net::Ipv4Addr;
use std::path::Path;

use ipnuma_rtl::NetSpeed;
use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, line_of, located};
use crate::pcie::LinkKind;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The short form.
    Compact,
    /// The whole TLP.
    Tlp,
}

/// A NIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicSpec {
    /// Line rate.
    pub rate: Rate,
    /// Format of the stores that it sends.
    pub format: Format,
    /// IPv4 address; 10.0.0.1 and up if absent.
    pub ip: Option<Ipv4Addr>,
}

/// A host with one NIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Name.
    pub name: Spanned<String>,
    /// PCI Express link of the NIC; the platform's if absent.
    pub link: Option<LinkKind>,
    /// The NIC.
    pub nic: NicSpec,
}

/// A cable between two NICs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CableSpec {
    /// Names of the two hosts.
    pub between: Spanned<[String; 2]>,
    /// Length.
    pub metres: Spanned<f64>,
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
}

const fn four() -> usize {
    4
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
    /// Cables.
    #[serde(default)]
    pub cable: Vec<CableSpec>,
    /// The program.
    pub program: Spanned<ProgramSpec>,
}

/// Two hosts and a cable: what the command line describes without a file.
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
    /// Length of the cable.
    pub metres: f64,
    /// Bytes of a message.
    pub bytes: usize,
    /// Measured round trips.
    pub loops: u64,
    /// Round trips before measuring.
    pub warmup: u64,
}

impl Topology {
    /// A topology of two hosts `pc1` and `pc2` that play ping-pong.
    pub fn pair(pair: Pair) -> Self {
        let names = ["pc1", "pc2"].map(str::to_owned);
        let host = |name: &String| HostSpec {
            name: Spanned::new(0..0, name.clone()),
            link: None,
            nic: NicSpec {
                rate: pair.rate,
                format: pair.format,
                ip: None,
            },
        };
        let [first, second] = names.clone();
        Self {
            host: names.iter().map(host).collect(),
            cable: vec![CableSpec {
                between: Spanned::new(0..0, names),
                metres: Spanned::new(0..0, pair.metres),
            }],
            program: Spanned::new(
                0..0,
                ProgramSpec::Pingpong {
                    first,
                    second,
                    bytes: pair.bytes,
                    loops: pair.loops,
                    warmup: pair.warmup,
                },
            ),
            platform: pair.platform,
            seed: pair.seed,
        }
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

    fn known(&self) -> String {
        let names: Vec<_> = self
            .host
            .iter()
            .map(|host| host.name.as_ref().as_str())
            .collect();
        names.join(", ")
    }

    /// Everything that the schema does not say; the offset tells the line.
    fn check(&self) -> Result<(), (usize, String)> {
        if self.host.len() < 2 {
            return Err((
                0,
                "host: a rack has at least two hosts; add a [[host]]".to_owned(),
            ));
        }
        for (index, host) in self.host.iter().enumerate() {
            if self.host_index(host.name.as_ref()) != Some(index) {
                return Err((
                    host.name.span().start,
                    format!(
                        "host.name: `{}` is there twice; rename one",
                        host.name.as_ref()
                    ),
                ));
            }
        }
        let mut plugged = vec![false; self.host.len()];
        for cable in &self.cable {
            let place = cable.between.span().start;
            let [one, two] = cable.between.as_ref();
            let index_of = |name: &str| {
                self.host_index(name).ok_or_else(|| {
                    let known = self.known();
                    (
                        place,
                        format!("cable.between: there is no host `{name}`; the hosts are {known}"),
                    )
                })
            };
            let ends = [index_of(one)?, index_of(two)?];
            if ends[0] == ends[1] {
                return Err((
                    place,
                    "cable.between: a cable joins two different hosts".to_owned(),
                ));
            }
            for end in ends {
                if std::mem::replace(&mut plugged[end], true) {
                    let name = self.host[end].name.as_ref();
                    let sentence = format!(
                        "cable.between: the NIC of `{name}` has a cable already; it has one port"
                    );
                    return Err((place, sentence));
                }
            }
            let [a, b] = ends.map(|end| self.host[end].nic.rate);
            if a != b {
                return Err((
                    place,
                    "cable.between: the two NICs have different rates; make them equal".to_owned(),
                ));
            }
            let metres = *cable.metres.as_ref();
            if !(0.0..=100_000.0).contains(&metres) {
                return Err((
                    cable.metres.span().start,
                    format!("cable.metres: {metres} is no length; write 0 to 100000"),
                ));
            }
        }
        self.check_program()
    }

    fn check_program(&self) -> Result<(), (usize, String)> {
        let place = self.program.span().start;
        let ProgramSpec::Pingpong {
            first,
            second,
            bytes,
            loops,
            ..
        } = self.program.as_ref();
        for (key, name) in [("first", first), ("second", second)] {
            if self.host_index(name).is_none() {
                let known = self.known();
                return Err((
                    place,
                    format!("program.{key}: there is no host `{name}`; the hosts are {known}"),
                ));
            }
        }
        let joined = self.cable.iter().any(|cable| {
            let ends = cable.between.as_ref();
            ends.contains(first) && ends.contains(second)
        });
        if !joined {
            let sentence =
                format!("program: no cable joins `{first}` and `{second}`; add a [[cable]]");
            return Err((place, sentence));
        }
        check_pingpong(*bytes, *loops).map_err(|sentence| (place, format!("program.{sentence}")))
    }
}

/// Limits of the ping-pong program, for topologies and command lines.
pub fn check_pingpong(bytes: usize, loops: u64) -> Result<(), String> {
    if !(4..=64).contains(&bytes) || !bytes.is_multiple_of(4) {
        return Err(format!(
            "bytes: {bytes} is not a multiple of 4 from 4 to 64"
        ));
    }
    if !(1..=100_000_000).contains(&loops) {
        return Err(format!("loops: {loops} is not from 1 to 100000000"));
    }
    Ok(())
}
