// SPDX-License-Identifier: Apache-2.0
//! A key is taken back while many stores are under way: they are refused together, and what is between them arrives.

mod common;

use common::cable::joined;
use common::{BYTES, connect, contents, quiet, windows, work};
use softnic::{Config, Event, Refusal, Segment, Share};

#[test]
fn what_waits_for_a_key_that_was_taken_back_costs_one_refusal() {
    let (mut sides, _ways) = joined(&Config::default());
    connect(&mut sides, 50, None);
    let [gone, _] = windows(&mut sides);
    let session = sides[0].session;
    let other = Segment::anonymous(BYTES).expect("memory");
    let share = Share::writable(0, BYTES as u32);
    let shared = sides[1].nic.share(&other, &share).expect("a key");
    let stays = sides[0]
        .nic
        .map(session, &shared, 0, BYTES as u64)
        .expect("pages");
    let key = sides[1].shared.key;
    let before = contents(&sides[1].memory);
    sides[1].nic.unshare(key);
    // In turns, as many as may be under way.
    for at in 0..50_u64 {
        for (window, byte) in [(&gone, 6), (&stays, 7)] {
            let taken = sides[0].nic.store(window, 8 * at, &[byte; 8]);
            assert_eq!(taken.expect("inside"), 8);
        }
    }
    let [events, _] = work(&mut sides, quiet);
    let refused = Event::Refused {
        session,
        reason: Refusal::Key,
        key,
        offset: 0,
        load: false,
    };
    // One for each store would have all that is under way sent again for each.
    assert_eq!(events, [refused]);
    assert_eq!(contents(&sides[1].memory), before);
    assert_eq!(contents(&other)[..400], [7; 400]);
}
