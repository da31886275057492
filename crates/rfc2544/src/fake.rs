// SPDX-License-Identifier: Apache-2.0
//! An instrument without hardware, whose device under test has whatever delay and loss it is given.
//!
//! The device stores each frame whole, looks at it for a fixed time, and forwards it through an
//! output queue of a fixed length. It is the test of the procedures: what they find must be what
//! was put in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::{Counts, Destinations, Drops, Error, Family, Histogram, Instrument, Line, Stream};

/// Parts of a byte time: the unit of time in here, as in [`crate::Spacing`].
const PARTS: u64 = 256;
/// Stamps a byte time.
const TICKS: u64 = Line::ONE_GIG.ticks_per_cycle;

/// What the device does to frames. The default forwards the whole line rate with a constant delay.
#[derive(Clone, Debug)]
pub struct Device {
    /// Ports.
    pub ports: usize,
    /// What its own work takes, in byte times.
    pub delay: u64,
    /// Whether a frame waits until it is whole.
    pub store_and_forward: bool,
    /// Least distance of frames at an output, in thousandths of what the line needs.
    pub pace_permille: u64,
    /// Frames that an output can hold, besides the one that it sends.
    pub queue: usize,
    /// Lose every frame whose number, from 1, is a multiple of this; 0 for none. The device does not
    /// count them.
    pub lose_every: u64,
    /// Keep every frame whose number is a multiple of this 7 byte times longer; 0 for none.
    pub slow_every: u64,
    /// Deliver every frame whose number is a multiple of this damaged; 0 for none.
    pub damage_every: u64,
    /// Ports of addresses that are not the instrument's own.
    pub routes: BTreeMap<IpAddr, usize>,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            ports: 4,
            delay: 100,
            store_and_forward: true,
            pace_permille: 1000,
            queue: 2,
            lose_every: 0,
            slow_every: 0,
            damage_every: 0,
            routes: BTreeMap::new(),
        }
    }
}

/// The instrument with a [`Device`] at its ports.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    /// The device under test.
    pub device: Device,
    trials: u64,
    streams: Vec<Stream>,
    sent: Vec<u64>,
    counts: BTreeMap<(usize, usize), Counts>,
    histograms: Vec<Histogram>,
    drops: Vec<Drops>,
}

const fn nth(every: u64, number: u64) -> bool {
    every != 0 && number.is_multiple_of(every)
}

impl Fake {
    /// An instrument with this device.
    pub fn new(device: Device) -> Self {
        Self {
            device,
            ..Self::default()
        }
    }

    /// Trials so far.
    pub const fn trials(&self) -> u64 {
        self.trials
    }

    fn port(&self, stream: &Stream, index: u64) -> Option<usize> {
        let at = |length: usize| index as usize % length;
        let address = match &stream.to {
            Destinations::Port(port) => return Some(*port),
            Destinations::V4(all) => IpAddr::V4(all[at(all.len())]),
            Destinations::V6(all) => IpAddr::V6(all[at(all.len())]),
        };
        self.device.routes.get(&address).copied()
    }
}

impl Instrument for Fake {
    fn line(&self) -> Line {
        Line::ONE_GIG
    }

    fn ports(&self) -> usize {
        self.device.ports
    }

    fn smallest(&self, family: Family) -> usize {
        match family {
            Family::V4 => 64,
            Family::V6 => 80,
        }
    }

    fn most_addresses(&self) -> usize {
        10
    }

    fn configure(&mut self, stream: &Stream) -> Result<(), Error> {
        self.streams.push(stream.clone());
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        self.trials += 1;
        self.sent = vec![0; self.device.ports];
        self.drops = vec![Drops::default(); self.device.ports];
        self.histograms = vec![Histogram::default(); self.device.ports];
        self.counts.clear();
        let streams = std::mem::take(&mut self.streams);
        // Starts of all frames in order of time; ports take turns when they start together.
        let mut starts: Vec<(u64, usize, u64)> = Vec::new();
        for (place, stream) in streams.iter().enumerate() {
            self.sent[stream.from] = stream.frames;
            let each = (0..stream.frames).map(|n| (n * stream.spacing.0, place, n));
            starts.extend(each);
        }
        starts.sort_unstable_by_key(|&(time, place, n)| {
            (time, (place as u64 + n) % streams.len() as u64, place)
        });
        // For each output: when its frames begin to leave.
        let mut outputs: Vec<Vec<u64>> = vec![Vec::new(); self.device.ports];
        for (number, (start, place, n)) in (1..).zip(starts) {
            let stream = &streams[place];
            let Some(to) = self.port(stream, n) else {
                self.drops[stream.from].other += 1;
                continue;
            };
            if nth(self.device.lose_every, number) {
                continue;
            }
            let wire = Line::wire_bytes(stream.size) * PARTS;
            let whole = if self.device.store_and_forward {
                (8 + stream.size as u64) * PARTS
            } else {
                0
            };
            let slow = u64::from(nth(self.device.slow_every, number)) * 7 * PARTS;
            let ready = start + whole + self.device.delay * PARTS + slow;
            let output = &mut outputs[to];
            let free = output
                .last()
                .map_or(0, |last| last + wire * self.device.pace_permille / 1000);
            let waiting = output.iter().rev().take_while(|&&time| time > ready);
            if free > ready && waiting.count() >= self.device.queue {
                self.drops[stream.from].full += 1;
                continue;
            }
            let leaves = ready.max(free);
            output.push(leaves);
            let stamp = leaves * TICKS / PARTS;
            let latency = stamp - start * TICKS / PARTS;
            let counts = self.counts.entry((stream.from, to)).or_default();
            if counts.frames == 0 {
                counts.first = stamp;
                counts.latency_min = latency;
            }
            counts.frames += 1;
            counts.last = stamp;
            counts.latency_min = counts.latency_min.min(latency);
            counts.latency_max = counts.latency_max.max(latency);
            counts.latency_sum += latency;
            counts.damaged += u64::from(nth(self.device.damage_every, number));
            self.histograms[to].add(&Histogram {
                base: latency,
                bins: vec![1],
                outside: 0,
            });
        }
        Ok(())
    }

    fn sent(&mut self, from: usize) -> Result<u64, Error> {
        Ok(self.sent[from])
    }

    fn counts(&mut self, from: usize, to: usize) -> Result<Counts, Error> {
        Ok(self.counts.get(&(from, to)).cloned().unwrap_or_default())
    }

    fn histogram(&mut self, to: usize) -> Result<Histogram, Error> {
        Ok(self.histograms[to].clone())
    }

    fn drops(&mut self, port: usize) -> Result<Drops, Error> {
        Ok(self.drops[port])
    }
}
