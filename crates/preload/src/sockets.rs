// SPDX-License-Identifier: Apache-2.0
//! Calls that make, connect and describe sockets.

use libc::{c_int, c_void, sockaddr, socklen_t};
use socket::object::Object;
use socket::pending::Pending;
use socket::{close, connect as connecting, datagram, listener, options, table};

use crate::next::next;
use crate::{answer, set_errno, status, stdio};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let fd = next!(socket(family: c_int, kind: c_int, protocol: c_int) -> c_int);
    made(fd, family, kind, protocol);
    fd
}

/// A socket was made.
pub fn made(fd: c_int, family: c_int, kind: c_int, protocol: c_int) {
    if fd < 0 {
        return;
    }
    if let Some(pending) = Pending::of(family, kind, protocol) {
        drop(table::install(fd, Object::Pending(pending)));
        stdio::came(fd);
    } else if table::known(fd) {
        drop(table::remove(fd));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let result = next!(bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int);
    if result == 0
        && let Some(description) = table::get(fd)
    {
        datagram::bound(fd, &description);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
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

fn accepted(result: socket::stream::Result<c_int>) -> c_int {
    if let Ok(fd) = result {
        stdio::came(fd);
    }
    answer(result.map(|fd| fd as usize)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    if let Some(description) = table::get(fd)
        && let Object::Listener(listener) = description.object()
    {
        // SAFETY: as accept(2).
        return accepted(unsafe { listener::accept(fd, listener, address, length, 0) });
    }
    let accepted =
        next!(accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int);
    close::closing(accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if let Some(description) = table::get(fd)
        && let Object::Listener(listener) = description.object()
    {
        // SAFETY: as accept(2).
        return accepted(unsafe { listener::accept(fd, listener, address, length, flags) });
    }
    let accepted = next!(accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int);
    close::closing(accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let Some(description) = table::get(fd) else {
        return next!(connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int);
    };
    let stream = match description.object() {
        Object::Pending(pending) => pending.kind == libc::SOCK_STREAM,
        Object::Stream(_) => true,
        _ => false,
    };
    if stream {
        // SAFETY: as connect(2).
        if let Some(result) = unsafe { connecting::connect(fd, &description, address, length) } {
            return status(result);
        }
    }
    let result = next!(connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int);
    if result == 0 && !stream {
        datagram::connected(fd, &description);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if let Some(description) = table::get(fd)
        && let Object::Stream(stream) = description.object()
        && stream.settle(fd)
        && (0..=2).contains(&how)
    {
        return status(stream.shutdown(fd, how != libc::SHUT_WR, how != libc::SHUT_RD));
    }
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
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
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
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    if let Some(description) = table::get(fd)
        && !value.is_null()
        && !length.is_null()
        && let Some(number) = options::get(fd, &description, level, name)
    {
        let bytes = number.to_ne_bytes();
        // SAFETY: as getsockopt(2).
        unsafe {
            let count = (*length as usize).min(bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), count);
            *length = count as socklen_t;
        }
        return 0;
    }
    next!(getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int)
}
