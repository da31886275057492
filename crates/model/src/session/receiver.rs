// SPDX-License-Identifier: Apache-2.0
//! The receiving half of a session: what is expected, and what the peer has to be told.

use wire::{ERR_BAD_KEY, FMT_MWR64};

use crate::verdict::Request;

fn address(request: &Request) -> u64 {
    wire::wire_address(request.key, request.offset)
}

/// State of the receiving half.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Number that is taken next.
    pub expected: u32,
    /// Frames taken that are not acknowledged yet.
    pub pending: u32,
    acknowledge_now: bool,
    missing_now: bool,
    /// The frame ahead that made us say that `expected` is missing, or the last one since.
    gap: Option<u32>,
    /// The frame `expected`, if it was refused.
    refusal: Option<Refusal>,
}

/// An operation that was refused.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    code: u8,
    fmt_type: u8,
    address: u64,
    /// Others were refused as the same frame before, all for a bad key.
    several: bool,
}

impl Refusal {
    fn is_of(&self, request: &Request) -> bool {
        (self.fmt_type, self.address) == (request.fmt_type, address(request))
    }
}

/// What the peer is told in a frame of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything before `expected` is here.
    Acknowledgement,
    /// The same, and `expected` is missing.
    Missing,
}

impl Receiver {
    /// Nothing has come; the first frame has the number `start`.
    pub fn new(start: u32) -> Self {
        Self {
            expected: start,
            ..Self::default()
        }
    }

    /// The frame `expected` was taken; the peer is told at once after every `every` frames.
    pub fn take(&mut self, every: u32) {
        self.expected = self.expected.wrapping_add(1);
        self.gap = None;
        self.refusal = None;
        self.pending += 1;
        self.acknowledge_now |= self.pending >= every;
    }

    /// An old frame came again: the acknowledgement was lost.
    pub fn again(&mut self) {
        self.acknowledge_now = true;
    }

    /// A frame came while `expected` is missing. The peer is told once; again only when it went back since, which
    /// shows in a number that is not higher than the last one.
    pub fn ahead(&mut self, sequence: u32) {
        let went_back = |last: u32| sequence.wrapping_sub(last) as i32 <= 0;
        self.missing_now |= self.gap.is_none_or(went_back);
        self.gap = Some(sequence);
    }

    /// The frame `expected` is refused, and its sender told. Until a frame with its number is taken, the same operation
    /// is refused again, even if its region grants it by then. A bad key does
    /// not replace another reason, and of several that differ any may be the frame's own.
    pub fn refuse(&mut self, code: u8, request: &Request) {
        let mut refusal = Refusal {
            code,
            fmt_type: request.fmt_type,
            address: address(request),
            several: false,
        };
        if code == ERR_BAD_KEY
            && let Some(before) = self.refusal
        {
            if before.code != ERR_BAD_KEY {
                return;
            }
            refusal.several = before.several || !before.is_of(request);
        }
        self.refusal = Some(refusal);
    }

    /// Why this operation, as the frame `expected`, was refused before, or may have been. A load that is served after
    /// all does no harm.
    pub fn refused_before(&self, request: &Request) -> Option<u8> {
        let refusal = self.refusal?;
        let perhaps = refusal.several && request.fmt_type == FMT_MWR64;
        (perhaps || refusal.is_of(request)).then_some(refusal.code)
    }

    /// The frame that must be sent now, if there is one.
    pub fn answer(&mut self) -> Option<Answer> {
        let answer = if self.missing_now {
            Answer::Missing
        } else if self.acknowledge_now {
            Answer::Acknowledgement
        } else {
            return None;
        };
        self.acknowledged();
        Some(answer)
    }

    /// The peer was told.
    pub fn acknowledged(&mut self) {
        self.pending = 0;
        self.acknowledge_now = false;
        self.missing_now = false;
    }

    /// No frame took the acknowledgement along in time.
    pub fn waited_long_enough(&mut self) {
        self.acknowledge_now |= self.pending > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledges_in_groups() {
        let mut receiver = Receiver::default();
        for _ in 0..7 {
            receiver.take(8);
            assert_eq!(receiver.answer(), None);
        }
        receiver.take(8);
        assert_eq!(receiver.answer(), Some(Answer::Acknowledgement));
        assert_eq!((receiver.expected, receiver.pending), (8, 0));
        receiver.waited_long_enough();
        assert_eq!(receiver.answer(), None, "there is nothing to say");
        receiver.take(8);
        receiver.waited_long_enough();
        assert_eq!(receiver.answer(), Some(Answer::Acknowledgement));
        receiver.again();
        assert_eq!(receiver.answer(), Some(Answer::Acknowledgement));
    }

    #[test]
    fn says_once_what_is_missing_unless_the_peer_went_back() {
        let mut receiver = Receiver::default();
        receiver.ahead(2);
        assert_eq!(receiver.answer(), Some(Answer::Missing));
        for sequence in 3..9 {
            receiver.ahead(sequence);
            assert_eq!(receiver.answer(), None);
        }
        receiver.ahead(1);
        assert_eq!(receiver.answer(), Some(Answer::Missing), "0 was lost again");
        receiver.take(8);
        receiver.ahead(9);
        assert_eq!(receiver.answer(), Some(Answer::Missing), "a new gap");
    }
}
