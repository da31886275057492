// SPDX-License-Identifier: Apache-2.0
//! The root complex of a host: what the CPU does to the NIC becomes TLPs, what the NIC asks of memory is answered.
//!
//! It belongs to a host component, whose program or guest is the CPU, and which has the memory.

use std::collections::VecDeque;

use wire::tlp::{Completion, CompletionStatus, MemRequest, TlpHeader, TlpView, byte_enables};

use crate::calendar::{ComponentId, Message, Outbox, Tlp};
use crate::pcie::{Lanes, RECEIVE_CREDITS};
use crate::platform::HostTiming;
use crate::record::{Point, Recorder};
use crate::time::Picoseconds;

/// Where BAR 0 is in every host's address space.
pub const BAR0: u64 = 0xF000_0000;
/// Where BAR 2, the pages, is in every host's address space.
pub const BAR2: u64 = 0x8000_0000;
/// Bytes of a write-combining buffer and of a cache line.
pub const LINE_BYTES: usize = 64;
/// Largest completion that the root complex sends.
const COMPLETION_BYTES: usize = 128;
/// The root complex's own number.
const ROOT_ID: u16 = 0;

/// Completions of a DMA read that the root complex will send.
#[derive(Debug)]
struct PendingRead {
    due: Picoseconds,
    request: MemRequest,
}

/// What a TLP from the NIC is for the host.
#[derive(Debug)]
pub enum FromNic<'a> {
    /// A write that is in memory when the host has put it there.
    Write(MemRequest, &'a [u8]),
    /// A read; the root complex wakes the host when it is to be answered, see [`RootComplex::answer_reads`].
    Read,
    /// The answer to a load.
    Completion(Completion, &'a [u8]),
}

/// Everything between a CPU, its memory and the PCI Express link.
#[derive(Debug)]
pub struct RootComplex {
    host: ComponentId,
    nic: ComponentId,
    /// Constants.
    pub timing: HostTiming,
    down: Lanes,
    credits: u32,
    queue: VecDeque<Tlp>,
    reads: VecDeque<PendingRead>,
    next_tag: u8,
}

impl RootComplex {
    /// Between a host component and its NIC's.
    pub const fn new(host: ComponentId, nic: ComponentId, timing: HostTiming) -> Self {
        Self {
            host,
            nic,
            timing,
            down: Lanes::new(timing.link, timing.down),
            credits: RECEIVE_CREDITS,
            queue: VecDeque::new(),
            reads: VecDeque::new(),
            next_tag: 0,
        }
    }

    /// The NIC's component.
    pub const fn nic(&self) -> ComponentId {
        self.nic
    }

    /// TLPs that wait for credits.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The NIC has room again.
    pub fn credits(
        &mut self,
        now: Picoseconds,
        count: u32,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        self.credits += count;
        self.drain(now, out, record);
    }

    /// One TLP that writes `data` from byte `address` on. `issued` is when the CPU began with it.
    #[allow(clippy::too_many_arguments)] // the two times differ for combined stores only
    pub fn store(
        &mut self,
        now: Picoseconds,
        issued: Picoseconds,
        bar: u8,
        address: u64,
        data: &[u8],
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), String> {
        let lead = (address % 4) as usize;
        let mut whole = vec![0; lead];
        whole.extend_from_slice(data);
        whole.resize(whole.len().next_multiple_of(4), 0);
        let trail = whole.len() - lead - data.len();
        let length = (whole.len() / 4) as u16;
        let (first_be, last_be) = byte_enables(length, lead as u8, trail as u8);
        let header = TlpHeader::MemWrite(MemRequest {
            length,
            requester_id: ROOT_ID,
            first_be,
            last_be,
            address: address - lead as u64,
            ..MemRequest::default()
        });
        let bytes = header
            .emit(&whole)
            .map_err(|error| format!("a store to {address:#x}: {error}"))?;
        let traced = bar == 2 && record.tracing;
        let packet = traced.then(|| record.issue(issued, self.host, &whole));
        record.access(self.host, |count| count.cpu_write += 1);
        self.queue.push_back(Tlp { bytes, bar, packet });
        self.drain(now, out, record);
        Ok(())
    }

    /// One TLP that reads `bytes` bytes from byte `address` on; returns its tag. The completion has whole DWs.
    pub fn load(
        &mut self,
        now: Picoseconds,
        bar: u8,
        address: u64,
        bytes: usize,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<u8, String> {
        if self.timing.load.is_none() {
            return Err("a load, but the platform does not publish their latency".to_owned());
        }
        let lead = (address % 4) as usize;
        let whole = (lead + bytes).next_multiple_of(4);
        let length = (whole / 4) as u16;
        let (first_be, last_be) = byte_enables(length, lead as u8, (whole - lead - bytes) as u8);
        let tag = self.next_tag;
        let header = TlpHeader::MemRead(MemRequest {
            length,
            requester_id: ROOT_ID,
            tag,
            first_be,
            last_be,
            address: address - lead as u64,
            ..MemRequest::default()
        });
        let bytes = header
            .emit(&[])
            .map_err(|error| format!("a load from {address:#x}: {error}"))?;
        self.next_tag = self.next_tag.wrapping_add(1);
        record.access(self.host, |count| count.cpu_read += 1);
        self.queue.push_back(Tlp {
            bytes,
            bar,
            packet: None,
        });
        self.drain(now, out, record);
        Ok(tag)
    }

    /// Sends what credits permit.
    fn drain(&mut self, now: Picoseconds, out: &mut Outbox, record: &mut Recorder) {
        while self.credits > 0 {
            let Some(tlp) = self.queue.pop_front() else {
                return;
            };
            self.credits -= 1;
            if let Some(id) = tlp.packet {
                record.pass(id, Point::Left, now);
            }
            let arrival = self.down.send(now, now, tlp.bytes.len());
            out.send(arrival, self.nic, Message::Tlp(tlp));
        }
    }

    /// A TLP from the NIC is at the root complex.
    pub fn take<'a>(
        &mut self,
        now: Picoseconds,
        tlp: &'a Tlp,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<FromNic<'a>, String> {
        let view =
            TlpView::new(&tlp.bytes).map_err(|error| format!("the NIC sent a bad TLP: {error}"))?;
        let header = view
            .header()
            .map_err(|error| format!("the NIC sent a bad TLP: {error}"))?;
        Ok(match header {
            TlpHeader::MemWrite(request) => {
                record.access(self.host, |count| count.dma_write += 1);
                if let Some(id) = tlp.packet {
                    record.pass(id, Point::Visible, now);
                }
                FromNic::Write(request, view.data())
            }
            TlpHeader::MemRead(request) => {
                record.access(self.host, |count| count.dma_read += 1);
                let due = now + self.timing.dma_read;
                self.reads.push_back(PendingRead { due, request });
                out.send(due, self.host, Message::Wake);
                FromNic::Read
            }
            TlpHeader::Completion(completion) => FromNic::Completion(completion, view.data()),
        })
    }

    /// Answers the DMA reads whose time has come from memory.
    pub fn answer_reads<E>(
        &mut self,
        now: Picoseconds,
        mut memory: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), E> {
        while self.reads.front().is_some_and(|read| read.due <= now) {
            let read = self.reads.pop_front().expect("looked at above");
            let mut data = vec![0; 4 * usize::from(read.request.length)];
            memory(read.request.address, &mut data)?;
            self.complete(now, &read.request, &data, out, record);
        }
        Ok(())
    }

    fn complete(
        &mut self,
        now: Picoseconds,
        request: &MemRequest,
        data: &[u8],
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let mut left = request.byte_count();
        let mut lower = request.lower_address();
        // The first one ends where all others do, at a multiple of what they carry.
        let first = COMPLETION_BYTES - usize::from(lower & 0x7C) % COMPLETION_BYTES;
        let (head, tail) = data.split_at(first.min(data.len()));
        for chunk in std::iter::once(head).chain(tail.chunks(COMPLETION_BYTES)) {
            let header = TlpHeader::Completion(Completion {
                tc: request.tc,
                attr: request.attr,
                ep: false,
                length: (chunk.len() / 4) as u16,
                completer_id: ROOT_ID,
                status: CompletionStatus::Successful,
                byte_count: left,
                requester_id: request.requester_id,
                tag: request.tag,
                lower_address: lower,
            });
            let carried = chunk.len() as u16 - u16::from(lower & 3);
            left = left.saturating_sub(carried);
            lower = 0;
            let bytes = header
                .emit(chunk)
                .expect("a completion of at most 128 bytes has a TLP");
            self.queue.push_back(Tlp {
                bytes,
                bar: 7,
                packet: None,
            });
        }
        self.drain(now, out, record);
    }
}

/// The enabled bytes of a write, as runs: address, and where in the data they are.
pub fn enabled_runs(request: &MemRequest, length: usize) -> Vec<(u64, std::ops::Range<usize>)> {
    let dws = length / 4;
    let enabled = |index: usize| {
        let enables = match index / 4 {
            0 => request.first_be,
            dw if dw + 1 == dws => request.last_be,
            _ => 0xF,
        };
        enables >> (index % 4) & 1 == 1
    };
    let mut runs = Vec::new();
    let mut at = 0;
    while at < length {
        let start = at;
        while at < length && enabled(at) {
            at += 1;
        }
        if at > start {
            runs.push((request.address + start as u64, start..at));
        } else {
            at += 1;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_enabled_bytes() {
        let request = |first_be, last_be| MemRequest {
            address: 0x1000,
            first_be,
            last_be,
            ..MemRequest::default()
        };
        assert_eq!(enabled_runs(&request(0b1100, 0b0001), 12), [(0x1002, 2..9)]);
        assert_eq!(
            enabled_runs(&request(0b0101, 0), 4),
            [(0x1000, 0..1), (0x1002, 2..3)]
        );
        assert_eq!(enabled_runs(&request(0, 0), 4), []);
    }
}
