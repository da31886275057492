// SPDX-License-Identifier: Apache-2.0
//! Python programs with the library preloaded, over a daemon of their own.
//!
//! A program's success proves nothing alone, for it would succeed over the kernel: the daemon must have seen as many
//! accelerated connections as the program makes.

mod support;

use std::path::Path;
use std::process::Command;

use ipc::client::Client;
use ipc::protocol::{Reply, Request, Totals};
use support::{library, python};

/// Runs a program; returns how many streams were accelerated.
fn run(program: &str) -> u64 {
    accelerated(program).streams
}

/// Runs a program; returns what was accelerated.
fn accelerated(program: &str) -> Totals {
    let directory = tempfile::tempdir().unwrap();
    let options = daemon::Options {
        socket: directory.path().join("daemon.sock"),
        ..Default::default()
    };
    let running = daemon::spawn(options).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(program);
    // Nothing in a program takes long; this is so that one that hangs does not hang everything.
    let output = Command::new("timeout")
        .args(["-k", "1", "120"])
        .arg("env")
        .arg(format!("LD_PRELOAD={}", library().display()))
        .arg(python())
        .arg(path)
        .env("IPNUMA_DAEMON", running.socket())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let client = Client::connect(running.socket(), "test").unwrap();
    let Reply::Sockets { totals, .. } = client.request(&Request::Sockets { after: 0 }).unwrap().0
    else {
        panic!("the daemon does not say what it saw");
    };
    totals
}

#[test]
fn there_is_room_for_own_descriptors_from_the_start() {
    // So that no thread of the program has to wait for it, see `socket::process::start`.
    let output = Command::new("grep")
        .args(["FDSize", "/proc/self/status"])
        .env("LD_PRELOAD", library())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let room = said
        .split_whitespace()
        .last()
        .and_then(|word| word.parse::<u32>().ok());
    assert!(room.is_some_and(|room| room > 960), "{said}");
}

#[test]
fn connections_are_shared_and_end_as_over_the_kernel() {
    assert_eq!(run("sharing.py"), 7);
}

#[test]
fn asyncio_moves_messages_of_all_sizes() {
    assert_eq!(run("streams.py"), 8);
}

#[test]
fn a_web_server_serves() {
    assert_eq!(run("web.py"), 10);
}

#[test]
fn epoll_poll_and_select_wait() {
    assert_eq!(run("waiting.py"), 12);
}

#[test]
fn an_acceptor_without_the_library_gets_everything() {
    // Announced, and given back to the kernel.
    run("unaware.py");
}

#[test]
fn connections_go_to_other_programs() {
    assert!(run("inherited.py") >= 4);
}

#[test]
fn datagrams_keep_their_bounds_and_wake_every_kind_of_wait() {
    // Each pair of sockets has a channel for either direction: one, three, two and one pair.
    assert_eq!(accelerated("datagrams.py").datagrams, 14);
}
