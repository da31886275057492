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

/// Help and versions are printed as they are; what is wrong is said in one line.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    eprintln!("error: {}", input::command_line::sentence(error, &words));
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => return refuse(&error),
    };
    match fibd::command::run(&program.arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", input::one_line(error.to_string().trim()));
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}
