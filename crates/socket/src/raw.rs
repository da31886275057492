// SPDX-License-Identifier: Apache-2.0
//! System calls without the C library, whose symbols the preload library replaces.
//!
//! `rustix` covers most of what is needed; here is the rest: calls that take a signal mask, and structures that must
//! reach the kernel as the program laid them out.

use rustix::io::Errno;

pub use crate::wait::clock::ticks;

/// About a millisecond of [`ticks`].
pub const MILLISECOND: u64 = 2_500_000;

/// A system call with six arguments. Returns what the kernel returns: a value, or a negative error number.
///
/// # Safety
/// As the call that it makes: pointers are valid for what the kernel does with them.
#[inline]
pub unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the arguments; the kernel changes rax, rcx and r11 only.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the kernel changes x0 only.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// [`syscall`] with the kernel's convention for errors taken apart.
///
/// # Safety
/// As [`syscall`].
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on.
    let result = unsafe { syscall(number as usize, arguments) };
    if (-4095..0).contains(&result) {
        Err(Errno::from_raw_os_error(-result as i32))
    } else {
        Ok(result as usize)
    }
}
