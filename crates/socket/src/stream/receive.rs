// SPDX-License-Identifier: Apache-2.0
//! Receiving.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;
use shm::channel::{armed, flags, seat};
use shm::ring::{Receiver, Target};

use super::abandon::kernel_call;
use super::send::kernel_rest;
use super::{Result, Stream, state};
use crate::cost::{self, Work};
use crate::inside::{Call, number};
use crate::ready::Events;
use crate::signals::handlers::Watch;
use crate::table::Description;
use crate::wait::{Deadline, Wait, poll_kernel, wait_one};

/// Looks at the ring before a call prepares to wait: well under a microsecond.
const LOOKS: u32 = 32;
/// How long an end that was said in the channel may take through the twin.
const END_UNDER_WAY: Duration = Duration::from_millis(5);
/// Kind of the messages of a stream.
pub(super) const DATA: u8 = 0;

impl Stream {
    /// Receives into the buffers.
    ///
    /// # Safety
    /// Each buffer is writable memory that nobody else uses meanwhile.
    #[inline]
    pub unsafe fn receive(
        &self,
        fd: RawFd,
        description: &Description,
        parts: &[libc::iovec],
        how: i32,
    ) -> Result {
        // SAFETY: passed on.
        let received = unsafe { self.receive_all(fd, description, parts, how) };
        cost::call(Work::Receive(received.unwrap_or(0)));
        received
    }

    /// # Safety
    /// As [`Self::receive`].
    #[inline]
    unsafe fn receive_all(
        &self,
        fd: RawFd,
        description: &Description,
        parts: &[libc::iovec],
        how: i32,
    ) -> Result {
        if how & (libc::MSG_PEEK | libc::MSG_WAITALL) == 0 {
            // SAFETY: passed on.
            let done = unsafe { self.take(fd, parts, 0, how) }?;
            if done > 0 {
                self.request.received();
                return Ok(done);
            }
        }
        // SAFETY: passed on.
        unsafe { self.receive_slowly(fd, description, parts, how) }
    }

    /// Everything but what is there at once.
    ///
    /// # Safety
    /// As [`Self::receive`].
    #[inline(never)]
    unsafe fn receive_slowly(
        &self,
        fd: RawFd,
        description: &Description,
        parts: &[libc::iovec],
        how: i32,
    ) -> Result {
        let want: usize = parts.iter().map(|part| part.iov_len).sum();
        let mut done = 0;
        let (mut deadline, mut watch) = (None, None);
        let (mut fd, mut inside) = (fd, None);
        loop {
            let peek = how & libc::MSG_PEEK != 0;
            // SAFETY: passed on.
            let taken = unsafe { self.take(fd, parts, if peek { 0 } else { done }, how) }?;
            done = if peek { taken } else { done + taken };
            let enough = done == want || how & libc::MSG_WAITALL == 0;
            if done > 0 && enough {
                if !peek {
                    self.request.received();
                }
                return Ok(done);
            }
            if want == 0 && self.end.receiver().readable() {
                return Ok(0);
            }
            if self.is_retired() {
                self.follow(fd, description)?;
                if done > 0 && peek {
                    return Ok(done);
                }
                if !self.is_kernel() {
                    continue;
                }
                // Who does not wait may have been told of it.
                if done == 0 && self.was_told_the_end() {
                    let _ = poll_kernel(fd, Events::IN, END_UNDER_WAY);
                }
                // From here on the kernel holds what a call needs, and a handler may leave it.
                drop(inside.take());
                // SAFETY: passed on.
                return match unsafe { kernel_rest(libc::SYS_recvmsg, fd, parts, done, how) } {
                    Err(_) if done > 0 => Ok(done),
                    other => other.map(|more| done + more),
                };
            }
            if self.is_unusual() {
                match self.abandon(fd, description) {
                    Ok(false) => {}
                    // That nobody takes what was sent is no reader's concern: the kernel says what there is to read.
                    Ok(true) | Err(Errno::PIPE) => {
                        drop(inside.take());
                        // SAFETY: passed on.
                        return unsafe { kernel_call(libc::SYS_recvmsg, fd, parts, how) };
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.over() {
                // Said after the last bytes were written: what is in the ring comes first.
                let more = self.end.receiver().readable() && !(peek && done > 0);
                // Whoever has left the rings since may have sent on what lay there.
                if more || self.is_retired() {
                    continue;
                }
                return if done > 0 { Ok(done) } else { self.ended() };
            }
            if how & libc::MSG_DONTWAIT != 0 || self.nonblocking() {
                if done > 0 {
                    return Ok(done);
                }
                self.look(fd);
                if self.over() || !self.attached() && self.waits_in_vain() {
                    continue;
                }
                return Err(Errno::AGAIN);
            }
            if peek && done > 0 {
                // What was seen stays, so readiness does not tell of more: MSG_PEEK with MSG_WAITALL, which is rare.
                let watch = *watch.get_or_insert_with(Watch::begin);
                let _ =
                    rustix::thread::nanosleep(&crate::wait::timespec(Duration::from_micros(50)));
                deadline = deadline.or_else(|| self.timeout(false).map(Deadline::after));
                if watch.is_broken() || deadline.is_some_and(Deadline::passed) {
                    return Ok(done);
                }
                self.look(fd);
                continue;
            }
            if inside.is_none() {
                if self.comes_at_once() {
                    continue;
                }
                inside = Call::begin(description);
            }
            // A call for no bytes waits once, and gives none whatever ends that.
            let part = done > 0 || want == 0;
            if let Err(error) = self.pause(fd, description, Events::IN, part, &mut deadline) {
                return if part { Ok(done) } else { Err(error) };
            }
            fd = number(fd, description).unwrap_or(fd);
        }
    }

    /// Looks for an answer that is on its way, before the call prepares to wait: that takes longer than many answers.
    #[inline]
    fn comes_at_once(&self) -> bool {
        if crate::wait::never_spins() {
            return false;
        }
        let receiver = self.end.receiver();
        (0..LOOKS).any(|_| {
            std::hint::spin_loop();
            receiver.readable()
        })
    }

    /// Takes what is there.
    #[inline]
    unsafe fn take(&self, fd: RawFd, parts: &[libc::iovec], skip: usize, how: i32) -> Result {
        // Interrupted by a handler in the middle of a call on the same socket: as if there were nothing.
        let Ok(guard) = self.end.lock_receiver() else {
            return Err(Errno::AGAIN);
        };
        let peer = self.peer_flags().load(Ordering::Relaxed);
        if !seat::may_read(self.flags().load(Ordering::Relaxed), peer) {
            // The peer sends on what lies here.
            return Ok(0);
        }
        let mut receiver = self.end.receiver();
        let mut skip = skip;
        let mut done = 0;
        let mut returned = guard.is_inherited();
        if how & (libc::MSG_PEEK | libc::MSG_TRUNC) != 0 {
            // SAFETY: passed on.
            return unsafe { self.take_oddly(parts, skip, how) };
        }
        for part in parts {
            if skip >= part.iov_len {
                skip -= part.iov_len;
                continue;
            }
            let room = part.iov_len - skip;
            // SAFETY: the caller's buffer, behind what was filled before.
            let into = unsafe {
                std::slice::from_raw_parts_mut(part.iov_base.cast::<u8>().add(skip), room)
            };
            skip = 0;
            let (count, credit) = receiver.read(DATA, into);
            returned |= credit;
            done += count;
            if count < room {
                break;
            }
        }
        if done == 0 {
            spoil_unless_data(&mut receiver);
        }
        drop(guard);
        if returned {
            self.ring_if_armed(fd, armed::SPACE);
        }
        Ok(done)
    }

    /// MSG_PEEK: without taking; MSG_TRUNC: without copying. The lock is held.
    #[cold]
    unsafe fn take_oddly(&self, parts: &[libc::iovec], skip: usize, how: i32) -> Result {
        let mut receiver = self.end.receiver();
        let room: usize = parts.iter().map(|part| part.iov_len).sum::<usize>() - skip;
        if room == 0 {
            // The buffers may be anywhere, also nowhere.
            return Ok(0);
        }
        if how & libc::MSG_PEEK == 0 {
            let mut done = 0;
            while done < room {
                let Some(message) = receiver.peek() else {
                    break;
                };
                let count = message.len().min(room - done);
                receiver.advance(count);
                done += count;
            }
            return Ok(done);
        }
        if how & libc::MSG_TRUNC != 0 {
            return Ok(receiver.queued_bytes().min(room));
        }
        if let [part] = parts {
            // SAFETY: the caller's buffer.
            let into =
                unsafe { std::slice::from_raw_parts_mut(part.iov_base.cast::<u8>(), part.iov_len) };
            let count = receiver.copy(DATA, into);
            if count == 0 {
                spoil_unless_data(&mut receiver);
            }
            return Ok(count);
        }
        let mut all = vec![0; room];
        let count = receiver.copy(DATA, &mut all);
        if count == 0 {
            spoil_unless_data(&mut receiver);
        }
        let mut at = 0;
        for part in parts {
            let piece = part.iov_len.min(count - at);
            if piece == 0 {
                continue;
            }
            // SAFETY: the caller's buffer.
            unsafe {
                std::ptr::copy_nonoverlapping(all[at..].as_ptr(), part.iov_base.cast::<u8>(), piece)
            };
            at += piece;
        }
        Ok(count)
    }

    /// Whether nothing more will come than what is in the ring.
    #[inline]
    fn over(&self) -> bool {
        let peer = self.peer_flags().load(Ordering::Acquire);
        let own = self.flags().load(Ordering::Relaxed);
        peer & (flags::FIN | flags::CLOSED | flags::RESET) != 0
            || (peer | own) & flags::REVOKED != 0
            || self.state() & (state::GONE | state::READ_SHUT) != 0
            || self.end.receiver().is_corrupt()
    }

    /// Whether the peer has said its end in the channel, though it, or this end, has left: it is on its way through the twin.
    fn was_told_the_end(&self) -> bool {
        self.peer_flags().load(Ordering::Acquire) & flags::FIN != 0
    }

    /// What a reader is told then.
    #[cold]
    fn ended(&self) -> Result {
        let fin = self.peer_flags().load(Ordering::Acquire) & flags::FIN != 0;
        if !fin && self.is_reset() && self.note(state::TOLD) & state::TOLD == 0 {
            return Err(Errno::CONNRESET);
        }
        if fin {
            self.note(state::HEARD);
        }
        Ok(0)
    }

    /// Waits for `want`. A call that has done a `part` is ended by any handler, whatever SA_RESTART says: as with the kernel,
    /// it gives that part.
    #[cold]
    #[inline(never)]
    pub(super) fn pause(
        &self,
        fd: RawFd,
        description: &Description,
        want: Events,
        part: bool,
        deadline: &mut Option<Deadline>,
    ) -> std::result::Result<(), Errno> {
        if deadline.is_none() {
            *deadline = self.timeout(want.has(Events::OUT)).map(Deadline::after);
        }
        match wait_one(fd, description, self, want, *deadline) {
            Wait::Ready => Ok(()),
            Wait::TimedOut => Err(Errno::AGAIN),
            // As the kernel: with a time limit a call is never taken up again.
            Wait::Interrupted if !part && deadline.is_none() && crate::signals::goes_on() => Ok(()),
            Wait::Interrupted => Err(Errno::INTR),
            Wait::Closed => Err(Errno::BADF),
        }
    }
}

/// What has no bytes, or is of another kind, no sender of a stream writes; but the peer's process may, or its machine. The lock is
/// held.
#[cold]
fn spoil_unless_data<T: Target>(receiver: &mut Receiver<'_, T>) {
    let foreign = (receiver.peek()).is_some_and(|it| it.kind() != DATA || it.is_empty());
    if foreign {
        receiver.spoil();
    }
}
