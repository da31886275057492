// SPDX-License-Identifier: Apache-2.0
//! Routes of IPv6 that expire: the kernel passes over them from then on, and says that they are gone only when it collects
//! them, some tens of seconds later. That one was prolonged it need not say either, so that only a dump knows.

use std::time::{Duration, Instant};

use crate::message::RouteMessage;
use crate::state::State;

/// A hundredth of a second before a route expires, and until one after, the kernel says that it does not expire at all: it rounds
/// to none. So it is dumped somewhat later, and not only then if a dump may have come in between.
const ROUNDED: Duration = Duration::from_millis(50);

impl State {
    /// Whether a route that the kernel tells of has not expired; remembers when it does.
    pub(crate) fn lasts(&mut self, route: &RouteMessage) -> bool {
        if route.expires > 0 && self.rank(route.table).is_some() {
            let left = Duration::from_millis(route.expires as u64 * 10);
            let at = Instant::now().checked_add(left + ROUNDED);
            self.expiry = self.expiry.into_iter().chain(at).min();
        }
        route.expires >= 0
    }

    /// When the next route expires.
    pub const fn expiry(&self) -> Option<Instant> {
        self.expiry
    }

    /// A dump begins, and says anew what expires, but for what does about now.
    pub(crate) fn forget_expiry(&mut self) {
        let soon = Instant::now() + 2 * ROUNDED;
        self.expiry.take_if(|at| *at > soon);
    }

    /// Whether a route has expired since this was last asked: then a dump is due.
    pub fn take_expired(&mut self, now: Instant) -> bool {
        let expired = self.expiry.take_if(|at| *at <= now).is_some();
        self.unsure |= expired;
        expired
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::ROUNDED;
    use crate::state::{Config, State};

    #[test]
    fn a_dump_in_the_moment_of_an_expiry_is_not_the_last() {
        let mut state = State::new(Config::default());
        let now = Instant::now();
        for (left, stays) in [(ROUNDED, true), (Duration::from_secs(3), false)] {
            state.expiry = Some(now + left);
            state.begin_resync(false);
            assert_eq!(state.expiry().is_some(), stays);
        }
    }
}
