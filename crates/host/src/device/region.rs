// SPDX-License-Identifier: Apache-2.0
//! Own memory that others store to.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ipc::token::{Rights, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use shm::ring::{INLINE, LINE, line_length};

use crate::backend::RegionMemory;
use crate::clock::{Deadline, Ticks};
use crate::error::{Error, Result};

/// Own memory. Dropping it takes back its tokens and unmaps it.
#[derive(Debug)]
pub struct Region {
    memory: Box<dyn RegionMemory>,
    spin: Duration,
    /// Whether the owner was told to be woken since it was woken last.
    armed: AtomicBool,
}

/// Whether an address is that of no machine.
fn is_nobodys(address: &Ipv4Addr) -> bool {
    address.is_unspecified() || address.is_broadcast() || address.is_multicast()
}

impl Region {
    pub(super) fn new(memory: Box<dyn RegionMemory>, spin: Duration) -> Self {
        Self {
            memory,
            spin,
            armed: AtomicBool::new(false),
        }
    }

    /// Its number, which its tokens carry.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.memory.id()
    }

    /// Its first byte; it stays there. Others store to it at any time: read it with volatile or atomic loads.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it has no bytes; none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word at `offset`, a multiple of 8: what was stored before it is visible, too.
    ///
    /// # Panics
    /// If the offset is outside or no multiple of 8.
    #[inline]
    #[must_use]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset < self.len(),
            "word at offset {offset} of {} bytes",
            self.len()
        );
        self.memory.settle();
        // SAFETY: inside of the memory, which lives as long as `self`, and aligned; a region's size is whole pages.
        unsafe { AtomicU64::from_ptr(self.as_ptr().add(offset).cast()) }
    }

    /// A copy of the bytes from `offset` on. Stores that happen meanwhile may be seen in part.
    ///
    /// # Errors
    /// If they are outside.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.inside(offset, into.len())?;
        self.memory.settle();
        // SAFETY: inside of the memory; `into` is a Rust slice, so it does not lie there.
        unsafe {
            std::ptr::copy_nonoverlapping(self.as_ptr().add(offset), into.as_mut_ptr(), into.len())
        };
        Ok(())
    }

    /// Writes into the region.
    ///
    /// # Errors
    /// If the bytes are outside.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.inside(offset, bytes.len())?;
        self.memory.settle();
        self.memory.write(offset, bytes);
        Ok(())
    }

    /// A token that lets its holder use a range; any machine's, or only `peer`'s.
    ///
    /// # Errors
    /// If the range is outside or empty, `peer` is no machine's address, or there are too many tokens.
    pub fn export(
        &self,
        range: Range<usize>,
        rights: Rights,
        peer: Option<Ipv4Addr>,
    ) -> Result<Token> {
        let bytes = range.end.saturating_sub(range.start);
        self.inside(range.start, bytes)?;
        if bytes == 0 {
            return Err(shm::Error::Outside {
                offset: range.start,
                bytes,
                size: self.len(),
            }
            .into());
        }
        if let Some(peer) = peer.filter(is_nobodys) {
            return Err(Error::Peer { peer });
        }
        self.memory.settle();
        self.memory
            .export(range.start as u64, bytes as u64, rights, peer)
    }

    /// Takes a token back. What its holders store afterwards never reaches the region, and they see
    /// [`Error::Revoked`] when they [check](crate::Window::check).
    ///
    /// The `soft` back end moves the region to fresh memory, contents included, and thereby ends all its windows: holders of other tokens
    /// connect again, and wait until it has moved. What they have stored and [flushed](crate::Window::flush) is there. So is what this process
    /// [writes](Region::write); what it stores by other ways during the call may get lost, so don't do any.
    ///
    /// The administrator (`ipnuma regions --revoke`) can take all tokens back. The region then moves in the same way when this
    /// process next looks at it by a method of [`Region`] or of a ring, or when it is woken by [`Region::event_fd`] and calls
    /// [`Region::recheck`]; until then its old memory can still be written.
    ///
    /// # Errors
    /// If the token is none of this region, or is revoked already.
    pub fn revoke(&self, token: &Token) -> Result<()> {
        self.memory.revoke(token)
    }

    /// The line at `offset` (a multiple of 64) if it is number `sequence`: its bytes are copied to `into`, and their number is returned.
    ///
    /// See [`crate::Window::put_line`].
    ///
    /// # Panics
    /// If the line is outside, or the offset no multiple of 64.
    #[inline]
    #[must_use]
    pub fn poll_line(
        &self,
        offset: usize,
        sequence: u32,
        into: &mut [u8; INLINE],
    ) -> Option<usize> {
        assert!(
            offset.is_multiple_of(LINE),
            "line at offset {offset}, which is no multiple of 64"
        );
        let length = line_length(self.word(offset + INLINE).load(Ordering::Acquire), sequence)?;
        // SAFETY: the line lies in the memory: its last word does.
        unsafe {
            std::ptr::copy_nonoverlapping(self.as_ptr().add(offset), into.as_mut_ptr(), INLINE)
        };
        Some(length)
    }

    /// Readable after a signal that came after [`Region::recheck`].
    #[must_use]
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.memory.event_fd()
    }

    /// Prepares for sleep on [`Region::event_fd`]: look at the memory once more afterwards, and sleep only if there is nothing new.
    pub fn recheck(&self) {
        self.memory.settle();
        // What was signalled up to now is found by looking.
        self.drain();
        self.armed.store(true, Ordering::Relaxed);
        self.memory.arm(true);
    }

    /// The opposite of [`Region::recheck`]: spares writers the trouble to signal.
    pub fn disarm(&self) {
        if self.armed.swap(false, Ordering::Relaxed) {
            self.memory.arm(false);
        }
    }

    /// Waits for a signal, in the kernel; whether there was one.
    ///
    /// It also returns at once, saying there was, when signals before the call could have been missed: so look at the
    /// memory, and wait again if there is nothing new. One thread at a time may wait.
    ///
    /// # Errors
    /// If waiting is impossible, or interrupted by a signal handler.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        if !self.armed.load(Ordering::Relaxed) {
            self.recheck();
            return Ok(true);
        }
        let signalled = self.sleep(&Deadline::after(timeout))?;
        if signalled {
            self.disarm();
            self.drain();
        }
        Ok(signalled)
    }

    /// Waits until `look` finds something: spins for the configured time, then sleeps between signals.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if it does not, others if waiting is impossible or interrupted by a signal handler.
    pub fn wait_until<T>(
        &self,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.memory.settle();
        if let Some(found) = look() {
            return Ok(found);
        }
        let deadline = Deadline::after(timeout);
        let spin = timeout.map_or(self.spin, |timeout| timeout.min(self.spin));
        // Where polling is of no use, even to ask for the time costs some.
        if !spin.is_zero() {
            let end = Ticks::now().after(spin);
            while !end.passed() {
                self.memory.settle();
                if let Some(found) = look() {
                    return Ok(found);
                }
                std::hint::spin_loop();
            }
        }
        let found = loop {
            self.recheck();
            if let Some(found) = look() {
                break Ok(found);
            }
            match self.sleep(&deadline) {
                // Most often it is there: then it need not be armed again, which is an access to a device in the rack.
                Ok(true) => {
                    if let Some(found) = look() {
                        break Ok(found);
                    }
                }
                Ok(false) => {
                    break look().ok_or(Error::TimedOut {
                        what: "a signal to the region",
                    });
                }
                Err(error) => break Err(error),
            }
        };
        self.disarm();
        found
    }

    /// Sleeps until the eventfd is readable; `false` when time is up.
    fn sleep(&self, deadline: &Deadline) -> Result<bool> {
        let timeout = deadline.left().map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut event = [PollFd::from_borrowed_fd(self.event_fd(), PollFlags::IN)];
        rustix::event::poll(&mut event, timeout.as_ref())
            .map(|ready| ready > 0)
            .map_err(|source| Error::System {
                what: "waiting for a signal",
                source,
            })
    }

    fn drain(&self) {
        let mut count = [0; 8];
        // Nothing to read is as good.
        while rustix::io::read(self.event_fd(), &mut count) == Err(Errno::INTR) {}
    }

    /// Takes note of what others have decided about it, before it is looked at by its address.
    #[inline]
    pub(crate) fn settle(&self) {
        self.memory.settle();
    }

    fn inside(&self, offset: usize, bytes: usize) -> Result<()> {
        if offset > self.len() || bytes > self.len() - offset {
            return Err(shm::Error::Outside {
                offset,
                bytes,
                size: self.len(),
            }
            .into());
        }
        Ok(())
    }
}
