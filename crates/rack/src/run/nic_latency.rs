// SPDX-License-Identifier: Apache-2.0
//! Two NICs back to back, with their clocks in every relation.

use ipnuma_rtl::NetSpeed;

use super::{Options, run};
use crate::error::Error;
use crate::faults::Faults;
use crate::model::{Hardware, PCIE_PERIOD};
use crate::rack::Rack;
use crate::record::{Point, Spread};
use crate::time::Picoseconds;
use crate::topology::{Format, NicOptions, Pair, Rate, Topology};

/// Latency of the NICs alone, over all clock phases.
#[derive(Clone, Debug, Default)]
pub struct NicLatency {
    /// From the first beat of the store's TLP to the first beat of the DMA write.
    pub latency: Spread,
    /// The worst packet: its parts (transmit, serialisation, the hop, receive).
    pub worst: [Picoseconds; 4],
    /// Phases of that packet: PCIe and network clock of the sender, PCIe clock of the receiver.
    pub worst_phases: [Picoseconds; 3],
    /// Combinations of phases.
    pub combinations: u64,
}

/// Round trips for each combination of phases.
const LATENCY_LOOPS: u64 = 16;

/// Measures two NICs back to back, without hosts and physical layers, with the clocks in every relation in `step`s.
///
/// Both network clocks are in phase, as they are where one receives what the other sends.
pub fn nic_latency(
    (rate, format): (Rate, Format),
    bytes: usize,
    nic: NicOptions,
    step: Picoseconds,
    hardware: &dyn Hardware,
) -> Result<NicLatency, Error> {
    let topology = Topology::pair(Pair {
        platform: "keio-2016".to_owned(),
        seed: 0,
        rate,
        format,
        metres: 0.0,
        bytes,
        loops: LATENCY_LOOPS,
        warmup: 0,
        nic,
        faults: Faults::default(),
    });
    let period = NetSpeed::from(rate).net_period_ps();
    let phases = |period: u64| (0..period).step_by(step.0 as usize).map(Picoseconds);
    let mut found = NicLatency::default();
    for net in phases(period) {
        for receiver in phases(PCIE_PERIOD.0) {
            let options = Options {
                bare: true,
                keep: 2 * LATENCY_LOOPS as usize,
                phases: Some(vec![(Picoseconds::ZERO, net), (receiver, net)]),
                ..Options::default()
            };
            let outcome = run(&topology, &options, hardware)?;
            found.combinations += 1;
            for packet in &outcome.record.packets {
                let at = |point: Point| packet.at[point as usize];
                let total = at(Point::DmaOut) - at(Point::TlpIn);
                if total > found.latency.max {
                    found.worst = [
                        at(Point::FirstWordOut) - at(Point::TlpIn),
                        at(Point::LastWordIn) - at(Point::FirstWordIn),
                        at(Point::FirstWordIn) - at(Point::FirstWordOut),
                        at(Point::DmaOut) - at(Point::LastWordIn),
                    ];
                    let back = packet.from != Rack::ids(0).0;
                    let (one, two) = (Picoseconds::ZERO, receiver);
                    found.worst_phases = if back {
                        [two, net, one]
                    } else {
                        [one, net, two]
                    };
                }
                found.latency.add(total);
            }
        }
    }
    Ok(found)
}
