// SPDX-License-Identifier: Apache-2.0
//! Frames that somebody forges who knows addresses, ports and the format, and has seen all frames of an earlier plain session
//! with the same numbers and of this sealed one: nothing comes of them but counts.

mod common;

use common::cable::joined;
use common::{BYTES, Side, connect, contents, quiet, seed, windows, work};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use softnic::{Config, Event, Share};
use wire::{KeyEntry, PAYLOAD_OFFSET};

/// Frames that are forged.
const FORGED: usize = 1 << 20;
/// Frames that are forged before the NICs have their turn.
const AT_ONCE: usize = 32;

/// Stores and loads of both sides, until all is done; no event but that loads have ended.
fn traffic(sides: &mut [Side; 2], rng: &mut ChaCha8Rng) {
    let windows = windows(sides);
    for _ in 0..200 {
        for (side, window) in sides.iter_mut().zip(&windows) {
            let bytes: Vec<u8> = (0..rng.random_range(1..200))
                .map(|_| rng.random())
                .collect();
            let at = rng.random_range(0..BYTES - bytes.len()) as u64;
            side.nic.store(window, at, &bytes).expect("inside");
        }
        let load = sides[0]
            .nic
            .load(&windows[0], rng.random_range(0..4096), 16);
        load.expect("inside");
        work(sides, quiet);
    }
}

#[test]
fn nothing_comes_of_forged_frames_in_a_sealed_session() {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut sides, ways) = joined(&Config::default());
    // In clear first, and badly, so that there is one of everything to forge.
    connect(&mut sides, 50, None);
    ways[0].with(|way| way.loses = Some(7));
    traffic(&mut sides, &mut rng);
    let (session, shared) = (sides[0].session, sides[1].shared);
    let nowhere = sides[0]
        .nic
        .map(session, &shared, BYTES as u64, 4096)
        .expect("pages");
    sides[0].nic.store(&nowhere, 0, &[1; 8]).expect("inside");
    work(&mut sides, quiet);
    ways.iter().for_each(|way| way.with(|way| way.loses = None));

    // The same numbers, ports and epoch again, but sealed.
    let keys = KeyEntry {
        tx_key: rng.random(),
        rx_key: rng.random(),
        tx_salt: rng.random(),
        rx_salt: rng.random(),
    };
    let others = KeyEntry {
        tx_key: keys.rx_key,
        rx_key: keys.tx_key,
        tx_salt: keys.rx_salt,
        rx_salt: keys.tx_salt,
    };
    connect(&mut sides, 50, Some([keys, others]));
    for side in &mut sides {
        side.nic.unshare(side.shared.key);
        let share = Share {
            read: true,
            sealed: true,
            ..Share::writable(0, BYTES as u32)
        };
        side.shared = side.nic.share(&side.memory, &share).expect("a key");
    }
    traffic(&mut sides, &mut rng);

    let seen = ways.each_ref().map(|way| way.with(|way| way.seen.clone()));
    let before = sides.each_ref().map(|side| contents(&side.memory));
    let mut kinds = std::collections::BTreeSet::new();
    for round in 0..FORGED / AT_ONCE {
        let way = round % 2;
        for _ in 0..AT_ONCE {
            let mut frame = seen[way][rng.random_range(0..seen[way].len())].clone();
            kinds.insert(frame[PAYLOAD_OFFSET]);
            match rng.random_range(0..4) {
                // As it was.
                0 => {}
                // Another packet number, sequence, key or tag, or what else there is.
                1 | 2 => {
                    for _ in 0..rng.random_range(1..4) {
                        let at = rng.random_range(PAYLOAD_OFFSET..frame.len());
                        frame[at] = rng.random();
                    }
                }
                // Nothing but its first bytes.
                _ => {
                    let from = PAYLOAD_OFFSET + rng.random_range(0..8);
                    frame[from..]
                        .iter_mut()
                        .for_each(|byte| *byte = rng.random());
                }
            }
            ways[way].with(|way| way.waiting.push_back(frame));
        }
        for side in &mut sides {
            side.nic.poll().expect("a cable does not fail");
            let event = side.nic.next_event();
            assert_eq!(event, None, "after {} frames", round * AT_ONCE);
        }
    }
    println!("{FORGED} frames forged, which began with {kinds:x?}");
    assert!(kinds.contains(&0xA0) && kinds.len() > 3, "{kinds:x?}");
    for (side, before) in sides.iter().zip(&before) {
        assert!(
            contents(&side.memory) == *before,
            "a forged store was taken"
        );
    }
    // The session is as it was: a store arrives, and is known to have.
    let [window, _] = windows(&mut sides);
    sides[0].nic.store(&window, 40, b"honest").expect("inside");
    let session = sides[0].session;
    sides[0].nic.flush(session, 7).expect("a flush");
    let [events, _] = work(&mut sides, quiet);
    let flushed = Event::Flushed {
        cookie: 7,
        delivered: true,
    };
    assert_eq!(events, [flushed]);
    assert_eq!(&contents(&sides[1].memory)[40..46], b"honest");
}
