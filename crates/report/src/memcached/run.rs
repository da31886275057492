// SPDX-License-Identifier: Apache-2.0
//! Runs an arrangement, and reads what came out.

use std::path::PathBuf;

use mcb::{Command, Report, Transport};
use rack::guests::{GuestOutcome, UmlOutcome, run_uml};
use rack::run::{Options, rtl};
use rack::{Error, Topology};
use serde::Serialize;

use super::{Batch, CLIENT, LENGTHS, Path, Setup};
use crate::request;
use crate::waterfall::Waterfall;

/// A CPU cost that was charged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Its name.
    pub name: String,
    /// Nanoseconds.
    pub ns: u64,
    /// Where it is from.
    pub source: String,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// In the order of the batch.
    pub reports: Vec<Report>,
    /// Of all frames and TLPs with their times.
    pub hash: String,
    /// CPU costs that were charged.
    pub costs: Vec<Cost>,
    /// memcached's own part of a GET among them.
    pub application_ns: f64,
    /// Kernel and programs.
    pub guests: String,
    /// Simulated.
    pub simulated_ns: f64,
    /// Seconds that it took, without the starting of the hosts.
    #[serde(skip)]
    pub wall_seconds: f64,
}

impl Measured {
    /// The report on a command.
    pub fn report(&self, command: Command, length: usize) -> Option<&Report> {
        let mut reports = self.reports.iter();
        reports.find(|report| report.command == command && report.length == length)
    }

    /// Reads it from an outcome.
    pub fn of(outcome: &UmlOutcome) -> Result<Self, Error> {
        let client = outcome
            .guest(CLIENT)
            .ok_or_else(|| Error::Config("the run has no client".to_owned()))?;
        let reports = told(outcome, client)?;
        let costs = costs(client);
        let application = costs.iter().find(|cost| cost.name == "application_ns");
        Ok(Self {
            reports,
            hash: outcome.digest(),
            application_ns: application.map_or(0.0, |cost| cost.ns as f64),
            costs,
            guests: kernel(&client.console),
            simulated_ns: outcome.simulated.as_ns(),
            wall_seconds: outcome.wall_seconds,
        })
    }
}

/// What a guest's code was charged.
pub(super) fn costs(guest: &GuestOutcome) -> Vec<Cost> {
    let costs = guest.costs.iter();
    costs
        .map(|cost| Cost {
            name: cost.name.to_owned(),
            ns: cost.ns,
            source: cost.source.clone(),
        })
        .collect()
}

/// What a client printed, unless it failed.
pub(super) fn told(outcome: &UmlOutcome, client: &GuestOutcome) -> Result<Vec<Report>, Error> {
    let gave_up = |reason: String| Error::Program {
        time: outcome.simulated,
        host: client.name.clone(),
        reason,
    };
    if client.status != Some(0) {
        let said = String::from_utf8_lossy(&client.stderr);
        return Err(gave_up(match said.trim() {
            "" => "its command failed and said nothing".to_owned(),
            said => said.lines().last().unwrap_or(said).to_owned(),
        }));
    }
    reports(&client.stdout).map_err(gave_up)
}

/// What `ipnuma mcb --json` prints (docs/json.md).
#[derive(serde::Deserialize)]
struct Line {
    result: Report,
}

/// What the client printed.
pub(super) fn reports(stdout: &[u8]) -> Result<Vec<Report>, String> {
    let lines = String::from_utf8_lossy(stdout);
    let lines = lines.lines().filter(|line| line.starts_with('{'));
    let reports: Result<Vec<Report>, _> = lines
        .map(|line| match serde_json::from_str::<Line>(line) {
            Ok(line) => Ok(line.result),
            Err(error) => Err(format!("mcb's line `{line}`: {error}")),
        })
        .collect();
    reports.and_then(|reports| {
        if reports.is_empty() {
            Err("its command printed no times".to_owned())
        } else {
            Ok(reports)
        }
    })
}

/// The kernel's first line without the compiler, and memcached's version.
pub(super) fn kernel(console: &str) -> String {
    let line = console.lines().find_map(|line| {
        let (_, rest) = line.split_once("Linux version ")?;
        rest.split_whitespace()
            .next()
            .map(|version| format!("Linux {version}, User-Mode Linux"))
    });
    line.unwrap_or_else(|| "Linux, User-Mode Linux".to_owned())
}

/// Whether it can be run here; else what it needs.
pub fn ready() -> Result<(), String> {
    match uml::kernel() {
        Ok(_) => Ok(()),
        Err(_) => Err(
            "the kernel of the hosts; tools/uml-kernel builds it, once, in some minutes".to_owned(),
        ),
    }
}

/// Runs one arrangement, with `keep` frames and TLPs kept.
pub fn run_setup(
    setup: Setup,
    batch: &Batch,
    keep: usize,
) -> Result<(Topology, UmlOutcome), Error> {
    let directory = batch.keep.as_ref().map(|keep| keep.join(setup.key()));
    run(setup.topology(batch)?, directory, keep)
}

/// Runs a topology, with `keep` frames and TLPs kept.
pub(super) fn run(
    topology: Topology,
    directory: Option<PathBuf>,
    keep: usize,
) -> Result<(Topology, UmlOutcome), Error> {
    if let Err(needs) = ready() {
        return Err(Error::Config(format!(
            "memcached cannot be run: it needs {needs}"
        )));
    }
    let options = Options {
        directory,
        keep,
        ..Options::default()
    };
    let outcome = run_uml(&topology, &options, &rtl)?;
    Ok((topology, outcome))
}

/// What one arrangement takes.
pub fn measure(setup: Setup, batch: &Batch) -> Result<Measured, Error> {
    let outcome = run_setup(setup, batch, 0)?.1;
    let measured = Measured::of(&outcome)?;
    let client = outcome.guest(CLIENT);
    client.map_or(Ok(()), |client| check(setup, client, &measured.reports))?;
    Ok(measured)
}

/// That answers came by IP-NUMA, where they should.
pub(super) fn check(setup: Setup, client: &GuestOutcome, reports: &[Report]) -> Result<(), Error> {
    // An answer is a DMA write at least. Without one the client went back to the kernel's sockets beside the NIC.
    let answers: u64 = reports.iter().map(|report| report.count).sum();
    let arrived = client.accesses.dma_write;
    if setup.path == Path::Ipnuma && arrived < answers {
        return Err(Error::Config(format!(
            "{}: {answers} answers, but {arrived} DMA writes: they did not come by IP-NUMA. Were this program and the socket \
             library built from one source? cargo build -p cli -p preload",
            setup.name()
        )));
    }
    Ok(())
}

/// The last of a few GETs of 16 bytes, taken apart.
pub fn take_apart(setup: Setup, protocol: Transport) -> Result<Option<Waterfall>, Error> {
    let batch = Batch {
        protocol,
        commands: vec![(Command::Get, LENGTHS[0])],
        count: 8,
        ..Batch::all()
    };
    let (topology, outcome) = run_setup(setup, &batch, usize::MAX)?;
    let title = format!(
        "GET of {} bytes, {}, {}",
        LENGTHS[0],
        setup.rate.name().to_uppercase(),
        setup.name()
    );
    request::of(&title, &topology, &outcome)
}
