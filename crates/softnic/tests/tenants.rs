// SPDX-License-Identifier: Apache-2.0
//! Two tenants of one machine have a session each, from one address: what the other machine has given to one is not the other's.

mod common;

use common::cable::joined;
use common::{BYTES, START, connect, contents, quiet, windows, work};
use softnic::{Config, Event, PeerAddress, Refusal, Share};

#[test]
fn memory_that_one_tenant_was_given_is_not_the_others() {
    let (mut sides, _ways) = joined(&Config::default());
    connect(&mut sides, 50, None);
    let given = Share {
        read: true,
        session: Some(sides[1].session),
        ..Share::writable(0, BYTES as u32)
    };
    let memory = sides[1].memory.clone();
    sides[1].shared = sides[1].nic.share(&memory, &given).expect("a key");
    let [own, _] = windows(&mut sides);
    // The other tenant's session, between the same addresses.
    let others = sides
        .each_mut()
        .map(|side| side.nic.reserve_session().expect("a second session"));
    for index in 0..2 {
        let mut peer = PeerAddress::of(&sides[1 - index].nic, others[1 - index], 51);
        peer.start = START;
        let nic = &mut sides[index].nic;
        nic.open_session(others[index], &peer).expect("a session");
    }
    // It knows key and tag: that is not enough.
    let shared = sides[1].shared;
    let stolen = sides[0]
        .nic
        .map(others[0], &shared, 0, BYTES as u64)
        .expect("a window");
    sides[0].nic.store(&own, 0, b"mine").expect("inside");
    sides[0].nic.store(&stolen, 0, b"evil").expect("inside");
    let [events, _] = work(&mut sides, quiet);
    let refused = |load| Event::Refused {
        session: others[0],
        reason: Refusal::Source,
        key: shared.key,
        offset: 0,
        load,
    };
    assert_eq!(events, [refused(false)]);
    assert_eq!(&contents(&sides[1].memory)[..4], b"mine");
    // Nor may it look: zeros come back, as for all that is refused.
    sides[0].nic.load(&stolen, 0, 4).expect("inside");
    let [events, _] = work(&mut sides, quiet);
    let looked = events.iter().find_map(|event| match event {
        Event::Loaded { data, .. } => data.clone().ok(),
        _ => None,
    });
    assert!(events.contains(&refused(true)), "{events:?}");
    assert_ne!(looked.as_deref(), Some(&b"mine"[..]));
    // The one whose it is goes on.
    sides[0].nic.store(&own, 4, b"still").expect("inside");
    let [events, _] = work(&mut sides, quiet);
    assert_eq!(events, []);
    assert_eq!(&contents(&sides[1].memory)[..9], b"minestill");
}
