// SPDX-License-Identifier: Apache-2.0
//! What came out, as tables.

use std::fmt::Write as _;

use mcb::{Command, Transport};
use rack::topology::Rate;
use serde::Serialize;

use super::{Cost, Library, Load, Loaded, Measured, Path, Place, Setup, SwitchKind};
use crate::text;
use crate::waterfall::{Kind, Waterfall};

/// One arrangement in the output.
#[derive(Debug, Serialize)]
pub struct Row {
    name: String,
    place: Place,
    transport: Path,
    switch: Option<SwitchKind>,
    library: Library,
    #[serde(flatten)]
    measured: Measured,
}

impl Row {
    /// What an arrangement gave.
    pub fn new(setup: Setup, measured: Measured) -> Self {
        Self {
            name: setup.name(),
            place: setup.place,
            transport: setup.path,
            switch: setup.switch,
            library: setup.library,
            measured,
        }
    }
}

/// What was asked in all arrangements.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Commands.
    pub commands: Vec<Command>,
    /// Bytes of their values.
    pub lengths: Vec<usize>,
    /// Line rate.
    pub rate: Rate,
    /// Of each.
    pub count: u64,
    /// How sockets carry them.
    pub protocol: Transport,
    /// Of IP-NUMA: sessions were sealed.
    pub seal: bool,
}

/// A request taken apart, as a text.
pub fn stages(waterfall: &Waterfall) -> String {
    let mut out = format!("{}\n", waterfall.title);
    for stage in &waterfall.stages {
        let cycles = stage
            .cycles
            .map_or(String::new(), |cycles| format!("{cycles:.0} cycles"));
        let line = format!(
            "  {:<56}{:>8.1} ns  {:<9} {cycles}",
            stage.name,
            stage.to_ns - stage.from_ns,
            stage.kind.name(),
        );
        out += line.trim_end();
        out.push('\n');
    }
    let _ = write!(out, "  {:<56}{:>8.1} ns ", "in all", waterfall.total_ns());
    for kind in [Kind::Rtl, Kind::Constant, Kind::Cpu] {
        let _ = write!(out, " {} {:.0}", kind.name(), waterfall.sum_ns(kind));
    }
    out + "\n\n"
}

/// Times, then what they were computed with, then the hashes.
pub fn show(asked: &Asked, rows: &[Row]) -> String {
    // One that is charged everything, where there is one.
    let is_charged = |row: &&Row| row.library == Library::Charged;
    let Some(first) = rows.iter().find(is_charged).or(rows.first()) else {
        return String::new();
    };
    let width = width(rows);
    let mut out = text::wrap(
        &format!(
            "memcached and its client in Linux hosts, {}, {} commands of each, one after the other, by {}{}; simulated \
             time.",
            asked.rate.name().to_uppercase(),
            asked.count,
            asked.protocol.name(),
            if asked.seal { ", sealed" } else { "" },
        ),
        0,
    );
    for command in &asked.commands {
        let name = command.name().to_uppercase();
        let _ = write!(out, "\n{:<width$}  ", format!("ns per {name} of bytes"));
        for length in &asked.lengths {
            let _ = write!(out, "{length:>10}");
        }
        out.push('\n');
        for row in rows {
            let _ = write!(out, "  {:<width$}", row.name);
            for length in &asked.lengths {
                let report = row.measured.report(*command, *length);
                let _ = write!(
                    out,
                    "{:>10.0}",
                    report.map_or(f64::NAN, |report| report.ns.mean)
                );
            }
            out.push('\n');
        }
        out += &shares(*command, &asked.lengths, rows);
    }
    out += &charged(&first.measured.costs);
    let _ = writeln!(
        out,
        "\n{:<width$}  {:>12}{:>14}   run hash",
        "", "simulated ms", "commands/s"
    );
    for row in rows {
        let commands: u64 = row.measured.reports.iter().map(|report| report.count).sum();
        let _ = writeln!(
            out,
            "  {:<width$}{:>12.1}{:>14.0}   {}",
            row.name,
            row.measured.simulated_ns / 1e6,
            commands as f64 / row.measured.wall_seconds.max(1e-9),
            row.measured.hash.get(..16).unwrap_or(&row.measured.hash)
        );
    }
    out += &text::wrap(
        "commands/s are those of a second on this machine, and say nothing of the hosts; all else is simulated.",
        2,
    );
    out
}

/// What was computed with.
fn charged(costs: &[Cost]) -> String {
    let mut out =
        "\nCPU costs, assumed and charged in simulated time; those of the library where calls are charged\n"
            .to_owned();
    for cost in costs {
        let _ = writeln!(
            out,
            "  {:<22}{:>8} ns   {}",
            cost.name, cost.ns, cost.source
        );
    }
    out
}

/// One arrangement with several clients in the output.
#[derive(Debug, Serialize)]
pub struct LoadRow {
    name: String,
    place: Place,
    transport: Path,
    switch: Option<SwitchKind>,
    library: Library,
    command: Command,
    length: usize,
    clients: usize,
    threads: usize,
    #[serde(flatten)]
    loaded: Loaded,
}

impl LoadRow {
    /// What an arrangement gave, asked for this.
    pub fn new(load: Load, (command, length): (Command, usize), loaded: Loaded) -> Self {
        let setup = load.setup;
        Self {
            name: setup.name(),
            place: setup.place,
            transport: setup.path,
            switch: setup.switch,
            library: setup.library,
            command,
            length,
            clients: load.clients,
            threads: load.threads,
            loaded,
        }
    }
}

/// What several clients got, then what it was computed with, then the hashes.
pub fn show_loads(asked: &Asked, rows: &[LoadRow]) -> String {
    let is_charged = |row: &&LoadRow| row.library == Library::Charged;
    let Some(first) = rows.iter().find(is_charged).or(rows.first()) else {
        return String::new();
    };
    let mut out = text::wrap(
        &format!(
            "One memcached and its clients in Linux hosts around one switch, {}, by {}; each thread \
             of a client sends {} commands, the next one when it has its answer; simulated time.",
            asked.rate.name().to_uppercase(),
            asked.protocol.name(),
            asked.count,
        ),
        0,
    );
    let heading = |row: &LoadRow| {
        let command = row.command.name().to_uppercase();
        format!("{}: {command} of {} bytes", row.name, row.length)
    };
    let mut before = String::new();
    for row in rows {
        if heading(row) != before {
            before = heading(row);
            let _ = writeln!(
                out,
                "\n{before}\n  {:>7}{:>8}{:>12}{:>10}{:>9}{:>9}   {:<26}run hash",
                "clients", "threads", "commands/s", "us: mean", "median", "p99", "busy, %"
            );
        }
        let Loaded { ns, busy, .. } = &row.loaded;
        let each = row.loaded.each();
        let us = |ns: u64| ns as f64 / 1e3;
        let busy = format!(
            "server {:.0}, 1st client {:.0}, cable {:.0}",
            busy.server, busy.client, busy.cable
        );
        let _ = writeln!(
            out,
            "  {:>7}{:>8}{:>12.0}{:>10.2}{:>9.2}{:>9.2}   {busy:<40}{}",
            row.clients,
            row.threads,
            row.loaded.per_second,
            ns.mean / 1e3,
            us(each.p50),
            us(each.p99),
            row.loaded.hash.get(..8).unwrap_or(&row.loaded.hash)
        );
    }
    out += &charged(&first.loaded.costs);
    out.push('\n');
    out += &text::wrap(
        "A command takes from its request to the next one of the same thread; counted is the time in which all threads \
         asked. Busy are processors with the costs above, registers' readings and stores, and the fuller way of the server's cable.",
        2,
    );
    out
}

/// Of the column of names.
fn width(rows: &[Row]) -> usize {
    rows.iter().map(|row| row.name.len()).fold(32, usize::max)
}

/// As tables 6.7 and 6.8: commands a second beside sockets and AX3630S in the same place.
fn shares(command: Command, lengths: &[usize], rows: &[Row]) -> String {
    let (mut out, width) = (String::new(), width(rows));
    let is_base =
        |row: &&Row| row.transport == Path::Socket && row.switch == Some(SwitchKind::Ax3630s);
    for base in rows.iter().filter(is_base) {
        let _ = writeln!(out, "\n% of the commands a second of {}", base.name);
        for row in rows.iter().filter(|row| row.place == base.place) {
            let _ = write!(out, "  {:<width$}", row.name);
            for length in lengths {
                let ns = |row: &Row| {
                    row.measured
                        .report(command, *length)
                        .map(|report| report.ns.mean)
                };
                let share = ns(base).zip(ns(row)).map(|(base, ns)| 100.0 * base / ns);
                let _ = write!(out, "{:>9.0} %", share.unwrap_or(f64::NAN));
            }
            out.push('\n');
        }
    }
    out
}
