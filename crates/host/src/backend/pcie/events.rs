// SPDX-License-Identifier: Apache-2.0
//! The ring of events that the board writes into our memory.

use std::sync::atomic::{AtomicU32, Ordering};

use wire::EventEntry;

use super::PcieError;
use super::control::Control;
use super::memory::{Buffer, Mapper};

/// log2 of the entries.
const LOG2: u32 = 8;
const ENTRIES: u32 = 1 << LOG2;

/// The ring's reader.
pub struct Events {
    buffer: Buffer,
    address: u64,
    taken: u32,
}

impl Events {
    /// Gives the board a ring.
    ///
    /// # Errors
    /// If the board can't reach memory of ours.
    pub fn new(control: &Control, mapper: &dyn Mapper, only_huge: bool) -> Result<Self, PcieError> {
        let buffer = Buffer::new(ENTRIES as usize * EventEntry::BYTES, only_huge)?;
        let address = mapper.map(buffer.base(), buffer.len())?;
        control.set_events(address, LOG2);
        Ok(Self {
            buffer,
            address,
            taken: 0,
        })
    }

    /// The next event, if there is one.
    pub fn next(&mut self, control: &Control) -> Option<EventEntry> {
        let entry = (self.taken % ENTRIES) as usize * EventEntry::BYTES;
        // SAFETY: the entry is inside the buffer, which is there as long as the ring, and DW aligned; the board writes
        // to it at any time, so it is read as atomics.
        let word = |dw: usize| unsafe {
            AtomicU32::from_ptr(self.buffer.base().add(entry + 4 * dw).cast())
                .load(Ordering::Acquire)
        };
        // DW 0 has the running number and is read first: the others, written together with it, are then there too.
        let dws = [
            u32::from_le(word(0)),
            u32::from_le(word(1)),
            u32::from_le(word(2)),
            u32::from_le(word(3)),
        ];
        let event = EventEntry::from_dws(&dws);
        if event.count != (self.taken as u16).wrapping_add(1) {
            return None;
        }
        self.taken = self.taken.wrapping_add(1);
        control.events_taken(self.taken);
        Some(event)
    }

    /// Takes the ring away from the board.
    pub fn end(&self, control: &Control, mapper: &dyn Mapper) {
        control.set_events(0, 0);
        control.settle();
        mapper.unmap(self.address, self.buffer.len());
    }
}
