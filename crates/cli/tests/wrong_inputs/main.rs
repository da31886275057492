// SPDX-License-Identifier: Apache-2.0
//! Wrong input of every command and every kind of file: exit status 2, one line, the place and the remedy.

mod cases;

use std::path::Path;
use std::process::Command;

use cases::CASES;

/// A topology of two hosts that is right.
const TOPOLOGY: &str = r#"platform = "keio-2016"
[[host]]
name = "a"
nic = { rate = "10g" }
[[host]]
name = "b"
nic = { rate = "10g" }
[[cable]]
between = ["a", "b"]
metres = 1.0
[program]
kind = "pingpong"
first = "a"
second = "b"
"#;

/// Files of other kinds: arguments in which FILE is the file, or DIR its directory's directory; the file's name and its text;
/// the place and the remedy.
const FILES: &[(&[&str], &str, &str, &str, &str)] = &[
    (&["platform", "FILE"], "p.toml", "", "p.toml", "add it"),
    (
        &["platform", "FILE"],
        "p.toml",
        "name = \"p\"\ntitel = \"x\"\n",
        "line 2",
        "the keys are",
    ),
    (
        &["platform", "FILE"],
        "p.toml",
        "name = ",
        "line 1",
        "write",
    ),
    (&["platform", "nowhere"], "p.toml", "", "nowhere", "choose"),
    (
        &["platform", "nowhere.toml"],
        "p.toml",
        "",
        "nowhere.toml",
        "give the path of a file that is there",
    ),
    (
        &["paper", "--experiments", "DIR"],
        "x/experiment.toml",
        "title = 5\n",
        "x/experiment.toml, line 1",
        "write",
    ),
    (
        &["paper", "--experiments", "DIR"],
        "x/experiment.toml",
        "title = \"x\"\nwhat = \"x\"\n[[row]]\nname = \"x\"\nrun = { kind = \"sail\" }\n",
        "x/experiment.toml, line 5",
        "write one of",
    ),
    (
        &["paper", "--experiments", "DIR"],
        "other.toml",
        "",
        "paper.toml",
        "made like experiments/",
    ),
    (
        &["rfc2544", "--short", "--routes", "FILE"],
        "routes.txt",
        "10.0.0.0/8\n10.0.0.0/33\n",
        "routes.txt, line 2",
        "32 bits",
    ),
    (
        &["rfc2544", "--short", "--routes", "FILE"],
        "routes.txt",
        "ten\n",
        "routes.txt, line 1",
        "write address/length",
    ),
    (
        &["daemon", "--config", "FILE"],
        "daemon.toml",
        "ring_linse = 5\n",
        "line 1",
        "the keys are",
    ),
    (
        &["daemon", "--config", "FILE"],
        "daemon.toml",
        "ring_lines = \"x\"\n",
        "line 1",
        "write",
    ),
    (
        &["daemon", "--config", "FILE"],
        "daemon.toml",
        "ring_lines = 5\n",
        "ring_lines",
        "power of two from 8",
    ),
    (
        &["daemon", "--config", "nowhere.toml"],
        "daemon.toml",
        "",
        "nowhere.toml",
        "No such file",
    ),
    (
        &["platform", "/dev/zero.toml"],
        "p.toml",
        "",
        "/dev/zero.toml",
        "give the path of a file that is there",
    ),
    (
        &["rack", "/dev/zero"],
        "t.toml",
        "",
        "/dev/zero",
        "shorten it",
    ),
    (
        &["stream", "--topology", "DIR"],
        "t.toml",
        "",
        "the topology",
        "give the path of a file",
    ),
    (
        &["rack", "FILE"],
        "t.toml",
        "[[host]]\nname = \"a\"\nkind = \"uml\"\n",
        "t.toml",
        "add it",
    ),
    (&["completions", "tcsh"], "p.toml", "", "tcsh", "bash"),
    (&["man"], "p.toml", "", "DIRECTORY", "--help"),
];

#[test]
fn wrong_files_get_one_line_with_place_and_remedy() {
    let mut failures = Vec::new();
    for (arguments, name, written, place, remedy) in FILES {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        std::fs::write(&path, written).expect("it can be written");
        if name.ends_with("experiment.toml") {
            let figures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/paper.toml");
            std::fs::copy(figures, directory.path().join("paper.toml")).expect("it is there");
        }
        let (path, directory) = (path.to_string_lossy(), directory.path().to_string_lossy());
        let given = arguments.iter().map(|argument| match *argument {
            "FILE" => &*path,
            "DIR" => &*directory,
            argument => argument,
        });
        failures.extend(complaint(&given.collect::<Vec<_>>(), place, remedy));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn wrong(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .output()
        .expect("the command was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed something");
    errors
}

/// What is wrong with what is said of wrong input: one line, the place and the remedy are wanted.
fn complaint(arguments: &[&str], place: &str, remedy: &str) -> Option<String> {
    let errors = wrong(arguments);
    let good = errors.lines().count() == 1
        && errors.starts_with("error: ")
        && errors.contains(place)
        && errors.contains(remedy);
    (!good).then(|| format!("{arguments:?}: want {place:?} and {remedy:?} in {errors:?}"))
}

fn file(directory: &Path, replace: (&str, &str)) -> String {
    let path = directory.join("topology.toml");
    let text = match replace {
        ("", "") => TOPOLOGY.to_owned(),
        (from, to) => TOPOLOGY.replacen(from, to, 1),
    };
    std::fs::write(&path, text).expect("it can be written");
    path.to_string_lossy().into_owned()
}

#[test]
fn wrong_input_gets_one_line_with_place_and_remedy() {
    assert!(CASES.len() >= 40, "{} cases", CASES.len());
    let directory = tempfile::tempdir().expect("a directory");
    let mut failures = Vec::new();
    for (arguments, replace, place, remedy) in CASES {
        let path = replace.map(|replace| file(directory.path(), replace));
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|argument| match (&path, *argument) {
                (Some(path), "FILE") => path,
                (_, argument) => argument,
            })
            .collect();
        failures.extend(complaint(&arguments, place, remedy));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_is_no_text_is_named() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bytes = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    for (words, place) in [
        (
            [bytes(b"pingpong"), bytes(b"--loops"), bytes(b"\xFF")],
            "--loops: ",
        ),
        (
            [bytes(b"pingpong"), bytes(b"--auth"), bytes(b"--loops=\xFF")],
            "--loops: ",
        ),
        (
            [bytes(b"key"), bytes(b"trust"), bytes(b"\xFF")],
            "`\u{FFFD}`",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
            .args(words)
            .output();
        let output = output.expect("the command was built for this test");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        let said = errors.starts_with(&format!("error: {place}"))
            && errors.contains("; write it in UTF-8");
        assert!(said && errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for word in ["--help", "--version"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
            .arg(word)
            .stdout(full.expect("it is there"))
            .output()
            .expect("the command was built for this test");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{word}: {errors}");
        assert!(
            errors.contains("cannot write the standard output"),
            "{errors}"
        );
    }
}

#[test]
fn places_of_a_daemon_that_cannot_be_had_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("ipnuma/daemon.sock");
    for (more, place, remedy) in [
        (
            &["--management", "192.0.2.1:1"][..],
            "--management",
            "an address of this machine",
        ),
        (
            &["--management", "127.0.0.1:0", "--nic", "xdp:nosuch0"],
            "--nic: nosuch0",
            "; see",
        ),
    ] {
        let socket = socket.to_string_lossy();
        let mut arguments = vec!["daemon", "--insecure", "--socket", &socket];
        arguments.extend(more);
        assert_eq!(complaint(&arguments, place, remedy), None);
    }
}

/// A pipe that nobody writes to.
#[test]
fn nobody_waits_for_a_pipe() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a pipe");
    let path = path.to_string_lossy();
    let fingerprint = format!("sha256:{}", "0".repeat(64));
    for (arguments, remedy) in [
        (&["daemon", "--config", &path][..], "give the path"),
        (&["rfc2544", "--short", "--routes", &path], "give a file"),
        (&["key", "--key", &path], "say with --key"),
        (
            &[
                "key",
                "trust",
                "10.0.0.1",
                &fingerprint,
                "--known-peers",
                &path,
            ],
            "say with --known-peers",
        ),
    ] {
        let complaint = complaint(arguments, "no ordinary file", remedy);
        assert_eq!(complaint, None);
    }
}

#[test]
fn a_word_in_several_lines_is_told_in_one() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
            .args(arguments)
            .env("IPNUMA_DAEMON", "/nowhere/a\nb")
            .output();
        let output = output.expect("the command was built for this test");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let errors = run(&["sockets"]);
    assert!(
        errors.contains("a\\nb") && errors.lines().count() == 1,
        "{errors}"
    );
}
