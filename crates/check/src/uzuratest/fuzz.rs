// SPDX-License-Identifier: Apache-2.0
//! The RTL and its model get the same packets, work requests and buffers, one after the other, and must do the same with
//! each. Their peer is another model, whose packets are altered on their way: so most of what comes is almost right.
//!
//! As everything under way ends before the next thing comes, both must answer with the same packets and completions in the same
//! order, of each queue pair's requests, responses, send queue and receive queue each by itself: the specification orders no
//! more, and the engine's halves work at once. Not compared are what hardware alone
//! counts (table misses, doorbells), and how often a request that cannot be done was looked at before those in front
//! of it had ended.

use std::collections::{BTreeMap, VecDeque};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use roce::{
    Address, Engine, Operation, PSN_MASK, Packet, Region, Segment, Settings, State, WorkRequest,
    opcode, syndrome, with_right_checksums,
};

use super::driver::names_of;
use super::end::{End, Kind};
use super::host::Manners;

const OWN: Address = Address {
    mac: 0x0200_0000_0001,
    ip: 0x0A00_0001,
};
const PEER: Address = Address {
    mac: 0x0200_0000_0002,
    ip: 0x0A00_0002,
};
/// The peer's queue pairs have the numbers of the engine's, and this.
const PEER_QPN: u32 = 0x12_3400;
/// Work requests and buffers that wait at once.
const MOST_POSTED: u32 = 24;
/// Bytes that no message exceeds.
const LONGEST: u32 = 4000;
const COUNT_EVERY: u64 = 64;
/// For so many steps faults are frequent, or so many times rarer, when a queue pair lives long enough to fill its window.
const SEASON: u64 = 256;
const CALM: u32 = 20;

/// Regions of both ends: index, bytes, domain, rights.
const REGIONS: [(u32, usize, u16, u8); 5] = [
    (1, 12_000, 1, Region::ALL),
    (2, 9_000, 1, Region::ALL),
    (3, 5_000, 2, Region::ALL),
    (4, 3_000, 1, Region::LOCAL_WRITE | Region::REMOTE_READ),
    (200, 64, 1, Region::ALL & !Region::LOCAL_WRITE),
];

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Packets that came to both, and frames that are none.
    pub packets: u64,
    /// Of them: altered ones.
    pub altered: u64,
    /// Packets with which both answered.
    pub answers: u64,
    /// Work requests and receive buffers.
    pub posted: u64,
    /// Completions.
    pub completions: u64,
    /// Of them in error.
    pub errors: u64,
    /// How often a queue pair began anew.
    pub began: u64,
    /// Cycles of the RTL.
    pub cycles: u64,
    /// By status.
    pub by_status: [u64; 16],
    /// NAKs by the lower two bits of their syndromes.
    pub naks: [u64; 4],
}

/// A region as both ends know it.
#[derive(Clone, Copy, Debug)]
struct Known {
    key: u32,
    va: u64,
    bytes: u32,
}

/// What a test of the test does to what one of the two does; it must be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// A packet's number.
    Psn,
    /// A packet's payload.
    Payload,
    /// A syndrome.
    Syndrome,
    /// A packet more than it should be.
    Packet,
    /// A completion less.
    Completion,
    /// A byte of memory.
    Memory,
    /// A counter.
    Counter,
}

/// The RTL, its model, and their peer.
pub struct Fuzz {
    /// What is made wrong, in a test of the test.
    pub spoil: Option<Spoil>,
    /// What was done.
    pub totals: Totals,
    rng: ChaCha8Rng,
    rtl: End,
    /// Faults are so many times rarer.
    calm: u32,
    model: Engine,
    peer: Engine,
    pairs: u32,
    settings: BTreeMap<u32, Settings>,
    own: Vec<Known>,
    theirs: Vec<Known>,
    coming: VecDeque<Vec<u8>>,
    now_us: u32,
    done: String,
}

impl Fuzz {
    /// With this many queue pairs; the model in place of the RTL is a test of the test.
    pub fn new(kind: Kind, seed: u64, pairs: u32) -> Result<Self, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rtl = End::new(kind, OWN, ChaCha8Rng::from_rng(&mut rng))?;
        let mut new = Self {
            spoil: None,
            totals: Totals::default(),
            rng,
            rtl,
            calm: 1,
            model: Engine::new(OWN),
            peer: Engine::new(PEER),
            pairs,
            settings: BTreeMap::new(),
            own: Vec::new(),
            theirs: Vec::new(),
            coming: VecDeque::new(),
            now_us: 0,
            done: String::new(),
        };
        for (index, bytes, _, _) in REGIONS {
            let know = |rng: &mut ChaCha8Rng| Known {
                key: index << 8,
                va: rng.random::<u64>() >> 2,
                bytes: bytes as u32,
            };
            let (own, theirs) = (know(&mut new.rng), know(&mut new.rng));
            new.own.push(own);
            new.theirs.push(theirs);
            new.register(new.own.len() - 1, true)?;
            new.register(new.own.len() - 1, false)?;
        }
        for qpn in 1..=pairs {
            new.begin(qpn)?;
        }
        Ok(new)
    }

    /// Registers memory anew, with another tag, at both or at their peer.
    fn register(&mut self, n: usize, own: bool) -> Result<(), String> {
        let (index, bytes, pd, rights) = REGIONS[n];
        let known = if own {
            &mut self.own[n]
        } else {
            &mut self.theirs[n]
        };
        known.key = index << 8 | u32::from(self.rng.random::<u8>());
        let mut content = vec![0; bytes];
        self.rng.fill(&mut content[..]);
        let region = Region {
            va: known.va,
            pd,
            rights,
            bytes: content,
        };
        if own {
            self.rtl.set_region(known.key, region.clone())?;
            self.model.set_region(known.key, region);
        } else {
            self.peer.set_region(known.key, region);
        }
        Ok(())
    }

    fn begin(&mut self, qpn: u32) -> Result<(), String> {
        let (limited, deaf) = (self.happens(8), self.happens(16));
        let rng = &mut self.rng;
        let (psn, expected_psn) = (
            rng.random::<u32>() & PSN_MASK,
            rng.random::<u32>() & PSN_MASK,
        );
        let own = Settings {
            state: if deaf {
                State::ReadyToReceive
            } else {
                State::ReadyToSend
            },
            peer: PEER,
            peer_qpn: PEER_QPN | qpn,
            port: rng.random(),
            pd: 1,
            rights: if limited {
                rng.random_range(0..8) << 1
            } else {
                14
            },
            mtu_log2: rng.random_range(8..=10),
            timeout: if rng.random() {
                0
            } else {
                rng.random_range(1..20)
            },
            retry: rng.random_range(0..8),
            rnr_retry: rng.random_range(0..8),
            min_rnr: rng.random_range(1..32),
            rd_atomic: rng.random_range(1..=4),
            receive_segments_log2: rng.random_range(0..3),
            psn,
            expected_psn,
        };
        let theirs = Settings {
            state: State::ReadyToSend,
            peer: OWN,
            peer_qpn: qpn,
            psn: expected_psn,
            expected_psn: psn,
            timeout: 1,
            min_rnr: rng.random_range(1..32),
            receive_segments_log2: rng.random_range(0..3),
            ..own
        };
        self.rtl.begin(qpn, own)?;
        self.model.begin(qpn, own);
        self.peer.begin(PEER_QPN | qpn, theirs);
        self.settings.insert(qpn, own);
        self.totals.began += 1;
        Ok(())
    }

    /// Goes on until so many packets have come.
    pub fn run(&mut self, packets: u64) -> Result<(), String> {
        let mut steps = 0_u64;
        while self.totals.packets < packets {
            if steps.is_multiple_of(SEASON) {
                self.calm = if self.rng.random() { 1 } else { CALM };
                if let End::Rtl(driver) = &mut self.rtl {
                    let slow = self.rng.random_range(1..=60);
                    driver.host.manners = Manners {
                        read_cycles: 1..=slow,
                        stalls: *[0, 0, 300].choose(&mut self.rng).unwrap_or(&0),
                    };
                }
                // Keys that have been ended are missed.
                for n in 0..REGIONS.len() {
                    self.register(n, true)?;
                    self.register(n, false)?;
                }
            }
            steps += 1;
            let result = self.step().and_then(|()| {
                if steps.is_multiple_of(COUNT_EVERY) {
                    self.compare_counters()
                } else {
                    Ok(())
                }
            });
            result.map_err(|error| {
                let packets = self.totals.packets;
                format!("packet {packets}, step {steps}: {}\n{error}", self.done)
            })?;
        }
        self.compare_counters()
    }

    /// Whether something rare happens.
    fn happens(&mut self, one_in: u32) -> bool {
        self.rng.random_ratio(1, one_in * self.calm)
    }

    fn qpn(&mut self) -> u32 {
        self.rng.random_range(1..=self.pairs)
    }

    fn step(&mut self) -> Result<(), String> {
        let qpn = self.qpn();
        match self.rng.random_range(0..100) {
            0..12 => self.post_own(qpn),
            12..20 => self.receive_own(qpn),
            20..34 => self.post_peer(qpn),
            34..40 => self.receive_peer(qpn),
            40..42 => self.advance()?,
            42 if self.happens(2) => {
                let n = self.rng.random_range(0..REGIONS.len());
                let own = self.rng.random();
                self.done = format!("region {n} registered anew, {own}");
                self.register(n, own)?;
            }
            43 if self.happens(4) => {
                self.done = format!("queue pair {qpn} begins anew");
                self.begin(qpn)?;
            }
            _ => self.deliver(qpn),
        }
        self.compare()?;
        let stuck = self.model.is_stopped(qpn) || self.peer.is_stopped(PEER_QPN | qpn);
        if stuck && self.rng.random_ratio(1, 8) {
            self.done = format!("queue pair {qpn} begins anew, having stopped");
            self.begin(qpn)?;
        }
        Ok(())
    }

    /// A place of so many bytes; now and then one that there is not.
    fn place(&mut self, own: bool, bytes: u32) -> Segment {
        // Mostly one of the first two, which permit everything.
        let good = !self.happens(30);
        let known = if own { &self.own } else { &self.theirs };
        let n = self.rng.random_range(0..if good { 2 } else { known.len() });
        let Known {
            key,
            va,
            bytes: all,
        } = known[n];
        let room = all.saturating_sub(bytes);
        let mut place = Segment {
            va: va + u64::from(self.rng.random_range(0..=room)),
            key,
            bytes,
        };
        if self.happens(60) {
            match self.rng.random_range(0..6) {
                0 => place.va = va.wrapping_sub(1),
                1 => place.va = va + u64::from(all) - u64::from(bytes) + 1,
                2 => place.va = self.rng.random(),
                3 => place.key ^= 1 << self.rng.random_range(0..32),
                4 => place.va = u64::MAX - u64::from(self.rng.random_range(0..bytes + 2)),
                _ => place.va = va + u64::from(all),
            }
        }
        place
    }

    fn list(&mut self, own: bool, bytes: u32, most: usize) -> Vec<Segment> {
        let count = self.rng.random_range(1..=most);
        let mut left = bytes;
        (1..=count)
            .map(|n| {
                let all = n == count || self.rng.random_ratio(1, 5);
                let part = if all {
                    left
                } else {
                    self.rng.random_range(0..=left)
                };
                left -= part;
                self.place(own, part)
            })
            .collect()
    }

    fn size(&mut self) -> u32 {
        let small = self.rng.random_range(0..300);
        let large = self.rng.random_range(0..=LONGEST);
        let sizes = [0, 1, 8, 64, 256, 257, 512, 1024, 1025, 2048, small, large];
        *sizes.choose(&mut self.rng).unwrap_or(&0)
    }

    /// A work request for one end; now and then a wrong one.
    fn request(&mut self, own: bool) -> WorkRequest {
        let operation = *Operation::ALL
            .choose(&mut self.rng)
            .unwrap_or(&Operation::Send);
        let mut size = if operation.is_atomic() {
            8
        } else {
            self.size()
        };
        let data = operation.is_send() || operation.is_write();
        let inline = data && self.rng.random_ratio(1, 4);
        if inline {
            size = size.min(self.rng.random_range(0..=64));
        }
        let most = if operation.is_atomic() || inline {
            1
        } else {
            5
        };
        let segments = self.list(own, size, most);
        let mut request = WorkRequest::new(operation, segments);
        let mut remote = self.place(!own, size);
        if operation.is_atomic() && !self.happens(30) {
            remote.va &= !7;
        }
        (request.remote_va, request.remote_key) = (remote.va, remote.key);
        request.signaled = self.rng.random_ratio(3, 4);
        request.solicited = self.rng.random();
        request.fence = self.rng.random_ratio(1, 4);
        request.swap = self.rng.random();
        request.compare = self.rng.random_range(0..3);
        request.imm = self.rng.random();
        if operation == Operation::SendInv && self.happens(2) {
            let known = if own { &self.theirs } else { &self.own };
            request.imm = known.choose(&mut self.rng).map_or(0, |k| k.key);
        }
        if inline {
            let mut bytes = vec![0; size as usize];
            self.rng.fill(&mut bytes[..]);
            request.inline = Some(bytes);
        }
        if own && self.happens(25) {
            match self.rng.random_range(0..7) {
                0 => request.operation = Operation::Unknown,
                1 => request.length |= 1 << 31,
                2 => request.length += 1,
                3 => request.length = request.length.saturating_sub(1),
                4 if !inline => request.segments = self.list(own, size, 8),
                5 => request.inline = Some(vec![7; size.min(64) as usize]),
                _ => request.remote_va = self.rng.random(),
            }
            // More than an entry has would be read from behind it.
            if let Some(bytes) = &mut request.inline {
                bytes.resize(request.length.min(64) as usize, 0);
            }
        }
        request
    }

    fn post_own(&mut self, qpn: u32) {
        if self.model.is_stopped(qpn) || !self.may_post(qpn, 0) {
            return;
        }
        let request = self.request(true);
        self.done = format!("queue pair {qpn} posts {request:?}");
        self.totals.posted += 1;
        self.rtl.post(qpn, &request);
        self.model.post(qpn, request);
    }

    /// Whether there is room in a queue.
    fn may_post(&self, qpn: u32, which: usize) -> bool {
        self.model.posted(qpn)[which] < MOST_POSTED
    }

    fn receive_own(&mut self, qpn: u32) {
        if !self.may_post(qpn, 1) {
            return;
        }
        let most = 1 << self.settings[&qpn].receive_segments_log2;
        // Room for every message, but now and then.
        let size = if self.happens(4) {
            self.size()
        } else {
            LONGEST
        };
        let list = self.list(true, size, most);
        self.done = format!("queue pair {qpn} receives into {list:?}");
        self.totals.posted += 1;
        self.rtl.post_receive(qpn, &list);
        self.model.post_receive(qpn, list);
    }

    fn post_peer(&mut self, qpn: u32) {
        let peer = PEER_QPN | qpn;
        self.done = format!("peer of {qpn} posts");
        if !self.peer.is_stopped(peer) && self.peer.posted(peer)[0] < MOST_POSTED {
            let request = self.request(false);
            self.peer.post(peer, request);
        }
    }

    fn receive_peer(&mut self, qpn: u32) {
        let peer = PEER_QPN | qpn;
        self.done = format!("peer of {qpn} receives");
        if self.peer.posted(peer)[1] < MOST_POSTED {
            let list = self.list(false, LONGEST, 2);
            self.peer.post_receive(peer, list);
        }
    }

    /// Time passes, and the engine looks at its clocks.
    fn advance(&mut self) -> Result<(), String> {
        let most = 1 << self.rng.random_range(4..26);
        self.now_us = self.now_us.wrapping_add(self.rng.random_range(1..=most));
        self.done = format!("it is {} us", self.now_us);
        self.peer.tick(self.now_us);
        self.model.tick(self.now_us);
        self.rtl.look_at_clock(self.now_us)
    }

    /// The next packet comes: as it is, altered, twice or never; or another one.
    fn deliver(&mut self, qpn: u32) {
        self.coming.extend(self.peer.frames());
        let frame = if self.happens(25) {
            Some(self.random_packet(qpn).emit(PEER))
        } else if self.happens(30) {
            self.coming.pop_back()
        } else if self.happens(50) {
            self.coming.front().cloned()
        } else {
            self.coming.pop_front()
        };
        let Some(mut frame) = frame else {
            self.done = "nothing comes".into();
            return;
        };
        if self.happens(33) {
            self.done = "a packet is lost".into();
            return;
        }
        if self.happens(16) {
            if let Ok(mut packet) = Packet::parse(&frame, OWN) {
                self.alter(&mut packet);
                frame = packet.emit(PEER);
                self.totals.altered += 1;
            }
        } else if self.happens(8)
            && let Ok(mut packet) = Packet::parse(&frame, OWN)
            && packet.opcode == opcode::WRITE_LAST
        {
            // Of all lengths that of a WRITE's last packet alone is a matter of those before it.
            self.resize_payload(&mut packet);
            frame = packet.emit(PEER);
            self.totals.altered += 1;
        } else if self.happens(33) {
            frame = self.spoiled(frame);
            self.totals.altered += 1;
        }
        self.done = match Packet::parse(&frame, OWN) {
            Ok(packet) => format!("there comes {}", shown(&packet)),
            Err(why) => format!("there comes {why:?}: {frame:02x?}"),
        };
        self.totals.packets += 1;
        self.rtl.arrive(&frame);
        self.model.arrive(&frame);
    }

    /// A syndrome that means something.
    fn syndrome(&mut self) -> u8 {
        let low = self.rng.random_range(0..32);
        match self.rng.random_range(0..3) {
            0 => low,
            1 => syndrome::NOT_READY | low,
            _ => syndrome::SEQUENCE | low.min(self.rng.random_range(0..6)),
        }
    }

    fn random_packet(&mut self, qpn: u32) -> Packet {
        let opcode = *opcode::ALL.choose(&mut self.rng).unwrap_or(&0);
        let mut payload = vec![0; self.size() as usize];
        self.rng.fill(&mut payload[..]);
        if !Packet::may_have_payload(opcode) {
            payload.clear();
        }
        let place = self.place(true, payload.len() as u32);
        let (una, max) = self.model.unacknowledged(qpn);
        let near = [self.model.expected(qpn), una, max, una.wrapping_add(1)];
        let psn = *near.choose(&mut self.rng).unwrap_or(&una) & PSN_MASK;
        let length = payload.len() as u32;
        Packet {
            mac: OWN.mac,
            ip: OWN.ip,
            port: self.rng.random(),
            congestion: self.rng.random(),
            opcode,
            solicited: self.rng.random(),
            ack_req: self.rng.random(),
            qpn,
            psn,
            va: place.va,
            key: place.key,
            length,
            swap: self.rng.random(),
            compare: self.rng.random(),
            imm: self.rng.random(),
            syndrome: self.syndrome(),
            msn: self.rng.random::<u32>() & PSN_MASK,
            payload,
        }
        .relevant()
    }

    /// Alters one field of a packet.
    fn alter(&mut self, packet: &mut Packet) {
        // Back to the engine.
        (packet.mac, packet.ip) = (OWN.mac, OWN.ip);
        let rng = &mut self.rng;
        let bit = 1_u32 << rng.random_range(0..32);
        let near = rng.random_range(0..9_u32).wrapping_sub(4);
        let length = packet.payload.len();
        match rng.random_range(0..18) {
            0 | 1 => packet.psn = packet.psn.wrapping_add(near) & PSN_MASK,
            2 => packet.psn = (packet.psn ^ bit) & PSN_MASK,
            3 | 4 => packet.opcode = *opcode::ALL.choose(rng).unwrap_or(&0),
            5 => packet.length = packet.length.wrapping_add(near),
            6 => packet.length ^= bit,
            7 => packet.va = packet.va.wrapping_add(u64::from(near as i32 as u32)),
            8 => packet.va ^= 1 << rng.random_range(0..64),
            9 => packet.key ^= bit,
            10 => packet.payload.truncate(rng.random_range(0..=length)),
            11 => packet.payload.resize(length + rng.random_range(0..64), 1),
            12 | 13 => self.resize_payload(packet),
            14 => packet.syndrome = self.syndrome(),
            15 => packet.ack_req = !packet.ack_req,
            16 => packet.qpn ^= bit & PSN_MASK,
            _ => packet.congestion = !packet.congestion,
        }
        if !Packet::may_have_payload(packet.opcode) {
            packet.payload.clear();
        }
        // A READ of more than there is would be refused; one of all there is takes long enough.
        packet.payload.truncate(4096);
    }

    /// A few bytes less, or more where there are none.
    fn resize_payload(&mut self, packet: &mut Packet) {
        const FEW: usize = 4;
        let few = self.rng.random_range(1..=FEW);
        let length = packet.payload.len();
        let to = if length > FEW {
            length - few
        } else {
            length + few
        };
        packet.payload.resize(to, 1);
    }

    /// Makes bytes of a frame wrong, with right checksums or not.
    fn spoiled(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        let mend = self.rng.random_ratio(2, 3);
        if self.rng.random_ratio(1, 3) {
            let length = self.rng.random_range(1..frame.len() + 16);
            frame.resize(length, 0);
        } else {
            for _ in 0..self.rng.random_range(1..3) {
                // Headers mostly.
                let most = if self.rng.random() {
                    frame.len()
                } else {
                    frame.len().min(70)
                };
                let at = self.rng.random_range(0..most);
                frame[at] ^= 1 << self.rng.random_range(0..8);
            }
        }
        if mend {
            with_right_checksums(frame)
        } else {
            frame
        }
    }

    /// Both have done the same.
    fn compare(&mut self) -> Result<(), String> {
        self.rtl.settle()?;
        self.totals.cycles = self.rtl.cycles();
        let frames = self.rtl.frames();
        let mut found = Vec::new();
        for frame in &frames {
            let packet = Packet::parse(frame, PEER);
            let packet = packet.map_err(|why| format!("the RTL sends {why:?}: {frame:02x?}"))?;
            found.push(packet);
        }
        self.spoil_packets(&mut found);
        let mut wanted = self.model.packets();
        for packet in &mut wanted {
            // On the wire it has its sender's addresses.
            (packet.mac, packet.ip) = (OWN.mac, OWN.ip);
        }
        // By queue pair, requests behind responses; a stable order.
        let order = |packet: &Packet| (packet.qpn, !packet.is_response());
        found.sort_by_key(order);
        wanted.sort_by_key(order);
        compare_packets(&found, &wanted)?;
        self.totals.answers += found.len() as u64;
        for packet in &found {
            if packet.opcode == opcode::ACKNOWLEDGE && packet.syndrome >= syndrome::SEQUENCE {
                self.totals.naks[usize::from(packet.syndrome & 3)] += 1;
            }
        }
        for frame in frames {
            if !self.happens(20) {
                self.peer.arrive(&frame);
            }
        }
        self.compare_completions()?;
        for (index, bytes, _, _) in REGIONS {
            let mut found = self.rtl.read(index, 0, bytes);
            if self.spoil == Some(Spoil::Memory) {
                found[bytes - 1] ^= 1;
            }
            let wanted = self.model.read(index, 0, bytes);
            if let Some(at) = (0..bytes).find(|&n| found[n] != wanted[n]) {
                return Err(format!(
                    "region {index}, byte {at}: {:#x} in the RTL's memory, {:#x} in the model's",
                    found[at], wanted[at]
                ));
            }
        }
        Ok(())
    }

    fn spoil_packets(&self, packets: &mut Vec<Packet>) {
        let Some(first) = packets.first_mut() else {
            return;
        };
        match self.spoil {
            Some(Spoil::Psn) => first.psn ^= 1,
            Some(Spoil::Payload) => first.payload.push(0),
            Some(Spoil::Syndrome) => first.syndrome ^= 1,
            Some(Spoil::Packet) => packets.extend_from_within(..1),
            _ => {}
        }
    }

    fn compare_completions(&mut self) -> Result<(), String> {
        for qpn in 1..=self.pairs {
            let mut found = self.rtl.completions(qpn);
            let mut wanted = self.model.completions(qpn);
            if self.spoil == Some(Spoil::Completion) {
                found.pop();
            }
            found.sort_by_key(|c| c.is_receive);
            wanted.sort_by_key(|c| c.is_receive);
            if found != wanted {
                return Err(format!(
                    "queue pair {qpn} completes\n  RTL   {found:?}\n  model {wanted:?}"
                ));
            }
            self.peer.completions(PEER_QPN | qpn);
            self.totals.completions += found.len() as u64;
            for completion in &found {
                self.totals.errors += u64::from(completion.status != 0);
                self.totals.by_status[usize::from(completion.status) % 16] += 1;
            }
        }
        Ok(())
    }

    fn compare_counters(&mut self) -> Result<(), String> {
        let mut found = self.rtl.counters()?;
        if self.spoil == Some(Spoil::Counter) {
            found.entry("rx_packet").and_modify(|count| *count += 1);
        }
        for (name, wanted) in names_of(&self.model.counters) {
            if found[name] != wanted {
                return Err(format!(
                    "counter {name}: {} in the RTL, {wanted} in the model",
                    found[name]
                ));
            }
        }
        for name in [
            "rx_overflow",
            "table_fault",
            "cq_overflow",
            "doorbell_refused",
            "read_bad",
        ] {
            if let Some(count) = found.get(name).filter(|count| **count != 0) {
                return Err(format!("counter {name}: {count} in the RTL"));
            }
        }
        Ok(())
    }
}

/// A packet without all of its payload.
fn shown(packet: &Packet) -> String {
    let bytes = packet.payload.len();
    let mut short = packet.clone();
    short.payload.truncate(8);
    format!("{short:?} of {bytes} bytes")
}

fn compare_packets(found: &[Packet], wanted: &[Packet]) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let at = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let show = |list: &[Packet]| list.get(at).map_or("nothing".to_owned(), shown);
    Err(format!(
        "of {} packets of the RTL, {} of the model, number {at} is\n  RTL   {}\n  model {}",
        found.len(),
        wanted.len(),
        show(found),
        show(wanted)
    ))
}
