// SPDX-License-Identifier: Apache-2.0
//! What is remembered of a run: the hash of everything, the stages of every packet, captures.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::frame::Frame;
use crate::ids::ComponentId;
pub use crate::ids::PacketId;
use crate::passage::Passages;
use crate::time::Picoseconds;
use crate::timeline::Timeline;

/// Points on a store's way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Point {
    /// The program stores.
    Issued,
    /// The TLP leaves the root complex: after the write-combining buffer, and with credits.
    Left,
    /// The sending NIC takes the first beat of the TLP.
    TlpIn,
    /// The first word of the frame is in the output register of the sending MAC.
    FirstWordOut,
    /// The first word is sampled by the MAC of the receiving NIC, behind all switches.
    FirstWordIn,
    /// The word with the last byte of the FCS is sampled there.
    LastWordIn,
    /// The root complex takes the first beat of the DMA write.
    DmaOut,
    /// The core can see the data.
    Visible,
    /// The program has seen them.
    Seen,
}

/// Number of points.
pub const POINTS: usize = Point::Seen as usize + 1;
/// Number of stages between the points.
pub const STAGES: usize = POINTS - 1;

/// The stage between [`Point::FirstWordOut`] and [`Point::FirstWordIn`]: cables and switches.
pub const NETWORK: usize = Point::FirstWordOut as usize;

/// A frame's way through a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The switch.
    pub switch: ComponentId,
    /// Ports in and out.
    pub ports: (usize, usize),
    /// The first word, which has the first byte of the preamble, is sampled by the switch.
    pub first_in: Picoseconds,
    /// It is in the output register of the port out.
    pub first_out: Picoseconds,
}

impl Hop {
    /// What the switch takes.
    pub fn latency(&self) -> Picoseconds {
        self.first_out - self.first_in
    }
}

/// One store that arrived.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Which.
    pub id: PacketId,
    /// The host that stored.
    pub from: ComponentId,
    /// The host that saw it.
    pub to: ComponentId,
    /// When each point was passed.
    pub at: [Picoseconds; POINTS],
    /// The switches on the way, in order.
    pub hops: Vec<Hop>,
}

impl Packet {
    /// Length of each stage. They partition the one-way time.
    pub fn stages(&self) -> [Picoseconds; STAGES] {
        std::array::from_fn(|index| self.at[index + 1] - self.at[index])
    }

    /// What the cables take, with their physical layers and the wait for the next clock edge: the network without the
    /// switches.
    pub fn links(&self) -> Picoseconds {
        let ins = self.hops.iter().map(|hop| hop.first_in);
        let outs = self.hops.iter().map(|hop| hop.first_out);
        let begins = std::iter::once(self.at[NETWORK]).chain(outs);
        let ends = ins.chain([self.at[NETWORK + 1]]);
        begins
            .zip(ends)
            .fold(Picoseconds::ZERO, |sum, (begin, end)| sum + (end - begin))
    }

    /// Whether every point comes after the one before, those of the switches included.
    fn is_in_order(&self) -> bool {
        let (before, after) = self.at.split_at(NETWORK + 1);
        let hops = self.hops.iter();
        let hops = hops.flat_map(|hop| [hop.first_in, hop.first_out]);
        let all = before.iter().copied().chain(hops);
        all.chain(after.iter().copied()).is_sorted()
    }

    /// From the store to the program at the other end.
    pub fn one_way(&self) -> Picoseconds {
        self.at[POINTS - 1] - self.at[0]
    }
}

/// Least, most and sum of a duration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Sum of all.
    pub sum: Picoseconds,
    /// Shortest.
    pub min: Picoseconds,
    /// Longest.
    pub max: Picoseconds,
}

impl Spread {
    /// Counts one more.
    pub fn add(&mut self, value: Picoseconds) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.sum += value;
        self.count += 1;
    }

    /// Mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.sum.as_ns() / self.count.max(1) as f64
    }
}

/// Accesses over one host's bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusAccesses {
    /// Memory writes by the CPU.
    pub cpu_write: u64,
    /// Memory reads by the CPU.
    pub cpu_read: u64,
    /// Memory writes by the NIC.
    pub dma_write: u64,
    /// Memory reads by the NIC.
    pub dma_read: u64,
}

/// A frame seen on a cable, at the sending MAC.
#[derive(Clone, Debug)]
pub struct CapturedFrame {
    /// The NIC or switch that sent it.
    pub from: ComponentId,
    /// The port of the switch; 0 for a NIC.
    pub port: usize,
    /// The frame.
    pub frame: Frame,
}

/// A TLP seen at a NIC.
#[derive(Clone, Debug)]
pub struct CapturedTlp {
    /// The NIC.
    pub nic: ComponentId,
    /// Towards the NIC, or from it.
    pub to_nic: bool,
    /// First and last beat.
    pub beats: (Picoseconds, Picoseconds),
    /// The bytes.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Open {
    from: ComponentId,
    at: [Option<Picoseconds>; POINTS],
    hops: Vec<Hop>,
    data: Vec<u8>,
}

/// What the hash has for a frame at port 0; TLPs have 0 and 1.
const FIRST_FRAME_KIND: u8 = 2;

/// Listens to all components.
#[derive(Debug)]
pub struct Recorder {
    sha: Sha256,
    open: BTreeMap<PacketId, Open>,
    next: u64,
    /// Whether stores are followed on their way. A store that travels in another's frame, or a second time, has no
    /// way of its own to follow.
    pub tracing: bool,
    /// Whether finished packets and bus accesses count: off during warm-up.
    pub measuring: bool,
    /// Each stage.
    pub stages: [Spread; STAGES],
    /// Of the network: cables with their physical layers, see [`Packet::links`].
    pub links: Spread,
    /// Of the network: each switch.
    pub switches: BTreeMap<ComponentId, Spread>,
    /// The whole way.
    pub one_way: Spread,
    /// The whole way of each measured packet.
    pub one_ways: Vec<Picoseconds>,
    /// Bus accesses by host.
    pub accesses: BTreeMap<ComponentId, BusAccesses>,
    /// Keep this many packets, frames and TLPs for the files.
    pub keep: usize,
    /// Packets kept.
    pub packets: Vec<Packet>,
    /// Frames kept.
    pub frames: Vec<CapturedFrame>,
    /// TLPs kept.
    pub tlps: Vec<CapturedTlp>,
    /// Frames and TLPs in all.
    pub counted: (u64, u64),
    /// How tables and lines changed.
    pub timeline: Timeline,
    /// What switches and routers take for frames, of a rack with routers.
    pub passages: Passages,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            sha: Sha256::default(),
            open: BTreeMap::new(),
            next: 0,
            tracing: true,
            measuring: false,
            stages: Default::default(),
            links: Spread::default(),
            switches: BTreeMap::new(),
            one_way: Spread::default(),
            one_ways: Vec::new(),
            accesses: BTreeMap::new(),
            keep: 0,
            packets: Vec::new(),
            frames: Vec::new(),
            tlps: Vec::new(),
            counted: (0, 0),
            timeline: Timeline::default(),
            passages: Passages::default(),
        }
    }
}

impl Recorder {
    fn hash(&mut self, kind: u8, component: ComponentId, times: [Picoseconds; 2], bytes: &[u8]) {
        let mut head = [0; 29];
        head[0] = kind;
        head[1..5].copy_from_slice(&component.0.to_le_bytes());
        head[5..13].copy_from_slice(&times[0].0.to_le_bytes());
        head[13..21].copy_from_slice(&times[1].0.to_le_bytes());
        head[21..29].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.sha.update(head);
        self.sha.update(bytes);
    }

    /// The hash of all TLPs and frames so far, with their times.
    pub fn digest(&self) -> String {
        let hash = self.sha.clone().finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A TLP crossed the boundary of a NIC.
    pub fn tlp(
        &mut self,
        nic: ComponentId,
        to_nic: bool,
        beats: (Picoseconds, Picoseconds),
        bytes: &[u8],
    ) {
        self.counted.1 += 1;
        self.hash(u8::from(to_nic), nic, [beats.0, beats.1], bytes);
        if self.tlps.len() < self.keep {
            self.tlps.push(CapturedTlp {
                nic,
                to_nic,
                beats,
                bytes: bytes.to_vec(),
            });
        }
    }

    /// A frame left the MAC of a NIC, or of a switch's port.
    pub fn frame(&mut self, from: ComponentId, port: usize, frame: &Frame) {
        self.counted.0 += 1;
        let kind = FIRST_FRAME_KIND + port as u8;
        self.hash(kind, from, [frame.first, frame.last], &frame.bytes);
        self.passages.frame(from, port, frame);
        if self.frames.len() < self.keep {
            self.frames.push(CapturedFrame {
                from,
                port,
                frame: frame.clone(),
            });
        }
    }

    /// A CPU issues a store.
    pub fn issue(&mut self, time: Picoseconds, host: ComponentId, data: &[u8]) -> PacketId {
        let id = PacketId(self.next);
        self.next += 1;
        let mut at = [None; POINTS];
        at[0] = Some(time);
        self.open.insert(
            id,
            Open {
                from: host,
                at,
                hops: Vec::new(),
                data: data.to_vec(),
            },
        );
        id
    }

    /// The data of a store that is under way.
    pub fn data(&self, id: PacketId) -> Option<&[u8]> {
        self.open.get(&id).map(|open| open.data.as_slice())
    }

    /// A packet passes a point.
    pub fn pass(&mut self, id: PacketId, point: Point, time: Picoseconds) {
        if let Some(open) = self.open.get_mut(&id) {
            open.at[point as usize] = Some(time);
        }
    }

    /// A packet's frame has left a switch.
    pub fn hop(&mut self, id: PacketId, hop: Hop) {
        if let Some(open) = self.open.get_mut(&id) {
            open.hops.push(hop);
        }
    }

    /// A program has seen a packet: its way ends.
    pub fn seen(&mut self, id: PacketId, time: Picoseconds, host: ComponentId) {
        self.pass(id, Point::Seen, time);
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        // A store that was lost and sent again has no whole way.
        let Some(at) = open.at.into_iter().collect::<Option<Vec<_>>>() else {
            return;
        };
        let packet = Packet {
            id,
            from: open.from,
            to: host,
            at: std::array::from_fn(|index| at[index]),
            hops: open.hops,
        };
        assert!(
            packet.is_in_order(),
            "the points of a packet are passed in order: {packet:?}"
        );
        let mut parts = packet.stages();
        parts[NETWORK] = packet
            .hops
            .iter()
            .fold(packet.links(), |sum, hop| sum + hop.latency());
        let total: u64 = parts.iter().map(|part| part.0).sum();
        assert_eq!(
            total,
            packet.one_way().0,
            "the stages of a packet partition its one-way time"
        );
        if self.measuring {
            for (spread, stage) in self.stages.iter_mut().zip(packet.stages()) {
                spread.add(stage);
            }
            self.links.add(packet.links());
            for hop in &packet.hops {
                let spread = self.switches.entry(hop.switch).or_default();
                spread.add(hop.latency());
            }
            self.one_way.add(packet.one_way());
            self.one_ways.push(packet.one_way());
        }
        if self.packets.len() < self.keep {
            self.packets.push(packet);
        }
    }

    /// Forgets a packet that will not arrive or that nobody waits for.
    pub fn forget(&mut self, id: PacketId) {
        self.open.remove(&id);
    }

    /// Counts an access over a host's bus.
    pub fn access(&mut self, host: ComponentId, count: impl FnOnce(&mut BusAccesses)) {
        if self.measuring {
            count(self.accesses.entry(host).or_default());
        }
    }
}
