// SPDX-License-Identifier: Apache-2.0
//! The test of the test of UZURA, with the model at both ends: what is right passes, and each kind of mistake is found.

use check::uzuratest::channel::Faults;
use check::uzuratest::end::Kind;
use check::uzuratest::flow::{self, Plan, Sim};
use check::uzuratest::fuzz::{self, Fuzz};
use check::uzuratest::oracle::Ending;

fn plan(ending: Ending, rate: u32) -> Plan {
    Plan {
        kinds: [Kind::Model; 2],
        pairs: 3,
        faults: Faults::all(rate),
        ending,
        stalls: 0,
    }
}

#[test]
fn models_mend_every_fault() {
    for seed in 0..6 {
        for rate in [0, 10, 30] {
            let mut sim = Sim::new(plan(Ending::Whole, rate), seed).expect("two models");
            sim.run()
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(sim.totals.requests >= 180, "{:?}", sim.totals);
            let stats = sim.totals.frames;
            assert!(rate == 0 || stats.lost.min(stats.corrupted).min(stats.late) > 0);
        }
    }
}

#[test]
fn models_give_up_with_the_status_that_verbs_name() {
    let mut gave_up = [0; 2];
    for seed in 0..4 {
        for ending in [Ending::Dead, Ending::NotReady] {
            let mut sim = Sim::new(plan(ending, 5), seed).expect("two models");
            sim.run()
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            gave_up[0] += sim.totals.gave_up[0];
            gave_up[1] += sim.totals.gave_up[1];
        }
    }
    assert!(gave_up[0] >= 24 && gave_up[1] >= 4, "{gave_up:?}");
}

#[test]
fn the_oracle_sees_each_mistake() {
    use flow::Spoil::{Bytes, Index, Line, Lost, Memory, Status, Twice};
    for spoil in [Lost, Twice, Bytes, Status, Index, Memory, Line] {
        for seed in 0..3 {
            let mut sim = Sim::new(plan(Ending::Whole, 10), seed).expect("two models");
            sim.spoil = Some(spoil);
            let result = sim.run();
            assert!(
                result.is_err(),
                "{spoil:?}, seed {seed}: nobody has seen it"
            );
        }
    }
}

#[test]
fn a_model_does_as_itself() {
    let mut fuzz = Fuzz::new(Kind::Model, 1, 4).expect("a model");
    fuzz.run(20_000).unwrap_or_else(|error| panic!("{error}"));
    let totals = fuzz.totals;
    // Every status and every NAK that there is; 3 and 6 are none of the engine's, 8 neither.
    for status in [0, 1, 2, 4, 5, 7, 9, 10, 11, 12, 13] {
        assert!(totals.by_status[status] > 0, "status {status}: {totals:?}");
    }
    assert!(totals.naks.iter().all(|count| *count > 0), "{totals:?}");
}

#[test]
fn the_comparison_sees_each_mistake() {
    use fuzz::Spoil::{Completion, Counter, Memory, Packet, Payload, Psn, Syndrome};
    for spoil in [Psn, Payload, Syndrome, Packet, Completion, Memory, Counter] {
        let mut fuzz = Fuzz::new(Kind::Model, 2, 2).expect("a model");
        fuzz.spoil = Some(spoil);
        assert!(fuzz.run(500).is_err(), "{spoil:?}: nobody has seen it");
    }
}
