// SPDX-License-Identifier: Apache-2.0
//! The consuming side of a ring.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::copy::copy_out;
use super::{Header, INLINE, LINE, PAD, Parsed, TAG, Target, begin, valid_lines};

/// What a receiver remembers; zeros are a fresh one. It may lie in shared memory.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct ReceiverState {
    /// Lines consumed since the start.
    pub next: AtomicU64,
    /// Bytes taken of a message (low half), and the low half of the line that it begins in: of any other message nothing is
    /// taken. So to step over a message is one store, of `next`.
    pub offset: AtomicU64,
    /// Not zero: a tag was found that no sender writes.
    pub corrupt: AtomicU32,
    /// Lines for which credit was returned.
    pub returned: AtomicU64,
    /// Lines in which messages have been seen, consumed or not.
    pub frontier: AtomicU64,
    /// Messages consumed.
    pub messages: AtomicU64,
    /// Bytes consumed.
    pub bytes: AtomicU64,
}

/// A message, or what is left of it, where it lies.
///
/// The sender can write there: one that breaks the rules can change it under the reader's eyes. So its bytes are copied out
/// and never borrowed, and what decides on them decides on the copy.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    kind: u8,
    first: *const u8,
    len: usize,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: the memory is shared by its nature, and stays mapped as long as `'a`.
unsafe impl Send for Message<'_> {}
// SAFETY: as above; it is only loaded from, as if each byte were an atomic.
unsafe impl Sync for Message<'_> {}

impl Message<'_> {
    /// What the sender called it.
    #[inline(always)]
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Where its bytes lie that have not been taken yet: not to be borrowed while others can write there.
    #[inline(always)]
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.first
    }

    /// How many there are.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies its bytes from `skip` on, as many as there are and fit. Returns how many.
    #[inline(always)]
    pub fn copy_to(&self, skip: usize, into: &mut [u8]) -> usize {
        let skip = skip.min(self.len);
        let count = into.len().min(self.len - skip);
        // SAFETY: inside of the message, and of what the caller lends.
        unsafe { copy_out(self.first.add(skip), into.as_mut_ptr(), count) };
        count
    }

    /// A copy of its bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy_to(0, &mut bytes);
        bytes
    }
}

/// Reads messages from a ring.
#[derive(Debug)]
pub struct Receiver<'a, T: Target> {
    state: &'a ReceiverState,
    base: *mut u8,
    lines: u32,
    credit: &'a T,
    credit_offset: usize,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: the state is made of atomics, the lines are shared memory by nature; single consumption is the callers'
// contract, and breaking it garbles data but never leaves the ring's memory.
unsafe impl<T: Target + Sync> Send for Receiver<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Target + Sync> Sync for Receiver<'_, T> {}

impl<'a, T: Target> Receiver<'a, T> {
    /// A receiver of the ring of `lines` lines at `base`, which returns credit to `credit_offset` of `credit`.
    ///
    /// # Safety
    /// `base` is aligned to 64 bytes, and `lines` lines from there on are mapped readable and writable for `'a`.
    ///
    /// # Panics
    /// If `lines` is no power of two or less than [`super::MIN_LINES`].
    #[inline]
    #[must_use]
    pub unsafe fn new(
        state: &'a ReceiverState,
        base: *mut u8,
        lines: u32,
        credit: &'a T,
        credit_offset: usize,
    ) -> Self {
        assert!(
            valid_lines(lines),
            "a ring of {lines} lines: it must be a power of two, at least 8"
        );
        Self {
            state,
            base,
            lines,
            credit,
            credit_offset,
            memory: PhantomData,
        }
    }

    /// Whether a message is there.
    #[inline(always)]
    #[must_use]
    pub fn readable(&self) -> bool {
        let next = self.state.next.load(Ordering::Relaxed);
        match self.parse(next) {
            Parsed::Empty => false,
            Parsed::Header(header) if header.kind != PAD => !self.is_corrupt(),
            other => self.readable_slow(next, other) && !self.is_corrupt(),
        }
    }

    /// Behind a pad the message may not be there yet.
    #[cold]
    fn readable_slow(&self, next: u64, parsed: Parsed) -> bool {
        match parsed {
            Parsed::Header(pad) => {
                matches!(self.parse(next + u64::from(pad.lines)), Parsed::Header(header) if header.kind != PAD)
            }
            Parsed::Empty | Parsed::Corrupt => false,
        }
    }

    /// The next message, if one is there: what has not been taken of it, in place. It is of use until something is taken:
    ///
    /// ```compile_fail,E0502
    /// fn late<T: shm::ring::Target>(receiver: &mut shm::ring::Receiver<'_, T>) -> usize {
    ///     let message = receiver.peek().expect("there is one");
    ///     receiver.release(); // its lines are the sender's again
    ///     message.len()
    /// }
    /// ```
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<Message<'_>> {
        let (line, header) = self.current()?;
        Some(self.message(line, &header, self.taken(line, &header)))
    }

    /// As [`Receiver::peek`], for an owner who makes a receiver for each call: while the message is of use the owner lets nobody
    /// take anything.
    #[inline]
    #[must_use]
    pub fn into_message(self) -> Option<Message<'a>> {
        let (line, header) = self.current()?;
        Some(self.message(line, &header, self.taken(line, &header)))
    }

    /// Takes `bytes` bytes of the next message, all of it at most; a message that is used up is released.
    ///
    /// Returns whether credit was returned.
    #[inline]
    pub fn advance(&mut self, bytes: usize) -> bool {
        let Some((line, header)) = self.current() else {
            return false;
        };
        let taken = self.taken(line, &header).saturating_add(bytes);
        if taken >= header.length {
            return self.consume(line, &header);
        }
        let offset = (line << 32) | taken as u64;
        self.state.offset.store(offset, Ordering::Relaxed);
        false
    }

    /// Releases the next message, whatever was taken of it. Returns whether credit was returned.
    #[inline]
    pub fn release(&mut self) -> bool {
        match self.current() {
            Some((line, header)) => self.consume(line, &header),
            None => false,
        }
    }

    /// Copies as much as there is and fits, from one message after the other while they are of kind `kind`.
    ///
    /// Returns the bytes copied and whether credit was returned.
    #[inline]
    pub fn read(&mut self, kind: u8, into: &mut [u8]) -> (usize, bool) {
        let mut done = 0;
        let mut returned = false;
        while done < into.len() {
            let Some(message) = self.peek() else { break };
            if message.kind != kind {
                break;
            }
            let count = message.copy_to(0, &mut into[done..]);
            returned |= self.advance(count);
            done += count;
        }
        (done, returned)
    }

    /// As [`Receiver::read`], but takes nothing.
    #[must_use]
    pub fn copy(&self, kind: u8, into: &mut [u8]) -> usize {
        // Steps over a pad, so that what follows has none before its first message.
        let Some(first) = self.peek() else { return 0 };
        let mut line = self.state.next.load(Ordering::Relaxed);
        let mut message = Some(first);
        let mut done = 0;
        while let Some(found) = message.filter(|found| found.kind == kind && done < into.len()) {
            done += found.copy_to(0, &mut into[done..]);
            message = self.after(&mut line);
        }
        done
    }

    /// The message behind the one at `line`, which becomes its line.
    fn after(&self, line: &mut u64) -> Option<Message<'_>> {
        loop {
            let Parsed::Header(header) = self.parse(*line) else {
                return None;
            };
            *line += u64::from(header.lines);
            // A hostile sender could make the ring look endless.
            if *line - self.state.next.load(Ordering::Relaxed) >= u64::from(self.lines) {
                return None;
            }
            match self.parse(*line) {
                Parsed::Header(found) if found.kind == PAD => {}
                Parsed::Header(found) => return Some(self.message(*line, &found, 0)),
                _ => return None,
            }
        }
    }

    /// Where the next message begins, or would if there were one: what had [`arrived`](Self::arrived) before is at a lesser one.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.state.next.load(Ordering::Relaxed)
    }

    /// A number that grows whenever a new message is seen. Any thread may ask at any time.
    #[inline]
    #[must_use]
    pub fn arrived(&self) -> u64 {
        let seen = self.state.frontier.load(Ordering::Relaxed);
        let mut line = seen.max(self.state.next.load(Ordering::Relaxed));
        loop {
            let parsed = self.parse(line);
            // If the line was consumed meanwhile, then the sender may have used it anew.
            let next = self.state.next.load(Ordering::Acquire);
            if next > line {
                line = next;
                continue;
            }
            match parsed {
                // A pad alone is nothing to read.
                Parsed::Header(header)
                    if header.kind == PAD && !self.readable_slow(line, parsed) =>
                {
                    break;
                }
                Parsed::Header(header) if line - next < u64::from(self.lines) => {
                    line += u64::from(header.lines)
                }
                _ => break,
            }
        }
        if line > seen {
            self.state
                .frontier
                .fetch_max(line, Ordering::AcqRel)
                .max(line)
        } else {
            seen
        }
    }

    /// Bytes that can be read now.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        let start = self.state.next.load(Ordering::Relaxed);
        let mut line = start;
        let mut bytes = 0_isize;
        while line - start < u64::from(self.lines) {
            let Parsed::Header(header) = self.parse(line) else {
                break;
            };
            if line == start {
                bytes -= self.taken(line, &header) as isize;
            }
            bytes += header.length as isize;
            line += u64::from(header.lines);
        }
        bytes.cast_unsigned()
    }

    /// Whether the ring holds what no sender writes. Then nothing more is read from it.
    #[inline]
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.state.corrupt.load(Ordering::Relaxed) != 0
    }

    /// The next message is none that the owner of this ring is sent, whatever its form: the ring counts as corrupt.
    #[cold]
    pub fn spoil(&mut self) {
        self.state.corrupt.store(1, Ordering::Relaxed);
    }

    /// Returns credit for everything consumed, even if it is little. Returns whether there was any.
    #[inline]
    pub fn return_credit(&mut self) -> bool {
        self.give_back()
    }

    #[inline]
    fn give_back(&self) -> bool {
        let next = self.state.next.load(Ordering::Relaxed);
        if next == self.state.returned.load(Ordering::Relaxed) {
            return false;
        }
        self.state.returned.store(next, Ordering::Relaxed);
        self.credit.store64(self.credit_offset, next);
        true
    }

    /// The message at the reading position; pads are stepped over.
    #[inline(always)]
    fn current(&self) -> Option<(u64, Header)> {
        let line = self.state.next.load(Ordering::Relaxed);
        match self.parse(line) {
            Parsed::Header(header) if header.kind != PAD => {
                (!self.is_corrupt()).then_some((line, header))
            }
            Parsed::Empty => None,
            other => self.current_slow(line, other),
        }
    }

    #[cold]
    fn current_slow(&self, line: u64, parsed: Parsed) -> Option<(u64, Header)> {
        if self.is_corrupt() {
            return None;
        }
        if let Parsed::Header(pad) = parsed {
            self.step(line, &pad);
            let line = line + u64::from(pad.lines);
            // A second pad would be one of a whole ring, which does not parse.
            match self.parse(line) {
                Parsed::Header(header) if header.kind != PAD => return Some((line, header)),
                Parsed::Empty => return None,
                _ => {}
            }
        }
        self.state.corrupt.store(1, Ordering::Relaxed);
        None
    }

    /// What is left of a message of which `taken` bytes, at most all, are taken.
    #[inline(always)]
    fn message(&self, line: u64, header: &Header, taken: usize) -> Message<'a> {
        let place = self.place(line);
        let start = if header.length <= INLINE {
            place + begin(header.length)
        } else {
            place + LINE
        };
        Message {
            kind: header.kind,
            // SAFETY: `Header::parse` accepts only messages that lie inside of the ring.
            first: unsafe { self.base.add(start + taken) },
            len: header.length - taken,
            memory: PhantomData,
        }
    }

    #[inline(always)]
    fn taken(&self, line: u64, header: &Header) -> usize {
        let offset = self.state.offset.load(Ordering::Relaxed);
        if (offset >> 32) as u32 != line as u32 {
            return 0;
        }
        (offset as u32 as usize).min(header.length)
    }

    #[inline(always)]
    fn consume(&self, line: u64, header: &Header) -> bool {
        let state = self.state;
        state.messages.store(
            state.messages.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        state.bytes.store(
            state
                .bytes
                .load(Ordering::Relaxed)
                .wrapping_add(header.length as u64),
            Ordering::Relaxed,
        );
        self.step(line, header)
    }

    /// Steps over the lines, clears them, and returns credit if it is worth it. In this order: the first store is what takes
    /// the message, and what a death leaves undone of the rest [`Receiver::recover`] can see by it.
    #[inline(always)]
    fn step(&self, line: u64, header: &Header) -> bool {
        let next = line + u64::from(header.lines);
        self.state.next.store(next, Ordering::Release);
        // Not for the next message, but for one that begins 2^32 lines later.
        if self.state.offset.load(Ordering::Relaxed) != 0 {
            self.state.offset.store(0, Ordering::Relaxed);
        }
        // Of a pad only the first line was written.
        let written = if header.kind == PAD { 1 } else { header.lines };
        self.clear(line, u64::from(written));
        if next.wrapping_sub(self.state.returned.load(Ordering::Relaxed))
            >= u64::from(self.lines / 4)
        {
            return self.give_back();
        }
        false
    }

    /// Clears the tags of `count` lines. Who sees one cleared sees that it was stepped over.
    #[inline(always)]
    fn clear(&self, line: u64, count: u64) {
        let first = self.place(line) / LINE;
        let end = first + count as usize;
        let whole = self.lines as usize;
        self.clear_run(first, end.min(whole));
        self.clear_run(0, end.saturating_sub(whole));
    }

    /// Without a step round the end of the ring: this is a good part of what a long message costs.
    #[inline(always)]
    fn clear_run(&self, first: usize, end: usize) {
        let mut at = self.base.wrapping_add(first * LINE + TAG);
        for _ in first..end {
            // SAFETY: a tag of one of the ring's lines, aligned as all are.
            unsafe { AtomicU64::from_ptr(at.cast()) }.store(0, Ordering::Release);
            at = at.wrapping_add(LINE);
        }
    }

    /// Makes good what one left undone that died with the ring in its hands. Call it in its place, before all else.
    pub fn recover(&mut self) {
        let state = self.state;
        let next = state.next.load(Ordering::Relaxed);
        let returned = state.returned.load(Ordering::Relaxed);
        // What is not given back yet nobody has written anew.
        let pending = next.wrapping_sub(returned).min(u64::from(self.lines));
        self.clear(next.wrapping_sub(pending), pending);
        if (state.offset.load(Ordering::Relaxed) >> 32) as u32 != next as u32 {
            state.offset.store(0, Ordering::Relaxed);
        }
        state.returned.store(next, Ordering::Relaxed);
        // Also if there was nothing to return: perhaps only the word was missing.
        self.credit.store64(self.credit_offset, next);
    }

    #[inline(always)]
    fn parse(&self, line: u64) -> Parsed {
        let word = u64::from_le(self.word(self.place(line) + TAG).load(Ordering::Acquire));
        Header::parse(word, line, self.lines)
    }

    #[inline(always)]
    fn place(&self, line: u64) -> usize {
        (line as u32 & (self.lines - 1)) as usize * LINE
    }

    /// A word of the ring; `at` is a place of a line plus [`TAG`].
    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside of the ring and aligned, as all places of lines are.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }
}
