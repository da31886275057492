// SPDX-License-Identifier: Apache-2.0
//! A base address register's memory: mapped from the device, or modelled.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags};

/// Bytes that a write-combining buffer and a MOVDIR64B hold.
pub const LINE: usize = 64;

/// The memory behind a BAR of the device.
///
/// Registers and tables (BAR 0) are used by [`Bar::read32`] and [`Bar::write32`] only; pages of peers (BAR 2) by the
/// other calls. Offsets and lengths beyond [`Bar::len`] panic: who calls has checked them.
pub trait Bar: Send + Sync {
    /// Bytes of it.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One aligned DW. It comes back when all earlier writes have taken effect.
    fn read32(&self, offset: usize) -> u32;

    /// One aligned DW, as one TLP.
    fn write32(&self, offset: usize, value: u32);

    /// Stores bytes. A whole aligned line goes as one TLP where the machine can; what is smaller as few as it takes.
    fn store(&self, offset: usize, bytes: &[u8]);

    /// Loads bytes: a round trip over PCI Express, and over the network for a peer's page.
    fn load(&self, offset: usize, into: &mut [u8]);

    /// Stores before it leave the processor before stores after it.
    fn fence(&self);

    /// Where it is mapped, if it is.
    fn base(&self) -> Option<*mut u8> {
        None
    }
}

/// How stores leave the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combining {
    /// The mapping is write-combined: lines leave when they are full, or at a fence.
    WriteCombined,
    /// The mapping is uncached, but the processor can store 64 bytes at once.
    Direct64,
    /// The mapping is uncached: eight bytes a TLP at most.
    Uncached,
}

/// A BAR that is mapped into this process.
pub struct MappedBar {
    base: *mut u8,
    len: usize,
    combining: Combining,
    direct64: bool,
}

// SAFETY: the mapping lives as long as the value, and every access is a volatile one of its bytes; what two threads
// store to the same place at the same time is the device's business, not the compiler's.
unsafe impl Send for MappedBar {}
// SAFETY: as above.
unsafe impl Sync for MappedBar {}

impl MappedBar {
    /// Maps `len` bytes of a file from `offset` on: a `resourceN` of sysfs, or the device of VFIO.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn map(file: &File, offset: u64, len: usize, write_combined: bool) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file.as_fd(),
                offset,
            )
        }?;
        let direct64 = has_movdir64b();
        let combining = match (write_combined, direct64) {
            (true, _) => Combining::WriteCombined,
            (false, true) => Combining::Direct64,
            (false, false) => Combining::Uncached,
        };
        Ok(Self {
            base: base.cast(),
            len,
            combining,
            direct64,
        })
    }

    /// How stores leave the processor, as far as the mapping promises; the self-test measures it.
    #[must_use]
    pub fn combining(&self) -> Combining {
        self.combining
    }

    fn check(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "{len} bytes at {offset:#x} are outside a BAR of {:#x} bytes",
            self.len
        );
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for MappedBar {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and nobody holds a pointer into it beyond the life of the device.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.len) };
    }
}

impl Bar for MappedBar {
    fn len(&self) -> usize {
        self.len
    }

    fn read32(&self, offset: usize) -> u32 {
        let at = self.check(offset, 4);
        assert_eq!(offset % 4, 0, "registers are aligned DWs");
        // SAFETY: checked and aligned.
        u32::from_le(unsafe { at.cast::<u32>().read_volatile() })
    }

    fn write32(&self, offset: usize, value: u32) {
        let at = self.check(offset, 4);
        assert_eq!(offset % 4, 0, "registers are aligned DWs");
        // SAFETY: checked and aligned.
        unsafe { at.cast::<u32>().write_volatile(value.to_le()) }
    }

    #[inline]
    fn store(&self, offset: usize, bytes: &[u8]) {
        let mut at = self.check(offset, bytes.len());
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = if self.direct64 && rest.len() >= LINE && at.addr().is_multiple_of(LINE) {
                // SAFETY: 64 bytes of both are there, and the target is aligned.
                unsafe { movdir64b(at, rest.as_ptr()) };
                LINE
            } else {
                // SAFETY: no more bytes are written than there are left.
                unsafe { store_unit(at, rest) }
            };
            // SAFETY: inside the checked range.
            at = unsafe { at.add(step) };
            rest = &rest[step..];
        }
    }

    fn load(&self, offset: usize, into: &mut [u8]) {
        let mut at = self.check(offset, into.len());
        let mut rest = into;
        while !rest.is_empty() {
            let step = unit(at.addr(), rest.len());
            // SAFETY: `step` bytes are left, and `at` is aligned to them.
            unsafe {
                match step {
                    8 => rest[..8].copy_from_slice(&at.cast::<u64>().read_volatile().to_ne_bytes()),
                    4 => rest[..4].copy_from_slice(&at.cast::<u32>().read_volatile().to_ne_bytes()),
                    2 => rest[..2].copy_from_slice(&at.cast::<u16>().read_volatile().to_ne_bytes()),
                    _ => rest[0] = at.read_volatile(),
                }
                at = at.add(step);
            }
            rest = &mut rest[step..];
        }
    }

    #[inline]
    fn fence(&self) {
        drain();
    }

    fn base(&self) -> Option<*mut u8> {
        Some(self.base)
    }
}

/// The largest naturally aligned unit of 8, 4, 2 or 1 bytes at an address.
fn unit(address: usize, left: usize) -> usize {
    [8, 4, 2]
        .into_iter()
        .find(|&size| left >= size && address.is_multiple_of(size))
        .unwrap_or(1)
}

/// Stores the next unit; returns its bytes.
///
/// # Safety
/// `at` can be written for as many bytes as `bytes` has, and has one at least.
#[inline]
unsafe fn store_unit(at: *mut u8, bytes: &[u8]) -> usize {
    let step = unit(at.addr(), bytes.len());
    // SAFETY: `step` bytes are there by `unit`, and `at` is aligned to them.
    unsafe {
        match step {
            8 => at
                .cast::<u64>()
                .write_volatile(bytes.as_ptr().cast::<u64>().read_unaligned()),
            4 => at
                .cast::<u32>()
                .write_volatile(bytes.as_ptr().cast::<u32>().read_unaligned()),
            2 => at
                .cast::<u16>()
                .write_volatile(bytes.as_ptr().cast::<u16>().read_unaligned()),
            _ => at.write_volatile(bytes[0]),
        }
    }
    step
}

/// Empties the write-combining buffers: an ordinary fence does not order write-combined stores.
#[inline]
fn drain() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier has no operands.
    unsafe {
        core::arch::asm!("dsb st", options(nostack, preserves_flags));
    }
    fence(Ordering::SeqCst);
}

/// Whether the processor stores 64 bytes at once (CPUID leaf 7, ECX bit 28).
#[must_use]
pub fn has_movdir64b() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx >> 28 & 1 == 1
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Stores 64 bytes as one transaction.
///
/// # Safety
/// 64 bytes at `to`, which is 64-byte aligned, can be written, and read at `from`; the processor has MOVDIR64B.
#[inline]
unsafe fn movdir64b(to: *mut u8, from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises.
    unsafe {
        core::arch::asm!("movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) from,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (to, from);
        unreachable!("has_movdir64b is false on this processor");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom, Write};

    #[test]
    fn units_are_aligned_and_large() {
        assert_eq!(unit(0x1000, 64), 8);
        assert_eq!(unit(0x1004, 64), 4);
        assert_eq!(unit(0x1002, 3), 2);
        assert_eq!(unit(0x1001, 64), 1);
        assert_eq!(unit(0x1000, 7), 4);
    }

    #[test]
    fn what_is_stored_is_in_the_file() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&[0; 8192]).expect("8 KB fit");
        let bar = MappedBar::map(&file, 0, 8192, true).expect("files can be mapped");
        let bytes: Vec<u8> = (0..=255).collect();
        bar.store(61, &bytes);
        bar.write32(4096, 0x1122_3344);
        bar.fence();
        let mut back = vec![0; 256];
        bar.load(61, &mut back);
        assert_eq!(back, bytes);
        assert_eq!(bar.read32(4096), 0x1122_3344);
        let mut seen = vec![0; 8192];
        file.seek(SeekFrom::Start(0)).expect("files can be wound");
        file.read_exact(&mut seen).expect("8 KB are there");
        assert_eq!(seen[61..317], bytes);
        assert_eq!(seen[4096..4100], [0x44, 0x33, 0x22, 0x11]);
        assert_eq!((seen[60], seen[317]), (0, 0), "no byte beside them");
        assert_eq!(bar.combining(), Combining::WriteCombined);
    }

    #[test]
    #[should_panic(expected = "outside a BAR")]
    fn nothing_outside_is_touched() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(4096).expect("4 KB fit");
        let bar = MappedBar::map(&file, 0, 4096, false).expect("files can be mapped");
        bar.store(4090, &[0; 8]);
    }
}
