// SPDX-License-Identifier: Apache-2.0
//! Long audits: others have their turn meanwhile, they end with who asked, and there are bounds.
//!
//!     cargo test -p fibd --test audits -- --include-ignored
//!
//! Most need root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Fibd, Net, Running, missing};

/// As many addresses as there may be: seconds, at the least.
const LONG: &str = "{\"audit\":{\"random\":10000000,\"ask\":0,\"seed\":1}}\n";

fn start(fibd: &Fibd, request: &str) -> UnixStream {
    let mut stream = UnixStream::connect(&fibd.control).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn answer(stream: UnixStream) -> serde_json::Value {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// Whether the daemon has answered that it takes no audit more.
fn refused(stream: &UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut line = String::new();
    match BufReader::new(stream).read_line(&mut line) {
        Ok(_) => {
            assert!(line.contains("audits wait already"), "{line}");
            true
        }
        Err(_) => false,
    }
}

#[test]
fn what_is_too_much_for_one_audit_is_refused_before_anybody_is_asked() {
    for (option, value, most) in [
        ("--random", "10000001", "10000000"),
        ("--ask", "4294967295", "1000000"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_fibd"))
            .args(["audit", option, value, "--control", "/absent"])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        let said = errors.contains(option) && errors.contains(&format!("give {most} at most"));
        assert!(said, "{errors}");
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_long_audit_blocks_nobody_and_ends_with_its_client() {
    if let Some(why) = missing(&[]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("slices", 2);
    let fibd = net.fibd("");
    // Four wait, and one goes on if it was taken out before the fifth came; the others are refused, whichever come last.
    let mut long: Vec<_> = (0..8).map(|_| start(&fibd, LONG)).collect();
    common::eventually("those that are too many are refused", || {
        long.retain(|stream| !refused(stream));
        long.len() <= 5
    });
    // Whoever does not come by the command line is told as well.
    let reply = answer(start(
        &fibd,
        "{\"audit\":{\"random\":4294967295,\"ask\":0,\"seed\":1}}\n",
    ));
    assert!(
        reply["error"].as_str().unwrap().contains("at most"),
        "{reply}"
    );
    // What the kernel says is taken in while it goes on.
    let routes = || fibd.status()["routes4"].as_u64().unwrap();
    let before = routes();
    net.ip("route add 192.0.2.0/24 via 10.0.0.7");
    common::eventually("the route is there", || routes() == before + 1);
    let given_up = || fibd.counter("audits_given_up");
    assert_eq!((fibd.counter("audits"), given_up()), (0, 0));
    // All of them go away, and with them their audits: so many could not have ended by now.
    drop(long);
    common::eventually("they are given up", || given_up() >= 4);
    assert_eq!(fibd.counter("audits"), 0);
    // A client that is killed is no other.
    let mut client = Command::new(env!("CARGO_BIN_EXE_fibd"));
    client
        .args(["audit", "--random", "10000000", "--ask", "0"])
        .args(["--control", &fibd.control])
        .stdout(Stdio::null());
    let client = Running(client.spawn().unwrap());
    common::eventually("it is asked for", || {
        let reply = answer(start(&fibd, "\"status\"\n"));
        reply["status"].is_object()
    });
    drop(client);
    let reply = answer(start(
        &fibd,
        "{\"audit\":{\"random\":10,\"ask\":10,\"seed\":1}}\n",
    ));
    assert_eq!(reply["audit"]["differences"], 0, "{reply}");
    assert!(fibd.audit() > 5);
}

/// The kernel says more than is taken in at a time while an audit goes on: what was true then may be another thing now, and
/// there is no difference in the end.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_audit_under_changes_finds_no_difference_in_the_end() {
    if let Some(why) = missing(&[]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("moving", 2);
    let fibd = net.fibd("");
    let stream = start(
        &fibd,
        "{\"audit\":{\"random\":1000000,\"ask\":1000,\"seed\":1}}\n",
    );
    let lines = (0..3000).map(|host| {
        let to = format!("192.0.{}.{}/32", host / 100 % 5, host % 100);
        format!("route replace {to} via 10.0.{}.7\n", host % 2)
    });
    net.batch(&lines.collect::<String>());
    let reply = answer(stream);
    assert_eq!(reply["audit"]["differences"], 0, "{reply}");
    fibd.audit();
}

/// Thirty routes change a hundred times a second: each audit meets some on their way, and none of them each time.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_that_change_all_the_time_are_no_difference() {
    if let Some(why) = missing(&[]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("flapping", 2);
    let fibd = net.fibd("");
    let mut batch = net
        .within("ip")
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = batch.stdin.take().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                for route in 0..30 {
                    let _ = writeln!(
                        lines,
                        "route replace 192.0.{route}.0/24 via 10.0.{}.7",
                        round % 2
                    );
                }
                std::thread::sleep(Duration::from_millis(10));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            drop(lines);
        });
        let found = [(); 5].map(|()| {
            let reply = answer(start(
                &fibd,
                "{\"audit\":{\"random\":1000,\"ask\":100,\"seed\":1}}\n",
            ));
            reply["audit"]["differences"].as_u64().unwrap()
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(found, [0; 5]);
    });
    batch.wait().unwrap();
    fibd.audit();
}
