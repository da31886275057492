// SPDX-License-Identifier: Apache-2.0
//! Somebody else's memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ipc::token::Rights;
use shm::ring::{INLINE, LINE, Mapped, Target, assemble, begin, line_tag};

use crate::backend::{Flush, WindowAccess};
use crate::clock::Deadline;
use crate::error::{Error, Result};

/// A mark in the stream of stores; see [`Window::check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// When plain stores to a mapped window leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Each at once, and in the order in which they are made.
    AtOnce,
    /// A line of 64 bytes at a time, as processors write-combine: when the line is full, when a store is to another line, when
    /// there is a load, and at the latest with [`Window::fence`] or another call for the window.
    Collected,
}

/// The range of a token, in somebody else's memory. Offsets count from the range's begin.
///
/// Stores are posted: that a call succeeds says that the range and the rights are in order, not that the bytes have
/// arrived. [`Window::flush`] waits for that, [`Window::check`] tells whether something went wrong. Stores before a
/// [`Window::fence`] arrive before stores after it. Threads may share a window.
#[derive(Debug)]
pub struct Window {
    access: Arc<dyn WindowAccess>,
    /// Addresses of it that trap, by how stores leave.
    at_once: OnceLock<trap::Mapping>,
    collected: Arc<OnceLock<trap::Mapping>>,
    mapping: Mutex<()>,
    /// Faults that flushes have told of.
    told: AtomicU64,
    bytes: usize,
    write: bool,
    /// Offset of the range's begin from a line.
    skew: usize,
    /// The range, if it is this machine's memory and begins at a line.
    direct: Option<Mapped<'static>>,
}

impl Window {
    pub(super) fn new(access: Arc<dyn WindowAccess>) -> Self {
        let bytes = usize::try_from(access.bytes()).unwrap_or(usize::MAX);
        let write = access.rights().can_write();
        let skew = (access.first() % LINE as u64) as usize;
        let direct = access
            .mapped()
            .filter(|_| skew == 0 && write && access.coherent());
        // SAFETY: the range is mapped, writable, as long as `access` lives, which lies beside it; it is only used
        // through `self`.
        let direct = direct.map(|base| unsafe { Mapped::new(base, bytes) });
        Self {
            access,
            at_once: OnceLock::new(),
            collected: Arc::default(),
            mapping: Mutex::default(),
            told: AtomicU64::new(0),
            bytes,
            write,
            skew,
            direct,
        }
    }

    /// Bytes of the range.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes; none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What may be done.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.access.rights()
    }

    /// Where the range is mapped, for as long as the window lives: [`Window::map_with`] stores that leave at once.
    ///
    /// # Errors
    /// As there.
    pub fn map(&self) -> Result<*mut u8> {
        self.map_with(Stores::AtOnce)
    }

    /// Where the range is mapped, for as long as the window lives: plain loads and stores of the processor reach it. Without the
    /// right to it, they fault.
    ///
    /// It is the memory itself on this machine, and a board's pages, which are write-combined whatever `stores` says. Else the
    /// addresses [trap](trap), and each access is carried out as the calls are: some microseconds, and a round trip for a load.
    ///
    /// # Errors
    /// If there are no addresses, or [`Error::Unsupported`] if neither is possible.
    pub fn map_with(&self, stores: Stores) -> Result<*mut u8> {
        if let Some(base) = self.access.mapped() {
            return Ok(base);
        }
        let place = match stores {
            Stores::AtOnce => &self.at_once,
            Stores::Collected => &*self.collected,
        };
        let _one = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = place.get() {
            return Ok(mapping.address());
        }
        let unsupported = Error::Unsupported {
            what: "mapping a window",
            backend: "present",
        };
        let mut remote = Arc::clone(&self.access).trapped().ok_or(unsupported)?;
        if stores == Stores::AtOnce {
            remote = Arc::new(AtOnce {
                remote,
                collected: Arc::clone(&self.collected),
            });
        }
        let shape = trap::Shape {
            bytes: self.bytes,
            skip: (self.access.first() % shm::memory::PAGE as u64) as usize,
            readable: self.rights().can_read(),
            writable: self.write,
            combined: stores == Stores::Collected,
        };
        let mapping = trap::Mapping::new(remote, shape).map_err(|error| Error::System {
            what: "reserving addresses for a window",
            source: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::NOMEM),
        })?;
        Ok(place.get_or_init(|| mapping).address())
    }

    /// What carries out calls, behind all stores that were collected.
    fn reach(&self) -> &dyn WindowAccess {
        if let Some(mapping) = self.collected.get() {
            // What does not leave any more is told by `check`, as with stores that have left.
            let _ = mapping.drain();
        }
        &*self.access
    }

    /// Stores bytes. Within them there is no order.
    ///
    /// # Errors
    /// If they are outside or the token gives no right to it; [`Error::Stalled`], as with all stores, if they go through a daemon
    /// that has taken none for 20 s: they are given up, the first of many perhaps not.
    #[inline]
    pub fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.storable(offset, bytes.len(), 1)?;
        self.stored(offset, bytes)
    }

    /// Stores 4 bytes, whole, at a multiple of 4 of the region.
    ///
    /// # Errors
    /// If they are outside, not aligned, or the token gives no right to it.
    #[inline]
    pub fn store32(&self, offset: usize, value: u32) -> Result<()> {
        self.storable(offset, 4, 4)?;
        self.stored(offset, &value.to_le_bytes())
    }

    /// Stores 8 bytes, whole, at a multiple of 8 of the region, and after all stores before.
    ///
    /// # Errors
    /// If they are outside, not aligned, or the token gives no right to it.
    #[inline]
    pub fn store64(&self, offset: usize, value: u64) -> Result<()> {
        self.storable(offset, 8, 8)?;
        self.stored64(offset, value)
    }

    /// Stores a line at a multiple of 64 of the region: whole where the device can
    /// ([`crate::backend::Info::line_atomic`]), else its last 8 bytes become visible last.
    ///
    /// # Errors
    /// If it is outside, not aligned, or the token gives no right to it.
    #[inline]
    pub fn put64(&self, offset: usize, line: &[u8; LINE]) -> Result<()> {
        self.storable(offset, LINE, LINE)?;
        self.stored_line(offset, line)
    }

    /// Stores a line that carries up to 56 bytes and the number `sequence`, by which
    /// [`Region::poll_line`](crate::Region::poll_line) knows that all of it is there.
    ///
    /// # Errors
    /// If it is outside, not aligned, too long, or the token gives no right to it.
    #[inline]
    pub fn put_line(&self, offset: usize, sequence: u32, bytes: &[u8]) -> Result<()> {
        if bytes.len() > INLINE {
            return Err(Error::TooLong {
                bytes: bytes.len(),
                most: INLINE,
            });
        }
        let mut line = [0; LINE];
        line[..bytes.len()].copy_from_slice(bytes);
        line[INLINE..].copy_from_slice(&line_tag(sequence, bytes.len()).to_le_bytes());
        self.put64(offset, &line)
    }

    /// Stores bytes, then the word `value` at `signal`, then wakes the owner if it sleeps.
    ///
    /// # Errors
    /// As [`Window::put`] and [`Window::store64`]; then nothing is stored, but perhaps with [`Error::Stalled`].
    #[inline]
    pub fn put_signal(&self, offset: usize, bytes: &[u8], signal: usize, value: u64) -> Result<()> {
        self.storable(offset, bytes.len(), 1)?;
        self.storable(signal, 8, 8)?;
        self.stored(offset, bytes)?;
        Target::fence(self);
        self.stored64(signal, value)?;
        self.reach().signal();
        Ok(())
    }

    /// Wakes the owner if it sleeps, after all stores before.
    ///
    /// # Errors
    /// If the token gives no right to store.
    #[inline]
    pub fn signal(&self) -> Result<()> {
        self.storable(0, 0, 1)?;
        self.reach().signal();
        Ok(())
    }

    /// Stores before it arrive before stores after it.
    #[inline]
    pub fn fence(&self) {
        Target::fence(self);
    }

    /// Loads bytes: a round trip, on most devices.
    ///
    /// # Errors
    /// If they are outside, the token gives no right to it, or the server does not answer in time.
    pub fn load(&self, offset: usize, into: &mut [u8], timeout: Option<Duration>) -> Result<()> {
        self.inside(offset, into.len())?;
        if !self.rights().can_read() {
            return Err(Error::Denied { what: "a load" });
        }
        self.reach().load(offset, into, Deadline::after(timeout))
    }

    /// Waits until all stores before it have left the processor, or have arrived.
    ///
    /// With [`Flush::Delivered`] it also says whether stores may have been lost since the last flush that did: each loss is told
    /// once, by all flushes that were under way when it was told first, and by every flush of a window that is of no more use.
    ///
    /// # Errors
    /// [`Error::PeerLost`] or [`Error::Revoked`] if some cannot arrive, or may have been lost; [`Error::TimedOut`].
    pub fn flush(&self, how: Flush, timeout: Option<Duration>) -> Result<()> {
        let told = self.told();
        let flushed = self.reach().flush(how, Deadline::after(timeout));
        match (how, &flushed) {
            (Flush::Delivered, Ok(())) => self.arrived(told),
            (Flush::Delivered, Err(Error::PeerLost | Error::Revoked)) => {
                self.told.fetch_max(self.access.faults(), Ordering::AcqRel);
                flushed
            }
            _ => flushed,
        }
    }

    /// Faults that were told before a flush began.
    fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// Whether a flush that has ended well, and began when `told` faults had been told, may say so.
    fn arrived(&self, told: u64) -> Result<()> {
        let faults = self.access.faults();
        if faults == 0 {
            return Ok(());
        }
        self.told.fetch_max(faults, Ordering::AcqRel);
        self.access.state()?;
        if faults == told {
            Ok(())
        } else {
            Err(Error::PeerLost)
        }
    }

    /// A mark for [`Window::check`]. As with any call, stores that were collected leave.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.reach().faults())
    }

    /// Whether all stores since `epoch` that were flushed have arrived. Never blocks, but for stores that were collected, which leave.
    ///
    /// # Errors
    /// [`Error::Revoked`] or [`Error::PeerLost`] if some may have been lost.
    #[inline]
    pub fn check(&self, epoch: Epoch) -> Result<()> {
        let faults = self.reach().faults();
        if faults == 0 {
            return Ok(());
        }
        // A window that was lost before the mark is lost still.
        self.access.state()?;
        if faults == epoch.0 {
            Ok(())
        } else {
            Err(Error::PeerLost)
        }
    }

    /// Whether stores can still get there, as far as anybody knows; asks the daemon's socket, too, if there is one.
    pub(crate) fn reachable(&self) -> Result<()> {
        self.access.state()
    }

    #[inline]
    fn stored(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        match &self.direct {
            Some(direct) => {
                direct.store(offset, bytes);
                Ok(())
            }
            None => self.reach().store(offset, bytes),
        }
    }

    #[inline]
    fn stored64(&self, offset: usize, value: u64) -> Result<()> {
        match &self.direct {
            Some(direct) => {
                direct.store64(offset, value);
                Ok(())
            }
            None => self.reach().store64(offset, value),
        }
    }

    #[inline]
    fn stored_line(&self, offset: usize, line: &[u8; LINE]) -> Result<()> {
        match &self.direct {
            Some(direct) => {
                direct.store_line(offset, line);
                Ok(())
            }
            None => self.reach().store_line(offset, line),
        }
    }

    #[inline(always)]
    fn storable(&self, offset: usize, bytes: usize, align: usize) -> Result<()> {
        if !self.write {
            return Err(Error::Denied { what: "a store" });
        }
        self.inside(offset, bytes)?;
        if !(self.skew + offset).is_multiple_of(align) {
            return Err(Error::Unaligned { offset, align });
        }
        Ok(())
    }

    #[inline(always)]
    fn inside(&self, offset: usize, bytes: usize) -> Result<()> {
        if offset > self.bytes || bytes > self.bytes - offset {
            return Err(shm::Error::Outside {
                offset,
                bytes,
                size: self.bytes,
            }
            .into());
        }
        Ok(())
    }
}

/// A window's memory as the mapping has it whose stores leave at once: behind what the window's other mapping has collected.
struct AtOnce {
    remote: Arc<dyn trap::Remote>,
    collected: Arc<OnceLock<trap::Mapping>>,
}

impl AtOnce {
    fn drained(&self) -> Result<&dyn trap::Remote, trap::Refused> {
        self.collected
            .get()
            .map_or(Ok(()), trap::Mapping::drain)
            .map(|()| &*self.remote)
    }
}

impl trap::Remote for AtOnce {
    fn store(&self, offset: usize, bytes: &[u8]) -> Result<(), trap::Refused> {
        self.drained()?.store(offset, bytes)
    }

    fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), trap::Refused> {
        self.drained()?.load(offset, into)
    }

    fn state(&self) -> Result<(), trap::Refused> {
        self.remote.state()
    }
}

/// Where a ring's stores go. Offsets must be inside, and the token must give the right to store. What is given up is told by
/// [`Window::check`].
impl Target for Window {
    #[inline]
    fn store(&self, offset: usize, bytes: &[u8]) {
        let _ = self.stored(offset, bytes);
    }

    #[inline]
    fn store_line(&self, offset: usize, line: &[u8; LINE]) {
        let _ = self.stored_line(offset, line);
    }

    #[inline]
    fn store64(&self, offset: usize, value: u64) {
        let _ = self.stored64(offset, value);
    }

    #[inline]
    fn fence(&self) {
        match &self.direct {
            Some(direct) => direct.fence(),
            None => self.reach().fence(),
        }
    }

    #[inline]
    fn store_tagged(&self, offset: usize, parts: &[&[u8]], length: usize, tag: u64) {
        match &self.direct {
            Some(direct) => direct.store_tagged(offset, parts, length, tag),
            None => {
                let line = assemble(parts, length, tag);
                let _ = self.reach().store_used(offset, &line, begin(length));
            }
        }
    }
}

#[cfg(test)]
mod tests;
