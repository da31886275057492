// SPDX-License-Identifier: Apache-2.0
//! `difftest`: runs the differential test.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use check::difftest::bench::{Bench, Load, Pair, Totals};
use check::difftest::dut::{Dut, ModelDut, RtlDut, WiredDut};
use check::difftest::world::World;
use check::program::{self, Score, value_name};
use clap::{Parser, ValueEnum};
use ipnuma_rtl::NetSpeed;
use model::Config;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The NIC's RTL against the reference model.
///
/// Without --mode, --rate and --build all of them are run, with --ops shared out among them. The
/// seed is printed first; the same seed and options give the same run.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// Seed of the random operations; from the clock if absent.
    #[arg(long, env = "IPNUMA_SEED")]
    seed: Option<u64>,
    /// Operations (TLPs to the NIC and frames to the NIC).
    #[arg(long, default_value_t = 1_000_000)]
    ops: u64,
    /// Write waves of an exact or stress run to this FST file; use it with few operations.
    #[arg(long, value_name = "FILE")]
    waves: Option<PathBuf>,
    /// Print every counter at the end of each run.
    #[arg(long, short)]
    verbose: bool,
    /// What is tested.
    #[arg(long)]
    mode: Option<Mode>,
    /// Line rate.
    #[arg(long)]
    rate: Option<Rate>,
    /// Which build of the RTL.
    #[arg(long)]
    build: Option<Build>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// RTL against model, everything compared.
    Exact,
    /// Two NICs wired to each other, each against its model.
    Pair,
    /// RTL against model without regard to the NIC's queues: drops must be counted.
    Stress,
    /// The model against itself: the test of the test.
    Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rate {
    #[value(name = "10g")]
    TenGig,
    #[value(name = "1g")]
    OneGig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Build {
    /// 1,024 pages.
    Small,
    /// 262,144 pages.
    Full,
}

/// One run of the plan, with its share of the operations in percent.
#[derive(Clone, Copy, Debug)]
struct Run {
    mode: Mode,
    rate: Rate,
    build: Build,
    share: u64,
}

/// Operations after which every counter must have counted.
const REACHES_ALL: u64 = 30_000;

const PLAN: &[Run] = &[
    run(Mode::Exact, Rate::TenGig, Build::Small, 50),
    run(Mode::Exact, Rate::OneGig, Build::Small, 8),
    run(Mode::Exact, Rate::TenGig, Build::Full, 15),
    run(Mode::Exact, Rate::OneGig, Build::Full, 3),
    run(Mode::Pair, Rate::TenGig, Build::Small, 10),
    run(Mode::Pair, Rate::OneGig, Build::Small, 2),
    run(Mode::Stress, Rate::TenGig, Build::Small, 8),
    run(Mode::Stress, Rate::OneGig, Build::Small, 4),
];

const fn run(mode: Mode, rate: Rate, build: Build, share: u64) -> Run {
    Run {
        mode,
        rate,
        build,
        share,
    }
}

impl Run {
    fn options(&self, seed: u64, ops: u64) -> String {
        let (mode, rate) = (value_name(self.mode), value_name(self.rate));
        let build = value_name(self.build);
        format!("--mode {mode} --rate {rate} --build {build} --seed {seed} --ops {ops}")
    }

    fn execute(&self, seed: u64, ops: u64, options: &Options) -> Result<Totals, (Totals, String)> {
        let early = |error| (Totals::default(), error);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let speed = match self.rate {
            Rate::TenGig => NetSpeed::TenGig,
            Rate::OneGig => NetSpeed::OneGig,
        };
        let small = self.build == Build::Small;
        let config = self.config(&mut rng);
        let dut_rng = ChaCha8Rng::seed_from_u64(rng.random());
        let dut: Box<dyn Dut> = match self.mode {
            Mode::Pair => return self.execute_pair(speed, config, ops, &mut rng),
            Mode::Exact | Mode::Stress => {
                let dut = RtlDut::new(speed, small, config.completer_id, dut_rng);
                let mut dut = dut.map_err(early)?;
                if let Some(file) = &options.waves {
                    let opened = dut.nic().trace(file);
                    opened.map_err(|error| early(error.to_string()))?;
                }
                Box::new(dut)
            }
            Mode::Model => Box::new(ModelDut::new(config.clone(), dut_rng, None)),
        };
        let world = World::new(config, &mut rng);
        let load = if self.mode == Mode::Stress {
            Load::Stress
        } else {
            Load::Exact
        };
        let mut bench = Bench::new(dut, world, speed, load, rng);
        let result = bench.run(ops);
        if options.verbose {
            for (name, value) in bench.counters() {
                println!("  {name:28} {value:>9}");
            }
        }
        let totals = bench.totals();
        let missing = bench.never_counted();
        let result = result.and_then(|()| check_reach(ops, &missing));
        result.map(|()| totals).map_err(|error| (totals, error))
    }
}

impl Run {
    fn config(&self, rng: &mut ChaCha8Rng) -> Config {
        let small = self.build == Build::Small;
        Config {
            pages: if small { 1024 } else { 262_144 },
            completer_id: rng.random(),
            ..Config::default()
        }
    }

    fn execute_pair(
        &self,
        speed: NetSpeed,
        config: Config,
        ops: u64,
        rng: &mut ChaCha8Rng,
    ) -> Result<Totals, (Totals, String)> {
        let early = |error| (Totals::default(), error);
        let configs = [config, self.config(rng)];
        let mut fork = || ChaCha8Rng::seed_from_u64(rng.random());
        let mut worlds = configs.map(|config| World::new(config, &mut fork()));
        let [first, second] = &mut worlds;
        first.link(second);
        let mut dut = |world: &World| {
            let small = self.build == Build::Small;
            RtlDut::new(speed, small, world.config.completer_id, fork())
        };
        let duts = WiredDut::pair(
            dut(&worlds[0]).map_err(early)?,
            dut(&worlds[1]).map_err(early)?,
        );
        let [first_dut, second_dut] = duts;
        let [first, second] = worlds;
        let mut pair = Pair::new([
            Bench::new(Box::new(first_dut), first, speed, Load::Exact, fork()),
            Bench::new(Box::new(second_dut), second, speed, Load::Exact, fork()),
        ]);
        let result = pair.run(ops);
        let missing = pair.never_counted();
        let result = result.and_then(|()| check_reach(ops, &missing));
        let totals = pair.totals();
        result.map(|()| totals).map_err(|error| (totals, error))
    }
}

/// A long run that did not get everywhere is no proof.
fn check_reach(ops: u64, missing: &[&str]) -> Result<(), String> {
    if ops >= REACHES_ALL && !missing.is_empty() {
        return Err(format!("these counters never counted: {missing:?}"));
    }
    Ok(())
}

fn plan(options: &Options) -> Vec<Run> {
    let chosen = |run: &&Run| {
        options.mode.is_none_or(|mode| mode == run.mode)
            && options.rate.is_none_or(|rate| rate == run.rate)
            && options.build.is_none_or(|build| build == run.build)
    };
    if options.mode == Some(Mode::Model) {
        return vec![run(
            Mode::Model,
            options.rate.unwrap_or(Rate::TenGig),
            options.build.unwrap_or(Build::Small),
            100,
        )];
    }
    PLAN.iter().filter(chosen).copied().collect()
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = program::seed("difftest", options.seed);
    let runs = plan(&options);
    let shares: u64 = runs.iter().map(|run| run.share).sum();
    let mut score = Score::default();
    let mut operations = 0;
    for run in &runs {
        let ops = (options.ops * run.share / shares).max(1);
        let started = Instant::now();
        let name = format!(
            "{} {} {}",
            value_name(run.mode),
            value_name(run.rate),
            value_name(run.build)
        );
        match run.execute(seed, ops, &options) {
            Ok(totals) => {
                score.count(true);
                operations += totals.operations;
                println!(
                    "{name}: {} operations, {} outputs and {} times all counters equal, \
                     {} us simulated in {:.1} s",
                    totals.operations,
                    totals.outputs,
                    totals.counter_checks,
                    totals.time_ps / 1_000_000,
                    started.elapsed().as_secs_f64()
                );
            }
            Err((totals, error)) => {
                score.count(false);
                println!("{name}: MISMATCH\n{error}");
                let options = run.options(seed, totals.operations.max(1));
                program::print_again("difftest", &options);
            }
        }
    }
    println!("difftest: {operations} operations compared, seed {seed}");
    score.finish()
}
