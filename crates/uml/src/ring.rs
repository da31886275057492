// SPDX-License-Identifier: Apache-2.0
//! A virtqueue from the device's side: the split ring of virtio 1.0, without indirect descriptors.

use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::memory::Memory;

/// Longest chain that is believed. A guest's `memcpy_toio` is one chain.
const LONGEST: usize = 32 << 20;
/// In the flags of the available ring: the driver does not want interrupts now.
const NO_INTERRUPT: u16 = 1;
/// In the flags of the used ring: the device does not want to be notified.
const NO_NOTIFY: u16 = 1;

/// One buffer of the guest: what it wrote there, and the room it gave for an answer.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    head: u16,
    /// What the guest wrote.
    pub read: Vec<u8>,
    room: Vec<(u64, u32)>,
}

impl Chain {
    /// A buffer with this in it, without room.
    #[cfg(test)]
    pub fn written(read: Vec<u8>) -> Chain {
        Chain {
            read,
            ..Chain::default()
        }
    }

    /// Bytes of room for an answer.
    pub fn room(&self) -> usize {
        self.room.iter().map(|(_, length)| *length as usize).sum()
    }
}

/// One virtqueue.
pub(crate) struct Ring {
    queue: Queue,
    indices: bool,
}

impl Ring {
    /// A ring that the guest has not set up yet.
    pub fn new() -> Ring {
        let queue = Queue::new(1024).expect("1024 is a power of two");
        Ring {
            queue,
            indices: false,
        }
    }

    /// SET_FEATURES: whether driver and device tell each other how far they have come (VIRTIO_F_EVENT_IDX).
    pub fn set_indices(&mut self, on: bool) {
        self.indices = on;
    }

    /// SET_VRING_NUM: a new start.
    pub fn set_size(&mut self, size: u16) -> bool {
        self.queue.reset();
        self.queue.set_event_idx(self.indices);
        self.queue.set_size(size);
        self.queue.size() == size
    }

    /// SET_VRING_BASE.
    pub fn set_base(&mut self, base: u16) {
        self.queue.set_next_avail(base);
        self.queue.set_next_used(base);
    }

    /// SET_VRING_ADDR.
    pub fn set_addresses(&mut self, descriptors: u64, available: u64, used: u64) -> bool {
        self.queue
            .try_set_desc_table_address(GuestAddress(descriptors))
            .is_ok()
            && self
                .queue
                .try_set_avail_ring_address(GuestAddress(available))
                .is_ok()
            && self
                .queue
                .try_set_used_ring_address(GuestAddress(used))
                .is_ok()
    }

    /// SET_VRING_ENABLE.
    pub fn enable(&mut self, on: bool) {
        self.queue.set_ready(on);
    }

    /// Tells the guest not to say when it gives buffers: the device looks when it needs one.
    pub fn silence(&self, memory: &Memory) -> bool {
        memory.write(self.queue.used_ring(), &NO_NOTIFY.to_le_bytes())
    }

    /// With indices: asks to be told about the next buffer.
    pub fn listen(&mut self, memory: &Memory) -> Result<(), String> {
        let told = self.queue.enable_notification(memory.mapped());
        told.map(drop)
            .map_err(|error| format!("the used ring is not in its memory: {error}"))
    }

    /// With indices: how many of the buffers given back the driver has not looked at.
    pub fn unseen(&self, memory: &Memory) -> u16 {
        let mut seen = [0; 2];
        let at = self.queue.avail_ring() + 4 + 2 * u64::from(self.queue.size());
        memory.read(at, &mut seen);
        self.queue
            .next_used()
            .wrapping_sub(u16::from_le_bytes(seen))
    }

    /// How many buffers fit.
    pub fn size(&self) -> u16 {
        self.queue.size()
    }

    /// The next buffer; none if the guest has given none, or has not set the ring up.
    pub fn take(&mut self, memory: &Memory) -> Result<Option<Chain>, String> {
        if !self.queue.ready() {
            return Ok(None);
        }
        let mapped: &GuestMemoryMmap = memory.mapped();
        let Some(descriptors) = self.queue.pop_descriptor_chain(mapped) else {
            return Ok(None);
        };
        let mut chain = Chain {
            head: descriptors.head_index(),
            ..Chain::default()
        };
        for descriptor in descriptors {
            if descriptor.is_write_only() {
                chain.room.push((descriptor.addr().0, descriptor.len()));
                continue;
            }
            let (from, length) = (chain.read.len(), descriptor.len() as usize);
            if from + length > LONGEST {
                return Err(format!("a buffer of more than {LONGEST} bytes"));
            }
            chain.read.resize(from + length, 0);
            mapped
                .read_slice(&mut chain.read[from..], descriptor.addr())
                .map_err(|_| outside(descriptor.addr().0, descriptor.len()))?;
        }
        Ok(Some(chain))
    }

    /// Gives a buffer back with `answer` in it, as much of it as there is room for.
    pub fn give(&mut self, memory: &Memory, chain: &Chain, answer: &[u8]) -> Result<(), String> {
        let mut rest = answer;
        for &(address, length) in &chain.room {
            let (part, later) = rest.split_at(rest.len().min(length as usize));
            if !memory.write(address, part) {
                return Err(outside(address, length));
            }
            rest = later;
        }
        let written = u32::try_from(answer.len() - rest.len()).expect("a room is 32 bits long");
        self.queue
            .add_used(memory.mapped(), chain.head, written)
            .map_err(|error| format!("the used ring is not in its memory: {error}"))
    }

    /// Whether the guest wants to be told about buffers given back.
    pub fn wants_interrupt(&self, memory: &Memory) -> bool {
        let mut flags = [0; 2];
        memory.read(self.queue.avail_ring(), &mut flags)
            && u16::from_le_bytes(flags) & NO_INTERRUPT == 0
    }
}

fn outside(address: u64, length: u32) -> String {
    format!(
        "a buffer at {address:#x} of {length} bytes that is not in the memory it shares with devices; a driver that reads a \
         BAR with memcpy_fromio must read into allocated memory, not onto its stack"
    )
}
