// SPDX-License-Identifier: Apache-2.0
//! A channel between machines, as seen by who carries it: each machine has a copy of the channel's memory, and what an
//! end writes into its copy has to be stored at the same offsets of the other machine's.
//!
//! An end writes the lines of the ring that it sends into, the credit that it returns, and its own flags and position.
//! All else in a half is its owner's alone, so no place is ever written from both sides. Nothing is taken out of the
//! copy: its lines stay as they were written until the peer's credit lets the end write them anew.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{CONTROL, Channel, Control, armed, flags, half_bytes};
use crate::ring::{LINE, Written, written};

/// Flags that the other machine is told.
const TOLD: u32 = flags::FIN | flags::CLOSED | flags::RESET | flags::ATTACHED;

/// What an end says besides the lines. Take it before the lines: then the flags are not ahead of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Words {
    /// Credit that it has returned.
    pub credit: u64,
    /// Its position in the ring that it receives from.
    pub consumed: u64,
    /// Its flags.
    pub flags: u32,
    /// The line up to which it has written.
    pub written: u64,
}

/// A message in the ring that an end sends into.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Lines that it takes, its header included.
    pub lines: u32,
    /// Offset in the channel of what is used of its header line.
    pub head_at: u64,
    /// What is used of the header line, up to the line's end: whole DWs, which must arrive at once and after the body.
    pub head: &'a [u8],
    /// All of the header line, which may be stored instead: it ends where `head` ends.
    pub line: &'a [u8],
    /// Offset of the body.
    pub body_at: u64,
    /// The body; empty if the header carries all.
    pub body: &'a [u8],
}

/// The view of one end for who carries its stores.
#[derive(Debug, Clone)]
pub struct Carrier {
    channel: Arc<Channel>,
    half: usize,
}

/// Offset of a word of the control page of half `half` in a channel whose rings have `lines` lines.
const fn word(half: usize, lines: u32, offset: usize) -> u64 {
    ((half & 1) * half_bytes(lines) + offset) as u64
}

impl Carrier {
    /// For the end that owns half `half`.
    #[must_use]
    pub fn new(channel: Arc<Channel>, half: usize) -> Self {
        Self {
            channel,
            half: half & 1,
        }
    }

    fn own(&self) -> &Control {
        self.channel.control(self.half)
    }

    fn peer(&self) -> &Control {
        self.channel.control(self.half ^ 1)
    }

    /// What the end says now.
    #[must_use]
    pub fn words(&self) -> Words {
        let flags = self.own().flags.load(Ordering::Acquire) & TOLD;
        Words {
            flags,
            credit: self.peer().credit.load(Ordering::Acquire),
            consumed: self.own().receiver.next.load(Ordering::Acquire),
            written: self.own().sender.next.load(Ordering::Acquire),
        }
    }

    /// The message that begins at `line`, which the end has written. `None`: no end writes what is there.
    #[must_use]
    pub fn outgoing(&self, line: u64) -> Option<Outgoing<'_>> {
        let ring = half_bytes(self.channel.lines) * (self.half ^ 1) + CONTROL;
        // SAFETY: the peer's half has its lines behind its control page, mapped while `self` lives. Processes write
        // there, too: a process that breaks the rules garbles its own connection.
        let found = unsafe {
            let base = self.channel.half(self.half ^ 1).add(CONTROL);
            written(base, self.channel.lines, line)
        };
        let Written {
            lines,
            head_at,
            head,
            line,
            body_at,
            body,
        } = found?;
        Some(Outgoing {
            lines,
            head_at: (ring + head_at) as u64,
            head,
            line,
            body_at: (ring + body_at) as u64,
            body,
        })
    }

    /// Where the credit that the end returns goes.
    #[must_use]
    pub fn credit_at(&self) -> u64 {
        word(
            self.half ^ 1,
            self.channel.lines,
            offset_of!(Control, credit),
        )
    }

    /// Where its flags go.
    #[must_use]
    pub fn flags_at(&self) -> u64 {
        word(self.half, self.channel.lines, offset_of!(Control, flags))
    }

    /// Where its position goes.
    #[must_use]
    pub fn consumed_at(&self) -> u64 {
        word(self.half, self.channel.lines, offset_of!(Control, receiver))
    }

    /// Offset of the word that is not zero while the end sleeps.
    #[must_use]
    pub fn armed_at(half: usize, lines: u32) -> usize {
        (half & 1) * half_bytes(lines) + offset_of!(Control, armed)
    }

    /// Offset of the line at which the end looks for the next message: what arrives, arrives there or in the control
    /// pages.
    #[must_use]
    pub fn expected_at(&self) -> u64 {
        let next = self.own().receiver.next.load(Ordering::Relaxed);
        let line = (next as u32 & (self.channel.lines - 1)) as usize;
        word(self.half, self.channel.lines, CONTROL + line * LINE)
    }

    /// Offsets of the two control pages, the own one first.
    #[must_use]
    pub fn controls_at(&self) -> [u64; 2] {
        [self.half, self.half ^ 1].map(|half| word(half, self.channel.lines, 0))
    }

    /// Whether somebody sleeps at the end.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        self.own().armed.load(Ordering::Relaxed) != 0
    }

    /// Tells the end whether it must call who carries (`true`) or is looked at anyhow. Look again afterwards.
    pub fn arm(&self, on: bool) {
        let bits = if on { armed::DATA | armed::SPACE } else { 0 };
        self.peer().armed.store(bits, Ordering::SeqCst);
    }
}

/// Sets flags in both halves of a channel: what a daemon says to the end on its machine.
pub fn mark_both(channel: &Channel, bits: u32) {
    for half in 0..2 {
        let flags: &AtomicU32 = &channel.control(half).flags;
        flags.fetch_or(bits, Ordering::Release);
    }
}

const _: () = {
    // The words are stored as they are: alone in their units of 8 and 4 bytes.
    assert!(offset_of!(Control, credit).is_multiple_of(size_of::<AtomicU64>()));
    assert!(offset_of!(Control, flags).is_multiple_of(size_of::<AtomicU32>()));
};
