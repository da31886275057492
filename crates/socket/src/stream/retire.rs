// SPDX-License-Identifier: Apache-2.0
//! A connection that leaves its rings while it is used: back to the kernel, at both ends.
//!
//! A program that is about to confine itself (seccomp), or to become one that cannot have the library, cannot use the rings
//! any more; others ask for what only the kernel can do, or have waited too long for room ([`Fallback`] has all reasons). The
//! end *retires*: holding the four locks of the channel, so that nobody writes or reads, it sets `RETIRED` and
//! closes both counts of bells. From then on
//!
//! - nobody rings any more. Either end takes exactly as many bytes out of its twin as were counted; what follows is data;
//! - either end writes to its twin, and reads its ring to the end before it reads its twin;
//! - the end that retires sends what its peer has not read through the twin, before anything else, if the kernel has room for it;
//! - its peer, at its next call or when it wakes, does the same, once, before it writes there. Until then the end that has retired
//!   may read its ring by itself;
//! - if it cannot (it will be another program, or the kernel is to serve what is under way, too), and its peer makes no call, it
//!   [stands in](super::stand_in) for it.
//!
//! The retiring end rings a last time, always: that wakes a peer that sleeps, and a peer that is killed before it has sent on
//! what lies in its ring leaves an unread byte, for which the kernel ends the connection with a reset. So nobody takes a part
//! for the whole.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ipc::protocol::Fallback;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use shm::channel::{Control, End, flags, seat};

use super::receive::DATA;
use super::{KERNEL, Stream, borrow, state, word};
use crate::ready::{self, Events};
use crate::table::{self, Description};
use crate::{process, reasons, wait};

/// In a count of bells: no more are rung.
const CLOSED: u32 = 1 << 31;
/// Looks for bells that are under way, a millisecond each.
const LOOKS: u32 = 2_000;

/// How many bells more.
pub(super) fn ahead(more: u32, less: u32) -> u32 {
    more.wrapping_sub(less) & !CLOSED
}

/// Counts a bell that is about to be rung. False: no more are rung.
pub(super) fn count_bell(own: &Control) -> bool {
    own.words[word::BELLS]
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count & CLOSED == 0).then_some(count.wrapping_add(1) & !CLOSED)
        })
        .is_ok()
}

/// A bell that was counted is in the twin, or is not.
pub(super) fn bell_rung(own: &Control, rung: bool) {
    if rung {
        own.words[word::RUNG].fetch_add(1, Ordering::AcqRel);
        return;
    }
    uncount(&own.words[word::BELLS]);
}

fn uncount(count: &AtomicU32) {
    let less = |now: u32| Some(now & CLOSED | ahead(now, 1));
    let _ = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
}

/// Whether the kernel takes so many bytes of an empty socket at once, whatever its peer reads.
fn makes_room(fd: RawFd, bytes: usize) -> bool {
    let twin = borrow(fd);
    // The kernel counts its own buffers, which are larger than what they hold.
    let enough = 2 * bytes + (1 << 16);
    let has = || sockopt::socket_send_buffer_size(twin).is_ok_and(|size| size >= enough);
    has() || sockopt::set_socket_send_buffer_size(twin, enough / 2).is_ok() && has()
}

impl Stream {
    /// Whether the connection is not simply in its rings: an end has not come yet, has retired, or was dissolved.
    #[inline(always)]
    pub(super) fn is_unusual(&self) -> bool {
        let peer = self.peer_flags().load(Ordering::Acquire);
        let own = self.flags().load(Ordering::Relaxed);
        peer & (flags::ATTACHED | flags::RETIRED) != flags::ATTACHED
            || own & (flags::RETIRED | flags::DISSOLVED) != 0
    }

    /// Whether either end has retired.
    #[inline]
    pub(super) fn is_retired(&self) -> bool {
        let both = self.peer_flags().load(Ordering::Acquire) | self.flags().load(Ordering::Acquire);
        both & flags::RETIRED != 0
    }

    /// Whether an end has retired and nothing is left to read in the ring: the kernel serves the next call.
    pub(super) fn is_past(&self) -> bool {
        self.is_retired() && !self.reads_on()
    }

    fn may_read(&self) -> bool {
        let peer = self.peer_flags().load(Ordering::Acquire);
        seat::may_read(self.flags().load(Ordering::Acquire), peer)
    }

    /// Whether this end still reads its ring, although an end has retired.
    pub(super) fn reads_on(&self) -> bool {
        self.may_read() && self.end.receiver().readable()
    }

    /// Whether the kernel would take something, of a connection of which an end has retired. Before the first call since then nobody
    /// has said by which descriptor, and that call finds out.
    #[cold]
    pub(super) fn twin_has_room(&self) -> bool {
        let fd = self.used_as.load(Ordering::Relaxed);
        let own = |description: &Description| {
            let stream = description.object().stream();
            stream.is_some_and(|stream| std::ptr::eq(stream, self))
        };
        if fd < 0 || !table::get(fd).is_some_and(|description| own(&description)) {
            return true;
        }
        wait::poll_kernel(fd, Events::OUT, Duration::ZERO).is_ok_and(|twin| !twin.is_empty())
    }

    /// Leaves the rings. True: the connection is the kernel's, with all that is under way; false: it cannot be.
    #[cold]
    pub fn retire(&self, fd: RawFd, description: &Description, why: Fallback) -> bool {
        if self.is_kernel() {
            return true;
        }
        if !self.is_open() || self.far.is_some() {
            return false;
        }
        if (!self.attached() || self.is_dissolved()) && self.force_back(fd, description) {
            reasons::note(why);
            return true;
        }
        // Only what is sent has to go by the kernel.
        let reads_on = matches!(why, Fallback::Stalled | Fallback::OutOfBand);
        if self.is_retired() || !self.close_rings(fd, reads_on) {
            // Where the peer, or who shares this end, was first, the rest is sent on as at any call since.
            return self.is_retired()
                && self.follow(fd, description).is_ok()
                && (reads_on || self.is_kernel() || self.stop_reading(fd, description));
        }
        reasons::note(why);
        process::trace(|| format!("channel {}: left, {}", self.channel, why.about()));
        let over = if self.reads_on() {
            self.used_as.store(fd, Ordering::Relaxed);
            self.own_bells_are_out(fd);
            ready::changed(description);
            true
        } else {
            self.leave_the_rest(fd, description)
        };
        self.go_on_by(fd);
        over
    }

    /// What lies in the ring is the peer's to send on, if this end has left and does not read it.
    fn leave_the_rest(&self, fd: RawFd, description: &Description) -> bool {
        let own = self.flags().load(Ordering::Acquire);
        if own & (flags::RETIRED | flags::READS_ON) == flags::RETIRED {
            self.stand_in(fd);
            if self.was_left(fd) {
                if self.come_back() {
                    return false;
                }
                self.break_off(fd);
            }
        }
        self.go_over(fd, description)
    }

    /// The peer has died before it sent anything on: this end reads its ring as if it had not left. False: a process that has it
    /// relies on the kernel already, or nobody knows how much was sent on.
    fn come_back(&self) -> bool {
        let back = self.hold_all(|| {
            let begun = self.peer().words[word::STATE].load(Ordering::Acquire) & state::FLUSHING;
            if begun != 0 || self.state() & state::OVER != 0 {
                return false;
            }
            self.note(state::GONE);
            let back = |own| Some(seat::come_back(own));
            let own = self.flags();
            own.fetch_update(Ordering::AcqRel, Ordering::Acquire, back)
                .is_ok()
        });
        back.unwrap_or(false)
    }

    /// Says that a process of this end relies on the kernel from now on. False: the end that had left has come back.
    fn say_over(&self) -> bool {
        let _sending = self.end.lock_sender();
        let over = self.is_retired();
        if over {
            self.note(state::OVER);
        }
        over
    }

    /// This end has retired and reads on, which it can no longer. False: it has not retired, its peer has.
    fn stop_reading(&self, fd: RawFd, description: &Description) -> bool {
        let stopped = self.hold_all(|| {
            self.flags()
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, seat::stop_reading)
        });
        matches!(stopped, Some(Ok(_))) && self.leave_the_rest(fd, description)
    }

    /// The program has set an option that only the kernel can follow. True: the kernel follows.
    #[cold]
    pub fn leave_for_option(&self, fd: RawFd, description: &Description) -> bool {
        if self.settle(fd) || self.is_kernel() || self.is_failed() {
            return self.is_failed() || self.retire(fd, description, Fallback::Option);
        }
        let left = self.far.is_none() && self.force_back(fd, description);
        if left {
            reasons::note(Fallback::Option);
        }
        left
    }

    /// Sets the flags, holding all locks, and rings the last bell.
    fn close_rings(&self, fd: RawFd, reads_on: bool) -> bool {
        self.hold_all(|| self.set_retired(fd, reads_on))
            .unwrap_or(false)
    }

    /// Does something holding the four locks of the channel, of which the dead have none. None: they cannot be had.
    fn hold_all<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let channel = self.end.channel();
        let [first, second] = [0, 1].map(|half| End::new(channel.clone(), half));
        // Always in this order.
        let _a = first.lock_sender().ok()?;
        let _b = first.lock_receiver().ok()?;
        let _c = second.lock_sender().ok()?;
        let _d = second.lock_receiver().ok()?;
        Some(act())
    }

    /// The step of `close_rings` that holds all locks.
    fn set_retired(&self, fd: RawFd, reads_on: bool) -> bool {
        let peer = self.peer_flags().load(Ordering::Acquire);
        // A peer that has died sends nothing on.
        self.look_now(fd);
        if self.state() & state::GONE != 0
            || self.has_deaf_twin()
            || self.as_the_peer().has_deaf_twin()
        {
            return false;
        }
        let step = |own| seat::retire(own, peer, reads_on);
        let retired = self
            .flags()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
        if retired.is_err() {
            return false;
        }
        self.close_bells(fd);
        self.pass_on_own(fd, peer);
        true
    }

    /// Sends through the twin what the peer has not read, too, if the kernel's buffers hold it: so the peer has all in one place, and may
    /// itself leave the ring. Nobody reads meanwhile, for all locks are held.
    fn pass_on_own(&self, fd: RawFd, peer: u32) {
        let queued = self.as_the_peer().end.receiver().queued_bytes();
        if queued > 0 && peer & flags::DEAF == 0 && makes_room(fd, queued) {
            self.own_bells_are_out(fd);
            let held = self.hold(fd);
            self.flags().fetch_or(flags::PASSED, Ordering::AcqRel);
            let _ = self.flush(fd, held);
        }
    }

    /// Who died when it had sent on a part of what its peer had not read leaves a connection that nobody can go on with. AGAIN: a
    /// handler of a signal asks in the middle of it.
    fn end_passing(&self, fd: RawFd) -> Result<(), Errno> {
        let begun = || self.state() & state::FLUSHING != 0;
        if begun() && self.hold_all(begun).ok_or(Errno::AGAIN)? {
            self.break_off(fd);
        }
        Ok(())
    }

    /// Whether the twin was shut for reading to wake sleepers, though the program still reads: what came that way would be lost.
    fn has_deaf_twin(&self) -> bool {
        self.state() & (state::TWIN_SHUT | state::READ_SHUT) == state::TWIN_SHUT
    }

    /// Closes both counts of bells, as far as they are not, holding all locks. The end that has retired rings a last time.
    fn close_bells(&self, fd: RawFd) {
        self.peer().words[word::BELLS].fetch_or(CLOSED, Ordering::AcqRel);
        let bells = &self.own().words[word::BELLS];
        if self.flags().load(Ordering::Acquire) & flags::RETIRED == 0 {
            bells.fetch_or(CLOSED, Ordering::AcqRel);
            return;
        }
        // One more, counted before anybody else can see that there will be no other.
        let last = |count: u32| (count & CLOSED == 0).then_some(count.wrapping_add(1) | CLOSED);
        let open = bells.fetch_update(Ordering::AcqRel, Ordering::Acquire, last);
        if open.is_ok() {
            let how = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let rung = rustix::net::send(borrow(fd), &[0], how).is_ok();
            bell_rung(self.own(), rung);
        }
    }

    /// Ends what a process had begun that died when it had set `RETIRED`, and no more: until then bells could still be rung,
    /// which the kernel would give to a program as data.
    fn end_retirement(&self, fd: RawFd) {
        let counts = [self.own(), self.peer()].map(|end| &end.words[word::BELLS]);
        if counts.map(|count| count.load(Ordering::Acquire) & CLOSED) != [CLOSED; 2] {
            self.hold_all(|| self.close_bells(fd));
        }
    }

    /// A retired connection, seen from either end: the kernel serves from now on, or, where this end reads its ring, once that is
    /// read. What this end sends goes by the kernel in any case.
    #[cold]
    pub(super) fn follow(&self, fd: RawFd, description: &Description) -> Result<(), Errno> {
        if self.is_kernel() {
            return Ok(());
        }
        self.used_as.store(fd, Ordering::Relaxed);
        self.pass_on(fd)?;
        if !self.reads_on() {
            self.leave_the_rest(fd, description);
        }
        Ok(())
    }

    /// Sends what the retired peer has not read, once.
    pub(super) fn pass_on(&self, fd: RawFd) -> Result<(), Errno> {
        self.end_retirement(fd);
        if self.flags().load(Ordering::Acquire) & flags::RETIRED != 0 {
            // The same process may read on, and write to the twin: nothing but its own bells comes before.
            self.own_bells_are_out(fd);
            return self.end_passing(fd);
        }
        let sent = self.pass_on_once(fd);
        if sent != Ok(false) {
            // The last bell was left until here: it stands for what was not sent yet.
            self.take_bells(fd);
        }
        sent.map(drop)
    }

    /// The same of an end that has not retired. False: it was done before.
    pub(super) fn pass_on_once(&self, fd: RawFd) -> Result<bool, Errno> {
        // Nobody reads meanwhile, who may have read on until now. The locks are taken in the order of `hold_all`.
        let peer = End::new(self.end.channel().clone(), self.end.half() ^ 1);
        let locks = match self.end.half() {
            0 => (self.end.lock_sender(), peer.lock_receiver()),
            _ => {
                let reading = peer.lock_receiver();
                (self.end.lock_sender(), reading)
            }
        };
        let (Ok(_sending), Ok(_reading)) = locks else {
            return Err(Errno::AGAIN);
        };
        if self.state() & state::FLUSHED != 0 {
            return Ok(false);
        }
        self.own_bells_are_out(fd);
        self.peer_flags()
            .fetch_and(!flags::READS_ON, Ordering::AcqRel);
        let held = self.hold(fd);
        let sent = self.flush(fd, held).map(|()| true);
        self.note(state::FLUSHED);
        sent
    }

    /// The program has no more use of the connection. Says whether it leaves bytes unread in its ring.
    #[cold]
    pub(super) fn pass_on_at_end(&self, fd: RawFd) -> bool {
        let _ = self.pass_on(fd);
        self.own_bells_are_out(fd);
        self.take_bells(fd);
        self.reads_on()
    }

    /// No bell of this end comes any more, all of the peer's are taken: the kernel's from now on.
    fn go_over(&self, fd: RawFd, description: &Description) -> bool {
        self.own_bells_are_out(fd);
        let taken = self.take_bells(fd);
        if !self.say_over() {
            return false;
        }
        if self.phase.swap(KERNEL, Ordering::AcqRel) != KERNEL {
            self.unmark(fd);
            self.shut_reading(fd);
            if self.has_heard_the_end() {
                // Its twin says so at the peer's next call, which may never be.
                let _ = rustix::net::shutdown(borrow(fd), rustix::net::Shutdown::Read);
            }
            let peer = self.peer_flags().load(Ordering::Acquire);
            let deaf = peer & (flags::DEAF | flags::RETIRED) == flags::DEAF;
            if deaf && !self.has_sent_on() {
                // Its twin says so only once it goes over, which may be never.
                let _ = rustix::net::shutdown(borrow(fd), rustix::net::Shutdown::Write);
            }
            // The daemon keeps the channel until the connection is closed: the peer may hand its end over before it has read all.
            ready::changed(description);
        }
        taken
    }

    /// Whether the program was told the end, or what this end has read of its ring, after it had retired, was all that the peer
    /// sends.
    fn has_heard_the_end(&self) -> bool {
        if self.state() & state::HEARD != 0 {
            return true;
        }
        let own = self.flags().load(Ordering::Acquire);
        // In this order: a peer that says its end by the twin has sent bytes there before.
        own & flags::READS_ON != 0
            && self.peer_flags().load(Ordering::Acquire) & flags::FIN != 0
            && self.peer().words[word::STATE].load(Ordering::Acquire) & state::FLUSHED == 0
    }

    /// Tells the twin that reading was shut down. Not before all bells are taken: if writing is shut down, too, the kernel
    /// would answer one with a reset.
    pub(super) fn shut_reading(&self, fd: RawFd) {
        if self.state() & state::READ_SHUT != 0 {
            let _ = rustix::net::shutdown(borrow(fd), rustix::net::Shutdown::Read);
        }
    }

    /// Waits for bells of this end that other threads are about to ring; no more can be begun.
    fn own_bells_are_out(&self, fd: RawFd) {
        let own = self.own();
        for _ in 0..LOOKS {
            let begun = own.words[word::BELLS].load(Ordering::Acquire);
            if ahead(begun, own.words[word::RUNG].load(Ordering::Acquire)) == 0 {
                return;
            }
            let _ = rustix::thread::nanosleep(&wait::timespec(Duration::from_millis(1)));
        }
        // Somebody died over it: whether its bell is among the data nobody knows.
        let _ = rustix::net::connect_unspec(borrow(fd));
    }

    /// Takes the bells of a connection that has retired out of the twin, and not a byte more.
    fn take_bells(&self, fd: RawFd) -> bool {
        for _ in 0..LOOKS {
            match self.take_counted(fd) {
                Ok(0) => return true,
                Err(_) => return false,
                Ok(_) => {
                    let _ = wait::poll_kernel(fd, Events::IN, Duration::from_millis(1));
                }
            }
        }
        let _ = rustix::net::connect_unspec(borrow(fd));
        false
    }

    /// Takes of them what is there. Gives how many are missing.
    pub(super) fn take_counted(&self, fd: RawFd) -> Result<u32, Errno> {
        let Ok(_guard) = self.end.lock_receiver() else {
            return Err(Errno::DEADLK);
        };
        let drained = &self.own().words[word::DRAINED];
        loop {
            let rung = self.peer().words[word::BELLS].load(Ordering::Acquire);
            let missing = ahead(rung, drained.load(Ordering::Acquire));
            if missing == 0 {
                return Ok(0);
            }
            let mut scratch = [0u8; 64];
            let most = scratch.len().min(missing as usize);
            match rustix::net::recv(borrow(fd), &mut scratch[..most], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok((count, _)) => {
                    drained.fetch_add(count as u32, Ordering::AcqRel);
                }
                Err(Errno::AGAIN) => return Ok(missing),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the peer's twin has ended, and nothing was sent on. One that died after it had got the last bell leaves a reset; but
    /// an end that came before that bell hides the reset.
    fn was_left(&self, fd: RawFd) -> bool {
        let ended = wait::poll_kernel(fd, Events::RDHUP, Duration::ZERO);
        !self.has_sent_on() && ended.is_ok_and(|events| !events.is_empty())
    }

    /// Whether the peer has closed, or is dead, and left nothing but what is in the ring, and its end.
    pub fn is_finished(&self) -> bool {
        let peer = self.peer_flags().load(Ordering::Acquire);
        (peer & flags::CLOSED != 0 || self.state() & state::GONE != 0) && !self.is_reset()
    }

    /// Whether the peer has left a reset behind what is in the ring, which nobody was told of yet.
    pub fn was_cut(&self) -> bool {
        let gone = self.peer_flags().load(Ordering::Acquire) & flags::CLOSED != 0
            || self.state() & state::GONE != 0;
        gone && self.is_reset() && !self.is_revoked() && self.state() & state::TOLD == 0
    }

    /// Whether another process has this end, too.
    pub fn is_shared(&self) -> bool {
        self.own().refs.load(Ordering::Acquire) > 1
    }

    /// Takes all that is left in the ring; only a copy if it is to be `kept` for somebody else, as which of them is going to read it
    /// nobody knows. False: `put` did not want it.
    pub fn empty(&self, kept: bool, mut put: impl FnMut(&[u8]) -> bool) -> bool {
        let Ok(_guard) = self.end.lock_receiver() else {
            return false;
        };
        let mut receiver = self.end.receiver();
        if kept {
            let mut all = vec![0; receiver.queued_bytes()];
            let count = receiver.copy(DATA, &mut all);
            return put(&all[..count]);
        }
        let mut buffer = [0; 16384];
        loop {
            let (count, _) = receiver.read(DATA, &mut buffer);
            if count == 0 {
                return true;
            }
            if !put(&buffer[..count]) {
                return false;
            }
        }
    }

    /// The connection is over for a program that gets it: what it would still have to read is in the ring, and nobody can send
    /// it on. It ends with a reset, not in silence.
    #[cold]
    pub fn break_off(&self, fd: RawFd) {
        let twin = borrow(fd);
        let _ = rustix::net::connect_unspec(twin);
    }
}
