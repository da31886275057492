// SPDX-License-Identifier: Apache-2.0
//! Pairs of NICs in software, and what they exchange.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod cable;
pub mod witness;

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use softnic::{
    Config, Error, Event, Faults, Faulty, PeerAddress, Segment, Share, Shared, SoftNic, Transport,
    Udp, Window,
};
use wire::{KeyEntry, PcieCounter};

use witness::{Stores, write};

/// Longer than anything takes: only so that a test does not hang.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes that each side shares.
pub const BYTES: usize = 64 * 1024;
/// A network that does everything wrong.
pub const BAD: Faults = Faults {
    loss: 10,
    duplicate: 5,
    reorder: 5,
    corrupt: 5,
};

/// The seed of this run, printed so that it can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("IPNUMA_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("IPNUMA_SEED={seed}");
    seed
}

/// An address of the loopback network that nobody uses.
pub fn address() -> Ipv4Addr {
    let [a, b, c]: [u8; 3] = rand::rng().random();
    Ipv4Addr::new(127, a, b, c.clamp(1, 254))
}

/// A machine.
pub struct Side {
    pub nic: SoftNic,
    pub memory: Segment,
    pub session: u8,
    pub shared: Shared,
}

/// A socket of a loopback address that nobody uses.
pub fn udp() -> Udp {
    loop {
        match Udp::bind(address()) {
            Ok(udp) => return udp,
            Err(Error::Port { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

impl Side {
    pub fn new(config: Config, transport: impl Transport + 'static) -> Self {
        let mut nic = SoftNic::new(config, Box::new(transport)).expect("a NIC");
        let memory = Segment::anonymous(BYTES).expect("memory");
        let session = nic.reserve_session().expect("a session");
        let share = Share {
            read: true,
            ..Share::writable(0, BYTES as u32)
        };
        let shared = nic.share(&memory, &share).expect("a key");
        Self {
            nic,
            memory,
            session,
            shared,
        }
    }
}

/// Two machines with a session.
pub fn pair(config: &Config, faults: Faults, seed: u64) -> [Side; 2] {
    let mut sides = [0, 1].map(|index| {
        let transport = Faulty::new(udp(), faults, seed + index);
        Side::new(config.clone(), transport)
    });
    connect(&mut sides, 50, None);
    sides
}

/// Opens a session between two machines.
pub fn connect(sides: &mut [Side; 2], epoch: u8, keys: Option<[KeyEntry; 2]>) {
    for index in 0..2 {
        let peer = &sides[1 - index];
        let mut peer = PeerAddress::of(&peer.nic, peer.session, epoch);
        peer.start = START;
        peer.keys = keys.map(|keys| keys[index]);
        let side = &mut sides[index];
        side.nic
            .open_session(side.session, &peer)
            .expect("a session");
    }
}

/// Sequence number with which sessions start: they soon come to 2^32.
pub const START: u32 = u32::MAX - 20;

/// Windows on each other's memory.
pub fn windows(sides: &mut [Side; 2]) -> [Window; 2] {
    [0, 1].map(|index| {
        let shared = sides[1 - index].shared;
        let side = &mut sides[index];
        side.nic
            .map(side.session, &shared, 0, BYTES as u64)
            .expect("a window")
    })
}

/// Works until `done`; returns the events of both sides.
pub fn work(
    sides: &mut [Side; 2],
    mut done: impl FnMut(&mut [Side; 2]) -> bool,
) -> [Vec<Event>; 2] {
    let began = Instant::now();
    let mut events = [Vec::new(), Vec::new()];
    while !done(sides) {
        for (side, events) in sides.iter_mut().zip(&mut events) {
            side.nic.poll().expect("sockets work");
            events.extend(std::iter::from_fn(|| side.nic.next_event()));
        }
        assert!(began.elapsed() < PATIENCE, "nothing happens any more");
    }
    events
}

/// Whether nothing is under way.
pub fn quiet(sides: &mut [Side; 2]) -> bool {
    sides.iter().all(|side| side.nic.is_quiet())
}

/// What is in memory.
pub fn contents(memory: &Segment) -> Vec<u8> {
    let mut bytes = vec![0; memory.bytes()];
    assert!(memory.read(0, &mut bytes));
    bytes
}

/// Random stores both ways; memory must be as if each had been written once and in order, and nothing is told.
pub fn exchange(sides: &mut [Side; 2], stores: usize, rng: &mut ChaCha8Rng) {
    exchange_meanwhile(sides, stores, rng, |_| {});
}

/// The same, with something that is done in between, again and again.
pub fn exchange_meanwhile(
    sides: &mut [Side; 2],
    stores: usize,
    rng: &mut ChaCha8Rng,
    mut meanwhile: impl FnMut(&mut [Side; 2]),
) {
    let windows = windows(sides);
    let mut shadows = [0, 1].map(|index| contents(&sides[1 - index].memory));
    let before = [0, 1].map(|index| sides[index].nic.counters().pcie(PcieCounter::DmaWrite));
    let mut issued = [Stores::new(), Stores::new()];
    // A counter at the start of each memory shows the order while it happens.
    let mut seen = [0_u32; 2];
    let events = work(sides, |sides| {
        meanwhile(sides);
        for index in 0..2 {
            for _ in 0..rng.random_range(0..16) {
                let count = issued[index].len();
                if count >= stores || !sides[index].nic.can_store(sides[index].session) {
                    break;
                }
                let (at, data) = if count.is_multiple_of(4) {
                    (0, (count as u32).to_le_bytes().to_vec())
                } else {
                    let length = match rng.random_range(0..3) {
                        0 => 64,
                        1 => rng.random_range(1..=8),
                        _ => rng.random_range(1..=256),
                    };
                    let at = rng.random_range(4..BYTES - length);
                    let at = if length == 64 { at / 64 * 64 + 64 } else { at };
                    // One frame each, so that they can be counted.
                    let length = length.min(256 - at % 256).min(BYTES - at);
                    let mut data = vec![0; length];
                    rng.fill(&mut data[..]);
                    (at, data)
                };
                let side = &mut sides[index];
                let taken = side.nic.store(&windows[index], at as u64, &data);
                assert_eq!(taken.expect("inside"), data.len());
                issued[index].push((at, data));
            }
            let mut counter = [0; 4];
            assert!(sides[index].memory.read(0, &mut counter));
            let counter = u32::from_le_bytes(counter);
            assert!(
                counter >= seen[index],
                "store {counter} came after {}",
                seen[index]
            );
            seen[index] = counter;
        }
        issued.iter().all(|issued| issued.len() == stores) && quiet(sides)
    });
    assert_eq!(events, [[], []]);
    for index in 0..2 {
        let written = sides[1 - index].nic.counters().pcie(PcieCounter::DmaWrite);
        assert_eq!(
            written - before[1 - index],
            stores as u32,
            "stores of {index}"
        );
        write(&issued[index], &mut shadows[index]);
        assert!(contents(&sides[1 - index].memory) == shadows[index]);
    }
    for (side, window) in sides.iter_mut().zip(windows) {
        side.nic.unmap(window);
    }
}

/// A thread with the name of this one, which is the test's: what it skips is said of the test.
fn named() -> std::thread::Builder {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    std::thread::Builder::new().name(name)
}

/// Runs in a network namespace of its own, as root; or says why it does not.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = named().spawn(|| {
        // SAFETY: of this thread only the network namespace changes; no other thread depends on that.
        let new = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
        if let Err(error) = new {
            skip::skip!("no right to make a network namespace: {error}");
            return;
        }
        if !std::path::Path::new("/dev/net/tun").exists() {
            skip::skip!("there is no /dev/net/tun");
            return;
        }
        test();
    });
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Calls `ip` of iproute2 in this thread's network namespace.
pub fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(
        status.expect("`ip` of iproute2").success(),
        "ip {arguments}"
    );
}
