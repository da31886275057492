// SPDX-License-Identifier: Apache-2.0
//! A network card without RTL: frames that a guest gives it go out on the cable word by word at line rate, and frames that
//! come in whole and sound go to the guest.
//!
//! It is ideal: no descriptors, no queues that overflow, no time of its own. A frame passes the host's bus once, at the
//! platform's latency without serialisation; then it has to wait for the line only.

use ipnuma_rtl::NetSpeed;

use crate::calendar::{ComponentId, Message, Outbox};
use crate::frame::{FCS_BYTES, Framer, words};
use crate::nic::Attachment;
use crate::record::Recorder;
use crate::time::Picoseconds;

/// What passed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Frames with a wrong FCS, which are dropped.
    pub bad_fcs: u64,
}

/// The component.
pub struct WireNic {
    id: ComponentId,
    host: ComponentId,
    speed: NetSpeed,
    phase: Picoseconds,
    /// From the MAC to the guest's memory.
    up: Picoseconds,
    cable: Option<Attachment>,
    /// When the next frame may begin.
    free: Picoseconds,
    received: Framer,
    /// What passed.
    pub counts: WireCounts,
}

impl WireNic {
    /// A card of a host; `up` is the time from the last word of a frame to the guest.
    pub fn new(
        id: ComponentId,
        host: ComponentId,
        speed: NetSpeed,
        phase: Picoseconds,
        up: Picoseconds,
    ) -> Self {
        Self {
            id,
            host,
            speed,
            phase,
            up,
            cable: None,
            free: Picoseconds::ZERO,
            received: Framer::default(),
            counts: WireCounts::default(),
        }
    }

    /// Plugs a cable in.
    pub fn attach(&mut self, cable: Attachment) {
        self.cable = Some(cable);
    }

    /// Something arrives.
    pub fn receive(
        &mut self,
        now: Picoseconds,
        message: Message,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        match message {
            Message::Frame(frame) => self.send(now, &frame, out, record),
            Message::Word { word, .. } => {
                if let Some(frame) = self.received.word(now, word) {
                    self.arrived(now, &frame.bytes, out);
                }
            }
            other => unreachable!("a network card is sent frames and words, and not {other:?}"),
        }
    }

    /// All words of a frame, each at its own time.
    fn send(&mut self, now: Picoseconds, frame: &[u8], out: &mut Outbox, record: &mut Recorder) {
        self.counts.sent += 1;
        let period = Picoseconds(self.speed.net_period_ps());
        let mut time = period.next_edge(self.phase, now.max(self.free));
        let mut framer = Framer::default();
        let mut ended = false;
        for word in words(self.speed, frame) {
            // Of the gap the far end needs the first idle word.
            if let Some(cable) = self.cable.filter(|_| !ended) {
                let message = Message::Word {
                    port: cable.port,
                    word,
                    packet: None,
                };
                out.send(time + cable.delay, cable.peer, message);
            }
            if let Some(frame) = framer.word(time, word) {
                record.frame(self.id, 0, &frame);
                ended = true;
            }
            time += period;
        }
        self.free = time;
    }

    fn arrived(&mut self, now: Picoseconds, bytes: &[u8], out: &mut Outbox) {
        let Some(length) = bytes.len().checked_sub(FCS_BYTES) else {
            self.counts.bad_fcs += 1;
            return;
        };
        let (frame, fcs) = bytes.split_at(length);
        if wire::fcs(frame) != *fcs {
            self.counts.bad_fcs += 1;
            return;
        }
        self.counts.received += 1;
        out.send(now + self.up, self.host, Message::Frame(frame.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: ComponentId = ComponentId(0);
    const NIC: ComponentId = ComponentId(1);

    fn card(speed: NetSpeed) -> WireNic {
        let mut card = WireNic::new(NIC, HOST, speed, Picoseconds(100), Picoseconds(7));
        // To itself: what it sends it receives.
        card.attach(Attachment {
            peer: NIC,
            port: 0,
            delay: Picoseconds(50_000),
        });
        card
    }

    /// Sends frames at once; what comes back, with its time.
    fn echo(speed: NetSpeed, frames: &[Vec<u8>], spoil: bool) -> (WireNic, Vec<(u64, Vec<u8>)>) {
        let mut card = card(speed);
        let mut record = Recorder::default();
        let mut out = Outbox::default();
        for frame in frames {
            let message = Message::Frame(frame.clone());
            card.receive(Picoseconds(1), message, &mut out, &mut record);
        }
        let mut words: Vec<_> = out.messages.drain(..).collect();
        words.sort_by_key(|(time, _, _)| *time);
        for (index, (time, _, mut message)) in words.into_iter().enumerate() {
            if let Message::Word { word, .. } = &mut message
                && spoil
                && index == 20
            {
                match word {
                    ipnuma_rtl::NetWord::Xgmii { data, .. } => *data ^= 1,
                    ipnuma_rtl::NetWord::Gmii { data, .. } => *data ^= 1,
                }
            }
            card.receive(time, message, &mut out, &mut record);
        }
        assert_eq!(record.counted.0, frames.len() as u64);
        let back = out.messages.drain(..).map(|(time, to, message)| {
            assert_eq!(to, HOST);
            match message {
                Message::Frame(frame) => (time.0, frame),
                other => panic!("{other:?} is no frame"),
            }
        });
        let back = back.collect();
        (card, back)
    }

    #[test]
    fn frames_are_as_they_were_and_the_line_is_kept_busy() {
        for (speed, ps_per_byte) in [(NetSpeed::TenGig, 800), (NetSpeed::OneGig, 8_000)] {
            let frame = |length: usize| (0..length).map(|byte| byte as u8).collect::<Vec<_>>();
            let frames = [frame(1514), frame(1514), frame(61)];
            let (card, back) = echo(speed, &frames, false);
            assert_eq!(back.len(), 3);
            for ((_, got), sent) in back.iter().zip(&frames) {
                assert_eq!(got[..sent.len()], sent[..]);
            }
            assert_eq!(card.counts.received, 3);
            // Preamble, frame, FCS and gap of the second; at 10G rounded up to whole words.
            let line = (8 + 1514 + 4 + 12) * ps_per_byte;
            let apart = back[1].0 - back[0].0;
            assert!((line..line + 6_400).contains(&apart), "{apart} ps");
        }
    }

    #[test]
    fn a_bad_fcs_is_dropped_and_counted() {
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            let (card, back) = echo(speed, &[vec![1; 300]], true);
            assert!(back.is_empty());
            assert_eq!(card.counts.bad_fcs, 1);
        }
    }
}
