// SPDX-License-Identifier: Apache-2.0
//! A set that a fork has made a set of two processes.
//!
//! The kernel's set is one for both, but of its members that the library knows each process has a list of its own. Most children
//! never use what they have inherited, and cost nothing. The first use by one that does makes the set *plain*: connections in it
//! leave their rings, and their registrations, and those of all others that the kernel serves, become the program's own. Each
//! process then forgets these members. The process that made the set goes first, if it uses the set at all, because only that
//! knows what it has changed since the fork; the child asks for it in memory that both have. Where that process is gone, or has
//! closed the set, as those do that go to the background, the set is the child's, and stays what it was.
//!
//! Datagram sockets, nested sets, and connections that cannot leave their rings stay what they are, each process's own.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ipc::protocol::Fallback;
use shm::memory::Mapping;

use super::members::{EXCLUSIVE, looks_like_key};
use super::{Set, kernel};
use crate::object::Object;
use crate::table::{Description, Ref};
use crate::wait;

/// Nobody but the process that made the set has used it.
const OWN: u32 = 0;
/// Another one is about to.
const ASKED: u32 = 1;
/// The registrations are the program's.
const PLAIN: u32 = 2;

/// How long who asks waits for the process that made the set, and how long lies between two looks.
const PATIENCE: u32 = 100;
const NAP: Duration = Duration::from_micros(300);

/// What the processes that have a set agree on.
#[derive(Debug)]
pub(super) struct Shared(Mapping);

impl Shared {
    fn new() -> Option<Self> {
        let shared = Self(Mapping::for_children(2 * size_of::<AtomicU32>()).ok()?);
        shared.owner().store(own_number(), Ordering::Release);
        Some(shared)
    }

    fn stage(&self) -> &AtomicU32 {
        self.word(0)
    }

    /// The process whose set it is; 0: it has closed it.
    fn owner(&self) -> &AtomicU32 {
        self.word(1)
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at < 2);
        // SAFETY: inside of the mapping, which has two words, is aligned to a page and lives as long as `self`; everybody uses
        // them as atomics.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().cast::<u32>().add(at)) }
    }

    /// Makes the set this process's own, if it is nobody's any more, and was not made plain.
    fn take_over(&self) -> bool {
        let owner = self.owner().load(Ordering::Acquire);
        let left = owner == 0 || !is_alive(owner);
        let taken = left
            && self.stage().load(Ordering::Acquire) != PLAIN
            && self
                .owner()
                .compare_exchange(owner, own_number(), Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if taken {
            // Nobody is asked any more, unless another child asks this one.
            self.stage().store(OWN, Ordering::Release);
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

/// Whether a process lives, and has not only not been waited for yet.
fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        !state.starts_with(['Z', 'X'])
    })
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

/// A member as it was when the set began to become plain.
struct Known {
    key: u64,
    /// A number under which the program has it.
    number: Option<RawFd>,
    description: Option<Ref>,
    was_accelerated: bool,
}

/// The kernel's list of what is registered, by number: of several under one number the last.
fn registered(epoll: RawFd) -> BTreeMap<RawFd, Registered> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")).unwrap_or_default();
    let one = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let fd = words.next()?.parse().ok()?;
        let mut named = |name| words.next().filter(|word| *word == name).and(words.next());
        let events = u32::from_str_radix(named("events:")?, 16).ok()?;
        let data = u64::from_str_radix(named("data:")?, 16).ok()?;
        Some((fd, Registered { events, data }))
    };
    text.lines().filter_map(one).collect()
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
            if now.load(Ordering::Acquire) == OWN {
                return;
            }
        } else if shared.take_over() {
            return self.owned.store(true, Ordering::Relaxed);
        } else {
            let asks = now.compare_exchange(OWN, ASKED, Ordering::AcqRel, Ordering::Acquire);
            if asks.is_ok() {
                self.rouse();
            }
            for _ in 0..PATIENCE {
                if now.load(Ordering::Acquire) == PLAIN {
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
            now.store(PLAIN, Ordering::Release);
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
        let known = self.known_members();
        for member in &known {
            if let (Some(fd), Some(description)) = (member.number, &member.description) {
                leave(fd, description);
            }
        }
        let registered = registered(epoll);
        for member in known {
            if !stays(member.description.as_ref()) {
                self.forget_plain(epoll, member.key, member.was_accelerated, &registered);
            }
        }
    }

    fn known_members(&self) -> Vec<Known> {
        let inner = self.inner.lock();
        let all = inner.members.all().into_iter();
        let known = all.filter_map(|place| {
            let member = inner.members.get(place)?;
            Some(Known {
                key: inner.members.key(place),
                number: member.number(),
                description: member.description.clone(),
                was_accelerated: member.accelerated,
            })
        });
        known.collect()
    }

    /// A member that the kernel serves is the kernel's alone.
    fn forget_plain(
        &self,
        epoll: RawFd,
        key: u64,
        gone_over: bool,
        registered: &BTreeMap<RawFd, Registered>,
    ) {
        let member = {
            let mut inner = self.inner.lock();
            let Some(place) = inner.members.place(key) else {
                return;
            };
            let Some(member) = inner.members.get(place) else {
                return;
            };
            // Unless another process has done it.
            if let Some(there) = registered.get(&member.fd)
                && there.data == key
            {
                // One that had gone off and was to be silent is so in the kernel's registration, which the program's would arm again.
                let events = match gone_over {
                    true => member.plain(),
                    false => there.events,
                };
                let (fd, data) = (member.fd, member.data);
                if (events | there.events) & EXCLUSIVE != 0 {
                    let _ = kernel::ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
                    let _ = kernel::ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, data);
                } else {
                    let _ = kernel::ctl(epoll, libc::EPOLL_CTL_MOD, fd, events, data);
                }
            }
            inner.members.remove(place)
        };
        if let Some(member) = member {
            self.forgotten(member, key);
        }
    }

    /// A connection in a plain set has gone over to the kernel.
    pub(super) fn gone_over(&self, key: u64) {
        if self.stage.load(Ordering::Acquire) == stage::PLAIN
            && let Some(epoll) = self.descriptor()
        {
            self.forget_plain(epoll, key, true, &registered(epoll));
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
