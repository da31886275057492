// SPDX-License-Identifier: Apache-2.0
//! Connections between machines: the suite through a network that loses frames, and two daemons, each the one of a
//! machine at a loopback address, with programs, machines and daemons that die.

#[allow(dead_code)]
mod support;

use std::process::Command;

use support::{Daemon, Program, eventually};

/// Frames lost in a thousand.
const LOSS: u32 = 10;

fn seed() -> u64 {
    let given = std::env::var("IPNUMA_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    println!("IPNUMA_SEED={seed}");
    seed
}

#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn all_cases_agree_between_machines() {
    let output = Command::new(env!("CARGO_BIN_EXE_sockettest"))
        .args([
            "--only-library",
            "--jobs",
            "2",
            "--patience",
            "60",
            "--far",
            &LOSS.to_string(),
        ])
        .args(["--seed", &seed().to_string(), "--library"])
        .arg(support::library())
        .output()
        .expect("sockettest could not be run");
    let text = String::from_utf8_lossy(&output.stdout);
    let bad: Vec<&str> = text.lines().filter(|line| !line.ends_with(" ok")).collect();
    println!(
        "{}\n{}",
        bad.join("\n"),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "some cases go wrong between machines"
    );
}

/// Two machines with a server on the second one, and its port.
struct Rack {
    here: Daemon,
    there: Daemon,
    server: Program,
    port: u16,
}

impl Rack {
    fn new() -> Rack {
        let seed = seed();
        let (here, there) = (Daemon::machine(LOSS, seed), Daemon::machine(LOSS, seed ^ 1));
        let (server, port) = Program::server(&there, 0);
        Rack {
            here,
            there,
            server,
            port,
        }
    }

    fn client(&self) -> Program {
        Program::start_towards(&self.here, &self.there, &["commands"])
    }

    /// A connection that is accelerated and has carried bytes both ways.
    #[track_caller]
    fn connect(&self, client: &mut Program) -> String {
        let mut found = None;
        // On a busy machine the first may be so late that it is left to the kernel.
        eventually("a connection between machines is accelerated", || {
            let before = [&self.here, &self.there].map(|daemon| daemon.sockets().1.len());
            let fd = client.connect(self.port);
            assert_eq!(client.ask(&format!("exchange {fd} 20")), "exchanged");
            let now = [&self.here, &self.there].map(|daemon| daemon.sockets().1.len());
            if before.iter().zip(now).all(|(before, now)| *before < now) {
                found = Some(fd);
            } else {
                assert_eq!(client.ask(&format!("close {fd}")), "closed");
            }
            found.is_some()
        });
        found.expect("a connection was found")
    }

    #[track_caller]
    fn assert_forgotten(&self) {
        for daemon in [&self.here, &self.there] {
            eventually("a daemon has forgotten all channels", || {
                daemon.sockets().1.is_empty()
            });
        }
    }
}

#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn programs_of_two_machines_talk() {
    let rack = Rack::new();
    let mut clients: Vec<Program> = (0..3).map(|_| rack.client()).collect();
    let fds: Vec<String> = clients
        .iter_mut()
        .map(|client| rack.connect(client))
        .collect();
    for (client, fd) in clients.iter_mut().zip(&fds) {
        client.tell(&format!("exchange {fd} 500"));
    }
    for client in &clients {
        assert_eq!(client.line(), "exchanged");
    }
    let port = rack.port;
    assert_eq!(clients[0].ask(&format!("cycles {port} 50")), "cycled");
    for (client, fd) in clients.iter_mut().zip(&fds) {
        assert_eq!(client.ask(&format!("close {fd}")), "closed");
    }
    rack.assert_forgotten();
    let (totals, _) = rack.there.sockets();
    assert!(totals.streams > 3, "{totals:?}");
}

#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn a_killed_client_ends_its_connections_on_the_other_machine() {
    let rack = Rack::new();
    for _ in 0..3 {
        let mut client = rack.client();
        let fd = rack.connect(&mut client);
        client.tell(&format!("exchange {fd} 1000000"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        client.kill();
        rack.assert_forgotten();
    }
    let mut client = rack.client();
    rack.connect(&mut client);
}

#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn a_killed_server_ends_its_connections_on_the_other_machine() {
    let mut rack = Rack::new();
    let mut client = rack.client();
    let fd = rack.connect(&mut client);
    client.tell(&format!("exchange {fd} 1000000"));
    std::thread::sleep(std::time::Duration::from_millis(20));
    rack.server.kill();
    let answer = client.line();
    assert!(
        ["error ECONNRESET", "error EPIPE"].contains(&answer.as_str()),
        "the client got {answer}"
    );
    let again = client.ask(&format!("connect {}", rack.port));
    assert_eq!(again, "error ECONNREFUSED");
    assert_eq!(client.ask(&format!("close {fd}")), "closed");
    rack.assert_forgotten();
}

/// A daemon carries what is sent to other machines: when it dies, those connections are over.
fn a_daemon_dies(which: impl Fn(&mut Rack) -> &mut Daemon) {
    let mut rack = Rack::new();
    let mut client = rack.client();
    let fd = rack.connect(&mut client);
    client.tell(&format!("exchange {fd} 1000000"));
    std::thread::sleep(std::time::Duration::from_millis(20));
    which(&mut rack).kill();
    let answer = client.line();
    assert!(
        ["error ECONNRESET", "error EPIPE"].contains(&answer.as_str()),
        "the client got {answer}"
    );
    assert_eq!(rack.server.line(), "ended ECONNRESET");
    // New ones are the kernel's, until it is back.
    let other = client.connect(rack.port);
    assert_eq!(client.ask(&format!("exchange {other} 100")), "exchanged");
    which(&mut rack).restart(0);
    rack.connect(&mut client);
    assert_eq!(client.ask(&format!("exchange {other} 100")), "exchanged");
}

#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn connections_end_with_the_daemon_of_the_client() {
    a_daemon_dies(|rack| &mut rack.here);
}

#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn connections_end_with_the_daemon_of_the_server() {
    a_daemon_dies(|rack| &mut rack.there);
}
