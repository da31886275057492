// SPDX-License-Identifier: Apache-2.0
//! What other machines' daemons say of connections to programs here, and whether it is believed.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use ipc::protocol::{Reply, Request};
use ipc::{Rights, Token};

use super::super::{Announced, Effect, ProcessId};
use super::{Kind, World, at};

/// What the daemon of another machine says of a connection.
struct Said {
    peer: &'static str,
    intended: &'static str,
    from: &'static str,
    to: &'static str,
    management: &'static str,
}

const HONEST: Said = Said {
    peer: "10.0.0.2",
    intended: "10.0.0.1:80",
    from: "10.0.0.2:4000",
    to: "10.0.0.1:80",
    management: "10.0.0.2:3422",
};

impl World {
    /// A machine with listeners whose daemon believes some others.
    pub(super) fn believing(others: &str, loopback: bool) -> (Self, ProcessId, ProcessId) {
        let mut world = Self::new();
        let remote: crate::remote::Options = toml::from_str(others).expect("options");
        world.state.settings.sockets = remote.sockets;
        world.state.settings.peers = remote.peer;
        world.state.settings.loopback = loopback;
        let others = world.state.outside();
        let server = world.process();
        for address in ["10.0.0.1:80", "127.0.0.1:80", "10.0.0.1:81"] {
            let address = at(address);
            world.ask(server, Request::Listen { address });
        }
        (world, others, server)
    }

    /// Whether a machine's announcement is believed, and what is said if not.
    fn hear(&mut self, others: ProcessId, said: &Said) -> Result<Token, String> {
        let peer = said.peer.parse().expect("an address");
        let (from, to) = (at(said.from), at(said.to));
        let intended = at(said.intended);
        self.state.take_effects();
        let machine = &mut self.machine;
        let intent = self.state.intend_here(machine, others, peer, intended);
        let token = intent.and_then(|intent| {
            let announced = Announced {
                peer,
                intent: Some(intent),
                from,
                to,
                token: Token {
                    rights: Rights::Write,
                    management: said.management.parse().expect("an address"),
                    region: 9,
                    first: 0,
                    bytes: 8192,
                    secret: [1; 16],
                },
            };
            self.state
                .announce_here(machine, self.now, others, announced, 9)
                .expect("there is room")
        });
        let mut why = None;
        let mut carried = false;
        for effect in self.state.take_effects() {
            match effect {
                Effect::Refused { why: sentence } => why = Some(sentence),
                Effect::Carry { .. } => carried = true,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(carried, token.is_some(), "it connects to whom it believes");
        token.ok_or_else(|| why.expect("a sentence"))
    }
}

#[test]
fn another_daemon_is_believed_about_its_own_machine_only() {
    let (mut world, others, server) = World::believing("sockets = ['10.0.0.0/24']", false);
    let refused = [
        (
            "is in none of the networks in `sockets`",
            Said {
                peer: "10.0.1.2",
                from: "10.0.1.2:4000",
                management: "10.0.1.2:3422",
                ..HONEST
            },
        ),
        (
            "is an address of this machine",
            Said {
                peer: "10.0.0.1",
                from: "10.0.0.1:4000",
                management: "10.0.0.1:3422",
                ..HONEST
            },
        ),
        (
            "connect to the address of --management only",
            Said {
                intended: "127.0.0.1:80",
                to: "127.0.0.1:80",
                ..HONEST
            },
        ),
        (
            "connect to the address of --management only",
            Said {
                to: "0.0.0.0:80",
                ..HONEST
            },
        ),
        (
            "it has asked about another listener",
            Said {
                to: "10.0.0.1:81",
                ..HONEST
            },
        ),
        (
            "that source is no address of that machine's daemon",
            Said {
                from: "127.0.0.1:4000",
                ..HONEST
            },
        ),
        (
            "that source is no address of that machine's daemon",
            Said {
                from: "[::ffff:127.0.0.1]:4000",
                ..HONEST
            },
        ),
        (
            "that source is no address of that machine's daemon",
            Said {
                from: "10.0.0.3:4000",
                ..HONEST
            },
        ),
        (
            "are of IPv4",
            Said {
                from: "[::1]:4000",
                ..HONEST
            },
        ),
        (
            "its token is of another machine",
            Said {
                management: "10.0.0.3:3422",
                ..HONEST
            },
        ),
        (
            "its token is of another machine",
            Said {
                management: "10.0.0.2:22",
                ..HONEST
            },
        ),
    ];
    for (number, (words, said)) in refused.iter().enumerate() {
        let why = world.hear(others, said).expect_err(words);
        assert!(why.contains(words), "{why}");
        assert_eq!(world.state.gone.refused, number as u64 + 1);
        let (from, to) = (at(said.from), at(said.to));
        let reply = world.ask(server, Request::Resolve { from, to });
        assert_eq!(reply, Reply::Kernel, "{why}");
    }
    world.hear(others, &HONEST).expect("it is honest");
    let (from, to) = (at(HONEST.from), at(HONEST.to));
    let reply = world.ask(server, Request::Resolve { from, to });
    assert!(matches!(reply, Reply::FarChannel { .. }), "{reply:?}");
    assert_eq!(world.state.gone.refused, refused.len() as u64);
}

#[test]
fn a_listener_that_is_gone_is_not_connected_to() {
    let (mut world, others, server) = World::believing("sockets = ['10.0.0.0/24']", false);
    let [peer, to] = ["10.0.0.2:0", "10.0.0.1:80"].map(at);
    let IpAddr::V4(peer) = peer.ip() else {
        panic!("it is of IPv4");
    };
    let machine = &mut world.machine;
    let intent = world.state.intend_here(machine, others, peer, to);
    world.ask(server, Request::Unlisten { address: to });
    let said = Announced {
        peer,
        intent: Some(intent.expect("it listens")),
        from: at("10.0.0.2:4000"),
        to,
        token: Token {
            rights: Rights::Write,
            management: SocketAddrV4::new(peer, 3422),
            region: 9,
            first: 0,
            bytes: 8192,
            secret: [1; 16],
        },
    };
    let machine = &mut world.machine;
    let token = world
        .state
        .announce_here(machine, world.now, others, said, 9);
    assert_eq!(token, Ok(None));
    assert!(world.state.intents.is_empty() && world.state.streams.numbers().next().is_none());
}

#[test]
fn the_configuration_names_other_addresses_of_a_machine() {
    let options =
        "sockets = ['10.0.0.0/24']\n[[peer]]\ndaemon = '10.0.0.2'\nsources = ['10.1.0.0/24']";
    let (mut world, others, _) = World::believing(options, false);
    let elsewhere = Said {
        from: "10.1.0.7:4000",
        ..HONEST
    };
    world.hear(others, &elsewhere).expect("it is configured");
    for said in [
        Said {
            from: "10.1.1.7:4000",
            ..HONEST
        },
        Said {
            peer: "10.0.0.3",
            from: "10.1.0.7:4001",
            management: "10.0.0.3:3422",
            ..HONEST
        },
    ] {
        world.hear(others, &said).expect_err("it is another's");
    }
}

#[test]
fn a_daemon_that_is_two_machines_believes_itself_only() {
    let (mut world, others, server) = World::believing("", true);
    let client = world.process();
    let own: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    let to = at("127.0.0.1:80");
    assert_eq!(world.state.whose(client, Kind::Stream, to), Some(own));
    let question = world.state.intend_far(client, to, own).expect("room");
    let machine = &mut world.machine;
    let theirs = world.state.intend_here(machine, others, own, to);
    world.state.intended(client, question, theirs);
    let from = at("127.0.0.1:4000");
    // Somebody else of this machine is quicker.
    let forged = Said {
        peer: "10.0.0.1",
        intended: "127.0.0.1:80",
        from: "127.0.0.1:4000",
        to: "127.0.0.1:80",
        management: "10.0.0.1:3422",
    };
    let why = world.hear(others, &forged).expect_err("it is not its own");
    assert!(why.contains("has announced no such connection"), "{why}");
    let machine = &mut world.machine;
    let ends = (from, to);
    let said = world
        .state
        .announce_far(machine, world.now, client, others, question, ends);
    let said = said.expect("there is room");
    let token = world
        .state
        .announce_here(machine, world.now, others, said, question);
    assert!(matches!(token, Ok(Some(_))), "{token:?}");
    let reply = world.ask(server, Request::Resolve { from, to });
    assert!(matches!(reply, Reply::FarChannel { .. }), "{reply:?}");
}

#[test]
fn what_was_announced_by_a_machine_that_is_gone_waits_for_no_acceptor_without_a_connection() {
    for connected in [true, false] {
        let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
        world.hear(others, &HONEST).expect("it is honest");
        let channel = world.state.streams.numbers().next().expect("a channel");
        world.machine.open = connected;
        let pass = |world: &mut World, seconds| {
            world.now += Duration::from_secs(seconds);
            world.state.tidy_streams(&mut world.machine, world.now);
            world.state.channels.len()
        };
        assert_eq!(pass(&mut world, 60), 1, "its client has not gone");
        world.state.lose(&mut world.machine, others, channel);
        assert_eq!(pass(&mut world, 1), usize::from(connected));
    }
}

/// A process here has told another machine of a connection, and was not answered yet: the channel, the token that the other
/// machine gets, and the one that it answers with.
fn announced_elsewhere(
    world: &mut World,
    others: ProcessId,
    client: ProcessId,
) -> (u64, [Token; 2]) {
    let peer = Ipv4Addr::new(10, 0, 0, 2);
    let to = at("10.0.0.2:80");
    let question = world.state.intend_far(client, to, peer).expect("room");
    world.state.intended(client, question, Some(5));
    let (machine, ends) = (&mut world.machine, (at("10.0.0.1:4000"), to));
    let said = world
        .state
        .announce_far(machine, world.now, client, others, question, ends);
    let own = said.expect("there is room").token;
    let theirs = Token {
        management: SocketAddrV4::new(peer, 3422),
        ..own
    };
    (question, [own, theirs])
}

#[test]
fn a_client_that_is_gone_before_the_answer_leaves_nothing_behind() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let client = world.process();
    let (channel, [_, theirs]) = announced_elsewhere(&mut world, others, client);
    world.leave(client);
    world.state.take_effects();
    world.state.announced(channel, Some(theirs));
    let effects = world.state.take_effects();
    // Nobody has it: the other machine is told so.
    let deserts = |it: &Effect<u64>| matches!(it, Effect::Desert { channel: it } if *it == channel);
    assert!(effects.iter().any(deserts), "{effects:?}");
    world.state.lose(&mut world.machine, others, channel);
    assert!(world.state.channels.is_empty());
}

#[test]
fn a_machine_that_never_opens_its_copy_keeps_no_channel_that_nobody_has() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let client = world.process();
    let (channel, [_, theirs]) = announced_elsewhere(&mut world, others, client);
    world.state.announced(channel, Some(theirs));
    world.wait(Duration::from_secs(600));
    assert_eq!(world.state.channels.len(), 1, "its client has it");
    let untether = |world: &mut World, channel| {
        let machine = &mut world.machine;
        world.state.untethered(machine, world.now, channel);
    };
    untether(&mut world, channel);
    world.wait(Duration::from_secs(1));
    assert!(world.state.channels.is_empty());
    // One whose copy is open waits for the other end's last words.
    let (channel, [own, theirs]) = announced_elsewhere(&mut world, others, client);
    world.state.announced(channel, Some(theirs));
    let peer = Ipv4Addr::new(10, 0, 0, 2);
    let granted = world.state.grant(&mut world.machine, others, peer, &own);
    let grant = granted.expect("it is its own token").grant;
    untether(&mut world, channel);
    world.wait(Duration::from_secs(600));
    assert_eq!(world.state.channels.len(), 1);
    let machine = &mut world.machine;
    world.state.grant_ended(machine, others, grant, false);
    assert!(world.state.channels.is_empty());
}

#[test]
fn an_end_that_cannot_be_given_out_is_withdrawn_from_the_other_machine() {
    let (mut world, others, server) = World::believing("sockets = ['10.0.0.0/24']", false);
    let token = world.hear(others, &HONEST).expect("it is honest");
    let peer = Ipv4Addr::new(10, 0, 0, 2);
    let machine = &mut world.machine;
    let granted = world.state.grant(machine, others, peer, &token);
    let grant = granted.expect("it is its own token").grant;
    let (from, to) = (at(HONEST.from), at(HONEST.to));
    let reply = world.ask(server, Request::Resolve { from, to });
    let Reply::FarChannel { channel } = reply else {
        panic!("{reply:?}");
    };
    world.state.take_effects();
    world.state.break_off(&mut world.machine, channel);
    let effects = world.state.take_effects();
    let withdrawn =
        |effect: &Effect<u64>| matches!(effect, Effect::Withdraw { grant: it } if *it == grant);
    assert!(effects.iter().any(withdrawn), "{effects:?}");
    assert_eq!(world.machine.revoked.len(), 1);
    assert!(world.state.channels.is_empty());
}

#[test]
fn another_machine_gets_at_nothing_of_a_channel_but_its_inbox() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let token = world.hear(others, &HONEST).expect("it is honest");
    let whole = shm::channel::bytes(shm::channel::STREAM_LINES);
    let inbox = shm::channel::inbox(1, shm::channel::STREAM_LINES);
    assert_eq!(token.first, inbox.start as u64);
    assert_eq!(token.bytes, inbox.len() as u64);
    let IpAddr::V4(peer) = at("10.0.0.2:0").ip() else {
        panic!("it is of IPv4");
    };
    let wider = [
        Token { first: 0, ..token },
        Token {
            first: 0,
            bytes: whole as u64,
            ..token
        },
        Token {
            first: token.first - 4,
            ..token
        },
        Token {
            first: token.first - 4,
            bytes: token.bytes + 4,
            ..token
        },
        Token {
            bytes: token.bytes + 4,
            ..token
        },
        Token {
            bytes: u64::MAX,
            ..token
        },
        Token {
            rights: Rights::ReadWrite,
            ..token
        },
    ];
    for shown in wider {
        let machine = &mut world.machine;
        let granted = world.state.grant(machine, others, peer, &shown);
        assert!(granted.is_err(), "{shown:?}");
    }
    let machine = &mut world.machine;
    let granted = world.state.grant(machine, others, peer, &token);
    let granted = granted.expect("it is the token that was given");
    assert_eq!((granted.token, granted.region_bytes), (token, whole as u64));
}

#[test]
fn an_intent_of_a_process_that_is_gone_when_the_answer_comes_is_taken_back() {
    let (mut world, ..) = World::believing("sockets = ['10.0.0.0/24']", false);
    let peer = Ipv4Addr::new(10, 0, 0, 2);
    for theirs in [Some(5), None] {
        let client = world.process();
        let asked = world.state.intend_far(client, at("10.0.0.2:80"), peer);
        let question = asked.expect("there is room");
        world.leave(client);
        world.state.take_effects();
        world.state.intended(client, question, theirs);
        let effects = world.state.take_effects();
        let told = match effects[..] {
            [Effect::UnintendElsewhere { peer: to, intent }] if to == peer => Some(intent),
            [] => None,
            _ => panic!("{effects:?}"),
        };
        assert_eq!(told, theirs);
        assert!(!world.state.is_far_intent(question), "it stays");
    }
}
