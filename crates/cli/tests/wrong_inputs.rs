// SPDX-License-Identifier: Apache-2.0
//! Wrong input of every command and every kind of file: exit status 2, one line, the place and the remedy.

use std::path::Path;
use std::process::Command;

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

/// Arguments; a file `FILE` among them has the text; the place and the remedy that the line must have.
type Case = (
    &'static [&'static str],
    Option<(&'static str, &'static str)>,
    &'static str,
    &'static str,
);

/// Command lines. The pair is what is replaced in the topology, by what.
const CASES: &[Case] = &[
    (&["pingpong", "--rate", "5g"], None, "--rate", "10g, 1g"),
    (
        &["offload", "--policy", "8x"],
        None,
        "--policy",
        "EPOCHSxPACKETS",
    ),
    (
        &["offload", "--mix", "1024-1500"],
        None,
        "--mix",
        "multiple",
    ),
    (
        &["offload", "--corruption", "2"],
        None,
        "--corruption",
        "write 0 to less than 1",
    ),
    (
        &["offload", "--window", "1"],
        None,
        "--window",
        "8192 bytes",
    ),
    (
        &["offload", "--duration", "0"],
        None,
        "--duration",
        "0.1 to 60000",
    ),
    (&["offload", "--clock", "0"], None, "--clock", "1 to 10000"),
    (
        &["pingpong", "--format", "x"],
        None,
        "--format",
        "compact, tlp",
    ),
    (&["pingpong", "--seed", "x"], None, "--seed", "whole number"),
    (&["pingpong", "--seed", "-1"], None, "--seed", "--help"),
    (
        &["pingpong", "--loops", "0"],
        None,
        "--loops",
        "1 to 100000000",
    ),
    (
        &["pingpong", "--bytes", "5"],
        None,
        "--bytes",
        "multiple of 4 from 4 to 64",
    ),
    (
        &["pingpong", "--cable-m", "far"],
        None,
        "--cable-m",
        "such as 0.5",
    ),
    (
        &["pingpong", "--cable-m", "1000000"],
        None,
        "--cable-m",
        "write 0 to 100000",
    ),
    (
        &["pingpong", "--switches", "99"],
        None,
        "--switches",
        "write 0 to 16",
    ),
    (
        &["pingpong", "--loss", "1"],
        None,
        "--loss",
        "write 0 to 0.99",
    ),
    (
        &["pingpong", "--corrupt", "1"],
        None,
        "--corrupt",
        "write 0 to 0.99",
    ),
    (
        &["pingpong", "--delay", "1e9"],
        None,
        "--delay",
        "write 0 to 1000000",
    ),
    (
        &["pingpong", "--warmup", "9223372036854775807"],
        None,
        "warmup",
        "write 0 to 100000000",
    ),
    (
        &["pingpong", "--loss", "much"],
        None,
        "--loss",
        "such as 0.5",
    ),
    (
        &["pingpong", "--auth", "--no-resend"],
        None,
        "--auth",
        "leave one out",
    ),
    (&["pingpong", "--nonsense"], None, "--nonsense", "--help"),
    (
        &["pingpong", "--rate"],
        None,
        "--rate",
        "write one behind it",
    ),
    (
        &["stream", "--senders", "0"],
        None,
        "--senders",
        "write 1 to",
    ),
    (
        &["stream", "--senders", "x"],
        None,
        "--senders",
        "whole number",
    ),
    (
        &["stream", "--tree", "1", "--rate", "1g"],
        None,
        "--tree",
        "write --rate 10g",
    ),
    (&["stream", "--size", "66"], None, "--size", "multiple of 4"),
    (
        &["stream", "--stores", "0"],
        None,
        "--stores",
        "1 to 10000000",
    ),
    (&["stream", "--offer", "-1"], None, "--offer", "--help"),
    (
        &["stream", "--register", "PACE"],
        None,
        "--register",
        "write NAME=VALUE",
    ),
    (
        &["stream", "--short", "--stores", "5"],
        None,
        "--stores",
        "leave one out",
    ),
    (
        &["pingpong", "--warmup", "18446744073709551615"],
        None,
        "--warmup",
        "write 0 to 100000000",
    ),
    (
        &["echo", "127.0.0.1:1", "-n", "18446744073709551615"],
        None,
        "--count",
        "write 1 to 100000000",
    ),
    (
        &["echo", "127.0.0.1:1", "--warmup", "18446744073709551615"],
        None,
        "--warmup",
        "write 0 to 100000000",
    ),
    (&["echo", "127.0.0.1:0"], None, "SERVER", "127.0.0.1:PORT"),
    (
        &["mcb", "-n", "18446744073709551615"],
        None,
        "--count",
        "write at most 100000000",
    ),
    (
        &[
            "mcb",
            "--warmup",
            "18446744073709551615",
            "-c",
            "add",
            "-T",
            "tcp",
            "--total",
        ],
        None,
        "--warmup",
        "write 0 to 100000000",
    ),
    (
        &["mcb", "--keys", "18446744073709551615"],
        None,
        "--keys",
        "write 1 to 100000000",
    ),
    (&["mcb", "-p", "0"], None, "--port", "write 1 to 65535"),
    (&["mcb", "-a", ""], None, "--address", "write the name"),
    (
        &["memcached", "--count", "18446744073709551615"],
        None,
        "--count",
        "write 1 to 1000000",
    ),
    (
        &["memcached", "--length", "99999999"],
        None,
        "--length",
        "from 1 to 64000",
    ),
    (
        &["memcached", "--length", "0"],
        None,
        "--length",
        "from 1 to 64000",
    ),
    (
        &["memcached", "--length", "16,16"],
        None,
        "--length",
        "leave it out",
    ),
    (
        &["bench", "--gets", "18446744073709551615"],
        None,
        "--gets",
        "write 0 to 1000000",
    ),
    (
        &["paper", "--count", "0"],
        None,
        "--count",
        "write 1 to 1000000",
    ),
    (
        &["offload", "--window", "64,64"],
        None,
        "--window",
        "leave it out",
    ),
    (
        &["pingpong", "--waves=/"],
        None,
        "--waves",
        "the path of a file",
    ),
    (
        &["pingpong", "--trace=/nowhere/t.json"],
        None,
        "--trace",
        "the path of a file",
    ),
    (
        &["pingpong", "--pcap=/proc"],
        None,
        "--pcap",
        "the path of a file",
    ),
    (
        &["pingpong", "--pcap=x", "--trace=x"],
        None,
        "--pcap",
        "write another",
    ),
    (
        &["rfc2544", "--short", "--plot", "/dev/null/x"],
        None,
        "--plot",
        "the path of a directory",
    ),
    (
        &["offload", "--short", "--plot", "/dev/null/x"],
        None,
        "--plot",
        "the path of a directory",
    ),
    (
        &["paper", "--html", "/nowhere/x.html"],
        None,
        "--html",
        "the path of a file",
    ),
    (
        &["memcached", "--keep", "/dev/null/x"],
        None,
        "--keep",
        "the path of a directory",
    ),
    (
        &["man", "/dev/null/x"],
        None,
        "DIRECTORY",
        "the path of a directory",
    ),
    (
        &["rfc2544", "--short", "--routes", "/dev/zero"],
        None,
        "--routes",
        "give a file",
    ),
    (
        &["pingpong", "--bytes", "4\n5"],
        None,
        "--bytes",
        "write one such as 10",
    ),
    (&["echo", "a\nb:7"], None, "SERVER", "write one such as"),
    (
        &["stream", "--senders", "-1"],
        None,
        "--senders",
        "from 0 on",
    ),
    (
        &["stream", "--offer", "-12.5"],
        None,
        "--offer",
        "from 0 on",
    ),
    (&["pingpong", "extra"], None, "`extra`", "leave it out"),
    (&["pingpong", "--loss="], None, "--loss", "such as 0.5"),
    (&["pingpong", "--delay="], None, "--delay", "such as 0.5"),
    (&["stream", "--offer", ""], None, "--offer", "such as 0.5"),
    (&[""], None, "the command", "ipnuma --help"),
    (
        &["fibd", "run", "--port", ""],
        None,
        "--port",
        "write 1 to 15",
    ),
    (
        &["fibd", "run", "--port", "a b"],
        None,
        "--port",
        "write 1 to 15",
    ),
    (
        &["fibd", "run", "--port", "sixteen_letters_"],
        None,
        "--port",
        "write 1 to 15",
    ),
    (
        &["fibd", "run", "--port", "a", "--port", "a"],
        None,
        "--port",
        "leave one out",
    ),
    (
        &["fibd", "run", "--port", "a", "--table", "0"],
        None,
        "--table",
        "write 1 to",
    ),
    (
        &["fibd", "run", "--port", "a", "--buffer", "0"],
        None,
        "--buffer",
        "write 4096 to",
    ),
    (&["daemon", "--follow", "0"], None, "--follow", "write 1 to"),
    (
        &[
            "daemon",
            "--management",
            "127.0.0.1:1",
            "--insecure",
            "--key",
            "x",
        ],
        None,
        "--insecure",
        "leave one out",
    ),
    (
        &["daemon", "--socket", ""],
        None,
        "--socket",
        "write one behind it",
    ),
    (&["sockets", "--watch=0"], None, "--watch", "write 1 to"),
    (
        &["stream", "--register", "PACE=1", "--register", "PACE=2"],
        None,
        "--register",
        "leave one out",
    ),
    (
        &["switch", "--tap", "a b", "--port", "10.0.0.1/24"],
        None,
        "--tap",
        "without blanks",
    ),
    (
        &["switch", "--tap", "a%d", "--port", "10.0.0.1/24"],
        None,
        "--tap",
        "without blanks",
    ),
    (&["key", "--key", "/"], None, "/", "say with --key"),
    (
        &["key", "--key", "/dev/null/key"],
        None,
        "/dev/null/key",
        "say with --key",
    ),
    (
        &[
            "key",
            "trust",
            "10.0.0.1/24",
            "sha256:0000000000000000000000000000000000000000000000000000000000000000",
        ],
        None,
        "10.0.0.1/24",
        "10.0.0.0/24",
    ),
    (
        &[
            "key",
            "trust",
            "a\nb",
            "sha256:0000000000000000000000000000000000000000000000000000000000000000",
        ],
        None,
        "`a\\nb`",
        "write an address",
    ),
    (
        &[
            "key",
            "trust",
            "10.0.0.1",
            "sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "--known-peers",
            "/",
        ],
        None,
        "/",
        "say with --known-peers",
    ),
    (&["nonsense"], None, "nonsense", "ipnuma --help"),
    (
        &["paper", "--only", "table-9.9"],
        None,
        "--only",
        "choose from",
    ),
    (
        &["paper", "--loops", "0"],
        None,
        "--loops",
        "1 to 100000000",
    ),
    (
        &["paper", "--brief", "--json"],
        None,
        "--brief",
        "leave one out",
    ),
    (
        &["rfc2544", "--ports", "9"],
        None,
        "--ports",
        "write 2 to 4",
    ),
    (
        &["rfc2544", "--sizes", "10"],
        None,
        "--sizes",
        "write 64 to 9216",
    ),
    (&["rfc2544", "--test", "x"], None, "--test", "throughput"),
    (
        &["rfc2544", "--family", "v5"],
        None,
        "--family",
        "v4, v6, both",
    ),
    (
        &["rfc2544", "--routes", "0"],
        None,
        "--routes",
        "choose 1 to",
    ),
    (
        &["memcached", "--loss", "1"],
        None,
        "--loss",
        "write 0 to 0.99",
    ),
    (
        &["memcached", "--count", "0"],
        None,
        "--count",
        "write 1 to 1000000",
    ),
    (&["memcached", "--cost", "x"], None, "--cost", "NAME=NS"),
    (
        &["memcached", "--cost", "x_ns=1"],
        None,
        "--cost",
        "choose from",
    ),
    (&["memcached", "--place", "x"], None, "--place", "loopback"),
    (
        &["memcached", "--command", "x"],
        None,
        "--command",
        "set, get, add",
    ),
    (
        &["bench", "--loops", "0"],
        None,
        "--loops",
        "1 to 100000000",
    ),
    (
        &["daemon", "--management", "x"],
        None,
        "--management",
        "192.0.2.1:3422",
    ),
    (
        &["sockets", "--watch", "x"],
        None,
        "--watch",
        "whole number",
    ),
    (
        &["regions", "--revoke", "x"],
        None,
        "--revoke",
        "whole number",
    ),
    (
        &["pingpong", "--topology", "FILE"],
        Some(("rate = \"10g\"", "rate = \"5g\"")),
        "line 4",
        "10g, 1g",
    ),
    (
        &["pingpong", "--topology", "FILE"],
        Some(("metres", "meters")),
        "line 10",
        "the keys are",
    ),
    (
        &["pingpong", "--topology", "FILE"],
        Some(("metres = 1.0", "metres = \"x\"")),
        "line 10",
        "write",
    ),
    (
        &["pingpong", "--topology", "FILE"],
        Some(("platform = \"keio-2016\"", "")),
        "platform",
        "add it",
    ),
    (
        &["pingpong", "--topology", "FILE"],
        Some(("[\"a\", \"b\"]", "[\"a\", \"c\"]")),
        "line 9",
        "the hosts are a, b",
    ),
    (
        &["pingpong", "--topology", "FILE"],
        Some(("first = \"a\"", "first = \"b\"")),
        "program",
        "name two hosts",
    ),
    (
        &["pingpong", "--topology", "FILE"],
        Some(("name = \"b\"", "name = \"a\"")),
        "host.name",
        "rename one",
    ),
    (
        &["stream", "--topology", "FILE"],
        Some(("metres = 1.0", "metres = -1.0")),
        "line 10",
        "write 0 to 100000",
    ),
    (
        &["stream", "--loss", "2", "--topology", "FILE"],
        Some(("", "")),
        "--loss",
        "write 0 to 0.99",
    ),
    (
        &["rack", "FILE"],
        Some(("kind = \"pingpong\"", "kind = \"uml\"\nlimit_s = 1")),
        "line",
        "the keys are",
    ),
];

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
        "give the path of one",
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
