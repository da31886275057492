// SPDX-License-Identifier: Apache-2.0
//! What is around the model: memory in place of the host's, a transport in place of the wire.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use model::{FrameSource, Sink, TlpSource};
use wire::{
    Completion, CompletionStatus, EventEntry, FMT_CPL, FMT_CPLD, FMT_MRD32, FMT_MRD64, FMT_MWR32,
    FMT_MWR64, TlpHeader, TlpView, first_byte, read_byte_count,
};

use crate::loads::Loads;
use crate::memory::Segment;
use crate::transport::Transport;

/// Where the model believes the memory behind a key to be: the wire address is the local address.
pub const fn base_of(key: u16) -> u64 {
    (key as u64) << 32
}

/// Where a frame has its UDP source port.
const SOURCE_PORT: std::ops::Range<usize> = 34..36;

/// How many refusals outside of sessions go out: anybody can ask for them, under anybody's address, and a refused load is
/// answered with more bytes than it has.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    left: u32,
}

impl Refusals {
    /// Frames in [`Self::PERIOD`]: a load has two, a store one.
    const MOST: u32 = 200;
    const PERIOD: Duration = Duration::from_secs(1);

    /// Whether one more may go.
    fn may(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Self::PERIOD {
            self.since = now;
            self.left = Self::MOST;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// The host around the model.
pub struct Outside {
    pub transport: Box<dyn Transport>,
    /// Memory by key.
    pub segments: Vec<Option<Segment>>,
    /// Completions for the NIC's reads.
    pub answers: VecDeque<Vec<u8>>,
    pub events: VecDeque<EventEntry>,
    pub loads: Loads,
    /// Keys of memory that was written since it was last asked.
    touched: Vec<u16>,
    /// Why the transport failed.
    pub failure: Option<io::Error>,
    completer_id: u16,
    refusals: Refusals,
}

impl Outside {
    pub fn new(
        transport: Box<dyn Transport>,
        regions: usize,
        tags: usize,
        completer_id: u16,
    ) -> Self {
        Self {
            transport,
            segments: vec![None; regions],
            answers: VecDeque::new(),
            events: VecDeque::new(),
            loads: Loads::new(tags),
            touched: Vec::new(),
            failure: None,
            completer_id,
            refusals: Refusals {
                since: Instant::now(),
                left: Refusals::MOST,
            },
        }
    }

    /// Wakes all who wait for stores into memory that was written.
    pub fn wake(&mut self) {
        for key in self.touched.drain(..) {
            if let Some(segment) = &self.segments[usize::from(key)] {
                segment.wake();
            }
        }
    }

    fn place(&self, address: u64) -> Option<(u16, usize, &Segment)> {
        let key = u16::try_from(address >> 32).ok()?;
        let segment = self.segments.get(usize::from(key))?.as_ref()?;
        Some((key, address as u32 as usize, segment))
    }

    fn write(&mut self, view: &TlpView<'_>) {
        let address = view.address_field() & !3;
        // The NIC has checked key and bounds; a segment that is gone is gone.
        let Some((key, offset, segment)) = self.place(address) else {
            return;
        };
        segment.write_dws(offset, view.data(), view.first_be(), view.last_be());
        if !self.touched.contains(&key) {
            self.touched.push(key);
        }
    }

    fn read(&mut self, view: &TlpView<'_>) {
        let address = view.address_field() & !3;
        let (length, first_be, last_be) = (view.length(), view.first_be(), view.last_be());
        let mut data = vec![0; 4 * usize::from(length)];
        let found = self
            .place(address)
            .is_some_and(|(_, offset, segment)| segment.read(offset, &mut data));
        if !found {
            data.clear();
        }
        let completion = Completion {
            tc: view.tc(),
            attr: 0,
            ep: false,
            length: if found { length } else { 0 },
            completer_id: self.completer_id,
            status: if found {
                CompletionStatus::Successful
            } else {
                CompletionStatus::UnsupportedRequest
            },
            byte_count: read_byte_count(length, first_be, last_be),
            requester_id: view.requester_id(),
            tag: view.tag(),
            lower_address: address as u8 & 0x7C | first_byte(first_be),
        };
        if let Ok(tlp) = TlpHeader::Completion(completion).emit(&data) {
            self.answers.push_back(tlp);
        }
    }

    fn event(&mut self, data: &[u8]) {
        let Ok(bytes) = <[u8; EventEntry::BYTES]>::try_from(data) else {
            return;
        };
        let dws = std::array::from_fn(|dw| {
            u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * dw + byte]))
        });
        self.events.push_back(EventEntry::from_dws(&dws));
    }
}

impl Sink for Outside {
    fn tlp(&mut self, source: TlpSource, bytes: &[u8]) {
        let Ok(view) = TlpView::new(bytes) else {
            return;
        };
        match (source, view.fmt_type()) {
            (TlpSource::Events, _) => self.event(view.data()),
            // Interrupts are not set up: who waits for a region is woken by its eventfd.
            (TlpSource::Msi, _) => {}
            (_, FMT_MWR32 | FMT_MWR64) => self.write(&view),
            (_, FMT_MRD32 | FMT_MRD64) => self.read(&view),
            (_, FMT_CPL | FMT_CPLD) => self.loads.completion(&view),
            _ => {}
        }
    }

    fn frame(&mut self, source: FrameSource, bytes: &[u8]) {
        let stranger = source == FrameSource::Refusals
            && bytes.get(SOURCE_PORT) == Some(&wire::UDP_PORT.to_be_bytes());
        if stranger && !self.refusals.may(Instant::now()) {
            return;
        }
        if let Err(error) = self.transport.send(bytes) {
            self.failure.get_or_insert(error);
        }
    }
}
