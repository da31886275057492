// SPDX-License-Identifier: Apache-2.0
//! A peer that makes no call: what it has sent is sent on in its place.
//!
//! An end that leaves the rings and reads its own no more needs its peer to send on what lies there. A peer that sleeps in a call is
//! woken for it; one that computes, waits for something else or is stopped would do it at its next call, for which the program
//! here may be waiting in vain. Where this process may trace the peer's, the kernel gives it a copy of the peer's descriptor
//! (`pidfd_getfd`). So it is one more process that shares that end, for as long as it takes to send on what lies in the ring.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use shm::channel::{End, armed, flags};

use super::{OPEN, Stream, borrow, retire, state, word};
use crate::{address, holders, process, wait};

/// How often a peer is looked at that may have been woken, and how long lies between two looks.
const LOOKS: u32 = 30;
const NAP: Duration = Duration::from_micros(100);
/// Nobody reads meanwhile: what is sent on has to fit into the kernel's buffers, as the library's own rings do.
const MOST: usize = 1 << 17;

impl Stream {
    /// Sends on what the peer has sent and said, if it does not do so itself at once. This end has retired, and reads no more.
    ///
    /// Also where there is nothing: the last bell is taken out of the peer's twin, where it would make the peer's death a reset. To who
    /// sleeps it is left.
    #[cold]
    pub(super) fn stand_in(&self, fd: RawFd) {
        if self.end.receiver().queued_bytes() > MOST {
            return;
        }
        for _ in 0..LOOKS {
            if self.has_sent_on() {
                return;
            }
            // The last bell wakes who sleeps.
            if !self.awaits_peer() && !self.end.peer_armed(armed::DATA | armed::SPACE) {
                break;
            }
            let _ = rustix::thread::nanosleep(&wait::timespec(NAP));
        }
        let peer = self.as_the_peer();
        if self.has_sent_on() || !peer.bells_are_out() {
            return;
        }
        let Some(twin) = self.peers_twin(fd) else {
            return;
        };
        let twin = twin.as_raw_fd();
        let sent = peer.pass_on_once(twin);
        if sent == Ok(true) && !self.end.peer_armed(armed::DATA | armed::SPACE) {
            // A bell behind the end of both directions would be answered with a reset.
            if peer.take_counted(twin) == Ok(0) {
                peer.shut_reading(twin);
            }
        }
        process::trace(|| {
            let channel = self.channel;
            format!("channel {channel}: what its peer had sent was sent on in its place: {sent:?}")
        });
    }

    /// Whether the peer, or somebody in its place, has sent on what it had sent and said.
    pub(super) fn has_sent_on(&self) -> bool {
        self.peer().words[word::STATE].load(Ordering::Acquire) & state::FLUSHED != 0
    }

    /// Whether this end reads no more, and bytes or an end of the peer's are still to come.
    fn awaits_peer(&self) -> bool {
        let own = self.flags().load(Ordering::Acquire);
        let said = self.peer_flags().load(Ordering::Acquire) & flags::FIN != 0;
        let peer = self.peer().words[word::STATE].load(Ordering::Acquire);
        let reads = own & (flags::RETIRED | flags::READS_ON) != flags::RETIRED;
        // Who is about to send it on has taken it out of the ring before.
        let there = peer & state::FLUSHING != 0 || self.end.receiver().readable();
        !reads && peer & state::FLUSHED == 0 && (said || there)
    }

    /// The peer's end, as a process has it that shares it. It is not counted as a user.
    pub(super) fn as_the_peer(&self) -> Self {
        Self {
            end: End::new(self.end.channel().clone(), self.end.half() ^ 1),
            channel: self.channel,
            intent: 0,
            phase: AtomicU8::new(OPEN),
            looked: AtomicU64::new(0),
            used_as: AtomicI32::new(-1),
            born: self.born,
            daemon: self.daemon,
            far: None,
            request: crate::cost::Request::default(),
        }
    }

    fn bells_are_out(&self) -> bool {
        let words = &self.own().words;
        let begun = words[word::BELLS].load(Ordering::Acquire);
        retire::ahead(begun, words[word::RUNG].load(Ordering::Acquire)) == 0
    }

    /// A copy of the peer's descriptor. None: nobody is found who has it, or who may be asked.
    fn peers_twin(&self, fd: RawFd) -> Option<OwnedFd> {
        let ends = [address::remote(fd)?, address::local(fd)?];
        let inode = self.peer().inode.load(Ordering::Relaxed);
        let likely = self.peer().pid.load(Ordering::Relaxed);
        holders::of(inode, Some(likely)).find_map(|(pid, number)| copy_from(pid, number, ends))
    }

    /// Notes which socket the twin is, for the peer.
    pub(crate) fn note_inode(&self, fd: RawFd) {
        if let Ok(twin) = rustix::fs::fstat(borrow(fd)) {
            self.own()
                .inode
                .store(twin.st_ino as u32, Ordering::Relaxed);
        }
    }
}

/// A copy of a process's socket, if its ends are these: what the channel says of the peer, the peer has written.
fn copy_from(pid: u32, number: RawFd, ends: [SocketAddr; 2]) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid.try_into().ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let copy = pidfd_getfd(process.as_fd(), number, PidfdGetfdFlags::empty()).ok()?;
    let at = copy.as_raw_fd();
    ([address::local(at)?, address::remote(at)?] == ends).then_some(copy)
}
