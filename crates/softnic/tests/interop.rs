// SPDX-License-Identifier: Apache-2.0
//! A host with the NIC in RTL and a host with the NIC in software exchange stores and loads: through the kernel's UDP
//! stack, and through a bridge of the kernel. Frames are lost in both directions, so both sides send again.
//!
//! The simulated NIC has a time of its own, which goes as fast as it can be simulated and never faster than the clock on
//! the wall; the other side's patience is set accordingly.
//!
//! Needs the right to make network namespaces and TAP devices, and is skipped without.

mod common;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use check::faulttest::end::{End, Outputs, RtlEnd};
use common::witness::{Stores, write};
use common::{in_namespace, ip, seed};
use ipnuma_rtl::NetSpeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use softnic::{
    Config, Event, Faults, Faulty, Identity, PeerAddress, Segment, Share, Shared, SoftNic, Tap,
    Transport, Udp, Window,
};
use wire::{
    Completion, CompletionStatus, EventEntry, FMT_CPLD, FMT_MRD32, FMT_MRD64, FMT_MWR32, FMT_MWR64,
    MemRequest, NetCounter, PageMapEntry, PcIdEntry, PcieCounter, RegionEntry, SessionEntry,
    SessionPort, TlpHeader, TlpView, byte_enables, read_byte_count, registers as reg,
};

/// Longer than anything takes: only so that a test does not hang.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes that each side shares.
const BYTES: usize = 16 * 4096;
/// Where the host with the NIC in RTL has its memory, and its event ring.
const ARENA: u64 = 0x12_4000_0000;
const RING: u64 = 0x12_8000_0000;
const RING_LOG2: u32 = 8;
/// Simulated time from one look at the network to the next.
const STEP_PS: u64 = 1_000_000;
/// TLPs that wait for the NIC in RTL at most, in bytes.
const BACKLOG: usize = 1600;

const RTL_MAC: u64 = 0x0200_0000_7702;
const RTL_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const RTL_SESSION: u8 = 9;
const RTL_KEY: u16 = 0x21;
const RTL_TAG: u16 = 0x5A5;
const EPOCH: u8 = 49;
/// Sequence number of the session's first frames.
const START: u32 = u32::MAX - 20;

/// A machine around the NIC in RTL, and the cable of the NIC.
struct RtlHost {
    end: RtlEnd,
    cable: Box<dyn Transport>,
    now_ps: u64,
    out: Outputs,
    memory: Vec<u8>,
    answers: VecDeque<Vec<u8>>,
    completions: VecDeque<Vec<u8>>,
    events: Vec<EventEntry>,
    tail: u32,
    frame: Vec<u8>,
}

impl RtlHost {
    fn new(speed: NetSpeed, cable: impl Transport + 'static, rng: ChaCha8Rng) -> Self {
        let mut end = RtlEnd::new(speed, false, 0x0100, rng).expect("a simulated NIC");
        end.set_link(true);
        let mut host = Self {
            end,
            cable: Box::new(cable),
            now_ps: 0,
            out: Outputs::default(),
            memory: vec![0; BYTES],
            answers: VecDeque::new(),
            completions: VecDeque::new(),
            events: Vec::new(),
            tail: 0,
            frame: Vec::new(),
        };
        for (offset, value) in [
            (reg::REG_MAC_LO, RTL_MAC as u32),
            (reg::REG_MAC_HI, (RTL_MAC >> 32) as u32),
            (reg::REG_IP, RTL_IP.into()),
            (reg::REG_NETMASK, 0xFFFF_FF00),
            (reg::REG_READ_TIMEOUT_US, 5000),
            // The peer answers in its own time, and the simulated clock goes slower than that.
            (reg::REG_RESEND_TICKS, 2000),
            (reg::REG_RESEND_LIMIT, 0x6FF),
            // At most 32 cycles from frame to frame, so that losses do not slow the test down.
            (reg::REG_PACE, 0x0100_6020),
            (reg::REG_WINDOW, 0x0320_0808),
            (reg::REG_EVENT_BASE_LO, RING as u32),
            (reg::REG_EVENT_BASE_HI, (RING >> 32) as u32),
            (reg::REG_EVENT_LOG2, RING_LOG2),
        ] {
            host.register(offset, value);
        }
        host
    }

    fn register(&mut self, offset: u32, value: u32) {
        let request = MemRequest {
            length: 1,
            first_be: 0xF,
            address: offset.into(),
            ..MemRequest::default()
        };
        let tlp = TlpHeader::MemWrite(request).emit(&value.to_le_bytes());
        self.end
            .push_tlp(&tlp.expect("a write"), model::BAR_REGISTERS);
    }

    fn entry(&mut self, base: u32, index: usize, dws: &[u32]) {
        for (dw, value) in dws.iter().enumerate() {
            self.register(base + (4 * (index * dws.len() + dw)) as u32, *value);
        }
    }

    /// A session with `peer`, whose number of it is `session`; all memory is shared with it, and its memory mapped.
    fn connect(&mut self, peer: Identity, session: u8, shared: Shared) {
        let port = SessionPort {
            epoch: EPOCH,
            index: session,
        };
        let entry = PcIdEntry {
            session: true,
            compact: true,
            valid: true,
            source_port: port.to_port(),
            mac: peer.mac,
            ip: peer.ip,
        };
        self.entry(reg::PC_ID_BASE, RTL_SESSION.into(), &entry.to_dws());
        for page in 0..BYTES / 4096 {
            let offset = (page * 4096) as u32;
            let entry = PageMapEntry::new(RTL_SESSION.into(), shared.key, offset, shared.tag);
            self.entry(reg::PAGE_MAP_BASE, page, &entry.to_dws());
        }
        let entry = RegionEntry {
            session: true,
            read: true,
            write: true,
            valid: true,
            number: RTL_SESSION,
            bound: true,
            tag: RTL_TAG,
            mask: !0,
            ip: peer.ip,
            last: BYTES as u32 - 1,
            base: ARENA,
            ..RegionEntry::default()
        };
        self.entry(reg::REGION_BASE, RTL_KEY.into(), &entry.to_dws());
        // Last, so that nothing is taken before all is set up.
        let entry = SessionEntry {
            epoch: EPOCH,
            sealed: false,
            valid: true,
            start: START,
            port: port.to_port(),
            mac: peer.mac,
            ip: peer.ip,
        };
        self.entry(reg::SESSION_BASE, RTL_SESSION.into(), &entry.to_dws());
    }

    fn request(at: usize, bytes: usize) -> (MemRequest, usize, usize) {
        let lead = at % 4;
        let trail = (4 - (lead + bytes) % 4) % 4;
        let length = ((lead + bytes + trail) / 4) as u16;
        let (first_be, last_be) = byte_enables(length, lead as u8, trail as u8);
        let request = MemRequest {
            length,
            first_be,
            last_be,
            requester_id: 8,
            address: (at - lead) as u64,
            ..MemRequest::default()
        };
        (request, lead, trail)
    }

    fn store(&mut self, at: usize, data: &[u8]) {
        let (request, lead, trail) = Self::request(at, data.len());
        let dws = [&vec![0; lead][..], data, &vec![0; trail][..]].concat();
        let tlp = TlpHeader::MemWrite(request).emit(&dws).expect("a store");
        self.end.push_tlp(&tlp, model::BAR_PAGES);
    }

    /// Simulates a step, and moves frames.
    fn step(&mut self) {
        while self
            .cable
            .receive(&mut self.frame)
            .expect("the device works")
        {
            self.end.push_frame(self.now_ps, self.frame.clone());
        }
        while self.end.backlog() < BACKLOG
            && let Some(tlp) = self.answers.pop_front()
        {
            self.end.push_tlp(&tlp, 7);
        }
        self.now_ps += STEP_PS;
        let mut out = std::mem::take(&mut self.out);
        self.end.run(self.now_ps, &mut out).expect("the NIC works");
        for (_, frame) in out.frames.drain(..) {
            // Without FCS, as a device of the kernel takes it.
            self.cable.send(&frame).expect("the device works");
        }
        for (_, tlp) in out.tlps.drain(..) {
            self.tlp(&tlp);
        }
        self.out = out;
    }

    fn tlp(&mut self, tlp: &[u8]) {
        let view = TlpView::new(tlp).expect("a TLP");
        let address = view.address_field() & !3;
        match view.fmt_type() {
            FMT_MWR32 | FMT_MWR64 if address >= RING => {
                let dws: Vec<u32> = view
                    .data()
                    .chunks(4)
                    .map(|dw| u32::from_le_bytes(dw.try_into().expect("a DW")))
                    .collect();
                let dws = dws.try_into().expect("an event");
                self.events.push(EventEntry::from_dws(&dws));
                self.tail += 1;
                self.register(reg::REG_EVENT_TAIL, self.tail);
            }
            FMT_MWR32 | FMT_MWR64 => {
                let at = (address - ARENA) as usize;
                let dws = usize::from(view.length());
                for (index, byte) in view.data().iter().enumerate() {
                    let enables = match index / 4 {
                        0 => view.first_be(),
                        dw if dw + 1 == dws => view.last_be(),
                        _ => 0xF,
                    };
                    if enables >> (index % 4) & 1 == 1 {
                        self.memory[at + index] = *byte;
                    }
                }
            }
            FMT_MRD32 | FMT_MRD64 => {
                let at = (address - ARENA) as usize;
                let completion = Completion {
                    tc: 0,
                    attr: 0,
                    ep: false,
                    length: view.length(),
                    completer_id: 0x10,
                    status: CompletionStatus::Successful,
                    byte_count: read_byte_count(view.length(), view.first_be(), view.last_be()),
                    requester_id: view.requester_id(),
                    tag: view.tag(),
                    lower_address: address as u8 & 0x7C | wire::first_byte(view.first_be()),
                };
                let data = &self.memory[at..at + 4 * usize::from(view.length())];
                let tlp = TlpHeader::Completion(completion).emit(data);
                self.answers.push_back(tlp.expect("a completion"));
            }
            _ => self.completions.push_back(tlp.to_vec()),
        }
    }

    /// The DW at an address of a BAR, over PCI Express; for the pages that is a load over the network.
    fn read(&mut self, address: usize, bar: u8, mut other: impl FnMut()) -> [u8; 4] {
        let (request, ..) = Self::request(address, 4);
        let tlp = TlpHeader::MemRead(request).emit(&[]).expect("a read");
        self.end.push_tlp(&tlp, bar);
        let began = Instant::now();
        loop {
            self.step();
            other();
            if let Some(tlp) = self.completions.pop_front() {
                let view = TlpView::new(&tlp).expect("a TLP");
                assert_eq!(view.fmt_type(), FMT_CPLD, "{tlp:02x?}");
                return view.data().try_into().expect("a DW");
            }
            assert!(began.elapsed() < PATIENCE, "a read is not answered");
        }
    }

    fn counter(&mut self, counter: NetCounter) -> u32 {
        let at = reg::NET_COUNTER_BASE as usize + 4 * counter as usize;
        u32::from_le_bytes(self.read(at, model::BAR_REGISTERS, || {}))
    }

    fn dma_writes(&mut self) -> u32 {
        let at = reg::PCIE_COUNTER_BASE as usize + 4 * PcieCounter::DmaWrite as usize;
        u32::from_le_bytes(self.read(at, model::BAR_REGISTERS, || {}))
    }
}

/// A random store that is one frame; stores of 4 bytes to the first DW count up.
fn draw(count: usize, rng: &mut ChaCha8Rng) -> (usize, Vec<u8>) {
    if count.is_multiple_of(4) {
        return (0, (count as u32).to_le_bytes().to_vec());
    }
    let length = if rng.random() {
        8
    } else {
        rng.random_range(1..=256)
    };
    let at = rng.random_range(4..BYTES - length);
    let length = length.min(256 - at % 256);
    (at, (0..length).map(|_| rng.random()).collect())
}

/// The machine around the NIC in software.
struct SoftHost {
    nic: SoftNic,
    memory: Segment,
    shared: Shared,
    session: u8,
    window: Window,
}

impl SoftHost {
    /// Shares its memory, and has a session with the NIC in RTL and that one's memory mapped.
    fn new(transport: impl Transport + 'static) -> Self {
        let config = Config {
            // The NIC in RTL needs some milliseconds of our time for an answer, and more on a busy machine.
            tick: Duration::from_micros(20),
            resend_us: 10_000,
            resend_limit: 255,
            load_retry_us: 20_000,
            read_timeout_us: 100_000_000,
            window: 8,
            acknowledge_every: 4,
            ..Config::default()
        };
        let mut nic = SoftNic::new(config, Box::new(transport)).expect("a NIC");
        let memory = Segment::anonymous(BYTES).expect("memory");
        let share = Share {
            read: true,
            ..Share::writable(0, BYTES as u32)
        };
        let shared = nic.share(&memory, &share).expect("a key");
        let session = nic.reserve_session().expect("a session");
        let peer = PeerAddress {
            identity: Identity {
                mac: RTL_MAC,
                ip: RTL_IP.into(),
            },
            session: RTL_SESSION,
            epoch: EPOCH,
            start: START,
            compact: true,
            keys: None,
        };
        nic.open_session(session, &peer).expect("a session");
        let theirs = Shared {
            key: RTL_KEY,
            tag: RTL_TAG,
        };
        let window = nic.map(session, &theirs, 0, BYTES as u64).expect("pages");
        Self {
            nic,
            memory,
            shared,
            session,
            window,
        }
    }

    fn poll(&mut self) {
        self.nic.poll().expect("the transport works");
    }

    fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        assert!(self.memory.read(at, &mut bytes));
        bytes
    }
}

/// The two hosts, and what their memories have to be.
struct Exchange {
    rtl: RtlHost,
    soft: SoftHost,
    rng: ChaCha8Rng,
    to_rtl: Stores,
    to_soft: Stores,
    in_rtl: Vec<u8>,
    in_soft: Vec<u8>,
    /// What the NIC in software told.
    events: Vec<Event>,
    began: Instant,
}

impl Exchange {
    /// Stores both ways, until all are acknowledged.
    fn store(&mut self, stores: usize) {
        let Self { rtl, soft, rng, .. } = self;
        let (to_rtl, to_soft) = (&mut self.to_rtl, &mut self.to_soft);
        let (mut seen_soft, mut seen_rtl) = (0, 0);
        loop {
            while to_rtl.len() < stores && soft.nic.can_store(soft.session) {
                let (at, data) = draw(to_rtl.len(), rng);
                let stored = soft.nic.store(&soft.window, at as u64, &data);
                assert_eq!(stored.expect("inside"), data.len());
                to_rtl.push((at, data));
            }
            while to_soft.len() < stores && rtl.end.backlog() < BACKLOG {
                let (at, data) = draw(to_soft.len(), rng);
                rtl.store(at, &data);
                to_soft.push((at, data));
            }
            rtl.step();
            soft.poll();
            self.events
                .extend(std::iter::from_fn(|| soft.nic.next_event()));
            let count = u32::from_le_bytes(rtl.memory[..4].try_into().expect("a DW"));
            assert!(count >= seen_rtl, "{count} came after {seen_rtl}");
            seen_rtl = count;
            let count = u32::from_le_bytes(soft.read(0));
            assert!(count >= seen_soft, "{count} came after {seen_soft}");
            seen_soft = count;
            let done = to_rtl.len() == stores && to_soft.len() == stores;
            if done && soft.nic.is_quiet() && rtl.end.is_idle() {
                break;
            }
            assert!(
                self.began.elapsed() < PATIENCE,
                "{} and {} of {stores} stores were sent, then nothing",
                to_rtl.len(),
                to_soft.len()
            );
        }
        println!(
            "{stores} stores each way in {:.1} s, {} µs for the NIC in RTL",
            self.began.elapsed().as_secs_f64(),
            rtl.now_ps / 1_000_000
        );
    }

    /// All stores are in memory, each was written once, nothing was told, and some needed to be sent again.
    fn compare(&mut self, stores: usize) {
        let Self { rtl, soft, .. } = self;
        assert_eq!(self.events, []);
        assert_eq!(rtl.events, []);
        write(&self.to_rtl, &mut self.in_rtl);
        assert!(
            rtl.memory == self.in_rtl,
            "memory of the host with the NIC in RTL"
        );
        write(&self.to_soft, &mut self.in_soft);
        let mut bytes = vec![0; BYTES];
        assert!(soft.memory.read(0, &mut bytes));
        assert!(
            bytes == self.in_soft,
            "memory of the host with the NIC in software"
        );
        let counters = soft.nic.counters();
        assert_eq!(counters.pcie(PcieCounter::DmaWrite), stores as u32);
        assert_eq!(rtl.dma_writes(), stores as u32);
        let resent = [
            counters.net(NetCounter::TxResend),
            rtl.counter(NetCounter::TxResend),
        ];
        println!(
            "sent again: {} by the NIC in software, {} by that in RTL",
            resent[0], resent[1]
        );
        assert!(resent.iter().all(|count| *count > 0), "{resent:?}");
    }

    /// A load of the NIC in RTL, then one of the NIC in software.
    fn load(&mut self, round: usize) {
        let Self { rtl, soft, rng, .. } = self;
        let at = 4 * rng.random_range(0..BYTES / 4);
        let got = rtl.read(at, model::BAR_PAGES, || soft.poll());
        assert_eq!(got, self.in_soft[at..at + 4], "load {round} of the RTL");
        let length = rng.random_range(1..1000);
        let at = rng.random_range(0..BYTES - length);
        let load = soft.nic.load(&soft.window, at as u64, length);
        let load = load.expect("inside");
        let data = loop {
            rtl.step();
            soft.poll();
            match soft.nic.next_event() {
                None => assert!(self.began.elapsed() < PATIENCE, "a load is not answered"),
                Some(Event::Loaded { load: id, data }) if id == load => break data,
                Some(other) => panic!("{other:?}"),
            }
        };
        assert!(data.expect("bytes") == self.in_rtl[at..at + length]);
    }
}

/// Stores both ways, then loads both ways.
///
/// `seen_as` are the addresses that the NIC in RTL finds the other one under.
fn exchange(
    mut rtl: RtlHost,
    seen_as: Identity,
    transport: impl Transport + 'static,
    stores: usize,
    seed: u64,
) {
    let soft = SoftHost::new(transport);
    rtl.connect(seen_as, soft.session, soft.shared);
    let mut hosts = Exchange {
        rtl,
        soft,
        rng: ChaCha8Rng::seed_from_u64(seed),
        to_rtl: Stores::default(),
        to_soft: Stores::default(),
        in_rtl: vec![0; BYTES],
        in_soft: vec![0; BYTES],
        events: Vec::new(),
        began: Instant::now(),
    };
    hosts.store(stores);
    hosts.compare(stores);
    for round in 0..8 {
        hosts.load(round);
    }
}

const LOSSY: Faults = Faults {
    loss: 20,
    duplicate: 5,
    reorder: 5,
    corrupt: 5,
};

fn rtl_tap(speed: NetSpeed, seed: u64) -> RtlHost {
    let tap = Tap::open("rtl0", RTL_MAC, RTL_IP).expect("a TAP device");
    let cable = Faulty::new(tap, LOSSY, seed ^ 1);
    RtlHost::new(speed, cable, ChaCha8Rng::seed_from_u64(seed ^ 2))
}

#[test]
fn rtl_and_software_exchange_stores_through_udp_sockets() {
    in_namespace(|| {
        let seed = seed();
        let rtl = rtl_tap(NetSpeed::TenGig, seed);
        ip("link set lo up");
        ip("link set rtl0 address 02:00:00:00:77:01");
        ip("addr add 10.77.0.1/24 dev rtl0");
        ip("link set rtl0 up");
        let own = Ipv4Addr::new(10, 77, 0, 1);
        // What the NIC in RTL sends to is the kernel's end of its cable.
        let device = Identity {
            mac: 0x0200_0000_7701,
            ip: own.into(),
        };
        let udp = Udp::bind(own).expect("an own address");
        let soft = Faulty::new(udp, LOSSY, seed);
        exchange(rtl, device, soft, 2000, seed);
    });
}

#[test]
fn rtl_and_software_exchange_stores_through_a_bridge() {
    in_namespace(|| {
        let seed = seed();
        let rtl = rtl_tap(NetSpeed::OneGig, seed);
        let identity = Identity {
            mac: 0x0200_0000_7703,
            ip: Ipv4Addr::new(10, 77, 0, 3).into(),
        };
        let tap = Tap::open("soft0", identity.mac, identity.ip.into()).expect("a TAP device");
        ip("link add bridge0 type bridge");
        for device in ["rtl0", "soft0"] {
            ip(&format!("link set {device} master bridge0"));
            ip(&format!("link set {device} up"));
        }
        ip("link set bridge0 up");
        let soft = Faulty::new(tap, LOSSY, seed);
        exchange(rtl, identity, soft, 1000, seed);
    });
}
