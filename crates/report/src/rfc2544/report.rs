// SPDX-License-Identifier: Apache-2.0
//! What was found, as tables.

use std::fmt::Write;

use ::rfc2544::{
    BackToBack, Congestion, Family, Line, Loaded, LossRate, Share, Sweep, Throughput, Traffic,
};
use rack::topology::Rate;
use serde::Serialize;

use super::routes::Routes;
use super::{Lookup, Plan};
use crate::text;

/// Everything of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Line rate.
    pub rate: &'static str,
    /// What the switch looks destinations up with.
    pub lookup: Lookup,
    /// Ports that took part.
    pub ports: usize,
    /// Frames of 64 bytes that each port sent in a trial.
    pub frames_of_64_bytes: u64,
    /// The switch's tables.
    pub table: TableUse,
    /// One family and size each.
    pub rows: Vec<Row>,
    /// Many routes against one.
    pub sweeps: Vec<SweepRow>,
    /// Families of which the table has no route to visit.
    pub not_swept: Vec<Family>,
    /// Many ports into one.
    pub congestion: Vec<CongestionRow>,
    /// Clock cycles that were simulated.
    pub cycles: u64,
    /// Times of the line.
    #[serde(skip)]
    pub line: Line,
}

/// The switch's tables.
#[derive(Debug, Serialize)]
pub struct TableUse {
    from: String,
    #[serde(flatten)]
    loaded: Loaded,
}

/// One family and size.
#[derive(Debug, Serialize)]
pub struct Row {
    pub family: Family,
    pub bytes: usize,
    pub frames: u64,
    pub line_rate_frames_per_second: u64,
    pub throughput: Option<Throughput>,
    pub latency: Option<Latency>,
    pub loss: Option<LossRate>,
    pub back_to_back: Option<BackToBack>,
}

impl Row {
    /// Without results.
    pub fn new(traffic: &Traffic, line: Line) -> Self {
        Self {
            family: traffic.family,
            bytes: traffic.size,
            frames: traffic.frames,
            line_rate_frames_per_second: line.most_frames_per_second(traffic.size),
            throughput: None,
            latency: None,
            loss: None,
            back_to_back: None,
        }
    }
}

/// Latencies in nanoseconds and cycles.
#[derive(Debug, Serialize)]
pub struct Latency {
    pub frames: u64,
    pub lost: u64,
    pub min_ns: f64,
    pub mean_ns: f64,
    pub max_ns: f64,
    pub min_cycles: f64,
    pub max_cycles: f64,
    pub histogram: Vec<Bin>,
    pub outside_histogram: u64,
}

/// Frames of one latency.
#[derive(Debug, Serialize)]
pub struct Bin {
    pub ns: f64,
    pub frames: u64,
}

impl Latency {
    pub fn new(found: &::rfc2544::Latency, line: Line) -> Self {
        let [min_ns, mean_ns, max_ns] = found.ns(line);
        let bin = |&(ticks, frames): &(u64, u64)| Bin {
            ns: line.ns(ticks as f64),
            frames,
        };
        Self {
            frames: found.frames,
            lost: found.lost,
            min_ns,
            mean_ns,
            max_ns,
            min_cycles: line.cycles(found.min as f64),
            max_cycles: line.cycles(found.max as f64),
            histogram: found.histogram.iter().map(bin).collect(),
            outside_histogram: found.outside,
        }
    }

    fn cells(&self) -> String {
        format!(
            "{:>10.1}{:>10.2}{:>10.1}{:>10}",
            self.min_ns,
            self.mean_ns,
            self.max_ns,
            range(self.min_cycles, self.max_cycles)
        )
    }
}

/// Many routes against one.
#[derive(Debug, Serialize)]
pub struct SweepRow {
    pub family: Family,
    pub bytes: usize,
    pub destinations: u64,
    pub by_port: Vec<u64>,
    pub frames_per_second: f64,
    pub one_route: Latency,
    pub all_routes: Latency,
    pub constant: bool,
}

/// Many ports into one.
#[derive(Debug, Serialize)]
pub struct CongestionRow {
    pub family: Family,
    pub bytes: usize,
    pub inputs: Vec<Share>,
    pub loss_percent: f64,
    pub frames_per_second: f64,
    pub spread_percent: f64,
    pub accounted: bool,
}

/// One number, or two with a dash.
fn range(min: f64, max: f64) -> String {
    if min == max {
        format!("{min}")
    } else {
        format!("{min}-{max}")
    }
}

impl Report {
    /// Without results.
    pub fn new(plan: &Plan, routes: &Routes, loaded: Loaded) -> Self {
        Self {
            rate: plan.rate.name(),
            lookup: plan.lookup,
            ports: plan.ports,
            frames_of_64_bytes: plan.frames,
            table: TableUse {
                from: routes.name.clone(),
                loaded,
            },
            rows: Vec::new(),
            sweeps: Vec::new(),
            not_swept: Vec::new(),
            congestion: Vec::new(),
            cycles: 0,
            line: match plan.rate {
                Rate::Ten => Line::TEN_GIG,
                Rate::One => Line::ONE_GIG,
            },
        }
    }

    /// Adds what a sweep found.
    pub fn add_sweep(&mut self, family: Family, bytes: usize, found: &Sweep) {
        self.sweeps.push(SweepRow {
            family,
            bytes,
            destinations: found.addresses,
            by_port: found.by_port.clone(),
            frames_per_second: found.frames_per_second,
            one_route: Latency::new(&found.one_route, self.line),
            all_routes: Latency::new(&found.all_routes, self.line),
            constant: found.is_constant(),
        });
    }

    /// Adds what a congestion found.
    pub fn add_congestion(&mut self, traffic: &Traffic, found: &Congestion) {
        self.congestion.push(CongestionRow {
            family: traffic.family,
            bytes: traffic.size,
            inputs: found.shares.clone(),
            loss_percent: found.loss_percent,
            frames_per_second: found.frames_per_second,
            spread_percent: found.spread_percent(),
            accounted: found.is_accounted(),
        });
    }

    /// What must not be, a sentence each.
    pub fn faults(&self) -> Vec<String> {
        let sweeps = self.sweeps.iter().filter(|row| !row.constant).map(|row| {
            format!(
                "{}, {} bytes: the latency depends on the route",
                row.family.name(),
                row.bytes
            )
        });
        let lost = self.congestion.iter().filter(|row| !row.accounted);
        let lost = lost.map(|row| {
            format!(
                "{}, {} bytes: the switch did not count the frames that are missing",
                row.family.name(),
                row.bytes
            )
        });
        sweeps.chain(lost).collect()
    }

    /// As tables.
    pub fn show(&self) -> String {
        let mut out = self.head();
        self.throughput(&mut out);
        self.latency(&mut out);
        self.loss(&mut out);
        self.back_to_back(&mut out);
        self.sweep(&mut out);
        self.congestion(&mut out);
        let _ = writeln!(out, "\n{} clock cycles simulated in RTL.", self.cycles);
        for fault in self.faults() {
            out += &text::wrap(&format!("! {fault}"), 0);
        }
        out
    }

    fn head(&self) -> String {
        let loaded = &self.table.loaded;
        let mut out = text::wrap(
            &format!(
                "ipnuma rfc2544: the switch in RTL{}, {}, {} ports, each sends to the next one",
                match self.lookup {
                    Lookup::Runvec => "",
                    Lookup::Sram22 => " with the dissertation's lookup",
                },
                self.rate,
                self.ports
            ),
            0,
        );
        out += &text::wrap(
            &format!(
                "routes in the switch: {} IPv4, {} IPv6 ({}){}",
                loaded.routes4,
                loaded.routes6,
                self.table.from,
                match loaded.refused {
                    0 => String::new(),
                    refused => format!(", {refused} did not fit"),
                }
            ),
            0,
        );
        out += &text::wrap(
            &format!(
                "a trial: {} frames of 64 bytes from each port, larger ones for as long; RFC 2544 asks for 60 s, \
                 which RTL simulation can't reach",
                self.frames_of_64_bytes
            ),
            0,
        );
        out + "latency: first bit in to first bit out, MAC to MAC, no PHY; every frame is stamped\n"
    }

    fn throughput(&self, out: &mut String) {
        let mut rows = self
            .rows
            .iter()
            .filter_map(|row| row.throughput.as_ref().map(|found| (row, found)))
            .peekable();
        if rows.peek().is_none() {
            return;
        }
        let _ = writeln!(
            out,
            "\nThroughput (26.1): greatest load without loss\n  {:<6}{:>6}{:>9}{:>10}{:>14}{:>14}{:>8}",
            "", "bytes", "frames", "load", "frames/s", "line rate", "trials"
        );
        for (row, found) in rows {
            let _ = writeln!(
                out,
                "  {:<6}{:>6}{:>9}{:>10}{:>14.0}{:>14}{:>8}",
                row.family.name(),
                row.bytes,
                row.frames,
                found.load.to_string(),
                found.frames_per_second.floor(),
                row.line_rate_frames_per_second,
                found.trials
            );
        }
    }

    fn latency(&self, out: &mut String) {
        let mut rows = self
            .rows
            .iter()
            .filter_map(|row| row.latency.as_ref().map(|found| (row, found)))
            .peekable();
        if rows.peek().is_none() {
            return;
        }
        let _ = writeln!(
            out,
            "\nLatency (26.2) at that load, ns\n  {:<6}{:>6}{:>9}{:>10}{:>10}{:>10}{:>10}   frames by latency",
            "", "bytes", "frames", "min", "mean", "max", "cycles"
        );
        for (row, found) in rows {
            let _ = writeln!(
                out,
                "  {:<6}{:>6}{:>9}{}   {}",
                row.family.name(),
                row.bytes,
                found.frames,
                found.cells(),
                bins(found)
            );
        }
    }

    fn loss(&self, out: &mut String) {
        let mut rows = self
            .rows
            .iter()
            .filter_map(|row| row.loss.as_ref().map(|found| (row, found)))
            .peekable();
        if rows.peek().is_none() {
            return;
        }
        let _ = writeln!(
            out,
            "\nFrame loss rate (26.3): from the line rate down until two loads are without loss\n  {:<6}{:>6}   load: loss",
            "", "bytes"
        );
        for (row, found) in rows {
            let steps: Vec<_> = found
                .steps
                .iter()
                .map(|step| format!("{:.0} %: {:.2} %", step.load.percent(), step.loss_percent))
                .collect();
            let line = format!(
                "{:<6}{:>6}   {}",
                row.family.name(),
                row.bytes,
                steps.join("   ")
            );
            out.push_str("  ");
            *out += &line;
            out.push('\n');
        }
    }

    fn back_to_back(&self, out: &mut String) {
        let mut rows = self
            .rows
            .iter()
            .filter_map(|row| row.back_to_back.as_ref().map(|found| (row, found)))
            .peekable();
        if rows.peek().is_none() {
            return;
        }
        let _ = writeln!(
            out,
            "\nBack-to-back frames (26.4): longest burst without loss\n  {:<6}{:>6}{:>9}",
            "", "bytes", "frames"
        );
        for (row, found) in rows {
            let _ = writeln!(
                out,
                "  {:<6}{:>6}{:>9}{}",
                row.family.name(),
                row.bytes,
                found.frames,
                if found.longest_tried {
                    "   the longest that was tried"
                } else {
                    ""
                }
            );
        }
    }

    fn sweep(&self, out: &mut String) {
        for family in &self.not_swept {
            let name = family.name();
            let _ = writeln!(out, "\nRoute sweep: the table has no {name} route to visit");
        }
        if self.sweeps.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\nRoute sweep: a frame to each of many destinations, port {} to the others, ns\n  \
             {:<6}{:>6}{:>9}{:>10}{:>10}{:>10}{:>10}   frames by latency",
            ::rfc2544::SWEEP_FROM,
            "",
            "bytes",
            "routes",
            "min",
            "mean",
            "max",
            "cycles"
        );
        for row in &self.sweeps {
            for (routes, found) in [(1, &row.one_route), (row.destinations, &row.all_routes)] {
                let _ = writeln!(
                    out,
                    "  {:<6}{:>6}{:>9}{}   {}",
                    row.family.name(),
                    row.bytes,
                    routes,
                    found.cells(),
                    bins(found)
                );
            }
            let verdict = if row.constant {
                "the same for every route"
            } else {
                "not the same for every route !"
            };
            let ports: Vec<_> = (0..)
                .zip(&row.by_port)
                .filter(|(_, count)| **count > 0)
                .map(|(port, count): (usize, _)| format!("{count} to port {port}"))
                .collect();
            let _ = writeln!(out, "    {verdict}; {}", ports.join(", "));
        }
    }

    fn congestion(&self, out: &mut String) {
        if self.congestion.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\nCongestion: every other port into one at the line rate\n  {:<6}{:>6}{:>9}{:>9}{:>10}{:>11}{:>10}{:>13}",
            "", "bytes", "input", "frames", "received", "loss", "counted", "output/s"
        );
        for row in &self.congestion {
            for share in &row.inputs {
                let _ = writeln!(
                    out,
                    "  {:<6}{:>6}{:>9}{:>9}{:>10}{:>9.2} %{:>10}",
                    row.family.name(),
                    row.bytes,
                    share.from,
                    share.sent,
                    share.received,
                    share.loss_percent,
                    share.counted
                );
            }
            let sum = |each: &dyn Fn(&Share) -> u64| row.inputs.iter().map(each).sum::<u64>();
            let _ = writeln!(
                out,
                "  {:<6}{:>6}{:>9}{:>9}{:>10}{:>9.2} %{:>10}{:>13.0}{}",
                "",
                "",
                "all",
                sum(&|share| share.sent),
                sum(&|share| share.received),
                row.loss_percent,
                sum(&|share| share.counted),
                row.frames_per_second.floor(),
                if row.accounted { "" } else { " !" }
            );
        }
    }
}

/// The latencies that occur: all of them if they are few.
fn bins(found: &Latency) -> String {
    const MOST: usize = 2;
    match found.histogram.len() {
        0 => String::new(),
        n if n <= MOST && found.outside_histogram == 0 => {
            let each = found.histogram.iter();
            let each: Vec<_> = each
                .map(|bin| format!("{:.1}: {}", bin.ns, bin.frames))
                .collect();
            each.join(", ")
        }
        n => format!("{n} different"),
    }
}
