// SPDX-License-Identifier: Apache-2.0
//! The rack on the project's RTL.

use std::path::Path;

use rack::run::{Options, Outcome, nic_latency, rtl, run};
use rack::topology::{Format, NicOptions, Rate};
use rack::{Picoseconds, Topology};

fn topology(rate: &str, format: &str, bytes: usize, loops: u64, seed: u64) -> Topology {
    let text = format!(
        r#"
        platform = "keio-2016"
        seed = {seed}
        [[host]]
        name = "pc1"
        nic = {{ rate = "{rate}", format = "{format}" }}
        [[host]]
        name = "pc2"
        nic = {{ rate = "{rate}", format = "{format}" }}
        [[cable]]
        between = ["pc1", "pc2"]
        metres = 1
        [program]
        kind = "pingpong"
        first = "pc1"
        second = "pc2"
        bytes = {bytes}
        loops = {loops}
        warmup = 2
        "#
    );
    Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound")
}

fn go(topology: &Topology, options: &Options) -> Outcome {
    run(topology, options, &rtl).expect("the run ends")
}

#[test]
fn all_lengths_rates_and_formats() {
    for rate in ["10g", "1g"] {
        for format in ["compact", "tlp"] {
            for bytes in (4..=64).step_by(4) {
                let topology = topology(rate, format, bytes, 4, bytes as u64);
                let outcome = go(&topology, &Options::default());
                let record = &outcome.record;
                assert_eq!(record.one_way.count, 8, "{rate} {format} {bytes}");
                let total: u64 = outcome.round_trips.iter().map(|time| time.0).sum();
                assert_eq!(total, record.one_way.sum.0);
                let stages: u64 = record.stages.iter().map(|stage| stage.sum.0).sum();
                assert_eq!(stages, total);
            }
        }
    }
}

#[test]
fn same_seed_same_hash_and_skipping_changes_nothing() {
    for (rate, seed) in [("10g", 1), ("10g", 2), ("1g", 3)] {
        let topology = topology(rate, "compact", 4, 20, seed);
        let skipping = go(&topology, &Options::default());
        let again = go(&topology, &Options::default());
        let awake = Options {
            skip_idle: false,
            ..Options::default()
        };
        let not_skipping = go(&topology, &awake);
        assert_eq!(skipping.record.digest(), again.record.digest());
        assert_eq!(skipping.record.digest(), not_skipping.record.digest());
        assert_eq!(skipping.round_trips, not_skipping.round_trips);
        assert!(skipping.effort.edges < not_skipping.effort.edges);
    }
}

#[test]
fn nics_back_to_back() {
    let step = Picoseconds(1_600);
    let found = nic_latency(
        (Rate::Ten, Format::Compact),
        4,
        NicOptions::default(),
        step,
        &rtl,
    )
    .expect("it runs");
    println!("{found:?}");
    // docs/architecture.md: 113.6 ns in the worst phase.
    assert!(found.latency.max <= Picoseconds(113_600));
    assert!(
        found.latency.min > Picoseconds(58_000),
        "less than the frame takes on the wire"
    );
}
