// SPDX-License-Identifier: Apache-2.0
//! A switch in the rack: the RTL's pins joined to cables, its tables written by the host side.

use std::collections::VecDeque;
use std::path::Path;

use control::{Action, HostFrame};
use ipnuma_rtl::{NetWord, SwitchWrite};

use crate::calendar::{ComponentId, HostMessage, Message, Outbox};
use crate::error::Error;
use crate::frame::{Framer, flow_key};
use crate::host_port::{HostPort, HostSide, Punted};
use crate::model::{PORTS, SwitchModel};
use crate::nic::{Attachment, Effort, QUIET_CYCLES};
use crate::record::{Hop, PacketId, Recorder};
use crate::switch_host::{GuestHost, Load, SwitchHost};
use crate::time::Picoseconds;
use crate::timeline::What;

#[derive(Debug, Default)]
struct Port {
    cable: Option<Attachment>,
    words: VecDeque<(NetWord, Option<PacketId>)>,
    received: Framer,
    sent: Framer,
    /// Whether the last word sent was not idle: the first idle word after a frame is sent as well.
    line_active: bool,
}

/// A counter's number: port of arrival, and index.
const COUNTER_PORT_SHIFT: usize = 7;
/// The index of the verdict `VForward`.
const FORWARDED: u16 = 0;
/// Edges until a counter that was asked for is there.
const COUNTER_EDGES: usize = 3;

/// As the host side has the time.
const fn nanoseconds(time: Picoseconds) -> u64 {
    time.0 / 1_000
}

/// A traced packet whose frame is in the switch.
#[derive(Debug)]
struct Inside {
    packet: PacketId,
    port: usize,
    first_in: Picoseconds,
    key: Vec<u8>,
}

/// What the rack asks of a switch, whatever the number of its ports.
pub trait Node {
    /// Its name in the topology.
    fn name(&self) -> &str;
    /// Plugs a cable into a port.
    fn attach(&mut self, port: usize, cable: Attachment);
    /// What the host side did.
    fn host_side(&self) -> HostSide;
    /// Frames that the hardware forwarded, by port of arrival, as its counters have it when the run is over.
    fn forwarded(&mut self) -> Result<Vec<u64>, Error>;
    /// How much was simulated.
    fn effort(&self) -> Effort;
    /// Begins to write waves.
    fn trace(&mut self, path: &Path) -> Result<(), Error>;
    /// Ends the waves.
    fn trace_close(&mut self);
    /// Begins to write the tables.
    fn start(&mut self, now: Picoseconds, out: &mut Outbox);
    /// The host side looks at its timers.
    fn tick(&mut self, now: Picoseconds, out: &mut Outbox);
    /// Something arrives.
    fn receive(&mut self, now: Picoseconds, message: Message, out: &mut Outbox);
    /// One clock edge.
    fn edge(
        &mut self,
        now: Picoseconds,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), Error>;
}

/// The component.
pub struct SwitchNode<const N: usize = PORTS> {
    id: ComponentId,
    name: String,
    model: Box<dyn SwitchModel<N>>,
    period: Picoseconds,
    phase: Picoseconds,
    next: Picoseconds,
    ports: [Port; N],
    host: HostPort,
    control: SwitchHost,
    /// When the host side will look at its timers.
    tick_at: Option<Picoseconds>,
    inside: VecDeque<Inside>,
    skip_idle: bool,
    awake: bool,
    quiet_since: Option<Picoseconds>,
    effort: Effort,
}

/// Fixed parts of a switch.
pub struct SwitchSetup<const N: usize = PORTS> {
    /// Name.
    pub name: String,
    /// The hardware.
    pub model: Box<dyn SwitchModel<N>>,
    /// Phase of its clock.
    pub phase: Picoseconds,
    /// What is behind its host port. The rack's own agent takes no time: how long software takes is not published.
    pub control: SwitchHost,
}

impl<const N: usize> SwitchNode<N> {
    /// A switch after reset, asleep.
    pub fn new(id: ComponentId, setup: SwitchSetup<N>, skip_idle: bool) -> Result<Self, Error> {
        let mut model = setup.model;
        model.reset()?;
        let period = Picoseconds(model.speed().net_period_ps());
        Ok(Self {
            id,
            name: setup.name,
            model,
            period,
            phase: setup.phase,
            next: setup.phase,
            ports: std::array::from_fn(|_| Port::default()),
            host: HostPort::default(),
            control: setup.control,
            tick_at: None,
            inside: VecDeque::new(),
            skip_idle,
            awake: false,
            quiet_since: None,
            effort: Effort::default(),
        })
    }

    /// Does what the host side wants.
    fn obey(&mut self, now: Picoseconds, actions: Vec<Action>, out: &mut Outbox) {
        for action in actions {
            match action {
                Action::Send { port, bytes } => self.host.send(port, &bytes),
                Action::Write(write) => self.host.write(SwitchWrite {
                    memory: write.memory,
                    address: write.address,
                    data: write.data,
                }),
                Action::Change(_) => {}
            }
        }
        if !self.host.is_idle() {
            self.wake(now, out);
        }
        let SwitchHost::Agent(control) = &self.control else {
            return;
        };
        let due = control.next_tick().map(|due| {
            let due = Picoseconds::from_ns(due);
            due.max(now + Picoseconds(1))
        });
        if let Some(due) = due.filter(|due| self.tick_at.is_none_or(|at| *due < at)) {
            self.tick_at = Some(due);
            out.send(due, self.id, Message::Tick);
        }
    }

    fn wake(&mut self, now: Picoseconds, out: &mut Outbox) {
        self.quiet_since = None;
        if self.awake {
            return;
        }
        self.awake = true;
        self.next = self.period.next_edge(self.phase, now);
        out.send(self.next, self.id, Message::Edge);
    }

    /// Sleeps or goes on.
    fn settle_down(
        &mut self,
        now: Picoseconds,
        quiet: bool,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        if quiet {
            let since = *self.quiet_since.get_or_insert(now);
            if now - since >= Picoseconds(QUIET_CYCLES * self.period.0) {
                // What is in the switch and did not come out will not come any more.
                for packet in self.inside.drain(..) {
                    record.forget(packet.packet);
                }
                if self.skip_idle {
                    self.awake = false;
                    self.effort.sleeps += 1;
                    return;
                }
            }
        } else {
            self.quiet_since = None;
        }
        out.send(self.next, self.id, Message::Edge);
    }

    fn punted(&mut self, now: Picoseconds, frame: Punted, out: &mut Outbox) {
        match &mut self.control {
            SwitchHost::Agent(control) => {
                let frame = HostFrame {
                    port: frame.port,
                    verdict: frame.verdict,
                    bad: frame.bad,
                    bytes: &frame.bytes,
                };
                let actions = control.host_frame(nanoseconds(now), &frame);
                self.obey(now, actions, out);
            }
            SwitchHost::Guest(_) if frame.bad => {}
            SwitchHost::Guest(host) => {
                let (port, bytes) = (frame.port, frame.bytes);
                let message = HostMessage::Frame { port, bytes };
                out.send(now + host.up, host.guest, Message::HostSide(message));
            }
        }
    }

    /// Something comes from the guest that is the host, or for it from a cable.
    fn hear_host(&mut self, now: Picoseconds, message: HostMessage, out: &mut Outbox) {
        let SwitchHost::Guest(host) = &mut self.control else {
            // The rack's own agent has no use for the state of a line.
            return;
        };
        match message {
            HostMessage::Frame { port, bytes } => {
                if usize::from(port) < N {
                    self.host.send(port, &bytes);
                }
            }
            HostMessage::Store { offset, bytes } => {
                if let Some(write) = host.store(offset, &bytes) {
                    self.host.write(write);
                }
            }
            HostMessage::Load {
                offset,
                length,
                tag,
            } => {
                let load = Load {
                    offset,
                    length,
                    tag,
                };
                host.loads.push_back(load);
                if self.host.has_written() {
                    answer(now, host, out);
                }
            }
            HostMessage::Carrier { .. } => {
                out.send(now + host.up, host.guest, Message::HostSide(message));
            }
            HostMessage::Answer { .. } => unreachable!("a switch asks nothing of its host"),
        }
    }

    fn sample_word(&mut self, now: Picoseconds, port: usize, word: NetWord) {
        let at = &mut self.ports[port];
        let packet = at.words.pop_front().and_then(|(_, packet)| packet);
        let frame = at.received.word(now, word);
        if let (Some(frame), Some(packet)) = (frame, packet) {
            self.inside.push_back(Inside {
                packet,
                port,
                first_in: frame.first,
                key: flow_key(&frame.bytes).to_vec(),
            });
        }
    }

    fn launch_word(
        &mut self,
        now: Picoseconds,
        port: usize,
        word: NetWord,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let at = &mut self.ports[port];
        let active = word != self.model.speed().idle();
        if !active && !at.line_active {
            return;
        }
        at.line_active = active;
        let mut packet = None;
        if let Some(frame) = at.sent.word(now, word) {
            record.frame(self.id, port, &frame);
            let key = flow_key(&frame.bytes);
            let found = self.inside.iter().position(|inside| inside.key == key);
            if let Some(inside) = found.and_then(|index| self.inside.remove(index)) {
                packet = Some(inside.packet);
                let hop = Hop {
                    switch: self.id,
                    ports: (inside.port, port),
                    first_in: inside.first_in,
                    first_out: frame.first,
                };
                record.hop(inside.packet, hop);
            }
        }
        if let Some(cable) = self.ports[port].cable {
            let message = Message::Word {
                port: cable.port,
                word,
                packet,
            };
            out.send(now + cable.delay, cable.peer, message);
        }
    }
}

/// Answers all loads that wait.
fn answer(now: Picoseconds, host: &mut GuestHost, out: &mut Outbox) {
    while let Some(load) = host.loads.pop_front() {
        let (tag, bytes) = (load.tag, host.load(&load));
        let message = HostMessage::Answer { tag, bytes };
        out.send(now + host.up, host.guest, Message::HostSide(message));
    }
}

impl<const N: usize> Node for SwitchNode<N> {
    fn name(&self) -> &str {
        &self.name
    }

    fn attach(&mut self, port: usize, cable: Attachment) {
        self.ports[port].cable = Some(cable);
    }

    fn host_side(&self) -> HostSide {
        self.host.passed
    }

    fn forwarded(&mut self) -> Result<Vec<u64>, Error> {
        let time = self.next;
        let rtl = |source| Error::Rtl { time, source };
        let idle = self.model.speed().idle();
        let mut counts = Vec::new();
        for port in 0..N {
            let inputs = self.model.inputs();
            inputs.net = [idle; N];
            (inputs.host, inputs.write) = (None, None);
            inputs.counter = (port << COUNTER_PORT_SHIFT) as u16 + FORWARDED;
            let mut value = 0;
            for _ in 0..COUNTER_EDGES {
                self.model.settle().map_err(rtl)?;
                value = self.model.edge().map_err(rtl)?.counter;
            }
            counts.push(value.into());
        }
        Ok(counts)
    }

    fn effort(&self) -> Effort {
        self.effort
    }

    fn trace(&mut self, path: &Path) -> Result<(), Error> {
        Ok(self.model.trace(path)?)
    }

    fn trace_close(&mut self) {
        self.model.trace_close();
    }

    fn start(&mut self, now: Picoseconds, out: &mut Outbox) {
        if let SwitchHost::Agent(control) = &mut self.control {
            let actions = control.start(nanoseconds(now));
            self.obey(now, actions, out);
        }
        if !self.skip_idle {
            self.wake(now, out);
        }
    }

    fn tick(&mut self, now: Picoseconds, out: &mut Outbox) {
        if self.tick_at == Some(now) {
            self.tick_at = None;
            if let SwitchHost::Agent(control) = &mut self.control {
                let actions = control.tick(nanoseconds(now));
                self.obey(now, actions, out);
            }
        }
    }

    fn receive(&mut self, now: Picoseconds, message: Message, out: &mut Outbox) {
        match message {
            Message::Word { port, word, packet } => {
                self.ports[port].words.push_back((word, packet));
            }
            Message::HostSide(message) => {
                self.hear_host(now, message, out);
                if self.host.is_idle() {
                    return;
                }
            }
            other => unreachable!("a switch is sent words, and not {other:?}"),
        }
        self.wake(now, out);
    }

    fn edge(
        &mut self,
        now: Picoseconds,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), Error> {
        let rtl = |source| Error::Rtl { time: now, source };
        self.effort.edges += 1;
        let idle = self.model.speed().idle();
        let words: [NetWord; N] = std::array::from_fn(|port| {
            let front = self.ports[port].words.front();
            front.map_or(idle, |(word, _)| *word)
        });
        self.model.set_time(now);
        let inputs = self.model.inputs();
        inputs.net = words;
        self.host.offer(inputs);
        let before = self.model.settle().map_err(rtl)?;
        let exchanged = self.host.exchange(&before);
        if let (Some(write), SwitchHost::Guest(host)) = (&exchanged.taken, &mut self.control) {
            host.took(write);
            record.timeline.happened(now, self.id, What::Taken);
            if self.host.has_written() {
                answer(now, host, out);
            }
        }
        if let Some(frame) = exchanged.punted {
            self.punted(now, frame, out);
        }
        for (port, word) in words.into_iter().enumerate() {
            self.sample_word(now, port, word);
        }
        let after = self.model.edge().map_err(rtl)?;
        for (port, word) in after.net.into_iter().enumerate() {
            self.launch_word(now, port, word, out, record);
        }
        self.next = now + self.period;
        let quiet = !after.busy
            && after.host.is_none()
            && self.host.is_idle()
            && self
                .ports
                .iter()
                .all(|port| port.words.is_empty() && !port.line_active);
        self.settle_down(now, quiet, out, record);
        Ok(())
    }
}
