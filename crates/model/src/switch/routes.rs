// SPDX-License-Identifier: Apache-2.0
//! Routes, found by trying the lengths from the longest: one hash map a length, nothing shared with
//! the tables that the hardware walks.

use std::collections::HashMap;
use std::hash::Hash;

/// Where a next hop's frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A network port.
    Port(u8),
    /// The host port.
    Host,
    /// Nowhere.
    Discard,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Where its frames go.
    pub target: Target,
    /// The neighbour's MAC address; `None` while it is not known.
    pub mac: Option<[u8; 6]>,
}

/// Routes of one family.
#[derive(Clone, Debug)]
pub(super) struct Routes<A> {
    by_len: Vec<HashMap<A, u16>>,
    mask: fn(A, u8) -> A,
}

impl<A: Copy + Eq + Hash> Routes<A> {
    /// No routes; `mask` clears what lies behind a length.
    pub fn new(bits: u8, mask: fn(A, u8) -> A) -> Self {
        Self {
            by_len: vec![HashMap::new(); usize::from(bits) + 1],
            mask,
        }
    }

    /// Sets a route, or takes it out.
    pub fn set(&mut self, address: A, len: u8, next_hop: Option<u16>) {
        let key = (self.mask)(address, len);
        let routes = &mut self.by_len[usize::from(len)];
        match next_hop {
            Some(next_hop) => routes.insert(key, next_hop),
            None => routes.remove(&key),
        };
    }

    /// The next hop of the longest prefix that holds the address.
    pub fn find(&self, address: A) -> Option<u16> {
        self.by_len
            .iter()
            .enumerate()
            .rev()
            .find_map(|(len, routes)| {
                if routes.is_empty() {
                    return None;
                }
                routes.get(&(self.mask)(address, len as u8)).copied()
            })
    }
}

/// The upper `len` bits.
pub(super) fn mask4(address: u32, len: u8) -> u32 {
    address & !u32::MAX.checked_shr(len.into()).unwrap_or(0)
}

/// The upper `len` bits.
pub(super) fn mask6(address: u128, len: u8) -> u128 {
    address & !u128::MAX.checked_shr(len.into()).unwrap_or(0)
}
