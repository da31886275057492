// SPDX-License-Identifier: Apache-2.0
//! Copies from and to this process's own memory, which may be such that it cannot be accessed: the kernel says so instead of a
//! signal.

use std::ffi::c_int;

/// Bytes that are copied at most, in one piece: a pipe takes them whole.
pub const MOST: usize = 512;

/// Why nothing was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The memory cannot be accessed.
    Address,
    /// The kernel lets this process make no such copies.
    NoCopies,
}

/// Copies from `address` to `into`.
pub fn read(address: u64, into: &mut [u8]) -> Result<(), Failed> {
    copy(address, into.as_mut_ptr(), into.len(), false)
}

/// Copies `bytes` to `address`.
pub fn write(address: u64, bytes: &[u8]) -> Result<(), Failed> {
    copy(address, bytes.as_ptr().cast_mut(), bytes.len(), true)
}

/// The buffer is only written if `write` is not set.
fn copy(address: u64, buffer: *mut u8, bytes: usize, write: bool) -> Result<(), Failed> {
    let own = libc::iovec {
        iov_base: buffer.cast(),
        iov_len: bytes,
    };
    let there = libc::iovec {
        iov_base: address as *mut _,
        iov_len: bytes,
    };
    // SAFETY: the buffer has that many bytes; what `there` names is checked by the kernel, and is what the program's own
    // instruction reads or writes.
    let done = unsafe {
        let process = libc::getpid();
        match write {
            true => libc::process_vm_writev(process, &raw const own, 1, &raw const there, 1, 0),
            false => libc::process_vm_readv(process, &raw const own, 1, &raw const there, 1, 0),
        }
    };
    match done {
        // A kernel may have been built without the call, and filters of system calls deny it.
        -1 if !bad_address() => {
            let (from, to) = match write {
                true => (buffer.cast_const(), address as *mut u8),
                false => (address as *const u8, buffer),
            };
            through_pipe(from, to, bytes)
        }
        done if done == bytes as isize => Ok(()),
        _ => Err(Failed::Address),
    }
}

/// Whether the last call has failed since memory cannot be accessed.
fn bad_address() -> bool {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() == libc::EFAULT }
}

/// Copies through a pipe. It lives for this copy only: a program may close what descriptors it does not know.
fn through_pipe(from: *const u8, to: *mut u8, bytes: usize) -> Result<(), Failed> {
    debug_assert!(bytes <= MOST);
    let mut ends: [c_int; 2] = [-1; 2];
    // SAFETY: room for two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(Failed::NoCopies);
    }
    // SAFETY: the kernel checks both addresses; one is a buffer of that many bytes, the other what the program's own instruction
    // reads or writes.
    let copied = unsafe {
        match libc::write(ends[1], from.cast(), bytes) {
            -1 => -1,
            written => libc::read(ends[0], to.cast(), written.unsigned_abs()),
        }
    };
    let copied = match copied {
        -1 if !bad_address() => Err(Failed::NoCopies),
        copied if copied == bytes as isize => Ok(()),
        _ => Err(Failed::Address),
    };
    for end in ends {
        // SAFETY: made above, and nobody else's.
        unsafe { libc::close(end) };
    }
    copied
}
