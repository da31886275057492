// SPDX-License-Identifier: Apache-2.0
//! The TCP offload engine in RTL and a whole Linux as its peer. They need the kernel of `tools/uml-kernel`: `./test guests`
//! builds it and runs them.

use std::path::Path;

use rack::Topology;
use rack::engine::services::Numbers;
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};
use sha2::{Digest as _, Sha256};

/// What is between the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Cable,
    Switch,
}

/// A guest `linux` with a command, and an engine, which may fetch something from it.
fn topology(between: Between, loss: f64, command: &str, fetch: &str) -> Topology {
    let ips = match between {
        Between::Cable => ["10.0.0.1", "10.0.0.2"],
        Between::Switch => ["10.0.0.1", "10.0.1.1"],
    };
    let mut text = format!(
        "platform = \"keio-2016\"\nseed = 1\n\
         [[host]]\nname = \"linux\"\nkind = \"uml\"\n\
         nic = {{ kind = \"virtio\", rate = \"10g\", ip = \"{}\" }}\ncommand = '''\n{command}\n'''\n\
         [[host]]\nname = \"engine\"\n{fetch}\nnic = {{ kind = \"toe\", rate = \"10g\", ip = \"{}\" }}\n",
        ips[0], ips[1]
    );
    let cables = match between {
        Between::Cable => vec![["linux", "engine"]],
        Between::Switch => {
            text += "[[switch]]\nname = \"sw\"\nrate = \"10g\"\nports = 2\n\
                     port = [{ number = 0, address = \"10.0.0.254/24\" }, { number = 1, address = \"10.0.1.254/24\" }]\n";
            vec![["linux", "sw:0"], ["engine", "sw:1"]]
        }
    };
    for [one, two] in cables {
        text += &format!("[[cable]]\nbetween = [\"{one}\", \"{two}\"]\nmetres = 1\n");
        if loss > 0.0 {
            text += &format!("faults = {{ loss = {loss} }}\n");
        }
    }
    text += "[program]\nkind = \"uml\"\nuntil = [\"linux\"]\n";
    Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound")
}

fn go(topology: &Topology) -> UmlOutcome {
    go_with(topology, &Options::default())
}

fn go_with(topology: &Topology, options: &Options) -> UmlOutcome {
    let outcome = run_uml(topology, options, &rtl).expect("the run ends");
    let guest = &outcome.guests[0];
    println!(
        "status {:?}\n{}{}{}",
        guest.status,
        String::from_utf8_lossy(&guest.stdout),
        String::from_utf8_lossy(&guest.stderr),
        guest.console
    );
    println!("{:?}\n{:?}", outcome.engines, outcome.faults);
    println!(
        "{} frames, {} edges, {} simulated, {:.2} s wall, {:.2} s of them guests, {:.2} s to start, hash {}",
        outcome.record.counted.0,
        outcome.effort.edges,
        outcome.simulated,
        outcome.wall_seconds,
        outcome.guest_seconds,
        outcome.start_seconds,
        outcome.digest()
    );
    assert_eq!(guest.status, Some(0));
    outcome
}

/// The first so many bytes of what the engine serves, in the guest.
fn numbers(bytes: usize, file: &str) -> String {
    format!("seq 1 100000000 | head -c {bytes} > {file}\n")
}

/// Down and up with curl, each byte compared, and the hash of what came up as the guest has it.
fn down_and_up(bytes: usize) -> String {
    format!(
        "set -e\n{make}\
         curl -sS -o /tmp/got http://engine/{bytes}\n\
         cmp /tmp/got /tmp/expected\n\
         curl -sS -H Expect: -T /tmp/expected http://engine/ > /tmp/answer\n\
         echo \"{bytes} $(sha256sum < /tmp/expected | cut -d' ' -f1)\" | cmp - /tmp/answer\n\
         cat /tmp/answer",
        make = numbers(bytes, "/tmp/expected")
    )
}

/// Both directions with these losses; what happened.
fn both_ways_with(between: Between, loss: f64, bytes: usize, options: &Options) -> UmlOutcome {
    let outcome = go_with(&topology(between, loss, &down_and_up(bytes), ""), options);
    let engine = outcome.engine("engine").expect("there is an engine");
    assert_eq!((engine.sockets.opened, engine.sockets.reset), (2, 0));
    assert!(engine.sockets.sent >= bytes as u64, "{engine:?}");
    assert!(engine.sockets.received >= bytes as u64, "{engine:?}");
    assert_eq!((engine.counts.bad, engine.counts.refused), (0, 0));
    outcome
}

fn both_ways(between: Between, loss: f64, bytes: usize) -> UmlOutcome {
    both_ways_with(between, loss, bytes, &Options::default())
}

/// The clock of an engine that has nothing to do stops, or goes on: nobody can tell.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn curl_over_a_cable_the_same_with_idle_cycles_and_without() {
    let one = both_ways(Between::Cable, 0.0, 200_000);
    let awake = Options {
        skip_idle: false,
        ..Options::default()
    };
    let two = both_ways_with(Between::Cable, 0.0, 200_000, &awake);
    assert!(two.effort.edges > one.effort.edges);
    assert_eq!(one.digest(), two.digest());
    assert_eq!(one.simulated, two.simulated);
}

/// Each cable loses one frame in a hundred, and the switch in RTL is between.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn curl_through_the_switch_with_loss() {
    let outcome = both_ways(Between::Switch, 0.01, 1_000_000);
    assert!(outcome.faults.lost > 0, "{:?}", outcome.faults);
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn ten_megabytes_through_the_switch_with_loss_twice_the_same() {
    if !skip::long!() {
        return;
    }
    let one = both_ways(Between::Switch, 0.01, 10_000_000);
    let two = both_ways(Between::Switch, 0.01, 10_000_000);
    assert!(one.faults.lost > 100, "{:?}", one.faults);
    assert_eq!(one.digest(), two.digest());
}

/// The engine opens: it asks until the guest's server is there, and has every byte.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn the_engine_fetches_from_a_server_in_the_guest() {
    const BYTES: usize = 100_000;
    let command = format!(
        "mkdir /tmp/www\n{}cd /tmp/www\n/usr/bin/python3 -c '\
         import http.server as h\n\
         h.HTTPServer((\"\", 8000), h.SimpleHTTPRequestHandler).handle_request()'\n\
         # What is under way, and was lost, goes with the machine.\n\
         sleep 3",
        numbers(BYTES, "/tmp/www/data")
    );
    let fetch = "fetch = \"linux:8000/data\"";
    let outcome = go(&topology(Between::Switch, 0.01, &command, fetch));
    let engine = outcome.engine("engine").expect("there is an engine");
    let fetched = engine.fetched.as_ref().expect("the fetch has ended");
    assert_eq!(fetched.status, "HTTP/1.0 200 OK");
    assert_eq!(fetched.bytes, BYTES as u64);
    let expected = Sha256::digest(Numbers::default().next(BYTES));
    let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(fetched.sha256, expected);
    assert_eq!(engine.sockets.opened, 1);
}

/// Echo, discard and chargen by the guest's own tools, four connections at once.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn the_small_services() {
    let command = format!(
        r#"{}exec /usr/bin/python3 -c '
import socket, threading
data = open("/tmp/data", "rb").read()
def echo():
    s = socket.create_connection(("engine", 7))
    sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
    sender.start()
    got = b"".join(iter(lambda: s.recv(65536), b""))
    sender.join()
    assert got == data, len(got)
workers = [threading.Thread(target=echo) for _ in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
s = socket.create_connection(("engine", 9))
s.sendall(data)
s.shutdown(socket.SHUT_WR)
assert s.recv(1) == b""
s = socket.create_connection(("engine", 19))
got = b""
while len(got) < 30000: got += s.recv(4096)
assert got == data[:len(got)]
s.close()
try:
    socket.create_connection(("engine", 81))
except ConnectionRefusedError:
    print("refused")
'"#,
        numbers(60_000, "/tmp/data")
    );
    let outcome = go(&topology(Between::Cable, 0.0, &command, ""));
    assert_eq!(outcome.guests[0].stdout, b"refused\n");
    let engine = outcome.engine("engine").expect("there is an engine");
    assert_eq!(engine.sockets.opened, 6);
    assert_eq!(engine.counts.orphan, 1);
}
