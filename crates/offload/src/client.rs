// SPDX-License-Identifier: Apache-2.0
//! The bulk sender with real packets: connects, sends a file, closes.

use std::ops::Range;

use crate::Picoseconds;
use crate::frame::{self, Header, Socket, TcpOptions, emit, flags};
use crate::sender::{Counts, Segment, Sender};

/// RFC 6298, 2.1.
const FIRST_TIMEOUT: Picoseconds = Picoseconds::from_us(1_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SynSent,
    Sends,
    FinSent,
    Done,
    Reset,
}

/// What it is made from.
#[derive(Clone, Debug)]
pub struct File {
    /// Own address and port.
    pub local: Socket,
    /// Where to.
    pub remote: Socket,
    /// Greatest segment.
    pub mss: u16,
    /// Bytes of each segment, again and again from the first; absent: all are the greatest.
    pub lengths: Vec<u32>,
    /// First sequence number.
    pub iss: u32,
    /// Least time-out.
    pub floor: Picoseconds,
    /// What is sent.
    pub data: Vec<u8>,
}

/// The sender.
#[derive(Debug)]
pub struct Client {
    file: File,
    state: State,
    irs: u32,
    mss: u32,
    scale: u8,
    sender: Sender,
    sent: usize,
    timer: Option<(Picoseconds, u32)>,
    /// A window without room is asked about then.
    probe: Option<Picoseconds>,
}

impl Client {
    /// Nothing is sent yet.
    pub fn new(file: File) -> Self {
        Self {
            sender: Sender::new(u32::from(file.mss), file.floor, 0),
            mss: u32::from(file.mss),
            state: State::SynSent,
            irs: 0,
            scale: 0,
            sent: 0,
            timer: Some((Picoseconds::ZERO, 0)),
            probe: None,
            file,
        }
    }

    /// Whether everything was acknowledged.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the other end gave the connection up.
    pub fn is_reset(&self) -> bool {
        self.state == State::Reset
    }

    /// What was counted.
    pub const fn counts(&self) -> Counts {
        self.sender.counts()
    }

    /// When a timer runs out.
    pub fn next(&self) -> Picoseconds {
        let own = self.timer.map_or(Picoseconds::NEVER, |(time, _)| time);
        let probe = self.probe.unwrap_or(Picoseconds::NEVER);
        match self.state {
            State::Sends => self.sender.timer().min(probe),
            State::SynSent | State::FinSent => own,
            State::Done | State::Reset => Picoseconds::NEVER,
        }
    }

    fn header(&self, seq: u32, set: u8) -> Header {
        Header {
            from: self.file.local,
            to: self.file.remote,
            seq,
            ack: self.irs.wrapping_add(1),
            flags: set,
            window: 0xFFFF,
            options: TcpOptions::default(),
        }
    }

    fn number(&self, position: u64) -> u32 {
        self.file.iss.wrapping_add(1).wrapping_add(position as u32)
    }

    /// Position of a number that acknowledges; before the first byte it is none.
    fn position(&self, number: u32) -> Option<u64> {
        let una = self.sender.una();
        let distance = number.wrapping_sub(self.number(una)) as i32;
        u64::try_from(una as i64 + i64::from(distance)).ok()
    }

    /// A packet arrives; one with a wrong checksum is nothing.
    pub fn arrive(&mut self, now: Picoseconds, packet: &[u8]) {
        let Some((header, _)) = frame::parse(packet).filter(|_| frame::is_good(packet)) else {
            return;
        };
        if header.to != self.file.local || header.from != self.file.remote {
            return;
        }
        let acks_syn = header.has(flags::ACK) && header.ack == self.file.iss.wrapping_add(1);
        if header.has(flags::RST) {
            if self.state != State::SynSent || acks_syn {
                self.state = State::Reset;
            }
            return;
        }
        match self.state {
            State::SynSent if header.has(flags::SYN) && acks_syn => self.opened(now, &header),
            State::Sends => self.acknowledged(now, &header),
            State::FinSent => {
                let end = self.number(self.file.data.len() as u64).wrapping_add(1);
                if header.has(flags::ACK) && header.ack == end {
                    self.state = State::Done;
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, now: Picoseconds, header: &Header) {
        self.irs = header.seq;
        self.scale = header.options.scale.unwrap_or(0);
        let theirs = u32::from(header.options.mss.unwrap_or(536));
        self.mss = theirs.min(u32::from(self.file.mss));
        let window = u64::from(header.window);
        self.sender = Sender::new(self.mss, self.file.floor, window);
        if let Some((again, 1)) = self.timer {
            // Sent once, a time-out before it is sent again.
            let sent = again.since(FIRST_TIMEOUT);
            self.sender.measure(now.since(sent));
        }
        self.state = State::Sends;
        self.timer = None;
    }

    fn acknowledged(&mut self, now: Picoseconds, header: &Header) {
        let Some(ack) = self
            .position(header.ack)
            .filter(|_| header.has(flags::ACK) && !header.has(flags::SYN))
        else {
            return;
        };
        let block = |(from, to): &(u32, u32)| -> Option<Range<u64>> {
            let range = self.position(*from)?..self.position(*to)?;
            (range.start < range.end && range.end <= self.sender.next()).then_some(range)
        };
        let sack: Vec<_> = header.options.sack.iter().filter_map(block).collect();
        let edge = ack + (u64::from(header.window) << self.scale);
        self.sender.ack(now, ack, &sack, edge);
        self.probe = None;
    }

    fn segment(&self, segment: Segment) -> Vec<u8> {
        let bytes = segment.from as usize..segment.from as usize + segment.len as usize;
        let header = self.header(self.number(segment.from), flags::ACK);
        emit(&header, &self.file.data[bytes])
    }

    fn length(&self) -> Option<u32> {
        let rest = self.file.data.len() as u64 - self.sender.next();
        let lengths = &self.file.lengths;
        let wanted = match lengths.is_empty() {
            true => self.mss,
            false => lengths[self.sent % lengths.len()].min(self.mss),
        };
        let length = u64::from(wanted).min(rest) as u32;
        (length > 0).then_some(length)
    }

    /// Packets to send now.
    pub fn poll(&mut self, now: Picoseconds) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        match self.state {
            State::SynSent => out.extend(self.control(now, flags::SYN)),
            State::FinSent => out.extend(self.control(now, flags::FIN | flags::ACK)),
            State::Sends => self.sends(now, &mut out),
            State::Done | State::Reset => {}
        }
        out
    }

    fn control(&mut self, now: Picoseconds, set: u8) -> Option<Vec<u8>> {
        let (_, tries) = self.timer.filter(|(time, _)| *time <= now)?;
        self.timer = Some((now + FIRST_TIMEOUT.times(1 << tries.min(5)), tries + 1));
        let is_syn = set & flags::SYN != 0;
        let seq = match is_syn {
            true => self.file.iss,
            false => self.number(self.file.data.len() as u64),
        };
        let mut header = self.header(seq, set);
        if is_syn {
            header.ack = 0;
            header.options = TcpOptions {
                mss: Some(self.file.mss),
                scale: Some(0),
                sack_permitted: true,
                sack: Vec::new(),
            };
        }
        Some(emit(&header, &[]))
    }

    fn sends(&mut self, now: Picoseconds, out: &mut Vec<Vec<u8>>) {
        if self.sent == 0 && self.sender.counts().acks == 0 {
            // The third packet of the handshake.
            let ack = self.header(self.number(0), flags::ACK);
            out.push(emit(&ack, &[]));
        }
        if self.sender.timer() <= now {
            self.sender.time_out(now);
        }
        if self.probe.is_some_and(|time| time <= now) {
            self.probe = None;
            out.extend(self.sender.probe(now).map(|probe| self.segment(probe)));
        }
        while let Some(segment) = self.sender.send(now, self.length()) {
            self.sent += usize::from(segment.first);
            out.push(self.segment(segment));
        }
        let all = self.sender.next() == self.file.data.len() as u64;
        if self.sender.is_idle() && all {
            self.state = State::FinSent;
            self.timer = Some((now, 0));
            out.extend(self.control(now, flags::FIN | flags::ACK));
        } else if self.sender.is_idle() && self.probe.is_none() {
            self.probe = Some(now + self.file.floor);
        }
    }
}
