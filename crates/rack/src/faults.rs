// SPDX-License-Identifier: Apache-2.0
//! A cable on which frames are lost, changed, doubled, overtaken and held up, by a seed.
//!
//! A frame to which nothing happens passes word by word, at the very times of a sound cable, unless one that was held
//! up is in its way. The others are taken whole and sent later.

use std::collections::VecDeque;

use ipnuma_rtl::{NetSpeed, NetWord};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::{ComponentId, HostMessage, Message, Outbox};
use crate::frame::{FCS_BYTES, Framer, words};
use crate::nic::Attachment;
use crate::record::{PacketId, Recorder};
use crate::time::Picoseconds;

/// What goes wrong: probabilities for each frame, each direction on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// The frame is not there.
    pub loss: f64,
    /// One to three bits of the UDP payload are wrong, and the FCS is right.
    pub corrupt: f64,
    /// The frame comes again within [`HOLD`].
    pub duplicate: f64,
    /// The frame waits until the next one has passed, or for [`HOLD`].
    pub reorder: f64,
    /// Every frame is held up by up to so many nanoseconds; the order stays.
    pub delay_ns: f64,
}

/// A cable that is cut, and perhaps mended.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// When, in simulated seconds.
    pub at_s: f64,
    /// When it is mended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend_s: Option<f64>,
    /// Microseconds from there until the receivers of its ends say that there is no signal, or again one. Without it they
    /// never say so, as if there were a converter between: only programs that wait for answers notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_us: Option<f64>,
}

/// Longest simulated time that a topology can name, in seconds.
const MOST_SECONDS: f64 = 1e6;
/// Longest time in which a receiver notices that there is no signal.
const MOST_CARRIER_US: f64 = 1e6;

impl Cut {
    /// Checks the numbers; the error is a sentence that begins with the name.
    pub fn check(&self) -> Result<(), String> {
        let within = |value: f64| value > 0.0 && value <= MOST_SECONDS;
        if !within(self.at_s) {
            return Err(format!(
                "at_s: {} is no time; write up to {MOST_SECONDS} seconds",
                self.at_s
            ));
        }
        if let Some(mend) = self.mend_s
            && !(within(mend) && mend > self.at_s)
        {
            return Err(format!(
                "mend_s: {mend} is no time behind at_s, {}; write a later one",
                self.at_s
            ));
        }
        match self.carrier_us {
            Some(carrier) if !(0.0..=MOST_CARRIER_US).contains(&carrier) => Err(format!(
                "carrier_us: {carrier} is out of range; write 0 to {MOST_CARRIER_US}"
            )),
            _ => Ok(()),
        }
    }

    /// Its times.
    pub fn span(&self) -> (Picoseconds, Option<Picoseconds>) {
        let time = |seconds: f64| Picoseconds::from_ns_f64(seconds * 1e9);
        (time(self.at_s), self.mend_s.map(time))
    }

    /// Whether nothing passes at a time.
    fn is_cut(&self, now: Picoseconds) -> bool {
        let (from, to) = self.span();
        now >= from && to.is_none_or(|to| now < to)
    }
}

/// How long a frame is held back at most to let others pass, and how much later a second copy may come.
pub const HOLD: Picoseconds = Picoseconds::from_us(4);
/// A cable that lags behind by more takes no further copies, so that its lag has a bound.
const MOST_LAG: Picoseconds = Picoseconds::from_us(20);
/// Largest probability that a frame is lost or changed, as of `ipnuma memcached`.
const MOST_BROKEN: f64 = 0.99;
/// Longest delay: a millisecond, many times what a session waits for an answer.
const MOST_DELAY_NS: f64 = 1e6;
/// First byte of the UDP payload.
const PAYLOAD: usize = wire::PAYLOAD_OFFSET;
/// The character of XGMII with which a frame begins.
const START: u8 = 0xFB;

impl Faults {
    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the numbers; the error is a sentence that begins with the name.
    pub fn check(&self) -> Result<(), String> {
        // A cable on which no frame arrives whole has nothing to show: what is sent on it never ends, or is given up.
        for (name, value, most) in [
            ("loss", self.loss, MOST_BROKEN),
            ("corrupt", self.corrupt, MOST_BROKEN),
            ("duplicate", self.duplicate, 1.0),
            ("reorder", self.reorder, 1.0),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(format!(
                    "{name}: {value} is out of range; write 0 to {most}"
                ));
            }
        }
        if !(0.0..=MOST_DELAY_NS).contains(&self.delay_ns) {
            let delay = self.delay_ns;
            return Err(format!(
                "delay: {delay} ns is out of range; write 0 to {MOST_DELAY_NS}"
            ));
        }
        Ok(())
    }
}

/// Frames to which something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Frames that came.
    pub frames: u64,
    /// Lost ones.
    pub lost: u64,
    /// Changed ones.
    pub corrupted: u64,
    /// Doubled ones.
    pub duplicated: u64,
    /// Ones that let others pass.
    pub reordered: u64,
}

impl FaultCounts {
    /// Adds those of another cable.
    pub fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.lost += other.lost;
        self.corrupted += other.corrupted;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
    }
}

/// What was drawn for a frame.
#[derive(Clone, Debug, Default)]
struct Fate {
    lost: bool,
    corrupt: bool,
    duplicate: Option<Picoseconds>,
    reorder: bool,
    /// For the bits.
    draw: u64,
}

/// A frame on its way in.
#[derive(Debug)]
struct Arriving {
    fate: Fate,
    /// From now to the far end, of a frame that passes word by word.
    shift: Option<Picoseconds>,
    framer: Framer,
    first: Picoseconds,
}

/// A whole frame that waits.
#[derive(Debug)]
struct Held {
    due: Picoseconds,
    /// Goes as soon as another has passed.
    overtaken: bool,
    words: Vec<NetWord>,
    packet: Option<PacketId>,
}

/// One direction of a cable.
pub struct FaultyCable {
    id: ComponentId,
    to: Attachment,
    speed: NetSpeed,
    faults: Faults,
    cut: Option<Cut>,
    random: ChaCha8Rng,
    arriving: Option<Arriving>,
    held: VecDeque<Held>,
    /// When the far end is free.
    line_free: Picoseconds,
    /// What happened.
    pub counts: FaultCounts,
}

impl FaultyCable {
    /// A cable to `to`; its delay is that of the sound cable.
    pub fn new(
        id: ComponentId,
        to: Attachment,
        speed: NetSpeed,
        faults: Faults,
        seed: u64,
    ) -> Self {
        Self {
            id,
            to,
            speed,
            faults,
            cut: None,
            random: ChaCha8Rng::seed_from_u64(seed),
            arriving: None,
            held: VecDeque::new(),
            line_free: Picoseconds::ZERO,
            counts: FaultCounts::default(),
        }
    }

    /// It will be cut.
    pub fn cut(&mut self, cut: Option<Cut>) {
        self.cut = cut;
    }

    /// Sees to it that the cut is told.
    pub fn start(&self, out: &mut Outbox) {
        let Some(cut) = &self.cut else {
            return;
        };
        let (from, to) = cut.span();
        for time in std::iter::once(from).chain(to) {
            out.send(time, self.id, Message::Tick);
        }
    }

    /// It is cut or mended now: what is on it is lost, and the receiver at its end notices.
    fn severed(&mut self, now: Picoseconds, out: &mut Outbox) {
        let Some(cut) = self.cut else {
            return;
        };
        let up = !cut.is_cut(now);
        self.held.clear();
        if let Some(carrier) = cut.carrier_us {
            let after = Picoseconds::from_ns_f64(carrier * 1e3).max(Picoseconds(1));
            let port = self.to.port as u8;
            let message = Message::HostSide(HostMessage::Carrier { port, up });
            out.send(now + after, self.to.peer, message);
        }
    }

    const fn period(&self) -> Picoseconds {
        Picoseconds(self.speed.net_period_ps())
    }

    /// Whether a word begins a frame.
    fn begins(word: NetWord) -> bool {
        match word {
            NetWord::Xgmii { data, control } => {
                let start = |lane: u32| {
                    control >> lane & 1 == 1 && data >> (8 * lane) & 0xFF == u64::from(START)
                };
                start(0) || start(4)
            }
            NetWord::Gmii { enable, .. } => enable,
        }
    }

    /// Whether a word of a frame is behind its end: the first idle word, or at 10G the one with the terminate.
    fn ends(word: NetWord) -> bool {
        match word {
            NetWord::Xgmii { control, .. } => control != 0,
            NetWord::Gmii { enable, .. } => !enable,
        }
    }

    fn draw(&mut self) -> Fate {
        let mut happens = |probability: f64| self.random.random::<f64>() < probability;
        let lost = happens(self.faults.loss);
        let corrupt = happens(self.faults.corrupt);
        let duplicate = happens(self.faults.duplicate);
        let reorder = happens(self.faults.reorder);
        let later = Picoseconds(self.random.random_range(0..HOLD.0));
        Fate {
            lost,
            corrupt,
            duplicate: duplicate.then_some(later),
            reorder,
            draw: self.random.random(),
        }
    }

    /// Something arrives, or the time of a held frame has come.
    pub fn receive(
        &mut self,
        now: Picoseconds,
        message: Message,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        match message {
            Message::Word { packet, .. } if self.cut.is_some_and(|cut| cut.is_cut(now)) => {
                if self.arriving.take().is_some() {
                    self.counts.lost += 1;
                }
                if let Some(packet) = packet {
                    record.forget(packet);
                }
            }
            Message::Word { word, packet, .. } => self.word(now, word, packet, out, record),
            Message::Tick => self.severed(now, out),
            Message::Wake => self.release(now, 0, out),
            other => unreachable!("a cable is sent words, and not {other:?}"),
        }
    }

    fn word(
        &mut self,
        now: Picoseconds,
        word: NetWord,
        packet: Option<PacketId>,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        if self.arriving.is_none() {
            if !Self::begins(word) {
                return;
            }
            self.begin(now);
        }
        let begins = Self::begins(word);
        let period = self.period();
        let arriving = self.arriving.as_mut().expect("a frame has begun");
        let inside = match word {
            // The word with the start has control characters as well.
            NetWord::Xgmii { .. } => begins || !Self::ends(word),
            NetWord::Gmii { .. } => !Self::ends(word),
        };
        let whole = arriving.framer.word(now, word);
        let id = packet.filter(|_| !arriving.fate.corrupt);
        if let Some(shift) = arriving.shift {
            let message = Message::Word {
                port: self.to.port,
                word,
                packet: id,
            };
            out.send(now + shift, self.to.peer, message);
            self.line_free = now + shift + period;
        }
        if let (Some(packet), None) = (packet, id.filter(|_| !arriving.fate.lost)) {
            record.forget(packet);
        }
        if inside {
            return;
        }
        let arriving = self.arriving.take().expect("a frame has begun");
        let before = self.held.len();
        if let Some(frame) = whole {
            self.finish(now, &arriving, frame.bytes, id, out);
        }
        // What was held before this frame has let one pass.
        self.release(now, before, out);
    }

    fn begin(&mut self, now: Picoseconds) {
        self.counts.frames += 1;
        let fate = self.draw();
        let extra = self.faults.delay_ns * 1e3;
        let extra = Picoseconds((self.random.random::<f64>() * extra) as u64);
        let passes = !fate.lost && !fate.corrupt && !fate.reorder;
        let shift = passes.then(|| {
            let at = (now + self.to.delay + extra).max(self.line_free);
            at - now
        });
        self.arriving = Some(Arriving {
            fate,
            shift,
            framer: Framer::default(),
            first: now,
        });
    }

    /// The whole frame is known: what does not pass word by word is put aside.
    fn finish(
        &mut self,
        now: Picoseconds,
        arriving: &Arriving,
        mut bytes: Vec<u8>,
        packet: Option<PacketId>,
        out: &mut Outbox,
    ) {
        let Fate {
            lost,
            corrupt,
            duplicate,
            reorder,
            draw,
        } = arriving.fate;
        if lost {
            self.counts.lost += 1;
            return;
        }
        bytes.truncate(bytes.len().saturating_sub(FCS_BYTES));
        if corrupt && bytes.len() > PAYLOAD {
            self.counts.corrupted += 1;
            let bits = 8 * (bytes.len() - PAYLOAD) as u64;
            // Three places; two that are the same undo each other, and leave one.
            let count = 1 + draw % 3;
            for place in 0..count {
                let bit = (draw >> (8 + 16 * place)) % bits;
                bytes[PAYLOAD + bit as usize / 8] ^= 1 << (bit % 8);
            }
        }
        let mut hold = |due: Picoseconds, overtaken: bool, packet: Option<PacketId>| {
            self.held.push_back(Held {
                due,
                overtaken,
                words: words(self.speed, &bytes),
                packet,
            });
            out.send(due.max(now), self.id, Message::Wake);
        };
        if arriving.shift.is_none() {
            let due = if reorder { now + HOLD } else { now };
            hold(due, reorder, packet);
        }
        self.counts.reordered += u64::from(reorder);
        let lag = self.line_free.saturating_sub(arriving.first);
        if let Some(later) = duplicate.filter(|_| lag < MOST_LAG) {
            self.counts.duplicated += 1;
            hold(now + later, false, None);
        }
    }

    /// Sends what was held long enough, if no frame is passing; the first `overtaken` have let one pass.
    fn release(&mut self, now: Picoseconds, overtaken: usize, out: &mut Outbox) {
        if self.arriving.is_some() {
            // Its end releases.
            return;
        }
        let period = self.period();
        let mut kept = VecDeque::new();
        for (index, held) in std::mem::take(&mut self.held).into_iter().enumerate() {
            let passed = held.overtaken && index < overtaken;
            if held.due > now && !passed {
                kept.push_back(held);
                continue;
            }
            let begin = (now + self.to.delay).max(self.line_free);
            let mut framer = Framer::default();
            for (index, word) in held.words.into_iter().enumerate() {
                let ended = framer.word(now, word).is_some();
                let message = Message::Word {
                    port: self.to.port,
                    word,
                    packet: held.packet.filter(|_| ended),
                };
                let at = begin + Picoseconds(index as u64 * period.0);
                out.send(at, self.to.peer, message);
                self.line_free = at + period;
            }
        }
        self.held = kept;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const FRAMES: usize = 200;
    const GAP: Picoseconds = Picoseconds::from_ns(1_000);

    fn frame(number: usize) -> Vec<u8> {
        (0..60 + number % 5)
            .map(|at| (at * 7 + number) as u8)
            .collect()
    }

    /// Sends numbered frames through a cable; what comes out, with the time of its first word.
    fn pass(
        speed: NetSpeed,
        faults: Faults,
        seed: u64,
    ) -> (Vec<(Picoseconds, Vec<u8>)>, FaultCounts) {
        let period = Picoseconds(speed.net_period_ps());
        let id = ComponentId(9);
        let to = Attachment {
            peer: ComponentId(1),
            port: 3,
            delay: Picoseconds::from_ns(300),
        };
        let mut cable = FaultyCable::new(id, to, speed, faults, seed);
        let mut record = Recorder::default();
        let mut out = Outbox::default();
        let mut events = BTreeMap::new();
        let mut count = 0;
        let mut at = Picoseconds::from_us(1);
        for number in 0..FRAMES {
            for word in words(speed, &frame(number)) {
                let message = Message::Word {
                    port: 0,
                    word,
                    packet: None,
                };
                events.insert((at, 0, count), message);
                count += 1;
                at += period;
            }
            at += GAP;
        }
        let mut arrived = BTreeMap::new();
        while let Some(((now, _, _), message)) = events.pop_first() {
            cable.receive(now, message, &mut out, &mut record);
            for (time, to, message) in out.messages.drain(..) {
                count += 1;
                if to == id {
                    events.insert((time, 1, count), message);
                } else if let Message::Word { word, port, .. } = message {
                    assert_eq!(port, 3);
                    assert!(arrived.insert((time, count), word).is_none());
                }
            }
        }
        let mut framer = Framer::default();
        let mut frames = Vec::new();
        let mut last = Picoseconds::ZERO;
        for ((time, _), word) in arrived {
            assert!(time >= last + period, "words do not overlap");
            if time > last + period {
                // What a receiver sees between frames.
                let frame = framer.word(last + period, speed.idle());
                frames.extend(frame.map(|frame| (frame.first, frame.bytes)));
            }
            last = time;
            if let Some(frame) = framer.word(time, word) {
                frames.push((frame.first, frame.bytes));
            }
        }
        (frames, cable.counts)
    }

    fn body(frame: &[u8]) -> &[u8] {
        let (body, fcs) = frame.split_at(frame.len() - FCS_BYTES);
        assert_eq!(wire::fcs(body), *fcs, "the FCS is right");
        body
    }

    #[test]
    fn nothing_happens_without_faults() {
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            let (frames, counts) = pass(speed, Faults::default(), 1);
            assert_eq!(frames.len(), FRAMES);
            assert_eq!(counts.frames, FRAMES as u64);
            let first = Picoseconds::from_us(1) + Picoseconds::from_ns(300);
            assert_eq!(frames[0].0, first, "as on a sound cable");
            for (number, (_, bytes)) in frames.iter().enumerate() {
                assert_eq!(body(bytes), frame(number));
            }
        }
    }

    #[test]
    fn each_fault_does_what_it_says() {
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            let some = |faults| pass(speed, faults, 5);
            let (frames, counts) = some(Faults {
                loss: 0.2,
                ..Faults::default()
            });
            assert_eq!(frames.len() + counts.lost as usize, FRAMES);
            assert!((20..60).contains(&counts.lost), "{counts:?}");

            let (frames, counts) = some(Faults {
                corrupt: 0.2,
                ..Faults::default()
            });
            assert_eq!(frames.len(), FRAMES);
            let changed = frames.iter().enumerate().filter(|(number, (_, bytes))| {
                let (body, sent) = (body(bytes), frame(*number));
                assert_eq!(body[..PAYLOAD], sent[..PAYLOAD]);
                body != sent
            });
            let changed = changed.count() as u64;
            assert!(changed > 0 && changed <= counts.corrupted, "{counts:?}");

            let (frames, counts) = some(Faults {
                duplicate: 0.2,
                ..Faults::default()
            });
            assert_eq!(frames.len(), FRAMES + counts.duplicated as usize);
            assert!(counts.duplicated > 20);

            let (frames, counts) = some(Faults {
                reorder: 0.2,
                ..Faults::default()
            });
            assert_eq!(frames.len(), FRAMES);
            let numbers: Vec<_> = frames.iter().map(|(_, bytes)| body(bytes)[0]).collect();
            let swaps = numbers
                .windows(2)
                .filter(|pair| pair[0] == pair[1].wrapping_add(1));
            assert!(swaps.count() > 10, "{counts:?}");

            let (frames, _) = some(Faults {
                delay_ns: 500.0,
                ..Faults::default()
            });
            assert!(
                frames
                    .iter()
                    .enumerate()
                    .all(|(number, (_, bytes))| body(bytes) == frame(number))
            );
            let (sound, _) = some(Faults::default());
            let late = frames
                .iter()
                .zip(&sound)
                .map(|(late, sound)| late.0 - sound.0);
            let late: Vec<_> = late.collect();
            assert!(late.iter().all(|late| *late < Picoseconds::from_ns(1_000)));
            assert!(late.iter().any(|late| *late > Picoseconds::from_ns(400)));
        }
    }

    #[test]
    fn a_seed_says_what_happens() {
        let faults = Faults {
            loss: 0.1,
            corrupt: 0.1,
            duplicate: 0.1,
            reorder: 0.1,
            delay_ns: 300.0,
        };
        let one = pass(NetSpeed::TenGig, faults, 1);
        assert_eq!(one, pass(NetSpeed::TenGig, faults, 1));
        assert_ne!(one, pass(NetSpeed::TenGig, faults, 2));
    }

    #[test]
    fn nothing_passes_a_cut_and_its_end_is_told() {
        let (speed, id) = (NetSpeed::TenGig, ComponentId(9));
        let to = Attachment {
            peer: ComponentId(1),
            port: 3,
            delay: Picoseconds::from_ns(300),
        };
        let mut cable = FaultyCable::new(id, to, speed, Faults::default(), 1);
        cable.cut(Some(Cut {
            at_s: 20e-6,
            mend_s: Some(40e-6),
            carrier_us: Some(5.0),
        }));
        let (mut record, mut out) = (Recorder::default(), Outbox::default());
        cable.start(&mut out);
        let told: Vec<_> = out.messages.drain(..).collect();
        let times: Vec<_> = told.iter().map(|(time, ..)| *time).collect();
        assert_eq!(times, [20, 40].map(Picoseconds::from_us));
        let mut passed = Vec::new();
        // One frame a microsecond; the one that begins at 19.98 us is on the cable when it is cut.
        let (period, mut events) = (Picoseconds(speed.net_period_ps()), BTreeMap::new());
        for (time, to, message) in told {
            events.insert((time, 0), message);
            assert_eq!(to, id);
        }
        for number in 0..60 {
            let begin = Picoseconds(number * 1_000_000 + 980_000);
            let word = words(speed, &frame(number as usize));
            for (index, word) in (0u64..).zip(word) {
                let (port, packet) = (0, None);
                let message = Message::Word { port, word, packet };
                events.insert((begin + Picoseconds(index * period.0), 1 + number), message);
            }
        }
        let mut carriers = Vec::new();
        for ((now, _), message) in events {
            cable.receive(now, message, &mut out, &mut record);
            for (time, _, message) in out.messages.drain(..) {
                match message {
                    Message::Word { word, .. } if FaultyCable::begins(word) => {
                        passed.push((now.0 / 1_000_000) as usize);
                    }
                    Message::HostSide(HostMessage::Carrier { port: 3, up }) => {
                        carriers.push((time, up));
                    }
                    _ => {}
                }
            }
        }
        let expected: Vec<_> = (0..20).chain(40..60).collect();
        assert_eq!(passed, expected);
        let us = Picoseconds::from_us;
        assert_eq!(carriers, [(us(25), false), (us(45), true)]);
        assert_eq!(cable.counts.lost, 1, "the one that was cut");
    }

    #[test]
    fn a_cut_has_times() {
        let cut = |at_s, mend_s, carrier_us| {
            let cut = Cut {
                at_s,
                mend_s,
                carrier_us,
            };
            cut.check().err().unwrap_or_default()
        };
        assert_eq!(cut(1.0, Some(2.0), Some(0.0)), "");
        assert!(cut(0.0, None, None).starts_with("at_s: 0 is no time"));
        assert!(cut(f64::NAN, None, None).starts_with("at_s: NaN"));
        assert!(cut(2.0, Some(2.0), None).starts_with("mend_s: 2 is no time behind"));
        assert!(cut(2.0, None, Some(-1.0)).starts_with("carrier_us: -1 is out of range"));
    }
}
