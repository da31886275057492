// SPDX-License-Identifier: Apache-2.0
//! The producing side of a ring.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{INLINE, LINE, MAX_LENGTH, PAD, Target, lines_for, max_message, tag, valid_lines};

/// What a sender remembers; zeros are a fresh one. It may lie in shared memory.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct SenderState {
    /// Lines written since the start.
    pub next: AtomicU64,
    /// The credit word's value when it was looked at last.
    pub credit: AtomicU64,
    /// Messages sent.
    pub messages: AtomicU64,
    /// Bytes sent.
    pub bytes: AtomicU64,
    /// Times that a message found no room.
    pub full: AtomicU64,
}

/// There is no room for the message now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Writes messages into a ring.
#[derive(Debug)]
pub struct Sender<'a, T: Target> {
    state: &'a SenderState,
    target: &'a T,
    offset: usize,
    lines: u32,
    credit: &'a AtomicU64,
}

impl<'a, T: Target> Sender<'a, T> {
    /// A sender whose ring of `lines` lines begins at `offset` of `target`; the receiver returns credit into `credit`.
    ///
    /// # Panics
    /// If `lines` is no power of two or less than [`super::MIN_LINES`], or `offset` no multiple of 64.
    #[inline]
    #[must_use]
    pub fn new(
        state: &'a SenderState,
        target: &'a T,
        offset: usize,
        lines: u32,
        credit: &'a AtomicU64,
    ) -> Self {
        assert!(
            valid_lines(lines),
            "a ring of {lines} lines: it must be a power of two, at least 8"
        );
        assert!(
            offset.is_multiple_of(LINE),
            "a ring at offset {offset}: it must be a multiple of 64"
        );
        Self {
            state,
            target,
            offset,
            lines,
            credit,
        }
    }

    /// Lines that a message of `bytes` bytes takes.
    #[inline]
    #[must_use]
    pub const fn lines_for(bytes: usize) -> u32 {
        lines_for(bytes)
    }

    /// The longest message.
    #[inline]
    #[must_use]
    pub fn max_message(&self) -> usize {
        max_message(self.lines)
    }

    /// Lines that are free now.
    #[inline]
    #[must_use]
    pub fn free_lines(&self) -> u32 {
        let credit = self.credit.load(Ordering::Acquire);
        self.state.credit.store(credit, Ordering::Relaxed);
        self.free(credit)
    }

    /// Whether any message can be sent now, even the longest. It is so whenever the receiver has taken everything.
    #[inline]
    #[must_use]
    pub fn writable(&self) -> bool {
        let enough = |free: u32| free >= self.lines / 2;
        enough(self.free(self.state.credit.load(Ordering::Relaxed))) || enough(self.free_lines())
    }

    /// Whether a message of `bytes` bytes can be sent now.
    #[inline]
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        bytes <= self.max_message() && self.free_lines() >= self.plan(bytes).1
    }

    /// Sends one message that consists of `parts`, if there is room.
    ///
    /// # Errors
    /// [`Full`] when there is not.
    ///
    /// # Panics
    /// If the message is longer than [`Sender::max_message`], or `kind` is [`PAD`].
    #[inline]
    pub fn try_send(&self, kind: u8, parts: &[&[u8]]) -> Result<(), Full> {
        assert!(kind != PAD, "kind 0xFF is the ring's own");
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let next = self.state.next.load(Ordering::Relaxed);
        if length <= INLINE {
            if self.free(self.state.credit.load(Ordering::Relaxed)) == 0 && self.free_lines() == 0 {
                return self.full();
            }
            self.target
                .store_tagged(self.place(next), parts, length, tag(next, length, kind));
            self.account(next + 1, length);
            return Ok(());
        }
        self.send_long(kind, parts, length, next)
    }

    fn send_long(&self, kind: u8, parts: &[&[u8]], length: usize, next: u64) -> Result<(), Full> {
        assert!(
            length <= self.max_message() && length <= MAX_LENGTH,
            "a message of {length} bytes: the ring takes {}",
            self.max_message()
        );
        let (pad, needed) = self.plan(length);
        if self.free(self.state.credit.load(Ordering::Relaxed)) < needed
            && self.free_lines() < needed
        {
            return self.full();
        }
        let mut header = next;
        if pad > 0 {
            self.target
                .store_tagged(self.place(next), &[], 0, tag(next, 0, PAD));
            header += u64::from(pad);
        }
        let place = self.place(header);
        let mut at = place + LINE;
        for part in parts {
            self.target.store(at, part);
            at += part.len();
        }
        self.target.fence();
        self.target
            .store_tagged(place, &[], 0, tag(header, length, kind));
        self.account(next + u64::from(needed), length);
        Ok(())
    }

    /// Lines to pad in front of a message of `bytes` bytes, and lines that it takes with them.
    #[inline(always)]
    fn plan(&self, bytes: usize) -> (u32, u32) {
        let needed = lines_for(bytes);
        let left = self.lines - (self.state.next.load(Ordering::Relaxed) as u32 & (self.lines - 1));
        let pad = if needed > left { left } else { 0 };
        (pad, pad + needed)
    }

    /// Free lines if the receiver has returned `credit`. Credit for lines that were never written is none at all.
    #[inline(always)]
    fn free(&self, credit: u64) -> u32 {
        let used = self.state.next.load(Ordering::Relaxed).wrapping_sub(credit);
        if used <= u64::from(self.lines) {
            self.lines - used as u32
        } else {
            0
        }
    }

    #[inline(always)]
    fn place(&self, line: u64) -> usize {
        self.offset + (line as u32 & (self.lines - 1)) as usize * LINE
    }

    #[inline(always)]
    fn account(&self, next: u64, length: usize) {
        let state = self.state;
        state.next.store(next, Ordering::Release);
        state.messages.store(
            state.messages.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        state.bytes.store(
            state
                .bytes
                .load(Ordering::Relaxed)
                .wrapping_add(length as u64),
            Ordering::Relaxed,
        );
    }

    #[cold]
    fn full(&self) -> Result<(), Full> {
        self.state.full.store(
            self.state.full.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        Err(Full)
    }
}
