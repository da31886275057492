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

use super::members::{EXCLUSIVE, Member, looks_like_key};
use super::{Inner, Set, kernel};
use crate::object::Object;
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
    /// The PID namespace in which `owner` means a process.
    namespace: AtomicU64,
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

    /// Makes the set this process's own, if it is nobody's any more, and was not made plain. Who cannot see the owner's process
    /// takes it to be alive.
    fn take_over(&self) -> bool {
        let namespace = pid_namespace();
        if namespace == 0 || namespace != self.words().namespace.load(Ordering::Relaxed) {
            return false;
        }
        let owner = self.owner().load(Ordering::Acquire);
        let left = owner == 0 || !is_alive(owner);
        let taken = left
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

    /// The process has closed the set.
    pub(super) fn give_up(&self) {
        if let Some(shared) = self.shared.get()
            && self.owned.load(Ordering::Relaxed)
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
            && !self.is_plain()
        {
            self.attend_shared(epoll, shared);
        }
    }

    #[cold]
    fn attend_shared(&self, epoll: RawFd, shared: &Shared) {
        let now = shared.stage();
        if self.owned.load(Ordering::Relaxed) {
            if now.load(Ordering::Acquire) == agreed::OWNED {
                return;
            }
        } else if shared.take_over() {
            return self.owned.store(true, Ordering::Relaxed);
        } else {
            let asks = now.compare_exchange(
                agreed::OWNED,
                agreed::ASKED,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if asks.is_ok() {
                self.rouse();
            }
            for _ in 0..PATIENCE {
                if now.load(Ordering::Acquire) == agreed::PLAIN {
                    break;
                }
                // It may just be going.
                if shared.take_over() {
                    return self.owned.store(true, Ordering::Relaxed);
                }
                let _ = rustix::thread::nanosleep(&wait::timespec(NAP));
            }
        }
        let first = stage::OWN;
        let mine =
            self.stage
                .compare_exchange(first, stage::LEAVING, Ordering::AcqRel, Ordering::Acquire);
        if mine.is_ok() {
            self.become_plain(epoll);
            self.stage.store(stage::PLAIN, Ordering::Release);
            now.store(agreed::PLAIN, Ordering::Release);
        }
    }

    /// Wakes who sleeps in the kernel's set by any member: it sees then what it is asked for.
    fn rouse(&self) {
        let mut inner = self.inner.lock();
        let all = inner.members.all();
        let accelerated = |place: &&u32| {
            let member = inner.members.get(**place);
            member.is_some_and(|member| member.accelerated)
        };
        if let Some(place) = all.iter().find(accelerated).copied() {
            self.kick(&mut inner, place);
        }
    }

    fn become_plain(&self, epoll: RawFd) {
        let registered = registered(epoll).unwrap_or_else(|| self.presumed());
        let known = self.known_members(&registered);
        for member in &known {
            if let Some(description) = &member.description {
                leave(member.fd, description);
            }
        }
        for member in known {
            if !stays(member.description.as_ref()) {
                self.forget_plain(epoll, member.key, member.fd, member.wanted, &registered);
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
            let member = inner.members.get(place)?;
            let key = inner.members.key(place);
            Some(Known {
                key,
                fd: member.number().unwrap_or(member.fd),
                description: member.description.clone(),
                wanted: noted(key).unwrap_or(Wanted::of(member)),
            })
        });
        let added = registered.iter().filter_map(|(fd, there)| {
            let key = there.data;
            let unknown = looks_like_key(key) && inner.members.place(key).is_none();
            Some(Known {
                key,
                fd: *fd,
                description: table::get(*fd),
                wanted: unknown.then(|| noted(key))??,
            })
        });
        own.chain(added).collect()
    }

    /// A member that the kernel serves is the kernel's alone.
    fn forget_plain(
        &self,
        epoll: RawFd,
        key: u64,
        fd: RawFd,
        wanted: Wanted,
        registered: &BTreeMap<RawFd, Registered>,
    ) {
        // Unless another process has done it.
        if let Some(there) = registered.get(&fd)
            && there.data == key
        {
            // One that has gone off and is to be silent is so in the kernel's registration, which the program's would arm again.
            let events = match wanted.accelerated {
                true => wanted.events,
                false => there.events,
            };
            if (events | there.events) & EXCLUSIVE != 0 {
                let _ = kernel::ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
                let _ = kernel::ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, wanted.data);
            } else {
                let _ = kernel::ctl(epoll, libc::EPOLL_CTL_MOD, fd, events, wanted.data);
            }
        }
        let member = {
            let mut inner = self.inner.lock();
            let place = inner.members.place(key);
            place.and_then(|place| inner.members.remove(place))
        };
        if let Some(member) = member {
            self.forgotten(member, key);
        }
    }

    /// The process whose set it is has changed a member.
    #[inline]
    pub(super) fn write_down(&self, inner: &Inner, place: u32) {
        if let Some(shared) = self.shared.get()
            && self.owned.load(Ordering::Relaxed)
            && let Some(member) = inner.members.get(place)
            && let key = inner.members.key(place)
            && let Some(note) = shared.note(key)
        {
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
        let member = {
            let inner = self.inner.lock();
            let member = inner
                .members
                .place(key)
                .and_then(|at| inner.members.get(at));
            member.map(|member| {
                let accelerated = true;
                let wanted = Wanted::of(member);
                (
                    member.fd,
                    Wanted {
                        accelerated,
                        ..wanted
                    },
                )
            })
        };
        if self.stage.load(Ordering::Acquire) == stage::PLAIN
            && let Some(epoll) = self.descriptor()
            && let Some((fd, wanted)) = member
        {
            let presumed = || BTreeMap::from([(fd, Registered::of(key, wanted))]);
            let registered = registered(epoll).unwrap_or_else(presumed);
            self.forget_plain(epoll, key, fd, wanted, &registered);
        }
    }

    /// Whether events have to be translated, as members are known, or other processes may know some.
    pub(super) fn translates(&self) -> bool {
        self.known.load(Ordering::Acquire) != 0
            || self.bells.load(Ordering::Relaxed)
            || self.shared.get().is_some()
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
