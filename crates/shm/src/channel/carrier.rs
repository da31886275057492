// SPDX-License-Identifier: Apache-2.0
//! A channel between machines, as seen by who carries it: each machine has a copy of the channel's memory, and what an
//! end writes into its copy has to be stored at the same offsets of the other machine's.
//!
//! An end writes the lines of the ring that it sends into, the credit that it returns, and its own flags and position: all
//! of it lies in the other end's [inbox](super::inbox). All else in a half is its owner's alone, so no place is ever written
//! from both sides. Nothing is taken out of the
//! copy: its lines stay as they were written until the peer's credit lets the end write them anew.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CONTROL, Channel, Control, Mail, armed, flags, half_bytes, inbox};
use crate::ring::{LINE, copy_out, written};

/// Flags that the other machine is told.
const TOLD: u32 = flags::FIN | flags::CLOSED | flags::RESET | flags::ATTACHED | flags::DEAF;

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

/// A message in the ring that an end sends into. Its bytes are copied out: processes can write there.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Lines that it takes, its header included.
    pub lines: u32,
    /// Offset in the channel of its header line.
    pub line_at: u64,
    /// Offset of what is used of the header line, up to the line's end: whole DWs, which must arrive at once and after the
    /// body. All of the line may be stored instead.
    pub head_at: u64,
    /// Offset of the body.
    pub body_at: u64,
    /// Its bytes; none if the header carries all.
    pub body: usize,
    channel: &'a Channel,
}

impl Outgoing<'_> {
    /// Where the header line ends.
    #[must_use]
    pub fn line_end(&self) -> u64 {
        self.line_at + LINE as u64
    }

    /// Where bytes of the message lie in this process's memory: as many as asked for are mapped there as long as the channel is.
    /// Processes write there.
    ///
    /// # Panics
    /// If they do not lie in the channel.
    #[must_use]
    pub fn place(&self, at: u64, bytes: usize) -> *const u8 {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let whole = self.channel.memory.len();
        assert!(
            at <= whole && bytes <= whole - at,
            "{bytes} bytes at {at} of a channel of {whole}"
        );
        // SAFETY: in the mapping, as just checked.
        unsafe { self.channel.memory.as_ptr().add(at) }
    }

    /// Copies bytes of the message.
    ///
    /// # Panics
    /// If they do not lie in the channel.
    pub fn copy(&self, at: u64, into: &mut [u8]) {
        let from = self.place(at, into.len());
        // SAFETY: so many are mapped there.
        unsafe { copy_out(from, into.as_mut_ptr(), into.len()) };
    }
}

/// The view of one end for who carries its stores.
#[derive(Debug, Clone)]
pub struct Carrier {
    pub(super) channel: Arc<Channel>,
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

    pub(super) fn own(&self) -> &Control {
        self.channel.control(self.half)
    }

    fn peer(&self) -> &Control {
        self.channel.control(self.half ^ 1)
    }

    /// What the end says now.
    #[must_use]
    pub fn words(&self) -> Words {
        let own = self.channel.flags(self.half).load(Ordering::Acquire);
        let mut told = own & TOLD;
        // Broken off here, and it had not ended by itself: whatever its program does or did about it, that is no end in order there.
        if own & (flags::REVOKED | flags::FIN) == flags::REVOKED {
            told |= flags::RESET;
        }
        Words {
            flags: told,
            credit: self
                .channel
                .mail(self.half ^ 1)
                .credit
                .load(Ordering::Acquire),
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
        let found = found?;
        Some(Outgoing {
            lines: found.lines,
            line_at: (ring + found.line_at) as u64,
            head_at: (ring + found.head_at) as u64,
            body_at: (ring + found.body_at) as u64,
            body: found.body,
            channel: &self.channel,
        })
    }

    /// Where in the other machine's memory all goes that the end has to say.
    #[must_use]
    pub fn target(&self) -> Range<u64> {
        let Range { start, end } = inbox(self.half ^ 1, self.channel.lines);
        start as u64..end as u64
    }

    fn mail(&self, offset: usize) -> u64 {
        self.target().start + offset as u64
    }

    /// Where the credit that the end returns goes.
    #[must_use]
    pub fn credit_at(&self) -> u64 {
        self.mail(offset_of!(Mail, credit))
    }

    /// Where its flags go.
    #[must_use]
    pub fn flags_at(&self) -> u64 {
        self.mail(offset_of!(Mail, flags))
    }

    /// Where its position goes.
    #[must_use]
    pub fn consumed_at(&self) -> u64 {
        self.mail(offset_of!(Mail, position))
    }

    /// Offset of the word that is not zero while the end sleeps.
    #[must_use]
    pub fn armed_at(half: usize, lines: u32) -> usize {
        (half & 1) * half_bytes(lines) + offset_of!(Control, armed)
    }

    /// Offset of the line at which the end looks for the next message: what arrives, arrives there or in the mail.
    #[must_use]
    pub fn expected_at(&self) -> u64 {
        let next = self.own().receiver.next.load(Ordering::Relaxed);
        let line = (next as u32 & (self.channel.lines - 1)) as usize;
        word(self.half, self.channel.lines, CONTROL + line * LINE)
    }

    /// Offset of the end's own mail.
    #[must_use]
    pub fn mail_at(&self) -> u64 {
        inbox(self.half, self.channel.lines).start as u64
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
        channel.flags(half).fetch_or(bits, Ordering::Release);
    }
}
