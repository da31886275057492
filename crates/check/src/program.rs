// SPDX-License-Identifier: Apache-2.0
//! What the three programs have in common: their seed, the names of their options, and how they end.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;

/// The seed that was asked for, or one from the clock; printed first, so that a failure can be repeated.
pub fn seed(program: &str, asked: Option<u64>) -> u64 {
    let seed = asked.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |time| time.as_secs())
    });
    println!("{program}: seed {seed}");
    seed
}

/// How an option's value is written on the command line.
pub fn value_name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Prints how to run what failed once more.
pub fn print_again(program: &str, options: &str) {
    println!("again: cargo run --release -p check --bin {program} -- {options}");
}

/// How many runs passed and failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    passed: usize,
    failed: usize,
}

impl Score {
    /// Counts a run.
    pub fn count(&mut self, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Prints the sum, which `./test` adds up; a failure is a failure of the program.
    pub fn finish(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
