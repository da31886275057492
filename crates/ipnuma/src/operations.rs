// SPDX-License-Identifier: Apache-2.0
//! How a process hands stores to another machine's memory to its daemon, whose software NIC sends them.
//!
//! One memfd for each remote window: a control page, a page for answers to loads, and a [ring](crate::ring) of
//! [`LINES`] lines from the process to the daemon. Messages of the ring, numbers little-endian, offsets from the begin
//! of the window:
//!
//! | kind | content | meaning |
//! |---|---|---|
//! | [`STORE`] | offset u64, bytes | store them |
//! | [`MARK`] | number u64 | write the number to [`Control::mark`] when all stores before are acknowledged or lost |
//! | [`LOAD`] | number u64, offset u64, length u64 | load up to 4096 bytes into the answer page, then write the number to [`Control::loaded`] |
//!
//! There is no message to wake the region's owner: its daemon does so whenever stores have arrived while the owner
//! sleeps.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::memory::{self, Access, Mapping};
use crate::ring::{LINE, Mapped, Receiver, ReceiverState, Sender, SenderState};

/// Kind of a store.
pub const STORE: u8 = 1;
/// Kind of a flush mark.
pub const MARK: u8 = 2;
/// Kind of a load.
pub const LOAD: u8 = 3;

/// Lines of the ring.
pub const LINES: u32 = 2048;
/// Bytes of the longest load, and of the page of answers.
pub const LOAD_BYTES: usize = memory::PAGE;
/// Bytes of the memfd.
pub const BYTES: usize = RING + LINES as usize * LINE;

const ANSWER: usize = memory::PAGE;
const RING: usize = ANSWER + LOAD_BYTES;

/// Values of [`Control::state`].
pub mod state {
    /// All is well.
    pub const UP: u32 = 0;
    /// The server has revoked the token.
    pub const REVOKED: u32 = 1;
    /// The server cannot be reached; it may come back.
    pub const LOST: u32 = 2;
    /// The daemon ended the window.
    pub const CLOSED: u32 = 3;
}

/// The control page.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Control {
    /// Lines of the ring that the daemon has consumed; written by the daemon.
    pub credit: AtomicU64,
    _pad0: [u64; 7],
    /// Not zero while the daemon sleeps on the eventfd; written by the daemon.
    pub armed: AtomicU32,
    /// [`state`]; written by the daemon.
    pub state: AtomicU32,
    /// Stores that were refused or lost; written by the daemon before the mark that follows them.
    pub faults: AtomicU64,
    /// Last mark that was reached; written by the daemon.
    pub mark: AtomicU64,
    /// Last load that was answered; written by the daemon.
    pub loaded: AtomicU64,
    /// Whether that load failed; written by the daemon before `loaded`.
    pub load_failed: AtomicU32,
    _pad1: [u32; 5],
    /// Of the ring; the process's.
    pub sender: SenderState,
    /// Of the ring; the daemon's.
    pub receiver: ReceiverState,
}

const _: () = assert!(std::mem::size_of::<Control>() <= memory::PAGE);

/// The memory in this process.
#[derive(Debug)]
pub struct Operations {
    memory: Mapping,
    target: Mapped<'static>,
}

impl Operations {
    /// Makes it (the daemon).
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn create() -> Result<(Self, std::os::fd::OwnedFd)> {
        let fd = memory::create("ipnuma-operations", BYTES)?;
        Ok((Self::map(&fd)?, fd))
    }

    /// Maps it.
    ///
    /// # Errors
    /// If it is none, or cannot be mapped.
    pub fn map(fd: impl std::os::fd::AsFd) -> Result<Self> {
        let memory = Mapping::whole(fd, Access::ReadWrite)?;
        if memory.len() != BYTES {
            return Err(Error::ChannelSize {
                bytes: memory.len(),
            });
        }
        // SAFETY: mapped as long as `memory` lives, which lies beside it; it is only used through `self`.
        let target = unsafe { Mapped::new(memory.as_ptr(), memory.len()) };
        Ok(Self { memory, target })
    }

    /// The control page.
    #[inline]
    #[must_use]
    pub fn control(&self) -> &Control {
        // SAFETY: the mapping begins with it; it is made of atomics.
        unsafe { &*self.memory.as_ptr().cast::<Control>() }
    }

    /// The process's side of the ring; one thread at a time.
    #[inline]
    #[must_use]
    pub fn sender(&self) -> Sender<'_, Mapped<'static>> {
        Sender::new(
            &self.control().sender,
            &self.target,
            RING,
            LINES,
            &self.control().credit,
        )
    }

    /// The daemon's side of the ring; one thread at a time.
    #[inline]
    #[must_use]
    pub fn receiver(&self) -> Receiver<'_, Mapped<'static>> {
        // SAFETY: the ring lies in the mapping, aligned, which lives as long as `self`.
        unsafe {
            Receiver::new(
                &self.control().receiver,
                self.memory.as_ptr().add(RING),
                LINES,
                &self.target,
                0,
            )
        }
    }

    /// The daemon answers load `number`.
    ///
    /// # Panics
    /// If there are more than [`LOAD_BYTES`] bytes.
    pub fn answer(&self, number: u64, bytes: Option<&[u8]>) {
        assert!(
            bytes.is_none_or(|bytes| bytes.len() <= LOAD_BYTES),
            "more bytes than a load asks for"
        );
        if let Some(bytes) = bytes {
            // SAFETY: the answer page lies in the mapping and has room for them.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    self.memory.as_ptr().add(ANSWER),
                    bytes.len(),
                )
            };
        }
        self.control()
            .load_failed
            .store(u32::from(bytes.is_none()), Ordering::Relaxed);
        self.control().loaded.store(number, Ordering::Release);
    }

    /// The process takes the answer to load `number`, if it is there.
    ///
    /// # Panics
    /// If more than [`LOAD_BYTES`] bytes are asked for.
    #[must_use]
    pub fn answered(&self, number: u64, into: &mut [u8]) -> Option<bool> {
        assert!(into.len() <= LOAD_BYTES, "more bytes than a load asks for");
        if self.control().loaded.load(Ordering::Acquire) != number {
            return None;
        }
        if self.control().load_failed.load(Ordering::Relaxed) != 0 {
            return Some(false);
        }
        // SAFETY: the answer page lies in the mapping and has that many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.memory.as_ptr().add(ANSWER),
                into.as_mut_ptr(),
                into.len(),
            )
        };
        Some(true)
    }
}
