// SPDX-License-Identifier: Apache-2.0
//! Calls that move data between a connection and a file or a pipe.

use std::os::fd::{AsFd, BorrowedFd};

use libc::{c_int, c_uint, iovec, off_t, size_t, ssize_t};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use socket::object::Object;
use socket::signals;
use socket::signals::entry::whole;
use socket::table;

use crate::next::next;
use crate::{answer, set_errno};

/// Bytes of a file on their way to a socket.
const PIECE: usize = 32768;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(
    out: c_int,
    file: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    match accelerated(out) {
        // SAFETY: as sendfile(2).
        Some(description) => unsafe { copy_file(out, &description, file, offset, count) },
        None if accelerated(file).is_some() => answer(Err(Errno::INVAL)),
        None => {
            next!(sendfile(out: c_int, file: c_int, offset: *mut off_t, count: size_t) -> ssize_t)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    out: c_int,
    file: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    match accelerated(out) {
        // SAFETY: as sendfile(2).
        Some(description) => unsafe { copy_file(out, &description, file, offset, count) },
        None if accelerated(file).is_some() => answer(Err(Errno::INVAL)),
        None => {
            next!(sendfile64(out: c_int, file: c_int, offset: *mut off_t, count: size_t) -> ssize_t)
        }
    }
}

/// The description of an accelerated connection.
fn accelerated(fd: c_int) -> Option<table::Ref> {
    let description = table::get(fd)?;
    match description.object() {
        Object::Lost(lost) => {
            lost.touch(fd);
            None
        }
        Object::Stream(stream) if stream.settle(fd) => Some(description),
        _ => None,
    }
}

unsafe fn copy_file(
    out: c_int,
    description: &table::Description,
    file: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    let Some(stream) = description.object().stream() else {
        return answer(Err(Errno::BADF));
    };
    let mut buffer = [0u8; PIECE];
    let mut done = 0;
    while done < count {
        let piece = PIECE.min(count - done);
        // Read where the file stands without moving it, for not all of it may find room.
        // SAFETY: as sendfile(2).
        let place = if offset.is_null() {
            unsafe { libc::lseek64(file, 0, libc::SEEK_CUR) }
        } else {
            unsafe { offset.read_unaligned() }
        };
        if place < 0 {
            // A pipe or a socket has no place.
            return answer(Err(Errno::INVAL));
        }
        // SAFETY: the buffer has room.
        let had = unsafe { libc::pread64(file, buffer.as_mut_ptr().cast(), piece, place) };
        if had < 0 {
            // SAFETY: the calling thread's errno.
            if unsafe { *libc::__errno_location() } == libc::ESPIPE {
                set_errno(libc::EINVAL);
            }
            return if done > 0 { done as ssize_t } else { -1 };
        }
        if had == 0 {
            break;
        }
        let part = iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: had as usize,
        };
        // SAFETY: the buffer is filled that far.
        match whole(|| {
            // SAFETY: as above.
            Some(unsafe { stream.send(out, description, std::slice::from_ref(&part), 0) })
        })
        .unwrap_or(Err(Errno::BADF))
        {
            Ok(sent) => {
                done += sent;
                // SAFETY: as sendfile(2).
                unsafe {
                    if offset.is_null() {
                        libc::lseek64(file, place + sent as i64, libc::SEEK_SET);
                    } else {
                        offset.write_unaligned(place + sent as i64);
                    }
                }
                if sent < had as usize {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return answer(Err(error)),
        }
    }
    done as ssize_t
}

/// What a pipe that calls itself writable takes at once, whatever lies in it.
const PAGE: usize = 4096;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    let (source, target) = (accelerated(from), accelerated(to));
    if source.is_none() && target.is_none() {
        return next!(splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, count: size_t, flags: c_uint) -> ssize_t);
    }
    if count == 0 {
        return 0;
    }
    let Some(flags) = SpliceFlags::from_bits(flags) else {
        return answer(Err(Errno::INVAL));
    };
    let (pipes, sockets) = match target.is_some() {
        true => (from_offset, to_offset),
        false => (to_offset, from_offset),
    };
    answer(match (source, target) {
        _ if !pipes.is_null() => Err(Errno::SPIPE),
        _ if !sockets.is_null() => Err(Errno::INVAL),
        (None, Some(target)) => from_pipe(from, to, &target, count, flags),
        (Some(source), None) => into_pipe(from, &source, to, count, flags),
        _ => Err(Errno::INVAL),
    })
}

/// A number that the program has given.
fn given<'a>(fd: c_int) -> BorrowedFd<'a> {
    // SAFETY: used for calls that answer EBADF if it is none.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Waits until something can be done with a pipe; in the C library's call, for the sake of threads that are to be cancelled.
fn wait_for(pipe: c_int, events: i16) -> Result<(), Errno> {
    let mut one = libc::pollfd {
        fd: pipe,
        events,
        revents: 0,
    };
    loop {
        // SAFETY: one structure.
        let waited = unsafe { libc::poll(&raw mut one, 1, -1) };
        if waited >= 0 {
            return Ok(());
        }
        let error = Errno::from_raw_os_error(unsafe { *libc::__errno_location() });
        if error != Errno::INTR || !signals::restart() {
            return Err(error);
        }
    }
}

/// What finds no room in the connection stays in the pipe: its bytes are looked at through another pipe.
fn from_pipe(
    from: c_int,
    to: c_int,
    description: &table::Description,
    count: usize,
    flags: SpliceFlags,
) -> Result<usize, Errno> {
    let Some(stream) = description.object().stream() else {
        return Err(Errno::BADF);
    };
    let mut buffer = [0u8; PIECE];
    let piece = PIECE.min(count);
    let had = loop {
        let (end, start) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|_| Errno::NOMEM)?;
        match rustix::pipe::tee(given(from), start.as_fd(), piece, SpliceFlags::NONBLOCK) {
            Ok(0) => return Ok(0),
            Ok(_) => break rustix::io::read(&end, &mut buffer[..piece])?,
            Err(Errno::AGAIN) if !flags.contains(SpliceFlags::NONBLOCK) && waits(from) => {
                drop((end, start));
                wait_for(from, libc::POLLIN)?;
            }
            Err(error) => return Err(error),
        }
    };
    let part = iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: had,
    };
    // SAFETY: the buffer is filled that far.
    let sent = whole(|| Some(unsafe { stream.send(to, description, &[part], 0) }))
        .unwrap_or(Err(Errno::BADF))?;
    let mut taken = 0;
    while taken < sent {
        match rustix::io::read(given(from), &mut buffer[taken..sent]) {
            // Somebody else has read it meanwhile.
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(more) => taken += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Whether calls wait for this descriptor.
fn waits(fd: c_int) -> bool {
    let flags = rustix::fs::fcntl_getfl(given(fd));
    flags.is_ok_and(|flags| !flags.contains(rustix::fs::OFlags::NONBLOCK))
}

/// Takes no more from the connection than the pipe has room for.
fn into_pipe(
    from: c_int,
    description: &table::Description,
    to: c_int,
    count: usize,
    flags: SpliceFlags,
) -> Result<usize, Errno> {
    let Some(stream) = description.object().stream() else {
        return Err(Errno::BADF);
    };
    let pipe = given(to);
    let size = rustix::pipe::fcntl_getpipe_size(pipe).map_err(|error| match error {
        Errno::BADF if rustix::io::fcntl_getfd(pipe).is_ok() => Errno::INVAL,
        other => other,
    })?;
    let mut one = [rustix::event::PollFd::new(
        &pipe,
        rustix::event::PollFlags::OUT,
    )];
    let at_once = rustix::event::Timespec::default();
    if rustix::event::poll(&mut one, Some(&at_once))? == 0 {
        if flags.contains(SpliceFlags::NONBLOCK) || !waits(to) {
            return Err(Errno::AGAIN);
        }
        wait_for(to, libc::POLLOUT)?;
    }
    if one[0].revents().contains(rustix::event::PollFlags::ERR) {
        // Nobody reads the pipe.
        signals::pipe();
        return Err(Errno::PIPE);
    }
    let room = match rustix::io::ioctl_fionread(pipe) {
        Ok(0) => size,
        _ => PAGE,
    };
    let mut buffer = [0u8; PIECE];
    let part = iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: PIECE.min(count).min(room),
    };
    // SAFETY: the buffer has room.
    let had = whole(|| Some(unsafe { stream.receive(from, description, &[part], 0) }))
        .unwrap_or(Err(Errno::BADF))?;
    let mut put = 0;
    while put < had {
        match rustix::io::write(pipe, &buffer[put..had]) {
            Ok(more) => put += more,
            Err(Errno::INTR) => {}
            // Somebody else has written there meanwhile.
            Err(Errno::AGAIN) => wait_for(to, libc::POLLOUT)?,
            Err(error) => {
                if error == Errno::PIPE {
                    signals::pipe();
                }
                return Err(error);
            }
        }
    }
    Ok(had)
}
