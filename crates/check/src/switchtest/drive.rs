// SPDX-License-Identifier: Apache-2.0
//! A switch with a line in and out at every port, its settings, and what it was given to write.

use std::collections::VecDeque;

use crate::difftest::phy::{Encoder, Fault, LineFrame};
use ipnuma_rtl::{NetSpeed, NetWord, Switch, SwitchSize, SwitchWrite};
use model::switch::Port;

use crate::switchtest::flow;
use crate::switchtest::line::{Decoder, WireFrame};
use crate::switchtest::world::port_words;

const PORTS: usize = Switch::PORTS;

/// When frames began on a line, as the words say.
#[derive(Debug)]
struct Starts {
    in_frame: bool,
}

impl Starts {
    /// The lane in which a frame starts in this word.
    fn lane(&mut self, word: NetWord) -> Option<u64> {
        match word {
            NetWord::Xgmii { data, control } => [0, 4]
                .into_iter()
                .find(|&lane| control >> lane & 1 == 1 && data >> (8 * lane) & 0xFF == 0xFB),
            NetWord::Gmii { enable, .. } => {
                let begins = enable && !self.in_frame;
                self.in_frame = enable;
                begins.then_some(0)
            }
        }
    }
}

/// The switch in a cycle.
pub struct Drive {
    rtl: Switch,
    speed: NetSpeed,
    encoders: Vec<Encoder>,
    decoders: Vec<Decoder>,
    starts: Vec<Starts>,
    /// Start of each frame that is on its way in, in bytes of the line's time, by port.
    pub entered: [VecDeque<u64>; PORTS],
    /// Words to be written.
    pub writes: VecDeque<SwitchWrite>,
    cycles: u64,
}

/// What a cycle brought.
#[derive(Debug, Default)]
pub struct Cycle {
    /// Frames whose last byte left, with their ports.
    pub frames: Vec<(usize, WireFrame)>,
    /// A word was taken.
    pub taken: bool,
}

impl Drive {
    /// A switch after reset whose ports have the MAC addresses of [`flow::port_mac`].
    pub fn new(speed: NetSpeed, size: SwitchSize) -> Result<Self, String> {
        let mut rtl = Switch::new(speed, size).map_err(|error| error.to_string())?;
        rtl.reset().map_err(|error| error.to_string())?;
        rtl.inputs.host_ready = true;
        let mut drive = Self {
            rtl,
            speed,
            encoders: (0..PORTS).map(|_| Encoder::new(speed)).collect(),
            decoders: (0..PORTS).map(|_| Decoder::new(speed)).collect(),
            starts: (0..PORTS).map(|_| Starts { in_frame: false }).collect(),
            entered: Default::default(),
            writes: VecDeque::new(),
            cycles: 0,
        };
        for port in 0..PORTS {
            let mac = flow::port_mac(port);
            drive.writes.extend(port_words(
                port as u8,
                &Port {
                    mac,
                    ..Port::default()
                },
            ));
        }
        drive.finish_writes()?;
        Ok(drive)
    }

    /// Cycles so far.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Bytes that a line carries in a cycle.
    pub fn bytes_a_cycle(&self) -> u64 {
        match self.speed {
            NetSpeed::TenGig => 8,
            NetSpeed::OneGig => 1,
        }
    }

    /// Bytes that wait to enter a port.
    pub fn backlog(&self, port: usize) -> usize {
        self.encoders[port].backlog()
    }

    /// Queues a frame with FCS; `idle` bytes at least between the frame before and its preamble, at
    /// 10G without the terminate.
    pub fn send(&mut self, port: usize, bytes: Vec<u8>, idle: usize, lane_4: bool) {
        self.encoders[port].push(&LineFrame {
            bytes,
            fault: Fault::None,
            gap: idle,
            lane_4,
            preamble: 7,
        });
    }

    /// One cycle. A frame for the host is an error: this traffic has routes.
    pub fn cycle(&mut self) -> Result<Cycle, String> {
        let now = self.cycles * self.bytes_a_cycle();
        for port in 0..PORTS {
            let word = self.encoders[port].word();
            if let Some(lane) = self.starts[port].lane(word) {
                self.entered[port].push_back(now + lane);
            }
            self.rtl.inputs.net[port] = word;
        }
        self.rtl.inputs.write = self.writes.front().copied();
        let before = *self.rtl.settle().map_err(|error| error.to_string())?;
        let taken = before.write_ready && self.rtl.inputs.write.is_some();
        if taken {
            self.writes.pop_front();
        }
        let after = *self.rtl.edge().map_err(|error| error.to_string())?;
        if let Some(beat) = after.host {
            return Err(format!(
                "cycle {}: a frame for the host: {beat:x?}",
                self.cycles
            ));
        }
        let mut cycle = Cycle {
            taken,
            ..Cycle::default()
        };
        for port in 0..PORTS {
            let frame = self.decoders[port].word(after.net[port]);
            let frame = frame.map_err(|error| format!("cycle {now}, port {port}: {error}"))?;
            cycle.frames.extend(frame.map(|frame| (port, frame)));
        }
        self.cycles += 1;
        Ok(cycle)
    }

    /// Goes on until all words are written and the switch is idle.
    pub fn finish_writes(&mut self) -> Result<(), String> {
        while !self.writes.is_empty() || self.rtl.outputs().busy {
            let cycle = self.cycle()?;
            if let Some((port, frame)) = cycle.frames.first() {
                return Err(format!(
                    "port {port} sent a frame that nobody asked for: {frame:x?}"
                ));
            }
        }
        Ok(())
    }

    /// Reads a counter of a port.
    pub fn counter(&mut self, port: usize, index: u16) -> Result<u32, String> {
        self.rtl.inputs.counter = (port as u16) << 7 | index;
        // A pulse shows after a round of all counters.
        for _ in 0..160 {
            self.cycle()?;
        }
        Ok(self.rtl.outputs().counter)
    }
}
