// SPDX-License-Identifier: Apache-2.0
//! The evaluation as drawings.

use std::path::Path;

use ::offload::{Outcome, Policy, mix};
use rack::Error;

use super::Report;
use crate::plot::drawing::{self, Drawing, Points, Series};

/// A series for each policy of a table, in its order.
fn series(report: &Report, id: &str, point: impl Fn(&Outcome) -> (f64, f64)) -> Vec<Series> {
    let mut found: Vec<(Policy, Points)> = Vec::new();
    let tables = report.tables.iter().filter(|table| table.id == id);
    for row in tables.flat_map(|table| &table.rows) {
        let policy = row.outcome.scenario.policy;
        let point = point(&row.outcome);
        match found.iter_mut().find(|(known, _)| *known == policy) {
            Some((_, points)) => points.push(point),
            None => found.push((policy, vec![point])),
        }
    }
    let series = found.into_iter().map(|(policy, points)| Series {
        name: policy.to_string(),
        points,
    });
    series.collect()
}

/// What the line allows, by payload.
fn theory() -> Series {
    let lengths = (1..=9).map(|kib| kib * 1024);
    let point = |bytes: u64| (bytes as f64, mix::ceiling_gbps(1, bytes));
    Series {
        name: "ceiling of the line".to_owned(),
        points: lengths.map(point).collect(),
    }
}

/// Writes an SVG for each table that has a drawing and is there.
pub fn write(report: &Report, directory: &Path) -> Result<(), Error> {
    let kib = |outcome: &Outcome| outcome.scenario.window as f64 / 1024.0;
    let payload = |outcome: &Outcome| {
        let mean = f64::from(outcome.scenario.mix.most());
        (mean, outcome.goodput_gbps)
    };
    let mut figure_8 = series(report, "figure-8", payload);
    if !figure_8.is_empty() {
        figure_8.push(theory());
    }
    let percent = "goodput, % of the ceiling";
    let drawings = [
        (
            "figure-8.svg",
            "Figure 8: payloads of one length",
            ("payload, bytes", "goodput, Gb/s"),
            figure_8,
        ),
        (
            "windows.svg",
            "Mixed payloads (1024 to 8192 bytes), five analyzers of 2 Gb/s",
            ("window, KiB", percent),
            series(report, "windows", |outcome| {
                (kib(outcome), outcome.ceiling_percent)
            }),
        ),
        (
            "lag.svg",
            "From a segment's last byte in until it counts: 99 of 100 segments",
            ("window, KiB", "us"),
            series(report, "windows", |outcome| {
                (kib(outcome), outcome.commit_lag_us.p99)
            }),
        ),
        (
            "analyzers.svg",
            "Mixed payloads by analyzers of 2 Gb/s, window 128 KiB",
            ("analyzers", percent),
            series(report, "analyzers", |outcome| {
                (
                    outcome.scenario.hardware.analyzers as f64,
                    outcome.ceiling_percent,
                )
            }),
        ),
        (
            "corruption.svg",
            "Mixed payloads by wrong checksums: one in 10 to this power",
            ("wrong checksums, one in 10^x segments", percent),
            series(report, "corruption", |outcome| {
                (
                    -outcome.scenario.corruption.log10(),
                    outcome.ceiling_percent,
                )
            }),
        ),
    ];
    let drawings = drawings.map(|(name, title, (x, y), series)| {
        let drawing = Drawing {
            title,
            x,
            y,
            from_zero: name != "corruption.svg",
            series,
        };
        (name, drawing)
    });
    drawing::write(directory, drawings)
}
