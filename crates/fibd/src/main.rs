// SPDX-License-Identifier: Apache-2.0
//! The agent as a program of its own: `ipnuma fibd` without the rest of `ipnuma`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

/// Keeps the tables of a FIBNIC switch equal to what the kernel forwards by.
#[derive(Debug, Parser)]
#[command(name = "fibd", version, about)]
struct Program {
    #[command(flatten)]
    arguments: fibd::command::Arguments,
}

fn main() -> ExitCode {
    match fibd::command::run(&Program::parse().arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}
