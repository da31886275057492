// SPDX-License-Identifier: Apache-2.0
//! `ipnuma offload`: the evaluation of the parallel TCP offload engine, in virtual time.

use std::path::PathBuf;
use std::process::ExitCode;

use ::offload::{Hardware, Mix, Picoseconds, Policy, Scenario};
use rack::Error;
use report::offload::{Sweep, evaluate, sweep, write};

use crate::{Failure, given, output};

const HELP: &str = "\
Without --policy, --mix, --analyzers, --window, --corruption, --recovery and options of the hardware, the document's
figure 8 and table 3 are run and what lies beyond them, and the exit status is 1 if a goal is missed. With one of
them, all combinations of what is given are run.";

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// When packets count: single, naive, reassembly, counter, counter+PACKETS, EPOCHSxPACKETS
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<Policy>,
    /// Bytes of payload: 1460, 1024-8192 (whole writes of 1024), 1024/8192 (nine of ten short)
    #[arg(long = "mix", value_name = "MIX", value_delimiter = ',')]
    mixes: Vec<Mix>,
    /// Analyzers
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u8).range(1..=8))]
    analyzers: Vec<u8>,
    /// KiB that the engine lets the sender have on the way
    #[arg(long = "window", value_name = "KIB", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    windows: Vec<u64>,
    /// Rate of segments whose checksum is wrong though their FCS is right
    #[arg(long = "corruption", value_name = "RATE", value_delimiter = ',')]
    corruptions: Vec<f64>,
    /// The sender's least time-out, ms
    #[arg(long = "recovery", value_name = "MS", value_delimiter = ',', value_parser = milliseconds)]
    recoveries: Vec<f64>,
    /// Rate of segments that do not arrive
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    loss: f64,
    /// Bytes that an analyzer reads in a cycle [default: 4]
    #[arg(long, value_name = "BYTES")]
    bytes_per_cycle: Option<f64>,
    /// MHz of analyzers and controller [default: 62.5]
    #[arg(long, value_name = "MHZ")]
    clock: Option<f64>,
    /// Cycles of the controller for a packet [default: 8; the document's has 75]
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    core_cycles: Option<u64>,
    /// Gaps that reassembly has room for
    #[arg(long, default_value_t = 4)]
    gaps: usize,
    /// Both ways, without the engine and without time on the line, us
    #[arg(long, default_value_t = 20)]
    rtt: u64,
    /// Virtual time of a run, ms; a tenth at the beginning is not measured [default: 100; with --short 20]
    #[arg(long, value_parser = milliseconds)]
    duration: Option<f64>,
    /// Draws lengths, corruption and loss
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs a fifth as long
    #[arg(long, conflicts_with = "duration")]
    short: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write plots (SVG) to this directory
    #[arg(long, value_name = "DIRECTORY")]
    plot: Option<PathBuf>,
}

/// Milliseconds.
const DURATION: f64 = 100.0;
const DURATION_SHORT: f64 = 20.0;

/// Milliseconds that a user writes.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ms) if (0.0..1e9).contains(&ms) => Ok(ms),
        _ => Err("this is no time; write a number of milliseconds such as 20".to_owned()),
    }
}

/// Microseconds of milliseconds; what is too little or too much is refused where it is used.
fn us(ms: f64) -> u64 {
    (ms * 1e3).round().clamp(0.0, 1e12) as u64
}

fn base(arguments: &Arguments) -> Result<Scenario, Error> {
    let mut hardware = Hardware::OURS;
    if let Some(mhz) = arguments.clock {
        if !(1.0..=10_000.0).contains(&mhz) {
            return Err(Error::Config(format!(
                "--clock: {mhz} MHz is no clock of an analyzer; write 1 to 10000"
            )));
        }
        hardware.clock = Picoseconds((1e6 / mhz).round() as u64);
    }
    hardware.bytes_per_cycle = arguments
        .bytes_per_cycle
        .unwrap_or(hardware.bytes_per_cycle);
    hardware.core_cycles = arguments.core_cycles.unwrap_or(hardware.core_cycles);
    let default = if arguments.short {
        DURATION_SHORT
    } else {
        DURATION
    };
    Ok(Scenario {
        hardware,
        gaps: arguments.gaps,
        loss: arguments.loss,
        rtt_us: arguments.rtt,
        duration_us: us(arguments.duration.unwrap_or(default)),
        seed: arguments.seed,
        ..Scenario::default()
    })
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let base = base(arguments)?;
    given::directory("--plot", arguments.plot.as_ref())?;
    given::distinct("--policy", &arguments.policies)?;
    given::distinct("--mix", &arguments.mixes)?;
    given::distinct("--analyzers", &arguments.analyzers)?;
    given::distinct("--window", &arguments.windows)?;
    given::distinct("--corruption", &arguments.corruptions)?;
    given::distinct("--recovery", &arguments.recoveries)?;
    let several = Sweep {
        mixes: arguments.mixes.clone(),
        policies: arguments.policies.clone(),
        analyzers: arguments.analyzers.iter().map(|&n| n.into()).collect(),
        windows: arguments.windows.iter().map(|kib| kib * 1024).collect(),
        corruptions: arguments.corruptions.clone(),
        recoveries_us: arguments.recoveries.iter().map(|&ms| us(ms)).collect(),
    };
    if let Some(directory) = &arguments.plot {
        std::fs::create_dir_all(directory).map_err(|error| Error::Output {
            path: directory.display().to_string(),
            reason: error.to_string(),
        })?;
    }
    let whole = several.is_empty() && base.hardware == Hardware::OURS;
    let report = if whole {
        evaluate(base)
    } else {
        sweep(base, &several)
    };
    // What the model says begins with the name of the option.
    let report = report.map_err(|failure| match failure {
        report::Failure::Offload(error) => Failure::Rack(Error::Config(format!("--{error}"))),
        failure => Failure::Report(failure),
    })?;
    if let Some(directory) = &arguments.plot {
        write(&report, directory)?;
    }
    if arguments.json {
        output::print(&output::json("offload", &report))?;
    } else {
        output::print(&report.show())?;
    }
    Ok(ExitCode::from(u8::from(!report.holds())))
}
