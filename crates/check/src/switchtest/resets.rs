// SPDX-License-Identifier: Apache-2.0
//! The whole switch with a clock for each receive side, under random traffic between all ports, while receive sides and the
//! core are reset and links fail at random moments.
//!
//! `ledger` says what may become of a frame, from the pins alone. No frame finds its FIFO full unless an epoch overloads
//! the switch, so every one that no reset and no fault is near must come out.

mod frame;
mod ledger;
mod line;

use std::collections::VecDeque;
use std::path::Path;

use fib::{Fib, NextHopId, Prefix4, Prefix6};
use ipnuma_rtl::{NetSpeed, Switch, SwitchSize, SwitchWrite};
use model::switch::{Check, Port, Verdict};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::difftest::phy::{Fault, LineFrame};
use crate::switchtest::flow;
use crate::switchtest::line::Decoder;
use crate::switchtest::world::{fib_config, port_words, words};
use frame::Parts;
use ledger::{Counts, Ledger, Setting};
use line::{Failure, Line};

const PORTS: usize = Switch::PORTS;
const FS: u64 = 1_000;
/// Receive clocks are at most so far off the core's.
const PPM: u64 = 100;
/// Frames of an epoch.
const EPOCH: u64 = 800;
/// Bytes that wait for a line before it is given more.
const BACKLOG: usize = 32;
/// Core cycles from one look for lost frames to the next.
const SWEEP_CYCLES: u64 = 16;
/// From the other settings to the MAC addresses, with which frames begin to count.
const SETTINGS_CYCLES: u32 = 64;
/// Nothing leaves for so long, and frames are under way.
const STUCK_CYCLES: u64 = 400_000;
/// A pulse is counted by then, and the counters' memory is cleared.
const COUNTED_CYCLES: u32 = 160;

// Indices of counters behind the verdicts (`switch_counters`).
const VERDICTS: u16 = Verdict::ALL.len() as u16;
const FULL: u16 = VERDICTS;
const SPOILED: u16 = VERDICTS + 1;
const TX_UNDERRUN: u16 = VERDICTS + 2;
const TX_SPOILED: u16 = VERDICTS + 3;
const TX_GOOD: u16 = VERDICTS + 4;
const RX_ERROR: u16 = VERDICTS + 6;
const RX_GOOD: u16 = VERDICTS + 10;
const COUNTERS: usize = VERDICTS as usize + 11;

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Frames sent.
    pub frames: u64,
    /// Cycles of the core.
    pub cycles: u64,
    /// Draws of settings and traffic.
    pub epochs: u64,
    /// Pulses of receive sides' resets.
    pub resets: u64,
    /// Pulses of the core's reset.
    pub cores: u64,
    /// Links that failed.
    pub failures: u64,
    /// Frames without room.
    pub full: u64,
    /// Counters that were compared.
    pub counters: u64,
    /// What became of the frames.
    pub counts: Counts,
}

/// A clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    period: u64,
    next: u64,
}

/// What is written to the switch, in order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(SwitchWrite),
    Wait(u32),
    /// All is written.
    Done,
}

/// Where frames go.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// From any port to any port.
    All,
    /// To the port so many further.
    Shift(usize),
    /// To one of two ports, mostly.
    Hot([usize; 2]),
}

/// The switch, its lines, and what is expected.
pub struct Bench {
    rtl: Switch,
    speed: NetSpeed,
    rng: ChaCha8Rng,
    now: u64,
    core: Clock,
    lines: [Line; PORTS],
    decoders: [Decoder; PORTS],
    /// When the core's last cycles of silence began, by output.
    silent: [u64; PORTS],
    /// Edges for which the core's reset changes next, and to what.
    core_plan: VecDeque<(u64, bool)>,
    routes: Vec<SwitchWrite>,
    ports: [Port; PORTS],
    steps: VecDeque<Step>,
    waited: u32,
    ledger: Ledger,
    number: u32,
    pattern: Pattern,
    /// Chance that a frame follows the one before at once; sizes that are drawn.
    load: f64,
    long: f64,
    v6: f64,
    stuck: u64,
    /// At the end of the epoch before.
    counters: [[u32; COUNTERS]; PORTS],
    totals: Totals,
}

/// Routes of both families to each port.
fn routes() -> Result<Vec<SwitchWrite>, String> {
    let mut fib = Fib::new(fib_config(SwitchSize::Small)).map_err(|error| error.to_string())?;
    let mut list = Vec::new();
    for out in 0..PORTS {
        let hop = frame::hop_of(out);
        let next_hop = fib::NextHop {
            port: fib::Port::Network(out as u8),
            mac: Some(flow::hop_mac(hop)),
        };
        let ops = fib.set_next_hop(NextHopId(hop), next_hop);
        list.extend(words(ops.map_err(|error| error.to_string())?));
        let net4 = u32::from(frame::NET4) << 24 | (out as u32) << 16;
        let ops = fib.announce4(Prefix4::around(net4, 16), NextHopId(hop));
        list.extend(words(ops.map_err(|error| error.to_string())?));
        let net6 = frame::NET6 | (out as u128) << 80;
        let ops = fib.announce6(Prefix6::around(net6, 48), NextHopId(hop));
        list.extend(words(ops.map_err(|error| error.to_string())?));
    }
    Ok(list)
}

impl Bench {
    /// A switch after reset, without settings.
    pub fn new(speed: NetSpeed, seed: u64, waves: Option<&Path>) -> Result<Self, String> {
        let mut rtl = Switch::new(speed, SwitchSize::Small).map_err(|error| error.to_string())?;
        if let Some(file) = waves {
            rtl.trace(file).map_err(|error| error.to_string())?;
        }
        rtl.reset().map_err(|error| error.to_string())?;
        rtl.inputs.host_ready = true;
        let period = speed.net_period_ps() * FS;
        Ok(Self {
            rtl,
            speed,
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: period,
            core: Clock {
                period,
                next: 2 * period,
            },
            lines: std::array::from_fn(|_| Line::new(speed, 2 * period)),
            decoders: std::array::from_fn(|_| Decoder::new(speed)),
            silent: [0; PORTS],
            core_plan: VecDeque::new(),
            routes: routes()?,
            ports: [Port::default(); PORTS],
            steps: VecDeque::new(),
            waited: 0,
            ledger: Ledger::new(speed, period),
            number: 0,
            pattern: Pattern::All,
            load: 1.0,
            long: 0.0,
            v6: 0.5,
            stuck: 0,
            counters: [[0; COUNTERS]; PORTS],
            totals: Totals::default(),
        })
    }

    /// How far it has come.
    pub fn totals(&self) -> Totals {
        Totals {
            counts: self.ledger.counts,
            ..self.totals
        }
    }

    /// Sends so many frames, and looks at what becomes of each.
    pub fn run(&mut self, frames: u64) -> Result<(), String> {
        while self.totals.frames < frames {
            if let Err(error) = self.epoch(frames.min(self.totals.frames + EPOCH)) {
                let epoch = self.totals.epochs;
                let counters = self.read_counters();
                return Err(format!(
                    "epoch {epoch}: {error}\nsettings {:?}\ncounters {counters:?}, before the epoch {:?}",
                    self.ledger.settings, self.counters
                ));
            }
        }
        Ok(())
    }

    fn epoch(&mut self, until: u64) -> Result<(), String> {
        self.totals.epochs += 1;
        self.draw();
        while !self.steps.is_empty() {
            self.advance()?;
        }
        let often = *[100, 300, 1_000, 3_000]
            .choose(&mut self.rng)
            .unwrap_or(&100);
        let often = often * self.bytes_scale();
        let mut next = self.totals.cycles + self.rng.random_range(0..often);
        while self.totals.frames < until {
            if self.totals.cycles >= next {
                self.trouble();
                next = self.totals.cycles + self.rng.random_range(1..2 * often);
            }
            self.feed();
            self.advance()?;
        }
        self.come_to_rest()?;
        // Every port works again, to every other one.
        for from in 0..PORTS {
            for out in 0..PORTS {
                self.send(from, out);
            }
        }
        self.come_to_rest()?;
        let after = self.read_counters()?;
        let before = std::mem::replace(&mut self.counters, after);
        self.compare(&before, &after)?;
        self.ledger.forget();
        Ok(())
    }

    /// Cycles of a beat.
    fn bytes_scale(&self) -> u64 {
        match self.speed {
            NetSpeed::TenGig => 1,
            NetSpeed::OneGig => 8,
        }
    }

    /// Draws clocks, settings and traffic; nothing is under way.
    fn draw(&mut self) {
        let rng = &mut self.rng;
        let most = self.core.period * PPM / 1_000_000;
        for line in &mut self.lines {
            let off = rng.random_range(0..=2 * most);
            line.clock.period = self.core.period - most + off;
            line.clock.next = self.now + rng.random_range(1..=self.core.period);
            // Now and then in step with the core.
            if rng.random_bool(0.1) {
                line.clock = self.core;
            }
        }
        // Edges that come together take less time.
        if rng.random_bool(0.7) {
            let clock = self.lines[0].clock;
            self.lines.iter_mut().for_each(|line| line.clock = clock);
        }
        let stores = *[0.0, 0.0, 0.3].choose(rng).unwrap_or(&0.0);
        let tags = *[0.0, 0.3].choose(rng).unwrap_or(&0.0);
        for port in 0..PORTS {
            let vlan =
                |rng: &mut ChaCha8Rng| rng.random_bool(tags).then(|| rng.random_range(1..4095));
            let setting = Setting {
                stores: rng.random_bool(stores),
                vlan_in: vlan(rng),
                vlan_out: vlan(rng),
            };
            self.ports[port] = Port {
                mac: flow::port_mac(port),
                vlan_in: setting.vlan_in,
                vlan_out: setting.vlan_out,
                check: if setting.stores {
                    Check::Always
                } else {
                    Check::Never
                },
                ..Port::default()
            };
            self.ledger.settings[port] = setting;
        }
        self.pattern = match rng.random_range(0..4) {
            0 => Pattern::Shift(rng.random_range(0..PORTS)),
            1 => Pattern::Hot([rng.random_range(0..PORTS), rng.random_range(0..PORTS)]),
            _ => Pattern::All,
        };
        self.ledger.overload = rng.random_bool(0.1);
        self.load = *[1.0, 0.8, 0.3].choose(rng).unwrap_or(&1.0);
        self.long = *[0.0, 0.01, 0.1].choose(rng).unwrap_or(&0.0);
        self.v6 = *[0.0, 0.5, 0.5, 1.0].choose(rng).unwrap_or(&0.5);
        self.write_settings();
    }

    /// MAC addresses come last: before, no frame counts as one for the switch.
    fn write_settings(&mut self) {
        self.steps.clear();
        self.waited = 0;
        self.steps
            .extend(self.routes.iter().copied().map(Step::Write));
        let mut last = Vec::new();
        for (number, port) in self.ports.iter().enumerate() {
            let [mac, others @ ..] = port_words(number as u8, port);
            last.push(Step::Write(mac));
            self.steps.extend(others.map(Step::Write));
        }
        self.steps.push_back(Step::Wait(SETTINGS_CYCLES));
        self.steps.extend(last);
        self.steps.push_back(Step::Wait(SETTINGS_CYCLES));
        self.steps.push_back(Step::Done);
    }

    fn feed(&mut self) {
        for from in 0..PORTS {
            if self.lines[from].backlog() >= BACKLOG {
                continue;
            }
            let rng = &mut self.rng;
            let out = match self.pattern {
                Pattern::All => rng.random_range(0..PORTS),
                Pattern::Shift(by) => (from + by) % PORTS,
                Pattern::Hot(hot) if rng.random_bool(0.8) => hot[from % hot.len()],
                Pattern::Hot(_) => rng.random_range(0..PORTS),
            };
            if self.ledger.has_room(from, out) {
                self.send(from, out);
            }
        }
    }

    fn send(&mut self, from: usize, out: usize) {
        let rng = &mut self.rng;
        let size = match rng.random_range(0..100) {
            _ if rng.random_bool(self.long) => rng.random_range(1519..9000),
            0..50 => rng.random_range(64..=100),
            50..85 => rng.random_range(64..=300),
            85..97 => rng.random_range(300..=700),
            _ => rng.random_range(700..=1518),
        };
        let parts = Parts {
            number: self.number,
            from,
            out,
            v6: rng.random_bool(self.v6),
            size,
        };
        let gap = if rng.random_bool(self.load) {
            *[12, 12, 12, 12, 9, 15].choose(rng).unwrap_or(&12)
        } else {
            rng.random_range(12..1_500)
        };
        let least = match self.speed {
            NetSpeed::TenGig => 9,
            NetSpeed::OneGig => 12,
        };
        self.lines[from].push(
            parts,
            &LineFrame {
                bytes: frame::sent(&parts, self.ledger.settings[from].vlan_in),
                fault: Fault::None,
                gap: gap.max(least),
                lane_4: rng.random(),
                preamble: 7,
            },
        );
        self.ledger.made(parts);
        self.number = self.number.wrapping_add(1);
        self.totals.frames += 1;
    }

    /// Something happens to ports, or to the core, or to both.
    fn trouble(&mut self) {
        let kind = self.rng.random_range(0..100);
        if !(75..90).contains(&kind) {
            let count = *[1, 1, 1, 2, PORTS].choose(&mut self.rng).unwrap_or(&1);
            let mut ports: Vec<_> = (0..PORTS).collect();
            ports.shuffle(&mut self.rng);
            for port in ports.into_iter().take(count) {
                if self.lines[port].resets.is_empty() {
                    let wait = self.rng.random_range(0..100);
                    self.lines[port].resets = self.pulses(wait);
                }
            }
        }
        if (70..95).contains(&kind) {
            let failure = Failure::random(self.speed, &mut self.rng);
            let words = *[1, 2, 4, 5, 20, 100, 1_000]
                .choose(&mut self.rng)
                .unwrap_or(&1);
            let wait = self.rng.random_range(0..100);
            let port = self.rng.random_range(0..PORTS);
            if self.lines[port].fail(failure, wait, words) {
                self.totals.failures += 1;
            }
        }
        if kind >= 90 && self.core_plan.is_empty() {
            let wait = self.rng.random_range(0..100);
            self.core_plan = self.pulses(wait);
        }
    }

    /// One to three pulses: edges for which the level before stays, and the level then.
    fn pulses(&mut self, wait: u64) -> VecDeque<(u64, bool)> {
        let rng = &mut self.rng;
        let mut plan = VecDeque::from([(wait, true)]);
        for left in (0..*[1, 1, 1, 2, 3].choose(rng).unwrap_or(&1)).rev() {
            let edges = match rng.random_range(0..32) {
                0 => 4_000,
                1..5 => 300,
                _ => *[1, 1, 2, 3, 8, 30].choose(rng).unwrap_or(&1),
            };
            plan.push_back((edges, false));
            if left > 0 {
                let pause = *[1, 2, 5, 10, 30, 60, 100, 300].choose(rng).unwrap_or(&1);
                plan.push_back((rng.random_range(1..=pause), true));
            }
        }
        plan
    }

    /// Goes on until nothing is under way and all resets are over.
    fn come_to_rest(&mut self) -> Result<(), String> {
        loop {
            let lines = self.lines.iter().all(Line::is_quiet);
            if lines && self.core_plan.is_empty() && self.steps.is_empty() && self.ledger.is_empty()
            {
                break;
            }
            self.advance()?;
        }
        // Ports open, links are believed to be up again, and frames that are muted end.
        let rest = self.ledger.rest_cycles();
        let until = self.totals.cycles + rest;
        while self.totals.cycles < until || self.rtl.outputs().busy {
            self.advance()?;
            if self.totals.cycles > until + STUCK_CYCLES {
                return Err(format!(
                    "at {} fs the switch is busy, and nothing is under way: {}",
                    self.now,
                    self.ledger.history()
                ));
            }
        }
        Ok(())
    }

    /// The next edge of any clock, with all that come with it.
    fn advance(&mut self) -> Result<(), String> {
        let next = self.lines.iter().map(|line| line.clock.next).min();
        let now = next.unwrap_or(u64::MAX).min(self.core.next);
        self.now = now;
        self.rtl.set_time(now / FS);
        let mut receivers = 0;
        for (port, line) in self.lines.iter_mut().enumerate() {
            if line.clock.next != now {
                continue;
            }
            line.clock.next += line.clock.period;
            receivers |= 1 << port;
            let (word, reset) = line.edge(port, now, &mut self.ledger, &mut self.totals);
            self.rtl.inputs.net[port] = word;
            self.rtl.inputs.rst_rx &= !(1 << port);
            self.rtl.inputs.rst_rx |= u64::from(reset) << port;
        }
        let core = self.core.next == now;
        let mut began = false;
        if core {
            self.core.next += self.core.period;
            self.totals.cycles += 1;
            began = self.core_level();
            self.offer();
        }
        let before = *self.rtl.settle().map_err(|error| error.to_string())?;
        self.rtl
            .edge_of(core, receivers)
            .map_err(|error| error.to_string())?;
        if core {
            self.taken(before.write_ready);
            self.look(began)?;
        }
        Ok(())
    }

    /// Moves the core's reset on; whether it has begun.
    fn core_level(&mut self) -> bool {
        let Some((edges, level)) = self.core_plan.front_mut() else {
            return false;
        };
        if *edges > 0 {
            *edges -= 1;
            return false;
        }
        let level = *level;
        self.core_plan.pop_front();
        if let Some((edges, _)) = self.core_plan.front_mut() {
            *edges -= 1;
        }
        self.rtl.inputs.rst_core = level;
        if level {
            self.totals.cores += 1;
            self.steps.clear();
        } else {
            self.write_settings();
        }
        level
    }

    fn offer(&mut self) {
        self.rtl.inputs.write = match self.steps.front() {
            Some(Step::Write(write)) => Some(*write),
            _ => None,
        };
    }

    fn taken(&mut self, ready: bool) {
        match self.steps.front() {
            Some(Step::Write(_)) if ready => {
                self.steps.pop_front();
            }
            Some(Step::Wait(cycles)) if self.waited < *cycles => self.waited += 1,
            Some(Step::Wait(_)) => {
                self.waited = 0;
                self.steps.pop_front();
            }
            Some(Step::Done) => {
                self.steps.pop_front();
                self.ledger.configured(self.now);
            }
            _ => {}
        }
    }

    /// Looks at what leaves.
    fn look(&mut self, core_reset: bool) -> Result<(), String> {
        let now = self.now;
        let after = *self.rtl.outputs();
        if let Some(beat) = after.host {
            return Err(format!("at {now} fs: a frame for the host: {beat:x?}"));
        }
        let free_cycles = 10 * if self.bytes_scale() == 1 { 1 } else { 4 };
        for port in 0..PORTS {
            let word = after.net[port];
            let decoder = &mut self.decoders[port];
            if word == self.speed.idle() && !decoder.in_frame() {
                if now - self.silent[port] > free_cycles * self.core.period {
                    self.ledger.is_free(port, now);
                }
            } else {
                self.silent[port] = now;
            }
            decoder.set_may_cut(core_reset || self.ledger.may_cut(port, now));
            let was_in = decoder.in_frame();
            let frame = decoder.word(word);
            let frame = frame.map_err(|error| format!("at {now} fs, port {port}: {error}"))?;
            if !was_in && decoder.in_frame() {
                self.lines[port].began = now;
                self.stuck = self.totals.cycles;
            }
            if let Some(bytes) = decoder.take_cut() {
                self.ledger.cut(port, &bytes, now)?;
            }
            if let Some(frame) = frame {
                self.ledger
                    .left(port, &frame, self.lines[port].began, now)?;
            }
        }
        if core_reset {
            self.ledger.core_reset(now);
        }
        if self.totals.cycles.is_multiple_of(SWEEP_CYCLES) {
            self.ledger.sweep(now)?;
        }
        if self.totals.cycles - self.stuck > STUCK_CYCLES && !self.ledger.is_empty() {
            return Err(format!("at {now} fs: nothing leaves any more"));
        }
        Ok(())
    }

    fn read_counters(&mut self) -> Result<[[u32; COUNTERS]; PORTS], String> {
        self.wait(COUNTED_CYCLES)?;
        let mut all = [[0; COUNTERS]; PORTS];
        for (port, counters) in all.iter_mut().enumerate() {
            for (index, counter) in counters.iter_mut().enumerate() {
                self.rtl.inputs.counter = (port as u16) << 7 | index as u16;
                self.wait(3)?;
                *counter = self.rtl.outputs().counter;
            }
        }
        Ok(all)
    }

    fn wait(&mut self, cycles: u32) -> Result<(), String> {
        let until = self.totals.cycles + u64::from(cycles);
        while self.totals.cycles < until {
            self.advance()?;
        }
        Ok(())
    }

    /// Compares counters with what was on the lines.
    fn compare(
        &mut self,
        before: &[[u32; COUNTERS]; PORTS],
        after: &[[u32; COUNTERS]; PORTS],
    ) -> Result<(), String> {
        let cleared = self.ledger.had_core_reset();
        let counted = |port: usize, index: u16| {
            let at = usize::from(index);
            let base = if cleared { 0 } else { before[port][at] };
            after[port][at].wrapping_sub(base)
        };
        let sum = |port: usize, from: u16, to: u16| (from..to).map(|at| counted(port, at)).sum();
        let tally = self.ledger.tally;
        let faults = (0..PORTS).any(|port| self.ledger.had_faults(port));
        let mut same = Vec::new();
        for port in 0..PORTS {
            let good: u32 = tally.good[port].iter().sum();
            let spoiled: u32 = tally.spoiled[port].iter().sum();
            let good_out: u32 = tally.good.iter().map(|outs| outs[port]).sum();
            let spoiled_out: u32 = tally.spoiled.iter().map(|outs| outs[port]).sum();
            let full = counted(port, FULL);
            let verdicts: u32 = sum(port, 0, VERDICTS);
            let received: u32 = sum(port, RX_ERROR, RX_GOOD + 1);
            let forward = counted(port, Verdict::Forward.number().into());
            self.totals.full += u64::from(full);
            let stubs = received
                .saturating_sub(verdicts)
                .min(self.ledger.stubs[port]);
            same.push((port, "verdicts, received", verdicts + stubs, received));
            same.push((port, "underruns", counted(port, TX_UNDERRUN), 0));
            if !self.ledger.overload {
                same.push((port, "full", full, 0));
            }
            if !self.ledger.had_faults(port) {
                same.push((port, "good on the line", counted(port, TX_GOOD), good_out));
                let spoiled = counted(port, TX_SPOILED);
                same.push((port, "spoiled on the line", spoiled, spoiled_out));
            }
            // A frame of which a muted port sends nothing counts as sent.
            if !faults {
                same.push((port, "forwarded", forward, good + spoiled + full));
                same.push((port, "spoiled", counted(port, SPOILED), spoiled));
                if !cleared && !self.ledger.overload {
                    same.push((port, "received", counted(port, RX_GOOD), good));
                }
            }
        }
        self.totals.counters += same.len() as u64;
        match same.iter().find(|(_, _, counted, seen)| counted != seen) {
            Some((port, what, counted, seen)) => Err(format!(
                "port {port}: {what}: {counted} counted, {seen} seen; {tally:?}; since a reset of the core: {cleared}; \
                 all: {after:?}, before: {before:?}"
            )),
            None => Ok(()),
        }
    }
}
