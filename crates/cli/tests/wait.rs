// SPDX-License-Identifier: Apache-2.0
//! What a waiting program costs its processor, and what latency it pays for it, in simulated time.

mod envelope;

use std::process::Command;

use envelope::result;
use serde_json::Value;

/// What the command prints as JSON, whole.
fn ipnuma(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .arg("wait")
        .args(arguments)
        .arg("--json")
        .output()
        .expect("the command was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output.stdout
}

fn rows(printed: &[u8]) -> Vec<Value> {
    let run = result(&["wait"], printed);
    let rows = run.pointer("/waiting/rows").and_then(Value::as_array);
    rows.unwrap_or_else(|| panic!("no rows in {run:#}")).clone()
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number {path} in {value:#}"))
}

fn row<'a>(rows: &'a [Value], per_second: u64, way: &str) -> &'a Value {
    let found = rows
        .iter()
        .find(|row| row["messages_per_s"] == per_second && row["way"] == way);
    found.unwrap_or_else(|| panic!("no row of {per_second} by {way}"))
}

/// Load and mean latency of a row.
fn point(row: &Value) -> (f64, f64) {
    (number(row, "/cpu_percent"), number(row, "/latency_ns/mean"))
}

/// Interrupt and wake-up of experiments/waiting.toml.
const KERNEL_NS: f64 = 4_990.0 + 2_800.0;
/// From the store's DMA write to the interrupt's: what the NIC takes, and the lanes.
const NIC_NS: std::ops::Range<f64> = 10.0..30.0;

#[test]
fn a_program_that_waits_by_interrupts_takes_under_a_hundredth_of_a_processor() {
    let arguments = ["--messages", "100"];
    let printed = ipnuma(&arguments);
    assert_eq!(printed, ipnuma(&arguments), "the same to the last digit");
    let rows = rows(&printed);

    let (load, polled) = point(row(&rows, 1_000, "poll"));
    assert_eq!(load, 100.0);
    assert!((860.0..875.0).contains(&polled), "{polled} ns");

    let interrupted = row(&rows, 1_000, "interrupt");
    let (load, latency) = point(interrupted);
    println!("1,000 a second: {load:.3} %, {latency:.1} ns instead of {polled:.1}");
    assert!((0.8..1.0).contains(&load), "{load} %");
    assert!((8_660.0..8_690.0).contains(&latency), "{latency} ns");
    assert!(NIC_NS.contains(&(latency - polled - KERNEL_NS)));
    // Each message interrupts once, and to wait again costs no access to the NIC.
    let counts = ["interrupts", "sleeps", "armed"].map(|count| interrupted[count].as_u64());
    assert_eq!(counts, [Some(100), Some(100), Some(1)]);

    // The curve: load in proportion to the rate until it is near all, and looking first costs its time.
    for (per_second, least, most) in [(100, 0.07, 0.1), (10_000, 7.5, 9.5), (100_000, 70.0, 90.0)] {
        let (load, latency) = point(row(&rows, per_second, "interrupt"));
        assert!((least..most).contains(&load), "{per_second}: {load} %");
        assert!(latency > polled + KERNEL_NS, "{per_second}: {latency} ns");
    }
    let (load, latency) = point(row(&rows, 1_000, "adaptive"));
    assert!((5.0..7.0).contains(&load) && latency > polled + KERNEL_NS);
    // Whoever looks longer than messages are apart polls.
    let (load, latency) = point(row(&rows, 100_000, "adaptive"));
    assert!(
        load > 99.9 && (860.0..875.0).contains(&latency),
        "{latency}"
    );
}

#[test]
fn the_load_is_what_was_simulated() {
    let run = |per_second: u64, more: &[&str]| {
        let rate = per_second.to_string();
        let arguments = [
            "--per-second",
            &rate,
            "--by",
            "interrupt",
            "--messages",
            "50",
        ];
        let rows = rows(&ipnuma(&[&arguments[..], more].concat()));
        point(row(&rows, per_second, "interrupt"))
    };
    let (load, latency) = run(1_000, &[]);
    // 10 us more for each of 1,000 a second.
    let (more, later) = run(1_000, &["--cost", "wake_ns=12800"]);
    assert!(
        (later - latency - 10_000.0).abs() < 1.0,
        "{latency}, {later}"
    );
    assert!((0.9..1.1).contains(&(more - load)), "{load} %, {more} %");
    // The NIC holds its interrupts back, and a wake-up takes several messages.
    let (load, latency) = run(10_000, &[]);
    let (less, later) = run(10_000, &["--moderation-us", "500"]);
    assert!(less < load / 3.0, "{load} %, {less} %");
    assert!(later > 20.0 * latency, "{latency} ns, {later} ns");
}

#[test]
fn odd_costs_are_refused() {
    for (cost, said) in [
        ("interrupt_ns=18446744073709551615", "a second"),
        ("wake_ns=1,wake_ns=2", "is there before"),
        ("wake_ns", "is no cost"),
        ("sleep_ns=1", "there is no cost"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
            .args(["wait", "--messages", "5", "--cost", cost])
            .output()
            .expect("the command was built for this test");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{cost}: {errors}");
        assert!(errors.contains(said), "{cost}: {errors}");
    }
}
