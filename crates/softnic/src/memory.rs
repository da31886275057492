// SPDX-License-Identifier: Apache-2.0
//! Memory that others may write and read through the NIC, as the host's processes have it mapped.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::error::Error;

/// Bytes of a signal page.
const PAGE: usize = 4096;

/// Pages of memory, and what wakes those who wait for something to arrive in them. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Segment(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: Mapping,
    /// It is mapped for reading only.
    read_only: bool,
    wake: Option<Wake>,
}

/// Wakes who waits.
#[derive(Debug)]
struct Wake {
    event: Arc<OwnedFd>,
    sleeper: Sleeper,
}

/// How it is known whether somebody sleeps.
#[derive(Debug)]
enum Sleeper {
    /// Somebody always may.
    Always,
    /// A page whose first 32-bit word is not zero while somebody does.
    Page(Mapping),
    /// A 32-bit word at this offset of the segment itself.
    Word(usize),
}

#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping lives as long as the value, belongs to no thread, and is only touched by atomic accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above; all accesses are atomic.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `Mapping::own`, and nobody else has it. An error can't be helped: the address
        // space stays as it is.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl Mapping {
    fn own(base: *mut c_void, bytes: usize) -> Result<Self, Error> {
        let base = NonNull::new(base.cast()).ok_or(Error::Memory {
            bytes,
            source: io::ErrorKind::OutOfMemory.into(),
        })?;
        Ok(Self { base, bytes })
    }

    fn of(memory: BorrowedFd<'_>, bytes: usize, rights: ProtFlags) -> Result<Self, Error> {
        let failed = |error: rustix::io::Errno| Error::Memory {
            bytes,
            source: error.into(),
        };
        let seals = fcntl_get_seals(memory).map_err(failed)?;
        let has = fstat(memory).map_err(failed)?.st_size;
        if !seals.contains(SealFlags::SHRINK)
            || u64::try_from(has).is_ok_and(|has| has < bytes as u64)
        {
            return Err(Error::Unsealed { bytes, has });
        }
        // SAFETY: a new mapping at a place that the kernel chooses; the file can't shrink below it.
        let base = unsafe { mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, memory, 0) };
        Self::own(base.map_err(failed)?, bytes)
    }
}

impl Segment {
    fn new(memory: Mapping, read_only: bool) -> Self {
        Self(Arc::new(Inner {
            memory,
            read_only,
            wake: None,
        }))
    }

    /// New memory of this process, full of zeros.
    pub fn anonymous(bytes: usize) -> Result<Self, Error> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        };
        let base = base.map_err(|error| Error::Memory {
            bytes,
            source: error.into(),
        })?;
        Mapping::own(base, bytes).map(|memory| Self::new(memory, false))
    }

    /// The first `bytes` of a memfd, which others may have mapped too. It must be sealed against shrinking: a store into
    /// pages that are gone would end the process.
    ///
    /// # Errors
    /// [`Error::Unsealed`] and [`Error::Memory`]
    pub fn map(memory: BorrowedFd<'_>, bytes: usize) -> Result<Self, Error> {
        Mapping::of(memory, bytes, ProtFlags::READ | ProtFlags::WRITE)
            .map(|memory| Self::new(memory, false))
    }

    /// As [`Segment::map`], for memory that peers may only read: it need not be writable, and nothing is written to it.
    ///
    /// # Errors
    /// As [`Segment::map`].
    pub fn map_read_only(memory: BorrowedFd<'_>, bytes: usize) -> Result<Self, Error> {
        Mapping::of(memory, bytes, ProtFlags::READ).map(|memory| Self::new(memory, true))
    }

    /// The same memory with an eventfd that is written when something has arrived; with a `signal` page (a memfd) only
    /// while the 32-bit word it begins with is not zero. To be called before the segment is given away.
    ///
    /// # Errors
    /// [`Error::Shared`] if the segment has clones already; as [`Segment::map`] for the page.
    pub fn with_wake(
        mut self,
        event: Arc<OwnedFd>,
        signal: Option<BorrowedFd<'_>>,
    ) -> Result<Self, Error> {
        let sleeper = match signal {
            Some(page) => Sleeper::Page(Mapping::of(page, PAGE, ProtFlags::READ)?),
            None => Sleeper::Always,
        };
        self.wakes(Wake { event, sleeper })?;
        Ok(self)
    }

    /// As [`Segment::with_wake`], with the 32-bit word at `offset` of the segment itself, a multiple of 4.
    ///
    /// # Errors
    /// [`Error::Shared`] if the segment has clones already, [`Error::Range`] if the word is not inside.
    pub fn with_wake_word(mut self, event: Arc<OwnedFd>, offset: usize) -> Result<Self, Error> {
        if !self.holds(offset, 4) || !offset.is_multiple_of(4) {
            return Err(Error::Range {
                what: "segment",
                first: offset as u64,
                bytes: 4,
                limit: self.bytes() as u64,
            });
        }
        let sleeper = Sleeper::Word(offset);
        self.wakes(Wake { event, sleeper })?;
        Ok(self)
    }

    fn wakes(&mut self, wake: Wake) -> Result<(), Error> {
        let inner = Arc::get_mut(&mut self.0).ok_or(Error::Shared)?;
        inner.wake = Some(wake);
        Ok(())
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.0.memory.bytes
    }

    /// Where it is mapped in this process.
    pub fn base(&self) -> *mut u8 {
        self.0.memory.base.as_ptr()
    }

    /// Wakes who waits.
    pub(crate) fn wake(&self) {
        let Some(wake) = &self.0.wake else {
            return;
        };
        // Who goes to sleep looks at the memory once more after it has said so.
        fence(Ordering::SeqCst);
        let (base, offset) = match &wake.sleeper {
            Sleeper::Always => (None, 0),
            Sleeper::Page(page) => (Some(page.base), 0),
            Sleeper::Word(offset) => (Some(self.0.memory.base), *offset),
        };
        let sleeps = base.is_none_or(|base| {
            // SAFETY: both mappings live as long as `self`, begin at a page, and the offset was looked at when it came.
            let word = unsafe { AtomicU32::from_ptr(base.as_ptr().add(offset).cast()) };
            word.load(Ordering::Relaxed) != 0
        });
        if sleeps {
            // A counter that is full wakes as well.
            let _ = rustix::io::write(wake.event.as_fd(), &1_u64.to_ne_bytes());
        }
    }

    fn holds(&self, offset: usize, bytes: usize) -> bool {
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.0.memory.bytes)
    }

    /// Writes bytes in rising order; who sees the last eight aligned ones of them sees all. `false`, and nothing is
    /// written, if they are not all inside, or the segment is for reading only.
    pub fn write(&self, offset: usize, data: &[u8]) -> bool {
        if self.0.read_only || !self.holds(offset, data.len()) {
            return false;
        }
        let mut at = offset;
        let mut left = data;
        while !left.is_empty() {
            let width = [8, 4, 1]
                .into_iter()
                .find(|width| at.is_multiple_of(*width) && left.len() >= *width)
                .unwrap_or(1);
            let (word, rest) = left.split_at(width);
            let order = if rest.is_empty() {
                Ordering::Release
            } else {
                Ordering::Relaxed
            };
            // SAFETY: `holds` was asked; the mapping is page aligned, so `at` is aligned to `width` in memory, too.
            unsafe {
                let place = self.0.memory.base.as_ptr().add(at);
                match *word {
                    [a, b, c, d, e, f, g, h] => AtomicU64::from_ptr(place.cast())
                        .store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), order),
                    [a, b, c, d] => AtomicU32::from_ptr(place.cast())
                        .store(u32::from_ne_bytes([a, b, c, d]), order),
                    _ => AtomicU8::from_ptr(place).store(word[0], order),
                }
            }
            at += width;
            left = rest;
        }
        true
    }

    /// Writes whole DWs with PCI Express byte enables.
    pub(crate) fn write_dws(&self, offset: usize, data: &[u8], first_be: u8, last_be: u8) -> bool {
        let dws = data.len() / 4;
        if let Some((lead, trail)) = wire::contiguous(dws as u16, first_be, last_be) {
            let (lead, trail) = (usize::from(lead), usize::from(trail));
            return self.write(offset + lead, &data[lead..data.len() - trail]);
        }
        if !self.holds(offset, data.len()) {
            return false;
        }
        for (index, byte) in data.iter().enumerate() {
            let enables = match index / 4 {
                0 => first_be,
                dw if dw + 1 == dws => last_be,
                _ => 0xF,
            };
            if enables >> (index % 4) & 1 == 1 {
                self.write(offset + index, std::slice::from_ref(byte));
            }
        }
        true
    }

    /// Reads bytes; `false`, and nothing is read, if they are not all inside.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        if !self.holds(offset, into.len()) {
            return false;
        }
        let mut at = offset;
        let mut left = into;
        while !left.is_empty() {
            // SAFETY: `holds` was asked; the mapping is page aligned, so the word is aligned if `at` is.
            unsafe {
                let place = self.0.memory.base.as_ptr().add(at);
                let width = if at.is_multiple_of(8) && left.len() >= 8 {
                    let word = AtomicU64::from_ptr(place.cast()).load(Ordering::Acquire);
                    left[..8].copy_from_slice(&word.to_ne_bytes());
                    8
                } else {
                    left[0] = AtomicU8::from_ptr(place).load(Ordering::Acquire);
                    1
                };
                at += width;
                left = &mut left[width..];
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    #[test]
    fn bytes_of_any_alignment_come_back() {
        let segment = Segment::anonymous(4096).expect("a page");
        let data: Vec<u8> = (1..=100).collect();
        for offset in 0..9 {
            for length in [1, 3, 4, 7, 8, 12, 63, 100] {
                assert!(segment.write(offset, &data[..length]));
                let mut back = vec![0; length];
                assert!(segment.read(offset, &mut back));
                assert_eq!(back, data[..length]);
            }
        }
        assert!(!segment.write(4090, &data[..7]));
        assert!(!segment.write(usize::MAX, &data[..7]));
        assert!(!segment.read(4096, &mut [0]));
    }

    #[test]
    fn enables_choose_bytes() {
        let segment = Segment::anonymous(4096).expect("a page");
        let data: Vec<u8> = (1..=12).collect();
        assert!(segment.write_dws(0, &data, 0b1100, 0b0001));
        let mut seen = [0; 12];
        assert!(segment.read(0, &mut seen));
        assert_eq!(seen, [0, 0, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0]);
        assert!(segment.write_dws(64, &data[..4], 0b1010, 0));
        assert!(segment.read(64, &mut seen[..4]));
        assert_eq!(seen[..4], [0, 2, 0, 4]);
    }

    #[test]
    fn a_file_that_may_shrink_is_refused() {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).expect("a memfd");
        ftruncate(&file, 8192).expect("a size");
        assert!(matches!(
            Segment::map(file.as_fd(), 8192),
            Err(Error::Unsealed { .. })
        ));
        fcntl_add_seals(&file, SealFlags::SHRINK).expect("a seal");
        assert!(matches!(
            Segment::map(file.as_fd(), 12288),
            Err(Error::Unsealed { .. })
        ));
        let one = Segment::map(file.as_fd(), 8192).expect("a mapping");
        let two = Segment::map(file.as_fd(), 4096).expect("a second one");
        assert!(one.write(100, b"hello"));
        let mut seen = [0; 5];
        assert!(two.read(100, &mut seen));
        assert_eq!(&seen, b"hello");
    }
}
