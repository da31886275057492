// SPDX-License-Identifier: Apache-2.0
//! Where the standard output goes nowhere, `fibd` says so or ends quietly, and does not panic. What can't be has a remedy.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, pipe};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use fibd::audit::Report;
use fibd::control::{Reply, Status, reply};

fn status() -> Status {
    Status {
        ports: Vec::new(),
        forwards4: true,
        forwards6: true,
        prefixes: 0,
        routes4: 0,
        routes6: 0,
        spilled: 0,
        shed: 0,
        neighbours: 0,
        next_hops: 0,
        objects: 0,
        rules: 0,
        paths: 0,
        fpm: false,
        first_ms: 0,
        memory: 0,
        counters: Vec::new(),
        memories: Vec::new(),
    }
}

/// What `fibd` does that asks this process, which answers once.
fn ask(control: &Path, arguments: &[&str], out: Stdio) -> Output {
    let _ = std::fs::remove_file(control);
    let listener = UnixListener::bind(control).expect("a socket");
    let child = Command::new(env!("CARGO_BIN_EXE_fibd"))
        .args(arguments)
        .arg("--control")
        .arg(control)
        .stdout(out)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built for this test");
    let (stream, _) = listener.accept().expect("it asks");
    let mut asked = String::new();
    let mut lines = BufReader::new(&stream);
    lines.read_line(&mut asked).expect("it asks");
    match asked.starts_with("\"status\"") {
        true => reply(stream, &Reply::Status(Box::new(status()))),
        false => reply(stream, &Reply::Audit(Report::default())),
    }
    child.wait_with_output().expect("it ends")
}

#[test]
fn an_output_that_goes_nowhere_is_no_panic() {
    let directory = tempfile::tempdir().expect("a directory");
    let control = directory.path().join("control");
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["audit"],
        &["audit", "--json"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let output = ask(&control, arguments, full.expect("it is there").into());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        let said = errors.starts_with("error: cannot write the standard output: ");
        assert!(said && errors.lines().count() == 1, "{errors}");

        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let output = ask(&control, arguments, writer.into());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*errors), (Some(0), ""));
    }
}

fn fails(arguments: &[&str], sentences: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_fibd"))
        .args(arguments)
        .output()
        .expect("it was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{arguments:?}");
    for sentence in sentences {
        assert!(errors.contains(sentence), "{arguments:?}: {errors}");
    }
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn what_is_no_switch_and_where_no_socket_can_be_has_a_remedy() {
    let run = ["run", "--unmanaged", "--port", "fibd-absent"];
    let with = |option, value| [&run[..], &[option, value]].concat();
    let directory = tempfile::tempdir().expect("a directory");
    let zeros = directory.path().join("zeros");
    std::fs::write(&zeros, [0; 4096]).expect("a file");
    for (path, sentence) in [
        ("/dev/null", "/dev/null: this is no switch"),
        ("/absent/switch", "/absent/switch can't be opened"),
        (zeros.to_str().expect("a name"), "this is no FIBNIC switch"),
    ] {
        let remedy = "give --switch the device of a switch, such as /dev/fibnic";
        fails(&with("--switch", path), &[sentence, remedy]);
    }
    fails(
        &with("--control", "/absent/socket"),
        &[
            "/absent/socket can't be had: there is no directory /absent; make it",
            "--control",
        ],
    );
    let beside = |options: &[&'static str]| [&run[..], options].concat();
    fails(
        &beside(&["--fpm-hold", "60"]),
        &["--fpm-hold: it is of no use without --fpm"],
    );
    fails(
        &beside(&["--switch", "/dev/null", "--host-rate", "5:4096"]),
        &["--host-rate: `5:4096` is no rate; write frames a second from 1 to"],
    );
    fails(
        &beside(&["--fpm", "--fpm-hold", "4"]),
        &["--fpm-hold: 4 seconds are too few; write 5"],
    );
    let control = directory.path().join("control");
    let control = control.to_str().expect("a name");
    // TEST-NET-1: nobody's.
    let elsewhere = ["--fpm", "192.0.2.1:2620", "--control", control];
    fails(
        &[&run[..], &elsewhere].concat(),
        &["at 192.0.2.1:2620", "an address of this machine"],
    );
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "precious").expect("a file");
    let path = plain.to_str().expect("a name");
    fails(&with("--control", path), &["no socket; move it away"]);
    assert_eq!(std::fs::read(&plain).expect("it is there"), b"precious");
}

/// Whoever gave a wrong name is told at once, and a device that comes later is no mistake.
#[test]
fn a_port_that_is_not_there_is_told_of_and_nobody_has_to_listen() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name: &str, errors: Stdio| {
        let control = directory.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_fibd"));
        command
            .args(["run", "--unmanaged", "--port", "fibd-absent", "--control"])
            .arg(control)
            .stdout(Stdio::piped())
            .stderr(errors);
        command.spawn().expect("it was built for this test")
    };
    let mut child = start("told", Stdio::piped());
    let mut line = String::new();
    let errors = child.stderr.take().expect("it was asked for");
    BufReader::new(errors).read_line(&mut line).expect("a line");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(
        line.starts_with("fibd: port 0: there is no device `fibd-absent`"),
        "{line}"
    );
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let mut child = start("alone", writer.into());
    let out = child.stdout.take().expect("it was asked for");
    line.clear();
    BufReader::new(out).read_line(&mut line).expect("a line");
    assert_eq!(line, "fibd follows the kernel\n");
    assert_eq!(child.try_wait().expect("its state"), None, "it runs on");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

/// It works without, but less well, and says so once.
#[test]
fn who_has_no_privileges_is_told_so_and_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let fibd = env!("CARGO_BIN_EXE_fibd");
    let made = directory.path().metadata().expect("it is there");
    let is_root = made.uid() == 0;
    let mut words = vec![fibd, "run", "--port", "lo", "--control"];
    if is_root {
        let without = "--bounding-set=-net_admin";
        words.splice(0..0, ["setpriv", without, "--inh-caps=-net_admin"]);
    }
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .arg(directory.path().join("control"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built for this test");
    let mut line = String::new();
    let out = child.stdout.take().expect("it was asked for");
    BufReader::new(out).read_line(&mut line).expect("a line");
    assert_eq!(line, "fibd follows the kernel\n");
    child.kill().expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("has no CAP_NET_ADMIN"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn what_is_wrong_with_a_command_line_is_one_line() {
    for (arguments, said) in [
        (
            &["--nope"][..],
            "--nope: there is no such option; --help lists what there is",
        ),
        (
            &["bogus"],
            "bogus: there is no such command; --help lists them",
        ),
        (
            &["audit", "--random", "x"],
            "--random: `x` is no whole number; write one such as 10",
        ),
    ] {
        let fibd = Command::new(env!("CARGO_BIN_EXE_fibd"))
            .args(arguments)
            .output();
        let output = fibd.expect("it was built for this test");
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            format!("error: {said}\n")
        );
    }
}
