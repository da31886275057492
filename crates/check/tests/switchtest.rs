// SPDX-License-Identifier: Apache-2.0
//! The test of the tests: short runs pass and repeat, and a wrong bit is found.

use check::switchtest::differential::Bench;
use ipnuma_rtl::NetSpeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seed of its own for each run, or the one asked for.
fn seed() -> u64 {
    let asked = std::env::var("IPNUMA_SEED").ok();
    asked
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(rand::random)
}

fn bench(seed: u64) -> Bench {
    println!("seed {seed}");
    Bench::new(NetSpeed::TenGig, seed, None).unwrap_or_else(|error| panic!("{error}"))
}

/// Frames in, of which more than 500 leave by a port whatever the tables are; the run ends at the wrong one.
const MANY: u64 = 20_000;

#[test]
fn a_wrong_bit_is_found() {
    for run in 0..3 {
        let seed = seed().wrapping_add(run);
        let mut bench = bench(seed);
        bench.spoil_output(ChaCha8Rng::seed_from_u64(seed).random_range(0..500));
        let report = bench
            .run(MANY)
            .expect_err("one bit of one output was wrong");
        assert!(report.contains("the last frames"), "{report}");
    }
}

#[test]
fn runs_repeat() {
    let seed = seed();
    let totals = [(), ()].map(|()| {
        let mut bench = bench(seed);
        bench.run(1000).unwrap_or_else(|error| panic!("{error}"));
        (
            bench.totals().cycles,
            bench.totals().outputs,
            bench.totals().verdicts,
        )
    });
    assert_eq!(totals[0], totals[1]);
}
