// SPDX-License-Identifier: Apache-2.0
//! How a process hands stores to another machine's memory to its daemon, whose software NIC sends them.
//!
//! One memfd for each remote window: a control page, [`LOADS`] pages for answers to loads, and a [ring](shm::ring) of
//! [`LINES`] lines from the process to the daemon. Messages of the ring, numbers little-endian, offsets from the begin
//! of the window:
//!
//! | kind | content | meaning |
//! |---|---|---|
//! | [`STORE`] | offset u64, bytes | store them |
//! | [`MARK`] | number u64 | write the number to [`Control::mark`] when all stores before are acknowledged or lost |
//! | [`LOAD`] | number u64, offset u64, length u64 | load up to 4096 bytes into the number's answer page, then write the number to its [`Answer::loaded`] |
//!
//! Loads are under way together, and are answered in any order, however late: the process may have given up waiting. So
//! load `n` has the answer page `n` modulo [`LOADS`], and the process uses that page for no other load until the answer is
//! there ([`Loads`] keeps account).
//!
//! There is no message to wake the region's owner: its daemon does so whenever stores have arrived while the owner
//! sleeps.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use shm::memory::{self, Access, Mapping};
use shm::ring::{LINE, Mapped, Receiver, ReceiverState, Sender, SenderState};
use shm::{Error, Result};

/// Kind of a store.
pub const STORE: u8 = 1;
/// Kind of a flush mark.
pub const MARK: u8 = 2;
/// Kind of a load.
pub const LOAD: u8 = 3;

/// Lines of the ring.
pub const LINES: u32 = 2048;
/// Bytes of the longest load, and of a page of answers.
pub const LOAD_BYTES: usize = memory::PAGE;
/// Why a load has brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Unloaded {
    /// It is refused, or its window is of no more use: [`Control::state`] says which.
    Refused = 1,
    /// The server has not answered in time; it may if it is asked again.
    Unanswered = 2,
}

/// Loads of a window that may be under way at once.
pub const LOADS: usize = 8;
/// Bytes of the memfd.
pub const BYTES: usize = RING + LINES as usize * LINE;

const ANSWER: usize = memory::PAGE;
const RING: usize = ANSWER + LOADS * LOAD_BYTES;

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
    _pad1: [u64; 4],
    /// Of the ring; the process's.
    pub sender: SenderState,
    /// Of the ring; the daemon's.
    pub receiver: ReceiverState,
    /// What came of loads, by their number modulo [`LOADS`]; written by the daemon.
    pub answers: [Answer; LOADS],
}

/// What came of the last load that an answer page was used for.
#[repr(C)]
#[derive(Debug)]
pub struct Answer {
    /// Its number.
    pub loaded: AtomicU64,
    /// 0, or [`Unloaded`]; written before `loaded`.
    pub failed: AtomicU32,
    _pad: u32,
}

/// The process's account of the answer pages.
#[derive(Debug, Default)]
pub struct Loads {
    /// Last number of each page; 0: none yet.
    last: [u64; LOADS],
    /// Somebody waits for that answer, or has not taken it yet.
    awaited: [bool; LOADS],
    /// Where the search for a free page begins.
    next: usize,
}

impl Loads {
    /// A number for the next load, whose answer page is free: the load that had it before is answered, and nobody wants the
    /// answer any more. `None`: there is no such page at present. [`Loads::end`] follows.
    pub fn begin(&mut self, operations: &Operations) -> Option<u64> {
        let answers = &operations.control().answers;
        for step in 0..LOADS {
            let page = (self.next + step) % LOADS;
            let last = self.last[page];
            if !self.awaited[page] && answers[page].loaded.load(Ordering::Acquire) == last {
                let before = match last {
                    0 => page as u64,
                    last => last,
                };
                self.last[page] = before + LOADS as u64;
                self.awaited[page] = true;
                self.next = page + 1;
                return Some(self.last[page]);
            }
        }
        None
    }

    /// The daemon was never asked for a load, the last of its page.
    pub fn cancel(&mut self, number: u64) {
        let page = (number % LOADS as u64) as usize;
        // No load has a number below `LOADS`.
        self.last[page] = match number - LOADS as u64 {
            before if before < LOADS as u64 => 0,
            before => before,
        };
        self.end(number);
    }

    /// Nobody waits for a load any more: its answer was taken, or is too late.
    pub fn end(&mut self, number: u64) {
        self.awaited[(number % LOADS as u64) as usize] = false;
    }
}

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
    pub fn answer(&self, number: u64, bytes: Result<&[u8], Unloaded>) {
        assert!(
            bytes.ok().is_none_or(|bytes| bytes.len() <= LOAD_BYTES),
            "more bytes than a load asks for"
        );
        let (answer, page) = self.answer_page(number);
        if let Ok(bytes) = bytes {
            // SAFETY: the answer page has room for them. Nobody reads it: the process waits for the number, or has given up.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), page, bytes.len()) };
        }
        answer.failed.store(
            bytes.map_or_else(|why| why as u32, |_| 0),
            Ordering::Relaxed,
        );
        answer.loaded.store(number, Ordering::Release);
    }

    /// The process takes the answer to load `number`, if it is there.
    ///
    /// # Panics
    /// If more than [`LOAD_BYTES`] bytes are asked for.
    #[must_use]
    pub fn answered(&self, number: u64, into: &mut [u8]) -> Option<Result<(), Unloaded>> {
        assert!(into.len() <= LOAD_BYTES, "more bytes than a load asks for");
        let (answer, page) = self.answer_page(number);
        if answer.loaded.load(Ordering::Acquire) != number {
            return None;
        }
        const UNANSWERED: u32 = Unloaded::Unanswered as u32;
        match answer.failed.load(Ordering::Relaxed) {
            0 => {}
            UNANSWERED => return Some(Err(Unloaded::Unanswered)),
            _ => return Some(Err(Unloaded::Refused)),
        }
        // SAFETY: the answer page has that many bytes, and the daemon writes there no more until the process asks for
        // another load with this page.
        unsafe { std::ptr::copy_nonoverlapping(page, into.as_mut_ptr(), into.len()) };
        Some(Ok(()))
    }

    /// Where the answer to a load is.
    fn answer_page(&self, number: u64) -> (&Answer, *mut u8) {
        let page = (number % LOADS as u64) as usize;
        // SAFETY: the answer pages lie in the mapping, one for each remainder.
        let first = unsafe { self.memory.as_ptr().add(ANSWER + page * LOAD_BYTES) };
        (&self.control().answers[page], first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_no_other_loads() {
        let (daemon, fd) = Operations::create().expect("memory");
        let process = Operations::map(&fd).expect("memory");
        let mut loads = Loads::default();
        let begun: Vec<u64> = (0..LOADS)
            .map(|_| loads.begin(&process).expect("a page is free"))
            .collect();
        assert_eq!(loads.begin(&process), None, "all pages are in use");
        let mut into = [0; 8];
        for &number in begun.iter().rev() {
            assert_eq!(process.answered(number, &mut into), None);
            daemon.answer(number, Ok(&number.to_le_bytes()));
        }
        // An answer that is there is kept until it is taken.
        assert_eq!(loads.begin(&process), None);
        // The first is not waited for any more; its page serves the next one.
        loads.end(begun[0]);
        let next = loads.begin(&process).expect("a page is free");
        for &number in &begun[1..] {
            assert_eq!(process.answered(number, &mut into), Some(Ok(())));
            assert_eq!(into, number.to_le_bytes());
            loads.end(number);
        }
        assert_eq!(process.answered(next, &mut into), None);
        // Nor is one used again that nobody waits for, but whose answer may still come.
        loads.end(next);
        let begun: Vec<u64> = (1..LOADS)
            .map(|_| loads.begin(&process).expect("a page is free"))
            .collect();
        assert!(!begun.contains(&next));
        assert_eq!(loads.begin(&process), None);
        daemon.answer(next, Ok(&[9; 8]));
        let last = loads.begin(&process).expect("a page is free");
        assert_eq!(process.answered(last, &mut into), None);
        for why in [Unloaded::Refused, Unloaded::Unanswered] {
            daemon.answer(last, Err(why));
            assert_eq!(process.answered(last, &mut into), Some(Err(why)));
        }
    }

    #[test]
    fn a_load_that_was_never_asked_for_leaves_its_page() {
        let (daemon, fd) = Operations::create().expect("memory");
        let process = Operations::map(&fd).expect("memory");
        let mut loads = Loads::default();
        for round in 0..3 {
            for _ in 0..2 * LOADS {
                let number = loads.begin(&process).expect("a page is free");
                loads.cancel(number);
            }
            for _ in 0..LOADS {
                let number = loads.begin(&process).expect("a page is free");
                daemon.answer(number, Ok(&[round; 8]));
                loads.end(number);
            }
        }
    }
}
