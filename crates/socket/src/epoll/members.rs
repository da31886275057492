// SPDX-License-Identifier: Apache-2.0
//! The members of an epoll set that the library knows, and what the kernel's events about them mean.
//!
//! The kernel's registration of such a member carries a key instead of the program's data. Plain files are registered
//! with the program's data as it is, and the library forgets about them; the few values that look like a key make the
//! file a known member without a description.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::object::Object;
use crate::ready::{self, Events, Pollable};
use crate::table::{self, Ref};
use crate::wait::poll_kernel;

pub(super) const EXCLUSIVE: u32 = 1 << 28;
pub(super) const WAKEUP: u32 = 1 << 29;
pub(super) const ONESHOT: u32 = 1 << 30;
pub(super) const EDGE: u32 = 1 << 31;
/// What an exclusive member may be asked for.
pub(super) const EXCLUSIVE_MAY: u32 =
    Events::IN.0 | Events::OUT.0 | Events::ERR.0 | Events::HUP.0 | WAKEUP | EDGE | EXCLUSIVE;
pub(super) const FLAGS: u32 = EXCLUSIVE | WAKEUP | ONESHOT | EDGE;
/// What the kernel's registration asks for of a one-shot member that has been told.
pub(super) const SPENT: u32 = ONESHOT | EDGE;

/// No pointer of a program and no small number begins like this.
const MARK: u64 = 0xB1A5;

/// In a key: it is about the member's bell, not about its twin.
pub(super) const OF_BELL: u64 = 1 << 31;

/// Whether data would be taken for a key.
pub(super) const fn looks_like_key(data: u64) -> bool {
    data >> 48 == MARK
}

/// A member of a set.
pub(super) struct Member {
    /// The number under which it was added.
    pub fd: RawFd,
    /// None: a plain file whose data looks like a key.
    pub description: Option<Ref>,
    /// The program's events and flags.
    pub interest: u32,
    /// The program's data.
    pub data: u64,
    /// Its readiness is known at user level; else the kernel's registration is the program's own.
    pub accelerated: bool,
    /// When it went back to the kernel, in [`Set::turns`](super::Set); 0: it never did.
    pub turned: u64,
    /// What the kernel's registration asks for.
    pub registered: u32,
    /// The bell that is registered besides.
    pub bell: Option<RawFd>,
    /// It is on the hot list.
    pub hot: bool,
    /// A one-shot member that has been reported.
    pub spent: bool,
    /// The same of one that always was the kernel's, which another process may have armed again.
    gone_off: bool,
    /// The kernel's set cannot be told what to wake for.
    pub deaf: bool,
    /// To be reported whatever the edges say: it was just added or changed.
    fresh: bool,
    seen: (u64, u64),
    /// When it was last reported or woken.
    pub active: u64,
}

impl Member {
    pub fn new(fd: RawFd, description: Option<Ref>, interest: u32, data: u64) -> Self {
        Self {
            fd,
            description,
            interest,
            data,
            accelerated: false,
            turned: 0,
            registered: 0,
            bell: None,
            hot: false,
            spent: false,
            gone_off: false,
            deaf: false,
            fresh: true,
            seen: (0, 0),
            active: 0,
        }
    }

    /// The program's events without the flags.
    pub fn want(&self) -> Events {
        if self.spent {
            Events::NONE
        } else {
            Events(self.interest & !FLAGS)
        }
    }

    pub fn pollable(&self) -> Option<&dyn Pollable> {
        if !self.accelerated {
            return None;
        }
        self.description.as_ref()?.object().pollable()
    }

    /// What the kernel's registration of an accelerated member must ask for.
    ///
    /// A UDP socket may be in the sets of many threads; a doorbell wakes one of those that sleep.
    pub fn needs(&self) -> u32 {
        let Some(pollable) = self.pollable() else {
            return self.interest;
        };
        let twin = pollable.twin_interest(self.want());
        match self
            .description
            .as_ref()
            .map(|description| description.object())
        {
            Some(Object::Datagram(_)) => {
                (twin & !Events::RDHUP).0 & EXCLUSIVE_MAY | EDGE | EXCLUSIVE
            }
            _ => (twin & !Events::SKIP).0 | EDGE,
        }
    }

    /// What the kernel's registration asks for once the connection is the kernel's. A one-shot member that has been told stays
    /// silent: what the kernel says of it all the same, once, is dropped.
    pub fn plain(&self) -> u32 {
        match self.spent {
            true => SPENT,
            false => self.interest,
        }
    }

    /// It is what another process has made of it: `events` as of [`Member::plain`].
    pub fn take_over(&mut self, events: u32, data: u64) {
        self.data = data;
        match events {
            SPENT => self.spent = true,
            _ if self.plain() == events => {}
            _ => {
                self.interest = events;
                self.renew();
            }
        }
    }

    /// The kernel's word about a connection that is the kernel's. What it said in a wait that began at turn `begun` may have been
    /// about the twin of one that was accelerated, and is asked again: a doorbell is no input.
    pub fn told_by_kernel(&mut self, events: u32, begun: u64) -> u32 {
        let asked = events & (self.interest | Events::ALWAYS.0);
        if asked == 0 || self.spent {
            return 0;
        }
        let in_doubt = self.accelerated || begun < self.turned;
        let told = match in_doubt {
            true => self
                .ask_kernel(Events(asked))
                .map_or(asked, |now| now.0 & asked),
            false => asked,
        };
        // Other threads may be told the same once more: by waits that began before, and by the registration that is the program's
        // own since.
        let had_gone_over = self.accelerated || self.turned != 0;
        self.gone_off = told != 0 && self.interest & ONESHOT != 0;
        self.spent = self.gone_off && had_gone_over;
        told
    }

    /// What the kernel says of a member that is its own and is told for as long as it is so.
    pub fn level_by_kernel(&self) -> Option<Events> {
        if self.accelerated || self.interest & (EDGE | ONESHOT) != 0 {
            return None;
        }
        self.now_by_kernel().filter(|now| !now.is_empty())
    }

    /// What the kernel says now of what the program has asked for, of a member that is the kernel's. None: it cannot be asked.
    pub fn now_by_kernel(&self) -> Option<Events> {
        if self.accelerated {
            return None;
        }
        let asked = Events(self.interest & !FLAGS) | Events::ALWAYS;
        Some(self.ask_kernel(asked)? & asked)
    }

    /// The kernel's word about the twin. None: it cannot be asked.
    pub fn ask_kernel(&self, want: Events) -> Option<Events> {
        poll_kernel(self.number()?, want, Duration::ZERO).ok()
    }

    /// A number under which the program has it: the one that it was added with may be closed.
    pub fn number(&self) -> Option<RawFd> {
        let description = self.description.as_ref()?;
        match table::still(self.fd, description) {
            true => Some(self.fd),
            false => ready::any_fd(description),
        }
    }

    /// The program has changed what it wants, or the description what it is.
    pub fn renew(&mut self) {
        self.fresh = true;
        self.spent = false;
        self.gone_off = false;
    }

    /// The kernel's socket has become a connection whose readiness is known at user level. `alone`: nobody else can have changed
    /// what the kernel has of it.
    pub fn come_over(&mut self, alone: bool) {
        self.accelerated = true;
        self.fresh = true;
        self.spent = alone && self.gone_off;
    }

    /// What would be reported now; looking does not count as reporting. With [`Events::KERNEL`] it is to be given back first.
    #[inline]
    pub fn peek(&self) -> Events {
        self.look().0
    }

    /// Whether something is to be reported. Of a connection that is about to go over only the kernel can say it, once it has.
    pub fn has_report(&self) -> bool {
        !(self.peek() & !Events::KERNEL).is_empty()
    }

    /// Counts what has happened that it is asked for: the edges of a set that is a member itself.
    pub fn happened(&self) -> u64 {
        let Some(pollable) = self.pollable() else {
            return 0;
        };
        let (input, output) = pollable.edges();
        let want = self.want();
        u64::from(want.has(Events::IN | Events::RDNORM | Events::RDHUP)) * input
            + u64::from(want.has(Events::OUT | Events::WRNORM)) * output
    }

    /// Whether it waits for room that is not likely to come, and there is nothing to be reported.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        let room = self.want() & (Events::OUT | Events::WRNORM);
        let Some(pollable) = self.pollable() else {
            return false;
        };
        // Who asks for edges has met the lack of room by itself, or does not mind it.
        if self.interest & EDGE == 0 {
            pollable.waited_for(room);
        }
        pollable.is_stalled(room) && self.peek().is_empty()
    }

    /// What is to be reported now. An edge that is reported has been seen.
    #[inline]
    pub fn report(&mut self) -> Events {
        let (events, edges) = self.look();
        if events.has(Events::KERNEL) {
            return Events::NONE;
        }
        if self.interest & EDGE != 0 {
            self.seen = edges;
        }
        if !events.is_empty() {
            self.fresh = false;
            self.spent = self.interest & ONESHOT != 0;
        }
        events
    }

    #[inline]
    fn look(&self) -> (Events, (u64, u64)) {
        if self.spent {
            return (Events::NONE, self.seen);
        }
        let Some(pollable) = self.pollable() else {
            return (Events::NONE, self.seen);
        };
        let wanted = self.want() | Events::ALWAYS | Events::KERNEL;
        if self.interest & EDGE == 0 {
            return (pollable.ready() & wanted, self.seen);
        }
        // Edges first: an event between the two looks is then reported twice rather than never.
        let edges = pollable.edges();
        let input =
            edges.0 != self.seen.0 && wanted.has(Events::IN | Events::RDHUP | Events::RDNORM);
        let output = edges.1 != self.seen.1 && wanted.has(Events::OUT | Events::WRNORM);
        if !(self.fresh || input || output) {
            return (Events::NONE, edges);
        }
        let ready = pollable.ready() & wanted;
        // What comes between the two looks belongs to this edge; only what comes between these is told twice.
        let again = pollable.edges();
        if ready.is_empty() || again == edges {
            return (ready, edges);
        }
        (pollable.ready() & wanted, again)
    }
}

/// Known members by key.
#[derive(Default)]
pub(super) struct Members {
    places: Vec<Option<(u16, Member)>>,
    free: Vec<u32>,
    /// By number and description; dup and close can leave several with the same number.
    index: BTreeMap<(RawFd, u64), u32>,
    next: u16,
    /// Members that are scanned at user level.
    pub hot: Vec<u32>,
}

fn identity(member: &Member) -> (RawFd, u64) {
    let id = member
        .description
        .as_ref()
        .map_or(0, |description| description.id());
    (member.fd, id)
}

impl Members {
    pub fn insert(&mut self, member: Member) -> u64 {
        self.next = self.next.wrapping_add(1);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.index.insert(identity(&member), place);
        self.places[place as usize] = Some((self.next, member));
        self.key(place)
    }

    pub fn key(&self, place: u32) -> u64 {
        let generation = self.places[place as usize]
            .as_ref()
            .map_or(0, |(generation, _)| *generation);
        MARK << 48 | u64::from(generation) << 32 | u64::from(place)
    }

    /// The place of a key, if its member is still there.
    pub fn place(&self, key: u64) -> Option<u32> {
        let place = key as u32;
        match self.places.get(place as usize)? {
            Some((generation, _)) if *generation == (key >> 32) as u16 => Some(place),
            _ => None,
        }
    }

    /// Makes a place the one that is found for its number again.
    pub fn reindex(&mut self, place: u32) {
        if let Some(member) = self.get(place) {
            let identity = identity(member);
            self.index.insert(identity, place);
        }
    }

    pub fn find(&self, fd: RawFd, id: u64) -> Option<u32> {
        self.index.get(&(fd, id)).copied()
    }

    #[inline]
    pub fn get(&self, place: u32) -> Option<&Member> {
        self.places
            .get(place as usize)?
            .as_ref()
            .map(|(_, member)| member)
    }

    #[inline]
    pub fn get_mut(&mut self, place: u32) -> Option<&mut Member> {
        self.places
            .get_mut(place as usize)?
            .as_mut()
            .map(|(_, member)| member)
    }

    pub fn remove(&mut self, place: u32) -> Option<Member> {
        let (_, member) = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        let identity = identity(&member);
        if self.index.get(&identity) == Some(&place) {
            self.index.remove(&identity);
        }
        if member.hot {
            self.hot.retain(|other| *other != place);
        }
        Some(member)
    }

    pub fn heat(&mut self, place: u32, now: u64) {
        if let Some((_, member)) = &mut self.places[place as usize] {
            member.active = now;
            if !member.hot {
                member.hot = true;
                self.hot.push(place);
            }
        }
    }

    /// The opposite: it is not looked at any more.
    pub fn cool(&mut self, place: u32) {
        if let Some((_, member)) = &mut self.places[place as usize] {
            member.hot = false;
        }
        self.hot.retain(|other| *other != place);
    }

    /// All places that are taken.
    pub fn all(&self) -> Vec<u32> {
        (0..self.places.len() as u32)
            .filter(|place| self.places[*place as usize].is_some())
            .collect()
    }
}
