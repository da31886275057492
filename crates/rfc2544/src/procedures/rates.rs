// SPDX-License-Identifier: Apache-2.0
//! How much goes through: RFC 2544 sections 26.1, 26.3 and 26.4.

use serde::Serialize;

use super::trial::{Traffic, Trial};
use crate::{Error, Instrument, Load};

/// Section 26.1.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// The greatest load without loss, of those tried; the line rate is tried first.
    pub load: Load,
    /// Frames a second that each stream received at that load, the slowest of them; as measured
    /// between the first and the last frame.
    pub frames_per_second: f64,
    /// Trials it took.
    pub trials: u32,
}

/// Searches the greatest load without loss, to 0.1 % of the line rate.
pub fn throughput(
    instrument: &mut impl Instrument,
    traffic: &Traffic,
) -> Result<Throughput, Error> {
    let line = instrument.line();
    let slowest = |trial: &Trial| {
        let rates = trial
            .arrived()
            .filter_map(|counts| line.rate(counts.frames, counts.last - counts.first));
        rates.reduce(f64::min).unwrap_or(0.0)
    };
    let mut trials = 0;
    let mut attempt = |permille: u32| -> Result<Option<f64>, Error> {
        trials += 1;
        let load = Load::permille(permille).unwrap_or(Load::FULL);
        let streams = traffic.streams(instrument, load);
        let trial = Trial::run(instrument, &streams)?;
        Ok((trial.lost() == 0).then(|| slowest(&trial)))
    };
    let most = Load::FULL.as_permille();
    // Lossless at `good` (nothing is lost of nothing), not at `bad`.
    let (mut good, mut rate, mut bad) = match attempt(most)? {
        Some(rate) => (most, rate, most + 1),
        None => (0, 0.0, most),
    };
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        match attempt(middle)? {
            Some(found) => (good, rate) = (middle, found),
            None => bad = middle,
        }
    }
    Ok(Throughput {
        load: Load::permille(good).unwrap_or(Load::FULL),
        frames_per_second: rate,
        trials,
    })
}

/// One load of [`LossRate`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossStep {
    /// The load.
    pub load: Load,
    /// Frames sent.
    pub sent: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// In hundredths of those sent.
    pub loss_percent: f64,
}

/// Section 26.3.
#[derive(Clone, Debug, Serialize)]
pub struct LossRate {
    /// From the line rate down.
    pub steps: Vec<LossStep>,
}

/// Loss at the line rate and in steps of 10 % below, until two in a row are without.
pub fn loss_rate(instrument: &mut impl Instrument, traffic: &Traffic) -> Result<LossRate, Error> {
    const STEP: u32 = 100;
    let mut steps: Vec<LossStep> = Vec::new();
    let mut permille = Load::FULL.as_permille();
    while permille > 0 {
        let load = Load::permille(permille).unwrap_or(Load::FULL);
        let streams = traffic.streams(instrument, load);
        let trial = Trial::run(instrument, &streams)?;
        let before = steps.last().map(|step| step.lost);
        steps.push(LossStep {
            load,
            sent: trial.sent,
            lost: trial.lost(),
            loss_percent: trial.loss_percent(),
        });
        if trial.lost() == 0 && before == Some(0) {
            break;
        }
        permille -= STEP;
    }
    Ok(LossRate { steps })
}

/// Section 26.4.
#[derive(Clone, Debug, Serialize)]
pub struct BackToBack {
    /// Frames of the longest burst at the smallest gap that came through whole.
    pub frames: u64,
    /// No longer burst was tried.
    pub longest_tried: bool,
    /// Trials it took.
    pub trials: u32,
}

/// Searches the longest burst without loss, up to the traffic's number of frames.
pub fn back_to_back(
    instrument: &mut impl Instrument,
    traffic: &Traffic,
) -> Result<BackToBack, Error> {
    let mut trials = 0;
    let mut whole = |frames: u64| -> Result<bool, Error> {
        trials += 1;
        let burst = Traffic {
            frames,
            ..traffic.clone()
        };
        let streams = burst.streams(instrument, Load::FULL);
        Ok(Trial::run(instrument, &streams)?.lost() == 0)
    };
    let most = traffic.frames;
    if whole(most)? {
        return Ok(BackToBack {
            frames: most,
            longest_tried: true,
            trials,
        });
    }
    let (mut good, mut bad) = (0, most);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if whole(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(BackToBack {
        frames: good,
        longest_tried: false,
        trials,
    })
}
