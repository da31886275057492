// SPDX-License-Identifier: Apache-2.0
//! What comes to a NIC, for what its peer is told.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softnic::{Error, Event, Identity, Refusal, Transport};
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

type Places = HashMap<u16, Vec<(u16, u32)>>;

/// The different keys and offsets that came under each number; none in a sealed session.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Places>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session begins.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// A frame came.
    pub fn add(&self, frame: &[u8]) {
        if let Some((number, key, offset)) = store_in(frame) {
            let mut seen = self.lock();
            let places = seen.entry(number).or_default();
            if !places.contains(&(key, offset)) {
                places.push((key, offset));
            }
        }
    }

    /// Whether a store may be refused for a bad key although its region is there, the only one with `key`.
    ///
    /// A bad key is found without the end code, which has the region's tag in it. So if two that differ came under one
    /// number, any of them may be what the sender was told of, and every store of the number is refused, of which the
    /// sender is told too (`docs/wire-format.md`, "Sessions").
    fn explains(&self, number: u16, key: u16) -> bool {
        let seen = self.lock();
        let places = seen.get(&number).map_or(&[][..], |places| places);
        places.iter().filter(|(other, _)| *other != key).count() >= 2
    }
}

/// Stores to a peer, each a frame.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// Number of the first.
    pub first: u32,
    /// Where they went, and what.
    pub stores: Vec<(usize, Vec<u8>)>,
}

impl Stores {
    /// Which of the stores their sender was told of as refused: at `told`. Each must have its cause in what was `seen`.
    pub fn refused(&self, key: u16, told: &[u32], seen: &Seen) -> Vec<usize> {
        // A frame whose key was altered is one that was altered: it is sent again.
        assert!(told.is_empty(), "{told:x?}");
        let mut refused: Vec<usize> = Vec::new();
        for offset in told {
            // In the order in which they were sent.
            let from = refused.last().map_or(0, |last| last + 1);
            let found = (from..self.stores.len()).find(|index| {
                let number = self.first.wrapping_add(*index as u32) as u16;
                self.stores[*index].0 as u32 & !3 == *offset && seen.explains(number, key)
            });
            refused.push(found.unwrap_or_else(|| panic!("{offset:#x} is refused for no reason")));
        }
        if !refused.is_empty() {
            println!("refused for altered keys: {refused:?}");
        }
        refused
    }

    /// Writes what was not refused.
    pub fn write(&self, memory: &mut [u8], refused: &[usize]) {
        for (index, (at, data)) in self.stores.iter().enumerate() {
            if !refused.contains(&index) {
                memory[*at..*at + data.len()].copy_from_slice(data);
            }
        }
    }
}

/// Offsets of stores to the region `key` that a NIC told as refused for a bad key; it must have told nothing else.
pub fn told(events: &[Event], session: u8, key: u16) -> Vec<u32> {
    let offset = |event: &Event| match *event {
        Event::Refused {
            session: in_session,
            reason: Refusal::Key,
            key: of,
            offset,
            load: false,
        } if (in_session, of) == (session, key) => offset,
        ref other => panic!("{other:?}"),
    };
    events.iter().map(offset).collect()
}

/// Tells `seen` of what is received.
pub fn watched<T: Transport>(below: T, seen: &Seen) -> impl Transport + use<T> {
    let seen = seen.clone();
    Hooked {
        below,
        sent: |_: &mut Vec<u8>| {},
        received: move |frame: &[u8]| seen.add(frame),
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
