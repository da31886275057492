// SPDX-License-Identifier: Apache-2.0
//! `ipnuma stream`: hosts store to one host as fast as they can.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use rack::run::{Options, StreamOutcome, rtl, run_stream};
use rack::stream::{Goodput, Statistics};
use rack::topology::{Fan, Format, MOST_SENDERS, ProgramSpec, Rate};
use rack::{Error, Picoseconds, Topology};
use serde::Serialize;

use crate::network::{self, Sessions};
use crate::text::{self, Summary};
use crate::{FormatArgument, RateArgument};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Hosts that send; with more than one there is a switch
    #[arg(long, default_value_t = 1)]
    senders: usize,
    /// Bytes of a store: 4 to 64, a multiple of 4
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Stores of each sender [default: 10000; with --short 1000]
    #[arg(long)]
    stores: Option<u64>,
    /// Gb/s of data that each sender offers [default: as fast as its bus lets it]
    #[arg(long, value_name = "GBPS")]
    offer: Option<f64>,
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// A switch even for one sender
    #[arg(long)]
    switch: bool,
    /// Metres of each cable [default: 1; with a switch 10]
    #[arg(long, visible_alias = "metres")]
    cable_m: Option<f64>,
    /// Constants of hosts and PHYs: keio-2016, modern, or a .toml file
    #[arg(long, default_value = "keio-2016")]
    platform: String,
    /// Packet format
    #[arg(long, default_value = "compact")]
    format: FormatArgument,
    /// Draws clock phases, faults and keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    network: network::Arguments,
    /// Each store in a frame of its own
    #[arg(long)]
    no_merge: bool,
    /// Set a register of every NIC, by its name in docs/registers.md: --register PACE=0
    #[arg(long, value_name = "NAME=VALUE")]
    register: Vec<String>,
    /// Also run without faults and sessions, through a switch with queues without end, and compare
    #[arg(long)]
    ideal: bool,
    /// Few stores
    #[arg(long, conflicts_with = "stores")]
    short: bool,
    /// Take hosts, NICs, switches, cables and program from a topology file
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["senders", "size", "stores", "offer", "rate", "switch", "cable_m", "platform", "format", "seed", "no_merge",
         "register", "short"])]
    topology: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Stores of each sender.
const STORES: u64 = 10_000;
/// The same with --short.
const SHORT_STORES: u64 = 1_000;
/// Each cable of a rack with a switch: 20 m from host to host, as section 6.6 has it.
const METRES_IN_RACK: f64 = 10.0;

/// A run in numbers.
#[derive(Debug, Serialize)]
pub struct Report {
    /// While all senders sent.
    pub goodput: Goodput,
    /// From the moment that the bus takes a store until it is in the sink's memory.
    pub latency_ns: Summary,
    /// Stores that arrived, and were as they should be.
    pub arrived: u64,
    /// Stores that did not arrive.
    pub missing: u64,
    /// Data that were wrong, in a wrong place, or not due.
    pub wrong: u64,
    /// Senders whose NIC gave the sink up.
    pub peers_lost: usize,
    /// Of all NICs.
    pub sessions: Sessions,
    /// Network cycles from frame to frame that each sender kept at the end.
    pub pace_cycles: Vec<u32>,
    /// What happened on the cables.
    pub faults: rack::faults::FaultCounts,
    /// Frames in all.
    pub frames: u64,
    /// The whole run.
    pub simulated_ns: f64,
    /// Hash of all frames and TLPs.
    pub run_hash: String,
}

impl Report {
    /// Takes a run together.
    pub fn of(outcome: &StreamOutcome) -> Self {
        let stream = &outcome.stream;
        let senders = &stream.senders;
        let latencies: Vec<Picoseconds> = senders
            .iter()
            .flat_map(|sender| sender.latencies.iter().copied())
            .collect();
        let mut sum = Statistics::default();
        for sender in senders {
            sum.add(&sender.statistics);
        }
        sum.add(&stream.sink);
        Self {
            goodput: stream.goodput(),
            latency_ns: Summary::of(&latencies),
            arrived: senders.iter().map(rack::stream::Sender::arrived).sum(),
            missing: senders.iter().map(|sender| sender.missing).sum(),
            wrong: senders.iter().map(|sender| sender.wrong).sum(),
            peers_lost: senders.iter().filter(|sender| sender.peer_lost).count(),
            sessions: Sessions::of(&sum),
            pace_cycles: senders
                .iter()
                .map(|sender| sender.statistics.pace_cycles)
                .collect(),
            faults: outcome.faults,
            frames: outcome.record.counted.0,
            simulated_ns: outcome.simulated.as_ns(),
            run_hash: outcome.record.digest(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Output<'a> {
    description: &'a str,
    stream: &'a Report,
    ideal: Option<&'a Report>,
    /// Goodput beside that of the ideal run.
    share_of_ideal: Option<f64>,
}

/// Reads `NAME=VALUE`.
fn registers(settings: &[String]) -> Result<BTreeMap<String, u32>, Error> {
    let parse = |setting: &String| {
        let (name, value) = setting.split_once('=')?;
        let value = match value.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => value.parse().ok()?,
        };
        Some((name.to_owned(), value))
    };
    settings
        .iter()
        .map(|setting| {
            parse(setting).ok_or_else(|| {
                Error::Config(format!(
                    "--register: `{setting}` is no setting; write NAME=VALUE, as in PACE=0x100"
                ))
            })
        })
        .collect()
}

fn topology(arguments: &Arguments) -> Result<Topology, Error> {
    if let Some(path) = &arguments.topology {
        return Topology::load(path);
    }
    let stores = arguments.stores.unwrap_or(if arguments.short {
        SHORT_STORES
    } else {
        STORES
    });
    rack::topology::check_stream(arguments.size, stores, arguments.offer).map_err(|sentence| {
        let sentence = sentence.replacen("bytes:", "size:", 1);
        Error::Config(format!("--{}", sentence.replacen("rate:", "offer:", 1)))
    })?;
    let most = match arguments.rate {
        RateArgument::Ten => MOST_SENDERS,
        RateArgument::One => rack::model::PORTS - 1,
    };
    if !(1..=most).contains(&arguments.senders) {
        return Err(Error::Config(format!(
            "--senders: {} are too few or too many; at {} write 1 to {most}",
            arguments.senders,
            arguments.rate.name()
        )));
    }
    let switched = arguments.switch || arguments.senders > 1;
    let metres = if switched { METRES_IN_RACK } else { 1.0 };
    let fan = Fan {
        platform: arguments.platform.clone(),
        seed: arguments.seed,
        rate: arguments.rate.into(),
        format: arguments.format.into(),
        senders: arguments.senders,
        switch: arguments.switch,
        metres: arguments.cable_m.unwrap_or(metres),
        bytes: arguments.size,
        stores,
        rate_gbps: arguments.offer,
        nic: arguments.network.nic(!arguments.no_merge),
        faults: arguments.network.faults()?,
    };
    let mut topology = Topology::fan(fan);
    topology.register = registers(&arguments.register)?;
    topology.checked()
}

/// Runs a topology with a stream.
pub fn measure(topology: &Topology) -> Result<(StreamOutcome, Report), Error> {
    let outcome = run_stream(topology, &Options::default(), &rtl)?;
    let report = Report::of(&outcome);
    Ok((outcome, report))
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let topology = topology(arguments)?;
    let (outcome, report) = measure(&topology)?;
    let ideal = match arguments.ideal {
        true => Some(measure(&topology.ideal())?.1),
        false => None,
    };
    let description = describe(&topology);
    let share = ideal
        .as_ref()
        .map(|ideal| report.goodput.total_gbps / ideal.goodput.total_gbps);
    let out = if arguments.json {
        let output = Output {
            description: &description,
            stream: &report,
            ideal: ideal.as_ref(),
            share_of_ideal: share,
        };
        let text = serde_json::to_string_pretty(&output);
        text.expect("numbers and strings have JSON") + "\n"
    } else {
        show(&description, &report, ideal.as_ref(), share, &outcome)
    };
    text::print(&out)?;
    // In sessions every store arrives, once and in order, or the application is told.
    let broken = report.wrong > 0 || (outcome.stream.reliable && report.missing > 0);
    if broken {
        eprintln!(
            "error: {} stores are missing, {} writes were wrong, and {} peers were reported lost",
            report.missing, report.wrong, report.peers_lost
        );
    }
    Ok(ExitCode::from(u8::from(broken)))
}

fn describe(topology: &Topology) -> String {
    let ProgramSpec::Stream {
        from,
        bytes,
        stores,
        rate_gbps,
        ..
    } = topology.program.as_ref()
    else {
        return String::new();
    };
    let nic = &topology.host[0].nic;
    let rate = match nic.rate {
        Rate::Ten => "10G",
        Rate::One => "1G",
    };
    let format = match nic.format {
        Format::Compact => "compact",
        Format::Tlp => "tlp",
    };
    let senders = match from.len() {
        1 => "1 sender".to_owned(),
        count => format!("{count} senders"),
    };
    let sessions = match (nic.reliable, nic.auth) {
        (false, _) => "no sessions",
        (true, false) => "sessions",
        (true, true) => "sealed sessions",
    };
    let merge = if nic.merge { "merged" } else { "one by one" };
    let offered = match rate_gbps {
        Some(rate) => format!("at {rate} Gb/s each"),
        None => "as fast as they can".to_owned(),
    };
    let switches = match topology.switch.len() {
        0 => "",
        1 => ", 1 switch",
        _ => ", switches",
    };
    format!(
        "{senders}, {stores} stores of {bytes} bytes {offered}, {rate}, {format}, {merge}, {sessions}{switches}, {}, seed {}",
        topology.platform, topology.seed
    )
}

fn show(
    description: &str,
    report: &Report,
    ideal: Option<&Report>,
    share: Option<f64>,
    outcome: &StreamOutcome,
) -> String {
    let mut out = text::wrap(&format!("ipnuma stream: {description}"), 0);
    let Goodput {
        total_gbps, jain, ..
    } = &report.goodput;
    let _ = writeln!(out, "\n  goodput{total_gbps:>29.3} Gb/s");
    if let (Some(ideal), Some(share)) = (ideal, share) {
        let _ = writeln!(
            out,
            "  ideal, no loss and no sessions{:>6.3} Gb/s: {:.1} % of it",
            ideal.goodput.total_gbps,
            100.0 * share
        );
    }
    if report.goodput.each_gbps.len() > 1 {
        let _ = writeln!(out, "  fairness (Jain){jain:>21.4}");
        let each = report.goodput.each_gbps.iter();
        let each: Vec<_> = each.map(|gbps| format!("{gbps:.3}")).collect();
        let _ = writeln!(out, "  each                 {} Gb/s", each.join(" "));
    }
    out.push('\n');
    out += &Summary::head("store, bus to memory");
    out += &report.latency_ns.row("one way");
    if let Some(ideal) = ideal {
        out += &ideal.latency_ns.row("ideal");
    }
    out.push('\n');
    for (name, value) in report.sessions.rows() {
        let _ = writeln!(out, "  {name:<26}{value:>10}");
    }
    let _ = writeln!(
        out,
        "  {:<26}{:>10} cycles from frame to frame, at the end",
        "pace", report.sessions.pace_cycles
    );
    let _ = writeln!(
        out,
        "  {:<26}{:>10}, missing {}, wrong {}",
        "stores arrived", report.arrived, report.missing, report.wrong
    );
    if report.peers_lost > 0 {
        let _ = writeln!(
            out,
            "  {} senders were told that the sink is lost",
            report.peers_lost
        );
    }
    if report.faults.frames > 0 {
        let _ = writeln!(out, "\n{}", network::describe(&report.faults));
    }
    let _ = writeln!(
        out,
        "\nsimulated {:.1} us in {:.2} s\nrun hash  {}",
        report.simulated_ns / 1e3,
        outcome.wall_seconds,
        report.run_hash
    );
    out
}
