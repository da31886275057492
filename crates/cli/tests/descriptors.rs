// SPDX-License-Identifier: Apache-2.0
//! A daemon that may have few descriptors: whoever asks for all it has leaves some to the others.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host::{Config, Device};

/// Longer than anything takes: only so that a test does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn daemon(socket: &Path) -> Child {
    let few = "ulimit -n 512; exec \"$0\" daemon --socket \"$1\"";
    let child = Command::new("bash")
        .args(["-c", few, env!("CARGO_BIN_EXE_ipnuma")])
        .arg(socket)
        .env_remove("IPNUMA_DAEMON_CONFIG")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("bash runs");
    let begun = Instant::now();
    while !socket.exists() {
        assert!(begun.elapsed() < PATIENCE, "the daemon does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_process_that_takes_all_leaves_some_descriptors_to_the_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("ipnuma/daemon.sock");
    let mut daemon = daemon(&socket);
    let config = Config {
        daemon: socket.clone(),
        ..Config::default()
    };
    let device = || Device::open(&config);
    let greedy = device().expect("a daemon");
    let mut regions = Vec::new();
    let why = loop {
        match greedy.alloc(4096) {
            Ok(region) => regions.push(region),
            Err(why) => break why.to_string(),
        }
        assert!(regions.len() < 512, "it has no end");
    };
    assert!(why.contains("raise its limit"), "{why}");
    // Others come, and see who has them.
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(device().expect("there is room for a process"));
    }
    let shown = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .arg("regions")
        .env("IPNUMA_DAEMON", &socket)
        .output()
        .expect("it runs");
    let table = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{table}");
    assert!(table.lines().count() > regions.len(), "{table}");
    // What is given back others can have.
    regions.truncate(regions.len() / 2);
    let mut had = None;
    let begun = Instant::now();
    while had.is_none() {
        assert!(begun.elapsed() < PATIENCE, "nothing is given back");
        had = others[0].alloc(4096).ok();
    }
    let _ = daemon.kill();
    let ended = daemon.wait_with_output().expect("it has ended");
    let log = String::from_utf8_lossy(&ended.stderr);
    assert!(log.contains("descriptors open"), "{log}");
}
