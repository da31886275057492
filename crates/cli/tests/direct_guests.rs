// SPDX-License-Identifier: Apache-2.0
//! Between two Linux guests no daemon is on the data's way: a connection goes on while both stand still, and so do datagrams. Needs the kernel of
//! `tools/uml-kernel`; without it this says so and ends.

use std::path::Path;
use std::process::Command;

use rack::Topology;
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};

/// The topology of `ipnuma memcached`, with this test's programs in its hosts.
fn topology(more: &[&str]) -> String {
    let arguments = [
        "memcached",
        "--print-topology",
        "--rate",
        "10g",
        "--library",
        "free",
        "--place",
        "rack",
        "--switch",
        "fibnic",
        "--transport",
        "ipnuma",
        "--length",
        "16",
        "--count",
        "1",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .args(more)
        .output()
        .expect("the command was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/direct/echo.py");
    let program = program.canonicalize().expect("it is here");
    let (mut lines, mut skipping) = (Vec::new(), false);
    for line in text.lines() {
        let run = |host| {
            let with = "/run/program/ipnuma run -- python3 /tmp/echo.py";
            let from = program.parent().expect("a folder").display();
            format!(
                "mount -t hostfs -o {from} host /mnt && cp /mnt/echo.py /tmp && exec {with} {host}"
            )
        };
        if line.starts_with("ask()") {
            lines.push(run("client"));
            skipping = true;
        } else if line.starts_with("exec ") {
            lines.push(run("server"));
        } else if line == "\"\"\"" {
            skipping = false;
        }
        if !skipping && !line.starts_with("exec ") {
            lines.push(line.to_owned());
        }
    }
    lines
        .join("\n")
        .replace("until = [\"client\"]", "until = [\"client\", \"server\"]")
}

fn run(text: &str) -> UmlOutcome {
    let topology = Topology::parse(text, Path::new("test.toml")).expect("the topology is sound");
    let outcome = run_uml(&topology, &Options::default(), &rtl).expect("the run ends");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all: Vec<_> = outcome
        .guests
        .iter()
        .map(|guest| {
            format!(
                "{}: {}{}",
                guest.name,
                said(&guest.stdout),
                said(&guest.stderr)
            )
        })
        .collect();
    for guest in &outcome.guests {
        let complaint = ["WARNING", "BUG", "Oops"].map(|word| guest.console.contains(word));
        assert_eq!(complaint, [false; 3], "{}", guest.console);
        assert_eq!(guest.status, Some(0), "{}", all.join("\n"));
    }
    println!("{:.1} s wall", outcome.wall_seconds);
    outcome
}

fn said(outcome: &UmlOutcome, name: &str) -> String {
    let guest = outcome.guest(name).expect("it is there");
    String::from_utf8_lossy(&guest.stdout).into_owned()
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_connection_goes_on_while_the_daemons_stand_still() {
    if let Err(error) = uml::kernel() {
        // CI sets this, so that a missing kernel is no success there.
        assert!(std::env::var_os("IPNUMA_UML_REQUIRED").is_none(), "{error}");
        skip::skip!("{error}");
        return;
    }
    let outcome = run(&topology(&[]));
    let (client, server) = (said(&outcome, "client"), said(&outcome, "server"));
    let mut asked = client.lines();
    let mut digest = |before| {
        let line = asked.next().expect("a line of the client's");
        line.strip_prefix(before).expect("the client's digest")
    };
    let (asked, back, within) = (digest("asked "), digest("came back "), digest("within ns "));
    // The kernel's datagrams take 2,861 ns of either guest's time each way.
    let within: u64 = within.parse().expect("a time");
    assert!(within < 4 * 2_861, "{within} ns");
    let mut lines = server.lines();
    assert_eq!(lines.next(), Some(&*format!("served {asked}")), "{server}");
    // All that the killed clients had sent.
    for _ in 0..3 {
        assert_eq!(lines.next(), Some("killed 3000 end"), "{server}");
    }
    assert_eq!(
        lines.next(),
        Some(&*format!("sent back {back}")),
        "{server}"
    );
}
