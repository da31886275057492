// SPDX-License-Identifier: Apache-2.0
//! The receive half of a connection's state: what is next, and what is there behind a gap.
//!
//! Positions are counted in 64 bits from the first byte of the stream; who reads sequence numbers unwraps them.

use std::ops::Range;

/// Blocks that an acknowledgement has room for, without other options.
pub const SACK_BLOCKS: usize = 4;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It was the next, and there is nothing behind it.
    Next,
    /// It was the next, and a gap was there or still is.
    Filled,
    /// It is kept behind a gap.
    Kept,
    /// All of it was there.
    Duplicate,
    /// It lies beyond the window.
    Outside,
    /// It is behind a gap, and there is no reassembly, or none for one gap more.
    Refused,
}

/// Data behind a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Island {
    from: u64,
    to: u64,
    /// Grows with each change: the newest is reported first.
    stamp: u64,
}

/// What was received of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The next byte.
    next: u64,
    /// Bytes beyond it that may come.
    window: u64,
    /// By place, not touching each other.
    islands: Vec<Island>,
    /// Islands that there is room for.
    most: usize,
    stamp: u64,
}

impl Receive {
    /// Nothing is there yet; `islands` is 0 without reassembly.
    pub const fn new(window: u64, islands: usize) -> Self {
        Self {
            next: 0,
            window,
            islands: Vec::new(),
            most: islands,
            stamp: 0,
        }
    }

    /// The next byte: all before it are there.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The first byte that may not come.
    pub const fn edge(&self) -> u64 {
        self.next + self.window
    }

    /// Bytes beyond the next that may come.
    pub const fn window(&self) -> u64 {
        self.window
    }

    /// Changes how many bytes may come; the right edge must not move back.
    pub const fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// Whether something is there behind a gap.
    pub const fn has_gap(&self) -> bool {
        !self.islands.is_empty()
    }

    /// Gaps that there are.
    pub const fn gaps(&self) -> usize {
        self.islands.len()
    }

    /// Takes bytes; the part before the next and the part beyond the window are cut off.
    pub fn accept(&mut self, bytes: Range<u64>) -> Accepted {
        if bytes.start >= self.edge() && bytes.end > self.next {
            return Accepted::Outside;
        }
        let bytes = bytes.start.max(self.next)..bytes.end.min(self.edge());
        if bytes.end <= bytes.start {
            return Accepted::Duplicate;
        }
        if bytes.start == self.next {
            let had_gap = self.has_gap();
            self.next = bytes.end;
            self.window -= bytes.end - bytes.start;
            self.swallow();
            return if had_gap {
                Accepted::Filled
            } else {
                Accepted::Next
            };
        }
        let inside = |island: &&mut Island| island.from <= bytes.start && bytes.end <= island.to;
        if let Some(island) = self.islands.iter_mut().find(inside) {
            // The first block is the one with the segment that is answered, new or not (RFC 2018, 4).
            self.stamp += 1;
            island.stamp = self.stamp;
            return Accepted::Duplicate;
        }
        self.keep(bytes)
    }

    /// The application took bytes: as many more may come.
    pub const fn consumed(&mut self, bytes: u64) {
        self.window += bytes;
    }

    /// Islands that the next byte has reached become part of what is there.
    fn swallow(&mut self) {
        while let Some(first) = self.islands.first() {
            if first.from > self.next {
                return;
            }
            let more = first.to.saturating_sub(self.next);
            self.next += more;
            self.window -= more;
            self.islands.remove(0);
        }
    }

    fn keep(&mut self, bytes: Range<u64>) -> Accepted {
        let touches = |island: &Island| island.from <= bytes.end && bytes.start <= island.to;
        let first = self.islands.iter().position(touches);
        self.stamp += 1;
        let mut island = Island {
            from: bytes.start,
            to: bytes.end,
            stamp: self.stamp,
        };
        let Some(first) = first else {
            if self.islands.len() >= self.most {
                return Accepted::Refused;
            }
            let place = self
                .islands
                .partition_point(|other| other.from < island.from);
            self.islands.insert(place, island);
            return Accepted::Kept;
        };
        let touched = self.islands[first..].iter().take_while(|i| touches(i));
        let last = first + touched.count();
        island.from = island.from.min(self.islands[first].from);
        island.to = island.to.max(self.islands[last - 1].to);
        self.islands.splice(first..last, [island]);
        Accepted::Kept
    }

    /// What is there behind gaps, the newest first, as much as an acknowledgement has room for.
    pub fn sack(&self, most: usize) -> Vec<Range<u64>> {
        let mut islands: Vec<_> = self.islands.iter().collect();
        islands.sort_unstable_by_key(|island| std::cmp::Reverse(island.stamp));
        islands.truncate(most);
        islands.iter().map(|i| i.from..i.to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_kept_filled_and_reported_newest_first() {
        let mut receive = Receive::new(1000, 4);
        assert_eq!(receive.accept(0..100), Accepted::Next);
        assert_eq!(receive.accept(200..300), Accepted::Kept);
        assert_eq!(receive.accept(400..500), Accepted::Kept);
        assert_eq!(receive.accept(250..260), Accepted::Duplicate);
        assert_eq!(receive.sack(4), [200..300, 400..500]);
        assert_eq!(receive.accept(400..410), Accepted::Duplicate);
        assert_eq!(receive.sack(4), [400..500, 200..300]);
        assert_eq!(receive.accept(280..350), Accepted::Kept);
        assert_eq!(receive.sack(4), [200..350, 400..500]);
        assert_eq!(receive.sack(1).first(), Some(&(200..350)));
        assert_eq!(receive.accept(50..210), Accepted::Filled);
        assert_eq!(receive.next(), 350);
        assert_eq!(receive.accept(350..400), Accepted::Filled);
        assert_eq!(receive.next(), 500);
        assert!(!receive.has_gap());
        assert_eq!(receive.accept(0..500), Accepted::Duplicate);
    }

    #[test]
    fn the_window_bounds_what_comes() {
        let mut receive = Receive::new(100, 1);
        assert_eq!(receive.accept(100..200), Accepted::Outside);
        assert_eq!(receive.accept(0..150), Accepted::Next);
        assert_eq!((receive.next(), receive.window()), (100, 0));
        assert_eq!(receive.accept(100..101), Accepted::Outside);
        receive.consumed(100);
        assert_eq!(receive.accept(110..120), Accepted::Kept);
        assert_eq!(receive.accept(130..140), Accepted::Refused);
        assert_eq!(receive.accept(120..130), Accepted::Kept);
    }

    #[test]
    fn without_reassembly_only_the_next_counts() {
        let mut receive = Receive::new(100, 0);
        assert_eq!(receive.accept(10..20), Accepted::Refused);
        assert_eq!(receive.accept(0..10), Accepted::Next);
    }
}
