// SPDX-License-Identifier: Apache-2.0
//! The ranges of addresses that trap, found without a lock.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::line::{LINE, Line};
use crate::{Refused, Remote, Shape};

/// Ranges there can be at a time.
pub const MOST: usize = 1024;
/// Size of a page.
pub const PAGE: usize = 4096;

/// A range that is in use.
pub struct Entry {
    /// All that is reserved: the range, and at least a page on both sides.
    pub reserved: Range<usize>,
    /// The range.
    pub range: Range<usize>,
    pub shape: Shape,
    /// The process that mapped it.
    pub process: u32,
    remote: Arc<dyn Remote>,
    turn: AtomicBool,
    line: UnsafeCell<Line>,
    /// Whether stores are in the line.
    collected: AtomicBool,
}

// SAFETY: the line is only reached by who has the turn.
unsafe impl Sync for Entry {}
// SAFETY: nothing in it is a thread's own.
unsafe impl Send for Entry {}

static TABLE: [AtomicPtr<Entry>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
/// Places of the table that were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Whose turn it is.
pub struct Turn<'a>(&'a Entry);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turn.store(false, Ordering::Release);
    }
}

impl Entry {
    pub fn new(
        reserved: Range<usize>,
        range: Range<usize>,
        shape: Shape,
        remote: Arc<dyn Remote>,
    ) -> Self {
        Self {
            reserved,
            range,
            shape,
            process: std::process::id(),
            remote,
            turn: AtomicBool::new(false),
            line: UnsafeCell::new(Line::new()),
            collected: AtomicBool::new(false),
        }
    }

    /// The turn to store. Only with signals blocked: whoever has it is never interrupted by a handler that wants it, and always
    /// gives it back.
    pub fn turn(&self) -> Turn<'_> {
        let mut looks = 0u32;
        while self
            .turn
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            looks += 1;
            if looks.is_multiple_of(64) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        Turn(self)
    }

    fn offset(&self, address: usize) -> usize {
        address - self.range.start
    }

    /// Stores bytes of the range: at once, or into the line.
    pub fn store(&self, turn: &Turn<'_>, address: usize, bytes: &[u8]) -> Result<(), Refused> {
        debug_assert!(std::ptr::eq(turn.0, self));
        if !self.shape.combined {
            return self.remote.store(self.offset(address), bytes);
        }
        self.remote.state()?;
        let (mut at, mut bytes) = (address, bytes);
        while !bytes.is_empty() {
            let count = bytes.len().min(LINE - at % LINE);
            // SAFETY: it is the caller's turn.
            let taken = unsafe { &mut *self.line.get() }.take(at, &bytes[..count]);
            if !taken {
                self.drain_with(turn)?;
                continue;
            }
            self.collected.store(true, Ordering::Release);
            (at, bytes) = (at + count, &bytes[count..]);
            // SAFETY: as above.
            if unsafe { &*self.line.get() }.full() {
                self.drain_with(turn)?;
            }
        }
        Ok(())
    }

    /// Has what was collected leave.
    pub fn drain_with(&self, turn: &Turn<'_>) -> Result<(), Refused> {
        debug_assert!(std::ptr::eq(turn.0, self));
        self.collected.store(false, Ordering::Relaxed);
        // SAFETY: it is the caller's turn.
        unsafe { &mut *self.line.get() }
            .leave(|address, bytes| self.remote.store(self.offset(address), bytes))
    }

    /// Whether stores wait that were collected.
    pub fn has_collected(&self) -> bool {
        self.collected.load(Ordering::Acquire)
    }

    /// As [`Entry::drain_with`], if there is anything. Only with signals blocked.
    pub fn drain(&self) -> Result<(), Refused> {
        match self.has_collected() {
            true => self.drain_with(&self.turn()),
            false => Ok(()),
        }
    }

    /// Loads bytes of the range.
    pub fn load(&self, address: usize, into: &mut [u8]) -> Result<(), Refused> {
        self.remote.load(self.offset(address), into)
    }
}

/// Enters a range. One thread at a time.
///
/// # Errors
/// If there are too many.
pub fn enter(entry: Box<Entry>) -> io::Result<&'static Entry> {
    let entry = Box::into_raw(entry);
    for (place, slot) in TABLE.iter().enumerate() {
        let free = slot.compare_exchange(
            std::ptr::null_mut(),
            entry,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if free.is_ok() {
            USED.fetch_max(place + 1, Ordering::Release);
            // SAFETY: just made, and not freed before `leave`, which ends its use.
            return Ok(unsafe { &*entry });
        }
    }
    // SAFETY: just made from a box, and given to nobody.
    drop(unsafe { Box::from_raw(entry) });
    Err(io::Error::from_raw_os_error(libc::ENOSPC))
}

/// Takes a range out, which nobody uses any more.
pub fn leave(entry: &'static Entry) {
    let entry = std::ptr::from_ref(entry).cast_mut();
    for slot in &TABLE {
        if slot.load(Ordering::Relaxed) == entry {
            slot.store(std::ptr::null_mut(), Ordering::Release);
            // A handler of another thread may look at the entry, to see that it is not concerned.
            while LOOKING.load(Ordering::SeqCst) != 0 {
                std::thread::yield_now();
            }
            // SAFETY: made from a box, out of the table, and nobody looks at the table who may have seen it before.
            drop(unsafe { Box::from_raw(entry) });
            return;
        }
    }
}

/// Threads that look at the table.
static LOOKING: AtomicU32 = AtomicU32::new(0);

/// The range whose reservation an address is in. Its user keeps it from going: who unmaps it promises that nobody uses it.
pub fn find(address: usize) -> Option<&'static Entry> {
    LOOKING.fetch_add(1, Ordering::SeqCst);
    let used = USED.load(Ordering::Acquire);
    let found = TABLE[..used].iter().find_map(|slot| {
        // SAFETY: NULL or an entry that is not freed while somebody looks.
        let entry = unsafe { slot.load(Ordering::Acquire).as_ref() }?;
        entry.reserved.contains(&address).then_some(entry)
    });
    LOOKING.fetch_sub(1, Ordering::SeqCst);
    found
}

/// Whether there is any range that these bytes touch.
pub fn touches(first: usize, bytes: usize) -> bool {
    if USED.load(Ordering::Acquire) == 0 || bytes == 0 {
        return false;
    }
    LOOKING.fetch_add(1, Ordering::SeqCst);
    let used = USED.load(Ordering::Acquire);
    let end = first.saturating_add(bytes);
    let found = TABLE[..used].iter().any(|slot| {
        // SAFETY: as above.
        let entry = unsafe { slot.load(Ordering::Acquire).as_ref() };
        entry.is_some_and(|entry| first < entry.reserved.end && end > entry.reserved.start)
    });
    LOOKING.fetch_sub(1, Ordering::SeqCst);
    found
}
