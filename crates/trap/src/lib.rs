// SPDX-License-Identifier: Apache-2.0
//! Pages that trap: addresses at which each plain load and store of the processor is handed to a function, with its own width
//! and in its own order.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use trap::{Mapping, Refused, Remote, Shape};
//!
//! struct Elsewhere(Mutex<[u8; 4096]>);
//! impl Remote for Elsewhere {
//!     fn store(&self, offset: usize, bytes: &[u8]) -> Result<(), Refused> {
//!         self.0.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
//!         Ok(())
//!     }
//!     fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), Refused> {
//!         into.copy_from_slice(&self.0.lock().unwrap()[offset..offset + into.len()]);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let elsewhere = Arc::new(Elsewhere(Mutex::new([0; 4096])));
//! let mapping = Mapping::new(elsewhere.clone(), Shape { bytes: 4096, readable: true, writable: true, ..Shape::default() })?;
//! let word = mapping.address().cast::<u32>();
//! // SAFETY: in the mapping, and aligned.
//! let seen = unsafe {
//!     word.write_volatile(42);
//!     word.read_volatile()
//! };
//! assert_eq!((seen, elsewhere.0.lock().unwrap()[0]), (42, 42));
//! # Ok(())
//! # }
//! ```
//!
//! The pages are reserved without access. The handler of SIGSEGV decodes the instruction that faulted (`decode`), gets what it
//! loads, runs a copy of it whose operand is scratch memory (`cell`), in the thread's own registers, and hands on what the copy
//! has stored there. So no instruction's meaning is emulated but that of the string instructions, no page is ever made accessible
//! to others, and the thread goes on behind the instruction. All in the handler of that thread, with its signals blocked: for
//! other signals the access has happened, or has not.
//!
//! What cannot be carried out is SIGBUS, with the address, at that instruction, and a sentence ([`last_fault`]); without a handler
//! the sentence goes to standard error first. Faults elsewhere go where they would have gone.
//!
//! What it does not do:
//! - System calls get EFAULT for such addresses, as for any that cannot be accessed.
//! - An atomic instruction is a load and a store. Between threads of this process, at one mapping, it is atomic; for the memory it
//!   is not, and others may store in between.
//! - Push, pop, call, jmp, gather, scatter, and what saves the processor's state (XSAVE and the like, tiles) are refused.
//! - Of a floating-point exception that a program has not masked, it gets the signal, at the instruction, and its registers as they
//!   were; which other exceptions MXCSR notes beside it may be different, and underflow without a loss is not seen.
//!   Of products of complex numbers (VFMULCPH and the like) it also gets an overflow of a part, which the processor only notes.
//! - The x87 unit's pointers to its last instruction and operand are those of the copy.
//! - SFENCE and MFENCE cannot be seen: stores that a [combined](Shape::combined) mapping collects leave by [`Mapping::drain`].
//! - A program that installs a handler of SIGSEGV after the first mapping has to call the one that it replaces;
//!   [`Mapping::new`] puts ours back.
//! - It is for x86-64; elsewhere [`Mapping::new`] says so.

use std::io;
use std::sync::Arc;

mod fault;
mod line;
mod quiet;
mod table;

#[cfg(target_arch = "x86_64")]
mod access;
#[cfg(target_arch = "x86_64")]
mod cell;
#[cfg(target_arch = "x86_64")]
mod context;
#[cfg(target_arch = "x86_64")]
mod decode;
#[cfg(target_arch = "x86_64")]
mod handler;
#[cfg(target_arch = "x86_64")]
mod local;
#[cfg(target_arch = "x86_64")]
mod template;
#[cfg(target_arch = "x86_64")]
mod text;

pub use quiet::{Quiet, thread};

/// Why an access was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The right to it was taken back.
    Revoked,
    /// Whose memory it is cannot be reached.
    Lost,
    /// There is no right to it.
    Denied,
    /// No answer in time.
    TimedOut,
    /// What carries stores takes none.
    Stalled,
    /// The thread is inside a call of the library's about the same memory.
    Inside,
    /// Something else, by its error number.
    Failed(i32),
}

impl Refused {
    fn why(self) -> &'static str {
        match self {
            Refused::Revoked => "the server has revoked the window's token: connect with a new one",
            Refused::Lost => {
                "the server of the window is gone or cannot be reached: connect again when it is back"
            }
            Refused::Denied => "the server refuses it",
            Refused::TimedOut => "the server has not answered in time",
            Refused::Stalled => {
                "the daemon of this machine has taken no stores for 20 s: see that it runs and is not stopped"
            }
            Refused::Inside => {
                "this thread is inside a call of the library about the same window: pass ordinary memory to it"
            }
            Refused::Failed(_) => "the device has failed",
        }
    }
}

/// Memory that is elsewhere.
///
/// All of it is called in a signal handler, and has to be safe there: no allocation, and no lock that a thread holds while its
/// signals are not blocked ([`Quiet`]).
pub trait Remote: Send + Sync {
    /// Stores bytes, inside of the range, behind all that were stored before.
    ///
    /// # Errors
    /// If they can't be, as far as is known; then nothing is stored.
    fn store(&self, offset: usize, bytes: &[u8]) -> Result<(), Refused>;

    /// Loads bytes, inside of the range, behind all that were stored before.
    ///
    /// # Errors
    /// If they can't be.
    fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), Refused>;

    /// Whether it is known that stores would be refused.
    ///
    /// # Errors
    /// Why.
    fn state(&self) -> Result<(), Refused> {
        Ok(())
    }
}

/// What a mapping is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the range.
    pub bytes: usize,
    /// Where in a page it begins.
    pub skip: usize,
    /// Loads are allowed.
    pub readable: bool,
    /// Stores are allowed.
    pub writable: bool,
    /// Stores are collected, a line of 64 bytes at a time, until the line is full, a store is to another line, there is a load, or
    /// [`Mapping::drain`] is called.
    pub combined: bool,
}

/// Addresses that trap, until it is dropped.
pub struct Mapping {
    entry: &'static table::Entry,
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapping")
            .field("range", &self.entry.range)
            .field("shape", &self.entry.shape)
            .finish()
    }
}

impl Mapping {
    /// Reserves addresses for a range. The first installs the handler.
    ///
    /// # Errors
    /// If there are none, there are too many mappings, or this is no x86-64.
    pub fn new(remote: Arc<dyn Remote>, shape: Shape) -> io::Result<Self> {
        #[cfg(target_arch = "x86_64")]
        handler::install()?;
        #[cfg(not(target_arch = "x86_64"))]
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        #[cfg(target_arch = "x86_64")]
        Self::reserve(remote, shape)
    }

    #[cfg(target_arch = "x86_64")]
    fn reserve(remote: Arc<dyn Remote>, shape: Shape) -> io::Result<Self> {
        use table::PAGE;
        let skip = shape.skip % PAGE;
        let inside = shape
            .bytes
            .checked_add(skip)
            .filter(|bytes| *bytes <= isize::MAX as usize / 2)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let whole = inside.next_multiple_of(PAGE) + 2 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: fresh addresses, without access.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = base as usize;
        let first = base + PAGE + skip;
        let entry = table::Entry::new(
            base..base + whole,
            first..first + shape.bytes,
            shape,
            remote,
        );
        match table::enter(Box::new(entry)) {
            Ok(entry) => Ok(Self { entry }),
            Err(error) => {
                // SAFETY: reserved above, and known to nobody.
                unsafe { libc::munmap(base as *mut _, whole) };
                Err(error)
            }
        }
    }

    /// The first byte.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.entry.range.start as *mut u8
    }

    /// Has the stores leave that were collected.
    ///
    /// # Errors
    /// If they can't; they are lost then.
    pub fn drain(&self) -> Result<(), Refused> {
        if !self.entry.has_collected() {
            return Ok(());
        }
        let _quiet = Quiet::begin();
        self.entry.drain()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // What cannot leave any more is lost, as it is at a peer that is.
        let _ = self.drain();
        let reserved = self.entry.reserved.clone();
        table::leave(self.entry);
        // SAFETY: reserved by `new`; whoever drops the mapping promises that nobody uses it.
        unsafe { libc::munmap(reserved.start as *mut _, reserved.len()) };
    }
}

/// Copies the sentence about the calling thread's last refused access, and says how long it is; 0: there is none. Can be called
/// in a signal handler.
pub fn last_fault(into: &mut [u8]) -> usize {
    let mut whole = [0; fault::LONGEST];
    let Some(length) = fault::last(thread(), &mut whole) else {
        return 0;
    };
    let count = length.min(into.len());
    into[..count].copy_from_slice(&whole[..count]);
    length
}

/// Forgets the sentence of the calling thread.
pub fn forget_fault() {
    fault::forget(thread());
}

/// Whether any of these bytes would trap: then they can be passed to no system call, and be accessed under no lock that the access
/// itself needs.
#[must_use]
pub fn traps(bytes: &[u8]) -> bool {
    table::touches(bytes.as_ptr() as usize, bytes.len())
}
