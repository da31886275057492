// SPDX-License-Identifier: Apache-2.0
//! Runs the rows of experiments, each arrangement once.

use std::collections::BTreeMap;

use ipnuma_rtl::NetSpeed;
use rack::faults::Faults;
use rack::meter::{self, Experiment};
use rack::model::{Hardware, Meter, NicModel, PCIE_PERIOD};
use rack::pcie::LinkKind;
use rack::platform::Platform;
use rack::record::NETWORK;
use rack::run::{Options, Outcome, rtl, run as run_topology};
use rack::sending::{self, Way};
use rack::topology::{Format, NicOptions, Pair, Rate};
use rack::{Error, Picoseconds, Topology};

use super::checks::checks;
use super::file::{
    Access, ExperimentFile, Figure, Instance, MeterKind, PingpongFigure, Planned, PlotFile,
    RdmaFigure, Run, SendingWay, SocketsFigure, plan,
};
use super::{Found, PUBLISHED, Row, Section, draw, memcached, router, stream, switch, waiting};
use crate::fitted::Constants;
use crate::plot::Plot;
use crate::waterfall::{self, Waterfall};
use crate::{Failure, echo};

/// Packets that are kept to take the last two apart.
const KEPT: usize = 1_000;
/// Draws the phases of all clocks.
const SEED: u64 = 1;
/// Round trips over sockets.
const SOCKET_LOOPS: u64 = 50;
/// Round trips through switches at most.
const SWITCHED_LOOPS: u64 = 100;
/// Section 3.2.2.6: one cycle of 250 MHz for each 16 bytes beyond the first.
const ESTIMATE_NS_PER_16_BYTES: f64 = 4.0;
/// Packets of figures 3.5 and 3.6, and their bytes.
const SENT_PACKETS: u32 = 100;
const SENT_BYTES: usize = 64;
/// Bytes of the ping-pong.
const PINGPONG_BYTES: usize = 4;
/// Allowed departure from what is expected, where an experiment does not say.
pub(super) const TOLERANCE_PERCENT: f64 = 2.0;

/// Of a one-way time: NIC sends, network (with constants), frame on the wire, NIC receives.
const RTL_STAGES: [usize; 4] = [NETWORK - 1, NETWORK, NETWORK + 1, NETWORK + 2];

/// Round trips that the page takes apart: what is run, rate, switches, metres.
const WATERFALLS: [(&str, Rate, usize, f64); 2] = [
    (
        "1G, in the rack: one FIBNIC, 20 m of cable",
        Rate::One,
        1,
        20.0,
    ),
    ("10G, two NICs and a cable of 1 m", Rate::Ten, 0, 1.0),
];

/// Runs rows, and remembers what it has run.
pub struct Runner {
    platform: Platform,
    figures: BTreeMap<String, Figure>,
    loops: u64,
    /// Mean round trip, mean one-way time, and the accesses of a packet, by rate.
    pingpongs: BTreeMap<String, PingpongResult>,
    switches: switch::Switches,
    routers: router::Routers,
    streams: stream::Streams,
    waits: waiting::Waits,
    memcached: memcached::Runs,
    /// Ping-pong over sockets, by rate and way; with the sentence of a run that failed.
    sockets: BTreeMap<String, Result<echo::Measured, String>>,
}

#[cfg(test)]
impl Runner {
    /// A runner that has run chapter 6 already.
    pub(super) fn recorded(figures: BTreeMap<String, Figure>, memcached: memcached::Runs) -> Self {
        Self {
            platform: Platform::load("keio-2016").expect("built in"),
            figures,
            loops: 1,
            pingpongs: BTreeMap::new(),
            switches: switch::Switches::default(),
            routers: router::Routers::default(),
            streams: stream::Streams::default(),
            waits: waiting::Waits::default(),
            memcached,
            sockets: BTreeMap::new(),
        }
    }
}

impl Planned<'_> {
    /// Whether ours is near enough to what is expected.
    pub(super) fn allows(&self, ours: f64, expected: f64) -> bool {
        let tolerance = self.tolerance_percent.unwrap_or(TOLERANCE_PERCENT) / 100.0;
        (ours - expected).abs() <= tolerance * expected.abs() + 1e-9
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
    /// Hundredths of the one-way time that RTL simulated, and of the network's time.
    rtl_percent: f64,
    network_rtl_percent: f64,
    hash: String,
}

impl Runner {
    /// Has run nothing.
    pub fn new(
        platform: Platform,
        figures: BTreeMap<String, Figure>,
        loops: u64,
        count: u64,
        shares: bool,
    ) -> Self {
        Self {
            platform,
            figures,
            loops,
            pingpongs: BTreeMap::new(),
            switches: switch::Switches::default(),
            routers: router::Routers::default(),
            streams: stream::Streams::default(),
            waits: waiting::Waits::default(),
            memcached: memcached::Runs::new(count, shares),
            sockets: BTreeMap::new(),
        }
    }

    /// What is assumed.
    pub const fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Begins what can be run beside the rows in front of it: chapter 6, and with `page` what the page takes apart.
    pub fn begin(&mut self, files: &[(&str, ExperimentFile)], page: bool) {
        let rows = files.iter().flat_map(|(_, file)| &file.row);
        let rows = rows.filter_map(|row| match &row.run {
            Run::Memcached(measurement) => Some((measurement, row.each_clients)),
            _ => None,
        });
        self.memcached.begin(rows, page);
    }

    /// Requests taken apart, those that this build and this machine can run.
    pub fn waterfalls(&mut self) -> Result<Vec<Waterfall>, Error> {
        let mut waterfalls = Vec::new();
        for (title, rate, switches, metres) in WATERFALLS {
            let way = echo::Way {
                switches,
                metres,
                ..echo::Way::direct(rate)
            };
            let topology = self.topology(way, true)?;
            let options = Options {
                keep: KEPT,
                ..Options::default()
            };
            let outcome = run_topology(&topology, &options, &rtl)?;
            waterfalls.extend(waterfall::of(title, &outcome, rate));
        }
        // Whole hosts, where their kernel is built; the section on chapter 6 says so if it is not.
        if crate::memcached::ready().is_ok() {
            for setup in memcached::TAKEN_APART {
                waterfalls.extend(self.memcached.waterfall(setup)?.cloned());
            }
        }
        Ok(waterfalls)
    }

    /// Runs a table or figure.
    pub fn section(&mut self, id: &str, file: &ExperimentFile) -> Result<Section, Failure> {
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
            headline: file.headline.clone(),
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

    /// What is added to a latency for physical layers.
    fn phy_ns(&self, id: &str, key: Option<&String>) -> Result<Option<f64>, Error> {
        key.map_or(Ok(None), |key| Ok(self.figure(id, key)?.value))
    }

    fn row(&mut self, id: &str, file: &ExperimentFile, planned: Planned) -> Result<Row, Failure> {
        let row = planned.file;
        let Found {
            ours,
            mut how,
            fault,
            hash,
            rtl_percent,
        } = self.execute(id, &row.run, planned.instance)?;
        if row.input && ours.is_some() {
            how += ", an input";
        }
        let paper = planned.paper;
        // What Linux takes is nobody's promise: such rows are held to what they say they expect, and to the checks.
        let guests = matches!(
            row.run,
            Run::Memcached(_) | Run::Sockets { .. } | Run::Router(_)
        );
        let expected = ours.and(planned.expect.or(paper.filter(|_| !guests)));
        if ours.is_some() && expected.is_none() && !guests {
            let sentence = format!("{id}, {}: a row without paper needs expect", row.name);
            return Err(Error::Config(sentence).into());
        }
        let as_expected = ours
            .zip(expected)
            .map(|(ours, expected)| !fault && planned.allows(ours, expected));
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
            why: planned.why.map(str::to_owned).or_else(|| file.why.clone()),
            run_hash: hash,
            rtl_percent,
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
                let phy_ns = self.phy_ns(id, measurement.phy.as_ref())?;
                self.switches.measure(measurement, phy_ns)?
            }
            Run::Router(measurement) => {
                let phy_ns = self.phy_ns(id, measurement.phy.as_ref())?;
                self.routers.measure(measurement, phy_ns)
            }
            Run::Stream(measurement) => self.streams.measure(measurement)?,
            Run::Offload(measurement) => measurement.measure()?,
            Run::Waiting(measurement) => {
                let topology = self.topology(echo::Way::direct(Rate::Ten), true)?;
                self.waits.measure(measurement, topology)?
            }
            Run::Memcached(measurement) => self.memcached.measure(measurement, instance),
            Run::Sockets {
                rate,
                figure,
                switches,
                metres,
                constants,
            } => {
                let way = echo::Way {
                    rate: *rate,
                    switches: *switches,
                    metres: *metres,
                    constants: *constants,
                };
                self.sockets(way, *figure)?
            }
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
                let result = self.pingpong(echo::Way::direct(Rate::Ten), true)?;
                let value = match count {
                    Access::CpuWrite => result.cpu_writes,
                    Access::CpuRead => result.cpu_reads,
                    Access::DmaRead => result.dma_reads,
                };
                Found::new(value, "counted, RTL").of_run(&result.hash)
            }
            Run::Sending { way, count } => self.sending(*way, *count)?,
            Run::Rdma { figure, constants } => self.rdma(*figure, *constants)?,
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
                constants,
            } => {
                let way = echo::Way {
                    rate: *rate,
                    switches: *switches,
                    metres: *metres,
                    constants: *constants,
                };
                let result = self.pingpong(way, *reliable)?;
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
                let percent = match figure {
                    PingpongFigure::RoundTrip | PingpongFigure::OneWay => Some(result.rtl_percent),
                    PingpongFigure::NetworkRoundTrip => Some(result.network_rtl_percent),
                    PingpongFigure::LoopsRatio => None,
                };
                let how = constants.marked("RTL and constants");
                let found = Found::new(value, how).of_run(&result.hash);
                found.with_rtl(percent)
            }
        })
    }

    /// Ping-pong over sockets; without the guests' kernel there is nothing to run.
    fn sockets(&mut self, way: echo::Way, figure: SocketsFigure) -> Result<Found, Error> {
        if let Err(needs) = crate::memcached::ready() {
            return Ok(Found::nothing(format!("not run: needs {needs}")));
        }
        let key = format!("{way:?}");
        let measured = self
            .sockets
            .entry(key)
            .or_insert_with(|| echo::measure(way, SOCKET_LOOPS).map_err(|error| error.to_string()));
        let measured = match measured {
            Ok(measured) => measured.clone(),
            Err(sentence) => {
                let mut found = Found::nothing(format!("not run: it failed {sentence}"));
                found.fault = true;
                return Ok(found);
            }
        };
        let (value, how) = match figure {
            SocketsFigure::RoundTrip => (measured.round_trip_ns / 1e3, "Linux, RTL and constants"),
            SocketsFigure::OneWay => (measured.round_trip_ns / 2e3, "Linux, RTL and constants"),
            SocketsFigure::LoopsRatio => {
                let ours = self.pingpong(way, true)?;
                let ours = ours.round_trip_ns;
                (measured.round_trip_ns / ours, "computed from runs")
            }
        };
        Ok(Found::new(value, way.constants.marked(how)).of_run(&measured.hash))
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

    /// IP-NUMA beside a NIC that reads by DMA, after a doorbell, what IP-NUMA has got with the store: 4 bytes, the same
    /// hosts, links, cable and NIC.
    fn rdma(&mut self, figure: RdmaFigure, constants: Constants) -> Result<Found, Error> {
        let way = echo::Way {
            constants,
            ..echo::Way::direct(Rate::Ten)
        };
        let ours = self.pingpong(way, true)?;
        let link = self.platform.default_link(NetSpeed::TenGig);
        let read_ns = self.meter(MeterKind::DmaRead, link, PINGPONG_BYTES)?;
        let rdma_ns = ours.one_way_ns + read_ns;
        let below = |other: f64| 100.0 * (1.0 - ours.one_way_ns / other);
        let (value, how) = match figure {
            RdmaFigure::OneWay => (rdma_ns, "RTL and constants"),
            RdmaFigure::BelowEstimate => (
                below(self.estimate(true, PINGPONG_BYTES)?),
                "RTL and constants",
            ),
            RdmaFigure::BelowRun => (below(rdma_ns), "computed from runs"),
        };
        Ok(Found::new(value, constants.marked(how)).of_run(&ours.hash))
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

    fn pingpong(&mut self, way: echo::Way, reliable: bool) -> Result<PingpongResult, Error> {
        let key = format!("{way:?} {reliable}");
        if let Some(result) = self.pingpongs.get(&key) {
            return Ok(result.clone());
        }
        let topology = self.topology(way, reliable)?;
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
        let one_way_ns = outcome.record.one_way.mean_ns();
        let constants = outcome.constants.sum().as_ns();
        let network = outcome.record.stages[NETWORK].mean_ns();
        let phys = outcome.constants.phy.as_ns();
        let rtl_ns: f64 = RTL_STAGES
            .map(|stage| outcome.record.stages[stage].mean_ns())
            .iter()
            .sum();
        let percent = |part: f64, whole: f64| 100.0 * part / whole.max(1e-9);
        let result = PingpongResult {
            rtl_percent: percent(rtl_ns - constants, one_way_ns),
            network_rtl_percent: percent(network - constants, network - phys),
            round_trip_ns: Picoseconds(total).as_ns() / outcome.round_trips.len().max(1) as f64,
            one_way_ns,
            network_round_trip_ns: 2.0 * (network - phys),
            cpu_writes: sum.0 as f64 / packets,
            cpu_reads: sum.1 as f64 / packets,
            dma_reads: sum.2 as f64 / packets,
            hash: outcome.record.digest(),
        };
        self.pingpongs.insert(key, result.clone());
        Ok(result)
    }

    /// Two hosts that play ping-pong.
    fn topology(&self, way: echo::Way, reliable: bool) -> Result<Topology, Error> {
        let echo::Way {
            rate,
            switches,
            metres,
            constants,
        } = way;
        let pair = Pair {
            platform: match constants {
                Constants::Published => self.platform.name.clone(),
                Constants::Fitted => constants.platform(),
            },
            seed: SEED,
            rate,
            format: Format::Compact,
            metres,
            bytes: PINGPONG_BYTES,
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
    pub fn facts(&self) -> Vec<(&'static str, String)> {
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
            Some(PlotFile::Bars { unit }) => {
                draw::bars(rows.iter().filter(|row| row.unit == *unit))
            }
            Some(PlotFile::Lines {
                x,
                y,
                log,
                rows: only,
            }) => {
                let rows = rows.iter();
                let rows =
                    rows.filter(|row| only.as_ref().is_none_or(|only| only.contains(&row.stem)));
                Some(draw::lines(rows, (x, y), *log))
            }
            Some(PlotFile::Stacks {}) => Some(draw::stacks(rows)),
            Some(PlotFile::Ratio { place }) => {
                Some(self.memcached.ratio_plot(*place, &self.figures)?)
            }
            Some(PlotFile::Waiting {}) => Some(self.waits.plot()),
            None if rows.iter().all(|row| row.unit == rows[0].unit) => draw::bars(rows.iter()),
            None => None,
        })
    }
}
