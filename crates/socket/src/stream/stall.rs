// SPDX-License-Identifier: Apache-2.0
//! A writer that finds no room for long: the connection leaves its rings, which hold less than the kernel's buffers.
//!
//! Programs of which both ends write all before they read, or of which one writes while the other waits for something else,
//! work over the kernel as long as its buffers hold what they write: some megabytes. A ring holds an eighth of one. So who has found
//! no room for long, while nothing was taken, and has nothing else to do, goes over to the kernel's buffers. A reader that is
//! merely slow costs that, too: the acceleration, and nothing else.

use std::sync::atomic::Ordering;

use shm::channel::{Control, End};

use super::{Stream, word};
use crate::raw;
use crate::ready::Events;

/// How long both ends have found no room, in milliseconds.
const BOTH: u32 = 400;
/// How long one of them has: its reader may be busy, and will be back.
const ONE: u32 = 2_000;

/// Milliseconds, of an arbitrary beginning.
fn now() -> u32 {
    raw::shared_milliseconds() as u32
}

/// Whether the end's writer has found no room for so many milliseconds, as far as it says itself.
fn has_waited(end: &Control, long: u32) -> bool {
    let since = end.words[word::STARVED].load(Ordering::Acquire);
    since != 0
        && end.full_at.load(Ordering::Relaxed) == end.sender.next.load(Ordering::Acquire)
        && now().wrapping_sub(since) as i32 > long as i32
}

impl Stream {
    /// Notes that a writer found no room: room is then an event. Who polls does so without the sender's lock: at worst the time is of a
    /// moment ago, or noted for bytes that have gone on, which counts for nothing.
    #[cold]
    pub(super) fn starve(&self) {
        let own = self.own();
        let next = own.sender.next.load(Ordering::Relaxed);
        if own.words[word::STARVED].load(Ordering::Relaxed) == 0
            || own.full_at.load(Ordering::Relaxed) != next
        {
            own.full_at.store(next, Ordering::Relaxed);
            own.words[word::STARVED].store(now() | 1, Ordering::Release);
        }
    }

    /// Whether who waits for `want` waits for room that is not likely to come, and for nothing that is there.
    #[inline]
    pub(crate) fn waits_for_room(&self, want: Events) -> bool {
        want.has(Events::OUT | Events::WRNORM) && !self.end.sender().writable() && {
            let asks = want.has(Events::IN | Events::RDNORM);
            self.has_stalled() && !(asks && self.end.receiver().readable())
        }
    }

    #[cold]
    fn has_stalled(&self) -> bool {
        if !self.is_open() || self.far.is_some() || self.is_unusual() {
            return false;
        }
        let own = self.own();
        has_waited(own, ONE)
            || has_waited(own, BOTH) && has_waited(self.peer(), BOTH) && !self.peer_has_room()
    }

    fn peer_has_room(&self) -> bool {
        let peer = End::new(self.end.channel().clone(), self.end.half() ^ 1);
        peer.sender().writable()
    }
}
