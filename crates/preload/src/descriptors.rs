// SPDX-License-Identifier: Apache-2.0
//! Calls on descriptors as such.

use libc::{c_int, c_uint, c_ulong};
use rustix::io::Errno;
use socket::object::Object;
use socket::signals::handlers::{Quiet, quietly};
use socket::{close as closing, options, process, table};

use crate::next::next;
use crate::{answer, set_errno, stdio};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if process::is_private(fd) {
        // The program can't know it.
        set_errno(libc::EBADF);
        return -1;
    }
    closing::closing(fd);
    next!(close(fd: c_int) -> c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if first > last {
        set_errno(libc::EINVAL);
        return -1;
    }
    if flags as c_uint & CLOEXEC != 0 {
        return real_close_range(first, last, flags);
    }
    if i32::try_from(first).is_ok() {
        closing::closing_range(first as i32, last.min(i32::MAX as c_uint) as i32);
    }
    let _quiet = Quiet::begin();
    // Around the library's own descriptors.
    let mut from = first;
    for own in process::private() {
        let own = own as c_uint;
        if own < from || own > last {
            continue;
        }
        if own > from && real_close_range(from, own - 1, flags) != 0 {
            return -1;
        }
        from = own + 1;
    }
    if from <= last {
        real_close_range(from, last, flags)
    } else {
        0
    }
}

/// CLOSE_RANGE_CLOEXEC.
const CLOEXEC: c_uint = 4;

fn real_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: closes what the program asked to close.
    let result = unsafe {
        socket::raw::syscall(
            libc::SYS_close_range as usize,
            [first as usize, last as usize, flags as usize, 0, 0, 0],
        )
    };
    if result < 0 {
        set_errno(-result as i32);
        return -1;
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: as closefrom(3).
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(old: c_int) -> c_int {
    let new = next!(dup(old: c_int) -> c_int);
    if new >= 0 {
        quietly(|| {
            closing::duplicated(old, new);
            stdio::came(new);
        });
    }
    new
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if process::is_private(new) {
        set_errno(libc::EBUSY);
        return -1;
    }
    if old != new && valid(old) {
        closing::closing(new);
    }
    let result = next!(dup2(old: c_int, new: c_int) -> c_int);
    if result >= 0 {
        quietly(|| {
            closing::duplicated(old, new);
            stdio::came(new);
        });
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if process::is_private(new) {
        set_errno(libc::EBUSY);
        return -1;
    }
    if old != new && valid(old) {
        closing::closing(new);
    }
    let result = next!(dup3(old: c_int, new: c_int, flags: c_int) -> c_int);
    if result >= 0 {
        quietly(|| {
            closing::duplicated(old, new);
            stdio::came(new);
        });
    }
    result
}

/// Whether a number is open: a dup2 from one that is not leaves its target alone.
fn valid(fd: c_int) -> bool {
    // SAFETY: F_GETFD changes nothing.
    unsafe {
        socket::raw::syscall(
            libc::SYS_fcntl as usize,
            [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0],
        ) >= 0
    }
}

// The C library's fcntl and ioctl take any number of arguments; on the processors that Linux calls 64-bit, a third one
// is passed like that of an ordinary function.

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let result = next!(fcntl(fd: c_int, command: c_int, argument: usize) -> c_int);
    controlled(fd, command, argument, result)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    let result = next!(fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int);
    controlled(fd, command, argument, result)
}

/// After an fcntl.
pub fn controlled(fd: c_int, command: c_int, argument: usize, result: c_int) -> c_int {
    if result < 0 {
        return result;
    }
    let _quiet = Quiet::begin();
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            closing::duplicated(fd, result);
            stdio::came(result);
        }
        libc::F_SETFL => {
            if let Some(description) = table::get(fd) {
                options::nonblocking(fd, &description, argument as c_int & libc::O_NONBLOCK != 0);
                if argument as c_int & libc::O_ASYNC != 0 {
                    options::kernel_only(fd, &description);
                }
            }
        }
        _ => {}
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let own = quietly(|| {
        let description = table::get(fd)?;
        // SAFETY: as ioctl(2) and tcp(7).
        unsafe { control(fd, &description, request, argument) }
    });
    if let Some(result) = own {
        return result;
    }
    next!(ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int)
}

unsafe fn control(
    fd: c_int,
    description: &table::Description,
    request: c_ulong,
    argument: usize,
) -> Option<c_int> {
    if argument == 0 {
        return None;
    }
    let word = argument as *mut c_int;
    match request {
        libc::FIONBIO => {
            let result = next!(ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int);
            if result == 0 {
                // SAFETY: the kernel has read it, too.
                options::nonblocking(fd, description, unsafe { word.read_unaligned() } != 0);
            }
            Some(result)
        }
        libc::FIOASYNC => {
            let result = next!(ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int);
            // SAFETY: the kernel has read it, too.
            if result == 0 && unsafe { word.read_unaligned() } != 0 {
                options::kernel_only(fd, description);
            }
            Some(result)
        }
        libc::FIONREAD => {
            let queued = options::queued(fd, description)?;
            // SAFETY: as tcp(7).
            unsafe { word.write_unaligned(queued) };
            Some(0)
        }
        libc::TIOCOUTQ => match description.object() {
            Object::Stream(stream) if stream.is_open() => {
                // SAFETY: as tcp(7).
                unsafe { word.write_unaligned(options::outgoing(stream)) };
                Some(0)
            }
            _ => None,
        },
        _ => None,
    }
}

/// For [`crate::system`]: a close by number of the call.
pub fn refused() -> isize {
    answer(Err(Errno::BADF))
}
