// SPDX-License-Identifier: Apache-2.0
//! One end of a channel between machines: what it writes into its copy of the channel's memory goes into the NIC, to the
//! same places of the other machine's copy. The window is on as much of that as the end may write.
//!
//! Lines come first, then what the end says about itself: its end of the stream does not overtake its data.

use shm::channel::{Carrier, Words, flags};
use shm::ring::LINE;

use crate::remote::nic::{Nic, WindowId};

/// Messages that are taken before other channels have their turn.
const TURN: usize = 64;

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Something was done.
    pub busy: bool,
    /// It has ended, and all that there is to say is on its way.
    pub ended: bool,
}

/// An end with its window.
#[derive(Debug)]
pub struct Carried {
    end: Carrier,
    pub window: WindowId,
    /// Where in the channel the window begins.
    first: u64,
    /// Own number of the session that it goes through.
    pub session: u8,
    /// Key of the other machine's copy.
    pub key: u16,
    /// Line up to which the NIC has taken all.
    sent: u64,
    /// Bytes that it has taken of the body of the message there.
    partial: usize,
    /// A copy of what is left of a body.
    copy: Vec<u8>,
    /// What the other machine was told last.
    told: Words,
    /// Nobody has the end any more.
    deserted: bool,
    /// Its position is to be told although nothing else is.
    lazy: bool,
    /// Nothing is taken from it any more: all was said, the peer is lost, or a process has written what no end does.
    still: bool,
}

impl Carried {
    /// For an end.
    pub fn new(end: Carrier, window: WindowId, session: u8, key: u16) -> Self {
        Self {
            first: end.target().start,
            end,
            window,
            session,
            key,
            sent: 0,
            partial: 0,
            copy: Vec::new(),
            told: Words::default(),
            deserted: false,
            lazy: false,
            still: false,
        }
    }

    /// Tells the processes whether they must wake the NIC's thread.
    pub fn arm(&self, armed: bool) {
        self.end.arm(armed);
    }

    /// Nobody has the end any more.
    pub fn desert(&mut self) {
        self.deserted = true;
    }

    /// Whether something waits to be told that nobody waits for.
    pub fn is_lazy(&self) -> bool {
        !self.still && self.end.words().consumed != self.told.consumed
    }

    /// There is time to tell what is only good to know.
    pub fn idle(&mut self) {
        self.lazy = self.is_lazy();
    }

    /// Nothing goes to the NIC any more: the session may be another peer's by now.
    pub fn cut(&mut self) {
        self.still = true;
    }

    /// What there is to tell, with what the daemon adds.
    fn words(&self) -> Words {
        let mut words = self.end.words();
        if self.deserted {
            words.flags |= flags::DESERTED;
        }
        words
    }

    /// Whether there is something to do.
    pub fn pending(&self) -> bool {
        if self.still {
            return false;
        }
        let words = self.words();
        words.written != self.sent || self.news(&words) || self.deserted
    }

    /// Whether there is something to tell. The position is told together with other things: nobody waits for it.
    fn news(&self, words: &Words) -> bool {
        (words.credit, words.flags) != (self.told.credit, self.told.flags)
            || self.lazy && words.consumed != self.told.consumed
    }

    /// Hands the NIC what is new.
    pub fn carry(&mut self, nic: &mut dyn Nic) -> Turn {
        let mut turn = Turn::default();
        if self.still {
            return turn;
        }
        let words = self.words();
        let mut last = None;
        for _ in 0..TURN {
            if self.sent == words.written {
                if self.news(&words) {
                    turn.busy |= self.tell(nic, &words);
                }
                turn.ended = self.deserted && !self.news(&words);
                self.still = turn.ended;
                break;
            }
            match self.message(nic, last) {
                Some((true, end)) => {
                    turn.busy = true;
                    last = Some(end);
                }
                Some((false, _)) => break,
                // Whoever has written this has only its own connection to lose.
                None => {
                    self.still = true;
                    break;
                }
            }
        }
        turn
    }

    /// The message at `sent`, and where the store ended that was its last. `false`: the NIC has no room for all of it now.
    ///
    /// A message alone is a short store. One right behind the store that ended at `last`, which waits for the wire then, is a
    /// whole line: the NIC joins contiguous stores to one frame.
    fn message(&mut self, nic: &mut dyn Nic, last: Option<u64>) -> Option<(bool, u64)> {
        let message = self.end.outgoing(self.sent)?;
        // Copies: a process can write there while they are looked at.
        let left = message.body.saturating_sub(self.partial);
        if left > 0 {
            let at = message.body_at + self.partial as u64;
            self.copy.resize(left, 0);
            message.copy(at, &mut self.copy);
            let taken = nic.store(self.window, at - self.first, &self.copy).ok()?;
            self.partial += taken;
            if taken < left {
                return Some((false, at));
            }
        }
        // A line is one store, so it is taken whole or not at all.
        let end = message.line_end();
        let at = match message.body == 0 && last == Some(message.line_at) {
            true => message.line_at,
            false => message.head_at,
        };
        let mut line = [0; LINE];
        let bytes = &mut line[..(end - at) as usize];
        message.copy(at, bytes);
        if nic.store(self.window, at - self.first, bytes).ok()? < bytes.len() {
            return Some((false, at));
        }
        self.sent += u64::from(message.lines);
        self.partial = 0;
        Some((true, end))
    }

    /// Tells what the end says about itself, as far as it is new; whether anything was told.
    fn tell(&mut self, nic: &mut dyn Nic, words: &Words) -> bool {
        let mut store = |at, bytes: &[u8]| {
            nic.store(self.window, at - self.first, bytes)
                .is_ok_and(|taken| taken == bytes.len())
        };
        let mut busy = false;
        if words.credit != self.told.credit
            && store(self.end.credit_at(), &words.credit.to_le_bytes())
        {
            self.told.credit = words.credit;
            busy = true;
        }
        if words.consumed != self.told.consumed
            && store(self.end.consumed_at(), &words.consumed.to_le_bytes())
        {
            self.told.consumed = words.consumed;
            busy = true;
        }
        // Last: who sees that the end is deserted sees all the rest.
        let all = (self.told.credit, self.told.consumed) == (words.credit, words.consumed);
        if all
            && words.flags != self.told.flags
            && store(self.end.flags_at(), &words.flags.to_le_bytes())
        {
            self.told.flags = words.flags;
            busy = true;
        }
        self.lazy &= !all;
        busy
    }
}

#[cfg(test)]
pub(super) mod tests;
