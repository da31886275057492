// SPDX-License-Identifier: Apache-2.0
//! What the host is told: the ring of events in its memory, and interrupts.

use std::collections::VecDeque;

use wire::{
    EVENT_LINK_DOWN, EVENT_LINK_UP, EVENT_OVERFLOW, EventEntry, FMT_MWR64, NetCounter, PcieCounter,
};

use crate::build;
use crate::effects::{Sink, TlpSource};
use crate::nic::Nic;
use crate::verdict::Request;

/// Events that wait for room in the ring before they are lost.
const WAITING: usize = 16;
/// Cause of an interrupt in `MSI_CONTROL`: a store to a region with the notify right.
const ON_ARRIVAL: u32 = 1;
/// Cause of an interrupt: an event was written.
const ON_EVENT: u32 = 2;

/// Something that software is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened: `EVENT_*`, or an error code.
    pub code: u8,
    /// fmt/type of a refused operation.
    pub op: u8,
    /// Sequence number or cookie.
    pub number: u16,
    /// Session, which is the PC ID.
    pub who: u16,
    /// More about it.
    pub address: u64,
}

/// State of the ring and of the interrupt.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    /// Events written since the ring was set up.
    head: u32,
    waiting: VecDeque<Event>,
    lost: u64,
    interrupt: bool,
    last_interrupt_us: Option<u32>,
}

impl Nic {
    /// Tells software, unless the ring is off.
    pub(crate) fn tell(&mut self, event: Event, out: &mut impl Sink) {
        if self.registers.event_log2 == 0 {
            return;
        }
        if self.notices.waiting.len() >= WAITING {
            self.notices.lost += 1;
            self.counters.count_net(NetCounter::EventLost);
            return;
        }
        self.notices.waiting.push_back(event);
        self.write_events(out);
    }

    /// Writes the events that there is room for.
    pub(crate) fn write_events(&mut self, out: &mut impl Sink) {
        let log2 = self.registers.event_log2.min(16);
        if log2 == 0 {
            return;
        }
        loop {
            let written = self.notices.head.wrapping_sub(self.registers.event_tail);
            if written >= 1 << log2 {
                return;
            }
            let event = match self.notices.waiting.pop_front() {
                Some(event) => event,
                None if self.notices.lost > 0 => Event {
                    code: EVENT_OVERFLOW,
                    op: 0,
                    number: 0,
                    who: 0,
                    address: std::mem::take(&mut self.notices.lost),
                },
                None => return,
            };
            let place = u64::from(self.notices.head & ((1 << log2) - 1));
            self.notices.head = self.notices.head.wrapping_add(1);
            let entry = EventEntry {
                address: event.address,
                number: event.number,
                who: event.who,
                count: self.notices.head as u16,
                op: event.op,
                code: event.code,
            };
            let mut data = [0; EventEntry::BYTES];
            for (bytes, dw) in data.chunks_exact_mut(4).zip(entry.to_dws()) {
                bytes.copy_from_slice(&dw.to_le_bytes());
            }
            let address = self.registers.event_base.wrapping_add(16 * place);
            self.write_host(address, &data, TlpSource::Events, out);
            self.counters.count_pcie(PcieCounter::EventWritten);
            self.interrupt(ON_EVENT, out);
        }
    }

    /// Software has set the ring up anew.
    pub(crate) fn empty_ring(&mut self) {
        self.notices.head = 0;
        self.notices.lost = 0;
        self.notices.waiting.clear();
        self.registers.event_tail = 0;
    }

    /// A store to a region with the notify right was written to local memory.
    pub(crate) fn arrived(&mut self, out: &mut impl Sink) {
        self.interrupt(ON_ARRIVAL, out);
    }

    fn interrupt(&mut self, cause: u32, out: &mut impl Sink) {
        self.notices.interrupt |= self.registers.msi_control & cause != 0;
        self.send_interrupt(out);
    }

    /// Microseconds until an interrupt that waits may be sent.
    pub(crate) fn interrupt_due(&self) -> Option<u32> {
        let since = match self.notices.last_interrupt_us {
            Some(last) => self.now_us.wrapping_sub(last),
            None => u32::MAX,
        };
        let due = self.registers.msi_moderation_us.saturating_sub(since);
        self.notices.interrupt.then_some(due)
    }

    /// Sends the interrupt that is wanted, if the last one is long enough ago.
    pub(crate) fn send_interrupt(&mut self, out: &mut impl Sink) {
        if self.interrupt_due() == Some(0) {
            self.notices.interrupt = false;
            self.notices.last_interrupt_us = Some(self.now_us);
            let data = self.registers.msi_data.to_le_bytes();
            self.write_host(self.registers.msi_address, &data, TlpSource::Msi, out);
            self.counters.count_pcie(PcieCounter::Msi);
        }
    }

    fn write_host(&mut self, address: u64, data: &[u8], source: TlpSource, out: &mut impl Sink) {
        let dws = data.len() / 4;
        let request = Request {
            fmt_type: FMT_MWR64,
            key: 0,
            offset: 0,
            dws,
            first_be: 0xF,
            last_be: if dws == 1 { 0 } else { 0xF },
            tag: 0,
            number: 0,
            sequence: 0,
        };
        let id = self.config.completer_id;
        build::dma(&mut self.buffer, id, 0, address, &request, data);
        out.tlp(source, &self.buffer);
    }

    /// The line went up or down.
    pub fn set_link(&mut self, up: bool, out: &mut impl Sink) {
        if up != self.link_up {
            self.link_up = up;
            let code = if up { EVENT_LINK_UP } else { EVENT_LINK_DOWN };
            let event = Event {
                code,
                op: 0,
                number: 0,
                who: 0,
                address: 0,
            };
            self.tell(event, out);
        }
    }
}
