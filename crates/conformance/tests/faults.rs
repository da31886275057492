// SPDX-License-Identifier: Apache-2.0
//! What goes wrong around accelerated connections: programs get what a socket would give them, nothing hangs, and
//! nothing is left behind.

mod support;

use ipc::client::Client;
use ipc::protocol::{Reply, Request};
use ipc::token::Rights;
use support::{Daemon, Holdings, Program, eventually};

/// A connection of the client to the port that is accelerated and has carried bytes both ways: its descriptor and its
/// channel. On a busy machine the server may be so late that one is left to the kernel; then the next one counts.
#[track_caller]
fn accelerated(daemon: &Daemon, client: &mut Program, port: u16) -> (String, u64) {
    let mut found = None;
    eventually("a connection is accelerated", || {
        let before: Vec<u64> = daemon
            .sockets()
            .1
            .iter()
            .map(|status| status.channel)
            .collect();
        let fd = client.connect(port);
        assert_eq!(client.ask(&format!("exchange {fd} 20")), "exchanged");
        let (_, sockets) = daemon.sockets();
        let new = sockets
            .into_iter()
            .find(|status| !before.contains(&status.channel));
        match new {
            Some(status) => {
                assert!(
                    status.ends.iter().all(|end| end.bytes > 0),
                    "the channel has carried nothing: {status:?}"
                );
                found = Some((fd, status.channel));
            }
            None => assert_eq!(client.ask(&format!("close {fd}")), "closed"),
        }
        found.is_some()
    });
    found.expect("a connection was found")
}

#[track_caller]
fn assert_forgotten(daemon: &Daemon) {
    eventually("the daemon has forgotten all channels", || {
        daemon.sockets().1.is_empty()
    });
}

#[test]
fn a_killed_client_ends_its_connections() {
    let daemon = Daemon::start();
    let (mut server, port) = Program::server(&daemon, 0);
    for _ in 0..5 {
        let mut client = Program::start(&daemon, &["commands"]);
        let (fd, _) = accelerated(&daemon, &mut client, port);
        client.tell(&format!("exchange {fd} 1000000"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        client.kill();
        // The server may have been in the middle of an answer.
        eventually("the daemon has forgotten the channel", || {
            daemon.channel(&client, port).is_none()
        });
    }
    // The server holds nothing of the dead, when it has come to it, and serves on.
    eventually("the server has closed what the dead had", || {
        Holdings::of(server.pid()).descriptors <= 12
    });
    let mut client = Program::start(&daemon, &["commands"]);
    accelerated(&daemon, &mut client, port);
    server.kill();
}

#[test]
fn a_killed_server_ends_its_connections() {
    let daemon = Daemon::start();
    for _ in 0..5 {
        let (mut server, port) = Program::server(&daemon, 0);
        let mut client = Program::start(&daemon, &["commands"]);
        let (fd, _) = accelerated(&daemon, &mut client, port);
        client.tell(&format!("exchange {fd} 1000000"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        server.kill();
        let answer = client.line();
        assert!(
            ["error ECONNRESET", "error EPIPE"].contains(&answer.as_str()),
            "the client got {answer}"
        );
        assert_eq!(client.ask(&format!("connect {port}")), "error ECONNREFUSED");
        assert_eq!(client.ask(&format!("close {fd}")), "closed");
    }
    assert_forgotten(&daemon);
}

#[test]
fn a_peers_death_is_noticed_without_the_daemon() {
    let mut daemon = Daemon::start();
    let (mut server, port) = Program::server(&daemon, 0);
    let mut client = Program::start(&daemon, &["commands"]);
    let (fd, _) = accelerated(&daemon, &mut client, port);
    daemon.kill();
    assert_eq!(client.ask(&format!("exchange {fd} 20")), "exchanged");
    // It waits for the answer of a process that does not run, and then is no more.
    server.stop();
    client.tell(&format!("exchange {fd} 20"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    server.kill();
    let answer = client.line();
    assert!(
        ["error ECONNRESET", "error EPIPE"].contains(&answer.as_str()),
        "the client got {answer}"
    );
}

/// Each end asks its daemon about each connection; one that does not run is waited for once, and not for long.
#[test]
fn a_daemon_that_stands_still_holds_its_programs_up_once() {
    let daemon = Daemon::start();
    let (_server, port) = Program::server(&daemon, 0);
    let mut client = Program::start(&daemon, &["commands"]);
    let (old, _) = accelerated(&daemon, &mut client, port);
    daemon.stand_still();
    let began = std::time::Instant::now();
    let fds: Vec<String> = (0..20).map(|_| client.connect(port)).collect();
    for fd in &fds {
        assert_eq!(client.ask(&format!("exchange {fd} 3")), "exchanged");
    }
    // Once at each end is six seconds; each of twenty connections would be sixty at least, and twenty seconds each it was.
    let most = std::time::Duration::from_secs(45);
    assert!(began.elapsed() < most, "{:?}", began.elapsed());
    assert_eq!(client.ask(&format!("exchange {old} 20")), "exchanged");
    // It is asked again when it runs.
    daemon.go_on();
    let (new, _) = accelerated(&daemon, &mut client, port);
    for fd in fds.iter().chain([&old, &new]) {
        assert_eq!(client.ask(&format!("exchange {fd} 3")), "exchanged");
        assert_eq!(client.ask(&format!("close {fd}")), "closed");
    }
    assert_forgotten(&daemon);
}

#[test]
fn connections_outlive_the_daemon_and_new_ones_are_accelerated_after_its_restart() {
    let mut daemon = Daemon::start();
    let (_server, port) = Program::server(&daemon, 0);
    let mut client = Program::start(&daemon, &["commands"]);
    let (old, _) = accelerated(&daemon, &mut client, port);

    // The daemon dies under traffic: the connection goes on, new ones are the kernel's.
    client.tell(&format!("exchange {old} 2000"));
    daemon.kill();
    assert_eq!(client.line(), "exchanged");
    assert_eq!(client.ask(&format!("exchange {old} 500")), "exchanged");
    let meanwhile = client.connect(port);
    assert_eq!(
        client.ask(&format!("exchange {meanwhile} 200")),
        "exchanged"
    );

    // A new daemon: the old connections go on, and sooner or later new ones are accelerated.
    daemon.restart(0);
    for fd in [&old, &meanwhile] {
        assert_eq!(client.ask(&format!("exchange {fd} 200")), "exchanged");
    }
    assert!(daemon.sockets().1.is_empty());
    let (new, _) = accelerated(&daemon, &mut client, port);
    for fd in [&old, &meanwhile, &new] {
        assert_eq!(client.ask(&format!("exchange {fd} 200")), "exchanged");
        assert_eq!(client.ask(&format!("close {fd}")), "closed");
    }
    assert_forgotten(&daemon);
}

#[test]
fn a_revoked_channel_is_a_reset_connection() {
    let daemon = Daemon::start();
    let (server, port) = Program::server(&daemon, 0);
    let mut client = Program::start(&daemon, &["commands"]);
    let (other, _) = accelerated(&daemon, &mut client, port);
    let (fd, channel) = accelerated(&daemon, &mut client, port);

    client.tell(&format!("exchange {fd} 100000000"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    daemon
        .client()
        .done(&Request::RevokeChannel { channel })
        .expect("the channel could not be revoked");
    assert_eq!(client.line(), "error ECONNRESET");
    assert_eq!(server.line(), "ended ECONNRESET");
    // The other connection does not notice.
    assert_eq!(client.ask(&format!("exchange {other} 200")), "exchanged");
    assert_eq!(client.ask(&format!("close {fd}")), "closed");
}

#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let daemon = Daemon::start();
    let (server, port) = Program::server(&daemon, 0);
    let mut client = Program::start(&daemon, &["commands"]);
    assert_eq!(client.ask(&format!("cycles {port} 2000")), "cycled");
    assert_forgotten(&daemon);
    let pids = [client.pid(), server.pid(), daemon.pid()];
    let before = pids.map(Holdings::of);
    // On a busy machine most may be left to the kernel: it goes on until ten thousand were accelerated.
    let mut rounds = 0;
    while daemon.sockets().0.streams < 10_000 {
        assert_eq!(client.ask(&format!("cycles {port} 2000")), "cycled");
        rounds += 1;
        assert!(
            rounds < 100,
            "of {rounds} times 2000 connections hardly one was accelerated"
        );
    }
    assert_forgotten(&daemon);
    // Threads of the server may take a moment to end.
    for ((name, pid), before) in ["client", "server", "daemon"]
        .into_iter()
        .zip(pids)
        .zip(before)
    {
        eventually(&format!("the {name} has what it had: {before:?}"), || {
            let now = Holdings::of(pid);
            now.descriptors <= before.descriptors
                && now.shared <= before.shared
                // The C library keeps stacks of threads that have ended, two mappings each.
                && now.mappings <= before.mappings + 32
                && now.resident <= before.resident + 2048
        });
    }
}

#[test]
fn a_server_without_descriptors_recovers() {
    let daemon = Daemon::start();
    let (server, port) = Program::server(&daemon, 60);
    let mut client = Program::start(&daemon, &["commands"]);
    let fds: Vec<String> = (0..100).map(|_| client.connect(port)).collect();
    assert_eq!(server.line(), "exhausted");
    // What was accepted works; what was not waits, and works as others go.
    assert_eq!(client.ask(&format!("exchange {} 20", fds[0])), "exchanged");
    for fd in &fds[..50] {
        assert_eq!(client.ask(&format!("close {fd}")), "closed");
    }
    for fd in &fds[50..] {
        assert_eq!(client.ask(&format!("exchange {fd} 3")), "exchanged");
        assert_eq!(client.ask(&format!("close {fd}")), "closed");
    }
    accelerated(&daemon, &mut client, port);
}

#[test]
fn a_daemon_without_descriptors_leaves_connections_to_the_kernel() {
    let daemon = Daemon::with_descriptors(64);
    let administrator = daemon.client();
    let (_server, port) = Program::server(&daemon, 0);
    let mut client = Program::start(&daemon, &["commands"]);
    let fds: Vec<String> = (0..150).map(|_| client.connect(port)).collect();
    let count = Daemon::sockets_by(&administrator).1.len();
    assert!(
        (1..64).contains(&count),
        "{count} connections are accelerated"
    );
    for fd in &fds {
        assert_eq!(client.ask(&format!("exchange {fd} 3")), "exchanged");
    }
    for fd in &fds {
        assert_eq!(client.ask(&format!("close {fd}")), "closed");
    }
    // When the others are gone there is room again.
    accelerated(&daemon, &mut client, port);
}

/// A connection to a daemon that says nothing.
fn silent(path: &std::path::Path) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    // Programs that other tests start meanwhile have none of it.
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    let address = SocketAddrUnix::new(path).expect("an address");
    rustix::net::connect(&socket, &address).expect("it listens");
    socket
}

#[test]
fn a_daemon_without_a_single_descriptor_refuses_clients_and_serves_those_it_has() {
    const LIMIT: usize = 64;
    let daemon = Daemon::with_descriptors(LIMIT as u64);
    let administrator = daemon.client();
    // Who never says hello takes a descriptor, and one more while there is one: so the last is taken.
    let others: Vec<_> = (0..LIMIT).map(|_| silent(&daemon.socket())).collect();
    // It may have inherited higher ones.
    let taken = |number| std::fs::exists(format!("/proc/{}/fd/{number}", daemon.pid()));
    eventually("the last descriptor is taken", || {
        (0..LIMIT).all(|number| taken(number).is_ok_and(|taken| taken))
    });
    for _ in 0..5 {
        let refused = Client::connect_within(
            &daemon.socket(),
            "one too many",
            std::time::Duration::from_secs(10),
        );
        let error = refused.expect_err("there was room").to_string();
        assert!(!error.contains("unavailable"), "it waited in vain: {error}");
        Daemon::sockets_by(&administrator);
    }
    drop(others);
    eventually("there is room again", || {
        Client::connect(&daemon.socket(), "test").is_ok()
    });
}

/// What `conformance --role knock` says as another user.
fn knock_as_nobody(daemon: &Daemon) -> String {
    let output = std::process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_conformance"))
        .args(["--role", "knock"])
        .arg(daemon.socket())
        .output()
        .expect("setpriv could not be run: install util-linux");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn another_user_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    // SAFETY: takes nothing.
    if unsafe { libc::getuid() } != 0 {
        skip::skip!("only root can become another user");
        return;
    }
    let daemon = Daemon::start();
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path)
            .expect("no metadata")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&daemon.socket()), 0o600);
    // The program itself must be readable for the other user, or this test shows nothing.
    let all = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .expect("no permission");
    };
    let said = knock_as_nobody(&daemon);
    assert!(said.starts_with("refused: "), "{said}");
    // Loosened by mistake, the daemon looks who it is.
    all(daemon.directory(), 0o777);
    all(&daemon.socket(), 0o666);
    let said = knock_as_nobody(&daemon);
    assert!(
        said.starts_with("refused: ") && !said.contains("ermission denied (os"),
        "{said}"
    );
    assert!(
        daemon
            .client()
            .request(&Request::Sockets { after: 0 })
            .is_ok()
    );
}

#[test]
fn without_the_token_nothing_can_be_mapped() {
    let daemon = Daemon::start();
    let (owner, other) = (daemon.client(), daemon.client());
    let (reply, _memory) = owner
        .request(&Request::Create { bytes: 8192 })
        .expect("no region");
    let Reply::Region { region } = reply else {
        panic!("another answer: {reply:?}")
    };
    let export = Request::Export {
        region,
        first: 4096,
        bytes: 4096,
        rights: Rights::Read,
        peer: None,
    };
    // Only the owner exports, revokes and releases.
    assert!(other.request(&export).is_err());
    let (reply, _) = owner.request(&export).expect("no token");
    let Reply::Token(token) = reply else {
        panic!("another answer: {reply:?}")
    };
    assert!(other.request(&Request::Release { region }).is_err());
    assert!(other.request(&Request::Revoke { token }).is_err());
    let mut forged = Vec::new();
    for bit in 0..128 {
        let mut token = token;
        token.secret[bit / 8] ^= 1 << (bit % 8);
        forged.push(token);
    }
    for change in 0..4 {
        let mut token = token;
        match change {
            0 => token.first = 0,
            1 => token.bytes = 8192,
            2 => token.rights = Rights::ReadWrite,
            _ => token.region += 1,
        }
        forged.push(token);
    }
    for token in forged {
        let answer = other.request(&Request::Connect { token });
        assert!(answer.is_err(), "a forged token was accepted: {token:?}");
    }
    let (reply, fds) = other
        .request(&Request::Connect { token })
        .expect("the true token is refused");
    assert!(matches!(reply, Reply::Window { .. }), "{reply:?}");
    // A token to read gives no memory that can be written, not even by asking /proc for it anew.
    use std::os::fd::AsRawFd;
    // SAFETY: maps a new place; the answer is looked at.
    let mapping = unsafe {
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, fds[0].as_raw_fd());
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            protection,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    assert_eq!(mapping, libc::MAP_FAILED);
    owner
        .request(&Request::Revoke { token })
        .expect("the token could not be revoked");
    assert!(
        other.request(&Request::Connect { token }).is_err(),
        "a revoked token was accepted"
    );
}
