// SPDX-License-Identifier: Apache-2.0
//! The sending half of a session: go-back-N over a send buffer that all sessions share.

use std::collections::VecDeque;

use crate::build;
use crate::verdict::{Peer, Request};

/// A store or load on its way to a peer, with what its frame needs beside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What is asked of the peer. Its sequence number is that of the frame once it was sent.
    pub request: Request,
    /// MAC of the next hop and IP of the peer.
    pub to: Peer,
    /// Folded into the end code.
    pub tag: u16,
    /// Bytes left out at both ends, if the frame is a compact one.
    pub form: Option<(u8, u8)>,
}

/// What a slot of the send buffer holds.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The operation.
    pub operation: Operation,
    /// Its data.
    pub data: Vec<u8>,
    /// The peer refused it: a void goes in its place.
    pub void: bool,
}

/// The frames of all sessions that are not acknowledged yet.
#[derive(Clone, Debug, Default)]
pub struct SendBuffer {
    /// Slots are made when they are first needed, and their memory is used again.
    slots: Vec<Option<Sent>>,
    free: Vec<usize>,
    limit: usize,
}

impl SendBuffer {
    /// An empty buffer of `limit` slots.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Whether another frame fits.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < self.limit
    }

    /// Keeps a frame; there must be room.
    pub fn keep(&mut self, operation: Operation, data: &[u8]) -> usize {
        if let Some(slot) = self.free.pop() {
            if let Some(sent) = &mut self.slots[slot] {
                sent.operation = operation;
                sent.data.clear();
                sent.data.extend_from_slice(data);
                sent.void = false;
            }
            return slot;
        }
        self.slots.push(Some(Sent {
            operation,
            data: data.to_vec(),
            void: false,
        }));
        self.slots.len() - 1
    }

    /// A frame that is kept.
    pub fn get(&self, slot: usize) -> Option<&Sent> {
        self.slots.get(slot)?.as_ref()
    }

    fn get_mut(&mut self, slot: usize) -> Option<&mut Sent> {
        self.slots.get_mut(slot)?.as_mut()
    }

    fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }
}

/// State of the sending half.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// First number that is not acknowledged.
    pub una: u32,
    /// Number of the frame that is sent next.
    pub snd: u32,
    /// Number of the next new frame.
    pub nxt: u32,
    /// Time-outs since the last progress.
    pub retries: u8,
    /// How often the time-out is doubled for the sake of the round trip.
    pub stretch: u8,
    /// When the first frame that is not acknowledged was sent, if nothing else was in flight and it was sent once.
    pub timed: Option<u64>,
    /// The peer does not answer.
    pub lost: bool,
    /// Slots of the frames from `una` on.
    kept: VecDeque<usize>,
}

impl Sender {
    /// Nothing was sent; the first frame gets the number `start`.
    pub fn new(start: u32) -> Self {
        Self {
            una: start,
            snd: start,
            nxt: start,
            ..Self::default()
        }
    }

    /// Whether all that was sent is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.nxt
    }

    /// Frames that were sent since the first that is not acknowledged.
    pub fn in_flight(&self) -> u32 {
        self.snd.wrapping_sub(self.una)
    }

    /// Whether a new frame may follow, with at most `most` in flight.
    pub fn is_open(&self, most: u32) -> bool {
        !self.lost && self.snd == self.nxt && self.in_flight() < most
    }

    /// The slot of the frame to send again, if there is one and it may be sent.
    pub fn to_resend(&self, most: u32) -> Option<usize> {
        let may = !self.lost && self.snd != self.nxt && self.in_flight() < most;
        self.kept
            .get(self.in_flight() as usize)
            .copied()
            .filter(|_| may)
    }

    /// A frame in `slot` is sent for the first time; returns its number.
    pub fn start(&mut self, slot: usize) -> u32 {
        let sequence = self.nxt;
        self.kept.push_back(slot);
        self.nxt = self.nxt.wrapping_add(1);
        self.snd = self.nxt;
        sequence
    }

    /// The peer expects `next`. Returns whether that is progress; numbers that were never sent, or are acknowledged
    /// already, say nothing.
    pub fn acknowledge(&mut self, next: u32, buffer: &mut SendBuffer) -> bool {
        let frames = next.wrapping_sub(self.una);
        if self.lost || frames == 0 || frames as usize > self.kept.len() {
            return false;
        }
        for slot in self.kept.drain(..frames as usize) {
            buffer.give_back(slot);
        }
        if self.in_flight() < frames {
            self.snd = next;
        }
        self.una = next;
        self.retries = 0;
        true
    }

    /// The peer misses `next`: sends again from there, if that is where it stands.
    pub fn missing(&mut self, next: u32) -> bool {
        let back = next == self.una && self.snd != self.una;
        if back {
            self.go_back();
        }
        back
    }

    /// Nothing came for too long. Perhaps the round trip has become longer.
    pub fn time_out(&mut self, most: u8) {
        self.go_back();
        self.retries = self.retries.saturating_add(1);
        self.stretch = most.min(self.stretch + 1);
    }

    /// Sends again from the first missing frame; nobody knows any more which of its transmissions is acknowledged.
    fn go_back(&mut self) {
        self.snd = self.una;
        self.timed = None;
    }

    /// Fits the time-out, of `ticks` before doubling, to a round trip: it is to be twice that. One step up and three
    /// down at most, and never more than `most` doublings.
    pub fn fit(&mut self, trip: u64, ticks: u64, most: u8) {
        self.stretch = self.stretch.min(most);
        if 2 * trip > ticks << self.stretch {
            if self.stretch < most {
                self.stretch += 1;
            }
            return;
        }
        for _ in 0..3 {
            if self.stretch > 0 && 2 * trip <= ticks << (self.stretch - 1) {
                self.stretch -= 1;
            }
        }
    }

    /// The peer refused `sequence`. If that is a frame of ours and the operation `fmt_type` at `address` is what it
    /// holds, all frames before it have arrived and a void takes its place.
    pub fn refused(
        &mut self,
        sequence: u32,
        fmt_type: u8,
        address: u64,
        buffer: &mut SendBuffer,
    ) -> bool {
        let index = sequence.wrapping_sub(self.una) as usize;
        let ours = self.kept.get(index).copied().filter(|_| !self.lost);
        let Some(sent) = ours.and_then(|slot| buffer.get_mut(slot)) else {
            return false;
        };
        let request = &sent.operation.request;
        let same = wire::wire_address(request.key, request.offset) == address
            && request.fmt_type == fmt_type;
        // A frame that was not sent since the last step back can't have been refused; it may all the same, by an earlier
        // transmission.
        if sent.void || !same {
            return false;
        }
        sent.void = true;
        self.acknowledge(sequence, buffer);
        self.go_back();
        true
    }

    /// The first frame was refused for its key: voids take the places of all stores behind it with its key and tag, of
    /// which none was taken.
    pub fn void_stores(&mut self, buffer: &mut SendBuffer) {
        let of = |sent: &Sent| (sent.operation.request.key, sent.operation.tag);
        let first = self.kept.front().and_then(|slot| buffer.get(*slot));
        let Some(revoked) = first.map(of) else {
            return;
        };
        for &slot in &self.kept {
            if let Some(sent) = buffer.get_mut(slot) {
                let store = sent.operation.request.fmt_type == wire::FMT_MWR64;
                sent.void |= store && of(sent) == revoked;
            }
        }
    }

    /// Forgets all frames.
    pub fn drop_all(&mut self, buffer: &mut SendBuffer) {
        for slot in self.kept.drain(..) {
            buffer.give_back(slot);
        }
    }
}

/// The bytes of a frame that is kept, under the number `sequence`.
pub fn emit(out: &mut Vec<u8>, sent: &Sent, route: &build::Route, sequence: u32) {
    let operation = &sent.operation;
    if sent.void {
        build::control(out, route, wire::CONTROL_VOID, sequence);
        return;
    }
    emit_operation(out, operation, &sent.data, route, sequence);
}

/// The bytes of a frame for an operation.
pub fn emit_operation(
    out: &mut Vec<u8>,
    operation: &Operation,
    data: &[u8],
    route: &build::Route,
    sequence: u32,
) {
    let request = Request {
        sequence,
        ..operation.request
    };
    match operation.form {
        Some(form) => build::compact(out, route, &request, form, operation.tag, data),
        None => build::tlp_request(out, route, &request, operation.tag, data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(offset: u32) -> Operation {
        Operation {
            request: Request {
                fmt_type: wire::FMT_MWR64,
                key: 3,
                offset,
                dws: 1,
                first_be: 0xF,
                last_be: 0,
                tag: 0,
                number: 0,
                sequence: 0,
            },
            to: Peer { mac: 0, ip: 0 },
            tag: 0,
            form: None,
        }
    }

    fn sender(first: u32, frames: u32) -> (Sender, SendBuffer) {
        let mut buffer = SendBuffer::new(8);
        let mut sender = Sender {
            una: first,
            snd: first,
            nxt: first,
            ..Sender::default()
        };
        for index in 0..frames {
            let slot = buffer.keep(operation(4 * index), &[0; 4]);
            assert_eq!(sender.start(slot), first.wrapping_add(index));
        }
        (sender, buffer)
    }

    #[test]
    fn only_numbers_in_flight_are_acknowledged_across_the_wrap() {
        let first = u32::MAX - 2;
        let (mut sender, mut buffer) = sender(first, 6);
        assert!(!sender.acknowledge(first, &mut buffer), "nothing new");
        assert!(!sender.acknowledge(first.wrapping_sub(1), &mut buffer));
        assert!(!sender.acknowledge(first.wrapping_add(7), &mut buffer));
        assert!(sender.acknowledge(first.wrapping_add(4), &mut buffer));
        assert_eq!((sender.una, sender.nxt), (1, 3));
        assert!(sender.acknowledge(3, &mut buffer) && sender.is_idle());
        assert_eq!(buffer.free.len(), 6, "all slots are free again");
    }

    #[test]
    fn goes_back_and_forward_again() {
        let (mut sender, mut buffer) = sender(10, 4);
        assert!(!sender.is_open(4) && sender.is_open(5));
        assert!(!sender.missing(11), "11 is not the first in flight");
        assert!(sender.acknowledge(11, &mut buffer) && sender.missing(11));
        assert!(!sender.missing(11), "it is there already");
        assert!(!sender.is_open(9), "old frames go first");
        for _ in 11..14 {
            assert!(sender.to_resend(9).is_some());
            sender.snd += 1;
        }
        assert_eq!(sender.to_resend(9), None);
        sender.time_out(0);
        assert!(sender.acknowledge(13, &mut buffer));
        assert_eq!((sender.snd, sender.retries), (13, 0), "never behind una");
    }

    #[test]
    fn a_refusal_must_name_its_frame() {
        let (mut sender, mut buffer) = sender(0, 3);
        let address = wire::wire_address(3, 4);
        for (sequence, fmt_type, at) in [
            (2, wire::FMT_MWR64, address),
            (3, wire::FMT_MWR64, address),
            (1, wire::FMT_MRD64, address),
            (1, wire::FMT_MWR64, address + 4),
        ] {
            assert!(!sender.refused(sequence, fmt_type, at, &mut buffer));
        }
        assert!(sender.refused(1, wire::FMT_MWR64, address, &mut buffer));
        assert_eq!((sender.una, sender.snd, sender.nxt), (1, 1, 3));
        let slot = sender.to_resend(9).expect("the void is next");
        assert!(buffer.get(slot).expect("kept").void);
        assert!(!sender.refused(1, wire::FMT_MWR64, address, &mut buffer));
    }
}
