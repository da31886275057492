// SPDX-License-Identifier: Apache-2.0
//! What became of a route that a daemon told by FPM: in the tables of the switch, or why not.

use crate::counters::Counters;
use crate::message::{Hop, RouteKind, RouteMessage};
use crate::net::Net;
use crate::state::{Source, State, is_frr};

/// What became of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the tables, perhaps as one that leads to the host port.
    Offloaded,
    /// It is of a table that is not followed.
    Table,
    /// Its destination is a group, or link-local: no route is looked for.
    Multicast,
    /// It is for one type of service.
    Tos,
    /// Its type is none of Linux.
    Kind,
    /// It is none of FRR's own, and the kernel does not have it.
    Protocol,
    /// It names a next-hop object that is not there.
    Object,
    /// All its next hops are at devices that are not there.
    Device,
    /// It has no next hop that can be used.
    Unusable,
    /// There is no room.
    Spilled,
}

impl Counters {
    /// Counts it.
    pub fn outcome(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Offloaded => &mut self.fpm_offloaded,
            Outcome::Table => &mut self.fpm_failed_table,
            Outcome::Multicast => &mut self.fpm_failed_multicast,
            Outcome::Tos => &mut self.fpm_failed_tos,
            Outcome::Kind => &mut self.fpm_failed_type,
            Outcome::Protocol => &mut self.fpm_failed_protocol,
            Outcome::Object => &mut self.fpm_failed_object,
            Outcome::Device => &mut self.fpm_failed_device,
            Outcome::Unusable => &mut self.fpm_failed_unusable,
            Outcome::Spilled => &mut self.fpm_failed_spilled,
        } += 1;
    }
}

/// Of a route that was told, what its answer needs.
#[derive(Clone, Debug)]
pub struct Told {
    /// Destination.
    pub net: Net,
    /// Why it can't be followed, whatever else there is.
    refused: Option<Outcome>,
    /// It is not one of FRR's own, and taken from the kernel.
    foreign: bool,
    object: Option<u32>,
    hops: Vec<Hop>,
}

impl State {
    /// Takes down what the answer to a route needs.
    pub fn told(&self, route: &RouteMessage) -> Told {
        let refused = if self.rank(route.table).is_none() {
            Some(Outcome::Table)
        } else if route.net.is_never_looked_up() {
            Some(Outcome::Multicast)
        } else if route.tos != 0 {
            Some(Outcome::Tos)
        } else if route.kind == RouteKind::Unknown {
            Some(Outcome::Kind)
        } else {
            None
        };
        Told {
            net: route.net,
            refused,
            foreign: !is_frr(route.protocol),
            object: route.object,
            hops: route.hops.clone(),
        }
    }

    /// What became of it, after all that changed was brought into the tables; `by_host` says that there was no room.
    pub fn outcome(&self, told: &Told, by_host: bool) -> Outcome {
        if let Some(refused) = told.refused {
            return refused;
        }
        let leads = self.desired(told.net).is_some();
        if told.foreign && !leads {
            return Outcome::Protocol;
        }
        if !told.foreign {
            let key = told.object.map(|id| (Source::Fpm, id));
            if key.is_some_and(|key| !self.objects.contains_key(&key)) {
                return Outcome::Object;
            }
            let members = key.map_or_else(Vec::new, |key| self.members(key));
            let hops: Vec<Hop> = match key {
                Some(_) => members.into_iter().filter_map(|(hop, _)| hop).collect(),
                None => told.hops.clone(),
            };
            let is_there = |hop: &Hop| self.links.contains_key(&hop.device);
            if !hops.is_empty() && !hops.iter().any(is_there) {
                return Outcome::Device;
            }
        }
        match (leads, by_host) {
            (false, _) => Outcome::Unusable,
            (true, true) => Outcome::Spilled,
            (true, false) => Outcome::Offloaded,
        }
    }
}
