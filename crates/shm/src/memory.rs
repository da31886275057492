// SPDX-License-Identifier: Apache-2.0
//! Shared memory: memfds of sealed size, and their mappings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};

/// Size of a page.
pub const PAGE: usize = 4096;

/// What a mapping is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

impl Access {
    fn protection(self) -> ProtFlags {
        match self {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// `bytes` rounded up to whole pages.
#[must_use]
pub const fn pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE) * PAGE
}

/// Makes zeroed memory that can neither grow nor shrink, so that no holder can make another one's access fault.
///
/// # Errors
/// If the system has none.
pub fn create(name: &str, bytes: usize) -> Result<OwnedFd> {
    sized(name, bytes, SealFlags::SEAL)
}

/// As [`create`]; [`read_only`] can be asked of it.
///
/// # Errors
/// If the system has none.
pub fn create_sealable(name: &str, bytes: usize) -> Result<OwnedFd> {
    sized(name, bytes, SealFlags::empty())
}

fn sized(name: &str, bytes: usize, seals: SealFlags) -> Result<OwnedFd> {
    let failed = |source| Error::Memory {
        what: "making shared memory",
        bytes,
        source,
    };
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(failed)?;
    rustix::fs::ftruncate(&fd, bytes as u64).map_err(failed)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | seals)
        .map_err(failed)?;
    Ok(fd)
}

/// Another descriptor of the same memory that can't be written by, whatever its holder does. From now on nobody can map the
/// memory writable any more: who has done so before goes on, and no descriptor is of use for it. For a descriptor that was only
/// opened for reading is opened anew for writing through /proc by any process of the same user.
///
/// # Errors
/// If the memory was not made by [`create_sealable`], /proc is missing, or there are too many descriptors.
pub fn read_only(fd: impl AsFd) -> Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let failed = |source| Error::Memory {
        what: "opening shared memory read-only",
        bytes: 0,
        source,
    };
    let fd = fd.as_fd();
    let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    if !rustix::fs::fcntl_get_seals(fd)
        .map_err(failed)?
        .contains(seals)
    {
        rustix::fs::fcntl_add_seals(fd, seals).map_err(failed)?;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)
}

/// Size of a memfd; refuses one that could shrink under its mappings.
///
/// # Errors
/// If it is not one of sealed size.
pub fn size(fd: BorrowedFd<'_>) -> Result<usize> {
    let failed = |source| Error::Memory {
        what: "asking for the size of shared memory",
        bytes: 0,
        source,
    };
    let seals = match rustix::fs::fcntl_get_seals(fd) {
        Err(Errno::INVAL) => return Err(Error::Unsealed),
        seals => seals.map_err(failed)?,
    };
    if !seals.contains(SealFlags::SHRINK) {
        return Err(Error::Unsealed);
    }
    Ok(rustix::fs::fstat(fd).map_err(failed)?.st_size as usize)
}

/// A shared mapping; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping is an address range; what is in it is only reached through raw pointers or atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset` (a multiple of the page size) on.
    ///
    /// # Errors
    /// If the memory is smaller or the mapping is refused.
    pub fn new(fd: impl AsFd, offset: usize, len: usize, access: Access) -> Result<Self> {
        let fd = fd.as_fd();
        let whole = size(fd)?;
        if len == 0 || offset > whole || len > whole - offset {
            return Err(Error::Outside {
                offset,
                bytes: len,
                size: whole,
            });
        }
        Self::fresh(fd, offset, len, access)
    }

    /// Maps the first `len` bytes of a device: of memory without seals, of which the caller knows that it has that size and
    /// never shrinks.
    ///
    /// # Errors
    /// If the mapping is refused.
    pub fn device(fd: impl AsFd, len: usize, access: Access) -> Result<Self> {
        Self::fresh(fd.as_fd(), 0, len, access)
    }

    fn fresh(fd: BorrowedFd<'_>, offset: usize, len: usize, access: Access) -> Result<Self> {
        // SAFETY: a fresh address range chosen by the kernel.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                access.protection(),
                MapFlags::SHARED,
                fd,
                offset as u64,
            )
        }
        .map_err(|source| Error::Memory {
            what: "mapping shared memory",
            bytes: len,
            source,
        })?;
        Ok(Self {
            base: base.cast(),
            len,
        })
    }

    /// Maps all of `fd`.
    ///
    /// # Errors
    /// As [`Mapping::new`].
    pub fn whole(fd: impl AsFd, access: Access) -> Result<Self> {
        let len = size(fd.as_fd())?;
        Self::new(fd, 0, len, access)
    }

    /// Reserves `len` bytes of addresses, to be filled by [`Mapping::place`].
    ///
    /// # Errors
    /// If there is no such range.
    pub fn reserve(len: usize) -> Result<Self> {
        // SAFETY: a fresh address range chosen by the kernel.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|source| Error::Memory {
            what: "reserving addresses",
            bytes: len,
            source,
        })?;
        Ok(Self {
            base: base.cast(),
            len,
        })
    }

    /// `len` bytes of zeros that children have by a fork, and nobody else.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn for_children(len: usize) -> Result<Self> {
        // SAFETY: a fresh address range chosen by the kernel.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                Access::ReadWrite.protection(),
                MapFlags::SHARED,
            )
        }
        .map_err(|source| Error::Memory {
            what: "making memory to share with children",
            bytes: len,
            source,
        })?;
        Ok(Self {
            base: base.cast(),
            len,
        })
    }

    /// Puts `len` bytes of `fd` from `offset` on at `at` of this mapping, in place of what was there.
    ///
    /// # Errors
    /// If a range is outside of the mapping or the memory, or the mapping is refused.
    pub fn place(
        &self,
        at: usize,
        fd: impl AsFd,
        offset: usize,
        len: usize,
        access: Access,
    ) -> Result<()> {
        let fd = fd.as_fd();
        let whole = size(fd)?;
        if offset > whole || len > whole - offset {
            return Err(Error::Outside {
                offset,
                bytes: len,
                size: whole,
            });
        }
        if at > self.len || len > self.len - at {
            return Err(Error::Outside {
                offset: at,
                bytes: len,
                size: self.len,
            });
        }
        // SAFETY: the range is inside of this mapping, which is ours to replace.
        unsafe {
            rustix::mm::mmap(
                self.base.add(at).cast(),
                len,
                access.protection(),
                MapFlags::SHARED | MapFlags::FIXED,
                fd,
                offset as u64,
            )
        }
        .map_err(|source| Error::Memory {
            what: "mapping shared memory anew",
            bytes: len,
            source,
        })?;
        Ok(())
    }

    /// The 32-bit word at an aligned offset inside, as others have written it by now.
    ///
    /// # Panics
    /// If it is outside, or not aligned.
    #[must_use]
    pub fn load32(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(4) && offset < self.len && self.len - offset >= 4);
        // SAFETY: mapped as long as `self` lives, aligned and inside, as just checked; only loaded.
        unsafe { AtomicU32::from_ptr(self.base.add(offset).cast()) }.load(Ordering::SeqCst)
    }

    /// Its first byte.
    #[inline(always)]
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }

    /// Its size in bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; none has.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own range, and nobody can hold a reference that outlives this. Failure leaves it mapped.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.len) };
    }
}
