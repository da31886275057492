// SPDX-License-Identifier: Apache-2.0
//! `ipnuma mcb` against the memcached of this machine; `ipnuma memcached` and chapter 6 in Linux hosts.

mod envelope;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use envelope::result;
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
    result(arguments, &output.stdout)
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
    // A port that is taken, by the near end of a connection, so that nobody can listen there meanwhile.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    let taken = TcpStream::connect(address).expect("it listens");
    let port = taken.local_addr().expect("it has one").port().to_string();
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
            "error: --count: 0 commands are too few or too many; write 1 to 1000000\n",
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

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn two_runs_are_one() {
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
    assert_eq!(one["rows"][0]["hash"].as_str().map(str::len), Some(64));
}

/// Clients whose every answer is compared ask one memcached, twice the same. What they get together is Little's law: who asks is
/// rate by time, and the time is also what their own clocks say. No processor does two things at once: so many clients that
/// the server's has nothing left get what its costs allow, and no more.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn several_clients_share_one_memcached() {
    let run = |threads: &str| {
        let way = ["memcached", "--rate", "10g", "--library", "charged"];
        let who = ["--clients", "2", "--threads", threads, "--count", "40"];
        let found = json(&[&way[..], &who, &["--switch", "fibnic", "--json"]].concat());
        found["rows"].as_array().expect("rows").clone()
    };
    let rows = run("4,1");
    assert_eq!(rows.len(), 4);
    assert_eq!(
        [&rows[0], &rows[2]],
        run("4").iter().collect::<Vec<_>>()[..]
    );
    for row in rows {
        let number = |pointer: &str| {
            let found = row.pointer(pointer).and_then(Value::as_f64);
            found.unwrap_or_else(|| panic!("{row} has no {pointer}"))
        };
        let asking = number("/clients") * number("/threads");
        let [rate, mean] = ["/per_second", "/ns/mean"].map(number);
        let reports = row["reports"].as_array().expect("one of each client");
        assert_eq!(reports.len() as f64, number("/clients"));
        let own = reports.iter().map(|report| {
            assert_eq!(report["count"].as_f64(), Some(40.0 * number("/threads")));
            report["ns"]["mean"].as_f64().expect("a time")
        });
        let own = own.sum::<f64>() / reports.len() as f64;
        // Threads of a client begin one after the other, and its clock counts from the first to the last.
        let alone = number("/threads") == 1.0;
        for time in [Some(mean), alone.then_some(own)].into_iter().flatten() {
            let found = rate * time / 1e9;
            assert!((found / asking - 1.0).abs() < 0.05, "{found} ask: {row}");
        }
        assert!(number("/ns/p50") <= number("/ns/p99"), "{row}");
        let costs = row["costs"].as_array().expect("costs");
        let cost = |name: &str| {
            let found = costs.iter().find(|cost| cost["name"] == name);
            found.and_then(|cost| cost["ns"].as_f64()).unwrap_or(0.0)
        };
        let names = match row["transport"].as_str() {
            Some("socket") => &["kernel_receive_ns", "application_ns", "kernel_send_ns"][..],
            _ => &[
                "library_epoll_wait_ns",
                "library_recv_ns",
                "application_ns",
                "library_send_ns",
                "store_ns",
            ],
        };
        let least: f64 = names.iter().map(|name| cost(name)).sum();
        assert!(rate * least < 1e9, "{rate} a second of {least} ns: {row}");
        let server = number("/busy/server");
        assert!(server <= 100.5, "{row}");
        assert!(asking < 8.0 || server > 85.0, "{row}");
    }
}

/// Over one NIC with one cable a GET takes as long as over a NIC of its own, by sockets and by IP-NUMA, whose sessions are sealed.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn one_nic_serves_both_ways_as_two_do() {
    for transport in ["socket", "ipnuma"] {
        let [alone, shared] = ["ring", "shared"].map(|nic| {
            let way = ["memcached", "--rate", "10g", "--place", "rack", "--seal"];
            let how = ["--switch", "fibnic", "--transport", transport, "--nic", nic];
            let more = ["--length", "16", "--count", "20", "--json"];
            let found = json(&[&way[..], &how, &more].concat());
            let mean = found["rows"][0]["reports"][0]["ns"]["mean"].as_f64();
            mean.expect("a time")
        });
        assert!(
            (shared / alone - 1.0).abs() < 0.01,
            "{transport}: {shared} ns, {alone} with a NIC of its own"
        );
    }
}

/// Table 4.5 and figure 4.4 by our own two measurements, twice the same.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_ping_pong_over_sockets_is_as_expected() {
    let run = || json(&["paper", "--only", "table-4.5,figure-4.4", "--json"]);
    let found = run();
    assert_eq!(found, run());
    let sections = found["sections"].as_array().expect("sections").iter();
    let rows = sections.flat_map(|section| section["rows"].as_array().expect("rows"));
    let sockets: Vec<_> = rows
        .filter(|row| {
            row["name"]
                .as_str()
                .is_some_and(|name| name.contains("socket"))
        })
        .filter(|row| row["how"] != "RTL and constants")
        .collect();
    assert_eq!(sockets.len(), 3, "{found}");
    for row in sockets {
        assert_eq!(row["as_expected"], true, "{row}");
    }
}

/// A server's work is in every way's time once, whoever charges it.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn the_work_of_the_server_is_charged_once() {
    for (place, transport) in [
        ("loopback", "socket"),
        ("direct", "socket"),
        ("direct", "ipnuma"),
    ] {
        let time = |application_ns: u32| {
            let cost = format!("application_ns={application_ns}");
            let way = ["memcached", "--place", place, "--transport", transport];
            let more = ["--length", "16", "--count", "20", "--json", "--cost", &cost];
            let rows = json(&[&way[..], &more].concat());
            rows["rows"][0]["reports"][0]["ns"]["mean"]
                .as_f64()
                .expect("a time")
        };
        let more = time(5_000) - time(1_000);
        // Not to the nanosecond: clocks are read, netem's timer is coarse, and an acknowledgement travels alone or with the
        // answer, by when the answer comes. Twice or never would be 4,000 off.
        assert!(
            (more - 4_000.0).abs() < 700.0,
            "{place}, {transport}: 4,000 ns of work took {more} ns"
        );
    }
}

/// A GET takes what its five calls do, and no more: send, epoll_wait, recv, send, recv; memcached looks once more in vain, when
/// its answer is on its way.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn calls_of_the_library_are_charged_on_the_way() {
    let times = |cost: &str| {
        let way = ["memcached", "--place", "direct", "--transport", "ipnuma"];
        let more = ["--length", "16", "--count", "20", "--json"];
        let rows = json(&[&way[..], &more, &["--cost", cost]].concat());
        let time = |row: usize| rows["rows"][row]["reports"][0]["ns"]["mean"].as_f64();
        let names = [0, 1].map(|row| rows["rows"][row]["library"].as_str().map(str::to_owned));
        assert_eq!(names.map(Option::unwrap_or_default), ["free", "charged"]);
        [0, 1].map(|row| time(row).expect("a time"))
    };
    let all = |send: u32, recv: u32, epoll: u32, poll: u32| {
        format!(
            "library_send_ns={send},library_recv_ns={recv},library_epoll_wait_ns={epoll},library_poll_ns={poll},\
             library_send_kib_ns=0,library_recv_kib_ns=0"
        )
    };
    for (cost, calls) in [
        (all(1_000, 0, 0, 0), 2.0),
        (all(0, 1_000, 0, 0), 2.0),
        (all(0, 0, 1_000, 0), 1.0),
        (all(0, 0, 0, 1_000), 0.0),
    ] {
        let [free, charged] = times(&cost);
        let more = charged - free;
        // Clocks are read, and acknowledgements travel alone or with an answer, by when it comes.
        assert!(
            (more - 1_000.0 * calls).abs() < 700.0,
            "{cost}: {more} ns more than {free}"
        );
    }
}

/// The stages of a GET touch each other, and take as long as a GET.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_get_is_taken_apart() {
    for (transport, library) in [
        ("socket", "free"),
        ("ipnuma", "free"),
        ("ipnuma", "charged"),
    ] {
        // By UDP one GET in some returns credit and takes longer than the others.
        let place = ["memcached", "--protocol", "tcp", "--place", "direct"];
        let how = ["--transport", transport, "--library", library];
        let way = [&place[..], &how].concat();
        let found = text(&ipnuma(&[&way[..], &["--stages"]].concat()).stdout);
        let lines = found.lines().skip(1);
        let times: Vec<(&str, f64)> = lines
            .filter_map(|line| {
                let (name, rest) = line.trim().split_once("  ")?;
                let ns = rest.split_whitespace().next()?.parse().ok()?;
                Some((name, ns))
            })
            .collect();
        let (last, stages) = times.split_last().expect("there are stages");
        assert_eq!(last.0, "in all", "{found}");
        let sum: f64 = stages.iter().map(|(_, ns)| ns).sum();
        assert!((sum - last.1).abs() < 0.1 * stages.len() as f64, "{found}");
        let memcached = stages.iter().find(|(name, _)| *name == "server: memcached");
        assert_eq!(memcached.map(|(_, ns)| *ns), Some(1167.0), "{found}");
        if transport == "ipnuma" {
            // An acknowledgement of its own would be on the wire just then, for 672 ns.
            let sends = stages.iter().find(|(name, _)| *name == "server: NIC sends");
            assert!(sends.is_some_and(|(_, ns)| *ns < 100.0), "{found}");
        }
        let more = ["--length", "16", "--count", "20", "--json"];
        let rows = json(&[&way[..], &more].concat());
        let mean = rows["rows"][0]["reports"][0]["ns"]["mean"]
            .as_f64()
            .expect("a time");
        assert!(
            (mean - last.1).abs() < 0.02 * mean,
            "{mean} ns, but {found}"
        );
    }
}

#[test]
fn the_benchmark_says_what_it_leaves_out() {
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .env("IPNUMA_UML_KERNEL", "/nonexistent")
        .args(["bench", "--loops", "5"])
        .output()
        .expect("the command was built for this test");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert!(
        out.ends_with(
            "left out: it needs the kernel of the hosts; tools/uml-kernel builds it, once, in some minutes\n"
        ),
        "{out}"
    );
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn the_benchmark_is_whole() {
    let output = ipnuma(&["bench", "--loops", "5", "--gets", "20"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    for name in ["socket, 1g", "socket, 10g", "IP-NUMA, 1g", "IP-NUMA, 10g"] {
        let row = out
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix("  "))
            .unwrap_or_else(|| panic!("there is no row {name}:\n{out}"));
        let numbers: Vec<f64> = row
            .split_whitespace()
            .filter(|word| *word != "%")
            .map(|word| word.parse().expect("it is a number"))
            .collect();
        assert_eq!(numbers.len(), 6, "{row}");
        assert!(numbers[..2].iter().all(|number| *number > 0.0), "{row}");
        // Four shares, rounded to a tenth.
        let sum: f64 = numbers[2..].iter().sum();
        assert!((sum - 100.0).abs() < 0.25, "{row}");
    }
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_signal_leaves_no_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let left = || {
        std::fs::read_dir(folder.path())
            .expect("it is there")
            .count()
    };
    for signal in ["INT", "TERM"] {
        let child = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
            .args(["rack", "experiments/topologies/uml-curl.toml"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut run = Server(child.expect("the command was built for this test"));
        let patience = Instant::now() + Duration::from_secs(120);
        while left() == 0 {
            assert!(Instant::now() < patience, "no guest was started");
            std::thread::sleep(Duration::from_millis(5));
        }
        let number = run.0.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &number]).status();
        assert!(sent.expect("kill is there").success());
        let status = run.0.wait().expect("it ends");
        assert!(
            !status.success(),
            "it ended by itself before the signal came"
        );
        assert_eq!(left(), 0, "{signal} left a directory");
    }
}

#[test]
fn the_console_that_a_failed_run_names_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
        .args(["rack", "experiments/topologies/uml-curl.toml"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env("TMPDIR", folder.path())
        .env("IPNUMA_UML_KERNEL", "/bin/true")
        .output()
        .expect("the command was built for this test");
    assert!(!output.status.success());
    let said = text(&output.stderr);
    let (_, rest) = said
        .split_once("its console is in ")
        .expect("no kernel's words");
    let path = rest.split(':').next().unwrap_or_default();
    assert!(std::path::Path::new(path).is_file(), "{said}");
}
