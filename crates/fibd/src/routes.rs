// SPDX-License-Identifier: Apache-2.0
//! Which routes a prefix has: the kernel's rules of what a message adds, replaces and takes out.

use std::net::IpAddr;

use crate::message::{Event, Hop, Message, RouteKind, RouteMessage, flags};
use crate::net::Net;
use crate::objects::Object;
use crate::paths::{Path, Via};
use crate::state::{MAY_HIDE, RUNS, Route, Slot, Source, State, WHOLE, is_frr};
use crate::terms::{Preference, Terms, is_same};

/// The kernel's table of the router's own addresses.
const LOCAL: u32 = 255;

/// A place in the kernel's list of the routes of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A next hop of the joined route.
    Hop(Hop),
    /// A route that is not joined.
    Other(Path),
}

/// The kernel's list of a prefix's routes of one metric of IPv6. There each next hop of what is told of as one route
/// is a route of its own, and others may be between them: the order decides which is taken once the first is gone or dead.
#[derive(Debug, Default)]
struct List {
    places: Vec<Place>,
    /// A dump may have passed over some.
    may_hide: bool,
    /// Preferred source address of the joined route.
    source: Option<IpAddr>,
}

impl List {
    fn hops(&self) -> Vec<Hop> {
        let hops = self.places.iter().filter_map(|place| match place {
            Place::Hop(hop) => Some(*hop),
            Place::Other(_) => None,
        });
        hops.collect()
    }
}

impl State {
    /// The rank of a table that is followed.
    pub(crate) fn rank(&self, table: u32) -> Option<u8> {
        match table {
            LOCAL => Some(0),
            table if table == self.config.table => Some(1),
            _ => None,
        }
    }

    /// Whether a route is one that is followed; counts what is not for a reason that the user should know.
    fn follows(&mut self, route: &RouteMessage, source: Source) -> Option<u8> {
        let rank = self.rank(route.table)?;
        if route.net.is_never_looked_up() {
            return None;
        }
        if route.tos != 0 {
            self.counters.tos_ignored += 1;
            return None;
        }
        let from_fpm = self.config.fpm && is_frr(route.protocol);
        (from_fpm == (source == Source::Fpm)).then_some(rank)
    }

    fn path(&mut self, route: &RouteMessage, source: Source) -> Path {
        let via = match route.object {
            Some(id) => Via::Object((source, id)),
            None => Via::Hops(route.hops.clone()),
        };
        // What the object does at the moment is told as if it were the route's own.
        let kind = match (route.object, route.kind) {
            (Some(_), RouteKind::Blackhole) => RouteKind::Unicast,
            (_, kind) => kind,
        };
        let mut path = Path {
            six: route.net.is_ipv6(),
            kind,
            via,
            source: route.source,
            terms: route.terms,
            // A daemon has one route of a metric.
            identity: match source {
                Source::Kernel => route.identity,
                Source::Fpm => 0,
            },
            between: false,
        };
        // The order of joined next hops is another in a dump.
        if let (true, Via::Hops(hops)) = (Self::joins(&path), &mut path.via) {
            hops.sort_unstable();
        }
        path
    }

    /// A dump says which next hops died when the last address of their device went.
    fn bury_dumped(&mut self, message: &RouteMessage, path: u32) {
        if self.seen.is_none() || message.net.is_ipv6() {
            return;
        }
        for device in &message.dead {
            let explained = self
                .links
                .get(device)
                .is_none_or(|link| !link.up || self.is_ignored(link, false));
            if !explained && self.paths.set_dead(path, *device, true) {
                self.dirty_paths.insert(path);
            }
        }
    }

    fn judge(&mut self, path: &Path) {
        self.counters.narrow += u64::from(self.has_narrow(path));
        match &path.via {
            Via::Hops(hops) => self.counters.multipath += u64::from(hops.len() > 1),
            Via::Object(key) => match self.objects.get(key) {
                None => self.counters.unresolvable += 1,
                Some(Object::Group(members)) => {
                    let nested = members
                        .iter()
                        .filter(|(id, _)| {
                            matches!(self.objects.get(&(key.0, *id)), Some(Object::Group(_)))
                        })
                        .count();
                    self.counters.multipath += u64::from(members.len() > 1);
                    self.counters.loops += nested as u64;
                }
                Some(_) => {}
            },
        }
    }

    /// Whether IPv6 joins routes of one metric: those by gateways are one route with several next hops, and are told of
    /// together.
    pub(crate) fn joins(path: &Path) -> bool {
        Self::joins_hops(path.six, path.kind, path.via.hops())
    }

    pub(crate) fn joins_hops(six: bool, kind: RouteKind, hops: &[Hop]) -> bool {
        let by_gateways = hops.iter().all(|hop| hop.gateway.is_some()) && !hops.is_empty();
        six && kind == RouteKind::Unicast && by_gateways
    }

    pub(crate) fn route(&mut self, message: RouteMessage, flags: u16, source: Source) {
        let Some(rank) = self.follows(&message, source) else {
            return;
        };
        if let Some(from) = message.from {
            self.sourced_route(&message, from, (rank, source), flags);
            return;
        }
        if source == Source::Kernel {
            self.doubt_idle(&message);
        }
        let path = self.path(&message, source);
        self.judge(&path);
        self.dirty.push(message.net);
        let dumped = self.seen.is_some() && source == Source::Kernel;
        if path.six && source == Source::Kernel && !dumped {
            self.insert_six(&message, &path, rank, flags);
            return;
        }
        let hides = dumped && Self::joins(&path) && message.hops.len() > 1;
        let new = Route {
            path: self.paths.hold(path),
            metric: message.metric,
            rank,
            generation: self.generation[source as usize],
            run: if hides { MAY_HIDE } else { WHOLE },
            source,
        };
        self.bury_dumped(&message, new.path);
        let slot = self.routes.remove(&message.net);
        let mut routes = match slot {
            None => {
                self.routes.insert(message.net, Slot::One([new]));
                return;
            }
            Some(Slot::One(one)) => one.to_vec(),
            Some(Slot::Many(many)) => *many,
        };
        let same =
            |old: &Route| (old.rank, old.metric, old.source) == (new.rank, new.metric, new.source);
        let mut out = Vec::new();
        let mut place = routes.len();
        if dumped {
            self.confirm(&mut routes, new);
            if let Some(slot) = Slot::from(routes) {
                self.routes.insert(message.net, slot);
            }
            return;
        } else if let Some(at) = routes
            .iter()
            .position(|old| same(old) && old.path == new.path)
        {
            // This was dumped already, and its message comes late; or there are two that no message tells apart, since only the
            // weights of their single next hops differ.
            self.unsure |= source == Source::Kernel && flags & flags::REPLACE == 0;
            out.push(routes.remove(at));
            self.renew(&out, &new);
            place = match (flags & flags::REPLACE != 0, flags & flags::APPEND != 0) {
                (true, _) => at,
                (_, true) => routes.len(),
                _ => routes.iter().position(same).unwrap_or(routes.len()),
            };
        } else if source == Source::Fpm || flags & flags::EXCLUSIVE != 0 {
            // It is the only one now.
            out.extend(routes.iter().copied().filter(same));
            routes.retain(|old| !same(old));
            self.renew(&out, &new);
            place = routes.len();
        } else if flags & flags::REPLACE != 0 {
            let first = |old: &Route| same(old) && !self.paths.is_doomed(old.path);
            if let Some(at) = routes.iter().position(first) {
                out.push(routes.remove(at));
                place = at;
            }
        } else if flags & flags::APPEND == 0 {
            place = routes.iter().position(same).unwrap_or(place);
        }
        routes.insert(place, new);
        for old in out {
            self.paths.release(old.path);
        }
        if let Some(slot) = Slot::from(routes) {
            self.routes.insert(message.net, slot);
        }
    }

    /// Counts that a daemon told an old route again.
    fn renew(&mut self, old: &[Route], new: &Route) {
        let is_old = |old: &Route| old.generation != new.generation;
        self.renewed += u64::from(new.source == Source::Fpm && old.iter().any(is_old));
    }

    /// Whether a message only says that the object of a route changed. The kernel says so of each route that it has by the
    /// object, in the words in which it says that the route replaced another, and names the request that changed the
    /// object.
    pub(crate) fn is_note(&self, route: &RouteMessage, request: (u32, u32)) -> bool {
        self.seen.is_none()
            && route.object.is_some()
            && request.0 != 0
            && request == self.object_request
    }

    /// The object of a route changed: its own message has said how.
    pub(crate) fn note(&mut self, message: &RouteMessage) {
        let Some(rank) = self.follows(message, Source::Kernel) else {
            return;
        };
        if message.from.is_some() {
            return;
        }
        let path = self.path(message, Source::Kernel);
        let routes = self.routes.get(&message.net).map_or(&[][..], Slot::routes);
        let is_it = |route: &Route| {
            let old = self.paths.get(route.path);
            Self::is_of(route, (rank, message.metric)) && old.is_some_and(|old| old.via == path.via)
        };
        // One that is not known may be one that a dump passed over.
        self.unsure |= !routes.iter().any(is_it);
    }

    /// A dump has a route. The order of a dump is the kernel's own; what is not confirmed is swept in the end.
    fn confirm(&mut self, routes: &mut Vec<Route>, new: Route) {
        let same = |old: &Route| {
            (old.rank, old.metric, old.source) == (new.rank, new.metric, new.source)
                && old.generation != new.generation
        };
        // Which next hops are dead the dump knows.
        let is_it = |old: &Route| same(old) && self.paths.alike(old.path, new.path);
        let Some(first) = routes.iter().position(is_it) else {
            routes.push(new);
            return;
        };
        let last = routes.iter().rposition(is_it).filter(|_| !self.lost);
        let is_joined = self.paths.get(new.path).is_some_and(Self::joins);
        if let (Some(last), true) = (last, is_joined && routes[first].run != MAY_HIDE) {
            // Between the next hops of a joined route a dump passes over all others; they stay as they were told.
            let mut at = first;
            for _ in first..=last {
                if same(&routes[at]) {
                    let generation = new.generation;
                    let mut old = routes.remove(at);
                    if self.paths.alike(old.path, new.path) {
                        self.paths.hold_again(new.path);
                        self.paths.release(old.path);
                        old.path = new.path;
                    }
                    routes.push(Route { generation, ..old });
                } else {
                    at += 1;
                }
            }
            self.paths.release(new.path);
            return;
        }
        let old = routes.remove(first);
        routes.push(new);
        self.paths.release(old.path);
    }

    /// The kernel added or replaced a route of IPv6.
    fn insert_six(&mut self, message: &RouteMessage, path: &Path, rank: u8, flags: u16) {
        let key = (rank, message.metric);
        let mut list = self.open(message.net, key);
        let joins = Self::joins(path);
        let new: Vec<Place> = if joins {
            // In the order of the message: the first is where what was replaced was.
            message.hops.iter().copied().map(Place::Hop).collect()
        } else {
            vec![Place::Other(path.clone())]
        };
        let is_hop = |place: &Place| matches!(place, Place::Hop(_));
        if joins {
            list.source = path.source;
        }
        if flags & flags::EXCLUSIVE != 0 {
            // It is the only one now.
            list.places.clear();
            list.may_hide = false;
        }
        if flags & flags::REPLACE != 0 {
            // What is hidden may be what was replaced.
            self.unsure |= list.may_hide;
            if list.may_hide && !joins {
                self.put_in_doubt(message.net);
            }
            // Like is replaced by like, if there is any, else the first; next hops that are joined go together.
            let alike = list.places.iter().position(|place| is_hop(place) == joins);
            let at = alike.or((!list.places.is_empty()).then_some(0));
            let place = at.unwrap_or(list.places.len());
            let old = at.map(|at| list.places.remove(at));
            let mut new = new.into_iter();
            let first = new.next();
            if old.as_ref().is_some_and(is_hop) {
                list.places.retain(|place| !is_hop(place));
            }
            // Nothing that is joined was before the first of its kind, so that the place is still the same.
            list.places.splice(place..place, first);
            list.places.extend(new);
        } else if joins {
            // All of them are told; the others are there already.
            let told = |hop: &Hop| message.hops.iter().find(|new| is_same(new, hop));
            let first = message.hops.first();
            let is_first = |hop: &Hop| first.is_some_and(|first| is_same(first, hop));
            list.places.retain_mut(|place| match place {
                Place::Hop(hop) => {
                    let terms = hop.terms;
                    let new = told(hop).map(|new| *hop = *new);
                    // The message has those of the first alone.
                    if !is_first(hop) {
                        hop.terms = terms;
                    }
                    new.is_some()
                }
                Place::Other(_) => true,
            });
            let there = list.hops();
            let more = message
                .hops
                .iter()
                .filter(|hop| !there.iter().any(|old| is_same(old, hop)));
            // Where several are appended the first of all is told first, and not one of those that came.
            let known = !there.iter().any(is_first);
            let more = more.map(|hop| match known {
                true => *hop,
                false => Hop {
                    terms: Terms {
                        preference: Preference::Unknown,
                        ..hop.terms
                    },
                    ..*hop
                },
            });
            list.places.extend(more.map(Place::Hop));
        } else {
            // Only by replacing does the kernel have one twice: else it was dumped already, and its message comes late.
            let is_it = |place: &Place| matches!(place, Place::Other(old) if old.is_alike(path));
            match list.places.iter().position(is_it) {
                Some(at) => list.places.splice(at..=at, new).for_each(drop),
                None => list.places.extend(new),
            }
        }
        self.close(message.net, key, list);
    }

    /// The kernel's list of a prefix's routes of one metric of IPv6, each next hop of the joined route by itself.
    fn open(&self, net: Net, key: (u8, u32)) -> List {
        let routes = self.routes.get(&net).map_or(&[][..], Slot::routes);
        let mut list = List::default();
        for route in routes.iter().filter(|route| Self::is_of(route, key)) {
            match self.paths.get(route.path) {
                None => {}
                Some(path) if Self::joins(path) => {
                    list.may_hide |= route.run == MAY_HIDE;
                    list.source = path.source;
                    let hops = path.via.hops().iter().zip(0..);
                    let hops = hops.filter(|(_, at)| route.has(*at));
                    list.places.extend(hops.map(|(hop, _)| Place::Hop(*hop)));
                }
                Some(path) => list.places.push(Place::Other(Path {
                    between: false,
                    ..path.clone()
                })),
            }
        }
        list
    }

    fn is_of(route: &Route, key: (u8, u32)) -> bool {
        (route.rank, route.metric, route.source) == (key.0, key.1, Source::Kernel)
    }

    /// Makes routes of a list again.
    fn close(&mut self, net: Net, key: (u8, u32), list: List) {
        let mut routes = self
            .routes
            .remove(&net)
            .map_or(Vec::new(), |slot| slot.routes().to_vec());
        let mut out = Vec::new();
        routes.retain(|route| {
            // Those of doomed paths are found, and counted, later.
            let is_of = Self::is_of(route, key) && !self.paths.is_doomed(route.path);
            out.extend(is_of.then_some(route.path));
            !is_of
        });
        let mut hops = list.hops();
        hops.sort_unstable();
        let is_hop = |place: &Place| matches!(place, Place::Hop(_));
        let mut runs: Vec<&[Place]> = list
            .places
            .chunk_by(|one, other| is_hop(one) && is_hop(other))
            .collect();
        let joined = runs.iter().filter(|run| is_hop(&run[0])).count();
        let too_many = joined > 1 && hops.len() > RUNS;
        if too_many {
            let first = runs.iter().position(|run| is_hop(&run[0]));
            let mut at = 0..;
            runs.retain(|run| at.next() == first || !is_hop(&run[0]));
        }
        let path = Path {
            six: true,
            kind: RouteKind::Unicast,
            via: Via::Hops(hops.clone()),
            source: list.source,
            terms: Terms::default(),
            identity: 0,
            between: false,
        };
        let mut seen = 0;
        for places in runs {
            seen += usize::from(is_hop(&places[0]));
            let (path, run) = match &places[0] {
                Place::Other(path) => {
                    let between = seen > 0 && seen < joined;
                    let path = path.clone();
                    (self.paths.hold(Path { between, ..path }), WHOLE)
                }
                Place::Hop(_) if hops.len() > 1 && (too_many || list.may_hide) => {
                    (self.paths.hold(path.clone()), MAY_HIDE)
                }
                Place::Hop(_) if joined == 1 => (self.paths.hold(path.clone()), WHOLE),
                Place::Hop(_) => {
                    let here = hops
                        .iter()
                        .zip(0..)
                        .filter(|(hop, _)| places.contains(&Place::Hop(**hop)));
                    let run = here.fold(0, |run, (_, at)| run | 1 << at);
                    (self.paths.hold(path.clone()), run)
                }
            };
            routes.push(Route {
                path,
                metric: key.1,
                rank: key.0,
                generation: self.generation[Source::Kernel as usize],
                run,
                source: Source::Kernel,
            });
        }
        for path in out {
            self.paths.release(path);
        }
        if let Some(slot) = Slot::from(routes) {
            self.routes.insert(net, slot);
        }
    }

    /// A route is gone; `asked` says whether someone asked for that, or the kernel did it by itself.
    pub(crate) fn route_gone(&mut self, message: &RouteMessage, source: Source, asked: bool) {
        let Some(rank) = self.follows(message, source) else {
            return;
        };
        if let Some(from) = message.from {
            self.sourced_gone(message, from, (rank, source));
            return;
        }
        let path = self.path(message, source);
        let Some(slot) = self.routes.get(&message.net) else {
            self.counters.unmatched += 1;
            return;
        };
        let mut routes = slot.routes().to_vec();
        let is_same = |old: &Route| {
            (old.rank, old.metric, old.source) == (rank, message.metric, source)
                && !self.paths.is_doomed(old.path)
        };
        let same: Vec<usize> = (0..routes.len())
            .filter(|&at| is_same(&routes[at]))
            .collect();
        let exact = same
            .iter()
            .copied()
            .find(|&at| self.paths.get(routes[at].path) == Some(&path));
        if path.six && source == Source::Kernel && !same.is_empty() {
            if self.leave(message.net, (rank, message.metric), &path, asked) {
                self.dirty.push(message.net);
            } else {
                self.counters.unmatched += 1;
                let doomed = |route: &Route| self.paths.is_doomed(route.path);
                self.doubt |= !routes.iter().any(doomed);
            }
            return;
        }
        match exact {
            Some(at) => {
                self.paths.release(routes.remove(at).path);
            }
            // A daemon names only the prefix.
            _ if same.len() == 1 && source == Source::Fpm => {
                self.paths.release(routes.remove(same[0]).path);
            }
            // Newer kernels do tell of some of what is implied, and it is gone already.
            _ => {
                self.counters.unmatched += 1;
                let doomed = |route: &Route| self.paths.is_doomed(route.path);
                self.doubt |= !same.is_empty() && !routes.iter().any(doomed);
                return;
            }
        }
        self.dirty.push(message.net);
        match Slot::from(routes) {
            Some(slot) => self.routes.insert(message.net, slot),
            None => self.routes.remove(&message.net),
        };
    }

    /// Takes a route of IPv6 out, or next hops of the joined one; whether it was there.
    fn leave(&mut self, net: Net, key: (u8, u32), gone: &Path, asked: bool) -> bool {
        let mut list = self.open(net, key);
        let before = list.places.len();
        let place = |hop: &Hop| (hop.device, hop.gateway);
        if Self::joins(gone) {
            let goes = |hop: &Hop| gone.via.hops().iter().any(|gone| place(gone) == place(hop));
            list.places
                .retain(|here| !matches!(here, Place::Hop(hop) if goes(hop)));
            // What was hidden may be the first now.
            if list.may_hide && list.places.len() != before {
                self.put_in_doubt(net);
            }
        } else {
            // With a device that went down the kernel took out what is not between next hops, which is done already.
            let outside = !asked && gone.via.hops().iter().any(|hop| !self.is_up(hop.device));
            let next_hops = |places: &[Place]| places.iter().any(|it| matches!(it, Place::Hop(_)));
            let at = (0..list.places.len()).find(|&at| {
                let (before, after) = (&list.places[..at], &list.places[at..]);
                // What is said of its next hops when it goes need not be what was known of them.
                let is_it = matches!(&after[0], Place::Other(path) if path.is_alike(gone));
                is_it && !(outside && next_hops(before) && next_hops(after))
            });
            at.map(|at| list.places.remove(at));
        }
        if list.places.len() == before {
            return false;
        }
        self.close(net, key, list);
        true
    }

    /// Takes in an event that came while the kernel was dumped. The dump may have what it says already, or not, and a
    /// dump under changes is not whole, whether the kernel says so or not.
    pub fn take_late(&mut self, event: Event) {
        let route = match &event.message {
            Message::Route(route) | Message::RouteGone(route) => Some(route),
            _ => None,
        };
        // It may have called next hops dead by a setting that was not known yet.
        self.unsure |= matches!(event.message, Message::IgnoresLinkDown { six: true, .. });
        let by_fpm = |protocol| self.config.fpm && is_frr(protocol);
        self.unsure |=
            route.is_some_and(|route| self.rank(route.table).is_some() && !by_fpm(route.protocol));
        self.take(event, Source::Kernel);
    }

    /// Whether the kernel has to be dumped anew to know what it has.
    pub const fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// A dump of a family's routes that was interrupted begins again: none is confirmed.
    pub fn dump_again(&mut self, six: bool) {
        let generation = self.generation[Source::Kernel as usize];
        if six {
            self.sourced.forget(generation);
        }
        for (net, slot) in &mut self.routes {
            for route in slot.routes_mut() {
                if net.is_ipv6() == six
                    && route.source == Source::Kernel
                    && route.generation == generation
                {
                    route.generation = generation.wrapping_sub(1);
                }
            }
        }
    }
}
