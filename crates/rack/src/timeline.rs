// SPDX-License-Identifier: Apache-2.0
//! When a rack with routing daemons changed: carriers that were lost, tables that were written.

use crate::ids::ComponentId;
use crate::time::Picoseconds;

/// Words that come within this time of each other are one entry.
const BURST: Picoseconds = Picoseconds::from_us(100);
/// Entries at most: a guest decides how many there are.
const MOST: usize = 100_000;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The host of a switch was told of a port's line.
    Carrier {
        /// The port.
        port: u8,
        /// Whether there is a signal.
        up: bool,
    },
    /// The host of a switch stored a word for its memories.
    Stored,
    /// A switch took words into its memories.
    Taken,
}

/// One entry: something that happened once, or a burst of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// When it began.
    pub from: Picoseconds,
    /// When it ended.
    pub to: Picoseconds,
    /// Where.
    pub at: ComponentId,
    /// What.
    pub what: What,
    /// How often.
    pub count: u64,
}

/// All that happened, by the times of the first of each.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The entries.
    pub entries: Vec<Happening>,
    /// Whether there were more.
    pub overflown: bool,
}

impl Timeline {
    /// Adds something to the last burst there, or as an entry.
    pub fn happened(&mut self, now: Picoseconds, at: ComponentId, what: What) {
        let bursts = matches!(what, What::Stored | What::Taken);
        let mut same = self.entries.iter_mut().rev();
        let last = same.find(|entry| entry.at == at && entry.what == what);
        if let Some(last) = last.filter(|last| bursts && now - last.to < BURST) {
            last.to = now;
            last.count += 1;
            return;
        }
        if self.entries.len() >= MOST {
            self.overflown = true;
            return;
        }
        self.entries.push(Happening {
            from: now,
            to: now,
            at,
            what,
            count: 1,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: What = What::Carrier { port: 1, up: false };

    #[test]
    fn words_that_follow_each_other_are_one_entry() {
        let mut timeline = Timeline::default();
        let (one, two) = (ComponentId(1), ComponentId(2));
        let us = Picoseconds::from_us;
        for (time, at, what) in [
            (0, one, What::Stored),
            (1, two, What::Stored),
            (99, one, What::Stored),
            (150, one, What::Taken),
            (300, one, What::Stored),
            (301, one, LOST),
            (302, one, LOST),
        ] {
            timeline.happened(us(time), at, what);
        }
        let entries = timeline.entries.iter();
        let seen: Vec<_> = entries
            .map(|entry| (entry.from, entry.to, entry.at, entry.what, entry.count))
            .collect();
        let expected = [
            (us(0), us(99), one, What::Stored, 2),
            (us(1), us(1), two, What::Stored, 1),
            (us(150), us(150), one, What::Taken, 1),
            (us(300), us(300), one, What::Stored, 1),
            (us(301), us(301), one, LOST, 1),
            (us(302), us(302), one, LOST, 1),
        ];
        assert_eq!(seen, expected);
    }
}
