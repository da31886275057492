// SPDX-License-Identifier: Apache-2.0
//! A lock in shared memory that survives the death of its owner.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a waiter believes that the owner is alive.
const PATIENCE: Duration = Duration::from_millis(1);

/// The calling thread holds the lock already: it was interrupted by a signal handler that wants it, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reentered;

/// 0, or the thread that holds it.
///
/// Threads that share it are threads of one pid namespace.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Lock(AtomicU32);

/// Unlocks when dropped.
#[derive(Debug)]
#[must_use = "the lock is held only as long as its guard lives"]
pub struct Guard<'a>(&'a AtomicU32);

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Lock {
    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        self.0
            .compare_exchange(0, thread_id(), Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard(&self.0))
    }

    /// Takes the lock; takes it from an owner that has died.
    ///
    /// # Errors
    /// [`Reentered`] when the calling thread holds it.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_>, Reentered> {
        match self.try_lock() {
            Some(guard) => Ok(guard),
            None => self.wait(),
        }
    }

    /// Whether somebody holds it.
    #[inline]
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The word itself.
    #[inline]
    #[must_use]
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }

    #[cold]
    fn wait(&self) -> Result<Guard<'_>, Reentered> {
        let me = thread_id();
        let mut since = Instant::now();
        let mut watched = 0;
        loop {
            let owner = self.0.load(Ordering::Relaxed);
            if owner == me {
                return Err(Reentered);
            }
            if owner == 0 {
                if let Some(guard) = self.try_lock() {
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
            // The owner may wait for this very core.
            rustix::thread::sched_yield();
            if since.elapsed() > PATIENCE {
                if !alive(owner)
                    && self
                        .0
                        .compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                {
                    return Ok(Guard(&self.0));
                }
                since = Instant::now();
            }
        }
    }
}

/// Whether the thread lives; what cannot be asked is taken for alive.
fn alive(thread: u32) -> bool {
    let Some(pid) = i32::try_from(thread)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// The calling thread's id, cached; a forked child's thread has one of its own.
#[inline(always)]
pub fn thread_id() -> u32 {
    thread_local! {
        static ID: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }
    let epoch = FORKS.load(Ordering::Relaxed);
    ID.with(|id| {
        let (known, at) = id.get();
        if known != 0 && at == epoch {
            return known;
        }
        let fresh = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        id.set((fresh, epoch));
        fresh
    })
}

/// Grows in a forked child.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// To be called in the child after `fork`: cached thread ids are the parent's.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
