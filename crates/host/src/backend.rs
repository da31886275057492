// SPDX-License-Identifier: Apache-2.0
//! What carries stores and loads: the interface of the back ends.
//!
//! [`crate::Device`], [`crate::Region`] and [`crate::Window`] are made of these objects and check ranges and rights before
//! they call them.

use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ipc::token::{Rights, Token};

use crate::clock::Deadline;
use crate::error::{Error, Result};

#[cfg(feature = "pcie")]
pub mod pcie;
pub mod peers;
pub mod rack;
pub mod soft;

/// What a device is able to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Name of the back end.
    pub backend: &'static str,
    /// Bytes that a single store call takes at most without being split.
    pub max_store: usize,
    /// Whether a 64-byte line arrives whole.
    pub line_atomic: bool,
    /// Whether windows can be mapped.
    pub mappable: bool,
    /// Whether the network can be reached; true without one.
    pub link_up: bool,
    /// Other machines that are known.
    pub peers: Vec<Ipv4Addr>,
}

/// What becomes of a program that looks at memory again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polling {
    /// It sees what arrives, as soon as it is there.
    Free,
    /// Nothing arrives meanwhile: time passes only while it sleeps. So it must never spin, but arm, look, and sleep on
    /// [`RegionMemory::event_fd`].
    Blocks,
}

/// How far a flush waits for stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Until they have left the processor.
    Local,
    /// Until they are in the server's memory.
    Delivered,
}

/// A back end.
pub trait Backend: Send + Sync + Debug {
    /// What it can do, as it is now.
    fn info(&self) -> Info;

    /// Whether polling is of use.
    fn polls(&self) -> Polling {
        Polling::Free
    }

    /// Memory for a region: zeroed, `bytes` rounded up to pages.
    ///
    /// # Errors
    /// If there is none.
    fn alloc(&self, bytes: usize) -> Result<Box<dyn RegionMemory>>;

    /// The range of a token.
    ///
    /// # Errors
    /// If the token is refused or its server cannot be reached.
    fn connect(&self, token: &Token) -> Result<Arc<dyn WindowAccess>>;
}

/// Memory of a region.
#[expect(clippy::len_without_is_empty, reason = "no region is empty")]
pub trait RegionMemory: Send + Sync + Debug {
    /// Its number, which its tokens carry.
    fn id(&self) -> u64;

    /// Its first byte, aligned to a page; it stays the same.
    fn as_ptr(&self) -> *mut u8;

    /// Its size.
    fn len(&self) -> usize;

    /// A token for a range, which is inside and not empty.
    ///
    /// # Errors
    /// If the back end has no more of them.
    fn export(
        &self,
        first: u64,
        bytes: u64,
        rights: Rights,
        peer: Option<Ipv4Addr>,
    ) -> Result<Token>;

    /// Takes back a token of this region. When it returns, nothing that was stored with it afterwards can reach the
    /// region's memory, and holders see [`crate::Error::Revoked`] when they check.
    ///
    /// # Errors
    /// If it is none.
    fn revoke(&self, token: &Token) -> Result<()>;

    /// Takes note of what others have decided about the region: if the administrator has taken its tokens back, it moves
    /// where their holders do not reach it. To be called whenever the owner looks at it; a few loads if there is nothing.
    fn settle(&self) {}

    /// Stores bytes of the owner's, at an offset inside; also while another thread moves the region.
    fn write(&self, offset: usize, bytes: &[u8]) {
        copy_in(self, offset, bytes);
    }

    /// Readable after a signal, if the owner was armed before.
    fn event_fd(&self) -> BorrowedFd<'_>;

    /// From now on signals make [`RegionMemory::event_fd`] readable (`true`), or need not (`false`). Ends with a full
    /// fence, so that what is looked at afterwards was stored before the arming or signals.
    fn arm(&self, armed: bool);
}

/// Stores bytes at an offset inside.
fn copy_in<M: RegionMemory + ?Sized>(memory: &M, offset: usize, bytes: &[u8]) {
    assert!(
        offset <= memory.len() && bytes.len() <= memory.len() - offset,
        "{} bytes at offset {offset} of {} bytes",
        bytes.len(),
        memory.len()
    );
    // SAFETY: inside of the memory, as just checked; `bytes` is a Rust slice, so it does not lie there.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr().add(offset), bytes.len())
    };
}

/// A range of somebody's memory.
///
/// Offsets count from the begin of the token's range.
pub trait WindowAccess: Send + Sync + Debug {
    /// Begin of the range in its region.
    fn first(&self) -> u64;

    /// Bytes of the range.
    fn bytes(&self) -> u64;

    /// What may be done.
    fn rights(&self) -> Rights;

    /// Where the range is mapped, if loads and stores of the processor reach it.
    fn mapped(&self) -> Option<*mut u8>;

    /// What carries out loads and stores of the processor one by one, where no mapping reaches the range: addresses that
    /// [trap](trap::Mapping) do the rest. From now on what it needs is held only by threads whose signals wait.
    fn trapped(self: Arc<Self>) -> Option<Arc<dyn trap::Remote>> {
        None
    }

    /// Whether the mapping is coherent memory (and not a device's, where a store is a posted write).
    fn coherent(&self) -> bool;

    /// Stores bytes, at an offset inside. As with all stores, those that a window of no more use loses are told by
    /// [`WindowAccess::faults`] only.
    ///
    /// # Errors
    /// [`Error::Stalled`]: they were given up, or a part of them.
    fn store(&self, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Stores a line, at a multiple of 64 inside, whole where [`Info::line_atomic`] says so; else its last 8 bytes
    /// become visible last.
    ///
    /// # Errors
    /// As [`WindowAccess::store`].
    fn store_line(&self, offset: usize, line: &[u8; 64]) -> Result<()>;

    /// Stores what is used of a line: its bytes from `begin` on, a multiple of 4 and 56 at most; as
    /// [`WindowAccess::store_line`] does, and what lies in front may be stored as well.
    ///
    /// # Errors
    /// As [`WindowAccess::store`].
    fn store_used(&self, offset: usize, line: &[u8; 64], begin: usize) -> Result<()> {
        let _ = begin;
        self.store_line(offset, line)
    }

    /// Stores a word, at a multiple of 8 inside, after all stores before.
    ///
    /// # Errors
    /// As [`WindowAccess::store`].
    fn store64(&self, offset: usize, value: u64) -> Result<()>;

    /// Stores before it become visible before stores after it.
    fn fence(&self);

    /// Wakes the region's owner if it sleeps, after all stores before have become visible.
    fn signal(&self);

    /// Loads bytes from an offset inside.
    ///
    /// # Errors
    /// If the server cannot be reached.
    fn load(&self, offset: usize, into: &mut [u8], deadline: Deadline) -> Result<()>;

    /// Waits until all stores before it are where `how` says.
    ///
    /// # Errors
    /// If they can't get there, or time ran out.
    fn flush(&self, how: Flush, deadline: Deadline) -> Result<()>;

    /// Faults so far: a store between two equal answers was not refused or lost, as far as is known. Never blocks.
    fn faults(&self) -> u64;

    /// Why there were faults.
    ///
    /// # Errors
    /// The reason, if it lasts.
    fn state(&self) -> Result<()>;
}

/// An error as a trapped access has it.
pub(crate) fn refused(error: &Error) -> trap::Refused {
    match error {
        Error::Revoked => trap::Refused::Revoked,
        Error::PeerLost | Error::Daemon(_) => trap::Refused::Lost,
        Error::Denied { .. } => trap::Refused::Denied,
        Error::TimedOut { .. } => trap::Refused::TimedOut,
        Error::Stalled => trap::Refused::Stalled,
        other => trap::Refused::Failed(other.errno()),
    }
}
