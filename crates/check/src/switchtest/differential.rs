// SPDX-License-Identifier: Apache-2.0
//! Random frames on all ports at once, against the reference model: every frame that comes out, and
//! all counters.
//!
//! The model has no time. Frames of one input to one output keep their order, so what comes out is
//! looked for in the queues of what must; what was passed over must have been dropped for want of
//! room, or been refused by the policer before the host port, and the counters must say so; when a policer
//! refuses is a matter of time, and how many it lets pass in an epoch is bounded. Settings, routes and rules change when the switch is idle.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

use crate::difftest::phy::{Encoder, Fault, LineFrame};
use ipnuma_rtl::{HostBeat, NetSpeed, Switch, SwitchSize, SwitchWrite};
use model::switch::{Received, SwitchModel, Target, Verdict};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::switchtest::frames::{self, Load};
use crate::switchtest::line::Decoder;
use crate::switchtest::world::{RULES, World};

const PORTS: usize = Switch::PORTS;
/// The queue of the host's frames, behind those of the ports.
const HOST: usize = PORTS;
/// Frames between two changes of the configuration.
const EPOCH: u64 = 8_000;
/// Cycles without anything coming out after which a busy switch is stuck.
const STUCK_CYCLES: u32 = 40_000;
/// Cycles until counters show all that happened.
const COUNTER_CYCLES: u32 = 160;
/// Bytes on a line below which it gets another frame.
const BACKLOG: usize = 64;
/// Frames kept for the report of a mismatch.
const HISTORY: usize = 8;
/// Frames after which every verdict must have been seen.
pub const REACHES_ALL: u64 = 50_000;

/// Indexes of a port's counters behind those of the verdicts.
const FULL: usize = 18;
const SPOILED: usize = 19;
const TX_SPOILED: usize = 21;
const TX_GOOD: usize = 22;
const RX_BAD_PREAMBLE: usize = 23;
const RX_ERROR: usize = 24;
const CHECK_BEGINS: usize = 29;
const REFUSED: usize = 30;
const COUNTERS: usize = 31;

/// A frame that is to come out.
#[derive(Clone, Debug)]
struct Expected {
    bytes: Vec<u8>,
    spoiled: bool,
    verdict: Verdict,
    /// It may have been dropped as a runt instead.
    maybe: bool,
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Frames that were played, those of the host included.
    pub frames: u64,
    /// Frames that came out and were compared.
    pub outputs: u64,
    /// Frames that found no room, and those that a policer refused.
    pub full: u64,
    /// Frames that a policer refused.
    pub refused: u64,
    /// Counters compared.
    pub counters: u64,
    /// Clock cycles.
    pub cycles: u64,
    /// Frames by verdict.
    pub verdicts: [u64; Verdict::ALL.len()],
}

impl Totals {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.outputs += other.outputs;
        self.full += other.full;
        self.refused += other.refused;
        self.counters += other.counters;
        self.cycles += other.cycles;
        for (sum, count) in self.verdicts.iter_mut().zip(other.verdicts) {
            *sum += count;
        }
    }

    /// Verdicts that no frame had.
    pub fn never(&self) -> Vec<Verdict> {
        let unseen = |verdict: &Verdict| self.verdicts[usize::from(verdict.number())] == 0;
        Verdict::ALL.into_iter().filter(unseen).collect()
    }
}

/// What the counters of a port must say.
#[derive(Clone, Debug, Default)]
struct Wanted {
    counts: [u32; COUNTERS],
    /// Frames that may have been counted as runts instead.
    maybe: [u32; Verdict::ALL.len()],
    /// Frames that did not come out, of those that may have been runts.
    maybe_full: u32,
    /// Frames that did not come out at the host: no room, or refused.
    host_lost: u32,
    /// Frames of this epoch that came out there.
    host_passed: u64,
    /// Hits of rules, and hits that may not have been counted.
    hits: Vec<[u32; 2]>,
}

/// The switch with its model.
pub struct Bench {
    rtl: Switch,
    world: World,
    speed: NetSpeed,
    rng: ChaCha8Rng,
    encoders: Vec<Encoder>,
    decoders: Vec<Decoder>,
    loads: [Load; PORTS],
    /// By output, then by input.
    expected: [[VecDeque<Expected>; PORTS + 1]; PORTS],
    /// By input.
    expected_host: [VecDeque<Expected>; PORTS],
    to_send: VecDeque<HostBeat>,
    from_host: Vec<u8>,
    host_pauses: f64,
    wanted: [Wanted; PORTS],
    history: VecDeque<String>,
    /// Nothing may come out until something goes in.
    quiet: bool,
    silent: u32,
    /// The cycle in which the epoch's configuration was complete.
    epoch_began: u64,
    /// The output, by its number, of which a bit is turned over.
    spoil: Option<u64>,
    totals: Totals,
}

impl Bench {
    /// A switch after reset.
    pub fn new(speed: NetSpeed, seed: u64, waves: Option<&Path>) -> Result<Self, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut rtl = Switch::new(speed, SwitchSize::Small).map_err(|error| error.to_string())?;
        rtl.reset().map_err(|error| error.to_string())?;
        if let Some(path) = waves {
            rtl.trace(path).map_err(|error| error.to_string())?;
        }
        let wanted = Wanted {
            hits: vec![[0; 2]; RULES],
            ..Wanted::default()
        };
        Ok(Self {
            rtl,
            world: World::new(speed)?,
            speed,
            encoders: (0..PORTS).map(|_| Encoder::new(speed)).collect(),
            decoders: (0..PORTS).map(|_| Decoder::new(speed)).collect(),
            loads: std::array::from_fn(|_| Load::random(&mut rng)),
            rng,
            expected: Default::default(),
            expected_host: Default::default(),
            to_send: VecDeque::new(),
            from_host: Vec::new(),
            host_pauses: 0.0,
            wanted: std::array::from_fn(|_| wanted.clone()),
            history: VecDeque::new(),
            quiet: false,
            silent: 0,
            epoch_began: 0,
            spoil: None,
            totals: Totals::default(),
        })
    }

    /// Counts so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Turns over a bit of an output that came from the switch, to test the test.
    pub fn spoil_output(&mut self, number: u64) {
        self.spoil = Some(number);
    }

    /// Plays frames and compares.
    pub fn run(&mut self, frames: u64) -> Result<(), String> {
        let result = self.play(frames);
        self.rtl.trace_close();
        result.map_err(|error| {
            let mut text = format!("cycle {}: {error}\nthe last frames:\n", self.totals.cycles);
            for line in &self.history {
                let _ = writeln!(text, "  {line}");
            }
            text
        })
    }

    fn play(&mut self, frames: u64) -> Result<(), String> {
        while self.totals.frames < frames {
            let end = frames.min(self.totals.frames + EPOCH);
            self.configure()?;
            while self.totals.frames < end {
                self.feed();
                self.cycle()?;
            }
            self.settle()?;
            self.compare_counters()?;
        }
        Ok(())
    }

    /// Changes the configuration; the switch is idle.
    fn configure(&mut self) -> Result<(), String> {
        // Buckets are filled with these words.
        self.epoch_began = self.totals.cycles;
        for write in self.world.change(&mut self.rng)? {
            self.write(write)?;
        }
        self.loads = std::array::from_fn(|_| Load::random(&mut self.rng));
        self.host_pauses = if self.rng.random() {
            0.0
        } else {
            self.rng.random_range(0.0..0.6)
        };
        // Settings count at once, but those of a port's receive clock cross first.
        for _ in 0..16 {
            self.cycle()?;
        }
        Ok(())
    }

    fn write(&mut self, write: SwitchWrite) -> Result<(), String> {
        self.rtl.inputs.write = Some(write);
        for _ in 0..1000 {
            if self.cycle()? {
                self.rtl.inputs.write = None;
                return Ok(());
            }
        }
        Err(format!("{write:?} is never taken"))
    }

    /// Gives frames to lines, and to the host, that have too little.
    fn feed(&mut self) {
        for port in 0..PORTS {
            while self.encoders[port].backlog() < BACKLOG {
                let frame = frames::random(
                    &self.world,
                    port as u8,
                    self.speed,
                    self.loads[port],
                    &mut self.rng,
                );
                self.expect(port, &frame);
                self.encoders[port].push(&frame);
                self.totals.frames += 1;
            }
        }
        if self.to_send.is_empty() && self.rng.random_bool(0.002) {
            let bytes = frames::of_host(&mut self.rng);
            // Now and then to a port that does not exist.
            let port = self.rng.random_range(0..=PORTS) as u8;
            self.to_send.extend(beats(&bytes, port));
            self.totals.frames += 1;
            if usize::from(port) < PORTS {
                let bytes = self.world.model.from_host(port, &bytes);
                self.expected[usize::from(port)][HOST].push_back(Expected {
                    bytes,
                    spoiled: false,
                    verdict: Verdict::Forward,
                    maybe: false,
                });
            }
        }
    }

    /// Asks the model what becomes of a frame.
    fn expect(&mut self, port: usize, frame: &LineFrame) {
        let wanted = &mut self.wanted[port];
        let (bytes, error) = match (frame.fault, self.speed) {
            (Fault::BadPreamble(_), _) => {
                wanted.counts[RX_BAD_PREAMBLE] += 1;
                return;
            }
            (Fault::ErrorAt(_), NetSpeed::OneGig) => (&frame.bytes[..], true),
            (Fault::ErrorAt(at) | Fault::CutAt(at) | Fault::CutByNext(at), _) => {
                (&frame.bytes[..at], true)
            }
            (Fault::None, _) => (&frame.bytes[..], false),
        };
        let plain = plain_rule(&self.world.model, port as u8, bytes, error);
        let Some(outcome) = self.world.model.forward(port as u8, bytes, error) else {
            wanted.counts[RX_ERROR] += 1;
            return;
        };
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(format!(
            "port {port}: {:?} {:?} {:02x?}",
            outcome.verdict,
            frame.fault,
            &bytes[..bytes.len().min(80)]
        ));
        let verdict = usize::from(outcome.verdict.number());
        self.totals.verdicts[verdict] += 1;
        let received = match outcome.received {
            Received::Error => RX_ERROR,
            Received::Giant => RX_ERROR + 1,
            Received::Runt => RX_ERROR + 2,
            Received::BadFcs => RX_ERROR + 3,
            Received::Good => RX_ERROR + 4,
        };
        wanted.counts[received] += 1;
        wanted.counts[CHECK_BEGINS] += u32::from(outcome.check_begins);
        if outcome.may_be_runt {
            wanted.maybe[verdict] += 1;
        } else {
            wanted.counts[verdict] += 1;
        }
        match plain {
            Hit::No => {}
            Hit::Yes(rule) => wanted.hits[rule][0] += 1,
            Hit::Maybe(rule) => wanted.hits[rule][1] += 1,
        }
        let entry = Expected {
            bytes: outcome.bytes,
            spoiled: outcome.spoiled,
            verdict: outcome.verdict,
            maybe: outcome.may_be_runt,
        };
        match outcome.egress {
            Some(Target::Port(out)) => self.expected[usize::from(out)][port].push_back(entry),
            Some(Target::Host) => self.expected_host[port].push_back(entry),
            _ => {}
        }
    }

    /// One clock cycle; whether a word of the write port was taken.
    fn cycle(&mut self) -> Result<bool, String> {
        let rtl = &mut self.rtl;
        let mut input = false;
        for (word, encoder) in rtl.inputs.net.iter_mut().zip(&mut self.encoders) {
            *word = encoder.word();
            input |= *word != self.speed.idle();
        }
        // An offer stays until it is taken.
        if rtl.inputs.host.is_none() && !self.to_send.is_empty() && self.rng.random_bool(0.8) {
            rtl.inputs.host = self.to_send.front().copied();
        }
        input |= rtl.inputs.host.is_some() || rtl.inputs.write.is_some();
        rtl.inputs.host_ready = self.host_pauses == 0.0 || !self.rng.random_bool(self.host_pauses);
        self.totals.cycles += 1;
        rtl.set_time(self.totals.cycles * self.speed.net_period_ps());
        let before = *rtl.settle().map_err(|error| error.to_string())?;
        if before.host_in_ready && rtl.inputs.host.is_some() {
            rtl.inputs.host = None;
            self.to_send.pop_front();
        }
        let taken = rtl.inputs.write.is_some() && before.write_ready;
        let host = before.host.filter(|_| rtl.inputs.host_ready);
        let after = *rtl.edge().map_err(|error| error.to_string())?;

        let mut output = host.is_some();
        if let Some(beat) = host {
            let bytes = beat.keep.count_ones() as usize;
            self.from_host.extend(&beat.data.to_le_bytes()[..bytes]);
            if beat.last {
                let bytes = std::mem::take(&mut self.from_host);
                self.take_host(beat.port, beat.verdict, beat.bad, &bytes)?;
            }
        }
        for port in 0..PORTS {
            output |= after.net[port] != self.speed.idle();
            let frame = self.decoders[port].word(after.net[port]);
            let frame = frame.map_err(|error| format!("port {port}: {error}"))?;
            if let Some(mut frame) = frame {
                if self
                    .spoil
                    .is_some_and(|number| number <= self.totals.outputs)
                {
                    self.spoil = None;
                    let at = self.rng.random_range(0..frame.bytes.len());
                    frame.bytes[at] ^= 1 << self.rng.random_range(0..8);
                }
                self.take(port, &frame.bytes, frame.spoiled)?;
            }
        }
        if output && self.quiet && !input {
            return Err("something came out of a switch that was not busy".into());
        }
        self.quiet = !after.busy && !input;
        self.silent = if output || input || !after.busy {
            0
        } else {
            self.silent + 1
        };
        if self.silent > STUCK_CYCLES {
            return Err("the switch is busy, and nothing comes out".into());
        }
        Ok(taken)
    }

    /// Compares a frame that left a port.
    fn take(&mut self, out: usize, bytes: &[u8], spoiled: bool) -> Result<(), String> {
        let same = |entry: &Expected| entry.spoiled == spoiled && entry.bytes == bytes;
        let queues = &mut self.expected[out];
        let found = queues.iter().enumerate().filter_map(|(from, queue)| {
            let at = queue.iter().position(same)?;
            Some((from, at))
        });
        // The host's frames are never dropped.
        let found = found
            .filter(|&(from, at)| from != HOST || at == 0)
            .min_by_key(|&(_, at)| at);
        let Some((from, at)) = found else {
            let mut text = format!("port {out} sent a frame, spoiled {spoiled}: {bytes:02x?}\n");
            for (from, queue) in queues.iter().enumerate() {
                for entry in queue.iter().take(3) {
                    let _ = writeln!(
                        text,
                        "from {from} ({} wait): spoiled {}, {:?} {:02x?}",
                        queue.len(),
                        entry.spoiled,
                        entry.verdict,
                        entry.bytes
                    );
                }
            }
            return Err(text);
        };
        for _ in 0..at {
            let entry = queues[from].pop_front();
            if let Some(entry) = entry {
                drop_full(&mut self.wanted[from], &mut self.totals, &entry);
            }
        }
        queues[from].pop_front();
        if from != HOST {
            self.wanted[from].counts[SPOILED] += u32::from(spoiled);
        }
        self.wanted[out].counts[if spoiled { TX_SPOILED } else { TX_GOOD }] += 1;
        self.totals.outputs += 1;
        Ok(())
    }

    /// Compares a frame for the host.
    fn take_host(&mut self, port: u8, verdict: u8, bad: bool, bytes: &[u8]) -> Result<(), String> {
        let from = usize::from(port);
        let Some(queue) = self.expected_host.get_mut(from) else {
            return Err(format!("a frame for the host came in by port {port}"));
        };
        let found = queue.iter().position(|entry| {
            entry.spoiled == bad && entry.verdict.number() == verdict && entry.bytes == bytes
        });
        let Some(at) = found else {
            let mut text = format!(
                "the host got a frame from port {port}, verdict {:?}, bad {bad}: {bytes:02x?}\n",
                Verdict::from_number(verdict)
            );
            for entry in queue.iter().take(3) {
                let _ = writeln!(
                    text,
                    "waiting: bad {}, {:?} {:02x?}",
                    entry.spoiled, entry.verdict, entry.bytes
                );
            }
            return Err(text);
        };
        for _ in queue.drain(..at) {
            self.wanted[from].host_lost += 1;
            self.totals.full += 1;
        }
        queue.pop_front();
        self.wanted[from].host_passed += 1;
        self.wanted[from].counts[SPOILED] += u32::from(bad);
        self.totals.outputs += 1;
        Ok(())
    }

    /// Waits until nothing is under way; what has not come out by then was dropped.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let idle = self.encoders.iter().all(|encoder| encoder.backlog() == 0);
            self.cycle()?;
            let host = self.to_send.is_empty() && self.rtl.inputs.host.is_none();
            if idle && host && !self.rtl.outputs().busy {
                break;
            }
        }
        for _ in 0..COUNTER_CYCLES {
            self.cycle()?;
        }
        if !self.from_host.is_empty() || self.decoders.iter().any(Decoder::in_frame) {
            return Err("a frame has not ended".into());
        }
        for queues in &mut self.expected {
            if let Some(entry) = queues[HOST].front() {
                return Err(format!("a frame of the host is lost: {:02x?}", entry.bytes));
            }
            for (from, queue) in queues.iter_mut().enumerate() {
                for entry in queue.drain(..) {
                    drop_full(&mut self.wanted[from], &mut self.totals, &entry);
                }
            }
        }
        for (from, queue) in self.expected_host.iter_mut().enumerate() {
            self.wanted[from].host_lost += queue.len() as u32;
            self.totals.full += queue.len() as u64;
            queue.clear();
        }
        Ok(())
    }

    /// Reads counters, one a cycle.
    fn read(&mut self, indexes: &[u16]) -> Result<Vec<u32>, String> {
        let mut values = Vec::with_capacity(indexes.len());
        for at in 0..=indexes.len() {
            self.rtl.inputs.counter = indexes.get(at).copied().unwrap_or(0);
            self.cycle()?;
            if at > 0 {
                values.push(self.rtl.outputs().counter);
            }
        }
        Ok(values)
    }

    fn compare_counters(&mut self) -> Result<(), String> {
        for port in 0..PORTS {
            let base = (port as u16) << 7;
            let indexes: Vec<u16> = (0..COUNTERS as u16).map(|index| base | index).collect();
            let got = self.read(&indexes)?;
            self.compare_port(port, &got)?;
            let rules: Vec<u16> = (0..RULES as u16)
                .map(|rule| 1 << 11 | base | rule)
                .collect();
            let hits = self.read(&rules)?;
            for (rule, (&got, &[sure, maybe])) in
                hits.iter().zip(&self.wanted[port].hits).enumerate()
            {
                if got < sure || got > sure + maybe {
                    return Err(format!(
                        "port {port}: rule {rule} hit {got} times instead of {sure} to {}",
                        sure + maybe
                    ));
                }
            }
            self.totals.counters += (COUNTERS + RULES) as u64;
        }
        // What was in doubt is known now.
        let rules = |port: usize| (port as u16) << 7 | 1 << 11;
        for port in 0..PORTS {
            let indexes: Vec<u16> = (0..RULES as u16).map(|rule| rules(port) | rule).collect();
            let hits = self.read(&indexes)?;
            for (wanted, got) in self.wanted[port].hits.iter_mut().zip(hits) {
                *wanted = [got, 0];
            }
        }
        Ok(())
    }

    /// What the policer of a port let pass since the configuration changed, and what it refused.
    fn compare_refused(&mut self, port: usize, got: u32) -> Result<(), String> {
        let wanted = &mut self.wanted[port];
        let refused = got.wrapping_sub(wanted.counts[REFUSED]);
        let police = self.world.model.port(port as u8).police;
        let clock_hz = 1_000_000_000_000 / self.speed.net_period_ps();
        let passed = std::mem::take(&mut wanted.host_passed);
        let cycles = self.totals.cycles - self.epoch_began;
        let most = police.most(cycles, clock_hz);
        let right = match most {
            None => refused == 0,
            Some(most) => passed <= most && (refused == 0 || passed >= police.least()),
        };
        if !right || refused > wanted.host_lost {
            return Err(format!(
                "port {port}: {passed} frames reached the host and {refused} of {} lost ones were refused in {cycles} \
                 cycles; {police:?}",
                wanted.host_lost
            ));
        }
        // What was not refused found no room.
        wanted.counts[FULL] += wanted.host_lost - refused;
        wanted.counts[REFUSED] = got;
        wanted.host_lost = 0;
        self.totals.refused += u64::from(refused);
        Ok(())
    }

    fn compare_port(&mut self, port: usize, got: &[u32]) -> Result<(), String> {
        self.compare_refused(port, got[REFUSED])?;
        let wanted = &mut self.wanted[port];
        let runt = usize::from(Verdict::DropRunt.number());
        let name = |index: usize| match Verdict::from_number(index as u8) {
            Some(verdict) => format!("{verdict:?}"),
            None => format!("counter {index}"),
        };
        // Frames that may have been runts are somewhere, each once.
        let doubt: u32 = wanted.maybe.iter().sum();
        let runts = got[runt].wrapping_sub(wanted.counts[runt]);
        if runts > doubt {
            return Err(format!(
                "port {port}: {} runts dropped instead of {} to {}",
                got[runt],
                wanted.counts[runt],
                wanted.counts[runt] + doubt
            ));
        }
        let mut found = runts;
        for (index, &got) in got.iter().enumerate() {
            let (least, most) = match index {
                _ if index == runt => continue,
                FULL => (wanted.counts[FULL], wanted.counts[FULL] + wanted.maybe_full),
                _ => {
                    let maybe = wanted.maybe.get(index).copied().unwrap_or(0);
                    (wanted.counts[index], wanted.counts[index] + maybe)
                }
            };
            if got < least || got > most {
                return Err(format!(
                    "port {port}: {} is {} instead of {least} to {most}",
                    name(index),
                    got
                ));
            }
            if index < Verdict::ALL.len() {
                found += got - least;
            }
        }
        if found != doubt {
            return Err(format!(
                "port {port}: {found} of {doubt} runts have a verdict"
            ));
        }
        wanted.counts.copy_from_slice(got);
        wanted.maybe = Default::default();
        wanted.maybe_full = 0;
        Ok(())
    }
}

fn drop_full(wanted: &mut Wanted, totals: &mut Totals, entry: &Expected) {
    if entry.maybe {
        wanted.maybe_full += 1;
    } else {
        wanted.counts[FULL] += 1;
    }
    totals.full += 1;
}

/// Whether a frame's hit of a rule is counted.
enum Hit {
    No,
    Yes(usize),
    Maybe(usize),
}

/// A hit counts for frames that nothing before the access list objects to, whatever becomes of
/// them. Of a runt it can't be said.
fn plain_rule(model: &SwitchModel, port: u8, frame: &[u8], error: bool) -> Hit {
    let Some(outcome) = model.judge(port, frame, error, false) else {
        return Hit::No;
    };
    let Some(rule) = outcome.rule else {
        return Hit::No;
    };
    match outcome.verdict {
        Verdict::DropRunt => Hit::Maybe(rule),
        Verdict::DropVlan
        | Verdict::HostLink
        | Verdict::DropNotMine
        | Verdict::HostNotIp
        | Verdict::DropHeader
        | Verdict::DropMartian => Hit::No,
        _ => Hit::Yes(rule),
    }
}

fn beats(bytes: &[u8], port: u8) -> impl Iterator<Item = HostBeat> + '_ {
    let count = bytes.len().div_ceil(8);
    bytes.chunks(8).enumerate().map(move |(index, chunk)| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        HostBeat {
            data: u64::from_le_bytes(word),
            keep: (0xFF_u16 >> (8 - chunk.len())) as u8,
            last: index + 1 == count,
            port,
        }
    })
}
