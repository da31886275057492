// SPDX-License-Identifier: Apache-2.0
//! An access allocates nothing, the first of a process included: the signal that it is made in may have interrupted malloc().
#![cfg(target_arch = "x86_64")]

mod elsewhere;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use elsewhere::Elsewhere;

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of what a thread asks of it that counts.
struct Counting;

fn count() {
    if COUNTS.get() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: all of it is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the allocator was asked for meanwhile.
fn calls(access: impl FnOnce()) -> usize {
    let before = CALLS.load(Ordering::Relaxed);
    COUNTS.set(true);
    access();
    COUNTS.set(false);
    CALLS.load(Ordering::Relaxed) - before
}

// One test only: it is about the first access of its process.
#[test]
fn no_access_allocates_not_even_the_first() {
    assert!(calls(|| drop(Box::new(7))) > 0, "nothing is counted");
    let there = Elsewhere::new();
    let mapping = there.whole();
    let base = mapping.address();
    let word = base.cast::<u64>();
    // SAFETY: all of it is in the mapping, here and below.
    let first = calls(|| unsafe { word.write_volatile(7) });
    assert_eq!(first, 0, "the first access");
    let bytes = [3u8; 100];
    let others = calls(|| unsafe {
        assert_eq!(word.read_volatile(), 7);
        std::arch::asm!("lock xadd qword ptr [{}], {}", in(reg) word, inout(reg) 1u64 => _);
        std::arch::asm!("movdqu {1}, [{0}]", "movdqu [{0} + 64], {1}", in(reg) base, out(xmm_reg) _);
        std::arch::asm!("rep movsb", inout("rcx") bytes.len() => _, inout("rsi") bytes.as_ptr() => _,
            inout("rdi") base.add(128) => _);
    });
    assert_eq!(
        others, 0,
        "a load, an atomic instruction, vectors, a string"
    );
    assert_eq!((there.word(0), there.word(128)), (8, 0x0303_0303_0303_0303));
    // A thread that has never made one, and so has a cell of its own.
    let address = base as usize;
    let other = std::thread::spawn(move || {
        // SAFETY: as above.
        calls(|| unsafe { (address as *mut u64).add(1).write_volatile(9) })
    });
    assert_eq!(other.join().expect("it ends"), 0, "another thread");
}
