// SPDX-License-Identifier: Apache-2.0
//! `ipnuma pingpong`: figure 4.3, with every stage of the one-way time.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use rack::capture::{write_pcapng, write_perfetto};
use rack::platform::Platform;
use rack::rack::wave_file;
use rack::record::STAGES;
use rack::run::{Options, Outcome, rtl, run as run_topology};
use rack::topology::{Format, Pair, ProgramSpec, Rate};
use rack::{Error, Picoseconds, Topology};
use serde::Serialize;

use crate::text::{self, Summary};
use crate::{FormatArgument, RateArgument};

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
    /// Metres of cable
    #[arg(long, default_value_t = 1.0)]
    cable_m: f64,
    /// Constants of hosts and PHYs: keio-2016, modern, or a .toml file
    #[arg(long, default_value = "keio-2016")]
    platform: String,
    /// Packet format
    #[arg(long, default_value = "compact")]
    format: FormatArgument,
    /// Draws the phases of the clocks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Take hosts, NICs, cables and program from a topology file
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["bytes", "loops", "warmup", "rate", "cable_m", "platform", "format", "seed"])]
    topology: Option<PathBuf>,
    /// Write a timeline for ui.perfetto.dev
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "pingpong.trace.json")]
    trace: Option<PathBuf>,
    /// Write all frames and TLPs
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "pingpong.pcapng")]
    pcap: Option<PathBuf>,
    /// Write waves of the first two measured round trips, a file for each NIC: NAME.HOST.fst
    #[arg(long, value_name = "NAME.fst", num_args = 0..=1, default_missing_value = "pingpong.fst")]
    waves: Option<PathBuf>,
    /// Simulate idle clock cycles too (slower, same result)
    #[arg(long)]
    no_skip: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Packets, frames and TLPs at most in a file.
const KEEP: usize = 200_000;
/// Section 4.2.3 and table 4.5.
const PAPER_ONE_WAY_10G: f64 = 1_081.0;
/// Table 4.5, half of 10.308 us.
const PAPER_ONE_WAY_1G: f64 = 5_154.0;
/// 223 + 300 + 223.
const PAPER_CONSTANTS_10G: f64 = 746.0;

/// One row of the breakdown.
#[derive(Debug, Serialize)]
struct Stage {
    name: &'static str,
    mean_ns: f64,
    min_ns: f64,
    max_ns: f64,
    /// `rtl`, `constant`, `constant+clock` or `not published`.
    kind: &'static str,
    source: String,
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
    rtl_ns: f64,
    constants_ns: f64,
    simulated_ns: f64,
    frames: u64,
    tlps: u64,
    clock_edges: u64,
    run_hash: String,
}

fn topology(arguments: &Arguments) -> Result<Topology, Error> {
    if let Some(path) = &arguments.topology {
        return Topology::load(path);
    }
    rack::topology::check_pingpong(arguments.bytes, arguments.loops)
        .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
    if !(0.0..=100_000.0).contains(&arguments.cable_m) {
        return Err(Error::Config(format!(
            "--cable-m: {} is no length; write 0 to 100000",
            arguments.cable_m
        )));
    }
    Topology::pair(Pair {
        platform: arguments.platform.clone(),
        seed: arguments.seed,
        rate: arguments.rate.into(),
        format: arguments.format.into(),
        metres: arguments.cable_m,
        bytes: arguments.bytes,
        loops: arguments.loops,
        warmup: arguments.warmup,
    })
    .checked()
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let topology = topology(arguments)?;
    let files = arguments.trace.is_some() || arguments.pcap.is_some();
    let options = Options {
        skip_idle: !arguments.no_skip,
        keep: if files { KEEP } else { 0 },
        waves: arguments.waves.clone(),
        ..Options::default()
    };
    let outcome = run_topology(&topology, &options, &rtl)?;
    if let Some(path) = &arguments.pcap {
        write_pcapng(&outcome, path)?;
    }
    if let Some(path) = &arguments.trace {
        write_perfetto(&outcome, path)?;
    }
    let stages = breakdown(&topology, &outcome)?;
    let out = if arguments.json {
        json(arguments, &topology, &outcome, &stages)
    } else {
        let mut out = report(&topology, &outcome, &stages);
        let waves = arguments.waves.iter().flat_map(|path| {
            let names = outcome.names.iter();
            names.map(|host| wave_file(path, host))
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
    text::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn rate_of(topology: &Topology) -> Rate {
    topology.host[0].nic.rate
}

/// The stages of the record, with the wire taken apart and a source for each.
fn breakdown(topology: &Topology, outcome: &Outcome) -> Result<Vec<Stage>, Error> {
    let platform = Platform::load(&topology.platform)?;
    let rate = rate_of(topology);
    let phy = platform.phy(rate.into());
    let (phy_delay, cable_delay) = outcome.cable;
    let spread = &outcome.record.stages;
    let [store, down, transmit, frame, hop, receive, up, poll]: [_; STAGES] =
        std::array::from_fn(|index| {
            let stage = &spread[index];
            (stage.mean_ns(), stage.min.as_ns(), stage.max.as_ns())
        });
    let fixed = |time: Picoseconds| (time.as_ns(), time.as_ns(), time.as_ns());
    let both = (phy_delay + cable_delay).as_ns();
    let align = (hop.0 - both, hop.1 - both, hop.2 - both);
    let top = match rate {
        Rate::Ten => "ipnuma_nic_10g",
        Rate::One => "ipnuma_nic_1g",
    };
    let mut stages = Vec::new();
    let mut add = |name, (mean_ns, min_ns, max_ns): (f64, f64, f64), kind, source: String| {
        stages.push(Stage {
            name,
            mean_ns,
            min_ns,
            max_ns,
            kind,
            source,
        });
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
        format!("{top}: TLP in to word out"),
    );
    add(
        "frame on the wire",
        frame,
        "RTL",
        format!("{top}: first to last word"),
    );
    add("PHY, both", fixed(phy_delay), "constant", phy.cite());
    add(
        "cable",
        fixed(cable_delay),
        "constant",
        platform.cable_metre.cite(),
    );
    add(
        "receive clock",
        align,
        "RTL",
        "until the receiving MAC's edge".to_owned(),
    );
    add(
        "NIC receive",
        receive,
        "RTL",
        format!("{top}: word in to TLP out"),
    );
    add("PCIe up", up, "constant", platform.dma_write_latency.cite());
    let (kind, source) = unpublished(&platform.poll_period);
    add("poll", poll, kind, source);
    Ok(stages)
}

/// Sums of the stages in RTL and of all others.
fn parts(stages: &[Stage]) -> (f64, f64) {
    let (rtl, rest): (Vec<_>, Vec<_>) = stages.iter().partition(|stage| stage.kind == "RTL");
    let sum = |stages: Vec<&Stage>| stages.iter().map(|stage| stage.mean_ns).sum();
    (sum(rtl), sum(rest))
}

fn describe(topology: &Topology) -> String {
    let ProgramSpec::Pingpong { bytes, loops, .. } = topology.program.as_ref();
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
    format!(
        "{bytes} bytes, {loops} round trips, {rate}, {format}, {metres} m, {platform}, seed {seed}"
    )
}

fn report(topology: &Topology, outcome: &Outcome, stages: &[Stage]) -> String {
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
    let _ = writeln!(
        out,
        "\n  simulated in RTL {rtl:.1} ns, assumed constants {constants:.1} ns (sources: ipnuma platform {})",
        topology.platform
    );
    out += &beside_the_paper(topology, one_way.mean, rtl);
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

/// What the dissertation measured with the same program, where it did.
fn beside_the_paper(topology: &Topology, ours: f64, rtl: f64) -> String {
    let ProgramSpec::Pingpong { bytes, .. } = topology.program.as_ref();
    if *bytes != 4 || topology.platform != "keio-2016" {
        return "\n  The dissertation measured 4 bytes on keio-2016 only; nothing to set beside this.\n".to_owned();
    }
    let mut out = format!(
        "\n{:<34}{:>10}{:>10}{:>18}\n",
        "one way, ns", "paper", "ours", "difference"
    );
    let (paper, place) = match rate_of(topology) {
        Rate::Ten => (PAPER_ONE_WAY_10G, "measured (section 4.2.3)"),
        Rate::One => (PAPER_ONE_WAY_1G, "measured (table 4.5, halved)"),
    };
    let difference = ours - paper;
    let percent = 100.0 * difference / paper;
    let _ = writeln!(
        out,
        "  {place:<32}{paper:>10.0}{ours:>10.1}{:>18}",
        format!("{difference:+.1} ({percent:+.1} %)")
    );
    if rate_of(topology) == Rate::Ten {
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
    out
}

fn json(arguments: &Arguments, topology: &Topology, outcome: &Outcome, stages: &[Stage]) -> String {
    let ProgramSpec::Pingpong { bytes, loops, .. } = topology.program.as_ref();
    let (rtl_ns, constants_ns) = parts(stages);
    let file = arguments
        .topology
        .as_ref()
        .map(|path| path.display().to_string());
    let described = describe(topology);
    let report = Report {
        topology: file.as_deref().unwrap_or(&described),
        platform: &topology.platform,
        bytes: *bytes,
        loops: *loops,
        seed: topology.seed,
        round_trip_ns: Summary::of(&outcome.round_trips),
        one_way_ns: Summary::of(&outcome.record.one_ways),
        stages,
        rtl_ns,
        constants_ns,
        simulated_ns: outcome.simulated.as_ns(),
        frames: outcome.record.counted.0,
        tlps: outcome.record.counted.1,
        clock_edges: outcome.effort.edges,
        run_hash: outcome.record.digest(),
    };
    let text = serde_json::to_string_pretty(&report).expect("numbers and strings have JSON");
    text + "\n"
}
