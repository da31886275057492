// SPDX-License-Identifier: Apache-2.0
//! `ipnuma mcb` against the memcached of this machine; `ipnuma memcached` and chapter 6 in Linux hosts.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn ipnuma(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(arguments)
        .output()
        .expect("the command was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(arguments: &[&str]) -> Value {
    let output = ipnuma(arguments);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// A port that is free for TCP and UDP.
fn free_port() -> u16 {
    for _ in 0..100 {
        let stream = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = stream.local_addr().expect("it has one").port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("found no port that is free for TCP and UDP");
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn mcb_measures_the_memcached_of_this_machine() {
    let port = free_port().to_string();
    let child = Command::new("memcached")
        .args(["-u", "root", "-l", "127.0.0.1", "-p", &port, "-U", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Server(child.expect("memcached is installed; tools/setup brings it"));
    let patience = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(Instant::now() < patience, "memcached does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    for (command, transport) in [("set", "UDP"), ("get", "udp"), ("add", "tcp")] {
        let more = [
            "-T",
            transport,
            "-n",
            "50",
            "-l",
            "100",
            "--timeout-ms",
            "30000",
            "-t",
            "2",
        ];
        let place = ["mcb", "-c", command, "-a", "127.0.0.1", "-p", &port];
        let arguments = [&place[..], &more].concat();
        let found = json(&[&arguments[..], &["--json"]].concat());
        assert_eq!(
            (found["command"].as_str(), found["count"].as_u64()),
            (Some(command), Some(50))
        );
        assert!(found["ns"]["mean"].as_f64() >= found["ns"]["min"].as_f64());
        assert!(found["ns"]["p50"].as_u64() <= found["ns"]["p99"].as_u64());
        let words = text(&ipnuma(&arguments).stdout);
        assert!(
            words.starts_with(&format!("50 x {} of 100 bytes", command.to_uppercase())),
            "{words}"
        );
    }
}

#[test]
fn mcb_says_what_is_wrong() {
    let port = free_port().to_string();
    let nobody = ipnuma(&["mcb", "-T", "tcp", "-p", &port]);
    assert_eq!(nobody.status.code(), Some(1));
    let said = text(&nobody.stderr);
    assert!(
        said.starts_with(&format!(
            "error: cannot reach TCP port {port} of 127.0.0.1: "
        )),
        "{said}"
    );
    let long = ipnuma(&["mcb", "-l", "70000"]);
    assert_eq!(long.status.code(), Some(2));
    assert_eq!(
        text(&long.stderr),
        "error: --length: 70000 is not from 1 to 64000, what memcached takes by UDP\n"
    );
}

#[test]
fn wrong_options_and_no_kernel() {
    for (arguments, sentence) in [
        (
            &["memcached", "--loss", "1.5"][..],
            "error: --loss: 1.5 is no probability; write 0 to 0.99\n",
        ),
        (
            &["memcached", "--count", "0"],
            "error: --count: write at least 1\n",
        ),
    ] {
        let output = ipnuma(arguments);
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(2), sentence.to_owned())
        );
    }
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .env("IPNUMA_UML_KERNEL", "/nonexistent")
        .arg("memcached")
        .output()
        .expect("the command was built for this test");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: memcached cannot be run: it needs the kernel of the hosts; tools/uml-kernel builds it, once, in some minutes\n"
    );
}

#[test]
fn topologies_are_printed() {
    let output = ipnuma(&[
        "memcached",
        "--print-topology",
        "--place",
        "racks",
        "--transport",
        "socket",
    ]);
    let found = text(&output.stdout);
    assert_eq!(found.matches("[program]").count(), 2, "{found}");
    assert_eq!(found.matches("[[switch]]").count(), 8, "{found}");
    assert_eq!(found.matches("latency_ns = 4072").count(), 4, "{found}");
}

/// Whether the hosts have a kernel here; `./test` builds it before.
fn kernel() -> bool {
    match uml::kernel() {
        Ok(_) => true,
        Err(error) => {
            // CI sets this, so that a missing kernel is no success there.
            assert!(std::env::var_os("IPNUMA_UML_REQUIRED").is_none(), "{error}");
            println!("left out: {error}");
            false
        }
    }
}

#[test]
fn two_runs_are_one() {
    if !kernel() {
        return;
    }
    let run = || {
        let more = ["--length", "16", "--count", "5", "--json"];
        json(
            &[
                &["memcached", "--place", "direct", "--transport", "socket"][..],
                &more,
            ]
            .concat(),
        )
    };
    let (one, two) = (run(), run());
    assert_eq!(one, two);
    assert_eq!(one[0]["hash"].as_str().map(str::len), Some(64));
}
