// SPDX-License-Identifier: Apache-2.0
//! The examples, each as two processes with a daemon.

mod wrong_tokens;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the two sides of an example.
fn pair(daemon: &daemon::Running, sides: [&[String]; 2]) -> [String; 2] {
    let start = |side: &[String]| {
        let mut command = Command::new(&side[0]);
        command
            .args(&side[1..])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .stdin(Stdio::null());
        command.env("IPNUMA_DAEMON", daemon.socket());
        command
            .env("IPNUMA_CONFIG", "/dev/null")
            .env_remove("IPNUMA_BACKEND");
        Running(command.spawn().expect("the example starts"))
    };
    let mut running = sides.map(start);
    running.each_mut().map(|side| {
        let mut out = String::new();
        let mut pipe = side.0.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut pipe, &mut out).expect("text");
        let status = side.0.wait().expect("it ends");
        assert!(status.success(), "{status}: {out}");
        out
    })
}

/// Runs all examples of a directory.
fn examples(daemon: &daemon::Running, examples: &Path) {
    let shared = tempfile::tempdir().expect("a directory");
    let name = |name: &str| examples.join(name).display().to_string();
    let file = |name: &str| shared.path().join(name).display().to_string();
    let sides = |program: &str, first: &str, second: &str, place: &str, count: &str| {
        let start = |side: &str| [name(program), side.into(), place.into(), count.into()];
        pair(daemon, [&start(first), &start(second)])
    };
    let here = shared.path().display().to_string();
    let out = sides("pingpong", "pong", "ping", &here, "2000");
    assert!(out[1].starts_with("2000 round trips: median "), "{out:?}");
    let out = sides("kvpush", "reader", "writer", &file("table"), "20000");
    assert!(out[0].contains("gets, all whole"), "{out:?}");
    assert_eq!(out[1], "20000 writes pushed\n");
    let out = sides("ring", "receive", "send", &file("messages"), "20000");
    assert!(out[0].starts_with("20000 messages of "), "{out:?}");
    assert_eq!(out[1], "20000 messages sent\n");
}

/// Where cargo puts the examples beside these tests.
fn built() -> PathBuf {
    let executable = std::env::current_exe().expect("this test has a name");
    let built = executable
        .parent()
        .and_then(Path::parent)
        .expect("tests are in target/PROFILE/deps")
        .join("examples");
    for name in ["pingpong", "kvpush", "ring"] {
        assert!(
            built.join(name).exists(),
            "{} is not built: run all tests of the package, or cargo build -p host --examples",
            built.join(name).display()
        );
    }
    built
}

fn daemon(directory: &Path) -> daemon::Running {
    let options = daemon::Options {
        socket: directory.join("daemon.sock"),
        ..daemon::Options::default()
    };
    daemon::spawn(options).expect("the daemon starts")
}

#[test]
fn examples_run_as_two_processes() {
    let directory = tempfile::tempdir().expect("a directory");
    examples(&daemon(directory.path()), &built());
}

#[test]
fn wrong_tokens_are_told_with_their_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let daemon = daemon(directory.path());
    let built = built();
    wrong_tokens::are_refused(&built, &built, &daemon);
}
