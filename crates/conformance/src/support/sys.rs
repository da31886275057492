// SPDX-License-Identifier: Apache-2.0
//! The calls under test, as thin as Rust lets them be: each goes through the C library's symbol, which a preloaded
//! library may have replaced, and gives the number of bytes or the descriptor, or `errno`.

use super::address::Address;
use super::errno::{Call, Errno};
use libc::{c_int, c_void};
use std::time::Duration;

/// A descriptor. Cases run in processes of their own, so nobody closes what is left.
pub type Fd = c_int;

/// Symbols that the `libc` crate does not declare.
pub mod raw {
    use libc::{c_char, c_int, c_long, c_uint, c_void, size_t, sockaddr, socklen_t, ssize_t};

    unsafe extern "C" {
        pub fn __recv_chk(
            fd: c_int,
            buf: *mut c_void,
            n: size_t,
            size: size_t,
            flags: c_int,
        ) -> ssize_t;
        pub fn __recvfrom_chk(
            fd: c_int,
            buf: *mut c_void,
            n: size_t,
            size: size_t,
            flags: c_int,
            from: *mut sockaddr,
            len: *mut socklen_t,
        ) -> ssize_t;
        pub fn __read_chk(fd: c_int, buf: *mut c_void, n: size_t, size: size_t) -> ssize_t;
        pub fn __poll_chk(
            fds: *mut libc::pollfd,
            n: libc::nfds_t,
            timeout: c_int,
            size: size_t,
        ) -> c_int;
        pub fn __poll(fds: *mut libc::pollfd, n: libc::nfds_t, timeout: c_int) -> c_int;
        pub fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int;
        pub fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
        pub fn closefrom(first: c_int);
        pub fn epoll_pwait2(
            fd: c_int,
            events: *mut libc::epoll_event,
            n: c_int,
            timeout: *const libc::timespec,
            mask: *const libc::sigset_t,
        ) -> c_int;
        pub fn fprintf(file: *mut libc::FILE, format: *const c_char, ...) -> c_int;
    }
}

/// `value` of a call: negative means that it failed.
pub fn answer(value: isize) -> Call {
    usize::try_from(value).map_err(|_| Errno::last())
}

/// Like `answer`, for calls that give a descriptor.
pub fn descriptor(value: c_int) -> Call<Fd> {
    if value < 0 {
        Err(Errno::last())
    } else {
        Ok(value)
    }
}

/// Like `answer`, for calls that give nothing.
pub fn done(value: c_int) -> Call<()> {
    if value < 0 {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

pub use libc::{
    AF_INET, AF_INET6, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, O_NONBLOCK,
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP, SHUT_RD, SHUT_RDWR, SHUT_WR,
    SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET,
};

pub fn socket(domain: c_int, kind: c_int) -> Call<Fd> {
    // SAFETY: takes numbers only.
    descriptor(unsafe { libc::socket(domain, kind, 0) })
}

pub fn bind(fd: Fd, address: &Address) -> Call<()> {
    // SAFETY: the address outlives the call.
    done(unsafe { libc::bind(fd, address.pointer(), address.len) })
}

pub fn listen(fd: Fd, backlog: c_int) -> Call<()> {
    // SAFETY: takes numbers only.
    done(unsafe { libc::listen(fd, backlog) })
}

pub fn connect(fd: Fd, address: &Address) -> Call<()> {
    // SAFETY: the address outlives the call.
    done(unsafe { libc::connect(fd, address.pointer(), address.len) })
}

pub fn accept(fd: Fd) -> Call<Fd> {
    // SAFETY: both pointers may be null.
    descriptor(unsafe { libc::accept(fd, std::ptr::null_mut(), std::ptr::null_mut()) })
}

pub fn accept_from(fd: Fd) -> Call<(Fd, Address)> {
    let mut address = Address::room();
    let (pointer, len) = (address.pointer_mut(), &raw mut address.len);
    // SAFETY: address and length are of one object that outlives the call.
    let new = descriptor(unsafe { libc::accept(fd, pointer, len) })?;
    Ok((new, address))
}

pub fn accept4(fd: Fd, flags: c_int) -> Call<Fd> {
    // SAFETY: both pointers may be null.
    descriptor(unsafe { libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) })
}

pub fn getsockname(fd: Fd) -> Call<Address> {
    let mut address = Address::room();
    let (pointer, len) = (address.pointer_mut(), &raw mut address.len);
    // SAFETY: address and length are of one object that outlives the call.
    done(unsafe { libc::getsockname(fd, pointer, len) })?;
    Ok(address)
}

pub fn getpeername(fd: Fd) -> Call<Address> {
    let mut address = Address::room();
    let (pointer, len) = (address.pointer_mut(), &raw mut address.len);
    // SAFETY: address and length are of one object that outlives the call.
    done(unsafe { libc::getpeername(fd, pointer, len) })?;
    Ok(address)
}

pub fn shutdown(fd: Fd, how: c_int) -> Call<()> {
    // SAFETY: takes numbers only.
    done(unsafe { libc::shutdown(fd, how) })
}

pub fn close(fd: Fd) -> Call<()> {
    // SAFETY: cases own the descriptors that they close.
    done(unsafe { libc::close(fd) })
}

pub fn send(fd: Fd, bytes: &[u8], flags: c_int) -> Call {
    // SAFETY: pointer and length are of one slice.
    answer(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

pub fn write(fd: Fd, bytes: &[u8]) -> Call {
    // SAFETY: pointer and length are of one slice.
    answer(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

pub fn sendto(fd: Fd, bytes: &[u8], flags: c_int, to: &Address) -> Call {
    // SAFETY: pointer and length are of one slice; the address outlives the call.
    answer(unsafe {
        libc::sendto(
            fd,
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
            to.pointer(),
            to.len,
        )
    })
}

/// `recv` into room for `len` bytes.
pub fn recv(fd: Fd, len: usize, flags: c_int) -> Call<Vec<u8>> {
    filled(len, |room, len| {
        // SAFETY: room has len bytes.
        unsafe { libc::recv(fd, room, len, flags) }
    })
}

pub fn read(fd: Fd, len: usize) -> Call<Vec<u8>> {
    filled(len, |room, len| {
        // SAFETY: room has len bytes.
        unsafe { libc::read(fd, room, len) }
    })
}

pub fn recvfrom(fd: Fd, len: usize, flags: c_int) -> Call<(Vec<u8>, Address)> {
    let mut address = Address::room();
    let (pointer, size) = (address.pointer_mut(), &raw mut address.len);
    let bytes = filled(len, |room, len| {
        // SAFETY: room has len bytes; address and size are of one object that outlives the call.
        unsafe { libc::recvfrom(fd, room, len, flags, pointer, size) }
    })?;
    Ok((bytes, address))
}

/// Gives `call` room for `len` bytes and cuts it to what the call says it filled. What it says may be more than the
/// room (MSG_TRUNC): then all of the room.
pub fn filled(len: usize, call: impl FnOnce(*mut c_void, usize) -> isize) -> Call<Vec<u8>> {
    let mut bytes = vec![0xEE; len];
    let count = answer(call(bytes.as_mut_ptr().cast(), len))?;
    bytes.truncate(count);
    Ok(bytes)
}

pub fn writev(fd: Fd, parts: &[&[u8]]) -> Call {
    let vectors = sources(parts);
    // SAFETY: the vectors point to slices that outlive the call.
    answer(unsafe { libc::writev(fd, vectors.as_ptr(), vectors.len() as c_int) })
}

/// `readv` into rooms of these sizes; gives what it filled, room by room.
pub fn readv(fd: Fd, sizes: &[usize]) -> Call<Vec<Vec<u8>>> {
    let mut rooms: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0xEE; size]).collect();
    let vectors = targets(&mut rooms);
    // SAFETY: the vectors point to rooms that outlive the call.
    let count = answer(unsafe { libc::readv(fd, vectors.as_ptr(), vectors.len() as c_int) })?;
    cut(&mut rooms, count);
    Ok(rooms)
}

/// Vectors for a gathering call.
pub fn sources(parts: &[&[u8]]) -> Vec<libc::iovec> {
    let vector = |part: &&[u8]| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    };
    parts.iter().map(vector).collect()
}

/// Vectors for a scattering call.
pub fn targets(rooms: &mut [Vec<u8>]) -> Vec<libc::iovec> {
    let vector = |room: &mut Vec<u8>| libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    rooms.iter_mut().map(vector).collect()
}

/// Cuts rooms to the first `count` bytes of them all.
pub fn cut(rooms: &mut [Vec<u8>], mut count: usize) {
    for room in rooms {
        let here = count.min(room.len());
        room.truncate(here);
        count -= here;
    }
}

/// A message that `recvmsg` gave.
#[derive(Debug)]
pub struct Message {
    /// What the call returned; more than the bytes with MSG_TRUNC.
    pub count: usize,
    pub bytes: Vec<u8>,
    pub flags: c_int,
    /// The length that the call wrote; 0 if there was no source address.
    pub name_len: usize,
    pub from: Address,
}

pub fn sendmsg(fd: Fd, parts: &[&[u8]], to: Option<&Address>, flags: c_int) -> Call {
    let mut vectors = sources(parts);
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len() as _;
    if let Some(to) = to {
        header.msg_name = to.pointer().cast_mut().cast();
        header.msg_namelen = to.len;
    }
    // SAFETY: the header points to things that outlive the call.
    answer(unsafe { libc::sendmsg(fd, &raw const header, flags) })
}

pub fn recvmsg(fd: Fd, sizes: &[usize], flags: c_int) -> Call<Message> {
    let mut rooms: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0xEE; size]).collect();
    let mut vectors = targets(&mut rooms);
    let mut from = Address::room();
    // SAFETY: all zeroes is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len() as _;
    header.msg_name = from.pointer_mut().cast();
    header.msg_namelen = from.len;
    // SAFETY: the header points to things that outlive the call.
    let count = answer(unsafe { libc::recvmsg(fd, &raw mut header, flags) })?;
    cut(&mut rooms, count);
    Ok(Message {
        count,
        bytes: rooms.concat(),
        flags: header.msg_flags,
        name_len: header.msg_namelen as usize,
        from,
    })
}

/// `sendmmsg` of one part a message; gives how many messages went, and the bytes of each.
pub fn sendmmsg(
    fd: Fd,
    messages: &[&[u8]],
    to: Option<&Address>,
    flags: c_int,
) -> Call<Vec<usize>> {
    let mut vectors = sources(messages);
    // SAFETY: all zeroes is a valid mmsghdr.
    let mut headers: Vec<libc::mmsghdr> = vec![unsafe { std::mem::zeroed() }; messages.len()];
    for (header, vector) in headers.iter_mut().zip(&mut vectors) {
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        if let Some(to) = to {
            header.msg_hdr.msg_name = to.pointer().cast_mut().cast();
            header.msg_hdr.msg_namelen = to.len;
        }
    }
    // SAFETY: the headers point to things that outlive the call.
    let count = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), headers.len() as _, flags as _) };
    let count = answer(count as isize)?;
    Ok(headers[..count]
        .iter()
        .map(|header| header.msg_len as usize)
        .collect())
}

/// `recvmmsg` of up to `count` messages of `size` bytes each.
pub fn recvmmsg(
    fd: Fd,
    count: usize,
    size: usize,
    flags: c_int,
    wait: Option<Duration>,
) -> Call<Vec<Message>> {
    let mut rooms: Vec<Vec<u8>> = vec![vec![0xEE; size]; count];
    let mut names = vec![Address::room(); count];
    let mut vectors = targets(&mut rooms);
    // SAFETY: all zeroes is a valid mmsghdr.
    let mut headers: Vec<libc::mmsghdr> = vec![unsafe { std::mem::zeroed() }; count];
    for ((header, vector), name) in headers.iter_mut().zip(&mut vectors).zip(&mut names) {
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = name.pointer_mut().cast();
        header.msg_hdr.msg_namelen = name.len;
    }
    let mut limit = wait.map(timespec);
    let limit = limit
        .as_mut()
        .map_or(std::ptr::null_mut(), |limit| limit as *mut libc::timespec);
    // SAFETY: the headers point to things that outlive the call.
    let got = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), count as _, flags as _, limit) };
    let got = answer(got as isize)?;
    let mut messages = Vec::new();
    for (index, mut bytes) in rooms.into_iter().enumerate().take(got) {
        let header = &headers[index];
        bytes.truncate(header.msg_len as usize);
        messages.push(Message {
            count: header.msg_len as usize,
            bytes,
            flags: header.msg_hdr.msg_flags,
            name_len: header.msg_hdr.msg_namelen as usize,
            from: names[index],
        });
    }
    Ok(messages)
}

/// `sendfile`; with an offset it is read and written, without the file's own offset moves.
pub fn sendfile(to: Fd, from: Fd, offset: Option<&mut libc::off_t>, count: usize) -> Call {
    let offset = offset.map_or(std::ptr::null_mut(), |offset| offset as *mut libc::off_t);
    // SAFETY: the offset is null or outlives the call.
    answer(unsafe { libc::sendfile(to, from, offset, count) })
}

/// Two ends of a Unix socket.
pub fn unix_pair() -> Call<[Fd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    done(unsafe { libc::socketpair(libc::AF_UNIX, SOCK_STREAM, 0, ends.as_mut_ptr()) })?;
    Ok(ends)
}

pub fn splice(from: Fd, to: Fd, count: usize, flags: u32) -> Call {
    let null = std::ptr::null_mut();
    // SAFETY: both offsets may be null.
    answer(unsafe { libc::splice(from, null, to, null, count, flags) })
}

pub fn setsockopt<T>(fd: Fd, level: c_int, option: c_int, value: &T) -> Call<()> {
    let (pointer, len) = (
        (&raw const *value).cast(),
        size_of::<T>() as libc::socklen_t,
    );
    // SAFETY: pointer and length are of one object.
    done(unsafe { libc::setsockopt(fd, level, option, pointer, len) })
}

/// `getsockopt` of a number.
pub fn getsockopt(fd: Fd, level: c_int, option: c_int) -> Call<i32> {
    let mut value = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: pointer and length are of one object.
    done(unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// State of a TCP connection, the first byte of TCP_INFO.
pub fn tcp_state(fd: Fd) -> Call<u8> {
    let state = getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(state.to_ne_bytes()[0])
}

/// The error that the socket keeps; asking for it clears it.
pub fn socket_error(fd: Fd) -> Call<Errno> {
    getsockopt(fd, SOL_SOCKET, libc::SO_ERROR).map(Errno)
}

/// SO_LINGER.
pub fn linger(fd: Fd, on: bool, seconds: i32) -> Call<()> {
    let value = libc::linger {
        l_onoff: i32::from(on),
        l_linger: seconds,
    };
    setsockopt(fd, SOL_SOCKET, libc::SO_LINGER, &value)
}

/// SO_RCVTIMEO or SO_SNDTIMEO.
pub fn timeout(fd: Fd, option: c_int, time: Duration) -> Call<()> {
    let value = libc::timeval {
        tv_sec: time.as_secs() as _,
        tv_usec: time.subsec_micros() as _,
    };
    setsockopt(fd, SOL_SOCKET, option, &value)
}

pub fn dup(fd: Fd) -> Call<Fd> {
    // SAFETY: takes numbers only.
    descriptor(unsafe { libc::dup(fd) })
}

pub fn dup2(fd: Fd, new: Fd) -> Call<Fd> {
    // SAFETY: cases own the descriptors that they replace.
    descriptor(unsafe { libc::dup2(fd, new) })
}

pub fn dup3(fd: Fd, new: Fd, flags: c_int) -> Call<Fd> {
    // SAFETY: cases own the descriptors that they replace.
    descriptor(unsafe { libc::dup3(fd, new, flags) })
}

pub fn fcntl(fd: Fd, command: c_int, argument: c_int) -> Call<c_int> {
    // SAFETY: commands used here take a number.
    descriptor(unsafe { libc::fcntl(fd, command, argument) })
}

/// O_NONBLOCK on or off by fcntl.
pub fn nonblocking(fd: Fd, on: bool) -> Call<()> {
    let flags = fcntl(fd, libc::F_GETFL, 0)?;
    let flags = if on {
        flags | O_NONBLOCK
    } else {
        flags & !O_NONBLOCK
    };
    fcntl(fd, libc::F_SETFL, flags).map(drop)
}

/// An ioctl that reads or writes a number; gives the number afterwards.
pub fn ioctl(fd: Fd, request: libc::c_ulong, mut value: c_int) -> Call<c_int> {
    // SAFETY: requests used here read or write one int.
    done(unsafe { libc::ioctl(fd, request as _, &raw mut value) })?;
    Ok(value)
}

/// Bytes that can be read.
pub fn fionread(fd: Fd) -> Call<usize> {
    ioctl(fd, libc::FIONREAD as _, -1).map(|count| count as usize)
}

pub fn pipe() -> Call<(Fd, Fd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    done(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    Ok((ends[0], ends[1]))
}

pub fn eventfd(value: u32, flags: c_int) -> Call<Fd> {
    // SAFETY: takes numbers only.
    descriptor(unsafe { libc::eventfd(value, flags) })
}

/// A timespec of this length.
pub fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as _,
    }
}

/// Sleeps; for giving another thread or process time to block in a call, never for measuring.
pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// RLIMIT_NOFILE's soft limit.
pub fn limit_descriptors(limit: u64) -> Call<()> {
    let mut old = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: room for one limit.
    done(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old) })?;
    let new = libc::rlimit {
        rlim_cur: limit.min(old.rlim_max),
        rlim_max: old.rlim_max,
    };
    // SAFETY: reads one limit.
    done(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const new) })
}
