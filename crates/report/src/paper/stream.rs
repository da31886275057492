// SPDX-License-Identifier: Apache-2.0
//! Rows on sessions: streams on the virtual rack, with loss and with many senders, beside the runs that they are held
//! against.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rack::faults::Faults;
use rack::topology::{Fan, Format, NicOptions, Rate};
use rack::{Error, Topology};
use serde::Deserialize;

use super::Found;
use crate::stream::{Report, measure};

/// `run` of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    figure: Figure,
    rate: Rate,
    senders: usize,
    /// Of each sender.
    stores: u64,
    #[serde(default = "line")]
    bytes: usize,
    /// Probability that a cable loses a frame.
    #[serde(default)]
    loss: f64,
    /// Stores that wait may travel in one frame.
    #[serde(default)]
    merge: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    /// Goodput, Gb/s.
    Goodput,
    /// Goodput beside the same without faults and sessions through an ideal switch, hundredths.
    ShareOfIdeal,
    /// Goodput beside the same without loss, hundredths.
    ShareOfLossFree,
    /// Fairness among the senders.
    Jain,
    /// 99 of 100 stores take no longer, microseconds.
    P99,
}

const fn line() -> usize {
    rack::host::LINE_BYTES
}

/// Runs, each made once.
#[derive(Default)]
pub struct Streams {
    known: BTreeMap<String, Report>,
}

impl Measurement {
    fn topology(&self, loss: f64) -> Result<Topology, Error> {
        let fan = Fan {
            platform: "keio-2016".to_owned(),
            seed: 1,
            rate: self.rate,
            format: Format::Compact,
            senders: self.senders,
            switch: false,
            metres: if self.senders > 1 { 10.0 } else { 1.0 },
            bytes: self.bytes,
            stores: self.stores,
            rate_gbps: None,
            nic: NicOptions {
                merge: self.merge,
                ..NicOptions::default()
            },
            faults: Faults {
                loss,
                ..Faults::default()
            },
        };
        Topology::fan(fan).checked()
    }
}

impl Streams {
    fn run(&mut self, topology: &Topology) -> Result<&Report, Error> {
        match self.known.entry(format!("{topology:?}")) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(measure(topology)?.1)),
        }
    }

    /// The figure of a row; at fault if anything was lost, or came twice or out of order.
    pub fn measure(&mut self, row: &Measurement) -> Result<Found, Error> {
        let topology = row.topology(row.loss)?;
        let report = self.run(&topology)?;
        let fault = report.missing > 0 || report.wrong > 0;
        let hash = report.run_hash.clone();
        let ours = report.goodput.total_gbps;
        let value = match row.figure {
            Figure::Goodput => ours,
            Figure::Jain => report.goodput.jain,
            Figure::P99 => report.latency_ns.p99 / 1e3,
            Figure::ShareOfIdeal => {
                let ideal = self.run(&topology.ideal())?;
                100.0 * ours / ideal.goodput.total_gbps
            }
            Figure::ShareOfLossFree => {
                let sound = self.run(&row.topology(0.0)?)?;
                100.0 * ours / sound.goodput.total_gbps
            }
        };
        let mut found = Found::new(value, "RTL and constants").of_run(&hash);
        found.fault = fault;
        Ok(found)
    }
}
