// SPDX-License-Identifier: Apache-2.0
//! Which tables the lookup is tried with, and how hard.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use fib::synth::Table;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::switchtest::lookup::{LookupBench, Routes};

/// How much is asked of a table.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Random addresses a family.
    pub random: u32,
    /// Prefixes a family whose edges are asked, five addresses each; `None` for all.
    pub edges: Option<usize>,
    /// Changes of routes, after which all is asked again.
    pub changes: u32,
}

/// Where a table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The Internet's, which `crates/fib/tools/fetch-routes` brings.
    Real,
    /// Made up, with so many prefixes.
    Synthetic {
        /// IPv4.
        v4: u32,
        /// IPv6.
        v6: u32,
    },
}

impl Source {
    /// The prefixes.
    pub fn table(self, seed: u64) -> Result<Table, String> {
        match self {
            Self::Real => real(),
            Self::Synthetic { v4, v6 } => Ok(Table::synthetic(seed, v4, v6)),
        }
    }

    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real table",
            Self::Synthetic { .. } => "synthetic table",
        }
    }
}

/// Brings the real table, once.
fn real() -> Result<Table, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fib/tools/fetch-routes");
    let output = Command::new(&script).output();
    let output = output.map_err(|error| format!("{}: {error}", script.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(String::from_utf8_lossy(&output.stdout).trim());
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Table::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Tries the lookup with a table; says how it went.
pub fn run(source: Source, effort: Effort, seed: u64) -> Result<String, String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let started = Instant::now();
    let mut routes = Routes::new(&source.table(random.random())?, &mut random)?;
    let built = started.elapsed();
    let mut bench = LookupBench::new()?;
    bench.load(&routes.fib)?;
    let loaded = started.elapsed();
    let count = routes.count();

    ask(&routes, &mut bench, effort, &mut random)?;
    let before = bench.totals();
    routes.churn(effort.changes, &mut random, |ops| bench.apply(ops))?;
    let changed = bench.totals();
    if effort.changes > 0 {
        ask(&routes, &mut bench, effort, &mut random)?;
    }
    let totals = bench.totals();
    let [latency4, latency6] = bench.latency();
    Ok(format!(
        "{}: {} + {} routes, {} IPv4 and {} IPv6 answers right ({:.0} % hits), each after {latency4} \
         and {latency6} cycles; {} changes of {:.1} words; built in {:.1} s, {} words loaded in \
         {:.1} s, {:.1} s in all, {:.0} kHz",
        source.name(),
        count[0],
        count[1],
        totals.answers4,
        totals.answers6,
        100.0 * totals.hits as f64 / (totals.answers4 + totals.answers6).max(1) as f64,
        effort.changes,
        (changed.words - before.words) as f64 / f64::from(effort.changes.max(1)),
        built.as_secs_f64(),
        before.words,
        (loaded - built).as_secs_f64(),
        started.elapsed().as_secs_f64(),
        totals.edges as f64 / (started.elapsed() - built).as_secs_f64() / 1e3,
    ))
}

fn ask(
    routes: &Routes,
    bench: &mut LookupBench,
    effort: Effort,
    random: &mut ChaCha8Rng,
) -> Result<(), String> {
    routes.ask_random(bench, effort.random, random)?;
    routes.ask_edges(bench, effort.edges, random)
}
