// SPDX-License-Identifier: Apache-2.0
//! `ipnuma daemon`: serves this machine's processes.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddrV4;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use ::daemon::remote::{Network, Transport};
use ::daemon::{Options, Server};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::host::Error;
use crate::output;

/// Options.
// Help texts have what may be left out in brackets.
#[allow(rustdoc::broken_intra_doc_links)]
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The configuration is a TOML file with the names of these options (socket, management, ring_lines, datagram_lines,
trace) and a table [limits]; what the command line says wins. It is the file of --config, $IPNUMA_DAEMON_CONFIG,
~/.config/ipnuma/daemon.toml or /etc/ipnuma/daemon.toml.

Programs find the daemon at its usual place without being told: $XDG_RUNTIME_DIR/ipnuma/daemon.sock,
/run/ipnuma/daemon.sock for root, or else /tmp/ipnuma-UID/daemon.sock.")]
pub struct Arguments {
    /// Its Unix socket [default: $IPNUMA_DAEMON, or the usual place]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serves other machines' daemons, too, at this address; port 3422 is usual
    #[arg(long, value_name = "ADDRESS:PORT")]
    management: Option<SocketAddrV4>,
    /// What carries the stores between machines: udp, xdp:DEVICE[,QUEUE], tap:DEVICE,MAC,ADDRESS or rack:DEVICE[,MAC,ADDRESS/BITS[,GATEWAY_MAC]]
    #[arg(long, value_name = "NIC", requires = "management")]
    nic: Option<Transport>,
    /// Also accelerates sockets to programs on machines in these networks, whose daemons it asks: ADDRESS[/BITS],...
    #[arg(
        long,
        value_name = "NETWORKS",
        requires = "management",
        value_delimiter = ','
    )]
    sockets: Vec<Network>,
    /// Accelerates them by a NIC in software, too, although the kernel is faster; otherwise only where a policy asks for it
    #[arg(long, requires = "sockets")]
    software_sockets: bool,
    /// Believes whoever reaches the management address, and speaks in clear: only for networks that are all yours
    #[arg(long, conflicts_with_all = ["key", "known_peers"])]
    insecure: bool,
    /// Keeps privileges, and may open any file and make any call
    #[arg(long)]
    no_sandbox: bool,
    /// This machine's key [default: where `ipnuma key` makes it]
    #[arg(long, value_name = "FILE", requires = "management")]
    key: Option<PathBuf>,
    /// Keys of other machines [default: where `ipnuma key trust` writes them]
    #[arg(long, value_name = "FILE", requires = "management")]
    known_peers: Option<PathBuf>,
    /// Lines of 64 bytes of each ring of a stream, a power of two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    ring_lines: Option<u32>,
    /// Lines of 64 bytes of a datagram ring, a power of two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    datagram_lines: Option<u32>,
    /// Writes every request and its answer to standard error
    #[arg(long, conflicts_with = "background")]
    trace: bool,
    /// Stays in the foreground, as it does without this option, too
    #[arg(long, conflicts_with = "background")]
    foreground: bool,
    /// Returns when the daemon is ready, and leaves it running
    #[arg(long)]
    background: bool,
    /// Ends once this process has ended and no other is connected
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    follow: Option<u32>,
    /// The socket's directory goes with the daemon
    #[arg(long, hide = true)]
    own_directory: bool,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    if arguments.background {
        let rest = std::env::args_os()
            .skip(1)
            .filter(|argument| argument != "--background");
        let mut command = Command::new(own_program()?);
        // Not waited for: it is to stay.
        let (ready, _) = start(command.args(rest))?;
        print_line(&ready)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = options(arguments)?;
    ::daemon::raise_descriptor_limit();
    if !arguments.no_sandbox {
        ::daemon::sandbox::enter(&options)?;
    }
    let unhandled = |error| Error::Machine(format!("cannot handle signals: {error}"));
    // Memory that is larger than RLIMIT_FSIZE allows, and a log that is, are errors of their own and not the daemon's end.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(unhandled)?;
    let mut server = Server::new(options)?;
    let stopper = server.stopper();
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(unhandled)?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    print_line(&format!("ready at {}", server.socket().display()))?;
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

fn print_line(line: &str) -> Result<(), Error> {
    Ok(output::print(&format!("ipnuma daemon: {line}\n"))?)
}

fn options(arguments: &Arguments) -> Result<Options, Error> {
    let file = arguments.config.clone().or_else(Options::default_file);
    let mut options = match file {
        Some(file) => Options::load(&file)?,
        None => Options::default(),
    };
    if let Some(socket) = &arguments.socket {
        options.socket.clone_from(socket);
    }
    options.management = arguments.management.or(options.management);
    if let Some(nic) = &arguments.nic {
        options.remote.nic = nic.clone();
    }
    if !arguments.sockets.is_empty() {
        options.remote.sockets.clone_from(&arguments.sockets);
    }
    options.remote.software_sockets |= arguments.software_sockets;
    options.remote.insecure |= arguments.insecure;
    if arguments.key.is_some() {
        options.remote.key.clone_from(&arguments.key);
    }
    if arguments.known_peers.is_some() {
        options
            .remote
            .known_peers
            .clone_from(&arguments.known_peers);
    }
    // The daemon's files are found from wherever it is, also where it may open no other.
    let places = [&mut options.remote.key, &mut options.remote.known_peers];
    let places = places.into_iter().flatten().chain([&mut options.socket]);
    for place in places.filter(|place| !place.as_os_str().is_empty()) {
        *place = std::path::absolute(&place).map_err(|error| {
            let problem = format!("{}: there is no directory here: {error}", place.display());
            Error::Machine(format!("{problem}; write the whole path"))
        })?;
    }
    options.ring_lines = arguments.ring_lines.unwrap_or(options.ring_lines);
    options.datagram_lines = arguments.datagram_lines.unwrap_or(options.datagram_lines);
    options.trace |= arguments.trace;
    options.follow = arguments.follow;
    options.own_directory = arguments.own_directory;
    let wrong = options.check();
    wrong.map_err(|problem| Error::Usage(format!("--{}", problem.replacen('_', "-", 1))))?;
    Ok(options)
}

/// This program's file.
pub fn own_program() -> Result<PathBuf, Error> {
    report::program::own().map_err(|error| {
        Error::Machine(format!(
            "cannot find the ipnuma command's own file: {error}"
        ))
    })
}

/// Starts a daemon and waits until it is ready: what it says then.
pub fn start(command: &mut Command) -> Result<(String, Child), Error> {
    let failed = |error| Error::Machine(format!("cannot start a daemon: {error}"));
    // Its own process group: an interrupt from the terminal is not for it.
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
    }
    if let Some(ready) = line.trim_end().strip_prefix("ipnuma daemon: ") {
        return Ok((ready.to_owned(), child));
    }
    let mut why = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut why).map_err(failed)?;
    }
    child.wait().map_err(failed)?;
    let lines: Vec<_> = why.lines().map(str::trim).collect();
    let why = lines.join(" ");
    let why = why.trim().trim_start_matches("error: ");
    Err(Error::Machine(format!("the daemon did not start: {why}")))
}
