// SPDX-License-Identifier: Apache-2.0
//! The half of a queue pair that answers: InfiniBand specification, 9.7.4 and 9.9.

use std::mem;

use crate::engine::Around;
use crate::memory::{Region, parts};
use crate::packet::{Packet, opcode as op};
use crate::pair::{Message, Pair};
use crate::request::{Completion, Segment, Status};
use crate::{PSN_MASK, is_before, syndrome};

/// Atomics are of 8 bytes, and aligned.
const ATOMIC: u32 = 8;
/// Lengths of 2^31 and more are none.
const TOO_LONG: u32 = 1 << 31;

/// What an opcode says.
#[derive(Clone, Copy)]
struct Kind {
    send: bool,
    write: bool,
    read: bool,
    atomic: bool,
    first: bool,
    last: bool,
    imm: bool,
    inv: bool,
}

impl Kind {
    fn of(opcode: u8) -> Self {
        let is = |list: &[u8]| list.contains(&opcode);
        let inv = is(&[op::SEND_LAST_INV, op::SEND_ONLY_INV]);
        let only = is(&[op::SEND_ONLY, op::SEND_ONLY_IMM, op::SEND_ONLY_INV])
            || is(&[op::WRITE_ONLY, op::WRITE_ONLY_IMM]);
        let ends = is(&[op::SEND_LAST, op::SEND_LAST_IMM, op::SEND_LAST_INV])
            || is(&[op::WRITE_LAST, op::WRITE_LAST_IMM]);
        Self {
            send: opcode <= op::SEND_ONLY_IMM || inv,
            write: (op::WRITE_FIRST..=op::WRITE_ONLY_IMM).contains(&opcode),
            read: opcode == op::READ_REQUEST,
            atomic: is(&[op::COMPARE_SWAP, op::FETCH_ADD]),
            first: only || is(&[op::SEND_FIRST, op::WRITE_FIRST]),
            last: only || ends,
            imm: is(&[op::SEND_LAST_IMM, op::SEND_ONLY_IMM])
                || is(&[op::WRITE_LAST_IMM, op::WRITE_ONLY_IMM]),
            inv,
        }
    }

    /// It takes a receive buffer.
    const fn needs_buffer(self) -> bool {
        self.send && self.first || self.write && self.imm
    }
}

impl Pair {
    /// A request has come.
    pub(crate) fn request(&mut self, packet: &Packet, around: &mut Around<'_>) {
        let kind = Kind::of(packet.opcode);
        let expected = self.responder.expected;
        if self.error {
            around.counters.rx_ghost += 1;
        } else if is_before(packet.psn, expected) {
            around.counters.rx_duplicate += 1;
            self.repeat(packet, kind, around);
        } else if packet.psn != expected {
            around.counters.rx_sequence += 1;
            if !mem::replace(&mut self.responder.told, true) {
                self.acknowledge(syndrome::SEQUENCE, expected, around);
            }
        } else {
            self.responder.told = false;
            if let Err(code) = self.expected(packet, kind, around) {
                self.refuse(code, around);
            }
        }
    }

    /// One that was done before: it is answered, not done, again.
    fn repeat(&mut self, packet: &Packet, kind: Kind, around: &mut Around<'_>) {
        if kind.read {
            let whole = Segment {
                va: packet.va,
                key: packet.key,
                bytes: packet.length,
            };
            let permitted = self.settings.rights & Region::REMOTE_READ != 0;
            let pd = self.settings.pd;
            let may = around.memory.bytes(whole, pd, Region::REMOTE_READ);
            if packet.length == 0 || (permitted && may.is_some()) {
                self.answer_read(packet, around);
            }
        } else if kind.atomic {
            let results = &self.responder.results;
            if let Some(&(_, value)) = results.iter().find(|(psn, _)| *psn == packet.psn) {
                self.answer_atomic(packet.psn, value, around);
            }
        } else if packet.ack_req {
            let last = self.responder.expected.wrapping_sub(1) & PSN_MASK;
            self.acknowledge(syndrome::ACK, last, around);
        }
    }

    /// The one that is expected. What is returned is the NAK with which the queue pair stops.
    fn expected(&mut self, packet: &Packet, kind: Kind, around: &mut Around<'_>) -> Result<(), u8> {
        if !self.is_valid(packet, kind) {
            return Err(syndrome::INVALID);
        }
        if kind.needs_buffer() && self.responder.buffers.is_empty() {
            around.counters.rx_not_ready += 1;
            self.responder.told = true;
            let code = syndrome::NOT_READY | self.settings.min_rnr;
            self.acknowledge(code, packet.psn, around);
            return Ok(());
        }
        let need = match kind {
            Kind { write: true, .. } => Region::REMOTE_WRITE,
            Kind { read: true, .. } => Region::REMOTE_READ,
            Kind { atomic: true, .. } => Region::REMOTE_ATOMIC,
            _ => 0,
        };
        if need & !self.settings.rights != 0 {
            return Err(syndrome::ACCESS);
        }
        let bytes = if kind.atomic { ATOMIC } else { packet.length };
        let whole = Segment {
            va: packet.va,
            key: packet.key,
            bytes,
        };
        let asks = kind.atomic || ((kind.write && kind.first) || kind.read) && bytes != 0;
        let pd = self.settings.pd;
        if asks && around.memory.bytes(whole, pd, need).is_none() {
            return Err(syndrome::ACCESS);
        }
        match kind {
            Kind { send: true, .. } => self.place_send(packet, kind, around)?,
            Kind { write: true, .. } => self.place_write(packet, kind, around)?,
            Kind { read: true, .. } => {
                let packets = self.settings.packets(packet.length);
                self.done(packets, true);
                self.answer_read(packet, around);
                return Ok(());
            }
            _ => {
                let value = change(packet, whole, pd, around);
                self.done(1, true);
                self.responder.keep(packet.psn, value);
                self.answer_atomic(packet.psn, value, around);
                return Ok(());
            }
        }
        self.done(1, kind.last);
        if packet.ack_req {
            self.acknowledge(syndrome::ACK, packet.psn, around);
        }
        Ok(())
    }

    /// Its place in a message, and its lengths (9.7.4.1).
    fn is_valid(&self, packet: &Packet, kind: Kind) -> bool {
        let mtu = self.settings.mtu();
        let bytes = packet.payload.len() as u32;
        if kind.atomic {
            return self.responder.message == Message::None
                && packet.va.is_multiple_of(u64::from(ATOMIC));
        }
        if kind.read {
            return self.responder.message == Message::None && packet.length < TOO_LONG;
        }
        let fits = if kind.last {
            bytes <= mtu && (kind.first || bytes != 0)
        } else {
            bytes == mtu
        };
        let follows = match self.responder.message {
            Message::None => kind.first,
            Message::Send { .. } => kind.send && !kind.first,
            Message::Write { left, .. } => {
                let right = if kind.last {
                    bytes == left
                } else {
                    bytes <= left
                };
                kind.write && !kind.first && right
            }
        };
        let announced = match kind {
            Kind {
                write: true,
                first: true,
                last,
                ..
            } => {
                packet.length < TOO_LONG
                    && (if last {
                        bytes == packet.length
                    } else {
                        packet.length > mtu
                    })
            }
            _ => true,
        };
        fits && follows && announced
    }

    fn take_buffer(&mut self) -> Vec<Segment> {
        let responder = &mut self.responder;
        responder.taken = responder.taken.wrapping_add(1);
        responder.buffers.pop_front().unwrap_or_default()
    }

    fn place_send(
        &mut self,
        packet: &Packet,
        kind: Kind,
        around: &mut Around<'_>,
    ) -> Result<(), u8> {
        if kind.first {
            let list = self.take_buffer();
            self.responder.message = Message::Send { list, got: 0 };
        }
        let pd = self.settings.pd;
        let bytes = packet.payload.len() as u32;
        let Message::Send { list, got } = &mut self.responder.message else {
            return Err(syndrome::INVALID);
        };
        let room = list.iter().map(|s| u64::from(s.bytes)).sum::<u64>();
        if u64::from(*got) + u64::from(bytes) > room.min(u64::from(u32::MAX)) {
            self.end_receive(Status::LocalLength);
            return Err(syndrome::INVALID);
        }
        let mut rest = &packet.payload[..];
        for part in parts(list, *got, bytes) {
            let place = part
                .ok()
                .and_then(|p| around.memory.bytes(p, pd, Region::LOCAL_WRITE));
            let Some(place) = place else {
                self.end_receive(Status::LocalProtection);
                return Err(syndrome::OPERATION);
            };
            let (now, later) = rest.split_at(place.len());
            place.copy_from_slice(now);
            rest = later;
        }
        *got += bytes;
        let all = *got;
        if kind.last {
            self.responder.message = Message::None;
            self.completions.push_back(self.received(packet, kind, all));
            if kind.inv {
                around.memory.end(packet.imm, pd);
            }
        }
        Ok(())
    }

    /// The message's buffer ends so.
    fn end_receive(&mut self, status: Status) {
        self.responder.message = Message::None;
        let index = self.responder.taken.wrapping_sub(1);
        self.completions
            .push_back(Completion::plain(true, index, status));
    }

    fn place_write(
        &mut self,
        packet: &Packet,
        kind: Kind,
        around: &mut Around<'_>,
    ) -> Result<(), u8> {
        let bytes = packet.payload.len() as u32;
        let (va, key, left) = match self.responder.message {
            Message::Write { va, key, left } => (va, key, left),
            _ => (packet.va, packet.key, packet.length),
        };
        let pd = self.settings.pd;
        if bytes != 0 {
            let part = Segment { va, key, bytes };
            let place = around.memory.bytes(part, pd, Region::REMOTE_WRITE);
            place
                .ok_or(syndrome::ACCESS)?
                .copy_from_slice(&packet.payload);
        }
        self.responder.message = if kind.last {
            Message::None
        } else {
            Message::Write {
                va: va.wrapping_add(u64::from(bytes)),
                key,
                left: left - bytes,
            }
        };
        self.responder.written = if kind.first {
            bytes
        } else {
            self.responder.written + bytes
        };
        if kind.imm {
            self.take_buffer();
            let all = self.responder.written;
            self.completions.push_back(self.received(packet, kind, all));
        }
        Ok(())
    }

    fn received(&self, packet: &Packet, kind: Kind, bytes: u32) -> Completion {
        Completion {
            bytes,
            operation: packet.opcode,
            imm: kind.imm.then_some(packet.imm),
            invalidated: kind.inv.then_some(packet.imm),
            ..Completion::plain(true, self.responder.taken.wrapping_sub(1), Status::Success)
        }
    }

    fn done(&mut self, packets: u32, ends: bool) {
        let responder = &mut self.responder;
        responder.expected = responder.expected.wrapping_add(packets) & PSN_MASK;
        responder.msn = responder.msn.wrapping_add(u32::from(ends)) & PSN_MASK;
    }

    /// Stops, and says why.
    fn refuse(&mut self, code: u8, around: &mut Around<'_>) {
        let counter = match code {
            syndrome::INVALID => &mut around.counters.rx_invalid,
            syndrome::ACCESS => &mut around.counters.rx_access,
            _ => &mut around.counters.rx_operation,
        };
        *counter += 1;
        if let Message::Send { .. } = self.responder.message {
            self.end_receive(Status::Flushed);
        }
        self.responder.message = Message::None;
        self.acknowledge(code, self.responder.expected, around);
        self.error = true;
    }

    fn acknowledge(&self, syndrome: u8, psn: u32, around: &mut Around<'_>) {
        let mut packet = self.settings.packet(op::ACKNOWLEDGE, psn);
        packet.syndrome = syndrome;
        packet.msn = self.responder.msn;
        around.out.push_back(packet);
    }

    fn answer_atomic(&self, psn: u32, value: u64, around: &mut Around<'_>) {
        let mut packet = self.settings.packet(op::ATOMIC_ACKNOWLEDGE, psn);
        packet.syndrome = syndrome::ACK;
        packet.msn = self.responder.msn;
        packet.swap = value;
        around.out.push_back(packet);
    }

    /// All packets of a READ's answer; what may be read was looked at.
    fn answer_read(&self, packet: &Packet, around: &mut Around<'_>) {
        let count = self.settings.packets(packet.length);
        let mtu = self.settings.mtu();
        for n in 0..count {
            let part = Segment {
                va: packet.va.wrapping_add(u64::from(n * mtu)),
                key: packet.key,
                bytes: (packet.length - n * mtu).min(mtu),
            };
            let opcode = match (n == 0, n + 1 == count) {
                (true, true) => op::READ_RESPONSE_ONLY,
                (true, false) => op::READ_RESPONSE_FIRST,
                (false, true) => op::READ_RESPONSE_LAST,
                (false, false) => op::READ_RESPONSE_MIDDLE,
            };
            let psn = packet.psn.wrapping_add(n) & PSN_MASK;
            let mut answer = self.settings.packet(opcode, psn);
            if opcode != op::READ_RESPONSE_MIDDLE {
                answer.syndrome = syndrome::ACK;
                answer.msn = self.responder.msn;
            }
            if part.bytes != 0 {
                let bytes = around
                    .memory
                    .bytes(part, self.settings.pd, Region::REMOTE_READ);
                answer.payload = bytes.map_or_else(Vec::new, |bytes| bytes.to_vec());
            }
            around.out.push_back(answer);
        }
    }
}

/// Does an atomic; returns what was there.
fn change(packet: &Packet, place: Segment, pd: u16, around: &mut Around<'_>) -> u64 {
    let Some(bytes) = around.memory.bytes(place, pd, Region::REMOTE_ATOMIC) else {
        return 0;
    };
    let mut word = [0; ATOMIC as usize];
    word.copy_from_slice(bytes);
    let before = u64::from_le_bytes(word);
    let after = match packet.opcode {
        op::FETCH_ADD => before.wrapping_add(packet.swap),
        _ if before == packet.compare => packet.swap,
        _ => before,
    };
    bytes.copy_from_slice(&after.to_le_bytes());
    before
}
