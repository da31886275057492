// SPDX-License-Identifier: Apache-2.0
//! What switches and routers take for a frame: from its first bit in to its first bit out.
//!
//! It is read off the cables. A frame is known again by what routers leave as it is: addresses and contents of its IPv4
//! packet.

use std::collections::BTreeMap;

use crate::frame::Frame;
use crate::ids::ComponentId;
use crate::platform::Platform;
use crate::rack::Rack;
use crate::record::Spread;
use crate::run::cable_delays;
use crate::time::Picoseconds;
use crate::topology::{End, Topology};

/// Frames that are kept in mind for each device; what is for itself stays there.
const MOST_OPEN: usize = 4_096;
const ETHERNET_BYTES: usize = 14;
const FCS_BYTES: usize = 4;

/// Where a frame was sent: a NIC, or a switch with the number of its port.
type Sender = (ComponentId, usize);
/// Source, destination and contents of an IPv4 packet.
type Packet = Vec<u8>;

/// What a switch or a router took for frames of one length.
#[derive(Clone, Debug)]
pub struct Passage {
    /// Its name.
    pub name: String,
    /// Length of the frames, with their FCS.
    pub bytes: usize,
    /// From the first bit of the preamble at its pins to the first bit out, MAC to MAC.
    pub latency: Spread,
    /// A pair of physical layers, which comes on top; none if nobody publishes it.
    pub phy: Option<Picoseconds>,
}

/// One switch or router.
#[derive(Debug)]
struct Device {
    name: String,
    phy: Option<Picoseconds>,
    /// Who sends to it, with what the way takes.
    into: BTreeMap<Sender, Picoseconds>,
    /// What it sends from.
    out: Vec<ComponentId>,
    /// When what is in it came.
    open: BTreeMap<Packet, Picoseconds>,
    found: BTreeMap<usize, Spread>,
}

/// All that is watched.
#[derive(Debug, Default)]
pub struct Passages {
    devices: Vec<Device>,
}

/// The packet in a frame with its FCS, if it is one.
fn packet(frame: &[u8]) -> Option<Packet> {
    let end = frame.len().checked_sub(FCS_BYTES)?;
    let ip = frame.get(ETHERNET_BYTES..end)?;
    let is_ip = frame[ETHERNET_BYTES - 2..ETHERNET_BYTES] == [8, 0] && ip.first()? >> 4 == 4;
    let header = 4 * usize::from(ip[0] & 15);
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let mut packet = ip.get(12..20)?.to_vec();
    packet.extend(ip.get(header..total)?);
    is_ip.then_some(packet)
}

impl Device {
    fn frame(&mut self, from: Sender, frame: &Frame) {
        let way = self.into.get(&from).copied();
        if way.is_none() && !self.out.contains(&from.0) {
            return;
        }
        let Some(packet) = packet(&frame.bytes) else {
            return;
        };
        if let Some(way) = way {
            if self.open.len() >= MOST_OPEN {
                self.open.clear();
            }
            self.open.insert(packet, frame.first + way);
        } else if let Some(came) = self.open.remove(&packet) {
            let spread = self.found.entry(frame.bytes.len()).or_default();
            spread.add(frame.first.saturating_sub(came));
        }
    }
}

impl Passages {
    /// Watches the switches and routers of a topology with routers; of another nothing.
    pub fn of(topology: &Topology, platform: &Platform, rack: &Rack) -> Self {
        let hosts = 0..topology.host.len();
        let routers: Vec<_> = hosts
            .filter(|host| !topology.cards(*host).is_empty())
            .collect();
        if routers.is_empty() {
            return Self::default();
        }
        let component = |end: End| match end {
            End::Host(host) => (Rack::ids(host).1, 0),
            End::Switch(switch, port) => (rack.switch_id(switch), port),
        };
        let device = |name: &str, phy, ends: &dyn Fn(End) -> bool| {
            let mut device = Device {
                name: name.to_owned(),
                phy,
                into: BTreeMap::new(),
                out: Vec::new(),
                open: BTreeMap::new(),
                found: BTreeMap::new(),
            };
            for cable in &topology.cable {
                let [one, two] = topology.ends(cable).expect("the topology was checked");
                let [there, back] = cable_delays(topology, platform, cable);
                for (near, far, delay) in [(two, one, there), (one, two, back)] {
                    if ends(near) {
                        device.into.insert(component(far), delay);
                        device.out.push(component(near).0);
                    }
                }
            }
            device
        };
        let mut devices = Vec::new();
        for (number, switch) in topology.switch.iter().enumerate() {
            let phy = platform.switch_phy(switch.rate.into()).value();
            let ends = |end| matches!(end, End::Switch(switch, _) if switch == number);
            devices.push(device(switch.name.as_ref(), phy, &ends));
        }
        for router in routers {
            let host = &topology.host[router];
            let phy = platform.phy(host.nic.rate.into()).value();
            let ends = |end| matches!(end, End::Host(nic) if nic == router || topology.guest_of(nic) == Some(router));
            devices.push(device(host.name.as_ref(), phy, &ends));
        }
        Self { devices }
    }

    /// A frame left a NIC, or a switch's port.
    pub fn frame(&mut self, from: ComponentId, port: usize, frame: &Frame) {
        for device in &mut self.devices {
            device.frame((from, port), frame);
        }
    }

    /// What was seen: of each device, the shortest frames first.
    pub fn found(&self) -> Vec<Passage> {
        let devices = self.devices.iter();
        let found = devices.flat_map(|device| {
            device.found.iter().map(|(bytes, latency)| Passage {
                name: device.name.clone(),
                bytes: *bytes,
                latency: *latency,
                phy: device.phy,
            })
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: ComponentId = ComponentId(1);
    const SWITCH: ComponentId = ComponentId(4);

    /// An IPv4 packet of a few bytes, padded, with this many hops left.
    fn frame(hops: u8, number: u8, first: u64) -> Frame {
        let mut bytes = vec![hops; ETHERNET_BYTES - 2];
        bytes.extend([8, 0, 0x45, 0, 0, 22, 0, 0, 0, 0, hops, 1, hops, hops]);
        bytes.extend([10, 0, 0, 1, 10, 0, 1, 1, number, 9]);
        // Padding and FCS are each sender's own.
        bytes.resize(64, hops);
        Frame {
            bytes,
            first: Picoseconds(first),
            last: Picoseconds(first + 512),
        }
    }

    fn passages() -> Passages {
        let device = Device {
            name: "sw".to_owned(),
            phy: None,
            into: BTreeMap::from([((NIC, 0), Picoseconds(100))]),
            out: vec![SWITCH],
            open: BTreeMap::new(),
            found: BTreeMap::new(),
        };
        Passages {
            devices: vec![device],
        }
    }

    #[test]
    fn a_frame_is_timed_from_its_arrival_at_the_pins_and_known_again_with_other_hops() {
        let mut passages = passages();
        passages.frame(NIC, 0, &frame(64, 1, 1_000));
        passages.frame(NIC, 0, &frame(64, 2, 2_000));
        // Not what came in, and not by a port that leads in.
        passages.frame(SWITCH, 1, &frame(63, 3, 1_500));
        passages.frame(NIC, 1, &frame(64, 3, 1_500));
        assert!(passages.found().is_empty());
        passages.frame(SWITCH, 1, &frame(63, 1, 1_500));
        passages.frame(SWITCH, 1, &frame(63, 2, 2_700));
        // It left already.
        passages.frame(SWITCH, 1, &frame(63, 2, 9_000));
        let found = passages.found();
        assert_eq!(
            (found.len(), found[0].name.as_str(), found[0].bytes),
            (1, "sw", 64)
        );
        let latency = found[0].latency;
        assert_eq!((latency.count, latency.min.0, latency.max.0), (2, 400, 600));
    }

    #[test]
    fn what_is_no_packet_is_left_alone() {
        let mut short = frame(64, 1, 0);
        short.bytes.truncate(ETHERNET_BYTES + 10);
        let mut arp = frame(64, 1, 0);
        arp.bytes[ETHERNET_BYTES - 1] = 6;
        let mut long = frame(64, 1, 0);
        long.bytes[ETHERNET_BYTES + 3] = 200;
        let mut headless = frame(64, 1, 0);
        headless.bytes[ETHERNET_BYTES] = 0x4F;
        for wrong in [short, arp, long, headless] {
            assert_eq!(packet(&wrong.bytes), None);
        }
        let mut passages = passages();
        for number in 0..=MOST_OPEN {
            let mut frame = frame(64, 1, 0);
            frame.bytes[ETHERNET_BYTES + 12..ETHERNET_BYTES + 16]
                .copy_from_slice(&(number as u32).to_be_bytes());
            passages.frame(NIC, 0, &frame);
        }
        assert_eq!(passages.devices[0].open.len(), 1);
    }
}
