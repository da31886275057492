// SPDX-License-Identifier: Apache-2.0
//! `ipnuma memcached`: chapter 6 of the dissertation.

use std::path::PathBuf;
use std::process::ExitCode;

use ::mcb::{Command, Transport, check_values};
use clap::builder::ArgPredicate;
use rack::Error;
use rack::cpu::CpuSpec;
use report::memcached::{
    Asked, Batch, LENGTHS, Library, Load, LoadRow, Nic, Path, Place, Row, Setup, SwitchKind,
    measure, set_cost, show, show_loads, stages, take_apart,
};

use crate::{Failure, RateArgument, given, output};

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs every combination of the lists. The hosts are whole Linux machines on simulated time, and need the kernel that
tools/uml-kernel builds once, in some minutes. Times are simulated: the same arguments give the same times and hashes.

  ipnuma memcached
  ipnuma memcached --place rack --command set,get,add --length 16 --count 1000
  ipnuma memcached --place racks --transport socket --switch fibnic --loss 0.01 --protocol tcp
  ipnuma memcached --place rack --cost application_ns=5000,kernel_send_ns=1000
  ipnuma memcached --place rack --switch fibnic --library charged --cost library_poll_ns=0,library_recv_ns=120
  ipnuma memcached --place rack --transport ipnuma --switch fibnic --rate 10g --seal
  ipnuma memcached --clients 1,2,4,8 --transport ipnuma --switch fibnic
  ipnuma memcached --clients 2 --threads 1,4 --rate 10g
  ipnuma memcached --place rack --transport ipnuma --switch fibnic --print-topology")]
pub struct Arguments {
    /// Commands that are timed
    #[arg(long, value_delimiter = ',', default_value = "get")]
    command: Vec<Command>,
    /// Bytes of a value
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = LENGTHS,
        default_value_ifs = [("clients", ArgPredicate::IsPresent, Some("16")), ("threads", ArgPredicate::IsPresent, Some("16"))]
    )]
    length: Vec<usize>,
    /// Where client and server are
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "direct,rack,racks",
        default_value_ifs = [("clients", ArgPredicate::IsPresent, Some("rack")), ("threads", ArgPredicate::IsPresent, Some("rack"))]
    )]
    place: Vec<Place>,
    /// Hosts that ask one memcached at once, in the rack: rate and times of commands under load, of 16 bytes unless told otherwise
    #[arg(long, value_delimiter = ',')]
    clients: Vec<usize>,
    /// Threads of each client, the same way
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// What carries the commands
    #[arg(long, value_delimiter = ',', default_value = "socket,ipnuma")]
    transport: Vec<Path>,
    /// Switches in the rack and between racks
    #[arg(long, value_delimiter = ',', default_value = "ax3630s,fibnic")]
    switch: Vec<SwitchKind>,
    /// What the socket library's calls cost, of IP-NUMA
    #[arg(long, value_delimiter = ',', default_value = "free,charged")]
    library: Vec<Library>,
    /// Line rate
    #[arg(long, default_value = "1g")]
    rate: RateArgument,
    /// Commands of each kind and length; with --clients or --threads, of each thread
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// How commands travel
    #[arg(long, default_value = "udp")]
    protocol: Transport,
    /// NIC of the sockets
    #[arg(long, default_value = "ring")]
    nic: Nic,
    /// Of IP-NUMA: the daemons have keys, and sessions are sealed; otherwise all is in clear, as in the dissertation
    #[arg(long)]
    seal: bool,
    /// Probability that a cable loses a frame
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// A CPU cost in place of the published one
    #[arg(long, value_name = "NAME=NS", value_delimiter = ',', value_parser = cost)]
    cost: Vec<(String, u64)>,
    /// Draws the phases of the clocks, and what is lost
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep what the hosts leave behind, consoles among it, in this directory
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// Print the topologies and run nothing
    #[arg(long)]
    print_topology: bool,
    /// Take one GET of 16 bytes of each arrangement apart, in clear and without loss, with the published costs
    #[arg(
        long,
        conflicts_with_all = ["print_topology", "clients", "threads", "seal", "cost", "loss", "nic", "seed", "keep", "json"]
    )]
    stages: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Commands of a kind and length at most: a guest takes seconds for some thousands.
const MOST_COUNT: u64 = 1_000_000;
/// How keys begin, which the lengths of values do not depend on.
const PREFIX: &str = "b0";

/// A CPU cost of `--cost`.
fn cost(text: &str) -> Result<(String, u64), String> {
    let parts = text
        .split_once('=')
        .and_then(|(name, ns)| Some((name, ns.parse().ok()?)));
    let (name, ns) = parts.ok_or("write NAME=NS, as in application_ns=1167")?;
    set_cost(&mut CpuSpec::default(), name, ns)?;
    Ok((name.to_owned(), ns))
}

fn batch(arguments: &Arguments) -> Result<Batch, Error> {
    if !(0.0..1.0).contains(&arguments.loss) {
        let sentence = format!(
            "--loss: {} is no probability; write 0 to 0.99",
            arguments.loss
        );
        return Err(Error::Config(sentence));
    }
    if !(1..=MOST_COUNT).contains(&arguments.count) {
        return Err(Error::Config(format!(
            "--count: {} commands are too few or too many; write 1 to {MOST_COUNT}",
            arguments.count
        )));
    }
    given::directory("--keep", arguments.keep.as_ref())?;
    given::distinct("--command", &arguments.command)?;
    given::distinct("--length", &arguments.length)?;
    given::distinct("--place", &arguments.place)?;
    given::distinct("--transport", &arguments.transport)?;
    given::distinct("--switch", &arguments.switch)?;
    given::distinct("--library", &arguments.library)?;
    given::distinct("--clients", &arguments.clients)?;
    given::distinct("--threads", &arguments.threads)?;
    for length in &arguments.length {
        check_values(PREFIX, *length, arguments.protocol).map_err(Error::Config)?;
    }
    let mut costs = CpuSpec::default();
    for (name, ns) in &arguments.cost {
        set_cost(&mut costs, name, *ns).map_err(Error::Config)?;
    }
    let commands = arguments.command.iter();
    let commands =
        commands.flat_map(|command| arguments.length.iter().map(|length| (*command, *length)));
    Ok(Batch {
        commands: commands.collect(),
        count: arguments.count,
        protocol: arguments.protocol,
        nic: arguments.nic,
        seal: arguments.seal,
        loss: arguments.loss,
        costs,
        seed: arguments.seed,
        keep: arguments.keep.clone(),
        ..Batch::all()
    })
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let batch = batch(arguments)?;
    let rate = arguments.rate.into();
    let setups = Setup::all(
        &arguments.place,
        &arguments.transport,
        &arguments.switch,
        &arguments.library,
        rate,
    );
    if !arguments.clients.is_empty() || !arguments.threads.is_empty() {
        return run_loads(arguments, &batch, &setups);
    }
    if arguments.print_topology {
        for setup in setups {
            output::print(&setup.file(&batch)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.stages {
        for setup in setups {
            if let Some(waterfall) = take_apart(setup, arguments.protocol)? {
                output::print(&stages(&waterfall))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for setup in setups {
        rows.push(Row::new(setup, measure(setup, &batch)?));
    }
    let out = if arguments.json {
        output::json("memcached", &serde_json::json!({ "rows": rows }))
    } else {
        show(&asked(arguments), &rows)
    };
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn asked(arguments: &Arguments) -> Asked {
    Asked {
        commands: arguments.command.clone(),
        lengths: arguments.length.clone(),
        rate: arguments.rate.into(),
        count: arguments.count,
        protocol: arguments.protocol,
        seal: arguments.seal,
    }
}

/// Several clients, or several threads: each command and length in a run of its own.
fn run_loads(arguments: &Arguments, batch: &Batch, setups: &[Setup]) -> Result<ExitCode, Failure> {
    if batch.seal {
        let sentence = "--seal: requests of several clients are told apart by what their frames carry in clear; leave it out";
        return Err(Error::Config(sentence.to_owned()).into());
    }
    let or_one = |given: &[usize]| {
        if given.is_empty() {
            vec![1]
        } else {
            given.to_vec()
        }
    };
    let threads = or_one(&arguments.threads);
    let mut loads = Vec::new();
    for setup in setups {
        for clients in or_one(&arguments.clients) {
            loads.extend(threads.iter().map(|threads| Load {
                setup: *setup,
                clients,
                threads: *threads,
            }));
        }
    }
    for load in &loads {
        load.check().map_err(Error::Config)?;
    }
    let mut rows = Vec::new();
    for command in &batch.commands {
        let batch = Batch {
            commands: vec![*command],
            ..batch.clone()
        };
        for load in &loads {
            if arguments.print_topology {
                output::print(&load.file(&batch)?)?;
            } else {
                rows.push(LoadRow::new(*load, *command, load.measure(&batch)?));
            }
        }
    }
    if !arguments.print_topology {
        output::print(&if arguments.json {
            output::json("memcached", &serde_json::json!({ "rows": rows }))
        } else {
            show_loads(&asked(arguments), &rows)
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
