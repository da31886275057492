// SPDX-License-Identifier: Apache-2.0
//! `faulttest`: runs the fault matrix.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use check::faulttest::matrix::{ResetScale, Scale, fuzz_plans, plans, reset_plans};
use check::faulttest::plan::Plan;
use check::faulttest::sim::{Report, Resets, Sim};
use check::program::{self, Score};
use clap::Parser;

/// Pairs of NICs, RTL and model, over channels with every fault a network has.
///
/// Every store must arrive once and in order, or be reported; the receivers' memories are compared
/// at every quiet moment. The seed is printed first; the same seed and options give the same run.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// Seed of everything that is random; from the clock if absent.
    #[arg(long, env = "IPNUMA_SEED")]
    seed: Option<u64>,
    /// The long form: ten times the stores.
    #[arg(long)]
    full: bool,
    /// Run only the cells whose names contain this.
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,
    /// Stores of each cell, instead of its own number.
    #[arg(long)]
    stores: Option<u64>,
    /// Fuzz a NIC instead: with this many frames of each format, with and without keys.
    #[arg(long, value_name = "FRAMES", num_args = 0..=1, default_missing_value = "1000000")]
    fuzz: Option<u64>,
    /// Reset one side of a NIC at any moment instead, take its link and bus-master enable away, and draw what its host
    /// sets; with --full a million stores.
    #[arg(long, conflicts_with = "fuzz")]
    resets: bool,
    /// Print the names of the cells.
    #[arg(long)]
    list: bool,
    /// Write waves of the first cell to this FST file; use it with few stores.
    #[arg(long, value_name = "FILE")]
    waves: Option<PathBuf>,
    /// Print all counters of a cell at its end.
    #[arg(long, short)]
    verbose: bool,
    /// Cells that run at the same time.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// What one cell gave.
struct Outcome {
    plan: Plan,
    seconds: f64,
    result: Result<Report, String>,
}

/// A cell's own seed does not depend on which others run.
fn cell_seed(seed: u64, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, name).hash(&mut hasher);
    hasher.finish()
}

fn run(plan: &Plan, seed: u64, options: &Options) -> Result<Report, String> {
    let mut sim = Sim::new(plan.clone(), cell_seed(seed, &plan.name))?;
    if let Some(file) = &options.waves {
        sim.trace(file)?;
    }
    let report = sim.run()?;
    if options.verbose {
        println!("{}:\n{}", plan.name, sim.state());
    }
    Ok(report)
}

fn print_header() {
    println!(
        "{:36} {:>8} {:>8} {:>7} {:>6} {:>7} {:>7} {:>7} {:>6} {:>5} {:>5} {:>9} {:>6}",
        "cell",
        "stores",
        "frames",
        "resends",
        "t-outs",
        "dupl.",
        "gaps",
        "broken",
        "refus.",
        "lost",
        "anew",
        "us",
        "s"
    );
}

fn print_outcome(outcome: &Outcome) {
    let (name, seconds) = (&outcome.plan.name, outcome.seconds);
    match &outcome.result {
        Ok(report) => println!(
            "{name:36} {:>8} {:>8} {:>7} {:>6} {:>7} {:>7} {:>7} {:>6} {:>5} {:>5} {:>9} {seconds:>6.1}  ok{}",
            report.tally.stores,
            report.channel.sent + report.fuzzed,
            report.resends,
            report.timeouts,
            report.duplicates,
            report.gaps,
            report.broken,
            report.tally.refused,
            report.lost_peers,
            report.anew,
            report.time_ps / 1_000_000,
            match report.rekeyed {
                0 => String::new(),
                keys => format!(", new keys {keys} times"),
            },
        ),
        Err(error) => println!("{name:36} FAILED after {seconds:.1} s\n{error}"),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let scale = if options.full {
        Scale::FULL
    } else {
        Scale::SHORT
    };
    let mut plans = match options.fuzz {
        Some(frames) => fuzz_plans(frames),
        None if options.resets && options.full => reset_plans(ResetScale::FULL),
        None if options.resets => reset_plans(ResetScale::SHORT),
        None => plans(scale),
    };
    if let Some(part) = &options.cell {
        plans.retain(|plan| plan.name.contains(part.as_str()));
    }
    if let Some(stores) = options.stores {
        plans.iter_mut().for_each(|plan| plan.stores = stores);
    }
    if options.list {
        plans.iter().for_each(|plan| println!("{}", plan.name));
        return ExitCode::SUCCESS;
    }
    if plans.is_empty() {
        eprintln!("error: no cell has this name; --list shows them");
        return ExitCode::FAILURE;
    }
    let seed = program::seed("faulttest", options.seed);
    if options.waves.is_some() {
        plans.truncate(1);
    }
    print_header();
    let queue: Mutex<VecDeque<Plan>> = Mutex::new(plans.into());
    let outcomes: Mutex<Vec<Outcome>> = Mutex::new(Vec::new());
    let work = || loop {
        let next = queue.lock().map_or(None, |mut queue| queue.pop_front());
        let Some(plan) = next else { return };
        let started = Instant::now();
        let attempt = AssertUnwindSafe(|| run(&plan, seed, &options));
        let result = catch_unwind(attempt)
            .unwrap_or_else(|_| Err("the test itself panicked, see above".to_owned()));
        let outcome = Outcome {
            plan,
            seconds: started.elapsed().as_secs_f64(),
            result,
        };
        if let Ok(mut outcomes) = outcomes.lock() {
            print_outcome(&outcome);
            outcomes.push(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    summary(&outcomes, seed)
}

fn print_resets(outcomes: &[Outcome]) {
    let mut sum = Resets::default();
    for report in outcomes
        .iter()
        .filter_map(|outcome| outcome.result.as_ref().ok())
    {
        sum += report.resets;
    }
    if sum.function_level + sum.functions + sum.network + sum.both > 0 {
        println!(
            "resets: {} function-level, {} of functions of shells, {} of the network side, {} of both, {} of models; {} frames and {} TLPs cut; \
             bus-master enable taken away {} times, the link {}; {} events lost and told so; identities: {} DWs in memory, \
             {} stores on the wire; {} registers read after a reset",
            sum.function_level,
            sum.functions,
            sum.network,
            sum.both,
            sum.models,
            sum.frames_cut,
            sum.tlps_cut,
            sum.masters,
            sum.links,
            sum.events_lost,
            sum.looked_at.0,
            sum.looked_at.1,
            sum.probes,
        );
    }
}

fn summary(outcomes: &[Outcome], seed: u64) -> ExitCode {
    let (mut on_rtl, mut all) = (0, 0);
    for outcome in outcomes {
        if let Ok(report) = &outcome.result {
            all += report.tally.stores;
            if outcome.plan.ends.iter().any(|kind| kind.is_rtl()) {
                on_rtl += report.tally.stores;
            }
        }
    }
    println!("faulttest: {all} stores, {on_rtl} of them with RTL, seed {seed}");
    print_resets(outcomes);
    let mut score = Score::default();
    for outcome in outcomes {
        score.count(outcome.result.is_ok());
        if outcome.result.is_ok() {
            continue;
        }
        let plan = &outcome.plan;
        let size = match plan.fuzz {
            Some((_, frames)) => format!("--fuzz {frames}"),
            None if plan.one_sided > 0 => format!("--resets --stores {}", plan.stores),
            None => format!("--stores {}", plan.stores),
        };
        let options = format!("--cell {} --seed {seed} {size}", plan.name);
        program::print_again("faulttest", &options);
    }
    score.finish()
}
