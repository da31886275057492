// SPDX-License-Identifier: Apache-2.0
//! `difftest`: runs the differential test.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum};
use difftest::bench::{Bench, Load, Totals};
use difftest::dut::{Dut, ModelDut, RtlDut};
use difftest::world::World;
use ipnuma_rtl::NetSpeed;
use model::Config;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The NIC's RTL against the reference model.
///
/// Without --mode, --rate and --build all of them are run, with --ops shared out among them. The
/// seed is printed first; the same seed and options give the same run.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// Seed of the random operations; from the clock if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Operations (TLPs to the NIC and frames to the NIC).
    #[arg(long, default_value_t = 1_000_000)]
    ops: u64,
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
    run(Mode::Exact, Rate::TenGig, Build::Small, 55),
    run(Mode::Exact, Rate::OneGig, Build::Small, 10),
    run(Mode::Exact, Rate::TenGig, Build::Full, 20),
    run(Mode::Exact, Rate::OneGig, Build::Full, 3),
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

fn value_name(value: impl ValueEnum) -> String {
    let name = value.to_possible_value().map(|v| v.get_name().to_owned());
    name.unwrap_or_default()
}

impl Run {
    fn options(&self, seed: u64, ops: u64) -> String {
        let (mode, rate) = (value_name(self.mode), value_name(self.rate));
        let build = value_name(self.build);
        format!("--mode {mode} --rate {rate} --build {build} --seed {seed} --ops {ops}")
    }

    fn execute(&self, seed: u64, ops: u64, verbose: bool) -> Result<Totals, (Totals, String)> {
        let early = |error| (Totals::default(), error);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let speed = match self.rate {
            Rate::TenGig => NetSpeed::TenGig,
            Rate::OneGig => NetSpeed::OneGig,
        };
        let small = self.build == Build::Small;
        let config = Config {
            pages: if small { 1024 } else { 262_144 },
            completer_id: rng.random(),
            ..Config::default()
        };
        let dut_rng = ChaCha8Rng::seed_from_u64(rng.random());
        let dut: Box<dyn Dut> = match self.mode {
            Mode::Exact | Mode::Stress => {
                let dut = RtlDut::new(speed, small, config.completer_id, dut_rng);
                Box::new(dut.map_err(early)?)
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
        if verbose {
            for (name, value) in bench.counters() {
                println!("  {name:28} {value:>9}");
            }
        }
        let totals = bench.totals();
        let missing = bench.never_counted();
        let result = result.and_then(|()| {
            if ops >= REACHES_ALL && !missing.is_empty() {
                return Err(format!("these counters never counted: {missing:?}"));
            }
            Ok(())
        });
        result.map(|()| totals).map_err(|error| (totals, error))
    }
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
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |time| time.as_secs())
    });
    println!("difftest: seed {seed}");
    let runs = plan(&options);
    let shares: u64 = runs.iter().map(|run| run.share).sum();
    let (mut passed, mut failed) = (0, 0);
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
        match run.execute(seed, ops, options.verbose) {
            Ok(totals) => {
                passed += 1;
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
                failed += 1;
                println!("{name}: MISMATCH\n{error}");
                println!(
                    "again: cargo run --release -p difftest -- {}",
                    run.options(seed, totals.operations.max(1))
                );
            }
        }
    }
    println!("difftest: {operations} operations compared, seed {seed}");
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
