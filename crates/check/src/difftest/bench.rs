// SPDX-License-Identifier: Apache-2.0
//! The bench around one NIC: plays the root complex and the network, and compares all that comes
//! out with the model.
//!
//! The model works an input off at once, the NIC some time later. Where the order of two inputs
//! from different sides matters (a tag that is freed and taken), the bench lets the NIC finish the
//! one before it plays the other; tables that the network side reads change at quiet points only.

mod pair;
mod traffic;

use std::collections::VecDeque;

use ipnuma_rtl::NetSpeed;
use model::{FrameSource, Memory, Nic, TlpSource};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use wire::{NetCounter, PcieCounter, registers as reg};

use crate::difftest::dut::{Dut, Event, Pace};
use crate::difftest::expect::{Expect, show_frame, show_tlp};
use crate::difftest::frames::{
    NetCompletion, any_frame, arp_frame, completion, load_frame, on_line,
};
use crate::difftest::phy::{Fault, LineFrame};
use crate::difftest::world::{CompletionFields, Peer, World, percent, random_bytes};

/// Operations that the NIC may hold for the network: its receive slots.
const RX_CREDIT: usize = 31;
/// Refusals that may wait in the NIC's queue.
const DENY_CREDIT: usize = 8;
/// Inputs kept for the report of a mismatch.
const HISTORY: usize = 16;
/// Clock edges without any output after which a NIC that should have something to do is stuck.
const STUCK_EDGES: u32 = 60_000;
/// Clock edges between two looks for something to play.
const EDGES_A_TURN: u32 = 6;
/// Backlogs above which no more is queued: beats, and bytes on the line.
const MAX_BEATS: usize = 40;
const MAX_LINE: usize = 400;

/// A load of the CPU seen on the wire.
#[derive(Clone, Copy, Debug)]
struct SeenLoad {
    tag: u8,
    peer_ip: u32,
    lower_address: u8,
    /// Bytes that were not yet answered.
    left: u16,
}

/// A DMA read seen at the root complex.
#[derive(Clone, Copy, Debug)]
struct SeenRead {
    tag: u8,
    /// Next byte to be answered.
    address: u64,
    left: u16,
    answered: bool,
}

/// What a receive slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Store,
    Load,
    Completion,
}

/// An input, for the report.
#[derive(Clone, Debug)]
enum Input {
    Tlp(Vec<u8>, u8),
    Frame(LineFrame, NetCounter),
}

pub use pair::Pair;

/// How hard the NIC is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As far as nothing overflows: everything is equal.
    Exact,
    /// Without regard to the queues: what the NIC drops must be counted, and all else be equal.
    /// Which frames are dropped depends on timing, so no loads are served: those take tags.
    Stress,
}

/// Frames of one kind for a while, in a stress run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    None,
    /// Their refusals are longer than they are.
    Loads,
    /// There is room for one reply.
    Arp,
}

/// What overflowed in a stress run, by the outputs that did not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Dropped {
    stores: u32,
    zeros: u32,
    reports: u32,
    arps: u32,
}

/// What the counts of one run were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// TLPs and frames that were played.
    pub operations: u64,
    /// TLPs and frames that came out and were compared.
    pub outputs: u64,
    /// Comparisons of all counters.
    pub counter_checks: u64,
    /// Simulated picoseconds.
    pub time_ps: u64,
}

/// One NIC with its model.
pub struct Bench {
    dut: Box<dyn Dut>,
    model: Nic,
    world: World,
    speed: NetSpeed,
    rng: ChaCha8Rng,
    expect: Expect,
    memory: Memory,
    model_memory: Memory,
    loads: Vec<SeenLoad>,
    reads: Vec<SeenRead>,
    /// Operations accepted for the PCIe side and not yet seen there, in order. A completion that
    /// nobody waits for is never seen: it leaves with the next operation that is.
    slots: VecDeque<Slot>,
    next_tlp: Option<(Vec<u8>, u8, bool)>,
    next_frame: Option<LineFrame>,
    load: Load,
    dropped: Dropped,
    flood: Flood,
    /// In a pair: frames that go to the other NIC.
    sent: Option<Vec<Vec<u8>>>,
    writes: VecDeque<(u32, u32)>,
    now_us: u32,
    history: VecDeque<Input>,
    events: Vec<Event>,
    silent_edges: u32,
    /// While all counters are read: the values of the NIC and of the model.
    counters: Option<Vec<(u32, u32)>>,
    totals: Totals,
}

impl Bench {
    /// A bench around a NIC after reset.
    pub fn new(
        dut: Box<dyn Dut>,
        mut world: World,
        speed: NetSpeed,
        load: Load,
        mut rng: ChaCha8Rng,
    ) -> Self {
        world.no_loads = load == Load::Stress;
        let writes = world.setup(&mut rng).into();
        Self {
            dut,
            model: Nic::new(world.config.clone()),
            world,
            speed,
            rng,
            expect: Expect::default(),
            memory: Memory::patterned(),
            model_memory: Memory::patterned(),
            loads: Vec::new(),
            reads: Vec::new(),
            slots: VecDeque::new(),
            next_tlp: None,
            next_frame: None,
            load,
            dropped: Dropped::default(),
            flood: Flood::None,
            sent: None,
            writes,
            now_us: 0,
            history: VecDeque::new(),
            events: Vec::new(),
            silent_edges: 0,
            counters: None,
            totals: Totals::default(),
        }
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        Totals {
            time_ps: self.dut.time_ps(),
            ..self.totals
        }
    }

    /// Every counter of the model with its name.
    pub fn counters(&self) -> Vec<(&'static str, u32)> {
        let counters = self.model.counters();
        let pcie = PcieCounter::ALL
            .iter()
            .map(|c| (c.name(), counters.pcie(*c)));
        let net = NetCounter::ALL.iter().map(|c| (c.name(), counters.net(*c)));
        pcie.chain(net).collect()
    }

    /// Counters that a long run must reach and did not.
    pub fn never_counted(&self) -> Vec<&'static str> {
        if self.load == Load::Stress {
            let Dropped {
                stores,
                zeros,
                reports,
                arps,
            } = self.dropped;
            let kinds = [
                ("rx_overflow", stores),
                ("deny_dropped", zeros.min(reports)),
                ("arp_dropped", arps),
            ];
            let never = kinds.into_iter().filter(|(_, count)| *count == 0);
            return never.map(|(name, _)| name).collect();
        }
        // The bench keeps the queues short enough for these.
        let kept_zero = ["rx_overflow", "deny_dropped", "arp_dropped", "tx_underrun"];
        let all_pages = self.world.config.pages == 1 << (reg::BAR2_ADDR_W - 12);
        let unreachable = |name| all_pages && name == "tlp_page_beyond";
        let counters = self.counters().into_iter();
        counters
            .filter(|(name, value)| *value == 0 && !kept_zero.contains(name) && !unreachable(*name))
            .filter(|(name, _)| !of_sessions(name))
            .map(|(name, _)| name)
            .collect()
    }

    /// Plays `operations` random operations and compares everything.
    pub fn run(&mut self, operations: u64) -> Result<(), String> {
        let result = self.run_inner(operations);
        result.map_err(|error| self.report(&error))
    }

    fn run_inner(&mut self, operations: u64) -> Result<(), String> {
        self.play_writes()?;
        self.settle()?;
        // The clock wraps early in a long run.
        self.now_us = u32::MAX - self.rng.random_range(0..20_000);
        self.pass_time()?;
        while self.totals.operations < operations {
            let epoch = self.rng.random_range(20..500);
            let until = operations.min(self.totals.operations + epoch);
            let stress = self.load == Load::Stress;
            let pace = |rng: &mut ChaCha8Rng| *[100, 100, 95, 60, 15].choose(rng).unwrap_or(&100);
            self.dut.set_pace(Pace {
                ready: pace(&mut self.rng),
                valid: pace(&mut self.rng),
            });
            if stress {
                let floods = [Flood::None, Flood::None, Flood::Loads, Flood::Arp];
                self.flood = *floods.choose(&mut self.rng).unwrap_or(&Flood::None);
                // Slower than frames come.
                let slow = match self.speed {
                    NetSpeed::TenGig => [2, 5, 15],
                    NetSpeed::OneGig => [0, 1, 1],
                };
                let ready = *slow.choose(&mut self.rng).unwrap_or(&1);
                self.dut.set_pace(Pace { ready, valid: 100 });
            }
            // Percent of TLPs and frames in this epoch: one side alone, or both.
            let shares: &[u32] = if stress {
                &[0, 5, 30]
            } else {
                &[10, 50, 50, 90, 0, 100]
            };
            let tlp_share = *shares.choose(&mut self.rng).unwrap_or(&50);
            while self.totals.operations < until {
                self.play(tlp_share);
                for _ in 0..EDGES_A_TURN {
                    self.step()?;
                }
            }
            if stress {
                self.dut.set_pace(Pace {
                    ready: 100,
                    valid: 100,
                });
            }
            self.settle()?;
            self.quiet_point()?;
        }
        self.settle()?;
        self.compare_counters()?;
        match self.memory.first_difference(&self.model_memory) {
            None => Ok(()),
            Some(address) => Err(format!("host memory differs at {address:#x}")),
        }
    }

    /// Lets the NIC go on by an edge and compares what came out.
    fn step(&mut self) -> Result<(), String> {
        let mut events = std::mem::take(&mut self.events);
        self.dut.step(&mut events)?;
        self.silent_edges = if events.is_empty() {
            self.silent_edges + 1
        } else {
            0
        };
        for event in events.drain(..) {
            self.totals.outputs += 1;
            match event {
                Event::Tlp(tlp) => self.take_tlp(tlp)?,
                Event::Frame(frame) => self.take_frame(&frame)?,
                Event::Cut(cut) => {
                    return Err(format!("a frame was cut without a reset: {cut:02x?}"));
                }
            }
        }
        self.events = events;
        if self.silent_edges > STUCK_EDGES {
            return Err(format!(
                "the NIC is stuck (quiet: {}, backlog {:?})\n{}",
                self.is_quiet(),
                self.dut.backlog(),
                self.expect.missing()
            ));
        }
        Ok(())
    }

    fn take_tlp(&mut self, tlp: Vec<u8>) -> Result<(), String> {
        self.check_permission(&tlp)?;
        if let Some(counters) = &mut self.counters
            && let Some(head) = self.expect.next_register_reply(&tlp)
        {
            let values = tlp[12..].chunks_exact(4).zip(head[12..].chunks_exact(4));
            let number = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            counters.extend(values.map(|(nic, model)| (number(nic), number(model))));
            return Ok(());
        }
        let mut skipped = None;
        if self.load == Load::Stress {
            skipped = self.expect.skip_to_tlp(&tlp);
        }
        let source = if let Some(skipped) = skipped {
            self.dropped.stores += skipped.len() as u32;
            TlpSource::Server
        } else {
            self.expect.take_tlp(&tlp)?
        };
        if source != TlpSource::Server {
            return Ok(());
        }
        match tlp[0] {
            0x40 | 0x60 => {
                self.leave_slot(Slot::Store);
                let (address, data) = split_request(&tlp);
                let (first_be, last_be) = (tlp[7] & 0xF, tlp[7] >> 4);
                self.memory.write_dws(address, data, first_be, last_be);
                // The bytes were equal, so that this is what the model wrote.
                self.model_memory
                    .write_dws(address, data, first_be, last_be);
            }
            0x00 | 0x20 => {
                self.leave_slot(Slot::Load);
                let (address, _) = split_request(&tlp);
                let dws = u16::from(tlp[3]);
                let (first_be, last_be) = (tlp[7] & 0xF, tlp[7] >> 4);
                self.reads.push(SeenRead {
                    tag: tlp[6],
                    address: address + u64::from(wire::first_byte(first_be)),
                    left: wire::read_byte_count(dws, first_be, last_be),
                    answered: false,
                });
            }
            _ => self.leave_slot(Slot::Completion),
        }
        Ok(())
    }

    /// The invariant of protection, checked without the model.
    fn check_permission(&self, tlp: &[u8]) -> Result<(), String> {
        if tlp[0] & 0x1F != 0 {
            return Ok(());
        }
        let (address, _) = split_request(tlp);
        let bytes = 4 * u64::from(tlp[3]);
        if self.world.permits(address, bytes, tlp[0] & 0x40 != 0) {
            return Ok(());
        }
        Err(format!(
            "a DMA access outside every permitted region:\n{}",
            show_tlp(tlp)
        ))
    }

    fn take_frame(&mut self, frame: &[u8]) -> Result<(), String> {
        if let Some(sent) = &mut self.sent {
            sent.push(frame.to_vec());
        }
        if self.load == Load::Stress {
            for source in [FrameSource::Refusals, FrameSource::Arp] {
                if let Some(skipped) = self.expect.skip_to_frame(source, frame) {
                    self.count_dropped(source, &skipped);
                    return Ok(());
                }
            }
        }
        let source = self.expect.take_frame(frame)?;
        if source == FrameSource::Requester && frame[42] == 0x4E && frame[50] == 0x20 {
            let dws = u16::from(frame[53]);
            let (first_be, last_be) = (frame[57] & 0xF, frame[57] >> 4);
            self.loads.push(SeenLoad {
                tag: frame[56],
                peer_ip: u32::from_be_bytes([frame[30], frame[31], frame[32], frame[33]]),
                lower_address: frame[65] & 0x7C | wire::first_byte(first_be),
                left: wire::read_byte_count(dws, first_be, last_be),
            });
        }
        Ok(())
    }

    fn count_dropped(&mut self, source: FrameSource, frames: &[Vec<u8>]) {
        for frame in frames {
            *match source {
                FrameSource::Arp => &mut self.dropped.arps,
                // The kind in the control byte tells a report from the zeros before it.
                _ if frame[44] >> 4 == wire::KIND_ERROR => &mut self.dropped.reports,
                _ => &mut self.dropped.zeros,
            } += 1;
        }
    }

    /// Waits until the NIC has finished all it can.
    fn settle(&mut self) -> Result<(), String> {
        // Held back inputs are played in their turn, which may take answers to DMA reads.
        loop {
            let held = self.next_tlp.is_some() || self.next_frame.is_some();
            if held {
                self.play_held();
            } else if self.model.waiting() > 0 {
                self.answer_a_read();
            }
            self.step()?;
            if !held && self.model.waiting() == 0 && self.is_quiet() {
                break;
            }
        }
        if self.load == Load::Stress {
            let (tlps, reports) = self.expect.drain(FrameSource::Refusals);
            self.dropped.stores += tlps.len() as u32;
            self.count_dropped(FrameSource::Refusals, &reports);
            let (_, arps) = self.expect.drain(FrameSource::Arp);
            self.count_dropped(FrameSource::Arp, &arps);
        }
        if !self.expect.is_empty() {
            return Err(format!("outputs are missing\n{}", self.expect.missing()));
        }
        self.slots.clear();
        Ok(())
    }

    fn play_held(&mut self) {
        if self.model.waiting() > 0 {
            self.answer_a_read();
        }
        if let Some((tlp, bar, is_load)) = self.next_tlp.take() {
            if is_load && self.completions_under_way() && !self.is_quiet() {
                self.next_tlp = Some((tlp, bar, is_load));
            } else {
                self.send_tlp(&tlp, bar);
            }
        }
        if let Some(frame) = self.next_frame.take() {
            if self.is_quiet() && self.expect.is_empty() && self.model.waiting() == 0 {
                self.slots.clear();
            }
            if self.may_receive(&frame) {
                self.send_frame(frame);
            } else {
                self.next_frame = Some(frame);
            }
        }
    }

    /// Writes what is to be written, then waits.
    fn play_writes(&mut self) -> Result<(), String> {
        while !self.writes.is_empty() {
            if self.dut.backlog().0 < MAX_BEATS {
                let (tlp, bar) = self.next_write();
                self.send_tlp(&tlp, bar);
                self.totals.operations -= 1;
            }
            self.step()?;
        }
        Ok(())
    }

    /// Nothing moves: the time to compare counters and to change what the network side uses.
    fn quiet_point(&mut self) -> Result<(), String> {
        if percent(&mut self.rng, 40) {
            self.compare_counters()?;
        }
        if percent(&mut self.rng, 60) {
            self.pass_time()?;
        }
        if percent(&mut self.rng, 50) {
            for _ in 0..self.rng.random_range(1..6) {
                let index = self.rng.random_range(0..self.world.regions.len());
                let writes = self.world.new_region(index, &mut self.rng);
                self.writes.extend(writes);
            }
        }
        if percent(&mut self.rng, 5) {
            let writes = self.world.new_identity(&mut self.rng);
            self.writes.extend(writes);
        }
        if percent(&mut self.rng, 10) {
            // Not so short that it ends reads: which first would depend on the cycle.
            let age = |start: u32| self.now_us.wrapping_sub(start);
            let loads = self
                .model
                .outstanding_loads()
                .map(|(_, start, _)| age(start));
            let reads = self
                .model
                .outstanding_reads()
                .map(|(_, start, _)| age(start));
            let oldest = loads.chain(reads).max().unwrap_or(0);
            let timeout = oldest + self.rng.random_range(1..2000);
            self.writes.push_back((reg::REG_READ_TIMEOUT_US, timeout));
        }
        self.play_writes()?;
        self.settle()?;
        if self.load == Load::Exact && percent(&mut self.rng, 50) {
            self.compare_registers()?;
        }
        Ok(())
    }

    /// Reads all registers, and some entries of the region table.
    fn compare_registers(&mut self) -> Result<(), String> {
        let mut offsets: Vec<u32> = reg::REGISTERS.iter().map(|r| r.offset).collect();
        for _ in 0..4 {
            let (key, _) = self
                .world
                .regions
                .choose(&mut self.rng)
                .expect("there are regions");
            let entry = reg::REGION_BASE + 32 * u32::from(*key);
            offsets.extend((0..8).map(|dw| entry + 4 * dw));
        }
        for offset in offsets {
            let (tlp, bar) = self.world.register_read(offset, 1, &mut self.rng);
            self.send_tlp(&tlp, bar);
            self.totals.operations -= 1;
            while self.dut.backlog().0 > MAX_BEATS {
                self.step()?;
            }
        }
        self.settle()
    }

    /// Lets time pass, and forgets what it ended.
    fn pass_time(&mut self) -> Result<(), String> {
        self.advance_time();
        self.settle()?;
        self.forget_expired();
        Ok(())
    }

    /// Moves the clock on, sometimes far enough for time-outs, sometimes exactly to one.
    fn advance_time(&mut self) {
        let timeout = self.model.registers().read_timeout_us;
        let step = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(timeout..timeout * 3),
            1 => (timeout - self.rng.random_range(0..2)).max(1),
            _ => self.rng.random_range(1..20),
        };
        let now = self.now_us.wrapping_add(step);
        self.now_us = now;
        self.model.tick(now, &mut self.expect);
        self.dut.set_now(now);
    }

    /// What was not answered until now is forgotten, or is answered too late.
    fn forget_expired(&mut self) {
        let model = &self.model;
        let rng = &mut self.rng;
        self.loads.retain(|load| {
            model.outstanding_loads().any(|(tag, ..)| tag == load.tag) || percent(rng, 20)
        });
        self.reads
            .retain(|read| model.outstanding_reads().any(|(tag, ..)| tag == read.tag));
    }

    /// Reads all counters through BAR 0 and compares them with the model's.
    fn compare_counters(&mut self) -> Result<(), String> {
        self.counters = Some(Vec::new());
        let windows = [
            (reg::PCIE_COUNTER_BASE, PcieCounter::COUNT),
            (reg::NET_COUNTER_BASE, NetCounter::COUNT),
        ];
        // One DW a read, so that the values are in the order of the names.
        for (base, count) in windows {
            for index in 0..count as u32 {
                let (tlp, bar) = self.world.register_read(base + 4 * index, 1, &mut self.rng);
                self.send_tlp(&tlp, bar);
                self.totals.operations -= 1;
                while self.dut.backlog().0 > MAX_BEATS {
                    self.step()?;
                }
            }
        }
        self.settle()?;
        self.totals.counter_checks += 1;
        let values = self.counters.take().unwrap_or_default();
        let names = PcieCounter::ALL.iter().map(|counter| counter.name());
        let names = names.chain(NetCounter::ALL.iter().map(|counter| counter.name()));
        let mut text = String::new();
        for (name, (nic, model)) in names.zip(values) {
            let dropped = self.dropped;
            let model = match name {
                "dma_write" | "rx_store" => model.wrapping_sub(dropped.stores),
                "rx_overflow" => dropped.stores,
                "tx_error" => model.wrapping_sub(dropped.reports),
                "deny_dropped" => dropped.reports,
                "tx_completion" => model.wrapping_sub(dropped.zeros),
                "tx_arp" => model.wrapping_sub(dropped.arps),
                "arp_dropped" => dropped.arps,
                _ => model,
            };
            if nic != model {
                text += &format!("counter {name}: the NIC has {nic}, the model {model}\n");
            }
        }
        if text.is_empty() { Ok(()) } else { Err(text) }
    }

    fn report(&self, error: &str) -> String {
        let mut text = format!(
            "{error}\nafter {} operations, at {} ns; the last inputs, the latest at the end:\n",
            self.totals.operations,
            self.dut.time_ps() / 1000
        );
        for input in &self.history {
            match input {
                Input::Tlp(tlp, bar) => {
                    text += &format!("TLP to BAR {bar}:\n{}", show_tlp(tlp));
                }
                Input::Frame(frame, end) => {
                    let body = &frame.bytes[..frame.bytes.len().saturating_sub(4)];
                    let LineFrame { fault, gap, .. } = frame;
                    text += &format!(
                        "frame of {} bytes, {fault:?}, gap {gap}, the model's verdict {end}:\n{}",
                        frame.bytes.len(),
                        show_frame(body)
                    );
                }
            }
        }
        text
    }
}

fn split_request(tlp: &[u8]) -> (u64, &[u8]) {
    let word = |at: usize| {
        u64::from(u32::from_be_bytes([
            tlp[at],
            tlp[at + 1],
            tlp[at + 2],
            tlp[at + 3],
        ]))
    };
    if tlp[0] & 0x20 == 0 {
        (word(8), &tlp[12..])
    } else {
        (word(8) << 32 | word(12), &tlp[16..])
    }
}

/// Counters that only sessions and events move: the fault matrix of the crate `faulttest` is theirs.
fn of_sessions(name: &str) -> bool {
    let mut pcie = PcieCounter::ALL[PcieCounter::LoadRetry.index()..].iter();
    let net = NetCounter::ALL[NetCounter::TxAck.index()..].iter();
    let mut net = net.filter(|counter| **counter != NetCounter::RxBadSession);
    pcie.any(|counter| counter.name() == name) || net.any(|c| c.name() == name)
}
