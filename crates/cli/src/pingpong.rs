// SPDX-License-Identifier: Apache-2.0
//! `ipnuma pingpong`: figure 4.3, with every stage of the one-way time.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use rack::capture::{write_pcapng, write_perfetto};
use rack::faults::FaultCounts;
use rack::platform::Platform;
use rack::rack::wave_file;
use rack::record::{STAGES, Spread};
use rack::run::{Options, Outcome, rtl, run as run_topology};
use rack::topology::{Format, MOST_SWITCHES, Pair, ProgramSpec, Rate};
use rack::{Error, NetSpeed, Picoseconds, Topology};
use serde::Serialize;

use crate::{FormatArgument, RateArgument};
use crate::{given, network, output};
use report::sessions::{self, Sessions};
use report::text::Summary;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Bytes of a message: 4 to 64, a multiple of 4
    #[arg(long, default_value_t = 4)]
    bytes: usize,
    /// Measured round trips
    #[arg(long, default_value_t = 1_000)]
    loops: u64,
    /// Round trips before measuring
    #[arg(long, default_value_t = 10)]
    warmup: u64,
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// Switches in a row between the hosts
    #[arg(long, default_value_t = 0)]
    switches: usize,
    /// Metres of cable in all [default: 1; with one switch 20, with more 200, as in chapter 6]
    #[arg(long, visible_alias = "metres")]
    cable_m: Option<f64>,
    /// Constants of hosts and PHYs: keio-2016, modern, keio-2016-fitted, or a .toml file
    #[arg(long, default_value = "keio-2016")]
    platform: String,
    /// Packet format
    #[arg(long, default_value = "compact")]
    format: FormatArgument,
    /// Draws the phases of the clocks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    network: network::Arguments,
    /// Take hosts, NICs, cables and program from a topology file
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["bytes", "loops", "warmup", "rate", "switches", "cable_m", "platform", "format", "seed"])]
    topology: Option<PathBuf>,
    /// Write a timeline for ui.perfetto.dev
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "pingpong.trace.json")]
    trace: Option<PathBuf>,
    /// Write all frames and TLPs
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "pingpong.pcapng")]
    pcap: Option<PathBuf>,
    /// Write waves of the first two measured round trips, a file for each NIC and switch: NAME.HOST.fst
    #[arg(long, value_name = "NAME.fst", num_args = 0..=1, default_missing_value = "pingpong.fst")]
    waves: Option<PathBuf>,
    /// Simulate idle clock cycles too (slower, same result)
    #[arg(long)]
    no_skip: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Round trips before measuring at most: as many as are measured.
const MOST_WARMUP: u64 = 100_000_000;
/// Packets, frames and TLPs at most in a file.
const KEEP: usize = 200_000;
/// Section 4.2.3 and table 4.5.
const PAPER_ONE_WAY_10G: f64 = 1_081.0;
/// Table 4.5, half of 10.308 us.
const PAPER_ONE_WAY_1G: f64 = 5_154.0;
/// 223 + 300 + 223.
const PAPER_CONSTANTS_10G: f64 = 746.0;
/// Table 4.6: computed with one switch of 380 ns.
const PAPER_IN_RACK_10G: f64 = 1_460.0;
/// Table 4.6: computed with four of them and 200 m.
const PAPER_BETWEEN_RACKS_10G: f64 = 3_600.0;
/// Section 4.3.5: an Arista 7150.
const PAPER_SWITCH_10G: f64 = 380.0;
/// Table 5.2: FIBNIC with its PHYs, IPv4.
const PAPER_SWITCH_1G: f64 = 976.0;
/// Section 6.6: cables in a rack with one switch.
const METRES_IN_RACK: f64 = 20.0;
/// Section 6.6: cables between racks, with four switches.
const METRES_BETWEEN_RACKS: f64 = 200.0;

/// One row of the breakdown.
#[derive(Debug, Serialize)]
struct Stage {
    name: String,
    mean_ns: f64,
    min_ns: f64,
    max_ns: f64,
    /// `rtl`, `constant`, `constant+clock` or `not published`.
    kind: &'static str,
    source: String,
}

/// A switch on the way, from the edge that takes the first byte of the preamble to the one that sends it. From pins to
/// pins it is a cycle more, which is in the wait for the edge.
#[derive(Debug, Serialize)]
struct SwitchRow {
    name: String,
    mean_ns: f64,
    min_ns: f64,
    max_ns: f64,
    min_cycles: f64,
    max_cycles: f64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    topology: &'a str,
    platform: &'a str,
    bytes: usize,
    loops: u64,
    seed: u64,
    round_trip_ns: Summary,
    one_way_ns: Summary,
    stages: &'a [Stage],
    switches: &'a [SwitchRow],
    rtl_ns: f64,
    constants_ns: f64,
    simulated_ns: f64,
    frames: u64,
    tlps: u64,
    clock_edges: u64,
    run_hash: String,
    /// What sealing adds to the median of the one-way times.
    #[serde(skip_serializing_if = "Option::is_none")]
    seal_ns: Option<f64>,
    /// What happened on cables with faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    faults: Option<FaultCounts>,
    /// What the sessions did about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<Sessions>,
}

fn topology(arguments: &Arguments) -> Result<Topology, Error> {
    if let Some(path) = &arguments.topology {
        let mut topology = Topology::load(path)?;
        arguments.network.apply(&mut topology)?;
        return Ok(topology);
    }
    rack::topology::check_pingpong(arguments.bytes, arguments.loops)
        .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
    if arguments.warmup > MOST_WARMUP {
        return Err(Error::Config(format!(
            "--warmup: {} are too many; write 0 to {MOST_WARMUP}",
            arguments.warmup
        )));
    }
    let metres = arguments.cable_m.unwrap_or(match arguments.switches {
        0 => 1.0,
        1 => METRES_IN_RACK,
        _ => METRES_BETWEEN_RACKS,
    });
    if !(0.0..=100_000.0).contains(&metres) {
        return Err(Error::Config(format!(
            "--cable-m (or --metres): {metres} is no length; write 0 to 100000"
        )));
    }
    if arguments.switches > MOST_SWITCHES {
        return Err(Error::Config(format!(
            "--switches: {} are too many; write 0 to {MOST_SWITCHES}",
            arguments.switches
        )));
    }
    let pair = Pair {
        platform: arguments.platform.clone(),
        seed: arguments.seed,
        rate: arguments.rate.into(),
        format: arguments.format.into(),
        metres,
        bytes: arguments.bytes,
        loops: arguments.loops,
        warmup: arguments.warmup,
        nic: arguments.network.nic(false),
        faults: arguments.network.faults()?,
    };
    Topology::row(pair, arguments.switches).checked()
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let topology = topology(arguments)?;
    given::files(&[
        ("--trace", arguments.trace.as_ref()),
        ("--pcap", arguments.pcap.as_ref()),
        ("--waves", arguments.waves.as_ref()),
    ])?;
    let files = arguments.trace.is_some() || arguments.pcap.is_some();
    let options = Options {
        skip_idle: !arguments.no_skip,
        keep: if files { KEEP } else { 0 },
        waves: arguments.waves.clone(),
        ..Options::default()
    };
    let outcome = run_topology(&topology, &options, &rtl)?;
    let unsealed = if arguments.network.auth() {
        Some(without_seals(&topology)?)
    } else {
        None
    };
    if let Some(path) = &arguments.pcap {
        write_pcapng(&outcome, path)?;
    }
    if let Some(path) = &arguments.trace {
        write_perfetto(&outcome, path)?;
    }
    let switches = switch_rows(&topology, &outcome);
    let stages = breakdown(&topology, &outcome, &switches)?;
    let out = if arguments.json {
        json(arguments, &topology, &outcome, &stages, &switches, unsealed)
    } else {
        let mut out = report(&topology, &outcome, &stages, &switches);
        if let Some(unsealed) = unsealed {
            let sealed = median(&outcome);
            let _ = writeln!(
                out,
                "\none way, median: {sealed:.1} ns sealed, {unsealed:.1} ns in sessions without seals: the seal costs {:.1} ns",
                sealed - unsealed
            );
        }
        out += &sessions(&outcome);
        let waves = arguments.waves.iter().flat_map(|path| {
            let switches = outcome.switches.iter().map(|switch| &switch.name);
            let names = outcome.names.iter().chain(switches);
            names.map(|name| wave_file(path, name))
        });
        let files_written = [&arguments.trace, &arguments.pcap].into_iter().flatten();
        for path in files_written.cloned().chain(waves) {
            let _ = writeln!(out, "wrote {}", path.display());
        }
        if files && outcome.record.counted.1 > KEEP as u64 {
            let _ = writeln!(out, "the files end after {KEEP} packets, frames or TLPs");
        }
        out
    };
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Median of the one-way times, from store to poll.
fn median(outcome: &Outcome) -> f64 {
    Summary::of(&outcome.record.one_ways).median
}

/// The median of the same run without seals.
fn without_seals(topology: &Topology) -> Result<f64, Error> {
    let mut topology = topology.clone();
    for host in &mut topology.host {
        host.nic.auth = false;
    }
    let outcome = run_topology(&topology, &Options::default(), &rtl)?;
    Ok(median(&outcome))
}

/// The sum of both NICs.
fn sessions_of(outcome: &Outcome) -> Option<Sessions> {
    let [one, two] = outcome.statistics.as_ref()?;
    let mut sum = *one;
    sum.add(two);
    Some(Sessions::of(&sum))
}

/// What the sessions did about the faults.
fn sessions(outcome: &Outcome) -> String {
    let Some(sessions) = sessions_of(outcome) else {
        return String::new();
    };
    let mut out = format!("\n{}\n", sessions::describe(&outcome.faults));
    for (name, value) in sessions.rows() {
        let _ = writeln!(out, "  {name:<26}{value:>10}");
    }
    out
}

fn rate_of(topology: &Topology) -> Rate {
    topology.host[0].nic.rate
}

/// Mean, least and most, in nanoseconds.
type Times = (f64, f64, f64);

fn times(spread: &Spread) -> Times {
    (spread.mean_ns(), spread.min.as_ns(), spread.max.as_ns())
}

/// The switches on the way, in order.
fn switch_rows(topology: &Topology, outcome: &Outcome) -> Vec<SwitchRow> {
    let period = NetSpeed::from(rate_of(topology)).net_period_ps() as f64;
    let rows = outcome.path.iter().filter_map(|number| {
        let switch = &outcome.switches[*number];
        let spread = outcome.record.switches.get(&switch.id)?;
        let (mean_ns, min_ns, max_ns) = times(spread);
        Some(SwitchRow {
            name: switch.name.clone(),
            mean_ns,
            min_ns,
            max_ns,
            // Of whole picoseconds, so that whole cycles stay whole.
            min_cycles: spread.min.0 as f64 / period,
            max_cycles: spread.max.0 as f64 / period,
        })
    });
    rows.collect()
}

impl Stage {
    fn new(
        name: &str,
        (mean_ns, min_ns, max_ns): Times,
        kind: &'static str,
        source: String,
    ) -> Self {
        Self {
            name: name.to_owned(),
            mean_ns,
            min_ns,
            max_ns,
            kind,
            source,
        }
    }
}

impl SwitchRow {
    fn stage(&self, top: &str) -> Stage {
        let cycles = if self.min_cycles == self.max_cycles {
            format!("{} cycles", self.min_cycles)
        } else {
            format!("{}-{} cycles", self.min_cycles, self.max_cycles)
        };
        Stage::new(
            &format!("switch {}", self.name),
            (self.mean_ns, self.min_ns, self.max_ns),
            "RTL",
            format!("{top}: {cycles}, preamble"),
        )
    }
}

/// The stages of the record, with the network taken apart and a source for each.
fn breakdown(
    topology: &Topology,
    outcome: &Outcome,
    switches: &[SwitchRow],
) -> Result<Vec<Stage>, Error> {
    let platform = Platform::load(&topology.platform)?;
    let rate = rate_of(topology);
    let [store, down, transmit, _, frame, receive, up, poll]: [Times; STAGES] =
        std::array::from_fn(|index| times(&outcome.record.stages[index]));
    let fixed = |time: Picoseconds| (time.as_ns(), time.as_ns(), time.as_ns());
    let constants = &outcome.constants;
    let links = times(&outcome.record.links);
    let constant = constants.sum().as_ns();
    let align = (links.0 - constant, links.1 - constant, links.2 - constant);
    let (nic, switch) = match rate {
        Rate::Ten => ("ipnuma_nic_10g", "fibnic_10g"),
        Rate::One => ("ipnuma_nic_1g", "fibnic_1g"),
    };
    let mut stages = Vec::new();
    let mut add = |name: &str, times, kind, source| {
        stages.push(Stage::new(name, times, kind, source));
    };
    let unpublished = |constant: &rack::platform::Constant| {
        if constant.value().is_some() {
            ("constant", constant.cite())
        } else {
            ("not published", String::new())
        }
    };
    if store.2 > 0.0 {
        let source = platform.combined_store.cite();
        add("CPU store", store, "constant", source);
    } else {
        let source = "inside the next".to_owned();
        add("CPU store", store, "not published", source);
    }
    add("PCIe down", down, "constant", platform.store_latency.cite());
    add(
        "NIC transmit",
        transmit,
        "RTL",
        format!("{nic}: TLP in to word out"),
    );
    let phy = platform.phy(rate.into()).cite();
    let metre = platform.cable_metre.cite();
    if switches.is_empty() {
        add("PHY, both", fixed(constants.phy), "constant", phy);
        add("cable", fixed(constants.cable), "constant", metre);
        let source = "until the receiving MAC's edge".to_owned();
        add("receive clock", align, "RTL", source);
    } else {
        add("PHY, both NICs", fixed(constants.phy), "constant", phy);
        let (kind, source) = unpublished(platform.switch_phy(rate.into()));
        let name = match switches.len() {
            1 => "PHY, switch".to_owned(),
            count => format!("PHY, {count} switches"),
        };
        let time = constants.switch_phy.unwrap_or_default();
        add(&name, fixed(time), kind, source);
        let name = format!("{} cables", switches.len() + 1);
        add(&name, fixed(constants.cable), "constant", metre);
        let source = format!("until the edges of {} MACs", switches.len() + 1);
        add("receive clocks", align, "RTL", source);
    }
    stages.extend(switches.iter().map(|row| row.stage(switch)));
    let mut add = |name: &str, times, kind, source| {
        stages.push(Stage::new(name, times, kind, source));
    };
    add(
        "frame on the wire",
        frame,
        "RTL",
        format!("{nic}: first to last word"),
    );
    add(
        "NIC receive",
        receive,
        "RTL",
        format!("{nic}: word in to TLP out"),
    );
    add("PCIe up", up, "constant", platform.dma_write_latency.cite());
    let (kind, source) = match platform.unexplained.origin {
        Some(_) => (FITTED, platform.unexplained.cite()),
        None => unpublished(&platform.poll_period),
    };
    add("poll", poll, kind, source);
    Ok(stages)
}

/// Kind of a stage that was fitted to what was measured.
const FITTED: &str = "fitted";

/// Sums of the stages in RTL and of all others.
fn parts(stages: &[Stage]) -> (f64, f64) {
    let (rtl, rest): (Vec<_>, Vec<_>) = stages.iter().partition(|stage| stage.kind == "RTL");
    let sum = |stages: Vec<&Stage>| stages.iter().map(|stage| stage.mean_ns).sum();
    (sum(rtl), sum(rest))
}

/// Bytes of a message, and round trips.
fn sizes(topology: &Topology) -> (usize, u64) {
    match topology.program.as_ref() {
        ProgramSpec::Pingpong { bytes, loops, .. } => (*bytes, *loops),
        ProgramSpec::Stream { bytes, stores, .. } => (*bytes, *stores),
        ProgramSpec::Uml { .. } => unreachable!("a topology of guests is no ping-pong"),
    }
}

fn describe(topology: &Topology) -> String {
    let (bytes, loops) = sizes(topology);
    let nic = &topology.host[0].nic;
    let rate = match nic.rate {
        Rate::Ten => "10G",
        Rate::One => "1G",
    };
    let format = match nic.format {
        Format::Compact => "compact",
        Format::Tlp => "tlp",
    };
    let metres: f64 = topology
        .cable
        .iter()
        .map(|cable| *cable.metres.as_ref())
        .sum();
    let (platform, seed) = (&topology.platform, topology.seed);
    let switches = match topology.switch.len() {
        0 => String::new(),
        1 => " 1 switch,".to_owned(),
        count => format!(" {count} switches,"),
    };
    format!(
        "{bytes} bytes, {loops} round trips, {rate}, {format},{switches} {metres} m, {platform}, seed {seed}"
    )
}

fn report(
    topology: &Topology,
    outcome: &Outcome,
    stages: &[Stage],
    switches: &[SwitchRow],
) -> String {
    let mut out = format!("ipnuma pingpong: {}\n\n", describe(topology));
    let one_way = Summary::of(&outcome.record.one_ways);
    out += &Summary::head("");
    out += &Summary::of(&outcome.round_trips).row("round trip");
    out += &one_way.row("one way");
    let _ = writeln!(
        out,
        "\n{:<20}{:>8}{:>9}{:>9}   {:<15}from",
        "stages of one way", "mean", "min", "max", "kind"
    );
    for stage in stages {
        let line = format!(
            "  {:<18}{:>8.1}{:>9.1}{:>9.1}   {:<15}{}",
            stage.name, stage.mean_ns, stage.min_ns, stage.max_ns, stage.kind, stage.source
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let (rtl, constants) = parts(stages);
    let _ = writeln!(out, "  {:<18}{:>8.1}", "sum", rtl + constants);
    let fitted = stages.iter().filter(|stage| stage.kind == FITTED);
    let fitted: f64 = fitted.map(|stage| stage.mean_ns).sum();
    let (constants, fitted) = match fitted {
        0.0 => (constants, String::new()),
        fitted => (constants - fitted, format!(", fitted {fitted:.1} ns")),
    };
    let _ = writeln!(
        out,
        "\n  simulated in RTL {rtl:.1} ns, assumed constants {constants:.1} ns{fitted} (sources: ipnuma platform {})",
        topology.platform
    );
    out += &beside_the_paper(topology, outcome, switches, one_way.mean, rtl);
    let seconds = outcome.wall_seconds.max(1e-9);
    let _ = writeln!(
        out,
        "\nsimulated {:.1} us in {seconds:.2} s: {:.0} ns a second, {:.0} ping-pongs a second",
        outcome.simulated.as_ns() / 1e3,
        outcome.simulated.as_ns() / seconds,
        outcome.round_trips.len() as f64 / seconds,
    );
    let _ = writeln!(out, "run hash  {}", outcome.record.digest());
    out
}

/// What the dissertation has for the same, where it has something.
fn beside_the_paper(
    topology: &Topology,
    outcome: &Outcome,
    switches: &[SwitchRow],
    ours: f64,
    rtl: f64,
) -> String {
    let (bytes, _) = sizes(topology);
    if bytes != 4 || topology.platform != "keio-2016" {
        return "\n  The dissertation measured 4 bytes on keio-2016 only; nothing to set beside this.\n".to_owned();
    }
    let mut out = format!(
        "\n{:<34}{:>10}{:>10}{:>18}\n",
        "one way, ns", "paper", "ours", "difference"
    );
    let mut compare = |place: &str, paper: f64, ours: f64| {
        let difference = ours - paper;
        let percent = 100.0 * difference / paper;
        let _ = writeln!(
            out,
            "  {place:<32}{paper:>10.0}{ours:>10.1}{:>18}",
            format!("{difference:+.1} ({percent:+.1} %)")
        );
    };
    let rate = rate_of(topology);
    if switches.is_empty() {
        match rate {
            Rate::Ten => compare("measured (section 4.2.3)", PAPER_ONE_WAY_10G, ours),
            Rate::One => compare("measured (table 4.5, halved)", PAPER_ONE_WAY_1G, ours),
        }
        if rate == Rate::Ten {
            let rest = PAPER_ONE_WAY_10G - PAPER_CONSTANTS_10G;
            let _ = writeln!(
                out,
                "  {:<32}{PAPER_CONSTANTS_10G:>10.0}{:>10.1}   ours: all but the RTL",
                "its constants (figure 3.8, 4 B)",
                ours - rtl
            );
            let _ = writeln!(
                out,
                "  {:<32}{rest:>10.0}{rtl:>10.1}   ours: the RTL, and nothing more",
                "unexplained: 1081 - 746"
            );
            out += "  The 300 ns of the PHYs include a MAC and FIFOs that the RTL simulates as well.\n";
        }
        return out;
    }
    let count = switches.len() as f64;
    let cycle = NetSpeed::from(rate_of(topology)).net_period_ps() as f64 / 1e3;
    let each = switches.iter().map(|row| row.mean_ns).sum::<f64>() / count + cycle;
    let phy = outcome.constants.switch_phy.unwrap_or_default().as_ns() / count;
    match rate {
        Rate::Ten => {
            match switches.len() {
                1 => compare("computed, in a rack (table 4.6)", PAPER_IN_RACK_10G, ours),
                4 => compare("computed, 200 m (table 4.6)", PAPER_BETWEEN_RACKS_10G, ours),
                _ => {}
            }
            compare("a switch: Arista (section 4.3.5)", PAPER_SWITCH_10G, each);
            out += "  Ours is the switch's RTL from pins to pins; what its PHYs add at 10G is not published.\n";
        }
        Rate::One => {
            compare("a switch: FIBNIC (table 5.2)", PAPER_SWITCH_1G, each + phy);
        }
    }
    out
}

fn json(
    arguments: &Arguments,
    topology: &Topology,
    outcome: &Outcome,
    stages: &[Stage],
    switches: &[SwitchRow],
    unsealed: Option<f64>,
) -> String {
    let (bytes, loops) = sizes(topology);
    let (rtl_ns, constants_ns) = parts(stages);
    let file = arguments
        .topology
        .as_ref()
        .map(|path| path.display().to_string());
    let described = describe(topology);
    let report = Report {
        topology: file.as_deref().unwrap_or(&described),
        platform: &topology.platform,
        bytes,
        loops,
        seed: topology.seed,
        round_trip_ns: Summary::of(&outcome.round_trips),
        one_way_ns: Summary::of(&outcome.record.one_ways),
        stages,
        switches,
        rtl_ns,
        constants_ns,
        simulated_ns: outcome.simulated.as_ns(),
        frames: outcome.record.counted.0,
        tlps: outcome.record.counted.1,
        clock_edges: outcome.effort.edges,
        run_hash: outcome.record.digest(),
        seal_ns: unsealed.map(|unsealed| median(outcome) - unsealed),
        faults: outcome.statistics.map(|_| outcome.faults),
        sessions: sessions_of(outcome),
    };
    output::json("pingpong", &report)
}
