// SPDX-License-Identifier: Apache-2.0
//! Random segments to the TCP offload engine in RTL and to its model: what is delivered, what is acknowledged and the state
//! must be the same. Random tests print their seed; `IPNUMA_SEED` repeats one, and `IPNUMA_CASE` begins with one of its
//! connections and prints each segment.

#[path = "common/engine.rs"]
mod engine;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::{Rtl, at};
use ipnuma_rtl::ToeState;
use offload::endpoint::{Listening, State};
use offload::frame::{self, Header, Socket, TcpOptions, emit, emit_with, flags};
use offload::node::Node;
use offload::{Hardware, Policy};
use rack::Picoseconds;
use rack::engine::sockets::{Accept, Session};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Segments in all.
const SHORT: u64 = 15_000;
const LONG: u64 = 1_000_000;
/// Segments of a connection before the gaps are filled and it is closed.
const EACH: u64 = 150;
/// Bytes of the stream that are used.
const STREAM: usize = 400_000;
const WINDOW: u32 = 65_536;
const MSS: u16 = 1460;
/// Gaps that the hardware has room for: `toe_pkg::Gaps`.
const GAPS: usize = 4;
/// Distance of a number that has nothing to do with the stream.
const FAR: u32 = 1 << 20;

/// From the last word of a burst to the last word of memory and of an answer.
const SETTLE_CYCLES: u64 = 600;
/// The engine looks at one of 16 connections' timers every 64 cycles.
const LOOK_CYCLES: u64 = 16 * 64 + 100;
/// Longer than an acknowledgement waits.
const DELAY: Picoseconds = Picoseconds::from_us(60);

const ENGINE: Socket = at(5001);

/// Takes bytes while it may, and closes behind the peer.
struct Collect {
    reads: Rc<Cell<bool>>,
    got: Rc<RefCell<Vec<u8>>>,
}

impl Session for Collect {
    fn run(&mut self, socket: &mut rack::engine::sockets::Socket<'_>) {
        if self.reads.get() {
            self.got.borrow_mut().extend(socket.take(usize::MAX));
        }
        if socket.has_ended() {
            socket.close();
        }
    }
}

/// The engine in RTL, and a program behind it.
struct Engine {
    rtl: Rtl,
    reads: Rc<Cell<bool>>,
    got: Rc<RefCell<Vec<u8>>>,
}

impl Engine {
    fn new(secret: u64) -> Self {
        let (reads, got) = (Rc::new(Cell::new(false)), Rc::new(RefCell::default()));
        let (inner_reads, inner_got) = (Rc::clone(&reads), Rc::clone(&got));
        let accept: Accept = Rc::new(move || {
            Box::new(Collect {
                reads: Rc::clone(&inner_reads),
                got: Rc::clone(&inner_got),
            })
        });
        Self {
            rtl: Rtl::new(secret, vec![(ENGINE.port, accept)]),
            reads,
            got,
        }
    }

    /// Until nothing moves; with `late` acknowledgements that wait are sent as well.
    fn settle(&mut self, late: bool) {
        self.rtl.run(SETTLE_CYCLES);
        if late {
            self.rtl.now += DELAY;
            self.rtl.run(LOOK_CYCLES);
        }
    }

    /// The application reads.
    fn take(&mut self) {
        self.reads.set(true);
        for (conn, _) in self.rtl.pins.sockets.states().collect::<Vec<_>>() {
            self.rtl.pins.sockets.run(conn);
        }
        self.rtl.run(SETTLE_CYCLES / 4);
        self.reads.set(false);
    }
}

/// What the connection is, in words that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    HalfClosed,
    Gone,
}

struct Case<'a> {
    rng: ChaCha8Rng,
    data: Vec<u8>,
    now: offload::Picoseconds,
    engine: &'a mut Engine,
    node: Node,
    other: Socket,
    /// Own first number, and theirs: the RTL's, the model's.
    iss: u32,
    theirs: [u32; 2],
    taken: Vec<u8>,
    /// Bytes of the stream that arrived with right checksums.
    sound: Vec<bool>,
    fin: Option<usize>,
    segments: u64,
    /// A reset is in this burst.
    resets: bool,
    /// Each segment is printed.
    tells: bool,
}

impl<'a> Case<'a> {
    fn new(seed: u64, engine: &'a mut Engine) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let listening = Listening {
            local: ENGINE,
            window: WINDOW,
            mss: MSS,
            iss: rng.random(),
            delay: true,
            gaps: GAPS,
        };
        let iss = match rng.random_bool(0.5) {
            true => u32::MAX - rng.random_range(0..STREAM as u32),
            false => rng.random(),
        };
        let mut data = vec![0; STREAM];
        rng.fill(&mut data[..]);
        Self {
            data,
            now: offload::Picoseconds::ZERO,
            engine,
            node: Node::new(Hardware::OURS, Policy::DEFAULT, listening),
            other: Socket {
                address: [10, 0, 0, 2],
                port: rng.random_range(1024..=u16::MAX),
            },
            iss,
            theirs: [0; 2],
            taken: Vec::new(),
            sound: vec![false; STREAM],
            fin: None,
            segments: 0,
            resets: false,
            tells: std::env::var_os("IPNUMA_CASE").is_some(),
            rng,
        }
    }

    fn header(&self, seq: u32, set: u8) -> Header {
        Header {
            from: self.other,
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
                0 => self.engine.rtl.arrive(&packet),
                _ => self.node.arrive(self.now, packet),
            }
        }
        self.segments += 1;
        self.now += offload::Picoseconds::from_ns(1_300);
    }

    /// Until nothing moves in either; the answers of both.
    fn settle(&mut self, late: bool) -> [Vec<Header>; 2] {
        let wait = if late { 100 } else { 10 };
        self.now += offload::Picoseconds::from_us(wait);
        self.node.step(self.now);
        self.engine.settle(late);
        self.answers()
    }

    fn answers(&mut self) -> [Vec<Header>; 2] {
        let sent = std::mem::take(&mut self.engine.rtl.sent);
        let model = self.node.transmit().into_iter().map(|(_, packet)| packet);
        let all = [sent, model.collect()];
        let answers = all.map(|packets| {
            let read = |packet: &Vec<u8>| {
                assert!(frame::is_good(packet), "a wrong checksum is sent");
                let (header, _) = frame::parse(packet).expect("it is TCP");
                assert_eq!((header.from, header.to.address), (ENGINE, [10, 0, 0, 2]));
                header
            };
            packets.iter().map(read).collect::<Vec<_>>()
        });
        for (which, answers) in answers.iter().enumerate() {
            for answer in answers {
                self.check_ack(which, answer);
            }
        }
        answers
    }

    /// Both applications read.
    fn take(&mut self) -> [Vec<Header>; 2] {
        self.engine.take();
        let bytes = self.node.take(self.now);
        self.taken.extend(bytes);
        self.answers()
    }

    /// Nothing is acknowledged that did not arrive soundly.
    fn check_ack(&self, which: usize, answer: &Header) {
        if answer.has(flags::RST | flags::SYN) || !answer.has(flags::ACK) {
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
        syn.options = TcpOptions {
            mss: Some(MSS),
            scale: Some(self.rng.random_range(0..5)),
            sack_permitted: true,
            sack: Vec::new(),
        };
        let packet = emit(&syn, &[]);
        self.engine.rtl.arrive(&packet);
        self.node.arrive(self.now, packet);
        let answers = self.settle(false);
        for (which, answers) in answers.iter().enumerate() {
            let answer = answers.last().expect("a SYN is answered");
            assert!(
                answer.has(flags::SYN) && answer.has(flags::ACK),
                "{answer:?}"
            );
            assert_eq!(answer.ack, self.iss.wrapping_add(1));
            self.theirs[which] = answer.seq.wrapping_add(1);
        }
        let options = answers.map(|answers| answers[0].options.clone());
        assert_eq!(options[0], options[1]);
        let ack = self.header(self.number(0), flags::ACK);
        self.send(&ack, 0, &[], &[], None);
        self.settle(false);
        assert_eq!(self.phases(), [Phase::Open; 2]);
    }

    fn phases(&self) -> [Phase; 2] {
        let rtl = match self.engine.rtl.pins.sockets.states().next() {
            Some((_, ToeState::Established)) => Phase::Open,
            Some((_, ToeState::CloseWait | ToeState::LastAck)) => Phase::HalfClosed,
            Some((_, state)) => panic!("nobody has closed, and the state is {state:?}"),
            None => Phase::Gone,
        };
        let model = match self.node.endpoint.state() {
            State::Established => Phase::Open,
            State::LastAck => Phase::HalfClosed,
            _ => Phase::Gone,
        };
        [rtl, model]
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

    /// Nobody reads until the window is nearly closed.
    fn fill(&mut self) {
        let end = WINDOW as usize - self.rng.random_range(0..3_000);
        let mut at = 0;
        while at < end {
            let length = (end - at).min(usize::from(MSS));
            self.sound[at..at + length].fill(true);
            let header = self.header(self.number(at as i64), flags::ACK);
            let payload = self.data[at..at + length].to_vec();
            self.send(&header, 0, &[], &payload, None);
            at += length;
        }
        let answers = self.settle(true);
        self.compare_answers(&answers);
    }

    /// In the place of some segments, while the window is nearly closed, one that begins before it and ends about its edge.
    fn over_all(&mut self, from: i64, length: i64) -> (i64, i64) {
        let next = self.node.endpoint.received() as i64;
        let edge = self.taken.len() as i64 + i64::from(WINDOW);
        let before = i64::from(MSS) - 60 - (edge - next);
        if before < 2 || edge + 20 > STREAM as i64 || !self.rng.random_bool(0.2) {
            return (from, length);
        }
        let from = next - self.rng.random_range(0..before.min(next));
        (from, edge - from + self.rng.random_range(-1..20))
    }

    /// A random segment.
    fn random(&mut self) {
        let next = self.node.endpoint.received() as i64;
        let edge = self.taken.len() as i64 + i64::from(WINDOW);
        let from = match self.rng.random_range(0..20) {
            0..9 => next,
            9..11 => next - self.rng.random_range(0..3_000),
            11 => next + self.rng.random_range(0..i64::from(WINDOW) + 3_000),
            // About the edge of the window.
            12 => edge - self.rng.random_range(0..2_000),
            13 => edge + self.rng.random_range(-2..3),
            _ => next + self.rng.random_range(0..8_000),
        };
        let from = from.clamp(0, STREAM as i64 - 1);
        let most = (STREAM as i64 - from).min(i64::from(MSS) - 40);
        let length = match self.rng.random_range(0..8) {
            0 => 0,
            1 => self.rng.random_range(1..10).min(most),
            // To the edge, or a byte less or more.
            2 => (edge - from + self.rng.random_range(-1..2)).clamp(0, most),
            _ => self.rng.random_range(0..=most),
        };
        let (from, length) = self.over_all(from, length);
        let turn = self
            .rng
            .random_bool(0.1)
            .then(|| self.rng.random_range(0..1_000_000));
        let mut set = flags::ACK;
        let mut ack = 0;
        let mut number = self.number(from);
        match self.rng.random_range(0..400) {
            0 => set |= flags::SYN,
            1 => set = 0,
            2 => ack = self.rng.random_range(1..100_000),
            // Within the window these would be wrong bytes that are right by all that is known of them.
            3 => {
                let far: u32 = self.rng.random();
                number = number.wrapping_add(far.clamp(FAR, u32::MAX - FAR));
            }
            4 => {
                self.resets = true;
                set |= flags::RST;
                // The very next byte, which ends the connection, or near it, which does not.
                let near = self.rng.random_range(-1..3) * self.rng.random_range(0..2);
                number = self.number(next + near);
            }
            // Behind a reset it opens the next connection, and the model has one.
            5 if !self.resets => set = flags::SYN,
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
        if self.tells {
            println!(
                "{from}+{length} of {next}, edge {edge}, flags {set:#x}, {turn:?}, {} gaps: {:?}",
                self.node.endpoint.gaps(),
                self.engine.rtl.pins.counts()
            );
        }
        self.send(&header, ack, &options, &payload, turn);
    }

    /// The last acknowledgement of each says the same; so do the edges of their windows, but for what the scale cuts off.
    fn compare_answers(&self, answers: &[Vec<Header>; 2]) {
        let last = |which: usize| {
            answers[which]
                .iter()
                .rfind(|answer| !answer.has(flags::RST))
        };
        let (rtl, model) = (last(0), last(1));
        let number = |answer: Option<&Header>| answer.map(|answer| answer.ack);
        assert_eq!(
            number(rtl),
            number(model),
            "acknowledged\nRTL {rtl:?}\nmodel {model:?}"
        );
        if let (Some(rtl), Some(model)) = (rtl, model) {
            assert_eq!(rtl.window, model.window, "windows\n{rtl:?}\n{model:?}");
            assert_eq!(
                rtl.seq.wrapping_sub(self.theirs[0]),
                model.seq.wrapping_sub(self.theirs[1])
            );
            assert_eq!(rtl.options.sack, model.options.sack);
        }
        let resets = answers
            .each_ref()
            .map(|all| all.iter().filter(|answer| answer.has(flags::RST)).count());
        assert_eq!(resets[0], resets[1], "resets sent");
    }

    fn compare(&self) {
        let phases = self.phases();
        assert_eq!(phases[0], phases[1], "states");
        let got = self.engine.got.borrow();
        assert!(self.data.starts_with(&got));
        // A reset takes with it what was not read: the model lets it be read.
        if phases[0] != Phase::Gone {
            assert_eq!(got.len(), self.taken.len(), "bytes delivered");
            assert!(*got == self.taken);
        }
    }

    /// Fills all gaps, ends the stream, closes.
    fn finish(&mut self) {
        self.take();
        let end = self
            .sound
            .iter()
            .rposition(|sound| *sound)
            .map_or(0, |last| last + 1);
        for tries in 0.. {
            assert!(tries < 1_000, "no progress");
            let from = self.taken.len();
            let to = end.min(from + usize::from(MSS) - 40);
            if from == end {
                break;
            }
            self.sound[from..to].fill(true);
            let header = self.header(self.number(from as i64), flags::ACK);
            let payload = self.data[from..to].to_vec();
            self.send(&header, 0, &[], &payload, None);
            self.settle(false);
            self.take();
            self.compare();
        }
        self.fin = Some(end);
        let header = self.header(self.number(end as i64), flags::ACK | flags::FIN);
        self.send(&header, 0, &[], &[], None);
        self.settle(true);
        assert_eq!(self.phases(), [Phase::HalfClosed; 2]);
        let header = self.header(self.number(end as i64 + 1), flags::ACK);
        self.send(&header, 1, &[], &[], None);
        self.settle(false);
        assert_eq!(self.phases(), [Phase::Gone; 2]);
    }

    fn run(mut self) -> u64 {
        self.open();
        let mut reading = 0.8;
        if self.rng.random_bool(0.4) {
            self.fill();
            reading = 0.02;
        }
        while self.segments < EACH {
            for _ in 0..self.rng.random_range(1..8) {
                self.random();
            }
            self.resets = false;
            let late = self.rng.random_bool(0.25);
            let answers = self.settle(late);
            if late {
                self.compare_answers(&answers);
            }
            if self.rng.random_bool(0.1) {
                // For some time seldom, so that the window closes.
                reading = [0.9, 0.02][self.rng.random_range(0..2)];
            }
            if self.rng.random_bool(reading) {
                self.take();
            }
            self.compare();
            if self.phases().contains(&Phase::Gone) {
                return self.segments;
            }
        }
        self.finish();
        self.segments
    }
}

fn cases(segments: u64) {
    let seed = match std::env::var("IPNUMA_SEED") {
        Ok(text) => text.parse().expect("IPNUMA_SEED is a number"),
        Err(_) => 1_u64,
    };
    println!("IPNUMA_SEED={seed}");
    let first = std::env::var("IPNUMA_CASE")
        .ok()
        .map(|text| text.parse().expect("a number"));
    let mut sent = 0;
    let mut number = first.unwrap_or(0);
    while sent < segments {
        let case = seed.wrapping_mul(1_000_003).wrapping_add(number);
        // An engine a connection: a case can be repeated alone.
        let run = || {
            let mut engine = Engine::new(case);
            Case::new(case, &mut engine).run()
        };
        let result = std::panic::catch_unwind(run);
        sent += result.unwrap_or_else(|_| panic!("IPNUMA_SEED={seed}: case {number} ({case})"));
        number += 1;
    }
    println!("{sent} segments, {number} connections");
}

#[test]
fn the_rtl_and_its_model_take_the_same_segments() {
    cases(SHORT);
}

#[test]
fn the_rtl_and_its_model_take_the_same_million_segments() {
    if skip::long!() {
        cases(LONG);
    }
}
