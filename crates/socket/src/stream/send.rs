// SPDX-License-Identifier: Apache-2.0
//! Sending.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use ipc::protocol::Fallback;
use rustix::io::Errno;
use shm::channel::{armed, flags, seat as table};

use super::abandon::kernel_call;
use super::receive::DATA;
use super::{Result, Stream, state};
use crate::cost::{self, Work};
use crate::inside::{Call, number};
use crate::ready::Events;
use crate::table::Description;

/// Longest message: short enough that the reader starts while the writer goes on.
const CHUNK: usize = 16384;
/// Most pieces gathered into one message.
const PIECES: usize = 16;

impl Stream {
    /// Sends what is in the buffers.
    ///
    /// # Safety
    /// Each buffer is readable memory.
    #[inline]
    pub unsafe fn send(
        &self,
        fd: RawFd,
        description: &Description,
        parts: &[libc::iovec],
        how: i32,
    ) -> Result {
        let total: usize = parts.iter().map(|part| part.iov_len).sum();
        let mut done = 0;
        self.request.answered();
        cost::call(Work::Send);
        if !self.is_unusual() {
            // SAFETY: passed on.
            let put = unsafe { self.put(fd, parts, total, &mut done) };
            if let Err(error) = put {
                return self.failed(done, error, how);
            }
            if done == total {
                return Ok(done);
            }
        }
        // SAFETY: passed on.
        unsafe { self.send_slowly(fd, description, parts, done, how) }
    }

    /// Everything but what the ring has room for at once; `done` bytes are in it.
    ///
    /// # Safety
    /// As [`Self::send`].
    #[inline(never)]
    unsafe fn send_slowly(
        &self,
        fd: RawFd,
        description: &Description,
        parts: &[libc::iovec],
        mut done: usize,
        how: i32,
    ) -> Result {
        let total: usize = parts.iter().map(|part| part.iov_len).sum();
        let mut deadline = None;
        let (mut fd, mut inside) = (fd, None);
        loop {
            if self.is_unusual() && self.is_kernels(fd, description)? {
                drop(inside.take());
                // SAFETY: passed on.
                return match unsafe { kernel_rest(libc::SYS_sendmsg, fd, parts, done, how) } {
                    Err(_) if done > 0 => Ok(done),
                    other => other.map(|more| done + more),
                };
            }
            // SAFETY: passed on.
            let put = unsafe { self.put(fd, parts, total, &mut done) };
            if done == total && put.is_ok() {
                return Ok(done);
            }
            if let Err(error) = put {
                return self.failed(done, error, how);
            }
            if self.waits_for_room(Events::OUT) && self.retire(fd, description, Fallback::Stalled) {
                continue;
            }
            if how & libc::MSG_DONTWAIT != 0 || self.nonblocking() {
                return if done > 0 {
                    Ok(done)
                } else {
                    Err(Errno::AGAIN)
                };
            }
            if inside.is_none() {
                inside = Call::begin(description);
            }
            let part = done > 0;
            if let Err(error) = self.pause(fd, description, Events::OUT, part, &mut deadline) {
                return if part { Ok(done) } else { Err(error) };
            }
            fd = number(fd, description).unwrap_or(fd);
        }
    }

    /// Whether what is sent goes by the kernel.
    #[cold]
    fn is_kernels(&self, fd: RawFd, description: &Description) -> Result<bool> {
        if self.is_retired() {
            self.follow(fd, description)?;
            return Ok(true);
        }
        self.abandon(fd, description)
    }

    #[cold]
    fn failed(&self, done: usize, error: Errno, how: i32) -> Result {
        if done > 0 {
            return Ok(done);
        }
        if error == Errno::PIPE && how & libc::MSG_NOSIGNAL == 0 {
            crate::signals::pipe();
        }
        Err(error)
    }

    /// Puts as much into the ring as there is room for.
    #[inline]
    unsafe fn put(
        &self,
        fd: RawFd,
        parts: &[libc::iovec],
        total: usize,
        done: &mut usize,
    ) -> std::result::Result<(), Errno> {
        // Before: what is sent to a peer that was killed is lost, and leaves no bytes that it has not read.
        self.look(fd);
        let Ok(guard) = self.end.lock_sender() else {
            return Err(Errno::AGAIN);
        };
        let peer = self.peer_flags().load(Ordering::Acquire);
        if !table::may_write(self.flags().load(Ordering::Relaxed), peer) {
            // Another thread has just gone over to the kernel, or an end has retired: the caller looks again.
            return Ok(());
        }
        let ends = flags::CLOSED | flags::RESET | flags::REVOKED | flags::DEAF;
        let own = self.flags().load(Ordering::Relaxed);
        if peer & ends != 0
            || own & (flags::FIN | flags::REVOKED) != 0
            || self.state() & state::GONE != 0
        {
            if *done > 0 {
                if peer & flags::DEAF != 0 {
                    self.answer_for_deaf(fd);
                }
                // The call says what was taken; why no more is, the next one is told.
                return Err(Errno::PIPE);
            }
            if self.refuse(fd, total == 0)? {
                *done = total;
            }
            return Ok(());
        }
        if guard.is_inherited() {
            // What the dead has sent it may not have rung for.
            self.ring_if_armed(fd, armed::DATA);
        }
        let sender = self.end.sender();
        let longest = sender.max_message().min(CHUNK);
        while *done < total {
            let mut pieces: [&[u8]; PIECES] = [&[]; PIECES];
            // SAFETY: passed on.
            let (count, length) = unsafe { gather(parts, *done, longest, &mut pieces) };
            cost::call(Work::SendBytes(length));
            if sender.try_send(DATA, &pieces[..count]).is_err() {
                self.starve();
                break;
            }
            *done += length;
            self.ring_if_armed(fd, armed::DATA);
        }
        Ok(())
    }

    /// The peer takes no more. Ok(true): the write is taken and lost, as the kernel does with the first one; those that are
    /// `empty` do not count, since nothing leaves that the peer could answer with a reset.
    #[cold]
    fn refuse(&self, fd: RawFd, empty: bool) -> std::result::Result<bool, Errno> {
        let peer = self.peer_flags().load(Ordering::Acquire);
        let own = self.flags().load(Ordering::Relaxed);
        if (peer | own) & flags::REVOKED != 0 {
            self.note(state::TOLD);
            return Err(Errno::CONNRESET);
        }
        if own & flags::FIN != 0 || self.is_reset() {
            return Err(self.take_error().unwrap_or(Errno::PIPE));
        }
        if empty && self.state() & state::BROKEN == 0 {
            return Ok(true);
        }
        if self.note(state::BROKEN) & state::BROKEN != 0 {
            self.note(state::TOLD);
            return Err(Errno::PIPE);
        }
        if peer & (flags::DEAF | flags::CLOSED) == flags::DEAF {
            self.answer_for_deaf(fd);
        }
        Ok(true)
    }
}

/// sendmsg or recvmsg on the kernel's socket for what is left of the buffers.
///
/// # Safety
/// The buffers are as the call demands.
#[cold]
pub(super) unsafe fn kernel_rest(
    call: libc::c_long,
    fd: RawFd,
    parts: &[libc::iovec],
    mut skip: usize,
    how: i32,
) -> Result {
    let mut rest = Vec::with_capacity(parts.len());
    for part in parts {
        let taken = skip.min(part.iov_len);
        skip -= taken;
        // SAFETY: inside of the caller's buffer, or at its end.
        let base = unsafe { part.iov_base.cast::<u8>().add(taken) };
        rest.push(libc::iovec {
            iov_base: base.cast(),
            iov_len: part.iov_len - taken,
        });
    }
    // SAFETY: passed on.
    unsafe { kernel_call(call, fd, &rest, how) }
}

/// The next pieces of the buffers from byte `skip` on: how many there are, and their bytes together.
#[inline(always)]
unsafe fn gather<'a>(
    parts: &'a [libc::iovec],
    mut skip: usize,
    longest: usize,
    pieces: &mut [&'a [u8]; PIECES],
) -> (usize, usize) {
    let mut count = 0;
    let mut length = 0;
    for part in parts {
        if skip >= part.iov_len {
            skip -= part.iov_len;
            continue;
        }
        let bytes = (part.iov_len - skip).min(longest - length);
        // SAFETY: the caller's buffer.
        pieces[count] =
            unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>().add(skip), bytes) };
        skip = 0;
        count += 1;
        length += bytes;
        if count == PIECES || length == longest {
            break;
        }
    }
    (count, length)
}
