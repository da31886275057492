// SPDX-License-Identifier: Apache-2.0
//! Epoll sets with accelerated sockets in them.
//!
//! The program's descriptor is a real epoll set of the kernel, in which every member is registered: plain files as the
//! program asked, so that the kernel's rules hold for them without our doing, and twins of accelerated sockets
//! edge-triggered for doorbells and the connection's end.
//!
//! An accelerated member is *hot* or *cold*. Hot ones have had traffic lately and are looked at in each wait, which costs
//! a load per member. Cold ones are asleep: their peers ring the twin, the kernel's set reports it, and the member becomes
//! hot. A member that stays quiet, and every member before the thread sleeps, becomes cold: armed, and looked at once
//! more. So a set with thousands of idle connections costs no more than one with the few that are busy.
//!
//! Locks: a set's before the waiters' of a member; an outer set's before an inner's. Other sets are told with none held.

mod control;
mod forked;
mod kernel;
mod members;
mod nested;
#[cfg(test)]
mod tests;
mod waiting;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

pub use kernel::SignalMask;
pub use waiting::Timeout;

use crate::latch::Latch;
use crate::object::Object;
use crate::ready::{self, Events, Told};
use crate::table;
use crate::wait::clock;
use members::{EDGE, EXCLUSIVE, Members, OF_BELL};

/// Counted when a member is asked no more what has happened to it, which is less: no sum of all comes twice.
const ONE_LESS: u64 = 1 << 40;

/// An epoll set, as an open description.
pub struct Epoll(Arc<Set>);

/// What members and waiters of a set share.
pub struct Set {
    inner: Latch<Inner>,
    /// A number of the set; any that it was used with last.
    number: AtomicI32,
    /// Members that the library knows.
    known: AtomicU32,
    /// Members whose readiness is known at user level.
    accelerated: AtomicU32,
    /// Threads that sleep in the kernel's set, or are about to; an outer set that sleeps on this one counts too.
    sleepers: AtomicU32,
    /// Threads inside of a wait.
    inside: AtomicU32,
    /// When the kernel's set was looked at last.
    polled: AtomicU64,
    /// When all members were asked last whether they wait for room in vain.
    stalls: AtomicU64,
    /// An outer set or a poll sleeps on this one.
    armed: AtomicBool,
    /// How many members have gone back to the kernel.
    turns: AtomicU64,
    /// Grows with what happens to a nested set, but for what its members count themselves.
    happened: AtomicU64,
    /// Sleeps must be short: some member cannot be woken through the kernel's set. Found anew after each sleep that was.
    short: AtomicBool,
    /// A member may have something to report that nobody could say while the set was locked.
    missed: AtomicBool,
    /// There are kept events in the stash.
    stashed: AtomicBool,
    /// Bells were registered: one that the daemon has, too, may outlive its member.
    bells: AtomicBool,
    /// Inherited by a fork: the kernel's set is the parent's too.
    inherited: AtomicBool,
    /// It is this process's alone, as far as that knows.
    owned: AtomicBool,
    /// How many changes were written down when this process came to be.
    since: AtomicU32,
    /// Since the first fork: what the processes agree on that have the set.
    shared: OnceLock<forked::Shared>,
    /// See [`forked::stage`].
    stage: AtomicU32,
}

#[derive(Default)]
struct Inner {
    members: Members,
    /// Where the next scan of hot members begins.
    start: usize,
    /// When idle members were last made cold.
    swept: u64,
    /// Events of plain files that were fetched to answer an outer set.
    stash: Vec<nested::Kept>,
}

impl Epoll {
    /// The set behind `fd`, which has no members yet.
    #[must_use]
    pub fn new(fd: RawFd) -> Self {
        Self(Arc::new(Set {
            inner: Latch::new(Inner::default()),
            number: AtomicI32::new(fd),
            known: AtomicU32::new(0),
            accelerated: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            polled: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            happened: AtomicU64::new(1),
            short: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            stashed: AtomicBool::new(false),
            bells: AtomicBool::new(false),
            inherited: AtomicBool::new(false),
            owned: AtomicBool::new(true),
            since: AtomicU32::new(0),
            shared: OnceLock::new(),
            stage: AtomicU32::new(forked::stage::OWN),
        }))
    }

    /// Whether any member's readiness is known at user level. If not, the kernel's word about the set is all there is.
    #[must_use]
    pub fn has_accelerated(&self) -> bool {
        self.0.accelerated.load(Ordering::Acquire) > 0
    }

    /// The last descriptor is about to be closed.
    pub(crate) fn close(&self) {
        self.0.give_up();
        let places = self.0.inner.lock().members.all();
        for place in places {
            let key = self.0.inner.lock().members.key(place);
            self.0.forget(key);
        }
    }

    /// Another process gets the set, which knows none of the members.
    pub(crate) fn give_away(&self, fd: RawFd) {
        self.0.share();
        self.0.make_plain(fd);
    }

    pub(crate) fn before_fork(&self) {
        self.0.share();
        self.0.inner.acquire();
        self.0.date();
    }

    pub(crate) fn after_fork(&self, child: bool) {
        if child {
            self.0.sleepers.store(0, Ordering::Relaxed);
            self.0.inside.store(0, Ordering::Relaxed);
            self.0.armed.store(false, Ordering::Relaxed);
            self.0.was_inherited();
        }
        self.0.inner.release();
    }
}

impl Set {
    /// A descriptor of this set that is open now.
    fn descriptor(&self) -> Option<RawFd> {
        let is_ours = |description: &table::Description| matches!(description.object(), Object::Epoll(epoll) if std::ptr::eq(Arc::as_ptr(&epoll.0), self));
        let number = self.number.load(Ordering::Relaxed);
        if table::get(number).is_some_and(|description| is_ours(&description)) {
            return Some(number);
        }
        let mut found = None;
        table::each(|fd, description| {
            if is_ours(&description) {
                found = Some(fd);
            }
        });
        if let Some(fd) = found {
            self.number.store(fd, Ordering::Relaxed);
        }
        found
    }

    /// Makes the peer of a member ring from now on. Returns true if it has something to report already.
    fn arm(&self, inner: &mut Inner, place: u32) -> bool {
        let key = inner.members.key(place);
        let Some(member) = inner.members.get_mut(place) else {
            return false;
        };
        let (Some(pollable), Some(description)) = (member.pollable(), member.description.as_ref())
        else {
            return false;
        };
        // In a plain set another process may take what the kernel says of this member.
        if pollable.shared() || self.is_plain() {
            self.short.store(true, Ordering::Relaxed);
        }
        let want = member.want();
        let needed = member.needs();
        description.waiters.member(self, key, want, pollable);
        if needed & !member.registered != 0 {
            self.register(member, key, needed);
        }
        !member.peek().is_empty()
    }

    /// Changes the kernel's registration of a member.
    fn register(&self, member: &mut members::Member, key: u64, events: u32) -> bool {
        let alive = member
            .description
            .as_ref()
            .is_some_and(|description| table::still(member.fd, description));
        let Some(epoll) = self.descriptor() else {
            return false;
        };
        let Ok(_change) = self.may_register() else {
            self.short.store(true, Ordering::Relaxed);
            return false;
        };
        // Under another number the kernel does not know the member; only time can wake a sleeper then.
        member.deaf = !alive;
        if !alive {
            self.short.store(true, Ordering::Relaxed);
            return false;
        }
        let result = if (member.registered | events) & EXCLUSIVE != 0 {
            // An exclusive registration cannot be changed.
            let _ = kernel::ctl(epoll, libc::EPOLL_CTL_DEL, member.fd, 0, 0);
            kernel::ctl(epoll, libc::EPOLL_CTL_ADD, member.fd, events, key)
        } else {
            kernel::ctl(epoll, libc::EPOLL_CTL_MOD, member.fd, events, key)
        };
        if result.is_err() {
            member.deaf = true;
            self.short.store(true, Ordering::Relaxed);
            return false;
        }
        member.registered = events;
        true
    }

    /// Registers the bell of a member that has one.
    fn watch_bell(&self, epoll: RawFd, member: &mut members::Member, key: u64) {
        let Some(bell) = member.pollable().and_then(|pollable| pollable.bell()) else {
            return;
        };
        if member.bell == Some(bell) {
            return;
        }
        self.bells.store(true, Ordering::Relaxed);
        // One member of several that are the same connection is enough: it tells the others.
        let events = Events::IN.0 | EDGE;
        let added = kernel::ctl(epoll, libc::EPOLL_CTL_ADD, bell, events, key | OF_BELL);
        member.bell = added.is_ok().then_some(bell);
    }

    /// Puts a hot member to sleep, unless it has something to report.
    fn cool(&self, inner: &mut Inner, place: u32) -> bool {
        if self.arm(inner, place) {
            return false;
        }
        if let Some(member) = inner.members.get_mut(place) {
            member.hot = false;
        }
        true
    }

    /// Puts all members to sleep. False if one has something to report; it stays hot.
    fn cool_all(&self, inner: &mut Inner) -> bool {
        let mut hot = std::mem::take(&mut inner.members.hot);
        hot.retain(|place| !self.cool(inner, *place));
        let asleep = hot.is_empty();
        inner.members.hot = hot;
        asleep
    }

    /// Wakes a sleeper through the kernel's set: a twin can be written nearly always, and a changed registration is
    /// looked at anew.
    fn kick(&self, inner: &mut Inner, place: u32) {
        let key = inner.members.key(place);
        let Some(member) = inner.members.get_mut(place) else {
            return;
        };
        let events = member.registered | Events::OUT.0 | EDGE;
        self.register(member, key, events);
    }

    /// A hot member may have something to report while threads sleep: let them hear of it.
    fn disturb(&self, key: u64) {
        self.happened.fetch_add(1, Ordering::Relaxed);
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        if let Some(place) = inner.members.place(key)
            && self.arm(&mut inner, place)
        {
            self.kick(&mut inner, place);
        }
    }

    /// Somebody else drained the doorbell of a sleeping member, and is about to take what it rang for. Should it not,
    /// this set's sleepers find out at their next heartbeat; to wake them all each time would be a stampede.
    pub(crate) fn poke(&self, key: u64) {
        if self.heat(key) {
            self.around().into_iter().for_each(Told::tell);
        }
    }

    /// As [`Set::poke`], for who may hold this set's lock, or that of one around it, as an outer set does that asks a nested one.
    pub(crate) fn poke_locked(&self, key: u64) {
        match self.inner.try_lock() {
            Some(inner) => {
                drop(inner);
                if self.heat(key) {
                    self.around().into_iter().for_each(Told::tell_locked);
                }
            }
            None => self.missed.store(true, Ordering::Release),
        }
    }

    /// False: it is no member.
    fn heat(&self, key: u64) -> bool {
        {
            let mut inner = self.inner.lock();
            let Some(place) = inner.members.place(key) else {
                return false;
            };
            inner.members.heat(place, clock::ticks());
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        if !self.short.swap(true, Ordering::Relaxed) {
            self.disturb(key);
        }
        true
    }

    /// Sets around this one, whose kernel's sets need not tell of a member that is awake.
    fn around(&self) -> Option<Told> {
        let description = self.descriptor().and_then(table::get)?;
        Some(Told::of_members(&description)).filter(|told| !told.is_empty())
    }

    /// A member's description has become something else.
    pub(crate) fn reconsider(&self, key: u64) {
        let first = {
            let mut inner = self.inner.lock();
            let Some(place) = inner.members.place(key) else {
                return;
            };
            let Some(member) = inner.members.get_mut(place) else {
                return;
            };
            if member.accelerated && member.pollable().is_none() {
                self.give_back(&mut inner, place, key);
                drop(inner);
                return self.gone_over(key);
            }
            if member.accelerated || !control::is_accelerated(member.description.as_deref()) {
                if let Some(epoll) = self.descriptor() {
                    self.watch_bell(epoll, member, key);
                }
                return;
            }
            member.come_over(self.shared.get().is_none());
            let needed = member.needs();
            self.register(member, key, needed);
            if let Some(epoll) = self.descriptor() {
                self.watch_bell(epoll, member, key);
            }
            inner.members.heat(place, clock::ticks());
            self.write_down(&inner, place);
            self.accelerated.fetch_add(1, Ordering::AcqRel) == 0
        };
        std::sync::atomic::fence(Ordering::SeqCst);
        self.disturb(key);
        if first {
            self.tell_outer();
        }
    }

    /// A member's connection has gone back to the kernel: from now on the kernel's registration is the program's own, which
    /// also looks at it anew and so tells whoever sleeps.
    fn give_back(&self, inner: &mut Inner, place: u32, key: u64) {
        let Some(member) = inner.members.get_mut(place) else {
            return;
        };
        member.accelerated = false;
        if !self.is_plain() {
            let events = member.plain();
            self.register(member, key, events);
        }
        // Waits that begin from now on hear of the new registration alone.
        member.turned = self.turns.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(bell) = member.bell.take()
            && !self.inherited.load(Ordering::Relaxed)
            && let Some(epoll) = self.descriptor()
        {
            let _ = kernel::ctl(epoll, libc::EPOLL_CTL_DEL, bell, 0, 0);
        }
        inner.members.cool(place);
        self.write_down(inner, place);
        self.accelerated.fetch_sub(1, Ordering::AcqRel);
        self.happened.fetch_add(ONE_LESS, Ordering::Relaxed);
    }

    /// The set has its first accelerated member: a set that contains this one must look at it in another way.
    fn tell_outer(&self) {
        if let Some(fd) = self.descriptor()
            && let Some(description) = table::get(fd)
        {
            ready::changed(&description);
        }
    }

    /// A member's last descriptor, `fd`, is about to be closed.
    pub(crate) fn closing(&self, key: u64, fd: RawFd) {
        let member = {
            let mut inner = self.inner.lock();
            let Some(place) = inner.members.place(key) else {
                return;
            };
            inner.unkeep(key);
            inner.members.remove(place)
        };
        // If another process has the file, too, the kernel would go on reporting it, and we had no data to report.
        // After a fork the kernel's set is not ours alone: what is deleted in it would be gone for the parent.
        if let Some(bell) = member.as_ref().and_then(|member| member.bell)
            && !self.inherited.load(Ordering::Relaxed)
            && let Some(epoll) = self.descriptor()
        {
            // The daemon has it as well, so that closing it would leave it in the set.
            let _ = kernel::ctl(epoll, libc::EPOLL_CTL_DEL, bell, 0, 0);
        }
        if let Some(member) = &member
            && !member.accelerated
            && member.fd == fd
            && !self.inherited.load(Ordering::Relaxed)
            && let Some(epoll) = self.descriptor()
        {
            let _ = kernel::ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
        if let Some(member) = member {
            self.forgotten(member, key);
        }
    }

    /// The set itself is about to be closed.
    fn forget(&self, key: u64) {
        let member = {
            let mut inner = self.inner.lock();
            let Some(place) = inner.members.place(key) else {
                return;
            };
            inner.members.remove(place)
        };
        if let Some(member) = member {
            self.forgotten(member, key);
        }
    }

    /// What is left to do for a member that is no longer in the table.
    fn forgotten(&self, member: members::Member, key: u64) {
        self.write_off();
        self.known.fetch_sub(1, Ordering::AcqRel);
        self.happened.fetch_add(ONE_LESS, Ordering::Relaxed);
        if member.accelerated {
            self.accelerated.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(description) = &member.description {
            description.waiters.leave(self, key, member.pollable());
        }
    }
}
