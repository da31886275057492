// SPDX-License-Identifier: Apache-2.0
//! `ipnuma run`: a program whose sockets go over IP-NUMA where the other end's do, too.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::ValueEnum;

use crate::daemon::{own_program, start};
use crate::host::{Error, Where};

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Both ends of a connection must run so, on machines with a daemon; all other connections stay with the kernel. Exit
status is the program's; 127 if it is not found, 126 if it cannot be started.

  ipnuma daemon --background
  ipnuma run -- memcached -p 11211 &
  ipnuma run -- memcaslap -s 127.0.0.1:11211
  ipnuma sockets")]
pub struct Arguments {
    /// What waits are good at: `throughput`, or `latency` for threads with cores of their own
    #[arg(long, value_enum, value_name = "PROFILE")]
    profile: Option<Profile>,
    /// Spins so many microseconds for what comes before it sleeps
    #[arg(long, value_name = "N")]
    spin_us: Option<u32>,
    #[command(flatten)]
    place: Where,
    /// Starts a daemon for this program and its children alone
    #[arg(long, conflicts_with = "daemon")]
    own_daemon: bool,
    /// Writes to standard error what is accelerated and what is not
    #[arg(long)]
    trace: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// What waits are good at; docs/sockets.md has what each gives.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Profile {
    Throughput,
    Latency,
}

/// The socket library.
const LIBRARY: &str = "libipnuma_socket.so";
/// Says where it is.
const LIBRARY_VARIABLE: &str = "IPNUMA_SOCKET_LIBRARY";

/// Exit status of a program that is not there, as shells have it.
const NOT_FOUND: u8 = 127;
/// Exit status of one that can't be started.
const NOT_STARTED: u8 = 126;

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let [program, rest @ ..] = &arguments.program[..] else {
        return Err(Error::Usage("give the program to run after --".to_owned()));
    };
    let library = library()?;
    let mut command = Command::new(program);
    command.args(rest).env("LD_PRELOAD", preload(&library)?);
    if let Some(name) = arguments
        .profile
        .and_then(|profile| profile.to_possible_value())
    {
        command.env("IPNUMA_PROFILE", name.get_name());
    }
    if let Some(spin) = arguments.spin_us {
        command.env("IPNUMA_SPIN_US", spin.to_string());
    }
    if arguments.trace {
        command.env("IPNUMA_TRACE", "1");
    }
    if arguments.own_daemon {
        command.env("IPNUMA_DAEMON", own_daemon()?);
    } else {
        if arguments.place.is_given() {
            command.env("IPNUMA_DAEMON", arguments.place.path());
        }
        if let Err(error) = arguments.place.connect() {
            let program = program.to_string_lossy();
            let warning =
                format!("{error}; {program} runs over the kernel's sockets until there is one");
            // The program runs all the same.
            let _ = writeln!(std::io::stderr(), "warning: {}", input::one_line(&warning));
        }
    }
    let error = command.exec();
    let name = input::one_line(&program.to_string_lossy());
    let _ = writeln!(std::io::stderr(), "error: cannot run `{name}`: {error}");
    Ok(ExitCode::from(match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_STARTED,
    }))
}

/// The socket library's file.
pub fn library() -> Result<PathBuf, Error> {
    if let Some(given) = std::env::var_os(LIBRARY_VARIABLE).filter(|given| !given.is_empty()) {
        let path = PathBuf::from(given);
        if path.is_file() {
            return absolute(&path);
        }
        return Err(Error::Usage(format!(
            "${LIBRARY_VARIABLE}: there is no file {}; give the path of {LIBRARY}",
            path.display()
        )));
    }
    let program = own_program()?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let candidates = [
        beside.join(LIBRARY),
        beside.join("../lib").join(LIBRARY),
        beside.join("../lib/ipnuma").join(LIBRARY),
    ];
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => absolute(path),
        None => Err(Error::Machine(format!(
            "cannot find {LIBRARY} in {0} and {0}/../lib; build it with `cargo build --release -p preload`, \
             or say where it is with ${LIBRARY_VARIABLE}",
            beside.display()
        ))),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize()
        .map_err(|error| Error::Machine(format!("cannot find {}: {error}", path.display())))
}

/// What the dynamic linker is told: the socket library before what the user loads anyhow.
pub fn preload(library: &Path) -> Result<OsString, Error> {
    let path = library.as_os_str();
    if path
        .as_encoded_bytes()
        .iter()
        .any(|byte| b": \t\n".contains(byte))
    {
        return Err(Error::Machine(format!(
            "the dynamic linker cannot load {}, because of the space or colon in its path; \
             copy it elsewhere and say where with ${LIBRARY_VARIABLE}",
            library.display()
        )));
    }
    let mut all = path.to_owned();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        let known = more
            .as_encoded_bytes()
            .split(|byte| b": ".contains(byte))
            .any(|entry| entry == path.as_encoded_bytes());
        if known {
            return Ok(more);
        }
        all.push(OsStr::new(":"));
        all.push(more);
    }
    Ok(all)
}

/// Starts a daemon that lives as long as this process, which becomes the program, and its children.
fn own_daemon() -> Result<PathBuf, Error> {
    let pid = std::process::id();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_dir());
    let directory = runtime.map_or_else(std::env::temp_dir, PathBuf::from);
    let socket = directory.join(format!("ipnuma-run-{pid}/daemon.sock"));
    // Twice removed: the program gets no child that it does not know.
    let mut command = Command::new(own_program()?);
    command
        .args(["daemon", "--background", "--own-directory", "--follow"])
        .arg(pid.to_string())
        .arg("--socket")
        .arg(&socket);
    let (_, mut between) = start(&mut command)?;
    between
        .wait()
        .map_err(|error| Error::Machine(format!("cannot start a daemon: {error}")))?;
    Ok(socket)
}
