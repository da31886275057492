// SPDX-License-Identifier: Apache-2.0
//! Queue pairs in both directions between two engines, over a channel with faults.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use roce::{Address, Completion, PSN_MASK, Settings, Status};

use super::channel::{Channel, Faults, Stats};
use super::end::{End, Kind};
use super::host::SCAN_CYCLES;
use super::oracle::{Ending, Flow, Place};

const ADDRESSES: [Address; 2] = [
    Address {
        mac: 0x0200_0000_0001,
        ip: 0x0A00_0001,
    },
    Address {
        mac: 0x0200_0000_0002,
        ip: 0x0A00_0002,
    },
];
/// What the engines take for a microsecond: less than it is, so that time-outs take less time.
const CYCLES_A_US: u64 = 16;
/// How often hosts look at their queues.
const POLL_CYCLES: u64 = 16;
const RETRY: u8 = 7;
/// Of a receiver that is not ready for ever: the code of how long it says, and how long that is.
const NOT_READY: u8 = 14;
const NOT_READY_US: u64 = 1280;
/// Requests of each direction of a queue pair.
const REQUESTS: u32 = 30;

/// What is run: ends, queue pairs, faults, and how it ends.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ends.
    pub kinds: [Kind; 2],
    /// Queue pairs.
    pub pairs: u32,
    /// Faults of both directions.
    pub faults: Faults,
    /// How it ends.
    pub ending: Ending,
    /// How often a DMA port of the RTL is not ready, in 1000.
    pub stalls: u32,
}

impl Plan {
    /// One by chance.
    #[must_use]
    pub fn random(rng: &mut ChaCha8Rng, pairs: Option<u32>) -> Self {
        use Kind::{Model, Rtl};
        let kinds = [[Rtl, Model], [Model, Rtl], [Rtl, Rtl]];
        let endings = [
            Ending::Whole,
            Ending::Whole,
            Ending::Whole,
            Ending::Dead,
            Ending::NotReady,
        ];
        let drawn = rng.random_range(1..=8);
        Self {
            kinds: *kinds.choose(rng).unwrap_or(&kinds[0]),
            pairs: pairs.unwrap_or(drawn),
            faults: Faults::all(*[0, 2, 10, 20, 30].choose(rng).unwrap_or(&0)),
            ending: *endings.choose(rng).unwrap_or(&Ending::Whole),
            stalls: *[0, 0, 100, 400].choose(rng).unwrap_or(&0),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Frames.
    pub frames: Stats,
    /// Requests that have ended.
    pub requests: u64,
    /// Queue pairs that had to give up: a peer that does not answer, one that is not ready.
    pub gave_up: [u64; 2],
    /// Cycles.
    pub cycles: u64,
    /// The longest time without a completion, in cycles.
    pub pause: u64,
}

/// What a test of the test does to a completion; the oracle must see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// It is lost.
    Lost,
    /// It comes twice.
    Twice,
    /// It has another length.
    Bytes,
    /// It has another status.
    Status,
    /// It is that of another request.
    Index,
    /// A byte of the memory that the peer reaches changes.
    Memory,
    /// From then on nothing comes.
    Line,
}

/// Two engines and what lies between them.
pub struct Sim {
    /// What happens to a completion by chance, in a test of the test.
    pub spoil: Option<Spoil>,
    /// What was done.
    pub totals: Totals,
    plan: Plan,
    rng: ChaCha8Rng,
    ends: [End; 2],
    channels: [Channel; 2],
    flows: Vec<Flow>,
    cycle: u64,
    patience: u64,
    now_us: u32,
}

impl Sim {
    /// Sets all up.
    pub fn new(plan: Plan, seed: u64) -> Result<Self, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut fork = || ChaCha8Rng::seed_from_u64(rng.random());
        let mut ends = [
            End::new(plan.kinds[0], ADDRESSES[0], fork())?,
            End::new(plan.kinds[1], ADDRESSES[1], fork())?,
        ];
        for end in &mut ends {
            if let End::Rtl(driver) = end {
                driver.host.manners.stalls = plan.stalls;
                driver.host.manners.read_cycles = 20..=60;
            }
        }
        let channels = [(); 2].map(|()| Channel::new(plan.faults, fork()));
        let mut new = Self {
            spoil: None,
            totals: Totals::default(),
            plan,
            rng,
            ends,
            channels,
            flows: Vec::new(),
            cycle: 0,
            patience: 0,
            now_us: 0,
        };
        for qpn in 1..=new.plan.pairs {
            new.connect(qpn)?;
        }
        Ok(new)
    }

    fn connect(&mut self, qpn: u32) -> Result<(), String> {
        let rng = &mut self.rng;
        let psns = [(); 2].map(|()| rng.random::<u32>() & PSN_MASK);
        let mtu_log2 = rng.random_range(8..=10);
        let timeout = rng.random_range(6..=7);
        let not_ready = self.plan.ending == Ending::NotReady;
        let mut segments = [0; 2];
        for e in 0..2 {
            let settings = Settings {
                peer: ADDRESSES[1 - e],
                peer_qpn: qpn,
                port: rng.random(),
                mtu_log2,
                timeout,
                retry: RETRY,
                // For ever, else so often that the wait for a buffer, which comes soon, is no end.
                rnr_retry: if not_ready { 6 } else { 7 },
                min_rnr: if not_ready {
                    NOT_READY
                } else {
                    rng.random_range(1..10)
                },
                rd_atomic: rng.random_range(1..=4),
                receive_segments_log2: rng.random_range(0..3),
                psn: psns[e],
                expected_psn: psns[1 - e],
                ..Settings::default()
            };
            segments[e] = 1 << settings.receive_segments_log2;
            self.ends[e].begin(qpn, settings)?;
        }
        // Before it gives up there is a completion, or it gives up; several packets may be late in turn.
        let us = (4096_u64 << timeout) / 1000;
        let each = us * CYCLES_A_US + SCAN_CYCLES;
        let waits = if not_ready {
            NOT_READY_US * CYCLES_A_US + SCAN_CYCLES
        } else {
            0
        };
        let whole = 3 * (u64::from(RETRY) + 1) * (each + waits);
        self.patience = self.patience.max(whole);
        for from in 0..2 {
            let place = |n: u32, rng: &mut ChaCha8Rng| Place {
                key: (2 * qpn + n) << 8 | u32::from(rng.random::<u8>()),
                va: rng.random::<u64>() >> 2,
            };
            let places = [place(0, rng), place(1, rng)];
            let mut flow = Flow::new(from, qpn, REQUESTS, places, segments[1 - from]);
            flow.begin(&mut self.ends, rng, 1 << mtu_log2)?;
            self.flows.push(flow);
        }
        Ok(())
    }

    /// To the end.
    pub fn run(&mut self) -> Result<(), String> {
        let result = self.go();
        self.totals.runs = 1;
        self.totals.cycles = self.cycle;
        for channel in &self.channels {
            self.totals.frames += channel.stats;
        }
        self.totals.requests = self.flows.iter().map(|flow| flow.completed).sum();
        result.map_err(|error| format!("cycle {}, {:?}:\n{error}", self.cycle, self.plan))
    }

    fn go(&mut self) -> Result<(), String> {
        let ending = self.plan.ending;
        let all: u64 = self.flows.iter().map(|flow| u64::from(flow.left)).sum();
        let day = self.rng.random_range(0..all);
        while !self.flows.iter().all(|flow| flow.is_done(ending)) {
            self.step()?;
            if !self.cycle.is_multiple_of(POLL_CYCLES) {
                continue;
            }
            for flow in &mut self.flows {
                flow.pump(&mut self.ends, &mut self.rng);
            }
            self.poll()?;
            let done: u64 = self.flows.iter().map(|flow| flow.completed).sum();
            if ending != Ending::Whole && done >= day {
                self.end();
            }
            for flow in &mut self.flows {
                let since = self.cycle - flow.moved;
                self.totals.pause = self.totals.pause.max(since);
                if since > self.patience && !flow.is_done(ending) {
                    return Err(format!("nothing for {since} cycles: {}", flow.state()));
                }
            }
        }
        self.settle()?;
        self.check()
    }

    /// From now on nothing comes, or nobody posts buffers; and there is always something to send.
    fn end(&mut self) {
        for channel in &mut self.channels {
            channel.dead |= self.plan.ending == Ending::Dead;
        }
        for flow in &mut self.flows {
            flow.may_fail = true;
            flow.receives &= self.plan.ending != Ending::NotReady;
            if flow.failed.is_none() {
                flow.left = flow.left.max(2);
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.cycle += 1;
        let now_us = (self.cycle / CYCLES_A_US) as u32;
        let is_new = now_us != self.now_us;
        self.now_us = now_us;
        for e in 0..2 {
            self.ends[e].step(now_us, is_new)?;
            for frame in self.ends[e].frames() {
                self.channels[e].send(self.cycle, frame);
            }
            for frame in self.channels[e].arrived(self.cycle) {
                self.ends[1 - e].arrive(&frame);
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), String> {
        for qpn in 1..=self.plan.pairs {
            for e in 0..2 {
                let mut completions = self.ends[e].completions(qpn);
                self.spoil(e, qpn, &mut completions);
                for completion in completions {
                    self.take(e, qpn, &completion).map_err(|error| {
                        format!(
                            "queue pair {qpn}, end {e}, {:?}: {error}",
                            self.plan.kinds[e]
                        )
                    })?;
                }
            }
        }
        Ok(())
    }

    fn spoil(&mut self, e: usize, qpn: u32, completions: &mut Vec<Completion>) {
        const DAY: u64 = 2000;
        if self.cycle < DAY {
            return;
        }
        let Some(first) = completions.first_mut() else {
            return;
        };
        match self.spoil.take() {
            Some(Spoil::Lost) => drop(completions.remove(0)),
            Some(Spoil::Twice) => completions.extend_from_within(..1),
            Some(Spoil::Bytes) => first.bytes ^= 1,
            Some(Spoil::Status) => first.status ^= 1,
            Some(Spoil::Index) => first.index ^= 1,
            Some(Spoil::Memory) => {
                let flow = self.flows.iter().find(|f| f.qpn == qpn && f.from != e);
                if let Some(flow) = flow {
                    flow.spoil(&mut self.ends[e]);
                }
            }
            Some(Spoil::Line) => self.channels[e].dead = true,
            None => {}
        }
    }

    fn take(&mut self, e: usize, qpn: u32, completion: &Completion) -> Result<(), String> {
        let from = if completion.is_receive { 1 - e } else { e };
        let mut flows = self.flows.iter_mut();
        let flow = flows
            .find(|flow| flow.qpn == qpn && flow.from == from)
            .ok_or("there is no such queue pair")?;
        flow.moved = self.cycle;
        if completion.is_receive {
            flow.received(completion, &self.ends[e])
        } else {
            flow.sent(completion, &self.ends[e])
        }
    }

    /// Lets end what is under way.
    fn settle(&mut self) -> Result<(), String> {
        const CYCLES: u64 = 4000;
        for _ in 0..CYCLES {
            self.step()?;
        }
        self.poll()
    }

    fn check(&mut self) -> Result<(), String> {
        for flow in &self.flows {
            match self.plan.ending {
                Ending::Whole => flow.check_area(&self.ends[1 - flow.from])?,
                Ending::Dead if flow.failed != Some(Status::Retry as u8) => {
                    return Err(format!(
                        "status {:?} on a dead line: {}",
                        flow.failed,
                        flow.state()
                    ));
                }
                Ending::NotReady if !matches!(flow.failed, Some(s) if s == Status::NotReady as u8 || s == Status::Retry as u8) =>
                {
                    return Err(format!("status {:?}: {}", flow.failed, flow.state()));
                }
                Ending::Dead | Ending::NotReady => {}
            }
            if let Some(status) = flow.failed {
                self.totals.gave_up[usize::from(status == Status::NotReady as u8)] += 1;
            }
        }
        let none = self.totals.gave_up[1] == 0;
        if self.plan.ending == Ending::NotReady && none {
            return Err("nobody was told that a peer is not ready".into());
        }
        Ok(())
    }
}

/// Runs plans by chance until so many frames were sent.
pub fn run(seed: u64, frames: u64, pairs: Option<u32>) -> Result<Totals, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sum = Totals::default();
    while sum.frames.sent < frames {
        let plan = Plan::random(&mut rng, pairs);
        let mut sim = Sim::new(plan, rng.random())?;
        let result = sim.run();
        let run = sim.totals;
        sum.runs += run.runs;
        sum.frames += run.frames;
        sum.requests += run.requests;
        sum.gave_up[0] += run.gave_up[0];
        sum.gave_up[1] += run.gave_up[1];
        sum.cycles += run.cycles;
        sum.pause = sum.pause.max(run.pause);
        result.map_err(|error| {
            format!("run {} of --packets {}: {error}", sum.runs, sum.frames.sent)
        })?;
    }
    Ok(sum)
}
