// SPDX-License-Identifier: Apache-2.0
//! Memory, queue pairs, and what goes in and out.

use std::collections::VecDeque;

use crate::frame::{Address, Refused};
use crate::memory::{Memory, Region};
use crate::packet::Packet;
use crate::pair::{Pair, Pairs, Settings, State};
use crate::request::{Completion, Segment, WorkRequest};

/// What is counted, by the names of the engine's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "docs/uzura.md and uzura_qp_pkg have the names")]
pub struct Counters {
    pub rx_other: u32,
    pub rx_broken: u32,
    pub rx_malformed: u32,
    pub rx_packet: u32,
    pub rx_no_qp: u32,
    pub rx_duplicate: u32,
    pub rx_sequence: u32,
    pub rx_invalid: u32,
    pub rx_access: u32,
    pub rx_operation: u32,
    pub rx_not_ready: u32,
    pub rx_ghost: u32,
    pub rx_congestion: u32,
    pub tx_packet: u32,
    pub tx_rewind: u32,
    pub tx_timeout: u32,
}

/// An engine with the memory of its host.
#[derive(Clone, Debug)]
pub struct Engine {
    /// What was counted.
    pub counters: Counters,
    own: Address,
    pub(crate) memory: Memory,
    pairs: Pairs,
    out: VecDeque<Packet>,
    now_us: u32,
}

/// What both halves work with beside their queue pair.
pub(crate) struct Around<'a> {
    pub memory: &'a mut Memory,
    pub counters: &'a mut Counters,
    pub out: &'a mut VecDeque<Packet>,
    pub now_us: u32,
}

impl Engine {
    /// One without memory and queue pairs.
    #[must_use]
    pub fn new(own: Address) -> Self {
        Self {
            counters: Counters::default(),
            own,
            memory: Memory::default(),
            pairs: Pairs::new(),
            out: VecDeque::new(),
            now_us: 0,
        }
    }

    /// Registers memory; another region of the same index ends.
    pub fn set_region(&mut self, key: u32, region: Region) {
        self.memory.set(key, region);
    }

    /// Reads what a region holds.
    ///
    /// # Panics
    ///
    /// If there is no such region, or it is shorter.
    #[must_use]
    pub fn read(&self, index: u32, offset: usize, bytes: usize) -> &[u8] {
        &self.memory.region(index).bytes[offset..offset + bytes]
    }

    /// Writes into a region, as its host does.
    ///
    /// # Panics
    ///
    /// If there is no such region, or it is shorter.
    pub fn write(&mut self, index: u32, offset: usize, data: &[u8]) {
        self.memory.region_mut(index).bytes[offset..offset + data.len()].copy_from_slice(data);
    }

    /// Sets a queue pair and begins anew with it.
    pub fn begin(&mut self, qpn: u32, settings: Settings) {
        self.pairs.insert(qpn, Pair::new(settings));
    }

    /// Posts a work request; returns its index.
    ///
    /// # Panics
    ///
    /// If there is no such queue pair, here as in the functions below.
    pub fn post(&mut self, qpn: u32, request: WorkRequest) -> u16 {
        let index = self.with(qpn, |pair, _| pair.enqueue(request));
        self.go_on(qpn);
        index
    }

    /// Posts a receive buffer; returns its index.
    pub fn post_receive(&mut self, qpn: u32, list: Vec<Segment>) -> u16 {
        let index = self.with(qpn, |pair, _| {
            let responder = &mut pair.responder;
            responder.buffers.push_back(list);
            let index = responder.posted;
            responder.posted = index.wrapping_add(1);
            index
        });
        self.go_on(qpn);
        index
    }

    /// Whether a queue pair has stopped.
    #[must_use]
    pub fn is_stopped(&self, qpn: u32) -> bool {
        self.pairs[&qpn].error
    }

    /// Whether packets of it wait for their end, or for a peer that is not ready.
    #[must_use]
    pub fn is_waiting(&self, qpn: u32) -> bool {
        let requester = &self.pairs[&qpn].requester;
        requester.una != requester.max || requester.not_ready
    }

    /// Whether it waits for a peer that is not ready.
    #[must_use]
    pub fn is_peer_not_ready(&self, qpn: u32) -> bool {
        self.pairs[&qpn].requester.not_ready
    }

    /// The oldest packet without its end, and the one behind all that were sent.
    #[must_use]
    pub fn unacknowledged(&self, qpn: u32) -> (u32, u32) {
        let requester = &self.pairs[&qpn].requester;
        (requester.una, requester.max)
    }

    /// Work requests and receive buffers that it has.
    #[must_use]
    pub fn posted(&self, qpn: u32) -> [u32; 2] {
        let pair = &self.pairs[&qpn];
        [
            pair.requester.queue.len() as u32,
            pair.responder.buffers.len() as u32,
        ]
    }

    /// The packet that it expects.
    #[must_use]
    pub fn expected(&self, qpn: u32) -> u32 {
        self.pairs[&qpn].responder.expected
    }

    /// Takes the completions of a queue pair.
    pub fn completions(&mut self, qpn: u32) -> Vec<Completion> {
        self.with(qpn, |pair, _| pair.completions.drain(..).collect())
    }

    /// Takes the packets that go out.
    pub fn packets(&mut self) -> Vec<Packet> {
        self.out.drain(..).collect()
    }

    /// Takes them as frames.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        let own = self.own;
        self.out.drain(..).map(|packet| packet.emit(own)).collect()
    }

    /// A frame has come.
    pub fn arrive(&mut self, frame: &[u8]) {
        match Packet::parse(frame, self.own) {
            Ok(packet) => self.take(&packet),
            Err(Refused::Other) => self.counters.rx_other += 1,
            Err(Refused::Broken) => self.counters.rx_broken += 1,
            Err(Refused::Malformed) => self.counters.rx_malformed += 1,
        }
    }

    fn take(&mut self, packet: &Packet) {
        self.counters.rx_packet += 1;
        self.counters.rx_congestion += u32::from(packet.congestion);
        let known = self.pairs.get(&packet.qpn).is_some_and(|pair| {
            pair.settings.peer.ip == packet.ip && packet.opcode < crate::opcode::UD_SEND_ONLY
        });
        if !known {
            self.counters.rx_no_qp += 1;
            return;
        }
        self.with(packet.qpn, |pair, around| {
            if packet.is_response() {
                pair.answer(packet, around);
            } else {
                pair.request(packet, around);
            }
        });
        self.go_on(packet.qpn);
    }

    /// It is this time.
    pub fn tick(&mut self, now_us: u32) {
        self.now_us = now_us;
        let numbers: Vec<_> = self.pairs.keys().copied().collect();
        for qpn in numbers {
            self.with(qpn, |pair, around| pair.look_at_clock(around));
            self.go_on(qpn);
        }
    }

    fn go_on(&mut self, qpn: u32) {
        self.with(qpn, |pair, around| {
            if pair.settings.state == State::ReadyToSend {
                pair.send(around);
            }
            pair.flush();
        });
    }

    fn with<T>(&mut self, qpn: u32, work: impl FnOnce(&mut Pair, &mut Around<'_>) -> T) -> T {
        let pair = self.pairs.get_mut(&qpn).expect("there is this queue pair");
        let before = self.out.len();
        let mut around = Around {
            memory: &mut self.memory,
            counters: &mut self.counters,
            out: &mut self.out,
            now_us: self.now_us,
        };
        let result = work(pair, &mut around);
        self.counters.tx_packet += (self.out.len() - before) as u32;
        result
    }
}
