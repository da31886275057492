// SPDX-License-Identifier: Apache-2.0
//! The rack on a stand-in NIC: engine, hosts, links and the ping-pong program.

mod common;

use std::path::Path;

use common::StandIn;
use rack::model::NicModel;
use rack::run::{Options, Outcome, run};
use rack::{Error, NetSpeed, Picoseconds, Topology};

fn topology(rate: &str, bytes: usize, loops: u64, seed: u64) -> Topology {
    let text = format!(
        r#"
        platform = "keio-2016"
        seed = {seed}
        [[host]]
        name = "pc1"
        nic = {{ rate = "{rate}", format = "compact" }}
        [[host]]
        name = "pc2"
        nic = {{ rate = "{rate}", format = "compact" }}
        [[cable]]
        between = ["pc1", "pc2"]
        metres = 1
        [program]
        kind = "pingpong"
        first = "pc1"
        second = "pc2"
        bytes = {bytes}
        loops = {loops}
        "#
    );
    Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound")
}

fn stand_in(speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
    Ok(Box::new(StandIn::new(speed)))
}

fn go(topology: &Topology, options: &Options) -> Outcome {
    run(topology, options, &stand_in).expect("the run ends")
}

#[test]
fn every_length_and_rate_arrives() {
    for rate in ["10g", "1g"] {
        for bytes in (4..=64).step_by(4) {
            let outcome = go(
                &topology(rate, bytes, 20, bytes as u64),
                &Options::default(),
            );
            assert_eq!(outcome.round_trips.len(), 20);
            assert_eq!(outcome.record.one_way.count, 40, "{rate}, {bytes} bytes");
        }
    }
}

#[test]
fn round_trips_are_two_one_way_times() {
    let outcome = go(&topology("10g", 4, 50, 3), &Options::default());
    let total: u64 = outcome.round_trips.iter().map(|time| time.0).sum();
    assert_eq!(total, outcome.record.one_way.sum.0);
    let stages: u64 = outcome.record.stages.iter().map(|stage| stage.sum.0).sum();
    assert_eq!(stages, total);
    assert_eq!(outcome.span.1 - outcome.span.0, Picoseconds(total));
}

#[test]
fn same_seed_same_hash_and_skipping_changes_nothing() {
    for seed in 0..4 {
        let topology = topology("10g", 8, 30, seed);
        let skipping = go(&topology, &Options::default());
        let again = go(&topology, &Options::default());
        let options = Options {
            skip_idle: false,
            ..Options::default()
        };
        let not_skipping = go(&topology, &options);
        assert_eq!(skipping.record.digest(), again.record.digest());
        assert_eq!(skipping.record.digest(), not_skipping.record.digest());
        assert_eq!(skipping.round_trips, not_skipping.round_trips);
        assert!(skipping.effort.edges < not_skipping.effort.edges);
        assert_eq!(not_skipping.effort.sleeps, 0);
    }
}

#[test]
fn another_seed_is_another_run() {
    let one = go(&topology("10g", 4, 10, 1), &Options::default());
    let two = go(&topology("10g", 4, 10, 2), &Options::default());
    assert_ne!(one.record.digest(), two.record.digest());
}

#[test]
fn one_access_a_packet_each_way() {
    let outcome = go(&topology("10g", 64, 10, 1), &Options::default());
    for count in outcome.record.accesses.values() {
        assert_eq!((count.cpu_read, count.dma_read), (0, 0));
    }
    let writes: u64 = outcome
        .record
        .accesses
        .values()
        .map(|count| count.cpu_write)
        .sum();
    assert_eq!(writes, 20);
}

#[test]
fn topologies_that_are_wrong() {
    let good = r#"platform = "keio-2016"
[[host]]
name = "a"
nic = { rate = "10g", format = "compact" }
[[host]]
name = "b"
nic = { rate = "10g", format = "compact" }
[[cable]]
between = ["a", "b"]
metres = 1
[program]
kind = "pingpong"
first = "a"
second = "b"
"#;
    Topology::parse(good, Path::new("t.toml")).expect("good");
    for (from, to, sentence) in [
        (
            "rate = \"10g\"",
            "rate = \"11g\"",
            "t.toml, line 4: no such value: `11g`; write one of 10g, 1g",
        ),
        (
            "name = \"b\"",
            "name = \"a\"",
            "t.toml, line 6: host.name: `a` is there twice; rename one",
        ),
        (
            "metres = 1\n",
            "metres = -1\n",
            "t.toml, line 10: cable.metres: -1 is no length; write 0 to 100000",
        ),
        (
            "\"b\"]",
            "\"c\"]",
            "t.toml, line 9: cable.between: there is no host `c`; the hosts are a, b",
        ),
        (
            "second = \"b\"",
            "second = \"b\"\nbytes = 5",
            "t.toml, line 15: program.bytes: 5 is not a multiple of 4 from 4 to 64",
        ),
        (
            "metres = 1",
            "meters = 1",
            "t.toml, line 10: there is no key `meters`; the keys are between, metres, faults, cut",
        ),
        (
            "name = \"a\"",
            "name = \"a\"\nlink = \"Gen2x3\"",
            "t.toml, line 4: `Gen2x3` is no PCI Express link; write Gen1 to Gen5, x, and 1, 2, 4, 8 or 16 lanes, as in Gen2x4",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        let error = Topology::parse(&text, Path::new("t.toml")).expect_err(to);
        assert!(error.is_usage());
        assert_eq!(error.to_string(), sentence);
    }
}

#[test]
fn a_platform_without_the_link_says_so() {
    let mut topology = topology("10g", 4, 1, 1);
    topology.host[0].link = Some("Gen4x8".parse().expect("a link"));
    let error = run(&topology, &Options::default(), &stand_in).expect_err("no such figure");
    assert_eq!(
        error.to_string(),
        "the platform keio-2016 publishes no store latency for Gen4x8; choose another link"
    );
}
