// SPDX-License-Identifier: Apache-2.0
//! Calls that make, connect and describe sockets.

use libc::{c_int, c_void, sockaddr, socklen_t};
use rustix::io::Errno;
use socket::address::Storage;
use socket::object::Object;
use socket::pending::Pending;
use socket::signals::entry::whole;
use socket::signals::handlers::Quiet;
use socket::{close, connect as connecting, datagram, listener, options, table};

use crate::next::next;
use crate::{answer, set_errno, status, stdio};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let fd = next!(socket(family: c_int, kind: c_int, protocol: c_int) -> c_int);
    made(fd, family, kind, protocol);
    fd
}

/// A socket was made.
pub fn made(fd: c_int, family: c_int, kind: c_int, protocol: c_int) {
    if fd < 0 {
        return;
    }
    let _quiet = Quiet::begin();
    if let Some(pending) = Pending::of(family, kind, protocol) {
        drop(table::install(fd, Object::Pending(pending)));
        stdio::came(fd);
    } else if table::known(fd) {
        drop(table::remove(fd));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn bind(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    let result = next!(bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int);
    if result == 0
        && let _quiet = Quiet::begin()
        && let Some(description) = table::get(fd)
    {
        datagram::bound(fd, &description);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let _quiet = Quiet::begin();
    let description = table::get(fd);
    let told = description
        .as_ref()
        .is_some_and(|description| listener::about_to_listen(fd, description));
    let result = next!(listen(fd: c_int, backlog: c_int) -> c_int);
    match &description {
        Some(description) if result == 0 => listener::listening(fd, description),
        // errno is the kernel's.
        Some(_) if told => {
            // SAFETY: the calling thread's.
            let errno = unsafe { *libc::__errno_location() };
            listener::not_listening(fd);
            set_errno(errno);
        }
        _ => {}
    }
    result
}

/// accept4 on what may be a listening socket of ours. None: it is none.
///
/// # Safety
/// As accept(2).
unsafe fn accepted(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> Option<c_int> {
    if let Err(error) = listener::about_to_accept(fd)? {
        return Some(answer(Err(error)) as c_int);
    }
    let mut storage = Storage::new();
    let (name, room) = (storage.bytes.as_mut_ptr().cast(), &raw mut storage.length);
    // Nothing is held: here the thread may be cancelled, and handlers need not return.
    let new =
        next!(accept4(fd: c_int, name: *mut sockaddr, room: *mut socklen_t, flags: c_int) -> c_int);
    if new >= 0 {
        // SAFETY: as accept(2).
        unsafe { listener::accepted(new, &storage, address, length) };
        stdio::came(new);
    }
    Some(new)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as accept(2).
    if let Some(accepted) = unsafe { accepted(fd, address, length, 0) } {
        return accepted;
    }
    let accepted =
        next!(accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int);
    close::closing(accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: as accept(2).
    if let Some(accepted) = unsafe { accepted(fd, address, length, flags) } {
        return accepted;
    }
    let accepted = next!(accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int);
    close::closing(accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    if !table::known(fd) {
        return next!(connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int);
    }
    let mut stream = false;
    let result = whole(|| {
        let description = table::get(fd)?;
        stream = match description.object() {
            Object::Pending(pending) => pending.kind == libc::SOCK_STREAM,
            Object::Stream(_) => true,
            _ => false,
        };
        if !stream {
            return None;
        }
        // SAFETY: as connect(2).
        unsafe { connecting::connect(fd, &description, address, length) }
    });
    if let Some(result) = result {
        return status(result);
    }
    let result = next!(connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int);
    // SAFETY: the calling thread's.
    let errno = unsafe { *libc::__errno_location() };
    if stream && (result == 0 || errno == libc::EINPROGRESS) {
        let _quiet = Quiet::begin();
        connecting::left(fd);
        set_errno(errno);
    }
    if result == 0 && !stream {
        let _quiet = Quiet::begin();
        if let Some(description) = table::get(fd) {
            datagram::connected(fd, &description);
        }
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let quiet = Quiet::begin();
    if let Some(description) = table::get(fd)
        && let Object::Stream(stream) = description.object()
        && stream.settle(fd)
        && (0..=2).contains(&how)
    {
        return status(stream.shutdown(fd, how != libc::SHUT_WR, how != libc::SHUT_RD));
    }
    drop(quiet);
    let result = next!(shutdown(fd: c_int, how: c_int) -> c_int);
    // SAFETY: the calling thread's errno.
    if (result == 0 || unsafe { *libc::__errno_location() } == libc::ENOTCONN)
        && (0..=2).contains(&how)
        && let Some(description) = table::get(fd)
    {
        socket::datagram::shut(&description, how != libc::SHUT_WR, how != libc::SHUT_RD);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getpeername(
    fd: c_int,
    name: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let quiet = Quiet::begin();
    if let Some(description) = table::get(fd)
        && let Object::Stream(stream) = description.object()
        && stream.settle(fd)
        && stream.is_over()
    {
        // The twin, which knows of no end, still has a peer.
        return status(Err(Errno::NOTCONN));
    }
    drop(quiet);
    next!(getpeername(fd: c_int, name: *mut sockaddr, length: *mut socklen_t) -> c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let _quiet = Quiet::begin();
    let Some(description) = table::get(fd) else {
        return next!(setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int);
    };
    // SAFETY: as setsockopt(2).
    if let Some(result) = unsafe { options::set(fd, &description, level, name, value, length) } {
        return status(result);
    }
    let result = next!(setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int);
    if result == 0 {
        // SAFETY: as setsockopt(2).
        unsafe { options::was_set(fd, &description, level, name, value, length) };
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let quiet = Quiet::begin();
    if let Some(description) = table::get(fd)
        && !value.is_null()
        && !length.is_null()
        && let Some(number) = options::get(fd, &description, level, name)
    {
        let bytes = number.to_ne_bytes();
        // SAFETY: as getsockopt(2).
        unsafe {
            let count = (length.read_unaligned() as usize).min(bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), count);
            length.write_unaligned(count as socklen_t);
        }
        return 0;
    }
    drop(quiet);
    next!(getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int)
}
