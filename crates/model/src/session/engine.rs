// SPDX-License-Identifier: Apache-2.0
//! What sessions do: frames that wait for their session, resends, acknowledgements, time-outs, flushes.

use wire::{
    CONTROL_ACK, CONTROL_NACK, EVENT_FLUSH_FAILED, EVENT_FLUSHED, EVENT_PEER_LOST, FMT_MWR64,
    NetCounter, SessionStatus,
};

use crate::build::{self, Route};
use crate::effects::{FrameSource, Sink};
use crate::events::Event;
use crate::nic::Nic;
use crate::session::receiver::{Answer, Receiver};
use crate::session::sender::{self, Operation, Sender};
use crate::session::timers::Due;
use crate::verdict::{ErrorReport, Peer};

/// Frames of a session that may be in flight at most, whatever the register says.
const MOST_IN_FLIGHT: u32 = 127;

/// A store or load that was permitted, and who it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The operation.
    pub operation: Operation,
    /// The session that carries it.
    pub session: Option<u8>,
    /// The peer.
    pub pc_id: u16,
    /// Source port of its frame outside of sessions.
    pub source_port: u16,
}

/// What leaves in the order in which it came.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// A store or load with its data.
    Operation(Ticket, Vec<u8>),
    /// A flush: PC ID and cookie.
    Mark(u16, u16),
}

/// A flush that waits for acknowledgements.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    session: u8,
    /// All frames before this number must have arrived.
    target: u32,
    cookie: u16,
}

impl Nic {
    fn most_in_flight(&self) -> u32 {
        (self.registers.window & 0xFF).min(MOST_IN_FLIGHT)
    }

    fn acknowledge_every(&self) -> u32 {
        self.registers.window >> 8 & 0xFF
    }

    /// How often a time-out is doubled while the round trip is not known, and for a long one at most.
    fn most_stretch(&self) -> u8 {
        (self.registers.resend_limit >> 12 & 0xF) as u8
    }

    /// Ticks without progress after which a session sends again.
    fn resend_ticks(&mut self, session: u8) -> u64 {
        let most = (self.registers.resend_limit >> 8 & 0xF) as u8;
        let ticks = u64::from(self.registers.resend_ticks.max(1));
        let stretch = self.half(session).stretch.min(self.most_stretch());
        ticks << self.half(session).retries.min(most).max(stretch)
    }

    fn half(&mut self, session: u8) -> &mut Sender {
        &mut self.sessions.sessions[usize::from(session)].sender
    }

    fn receiver(&mut self, session: u8) -> &mut Receiver {
        &mut self.sessions.sessions[usize::from(session)].receiver
    }

    /// How frames in a session are addressed; `None` if it can't be used.
    pub(crate) fn session_route(&self, session: u8, to: Peer) -> Option<Route> {
        let entry = self.sessions.valid(session)?;
        self.sessions.can_send(session).then(|| Route {
            from: self.identity(),
            to,
            source_port: entry.port,
            epoch: (entry.port >> 8) as u8 & 0x3F,
            acknowledgement: None,
        })
    }

    /// Sends the frame in the buffer, sealed if its session says so.
    pub(crate) fn send_frame(
        &mut self,
        source: FrameSource,
        session: Option<u8>,
        out: &mut impl Sink,
    ) {
        if let Some(session) = session {
            self.sessions.seal(session, &mut self.buffer);
        }
        out.frame(source, &self.buffer);
    }

    /// Sends a store or load behind those that wait.
    pub(crate) fn submit(&mut self, ticket: &Ticket, data: &[u8], out: &mut impl Sink) {
        if self.outgoing.is_empty() && self.try_send(ticket, data, out) {
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(data);
        self.outgoing.push_back(Outgoing::Operation(*ticket, copy));
    }

    /// Asks when all stores to a peer that came before are delivered.
    pub(crate) fn flush(&mut self, pc_id: u16, cookie: u16, out: &mut impl Sink) {
        self.outgoing.push_back(Outgoing::Mark(pc_id, cookie));
        self.send_waiting(out);
    }

    /// Sends what waits, as far as sessions let it.
    pub(crate) fn send_waiting(&mut self, out: &mut impl Sink) {
        while let Some(next) = self.outgoing.pop_front() {
            match next {
                Outgoing::Operation(ticket, data) => {
                    if !self.try_send(&ticket, &data, out) {
                        self.outgoing.push_front(Outgoing::Operation(ticket, data));
                        return;
                    }
                    self.spare.push(data);
                }
                Outgoing::Mark(pc_id, cookie) => self.mark(pc_id, cookie, out),
            }
        }
    }

    /// Sends a store or load, or drops it because its session is lost; `false` if it must wait.
    fn try_send(&mut self, ticket: &Ticket, data: &[u8], out: &mut impl Sink) -> bool {
        let operation = &ticket.operation;
        let sequence;
        let route;
        if let Some(session) = ticket.session {
            let usable = self.session_route(session, operation.to);
            let Some(with_port) = usable.filter(|_| !self.half(session).lost) else {
                self.counters.count_net(NetCounter::TxLost);
                return true;
            };
            let most = self.most_in_flight();
            if !self.half(session).is_open(most) || !self.sessions.buffer.has_room() {
                return false;
            }
            if self.half(session).is_idle() {
                let ticks = self.resend_ticks(session);
                self.sessions.timers.resend_in(session, ticks);
                let now = self.sessions.timers.now();
                let measured = self.most_stretch() != 0;
                self.half(session).timed = measured.then_some(now);
            }
            let slot = self.sessions.buffer.keep(*operation, data);
            sequence = self.half(session).start(slot);
            route = Route {
                acknowledgement: self.take_along(session, operation),
                ..with_port
            };
        } else {
            let next = &mut self.sequences[usize::from(ticket.pc_id)];
            sequence = u32::from(*next);
            *next = next.wrapping_add(1);
            route = Route {
                source_port: ticket.source_port,
                ..self.reply_route(operation.to)
            };
        }
        sender::emit_operation(&mut self.buffer, operation, data, &route, sequence);
        self.counters
            .count_net(if operation.request.fmt_type == FMT_MWR64 {
                NetCounter::TxStore
            } else {
                NetCounter::TxLoad
            });
        self.send_frame(FrameSource::Requester, ticket.session, out);
        true
    }

    /// The acknowledgement that a new frame takes along: one that waits, if it fits well.
    fn take_along(&mut self, session: u8, operation: &Operation) -> Option<u16> {
        let every = self.acknowledge_every();
        let receiver = self.receiver(session);
        let urgent = 2 * receiver.pending >= every;
        let fits = operation.form.is_none() || operation.request.dws == 1 || urgent;
        if receiver.pending == 0 || !fits {
            return None;
        }
        receiver.acknowledged();
        let expected = receiver.expected as u16;
        self.sessions.timers.no_acknowledge(session);
        Some(expected)
    }

    /// Sends again what has to be: now, or one frame at a time as the line takes it.
    fn resend(&mut self, session: u8, out: &mut impl Sink) {
        if !self.config.paced {
            while self.resend_one(session, out) {}
        } else if !self.resending.contains(&session) {
            self.resending.push_back(session);
        }
    }

    /// Sends one frame of a session again; `false` if there is none, or it may not be sent.
    fn resend_one(&mut self, session: u8, out: &mut impl Sink) -> bool {
        let most = self.most_in_flight();
        let Some(slot) = self.half(session).to_resend(most) else {
            return false;
        };
        let half = self.half(session);
        let sequence = half.snd;
        half.snd = sequence.wrapping_add(1);
        let Some(sent) = self.sessions.buffer.get(slot) else {
            return false;
        };
        let Some(route) = self.session_route(session, sent.operation.to) else {
            return false;
        };
        sender::emit(&mut self.buffer, sent, &route, sequence);
        self.counters.count_net(if sent.void {
            NetCounter::TxVoid
        } else {
            NetCounter::TxResend
        });
        self.send_frame(FrameSource::Resend, Some(session), out);
        true
    }

    /// Sends the next frame that must be sent again, of the sessions in turn, and then what waited for that; only if
    /// [`Config::paced`](crate::Config::paced).
    pub fn resend_next(&mut self, out: &mut impl Sink) {
        while let Some(session) = self.resending.pop_front() {
            if self.resend_one(session, out) {
                self.resending.push_back(session);
                break;
            }
        }
        self.send_waiting(out);
    }

    /// [`Nic::resend_next`] may have something to send.
    pub fn has_resends(&self) -> bool {
        !self.resending.is_empty()
    }

    /// The peer has moved on: timer, flushes.
    fn progress(&mut self, session: u8, out: &mut impl Sink) {
        if let Some(begun) = self.half(session).timed.take() {
            let trip = self.sessions.timers.now() - begun;
            let ticks = u64::from(self.registers.resend_ticks.max(1));
            let most = self.most_stretch();
            self.half(session).fit(trip, ticks, most);
        }
        if self.half(session).is_idle() {
            self.sessions.timers.no_resend(session);
        } else {
            let ticks = self.resend_ticks(session);
            self.sessions.timers.resend_in(session, ticks);
        }
        let una = self.half(session).una;
        self.end_marks(EVENT_FLUSHED, out, |mark| {
            mark.session == session && una.wrapping_sub(mark.target) as i32 >= 0
        });
    }

    /// The peer expects `next`; with `missing` it asks for it.
    pub(crate) fn acknowledged(
        &mut self,
        session: u8,
        next: u32,
        missing: bool,
        out: &mut impl Sink,
    ) {
        let state = &mut self.sessions.sessions[usize::from(session)].sender;
        let progress = state.acknowledge(next, &mut self.sessions.buffer);
        if missing {
            state.missing(next);
        }
        if progress {
            self.progress(session, out);
        }
        self.resend(session, out);
        self.send_waiting(out);
    }

    /// The low half of the number that the peer expects came with a frame of its own.
    pub(crate) fn acknowledged_short(&mut self, session: u8, low: u16, out: &mut impl Sink) {
        let next = wire::extend_sequence(low, self.half(session).una);
        self.acknowledged(session, next, false, out);
    }

    /// The peer refused a frame.
    pub(crate) fn refused(&mut self, session: u8, report: &ErrorReport, out: &mut impl Sink) {
        let state = &mut self.sessions.sessions[usize::from(session)].sender;
        let ours = state.refused(
            report.sequence,
            report.fmt_type,
            report.address,
            &mut self.sessions.buffer,
        );
        if ours {
            if self.config.voids_revoked && report.code == wire::ERR_BAD_KEY {
                let state = &mut self.sessions.sessions[usize::from(session)].sender;
                state.void_stores(&mut self.sessions.buffer);
            }
            let event = Event {
                code: report.code,
                op: report.fmt_type,
                number: report.sequence as u16,
                who: session.into(),
                address: report.address,
            };
            self.tell(event, out);
            self.progress(session, out);
            self.resend(session, out);
            self.send_waiting(out);
        }
    }

    /// Tells the peer of a session what it must know now, and remembers what it must know later.
    pub(crate) fn answer(&mut self, session: u8, out: &mut impl Sink) {
        let Some(entry) = self.sessions.valid(session) else {
            return;
        };
        let to = Peer {
            mac: entry.mac,
            ip: entry.ip,
        };
        let Some(route) = self.session_route(session, to) else {
            return;
        };
        let Some(answer) = self.receiver(session).answer() else {
            if self.receiver(session).pending > 0 {
                let ticks = u64::from(self.registers.ack_ticks.max(1));
                self.sessions.timers.acknowledge_in(session, ticks);
            }
            return;
        };
        self.sessions.timers.no_acknowledge(session);
        let (code, counter) = match answer {
            Answer::Acknowledgement => (CONTROL_ACK, NetCounter::TxAck),
            Answer::Missing => (CONTROL_NACK, NetCounter::TxNack),
        };
        let expected = self.receiver(session).expected;
        build::control(&mut self.buffer, &route, code, expected);
        self.counters.count_net(counter);
        self.send_frame(FrameSource::Control, Some(session), out);
    }

    /// Lets `ticks` of the network side pass (16 cycles of its clock each): resends and acknowledgements that are due
    /// in that time are sent.
    pub fn tick_net(&mut self, ticks: u64, out: &mut impl Sink) {
        let end = self.sessions.timers.now() + ticks;
        while let Some(due) = self.sessions.timers.advance(end) {
            match due {
                Due::Acknowledge(session) => {
                    self.receiver(session).waited_long_enough();
                    self.answer(session, out);
                }
                Due::Resend(session) => self.timed_out(session, out),
            }
        }
    }

    fn timed_out(&mut self, session: u8, out: &mut impl Sink) {
        let limit = self.registers.resend_limit as u8;
        let most = self.most_stretch();
        let half = self.half(session);
        half.time_out(most);
        let (una, nxt, retries) = (half.una, half.nxt, half.retries);
        self.counters.count_net(NetCounter::TxTimeout);
        if retries <= limit {
            let ticks = self.resend_ticks(session);
            self.sessions.timers.resend_in(session, ticks);
            self.resend(session, out);
            return;
        }
        let state = &mut self.sessions.sessions[usize::from(session)].sender;
        state.lost = true;
        state.drop_all(&mut self.sessions.buffer);
        let event = Event {
            code: EVENT_PEER_LOST,
            op: 0,
            number: una as u16,
            who: session.into(),
            address: u64::from(nxt) << 32 | u64::from(una),
        };
        self.tell(event, out);
        self.end_marks(EVENT_FLUSH_FAILED, out, |mark| mark.session == session);
        self.send_waiting(out);
    }

    /// Software wrote the entry of a session: it begins anew.
    pub(crate) fn begin_session(&mut self, session: u8, out: &mut impl Sink) {
        let stretch = self.most_stretch();
        let start = self
            .sessions
            .table
            .get(usize::from(session))
            .map_or(0, |entry| entry.start);
        let state = &mut self.sessions.sessions[usize::from(session)];
        state.sender.drop_all(&mut self.sessions.buffer);
        state.sender = Sender::new(start);
        state.sender.stretch = stretch;
        state.receiver = Receiver::new(start);
        self.sessions.timers.no_resend(session);
        self.sessions.timers.no_acknowledge(session);
        self.end_marks(EVENT_FLUSH_FAILED, out, |mark| mark.session == session);
        self.send_waiting(out);
    }

    fn mark(&mut self, pc_id: u16, cookie: u16, out: &mut impl Sink) {
        let session = u8::try_from(pc_id)
            .ok()
            .filter(|session| self.sessions.valid(*session).is_some());
        let state = session.and_then(|session| self.sessions.get(session));
        let state = state.filter(|state| !state.sender.lost);
        match (session, state) {
            (Some(session), Some(state)) if !state.sender.is_idle() => {
                self.marks.push_back(Mark {
                    session,
                    target: state.sender.nxt,
                    cookie,
                });
            }
            (_, Some(_)) => self.tell(flush_event(EVENT_FLUSHED, pc_id, cookie), out),
            (_, None) => self.tell(flush_event(EVENT_FLUSH_FAILED, pc_id, cookie), out),
        }
    }

    fn end_marks(&mut self, code: u8, out: &mut impl Sink, ends: impl Fn(&Mark) -> bool) {
        let mut at = 0;
        while at < self.marks.len() {
            if ends(&self.marks[at])
                && let Some(mark) = self.marks.remove(at)
            {
                self.tell(flush_event(code, mark.session.into(), mark.cookie), out);
            } else {
                at += 1;
            }
        }
    }

    /// What the window of the sessions' state shows; `None` beyond the table.
    pub fn session_status(&self, session: u8) -> Option<SessionStatus> {
        let state = self.sessions.get(session)?;
        let valid = self.sessions.valid(session).is_some();
        let sender = &state.sender;
        let open = sender.is_open(self.most_in_flight()) && self.sessions.buffer.has_room();
        Some(SessionStatus {
            retries: sender.retries,
            pace: 0,
            expected: state.receiver.expected,
            nxt: sender.nxt,
            una: sender.una,
            valid,
            idle: sender.is_idle(),
            resending: sender.snd != sender.nxt,
            open: valid && open,
            lost: sender.lost,
        })
    }

    /// Ticks of the network side until something is due by [`Nic::tick_net`].
    pub fn net_deadline(&self) -> Option<u64> {
        self.sessions.timers.until_next()
    }

    /// Stores, loads and flushes that wait for their session, or behind one that does.
    pub fn outgoing(&self) -> usize {
        self.outgoing.len()
    }
}

fn flush_event(code: u8, who: u16, cookie: u16) -> Event {
    Event {
        code,
        op: 0,
        number: cookie,
        who,
        address: 0,
    }
}
