// SPDX-License-Identifier: Apache-2.0
//! Carrying what an end writes to the same places of the other machine's copy.
//!
//! Lines come first, then what the end says about itself: its end of the stream does not overtake its data.
//!
//! One carries alone, by a [`Progress`] of its own; or all carry who have the end, its processes and their daemon. Then
//! the progress lies in the end's control page, and who carries holds its lock. It moves behind each store: from whoever
//! dies the next one repeats at most what that one had stored last, to the same places.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::lock::{Guard, Lock};
use super::{Carrier, Outgoing, Words};
use crate::ring::LINE;

/// How far all that an end says has come, for all who carry.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Carried {
    lock: Lock,
    sent: AtomicU64,
    credit: AtomicU64,
    consumed: AtomicU64,
    flags: AtomicU32,
}

/// Where stores go: the other machine's copy.
pub trait Copy {
    /// Stores bytes of a message, at the offset in the channel at which they lie here. How many were taken; all that are no
    /// body's at once or none. `None`: it takes nothing any more.
    fn message(&mut self, message: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize>;

    /// Stores a word at an offset in the channel, if it is taken.
    fn word(&mut self, at: u64, word: &[u8]) -> bool;
}

/// What came of carrying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was there is on its way, or nothing was.
    Said {
        /// Something was.
        busy: bool,
    },
    /// There is no room for the rest now, or it would take too long.
    Later {
        /// Something was carried.
        busy: bool,
    },
    /// Nothing can be carried any more: a process has written what no end does, or nothing is taken.
    Never,
}

/// How far one has come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Line up to which all is taken.
    sent: u64,
    /// Bytes that are taken of the body of the message there.
    partial: usize,
    /// What the other machine was told last.
    told: Words,
}

impl Progress {
    /// Whether there is something to carry. The position is told together with other things: nobody waits for it, unless
    /// `lazy`.
    #[must_use]
    pub fn pending(&self, words: &Words, lazy: bool) -> bool {
        words.written != self.sent || self.news(words, lazy)
    }

    /// Whether the end's position is not known there.
    #[must_use]
    pub fn is_lazy(&self, words: &Words) -> bool {
        words.consumed != self.told.consumed
    }

    /// Whether there is something to say besides lines.
    #[must_use]
    pub fn news(&self, words: &Words, lazy: bool) -> bool {
        (words.credit, words.flags) != (self.told.credit, self.told.flags)
            || lazy && self.is_lazy(words)
    }

    /// Carries what `words` says is there, `most` messages at most.
    pub fn carry(
        &mut self,
        end: &Carrier,
        words: &Words,
        most: usize,
        lazy: bool,
        copy: &mut dyn Copy,
    ) -> Outcome {
        self.carry_and(end, words, most, lazy, copy, |_| {})
    }

    fn carry_and(
        &mut self,
        end: &Carrier,
        words: &Words,
        most: usize,
        lazy: bool,
        copy: &mut dyn Copy,
        mut moved: impl FnMut(&Self),
    ) -> Outcome {
        let mut busy = false;
        let mut last = None;
        for _ in 0..most {
            if self.sent == words.written {
                if self.news(words, lazy) {
                    busy |= self.tell(end, words, copy);
                    moved(self);
                }
                return match self.news(words, lazy) {
                    true => Outcome::Later { busy },
                    false => Outcome::Said { busy },
                };
            }
            match self.message(end, last, copy) {
                Some((true, end)) => {
                    busy = true;
                    last = Some(end);
                    moved(self);
                }
                Some((false, _)) => return Outcome::Later { busy },
                // Whoever has written this has only its own connection to lose.
                None => return Outcome::Never,
            }
        }
        Outcome::Later { busy }
    }

    /// The message at `sent`, and where the store ended that was its last. `false`: there is no room for all of it now.
    ///
    /// A message alone is a short store. One right behind the store that ended at `last`, which waits for the wire then, is a
    /// whole line: the NIC joins contiguous stores to one frame.
    fn message(
        &mut self,
        end: &Carrier,
        last: Option<u64>,
        copy: &mut dyn Copy,
    ) -> Option<(bool, u64)> {
        let message = end.outgoing(self.sent)?;
        let left = message.body.saturating_sub(self.partial);
        if left > 0 {
            let at = message.body_at + self.partial as u64;
            let taken = copy.message(&message, at, left)?;
            self.partial += taken;
            if taken < left {
                return Some((false, at));
            }
        }
        // A line is one store, so it is taken whole or not at all.
        let line_end = message.line_end();
        let at = match message.body == 0 && last == Some(message.line_at) {
            true => message.line_at,
            false => message.head_at,
        };
        let bytes = (line_end - at) as usize;
        debug_assert!(bytes <= LINE, "a header is within its line");
        if copy.message(&message, at, bytes)? < bytes {
            return Some((false, at));
        }
        self.sent += u64::from(message.lines);
        self.partial = 0;
        Some((true, line_end))
    }

    /// Tells what the end says about itself, as far as it is new; whether anything was told.
    fn tell(&mut self, end: &Carrier, words: &Words, copy: &mut dyn Copy) -> bool {
        let mut busy = false;
        if words.credit != self.told.credit
            && copy.word(end.credit_at(), &words.credit.to_le_bytes())
        {
            self.told.credit = words.credit;
            busy = true;
        }
        if words.consumed != self.told.consumed
            && copy.word(end.consumed_at(), &words.consumed.to_le_bytes())
        {
            self.told.consumed = words.consumed;
            busy = true;
        }
        // Last: who sees that the end is deserted sees all the rest.
        let all = (self.told.credit, self.told.consumed) == (words.credit, words.consumed);
        if all
            && words.flags != self.told.flags
            && copy.word(end.flags_at(), &words.flags.to_le_bytes())
        {
            self.told.flags = words.flags;
            busy = true;
        }
        busy
    }
}

/// Who carries what others may carry at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A process of the end: waits for another that is at it.
    Wait,
    /// The daemon: leaves it to a process that is at it.
    Try,
    /// Nobody has the end any more: whoever was at it is gone.
    Take,
}

impl Carrier {
    fn shared(&self) -> &Carried {
        &self.own().carried
    }

    /// How far all who carry for the end have come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let shared = self.shared();
        Progress {
            sent: shared.sent.load(Ordering::Acquire),
            partial: 0,
            told: Words {
                credit: shared.credit.load(Ordering::Acquire),
                consumed: shared.consumed.load(Ordering::Acquire),
                flags: shared.flags.load(Ordering::Acquire),
                written: 0,
            },
        }
    }

    fn moved(&self, progress: &Progress) {
        let shared = self.shared();
        shared.credit.store(progress.told.credit, Ordering::Release);
        shared
            .consumed
            .store(progress.told.consumed, Ordering::Release);
        shared.flags.store(progress.told.flags, Ordering::Release);
        shared.sent.store(progress.sent, Ordering::Release);
    }

    fn hold(&self, hold: Hold) -> Option<Option<Guard<'_>>> {
        let lock = &self.shared().lock;
        match hold {
            Hold::Wait => lock.lock(self.channel.living()).ok().map(Some),
            Hold::Try => lock.try_inherit(self.channel.living()).map(Some),
            Hold::Take => Some(None),
        }
    }

    /// Carries all that the end has to say, with `flags` besides its own, by the progress that all share. `copy` takes all or
    /// nothing. `None`: another is at it. Who waits is told so only if that is this thread itself, which a signal has
    /// interrupted and which looks again.
    pub fn carry(&self, hold: Hold, flags: u32, copy: &mut dyn Copy) -> Option<Outcome> {
        let _guard = self.hold(hold)?;
        let mut words = self.words();
        words.flags |= flags;
        let mut progress = self.progress();
        let most = self.channel.lines() as usize;
        let moved = |progress: &Progress| self.moved(progress);
        Some(progress.carry_and(self, &words, most.max(1) + 1, false, copy, moved))
    }

    /// Whether the end has something to say that was not carried.
    #[must_use]
    pub fn unsaid(&self, flags: u32) -> bool {
        let mut words = self.words();
        words.flags |= flags;
        self.progress().pending(&words, false)
    }
}

#[cfg(test)]
mod tests;
