// SPDX-License-Identifier: Apache-2.0
//! Builds the models that are named, or all; prints one line each.

use std::process::ExitCode;

use verilate::{Event, MODELS};

const USAGE: &str = "usage: verilate [--list | --paths] [--jobs N] [MODEL ...]\n\
    Builds the Verilated models that are named, or all of them, each unless it is there.";

fn main() -> ExitCode {
    let mut models = Vec::new();
    let mut paths = false;
    let mut jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-h" | "--help" => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            "--list" => {
                for model in MODELS {
                    println!("{}", model.name);
                }
                return ExitCode::SUCCESS;
            }
            "--paths" => paths = true,
            "--jobs" => match arguments.next().and_then(|number| number.parse().ok()) {
                Some(number @ 1..) => jobs = number,
                _ => return wrong("--jobs: wants a number of at least 1"),
            },
            name => match verilate::model(name) {
                Ok(model) => models.push(model),
                Err(error) => return wrong(&error.to_string()),
            },
        }
    }
    if models.is_empty() {
        models.extend(MODELS);
    }
    if paths {
        return print_paths(&models);
    }
    let report = |event: Event<'_>| match event {
        Event::Done {
            model,
            done,
            of,
            took,
        } => match took {
            Some(took) => println!(
                "models: {done} of {of}: {model}, {:.0} s",
                took.as_secs_f64()
            ),
            None => println!("models: {done} of {of}: {model}, there"),
        },
        Event::Slow { model, reason } => {
            eprintln!("models: {model} is evaluated the long way, slower: {reason}");
        }
    };
    match verilate::build(&verilate::root(), &models, jobs, &report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints where the library of each model is, or will be.
fn print_paths(models: &[&'static verilate::Model]) -> ExitCode {
    for model in models {
        match verilate::path(model) {
            Ok(path) => println!("{} {}", model.name, path.display()),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn wrong(sentence: &str) -> ExitCode {
    eprintln!("error: {sentence}\n{USAGE}");
    ExitCode::from(2)
}
