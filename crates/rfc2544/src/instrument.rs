// SPDX-License-Identifier: Apache-2.0
//! What a procedure needs of an instrument.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::{Error, Line, Spacing};

/// Address family of the test frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// `IPv4` or `IPv6`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// The host that the instrument is at a port: in 198.18.0.0/15, which RFC 2544 sets aside.
pub const fn host4(port: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, port as u8, 2)
}

/// The host that the instrument is at a port: in 2001:2::/48, which RFC 5180 sets aside.
pub const fn host6(port: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 2, 0, port as u16, 0, 0, 0, 2)
}

/// Where the frames of a stream go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destinations {
    /// To the instrument's own host at a port.
    Port(usize),
    /// To each of these in turn.
    V4(Vec<Ipv4Addr>),
    /// To each of these in turn.
    V6(Vec<Ipv6Addr>),
}

/// What one port sends in a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The sending port.
    pub from: usize,
    /// Where to.
    pub to: Destinations,
    /// IPv4 or IPv6.
    pub family: Family,
    /// Bytes of a frame with its FCS.
    pub size: usize,
    /// How many frames.
    pub frames: u64,
    /// How far apart.
    pub spacing: Spacing,
}

/// Frames by latency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Latency of the first bin, in ticks; each further one is a tick more.
    pub base: u64,
    /// Frames in each bin.
    pub bins: Vec<u64>,
    /// Frames outside all bins.
    pub outside: u64,
}

impl Histogram {
    /// Adds the frames of another one.
    pub fn add(&mut self, other: &Self) {
        self.outside += other.outside;
        for (latency, count) in other.counts() {
            if self.bins.is_empty() {
                self.base = latency;
            }
            if latency < self.base {
                let more = (self.base - latency) as usize;
                self.bins.splice(0..0, std::iter::repeat_n(0, more));
                self.base = latency;
            }
            let at = (latency - self.base) as usize;
            if at >= self.bins.len() {
                self.bins.resize(at + 1, 0);
            }
            self.bins[at] += count;
        }
    }

    /// The latencies that occur, with their frames.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (self.base..)
            .zip(self.bins.iter().copied())
            .filter(|&(_, count)| count > 0)
    }
}

/// What one port received of another's stream in a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// Stamp of the first one's arrival.
    pub first: u64,
    /// Stamp of the last one's arrival.
    pub last: u64,
    /// Least latency in ticks.
    pub latency_min: u64,
    /// Greatest latency in ticks.
    pub latency_max: u64,
    /// Sum of the latencies in ticks.
    pub latency_sum: u64,
    /// Frames that came twice.
    pub duplicates: u64,
    /// Frames that came after a later one.
    pub reordered: u64,
    /// Frames whose payload is not what was sent, although the FCS is right.
    pub damaged: u64,
}

/// What the device under test says that it dropped in a trial, at one of its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// As their output was occupied.
    pub full: u64,
    /// For any other reason; to its host port counts as well.
    pub other: u64,
}

/// An instrument with the device under test at its ports.
pub trait Instrument {
    /// What its ports are.
    fn line(&self) -> Line;
    /// How many ports it has.
    fn ports(&self) -> usize;
    /// The smallest frame of a family that has room for sequence number and stamp.
    fn smallest(&self, family: Family) -> usize;
    /// How many addresses a stream can go through.
    fn most_addresses(&self) -> usize;
    /// Has a port send a stream in the next trial; a port sends one at most.
    fn configure(&mut self, stream: &Stream) -> Result<(), Error>;
    /// Runs a trial: clears what was counted, starts all configured streams,
    /// waits until the device is at rest, and forgets the streams.
    fn run(&mut self) -> Result<(), Error>;
    /// Frames that a port sent in the last trial.
    fn sent(&mut self, from: usize) -> Result<u64, Error>;
    /// What arrived in the last trial.
    fn counts(&mut self, from: usize, to: usize) -> Result<Counts, Error>;
    /// Latencies of all frames that a port received in the last trial.
    fn histogram(&mut self, to: usize) -> Result<Histogram, Error>;
    /// What the device's port dropped of what it received in the last trial.
    fn drops(&mut self, port: usize) -> Result<Drops, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_add_up() {
        let mut sum = Histogram::default();
        for (base, bins) in [(10, vec![1, 0, 2]), (8, vec![3]), (12, vec![1, 5])] {
            let other = Histogram {
                base,
                bins,
                outside: 1,
            };
            sum.add(&other);
        }
        let found: Vec<_> = sum.counts().collect();
        assert_eq!(found, [(8, 3), (10, 1), (12, 3), (13, 5)]);
        assert_eq!((sum.base, sum.outside), (8, 3));
    }
}
