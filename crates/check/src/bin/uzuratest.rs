// SPDX-License-Identifier: Apache-2.0
//! `uzuratest`: runs the test of the RDMA engine.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use check::program::{self, Score, value_name};
use check::uzuratest::end::Kind;
use check::uzuratest::flow;
use check::uzuratest::fuzz::Fuzz;
use clap::{Parser, ValueEnum};

/// The RDMA engine's RTL against its model.
///
/// The seed is printed first; the same seed and options give the same run.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// Seed of the random operations; from the clock if absent.
    #[arg(long, env = "IPNUMA_SEED")]
    seed: Option<u64>,
    /// Packets of each mode.
    #[arg(long, default_value_t = 1000)]
    packets: u64,
    /// What is tested; all if absent.
    #[arg(long)]
    mode: Option<Mode>,
    /// Queue pairs; by the seed if absent.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8))]
    pairs: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Random packets and work requests, RTL and model side by side.
    Fuzz,
    /// Queue pairs over a channel with faults, RTL and model or RTL and RTL.
    Flow,
}

const MODES: [Mode; 2] = [Mode::Fuzz, Mode::Flow];

impl Options {
    fn pairs(&self, seed: u64) -> u32 {
        const MOST: u64 = 8;
        self.pairs.unwrap_or((seed % MOST) as u32 + 1)
    }

    fn fuzz(&self, seed: u64) -> Result<String, String> {
        let mut fuzz = Fuzz::new(Kind::Rtl, seed, self.pairs(seed))?;
        fuzz.run(self.packets)?;
        Ok(format!("{:?}", fuzz.totals))
    }

    fn flow(&self, seed: u64) -> Result<String, String> {
        let totals = flow::run(seed, self.packets, self.pairs)?;
        Ok(format!("{totals:?}"))
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = program::seed("uzuratest", options.seed);
    let mut score = Score::default();
    for mode in MODES {
        if options.mode.is_some_and(|chosen| chosen != mode) {
            continue;
        }
        let started = Instant::now();
        let result = match mode {
            Mode::Fuzz => options.fuzz(seed),
            Mode::Flow => options.flow(seed),
        };
        let name = value_name(mode);
        score.count(result.is_ok());
        match result {
            Ok(line) => println!("{name}: {line}; {:.1} s", started.elapsed().as_secs_f64()),
            Err(error) => {
                println!("{name}: FAILED\n{error}");
                let packets = options.packets;
                let pairs = options.pairs(seed);
                let again =
                    format!("--mode {name} --packets {packets} --pairs {pairs} --seed {seed}");
                program::print_again("uzuratest", &again);
            }
        }
    }
    score.finish()
}
