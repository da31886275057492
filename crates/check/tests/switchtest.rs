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

/// What software fills by default must be in the large models.
#[test]
fn the_large_models_have_the_memories_of_the_default_build() {
    let depth = |name: &str| -> u32 {
        let found = verilate::FULL_TABLES.iter().find(|(it, _)| *it == name);
        found.expect("it is there").1.parse().expect("a number")
    };
    let large = fib::Config {
        v4: fib::Config4::RunVec {
            leaves: depth("V4Leaves"),
            groups: depth("V4Groups"),
            hosts: depth("V4Hosts"),
        },
        v6: fib::Config6::Trie {
            nodes: std::array::from_fn(|level| depth(&format!("V6Nodes{}", level + 1))),
            leaves: depth("V6Leaves"),
            hosts: depth("V6Hosts"),
            tcam: depth("V6TcamEntries"),
        },
    };
    assert_eq!(large, fib::Config::default());
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
