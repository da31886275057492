// SPDX-License-Identifier: Apache-2.0
//! Files of the experiments: published figures, and what is run beside them.

use std::collections::BTreeMap;
use std::path::Path;

use rack::Error;
use rack::pcie::LinkKind;
use rack::topology::Rate;
use serde::Deserialize;

use crate::fitted::Constants;

use super::{memcached, offload, router, stream, switch, waiting};

/// `by_length` has a figure for each.
pub use crate::memcached::LENGTHS;

/// Hosts that ask one memcached, in rows with `each_clients`.
pub const CLIENTS: [usize; 4] = [1, 2, 4, 8];

/// What the dissertation has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub place: String,
    pub unit: String,
    pub value: Option<f64>,
    pub by_link: Option<BTreeMap<LinkKind, f64>>,
    /// For each of [`LENGTHS`].
    pub by_length: Option<[f64; LENGTHS.len()]>,
    #[serde(default)]
    #[allow(dead_code)] // for readers of the file
    note: Option<String>,
}

/// A table or figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    pub title: String,
    pub what: String,
    pub note: Option<String>,
    /// Why ours is far from the paper's, for rows that do not say it themselves.
    pub why: Option<String>,
    /// Name of the row that stands for all in a line; absent: the first one with a figure of the paper and one of ours.
    pub headline: Option<String>,
    /// How the rows are drawn; absent: as pairs of bars, if they have one unit.
    pub plot: Option<PlotFile>,
    /// Rows with a value for each length must have it rise from row to row, at every length.
    #[serde(default)]
    pub rising: bool,
    /// Why they do not, where that is known: then they must not.
    pub rising_fails: Option<String>,
    pub row: Vec<RowFile>,
}

/// How the rows of a table are drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum PlotFile {
    /// Not at all.
    None {},
    /// Pairs of bars, of the rows with this unit.
    Bars { unit: String },
    /// A line for each row, over lengths, links or numbers of clients.
    Lines {
        x: String,
        y: String,
        #[serde(default)]
        log: bool,
        /// Absent: all.
        rows: Option<Vec<String>>,
    },
    /// Bars of parts: the rows are named `bar: part`.
    Stacks {},
    /// Ratio over the application's time, as figures 6.17 and 6.18 have it.
    Ratio { place: memcached::Place },
    /// Load against latency of the rows that wait.
    Waiting {},
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFile {
    pub name: String,
    /// Absent: nobody published a figure to compare with.
    pub paper: Option<String>,
    /// Of a row without `paper`.
    pub unit: Option<String>,
    #[serde(default)]
    pub each_link: bool,
    /// One row for each of [`LENGTHS`].
    #[serde(default)]
    pub each_length: bool,
    /// One row for each of [`CLIENTS`], of memcached.
    #[serde(default)]
    pub each_clients: bool,
    /// The figure is a constant of the platform, and the run finds it again.
    #[serde(default)]
    pub input: bool,
    pub run: Run,
    pub expect: Option<f64>,
    pub expect_by_length: Option<[f64; LENGTHS.len()]>,
    pub expect_by_clients: Option<[f64; CLIENTS.len()]>,
    pub tolerance_percent: Option<f64>,
    /// Links at which more is allowed, each with its reason.
    #[serde(default)]
    pub wider: BTreeMap<LinkKind, Wider>,
    /// Ours must be that much in its first place.
    pub at_least: Option<f64>,
    pub note: Option<String>,
    /// Why ours is far from the paper's.
    pub why: Option<String>,
}

/// More than a row's other links are allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wider {
    pub tolerance_percent: f64,
    /// Why ours is that far from the paper's there.
    pub why: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Run {
    Meter {
        experiment: MeterKind,
        link: Option<LinkKind>,
        bytes: usize,
    },
    Accesses {
        count: Access,
    },
    /// Sending a packet the conventional ways.
    Sending {
        way: SendingWay,
        count: Access,
    },
    Estimate {
        rdma: bool,
        bytes: usize,
    },
    Pingpong {
        rate: Rate,
        figure: PingpongFigure,
        socket: Option<String>,
        /// In a row between the hosts.
        #[serde(default)]
        switches: usize,
        /// Of all cables together.
        #[serde(default = "one_metre")]
        metres: f64,
        /// In sessions.
        #[serde(default = "yes")]
        reliable: bool,
        /// What the hosts take.
        #[serde(default)]
        constants: Constants,
    },
    /// IP-NUMA beside an RDMA NIC that sends from memory: a doorbell, and a read by DMA.
    Rdma {
        figure: RdmaFigure,
        #[serde(default)]
        constants: Constants,
    },
    /// Ping-pong over the kernel's sockets, between Linux hosts.
    Sockets {
        rate: Rate,
        figure: SocketsFigure,
        /// FIBNICs in a row between the hosts.
        #[serde(default)]
        switches: usize,
        /// Of all cables together.
        #[serde(default = "one_metre")]
        metres: f64,
        /// What the hosts take.
        #[serde(default)]
        constants: Constants,
    },
    Rfc2544(switch::Measurement),
    /// Single frames through a PC as a router, and a FIBNIC, ns; the greatest.
    Router(router::Measurement),
    Stream(stream::Measurement),
    Memcached(memcached::Measurement),
    Offload(offload::Measurement),
    /// Waiting for messages, as `ipnuma wait` has it.
    Waiting(waiting::Measurement),
    /// A figure of the paper for comparison; there is nothing to run.
    Published {},
    None {
        reason: String,
    },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeterKind {
    DmaRead,
    DmaWrite,
    DmaWriteRate,
    CpuRead,
    CpuWrite,
    CombinedWrite,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    CpuWrite,
    CpuRead,
    DmaRead,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendingWay {
    Ring,
    Rdma,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PingpongFigure {
    RoundTrip,
    OneWay,
    LoopsRatio,
    NetworkRoundTrip,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RdmaFigure {
    /// One way with RDMA, 4 bytes, 10G, ns: IP-NUMA's, and the NIC's read of the data.
    OneWay,
    /// How much less IP-NUMA takes than the dissertation's estimate of RDMA, hundredths.
    BelowEstimate,
    /// How much less it takes than RDMA, both run.
    BelowRun,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketsFigure {
    /// In us.
    RoundTrip,
    /// Half of it.
    OneWay,
    /// Round trips of IP-NUMA in the time of one over sockets, both run.
    LoopsRatio,
}

const fn yes() -> bool {
    true
}

pub const fn one_metre() -> f64 {
    1.0
}

/// Reads a file's text; `place` is its name.
pub fn parse<T: serde::de::DeserializeOwned>(text: &str, place: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| rack::located(Path::new(place), text, &error))
}

/// Where a row stands among those that a file's row stands for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instance {
    /// PCI Express link.
    pub link: Option<LinkKind>,
    /// Bytes of a value.
    pub length: Option<usize>,
    /// Hosts that ask one memcached.
    pub clients: Option<usize>,
}

/// A row as it is run.
#[derive(Debug)]
pub struct Planned<'a> {
    pub file: &'a RowFile,
    pub name: String,
    pub instance: Instance,
    pub place: Option<String>,
    pub unit: String,
    pub paper: Option<f64>,
    /// What ours should be; absent: as the paper's.
    pub expect: Option<f64>,
    /// How far from that it may be, absent: as everywhere.
    pub tolerance_percent: Option<f64>,
    /// Why ours is far from the paper's, where the row or its link says so.
    pub why: Option<&'a str>,
}

fn wrong(id: &str, row: &RowFile, sentence: &str) -> Error {
    Error::Config(format!("{id}, {}: {sentence}", row.name))
}

/// The rows of an experiment, one for each link, length or number of clients.
pub fn plan<'a>(
    id: &str,
    file: &'a ExperimentFile,
    figures: &BTreeMap<String, Figure>,
) -> Result<Vec<Planned<'a>>, Error> {
    let mut rows = Vec::new();
    for row in &file.row {
        let figure = match &row.paper {
            Some(key) => Some(figures.get(key).ok_or_else(|| {
                Error::Config(format!(
                    "{id}: paper.toml has no figure `{key}`; add it there"
                ))
            })?),
            None => None,
        };
        let (place, unit) = match (figure, &row.unit) {
            (Some(figure), None) => (Some(figure.place.clone()), figure.unit.clone()),
            (None, Some(unit)) => (None, unit.clone()),
            _ => return Err(wrong(id, row, "a row has either paper or unit")),
        };
        if !row.wider.is_empty() && !row.each_link {
            return Err(wrong(id, row, "wider needs each_link"));
        }
        let mut add = |name, instance: Instance, paper, expect| {
            let wider = instance.link.and_then(|link| row.wider.get(&link));
            rows.push(Planned {
                file: row,
                name,
                instance,
                place: place.clone(),
                unit: unit.clone(),
                paper,
                expect,
                tolerance_percent: wider
                    .map(|wider| wider.tolerance_percent)
                    .or(row.tolerance_percent),
                why: wider.map(|wider| wider.why.as_str()).or(row.why.as_deref()),
            });
        };
        if row.each_link {
            let by_link = figure.and_then(|figure| figure.by_link.as_ref());
            let by_link =
                by_link.ok_or_else(|| wrong(id, row, "each_link needs a figure with by_link"))?;
            if let Some(link) = row.wider.keys().find(|link| !by_link.contains_key(link)) {
                let sentence = format!("wider has {link}, at which there is no figure");
                return Err(wrong(id, row, &sentence));
            }
            for (link, paper) in by_link {
                let instance = Instance {
                    link: Some(*link),
                    ..Instance::default()
                };
                add(
                    format!("{}, {link}", row.name),
                    instance,
                    Some(*paper),
                    row.expect,
                );
            }
        } else if row.each_length {
            let papers =
                match figure {
                    Some(figure) => Some(figure.by_length.ok_or_else(|| {
                        wrong(id, row, "each_length needs a figure with by_length")
                    })?),
                    None => None,
                };
            for (index, length) in LENGTHS.into_iter().enumerate() {
                let instance = Instance {
                    length: Some(length),
                    ..Instance::default()
                };
                let expect = row
                    .expect_by_length
                    .map_or(row.expect, |all| Some(all[index]));
                let paper = papers.map(|all| all[index]);
                add(format!("{}, {length} B", row.name), instance, paper, expect);
            }
        } else if row.each_clients {
            if figure.is_some() {
                return Err(wrong(
                    id,
                    row,
                    "nobody published figures by clients; write unit in place of paper",
                ));
            }
            for (index, clients) in CLIENTS.into_iter().enumerate() {
                let instance = Instance {
                    clients: Some(clients),
                    ..Instance::default()
                };
                let expect = row
                    .expect_by_clients
                    .map_or(row.expect, |all| Some(all[index]));
                let name = match clients {
                    1 => format!("{}, 1 client", row.name),
                    many => format!("{}, {many} clients", row.name),
                };
                add(name, instance, None, expect);
            }
        } else {
            let paper = match figure {
                Some(figure) => Some(figure.value.ok_or_else(|| {
                    wrong(
                        id,
                        row,
                        "its figure has no single value; set each_link or each_length",
                    )
                })?),
                None => None,
            };
            add(row.name.clone(), Instance::default(), paper, row.expect);
        }
    }
    Ok(rows)
}
