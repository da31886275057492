// SPDX-License-Identifier: Apache-2.0
//! Ends of connections that go from process to process.

use std::time::Duration;

use ipc::protocol::{Reply, Request};

use super::{World, client, server};

#[test]
fn what_children_have_is_kept_for_whom_they_hand_it_to() {
    let mut world = World::new();
    let [c, s, other] = [0; 3].map(|_| world.process());
    world.ask(s, Request::Listen { address: server() });
    let (from, to) = (client(), server());
    for child_closes in [false, true] {
        let channel = world.intent(c, to);
        let intent = channel;
        world.ask(c, Request::Announce { intent, from, to });
        world.ask(s, Request::Resolve { from, to });
        world.machine.open = true;
        for parent in [c, s] {
            let shared = true;
            world.ask(parent, Request::Close { channel, shared });
        }
        world.wait(Duration::from_secs(100));
        if child_closes {
            assert_eq!(world.state.channels.len(), 1);
            world.machine.open = false;
            world.wait(Duration::from_secs(1));
        } else {
            let (half, own, peer) = (1, to, from);
            let adopt = Request::Adopt { own, peer };
            assert_eq!(world.ask(other, adopt), Reply::Adopted { channel, half });
            world.machine.open = false;
            let shared = false;
            world.ask(other, Request::Close { channel, shared });
        }
        assert_eq!(world.state.channels.len(), 0);
    }
}

#[test]
fn a_program_that_replaces_itself_adopts_its_connections() {
    for (half, own, peer) in [(0, client(), server()), (1, server(), client())] {
        let mut world = World::new();
        let [c, s] = [0; 2].map(|_| world.process());
        world.ask(s, Request::Listen { address: server() });
        let channel = world.intent(c, server());
        let (from, to) = (client(), server());
        let announce = Request::Announce {
            intent: channel,
            from,
            to,
        };
        let memory = world.answer(c, announce).handles;
        let stranger = world.process();
        let adopt = Request::Adopt { own, peer };
        if half == 1 {
            assert_eq!(world.ask(stranger, adopt.clone()), Reply::Kernel);
        }
        world.ask(s, Request::Resolve { from, to });
        // The other end may be closed by then: what it has sent is still to be read.
        let (old, other) = if half == 0 { (c, s) } else { (s, c) };
        world.machine.open = true;
        world.leave(old);
        let shared = false;
        world.ask(other, Request::Close { channel, shared });
        world.wait(Duration::from_secs(1));
        let adopted = world.answer(stranger, adopt.clone());
        assert_eq!(adopted.reply, Reply::Adopted { channel, half });
        assert_eq!(adopted.handles, memory);
        world.wait(Duration::from_secs(60));
        assert_eq!(world.state.channels.len(), 1);
        world.machine.open = false;
        world.leave(stranger);
        assert_eq!(world.state.channels.len(), 0);
        let late = world.process();
        assert_eq!(world.ask(late, adopt), Reply::Kernel);
    }
}
