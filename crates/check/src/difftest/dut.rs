// SPDX-License-Identifier: Apache-2.0
//! What is tested: something that takes TLPs and frames and sends some.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ipnuma_rtl::{NetSpeed, NetWord, Nic, TlpBeat};
use model::{Config, Effect, FrameSource, TlpSource};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::difftest::phy::{CutFrame, Decoder, Encoder, LineFrame};
use crate::difftest::pins::{Change, Pin, ResetWatch};

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A TLP to the root complex.
    Tlp(Vec<u8>),
    /// A frame on the wire, without FCS.
    Frame(Vec<u8>),
    /// A frame that a reset has cut.
    Cut(CutFrame),
}

/// How the root complex behaves for a while: chances in percent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// It is ready for a beat.
    pub ready: u8,
    /// It offers the next beat at once.
    pub valid: u8,
}

/// A NIC under test.
pub trait Dut {
    /// Queues a TLP from the root complex.
    fn push_tlp(&mut self, tlp: &[u8], bar: u8);
    /// Queues a frame on the line.
    fn push_frame(&mut self, frame: &LineFrame);
    /// Beats and bytes that were not yet taken.
    fn backlog(&self) -> (usize, usize);
    /// Sets the time.
    fn set_now(&mut self, now_us: u32);
    /// Sets the pace of the root complex.
    fn set_pace(&mut self, pace: Pace);
    /// Goes on by a clock edge or so.
    fn step(&mut self, events: &mut Vec<Event>) -> Result<(), String>;
    /// Nothing is queued, and nothing will come without new inputs. While tags are out the NIC
    /// stays busy, so that only a long silence tells.
    fn is_quiet(&self, tags_out: bool) -> bool;
    /// Simulated time in picoseconds.
    fn time_ps(&self) -> u64;
}

/// Quiet cycles of the slower clock after which the NIC stands still; the architecture says 32.
const QUIET_CYCLES: u32 = 36;
/// The same while tags are out: longer than a pass over the tags and a register access.
const CALM_CYCLES: u32 = 160;
/// What the stream from the root complex calls the BAR of a completion.
const BAR_NONE: u8 = 7;
const PCIE_PERIOD_PS: u64 = 4000;
/// How many times slower the PCIe clock of a NIC goes that is asked to save time.
const SLOW: u64 = 8;
/// PCIe edges without anything to do after which it does.
const SLOW_AFTER: u32 = 64;

/// The RTL in its two clock domains.
pub struct RtlDut {
    nic: Nic,
    rng: ChaCha8Rng,
    pace: Pace,
    time_ps: u64,
    next_pcie_ps: u64,
    next_net_ps: u64,
    net_period_ps: u64,
    beats: VecDeque<TlpBeat>,
    tlp: Vec<u8>,
    encoder: Encoder,
    decoder: Decoder,
    quiet: u32,
    calm: u32,
    slow_when_idle: bool,
    /// Edges of the PCIe clock without anything to do.
    pcie_rest: u32,
    /// What happens to the pins later.
    changes: Vec<Change>,
    watch: ResetWatch,
    /// TLPs to the root complex that a reset of the PCIe side has cut.
    tlps_cut: u64,
    /// The function of a shell that is tested: in front of the BAR in a TLP's user bits.
    function: u8,
}

/// The function of a shell that IP-NUMA is.
const IPNUMA_FUNCTION: u8 = 1;

impl RtlDut {
    /// A NIC after reset with random clock phases.
    pub fn new(
        speed: NetSpeed,
        small: bool,
        completer_id: u16,
        rng: ChaCha8Rng,
    ) -> Result<Self, String> {
        let nic = if small {
            Nic::new_small(speed)
        } else {
            Nic::new(speed)
        };
        Self::with(nic, 0, completer_id, rng)
    }

    /// The same of a shell, of which the other function is never set up.
    pub fn shell(speed: NetSpeed, completer_id: u16, rng: ChaCha8Rng) -> Result<Self, String> {
        Self::with(Nic::shared(speed), IPNUMA_FUNCTION, completer_id, rng)
    }

    fn with(
        nic: Result<Nic, ipnuma_rtl::Error>,
        function: u8,
        completer_id: u16,
        mut rng: ChaCha8Rng,
    ) -> Result<Self, String> {
        let mut nic = nic.map_err(|error| error.to_string())?;
        let speed = nic.speed();
        nic.inputs.completer_id = completer_id;
        nic.reset().map_err(|error| error.to_string())?;
        // A picosecond more or less lets the phases drift through all their values.
        let net_period_ps = speed.net_period_ps() - 1 + rng.random_range(0..3);
        Ok(Self {
            nic,
            pace: Pace {
                ready: 100,
                valid: 100,
            },
            time_ps: 0,
            next_pcie_ps: PCIE_PERIOD_PS + rng.random_range(0..PCIE_PERIOD_PS),
            next_net_ps: PCIE_PERIOD_PS + rng.random_range(0..net_period_ps),
            net_period_ps,
            beats: VecDeque::new(),
            tlp: Vec::new(),
            encoder: Encoder::new(speed),
            decoder: Decoder::new(speed),
            quiet: 0,
            calm: 0,
            slow_when_idle: false,
            pcie_rest: 0,
            changes: Vec::new(),
            watch: ResetWatch::default(),
            tlps_cut: 0,
            function,
            rng,
        })
    }

    /// Lets the PCIe clock go slower while only the network side works, to save time.
    pub fn slow_when_idle(&mut self, slow: bool) {
        self.slow_when_idle = slow;
    }

    /// Resets the NIC at any moment: what was queued and what it was sending is gone.
    pub fn restart(&mut self) -> Result<(), String> {
        self.beats.clear();
        self.tlp.clear();
        let speed = self.nic.speed();
        self.encoder = Encoder::new(speed);
        self.decoder = Decoder::new(speed);
        (self.quiet, self.calm, self.pcie_rest) = (0, 0, 0);
        self.changes.clear();
        self.watch = ResetWatch::default();
        self.nic.inputs.s_tlp = None;
        self.nic.inputs.net = speed.idle();
        self.nic.reset().map_err(|error| error.to_string())
    }

    /// Sets the signal from the PHY that says whether the line is up.
    pub fn set_link(&mut self, up: bool) {
        (self.quiet, self.calm) = (0, 0);
        self.nic.inputs.link_up = up;
    }

    /// Lets time pass without clock edges, for a NIC that is quiet.
    pub fn skip_to(&mut self, until_ps: u64) {
        let skip = |next: &mut u64, period: u64| {
            *next += until_ps.saturating_sub(*next).div_ceil(period) * period;
        };
        skip(&mut self.next_pcie_ps, PCIE_PERIOD_PS);
        skip(&mut self.next_net_ps, self.net_period_ps);
        self.time_ps = self.time_ps.max(until_ps);
    }

    /// The PCIe clock goes at its full speed again.
    fn wake_pcie(&mut self) {
        self.pcie_rest = 0;
        let soon = self.time_ps + PCIE_PERIOD_PS;
        if self.next_pcie_ps > soon {
            self.next_pcie_ps = soon;
        }
    }

    /// Lets the network clock tick with that of another NIC.
    fn align(&mut self, other: &Self) {
        self.net_period_ps = other.net_period_ps;
        self.next_net_ps = other.next_net_ps;
    }

    /// Time of the next edge of either clock.
    pub fn next_edge_ps(&self) -> u64 {
        self.next_pcie_ps.min(self.next_net_ps)
    }

    /// The NIC itself, to write waves.
    pub fn nic(&mut self) -> &mut Nic {
        &mut self.nic
    }

    fn chance(&mut self, percent: u8) -> bool {
        percent >= 100 || self.rng.random_range(0..100) < percent
    }

    /// Goes on by an edge. With `line` the word on the line comes from there, not from the queue.
    /// Returns the word that the NIC put on the wire, if this was an edge of the network clock.
    pub fn edge(
        &mut self,
        line: Option<NetWord>,
        events: &mut Vec<Event>,
    ) -> Result<Option<NetWord>, String> {
        self.time_ps = self.next_pcie_ps.min(self.next_net_ps);
        let pcie = self.time_ps == self.next_pcie_ps;
        let net = self.time_ps == self.next_net_ps;
        if !self.changes.is_empty() {
            self.change_pins(pcie, net);
        }
        if net && let Some(word) = line {
            self.nic.inputs.net = word;
        }
        self.nic.set_time(self.time_ps);
        let out = *self.nic.settle().map_err(|error| error.to_string())?;
        let offered = self.nic.inputs.s_tlp.is_some();
        let ready = self.nic.inputs.m_tlp_ready;
        if pcie && out.flr_done != 0 {
            self.end_function_reset();
        }
        self.nic
            .edge(pcie, net)
            .map_err(|error| error.to_string())?;

        let mut sent = None;
        if net {
            self.next_net_ps += self.net_period_ps;
            self.decoder.set_may_cut(self.watch.resetting());
            if let Some(frame) = self.decoder.word(out.net)? {
                events.push(Event::Frame(frame));
            }
            events.extend(self.decoder.take_cut().map(Event::Cut));
            sent = Some(out.net);
            if line.is_none() {
                self.nic.inputs.net = self.encoder.word();
            }
        }
        if pcie {
            // A pulse of a pin is as short as a cycle.
            let rests = self.beats.is_empty()
                && self.changes.is_empty()
                && !offered
                && out.m_tlp.is_none()
                && !out.busy_pcie;
            self.pcie_rest = if rests { self.pcie_rest + 1 } else { 0 };
            self.next_pcie_ps += if self.slow_when_idle && self.pcie_rest > SLOW_AFTER {
                SLOW * PCIE_PERIOD_PS
            } else {
                PCIE_PERIOD_PS
            };
            let in_reset = self.nic.inputs.rst_pcie;
            self.watch.edge(
                in_reset,
                self.nic.inputs.bus.bus_master,
                out.m_tlp.as_ref(),
                out.s_tlp_ready,
                !self.tlp.is_empty(),
            )?;
            // A PCI Express block in reset takes nothing.
            if ready
                && !in_reset
                && let Some(beat) = out.m_tlp
            {
                self.take_beat(beat, events)?;
            }
            let taken = offered && out.s_tlp_ready;
            if taken && let Some(beat) = self.nic.inputs.s_tlp {
                self.watch.take(self.time_ps, &beat);
            }
            if taken || !offered {
                let valid = self.pace.valid;
                let go_on = !self.beats.is_empty() && !in_reset && self.chance(valid);
                self.nic.inputs.s_tlp = if go_on { self.beats.pop_front() } else { None };
                if go_on {
                    self.watch.offer();
                }
            }
            let ready = self.pace.ready;
            self.nic.inputs.m_tlp_ready = self.chance(ready);
        }
        let slow_edge = if self.net_period_ps > PCIE_PERIOD_PS {
            net
        } else {
            pcie
        };
        let moving = out.busy_net
            || out.m_tlp.is_some()
            || self.nic.inputs.s_tlp.is_some()
            || !self.changes.is_empty()
            || self.backlog() != (0, 0);
        let next = |count: u32| if slow_edge { count + 1 } else { count };
        self.calm = if moving { 0 } else { next(self.calm) };
        self.quiet = if moving || out.busy_pcie {
            0
        } else {
            next(self.quiet)
        };
        Ok(sent)
    }

    /// Carries out what is due at this edge.
    fn change_pins(&mut self, pcie: bool, net: bool) {
        let now_ps = self.time_ps;
        let mut due = Vec::new();
        self.changes.retain(|change| {
            let is_due = change.at_ps <= now_ps && change.fits(pcie, net);
            if is_due {
                due.push(*change);
            }
            !is_due
        });
        for Change { pin, level, .. } in due {
            let inputs = &mut self.nic.inputs;
            match pin {
                Pin::LinkUp => inputs.link_up = level,
                Pin::BusMaster => inputs.bus.bus_master = level,
                Pin::RstNet => inputs.rst_net = level,
                Pin::RstPcie => inputs.rst_pcie = level,
                Pin::Flr => inputs.flr |= u8::from(level) << self.function,
            }
            match (pin, level) {
                (Pin::RstPcie, true) => self.lose_tlps(),
                (Pin::RstNet, true) => self.watch.assert(false),
                (Pin::Flr, true) => self.watch.assert_function(),
                _ => {}
            }
        }
    }

    /// The PCIe side is reset, and with it what the PCI Express block has begun to hand over in either direction.
    /// Requests that wait are for a function that is in reset, and discarded; completions come when they can. It comes
    /// up without bus-master enable.
    fn lose_tlps(&mut self) {
        if !self.tlp.is_empty() {
            self.tlps_cut += 1;
            self.tlp.clear();
        }
        let offered = self.nic.inputs.s_tlp.take();
        let mut inside = self.watch.is_inside();
        let mut kept = VecDeque::new();
        for beat in offered.into_iter().chain(self.beats.drain(..)) {
            if inside {
                inside = !beat.last;
            } else if beat.user & BAR_NONE == BAR_NONE {
                kept.push_back(beat);
            }
        }
        self.beats = kept;
        self.watch.assert(true);
        self.nic.inputs.bus.bus_master = false;
        self.nic.inputs.flr = 0;
    }

    /// A function-level reset of a shell ends. Requests that wait were sent to the function in reset; one that is offered
    /// cannot be taken back.
    fn end_function_reset(&mut self) {
        let offered = self.nic.inputs.s_tlp.as_ref();
        self.watch.function_done(self.time_ps, offered);
        let mut inside = match offered {
            Some(beat) => !beat.last,
            None => self.watch.is_inside(),
        };
        self.beats.retain(|beat| {
            let keep = inside || beat.user & BAR_NONE == BAR_NONE;
            inside = inside && !beat.last;
            keep
        });
        self.nic.inputs.bus.bus_master = false;
        self.nic.inputs.flr = 0;
    }

    /// A function-level reset of a shell is under way, or about to be.
    pub fn in_function_reset(&self) -> bool {
        let planned = self.changes.iter().any(|change| change.pin == Pin::Flr);
        planned || self.nic.inputs.flr != 0
    }

    /// Changes pins later, each with an edge of its own clock.
    pub fn schedule(&mut self, changes: impl IntoIterator<Item = Change>) {
        (self.quiet, self.calm) = (0, 0);
        self.changes.extend(changes);
        // In order of time, so that a pin that changes twice before an edge ends as it should.
        self.changes.sort_by_key(|change| change.at_ps);
        self.wake_pcie();
    }

    /// What the pins have said about resets.
    pub fn watch(&mut self) -> &mut ResetWatch {
        &mut self.watch
    }

    /// TLPs to the root complex that a reset of the PCIe side has cut.
    pub fn tlps_cut(&self) -> u64 {
        self.tlps_cut
    }

    fn take_beat(&mut self, beat: TlpBeat, events: &mut Vec<Event>) -> Result<(), String> {
        let bytes = match (beat.keep, beat.last) {
            (0xFF, _) => 8,
            (0x0F, true) => 4,
            _ => return Err(format!("tkeep of a TLP to the root complex: {beat:?}")),
        };
        self.tlp
            .extend_from_slice(&beat.data.to_le_bytes()[..bytes]);
        if beat.last {
            events.push(Event::Tlp(std::mem::take(&mut self.tlp)));
        }
        Ok(())
    }
}

impl Dut for RtlDut {
    fn push_tlp(&mut self, tlp: &[u8], bar: u8) {
        if self.nic.inputs.rst_pcie && bar != BAR_NONE {
            // A function in reset takes no requests.
            return;
        }
        (self.quiet, self.calm) = (0, 0);
        self.wake_pcie();
        let user = self.function << 3 | bar;
        let beats = tlp.len().div_ceil(8);
        for (index, chunk) in tlp.chunks(8).enumerate() {
            let mut data = [0; 8];
            data[..chunk.len()].copy_from_slice(chunk);
            self.beats.push_back(TlpBeat {
                data: u64::from_le_bytes(data),
                keep: if chunk.len() == 8 { 0xFF } else { 0x0F },
                last: index + 1 == beats,
                user,
            });
        }
    }

    fn push_frame(&mut self, frame: &LineFrame) {
        (self.quiet, self.calm) = (0, 0);
        self.encoder.push(frame);
    }

    fn backlog(&self) -> (usize, usize) {
        let offered = usize::from(self.nic.inputs.s_tlp.is_some());
        (self.beats.len() + offered, self.encoder.backlog())
    }

    fn set_now(&mut self, now_us: u32) {
        (self.quiet, self.calm) = (0, 0);
        self.nic.inputs.now_us = now_us;
    }

    fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    fn step(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        self.edge(None, events).map(|_| ())
    }

    fn is_quiet(&self, tags_out: bool) -> bool {
        self.changes.is_empty()
            && (self.quiet >= QUIET_CYCLES || tags_out && self.calm >= CALM_CYCLES)
    }

    fn time_ps(&self) -> u64 {
        self.time_ps
    }
}

/// Two NICs whose network ports are wired to each other.
struct Wired {
    nics: [RtlDut; 2],
    events: [Vec<Event>; 2],
}

impl Wired {
    fn step(&mut self) -> Result<(), String> {
        let [first, second] = &mut self.nics;
        let [first_events, second_events] = &mut self.events;
        // Both network clocks are one: at its edge each samples what the other shows before it.
        let words = (first.nic.outputs().net, second.nic.outputs().net);
        let (at_first, at_second) = (first.next_edge_ps(), second.next_edge_ps());
        if at_first <= at_second {
            first.edge(Some(words.1), first_events)?;
        }
        if at_second <= at_first {
            second.edge(Some(words.0), second_events)?;
        }
        Ok(())
    }
}

/// One of two NICs that are wired to each other. A step of either moves both.
pub struct WiredDut {
    wired: Rc<RefCell<Wired>>,
    index: usize,
}

impl WiredDut {
    /// Wires two NICs.
    pub fn pair(first: RtlDut, mut second: RtlDut) -> [Self; 2] {
        second.align(&first);
        let wired = Rc::new(RefCell::new(Wired {
            nics: [first, second],
            events: [Vec::new(), Vec::new()],
        }));
        [0, 1].map(|index| Self {
            wired: Rc::clone(&wired),
            index,
        })
    }
}

impl Dut for WiredDut {
    fn push_tlp(&mut self, tlp: &[u8], bar: u8) {
        self.wired.borrow_mut().nics[self.index].push_tlp(tlp, bar);
    }

    fn push_frame(&mut self, _frame: &LineFrame) {
        unreachable!("frames come from the other NIC");
    }

    fn backlog(&self) -> (usize, usize) {
        self.wired.borrow().nics[self.index].backlog()
    }

    fn set_now(&mut self, now_us: u32) {
        self.wired.borrow_mut().nics[self.index].set_now(now_us);
    }

    fn set_pace(&mut self, pace: Pace) {
        self.wired.borrow_mut().nics[self.index].set_pace(pace);
    }

    fn step(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        let mut wired = self.wired.borrow_mut();
        // What is already there is seen before time goes on.
        if wired.events[self.index].is_empty() {
            wired.step()?;
        }
        events.append(&mut wired.events[self.index]);
        Ok(())
    }

    fn is_quiet(&self, _tags_out: bool) -> bool {
        let wired = self.wired.borrow();
        wired.events.iter().all(Vec::is_empty) && wired.nics.iter().all(|nic| nic.is_quiet(true))
    }

    fn time_ps(&self) -> u64 {
        self.wired.borrow().nics[self.index].time_ps()
    }
}

/// The model in the place of the RTL, with delays and, if asked for, a fault: the test of the test.
pub struct ModelDut {
    nic: model::Nic,
    rng: ChaCha8Rng,
    tlps: VecDeque<(Vec<u8>, u8)>,
    frames: VecDeque<LineFrame>,
    effects: Vec<Effect>,
    tlp_queues: Vec<(TlpSource, VecDeque<Vec<u8>>)>,
    frame_queues: Vec<(FrameSource, VecDeque<Vec<u8>>)>,
    fault_in: Option<u32>,
    steps: u64,
}

impl ModelDut {
    /// A model that spoils one bit after `fault_in` outputs.
    pub fn new(config: Config, rng: ChaCha8Rng, fault_in: Option<u32>) -> Self {
        use FrameSource as F;
        use TlpSource as T;
        let tlp_sources = [T::Server, T::Registers, T::Refusal, T::LoadTimeout];
        let frame_sources = [F::Requester, F::Completions, F::Refusals, F::Arp];
        Self {
            nic: model::Nic::new(config),
            rng,
            tlps: VecDeque::new(),
            frames: VecDeque::new(),
            effects: Vec::new(),
            tlp_queues: tlp_sources.map(|s| (s, VecDeque::new())).into(),
            frame_queues: frame_sources.map(|s| (s, VecDeque::new())).into(),
            fault_in,
            steps: 0,
        }
    }

    fn sort_effects(&mut self) {
        for effect in self.effects.drain(..) {
            let mut bytes = match &effect {
                Effect::Tlp(_, bytes) | Effect::Frame(_, bytes) => bytes.clone(),
            };
            if let Some(left) = &mut self.fault_in {
                if *left == 0 {
                    let at = bytes.len() - 1;
                    bytes[at] ^= 1;
                    self.fault_in = None;
                } else {
                    *left -= 1;
                }
            }
            match effect {
                Effect::Tlp(source, _) => {
                    let mut queues = self.tlp_queues.iter_mut();
                    let queue = queues.find(|(s, _)| *s == source);
                    queue.expect("every source has a queue").1.push_back(bytes);
                }
                Effect::Frame(source, _) => {
                    let mut queues = self.frame_queues.iter_mut();
                    let queue = queues.find(|(s, _)| *s == source);
                    queue.expect("every source has a queue").1.push_back(bytes);
                }
            }
        }
    }
}

impl Dut for ModelDut {
    fn push_tlp(&mut self, tlp: &[u8], bar: u8) {
        self.tlps.push_back((tlp.to_vec(), bar));
    }

    fn push_frame(&mut self, frame: &LineFrame) {
        self.frames.push_back(frame.clone());
    }

    fn backlog(&self) -> (usize, usize) {
        (self.tlps.len(), self.frames.len())
    }

    fn set_now(&mut self, now_us: u32) {
        self.nic.tick(now_us, &mut self.effects);
        self.sort_effects();
    }

    fn set_pace(&mut self, _pace: Pace) {}

    fn step(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        self.steps += 1;
        match self.rng.random_range(0..4) {
            0 => {
                if let Some((tlp, bar)) = self.tlps.pop_front() {
                    self.nic.tlp_from_root(&tlp, bar, &mut self.effects);
                }
            }
            1 => {
                if let Some(frame) = self.frames.pop_front() {
                    let fault = frame.fault.for_model();
                    self.nic
                        .frame_from_wire(&frame.bytes, fault, &mut self.effects);
                }
            }
            2 => {
                let index = self.rng.random_range(0..self.tlp_queues.len());
                events.extend(self.tlp_queues[index].1.pop_front().map(Event::Tlp));
            }
            _ => {
                let index = self.rng.random_range(0..self.frame_queues.len());
                events.extend(self.frame_queues[index].1.pop_front().map(Event::Frame));
            }
        }
        self.sort_effects();
        Ok(())
    }

    fn is_quiet(&self, _tags_out: bool) -> bool {
        self.tlps.is_empty()
            && self.frames.is_empty()
            && self.tlp_queues.iter().all(|(_, queue)| queue.is_empty())
            && self.frame_queues.iter().all(|(_, queue)| queue.is_empty())
    }

    fn time_ps(&self) -> u64 {
        self.steps * PCIE_PERIOD_PS
    }
}
