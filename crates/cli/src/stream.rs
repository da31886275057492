// SPDX-License-Identifier: Apache-2.0
//! `ipnuma stream`: hosts store to one host as fast as they can.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use rack::topology::{Fan, MOST_SENDERS};
use rack::{Error, Topology};
use report::stream::{Report, describe, measure, show};
use serde::Serialize;

use crate::{FormatArgument, RateArgument, network, output};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Hosts that send; with more than one there is a switch
    #[arg(long, default_value_t = 1)]
    senders: usize,
    /// Bytes of a store: 4 to 64, a multiple of 4
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Stores of each sender [default: 10000; with --short 1000]
    #[arg(long)]
    stores: Option<u64>,
    /// Gb/s of data that each sender offers [default: as fast as its bus lets it]
    #[arg(long, value_name = "GBPS")]
    offer: Option<f64>,
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// A switch even for one sender
    #[arg(long)]
    switch: bool,
    /// Metres of each cable [default: 1; with a switch 10]
    #[arg(long, visible_alias = "metres")]
    cable_m: Option<f64>,
    /// Constants of hosts and PHYs: keio-2016, modern, keio-2016-fitted, or a .toml file
    #[arg(long, default_value = "keio-2016")]
    platform: String,
    /// Packet format
    #[arg(long, default_value = "compact")]
    format: FormatArgument,
    /// Draws clock phases, faults and keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    network: network::Arguments,
    /// Each store in a frame of its own
    #[arg(long)]
    no_merge: bool,
    /// Set a register of every NIC, by its name in docs/registers.md: --register PACE=0
    #[arg(long, value_name = "NAME=VALUE")]
    register: Vec<String>,
    /// Also run without faults and sessions, through a switch with queues without end, and compare
    #[arg(long)]
    ideal: bool,
    /// Few stores
    #[arg(long, conflicts_with = "stores")]
    short: bool,
    /// A tree of 2 to 4 switches with 8 to 16 hosts, drawn by this number, all of which store to one (10G only)
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["senders", "switch"])]
    tree: Option<u64>,
    /// Take hosts, NICs, switches, cables and program from a topology file
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["senders", "size", "stores", "offer", "rate", "switch", "cable_m", "platform", "format", "seed", "no_merge",
         "register", "short", "tree"])]
    topology: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Stores of each sender.
const STORES: u64 = 10_000;
/// The same with --short.
const SHORT_STORES: u64 = 1_000;
/// Each cable of a rack with a switch: 20 m from host to host, as section 6.6 has it.
const METRES_IN_RACK: f64 = 10.0;

#[derive(Debug, Serialize)]
struct Output<'a> {
    description: &'a str,
    stream: &'a Report,
    ideal: Option<&'a Report>,
    /// Goodput beside that of the ideal run.
    share_of_ideal: Option<f64>,
}

/// Reads `NAME=VALUE`.
fn registers(settings: &[String]) -> Result<BTreeMap<String, u32>, Error> {
    let parse = |setting: &String| {
        let (name, value) = setting.split_once('=')?;
        let value = match value.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => value.parse().ok()?,
        };
        Some((name.to_owned(), value))
    };
    let mut registers = BTreeMap::new();
    for setting in settings {
        let (name, value) = parse(setting).ok_or_else(|| {
            Error::Config(format!(
                "--register: `{setting}` is no setting; write NAME=VALUE, as in PACE=0x100"
            ))
        })?;
        if registers.insert(name.clone(), value).is_some() {
            let sentence = format!("--register: `{name}` is set twice; leave one out");
            return Err(Error::Config(sentence));
        }
    }
    Ok(registers)
}

fn topology(arguments: &Arguments) -> Result<Topology, Error> {
    if let Some(path) = &arguments.topology {
        let mut topology = Topology::load(path)?;
        arguments.network.apply(&mut topology)?;
        return Ok(topology);
    }
    let stores = arguments.stores.unwrap_or(if arguments.short {
        SHORT_STORES
    } else {
        STORES
    });
    rack::topology::check_stream(arguments.size, stores, arguments.offer).map_err(|sentence| {
        let sentence = sentence.replacen("bytes:", "size:", 1);
        Error::Config(format!("--{}", sentence.replacen("rate:", "offer:", 1)))
    })?;
    if !(1..=MOST_SENDERS).contains(&arguments.senders) {
        return Err(Error::Config(format!(
            "--senders: {} are too few or too many; write 1 to {MOST_SENDERS}",
            arguments.senders
        )));
    }
    let switched = arguments.switch || arguments.tree.is_some() || arguments.senders > 1;
    let metres = if switched { METRES_IN_RACK } else { 1.0 };
    let fan = Fan {
        platform: arguments.platform.clone(),
        seed: arguments.seed,
        rate: arguments.rate.into(),
        format: arguments.format.into(),
        senders: arguments.senders,
        switch: arguments.switch,
        metres: arguments.cable_m.unwrap_or(metres),
        bytes: arguments.size,
        stores,
        rate_gbps: arguments.offer,
        nic: arguments.network.nic(!arguments.no_merge),
        faults: arguments.network.faults()?,
    };
    let mut topology = match arguments.tree {
        Some(seed) => Topology::tree(fan, seed),
        None => Topology::fan(fan),
    };
    topology.register = registers(&arguments.register)?;
    topology.checked()
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let topology = topology(arguments)?;
    let (outcome, report) = measure(&topology)?;
    let ideal = match arguments.ideal {
        true => Some(measure(&topology.ideal())?.1),
        false => None,
    };
    let description = describe(&topology);
    let share = ideal
        .as_ref()
        .map(|ideal| report.goodput.total_gbps / ideal.goodput.total_gbps);
    let out = if arguments.json {
        let output = Output {
            description: &description,
            stream: &report,
            ideal: ideal.as_ref(),
            share_of_ideal: share,
        };
        output::json("stream", &output)
    } else {
        show(&description, &report, ideal.as_ref(), share, &outcome)
    };
    output::print(&out)?;
    // In sessions every store arrives, once and in order, or the application is told.
    let broken = report.wrong > 0 || (outcome.stream.reliable && report.missing > 0);
    if broken {
        eprintln!(
            "error: {} stores are missing, {} writes were wrong, and {} peers were reported lost",
            report.missing, report.wrong, report.peers_lost
        );
    }
    Ok(ExitCode::from(u8::from(broken)))
}
