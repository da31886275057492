// SPDX-License-Identifier: Apache-2.0
//! Loads of remote memory that wait: each is a few reads of at most 256 bytes, which end in any order.

use std::collections::VecDeque;

use wire::{CompletionStatus, MemRequest, TlpHeader, TlpView, byte_enables};

use crate::nic::Unloaded;

/// Bus, device and function number that the reads of this NIC's user carry.
const READER: u16 = 0x0008;
/// Bytes between places where a store or load is cut in two.
pub const CUT: usize = 4 * wire::MAX_DATA_DW;

/// One read on the bus.
#[derive(Clone, Copy, Debug)]
struct Part {
    load: u64,
    session: u8,
    /// Where its bytes go in the load's.
    at: usize,
    bytes: usize,
    got: usize,
    /// Address in BAR 2.
    address: usize,
}

/// A load with what has come of it.
#[derive(Clone, Debug)]
struct Load {
    id: u64,
    data: Vec<u8>,
    /// Bytes that have not come.
    left: usize,
    failed: Option<Unloaded>,
}

/// All loads that wait.
#[derive(Clone, Debug)]
pub struct Loads {
    waiting: VecDeque<Part>,
    /// By the tag of their read.
    reading: Vec<Option<Part>>,
    loads: Vec<Load>,
    done: VecDeque<(u64, Result<Vec<u8>, Unloaded>)>,
    next: u64,
}

/// The pieces of `bytes` bytes at an address that one store or load can carry: address and length.
pub fn pieces(address: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = address;
    let end = address + bytes;
    std::iter::from_fn(move || {
        let next = end.min((at / CUT + 1) * CUT);
        let piece = (at, next - at);
        at = next;
        (piece.1 > 0).then_some(piece)
    })
}

/// The header of a memory request for some bytes, which one TLP can carry, and the bytes it leaves out at its start and
/// end.
pub fn request(address: usize, bytes: usize) -> (MemRequest, usize, usize) {
    let lead = address % 4;
    let trail = (4 - (lead + bytes) % 4) % 4;
    let length = ((lead + bytes + trail) / 4) as u16;
    let (first_be, last_be) = byte_enables(length, lead as u8, trail as u8);
    let request = MemRequest {
        length,
        first_be,
        last_be,
        requester_id: READER,
        address: (address - lead) as u64,
        ..MemRequest::default()
    };
    (request, lead, trail)
}

impl Loads {
    /// No loads; `tags` reads may be outstanding.
    pub fn new(tags: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            reading: vec![None; tags],
            loads: Vec::new(),
            done: VecDeque::new(),
            next: 0,
        }
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// A load of bytes at an address in BAR 2, which goes through a session; its number.
    pub fn begin(&mut self, session: u8, address: usize, bytes: usize) -> u64 {
        let id = self.next;
        self.next += 1;
        let parts = pieces(address, bytes).map(|(at, bytes)| Part {
            load: id,
            session,
            at: at - address,
            bytes,
            got: 0,
            address: at,
        });
        self.waiting.extend(parts);
        self.loads.push(Load {
            id,
            data: vec![0; bytes],
            left: bytes,
            failed: None,
        });
        if bytes == 0 {
            self.end(self.loads.len() - 1);
        }
        id
    }

    /// The next read for the bus, if a tag is free, of those whose session may send.
    pub fn next_read(&mut self, may_send: impl Fn(u8) -> bool) -> Option<Vec<u8>> {
        let next = self
            .waiting
            .iter()
            .position(|part| may_send(part.session))?;
        let tag = self.reading.iter().position(Option::is_none)?;
        let part = self.waiting.remove(next)?;
        let (mut request, ..) = request(part.address, part.bytes);
        request.tag = tag as u8;
        self.reading[tag] = Some(part);
        TlpHeader::MemRead(request).emit(&[]).ok()
    }

    /// Takes a completion from the NIC.
    pub fn completion(&mut self, view: &TlpView<'_>) {
        let Ok(TlpHeader::Completion(completion)) = view.header() else {
            return;
        };
        let tag = usize::from(completion.tag);
        let Some(Some(part)) = self.reading.get_mut(tag) else {
            return;
        };
        let Some(at) = self.loads.iter().position(|load| load.id == part.load) else {
            self.reading[tag] = None;
            return;
        };
        let load = &mut self.loads[at];
        let failed = match completion.status {
            CompletionStatus::Successful => None,
            CompletionStatus::CompleterAbort => Some(Unloaded::Unanswered),
            _ => Some(Unloaded::Impossible),
        };
        if failed.is_none() {
            let lead = usize::from(completion.lower_address % 4);
            let data = view.data().get(lead..).unwrap_or(&[]);
            let take = data.len().min(part.bytes - part.got);
            let start = part.at + part.got;
            load.data[start..start + take].copy_from_slice(&data[..take]);
            part.got += take;
            load.left -= take;
            if part.got < part.bytes {
                return;
            }
        } else {
            // What is impossible stays so, whatever else was too late.
            load.failed = load.failed.max(failed);
            load.left -= part.bytes - part.got;
        }
        self.reading[tag] = None;
        if load.left == 0 {
            self.end(at);
        }
    }

    fn end(&mut self, at: usize) {
        let load = self.loads.swap_remove(at);
        let data = load.failed.map_or(Ok(load.data), Err);
        self.done.push_back((load.id, data));
    }

    /// A load that has ended: its bytes, or why there are none.
    pub fn done(&mut self) -> Option<(u64, Result<Vec<u8>, Unloaded>)> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Completion, CompletionStatus};

    fn answer(read: &[u8], from: usize, dws: usize, memory: &[u8]) -> Vec<u8> {
        let view = TlpView::new(read).expect("a read");
        let address = view.address_field() as usize + from;
        let lead = if from == 0 {
            usize::from(wire::first_byte(view.first_be()))
        } else {
            0
        };
        let completion = Completion {
            tc: 0,
            attr: 0,
            ep: false,
            length: dws as u16,
            completer_id: 0,
            status: CompletionStatus::Successful,
            byte_count: 0,
            requester_id: READER,
            tag: view.tag(),
            lower_address: (address + lead) as u8 & 0x7F,
        };
        TlpHeader::Completion(completion)
            .emit(&memory[address..address + 4 * dws])
            .expect("a completion")
    }

    #[test]
    fn parts_come_in_any_order_and_in_pieces() {
        let memory: Vec<u8> = (0..4096).map(|at| ((at * 31) >> 2) as u8).collect();
        for (address, bytes) in [(3, 1), (5, 600), (256, 256), (255, 2), (1001, 777)] {
            let mut loads = Loads::new(8);
            let id = loads.begin(1, address, bytes);
            let mut reads: Vec<_> = std::iter::from_fn(|| loads.next_read(|_| true)).collect();
            reads.reverse();
            for read in reads {
                let dws = usize::from(TlpView::new(&read).expect("a read").length());
                let first = dws.div_ceil(2);
                let mut take = |from: usize, dws: usize| {
                    let tlp = answer(&read, 4 * from, dws, &memory);
                    loads.completion(&TlpView::new(&tlp).expect("a completion"));
                };
                take(0, first);
                if dws > first {
                    take(first, dws - first);
                }
            }
            let data = memory[address..address + bytes].to_vec();
            assert_eq!(loads.done(), Some((id, Ok(data))));
            assert!(loads.is_empty());
        }
    }

    /// What a load of three parts brings of which some fail.
    fn failing(statuses: [CompletionStatus; 3]) -> Result<Vec<u8>, Unloaded> {
        let mut loads = Loads::new(1);
        let id = loads.begin(1, 0, 768);
        for status in statuses {
            let read = loads.next_read(|_| true).expect("a read");
            assert_eq!(loads.next_read(|_| true), None, "there is one tag");
            let tlp = if status == CompletionStatus::Successful {
                answer(&read, 0, 64, &[7; 1024])
            } else {
                let completion = Completion {
                    tc: 0,
                    attr: 0,
                    ep: false,
                    length: 0,
                    completer_id: 0,
                    status,
                    byte_count: 256,
                    requester_id: READER,
                    tag: 0,
                    lower_address: 0,
                };
                TlpHeader::Completion(completion).emit(&[]).expect("a Cpl")
            };
            assert_eq!(loads.done(), None);
            loads.completion(&TlpView::new(&tlp).expect("a completion"));
        }
        let (done, data) = loads.done().expect("all parts are there");
        assert_eq!(done, id);
        data
    }

    #[test]
    fn a_part_that_fails_fails_the_load() {
        const HERE: CompletionStatus = CompletionStatus::Successful;
        const LATE: CompletionStatus = CompletionStatus::CompleterAbort;
        const NONE: CompletionStatus = CompletionStatus::UnsupportedRequest;
        assert_eq!(failing([HERE, HERE, HERE]), Ok(vec![7; 768]));
        assert_eq!(failing([LATE, HERE, HERE]), Err(Unloaded::Unanswered));
        assert_eq!(failing([LATE, NONE, HERE]), Err(Unloaded::Impossible));
        assert_eq!(failing([NONE, HERE, LATE]), Err(Unloaded::Impossible));
    }

    #[test]
    fn a_session_that_may_not_send_holds_up_no_loads_of_others() {
        let mut loads = Loads::new(8);
        for session in [1, 2, 1, 2] {
            loads.begin(session, 256 * usize::from(session), 300);
        }
        let count = |loads: &mut Loads, session| {
            std::iter::from_fn(|| loads.next_read(|it| it == session)).count()
        };
        assert_eq!(count(&mut loads, 2), 4);
        assert_eq!(count(&mut loads, 2), 0);
        assert_eq!(count(&mut loads, 1), 4);
    }
}
