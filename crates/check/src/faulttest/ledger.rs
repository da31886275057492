// SPDX-License-Identifier: Apache-2.0
//! The observer of resets: every store carries its identity in each of its DWs, and memory and wire are asked whether
//! what they see of it may be.
//!
//! It knows no session, no sequence number and no NIC; beside it [`crate::faulttest::stream`] says what must arrive, and
//! in which order. What it promises for a store, whatever was reset:
//!
//! | | |
//! |---|---|
//! | any store | each of its DWs is written at most once, at its own address and nowhere else |
//! | whole | what a DMA write holds are the DWs of whole stores in order. Where the host's payload is shorter than a store it comes in several writes, and the rest is missing only if the receiver was reset in between |
//! | the receiver was reset | nothing is written from the reset on until its host has written its tables again; what had arrived before the reset is never written after it |
//! | the sender was reset | no frame with a store that was issued before leaves after the reset |
//!
//! A reset of the PCIe side (for the host a function-level reset) counts from the edge at which it is asserted. One of
//! the network side lets the NIC finish what it can first, so that it counts from the first TLP that is taken after it.
//!
//! What is not promised: that a store without a session arrives, if either end was reset meanwhile; and that one with a
//! session does, if its session had to begin anew. There the host is told, and knows only what a flush has promised.

use std::collections::HashMap;

use wire::{Frame, Payload, TlpHeader};

use crate::faulttest::stream::Write;

/// Marks the seed of an operation whose data are its identity.
pub const IDENTIFIED: u64 = 1 << 63;
const NUMBERS: u32 = 1 << 25;
/// Odd, so that it has an inverse: identities look like other data.
const SPREAD: u32 = 0x9E37_79B1;

/// `SPREAD` times it is 1.
const fn inverse() -> u32 {
    let mut inverse: u32 = 1;
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(SPREAD.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// DW `dw` of store `number` of an end.
fn encode(end: usize, number: u32, dw: usize) -> u32 {
    let plain = (end as u32) << 31 | number << 6 | dw as u32;
    (plain ^ plain >> 15).wrapping_mul(SPREAD)
}

fn decode(data: u32) -> (usize, u32, usize) {
    let mixed = data.wrapping_mul(inverse());
    let plain = mixed ^ mixed >> 15 ^ mixed >> 30;
    (
        (plain >> 31) as usize,
        plain >> 6 & (NUMBERS - 1),
        (plain & 63) as usize,
    )
}

/// Fills `data` with an identity, as [`crate::faulttest::stream::fill`] is asked to.
pub fn fill(seed: u64, data: &mut [u8]) {
    let (end, number) = ((seed >> 32 & 1) as usize, seed as u32);
    for (dw, chunk) in data.chunks_mut(4).enumerate() {
        let bytes = encode(end, number, dw).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// A store that was issued.
#[derive(Clone, Copy, Debug)]
struct Record {
    pair: u8,
    page: u8,
    offset: u16,
    dws: u8,
    /// How often the host of its end had set its NIC up when it was issued.
    epoch: u32,
    /// How often the receiver had been reset when its first DW was written.
    receiver: u32,
    /// When the last frame with it had arrived at the latest; 0 if none was seen.
    arrived_ps: u64,
    /// DWs that were written.
    written: u64,
    /// DWs that no write can leave out.
    whole: u64,
}

/// One end, as sender and as receiver.
#[derive(Clone, Debug, Default)]
struct Side {
    records: Vec<Record>,
    /// Set-ups so far.
    epoch: u32,
    /// From then on no frame leaves with a store of this epoch or an earlier one.
    forbidden: Option<(u64, u32)>,
    /// From then on no frame leaves with one of so many first stores.
    taken: Option<(u64, u32)>,
    /// Resets so far, and when the last one counted from.
    resets: u32,
    reset_ps: u64,
    /// When those count from that are to come, and whether the tables are empty then.
    coming: Vec<(u64, bool)>,
    /// Nothing may be written: the tables are empty.
    deaf: bool,
    /// The line to this end is busy until then.
    line_ps: u64,
}

/// How much it has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// DWs of DMA writes.
    pub written: u64,
    /// Stores in frames that left a NIC.
    pub left: u64,
}

/// Both ends.
#[derive(Clone, Debug)]
pub struct Ledger {
    sides: [Side; 2],
    /// Picoseconds that a byte takes on the line.
    byte_ps: u64,
    /// Stores of which a part was written: end and number.
    partial: HashMap<(usize, u32), u64>,
    looks: Looks,
}

impl Ledger {
    /// A ledger for NICs whose line takes this long for a byte.
    pub fn new(byte_ps: u64) -> Self {
        Self {
            sides: [Side::default(), Side::default()],
            byte_ps,
            partial: HashMap::new(),
            looks: Looks::default(),
        }
    }

    /// How much it has looked at.
    pub fn looks(&self) -> Looks {
        self.looks
    }

    /// Writes a store down; its data are made of the number that this returns.
    pub fn issue(
        &mut self,
        end: usize,
        pair: usize,
        place: (u8, u16),
        dws: u8,
        enables: (u8, u8),
    ) -> Result<u64, String> {
        let side = &mut self.sides[end];
        let number = side.records.len() as u32;
        if number >= NUMBERS {
            return Err(format!(
                "a run has {NUMBERS} stores of an end at most: ask for fewer"
            ));
        }
        let mut whole = u64::MAX >> (64 - u32::from(dws));
        let (first, last) = enables;
        whole &= !u64::from(first != 0xF);
        whole &= !(u64::from(dws > 1 && last != 0xF) << (dws - 1));
        side.records.push(Record {
            pair: pair as u8,
            page: place.0,
            offset: place.1,
            dws,
            epoch: side.epoch,
            receiver: 0,
            arrived_ps: 0,
            written: 0,
            whole,
        });
        Ok(IDENTIFIED | (end as u64) << 32 | u64::from(number))
    }

    /// The receiver's reset counts from then on; it is deaf until its tables are written.
    pub fn reset(&mut self, end: usize, at_ps: u64) {
        self.sides[end].coming.push((at_ps, true));
    }

    /// The same where the rest of the tables is written behind it.
    pub fn reset_amid_set_up(&mut self, end: usize, at_ps: u64) {
        self.sides[end].coming.push((at_ps, false));
    }

    /// Resets of an end that are due count.
    fn advance(&mut self, end: usize, at_ps: u64) {
        let side = &mut self.sides[end];
        while let Some(place) = side.coming.iter().position(|(reset, _)| *reset <= at_ps) {
            let (reset, empty) = side.coming.swap_remove(place);
            side.resets += 1;
            side.reset_ps = side.reset_ps.max(reset);
            side.deaf |= empty;
        }
    }

    /// From then on no frame leaves an end with a store that was issued so far, or is until its set-up.
    pub fn forbid(&mut self, end: usize, at_ps: u64) {
        let side = &mut self.sides[end];
        let first = match side.forbidden {
            Some((first, epoch)) if epoch == side.epoch => first.min(at_ps),
            _ => at_ps,
        };
        side.forbidden = Some((first, side.epoch));
    }

    /// From then on no frame leaves an end with one of the first `stores`: it had taken them before its reset.
    pub fn forbid_taken(&mut self, end: usize, at_ps: u64, stores: u32) {
        self.sides[end].taken = Some((at_ps, stores));
    }

    /// An end's host writes its tables.
    pub fn set_up(&mut self, end: usize) {
        self.advance(end, u64::MAX);
        let side = &mut self.sides[end];
        side.epoch += 1;
        side.deaf = false;
    }

    /// A NIC writes something: a store, an event, an interrupt.
    pub fn may_write(&mut self, end: usize, at_ps: u64) -> Result<(), String> {
        self.advance(end, at_ps);
        if self.sides[end].deaf {
            return Err(format!(
                "NIC {end} writes at {at_ps} ps, after its reset and before its host has written the tables again"
            ));
        }
        Ok(())
    }

    fn show(&self, end: usize, number: u32) -> String {
        match self.sides[end].records.get(number as usize) {
            Some(record) => format!("store {number} of NIC {end}, {record:x?}"),
            None => format!("store {number} of NIC {end}, which was never issued"),
        }
    }

    /// A whole frame left an end.
    pub fn frame_left(&mut self, end: usize, at_ps: u64, frame: &[u8]) -> Result<(), String> {
        let side = &self.sides[end];
        let (forbidden, taken) = (side.forbidden, side.taken);
        for number in numbers(end, frame) {
            self.looks.left += 1;
            let Some(record) = self.sides[end].records.get(number as usize) else {
                continue;
            };
            let of_epoch = forbidden.filter(|(_, epoch)| record.epoch <= *epoch);
            let of_number = taken.filter(|(_, stores)| number < *stores);
            let since = of_epoch.into_iter().chain(of_number).map(|(at, _)| at);
            if let Some(at) = since.min().filter(|at| *at <= at_ps) {
                return Err(format!(
                    "a frame left NIC {end} at {at_ps} ps, after its reset at {at} ps, with a store from before it: {}",
                    self.show(end, number)
                ));
            }
        }
        Ok(())
    }

    /// A frame, of which copies may have come before, begins to arrive at an end then, or when the line is free.
    pub fn frame_arrives(&mut self, end: usize, at_ps: u64, frame: &[u8]) {
        // Preamble, FCS, the gap, and lanes that align the start.
        const AROUND: u64 = 40;
        let side = &mut self.sides[end];
        side.line_ps = side.line_ps.max(at_ps) + (frame.len() as u64 + AROUND) * self.byte_ps;
        let arrived_ps = side.line_ps;
        for number in numbers(1 - end, frame) {
            if let Some(record) = self.sides[1 - end].records.get_mut(number as usize) {
                record.arrived_ps = arrived_ps;
            }
        }
    }

    /// A DMA write at an end.
    pub fn write(
        &mut self,
        end: usize,
        at_ps: u64,
        pair: usize,
        write: &Write<'_>,
    ) -> Result<(), String> {
        self.may_write(end, at_ps)?;
        let dws = write.data.len() / 4;
        let mut before = None;
        for (index, data) in write.data.chunks_exact(4).enumerate() {
            let Ok(data) = <[u8; 4]>::try_from(data) else {
                continue;
            };
            let enables = match index {
                0 => write.first_be,
                _ if index + 1 == dws => write.last_be,
                _ => 0xF,
            };
            if enables != 0xF {
                before = None;
                continue;
            }
            let (from, number, dw) = decode(u32::from_le_bytes(data));
            let here = write.offset + 4 * index;
            if from == end {
                return Err(format!(
                    "DW {index} of a DMA write of NIC {end} is no store of the other: {data:02x?}"
                ));
            }
            self.look_at((from, number, dw), before, (pair, write.page, here), at_ps)?;
            before = Some((number, dw));
            self.looks.written += 1;
        }
        Ok(())
    }

    /// One DW that was written.
    fn look_at(
        &mut self,
        (from, number, dw): (usize, u32, usize),
        before: Option<(u32, usize)>,
        (pair, page, offset): (usize, usize, usize),
        at_ps: u64,
    ) -> Result<(), String> {
        let shown = self.show(from, number);
        let receiver = &self.sides[1 - from];
        let (resets, reset_ps) = (receiver.resets, receiver.reset_ps);
        let records = &self.sides[from].records;
        let last_dw = before
            .and_then(|(number, _)| records.get(number as usize))
            .map(|record| 63 - record.whole.leading_zeros() as usize);
        let Some(record) = self.sides[from].records.get_mut(number as usize) else {
            return Err(format!("DW {dw} of {shown} was written"));
        };
        let own = usize::from(record.offset) + 4 * dw;
        if dw >= usize::from(record.dws)
            || (usize::from(record.pair), usize::from(record.page), own) != (pair, page, offset)
        {
            return Err(format!(
                "DW {dw} was written to session {pair}, page {page}, offset {offset:#x}, which is not its place: {shown}"
            ));
        }
        let torn = match before {
            Some((same, last)) if same == number => dw != last + 1,
            Some((_, last)) => {
                last_dw.is_some_and(|end| last < end) || record.whole & ((1 << dw) - 1) != 0
            }
            None => false,
        };
        if torn {
            return Err(format!(
                "a DMA write goes from DW {before:?} to DW {dw} of another part of a store: {shown}"
            ));
        }
        if record.written >> dw & 1 == 1 {
            return Err(format!("DW {dw} was written twice: {shown}"));
        }
        if record.arrived_ps != 0 && record.arrived_ps < reset_ps {
            return Err(format!(
                "DW {dw} was written at {at_ps} ps, after the receiver's reset at {reset_ps} ps, but its last frame \
                 had come before: {shown}"
            ));
        }
        if record.written == 0 {
            record.receiver = resets;
        } else if record.receiver != resets {
            return Err(format!(
                "DW {dw} was written after a reset of the receiver, and others before it: {shown}"
            ));
        }
        record.written |= 1 << dw;
        if record.written & record.whole == record.whole {
            self.partial.remove(&(from, number));
        } else {
            self.partial.insert((from, number), at_ps);
        }
        Ok(())
    }

    /// Nothing moves any more: of every store all was written or nothing, but for a reset of the receiver.
    pub fn settle(&mut self) -> Result<(), String> {
        let partial: Vec<_> = self.partial.drain().collect();
        for ((from, number), at_ps) in partial {
            let resets = self.sides[1 - from].resets;
            let record = &self.sides[from].records[number as usize];
            if record.receiver == resets {
                return Err(format!(
                    "a part of a store was written, last at {at_ps} ps, and never the rest: {}",
                    self.show(from, number)
                ));
            }
        }
        Ok(())
    }
}

/// Stores in a frame of an end in the clear, by number.
fn numbers(end: usize, frame: &[u8]) -> Vec<u32> {
    let Ok(parsed) = Frame::parse(frame) else {
        return Vec::new();
    };
    let (data, first, last) = match parsed.frame.payload {
        Payload::Compact(store) => (store.data, store.offset & 3 == 0, store.trail == 0),
        Payload::Tlp(tlp) => match tlp.header {
            TlpHeader::MemWrite(request) => {
                let single = request.length == 1;
                let last = if single {
                    request.first_be
                } else {
                    request.last_be
                };
                (tlp.data, request.first_be == 0xF, last == 0xF)
            }
            _ => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    let count = data.len() / 4;
    let mut found: Vec<u32> = Vec::new();
    for (index, dw) in data.chunks_exact(4).enumerate() {
        let certain = (index > 0 || first) && (index + 1 < count || last);
        let Ok(dw) = <[u8; 4]>::try_from(dw) else {
            continue;
        };
        let (from, number, _) = decode(u32::from_le_bytes(dw));
        if certain && from == end && found.last() != Some(&number) {
            found.push(number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger with stores of four DWs of NIC 0 to one page, one behind the other.
    fn ledger(stores: u32) -> (Ledger, Vec<Vec<u8>>) {
        let mut ledger = Ledger::new(800);
        let mut data = Vec::new();
        for number in 0..stores {
            let place = (2, 16 * number as u16);
            let seed = ledger.issue(0, 1, place, 4, (0xF, 0xF)).expect("room");
            let mut bytes = vec![0; 16];
            fill(seed, &mut bytes);
            data.push(bytes);
        }
        (ledger, data)
    }

    fn write(ledger: &mut Ledger, at_ps: u64, offset: usize, data: &[u8]) -> Result<(), String> {
        let write = Write {
            page: 2,
            offset,
            first_be: 0xF,
            last_be: if data.len() > 4 { 0xF } else { 0 },
            data,
        };
        ledger.write(1, at_ps, 1, &write)
    }

    fn complains(result: Result<(), String>, about: &str) {
        let error = result.expect_err(about);
        assert!(error.contains(about), "{error}");
    }

    #[test]
    fn identities_come_back() {
        for end in 0..2 {
            for number in [0, 1, 77, 1 << 20, NUMBERS - 1] {
                for dw in [0, 1, 63] {
                    assert_eq!(decode(encode(end, number, dw)), (end, number, dw));
                }
            }
        }
    }

    #[test]
    fn a_store_is_written_once_and_whole() {
        let (mut ledger, data) = ledger(3);
        write(&mut ledger, 1, 0, &data[0]).expect("once");
        complains(write(&mut ledger, 2, 0, &data[0]), "written twice");
        write(&mut ledger, 3, 16, &data[1][..8]).expect("a part");
        complains(ledger.clone().settle(), "never the rest");
        write(&mut ledger, 4, 24, &data[1][8..]).expect("the rest");
        ledger.settle().expect("all is whole");
        complains(write(&mut ledger, 5, 36, &data[2][..4]), "not its place");
        let mut torn = data[2][..8].to_vec();
        torn.extend_from_slice(&data[2][12..]);
        complains(write(&mut ledger, 6, 32, &torn), "not its place");
        let (mut ledger, data) = self::ledger(2);
        let both = [&data[0][..8], &data[1][..]].concat();
        complains(write(&mut ledger, 6, 0, &both), "not its place");
    }

    #[test]
    fn nothing_is_written_between_a_reset_and_the_tables() {
        let (mut ledger, data) = ledger(2);
        ledger.reset(1, 100);
        write(&mut ledger, 99, 0, &data[0]).expect("before the reset");
        complains(
            write(&mut ledger, 100, 16, &data[1]),
            "before its host has written",
        );
        ledger.set_up(1);
        write(&mut ledger, 200, 16, &data[1]).expect("the tables are there");
    }

    #[test]
    fn half_a_store_may_be_missing_if_its_receiver_was_reset() {
        let (mut ledger, data) = ledger(1);
        write(&mut ledger, 99, 0, &data[0][..8]).expect("before the reset");
        ledger.reset(1, 100);
        ledger.set_up(1);
        let mut other = ledger.clone();
        ledger.settle().expect("it was reset");
        complains(write(&mut other, 200, 8, &data[0][8..]), "others before it");
    }

    fn frame(data: &[u8]) -> Vec<u8> {
        let compact = wire::Compact {
            data: data.to_vec(),
            ..wire::Compact::default()
        };
        let frame = Frame {
            dst_mac: wire::Mac([2; 6]),
            src_mac: wire::Mac([4; 6]),
            src_ip: [10, 0, 0, 1].into(),
            dst_ip: [10, 0, 0, 2].into(),
            src_port: 4000,
            dst_port: wire::UDP_PORT,
            payload: Payload::Compact(compact),
        };
        frame.emit(0).expect("a frame")
    }

    #[test]
    fn what_had_come_before_a_reset_is_not_written_after_it() {
        let (mut ledger, data) = ledger(2);
        ledger.frame_arrives(1, 1_000, &frame(&data[0]));
        ledger.reset(1, 900_000);
        ledger.set_up(1);
        ledger.frame_arrives(1, 950_000, &frame(&data[1]));
        write(&mut ledger, 2_000_000, 16, &data[1]).expect("it came after the reset");
        complains(
            write(&mut ledger, 2_000_000, 0, &data[0]),
            "had come before",
        );
    }

    #[test]
    fn a_reset_amid_the_set_up_is_one_of_what_was_taken_alone() {
        let (mut ledger, data) = ledger(2);
        ledger.forbid_taken(0, 500, 1);
        ledger.reset_amid_set_up(1, 500);
        write(&mut ledger, 600, 0, &data[0]).expect("the tables came behind the reset");
        ledger
            .frame_left(0, 600, &frame(&data[1]))
            .expect("it was taken behind the reset");
        complains(
            ledger.frame_left(0, 600, &frame(&data[0])),
            "from before it",
        );
    }

    #[test]
    fn what_was_issued_before_a_reset_does_not_leave_after_it() {
        let (mut ledger, data) = ledger(1);
        ledger.forbid(0, 500);
        ledger
            .frame_left(0, 499, &frame(&data[0]))
            .expect("it left");
        complains(
            ledger.frame_left(0, 500, &frame(&data[0])),
            "from before it",
        );
        ledger.set_up(0);
        let seed = ledger.issue(0, 1, (2, 64), 4, (0xF, 0xF)).expect("room");
        let mut bytes = vec![0; 16];
        fill(seed, &mut bytes);
        ledger
            .frame_left(0, 600, &frame(&bytes))
            .expect("a new one");
        complains(
            ledger.frame_left(0, 600, &frame(&data[0])),
            "from before it",
        );
    }
}
