// SPDX-License-Identifier: Apache-2.0
//! Regions on the move to fresh memory.

use ipc::Token;
use ipc::protocol::{Reply, Request};

use super::super::Effect;
use super::{World, region};

#[test]
fn nobody_gets_the_fresh_memory_of_a_region_before_its_owner_has_moved() {
    let mut world = World::new();
    let [owner, holder] = [0; 2].map(|_| world.process());
    let (region, token) = region(&mut world, owner);
    let memory = |world: &mut World| {
        let answer = world.answer(holder, Request::Connect { token });
        answer.handles.first().copied()
    };
    let old = memory(&mut world);
    assert!(old.is_some());
    for moved in [false, true] {
        let answer = world.answer(owner, Request::Renew { region });
        assert_eq!(answer.reply, Reply::Done);
        let fresh = answer.handles[0];
        let again = world.ask(owner, Request::Renew { region });
        assert!(matches!(again, Reply::Error { .. }), "{again:?}");
        let early = world.ask(holder, Request::Connect { token });
        assert_eq!(early, Reply::Wait);
        assert!(world.state.must_wait(&token));
        // Who has no right to it need not wait to hear so.
        let forged = Token {
            secret: [8; 16],
            ..token
        };
        assert!(!world.state.must_wait(&forged));
        let refused = world.ask(holder, Request::Connect { token: forged });
        assert!(matches!(refused, Reply::Error { .. }), "{refused:?}");
        world.state.take_effects();
        let settle = Request::Settle { region, moved };
        assert_eq!(world.ask(owner, settle.clone()), Reply::Done);
        let effects = world.state.take_effects();
        let told = |effect: &Effect<u64>| matches!(effect, Effect::Moved { region: number } if *number == region);
        assert!(effects.iter().any(told), "{effects:?}");
        assert_eq!(memory(&mut world), if moved { Some(fresh) } else { old });
        let again = world.ask(owner, settle);
        assert!(matches!(again, Reply::Error { .. }), "{again:?}");
    }
    // Nor does anybody wait for an owner that has gone.
    world.ask(owner, Request::Renew { region });
    world.leave(owner);
    let refused = world.ask(holder, Request::Connect { token });
    assert!(matches!(refused, Reply::Error { .. }), "{refused:?}");
}
