// SPDX-License-Identifier: Apache-2.0
//! One passive connection's receive side by RFC 9293, with the window scaling of RFC 7323, SACK of RFC 2018 and the
//! challenges of RFC 5961. It sees only segments that count; the engine decides which do.

use std::collections::VecDeque;

use crate::Picoseconds;
use crate::frame::{Header, Socket, TcpOptions, emit, flags};
use crate::receive::{Accepted, Receive, SACK_BLOCKS};

/// Gaps that reassembly has room for, where nothing else is said.
pub const GAPS: usize = 32;
/// RFC 6298, 2.1; doubled each time.
const FIRST_TIMEOUT: Picoseconds = Picoseconds::from_us(1_000_000);
/// A SYN or FIN is sent that often.
const MOST_TRIES: u32 = 8;
/// An acknowledgement waits for a second segment that long at most.
const ACK_DELAY: Picoseconds = Picoseconds::from_us(50);

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for a SYN.
    Listen,
    /// Has answered one.
    SynReceived,
    /// Receives.
    Established,
    /// The other end has no more data, and this one's FIN is on its way.
    LastAck,
    /// Both ends are done.
    Closed,
    /// The other end gave the connection up, or did not answer any more.
    Reset,
}

/// What a listening socket is given.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// Own address and port.
    pub local: Socket,
    /// Bytes of the receive buffer.
    pub window: u32,
    /// Greatest segment that is taken.
    pub mss: u16,
    /// The first own sequence number.
    pub iss: u32,
    /// Whether acknowledgements may wait for a second segment.
    pub delay: bool,
    /// Gaps that reassembly has room for.
    pub gaps: usize,
}

/// The connection.
#[derive(Debug)]
pub struct Endpoint {
    listening: Listening,
    state: State,
    remote: Option<Socket>,
    irs: u32,
    /// Position 0 is the first byte of data.
    receive: Receive,
    /// Bytes by position, modulo its length.
    ring: Vec<u8>,
    read: u64,
    /// Where the other end's data end.
    fin: Option<u64>,
    fin_taken: bool,
    /// Shift of own windows, where both ends shift.
    scale: u8,
    sack: bool,
    /// Own SYN or FIN that is not acknowledged: when it is sent again, and how often it was.
    timer: Option<(Picoseconds, u32)>,
    unacknowledged: u32,
    ack_timer: Option<Picoseconds>,
    out: VecDeque<Vec<u8>>,
}

/// Shift with which a window fits 16 bits.
fn scale_of(window: u32) -> u8 {
    (0..14)
        .find(|shift| window >> shift <= 0xFFFF)
        .unwrap_or(14)
}

impl Endpoint {
    /// Listens.
    pub fn new(listening: Listening) -> Self {
        Self {
            listening,
            state: State::Listen,
            remote: None,
            irs: 0,
            receive: Receive::new(u64::from(listening.window), listening.gaps),
            ring: vec![0; listening.window as usize],
            read: 0,
            fin: None,
            fin_taken: false,
            scale: 0,
            sack: false,
            timer: None,
            unacknowledged: 0,
            ack_timer: None,
            out: VecDeque::new(),
        }
    }

    /// State.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The other end's first sequence number, once it is there.
    pub const fn irs(&self) -> Option<u32> {
        match self.state {
            State::Listen => None,
            _ => Some(self.irs),
        }
    }

    /// Data that are there without a gap, all ever.
    pub const fn received(&self) -> u64 {
        self.receive.next()
    }

    /// Gaps that there are.
    pub const fn gaps(&self) -> usize {
        self.receive.gaps()
    }

    /// A packet to send.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// When a timer runs out.
    pub fn timer(&self) -> Picoseconds {
        let again = self.timer.map_or(Picoseconds::NEVER, |(time, _)| time);
        again.min(self.ack_timer.unwrap_or(Picoseconds::NEVER))
    }

    /// Takes what has been received without a gap.
    pub fn take(&mut self) -> Vec<u8> {
        let size = self.ring.len() as u64;
        let at = |position: u64| self.ring[(position % size) as usize];
        let bytes: Vec<u8> = (self.read..self.receive.next()).map(at).collect();
        let before = self.window();
        self.read += bytes.len() as u64;
        self.receive.consumed(bytes.len() as u64);
        // RFC 9293, 3.8.6.2.2: the window moves when that is worth a segment, or half the buffer.
        let opens = u64::from(self.listening.mss).min(size / 2);
        if self.state == State::Established && before < opens && self.window() >= opens {
            self.acknowledge();
        }
        bytes
    }

    fn window(&self) -> u64 {
        self.receive.window()
    }

    /// The number that acknowledges all that is there.
    fn next(&self) -> u32 {
        let data = self
            .irs
            .wrapping_add(1)
            .wrapping_add(self.receive.next() as u32);
        data.wrapping_add(u32::from(self.fin_taken))
    }

    /// Position of a sequence number; before the first byte it is negative.
    fn position(&self, seq: u32) -> i64 {
        let next = self
            .irs
            .wrapping_add(1)
            .wrapping_add(self.receive.next() as u32);
        self.receive.next() as i64 + i64::from(seq.wrapping_sub(next) as i32)
    }

    fn own_next(&self) -> u32 {
        let after_syn = self.listening.iss.wrapping_add(1);
        match self.state {
            State::LastAck | State::Closed => after_syn.wrapping_add(1),
            _ => after_syn,
        }
    }

    fn header(&self, to: Socket, seq: u32, set: u8) -> Header {
        let is_syn = set & flags::SYN != 0;
        let shift = if is_syn { 0 } else { self.scale };
        Header {
            from: self.listening.local,
            to,
            seq,
            ack: self.next(),
            flags: set,
            window: (self.window() >> shift).min(0xFFFF) as u16,
            options: TcpOptions::default(),
        }
    }

    fn acknowledge(&mut self) {
        let Some(to) = self.remote else { return };
        self.unacknowledged = 0;
        self.ack_timer = None;
        let mut header = self.header(to, self.own_next(), flags::ACK);
        if self.sack {
            let number = |position: u64| self.irs.wrapping_add(1).wrapping_add(position as u32);
            let blocks = self.receive.sack(SACK_BLOCKS).into_iter();
            header.options.sack = blocks.map(|b| (number(b.start), number(b.end))).collect();
        }
        self.out.push_back(emit(&header, &[]));
    }

    fn syn_ack(&mut self) {
        let Some(to) = self.remote else { return };
        let mut header = self.header(to, self.listening.iss, flags::SYN | flags::ACK);
        header.options = TcpOptions {
            mss: Some(self.listening.mss),
            scale: (self.scale > 0).then_some(self.scale),
            sack_permitted: self.sack,
            sack: Vec::new(),
        };
        self.out.push_back(emit(&header, &[]));
    }

    fn reset_for(&mut self, header: &Header, length: u32) {
        let mut answer = self.header(header.from, 0, flags::RST);
        if header.has(flags::ACK) {
            answer.seq = header.ack;
            answer.ack = 0;
        } else {
            answer.flags |= flags::ACK;
            answer.ack = header.seq.wrapping_add(length);
        }
        self.out.push_back(emit(&answer, &[]));
    }

    /// A segment that counts.
    pub fn segment(&mut self, now: Picoseconds, header: &Header, payload: &[u8]) {
        if header.to != self.listening.local {
            return;
        }
        let fin = header.has(flags::FIN);
        let length = payload.len() as u32 + u32::from(fin) + u32::from(header.has(flags::SYN));
        match self.state {
            State::Listen => self.listen(now, header, length),
            State::Closed | State::Reset => {
                if !header.has(flags::RST) {
                    self.reset_for(header, length);
                }
            }
            _ if self.remote != Some(header.from) => {
                // One connection: everybody else is refused.
                if !header.has(flags::RST) {
                    self.reset_for(header, length);
                }
            }
            _ => self.synchronized(now, header, payload, length),
        }
    }

    fn listen(&mut self, now: Picoseconds, header: &Header, length: u32) {
        if header.has(flags::RST) {
            return;
        }
        if header.has(flags::ACK) {
            self.reset_for(header, length);
            return;
        }
        if !header.has(flags::SYN) {
            return;
        }
        self.remote = Some(header.from);
        self.irs = header.seq;
        self.sack = header.options.sack_permitted;
        let own = scale_of(self.listening.window);
        self.scale = match header.options.scale {
            Some(_) => own,
            None => 0,
        };
        if header.options.scale.is_none() {
            let most = u64::from(self.listening.window.min(0xFFFF));
            self.receive.set_window(most);
        }
        self.state = State::SynReceived;
        self.timer = Some((now + FIRST_TIMEOUT, 1));
        self.syn_ack();
    }

    /// RFC 9293, 3.10.7.4.
    fn synchronized(&mut self, now: Picoseconds, header: &Header, payload: &[u8], length: u32) {
        let from = self.position(header.seq);
        let next = self.receive.next() as i64 + i64::from(self.fin_taken);
        let edge = self.receive.edge() as i64;
        let last = from + i64::from(length) - 1;
        let inside = |position: i64| (next..edge.max(next)).contains(&position);
        let acceptable = match (length, edge > next) {
            // No payload fits; a RST and an acknowledgement count all the same.
            (_, false) => from == next,
            (0, true) => inside(from),
            // One that begins before the window and ends behind it is neither, and refused.
            (_, true) => inside(from) || inside(last),
        };
        if !acceptable {
            let is_old_syn = self.state == State::SynReceived && header.has(flags::SYN);
            match (header.has(flags::RST), is_old_syn) {
                (true, _) => {}
                (false, true) => self.syn_ack(),
                (false, false) => self.acknowledge(),
            }
            return;
        }
        if header.has(flags::RST) {
            match from == next {
                true if self.state == State::SynReceived => *self = Self::new(self.listening),
                true => self.end(State::Reset),
                false => self.acknowledge(),
            }
            return;
        }
        if header.has(flags::SYN) {
            self.acknowledge();
            return;
        }
        if !header.has(flags::ACK) || !self.acknowledged(header) {
            return;
        }
        self.data(now, from, header.has(flags::FIN), payload);
    }

    /// Whether the segment's acknowledgement lets it be looked at further.
    fn acknowledged(&mut self, header: &Header) -> bool {
        let iss = self.listening.iss;
        let acked = header.ack.wrapping_sub(iss);
        let sent = self.own_next().wrapping_sub(iss);
        match self.state {
            State::SynReceived => {
                if acked != 1 {
                    self.reset_for(header, 0);
                    return false;
                }
                self.state = State::Established;
                self.timer = None;
            }
            // What was never sent can't be acknowledged; and an old one is no attack from within the stream (RFC 5961, 5).
            _ if acked == 0 || acked > sent => {
                self.acknowledge();
                return false;
            }
            State::LastAck if acked == sent => {
                self.end(State::Closed);
                return false;
            }
            _ => {}
        }
        true
    }

    fn data(&mut self, now: Picoseconds, from: i64, fin: bool, payload: &[u8]) {
        if self.state != State::Established {
            // Data behind the FIN: it was acknowledged, say so again.
            self.acknowledge();
            return;
        }
        let cut = (-from).clamp(0, payload.len() as i64) as usize;
        let start = (from + cut as i64) as u64;
        let bytes = start..start + (payload.len() - cut) as u64;
        if payload.is_empty() && !fin {
            return;
        }
        let (old, edge) = (self.receive.next(), self.receive.edge());
        let accepted = match payload.is_empty() {
            false => self.receive.accept(bytes.clone()),
            true if bytes.start == old => Accepted::Next,
            true => Accepted::Kept,
        };
        let kept = matches!(accepted, Accepted::Next | Accepted::Filled | Accepted::Kept);
        if kept {
            let size = self.ring.len() as u64;
            for position in bytes.start.max(old)..bytes.end.min(edge) {
                let byte = payload[cut + (position - bytes.start) as usize];
                self.ring[(position % size) as usize] = byte;
            }
        }
        if fin && old < edge && bytes.end <= edge && (kept || accepted == Accepted::Duplicate) {
            self.fin = Some(bytes.end);
        }
        if self.fin == Some(self.receive.next()) {
            self.take_fin(now);
            return;
        }
        if accepted == Accepted::Next && self.listening.delay {
            self.unacknowledged += 1;
            if self.unacknowledged < 2 {
                self.ack_timer.get_or_insert(now + ACK_DELAY);
                return;
            }
        }
        self.acknowledge();
    }

    /// All data are there: the own FIN follows, which acknowledges the other's.
    fn take_fin(&mut self, now: Picoseconds) {
        self.fin_taken = true;
        self.ack_timer = None;
        self.finish();
        self.state = State::LastAck;
        self.timer = Some((now + FIRST_TIMEOUT, 1));
    }

    fn finish(&mut self) {
        let Some(to) = self.remote else { return };
        let seq = self.listening.iss.wrapping_add(1);
        let header = self.header(to, seq, flags::FIN | flags::ACK);
        self.out.push_back(emit(&header, &[]));
    }

    fn end(&mut self, state: State) {
        self.state = state;
        self.timer = None;
        self.ack_timer = None;
    }

    /// A timer has run out.
    pub fn time_out(&mut self, now: Picoseconds) {
        if self.ack_timer.is_some_and(|time| time <= now) {
            self.acknowledge();
        }
        let Some((_, tries)) = self.timer.filter(|(time, _)| *time <= now) else {
            return;
        };
        if tries == MOST_TRIES {
            match self.state {
                State::SynReceived => *self = Self::new(self.listening),
                _ => self.end(State::Reset),
            }
            return;
        }
        self.timer = Some((now + FIRST_TIMEOUT.times(1 << tries), tries + 1));
        match self.state {
            State::SynReceived => self.syn_ack(),
            _ => self.finish(),
        }
    }
}
