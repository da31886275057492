// SPDX-License-Identifier: Apache-2.0
//! One trial: what is sent, and what came of it.

use crate::Error;
use crate::instrument::{Counts, Destinations, Family, Histogram, Instrument, Stream};
use crate::line::Load;

/// Frames of one family and size between ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Sender and receiver of each stream.
    pub flows: Vec<(usize, usize)>,
    /// IPv4 or IPv6.
    pub family: Family,
    /// Bytes of a frame with its FCS.
    pub size: usize,
    /// Frames of each stream in a trial.
    pub frames: u64,
}

impl Traffic {
    /// Each of the first `ports` ports sends to the next one, the last to the first: every port
    /// sends and receives. A family that needs larger frames gets the smallest it can have.
    pub fn ring(
        instrument: &impl Instrument,
        ports: usize,
        family: Family,
        size: usize,
        frames: u64,
    ) -> Self {
        let flows = (0..ports).map(|port| (port, (port + 1) % ports)).collect();
        Self::new(instrument, flows, family, size, frames)
    }

    /// One stream, from one port to another.
    pub fn one(
        instrument: &impl Instrument,
        (from, to): (usize, usize),
        family: Family,
        size: usize,
        frames: u64,
    ) -> Self {
        Self::new(instrument, vec![(from, to)], family, size, frames)
    }

    /// From every other one of the first `ports` ports to one of them.
    pub fn many_to_one(
        instrument: &impl Instrument,
        ports: usize,
        to: usize,
        family: Family,
        size: usize,
        frames: u64,
    ) -> Self {
        let others = (0..ports).filter(|&port| port != to);
        let flows = others.map(|port| (port, to)).collect();
        Self::new(instrument, flows, family, size, frames)
    }

    fn new(
        instrument: &impl Instrument,
        flows: Vec<(usize, usize)>,
        family: Family,
        size: usize,
        frames: u64,
    ) -> Self {
        let size = size.max(instrument.smallest(family));
        Self {
            flows,
            family,
            size,
            frames,
        }
    }

    /// Its streams at a share of the line rate.
    pub(crate) fn streams(&self, instrument: &impl Instrument, load: Load) -> Vec<Stream> {
        let spacing = instrument.line().spacing(self.size, load);
        let stream = |&(from, to): &(usize, usize)| Stream {
            from,
            to: Destinations::Port(to),
            family: self.family,
            size: self.size,
            frames: self.frames,
            spacing,
        };
        self.flows.iter().map(stream).collect()
    }
}

/// What a trial gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// For each stream, in the order it was configured: what every port received of it.
    pub(crate) counts: Vec<Vec<Counts>>,
    /// For each stream: frames sent.
    pub(crate) sent_by: Vec<u64>,
    /// Of all frames that arrived anywhere.
    pub(crate) histogram: Histogram,
}

impl Trial {
    /// Sends the streams and reads what arrived where.
    ///
    /// Frames may be lost; frames that arrive damaged, twice, in another order or at a port that no
    /// route leads to are an error.
    pub(crate) fn run(instrument: &mut impl Instrument, streams: &[Stream]) -> Result<Self, Error> {
        for stream in streams {
            instrument.configure(stream)?;
        }
        instrument.run()?;
        let mut trial = Self {
            sent: 0,
            received: 0,
            counts: Vec::new(),
            sent_by: Vec::new(),
            histogram: Histogram::default(),
        };
        for stream in streams {
            let from = stream.from;
            let sent = instrument.sent(from)?;
            let mut received = 0;
            let mut counts = Vec::new();
            for to in 0..instrument.ports() {
                let found = instrument.counts(from, to)?;
                check(&found, stream, to)?;
                received += found.frames;
                counts.push(found);
            }
            if received > sent {
                return Err(Error::Surplus {
                    from,
                    sent,
                    received,
                });
            }
            trial.sent += sent;
            trial.received += received;
            trial.sent_by.push(sent);
            trial.counts.push(counts);
        }
        for port in 0..instrument.ports() {
            trial.histogram.add(&instrument.histogram(port)?);
        }
        Ok(trial)
    }

    /// Frames that did not arrive.
    pub const fn lost(&self) -> u64 {
        self.sent - self.received
    }

    /// Loss in hundredths of what was sent.
    pub fn loss_percent(&self) -> f64 {
        percent(self.lost(), self.sent)
    }

    /// What arrived, port by port and stream by stream.
    pub(crate) fn arrived(&self) -> impl Iterator<Item = &Counts> {
        self.counts
            .iter()
            .flatten()
            .filter(|counts| counts.frames > 0)
    }

    /// Fails for the first stream of which nothing arrived.
    pub(crate) fn all_arrived(&self, streams: &[Stream]) -> Result<(), Error> {
        for ((stream, counts), &sent) in streams.iter().zip(&self.counts).zip(&self.sent_by) {
            if counts.iter().all(|counts| counts.frames == 0) {
                return Err(Error::Nothing {
                    from: stream.from,
                    sent,
                    size: stream.size,
                });
            }
        }
        Ok(())
    }
}

pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

fn check(found: &Counts, stream: &Stream, to: usize) -> Result<(), Error> {
    let astray = match stream.to {
        Destinations::Port(port) if port != to => found.frames,
        _ => 0,
    };
    for (count, what) in [
        (found.damaged, "with a wrong payload"),
        (found.duplicates, "twice"),
        (found.reordered, "out of order"),
        (astray, "that no route leads there"),
    ] {
        if count > 0 {
            return Err(Error::Damage {
                from: stream.from,
                to,
                count,
                what,
            });
        }
    }
    Ok(())
}
