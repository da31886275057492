// SPDX-License-Identifier: Apache-2.0
//! Routes of IPv6 for packets from one prefix alone. The switch does not look at sources: where there is such a route all
//! packets to its destination go by the host port, unless a longer prefix has a route.
//!
//! The kernel finds the longest destination first, and looks among its sources only there; if none fits it goes on with a
//! shorter one, and passes over the route for all sources. So what it does at other prefixes stays as it is.

use std::collections::HashMap;

use crate::message::{RouteMessage, flags};
use crate::net::Net;
use crate::state::{Source, State};

/// Who told of it, rank of its table, its source, its metric.
type Key = (Source, u8, Net, u32);

#[derive(Clone, Copy, Debug)]
struct Entry {
    generation: u8,
    /// It was told once, with one next hop: what takes it out leaves none.
    alone: bool,
}

/// Those by their destinations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sourced(HashMap<Net, HashMap<Key, Entry>>);

impl Sourced {
    pub(crate) fn has(&self, net: Net) -> bool {
        !self.0.is_empty() && self.0.contains_key(&net)
    }

    /// Whether one of them is of the local table.
    pub(crate) fn is_local(&self, net: Net) -> bool {
        let keys = self.0.get(&net);
        keys.is_some_and(|keys| keys.keys().any(|key| key.1 == 0))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn nets(&self) -> impl Iterator<Item = Net> {
        self.0.keys().copied()
    }

    /// A dump begins again: none is confirmed.
    pub(crate) fn forget(&mut self, generation: u8) {
        for (key, entry) in self.0.values_mut().flatten() {
            if key.0 == Source::Kernel && entry.generation == generation {
                entry.generation = generation.wrapping_sub(1);
            }
        }
    }

    /// Takes out those of a source that are of another generation; returns their destinations, one for each.
    pub(crate) fn sweep(&mut self, source: Source, generation: u8) -> Vec<Net> {
        let mut swept = Vec::new();
        self.0.retain(|net, keys| {
            let before = keys.len();
            keys.retain(|key, entry| key.0 != source || entry.generation == generation);
            swept.extend((keys.len()..before).map(|_| *net));
            !keys.is_empty()
        });
        swept
    }
}

impl State {
    /// A route for one source is there.
    pub(crate) fn sourced_route(
        &mut self,
        route: &RouteMessage,
        from: Net,
        (rank, source): (u8, Source),
        with: u16,
    ) {
        let key = (source, rank, from, route.metric);
        let generation = self.generation[source as usize];
        let dumped = source == Source::Kernel && self.seen.is_some();
        let keys = self.sourced.0.entry(route.net).or_default();
        let old = keys.get(&key).copied();
        let confirmed = dumped && old.is_some_and(|old| old.generation != generation);
        let alone = route.hops.len() <= 1 && (old.is_none() || confirmed);
        keys.insert(key, Entry { generation, alone });
        if old.is_none() {
            self.counters.from_by_host += 1;
            self.dirty.push(route.net);
        }
        // What was replaced only a dump knows.
        let replaced = with & flags::REPLACE != 0 && old.is_some();
        self.unsure |= replaced && !dumped && source == Source::Kernel;
    }

    /// A route for one source is gone.
    pub(crate) fn sourced_gone(
        &mut self,
        route: &RouteMessage,
        from: Net,
        (rank, source): (u8, Source),
    ) {
        let key = (source, rank, from, route.metric);
        let keys = self.sourced.0.get_mut(&route.net);
        let Some((keys, entry)) = keys.and_then(|keys| {
            let entry = *keys.get(&key)?;
            Some((keys, entry))
        }) else {
            self.counters.unmatched += 1;
            return;
        };
        if !entry.alone && source == Source::Kernel {
            // Whether others are left only a dump knows.
            self.unsure = true;
            return;
        }
        keys.remove(&key);
        if keys.is_empty() {
            self.sourced.0.remove(&route.net);
        }
        self.dirty.push(route.net);
    }

    /// Something went with which the kernel may have taken routes out without a message.
    pub(crate) fn doubt_sourced(&mut self) {
        self.unsure |= !self.sourced.is_empty() && self.seen.is_none();
    }
}
