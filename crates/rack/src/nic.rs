// SPDX-License-Identifier: Apache-2.0
//! A NIC in the rack: the RTL's pins joined to a PCI Express link and a cable.

use std::collections::VecDeque;

use ipnuma_rtl::{NetWord, TlpBeat};

use crate::calendar::{ComponentId, Message, Outbox, Tlp};
use crate::error::Error;
use crate::frame::{Framer, carries, is_store};
use crate::model::NicModel;
use crate::pcie::Lanes;
use crate::record::{PacketId, Point, Recorder};
use crate::time::Picoseconds;

/// Cycles of the slower clock without work after which nothing changes any more (docs/architecture.md).
pub(crate) const QUIET_CYCLES: u64 = 32;

/// One clock of a NIC, and the side that it drives.
#[derive(Clone, Copy, Debug)]
struct Clock {
    period: Picoseconds,
    phase: Picoseconds,
    next: Picoseconds,
    asleep: bool,
    /// Since when its side has had nothing to do, and nothing was on its way from the other.
    quiet_since: Option<Picoseconds>,
}

impl Clock {
    const fn new(period: Picoseconds, phase: Picoseconds) -> Self {
        Self {
            period,
            phase,
            next: phase,
            asleep: true,
            quiet_since: None,
        }
    }

    /// It runs from its next edge on, at or after `time`.
    fn wake(&mut self, time: Picoseconds) {
        self.quiet_since = None;
        if self.asleep {
            self.asleep = false;
            self.next = self.period.next_edge(self.phase, time);
        }
    }

    /// Whether it has an edge now.
    fn has_edge(&self, now: Picoseconds) -> bool {
        !self.asleep && self.next == now
    }

    /// Sleeps when it has been quiet for long enough, or wakes up, behind what happened now.
    fn settle(&mut self, now: Picoseconds, quiet: bool) {
        if !quiet {
            self.wake(now + Picoseconds(1));
            return;
        }
        let since = *self.quiet_since.get_or_insert(now);
        self.asleep = self.asleep || now - since >= Picoseconds(QUIET_CYCLES * self.period.0);
    }
}

/// The two sides of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Pcie,
    Net,
}

/// Where a cable leads.
#[derive(Clone, Copy, Debug)]
pub struct Attachment {
    /// The NIC or switch at the other end.
    pub peer: ComponentId,
    /// The port of the switch; 0 for a NIC.
    pub port: usize,
    /// From register to pins: both physical layers and the cable.
    pub delay: Picoseconds,
}

/// A TLP that is being taken beat by beat.
#[derive(Debug)]
struct Incoming {
    tlp: Tlp,
    offset: usize,
    first: Picoseconds,
}

impl Incoming {
    fn beat(&self) -> TlpBeat {
        let rest = &self.tlp.bytes[self.offset..];
        let count = rest.len().min(8);
        let mut data = [0; 8];
        data[..count].copy_from_slice(&rest[..count]);
        TlpBeat {
            data: u64::from_le_bytes(data),
            keep: ((1_u16 << count) - 1) as u8,
            last: rest.len() <= 8,
            user: self.tlp.bar,
        }
    }
}

/// What a NIC counts of its own simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Evaluated edges; two clocks at once are one.
    pub edges: u64,
    /// Times that the NIC fell asleep.
    pub sleeps: u64,
}

/// The component.
pub struct NicPort {
    id: ComponentId,
    host: ComponentId,
    model: Box<dyn NicModel>,
    cable: Option<Attachment>,
    pcie: Clock,
    net: Option<Clock>,
    up: Lanes,
    skip_idle: bool,
    awake: bool,
    quiet_since: Option<Picoseconds>,
    /// The edge that the calendar will tell of; others that it still has are of no use any more.
    due: Option<Picoseconds>,
    incoming: VecDeque<Incoming>,
    outgoing: Vec<u8>,
    outgoing_first: Picoseconds,
    words: VecDeque<(NetWord, Option<PacketId>)>,
    sent: Framer,
    received: Framer,
    /// Whether the last word sent was not idle: the first idle word after a frame is sent as well.
    line_active: bool,
    to_wire: VecDeque<PacketId>,
    from_wire: VecDeque<PacketId>,
    /// How much was simulated.
    pub effort: Effort,
}

/// Fixed parts of a NIC.
pub struct NicSetup {
    /// This component.
    pub id: ComponentId,
    /// Its host.
    pub host: ComponentId,
    /// The hardware.
    pub model: Box<dyn NicModel>,
    /// Phases of the PCIe and the network clock.
    pub phases: (Picoseconds, Picoseconds),
    /// The lanes towards the host.
    pub up: Lanes,
    /// Sleep when idle.
    pub skip_idle: bool,
    /// Bus, device and function number.
    pub completer_id: u16,
}

impl NicPort {
    /// A NIC after reset, asleep.
    pub fn new(setup: NicSetup) -> Result<Self, Error> {
        let mut model = setup.model;
        model.inputs().completer_id = setup.completer_id;
        model.reset()?;
        let net = model
            .speed()
            .map(|speed| Clock::new(Picoseconds(speed.net_period_ps()), setup.phases.1));
        let pcie = Clock::new(model.pcie_period(), setup.phases.0);
        Ok(Self {
            id: setup.id,
            host: setup.host,
            model,
            cable: None,
            pcie,
            net,
            up: setup.up,
            skip_idle: setup.skip_idle,
            awake: false,
            quiet_since: None,
            due: None,
            incoming: VecDeque::new(),
            outgoing: Vec::new(),
            outgoing_first: Picoseconds::ZERO,
            words: VecDeque::new(),
            sent: Framer::default(),
            received: Framer::default(),
            line_active: false,
            to_wire: VecDeque::new(),
            from_wire: VecDeque::new(),
            effort: Effort::default(),
        })
    }

    /// Plugs a cable in.
    pub fn attach(&mut self, cable: Attachment) {
        self.cable = Some(cable);
    }

    /// The hardware, for waves.
    pub fn model(&mut self) -> &mut dyn NicModel {
        self.model.as_mut()
    }

    /// The first edges of a NIC that never sleeps.
    pub fn start(&mut self, now: Picoseconds, out: &mut Outbox) {
        if !self.skip_idle {
            self.wake(now, Side::Net, out);
        }
    }

    /// Something arrives.
    pub fn receive(&mut self, now: Picoseconds, message: Message, out: &mut Outbox) {
        let side = match message {
            Message::Tlp(tlp) => {
                self.incoming.push_back(Incoming {
                    tlp,
                    offset: 0,
                    first: Picoseconds::ZERO,
                });
                Side::Pcie
            }
            Message::Word { word, packet, .. } => {
                self.words.push_back((word, packet));
                Side::Net
            }
            Message::Credits(_)
            | Message::Frame(_)
            | Message::Management(_)
            | Message::HostSide(_)
            | Message::Wake
            | Message::Tick
            | Message::Edge => {
                unreachable!("a NIC is sent TLPs and words only")
            }
        };
        self.wake(now, side, out);
    }

    /// Something arrives at a side. The other sleeps on if it can see nothing of this one.
    fn wake(&mut self, now: Picoseconds, side: Side, out: &mut Outbox) {
        self.quiet_since = None;
        let both = !self.awake && (!self.skip_idle || self.model.crossing());
        self.awake = true;
        if both || side == Side::Pcie || self.net.is_none() {
            self.pcie.wake(now);
        }
        if let Some(net) = self.net.as_mut().filter(|_| both || side == Side::Net) {
            net.wake(now);
        }
        self.schedule(out);
    }

    /// Asks for the next edge of a side that is awake.
    fn schedule(&mut self, out: &mut Outbox) {
        let clocks = [Some(&self.pcie), self.net.as_ref()];
        let awake = clocks.into_iter().flatten().filter(|clock| !clock.asleep);
        let Some(next) = awake.map(|clock| clock.next).min() else {
            return;
        };
        if self.due.is_none_or(|due| next < due) {
            self.due = Some(next);
            out.send(next, self.id, Message::Edge);
        }
    }

    /// One clock edge, or two at once.
    pub fn edge(
        &mut self,
        now: Picoseconds,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), Error> {
        if self.due != Some(now) {
            return Ok(());
        }
        self.due = None;
        let rtl = |source| Error::Rtl { time: now, source };
        let pcie_edge = self.pcie.has_edge(now);
        let net_edge = self.net.as_ref().is_some_and(|net| net.has_edge(now));
        self.effort.edges += 1;

        // The beat stays on the pins between PCIe edges, as from a register.
        let offered = self.incoming.front().map(Incoming::beat);
        let may_send = !self.outgoing.is_empty() || self.up.takes_more(now);
        let idle = self.model.idle();
        let word = self.words.front().map_or(idle, |(word, _)| *word);
        self.model.set_time(now);
        let inputs = self.model.inputs();
        inputs.now_us = now.whole_us() as u32;
        inputs.s_tlp = offered;
        inputs.m_tlp_ready = may_send;
        inputs.net = word;
        let before = self.model.settle().map_err(rtl)?;
        if pcie_edge {
            if offered.is_some() && before.s_tlp_ready {
                self.take_beat(now, out, record);
            }
            if let Some(beat) = before.m_tlp.filter(|_| may_send) {
                self.give_beat(now, beat, out, record);
            }
        }
        if net_edge {
            self.sample_word(now, word, record);
        }
        let after = self.model.edge(pcie_edge, net_edge).map_err(rtl)?;
        if net_edge {
            self.launch_word(now, after.net, out, record);
        }

        if pcie_edge {
            self.pcie.next += self.pcie.period;
        }
        if let Some(net) = self.net.as_mut().filter(|_| net_edge) {
            net.next += net.period;
        }
        let pcie_quiet = !after.busy_pcie && after.m_tlp.is_none() && self.incoming.is_empty();
        let net_quiet = !after.busy_net && self.words.is_empty() && !self.line_active;
        self.settle_down(now, (pcie_quiet, net_quiet), out, record);
        Ok(())
    }

    /// Sleeps, lets one side sleep, or goes on.
    fn settle_down(
        &mut self,
        now: Picoseconds,
        (pcie_quiet, net_quiet): (bool, bool),
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let slower = match &self.net {
            Some(net) => net.period.max(self.pcie.period),
            None => self.pcie.period,
        };
        let mut sleeps = false;
        if pcie_quiet && net_quiet {
            let since = *self.quiet_since.get_or_insert(now);
            sleeps = now - since >= Picoseconds(QUIET_CYCLES * slower.0);
        } else {
            self.quiet_since = None;
        }
        if let Some(net) = self.net.as_mut().filter(|_| self.skip_idle && !sleeps) {
            // A side that has nothing to do sees of the other what is on its way to it, and nothing else.
            let alone = (pcie_quiet || net_quiet) && !self.model.crossing();
            self.pcie.settle(now, pcie_quiet && alone);
            net.settle(now, net_quiet && alone);
            sleeps = self.pcie.asleep && net.asleep;
        }
        if sleeps {
            // What is still expected of the wire or from it will not come any more.
            for id in self.to_wire.drain(..).chain(self.from_wire.drain(..)) {
                record.forget(id);
            }
            if self.skip_idle {
                self.awake = false;
                self.effort.sleeps += 1;
                self.pcie.asleep = true;
                if let Some(net) = &mut self.net {
                    net.asleep = true;
                }
                return;
            }
        }
        self.schedule(out);
    }

    fn take_beat(&mut self, now: Picoseconds, out: &mut Outbox, record: &mut Recorder) {
        let front = self
            .incoming
            .front_mut()
            .expect("a beat was offered, so a TLP is there");
        if front.offset == 0 {
            front.first = now;
            if let Some(id) = front.tlp.packet {
                record.pass(id, Point::TlpIn, now);
                self.to_wire.push_back(id);
            }
        }
        front.offset += 8;
        if front.offset >= front.tlp.bytes.len() {
            record.tlp(self.id, true, (front.first, now), &front.tlp.bytes);
            self.incoming.pop_front();
            // Credits ride on the lanes like everything else; their own few bytes are not counted.
            out.send(now + self.up.latency, self.host, Message::Credits(1));
        }
    }

    fn give_beat(
        &mut self,
        now: Picoseconds,
        beat: TlpBeat,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        if self.outgoing.is_empty() {
            self.outgoing_first = now;
        }
        let count = beat.keep.count_ones() as usize;
        self.outgoing.extend(&beat.data.to_le_bytes()[..count]);
        if !beat.last {
            return;
        }
        let bytes = std::mem::take(&mut self.outgoing);
        let first = self.outgoing_first;
        record.tlp(self.id, false, (first, now), &bytes);
        let packet = self.match_dma(&bytes, record);
        if let Some(id) = packet {
            record.pass(id, Point::DmaOut, first);
        }
        let arrival = self.up.send(first, now, bytes.len());
        let tlp = Tlp {
            bytes,
            bar: 7,
            packet,
        };
        out.send(arrival, self.host, Message::Tlp(tlp));
    }

    /// Which packet a DMA write belongs to: the first expected one with the same data. Those before it were refused.
    fn match_dma(&mut self, bytes: &[u8], record: &mut Recorder) -> Option<PacketId> {
        if !matches!(bytes[0], wire::FMT_MWR32 | wire::FMT_MWR64) {
            return None;
        }
        let data = &bytes[wire::tlp::header_bytes(bytes[0])..];
        let same = |id: &PacketId| record.data(*id) == Some(data);
        let index = self.from_wire.iter().position(same)?;
        for id in self.from_wire.drain(..index) {
            record.forget(id);
        }
        self.from_wire.pop_front()
    }

    fn sample_word(&mut self, now: Picoseconds, word: NetWord, record: &mut Recorder) {
        let packet = self.words.pop_front().and_then(|(_, packet)| packet);
        let frame = self.received.word(now, word);
        if let (Some(frame), Some(id)) = (frame, packet) {
            record.pass(id, Point::FirstWordIn, frame.first);
            record.pass(id, Point::LastWordIn, frame.last);
            self.from_wire.push_back(id);
        }
    }

    fn launch_word(
        &mut self,
        now: Picoseconds,
        word: NetWord,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let active = word != self.model.idle();
        if !active && !self.line_active {
            return;
        }
        self.line_active = active;
        let mut packet = None;
        if let Some(frame) = self.sent.word(now, word) {
            record.frame(self.id, 0, &frame);
            // A frame that is sent again is none that waits.
            let waits = |id: &PacketId| carries(&frame.bytes, record.data(*id));
            if is_store(&frame.bytes) && self.to_wire.front().is_some_and(waits) {
                packet = self.to_wire.pop_front();
            }
            if let Some(id) = packet {
                record.pass(id, Point::FirstWordOut, frame.first);
            }
        }
        if let Some(cable) = self.cable {
            let port = cable.port;
            let message = Message::Word { port, word, packet };
            out.send(now + cable.delay, cable.peer, message);
        }
    }
}
