// SPDX-License-Identifier: Apache-2.0
//! Routes of IPv6 that expire: the kernel passes over them from then on, and says that they are gone only when it collects
//! them, some tens of seconds later. That one was prolonged it need not say either, so that only a dump knows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::message::RouteMessage;
use crate::state::State;

/// A hundredth of a second before a route expires, and until one after, the kernel says that it does not expire at all: it rounds
/// to none. So it is dumped somewhat later, and not only then if a dump may have come in between.
const ROUNDED: Duration = Duration::from_millis(50);

/// When dumps are due since routes have expired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expiries {
    /// All of them: a dump in the moment in which a route expires does not say that it does, and may be made for another.
    due: BTreeSet<Instant>,
    /// Those of which the dump that goes on says anew what is left.
    before: BTreeSet<Instant>,
}

impl Expiries {
    /// A route expires then.
    fn add(&mut self, at: Instant) {
        let at = at + ROUNDED;
        // Routes that expire together need one dump, the last one's; and there are few, however often one is told.
        if self.due.range(at..at + ROUNDED).next().is_none() {
            self.due.insert(at);
        }
    }

    fn begin(&mut self) {
        self.before.append(&mut self.due);
    }

    /// The dump has ended: what expired while it went on, or does about now, it may have called lasting.
    fn end(&mut self, now: Instant) {
        let later = self.before.split_off(&(now + 3 * ROUNDED));
        drop(later);
        self.due.append(&mut self.before);
    }

    /// No dump has said anything.
    fn abandon(&mut self) {
        self.due.append(&mut self.before);
    }
}

impl State {
    /// Whether a route that the kernel tells of has not expired; remembers when it does.
    pub(crate) fn lasts(&mut self, route: &RouteMessage) -> bool {
        if route.expires > 0 && self.rank(route.table).is_some() {
            let left = Duration::from_millis(route.expires as u64 * 10);
            if let Some(at) = Instant::now().checked_add(left) {
                self.expiries.add(at);
            }
        }
        // Of joined next hops the first alone is told to have expired.
        route.expires >= 0 || route.hops.len() > 1
    }

    /// When the next route expires.
    pub fn expiry(&self) -> Option<Instant> {
        self.expiries.due.first().copied()
    }

    /// A dump begins, and says anew what expires.
    pub(crate) fn begin_expiries(&mut self) {
        self.expiries.begin();
    }

    /// It has ended, whole or not.
    pub(crate) fn end_expiries(&mut self, whole: bool) {
        match whole {
            true => self.expiries.end(Instant::now()),
            false => self.expiries.abandon(),
        }
    }

    /// Whether a route has expired since this was last asked: then a dump is due.
    pub fn take_expired(&mut self, now: Instant) -> bool {
        let mut expired = false;
        while self.expiries.due.first().is_some_and(|at| *at <= now) {
            self.expiries.due.pop_first();
            expired = true;
        }
        self.unsure |= expired;
        expired
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Expiries, ROUNDED};
    use crate::state::{Config, State};

    #[test]
    fn a_dump_in_the_moment_of_an_expiry_is_not_the_last() {
        let mut state = State::new(Config::default());
        let now = Instant::now();
        for (left, stays) in [(Duration::ZERO, true), (Duration::from_secs(3), false)] {
            state.expiries = Expiries::default();
            state.expiries.add(now + left);
            state.begin_resync(false);
            state.end_resync();
            assert_eq!(state.expiry().is_some(), stays);
        }
    }

    #[test]
    fn an_expiry_is_not_forgotten_for_another_nor_for_a_dump_that_fails() {
        let mut state = State::new(Config::default());
        let now = Instant::now();
        let second = Duration::from_secs(1);
        state.expiries.add(now + 2 * second);
        state.expiries.add(now + second);
        state.expiries.add(now + second);
        assert!(!state.take_expired(now + second));
        assert!(state.take_expired(now + second + ROUNDED));
        assert_eq!(state.expiry(), Some(now + 2 * second + ROUNDED));
        state.begin_resync(false);
        state.abandon_resync();
        assert!(state.take_expired(now + 3 * second));
        assert_eq!(state.expiry(), None);
    }
}
