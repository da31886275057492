// SPDX-License-Identifier: Apache-2.0
//! `ipnuma daemon`, `run`, `sockets` and `regions` as their users meet them. The socket library has tests of its own;
//! what is preloaded here is an empty file, about which the dynamic linker only complains.

mod envelope;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use envelope::result;
use ipc::client::Client;
use ipc::protocol::{Notice, Reply, Request};
use tempfile::TempDir;

/// A machine that is this busy is not expected.
const PATIENCE: Duration = Duration::from_secs(60);

fn ipnuma(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ipnuma"));
    command
        .env("IPNUMA_DAEMON", directory.join("ipnuma/daemon.sock"))
        .env("XDG_RUNTIME_DIR", directory)
        .env("HOME", directory)
        .env_remove("IPNUMA_DAEMON_CONFIG")
        .env_remove("IPNUMA_SOCKET_LIBRARY")
        .env_remove("LD_PRELOAD");
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

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A daemon; killed when the test ends, however it does.
struct Daemon {
    child: Child,
    directory: TempDir,
}

impl Daemon {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = ipnuma(directory.path());
        command.arg("daemon").args(arguments);
        Self::start_as(directory, command)
    }

    /// With a limit, as for `ulimit`.
    fn start_limited(limit: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("sh");
        let place = ipnuma(directory.path());
        for (variable, value) in place.get_envs() {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        command
            .args(["-c", "ulimit $1 && exec $0 daemon"])
            .arg(env!("CARGO_BIN_EXE_ipnuma"))
            .arg(limit);
        Self::start_as(directory, command)
    }

    fn start_as(directory: TempDir, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is a pipe");
        BufReader::new(out)
            .read_line(&mut line)
            .expect("it says something");
        let daemon = Self { child, directory };
        let socket = daemon.socket();
        assert_eq!(
            line,
            format!("ipnuma daemon: ready at {}\n", socket.display())
        );
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("ipnuma/daemon.sock")
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket(), "test").expect("it is welcome")
    }

    fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        output(ipnuma(self.directory.path()).args(arguments))
    }

    fn good(&self, arguments: &[&str]) -> String {
        let (status, out, errors) = self.command(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {errors}");
        out
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(process: u32, name: &str) {
    let done = Command::new("kill")
        .args([name, &process.to_string()])
        .status();
    assert!(done.expect("kill is there").success());
}

#[test]
fn the_daemon_goes_cleanly_when_it_is_told() {
    for name in ["-TERM", "-INT"] {
        let mut daemon = Daemon::start(&[]);
        signal(daemon.child.id(), name);
        let status = daemon.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{name}");
        assert!(!daemon.socket().exists());
    }
}

#[test]
fn a_limit_of_files_is_an_error_and_not_the_daemons_end() {
    // 64 KiB, in blocks of 512 bytes.
    let daemon = Daemon::start_limited("-f 128");
    let client = daemon.client();
    for _ in 0..3 {
        let refused = client.request(&Request::Create { bytes: 1 << 20 });
        let why = refused.expect_err("it may not be so large").to_string();
        assert!(why.contains("could not make memory for a region"), "{why}");
        assert!(why.contains("LimitFSIZE="), "{why}");
    }
    let small = client.request(&Request::Create { bytes: 4096 });
    assert!(matches!(small, Ok((Reply::Region { .. }, _))), "{small:?}");
}

#[test]
fn a_second_daemon_is_refused_and_a_killed_ones_place_is_taken() {
    let mut daemon = Daemon::start(&["--foreground"]);
    let (status, _, errors) = daemon.command(&["daemon"]);
    assert_eq!(status, Some(1));
    let wanted = format!(
        "already runs at {} (process {})",
        daemon.socket().display(),
        daemon.child.id()
    );
    assert!(errors.contains(&wanted), "{errors}");
    let (_, _, errors) = daemon.command(&["daemon", "--background"]);
    assert!(errors.contains(&wanted), "{errors}");
    signal(daemon.child.id(), "-KILL");
    daemon.child.wait().expect("it ends");
    assert!(daemon.socket().exists());
    let told = daemon.good(&[
        "daemon",
        "--background",
        "--follow",
        &daemon.child.id().to_string(),
    ]);
    assert!(told.starts_with("ipnuma daemon: ready at "), "{told}");
    drop(daemon.client());
    // The process it follows has ended, so it goes by itself.
    until("the second daemon stays", || !daemon.socket().exists());
}

#[test]
fn a_daemon_without_descriptors_refuses_and_goes_on() {
    let daemon = Daemon::start_limited("-n 48");
    let list = Request::Sockets { after: 0 };
    let mut clients = vec![daemon.client()];
    let refused = loop {
        match Client::connect(&daemon.socket(), "test") {
            Ok(client) => clients.push(client),
            Err(error) => break error.to_string(),
        }
        assert!(
            clients.len() < 48,
            "it has more descriptors than it may have"
        );
    };
    assert!(
        clients.len() > 4,
        "{} clients, then: {refused}",
        clients.len()
    );
    for client in &clients {
        client
            .request(&list)
            .expect("who is there already is served");
    }
    clients.truncate(1);
    until("nobody is welcome any more", || {
        Client::connect(&daemon.socket(), "test").is_ok()
    });
    clients[0].request(&list).expect("it is still served");
}

#[test]
fn wrong_options_are_one_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("daemon.toml");
    std::fs::write(&config, "ring_lines = 100\n").expect("it can be written");
    let config = config.to_str().expect("a name");
    for (arguments, words) in [
        (
            &["--ring-lines", "100"][..],
            "--ring-lines: 100 is no power of two from 8 to 1048576",
        ),
        (
            &["--config", config],
            "daemon.toml: ring_lines: 100 is no power of two",
        ),
        (
            &["--config", config, "--ring-lines", "128"],
            "daemon.toml: ring_lines: 100 is no power of two",
        ),
    ] {
        let (status, _, errors) = output(ipnuma(directory.path()).arg("daemon").args(arguments));
        assert_eq!(status, Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

fn open(client: &Client, server: &Client) -> u64 {
    let [from, to]: [SocketAddr; 2] =
        ["127.0.0.1:4000", "127.0.0.1:80"].map(|text| text.parse().expect("an address"));
    server
        .done(&Request::Listen { address: to })
        .expect("it listens");
    let ask = |client: &Client, request| client.request(&request).expect("an answer").0;
    let Reply::Intent { intent } = ask(client, Request::Intend { to, asked: false }) else {
        panic!("no intent");
    };
    assert_eq!(
        ask(client, Request::Announce { intent, from, to }),
        Reply::Channel { channel: intent }
    );
    assert_eq!(
        ask(server, Request::Resolve { from, to }),
        Reply::Channel { channel: intent }
    );
    intent
}

#[test]
fn connections_are_listed_and_can_be_ended() {
    let daemon = Daemon::start(&[]);
    assert!(
        daemon
            .good(&["sockets"])
            .starts_with("no accelerated connections\n")
    );
    let (client, server) = (daemon.client(), daemon.client());
    let channel = open(&client, &server);
    let table = daemon.good(&["sockets"]);
    for words in [
        "client",
        "server",
        "127.0.0.1:4000",
        "127.0.0.1:80",
        "waits",
        "1 streams",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let report = result(&["sockets"], daemon.good(&["sockets", "--json"]).as_bytes());
    assert_eq!(report["totals"]["streams"], 1);
    let [socket] = &report["sockets"].as_array().expect("a list")[..] else {
        panic!("{report}");
    };
    assert_eq!(socket["channel"], channel);
    assert_eq!(socket["ends"][0]["pid"], std::process::id());
    assert_eq!(socket["ends"][1]["address"], "127.0.0.1:80");
    daemon.good(&["sockets", "--revoke", &channel.to_string()]);
    until("the client is not told", || {
        let told = client.next_notice().expect("the daemon lives");
        told.is_some_and(|(notice, _)| {
            assert_eq!(
                notice,
                Notice::Revoked {
                    channel: Some(channel),
                    window: None,
                    region: None
                }
            );
            true
        })
    });
    let (status, _, errors) = daemon.command(&["sockets", "--revoke", &channel.to_string()]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("there is no channel"), "{errors}");
}

#[test]
fn regions_are_listed_and_can_be_taken_back() {
    let daemon = Daemon::start(&[]);
    assert_eq!(daemon.good(&["regions"]), "no regions\n");
    let owner = daemon.client();
    let (Reply::Region { region }, _) = owner
        .request(&Request::Create { bytes: 1 << 20 })
        .expect("a region")
    else {
        panic!("no region");
    };
    let rights = ipc::Rights::Read;
    owner
        .request(&Request::Export {
            region,
            first: 64,
            bytes: 128,
            rights,
            peer: None,
        })
        .expect("a token");
    let report = result(&["regions"], daemon.good(&["regions", "--json"]).as_bytes());
    assert_eq!(report["regions"][0]["region"], region);
    assert_eq!(report["regions"][0]["tokens"][0]["first"], 64);
    assert_eq!(report["regions"][0]["tokens"][0]["rights"], "read");
    let table = daemon.good(&["regions"]);
    assert!(
        table.contains("1.0 MiB") && table.contains("read"),
        "{table}"
    );
    daemon.good(&["regions", "--revoke", &region.to_string()]);
    assert!(daemon.good(&["regions"]).contains("none"));
    let (status, _, errors) = daemon.command(&["regions", "--revoke", "999"]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("there is no region 999"), "{errors}");
}

#[test]
fn without_a_daemon_lists_say_how_to_start_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let (status, _, errors) = output(ipnuma(directory.path()).arg("sockets"));
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("no daemon at") && errors.contains("ipnuma daemon"),
        "{errors}"
    );
}

/// A file that stands for the socket library.
fn library(directory: &Path) -> PathBuf {
    let path = directory.join("libipnuma_socket.so");
    std::fs::write(&path, "").expect("it can be written");
    path.canonicalize().expect("it exists")
}

const SHOW: &str =
    "echo $LD_PRELOAD $IPNUMA_DAEMON $IPNUMA_PROFILE $IPNUMA_SPIN_US $IPNUMA_TRACE; exit 7";

#[test]
fn a_program_runs_with_the_library_and_its_exit_status() {
    let daemon = Daemon::start(&[]);
    let directory = daemon.directory.path();
    let library = library(directory);
    let run = |change: &dyn Fn(&mut Command)| {
        let mut command = ipnuma(directory);
        command.env("IPNUMA_SOCKET_LIBRARY", &library).arg("run");
        change(&mut command);
        output(command.args(["--", "sh", "-c", SHOW]))
    };
    let (status, out, errors) = run(&|command| {
        command.args(["--profile", "latency", "--spin-us", "9", "--trace"]);
    });
    assert_eq!(status, Some(7), "{errors}");
    assert_eq!(
        out,
        format!(
            "{} {} latency 9 1\n",
            library.display(),
            daemon.socket().display()
        )
    );
    assert!(!errors.contains("warning"), "{errors}");
    // What the user preloads stays, behind it.
    let (_, out, _) = run(&|command| {
        command.env("LD_PRELOAD", "/no/such.so");
    });
    assert!(
        out.starts_with(&format!("{}:/no/such.so ", library.display())),
        "{out}"
    );
    // Without a daemon it runs all the same.
    let (status, out, errors) = run(&|command| {
        command.args(["--daemon", "/no/daemon.sock"]);
    });
    assert_eq!(status, Some(7));
    assert!(out.contains(" /no/daemon.sock"), "{out}");
    assert!(
        errors.contains("warning: no daemon at /no/daemon.sock"),
        "{errors}"
    );
}

#[test]
fn a_program_that_cannot_run_is_told_as_shells_do() {
    let daemon = Daemon::start(&[]);
    let directory = daemon.directory.path();
    let library = library(directory);
    for (program, status) in [("/no/program", 127), ("/etc/passwd", 126)] {
        let mut command = ipnuma(directory);
        let (code, _, errors) = output(
            command
                .env("IPNUMA_SOCKET_LIBRARY", &library)
                .args(["run", "--", program]),
        );
        assert_eq!(code, Some(status), "{errors}");
        assert!(
            errors.contains(&format!("cannot run `{program}`")),
            "{errors}"
        );
    }
    let mut command = ipnuma(directory);
    let (code, _, errors) = output(
        command
            .env("IPNUMA_SOCKET_LIBRARY", "/no/library.so")
            .args(["run", "--", "true"]),
    );
    assert_eq!(code, Some(2));
    assert!(
        errors.contains("there is no file /no/library.so"),
        "{errors}"
    );
}

#[test]
fn a_program_can_have_a_daemon_of_its_own_that_goes_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let library = library(directory.path());
    let mut command = ipnuma(directory.path());
    let (status, out, errors) = output(
        command
            .env("IPNUMA_SOCKET_LIBRARY", &library)
            .args(["run", "--own-daemon", "--", "sh", "-c"])
            .arg("test -S $IPNUMA_DAEMON && echo $IPNUMA_DAEMON; exit 3"),
    );
    assert_eq!(status, Some(3), "{errors}");
    let socket = PathBuf::from(out.trim());
    assert!(socket.starts_with(directory.path()), "{out}");
    until("the daemon outlives its program", || !socket.exists());
    let place = socket.parent().expect("a directory");
    until("the daemon leaves its directory behind", || !place.exists());
}
