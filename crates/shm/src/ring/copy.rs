// SPDX-License-Identifier: Apache-2.0
//! Bytes out of memory that others may write at any time.
//!
//! A Rust reference to such memory would promise that nobody does, and a plain copy would be a race. So the bytes are
//! loaded as a device's would be: each load happens as it is written, whatever another process does meanwhile, and what
//! comes of it is in memory of the reader's own.

/// Copies `bytes` bytes.
///
/// # Safety
/// `from` may be read, and `to` written, for that many bytes; they do not overlap, and nobody else uses those at `to`.
#[inline]
pub unsafe fn copy_out(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise.
    unsafe {
        wide::copy(from, to, bytes);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller's promise.
    unsafe {
        narrow(from, to, bytes);
    }
}

/// Word by word where the source is aligned, else byte by byte.
#[cfg(any(not(target_arch = "x86_64"), miri, test))]
unsafe fn narrow(from: *const u8, to: *mut u8, bytes: usize) {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
    let mut at = 0;
    while at < bytes {
        // SAFETY: inside of what the caller names; aligned where it is a word.
        unsafe {
            let source = from.add(at).cast_mut();
            if bytes - at >= 8 && source.addr().is_multiple_of(8) {
                let word = AtomicU64::from_ptr(source.cast()).load(Relaxed);
                to.add(at).cast::<u64>().write_unaligned(word);
                at += 8;
            } else {
                to.add(at).write(AtomicU8::from_ptr(source).load(Relaxed));
                at += 1;
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use std::arch::asm;

    /// From so many bytes on the processor's own string move is the fastest.
    const LONG: usize = 1024;

    /// By the widest moves that each processor has. What is left of a piece is moved with the piece's end, so that some
    /// bytes are loaded twice; the second time counts.
    #[inline]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: all pieces lie inside of what the caller names.
        unsafe {
            match bytes {
                0 => {}
                1..4 => {
                    for at in 0..bytes {
                        one(from.add(at), to.add(at));
                    }
                }
                4..8 => {
                    four(from, to);
                    four(from.add(bytes - 4), to.add(bytes - 4));
                }
                8..16 => {
                    eight(from, to);
                    eight(from.add(bytes - 8), to.add(bytes - 8));
                }
                LONG.. => string(from, to, bytes),
                _ => {
                    let mut at = 0;
                    while bytes - at >= 64 {
                        line(from.add(at), to.add(at));
                        at += 64;
                    }
                    while bytes - at >= 16 {
                        sixteen(from.add(at), to.add(at));
                        at += 16;
                    }
                    if at < bytes {
                        sixteen(from.add(bytes - 16), to.add(bytes - 16));
                    }
                }
            }
        }
    }

    macro_rules! moves {
        ($name:ident, $register:ident, $load:literal, $store:literal) => {
            #[inline(always)]
            unsafe fn $name(from: *const u8, to: *mut u8) {
                // SAFETY: the caller has so many bytes at both places.
                unsafe {
                    asm!($load, $store, from = in(reg) from, to = in(reg) to, through = out($register) _,
                        options(nostack, preserves_flags));
                }
            }
        };
    }

    moves!(
        one,
        reg_byte,
        "mov {through}, [{from}]",
        "mov [{to}], {through}"
    );
    moves!(
        four,
        reg,
        "mov {through:e}, [{from}]",
        "mov [{to}], {through:e}"
    );
    moves!(
        eight,
        reg,
        "mov {through}, [{from}]",
        "mov [{to}], {through}"
    );
    moves!(
        sixteen,
        xmm_reg,
        "movups {through}, [{from}]",
        "movups [{to}], {through}"
    );

    #[inline(always)]
    unsafe fn string(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller has so many bytes at both places; the direction is forward wherever Rust runs.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    unsafe fn line(from: *const u8, to: *mut u8) {
        // SAFETY: the caller has 64 bytes at both places.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) from,
                to = in(reg) to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_place() {
        let from: Vec<u8> = (0..1_200u32).map(|index| (index * 7 + 1) as u8).collect();
        // Where another way begins, too.
        let lengths = |long: std::ops::Range<usize>| match cfg!(miri) {
            true => (0..40).chain(0..0),
            false => (0..300).chain(long),
        };
        type Copy = unsafe fn(*const u8, *mut u8, usize);
        for copy in [copy_out as Copy, narrow as Copy] {
            for at in 0..17 {
                for bytes in lengths(1_000..1_100) {
                    let mut to = vec![0; 1_200];
                    // SAFETY: both have room.
                    unsafe { copy(from.as_ptr().add(at), to.as_mut_ptr().add(at % 5), bytes) };
                    let end = at % 5 + bytes;
                    assert_eq!(to[at % 5..end], from[at..at + bytes]);
                    assert!(to[end..].iter().chain(&to[..at % 5]).all(|byte| *byte == 0));
                }
            }
        }
    }
}
