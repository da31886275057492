// SPDX-License-Identifier: Apache-2.0
//! `ipnuma key`, and daemons that are started with keys, without, and with --insecure.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn ipnuma(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ipnuma"));
    command
        .env("IPNUMA_DAEMON", directory.join("ipnuma/daemon.sock"))
        .env("HOME", directory)
        .env_remove("IPNUMA_DAEMON_CONFIG");
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .expect("the command was built for this test");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn a_machine_shows_its_key_and_trusts_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let (key, known) = (file("keys/key"), file("keys/known_peers"));
    let show = || output(ipnuma(directory.path()).args(["key", "--key"]).arg(&key));
    let (status, fingerprint, errors) = show();
    assert_eq!(status, Some(0), "{errors}");
    assert!(fingerprint.starts_with("sha256:"), "{fingerprint}");
    assert_eq!(fingerprint.trim().len(), "sha256:".len() + 64);
    let mode = std::fs::metadata(&key)
        .expect("it is made")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(show().1, fingerprint, "a key is made once");

    let trust = |machine: &str, fingerprint: &str| {
        let mut command = ipnuma(directory.path());
        command.args(["key", "trust", machine, fingerprint, "--known-peers"]);
        output(command.arg(&known))
    };
    for machine in ["10.0.0.2", "10.1.0.0/24", "localhost"] {
        let (status, _, errors) = trust(machine, fingerprint.trim());
        assert_eq!(status, Some(0), "{machine}: {errors}");
    }
    let lines = std::fs::read_to_string(&known).expect("it is written");
    let fingerprint = fingerprint.trim();
    assert_eq!(
        lines,
        format!(
            "10.0.0.2 {fingerprint}\n10.1.0.0/24 {fingerprint}\n127.0.0.1 {fingerprint} localhost\n"
        )
    );
    let (_, told, _) = trust("10.0.0.2", fingerprint);
    assert!(told.contains("before"), "{told}");
    let (status, _, errors) = trust("10.0.0.2", "sha256:12");
    assert_eq!(status, Some(2));
    assert!(errors.contains("64 hexadecimal digits"), "{errors}");
    assert_eq!(std::fs::read_to_string(&known).expect("it is there"), lines);
}

#[test]
fn a_daemon_for_other_machines_needs_a_key_or_says_that_it_is_insecure() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key");
    // Another address each time: one that ends has its own for a moment after its socket is gone.
    let daemon = |host: u32, more: &[&str]| {
        let address = format!("127.{}.77.{host}:3422", 1 + std::process::id() % 250);
        let mut command = ipnuma(directory.path());
        command.args(["daemon", "--background", "--management", &address]);
        // It follows a process that has ended: it goes by itself.
        let ended = Command::new("true").spawn().map(|mut child| {
            let id = child.id();
            let _ = child.wait();
            id
        });
        command.args(["--follow", &ended.expect("it starts").to_string()]);
        let known = directory.path().join("known_peers");
        if more.is_empty() {
            command.arg("--key").arg(&key);
            command.arg("--known-peers").arg(known);
        }
        output(command.args(more))
    };
    let (status, _, errors) = daemon(1, &[]);
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("`ipnuma key`") && errors.contains("--insecure"),
        "{errors}"
    );
    let gone = || {
        let socket = directory.path().join("ipnuma/daemon.sock");
        let begin = std::time::Instant::now();
        while socket.exists() {
            assert!(begin.elapsed().as_secs() < 60, "the daemon stays");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let (status, told, errors) = daemon(2, &["--insecure"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(told.contains("ready at"), "{told}");
    gone();
    output(ipnuma(directory.path()).args(["key", "--key"]).arg(&key));
    let (status, _, errors) = daemon(3, &[]);
    assert_eq!(status, Some(0), "{errors}");
    gone();
}

#[test]
fn a_disk_that_is_full_leaves_known_peers_as_they_were() {
    let directory = tempfile::tempdir().expect("a directory");
    let known = directory.path().join("known_peers");
    let fingerprint = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let (one, other) = (fingerprint("1"), fingerprint("2"));
    // So that the next line is beyond what one file may have: a block of 1,024 bytes.
    let mut lines = String::new();
    for host in 1..=11 {
        lines.push_str(&format!("10.9.0.{host} {one} a remark\n"));
    }
    std::fs::write(&known, &lines).expect("it can be written");
    let full =
        "trap '' XFSZ; ulimit -f 1; exec \"$0\" key trust 10.9.1.1 \"$1\" --known-peers \"$2\"";
    let output = Command::new("bash")
        .args(["-c", full, env!("CARGO_BIN_EXE_ipnuma"), &one])
        .arg(&known)
        .output()
        .expect("bash runs");
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("can't be written"), "{why}");
    let read = || std::fs::read_to_string(&known).expect("it is there");
    assert_eq!(read(), lines);
    let files = std::fs::read_dir(directory.path()).expect("it is there");
    assert_eq!(files.count(), 1, "half a file is left");
    // One that was torn before.
    let torn = format!("{lines}10.9.");
    std::fs::write(&known, &torn).expect("it can be written");
    let trust = |machine: &str, print: &str| {
        let mut command = ipnuma(directory.path());
        command.args(["key", "trust", machine, print, "--known-peers"]);
        self::output(command.arg(&known))
    };
    let (status, _, errors) = trust("10.9.1.1", &one);
    assert_eq!(status, Some(2), "{errors}");
    let words = ["line 12: `10.9.` is no network", "with an editor"];
    assert!(words.iter().all(|it| errors.contains(it)), "{errors}");
    assert_eq!(read(), torn);
    // A second key for one address is one party more.
    std::fs::write(&known, &lines).expect("it can be written");
    let (status, _, errors) = trust("10.9.0.1", &other);
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        errors.contains("several keys are trusted for 10.9.0.1"),
        "{errors}"
    );
    let (status, _, errors) = trust("10.9.0.0/24", &other);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
}

#[test]
fn a_disk_that_is_full_leaves_no_half_a_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key");
    let full = "trap '' XFSZ; ulimit -f 0; exec \"$0\" key --key \"$1\"";
    let made = Command::new("bash")
        .args(["-c", full, env!("CARGO_BIN_EXE_ipnuma")])
        .arg(&key)
        .output()
        .expect("bash runs");
    let why = String::from_utf8_lossy(&made.stderr);
    assert_eq!(made.status.code(), Some(2), "{why}");
    assert!(why.contains("can't be written"), "{why}");
    assert!(!key.exists());
    output(ipnuma(directory.path()).args(["key", "--key"]).arg(&key));
}
