// SPDX-License-Identifier: Apache-2.0
//! When sessions have to do something on their own. Time is in ticks of the network side.

/// Whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The sender of a session saw no progress.
    Resend(u8),
    /// An acknowledgement of a session waited for a frame that takes it along.
    Acknowledge(u8),
}

/// Deadlines of all sessions.
#[derive(Clone, Debug)]
pub struct Timers {
    now: u64,
    /// Of each session: resend, acknowledge.
    due: Vec<[Option<u64>; 2]>,
    /// No deadline is earlier; it may be later.
    earliest: u64,
}

impl Timers {
    /// No deadlines yet.
    pub fn new(sessions: usize) -> Self {
        Self {
            now: 0,
            due: vec![[None; 2]; sessions],
            earliest: u64::MAX,
        }
    }

    fn set(&mut self, session: u8, kind: usize, ticks: u64) {
        let at = self.now + ticks;
        self.due[usize::from(session)][kind] = Some(at);
        self.earliest = self.earliest.min(at);
    }

    /// The session sends again in `ticks`, unless something happens before.
    pub fn resend_in(&mut self, session: u8, ticks: u64) {
        self.set(session, 0, ticks);
    }

    /// The session need not send again.
    pub fn no_resend(&mut self, session: u8) {
        self.due[usize::from(session)][0] = None;
    }

    /// The session acknowledges in `ticks`, unless it is to do so earlier already.
    pub fn acknowledge_in(&mut self, session: u8, ticks: u64) {
        if self.due[usize::from(session)][1].is_none() {
            self.set(session, 1, ticks);
        }
    }

    /// The session has acknowledged.
    pub fn no_acknowledge(&mut self, session: u8) {
        self.due[usize::from(session)][1] = None;
    }

    /// Ticks until something is due.
    pub fn until_next(&self) -> Option<u64> {
        let next = self.due.iter().flatten().flatten().min()?;
        Some(next.saturating_sub(self.now))
    }

    /// Moves the time on to `end`, but not beyond the next deadline; returns what is due then, `None` at the end.
    pub fn advance(&mut self, end: u64) -> Option<Due> {
        if self.earliest <= end {
            let mut next = u64::MAX;
            let mut found = None;
            for (session, kinds) in self.due.iter().enumerate() {
                for (kind, at) in kinds.iter().enumerate() {
                    if let Some(at) = at.filter(|at| *at < next) {
                        next = at;
                        found = Some((session, kind));
                    }
                }
            }
            self.earliest = next;
            if let Some((session, kind)) = found.filter(|_| next <= end) {
                self.now = self.now.max(next);
                self.due[session][kind] = None;
                let session = session as u8;
                return Some(match kind {
                    0 => Due::Resend(session),
                    _ => Due::Acknowledge(session),
                });
            }
        }
        self.now = end;
        None
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_can_be_taken_back() {
        let mut timers = Timers::new(4);
        timers.resend_in(2, 10);
        timers.acknowledge_in(1, 5);
        timers.acknowledge_in(1, 99);
        timers.resend_in(3, 7);
        timers.no_resend(3);
        assert_eq!(timers.until_next(), Some(5));
        assert_eq!(timers.advance(4), None);
        assert_eq!(timers.until_next(), Some(1));
        assert_eq!(timers.advance(20), Some(Due::Acknowledge(1)));
        assert_eq!(timers.now(), 5);
        timers.resend_in(2, 3);
        assert_eq!(timers.advance(20), Some(Due::Resend(2)));
        assert_eq!(timers.now(), 8);
        assert_eq!(timers.advance(20), None);
        assert_eq!((timers.now(), timers.until_next()), (20, None));
    }
}
