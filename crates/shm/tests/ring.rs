// SPDX-License-Identifier: Apache-2.0
//! The line ring against a queue: what goes in comes out, in order and once, whatever the sizes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use shm::ring::{
    Full, INLINE, LINE, Mapped, Message, PAD, Receiver, ReceiverState, Sender, SenderState, Target,
    lines_for, max_message,
};

/// A ring in plain memory.
struct Ring {
    /// The lines, then a line for the credit word.
    memory: Vec<Line>,
    lines: u32,
    sender: SenderState,
    receiver: ReceiverState,
}

#[repr(align(64))]
#[derive(Clone)]
struct Line(#[allow(dead_code, reason = "only reached through pointers")] [u8; LINE]);

impl Ring {
    fn new(lines: u32) -> Self {
        Self {
            memory: vec![Line([0; LINE]); lines as usize + 1],
            lines,
            sender: SenderState::default(),
            receiver: ReceiverState::default(),
        }
    }

    fn base(&self) -> *mut u8 {
        self.memory.as_ptr().cast_mut().cast()
    }

    fn target(&self) -> Mapped<'_> {
        // SAFETY: the vector is aligned to lines, and nobody holds references into it.
        unsafe { Mapped::new(self.base(), self.memory.len() * LINE) }
    }

    fn credit(&self) -> &AtomicU64 {
        // SAFETY: the last line is the credit word's.
        unsafe { AtomicU64::from_ptr(self.base().add(self.lines as usize * LINE).cast()) }
    }

    fn tag(&self, line: usize) -> &AtomicU64 {
        assert!(line < self.lines as usize);
        // SAFETY: inside of the vector, aligned.
        unsafe { AtomicU64::from_ptr(self.base().add(line * LINE + INLINE).cast()) }
    }

    fn send(&self, kind: u8, parts: &[&[u8]]) -> Result<(), Full> {
        Sender::new(&self.sender, &self.target(), 0, self.lines, self.credit())
            .try_send(kind, parts)
    }

    fn writable(&self) -> bool {
        Sender::new(&self.sender, &self.target(), 0, self.lines, self.credit()).writable()
    }

    fn fits(&self, bytes: usize) -> bool {
        Sender::new(&self.sender, &self.target(), 0, self.lines, self.credit()).fits(bytes)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Receiver<'_, Mapped<'_>>) -> R) -> R {
        let target = self.target();
        // SAFETY: the vector has that many lines, aligned.
        act(&mut unsafe {
            Receiver::new(
                &self.receiver,
                self.base(),
                self.lines,
                &target,
                self.lines as usize * LINE,
            )
        })
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Send a message of this length, cut into that many parts; its bytes look like tags.
    Send {
        length: usize,
        parts: usize,
        imitate: bool,
    },
    /// Take so many bytes.
    Advance(usize),
    /// Take the rest of a message.
    Release,
    /// Copy across messages.
    Read(usize),
    /// Copy across messages, but take nothing.
    Copy(usize),
    /// Return what credit there is.
    Return,
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![0..=INLINE, INLINE..=2 * LINE, 0..4000usize];
    prop_oneof![
        4 => (length, 1..4usize, any::<bool>()).prop_map(|(length, parts, imitate)| Step::Send { length, parts, imitate }),
        2 => (0..3000usize).prop_map(Step::Advance),
        2 => Just(Step::Release),
        2 => (0..3000usize).prop_map(Step::Read),
        1 => (0..6000usize).prop_map(Step::Copy),
        1 => Just(Step::Return),
    ]
}

/// Bytes that imitate the tags of lines near `line`: stale data must never be taken for a message.
fn bytes(length: usize, seed: u64, line: u64, lines: u32, imitate: bool) -> Vec<u8> {
    let mut out: Vec<u8> = (0..length)
        .map(|index| (seed as usize * 31 + index * 7) as u8)
        .collect();
    if imitate {
        for (index, chunk) in out.chunks_mut(8).enumerate() {
            // What this place holds one, two... rounds later would be valid with these.
            let sequence =
                (line + (index / 8) as u64 + 2 + u64::from(lines) * (seed % 3)) & 0xFFFF_FFFF;
            let tag = sequence | 16 << 32 | 0x5A << 56;
            chunk.copy_from_slice(&tag.to_le_bytes()[..chunk.len()]);
        }
    }
    out
}

fn run(lines: u32, start: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let ring = Ring::new(lines);
    // Anywhere in the life of a ring, also where the sequence number wraps.
    let start = start / u64::from(lines) * u64::from(lines);
    for word in [
        &ring.sender.next,
        &ring.sender.credit,
        &ring.receiver.next,
        &ring.receiver.returned,
        &ring.receiver.frontier,
        ring.credit(),
    ] {
        word.store(start, Ordering::Relaxed);
    }
    let mut model: VecDeque<(u8, Vec<u8>)> = VecDeque::new();
    let mut taken = 0;
    let mut arrived = ring.with(|receiver| receiver.arrived());
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Send {
                length,
                parts,
                imitate,
            } => {
                let length = length.min(max_message(lines));
                let kind = (number / 20 % 5) as u8;
                let data = bytes(
                    length,
                    number as u64,
                    ring.sender.next.load(Ordering::Relaxed),
                    lines,
                    imitate,
                );
                let cut: Vec<&[u8]> = data.chunks(length.div_ceil(parts).max(1)).collect();
                let fits = ring.fits(length);
                let sent = ring.send(kind, &cut);
                prop_assert_eq!(sent.is_ok(), fits);
                if sent.is_ok() {
                    model.push_back((kind, data));
                    let now = ring.with(|receiver| receiver.arrived());
                    prop_assert!(now > arrived, "an arrival was not seen");
                    arrived = now;
                }
            }
            Step::Advance(count) => {
                ring.with(|receiver| receiver.advance(count));
                let _ = advance(&mut model, &mut taken, count);
            }
            Step::Release => {
                ring.with(|receiver| receiver.release());
                model.pop_front();
                taken = 0;
            }
            Step::Read(count) => {
                let kind = model.front().map_or(0, |message| message.0);
                let mut into = vec![0; count];
                let (got, _) = ring.with(|receiver| receiver.read(kind, &mut into));
                let mut expected = Vec::new();
                while expected.len() < count
                    && model.front().is_some_and(|message| message.0 == kind)
                {
                    let left = count - expected.len();
                    expected.extend(advance(&mut model, &mut taken, left));
                }
                prop_assert_eq!(&into[..got], &expected[..]);
            }
            Step::Copy(count) => {
                let kind = model.front().map_or(0, |message| message.0);
                let mut into = vec![0; count];
                let got = ring.with(|receiver| receiver.copy(kind, &mut into));
                let same = model.iter().take_while(|message| message.0 == kind);
                let expected: Vec<u8> = same
                    .flat_map(|message| &message.1)
                    .skip(taken)
                    .take(count)
                    .copied()
                    .collect();
                prop_assert_eq!(&into[..got], &expected[..]);
            }
            Step::Return => {
                ring.with(|receiver| receiver.return_credit());
            }
        }
        ring.with(|receiver| -> Result<(), TestCaseError> {
            prop_assert!(!receiver.is_corrupt());
            prop_assert_eq!(receiver.readable(), !model.is_empty());
            prop_assert_eq!(receiver.arrived(), arrived, "arrivals without a message");
            let queued: usize = model.iter().map(|message| message.1.len()).sum();
            prop_assert_eq!(receiver.queued_bytes(), queued - taken);
            let seen = receiver
                .peek()
                .map(|message: Message<'_>| (message.kind(), message.to_vec()));
            let expected = model
                .front()
                .map(|(kind, data)| (*kind, data[taken..].to_vec()));
            prop_assert_eq!(seen, expected);
            Ok(())
        })?;
        if model.is_empty() {
            prop_assert!(
                ring.writable(),
                "everything was taken, but nothing can be sent"
            );
            // Whatever was sent, a free line never holds what looks like a tag.
            for line in 0..lines as usize {
                prop_assert_eq!(
                    ring.tag(line).load(Ordering::Relaxed),
                    0,
                    "line {} was not cleared",
                    line
                );
            }
        }
    }
    Ok(())
}

/// Takes bytes of the model's first message.
fn advance(model: &mut VecDeque<(u8, Vec<u8>)>, taken: &mut usize, count: usize) -> Vec<u8> {
    let Some((_, data)) = model.front() else {
        return Vec::new();
    };
    let end = (*taken + count).min(data.len());
    let out = data[*taken..end].to_vec();
    if end == data.len() {
        model.pop_front();
        *taken = 0;
    } else {
        *taken = end;
    }
    out
}

proptest! {
    #[test]
    fn behaves_as_a_queue(
        lines in prop_oneof![Just(8u32), Just(16), Just(64), Just(256)],
        start in prop_oneof![Just(0u64), Just(0xFFFF_FF00), Just(0x1_0000_0000 - 512), any::<u64>().prop_map(|at| at >> 1)],
        steps in prop::collection::vec(step(), 1..300),
    ) {
        run(lines, start, steps)?;
    }

    /// Whatever a hostile sender leaves in the ring and says about credit: no access outside, no endless loop.
    #[test]
    fn survives_garbage(
        words in prop::collection::vec((0..32usize, any::<u64>(), 0..3u8, any::<u16>(), prop_oneof![Just(0u8), Just(PAD), any::<u8>()]), 0..64),
        credit in any::<u64>(),
        takes in prop::collection::vec((0..4u8, 0..5000usize), 1..64),
    ) {
        let ring = Ring::new(32);
        for (line, garbage, how, length, kind) in words {
            let valid = (line as u64 + 1) | u64::from(length) << 32 | u64::from(kind) << 48 | 0x5A << 56;
            ring.tag(line).store(if how == 0 { garbage } else { valid }, Ordering::Relaxed);
        }
        ring.credit().store(credit, Ordering::Relaxed);
        for (what, count) in takes {
            ring.with(|receiver| {
                let _ = (receiver.readable(), receiver.arrived(), receiver.queued_bytes(), receiver.copy(0, &mut vec![0; count]));
                if let Some(message) = receiver.peek() {
                    let inside = ring.base() as usize..=ring.base() as usize + 32 * LINE;
                    let begin = message.as_ptr() as usize;
                    prop_assert!(inside.contains(&begin) && inside.contains(&(begin + message.len())));
                }
                match what {
                    0 => { receiver.advance(count); }
                    1 => { receiver.release(); }
                    2 => { receiver.read(0, &mut vec![0; count]); }
                    _ => { receiver.return_credit(); }
                }
                Ok(())
            })?;
            let _ = ring.send(0, &[&[1; 300]]);
        }
    }
}

#[test]
fn sizes_are_those_of_the_format() {
    assert_eq!(
        [0, 1, 56, 57, 64, 65, 128].map(lines_for),
        [1, 1, 1, 2, 2, 3, 3]
    );
    assert_eq!(max_message(8), 64);
    assert_eq!(max_message(2048), 511 * 64);
    assert_eq!(max_message(1 << 20), 65535);
}

#[test]
fn the_longest_message_always_gets_through() {
    for lines in [8, 16, 64, 2048, 8192] {
        let ring = Ring::new(lines);
        let longest = vec![7; max_message(lines)];
        // Every position in the ring, hence every length of a pad.
        for round in 0..3 * lines {
            ring.send(0, &[&[round as u8]])
                .expect("an empty ring takes a line");
            assert_eq!(
                ring.with(|receiver| receiver.peek().map(|message| message.to_vec())),
                Some(vec![round as u8])
            );
            ring.with(|receiver| receiver.release());
            ring.send(1, &[&longest])
                .expect("an empty ring takes the longest message");
            assert!(ring.with(|receiver| {
                receiver
                    .peek()
                    .is_some_and(|message| message.to_vec() == longest)
            }));
            ring.with(|receiver| receiver.release());
        }
    }
}

#[test]
fn a_full_ring_says_so_and_recovers() {
    let ring = Ring::new(16);
    let mut sent = 0;
    while ring.send(0, &[&[sent]]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 16);
    assert!(!ring.writable());
    // Credit comes by quarters.
    for taken in 1..=4 {
        assert_eq!(ring.with(|receiver| receiver.release()), taken == 4);
    }
    for _ in 0..4 {
        ring.send(0, &[&[0]]).expect("a quarter is free");
    }
    assert_eq!(ring.send(0, &[&[0]]), Err(Full));
    assert_eq!(ring.sender.full.load(Ordering::Relaxed), 2);
}

#[test]
fn credit_beyond_what_was_sent_is_none() {
    let ring = Ring::new(8);
    for _ in 0..8 {
        ring.send(0, &[&[1]]).expect("there is room");
    }
    for lie in [9, u64::MAX, 1 << 40] {
        ring.credit().store(lie, Ordering::Relaxed);
        assert_eq!(ring.send(0, &[&[1]]), Err(Full), "credit {lie}");
    }
}

#[test]
fn a_pad_alone_is_not_readable() {
    let ring = Ring::new(16);
    let (line, left) = (15u64, 1);
    ring.receiver.next.store(line, Ordering::Relaxed);
    ring.receiver.returned.store(line, Ordering::Relaxed);
    ring.tag(15).store(
        (line + 1) | u64::from(PAD) << 48 | 0x5A << 56,
        Ordering::Relaxed,
    );
    ring.with(|receiver| {
        assert!(!receiver.readable());
        assert_eq!(receiver.arrived(), line);
        assert!(receiver.peek().is_none());
        assert!(!receiver.is_corrupt());
    });
    assert_eq!(ring.receiver.next.load(Ordering::Relaxed), line + left);
}

#[test]
fn impossible_messages_mark_the_ring() {
    for (line, length, kind) in [
        (0usize, 1000u64, 0u64),
        (14, 200, 0),
        (0, 0, 0xFF),
        (12, 0, 0xFF),
    ] {
        let ring = Ring::new(16);
        ring.receiver.next.store(line as u64, Ordering::Relaxed);
        ring.tag(line).store(
            (line as u64 + 1) | length << 32 | kind << 48 | 0x5A << 56,
            Ordering::Relaxed,
        );
        ring.with(|receiver| {
            assert!(receiver.peek().is_none());
            assert!(
                receiver.is_corrupt(),
                "line {line}, {length} bytes, kind {kind}"
            );
        });
    }
}

#[test]
fn two_threads() {
    const MESSAGES: u64 = 200_000;
    let ring = Ring::new(64);
    // Against hanging only: a minute would do on the busiest machine.
    let end = Instant::now() + Duration::from_secs(300);
    let wait = |what: &str| {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    };
    // The vector is only reached through pointers, and the states are atomics.
    struct Shared<'a>(&'a Ring);
    // SAFETY: see above.
    unsafe impl Sync for Shared<'_> {}
    let shared = Shared(&ring);
    let shared = &shared;
    let length = |number: u64| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % 500;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let ring = shared.0;
            for number in 0..MESSAGES {
                let data = vec![number as u8; length(number)];
                while ring.send((number % 200) as u8, &[&data]).is_err() {
                    wait("the ring stays full");
                }
            }
        });
        let ring = shared.0;
        let mut arrived = 0;
        for number in 0..MESSAGES {
            while !ring.with(|receiver| receiver.readable()) {
                wait("a message does not come");
            }
            ring.with(|receiver| {
                let now = receiver.arrived();
                assert!(now >= arrived);
                arrived = now;
                let message = receiver.peek().expect("it is readable");
                assert_eq!(message.kind(), (number % 200) as u8);
                assert_eq!(message.len(), length(number), "message {number}");
                assert!(
                    message.to_vec().iter().all(|byte| *byte == number as u8),
                    "message {number}"
                );
                receiver.release();
            });
        }
    });
}

/// A target that remembers what was stored where, and lets it through.
struct Counting<'a> {
    memory: Mapped<'a>,
    stores: std::cell::RefCell<Vec<(usize, usize)>>,
}

impl Target for Counting<'_> {
    fn store(&self, offset: usize, bytes: &[u8]) {
        self.stores.borrow_mut().push((offset, bytes.len()));
        self.memory.store(offset, bytes);
    }

    fn store_line(&self, offset: usize, line: &[u8; LINE]) {
        self.store(offset, line);
    }

    fn store64(&self, offset: usize, value: u64) {
        self.store(offset, &value.to_le_bytes());
    }

    fn fence(&self) {}
}

#[test]
fn every_length_arrives_whatever_the_line_held_before() {
    for whole in [false, true] {
        for length in 0..=200usize {
            let ring = Ring::new(32);
            let sent = bytes(length, 3, 0, 32, true);
            // What nobody writes anew must not be read.
            for line in 0..32 {
                // SAFETY: the ring's line, but for its tag.
                unsafe { std::ptr::write_bytes(ring.base().add(line * LINE), 0xA7, INLINE) };
            }
            if whole {
                // As a back end stores that writes whole lines.
                let target = Counting {
                    memory: ring.target(),
                    stores: std::cell::RefCell::default(),
                };
                let sender = Sender::new(&ring.sender, &target, 0, 32, ring.credit());
                sender.try_send(5, &[&sent]).expect("there is room");
                let stores = target.stores.into_inner();
                let lines = if length <= INLINE { 1 } else { 2 };
                assert_eq!(stores.len(), lines, "{length} bytes: {stores:?}");
                assert_eq!(stores[lines - 1], (0, LINE));
            } else {
                let parts = sent.split_at(length / 3);
                ring.send(5, &[parts.0, parts.1]).expect("there is room");
            }
            ring.with(|receiver| {
                let message = receiver.peek().expect("it is there");
                assert_eq!((message.kind(), message.to_vec()), (5, sent.clone()));
                assert_eq!(receiver.queued_bytes(), length);
                receiver.advance(length / 2);
                let rest = receiver.peek().map(|message| message.to_vec());
                if length > 1 {
                    assert_eq!(rest.as_deref(), Some(&sent[length / 2..]));
                }
                receiver.release();
                assert!(!receiver.readable());
            });
            if length <= INLINE {
                // In front of it nothing was written by a store of what is used.
                // SAFETY: the ring's first line.
                let front = unsafe {
                    std::slice::from_raw_parts(ring.base(), INLINE - length.next_multiple_of(4))
                };
                let untouched = if whole { 0 } else { 0xA7 };
                assert!(
                    front.iter().all(|byte| *byte == untouched),
                    "{length} bytes"
                );
            }
        }
    }
}
