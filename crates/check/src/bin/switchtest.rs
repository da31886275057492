// SPDX-License-Identifier: Apache-2.0
//! `switchtest`: runs the tests of the switch.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use check::program::{self, Score, value_name};
use check::switchtest::differential::{self, Totals};
use check::switchtest::resets;
use check::switchtest::tables::{self, Effort, Source};
use check::switchtest::updates::{self, Traffic};
use check::switchtest::whole;
use clap::{Parser, ValueEnum};
use ipnuma_rtl::NetSpeed;
use model::switch::Verdict;

/// The switch's RTL against reference models.
///
/// Without --mode all is run, in its short form, on two threads. The seed is printed first; the same seed and
/// options give the same run.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// Seed of everything random; from the clock if absent.
    #[arg(long, env = "IPNUMA_SEED")]
    seed: Option<u64>,
    /// Frames of the differential test, a million by default; or with --resets, of which --full has a million.
    #[arg(long)]
    frames: Option<u64>,
    /// Changes of routes under traffic.
    #[arg(long, default_value_t = 100_000)]
    changes: u64,
    /// What is tested.
    #[arg(long)]
    mode: Option<Mode>,
    /// Resets of receive sides and of the core, and links that fail, instead of all modes.
    #[arg(long, conflicts_with_all = ["mode", "changes"])]
    resets: bool,
    /// Line rate of the differential test, or with --resets; without it both, 10G mostly.
    #[arg(long)]
    rate: Option<Rate>,
    /// Write waves of a differential run, or of --resets, to this FST file; use it with --rate and few frames.
    #[arg(long, value_name = "FILE", requires = "rate")]
    waves: Option<PathBuf>,
    /// The long form: the real table too, and the edges of all prefixes.
    #[arg(long)]
    full: bool,
}

/// A table of the next years; the real one must be brought first and is for the long forms.
const SYNTHETIC: Source = Source::Synthetic {
    v4: 1_200_000,
    v6: 280_000,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Random and malformed frames on all ports, against the reference model.
    Differential,
    /// Routes that change while all ports forward at line rate.
    Updates,
    /// The lookup alone with large tables, against another longest-prefix match.
    Tables,
    /// The whole switch with one route and with a full table.
    Latency,
}

/// All but the differential test.
const OTHERS: [Mode; 3] = [Mode::Tables, Mode::Latency, Mode::Updates];

/// Traffic under which routes change, with its share of the changes in percent.
const TRAFFIC: [(Traffic, u64); 2] = [(Traffic::Smallest, 80), (Traffic::Mixed, 20)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rate {
    #[value(name = "10g")]
    TenGig,
    #[value(name = "1g")]
    OneGig,
}

/// Line rates with their share of the frames in percent.
const RATES: [(Rate, u64); 2] = [(Rate::TenGig, 95), (Rate::OneGig, 5)];

/// Frames of the differential test.
const FRAMES: u64 = 1_000_000;
/// Frames between resets by rate, in the short form and in the long one: at 1G a frame takes more cycles.
const RESET_FRAMES: [[u64; 2]; 2] = [[12_000, 4_000], [900_000, 100_000]];

impl Options {
    /// Frames between resets at one rate; says how it went.
    fn resets(&self, rate: Rate, seed: u64) -> Result<String, String> {
        let [ten, one] = RESET_FRAMES[usize::from(self.full)];
        let (speed, count) = match rate {
            Rate::TenGig => (NetSpeed::TenGig, ten),
            Rate::OneGig => (NetSpeed::OneGig, one),
        };
        let frames = self.frames.unwrap_or(count);
        let started = Instant::now();
        let mut bench = resets::Bench::new(speed, seed, self.waves.as_deref())?;
        let result = bench.run(frames);
        let totals = bench.totals();
        result
            .map_err(|error| format!("frame {} of --frames {frames}:\n{error}", totals.frames))?;
        let seconds = started.elapsed().as_secs_f64();
        let counts = totals.counts;
        Ok(format!(
            "{} frames in {} epochs: {} resets of receive sides, {} of the core, {} links that failed; {} frames left whole, \
             {} of which had to, {} spoiled, {} cut, {} lost, {} found no room; {} counters equal; {:.0} frames/s, {:.0} kHz",
            totals.frames,
            totals.epochs,
            totals.resets,
            totals.cores,
            totals.failures,
            counts.good,
            counts.clean,
            counts.spoiled,
            counts.cut,
            counts.lost,
            totals.full,
            totals.counters,
            totals.frames as f64 / seconds,
            totals.cycles as f64 / seconds / 1e3
        ))
    }

    /// [`Options::resets`] at both rates at once, or at one.
    fn all_resets(&self, seed: u64) -> ExitCode {
        let rates = RATES.map(|(rate, _)| rate);
        let chosen = rates.into_iter();
        let chosen = chosen.filter(|rate| self.rate.is_none_or(|chosen| chosen == *rate));
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = chosen
                .map(|rate| (rate, scope.spawn(move || self.resets(rate, seed))))
                .collect();
            let join = |(rate, thread): (Rate, std::thread::ScopedJoinHandle<'_, _>)| {
                let panicked = || Err("it panicked".to_owned());
                (rate, thread.join().unwrap_or_else(|_| panicked()))
            };
            threads.into_iter().map(join).collect()
        });
        let mut score = Score::default();
        for (rate, result) in results {
            let name = value_name(rate);
            match &result {
                Ok(line) => println!("resets {name}: {line}"),
                Err(error) => {
                    println!("resets {name}: FAILED\n{error}");
                    let full = if self.full { " --full" } else { "" };
                    let frames = self
                        .frames
                        .map_or(String::new(), |count| format!(" --frames {count}"));
                    let options = format!("--resets --rate {name}{full}{frames} --seed {seed}");
                    program::print_again("switchtest", &options);
                }
            }
            score.count(result.is_ok());
        }
        score.finish()
    }

    /// Runs a mode; says how it went.
    fn run(&self, mode: Mode, seed: u64) -> Result<Vec<String>, String> {
        match mode {
            Mode::Differential => self.differential(seed),
            Mode::Updates => self.updates(seed),
            Mode::Tables => self.tables(seed),
            Mode::Latency => self.latency(seed),
        }
    }

    fn latency(&self, seed: u64) -> Result<Vec<String>, String> {
        let source = if self.full { Source::Real } else { SYNTHETIC };
        Ok(vec![whole::run(source, 400, seed)?])
    }

    fn updates(&self, seed: u64) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        for (traffic, share) in TRAFFIC {
            let started = Instant::now();
            let mut bench = updates::Bench::new(traffic, seed)?;
            let result = bench.run(self.changes * share / 100);
            let totals = bench.totals();
            result.map_err(|error| {
                let changes = totals.changes;
                format!(
                    "{traffic:?}, change {changes} of --changes {}:\n{error}",
                    self.changes
                )
            })?;
            let seconds = started.elapsed().as_secs_f64();
            lines.push(format!(
                "{traffic:?}: {} changes ({} more refused by a full table) under {} frames, {} of \
                 them while their route changed; latency {} to {} bytes; words a change: mean \
                 {:.1}, 99 % {}, most {}; {:.0} kHz",
                totals.changes,
                totals.refused,
                totals.frames,
                totals.between,
                totals.latency[0],
                totals.latency[1],
                totals.mean(),
                totals.quantile(990),
                totals.quantile(1000),
                totals.cycles as f64 / seconds / 1e3
            ));
        }
        Ok(lines)
    }

    fn differential(&self, seed: u64) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let mut sum = Totals::default();
        for (rate, share) in RATES {
            let all = self.frames.unwrap_or(FRAMES);
            let frames = match self.rate {
                Some(chosen) if chosen != rate => continue,
                Some(_) => all,
                None => all * share / 100,
            };
            let speed = match rate {
                Rate::TenGig => NetSpeed::TenGig,
                Rate::OneGig => NetSpeed::OneGig,
            };
            let started = Instant::now();
            let mut bench = differential::Bench::new(speed, seed, self.waves.as_deref())?;
            let result = bench.run(frames);
            let totals = bench.totals();
            let seconds = started.elapsed().as_secs_f64();
            result.map_err(|error| {
                let (rate, played) = (value_name(rate), totals.frames);
                format!("--rate {rate} --frames {played}:\n{error}")
            })?;
            lines.push(format!(
                "{}: {} frames, {} that came out and {} counters equal, {} dropped for want of \
                 room or refused, {} of these by the policers; {:.0} frames/s, {:.0} kHz",
                value_name(rate),
                totals.frames,
                totals.outputs,
                totals.counters,
                totals.full,
                totals.refused,
                totals.frames as f64 / seconds,
                totals.cycles as f64 / seconds / 1e3
            ));
            sum.add(totals);
        }
        let verdicts = Verdict::ALL.map(|verdict| {
            format!(
                "{verdict:?} {}",
                sum.verdicts[usize::from(verdict.number())]
            )
        });
        lines.push(verdicts.join(", "));
        if sum.frames >= differential::REACHES_ALL && !sum.never().is_empty() {
            return Err(format!("no frame had the verdict {:?}", sum.never()));
        }
        Ok(lines)
    }

    fn tables(&self, seed: u64) -> Result<Vec<String>, String> {
        let short = Effort {
            random: 1_000_000,
            edges: Some(200_000),
            changes: 2_000,
        };
        if !self.full {
            return Ok(vec![tables::run(SYNTHETIC, short, seed)?]);
        }
        let effort = Effort {
            edges: None,
            changes: 20_000,
            ..short
        };
        Ok(vec![
            tables::run(Source::Real, effort, seed)?,
            tables::run(SYNTHETIC, effort, seed)?,
        ])
    }
}

/// What one mode reported.
type Report = (Mode, Duration, Result<Vec<String>, String>);

fn report(options: &Options, seed: u64, (mode, time, result): Report) -> bool {
    let name = value_name(mode);
    match &result {
        Ok(lines) => {
            for line in lines {
                println!("{name}: {line}");
            }
            println!("{name}: {:.1} s", time.as_secs_f64());
        }
        Err(error) => {
            println!("{name}: FAILED\n{error}");
            let full = if options.full { " --full" } else { "" };
            program::print_again("switchtest", &format!("--mode {name}{full} --seed {seed}"));
        }
    }
    result.is_ok()
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = program::seed("switchtest", options.seed);
    if options.resets {
        return options.all_resets(seed);
    }
    let run = |modes: &[Mode]| -> Vec<Report> {
        let chosen = |mode: &&Mode| options.mode.is_none_or(|chosen| chosen == **mode);
        let timed = |&mode: &Mode| {
            let started = Instant::now();
            let result = options.run(mode, seed);
            (mode, started.elapsed(), result)
        };
        modes.iter().filter(chosen).map(timed).collect()
    };
    // The differential test takes as long as the others together.
    let (first, second) = std::thread::scope(|scope| {
        let others = scope.spawn(|| run(&OTHERS));
        let differential = run(&[Mode::Differential]);
        (others.join(), differential)
    });
    let mut score = Score::default();
    match first {
        Ok(reports) => {
            for entry in reports.into_iter().chain(second) {
                score.count(report(&options, seed, entry));
            }
        }
        Err(_) => score.count(false),
    }
    score.finish()
}
