// SPDX-License-Identifier: Apache-2.0
//! The test of the test: with the model in the place of the RTL it passes, and any bit that is
//! spoiled in any output is found.

use check::difftest::bench::{Bench, Load};
use check::difftest::dut::ModelDut;
use check::difftest::world::World;
use ipnuma_rtl::NetSpeed;
use model::Config;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seed of its own for each run, or the one asked for.
fn seed() -> u64 {
    let asked = std::env::var("IPNUMA_SEED").ok();
    asked
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(rand::random)
}

fn bench(seed: u64, speed: NetSpeed, fault_in: Option<u32>) -> Bench {
    println!("seed {seed}, {speed:?}, fault after {fault_in:?} outputs");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let config = Config {
        pages: 1024,
        completer_id: rng.random(),
        ..Config::default()
    };
    let dut_rng = ChaCha8Rng::seed_from_u64(rng.random());
    let dut = ModelDut::new(config.clone(), dut_rng, fault_in);
    Bench::new(
        Box::new(dut),
        World::new(config, &mut rng),
        speed,
        Load::Exact,
        rng,
    )
}

#[test]
fn the_model_agrees_with_itself() {
    for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
        let mut bench = bench(seed(), speed, None);
        bench.run(30_000).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(bench.never_counted(), Vec::<&str>::new());
    }
}

#[test]
fn a_spoiled_bit_is_found() {
    for run in 0..20 {
        let seed = seed().wrapping_add(run);
        let fault_in = ChaCha8Rng::seed_from_u64(seed).random_range(0..3000);
        let result = bench(seed, NetSpeed::TenGig, Some(fault_in)).run(30_000);
        let report = result.expect_err("one bit of one output was wrong");
        assert!(report.contains("the last inputs"), "{report}");
    }
}

#[test]
fn runs_repeat() {
    let seed = seed();
    let totals = [(), ()].map(|()| {
        let mut bench = bench(seed, NetSpeed::TenGig, None);
        bench.run(3000).unwrap_or_else(|error| panic!("{error}"));
        (
            bench.totals().outputs,
            bench.totals().time_ps,
            bench.counters(),
        )
    });
    assert_eq!(totals[0], totals[1]);
}
