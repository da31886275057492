// SPDX-License-Identifier: Apache-2.0
//! Two model NICs and a channel that loses, doubles, swaps, spoils and delays frames. Every store must arrive exactly
//! once and in order, or software must be told.
//!
//! Random tests print their seed; `IPNUMA_SEED` repeats one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use model::{
    BAR_PAGES, BAR_REGISTERS, Config, FrameSource, LineFault, Memory, Nic, Sink, TlpSource,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::registers as reg;
use wire::seal::Sealer;
use wire::{
    Completion, CompletionStatus, EventEntry, KeyEntry, MemRequest, NetCounter, PageMapEntry,
    PcIdEntry, PcieCounter, RegionEntry, SessionEntry, SessionPort, TlpHeader, TlpView,
};

const TAG: u16 = 0x5A5;
const BASE: u64 = 0x10_0000;
const RING: u64 = 0x800_0000;
const RING_LOG2: u32 = 10;
const MSI: u64 = 0xFEE0_0000;
/// Ticks that a microsecond has here.
const TICKS_PER_US: u64 = 10;
/// Ticks that a frame is on its way at least.
const WAY: u64 = 12;
const EPOCH: u8 = 5;

/// What happens to frames, in parts of 10,000.
#[derive(Clone, Copy, Default)]
struct Faults {
    lose: u32,
    double: u32,
    swap: u32,
    spoil: u32,
    /// Ticks of additional delay, at most.
    jitter: u64,
}

/// What a NIC sent and has not been looked at yet.
#[derive(Default)]
struct Out {
    tlps: VecDeque<(TlpSource, Vec<u8>)>,
    frames: VecDeque<(FrameSource, Vec<u8>)>,
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
struct Host {
    nic: Nic,
    out: Out,
    memory: Memory,
    /// Writes that the peer's stores must make here, in order, by the page they go to.
    expected: HashMap<u64, VecDeque<(u64, MemRequest, Vec<u8>)>>,
    events: Vec<EventEntry>,
    interrupts: u32,
    /// Completions of the CPU's loads: tag, data.
    loaded: Vec<(u8, Vec<u8>)>,
    written: u64,
}

/// Arrival, serial number, receiver, frame.
type Flying = (u64, u64, usize, Vec<u8>);

struct Pair {
    hosts: [Host; 2],
    faults: Faults,
    rng: ChaCha8Rng,
    now: u64,
    serial: u64,
    flying: BinaryHeap<Reverse<Flying>>,
    /// Every frame that was sent to host 1, if they are kept.
    capture: Option<Vec<Vec<u8>>>,
}

fn seed() -> u64 {
    let seed = std::env::var("IPNUMA_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    println!("IPNUMA_SEED={seed}");
    seed
}

fn identity(host: usize) -> (u64, u32) {
    (0x0200_0000_0001 + host as u64, 0x0A00_0001 + host as u32)
}

/// Keys of the direction from `host` in a session, by the numbers of the session at both ends.
fn key_of(host: usize, session: u8, other: u8, epoch: u8) -> ([u8; 16], [u8; 4]) {
    let (first, second) = (session.min(other), session.max(other));
    ([host as u8 ^ first << 4 ^ second; 16], [epoch; 4])
}

#[derive(Clone, Copy)]
struct Setup {
    compact: bool,
    sealed: bool,
    sessions: u8,
}

fn whole_request(address: u64, length: u16) -> MemRequest {
    MemRequest {
        length,
        first_be: 0xF,
        last_be: if length == 1 { 0 } else { 0xF },
        address,
        ..MemRequest::default()
    }
}

impl Host {
    fn write(&mut self, offset: u32, value: u32) {
        let request = whole_request(offset.into(), 1);
        let tlp = TlpHeader::MemWrite(request).emit(&value.to_le_bytes());
        self.nic
            .tlp_from_root(&tlp.expect("a sound TLP"), BAR_REGISTERS, &mut self.out);
    }

    fn write_entry(&mut self, base: u32, index: u32, stride: u32, dws: &[u32]) {
        for (dw, value) in (0..).zip(dws) {
            self.write(base + stride * index + 4 * dw, *value);
        }
    }

    /// Writes the entry of a session, which begins it anew.
    fn session(&mut self, me: usize, session: u8, epoch: u8, sealed: bool, port: u16) {
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
            port,
            mac,
            ip,
        };
        self.write_entry(reg::SESSION_BASE, session.into(), 16, &entry.to_dws());
    }

    fn region(&mut self, me: usize, session: u8, sealed: bool, write: bool) {
        let region = RegionEntry {
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

    fn status(&self, session: u8) -> wire::SessionStatus {
        self.nic.session_status(session).expect("in the table")
    }

    fn net(&self, counter: NetCounter) -> u32 {
        self.nic.counters().net(counter)
    }

    fn receive(&mut self, frame: &[u8]) -> NetCounter {
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

fn key_number(session: u8) -> u32 {
    100 + u32::from(session)
}

fn base_of(session: u8) -> u64 {
    BASE + 0x1000 * u64::from(session)
}

/// Sessions are number `s` at host 0 and `sessions + 1 - s` at host 1, so that the two numbers differ.
fn at_other(setup: Setup, session: u8) -> u8 {
    setup.sessions + 1 - session
}

impl Pair {
    fn new(setup: Setup, faults: Faults, seed: u64) -> Self {
        let host = |me: usize| {
            let config = Config {
                pages: 256,
                pc_ids: 16,
                sessions: 16,
                ..Config::default()
            };
            Host {
                nic: Nic::new(Config {
                    completer_id: me as u16,
                    ..config
                }),
                out: Out::default(),
                memory: Memory::new(),
                expected: HashMap::new(),
                events: Vec::new(),
                interrupts: 0,
                loaded: Vec::new(),
                written: 0,
            }
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

    fn configure(&mut self, me: usize, setup: Setup) {
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
    fn settle(&mut self) {
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

    fn send(&mut self, to: usize, frame: Vec<u8>) {
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
    fn step(&mut self, end: u64) {
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

    fn run(&mut self, ticks: u64) {
        let end = self.now + ticks;
        while self.now < end {
            self.step(end);
        }
    }

    /// Runs until nothing is under way any more, `limit` ticks at most.
    fn quiesce(&mut self, limit: u64) {
        let end = self.now + limit;
        while !(self.flying.is_empty() && self.hosts.iter().all(|host| host.nic.is_quiet())) {
            assert!(self.now < end, "not quiet after {limit} ticks");
            self.step(end);
        }
    }

    /// A store of the CPU of host `from`; its write is expected at the other, unless `refused`.
    fn store(&mut self, setup: Setup, from: usize, session: u8, refused: bool) -> (u64, Vec<u8>) {
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
    fn nothing_is_missing(&self) {
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
    fn root_complex(&mut self, source: TlpSource, tlp: &[u8]) {
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
                // Two completions, split in the middle, if that can be.
                let half = usize::from(request.length) / 2 * 4;
                for part in [0..half, half..data.len()] {
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
fn through(setup: Setup, faults: Faults, stores: u64) {
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

const PLAIN: Setup = Setup {
    compact: true,
    sealed: false,
    sessions: 3,
};

const EVERYTHING: Faults = Faults {
    lose: 100,
    double: 100,
    swap: 100,
    spoil: 100,
    jitter: 40,
};

#[test]
fn a_good_channel_needs_no_resend() {
    through(PLAIN, Faults::default(), 100_000);
}

#[test]
fn every_store_arrives_once_in_compact_frames() {
    through(PLAIN, EVERYTHING, 400_000);
}

#[test]
fn every_store_arrives_once_in_tlp_frames() {
    let setup = Setup {
        compact: false,
        ..PLAIN
    };
    through(setup, EVERYTHING, 400_000);
}

#[test]
fn every_store_arrives_once_through_much_loss() {
    let faults = Faults {
        lose: 1000,
        ..EVERYTHING
    };
    through(PLAIN, faults, 100_000);
}

#[test]
fn every_store_arrives_once_in_one_session_past_the_wrap() {
    let setup = Setup {
        sessions: 1,
        ..PLAIN
    };
    let faults = Faults {
        lose: 10,
        ..Faults::default()
    };
    through(setup, faults, 20 * 70_000);
}

#[test]
fn every_store_arrives_once_in_sealed_frames() {
    let setup = Setup {
        sealed: true,
        ..PLAIN
    };
    through(setup, EVERYTHING, 100_000);
}

/// What a host was told.
fn told(host: &Host) -> Vec<(u8, u16, u16)> {
    let events = host.events.iter();
    events.map(|e| (e.code, e.who, e.number)).collect()
}

fn flush(host: &mut Host, pc_id: u16, cookie: u16) {
    host.write(reg::REG_FLUSH, u32::from(cookie) << 16 | u32::from(pc_id));
}

#[test]
fn the_time_out_follows_the_round_trip() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.hosts[0].write(reg::REG_RESEND_TICKS, 60);
    pair.hosts[0].write(reg::REG_RESEND_LIMIT, 0x32FF);
    pair.hosts[1].write(reg::REG_ACK_TICKS, 1);
    // Ticks until a store that is lost is sent again.
    let lost = |pair: &mut Pair| {
        let before = (pair.now, pair.hosts[0].net(NetCounter::TxTimeout));
        pair.store(PLAIN, 0, 1, false);
        pair.flying.clear();
        while pair.hosts[0].net(NetCounter::TxTimeout) == before.1 {
            pair.run(1);
        }
        let ticks = pair.now - before.0;
        pair.quiesce(10_000);
        ticks
    };
    // A store that is acknowledged after so many ticks.
    let store = |pair: &mut Pair, trip: u64| {
        pair.hosts[1].write(reg::REG_ACK_TICKS, (trip - 2 * WAY) as u32);
        pair.store(PLAIN, 0, 1, false);
        pair.quiesce(10_000);
    };
    assert_eq!(lost(&mut pair), 60 << 3, "the round trip is not known");
    store(&mut pair, 26);
    assert_eq!(lost(&mut pair), 60);
    assert_eq!(lost(&mut pair), 120, "it may have become longer");
    store(&mut pair, 180);
    assert_eq!(lost(&mut pair), 480, "twice what it is, at least");
    store(&mut pair, 26);
    store(&mut pair, 55);
    assert_eq!(lost(&mut pair), 120);
    store(&mut pair, 26);
    pair.hosts[0].write(reg::REG_RESEND_LIMIT, 0x02FF);
    store(&mut pair, 55);
    assert_eq!(lost(&mut pair), 60, "it is not asked for");
    assert_eq!(pair.hosts[0].net(NetCounter::TxTimeout), 6);
    pair.nothing_is_missing();
}

#[test]
fn a_black_out_is_survived_or_the_peer_is_lost() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    for host in &mut pair.hosts {
        // 20 ticks, twice as long after each of the first two time-outs, lost after the third.
        host.write(reg::REG_RESEND_TICKS, 20);
        host.write(reg::REG_RESEND_LIMIT, 0x203);
    }
    for _ in 0..20 {
        pair.store(PLAIN, 0, 1, false);
    }
    flush(&mut pair.hosts[0], 1, 77);
    assert_eq!(told(&pair.hosts[0]), [], "nothing is delivered yet");
    pair.flying.clear();
    pair.run(19);
    assert_eq!(pair.hosts[0].net(NetCounter::TxTimeout), 0);
    pair.run(1);
    assert_eq!(pair.hosts[0].net(NetCounter::TxTimeout), 1);
    pair.quiesce(1000);
    pair.nothing_is_missing();
    assert_eq!(told(&pair.hosts[0]), [(wire::EVENT_FLUSHED, 1, 77)]);

    pair.faults.lose = 10_000;
    let before = pair.now;
    pair.store(PLAIN, 0, 1, true);
    pair.store(PLAIN, 0, 2, true);
    flush(&mut pair.hosts[0], 1, 78);
    pair.quiesce(10_000);
    assert_eq!(
        pair.now - before,
        20 + 40 + 80 + 80,
        "time-outs double twice"
    );
    let mut events = told(&pair.hosts[0]).split_off(1);
    events.sort_unstable();
    assert_eq!(
        events,
        [
            (wire::EVENT_PEER_LOST, 1, 20),
            (wire::EVENT_PEER_LOST, 2, 0),
            (wire::EVENT_FLUSH_FAILED, 1, 78)
        ]
    );
    let lost = pair.hosts[0]
        .events
        .iter()
        .find(|event| event.who == 1 && event.code == 16);
    assert_eq!(lost.map(|event| event.address), Some(21 << 32 | 20));
    let status = pair.hosts[0].status(1);
    assert!(status.lost && !status.open && status.valid);

    // Nobody waits for a lost peer, and other sessions go on.
    pair.faults.lose = 0;
    pair.store(PLAIN, 0, 1, true);
    pair.store(PLAIN, 0, 3, false);
    flush(&mut pair.hosts[0], 1, 79);
    flush(&mut pair.hosts[0], 9, 80);
    assert_eq!(pair.hosts[0].net(NetCounter::TxLost), 1);
    pair.quiesce(1000);
    pair.nothing_is_missing();
    let failed = wire::EVENT_FLUSH_FAILED;
    assert_eq!(
        told(&pair.hosts[0])[4..],
        [(failed, 1, 79), (failed, 9, 80)]
    );
}

/// Both ends of a session begin anew with another epoch, as software does after a restart.
fn begin_anew(pair: &mut Pair, setup: Setup, session: u8, epoch: u8) {
    for me in 0..2 {
        let (mine, other) = if me == 0 {
            (session, at_other(setup, session))
        } else {
            (at_other(setup, session), session)
        };
        let port = SessionPort {
            epoch,
            index: other,
        };
        pair.hosts[me].session(me, mine, epoch, setup.sealed, port.to_port());
    }
}

#[test]
fn old_frames_of_any_age_change_nothing() {
    for sealed in [false, true] {
        let setup = Setup {
            sealed,
            sessions: 1,
            ..PLAIN
        };
        let mut pair = Pair::new(setup, Faults::default(), seed());
        pair.capture = Some(Vec::new());
        for _ in 0..70_000 {
            while pair.hosts[0].nic.outgoing() > 8 {
                pair.step(u64::MAX);
            }
            pair.store(setup, 0, 1, false);
        }
        pair.quiesce(100_000);
        pair.nothing_is_missing();
        let capture = pair.capture.take().unwrap_or_default();
        let before = (pair.hosts[1].status(1), pair.hosts[0].status(1));
        let written = pair.hosts[1].written;
        // A frame of exactly 65,536 ago, and some around it.
        let expected = pair.hosts[1].status(1).expected as usize;
        assert_eq!(expected, 70_000);
        for at in [
            expected - 65_536,
            expected - 65_537,
            expected - 65_535,
            0,
            expected - 1,
        ] {
            let counter = pair.hosts[1].receive(&capture[at]);
            let wanted = match at {
                _ if sealed => NetCounter::RxBadSeal,
                // 4,464 to 4,465 frames early by the low half of their number.
                _ if (4463..=4465).contains(&at) => NetCounter::RxBadEndCode,
                0 => NetCounter::RxBadEndCode,
                _ => NetCounter::RxDuplicate,
            };
            assert_eq!(counter, wanted, "frame {at}");
            pair.settle();
        }
        pair.quiesce(1000);
        // The peer has restarted: no frame of the old epoch is taken, not even with the right number.
        begin_anew(&mut pair, setup, 1, EPOCH + 1);
        for frame in capture.iter().take(300) {
            let counter = pair.hosts[1].receive(frame);
            let wanted = if sealed {
                NetCounter::RxBadSeal
            } else {
                NetCounter::RxBadSession
            };
            assert_eq!(counter, wanted);
        }
        assert_eq!(pair.hosts[1].written, written);
        assert_eq!(before.0.nxt, before.1.expected);
        pair.store(setup, 0, 1, false);
        pair.store(setup, 1, 1, false);
        pair.quiesce(1000);
        pair.nothing_is_missing();
    }
}

#[test]
fn a_refused_store_is_told_and_the_others_go_on() {
    for compact in [false, true] {
        let setup = Setup { compact, ..PLAIN };
        let mut pair = Pair::new(setup, EVERYTHING, seed());
        let mut refused = Vec::new();
        let peer = at_other(setup, 2);
        for round in 0..60 {
            let granted = pair.rng.random_bool(0.5);
            pair.hosts[1].region(1, peer, false, granted);
            for index in 0..3 {
                // Only the stores to session 2's region are refused.
                let session = if index == 1 { 2 } else { 1 };
                let (address, _) = pair.store(setup, 0, session, session == 2 && !granted);
                if session == 2 && !granted {
                    let offset = (address - base_of(peer)) as u32;
                    refused.push(wire::wire_address(key_number(peer) as u16, offset));
                }
            }
            flush(&mut pair.hosts[0], 2, round);
            pair.quiesce(1_000_000);
        }
        pair.nothing_is_missing();
        let events = pair.hosts[0]
            .events
            .iter()
            .filter(|event| event.who != 0xFFFF);
        let (flushed, told): (Vec<&EventEntry>, Vec<&EventEntry>) =
            events.partition(|event| event.code == wire::EVENT_FLUSHED);
        assert_eq!(flushed.len(), 60);
        let addresses: Vec<u64> = told.iter().map(|event| event.address).collect();
        assert_eq!(addresses, refused, "each refusal is told once, in order");
        for event in told {
            assert_eq!(
                (event.code, event.op, event.who),
                (wire::ERR_BAD_RIGHTS, wire::FMT_MWR64, 2)
            );
        }
        assert!(pair.hosts[0].net(NetCounter::TxVoid) as usize >= refused.len());
        assert_eq!(
            pair.hosts[1].net(NetCounter::RxVoid) as usize,
            refused.len()
        );
    }
}

#[test]
fn a_refusal_stays_one_when_the_region_is_granted_meanwhile() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    let peer = at_other(PLAIN, 1);
    pair.hosts[1].region(1, peer, false, false);
    pair.capture = Some(Vec::new());
    pair.store(PLAIN, 0, 1, true);
    let frame = pair.capture.take().unwrap_or_default().remove(0);
    pair.run(WAY);
    pair.hosts[1].region(1, peer, false, true);
    // A second copy comes before the sender knows.
    assert_eq!(pair.hosts[1].receive(&frame), NetCounter::RxBadRights);
    pair.settle();
    pair.quiesce(1000);
    assert_eq!(pair.hosts[1].written, 0);
    assert_eq!(told(&pair.hosts[0]), [(wire::ERR_BAD_RIGHTS, 1, 0)]);
    assert_eq!(pair.hosts[1].receive(&frame), NetCounter::RxDuplicate);
    pair.store(PLAIN, 0, 1, false);
    pair.quiesce(1000);
    pair.nothing_is_missing();
}

#[test]
fn loads_come_back_through_a_bad_channel() {
    let setup = Setup {
        sealed: true,
        ..PLAIN
    };
    let mut pair = Pair::new(setup, EVERYTHING, seed());
    for host in &mut pair.hosts {
        host.write(reg::REG_RESEND_LIMIT, 0x3FF);
        host.write(reg::REG_READ_TIMEOUT_US, 1_000_000);
        host.write(reg::REG_LOAD_RETRY_US, 10);
    }
    let peer = at_other(setup, 1);
    let mut retries = 0;
    for round in 0..600_u32 {
        let dws = pair.rng.random_range(1..=64_u16);
        let offset = 4 * pair.rng.random_range(0..=1024 - u64::from(dws));
        let data: Vec<u8> = (0..4 * dws).map(|_| pair.rng.random()).collect();
        pair.hosts[1].memory.write(base_of(peer) + offset, &data);
        let mut request = whole_request(0x1000 + offset, dws);
        request.tag = round as u8;
        // A refused load gives zeros, whatever its byte enables.
        let granted = pair.rng.random_bool(0.8);
        if dws > 1 {
            request.first_be = 0xE;
        }
        let mut region = 0x35;
        if !granted {
            region = 0x31;
        }
        pair.hosts[1].write_entry(reg::REGION_BASE + 28, key_number(peer), 32, &[region]);
        let tlp = TlpHeader::MemRead(request).emit(&[]).expect("a sound TLP");
        let host = &mut pair.hosts[0];
        host.nic.tlp_from_root(&tlp, BAR_PAGES, &mut host.out);
        pair.settle();
        pair.quiesce(10_000_000);
        let host = &mut pair.hosts[0];
        let pieces = std::mem::take(&mut host.loaded);
        assert!(pieces.iter().all(|(tag, _)| *tag == round as u8));
        let found: Vec<u8> = pieces.into_iter().flat_map(|(_, data)| data).collect();
        let wanted = if granted { data } else { vec![0; data.len()] };
        assert_eq!(found, wanted, "load {round}");
        retries = host.nic.counters().pcie(PcieCounter::LoadRetry);
        assert_eq!(host.nic.counters().pcie(PcieCounter::LoadTimeout), 0);
    }
    assert!(retries > 0, "some completions were lost");
    let repeated = pair.hosts[0].nic.counters();
    assert!(
        repeated.pcie(PcieCounter::LoadCompletionRepeated)
            + repeated.pcie(PcieCounter::LoadCompletionUnexpected)
            > 0,
        "some came twice"
    );
}

#[test]
fn forged_frames_change_nothing_when_sessions_are_sealed() {
    let setup = Setup {
        sealed: true,
        sessions: 1,
        ..PLAIN
    };
    let mut pair = Pair::new(setup, Faults::default(), seed());
    pair.capture = Some(Vec::new());
    for _ in 0..100 {
        pair.store(setup, 0, 1, false);
        pair.run(5);
    }
    pair.quiesce(1000);
    let capture = pair.capture.take().unwrap_or_default();
    let before = (pair.hosts[1].status(1), pair.hosts[1].written);
    let forger = Sealer::new([9; 16], [EPOCH; 4]);
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut frame = capture[pair.rng.random_range(0..capture.len())].clone();
        match pair.rng.random_range(0..4) {
            0 => {
                // Flipped bits, lengths and addresses included.
                for _ in 0..pair.rng.random_range(1..20) {
                    let at = pair.rng.random_range(0..frame.len());
                    frame[at] ^= 1 << pair.rng.random_range(0..8);
                }
                wire::seal_ip(&mut frame);
            }
            1 => {
                // A newer number.
                frame[44..50].copy_from_slice(&[0, 0, 0, 1, 0, 0]);
            }
            2 => {
                // Another key: the frame is sound inside.
                let (key, salt) = key_of(0, 1, 1, EPOCH);
                let genuine = Sealer::new(key, salt);
                genuine
                    .open_frame(&mut frame)
                    .expect("captured as it was sent");
                forger
                    .seal_frame(&mut frame, 1 << 30)
                    .expect("a number of 48 bits");
            }
            _ => {
                // Not sealed at all.
                let (key, salt) = key_of(0, 1, 1, EPOCH);
                let genuine = Sealer::new(key, salt);
                genuine
                    .open_frame(&mut frame)
                    .expect("captured as it was sent");
            }
        }
        let counter = pair.hosts[1].receive(&frame);
        taken += u32::from(matches!(
            counter,
            NetCounter::RxStore
                | NetCounter::RxAck
                | NetCounter::RxVoid
                | NetCounter::RxErrorReport
        ));
        assert!(pair.hosts[1].out.tlps.is_empty());
        pair.hosts[1].out.frames.clear();
    }
    assert_eq!(taken, 0);
    assert_eq!((pair.hosts[1].status(1), pair.hosts[1].written), before);
    pair.store(setup, 0, 1, false);
    pair.store(setup, 1, 1, false);
    pair.quiesce(1000);
    pair.nothing_is_missing();
}

#[test]
fn regions_and_sessions_ask_for_what_they_need() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.capture = Some(Vec::new());
    pair.store(PLAIN, 0, 1, true);
    pair.flying.clear();
    let genuine = pair.capture.take().unwrap_or_default().remove(0);
    let plain = wire::Frame::parse(&genuine).expect("sound");
    let mut receive = |change: &dyn Fn(&mut wire::Frame)| {
        let mut frame = plain.frame.clone();
        change(&mut frame);
        let bytes = frame.emit(TAG).expect("sound");
        let found = pair.hosts[1].receive(&bytes);
        pair.hosts[1].out.frames.clear();
        found
    };
    let port = plain.frame.src_port;
    assert_eq!(receive(&|f| f.src_port = 4321), NetCounter::RxBadRights);
    assert_eq!(
        receive(&|f| f.src_port = port ^ 0x100),
        NetCounter::RxBadSession
    );
    assert_eq!(
        receive(&|f| f.src_port = port | 0xFF),
        NetCounter::RxBadSession
    );
    assert_eq!(
        receive(&|f| f.src_ip = [10, 0, 0, 9].into()),
        NetCounter::RxBadSession
    );
    let control = |code| wire::Payload::Control(code);
    assert_eq!(
        receive(&|f| {
            f.src_port = 4321;
            f.payload = control(wire::Control::Acknowledgement(0));
        }),
        NetCounter::RxBadSession
    );
    assert_eq!(
        receive(&|f| {
            if let wire::Payload::Compact(compact) = &mut f.payload {
                compact.sequence = 1;
            }
        }),
        NetCounter::RxGap
    );
    let other = at_other(PLAIN, 1);
    pair.hosts[1].region(1, other, true, true);
    assert_eq!(
        pair.hosts[1].receive(&genuine),
        NetCounter::RxBadRights,
        "not sealed"
    );
}

#[test]
fn interrupts_are_moderated_and_none_is_lost() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.hosts[1].write(reg::REG_MSI_CONTROL, 1);
    pair.hosts[1].write(reg::REG_MSI_MODERATION_US, 50);
    let peer = at_other(PLAIN, 1);
    pair.store(PLAIN, 0, 1, false);
    pair.quiesce(1000);
    assert_eq!(
        pair.hosts[1].interrupts, 0,
        "the region does not ask for one"
    );
    pair.hosts[1].write_entry(reg::REGION_BASE + 28, key_number(peer), 32, &[0x1F]);
    for _ in 0..20 {
        pair.store(PLAIN, 0, 1, false);
        pair.run(TICKS_PER_US);
    }
    pair.run(5 * TICKS_PER_US);
    assert_eq!(pair.hosts[1].interrupts, 1, "the others wait");
    pair.quiesce(1000);
    assert_eq!(pair.hosts[1].interrupts, 2, "and come as one");
    pair.nothing_is_missing();
}

#[test]
fn a_full_ring_says_how_many_events_it_missed() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.hosts[0].write(reg::REG_EVENT_LOG2, RING_LOG2);
    for cookie in 0..1 << RING_LOG2 {
        flush(&mut pair.hosts[0], 9, cookie);
    }
    for cookie in 0..20 {
        flush(&mut pair.hosts[0], 9, 2000 + cookie);
    }
    pair.settle();
    assert_eq!(pair.hosts[0].events.len(), 1 << RING_LOG2);
    assert_eq!(pair.hosts[0].net(NetCounter::EventLost), 4, "16 wait");
    pair.hosts[0].write(reg::REG_EVENT_TAIL, 1 << RING_LOG2);
    pair.settle();
    let told = told(&pair.hosts[0]);
    assert_eq!(told.len(), (1 << RING_LOG2) + 17);
    let last = pair.hosts[0]
        .events
        .last()
        .map(|event| (event.code, event.address));
    assert_eq!(last, Some((wire::EVENT_OVERFLOW, 4)));
    let mut out = Out::default();
    pair.hosts[0].nic.set_link(false, &mut out);
    pair.hosts[0].nic.set_link(true, &mut out);
    assert_eq!(out.tlps.len(), 2, "down and up are events");
}
