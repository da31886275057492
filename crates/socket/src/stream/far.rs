// SPDX-License-Identifier: Apache-2.0
//! What differs when the peer is on another machine.
//!
//! The channel's memory is this machine's copy. Where a peer of the same machine would be rung, the daemon's NIC thread is
//! called, which carries what was written. The socket for that is the end's *tether*: forked children have it, too, so that
//! the daemon sees when nobody has the end any more. What the peer writes arrives in the memory by itself; who sleeps is woken by an
//! eventfd, the *bell*, which the daemon writes.
//!
//! Where the NIC has a driver the daemon gives its window away: it comes by the tether. From then on the process [carries](Window)
//! what it writes by itself, and the bell is the memory's own descriptor, which the driver rings when it was armed. Then no
//! daemon runs between a request and its answer. The twin only tells of the connection's life, and it may tell of its end
//! before the last bytes have arrived: so its end counts once the peer's daemon has said that nothing more comes.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use host::backend::rack::nic::arm;
use host::backend::rack::region_bytes;
use ipc::protocol::{Reply, Request};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use shm::channel::{Carrier, Channel, Copy, Hold, Outcome, Outgoing, flags};

use super::abandon::Taken;
use super::{Stream, borrow, state};
use crate::private::Private;
use crate::wait::never_spins;
use crate::{process, raw};

/// How long the last bytes of a peer may take after the end of its twin. The daemon says sooner that the other machine is
/// lost: this is for one that is there and never says that it has nothing more.
const PATIENCE_MS: u64 = 30_000;

/// The other machine's copy, as a descriptor of the NIC's driver.
#[derive(Debug)]
struct Window {
    file: Private,
    /// Where in the channel it begins.
    first: u64,
}

impl Copy for &Window {
    fn message(&mut self, message: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize> {
        let mut done = 0;
        while done < bytes {
            let at = at + done as u64;
            let from = message.place(at, bytes - done);
            // SAFETY: so many bytes are mapped there, which only the kernel reads, as they are: others of this end's processes
            // write there at most what garbles their own connection.
            let stored = unsafe {
                raw::call(
                    libc::SYS_pwrite64,
                    [
                        self.file.number() as usize,
                        from as usize,
                        bytes - done,
                        (at - self.first) as usize,
                        0,
                        0,
                    ],
                )
            };
            match stored {
                Ok(0) => return None,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(bytes)
    }

    fn word(&mut self, at: u64, word: &[u8]) -> bool {
        loop {
            match rustix::io::pwrite(self.file.as_fd(), word, at - self.first) {
                Ok(count) => return count == word.len(),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// What a connection to another machine has besides.
#[derive(Debug)]
pub struct Far {
    /// Written when something has arrived while this end was armed.
    bell: Private,
    /// Where the daemon is called; it also tells either side that the other is gone.
    tether: Private,
    /// Has this end's words carried, where the memory is a NIC's.
    carrier: Option<Carrier>,
    /// Where they go, once the daemon has given it.
    window: OnceLock<Window>,
    /// When the twin's end was noticed; 0: not yet.
    ended: AtomicU64,
}

impl Far {
    /// From the descriptors that the daemon gave, for the end that owns half `half`.
    pub fn new(bell: OwnedFd, tether: OwnedFd, channel: &Arc<Channel>, half: usize) -> Self {
        let device = region_bytes(bell.as_fd()).is_some();
        Self {
            bell: Private::new(bell),
            tether: Private::new(tether),
            carrier: device.then(|| Carrier::new(Arc::clone(channel), half)),
            window: OnceLock::new(),
            ended: AtomicU64::new(0),
        }
    }

    /// Whether this end need not be asked to call: it carries by itself, or calls until it can.
    pub fn calls_always(&self) -> bool {
        self.carrier.is_some()
    }

    /// The window, if the daemon has given it.
    fn window(&self) -> Option<&Window> {
        if let Some(window) = self.window.get() {
            return Some(window);
        }
        let first = self.carrier.as_ref()?.target().start;
        let file = Private::new(receive(self.tether.as_fd())?);
        Some(self.window.get_or_init(|| Window { file, first }))
    }

    /// Carries what this end has written; false if the daemon must.
    fn carry(&self) -> bool {
        let (Some(mut window), Some(carrier)) = (self.window(), &self.carrier) else {
            return false;
        };
        loop {
            match carrier.carry(Hold::Wait, 0, &mut window) {
                None => return false,
                // The window was taken back, or its peer is lost: the daemon knows, and says so in the flags.
                Some(Outcome::Never | Outcome::Later { busy: false }) => return true,
                Some(_) => {}
            }
            // A signal handler may have written in between, and left it to this thread; or another thread that found it busy.
            fence(Ordering::SeqCst);
            if !carrier.unsaid(0) {
                return true;
            }
        }
    }

    /// Has the driver ring for the next arrival. Look again afterwards.
    pub fn arm(&self) {
        if self.carrier.is_some() {
            // It cannot fail: the descriptor is a region's.
            let _ = arm(self.bell.as_fd(), true);
        }
    }

    /// The bell's number.
    #[inline]
    pub fn bell(&self) -> RawFd {
        self.bell.number()
    }

    /// The bell.
    pub fn bell_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Has what this end has written carried.
    pub fn call(&self) {
        if !self.carry() {
            self.call_daemon();
        }
    }

    #[cold]
    fn call_daemon(&self) {
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

    /// Whether the daemon that served the connection is gone.
    pub fn daemon_is_gone(&self) -> bool {
        let mut tether = [PollFd::new(&self.tether, PollFlags::empty())];
        matches!(
            rustix::event::poll(&mut tether, Some(&rustix::time::Timespec::default())),
            Ok(1..)
        )
    }
}

/// The descriptor that the daemon has sent, if it has.
#[cold]
fn receive(tether: BorrowedFd<'_>) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(
        tether,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        flags,
    )
    .ok()?;
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    })
}

impl Stream {
    /// The twin has ended; `far` is this connection's. Takes note once the peer's last word is here.
    #[cold]
    pub(super) fn far_end(&self, far: &Far) {
        self.note(state::TWIN_GONE);
        if far.ended.load(Ordering::Relaxed) == 0 {
            far.ended.store(raw::ticks().max(1), Ordering::Relaxed);
        }
        // If nobody ever came to the peer's end, its program's words are in the kernel's socket, and this end goes back to it. To
        // take that for an end would lose them, where a question to the daemon had no answer just before it was said.
        if self.peer_flags().load(Ordering::Acquire) & flags::DESERTED != 0 && !self.never_came() {
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
            && !self.never_came()
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
