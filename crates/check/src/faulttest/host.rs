// SPDX-License-Identifier: Apache-2.0
//! One machine around a NIC: memory, root complex, event ring, outstanding loads.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use wire::{EventEntry, RegionEntry};

use crate::faulttest::stream::PAGE;

/// Pages of BAR 2, and of the receiver's memory, that belong to a session.
pub const SESSION_PAGES: usize = 12;
/// Pages that may be written and read.
pub const PLAIN: std::ops::Range<usize> = 0..4;
/// Whose right to write comes and goes.
pub const REVOCABLE: usize = 4;
/// Whose key does not exist.
pub const NO_KEY: usize = 5;
/// That may be read only.
pub const READ_ONLY: usize = 6;
/// Whose region ends early.
pub const BOUNDED: usize = 7;
/// Shared with another machine.
pub const FOREIGN: usize = 8;
/// Whose writes ask for an interrupt.
pub const NOTIFY: usize = 9;
/// Beyond the offsets that have a compact form.
pub const HIGH: usize = 10;
/// That may be written only.
pub const WRITE_ONLY: usize = 11;
/// Last permitted byte of the region that ends early.
pub const BOUND: u32 = 0x3FF;
/// log2 of the entries of the event ring.
pub const RING_LOG2: u32 = 8;

/// A CPU load that waits.
#[derive(Clone, Debug)]
pub struct Load {
    /// Session it went to.
    pub pair: usize,
    /// Page of the session.
    pub page: usize,
    /// Byte offset in the page, DW aligned.
    pub offset: usize,
    /// DWs.
    pub dws: u16,
    /// Byte enables of the first and the last DW.
    pub enables: (u8, u8),
    /// When it was issued.
    pub issued_ps: u64,
    /// What the receiver's memory held whenever it was served, and from which byte of the load on: a
    /// load that is sent again asks for what has not come.
    pub values: Vec<(usize, Vec<u8>)>,
    /// It will be refused.
    pub refused: bool,
    /// What has come.
    pub got: Vec<u8>,
    /// A reset came after it: it may end without data at any time.
    pub doomed: bool,
    /// It may have come to a NIC with sessions and empty tables: it may be refused.
    pub bare: bool,
}

/// A read of a register that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterRead {
    /// Nobody reads.
    None,
    /// On its way.
    Waits,
    /// What it gave.
    Done(u32),
}

impl RegisterRead {
    /// Somebody reads.
    pub fn is_used(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// A completion of a DMA read that the root complex has not given yet.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// When it was asked for.
    pub asked_ps: u64,
    /// When it may be given.
    pub due_ps: u64,
    /// The completion.
    pub tlp: Vec<u8>,
}

/// One machine.
pub struct Host {
    /// MAC address.
    pub mac: u64,
    /// IPv4 address.
    pub ip: u32,
    /// Bus, device and function number of the NIC.
    pub completer_id: u16,
    /// That of the CPU's loads.
    pub cpu_id: u16,
    /// That of register reads.
    pub software_id: u16,
    /// Where shared memory begins.
    pub arena: u64,
    /// Shared memory: the pages of every session.
    pub memory: Vec<u8>,
    /// The same as it should be.
    pub shadow: Vec<u8>,
    /// Where the event ring begins.
    pub ring: u64,
    /// Events that have come since the ring was set up.
    pub events: u32,
    /// What the NIC was told of them.
    pub tail: u32,
    /// Where interrupts are written, and what.
    pub msi: (u64, u32),
    /// An interrupt is owed for a store.
    pub msi_owed: bool,
    /// Loads by the CPU's tag.
    pub loads: Vec<Option<Load>>,
    /// Loads that ended since the last quiet moment: copies that were sent again may still be served.
    pub ended: Vec<Load>,
    /// Answers to DMA reads, when they were asked for, and when they are given.
    pub answers: VecDeque<Answer>,
    /// A register read.
    pub register_read: RegisterRead,
    /// Its tag.
    pub register_tag: u8,
    /// Regions as they were last written: key and entry.
    pub regions: Vec<(u16, RegionEntry)>,
    /// Where this machine's choices come from.
    pub rng: ChaCha8Rng,
    /// Events of the link that have come: down, up.
    pub link_events: (u32, u32),
    /// Some may have been lost.
    pub missed: bool,
    /// Interrupts that have come.
    pub interrupts: u64,
    /// Loads that ended with data, without, and refused ones.
    pub loads_done: (u64, u64, u64),
}

impl Load {
    /// Bytes from the first DW to the last.
    pub fn bytes(&self) -> usize {
        4 * usize::from(self.dws)
    }

    /// Whether it shares a byte with others of its page.
    pub fn overlaps(&self, pair: usize, page: usize, bytes: &std::ops::Range<usize>) -> bool {
        let own = self.offset..self.offset + self.bytes();
        (self.pair, self.page) == (pair, page) && own.start < bytes.end && bytes.start < own.end
    }
}

impl Host {
    /// A machine for `pairs` sessions.
    pub fn new(index: usize, pairs: usize, high: bool, rng: ChaCha8Rng) -> Self {
        let arena = if high { 0x12_4000_0000 } else { 0x4000_0000 };
        let bytes = pairs * SESSION_PAGES * PAGE;
        let memory: Vec<u8> = (0..bytes).map(|at| ((at * 167) >> 3) as u8 | 1).collect();
        Self {
            mac: 0x0200_0000_0A00 + index as u64,
            ip: 0x0A00_0001 + index as u32,
            // Function 1 of a device, as a shell's IP-NUMA is.
            completer_id: 0x0101 + 8 * index as u16,
            cpu_id: 0x0008,
            software_id: 0x0010,
            arena,
            shadow: memory.clone(),
            memory,
            ring: arena + 0x0800_0000,
            events: 0,
            tail: 0,
            msi: (0xFEE0_0000, 0x41 + index as u32),
            msi_owed: false,
            loads: vec![None; 256],
            ended: Vec::new(),
            answers: VecDeque::new(),
            register_read: RegisterRead::None,
            register_tag: 0,
            regions: Vec::new(),
            rng,
            link_events: (0, 0),
            missed: false,
            interrupts: 0,
            loads_done: (0, 0, 0),
        }
    }

    /// Session, page and offset of an address in shared memory.
    pub fn locate(&self, address: u64, bytes: usize) -> Option<(usize, usize, usize)> {
        let at = usize::try_from(address.checked_sub(self.arena)?).ok()?;
        if at + bytes > self.memory.len() || at / PAGE != (at + bytes - 1) / PAGE {
            return None;
        }
        let page = at / PAGE;
        Some((page / SESSION_PAGES, page % SESSION_PAGES, at % PAGE))
    }

    /// The event in a DMA write, if it goes to the ring; an event that is not the next is an error.
    pub fn event(&mut self, address: u64, data: &[u8]) -> Result<Option<EventEntry>, String> {
        let entries = 1_u64 << RING_LOG2;
        let Some(at) = address
            .checked_sub(self.ring)
            .filter(|at| *at < 16 * entries)
        else {
            return Ok(None);
        };
        let place = u64::from(self.events) % entries * 16;
        let Ok(dws) = <[u8; 16]>::try_from(data) else {
            return Err(format!("an event of {} bytes", data.len()));
        };
        let dws: [u32; 4] = std::array::from_fn(|dw| {
            u32::from_le_bytes(std::array::from_fn(|byte| dws[4 * dw + byte]))
        });
        let event = EventEntry::from_dws(&dws);
        self.events = self.events.wrapping_add(1);
        if at != place || event.count != self.events as u16 {
            return Err(format!(
                "event {event:x?} at {at:#x} of the ring, number {:#x} at {place:#x} was next",
                self.events as u16
            ));
        }
        if self.events.wrapping_sub(self.tail) > entries as u32 {
            return Err(format!("an event was written into a full ring: {event:x?}"));
        }
        Ok(Some(event))
    }
}
