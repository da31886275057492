// SPDX-License-Identifier: Apache-2.0
//! Channels of datagrams: they belong to sockets, which processes share and leave.

use std::net::Ipv4Addr;
use std::time::Duration;

use ipc::protocol::{Notice, Reply, Request};
use ipc::{Rights, Token};

use super::super::{Announced, Asked, Effect, ProcessId};
use super::{World, at, client};

#[test]
fn datagrams_follow_the_socket_and_not_the_process() {
    let mut world = World::new();
    let [sender, parent] = [0; 2].map(|_| world.process());
    let to = at("127.0.0.1:53");
    world.ask(
        parent,
        Request::Bind {
            address: at("0.0.0.0:53"),
        },
    );
    let Reply::Channel { channel } = world.ask(
        sender,
        Request::Datagrams {
            from: client(),
            to,
            asked: false,
        },
    ) else {
        panic!("no channel");
    };
    let told = Notice::Datagrams {
        channel,
        from: client(),
        to,
    };
    assert_eq!(world.notices(), [(parent, told.clone())]);
    // The child of a fork binds the same socket anew.
    let child = world.process();
    world.ask(
        child,
        Request::Bind {
            address: at("0.0.0.0:53"),
        },
    );
    assert_eq!(world.notices(), [(child, told)]);
    world.leave(parent);
    assert!(world.machine.revoked.is_empty());
    assert_eq!(
        world.ask(
            sender,
            Request::Datagrams {
                from: client(),
                to,
                asked: false
            }
        ),
        Reply::Channel { channel }
    );
    world.ask(
        child,
        Request::Unbind {
            address: at("0.0.0.0:53"),
        },
    );
    assert_eq!(world.machine.revoked.len(), 1);
    assert_eq!(
        world.ask(
            sender,
            Request::Datagrams {
                from: client(),
                to,
                asked: false
            }
        ),
        Reply::Kernel
    );
}

#[test]
fn a_receiver_hears_that_its_sender_is_gone() {
    let mut world = World::new();
    let [sender, receiver] = [0; 2].map(|_| world.process());
    let to = at("127.0.0.1:53");
    world.ask(receiver, Request::Bind { address: to });
    let Reply::Channel { channel } = world.ask(
        sender,
        Request::Datagrams {
            from: client(),
            to,
            asked: false,
        },
    ) else {
        panic!("no channel");
    };
    world.notices();
    world.leave(sender);
    let gone = Notice::Revoked {
        channel: Some(channel),
        window: None,
        region: None,
    };
    assert_eq!(world.notices(), [(receiver, gone)]);
    assert_eq!(
        (world.state.channels.len(), world.state.datagrams.len()),
        (0, 0)
    );
}

const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn token(management: &str) -> Token {
    Token {
        rights: Rights::Write,
        management: management.parse().expect("an address"),
        region: 9,
        first: 0,
        bytes: 8192,
        secret: [1; 16],
    }
}

impl World {
    /// Another machine's daemon says that somebody there sends datagrams.
    fn hear_of_datagrams(&mut self, others: ProcessId, said: [&str; 3]) -> Option<Token> {
        let [from, to, management] = said;
        let said = Announced {
            peer: PEER,
            intent: None,
            from: at(from),
            to: at(to),
            token: token(management),
        };
        let (machine, now) = (&mut self.machine, self.now);
        self.state
            .announce_here(machine, now, others, said, 9)
            .expect("there is room")
    }

    /// What a process gets that sends to another machine. None: that is asked.
    fn send_there(&mut self, process: ProcessId, others: ProcessId) -> Result<Reply, u64> {
        let ends = (at("10.0.0.1:4000"), at("10.0.0.2:53"));
        let (machine, now) = (&mut self.machine, self.now);
        let asked = self
            .state
            .datagrams_far(machine, now, process, others, PEER, ends);
        match asked.expect("there is room") {
            Asked::Answered(answer) => Ok(answer.reply),
            Asked::Announce(channel, said) => {
                assert_eq!((said.intent, said.peer), (None, PEER));
                Err(channel)
            }
        }
    }

    fn untether(&mut self, channel: u64) {
        let (machine, now) = (&mut self.machine, self.now);
        self.state.untethered(machine, now, channel);
    }

    fn is_deserted(&mut self, channel: u64) -> bool {
        let is = |effect: &Effect<u64>| matches!(effect, Effect::Desert { channel: it } if *it == channel);
        self.state.take_effects().iter().any(is)
    }
}

const HONEST: [&str; 3] = ["10.0.0.2:4000", "10.0.0.1:53", "10.0.0.2:3422"];

#[test]
fn datagrams_of_another_machine_are_told_to_all_who_have_the_socket_until_nobody_has() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let address = at("0.0.0.0:53");
    assert_eq!(
        world.hear_of_datagrams(others, HONEST),
        None,
        "nobody binds"
    );
    let [parent, child] = [0; 2].map(|_| world.process());
    world.ask(parent, Request::Bind { address });
    let token = world.hear_of_datagrams(others, HONEST).expect("a token");
    let channel = token.region;
    let told = Notice::FarDatagrams {
        channel,
        from: at(HONEST[0]),
        to: at(HONEST[1]),
    };
    assert_eq!(world.notices(), [(parent, told.clone())]);
    world.ask(child, Request::Bind { address });
    assert_eq!(world.notices(), [(child, told)]);
    // Children that nobody knows of may have it.
    world.ask(parent, Request::Unbind { address });
    world.leave(child);
    assert!(world.state.channels.contains_key(&channel));
    assert!(!world.is_deserted(channel));
    world.untether(channel);
    assert!(world.is_deserted(channel));
    // Who binds from now on has nothing of it.
    let next = world.process();
    world.ask(next, Request::Bind { address });
    assert_eq!(world.notices(), []);
    world.state.lose(&mut world.machine, others, channel);
    assert!(world.state.channels.is_empty() && world.state.datagrams.is_empty());
}

#[test]
fn a_sender_that_comes_again_gets_a_channel_of_its_own() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let receiver = world.process();
    world.ask(
        receiver,
        Request::Bind {
            address: at(HONEST[1]),
        },
    );
    let [first, second] = [0; 2].map(|_| {
        let token = world.hear_of_datagrams(others, HONEST);
        token.expect("a token").region
    });
    assert_ne!(first, second);
    assert_eq!(world.state.channels.keys().collect::<Vec<_>>(), [&second]);
}

#[test]
fn strangers_do_not_send_datagrams() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let receiver = world.process();
    world.ask(
        receiver,
        Request::Bind {
            address: at("0.0.0.0:53"),
        },
    );
    for said in [
        ["10.0.0.3:4000", HONEST[1], HONEST[2]],
        ["10.0.0.1:4000", HONEST[1], HONEST[2]],
        [HONEST[0], "127.0.0.1:53", HONEST[2]],
        [HONEST[0], HONEST[1], "10.0.0.3:3422"],
    ] {
        let before = world.state.gone.refused;
        assert_eq!(world.hear_of_datagrams(others, said), None, "{said:?}");
        assert_eq!(world.state.gone.refused, before + 1, "{said:?}");
    }
    world.state.settings.guests.channels = 3;
    for port in 1..=4 {
        let from = format!("10.0.0.2:{port}");
        let token = world.hear_of_datagrams(others, [&from, HONEST[1], HONEST[2]]);
        assert_eq!(token.is_some(), port <= 3, "{port}");
    }
    // What it never opens it does not keep.
    world.now += Duration::from_secs(61);
    world.state.tidy_streams(&mut world.machine, world.now);
    assert!(world.state.channels.is_empty());
}

#[test]
fn another_machine_is_asked_once_for_all_who_send_from_one_address() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let [parent, child] = [0; 2].map(|_| world.process());
    let channel = world.send_there(parent, others).expect_err("it is asked");
    assert_eq!(world.send_there(child, others), Ok(Reply::Kernel));
    let answer = world.state.announced(channel, Some(token(HONEST[2])));
    assert_eq!(answer.reply, Reply::FarChannel { channel });
    assert_eq!(answer.handles.len(), 2);
    let both = Ok(Reply::FarChannel { channel });
    assert_eq!(world.send_there(child, others), both);
    world.untether(channel);
    let next = world.send_there(parent, others).expect_err("it is asked");
    assert_ne!(next, channel);
    // Nobody there has the library.
    assert_eq!(world.state.announced(next, None).reply, Reply::Kernel);
    assert!(world.state.far_datagrams.is_empty());
}

#[test]
fn who_does_not_come_to_a_channel_is_left_to_the_kernel_for_a_while() {
    let (mut world, others, _) = World::believing("sockets = ['10.0.0.0/24']", false);
    let receiver = world.process();
    world.ask(
        receiver,
        Request::Bind {
            address: at(HONEST[1]),
        },
    );
    let token = world.hear_of_datagrams(others, HONEST).expect("a token");
    // It has no descriptors left, and drops the tether.
    world.untether(token.region);
    let another = ["10.0.0.2:4001", HONEST[1], HONEST[2]];
    assert_eq!(world.hear_of_datagrams(others, another), None);
    world.now += Duration::from_secs(31);
    assert!(world.hear_of_datagrams(others, another).is_some());
}
