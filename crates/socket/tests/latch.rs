// SPDX-License-Identifier: Apache-2.0
//! The latch under threads of this machine, and under every order that the memory model permits.
//!
//! x86 never shows a missing release: loom tries the interleavings and the stale reads that other processors show.

/// The latch's atomics, of loom. A real one can be made in a constant, loom's cannot: it is made at its first use.
mod atomics {
    use std::sync::OnceLock;

    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::Ordering;
    pub use loom::thread::yield_now as sched_yield;
    pub use loom::thread::yield_now as rest;

    /// No signals here.
    pub const fn enter() {}
    pub const fn leave() {}

    #[derive(Debug, Default)]
    pub struct AtomicBool {
        value: OnceLock<loom::sync::atomic::AtomicBool>,
        first: bool,
    }

    impl AtomicBool {
        pub const fn new(first: bool) -> Self {
            Self {
                value: OnceLock::new(),
                first,
            }
        }

        fn value(&self) -> &loom::sync::atomic::AtomicBool {
            self.value
                .get_or_init(|| loom::sync::atomic::AtomicBool::new(self.first))
        }

        pub fn compare_exchange_weak(
            &self,
            current: bool,
            new: bool,
            success: Ordering,
            failure: Ordering,
        ) -> Result<bool, bool> {
            self.value()
                .compare_exchange_weak(current, new, success, failure)
        }

        pub fn store(&self, value: bool, order: Ordering) {
            self.value().store(value, order);
        }
    }
}

#[path = "../src/latch.rs"]
mod modelled;

use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// Adds one; loom fails if this access is not ordered behind every other.
fn add(cell: &UnsafeCell<u32>) {
    // SAFETY: the caller holds the latch, and loom checks that this is enough.
    cell.with_mut(|value| unsafe { *value += 1 });
}

fn read(cell: &UnsafeCell<u32>) -> u32 {
    // SAFETY: as above.
    cell.with(|value| unsafe { *value })
}

#[test]
fn a_guard_sees_what_was_done_under_the_one_before() {
    loom::model(|| {
        let latch = Arc::new(modelled::Latch::new(UnsafeCell::new(0)));
        add(&latch.lock());
        let other = Arc::clone(&latch);
        let thread = loom::thread::spawn(move || add(&other.lock()));
        add(&latch.lock());
        thread.join().expect("the other thread ends");
        assert_eq!(read(&latch.lock()), 3);
    });
}

#[test]
fn so_does_who_takes_it_without_a_guard() {
    loom::model(|| {
        let latch = Arc::new(modelled::Latch::new(UnsafeCell::new(0)));
        latch.acquire();
        let other = Arc::clone(&latch);
        let thread = loom::thread::spawn(move || {
            // As the handlers around a fork do it: taken by one, let go by another.
            other.acquire();
            other.release();
            add(&other.lock());
        });
        latch.release();
        add(&latch.lock());
        thread.join().expect("the other thread ends");
        assert_eq!(read(&latch.lock()), 2);
    });
}

#[test]
fn who_tries_has_it_alone_or_not_at_all() {
    loom::model(|| {
        let latch = Arc::new(modelled::Latch::new(UnsafeCell::new(0)));
        add(&latch.lock());
        let other = Arc::clone(&latch);
        let thread = loom::thread::spawn(move || {
            let guard = other.try_lock();
            guard.as_deref().map(add).is_some()
        });
        add(&latch.lock());
        let had_it = thread.join().expect("the other thread ends");
        assert_eq!(read(&latch.lock()), 2 + u32::from(had_it));
    });
}

#[test]
fn counts_under_contention() {
    static LATCH: socket::latch::Latch<u64> = socket::latch::Latch::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    *LATCH.lock() += 1;
                }
            });
        }
    });
    assert_eq!(*LATCH.lock(), 40_000);
}
