// SPDX-License-Identifier: Apache-2.0
//! Pairs of NICs in software over UDP sockets of loopback addresses, through a network that loses, repeats, reorders and
//! spoils frames.

mod common;

use std::os::fd::AsFd;
use std::sync::Arc;

use common::witness::{Hooked, store_in};
use common::{
    BAD, BYTES, START, Side, connect, contents, exchange, pair, quiet, seed, udp, windows, work,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use softnic::{Config, Error, Event, Faults, Refusal, Segment, Share};
use wire::{KeyEntry, NetCounter, PAYLOAD_OFFSET};

#[test]
fn a_hundred_thousand_stores_arrive_once_and_in_order() {
    let seed = seed();
    let mut sides = pair(&Config::default(), BAD, seed);
    exchange(&mut sides, 50_000, &mut ChaCha8Rng::seed_from_u64(seed));
    for side in &sides {
        let net = |counter| side.nic.counters().net(counter);
        println!(
            "{} resent, {} repeated, {} early, {} spoilt",
            net(NetCounter::TxResend),
            net(NetCounter::RxDuplicate),
            net(NetCounter::RxGap),
            net(NetCounter::RxBadEndCode)
        );
        assert!(net(NetCounter::TxResend) > 0 && net(NetCounter::RxDuplicate) > 0);
    }
}

/// An altered key is a frame that was altered, and is sent again; nothing is told of it.
#[test]
fn a_store_whose_key_was_altered_arrives_all_the_same() {
    const NUMBER: usize = 101;
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for times in 0..4 {
        let mut left = times;
        let spoil = move |frame: &mut Vec<u8>| {
            let number = START.wrapping_add(NUMBER as u32) as u16;
            if left > 0 && store_in(frame).is_some_and(|(found, ..)| found == number) {
                frame[PAYLOAD_OFFSET + 3] ^= 1 << left;
                left -= 1;
            }
        };
        let spoilt = Hooked {
            below: udp(),
            sent: spoil,
            received: |_: &[u8]| {},
        };
        let mut sides = [
            Side::new(Config::default(), spoilt),
            Side::new(Config::default(), udp()),
        ];
        connect(&mut sides, 50, None);
        exchange(&mut sides, 500, &mut rng);
    }
}

#[test]
fn sealed_sessions_carry_the_same() {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sides = pair(&Config::default(), BAD, seed);
    let one = KeyEntry {
        tx_key: rng.random(),
        rx_key: rng.random(),
        tx_salt: rng.random(),
        rx_salt: rng.random(),
    };
    let other = KeyEntry {
        tx_key: one.rx_key,
        rx_key: one.tx_key,
        tx_salt: one.rx_salt,
        rx_salt: one.tx_salt,
    };
    connect(&mut sides, 51, Some([one, other]));
    exchange(&mut sides, 2_000, &mut rng);
}

#[test]
fn loads_bring_what_is_there_and_flushes_are_told() {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let config = Config {
        // So that lost answers are soon asked for again.
        load_retry_us: 2_000,
        read_timeout_us: 60_000_000,
        ..Config::default()
    };
    let mut sides = pair(&config, BAD, seed);
    let bytes: Vec<u8> = (0..BYTES).map(|_| rng.random()).collect();
    assert!(sides[1].memory.write(0, &bytes));
    let [window, _] = windows(&mut sides);
    let mut wanted = Vec::new();
    for _ in 0..300 {
        let length = rng.random_range(1..2000);
        let at = rng.random_range(0..BYTES - length);
        let load = sides[0]
            .nic
            .load(&window, at as u64, length)
            .expect("inside");
        wanted.push((load, bytes[at..at + length].to_vec()));
    }
    let mut got = work(&mut sides, quiet)[0].clone();
    sides[0].nic.store(&window, 8, &[1; 600]).expect("inside");
    let session = sides[0].session;
    sides[0]
        .nic
        .flush(session, 0x1234_5678_9ABC)
        .expect("a flush");
    got.extend(work(&mut sides, quiet)[0].clone());
    for event in got {
        match event {
            Event::Loaded { load, data } => {
                let at = wanted.iter().position(|(id, _)| *id == load);
                let (_, bytes) = wanted.swap_remove(at.expect("it was asked for, once"));
                assert!(data.expect("it is answered") == bytes);
            }
            Event::Flushed { cookie, delivered } => {
                assert_eq!((cookie, delivered), (0x1234_5678_9ABC, true));
                assert_eq!(contents(&sides[1].memory)[8..608], [1; 600]);
                assert!(wanted.is_empty(), "a flush comes last");
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the flush has not ended");
}

#[test]
fn what_is_not_shared_any_more_is_refused_and_not_written() {
    let mut sides = pair(&Config::default(), Faults::default(), 0);
    let [window, _] = windows(&mut sides);
    sides[0].nic.store(&window, 0, &[1; 64]).expect("inside");
    work(&mut sides, quiet);
    let shared = sides[1].shared;
    sides[1].nic.unshare(shared.key);
    sides[0]
        .nic
        .store(&window, 0x40, &[2; 64])
        .expect("a window");
    let events = work(&mut sides, quiet);
    let refused = Event::Refused {
        session: sides[0].session,
        reason: Refusal::Key,
        key: shared.key,
        offset: 0x40,
        load: false,
    };
    assert_eq!(events[0], [refused]);
    let now = contents(&sides[1].memory);
    assert_eq!((now[..64].to_vec(), now[64]), (vec![1; 64], 0));
    let beyond = sides[0].nic.store(&window, BYTES as u64 - 1, &[0; 2]);
    assert!(matches!(beyond, Err(Error::Range { .. })));

    // Another region under another key goes on.
    let again = sides[1].memory.clone();
    let share = Share::writable(4096, 100);
    let shared = sides[1].nic.share(&again, &share).expect("a key");
    let session = sides[0].session;
    let window = sides[0]
        .nic
        .map(session, &shared, 4096, 200)
        .expect("a window");
    sides[0].nic.store(&window, 96, &[3; 8]).expect("inside");
    let events = work(&mut sides, quiet);
    assert!(matches!(
        events[0][..],
        [Event::Refused {
            reason: Refusal::Bounds,
            ..
        }]
    ));
    assert_eq!(contents(&sides[1].memory)[4096..4200], [0; 104]);
}

#[test]
fn a_peer_that_is_gone_is_reported_and_can_come_again() {
    let config = Config {
        resend_us: 1000,
        resend_limit: 5,
        doublings: 2,
        ..Config::default()
    };
    let silent = Faults {
        loss: 1000,
        ..Faults::default()
    };
    let mut sides = pair(&config, silent, 0);
    let session = sides[0].session;
    let [window, _] = windows(&mut sides);
    sides[0].nic.store(&window, 0, &[1; 8]).expect("inside");
    sides[0].nic.flush(session, 7).expect("a flush");
    let events = work(&mut sides, quiet);
    assert_eq!(
        events[0],
        [
            Event::PeerLost { session },
            Event::Flushed {
                cookie: 7,
                delivered: false
            }
        ]
    );
    assert!(sides[0].nic.session_status(session).is_some_and(|s| s.lost));

    let mut again = pair(&Config::default(), Faults::default(), 0);
    let [window, _] = windows(&mut again);
    again[0].nic.close_session(again[0].session);
    assert_eq!(again[0].nic.store(&window, 0, &[1; 8]).expect("taken"), 8);
    work(&mut again, quiet);
    assert_eq!(contents(&again[1].memory)[..8], [0; 8], "it was dropped");
    again[0].session = again[0].nic.reserve_session().expect("a session");
    connect(&mut again, 52, None);
    exchange(
        &mut again,
        500,
        &mut ChaCha8Rng::seed_from_u64(rand::rng().random()),
    );
}

#[test]
fn who_waits_is_woken() {
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    let mut sides = pair(&Config::default(), Faults::default(), 0);
    let event = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd"));
    let signal = memfd_create("signal", MemfdFlags::ALLOW_SEALING).expect("a memfd");
    ftruncate(&signal, 4096).expect("a size");
    fcntl_add_seals(&signal, SealFlags::SHRINK).expect("a seal");
    let page = Segment::map(signal.as_fd(), 4096).expect("a mapping");
    let memory = Segment::anonymous(4096).expect("memory");
    let memory = memory.with_wake(Arc::clone(&event), Some(signal.as_fd()));
    let memory = memory.expect("no clone has it");
    let shared = sides[1].nic.share(&memory, &Share::writable(0, 4096));
    let session = sides[0].session;
    let shared = shared.expect("a key");
    let window = sides[0].nic.map(session, &shared, 0, 4096).expect("pages");
    let ready = || {
        let mut one = [PollFd::new(&event, PollFlags::IN)];
        poll(&mut one, Some(&Timespec::default())).expect("poll works") == 1
    };
    sides[0].nic.store(&window, 64, &[5; 64]).expect("inside");
    work(&mut sides, quiet);
    let mut line = [0; 64];
    assert!(memory.read(64, &mut line));
    assert_eq!(line, [5; 64]);
    assert!(!ready(), "nobody sleeps");
    assert!(page.write(0, &1_u32.to_ne_bytes()));
    sides[0].nic.store(&window, 128, &[5; 64]).expect("inside");
    work(&mut sides, |_| ready());
    assert!(memory.read(128, &mut line));
    assert_eq!(line, [5; 64]);
}
