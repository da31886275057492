// SPDX-License-Identifier: Apache-2.0
//! Prefixes of IPv6 of which messages do not say which of their routes the kernel takes: it goes on with next hops that have expired
//! as long as another one of the same route has not, tells only the first one's expiry, counts a route that it has not collected yet,
//! and does not join what it learnt from router advertisements. Of several such routes the kernel forwards; one alone is as good
//! as any other.

use std::collections::HashMap;

use crate::message::RouteMessage;
use crate::net::Net;
use crate::state::{Slot, Source, State};
use crate::terms::is_same;

/// Routes that the kernel made of router advertisements, `RTPROT_RA`.
const BY_ADVERTISEMENT: u8 = 9;

/// Why a prefix is not settled.
#[derive(Clone, Copy, Debug, Default)]
struct Reason {
    /// The telling of the kernel's that last gave one.
    generation: u8,
    /// A route that has expired is not known any more, and may still be there.
    expired: bool,
    /// A route came of an advertisement.
    advertised: bool,
    /// It is beside others, which may be taken for what replaced it.
    beside: bool,
}

/// Prefixes that are not settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsettled(HashMap<Net, Reason>);

impl State {
    /// The kernel tells of a route: does it expire, or come of an advertisement?
    pub(crate) fn note_unsettled(&mut self, route: &RouteMessage) {
        if !route.net.is_ipv6() || self.rank(route.table).is_none() {
            return;
        }
        let generation = self.generation[Source::Kernel as usize];
        let advertised = route.protocol == BY_ADVERTISEMENT;
        let old = self.unsettled.0.get(&route.net).copied();
        let old = old.filter(|old| old.generation == generation);
        if route.expires == 0 && !advertised && !old.is_some_and(|old| old.advertised) {
            return;
        }
        let old = old.unwrap_or_default();
        let reason = Reason {
            generation,
            expired: old.expired || route.expires < 0,
            advertised: old.advertised || advertised,
            beside: old.beside
                || old.advertised && !advertised
                || advertised && self.has_other(route),
        };
        self.unsettled.0.insert(route.net, reason);
        self.dirty.push(route.net);
    }

    /// Whether a prefix has another next hop than these.
    fn has_other(&self, route: &RouteMessage) -> bool {
        let routes = self.routes.get(&route.net).map_or(&[][..], Slot::routes);
        let paths = routes.iter().filter_map(|old| self.paths.get(old.path));
        let mut hops = paths.flat_map(|path| path.via.hops());
        hops.any(|old| !route.hops.iter().any(|new| is_same(new, old)))
    }

    /// A route is gone: of a prefix that was not settled a dump says whether it is now.
    pub(crate) fn unsettled_gone(&mut self, route: &RouteMessage) {
        self.unsure |= self.unsettled.0.contains_key(&route.net);
    }

    /// A dump has told all.
    pub(crate) fn settle(&mut self) {
        let generation = self.generation[Source::Kernel as usize];
        let dirty = &mut self.dirty;
        self.unsettled.0.retain(|net, reason| {
            let stays = reason.generation == generation;
            if !stays {
                dirty.push(*net);
            }
            stays
        });
    }

    /// Prefixes with one route alone that expires, or was advertised.
    pub(crate) fn lapsing(&self) -> Vec<Net> {
        let nets = self.unsettled.0.keys().copied();
        nets.filter(|net| self.routes.contains_key(net) && !self.is_unsettled(*net))
            .collect()
    }

    /// Whether only the kernel knows which of a prefix's routes it takes.
    pub(crate) fn is_unsettled(&self, net: Net) -> bool {
        let Some(reason) = self.unsettled.0.get(&net) else {
            return false;
        };
        let routes = self.routes.get(&net).map_or(&[][..], Slot::routes);
        let joined = |number| {
            let path = self.paths.get(number);
            path.is_some_and(|path| path.via.hops().len() > 1)
        };
        match routes {
            [] => false,
            [route] => reason.expired || reason.beside || joined(route.path),
            _ => true,
        }
    }
}
