// SPDX-License-Identifier: Apache-2.0
//! Rows of section 7.4.1: a host that waits for messages, polling or by interrupts.

use std::collections::BTreeMap;

use rack::waiting::Costs;
use rack::{Error, Picoseconds, Topology};
use serde::Deserialize;

use super::Found;
use crate::plot::{Curve, Plot};
use crate::waiting::{Row, Sweep, Way, measure};

/// `run` of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    figure: Figure,
    /// How the host waits.
    by: Way,
    /// Messages a second.
    per_second: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    /// Load of the waiting host's processor, hundredths.
    Load,
    /// From the store until the program has seen it, mean, us.
    Latency,
}

/// As `ipnuma wait` has them if it is not told otherwise.
const MESSAGES: u64 = 200;
const SPIN: Picoseconds = Picoseconds::from_us(50);
const MODERATION_US: u16 = 5;

/// Runs, each made once.
#[derive(Default)]
pub struct Waits {
    known: BTreeMap<(Way, u64), Row>,
}

impl Waits {
    /// The figure of a row, between the hosts of `topology`.
    pub fn measure(&mut self, row: &Measurement, topology: Topology) -> Result<Found, Error> {
        let key = (row.by, row.per_second);
        if !self.known.contains_key(&key) {
            let report = measure(&Sweep {
                topology,
                per_second: vec![row.per_second],
                ways: vec![row.by],
                messages: MESSAGES,
                spin: SPIN,
                moderation_us: MODERATION_US,
                costs: Costs::published(),
                skip_idle: true,
            })?;
            self.known
                .extend(report.rows.into_iter().map(|found| (key, found)));
        }
        let found = &self.known[&key];
        let value = match row.figure {
            Figure::Load => found.cpu_percent,
            Figure::Latency => found.latency_ns.mean / 1e3,
        };
        Ok(Found::new(value, "RTL and constants").of_run(&found.run_hash))
    }

    /// Load against latency, a line for each way to wait and a point for each rate.
    pub fn plot(&self) -> Plot {
        let mut curves: Vec<Curve> = Vec::new();
        // Way by way; polling, which is a dot, comes last and is not covered.
        for ((way, _), row) in self.known.iter().rev() {
            let point = (row.cpu_percent, row.latency_ns.mean / 1e3);
            let name = way.to_string();
            match curves.iter_mut().find(|(known, ..)| *known == name) {
                Some((_, points, _)) => points.push(point),
                None => curves.push((name, vec![point], false)),
            }
        }
        Plot::Curves {
            x: "load of the processor, %".to_owned(),
            y: "latency, mean, us".to_owned(),
            curves,
        }
    }
}
