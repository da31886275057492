// SPDX-License-Identifier: Apache-2.0
//! A switch as a device of this machine: a file in which places are those of the switch's BAR ([`fib::device`]).

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fib::device::{self, HEADER_BYTES, Header, RECORD_BYTES, Record, WINDOW_RECORDS};
use fib::layout::Memory;
use fib::police::{self, Police};
use fib::{Image, Op, Write};

use crate::notice;
use crate::sink::Sink;

/// The memory of ports' settings, and its fields: docs/fibnic.md.
const PORT_SETTINGS: u8 = 26;
const FIELD_BITS: u32 = 3;
const FIELD_MAC: u32 = 0;
const FIELD_MTU: u32 = 1;
const REMEDY: &str = "give --switch the device of a switch, such as /dev/fibnic of linux/fibnic, or leave --switch out to keep the tables in memory only";
/// Records that are stored by one call.
const AT_ONCE: usize = 128;

/// The file, and what was read of the memories last.
#[derive(Debug)]
pub struct Device {
    file: File,
    header: Header,
    read: Option<Image>,
}

fn wrong(path: &Path, sentence: &str) -> io::Error {
    let text = format!("{}: {sentence}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Device {
    /// Opens it and asks what it is.
    ///
    /// # Errors
    /// If it is not there, or no switch.
    pub fn open(path: &Path) -> io::Result<Self> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|error| {
            let text = format!("{} can't be opened: {error}; {REMEDY}", path.display());
            io::Error::new(error.kind(), text)
        })?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(|error| {
            let sentence = format!(
                "this is no switch, since it does not have the {HEADER_BYTES} bytes that say which one it is ({error}); {REMEDY}"
            );
            wrong(path, &sentence)
        })?;
        let header = Header::from_bytes(&bytes)
            .map_err(|sentence| wrong(path, &format!("{sentence}; {REMEDY}")))?;
        Ok(Self {
            file,
            header,
            read: None,
        })
    }

    /// Ports of the switch.
    pub const fn ports(&self) -> u32 {
        self.header.ports
    }

    /// With what the switch was built.
    ///
    /// # Errors
    /// If there are no tables for it.
    pub fn config(&self) -> io::Result<fib::Config> {
        let config = self.header.config();
        config.ok_or_else(|| {
            let text = "the switch has memories for which fibd makes no tables: run vectors and a trie are needed";
            io::Error::new(io::ErrorKind::Unsupported, text)
        })
    }

    /// Brings the memories to what they are after reset, from what another process may have left, and gives the ports the
    /// addresses and the MTU of their devices; of each port's frames so many may reach the host.
    ///
    /// # Errors
    /// If the switch does not take it.
    pub fn reset(&mut self, empty: Image, devices: &[String], police: Police) -> io::Result<()> {
        self.read = Some(empty);
        let mut taken = [0; 8];
        self.file.read_exact_at(&mut taken, device::TAKEN)?;
        if taken != [0; 8] {
            let ops = device::clear(self.read_back()?);
            self.apply(&ops)?;
        }
        for port in 0..self.ports() {
            self.set(port, police::FIELD, police.word())?;
        }
        for (port, device) in (0u32..).zip(devices) {
            let Some((mac, mtu)) = settings(device) else {
                continue;
            };
            self.set(port, FIELD_MAC, mac)?;
            self.set(port, FIELD_MTU, mtu)?;
        }
        Ok(())
    }

    fn set(&self, port: u32, field: u32, value: u64) -> io::Result<()> {
        self.store(&[Record {
            memory: PORT_SETTINGS,
            address: port << FIELD_BITS | field,
            data: [value, 0, 0],
        }])
    }

    fn store(&self, records: &[Record]) -> io::Result<()> {
        for records in records.chunks(AT_ONCE) {
            let bytes: Vec<u8> = records
                .iter()
                .flat_map(|record| record.to_bytes())
                .collect();
            let stored = self.file.write_at(&bytes, device::STORE)?;
            if stored != bytes.len() {
                let text = format!("it took {stored} of {} bytes", bytes.len());
                return Err(io::Error::new(io::ErrorKind::WriteZero, text));
            }
        }
        Ok(())
    }

    /// Reads all memories.
    fn read_back(&mut self) -> io::Result<&Image> {
        for memory in Memory::ALL {
            let depth = self.known().depth(memory);
            self.read_words(memory, 0..depth)?;
        }
        Ok(self.known())
    }

    fn known(&mut self) -> &mut Image {
        self.read.as_mut().expect("the depths are known")
    }

    /// Reads some words of a memory.
    fn read_words(&mut self, memory: Memory, words: Range<u32>) -> io::Result<()> {
        for first in words.clone().step_by(WINDOW_RECORDS as usize) {
            let select = u64::from(first) << 32 | u64::from(memory.id());
            self.file
                .write_all_at(&select.to_le_bytes(), device::SELECT)?;
            let count = WINDOW_RECORDS.min(words.end - first) as usize;
            let mut bytes = vec![0; count * RECORD_BYTES];
            self.file.read_exact_at(&mut bytes, device::WINDOW)?;
            for (addr, bytes) in (first..).zip(bytes.chunks_exact(RECORD_BYTES)) {
                let record = Record::from_bytes(bytes).expect("a chunk is a record");
                if (record.memory, record.address) != (memory.id(), addr) {
                    let text = format!(
                        "word {addr} of {} was asked for, and word {} of memory {} came: does another process use the device?",
                        memory.name(),
                        record.address,
                        record.memory
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                let data = record.data;
                self.known().write(&Write { memory, addr, data });
            }
        }
        Ok(())
    }

    /// What was read; what could not be read differs from everything, since an audit is to say so.
    fn or_nothing(&mut self, read: io::Result<()>) -> Option<&Image> {
        if let Err(error) = read {
            notice::say(&format!("the switch's memories can't be read: {error}"));
            self.read = self.read.as_ref().map(Image::cleared);
        }
        self.read.as_ref()
    }
}

/// MAC address and MTU of a device, if it is there.
fn settings(device: &str) -> Option<(u64, u64)> {
    let read = |what: &str| std::fs::read_to_string(format!("/sys/class/net/{device}/{what}")).ok();
    let mac = read("address")?.trim().replace(':', "");
    let mac = u64::from_str_radix(&mac, 16)
        .ok()
        .filter(|mac| mac >> 48 == 0)?;
    Some((mac, read("mtu")?.trim().parse().ok()?))
}

impl Sink for Device {
    fn apply(&mut self, ops: &[Op]) -> io::Result<()> {
        let records: Vec<Record> = ops.iter().map(Record::from).collect();
        self.store(&records)
    }

    fn image(&mut self) -> Option<&Image> {
        let read = self.read_back().map(|_| ());
        self.or_nothing(read)
    }

    fn part(&mut self, memory: Memory, words: Range<u32>) -> Option<&Image> {
        let read = self.read_words(memory, words);
        self.or_nothing(read)
    }
}
