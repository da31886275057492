// SPDX-License-Identifier: Apache-2.0
//! Routes of IPv6 that expire: the kernel passes over them from then on, and says that they are gone only when it collects
//! them, some tens of seconds later. That one was prolonged it need not say either, so that only a dump knows.

use std::time::{Duration, Instant};

use crate::message::RouteMessage;
use crate::state::State;

impl State {
    /// Whether a route that the kernel tells of has not expired; remembers when it does.
    pub(crate) fn lasts(&mut self, route: &RouteMessage) -> bool {
        if route.expires > 0 && self.rank(route.table).is_some() {
            // A tick later: the kernel rounds.
            let left = Duration::from_millis(route.expires as u64 * 10 + 10);
            let at = Instant::now().checked_add(left);
            self.expiry = self.expiry.into_iter().chain(at).min();
        }
        route.expires >= 0
    }

    /// When the next route expires.
    pub const fn expiry(&self) -> Option<Instant> {
        self.expiry
    }

    /// Whether a route has expired since this was last asked: then a dump is due.
    pub fn take_expired(&mut self, now: Instant) -> bool {
        let expired = self.expiry.take_if(|at| *at <= now).is_some();
        self.unsure |= expired;
        expired
    }
}
