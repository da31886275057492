// SPDX-License-Identifier: Apache-2.0
//! What it takes to store into a plain session without having seen its frames: each number that has to be guessed, alone, and
//! how many guesses land. docs/security.md says the odds of all together.

mod common;

use common::cable::{Way, joined};
use common::{Side, connect, quiet, seed, windows, work};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use softnic::Config;
use wire::{Compact, Frame, Payload, SessionPort};

/// Guesses are made until so many should have landed.
const LAND: u32 = 16;
/// Where the forger stores.
const AIM: u32 = 256;
/// What is given to a session by its daemon: 16 epochs, 255 numbers, keys and tags of 12 bits.
const EPOCHS: u32 = 16;
const NUMBERS: u32 = 255;
const KEYS: u32 = 4096;
const TAGS: u32 = 4096;

/// A store that a machine has sent, with its sequence number and tag.
struct Store {
    frame: Frame,
    tag: u16,
}

impl Store {
    fn last_of(way: &Way) -> Self {
        let bytes = way.with(|way| way.seen.last().expect("a frame").clone());
        let parsed = Frame::parse(&bytes).expect("a whole frame");
        Self {
            tag: parsed.tag as u16,
            frame: parsed.frame,
        }
    }

    fn compact(&mut self) -> &mut Compact {
        match &mut self.frame.payload {
            Payload::Compact(store) => store,
            other => panic!("a store of eight bytes went as {other:?}"),
        }
    }

    fn port(&self) -> SessionPort {
        SessionPort::from_port(self.frame.src_port).expect("a session's")
    }

    fn emit(&self) -> Vec<u8> {
        self.frame.emit(self.tag).expect("a frame")
    }
}

/// Sends stores of which one number is guessed and all others are known, each just before one of the peer's own, and returns how
/// many are written. The peer's are needed: behind a store that is refused the session waits for what its peer says to that.
fn landed(odds: u32, rng: &mut ChaCha8Rng, guess: impl Fn(&mut Store, &mut ChaCha8Rng)) -> u32 {
    let (mut sides, ways) = joined(&Config::default());
    connect(&mut sides, 50, None);
    let [window, _] = windows(&mut sides);
    let own = |sides: &mut [Side; 2]| {
        sides[0].nic.store(&window, 0, &[1; 8]).expect("inside");
        work(sides, quiet);
    };
    own(&mut sides);
    let mut known = Store::last_of(&ways[0]);
    known.compact().offset = AIM;
    let mut landed = 0;
    for number in 1..=odds * LAND {
        let status = sides[0].nic.session_status(sides[0].session);
        let next = status.expect("a session").nxt;
        let mark = number.to_le_bytes();
        known.compact().sequence = next as u16;
        known.compact().data[..4].copy_from_slice(&mark);
        let mut store = Store {
            frame: known.frame.clone(),
            tag: known.tag,
        };
        guess(&mut store, rng);
        // The upper half of the sequence number is folded into the end code, as the tag is.
        store.tag ^= (next >> 16) as u16;
        ways[0].with(|way| {
            way.seen.clear();
            way.waiting.push_back(store.emit());
        });
        own(&mut sides);
        let mut there = [0; 4];
        sides[1].memory.read(AIM as usize, &mut there);
        landed += u32::from(there == mark);
    }
    landed
}

#[test]
fn a_blind_store_into_a_plain_session_lands_as_often_as_is_said() {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tags = landed(TAGS, &mut rng, |store, rng| {
        store.tag = rng.random_range(0..TAGS) as u16;
    });
    let keys = landed(KEYS, &mut rng, |store, rng| {
        store.compact().key = rng.random_range(0..KEYS) as u16;
    });
    let epochs = landed(EPOCHS, &mut rng, |store, rng| {
        let port = store.port();
        let epoch = (u32::from(port.epoch) / EPOCHS * EPOCHS + rng.random_range(0..EPOCHS)) as u8;
        store.frame.src_port = SessionPort { epoch, ..port }.to_port();
    });
    let numbers = landed(NUMBERS, &mut rng, |store, rng| {
        let index = rng.random_range(0..NUMBERS) as u8;
        let port = store.port();
        store.frame.src_port = SessionPort { index, ..port }.to_port();
    });
    let all = [
        ("tags", tags),
        ("keys", keys),
        ("epochs", epochs),
        ("numbers", numbers),
    ];
    println!("{LAND} were to land: {all:?}");
    for (guessed, landed) in all {
        // Six standard deviations: once in ten million runs by chance.
        assert!((1..=LAND + 24).contains(&landed), "{guessed}: {landed}");
    }
    let odds = [TAGS, KEYS, EPOCHS, NUMBERS].map(f64::from);
    let page = include_str!("../../../docs/security.md");
    let said = odds.iter().product::<f64>() / 1e10;
    let said = format!("one in {said:.1} * 10^10");
    assert!(page.contains(&said), "docs/security.md does not say {said}");
}
