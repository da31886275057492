// SPDX-License-Identifier: Apache-2.0
//! One request and its answer, taken apart: what the RTL took in cycles, and what is assumed.

use rack::record::{Packet, Point};
use rack::run::Outcome;
use rack::topology::Rate;
use rack::{NetSpeed, Picoseconds};
use serde::Serialize;

/// Where a time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Simulated, cycle by cycle.
    Rtl,
    /// A constant of the platform.
    Constant,
    /// A constant of the table of CPU costs.
    Cpu,
}

impl Kind {
    /// For the page's style sheet.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Rtl => "rtl",
            Self::Constant => "constant",
            Self::Cpu => "cpu",
        }
    }

    /// For readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rtl => "RTL",
            Self::Constant => "constant",
            Self::Cpu => "CPU cost",
        }
    }
}

/// One stage.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// What happens.
    pub name: String,
    /// Where the time comes from.
    pub kind: Kind,
    /// From the request's first moment, ns.
    pub from_ns: f64,
    /// As long.
    pub to_ns: f64,
    /// Cycles of the network clock, of a stage that has only that clock.
    pub cycles: Option<f64>,
}

/// A request and its answer.
#[derive(Clone, Debug, Serialize)]
pub struct Waterfall {
    /// What was run.
    pub title: String,
    /// Stages in order; they touch each other.
    pub stages: Vec<Stage>,
    /// Hash of the run.
    pub run_hash: String,
}

impl Waterfall {
    /// From first to last, ns.
    pub fn total_ns(&self) -> f64 {
        self.stages.last().map_or(0.0, |stage| stage.to_ns)
    }

    /// Of one kind, ns.
    pub fn sum_ns(&self, kind: Kind) -> f64 {
        let stages = self.stages.iter().filter(|stage| stage.kind == kind);
        // Zero has no sign here.
        stages.map(|stage| stage.to_ns - stage.from_ns).sum::<f64>() + 0.0
    }
}

/// The last store there and back of a ping-pong that kept its packets.
pub fn of(title: &str, outcome: &Outcome, rate: Rate) -> Option<Waterfall> {
    let [.., there, back] = &outcome.record.packets[..] else {
        return None;
    };
    let start = there.at[Point::Issued as usize];
    let mut stages = Vec::new();
    for (packet, way) in [(there, "request"), (back, "answer")] {
        add(&mut stages, packet, way, start, outcome, rate);
    }
    // Nothing takes no time.
    stages.retain(|stage| stage.to_ns > stage.from_ns);
    Some(Waterfall {
        title: title.to_owned(),
        stages,
        run_hash: outcome.record.digest(),
    })
}

fn add(
    stages: &mut Vec<Stage>,
    packet: &Packet,
    way: &str,
    start: Picoseconds,
    outcome: &Outcome,
    rate: Rate,
) {
    let period = NetSpeed::from(rate).net_period_ps() as f64;
    let at = |point: Point| packet.at[point as usize];
    let mut add = |name: &str, kind, (from, to): (Picoseconds, Picoseconds), cycles: bool| {
        stages.push(Stage {
            name: format!("{way}: {name}"),
            kind,
            from_ns: (from - start).as_ns(),
            to_ns: (to - start).as_ns(),
            cycles: cycles.then(|| (to - from).0 as f64 / period),
        });
    };
    add(
        "CPU store",
        Kind::Constant,
        (at(Point::Issued), at(Point::Left)),
        false,
    );
    add(
        "PCIe to the NIC",
        Kind::Constant,
        (at(Point::Left), at(Point::TlpIn)),
        false,
    );
    add(
        "NIC sends",
        Kind::Rtl,
        (at(Point::TlpIn), at(Point::FirstWordOut)),
        false,
    );
    // Between NICs and switches: constants, then the wait for the receiver's edge, less than a cycle.
    let links = packet.hops.len() + 1;
    let constants = &outcome.constants;
    let switches = constants.switch_phy.unwrap_or_default().0 as f64;
    let inner = if links > 1 {
        switches / (links - 1) as f64
    } else {
        0.0
    };
    let cable = constants.cable.0 as f64 / links as f64;
    let mut from = at(Point::FirstWordOut);
    let ends = packet.hops.iter().map(|hop| (hop.first_in, Some(hop)));
    let ends = ends.chain([(at(Point::FirstWordIn), None)]);
    for (number, (arrives, hop)) in ends.enumerate() {
        let outer = [number == 0, number + 1 == links];
        let phys = outer
            .map(|nic| if nic { constants.phy.0 as f64 } else { inner })
            .iter()
            .sum::<f64>()
            / 2.0;
        let reached = (from + Picoseconds((phys + cable) as u64)).min(arrives);
        let name = if links > 1 {
            format!("PHYs, cable {}", number + 1)
        } else {
            "PHYs, cable".to_owned()
        };
        add(&name, Kind::Constant, (from, reached), false);
        add(
            "waits for the receiver's edge",
            Kind::Rtl,
            (reached, arrives),
            true,
        );
        if let Some(hop) = hop {
            let name = if links > 2 {
                format!("FIBNIC {}", number + 1)
            } else {
                "FIBNIC".to_owned()
            };
            add(&name, Kind::Rtl, (hop.first_in, hop.first_out), true);
            from = hop.first_out;
        }
    }
    add(
        "frame on the wire",
        Kind::Rtl,
        (at(Point::FirstWordIn), at(Point::LastWordIn)),
        true,
    );
    add(
        "NIC receives",
        Kind::Rtl,
        (at(Point::LastWordIn), at(Point::DmaOut)),
        false,
    );
    add(
        "PCIe to memory",
        Kind::Constant,
        (at(Point::DmaOut), at(Point::Visible)),
        false,
    );
    add(
        "program polls",
        Kind::Constant,
        (at(Point::Visible), at(Point::Seen)),
        false,
    );
}
