// SPDX-License-Identifier: Apache-2.0
//! `ipnuma doctor`: whether a program's sockets can go over IP-NUMA, and what stops them.

mod executable;
mod launcher;
mod policy;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ::host::Config;
use ipc::client::Client;
use ipc::protocol;
use rustix::io::Errno;
use serde::Serialize;

use crate::host::{Error, Where};
use crate::{output, run};
use executable::{Fault, Found};

/// A daemon that is well answers at once.
const DAEMON_ANSWERS: Duration = Duration::from_secs(5);

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is started. Exit status: 0 if the program's sockets can be accelerated, 1 if not, 2 for a wrong command line or
policy file. Both ends of a connection must be so.

  ipnuma doctor memcached
  ipnuma doctor --policy /etc/ipnuma/sockets.policy              # how the file is understood
  ipnuma doctor --policy new.policy -- /usr/sbin/sshd -D         # what it would say of a program")]
pub struct Arguments {
    #[command(flatten)]
    place: Where,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// A policy file, instead of the one that holds; without a program, prints how it is understood
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        required_unless_present = "policy",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Stops,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Stops => "stops it",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    verdict: Verdict,
    says: String,
    remedy: Option<String>,
}

impl Check {
    fn ok(check: &'static str, says: String) -> Self {
        Self {
            check,
            verdict: Verdict::Ok,
            says,
            remedy: None,
        }
    }

    fn wrong(check: &'static str, verdict: Verdict, says: String, remedy: &str) -> Self {
        Self {
            check,
            verdict,
            says,
            remedy: Some(remedy.to_owned()),
        }
    }

    fn stops(check: &'static str, fault: Fault) -> Self {
        Self::wrong(check, Verdict::Stops, fault.says, &fault.remedy)
    }

    /// Of an error whose sentence ends with the remedy.
    fn failed(check: &'static str, error: &str) -> Self {
        let sentence = input::own_words(error);
        match sentence.split_once("; ") {
            Some((says, remedy)) => Self::wrong(check, Verdict::Stops, says.to_owned(), remedy),
            None => Self {
                remedy: None,
                ..Self::wrong(check, Verdict::Stops, sentence, "")
            },
        }
    }

    fn line(&self) -> String {
        let remedy = self.remedy.iter().map(|remedy| format!("; {remedy}"));
        format!(
            "{:<8}  {:<8}  {}{}\n",
            self.verdict.name(),
            self.check,
            self.says,
            remedy.collect::<String>()
        )
    }
}

/// All of it, for JSON.
#[derive(Serialize)]
struct Report {
    program: String,
    accelerated: bool,
    checks: Vec<Check>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let given = match &arguments.policy {
        Some(path) => Some(policy::read(path)?),
        None => None,
    };
    let Some(name) = arguments.program.first() else {
        if let Some(policy) = &given {
            output::print(&match arguments.json {
                true => output::json("doctor", &policy::report(policy)),
                false => policy::table(policy),
            })?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let mut checks = Vec::new();
    let (library, architecture) = library();
    let executable = program(&arguments.program, architecture, &mut checks);
    checks.push(library);
    checks.extend(system());
    let config = configuration(&mut checks);
    let place = match arguments.place.is_given() {
        true => arguments.place.path(),
        false => config.daemon,
    };
    checks.push(daemon(&place));
    policy::check(given, &executable, &mut checks);
    policy::habits(&executable, &mut checks);
    let report = Report {
        program: name.to_string_lossy().into_owned(),
        accelerated: checks.iter().all(|check| check.verdict != Verdict::Stops),
        checks,
    };
    output::print(&match arguments.json {
        true => output::json("doctor", &report),
        false => table(&report),
    })?;
    Ok(match report.accelerated {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn table(report: &Report) -> String {
    let lines: String = report.checks.iter().map(Check::line).collect();
    let name = &report.program;
    let stops = report.checks.iter();
    let stops = stops
        .filter(|check| check.verdict == Verdict::Stops)
        .count();
    lines
        + &match stops {
            0 => format!("{name} can be accelerated: ipnuma run -- {name}\n"),
            1 => format!("{name} cannot be accelerated: one thing stops it\n"),
            _ => format!("{name} cannot be accelerated: {stops} things stop it\n"),
        }
}

/// What the library is put before; says the executable's file name, by which the policy knows it.
fn program(
    words: &[OsString],
    architecture: object::Architecture,
    checks: &mut Vec<Check>,
) -> String {
    let file_name = |path: &Path| {
        // As the kernel has it: by its true name.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let found: Found = match executable::follow(words) {
        Ok(found) => found,
        Err(fault) => {
            checks.push(Check::stops("program", fault));
            return file_name(Path::new(&words[0]));
        }
    };
    let last = found.last();
    let steps: Vec<String> = found
        .steps
        .iter()
        .map(|step| step.display().to_string())
        .collect();
    if let Some(error) = &found.unread {
        checks.push(Check::wrong(
            "program",
            Verdict::Warning,
            format!(
                "{} may be started but not read ({error}), so what it is was not looked at",
                steps.join(", then ")
            ),
            "ask its owner for the right to read it, or ask as that user",
        ));
        return file_name(found.runs());
    }
    match executable::loads(last, architecture) {
        Ok(loader) => {
            let apart = match found.script {
                true => "; what the script starts is to be looked at by itself",
                false => "",
            };
            checks.push(Check::ok(
                "program",
                format!("{}, loaded by {loader}{apart}", steps.join(", then ")),
            ));
        }
        Err(fault) => checks.push(Check::stops("program", fault)),
    }
    checks.push(match executable::rights(last) {
        Ok(()) => Check::ok("rights", "it keeps its user's".to_owned()),
        Err(fault) => Check::stops("rights", fault),
    });
    if let Some(by) = &found.cleared_by {
        checks.push(Check::wrong(
            "preload",
            Verdict::Stops,
            format!("`{by}` takes LD_PRELOAD away, and the library with it"),
            "put `ipnuma run --` behind it, before the program itself",
        ));
    }
    file_name(found.runs())
}

/// The socket library, and the processor it is for.
fn library() -> (Check, object::Architecture) {
    let own = match std::env::consts::ARCH {
        "aarch64" => object::Architecture::Aarch64,
        _ => object::Architecture::X86_64,
    };
    let path = match run::library() {
        Ok(path) => path,
        Err(error) => return (Check::failed("library", &error.to_string()), own),
    };
    if let Err(error) = run::preload(&path) {
        return (Check::failed("library", &error.to_string()), own);
    }
    match executable::library(&path) {
        Err(fault) => (Check::stops("library", fault), own),
        Ok((architecture, version)) if version == protocol::VERSION => (
            Check::ok("library", format!("{}, protocol {version}", path.display())),
            architecture,
        ),
        Ok((architecture, version)) => (
            Check::wrong(
                "library",
                Verdict::Stops,
                format!(
                    "{} speaks version {version} of the daemon's protocol and this command {}",
                    path.display(),
                    protocol::VERSION
                ),
                "install both from one release",
            ),
            architecture,
        ),
    }
}

/// What the library wants of the system, if it is not there.
fn system() -> Option<Check> {
    let missing = rustix::fs::stat("/proc/self/ns/net").is_err();
    missing.then(|| {
        Check::wrong(
            "system",
            Verdict::Stops,
            "there is no /proc, from which the library knows in which network the program is"
                .to_owned(),
            "mount it: mount -t proc proc /proc",
        )
    })
}

/// What the library will be told to do.
fn configuration(checks: &mut Vec<Check>) -> Config {
    let config = match Config::load() {
        Ok(config) => config,
        Err(error) => {
            checks.push(Check::failed("config", &error.to_string()));
            return Config::default();
        }
    };
    if !config.socket.enable {
        checks.push(Check::wrong(
            "config",
            Verdict::Stops,
            "the socket library is switched off".to_owned(),
            "set IPNUMA_SOCKET=1, or socket.enable = true in the configuration",
        ));
    } else if !config.socket.ports.is_empty() {
        let ranges = config.socket.ports.iter();
        let ranges = ranges.map(|ports| match ports.first == ports.last {
            true => ports.first.to_string(),
            false => format!("{}-{}", ports.first, ports.last),
        });
        checks.push(Check::wrong(
            "config",
            Verdict::Warning,
            format!(
                "only servers at ports {} are accelerated",
                ranges.collect::<Vec<_>>().join(", ")
            ),
            "change IPNUMA_PORTS, or socket.ports in the configuration, if it serves at others",
        ));
    }
    config
}

/// Whether the daemon serves this user.
fn daemon(place: &Path) -> Check {
    match Client::connect_within(place, "ipnuma", DAEMON_ANSWERS) {
        Ok(_) => Check::ok(
            "daemon",
            format!("{}, protocol {}", place.display(), protocol::VERSION),
        ),
        Err(ipc::Error::NoDaemon { path, source }) if source == Errno::ACCESS => Check::wrong(
            "daemon",
            Verdict::Stops,
            format!(
                "user {} may not use the daemon's socket {} ({source})",
                rustix::process::geteuid().as_raw(),
                path.display()
            ),
            "start the program as the daemon's user or as root, or a daemon as the program's",
        ),
        Err(error) => Check::failed("daemon", &error.to_string()),
    }
}
