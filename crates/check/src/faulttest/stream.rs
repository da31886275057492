// SPDX-License-Identifier: Apache-2.0
//! The oracle: what a CPU asked of one session in one direction, and what of it became true.
//!
//! Every store, load and flush is written down when it is issued. A DMA write at the receiver must
//! be the next store of its session: once and in order. A store may be left out only if a report
//! said so. Nothing here knows frames, sequence numbers or the model.

use std::collections::VecDeque;

use wire::{FMT_MRD64, FMT_MWR64};

use crate::faulttest::ledger;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// What should become of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It happens.
    Deliver,
    /// It is refused, with this code, and reported.
    Refuse(u8),
    /// One of the two: its region is given and taken away meanwhile.
    Either,
}

/// An operation of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A store.
    Store,
    /// A load; the number is the CPU's tag.
    Load(u8),
    /// A flush; the number is its cookie.
    Flush(u16),
}

/// One operation as it was issued.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What it is.
    pub what: What,
    /// What should become of it.
    pub fate: Fate,
    /// Page of the session.
    pub page: u8,
    /// Data DWs.
    pub dws: u8,
    /// Byte enables of the first DW.
    pub first_be: u8,
    /// Byte enables of the last DW, 0 if it is the first.
    pub last_be: u8,
    /// Byte offset in the page, DW aligned.
    pub offset: u16,
    /// Its data are made of this number.
    pub seed: u64,
    /// Address on the wire, DW aligned.
    pub wire: u64,
    /// A report has named it.
    pub reported: bool,
    /// Its session began anew: nobody knows what became of it, and the application was told.
    pub excused: bool,
    /// A flush said that it was delivered.
    pub promised: bool,
}

impl Entry {
    fn bytes(&self) -> usize {
        4 * usize::from(self.dws)
    }

    fn end(&self) -> usize {
        usize::from(self.offset) + self.bytes()
    }

    /// Byte enables of DW number `dw`.
    fn enables(&self, dw: usize) -> u8 {
        match dw {
            0 => self.first_be,
            _ if dw + 1 == usize::from(self.dws) => self.last_be,
            _ => 0xF,
        }
    }

    /// Whether a write of the one may be taken for a write of the other: the same bytes at the same place.
    fn looks_like(&self, other: &Self) -> bool {
        let what = |entry: &Self| (entry.what, entry.page, entry.offset, entry.dws);
        let (mut own, mut others) = ([0; 256], [0; 256]);
        fill(self.seed, &mut own[..self.bytes()]);
        fill(other.seed, &mut others[..other.bytes()]);
        what(self) == what(other)
            && (0..usize::from(self.dws)).all(|dw| {
                let enables = self.enables(dw);
                let differ = (0..4).any(|byte| {
                    own[4 * dw + byte] != others[4 * dw + byte] && enables >> byte & 1 == 1
                });
                enables == other.enables(dw) && !differ
            })
    }

    /// A store that must still arrive, unless it was taken for `mistakable`.
    fn is_owed(&self, mistakable: Option<&Self>) -> bool {
        self.what == What::Store
            && !self.excused
            && !self.reported
            && self.fate == Fate::Deliver
            && !mistakable.is_some_and(|other| other.looks_like(self))
    }

    /// fmt/type in reports.
    fn op(&self) -> u8 {
        match self.what {
            What::Load(_) => FMT_MRD64,
            _ => FMT_MWR64,
        }
    }

    /// Whether `next` may have travelled in one frame with it.
    fn joins(&self, next: &Self) -> bool {
        self.what == What::Store
            && next.what == What::Store
            && self.page == next.page
            && self.end() == usize::from(next.offset)
    }
}

/// Fills `data` with the data of an operation.
pub fn fill(seed: u64, data: &mut [u8]) {
    if seed & ledger::IDENTIFIED != 0 {
        return ledger::fill(seed, data);
    }
    let mut state = seed;
    for chunk in data.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// A DMA write at the receiver.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Page of the session.
    pub page: usize,
    /// Byte offset in the page, DW aligned.
    pub offset: usize,
    /// Byte enables of the first DW.
    pub first_be: u8,
    /// Byte enables of the last DW, 0 if it is the first.
    pub last_be: u8,
    /// The data.
    pub data: &'a [u8],
}

impl Write<'_> {
    fn enables(&self, dw: usize) -> u8 {
        let dws = self.data.len() / 4;
        match dw {
            0 => self.first_be,
            _ if dw + 1 == dws => self.last_be,
            _ => 0xF,
        }
    }

    /// Carries it out in the memory of its session.
    pub fn apply(&self, memory: &mut [u8]) {
        let place = &mut memory[self.page * PAGE + self.offset..][..self.data.len()];
        for (index, (byte, new)) in place.iter_mut().zip(self.data).enumerate() {
            if self.enables(index / 4) >> (index % 4) & 1 == 1 {
                *byte = *new;
            }
        }
    }

    /// Whether the store is in this write, `from` bytes behind its start.
    fn contains(&self, entry: &Entry, from: usize) -> bool {
        self.part_of(entry, 0, from) == Some(entry.bytes())
    }

    /// How many bytes of a store of which `done` have been written are in this write, `from` bytes behind its start:
    /// the rest, or as many as there are.
    fn part_of(&self, entry: &Entry, done: usize, from: usize) -> Option<usize> {
        if entry.what != What::Store
            || usize::from(entry.page) != self.page
            || usize::from(entry.offset) + done != self.offset + from
        {
            return None;
        }
        let bytes = (entry.bytes() - done).min(self.data.len() - from);
        let mut data = [0; 256];
        let data = &mut data[..entry.bytes()];
        fill(entry.seed, data);
        let (data, got) = (&data[done..done + bytes], &self.data[from..from + bytes]);
        let same = (0..bytes / 4).all(|dw| {
            let enables = entry.enables(dw + done / 4);
            enables == self.enables(dw + from / 4)
                && (0..4).all(|byte| {
                    enables >> byte & 1 == 0 || data[4 * dw + byte] == got[4 * dw + byte]
                })
        });
        same.then_some(bytes)
    }
}

/// Operations that are kept for the report of a failure.
const HISTORY: usize = 12;
/// Picoseconds after a session began anew during which reports of the time before may come.
const DOUBT_PS: u64 = 100_000_000;

/// What was counted on one stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Stores that were issued.
    pub stores: u64,
    /// Stores that arrived.
    pub delivered: u64,
    /// DMA writes that they came in.
    pub writes: u64,
    /// Stores and loads that were refused and reported.
    pub refused: u64,
    /// Stores, loads and flushes of a peer that was lost or began anew.
    pub excused: u64,
    /// Flushes that succeeded.
    pub flushed: u64,
    /// Flushes that failed.
    pub flush_failed: u64,
}

/// One session in one direction.
#[derive(Debug, Default)]
pub struct Stream {
    pending: VecDeque<Entry>,
    /// Refused operations that were passed in the stream before their report came.
    unreported: VecDeque<Entry>,
    /// The last operation that a report named or covered.
    last_reported: Option<Entry>,
    /// Wire addresses of loads that are refused since the last quiet moment: a load that is sent
    /// again is reported again.
    refused_loads: Vec<u64>,
    /// Flushes without an answer.
    flushes: VecDeque<u16>,
    /// So many of them, from the front, may have had one that was lost.
    unheard: usize,
    /// Those that nobody waits for any more. If they still stood before the NIC when it began anew, they may be answered.
    forgotten: Vec<u16>,
    /// Number of the last report.
    last_number: Option<u16>,
    /// The session was told to begin anew, which may take until stores in front of it have gone:
    /// numbers may go back once.
    renewed: bool,
    /// Until then reports may be of the time before the session began anew.
    doubtful_until_ps: u64,
    /// The last operations that ended, and how.
    history: VecDeque<(Entry, &'static str)>,
    merge: bool,
    /// Bytes at whose multiples a write is cut, if they are fewer than a store may have.
    piece: Option<usize>,
    /// Bytes of the store in front that were written.
    done: usize,
    /// The store that was written last, if it was excused: it may not have been that one but a later one of which
    /// nothing can be told apart, as of two stores without a byte at one place.
    mistakable: Option<Entry>,
    lossy: bool,
    tally: Tally,
}

impl Stream {
    /// A stream; with `merge` stores that follow each other may come as one.
    pub fn new(merge: bool) -> Self {
        Self {
            merge,
            ..Self::default()
        }
    }

    /// Lets stores come in pieces that end at multiples of so many bytes.
    pub fn set_piece(&mut self, piece: usize) {
        self.piece = Some(piece);
    }

    /// Whether operations that are issued from now on may vanish, and nobody is told.
    pub fn set_lossy(&mut self, lossy: bool) {
        self.lossy = lossy;
    }

    /// Whether it is so now.
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// What was counted.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Operations whose end is not known.
    pub fn open(&self) -> usize {
        self.pending.len() + self.unreported.len() + self.flushes.len()
    }

    /// Writes an operation down.
    pub fn issue(&mut self, mut entry: Entry) {
        entry.excused |= self.lossy;
        match entry.what {
            What::Store => self.tally.stores += 1,
            What::Flush(cookie) => self.flushes.push_back(cookie),
            What::Load(_) if matches!(entry.fate, Fate::Refuse(_)) => {
                self.refused_loads.push(entry.wire);
            }
            What::Load(_) => {}
        }
        self.pending.push_back(entry);
    }

    /// A DMA write of this session: the next stores. `shadow` is the session's memory as it should
    /// be.
    pub fn write(&mut self, write: &Write<'_>, shadow: &mut [u8]) -> Result<(), String> {
        let mut from = 0;
        let mut passed = 0;
        self.tally.writes += 1;
        while from < write.data.len() || from == 0 {
            let Some(entry) = self.pending.front().copied() else {
                return Err(format!(
                    "a DMA write that nobody asked for, {from} bytes of it were expected: {}",
                    show_write(write)
                ));
            };
            let part = match entry.fate {
                Fate::Refuse(_) => None,
                _ if entry.reported => None,
                _ => self.next_part(write, &entry, from),
            };
            if let Some(bytes) = part {
                if bytes < write.data.len() && !self.merge {
                    return Err(format!(
                        "two stores came as one: {}",
                        self.show(write, &entry)
                    ));
                }
                let range = self.done..self.done + bytes;
                apply(&entry, range, shadow);
                from += bytes;
                self.done += bytes;
                if self.done == entry.bytes() {
                    self.done = 0;
                    self.pending.pop_front();
                    self.tally.delivered += 1;
                    self.mistakable = entry.excused.then_some(entry);
                    self.remember(entry, "arrived");
                }
                continue;
            }
            if self.done > 0 && !entry.excused {
                return Err(format!(
                    "{} bytes of a store were written and then something else: {}",
                    self.done,
                    self.show(write, &entry)
                ));
            }
            self.done = 0;
            if from > 0 && !entry.excused {
                return Err(format!(
                    "a DMA write goes on behind {from} bytes with other than the next store: {}",
                    self.show(write, &entry)
                ));
            }
            passed += 1;
            if entry.what == What::Store {
                self.remember(entry, "passed");
            }
            match entry.fate {
                _ if entry.excused => self.tally.excused += 1,
                Fate::Deliver if self.had_arrived(&entry) => {}
                Fate::Deliver if entry.what == What::Store => {
                    let kind = self.kind_of_disorder(write);
                    return Err(format!("{kind}: {}", self.show(write, &entry)));
                }
                Fate::Deliver => {}
                Fate::Refuse(_) | Fate::Either => self.pass_refused(entry),
            }
            self.pending.pop_front();
            if passed > 100_000 {
                return Err("the oracle runs in circles".to_owned());
            }
        }
        Ok(())
    }

    /// How many bytes of the store in front a write has, if it is that store's rest or, where writes are cut, as much
    /// of it as fits in front of the cut.
    fn next_part(&self, write: &Write<'_>, entry: &Entry, from: usize) -> Option<usize> {
        let bytes = write.part_of(entry, self.done, from)?;
        let ends = self.done + bytes == entry.bytes();
        let is_cut = self
            .piece
            .is_some_and(|piece| (write.offset + from + bytes).is_multiple_of(piece));
        (ends || is_cut).then_some(bytes)
    }

    /// Whether the last write was this store's and was taken for an excused one's. All between the two were passed
    /// without a write.
    fn had_arrived(&mut self, entry: &Entry) -> bool {
        let mistaken = self.mistakable.take_if(|other| other.looks_like(entry));
        self.tally.excused += u64::from(mistaken.is_some());
        mistaken.is_some()
    }

    fn kind_of_disorder(&self, write: &Write<'_>) -> &'static str {
        let mut later = self.pending.iter().skip(1);
        if later.any(|entry| write.contains(entry, 0)) {
            "a store was left out or overtaken"
        } else {
            "a DMA write is not the next store of its session (again, altered, or of nobody)"
        }
    }

    /// A refused operation is passed in the stream.
    fn pass_refused(&mut self, entry: Entry) {
        if entry.what == What::Store || matches!(entry.what, What::Load(_)) {
            if entry.reported {
                self.last_reported = Some(entry);
            } else {
                self.unreported.push_back(entry);
            }
        }
    }

    fn remember(&mut self, entry: Entry, how: &'static str) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((entry, how));
    }

    /// The NIC reported that an operation was refused.
    pub fn report(
        &mut self,
        now_ps: u64,
        code: u8,
        op: u8,
        number: u16,
        wire: u64,
    ) -> Result<(), String> {
        let show = format!("event {code} about {op:#04x} number {number} at {wire:#x}");
        let doubtful = now_ps < self.doubtful_until_ps;
        let backwards = self
            .last_number
            .is_some_and(|last| number.wrapping_sub(last) as i16 <= 0);
        if backwards && self.renewed {
            self.renewed = false;
        } else if backwards && !doubtful {
            let last = self.last_number.unwrap_or(0);
            return Err(format!("{show}, after one about number {last}"));
        }
        if !doubtful {
            self.last_number = Some(number);
        }
        let named = |entry: &Entry| {
            let fate = match entry.fate {
                Fate::Refuse(expected) => expected == code,
                Fate::Either => true,
                Fate::Deliver => false,
            };
            fate && !entry.reported && entry.wire == wire && entry.op() == op
        };
        // Those that were passed before it are in front.
        if let Some(at) = self.unreported.iter().position(&named) {
            for entry in self.unreported.drain(..at).collect::<Vec<_>>() {
                self.cover(&entry)?;
            }
            self.last_reported = self.unreported.pop_front();
        } else if let Some(at) = self.pending.iter().position(&named) {
            for entry in self.unreported.drain(..).collect::<Vec<_>>() {
                self.cover(&entry)?;
            }
            self.pending[at].reported = true;
        } else if doubtful || op == FMT_MRD64 && self.refused_loads.contains(&wire) {
            return Ok(());
        } else {
            let mut text = format!("{show}: there was no such operation to be refused");
            for entry in self.pending.iter().filter(|entry| entry.wire == wire) {
                text += &format!("\n  waits: {}", show_entry(entry));
            }
            self.show_history(&mut text);
            return Err(text);
        }
        self.tally.refused += 1;
        Ok(())
    }

    fn show_history(&self, text: &mut String) {
        for (entry, how) in &self.history {
            *text += &format!("\n  {how}: {}", show_entry(entry));
        }
    }

    /// A refused operation without a report of its own must have travelled behind one with.
    fn cover(&mut self, entry: &Entry) -> Result<(), String> {
        let covered = self.merge
            && self
                .last_reported
                .as_ref()
                .is_some_and(|last| last.joins(entry));
        if entry.excused {
            self.tally.excused += 1;
            return Ok(());
        }
        if !covered {
            return Err(format!(
                "a refused operation was not reported: {}",
                show_entry(entry)
            ));
        }
        self.last_reported = Some(*entry);
        self.tally.refused += 1;
        Ok(())
    }

    /// The NIC said that a flush succeeded. What is before it must have arrived, or be among the
    /// `under_way` operations that the receiver's slots hold.
    pub fn flushed(&mut self, cookie: u16, under_way: usize) -> Result<(), String> {
        if self.forgotten.contains(&cookie) {
            return Ok(());
        }
        let at = self.flushes.iter().position(|flush| *flush == cookie);
        if let Some(at) = at.filter(|at| *at <= self.unheard) {
            self.tally.excused += at as u64;
            self.flushes.drain(..at);
            self.unheard -= at;
        }
        if self.flushes.front() != Some(&cookie) {
            return Err(format!(
                "flush {cookie:#x} succeeded, but the next one is {:x?}",
                self.flushes.front()
            ));
        }
        self.flushes.pop_front();
        self.unheard = self.unheard.saturating_sub(1);
        self.tally.flushed += 1;
        let at = self
            .pending
            .iter()
            .position(|e| e.what == What::Flush(cookie));
        let Some(at) = at else { return Ok(()) };
        let mut missing = 0;
        let mistakable = self.mistakable;
        for entry in self.pending.iter_mut().take(at) {
            if entry.is_owed(mistakable.as_ref()) {
                entry.promised = true;
                missing += 1;
            }
        }
        if missing > under_way {
            return Err(format!(
                "flush {cookie:#x} succeeded, but {missing} stores before it have not arrived"
            ));
        }
        Ok(())
    }

    /// The NIC said that a flush failed.
    pub fn flush_failed(&mut self, cookie: u16) -> Result<(), String> {
        let at = self.flushes.iter().position(|flush| *flush == cookie);
        let Some(at) = at else {
            if self.forgotten.contains(&cookie) {
                return Ok(());
            }
            return Err(format!("flush {cookie:#x} failed, but nobody asked for it"));
        };
        self.flushes.remove(at);
        self.unheard -= usize::from(at < self.unheard);
        self.tally.flush_failed += 1;
        Ok(())
    }

    /// The session begins anew: what is open may or may not have happened, but for what a flush
    /// has promised, unless the receiver itself begins anew.
    pub fn excuse(&mut self, now_ps: u64, receiver_too: bool) {
        for entry in self.pending.iter_mut().chain(&mut self.unreported) {
            entry.excused |= receiver_too || !entry.promised;
        }
        self.doubtful_until_ps = now_ps + DOUBT_PS;
        self.last_number = None;
        self.renewed = true;
    }

    /// Until then reports may be of operations that nobody meant to be refused.
    pub fn doubt(&mut self, until_ps: u64) {
        self.doubtful_until_ps = until_ps;
    }

    /// Events were lost, and the host was told: it does not know which.
    pub fn lose_events(&mut self, now_ps: u64) {
        self.excuse(now_ps, false);
        self.unheard = self.flushes.len();
    }

    /// Flushes need no answer any more: the NIC itself began anew.
    pub fn forget_flushes(&mut self) {
        self.tally.excused += self.flushes.len() as u64;
        self.forgotten.extend(self.flushes.drain(..));
        self.unheard = 0;
    }

    /// Forgets everything that is open.
    pub fn abandon(&mut self) {
        self.tally.excused += self.open() as u64;
        self.pending.clear();
        self.done = 0;
        self.mistakable = None;
        self.unreported.clear();
        self.flushes.clear();
        self.unheard = 0;
        self.refused_loads.clear();
        self.last_number = None;
        self.last_reported = None;
    }

    /// A load was carried out at the receiver: all stores before it must have arrived.
    pub fn load_served(&self, tag: u8) -> Result<(), String> {
        let this = |entry: &Entry| entry.what == What::Load(tag);
        let Some(at) = self.pending.iter().rposition(this) else {
            return Ok(());
        };
        let mut before = self.pending.iter().take(at);
        match before.find(|entry| entry.is_owed(self.mistakable.as_ref())) {
            None => Ok(()),
            Some(entry) => Err(format!(
                "a load was served before an earlier store: {}",
                show_entry(entry)
            )),
        }
    }

    /// Nothing moves any more: everything must have ended.
    pub fn settle(&mut self) -> Result<(), String> {
        while let Some(entry) = self.pending.pop_front() {
            match entry.fate {
                _ if entry.excused => self.tally.excused += 1,
                Fate::Deliver if self.had_arrived(&entry) => {}
                Fate::Deliver if entry.what == What::Store => {
                    return Err(format!(
                        "a store never arrived and nobody reported it ({} operations behind it): {}",
                        self.pending.len(),
                        show_entry(&entry)
                    ));
                }
                Fate::Deliver => {}
                Fate::Refuse(_) | Fate::Either => self.pass_refused(entry),
            }
        }
        for entry in self.unreported.drain(..).collect::<Vec<_>>() {
            self.cover(&entry)?;
        }
        if let Some(cookie) = self.flushes.get(self.unheard) {
            return Err(format!("flush {cookie:#x} was never answered"));
        }
        self.forget_flushes();
        self.forgotten.clear();
        self.refused_loads.clear();
        self.done = 0;
        self.mistakable = None;
        Ok(())
    }

    /// Operations that wait for something other than the end of refused ones.
    pub fn waits(&self) -> bool {
        let mistakable = self.mistakable.as_ref();
        !self.flushes.is_empty() || self.pending.iter().any(|entry| entry.is_owed(mistakable))
    }

    fn show(&self, write: &Write<'_>, entry: &Entry) -> String {
        let mut text = format!(
            "{}\n  the next of {} operations is {}",
            show_write(write),
            self.pending.len(),
            show_entry(entry)
        );
        for other in self
            .pending
            .iter()
            .skip(1)
            .filter(|other| write.contains(other, 0))
        {
            text += &format!("\n  this one waits: {}", show_entry(other));
        }
        self.show_history(&mut text);
        text
    }
}

fn apply(entry: &Entry, part: std::ops::Range<usize>, shadow: &mut [u8]) {
    let mut data = [0; 256];
    let data = &mut data[..entry.bytes()];
    fill(entry.seed, data);
    let at = usize::from(entry.page) * PAGE + usize::from(entry.offset);
    let memory = &mut shadow[at..at + data.len()];
    for dw in 0..usize::from(entry.dws) {
        let enables = entry.enables(dw);
        for byte in 0..4 {
            if enables >> byte & 1 == 1 && part.contains(&(4 * dw + byte)) {
                memory[4 * dw + byte] = data[4 * dw + byte];
            }
        }
    }
}

fn show_write(write: &Write<'_>) -> String {
    format!(
        "DMA write of {} bytes to page {} offset {:#x}, enables {:x}/{:x}, data {:02x?}..",
        write.data.len(),
        write.page,
        write.offset,
        write.first_be,
        write.last_be,
        &write.data[..write.data.len().min(8)]
    )
}

fn show_entry(entry: &Entry) -> String {
    let mut data = [0; 256];
    let data = &mut data[..entry.bytes()];
    fill(entry.seed, data);
    format!(
        "{:?} of {} bytes at page {} offset {:#x} (wire {:#x}), enables {:x}/{:x}, data {:02x?}.., {:?}{}{}",
        entry.what,
        data.len(),
        entry.page,
        entry.offset,
        entry.wire,
        entry.first_be,
        entry.last_be,
        &data[..data.len().min(8)],
        entry.fate,
        if entry.reported { ", reported" } else { "" },
        if entry.excused { ", excused" } else { "" },
    )
}

#[cfg(test)]
mod tests;
