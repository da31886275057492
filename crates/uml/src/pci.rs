// SPDX-License-Identifier: Apache-2.0
//! A PCI device over virtio (`linux/virtio_pcidev.h`): the configuration space of type 0, MSI or MSI-X, and the messages in
//! which the guest reads and writes it and the BARs.
//!
//! The guest's end is `virt-pci.c`. A write is posted: the guest's buffer is given back at once. For a read the guest
//! looks at the ring in steps of a microsecond until the answer is there. Interrupts are messages in the second virtqueue.

use std::collections::VecDeque;

use crate::ring::Chain;
use crate::spec::PciSpec;
use crate::vhost_user::VIRTIO_F_EVENT_IDX;

/// The device's virtio number: CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID of the kernel.
pub(crate) const VIRTIO_ID: u32 = 1234;

/// Virtqueue of commands.
pub(crate) const COMMANDS: usize = 0;
/// Virtqueue of interrupts.
pub(crate) const INTERRUPTS: usize = 1;

/// Most bytes of a BAR: the kernel's table of mappings keeps 24 bits of offset.
const LARGEST_BAR: u64 = 16 << 20;
/// Most interrupt vectors: as many as the kernel has for all devices together.
const MOST_VECTORS: u8 = 32;
/// Virtio features: how many buffers the driver has not freed is seen by the indices.
pub(crate) const FEATURES: u64 = VIRTIO_F_EVENT_IDX;

// Messages of the guest.
const CFG_READ: u8 = 1;
const CFG_WRITE: u8 = 2;
const MMIO_READ: u8 = 3;
const MMIO_WRITE: u8 = 4;
const MMIO_MEMSET: u8 = 5;
// Message to the guest.
const MSI: u8 = 7;
const MESSAGE_HEADER: usize = 16;

// The configuration space: offsets, and bits.
const SPACE: usize = 4096;
const COMMAND: usize = 0x04;
const COMMAND_WRITABLE: u16 = 0x0547;
const BUS_MASTER: u16 = 1 << 2;
const STATUS_CAPABILITIES: u16 = 1 << 4;
const BAR_0: usize = 0x10;
const CAPABILITY: usize = 0x40;
const MSI_ENABLE: u16 = 1;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK_ALL: u16 = 1 << 14;

// The BAR of the MSI-X table.
const TABLE_BAR_BYTES: u64 = 4096;
const TABLE_ENTRY: usize = 16;
const PENDING: usize = 0x800;
const VECTOR_MASKED: u32 = 1;

/// What a command comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The guest's buffer goes back with this in it.
    Answer(Vec<u8>),
    /// The guest's buffer goes back, and the BAR is written.
    Write {
        bar: u8,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The guest's buffer is kept until somebody has the answer.
    Read { bar: u8, offset: u64, length: u32 },
    /// The guest's buffer goes back, and DMA is allowed or not from here on.
    BusMaster(bool),
}

/// A read of the guest that waits for its answer.
pub(crate) struct Read {
    pub tag: u64,
    pub length: usize,
    pub chain: Chain,
}

/// The state of one PCI device.
pub(crate) struct Pci {
    spec: PciSpec,
    space: Vec<u8>,
    writable: Vec<u8>,
    /// The BAR of the MSI-X table, and what is in it.
    table: Option<(u8, Vec<u8>)>,
    /// Vectors raised and not yet written into the guest's ring.
    pub raised: VecDeque<u8>,
    /// Reads that wait for an answer.
    pub reads: Vec<Read>,
}

impl Pci {
    /// See [`PciSpec::posted_before_interrupt`].
    pub fn posted_before_interrupt(&self) -> u16 {
        self.spec.posted_before_interrupt.max(1)
    }

    /// A device after reset; what is wrong with the specification otherwise.
    pub fn new(spec: &PciSpec) -> Result<Pci, String> {
        let mut sizes = spec.bars;
        for (bar, &size) in sizes.iter().enumerate().filter(|(_, size)| **size != 0) {
            if !size.is_power_of_two() || !(16..=LARGEST_BAR).contains(&size) {
                return Err(format!(
                    "BAR {bar} has {size} bytes; it must be a power of two from 16 to {LARGEST_BAR} (the kernel's table \
                     of mappings keeps 24 bits of offset): split it into several BARs"
                ));
            }
        }
        if spec.msi_vectors > MOST_VECTORS {
            return Err(format!(
                "{} interrupt vectors; the kernel has {MOST_VECTORS}",
                spec.msi_vectors
            ));
        }
        let mut table = None;
        if spec.msi_vectors > 1 {
            let free = (0..6u8).rev().find(|bar| sizes[usize::from(*bar)] == 0);
            let bar = free.ok_or(
                "more than one interrupt vector needs the MSI-X table, and no BAR is free for it",
            )?;
            sizes[usize::from(bar)] = TABLE_BAR_BYTES;
            let mut bytes = vec![0; TABLE_BAR_BYTES as usize];
            for vector in 0..usize::from(spec.msi_vectors) {
                bytes[vector * TABLE_ENTRY + 12] = 1; // masked after reset
            }
            table = Some((bar, bytes));
        }
        let mut pci = Pci {
            spec: PciSpec {
                bars: sizes,
                ..spec.clone()
            },
            space: vec![0; SPACE],
            writable: vec![0; SPACE],
            table,
            raised: VecDeque::new(),
            reads: Vec::new(),
        };
        pci.reset();
        Ok(pci)
    }

    fn reset(&mut self) {
        let spec = self.spec.clone();
        self.put(0x00, &spec.vendor.to_le_bytes(), &[]);
        self.put(0x02, &spec.device.to_le_bytes(), &[]);
        self.put(COMMAND, &[0, 0], &COMMAND_WRITABLE.to_le_bytes());
        self.put(0x08, &[0], &[]); // revision
        self.put(0x09, &spec.class.to_le_bytes()[..3], &[]);
        self.put(0x0c, &[0, 0, 0, 0], &[0xff, 0xff]); // cache line, latency; header type 0
        for (bar, &size) in spec.bars.iter().enumerate().filter(|(_, size)| **size != 0) {
            let mask = !(u32::try_from(size).expect("at most 16 MB") - 1);
            self.put(BAR_0 + 4 * bar, &[0; 4], &mask.to_le_bytes());
        }
        self.put(0x2c, &spec.vendor.to_le_bytes(), &[]);
        self.put(0x2e, &spec.subsystem.to_le_bytes(), &[]);
        self.put(0x3c, &[0, 1], &[0xff]); // interrupt line, pin A
        if spec.msi_vectors == 0 {
            return;
        }
        self.put(0x06, &STATUS_CAPABILITIES.to_le_bytes(), &[]);
        self.put(0x34, &[CAPABILITY as u8], &[]);
        match &self.table {
            // MSI: 64-bit address, one vector.
            None => {
                self.put(CAPABILITY, &[0x05, 0], &[]);
                self.put(
                    CAPABILITY + 2,
                    &0x0080u16.to_le_bytes(),
                    &MSI_ENABLE.to_le_bytes(),
                );
                self.put(
                    CAPABILITY + 4,
                    &[0; 10],
                    &[0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                );
            }
            Some((bar, _)) => {
                let bar = u32::from(*bar);
                let last = u16::from(spec.msi_vectors) - 1;
                self.put(CAPABILITY, &[0x11, 0], &[]);
                self.put(
                    CAPABILITY + 2,
                    &last.to_le_bytes(),
                    &(MSIX_ENABLE | MSIX_MASK_ALL).to_le_bytes(),
                );
                self.put(CAPABILITY + 4, &bar.to_le_bytes(), &[]);
                self.put(CAPABILITY + 8, &(PENDING as u32 | bar).to_le_bytes(), &[]);
            }
        }
    }

    fn put(&mut self, at: usize, value: &[u8], writable: &[u8]) {
        self.space[at..at + value.len()].copy_from_slice(value);
        self.writable[at..at + writable.len()].copy_from_slice(writable);
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.space[at], self.space[at + 1]])
    }

    /// Acts on a command of the guest at its time `now`.
    pub fn act(&mut self, chain: &Chain, now: u64) -> Result<Outcome, String> {
        let message = &chain.read;
        let Some((header, data)) = message.split_at_checked(MESSAGE_HEADER) else {
            return Err("a PCI message shorter than its header".into());
        };
        let (operation, bar) = (header[0], header[1]);
        let size = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes"));
        let address = u64::from_le_bytes(header[8..16].try_into().expect("8 bytes"));
        let length = size as usize;
        match operation {
            CFG_READ | CFG_WRITE => {
                let at = usize::try_from(address)
                    .ok()
                    .filter(|at| matches!(length, 1 | 2 | 4 | 8) && at + length <= SPACE);
                let at = at.filter(|_| bar == 0 && (operation == CFG_READ || data.len() >= length)).ok_or_else(|| {
                    format!(
                        "a configuration access of {size} bytes at {address:#x}; a driver that calls memset_io on a BAR \
                         makes this kernel send that: use memcpy_toio"
                    )
                })?;
                if operation == CFG_READ {
                    return Ok(Outcome::Answer(self.space[at..at + length].to_vec()));
                }
                Ok(self.write_space(at, &data[..length]))
            }
            MMIO_READ => {
                self.check(bar, address, u64::from(size))?;
                let answer = self.own_read(bar, address, length, now);
                Ok(answer.map_or(
                    Outcome::Read {
                        bar,
                        offset: address,
                        length: size,
                    },
                    Outcome::Answer,
                ))
            }
            MMIO_WRITE | MMIO_MEMSET => {
                self.check(bar, address, u64::from(size))?;
                let bytes = match (operation, data.first()) {
                    (MMIO_MEMSET, Some(&value)) => vec![value; length],
                    (MMIO_WRITE, _) if data.len() >= length => data[..length].to_vec(),
                    _ => return Err("a write without its data".into()),
                };
                if self.table.as_ref().is_some_and(|(own, _)| *own == bar) {
                    self.write_table(address as usize, &bytes);
                    return Ok(Outcome::Answer(Vec::new()));
                }
                Ok(Outcome::Write {
                    bar,
                    offset: address,
                    bytes,
                })
            }
            _ => Err(format!("PCI message {operation}")),
        }
    }

    fn check(&self, bar: u8, offset: u64, length: u64) -> Result<(), String> {
        let size = self.spec.bars.get(usize::from(bar)).copied().unwrap_or(0);
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(()),
            _ => Err(format!(
                "{length} bytes at {offset:#x} of BAR {bar}, which has {size:#x} bytes"
            )),
        }
    }

    /// What this crate itself answers: the clock, and the MSI-X table.
    fn own_read(&self, bar: u8, offset: u64, length: usize, now: u64) -> Option<Vec<u8>> {
        if let Some((own, bytes)) = &self.table
            && *own == bar
        {
            return Some(bytes[offset as usize..offset as usize + length].to_vec());
        }
        let (clock, at) = self.spec.clock?;
        let from = usize::try_from(offset.checked_sub(at)?).ok()?;
        (clock == bar).then(|| {
            now.to_le_bytes()
                .get(from..from + length)
                .map(<[u8]>::to_vec)
        })?
    }

    fn write_space(&mut self, at: usize, bytes: &[u8]) -> Outcome {
        let before = self.word(COMMAND);
        for (at, byte) in (at..).zip(bytes) {
            let mask = self.writable[at];
            self.space[at] = self.space[at] & !mask | byte & mask;
        }
        self.raise_pending();
        let after = self.word(COMMAND);
        match (before ^ after) & BUS_MASTER {
            0 => Outcome::Answer(Vec::new()),
            _ => Outcome::BusMaster(after & BUS_MASTER != 0),
        }
    }

    fn write_table(&mut self, at: usize, bytes: &[u8]) {
        let entries = usize::from(self.spec.msi_vectors) * TABLE_ENTRY;
        if let Some((_, table)) = &mut self.table {
            // Whatever is not the table is reserved, or the pending bits, which can't be written.
            for (at, byte) in (at..entries).zip(bytes) {
                table[at] = *byte;
            }
        }
        self.raise_pending();
    }

    fn entry(&self, vector: u8, word: usize) -> u32 {
        let at = usize::from(vector) * TABLE_ENTRY + 4 * word;
        match &self.table {
            Some((_, table)) => u32::from_le_bytes(table[at..at + 4].try_into().expect("4 bytes")),
            None => 0,
        }
    }

    /// Address and data of a vector, as the guest programmed them; none if it can't be raised now.
    fn message(&self, vector: u8) -> Option<(u64, u32)> {
        let control = self.word(CAPABILITY + 2);
        if self.table.is_some() {
            let on = control & (MSIX_ENABLE | MSIX_MASK_ALL) == MSIX_ENABLE
                && self.entry(vector, 3) & VECTOR_MASKED == 0;
            let address = u64::from(self.entry(vector, 1)) << 32 | u64::from(self.entry(vector, 0));
            return on.then(|| (address, self.entry(vector, 2)));
        }
        let address = self.space[CAPABILITY + 4..CAPABILITY + 12]
            .try_into()
            .expect("8 bytes");
        let data = u32::from(self.word(CAPABILITY + 12));
        (self.spec.msi_vectors == 1 && control & MSI_ENABLE != 0)
            .then(|| (u64::from_le_bytes(address), data))
    }

    /// The vector that a memory write with this address and data is.
    pub fn vector(&self, address: u64, data: u32) -> Option<u8> {
        (0..self.spec.msi_vectors).find(|vector| self.message(*vector) == Some((address, data)))
    }

    /// Raises a vector: into [`Pci::raised`], or as a pending bit if it is masked. False if there is no such vector.
    pub fn raise(&mut self, vector: u8) -> bool {
        if vector >= self.spec.msi_vectors {
            return false;
        }
        if self.message(vector).is_some() {
            self.raised.push_back(vector);
        } else if let Some((_, table)) = &mut self.table {
            table[PENDING + usize::from(vector / 8)] |= 1 << (vector % 8);
        }
        true
    }

    /// Raises the vectors that became unmasked.
    fn raise_pending(&mut self) {
        for vector in 0..self.spec.msi_vectors {
            let (at, bit) = (PENDING + usize::from(vector / 8), 1 << (vector % 8));
            let pending = self
                .table
                .as_ref()
                .is_some_and(|(_, table)| table[at] & bit != 0);
            if pending && self.message(vector).is_some() {
                self.raised.push_back(vector);
                if let Some((_, table)) = &mut self.table {
                    table[at] &= !bit;
                }
            }
        }
    }

    /// The message for the guest's interrupt ring; none if the vector has been masked since.
    pub fn interrupt_message(&self, vector: u8) -> Option<Vec<u8>> {
        let (_, data) = self.message(vector)?;
        let bytes = match self.table {
            Some(_) => data.to_le_bytes().to_vec(),
            None => (data as u16).to_le_bytes().to_vec(),
        };
        let mut message = vec![0; MESSAGE_HEADER];
        message[0] = MSI;
        message[4] = bytes.len() as u8;
        message.extend(bytes);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pci(msi_vectors: u8) -> Pci {
        let bars = [1 << 20, 0, 0, 0, 4096, 0];
        let clock = Some((4, 0x18));
        Pci::new(&PciSpec {
            posted_before_interrupt: 64,
            vendor: 0x1f3d,
            device: 1,
            bars,
            msi_vectors,
            clock,
            ..PciSpec::default()
        })
        .unwrap()
    }

    fn message(operation: u8, bar: u8, address: u64, size: u32, data: &[u8]) -> Chain {
        let mut read = vec![operation, bar, 0, 0];
        read.extend(size.to_le_bytes());
        read.extend(address.to_le_bytes());
        read.extend(data);
        Chain::written(read)
    }

    fn read(pci: &mut Pci, at: u64, size: u32) -> u64 {
        let Outcome::Answer(bytes) = pci.act(&message(CFG_READ, 0, at, size, &[]), 0).unwrap()
        else {
            panic!("no answer")
        };
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    fn write(pci: &mut Pci, at: u64, bytes: &[u8]) -> Outcome {
        let size = u32::try_from(bytes.len()).unwrap();
        // The kernel's message has room for eight bytes, whatever the size is.
        let mut data = bytes.to_vec();
        data.resize(8, 0x55);
        pci.act(&message(CFG_WRITE, 0, at, size, &data), 0).unwrap()
    }

    /// Vector `vector` of the table: address, data, and whether it is masked.
    fn program(pci: &mut Pci, vector: u64, data: u32, masked: bool) {
        let mut entry = [0u8; 16];
        entry[..4].copy_from_slice(&0xa0000u32.to_le_bytes());
        entry[8..12].copy_from_slice(&data.to_le_bytes());
        entry[12] = u8::from(masked);
        assert_eq!(
            pci.act(&message(MMIO_WRITE, 5, 16 * vector, 16, &entry), 0),
            Ok(Outcome::Answer(vec![]))
        );
    }

    #[test]
    fn bars_tell_their_sizes_and_what_is_fixed_stays() {
        let mut pci = pci(2);
        for (bar, size) in [(0, 1 << 20), (1, 0), (2, 0), (3, 0), (4, 4096), (5, 4096)] {
            let at = 0x10 + 4 * bar;
            write(&mut pci, at, &[0xff; 4]);
            let expected = if size == 0 {
                0
            } else {
                u64::from(u32::MAX - (size - 1))
            };
            assert_eq!(read(&mut pci, at, 4), expected, "BAR {bar}");
        }
        write(&mut pci, 0, &[0xff; 4]);
        assert_eq!(read(&mut pci, 0, 4), 0x0001_1f3d);
        assert_eq!(write(&mut pci, 4, &[6, 0]), Outcome::BusMaster(true));
        assert_eq!(
            write(&mut pci, 4, &[6, 0]),
            Outcome::Answer(vec![]),
            "told once"
        );
        assert_eq!(write(&mut pci, 4, &[2, 0]), Outcome::BusMaster(false));
        assert_eq!(read(&mut pci, 0x34, 1), 0x40);
        assert_eq!(read(&mut pci, 0x40, 4), 0x0001_0011, "MSI-X, two vectors");
    }

    #[test]
    fn a_vector_waits_until_it_is_on_and_unmasked() {
        let mut pci = pci(3);
        program(&mut pci, 1, 77, true);
        assert!(pci.raise(1) && pci.raised.is_empty(), "MSI-X is off");
        write(&mut pci, 0x42, &(MSIX_ENABLE | MSIX_MASK_ALL).to_le_bytes());
        program(&mut pci, 1, 77, false);
        assert!(pci.raised.is_empty(), "all are masked");
        let pending = pci.act(&message(MMIO_READ, 5, PENDING as u64, 8, &[]), 0);
        assert_eq!(pending, Ok(Outcome::Answer(vec![2, 0, 0, 0, 0, 0, 0, 0])));
        assert_eq!(pci.vector(0xa0000, 77), None);
        write(&mut pci, 0x42, &MSIX_ENABLE.to_le_bytes());
        assert_eq!(pci.raised, [1], "the pending one comes now, once");
        assert_eq!(pci.interrupt_message(1).unwrap()[16..], 77u32.to_le_bytes());
        assert_eq!(
            (
                pci.vector(0xa0000, 77),
                pci.vector(0xa0000, 78),
                pci.vector(0xa0004, 77)
            ),
            (Some(1), None, None)
        );
        assert!(!pci.raise(3), "there are three");
    }

    #[test]
    fn one_vector_is_msi_with_sixteen_bits() {
        let mut pci = pci(1);
        write(&mut pci, 0x44, &0xa0000u32.to_le_bytes());
        write(&mut pci, 0x4c, &65u16.to_le_bytes());
        assert!(pci.raise(0) && pci.raised.is_empty(), "MSI is off");
        write(&mut pci, 0x42, &1u16.to_le_bytes());
        assert!(pci.raise(0));
        assert_eq!(pci.raised, [0]);
        let message = pci.interrupt_message(0).unwrap();
        assert_eq!((message[4], &message[16..]), (2, &65u16.to_le_bytes()[..]));
        assert_eq!(pci.vector(0xa0000, 65), Some(0));
    }

    #[test]
    fn the_clock_and_the_table_are_answered_here_and_nothing_else_is() {
        let mut pci = pci(2);
        let now = 0x0102_0304_0506_0708;
        for (at, size, expected) in [
            (0x18, 8, now),
            (0x18, 4, now & 0xffff_ffff),
            (0x1c, 4, now >> 32),
        ] {
            let answer = pci.act(&message(MMIO_READ, 4, at, size, &[]), now);
            assert_eq!(
                answer,
                Ok(Outcome::Answer(
                    expected.to_le_bytes()[..size as usize].to_vec()
                ))
            );
        }
        let beside = pci.act(&message(MMIO_READ, 4, 0x10, 8, &[]), now);
        assert_eq!(
            beside,
            Ok(Outcome::Read {
                bar: 4,
                offset: 0x10,
                length: 8
            })
        );
        let long = pci.act(&message(MMIO_READ, 4, 0x18, 16, &[]), now);
        assert_eq!(
            long,
            Ok(Outcome::Read {
                bar: 4,
                offset: 0x18,
                length: 16
            })
        );
    }

    #[test]
    fn what_is_outside_is_told() {
        let mut pci = pci(2);
        for (operation, bar, address, size) in [
            (MMIO_READ, 4, 4092, 8),
            (MMIO_READ, 1, 0, 4),
            (MMIO_READ, 6, 0, 4),
            (MMIO_WRITE, 0, u64::MAX, 4),
            (CFG_READ, 0, 4095, 2),
            (CFG_READ, 0, 0, 3),
            (CFG_WRITE, 0, 0x100, 64),
            (9, 0, 0, 4),
        ] {
            let chain = message(operation, bar, address, size, &[0; 8]);
            assert!(
                pci.act(&chain, 0).is_err(),
                "{operation} {bar} {address:#x} {size}"
            );
        }
        assert!(pci.act(&Chain::written(vec![MMIO_READ; 15]), 0).is_err());
    }
}
