// SPDX-License-Identifier: Apache-2.0
//! A queue pair: what the host sets, and what is kept of both halves.

use std::collections::{BTreeMap, VecDeque};

use crate::frame::Address;
use crate::packet::Packet;
use crate::request::{Completion, Segment, Status, WorkRequest};
use crate::{REPLAYS, memory::Rights};

/// How far a queue pair is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It answers.
    ReadyToReceive = 2,
    /// It sends, too.
    ReadyToSend = 3,
}

/// What the host sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// State.
    pub state: State,
    /// Where the peer is.
    pub peer: Address,
    /// Its queue pair.
    pub peer_qpn: u32,
    /// UDP source port.
    pub port: u16,
    /// Protection domain.
    pub pd: u16,
    /// What the peer may do; bits of [`crate::Region`].
    pub rights: Rights,
    /// log2 of the bytes of a packet.
    pub mtu_log2: u32,
    /// Time-out: 4.096 us * 2^n; 0 is none.
    pub timeout: u8,
    /// Time-outs and sequence errors without progress before it gives up.
    pub retry: u8,
    /// The same for a peer that is not ready; 7 is for ever.
    pub rnr_retry: u8,
    /// The code of how long a peer waits when this one is not ready.
    pub min_rnr: u8,
    /// READs and atomics under way.
    pub rd_atomic: u8,
    /// log2 of the segments of a receive queue's entry.
    pub receive_segments_log2: u8,
    /// The first packet sent.
    pub psn: u32,
    /// The first packet expected.
    pub expected_psn: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            state: State::ReadyToSend,
            peer: Address::default(),
            peer_qpn: 0,
            port: 0xC000,
            pd: 1,
            rights: crate::Region::ALL & !crate::Region::LOCAL_WRITE,
            mtu_log2: 10,
            timeout: 0,
            retry: 7,
            rnr_retry: 7,
            min_rnr: 1,
            rd_atomic: 4,
            receive_segments_log2: 0,
            psn: 0,
            expected_psn: 0,
        }
    }
}

impl Settings {
    /// Bytes of a packet.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        1 << self.mtu_log2
    }

    /// Packets of a message, one at least.
    #[must_use]
    pub const fn packets(&self, bytes: u32) -> u32 {
        let count = bytes.div_ceil(self.mtu());
        if count == 0 { 1 } else { count }
    }

    /// A packet to the peer.
    pub(crate) fn packet(&self, opcode: u8, psn: u32) -> Packet {
        Packet {
            mac: self.peer.mac,
            ip: self.peer.ip,
            port: self.port,
            qpn: self.peer_qpn,
            opcode,
            psn,
            ..Packet::default()
        }
    }
}

/// A request in the send queue.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub index: u16,
    pub request: WorkRequest,
}

/// The half that sends requests. `queue` begins with the oldest one that has not ended; its packets begin with `una_first`.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub queue: VecDeque<Sent>,
    pub posted: u16,
    /// The oldest packet that waits for its end.
    pub una: u32,
    pub una_first: u32,
    /// The request that is sent next, as a place in the queue, and its packet.
    pub next: usize,
    pub next_psn: u32,
    pub next_first: u32,
    /// Behind all that was ever sent.
    pub max: u32,
    /// READs and atomics under way.
    pub waiting: u8,
    pub retries: u8,
    pub rnr_retries: u8,
    pub not_ready: bool,
    /// It has begun again since the last progress.
    pub rewound: bool,
    pub deadline: u32,
}

/// The message that comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    None,
    Send { list: Vec<Segment>, got: u32 },
    Write { va: u64, key: u32, left: u32 },
}

/// The half that answers.
#[derive(Clone, Debug)]
pub(crate) struct Responder {
    pub buffers: VecDeque<Vec<Segment>>,
    /// Entries taken so far.
    pub taken: u16,
    pub posted: u16,
    pub expected: u32,
    pub msn: u32,
    pub message: Message,
    /// Bytes of the WRITE so far.
    pub written: u32,
    /// The gap was told of.
    pub told: bool,
    /// Numbers and results of the last atomics.
    pub results: VecDeque<(u32, u64)>,
}

impl Responder {
    pub fn keep(&mut self, psn: u32, value: u64) {
        self.results.push_back((psn, value));
        if self.results.len() > REPLAYS {
            self.results.pop_front();
        }
    }
}

/// A queue pair.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub settings: Settings,
    /// It has stopped.
    pub error: bool,
    pub requester: Requester,
    pub responder: Responder,
    pub completions: VecDeque<Completion>,
}

impl Pair {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            error: false,
            requester: Requester {
                queue: VecDeque::new(),
                posted: 0,
                una: settings.psn,
                una_first: settings.psn,
                next: 0,
                next_psn: settings.psn,
                next_first: settings.psn,
                max: settings.psn,
                waiting: 0,
                retries: settings.retry,
                rnr_retries: settings.rnr_retry,
                not_ready: false,
                rewound: false,
                deadline: 0,
            },
            responder: Responder {
                buffers: VecDeque::new(),
                taken: 0,
                posted: 0,
                expected: settings.expected_psn,
                msn: 0,
                message: Message::None,
                written: 0,
                told: false,
                results: VecDeque::new(),
            },
            completions: VecDeque::new(),
        }
    }

    /// Completes everything that waits, once it has stopped: what was to be sent, then what was to be received.
    pub fn flush(&mut self) {
        if !self.error {
            return;
        }
        for sent in self.requester.queue.drain(..) {
            let flushed = Completion::plain(false, sent.index, Status::Flushed);
            self.completions.push_back(flushed);
        }
        let responder = &mut self.responder;
        if let Message::Send { .. } = responder.message {
            let index = responder.taken.wrapping_sub(1);
            self.completions
                .push_back(Completion::plain(true, index, Status::Flushed));
        }
        responder.message = Message::None;
        for _ in responder.buffers.drain(..) {
            let index = responder.taken;
            responder.taken = index.wrapping_add(1);
            self.completions
                .push_back(Completion::plain(true, index, Status::Flushed));
        }
        self.requester.una = self.requester.max;
        self.requester.not_ready = false;
    }

    /// Stops with the oldest request, which ends so.
    pub fn stop(&mut self, status: Status) {
        if let Some(oldest) = self.requester.queue.pop_front() {
            self.completions
                .push_back(Completion::plain(false, oldest.index, status));
        }
        self.error = true;
        self.flush();
    }
}

/// All queue pairs by their numbers.
pub(crate) type Pairs = BTreeMap<u32, Pair>;
