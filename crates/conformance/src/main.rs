// SPDX-License-Identifier: Apache-2.0
//! Conformance of sockets: one case for each call and each awkward interaction, with what Linux does as the expected
//! result. Run alone, it tests whatever the C library gives: the kernel, or IP-NUMA where the socket library is
//! preloaded. With `--compare` it runs every case over both.
//!
//! ```text
//! conformance --list                                    # every case and its sentence
//! conformance epoll                                     # the cases with "epoll" in their names, over the kernel
//! conformance --compare --library libipnuma_socket.so   # all, over the kernel and over IP-NUMA
//! conformance --far 10 --library libipnuma_socket.so    # all, as between machines, through a network that loses 1 %
//! ```
//!
//! Each case runs in a process of its own and is ended if it hangs. Over IP-NUMA a case also fails if its connections
//! were not accelerated though they should be, or were though they should not. It does not measure anything.

mod case;
mod cases;
mod daemon;
mod property;
mod races;
mod roles;
mod runner;
mod support;
mod traffic;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Conformance of sockets, over the kernel or over IP-NUMA.
#[derive(Parser, Debug)]
#[command(name = "conformance")]
struct Arguments {
    /// Only cases whose name contains this.
    filter: Option<String>,
    /// Lists the cases.
    #[arg(long)]
    list: bool,
    /// Runs every case over the kernel and over IP-NUMA.
    #[arg(long, requires = "library")]
    compare: bool,
    /// The socket library, libipnuma_socket.so.
    #[arg(long)]
    library: Option<PathBuf>,
    /// Only over IP-NUMA, with --library.
    #[arg(long, requires = "library", conflicts_with = "compare")]
    only_library: bool,
    /// Over IP-NUMA, TCP connections go as between machines: through the daemon's NIC in software, by a network that
    /// loses so many frames in a thousand.
    #[arg(long, requires = "library", value_name = "LOSS", num_args = 0..=1, default_missing_value = "0")]
    far: Option<u32>,
    /// Seed of the random sequences; chosen and printed if not given.
    #[arg(long, env = "IPNUMA_SEED")]
    seed: Option<u64>,
    /// How often each case runs.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Random sequences that are compared.
    #[arg(long, default_value_t = 40)]
    sequences: u32,
    /// Cases that run at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Seconds after which a case is ended.
    #[arg(long, default_value_t = 15)]
    patience: u64,
    /// Runs this case in this process (used by the runner).
    #[arg(long, hide = true)]
    case: Option<String>,
    /// Plays the other side of a case (used by cases and tests).
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    role: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.role {
        return finish(roles::play(role));
    }
    if let Some(name) = &arguments.case {
        return finish(alone(name));
    }
    if arguments.list {
        for case in cases::all() {
            println!("{:44} {}", case.name, case.about);
        }
        return ExitCode::SUCCESS;
    }
    match runner::run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn finish(outcome: support::outcome::Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.0);
            ExitCode::FAILURE
        }
    }
}

/// Runs one case here and says at the end which connections were seen.
fn alone(name: &str) -> support::outcome::Outcome {
    let all = cases::all();
    let case = all.iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| {
        support::outcome::Failure::new(format!(
            "there is no case {name}; --list shows those that are"
        ))
    })?;
    support::seen::begin();
    let outcome = (case.run)();
    let (connections, accelerated) = support::seen::counts();
    println!("{}{connections} {accelerated}", runner::SEEN);
    outcome
}
