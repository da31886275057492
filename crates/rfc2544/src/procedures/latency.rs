// SPDX-License-Identifier: Apache-2.0
//! How long it takes: RFC 2544 section 26.2, and the same over many routes.

use std::net::IpAddr;

use serde::Serialize;

use super::trial::{Traffic, Trial};
use crate::{Destinations, Error, Family, Histogram, Instrument, Line, Load, Spacing, Stream};

/// From the first bit in to the first bit out, of every frame of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Frames measured.
    pub frames: u64,
    /// Frames lost, which have no latency.
    pub lost: u64,
    /// Least, in ticks.
    pub min: u64,
    /// Mean, in ticks.
    pub mean: f64,
    /// Greatest, in ticks.
    pub max: u64,
    /// Latency in ticks and how many frames had it.
    pub histogram: Vec<(u64, u64)>,
    /// Frames beyond the histogram.
    pub outside: u64,
}

impl Latency {
    /// Of all trials together; `None` when nothing arrived.
    fn of(trials: &[Trial]) -> Option<Self> {
        let mut histogram = Histogram::default();
        let (mut frames, mut sum, mut min, mut max) = (0, 0, u64::MAX, 0);
        for trial in trials {
            histogram.add(&trial.histogram);
            for counts in trial.arrived() {
                frames += counts.frames;
                sum += counts.latency_sum;
                min = min.min(counts.latency_min);
                max = max.max(counts.latency_max);
            }
        }
        (frames > 0).then(|| Self {
            frames,
            lost: trials.iter().map(Trial::lost).sum(),
            min,
            mean: sum as f64 / frames as f64,
            max,
            histogram: histogram.counts().collect(),
            outside: histogram.outside,
        })
    }

    /// Least, mean and greatest in nanoseconds.
    pub fn ns(&self, line: Line) -> [f64; 3] {
        [self.min as f64, self.mean, self.max as f64].map(|ticks| line.ns(ticks))
    }

    /// Whether every frame took the same time.
    pub const fn is_constant(&self) -> bool {
        self.min == self.max
    }
}

/// Measures the latency at a load, which is to be the throughput.
pub fn latency(
    instrument: &mut impl Instrument,
    traffic: &Traffic,
    load: Load,
) -> Result<Latency, Error> {
    let streams = traffic.streams(instrument, load);
    let trial = Trial::run(instrument, &streams)?;
    trial.all_arrived(&streams)?;
    Ok(Latency::of(&[trial]).expect("every stream arrived"))
}

/// What [`sweep`] found.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// Destinations visited.
    pub addresses: u64,
    /// Of those, how many left through each port.
    pub by_port: Vec<u64>,
    /// Frames of one trial to one destination, at the same distance.
    pub one_route: Latency,
    /// Every destination once.
    pub all_routes: Latency,
    /// Distance of the frames as frames a second.
    pub frames_per_second: f64,
}

impl Sweep {
    /// Whether the number of routes makes no difference: every frame took the time that frames to
    /// one destination take.
    pub fn is_constant(&self) -> bool {
        self.one_route.is_constant()
            && (self.one_route.min, self.one_route.max)
                == (self.all_routes.min, self.all_routes.max)
    }
}

/// Frames to one destination at most, to compare with.
const FRAMES_TO_ONE: u64 = 256;

/// Sends one frame to each address, as close as they may be in the same phase of the clock, and
/// checks that as many leave at each port as routes lead there.
///
/// Each address comes with the port of its route. `size` grows to the smallest frame of the family.
pub fn sweep(
    instrument: &mut impl Instrument,
    from: usize,
    family: Family,
    size: usize,
    addresses: &[(IpAddr, usize)],
) -> Result<Sweep, Error> {
    let line = instrument.line();
    let size = size.max(instrument.smallest(family));
    let spacing = line.aligned(line.spacing(size, Load::FULL));
    let walk = Walk {
        from,
        family,
        size,
        spacing,
    };
    let Some(one) = addresses.first() else {
        return Err(Error::Stream(
            "a sweep needs at least one address, and the table has none that it can visit"
                .to_owned(),
        ));
    };
    let frames = (addresses.len() as u64).clamp(2, FRAMES_TO_ONE);
    let one_route = walk.visit(instrument, &[*one], frames)?;
    let mut all_routes = Vec::new();
    for part in addresses.chunks(instrument.most_addresses().max(1)) {
        all_routes.push(walk.visit(instrument, part, part.len() as u64)?);
    }
    let mut by_port = vec![0; instrument.ports()];
    for &(_, port) in addresses {
        by_port[port] += 1;
    }
    let latency = |trials: &[Trial]| Latency::of(trials).expect("every frame arrived");
    Ok(Sweep {
        addresses: addresses.len() as u64,
        by_port,
        one_route: latency(&[one_route]),
        all_routes: latency(&all_routes),
        frames_per_second: line.frames_per_second(spacing),
    })
}

/// What all trials of a sweep have in common.
struct Walk {
    from: usize,
    family: Family,
    size: usize,
    spacing: Spacing,
}

impl Walk {
    /// One trial through some addresses; every frame must arrive where its route leads.
    fn visit(
        &self,
        instrument: &mut impl Instrument,
        addresses: &[(IpAddr, usize)],
        frames: u64,
    ) -> Result<Trial, Error> {
        let stream = Stream {
            from: self.from,
            to: self.destinations(addresses)?,
            family: self.family,
            size: self.size,
            frames,
            spacing: self.spacing,
        };
        let trial = Trial::run(instrument, std::slice::from_ref(&stream))?;
        for (to, found) in trial.counts[0].iter().enumerate() {
            let here = addresses.iter().filter(|(_, port)| *port == to).count() as u64;
            let expected = here * frames / addresses.len() as u64;
            let what = if found.frames < expected {
                "missing on the way to their route's port"
            } else {
                "more than have a route there"
            };
            if found.frames != expected {
                return Err(Error::Damage {
                    from: self.from,
                    to,
                    count: found.frames.abs_diff(expected),
                    what,
                });
            }
        }
        Ok(trial)
    }

    fn destinations(&self, addresses: &[(IpAddr, usize)]) -> Result<Destinations, Error> {
        let wrong = |address: &IpAddr| {
            let family = self.family.name();
            Error::Stream(format!(
                "{address} is no {family} address; sweep one family at a time"
            ))
        };
        let all = addresses.iter().map(|(address, _)| address);
        Ok(match self.family {
            Family::V4 => Destinations::V4(
                all.map(|address| match address {
                    IpAddr::V4(address) => Ok(*address),
                    IpAddr::V6(_) => Err(wrong(address)),
                })
                .collect::<Result<_, _>>()?,
            ),
            Family::V6 => Destinations::V6(
                all.map(|address| match address {
                    IpAddr::V6(address) => Ok(*address),
                    IpAddr::V4(_) => Err(wrong(address)),
                })
                .collect::<Result<_, _>>()?,
            ),
        })
    }
}
