// SPDX-License-Identifier: Apache-2.0
//! Several ports at the line rate into one: section 5.1.2.4 of the dissertation.

use serde::Serialize;

use super::trial::{Traffic, Trial, percent};
use crate::{Error, Instrument, Load};

/// What became of one input's frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The input.
    pub from: usize,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Loss in hundredths of those sent.
    pub loss_percent: f64,
    /// Frames that the device itself counted as dropped because the output was occupied.
    pub counted: u64,
}

/// What [`congestion`] found.
#[derive(Clone, Debug, Serialize)]
pub struct Congestion {
    /// Input by input.
    pub shares: Vec<Share>,
    /// Loss over all inputs in hundredths.
    pub loss_percent: f64,
    /// Frames a second at the output.
    pub frames_per_second: f64,
}

impl Congestion {
    /// Whether the device counted every frame that is missing, and no other.
    pub fn is_accounted(&self) -> bool {
        self.shares
            .iter()
            .all(|share| share.sent - share.received == share.counted)
    }

    /// How far apart the inputs' received frames are, in hundredths of their mean.
    pub fn spread_percent(&self) -> f64 {
        let received = self.shares.iter().map(|share| share.received);
        let (most, least) = (received.clone().max(), received.clone().min());
        let range = most.zip(least).map_or(0, |(most, least)| most - least);
        percent(range * self.shares.len() as u64, received.sum())
    }
}

/// Sends the traffic, whose flows lead to one port, at the line rate.
pub fn congestion(
    instrument: &mut impl Instrument,
    traffic: &Traffic,
) -> Result<Congestion, Error> {
    let line = instrument.line();
    let streams = traffic.streams(instrument, Load::FULL);
    let trial = Trial::run(instrument, &streams)?;
    trial.all_arrived(&streams)?;
    let mut shares = Vec::new();
    for ((stream, counts), &sent) in streams.iter().zip(&trial.counts).zip(&trial.sent_by) {
        let received: u64 = counts.iter().map(|counts| counts.frames).sum();
        shares.push(Share {
            from: stream.from,
            sent,
            received,
            loss_percent: percent(sent - received, sent),
            counted: instrument.drops(stream.from)?.full,
        });
    }
    let first = trial.arrived().map(|counts| counts.first).min();
    let last = trial.arrived().map(|counts| counts.last).max();
    let rate = first
        .zip(last)
        .and_then(|(first, last)| line.rate(trial.received, last - first));
    Ok(Congestion {
        shares,
        loss_percent: trial.loss_percent(),
        frames_per_second: rate.unwrap_or(0.0),
    })
}
