// SPDX-License-Identifier: Apache-2.0
//! A host that waits for messages: the load of its processor against their latency, by rate and manner.

use std::fmt::{self, Write};
use std::path::Path;

use rack::run::{Options, WaitingOutcome, rtl, run_waiting};
use rack::waiting::{Costs, Manner, Plan};
use rack::{Error, Picoseconds, Topology};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plot::drawing::{self, Drawing, Series};
use crate::text::{self, Summary};

/// Column of the constants' sources.
const SOURCE: usize = 27;

/// How a program waits, as users say it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// It looks at memory without a pause
    Poll,
    /// It sleeps until the NIC interrupts
    Interrupt,
    /// It looks for a while, and sleeps then
    Adaptive,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Poll => "poll",
            Self::Interrupt => "interrupt",
            Self::Adaptive => "adaptive",
        })
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Two hosts.
    pub topology: Topology,
    /// Messages a second.
    pub per_second: Vec<u64>,
    /// How the second host waits.
    pub ways: Vec<Way>,
    /// Messages of each run.
    pub messages: u64,
    /// Of the adaptive way.
    pub spin: Picoseconds,
    /// Microseconds from one interrupt to the next at least.
    pub moderation_us: u16,
    /// What the kernel takes.
    pub costs: Costs,
    /// Simulate idle clock cycles, too.
    pub skip_idle: bool,
}

/// Mean times of a message's way, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// From the store until it is in memory: NICs in RTL, and the platform's constants.
    pub to_memory_ns: f64,
    /// From there until the program has seen it.
    pub to_program_ns: f64,
    /// Of that, until the NIC's interrupt is there: RTL and the bus, of messages that woke the program.
    pub to_interrupt_ns: Option<f64>,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Messages a second.
    pub messages_per_s: u64,
    /// How the host waits.
    pub way: Way,
    /// Load of its processor.
    pub cpu_percent: f64,
    /// From the store until the program has seen it.
    pub latency_ns: Summary,
    /// Where that passes.
    pub parts: Parts,
    /// Messages.
    pub messages: u64,
    /// Interrupts by the NIC.
    pub interrupts: u64,
    /// Times that the program slept.
    pub sleeps: u64,
    /// Times that the NIC was told to interrupt for arrivals.
    pub armed: u64,
    /// Simulated time from the begin of the first wait to the last message.
    pub waited_ns: f64,
    /// Hash of all frames and TLPs.
    pub run_hash: String,
}

/// All of them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// By rate, and by manner in each.
    pub rows: Vec<Row>,
    /// What the kernel takes.
    pub costs: Costs,
    /// Hash of the hashes of all runs.
    pub hash: String,
    /// What it took here.
    #[serde(skip)]
    pub wall_seconds: f64,
}

fn mean(times: impl Iterator<Item = Picoseconds>) -> Option<f64> {
    let (count, sum) = times.fold((0u64, 0u64), |(count, sum), time| (count + 1, sum + time.0));
    (count > 0).then(|| Picoseconds(sum).as_ns() / count as f64)
}

impl Row {
    fn of(messages_per_s: u64, way: Way, outcome: &WaitingOutcome) -> Self {
        let waiting = &outcome.waiting;
        let spans = |from: &[Picoseconds], to: &[Picoseconds]| -> Vec<Picoseconds> {
            from.iter().zip(to).map(|(from, to)| *to - *from).collect()
        };
        let latencies = spans(&waiting.issued, &waiting.seen);
        let to_memory = spans(&waiting.issued, &waiting.landed);
        let to_program = spans(&waiting.landed, &waiting.seen);
        // The first one behind the message, if the program had not seen it before.
        let woken = waiting.landed.iter().zip(&waiting.seen);
        let to_interrupt = woken.filter_map(|(landed, seen)| {
            let next = waiting.interrupts.partition_point(|time| time < landed);
            let time = waiting.interrupts.get(next)?;
            (time < seen).then(|| *time - *landed)
        });
        Self {
            messages_per_s,
            way,
            cpu_percent: 100.0 * waiting.load(),
            latency_ns: Summary::of(&latencies),
            parts: Parts {
                to_memory_ns: mean(to_memory.into_iter()).unwrap_or_default(),
                to_program_ns: mean(to_program.into_iter()).unwrap_or_default(),
                to_interrupt_ns: mean(to_interrupt),
            },
            messages: waiting.seen.len() as u64,
            interrupts: waiting.interrupts.len() as u64,
            sleeps: waiting.sleeps,
            armed: waiting.armed,
            waited_ns: (waiting.span.1 - waiting.span.0).as_ns(),
            run_hash: outcome.record.digest(),
        }
    }
}

/// Runs all of them.
pub fn measure(sweep: &Sweep) -> Result<Report, Error> {
    let mut rows = Vec::new();
    let mut hash = Sha256::new();
    let mut wall_seconds = 0.0;
    for per_second in &sweep.per_second {
        for way in &sweep.ways {
            let plan = Plan {
                manner: match way {
                    Way::Poll => Manner::Poll,
                    Way::Interrupt => Manner::Sleep {
                        spin: Picoseconds::ZERO,
                    },
                    Way::Adaptive => Manner::Sleep { spin: sweep.spin },
                },
                rate: *per_second,
                messages: sweep.messages,
                moderation_us: sweep.moderation_us,
                costs: sweep.costs.clone(),
                seed: sweep.topology.seed,
            };
            let options = Options {
                skip_idle: sweep.skip_idle,
                ..Options::default()
            };
            let outcome = run_waiting(&sweep.topology, &plan, &options, &rtl)?;
            let row = Row::of(*per_second, *way, &outcome);
            hash.update(&row.run_hash);
            wall_seconds += outcome.wall_seconds;
            rows.push(row);
        }
    }
    let hash = hash.finalize();
    Ok(Report {
        rows,
        costs: sweep.costs.clone(),
        hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        wall_seconds,
    })
}

/// As a text.
pub fn show(description: &str, report: &Report) -> String {
    let mut out = text::wrap(&format!("ipnuma wait: {description}"), 0);
    let _ = writeln!(
        out,
        "\n{:>10}  {:<10}{:>8}{:>10}{:>10}{:>10}{:>12}{:>12}{:>12}",
        "messages", "waits", "CPU", "latency", "", "", "of the mean", "", "interrupts"
    );
    let _ = writeln!(
        out,
        "{:>10}  {:<10}{:>8}{:>10}{:>10}{:>10}{:>12}{:>12}{:>12}",
        "a second", "by", "%", "mean, ns", "median", "p99", "to memory", "to program", "a message"
    );
    let mut before = None;
    for row in &report.rows {
        if before.is_some_and(|before| before != row.messages_per_s) {
            out.push('\n');
        }
        before = Some(row.messages_per_s);
        let _ = writeln!(
            out,
            "{:>10}  {:<10}{:>8.3}{:>10.1}{:>10.1}{:>10.1}{:>12.1}{:>12.1}{:>12.3}",
            row.messages_per_s,
            row.way.to_string(),
            row.cpu_percent,
            row.latency_ns.mean,
            row.latency_ns.median,
            row.latency_ns.p99,
            row.parts.to_memory_ns,
            row.parts.to_program_ns,
            row.interrupts as f64 / row.messages.max(1) as f64,
        );
    }
    out.push('\n');
    let woken = report.rows.iter().filter(|row| row.way == Way::Interrupt);
    if let Some(ns) = woken.clone().find_map(|row| row.parts.to_interrupt_ns) {
        let per_second = woken
            .map(|row| row.messages_per_s)
            .next()
            .unwrap_or_default();
        out += &text::wrap(
            &format!(
                "RTL: both NICs and the cable's MACs, until the store is in memory, and from there {ns:.1} ns until the \
                 NIC's interrupt is there (at {per_second} a second); how often it interrupts; when the program sleeps. \
                 Constant: what PCI Express, PHY and cable take (ipnuma pingpong takes that apart), and from the \
                 interrupt on:"
            ),
            2,
        );
    }
    let mut costs = report.costs.clone();
    for (name, cost) in costs.each() {
        let source = text::wrap(&format!("{}: {}", cost.origin, cost.source), SOURCE);
        let _ = write!(
            out,
            "  {name:<14}{:>6} ns  {}",
            cost.ns,
            source.trim_start()
        );
    }
    let _ = writeln!(
        out,
        "\nsimulated in {:.2} s\nhash of all runs  {}",
        report.wall_seconds, report.hash
    );
    out
}

/// Draws load against latency.
pub fn plot(report: &Report, directory: &Path) -> Result<(), Error> {
    let mut series: Vec<(Way, Vec<(f64, f64)>)> = Vec::new();
    for row in &report.rows {
        let point = (row.latency_ns.mean / 1e3, row.cpu_percent);
        match series.iter_mut().find(|(way, _)| *way == row.way) {
            Some((_, points)) => points.push(point),
            None => series.push((row.way, vec![point])),
        }
    }
    let series = series.into_iter().map(|(way, points)| Series {
        name: way.to_string(),
        points,
    });
    let drawing = Drawing {
        title: "Waiting for messages: a point for each rate, more load for more messages",
        x: "latency, mean, us",
        y: "load of the processor, %",
        from_zero: true,
        series: series.collect(),
    };
    drawing::write(directory, [("waiting.svg", drawing)])
}
