// SPDX-License-Identifier: Apache-2.0
//! System calls without the C library, whose symbols the preload library replaces.

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
