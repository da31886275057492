// SPDX-License-Identifier: Apache-2.0
//! Calls that move data.

use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec,
};
use rustix::io::Errno;
use socket::calls;
use socket::signals::entry::whole;
use socket::signals::handlers::quietly;
use socket::table;
use socket::unaligned;

use crate::answer;
use crate::next::next;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    if table::known(fd) {
        if count == 0
            && table::get(fd).is_some_and(|description| description.object().stream().is_some())
        {
            return 0;
        }
        // SAFETY: as read(2).
        if let Some(result) = whole(|| unsafe { calls::receive(fd, buffer, count, 0) }) {
            return answer(result);
        }
    }
    next!(read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    room: size_t,
) -> ssize_t {
    check(count, room);
    // SAFETY: as read(2).
    unsafe { read(fd, buffer, count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as recv(2).
    if let Some(result) = whole(|| unsafe { calls::receive(fd, buffer, count, flags) }) {
        return answer(result);
    }
    next!(recv(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check(count, room);
    // SAFETY: as recv(2).
    unsafe { recv(fd, buffer, count, flags) }
}

/// What the fortified functions do when a buffer is too small for what is asked.
fn check(count: size_t, room: size_t) {
    if count > room {
        unsafe extern "C" {
            fn __chk_fail() -> !;
        }
        // SAFETY: ends the program, as the C library's function would.
        unsafe { __chk_fail() }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    flags: c_int,
    name: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    let result = whole(|| {
        let description = table::get(fd)?;
        let mut part = iovec {
            iov_base: buffer,
            iov_len: count,
        };
        let mut message = calls::header(&mut part, 1);
        if !name.is_null() && !length.is_null() {
            message.msg_name = name.cast();
            // SAFETY: as recvfrom(2).
            message.msg_namelen = unsafe { length.read_unaligned() };
        }
        // SAFETY: as recvfrom(2).
        let result = unsafe { calls::receive_message(fd, &description, &mut message, flags) }?;
        if !name.is_null() && !length.is_null() && result.is_ok() {
            // SAFETY: as recvfrom(2).
            unsafe { length.write_unaligned(message.msg_namelen) };
        }
        Some(result)
    });
    if let Some(result) = result {
        return answer(result);
    }
    next!(recvfrom(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int, name: *mut sockaddr, length: *mut socklen_t) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    room: size_t,
    flags: c_int,
    name: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    check(count, room);
    // SAFETY: as recvfrom(2).
    unsafe { recvfrom(fd, buffer, count, flags, name, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let result = whole(|| {
        let description = table::get(fd)?;
        // SAFETY: as recvmsg(2).
        unsafe {
            unaligned::lend_mut(message, |message| {
                calls::receive_message(fd, &description, message, flags)
            })
        }
    });
    if let Some(result) = result {
        return answer(result);
    }
    let result = next!(recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t);
    // SAFETY: the call has filled it in.
    unsafe {
        if result >= 0 && controllen(message) >= size_of::<libc::cmsghdr>() {
            unaligned::lend(message, |message| socket::inherit::received(message));
        }
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let result = whole(|| {
        let description = table::get(fd)?;
        if count < 0 || count as usize > calls::MAX_BUFFERS {
            return Some(Err(Errno::INVAL));
        }
        // SAFETY: as readv(2).
        if unsafe { nothing(&description, parts, count as usize) } {
            return Some(Ok(0));
        }
        let mut message = calls::header(parts.cast_mut(), count as usize);
        // SAFETY: as readv(2).
        unsafe { calls::receive_message(fd, &description, &mut message, 0) }
    });
    if let Some(result) = result {
        return answer(result);
    }
    next!(readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: as write(2).
    if let Some(result) = whole(|| unsafe { calls::send(fd, buffer, count, 0) }) {
        return answer(result);
    }
    next!(write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as send(2).
    if let Some(result) = whole(|| unsafe { calls::send(fd, buffer, count, flags) }) {
        return answer(result);
    }
    next!(send(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    flags: c_int,
    name: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    let result = whole(|| {
        let description = table::get(fd)?;
        let mut part = iovec {
            iov_base: buffer.cast_mut(),
            iov_len: count,
        };
        let mut message = calls::header(&mut part, 1);
        message.msg_name = name.cast_mut().cast();
        message.msg_namelen = if name.is_null() { 0 } else { length };
        // SAFETY: as sendto(2).
        unsafe { calls::send_message(fd, &description, &message, flags) }
    });
    if let Some(result) = result {
        return answer(result);
    }
    next!(sendto(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int, name: *const sockaddr, length: socklen_t) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    let result = whole(|| {
        let description = table::get(fd)?;
        // SAFETY: as sendmsg(2).
        unsafe {
            unaligned::lend(message, |message| {
                calls::send_message(fd, &description, message, flags)
            })
        }
    });
    if let Some(result) = result {
        return answer(result);
    }
    // SAFETY: as sendmsg(2).
    let rights = !message.is_null() && unsafe { controllen(message) } >= size_of::<libc::cmsghdr>();
    let told = |sent| {
        // SAFETY: as sendmsg(2).
        quietly(|| unsafe {
            unaligned::lend(message, |message| {
                socket::inherit::sending(fd, message, sent)
            });
        });
    };
    if rights {
        told(true);
    }
    let result = next!(sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t);
    if rights && result < 0 {
        told(false);
    }
    result
}

/// Bytes of a message's control data.
unsafe fn controllen(message: *const msghdr) -> usize {
    // SAFETY: as sendmsg(2).
    unsafe { (&raw const (*message).msg_controllen).read_unaligned() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let result = whole(|| {
        let description = table::get(fd)?;
        if count < 0 || count as usize > calls::MAX_BUFFERS {
            return Some(Err(Errno::INVAL));
        }
        // SAFETY: as writev(2).
        if unsafe { nothing(&description, parts, count as usize) } {
            return Some(Ok(0));
        }
        let message = calls::header(parts.cast_mut(), count as usize);
        // SAFETY: as writev(2).
        unsafe { calls::send_message(fd, &description, &message, 0) }
    });
    if let Some(result) = result {
        return answer(result);
    }
    next!(writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: as recvmmsg(2).
    match whole(|| unsafe { receive_several(fd, messages, count, flags, timeout) }) {
        Some(result) => answer(result) as c_int,
        None => {
            next!(recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int)
        }
    }
}

/// recvmmsg on what is ours. None: it is the kernel's.
unsafe fn receive_several(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Option<Result<usize, Errno>> {
    let description = table::get(fd)?;
    let limit = (!timeout.is_null()).then(|| {
        // SAFETY: as recvmmsg(2).
        let time = unsafe { timeout.read_unaligned() };
        let limit = std::time::Duration::from_secs(time.tv_sec.max(0) as u64)
            + std::time::Duration::from_nanos(time.tv_nsec.max(0) as u64);
        socket::wait::Deadline::after(limit)
    });
    let mut done = 0;
    let mut how = flags & !libc::MSG_WAITFORONE;
    while done < count {
        // SAFETY: as recvmmsg(2).
        let (header, length) = unsafe { parts_of(messages.add(done as usize)) };
        // SAFETY: as recvmmsg(2).
        let received = unsafe {
            unaligned::lend_mut(header, |message| {
                calls::receive_message(fd, &description, message, how)
            })
        };
        let result = match received {
            Some(result) => result,
            // The kernel's socket: all of it, if nothing was received yet.
            None if done == 0 => return None,
            None => break,
        };
        match result {
            Ok(bytes) => {
                // SAFETY: as recvmmsg(2).
                unsafe { length.write_unaligned(bytes as c_uint) };
                done += 1;
                if flags & libc::MSG_WAITFORONE != 0 {
                    how |= libc::MSG_DONTWAIT;
                }
                let stream_over = bytes == 0 && description.object().stream().is_some();
                if stream_over || limit.is_some_and(socket::wait::Deadline::passed) {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(done as usize))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if !table::known(fd) {
        return next!(sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int);
    }
    let mut done = 0;
    while done < count.min(1024) {
        // SAFETY: as sendmmsg(2).
        let (header, length) = unsafe { parts_of(messages.add(done as usize)) };
        // SAFETY: as sendmmsg(2).
        let result = match whole(|| {
            let description = table::get(fd)?;
            // SAFETY: as sendmmsg(2).
            unsafe {
                unaligned::lend(header, |message| {
                    calls::send_message(fd, &description, message, flags)
                })
            }
        }) {
            Some(result) => result,
            // This one is the kernel's.
            None => match unsafe { sendmsg(fd, header, flags) } {
                -1 if done > 0 => break,
                -1 => return -1,
                bytes => Ok(bytes as usize),
            },
        };
        match result {
            // SAFETY: as sendmmsg(2).
            Ok(bytes) => unsafe { length.write_unaligned(bytes as c_uint) },
            Err(_) if done > 0 => break,
            Err(error) => return answer(Err(error)) as c_int,
        }
        done += 1;
    }
    done as c_int
}

/// Where the header and the length of one of several messages lie.
unsafe fn parts_of(entry: *mut mmsghdr) -> (*mut msghdr, *mut c_uint) {
    // SAFETY: by the caller, there is one; only addresses are taken, of any alignment.
    unsafe { (&raw mut (*entry).msg_hdr, &raw mut (*entry).msg_len) }
}

/// Whether a connection is to move no bytes at all: readv and writev of nothing give 0 whatever the connection's state.
unsafe fn nothing(description: &table::Description, parts: *const iovec, count: usize) -> bool {
    // SAFETY: as readv(2) says of the buffers.
    description.object().stream().is_some()
        && (count == 0 || !parts.is_null())
        && (0..count).all(|index| unsafe { parts.add(index).read_unaligned().iov_len == 0 })
}
