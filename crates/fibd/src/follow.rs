// SPDX-License-Identifier: Apache-2.0
//! What follows from the routes: where the packets to a prefix are to go.

use std::net::IpAddr;

use crate::message::{Hop, RouteKind, RouteMessage};
use crate::net::Net;
use crate::paths::{Path, Via};
use crate::state::{Changes, Choice, MAY_HIDE, Route, Slot, Source, State, Target, WHOLE};

impl State {
    /// Finds the routes of paths that changed: one look at all routes, however many paths.
    pub(crate) fn find_dirty(&mut self) {
        if self.dirty_paths.is_empty() {
            return;
        }
        let dirty_paths = std::mem::take(&mut self.dirty_paths);
        let paths = &mut self.paths;
        let dirty = &mut self.dirty;
        let dumping = self.seen.is_some();
        let generation = self.generation[Source::Kernel as usize];
        let in_doubt = &mut self.in_doubt;
        let unsure = &mut self.unsure;
        self.routes.retain(|net, slot| {
            let hit = |route: &Route| dirty_paths.contains(&route.path);
            if !slot.routes().iter().any(hit) {
                return true;
            }
            dirty.push(*net);
            // What is between its next hops may be before those that are left.
            let hides = |route: &Route| hit(route) && route.run == MAY_HIDE && net.is_ipv6();
            if !dumping && slot.routes().iter().any(hides) {
                in_doubt.insert(*net, generation);
                *unsure = true;
            }
            let doomed = |route: &Route| paths.is_doomed(route.path);
            if !slot.routes().iter().any(doomed) {
                return true;
            }
            let (gone, left): (Vec<Route>, _) = slot.routes().iter().partition(|r| doomed(r));
            for route in gone {
                paths.release(route.path);
            }
            match Slot::from(left) {
                Some(left) => {
                    *slot = left;
                    true
                }
                None => false,
            }
        });
    }

    /// How many prefixes wait to be looked at, at least.
    pub fn waiting(&self) -> usize {
        self.dirty.len()
    }

    /// What changed since this was last asked.
    pub fn changes(&mut self) -> Changes {
        self.find_dirty();
        let mut nets = std::mem::take(&mut self.dirty);
        self.find_hidden(&mut nets);
        // A neighbour in a connected subnet has a route of its own, unless a longer one covers it.
        if !self.neighbours.is_empty() {
            let mut inside = Vec::new();
            for net in nets.iter().filter(|net| !net.is_host()) {
                let hosts = Net::host(net.first())..=net.last_host();
                inside.extend(self.neighbours.range(hosts).map(|(host, _)| *host));
            }
            nets.extend(inside);
        }
        nets.sort_unstable();
        nets.dedup();
        let mut neighbours = std::mem::take(&mut self.dirty_neighbours);
        neighbours.sort_unstable();
        neighbours.dedup();
        Changes { nets, neighbours }
    }

    /// Keeps account of the subnets of the local table that hide others, and finds the prefixes in those that changed.
    fn find_hidden(&mut self, nets: &mut Vec<Net>) {
        let mut changed = Vec::new();
        let split = self.split;
        let may_hide = |net: &&Net| (split || net.is_ipv6()) && !net.is_host();
        for net in nets.iter().filter(may_hide) {
            let routes = self.routes.get(net).map_or(&[][..], Slot::routes);
            let is_wide = routes.iter().any(|route| route.rank == 0) || self.sourced.is_local(*net);
            let was_wide = match is_wide {
                true => !self.wide.insert(*net),
                false => self.wide.remove(net),
            };
            changed.extend((is_wide || was_wide).then_some(*net));
        }
        if !changed.is_empty() {
            let inside = |net: &&Net| changed.iter().any(|wide| wide.covers(**net));
            nets.extend(self.routes.keys().filter(inside));
        }
    }

    /// The choice of a shorter prefix that hides a longer one: the kernel looks into the local table of IPv6 first, and
    /// into the main one only if it finds nothing there. Those of IPv4 are one as long as there has been no policy rule.
    fn hides(&self, net: Net) -> Option<Choice> {
        let around = self.wide.iter().filter(|wide| wide.covers(net));
        let mut around: Vec<Net> = around.copied().collect();
        around.sort_unstable_by_key(|wide| std::cmp::Reverse(wide.len()));
        around.into_iter().find_map(|wide| {
            if self.sourced.is_local(wide) {
                return Some(Choice::Target(Target::Host));
            }
            let (route, choice) = self.best_route(wide, self.routes.get(&wide)?)?;
            (route.rank == 0).then_some(choice)
        })
    }

    /// Where the packets are to go for which this prefix is the longest; none if it has no route.
    pub fn desired(&self, net: Net) -> Option<Target> {
        if net.is_never_looked_up() {
            return None;
        }
        if self.is_by_host(net) {
            return Some(Target::Host);
        }
        let slot = self.routes.get(&net);
        let best = slot.and_then(|slot| self.best_route(net, slot));
        // One that is only in the tables still is to go, hidden or not.
        if !self.wide.is_empty()
            && (slot.is_some() || self.neighbours.contains_key(&net))
            && best.is_none_or(|(route, _)| route.rank != 0)
            && let Some(choice) = self.hides(net)
        {
            return match choice {
                Choice::Target(target) => Some(target),
                Choice::Connected(device) => Some(self.at(net, device).unwrap_or(Target::Host)),
            };
        }
        match best.map(|(_, choice)| choice) {
            Some(Choice::Target(target)) => Some(target),
            Some(Choice::Connected(device)) => Some(self.at(net, device).unwrap_or(Target::Host)),
            None => self.of_neighbour(net),
        }
    }

    /// Whether the kernel alone knows what a prefix has.
    fn is_by_host(&self, net: Net) -> bool {
        self.sourced.has(net)
            || !self.in_doubt.is_empty() && self.in_doubt.contains_key(&net)
            || self.is_unsettled(net)
    }

    /// All prefixes for which there may be a target: routes and neighbours.
    pub fn candidates(&self) -> impl Iterator<Item = Net> {
        let alone = self.neighbours.keys().copied();
        let alone = alone.filter(|net| !self.routes.contains_key(net));
        let sourced = self.sourced.nets();
        let sourced = sourced
            .filter(|net| !self.routes.contains_key(net) && !self.neighbours.contains_key(net));
        self.nets().chain(alone).chain(sourced)
    }

    /// The neighbour that a host's prefix is, if it is known at this device.
    fn at(&self, net: Net, device: u32) -> Option<Target> {
        let port = *self.ports.get(&device)?;
        if !net.is_host() {
            return None;
        }
        let known = self.neighbours.get(&net)?;
        known.iter().find(|(at, _)| *at == device)?;
        let address = net.first();
        Some(Target::Neighbour { port, address })
    }

    fn of_neighbour(&self, net: Net) -> Option<Target> {
        if !net.is_host() || !self.neighbours.contains_key(&net) {
            return None;
        }
        let choice = net.ancestors().find_map(|around| {
            if self.is_by_host(around) {
                return Some(Choice::Target(Target::Host));
            }
            let slot = self.routes.get(&around)?;
            // Of several next hops one may be a neighbour's; which one, the covering prefix says.
            self.best(around, slot)
        });
        match choice? {
            Choice::Connected(device) => self.at(net, device),
            Choice::Target(_) => None,
        }
    }

    fn best(&self, net: Net, slot: &Slot) -> Option<Choice> {
        self.best_route(net, slot).map(|(_, choice)| choice)
    }

    fn best_route<'a>(&self, net: Net, slot: &'a Slot) -> Option<(&'a Route, Choice)> {
        let routes = slot.routes();
        if let [route] = routes {
            let choice = self.choose(net, route.path)?;
            return Some(match self.may_be_outdone(net, route) {
                true => (route, Choice::Target(Target::Host)),
                false => (route, choice),
            });
        }
        if net.is_ipv6() {
            return self.best_of_six(net, routes);
        }
        let usable = routes.iter().filter_map(|route| {
            if !self.is_alive(route) {
                return None;
            }
            let choice = self.choose(net, route.path)?;
            Some((route, choice))
        });
        // Of equals the first.
        usable.min_by_key(|(route, _)| (route.rank, route.metric))
    }

    /// Whether one of the next hops at this place of the kernel's order can be used: if not, those at another place may
    /// be, and what is between is before them.
    pub(crate) fn is_alive(&self, route: &Route) -> bool {
        let Some(path) = self.paths.get(route.path) else {
            return false;
        };
        let mut here = path.via.hops().iter().zip(0..);
        let dead = self.paths.dead(route.path);
        matches!(route.run, WHOLE | MAY_HIDE)
            || here.any(|(hop, at)| route.has(at) && self.is_usable(hop, path.six, dead))
    }

    /// Whether a dump would not have all routes of a prefix, or not in their order: some are between the next hops of one
    /// that is told of as a whole, or are beside one of whose next hops it does not tell all.
    pub fn is_interleaved(&self, net: Net) -> bool {
        let routes = self.routes.get(&net).map_or(&[][..], Slot::routes);
        let part = |route: &Route| !matches!(route.run, WHOLE | MAY_HIDE);
        routes.iter().any(part) || self.is_contested(net) || self.outdone.contains(&net)
    }

    pub(crate) fn choose(&self, net: Net, number: u32) -> Option<Choice> {
        let path = self.paths.get(number)?;
        let dead = self.paths.dead(number);
        match path.kind {
            RouteKind::Unicast => {}
            RouteKind::Blackhole => return Some(Choice::Target(Target::Discard)),
            // The kernel answers with an ICMP error, or does what only it can.
            _ => return Some(Choice::Target(Target::Host)),
        }
        match &path.via {
            // The kernel sends by it, to nobody.
            Via::Hops(hops) if path.between && !hops.iter().all(|hop| self.is_up(hop.device)) => {
                Some(Choice::Target(Target::Host))
            }
            Via::Hops(hops) => match hops.as_slice() {
                [hop] => self
                    .is_usable(hop, path.six, dead)
                    .then(|| self.over(hop, path)),
                hops => {
                    let members = hops.iter().map(|hop| (Some(*hop), hop.weight));
                    self.spread(net, members, path, dead)
                }
            },
            Via::Object(key) if self.objects.contains_key(key) => {
                self.spread(net, self.members(*key).into_iter(), path, &[])
            }
            // The kernel knows it; it does not get here before this one does.
            Via::Object(_) => Some(Choice::Target(Target::Host)),
        }
    }

    /// Chooses one of several next hops by prefix and weight.
    fn spread(
        &self,
        net: Net,
        members: impl Iterator<Item = (Option<Hop>, u16)>,
        path: &Path,
        dead: &[u32],
    ) -> Option<Choice> {
        let usable = members.filter(|(hop, _)| match hop {
            Some(hop) => self.is_usable(hop, path.six, dead),
            None => true,
        });
        let usable: Vec<_> = usable.collect();
        let sum: u64 = usable.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if sum == 0 {
            return None;
        }
        let mut at = net.spread() % sum;
        let chosen = usable.iter().find(|(_, weight)| {
            let here = at < u64::from(*weight);
            at = at.wrapping_sub(u64::from(*weight));
            here
        });
        chosen.map(|(hop, _)| match hop {
            Some(hop) => self.over(hop, path),
            None => Choice::Target(Target::Discard),
        })
    }

    /// Where a next hop of a route leads; packets that are too long for the route only the kernel answers.
    fn over(&self, hop: &Hop, path: &Path) -> Choice {
        let mtu = hop.terms.mtu.max(path.terms.mtu);
        if self.is_narrow(hop.device, mtu, path.six) || self.may_be_ignored(hop, path.six) {
            return Choice::Target(Target::Host);
        }
        match (self.ports.get(&hop.device), hop.gateway) {
            (Some(&port), Some(address)) => Choice::Target(Target::Neighbour { port, address }),
            (Some(_), None) => Choice::Connected(hop.device),
            (None, _) => Choice::Target(Target::Host),
        }
    }

    /// Whether a route that the kernel named leads a packet for `address` to the neighbour `to` at `port`.
    pub fn leads_to(&self, route: &RouteMessage, address: IpAddr, port: u8, to: IpAddr) -> bool {
        let leads = |hop: &Hop| {
            self.ports.get(&hop.device) == Some(&port) && hop.gateway.unwrap_or(address) == to
        };
        let six = route.net.is_ipv6();
        let is_narrow = |hop: &Hop| self.is_narrow(hop.device, route.terms.mtu, six);
        if let [hop] = &route.hops[..]
            && is_narrow(hop)
        {
            return false;
        }
        // With compatibility off the kernel names the object alone.
        route.hops.iter().any(leads)
            || route.object.is_some_and(|id| {
                let members = self.members((Source::Kernel, id));
                members
                    .iter()
                    .any(|(hop, _)| hop.as_ref().is_some_and(leads))
            })
    }

    /// Whether a route of IPv6 that the kernel named for `address` only shows which next hop it takes: routes by one object
    /// share what it remembers of its next hops, and it names the route that was looked up first. The next hop is right if
    /// it is one of the object's of the route to `address`.
    pub fn shares_object(&self, named: &RouteMessage, address: IpAddr) -> bool {
        if named.object.is_none() || !address.is_ipv6() {
            return false;
        }
        let host = Net::host(address);
        let mut nets = std::iter::once(host).chain(host.ancestors());
        let Some(net) = nets.find(|net| self.desired(*net).is_some()) else {
            return false;
        };
        let slot = self.routes.get(&net);
        let best = slot.and_then(|slot| self.best_route(net, slot));
        let Some(Via::Object(key)) = best
            .and_then(|(route, _)| self.paths.get(route.path))
            .map(|path| &path.via)
        else {
            return false;
        };
        let is_named = |member: &Hop| {
            let same = |hop: &Hop| (hop.device, hop.gateway) == (member.device, member.gateway);
            named.hops.iter().any(same)
        };
        self.members(*key)
            .iter()
            .any(|(hop, _)| hop.as_ref().is_some_and(is_named))
    }

    /// The routes of a prefix in their order, for a report.
    pub fn describe(&self, net: Net) -> String {
        let routes = self.routes.get(&net).map_or(&[][..], Slot::routes);
        let each = routes.iter().map(|route| {
            let path = self.paths.get(route.path);
            let path = path.map_or("gone".to_owned(), |path| {
                format!("{:?} {:?}", path.kind, path.via)
            });
            format!("metric {} {path}", route.metric)
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Whether the route that a daemon wants for a prefix has this next hop among several. The kernel drops those whose
    /// device goes down, and does not take them back, while the daemon believes that it has.
    pub fn wants_among_others(&self, net: Net, target: Target) -> bool {
        let routes = self.routes.get(&net).map_or(&[][..], Slot::routes);
        let of_daemon = routes.iter().filter(|route| route.source == Source::Fpm);
        let paths = of_daemon.filter_map(|route| self.paths.get(route.path));
        paths.into_iter().any(|path| {
            let hops: Vec<Hop> = match &path.via {
                Via::Hops(hops) => hops.clone(),
                Via::Object(key) => {
                    let members = self.members(*key).into_iter();
                    members.filter_map(|(hop, _)| hop).collect()
                }
            };
            let leads = |hop: &Hop| self.over(hop, path) == Choice::Target(target);
            hops.len() > 1 && hops.iter().any(leads)
        })
    }
}
