// SPDX-License-Identifier: Apache-2.0
//! One direction between two NICs: whole frames that come late, twice, in another order, altered,
//! again after a long time, or not at all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use wire::{COMPACT_NIBBLE, PAYLOAD_OFFSET, SessionPort, TLP_MAGIC};

use crate::difftest::phy::CutFrame;

/// A chance in millionths.
pub type Ppm = u32;

/// What the channel does to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A frame vanishes.
    pub loss: Ppm,
    /// A frame comes twice, the second time up to 30 us later.
    pub duplicate: Ppm,
    /// Up to eight later frames overtake it.
    pub reorder: Ppm,
    /// It is altered, and its FCS is right again: 1 to 3 bits or a burst of 16 bits at most, if its
    /// end code has 16 bits; anything, if 32 bits or a seal protect it.
    pub corrupt: Ppm,
    /// A frame from the past comes as well: any, or the one with the same low half of its number.
    pub replay: Ppm,
    /// Picoseconds from end to end, beyond those of the cable.
    pub delay_ps: u64,
    /// More picoseconds at most, drawn for each frame; frames stay in order.
    pub jitter_ps: u64,
}

/// What happened to the frames of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that vanished, in outages too.
    pub lost: u64,
    /// Second copies.
    pub duplicated: u64,
    /// Frames that were overtaken.
    pub reordered: u64,
    /// Frames that were altered.
    pub corrupted: u64,
    /// Frames from the past.
    pub replayed: u64,
    /// Those among them whose place in the stream was that of the present frame.
    pub replayed_in_place: u64,
    /// Frames that arrived.
    pub delivered: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.replayed += other.replayed;
        self.replayed_in_place += other.replayed_in_place;
        self.delivered += other.delivered;
    }
}

/// Frames that are kept to be replayed at random.
const CAPTURE: usize = 4096;
/// A second copy comes this much later at most.
const DUPLICATE_PS: u64 = 30_000_000;
/// An overtaken frame is late by this much for each frame that overtakes it.
const REORDER_PS: u64 = 250_000;

/// A frame on its way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    due_ps: u64,
    order: u64,
    frame: Vec<u8>,
    /// It was cut, and ends as a frame does or not.
    cut: Option<bool>,
}

/// Frames of the past.
#[derive(Debug, Default)]
struct Capture {
    /// Any frames of any age.
    sample: Vec<Vec<u8>>,
    seen: u64,
    /// By session number at the receiver and low half of the sequence number: the last frame of
    /// that number whose contents differ from the present one.
    by_number: HashMap<(u8, u16), Vec<u8>>,
}

/// One direction.
#[derive(Debug)]
pub struct Channel {
    faults: Faults,
    cable_ps: u64,
    rng: ChaCha8Rng,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    order: u64,
    last_due_ps: u64,
    down_until_ps: u64,
    capture: Option<Capture>,
    stats: Stats,
}

impl Channel {
    /// A cable of this length in picoseconds, and what happens on it.
    pub fn new(cable_ps: u64, faults: Faults, rng: ChaCha8Rng) -> Self {
        Self {
            faults,
            cable_ps,
            rng,
            in_flight: BinaryHeap::new(),
            order: 0,
            last_due_ps: 0,
            down_until_ps: 0,
            capture: (faults.replay > 0).then(Capture::default),
            stats: Stats::default(),
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Loses everything until a point in time, and what is on the way if the cable is `cut`.
    pub fn outage(&mut self, until_ps: u64, cut: bool) {
        self.down_until_ps = self.down_until_ps.max(until_ps);
        if cut {
            self.stats.lost += self.in_flight.len() as u64;
            self.in_flight.clear();
        }
    }

    /// Forgets a session's frames of an epoch, also those on their way: they are of the past, and its
    /// number comes again.
    pub fn forget(&mut self, session: u8, epoch: u8) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        let stays = |frame: &[u8]| {
            if frame.len() < PAYLOAD_OFFSET {
                // What a reset has left of one.
                return true;
            }
            let port = session_port(frame);
            port.is_none_or(|port| (port.index, port.epoch) != (session, epoch))
        };
        capture.sample.retain(|frame| stays(frame));
        capture.by_number.retain(|_, frame| stays(frame));
        let before = self.in_flight.len();
        self.in_flight.retain(|Reverse(next)| stays(&next.frame));
        self.stats.lost += (before - self.in_flight.len()) as u64;
    }

    /// Nothing is on the way.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// When the next frame arrives; the end of time if none is on the way.
    pub fn next_due_ps(&self) -> u64 {
        self.in_flight.peek().map_or(u64::MAX, |next| next.0.due_ps)
    }

    /// Takes the next frame that has arrived before `until_ps`; if it was cut, whether it ends as a frame does.
    pub fn take(&mut self, until_ps: u64) -> Option<(u64, Vec<u8>, Option<bool>)> {
        if self.next_due_ps() >= until_ps {
            return None;
        }
        let Reverse(next) = self.in_flight.pop()?;
        self.stats.delivered += 1;
        Some((next.due_ps, next.frame, next.cut))
    }

    fn hit(&mut self, chance: Ppm) -> bool {
        chance > 0 && self.rng.random_range(0..1_000_000) < chance
    }

    fn push(&mut self, due_ps: u64, frame: Vec<u8>) {
        self.order += 1;
        self.in_flight.push(Reverse(InFlight {
            due_ps,
            order: self.order,
            frame,
            cut: None,
        }));
    }

    /// Takes a frame (without FCS) whose last byte left at `at_ps`.
    pub fn send(&mut self, at_ps: u64, mut frame: Vec<u8>) {
        self.stats.sent += 1;
        let jitter = match self.faults.jitter_ps {
            0 => 0,
            most => self.rng.random_range(0..=most),
        };
        let due = at_ps + self.cable_ps + self.faults.delay_ps + jitter;
        let due = due.max(self.last_due_ps + 1);
        self.last_due_ps = due;
        if self.capture.is_some() {
            self.replay(at_ps, due, &frame);
            // The old one in place must come first.
            self.last_due_ps = due;
        }
        if at_ps < self.down_until_ps || self.hit(self.faults.loss) {
            self.stats.lost += 1;
            return;
        }
        if self.hit(self.faults.duplicate) {
            self.stats.duplicated += 1;
            let later = if self.rng.random() {
                self.rng.random_range(0..DUPLICATE_PS)
            } else {
                0
            };
            self.push(due + later, frame.clone());
        }
        let mut due = due;
        if self.hit(self.faults.reorder) {
            self.stats.reordered += 1;
            due += self.rng.random_range(1..=8) * REORDER_PS;
        }
        if self.hit(self.faults.corrupt) {
            self.stats.corrupted += 1;
            corrupt(&mut frame, &mut self.rng);
        }
        self.push(due, frame);
    }

    /// Takes what its sender's reset has left of a frame; an outage takes it, and nothing else happens to it.
    pub fn send_cut(&mut self, at_ps: u64, cut: CutFrame) {
        let due_ps = (at_ps + self.cable_ps + self.faults.delay_ps).max(self.last_due_ps + 1);
        self.last_due_ps = due_ps;
        if at_ps < self.down_until_ps {
            return;
        }
        self.order += 1;
        self.in_flight.push(Reverse(InFlight {
            due_ps,
            order: self.order,
            frame: cut.bytes,
            cut: Some(cut.ends),
        }));
    }

    fn replay(&mut self, at_ps: u64, due_ps: u64, frame: &[u8]) {
        let fire = self.hit(self.faults.replay);
        let in_place: bool = self.rng.random();
        let Some(capture) = &mut self.capture else {
            return;
        };
        let mut old = None;
        if let Some(key) = sequenced(frame) {
            let kept = capture.by_number.get_mut(&key);
            match kept {
                Some(kept) if same_operation(kept, frame) => {}
                Some(kept) => {
                    if fire && in_place {
                        old = Some(kept.clone());
                        self.stats.replayed_in_place += 1;
                    }
                    kept.clear();
                    kept.extend_from_slice(frame);
                }
                None => {
                    capture.by_number.insert(key, frame.to_vec());
                }
            }
        }
        if old.is_none() && fire && !capture.sample.is_empty() {
            let index = self.rng.random_range(0..capture.sample.len());
            old = Some(capture.sample[index].clone());
        }
        capture.seen += 1;
        if capture.sample.len() < CAPTURE {
            capture.sample.push(frame.to_vec());
        } else {
            // Every frame so far, but for those forgotten, is in the sample with the same chance.
            let at = self.rng.random_range(0..capture.seen);
            if let Some(place) = capture.sample.get_mut(at as usize) {
                place.clear();
                place.extend_from_slice(frame);
            }
        }
        if let Some(old) = old
            && at_ps >= self.down_until_ps
        {
            self.stats.replayed += 1;
            self.push(due_ps, old);
        }
    }
}

/// Session and epoch that a frame was sent in.
fn session_port(frame: &[u8]) -> Option<SessionPort> {
    SessionPort::from_port(u16::from_be_bytes([frame[34], frame[35]]))
}

/// Session at the receiver and low half of the number of a sequenced frame; the latter stands in
/// the clear only if the frame is not sealed.
fn sequenced(frame: &[u8]) -> Option<(u8, u16)> {
    let port = session_port(frame)?;
    let payload = &frame[PAYLOAD_OFFSET..];
    let at = match (
        payload[0] >> 4,
        u16::from_be_bytes([payload[0], payload[1]]),
    ) {
        (COMPACT_NIBBLE, _) if payload[0] & 4 == 0 => 1,
        (_, TLP_MAGIC) if payload[2] & 1 == 1 => 4,
        _ => return None,
    };
    Some((
        port.index,
        u16::from_be_bytes([payload[at], payload[at + 1]]),
    ))
}

/// Whether two frames with the same low half of their numbers may be the same one, sent twice: a
/// frame that is sent again may carry another acknowledgement, or none.
fn same_operation(one: &[u8], other: &[u8]) -> bool {
    // Address and first DW of data, in either format.
    let body = if one[PAYLOAD_OFFSET] >> 4 == COMPACT_NIBBLE {
        PAYLOAD_OFFSET + 3..PAYLOAD_OFFSET + 12
    } else {
        PAYLOAD_OFFSET + 8..PAYLOAD_OFFSET + 28
    };
    let same = |range: std::ops::Range<usize>| one.get(range.clone()) == other.get(range);
    same(34..36) && same(PAYLOAD_OFFSET..PAYLOAD_OFFSET + 1) && same(body)
}

fn flip(frame: &mut [u8], bit: usize) {
    frame[bit / 8] ^= 0x80 >> (bit % 8);
}

/// Alters a frame as a switch with a bad memory does before it computes the FCS.
fn corrupt(frame: &mut [u8], rng: &mut ChaCha8Rng) {
    let weak = frame[PAYLOAD_OFFSET] >> 4 == COMPACT_NIBBLE;
    // Mostly in the payload: elsewhere most alterations end in line 1 or 3 of the verdict.
    let first = if rng.random_range(0..4) == 0 {
        0
    } else {
        PAYLOAD_OFFSET
    };
    let bits = 8 * first..8 * frame.len();
    match rng.random_range(0..if weak { 2 } else { 3 }) {
        0 => {
            let count = rng.random_range(1..=3);
            let mut at = [usize::MAX; 3];
            for index in 0..count {
                at[index] = loop {
                    let bit = rng.random_range(bits.clone());
                    if !at.contains(&bit) {
                        break bit;
                    }
                };
                flip(frame, at[index]);
            }
        }
        1 => {
            let length = rng.random_range(1..=16);
            let start = rng.random_range(bits.start..=bits.end - length);
            flip(frame, start);
            for bit in start + 1..start + length {
                if bit + 1 == start + length || rng.random() {
                    flip(frame, bit);
                }
            }
        }
        _ => {
            let length = rng.random_range(1..=frame.len() - first);
            let start = rng.random_range(first..=frame.len() - length);
            rng.fill(&mut frame[start..start + length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn frame(number: u8) -> Vec<u8> {
        let mut frame = vec![number; 80];
        frame[PAYLOAD_OFFSET] = 0xC0;
        frame
    }

    fn run(faults: Faults, frames: u64) -> (Stats, Vec<u8>) {
        let mut channel = Channel::new(1000, faults, ChaCha8Rng::seed_from_u64(1));
        let mut out = Vec::new();
        for number in 0..frames {
            channel.send(number * 100_000, frame(number as u8));
            while let Some((_, frame, _)) = channel.take(number * 100_000) {
                out.push(frame[0]);
            }
        }
        while let Some((_, frame, _)) = channel.take(u64::MAX) {
            out.push(frame[0]);
        }
        (channel.stats(), out)
    }

    #[test]
    fn a_channel_without_faults_keeps_everything_in_order() {
        let jitter = Faults {
            jitter_ps: 900_000,
            ..Faults::default()
        };
        for faults in [Faults::default(), jitter] {
            let (stats, out) = run(faults, 200);
            assert_eq!(out, (0..200).collect::<Vec<u8>>());
            assert_eq!((stats.sent, stats.delivered), (200, 200));
        }
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let faults = Faults {
            loss: 100_000,
            duplicate: 200_000,
            reorder: 300_000,
            corrupt: 400_000,
            ..Faults::default()
        };
        let (stats, out) = run(faults, 10_000);
        let near = |count: u64, wanted: u64| count.abs_diff(wanted) < wanted / 5;
        assert!(near(stats.lost, 1000), "{stats:?}");
        assert!(near(stats.duplicated, 1800), "{stats:?}");
        assert!(near(stats.reordered, 2700), "{stats:?}");
        assert!(near(stats.corrupted, 3600), "{stats:?}");
        assert_eq!(out.len() as u64, 10_000 - stats.lost + stats.duplicated);
        assert!(!out.is_sorted());
    }

    #[test]
    fn an_outage_loses_everything() {
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut channel = Channel::new(1000, Faults::default(), rng);
        channel.send(0, frame(0));
        channel.outage(50_000, true);
        channel.send(49_999, frame(1));
        channel.send(50_000, frame(2));
        let left = channel.take(u64::MAX).map(|(at, frame, _)| (at, frame[0]));
        assert_eq!(left, Some((51_000, 2)));
        assert!(channel.is_empty());
    }
    #[test]
    fn a_forgotten_epoch_never_comes_again() {
        let faults = Faults {
            replay: 500_000,
            ..Faults::default()
        };
        let mut channel = Channel::new(1000, faults, ChaCha8Rng::seed_from_u64(1));
        let port = |session, epoch| {
            let index = session;
            SessionPort { epoch, index }.to_port().to_be_bytes()
        };
        let mut send = |at_ps: u64, session, epoch, forget: bool| {
            for order in 0..200 {
                let mut frame = frame(order);
                frame[34..36].copy_from_slice(&port(session, epoch));
                channel.send(at_ps + u64::from(order), frame);
            }
            if forget {
                channel.forget(1, 5);
            }
            let mut came = HashMap::new();
            while let Some((_, frame, _)) = channel.take(u64::MAX) {
                *came.entry([frame[34], frame[35]]).or_insert(0_u32) += 1;
            }
            came
        };
        send(0, 1, 5, false);
        send(1_000, 1, 4, false);
        let before = send(2_000, 2, 5, false);
        assert!(before[&port(1, 5)] > 0 && before[&port(1, 4)] > 0);
        let after = send(3_000, 2, 5, true);
        assert!(!after.contains_key(&port(1, 5)), "one was on its way");
        let after = send(4_000, 2, 5, false);
        assert!(!after.contains_key(&port(1, 5)), "one was kept");
        assert!(after[&port(1, 4)] > 0 && after[&port(2, 5)] >= 200);
    }
}
