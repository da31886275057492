// SPDX-License-Identifier: Apache-2.0
//! Shutdown and close.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::net::sockopt;
use shm::channel::{armed, flags};

use super::readiness::ENDS;
use super::{KERNEL, Stream, borrow, option, state, word};
use crate::table::Description;
use crate::{process, ready};

impl Stream {
    /// Shuts directions down; ENOTCONN where both ends had ended before, or the connection was broken off. The twin
    /// stays as it is: doorbells need it.
    pub fn shutdown(&self, fd: RawFd, read: bool, write: bool) -> Result<(), Errno> {
        let over = self.is_over();
        let said = self.unless_retired(|| {
            if read {
                self.note(state::READ_SHUT);
            }
            self.say_shut(write)
        });
        match said {
            None => return self.shutdown_past(fd, read, write),
            Some(true) => {
                self.ring_if_armed(fd, armed::DATA | armed::SPACE);
            }
            Some(false) => {}
        }
        // Threads of this side that sleep shall see it: the twin's end wakes them, and only that can. Before the peer has
        // come they sleep for moments only, and the twin may have to carry data yet. Who waits for data alone does not care
        // whether this side still sends; and a twin that was shut for reading can carry no more, see `retire`.
        let concerned = match read {
            true => armed::DATA | armed::SPACE,
            false => armed::SPACE,
        };
        if self.attached()
            && self.own().armed.load(Ordering::Acquire) & concerned != 0
            && self.note(state::TWIN_SHUT) & state::TWIN_SHUT == 0
        {
            let _ = rustix::net::shutdown(borrow(fd), rustix::net::Shutdown::Read);
        }
        if over { Err(Errno::NOTCONN) } else { Ok(()) }
    }

    /// Says something that who leaves the rings has to know by then, and sends on. None: an end has left before, and nothing was
    /// said. Who leaves holds this lock as well; a handler that interrupts a call on the same socket has it already.
    fn unless_retired<T>(&self, say: impl FnOnce() -> T) -> Option<T> {
        let _sending = self.end.lock_sender();
        (!self.is_retired()).then(say)
    }

    /// Tells the peer which directions are shut down, of which writing may be the last. Says whether it is to be woken.
    fn say_shut(&self, write: bool) -> bool {
        let own = self.flags().load(Ordering::Acquire);
        // After a reset nothing is sent any more, an end in order neither.
        let cut = own & flags::RESET != 0 || self.is_reset() || self.state() & state::BROKEN != 0;
        let fin = match write && !cut {
            true => flags::FIN,
            false => 0,
        };
        // In one step, so that the peer sees one end. If two threads shut a direction each, the later one sees both.
        let deaf = match self.state() & state::READ_SHUT != 0 && (own | fin) & flags::FIN != 0 {
            true => flags::DEAF,
            false => 0,
        };
        self.flags().fetch_or(fin | deaf, Ordering::AcqRel);
        if fin != 0 && self.state() & state::READ_SHUT != 0 {
            self.flags().fetch_or(flags::DEAF, Ordering::AcqRel);
        }
        write || deaf != 0
    }

    /// Something was sent to a peer that has shut down both directions: it is lost, and the connection is over for both.
    #[cold]
    pub(super) fn answer_for_deaf(&self, fd: RawFd) {
        self.note(state::BROKEN);
        self.flags().fetch_or(flags::RESET, Ordering::AcqRel);
        self.ring_if_armed(fd, armed::DATA | armed::SPACE);
    }

    /// The same of a connection that has retired: the ring's part of it here, the kernel's there.
    #[cold]
    fn shutdown_past(&self, fd: RawFd, read: bool, write: bool) -> Result<(), Errno> {
        if read {
            self.note(state::READ_SHUT);
        }
        let over = self.is_over();
        if write {
            self.flags().fetch_or(flags::FIN, Ordering::AcqRel);
        }
        // What lay in the ring goes first, and then the end if it was said by then.
        self.pass_on(fd)?;
        let how = match (read, write) {
            (true, true) => rustix::net::Shutdown::Both,
            (true, false) => rustix::net::Shutdown::Read,
            _ => rustix::net::Shutdown::Write,
        };
        match rustix::net::shutdown(borrow(fd), how) {
            // The twin was told with what lay in the ring, and its peer has ended as well.
            Err(Errno::NOTCONN) if !over => Ok(()),
            said => said,
        }
    }

    /// Whether the peer says nothing more.
    pub fn has_ended(&self) -> bool {
        self.peer_flags().load(Ordering::Acquire) & ENDS != 0 || self.state() & state::GONE != 0
    }

    /// Whether nothing can pass any more in either direction: to the kernel, a closed connection.
    pub fn is_over(&self) -> bool {
        let ended = self.has_ended();
        let shut = self.flags().load(Ordering::Relaxed) & flags::FIN != 0;
        ended && shut || self.state() & state::BROKEN != 0 || self.is_reset()
    }

    /// The program dissolves the connection (connect to AF_UNSPEC): to the peer a reset, and the descriptor is a socket of the
    /// kernel without a connection.
    #[cold]
    pub fn dissolve(&self, fd: RawFd, description: &Description) -> Result<(), Errno> {
        let twin = borrow(fd);
        let over = flags::RESET | flags::CLOSED | flags::DISSOLVED;
        self.flags().fetch_or(over, Ordering::AcqRel);
        self.ring_if_armed(fd, armed::DATA | armed::SPACE);
        let dissolved = rustix::net::connect_unspec(twin);
        let _ = sockopt::set_tcp_nodelay(twin, self.has_option(option::NODELAY));
        if self.has_option(option::CORK) {
            let _ = sockopt::set_tcp_cork(twin, true);
        }
        self.follow_dissolved(fd, description);
        dissolved
    }

    /// Whether somebody who shares this end has dissolved the connection.
    pub(super) fn is_dissolved(&self) -> bool {
        self.flags().load(Ordering::Acquire) & flags::DISSOLVED != 0
    }

    /// The kernel's from now on in this process, too.
    #[cold]
    pub(super) fn follow_dissolved(&self, fd: RawFd, description: &Description) {
        if self.phase.swap(KERNEL, Ordering::AcqRel) != KERNEL {
            self.unmark(fd);
            process::close(self.channel);
            ready::changed(description);
        }
    }

    /// The process has no more use of it, and may not say so itself.
    pub fn leave(&self, fd: RawFd) {
        if self.is_open() && self.is_revoked() {
            self.sever(fd);
        }
    }

    /// The process ends without having closed it, and is not counted as its user any more.
    pub fn leave_at_exit(&self, fd: RawFd) {
        if self.is_dissolved() {
            return;
        }
        self.leave(fd);
        if self.is_open() && self.is_retired() {
            let _ = self.pass_on_at_end(fd);
            return;
        }
        if self.is_open() && self.own().refs.load(Ordering::Acquire) == 0 && !self.attached() {
            self.leave_behind(fd);
        }
    }

    /// What the connection was used for says whether the next one to its address is worth a channel.
    fn learn(&self, fd: RawFd) {
        if self.end.half() == 0
            && self.attached()
            && let Some(address) = crate::address::remote(fd)
        {
            crate::avoided::came(address);
            if self.far.is_some() {
                return;
            }
            let carried = |messages: &AtomicU64, bytes: &AtomicU64| crate::short::Carried {
                messages: messages.load(Ordering::Relaxed),
                bytes: bytes.load(Ordering::Relaxed),
            };
            let (out, back) = (&self.own().sender, &self.own().receiver);
            let (out, back) = (
                carried(&out.messages, &out.bytes),
                carried(&back.messages, &back.bytes),
            );
            crate::short::ended(address, out, back);
        }
    }

    /// The last descriptor of this process is about to be closed.
    pub fn close(&self, fd: RawFd) {
        if self.is_kernel() || self.is_failed() {
            if self.far.is_some() {
                // Then the daemon need not find out by itself.
                self.flags().fetch_or(flags::CLOSED, Ordering::AcqRel);
            }
            if self.is_retired() {
                process::close(self.channel);
            }
            return;
        }
        if self.is_dissolved() {
            return process::close(self.channel);
        }
        self.leave(fd);
        self.learn(fd);
        let last = self.own().refs.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            if !self.attached() {
                self.leave_behind(fd);
            }
            if self.unless_retired(|| self.say_closed()).is_some() {
                self.ring_if_armed(fd, armed::DATA | armed::SPACE);
            } else if self.is_open() && self.pass_on_at_end(fd) {
                // Unread bytes end a connection with a reset, in the kernel, too.
                let zero = Some(std::time::Duration::ZERO);
                let _ = sockopt::set_socket_linger(borrow(fd), zero);
            }
        }
        if self.is_open() {
            process::close_shared(self.channel, !last || self.is_under_way());
        } else if !self.is_under_way() {
            process::withdraw(self.intent);
        }
    }

    fn say_closed(&self) {
        let unread = self.end.receiver().readable();
        // Of a connection that was broken off the program was told a reset, or would be: its end is none in order either.
        let reset = self.flags().load(Ordering::Relaxed) & flags::RESET != 0 || self.is_revoked();
        let end = if unread || reset || self.has_option(option::RESET) {
            flags::RESET
        } else {
            flags::FIN
        };
        self.flags().fetch_or(end | flags::CLOSED, Ordering::AcqRel);
    }

    /// Whether it is on its way to another program or process, which will ask the daemon for the channel.
    fn is_under_way(&self) -> bool {
        self.own().words[word::RESERVED].load(Ordering::Acquire) != 0
    }
}
