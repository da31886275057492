// SPDX-License-Identifier: Apache-2.0
//! Streams: topologies with nine ports, faults and sessions, and the ideal switch beside the one in RTL.

use std::path::Path;

use rack::faults::Faults;
use rack::model::{PORTS, WIDE_PORTS};
use rack::run::{Options, rtl, run, run_stream};
use rack::topology::{Fan, Format, NicOptions, Pair, ProgramSpec, Rate};
use rack::{Error, Topology};
use wire::NetCounter;

fn fan(rate: Rate, senders: usize, stores: u64) -> Fan {
    Fan {
        platform: "keio-2016".to_owned(),
        seed: 3,
        rate,
        format: Format::Compact,
        senders,
        switch: false,
        metres: 1.0,
        bytes: 64,
        stores,
        rate_gbps: None,
        nic: NicOptions::default(),
        faults: Faults::default(),
    }
}

#[test]
fn the_ideal_switch_takes_as_long_as_the_one_in_rtl() {
    for rate in [Rate::Ten, Rate::One] {
        let pair = Pair {
            platform: "keio-2016".to_owned(),
            seed: 3,
            rate,
            format: Format::Tlp,
            metres: 2.0,
            bytes: 64,
            loops: 10,
            warmup: 1,
            nic: NicOptions::default(),
            faults: Faults::default(),
        };
        let topology = Topology::row(pair, 1).checked().expect("it is sound");
        let mut ideal = topology.clone();
        ideal.switch[0].ideal = true;
        let times = |topology: &Topology| {
            let outcome = run(topology, &Options::default(), &rtl).expect("it ends");
            outcome.round_trips
        };
        assert_eq!(times(&topology), times(&ideal), "{rate}");
    }
}

#[test]
fn a_stream_arrives_at_both_rates() {
    for (rate, senders) in [(Rate::Ten, 1), (Rate::One, 1), (Rate::One, 3)] {
        let topology = Topology::fan(fan(rate, senders, 100)).checked();
        let topology = topology.expect("it is sound");
        let outcome = run_stream(&topology, &Options::default(), &rtl).expect("it ends");
        for sender in &outcome.stream.senders {
            assert_eq!(
                (sender.arrived(), sender.missing, sender.wrong),
                (100, 0, 0)
            );
            assert_eq!(sender.latencies.len(), 100);
            assert!(!sender.peer_lost);
        }
    }
}

#[test]
fn a_dead_cable_is_told() {
    let topology = Topology::fan(fan(Rate::Ten, 1, 50)).checked();
    let mut topology = topology.expect("it is sound");
    // More than a file or an option may say.
    topology.cable[0].faults.loss = 1.0;
    // Three short time-outs.
    topology.register = [
        ("RESEND_LIMIT".to_owned(), 3),
        ("RESEND_TICKS".to_owned(), 100),
    ]
    .into();
    let outcome = run_stream(&topology, &Options::default(), &rtl).expect("it ends");
    let sender = &outcome.stream.senders[0];
    assert!(sender.peer_lost);
    assert_eq!((sender.arrived(), sender.missing, sender.wrong), (0, 50, 0));
}

/// A topology file of a stream with these lines for the switch, the cable and the program.
fn parse(switch: &str, cable: &str, program: &str, nic: &str) -> Result<Topology, Error> {
    let text = format!(
        r#"
        platform = "keio-2016"
        [register]
        WINDOW = 0x03200820
        [[host]]
        name = "pc1"
        nic = {{ rate = "10g", format = "compact", {nic} ip = "10.0.1.1" }}
        [[host]]
        name = "sink"
        nic = {{ rate = "10g", format = "compact", merge = true, ip = "10.0.8.1" }}
        [[switch]]
        name = "sw1"
        rate = "10g"
        {switch}
        port = [{{ number = 1, address = "10.0.1.2/24" }}, {{ number = 8, address = "10.0.8.2/24" }}]
        [[cable]]
        between = ["pc1", "sw1:1"]
        metres = 1
        {cable}
        [[cable]]
        between = ["sink", "sw1:8"]
        metres = 1
        [program]
        kind = "stream"
        {program}
        "#
    );
    Topology::parse(&text, Path::new("t.toml"))
}

#[test]
fn topology_files_have_wide_switches_faults_and_sessions() {
    let program = "from = [\"pc1\"]\nto = \"sink\"\nstores = 5";
    let faults = "faults = { loss = 0.1, delay_ns = 20 }";
    let topology = parse("ports = 9", faults, program, "auth = true,").expect("it is sound");
    assert_eq!(*topology.switch[0].ports.as_ref(), WIDE_PORTS);
    assert_eq!(topology.cable[0].faults.loss, 0.1);
    assert!(topology.cable[1].faults.is_none());
    assert!(
        topology.host[0].nic.reliable && topology.host[0].nic.auth && topology.host[1].nic.merge
    );
    assert!(matches!(
        topology.program.as_ref(),
        ProgramSpec::Stream {
            bytes: 64,
            stores: 5,
            rate_gbps: None,
            ..
        }
    ));
    assert_eq!(topology.register["WINDOW"], 0x0320_0820);
    for (switch, cable, program, nic, sentence) in [
        ("", "", program, "", "there is no port 8; they are 0 to 3"),
        (
            "ports = 8",
            "",
            program,
            "",
            "there is no switch of 8 ports; write 2, 4 or 9",
        ),
        (
            "ports = 9",
            "faults = { loss = 2 }",
            program,
            "",
            "cable.faults.loss: 2 is out of range; write 0 to 0.99",
        ),
        (
            "ports = 9",
            "",
            "from = [\"sink\"]\nto = \"sink\"",
            "",
            "`sink` is there twice, or receives",
        ),
        (
            "ports = 9",
            "",
            "from = [\"pc9\"]\nto = \"sink\"",
            "",
            "program.from: there is no host `pc9`",
        ),
        (
            "ports = 9",
            "",
            "from = []\nto = \"sink\"",
            "",
            "program.from: nobody sends",
        ),
        (
            "ports = 9",
            "",
            program,
            "auth = true, reliable = false,",
            "only sessions can be sealed; set reliable",
        ),
    ] {
        let error = parse(switch, cable, program, nic)
            .expect_err(sentence)
            .to_string();
        assert!(error.contains(sentence), "{error}\nhas not: {sentence}");
    }
    assert_eq!(PORTS, 4);
}

/// Two NICs on a cable, whose round trips are measured and whose resends are counted.
fn pair(rate: Rate, metres: f64, loops: u64, faults: Faults) -> Topology {
    let pair = Pair {
        platform: "keio-2016".to_owned(),
        seed: 3,
        rate,
        format: Format::Compact,
        metres,
        bytes: 64,
        loops,
        warmup: 1,
        nic: NicOptions::default(),
        faults,
    };
    Topology::row(pair, 0).checked().expect("it is sound")
}

#[test]
fn nothing_is_sent_twice_because_the_way_is_long() {
    // As long as between racks with switches that store, and longer; RESEND_TICKS is 20 or 26 us after reset.
    for (rate, kilometres) in [(Rate::One, 3.6), (Rate::Ten, 3.6), (Rate::One, 9.0)] {
        // So that somebody counts.
        let faults = Faults {
            delay_ns: 1.0,
            ..Faults::default()
        };
        let topology = pair(rate, kilometres * 1e3, 10, faults);
        let outcome = run(&topology, &Options::default(), &rtl).expect("it ends");
        for statistics in outcome.statistics.expect("the cable has faults") {
            let counts = [NetCounter::TxTimeout, NetCounter::TxResend];
            assert_eq!(counts.map(|counter| statistics.get(counter)), [0, 0]);
            assert_eq!(statistics.pace_cycles, 0, "nothing was lost");
        }
        let longest = outcome.round_trips.iter().max().expect("there are some");
        let most = 10_000.0 * kilometres + 8_000.0;
        assert!(longest.as_ns() < most, "{rate}: {longest:?}");

        // Unless nobody measures the way.
        let mut unlearnt = topology;
        unlearnt.register = [("RESEND_LIMIT".to_owned(), 0x060A)].into();
        let outcome = run(&unlearnt, &Options::default(), &rtl).expect("it ends");
        let statistics = outcome.statistics.expect("the cable has faults");
        assert!(statistics[0].get(NetCounter::TxTimeout) >= 10);
    }
}

#[test]
fn what_is_lost_on_a_short_way_is_soon_sent_again() {
    // A lone store that is lost is missed by nobody: only the time-out mends it.
    let faults = Faults {
        loss: 0.05,
        ..Faults::default()
    };
    let topology = pair(Rate::Ten, 1.0, 200, faults);
    let outcome = run(&topology, &Options::default(), &rtl).expect("it ends");
    let statistics = outcome.statistics.expect("the cable has faults");
    let timeouts = statistics.map(|nic| nic.get(NetCounter::TxTimeout));
    assert!(timeouts[0] + timeouts[1] >= 10, "{timeouts:?}");
    let mut times = outcome.round_trips;
    times.sort_unstable();
    // 20.5 us, and as much again where another one is lost.
    let slow = times[times.len() * 98 / 100];
    assert!(slow.as_ns() < 50_000.0, "{slow:?}");
}
