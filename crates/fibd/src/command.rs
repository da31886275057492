// SPDX-License-Identifier: Apache-2.0
//! The command line, for the program of this crate and for `ipnuma fibd`.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use fib::police::Police;
use thiserror::Error;

use crate::audit::{Plan, Report};
use crate::control::{self, Reply, Request, Status};
use crate::daemon::{Daemon, Failure, Options};
use crate::device::Device;
use crate::notice;
use crate::sink;
use crate::state::Config;

/// Options.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follows the kernel of this network namespace and keeps the tables of a switch equal to it
    Run(Run),
    /// Says how a running fibd is: ports, routes, memories, counters
    Status(Show),
    /// Compares kernel, fibd, image of the tables and the switch's memories; exit status 1 if they differ
    Audit(AuditArguments),
    /// Has a running fibd dump the kernel's routes anew
    Resync(Place),
}

#[derive(Debug, Args)]
struct Place {
    /// The control socket
    #[arg(long, value_name = "PATH", default_value = "/run/fibd.sock")]
    control: PathBuf,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    place: Place,
    /// The device of the next port of the switch
    #[arg(long = "port", value_name = "DEVICE", required = true)]
    ports: Vec<String>,
    /// The switch: a device with its registers. Without it the tables are kept in memory only
    #[arg(long, value_name = "FILE")]
    switch: Option<PathBuf>,
    /// The table to follow, beside the one of local addresses
    #[arg(long, default_value_t = 254)]
    table: u32,
    /// Listens here for FRR's FPM; its routes are then not taken from the kernel
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:2620")]
    fpm: Option<SocketAddr>,
    /// Seconds that routes stay which a daemon that came back by FPM has not told again
    /// (60), 5 at least
    #[arg(long, value_name = "SECONDS")]
    fpm_hold: Option<u64>,
    /// Bytes of the buffer for the kernel's messages
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    buffer: usize,
    /// Frames of each port of the switch that may reach this host, a second, and at once (10000:1024); or off
    #[arg(long, value_name = "FRAMES[:BURST]", requires = "switch")]
    host_rate: Option<String>,
    /// Does not ask the kernel to keep next hops' MAC addresses known
    #[arg(long)]
    unmanaged: bool,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    place: Place,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct AuditArguments {
    #[command(flatten)]
    show: Show,
    /// Random addresses to look up, beside three of each prefix; 10 million at most
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    random: u32,
    /// Addresses for which the kernel itself is asked; a million at most
    #[arg(long, value_name = "N", default_value_t = 2000)]
    ask: u32,
    /// Seed of the random addresses
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What ends a command.
#[derive(Debug, Error)]
pub enum Error {
    /// Of the agent.
    #[error(transparent)]
    Daemon(#[from] Failure),
    /// Of the way to it.
    #[error("{0}")]
    Control(#[from] io::Error),
    /// Of the output.
    #[error("cannot write the standard output: {0}; make room where it goes, or send it elsewhere")]
    Output(io::Error),
    /// What it answered.
    #[error("fibd refuses: {0}")]
    Refused(String),
    /// Of the arguments.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Whether the user's input is at fault.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// Prints; a reader that went away is no error.
fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Ports of a switch, at most.
const MOST_PORTS: usize = 16;

/// Bytes of the buffer for the kernel's messages: room for one of them, and what the kernel counts them with.
const BUFFERS: std::ops::RangeInclusive<usize> = 4_096..=1 << 30;
/// Characters of a device's name, at most.
const LONGEST_NAME: usize = 15;

/// That a name of at most so many characters can be a device's of Linux.
///
/// # Errors
/// The remedy.
pub fn device(name: &str, most: usize) -> Result<(), String> {
    let allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
    let good = name.bytes().all(allowed) && !matches!(name, "." | "..");
    if good && (1..=most).contains(&name.len()) {
        return Ok(());
    }
    Err(format!(
        "write 1 to {most} letters, digits and signs without blanks, `/`, `:` and `%`"
    ))
}

/// Seconds that a daemon that came back by FPM has to tell an old route again; and the fewest that can be asked for.
const HOLD: u64 = 60;
const SHORTEST_HOLD: u64 = 5;

fn check(arguments: &Run) -> Result<(), String> {
    for (at, name) in arguments.ports.iter().enumerate() {
        device(name, LONGEST_NAME).map_err(|remedy| {
            let name = name.escape_debug();
            format!("--port: `{name}` is no name of a device; {remedy}")
        })?;
        if arguments.ports[..at].contains(name) {
            return Err(format!("--port: `{name}` is there twice; leave one out"));
        }
    }
    if arguments.table == 0 {
        return Err("--table: the kernel has no table 0; write 1 to 4294967295".to_owned());
    }
    if let Some(hold) = arguments.fpm_hold {
        if arguments.fpm.is_none() {
            let text = "--fpm-hold: it is of no use without --fpm; add that, or leave it out";
            return Err(text.to_owned());
        }
        if hold < SHORTEST_HOLD {
            return Err(format!(
                "--fpm-hold: {hold} seconds are too few; write {SHORTEST_HOLD} or more"
            ));
        }
    }
    if !BUFFERS.contains(&arguments.buffer) {
        return Err(format!(
            "--buffer: {} bytes are too few or too many; write {} to {}",
            arguments.buffer,
            BUFFERS.start(),
            BUFFERS.end()
        ));
    }
    Ok(())
}

fn police(arguments: &Run) -> Result<Police, Error> {
    let Some(text) = &arguments.host_rate else {
        return Ok(Police::default());
    };
    let police = text.parse::<Police>();
    police.map_err(|error| Error::Usage(format!("--host-rate: {error}")))
}

fn run_daemon(arguments: &Run) -> Result<ExitCode, Error> {
    check(arguments).map_err(Error::Usage)?;
    let police = police(arguments)?;
    if arguments.ports.len() > MOST_PORTS {
        let text = format!("--port: a switch has {MOST_PORTS} ports; give at most as many");
        return Err(Error::Usage(text));
    }
    let mut config = fib::Config::default();
    let mut device = None;
    if let Some(path) = &arguments.switch {
        let opened = Device::open(path)?;
        if arguments.ports.len() > opened.ports() as usize {
            let text = format!(
                "--port: the switch has {} ports; give at most as many",
                opened.ports()
            );
            return Err(Error::Usage(text));
        }
        config = opened.config()?;
        device = Some(opened);
    }
    let options = Options {
        state: Config {
            ports: arguments.ports.clone(),
            table: arguments.table,
            fpm: arguments.fpm.is_some(),
        },
        fib: config,
        buffer: arguments.buffer,
        control: arguments.place.control.clone(),
        fpm: arguments.fpm,
        hold: Duration::from_secs(arguments.fpm_hold.unwrap_or(HOLD)),
        manage: !arguments.unmanaged,
    };
    let mut daemon = Daemon::start(options, |image| {
        let Some(mut device) = device else {
            return Ok(Box::new(sink::Memory::like(image)));
        };
        device.reset(image.cleared(), &arguments.ports, police)?;
        Ok(Box::new(device))
    })?;
    // Who started this may wait for the line.
    print("fibd follows the kernel\n")?;
    daemon.run()?;
    Ok(ExitCode::SUCCESS)
}

fn show_status(status: &Status) -> String {
    let mut out = String::new();
    for (number, port) in status.ports.iter().enumerate() {
        let how = match (port.there, port.up, port.carrier) {
            (false, ..) => "not there",
            (_, false, _) => "down",
            (_, _, false) => "no carrier",
            _ => "up",
        };
        let _ = writeln!(out, "port {number:<2} {:<16} {how}", port.name);
    }
    for (forwards, family, setting) in [
        (status.forwards4, "IPv4", "net.ipv4.ip_forward"),
        (status.forwards6, "IPv6", "net.ipv6.conf.all.forwarding"),
    ] {
        if !forwards {
            let _ = writeln!(
                out,
                "the kernel does not forward {family}, the switch does; set {setting} to 1 if this is a router"
            );
        }
    }
    for (number, port) in status.ports.iter().enumerate() {
        if status.forwards4 && port.there && !port.forwards4 {
            let _ = writeln!(out, "{}", notice::deaf(number, &port.name));
        }
    }
    if status.rules > 0 {
        let _ = writeln!(
            out,
            "{} policy rules are not followed; the switch forwards as if there were none",
            status.rules
        );
    }
    let _ = writeln!(
        out,
        "{} prefixes with a route; in the tables {} of IPv4, {} of IPv6",
        status.prefixes, status.routes4, status.routes6
    );
    let _ = writeln!(
        out,
        "{} prefixes and {} shed words of the tables go by the host port since the tables are full",
        status.spilled, status.shed
    );
    let _ = writeln!(
        out,
        "{} neighbours, {} next hops, {} next-hop objects, {} paths",
        status.neighbours, status.next_hops, status.objects, status.paths
    );
    let _ = writeln!(
        out,
        "first dump took {} ms; {} MB of memory; FPM {}",
        status.first_ms,
        status.memory / 1_000_000,
        if status.fpm {
            "connected"
        } else {
            "not connected"
        }
    );
    for (name, used, capacity) in &status.memories {
        let _ = writeln!(out, "memory {name:<16} {used:>9} of {capacity:>9} words");
    }
    for (name, value) in &status.counters {
        let _ = writeln!(out, "{name:<24} {value:>12}");
    }
    out
}

fn show_audit(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} prefixes of the kernel, {} addresses looked up, {} asked of the kernel, {} words of the switch; {} prefixes spilled, {} words shed",
        report.prefixes, report.lookups, report.asked, report.words, report.spilled, report.shed
    );
    if report.unasked != 0 {
        let _ = writeln!(
            out,
            "not asked for {} more, since the kernel does not forward IPv6: it looks for routes as a host does",
            report.unasked
        );
    }
    if report.shrunk != 0 {
        let _ = writeln!(
            out,
            "{} prefixes have lost next hops in the kernel that the daemon wants by FPM",
            report.shrunk
        );
    }
    for line in &report.told {
        let _ = writeln!(out, "  {line}");
    }
    match report.differences {
        0 => out += "no difference\n",
        count => {
            let _ = writeln!(out, "{count} differences");
        }
    }
    out
}

fn ask(place: &Place, request: &Request) -> Result<Reply, Error> {
    match control::ask(&place.control, request)? {
        Reply::Error(text) => Err(Error::Refused(text)),
        reply => Ok(reply),
    }
}

/// A result in the shape that all of the project's commands print (docs/json.md).
fn print_json(result: &impl serde::Serialize) -> Result<(), Error> {
    let whole = serde_json::json!({
        "format": 1,
        "command": "fibd",
        "version": env!("CARGO_PKG_VERSION"),
        "result": result,
    });
    let text = serde_json::to_string_pretty(&whole).map_err(io::Error::from)?;
    print(&(text + "\n"))
}

/// Does what the command line says.
///
/// # Errors
/// If it can't be done.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    match &arguments.command {
        Command::Run(arguments) => run_daemon(arguments),
        Command::Status(show) => {
            if let Reply::Status(status) = ask(&show.place, &Request::Status)? {
                match show.json {
                    true => print_json(&status)?,
                    false => print(&show_status(&status))?,
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Audit(AuditArguments {
            show,
            random,
            ask: addresses,
            seed,
        }) => {
            let plan = Plan {
                random: *random,
                ask: *addresses,
                seed: *seed,
            };
            plan.check().map_err(Error::Usage)?;
            let request = Request::Audit {
                random: *random,
                ask: *addresses,
                seed: *seed,
            };
            let Reply::Audit(report) = ask(&show.place, &request)? else {
                return Err(Error::Refused("it answered something else".to_owned()));
            };
            match show.json {
                true => print_json(&report)?,
                false => print(&show_audit(&report))?,
            }
            Ok(if report.differences == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        Command::Resync(place) => {
            ask(place, &Request::Resync)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_that_linux_takes() {
        for name in ["sw", "sw0.1", "a-b_c"] {
            assert!(device(name, 13).is_ok(), "{name}");
        }
        for name in ["", "a b", "a/b", "a%d", "a:1", "..", "fourteen_long_"] {
            assert!(device(name, 13).is_err(), "{name}");
        }
    }
}
