// SPDX-License-Identifier: Apache-2.0
//! Python programs under a policy: what it leaves to the kernel arrives there and is counted, all else is accelerated.

mod support;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use ipc::client::Client;
use ipc::protocol::{Fallback, Reply, Request, Totals};
use support::{library, python};

/// Two ports that nobody had a moment ago, for TCP.
fn ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

struct Ran {
    output: Output,
    totals: Totals,
    fallbacks: BTreeMap<Fallback, u64>,
}

impl Ran {
    fn errors(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn by_policy(&self) -> u64 {
        self.fallbacks.get(&Fallback::Policy).copied().unwrap_or(0)
    }
}

/// Runs the program under a policy with a daemon of its own. None: there is no policy.
fn run(policy: Option<&str>, arguments: &[&str]) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let options = daemon::Options {
        socket: directory.path().join("daemon.sock"),
        ..Default::default()
    };
    let running = daemon::spawn(options).unwrap();
    let file = directory.path().join("policy");
    // Nothing takes long; this is so that a program that hangs does not hang everything.
    let mut command = Command::new("timeout");
    command
        .args(["-k", "1", "120", "env"])
        .arg(format!("LD_PRELOAD={}", library().display()))
        .arg(python())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/policy.py"))
        .args(arguments)
        .env("IPNUMA_DAEMON", running.socket())
        .env("IPNUMA_POLICY", "");
    if let Some(policy) = policy {
        std::fs::write(&file, policy).unwrap();
        command.env("IPNUMA_POLICY", &file);
    }
    let output = command.output().unwrap();
    let client = Client::connect(running.socket(), "test").unwrap();
    let ask = |request| client.request(&request).unwrap().0;
    let (Reply::Sockets { totals, .. }, Reply::Fallbacks(fallbacks)) =
        (ask(Request::Sockets { after: 0 }), ask(Request::Fallbacks))
    else {
        panic!("the daemon does not say what it saw");
    };
    let ran = Ran {
        output,
        totals,
        fallbacks: fallbacks.into_iter().collect(),
    };
    assert!(ran.output.status.success(), "{policy:?}: {}", ran.errors());
    ran
}

#[test]
fn without_a_policy_everything_is_accelerated() {
    let ran = run(None, &["0"]);
    assert_eq!((ran.totals.streams, ran.totals.datagrams), (2, 2));
    assert_eq!(ran.by_policy(), 0);
    assert_eq!(ran.errors(), "");
}

#[test]
fn a_port_that_is_denied_is_the_kernels_and_all_others_are_not() {
    let [denied, allowed] = ports();
    let (denied, allowed) = (denied.to_string(), allowed.to_string());
    // Both ends, so the client of datagrams is decided by its first one.
    let ran = run(Some(&format!("kernel port {denied}")), &[&denied, &allowed]);
    assert_eq!((ran.totals.streams, ran.totals.datagrams), (2, 2));
    // Listener and client, of TCP and of UDP.
    assert_eq!(ran.by_policy(), 4, "{:?}", ran.fallbacks);
    // Of the two parts either is enough.
    for (part, counted) in [("listen", 2), ("connect", 2)] {
        let ran = run(
            Some(&format!("kernel {part} port {denied}")),
            &[&denied, &allowed],
        );
        assert_eq!(ran.totals.streams, 2, "{part}");
        assert_eq!(ran.by_policy(), counted, "{part}: {:?}", ran.fallbacks);
    }
}

#[test]
fn an_address_or_a_program_can_be_denied_and_an_earlier_line_wins() {
    let name = python().canonicalize().unwrap();
    let name = name.file_name().unwrap().to_str().unwrap();
    for (policy, streams) in [
        ("kernel 127.0.0.0/8".to_owned(), 0),
        ("kernel 127.0.0.2".to_owned(), 2),
        (format!("kernel program {name}"), 0),
        ("kernel program python*".to_owned(), 0),
        ("kernel program other".to_owned(), 2),
        (format!("ipnuma program {name}\nkernel"), 2),
    ] {
        let ran = run(Some(&policy), &["0"]);
        assert_eq!(ran.totals.streams, streams, "{policy}");
        assert_eq!(ran.by_policy() > 0, streams == 0, "{policy}");
    }
}

#[test]
fn replies_to_an_address_that_is_denied_go_by_the_kernel() {
    // A server of datagrams that is accelerated, but for what it sends to clients' ports.
    let ran = run(Some("kernel connect 127.0.0.1"), &["0"]);
    assert_eq!((ran.totals.streams, ran.totals.datagrams), (0, 0));
}

#[test]
fn a_wrong_policy_is_named_once_and_leaves_everything_to_the_kernel() {
    let ran = run(Some("# mine\nkernel prot 80\n"), &["0"]);
    let said = ran.errors();
    let [line] = &said.lines().collect::<Vec<_>>()[..] else {
        panic!("not one line: {said}");
    };
    assert!(line.starts_with("ipnuma: ") && line.contains("policy, line 2: `prot`"));
    assert!(line.contains("write ") && line.ends_with("sockets are the kernel's"));
    assert_eq!((ran.totals.streams, ran.totals.datagrams), (0, 0));
    assert!(ran.by_policy() > 0);
}

#[test]
fn a_message_that_nobody_reads_neither_ends_nor_holds_up_the_program() {
    use std::io::Write;

    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy");
    std::fs::write(&policy, "wrong").unwrap();
    let run = |errors: std::io::PipeWriter| {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 5"]).stderr(errors);
        command
            .env("LD_PRELOAD", library())
            .env("IPNUMA_POLICY", &policy);
        command.status().unwrap().code()
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(run(writer), Some(5), "nobody reads");
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // As much as a pipe holds, unless somebody has changed that.
    writer.write_all(&[b'x'; 1 << 16]).unwrap();
    assert_eq!(run(writer), Some(5), "it is full");
}

#[test]
fn who_is_denied_altogether_may_have_the_kernels_io_uring() {
    // SAFETY: without a place for its parameters no ring is made.
    unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, 0) };
    if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        skip::skip!("this kernel has no io_uring");
        return;
    }
    let denied = run(Some("kernel"), &["ring", "0"]);
    assert_eq!(denied.output.stdout, b"the kernel's\n");
    assert_eq!(denied.totals.streams, 0);
    assert_eq!(denied.fallbacks.get(&Fallback::IoUring), None);
    assert!(denied.by_policy() > 0);
    let others = run(Some("kernel listen"), &["ring", "0"]);
    assert_eq!(others.output.stdout, b"none\n");
}
