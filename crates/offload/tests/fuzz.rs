// SPDX-License-Identifier: Apache-2.0
//! Random segments to the engine and to smoltcp: both must deliver the same and be in the same state, and a bitmap of what
//! was sound says how much that may be at most. Random tests print their seed; `IPNUMA_SEED` repeats one.

mod common;

use common::{ENGINE, OTHER, listening, seed};
use offload::endpoint::State;
use offload::frame::{self, Header, Socket, TcpOptions, emit, emit_with, flags};
use offload::node::Node;
use offload::peer::Peer;
use offload::{Hardware, Picoseconds, Policy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use smoltcp::socket::tcp;

/// Segments in all.
const SHORT: u64 = 60_000;
const LONG: u64 = 1_000_000;
/// Segments of a connection before the gaps are filled and it is closed.
const EACH: u64 = 60;
/// Bytes of the stream that are used.
const STREAM: usize = 120_000;
const WINDOW: u32 = 20_000;
const MSS: u16 = 1460;
/// Distance of a number that has nothing to do with the stream.
const FAR: u32 = 1 << 20;

/// Epochs and a single analyzer lose nothing that is sound; the counter gives good packets up with bad ones.
const POLICIES: [Policy; 5] = [
    Policy::Single,
    Policy::DEFAULT,
    Policy::Epochs {
        epochs: 8,
        packets: 4,
    },
    Policy::Counter { stall: None },
    Policy::Counter { stall: Some(4) },
];

fn loses_nothing(policy: Policy) -> bool {
    !matches!(policy, Policy::Counter { .. })
}

struct Case {
    rng: ChaCha8Rng,
    policy: Policy,
    data: Vec<u8>,
    now: Picoseconds,
    node: Node,
    peer: Peer,
    /// Own first number, and theirs: the engine's, smoltcp's.
    iss: u32,
    theirs: [u32; 2],
    got: [Vec<u8>; 2],
    /// What smoltcp answered and nobody looked at, and the first byte that it has not offered to take.
    heard: Vec<Header>,
    offered: i64,
    /// Bytes of the stream that arrived with right checksums.
    sound: Vec<bool>,
    /// Where the stream ends, once a FIN was sent.
    fin: Option<usize>,
    segments: u64,
}

/// What the connection is, in words that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    HalfClosed,
    Gone,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let policy = POLICIES[rng.random_range(0..POLICIES.len())];
        let node = Node::new(Hardware::OURS, policy, listening(WINDOW, MSS, rng.random()));
        let mut peer = Peer::new(ENGINE, 1500, WINDOW as usize, seed);
        peer.listen().expect("nothing is in the way");
        let iss = match rng.random_bool(0.5) {
            true => u32::MAX - rng.random_range(0..STREAM as u32),
            false => rng.random(),
        };
        Self {
            data: common::file(STREAM, seed),
            rng,
            policy,
            now: Picoseconds::ZERO,
            node,
            peer,
            iss,
            theirs: [0; 2],
            got: [Vec::new(), Vec::new()],
            heard: Vec::new(),
            offered: 0,
            sound: vec![false; STREAM],
            fin: None,
            segments: 0,
        }
    }

    fn header(&self, seq: u32, set: u8) -> Header {
        Header {
            from: OTHER,
            to: ENGINE,
            seq,
            ack: 0,
            flags: set,
            window: 60_000,
            options: TcpOptions::default(),
        }
    }

    fn number(&self, position: i64) -> u32 {
        self.iss.wrapping_add(1).wrapping_add(position as u32)
    }

    /// The same to both, but for the number that it acknowledges; a bit is turned in both.
    fn send(
        &mut self,
        header: &Header,
        ack: i32,
        options: &[u8],
        payload: &[u8],
        turn: Option<usize>,
    ) {
        for which in 0..2 {
            let mut header = header.clone();
            if header.has(flags::ACK) {
                header.ack = self.theirs[which].wrapping_add(ack as u32);
            }
            let mut packet = emit_with(&header, options, payload);
            if let Some(turn) = turn {
                let bit = turn % (packet.len() * 8);
                packet[bit / 8] ^= 1 << (bit % 8);
            }
            match which {
                0 => self.node.arrive(self.now, packet),
                _ => {
                    self.peer.arrive(packet);
                    self.poll();
                }
            }
        }
        self.segments += 1;
        self.now += Picoseconds::from_ns(100);
    }

    /// smoltcp takes what has arrived, and may offer more by its answers.
    fn poll(&mut self) {
        for packet in self.peer.poll(self.now) {
            let Some((answer, _)) = frame::parse(&packet) else {
                continue;
            };
            if !answer.has(flags::RST) {
                let acked = answer.ack.wrapping_sub(self.number(0)) as i32;
                let edge = i64::from(acked) + i64::from(answer.window);
                self.offered = self.offered.max(edge);
            }
            self.heard.push(answer);
        }
    }

    /// Until nothing is in the engine any more; both applications read.
    fn settle(&mut self) -> Vec<Vec<Header>> {
        self.now += Picoseconds::from_us(400);
        let mut answers = vec![Vec::new(), Vec::new()];
        self.node.step(self.now);
        let bytes = self.node.take(self.now);
        self.got[0].extend(bytes);
        for (_, packet) in self.node.transmit() {
            assert!(frame::is_good(&packet), "a wrong checksum is sent");
            answers[0].extend(frame::parse(&packet).map(|(header, _)| header));
        }
        for _ in 0..2 {
            self.poll();
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = self.peer.socket().recv_slice(&mut bytes) {
                self.got[1].extend(&bytes[..read]);
            }
        }
        answers[1] = std::mem::take(&mut self.heard);
        for (which, answers) in answers.iter().enumerate() {
            for answer in answers {
                self.check_ack(which, answer);
            }
        }
        answers
    }

    /// Nothing is acknowledged that did not arrive soundly.
    fn check_ack(&self, which: usize, answer: &Header) {
        if answer.has(flags::RST) || !answer.has(flags::ACK) {
            return;
        }
        let sound = self.sound.iter().take_while(|sound| **sound).count();
        let fin = u32::from(self.fin == Some(sound));
        let most = self.number(sound as i64).wrapping_add(fin);
        let beyond = answer.ack.wrapping_sub(most) as i32;
        assert!(
            beyond <= 0,
            "{which}: {beyond} bytes too many are acknowledged"
        );
    }

    fn open(&mut self) {
        let mut syn = self.header(self.iss, flags::SYN);
        syn.options.mss = Some(MSS);
        syn.options.sack_permitted = self.rng.random();
        let packet = emit(&syn, &[]);
        self.node.arrive(self.now, packet.clone());
        self.peer.arrive(packet);
        let answers = self.settle();
        for (which, answers) in answers.iter().enumerate() {
            let answer = answers.last().expect("a SYN is answered");
            assert!(
                answer.has(flags::SYN) && answer.has(flags::ACK),
                "{answer:?}"
            );
            self.theirs[which] = answer.seq.wrapping_add(1);
        }
        let ack = self.header(self.number(0), flags::ACK);
        self.send(&ack, 0, &[], &[], None);
        self.settle();
        assert_eq!(self.phases(), [Phase::Open; 2]);
    }

    fn phases(&mut self) -> [Phase; 2] {
        let engine = match self.node.endpoint.state() {
            State::Established => Phase::Open,
            State::LastAck => Phase::HalfClosed,
            _ => Phase::Gone,
        };
        let smoltcp = match self.peer.socket().state() {
            tcp::State::Established => Phase::Open,
            tcp::State::CloseWait | tcp::State::LastAck => Phase::HalfClosed,
            _ => Phase::Gone,
        };
        [engine, smoltcp]
    }

    /// Options that are well formed, at any alignment; nobody knows most of them.
    fn options(&mut self) -> Vec<u8> {
        let mut options = Vec::new();
        while self.rng.random_bool(0.3) && options.len() < 20 {
            match self.rng.random_range(0..4) {
                0 => options.push(1),
                1 => {
                    let length = self.rng.random_range(2..10u8);
                    options.extend([253, length]);
                    options.extend((2..length).map(|_| 0xAA));
                }
                2 => {
                    options.extend([8, 10]);
                    options.extend(self.rng.random::<[u8; 8]>());
                }
                _ => options.extend([5, 10, 0, 0, 0, 0, 0, 0, 0, 1]),
            }
        }
        options
    }

    /// Nothing that smoltcp has not offered to take and the engine has room for: a difference that docs/offload.md explains.
    /// What begins before that is cut; what begins in it is sent from where the engine has no room either.
    fn agreed(&self, from: i64, length: i64) -> (i64, i64) {
        let room = self.got[0].len() as i64 + i64::from(WINDOW);
        let differs = from.max(self.offered) < room.min(from + length);
        match differs && loses_nothing(self.policy) {
            true if from < self.offered => (from, self.offered - from),
            true => (room, length),
            false => (from, length),
        }
    }

    /// A random segment; whether it may end the connection. A RST is the `first` of its burst, and names the very next byte:
    /// one that is only within the window is a difference that docs/offload.md explains.
    fn random(&mut self, first: bool) -> bool {
        let next = self.got[0].len() as i64;
        let from = match self.rng.random_range(0..10) {
            0..5 => next,
            5 => next - self.rng.random_range(0..3_000),
            6 => next + self.rng.random_range(0..i64::from(WINDOW) + 3_000),
            _ => next + self.rng.random_range(0..6_000),
        };
        let from = from.clamp(0, STREAM as i64 - 1);
        let most = (STREAM as i64 - from).min(i64::from(MSS) - 40);
        let length = match self.rng.random_range(0..8) {
            0 => 0,
            1 => self.rng.random_range(1..10).min(most),
            _ => self.rng.random_range(0..=most),
        };
        let (from, length) = self.agreed(from, length);
        let turn = self
            .rng
            .random_bool(0.1)
            .then(|| self.rng.random_range(0..1_000_000));
        let mut set = flags::ACK;
        let mut ack = 0;
        let mut number = self.number(from);
        let mut ends = false;
        match self.rng.random_range(0..200) {
            0 => set |= flags::SYN,
            1 => set = 0,
            2 => ack = self.rng.random_range(1..100_000),
            // Within the window these would be wrong bytes that are right by all that is known of them.
            3 => {
                let far: u32 = self.rng.random();
                number = number.wrapping_add(far.clamp(FAR, u32::MAX - FAR));
            }
            4 if first => {
                number = self.number(next);
                set |= flags::RST;
                ends = true;
            }
            5 => set = flags::SYN,
            _ => {}
        }
        let bytes = from as usize..(from + length) as usize;
        let counts = turn.is_none() && set == flags::ACK && ack == 0;
        if counts && number == self.number(from) {
            self.sound[bytes.clone()].fill(true);
        }
        let header = self.header(number, set);
        let options = self.options();
        let payload = self.data[bytes].to_vec();
        self.send(&header, ack, &options, &payload, turn);
        ends
    }

    fn compare(&mut self) {
        let phases = self.phases();
        let received = [self.got[0].len(), self.got[1].len()];
        if loses_nothing(self.policy) {
            assert_eq!(received[0], received[1], "{}: {phases:?}", self.policy);
            assert_eq!(phases[0], phases[1], "{}: {received:?}", self.policy);
        }
        for got in &self.got {
            assert!(self.data.starts_with(got), "{}", self.policy);
            assert!(self.sound[..got.len()].iter().all(|sound| *sound));
        }
    }

    /// Fills all gaps, ends the stream, closes.
    fn finish(&mut self) {
        let end = self
            .sound
            .iter()
            .rposition(|sound| *sound)
            .map_or(0, |last| last + 1);
        for tries in 0.. {
            assert!(tries < 1_000, "{}: no progress", self.policy);
            let from = self.got[0].len().min(self.got[1].len());
            let to = end.min(from + usize::from(MSS) - 40);
            if from == end {
                break;
            }
            self.sound[from..to].fill(true);
            let header = self.header(self.number(from as i64), flags::ACK);
            let payload = self.data[from..to].to_vec();
            self.send(&header, 0, &[], &payload, None);
            self.settle();
        }
        assert_eq!(self.got[0], self.data[..end]);
        assert_eq!(self.got[1], self.data[..end]);
        self.fin = Some(end);
        let header = self.header(self.number(end as i64), flags::ACK | flags::FIN);
        self.send(&header, 0, &[], &[], None);
        self.settle();
        assert_eq!(self.phases(), [Phase::HalfClosed; 2]);
        self.peer.socket().close();
        self.settle();
        let header = self.header(self.number(end as i64 + 1), flags::ACK);
        self.send(&header, 1, &[], &[], None);
        self.settle();
        assert_eq!(self.phases(), [Phase::Gone; 2]);
    }

    fn run(mut self) -> u64 {
        self.open();
        let mut sent = 0;
        while sent < EACH {
            // Several at once, so that analyzers work side by side.
            let burst = self.rng.random_range(1..8);
            let mut ends = false;
            for nth in 0..burst {
                sent += 1;
                ends = self.random(nth == 0);
                if ends {
                    break;
                }
            }
            self.settle();
            self.compare();
            if ends && self.phases().contains(&Phase::Gone) {
                return self.segments;
            }
        }
        self.finish();
        self.segments
    }
}

fn cases(segments: u64) -> u64 {
    let seed = seed();
    let mut sent = 0;
    for number in 0.. {
        if sent >= segments {
            return sent;
        }
        let case = seed.wrapping_mul(1_000_003).wrapping_add(number);
        let result = std::panic::catch_unwind(|| Case::new(case).run());
        sent += result.unwrap_or_else(|_| panic!("IPNUMA_SEED={seed}: case {number} ({case})"));
    }
    sent
}

#[test]
fn the_engine_and_smoltcp_take_the_same_segments() {
    println!("{} segments", cases(SHORT));
}

#[test]
fn the_engine_and_smoltcp_take_the_same_million_segments() {
    if skip::long!() {
        println!("{} segments", cases(LONG));
    }
}

/// Bytes of any kind: no panic, no hang, no data, no state but those that there are.
#[test]
fn hostile_packets_do_nothing() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for policy in Policy::ALL {
        let mut node = Node::new(Hardware::OURS, policy, listening(WINDOW, MSS, 1));
        let mut now = Picoseconds::ZERO;
        for _ in 0..5_000 {
            let size = rng.random_range(0..80);
            let mut packet: Vec<u8> = (0..size).map(|_| rng.random()).collect();
            // Most look like TCP, and some have right checksums and option lists of any kind.
            if rng.random_bool(0.8) {
                let options: Vec<u8> = (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
                let header = Header {
                    from: Socket {
                        address: rng.random(),
                        port: rng.random(),
                    },
                    to: ENGINE,
                    seq: rng.random(),
                    ack: rng.random(),
                    // No SYN alone, which would open a connection.
                    flags: rng.random::<u8>() | flags::ACK,
                    window: rng.random(),
                    options: TcpOptions::default(),
                };
                packet = emit_with(&header, &options, &packet);
                if rng.random_bool(0.3) {
                    let bit = rng.random_range(0..packet.len() * 8);
                    packet[bit / 8] ^= 1 << (bit % 8);
                }
            }
            node.arrive(now, packet);
            now += Picoseconds::from_us(10);
            node.step(now);
            assert!(node.take(now).is_empty());
            for (_, answer) in node.transmit() {
                let (answer, _) = frame::parse(&answer).expect("it is TCP");
                assert!(answer.has(flags::RST), "{answer:?}");
            }
        }
        assert_eq!(node.endpoint.state(), State::Listen);
    }
}
