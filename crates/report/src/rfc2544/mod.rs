// SPDX-License-Identifier: Apache-2.0
//! The tests of RFC 2544 on the switch in RTL, with an instrument in RTL.

mod plot;
mod report;
mod routes;

use ::rfc2544::{
    FRAME_SIZES, Family, Instrument, Line, Load, SWEEP_FROM, SwitchRig, Traffic, back_to_back,
    congestion, latency, loss_rate, sweep, throughput,
};
use clap::ValueEnum;
use rack::topology::Rate;
use serde::{Deserialize, Serialize};

use crate::Failure;
use report::Row;

pub use plot::write;
pub use report::Report;
pub use routes::Routes;

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Greatest load without loss (section 26.1)
    Throughput,
    /// First bit in to first bit out, at that load (section 26.2)
    Latency,
    /// Loss by load (section 26.3)
    Loss,
    /// Longest burst without loss (section 26.4)
    BackToBack,
    /// Latency over all routes of a sample; it must be the same
    Sweep,
    /// All other ports into one at the line rate; each lost frame must be counted
    Congestion,
}

/// What the switch looks destinations up with.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Lookup {
    /// This project's: any prefix, full tables of both families
    #[default]
    Runvec,
    /// The dissertation's: an SRAM for IPv4 up to /24, three next hops and the default route's, a TCAM of 32 for IPv6
    Sram22,
}

impl Lookup {
    /// A switch with it, and with the instrument at its ports.
    ///
    /// # Errors
    /// The model is not there.
    pub fn rig(self, rate: Rate) -> Result<SwitchRig, Failure> {
        Ok(match self {
            Self::Runvec => SwitchRig::new(rate.into())?,
            Self::Sram22 => SwitchRig::dissertation(rate.into())?,
        })
    }
}

/// And at least, however large they are.
const FRAMES_LEAST: u64 = 32;

/// Frames of a size that take the time of `frames` frames of 64 bytes.
pub fn frames_of(size: usize, frames: u64) -> u64 {
    let smallest = Line::wire_bytes(FRAME_SIZES[0]);
    (frames * smallest / Line::wire_bytes(size)).max(FRAMES_LEAST.min(frames))
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Line rate.
    pub rate: Rate,
    /// Of the switch.
    pub lookup: Lookup,
    /// Ports that take part: each sends to the next one.
    pub ports: usize,
    /// Frames of 64 bytes that a port sends in a trial; of larger ones as many as take the same time.
    pub frames: u64,
    /// Draws made-up routes, next hops, and the destinations of the sweep.
    pub seed: u64,
    /// Address families, one after the other.
    pub families: &'static [Family],
    /// Bytes of a frame.
    pub sizes: Vec<usize>,
    /// Tests to run.
    pub tests: Vec<Test>,
}

impl Plan {
    fn has(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// Sizes of a family's frames: those that are too small become the smallest, once.
    fn sizes(&self, instrument: &impl Instrument, family: Family) -> Vec<usize> {
        let smallest = instrument.smallest(family);
        let mut sizes: Vec<_> = self.sizes.iter().map(|&size| size.max(smallest)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The tests that one family and size goes through.
    fn row(
        &self,
        instrument: &mut impl Instrument,
        family: Family,
        size: usize,
    ) -> Result<Row, Failure> {
        let line = instrument.line();
        let frames = frames_of(size, self.frames);
        let traffic = Traffic::ring(instrument, self.ports, family, size, frames);
        let mut row = Row::new(&traffic, line);
        // The latency is to be taken at the throughput.
        let mut load = Load::FULL;
        if self.has(Test::Throughput) || self.has(Test::Latency) {
            let found = throughput(instrument, &traffic)?;
            load = found.load;
            row.throughput = Some(found);
        }
        if self.has(Test::Latency) && load.as_permille() > 0 {
            row.latency = Some(report::Latency::new(
                &latency(instrument, &traffic, load)?,
                line,
            ));
        }
        if self.has(Test::Loss) {
            row.loss = Some(loss_rate(instrument, &traffic)?);
        }
        if self.has(Test::BackToBack) {
            row.back_to_back = Some(back_to_back(instrument, &traffic)?);
        }
        Ok(row)
    }

    /// Runs all tests with these routes in the switch.
    pub fn run(&self, routes: &Routes) -> Result<Report, Failure> {
        let mut rig = self.lookup.rig(self.rate)?;
        let loaded = rig.load(&routes.table, self.seed)?;
        let mut report = Report::new(self, routes, loaded);
        for &family in self.families {
            for size in self.sizes(&rig, family) {
                let per_size = [
                    Test::Throughput,
                    Test::Latency,
                    Test::Loss,
                    Test::BackToBack,
                ];
                if per_size.into_iter().any(|test| self.has(test)) {
                    report.rows.push(self.row(&mut rig, family, size)?);
                }
            }
            let sizes = self.sizes(&rig, family);
            if self.has(Test::Sweep) {
                let count = self.frames as usize;
                let addresses = rig.addresses(&routes.table, family, count, self.seed);
                let size = sizes[0];
                if addresses.is_empty() {
                    report.not_swept.push(family);
                } else {
                    let found = sweep(&mut rig, SWEEP_FROM, family, size, &addresses)?;
                    report.add_sweep(family, size, &found);
                }
            }
            if self.has(Test::Congestion) {
                let ends = [sizes[0], sizes[sizes.len() - 1]];
                for &size in if ends[0] == ends[1] {
                    &ends[..1]
                } else {
                    &ends
                } {
                    let frames = frames_of(size, self.frames);
                    let to = self.ports - 1;
                    let traffic = Traffic::many_to_one(&rig, self.ports, to, family, size, frames);
                    let found = congestion(&mut rig, &traffic)?;
                    report.add_congestion(&traffic, &found);
                }
            }
        }
        report.cycles = rig.cycles();
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_frames_are_fewer_but_not_too_few() {
        assert_eq!(frames_of(64, 2_000), 2_000);
        assert_eq!(frames_of(1518, 2_000), 109);
        assert_eq!(frames_of(9216, 2_000), 32);
        assert_eq!(frames_of(9216, 100_000), 909);
        assert_eq!(frames_of(64, 10), 10);
    }
}
