// SPDX-License-Identifier: Apache-2.0
//! The engine with an endpoint behind it: real packets in, acknowledgements out.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Picoseconds;
use crate::commit::Verdict;
use crate::endpoint::{Endpoint, Listening};
use crate::engine::{self, Counts, Engine, Hardware, Output};
use crate::frame::{self, Header, flags};
use crate::mix::ETHERNET_HEADER;
use crate::policy::Policy;
use crate::receive::Receive;

/// A packet of which only the bytes are known.
#[derive(Clone, Debug)]
struct Frame {
    number: u64,
    bytes: Vec<u8>,
    header: Option<(Header, Range<usize>)>,
    good: bool,
}

impl engine::Packet for Frame {
    fn bytes(&self) -> u64 {
        ETHERNET_HEADER + self.bytes.len() as u64
    }
    fn is_good(&self) -> bool {
        self.good
    }
    fn is_fence(&self) -> bool {
        let fences = flags::SYN | flags::FIN | flags::RST | flags::URG;
        let header = self.header.as_ref();
        header.is_some_and(|(header, _)| header.has(fences))
    }
    fn claim(&self) -> Range<u64> {
        self.truth()
    }
    /// Packets are told apart by their numbers: what place a header names is looked up when the connection is known.
    fn truth(&self) -> Range<u64> {
        self.number..self.number + 1
    }
}

/// The account of what has passed its checksum, which no policy touches.
#[derive(Debug)]
struct Account {
    local: frame::Socket,
    /// Of packets in the engine: sender, sequence number, length with SYN and FIN.
    inside: BTreeMap<u64, (Header, u32)>,
    /// The same, passed.
    passed: Vec<(Header, u32)>,
    /// By position; 0 is the SYN.
    verified: Receive,
    irs: Option<u32>,
}

impl Account {
    fn new(local: frame::Socket) -> Self {
        Self {
            local,
            inside: BTreeMap::new(),
            passed: Vec::new(),
            verified: Receive::new(u64::MAX / 2, usize::MAX),
            irs: None,
        }
    }

    fn check(&mut self, irs: Option<u32>, ack: u32) {
        if self.irs != irs {
            // Another connection: what has passed for the last one may count again, but only by its numbers.
            self.irs = irs;
            self.verified = Receive::new(u64::MAX / 2, usize::MAX);
        }
        let Some(irs) = irs else { return };
        // Segments lie within half of the numbers of what is verified; again and again, as gaps are filled.
        let mut rest = std::mem::take(&mut self.passed);
        rest.retain(|(header, length)| {
            let next = self.verified.next();
            let number = irs.wrapping_add(next as u32);
            let from = next as i64 + i64::from(header.seq.wrapping_sub(number) as i32);
            let to = from + i64::from(*length);
            if to > 0 {
                self.verified.accept(from.max(0) as u64..to as u64);
            }
            false
        });
        let next = self.verified.next();
        let ahead = ack.wrapping_sub(irs.wrapping_add(next as u32)) as i32;
        assert!(
            ahead <= 0,
            "{ahead} bytes are acknowledged whose checksums have not passed"
        );
    }
}

/// The engine and its connection.
pub struct Node {
    engine: Engine<Frame>,
    /// The connection.
    pub endpoint: Endpoint,
    account: Account,
    number: u64,
    bad: u64,
    out: Vec<(Picoseconds, Vec<u8>)>,
}

impl Node {
    /// Listens.
    pub fn new(hardware: Hardware, policy: Policy, listening: Listening) -> Self {
        Self {
            engine: Engine::new(hardware, policy),
            endpoint: Endpoint::new(listening),
            account: Account::new(listening.local),
            number: 0,
            bad: 0,
            out: Vec::new(),
        }
    }

    /// What the engine counted.
    pub const fn counts(&self) -> Counts {
        self.engine.counts()
    }

    /// Packets with wrong checksums that were thrown away.
    pub const fn bad(&self) -> u64 {
        self.bad
    }

    /// A packet's last byte is in.
    pub fn arrive(&mut self, now: Picoseconds, bytes: Vec<u8>) {
        let header = frame::parse(&bytes);
        let number = self.number;
        self.number += 1;
        if let Some((header, payload)) = &header
            && header.to == self.account.local
        {
            let ends = [flags::SYN, flags::FIN].map(|flag| u32::from(header.has(flag)));
            let length = payload.len() as u32 + ends[0] + ends[1];
            self.account.inside.insert(number, (header.clone(), length));
        }
        let frame = Frame {
            number,
            good: header.is_some() && frame::is_good(&bytes),
            bytes,
            header,
        };
        self.engine.arrive(now, frame);
    }

    /// When something happens next.
    pub fn next(&self) -> Picoseconds {
        self.engine.next().min(self.endpoint.timer())
    }

    /// Does all that happens until then.
    pub fn step(&mut self, now: Picoseconds) {
        let mut out = Vec::new();
        while self.engine.next() <= now {
            self.engine.step(&mut out);
        }
        for (time, output) in out {
            match output {
                Output::Passed(number) => {
                    let passed = self.account.inside.remove(&number.start);
                    self.account.passed.extend(passed);
                }
                Output::Released { released, .. } => match released.verdict {
                    Verdict::Good => self.good(time, &released.packet),
                    Verdict::Bad => self.bad += 1,
                    Verdict::Discarded => {}
                },
                Output::Header(_) | Output::Committed => {}
            }
        }
        if self.endpoint.timer() <= now {
            self.endpoint.time_out(now);
            self.send(now);
        }
    }

    fn good(&mut self, time: Picoseconds, frame: &Frame) {
        assert!(
            frame::is_good(&frame.bytes),
            "packet {} counts, and its checksum is wrong",
            frame.number
        );
        if let Some((header, payload)) = &frame.header {
            let payload = &frame.bytes[payload.clone()];
            self.endpoint.segment(time, header, payload);
            self.send(time);
        }
    }

    /// Takes what has been received without a gap.
    pub fn take(&mut self, now: Picoseconds) -> Vec<u8> {
        let bytes = self.endpoint.take();
        self.send(now);
        bytes
    }

    fn send(&mut self, time: Picoseconds) {
        while let Some(packet) = self.endpoint.transmit() {
            if let Some((header, _)) = frame::parse(&packet)
                && !header.has(flags::RST)
            {
                self.account.check(self.endpoint.irs(), header.ack);
            }
            self.out.push((time, packet));
        }
    }

    /// Packets to send, each with its time.
    pub fn transmit(&mut self) -> Vec<(Picoseconds, Vec<u8>)> {
        std::mem::take(&mut self.out)
    }
}
