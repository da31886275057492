// SPDX-License-Identifier: Apache-2.0
//! The controller's book of packets whose checksums are not all known, and when they count.

use std::collections::VecDeque;

use crate::policy::{BITS, Policy};

/// What an analyzer carries with a packet, so that its result finds the packet's place. The document's counter uses none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    epoch: u64,
    index: usize,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its checksum has passed, and it counts.
    Good,
    /// Its checksum has failed: nothing in it is believed, its header neither.
    Bad,
    /// Given up because one beside it was bad, and the policy can't tell which.
    Discarded,
}

/// A packet that leaves the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released<S> {
    /// The packet.
    pub packet: S,
    /// What becomes of it.
    pub verdict: Verdict,
}

#[derive(Debug)]
struct Slot<S> {
    packet: Option<S>,
    good: Option<bool>,
}

#[derive(Debug)]
struct Epoch<S> {
    number: u64,
    slots: Vec<Slot<S>>,
    /// Results that are missing.
    pending: usize,
}

impl<S> Epoch<S> {
    const fn new(number: u64) -> Self {
        Self {
            number,
            slots: Vec::new(),
            pending: 0,
        }
    }
}

#[derive(Debug)]
enum Kind<S> {
    /// In the order in which they are done.
    Done(VecDeque<Released<S>>),
    Counter {
        /// Header results less payload results.
        count: usize,
        /// Those since the last commit: what the provisional state is made from.
        provisional: Vec<S>,
        /// A result since then was bad.
        bad: bool,
        /// Packets with an analyzer whose headers have not come.
        unread: usize,
        /// Packets that went to an analyzer since the last commit.
        since: usize,
        stall: Option<usize>,
        reset: bool,
    },
    Epochs {
        most: usize,
        packets: usize,
        ring: VecDeque<Epoch<S>>,
        next: u64,
    },
}

/// The book.
#[derive(Debug)]
pub struct Book<S> {
    kind: Kind<S>,
    /// Packets in it, and the most that ever were.
    held: usize,
    greatest: usize,
}

impl<S> Book<S> {
    /// An empty one.
    pub fn new(policy: Policy) -> Self {
        let counter = |stall: Option<u32>, reset| Kind::Counter {
            count: 0,
            provisional: Vec::new(),
            bad: false,
            unread: 0,
            since: 0,
            stall: stall.map(|stall| stall as usize),
            reset,
        };
        Self {
            kind: match policy {
                Policy::Single | Policy::Naive | Policy::Reassembly => Kind::Done(VecDeque::new()),
                Policy::Counter { stall } => counter(stall, false),
                Policy::ResetOnError => counter(None, true),
                Policy::Epochs { epochs, packets } => Kind::Epochs {
                    most: epochs as usize,
                    packets: packets as usize,
                    ring: VecDeque::new(),
                    next: 0,
                },
            },
            held: 0,
            greatest: 0,
        }
    }

    /// Whether header results go ahead of payload results.
    pub const fn splits(&self) -> bool {
        !matches!(self.kind, Kind::Done(_))
    }

    /// Whether nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// The most packets that it ever had.
    pub const fn greatest(&self) -> usize {
        self.greatest
    }

    /// Whether one packet more may go to an analyzer.
    pub fn has_room(&self) -> bool {
        match &self.kind {
            Kind::Done(_) => true,
            Kind::Counter { since, stall, .. } => stall.is_none_or(|stall| *since < stall),
            Kind::Epochs {
                most,
                packets,
                ring,
                ..
            } => {
                let open = ring.back().is_some_and(|last| last.slots.len() < *packets);
                open || ring.len() < *most
            }
        }
    }

    /// A packet goes to an analyzer.
    pub fn dispatch(&mut self) -> Tag {
        self.held += 1;
        self.greatest = self.greatest.max(self.held);
        match &mut self.kind {
            Kind::Done(_) => Tag { epoch: 0, index: 0 },
            Kind::Counter { unread, since, .. } => {
                *unread += 1;
                *since += 1;
                Tag { epoch: 0, index: 0 }
            }
            Kind::Epochs {
                packets,
                ring,
                next,
                ..
            } => {
                if ring.back().is_none_or(|last| last.slots.len() == *packets) {
                    ring.push_back(Epoch::new(*next));
                    *next += 1;
                }
                let last = ring.back_mut().expect("there is one now");
                last.slots.push(Slot {
                    packet: None,
                    good: None,
                });
                last.pending += 1;
                Tag {
                    epoch: last.number,
                    index: last.slots.len() - 1,
                }
            }
        }
    }

    /// A header result, in the order of arrival.
    pub fn header(&mut self, tag: Tag, packet: S) {
        match &mut self.kind {
            Kind::Done(_) => unreachable!("no header goes ahead"),
            Kind::Counter {
                count,
                provisional,
                unread,
                ..
            } => {
                *unread -= 1;
                *count += 1;
                provisional.push(packet);
            }
            Kind::Epochs { ring, .. } => slot(ring, tag).0.packet = Some(packet),
        }
    }

    /// A payload result; `packet` where no header went ahead.
    pub fn result(&mut self, tag: Tag, good: bool, packet: Option<S>) {
        match &mut self.kind {
            Kind::Done(done) => done.extend(packet.map(|packet| Released {
                packet,
                verdict: if good { Verdict::Good } else { Verdict::Bad },
            })),
            Kind::Counter {
                count,
                provisional,
                bad,
                reset,
                ..
            } => {
                // A bad result counts down like a good one. Reset instead, the counter would take the good results that
                // are still to come for those of packets that come later.
                if *reset && !good {
                    *count = 0;
                    self.held -= provisional.len();
                    provisional.clear();
                    return;
                }
                *bad |= !good;
                *count = count.saturating_sub(1);
            }
            Kind::Epochs { ring, .. } => {
                let (slot, pending) = slot(ring, tag);
                assert!(slot.good.replace(good).is_none(), "one result a packet");
                *pending -= 1;
            }
        }
    }

    /// Packets that leave the book together, in the order in which they count.
    pub fn take(&mut self) -> Vec<Released<S>> {
        let released: Vec<_> = match &mut self.kind {
            Kind::Done(done) => done.pop_front().into_iter().collect(),
            Kind::Counter {
                count,
                provisional,
                bad,
                unread,
                since,
                ..
            } => {
                if *count > 0 || provisional.is_empty() {
                    return Vec::new();
                }
                let verdict = match std::mem::take(bad) {
                    false => Verdict::Good,
                    true => Verdict::Discarded,
                };
                *since = *unread;
                let packets = provisional.drain(..);
                packets.map(|packet| Released { packet, verdict }).collect()
            }
            Kind::Epochs { packets, ring, .. } => {
                let alone = ring.len() == 1;
                let ready = |first: &Epoch<S>| {
                    first.pending == 0 && (alone || first.slots.len() == *packets)
                };
                if !ring.front().is_some_and(ready) {
                    return Vec::new();
                }
                let epoch = ring.pop_front().map_or(Vec::new(), |first| first.slots);
                let exact = *packets <= BITS as usize;
                let bad = epoch.iter().any(|slot| slot.good == Some(false));
                let verdict = |good| match (good, bad && !exact) {
                    (Some(true), false) => Verdict::Good,
                    (Some(true), true) => Verdict::Discarded,
                    _ => Verdict::Bad,
                };
                let released = epoch.into_iter().map(|slot| Released {
                    verdict: verdict(slot.good),
                    packet: slot.packet.expect("headers come before payloads"),
                });
                released.collect()
            }
        };
        self.held = self.held.saturating_sub(released.len());
        released
    }

    /// Whether packets that leave together count in one cycle, as the provisional state replaces the committed one.
    pub const fn commits_at_once(&self) -> bool {
        matches!(self.kind, Kind::Counter { .. })
    }
}

fn slot<S>(ring: &mut VecDeque<Epoch<S>>, tag: Tag) -> (&mut Slot<S>, &mut usize) {
    let first = ring.front().map_or(0, |first| first.number);
    let epoch = ring.get_mut((tag.epoch - first) as usize);
    let epoch = epoch.expect("an epoch stays until all its results are there");
    (&mut epoch.slots[tag.index], &mut epoch.pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dispatches packets 0, 1, ... with their headers.
    fn open(book: &mut Book<u32>, packets: std::ops::Range<u32>) -> Vec<Tag> {
        let open = |packet| {
            let tag = book.dispatch();
            book.header(tag, packet);
            tag
        };
        packets.map(open).collect()
    }

    fn good(packets: &[u32]) -> Vec<Released<u32>> {
        verdicts(packets, Verdict::Good)
    }

    fn verdicts(packets: &[u32], verdict: Verdict) -> Vec<Released<u32>> {
        let all = packets.iter();
        all.map(|&packet| Released { packet, verdict }).collect()
    }

    #[test]
    fn the_counter_commits_at_zero_only() {
        let mut book = Book::new(Policy::Counter { stall: Some(4) });
        let tags = open(&mut book, 0..4);
        assert!(!book.has_room());
        for tag in &tags[1..] {
            book.result(*tag, true, None);
            assert!(book.take().is_empty());
        }
        book.result(tags[0], true, None);
        assert_eq!(book.take(), good(&[0, 1, 2, 3]));
        assert!(book.has_room() && book.is_empty());
    }

    /// A is bad; B and C are in flight and good; D, which was sent again, comes meanwhile.
    fn hazard(policy: Policy) -> Vec<Released<u32>> {
        let mut book = Book::new(policy);
        let tags = open(&mut book, 0..3);
        book.result(tags[0], false, None);
        assert!(book.take().is_empty());
        let d = open(&mut book, 3..4);
        book.result(tags[1], true, None);
        let released = book.take();
        book.result(tags[2], true, None);
        assert!(book.take().is_empty());
        book.result(d[0], true, None);
        [released, book.take()].concat()
    }

    #[test]
    fn a_counter_that_an_error_resets_takes_a_packet_before_its_checksum() {
        // B's good result is taken for D's.
        assert_eq!(hazard(Policy::ResetOnError), good(&[3]));
    }

    #[test]
    fn a_counter_that_an_error_counts_down_gives_all_up_when_all_are_done() {
        let all = verdicts(&[0, 1, 2, 3], Verdict::Discarded);
        assert_eq!(hazard(Policy::Counter { stall: None }), all);
    }

    #[test]
    fn the_oldest_epoch_goes_first_and_a_bad_packet_leaves_a_hole() {
        let mut book = Book::new(Policy::Epochs {
            epochs: 2,
            packets: 2,
        });
        let tags = open(&mut book, 0..4);
        assert!(!book.has_room());
        book.result(tags[3], true, None);
        book.result(tags[2], true, None);
        book.result(tags[1], true, None);
        assert!(book.take().is_empty());
        book.result(tags[0], false, None);
        let mut expected = verdicts(&[0], Verdict::Bad);
        expected.extend(good(&[1]));
        assert_eq!(book.take(), expected);
        assert_eq!(book.take(), good(&[2, 3]));
        assert!(book.take().is_empty());
    }

    #[test]
    fn an_open_epoch_that_is_alone_and_done_does_not_wait() {
        let mut book = Book::new(Policy::Epochs {
            epochs: 2,
            packets: 4,
        });
        let tags = open(&mut book, 0..1);
        book.result(tags[0], true, None);
        assert_eq!(book.take(), good(&[0]));
        let tags = open(&mut book, 1..3);
        book.result(tags[0], true, None);
        assert!(book.take().is_empty());
    }

    #[test]
    fn a_long_epoch_is_given_up_whole() {
        let mut book = Book::new(Policy::Epochs {
            epochs: 2,
            packets: 16,
        });
        let tags = open(&mut book, 0..16);
        let next = open(&mut book, 16..17);
        for (index, tag) in tags.iter().enumerate() {
            book.result(*tag, index != 7, None);
        }
        let released = book.take();
        let of = |verdict| released.iter().filter(|one| one.verdict == verdict).count();
        assert_eq!((of(Verdict::Bad), of(Verdict::Discarded)), (1, 15));
        book.result(next[0], true, None);
        assert_eq!(book.take(), good(&[16]));
    }
}
