// SPDX-License-Identifier: Apache-2.0
//! Sealed sessions that get new keys while they carry stores, over UDP sockets of loopback addresses.

mod common;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::witness::Hooked;
use common::{BAD, Side, connect, exchange_meanwhile, seed, udp};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use softnic::{Config, Error, Faults, Faulty};
use wire::seal::{Sealer, packet_number};
use wire::{KeyEntry, KeyUse, NetCounter, PAYLOAD_OFFSET};

/// Frames with a key until the session wants the next one.
const EVERY: u64 = 1_000;

/// One side's keys and salts of what it sends, from the first on.
type Secrets = Vec<([u8; 16], [u8; 4])>;

/// What one side sends: each frame must be sealed with the key that is due, under a number that it has not had.
#[derive(Debug, Default)]
struct Sent {
    secrets: Secrets,
    /// The number of the key that the last frame had.
    key: usize,
    sealer: Option<Sealer>,
    nonces: HashSet<(usize, u64, u16)>,
}

impl Sent {
    fn take(&mut self, frame: &[u8]) {
        let (phase, packet) =
            packet_number(&frame[PAYLOAD_OFFSET..]).expect("all frames of the session are sealed");
        if self.sealer.is_none() || phase != (self.key % 2 == 1) {
            // Keys alternate, so it can be no other than the next.
            self.key += usize::from(self.sealer.is_some());
            let (key, salt) = self.secrets[self.key];
            self.sealer = Some(Sealer::new(key, salt).in_phase(phase));
        }
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        let new = self.nonces.insert((self.key, packet, port));
        assert!(
            new,
            "number {packet} was used twice with key {} at port {port:#x}",
            self.key
        );
        let opened = self.sealer.as_ref().expect("made above");
        let opened = opened.open_frame(&mut frame.to_vec());
        assert_eq!(opened, Ok(packet), "key {}", self.key);
    }
}

#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Sent>>);

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a side for a key number.
fn entry(own: &Recorder, other: &Recorder, number: usize) -> KeyEntry {
    let (tx_key, tx_salt) = own.lock().secrets[number];
    let (rx_key, rx_salt) = other.lock().secrets[number];
    KeyEntry {
        tx_key,
        rx_key,
        tx_salt,
        rx_salt,
    }
}

/// What the two managements do, one step at a time: who sends with a new key has heard that the other receives with it.
struct Management {
    recorders: [Recorder; 2],
    /// Of each side the number of its key, for receiving and for sending.
    receives: [usize; 2],
    sends: [usize; 2],
    /// Turns until the next step.
    wait: u32,
    rng: ChaCha8Rng,
}

impl Management {
    fn draw(&mut self) {
        for recorder in &self.recorders {
            let secret = (self.rng.random(), self.rng.random());
            recorder.lock().secrets.push(secret);
        }
    }

    fn write(&self, sides: &mut [Side; 2], index: usize, number: usize, what: KeyUse) {
        let keys = entry(&self.recorders[index], &self.recorders[1 - index], number);
        let side = &mut sides[index];
        side.nic
            .write_key(side.session, &keys, what)
            .expect("a sealed session");
    }

    fn step(&mut self, sides: &mut [Side; 2]) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.wait = self.rng.random_range(0..4);
        let newest = self.recorders[0].lock().secrets.len() - 1;
        for index in 0..2 {
            if self.receives[index] < newest {
                self.receives[index] = newest;
                return self.write(sides, index, newest, KeyUse::Receive(newest % 2 == 1));
            }
            if self.sends[index] < self.receives[1 - index] {
                self.sends[index] = newest;
                return self.write(sides, index, newest, KeyUse::Send(newest % 2 == 1));
            }
        }
        let worn = |side: &Side| side.nic.sealed_frames(side.session) >= EVERY;
        if sides.iter().any(worn) {
            self.draw();
        }
    }
}

/// Stores both ways, as many of each side; returns both NICs' counts of frames that did not open.
fn exchange_rekeyed(stores: usize, faults: Faults) -> [u32; 2] {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let recorders = [Recorder::default(), Recorder::default()];
    let mut sides = [0, 1].map(|index| {
        let recorder = recorders[index].clone();
        let below = Hooked {
            below: Faulty::new(udp(), faults, seed + index as u64),
            sent: move |frame: &mut Vec<u8>| recorder.lock().take(frame),
            received: |_: &[u8]| {},
        };
        Side::new(Config::default(), below)
    });
    let mut management = Management {
        recorders,
        receives: [0; 2],
        sends: [0; 2],
        wait: 0,
        rng: ChaCha8Rng::seed_from_u64(rng.random()),
    };
    management.draw();
    let [one, other] = &management.recorders;
    let keys = [entry(one, other, 0), entry(other, one, 0)];
    connect(&mut sides, 51, Some(keys));
    exchange_meanwhile(&mut sides, stores, &mut rng, |sides| management.step(sides));
    for (index, recorder) in management.recorders.iter().enumerate() {
        let sent = recorder.lock();
        let (frames, keys) = (sent.nonces.len(), sent.secrets.len());
        println!("{index}: {frames} frames with {keys} keys");
        // Each key may have been used a little longer, while the next was agreed on.
        assert!(keys as u64 > stores as u64 / EVERY / 2, "{keys} keys");
        assert!(sent.key + 1 >= keys - 1, "only {} were used", sent.key + 1);
    }
    sides
        .each_ref()
        .map(|side| side.nic.counters().net(NetCounter::RxBadSeal))
}

/// So many stores of each side.
fn stores() -> usize {
    match std::env::var_os("IPNUMA_LONG") {
        Some(_) => 500_000,
        None => 10_000,
    }
}

#[test]
fn new_keys_every_thousand_frames_lose_and_refuse_no_store() {
    let loss = Faults {
        loss: 10,
        ..Faults::default()
    };
    assert_eq!(exchange_rekeyed(stores(), loss), [0, 0]);
}

#[test]
fn new_keys_lose_no_store_in_a_network_that_does_everything_wrong() {
    // Repeated, overtaken and altered frames do not open.
    assert!(
        exchange_rekeyed(stores() / 2, BAD)
            .iter()
            .all(|count| *count > 0)
    );
}

#[test]
fn only_a_sealed_session_takes_new_keys() {
    let mut sides = common::pair(&Config::default(), Faults::default(), 0);
    let session = sides[0].session;
    let what = KeyUse::Receive(true);
    let refused = sides[0].nic.write_key(session, &KeyEntry::default(), what);
    assert!(matches!(refused, Err(Error::Missing { .. })), "{refused:?}");
}
