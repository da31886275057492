// SPDX-License-Identifier: Apache-2.0
//! smoltcp and the TCP offload engine in RTL over cables on which everything goes wrong: what is sent to the echo comes
//! back, byte for byte. `IPNUMA_SEED` draws other files and faults.

#[path = "common/engine.rs"]
mod engine;

use std::collections::VecDeque;

use engine::{Rtl, SPEED, at, frame_words};
use ipnuma_rtl::NetWord;
use offload::Picoseconds as Time;
use offload::frame::{self, Socket};
use offload::link::{Faults, Link};
use offload::peer::Peer;
use rack::Picoseconds;
use rack::engine::services::services;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use smoltcp::socket::tcp::State;

const OTHER: Socket = Socket {
    address: [10, 0, 0, 2],
    port: 40_000,
};
const ECHO: u16 = 7;
const MTU: usize = 1500;
const DELAY: Time = Time::from_us(5);
/// Cycles without anything at a pin after which only time changes something.
const QUIET: u64 = 2_048;
/// Cycles between two looks of smoltcp.
const LOOK: u64 = 256;
/// Files with faults.
const ROUNDS: u64 = 12;
/// Virtual time after which a transfer hangs.
const LIMIT: Picoseconds = Picoseconds::from_us(120_000_000);

/// Both ends, and the cables between them.
struct Bench {
    rtl: Rtl,
    peer: Peer,
    to: Link,
    from: Link,
    words: VecDeque<NetWord>,
    quiet: u64,
    alarm: Option<u32>,
}

impl Bench {
    fn new(faults: Faults, seed: u64) -> Self {
        let mut peer = Peer::new(OTHER, MTU, 1 << 16, seed);
        peer.connect(at(ECHO)).expect("nothing is in the way");
        Self {
            rtl: Rtl::new(seed, services()),
            peer,
            to: Link::new(DELAY, faults, seed),
            from: Link::new(DELAY, faults, seed + 1),
            words: VecDeque::new(),
            quiet: 0,
            alarm: None,
        }
    }

    fn now(&self) -> Time {
        Time(self.rtl.now.0)
    }

    /// smoltcp takes what has come and sends what it has.
    fn look(&mut self) {
        let now = self.now();
        while let Some(packet) = self.from.receive(now) {
            self.peer.arrive(packet);
        }
        for packet in self.peer.poll(now) {
            self.to.send(now, packet);
        }
    }

    /// A cycle of the engine, or many in which nothing happens at all.
    fn step(&mut self) {
        let now = self.now();
        if self.words.is_empty()
            && let Some(packet) = self.to.receive(now)
        {
            self.words.extend(frame_words(&packet));
        }
        let word = self.words.pop_front();
        let cycle = self.rtl.cycle(word.unwrap_or(SPEED.idle()));
        self.alarm = cycle.alarm;
        self.quiet = match cycle.moves || word.is_some() {
            true => 0,
            false => self.quiet + 1,
        };
        for packet in std::mem::take(&mut self.rtl.sent) {
            assert!(frame::is_good(&packet), "a wrong checksum is sent");
            self.from.send(now, packet);
        }
        if self.quiet > QUIET {
            self.skip();
        }
    }

    fn skip(&mut self) {
        let now = self.now();
        let alarm = self.alarm.map_or(Time::NEVER, |at| {
            let left = at.wrapping_sub(now.whole_us() as u32) as i32;
            Time::from_us(now.whole_us() + u64::from(left.max(0) as u32))
        });
        let times = [self.to.next(), self.from.next(), self.peer.next(now), alarm];
        let next = times.into_iter().min().expect("four");
        if next > now {
            self.rtl.now = Picoseconds(next.0);
            self.quiet = QUIET - LOOK;
        }
    }
}

/// Sends a file to the echo; what comes back is the same.
fn echo(faults: Faults, bytes: usize, seed: u64) {
    let mut data = vec![0; bytes];
    ChaCha8Rng::seed_from_u64(seed).fill(&mut data[..]);
    let mut bench = Bench::new(faults, seed);
    let (mut sent, mut got) = (0, Vec::<u8>::new());
    let mut closed = false;
    for cycle in 0_u64.. {
        bench.step();
        if !cycle.is_multiple_of(LOOK) && bench.quiet != QUIET - LOOK {
            continue;
        }
        bench.look();
        let socket = bench.peer.socket();
        if socket.may_send() && sent < data.len() {
            sent += socket.send_slice(&data[sent..]).unwrap_or(0);
        } else if sent == data.len() && !closed {
            closed = true;
            socket.close();
        }
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = socket.recv_slice(&mut chunk) {
            got.extend(&chunk[..read]);
        }
        let done = matches!(socket.state(), State::TimeWait | State::Closed);
        bench.look();
        if closed && done {
            break;
        }
        assert!(
            bench.rtl.now < LIMIT,
            "{faults:?}: hangs with {sent} bytes sent and {} back",
            got.len()
        );
    }
    println!(
        "{faults:?}: {} packets there, {} back, {}, {:?}",
        bench.to.carried(),
        bench.from.carried(),
        bench.rtl.now,
        bench.rtl.pins.counts()
    );
    assert!(got == data, "{} bytes of {} came back", got.len(), bytes);
    assert_eq!(bench.rtl.pins.sockets.counts.reset, 0);
}

fn seed() -> u64 {
    let seed = match std::env::var("IPNUMA_SEED") {
        Ok(text) => text.parse().expect("IPNUMA_SEED is a number"),
        Err(_) => 1,
    };
    println!("IPNUMA_SEED={seed}");
    seed
}

#[test]
fn a_file_comes_back_over_a_good_cable() {
    echo(Faults::default(), 300_000, seed());
}

#[test]
fn a_file_comes_back_over_cables_with_every_fault() {
    let seed = seed();
    let faults = Faults {
        loss: 0.01,
        corrupt: 0.01,
        duplicate: 0.01,
        reorder: 0.02,
    };
    // One of the first ones found that pure acknowledgements behind a time-out had an old number: both ends had sent
    // again, neither looked at the other's, and a closed window never opened.
    for round in 0..ROUNDS {
        echo(faults, 300_000, seed.wrapping_add(round));
    }
}
