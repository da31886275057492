// SPDX-License-Identifier: Apache-2.0
//! Hosts that store to one host as fast as they can: a run in numbers.

use std::fmt::Write;

use rack::run::{Options, StreamOutcome, rtl, run_stream};
use rack::stream::{Goodput, Statistics};
use rack::topology::{Format, ProgramSpec, Rate};
use rack::{Error, Picoseconds, Topology};
use serde::Serialize;

use crate::sessions::{self, Sessions};
use crate::text::{self, Summary};

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

/// Runs a topology with a stream.
pub fn measure(topology: &Topology) -> Result<(StreamOutcome, Report), Error> {
    let outcome = run_stream(topology, &Options::default(), &rtl)?;
    let report = Report::of(&outcome);
    Ok((outcome, report))
}

/// What is run, in a line.
pub fn describe(topology: &Topology) -> String {
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

/// A run as a text.
pub fn show(
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
    let _ = if *total_gbps == 0.0 && report.arrived > 0 {
        writeln!(
            out,
            "\n  goodput: none, for all stores arrived at one moment; send more with --stores"
        )
    } else {
        writeln!(out, "\n  goodput{total_gbps:>29.3} Gb/s")
    };
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
        let _ = writeln!(out, "\n{}", sessions::describe(&report.faults));
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
