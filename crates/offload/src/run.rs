// SPDX-License-Identifier: Apache-2.0
//! One connection in bulk through the engine: the document's evaluation.

use std::collections::VecDeque;
use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::commit::Verdict;
use crate::engine::{self, Engine, Hardware, Output};
use crate::mix::{self, BYTE_PS, ETHERNET_HEADER, HEADERS, Mix};
use crate::policy::Policy;
use crate::receive::{Accepted, Receive, SACK_BLOCKS};
use crate::sender::{self, Sender};
use crate::{Error, Picoseconds};

/// Bytes of an acknowledgement on the line, without SACK blocks: the least frame.
const ACK_BYTES: u64 = 84;
/// More bytes for its SACK blocks at most.
const SACK_BYTES: u64 = 34;
/// Behind the end, for what has arrived and does not count yet.
const TAIL: Picoseconds = Picoseconds::from_us(2_000);
/// An acknowledgement waits for a second segment that long at most (RFC 9293: 500 ms).
const ACK_DELAY: Picoseconds = Picoseconds::from_us(50);
/// Of the duration, at the beginning, that is not measured: slow start.
const WARM_UP: u64 = 10;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Sizes and times of the engine.
    pub hardware: Hardware,
    /// When packets count.
    pub policy: Policy,
    /// Lengths of payloads.
    pub mix: Mix,
    /// Bytes that the engine lets the sender have on the way.
    pub window: u64,
    /// Gaps that reassembly has room for.
    pub gaps: usize,
    /// Both ways, without the engine and without time on the line.
    pub rtt_us: u64,
    /// The sender's least time-out.
    pub recovery_us: u64,
    /// Probability that a segment arrives with a wrong checksum, past the FCS.
    pub corruption: f64,
    /// Probability that a segment does not arrive.
    pub loss: f64,
    /// Virtual time in all; the first tenth is not measured.
    pub duration_us: u64,
    /// Draws lengths, corruption and loss.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            hardware: Hardware::OURS,
            policy: Policy::DEFAULT,
            mix: Mix::TABLE_3,
            window: 128 * 1024,
            gaps: 4,
            rtt_us: 20,
            recovery_us: 1_000,
            corruption: 0.0,
            loss: 0.0,
            duration_us: 100_000,
            seed: 1,
        }
    }
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lag {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half are not greater.
    pub median: f64,
    /// 99 of 100 are not greater.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Lag {
    fn of(mut times: Vec<Picoseconds>) -> Self {
        if times.is_empty() {
            return Self::default();
        }
        times.sort_unstable();
        let rank = |hundredths: usize| {
            let index = (times.len() * hundredths).div_ceil(100).max(1) - 1;
            times[index].as_us()
        };
        let sum: f64 = times.iter().map(|time| time.as_us()).sum();
        Self {
            mean: sum / times.len() as f64,
            median: rank(50),
            p99: rank(99),
            max: rank(100),
        }
    }
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// What was run.
    pub scenario: Scenario,
    /// Payload that arrived behind the warm-up and counted, Gb/s.
    pub goodput_gbps: f64,
    /// What the line could carry of these very segments, Gb/s.
    pub ceiling_gbps: f64,
    /// The one beside the other.
    pub ceiling_percent: f64,
    /// Acknowledgements in a millisecond.
    pub acks_per_ms: f64,
    /// From a segment's last byte in until it counts, microseconds.
    pub commit_lag_us: Lag,
    /// Segments that arrived behind the warm-up and counted.
    pub segments: u64,
    /// Segments with a wrong checksum.
    pub bad: u64,
    /// Segments that were given up with a bad one.
    pub discarded: u64,
    /// The most packets whose results were awaited at once.
    pub greatest_held: usize,
    /// Of the sender, in all.
    pub sender: sender::Counts,
    /// Of the engine, in all.
    pub engine: engine::Counts,
}

/// A segment on its way.
#[derive(Clone, Debug)]
struct Packet {
    truth: Range<u64>,
    /// What its header says: another place, if the header is what is damaged.
    claim: Range<u64>,
    good: bool,
}

impl engine::Packet for Packet {
    fn bytes(&self) -> u64 {
        ETHERNET_HEADER + HEADERS + (self.truth.end - self.truth.start)
    }
    fn is_good(&self) -> bool {
        self.good
    }
    fn is_fence(&self) -> bool {
        false
    }
    fn claim(&self) -> Range<u64> {
        self.claim.clone()
    }
    fn truth(&self) -> Range<u64> {
        self.truth.clone()
    }
}

/// An acknowledgement on its way.
#[derive(Debug)]
struct Ack {
    next: u64,
    sack: Vec<Range<u64>>,
    edge: u64,
}

/// When the receiver acknowledges.
#[derive(Debug, Default)]
struct Acknowledging {
    segments: u32,
    now: bool,
    timer: Option<Picoseconds>,
}

struct Run {
    scenario: Scenario,
    rng: ChaCha8Rng,
    lengths: ChaCha8Rng,
    now: Picoseconds,
    from: Picoseconds,
    end: Picoseconds,
    sender: Sender,
    length: u32,
    line_free: Picoseconds,
    /// Nothing may be sent until an acknowledgement or the timer.
    quiet: bool,
    segments: VecDeque<(Picoseconds, Packet)>,
    engine: Engine<Packet>,
    committed: Receive,
    provisional: Receive,
    /// What has passed its checksum, by an account that no policy touches.
    verified: Receive,
    acknowledging: Acknowledging,
    acks: VecDeque<(Picoseconds, Ack)>,
    back_free: Picoseconds,
    lags: Vec<Picoseconds>,
    counted: (u64, u64),
    acked: u64,
    bad: u64,
    discarded: u64,
    /// The packets that leave the book are given up: the committed state stays.
    gave_up: bool,
}

impl Scenario {
    /// What is wrong with it, in a sentence that begins with the name of what is.
    fn check(&self) -> Result<(), Error> {
        let hardware = &self.hardware;
        let longest = u64::from(self.mix.most());
        let ms = |us: u64| us as f64 / 1e3;
        let probability = "it is a probability; write 0 to less than 1";
        let rules = [
            (
                (1..=8).contains(&hardware.analyzers),
                "analyzers",
                format!(
                    "{} are too few or too many; write 1 to 8",
                    hardware.analyzers
                ),
            ),
            (
                (0.01..=64.0).contains(&hardware.bytes_per_cycle),
                "bytes-per-cycle",
                format!(
                    "{} is out of range; write 0.01 to 64",
                    hardware.bytes_per_cycle
                ),
            ),
            (
                (longest..=1 << 30).contains(&self.window),
                "window",
                format!(
                    "{} bytes can't be; it holds the longest segment, {longest} bytes, and TCP has at most 1 GiB; write between",
                    self.window
                ),
            ),
            (
                (1..=64).contains(&self.gaps),
                "gaps",
                format!("{} is out of range; write 1 to 64", self.gaps),
            ),
            (
                (0.0..1.0).contains(&self.corruption),
                "corruption",
                probability.to_owned(),
            ),
            (
                (0.0..1.0).contains(&self.loss),
                "loss",
                probability.to_owned(),
            ),
            (
                (100..=60_000_000).contains(&self.duration_us),
                "duration",
                format!(
                    "{} ms is out of range; write 0.1 to 60000",
                    ms(self.duration_us)
                ),
            ),
            (
                (1..=60_000_000).contains(&self.recovery_us),
                "recovery",
                format!(
                    "{} ms is out of range; write 0.001 to 60000",
                    ms(self.recovery_us)
                ),
            ),
            (
                self.rtt_us <= 10_000_000,
                "rtt",
                format!("{} us is too long; write at most 10000000", self.rtt_us),
            ),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, what, sentence)) => Err(Error::Config(format!("{what}: {sentence}"))),
            None => Ok(()),
        }
    }

    /// Runs it.
    ///
    /// # Panics
    ///
    /// If the engine acknowledges a byte whose checksum has not passed: no policy may.
    pub fn run(&self) -> Result<Outcome, Error> {
        self.check()?;
        let mut run = Run::new(*self);
        while run.step() {}
        Ok(run.outcome())
    }
}

impl Run {
    fn new(scenario: Scenario) -> Self {
        let islands = match scenario.policy.reassembles() {
            true => scenario.gaps,
            false => 0,
        };
        let receive = Receive::new(scenario.window, islands);
        let duration = Picoseconds::from_us(scenario.duration_us);
        let mut lengths = ChaCha8Rng::seed_from_u64(scenario.seed);
        lengths.set_stream(1);
        let length = scenario.mix.draw(&mut lengths);
        let mut sender = Sender::new(
            scenario.mix.most(),
            Picoseconds::from_us(scenario.recovery_us),
            scenario.window,
        );
        // Of the SYN.
        sender.measure(Picoseconds::from_us(scenario.rtt_us));
        Self {
            rng: ChaCha8Rng::seed_from_u64(scenario.seed),
            lengths,
            now: Picoseconds::ZERO,
            from: Picoseconds(duration.0 / WARM_UP),
            end: duration,
            sender,
            length,
            line_free: Picoseconds::ZERO,
            quiet: false,
            segments: VecDeque::new(),
            engine: Engine::new(scenario.hardware, scenario.policy),
            committed: receive.clone(),
            provisional: receive,
            verified: Receive::new(u64::MAX / 2, usize::MAX),
            acknowledging: Acknowledging::default(),
            acks: VecDeque::new(),
            back_free: Picoseconds::ZERO,
            lags: Vec::new(),
            counted: (0, 0),
            acked: 0,
            bad: 0,
            discarded: 0,
            gave_up: false,
            scenario,
        }
    }

    /// Does what comes next; false at the end.
    fn step(&mut self) -> bool {
        let never = Picoseconds::NEVER;
        let send = if self.quiet { never } else { self.line_free };
        let arrival = self.segments.front().map_or(never, |(time, _)| *time);
        let ack = self.acks.front().map_or(never, |(time, _)| *time);
        let times = [
            ack,
            self.sender.timer(),
            send,
            arrival,
            self.engine.next(),
            self.acknowledging.timer.unwrap_or(never),
        ];
        let least = times.into_iter().min().unwrap_or(never);
        if least >= self.end + TAIL {
            return false;
        }
        // What the engine tells of the next cycles may be dated a little ahead.
        self.now = self.now.max(least);
        match times.iter().position(|time| *time == least) {
            Some(0) => {
                if let Some((_, ack)) = self.acks.pop_front() {
                    self.sender.ack(self.now, ack.next, &ack.sack, ack.edge);
                    self.quiet = false;
                }
            }
            Some(1) => {
                self.sender.time_out(self.now);
                self.quiet = false;
            }
            Some(2) => self.send(),
            Some(3) => {
                if let Some((_, packet)) = self.segments.pop_front() {
                    self.engine.arrive(self.now, packet);
                }
            }
            Some(4) => self.engine_step(),
            _ => {
                self.acknowledging.now = true;
                self.acknowledge(self.now);
            }
        }
        true
    }

    fn send(&mut self) {
        let now = self.now.max(self.line_free);
        let Some(segment) = self.sender.send(now, Some(self.length)) else {
            self.quiet = true;
            return;
        };
        if segment.first {
            self.length = self.scenario.mix.draw(&mut self.lengths);
        }
        self.line_free = now + mix::line_time(u64::from(segment.len));
        let one_way = Picoseconds::from_us(self.scenario.rtt_us).0 / 2;
        // Both are drawn for each, so that the same segments meet the same fate under every policy.
        let lost = self.rng.random_bool(self.scenario.loss);
        let bad = self.rng.random_bool(self.scenario.corruption);
        let bytes = self.rng.random_range(0..HEADERS + u64::from(segment.len));
        let shift = self.rng.random_range(1..=u64::from(u16::MAX));
        if lost {
            return;
        }
        let truth = segment.from..segment.from + u64::from(segment.len);
        let claim = match bad && bytes < HEADERS {
            true => truth.start + shift..truth.end + shift,
            false => truth.clone(),
        };
        let packet = Packet {
            truth,
            claim,
            good: !bad,
        };
        let arrival = Picoseconds(self.line_free.0 + one_way);
        self.segments.push_back((arrival, packet));
    }

    fn engine_step(&mut self) {
        let mut out = Vec::new();
        self.engine.step(&mut out);
        for (time, output) in out {
            match output {
                Output::Passed(bytes) => {
                    self.verified.accept(bytes);
                }
                Output::Header(claim) => {
                    self.provisional.accept(claim);
                }
                Output::Released { released, arrived } => {
                    self.release(time, &released.packet, released.verdict, arrived);
                }
                Output::Committed => self.committed(time),
            }
        }
        self.hold(self.now);
    }

    fn release(&mut self, time: Picoseconds, packet: &Packet, verdict: Verdict, at: Picoseconds) {
        match verdict {
            Verdict::Bad => {
                self.bad += 1;
                return;
            }
            Verdict::Discarded => {
                self.discarded += 1;
                self.gave_up = true;
                self.acknowledging.now = true;
                return;
            }
            Verdict::Good => {}
        }
        let before = self.committed.next();
        let accepted = self.committed.accept(packet.claim.clone());
        let bytes = self.committed.next() - before;
        // The document checks data and throws them away: the window stays as it is.
        self.committed.consumed(bytes);
        match accepted {
            Accepted::Next => self.acknowledging.segments += 1,
            _ => self.acknowledging.now = true,
        }
        let new = matches!(accepted, Accepted::Next | Accepted::Filled | Accepted::Kept);
        // By arrival: what the line carries between two moments can't be more than it can.
        if new && (self.from..self.end).contains(&at) {
            self.lags.push(time.since(at));
            self.counted.0 += 1;
            self.counted.1 += packet.claim.end - packet.claim.start;
        }
    }

    /// Packets have counted together.
    fn committed(&mut self, time: Picoseconds) {
        // The document's controller has but the provisional state: it must be what the packets one by one give.
        if matches!(self.scenario.policy, Policy::Counter { .. }) {
            self.provisional.set_window(self.committed.window());
            if std::mem::take(&mut self.gave_up) {
                self.provisional = self.committed.clone();
            }
            assert!(
                self.provisional == self.committed,
                "at zero, and no result bad, the provisional state is the committed one"
            );
        }
        self.acknowledge(time);
    }

    fn acknowledge(&mut self, time: Picoseconds) {
        let acknowledging = &mut self.acknowledging;
        if !acknowledging.now && acknowledging.segments < 2 {
            if acknowledging.segments > 0 && acknowledging.timer.is_none() {
                acknowledging.timer = Some(time + ACK_DELAY);
            }
            return;
        }
        *acknowledging = Acknowledging::default();
        let ack = Ack {
            next: self.committed.next(),
            sack: self.committed.sack(SACK_BLOCKS),
            edge: self.committed.edge(),
        };
        self.hold(time);
        let bytes = match ack.sack.is_empty() {
            true => ACK_BYTES,
            false => ACK_BYTES + SACK_BYTES,
        };
        self.back_free = self.back_free.max(time) + Picoseconds(bytes * BYTE_PS);
        let one_way = Picoseconds::from_us(self.scenario.rtt_us).0 / 2;
        let arrival = Picoseconds(self.back_free.0 + one_way);
        self.acks.push_back((arrival, ack));
        if (self.from..self.end).contains(&time) {
            self.acked += 1;
        }
    }

    /// What every policy must hold, at every step: nothing counts whose checksum has not passed. Acknowledgements name the
    /// committed state and nothing else.
    fn hold(&self, time: Picoseconds) {
        let (committed, verified) = (self.committed.next(), self.verified.next());
        assert!(
            committed <= verified,
            "{}: at {} us all bytes before {committed} count, and the checksum of byte {verified} has not passed",
            self.scenario.policy,
            time.as_us(),
        );
    }

    fn outcome(self) -> Outcome {
        let measured = self.end.since(self.from);
        let (segments, bytes) = self.counted;
        let goodput_gbps = bytes as f64 * 8.0 / (measured.as_s() * 1e9);
        let ceiling_gbps = mix::ceiling_gbps(segments, bytes);
        Outcome {
            scenario: self.scenario,
            goodput_gbps,
            ceiling_gbps,
            ceiling_percent: 100.0 * goodput_gbps / ceiling_gbps.max(1e-9),
            acks_per_ms: self.acked as f64 / (measured.as_us() / 1e3),
            commit_lag_us: Lag::of(self.lags),
            segments,
            bad: self.bad,
            discarded: self.discarded,
            greatest_held: self.engine.greatest_held(),
            sender: self.sender.counts(),
            engine: self.engine.counts(),
        }
    }
}
