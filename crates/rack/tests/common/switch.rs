// SPDX-License-Identifier: Apache-2.0
//! A switch made of a few lines, so that the rack is tested apart from the RTL: whole frames in, whole frames out some
//! cycles later, by the routes that were written. It is compiled into tests only.

use std::collections::VecDeque;
use std::path::Path;

use fib::layout::{Leaf, Memory, NEXT_HOP_MAC, NEXT_HOP_PORT, NEXT_HOP_RESOLVED, PORT_HOST};
use fib::{Fib, Image, Write};
use ipnuma_rtl::{Error, HostOut, NetSpeed, NetWord, Switch, SwitchInputs, SwitchOutputs};
use rack::Picoseconds;
use rack::frame::{Framer, words};
use rack::model::SwitchModel;
use rack::tables::{mac_bytes, sizes};

const PORTS: usize = Switch::PORTS;
/// Cycles from the last word in to the first word out.
pub const DELAY: u64 = 9;

/// Memories that are no tables, as rtl/fibnic/fib_pkg.sv numbers them.
const MEM_PORT: u8 = 26;
const MEM_DRAIN: u8 = 31;

/// Verdicts of frames for the host, as rtl/fibnic/fibnic_pkg.sv numbers them.
const NOT_IP: u8 = 1;
const LINK: u8 = 2;
const ROUTE: u8 = 6;
const NO_ROUTE: u8 = 7;
const NEIGHBOUR: u8 = 8;

pub struct StandInSwitch {
    speed: NetSpeed,
    inputs: SwitchInputs,
    outputs: SwitchOutputs,
    cycle: u64,
    image: Image,
    macs: [u64; PORTS],
    framers: [Framer; PORTS],
    waiting: VecDeque<(u64, usize, Vec<u8>)>,
    lines: [VecDeque<NetWord>; PORTS],
    to_host: VecDeque<HostOut>,
    from_host: Vec<u8>,
}

impl StandInSwitch {
    pub fn new(speed: NetSpeed) -> Self {
        let idle = [speed.idle(); PORTS];
        Self {
            speed,
            inputs: SwitchInputs {
                rst: false,
                rst_core: false,
                rst_rx: 0,
                net: idle,
                host: None,
                host_ready: false,
                write: None,
                counter: 0,
            },
            outputs: SwitchOutputs {
                net: idle,
                host: None,
                host_in_ready: true,
                write_ready: true,
                counter: 0,
                check: 0,
                busy: false,
            },
            cycle: 0,
            image: Fib::new(sizes())
                .expect("sizes are sound")
                .image()
                .cleared(),
            macs: [0; PORTS],
            framers: Default::default(),
            waiting: VecDeque::new(),
            lines: Default::default(),
            to_host: VecDeque::new(),
            from_host: Vec::new(),
        }
    }

    fn write(&mut self) {
        let Some(write) = self.inputs.write else {
            return;
        };
        if write.memory == MEM_PORT {
            if write.address & 7 == 0 {
                self.macs[write.address as usize >> 3] = write.data[0];
            }
        } else if write.memory != MEM_DRAIN {
            self.image.write(&Write {
                memory: Memory::ALL[usize::from(write.memory)],
                addr: write.address,
                data: write.data,
            });
        }
    }

    /// Where a frame leaves, rewritten; or why the host gets it; or nothing.
    fn route(&self, port: usize, frame: &[u8]) -> Option<Result<(usize, Vec<u8>), u8>> {
        if frame[0] & 1 == 1 {
            return Some(Err(LINK));
        }
        if frame[..6] != mac_bytes(self.macs[port]) {
            return None;
        }
        if frame[12..14] != [8, 0] {
            return Some(Err(NOT_IP));
        }
        let to = u32::from_be_bytes(frame[30..34].try_into().expect("4 bytes"));
        let leaf = self.image.lookup4(to);
        if leaf == Leaf::NONE {
            return Some(Err(NO_ROUTE));
        }
        if leaf.port() == PORT_HOST {
            return Some(Err(ROUTE));
        }
        let hop = self.image.read(Memory::NextHop, leaf.next_hop().into());
        if NEXT_HOP_RESOLVED.get(&hop) == 0 {
            return Some(Err(NEIGHBOUR));
        }
        let out = NEXT_HOP_PORT.get(&hop) as usize;
        let mut frame = frame.to_vec();
        frame[..6].copy_from_slice(&mac_bytes(NEXT_HOP_MAC.get(&hop)));
        frame[6..12].copy_from_slice(&mac_bytes(self.macs[out]));
        frame[22] -= 1;
        frame[24..26].fill(0);
        let halves = frame[14..34].chunks(2);
        let mut sum: u32 = halves
            .map(|half| u32::from(u16::from_be_bytes([half[0], half[1]])))
            .sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        frame[24..26].copy_from_slice(&(!sum as u16).to_be_bytes());
        Some(Ok((out, frame)))
    }

    fn take(&mut self, port: usize, frame: &[u8]) {
        let frame = &frame[..frame.len() - 4];
        match self.route(port, frame) {
            None => {}
            Some(Ok((out, frame))) => self.waiting.push_back((self.cycle + DELAY, out, frame)),
            Some(Err(verdict)) => {
                let last = frame.len().div_ceil(8) - 1;
                let beats = frame.chunks(8).enumerate();
                self.to_host.extend(beats.map(|(index, bytes)| HostOut {
                    data: bytes.iter().rev().fold(0, |d, b| d << 8 | u64::from(*b)),
                    keep: ((1_u16 << bytes.len()) - 1) as u8,
                    last: index == last,
                    bad: false,
                    port: port as u8,
                    verdict,
                }));
            }
        }
    }

    fn launch(&mut self) {
        for port in 0..PORTS {
            if self.lines[port].is_empty() {
                let due = |entry: &(u64, usize, _)| entry.1 == port && entry.0 <= self.cycle;
                let found = self.waiting.iter().position(due);
                if let Some((_, _, frame)) = found.and_then(|at| self.waiting.remove(at)) {
                    self.lines[port] = words(self.speed, &frame).into();
                }
            }
            let word = self.lines[port].pop_front();
            self.outputs.net[port] = word.unwrap_or(self.speed.idle());
        }
    }
}

impl SwitchModel for StandInSwitch {
    fn inputs(&mut self) -> &mut SwitchInputs {
        &mut self.inputs
    }

    fn settle(&mut self) -> Result<SwitchOutputs, Error> {
        self.outputs.host = self.to_host.front().copied();
        Ok(self.outputs)
    }

    fn edge(&mut self) -> Result<SwitchOutputs, Error> {
        self.cycle += 1;
        self.write();
        if self.inputs.host_ready {
            self.to_host.pop_front();
        }
        if let Some(beat) = self.inputs.host {
            let count = beat.keep.count_ones() as usize;
            let bytes = beat.data.to_le_bytes();
            self.from_host.extend(&bytes[..count]);
            if beat.last {
                let frame = std::mem::take(&mut self.from_host);
                let port = usize::from(beat.port);
                self.waiting.push_back((self.cycle + DELAY, port, frame));
            }
        }
        for port in 0..PORTS {
            let word = self.inputs.net[port];
            if let Some(frame) = self.framers[port].word(Picoseconds::ZERO, word) {
                self.take(port, &frame.bytes);
            }
        }
        self.launch();
        self.outputs.host = None;
        self.outputs.busy = !self.waiting.is_empty()
            || !self.to_host.is_empty()
            || self.lines.iter().any(|line| !line.is_empty());
        Ok(self.outputs)
    }

    fn reset(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn set_time(&mut self, _: Picoseconds) {}

    fn trace(&mut self, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn trace_close(&mut self) {}

    fn speed(&self) -> NetSpeed {
        self.speed
    }
}
