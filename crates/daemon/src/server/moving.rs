// SPDX-License-Identifier: Apache-2.0
//! Regions on the move to fresh memory, and who waits for that: their owners, until other machines' NICs have let go of the
//! old memory; processes and other machines that want a window, until the owner has moved.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ipc::protocol::{Reply, Request};
use ipc::token::Token;
use rustix::io::Errno;

use super::{Awaited, Server};
use crate::machine::Handle;
use crate::outside::Answer;
use crate::state::{self, Granted, ProcessId, Refusal};

/// How long a window waits for its region: an owner that is stopped, or copies very much, must not hold others up for ever.
/// Processes, and other machines' daemons, wait longer for an answer.
const LONGEST: Duration = Duration::from_secs(5);

/// Another machine's daemon wants a window.
#[derive(Debug)]
pub struct Ask {
    pub peer: Ipv4Addr,
    pub token: Token,
    pub answer: Answer<Result<Granted<Handle>, Refusal>>,
    /// Since when it waits.
    pub since: Instant,
}

/// What a request waits for that is answered by [`Reply::Wait`], if it is one of those that can wait here.
pub fn awaited(request: &Request) -> Option<Awaited> {
    match request {
        Request::Connect { token } => Some(Awaited::Settled(*token, Instant::now())),
        Request::Revoke { token } => Some(Awaited::Fresh(token.region)),
        Request::Renew { region } => Some(Awaited::Fresh(*region)),
        _ => None,
    }
}

fn late(token: &Token) -> Refusal {
    let region = token.region;
    Refusal::new(
        Errno::AGAIN,
        format!(
            "region {region} is being moved to fresh memory since a token was taken back, and its owner has not come to an \
             end of it; connect again later"
        ),
    )
}

impl Server {
    /// Answers who has waited for a region, as far as it is time.
    pub(super) fn moved(&mut self, region: u64) {
        let waits = |awaited: Option<Awaited>| match awaited {
            Some(Awaited::Fresh(number)) => number == region,
            Some(Awaited::Settled(token, _)) => token.region == region,
            _ => false,
        };
        let clients = self.clients.iter();
        let mut waiting: Vec<ProcessId> = clients
            .filter(|(_, client)| waits(client.awaits))
            .map(|(&id, _)| id)
            .collect();
        waiting.sort_unstable();
        for id in waiting {
            self.answer_waiting(id, None);
        }
        for ask in std::mem::take(&mut self.postponed) {
            match ask.token.region == region {
                true => self.asked(ask),
                false => self.postponed.push(ask),
            }
        }
    }

    /// Tells those who have waited too long for a window to come again.
    pub(super) fn lose_patience(&mut self) {
        let long = |since: Instant| since.elapsed() > LONGEST;
        let mut over = Vec::new();
        for (&id, client) in &self.clients {
            if let Some(Awaited::Settled(token, since)) = client.awaits
                && long(since)
            {
                over.push((id, late(&token)));
            }
        }
        for (id, refusal) in over {
            self.answer_waiting(id, Some(refusal));
        }
        for ask in std::mem::take(&mut self.postponed) {
            match long(ask.since) {
                // If nobody hears it, nobody waits.
                true => drop(ask.answer.give(Err(late(&ask.token)))),
                false => self.postponed.push(ask),
            }
        }
    }

    /// Answers a client that waits for a region, by a refusal or as it is now.
    fn answer_waiting(&mut self, id: ProcessId, refusal: Option<Refusal>) {
        let awaits = self
            .clients
            .get_mut(&id)
            .and_then(|client| client.awaits.take());
        let answer = match (awaits, refusal) {
            (None, _) => return,
            (_, Some(refusal)) => state::Answer::refused(refusal),
            (Some(Awaited::Fresh(region)), None) => self.state.moving(region),
            (Some(Awaited::Settled(token, _)), None) => {
                let now = self.started.elapsed();
                let connect = Request::Connect { token };
                self.state.request(&mut self.machine, now, id, connect)
            }
            (Some(_), None) => return,
        };
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if answer.reply == Reply::Wait {
            client.awaits = awaits;
        } else if client.reply(&answer).is_err() {
            self.farewell(id);
        }
    }

    /// Another machine's daemon shows a token.
    pub(super) fn asked(&mut self, ask: Ask) {
        if self.state.must_wait(&ask.token) {
            self.postponed.push(ask);
            return;
        }
        let (machine, others) = (&mut self.machine, self.others);
        let granted = self.state.grant(machine, others, ask.peer, &ask.token);
        let grant = granted.as_ref().ok().map(|granted| granted.grant);
        if !ask.answer.give(granted)
            && let Some(grant) = grant
        {
            self.state.end_window(grant);
        }
    }
}
