// SPDX-License-Identifier: Apache-2.0
//! What differs when the peer is on another machine.
//!
//! The channel's memory is this machine's copy. Where a peer of the same machine would be rung, the daemon's NIC thread is
//! called, which carries what was written. The socket for that is the end's *tether*: forked children have it, too, so that
//! the daemon sees when nobody has the end any more. What the peer writes arrives in the memory by itself; who sleeps is woken by an
//! eventfd, the *bell*, which the daemon writes. The twin only tells of the connection's life, and it may tell of its end
//! before the last bytes have arrived: so its end counts once the peer's daemon has said that nothing more comes.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use ipc::protocol::{Reply, Request};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use shm::channel::flags;

use super::abandon::Taken;
use super::{Stream, borrow, state};
use crate::private::Private;
use crate::wait::never_spins;
use crate::{process, raw};

/// How long the last bytes of a peer may take after the end of its twin. The daemon says sooner that the other machine is
/// lost: this is for one that is there and never says that it has nothing more.
const PATIENCE_MS: u64 = 30_000;

/// What a connection to another machine has besides.
#[derive(Debug)]
pub struct Far {
    /// Written when something has arrived while this end was armed.
    bell: Private,
    /// Where the daemon is called; it also tells either side that the other is gone.
    tether: Private,
    /// When the twin's end was noticed; 0: not yet.
    ended: AtomicU64,
}

impl Far {
    /// From the descriptors that the daemon gave.
    pub fn new(bell: OwnedFd, tether: OwnedFd) -> Self {
        Self {
            bell: Private::new(bell),
            tether: Private::new(tether),
            ended: AtomicU64::new(0),
        }
    }

    /// The bell's number.
    #[inline]
    pub fn bell(&self) -> RawFd {
        self.bell.number()
    }

    /// Has the daemon look at what this end has written.
    #[cold]
    pub fn call(&self) {
        // If there is no room, it has calls enough to wake up for; if it is gone, the next look tells.
        let _ = rustix::net::send(
            self.tether.as_fd(),
            &[0],
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
        // On one processor the message would wait for all that this thread does before it sleeps: the kernel's readings of
        // its clock for a time-out, say. The daemon's work for it is short.
        if never_spins() {
            rustix::thread::sched_yield();
        }
    }

    /// Makes the bell silent.
    pub fn silence(&self) {
        let mut count = [0; 8];
        // Somebody else may have done it.
        let _ = rustix::io::read(self.bell.as_fd(), &mut count);
    }

    fn daemon_is_gone(&self) -> bool {
        let mut tether = [PollFd::new(&self.tether, PollFlags::empty())];
        matches!(
            rustix::event::poll(&mut tether, Some(&rustix::time::Timespec::default())),
            Ok(1..)
        )
    }
}

impl Stream {
    /// The twin has ended; `far` is this connection's. Takes note once the peer's last word is here.
    #[cold]
    pub(super) fn far_end(&self, far: &Far) {
        self.note(state::TWIN_GONE);
        if far.ended.load(Ordering::Relaxed) == 0 {
            far.ended.store(raw::ticks().max(1), Ordering::Relaxed);
        }
        if self.peer_flags().load(Ordering::Acquire) & flags::DESERTED != 0 {
            self.note(state::GONE);
        }
    }

    /// Looks for what nobody rings for: a daemon that is gone, a peer whose last word does not come.
    #[cold]
    pub(super) fn look_far(&self, far: &Far) {
        if self.state() & state::TWIN_GONE != 0 {
            self.far_end(far);
        }
        let ended = far.ended.load(Ordering::Relaxed);
        let late = ended != 0
            && self.state() & state::GONE == 0
            && raw::ticks().wrapping_sub(ended) > raw::milliseconds(PATIENCE_MS);
        if late || far.daemon_is_gone() {
            let before = self.flags().fetch_or(flags::REVOKED, Ordering::AcqRel);
            if before & flags::REVOKED == 0 {
                process::trace(|| {
                    let why = match late {
                        true => "the other machine's last word does not come",
                        false => "the daemon is gone",
                    };
                    format!("channel {}: reset, {why}", self.channel)
                });
            }
        }
    }

    /// Looks whether the client on the other machine uses the kernel: its daemon may have lost this one's answer.
    #[cold]
    pub(super) fn look_for_plain(&self, fd: RawFd) {
        let mut byte = [0];
        let how = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        if self.end.half() == 1
            && !self.attached()
            && matches!(rustix::net::recv(borrow(fd), &mut byte, how), Ok((1.., _)))
        {
            self.note(state::PLAIN);
        }
    }

    /// Nobody has the peer's end any more, and nobody ever came to it: whoever has the other twin uses the kernel. Its daemon
    /// says both in one word.
    pub(super) fn never_came(&self) -> bool {
        let peer = self.peer_flags().load(Ordering::Acquire);
        self.far.is_some() && peer & (flags::DESERTED | flags::ATTACHED) == flags::DESERTED
    }

    /// The acceptor on the other machine has not come: both sides use the kernel, unless it has come after all.
    #[cold]
    pub(super) fn take_back_far(&self) -> Taken {
        if self.end.half() == 1 {
            // The client has gone over long ago.
            process::close(self.channel);
            return Taken::Back;
        }
        if self.never_came() {
            return Taken::Back;
        }
        if self.is_revoked() {
            // It may have come, and have taken what was sent, before the connection was lost.
            return Taken::Unknown;
        }
        match process::ask(&Request::Abandon {
            channel: self.channel,
        }) {
            Some((Reply::Kernel, _)) => Taken::Back,
            // A channel that is lost is revoked before its question is answered.
            Some((Reply::Wait, _)) if !self.is_revoked() => {
                self.note(state::COMING);
                Taken::Coming
            }
            _ => {
                if let Some(far) = &self.far {
                    self.look_far(far);
                }
                Taken::Unknown
            }
        }
    }
}
