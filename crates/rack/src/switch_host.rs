// SPDX-License-Identifier: Apache-2.0
//! What is behind the host port of a switch: the rack's own agent, or a guest with its routing daemons.
//!
//! To a guest the switch is a device (`fib::device` has its registers). The RTL has one way into its memories and none out,
//! so the device keeps a mirror of the words that the RTL has taken, at the edge at which it took them, and that is what
//! the guest reads back. How long the bus takes is the guest's side's to say.

use std::collections::VecDeque;

use control::Control;
use fib::device::{
    DEPTHS, DRAIN, HEADER_BYTES, Header, RECORD_BYTES, Record, SELECT, STORE, WINDOW,
    WINDOW_RECORDS,
};
use fib::layout::Memory;
use fib::{Image, Write};
use ipnuma_rtl::SwitchWrite;

use crate::calendar::ComponentId;
use crate::time::Picoseconds;

/// Who decides.
pub enum SwitchHost {
    /// The rack's own agent; it takes no time.
    Agent(Box<Control>),
    /// A guest.
    Guest(Box<GuestHost>),
}

/// A load that waits until all words stored before it are in place.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Where.
    pub offset: u64,
    /// Bytes.
    pub length: usize,
    /// What the answer carries.
    pub tag: u64,
}

/// The side of a switch that a guest sees.
pub struct GuestHost {
    /// The guest.
    pub guest: ComponentId,
    /// From the switch to the guest.
    pub up: Picoseconds,
    header: Header,
    mirror: Image,
    taken: u64,
    /// Memory and first address of the window.
    window: (u32, u32),
    /// Loads that wait.
    pub loads: VecDeque<Load>,
}

impl GuestHost {
    /// Of a switch after reset, with memories like these.
    pub fn new(guest: ComponentId, up: Picoseconds, ports: usize, image: &Image) -> Self {
        Self {
            guest,
            up,
            header: Header::of(ports as u32, image),
            mirror: image.cleared(),
            taken: 0,
            window: (0, 0),
            loads: VecDeque::new(),
        }
    }

    /// A store of the guest: the word to be written, if it is one. What a register does not take is ignored, as hardware does.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) -> Option<SwitchWrite> {
        match offset {
            STORE => {
                let record = Record::from_bytes(bytes)?;
                self.exists(&record).then_some(SwitchWrite {
                    memory: record.memory,
                    address: record.address,
                    data: record.data,
                })
            }
            SELECT => {
                let bytes: [u8; 8] = bytes.try_into().ok()?;
                let value = u64::from_le_bytes(bytes);
                self.window = (value as u32, (value >> 32) as u32);
                None
            }
            _ => None,
        }
    }

    /// Whether there is such a word: a memory's, or one that this does not know the depth of.
    fn exists(&self, record: &Record) -> bool {
        match Memory::ALL.get(usize::from(record.memory)) {
            Some(memory) => record.address < self.mirror.depth(*memory),
            None => record.memory <= DRAIN,
        }
    }

    /// The switch has taken a word.
    pub fn took(&mut self, write: &SwitchWrite) {
        self.taken += 1;
        if let Some(memory) = Memory::ALL.get(usize::from(write.memory)) {
            self.mirror.write(&Write {
                memory: *memory,
                addr: write.address,
                data: write.data,
            });
        }
    }

    /// What a load gives; zeros where nothing is to be read.
    pub fn load(&self, load: &Load) -> Vec<u8> {
        let mut bytes = vec![0; load.length];
        let Ok(offset) = usize::try_from(load.offset) else {
            return bytes;
        };
        debug_assert!(DEPTHS < HEADER_BYTES as u64);
        if load.offset < HEADER_BYTES as u64 {
            let header = self.header.to_bytes(self.taken);
            copy(&header[offset..], &mut bytes);
            return bytes;
        }
        let Some(skip) = load.offset.checked_sub(WINDOW) else {
            return bytes;
        };
        let records = (skip as usize + load.length).div_ceil(RECORD_BYTES);
        let records = records.min(WINDOW_RECORDS as usize) as u32;
        let window: Vec<u8> = (0..records)
            .flat_map(|at| self.record(at).to_bytes())
            .collect();
        copy(window.get(skip as usize..).unwrap_or_default(), &mut bytes);
        bytes
    }

    fn record(&self, at: u32) -> Record {
        let (memory, first) = self.window;
        let address = first.wrapping_add(at);
        let known = Memory::ALL.get(memory as usize);
        let known = known.filter(|memory| address < self.mirror.depth(**memory));
        known.map_or(Record::default(), |known| Record {
            memory: memory as u8,
            address,
            data: self.mirror.read(*known, address),
        })
    }
}

fn copy(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> GuestHost {
        let fib = fib::Fib::new(crate::tables::sizes()).expect("the build has tables");
        GuestHost::new(ComponentId(0), Picoseconds(1), 4, fib.image())
    }

    fn load(host: &GuestHost, offset: u64, length: usize) -> Vec<u8> {
        host.load(&Load {
            offset,
            length,
            tag: 0,
        })
    }

    #[test]
    fn what_was_taken_is_read_back_and_nothing_else() {
        let mut host = host();
        let record = Record {
            memory: Memory::NextHop.id(),
            address: 5,
            data: [77, 0, 0],
        };
        let write = host.store(STORE, &record.to_bytes()).expect("it is a word");
        let select = u64::from(4_u32) << 32 | u64::from(Memory::NextHop.id());
        assert_eq!(host.store(SELECT, &select.to_le_bytes()), None);
        let read = |host: &GuestHost| Record::from_bytes(&load(host, WINDOW + 32, 32)).unwrap();
        assert_eq!(read(&host).data, [0; 3], "it is only on its way");
        host.took(&write);
        assert_eq!(read(&host), record);
        let header: [u8; HEADER_BYTES] = load(&host, 0, HEADER_BYTES).try_into().unwrap();
        let header = Header::from_bytes(&header).unwrap();
        assert_eq!(
            (header.ports, header.config()),
            (4, Some(crate::tables::sizes()))
        );
        assert_eq!(load(&host, fib::device::TAKEN, 8), 1_u64.to_le_bytes());
    }

    #[test]
    fn a_guest_may_store_and_load_anything() {
        let mut host = host();
        let deep = Record {
            memory: 0,
            address: u32::MAX,
            data: [1; 3],
        };
        assert_eq!(host.store(STORE, &deep.to_bytes()), None);
        let far = Record {
            memory: 200,
            ..deep
        };
        assert_eq!(host.store(STORE, &far.to_bytes()), None);
        assert_eq!(host.store(STORE, &[1; 31]), None);
        assert_eq!(host.store(u64::MAX, &[1; 8]), None);
        assert_eq!(host.store(SELECT, &u64::MAX.to_le_bytes()), None);
        for offset in [0, 3, 0xE0, 0xFFF, WINDOW, WINDOW + 4095, u64::MAX] {
            assert_eq!(load(&host, offset, 64).len(), 64);
        }
        assert_eq!(load(&host, WINDOW, 4096), vec![0; 4096]);
    }
}
