// SPDX-License-Identifier: Apache-2.0
//! Platforms: everything that is assumed and not simulated, each figure with its source.

use std::collections::BTreeMap;
use std::path::Path;

use ipnuma_rtl::NetSpeed;
use serde::Deserialize;

use crate::error::{Error, located};
use crate::pcie::LinkKind;
use crate::text;
use crate::time::Picoseconds;

/// Header, data and no framing of a 4-byte memory write: the TLP for which one-way latencies are stated.
const REFERENCE_TLP_BYTES: usize = 16;
/// Bytes of a read request with a 3-DW header.
const READ_TLP_BYTES: usize = 12;
/// Bytes of a completion with 4 bytes of data.
const COMPLETION_TLP_BYTES: usize = 16;

/// How a constant came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The source measured it.
    Measured,
    /// The source states it as an estimate or a specification.
    Stated,
    /// Computed from figures of the source; the note says how.
    Derived,
    /// Chosen so that a run comes to a measured figure: of what passes there it says nothing.
    Fitted,
}

/// One constant, or the fact that there is none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    ns: Option<f64>,
    /// One value for each PCI Express link that the source has.
    ns_by_link: Option<BTreeMap<LinkKind, f64>>,
    /// The link at which `ns` was found, where the figure contains serialisation.
    reference_link: Option<LinkKind>,
    /// How it came to be.
    pub origin: Option<Origin>,
    /// Where it stands.
    pub source: Option<String>,
    /// Its address, if the source is on the net.
    pub url: Option<String>,
    /// What else must be known.
    pub note: Option<String>,
    /// Whether the figure was read in its source, and not quoted from memory.
    #[serde(default = "yes")]
    pub checked: bool,
}

const fn yes() -> bool {
    true
}

impl Constant {
    /// The value for a link, if there is one.
    pub fn at(&self, link: LinkKind) -> Option<Picoseconds> {
        self.ns_by_link
            .as_ref()
            .and_then(|map| map.get(&link).copied())
            .or(self.ns)
            .map(Picoseconds::from_ns_f64)
    }

    /// The value, if it does not depend on the link.
    pub fn value(&self) -> Option<Picoseconds> {
        self.ns.map(Picoseconds::from_ns_f64)
    }

    /// The values by link, if they depend on it.
    pub fn by_link(&self) -> Option<&BTreeMap<LinkKind, f64>> {
        self.ns_by_link.as_ref()
    }

    /// The link whose serialisation a latency for `link` contains.
    fn link_inside(&self, link: LinkKind) -> LinkKind {
        match &self.ns_by_link {
            Some(map) if map.contains_key(&link) => link,
            _ => self.reference_link.unwrap_or(link),
        }
    }

    /// The source in a few words, for tables.
    pub fn cite(&self) -> String {
        let source = self.source.as_deref().unwrap_or("no source");
        let unchecked = if self.checked { "" } else { " (unchecked)" };
        format!("{source}{unchecked}")
    }

    /// How it came to be, in a word.
    pub const fn origin_name(&self) -> &'static str {
        match self.origin {
            Some(Origin::Measured) => "measured",
            Some(Origin::Stated) => "stated",
            Some(Origin::Derived) => "derived",
            Some(Origin::Fitted) => "fitted",
            None => "not published",
        }
    }

    /// The value in words; none if there is none.
    pub fn describe(&self) -> Option<String> {
        if let Some(map) = &self.ns_by_link {
            let values = map.iter().map(|(link, ns)| format!("{link} {ns} ns"));
            return Some(values.collect::<Vec<_>>().join(", "));
        }
        let at = self.reference_link.map(|link| format!(" at {link}"));
        self.ns
            .map(|ns| format!("{ns} ns{}", at.unwrap_or_default()))
    }

    fn is_empty(&self) -> bool {
        self.ns.is_none() && self.ns_by_link.is_none()
    }
}

/// Constants of the physical layer for one line rate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// 10 Gb/s.
    #[serde(rename = "10g", default)]
    pub ten: Constant,
    /// 1 Gb/s.
    #[serde(rename = "1g", default)]
    pub one: Constant,
}

impl Rates {
    const fn at(&self, speed: NetSpeed) -> &Constant {
        match speed {
            NetSpeed::TenGig => &self.ten,
            NetSpeed::OneGig => &self.one,
        }
    }
}

/// PCI Express links for one line rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultLinks {
    #[serde(rename = "10g")]
    ten: LinkKind,
    #[serde(rename = "1g")]
    one: LinkKind,
}

/// A set of published constants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Name, as in `--platform`.
    pub name: String,
    /// One line for headings.
    pub title: String,
    default_link: DefaultLinks,
    /// From a CPU store to the TLP at the NIC's user side, for a 4-byte write.
    pub store_latency: Constant,
    /// Of that, what passes before the TLP leaves for the link.
    #[serde(default)]
    pub store_issue: Constant,
    /// Between two uncached stores of one core.
    #[serde(default)]
    pub store_interval: Constant,
    /// What one write-combining copy costs the core.
    #[serde(default)]
    pub combined_store: Constant,
    /// From the NIC's memory write at its user side until the core can see it, for a 4-byte write.
    pub dma_write_latency: Constant,
    /// From the NIC's 4-byte read request to the completion.
    #[serde(default)]
    pub dma_read_latency: Constant,
    /// A 4-byte load by the CPU.
    #[serde(default)]
    pub load_latency: Constant,
    /// Between two looks of a polling core.
    #[serde(default)]
    pub poll_period: Constant,
    /// What a measured one-way time has beyond all others here, put behind the moment at which a polling core could see
    /// the data. Only a fitted platform has it.
    #[serde(default)]
    pub unexplained: Constant,
    /// Both physical layers between two NICs together: of the sender, and of the receiver.
    pub phy: Rates,
    /// Both physical layers of a switch together: of the port in, and of the port out.
    #[serde(default)]
    pub switch_phy: Rates,
    /// Delay of a metre of cable.
    pub cable_metre: Constant,
}

/// A file that adds fitted constants to those of another platform, and nothing else: neither can be taken for the other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fitted {
    name: String,
    title: String,
    /// The platform that has all other constants.
    beside: String,
    unexplained: Constant,
}

impl Fitted {
    fn platform(self) -> Result<Platform, String> {
        let is_built_in = Platform::names().any(|name| name == self.beside);
        let unfitted = match is_built_in.then(|| Platform::load(&self.beside)) {
            Some(Ok(platform)) if platform.unexplained.is_empty() => platform,
            _ => {
                return Err(format!(
                    "beside: `{}` is no platform without fitted constants that comes with ipnuma; write keio-2016 or modern",
                    self.beside
                ));
            }
        };
        if self.unexplained.origin != Some(Origin::Fitted) {
            return Err(format!(
                "unexplained: what stands beside {} is fitted; write origin = \"fitted\"",
                self.beside
            ));
        }
        Ok(Platform {
            name: self.name,
            title: self.title,
            unexplained: self.unexplained,
            ..unfitted
        })
    }
}

/// The platforms that come with the project, as file name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("keio-2016", include_str!("../platforms/keio-2016.toml")),
    ("modern", include_str!("../platforms/modern.toml")),
    (
        "keio-2016-fitted",
        include_str!("../platforms/keio-2016-fitted.toml"),
    ),
];

impl Platform {
    /// Finds a built-in platform by its name, or reads the file of that name.
    pub fn load(name: &str) -> Result<Self, Error> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, Path::new(name));
        }
        if !name.ends_with(".toml") {
            let known: Vec<_> = Self::names().collect();
            return Err(Error::Config(format!(
                "there is no platform `{name}`; choose {}, or give the path of a .toml file",
                known.join(" or ")
            )));
        }
        let text = text::read("platform", Path::new(name))?;
        Self::parse(&text, Path::new(name))
    }

    /// Names of the built-in platforms.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |error: toml::de::Error| located(path, text, &error);
        let table: toml::Table = toml::from_str(text).map_err(wrong)?;
        let is_fitted = table.contains_key("beside");
        let platform: Self = if is_fitted {
            let fitted: Fitted = toml::from_str(text).map_err(wrong)?;
            let sentence = |sentence| Error::Config(format!("{}: {sentence}", path.display()));
            fitted.platform().map_err(sentence)?
        } else {
            toml::from_str(text).map_err(wrong)?
        };
        for (key, constant) in platform.constants() {
            if !is_fitted && constant.origin == Some(Origin::Fitted) {
                return Err(Error::Config(format!(
                    "{}: {key} is fitted among constants that are not; write a platform with `beside` for it",
                    path.display()
                )));
            }
            let sourced = constant.source.is_some() && constant.origin.is_some();
            if !constant.is_empty() && !sourced {
                return Err(Error::Config(format!(
                    "{}: {key} has a value but no source and origin; say where it stands",
                    path.display()
                )));
            }
        }
        Ok(platform)
    }

    /// All constants with their keys.
    pub fn constants(&self) -> [(&'static str, &Constant); 14] {
        [
            ("store_latency", &self.store_latency),
            ("store_issue", &self.store_issue),
            ("store_interval", &self.store_interval),
            ("combined_store", &self.combined_store),
            ("dma_write_latency", &self.dma_write_latency),
            ("dma_read_latency", &self.dma_read_latency),
            ("load_latency", &self.load_latency),
            ("poll_period", &self.poll_period),
            ("unexplained", &self.unexplained),
            ("phy.10g", &self.phy.ten),
            ("phy.1g", &self.phy.one),
            ("switch_phy.10g", &self.switch_phy.ten),
            ("switch_phy.1g", &self.switch_phy.one),
            ("cable_metre", &self.cable_metre),
        ]
    }

    /// The link that this platform gives a NIC of this rate.
    pub const fn default_link(&self, speed: NetSpeed) -> LinkKind {
        match speed {
            NetSpeed::TenGig => self.default_link.ten,
            NetSpeed::OneGig => self.default_link.one,
        }
    }

    /// The physical layer's constant for a rate.
    pub const fn phy(&self, speed: NetSpeed) -> &Constant {
        self.phy.at(speed)
    }

    /// The constant of a switch's physical layers for a rate.
    pub const fn switch_phy(&self, speed: NetSpeed) -> &Constant {
        self.switch_phy.at(speed)
    }

    /// What a host with this link needs.
    pub fn host_timing(&self, link: LinkKind) -> Result<HostTiming, Error> {
        let need = |constant: &Constant, what: &str| {
            constant.at(link).ok_or_else(|| {
                Error::Config(format!(
                    "the platform {} publishes no {what} for {link}; choose another link",
                    self.name
                ))
            })
        };
        // A latency that contains serialisation is split: lanes occupied, and the rest, which is fixed.
        let fixed = |constant: &Constant, what: &str| -> Result<Picoseconds, Error> {
            let inside = constant
                .link_inside(link)
                .serialisation(REFERENCE_TLP_BYTES);
            Ok(need(constant, what)?
                .saturating_sub(inside)
                .max(Picoseconds(1)))
        };
        let down = fixed(&self.store_latency, "store latency")?;
        let up = fixed(&self.dma_write_latency, "DMA write latency")?;
        let request = link.serialisation(READ_TLP_BYTES);
        let answer = link.serialisation(COMPLETION_TLP_BYTES);
        let round_trip = up + down + request + answer;
        let dma_read_link = self.dma_read_latency.ns_by_link.as_ref();
        let dma_read = match dma_read_link.and_then(|map| map.iter().next_back()) {
            // Found at one link: what the root complex adds there, it adds at every link.
            Some((&found_at, &ns)) => {
                let there = self.host_fixed_at(found_at)?;
                Picoseconds::from_ns_f64(ns).saturating_sub(there)
            }
            None => self
                .dma_read_latency
                .at(link)
                .map_or(Picoseconds::ZERO, |total| total.saturating_sub(round_trip)),
        };
        Ok(HostTiming {
            link,
            down,
            up,
            dma_read,
            load: self
                .load_latency
                .at(link)
                .map(|total| total.saturating_sub(round_trip)),
            store_interval: self.store_interval.at(link).unwrap_or_default(),
            combined_store: self.combined_store.at(link).unwrap_or_default(),
            poll_period: self.poll_period.value().unwrap_or_default(),
            unexplained: self.unexplained.at(link).unwrap_or_default(),
        })
    }

    /// Both ways of a DMA read at a link, without what the root complex adds.
    fn host_fixed_at(&self, link: LinkKind) -> Result<Picoseconds, Error> {
        let one_way = |constant: &Constant, what: &str| {
            let total = constant.at(link).ok_or_else(|| {
                Error::Config(format!(
                    "the platform {} has no {what} for {link}",
                    self.name
                ))
            })?;
            let inside = constant
                .link_inside(link)
                .serialisation(REFERENCE_TLP_BYTES);
            Ok::<_, Error>(total.saturating_sub(inside))
        };
        Ok(one_way(&self.store_latency, "store latency")?
            + one_way(&self.dma_write_latency, "DMA write latency")?
            + link.serialisation(READ_TLP_BYTES)
            + link.serialisation(COMPLETION_TLP_BYTES))
    }

    /// Delay of a cable between two NICs: both physical layers, and the metres.
    pub fn cable_delay(
        &self,
        speed: NetSpeed,
        metres: f64,
    ) -> Result<(Picoseconds, Picoseconds), Error> {
        let phy = self.phy(speed).value().ok_or_else(|| {
            Error::Config(format!(
                "the platform {} publishes no physical layer for this rate; choose another rate or platform",
                self.name
            ))
        })?;
        Ok((phy, self.metres_delay(metres)))
    }

    /// Delay of the metres alone.
    pub fn metres_delay(&self, metres: f64) -> Picoseconds {
        let metre = self.cable_metre.value().unwrap_or_default();
        Picoseconds((metre.0 as f64 * metres).round() as u64)
    }
}

/// The constants of a host, made ready for its link.
#[derive(Clone, Copy, Debug)]
pub struct HostTiming {
    /// The link.
    pub link: LinkKind,
    /// From the last byte on the lanes to the NIC's user side.
    pub down: Picoseconds,
    /// From the last byte on the lanes until the core can see it.
    pub up: Picoseconds,
    /// What the root complex adds to a DMA read.
    pub dma_read: Picoseconds,
    /// What the CPU adds to a load; none if loads are not published.
    pub load: Option<Picoseconds>,
    /// Between two uncached stores.
    pub store_interval: Picoseconds,
    /// What a write-combining copy costs the core.
    pub combined_store: Picoseconds,
    /// Between two looks of a polling core; 0 if not published.
    pub poll_period: Picoseconds,
    /// From such a look until the program goes on: 0 but on a fitted platform.
    pub unexplained: Picoseconds,
}

impl HostTiming {
    /// A host that takes no time, for the NIC alone: the least that the calendar's lookahead permits.
    pub fn none(link: LinkKind) -> Self {
        let least = Picoseconds(1);
        Self {
            link,
            down: least,
            up: least,
            dma_read: Picoseconds::ZERO,
            load: Some(Picoseconds::ZERO),
            store_interval: Picoseconds::ZERO,
            combined_store: Picoseconds::ZERO,
            poll_period: Picoseconds::ZERO,
            unexplained: Picoseconds::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitted_constants_do_not_mix_with_others() {
        let fitted = Platform::load("keio-2016-fitted").expect("it is built in");
        let names = |platform: &Platform| {
            let constants = platform.constants().into_iter();
            let fitted = constants.filter(|(_, it)| it.origin == Some(Origin::Fitted));
            fitted.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&fitted), ["unexplained"]);
        assert_eq!(
            names(&Platform::load("keio-2016").expect("it is built in")),
            [""; 0]
        );
        let head = "name = \"a\"\ntitle = \"a\"\n";
        let parse = |text: &str| {
            Platform::parse(text, Path::new("a.toml"))
                .expect_err(text)
                .to_string()
        };
        let constant = |origin: &str| {
            format!("[unexplained]\nns = 5\norigin = \"{origin}\"\nsource = \"a\"\n")
        };
        for (text, said) in [
            (
                format!("{head}beside = \"keio-2016\"\n{}", constant("measured")),
                "is fitted",
            ),
            (
                format!(
                    "{head}beside = \"keio-2016-fitted\"\n{}",
                    constant("fitted")
                ),
                "no platform without",
            ),
            (
                format!("{head}beside = \"a.toml\"\n{}", constant("fitted")),
                "no platform without",
            ),
            (
                format!(
                    "{head}beside = \"keio-2016\"\nstore_latency = 5\n{}",
                    constant("fitted")
                ),
                "store_latency",
            ),
            (
                BUILT_IN[0]
                    .1
                    .replacen("origin = \"derived\"", "origin = \"fitted\"", 1),
                "fitted among constants",
            ),
        ] {
            let error = parse(&text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn built_in_platforms_are_sound() {
        for name in Platform::names() {
            let platform = Platform::load(name).expect(name);
            assert_eq!(platform.name, name);
            for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
                platform
                    .host_timing(platform.default_link(speed))
                    .expect(name);
                platform.cable_delay(speed, 1.0).expect(name);
            }
        }
    }

    #[test]
    fn totals_at_the_paper_s_link() {
        let platform = Platform::load("keio-2016").expect("built in");
        let link: LinkKind = "Gen2x8".parse().expect("a link");
        let host = platform.host_timing(link).expect("in the tables");
        assert_eq!(
            host.down + link.serialisation(16),
            Picoseconds::from_ns(223)
        );
        assert_eq!(host.up + link.serialisation(16), Picoseconds::from_ns(223));
        let read =
            host.up + link.serialisation(12) + host.dma_read + host.down + link.serialisation(16);
        assert_eq!(read, Picoseconds::from_ns(467));
    }
}
