// SPDX-License-Identifier: Apache-2.0
//! `ipnuma rack`: runs a topology of guests, whole Linux machines, and says what came out and where the time went.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use rack::capture::write_pcapng_of;
use rack::cpu::Cost;
use rack::engine::EngineReport;
use rack::guests::{GuestOutcome, UmlOutcome, run_uml};
use rack::outage::Outage;
use rack::passage::Passage;
use rack::run::{Options, rtl};
use rack::{Error, Picoseconds, Topology};
use serde::Serialize;

use crate::{given, output, routing};
use report::sessions;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// File with hosts of kind "uml", such as experiments/topologies/uml-curl.toml
    topology: PathBuf,
    /// Draws clock phases, faults and random numbers of guests, instead of the file's seed
    #[arg(long)]
    seed: Option<u64>,
    /// Directory for what the guests write, one for each; else a temporary one that is removed
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write frames and TLPs of every link, for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Frames and TLPs at most in the file
    #[arg(long, default_value_t = 200_000)]
    keep: usize,
    /// Simulate idle clock cycles too: the same result, slower
    #[arg(long)]
    no_skip: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Guest<'a> {
    name: &'a str,
    status: Option<i32>,
    stdout: String,
    stderr: String,
    frames_sent: u64,
    frames_received: u64,
    frames_dropped: u64,
    cpu_write: u64,
    cpu_read: u64,
    dma_write: u64,
    dma_read: u64,
    interrupts: u64,
    interrupted_ns: u64,
    polls: u64,
    costs: &'a [Cost],
}

#[derive(Debug, Serialize)]
struct Engine<'a> {
    name: &'a str,
    opened: u64,
    reset: u64,
    bytes_received: u64,
    bytes_sent: u64,
    timeouts: u64,
    frames_bad: u64,
    frames_without_room: u64,
    fetched_status: Option<&'a str>,
    fetched_bytes: Option<u64>,
    fetched_sha256: Option<&'a str>,
}

impl<'a> Engine<'a> {
    fn of(report: &'a EngineReport) -> Self {
        let (sockets, fetched) = (&report.sockets, report.fetched.as_ref());
        Self {
            name: &report.name,
            opened: sockets.opened,
            reset: sockets.reset,
            bytes_received: sockets.received,
            bytes_sent: sockets.sent,
            timeouts: report.counts.timeout,
            frames_bad: report.counts.bad,
            frames_without_room: report.counts.overflow,
            fetched_status: fetched.map(|fetched| fetched.status.as_str()),
            fetched_bytes: fetched.map(|fetched| fetched.bytes),
            fetched_sha256: fetched.map(|fetched| fetched.sha256.as_str()),
        }
    }
}

/// What a switch or a router took for frames of one length, from the first bit in to the first bit out.
#[derive(Debug, Serialize)]
struct Passed<'a> {
    name: &'a str,
    bytes: usize,
    frames: u64,
    min_ns: f64,
    mean_ns: f64,
    max_ns: f64,
    /// A pair of physical layers, which is in none of the above.
    phy_ns: Option<f64>,
}

impl<'a> Passed<'a> {
    fn of(passage: &'a Passage) -> Self {
        let latency = &passage.latency;
        Self {
            name: &passage.name,
            bytes: passage.bytes,
            frames: latency.count,
            min_ns: latency.min.as_ns(),
            mean_ns: latency.mean_ns(),
            max_ns: latency.max.as_ns(),
            phy_ns: passage.phy.map(Picoseconds::as_ns),
        }
    }
}

/// What switches and routers took.
fn passed(out: &mut String, passages: &[Passage]) {
    if passages.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nfrom the first bit in to the first bit out, ns:");
    let _ = writeln!(
        out,
        "  {:<16}{:>6}{:>8}{:>12}{:>12}{:>12}{:>12}",
        "", "bytes", "frames", "least", "mean", "most", "and PHYs"
    );
    for passage in passages.iter().map(Passed::of) {
        let phy = passage
            .phy_ns
            .map_or("not published".to_owned(), |ns| format!("{ns:.0}"));
        let _ = writeln!(
            out,
            "  {:<16}{:>6}{:>8}{:>12.1}{:>12.1}{:>12.1}{phy:>12}",
            passage.name,
            passage.bytes,
            passage.frames,
            passage.min_ns,
            passage.mean_ns,
            passage.max_ns
        );
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    topology: String,
    seed: u64,
    guests: Vec<Guest<'a>>,
    engines: Vec<Engine<'a>>,
    simulated_ns: f64,
    frames: u64,
    tlps: u64,
    clock_edges: u64,
    switches: Vec<routing::Switch<'a>>,
    passages: Vec<Passed<'a>>,
    outages: Vec<Outage>,
    run_hash: String,
}

fn guest(outcome: &GuestOutcome) -> Guest<'_> {
    let (report, accesses) = (&outcome.report, &outcome.accesses);
    Guest {
        name: &outcome.name,
        status: outcome.status,
        stdout: String::from_utf8_lossy(&outcome.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&outcome.stderr).into_owned(),
        frames_sent: report.frames_sent,
        frames_received: report.frames_received,
        frames_dropped: report.frames_dropped,
        cpu_write: accesses.cpu_write,
        cpu_read: accesses.cpu_read,
        dma_write: accesses.dma_write,
        dma_read: accesses.dma_read,
        interrupts: report.interrupts,
        interrupted_ns: report.interrupted_ns,
        polls: report.polls,
        costs: &outcome.costs,
    }
}

/// A text, each line behind a margin.
fn margin(out: &mut String, bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = writeln!(out, "    {line}");
    }
}

/// What the guests' code cost, once for all that have the same.
fn costs(out: &mut String, guests: &[GuestOutcome]) {
    let mut told: Vec<&[Cost]> = Vec::new();
    for guest in guests {
        if told.contains(&guest.costs.as_slice()) {
            continue;
        }
        told.push(&guest.costs);
        let same = guests.iter().filter(|other| other.costs == guest.costs);
        let names: Vec<_> = same.map(|other| other.name.as_str()).collect();
        let _ = writeln!(out, "\ncode of {} costs (constants):", names.join(", "));
        for cost in &guest.costs {
            let _ = writeln!(out, "  {:<20}{:>8} ns  {}", cost.name, cost.ns, cost.source);
        }
    }
}

/// What passed a TCP offload engine.
fn engine(out: &mut String, report: &EngineReport) {
    let (sockets, counts) = (&report.sockets, &report.counts);
    let _ = writeln!(
        out,
        "{}: {} connections opened, {} reset; {} bytes received, {} sent",
        report.name, sockets.opened, sockets.reset, sockets.received, sockets.sent
    );
    let _ = writeln!(
        out,
        "  engine: {} time-outs, {} frames bad, {} without room, {} not its own, {} segments without a connection, {} behind too many gaps",
        counts.timeout, counts.bad, counts.overflow, counts.foreign, counts.orphan, counts.no_gap
    );
    if let Some(fetched) = &report.fetched {
        let _ = writeln!(
            out,
            "  fetched: {}, {} bytes, SHA-256 {}",
            fetched.status, fetched.bytes, fetched.sha256
        );
    }
}

fn report(topology: &Topology, outcome: &UmlOutcome) -> String {
    let mut out = String::new();
    for guest in &outcome.guests {
        let ended = match guest.status {
            Some(status) => format!("ended with status {status}"),
            None => "still running at the end".to_owned(),
        };
        let _ = writeln!(out, "{}: {ended}", guest.name);
        margin(&mut out, &guest.stdout);
        margin(&mut out, &guest.stderr);
        let (report, bus) = (&guest.report, &guest.accesses);
        if guest.wire.is_some() {
            let _ = writeln!(
                out,
                "  frames: {} sent, {} received, {} without a buffer; {} turns",
                report.frames_sent, report.frames_received, report.frames_dropped, report.runs
            );
        } else {
            let _ = writeln!(
                out,
                "  bus: {} CPU writes, {} CPU reads, {} DMA writes, {} DMA reads; {} interrupts, {} polls",
                bus.cpu_write,
                bus.cpu_read,
                bus.dma_write,
                bus.dma_read,
                report.interrupts,
                report.polls
            );
        }
        if report.interrupted_ns > 0 {
            let _ = writeln!(
                out,
                "  interrupts took {} ns of the processor, {:.3} % of the run",
                report.interrupted_ns,
                100.0 * report.interrupted_ns as f64 / outcome.simulated.as_ns()
            );
        }
    }
    for report in &outcome.engines {
        engine(&mut out, report);
    }
    costs(&mut out, &outcome.guests);
    if outcome.faults.frames > 0 {
        let _ = writeln!(out, "\n{}", sessions::describe(&outcome.faults));
    }
    let switches = routing::switches(&outcome.switches);
    if !switches.is_empty() {
        out.push('\n');
        out += &routing::describe(&switches, &outcome.outages(topology));
    }
    passed(&mut out, &outcome.passages());
    let (frames, tlps) = outcome.record.counted;
    let wall = outcome.wall_seconds;
    let _ = writeln!(
        out,
        "\n{:.6} s simulated, {frames} frames on links, {tlps} TLPs, {} clock edges; run hash {}",
        outcome.simulated.as_ns() / 1e9,
        outcome.effort.edges,
        outcome.digest()
    );
    let _ = writeln!(
        out,
        "wall clock: {wall:.2} s and {:.2} s to start; {:.0} frames a second",
        outcome.start_seconds,
        frames as f64 / wall.max(1e-9)
    );
    let profile = &outcome.profile;
    for (what, seconds) in [
        ("guests", outcome.guest_seconds),
        ("NICs in RTL", profile.nics.as_secs_f64()),
        ("switches", profile.switches.as_secs_f64()),
        ("cables, cards", profile.others.as_secs_f64()),
    ] {
        let _ = writeln!(
            out,
            "  {what:<16}{seconds:>9.2} s {:>5.1} %",
            100.0 * seconds / wall.max(1e-9)
        );
    }
    out
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let mut topology = Topology::load(&arguments.topology)?;
    if let Some(seed) = arguments.seed {
        topology.seed = seed;
    }
    given::files(&[("--pcap", arguments.pcap.as_ref())])?;
    given::directory("--directory", arguments.directory.as_ref())?;
    let options = Options {
        skip_idle: !arguments.no_skip,
        keep: if arguments.pcap.is_some() {
            arguments.keep
        } else {
            0
        },
        directory: arguments.directory.clone(),
        ..Options::default()
    };
    let outcome = run_uml(&topology, &options, &rtl)?;
    if let Some(path) = &arguments.pcap {
        write_pcapng_of(&outcome.names(), &outcome.switches, &outcome.record, path)?;
    }
    let passages = outcome.passages();
    let out = if arguments.json {
        let report = Report {
            topology: arguments.topology.display().to_string(),
            seed: topology.seed,
            guests: outcome.guests.iter().map(guest).collect(),
            engines: outcome.engines.iter().map(Engine::of).collect(),
            simulated_ns: outcome.simulated.as_ns(),
            frames: outcome.record.counted.0,
            tlps: outcome.record.counted.1,
            clock_edges: outcome.effort.edges,
            switches: routing::switches(&outcome.switches),
            passages: passages.iter().map(Passed::of).collect(),
            outages: outcome.outages(&topology),
            run_hash: outcome.digest(),
        };
        output::json("rack", &report)
    } else {
        report(&topology, &outcome)
    };
    output::print(&out)?;
    let _ = std::io::stdout().flush();
    // The run is as good as the worst of its commands.
    let worst = outcome.guests.iter().filter_map(|guest| guest.status);
    Ok(match worst.max().unwrap_or(0) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
