// SPDX-License-Identifier: Apache-2.0
//! The half of a queue pair that sends requests, and what it makes of answers: InfiniBand specification, 9.7.3, 9.7.5, 9.9.2
//! and 10.8.

use crate::engine::Around;
use crate::memory::{Region, parts};
use crate::packet::{Packet, opcode as op};
use crate::pair::{Pair, Requester, Sent, State};
use crate::request::{Completion, Operation, Segment, Status, WorkRequest};
use crate::{INLINE_BYTES, OUTSTANDING, PSN_MASK, SEGMENTS, WINDOW, distance, is_before, syndrome};

const ATOMIC: u32 = 8;
const TOO_LONG: u32 = 1 << 31;
/// An acknowledgement is asked for with a message's last packet, and with those whose number ends in ones.
const ASKS: u32 = 15;
/// For ever.
const ENDLESS: u8 = 7;
const CODE_MASK: u8 = 0x1F;

/// The time that an RNR NAK asks for in microseconds (table 45).
fn not_ready_us(code: u8) -> u32 {
    match code & CODE_MASK {
        0 => 655_360,
        1 => 10,
        code => (if code & 1 == 1 { 15 } else { 10 }) << (code >> 1),
    }
}

/// 4.096 us * 2^n, rounded.
fn timeout_us(code: u8) -> u32 {
    (4 << code) + ((1 << code) >> 3)
}

/// `now` is not before `then`.
fn is_due(now: u32, then: u32) -> bool {
    now.wrapping_sub(then) < 1 << 31
}

impl Requester {
    /// Goes back to the oldest packet that was not acknowledged.
    fn rewind(&mut self) {
        self.next = 0;
        self.next_psn = self.una;
        self.next_first = self.una_first;
        self.waiting = 0;
    }

    /// Behind the last packet of the oldest request.
    fn oldest_end(&self, packets: u32) -> u32 {
        self.una_first.wrapping_add(packets) & PSN_MASK
    }
}

/// Why a request is none that can be done.
fn refusal(request: &WorkRequest) -> Option<Status> {
    let operation = request.operation;
    let inline = request.inline.is_some();
    let listed = request.segments.len() > 1;
    let data = operation.is_send() || operation.is_write();
    if operation == Operation::Unknown
        || inline && !data
        || listed && (inline || operation.is_atomic())
        || request.segments.len() > SEGMENTS
    {
        return Some(Status::LocalOperation);
    }
    let wrong = request.length >= TOO_LONG
        || inline && request.length > INLINE_BYTES
        || operation.is_atomic() && request.length != ATOMIC;
    wrong.then_some(Status::LocalLength)
}

impl Pair {
    pub(crate) fn enqueue(&mut self, request: WorkRequest) -> u16 {
        let index = self.requester.posted;
        self.requester.posted = index.wrapping_add(1);
        self.requester.queue.push_back(Sent { index, request });
        index
    }

    fn packets_of(&self, request: &WorkRequest) -> u32 {
        if request.operation.is_atomic() {
            1
        } else {
            self.settings.packets(request.length)
        }
    }

    /// Sends what may be sent.
    pub(crate) fn send(&mut self, around: &mut Around<'_>) {
        while !self.error && !self.requester.not_ready {
            let r = &self.requester;
            let begins = r.next_psn == r.next_first;
            let full = distance(r.next_psn, r.una) >= WINDOW || begins && r.next >= OUTSTANDING;
            let Some(Sent { request, .. }) = r.queue.get(r.next).filter(|_| !full) else {
                return;
            };
            let request = request.clone();
            let packet = match refusal(&request) {
                Some(status) => Err(status),
                None => {
                    let blocked = request.operation.waits() && r.waiting >= self.settings.rd_atomic
                        || request.fence && begins && r.waiting != 0;
                    if blocked {
                        return;
                    }
                    self.next_packet(&request, around)
                }
            };
            match packet {
                Ok(packet) => self.sent(packet, &request, around),
                // What went before ends before.
                Err(_) if self.requester.next != 0 => return,
                Err(status) => self.stop(status),
            }
        }
    }

    /// The next packet of a request, or why there is none.
    fn next_packet(
        &self,
        request: &WorkRequest,
        around: &mut Around<'_>,
    ) -> Result<Packet, Status> {
        let r = &self.requester;
        let s = &self.settings;
        let done = distance(r.next_psn, r.next_first);
        let offset = done * s.mtu();
        let rest = request.length - offset;
        let mut packet = s.packet(0, r.next_psn);
        packet.va = request.remote_va.wrapping_add(u64::from(offset));
        packet.key = request.remote_key;
        packet.swap = request.swap;
        packet.imm = request.imm;
        let operation = request.operation;
        let last = operation.waits() || rest <= s.mtu();
        if operation.waits() {
            let bytes = if operation.is_atomic() {
                ATOMIC
            } else {
                request.length
            };
            for part in parts(&request.list(), 0, bytes) {
                let part = part.map_err(|_| Status::LocalLength)?;
                let may = around.memory.bytes(part, s.pd, Region::LOCAL_WRITE);
                may.ok_or(Status::LocalProtection)?;
            }
        } else {
            let bytes = rest.min(s.mtu());
            packet.payload = self.payload(request, offset, bytes, around)?;
        }
        packet.length = if operation == Operation::Read {
            rest
        } else {
            request.length
        };
        if operation == Operation::CompareSwap {
            packet.compare = request.compare;
        }
        packet.solicited = request.solicited && last;
        packet.ack_req = last || r.next_psn & ASKS == ASKS;
        packet.opcode = opcode(operation, done == 0, last);
        Ok(packet.relevant())
    }

    fn payload(
        &self,
        request: &WorkRequest,
        offset: u32,
        bytes: u32,
        around: &mut Around<'_>,
    ) -> Result<Vec<u8>, Status> {
        if let Some(data) = &request.inline {
            return Ok(data[offset as usize..(offset + bytes) as usize].to_vec());
        }
        let mut payload = Vec::with_capacity(bytes as usize);
        for part in parts(&request.list(), offset, bytes) {
            let part = part.map_err(|_| Status::LocalLength)?;
            let found = around.memory.bytes(part, self.settings.pd, 0);
            payload.extend_from_slice(found.ok_or(Status::LocalProtection)?);
        }
        Ok(payload)
    }

    fn sent(&mut self, packet: Packet, request: &WorkRequest, around: &mut Around<'_>) {
        let all = self.packets_of(request);
        let timeout = timeout_us(self.settings.timeout);
        let r = &mut self.requester;
        let done = distance(r.next_psn, r.next_first);
        let last = request.operation.waits() || done + 1 == all;
        let count = if request.operation.waits() {
            all - done
        } else {
            1
        };
        if r.una == r.max {
            r.deadline = around.now_us.wrapping_add(timeout);
        }
        r.next_psn = r.next_psn.wrapping_add(count) & PSN_MASK;
        if !is_before(r.next_psn, r.max) {
            r.max = r.next_psn;
        }
        if last {
            r.next += 1;
            r.next_first = r.next_psn;
            r.waiting += u8::from(request.operation.waits());
        }
        around.out.push_back(packet);
    }

    /// Progress: the clock begins anew, and what was to be sent again may be no more.
    fn refresh(&mut self, now_us: u32) {
        let s = self.settings;
        let r = &mut self.requester;
        r.retries = s.retry;
        r.rnr_retries = s.rnr_retry;
        r.rewound = false;
        r.deadline = now_us.wrapping_add(timeout_us(s.timeout));
        if is_before(r.next_psn, r.una) {
            r.rewind();
        }
    }

    /// The oldest request has ended well.
    fn retire(&mut self, bytes: u32) {
        let Some(oldest) = self.requester.queue.pop_front() else {
            return;
        };
        let all = self.packets_of(&oldest.request);
        let r = &mut self.requester;
        r.una = r.oldest_end(all);
        r.una_first = r.una;
        r.next = r.next.saturating_sub(1);
        if oldest.request.operation.waits() {
            r.waiting = r.waiting.saturating_sub(1);
        }
        if oldest.request.signaled {
            self.completions.push_back(Completion {
                operation: oldest.request.operation as u8,
                bytes,
                ..Completion::plain(false, oldest.index, Status::Success)
            });
        }
    }

    /// An answer has come.
    pub(crate) fn answer(&mut self, packet: &Packet, around: &mut Around<'_>) {
        let r = &self.requester;
        let ahead = distance(packet.psn, r.una);
        let ghost = ahead >= distance(r.max, r.una);
        if ghost || self.error || self.settings.state != State::ReadyToSend {
            around.counters.rx_ghost += 1;
            return;
        }
        let kind = packet.syndrome >> syndrome::KIND_BITS;
        let is = |code: u8| packet.opcode == op::ACKNOWLEDGE && kind == code >> syndrome::KIND_BITS;
        let (not_ready, refused) = (is(syndrome::NOT_READY), is(syndrome::SEQUENCE));
        let acknowledges = packet.opcode == op::ACKNOWLEDGE && !not_ready && !refused;
        // Behind all that it acknowledges.
        let target = packet.psn.wrapping_add(u32::from(acknowledges)) & PSN_MASK;
        if self.acknowledged(target, around.now_us) {
            // The answer of a READ or atomic is missing.
            if !self.requester.rewound {
                around.counters.tx_rewind += 1;
                self.requester.rewind();
                self.requester.rewound = true;
            }
        } else if not_ready {
            self.peer_not_ready(packet.syndrome, around);
        } else if refused {
            self.refused(packet.syndrome, around);
        } else if !acknowledges {
            self.brought(packet, around);
        }
    }

    /// All before `target` is acknowledged, up to a READ or atomic, which only its own answer ends: then it says so.
    fn acknowledged(&mut self, target: u32, now_us: u32) -> bool {
        let mut gap = false;
        let mut progress = false;
        while self.requester.una != target {
            let Some(oldest) = self.requester.queue.front() else {
                break;
            };
            if oldest.request.operation.waits() {
                gap = true;
                break;
            }
            progress = true;
            let r = &self.requester;
            let all = self.packets_of(&oldest.request);
            let left = distance(r.oldest_end(all), r.una);
            if distance(target, r.una) >= left {
                self.retire(0);
            } else {
                self.requester.una = target;
            }
        }
        if progress {
            self.refresh(now_us);
        }
        gap
    }

    fn peer_not_ready(&mut self, code: u8, around: &mut Around<'_>) {
        if self.requester.rnr_retries == 0 {
            self.stop(Status::NotReady);
            return;
        }
        around.counters.tx_rewind += 1;
        let r = &mut self.requester;
        r.rewind();
        r.not_ready = true;
        r.deadline = around.now_us.wrapping_add(not_ready_us(code));
        if r.rnr_retries != ENDLESS {
            r.rnr_retries -= 1;
        }
    }

    fn refused(&mut self, code: u8, around: &mut Around<'_>) {
        let r = &mut self.requester;
        match code {
            // It goes back anyhow.
            syndrome::SEQUENCE if r.not_ready => {}
            syndrome::SEQUENCE if r.retries != 0 => {
                around.counters.tx_rewind += 1;
                r.rewind();
                r.retries -= 1;
            }
            syndrome::SEQUENCE => self.stop(Status::Retry),
            syndrome::INVALID => self.stop(Status::RemoteInvalid),
            syndrome::ACCESS => self.stop(Status::RemoteAccess),
            _ => self.stop(Status::RemoteOperation),
        }
    }

    /// The answer of the oldest request, of which `una` is the packet that is to come.
    fn brought(&mut self, packet: &Packet, around: &mut Around<'_>) {
        let mtu = self.settings.mtu();
        let pd = self.settings.pd;
        let r = &self.requester;
        let Some(Sent { request, .. }) = r.queue.front() else {
            return;
        };
        let offset = distance(r.una, r.una_first) * mtu;
        let atomic = packet.opcode == op::ATOMIC_ACKNOWLEDGE;
        let rest = request.length.saturating_sub(offset);
        let last = rest <= mtu;
        let says_last = matches!(
            packet.opcode,
            op::READ_RESPONSE_LAST | op::READ_RESPONSE_ONLY
        );
        let fits = if atomic {
            request.operation.is_atomic()
        } else {
            request.operation == Operation::Read
                && packet.payload.len() as u32 == rest.min(mtu)
                && says_last == last
        };
        if !fits {
            self.stop(Status::BadResponse);
            return;
        }
        let word = packet.swap.to_le_bytes();
        let mut data = if atomic {
            &word[..]
        } else {
            &packet.payload[..]
        };
        let list: Vec<Segment> = request.list();
        let whole = request.length;
        let from = if atomic { 0 } else { offset };
        for part in parts(&list, from, data.len() as u32) {
            let place = part.ok();
            let place = place.and_then(|p| around.memory.bytes(p, pd, Region::LOCAL_WRITE));
            let Some(place) = place else {
                self.stop(Status::LocalProtection);
                return;
            };
            let (now, later) = data.split_at(place.len());
            place.copy_from_slice(now);
            data = later;
        }
        if atomic || last {
            self.retire(whole);
        } else {
            self.requester.una = self.requester.una.wrapping_add(1) & PSN_MASK;
        }
        self.refresh(around.now_us);
    }

    /// Time-outs, and the end of waiting for a peer that was not ready.
    pub(crate) fn look_at_clock(&mut self, around: &mut Around<'_>) {
        let code = self.settings.timeout;
        let r = &mut self.requester;
        let late = is_due(around.now_us, r.deadline);
        if self.error || self.settings.state != State::ReadyToSend || !late {
            return;
        }
        let again = around.now_us.wrapping_add(timeout_us(code));
        if r.not_ready {
            r.not_ready = false;
            r.deadline = again;
        } else if r.una != r.max && code != 0 {
            around.counters.tx_timeout += 1;
            if r.retries == 0 {
                self.stop(Status::Retry);
                return;
            }
            around.counters.tx_rewind += 1;
            r.rewind();
            r.retries -= 1;
            r.rewound = true;
            r.deadline = again;
        }
    }
}

fn opcode(operation: Operation, first: bool, last: bool) -> u8 {
    let place = match (first, last) {
        (true, true) => 3,
        (true, false) => 0,
        (false, false) => 1,
        (false, true) => 2,
    };
    let of = |list: [u8; 4]| list[place];
    let (f, m) = (op::SEND_FIRST, op::SEND_MIDDLE);
    let (wf, wm) = (op::WRITE_FIRST, op::WRITE_MIDDLE);
    match operation {
        Operation::Send | Operation::Unknown => of([f, m, op::SEND_LAST, op::SEND_ONLY]),
        Operation::SendImm => of([f, m, op::SEND_LAST_IMM, op::SEND_ONLY_IMM]),
        Operation::SendInv => of([f, m, op::SEND_LAST_INV, op::SEND_ONLY_INV]),
        Operation::Write => of([wf, wm, op::WRITE_LAST, op::WRITE_ONLY]),
        Operation::WriteImm => of([wf, wm, op::WRITE_LAST_IMM, op::WRITE_ONLY_IMM]),
        Operation::Read => op::READ_REQUEST,
        Operation::CompareSwap => op::COMPARE_SWAP,
        Operation::FetchAdd => op::FETCH_ADD,
    }
}
