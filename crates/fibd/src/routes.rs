// SPDX-License-Identifier: Apache-2.0
//! Which routes a prefix has: the kernel's rules of what a message adds, replaces and takes out.

use crate::message::{Hop, RouteKind, RouteMessage, flags};
use crate::paths::{Path, Via};
use crate::state::{Object, Route, Slot, Source, State, is_frr};

/// The kernel's table of the router's own addresses.
const LOCAL: u32 = 255;

impl State {
    /// The rank of a table that is followed.
    fn rank(&self, table: u32) -> Option<u8> {
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
                .is_none_or(|link| !link.up || !link.carrier && link.ignores[0]);
            if !explained && self.paths.set_dead(path, *device, true) {
                self.dirty_paths.insert(path);
            }
        }
    }

    fn judge(&mut self, path: &Path) {
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
    fn joins(path: &Path) -> bool {
        let by_gateways = match &path.via {
            Via::Hops(hops) => hops.iter().all(|hop| hop.gateway.is_some()) && !hops.is_empty(),
            Via::Object(_) => false,
        };
        path.six && path.kind == RouteKind::Unicast && by_gateways
    }

    pub(crate) fn route(&mut self, message: RouteMessage, flags: u16, source: Source) {
        let Some(rank) = self.follows(&message, source) else {
            return;
        };
        let path = self.path(&message, source);
        self.judge(&path);
        let joins = Self::joins(&path);
        let new = Route {
            path: self.paths.hold(path),
            metric: message.metric,
            rank,
            generation: self.generation[source as usize],
            source,
        };
        self.bury_dumped(&message, new.path);
        self.dirty.push(message.net);
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
        let dumped = self.seen.is_some() && source == Source::Kernel;
        if dumped {
            // The order of a dump is the kernel's own; what is not confirmed is swept in the end.
            if let Some(at) = routes
                .iter()
                .position(|old| same(old) && old.path == new.path)
            {
                out.push(routes.remove(at));
                place = routes.len();
            }
        } else if let Some(at) = routes
            .iter()
            .position(|old| same(old) && old.path == new.path)
            .filter(|_| !message.net.is_ipv6() || flags & flags::REPLACE == 0)
        {
            // The kernel has none twice: this was dumped already, and its message comes late.
            out.push(routes.remove(at));
            let stays = flags & flags::REPLACE != 0 || message.net.is_ipv6();
            place = match (stays, flags & flags::APPEND != 0) {
                (true, _) => at,
                (_, true) => routes.len(),
                _ => routes.iter().position(same).unwrap_or(routes.len()),
            };
        } else if source == Source::Fpm || flags & flags::EXCLUSIVE != 0 {
            // It is the only one now.
            out.extend(routes.iter().copied().filter(same));
            routes.retain(|old| !same(old));
            place = routes.len();
        } else if joins || flags & flags::REPLACE != 0 {
            // IPv6 replaces like by like, if it finds it.
            let alike = |old: &Route| match self.paths.get(old.path) {
                Some(path) => !path.six || Self::joins(path) == joins,
                None => false,
            };
            let first = |fits: &dyn Fn(&Route) -> bool| {
                let fits = |old: &Route| same(old) && !self.paths.is_doomed(old.path) && fits(old);
                routes.iter().position(fits)
            };
            let any = flags & flags::REPLACE != 0;
            let at = first(&alike).or_else(|| first(&|_| any));
            if let Some(at) = at {
                out.push(routes.remove(at));
                place = at;
            }
        } else if flags & flags::APPEND == 0 && !message.net.is_ipv6() {
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

    pub(crate) fn route_gone(&mut self, message: &RouteMessage, source: Source) {
        let Some(rank) = self.follows(message, source) else {
            return;
        };
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
        let joined = same
            .iter()
            .copied()
            .find(|&at| self.paths.get(routes[at].path).is_some_and(Self::joins));
        match (exact, joined) {
            (Some(at), _) => {
                self.paths.release(routes.remove(at).path);
            }
            (None, Some(at)) if Self::joins(&path) && source == Source::Kernel => {
                self.leave(&mut routes, at, &path);
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

    /// Takes next hops out of a route of IPv6, and the route if none are left.
    fn leave(&mut self, routes: &mut Vec<Route>, at: usize, gone: &Path) {
        let Some(mut path) = self.paths.get(routes[at].path).cloned() else {
            return;
        };
        if let (Via::Hops(hops), Via::Hops(gone)) = (&mut path.via, &gone.via) {
            let place = |hop: &Hop| (hop.device, hop.gateway);
            hops.retain(|hop| !gone.iter().any(|gone| place(gone) == place(hop)));
        }
        self.paths.release(routes[at].path);
        if path.via == Via::Hops(Vec::new()) {
            routes.remove(at);
        } else {
            routes[at].path = self.paths.hold(path);
        }
    }
}
