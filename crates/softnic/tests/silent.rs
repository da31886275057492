// SPDX-License-Identifier: Apache-2.0
//! A peer that takes nothing and says nothing holds up nobody's stores and loads but those to itself.

mod common;

use std::time::{Duration, Instant};

use common::cable::joined;
use common::{BYTES, connect, contents, windows};
use softnic::{Config, Event, PeerAddress, Shared, Unloaded};

/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_silent_peer_holds_up_nothing_that_is_for_others() {
    // Nobody is lost meanwhile, however slow the machine is.
    let patient = Config {
        resend_limit: 255,
        ..Config::default()
    };
    let (mut sides, _ways) = joined(&patient);
    connect(&mut sides, 50, None);
    let [own, _] = windows(&mut sides);
    // Nobody is at this address.
    let nic = &mut sides[0].nic;
    let session = nic.reserve_session().expect("a second session");
    let mut silent = PeerAddress::of(nic, 7, 51);
    silent.identity.ip += 99;
    nic.open_session(session, &silent).expect("a session");
    let shared = Shared { key: 1, tag: 1 };
    let window = nic.map(session, &shared, 0, BYTES as u64).expect("pages");
    // As much as is taken, and more.
    let mut taken = 0;
    loop {
        match nic.store(&window, taken, &[1; 8]).expect("inside") {
            0 => break,
            bytes => taken += bytes as u64,
        }
    }
    assert!(!nic.can_store(session) && taken < 64_000, "{taken} bytes");
    for at in 0..100 {
        nic.load(&window, at, 8).expect("inside");
    }
    assert!(nic.can_store(sides[0].session));
    for round in 1..=200_u8 {
        let nic = &mut sides[0].nic;
        assert_eq!(nic.store(&own, 0, &[round; 8]).expect("inside"), 8);
        let load = nic.load(&own, 0, 8).expect("inside");
        let mut came = None;
        let begun = Instant::now();
        while came.is_none() {
            assert!(begun.elapsed() < PATIENCE, "round {round} waits");
            for side in &mut sides {
                side.nic.poll().expect("a cable");
            }
            while let Some(event) = sides[0].nic.next_event() {
                match event {
                    Event::Loaded { load: it, data } if it == load => came = Some(data),
                    Event::PeerLost { session: it } if it == session => panic!("it is lost before"),
                    _ => {}
                }
            }
        }
        assert_eq!(came, Some(Ok(vec![round; 8])));
        assert_eq!(contents(&sides[1].memory)[..8], [round; 8]);
    }
}

#[test]
fn a_load_that_nobody_answers_is_not_refused() {
    // It is given up before the peer is.
    let hasty = Config {
        resend_limit: 255,
        read_timeout_us: 1000,
        ..Config::default()
    };
    let (mut sides, _ways) = joined(&hasty);
    let nic = &mut sides[0].nic;
    let session = nic.reserve_session().expect("a session");
    let mut silent = PeerAddress::of(nic, 7, 51);
    silent.identity.ip += 99;
    nic.open_session(session, &silent).expect("a session");
    let shared = Shared { key: 1, tag: 1 };
    let window = nic.map(session, &shared, 0, BYTES as u64).expect("pages");
    let load = nic.load(&window, 0, 8).expect("inside");
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "it waits");
        nic.poll().expect("a cable");
        if let Some(event) = nic.next_event() {
            let data = Err(Unloaded::Unanswered);
            assert_eq!(event, Event::Loaded { load, data });
            return;
        }
    }
}
