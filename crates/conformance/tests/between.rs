// SPDX-License-Identifier: Apache-2.0
//! Connections between machines: the suite through a network that loses frames, and two daemons, each the one of a
//! machine at a loopback address, with programs, machines and daemons that die.

#[allow(dead_code)]
mod support;

use std::process::Command;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
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
    let output = Command::new(env!("CARGO_BIN_EXE_conformance"))
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
        .expect("conformance could not be run");
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
    let tap = keyed::Tap::start(&[rack.here.address(), rack.there.address()]);
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
    match tap.map(keyed::Tap::end) {
        Ok(seen) => seen.verify().expect("with keys all is sealed"),
        Err(error) => skip::skipped("what the NICs send to each other", &error),
    }
}

/// What the library allows an end for the last bytes of its peer is over after half a minute; nobody has ended here.
/// A datagram may be lost, but few are, and none is garbled; and they do not go by the kernel.
#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn datagrams_go_between_machines() {
    let mut rack = Rack::new();
    let mut client = rack.client();
    let fd = client.socket(rack.here.address());
    let ask = format!("datagrams {fd} {} 2000", rack.port);
    let back = |client: &mut Program| {
        let said = client.ask(&ask);
        let numbers: Vec<u32> = said.split(' ').filter_map(|it| it.parse().ok()).collect();
        let [back, 0] = numbers[..] else {
            panic!("the client said {said:?}");
        };
        back
    };
    // On a busy machine the first may go by the kernel, or come too late.
    let machines = [&rack.here, &rack.there];
    let sent = || machines.map(|daemon| daemon.sockets().0.messages);
    eventually("nearly all come back, by a channel each way", || {
        let before = sent();
        let came = back(&mut client);
        let channels = machines.map(|daemon| daemon.sockets().1.len());
        let carried = before.iter().zip(sent()).all(|(was, is)| is - was > 1_800);
        came > 1_900 && channels == [2, 2] && carried
    });
    // Another server at the same port.
    rack.server.kill();
    rack.server = Program::server_at(&rack.there, rack.port);
    eventually("datagrams come back from the new server", || {
        back(&mut client) > 1_900
    });
    assert_eq!(client.ask(&format!("close {fd}")), "closed");
    rack.server.kill();
    rack.assert_forgotten();
}

#[test]
#[ignore = "needs time; run by ./test machines"]
fn a_connection_outlives_a_minute_of_silence() {
    let rack = Rack::new();
    let mut client = rack.client();
    let fd = rack.connect(&mut client);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_secs(35));
        assert_eq!(client.ask(&format!("exchange {fd} 20")), "exchanged");
    }
    assert_eq!(client.ask(&format!("close {fd}")), "closed");
    rack.assert_forgotten();
}

#[test]
#[ignore = "a busy machine can hold the daemons up; run by ./test machines"]
fn a_killed_client_ends_its_connections_on_the_other_machine() {
    let rack = Rack::new();
    for _ in 0..3 {
        let mut client = rack.client();
        let fd = rack.connect(&mut client);
        client.tell(&format!("exchange {fd} 1000000"));
        std::thread::sleep(Duration::from_millis(20));
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
    std::thread::sleep(Duration::from_millis(20));
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
    std::thread::sleep(Duration::from_millis(20));
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

/// What a reader got: how many bytes, and how it ended.
fn parse(drained: &str) -> (usize, &str) {
    let (count, end) = drained
        .split_once(' ')
        .unwrap_or_else(|| panic!("the reader said {drained:?}"));
    let count = count.parse();
    let count = count.unwrap_or_else(|_| panic!("the reader said {drained:?}"));
    (count, end)
}

/// An acceptor without the library gets everything, also what was sent and closed before it came.
#[test]
#[ignore = "needs time; run by ./test machines"]
fn acceptors_without_the_library_get_every_byte() {
    let seed = seed();
    let (here, there) = (Daemon::machine(LOSS, seed), Daemon::machine(LOSS, seed ^ 1));
    for (closes_first, bytes) in [(true, 100), (true, 60_000), (false, 100), (false, 60_000)] {
        // A client that has found such an acceptor does not try again for a while: another one each time.
        let (mut door, port) = Program::door(&there);
        let mut client = Program::start_towards(&here, &there, &["commands"]);
        let fd = client.connect(port);
        assert_eq!(client.ask(&format!("send {fd} {bytes}")), "sent");
        if closes_first {
            assert_eq!(client.ask(&format!("close {fd}")), "closed");
        }
        let accepted = door.accept("accept plain");
        if closes_first {
            let drained = door.ask(&format!("drain plain {accepted}"));
            assert_eq!(drained, format!("{bytes} in order"));
            continue;
        }
        // Whoever waits for an answer goes over to the kernel.
        client.tell(&format!("drain {fd}"));
        let received = door.ask(&format!("receive plain {accepted} {bytes}"));
        assert_eq!(received, format!("received {bytes}"));
        assert_eq!(door.ask(&format!("send plain {accepted} {bytes}")), "sent");
        assert_eq!(door.ask(&format!("close plain {accepted}")), "closed");
        assert_eq!(client.line(), format!("{bytes} in order"));
    }
    for daemon in [&here, &there] {
        eventually("a daemon has forgotten all channels", || {
            daemon.sockets().1.is_empty()
        });
        eventually("it has given back their memory", || {
            support::Holdings::of(daemon.pid()).shared == 0
        });
    }
}

/// What happens to a daemon while a connection is made, used and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Nothing,
    Killed,
    /// It stands still for longer than the other daemon waits for it.
    Stopped,
}

/// Whatever happens to daemons, and whoever accepts: a reader gets everything, or an error.
#[test]
#[ignore = "needs time; run by ./test machines"]
fn nothing_is_lost_in_silence() {
    let seed = seed();
    let rounds = match std::env::var_os("IPNUMA_LONG") {
        Some(_) => 1000,
        None => 60,
    };
    let mut random = StdRng::seed_from_u64(seed);
    let mut daemons = [0, 1].map(|n| Daemon::impatient_machine(LOSS, seed ^ n));
    let mut told = 0;
    for round in 0..rounds {
        let bytes = [1, 64, 5000, 100_000][random.random_range(0..4)];
        let (kind, client_sends) = (["", "plain "][random.random_range(0..2)], random.random());
        let harm = match random.random_range(0..30) {
            0..10 => Harm::Nothing,
            10..29 => Harm::Killed,
            _ => Harm::Stopped,
        };
        let (which, when) = (random.random_range(0..2), random.random_range(0..4));
        let pause = Duration::from_millis(random.random_range(0..30));
        let place = ["client", "acceptor"][which];
        let said = format!(
            "round {round}: {bytes} bytes, acceptor {kind:?}, client sends: {client_sends}, \
             the {place}'s daemon: {harm:?} at {when} after {pause:?}"
        );
        println!("{said}");
        let (mut door, port) = Program::door(&daemons[1]);
        let mut client = Program::start_towards(&daemons[0], &daemons[1], &["commands"]);
        let fd = client.connect(port);
        let mut harmed = |now| {
            if now == when && harm != Harm::Nothing {
                std::thread::sleep(pause);
                match harm {
                    Harm::Killed => daemons[which].kill(),
                    _ => daemons[which].stop_for(Duration::from_millis(2500)),
                }
            }
        };
        let (sent, got) = if client_sends {
            harmed(0);
            let sent = client.ask(&format!("send {fd} {bytes}"));
            harmed(1);
            assert_eq!(client.ask(&format!("close {fd}")), "closed", "{said}");
            harmed(2);
            let accepted = door.accept(format!("accept {kind}").trim_end());
            door.tell(&format!("drain {kind}{accepted}"));
            harmed(3);
            (sent, door.line())
        } else {
            client.tell(&format!("drain {fd}"));
            harmed(0);
            let accepted = door.accept(format!("accept {kind}").trim_end());
            harmed(1);
            let sent = door.ask(&format!("send {kind}{accepted} {bytes}"));
            harmed(2);
            let closed = door.ask(&format!("close {kind}{accepted}"));
            assert_eq!(closed, "closed", "{said}");
            harmed(3);
            (sent, client.line())
        };
        println!("    sender: {sent}; reader: {got}");
        let (count, end) = parse(&got);
        assert_ne!(end, "garbled", "{said}");
        if sent == "sent" && end == "in order" {
            assert_eq!(count, bytes, "{said}: bytes were lost in silence");
        }
        let all = (sent.as_str(), end) == ("sent", "in order");
        assert!(harm != Harm::Nothing || all, "{said}: nothing was harmed");
        told += usize::from(!all);
        if harm == Harm::Killed {
            daemons[which].restart(0);
        }
    }
    println!("{told} of {rounds} times somebody was told of a loss");
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
