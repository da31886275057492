// SPDX-License-Identifier: Apache-2.0
//! Which processes live: what a lock in shared memory asks before it is taken from its owner.
//!
//! A *register* is a file without content. Each process that is to be found there locks one byte of it, whose offset is
//! the process's number: a record lock, which the kernel drops when the process ends, however it does, and which no child
//! inherits. So whoever has the file can ask the kernel whether a number's owner lives.
//!
//! Of what else dies with a process, a thread's number says nothing in another pid namespace (a container), where another
//! thread may have it, or none; a robust futex is given away by the kernel by that same number, and its list would lie in
//! memory that peers write; a pidfd must have come to everybody who may ask, before; and an open file description, with its
//! locks, lives on in each child. A record lock needs no more than the descriptor, and fcntl(2) works in every sandbox
//! where the sockets themselves do.
//!
//! The price: whoever closes a descriptor of the file loses the process's locks. So a process takes one descriptor of each
//! register, never closes it, and asks by its [key](find) before it takes another.

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::fs::SeekFrom;

use crate::channel::fork_epoch;
use crate::raw;

/// Tries to get a number that no other living process has.
const TRIES: u32 = 64;

/// A register that this process knows.
#[derive(Debug)]
pub struct Living {
    key: u64,
    file: RawFd,
    /// The fork epoch in which the number was taken, and the number; 0: none yet.
    own: AtomicU64,
    next: AtomicPtr<Living>,
}

/// The registers that this process knows; none is ever forgotten.
static KNOWN: AtomicPtr<Living> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the file of a register.
///
/// # Errors
/// If the system has none.
pub fn create() -> crate::Result<OwnedFd> {
    crate::memory::create("ipnuma-living", crate::memory::PAGE)
}

/// The register with this key, if the process knows it.
#[must_use]
pub fn find(key: u64) -> Option<&'static Living> {
    let mut at = KNOWN.load(Ordering::Acquire);
    // SAFETY: what is in the list is never freed.
    while let Some(known) = unsafe { at.as_ref() } {
        if known.key == key {
            return Some(known);
        }
        at = known.next.load(Ordering::Acquire);
    }
    None
}

/// Makes a register known by `key`. The process keeps the descriptor for its life; returns its number.
pub fn join(key: u64, file: OwnedFd) -> RawFd {
    let file = file.into_raw_fd();
    let fresh = Box::into_raw(Box::new(Living {
        key,
        file,
        own: AtomicU64::new(0),
        next: AtomicPtr::new(std::ptr::null_mut()),
    }));
    let mut first = KNOWN.load(Ordering::Acquire);
    loop {
        // SAFETY: ours until it is in the list, and never freed afterwards.
        unsafe { &*fresh }.next.store(first, Ordering::Relaxed);
        match KNOWN.compare_exchange(first, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return file,
            Err(other) => first = other,
        }
    }
}

/// The register of channels that no daemon made: this process's, which its children inherit.
pub fn private() -> Option<&'static Living> {
    static MADE: OnceLock<bool> = OnceLock::new();
    if *MADE.get_or_init(|| create().map(|file| join(0, file)).is_ok()) {
        find(0)
    } else {
        None
    }
}

/// A range of one byte, as fcntl(2) wants it on 64-bit Linux.
#[repr(C)]
struct Record {
    kind: i16,
    whence: i16,
    start: i64,
    bytes: i64,
    pid: i32,
}

const GETLK: usize = 5;
const SETLK: usize = 6;
const WRITE: i16 = 1;
const UNLOCKED: i16 = 2;

impl Living {
    /// This process's number, never 0; none if it can't be had. A forked child takes one of its own.
    #[inline(always)]
    pub fn number(&self) -> Option<u32> {
        let own = self.own.load(Ordering::Relaxed);
        if own as u32 != 0 && (own >> 32) as u32 == fork_epoch() {
            return Some(own as u32);
        }
        self.claim(own)
    }

    #[cold]
    fn claim(&self, before: u64) -> Option<u32> {
        for _ in 0..TRIES {
            // All who have the file have one place in it, which the kernel moves for one after the other.
            // SAFETY: the descriptor is never closed.
            let file = unsafe { BorrowedFd::borrow_raw(self.file) };
            let number = rustix::fs::seek(file, SeekFrom::Current(1)).ok()? as u32;
            // It starts anew after 2^32 processes, of which some may still live.
            if number == 0 || self.record(SETLK, number)?.is_none() {
                continue;
            }
            let fresh = u64::from(fork_epoch()) << 32 | u64::from(number);
            return match self.own.compare_exchange(
                before,
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => Some(number),
                // Another thread was first; the process has one number more that nobody uses.
                Err(other) => Some(other as u32),
            };
        }
        None
    }

    /// Whether the process with this number lives; one that cannot be asked about does.
    #[must_use]
    pub fn lives(&self, number: u32) -> bool {
        if number == 0 || self.number() == Some(number) {
            return true;
        }
        !matches!(self.record(GETLK, number), Some(Some(UNLOCKED)))
    }

    /// Asks for the lock of a number, or takes it. `Some(None)`: another process has it.
    fn record(&self, what: usize, number: u32) -> Option<Option<i16>> {
        let mut record = Record {
            kind: WRITE,
            whence: 0,
            start: i64::from(number),
            bytes: 1,
            pid: 0,
        };
        // SAFETY: the kernel reads and writes one such structure.
        let result = unsafe {
            raw::syscall(
                FCNTL,
                [self.file as usize, what, &raw mut record as usize, 0, 0, 0],
            )
        };
        match -result {
            0 => Some(Some(record.kind)),
            // EAGAIN, EACCES.
            11 | 13 if what == SETLK => Some(None),
            _ => None,
        }
    }
}

#[cfg(target_arch = "x86_64")]
const FCNTL: usize = 72;
#[cfg(target_arch = "aarch64")]
const FCNTL: usize = 25;
