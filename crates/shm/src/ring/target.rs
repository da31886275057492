// SPDX-License-Identifier: Apache-2.0
//! Where a ring's stores go.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{LINE, TAG, begin};

/// Memory that is written, perhaps far away: mapped memory, or a back end's store call.
///
/// Stores to one target arrive in the order in which they were issued across a [`Target::fence`].
/// An offset outside of the target is a programming error and panics.
pub trait Target {
    /// Stores bytes; within them there is no order.
    fn store(&self, offset: usize, bytes: &[u8]);

    /// Stores a whole line (`offset` is a multiple of 64) of which the last 8 bytes become visible last.
    fn store_line(&self, offset: usize, line: &[u8; LINE]);

    /// Stores a word (`offset` is a multiple of 8) after everything stored before.
    fn store64(&self, offset: usize, value: u64);

    /// Everything stored before becomes visible before anything stored after.
    fn fence(&self);

    /// Stores a line that carries `parts`, `length` (at most 56) bytes together, and `tag`.
    ///
    /// All other bytes of the line are unspecified: only what is used needs to be stored; the default stores a whole one.
    #[inline]
    fn store_tagged(&self, offset: usize, parts: &[&[u8]], length: usize, tag: u64) {
        self.store_line(offset, &assemble(parts, length, tag));
    }
}

/// The line that carries `parts`, `length` bytes together, and `tag`; it is used from [`begin`] on.
#[inline]
#[must_use]
pub fn assemble(parts: &[&[u8]], length: usize, tag: u64) -> [u8; LINE] {
    let mut line = [0; LINE];
    let mut at = begin(length);
    for part in parts {
        line[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    line[TAG..].copy_from_slice(&tag.to_le_bytes());
    line
}

/// Coherent memory of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Mapped<'a> {
    base: *mut u8,
    len: usize,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: a `Mapped` only stores; the memory is shared by its nature, and its users order their stores by tags.
unsafe impl Send for Mapped<'_> {}
// SAFETY: as above.
unsafe impl Sync for Mapped<'_> {}

impl Mapped<'_> {
    /// Stores go to `len` bytes from `base` on.
    ///
    /// # Safety
    /// The memory is mapped writable for `'a`, aligned to 64 bytes, and no Rust reference other than to atomics
    /// points into it.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(base: *mut u8, len: usize) -> Self {
        debug_assert!((base as usize).is_multiple_of(LINE));
        Self {
            base,
            len,
            memory: PhantomData,
        }
    }

    /// Where the target begins.
    #[inline(always)]
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Its size in bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(
            bytes <= self.len && offset <= self.len - bytes,
            "store at offset {offset} of {} bytes lies outside of {} bytes",
            bytes,
            self.len
        );
        // SAFETY: inside of the memory, by the assertion.
        unsafe { self.base.add(offset) }
    }
}

/// Bytes that are copied while the lines of as many more are fetched.
const STRIDE: usize = 512;

/// How many bytes are worth it: fewer are over too soon, and with more the processor's own prefetching does as well.
const AHEAD: std::ops::RangeInclusive<usize> = 2 * STRIDE..=16 * STRIDE;

/// Copies to lines that the receiver's cache holds: asks for them ahead of the stores, which would wait for each.
fn copy_ahead(to: *mut u8, bytes: &[u8]) {
    let mut done = 0;
    for chunk in bytes.chunks(STRIDE) {
        let next = done + STRIDE;
        for line in (next..bytes.len().min(next + STRIDE)).step_by(LINE) {
            own_soon(to.wrapping_add(line));
        }
        // SAFETY: the caller has room for all bytes from `to` on, and they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), to.add(done), chunk.len()) };
        done += chunk.len();
    }
}

/// Fetches a line for writing. Only a hint.
#[inline(always)]
fn own_soon(line: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch faults on no address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

impl Target for Mapped<'_> {
    #[inline(always)]
    fn store(&self, offset: usize, bytes: &[u8]) {
        let at = self.at(offset, bytes.len());
        if AHEAD.contains(&bytes.len()) {
            return copy_ahead(at, bytes);
        }
        // SAFETY: `at` has room for the bytes; `bytes` is a Rust slice, so it does not lie in the target.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    }

    #[inline(always)]
    fn store_line(&self, offset: usize, line: &[u8; LINE]) {
        self.store(offset, &line[..TAG]);
        let mut tag = [0; 8];
        tag.copy_from_slice(&line[TAG..]);
        self.store64(offset + TAG, u64::from_le_bytes(tag));
    }

    #[inline(always)]
    fn store64(&self, offset: usize, value: u64) {
        let at = self.at(offset, 8);
        assert!(
            offset.is_multiple_of(8),
            "word store at offset {offset}, which is no multiple of 8"
        );
        // SAFETY: inside of the memory and aligned, by the assertions.
        unsafe { AtomicU64::from_ptr(at.cast()) }.store(value.to_le(), Ordering::Release);
    }

    #[inline(always)]
    fn fence(&self) {
        fence(Ordering::Release);
    }

    #[inline(always)]
    fn store_tagged(&self, offset: usize, parts: &[&[u8]], length: usize, tag: u64) {
        let mut at = offset + begin(length);
        for part in parts {
            self.store(at, part);
            at += part.len();
        }
        self.store64(offset + TAG, tag);
    }
}
