// SPDX-License-Identifier: Apache-2.0
//! What sessions must hold, in simulated time: no cost without loss, little with it, no collapse with many senders.

mod envelope;

use std::process::Command;

use envelope::result;
use serde_json::Value;

fn ipnuma(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .arg("--json")
        .output()
        .expect("the command was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    result(arguments, &output.stdout)
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number {path} in {value:#}"))
}

/// One cycle of the network clock at 10G, ns.
const CYCLE: f64 = 6.4;

#[test]
fn acknowledgements_cost_nothing_that_counts() {
    for more in [&["--no-merge"][..], &[]] {
        let arguments = [&["stream", "--stores", "2000", "--ideal"], more].concat();
        let run = ipnuma(&arguments);
        let share = number(&run, "/share_of_ideal");
        println!("{more:?}: {share:.4} of the goodput without sessions");
        assert!(share >= 0.98, "{more:?}: {share}");
        assert_eq!(number(&run, "/stream/sessions/resends"), 0.0);
        assert!(number(&run, "/stream/sessions/acknowledgements") > 0.0);
    }
}

#[test]
fn sessions_do_not_move_the_latency() {
    for format in ["compact", "tlp"] {
        let run = |more: &[&str]| {
            let arguments = [&["pingpong", "--loops", "50", "--format", format], more].concat();
            number(&ipnuma(&arguments), "/one_way_ns/mean")
        };
        let (with, without) = (run(&[]), run(&["--no-resend"]));
        println!("{format}: {with:.2} ns in sessions, {without:.2} ns without");
        assert!(
            (with - without).abs() <= CYCLE,
            "{format}: {with} and {without}"
        );
    }
}

#[test]
fn one_frame_lost_in_a_thousand_costs_little() {
    let run = |loss: &str| ipnuma(&["stream", "--stores", "8000", "--no-merge", "--loss", loss]);
    let (sound, lossy) = (run("0"), run("0.001"));
    let total = "/stream/goodput/total_gbps";
    let share = number(&lossy, total) / number(&sound, total);
    let p99 = number(&lossy, "/stream/latency_ns/p99");
    println!("{share:.4} of the goodput, p99 {p99:.0} ns");
    assert!(number(&lossy, "/stream/faults/lost") > 0.0);
    assert!(share >= 0.9, "{share}");
    assert!(p99 < 60_000.0, "{p99} ns");
}

#[test]
fn eight_senders_share_a_port() {
    for more in [&["--no-merge"][..], &[]] {
        let arguments = ["stream", "--senders", "8", "--stores", "400", "--ideal"];
        let run = ipnuma(&[&arguments, more].concat());
        let share = number(&run, "/share_of_ideal");
        let jain = number(&run, "/stream/goodput/jain");
        println!("{more:?}: {share:.4} of the port, Jain {jain:.4}");
        assert!(share >= 0.85, "{more:?}: {share}");
        assert!(jain >= 0.95, "{more:?}: {jain}");
    }
}

/// At 1G the words of nine ports are more than 64 bits.
#[test]
fn eight_senders_share_a_port_of_1g() {
    let run = ipnuma(&["stream", "--senders", "8", "--stores", "50", "--rate", "1g"]);
    assert_eq!(number(&run, "/stream/arrived"), 400.0);
    let jain = number(&run, "/stream/goodput/jain");
    assert!(jain >= 0.95, "{jain}");
}

#[test]
fn every_fault_is_mended_and_repeatable() {
    let faults = [
        "--loss",
        "0.02",
        "--corrupt",
        "0.02",
        "--duplicate",
        "0.02",
        "--reorder",
        "0.02",
    ];
    for more in [
        &[][..],
        &["--format", "tlp"],
        &["--auth"],
        &["--delay", "800"],
    ] {
        let arguments = [&["stream", "--stores", "1500"], &faults[..], more].concat();
        let run = ipnuma(&arguments);
        assert_eq!(number(&run, "/stream/arrived"), 1_500.0);
        assert!(number(&run, "/stream/sessions/resends") > 0.0);
        assert_eq!(
            run["stream"]["run_hash"],
            ipnuma(&arguments)["stream"]["run_hash"]
        );
    }
    let run = ipnuma(&[&["pingpong", "--loops", "300"], &faults[..]].concat());
    assert!(number(&run, "/sessions/resends") > 0.0);
    assert!(number(&run, "/sessions/timeouts") > 0.0);
}

#[test]
fn the_cost_of_seals_is_told() {
    let run = ipnuma(&["pingpong", "--loops", "50", "--auth"]);
    let cost = number(&run, "/seal_ns");
    println!("a seal costs {cost} ns");
    assert!(cost > 0.0 && cost < 400.0, "{cost}");
}

/// Hosts anywhere in a tree of switches; with IPNUMA_LONG=1 eight trees, and long enough for all to settle.
#[test]
fn hosts_of_random_trees_get_their_shares() {
    let (trees, stores) = match std::env::var_os("IPNUMA_LONG") {
        Some(_) => (1..=8, "2000"),
        None => (1..=1, "300"),
    };
    for tree in trees {
        let tree = tree.to_string();
        let arguments = ["stream", "--tree", &tree, "--stores", stores, "--no-merge"];
        let run = ipnuma(&[&arguments[..], &["--ideal"]].concat());
        let (jain, share) = (
            number(&run, "/stream/goodput/jain"),
            number(&run, "/share_of_ideal"),
        );
        println!("tree {tree}: Jain's index {jain:.4}, {share:.4} of an ideal switch's goodput");
        assert!(jain >= 0.9 && share >= 0.85, "tree {tree}: {jain}, {share}");
        assert_eq!(number(&run, "/stream/missing"), 0.0);
        assert_eq!(number(&run, "/stream/wrong"), 0.0);
    }
}
