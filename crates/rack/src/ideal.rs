// SPDX-License-Identifier: Apache-2.0
//! The switch to compare with: it forwards IPv4 as the RTL does, as fast, and its outputs have queues without end, first
//! come first served. Nothing is lost in it and nothing has to be paced for it. It has no host side and no counters; it
//! answers ARP for the addresses of its ports itself.
//!
//! With [`Latency::Stored`] it is a switch of another make, of which the latency is known and no more.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::path::Path;

use ipnuma_rtl::{Error, NetSpeed, NetWord, SwitchInputs, SwitchOutputs};

use crate::frame::FCS_BYTES;
use crate::model::SwitchModel;
use crate::tables::mac_bytes;
use crate::time::Picoseconds;

const START: u8 = 0xFB;
const TERMINATE: u8 = 0xFD;
const IDLE: u8 = 0x07;
const PREAMBLE: u8 = 0x55;
const DELIMITER: u8 = 0xD5;
/// Preamble and start delimiter.
const PREAMBLE_BYTES: usize = 8;
/// Least gap between frames on average.
const GAP_BYTES: usize = 12;
/// A frame starts at a multiple of so many bytes at 10G.
const COLUMN: usize = 4;
/// Bytes that tell where a frame goes: to the end of the IPv4 destination.
const HEAD_BYTES: usize = 34;

/// Shortest frame without its FCS.
const SHORTEST: usize = 60;
/// An ARP request for IPv4 on Ethernet: from the type of the frame to the operation.
const ARP_REQUEST: [u8; 10] = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
/// The operation of the answer.
const ARP_REPLY: u8 = 2;

/// Where frames to an address leave.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Port.
    pub port: usize,
    /// MAC address of the port.
    pub own: u64,
    /// MAC address at the other end of its cable.
    pub next: u64,
}

/// When a frame may leave.
#[derive(Clone, Debug)]
pub enum Latency {
    /// So many cycles after its start, whatever its length.
    Cut(u64),
    /// Not before it is in the switch whole, and so many cycles after its start: by bytes with FCS, the shortest first,
    /// linear between them and constant beyond.
    Stored(Vec<(usize, u64)>),
}

impl Latency {
    /// Cycles for a frame.
    fn cycles(&self, bytes: usize) -> u64 {
        let points = match self {
            Self::Cut(cycles) => return *cycles,
            Self::Stored(points) => points,
        };
        let behind = points.iter().position(|(at, _)| *at >= bytes);
        match behind {
            None => points.last().map_or(0, |(_, cycles)| *cycles),
            Some(0) => points[0].1,
            Some(index) => {
                let ((a, low), (b, high)) = (points[index - 1], points[index]);
                let part = (bytes - a) as f64 / (b - a) as f64;
                let cycles = low as f64 + part * (high as f64 - low as f64);
                cycles.round() as u64
            }
        }
    }
}

/// Address of a port: what it answers ARP for.
#[derive(Clone, Copy, Debug)]
pub struct OwnAddress {
    /// IPv4.
    pub ip: Ipv4Addr,
    /// MAC.
    pub mac: u64,
}

/// A frame in the switch, whole or not.
#[derive(Debug, Default)]
struct Inside {
    /// When it began to arrive, in columns.
    began: u64,
    /// When its start is to leave at the earliest, in columns.
    due: u64,
    /// As received, from the destination address on.
    bytes: Vec<u8>,
    /// Its head with the addresses of the next hop, when it is known.
    head: Option<[u8; HEAD_BYTES]>,
    /// The FCS that it leaves with, when it has ended.
    fcs: Option<[u8; FCS_BYTES]>,
}

impl Inside {
    /// Byte of the line at a place: value, and whether it is a control character.
    fn byte(&self, place: usize) -> (u8, bool) {
        let Some(index) = place.checked_sub(PREAMBLE_BYTES) else {
            return match place {
                0 => (START, true),
                7 => (DELIMITER, false),
                _ => (PREAMBLE, false),
            };
        };
        let body = self.bytes.len().saturating_sub(FCS_BYTES);
        match (self.head, self.fcs) {
            (Some(head), _) if index < HEAD_BYTES => (head[index], false),
            (_, Some(fcs)) if index >= body => match index - body {
                place if place < FCS_BYTES => (fcs[place], false),
                FCS_BYTES => (TERMINATE, true),
                _ => (IDLE, true),
            },
            _ => (self.bytes[index], false),
        }
    }

    /// Bytes on the line with the preamble, of a frame that has ended.
    fn line_bytes(&self) -> usize {
        PREAMBLE_BYTES + self.bytes.len()
    }
}

/// A frame that is arriving at a port.
#[derive(Debug)]
struct Arriving {
    id: u64,
    /// Bytes of the preamble that are still to come.
    preamble: usize,
}

/// The sending side of a port.
#[derive(Debug, Default)]
struct Output {
    queue: VecDeque<u64>,
    sending: Option<(u64, usize)>,
    /// When the next frame may start, in columns.
    free: u64,
    /// Bytes by which gaps were shorter than they should be.
    deficit: usize,
}

/// The switch.
pub struct IdealSwitch<const N: usize> {
    speed: NetSpeed,
    latency: Latency,
    ways: BTreeMap<Ipv4Addr, Way>,
    own: BTreeMap<usize, OwnAddress>,
    inputs: SwitchInputs<N>,
    outputs: SwitchOutputs<N>,
    arriving: [Option<Arriving>; N],
    ports: [Output; N],
    frames: BTreeMap<u64, Inside>,
    next_id: u64,
    /// Time in columns: half words at 10G, bytes at 1G.
    column: u64,
}

/// Columns of a cycle.
const fn columns(speed: NetSpeed) -> u64 {
    match speed {
        NetSpeed::TenGig => 2,
        NetSpeed::OneGig => 1,
    }
}

impl<const N: usize> IdealSwitch<N> {
    /// A switch with this latency from the start of a frame in to its start out.
    pub fn new(speed: NetSpeed, latency: Latency, ways: BTreeMap<Ipv4Addr, Way>) -> Self {
        let net = [speed.idle(); N];
        Self {
            speed,
            latency,
            ways,
            own: BTreeMap::new(),
            inputs: SwitchInputs {
                rst: false,
                rst_core: false,
                rst_rx: 0,
                net,
                host: None,
                host_ready: false,
                write: None,
                counter: 0,
            },
            outputs: SwitchOutputs {
                net,
                host: None,
                host_in_ready: true,
                write_ready: true,
                counter: 0,
                check: 0,
                busy: false,
            },
            arriving: std::array::from_fn(|_| None),
            ports: std::array::from_fn(|_| Output::default()),
            frames: BTreeMap::new(),
            next_id: 0,
            column: 0,
        }
    }

    /// Gives ports addresses for which they answer ARP.
    pub fn answer_for(&mut self, own: BTreeMap<usize, OwnAddress>) {
        self.own = own;
    }

    fn insert(&mut self, inside: Inside) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.frames.insert(id, inside);
        id
    }

    fn begin(&mut self, port: usize, column: u64, preamble: usize) {
        let due = match self.latency {
            Latency::Cut(cycles) => column + cycles * columns(self.speed),
            Latency::Stored(_) => u64::MAX,
        };
        let id = self.insert(Inside {
            began: column,
            due,
            ..Inside::default()
        });
        self.arriving[port] = Some(Arriving { id, preamble });
    }

    fn byte(&mut self, port: usize, byte: u8) {
        let Some(arriving) = &mut self.arriving[port] else {
            return;
        };
        if arriving.preamble > 0 {
            arriving.preamble -= 1;
            return;
        }
        let id = arriving.id;
        let frame = self.frames.get_mut(&id).expect("it is arriving");
        frame.bytes.push(byte);
        if frame.bytes.len() == HEAD_BYTES {
            self.route(id);
        }
    }

    /// The head of a frame is there: it gets into a queue, or it is forgotten at its end.
    fn route(&mut self, id: u64) {
        let frame = self.frames.get_mut(&id).expect("it is arriving");
        let mut head: [u8; HEAD_BYTES] = frame.bytes[..].try_into().expect("the whole head");
        if head[12..15] != [8, 0, 0x45] {
            return;
        }
        let to = Ipv4Addr::new(head[30], head[31], head[32], head[33]);
        let Some(way) = self.ways.get(&to) else {
            return;
        };
        head[..6].copy_from_slice(&mac_bytes(way.next));
        head[6..12].copy_from_slice(&mac_bytes(way.own));
        head[22] = head[22].wrapping_sub(1);
        head[24..26].fill(0);
        let sum = wire::ip_checksum(&head[14..34]);
        head[24..26].copy_from_slice(&sum.to_be_bytes());
        frame.head = Some(head);
        self.ports[way.port].queue.push_back(id);
    }

    fn end(&mut self, port: usize, good: bool) {
        let Some(arriving) = self.arriving[port].take() else {
            return;
        };
        let frame = self.frames.get_mut(&arriving.id).expect("it has arrived");
        let Some(head) = frame.head else {
            let frame = self.frames.remove(&arriving.id).expect("it has arrived");
            if good {
                self.answer_arp(port, &frame);
            }
            return;
        };
        let (body, fcs) = frame.bytes.split_at(frame.bytes.len() - FCS_BYTES);
        let good = good && wire::fcs(body) == *fcs;
        if matches!(self.latency, Latency::Stored(_)) {
            if !good {
                for port in &mut self.ports {
                    port.queue.retain(|id| *id != arriving.id);
                }
                self.frames.remove(&arriving.id);
                return;
            }
            let cycles = self.latency.cycles(frame.bytes.len());
            frame.due = (frame.began + cycles * columns(self.speed)).max(self.column);
        }
        let mut rewritten = body.to_vec();
        rewritten[..HEAD_BYTES].copy_from_slice(&head);
        let fcs = wire::fcs(&rewritten);
        frame.fcs = Some(if good { fcs } else { fcs.map(|byte| !byte) });
    }

    /// Answers a whole frame if it is an ARP request for the address of its port.
    fn answer_arp(&mut self, port: usize, frame: &Inside) {
        let Some(own) = self.own.get(&port) else {
            return;
        };
        let Some(end) = frame.bytes.len().checked_sub(FCS_BYTES) else {
            return;
        };
        let (request, fcs) = frame.bytes.split_at(end);
        let asked = request.get(12..22) == Some(&ARP_REQUEST)
            && request.get(38..42) == Some(&own.ip.octets())
            && wire::fcs(request) == *fcs;
        if !asked {
            return;
        }
        let mac = mac_bytes(own.mac);
        let (asker_mac, asker_ip) = (&request[22..28], &request[28..32]);
        let mut bytes = [asker_mac, &mac[..], &ARP_REQUEST].concat();
        bytes[21] = ARP_REPLY;
        bytes.extend([&mac[..], &own.ip.octets(), asker_mac, asker_ip].concat());
        bytes.resize(SHORTEST, 0);
        let head = bytes[..HEAD_BYTES].try_into().expect("it is longer");
        let fcs = wire::fcs(&bytes);
        bytes.extend(fcs);
        let cycles = self.latency.cycles(bytes.len());
        let id = self.insert(Inside {
            began: frame.began,
            due: (frame.began + cycles * columns(self.speed)).max(self.column),
            bytes,
            head: Some(head),
            fcs: Some(fcs),
        });
        self.ports[port].queue.push_back(id);
    }

    fn receive(&mut self, port: usize) {
        match self.inputs.net[port] {
            NetWord::Xgmii { data, control } => {
                for (lane, byte) in data.to_le_bytes().into_iter().enumerate() {
                    if control >> lane & 1 == 0 {
                        self.byte(port, byte);
                    } else if byte == START {
                        let column = self.column + (lane / COLUMN) as u64;
                        self.begin(port, column, PREAMBLE_BYTES - 1);
                    } else {
                        self.end(port, byte == TERMINATE);
                    }
                }
            }
            NetWord::Gmii { data, enable, .. } => {
                if enable && self.arriving[port].is_none() {
                    self.begin(port, self.column, PREAMBLE_BYTES);
                }
                if enable {
                    self.byte(port, data);
                } else {
                    self.end(port, true);
                }
            }
        }
    }

    /// The next bytes of a port, as many as a column has; none if it is idle.
    fn send(&mut self, port: usize, column: u64) -> Option<[(u8, bool); COLUMN]> {
        let width = match self.speed {
            NetSpeed::TenGig => COLUMN,
            NetSpeed::OneGig => 1,
        };
        let output = &mut self.ports[port];
        if output.sending.is_none() {
            let id = *output.queue.front()?;
            if column < output.free || column < self.frames[&id].due {
                return None;
            }
            output.queue.pop_front();
            output.sending = Some((id, 0));
        }
        let (id, place) = output.sending.as_mut()?;
        let frame = &self.frames[id];
        let bytes = std::array::from_fn(|index| match index {
            _ if index < width => frame.byte(*place + index),
            _ => (IDLE, true),
        });
        *place += width;
        // The terminate is the first byte of the gap; at 1G it is an idle byte.
        if frame.fcs.is_some() && *place > frame.line_bytes() {
            let id = *id;
            let over = frame.line_bytes() % width;
            // From this column to the next start, rounded down as long as what is missing is less than a column.
            let mut columns = (frame.line_bytes() + GAP_BYTES) / width - (*place / width - 1);
            if output.deficit + over < COLUMN {
                output.deficit += over;
            } else {
                output.deficit = output.deficit.saturating_sub(width - over);
                columns += 1;
            }
            output.free = column + columns as u64;
            output.sending = None;
            self.frames.remove(&id);
        }
        Some(bytes)
    }

    fn transmit(&mut self, port: usize) -> NetWord {
        match self.speed {
            NetSpeed::TenGig => {
                let idle = [(IDLE, true); COLUMN];
                let halves = [0, 1].map(|half| self.send(port, self.column + half));
                let lanes = halves.map(|half| half.unwrap_or(idle)).concat();
                NetWord::Xgmii {
                    data: lanes.iter().rev().fold(0, |d, l| d << 8 | u64::from(l.0)),
                    control: lanes.iter().rev().fold(0, |c, l| c << 1 | u8::from(l.1)),
                }
            }
            NetSpeed::OneGig => match self.send(port, self.column) {
                Some([(byte, control), ..]) => NetWord::Gmii {
                    // The start takes the place of the first byte of the preamble.
                    data: if byte == START && control {
                        PREAMBLE
                    } else {
                        byte
                    },
                    enable: !(control && byte == TERMINATE),
                    error: false,
                },
                None => self.speed.idle(),
            },
        }
    }
}

impl<const N: usize> SwitchModel<N> for IdealSwitch<N> {
    fn inputs(&mut self) -> &mut SwitchInputs<N> {
        &mut self.inputs
    }

    fn settle(&mut self) -> Result<SwitchOutputs<N>, Error> {
        Ok(self.outputs)
    }

    fn edge(&mut self) -> Result<SwitchOutputs<N>, Error> {
        for port in 0..N {
            self.receive(port);
        }
        for port in 0..N {
            self.outputs.net[port] = self.transmit(port);
        }
        self.column += columns(self.speed);
        // A gap that has not passed yet is remembered by time, and needs no clock.
        self.outputs.busy = !self.frames.is_empty();
        Ok(self.outputs)
    }

    fn reset(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn set_time(&mut self, time: Picoseconds) {
        // Sleep must not shorten gaps: the column follows the clock's own time.
        let columns = time.0 / self.speed.net_period_ps() * columns(self.speed);
        self.column = self.column.max(columns);
    }

    fn trace(&mut self, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn trace_close(&mut self) {}

    fn speed(&self) -> NetSpeed {
        self.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Framer, words};

    const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn frame(number: u8, data: usize) -> Vec<u8> {
        let mut frame = vec![0; HEAD_BYTES];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[22] = 64;
        frame[30..34].copy_from_slice(&TO.octets());
        frame.resize(HEAD_BYTES + data, number);
        frame
    }

    /// Frames into ports 1 and up, one behind the other; what comes out of port 0, and when, in edges.
    fn run(
        speed: NetSpeed,
        senders: usize,
        frames: usize,
        data: usize,
    ) -> Vec<(u64, u64, Vec<u8>)> {
        let way = Way {
            port: 0,
            own: 0x0A0B,
            next: 0x0C0D,
        };
        let mut switch =
            IdealSwitch::<4>::new(speed, Latency::Cut(50), BTreeMap::from([(TO, way)]));
        let mut lines: Vec<VecDeque<NetWord>> = (0..senders)
            .map(|sender| {
                let each = (0..frames).map(|_| words(speed, &frame(sender as u8, data)));
                each.flatten().collect()
            })
            .collect();
        let mut framer = Framer::default();
        let mut found = Vec::new();
        let mut edge = 0;
        loop {
            for (sender, line) in lines.iter_mut().enumerate() {
                switch.inputs().net[sender + 1] = line.pop_front().unwrap_or(speed.idle());
            }
            let outputs = switch.edge().expect("it cannot fail");
            if let Some(frame) = framer.word(Picoseconds(edge), outputs.net[0]) {
                found.push((frame.first.0, frame.last.0, frame.bytes));
            }
            edge += 1;
            if !outputs.busy && lines.iter().all(VecDeque::is_empty) {
                return found;
            }
        }
    }

    /// One frame into port 1 at edge 0; what comes out of a port, and when.
    fn pass(switch: &mut IdealSwitch<4>, frame: &[u8], out: usize) -> Vec<(u64, Vec<u8>)> {
        let speed = switch.speed;
        let mut line: VecDeque<NetWord> = words(speed, frame).into();
        let mut framer = Framer::default();
        let mut found = Vec::new();
        for edge in 0.. {
            switch.inputs().net[1] = line.pop_front().unwrap_or(speed.idle());
            let outputs = switch.edge().expect("it cannot fail");
            if let Some(frame) = framer.word(Picoseconds(edge), outputs.net[out]) {
                found.push((frame.first.0, frame.bytes));
            }
            if !outputs.busy && line.is_empty() {
                break;
            }
        }
        found
    }

    #[test]
    fn a_stored_frame_waits_for_its_end_and_for_its_latency() {
        let latency = Latency::Stored(vec![(64, 100), (1_000, 300)]);
        for (bytes, cycles) in [(10, 100), (64, 100), (532, 200), (1_000, 300), (2_000, 300)] {
            assert_eq!(latency.cycles(bytes), cycles, "{bytes} bytes");
        }
        let way = Way {
            port: 0,
            own: 1,
            next: 2,
        };
        let switch = |speed| IdealSwitch::new(speed, latency.clone(), BTreeMap::from([(TO, way)]));
        // Shorter on the line than the latency, and longer: preamble, frame and FCS.
        for (length, first) in [(60, 100..=100), (528, 540..=542)] {
            let found = pass(
                &mut switch(NetSpeed::OneGig),
                &frame(1, length - HEAD_BYTES),
                0,
            );
            assert_eq!(found.len(), 1);
            assert!(first.contains(&found[0].0), "{length}: edge {}", found[0].0);
        }
        // At 10G the longer one is 68 words and waits for its latency as well.
        let found = pass(
            &mut switch(NetSpeed::TenGig),
            &frame(1, 528 - HEAD_BYTES),
            0,
        );
        assert_eq!(found[0].0, 200);
    }

    #[test]
    fn ports_answer_arp_for_their_own_address() {
        let own = OwnAddress {
            ip: Ipv4Addr::new(10, 0, 1, 254),
            mac: 0x0200_0000_00FE,
        };
        for (asked, answers) in [(own.ip, 1), (Ipv4Addr::new(10, 0, 1, 253), 0)] {
            let mut switch =
                IdealSwitch::<4>::new(NetSpeed::OneGig, Latency::Cut(50), BTreeMap::new());
            switch.answer_for(BTreeMap::from([(1, own)]));
            let asker = [2, 0, 0, 0, 0, 1];
            let mut request =
                [&[0xFF; 6][..], &asker, &ARP_REQUEST, &asker, &[10, 0, 1, 1]].concat();
            request.extend([0; 6]);
            request.extend(asked.octets());
            let found = pass(&mut switch, &request, 1);
            assert_eq!(found.len(), answers, "{asked}");
            let Some((_, bytes)) = found.first() else {
                continue;
            };
            let (body, fcs) = bytes.split_at(bytes.len() - FCS_BYTES);
            assert_eq!(wire::fcs(body), *fcs);
            let mac = mac_bytes(own.mac);
            assert_eq!((&body[..6], &body[6..12]), (&asker[..], &mac[..]));
            assert_eq!(body[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
            assert_eq!(
                (&body[22..28], &body[28..32]),
                (&mac[..], &own.ip.octets()[..])
            );
            assert_eq!(
                (&body[32..38], &body[38..42]),
                (&asker[..], &[10, 0, 1, 1][..])
            );
        }
    }

    #[test]
    fn a_lone_frame_takes_the_latency_and_is_rewritten() {
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            let found = run(speed, 1, 1, 30);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].0, 50);
            let bytes = &found[0].2;
            let (body, fcs) = bytes.split_at(bytes.len() - FCS_BYTES);
            assert_eq!(wire::fcs(body), *fcs);
            assert_eq!(body[..12], [0, 0, 0, 0, 0x0C, 0x0D, 0, 0, 0, 0, 0x0A, 0x0B]);
            assert_eq!(body[22], 63);
            assert_eq!(body[34..64], [0; 30]);
        }
    }

    #[test]
    fn nothing_is_lost_and_the_line_is_full() {
        for (speed, data) in [
            (NetSpeed::TenGig, 86),
            (NetSpeed::TenGig, 87),
            (NetSpeed::OneGig, 86),
        ] {
            let found = run(speed, 3, 100, data);
            assert_eq!(found.len(), 300);
            let span = (found[299].0 - found[0].0) as f64;
            let line = PREAMBLE_BYTES + HEAD_BYTES + data + FCS_BYTES + GAP_BYTES;
            let width = if speed == NetSpeed::TenGig { 8.0 } else { 1.0 };
            let share = 299.0 * line as f64 / width / span;
            assert!((0.999..=1.001).contains(&share), "{speed:?}: {share}");
        }
    }
}
