// SPDX-License-Identifier: Apache-2.0
//! `ipnuma paper`: the experiments, and what the dissertation has in the same place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use ipnuma_rtl::NetSpeed;
use rack::faults::Faults;
use rack::meter::{self, Experiment};
use rack::model::{Hardware, Meter, NicModel, PCIE_PERIOD};
use rack::pcie::LinkKind;
use rack::platform::Platform;
use rack::record::NETWORK;
use rack::run::{Options, Outcome, rtl, run as run_topology};
use rack::sending::{self, Way};
use rack::topology::{NicOptions, Pair};
use rack::{Error, Picoseconds, Topology};
use serde::Serialize;
use sha2::{Digest, Sha256};

mod file;
mod memcached;
mod page;
mod plot;
mod stream;
mod switch;

use crate::waterfall::{self, Waterfall};
use crate::{Failure, FormatArgument, RateArgument, text};
use file::{
    Access, ExperimentFile, Figure, Instance, MeterKind, PingpongFigure, PingpongRate, Planned,
    PlotFile, Run, SendingWay, one_metre, parse, plan,
};
use plot::Plot;

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
    /// Commands of each kind and length that memcached is asked in each of its rows
    #[arg(long, default_value_t = 20)]
    count: u64,
    /// Also write everything as one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Packets of figures 3.5 and 3.6, and their bytes.
const SENT_PACKETS: u32 = 100;
const SENT_BYTES: usize = 64;

/// Published figures.
const FIGURES: &str = include_str!("../../../experiments/paper.toml");

macro_rules! experiments {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../../../experiments/", $id, "/experiment.toml")))),*]
    };
}

/// One folder each under `experiments`.
const EXPERIMENTS: &[(&str, &str)] = experiments![
    "table-1.6",
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
    "table-6.3",
    "table-6.4",
    "table-6.5",
    "table-6.6",
    "table-6.7",
    "table-6.8",
    "figure-6.13",
    "figure-6.14",
    "figure-6.15",
    "figure-6.16",
    "figure-6.17",
    "figure-6.18",
    "figure-5.10",
    "congestion",
    "resend",
    "incast",
];

/// Allowed departure from what is expected, where an experiment does not say.
const TOLERANCE_PERCENT: f64 = 2.0;
/// A row that is further from the paper's figure must say why.
const FAR_PERCENT: f64 = 15.0;
/// How a row came about that is only there to compare with.
const PUBLISHED: &str = "published";
/// Packets that are kept to take the last two apart.
const KEPT: usize = 1_000;
/// Draws the phases of all clocks.
const SEED: u64 = 1;
/// Round trips through switches at most.
const SWITCHED_LOOPS: u64 = 100;
/// Section 3.2.2.6: one cycle of 250 MHz for each 16 bytes beyond the first.
const ESTIMATE_NS_PER_16_BYTES: f64 = 4.0;

/// One row of the result.
#[derive(Debug, Serialize)]
pub struct Row {
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
    /// Why ours is far from the paper's.
    why: Option<String>,
    /// Of the run that the figure is from, where the rack made it.
    run_hash: Option<String>,
    /// What tells it from other rows of the same name.
    #[serde(skip)]
    instance: Instance,
    #[serde(skip)]
    stem: String,
}

impl Row {
    /// Whether it is further from the paper's figure than goes without saying.
    fn is_far(&self) -> bool {
        self.difference_percent
            .is_some_and(|percent| percent.abs() > FAR_PERCENT)
    }

    /// Whether a sentence is missing that says why it is far.
    fn is_unexplained(&self) -> bool {
        self.is_far() && self.why.as_ref().is_none_or(|why| why.trim().is_empty())
    }

    /// Whether something could be run, and is not.
    fn lacks(&self) -> bool {
        self.ours.is_none() && self.how != PUBLISHED
    }
}

/// Something that the rows together must fulfil.
#[derive(Debug, Serialize)]
pub struct Check {
    sentence: String,
    /// Absent: not everything that it needs was run.
    holds: Option<bool>,
    /// Why it does not hold, where that is known.
    why: Option<String>,
}

impl Check {
    /// Whether it fails without a known reason, or holds against one.
    fn surprises(&self) -> bool {
        self.holds == Some(self.why.is_some())
    }
}

#[derive(Debug, Serialize)]
pub struct Section {
    id: String,
    title: String,
    what: String,
    note: Option<String>,
    rows: Vec<Row>,
    checks: Vec<Check>,
    #[serde(skip)]
    plot: Option<Plot>,
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
        memcached: memcached::Runs::new(arguments.count),
    };
    let mut sections = Vec::new();
    for (id, text) in texts.iter().filter(|(id, _)| wanted(id)) {
        let section = runner.section(id, &parse(text, id)?)?;
        if !arguments.json {
            text::print(&show(&section))?;
        }
        sections.push(section);
    }
    if let Some(path) = &arguments.html {
        write_page(&mut runner, &sections, path)?;
    }
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let count = |is: &dyn Fn(&Row) -> bool| rows().filter(|row| is(row)).count();
    let ran = count(&|row| row.ours.is_some());
    let not_run = count(&Row::lacks);
    let surprises = count(&|row| row.as_expected == Some(false));
    let expected = count(&|row| row.as_expected == Some(true));
    let unexplained = count(&Row::is_unexplained);
    let checks = sections.iter().flat_map(|section| &section.checks);
    let explained = |check: &&Check| check.holds == Some(false) && check.why.is_some();
    let known = checks.clone().filter(explained).count();
    let failed = checks.filter(|check| check.surprises()).count();
    if arguments.json {
        let json = serde_json::to_string_pretty(&sections);
        text::print(&(json.expect("numbers and strings have JSON") + "\n"))?;
    } else {
        let mut out = format!(
            "{ran} rows ran, {expected} as the experiments expect, {surprises} not (marked !); {not_run} not run.\n"
        );
        if unexplained > 0 {
            out += &format!(
                "{unexplained} rows are more than {FAR_PERCENT} % from the dissertation, and no `why` in their \
                 experiment.toml says why (marked ?).\n"
            );
        }
        if failed > 0 {
            out += &format!("{failed} checks do not come out as expected.\n");
        }
        if known > 0 {
            out += &format!("{known} checks do not hold, for reasons that stand beside them.\n");
        }
        if let Some(path) = &arguments.html {
            out += &format!("wrote {}\n", path.display());
        }
        text::print(&out)?;
    }
    Ok(ExitCode::from(u8::from(
        surprises + unexplained + failed > 0,
    )))
}

/// SHA-256 over all figures with the hashes of their runs.
fn hash(sections: &[Section], waterfalls: &[Waterfall]) -> String {
    let mut sha = Sha256::new();
    let json = serde_json::to_vec(&(sections, waterfalls));
    sha.update(json.expect("numbers and strings have JSON"));
    let digest = sha.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Round trips that the page takes apart: what is run, rate, switches, metres.
const WATERFALLS: [(&str, RateArgument, usize, f64); 2] = [
    (
        "1G, in the rack: one FIBNIC, 20 m of cable",
        RateArgument::One,
        1,
        20.0,
    ),
    (
        "10G, two NICs and a cable of 1 m",
        RateArgument::Ten,
        0,
        1.0,
    ),
];

/// Writes the page.
fn write_page(
    runner: &mut Runner,
    sections: &[Section],
    path: &std::path::Path,
) -> Result<(), Error> {
    let mut waterfalls = Vec::new();
    for (title, rate, switches, metres) in WATERFALLS {
        let topology = runner.topology(rate, switches, metres, true)?;
        let options = Options {
            keep: KEPT,
            ..Options::default()
        };
        match run_topology(&topology, &options, &rtl) {
            Ok(outcome) => waterfalls.extend(waterfall::of(title, &outcome, rate.into())),
            // Left out of this build.
            Err(Error::Model(ipnuma_rtl::Error::NotBuilt { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    // Whole hosts, where their kernel is built; the section on chapter 6 says so if it is not.
    if crate::memcached::ready().is_ok() {
        for setup in memcached::TAKEN_APART {
            waterfalls.extend(crate::memcached::take_apart(setup)?);
        }
    }
    let hash = hash(sections, &waterfalls);
    let page = page::Page {
        sections,
        waterfalls: &waterfalls,
        facts: runner.facts(),
        platform: &runner.platform,
        hash: &hash,
    };
    let unwritten = |reason: String| Error::Output {
        path: path.display().to_string(),
        reason,
    };
    let html = page.html().map_err(unwritten)?;
    std::fs::write(path, html).map_err(|error| unwritten(error.to_string()))
}

struct Runner {
    platform: Platform,
    figures: BTreeMap<String, Figure>,
    loops: u64,
    /// Mean round trip, mean one-way time, and the accesses of a packet, by rate.
    pingpongs: BTreeMap<String, PingpongResult>,
    switches: switch::Switches,
    streams: stream::Streams,
    memcached: memcached::Runs,
}

/// The figure of a row, and how it came about.
struct Found {
    ours: Option<f64>,
    how: String,
    /// Something is wrong, whatever the figure.
    fault: bool,
    /// Of the run.
    hash: Option<String>,
}

impl Found {
    fn new(ours: f64, how: impl Into<String>) -> Self {
        Self {
            ours: Some(ours),
            how: how.into(),
            fault: false,
            hash: None,
        }
    }

    fn nothing(how: impl Into<String>) -> Self {
        Self {
            ours: None,
            how: how.into(),
            fault: false,
            hash: None,
        }
    }

    fn of_run(mut self, hash: &str) -> Self {
        self.hash = Some(hash.to_owned());
        self
    }
}

#[derive(Clone, Debug)]
struct PingpongResult {
    round_trip_ns: f64,
    one_way_ns: f64,
    /// Cables and switches, without the physical layers of the NICs, there and back.
    network_round_trip_ns: f64,
    cpu_writes: f64,
    cpu_reads: f64,
    dma_reads: f64,
    hash: String,
}

impl Runner {
    fn section(&mut self, id: &str, file: &ExperimentFile) -> Result<Section, Failure> {
        let planned = plan(id, file, &self.figures)?;
        let mut rows = Vec::new();
        for row in planned {
            rows.push(self.row(id, file, row)?);
        }
        let plot = self.plot(file, &rows)?;
        Ok(Section {
            id: id.to_owned(),
            title: file.title.clone(),
            what: file.what.clone(),
            note: file.note.clone(),
            checks: checks(file, &rows),
            plot,
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

    fn row(&mut self, id: &str, file: &ExperimentFile, planned: Planned) -> Result<Row, Failure> {
        let row = planned.file;
        let Found {
            ours,
            mut how,
            fault,
            hash,
        } = match self.execute(id, &row.run, planned.instance) {
            // A build with a part of the models runs that part.
            Err(failure) => Found::nothing(not_built(failure)?),
            Ok(found) => found,
        };
        if row.input && ours.is_some() {
            how += ", an input";
        }
        let paper = planned.paper;
        // What Linux takes is nobody's promise: such rows are held to what they say they expect, and to the checks.
        let guests = matches!(row.run, Run::Memcached(_));
        let expected = ours.and(planned.expect.or(paper.filter(|_| !guests)));
        if ours.is_some() && expected.is_none() && !guests {
            let sentence = format!("{id}, {}: a row without paper needs expect", row.name);
            return Err(Error::Config(sentence).into());
        }
        let tolerance = row.tolerance_percent.unwrap_or(TOLERANCE_PERCENT) / 100.0;
        let as_expected = ours.zip(expected).map(|(ours, expected)| {
            !fault && (ours - expected).abs() <= tolerance * expected.abs() + 1e-9
        });
        // A run that failed is no row that nobody could run.
        let as_expected = as_expected.or(fault.then_some(false));
        let relative =
            |(ours, paper): (f64, f64)| (paper != 0.0).then(|| 100.0 * (ours - paper) / paper);
        Ok(Row {
            name: planned.name,
            place: planned.place,
            unit: planned.unit,
            paper,
            ours,
            difference_percent: ours.zip(paper).and_then(relative),
            how,
            expected,
            as_expected,
            note: row.note.clone(),
            why: row.why.clone().or_else(|| file.why.clone()),
            run_hash: hash,
            instance: planned.instance,
            stem: row.name.clone(),
        })
    }

    /// Runs a row; the result in the unit of the paper's figure, and how it came about.
    fn execute(&mut self, id: &str, run: &Run, instance: Instance) -> Result<Found, Failure> {
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
            Run::Memcached(measurement) => self.memcached.measure(measurement, instance.length),
            Run::Meter {
                experiment,
                link: own,
                bytes,
            } => {
                let link = instance.link.or(*own).ok_or_else(|| {
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
                Found::new(value, "counted, RTL").of_run(&result.hash)
            }
            Run::Sending { way, count } => self.sending(*way, *count)?,
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
                Found::new(value, "RTL and constants").of_run(&result.hash)
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

    /// Accesses to send a packet of 64 bytes the conventional ways.
    fn sending(&self, way: SendingWay, count: Access) -> Result<Found, Error> {
        let (way, model, how): (_, Box<dyn NicModel>, _) = match way {
            SendingWay::Ring => (
                Way::Ring,
                rtl.ring_nic(NetSpeed::TenGig)?,
                "counted, ring NIC RTL",
            ),
            SendingWay::Rdma => (
                Way::Rdma,
                Box::new(Meter::new(PCIE_PERIOD)?),
                "counted, bus meter RTL for the NIC",
            ),
        };
        let link = self.platform.default_link(NetSpeed::TenGig);
        let sent = sending::send(&self.platform, link, way, model, SENT_PACKETS, SENT_BYTES)?;
        let accesses = match count {
            Access::CpuWrite => sent.accesses.cpu_write,
            Access::CpuRead => sent.accesses.cpu_read,
            Access::DmaRead => sent.accesses.dma_read,
        };
        Ok(Found::new(accesses as f64 / sent.packets as f64, how).of_run(&sent.hash))
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
            return Ok(result.clone());
        }
        let topology = self.topology(rate, switches, metres, reliable)?;
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
            hash: outcome.record.digest(),
        };
        self.pingpongs.insert(key, result.clone());
        Ok(result)
    }

    /// Two hosts that play ping-pong.
    fn topology(
        &self,
        rate: RateArgument,
        switches: usize,
        metres: f64,
        reliable: bool,
    ) -> Result<Topology, Error> {
        let pair = Pair {
            platform: self.platform.name.clone(),
            seed: SEED,
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
        Topology::row(pair, switches).checked()
    }

    /// What the page is made from, and how.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let loops = format!(
            "{} of a ping-pong, {} through switches",
            self.loops,
            self.loops.min(SWITCHED_LOOPS)
        );
        let mut facts = vec![
            ("Program", format!("ipnuma {}", env!("CARGO_PKG_VERSION"))),
            ("Commit", env!("IPNUMA_BUILT_COMMIT").to_owned()),
            ("RTL compiled by", env!("IPNUMA_BUILT_VERILATOR").to_owned()),
            ("Rust", env!("IPNUMA_BUILT_RUSTC").to_owned()),
            (
                "Platform",
                format!("{}: {}", self.platform.name, self.platform.title),
            ),
            ("Seed", format!("{SEED}, draws the phases of all clocks")),
            ("Round trips", loops),
        ];
        facts.extend(self.memcached.facts());
        facts
    }

    /// How the rows are drawn, if they are.
    fn plot(&self, file: &ExperimentFile, rows: &[Row]) -> Result<Option<Plot>, Error> {
        Ok(match &file.plot {
            Some(PlotFile::None {}) => None,
            Some(PlotFile::Bars { unit }) => bars(rows.iter().filter(|row| row.unit == *unit)),
            Some(PlotFile::Lines {
                x,
                y,
                log,
                rows: only,
            }) => {
                let rows = rows.iter();
                let rows =
                    rows.filter(|row| only.as_ref().is_none_or(|only| only.contains(&row.stem)));
                Some(lines(rows, (x, y), *log))
            }
            Some(PlotFile::Stacks {}) => Some(stacks(rows)),
            Some(PlotFile::Ratio { place }) => {
                Some(self.memcached.ratio_plot(*place, &self.figures)?)
            }
            None if rows.iter().all(|row| row.unit == rows[0].unit) => bars(rows.iter()),
            None => None,
        })
    }
}

/// The reason if a model is not in this build; else the failure.
fn not_built(failure: Failure) -> Result<String, Failure> {
    match &failure {
        Failure::Rack(Error::Model(error @ ipnuma_rtl::Error::NotBuilt { .. }))
        | Failure::Test(::rfc2544::Error::Rtl(error @ ipnuma_rtl::Error::NotBuilt { .. })) => {
            Ok(format!("not run: {error}"))
        }
        _ => Err(failure),
    }
}

/// What the rows together must fulfil.
fn checks(file: &ExperimentFile, rows: &[Row]) -> Vec<Check> {
    let mut checks = Vec::new();
    for row in &file.row {
        if let Some(least) = row.at_least {
            let ours = rows.iter().find(|found| found.stem == row.name);
            let (name, ours) = ours.map_or((row.name.as_str(), None), |found| {
                (found.name.as_str(), found.ours)
            });
            checks.push(Check {
                sentence: format!("{name}: at least {}", number(least)),
                holds: ours.map(|ours| ours >= least),
                why: None,
            });
        }
    }
    if file.rising {
        let holds = file::LENGTHS.map(|length| {
            let values: Option<Vec<f64>> = rows
                .iter()
                .filter(|row| row.instance.length == Some(length))
                .map(|row| row.ours)
                .collect();
            values.map(|values| values.windows(2).all(|pair| pair[0] < pair[1]))
        });
        checks.push(Check {
            sentence: "the order of the rows is the dissertation's, at every length".to_owned(),
            holds: if holds.contains(&Some(false)) {
                Some(false)
            } else {
                holds.iter().all(Option::is_some).then_some(true)
            },
            why: file.rising_fails.clone(),
        });
    }
    checks
}

fn pair(row: &Row) -> plot::Pair {
    plot::Pair {
        paper: row.paper,
        ours: row.ours,
    }
}

/// Bars of the rows that have something to show; one alone says no more than the table.
fn bars<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Plot> {
    let rows: Vec<_> = rows
        .filter(|row| row.paper.or(row.ours).is_some())
        .collect();
    let [first, _, ..] = &rows[..] else {
        return None;
    };
    Some(Plot::Bars {
        unit: first.unit.clone(),
        rows: rows
            .iter()
            .map(|row| (row.name.clone(), pair(row)))
            .collect(),
    })
}

fn lines<'a>(rows: impl Iterator<Item = &'a Row>, (x, y): (&str, &str), log: bool) -> Plot {
    let mut categories: Vec<String> = Vec::new();
    let mut series: Vec<plot::Series> = Vec::new();
    for row in rows {
        let category = match (row.instance.link, row.instance.length) {
            (Some(link), _) => link.to_string(),
            (None, Some(length)) => length.to_string(),
            (None, None) => row.name.clone(),
        };
        if !categories.contains(&category) {
            categories.push(category);
        }
        match series.iter_mut().find(|series| series.name == row.stem) {
            Some(series) => series.pairs.push(pair(row)),
            None => series.push(plot::Series {
                name: row.stem.clone(),
                pairs: vec![pair(row)],
            }),
        }
    }
    Plot::Lines {
        categories,
        x: x.to_owned(),
        y: y.to_owned(),
        series,
        log,
    }
}

fn stacks(rows: &[Row]) -> Plot {
    let mut names: Vec<String> = Vec::new();
    let mut parts: Vec<plot::Series> = Vec::new();
    for row in rows {
        let (bar, part) = row.name.split_once(": ").unwrap_or((&row.name, ""));
        if !names.iter().any(|name| name == bar) {
            names.push(bar.to_owned());
        }
        match parts.iter_mut().find(|series| series.name == part) {
            Some(series) => series.pairs.push(pair(row)),
            None => parts.push(plot::Series {
                name: part.to_owned(),
                pairs: vec![pair(row)],
            }),
        }
    }
    Plot::Stacks {
        rows: names,
        parts,
        unit: rows.first().map_or(String::new(), |row| row.unit.clone()),
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
    let mut said: Vec<&String> = Vec::new();
    for row in &section.rows {
        let ours = row.ours.map_or("-".to_owned(), number);
        let difference = match (row.difference_percent, row.ours.zip(row.paper)) {
            (Some(percent), _) if percent.abs() < 0.05 => "0.0 %".to_owned(),
            (Some(percent), _) => format!("{percent:+.1} %"),
            (None, Some((ours, paper))) => format!("{:+}", ours - paper),
            (None, None) => "-".to_owned(),
        };
        let mark = match (row.as_expected, row.is_unexplained()) {
            (Some(false), _) => " !",
            (_, true) => " ?",
            _ => "",
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
        // What all rows have in common is said once.
        if let Some(why) = row.why.as_ref().filter(|_| row.is_far())
            && !said.contains(&why)
        {
            out += &text::wrap(&format!("Why: {why}"), 6);
            said.push(why);
        }
    }
    for check in &section.checks {
        let holds = match check.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "not run",
        };
        out += &text::wrap(&format!("{holds}: {}", check.sentence), 2);
        if let Some(why) = &check.why {
            out += &text::wrap(&format!("Why: {why}"), 6);
        }
    }
    if let Some(note) = &section.note {
        out += &text::wrap(note, 2);
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rows as the files have them, with the experiment's id.
    fn all_rows(check: impl Fn(&str, &ExperimentFile, &Planned)) {
        let figures: BTreeMap<String, Figure> = parse(FIGURES, "paper.toml").expect("it is right");
        for (id, text) in EXPERIMENTS {
            let file: ExperimentFile = parse(text, id).expect("it is right");
            for row in plan(id, &file, &figures).expect("its figures are there") {
                check(id, &file, &row);
            }
        }
    }

    #[test]
    fn what_is_expected_far_from_the_paper_says_why() {
        all_rows(|id, file, row| {
            // Beside nothing there are no hundredths.
            let (Some(paper), Some(expect)) = (row.paper.filter(|paper| *paper != 0.0), row.expect)
            else {
                return;
            };
            let percent = 100.0 * (expect - paper).abs() / paper.abs();
            let why = row.file.why.as_ref().or(file.why.as_ref());
            assert!(
                percent <= FAR_PERCENT || why.is_some_and(|why| why.split_whitespace().count() > 4),
                "{id}, {}: {expect} is {percent:.0} % from {paper}, and there is no `why`",
                row.name
            );
        });
    }

    fn row(paper: f64, ours: f64, why: Option<&str>) -> Row {
        Row {
            name: "a".to_owned(),
            place: None,
            unit: "ns".to_owned(),
            paper: Some(paper),
            ours: Some(ours),
            difference_percent: Some(100.0 * (ours - paper) / paper),
            how: String::new(),
            expected: None,
            as_expected: None,
            note: None,
            why: why.map(str::to_owned),
            run_hash: None,
            instance: Instance::default(),
            stem: "a".to_owned(),
        }
    }

    #[test]
    fn a_difference_without_a_sentence_is_found() {
        assert!(row(100.0, 116.0, None).is_unexplained());
        assert!(row(100.0, 84.0, Some("  ")).is_unexplained());
        assert!(!row(100.0, 84.0, Some("Because.")).is_unexplained());
        assert!(!row(100.0, 115.0, None).is_unexplained());
    }

    #[test]
    fn checks_hold_fail_and_wait() {
        let text = r#"
            title = "t"
            what = "w"
            rising = true
            [[row]]
            name = "one"
            unit = "%"
            each_length = true
            run = { kind = "published" }
            [[row]]
            name = "two"
            unit = "%"
            each_length = true
            at_least = 432
            run = { kind = "published" }
        "#;
        let file: ExperimentFile = parse(text, "a test").expect("it is right");
        let rows = |one: f64, two: Option<f64>| {
            let mut rows = Vec::new();
            for (stem, ours) in [("one", Some(one)), ("two", two)] {
                for length in file::LENGTHS {
                    rows.push(Row {
                        stem: stem.to_owned(),
                        ours,
                        instance: Instance {
                            length: Some(length),
                            ..Instance::default()
                        },
                        ..row(1.0, 1.0, None)
                    });
                }
            }
            rows
        };
        let found = |rows: &[Row]| {
            checks(&file, rows)
                .iter()
                .map(|check| check.holds)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&rows(100.0, Some(432.0))), [Some(true), Some(true)]);
        assert_eq!(found(&rows(432.0, Some(431.0))), [Some(false), Some(false)]);
        assert_eq!(found(&rows(100.0, None)), [None, None]);
        // Not rising at one length only.
        let mut one_wrong = rows(100.0, Some(500.0));
        one_wrong[3].ours = Some(501.0);
        assert_eq!(found(&one_wrong), [Some(true), Some(false)]);
        // A reason that is known explains a failure, and nothing else.
        let known = ExperimentFile {
            rising_fails: Some("because".to_owned()),
            ..file
        };
        for (rows, surprise) in [(&one_wrong, false), (&rows(100.0, Some(432.0)), true)] {
            assert_eq!(checks(&known, rows)[1].surprises(), surprise);
        }
    }
}
