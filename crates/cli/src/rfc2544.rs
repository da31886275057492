// SPDX-License-Identifier: Apache-2.0
//! `ipnuma rfc2544`: the tests of RFC 2544 on the switch in RTL, with an instrument in RTL.

mod plot;
mod report;
mod routes;

use std::path::PathBuf;
use std::process::ExitCode;

use ::rfc2544::{
    FRAME_SIZES, Family, Instrument, Line, Load, SWEEP_FROM, SwitchRig, Traffic, back_to_back,
    congestion, latency, loss_rate, sweep, throughput,
};
use clap::ValueEnum;
use rack::Error;
use rack::NetSpeed;

use crate::{Failure, RateArgument, text};
use report::{Report, Row};
use routes::Routes;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// Ports that take part: each sends to the next one
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=4))]
    ports: u8,
    /// Bytes of a frame with its FCS, between commas [default: 64 to 1518 of RFC 2544, and 9216]
    #[arg(long, value_name = "BYTES", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(64..=9216))]
    sizes: Vec<u16>,
    /// Address family
    #[arg(long, default_value = "both")]
    family: FamilyArgument,
    /// Frames of 64 bytes that a port sends in a trial; of larger ones it sends as many as take the
    /// same time, but not fewer than 32 [default: 2000; with --short 200]
    #[arg(long, value_parser = clap::value_parser!(u64).range(32..=100_000_000))]
    frames: Option<u64>,
    /// Routes in the switch, and for the sweep: a file with one prefix a line, or how many made-up
    /// ones [default: 1000]
    #[arg(long, value_name = "FILE|N")]
    routes: Option<String>,
    /// Draws made-up routes, next hops, and the destinations of the sweep
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tests to run, between commas [default: all]
    #[arg(long = "test", value_name = "TEST", value_delimiter = ',')]
    tests: Vec<Test>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write plots (SVG) to this directory
    #[arg(long, value_name = "DIRECTORY")]
    plot: Option<PathBuf>,
    /// Only 64 and 1518 bytes, and short trials
    #[arg(long, conflicts_with = "sizes")]
    short: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FamilyArgument {
    /// IPv4
    V4,
    /// IPv6
    V6,
    /// One after the other
    Both,
}

impl FamilyArgument {
    const fn families(self) -> &'static [Family] {
        match self {
            Self::V4 => &[Family::V4],
            Self::V6 => &[Family::V6],
            Self::Both => &[Family::V4, Family::V6],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Test {
    /// Greatest load without loss (section 26.1)
    Throughput,
    /// First bit in to first bit out, at that load (section 26.2)
    Latency,
    /// Loss by load (section 26.3)
    Loss,
    /// Longest burst without loss (section 26.4)
    BackToBack,
    /// Latency over all routes of a sample; it must be the same
    Sweep,
    /// All other ports into one at the line rate; each lost frame must be counted
    Congestion,
}

/// Frames of a port in a trial.
const FRAMES: u64 = 2_000;
const FRAMES_SHORT: u64 = 200;
/// And at least, however large they are.
const FRAMES_LEAST: u64 = 32;
const SIZES_SHORT: [usize; 2] = [64, 1518];

/// Frames of a size that take the time of `frames` frames of 64 bytes.
pub fn frames_of(size: usize, frames: u64) -> u64 {
    let smallest = Line::wire_bytes(FRAME_SIZES[0]);
    (frames * smallest / Line::wire_bytes(size)).max(FRAMES_LEAST.min(frames))
}

pub const fn speed(rate: RateArgument) -> NetSpeed {
    match rate {
        RateArgument::Ten => NetSpeed::TenGig,
        RateArgument::One => NetSpeed::OneGig,
    }
}

struct Plan {
    ports: usize,
    frames: u64,
    seed: u64,
    families: &'static [Family],
    sizes: Vec<usize>,
    tests: Vec<Test>,
}

impl Plan {
    fn new(arguments: &Arguments) -> Self {
        let default = if arguments.short {
            FRAMES_SHORT
        } else {
            FRAMES
        };
        let sizes = match (&arguments.sizes[..], arguments.short) {
            ([], true) => SIZES_SHORT.to_vec(),
            ([], false) => FRAME_SIZES.to_vec(),
            (some, _) => some.iter().map(|&size| usize::from(size)).collect(),
        };
        let tests = match &arguments.tests[..] {
            [] => Test::value_variants(),
            some => some,
        };
        Self {
            ports: arguments.ports.into(),
            frames: arguments.frames.unwrap_or(default),
            seed: arguments.seed,
            families: arguments.family.families(),
            sizes,
            tests: tests.to_vec(),
        }
    }

    fn has(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// Sizes of a family's frames: those that are too small become the smallest, once.
    fn sizes(&self, instrument: &impl Instrument, family: Family) -> Vec<usize> {
        let smallest = instrument.smallest(family);
        let mut sizes: Vec<_> = self.sizes.iter().map(|&size| size.max(smallest)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The tests that one family and size goes through.
    fn row(
        &self,
        instrument: &mut impl Instrument,
        family: Family,
        size: usize,
    ) -> Result<Row, Failure> {
        let line = instrument.line();
        let frames = frames_of(size, self.frames);
        let traffic = Traffic::ring(instrument, self.ports, family, size, frames);
        let mut row = Row::new(&traffic, line);
        // The latency is to be taken at the throughput.
        let mut load = Load::FULL;
        if self.has(Test::Throughput) || self.has(Test::Latency) {
            let found = throughput(instrument, &traffic)?;
            load = found.load;
            row.throughput = Some(found);
        }
        if self.has(Test::Latency) && load.as_permille() > 0 {
            row.latency = Some(report::Latency::new(
                &latency(instrument, &traffic, load)?,
                line,
            ));
        }
        if self.has(Test::Loss) {
            row.loss = Some(loss_rate(instrument, &traffic)?);
        }
        if self.has(Test::BackToBack) {
            row.back_to_back = Some(back_to_back(instrument, &traffic)?);
        }
        Ok(row)
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let plan = Plan::new(arguments);
    let routes = Routes::read(arguments.routes.as_deref(), plan.seed)?;
    if let Some(directory) = &arguments.plot {
        std::fs::create_dir_all(directory).map_err(|error| Error::Output {
            path: directory.display().to_string(),
            reason: error.to_string(),
        })?;
    }
    let mut rig = SwitchRig::new(speed(arguments.rate))?;
    let loaded = rig.load(&routes.table, plan.seed)?;
    let mut report = Report::new(arguments.rate, plan.ports, plan.frames, &routes, loaded);
    for &family in plan.families {
        for size in plan.sizes(&rig, family) {
            let per_size = [
                Test::Throughput,
                Test::Latency,
                Test::Loss,
                Test::BackToBack,
            ];
            if per_size.into_iter().any(|test| plan.has(test)) {
                report.rows.push(plan.row(&mut rig, family, size)?);
            }
        }
        let sizes = plan.sizes(&rig, family);
        if plan.has(Test::Sweep) {
            let count = plan.frames as usize;
            let addresses = rig.addresses(&routes.table, family, count, plan.seed);
            let size = sizes[0];
            if addresses.is_empty() {
                report.not_swept.push(family);
            } else {
                let found = sweep(&mut rig, SWEEP_FROM, family, size, &addresses)?;
                report.add_sweep(family, size, &found);
            }
        }
        if plan.has(Test::Congestion) {
            let ends = [sizes[0], sizes[sizes.len() - 1]];
            for &size in if ends[0] == ends[1] {
                &ends[..1]
            } else {
                &ends
            } {
                let frames = frames_of(size, plan.frames);
                let to = plan.ports - 1;
                let traffic = Traffic::many_to_one(&rig, plan.ports, to, family, size, frames);
                let found = congestion(&mut rig, &traffic)?;
                report.add_congestion(&traffic, &found);
            }
        }
    }
    report.cycles = rig.cycles();
    if let Some(directory) = &arguments.plot {
        plot::write(&report, directory)?;
    }
    if arguments.json {
        let json = serde_json::to_string_pretty(&report);
        text::print(&(json.expect("numbers and strings have JSON") + "\n"))?;
    } else {
        text::print(&report.show())?;
    }
    Ok(ExitCode::from(u8::from(!report.faults().is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_frames_are_fewer_but_not_too_few() {
        assert_eq!(frames_of(64, 2_000), 2_000);
        assert_eq!(frames_of(1518, 2_000), 109);
        assert_eq!(frames_of(9216, 2_000), 32);
        assert_eq!(frames_of(9216, 100_000), 909);
        assert_eq!(frames_of(64, 10), 10);
    }
}
