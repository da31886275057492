// SPDX-License-Identifier: Apache-2.0
//! A small lock without the C library: for short sections that a fork may not leave half done.
//!
//! While a thread holds one, [handlers](crate::signals::handlers) of its signals are put off: they may call the library.
//!
//! Unlike a standard mutex it can be taken by the handler before a fork and let go by the handlers after it, in the
//! parent and in the child, though another thread holds the guard of neither.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

// Not from the standard library at once: `tests/latch.rs` builds this file with atomics of its own.
use crate::atomics::{AtomicBool, Ordering, enter, leave, rest, sched_yield, spin_loop};

/// A value behind a spinning lock.
#[derive(Debug, Default)]
pub struct Latch<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reachable through the guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Latch<T> {}
// SAFETY: owning the latch is owning the value.
unsafe impl<T: Send> Send for Latch<T> {}

/// Holds the lock until dropped.
pub struct Guard<'a, T>(&'a Latch<T>);

impl<T> Latch<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock; yields the processor after a short spin.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard(self)
    }

    /// Takes the lock if it is free; once in a while not even then.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        enter();
        let free = self
            .taken
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if !free {
            leave();
        }
        free.then_some(Guard(self))
    }

    /// Takes the lock without a guard, for the handler before a fork.
    #[inline]
    pub fn acquire(&self) {
        // A handler of this thread that wanted the latch would wait for ever.
        enter();
        let mut spins = 0u32;
        while self
            .taken
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            spins = spins.saturating_add(1);
            match spins {
                ..100 => spin_loop(),
                100..1000 => sched_yield(),
                _ => rest(),
            }
        }
    }

    /// Lets go of a lock taken by [`Latch::acquire`] in this process or, before a fork, in its parent.
    #[inline]
    pub fn release(&self) {
        self.taken.store(false, Ordering::Release);
        leave();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock and is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}
