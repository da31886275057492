// SPDX-License-Identifier: Apache-2.0
//! A window into memory of this machine: the memory itself.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use ipc::protocol::signal_page;
use ipc::token::Rights;
use shm::memory::{Access, Mapping, PAGE};
use shm::ring::{Mapped, Target};

use super::Lease;
use crate::backend::{Flush, WindowAccess};
use crate::clock::Deadline;
use crate::error::{Error, Result};

/// What a token allows where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) bytes: u64,
    pub(super) rights: Rights,
}

#[derive(Debug)]
pub(super) struct SoftWindow {
    lease: Lease,
    range: Range,
    /// The pages that the range lies in.
    memory: Mapping,
    /// Where in them it begins.
    skip: usize,
    event: OwnedFd,
    signal: Mapping,
}

impl SoftWindow {
    pub(super) fn new(
        lease: Lease,
        range: Range,
        [memory, event, signal]: [OwnedFd; 3],
    ) -> Result<Self> {
        let outside = || ipc::Error::Protocol {
            what: "a range beyond the address space",
        };
        let first = usize::try_from(range.first).map_err(|_| outside())?;
        let bytes = usize::try_from(range.bytes).map_err(|_| outside())?;
        let skip = first % PAGE;
        let access = if range.rights.can_write() {
            Access::ReadWrite
        } else {
            Access::Read
        };
        let memory = Mapping::new(
            &memory,
            first - skip,
            skip.checked_add(bytes).ok_or_else(outside)?,
            access,
        )?;
        let signal = Mapping::new(&signal, 0, signal_page::BYTES, Access::Read)?;
        Ok(Self {
            lease,
            range,
            memory,
            skip,
            event,
            signal,
        })
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: the mapping is longer than what is skipped.
        unsafe { self.memory.as_ptr().add(self.skip) }
    }

    fn target(&self) -> Mapped<'_> {
        // SAFETY: mapped while `self` lives. (Where the range does not begin at a line, offsets of lines in it don't
        // either; `Window` refuses line and word stores then.)
        unsafe { Mapped::new(self.memory.as_ptr(), self.memory.len()) }
    }

    fn sleeping(&self) -> bool {
        // SAFETY: the page is mapped while `self` lives; the word is aligned, and only loaded.
        unsafe { AtomicU32::from_ptr(self.signal.as_ptr().add(signal_page::ARMED).cast()) }
            .load(Ordering::Relaxed)
            != 0
    }
}

impl WindowAccess for SoftWindow {
    fn first(&self) -> u64 {
        self.range.first
    }

    fn bytes(&self) -> u64 {
        self.range.bytes
    }

    fn rights(&self) -> Rights {
        self.range.rights
    }

    fn mapped(&self) -> Option<*mut u8> {
        Some(self.base())
    }

    fn coherent(&self) -> bool {
        true
    }

    fn store(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.target().store(self.skip + offset, bytes);
        Ok(())
    }

    fn store_line(&self, offset: usize, line: &[u8; 64]) -> Result<()> {
        self.target().store_line(self.skip + offset, line);
        Ok(())
    }

    fn store64(&self, offset: usize, value: u64) -> Result<()> {
        self.target().store64(self.skip + offset, value);
        Ok(())
    }

    fn fence(&self) {
        self.target().fence();
    }

    fn signal(&self) {
        // Pairs with the fence after the owner's arming: either it sees the stores, or we see that it is armed.
        fence(Ordering::SeqCst);
        if self.sleeping() {
            // The counter cannot overflow before the owner reads it, unless somebody wants it to: then it is readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    fn load(&self, offset: usize, into: &mut [u8], _deadline: Deadline) -> Result<()> {
        let bytes = usize::try_from(self.range.bytes).unwrap_or(0);
        if offset > bytes || into.len() > bytes - offset {
            return Err(shm::Error::Outside {
                offset,
                bytes: into.len(),
                size: bytes,
            }
            .into());
        }
        // SAFETY: inside of the mapping, as just checked; `into` is a Rust slice, so it does not lie there.
        unsafe {
            std::ptr::copy_nonoverlapping(self.base().add(offset), into.as_mut_ptr(), into.len())
        };
        Ok(())
    }

    fn flush(&self, _how: Flush, _deadline: Deadline) -> Result<()> {
        // What has left the processor is in the server's memory.
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn faults(&self) -> u64 {
        self.lease.faults()
    }

    fn state(&self) -> Result<()> {
        self.lease.valid()?;
        if self.lease.lost() {
            return Err(Error::PeerLost);
        }
        Ok(())
    }
}
