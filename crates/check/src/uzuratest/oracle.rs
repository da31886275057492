// SPDX-License-Identifier: Apache-2.0
//! One queue pair's requests to its peer, and what they must do: to both memories, and to both ends' completions.

use std::collections::VecDeque;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use roce::{Completion, Operation, Region, Segment, Status, WorkRequest, opcode};

use super::end::End;

/// Requests under way at once, and places of local buffers and of receive buffers.
const UNDER_WAY: usize = 10;
const SLOTS: usize = 12;
const LONGEST: usize = 4096;
const SLOT: usize = LONGEST + 16;
/// What the peer's WRITEs, READs and atomics reach.
const AREA: usize = 6144;
const INLINE: usize = 64;
const ATOMIC: usize = 8;
/// Buffers at once: so few that a message finds none now and then.
const BUFFERS: usize = 2;

/// Where one end's memory is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its key.
    pub key: u32,
    /// Its first address.
    pub va: u64,
}

impl Place {
    const fn index(self) -> u32 {
        self.key >> 8
    }

    /// Its bytes as a requester's buffers.
    pub const LOCAL: usize = SLOTS * SLOT;
    /// Its bytes as what the peer reaches, and receive buffers.
    pub const REMOTE: usize = AREA + SLOTS * SLOT;

    /// A region there.
    #[must_use]
    pub fn region(self, bytes: Vec<u8>) -> Region {
        Region {
            va: self.va,
            pd: 1,
            rights: Region::ALL,
            bytes,
        }
    }
}

/// Parts of a region.
#[derive(Clone, Debug)]
struct Parts {
    place: Place,
    parts: Vec<(usize, usize)>,
}

impl Parts {
    /// Cuts bytes at random into parts side by side, in any order; some may be empty.
    fn cut(rng: &mut ChaCha8Rng, place: Place, at: usize, bytes: usize, count: usize) -> Self {
        let mut cuts = vec![0, bytes];
        for _ in 1..count {
            let cut = *[rng.random_range(0..=bytes), 0, bytes]
                .choose(rng)
                .unwrap_or(&0);
            cuts.push(cut);
        }
        cuts.sort_unstable();
        let sizes: Vec<_> = cuts.windows(2).map(|w| w[1] - w[0]).collect();
        let mut order: Vec<_> = (0..count).collect();
        rand::seq::SliceRandom::shuffle(&mut order[..], rng);
        let mut parts = vec![(at, 0); count];
        let mut next = at;
        for n in order {
            parts[n] = (next, sizes[n]);
            next += sizes[n];
        }
        Self { place, parts }
    }

    fn list(&self) -> Vec<Segment> {
        let segment = |&(at, bytes): &(usize, usize)| Segment {
            va: self.place.va + at as u64,
            key: self.place.key,
            bytes: bytes as u32,
        };
        self.parts.iter().map(segment).collect()
    }

    fn read(&self, end: &End) -> Vec<u8> {
        let read = |&(at, bytes): &(usize, usize)| end.read(self.place.index(), at, bytes);
        self.parts.iter().flat_map(read).collect()
    }

    fn write(&self, end: &mut End, mut data: &[u8]) {
        for &(at, bytes) in &self.parts {
            let (now, later) = data.split_at(bytes);
            end.write(self.place.index(), at, now);
            data = later;
        }
    }
}

/// A request under way.
struct Request {
    index: u16,
    operation: Operation,
    parts: Parts,
    signaled: bool,
    /// What a READ or atomic must bring.
    result: Option<Vec<u8>>,
}

/// What the peer must be told.
struct Arrival {
    bytes: u32,
    data: Option<Vec<u8>>,
    imm: Option<u32>,
}

/// How a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything succeeds.
    Whole,
    /// Nothing comes any more, on a random day.
    Dead,
    /// The peer posts no buffers any more.
    NotReady,
}

/// One direction of a queue pair.
pub struct Flow {
    /// Whose requests: 0 or 1.
    pub from: usize,
    /// Its queue pair, at both ends.
    pub qpn: u32,
    /// Requests to come.
    pub left: u32,
    /// Requests that have ended.
    pub completed: u64,
    /// The cycle of the last completion, on either side.
    pub moved: u64,
    /// It had to end with an error, and has.
    pub failed: Option<u8>,
    /// The peer posts buffers.
    pub receives: bool,
    /// From now on errors are right.
    pub may_fail: bool,
    local: Place,
    remote: Place,
    segments: usize,
    mtu: usize,
    area: Vec<u8>,
    under_way: VecDeque<Request>,
    arriving: VecDeque<Arrival>,
    buffers: VecDeque<(u16, Parts)>,
    number: usize,
    posted: usize,
    flushed: bool,
}

impl Flow {
    /// One of so many requests; the peer's receive queue has entries of so many segments.
    #[must_use]
    pub fn new(from: usize, qpn: u32, left: u32, places: [Place; 2], segments: usize) -> Self {
        Self {
            from,
            qpn,
            left,
            completed: 0,
            moved: 0,
            failed: None,
            receives: true,
            may_fail: false,
            local: places[0],
            remote: places[1],
            segments,
            mtu: 0,
            area: Vec::new(),
            under_way: VecDeque::new(),
            arriving: VecDeque::new(),
            buffers: VecDeque::new(),
            number: 0,
            posted: 0,
            flushed: false,
        }
    }

    /// Registers memory at both ends, with random bytes.
    pub fn begin(
        &mut self,
        ends: &mut [End; 2],
        rng: &mut ChaCha8Rng,
        mtu: usize,
    ) -> Result<(), String> {
        self.mtu = mtu;
        let mut bytes = vec![0; Place::REMOTE];
        rng.fill(&mut bytes[..]);
        self.area = bytes[..AREA].to_vec();
        ends[self.from].set_region(self.local.key, self.local.region(vec![0; Place::LOCAL]))?;
        ends[1 - self.from].set_region(self.remote.key, self.remote.region(bytes))
    }

    /// Posts something, on either side.
    pub fn pump(&mut self, ends: &mut [End; 2], rng: &mut ChaCha8Rng) {
        let peer = 1 - self.from;
        if self.receives && self.buffers.len() < BUFFERS && rng.random_ratio(1, 10) {
            let at = AREA + SLOT * (self.posted % SLOTS);
            self.posted += 1;
            let count = rng.random_range(1..=self.segments);
            let parts = Parts::cut(rng, self.remote, at, SLOT, count);
            let index = ends[peer].post_receive(self.qpn, &parts.list());
            self.buffers.push_back((index, parts));
        }
        let room = self.under_way.len() < UNDER_WAY;
        if self.left > 0 && room && self.failed.is_none() && rng.random_ratio(2, 3) {
            self.left -= 1;
            self.post(ends, rng);
        }
    }

    fn post(&mut self, ends: &mut [End; 2], rng: &mut ChaCha8Rng) {
        use Operation::{CompareSwap, FetchAdd, Read, Send, SendImm, Write, WriteImm};
        let kinds = [
            Send,
            SendImm,
            Write,
            Write,
            WriteImm,
            Read,
            Read,
            CompareSwap,
            FetchAdd,
        ];
        let operation = *kinds.choose(rng).unwrap_or(&Send);
        let at = self.number % SLOTS * SLOT + rng.random_range(0..8);
        self.number += 1;
        let most = LONGEST.min(4 * self.mtu);
        let sizes = [
            0,
            1,
            8,
            64,
            self.mtu,
            self.mtu + 1,
            2 * self.mtu,
            rng.random_range(0..most),
        ];
        let bytes = if operation.is_atomic() {
            ATOMIC
        } else {
            *sizes.choose(rng).unwrap_or(&0)
        };
        let count = if operation.is_atomic() {
            1
        } else {
            *[1, 1, 2, 3, 4, 5].choose(rng).unwrap_or(&1)
        };
        let parts = Parts::cut(rng, self.local, at, bytes, count);
        let mut request = WorkRequest::new(operation, parts.list());
        let mut to = rng.random_range(0..=AREA - bytes);
        if operation.is_atomic() {
            // Aligned.
            let first = (self.remote.va as usize).wrapping_neg() % ATOMIC;
            to = first + rng.random_range(0..AREA / ATOMIC - 1) * ATOMIC;
        }
        let full = self.under_way.len() + 1 == UNDER_WAY;
        // If all that have a place were silent, nothing would say that they have ended.
        let silent = full && !self.under_way.iter().any(|r| r.signaled);
        request.signaled = silent || self.left == 0 || rng.random_ratio(7, 10);
        request.remote_va = self.remote.va + to as u64;
        request.remote_key = self.remote.key;
        // A READ that is asked for again sees what has come since: the next change waits for it.
        request.fence = operation != Read;
        request.imm = rng.random();
        request.solicited = rng.random();
        let imm = matches!(operation, SendImm | WriteImm).then_some(request.imm);
        let mut result = None;
        if operation.is_atomic() {
            result = Some(self.change(&mut request, to, rng));
        } else if operation == Read {
            result = Some(self.area[to..to + bytes].to_vec());
        } else {
            let mut data = vec![0; bytes];
            rng.fill(&mut data[..]);
            parts.write(&mut ends[self.from], &data);
            if bytes <= INLINE && rng.random() {
                request.inline = Some(data.clone());
                request.segments.truncate(1);
            }
            if operation.is_write() {
                self.area[to..to + bytes].copy_from_slice(&data);
            }
            if operation.is_send() || imm.is_some() {
                self.arriving.push_back(Arrival {
                    bytes: bytes as u32,
                    data: operation.is_send().then_some(data),
                    imm,
                });
            }
        }
        if let Some(result) = &result {
            let others: Vec<_> = result.iter().map(|byte| !byte).collect();
            parts.write(&mut ends[self.from], &others);
        }
        let index = ends[self.from].post(self.qpn, &request);
        self.under_way.push_back(Request {
            index,
            operation,
            parts,
            signaled: request.signaled,
            result,
        });
    }

    /// An atomic on the oracle's memory; returns what it finds.
    fn change(&mut self, request: &mut WorkRequest, to: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
        let place = &mut self.area[to..to + ATOMIC];
        let before = place.to_vec();
        let mut word = [0; ATOMIC];
        word.copy_from_slice(place);
        let old = u64::from_le_bytes(word);
        request.swap = rng.random();
        request.compare = if rng.random() { old } else { old ^ 4 };
        let new = match request.operation {
            Operation::FetchAdd => old.wrapping_add(request.swap),
            _ if old == request.compare => request.swap,
            _ => old,
        };
        place.copy_from_slice(&new.to_le_bytes());
        before
    }

    /// A completion of the requester.
    pub fn sent(&mut self, completion: &Completion, end: &End) -> Result<(), String> {
        let status = completion.status;
        if self.failed.is_some() {
            // Everything behind the one that has failed.
            let next = self.under_way.pop_front();
            let next = next.ok_or("a request is flushed that was never posted")?;
            let right = status == Status::Flushed as u8 && next.index == completion.index;
            return right.then_some(()).ok_or_else(|| {
                format!(
                    "behind an error {completion:?} instead of {} flushed",
                    next.index
                )
            });
        }
        loop {
            let next = self.under_way.pop_front();
            let next = next.ok_or("a request ends that was never posted")?;
            self.completed += 1;
            let is_it = next.index == completion.index;
            if is_it && status != Status::Success as u8 {
                if !self.may_fail {
                    return Err(format!("{completion:?}"));
                }
                let takes = next.operation.is_send() || next.operation == Operation::WriteImm;
                if status == Status::NotReady as u8 && !takes {
                    return Err(format!(
                        "{:?} needs no buffer: {completion:?}",
                        next.operation
                    ));
                }
                self.failed = Some(status);
                return Ok(());
            }
            if let Some(result) = &next.result
                && next.parts.read(end) != *result
            {
                return Err(format!("{:?} has brought something else", next.operation));
            }
            if is_it {
                let bytes = next.result.map_or(0, |result| result.len() as u32);
                let right = completion.operation == next.operation as u8
                    && completion.bytes == bytes
                    && next.signaled;
                return right
                    .then_some(())
                    .ok_or_else(|| format!("{:?} ends as {completion:?}", next.operation));
            }
            if next.signaled {
                return Err(format!("the completion of {} is missing", next.index));
            }
        }
    }

    /// A completion of the peer's receive queue.
    pub fn received(&mut self, completion: &Completion, end: &End) -> Result<(), String> {
        let (index, parts) = self
            .buffers
            .pop_front()
            .ok_or("a buffer ends that was never posted")?;
        if completion.index != index {
            return Err(format!("buffer {index} is next: {completion:?}"));
        }
        if completion.status == Status::Flushed as u8 && self.may_fail {
            self.flushed = true;
            return Ok(());
        }
        let arrival = self
            .arriving
            .pop_front()
            .ok_or("a message comes that was never sent")?;
        let operation_fits =
            (completion.operation <= opcode::SEND_ONLY_IMM) == arrival.data.is_some();
        let right = completion.status == Status::Success as u8
            && !self.flushed
            && completion.bytes == arrival.bytes
            && completion.imm == arrival.imm
            && operation_fits;
        if !right {
            return Err(format!(
                "{completion:?} instead of {} bytes, immediate {:?}",
                arrival.bytes, arrival.imm
            ));
        }
        if let Some(data) = arrival.data
            && parts.read(end)[..data.len()] != data
        {
            return Err("a message has other bytes".into());
        }
        Ok(())
    }

    /// Whether everything has ended.
    #[must_use]
    pub fn is_done(&self, how: Ending) -> bool {
        if how == Ending::Whole {
            return self.left == 0 && self.under_way.is_empty() && self.arriving.is_empty();
        }
        self.failed.is_some() && self.under_way.is_empty()
    }

    /// Changes a byte that nobody has asked to be changed, for a test of the test.
    pub fn spoil(&self, end: &mut End) {
        let byte = end.read(self.remote.index(), 0, 1)[0];
        end.write(self.remote.index(), 0, &[!byte]);
    }

    /// At the end: every byte that the peer's requests reach.
    pub fn check_area(&self, end: &End) -> Result<(), String> {
        let found = end.read(self.remote.index(), 0, AREA);
        let wrong = (0..AREA).find(|&n| found[n] != self.area[n]);
        wrong.map_or(Ok(()), |at| {
            Err(format!(
                "queue pair {} of end {}: byte {at} of what it has written is {:#x} instead of {:#x}",
                self.qpn, self.from, found[at], self.area[at]
            ))
        })
    }

    /// What is under way, for messages.
    #[must_use]
    pub fn state(&self) -> String {
        format!(
            "queue pair {} of end {}: {} ended, {} to come, {} under way from {:?} on, {} to arrive",
            self.qpn,
            self.from,
            self.completed,
            self.left,
            self.under_way.len(),
            self.under_way.front().map(|r| (r.index, r.operation)),
            self.arriving.len()
        )
    }
}
