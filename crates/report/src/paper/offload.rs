// SPDX-License-Identifier: Apache-2.0
//! Rows on the parallel TCP offload engine: its model in virtual time.

use ::offload::{Hardware, Outcome, Scenario};
use rack::Error;
use serde::Deserialize;

use super::Found;
use super::file::{Figure as Published, parse};
use super::source::FIGURES;
use crate::Failure;

/// `run` of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    figure: Figure,
    /// Lengths of payloads, as `ipnuma offload --mix` has them.
    mix: String,
    /// As `ipnuma offload --policy` has it.
    policy: String,
    window_kib: u64,
    /// The sender's least time-out.
    recovery_us: u64,
    /// Rate of wrong checksums.
    #[serde(default)]
    corruption: f64,
    duration_us: u64,
    /// The document's controller, and not this project's.
    #[serde(default)]
    document: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    /// Gb/s.
    Goodput,
    /// Mb/s.
    GoodputMbps,
    /// What the line can carry of these segments, Gb/s.
    Ceiling,
    /// Hundredths of that.
    ShareOfCeiling,
}

impl Measurement {
    /// The figure of a row.
    pub fn measure(&self) -> Result<Found, Failure> {
        let scenario = Scenario {
            hardware: match self.document {
                true => Hardware::DOCUMENT,
                false => Hardware::OURS,
            },
            policy: self.policy.parse()?,
            mix: self.mix.parse()?,
            window: self.window_kib * 1024,
            recovery_us: self.recovery_us,
            corruption: self.corruption,
            duration_us: self.duration_us,
            ..Scenario::default()
        };
        let outcome: Outcome = scenario.run()?;
        let value = match self.figure {
            Figure::Goodput => outcome.goodput_gbps,
            Figure::GoodputMbps => 1e3 * outcome.goodput_gbps,
            Figure::Ceiling => outcome.ceiling_gbps,
            Figure::ShareOfCeiling => outcome.ceiling_percent,
        };
        Ok(Found::new(value, "model, no RTL"))
    }
}

/// A figure of `paper.toml` that is built in.
pub fn published(key: &str) -> Result<Option<f64>, Error> {
    let figures: std::collections::BTreeMap<String, Published> = parse(FIGURES, "paper.toml")?;
    Ok(figures.get(key).and_then(|figure| figure.value))
}
