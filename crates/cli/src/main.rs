// SPDX-License-Identifier: Apache-2.0
//! The `ipnuma` command: the virtual rack from the command line, and the programs of this machine over IP-NUMA.

#![forbid(unsafe_code)]

mod bench;
mod completions;
mod daemon;
mod doctor;
mod echo;
mod given;
mod guests;
mod host;
mod interrupted;
mod key;
mod latency;
mod live;
mod mcb;
mod memcached;
mod network;
mod offload;
mod output;
mod paper;
mod pingpong;
mod platform;
mod progress;
mod regions;
mod rfc2544;
mod routing;
mod run;
mod schema;
mod sockets;
mod stream;
mod wait;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum};
use rack::topology::{Format, Rate};

/// The commands by who uses them, one example each.
const HELP: &str = "\
{about}

{usage-heading} {usage}

System engineers: machines, NICs and switches on a virtual rack
  pingpong     Ping-pong between two hosts, with the one-way time taken apart
                 ipnuma pingpong --rate 10g --cable-m 5
  stream       Hosts store to one host as fast as they can: goodput, fairness, latency
                 ipnuma stream --senders 8 --ideal
  wait         A host waits for messages: processor load against latency, polling and by interrupts
                 ipnuma wait --per-second 1000,10000
  rack         Runs a topology of whole Linux machines, their NICs and switches
                 ipnuma rack experiments/topologies/uml-curl.toml
  memcached    Chapter 6: memcached in Linux hosts, over sockets or IP-NUMA
                 ipnuma memcached --place rack --length 16
  paper        Runs the experiments and sets the results beside the dissertation's figures
                 ipnuma paper --brief --html report.html
  schema       Prints what a topology file may say, as a JSON schema
                 ipnuma schema topology

Application developers: programs of this machine over IP-NUMA
  run          Runs a program whose sockets go over IP-NUMA where the other end's do, too
                 ipnuma run --own-daemon -- PROGRAM
  doctor       Says whether a program can run so, and what stops it
                 ipnuma doctor memcached
  daemon       Serves the programs of this machine that use IP-NUMA
                 ipnuma daemon --background
  sockets      The accelerated connections of this machine
                 ipnuma sockets --watch
  regions      The memory of this machine that others may use
                 ipnuma regions --json
  echo         Round trips of a few bytes, timed, over ordinary sockets
                 ipnuma echo 192.0.2.1:7000
  key          This machine's key, and those of other machines whose daemons are trusted
                 ipnuma key trust 10.0.0.2 FINGERPRINT
  mcb          Times memcached's commands one by one, over ordinary sockets
                 ipnuma mcb -a 127.0.0.1 -c get -n 1000

Network engineers: the switch
  rfc2544      The tests of RFC 2544: throughput, latency, loss, bursts, routes, congestion
                 ipnuma rfc2544 --short --plot plots
  switch       The switch in RTL between TAP devices, for real programs
                 ipnuma switch --help
  fibd         Keeps a switch's tables equal to what the kernel and its routing daemons decide
                 ipnuma fibd run --port sw0 --port sw1

FPGA engineers: the RTL and what is assumed around it
  nic-latency  Latency of two NICs back to back, in all clock phases
                 ipnuma nic-latency
  offload      The parallel TCP offload engine as a model: every policy beside the document's figures
                 ipnuma offload --short --plot plots
  platform     Shows the constants of a platform and where they come from
                 ipnuma platform keio-2016

Developers of this project
  bench        Speed of the simulation
                 ipnuma bench --gets 0

For your shell and your man pages
  completions  Prints what a shell needs to complete commands and options
                 ipnuma completions bash
  man          Writes man pages, one for each command
                 ipnuma man ~/.local/share/man/man1

Options:
{options}
  ipnuma COMMAND --help says all about a command
";

/// IP-NUMA on a virtual rack: RTL network cards, modelled hosts, simulated time.
#[derive(Debug, Parser)]
#[command(name = "ipnuma", version, about, max_term_width = 100, help_template = HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ping-pong between two hosts, with the one-way time taken apart.
    Pingpong(pingpong::Arguments),
    /// Hosts store to one host as fast as they can: goodput, fairness, latency, what is sent again.
    Stream(stream::Arguments),
    /// A host waits for messages: load of its processor against latency, polling and by interrupts.
    Wait(wait::Arguments),
    /// Runs a topology of whole Linux machines, their NICs and switches.
    Rack(guests::Arguments),
    /// Runs the experiments and sets the results beside the dissertation's figures.
    Paper(paper::Arguments),
    /// Latency of two NICs back to back, in all clock phases.
    NicLatency(latency::Arguments),
    /// The tests of RFC 2544 on the switch: throughput, latency, loss, bursts, routes, congestion.
    Rfc2544(rfc2544::Arguments),
    /// The switch in RTL between TAP devices, for real programs: functional, its timing says nothing.
    Switch(live::Arguments),
    /// Keeps a switch's tables equal to what the kernel and its routing daemons decide.
    Fibd(fibd::command::Arguments),
    /// Serves the programs of this machine that use IP-NUMA.
    Daemon(daemon::Arguments),
    /// Runs a program whose sockets go over IP-NUMA where the other end's do, too.
    Run(run::Arguments),
    /// Says whether a program's sockets can go over IP-NUMA, and what stops them; checks policy files.
    Doctor(doctor::Arguments),
    /// The accelerated connections of this machine.
    Sockets(sockets::Arguments),
    /// The memory of this machine that others may use.
    Regions(regions::Arguments),
    /// Shows this machine's key, and trusts those of other machines.
    Key(key::Arguments),
    /// Chapter 6: memcached in Linux hosts, over sockets or IP-NUMA, through switches or none.
    Memcached(memcached::Arguments),
    /// Round trips of a few bytes, timed, over ordinary sockets.
    Echo(echo::Arguments),
    /// Times memcached's commands one by one, over ordinary sockets.
    Mcb(mcb::Arguments),
    /// Speed of the simulation.
    Bench(bench::Arguments),
    /// The parallel TCP offload engine as a model, in virtual time: every policy beside the document's figures.
    Offload(offload::Arguments),
    /// Shows the constants of a platform and where they come from.
    Platform(platform::Arguments),
    /// Prints what a topology file may say, as a JSON schema.
    Schema(schema::Arguments),
    /// Prints what a shell needs to complete commands and options.
    Completions(completions::Completions),
    /// Writes man pages, one for each command.
    Man(completions::Man),
}

/// Line rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
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
    /// Of a report.
    Report(#[from] report::Failure),
    /// Of the daemon and what it serves.
    Host(#[from] host::Error),
    /// Of the client of memcached.
    Mcb(#[from] mcb::Failure),
    /// Of round trips.
    Echo(#[from] echo::Failure),
    /// Of the agent that keeps a switch's tables.
    Fibd(#[from] fibd::command::Error),
}

impl Failure {
    /// Whether the user's input is at fault.
    const fn is_usage(&self) -> bool {
        match self {
            Self::Rack(error) => error.is_usage(),
            Self::Report(error) => error.is_usage(),
            Self::Host(error) => error.is_usage(),
            Self::Mcb(error) => error.is_usage(),
            Self::Echo(error) => error.is_usage(),
            Self::Fibd(error) => error.is_usage(),
        }
    }
}

/// Exit status for wrong input, as clap has it.
const USAGE: u8 = 2;

/// Help and versions are printed as clap has them; what is wrong is said in one line.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            match output::flushed(error.print()) {
                Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE)),
                Err(error) => {
                    eprintln!("error: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => {
            let words: Vec<_> = std::env::args_os().skip(1).collect();
            eprintln!("error: {}", input::command_line::sentence(error, &words));
            ExitCode::from(USAGE)
        }
    }
}

impl Command {
    /// Whether it may run Linux machines.
    const fn has_guests(&self) -> bool {
        matches!(
            self,
            Self::Rack(_) | Self::Paper(_) | Self::Memcached(_) | Self::Echo(_)
        )
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    if arguments.command.has_guests() {
        interrupted::tidies_up();
    }
    let result = match arguments.command {
        Command::Pingpong(arguments) => pingpong::run(&arguments).map_err(Failure::from),
        Command::Stream(arguments) => stream::run(&arguments).map_err(Failure::from),
        Command::Wait(arguments) => wait::run(&arguments),
        Command::Rack(arguments) => guests::run(&arguments).map_err(Failure::from),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::NicLatency(arguments) => latency::run(&arguments).map_err(Failure::from),
        Command::Rfc2544(arguments) => rfc2544::run(&arguments),
        Command::Switch(arguments) => live::run(&arguments).map_err(Failure::from),
        Command::Fibd(arguments) => fibd::command::run(&arguments).map_err(Failure::from),
        Command::Daemon(arguments) => daemon::run(&arguments).map_err(Failure::from),
        Command::Run(arguments) => run::run(&arguments).map_err(Failure::from),
        Command::Doctor(arguments) => doctor::run(&arguments).map_err(Failure::from),
        Command::Sockets(arguments) => sockets::run(&arguments).map_err(Failure::from),
        Command::Regions(arguments) => regions::run(&arguments).map_err(Failure::from),
        Command::Key(arguments) => key::run(&arguments).map_err(Failure::from),
        Command::Memcached(arguments) => memcached::run(&arguments),
        Command::Echo(arguments) => echo::run(&arguments).map_err(Failure::from),
        Command::Mcb(arguments) => mcb::run(&arguments).map_err(Failure::from),
        Command::Bench(arguments) => bench::run(&arguments).map_err(Failure::from),
        Command::Offload(arguments) => offload::run(&arguments),
        Command::Platform(arguments) => platform::run(&arguments).map_err(Failure::from),
        Command::Schema(arguments) => schema::run(&arguments).map_err(Failure::from),
        Command::Completions(arguments) => {
            completions::completions(&arguments).map_err(Failure::from)
        }
        Command::Man(arguments) => completions::man(&arguments).map_err(Failure::from),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            if error.is_usage() {
                let sentence = input::one_line(error.to_string().trim());
                eprintln!("error: {}", input::own_words(&sentence));
                return ExitCode::from(USAGE);
            }
            match error {
                // They have the output of tools and of guests.
                Failure::Rack(_) | Failure::Report(_) => eprintln!("error: {error}"),
                _ => eprintln!("error: {}", input::one_line(error.to_string().trim())),
            }
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_help_has_every_command_once_with_an_example() {
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            let is = |line: &&str| {
                line.strip_prefix("  ")
                    .is_some_and(|line| line.split(' ').next() == Some(name))
            };
            assert_eq!(HELP.lines().filter(is).count(), 1, "{name}");
            assert!(
                HELP.contains(&format!("      ipnuma {name}")),
                "{name} has no example"
            );
        }
    }
}
