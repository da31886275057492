// SPDX-License-Identifier: Apache-2.0
//! Frames shared with the kernel, and the four rings in which they go to and fro.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{XdpRingOffset, XdpUmemReg, XdpUmemRegFlags};

/// Bytes of a frame's place.
pub const FRAME: usize = 2048;
/// Places for frames that come; as many again are for those that are sent. A power of two.
pub const FRAMES: u32 = 2048;

// Offsets of mmap by which a ring is chosen, from linux/if_xdp.h.
const RX: u64 = 0;
const TX: u64 = 0x8000_0000;
const FILL: u64 = 0x1_0000_0000;
const COMPLETION: u64 = 0x1_8000_0000;

/// Where a frame is, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    address: u64,
    length: u32,
    options: u32,
}

/// Memory of this process until it is dropped.
struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the memory is no thread's own.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and what points into it lives no longer.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

impl Mapping {
    fn ring(socket: &OwnedFd, bytes: usize, offset: u64) -> io::Result<Self> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket.as_fd(),
                offset,
            )
        }?;
        Ok(Self {
            base: base.cast(),
            bytes,
        })
    }

    fn frames(bytes: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )
        }?;
        Ok(Self {
            base: base.cast(),
            bytes,
        })
    }
}

/// A ring of `E` that this process and the kernel share.
struct Ring<E> {
    memory: Mapping,
    at: XdpRingOffset,
    entries: u32,
    of: PhantomData<E>,
}

impl<E: Copy> Ring<E> {
    fn map(socket: &OwnedFd, at: XdpRingOffset, entries: u32, offset: u64) -> io::Result<Self> {
        let bytes = at.desc as usize + entries as usize * size_of::<E>();
        Ok(Self {
            memory: Mapping::ring(socket, bytes, offset)?,
            at,
            entries,
            of: PhantomData,
        })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel has said that an aligned word of the ring's state is there; it changes it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.base.add(offset as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.at.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.at.consumer)
    }

    fn place(&self, number: u32) -> *mut E {
        let at = (number & (self.entries - 1)) as usize;
        // SAFETY: the entries begin there, and `at` is one of them: the mapping was made as large.
        unsafe {
            self.memory
                .base
                .add(self.at.desc as usize)
                .cast::<E>()
                .add(at)
        }
    }

    /// Entries that the other side has not taken.
    fn used(&self) -> u32 {
        let taken = self.consumer().load(Ordering::Acquire);
        self.producer().load(Ordering::Relaxed).wrapping_sub(taken)
    }

    /// Gives an entry to the kernel; `false` if the ring is full.
    fn push(&mut self, entry: E) -> bool {
        if self.used() >= self.entries {
            return false;
        }
        let number = self.producer().load(Ordering::Relaxed);
        // SAFETY: this entry is ours until the producer's count says otherwise.
        unsafe { self.place(number).write(entry) };
        self.producer()
            .store(number.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes an entry from the kernel.
    fn pop(&mut self) -> Option<E> {
        let number = self.consumer().load(Ordering::Relaxed);
        if self.producer().load(Ordering::Acquire) == number {
            return None;
        }
        // SAFETY: the kernel has written this entry, and leaves it alone until the consumer's count says otherwise.
        let entry = unsafe { self.place(number).read() };
        self.consumer()
            .store(number.wrapping_add(1), Ordering::Release);
        Some(entry)
    }
}

/// The rings and their frames.
pub struct Rings {
    frames: Mapping,
    /// Places of frames that come.
    fill: Ring<u64>,
    rx: Ring<Descriptor>,
    tx: Ring<Descriptor>,
    completion: Ring<u64>,
    /// Places for frames to send.
    free: Vec<u64>,
}

impl Rings {
    /// Sets up those of a socket that is not bound yet.
    pub fn new(socket: &OwnedFd) -> io::Result<Self> {
        let bytes = 2 * FRAMES as usize * FRAME;
        let frames = Mapping::frames(bytes)?;
        set_xdp_umem_reg(
            socket,
            XdpUmemReg {
                addr: frames.base as u64,
                len: bytes as u64,
                chunk_size: FRAME as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        set_xdp_umem_fill_ring_size(socket, FRAMES)?;
        set_xdp_umem_completion_ring_size(socket, FRAMES)?;
        set_xdp_rx_ring_size(socket, FRAMES)?;
        set_xdp_tx_ring_size(socket, FRAMES)?;
        let offsets = xdp_mmap_offsets(socket)?;
        Ok(Self {
            frames,
            fill: Ring::map(socket, offsets.fr, FRAMES, FILL)?,
            rx: Ring::map(socket, offsets.rx, FRAMES, RX)?,
            tx: Ring::map(socket, offsets.tx, FRAMES, TX)?,
            completion: Ring::map(socket, offsets.cr, FRAMES, COMPLETION)?,
            free: (FRAMES..2 * FRAMES)
                .map(|frame| u64::from(frame) * FRAME as u64)
                .collect(),
        })
    }

    /// Gives the kernel the places for frames that come.
    pub fn refill(&mut self) {
        for frame in 0..FRAMES {
            self.fill.push(u64::from(frame) * FRAME as u64);
        }
    }

    /// The bytes of a frame, if the kernel's description of it is one of our memory.
    fn bytes(&self, address: u64, length: usize) -> Option<*mut u8> {
        let at = usize::try_from(address).ok()?;
        let inside = at.checked_add(length)? <= self.frames.bytes;
        // SAFETY: it was checked to be inside of the mapping.
        inside.then(|| unsafe { self.frames.base.add(at) })
    }

    /// Queues a frame; `false` if there is no room.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        if self.free.is_empty() {
            self.collect();
        }
        let Some(address) = self.free.pop() else {
            return false;
        };
        let Some(place) = self.bytes(address, frame.len()) else {
            return false;
        };
        // SAFETY: the place is ours until the kernel is told of it, and inside of the mapping.
        unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), place, frame.len()) };
        let sent = self.tx.push(Descriptor {
            address,
            length: frame.len() as u32,
            options: 0,
        });
        if !sent {
            self.free.push(address);
        }
        sent
    }

    /// Whether the kernel has not taken all frames that were queued.
    pub fn is_sending(&self) -> bool {
        self.tx.used() > 0
    }

    /// Takes the places of frames back that have been sent.
    pub fn collect(&mut self) {
        while let Some(address) = self.completion.pop() {
            self.free.push(address);
        }
    }

    /// Takes a frame that has come.
    pub fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        let Some(descriptor) = self.rx.pop() else {
            return false;
        };
        frame.clear();
        let length = descriptor.length as usize;
        if let Some(place) = self.bytes(descriptor.address, length) {
            // SAFETY: the kernel has given the place to us, and it is inside of the mapping.
            frame.extend_from_slice(unsafe { std::slice::from_raw_parts(place, length) });
        }
        // The kernel may have put the frame behind a headroom of its own.
        let place = descriptor.address & !(FRAME as u64 - 1);
        self.fill.push(place);
        true
    }
}
