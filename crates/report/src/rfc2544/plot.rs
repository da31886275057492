// SPDX-License-Identifier: Apache-2.0
//! The report as drawings.

use std::path::Path;

use ::rfc2544::Family;
use rack::Error;

use super::report::{Report, Row};
use crate::plot::drawing::{self, Drawing, Points, Series};

/// Writes throughput.svg, latency.svg, loss.svg and latency-histogram.svg, those that have data.
pub fn write(report: &Report, directory: &Path) -> Result<(), Error> {
    let by_size = |value: &dyn Fn(&Row) -> Option<f64>| {
        series(report, &|rows| {
            rows.iter()
                .filter_map(|row| Some((row.bytes as f64, value(row)?)))
                .collect()
        })
    };
    let rate = report.rate;
    let drawings = [
        (
            "throughput.svg",
            Drawing {
                title: &format!("Throughput, {rate}"),
                x: "frame size, bytes",
                y: "load without loss, %",
                from_zero: true,
                series: by_size(&|row| Some(row.throughput.as_ref()?.load.percent())),
            },
        ),
        (
            "latency.svg",
            Drawing {
                title: &format!("Latency by frame size, {rate}: worst of all frames"),
                x: "frame size, bytes",
                y: "ns",
                from_zero: true,
                series: by_size(&|row| Some(row.latency.as_ref()?.max_ns)),
            },
        ),
        (
            "loss.svg",
            Drawing {
                title: &format!("Frame loss rate, {rate}, smallest frames"),
                x: "load, %",
                y: "loss, %",
                from_zero: true,
                series: series(report, &|rows| {
                    let loss = rows.iter().find_map(|row| row.loss.as_ref());
                    let steps = loss.map_or(&[][..], |loss| &loss.steps);
                    steps
                        .iter()
                        .map(|step| (step.load.percent(), step.loss_percent))
                        .collect()
                }),
            },
        ),
        (
            "latency-histogram.svg",
            Drawing {
                title: &format!("Frames by latency, {rate}, smallest frames"),
                x: "ns",
                y: "frames",
                from_zero: false,
                series: series(report, &|rows| {
                    let latency = rows.iter().find_map(|row| row.latency.as_ref());
                    let bins = latency.map_or(&[][..], |latency| &latency.histogram);
                    bins.iter().map(|bin| (bin.ns, bin.frames as f64)).collect()
                }),
            },
        ),
    ];
    drawing::write(directory, drawings)
}

/// A series for each family that has points.
fn series(report: &Report, points: &dyn Fn(&[&Row]) -> Points) -> Vec<Series> {
    [Family::V4, Family::V6]
        .into_iter()
        .map(|family| {
            let rows: Vec<_> = report
                .rows
                .iter()
                .filter(|row| row.family == family)
                .collect();
            Series {
                name: family.name().to_owned(),
                points: points(&rows),
            }
        })
        .filter(|series| !series.points.is_empty())
        .collect()
}
