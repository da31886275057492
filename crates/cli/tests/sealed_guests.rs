// SPDX-License-Identifier: Apache-2.0
//! memcached between two Linux guests whose daemons have keys: the sessions of their NICs in RTL are sealed, and get new keys
//! on the way. Needs the kernel of `tools/uml-kernel`; without it this says so and ends.

mod envelope;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use envelope::result;
use rack::Topology;
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};

/// Bytes of a value.
const LENGTH: &str = "16";
/// Keys change when a side has sent so many frames with one, if they are to change in the run.
const FEW: u64 = 8;
/// How every value's answer begins on the wire.
const NEEDLE: &[u8] = b"VALUE b0";

fn ipnuma(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .output()
        .expect("the command was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Has the daemons of a topology change keys after so many frames.
fn with_new_keys(sealed: &str, rekey_frames: u64) -> String {
    let place = "\nspin_us = 0\n";
    assert_eq!(sealed.matches(place).count(), 2, "{sealed}");
    sealed.replace(place, &format!("{place}rekey_frames = {rekey_frames}\n"))
}

fn run(text: &str) -> UmlOutcome {
    let topology = Topology::parse(text, Path::new("test.toml")).expect("the topology is sound");
    let options = Options {
        keep: usize::MAX,
        ..Options::default()
    };
    let outcome = run_uml(&topology, &options, &rtl).expect("the run ends");
    for guest in &outcome.guests {
        let errors = String::from_utf8_lossy(&guest.stderr);
        let complaint = ["WARNING", "BUG", "Oops"].map(|word| guest.console.contains(word));
        assert_eq!(complaint, [false; 3], "{}", guest.console);
        assert!(
            guest.name != "client" || guest.status == Some(0),
            "{errors}\n{}",
            guest.console
        );
    }
    println!("{:.1} s wall", outcome.wall_seconds);
    outcome
}

/// Mean of the client's GETs.
fn mean_ns(outcome: &UmlOutcome) -> f64 {
    let client = outcome.guest("client").expect("it is there");
    let out = String::from_utf8_lossy(&client.stdout);
    let line = out.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("mcb said nothing: {out}"));
    let found = result(&["mcb"], line.as_bytes());
    found["ns"]["mean"].as_f64().expect("a time")
}

/// UDP payloads of the NICs' frames.
fn payloads(outcome: &UmlOutcome) -> Vec<&[u8]> {
    let frames = outcome.record.frames.iter();
    let frames = frames.map(|captured| &captured.frame.bytes[..]);
    // UDP to the port, and no TCP between the daemons.
    let ours = frames.filter(|frame| {
        frame.get(23) == Some(&17) && frame.get(36..38) == Some(&wire::UDP_PORT.to_be_bytes())
    });
    ours.map(|frame| &frame[wire::PAYLOAD_OFFSET..]).collect()
}

/// Ends of sessions: source addresses and UDP ports of the NICs' frames.
fn ends(outcome: &UmlOutcome) -> BTreeSet<Vec<u8>> {
    let frames = outcome.record.frames.iter();
    let frames = frames.map(|captured| &captured.frame.bytes[..]);
    let ours = frames.filter(|frame| {
        frame.get(23) == Some(&17) && frame.get(36..38) == Some(&wire::UDP_PORT.to_be_bytes())
    });
    ours.map(|frame| [&frame[26..30], &frame[34..36]].concat())
        .collect()
}

fn has(payload: &[u8], needle: &[u8]) -> bool {
    payload.windows(needle.len()).any(|part| part == needle)
}

/// Whether there is a kernel for guests.
fn kernel() -> bool {
    if let Err(error) = uml::kernel() {
        // CI sets this, so that a missing kernel is no success there.
        assert!(std::env::var_os("IPNUMA_UML_REQUIRED").is_none(), "{error}");
        skip::skip!("{error}");
        return false;
    }
    true
}

/// All that went from NIC to NIC was sealed.
fn assert_sealed(hidden: &[&[u8]]) {
    assert!(hidden.len() > 100, "{} frames", hidden.len());
    for payload in hidden {
        assert_eq!(payload[0], wire::SEAL_MAGIC, "{payload:02x?}");
        assert!(!has(payload, NEEDLE), "{payload:02x?}");
    }
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn memcached_between_guests_with_keys_is_sealed_on_the_wire() {
    if !kernel() {
        return;
    }
    let way = [
        "memcached",
        "--print-topology",
        "--rate",
        "10g",
        "--library",
        "free",
    ];
    let place = ["--place", "rack", "--switch", "fibnic"];
    let what = ["--transport", "ipnuma", "--length", LENGTH, "--count", "20"];
    let clear = ipnuma(&[&way[..], &place, &what].concat());
    let keyed = ipnuma(&[&way[..], &place, &what, &["--seal"]].concat());
    let sealed = with_new_keys(&keyed, FEW);

    let plain = run(&clear);
    let shown = payloads(&plain);
    assert!(shown.iter().any(|payload| has(payload, NEEDLE)));
    assert!(shown.iter().all(|payload| payload[0] != wire::SEAL_MAGIC));
    // One session for both directions, so that stores take acknowledgements along.
    assert_eq!(ends(&plain).len(), 2);

    let first = run(&sealed);
    let hidden = payloads(&first);
    assert_sealed(&hidden);
    assert_eq!(ends(&first).len(), 2, "one session, whatever keys it has");
    let changes = hidden.windows(2).filter(|two| two[0][1] != two[1][1]);
    let phases: BTreeSet<u8> = hidden.iter().map(|payload| payload[1]).collect();
    assert_eq!(phases, BTreeSet::from([0, 1]), "keys of both phases");
    println!(
        "{} frames, all sealed, {} of another phase than the one before; a GET takes {} ns, {} in the clear",
        hidden.len(),
        changes.count(),
        mean_ns(&first),
        mean_ns(&plain)
    );

    let second = run(&sealed);
    assert_eq!(first.digest(), second.digest(), "two runs are the same");

    // What the seal alone costs: 140 ns each way in the NICs, and 24 bytes more on the wire.
    // By TCP, as by UDP one GET in some returns credit, which takes the more time the sooner the next one comes.
    let by_tcp = |more: &[&str]| {
        let how = [&["--protocol", "tcp"], more].concat();
        mean_ns(&run(&ipnuma(&[&way[..], &place, &what, &how].concat())))
    };
    let (sealed, clear) = (by_tcp(&["--seal"]), by_tcp(&[]));
    println!("a GET takes {sealed} ns sealed, {clear} in the clear");
    assert!((280.0..350.0).contains(&(sealed - clear)));
}

/// The daemons' connection and the sealed sessions share a NIC and a cable, which loses frames.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn sealed_guests_share_a_cable_that_loses_frames_at_1g() {
    if !kernel() {
        return;
    }
    let way = ["memcached", "--print-topology", "--seal", "--rate", "1g"];
    let place = ["--place", "rack", "--switch", "fibnic", "--library", "free"];
    let what = ["--transport", "ipnuma", "--length", LENGTH, "--count", "50"];
    let how = ["--nic", "shared", "--loss", "0.02"];
    let outcome = run(&ipnuma(&[&way[..], &place, &what, &how].concat()));
    assert_sealed(&payloads(&outcome));
    assert!(outcome.faults.lost > 0, "{:?}", outcome.faults);
    println!("a GET takes {} ns", mean_ns(&outcome));
}

/// What a GET takes beside two wake-ups, in ns, at most: 4 us are all of it where sockets poll.
const REST_NS: f64 = 5_000.0;

/// Both sides sleep in sockets until their NIC interrupts, and each GET pays for two wake-ups.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn sealed_sockets_sleep_until_the_nic_interrupts() {
    if !kernel() {
        return;
    }
    let way = ["memcached", "--print-topology", "--seal", "--rate", "10g"];
    let place = ["--place", "direct", "--library", "free"];
    let count = 50u64;
    let counted = count.to_string();
    let what = [
        "--transport",
        "ipnuma",
        "--length",
        LENGTH,
        "--count",
        &counted,
    ];
    let polled = ipnuma(&[&way[..], &place, &what].concat());
    // On a board nothing is charged for the program's own work.
    let charged = "export IPNUMA_REQUEST_NS=$IPNUMA_APPLICATION_NS\n";
    let interrupts = "interrupts = false\n";
    assert_eq!(
        [charged, interrupts].map(|key| polled.matches(key).count()),
        [1, 2]
    );
    let slept = polled
        .replace(charged, "")
        .replace(interrupts, "interrupts = true\n");
    let outcome = run(&slept);
    for guest in &outcome.guests {
        let report = &guest.report;
        assert_eq!(report.polls, 0, "nothing stands for a core that polls");
        assert!(report.interrupts >= count, "{report:?}");
    }
    let woken = rack::waiting::Costs::published().woken_ns() as f64;
    let get = mean_ns(&outcome);
    println!(
        "a GET takes {get} ns, {} without wake-ups",
        get - 2.0 * woken
    );
    assert!((0.0..REST_NS).contains(&(get - 2.0 * woken)), "{get} ns");
}
