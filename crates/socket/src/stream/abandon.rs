// SPDX-License-Identifier: Apache-2.0
//! A connection whose peer never came to its channel: back to the kernel.
//!
//! The daemon promises a client that somebody with this library listens, but the connection may be accepted by a process
//! without it: one that inherited the listening socket, has another user id, or lost the daemon. The client notices when
//! bytes or an end arrive through the twin before the acceptor has attached, or when it has waited for long. It then gives
//! up the acceptor's [seat](super::seat) (an acceptor that comes later uses the kernel, too), sends what it had put into
//! the ring through the twin, and is a kernel socket from then on. On one machine an acceptor does the same with a client
//! that does not come: one that could not map the channel, or was killed.
//!
//! Nobody goes over who cannot know that the peer has taken nothing out of the ring: then the connection is reset, and so that
//! a peer that uses the kernel sees that too, the twin ends with a reset instead of an end in order ([`Stream::sever`]).

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use ipc::protocol::Fallback;
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use shm::channel::{End, flags};

use super::receive::DATA;
use super::{KERNEL, Result, Stream, borrow, option, seat, state, word};
use crate::ready::{self, Events};
use crate::signals::cancel;
use crate::signals::handlers::exposed;
use crate::table::Description;
use crate::{avoided, process, raw, reasons, wait};

/// How long a client that waits for an answer waits for its peer to attach.
const PATIENCE_MS: u64 = 400;

/// SO_LINGER as it was.
#[must_use]
pub(super) struct Held(Option<Option<std::time::Duration>>);

/// Whether the acceptor was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// It will use the kernel, whoever it is.
    Back,
    /// It has come, or will.
    Coming,
    /// Nobody can say.
    Unknown,
}

impl Stream {
    /// Whether the peer is not there, and is not likely to come.
    #[cold]
    pub(super) fn waits_in_vain(&self) -> bool {
        if self.never_came() || self.is_dissolved() {
            return true;
        }
        if self.attached() {
            return false;
        }
        if self.state() & state::PLAIN != 0 {
            return true;
        }
        // Between machines the client goes first, and the acceptor learns of it.
        (self.end.half() == 0 || self.far.is_none())
            && self.state() & state::COMING == 0
            && (self.state() & state::STRANGE != 0
                || seat::is_given_up(self.peer_flags())
                || raw::ticks().wrapping_sub(self.born) > raw::milliseconds(PATIENCE_MS))
    }

    /// Whether a wait is to take the connection back to the kernel, for its peer is not likely to come.
    #[inline]
    pub fn is_overdue(&self) -> bool {
        self.is_unusual() && self.is_open() && (self.is_past() || self.waits_in_vain())
    }

    /// The program cannot wait for its peer: the peer is given up at once. False: it has come.
    pub(super) fn force_back(&self, fd: RawFd, description: &Description) -> bool {
        self.note(state::STRANGE);
        self.abandon(fd, description).is_ok() && self.is_kernel()
    }

    /// Goes over to the kernel, if the peer is not likely to come or to read, before a wait says of the connection what only the next call
    /// would find out. What went wrong meanwhile, that call tells.
    #[cold]
    pub fn fall_back(&self, fd: RawFd, description: &Description) {
        let _ = match self.is_retired() {
            true => self.follow(fd, description),
            false if self.waits_for_room(Events::OUT) => {
                self.retire(fd, description, Fallback::Stalled);
                Ok(())
            }
            false => self.abandon(fd, description).map(drop),
        };
    }

    /// Goes over to the kernel if the peer is not likely to come. True: it has gone over.
    #[cold]
    pub(super) fn abandon(&self, fd: RawFd, description: &Description) -> Result<bool> {
        if self.is_kernel() {
            return Ok(true);
        }
        if self.is_dissolved() {
            self.follow_dissolved(fd, description);
            return Ok(true);
        }
        let Ok(guard) = self.end.lock_sender() else {
            return Ok(false);
        };
        let held = if seat::is_given_up(self.peer_flags()) {
            self.hold(fd)
        } else {
            if !self.waits_in_vain() {
                return Ok(false);
            }
            let strange = self.state() & (state::STRANGE | state::PLAIN) != 0;
            let held = self.hold(fd);
            if self.take_back() != Taken::Back {
                self.release(fd, held);
                return Ok(false);
            }
            reasons::note(match strange {
                true => Fallback::PlainPeer,
                false => Fallback::Late,
            });
            if self.end.half() == 0 {
                if let Some(address) = crate::address::remote(fd) {
                    avoided::waited_in_vain(address);
                }
                process::withdraw(self.intent);
            } else if self.far.is_none() {
                process::close(self.channel);
            }
            held
        };
        let flushed = if was_reset(fd) {
            // Nobody can take what lies in the ring, and to send it would take the error that the program is to be told.
            self.release(fd, held);
            Ok(())
        } else {
            self.flush(fd, held)
        };
        self.shut_reading(fd);
        self.unmark(fd);
        self.phase.store(KERNEL, Ordering::Release);
        drop(guard);
        ready::changed(description);
        flushed.map(|()| true)
    }

    /// The program closes before its peer has come, which therefore shall not come any more: what lies in the ring the
    /// kernel keeps, whoever accepts.
    pub(super) fn leave_behind(&self, fd: RawFd) {
        let Ok(_guard) = self.end.lock_sender() else {
            return;
        };
        let bytes = self.own().sender.next.load(Ordering::Acquire) != 0;
        let resets = self.has_option(option::RESET);
        // The other machine is not asked without need.
        let needless = !bytes || resets || self.end.half() == 1 || !self.is_open();
        if self.far.is_some() && needless {
            return;
        }
        let held = self.hold(fd);
        match self.take_back() {
            Taken::Back => {
                // A reset does not take back what was sent before. What the kernel does not take either, it would not have taken
                // from the program.
                let _ = self.flush(fd, held);
            }
            Taken::Coming => self.release(fd, held),
            // Whoever comes shall not take it for an end behind which nothing is missing.
            Taken::Unknown => self.sever(fd),
        }
    }

    /// Says in the channel that the peer is waited for no longer.
    fn take_back(&self) -> Taken {
        if self.far.is_some() {
            let taken = self.take_back_far();
            if taken != Taken::Back {
                return taken;
            }
        }
        if seat::give_up(self.peer_flags()) {
            Taken::Back
        } else {
            Taken::Coming
        }
    }

    /// The twin's end will be a reset: what was sent may not have arrived, and whoever has the other end as a socket of the
    /// kernel must not believe that it has.
    #[cold]
    pub(super) fn sever(&self, fd: RawFd) {
        if self.far.is_some() {
            process::trace(|| format!("channel {}: the kernel's end is a reset", self.channel));
            let _ = sockopt::set_socket_linger(borrow(fd), Some(std::time::Duration::ZERO));
        }
    }

    /// From here until [`Stream::release`] the death of this process is a reset: what lies in the ring would be missing, and
    /// the peer is free to use the kernel from the moment on in which it is given up.
    pub(super) fn hold(&self, fd: RawFd) -> Held {
        let twin = borrow(fd);
        let before = sockopt::socket_linger(twin).ok();
        let _ = sockopt::set_socket_linger(twin, Some(std::time::Duration::ZERO));
        Held(before)
    }

    fn release(&self, fd: RawFd, held: Held) {
        if let Held(Some(before)) = held {
            let _ = sockopt::set_socket_linger(borrow(fd), before);
        }
    }

    /// Sends what lies in the ring through the twin, as if it had been sent there at once. The sender's lock is held.
    ///
    /// The connection is held. Whoever is killed meanwhile leaves a twin that ends with a reset, and a mark: how much of it the kernel has taken
    /// nobody knows, and neither the peer nor others that share this end shall go on as if it were all or nothing.
    pub(super) fn flush(&self, fd: RawFd, held: Held) -> std::result::Result<(), Errno> {
        let twin = borrow(fd);
        let own = self.own();
        if self.note(state::FLUSHING) & state::FLUSHING != 0 {
            let _ = rustix::net::connect_unspec(twin);
            return Err(Errno::CONNRESET);
        }
        let sent = self.send_ring(fd);
        self.release(fd, held);
        own.words[word::STATE].fetch_and(!state::FLUSHING, Ordering::AcqRel);
        sent?;
        self.go_on_by(fd);
        Ok(())
    }

    /// What is sent goes through the twin from now on, which learns of the end that was said already, and of the options.
    pub(super) fn go_on_by(&self, fd: RawFd) {
        let twin = borrow(fd);
        if self.flags().load(Ordering::Relaxed) & flags::FIN != 0 {
            let _ = rustix::net::shutdown(twin, rustix::net::Shutdown::Write);
        }
        let _ = sockopt::set_tcp_nodelay(twin, self.has_option(option::NODELAY));
        if self.has_option(option::CORK) {
            let _ = sockopt::set_tcp_cork(twin, true);
        }
    }

    fn send_ring(&self, fd: RawFd) -> std::result::Result<(), Errno> {
        let twin = borrow(fd);
        // The peer's end, which nobody uses.
        let end = End::new(self.end.channel().clone(), self.end.half() ^ 1);
        let mut receiver = end.receiver();
        let mut buffer = [0; 4096];
        loop {
            let (count, _) = receiver.read(DATA, &mut buffer);
            if count == 0 {
                return Ok(());
            }
            let mut sent = 0;
            while sent < count {
                match rustix::net::send(
                    twin,
                    &buffer[sent..count],
                    SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
                ) {
                    Ok(more) => sent += more,
                    Err(Errno::INTR) => {}
                    // The ring is smaller than the kernel's buffers can be; if they are smaller still, this must wait.
                    Err(Errno::AGAIN) => {
                        let _ = sockopt::set_socket_send_buffer_size(twin, 1 << 18);
                        let _ = wait::poll_kernel(fd, Events::OUT, wait::HEARTBEAT);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Whether the twin has an error that nobody was told yet.
fn was_reset(fd: RawFd) -> bool {
    wait::poll_kernel(fd, Events::NONE, std::time::Duration::ZERO)
        .is_ok_and(|twin| twin.has(Events::ERR))
}

/// recvmsg or sendmsg on the kernel's socket.
///
/// # Safety
/// The buffers are as the call demands.
#[cold]
pub(super) unsafe fn kernel_call(
    call: libc::c_long,
    fd: RawFd,
    parts: &[libc::iovec],
    how: i32,
) -> Result {
    if how == 0
        && let [part] = parts
    {
        // A process that has confined itself may do this where it may do nothing else.
        let plain = match call {
            libc::SYS_sendmsg => libc::SYS_write,
            _ => libc::SYS_read,
        };
        // SAFETY: the caller's promise.
        return exposed(|| unsafe { cancel::transfer(plain, fd, part.iov_base, part.iov_len) });
    }
    let mut message = crate::calls::header(parts.as_ptr().cast_mut(), parts.len());
    let message = (&raw mut message).cast();
    // SAFETY: the caller's promise.
    exposed(|| unsafe { cancel::transfer(call, fd, message, how as usize) })
}
