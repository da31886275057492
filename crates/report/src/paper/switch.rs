// SPDX-License-Identifier: Apache-2.0
//! Rows of chapter 5: the switch in RTL under the instrument of RFC 2544.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ::rfc2544::{
    Family, Instrument, Load, SWEEP_FROM, SwitchRig, Traffic, congestion, latency, sweep,
};
use fib::synth::Table;
use serde::Deserialize;

use super::Found;
use crate::rfc2544::{Lookup, frames_of};
use rack::topology::Rate;

use crate::Failure;

/// `run` of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    figure: Figure,
    rate: Rate,
    family: FamilyName,
    bytes: usize,
    #[serde(default)]
    lookup: Lookup,
    /// Made-up routes of the family in the switch, besides its own subnets.
    #[serde(default)]
    routes: u32,
    /// Figure of the paper that is added to a latency: a pair of PHYs, which RTL does not have.
    pub phy: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    /// Frames a second from one port to another at the line rate, whole ones.
    FramesPerSecond,
    /// From one port to another at the line rate, ns; the greatest of all frames.
    Latency,
    /// From one port to the three others over many routes, ns; all must have the same.
    Sweep,
    /// Three ports into one, hundredths; all must be counted.
    Loss,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FamilyName {
    V4,
    V6,
}

impl From<FamilyName> for Family {
    fn from(name: FamilyName) -> Self {
        match name {
            FamilyName::V4 => Self::V4,
            FamilyName::V6 => Self::V6,
        }
    }
}

/// Frames of 64 bytes in a trial, and destinations of a sweep; larger frames take as long.
const FRAMES: u64 = 500;
/// Frames of an input in a congestion: what is on its way at the end arrives and must not count for
/// much.
const FRAMES_OF_CONGESTION: u64 = 300;
const SEED: u64 = 1;

/// As many made-up routes of the lengths that the dissertation's lookup holds.
fn of_its_lengths(v4: u32, v6: u32) -> Table {
    /// Longest prefixes: three bytes in the SRAM, and what its TCAM compares.
    const LONGEST: (u8, u8) = (24, 64);
    /// Those of the ports but the first, whose is the default route.
    const SUBNETS: u32 = 3;
    // The TCAM has room for what the dissertation counts, subnets included.
    let v6 = v6.saturating_sub(SUBNETS);
    // Few are longer, so that of twice as many there are enough left.
    let mut table = Table::synthetic(SEED, 2 * v4, 2 * v6);
    table.v4.retain(|prefix| prefix.len() <= LONGEST.0);
    table.v4.truncate(v4 as usize);
    table.v6.retain(|prefix| prefix.len() <= LONGEST.1);
    table.v6.truncate(v6 as usize);
    table
}

/// The rigs that have been built, with the tables in them.
#[derive(Default)]
pub struct Switches {
    rigs: BTreeMap<(&'static str, Lookup, Family6, u32), Switch>,
}

/// Whether the table is of IPv6.
type Family6 = bool;

struct Switch {
    rig: SwitchRig,
    table: Table,
    /// Routes that did not fit.
    refused: u32,
}

impl Switches {
    /// Runs a row; `phy_ns` is what its `phy` stands for.
    pub fn measure(&mut self, row: &Measurement, phy_ns: Option<f64>) -> Result<Found, Failure> {
        let family = Family::from(row.family);
        let rate = row.rate;
        let Switch {
            rig,
            table,
            refused,
        } = self.switch(rate, row.lookup, family, row.routes)?;
        let line = rig.line();
        let frames = frames_of(row.bytes, FRAMES);
        let one = Traffic::one(rig, (0, 1), family, row.bytes, frames);
        let with_phy = |found: &::rfc2544::Latency| {
            let [least, most] = [found.min, found.max].map(|ticks| line.cycles(ticks as f64));
            let cycles = if least == most {
                format!("{most}")
            } else {
                format!("{least}-{most}")
            };
            // The section's text has the constant.
            let constant = if phy_ns.is_some() { " + PHYs" } else { "" };
            let value = line.ns(found.max as f64) + phy_ns.unwrap_or(0.0);
            let percent = 100.0 * line.ns(found.max as f64) / value.max(1e-9);
            Found::new(value, format!("RTL, {cycles} cycles{constant}")).with_rtl(Some(percent))
        };
        Ok(match row.figure {
            Figure::FramesPerSecond => {
                let found = ::rfc2544::throughput(rig, &one)?;
                let mut result = Found::new(found.frames_per_second.floor(), "RTL");
                result.fault = found.load != Load::FULL;
                result
            }
            Figure::Latency => {
                let found = latency(rig, &one, Load::FULL)?;
                with_phy(&found)
            }
            Figure::Sweep => {
                let addresses = rig.addresses(table, family, frames as usize, SEED);
                let found = sweep(rig, SWEEP_FROM, family, row.bytes, &addresses)?;
                let mut result = with_phy(&found.all_routes);
                result.fault = !found.is_constant() || *refused > 0;
                result
            }
            Figure::Loss => {
                let ports = rig.ports();
                let to = ports - 1;
                let traffic =
                    Traffic::many_to_one(rig, ports, to, family, row.bytes, FRAMES_OF_CONGESTION);
                let found = congestion(rig, &traffic)?;
                let mut result = Found::new(found.loss_percent, "RTL, all counted");
                result.fault = !found.is_accounted();
                result
            }
        })
    }

    fn switch(
        &mut self,
        rate: Rate,
        lookup: Lookup,
        family: Family,
        routes: u32,
    ) -> Result<&mut Switch, Failure> {
        let key = (
            rate.name(),
            lookup,
            family == Family::V6 && routes > 0,
            routes,
        );
        Ok(match self.rigs.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut rig = lookup.rig(rate)?;
                let (v4, v6) = match family {
                    Family::V4 => (routes, 0),
                    Family::V6 => (0, routes),
                };
                let table = match lookup {
                    Lookup::Runvec => Table::synthetic(SEED, v4, v6),
                    Lookup::Sram22 => of_its_lengths(v4, v6),
                };
                let refused = rig.load(&table, SEED)?.refused;
                entry.insert(Switch {
                    rig,
                    table,
                    refused,
                })
            }
        })
    }
}
