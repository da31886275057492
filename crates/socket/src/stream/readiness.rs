// SPDX-License-Identifier: Apache-2.0
//! What an accelerated connection tells the calls that wait.

use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};

use shm::channel::{armed, flags};

use super::{CONNECTING, FAILED, KERNEL, OPEN, Stream, state, word};
use crate::ready::{Events, Pollable};

pub(super) const ENDS: u32 = flags::FIN | flags::CLOSED | flags::RESET;

/// The twin of a connection to another machine has nothing more to tell.
const FAR_OVER: u32 = state::GONE | state::STRANGE | state::TWIN_GONE;

impl Pollable for Stream {
    #[inline]
    fn ready(&self) -> Events {
        match self.phase.load(Ordering::Acquire) {
            OPEN => {}
            KERNEL => return Events::KERNEL,
            FAILED => return Events::IN | Events::OUT | Events::ERR | Events::HUP | Events::RDHUP,
            _ => return Events::NONE,
        }
        let peer = self.peer_flags().load(Ordering::Acquire);
        let own = self.flags().load(Ordering::Relaxed);
        let state = self.state();
        let mut events = Events::NONE;
        if self.end.receiver().readable() {
            events |= Events::IN;
        }
        if (own | peer) & flags::RETIRED == 0 && self.end.sender().writable() {
            events |= Events::OUT;
        }
        if peer & (ENDS | flags::ATTACHED) != flags::ATTACHED
            || (own | peer) & (flags::REVOKED | flags::RETIRED) != 0
            || own & (flags::FIN | flags::DISSOLVED) != 0
            || state != 0
        {
            events |= self.ends(peer, own, state);
        }
        events
    }

    fn arm(&self, want: Events) {
        if want.is_empty() {
            self.end.disarm(armed::DATA | armed::SPACE);
            fence(Ordering::SeqCst);
            return;
        }
        self.own().counters.sleeps.fetch_add(1, Ordering::Relaxed);
        if let Some(far) = &self.far {
            self.look_far(far);
        }
        // The end of the connection rings for data, so whoever sleeps sleeps for that, too.
        let space = if want.has(Events::OUT) {
            armed::SPACE
        } else {
            0
        };
        self.end.arm(armed::DATA | space);
        if let Some(far) = &self.far {
            far.arm();
        }
    }

    fn woken(&self, fd: RawFd, twin: Events) {
        match self.phase.load(Ordering::Acquire) {
            OPEN => {}
            CONNECTING => {
                if twin.has(Events::OUT | Events::ERR | Events::HUP) {
                    self.settle(fd);
                }
                return;
            }
            _ => return,
        }
        if let Some(far) = &self.far
            && twin.has(Events::BELL)
        {
            far.silence();
            if self.state() & state::TWIN_GONE != 0 {
                self.far_end(far);
            }
        }
        self.notice_end(twin);
        if !self.attached() {
            // Not a doorbell: only a peer that has attached rings, and none on another machine.
            if twin.has(Events::IN) && self.far.is_some() {
                self.look_for_plain(fd);
            }
            if twin.has(Events::IN) {
                self.note(state::STRANGE);
            }
            return;
        }
        if twin.has(Events::IN) {
            self.drain(fd);
        }
    }

    fn edges(&self) -> (u64, u64) {
        if !self.is_open() {
            return (0, 0);
        }
        let own = self.own();
        // As in the kernel, shutting the own direction wakes those who wait for edges, too.
        let shut = u64::from(self.flags().load(Ordering::Relaxed) & flags::FIN);
        // The peer's end is one edge, however many signs of it there are; only a reset can follow.
        let (peer, state) = (self.peer_flags().load(Ordering::Acquire), self.state());
        let ends = shut
            + u64::from(peer & ENDS != 0 || state & state::GONE != 0)
            + u64::from(peer & flags::RESET != 0)
            + u64::from(state & state::BROKEN != 0)
            + u64::from(state & state::READ_SHUT != 0)
            + u64::from(self.is_overdue());
        // An end has left the rings: what is sent goes by the kernel, which has room.
        let kernels_room = u64::from(self.is_retired());
        if own.words[word::STARVED].load(Ordering::Acquire) != 0
            && (self.end.sender().writable() || peer & flags::DEAF != 0)
            && own.words[word::STARVED].swap(0, Ordering::AcqRel) != 0
        {
            own.words[word::ROOM].fetch_add(1, Ordering::AcqRel);
        }
        // Coming about is the first edge of output.
        (
            self.end.receiver().arrived() + ends,
            1 + u64::from(own.words[word::ROOM].load(Ordering::Acquire)) + ends + kernels_room,
        )
    }

    fn twin_interest(&self, want: Events) -> Events {
        match self.phase.load(Ordering::Acquire) {
            CONNECTING => want | Events::OUT,
            // Its end is known: the kernel would report it for ever.
            OPEN if self.far.is_some() && self.state() & FAR_OVER != 0 => Events::SKIP,
            OPEN if self.state() & state::GONE != 0 => Events::NONE,
            OPEN if self.state() & state::STRANGE != 0 && !self.attached() => Events::NONE,
            OPEN if self.is_retired() => {
                let reads = want.has(Events::IN | Events::RDNORM | Events::RDHUP);
                // What the twin brings comes behind what is in the ring: who waits for room alone would not sleep for it.
                let behind = match self.reads_on() && !reads {
                    true => Events::NONE,
                    false => Events::IN | Events::RDHUP,
                };
                behind | want & (Events::OUT | Events::WRNORM)
            }
            OPEN => Events::IN | Events::RDHUP,
            _ => want,
        }
    }

    fn bell(&self) -> Option<RawFd> {
        self.far.as_ref().map(super::Far::bell)
    }

    fn heartbeat(&self) {
        if let Some(far) = &self.far {
            self.look_far(far);
        }
    }

    fn waited_for(&self, want: Events) {
        if want.has(Events::OUT | Events::WRNORM) && !self.end.sender().writable() {
            self.starve();
        }
    }

    fn is_stalled(&self, want: Events) -> bool {
        self.waits_for_room(want)
    }

    fn shared(&self) -> bool {
        // A peer that does not come rings for nothing either.
        self.own().refs.load(Ordering::Relaxed) > 1 || !self.attached()
    }
}

impl Stream {
    /// Events of a connection of which a direction has ended.
    #[cold]
    fn ends(&self, peer: u32, own: u32, state: u32) -> Events {
        let mut events = Events::NONE;
        if let Some(far) = &self.far
            && state & state::TWIN_GONE != 0
            && state & state::GONE == 0
        {
            self.far_end(far);
        }
        let state = self.state();
        if self.is_overdue() {
            return Events::KERNEL;
        }
        if self.is_retired() && self.twin_has_room() {
            // What is sent goes by the kernel, whatever room there is in the ring.
            events |= Events::OUT;
        }
        let reset = self.is_reset();
        let over = peer & ENDS != 0 || state & (state::GONE | state::READ_SHUT) != 0 || reset;
        let broken = reset || state & state::BROKEN != 0;
        if over {
            events |= Events::IN | Events::RDHUP;
        }
        if own & flags::FIN != 0
            || peer & (flags::CLOSED | flags::RESET | flags::DEAF) != 0
            || state & state::GONE != 0
            || broken
        {
            events |= Events::OUT;
        }
        if over && own & flags::FIN != 0 || broken {
            events |= Events::HUP;
        }
        if broken && self.pending_error().is_some() {
            events |= Events::ERR;
        }
        events
    }
}
