// SPDX-License-Identifier: Apache-2.0
//! What it takes to store into a plain session without having seen its frames: each number that has to be guessed, alone, and
//! how many guesses land. docs/security.md says the odds of all together.

mod common;

use common::cable::{Way, joined};
use common::{Side, connect, quiet, seed, windows, work};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use softnic::Config;
use wire::{Compact, Control, ErrorReport, Frame, Payload, SessionPort};

/// Guesses are made until so many should have landed.
const LAND: u32 = 16;
/// Control frames that are forged.
const FORGED: usize = 1 << 18;
/// Where the forger stores.
const AIM: u32 = 256;
/// What is given to a session by its daemon: 16 epochs, 255 numbers, keys of 12 bits, and a sequence number to begin with, of
/// which one half travels and the other is in the end code, with the tag.
const EPOCHS: u32 = 16;
const NUMBERS: u32 = 255;
const KEYS: u32 = 4096;
const BYTE: u32 = 256;
/// A byte each: both of the sequence number that travels, both of the end code.
const GUESSED_BYTES: u32 = 4;

/// A store that a machine has sent, with its sequence number and what its end code has beside the CRC.
struct Store {
    frame: Frame,
    mask: u16,
}

impl Store {
    fn last_of(way: &Way) -> Self {
        let bytes = way.with(|way| way.seen.last().expect("a frame").clone());
        let parsed = Frame::parse(&bytes).expect("a whole frame");
        Self {
            mask: parsed.tag as u16,
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
        // The tag is one part of the mask, which has more bits.
        self.frame.emit_sequenced(0, self.mask).expect("a frame")
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
    let status = sides[0].nic.session_status(sides[0].session);
    known.mask ^= (status.expect("a session").una >> 16) as u16;
    let mut landed = 0;
    for number in 1..=odds * LAND {
        let status = sides[0].nic.session_status(sides[0].session);
        let next = status.expect("a session").nxt;
        let mark = number.to_le_bytes();
        known.compact().sequence = next as u16;
        known.compact().data[..4].copy_from_slice(&mark);
        let mut store = Store {
            frame: known.frame.clone(),
            // The upper half of the sequence number is folded into the end code, as the tag is.
            mask: known.mask ^ (next >> 16) as u16,
        };
        guess(&mut store, rng);
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
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let byte = |shift: u32, rng: &mut ChaCha8Rng| (rng.random_range(0..BYTE) << shift) as u16;
    let bytes = [0, 8].map(|shift| {
        let sequence = landed(BYTE, &mut rng, |store, rng| {
            let guess = byte(shift, rng);
            let sequence = &mut store.compact().sequence;
            *sequence = *sequence & !(0xFF << shift) | guess;
        });
        // Wrong by this much: the right one is as likely as any.
        let end_code = landed(BYTE, &mut rng, |store, rng| store.mask ^= byte(shift, rng));
        (sequence, end_code)
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
        ("low byte of the sequence number", bytes[0].0),
        ("its high byte", bytes[1].0),
        ("low byte of the end code", bytes[0].1),
        ("its high byte", bytes[1].1),
        ("keys", keys),
        ("epochs", epochs),
        ("numbers", numbers),
    ];
    println!("{LAND} were to land: {all:?}");
    for (guessed, landed) in all {
        // Six standard deviations: once in ten million runs by chance.
        assert!((1..=LAND + 24).contains(&landed), "{guessed}: {landed}");
    }
    let page = include_str!("../../../docs/security.md");
    let known = f64::from(BYTE).powi(GUESSED_BYTES as i32);
    let all = known
        * [KEYS, EPOCHS, NUMBERS]
            .map(f64::from)
            .iter()
            .product::<f64>();
    for said in [
        format!("one in {:.1} * 10^9", known / 1e9),
        format!("one in {:.1} * 10^16", all / 1e16),
    ] {
        assert!(page.contains(&said), "docs/security.md does not say {said}");
    }
}

/// Who knows a session's addresses, number and epoch, and has not seen its frames: his acknowledgements, voids and error reports have
/// to name 32 bits that he does not know, and so do his completions of loads that nobody waits for. One of 35 million hits
/// what is in flight of 120 frames.
#[test]
fn blind_control_frames_change_nothing_in_a_plain_session() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let (mut sides, ways) = joined(&Config::default());
    connect(&mut sides, 50, None);
    let [window, _] = windows(&mut sides);
    let shared = sides[1].shared;
    sides[0].nic.store(&window, 0, &[1; 8]).expect("inside");
    work(&mut sides, quiet);
    let known = Store::last_of(&ways[0]);
    // What the peer of the one who stores would say to it.
    let mut forged = known.frame.clone();
    (forged.src_ip, forged.dst_ip) = (forged.dst_ip, forged.src_ip);
    (forged.src_mac, forged.dst_mac) = (forged.dst_mac, forged.src_mac);
    let session = sides[0].session;
    forged.src_port = SessionPort {
        index: session,
        ..known.port()
    }
    .to_port();
    let status = |sides: &[Side; 2]| {
        let status = sides[0].nic.session_status(session).expect("a session");
        (status.una, status.nxt, status.expected, status.pace)
    };
    let before = status(&sides);
    let mut kinds = [0; 5];
    for number in 0..FORGED {
        let expected = rng.random();
        let interval = 0xFFF;
        let kind = number % kinds.len();
        forged.payload = match kind {
            0 => Payload::Control(Control::Acknowledgement { expected, interval }),
            1 => Payload::Control(Control::Missing { expected, interval }),
            2 => Payload::Control(Control::Void(rng.random())),
            _ => Payload::Error(ErrorReport {
                epoch: known.port().epoch,
                acknowledgement: None,
                code: wire::ERR_BAD_KEY,
                fmt_type: wire::FMT_MWR64,
                sequence: rng.random(),
                length: 2,
                address: wire::wire_address(shared.key, 0),
            }),
        };
        let mut frame = forged.clone();
        if kind == 4 {
            // Outside of sessions nothing has to be guessed, so that nothing is believed.
            frame.src_port = wire::UDP_PORT;
        }
        kinds[kind] += 1;
        let high = if kind == 2 { rng.random() } else { 0 };
        let frame = frame.emit_sequenced(0, high).expect("a frame");
        ways[1].with(|way| way.waiting.push_back(frame));
        if number % 32 == 0 {
            sides[0].nic.poll().expect("a cable does not fail");
            assert_eq!(sides[0].nic.next_event(), None, "after {number} frames");
        }
    }
    println!("{kinds:?} frames forged");
    work(&mut sides, quiet);
    assert_eq!(status(&sides), before);
    sides[0].nic.store(&window, 8, b"honest..").expect("inside");
    let [events, _] = work(&mut sides, quiet);
    assert_eq!(events, []);
    let mut there = [0; 8];
    sides[1].memory.read(8, &mut there);
    assert_eq!(&there, b"honest..");
}
