// SPDX-License-Identifier: Apache-2.0
//! What `ipnuma rack` says of switches whose hosts are guests, and of cables that were cut.

use std::fmt::Write as _;

use rack::outage::{Outage, Share};
use rack::run::SwitchReport;
use serde::Serialize;

/// Verdicts that lead to the host, by their numbers.
const VERDICTS: [&str; rack::host_port::VERDICTS] = [
    "",
    "not IP",
    "group MAC",
    "multicast and link-local",
    "options",
    "expired",
    "host's own and its subnets",
    "no route",
    "neighbour not known",
    "too long",
];

/// A switch.
#[derive(Debug, Serialize)]
pub struct Switch<'a> {
    name: &'a str,
    /// By port of arrival, as the hardware counts.
    forwarded: &'a [u64],
    /// Frames that it gave to its host.
    to_host: u64,
    /// The same by verdict.
    to_host_by_verdict: &'a [u64],
    /// Frames that its host gave to it.
    from_host: u64,
    /// Words written to its memories.
    words: u64,
}

/// All switches whose hosts are guests.
pub fn switches(reports: &[SwitchReport]) -> Vec<Switch<'_>> {
    let guests = reports.iter().filter(|report| !report.forwarded.is_empty());
    let switches = guests.map(|report| Switch {
        name: &report.name,
        forwarded: &report.forwarded,
        to_host: report.host_side.received,
        to_host_by_verdict: &report.host_side.verdicts,
        from_host: report.host_side.sent,
        words: report.host_side.written,
    });
    switches.collect()
}

/// As text.
pub fn describe(switches: &[Switch<'_>], outages: &[Outage]) -> String {
    let mut out = String::new();
    for switch in switches {
        let why: Vec<_> = switch
            .to_host_by_verdict
            .iter()
            .zip(VERDICTS)
            .filter(|(count, _)| **count > 0)
            .map(|(count, why)| format!("{why} {count}"))
            .collect();
        let _ = writeln!(
            out,
            "{}: hardware forwarded {} frames; {} to the host ({}), {} from it; {} words written",
            switch.name,
            switch.forwarded.iter().sum::<u64>(),
            switch.to_host,
            why.join(", "),
            switch.from_host,
            switch.words
        );
    }
    for outage in outages {
        let _ = writeln!(
            out,
            "\ncable {} to {} cut at {:.3} s; microseconds since then:",
            outage.cable[0],
            outage.cable[1],
            outage.cut_ns / 1e9
        );
        for share in &outage.switches {
            out += &describe_share(share);
        }
    }
    out
}

fn describe_share(share: &Share) -> String {
    let micros = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns / 1e3));
    let mut out = format!("  {} ({}): ", share.switch, share.guest);
    out += &match share.carrier_ns {
        Some(_) => format!(
            "carrier lost {}, its kernel says so {}\n",
            micros(share.carrier_ns),
            micros(share.link_ns)
        ),
        None => "no carrier was lost\n".to_owned(),
    };
    if !share.changes.is_empty() {
        let [kernel, fibd, hardware] = ["kernel's route", "fibd stores", "in hardware"];
        let _ = writeln!(out, "    {kernel:>14}{fibd:>14}{hardware:>14}");
    }
    for change in &share.changes {
        let _ = writeln!(
            out,
            "    {:>14}{:>14}{:>14}  {}",
            micros(Some(change.route_ns)),
            micros(change.stored_ns),
            micros(change.taken_ns),
            change.route
        );
    }
    if share.more > 0 {
        let _ = writeln!(out, "    and {} more", share.more);
    }
    out
}
