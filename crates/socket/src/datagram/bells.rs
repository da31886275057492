// SPDX-License-Identifier: Apache-2.0
//! What wakes a socket that receives from other machines: the bells of their channels, and the daemon's notices of new ones, in
//! one descriptor, a set of epoll's. Only processes whose daemon serves other machines have one for each of their sockets.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use shm::channel::End;

use crate::private::Private;
use crate::stream::Far;

/// The set.
#[derive(Debug)]
pub(super) struct Bells(Private);

impl Bells {
    pub fn new() -> Option<Self> {
        epoll::create(CreateFlags::CLOEXEC)
            .ok()
            .map(Private::new)
            .map(Self)
    }

    pub fn number(&self) -> RawFd {
        self.0.number()
    }

    pub fn add(&self, bell: BorrowedFd<'_>) {
        // If it cannot be, whoever sleeps wakes by its heartbeat.
        let _ = epoll::add(&self.0, bell, EventData::new_u64(0), EventFlags::IN);
    }

    /// Before the descriptor is closed: a child may have it, too.
    pub fn remove(&self, bell: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, bell);
    }
}

/// Whether a daemon's notices have come to their end: it is gone.
pub(super) fn is_over(notices: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(notices, PollFlags::empty())];
    matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
}

/// Whose carrier has to be called after the end has written, or has taken something: `bits` as of
/// [`armed`](shm::channel::armed).
pub(super) fn caller(end: &End, far: Option<&Arc<Far>>, bits: u32) -> Option<Arc<Far>> {
    let far = far.filter(|_| end.peer_armed(bits))?;
    // Who carries by itself is asked always.
    if !far.calls_always() {
        let before = end.peer().armed.fetch_and(!bits, Ordering::AcqRel);
        if before & bits == 0 {
            return None;
        }
        end.own().counters.doorbells.fetch_add(1, Ordering::Relaxed);
    }
    Some(Arc::clone(far))
}
