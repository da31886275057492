// SPDX-License-Identifier: Apache-2.0
//! Switches in the rack: topologies, the ping-pong through a row of them, routes and neighbours.

#[path = "common/switch.rs"]
mod stand_in;

use std::path::Path;

use ipnuma_rtl::NetSpeed;
use rack::faults::Faults;
use rack::model::{Hardware, NARROW_PORTS, NicModel, SwitchModel};
use rack::record::NETWORK;
use rack::run::{Options, Outcome, rtl, run};
use rack::topology::{Format, Neighbours, NicOptions, Pair, ProgramSpec, Rate};
use rack::{Error, Picoseconds, Topology};
use stand_in::{DELAY, StandInSwitch};

/// NICs in RTL, switches of a few lines.
struct StandIns;

impl Hardware for StandIns {
    fn nic(&self, speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
        rtl(speed)
    }

    fn switch(&self, speed: NetSpeed) -> Result<Box<dyn SwitchModel>, Error> {
        Ok(Box::new(StandInSwitch::new(speed)))
    }
}

fn row(rate: Rate, format: Format, switches: usize, loops: u64, seed: u64) -> Topology {
    let pair = Pair {
        platform: "keio-2016".to_owned(),
        seed,
        rate,
        format,
        metres: 50.0 * (switches + 1) as f64,
        bytes: 4,
        loops,
        warmup: 2,
        nic: NicOptions::default(),
        faults: Faults::default(),
    };
    let topology = Topology::row(pair, switches).checked();
    topology.expect("the built-in topology is sound")
}

fn go(topology: &Topology, hardware: &dyn Hardware) -> Outcome {
    run(topology, &Options::default(), hardware).expect("the run ends")
}

/// The sum of all parts, and what is constant between the NICs.
fn check_sum(outcome: &Outcome, switches: usize) {
    let record = &outcome.record;
    let total: u64 = outcome.round_trips.iter().map(|time| time.0).sum();
    assert_eq!(total, record.one_way.sum.0);
    let stages: u64 = record.stages.iter().map(|stage| stage.sum.0).sum();
    assert_eq!(stages, total);
    let inside: u64 = record.switches.values().map(|spread| spread.sum.0).sum();
    assert_eq!(record.stages[NETWORK].sum.0, record.links.sum.0 + inside);
    assert_eq!(record.switches.len(), switches);
    for spread in record.switches.values() {
        assert_eq!(spread.count, record.one_way.count);
    }
    // What is not constant in the links is the wait for an edge at each of their ends.
    let constant = outcome.constants.sum();
    let links = (switches + 1) as u64;
    assert!(record.links.min >= constant);
    assert!(record.links.max < constant + Picoseconds(links * 8_000));
}

#[test]
fn the_parts_of_a_way_through_stand_ins() {
    for (rate, period, words) in [(Rate::Ten, 6_400, 9), (Rate::One, 8_000, 72)] {
        for switches in [1, 3] {
            let outcome = go(&row(rate, Format::Compact, switches, 10, 5), &StandIns);
            check_sum(&outcome, switches);
            for spread in outcome.record.switches.values() {
                // The stand-in takes a whole frame, waits, and sends it.
                let least = (words + DELAY) * period;
                assert!(spread.min.0 >= least, "{rate}: {spread:?}");
                assert!(spread.max.0 <= least + 4 * period, "{rate}: {spread:?}");
                assert_eq!(spread.min, spread.max, "{rate}: the switch is not loaded");
            }
            assert_eq!(outcome.path, (0..switches).collect::<Vec<_>>());
            for switch in &outcome.switches {
                assert_eq!((switch.host_side.received, switch.host_side.sent), (0, 0));
                assert!(switch.host_side.written > 0);
            }
        }
    }
}

#[test]
fn neighbours_are_learned_by_arp() {
    for rate in [Rate::Ten, Rate::One] {
        let mut topology = row(rate, Format::Compact, 2, 6, 8);
        for switch in &mut topology.switch {
            switch.neighbours = Neighbours::Learn;
        }
        let outcome = go(&topology, &StandIns);
        check_sum(&outcome, 2);
        for switch in &outcome.switches {
            let side = switch.host_side;
            // At least: the packet that waited, the answer to the request; the request, the packet.
            assert!(side.received >= 2 && side.sent >= 2, "{side:?}");
            assert!(side.received < 12, "each neighbour is asked once: {side:?}");
        }
        // Once learned, it is as if they had been known from the start.
        let known = go(&row(rate, Format::Compact, 2, 6, 8), &StandIns);
        for (id, spread) in &outcome.record.switches {
            assert_eq!(spread.max, known.record.switches[id].max);
        }
    }
}

#[test]
fn same_seed_same_hash_and_skipping_changes_nothing_with_stand_ins() {
    for learn in [false, true] {
        let mut topology = row(Rate::Ten, Format::Tlp, 2, 6, 3);
        if learn {
            topology.switch[0].neighbours = Neighbours::Learn;
        }
        same_hash(&topology, &StandIns);
    }
}

fn same_hash(topology: &Topology, hardware: &dyn Hardware) {
    let skipping = go(topology, hardware);
    let again = go(topology, hardware);
    let awake = Options {
        skip_idle: false,
        ..Options::default()
    };
    let not_skipping = run(topology, &awake, hardware).expect("the run ends");
    assert_eq!(skipping.record.digest(), again.record.digest());
    assert_eq!(skipping.record.digest(), not_skipping.record.digest());
    assert_eq!(skipping.round_trips, not_skipping.round_trips);
    assert!(skipping.effort.edges < not_skipping.effort.edges);
}

/// A switch that forgets a route: its packets go to the host port, and nobody answers.
#[test]
fn a_lost_packet_is_told_and_not_waited_for() {
    let mut topology = row(Rate::Ten, Format::Compact, 2, 6, 8);
    topology.switch[0].neighbours = Neighbours::Learn;
    // Not checked again: the last switch does not know the way back to the first host.
    topology.switch[1].route.clear();
    let error = topology.clone().checked().expect_err("no route back");
    assert_eq!(
        error.to_string(),
        "program: `sw2` has no route to 10.0.0.1; add a route with a prefix that has it"
    );
    let error = run(&topology, &Options::default(), &StandIns).expect_err("the answer is lost");
    let sentence = error.to_string();
    assert!(sentence.contains("nothing more will come"), "{sentence}");
}

const GOOD: &str = r#"platform = "keio-2016"
[[host]]
name = "a"
nic = { rate = "10g", format = "compact", ip = "10.0.1.1" }
[[host]]
name = "b"
nic = { rate = "10g", format = "compact", ip = "10.0.3.1" }
[[switch]]
name = "s"
rate = "10g"
route = [{ prefix = "10.0.3.0/24", via = "10.0.2.2" }]
port = [
  { number = 0, address = "10.0.1.254/24" },
  { number = 3, address = "10.0.2.1/24" },
]
[[switch]]
name = "t"
rate = "10g"
neighbours = "learn"
route = [{ prefix = "10.0.0.0/23", via = "10.0.2.1" }]
port = [
  { number = 1, address = "10.0.3.254/24" },
  { number = 2, address = "10.0.2.2/24" },
]
[[cable]]
between = ["a", "s:0"]
metres = 1
[[cable]]
between = ["s:3", "t:2"]
metres = 1
[[cable]]
between = ["t:1", "b"]
metres = 1
[program]
kind = "pingpong"
first = "a"
second = "b"
loops = 4
"#;

#[test]
fn a_whole_topology() {
    let topology = Topology::parse(GOOD, Path::new("t.toml")).expect("good");
    let outcome = go(&topology, &StandIns);
    check_sum(&outcome, 2);
    let names: Vec<_> = outcome.switches.iter().map(|switch| &switch.name).collect();
    assert_eq!(names, ["s", "t"]);
    let (s, t) = (&outcome.switches[0], &outcome.switches[1]);
    // The switch that learns asks for the other, which answers; and for the host b.
    assert_eq!((s.host_side.received, s.host_side.sent), (1, 1));
    assert!(t.host_side.received >= 2 && t.host_side.sent >= 2);
}

#[test]
fn switches_that_are_wrong() {
    refused(&[
        (
            "name = \"t\"",
            "name = \"a\"",
            "t.toml, line 17: switch.name: `a` is there twice; rename one",
        ),
        (
            "name = \"t\"",
            "name = \"t:1\"",
            "t.toml, line 17: switch.name: `t:1` is no name; write 1 to 63 letters, digits and hyphens, none of \
             these at the ends",
        ),
        (
            "rate = \"10g\"\nroute",
            "rate = \"1g\"\nroute",
            "t.toml, line 26: cable.between: `a` is 10g and `s:0` is 1g; make the rates equal",
        ),
        (
            "number = 3",
            "number = 4",
            "t.toml, line 14: switch.port.number: there is no port 4; they are 0 to 3",
        ),
        (
            "number = 3",
            "number = 0",
            "t.toml, line 14: switch.port.number: port 0 of `s` is there twice; remove one",
        ),
        (
            "10.0.2.1/24\"",
            "10.0.1.1/23\"",
            "t.toml, line 14: switch.port.address: 10.0.1.1/23 and 10.0.1.254/24 of port 0 share addresses; \
             give each port a subnet of its own",
        ),
        (
            "10.0.2.1/24\"",
            "10.0.2.1\"",
            "t.toml, line 14: `10.0.2.1` is no address with a prefix length; write it as in 192.0.2.1/24",
        ),
        (
            "10.0.2.1/24\"",
            "10.0.2.255/24\"",
            "t.toml, line 14: `10.0.2.255/24` is no address of an interface; choose one that is neither the \
             subnet nor a broadcast, multicast or loopback address",
        ),
        (
            "10.0.2.1/24\"",
            "10.0.4.1/24\"",
            "t.toml, line 29: cable.between: `s:3` is in 10.0.4.0/24 and `t:2` in 10.0.2.0/24; a cable is one subnet",
        ),
        (
            "10.0.2.1/24\"",
            "10.0.2.2/24\"",
            "t.toml, line 29: cable.between: `s:3` and `t:2` have the same address 10.0.2.2; change one",
        ),
        (
            "ip = \"10.0.1.1\"",
            "ip = \"10.0.4.1\"",
            "t.toml, line 26: cable.between: `a` has the address 10.0.4.1, which is none of 10.0.1.0/24 at the \
             other end; set nic.ip",
        ),
        (
            "ip = \"10.0.1.1\"",
            "ip = \"10.0.1.255\"",
            "t.toml, line 26: cable.between: `a` has the address 10.0.1.255, which is none of 10.0.1.0/24 at \
             the other end; set nic.ip",
        ),
    ]);
}

#[test]
fn cables_and_routes_that_are_wrong() {
    refused(&[
        (
            "\"s:0\"",
            "\"s\"",
            "t.toml, line 26: cable.between: `s` is a switch; name its port, one of s:0, s:3",
        ),
        (
            "\"s:0\"",
            "\"s:1\"",
            "t.toml, line 26: cable.between: port 1 of `s` has no address; the ports are s:0, s:3, or add one \
             to the switch",
        ),
        (
            "\"s:0\"",
            "\"u:0\"",
            "t.toml, line 26: cable.between: there is no switch `u`; the hosts are a, b, the switches s, t",
        ),
        (
            "\"s:0\"",
            "\"c\"",
            "t.toml, line 26: cable.between: there is no host `c`; the hosts are a, b, the switches s, t",
        ),
        (
            "\"s:0\"",
            "\"s:3\"",
            "t.toml, line 26: cable.between: `a` has the address 10.0.1.1, which is none of 10.0.2.0/24 at the \
             other end; set nic.ip",
        ),
        (
            "[\"s:3\", \"t:2\"]",
            "[\"s:0\", \"t:2\"]",
            "t.toml, line 29: cable.between: `s:0` has a cable already; use another port",
        ),
        (
            "[\"s:3\", \"t:2\"]",
            "[\"s:3\", \"s:0\"]",
            "t.toml, line 29: cable.between: a cable does not join a switch to itself",
        ),
        (
            "via = \"10.0.2.2\"",
            "via = \"10.0.2.3\"",
            "t.toml, line 11: switch.route: no cable of `s` leads to the gateway 10.0.2.3; name the address at \
             the other end of one",
        ),
        (
            "prefix = \"10.0.3.0/24\"",
            "prefix = \"10.0.3.0\"",
            "t.toml, line 11: \"10.0.3.0\" is not a prefix; write address/length, as in 192.0.2.0/24",
        ),
        (
            "prefix = \"10.0.3.0/24\"",
            "prefix = \"10.0.3.1/24\"",
            "t.toml, line 11: 10.0.3.1/24 has bits set behind its prefix length; clear them",
        ),
        (
            "prefix = \"10.0.3.0/24\"",
            "prefix = \"10.0.2.0/24\"",
            "t.toml, line 11: switch.route: 10.0.2.0/24 is in 10.0.2.0/24 of port 3; remove the route",
        ),
        (
            "route = [{ prefix = \"10.0.3.0/24\", via = \"10.0.2.2\" }]",
            "",
            "t.toml, line 34: program: `s` has no route to 10.0.3.1; add a route with a prefix that has it",
        ),
        (
            "prefix = \"10.0.0.0/23\"",
            "prefix = \"10.0.0.0/24\"",
            "t.toml, line 34: program: `t` has no route to 10.0.1.1; add a route with a prefix that has it",
        ),
        (
            "ip = \"10.0.3.1\"",
            "ip = \"10.0.3.254\"",
            "t.toml, line 32: cable.between: `t:1` and `b` have the same address 10.0.3.254; change one",
        ),
        (
            "between = [\"t:1\", \"b\"]",
            "between = [\"s:0\", \"b\"]",
            "t.toml, line 32: cable.between: `s:0` has a cable already; use another port",
        ),
        (
            "second = \"b\"",
            "second = \"a\"",
            "t.toml, line 34: program: `a` is both first and second; name two hosts",
        ),
        (
            "neighbours = \"learn\"",
            "neighbours = \"guess\"",
            "t.toml, line 19: no such value: `guess`; write one of static, learn",
        ),
        (
            "port = [\n  { number = 1, address = \"10.0.3.254/24\" },",
            "prot = [\n  { number = 1, address = \"10.0.3.254/24\" },",
            "t.toml, line 21: there is no key `prot`; the keys are name, rate, ports, ideal, latency_ns, store_and_forward, \
             neighbours, control, port, route",
        ),
    ]);
}

/// Each change of the good topology is refused with its sentence.
fn refused(changes: &[(&str, &str, &str)]) {
    for &(from, to, sentence) in changes {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let error = Topology::parse(&text, Path::new("t.toml")).expect_err(to);
        assert!(error.is_usage());
        assert_eq!(error.to_string(), sentence);
    }
}

#[test]
fn packets_that_go_round() {
    // Each of the two switches believes that the other knows the way.
    let text = GOOD
        .replace("10.0.3.0/24\", via", "10.0.9.0/24\", via")
        .replace("10.0.0.0/23\", via", "10.0.0.0/8\", via")
        .replace("second = \"b\"", "second = \"c\"")
        .replace(
            "[program]",
            "[[host]]\nname = \"c\"\nnic = { rate = \"10g\", format = \"compact\", ip = \"10.0.9.1\" }\n[program]",
        );
    let error = Topology::parse(&text, Path::new("t.toml")).expect_err("round");
    assert_eq!(
        error.to_string(),
        "t.toml, line 37: program: packets from `a` to `c` come to `s` a second time; correct the routes"
    );
}

#[test]
fn rtl_switches_in_a_row() {
    for rate in [Rate::Ten, Rate::One] {
        for format in [Format::Compact, Format::Tlp] {
            for switches in [1, 4] {
                let outcome = go(&row(rate, format, switches, 4, 11), &rtl);
                check_sum(&outcome, switches);
                let mut latencies: Vec<_> = outcome
                    .record
                    .switches
                    .values()
                    .flat_map(|spread| [spread.min, spread.max])
                    .collect();
                latencies.dedup();
                assert_eq!(latencies.len(), 1, "all the same: {latencies:?}");
                for switch in &outcome.switches {
                    assert_eq!((switch.host_side.received, switch.host_side.sent), (0, 0));
                }
            }
        }
    }
}

#[test]
fn a_switch_takes_as_long_for_every_length_and_phase() {
    for rate in [Rate::Ten, Rate::One] {
        let mut latencies = Vec::new();
        for (seed, bytes) in [(1, 4), (2, 32), (3, 64), (4, 64)] {
            let mut topology = row(rate, Format::Tlp, 1, 3, seed);
            // A frame right behind an acknowledgement may start in the middle of a word.
            for host in &mut topology.host {
                host.nic.reliable = false;
            }
            let ProgramSpec::Pingpong { bytes: length, .. } = topology.program.as_mut() else {
                panic!("the row plays ping-pong");
            };
            *length = bytes;
            let outcome = go(&topology, &rtl);
            let spreads = outcome.record.switches.values();
            latencies.extend(spreads.flat_map(|spread| [spread.min, spread.max]));
        }
        latencies.dedup();
        assert_eq!(latencies.len(), 1, "{rate}: {latencies:?}");
    }
}

#[test]
fn same_seed_same_hash_and_skipping_changes_nothing_in_rtl() {
    for (rate, seed) in [(Rate::Ten, 1), (Rate::One, 2)] {
        same_hash(&row(rate, Format::Compact, 2, 5, seed), &rtl);
    }
    let mut topology = row(Rate::Ten, Format::Compact, 2, 5, 3);
    topology.switch[1].neighbours = Neighbours::Learn;
    same_hash(&topology, &rtl);
}

#[test]
fn a_switch_of_two_ports_passes_the_same_frames_at_the_same_times() {
    for (rate, seed) in [(Rate::Ten, 4), (Rate::One, 5)] {
        let mut topology = row(rate, Format::Compact, 2, 5, seed);
        let four = go(&topology, &rtl);
        for switch in &mut topology.switch {
            *switch.ports.as_mut() = NARROW_PORTS;
        }
        assert_eq!(
            go(&topology, &rtl).record.digest(),
            four.record.digest(),
            "{rate}"
        );
        same_hash(&topology, &rtl);
    }
}

#[test]
fn rtl_switches_learn_their_neighbours() {
    for rate in [Rate::Ten, Rate::One] {
        let mut topology = row(rate, Format::Compact, 2, 6, 8);
        for switch in &mut topology.switch {
            switch.neighbours = Neighbours::Learn;
        }
        let outcome = go(&topology, &rtl);
        check_sum(&outcome, 2);
        for switch in &outcome.switches {
            let side = switch.host_side;
            assert!(side.received >= 2 && side.sent >= 2, "{side:?}");
            assert!(side.received < 12, "each neighbour is asked once: {side:?}");
        }
        let known = go(&row(rate, Format::Compact, 2, 6, 8), &rtl);
        for (id, spread) in &outcome.record.switches {
            assert_eq!(spread.max, known.record.switches[id].max);
        }
    }
}
