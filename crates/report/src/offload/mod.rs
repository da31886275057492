// SPDX-License-Identifier: Apache-2.0
//! The evaluation of the parallel TCP offload engine: the document's figure 8 and table 3, and what lies beyond.

mod plot;

use std::fmt::Write;

use ::offload::{Hardware, Mix, Outcome, Policy, Scenario};
use serde::Serialize;

use crate::Failure;
use crate::paper::published;
use crate::text;

pub use plot::write;

/// What this project's default must have.
const LEAST_PERCENT: f64 = 99.0;
/// The same with one segment damaged in ten thousand.
const LEAST_PERCENT_DAMAGED: f64 = 95.0;
const DAMAGED: f64 = 1e-4;
/// Bytes of window that are enough.
const WINDOW: u64 = 128 * 1024;
/// The document gives neither its window nor its sender's recovery time. These are the ones at which the counter and the
/// naive way come near to its two figures.
const FITTED_WINDOW: u64 = 448 * 1024;
const FITTED_RECOVERY_US: u64 = 14_000;
/// How far from the document's figure the counter may be.
const NEAR_PERCENT: f64 = 2.0;
/// Naive parallel analysis has collapsed below that.
const COLLAPSE_PERCENT: f64 = 5.0;

/// A run in a table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What the document has, Gb/s.
    pub published_gbps: Option<f64>,
    /// What came out.
    pub outcome: Outcome,
}

/// Runs that belong together.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// For plots and JSON.
    pub id: &'static str,
    /// What is compared.
    pub title: String,
    /// In order.
    pub rows: Vec<Row>,
}

/// Something that must hold.
#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    /// What.
    pub sentence: String,
    /// The figure that came out.
    pub found: f64,
    /// Whether it holds.
    pub holds: bool,
}

/// The evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How long each run was, in virtual milliseconds.
    pub duration_ms: f64,
    /// What all runs draw from.
    pub seed: u64,
    /// In order.
    pub tables: Vec<Table>,
    /// What must hold; empty for a sweep.
    pub goals: Vec<Goal>,
}

/// What a sweep goes through: all with all.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Lengths of payloads.
    pub mixes: Vec<Mix>,
    /// When packets count.
    pub policies: Vec<Policy>,
    /// Analyzers.
    pub analyzers: Vec<usize>,
    /// Bytes.
    pub windows: Vec<u64>,
    /// Probabilities.
    pub corruptions: Vec<f64>,
    /// Microseconds.
    pub recoveries_us: Vec<u64>,
}

impl Sweep {
    /// Whether nothing is to be gone through.
    pub fn is_empty(&self) -> bool {
        self.mixes.is_empty()
            && self.policies.is_empty()
            && self.analyzers.is_empty()
            && self.windows.is_empty()
            && self.corruptions.is_empty()
            && self.recoveries_us.is_empty()
    }
}

fn run(scenario: Scenario) -> Result<Outcome, Failure> {
    scenario.run().map_err(Failure::from)
}

fn table(
    id: &'static str,
    title: impl Into<String>,
    scenarios: impl IntoIterator<Item = (Option<f64>, Scenario)>,
) -> Result<Table, Failure> {
    let rows: Result<Vec<_>, Failure> = scenarios
        .into_iter()
        .map(|(published_gbps, scenario)| {
            Ok(Row {
                published_gbps,
                outcome: run(scenario)?,
            })
        })
        .collect();
    Ok(Table {
        id,
        title: title.into(),
        rows: rows?,
    })
}

fn or<T: Copy>(some: &[T], one: T) -> Vec<T> {
    if some.is_empty() {
        vec![one]
    } else {
        some.to_vec()
    }
}

/// All combinations.
pub fn sweep(base: Scenario, sweep: &Sweep) -> Result<Report, Failure> {
    let mut scenarios = Vec::new();
    for mix in or(&sweep.mixes, base.mix) {
        for policy in or(&sweep.policies, base.policy) {
            for analyzers in or(&sweep.analyzers, base.hardware.analyzers) {
                for window in or(&sweep.windows, base.window) {
                    for corruption in or(&sweep.corruptions, base.corruption) {
                        for recovery_us in or(&sweep.recoveries_us, base.recovery_us) {
                            let hardware = Hardware {
                                analyzers,
                                ..base.hardware
                            };
                            let scenario = Scenario {
                                hardware,
                                policy,
                                mix,
                                window,
                                recovery_us,
                                corruption,
                                ..base
                            };
                            scenarios.push((None, scenario));
                        }
                    }
                }
            }
        }
    }
    Ok(Report {
        duration_ms: base.duration_us as f64 / 1e3,
        seed: base.seed,
        tables: vec![table("sweep", "all combinations", scenarios)?],
        goals: Vec::new(),
    })
}

/// The document's figures and what lies beyond them; durations and seed are `base`'s.
pub fn evaluate(base: Scenario) -> Result<Report, Failure> {
    let document = Scenario {
        hardware: Hardware::DOCUMENT,
        window: FITTED_WINDOW,
        recovery_us: FITTED_RECOVERY_US,
        ..base
    };
    let ours = Scenario {
        hardware: Hardware::OURS,
        window: WINDOW,
        ..base
    };
    let counter = Policy::Counter { stall: None };
    let tables = vec![
        figure_8(document, ours)?,
        table_3(document, ours)?,
        table(
            "mixes",
            "other mixes, the document's clock and analyzers",
            [Mix::Uniform(1024), Mix::SKEWED]
                .into_iter()
                .flat_map(|mix| {
                    [
                        counter,
                        Policy::Counter { stall: Some(32) },
                        Policy::DEFAULT,
                    ]
                    .map(|policy| {
                        let scenario = Scenario {
                            mix,
                            policy,
                            ..ours
                        };
                        (None, scenario)
                    })
                }),
        )?,
        windows(ours)?,
        analyzers(ours)?,
        corruption(ours)?,
        recovery(document)?,
        fast(ours)?,
    ];
    let goals = goals(&tables);
    Ok(Report {
        duration_ms: base.duration_us as f64 / 1e3,
        seed: base.seed,
        tables,
        goals,
    })
}

fn figure_8(document: Scenario, ours: Scenario) -> Result<Table, Failure> {
    let both = Mix::FIGURE_8.into_iter().flat_map(|mix| {
        let naive = Scenario {
            mix,
            policy: Policy::Naive,
            ..document
        };
        [(None, naive), (None, Scenario { mix, ..ours })]
    });
    table(
        "figure-8",
        "figure 8: payloads of one length; the document draws it near the ceiling",
        both,
    )
}

fn table_3(document: Scenario, ours: Scenario) -> Result<Table, Failure> {
    let naive = published("offload_mixed_naive")?.map(|mbps| mbps / 1e3);
    let proposed = published("offload_mixed_counter")?;
    let with = |policy| Scenario { policy, ..document };
    table(
        "table-3",
        "table 3: payloads of 1024 to 8192 bytes",
        [
            (naive, slow(with(Policy::Naive))),
            (None, with(Policy::Reassembly)),
            (proposed, with(Policy::Counter { stall: None })),
            (None, with(Policy::Counter { stall: Some(32) })),
            (None, ours),
        ],
    )
}

/// KiB.
const WINDOWS: [u64; 6] = [48, 64, 96, 128, 256, 448];

fn windows(ours: Scenario) -> Result<Table, Failure> {
    let all = Policy::ALL.into_iter().flat_map(|policy| {
        WINDOWS.map(|kib| {
            let scenario = Scenario {
                policy,
                window: kib * 1024,
                ..ours
            };
            (None, scenario)
        })
    });
    table("windows", "policies by window, mixed payloads", all)
}

fn analyzers(ours: Scenario) -> Result<Table, Failure> {
    let all = [
        Policy::Reassembly,
        Policy::Counter { stall: None },
        Policy::DEFAULT,
    ]
    .into_iter()
    .flat_map(|policy| {
        (1..=8).map(move |analyzers| {
            let hardware = Hardware {
                analyzers,
                ..ours.hardware
            };
            let scenario = Scenario {
                policy,
                hardware,
                ..ours
            };
            (None, scenario)
        })
    });
    table("analyzers", "policies by analyzers, mixed payloads", all)
}

/// Runs with few damaged segments are that much longer.
const LONGER: u64 = 10;

fn corruption(ours: Scenario) -> Result<Table, Failure> {
    let policies = [
        Policy::Counter { stall: None },
        Policy::Epochs {
            epochs: 8,
            packets: 16,
        },
        Policy::Epochs {
            epochs: 8,
            packets: 4,
        },
        Policy::Epochs {
            epochs: 8,
            packets: 8,
        },
        Policy::DEFAULT,
    ];
    let all = policies.into_iter().flat_map(|policy| {
        [1e-5, DAMAGED, 1e-3].map(|corruption| {
            let scenario = Scenario {
                policy,
                corruption,
                duration_us: ours.duration_us * LONGER,
                ..ours
            };
            (None, scenario)
        })
    });
    table(
        "corruption",
        "policies by rate of wrong checksums past the FCS, mixed payloads",
        all,
    )
}

/// As long as many time-outs.
fn slow(scenario: Scenario) -> Scenario {
    Scenario {
        duration_us: scenario.duration_us.max(40 * scenario.recovery_us),
        ..scenario
    }
}

/// Microseconds: that of RFC 6298, Linux' least, and less.
const RECOVERIES: [u64; 6] = [1_000_000, 200_000, 40_000, FITTED_RECOVERY_US, 5_000, 1_000];

fn recovery(document: Scenario) -> Result<Table, Failure> {
    let all = RECOVERIES.map(|recovery_us| {
        let scenario = Scenario {
            policy: Policy::Naive,
            recovery_us,
            ..document
        };
        (None, slow(scenario))
    });
    table(
        "recovery",
        "naive parallel analysis by the sender's least time-out, mixed payloads",
        all,
    )
}

fn fast(ours: Scenario) -> Result<Table, Failure> {
    let iterative = Hardware {
        analyzers: 8,
        bytes_per_cycle: 1.0,
        ..Hardware::FAST
    };
    let wide = |analyzers| Hardware {
        analyzers,
        ..Hardware::FAST
    };
    let counter = Policy::Counter { stall: None };
    let all = [
        (wide(1), Policy::Single),
        (wide(2), counter),
        (wide(2), Policy::DEFAULT),
        (iterative, counter),
        (iterative, Policy::DEFAULT),
    ];
    let all = all.map(|(hardware, policy)| {
        let scenario = Scenario {
            hardware,
            policy,
            ..ours
        };
        (None, scenario)
    });
    table(
        "fast",
        "156.25 MHz: 8 bytes a cycle, and a payload function of 1 byte a cycle, mixed payloads",
        all,
    )
}

/// The rows of a table with this policy.
fn of<'a>(tables: &'a [Table], id: &str, policy: Policy) -> impl Iterator<Item = &'a Outcome> {
    let found = tables.iter().find(|table| table.id == id);
    let rows = found.map_or(&[][..], |table| &table.rows);
    let outcomes = rows.iter().map(|row| &row.outcome);
    outcomes.filter(move |outcome| outcome.scenario.policy == policy)
}

fn goals(tables: &[Table]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut goal = |sentence: String, found: f64, holds: bool| {
        goals.push(Goal {
            sentence,
            found,
            holds,
        });
    };
    for outcome in of(tables, "figure-8", Policy::Naive) {
        goal(
            format!(
                "figure 8, {} bytes: at least {LEAST_PERCENT} % of the ceiling",
                outcome.scenario.mix
            ),
            outcome.ceiling_percent,
            outcome.ceiling_percent >= LEAST_PERCENT,
        );
    }
    let proposed = Policy::Counter { stall: None };
    for row in tables.iter().flat_map(|table| &table.rows) {
        if let (Some(published), true) =
            (row.published_gbps, row.outcome.scenario.policy == proposed)
        {
            let percent = 100.0 * (row.outcome.goodput_gbps / published - 1.0);
            goal(
                format!("table 3, counter: within {NEAR_PERCENT} % of {published} Gb/s"),
                percent,
                percent.abs() <= NEAR_PERCENT,
            );
        }
    }
    for outcome in of(tables, "table-3", Policy::Naive) {
        goal(
            format!(
                "table 3, naive: collapses below {COLLAPSE_PERCENT} % of the ceiling (least time-out {} ms)",
                outcome.scenario.recovery_us as f64 / 1e3
            ),
            outcome.ceiling_percent,
            outcome.ceiling_percent < COLLAPSE_PERCENT,
        );
    }
    let default = |id| of(tables, id, Policy::DEFAULT);
    let mut at_least = |name: &str, least: f64, outcome: &Outcome| {
        goal(
            format!(
                "{name}, {}: at least {least} % of the ceiling with {} KiB",
                outcome.scenario.policy,
                outcome.scenario.window / 1024
            ),
            outcome.ceiling_percent,
            outcome.ceiling_percent >= least,
        );
    };
    for outcome in default("table-3") {
        at_least("mixed", LEAST_PERCENT, outcome);
    }
    for outcome in default("mixes") {
        at_least(
            &format!("{} bytes", outcome.scenario.mix),
            LEAST_PERCENT,
            outcome,
        );
    }
    for outcome in default("corruption") {
        if outcome.scenario.corruption == DAMAGED {
            at_least("mixed, 1e-4 damaged", LEAST_PERCENT_DAMAGED, outcome);
        }
    }
    goals
}

impl Report {
    /// Whether all goals are met.
    pub fn holds(&self) -> bool {
        self.goals.iter().all(|goal| goal.holds)
    }

    /// As a text.
    pub fn show(&self) -> String {
        let mut out = text::wrap(
            &format!(
                "One connection at 10G through the offload engine (a model): {} ms of virtual time, seed {}. Nothing was \
                 acknowledged whose checksum had not passed.",
                self.duration_ms, self.seed
            ),
            0,
        );
        for table in &self.tables {
            let _ = writeln!(out, "\n{}", table.title);
            out += &head(table);
            for row in &table.rows {
                out += &line(row);
            }
        }
        if !self.goals.is_empty() {
            out += "\nGoals\n";
        }
        for goal in &self.goals {
            let mark = if goal.holds { "holds" } else { "MISSED" };
            let _ = writeln!(out, "  {mark:<7}{:<78}{:>9.2} %", goal.sentence, goal.found);
        }
        out
    }
}

fn head(table: &Table) -> String {
    let published = match table.rows.iter().any(|row| row.published_gbps.is_some()) {
        true => "  published",
        false => "",
    };
    format!(
        "  {:<11}{:<11}{:>2}{:>6}{:>7}{:>8}{:>8}{:>7}{:>7}{:>16}{:>7}{published}\n",
        "policy",
        "payload",
        "N",
        "KiB",
        "bad",
        "min RTO",
        "Gb/s",
        "%",
        "ACK/ms",
        "lag us 50/99",
        "again"
    )
}

fn line(row: &Row) -> String {
    let outcome = &row.outcome;
    let scenario = &outcome.scenario;
    let bad = match scenario.corruption {
        0.0 => "-".to_owned(),
        rate => format!("{rate:.0e}"),
    };
    let lag = format!(
        "{:.0}/{:.0}",
        outcome.commit_lag_us.median, outcome.commit_lag_us.p99
    );
    let published = row
        .published_gbps
        .map_or(String::new(), |gbps| format!("{gbps:>11}"));
    let analyzers = match scenario.policy {
        Policy::Single => 1,
        _ => scenario.hardware.analyzers,
    };
    let line = format!(
        "  {:<11}{:<11}{:>2}{:>6}{bad:>7}{:>8}{:>8.3}{:>7.2}{:>7.1}{lag:>16}{:>7}{published}",
        scenario.policy.to_string(),
        scenario.mix.to_string(),
        analyzers,
        scenario.window / 1024,
        format!("{}ms", scenario.recovery_us as f64 / 1e3),
        outcome.goodput_gbps,
        outcome.ceiling_percent,
        outcome.acks_per_ms,
        outcome.sender.retransmissions,
    );
    line.trim_end().to_owned() + "\n"
}
