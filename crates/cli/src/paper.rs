// SPDX-License-Identifier: Apache-2.0
//! `ipnuma paper`: the experiments, and what the dissertation has in the same place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use rack::faults::Faults;
use rack::meter::{self, Experiment};
use rack::pcie::LinkKind;
use rack::platform::Platform;
use rack::record::NETWORK;
use rack::run::{Options, Outcome, rtl, run as run_topology};
use rack::topology::{NicOptions, Pair};
use rack::{Error, Picoseconds, Topology};
use serde::{Deserialize, Serialize};

mod stream;
mod switch;

use crate::{Failure, FormatArgument, RateArgument, text};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only this table or figure, such as table-3.4
    #[arg(long, value_name = "ID")]
    only: Option<String>,
    /// Read the experiments from this directory instead of the built-in copy
    #[arg(long, value_name = "DIRECTORY")]
    experiments: Option<PathBuf>,
    /// Round trips of each ping-pong
    #[arg(long, default_value_t = 1_000)]
    loops: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Published figures.
const FIGURES: &str = include_str!("../../../experiments/paper.toml");

macro_rules! experiments {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../../../experiments/", $id, "/experiment.toml")))),*]
    };
}

/// One folder each under `experiments`.
const EXPERIMENTS: &[(&str, &str)] = experiments![
    "table-3.2",
    "table-3.3",
    "table-3.4",
    "figure-3.5",
    "figure-3.6",
    "figure-3.7",
    "figure-3.8",
    "figure-4.4",
    "table-4.5",
    "table-4.6",
    "table-5.2",
    "table-5.3",
    "table-5.4",
    "table-5.5",
    "table-6.5",
    "figure-5.10",
    "congestion",
    "resend",
    "incast",
];

/// Allowed departure from what is expected, where an experiment does not say.
const TOLERANCE_PERCENT: f64 = 2.0;
/// How a row came about that is only there to compare with.
const PUBLISHED: &str = "published";
/// Round trips through switches at most.
const SWITCHED_LOOPS: u64 = 100;
/// Section 3.2.2.6: one cycle of 250 MHz for each 16 bytes beyond the first.
const ESTIMATE_NS_PER_16_BYTES: f64 = 4.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    place: String,
    unit: String,
    value: Option<f64>,
    by_link: Option<BTreeMap<LinkKind, f64>>,
    #[serde(default)]
    #[allow(dead_code)] // for readers of the file
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    title: String,
    what: String,
    note: Option<String>,
    row: Vec<RowFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    name: String,
    /// Absent: nobody published a figure to compare with.
    paper: Option<String>,
    /// Of a row without `paper`.
    unit: Option<String>,
    #[serde(default)]
    each_link: bool,
    /// The figure is a constant of the platform, and the run finds it again.
    #[serde(default)]
    input: bool,
    run: Run,
    expect: Option<f64>,
    tolerance_percent: Option<f64>,
    note: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
enum Run {
    Meter {
        experiment: MeterKind,
        link: Option<LinkKind>,
        bytes: usize,
    },
    Accesses {
        count: Access,
    },
    Estimate {
        rdma: bool,
        bytes: usize,
    },
    Pingpong {
        rate: PingpongRate,
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
    },
    Rfc2544(switch::Measurement),
    Stream(stream::Measurement),
    /// A figure of the paper for comparison; there is nothing to run.
    Published {},
    None {
        reason: String,
    },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MeterKind {
    DmaRead,
    DmaWrite,
    DmaWriteRate,
    CpuRead,
    CpuWrite,
    CombinedWrite,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Access {
    CpuWrite,
    CpuRead,
    DmaRead,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum PingpongRate {
    #[serde(rename = "10g")]
    Ten,
    #[serde(rename = "1g")]
    One,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PingpongFigure {
    RoundTrip,
    OneWay,
    LoopsRatio,
    NetworkRoundTrip,
}

const fn yes() -> bool {
    true
}

const fn one_metre() -> f64 {
    1.0
}

/// One row of the result.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    place: Option<String>,
    unit: String,
    paper: Option<f64>,
    ours: Option<f64>,
    difference_percent: Option<f64>,
    how: String,
    expected: Option<f64>,
    as_expected: Option<bool>,
    note: Option<String>,
}

#[derive(Debug, Serialize)]
struct Section {
    id: String,
    title: String,
    what: String,
    note: Option<String>,
    rows: Vec<Row>,
}

fn parse<T: serde::de::DeserializeOwned>(text: &str, place: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| {
        let sentence = error.to_string().trim().replace('\n', " ");
        Error::Config(format!("{place}: {sentence}"))
    })
}

fn read(path: PathBuf) -> Result<String, Error> {
    std::fs::read_to_string(&path)
        .map_err(|error| Error::Config(format!("cannot read {}: {error}", path.display())))
}

/// The experiments' texts and the figures, built in or from a directory.
fn sources(arguments: &Arguments) -> Result<(Vec<(String, String)>, String), Error> {
    let Some(directory) = &arguments.experiments else {
        let built_in = EXPERIMENTS
            .iter()
            .map(|(id, text)| (id.to_string(), text.to_string()));
        return Ok((built_in.collect(), FIGURES.to_owned()));
    };
    let entries = std::fs::read_dir(directory).map_err(|error| {
        Error::Config(format!(
            "cannot read the directory {}: {error}",
            directory.display()
        ))
    })?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let file = entry.path().join("experiment.toml");
        if file.is_file() {
            found.push((
                entry.file_name().to_string_lossy().into_owned(),
                read(file)?,
            ));
        }
    }
    found.sort();
    Ok((found, read(directory.join("paper.toml"))?))
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    rack::topology::check_pingpong(4, arguments.loops)
        .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
    let (texts, figures) = sources(arguments)?;
    let figures: BTreeMap<String, Figure> = parse(&figures, "paper.toml")?;
    let wanted = |id: &str| arguments.only.as_deref().is_none_or(|only| only == id);
    if let Some(only) = arguments
        .only
        .as_deref()
        .filter(|only| !texts.iter().any(|(id, _)| id == only))
    {
        let known: Vec<_> = texts.iter().map(|(id, _)| id.as_str()).collect();
        return Err(Error::Config(format!(
            "--only: there is no experiment `{only}`; choose one of {}",
            known.join(", ")
        ))
        .into());
    }
    let mut runner = Runner {
        platform: Platform::load("keio-2016")?,
        figures,
        loops: arguments.loops,
        pingpongs: BTreeMap::new(),
        switches: switch::Switches::default(),
        streams: stream::Streams::default(),
    };
    let mut sections = Vec::new();
    for (id, text) in texts.iter().filter(|(id, _)| wanted(id)) {
        let section = runner.section(id, &parse(text, id)?)?;
        if !arguments.json {
            text::print(&show(&section))?;
        }
        sections.push(section);
    }
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let count = |is: &dyn Fn(&Row) -> bool| rows().filter(|row| is(row)).count();
    let ran = count(&|row| row.ours.is_some());
    let not_run = count(&|row| row.ours.is_none() && row.how != PUBLISHED);
    let surprises = count(&|row| row.as_expected == Some(false));
    if arguments.json {
        let json = serde_json::to_string_pretty(&sections);
        text::print(&(json.expect("numbers and strings have JSON") + "\n"))?;
    } else {
        text::print(&format!(
            "{ran} rows ran, {} as the experiments expect, {surprises} not (marked !); {not_run} not run.\n",
            ran - surprises
        ))?;
    }
    Ok(ExitCode::from(u8::from(surprises > 0)))
}

struct Runner {
    platform: Platform,
    figures: BTreeMap<String, Figure>,
    loops: u64,
    /// Mean round trip, mean one-way time, and the accesses of a packet, by rate.
    pingpongs: BTreeMap<String, PingpongResult>,
    switches: switch::Switches,
    streams: stream::Streams,
}

/// The figure of a row, and how it came about.
struct Found {
    ours: Option<f64>,
    how: String,
    /// Something is wrong, whatever the figure.
    fault: bool,
}

impl Found {
    fn new(ours: f64, how: impl Into<String>) -> Self {
        Self {
            ours: Some(ours),
            how: how.into(),
            fault: false,
        }
    }

    fn nothing(how: impl Into<String>) -> Self {
        Self {
            ours: None,
            how: how.into(),
            fault: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct PingpongResult {
    round_trip_ns: f64,
    one_way_ns: f64,
    /// Cables and switches, without the physical layers of the NICs, there and back.
    network_round_trip_ns: f64,
    cpu_writes: f64,
    cpu_reads: f64,
    dma_reads: f64,
}

impl Runner {
    fn section(&mut self, id: &str, file: &ExperimentFile) -> Result<Section, Failure> {
        let mut rows = Vec::new();
        for row in &file.row {
            let Some(key) = &row.paper else {
                rows.push(self.row(id, row, row.name.clone(), None, None)?);
                continue;
            };
            if row.each_link {
                let by_link = self.figure(id, key)?.by_link.clone();
                for (link, paper) in by_link.unwrap_or_default() {
                    let name = format!("{}, {link}", row.name);
                    rows.push(self.row(id, row, name, Some(link), Some(paper))?);
                }
            } else {
                let paper = self.figure(id, key)?.value.ok_or_else(|| {
                    Error::Config(format!("{id}: {key} has no single value; set each_link"))
                })?;
                rows.push(self.row(id, row, row.name.clone(), None, Some(paper))?);
            }
        }
        Ok(Section {
            id: id.to_owned(),
            title: file.title.clone(),
            what: file.what.clone(),
            note: file.note.clone(),
            rows,
        })
    }

    fn figure(&self, id: &str, key: &str) -> Result<&Figure, Error> {
        self.figures.get(key).ok_or_else(|| {
            Error::Config(format!(
                "{id}: paper.toml has no figure `{key}`; add it there"
            ))
        })
    }

    fn row(
        &mut self,
        id: &str,
        row: &RowFile,
        name: String,
        link: Option<LinkKind>,
        paper: Option<f64>,
    ) -> Result<Row, Failure> {
        let Found {
            ours,
            mut how,
            fault,
        } = self.execute(id, &row.run, link)?;
        if row.input {
            how += ", an input";
        }
        let (place, unit) = match (&row.paper, &row.unit) {
            (Some(key), None) => {
                let figure = self.figure(id, key)?;
                (Some(figure.place.clone()), figure.unit.clone())
            }
            (None, Some(unit)) => (None, unit.clone()),
            _ => {
                let sentence = format!("{id}, {}: a row has either paper or unit", row.name);
                return Err(Error::Config(sentence).into());
            }
        };
        let expected = ours.and(row.expect.or(paper));
        if ours.is_some() && expected.is_none() {
            let sentence = format!("{id}, {}: a row without paper needs expect", row.name);
            return Err(Error::Config(sentence).into());
        }
        let tolerance = row.tolerance_percent.unwrap_or(TOLERANCE_PERCENT) / 100.0;
        let as_expected = ours.zip(expected).map(|(ours, expected)| {
            !fault && (ours - expected).abs() <= tolerance * expected.abs() + 1e-9
        });
        let relative =
            |(ours, paper): (f64, f64)| (paper != 0.0).then(|| 100.0 * (ours - paper) / paper);
        Ok(Row {
            name,
            place,
            unit,
            paper,
            ours,
            difference_percent: ours.zip(paper).and_then(relative),
            how,
            expected,
            as_expected,
            note: row.note.clone(),
        })
    }

    /// Runs a row; the result in the unit of the paper's figure, and how it came about.
    fn execute(&mut self, id: &str, run: &Run, link: Option<LinkKind>) -> Result<Found, Failure> {
        Ok(match run {
            Run::None { reason } => Found::nothing(format!("not run: {reason}")),
            Run::Published {} => Found::nothing(PUBLISHED),
            Run::Rfc2544(measurement) => {
                let phy_ns = match &measurement.phy {
                    Some(key) => self.figure(id, key)?.value,
                    None => None,
                };
                self.switches.measure(measurement, phy_ns)?
            }
            Run::Stream(measurement) => self.streams.measure(measurement)?,
            Run::Meter {
                experiment,
                link: own,
                bytes,
            } => {
                let link = link.or(*own).ok_or_else(|| {
                    Error::Config(format!(
                        "{id}: a meter row needs a link; set link or each_link"
                    ))
                })?;
                Found::new(self.meter(*experiment, link, *bytes)?, "bus meter RTL")
            }
            Run::Accesses { count } => {
                let result = self.pingpong(RateArgument::Ten, 0, one_metre(), true)?;
                let value = match count {
                    Access::CpuWrite => result.cpu_writes,
                    Access::CpuRead => result.cpu_reads,
                    Access::DmaRead => result.dma_reads,
                };
                Found::new(value, "counted, RTL")
            }
            Run::Estimate { rdma, bytes } => {
                Found::new(self.estimate(*rdma, *bytes)?, "constants only")
            }
            Run::Pingpong {
                rate,
                figure,
                socket,
                switches,
                metres,
                reliable,
            } => {
                let rate = match rate {
                    PingpongRate::Ten => RateArgument::Ten,
                    PingpongRate::One => RateArgument::One,
                };
                let result = self.pingpong(rate, *switches, *metres, *reliable)?;
                let value = match figure {
                    PingpongFigure::RoundTrip => result.round_trip_ns / 1e3,
                    PingpongFigure::OneWay => result.one_way_ns / 1e3,
                    PingpongFigure::LoopsRatio => {
                        let key = socket.as_deref().unwrap_or("rtt_socket_10g");
                        let socket_us = self.figure(id, key)?.value.unwrap_or(0.0);
                        1e3 * socket_us / result.round_trip_ns
                    }
                    PingpongFigure::NetworkRoundTrip => result.network_round_trip_ns,
                };
                Found::new(value, "RTL and constants")
            }
        })
    }

    fn meter(&self, kind: MeterKind, link: LinkKind, bytes: usize) -> Result<f64, Error> {
        let experiment = match kind {
            MeterKind::DmaRead => Experiment::DmaRead,
            MeterKind::DmaWrite | MeterKind::DmaWriteRate => Experiment::DmaWrite,
            MeterKind::CpuRead => Experiment::CpuRead,
            MeterKind::CpuWrite => Experiment::CpuWrite,
            MeterKind::CombinedWrite => Experiment::CombinedWrite,
        };
        let time = meter::measure(&self.platform, link, experiment, bytes)?.as_ns();
        Ok(match kind {
            MeterKind::DmaWriteRate => 1e9 / time,
            _ => time,
        })
    }

    /// Figure 3.8 again, from the platform's constants for Gen2x8.
    fn estimate(&self, rdma: bool, bytes: usize) -> Result<f64, Error> {
        let link = LinkKind::new(2, 8).expect("Gen2x8 exists");
        let platform = &self.platform;
        let constant = |constant: &rack::platform::Constant| {
            constant.at(link).map(Picoseconds::as_ns).ok_or_else(|| {
                Error::Config(format!(
                    "the platform {} has no figure for {link}",
                    platform.name
                ))
            })
        };
        let more = ESTIMATE_NS_PER_16_BYTES * (bytes as f64 / 16.0 - 1.0).max(0.0).ceil();
        let store = constant(&platform.store_latency)?;
        let write = constant(&platform.dma_write_latency)?;
        let send = if rdma {
            store + constant(&platform.dma_read_latency)? + more
        } else {
            store + more
        };
        Ok(send + constant(&platform.phy.ten)? + write + more)
    }

    fn pingpong(
        &mut self,
        rate: RateArgument,
        switches: usize,
        metres: f64,
        reliable: bool,
    ) -> Result<PingpongResult, Error> {
        let key = format!("{} {switches} {metres} {reliable}", rate.name());
        if let Some(result) = self.pingpongs.get(&key) {
            return Ok(*result);
        }
        let pair = Pair {
            platform: self.platform.name.clone(),
            seed: 1,
            rate: rate.into(),
            format: FormatArgument::Compact.into(),
            metres,
            bytes: 4,
            // Through switches each round trip is the same, and takes longer to simulate.
            loops: if switches == 0 {
                self.loops
            } else {
                self.loops.min(SWITCHED_LOOPS)
            },
            warmup: 10,
            nic: NicOptions {
                reliable,
                ..NicOptions::default()
            },
            faults: Faults::default(),
        };
        let topology = Topology::row(pair, switches).checked()?;
        let outcome: Outcome = run_topology(&topology, &Options::default(), &rtl)?;
        let accesses = outcome.record.accesses.values();
        let sum = accesses.fold((0, 0, 0), |sum, count| {
            (
                sum.0 + count.cpu_write,
                sum.1 + count.cpu_read,
                sum.2 + count.dma_read,
            )
        });
        let packets = outcome.record.one_way.count.max(1) as f64;
        let total: u64 = outcome.round_trips.iter().map(|time| time.0).sum();
        let result = PingpongResult {
            round_trip_ns: Picoseconds(total).as_ns() / outcome.round_trips.len().max(1) as f64,
            one_way_ns: outcome.record.one_way.mean_ns(),
            network_round_trip_ns: 2.0
                * (outcome.record.stages[NETWORK].mean_ns() - outcome.constants.phy.as_ns()),
            cpu_writes: sum.0 as f64 / packets,
            cpu_reads: sum.1 as f64 / packets,
            dma_reads: sum.2 as f64 / packets,
        };
        self.pingpongs.insert(key, result);
        Ok(result)
    }
}

/// A number with as many digits as it deserves.
fn number(value: f64) -> String {
    if value >= 1e6 && value != value.trunc() {
        format!("{:.2} M", value / 1e6)
    } else if value.abs() >= 100.0 || value == value.trunc() {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    }
}

fn show(section: &Section) -> String {
    let mut out = text::wrap(&format!("{}: {}", section.id, section.title), 0);
    out += &text::wrap(&section.what, 2);
    out += &format!(
        "\n  {:<30}{:>10}{:>10}  {:<11}{:>10}   how\n",
        "", "paper", "ours", "unit", "difference"
    );
    for row in &section.rows {
        let ours = row.ours.map_or("-".to_owned(), number);
        let difference = match (row.difference_percent, row.ours.zip(row.paper)) {
            (Some(percent), _) if percent.abs() < 0.05 => "0.0 %".to_owned(),
            (Some(percent), _) => format!("{percent:+.1} %"),
            (None, Some((ours, paper))) => format!("{:+}", ours - paper),
            (None, None) => "-".to_owned(),
        };
        let mark = if row.as_expected == Some(false) {
            " !"
        } else {
            ""
        };
        let line = format!(
            "  {:<30}{:>10}{:>10}  {:<11}{difference:>10}   {}{mark}",
            row.name,
            row.paper.map_or("-".to_owned(), number),
            ours,
            row.unit,
            row.how
        );
        if line.chars().count() > text::WIDTH {
            // A long reason goes to a line of its own.
            let short = &line[..line.len() - row.how.len() - mark.len()];
            out += &format!("{}\n", short.trim_end());
            out += &text::wrap(&row.how, 6);
        } else {
            out += &line;
            out.push('\n');
        }
        if let Some(note) = &row.note {
            out += &text::wrap(note, 6);
        }
    }
    if let Some(note) = &section.note {
        out += &text::wrap(note, 2);
    }
    out.push('\n');
    out
}
