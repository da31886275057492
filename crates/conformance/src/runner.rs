// SPDX-License-Identifier: Apache-2.0
//! Runs cases in processes of their own, over the kernel and over IP-NUMA, and says which agree.

use crate::Arguments;
use crate::case::{Case, Expect};
use crate::support::seen;
use std::io::{Error, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Begins the line with which a case's process says how many connections were seen, and how many accelerated.
pub const SEEN: &str = "connections seen, accelerated: ";

/// What a case's process gave.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// What went wrong, if anything.
    pub failure: Option<String>,
    /// Connections that were looked up, and those that the daemon knew.
    pub seen: (u64, u64),
    /// Everything was right but that some connections were not accelerated.
    only_slower: bool,
}

/// Over what a case runs.
#[derive(Clone, Copy)]
pub enum Over<'a> {
    /// The kernel's sockets.
    Kernel,
    /// The library, with a daemon that listens at the second path.
    Library(&'a Path, &'a Path),
    /// The same, and TCP connections go as between machines.
    Far(&'a Path, &'a Path),
}

impl Over<'_> {
    /// Sets a process's environment.
    pub fn prepare(self, command: &mut Command) {
        match self {
            Over::Kernel => {
                command
                    .env_remove("LD_PRELOAD")
                    .env_remove(seen::DAEMON)
                    .env_remove(seen::LIBRARY);
            }
            Over::Library(library, daemon) | Over::Far(library, daemon) => {
                if matches!(self, Over::Far(..)) {
                    command.env(seen::FAR, "1");
                }
                command
                    .env("LD_PRELOAD", library)
                    // Each case's connections are to be accelerated, short as they are.
                    .env("IPNUMA_LEARN", "0")
                    .env(seen::DAEMON, daemon)
                    .env(seen::LIBRARY, "1");
            }
        }
    }
}

/// Not as between machines: such a connection needs descriptors of its own, and without them it is the kernel's.
const NEAR_ONLY: [&str; 15] = [
    "descriptors.none_left_accept",
    "descriptors.none_left_connect",
    // Connections leave their rings on one machine.
    "fallback.exec_plain",
    "fallback.exec_plain_busy",
    "fallback.exec_plain_polled",
    "fallback.exec_plain_ended",
    "fallback.exec_plain_closed",
    "fallback.exec_plain_shared",
    "fallback.confined",
    "names.asynchronous",
    "names.io_signal",
    // Datagrams arrive later than the call that sends them.
    "datagram.overflow",
    "datagram.receiver_late",
    "datagram.filtered_before_reconnect",
    "datagram.queued_before_connect",
];

/// Says whether all that the machines have sent each other was sealed; 1 if not.
fn sealed(tap: std::io::Result<keyed::Tap>) -> usize {
    match tap.map(|tap| tap.end().verify()) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            println!("FAILED: {error}");
            1
        }
        Err(error) => {
            println!("not seen whether frames are sealed: {error} ok");
            0
        }
    }
}

/// Runs what the arguments select; true if everything was as expected.
pub fn run(arguments: &Arguments) -> Result<bool, Error> {
    let wanted = |case: &Case| {
        let near = arguments.far.is_some() && NEAR_ONLY.contains(&case.name);
        !near
            && arguments
                .filter
                .as_ref()
                .is_none_or(|filter| case.name.contains(filter.as_str()))
    };
    let cases: Vec<Case> = crate::cases::all().into_iter().filter(wanted).collect();
    let seed = arguments.seed.unwrap_or_else(rand::random);
    if arguments.far.is_some() {
        // Each connection to another machine takes two descriptors of its own, and cases have both ends.
        daemon::raise_descriptor_limit();
    }
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("daemon.sock");
    let library = arguments
        .library
        .as_ref()
        .map(std::fs::canonicalize)
        .transpose()?;
    let daemon = library
        .as_ref()
        .map(|_| crate::daemon::Process::start(&socket, arguments.far, seed))
        .transpose()?;
    let tap = match arguments.far.filter(|_| daemon.is_some()) {
        Some(_) => Some(keyed::Tap::start(&[crate::daemon::address(&socket)?])),
        None => None,
    };
    let over_library = library.as_ref().map(|library| match arguments.far {
        Some(_) => Over::Far(library, &socket),
        None => Over::Library(library, &socket),
    });
    let overs: Vec<Over> = match (over_library, arguments.compare) {
        (Some(over), true) => vec![Over::Kernel, over],
        (Some(over), false) => vec![over],
        (None, _) => vec![Over::Kernel],
    };
    let mut bad = 0;
    let results = all(&cases, &overs, arguments);
    for (case, results) in cases.iter().zip(&results) {
        let words: Vec<String> = results
            .iter()
            .map(|result| match &result.failure {
                None => "ok".to_string(),
                Some(_) => "FAILED".to_string(),
            })
            .collect();
        println!("{:44} {}", case.name, words.join("  "));
        for (result, over) in results.iter().zip(&overs) {
            if let Some(failure) = &result.failure {
                bad += 1;
                let name = if matches!(over, Over::Kernel) {
                    "kernel"
                } else {
                    "IP-NUMA"
                };
                println!(
                    "    over {name}: {}\n    expected: {}",
                    failure.trim_end().replace('\n', "\n    "),
                    case.about
                );
            }
        }
    }
    let seen = results
        .iter()
        .flatten()
        .fold((0, 0), |sum, r| (sum.0 + r.seen.0, sum.1 + r.seen.1));
    if wanted_property(arguments) {
        println!("random sequences, seed {seed}:");
        bad += crate::property::compare(&overs, seed, arguments.sequences)?;
    }
    drop(daemon);
    // Of few cases none may have had a connection.
    if let Some(tap) = tap.filter(|_| seen.1 > 0) {
        bad += sealed(tap);
    }
    print!(
        "{} cases over {}, {bad} failed",
        cases.len(),
        if overs.len() == 2 { "both" } else { "one" }
    );
    if library.is_some() {
        print!(
            "; {} connections looked up, {} of them accelerated",
            seen.0, seen.1
        );
    }
    println!();
    if bad > 0 && library.is_some() {
        println!("repeat one: conformance --compare --library PATH --seed {seed} NAME");
    }
    Ok(bad == 0)
}

fn wanted_property(arguments: &Arguments) -> bool {
    arguments
        .filter
        .as_ref()
        .is_none_or(|filter| "property".contains(filter.as_str()))
}

/// Runs every case over everything, several at once.
fn all(cases: &[Case], overs: &[Over], arguments: &Arguments) -> Vec<Vec<Ran>> {
    let results: Vec<Mutex<Vec<Ran>>> = cases.iter().map(|_| Mutex::new(Vec::new())).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                while let Some((case, result)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(index).zip(results.get(index))
                } {
                    let of_case = overs
                        .iter()
                        .map(|over| repeated(case, *over, arguments))
                        .collect();
                    if let Ok(mut result) = result.lock() {
                        *result = of_case;
                    }
                }
            });
        }
    });
    results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_default())
        .collect()
}

fn repeated(case: &Case, over: Over, arguments: &Arguments) -> Ran {
    let mut result = Ran::default();
    for round in 0..arguments.repeat.max(1) {
        let patience = Duration::from_secs(arguments.patience);
        let mut ran = one(case, over, patience);
        // On a busy machine an acceptor may be so late that a connection is left to the kernel, which is no fault.
        for _ in 0..3 {
            if ran.as_ref().is_ok_and(|ran| ran.only_slower) {
                ran = one(case, over, patience);
            }
        }
        result = ran.unwrap_or_else(|error| Ran {
            failure: Some(format!("the case's process could not be run: {error}")),
            ..Ran::default()
        });
        if let Some(failure) = &mut result.failure {
            if arguments.repeat > 1 {
                failure.push_str(&format!(" (in round {round})"));
            }
            break;
        }
    }
    result
}

/// Runs one case once.
fn one(case: &Case, over: Over, patience: Duration) -> Result<Ran, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--case").arg(case.name);
    over.prepare(&mut command);
    let (ended, text) = run_for(&mut command, patience)?;
    let mut result = Ran::default();
    let mut lines = Vec::new();
    for line in text.lines() {
        match line
            .strip_prefix(SEEN)
            .and_then(|counts| counts.split_once(' '))
        {
            Some((seen, accelerated)) => {
                result.seen = (seen.parse().unwrap_or(0), accelerated.parse().unwrap_or(0));
            }
            None => lines.push(line),
        }
    }
    let (seen, accelerated) = result.seen;
    result.failure = match (ended, over, case.expect) {
        (None, _, _) => Some(format!(
            "{}hung, and was ended after {} s",
            joined(&lines),
            patience.as_secs()
        )),
        (Some(status), _, _) if !status.success() => Some(format!("{}{status}", joined(&lines))),
        (_, Over::Library(..) | Over::Far(..), Expect::Accelerated)
            if seen == 0 || accelerated < seen =>
        {
            result.only_slower = true;
            Some(format!(
                "{accelerated} of {seen} connections were accelerated, expected all"
            ))
        }
        (_, Over::Library(..) | Over::Far(..), Expect::Kernel) if accelerated > 0 => Some(format!(
            "{accelerated} of {seen} connections were accelerated, expected none"
        )),
        _ => None,
    };
    Ok(result)
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Runs a command with its children in a group of their own; gives its status, none if it had to be ended, and all
/// that it wrote.
pub fn run_for(
    command: &mut Command,
    patience: Duration,
) -> Result<(Option<std::process::ExitStatus>, String), Error> {
    let mut output = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0);
    let mut child = command.spawn()?;
    let deadline = Instant::now() + patience;
    let mut step = Duration::from_micros(500);
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > deadline {
            break None;
        }
        std::thread::sleep(step);
        step = (step * 2).min(Duration::from_millis(10));
    };
    // What the case left behind goes with it. If it ended, its group is empty unless it left something.
    // SAFETY: the group is that of our child, which we have not waited for or which has just ended.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    if ended.is_none() {
        child.wait()?;
    }
    let mut text = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut text)?;
    Ok((ended, String::from_utf8_lossy(&text).into_owned()))
}
