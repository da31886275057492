// SPDX-License-Identifier: Apache-2.0
//! `switchtest`: runs the tests of the switch.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum};
use switchtest::tables::{self, Effort, Source};

/// The switch's RTL against reference models.
///
/// Without --mode all is run, in its short form. The seed is printed first; the same seed and
/// options give the same run.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// Seed of everything random; from the clock if absent.
    #[arg(long, env = "IPNUMA_SEED")]
    seed: Option<u64>,
    /// What is tested.
    #[arg(long)]
    mode: Option<Mode>,
    /// The long form: whole tables, millions of addresses.
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The lookup alone with large tables, against another longest-prefix match.
    Tables,
}

const MODES: [Mode; 1] = [Mode::Tables];

impl Options {
    fn run(&self, mode: Mode, seed: u64) -> Result<Vec<String>, String> {
        match mode {
            Mode::Tables => self.tables(seed),
        }
    }

    fn tables(&self, seed: u64) -> Result<Vec<String>, String> {
        if self.full {
            let effort = Effort {
                random: 1_000_000,
                edges: None,
                changes: 20_000,
            };
            let large = Source::Synthetic {
                v4: 1_200_000,
                v6: 280_000,
            };
            return Ok(vec![
                tables::run(Source::Real, effort, seed)?,
                tables::run(large, effort, seed)?,
            ]);
        }
        let effort = Effort {
            random: 100_000,
            edges: Some(20_000),
            changes: 2_000,
        };
        let table = Source::Synthetic {
            v4: 100_000,
            v6: 30_000,
        };
        Ok(vec![tables::run(table, effort, seed)?])
    }
}

fn name(mode: Mode) -> String {
    let value = mode.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |time| time.as_secs())
    });
    println!("switchtest: seed {seed}");
    let (mut passed, mut failed) = (0, 0);
    for mode in MODES {
        if options.mode.is_some_and(|chosen| chosen != mode) {
            continue;
        }
        let started = Instant::now();
        match options.run(mode, seed) {
            Ok(lines) => {
                passed += 1;
                for line in lines {
                    println!("{}: {line}", name(mode));
                }
                println!("{}: {:.1} s", name(mode), started.elapsed().as_secs_f64());
            }
            Err(error) => {
                failed += 1;
                println!("{}: FAILED\n{error}", name(mode));
                let full = if options.full { " --full" } else { "" };
                println!(
                    "again: cargo run --release -p switchtest -- --mode {}{full} --seed {seed}",
                    name(mode)
                );
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
