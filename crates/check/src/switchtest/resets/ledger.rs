// SPDX-License-Identifier: Apache-2.0
//! What may become of each frame, by the pins alone: when it was on them, and when resets were.
//!
//! Times are those of the edges that took a word. A frame of a port whose receive side was reset while `a` to `b`:
//!
//! - over [`GUARD_CYCLES`] or more before `a`, or begun [`SETTLE_CYCLES`] or more behind `b`: it leaves whole;
//! - begun before `a` and not over [`CUT_CYCLES`] behind it: spoiled, or not at all;
//! - begun from [`CUT_CYCLES`] behind `a` to `b`: nothing of it leaves;
//! - near either edge: whole or not at all (spoiled, too, if the reset may have cut it).
//!
//! None leaves twice, behind one that entered later for the same output, or later than its output was free for it: what
//! has waited in the port through a reset would be late. Of what entered before a reset of the core nothing leaves after
//! it has begun; what leaves then is cut.

use std::collections::VecDeque;

use ipnuma_rtl::{NetSpeed, Switch};
use wire::FCS_BYTES;

use crate::switchtest::line::WireFrame;
use crate::switchtest::resets::frame::{self, Parts};

const PORTS: usize = Switch::PORTS;

/// From the pins to where nothing of the receive clock is needed any more.
const GUARD_CYCLES: u64 = 8;
/// From a reset on the pins to where nothing more is taken.
const CUT_CYCLES: u64 = 3;
/// From the end of a reset to where a port must receive, if no frame is stored.
const SETTLE_CYCLES: u64 = 100;
/// More, if frames may have been stored: a beat of the longest takes a cycle, and one may wait behind another.
const STORED_CYCLES: u64 = 1300;
/// From the write of the last setting to where a port must receive.
const SETTINGS_CYCLES: u64 = 32;
/// From the last fault sequence to where a port sends again, and what it sends in the middle of a frame that was muted.
const MUTE_CYCLES: u64 = 90;
/// Cycles of the longest frame, and more.
const LONGEST_BYTES: u64 = 10_000;
/// What four inputs can have stored for an output, and more.
const ALL_STORED_BYTES: u64 = 100_000;
/// A spoiled frame's last bytes may be anything: the beat that was cut, and what stood in the FCS's place.
const SPOILED_TAIL: usize = 16;
/// Shortest frame without FCS; what is shorter is filled up.
const MIN_BODY: usize = 60;
/// Frames that may wait for an output beside the one that is sent, and their bytes.
const WAITING: usize = 3;
const WAITING_BYTES: usize = 8_800;

/// From its first edge to its last, if that has been.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: u64,
    to: Option<u64>,
}

impl Span {
    fn to(&self) -> u64 {
        self.to.unwrap_or(u64::MAX)
    }
}

/// A frame that was made.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    parts: Parts,
    /// When its start was on the pins, and its end.
    start: Option<u64>,
    end: Option<u64>,
    /// The line did not show all of it.
    hurt: bool,
    /// The line did not show all of its preamble, which may do no harm.
    doubt: bool,
    /// The line did not show its start.
    unseen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Good,
    Spoiled,
    Lost,
}

/// How many there were of what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames that left whole, and of these the ones that had to.
    pub good: u64,
    pub clean: u64,
    pub spoiled: u64,
    /// Cut by a reset of the core, or by a fault of the link.
    pub cut: u64,
    pub lost: u64,
}

/// Frames by port of arrival and by output, since the last reset of the core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub good: [[u32; PORTS]; PORTS],
    pub spoiled: [[u32; PORTS]; PORTS],
}

/// Settings that make a difference to what is expected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// Frames are stored and checked.
    pub stores: bool,
    pub vlan_in: Option<u16>,
    pub vlan_out: Option<u16>,
}

/// All frames under way, and what has happened to the ports.
#[derive(Debug)]
pub struct Ledger {
    /// By output and port of arrival, in order.
    pairs: [[VecDeque<Frame>; PORTS]; PORTS],
    pub settings: [Setting; PORTS],
    /// Nothing keeps frames from finding no room.
    pub overload: bool,
    resets: [Vec<Span>; PORTS],
    faults: [Vec<Span>; PORTS],
    cores: Vec<Span>,
    /// When the last frame of a port began, and until when it may not know its settings after a reset of the core.
    began: [u64; PORTS],
    unset: [u64; PORTS],
    /// Frames of a port that failed before there was a beat of them: they count as received only.
    pub stubs: [u32; PORTS],
    /// What a reset of the core has found under way.
    forgotten: Vec<Frame>,
    /// When an output was found free.
    free: [u64; PORTS],
    cycle: u64,
    /// From a frame's start to its first byte out.
    latency: u64,
    longest: u64,
    all_stored: u64,
    pub counts: Counts,
    pub tally: Tally,
}

impl Ledger {
    /// Nothing has happened; `cycle` is one of the core's.
    pub fn new(speed: NetSpeed, cycle: u64) -> Self {
        // With IPv6 in front.
        const LATENCY_CYCLES: [u64; 2] = [100, 300];
        let (bytes, latency) = match speed {
            NetSpeed::TenGig => (8, LATENCY_CYCLES[0]),
            NetSpeed::OneGig => (1, LATENCY_CYCLES[1]),
        };
        Self {
            pairs: Default::default(),
            settings: Default::default(),
            overload: false,
            resets: Default::default(),
            faults: Default::default(),
            cores: Vec::new(),
            began: [0; PORTS],
            unset: [0; PORTS],
            stubs: [0; PORTS],
            forgotten: Vec::new(),
            free: [0; PORTS],
            cycle,
            latency: latency * cycle,
            longest: LONGEST_BYTES / bytes * cycle,
            all_stored: ALL_STORED_BYTES / bytes * cycle,
            counts: Counts::default(),
            tally: Tally::default(),
        }
    }

    /// Whether a frame finds room in any case.
    pub fn has_room(&self, from: usize, out: usize) -> bool {
        let waiting = self.pairs[out][from].iter();
        let waiting = waiting.filter(|frame| !self.never(frame));
        let (count, bytes) = waiting.fold((0, 0), |(count, bytes), frame| {
            (count + 1, bytes + frame.parts.size)
        });
        self.overload || (count <= WAITING && bytes <= WAITING_BYTES)
    }

    /// A frame is on its way to the pins.
    pub fn made(&mut self, parts: Parts) {
        self.pairs[parts.out][parts.from].push_back(Frame {
            parts,
            start: None,
            end: None,
            hurt: false,
            doubt: false,
            unseen: false,
        });
    }

    /// Changes a frame, unless it was given up meanwhile.
    fn with(&mut self, parts: &Parts, change: impl FnOnce(&mut Frame)) {
        let mut frames = self.pairs[parts.out][parts.from].iter_mut();
        let found = frames.find(|frame| frame.parts.number == parts.number);
        if let Some(frame) = found {
            change(frame);
        }
    }

    /// Its start was on the pins, or would have been.
    pub fn started(&mut self, parts: &Parts, now: u64) {
        self.began[parts.from] = now;
        self.with(parts, |frame| frame.start = Some(now));
    }

    /// Its start was not on the pins.
    pub fn unseen(&mut self, parts: &Parts) {
        self.with(parts, |frame| frame.unseen = true);
    }

    /// Some of its preamble was not on the pins.
    pub fn doubt(&mut self, parts: &Parts) {
        self.with(parts, |frame| frame.doubt = true);
    }

    /// Some of it was not on the pins.
    pub fn hurt(&mut self, parts: &Parts, now: u64) {
        // A preamble and a beat.
        const STUB_BYTES: u64 = 24;
        let bytes = self.all_stored / ALL_STORED_BYTES * STUB_BYTES;
        let mut frames = self.pairs[parts.out][parts.from].iter();
        let early = |frame: &&Frame| {
            let start = frame.start.unwrap_or(now);
            frame.parts.number == parts.number && !frame.hurt && now - start <= bytes
        };
        self.stubs[parts.from] += frames.find(early).map_or(0, |_| 1);
        self.with(parts, |frame| frame.hurt = true);
    }

    /// Its end was on the pins.
    pub fn ended(&mut self, parts: &Parts, now: u64) {
        // Settings are taken over between two frames.
        if self
            .cores
            .iter()
            .any(|span| self.began[parts.from] < span.to())
        {
            self.unset[parts.from] = now + SETTINGS_CYCLES * self.cycle;
        }
        self.with(parts, |frame| frame.end = Some(now));
    }

    /// An edge of the receive side has seen its reset begin, or an edge behind was the last one that saw it.
    pub fn reset(&mut self, port: usize, now: u64, on: bool) {
        if on {
            self.resets[port].push(Span {
                from: now,
                to: None,
            });
        } else if let Some(span) = self.resets[port].last_mut() {
            span.to = Some(now);
        }
    }

    /// The line tells a fault.
    pub fn fault(&mut self, port: usize, now: u64) {
        let before = now - 2 * self.cycle;
        match self.faults[port].last_mut() {
            Some(span) if span.to() >= before => span.to = Some(now),
            _ => self.faults[port].push(Span {
                from: now,
                to: Some(now),
            }),
        }
    }

    /// An edge has reset the core, and what came with it has been looked at.
    pub fn core_reset(&mut self, now: u64) {
        self.cores.push(Span {
            from: now,
            to: None,
        });
        self.tally = Tally::default();
        self.stubs = [0; PORTS];
        self.forgotten.clear();
        for frames in self.pairs.iter_mut().flatten() {
            let waits = frames.partition_point(|frame| frame.start.is_some());
            self.counts.lost += waits as u64;
            self.forgotten.extend(frames.drain(..waits));
        }
    }

    /// The core has its settings again.
    pub fn configured(&mut self, now: u64) {
        let until = now + SETTINGS_CYCLES * self.cycle;
        let open = self.cores.iter_mut().filter(|span| span.to.is_none());
        open.for_each(|span| span.to = Some(until));
    }

    /// Whether an output may be cut now, or silent.
    pub fn may_cut(&self, out: usize, now: u64) -> bool {
        // The output register.
        let last = 2 * self.cycle;
        let core = self.cores.iter();
        self.is_muted(out, now, MUTE_CYCLES * self.cycle)
            || core.rev().any(|span| now - span.from <= last)
    }

    fn is_muted(&self, out: usize, now: u64, more: u64) -> bool {
        let mut spans = self.faults[out].iter();
        spans.any(|span| span.to().saturating_add(more) >= now)
    }

    /// Whether links of this output have failed since the counters were read.
    pub fn had_faults(&self, out: usize) -> bool {
        !self.faults[out].is_empty()
    }

    /// Whether the core was reset since then.
    pub fn had_core_reset(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Core cycles after which nothing of what has happened goes on, if nothing is under way.
    pub fn rest_cycles(&self) -> u64 {
        let mute = MUTE_CYCLES + self.longest / self.cycle;
        let muted = self.faults.iter().any(|spans| !spans.is_empty());
        let stores = self.settings.iter().any(|setting| setting.stores);
        SETTLE_CYCLES + if stores { STORED_CYCLES } else { 0 } + if muted { mute } else { 0 }
    }

    /// Nothing is under way, and all has been compared: what has happened does not matter any more.
    pub fn forget(&mut self) {
        self.resets.iter_mut().for_each(Vec::clear);
        self.faults.iter_mut().for_each(Vec::clear);
        self.cores.clear();
        self.forgotten.clear();
        self.tally = Tally::default();
        self.stubs = [0; PORTS];
    }

    /// Whether no frame is under way.
    pub fn is_empty(&self) -> bool {
        self.pairs.iter().flatten().all(VecDeque::is_empty)
    }

    /// The output has sent nothing for so long that it has nothing.
    pub fn is_free(&mut self, out: usize, now: u64) {
        if !self.is_muted(out, now, MUTE_CYCLES * self.cycle + self.longest) {
            self.free[out] = now;
        }
    }

    /// Until when a frame has begun to leave, if its output is free.
    fn due(&self, frame: &Frame) -> Option<u64> {
        let stores = self.settings[frame.parts.from].stores;
        let from = if stores {
            frame.end? + STORED_CYCLES * self.cycle
        } else {
            frame.start?
        };
        Some(from + self.latency)
    }

    /// Begun while its port was shut.
    fn never(&self, frame: &Frame) -> bool {
        let Some(start) = frame.start else {
            return false;
        };
        let cut = CUT_CYCLES * self.cycle;
        let shut = |span: &Span| span.from + cut <= start && start <= span.to();
        frame.unseen || self.resets[frame.parts.from].iter().any(shut)
    }

    /// Why a fate can't be.
    fn objection(&self, frame: &Frame, fate: Fate, now: u64) -> Option<&'static str> {
        let resets = &self.resets[frame.parts.from];
        let start = frame.start.unwrap_or(u64::MAX);
        let end = frame.end.unwrap_or(u64::MAX);
        let stores = self.settings[frame.parts.from].stores;
        let (cut, guard) = (CUT_CYCLES * self.cycle, GUARD_CYCLES * self.cycle);
        match fate {
            _ if fate != Fate::Lost && start > now => Some("has not entered"),
            Fate::Good | Fate::Spoiled if self.never(frame) => Some("came while its port was shut"),
            Fate::Good if frame.hurt => Some("was not whole on the line"),
            Fate::Good if end > now => Some("has not ended"),
            Fate::Good => resets
                .iter()
                .any(|span| start <= span.to() && end >= span.from.saturating_add(cut))
                .then_some("was cut by a reset, and leaves as if it were whole"),
            Fate::Spoiled if stores => Some("leaves spoiled, and should have been stored"),
            Fate::Spoiled => {
                let cut =
                    |span: &Span| start <= span.from + cut && span.from < end.saturating_add(guard);
                let may = frame.hurt || resets.iter().any(cut);
                (!may).then_some("is spoiled for no reason")
            }
            Fate::Lost => {
                let excused = self.overload
                    || frame.hurt
                    || frame.doubt
                    || frame.unseen
                    || !self.is_clean(frame)
                    || self.cores.iter().any(|span| start < span.to())
                    || start < self.unset[frame.parts.from]
                    || self.faults[frame.parts.out]
                        .iter()
                        .any(|span| start <= span.to().saturating_add(MUTE_CYCLES * self.cycle));
                (!excused).then_some("is lost")
            }
        }
    }

    /// Whether no reset of its port is near.
    fn is_clean(&self, frame: &Frame) -> bool {
        let stores = self.settings[frame.parts.from].stores;
        let settle = SETTLE_CYCLES + if stores { STORED_CYCLES } else { 0 };
        let (Some(start), Some(end)) = (frame.start, frame.end) else {
            return false;
        };
        self.resets[frame.parts.from].iter().all(|span| {
            end + GUARD_CYCLES * self.cycle <= span.from
                || start >= span.to().saturating_add(settle * self.cycle)
        })
    }

    fn judge(&mut self, frame: &Frame, fate: Fate, now: u64) -> Result<(), String> {
        if let Some(objection) = self.objection(frame, fate, now) {
            return Err(format!(
                "{fate:?} at {now} fs: a frame {objection}: {}",
                self.tell(frame)
            ));
        }
        let (from, out) = (frame.parts.from, frame.parts.out);
        match fate {
            Fate::Good => {
                self.counts.good += 1;
                self.counts.clean += u64::from(self.is_clean(frame));
                self.tally.good[from][out] += 1;
            }
            Fate::Spoiled => {
                self.counts.spoiled += 1;
                self.tally.spoiled[from][out] += 1;
            }
            Fate::Lost => self.counts.lost += 1,
        }
        Ok(())
    }

    /// What has happened in this epoch.
    pub fn history(&self) -> String {
        format!(
            "resets of receive sides {:?}, faults of links {:?}, resets of the core {:?}",
            self.resets, self.faults, self.cores
        )
    }

    fn tell(&self, frame: &Frame) -> String {
        format!(
            "{frame:?}, {:?}; resets of its port {:?}, faults of its output {:?}, resets of the core {:?}; its output was \
             free at {}",
            self.settings[frame.parts.from],
            self.resets[frame.parts.from],
            self.faults[frame.parts.out],
            self.cores,
            self.free[frame.parts.out],
        )
    }

    /// Takes the frame with that number, and gives up the ones in front of it.
    fn take(&mut self, out: usize, number: u32, now: u64) -> Result<Frame, String> {
        let found = self.pairs[out]
            .iter()
            .enumerate()
            .find_map(|(from, frames)| {
                let at = frames
                    .iter()
                    .position(|frame| frame.parts.number == number)?;
                Some((from, at))
            });
        let Some((from, at)) = found else {
            let why = match self
                .forgotten
                .iter()
                .find(|frame| frame.parts.number == number)
            {
                Some(frame) => format!("from before a reset of the core: {}", self.tell(frame)),
                None => {
                    "that left before, or is behind a later one, or too late, or is not from here"
                        .into()
                }
            };
            return Err(format!("at {now} fs, by port {out}: frame {number}, {why}"));
        };
        for _ in 0..at {
            self.give_up(out, from, now)?;
        }
        let frame = self.pairs[out][from].pop_front();
        frame.ok_or_else(|| "a frame that was there is gone".into())
    }

    /// The oldest frame of a pair did not leave.
    fn give_up(&mut self, out: usize, from: usize, now: u64) -> Result<(), String> {
        match self.pairs[out][from].pop_front() {
            Some(frame) => self.judge(&frame, Fate::Lost, now),
            None => Ok(()),
        }
    }

    /// A frame has left; `start` is when its preamble did.
    pub fn left(
        &mut self,
        out: usize,
        got: &WireFrame,
        start: u64,
        now: u64,
    ) -> Result<(), String> {
        let bytes = &got.bytes;
        let number = frame::number_of(bytes).ok_or_else(|| {
            format!("at {now} fs, by port {out}: a frame like none: {bytes:02x?}")
        })?;
        let frame = self.take(out, number, now)?;
        let vlan = self.settings[out].vlan_out;
        let expected = frame::forwarded(&frame.parts, vlan);
        let same = common(bytes, &expected);
        let as_sent = if got.spoiled {
            same >= spoiled_least(bytes, &frame.parts, vlan)
        } else {
            *bytes == expected
        };
        if !as_sent {
            return Err(format!(
                "at {now} fs, by port {out}: a frame (spoiled: {}) is not what was sent: {}: {}",
                got.spoiled,
                around(same, bytes, &expected),
                self.tell(&frame)
            ));
        }
        if self
            .due(&frame)
            .is_some_and(|due| self.free[out] > due && start > due)
        {
            return Err(format!(
                "at {now} fs, by port {out}: a frame is late: {}",
                self.tell(&frame)
            ));
        }
        let fate = if got.spoiled {
            Fate::Spoiled
        } else {
            Fate::Good
        };
        self.judge(&frame, fate, now)
    }

    /// A frame was cut while it left.
    pub fn cut(&mut self, out: usize, bytes: &[u8], now: u64) -> Result<(), String> {
        self.counts.cut += 1;
        let Some(number) = frame::number_of(bytes) else {
            // It can't be told from the others that are under way.
            return Ok(());
        };
        let forgotten = self.forgotten.iter();
        let mut forgotten = forgotten.filter(|frame| frame.parts.number == number);
        let frame = match forgotten.next() {
            Some(frame) => *frame,
            None => self.take(out, number, now)?,
        };
        let vlan = self.settings[out].vlan_out;
        let expected = frame::forwarded(&frame.parts, vlan);
        // It may be the FCS that was cut, or the end of one that is spoiled.
        let same = common(bytes, &expected);
        if same < spoiled_least(bytes, &frame.parts, vlan) {
            return Err(format!(
                "at {now} fs, by port {out}: a frame that was cut is not what was sent: {}: {}",
                around(same, bytes, &expected),
                self.tell(&frame)
            ));
        }
        Ok(())
    }

    /// Gives up frames that should have left by now.
    pub fn sweep(&mut self, now: u64) -> Result<(), String> {
        for out in 0..PORTS {
            for from in 0..PORTS {
                while let Some(frame) = self.pairs[out][from].front() {
                    let Some(end) = frame.end else { break };
                    let due = self.due(frame).unwrap_or(end);
                    let over = self.free[out] > due.max(end) || now > end + self.all_stored;
                    if !over {
                        break;
                    }
                    self.give_up(out, from, now)?;
                }
            }
        }
        Ok(())
    }
}

/// How many bytes of a frame that is spoiled, or was cut, are those of the one that entered.
fn spoiled_least(bytes: &[u8], parts: &Parts, vlan: Option<u16>) -> usize {
    let header = frame::header_bytes(parts.v6, vlan);
    // A short one is filled up, whatever came of it.
    if bytes.len() <= MIN_BODY + FCS_BYTES {
        header
    } else {
        header.max(bytes.len() - SPOILED_TAIL)
    }
}

/// How many bytes are the same.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What is there, and what should be, from a little in front of that byte on.
fn around(at: usize, got: &[u8], expected: &[u8]) -> String {
    const BEFORE: usize = 8;
    const SHOWN: usize = 24;
    let from = at.saturating_sub(BEFORE);
    let part = |bytes: &[u8]| {
        let shown = bytes.iter().skip(from).take(SHOWN);
        shown.map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    format!(
        "{} of {} bytes, from byte {from} on {} instead of {} of {}",
        at,
        got.len(),
        part(got),
        part(expected),
        expected.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE: u64 = 6_400_000;
    const PARTS: Parts = Parts {
        number: 7,
        from: 0,
        out: 1,
        v6: false,
        size: 100,
    };

    /// A frame of ten cycles that enters at cycle 1,000, and what a test does before it leaves.
    struct Case {
        ledger: Ledger,
    }

    impl Case {
        fn new() -> Self {
            let mut case = Self {
                ledger: Ledger::new(NetSpeed::TenGig, CYCLE),
            };
            case.enter(PARTS, 1_000);
            case
        }

        fn enter(&mut self, parts: Parts, cycle: u64) {
            self.ledger.made(parts);
            self.ledger.started(&parts, cycle * CYCLE);
            self.ledger.ended(&parts, (cycle + 10) * CYCLE);
        }

        fn reset(&mut self, from: u64, to: u64) {
            self.ledger.reset(PARTS.from, from * CYCLE, true);
            self.ledger.reset(PARTS.from, to * CYCLE, false);
        }

        fn leave(&mut self, parts: Parts, spoiled: bool, cycle: u64) -> Result<(), String> {
            let frame = WireFrame {
                bytes: frame::forwarded(&parts, None),
                spoiled,
                start: 0,
            };
            self.ledger
                .left(parts.out, &frame, cycle * CYCLE, (cycle + 10) * CYCLE)
        }

        fn lose(&mut self) -> Result<(), String> {
            self.ledger.is_free(PARTS.out, 2_000 * CYCLE);
            self.ledger.sweep(2_000 * CYCLE)
        }
    }

    fn refused(result: Result<(), String>, why: &str) {
        let error = result.expect_err(why);
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn a_frame_that_no_reset_is_near_leaves_once_and_whole() {
        let mut case = Case::new();
        case.reset(1_018, 1_020);
        case.leave(PARTS, false, 1_012).expect("it may leave");
        assert_eq!((case.ledger.counts.good, case.ledger.counts.clean), (1, 1));
        refused(case.leave(PARTS, false, 1_030), "left before");
        refused(Case::new().lose(), "is lost");
        refused(Case::new().leave(PARTS, true, 1_012), "for no reason");
        let mut case = Case::new();
        case.reset(1_018, 1_020);
        refused(case.lose(), "is lost");
        let mut case = Case::new();
        case.reset(800, 900);
        refused(case.lose(), "is lost");
    }

    #[test]
    fn a_frame_that_a_reset_cuts_does_not_leave_whole() {
        let cut = || {
            let mut case = Case::new();
            case.reset(1_005, 1_005);
            case
        };
        refused(cut().leave(PARTS, false, 1_012), "was cut by a reset");
        cut().leave(PARTS, true, 1_012).expect("it is spoiled");
        cut().lose().expect("it is not there");
        let mut case = cut();
        case.ledger.settings[PARTS.from].stores = true;
        refused(case.leave(PARTS, true, 1_012), "should have been stored");
        let mut case = Case::new();
        case.reset(990, 1_001);
        refused(case.leave(PARTS, true, 1_012), "its port was shut");
        let mut case = Case::new();
        case.reset(990, 999);
        case.leave(PARTS, false, 1_012)
            .expect("the port may be open");
    }

    #[test]
    fn what_the_line_did_not_show_does_not_leave() {
        let mut case = Case::new();
        case.ledger.hurt(&PARTS, 1_005 * CYCLE);
        refused(case.leave(PARTS, false, 1_012), "was not whole");
        let mut case = Case::new();
        case.ledger.unseen(&PARTS);
        refused(case.leave(PARTS, true, 1_012), "its port was shut");
        let mut case = Case::new();
        refused(case.leave(PARTS, false, 900), "has not");
        let mut case = Case::new();
        case.ledger.fault(PARTS.out, 950 * CYCLE);
        case.lose().expect("the output is muted");
    }

    #[test]
    fn order_and_time_are_kept() {
        let next = Parts { number: 8, ..PARTS };
        let mut case = Case::new();
        case.enter(next, 1_012);
        refused(case.leave(next, false, 1_020), "is lost");
        let mut case = Case::new();
        case.reset(1_005, 1_005);
        case.enter(next, 1_200);
        case.leave(next, false, 1_210)
            .expect("the one in front was cut");
        refused(case.leave(PARTS, true, 1_230), "behind a later one");
        let mut case = Case::new();
        case.ledger.is_free(PARTS.out, 1_150 * CYCLE);
        refused(case.leave(PARTS, false, 1_160), "is late");
        let mut case = Case::new();
        let other = Parts { number: 9, ..PARTS };
        refused(case.leave(other, false, 1_012), "not from here");
    }

    #[test]
    fn a_reset_of_the_core_forgets_what_is_under_way() {
        let mut case = Case::new();
        case.ledger.core_reset(1_012 * CYCLE);
        refused(
            case.leave(PARTS, false, 1_030),
            "from before a reset of the core",
        );
        let bytes = frame::forwarded(&PARTS, None);
        let cut = &bytes[..60];
        case.ledger
            .cut(PARTS.out, cut, 1_012 * CYCLE)
            .expect("it was cut");
        let mut other = cut.to_vec();
        other[50] ^= 1;
        other.extend([0; 40]);
        let result = case.ledger.cut(PARTS.out, &other, 1_012 * CYCLE);
        refused(result, "not what was sent");
        let late = Parts { number: 8, ..PARTS };
        case.ledger.configured(1_400 * CYCLE);
        case.enter(late, 1_500);
        refused(case.lose(), "is lost");
    }

    #[test]
    fn bytes_are_those_of_the_frame() {
        let mut case = Case::new();
        let mut bytes = frame::forwarded(&PARTS, None);
        bytes[70] ^= 4;
        let frame = WireFrame {
            bytes,
            spoiled: false,
            start: 0,
        };
        let result = case
            .ledger
            .left(PARTS.out, &frame, 1_012 * CYCLE, 1_022 * CYCLE);
        refused(result, "not what was sent");
    }
}
