// SPDX-License-Identifier: Apache-2.0
//! Readiness: what a description can say about itself, and who sleeps until it says something else.
//!
//! An accelerated socket is ready when its rings say so, which costs a load. Somebody who sleeps in the kernel, however,
//! only hears of it by a doorbell through the twin. So each description keeps a list of its [`Waiters`]: threads that
//! sleep in a blocking call, poll or select, and members of epoll sets. While one of them sleeps, the peer is asked to
//! ring ([`Pollable::arm`]).
//!
//! A doorbell is one byte in one queue, though several may sleep on it. Two rules keep that right. A thread drains the
//! twin only if no other thread sleeps on it: the twin stays readable until the last one has woken. And whoever drains
//! it tells the epoll sets of which the description is a sleeping member. Both happen under the list's lock, so that
//! nobody falls asleep between a doorbell and its draining without a second look at the rings.

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::datagram;
use crate::epoll::Set;
use crate::latch::Latch;
use crate::object::Object;
use crate::table::{self, Description, Ref};

/// A set of readiness events, with the bits that poll and epoll share.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Events(pub u32);

impl Events {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Data or an end of file can be read, a connection accepted.
    pub const IN: Self = Self(0x001);
    /// Urgent data.
    pub const PRI: Self = Self(0x002);
    /// Data can be written.
    pub const OUT: Self = Self(0x004);
    /// An error is pending.
    pub const ERR: Self = Self(0x008);
    /// Both directions are shut.
    pub const HUP: Self = Self(0x010);
    /// Normal data can be read; goes with [`Events::IN`].
    pub const RDNORM: Self = Self(0x040);
    /// Normal data can be written; goes with [`Events::OUT`].
    pub const WRNORM: Self = Self(0x100);
    /// Priority data can be written; a datagram socket says it with [`Events::OUT`].
    pub const WRBAND: Self = Self(0x200);
    /// The peer has shut its sending direction.
    pub const RDHUP: Self = Self(0x2000);
    /// Not the program's: the bell of a connection to another machine has rung.
    pub const BELL: Self = Self(1 << 24);
    /// Not the program's: the kernel is not to be asked about the twin.
    pub const SKIP: Self = Self(1 << 25);
    /// Not the program's: the connection is about to go over to the kernel, or has, and then only that can say what is ready.
    pub const KERNEL: Self = Self(1 << 26);
    /// What is reported whether asked for or not.
    pub const ALWAYS: Self = Self(Self::ERR.0 | Self::HUP.0);

    /// No event at all.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any event of `other` is in it.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// With the names that poll has beside the usual ones.
    #[inline(always)]
    #[must_use]
    pub const fn with_aliases(self) -> Self {
        let mut bits = self.0;
        if bits & Self::IN.0 != 0 {
            bits |= Self::RDNORM.0;
        }
        if bits & Self::OUT.0 != 0 {
            bits |= Self::WRNORM.0;
        }
        Self(bits)
    }

    /// What a waiter for these events wants of the rings: data, space or both.
    #[inline(always)]
    #[must_use]
    pub const fn directions(self) -> Self {
        let mut bits = 0;
        if self.0 & (Self::IN.0 | Self::RDNORM.0 | Self::RDHUP.0) != 0 {
            bits |= Self::IN.0;
        }
        if self.0 & (Self::OUT.0 | Self::WRNORM.0 | Self::WRBAND.0) != 0 {
            bits |= Self::OUT.0;
        }
        Self(bits)
    }
}

impl BitOr for Events {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Events {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Events {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// Something whose readiness is known without the kernel.
pub trait Pollable {
    /// What the program would be told now. No system call in the usual case.
    fn ready(&self) -> Events;

    /// What the peer shall ring for from now on ([`Events::IN`], [`Events::OUT`]); nothing: nobody sleeps.
    /// Ends with a full fence: the caller looks at [`Pollable::ready`] once more afterwards.
    fn arm(&self, want: Events);

    /// The kernel said `twin` about the twin: drain doorbells through `fd` without blocking, notice its end.
    /// Called with the waiters' lock held, so it must not touch them.
    fn woken(&self, fd: RawFd, twin: Events);

    /// Counters of events that an edge-triggered set reports: input, output.
    fn edges(&self) -> (u64, u64);

    /// What to ask the kernel about the twin for somebody who wants `want`.
    fn twin_interest(&self, want: Events) -> Events;

    /// A descriptor that is readable when the twin is not, although there is something new.
    fn bell(&self) -> Option<RawFd> {
        None
    }

    /// A sleep has ended without a sign: look for what nobody tells.
    fn heartbeat(&self) {}

    /// Somebody waits for `want`, and would be told as long as it is there.
    fn waited_for(&self, _want: Events) {}

    /// Who waits for `want` waits for room that is not likely to come: the next call goes over to the kernel, which has more.
    fn is_stalled(&self, _want: Events) -> bool {
        false
    }

    /// Another process holds this side too. It may drain our doorbells, so nobody sleeps long.
    fn shared(&self) -> bool {
        false
    }
}

/// Who sleeps.
enum Who {
    /// A thread in a blocking call.
    Thread(u64),
    /// A member of an epoll set: asleep while nobody looks at it at user level.
    Member(Arc<Set>, u64),
}

struct Waiter {
    who: Who,
    /// Nothing while awake.
    want: Events,
}

/// Everybody who waits for a description.
#[derive(Default)]
pub struct Waiters(Latch<Vec<Waiter>>);

static TOKENS: AtomicU64 = AtomicU64::new(1);

/// A number for a sleeping thread.
pub(crate) fn token() -> u64 {
    TOKENS.fetch_add(1, Ordering::Relaxed)
}

fn union(list: &[Waiter]) -> Events {
    list.iter()
        .fold(Events::NONE, |all, waiter| all | waiter.want)
}

fn other_threads(list: &[Waiter], token: u64) -> bool {
    list.iter()
        .any(|waiter| matches!(waiter.who, Who::Thread(other) if other != token))
}

/// Sleeping members other than `(set, member)`.
fn sleeping(list: &[Waiter], set: *const Set, member: u64) -> Vec<(Arc<Set>, u64)> {
    list.iter()
        .filter(|waiter| !waiter.want.is_empty())
        .filter_map(|waiter| match &waiter.who {
            Who::Member(other, key)
                if !(std::ptr::eq(Arc::as_ptr(other), set) && *key == member) =>
            {
                Some((other.clone(), *key))
            }
            _ => None,
        })
        .collect()
}

fn tell(members: Vec<(Arc<Set>, u64)>) {
    for (set, key) in members {
        set.poke(key);
    }
}

impl Waiters {
    /// Nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self(Latch::new(Vec::new()))
    }

    /// Forgets everybody; the description is about to be used again.
    pub fn reset(&self) {
        let list = std::mem::take(&mut *self.0.lock());
        drop(list);
    }

    /// Whether there is nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// A thread falls asleep: the peer is asked to ring. Look at the rings once more afterwards.
    pub(crate) fn thread_sleeps(&self, token: u64, want: Events, pollable: &dyn Pollable) {
        let mut list = self.0.lock();
        list.push(Waiter {
            who: Who::Thread(token),
            want: want.directions(),
        });
        pollable.arm(union(&list));
    }

    /// A thread is awake again; `twin` is what the kernel said. False if others still sleep on what it said.
    pub(crate) fn thread_wakes(
        &self,
        token: u64,
        pollable: &dyn Pollable,
        fd: RawFd,
        twin: Events,
    ) -> bool {
        let mut list = self.0.lock();
        list.retain(|waiter| !matches!(waiter.who, Who::Thread(own) if own == token));
        pollable.arm(union(&list));
        if twin.is_empty() {
            return true;
        }
        if other_threads(&list, token) {
            return false;
        }
        pollable.woken(fd, twin);
        let members = if list.is_empty() {
            Vec::new()
        } else {
            sleeping(&list, std::ptr::null(), 0)
        };
        drop(list);
        tell(members);
        true
    }

    /// A thread that does not sleep has learnt what the kernel says about the twin.
    pub(crate) fn seen(&self, pollable: &dyn Pollable, fd: RawFd, twin: Events) {
        let list = self.0.lock();
        if other_threads(&list, 0) {
            return;
        }
        pollable.woken(fd, twin);
        let members = if list.is_empty() {
            Vec::new()
        } else {
            sleeping(&list, std::ptr::null(), 0)
        };
        drop(list);
        tell(members);
    }

    /// A set has a new member.
    pub(crate) fn join(&self, set: &Arc<Set>, member: u64) {
        self.0.lock().push(Waiter {
            who: Who::Member(set.clone(), member),
            want: Events::NONE,
        });
    }

    /// A set has lost a member.
    pub(crate) fn leave(&self, set: &Set, member: u64, pollable: Option<&dyn Pollable>) {
        let mut list = self.0.lock();
        let mut gone = Vec::new();
        let mut index = 0;
        while index < list.len() {
            if is_member(&list[index], set, member) {
                // The last reference to a set may not be dropped under the lock.
                gone.push(list.swap_remove(index));
            } else {
                index += 1;
            }
        }
        if let Some(pollable) = pollable
            && gone.iter().any(|waiter| !waiter.want.is_empty())
        {
            pollable.arm(union(&list));
        }
        drop(list);
    }

    /// A member falls asleep (`want`) or wakes (nothing).
    pub(crate) fn member(&self, set: &Set, member: u64, want: Events, pollable: &dyn Pollable) {
        let mut list = self.0.lock();
        for waiter in list.iter_mut() {
            if is_member(waiter, set, member) {
                waiter.want = want.directions();
            }
        }
        pollable.arm(union(&list));
    }

    /// A member of `set` was woken by the kernel, which says `twin`; it is awake from now on.
    /// Gives back the sleeping members of other sets; they must be told with no lock held.
    #[must_use]
    pub(crate) fn member_woken(
        &self,
        set: &Set,
        member: u64,
        pollable: &dyn Pollable,
        fd: RawFd,
        twin: Events,
    ) -> Told {
        let mut list = self.0.lock();
        for waiter in list.iter_mut() {
            if is_member(waiter, set, member) {
                waiter.want = Events::NONE;
            }
        }
        pollable.arm(union(&list));
        if other_threads(&list, 0) {
            // They are about to wake, and the last of them drains the twin.
            return Told(Vec::new());
        }
        pollable.woken(fd, twin);
        if list.len() == 1 {
            return Told(Vec::new());
        }
        Told(sleeping(&list, set, member))
    }

    /// Sets in which the description is a member.
    fn members(&self) -> Vec<(Arc<Set>, u64)> {
        self.0
            .lock()
            .iter()
            .filter_map(|waiter| match &waiter.who {
                Who::Member(set, key) => Some((set.clone(), *key)),
                Who::Thread(_) => None,
            })
            .collect()
    }

    fn without_threads(&self) {
        self.0
            .lock()
            .retain(|waiter| matches!(waiter.who, Who::Member(..)));
    }
}

/// Members of other sets that have to hear of an event.
pub(crate) struct Told(Vec<(Arc<Set>, u64)>);

impl Told {
    pub(crate) fn tell(self) {
        tell(self.0);
    }

    /// As [`Told::tell`], for who may hold the lock of one of these sets.
    pub(crate) fn tell_locked(self) {
        for (set, key) in self.0 {
            set.poke_locked(key);
        }
    }

    /// Everybody in whose sets the description is: it was asked for them, too, what a wait has just taken.
    pub(crate) fn of_members(description: &Description) -> Self {
        Self(description.waiters.members())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn is_member(waiter: &Waiter, set: &Set, member: u64) -> bool {
    matches!(&waiter.who, Who::Member(own, key) if std::ptr::eq(Arc::as_ptr(own), set) && *key == member)
}

/// A pending socket has become something else: sets that have it as a member look at it anew.
pub fn changed(description: &Description) {
    for (set, key) in description.waiters.members() {
        set.reconsider(key);
    }
}

/// `fd`, the last descriptor of this process, is about to be closed: its place in epoll sets is gone, and so are the members
/// of a set that is closed itself.
pub fn closed(fd: RawFd, description: &Description) {
    for (set, key) in description.waiters.members() {
        set.closing(key, fd);
    }
    if let Object::Epoll(epoll) = description.object() {
        epoll.close();
    }
}

/// Any descriptor of this process that refers to `description`; the one it was added with may be closed.
pub(crate) fn any_fd(description: &Description) -> Option<RawFd> {
    let mut found = None;
    table::each(|fd, other| {
        if std::ptr::eq(&*other, description) {
            found = Some(fd);
        }
    });
    found
}

/// Held from before a fork until after it, so that forks of two threads come one after the other.
static FORKING: Latch<()> = Latch::new(());
/// Descriptions whose locks were taken for the fork.
static HELD: Latch<Vec<Ref>> = Latch::new(Vec::new());

/// Before a fork: takes every lock of this module and of the sets, so that the child finds none half way.
pub fn before_fork() {
    FORKING.acquire();
    datagram::hear_all();
    let mut all = Vec::new();
    table::each(|_, description| all.push(description));
    all.sort_by_key(|description| description.id());
    all.dedup_by_key(|description| description.id());
    // Sets before waiters, as everywhere.
    for description in &all {
        if let Object::Epoll(epoll) = description.object() {
            epoll.before_fork();
        }
    }
    for description in &all {
        description.waiters.0.acquire();
        description.inside.before_fork();
    }
    datagram::before_fork();
    for description in &all {
        if let Object::Datagram(datagram) = description.object() {
            datagram.before_fork();
        }
    }
    *HELD.lock() = all;
}

/// After a fork, in the parent and in the child.
pub fn after_fork(child: bool) {
    let all = std::mem::take(&mut *HELD.lock());
    for description in &all {
        if let Object::Datagram(datagram) = description.object() {
            datagram.release();
        }
    }
    datagram::after_fork();
    for description in &all {
        description.inside.after_fork(child);
        description.waiters.0.release();
        if let Object::Epoll(epoll) = description.object() {
            epoll.after_fork(child);
        }
    }
    if child {
        for description in &all {
            description.waiters.without_threads();
            if let Object::Datagram(datagram) = description.object() {
                datagram.after_fork();
            }
        }
        crate::wait::after_fork();
    }
    FORKING.release();
}
