// SPDX-License-Identifier: Apache-2.0
//! `ipnuma wait`: what it costs to wait for messages, and what latency that pays.

use std::path::PathBuf;
use std::process::ExitCode;

use rack::faults::Faults;
use rack::topology::{NicOptions, Pair};
use rack::waiting::Costs;
use rack::{Error, Picoseconds, Topology};
use report::waiting::{Report, Sweep, Way, measure, plot, show};
use serde::Serialize;

use crate::{Failure, FormatArgument, RateArgument, given, output};

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One host stores numbers to the memory of another at intervals of half to one and a half of their mean; the other waits for
each as ipn_wait does on a board. Its NIC and the sender's are RTL, time is simulated: the same arguments print the same.

  ipnuma wait
  ipnuma wait --per-second 1000 --by interrupt --messages 1000
  ipnuma wait --cost interrupt_ns=1000,wake_ns=1200 --moderation-us 0
  ipnuma wait --plot plots")]
pub struct Arguments {
    /// Messages a second
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000, 100_000])]
    per_second: Vec<u64>,
    /// How the program waits
    #[arg(long, value_delimiter = ',', default_value = "poll,interrupt,adaptive")]
    by: Vec<Way>,
    /// Messages of each run
    #[arg(long, default_value_t = 200)]
    messages: u64,
    /// Microseconds that the adaptive way looks before it sleeps; those of IPNUMA_SPIN_US if it is not set
    #[arg(long, default_value_t = 50)]
    spin_us: u64,
    /// Microseconds from one interrupt to the next at least: register MSI_MODERATION_US, as the driver sets it
    #[arg(long, default_value_t = 5)]
    moderation_us: u16,
    /// What the kernel takes in place of what was measured: interrupt_ns, wake_ns, call_ns
    #[arg(long, value_name = "NAME=NS", value_delimiter = ',')]
    cost: Vec<String>,
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// Metres of cable
    #[arg(long, visible_alias = "metres", default_value_t = 1.0)]
    cable_m: f64,
    /// Constants of hosts and PHYs: keio-2016, modern, keio-2016-fitted, or a .toml file
    #[arg(long, default_value = "keio-2016")]
    platform: String,
    /// Packet format
    #[arg(long, default_value = "compact")]
    format: FormatArgument,
    /// Draws intervals and clock phases
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seal the session: AES-GCM with keys drawn by the seed
    #[arg(long)]
    auth: bool,
    /// Simulate idle clock cycles too (slower, same result)
    #[arg(long)]
    no_skip: bool,
    /// Write load against latency as waiting.svg into this directory
    #[arg(long, value_name = "DIRECTORY")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Messages a second at most: an interval is longer than the bus takes for a store.
const MOST_PER_SECOND: u64 = 1_000_000;
/// Messages of a run at most.
const MOST_MESSAGES: u64 = 1_000_000;
/// The longest time to look before sleeping, microseconds.
const MOST_SPIN_US: u64 = 1_000_000;

#[derive(Serialize)]
struct Output<'a> {
    description: &'a str,
    waiting: &'a Report,
}

fn costs(settings: &[String]) -> Result<Costs, Error> {
    let mut costs = Costs::published();
    let names: Vec<&str> = settings
        .iter()
        .filter_map(|it| Some(it.split_once('=')?.0))
        .collect();
    given::distinct("--cost", &names)?;
    for setting in settings {
        let parts = setting
            .split_once('=')
            .and_then(|(name, ns)| Some((name, ns.parse().ok()?)));
        let (name, ns) = parts.ok_or_else(|| {
            Error::Config(format!(
                "--cost: `{setting}` is no cost; write NAME=NS, as in wake_ns=1500"
            ))
        })?;
        costs
            .set(name, ns)
            .map_err(|sentence| Error::Config(format!("--cost: {sentence}")))?;
    }
    Ok(costs)
}

fn between(option: &str, value: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "{option}: {value} is too little or too much; write {least} to {most}"
    )))
}

fn sweep(arguments: &Arguments) -> Result<Sweep, Error> {
    for rate in &arguments.per_second {
        between("--per-second", *rate, 1, MOST_PER_SECOND)?;
    }
    between("--messages", arguments.messages, 1, MOST_MESSAGES)?;
    between("--spin-us", arguments.spin_us, 0, MOST_SPIN_US)?;
    given::distinct("--per-second", &arguments.per_second)?;
    given::distinct("--by", &arguments.by)?;
    given::directory("--plot", arguments.plot.as_ref())?;
    let topology = Topology::pair(Pair {
        platform: arguments.platform.clone(),
        seed: arguments.seed,
        rate: arguments.rate.into(),
        format: arguments.format.into(),
        metres: arguments.cable_m,
        // The programs are the command's own.
        bytes: 8,
        loops: 1,
        warmup: 0,
        nic: NicOptions {
            reliable: true,
            auth: arguments.auth,
            merge: false,
        },
        faults: Faults::default(),
    });
    Ok(Sweep {
        topology: topology.checked()?,
        per_second: arguments.per_second.clone(),
        ways: arguments.by.clone(),
        messages: arguments.messages,
        spin: Picoseconds::from_us(arguments.spin_us),
        moderation_us: arguments.moderation_us,
        costs: costs(&arguments.cost)?,
        skip_idle: !arguments.no_skip,
    })
}

fn describe(arguments: &Arguments) -> String {
    format!(
        "{} messages of 8 bytes each time, one way, {}, {} m, {}, {}; {} us from interrupt to interrupt at least, adaptive: \
         {} us of looking; seed {}",
        arguments.messages,
        arguments.rate.name(),
        arguments.cable_m,
        arguments.format.name(),
        arguments.platform,
        arguments.moderation_us,
        arguments.spin_us,
        arguments.seed
    )
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let report = measure(&sweep(arguments)?)?;
    let description = describe(arguments);
    if let Some(directory) = &arguments.plot {
        std::fs::create_dir_all(directory).map_err(|error| Error::Output {
            path: directory.display().to_string(),
            reason: error.to_string(),
        })?;
        plot(&report, directory)?;
    }
    let out = if arguments.json {
        let output = Output {
            description: &description,
            waiting: &report,
        };
        output::json("wait", &output)
    } else {
        show(&description, &report)
    };
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
