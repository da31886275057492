// SPDX-License-Identifier: Apache-2.0
//! The test of the test: NICs without sessions over a channel that keeps everything pass, and every
//! kind of fault is found, because nothing mends it.

use check::faulttest::channel::Faults;
use check::faulttest::end::Kind;
use check::faulttest::matrix::{Scale, plans};
use check::faulttest::plan::{Plan, Timers};
use check::faulttest::sim::{Report, Sim};
use ipnuma_rtl::NetSpeed;

const MODELS: [Kind; 2] = [Kind::Model, Kind::Model];

fn run(faults: Faults, seed: u64) -> Result<Report, String> {
    let mut plan = Plan::new("harness", MODELS, NetSpeed::TenGig, 10_000);
    plan.sessions = 0;
    plan.faults = faults;
    Sim::new(plan, seed)?.run()
}

#[test]
fn a_good_cable_passes() {
    for seed in 0..3 {
        let report = run(Faults::default(), seed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.tally.stores, report.tally.delivered);
        assert!(report.tally.stores >= 10_000 && report.loads.0 > 30);
        let late = Faults {
            delay_ps: 3_000_000,
            jitter_ps: 2_000_000,
            ..Faults::default()
        };
        run(late, seed).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn fails(faults: Faults, complaints: &[&str]) {
    for seed in 0..3 {
        let error = run(faults, seed).expect_err("nothing mends it");
        assert!(complaints.iter().any(|c| error.contains(c)), "{error}");
    }
}

#[test]
fn every_fault_is_found() {
    const RARE: u32 = 500;
    let none = Faults::default();
    let left_out = ["left out or overtaken", "never arrived"];
    fails(Faults { loss: RARE, ..none }, &left_out);
    fails(
        Faults {
            corrupt: RARE,
            ..none
        },
        &left_out,
    );
    fails(
        Faults {
            duplicate: RARE,
            ..none
        },
        &["again", "nobody asked for"],
    );
    fails(
        Faults {
            reorder: RARE,
            ..none
        },
        &left_out,
    );
    fails(
        Faults {
            replay: RARE,
            ..none
        },
        &["again", "nobody asked for"],
    );
}

/// Every cell of the matrix with models at both ends, in short.
#[test]
fn sessions_mend_every_fault() {
    let mut stores = 0;
    for mut plan in plans(Scale::SHORT) {
        if plan.ends != MODELS || plan.wraps {
            continue;
        }
        plan.stores = 1_500;
        plan.rekey = plan.rekey.min(100);
        let name = plan.name.clone();
        let report = Sim::new(plan, 1).and_then(|mut sim| sim.run());
        stores += report
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .tally
            .stores;
    }
    assert!(stores >= 60 * 1_500, "{stores}");
}

/// An epoch's number comes again after 64 others. What was sent in the clear 64 epochs ago is then as
/// good as new to a NIC, as the wire format says: the channel must not bring it.
#[test]
fn sessions_in_the_clear_outlive_all_epochs() {
    let mut plans = plans(Scale::SHORT).into_iter();
    let plan = plans.find(|plan| plan.name == "new-epochs-model-model-1g-tlp");
    let mut plan = plan.expect("a cell of the matrix");
    assert_eq!((plan.sealed, plan.sessions), (0, 1));
    plan.stores = 60_000;
    plan.timers = Timers::RESET;
    plan.faults.replay = 20_000;
    // With this seed an old frame came in its place.
    let report = Sim::new(plan, 8).and_then(|mut sim| sim.run());
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.anew > 2 * 64, "{} epochs", report.anew);
    assert!(report.channel.replayed > 500, "{:?}", report.channel);
}

/// A pair of models of which one after the other is reset.
fn resets(sessions: usize, faults: Faults, seed: u64) -> Result<Report, String> {
    let mut plan = Plan::new("resets", MODELS, NetSpeed::TenGig, 20_000);
    plan.sessions = sessions;
    plan.one_sided = 200;
    plan.others[0] = 0;
    plan.faults = faults;
    Sim::new(plan, seed)?.run()
}

/// Where stores may be lost, the observer of identities alone finds those that come twice.
#[test]
fn the_observer_of_resets_finds_what_comes_twice() {
    let twice = Faults {
        duplicate: 500,
        ..Faults::default()
    };
    for seed in 0..3 {
        for sessions in [0, 3] {
            let report = resets(sessions, Faults::default(), seed);
            let report = report.unwrap_or_else(|error| panic!("{error}"));
            assert!(report.resets.models > 5, "{:?}", report.resets);
            assert!(report.resets.looked_at.0 > 20_000, "{:?}", report.resets);
        }
        let report = resets(3, twice, seed).unwrap_or_else(|error| panic!("{error}"));
        assert!(report.duplicates > 0);
        let error = resets(0, twice, seed).expect_err("nothing mends it");
        assert!(error.contains("was written twice"), "{error}");
    }
}

/// Late copies make a receiver ask again and again for what it misses, and each time a whole window may follow: never more
/// than the line takes, or a pair of models has more and more under way.
#[test]
fn late_copies_do_not_multiply_frames() {
    const STORES: u64 = 10_000;
    let twice = |plan: &Plan| plan.ends == MODELS && plan.faults.duplicate > 0 && !plan.wraps;
    let mut runs = 0;
    for mut plan in plans(Scale::SHORT).into_iter().filter(twice) {
        plan.stores = STORES;
        for seed in 0..13 {
            let report = Sim::new(plan.clone(), seed).and_then(|mut sim| sim.run());
            let name = &plan.name;
            let report = report.unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
            let sent = report.channel.sent;
            assert!(sent < 10 * STORES, "{name}, seed {seed}: {sent} frames");
            runs += 1;
        }
    }
    assert!(runs > 0, "no cell with late copies");
}
