// SPDX-License-Identifier: Apache-2.0
//! A set that a fork has made a set of two processes.
//!
//! The kernel's set is one for both, but of its members that the library knows each process has a list of its own. Most children
//! never use what they have inherited, and cost nothing. The first use by one that does makes the set *plain*: connections in it
//! leave their rings, and their registrations, and those of all others that the kernel serves, become the program's own. Each
//! process then forgets these members. The process that made the set goes first, if it uses the set at all. What it has changed
//! since the fork it writes down in memory that both have. Where that process is gone, or has closed the set, as those do that go
//! to the background, the set is the child's, and stays what it was.
//!
//! Datagram sockets, nested sets, and connections that cannot leave their rings stay what they are, each process's own.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ipc::protocol::Fallback;
use shm::memory::Mapping;

use super::members::{EDGE, EXCLUSIVE, FLAGS, Member, SPENT, looks_like_key};
use super::{Inner, Set, kernel};
use crate::object::Object;
use crate::ready::Events;
use crate::signals::handlers::Quiet;
use crate::table::{self, Description, Ref};
use crate::wait;

/// How far all its processes are in making a set plain.
mod agreed {
    /// Nobody but the process that made the set has used it.
    pub const OWNED: u32 = 0;
    /// Another one is about to.
    pub const ASKED: u32 = 1;
    /// The registrations are the program's.
    pub const PLAIN: u32 = 2;
}

/// How long who asks waits for the process that made the set, and how long lies between two looks.
const PATIENCE: u32 = 100;
const NAP: Duration = Duration::from_micros(300);

/// How often a process that cannot wait any longer for another's change looks whether that is alive, and when it goes on anyhow.
const LOOKS: u32 = 64;
/// As long as one system call takes it does not sleep.
const BRIEF: u32 = 16;
const DESPAIR: u32 = 4_096;

/// Members of which the changes are written down, by their places.
const NOTES: usize = 2_000;

/// What the process that made the set has changed of a member since the fork.
#[derive(Default)]
#[repr(C)]
struct Note {
    /// Of which member; 0: of none.
    key: AtomicU64,
    data: AtomicU64,
    /// What a registration that is the program's own would ask for.
    events: AtomicU32,
    /// Whether the kernel's registration is another.
    accelerated: AtomicU32,
}

#[repr(C)]
struct Words {
    stage: AtomicU32,
    /// The process whose set it is; 0: it has closed it.
    owner: AtomicU32,
    /// The PID namespace in which `owner` and `changer` mean processes.
    namespace: AtomicU64,
    /// The process that changes the kernel's registrations; 0: none.
    changer: AtomicU32,
    /// How many notes were written.
    changes: AtomicU32,
    notes: [Note; NOTES],
}

/// What the processes that have a set agree on.
#[derive(Debug)]
pub(super) struct Shared(Mapping);

impl Shared {
    fn new() -> Option<Self> {
        let shared = Self(Mapping::for_children(size_of::<Words>()).ok()?);
        let words = shared.words();
        words.namespace.store(pid_namespace(), Ordering::Relaxed);
        words.owner.store(own_number(), Ordering::Release);
        Some(shared)
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping is as large, is aligned to a page and lives as long as `self`; zeros are valid words, of which all are
        // atomics.
        unsafe { &*self.0.as_ptr().cast() }
    }

    fn stage(&self) -> &AtomicU32 {
        &self.words().stage
    }

    fn owner(&self) -> &AtomicU32 {
        &self.words().owner
    }

    fn changes(&self) -> &AtomicU32 {
        &self.words().changes
    }

    fn note(&self, key: u64) -> Option<&Note> {
        self.words().notes.get(key as u32 as usize)
    }

    /// What was written down of a member.
    fn noted(&self, key: u64) -> Option<Wanted> {
        let note = self.note(key)?;
        (note.key.load(Ordering::Acquire) == key).then(|| Wanted {
            data: note.data.load(Ordering::Relaxed),
            events: note.events.load(Ordering::Relaxed),
            accelerated: note.accelerated.load(Ordering::Relaxed) != 0,
        })
    }

    /// The kernel's registrations are one process's to change at a time. None: another thread of this one is at it, for which only
    /// those may wait who hold no lock.
    fn change(&self, patient: bool) -> Option<Change<'_>> {
        let quiet = Quiet::begin();
        let (changer, own) = (&self.words().changer, own_number());
        let take = |holder| {
            changer
                .compare_exchange(holder, own, Ordering::AcqRel, Ordering::Acquire)
                .err()
        };
        let mut looks = 0;
        while let Some(holder) = take(0) {
            looks += 1;
            if holder == own && !patient {
                return None;
            }
            let gone =
                holder != own && looks % LOOKS == 0 && self.is_in_sight() && !is_alive(holder);
            if (gone || looks == DESPAIR) && take(holder).is_none() {
                break;
            }
            match looks {
                ..=BRIEF => rustix::thread::sched_yield(),
                _ => drop(rustix::thread::nanosleep(&wait::timespec(NAP))),
            }
        }
        Some(Change {
            changer,
            own,
            _quiet: quiet,
        })
    }

    /// Notes that the set is to be plain. Says whether nobody has before.
    fn is_asked_first(&self) -> bool {
        let (first, then) = (agreed::OWNED, agreed::ASKED);
        self.stage()
            .compare_exchange(first, then, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Whether the numbers of processes in the words mean the same to this one.
    fn is_in_sight(&self) -> bool {
        let namespace = pid_namespace();
        namespace != 0 && namespace == self.words().namespace.load(Ordering::Relaxed)
    }

    /// Makes the set this process's own, if it is nobody's any more, was not made plain, and is as it was after `since` changes. Who
    /// cannot see the owner's process takes it to be alive.
    fn take_over(&self, since: u32) -> bool {
        if !self.is_in_sight() || self.changes().load(Ordering::Acquire) != since {
            return false;
        }
        let owner = self.owner().load(Ordering::Acquire);
        let left = owner == 0 || !is_alive(owner);
        let taken = left
            && self.words().changer.load(Ordering::Acquire) == 0
            && self.stage().load(Ordering::Acquire) != agreed::PLAIN
            && self
                .owner()
                .compare_exchange(owner, own_number(), Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if taken {
            // Nobody is asked any more, unless another child asks this one.
            self.stage().store(agreed::OWNED, Ordering::Release);
        }
        taken
    }
}

/// While it lives no other process changes the kernel's registrations. Handlers, which may want that as well, are put off.
pub(super) struct Change<'a> {
    changer: &'a AtomicU32,
    own: u32,
    _quiet: Quiet,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let _ = self
            .changer
            .compare_exchange(self.own, 0, Ordering::Release, Ordering::Relaxed);
    }
}

fn own_number() -> u32 {
    rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned()
}

/// Inode of the calling process's PID namespace; 0 if it cannot be known, as where there is no /proc.
fn pid_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
}

/// Whether a process of the same PID namespace lives, and has not only not been waited for yet.
fn is_alive(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        // Another user's may be hidden.
        let process = rustix::process::Pid::from_raw(process.cast_signed());
        return process.is_some_and(|process| {
            rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
        });
    };
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !state.starts_with(['Z', 'X'])
}

/// How far this process is in making a set plain.
pub(super) mod stage {
    /// Not yet.
    pub const OWN: u32 = 0;
    /// Connections are leaving; the registrations are yet to be changed.
    pub const LEAVING: u32 = 1;
    /// What can be plain is.
    pub const PLAIN: u32 = 2;
}

/// A registration in the kernel's set.
#[derive(Clone, Copy)]
struct Registered {
    events: u32,
    data: u64,
}

impl Registered {
    /// By the library, of a member that the program wants so.
    fn of(key: u64, wanted: Wanted) -> Self {
        Self {
            events: wanted.events,
            data: key,
        }
    }
}

/// What the program wants of a member.
#[derive(Clone, Copy)]
struct Wanted {
    data: u64,
    events: u32,
    accelerated: bool,
}

impl Wanted {
    fn of(member: &Member) -> Self {
        Self {
            data: member.data,
            events: member.plain(),
            accelerated: member.accelerated,
        }
    }
}

/// A member as it was when the set began to become plain.
struct Known {
    key: u64,
    fd: RawFd,
    description: Option<Ref>,
    wanted: Wanted,
    /// It had gone off, as far as this process knew.
    spent: bool,
}

impl Known {
    /// As this process knows it.
    fn of(key: u64, member: &Member) -> Self {
        Self {
            key,
            fd: member.number().unwrap_or(member.fd),
            description: member.description.clone(),
            wanted: Wanted::of(member),
            spent: member.spent,
        }
    }
}

/// The kernel's list of what is registered, by number: of several under one number the last. None where there is no /proc.
fn registered(epoll: RawFd) -> Option<BTreeMap<RawFd, Registered>> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")).ok()?;
    let one = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let fd = words.next()?.parse().ok()?;
        let mut named = |name| words.next().filter(|word| *word == name).and(words.next());
        let events = u32::from_str_radix(named("events:")?, 16).ok()?;
        let data = u64::from_str_radix(named("data:")?, 16).ok()?;
        Some((fd, Registered { events, data }))
    };
    Some(text.lines().filter_map(one).collect())
}

/// Whether the library has to know what it is, as the kernel alone could not say what is ready.
fn stays(description: Option<&Ref>) -> bool {
    match description.map(|description| description.object()) {
        None | Some(Object::Listener(_) | Object::Lost(_)) => false,
        Some(Object::Stream(stream)) => stream.is_twin(),
        Some(_) => true,
    }
}

impl Set {
    /// Before a fork.
    pub(super) fn share(&self) {
        if self.shared.get().is_none()
            && let Some(shared) = Shared::new()
        {
            let _ = self.shared.set(shared);
        }
    }

    /// Before a fork, with the set's lock held: what the child inherits is as it is now, if this process knows that.
    pub(super) fn date(&self) {
        if let Some(shared) = self.shared.get()
            && self.owned.load(Ordering::Relaxed)
        {
            let since = shared.changes().load(Ordering::Acquire);
            self.since.store(since, Ordering::Relaxed);
        }
    }

    /// The process has closed the set.
    pub(super) fn give_up(&self) {
        if let Some(shared) = self.shared.get()
            && self.owned.swap(false, Ordering::Relaxed)
        {
            shared.owner().store(0, Ordering::Release);
        }
    }

    /// In a child, after a fork.
    pub(super) fn was_inherited(&self) {
        self.inherited.store(true, Ordering::Relaxed);
        self.owned.store(false, Ordering::Relaxed);
        // Another thread of the parent was at it, and is not here.
        let _ = self.stage.compare_exchange(
            stage::LEAVING,
            stage::OWN,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// Whether the registrations are the program's own, but for those of members that stay.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.stage.load(Ordering::Acquire) != stage::OWN
    }

    /// Whether another process has made it plain, of which this one has not taken notice yet: registrations are not its to change.
    pub(super) fn is_taken(&self) -> bool {
        let shared = self.shared.get();
        shared.is_some_and(|shared| shared.stage().load(Ordering::Acquire) == agreed::PLAIN)
            && !self.is_plain()
    }

    /// The process is about to use the set, or goes on with that: it may have to be plain.
    #[inline]
    pub(super) fn attend(&self, epoll: RawFd) {
        if let Some(shared) = self.shared.get()
            && self.stage.load(Ordering::Acquire) != stage::PLAIN
        {
            self.attend_shared(epoll, shared);
        }
    }

    /// Another process is going to use the set that does not ask.
    pub(super) fn make_plain(&self, epoll: RawFd) {
        if let Some(shared) = self.shared.get() {
            shared.is_asked_first();
            self.attend(epoll);
        }
    }

    /// As [`Set::attend`], for who is going to change a registration: no other process does until the guard is dropped.
    pub(super) fn attend_to_change(&self, epoll: RawFd) -> Option<Change<'_>> {
        loop {
            self.attend(epoll);
            let change = self.shared.get()?.change(true);
            if !self.is_taken() {
                return change;
            }
        }
    }

    /// The right to change a registration, for who holds the set's lock. Err: the registrations are not this process's to change,
    /// or another thread of it is making the set plain.
    pub(super) fn may_register(&self) -> Result<Option<Change<'_>>, ()> {
        let Some(shared) = self.shared.get() else {
            return Ok(None);
        };
        let change = shared.change(false);
        let going = self.stage.load(Ordering::Acquire) == stage::LEAVING;
        if going || self.is_taken() {
            return Err(());
        }
        // If another thread has the right, it needs the set's lock to make use of it.
        Ok(change)
    }

    #[cold]
    fn attend_shared(&self, epoll: RawFd, shared: &Shared) {
        let now = shared.stage();
        if self.owned.load(Ordering::Relaxed) {
            if now.load(Ordering::Acquire) == agreed::OWNED {
                return;
            }
        } else if shared.take_over(self.since.load(Ordering::Relaxed)) {
            return self.owned.store(true, Ordering::Relaxed);
        } else {
            for _ in 0..PATIENCE {
                // Who has taken the set over meanwhile does not know that it was asked for.
                self.ask(epoll, shared);
                if now.load(Ordering::Acquire) == agreed::PLAIN {
                    break;
                }
                let _ = rustix::thread::nanosleep(&wait::timespec(NAP));
                // It may just be going.
                if shared.take_over(self.since.load(Ordering::Relaxed)) {
                    return self.owned.store(true, Ordering::Relaxed);
                }
            }
        }
        let first = stage::OWN;
        let mine =
            self.stage
                .compare_exchange(first, stage::LEAVING, Ordering::AcqRel, Ordering::Acquire);
        if mine.is_ok() {
            let change = shared.change(true);
            self.become_plain(epoll);
            now.store(agreed::PLAIN, Ordering::Release);
            self.stage.store(stage::PLAIN, Ordering::Release);
            return drop(change);
        }
        // What another thread of this process knows of a member it may not have written into the kernel's set yet.
        for _ in 0..DESPAIR {
            if self.stage.load(Ordering::Acquire) != stage::LEAVING {
                return;
            }
            let _ = rustix::thread::nanosleep(&wait::timespec(NAP));
        }
    }

    /// Asks the process that made the set to make it plain.
    fn ask(&self, epoll: RawFd, shared: &Shared) {
        if shared.is_asked_first() {
            self.rouse(epoll, shared);
        }
    }

    /// Whether this process was asked to make the set plain, and has yet to: it tells of nothing before.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        let asked = |shared: &Shared| shared.stage().load(Ordering::Acquire) != agreed::OWNED;
        self.shared.get().is_some_and(asked) && !self.is_plain()
    }

    /// Wakes who sleeps in the kernel's set by any member that its owner looks at itself: a twin can be written nearly always, and a
    /// changed registration is looked at anew.
    fn rouse(&self, epoll: RawFd, shared: &Shared) {
        let _change = shared.change(true);
        if self.is_taken() {
            return;
        }
        let Some(registered) = registered(epoll) else {
            return;
        };
        let accelerated = |known: &Known| {
            let there = registered.get(&known.fd).copied();
            let there =
                there.filter(|there| there.data == known.key && there.events & EDGE != 0)?;
            known.wanted.accelerated.then_some((known.fd, there))
        };
        if let Some((fd, there)) = self.known_members(&registered).iter().find_map(accelerated) {
            let events = there.events | Events::OUT.0;
            let _ = kernel::ctl(epoll, libc::EPOLL_CTL_MOD, fd, events, there.data);
        }
    }

    fn become_plain(&self, epoll: RawFd) {
        let listed = registered(epoll);
        let is_listed = listed.is_some();
        let registered = listed.unwrap_or_else(|| self.presumed());
        let known = self.known_members(&registered);
        for member in &known {
            if let Some(description) = &member.description {
                leave(member.fd, description);
            }
        }
        for member in known {
            // Its number may be another one meanwhile.
            let is_there = registered.values().any(|there| there.data == member.key);
            let owned = self.owned.load(Ordering::Relaxed);
            match stays(member.description.as_ref()) {
                true if owned => {}
                true if is_there || !is_listed => self.take_note(&member),
                _ => self.forget_plain(epoll, &member, &registered),
            }
        }
    }

    /// What is registered as far as this process's list says, where the kernel's cannot be read.
    fn presumed(&self) -> BTreeMap<RawFd, Registered> {
        let agreed = self.shared.get().map(Shared::stage);
        if agreed.is_some_and(|stage| stage.load(Ordering::Acquire) == agreed::PLAIN) {
            return BTreeMap::new();
        }
        let inner = self.inner.lock();
        let one = |place: u32| {
            let member = inner.members.get(place)?;
            let fd = member.number().unwrap_or(member.fd);
            Some((
                fd,
                Registered::of(inner.members.key(place), Wanted::of(member)),
            ))
        };
        inner.members.all().into_iter().filter_map(one).collect()
    }

    /// The members of this process's list and of the kernel's, as the process that made the set has left them.
    fn known_members(&self, registered: &BTreeMap<RawFd, Registered>) -> Vec<Known> {
        let inner = self.inner.lock();
        let noted = |key| match self.owned.load(Ordering::Relaxed) {
            true => None,
            false => self.shared.get()?.noted(key),
        };
        let all = inner.members.all().into_iter();
        let own = all.filter_map(|place| {
            let key = inner.members.key(place);
            let mut known = Known::of(key, inner.members.get(place)?);
            if let Some(wanted) = noted(key) {
                known.wanted = wanted;
            }
            Some(known)
        });
        let added = registered.iter().filter_map(|(fd, there)| {
            let key = there.data;
            let unknown = looks_like_key(key) && inner.members.place(key).is_none();
            Some(Known {
                key,
                fd: *fd,
                description: table::get(*fd),
                wanted: unknown.then(|| noted(key))??,
                spent: false,
            })
        });
        own.chain(added).collect()
    }

    /// A member that stays, as one whose peer is gone, is from here on what the process that made the set has left: of what that
    /// was told, once, nobody else is.
    fn take_note(&self, known: &Known) {
        let mut inner = self.inner.lock();
        let place = inner.members.place(known.key);
        if let Some(member) = place.and_then(|place| inner.members.get_mut(place)) {
            member.take_over(known.wanted.events, known.wanted.data);
        }
    }

    /// A member that the kernel serves is the kernel's alone.
    fn forget_plain(&self, epoll: RawFd, known: &Known, registered: &BTreeMap<RawFd, Registered>) {
        let (key, fd, wanted) = (known.key, known.fd, known.wanted);
        let member = {
            // Other threads change registrations only while they have the lock.
            let mut inner = self.inner.lock();
            let place = inner.members.place(key);
            // Unless another process has done it.
            let there = registered.get(&fd).filter(|there| there.data == key);
            if let Some(there) = there {
                let member = place.and_then(|at| inner.members.get(at));
                // Another thread may have told of it meanwhile.
                let told = member.is_some_and(|member| member.spent) && !known.spent;
                let events = match wanted.accelerated {
                    _ if told => 0,
                    false if there.events & !FLAGS == 0 => 0,
                    _ => wanted.events,
                };
                if events & !FLAGS == 0 {
                    // It has gone off. The program's registration would be told of the connection's end all the same: so this one
                    // stays until the program arms it again.
                    if wanted.accelerated {
                        let _ = kernel::ctl(epoll, libc::EPOLL_CTL_MOD, fd, SPENT, key);
                    }
                    if wanted.events & !FLAGS == 0
                        && let Some(member) = place.and_then(|at| inner.members.get_mut(at))
                    {
                        member.spent = true;
                    }
                    return;
                }
                if (events | there.events) & EXCLUSIVE != 0 {
                    let _ = kernel::ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
                    let _ = kernel::ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, wanted.data);
                } else {
                    let _ = kernel::ctl(epoll, libc::EPOLL_CTL_MOD, fd, events, wanted.data);
                }
            }
            place.and_then(|place| inner.members.remove(place))
        };
        if let Some(member) = member {
            self.forgotten(member, key);
        }
    }

    /// The process whose set it is has taken a member out.
    pub(super) fn write_off(&self) {
        if let Some(shared) = self.shared.get()
            && self.owned.load(Ordering::Relaxed)
        {
            shared.changes().fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The process whose set it is has changed a member.
    #[inline]
    pub(super) fn write_down(&self, inner: &Inner, place: u32) {
        if let Some(shared) = self.shared.get()
            && self.owned.load(Ordering::Relaxed)
            && let Some(member) = inner.members.get(place)
            && let key = inner.members.key(place)
        {
            shared.changes().fetch_add(1, Ordering::AcqRel);
            let Some(note) = shared.note(key) else {
                return;
            };
            let wanted = Wanted::of(member);
            note.data.store(wanted.data, Ordering::Relaxed);
            note.events.store(wanted.events, Ordering::Relaxed);
            let accelerated = u32::from(wanted.accelerated);
            note.accelerated.store(accelerated, Ordering::Relaxed);
            note.key.store(key, Ordering::Release);
        }
    }

    /// A connection in a plain set has gone over to the kernel.
    pub(super) fn gone_over(&self, key: u64) {
        let known = {
            let inner = self.inner.lock();
            let place = inner.members.place(key);
            let member = place.and_then(|at| inner.members.get(at));
            member.map(|member| Known::of(key, member))
        };
        if self.stage.load(Ordering::Acquire) == stage::PLAIN
            && let Some(epoll) = self.descriptor()
            && let Some(mut known) = known
        {
            // It was until now.
            known.wanted.accelerated = true;
            let presumed = || BTreeMap::from([(known.fd, Registered::of(key, known.wanted))]);
            // This thread may be changing another one.
            let _change = self.shared.get().map(|shared| shared.change(false));
            let registered = registered(epoll).unwrap_or_else(presumed);
            self.forget_plain(epoll, &known, &registered);
        }
    }

    /// Whether events have to be translated, as members are known, or other processes may know some.
    pub(super) fn translates(&self) -> bool {
        self.known.load(Ordering::Acquire) != 0
            || self.bells.load(Ordering::Relaxed)
            || self.shared.get().is_some()
    }

    /// Whether nothing is said of a member before it is known whose it is: its connection may be about to be the kernel's.
    pub(super) fn is_moving(&self, member: &Member) -> bool {
        let stream = |description: &Ref| matches!(description.object(), Object::Stream(_));
        self.stage.load(Ordering::Acquire) == stage::LEAVING
            && member.description.as_ref().is_some_and(stream)
    }

    /// A registration that the program has just changed or taken back is its own.
    pub(super) fn forget_own(&self, fd: RawFd, id: u64) {
        let member = {
            let mut inner = self.inner.lock();
            let Some(place) = inner.members.find(fd, id) else {
                return;
            };
            let key = inner.members.key(place);
            inner.members.remove(place).map(|member| (member, key))
        };
        if let Some((member, key)) = member {
            self.forgotten(member, key);
        }
    }

    /// In a plain set a connection is to be the kernel's before anything is said of it, and is then none of the library's.
    /// Says whether `description` is nothing that the library has to know.
    pub(super) fn is_kernels(&self, fd: RawFd, description: Option<&Ref>, data: u64) -> bool {
        if !self.is_plain() || looks_like_key(data) {
            return false;
        }
        if let Some(description) = description {
            leave(fd, description);
        }
        !stays(description)
    }
}

fn leave(fd: RawFd, description: &Description) {
    if let Object::Stream(stream) = description.object() {
        stream.retire(fd, description, Fallback::SharedSet);
    }
}
