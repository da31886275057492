// SPDX-License-Identifier: Apache-2.0
//! The NIC's state, and time.

use std::collections::VecDeque;

use wire::{PageMapEntry, PcIdEntry, PcieCounter, RegionEntry};

use crate::counters::Counters;
use crate::effects::{Sink, TlpSource};
use crate::events::Notices;
use crate::registers::Registers;
use crate::requester::STATUS_CA;
use crate::server::Waiting;
use crate::session::{Mark, Outgoing, Sessions, Ticket};
use crate::tables::Table;
use crate::tags::TagPool;
use crate::verdict::{Completion, Peer};

/// Bits of generation in a network tag.
const LOAD_GENERATION_BITS: u32 = 3;
/// Bits of generation in a DMA tag.
const DMA_GENERATION_BITS: u32 = 2;
/// Time-outs for which the tag of a DMA read that timed out is not used again: none, as `dma_completion` has it by default.
const DMA_QUARANTINE: u32 = 0;

/// What is fixed when a NIC is built.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Pages of BAR 2; a power of two, 262,144 at most.
    pub pages: usize,
    /// Entries of the PC ID table; a power of two.
    pub pc_ids: usize,
    /// Entries of the shared-region table; a power of two.
    pub regions: usize,
    /// Loads of the CPU that may be outstanding, 32 at most.
    pub load_tags: usize,
    /// DMA reads that may be outstanding, 8 at most.
    pub dma_tags: usize,
    /// Accepted operations that may wait for a DMA tag.
    pub rx_slots: usize,
    /// Sessions; a power of two, 256 at most.
    pub sessions: usize,
    /// Frames of all sessions that may wait for their acknowledgement.
    pub send_slots: usize,
    /// Whether sessions can be sealed.
    pub auth: bool,
    /// Longest good frame with FCS, bytes.
    pub max_frame: usize,
    /// Own bus, device and function number.
    pub completer_id: u16,
    /// What must be sent again leaves one frame at a time, by [`Nic::resend_next`], instead of at once: for a line that
    /// takes time.
    pub paced: bool,
    /// When a store is refused for its key, those behind it with the same key and tag are not sent any more, and nothing is said of
    /// them. The RTL waits for each to be refused.
    pub voids_revoked: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pages: 262_144,
            pc_ids: 256,
            regions: 256,
            load_tags: 32,
            dma_tags: 8,
            rx_slots: 32,
            sessions: 64,
            send_slots: 128,
            auth: true,
            max_frame: 1518,
            completer_id: 0,
            paced: false,
            voids_revoked: false,
        }
    }
}

/// A CPU load that waits for its completion from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Who reads.
    pub requester_id: u16,
    /// The reader's tag.
    pub tag: u8,
    /// Traffic class of the read.
    pub tc: u8,
    /// Its attributes: relaxed ordering (bit 1) and no snoop (bit 0).
    pub attr: u8,
    /// Whether it is a locked read, which the NIC only refuses.
    pub locked: bool,
    /// Byte count of a completion without data.
    pub byte_count: u16,
    /// Lower address of a completion without data.
    pub lower_address: u8,
    /// Who may answer.
    pub peer_ip: u32,
    /// Bytes still to come.
    pub remaining: u16,
    /// When it was sent last, in microseconds.
    pub sent_us: u32,
    /// How to send it again, in a session.
    pub(crate) ticket: Option<Ticket>,
}

impl Load {
    /// Lower address of the completion that brings what comes next.
    pub(crate) fn next_address(&self) -> u8 {
        let come = self.byte_count - self.remaining;
        (u16::from(self.lower_address) + come) as u8 & 0x7F
    }

    /// How to send it again: only what has not come yet is asked for, so that it does not matter how its host splits
    /// the answer.
    fn rest(&self) -> Option<Ticket> {
        let mut ticket = self.ticket?;
        let request = &mut ticket.operation.request;
        if self.remaining != self.byte_count {
            let left = usize::from(self.remaining).div_ceil(4);
            request.offset += 4 * (request.dws - left) as u32;
            request.dws = left;
            request.first_be = 0xF;
            if left == 1 {
                // All bytes up to the last one.
                request.first_be = 0xF >> ((4 - self.remaining % 4) % 4);
                request.last_be = 0;
            }
        }
        Some(ticket)
    }
}

/// A DMA read on behalf of a load from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaRead {
    /// Where the completions go.
    pub peer: Peer,
    /// The tag that they carry there.
    pub net_tag: u8,
    /// Bytes that the load asks for.
    pub byte_count: u16,
    /// Lower address of its first byte.
    pub lower_address: u8,
    /// The session that the load came in.
    pub session: Option<u8>,
    /// With which that session sent then. The answer has it too, whatever the session has become meanwhile.
    pub epoch: u8,
    /// What tells it apart from others with its tag, in a session.
    pub number: u16,
}

/// Functional model of one NIC.
#[derive(Clone, Debug)]
pub struct Nic {
    pub(crate) config: Config,
    pub(crate) now_us: u32,
    pub(crate) registers: Registers,
    pub(crate) pages: Table<PageMapEntry>,
    pub(crate) pc_ids: Table<PcIdEntry>,
    pub(crate) regions: Table<RegionEntry>,
    pub(crate) counters: Counters,
    pub(crate) load_tags: TagPool<Load>,
    pub(crate) dma_tags: TagPool<DmaRead>,
    pub(crate) sequences: Vec<u16>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) sessions: Sessions,
    /// Sessions that may have something to send again, if that is paced.
    pub(crate) resending: VecDeque<u8>,
    /// Stores, loads and flushes that wait for their session, or behind one that does.
    pub(crate) outgoing: VecDeque<Outgoing>,
    /// Memory of data that waited there.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) marks: VecDeque<Mark>,
    pub(crate) notices: Notices,
    pub(crate) link_up: bool,
    /// The TLP or frame in the making.
    pub(crate) buffer: Vec<u8>,
    /// A sealed frame that was opened.
    pub(crate) opened: Vec<u8>,
}

impl Nic {
    /// A NIC after reset.
    pub fn new(config: Config) -> Self {
        Self {
            now_us: 0,
            registers: Registers::new(&config),
            pages: Table::new(config.pages),
            pc_ids: Table::new(config.pc_ids),
            regions: Table::new(config.regions),
            counters: Counters::default(),
            load_tags: TagPool::new(config.load_tags, LOAD_GENERATION_BITS),
            dma_tags: TagPool::new(config.dma_tags, DMA_GENERATION_BITS)
                .with_quarantine(DMA_QUARANTINE),
            sequences: vec![0; config.pc_ids],
            waiting: VecDeque::new(),
            sessions: Sessions::new(config.sessions, config.send_slots),
            resending: VecDeque::new(),
            outgoing: VecDeque::new(),
            spare: Vec::new(),
            marks: VecDeque::new(),
            notices: Notices::default(),
            link_up: true,
            buffer: Vec::new(),
            opened: Vec::new(),
            config,
        }
    }

    /// What was fixed when the NIC was built.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The registers of BAR 0.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Loads of the CPU that wait for the network: tag, start in microseconds, load.
    pub fn outstanding_loads(&self) -> impl Iterator<Item = (u8, u32, &Load)> {
        self.load_tags.iter()
    }

    /// DMA reads that wait for the root complex: tag, start in microseconds, read.
    pub fn outstanding_reads(&self) -> impl Iterator<Item = (u8, u32, &DmaRead)> {
        self.dma_tags.iter()
    }

    /// The sessions, as they stand.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Microseconds until something is due by [`Nic::tick`].
    pub fn us_deadline(&self) -> Option<u32> {
        let timeout = self.registers.read_timeout_us;
        let left = |since: u32, limit: u32| limit.saturating_sub(self.now_us.wrapping_sub(since));
        let loads = self.load_tags.iter().map(|(_, start, load)| {
            let end = left(start, timeout);
            let retry = self.registers.load_retry_us;
            match load.ticket {
                Some(_) if retry != 0 => end.min(left(load.sent_us, retry)),
                _ => end,
            }
        });
        let reads = self
            .dma_tags
            .iter()
            .map(|(_, start, _)| left(start, timeout));
        loads.chain(reads).chain(self.interrupt_due()).min()
    }

    /// Whether nothing is under way: no frame waits for an acknowledgement or its session, no read for its answer, no
    /// interrupt for its time. Events that wait for room in the ring are software's business.
    pub fn is_quiet(&self) -> bool {
        self.outgoing.is_empty() && self.net_deadline().is_none() && self.us_deadline().is_none()
    }

    /// Accepted operations that wait for a free DMA tag.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sets the time, which may wrap, and ends the reads that were not answered in time.
    pub fn tick(&mut self, now_us: u32, out: &mut impl Sink) {
        self.now_us = now_us;
        let timeout = self.registers.read_timeout_us;
        while let Some(load) = self.load_tags.expire(now_us, timeout) {
            self.counters.count_pcie(PcieCounter::LoadTimeout);
            self.complete_without_data(&load, STATUS_CA, TlpSource::LoadTimeout, out);
        }
        while let Some(read) = self.dma_tags.expire(now_us, timeout) {
            self.counters.count_pcie(PcieCounter::DmaReadTimeout);
            let completion = Completion {
                tag: read.net_tag,
                number: read.number,
                status: STATUS_CA,
                byte_count: read.byte_count,
                lower_address: read.lower_address,
                has_data: false,
                length: 0,
            };
            self.send_completion(&read, &completion, &[], out);
        }
        self.dma_tags.end_quarantines(now_us, timeout);
        self.retry_loads(out);
        self.send_interrupt(out);
        self.serve_waiting(out);
    }

    /// Sends the loads of sessions again that have waited long enough.
    fn retry_loads(&mut self, out: &mut impl Sink) {
        let (now_us, retry) = (self.now_us, self.registers.load_retry_us);
        if retry == 0 {
            return;
        }
        let late =
            |load: &Load| load.ticket.is_some() && now_us.wrapping_sub(load.sent_us) >= retry;
        loop {
            let mut loads = self.load_tags.iter();
            let tag = loads.find_map(|(tag, _, load)| late(load).then_some(tag));
            drop(loads);
            let Some(load) = tag.and_then(|tag| self.load_tags.get_mut(tag)) else {
                return;
            };
            load.sent_us = now_us;
            if let Some(ticket) = load.rest() {
                self.counters.count_pcie(PcieCounter::LoadRetry);
                self.submit(&ticket, &[], out);
            }
        }
    }
}
