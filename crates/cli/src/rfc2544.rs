// SPDX-License-Identifier: Apache-2.0
//! `ipnuma rfc2544`: the tests of RFC 2544 on the switch in RTL, with an instrument in RTL.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::rfc2544::{FRAME_SIZES, Family};
use clap::ValueEnum;
use rack::Error;
use report::rfc2544::{Lookup, Plan, Routes, Test, write};

use crate::{Failure, RateArgument, given, output};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// What the switch looks destinations up with
    #[arg(long, default_value = "runvec")]
    lookup: Lookup,
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

/// Frames of a port in a trial.
const FRAMES: u64 = 2_000;
const FRAMES_SHORT: u64 = 200;
const SIZES_SHORT: [usize; 2] = [64, 1518];

fn plan(arguments: &Arguments) -> Plan {
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
    Plan {
        rate: arguments.rate.into(),
        lookup: arguments.lookup,
        ports: arguments.ports.into(),
        frames: arguments.frames.unwrap_or(default),
        seed: arguments.seed,
        families: arguments.family.families(),
        sizes,
        tests: tests.to_vec(),
    }
}

/// Longest file of routes: more than all of the Internet take.
const LONGEST_ROUTES: u64 = 256 << 20;

/// That a file of routes has an end, and that nobody waits for it. What is not there is told by its reader.
fn readable(routes: Option<&str>) -> Result<(), Error> {
    let path = match routes {
        Some(text) if text.parse::<u64>().is_err() => Path::new(text),
        _ => return Ok(()),
    };
    if !path.exists() {
        return Ok(());
    }
    match input::bytes(path, LONGEST_ROUTES) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::Config(format!(
            "--routes: cannot read {}: {error}; give a file with one prefix a line, or a number",
            path.display()
        ))),
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let plan = plan(arguments);
    given::directory("--plot", arguments.plot.as_ref())?;
    given::distinct("--sizes", &arguments.sizes)?;
    given::distinct("--test", &arguments.tests)?;
    readable(arguments.routes.as_deref())?;
    let routes = Routes::read(arguments.routes.as_deref(), plan.seed)?;
    if let Some(directory) = &arguments.plot {
        std::fs::create_dir_all(directory).map_err(|error| Error::Output {
            path: directory.display().to_string(),
            reason: error.to_string(),
        })?;
    }
    let report = plan.run(&routes)?;
    if let Some(directory) = &arguments.plot {
        write(&report, directory)?;
    }
    if arguments.json {
        output::print(&output::json("rfc2544", &report))?;
    } else {
        output::print(&report.show())?;
    }
    Ok(ExitCode::from(u8::from(!report.faults().is_empty())))
}
