// SPDX-License-Identifier: Apache-2.0
//! `ipnuma bench`: how fast the simulation is.

use std::process::ExitCode;

use rack::faults::Faults;
use rack::run::{Options, rtl, run as run_topology};
use rack::topology::{NicOptions, Pair};
use rack::{Error, Topology};

use crate::{FormatArgument, RateArgument, text};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Round trips of each measurement
    #[arg(long, default_value_t = 2_000)]
    loops: u64,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    rack::topology::check_pingpong(4, arguments.loops)
        .map_err(|sentence| Error::Config(format!("--{sentence}")))?;
    let mut out = format!(
        "{:<26}{:>14}{:>16}{:>18}{:>14}\n",
        "", "ping-pongs/s", "clock edges/s", "simulated ns/s", "seconds"
    );
    for (name, rate, skip_idle, metres) in [
        ("10g", RateArgument::Ten, true, 1.0),
        ("10g, no idle skipping", RateArgument::Ten, false, 1.0),
        ("10g, idle: 100 km", RateArgument::Ten, true, 100_000.0),
        ("1g", RateArgument::One, true, 1.0),
    ] {
        let topology = Topology::pair(Pair {
            platform: "keio-2016".to_owned(),
            seed: 1,
            rate: rate.into(),
            format: FormatArgument::Compact.into(),
            metres,
            bytes: 4,
            loops: arguments.loops,
            warmup: 10,
            nic: NicOptions::default(),
            faults: Faults::default(),
        });
        let options = Options {
            skip_idle,
            ..Options::default()
        };
        let outcome = run_topology(&topology, &options, &rtl)?;
        let per_second = |amount: f64| amount / outcome.wall_seconds.max(1e-9);
        out += &format!(
            "{:<26}{:>14.0}{:>16.0}{:>18.0}{:>14.2}\n",
            name,
            per_second(arguments.loops as f64),
            per_second(outcome.effort.edges as f64),
            per_second(outcome.simulated.as_ns()),
            outcome.wall_seconds,
        );
    }
    text::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
