// SPDX-License-Identifier: Apache-2.0
//! Two model NICs and a channel that loses, doubles, swaps, spoils and delays frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use model::{
    BAR_PAGES, BAR_REGISTERS, Config, FrameSource, LineFault, Memory, Nic, Sink, TlpSource,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::registers as reg;
use wire::{
    Completion, CompletionStatus, EventEntry, KeyEntry, MemRequest, NetCounter, PageMapEntry,
    PcIdEntry, RegionEntry, SessionEntry, SessionPort, TlpHeader, TlpView,
};

pub const TAG: u16 = 0x5A5;
pub const BASE: u64 = 0x10_0000;
pub const RING: u64 = 0x800_0000;
pub const RING_LOG2: u32 = 10;
pub const MSI: u64 = 0xFEE0_0000;
/// Ticks that a microsecond has here.
pub const TICKS_PER_US: u64 = 10;
/// Ticks that a frame is on its way at least.
pub const WAY: u64 = 12;
pub const EPOCH: u8 = 5;
/// Sequence number with which sessions start.
pub const START: u32 = u32::MAX - 2;

/// What happens to frames, in parts of 10,000.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub lose: u32,
    pub double: u32,
    pub swap: u32,
    pub spoil: u32,
    /// Ticks of additional delay, at most.
    pub jitter: u64,
}

/// What a NIC sent and has not been looked at yet.
#[derive(Default)]
pub struct Out {
    pub tlps: VecDeque<(TlpSource, Vec<u8>)>,
    pub frames: VecDeque<(FrameSource, Vec<u8>)>,
}

impl Sink for Out {
    fn tlp(&mut self, source: TlpSource, bytes: &[u8]) {
        self.tlps.push_back((source, bytes.to_vec()));
    }
    fn frame(&mut self, source: FrameSource, bytes: &[u8]) {
        self.frames.push_back((source, bytes.to_vec()));
    }
}

/// A NIC with its host.
pub struct Host {
    pub nic: Nic,
    pub out: Out,
    pub memory: Memory,
    /// Writes that the peer's stores must make here, in order, by the page they go to.
    pub expected: HashMap<u64, VecDeque<(u64, MemRequest, Vec<u8>)>>,
    pub events: Vec<EventEntry>,
    pub interrupts: u32,
    /// Completions of the CPU's loads: tag, data.
    pub loaded: Vec<(u8, Vec<u8>)>,
    pub written: u64,
}

/// Arrival, serial number, receiver, frame.
pub type Flying = (u64, u64, usize, Vec<u8>);

pub struct Pair {
    pub hosts: [Host; 2],
    pub faults: Faults,
    pub rng: ChaCha8Rng,
    pub now: u64,
    pub serial: u64,
    pub flying: BinaryHeap<Reverse<Flying>>,
    /// Every frame that was sent to host 1, if they are kept.
    pub capture: Option<Vec<Vec<u8>>>,
}

pub fn seed() -> u64 {
    let seed = std::env::var("IPNUMA_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    println!("IPNUMA_SEED={seed}");
    seed
}

pub fn identity(host: usize) -> (u64, u32) {
    (0x0200_0000_0001 + host as u64, 0x0A00_0001 + host as u32)
}

/// Keys of the direction from `host` in a session, by the numbers of the session at both ends.
pub fn key_of(host: usize, session: u8, other: u8, epoch: u8) -> ([u8; 16], [u8; 4]) {
    let (first, second) = (session.min(other), session.max(other));
    ([host as u8 ^ first << 4 ^ second; 16], [epoch; 4])
}

#[derive(Clone, Copy)]
pub struct Setup {
    pub compact: bool,
    pub sealed: bool,
    pub sessions: u8,
}

pub fn whole_request(address: u64, length: u16) -> MemRequest {
    MemRequest {
        length,
        first_be: 0xF,
        last_be: if length == 1 { 0 } else { 0xF },
        address,
        ..MemRequest::default()
    }
}

impl Host {
    pub fn write(&mut self, offset: u32, value: u32) {
        let request = whole_request(offset.into(), 1);
        let tlp = TlpHeader::MemWrite(request).emit(&value.to_le_bytes());
        self.nic
            .tlp_from_root(&tlp.expect("a sound TLP"), BAR_REGISTERS, &mut self.out);
    }

    pub fn write_entry(&mut self, base: u32, index: u32, stride: u32, dws: &[u32]) {
        for (dw, value) in (0..).zip(dws) {
            self.write(base + stride * index + 4 * dw, *value);
        }
    }

    /// Writes the entry of a session, which begins it anew.
    pub fn session(&mut self, me: usize, session: u8, epoch: u8, sealed: bool, port: u16) {
        let (mac, ip) = identity(1 - me);
        if sealed {
            let (tx_key, tx_salt) = key_of(me, session, port as u8, epoch);
            let (rx_key, rx_salt) = key_of(1 - me, session, port as u8, epoch);
            let keys = KeyEntry {
                tx_key,
                rx_key,
                tx_salt,
                rx_salt,
            };
            self.write_entry(reg::KEY_BASE, session.into(), 64, &keys.to_dws());
        }
        let entry = SessionEntry {
            epoch,
            sealed,
            valid: true,
            start: START,
            port,
            mac,
            ip,
        };
        self.write_entry(reg::SESSION_BASE, session.into(), 32, &entry.to_dws());
    }

    pub fn region(&mut self, me: usize, session: u8, sealed: bool, write: bool) {
        self.region_of(me, session, None, sealed, write);
    }

    /// The region that belongs to a session, for frames of `only` alone if that is given.
    pub fn region_of(
        &mut self,
        me: usize,
        session: u8,
        only: Option<u8>,
        sealed: bool,
        write: bool,
    ) {
        let region = RegionEntry {
            number: only.unwrap_or_default(),
            bound: only.is_some(),
            sealed,
            session: true,
            notify: false,
            read: true,
            write,
            valid: true,
            tag: TAG,
            mask: u32::MAX,
            ip: identity(1 - me).1,
            first: 0,
            last: 0xFFF,
            base: base_of(session),
        };
        self.write_entry(reg::REGION_BASE, key_number(session), 32, &region.to_dws());
    }

    pub fn status(&self, session: u8) -> wire::SessionStatus {
        self.nic.session_status(session).expect("in the table")
    }

    pub fn net(&self, counter: NetCounter) -> u32 {
        self.nic.counters().net(counter)
    }

    pub fn receive(&mut self, frame: &[u8]) -> NetCounter {
        let mut frame = frame.to_vec();
        frame.extend_from_slice(&wire::fcs(&frame));
        let counter = self.nic.verdict(&frame, LineFault::None);
        let found = self
            .nic
            .frame_from_wire(&frame, LineFault::None, &mut self.out);
        assert_eq!(found, counter, "verdict() says what will be counted");
        found
    }
}

pub fn key_number(session: u8) -> u32 {
    100 + u32::from(session)
}

pub fn base_of(session: u8) -> u64 {
    BASE + 0x1000 * u64::from(session)
}

/// Sessions are number `s` at host 0 and `sessions + 1 - s` at host 1, so that the two numbers differ.
pub fn at_other(setup: Setup, session: u8) -> u8 {
    setup.sessions + 1 - session
}

/// A NIC after reset.
pub fn fresh_nic(me: usize) -> Nic {
    Nic::new(Config {
        pages: 256,
        pc_ids: 16,
        sessions: 16,
        completer_id: me as u16,
        ..Config::default()
    })
}

impl Pair {
    pub fn new(setup: Setup, faults: Faults, seed: u64) -> Self {
        let host = |me: usize| Host {
            nic: fresh_nic(me),
            out: Out::default(),
            memory: Memory::new(),
            expected: HashMap::new(),
            events: Vec::new(),
            interrupts: 0,
            loaded: Vec::new(),
            written: 0,
        };
        let mut pair = Self {
            hosts: [host(0), host(1)],
            faults,
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: 0,
            serial: 0,
            flying: BinaryHeap::new(),
            capture: None,
        };
        for me in 0..2 {
            pair.configure(me, setup);
        }
        pair.settle();
        pair
    }

    pub fn configure(&mut self, me: usize, setup: Setup) {
        let host = &mut self.hosts[me];
        let (mac, ip) = identity(me);
        let (peer_mac, peer_ip) = identity(1 - me);
        for (offset, value) in [
            (reg::REG_MAC_LO, mac as u32),
            (reg::REG_MAC_HI, (mac >> 32) as u32),
            (reg::REG_IP, ip),
            (reg::REG_NETMASK, 0xFF00_0000),
            (reg::REG_CONTROL, 2),
            (reg::REG_EVENT_BASE_LO, RING as u32),
            (reg::REG_EVENT_LOG2, RING_LOG2),
            (reg::REG_MSI_ADDRESS_LO, MSI as u32),
            (reg::REG_MSI_DATA, 0x1234),
        ] {
            host.write(offset, value);
        }
        for session in 1..=setup.sessions {
            let index = at_other(setup, session);
            let port = SessionPort {
                epoch: EPOCH,
                index,
            };
            host.session(me, session, EPOCH, setup.sealed, port.to_port());
            host.region(me, session, setup.sealed, true);
            let entry = PcIdEntry {
                session: true,
                compact: setup.compact,
                valid: true,
                source_port: 1,
                mac: peer_mac,
                ip: peer_ip,
            };
            host.write_entry(reg::PC_ID_BASE, session.into(), 16, &entry.to_dws());
            // The page of a session leads to the peer's region for the same session.
            let page = PageMapEntry::new(session.into(), key_number(index) as u16, 0, TAG);
            host.write_entry(reg::PAGE_MAP_BASE, session.into(), 8, &page.to_dws());
        }
    }

    /// Works off what the NICs sent.
    pub fn settle(&mut self) {
        for me in 0..2 {
            loop {
                let (mut tlps, mut frames) = {
                    let out = &mut self.hosts[me].out;
                    (
                        std::mem::take(&mut out.tlps),
                        std::mem::take(&mut out.frames),
                    )
                };
                if tlps.is_empty() && frames.is_empty() {
                    break;
                }
                for (_, frame) in frames.drain(..) {
                    self.send(1 - me, frame);
                }
                for (source, tlp) in tlps.drain(..) {
                    self.hosts[me].root_complex(source, &tlp);
                }
            }
        }
    }

    pub fn send(&mut self, to: usize, frame: Vec<u8>) {
        if let Some(capture) = self.capture.as_mut().filter(|_| to == 1) {
            capture.push(frame.clone());
        }
        let faults = self.faults;
        let hit = |rng: &mut ChaCha8Rng, part: u32| part > 0 && rng.random_range(0..10_000) < part;
        let copies = 1 + u32::from(hit(&mut self.rng, faults.double));
        for _ in 0..copies {
            if hit(&mut self.rng, faults.lose) {
                continue;
            }
            let mut frame = frame.clone();
            if hit(&mut self.rng, faults.spoil) {
                for _ in 0..self.rng.random_range(1..=3) {
                    let bit = self.rng.random_range(0..8 * frame.len());
                    frame[bit / 8] ^= 1 << (bit % 8);
                }
            }
            let mut at = self.now + WAY;
            if faults.jitter > 0 && hit(&mut self.rng, faults.swap) {
                at += self.rng.random_range(0..=faults.jitter);
            }
            self.serial += 1;
            self.flying.push(Reverse((at, self.serial, to, frame)));
        }
    }

    /// Lets time pass up to the next thing that happens, at most to `end`.
    pub fn step(&mut self, end: u64) {
        let arrival = self.flying.peek().map_or(u64::MAX, |Reverse(f)| f.0);
        let mut next = end.min(arrival.max(self.now));
        for host in &self.hosts {
            if let Some(ticks) = host.nic.net_deadline() {
                next = next.min(self.now + ticks);
            }
            if let Some(us) = host.nic.us_deadline() {
                let us_now = self.now / TICKS_PER_US;
                next = next.min(((us_now + u64::from(us)) * TICKS_PER_US).max(self.now + 1));
            }
        }
        let passed = next - self.now;
        self.now = next;
        for host in &mut self.hosts {
            host.nic.tick_net(passed, &mut host.out);
            host.nic.tick((next / TICKS_PER_US) as u32, &mut host.out);
        }
        while self.flying.peek().is_some_and(|Reverse(f)| f.0 <= next) {
            if let Some(Reverse((_, _, to, frame))) = self.flying.pop() {
                self.hosts[to].receive(&frame);
            }
        }
        self.settle();
    }

    pub fn run(&mut self, ticks: u64) {
        let end = self.now + ticks;
        while self.now < end {
            self.step(end);
        }
    }

    /// Runs until nothing is under way any more, `limit` ticks at most.
    pub fn quiesce(&mut self, limit: u64) {
        let end = self.now + limit;
        while !(self.flying.is_empty() && self.hosts.iter().all(|host| host.nic.is_quiet())) {
            assert!(self.now < end, "not quiet after {limit} ticks");
            self.step(end);
        }
    }

    /// A store of the CPU of host `from`; its write is expected at the other, unless `refused`.
    pub fn store(
        &mut self,
        setup: Setup,
        from: usize,
        session: u8,
        refused: bool,
    ) -> (u64, Vec<u8>) {
        let dws = *[1, 1, 2, 2, 4, 16, 64][self.rng.random_range(0..7)..]
            .first()
            .expect("not empty");
        let offset = 4 * self.rng.random_range(0..=1024 - dws) as u64;
        let lead = if self.rng.random_bool(0.8) {
            0
        } else {
            self.rng.random_range(0..4)
        };
        let (first_be, last_be) = wire::byte_enables(dws as u16, lead, 0);
        let data: Vec<u8> = (0..4 * dws).map(|_| self.rng.random()).collect();
        let page = u64::from(session) * 0x1000;
        let request = MemRequest {
            first_be,
            last_be,
            ..whole_request(page + offset, dws as u16)
        };
        let tlp = TlpHeader::MemWrite(request)
            .emit(&data)
            .expect("a sound TLP");
        let host = &mut self.hosts[from];
        host.nic.tlp_from_root(&tlp, BAR_PAGES, &mut host.out);
        let other = at_other(setup, session);
        let address = base_of(other) + offset;
        if !refused {
            self.hosts[1 - from]
                .expected
                .entry(address >> 12)
                .or_default()
                .push_back((address, request, data.clone()));
        }
        self.settle();
        (address, data)
    }

    /// Nothing is still expected, nobody was told of trouble, and all frames are counted.
    pub fn nothing_is_missing(&self) {
        for host in &self.hosts {
            assert!(host.expected.values().all(VecDeque::is_empty));
            let ends: u32 = NetCounter::ALL
                .iter()
                .filter(|c| c.counts() == wire::counters::Counts::FrameEnd)
                .map(|c| host.net(*c))
                .sum();
            assert_eq!(ends, host.net(NetCounter::RxFrames));
        }
    }
}

impl Host {
    pub fn root_complex(&mut self, source: TlpSource, tlp: &[u8]) {
        let view = TlpView::new(tlp).expect("the model's TLPs are sound");
        match view.header().expect("a known type") {
            TlpHeader::MemWrite(request) if source == TlpSource::Events => {
                let data = view.data();
                self.memory.write(request.address, data);
                let place = self.events.len() as u64 % (1 << RING_LOG2);
                assert_eq!(request.address, RING + 16 * place);
                let mut dws = [0; 4];
                for (dw, bytes) in dws.iter_mut().zip(data.chunks_exact(4)) {
                    *dw = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
                }
                let event = EventEntry::from_dws(&dws);
                self.events.push(event);
                assert_eq!(event.count, self.events.len() as u16);
            }
            TlpHeader::MemWrite(request) if source == TlpSource::Msi => {
                assert_eq!(
                    (request.address, view.data()),
                    (MSI, &[0x34, 0x12, 0, 0][..])
                );
                self.interrupts += 1;
            }
            TlpHeader::MemWrite(request) => {
                let queue = self.expected.entry(request.address >> 12).or_default();
                let (address, wanted, data) = queue.pop_front().expect("a store that was issued");
                assert_eq!(request.address, address, "stores in order, each once");
                assert_eq!(view.data(), data);
                let enables = |r: &MemRequest| (r.first_be, r.last_be);
                assert_eq!(enables(&request), enables(&wanted));
                self.memory
                    .write_dws(address, view.data(), request.first_be, request.last_be);
                self.written += 1;
            }
            TlpHeader::MemRead(request) => {
                let mut data = vec![0; 4 * usize::from(request.length)];
                self.memory.read(request.address, &mut data);
                // Two completions, split at the first multiple of 64 bytes, as a root complex may, if there is one.
                let cut = (64 - request.address as usize % 64).min(data.len());
                for part in [0..cut, cut..data.len()] {
                    if part.is_empty() {
                        continue;
                    }
                    // Only the first piece begins inside a DW.
                    let skipped = request.lower_address() & 3;
                    let (before, lower) = match part.start {
                        0 => (0, request.lower_address()),
                        start => {
                            let aligned = request.lower_address() & !3;
                            (
                                start as u16 - u16::from(skipped),
                                aligned.wrapping_add(start as u8),
                            )
                        }
                    };
                    let completion = Completion {
                        tc: 0,
                        attr: 0,
                        ep: false,
                        length: (part.len() / 4) as u16,
                        completer_id: 0,
                        status: CompletionStatus::Successful,
                        byte_count: request.byte_count() - before,
                        requester_id: request.requester_id,
                        tag: request.tag,
                        lower_address: lower & 0x7F,
                    };
                    let tlp = TlpHeader::Completion(completion).emit(&data[part]);
                    self.nic
                        .tlp_from_root(&tlp.expect("a sound TLP"), 7, &mut self.out);
                }
            }
            TlpHeader::Completion(completion) => {
                assert_eq!(completion.status, CompletionStatus::Successful);
                self.loaded.push((completion.tag, view.data().to_vec()));
            }
        }
    }
}

/// Stores in both directions through a channel with faults; without optimisation a twentieth of them.
pub fn through(setup: Setup, faults: Faults, stores: u64) {
    let stores = if cfg!(debug_assertions) {
        stores / 20
    } else {
        stores
    };
    let mut pair = Pair::new(setup, faults, seed());
    // No peer may be given up because of bad luck.
    for host in &mut pair.hosts {
        host.write(reg::REG_RESEND_LIMIT, 0x3FF);
    }
    for _ in 0..stores {
        let from = usize::from(pair.rng.random_bool(0.3));
        let session = pair.rng.random_range(1..=setup.sessions);
        while pair.hosts[from].nic.outgoing() > 8 {
            pair.step(u64::MAX);
        }
        pair.store(setup, from, session, false);
        if pair.rng.random_range(0..4) == 0 {
            let ticks = pair.rng.random_range(0..4);
            pair.run(ticks);
        }
    }
    pair.quiesce(100_000_000);
    pair.nothing_is_missing();
    let written: u64 = pair.hosts.iter().map(|host| host.written).sum();
    assert_eq!(written, stores);
    for host in &pair.hosts {
        // A port and a key that were spoilt together make a store outside of sessions with a bad key; its report comes
        // back as a stranger's.
        let of_sessions = host.events.iter().filter(|event| event.who != 0xFFFF);
        assert_eq!(of_sessions.count(), 0, "nobody was told of trouble");
        assert_eq!(host.net(NetCounter::RxVoid), 0);
    }
    let resent: u32 = pair.hosts.iter().map(|h| h.net(NetCounter::TxResend)).sum();
    assert_eq!(resent > 0, faults.lose + faults.spoil + faults.swap > 0);
}

pub const PLAIN: Setup = Setup {
    compact: true,
    sealed: false,
    sessions: 3,
};

pub const EVERYTHING: Faults = Faults {
    lose: 100,
    double: 100,
    swap: 100,
    spoil: 100,
    jitter: 40,
};
