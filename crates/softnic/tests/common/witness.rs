// SPDX-License-Identifier: Apache-2.0
//! What comes to a NIC, for what its peer is told.

use std::io;
use std::os::fd::BorrowedFd;

use softnic::{Error, Identity, Transport};
use wire::{
    ACKNOWLEDGEMENT_BYTES, COMPACT_END_BYTES, COMPACT_NIBBLE, HEADER_BYTES, PAYLOAD_OFFSET,
};

/// Where a frame has the length of UDP, and what that counts beside the payload.
const UDP_LENGTH: usize = 38;
const UDP_HEADER_BYTES: usize = 8;

/// Number, key and offset of a `compact` store, as they stand in its frame.
pub fn store_in(frame: &[u8]) -> Option<(u16, u16, u32)> {
    let length = u16::from_be_bytes([*frame.get(UDP_LENGTH)?, *frame.get(UDP_LENGTH + 1)?]);
    let &[first, high, low, a, b, c, d, e, ..] = frame.get(PAYLOAD_OFFSET..)? else {
        return None;
    };
    let takes_along = if first & 0b1000 != 0 {
        ACKNOWLEDGEMENT_BYTES
    } else {
        0
    };
    let around = UDP_HEADER_BYTES + HEADER_BYTES + COMPACT_END_BYTES + takes_along;
    let data = usize::from(length).checked_sub(around)?;
    let whole = data > 0 && data.is_multiple_of(4);
    let compact = first >> 4 == COMPACT_NIBBLE && first & 0b0100 == 0;
    let address = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]);
    // The two lowest bits are bytes that are left out.
    let (key, offset) = ((address >> 28) as u16, address as u32 & 0x0FFF_FFFC);
    (compact && whole).then_some((u16::from_be_bytes([high, low]), key, offset))
}

/// Stores to a peer, each a frame: where they went, and what.
pub type Stores = Vec<(usize, Vec<u8>)>;

/// Writes stores, in order.
pub fn write(stores: &Stores, memory: &mut [u8]) {
    for (at, data) in stores {
        memory[*at..*at + data.len()].copy_from_slice(data);
    }
}

/// Calls `sent` with what is sent, which it may change, and `received` with what is received.
pub struct Hooked<T, S, R> {
    pub below: T,
    pub sent: S,
    pub received: R,
}

impl<T, S, R> Transport for Hooked<T, S, R>
where
    T: Transport,
    S: FnMut(&mut Vec<u8>) + Send,
    R: FnMut(&[u8]) + Send,
{
    fn identity(&self) -> Identity {
        self.below.identity()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let mut frame = frame.to_vec();
        (self.sent)(&mut frame);
        self.below.send(&frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let received = self.below.receive(frame)?;
        if received {
            (self.received)(frame);
        }
        Ok(received)
    }

    fn open_port(&mut self, port: u16) -> Result<(), Error> {
        self.below.open_port(port)
    }

    fn close_port(&mut self, port: u16) {
        self.below.close_port(port);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below.descriptor()
    }
}
