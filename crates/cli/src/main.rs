// SPDX-License-Identifier: Apache-2.0
//! The `ipnuma` command: the virtual rack from the command line.

#![forbid(unsafe_code)]

mod bench;
mod latency;
mod paper;
mod pingpong;
mod platform;
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

/// Exit status for wrong input, as clap has it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Pingpong(arguments) => pingpong::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::NicLatency(arguments) => latency::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Platform(arguments) => platform::run(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is_usage() { USAGE } else { 1 })
        }
    }
}
