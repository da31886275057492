// SPDX-License-Identifier: Apache-2.0
//! The `ipnuma` command: the virtual rack from the command line.

#![forbid(unsafe_code)]

mod bench;
mod latency;
mod live;
mod paper;
mod pingpong;
mod platform;
mod rfc2544;
mod text;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use rack::topology::{Format, Rate};

/// IP-NUMA on a virtual rack: RTL network cards, modelled hosts, simulated time.
#[derive(Debug, Parser)]
#[command(name = "ipnuma", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ping-pong between two hosts, with the one-way time taken apart.
    Pingpong(pingpong::Arguments),
    /// Runs the experiments and sets the results beside the dissertation's figures.
    Paper(paper::Arguments),
    /// Latency of two NICs back to back, in all clock phases.
    NicLatency(latency::Arguments),
    /// The tests of RFC 2544 on the switch: throughput, latency, loss, bursts, routes, congestion.
    Rfc2544(rfc2544::Arguments),
    /// The switch in RTL between TAP devices, for real programs: functional, its timing says nothing.
    Switch(live::Arguments),
    /// Speed of the simulation.
    Bench(bench::Arguments),
    /// Shows the constants of a platform and where they come from.
    Platform(platform::Arguments),
}

/// Line rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RateArgument {
    /// 10 Gb/s, XGMII
    #[value(name = "10g")]
    Ten,
    /// 1 Gb/s, GMII
    #[value(name = "1g")]
    One,
}

impl From<RateArgument> for Rate {
    fn from(rate: RateArgument) -> Self {
        match rate {
            RateArgument::Ten => Self::Ten,
            RateArgument::One => Self::One,
        }
    }
}

impl RateArgument {
    const fn name(self) -> &'static str {
        match self {
            Self::Ten => "10g",
            Self::One => "1g",
        }
    }
}

/// Packet format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArgument {
    /// The short form of a store
    Compact,
    /// The whole TLP
    Tlp,
}

impl From<FormatArgument> for Format {
    fn from(format: FormatArgument) -> Self {
        match format {
            FormatArgument::Compact => Self::Compact,
            FormatArgument::Tlp => Self::Tlp,
        }
    }
}

impl FormatArgument {
    const fn name(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::Tlp => "tlp",
        }
    }
}

/// What ends a command.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Failure {
    /// Of the rack, its input and its output.
    Rack(#[from] rack::Error),
    /// Of a test of the switch.
    Test(#[from] ::rfc2544::Error),
}

impl Failure {
    /// Whether the user's input is at fault.
    const fn is_usage(&self) -> bool {
        match self {
            Self::Rack(error) => error.is_usage(),
            Self::Test(error) => matches!(error, ::rfc2544::Error::Stream(_)),
        }
    }
}

/// Exit status for wrong input, as clap has it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Pingpong(arguments) => pingpong::run(&arguments).map_err(Failure::from),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::NicLatency(arguments) => latency::run(&arguments).map_err(Failure::from),
        Command::Rfc2544(arguments) => rfc2544::run(&arguments),
        Command::Switch(arguments) => live::run(&arguments).map_err(Failure::from),
        Command::Bench(arguments) => bench::run(&arguments).map_err(Failure::from),
        Command::Platform(arguments) => platform::run(&arguments).map_err(Failure::from),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is_usage() { USAGE } else { 1 })
        }
    }
}
