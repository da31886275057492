// SPDX-License-Identifier: Apache-2.0
//! Channels of datagrams: they belong to sockets, which processes share and leave.

use ipc::protocol::{Notice, Reply, Request};

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
