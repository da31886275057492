// SPDX-License-Identifier: Apache-2.0
//! A ring whose other end is hostile: whatever it writes into the lines or the credit word, and whenever, the receiver reads
//! nothing outside of the ring, the sender writes nothing outside, and neither goes on for ever.
#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};

use ipnuma_fuzz::Script;
use libfuzzer_sys::fuzz_target;
use shm::ring::{LINE, Mapped, Message, Receiver, ReceiverState, Sender, SenderState};

/// Lines in front of the ring and behind it that nobody may touch.
const GUARD: usize = 16;
const UNTOUCHED: u8 = 0xA7;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; LINE]);

fuzz_target!(|data: &[u8]| {
    let mut script = Script::new(data);
    let lines = 8usize << (script.byte() % 4);
    let mut memory = vec![Line([0; LINE]); lines + 2 * GUARD];
    memory[..GUARD].fill(Line([UNTOUCHED; LINE]));
    memory[GUARD + lines..].fill(Line([UNTOUCHED; LINE]));
    let base = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: all of it is there, and used through these pointers only until the end.
    let (base, target) = unsafe {
        (
            base.add(GUARD * LINE),
            Mapped::new(base.add(GUARD * LINE), lines * LINE),
        )
    };
    let credit_line = vec![Line([0; LINE])];
    let credit_at = credit_line.as_ptr().cast_mut().cast::<u8>();
    // SAFETY: a line that is there as long as this.
    let (credit, credit_target) = unsafe {
        (
            AtomicU64::from_ptr(credit_at.cast()),
            Mapped::new(credit_at, LINE),
        )
    };
    let (sent, received) = (SenderState::default(), ReceiverState::default());
    let sender = Sender::new(&sent, &target, 0, lines as u32, credit);
    // SAFETY: as above.
    let mut receiver = unsafe { Receiver::new(&received, base, lines as u32, &credit_target, 0) };
    let mut into = [0; 512];
    for _ in 0..512 {
        if !script.goes_on() {
            break;
        }
        match script.byte() % 12 {
            0 => {
                // Bytes anywhere.
                let at = usize::from(script.short()) % (lines * LINE);
                let count = usize::from(script.byte()).min(lines * LINE - at);
                let bytes = script.bytes(count);
                // SAFETY: inside the ring.
                unsafe { base.add(at).copy_from(bytes.as_ptr(), bytes.len()) };
            }
            1 => {
                // A tag that passes for one, where the receiver looks or near it.
                let line = received.next.load(Ordering::Relaxed) + u64::from(script.byte() % 4);
                let length = u64::from(script.short());
                let kind = u64::from(script.byte());
                let tag = (line + 1) & 0xFFFF_FFFF | length << 32 | kind << 48 | 0x5A << 56;
                let at = line as usize % lines * LINE + LINE - 8;
                // SAFETY: inside the ring, aligned.
                unsafe { AtomicU64::from_ptr(base.add(at).cast()) }.store(tag, Ordering::Release);
            }
            2 => credit.store(script.long(), Ordering::Relaxed),
            3 => credit.store(u64::from(script.byte()), Ordering::Relaxed),
            4 => {
                let count = usize::from(script.short()) % (sender.max_message() + 1);
                let bytes = vec![0x5A; count];
                let _ = sender.try_send(script.byte() % 255, &[&bytes]);
            }
            5 => {
                if let Some(message) = receiver.peek() {
                    inside(&message, base, lines);
                    receiver.advance(usize::from(script.byte()).min(message.len()));
                }
            }
            6 => {
                if let Some(message) = receiver.peek() {
                    inside(&message, base, lines);
                    receiver.release();
                }
            }
            7 => {
                let _ = receiver.read(script.byte(), &mut into[..usize::from(script.byte())]);
            }
            8 => {
                let _ = receiver.copy(script.byte(), &mut into[..usize::from(script.byte())]);
            }
            9 => {
                let _ = (receiver.arrived(), receiver.readable());
            }
            10 => {
                let _ = (receiver.queued_bytes(), receiver.is_corrupt());
            }
            _ => {
                let _ = receiver.return_credit();
                assert!(
                    sender.free_lines() <= lines as u32,
                    "more room than there is"
                );
            }
        }
    }
    let guards = memory[..GUARD].iter().chain(&memory[GUARD + lines..]);
    assert!(
        guards.into_iter().all(|line| line.0 == [UNTOUCHED; LINE]),
        "something outside was written"
    );
});

fn inside(message: &Message, base: *mut u8, lines: usize) {
    let start = message.as_ptr().addr();
    assert!(
        start >= base.addr() && start + message.len() <= base.addr() + lines * LINE,
        "a message outside of the ring"
    );
    // Every byte can be read.
    std::hint::black_box(message.to_vec());
}
