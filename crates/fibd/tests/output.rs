// SPDX-License-Identifier: Apache-2.0
//! Where the standard output goes nowhere, `fibd` says so or ends quietly, and does not panic.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, pipe};
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
