// SPDX-License-Identifier: Apache-2.0
//! A driver for the RTL, as `docs/uzura.md` asks for one: descriptors and registers are written here from the document, not
//! from the RTL.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use roce::{Address, Completion, Counters, Operation, Region, Segment, Settings, WorkRequest};

use super::host::{Host, PAGE};

const CONTROL: u32 = 1 << 18;
const MAC: u32 = CONTROL + 0x08;
const IP: u32 = CONTROL + 0x10;
const TABLE: u32 = CONTROL + 0x18;
const COMMAND: u32 = CONTROL + 0x20;
const WORDS: u32 = CONTROL + 0x40;
const COUNTERS: u32 = CONTROL + 0x100;
const BEGIN_QP: u32 = 2;
const SET_REGION: u32 = 3;
const SET_CQ: u32 = 4;
const PAGE_LOG2: u32 = 12;
const DOORBELL_RECEIVE: u32 = 0x008;
const DOORBELL_COMPLETION: u32 = 0x010;
const DOORBELL_COPY: u32 = 0x800;
const ENTRY: usize = 128;
const COMPLETION: usize = 32;
/// log2 of the entries of each queue.
const QUEUE_LOG2: usize = 6;
const COMPLETIONS_LOG2: usize = 9;
/// An operation that there is not.
const UNKNOWN: u8 = 0x0B;
const TABLE_BYTES: usize = 1 << 14;

/// The order of the registers.
const NAMES: [&str; 28] = [
    "rx_other",
    "rx_broken",
    "rx_malformed",
    "rx_overflow",
    "rx_packet",
    "rx_no_qp",
    "rx_duplicate",
    "rx_sequence",
    "rx_invalid",
    "rx_access",
    "rx_operation",
    "rx_not_ready",
    "rx_ghost",
    "rx_congestion",
    "access_denied",
    "table_miss",
    "table_fault",
    "tx_packet",
    "tx_rewind",
    "tx_timeout",
    "tx_bad_wqe",
    "cqe",
    "cqe_error",
    "cq_overflow",
    "doorbell",
    "doorbell_refused",
    "inline_taken",
    "read_bad",
];

/// Where a region lies.
struct Place {
    va: u64,
    bytes: usize,
    pages: Vec<usize>,
    entry: usize,
}

impl Place {
    /// Physical pieces of bytes from an offset on.
    fn pieces(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        let mut at = self.va as usize % PAGE + offset;
        let end = at + bytes;
        let mut pieces = Vec::new();
        while at < end {
            let count = (PAGE - at % PAGE).min(end - at);
            pieces.push((self.pages[at / PAGE] + at % PAGE, count));
            at += count;
        }
        pieces
    }
}

/// Queues of a queue pair.
struct Queues {
    requests: usize,
    buffers: usize,
    completions: usize,
    sent: u64,
    posted: u64,
    seen: u64,
    segments_log2: u8,
}

/// The RTL with its driver.
pub struct Driver {
    /// What it drives.
    pub host: Host,
    rng: ChaCha8Rng,
    table: usize,
    entries: usize,
    places: BTreeMap<u32, Place>,
    queues: BTreeMap<u32, Queues>,
}

impl Driver {
    /// An engine with its addresses.
    pub fn new(own: Address, mut rng: ChaCha8Rng) -> Result<Self, String> {
        let mut host = Host::new(ChaCha8Rng::from_rng(&mut rng))?;
        let table = host.take(TABLE_BYTES)?;
        host.store(MAC, own.mac);
        host.store(IP, u64::from(own.ip));
        host.store(TABLE, table as u64);
        while host.load(COMMAND)? != 0 {}
        Ok(Self {
            host,
            rng,
            table,
            entries: 0,
            places: BTreeMap::new(),
            queues: BTreeMap::new(),
        })
    }

    fn command(&mut self, operation: u32, index: u32, words: &[u64]) -> Result<(), String> {
        for (n, word) in (0..).zip(words) {
            self.host.store(WORDS + 8 * n, *word);
        }
        self.host.store(COMMAND, u64::from(index << 8 | operation));
        while self.host.load(COMMAND)? != 0 {}
        Ok(())
    }

    /// Registers memory; the second time for an index it stays where it is.
    pub fn set_region(&mut self, key: u32, region: &Region) -> Result<(), String> {
        let index = key >> 8;
        if !self.places.contains_key(&index) {
            let below = region.va as usize % PAGE;
            let count = (below + region.bytes.len()).div_ceil(PAGE).max(1);
            let mut pages = Vec::with_capacity(count);
            for _ in 0..count {
                pages.push(self.host.take(PAGE)?);
            }
            pages.shuffle(&mut self.rng);
            let entry = self.entries;
            self.entries += count;
            if self.entries * 8 > TABLE_BYTES {
                return Err("the host's translation table is full".into());
            }
            for (n, page) in pages.iter().enumerate() {
                let word = (*page as u64 | 1).to_le_bytes();
                self.host.write(self.table + 8 * (entry + n), &word);
            }
            let place = Place {
                va: region.va,
                bytes: region.bytes.len(),
                pages,
                entry,
            };
            for (at, bytes) in place.pieces(0, place.bytes) {
                self.host.permit(at, bytes);
            }
            self.places.insert(index, place);
        }
        self.write(index, 0, &region.bytes);
        let place = &self.places[&index];
        let word = 1
            | u64::from(region.rights) << 4
            | u64::from(key & 0xFF) << 8
            | u64::from(region.pd) << 16
            | (place.entry as u64) << 32;
        self.command(
            SET_REGION,
            index,
            &[word, region.va, region.bytes.len() as u64],
        )
    }

    /// Reads what a region holds.
    pub fn read(&self, index: u32, offset: usize, bytes: usize) -> Vec<u8> {
        let pieces = self.places[&index].pieces(offset, bytes);
        let read = |(at, count)| self.host.read(at, count);
        pieces.into_iter().flat_map(read).copied().collect()
    }

    /// Writes into a region, as its host does.
    pub fn write(&mut self, index: u32, offset: usize, mut data: &[u8]) {
        for (at, count) in self.places[&index].pieces(offset, data.len()) {
            let (now, later) = data.split_at(count);
            self.host.write(at, now);
            data = later;
        }
    }

    /// Sets a queue pair and begins anew with it. Nothing of it may be under way.
    pub fn begin(&mut self, qpn: u32, s: &Settings) -> Result<(), String> {
        if !self.queues.contains_key(&qpn) {
            let completions = self.host.take(COMPLETION << COMPLETIONS_LOG2)?;
            self.host
                .permit(completions, COMPLETION << COMPLETIONS_LOG2);
            let words = [completions as u64, COMPLETIONS_LOG2 as u64];
            self.command(SET_CQ, qpn, &words)?;
            let queues = Queues {
                requests: self.host.take(ENTRY << QUEUE_LOG2)?,
                buffers: self.host.take((16 << 2) << QUEUE_LOG2)?,
                completions,
                sent: 0,
                posted: 0,
                seen: 0,
                segments_log2: 0,
            };
            self.queues.insert(qpn, queues);
        }
        let q = self.queues.get_mut(&qpn).expect("it was made");
        (q.sent, q.posted) = (0, 0);
        q.segments_log2 = s.receive_segments_log2;
        let wide = |value: u8, at: u32| u64::from(value) << at;
        const MTU_LOG2_BASE: u32 = 7;
        let w0 = u64::from(qpn)
            | wide(s.state as u8, 8)
            | u64::from(s.mtu_log2 - MTU_LOG2_BASE) << 12
            | wide(s.timeout, 16)
            | wide(s.retry, 24)
            | wide(s.rnr_retry, 28)
            | wide(s.min_rnr, 32)
            | wide(s.rights, 40)
            | wide(s.rd_atomic, 44)
            | u64::from(s.pd) << 48;
        let log2 = QUEUE_LOG2 as u64;
        let w1 = u64::from(s.peer_qpn)
            | u64::from(qpn) << 24
            | u64::from(qpn) << 32
            | wide(s.receive_segments_log2, 38)
            | log2 << 40
            | log2 << 44
            | u64::from(s.port) << 48;
        let psns = u64::from(s.psn) | u64::from(s.expected_psn) << 32;
        let words = [
            w0,
            w1,
            q.requests as u64,
            q.buffers as u64,
            u64::from(s.peer.ip),
            s.peer.mac,
            psns,
        ];
        self.command(BEGIN_QP, qpn, &words)
    }

    /// Posts a work request; returns its index.
    pub fn post(&mut self, qpn: u32, request: &WorkRequest) -> u16 {
        let entry = entry(request);
        let copy = self.rng.random_ratio(1, 3);
        let q = self.queues.get_mut(&qpn).expect("there is this queue pair");
        let at = q.requests + ENTRY * (q.sent as usize % (1 << QUEUE_LOG2));
        let index = q.sent as u16;
        q.sent += 1;
        let bell = u64::from(q.sent as u16) | u64::from(qpn) << 32 | u64::from(copy) << 63;
        self.host.write(at, &entry);
        let page = qpn << PAGE_LOG2;
        if copy {
            let whole = request.inline.is_some() || request.segments.len() > 1;
            let bytes = if whole { ENTRY } else { ENTRY / 2 };
            for (n, word) in (0..).zip(entry[..bytes].chunks_exact(8)) {
                let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
                self.host.store(page | DOORBELL_COPY | (8 * n), word);
            }
        }
        self.host.store(page, bell);
        index
    }

    /// Posts a receive buffer; returns its index.
    pub fn post_receive(&mut self, qpn: u32, list: &[Segment]) -> u16 {
        let q = self.queues.get_mut(&qpn).expect("there is this queue pair");
        let size = 16_usize << q.segments_log2;
        let at = q.buffers + size * (q.posted as usize % (1 << QUEUE_LOG2));
        let index = q.posted as u16;
        q.posted += 1;
        let bell = u64::from(q.posted as u16) | u64::from(qpn) << 32;
        let mut bytes = list.iter().flat_map(segment).collect::<Vec<_>>();
        bytes.resize(size, 0);
        self.host.write(at, &bytes);
        self.host.store(qpn << PAGE_LOG2 | DOORBELL_RECEIVE, bell);
        index
    }

    /// Takes the completions that are there.
    pub fn completions(&mut self, qpn: u32) -> Vec<Completion> {
        let q = self.queues.get_mut(&qpn).expect("there is this queue pair");
        let mut found = Vec::new();
        loop {
            let place = q.seen as usize % (1 << COMPLETIONS_LOG2);
            let bytes = self
                .host
                .read(q.completions + COMPLETION * place, COMPLETION);
            // The owner's bit is 1 in the first turn.
            if u64::from(bytes[31] >> 7) == q.seen >> COMPLETIONS_LOG2 & 1 {
                break;
            }
            found.push(completion(bytes));
            q.seen += 1;
        }
        if !found.is_empty() {
            let bell = u64::from(qpn) << 32 | u64::from(q.seen as u16);
            self.host
                .store(qpn << PAGE_LOG2 | DOORBELL_COMPLETION, bell);
        }
        found
    }

    /// All counters by their names.
    pub fn counters(&mut self) -> Result<BTreeMap<&'static str, u32>, String> {
        let mut counters = BTreeMap::new();
        for (n, name) in (0..).zip(NAMES) {
            counters.insert(name, self.host.load(COUNTERS + 8 * n)? as u32);
        }
        Ok(counters)
    }
}

/// The model's counters by the same names.
pub fn names_of(c: &Counters) -> [(&'static str, u32); 16] {
    [
        ("rx_other", c.rx_other),
        ("rx_broken", c.rx_broken),
        ("rx_malformed", c.rx_malformed),
        ("rx_packet", c.rx_packet),
        ("rx_no_qp", c.rx_no_qp),
        ("rx_duplicate", c.rx_duplicate),
        ("rx_sequence", c.rx_sequence),
        ("rx_invalid", c.rx_invalid),
        ("rx_access", c.rx_access),
        ("rx_operation", c.rx_operation),
        ("rx_not_ready", c.rx_not_ready),
        ("rx_ghost", c.rx_ghost),
        ("rx_congestion", c.rx_congestion),
        ("tx_packet", c.tx_packet),
        ("tx_rewind", c.tx_rewind),
        ("tx_timeout", c.tx_timeout),
    ]
}

fn segment(s: &Segment) -> Vec<u8> {
    let (va, key, bytes) = (
        s.va.to_le_bytes(),
        s.key.to_le_bytes(),
        s.bytes.to_le_bytes(),
    );
    [&va[..], &key, &bytes].concat()
}

/// A send queue's entry.
fn entry(r: &WorkRequest) -> Vec<u8> {
    let operation = match r.operation {
        Operation::Unknown => UNKNOWN,
        known => known as u8,
    };
    let first = r.segments.first().copied().unwrap_or_default();
    let behind = r.segments.get(1..).unwrap_or_default();
    let more = behind.len() as u8;
    let flags = u8::from(r.signaled)
        | u8::from(r.solicited) << 1
        | u8::from(r.inline.is_some()) << 2
        | more << 3
        | u8::from(r.fence) << 7;
    let mut out = vec![operation, flags, 0, 0];
    out.extend(r.imm.to_le_bytes());
    out.extend(r.remote_va.to_le_bytes());
    out.extend(r.remote_key.to_le_bytes());
    out.extend(r.length.to_le_bytes());
    out.extend(first.va.to_le_bytes());
    out.extend(first.key.to_le_bytes());
    out.extend([0; 4]);
    out.extend(r.swap.to_le_bytes());
    out.extend(r.compare.to_le_bytes());
    let alone = behind.is_empty();
    out.extend((if alone { 0 } else { first.bytes }).to_le_bytes());
    out.extend([0; 4]);
    out.extend(r.inline.iter().flatten());
    if r.inline.is_none() {
        out.extend(behind.iter().flat_map(segment));
    }
    // Nobody looks at what lies behind.
    out.resize(out.len().max(ENTRY), 0xEE);
    out.truncate(ENTRY);
    out
}

/// A completion queue's entry.
fn completion(bytes: &[u8]) -> Completion {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    const RECEIVE: u8 = 1 << 5;
    const IMMEDIATE: u8 = 1 << 6;
    const INVALIDATED: u8 = 1 << 7;
    let flags = bytes[19];
    Completion {
        is_receive: flags & RECEIVE != 0,
        index: word(16) as u16,
        status: bytes[24],
        bytes: word(0),
        operation: bytes[18],
        imm: (flags & IMMEDIATE != 0).then(|| word(4)),
        invalidated: (flags & INVALIDATED != 0).then(|| word(20)),
    }
}
