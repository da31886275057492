// SPDX-License-Identifier: Apache-2.0
//! epoll_create and epoll_ctl.

use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, c_int};
use rustix::io::Errno;

use super::kernel::{self, Event};
use super::members::{EXCLUSIVE, EXCLUSIVE_MAY, Member, looks_like_key};
use super::{Epoll, Set};
use crate::object::Object;
use crate::table::{self, Description, Ref};
use crate::wait::clock;

/// Whether readiness is known at user level.
pub(super) fn is_accelerated(description: Option<&Description>) -> bool {
    match description.map(Description::object) {
        None => false,
        Some(Object::Epoll(epoll)) => epoll.has_accelerated(),
        Some(object) => object.pollable().is_some(),
    }
}

impl Epoll {
    /// epoll_ctl on the set, under the number `epoll`.
    ///
    /// # Safety
    /// `event` is the program's pointer: null, or to an event.
    pub unsafe fn control(
        &self,
        epoll: RawFd,
        op: c_int,
        fd: RawFd,
        event: *const Event,
    ) -> Result<(), Errno> {
        let set = &self.0;
        set.number.store(epoll, Ordering::Relaxed);
        if !matches!(op, EPOLL_CTL_ADD | EPOLL_CTL_DEL | EPOLL_CTL_MOD)
            || (event.is_null() && op != EPOLL_CTL_DEL)
        {
            // SAFETY: by the caller; the kernel says what is wrong.
            return unsafe { kernel::ctl_raw(epoll, op, fd, event) };
        }
        let event = if op == EPOLL_CTL_DEL {
            kernel::NO_EVENT
        } else {
            // SAFETY: not null, so the program's event.
            unsafe { event.read_unaligned() }
        };
        let description = table::get(fd);
        let id = description
            .as_ref()
            .map_or(0, |description| description.id());
        if description.is_none()
            && !looks_like_key(event.u64)
            && (set.known.load(Ordering::Relaxed) == 0
                || set.inner.lock().members.find(fd, 0).is_none())
        {
            return kernel::ctl(epoll, op, fd, event.events, event.u64);
        }
        if let Some(Object::Lost(lost)) = description.as_deref().map(Description::object) {
            lost.touch(fd);
        }
        let _change = set.attend_to_change(epoll);
        if set.is_kernels(fd, description.as_ref(), event.u64) {
            kernel::ctl(epoll, op, fd, event.events, event.u64)?;
            set.forget_own(fd, id);
            return Ok(());
        }
        match op {
            EPOLL_CTL_ADD => self.add(epoll, fd, description, event),
            EPOLL_CTL_MOD => match set.modify(epoll, fd, id, event) {
                Some(done) => done,
                None => self.modify_unknown(epoll, fd, description, event),
            },
            _ => set.delete(epoll, fd, id),
        }
    }

    /// MOD of what is no member: the kernel's. But a connection may have been put into the set by the program that this one
    /// has replaced, or got it from: then it becomes a member.
    #[cold]
    fn modify_unknown(
        &self,
        epoll: RawFd,
        fd: RawFd,
        description: Option<Ref>,
        event: Event,
    ) -> Result<(), Errno> {
        if !is_accelerated(description.as_deref()) || event.events & EXCLUSIVE != 0 {
            return kernel::ctl(epoll, EPOLL_CTL_MOD, fd, event.events, event.u64);
        }
        kernel::ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0)?;
        self.add(epoll, fd, description, event)
    }

    fn add(
        &self,
        epoll: RawFd,
        fd: RawFd,
        description: Option<Ref>,
        event: Event,
    ) -> Result<(), Errno> {
        let set = &self.0;
        let id = description
            .as_ref()
            .map_or(0, |description| description.id());
        let events = event.events;
        let key = {
            let mut inner = set.inner.lock();
            let accelerated = is_accelerated(description.as_deref());
            let is_set = matches!(
                description.as_deref().map(Description::object),
                Some(Object::Epoll(_))
            );
            if accelerated && events & EXCLUSIVE != 0 && (is_set || events & !EXCLUSIVE_MAY != 0) {
                return Err(Errno::INVAL);
            }
            let mut member = Member::new(fd, description.clone(), events, event.u64);
            member.accelerated = accelerated;
            member.registered = member.needs();
            let registered = member.registered;
            let before = inner.members.find(fd, id);
            let key = inner.members.insert(member);
            let added = kernel::ctl(epoll, EPOLL_CTL_ADD, fd, registered, key);
            let place = inner.members.place(key).unwrap_or_default();
            if let Err(error) = added {
                inner.members.remove(place);
                if let Some(before) = before {
                    inner.members.reindex(before);
                }
                return Err(error);
            }
            set.known.fetch_add(1, Ordering::AcqRel);
            if let Some(member) = inner.members.get_mut(place) {
                set.watch_bell(epoll, member, key);
            }
            if let Some(description) = &description {
                description.waiters.join(set, key);
            }
            if accelerated {
                set.accelerated.fetch_add(1, Ordering::AcqRel);
                inner.members.heat(place, clock::ticks());
            }
            set.write_down(&inner, place);
            // The kernel did not know it any more, so ours was stale.
            let stale = before.and_then(|place| {
                let key = inner.members.key(place);
                inner.members.remove(place).map(|member| (member, key))
            });
            drop(inner);
            if let Some((member, key)) = stale {
                set.forgotten(member, key);
            }
            key
        };
        fence(Ordering::SeqCst);
        // It may have been decided meanwhile what the socket is.
        set.reconsider(key);
        set.disturb(key);
        if set.accelerated.load(Ordering::Relaxed) == 1 {
            set.tell_outer();
        }
        Ok(())
    }
}

impl Set {
    /// None: it is no member.
    fn modify(&self, epoll: RawFd, fd: RawFd, id: u64, event: Event) -> Option<Result<(), Errno>> {
        let events = event.events;
        let key = {
            let mut inner = self.inner.lock();
            let place = inner.members.find(fd, id)?;
            let key = inner.members.key(place);
            inner.unkeep(key);
            let member = inner.members.get_mut(place)?;
            if (member.interest | events) & EXCLUSIVE != 0 {
                return Some(Err(Errno::INVAL));
            }
            if member.accelerated {
                member.interest = events;
                member.data = event.u64;
                member.renew();
                let needed = member.needs();
                if needed & !member.registered != 0 {
                    self.register(member, key, needed);
                }
                inner.members.heat(place, clock::ticks());
                self.write_down(&inner, place);
            } else {
                if let Err(error) = kernel::ctl(epoll, EPOLL_CTL_MOD, fd, events, key) {
                    return Some(Err(error));
                }
                member.interest = events;
                member.data = event.u64;
                member.registered = events;
                member.renew();
                self.write_down(&inner, place);
                return Some(Ok(()));
            }
            key
        };
        fence(Ordering::SeqCst);
        self.disturb(key);
        Some(Ok(()))
    }

    fn delete(&self, epoll: RawFd, fd: RawFd, id: u64) -> Result<(), Errno> {
        let (member, key) = {
            let mut inner = self.inner.lock();
            kernel::ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0)?;
            let place = inner.members.find(fd, id);
            if let Some(bell) = place
                .and_then(|place| inner.members.get(place))
                .and_then(|member| member.bell)
            {
                let _ = kernel::ctl(epoll, EPOLL_CTL_DEL, bell, 0, 0);
            }
            let Some(place) = inner.members.find(fd, id) else {
                return Ok(());
            };
            let key = inner.members.key(place);
            inner.unkeep(key);
            match inner.members.remove(place) {
                Some(member) => (member, key),
                None => return Ok(()),
            }
        };
        self.forgotten(member, key);
        Ok(())
    }
}
