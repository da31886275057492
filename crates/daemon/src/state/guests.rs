// SPDX-License-Identifier: Apache-2.0
//! What other machines have here, counted for each.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thing {
    /// Connections that its programs are just opening.
    Intent,
    /// Channels that it has announced.
    Channel,
    /// Of those, such that nobody has accepted yet.
    Waiting,
    /// Windows on regions.
    Window,
}

/// Who has what.
#[derive(Debug, Default)]
pub struct Guests {
    owners: HashMap<(Thing, u64), Ipv4Addr>,
    counts: HashMap<(Thing, Ipv4Addr), usize>,
}

impl Guests {
    /// How many of these a machine has.
    pub fn count(&self, thing: Thing, peer: Ipv4Addr) -> usize {
        self.counts.get(&(thing, peer)).copied().unwrap_or(0)
    }

    /// A machine has one more, of this number.
    pub fn add(&mut self, thing: Thing, number: u64, peer: Ipv4Addr) {
        if self.owners.insert((thing, number), peer).is_none() {
            *self.counts.entry((thing, peer)).or_default() += 1;
        }
    }

    /// It is gone, if it was any machine's.
    pub fn remove(&mut self, thing: Thing, number: u64) {
        let Some(peer) = self.owners.remove(&(thing, number)) else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&(thing, peer)) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&(thing, peer));
            }
        }
    }
}
