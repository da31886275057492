// SPDX-License-Identifier: Apache-2.0
//! epoll_wait: look at the hot members, at the kernel now and then, spin, sleep.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use libc::c_int;
use rustix::io::Errno;

use super::kernel::{self, Event, NO_EVENT, SignalMask};
use super::members::{Member, OF_BELL, looks_like_key};
use super::{Epoll, Inner, Set};
use crate::cost::{self, Work};
use crate::ready::{Events, Told};
use crate::signals::handlers::{self, Watch};
use crate::table::Ref;
use crate::wait::{Deadline, HEARTBEAT, Spin, Step, clock, kernel_due, longest};

/// How long to wait: for ever if nothing is said.
pub type Timeout = Option<Duration>;

/// Events that are fetched from the kernel at once.
const BATCH: usize = 64;
/// A hot member that has been quiet for so many microseconds becomes cold.
const QUIET: u64 = 1_000;
/// So few hot members are not worth a sweep.
const FEW: usize = 4;

/// Where events go.
pub(super) struct Output<'a> {
    pub events: &'a mut [Event],
    pub filled: usize,
}

impl<'a> Output<'a> {
    pub fn new(events: &'a mut [Event]) -> Self {
        Self { events, filled: 0 }
    }

    pub fn room(&self) -> usize {
        self.events.len() - self.filled
    }

    pub fn push(&mut self, events: u32, data: u64) {
        self.events[self.filled] = Event { events, u64: data };
        self.filled += 1;
    }
}

/// Counts a thread for as long as it lives.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What came of a batch of the kernel's events.
#[derive(Default)]
pub(super) struct Digest {
    /// Sleeping members of other sets that must hear of it.
    told: Vec<Told>,
    /// A member was asleep, and is not any more.
    woken: bool,
    /// Events of members that are no more.
    stale: usize,
}

impl Digest {
    pub fn tell(self, set: &Set) {
        for told in self.outer(set) {
            told.tell();
        }
    }

    /// For who may hold the lock of a set around this one.
    pub fn tell_locked(self, set: &Set) {
        for told in self.outer(set) {
            told.tell_locked();
        }
    }

    /// Who is to be told: sets around this one as well, which the kernel does not tell of a doorbell any more.
    fn outer(self, set: &Set) -> Vec<Told> {
        let mut told = self.told;
        if self.woken {
            told.extend(set.around());
        }
        told
    }
}

/// A member that is to go over to the kernel, under a number that it has.
struct Due {
    key: u64,
    fd: RawFd,
    description: Ref,
}

impl Due {
    fn new(key: u64, fd: RawFd, description: &Ref) -> Self {
        let description = description.clone();
        Self {
            key,
            fd,
            description,
        }
    }
}

impl Epoll {
    /// epoll_wait and its relatives on the set, under the number `epoll`.
    ///
    /// # Safety
    /// `out` is the program's array of `max` events; `mask` is as the program passed it.
    pub unsafe fn wait(
        &self,
        epoll: RawFd,
        out: *mut Event,
        max: c_int,
        timeout: Timeout,
        mask: SignalMask,
    ) -> Result<usize, Errno> {
        let set = &self.0;
        if max <= 0
            || out.is_null()
            || set.known.load(Ordering::Acquire) == 0 && max > i32::MAX / 64
        {
            // SAFETY: by the caller; the kernel says what is wrong.
            return unsafe { kernel::wait(epoll, out, max, timeout, mask) };
        }
        if !out.is_aligned() {
            // SAFETY: passed on.
            return unsafe { self.wait_copied(epoll, out, max, timeout, mask) };
        }
        set.number.store(epoll, Ordering::Relaxed);
        set.attend(epoll);
        let _inside = Counted::new(&set.inside);
        let mut deadline = None;
        if set.accelerated.load(Ordering::Acquire) == 0 && !set.stashed.load(Ordering::Relaxed) {
            // SAFETY: by the caller.
            if let Some(done) =
                unsafe { set.wait_passively(epoll, out, max, timeout, mask, &mut deadline) }
            {
                return done;
            }
        }
        // SAFETY: by the caller, and it is aligned; the kernel would write there as well.
        let events = unsafe { std::slice::from_raw_parts_mut(out, max as usize) };
        let mut output = Output::new(events);
        let mut waited = set.wait_actively(epoll, &mut output, timeout, mask, deadline);
        if output.filled == 0 && set.is_asked() {
            set.attend(epoll);
            waited = waited.and(set.look_at_kernel(epoll, &mut output));
        }
        cost::call(Work::EpollWait);
        waited.map(|_| output.filled)
    }

    /// The same for an array that is not aligned. On x86-64 every one is, for events are packed there.
    ///
    /// # Safety
    /// As [`Self::wait`].
    #[cold]
    unsafe fn wait_copied(
        &self,
        epoll: RawFd,
        out: *mut Event,
        max: c_int,
        timeout: Timeout,
        mask: SignalMask,
    ) -> Result<usize, Errno> {
        let mut events = [NO_EVENT; BATCH];
        let room = max.min(BATCH as c_int);
        // SAFETY: the array is ours and has room; the mask is passed on.
        let count = unsafe { self.wait(epoll, events.as_mut_ptr(), room, timeout, mask) }?;
        for (index, event) in events[..count].iter().enumerate() {
            // SAFETY: by the caller; the kernel would write there as well.
            unsafe { out.add(index).write_unaligned(*event) };
        }
        Ok(count)
    }
}

fn remaining(timeout: Timeout, deadline: &mut Option<Deadline>) -> Timeout {
    let timeout = timeout?;
    if timeout.is_zero() {
        return Some(timeout);
    }
    Some(
        deadline
            .get_or_insert_with(|| Deadline::after(timeout))
            .left(),
    )
}

impl Set {
    /// Without accelerated members: the kernel waits. None: there are some now.
    ///
    /// # Safety
    /// As [`Epoll::wait`].
    unsafe fn wait_passively(
        &self,
        epoll: RawFd,
        out: *mut Event,
        max: c_int,
        timeout: Timeout,
        mask: SignalMask,
        deadline: &mut Option<Deadline>,
    ) -> Option<Result<usize, Errno>> {
        let watch = Watch::begin();
        loop {
            let left = remaining(timeout, deadline);
            let begun = self.turns.load(Ordering::SeqCst);
            let count = {
                let _sleeper = Counted::new(&self.sleepers);
                if self.accelerated.load(Ordering::SeqCst) > 0 {
                    return None;
                }
                // SAFETY: by the caller.
                match unsafe { kernel::wait_interrupted(epoll, out, max, left, mask, watch) } {
                    Ok(count) => count,
                    Err(error) => return Some(Err(error)),
                }
            };
            if count == 0 || !self.translates() {
                return Some(Ok(count));
            }
            // SAFETY: the kernel has written so many events.
            let events = unsafe { std::slice::from_raw_parts_mut(out, count) };
            let (kept, digest) = self.translate(events, begun);
            let stale = digest.stale;
            digest.tell(self);
            if kept > 0 {
                return Some(Ok(kept));
            }
            if self.accelerated.load(Ordering::Acquire) > 0 {
                return None;
            }
            if remaining(timeout, deadline).is_some_and(|left| left.is_zero()) {
                return Some(Ok(0));
            }
            if stale > 0 {
                pause();
            }
            self.attend(epoll);
        }
    }

    fn wait_actively(
        self: &Arc<Self>,
        epoll: RawFd,
        output: &mut Output,
        timeout: Timeout,
        mask: SignalMask,
        mut deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        // What ends the sleep ends the spin in front of it, too. With a mask of its own the sleep decides.
        let watch = mask.0.is_null().then(Watch::begin);
        let now = clock::ticks();
        let patient = timeout != Some(Duration::ZERO);
        if self.stashed.load(Ordering::Relaxed)
            || kernel_due(self.polled.load(Ordering::Relaxed), now)
        {
            self.look_at_kernel(epoll, output)?;
            self.scan(output, now);
        } else {
            self.scan(output, now);
            if output.filled == 0 && !patient {
                self.look_at_kernel(epoll, output)?;
                self.scan(output, now);
            }
        }
        if output.filled > 0 || !patient {
            self.leave(now);
            return Ok(());
        }
        // From here on time counts.
        remaining(timeout, &mut deadline);
        if self.spin(epoll, output, watch)? {
            return Ok(());
        }
        loop {
            if deadline.is_some_and(Deadline::passed) {
                self.look_at_kernel(epoll, output)?;
                self.scan(output, clock::ticks());
                self.leave(now);
                return Ok(());
            }
            let longest = longest(self.short.load(Ordering::Relaxed));
            let left = remaining(timeout, &mut deadline).map_or(longest, |left| left.min(longest));
            let mut batch = [NO_EVENT; BATCH];
            let room = output.room().min(BATCH);
            let begun = self.turns.load(Ordering::SeqCst);
            let (count, slept) = {
                let _sleeper = Counted::new(&self.sleepers);
                let asleep = {
                    let mut inner = self.inner.lock();
                    self.cool_all(&mut inner)
                };
                let left = if asleep { left } else { Duration::ZERO };
                let (first, most) = (batch.as_mut_ptr(), room as c_int);
                let watch = watch.unwrap_or_else(Watch::begin);
                // SAFETY: the batch is ours and has room.
                let count = unsafe { kernel::wait_watched(epoll, first, most, left, mask, watch) }?;
                (count, asleep)
            };
            let now = clock::ticks();
            self.polled.store(now, Ordering::Relaxed);
            let digest = self.digest(&batch[..count], begun, output);
            let stale = digest.stale;
            digest.tell(self);
            if count == 0 && slept {
                self.wake_ready(now);
            }
            self.scan(output, now);
            if output.filled > 0 {
                self.leave(now);
                return Ok(());
            }
            // With a mask of its own the kernel's sleep has let in what may come, unless that was no sleep as handlers wait.
            if watch.map_or_else(handlers::are_put_off, Watch::is_broken) {
                return Err(Errno::INTR);
            }
            if stale > 0 && stale == count {
                pause();
            }
            self.attend(epoll);
        }
    }

    /// Spins for a while, if some member is worth it. True if there is something to report.
    fn spin(
        self: &Arc<Self>,
        epoll: RawFd,
        output: &mut Output,
        watch: Option<Watch>,
    ) -> Result<bool, Errno> {
        if self.inner.lock().members.hot.is_empty() {
            return Ok(false);
        }
        let mut spin = Spin::begin(self.polled.load(Ordering::Relaxed));
        loop {
            match spin.step() {
                Step::Again => {}
                _ if watch.is_some_and(Watch::is_broken) => return Err(Errno::INTR),
                Step::Kernel => self.look_at_kernel(epoll, output)?,
                Step::Sleep => return Ok(false),
            }
            self.scan(output, 0);
            if output.filled > 0 {
                spin.found();
                drop(spin);
                self.leave(0);
                return Ok(true);
            }
        }
    }

    /// Reports hot members that are ready. `now` marks them as active; 0: look at the clock only for those.
    #[inline]
    fn scan(&self, output: &mut Output, now: u64) {
        let due = self.scan_hot(output, now);
        if !due.is_empty() {
            self.fall_back(due, output);
        }
        if self.missed.load(Ordering::Relaxed) && self.missed.swap(false, Ordering::Acquire) {
            self.wake_ready(clock::ticks());
            if output.filled == 0 {
                self.scan(output, now);
            }
        }
    }

    /// Members whose peers do not come, or do not read, go over to the kernel, whose word is then the program's.
    #[cold]
    fn fall_back(&self, due: Vec<Due>, output: &mut Output) {
        for one in &due {
            one.description.object().fall_back(one.fd, &one.description);
        }
        if output.filled == 0 {
            if let Some(epoll) = self.descriptor() {
                let _ = self.look_at_kernel(epoll, output);
            }
            if output.filled == 0 {
                // Of a set within, which it was in, the kernel's word has to be asked for.
                let _ = self.scan_hot(output, 0);
            }
            return;
        }
        // The kernel's set would say again what it has said already. What it says of these only once it says next time.
        let inner = self.inner.lock();
        for one in due {
            let member = inner
                .members
                .place(one.key)
                .and_then(|at| inner.members.get(at));
            if output.room() > 0
                && let Some(member) = member
                && let Some(told) = member.level_by_kernel()
            {
                output.push(told.0, member.data);
            }
        }
    }

    /// [`Set::scan`], but for members that wait in vain: they are given back.
    #[inline]
    fn scan_hot(&self, output: &mut Output, now: u64) -> Vec<Due> {
        let mut due = Vec::new();
        if output.room() == 0 {
            return due;
        }
        let mut inner = self.inner.lock();
        if self.is_asked() {
            return due;
        }
        let inner = &mut *inner;
        let count = inner.members.hot.len();
        let start = if inner.start < count { inner.start } else { 0 };
        for step in 0..count {
            let index = if start + step < count {
                start + step
            } else {
                start + step - count
            };
            let place = inner.members.hot[index];
            let key = inner.members.key(place);
            let Some(member) = inner.members.get_mut(place) else {
                continue;
            };
            if self.is_moving(member) {
                continue;
            }
            if let Some(description) = &member.description
                && description.object().is_overdue(Events::NONE)
                && let Some(fd) = member.number()
            {
                due.push(Due::new(key, fd, description));
                continue;
            }
            let events = member.report();
            if events.is_empty() {
                if member.is_stalled()
                    && let Some(description) = &member.description
                    && let Some(fd) = member.number()
                {
                    due.push(Due::new(key, fd, description));
                }
                continue;
            }
            member.active = if now == 0 { clock::ticks() } else { now };
            output.push(events.0, member.data);
            if member.spent {
                self.write_down(inner, place);
            }
            if output.room() == 0 {
                // The next scan begins behind the last that was reported, so that nobody is left out.
                inner.start = index + 1;
                return due;
            }
        }
        inner.start = 0;
        due
    }

    /// Fetches what the kernel's set has to say, without waiting.
    fn look_at_kernel(&self, epoll: RawFd, output: &mut Output) -> Result<(), Errno> {
        let room = output.room().min(BATCH);
        if room == 0 {
            return Ok(());
        }
        let mut batch = [NO_EVENT; BATCH];
        let begun = self.turns.load(Ordering::SeqCst);
        // SAFETY: the batch is ours and has room.
        let count = unsafe {
            kernel::wait(
                epoll,
                batch.as_mut_ptr(),
                room as c_int,
                Some(Duration::ZERO),
                SignalMask::NONE,
            )
        }?;
        let now = clock::ticks();
        self.polled.store(now, Ordering::Relaxed);
        if count > 0 {
            self.digest(&batch[..count], begun, output).tell(self);
        }
        self.unstash(output);
        self.sweep(now);
        self.heat_stalled(now);
        Ok(())
    }

    /// Turns the kernel's events into the program's, those of a wait that began at turn `begun`.
    pub(super) fn digest(&self, batch: &[Event], begun: u64, output: &mut Output) -> Digest {
        let mut digest = Digest::default();
        if batch.is_empty() {
            return digest;
        }
        let mut inner = self.inner.lock();
        for event in batch {
            if let Some((events, data)) = self.resolve(&mut inner, *event, begun, &mut digest) {
                output.push(events, data);
            }
        }
        digest
    }

    /// The same in place. Returns how many events are left.
    fn translate(&self, events: &mut [Event], begun: u64) -> (usize, Digest) {
        let mut digest = Digest::default();
        let mut inner = self.inner.lock();
        let mut kept = 0;
        for index in 0..events.len() {
            if let Some((bits, data)) = self.resolve(&mut inner, events[index], begun, &mut digest)
            {
                events[kept] = Event {
                    events: bits,
                    u64: data,
                };
                kept += 1;
            }
        }
        (kept, digest)
    }

    /// What the program shall see of an event: of a plain file all of it, of a twin nothing, but the member is hot now.
    fn resolve(
        &self,
        inner: &mut Inner,
        event: Event,
        begun: u64,
        digest: &mut Digest,
    ) -> Option<(u32, u64)> {
        let (events, data) = (event.events, event.u64);
        if !looks_like_key(data) {
            return Some((events, data));
        }
        let bell = data & OF_BELL != 0;
        let data = data & !OF_BELL;
        let Some(place) = inner.members.place(data) else {
            digest.stale += 1;
            return None;
        };
        let member = inner.members.get_mut(place)?;
        if member.pollable().is_none() {
            let told = match bell {
                true => 0,
                false => member.told_by_kernel(events, begun),
            };
            let (spent, data) = (member.spent, member.data);
            if spent {
                self.write_down(inner, place);
            }
            return (told != 0).then_some((told, data));
        }
        let (Some(pollable), Some(description)) = (member.pollable(), member.description.as_ref())
        else {
            return None;
        };
        let events = if bell { Events::BELL } else { Events(events) };
        if let Some(fd) = member.number() {
            let told = description
                .waiters
                .member_woken(self, data, pollable, fd, events);
            if !told.is_empty() {
                digest.told.push(told);
            }
        }
        inner.members.heat(place, clock::ticks());
        digest.woken = true;
        None
    }

    /// Makes members cold that have been quiet for a while.
    fn sweep(&self, now: u64) {
        let quiet = QUIET * clock::per_microsecond();
        let mut inner = self.inner.lock();
        if inner.members.hot.len() <= FEW || now.wrapping_sub(inner.swept) < quiet {
            return;
        }
        inner.swept = now;
        let mut hot = std::mem::take(&mut inner.members.hot);
        hot.retain(|place| {
            let idle = inner.members.get(*place).is_some_and(|member| {
                now.saturating_sub(member.active) > quiet && member.peek().is_empty()
            });
            !(idle && self.cool(&mut inner, *place))
        });
        inner.members.hot = hot;
    }

    /// Now and then, also in a set that never sleeps: members that wait for room which is not likely to come.
    fn heat_stalled(&self, now: u64) {
        let every = HEARTBEAT.as_micros() as u64 * clock::per_microsecond();
        if now.wrapping_sub(self.stalls.load(Ordering::Relaxed)) < every {
            return;
        }
        self.stalls.store(now, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        for place in inner.members.all() {
            if inner.members.get(place).is_some_and(Member::is_stalled) {
                inner.members.heat(place, now);
            }
        }
    }

    /// After a whole heartbeat: a member may be ready though nobody could ring for it.
    fn wake_ready(&self, now: u64) {
        let mut inner = self.inner.lock();
        // All are looked at here, so whoever called for a short sleep is served; who must have the next one short says so.
        self.short.store(false, Ordering::Relaxed);
        for place in inner.members.all() {
            let member = inner.members.get(place);
            if let Some(pollable) = member.and_then(|member| member.pollable()) {
                pollable.heartbeat();
                if pollable.shared() || member.is_some_and(|member| member.deaf) {
                    self.short.store(true, Ordering::Relaxed);
                }
            }
            if inner
                .members
                .get(place)
                .is_some_and(|member| !member.peek().is_empty() || member.is_stalled())
            {
                #[cfg(test)]
                self.count_rescue(&inner, place);
                inner.members.heat(place, now);
            }
        }
    }

    /// Counts a member that was asleep, with no doorbell in its twin and nobody awake who could have taken it.
    #[cfg(test)]
    fn count_rescue(&self, inner: &Inner, place: u32) {
        let others = self.inside.load(Ordering::SeqCst) - 1;
        let rung = inner.members.get(place).is_none_or(|member| {
            crate::wait::poll_kernel(member.fd, Events::IN, Duration::ZERO) != Ok(Events::NONE)
        });
        if !inner.members.hot.contains(&place)
            && self.sleepers.load(Ordering::SeqCst) == others
            && !rung
        {
            crate::wait::RESCUED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A thread goes to work. If others sleep in the set, they must hear of what comes in meanwhile.
    fn leave(&self, now: u64) {
        if self.inside.load(Ordering::Relaxed) < 2 {
            return;
        }
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        for place in inner.members.hot.clone() {
            let reported = inner
                .members
                .get(place)
                .is_some_and(|member| member.active >= now && now != 0);
            if self.arm(&mut inner, place) && !reported {
                self.kick(&mut inner, place);
            }
        }
    }
}

/// Events of members that are no more keep the kernel's set ready: do not spin on them.
fn pause() {
    let pause = rustix::thread::Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    let _ = rustix::thread::nanosleep(&pause);
}
