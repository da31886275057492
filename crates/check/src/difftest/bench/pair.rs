// SPDX-License-Identifier: Apache-2.0
//! Two NICs wired to each other, each compared with its own model. Only TLPs are played; what one
//! NIC puts on the wire is what the other gets, and its model with it.

use model::FrameSource;
use rand::RngExt;
use rand::seq::IndexedRandom;
use wire::NetCounter;

use super::{Bench, DENY_CREDIT, EDGES_A_TURN, MAX_BEATS, RX_CREDIT, Totals};
use crate::difftest::dut::Pace;
use crate::difftest::frames::with_fcs;
use crate::difftest::phy::Fault;
use crate::difftest::world::percent;

/// Loads in a row before their answers.
const MAX_BURST: u32 = 12;

/// One end of the pair.
struct End {
    bench: Bench,
    /// Loads that may still join the present burst.
    burst: u32,
    /// Tags of loads that the other NIC will answer.
    live: Vec<u8>,
    /// Stores and loads on their way that the other NIC will refuse.
    to_be_refused: usize,
}

/// Two NICs with their models.
pub struct Pair {
    ends: [End; 2],
}

impl Pair {
    /// A pair of benches whose NICs are wired to each other and whose worlds are linked.
    pub fn new(benches: [Bench; 2]) -> Self {
        let mut ends = benches.map(|mut bench| {
            bench.sent = Some(Vec::new());
            End {
                bench,
                burst: 0,
                live: Vec::new(),
                to_be_refused: 0,
            }
        });
        for near in 0..2 {
            let far = ends[1 - near].bench.world.regions.clone();
            let Bench {
                world, writes, rng, ..
            } = &mut ends[near].bench;
            world.far = far;
            for page in 0..world.pages.len() {
                writes.extend(world.page_entry(page, rng));
            }
        }
        Self { ends }
    }

    /// What was done so far, by both.
    pub fn totals(&self) -> Totals {
        let [first, second] = [0, 1].map(|end| self.ends[end].bench.totals());
        Totals {
            operations: first.operations + second.operations,
            outputs: first.outputs + second.outputs,
            counter_checks: first.counter_checks + second.counter_checks,
            time_ps: first.time_ps,
        }
    }

    /// Counters that a long run must reach and did not, with the faults of the line left out.
    pub fn never_counted(&self) -> Vec<&'static str> {
        let wanted = [
            "tlp_store",
            "tlp_load",
            "load_completed",
            "load_timeout",
            "dma_write",
            "dma_read",
            "rx_bad_key",
            "rx_bad_end_code",
            "rx_bad_rights",
            "rx_bad_bounds",
            "rx_store",
            "rx_load",
            "rx_completion",
            "rx_error_report",
        ];
        let counters = self.ends[0].bench.counters();
        let never = |name: &&str| counters.iter().any(|(n, value)| n == name && *value == 0);
        wanted.into_iter().filter(never).collect()
    }

    /// Plays `operations` random TLPs and compares everything.
    pub fn run(&mut self, operations: u64) -> Result<(), String> {
        self.run_inner(operations).map_err(|error| {
            let reports = [0, 1].map(|end| self.ends[end].bench.report(""));
            format!(
                "{error}\n--- first NIC:{}\n--- second NIC:{}",
                reports[0], reports[1]
            )
        })
    }

    fn run_inner(&mut self, operations: u64) -> Result<(), String> {
        self.play_writes()?;
        while self.totals().operations < operations {
            let epoch = self.ends[0].bench.rng.random_range(20..400);
            let until = operations.min(self.totals().operations + epoch);
            for end in &mut self.ends {
                let rng = &mut end.bench.rng;
                let mut pace = || *[100, 100, 90, 50].choose(rng).unwrap_or(&100);
                let (ready, valid) = (pace(), pace());
                end.bench.dut.set_pace(Pace { ready, valid });
            }
            while self.totals().operations < until {
                for near in 0..2 {
                    self.play(near);
                }
                for _ in 0..EDGES_A_TURN {
                    self.step()?;
                }
            }
            self.settle()?;
            self.quiet_point()?;
        }
        for end in &mut self.ends {
            end.bench.compare_counters()?;
        }
        self.settle()
    }

    fn play_writes(&mut self) -> Result<(), String> {
        for end in &mut self.ends {
            end.bench.play_writes()?;
        }
        self.settle()
    }

    fn play(&mut self, near: usize) {
        let (first, second) = self.ends.split_at_mut(1);
        let (end, other) = match near {
            0 => (&mut first[0], &mut second[0]),
            _ => (&mut second[0], &mut first[0]),
        };
        end.answer_a_read(other);
        // What is on its way to the other NIC, and what it will be sent on its own loads.
        let under_way: usize = [
            FrameSource::Requester,
            FrameSource::Completions,
            FrameSource::Refusals,
        ]
        .iter()
        .map(|source| end.bench.expect.frames(*source).len())
        .sum();
        let slots = under_way + other.bench.slots.len() + other.live.len();
        let refusals = end.to_be_refused + other.bench.expect.frames(FrameSource::Refusals).len();
        if slots + 1 < RX_CREDIT
            && refusals + 2 < DENY_CREDIT
            && end.bench.dut.backlog().0 < MAX_BEATS
        {
            end.play_tlp(other);
        }
    }

    fn step(&mut self) -> Result<(), String> {
        for near in 0..2 {
            self.ends[near].bench.step()?;
            let sent = self.ends[near].bench.sent.replace(Vec::new());
            for frame in sent.into_iter().flatten() {
                let end = self.ends[1 - near].bench.receive(&with_fcs(frame));
                if is_refusal(end) {
                    let end = &mut self.ends[near];
                    end.to_be_refused = end.to_be_refused.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), String> {
        for end in &mut self.ends {
            end.burst = 0;
        }
        loop {
            for near in 0..2 {
                if self.ends[near].bench.model.waiting() > 0 {
                    self.ends[near].bench.answer_a_read();
                }
            }
            self.step()?;
            let done = |end: &End| end.bench.model.waiting() == 0 && end.bench.dut.is_quiet(true);
            if self.ends.iter().all(done) {
                break;
            }
        }
        for end in &mut self.ends {
            if !end.bench.expect.is_empty() {
                return Err(format!(
                    "outputs are missing\n{}",
                    end.bench.expect.missing()
                ));
            }
            end.bench.slots.clear();
            end.to_be_refused = 0;
        }
        Ok(())
    }

    fn quiet_point(&mut self) -> Result<(), String> {
        for near in 0..2 {
            if percent(&mut self.ends[near].bench.rng, 40) {
                self.ends[near].bench.compare_counters()?;
                self.ends[near].bench.compare_registers()?;
            }
            // One clock after the other: a time-out here may answer a load there.
            if percent(&mut self.ends[near].bench.rng, 60) {
                self.ends[near].bench.advance_time();
                self.settle()?;
                self.ends[near].bench.forget_expired();
            }
            let Bench {
                world, writes, rng, ..
            } = &mut self.ends[near].bench;
            for _ in 0..rng.random_range(0..4) {
                let index = rng.random_range(0..world.regions.len());
                writes.extend(world.new_region(index, rng));
            }
            let regions = world.regions.clone();
            self.ends[1 - near].bench.world.far = regions;
        }
        self.play_writes()
    }
}

impl End {
    fn play_tlp(&mut self, other: &Self) {
        let model = &self.bench.model;
        self.live
            .retain(|tag| model.outstanding_loads().any(|(live, ..)| live == *tag));
        let (mut tlp, mut bar, mut is_load) = self.bench.draw_tlp();
        if is_load {
            // A burst takes tags while none can be freed: all answers are through, and new ones
            // are held back until the burst is out.
            if self.live.is_empty() && !self.bench.completions_under_way() {
                self.burst = self.bench.rng.random_range(1..=MAX_BURST);
            }
            if self.burst == 0 {
                let Bench { world, rng, .. } = &mut self.bench;
                (tlp, bar) = world.page_access(false, rng);
                is_load = false;
            }
        }
        let before = self.bench.expect.frames(FrameSource::Requester).len();
        self.bench.send_tlp(&tlp, bar);
        let frames = self.bench.expect.frames(FrameSource::Requester);
        let Some(frame) = frames.back().filter(|_| frames.len() > before) else {
            return;
        };
        let frame = with_fcs(frame.clone());
        let end = other.bench.model.verdict(&frame, Fault::None.for_model());
        let refused = is_refusal(end);
        self.to_be_refused += usize::from(refused);
        if is_load {
            self.burst -= 1;
            if refused || end == NetCounter::RxLoad {
                const TAG: usize = 56;
                self.live.push(frame[TAG]);
            }
            if refused {
                // Its zeros come at once.
                self.burst = 0;
            }
        }
    }

    fn answer_a_read(&mut self, other: &Self) {
        let may = other.burst == 0 && !other.bench.loads_in_flight();
        if may && percent(&mut self.bench.rng, 20) && self.bench.dut.backlog().0 < MAX_BEATS {
            self.bench.answer_a_read();
        }
    }
}

fn is_refusal(end: NetCounter) -> bool {
    matches!(
        end,
        NetCounter::RxBadKey
            | NetCounter::RxBadSource
            | NetCounter::RxBadRights
            | NetCounter::RxBadBounds
    )
}
