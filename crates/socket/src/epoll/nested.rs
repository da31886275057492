// SPDX-License-Identifier: Apache-2.0
//! A set as a member of another, or in poll and select.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::kernel::{self, Event, NO_EVENT, SignalMask};
use super::members::{EDGE, Member, ONESHOT, looks_like_key};
use super::waiting::Output;
use super::{Epoll, Inner, Set};
use crate::ready::{Events, Pollable};
use crate::table::Ref;
use crate::wait::{clock, poll_kernel};

/// Events that are fetched to see whether any of them is the program's.
const BATCH: usize = 16;

impl Pollable for Epoll {
    /// Whether a wait would report something. It may have to ask the kernel.
    fn ready(&self) -> Events {
        let set = &self.0;
        if set.has_report() {
            return Events::IN;
        }
        let Some(fd) = set.descriptor() else {
            return Events::NONE;
        };
        if !matches!(poll_kernel(fd, Events::IN, Duration::ZERO), Ok(events) if events.has(Events::IN))
        {
            return Events::NONE;
        }
        // A doorbell of a member, or an event of a plain file: only fetching it tells.
        let mut batch = [NO_EVENT; BATCH];
        let begun = set.turns.load(Ordering::SeqCst);
        // SAFETY: the batch is ours and has room.
        let count = unsafe {
            kernel::wait(
                fd,
                batch.as_mut_ptr(),
                BATCH as i32,
                Some(Duration::ZERO),
                SignalMask::NONE,
            )
        };
        if set.keep(&batch[..count.unwrap_or(0)], begun) || set.has_report() {
            Events::IN
        } else {
            Events::NONE
        }
    }

    fn arm(&self, want: Events) {
        let set = &self.0;
        if want.is_empty() {
            if set.armed.swap(false, Ordering::SeqCst) {
                set.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
            return;
        }
        if !set.armed.swap(true, Ordering::SeqCst) {
            set.sleepers.fetch_add(1, Ordering::SeqCst);
        }
        let mut inner = set.inner.lock();
        set.cool_all(&mut inner);
    }

    /// Nothing to drain: the kernel's events stay until the set is waited for.
    fn woken(&self, _fd: RawFd, _twin: Events) {
        self.0.happened.fetch_add(1, Ordering::Relaxed);
    }

    /// What happens to hot members nobody is woken for, so that they are asked themselves.
    fn edges(&self) -> (u64, u64) {
        let set = &self.0;
        let inner = set.inner.lock();
        let members = inner.members.all();
        let members = members.iter().filter_map(|place| inner.members.get(*place));
        let all = members.fold(0, |all: u64, member| all.wrapping_add(member.happened()));
        (all.wrapping_add(set.happened.load(Ordering::Relaxed)), 0)
    }

    fn twin_interest(&self, want: Events) -> Events {
        want & (Events::IN | Events::RDNORM)
    }

    /// Not every member can wake an outer set, so nobody sleeps long on a nested one.
    fn shared(&self) -> bool {
        true
    }
}

/// An event that was fetched to answer an outer set, with the kernel's data.
pub(super) struct Kept {
    of: u64,
    event: Event,
}

impl Inner {
    /// What was kept of a member is out of date: it was changed, or is no more.
    pub fn unkeep(&mut self, key: u64) {
        self.stash.retain(|kept| kept.of != key);
    }

    /// Whether the kernel goes on telling of what it told with these data, for as long as it is so. Of a plain file nobody knows.
    fn tells_again(&self, data: u64) -> bool {
        let place = looks_like_key(data).then(|| self.members.place(data));
        let member = place.flatten().and_then(|place| self.members.get(place));
        member.is_some_and(|member| member.interest & (EDGE | ONESHOT) == 0)
    }
}

impl Epoll {
    /// Connections in it that go back to the kernel before anything is said of them.
    pub(crate) fn overdue(&self) -> Vec<(RawFd, Ref)> {
        let inner = self.0.inner.lock();
        let all = inner.members.all().into_iter();
        let members = all.filter_map(|place| inner.members.get(place));
        let overdue = members.filter_map(|member| {
            let description = member.description.as_ref()?;
            let is_overdue = description.object().is_overdue(Events::NONE);
            let fd = is_overdue.then(|| member.number())??;
            Some((fd, description.clone()))
        });
        overdue.collect()
    }
}

impl Set {
    /// Whether something is to be reported at user level.
    fn has_report(&self) -> bool {
        let inner = self.inner.lock();
        !inner.stash.is_empty()
            || inner
                .members
                .hot
                .iter()
                .any(|place| inner.members.get(*place).is_some_and(Member::has_report))
    }

    /// Keeps events that the kernel does not tell again for the next wait. Says whether there are events for the program.
    fn keep(&self, batch: &[Event], begun: u64) -> bool {
        let mut any = false;
        for one in batch {
            let mut events = [NO_EVENT];
            let mut output = Output::new(&mut events);
            self.digest(std::slice::from_ref(one), begun, &mut output)
                .tell_locked(self);
            if output.filled == 0 {
                continue;
            }
            any = true;
            let mut inner = self.inner.lock();
            if inner.tells_again(one.u64) {
                continue;
            }
            let [event] = events;
            let data = event.u64;
            if !inner.stash.iter().any(|kept| kept.event.u64 == data) {
                inner.stash.push(Kept { of: one.u64, event });
            }
            self.stashed.store(true, Ordering::Relaxed);
        }
        self.polled.store(clock::ticks(), Ordering::Relaxed);
        any
    }

    /// Adds the kept events that the kernel did not just report again.
    pub(super) fn unstash(&self, output: &mut Output) {
        if !self.stashed.load(Ordering::Relaxed) {
            return;
        }
        let mut inner = self.inner.lock();
        while output.room() > 0 {
            let Some(Kept { of, event }) = inner.stash.pop() else {
                self.stashed.store(false, Ordering::Relaxed);
                return;
            };
            let (mut events, data) = (event.events, event.u64);
            if let Some(place) = inner.members.place(of)
                && looks_like_key(of)
                && let Some(member) = inner.members.get_mut(place)
                && let Some(now) = member.now_by_kernel()
            {
                // It was so when the outer set asked.
                if now.is_empty() {
                    if member.interest & ONESHOT != 0 {
                        member.spent = false;
                        let again = member.plain();
                        self.register(member, of, again);
                    }
                    continue;
                }
                events = now.0;
            }
            if !output.events[..output.filled]
                .iter()
                .any(|other| other.u64 == data)
            {
                output.push(events, data);
            }
        }
    }
}
