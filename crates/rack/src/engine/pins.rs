// SPDX-License-Identifier: Apache-2.0
//! The engine's pins: its clock, cycle by cycle, with commands, events and memory on the host's side of it.

use std::collections::VecDeque;

use ipnuma_rtl::{Error, NetWord, Toe, ToeCounts};

use super::sockets::{Accept, Sockets};
use crate::time::Picoseconds;

/// Cycles from the engine's request for a word of memory to the word.
const MEMORY_CYCLES: u64 = 16;

/// Addresses of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Own MAC address.
    pub mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
    /// Key of the initial sequence numbers.
    pub secret: u64,
}

/// What a cycle brought.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    /// Word to the PHY.
    pub word: NetWord,
    /// Something moved at the host's side, or is in the MAC.
    pub moves: bool,
    /// The time in microseconds at which the first timer is due.
    pub alarm: Option<u32>,
}

/// An engine with its host.
pub struct Pins {
    model: Toe,
    /// The connections.
    pub sockets: Sockets,
    cycle: u64,
    /// Words of memory with the cycle in which they are there.
    reads: VecDeque<(u64, u64)>,
}

impl Pins {
    /// An engine after reset, whose services are about to listen.
    pub fn new(addresses: Addresses, services: Vec<(u16, Accept)>) -> Result<Self, Error> {
        let mut model = Toe::new()?;
        model.inputs.mac = addresses.mac;
        model.inputs.ip = addresses.ip;
        model.inputs.secret = addresses.secret;
        model.reset()?;
        Ok(Self {
            model,
            sockets: Sockets::new(services),
            cycle: 0,
            reads: VecDeque::new(),
        })
    }

    /// Cycles so far.
    pub const fn cycles(&self) -> u64 {
        self.cycle
    }

    /// What the hardware counted.
    pub const fn counts(&self) -> ToeCounts {
        self.model.counts
    }

    /// One clock edge, with the word from the PHY.
    pub fn cycle(&mut self, now: Picoseconds, word: NetWord) -> Result<Cycle, Error> {
        self.cycle += 1;
        let ready = |read: &&(u64, u64)| read.0 <= self.cycle;
        let data = self.reads.front().filter(ready).map(|read| read.1);
        let offered = self.sockets.offered();
        self.model.set_time(now.0);
        let inputs = &mut self.model.inputs;
        inputs.now_us = now.whole_us() as u32;
        inputs.net = word;
        inputs.command = offered;
        inputs.data = data;
        let before = *self.model.settle()?;
        if data.is_some() {
            self.reads.pop_front();
        }
        if offered.is_some() && before.command_ready {
            self.sockets.taken();
        }
        if let Some(write) = before.write {
            self.sockets.write(write);
        }
        if let Some(read) = before.read {
            let data = self.sockets.read(read);
            self.reads.push_back((self.cycle + MEMORY_CYCLES, data));
        }
        if let Some(event) = before.event {
            self.sockets.event(event);
        }
        let after = *self.model.edge()?;
        let moves = after.busy
            || before.write.is_some()
            || before.event.is_some()
            || !self.reads.is_empty()
            || self.sockets.offered().is_some();
        Ok(Cycle {
            word: after.net,
            moves,
            alarm: after.alarm,
        })
    }
}
