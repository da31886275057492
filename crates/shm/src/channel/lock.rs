// SPDX-License-Identifier: Apache-2.0
//! A lock in shared memory that survives the death of its owner.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::living::Living;

/// How long a waiter believes that the owner is alive.
const PATIENCE: Duration = Duration::from_millis(1);

/// How often a waiter yields before it rests.
const YIELDS: u64 = 1_000;
/// How long it rests.
const REST: rustix::thread::Timespec = rustix::thread::Timespec {
    tv_sec: 0,
    tv_nsec: 100_000,
};

/// The calling thread holds the lock already: it was interrupted by a signal handler that wants it, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reentered;

/// 0, or who holds it: the process's number in the channel's [register](Living), and the thread's number in the process.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Lock(AtomicU64);

/// Unlocks when dropped.
#[derive(Debug)]
#[must_use = "the lock is held only as long as its guard lives"]
pub struct Guard<'a> {
    word: &'a AtomicU64,
    inherited: bool,
}

impl Guard<'_> {
    /// Whether the lock was taken from an owner that had died: what it guards may be half done, and whom the owner was about
    /// to wake may sleep.
    #[inline(always)]
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.inherited
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.word.store(0, Ordering::Release);
    }
}

/// The calling thread, as a lock's word says it. A process without a number has 0, of which nobody believes that it died.
#[inline(always)]
fn me(living: Option<&Living>) -> u64 {
    let process = living.and_then(Living::number).unwrap_or(0);
    u64::from(process) << 32 | u64::from(thread_id())
}

impl Lock {
    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self, living: Option<&Living>) -> Option<Guard<'_>> {
        self.exchange(0, me(living))
    }

    /// Takes the lock if it is free, or if its owner has died, as the register says.
    pub fn try_inherit(&self, living: Option<&Living>) -> Option<Guard<'_>> {
        self.try_lock(living).or_else(|| {
            let (owner, me) = (self.0.load(Ordering::Relaxed), me(living));
            let dead = owner != 0 && !alive(owner, me, living);
            dead.then(|| self.exchange(owner, me)).flatten()
        })
    }

    #[inline(always)]
    fn exchange(&self, from: u64, to: u64) -> Option<Guard<'_>> {
        self.0
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard {
                word: &self.0,
                inherited: from != 0,
            })
    }

    /// Takes the lock; takes it from an owner that has died, as the register says.
    ///
    /// # Errors
    /// [`Reentered`] when the calling thread holds it.
    #[inline]
    pub fn lock(&self, living: Option<&Living>) -> Result<Guard<'_>, Reentered> {
        match self.try_lock(living) {
            Some(guard) => Ok(guard),
            None => self.wait(living),
        }
    }

    /// Whether somebody holds it.
    #[inline]
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn wait(&self, living: Option<&Living>) -> Result<Guard<'_>, Reentered> {
        let me = me(living);
        let mut since = Instant::now();
        let mut watched = 0;
        let mut rounds = 0u64;
        loop {
            let owner = self.0.load(Ordering::Relaxed);
            if owner == me {
                return Err(Reentered);
            }
            if owner == 0 {
                if let Some(guard) = self.exchange(0, me) {
                    return Ok(guard);
                }
                continue;
            }
            if owner != watched {
                watched = owner;
                since = Instant::now();
            }
            for _ in 0..64 {
                std::hint::spin_loop();
            }
            // The owner may wait for this very core; or for the kernel, as one does that takes a connection out of its rings.
            rounds += 1;
            if rounds < YIELDS {
                rustix::thread::sched_yield();
            } else {
                let _ = rustix::thread::nanosleep(&REST);
            }
            if since.elapsed() > PATIENCE {
                if !alive(owner, me, living)
                    && let Some(guard) = self.exchange(owner, me)
                {
                    return Ok(guard);
                }
                since = Instant::now();
            }
        }
    }
}

/// Whether an owner lives; what cannot be asked is taken for alive.
fn alive(owner: u64, me: u64, living: Option<&Living>) -> bool {
    let [process, own] = [owner, me].map(|word| (word >> 32) as u32);
    if process == 0 {
        return true;
    }
    if process != own {
        return living.is_none_or(|living| living.lives(process));
    }
    // A thread of this process; only there does its number say who it is.
    let Some(thread) = i32::try_from(owner as u32)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    rustix::process::test_kill_process(thread) != Err(rustix::io::Errno::SRCH)
}

/// The calling thread's id, cached; a forked child's thread has one of its own.
#[inline(always)]
pub fn thread_id() -> u32 {
    thread_local! {
        static ID: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }
    #[cold]
    #[inline(never)]
    fn ask(epoch: u32) -> u32 {
        let fresh = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        ID.set((fresh, epoch));
        fresh
    }
    let epoch = fork_epoch();
    let (known, at) = ID.get();
    if known != 0 && at == epoch {
        return known;
    }
    ask(epoch)
}

/// Grows in a forked child.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the program's first.
#[inline(always)]
#[must_use]
pub fn fork_epoch() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// To be called in the child after `fork`: cached thread ids, and numbers of the living, are the parent's.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
