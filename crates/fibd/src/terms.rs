// SPDX-License-Identifier: Apache-2.0
//! What a route says beside where it leads: which of several of IPv6 is preferred, and how long packets may be.
//!
//! Next hops that IPv6 joins to one route each have terms of their own, of which a message tells those of the first alone.

use std::collections::{BTreeSet, HashSet};

use crate::message::{Hop, Malformed, RouteMessage};
use crate::net::Net;
use crate::paths::{Path, Via};
use crate::state::{Choice, Link, MAY_HIDE, Route, Slot, Source, State, Target};

/// Which of several routes of IPv6 of one metric is taken: the highest, and of equals the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Preference {
    /// A dump does not say it.
    Unknown,
    /// Low.
    Low,
    /// What a route has that says nothing.
    #[default]
    Medium,
    /// High.
    High,
}

impl Preference {
    /// As the kernel writes it.
    pub(crate) fn read(value: &[u8]) -> Result<Self, Malformed> {
        Ok(match value.first().ok_or(Malformed::Length)? {
            1 => Self::High,
            3 => Self::Low,
            _ => Self::Medium,
        })
    }
}

/// What a route, or a next hop that is joined, says beside where it leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Terms {
    /// Of IPv6.
    pub preference: Preference,
    /// Bytes of the longest packet; 0 if it says nothing.
    pub mtu: u32,
}

/// How the kernel ranks a route among those of its metric: by its preference, then by whether it leads back to the device at which
/// a packet came in.
type Rank = (Preference, bool);

const LEAST: Rank = (Preference::Low, false);

/// Whether two next hops are the same one for the kernel.
pub(crate) fn is_same(one: &Hop, other: &Hop) -> bool {
    (one.device, one.gateway) == (other.device, other.gateway)
}

impl State {
    /// Gives the terms of a message to the next hops that they are of, if IPv6 joins them.
    pub(crate) fn share_terms(&self, route: &mut RouteMessage, source: Source) {
        if !Self::joins_hops(route.net.is_ipv6(), route.kind, &route.hops) || route.object.is_some()
        {
            return;
        }
        let terms = std::mem::take(&mut route.terms);
        let dumped = self.seen.is_some() && source == Source::Kernel;
        let (net, key) = (route.net, (self.rank(route.table), route.metric));
        for (hop, at) in route.hops.iter_mut().zip(0..) {
            hop.terms = terms;
            if dumped && at > 0 {
                let preference = Preference::Unknown;
                let unknown = Terms {
                    preference,
                    ..terms
                };
                hop.terms = self.remembered(net, key, hop).unwrap_or(unknown);
            }
        }
    }

    /// The terms that a next hop of a joined route was told to have.
    fn remembered(&self, net: Net, key: (Option<u8>, u32), hop: &Hop) -> Option<Terms> {
        // What was lost may have changed them.
        let routes = self.routes.get(&net).filter(|_| !self.lost)?.routes();
        let of = routes.iter().filter(|route| {
            (Some(route.rank), route.metric, route.source) == (key.0, key.1, Source::Kernel)
        });
        let paths = of.filter_map(|route| self.paths.get(route.path));
        let mut hops = paths
            .filter(|path| Self::joins(path))
            .flat_map(|path| path.via.hops());
        hops.find(|old| is_same(old, hop)).map(|old| old.terms)
    }

    /// The best of several routes of IPv6, as the kernel looks for it: of the lowest metric the one with the highest
    /// preference; if none of these can be used, the one with the highest of all others, whatever their metrics.
    pub(crate) fn best_of_six<'a>(
        &self,
        net: Net,
        routes: &'a [Route],
    ) -> Option<(&'a Route, Choice)> {
        [0, 1].into_iter().find_map(|rank| {
            let there = |route: &&Route| route.rank == rank && !self.paths.is_doomed(route.path);
            let mut routes: Vec<&Route> = routes.iter().filter(there).collect();
            routes.sort_by_key(|route| route.metric);
            let lowest = routes.first()?.metric;
            let (first, others) =
                routes.split_at(routes.partition_point(|route| route.metric == lowest));
            self.preferred(net, first)
                .or_else(|| self.preferred(net, others))
        })
    }

    fn preferred<'a>(&self, net: Net, routes: &[&'a Route]) -> Option<(&'a Route, Choice)> {
        let (route, choice) = self.scan(net, routes, Preference::Low, None)?;
        // What is not known decides, or the port at which a packet came in: the kernel knows.
        let hidden = routes.iter().any(|route| self.may_be_outdone(net, route));
        let ports = self.ports_of(routes).into_iter().map(Some);
        let differs = |at: Option<u32>| {
            [Preference::Low, Preference::High].iter().any(|unknown| {
                let found = self.scan(net, routes, *unknown, at);
                found.is_none_or(|(other, to)| other.path != route.path && to != choice)
            })
        };
        let several = routes.len() > 1;
        let choice = match hidden || several && std::iter::once(None).chain(ports).any(differs) {
            false => choice,
            true => Choice::Target(Target::Host),
        };
        Some((route, choice))
    }

    /// The ports at which a packet may come in so that some of these routes are preferred to others.
    fn ports_of(&self, routes: &[&Route]) -> BTreeSet<u32> {
        let paths = routes.iter().filter_map(|it| self.paths.get(it.path));
        let devices = paths.flat_map(|path| match &path.via {
            Via::Hops(hops) => hops.iter().map(|hop| hop.device).collect::<Vec<_>>(),
            Via::Object(key) => {
                let members = self.members(*key).into_iter();
                members.filter_map(|(hop, _)| Some(hop?.device)).collect()
            }
        });
        devices
            .filter(|device| self.ports.contains_key(device))
            .collect()
    }

    /// Whether a joined route of IPv6 of which a dump alone has said may hide another that is preferred: what is between its
    /// next hops comes after the first of them, and is taken only if it is preferred to that, as each is that says nothing of
    /// its preference if that one's is low. Whether there is one that says that it is to be preferred the kernel was asked.
    pub(crate) fn may_be_outdone(&self, net: Net, route: &Route) -> bool {
        let low = |hop: &Hop| hop.terms.preference == Preference::Low;
        self.hiding_hops(route)
            .is_some_and(|hops| self.outdone.contains(&net) || hops.iter().any(low))
    }

    /// The next hops of a joined route of which a dump alone has said, which may have passed over what is between them.
    fn hiding_hops(&self, route: &Route) -> Option<&[Hop]> {
        let path = self.paths.get(route.path)?;
        (route.run == MAY_HIDE && Self::joins(path)).then(|| path.via.hops())
    }

    /// Prefixes of which only the kernel can say whether what a dump has is what it takes.
    pub(crate) fn in_doubt(&self) -> Vec<Net> {
        let hides = |slot: &Slot| {
            slot.routes()
                .iter()
                .any(|route| self.hiding_hops(route).is_some())
        };
        let slots = self.routes.iter().filter(|(net, _)| net.is_ipv6());
        slots
            .filter(|(_, slot)| hides(slot))
            .map(|(net, _)| *net)
            .collect()
    }

    /// What came of asking.
    pub(crate) fn set_outdone(&mut self, nets: HashSet<Net>) {
        let changed = self.outdone.symmetric_difference(&nets);
        self.dirty.extend(changed.copied());
        self.outdone = nets;
    }

    fn scan<'a>(
        &self,
        net: Net,
        routes: &[&'a Route],
        unknown: Preference,
        at: Option<u32>,
    ) -> Option<(&'a Route, Choice)> {
        let mut best: Option<(Rank, &Route, Choice)> = None;
        for route in routes.iter().filter(|route| self.is_alive(route)) {
            let Some(choice) = self.choose(net, route.path) else {
                continue;
            };
            // The kernel ends its search at an object that drops, whatever it has found.
            if self.is_hole(route) {
                return Some((route, choice));
            }
            let rank = self.preference(route, unknown, at);
            if best.is_none_or(|(most, ..)| rank > most) {
                best = Some((rank, route, choice));
            }
        }
        best.map(|(_, route, choice)| (route, choice))
    }

    /// Whether a route goes by an object that drops.
    fn is_hole(&self, route: &Route) -> bool {
        match self.paths.get(route.path).map(|path| &path.via) {
            Some(Via::Object(key)) => matches!(self.members(*key)[..], [(None, _)]),
            _ => false,
        }
    }

    /// The highest of those of its next hops that can be used, for a packet that comes in at a device.
    fn preference(&self, route: &Route, unknown: Preference, at: Option<u32>) -> Rank {
        let Some(path) = self.paths.get(route.path) else {
            return LEAST;
        };
        let joins = Self::joins(path);
        let rank = |hop: &Hop| {
            let preference = match (joins, hop.terms.preference) {
                (false, _) => path.terms.preference,
                (true, Preference::Unknown) => unknown,
                (true, preference) => preference,
            };
            (preference, at == Some(hop.device))
        };
        let usable = |hop: &Hop| self.is_usable(hop, true, &[]);
        let each: Vec<Rank> = match &path.via {
            Via::Hops(hops) => {
                let here = hops.iter().zip(0..).filter(|(_, at)| route.has(*at));
                let here = here.map(|(hop, _)| hop);
                here.filter(|hop| usable(hop)).map(rank).collect()
            }
            Via::Object(key) => {
                let members = self.members(*key).into_iter();
                let members = members.filter_map(|(hop, _)| hop);
                members.filter(usable).map(|hop| rank(&hop)).collect()
            }
        };
        let none = match joins {
            true => LEAST,
            // One that drops has no next hop that could be used or not.
            false => (path.terms.preference, false),
        };
        each.into_iter().max().unwrap_or(none)
    }

    /// Whether a joined route of IPv6 has others beside it, or next hops with other longest packets or of low
    /// preference: then what a dump does not say, of its next hops or of what is between them, may decide.
    pub(crate) fn is_contested(&self, net: Net) -> bool {
        let routes = self.routes.get(&net).map_or(&[][..], Slot::routes);
        let paths = routes.iter().filter_map(|it| self.paths.get(it.path));
        let mut joined = paths.filter(|path| Self::joins(path));
        joined.any(|path| {
            let hops = path.via.hops();
            let alike = |hop: &Hop| hop.terms.mtu == hops[0].terms.mtu;
            let low = |hop: &Hop| hop.terms.preference == Preference::Low;
            hops.len() > 1 && (routes.len() > 1 || !hops.iter().all(alike) || hops.iter().any(low))
        })
    }

    /// Whether packets that fit the port are too long for a route of a family by it.
    pub(crate) fn is_narrow(&self, device: u32, mtu: u32, six: bool) -> bool {
        let narrow = |link: &Link| mtu != 0 && mtu < link.mtu || six && link.mtu_six < link.mtu;
        self.links.get(&device).is_some_and(narrow)
    }

    /// The longest packet of IPv6 at a device, which is a setting of its own.
    pub fn set_mtu_six(&mut self, device: u32, mtu: u32) {
        if let Some(link) = self.links.get_mut(&device)
            && std::mem::replace(&mut link.mtu_six, mtu) != mtu
        {
            self.touch_device(device);
            self.doubt_mtu(device);
        }
    }

    /// The longest packet at a device changed: with it the kernel changes that of routes of IPv6, and does not say so.
    pub(crate) fn doubt_mtu(&mut self, device: u32) {
        let has = |path: &Path| {
            let mut hops = path.via.hops().iter();
            path.six && hops.any(|it| it.device == device && it.terms.mtu.max(path.terms.mtu) != 0)
        };
        self.unsure |= self.seen.is_none() && self.paths.all().any(|(_, path)| has(path));
    }

    /// Whether a path has next hops at ports whose packets may be too long for it.
    pub(crate) fn has_narrow(&self, path: &Path) -> bool {
        let mtu = |hop: &Hop| hop.terms.mtu.max(path.terms.mtu);
        let narrow = |hop: &Hop| {
            self.ports.contains_key(&hop.device) && self.is_narrow(hop.device, mtu(hop), path.six)
        };
        path.kind == crate::message::RouteKind::Unicast
            && match &path.via {
                Via::Hops(hops) => hops.iter().any(narrow),
                Via::Object(_) if path.terms.mtu == 0 => false,
                Via::Object(key) => {
                    let members = self.members(*key).into_iter();
                    members.filter_map(|(hop, _)| hop).any(|hop| narrow(&hop))
                }
            }
    }
}
