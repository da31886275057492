// SPDX-License-Identifier: Apache-2.0
//! The NIC's state, and time.

use std::collections::VecDeque;

use wire::{PageMapEntry, PcIdEntry, PcieCounter, RegionEntry};

use crate::counters::Counters;
use crate::effects::{Sink, TlpSource};
use crate::registers::Registers;
use crate::requester::STATUS_CA;
use crate::server::Waiting;
use crate::tables::Table;
use crate::tags::TagPool;
use crate::verdict::{Completion, Peer};

/// Bits of generation in a network tag.
const LOAD_GENERATION_BITS: u32 = 3;
/// Bits of generation in a DMA tag.
const DMA_GENERATION_BITS: u32 = 2;

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
    /// Longest good frame with FCS, bytes.
    pub max_frame: usize,
    /// Own bus, device and function number.
    pub completer_id: u16,
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
            max_frame: 1518,
            completer_id: 0,
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
    /// Byte count of a completion without data.
    pub byte_count: u16,
    /// Lower address of a completion without data.
    pub lower_address: u8,
    /// Who may answer.
    pub peer_ip: u32,
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
    /// The TLP or frame in the making.
    pub(crate) buffer: Vec<u8>,
}

impl Nic {
    /// A NIC after reset.
    pub fn new(config: Config) -> Self {
        Self {
            now_us: 0,
            registers: Registers::new(config.pages, config.pc_ids, config.regions),
            pages: Table::new(config.pages),
            pc_ids: Table::new(config.pc_ids),
            regions: Table::new(config.regions),
            counters: Counters::default(),
            load_tags: TagPool::new(config.load_tags, LOAD_GENERATION_BITS),
            dma_tags: TagPool::new(config.dma_tags, DMA_GENERATION_BITS),
            sequences: vec![0; config.pc_ids],
            waiting: VecDeque::new(),
            buffer: Vec::new(),
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
                status: STATUS_CA,
                byte_count: read.byte_count,
                lower_address: read.lower_address,
                has_data: false,
                length: 0,
            };
            self.send_completion(&read, &completion, &[], out);
        }
        self.serve_waiting(out);
    }
}
