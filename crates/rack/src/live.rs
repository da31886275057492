// SPDX-License-Identifier: Apache-2.0
//! A switch whose ports lead out of the simulation: real programs send and receive its frames. Its clock runs while it
//! has something to do and stands still otherwise, so what comes out is right and when it comes out says nothing.

use std::collections::VecDeque;

use control::{Action, Control, HostFrame};
use ipnuma_rtl::{NetSpeed, NetWord, Switch, SwitchWrite};

use crate::error::Error;
use crate::frame::{FCS_BYTES, Framer, words};
use crate::host_port::{HostPort, HostSide, Punted};
use crate::model::SwitchModel;
use crate::nic::QUIET_CYCLES;
use crate::time::Picoseconds;

/// Cycles at most of one [`LiveSwitch::run`], so that what arrives meanwhile is not kept waiting.
const CYCLES_AT_ONCE: u64 = 100_000;

/// What comes out of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A frame left by a network port.
    Network {
        /// Which.
        port: usize,
        /// From the destination MAC on, without FCS.
        bytes: Vec<u8>,
    },
    /// A frame for the host.
    Host(Punted),
}

#[derive(Debug, Default)]
struct Port {
    words: VecDeque<NetWord>,
    sent: Framer,
}

/// The switch.
pub struct LiveSwitch {
    model: Box<dyn SwitchModel>,
    speed: NetSpeed,
    time: Picoseconds,
    ports: [Port; Switch::PORTS],
    host: HostPort,
    quiet: u64,
    /// Frames that left with a wrong FCS, as the switch leaves them when what came in ended bad; they go no further.
    pub spoiled: u64,
    /// Evaluated edges.
    pub edges: u64,
}

impl LiveSwitch {
    /// A switch after reset.
    pub fn new(mut model: Box<dyn SwitchModel>) -> Result<Self, Error> {
        model.reset()?;
        Ok(Self {
            speed: model.speed(),
            model,
            time: Picoseconds::ZERO,
            ports: Default::default(),
            host: HostPort::default(),
            quiet: 0,
            spoiled: 0,
            edges: 0,
        })
    }

    /// A frame (without FCS) arrives at a network port, behind those that are still arriving there.
    pub fn receive(&mut self, port: usize, frame: &[u8]) {
        self.ports[port].words.extend(words(self.speed, frame));
        self.quiet = 0;
    }

    /// The host has a frame sent by a port.
    pub fn send(&mut self, port: u8, frame: &[u8]) {
        self.host.send(port, frame);
        self.quiet = 0;
    }

    /// The host has a word written.
    pub fn write(&mut self, write: SwitchWrite) {
        self.host.write(write);
        self.quiet = 0;
    }

    /// What passed the host port.
    pub const fn host_side(&self) -> HostSide {
        self.host.passed
    }

    /// Simulated time.
    pub const fn time(&self) -> Picoseconds {
        self.time
    }

    /// Whether nothing is under way.
    pub const fn is_idle(&self) -> bool {
        self.quiet >= QUIET_CYCLES
    }

    /// Lets the clock run until nothing is under way, or for a while; returns what came out.
    pub fn run(&mut self) -> Result<Vec<Output>, Error> {
        let mut out = Vec::new();
        for _ in 0..CYCLES_AT_ONCE {
            if self.is_idle() {
                break;
            }
            self.edge(&mut out)?;
        }
        Ok(out)
    }

    fn edge(&mut self, out: &mut Vec<Output>) -> Result<(), Error> {
        let now = self.time;
        let rtl = |source| Error::Rtl { time: now, source };
        self.edges += 1;
        self.model.set_time(now);
        let idle = self.speed.idle();
        let inputs = self.model.inputs();
        for (word, port) in inputs.net.iter_mut().zip(&mut self.ports) {
            *word = port.words.pop_front().unwrap_or(idle);
        }
        self.host.offer(inputs);
        let before = self.model.settle().map_err(rtl)?;
        out.extend(self.host.exchange(&before).punted.map(Output::Host));
        let after = self.model.edge().map_err(rtl)?;
        let mut quiet = !after.busy && after.host.is_none() && self.host.is_idle();
        for (number, (port, word)) in self.ports.iter_mut().zip(after.net).enumerate() {
            quiet &= port.words.is_empty() && word == idle;
            let Some(mut frame) = port.sent.word(now, word) else {
                continue;
            };
            let end = frame.bytes.len().saturating_sub(FCS_BYTES);
            let fcs = frame.bytes.split_off(end);
            if fcs == wire::fcs(&frame.bytes) {
                out.push(Output::Network {
                    port: number,
                    bytes: frame.bytes,
                });
            } else {
                self.spoiled += 1;
            }
        }
        self.quiet = if quiet { self.quiet + 1 } else { 0 };
        self.time += Picoseconds(self.speed.net_period_ps());
        Ok(())
    }
}

/// What answers the frames of the host port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// The project's own agent.
    Own,
    /// Somebody outside, such as the kernel of Linux. The own agent only listens, and writes to the tables which
    /// neighbours it has seen.
    Outside,
}

/// A switch with what is behind its host port.
pub struct LiveRouter {
    switch: LiveSwitch,
    control: Control,
    agent: Agent,
}

impl LiveRouter {
    /// A router that has its tables.
    pub fn new(
        model: Box<dyn SwitchModel>,
        mut control: Control,
        agent: Agent,
    ) -> Result<Self, Error> {
        let actions = control.start(0);
        let mut router = Self {
            switch: LiveSwitch::new(model)?,
            control,
            agent,
        };
        router.obey(actions);
        while !router.switch.is_idle() {
            router.run(0)?;
        }
        Ok(router)
    }

    /// The switch.
    pub const fn switch(&self) -> &LiveSwitch {
        &self.switch
    }

    /// A frame (without FCS) arrives at a network port.
    pub fn receive(&mut self, port: usize, frame: &[u8]) {
        self.switch.receive(port, frame);
    }

    /// The agent outside has a frame sent by a port.
    pub fn send(&mut self, port: usize, frame: &[u8]) {
        self.switch.send(port as u8, frame);
    }

    /// When [`LiveRouter::run`] is to be called at the latest, in nanoseconds.
    pub fn next_tick(&self) -> Option<u64> {
        self.control.next_tick()
    }

    /// Whether nothing is under way.
    pub const fn is_idle(&self) -> bool {
        self.switch.is_idle()
    }

    /// Does what there is to do at a time in nanoseconds; returns frames for the network, and with an agent outside those
    /// for it.
    pub fn run(&mut self, now: u64) -> Result<Vec<Output>, Error> {
        if self.control.next_tick().is_some_and(|due| due <= now) {
            let actions = self.control.tick(now);
            self.obey(actions);
        }
        let mut out = self.switch.run()?;
        for output in &out {
            if let Output::Host(frame) = output {
                let frame = HostFrame {
                    port: frame.port,
                    verdict: frame.verdict,
                    bad: frame.bad,
                    bytes: &frame.bytes,
                };
                let actions = self.control.host_frame(now, &frame);
                self.obey(actions);
            }
        }
        if self.agent == Agent::Own {
            out.retain(|output| matches!(output, Output::Network { .. }));
        }
        Ok(out)
    }

    fn obey(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { port, bytes } if self.agent == Agent::Own => {
                    self.switch.send(port, &bytes);
                }
                Action::Write(write) => self.switch.write(SwitchWrite {
                    memory: write.memory,
                    address: write.address,
                    data: write.data,
                }),
                Action::Send { .. } | Action::Change(_) => {}
            }
        }
    }
}
