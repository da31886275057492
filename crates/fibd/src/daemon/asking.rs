// SPDX-License-Identifier: Apache-2.0
//! What a dump does not say: of routes of IPv6 that are between the next hops of another it tells nothing. Whether the kernel
//! takes one of those it is asked itself; and whether it still has those that expire.

use std::collections::HashSet;
use std::net::IpAddr;

use fib::synth::Random;

use super::{Daemon, Failure, queue};
use crate::audit;
use crate::entry::{self, Entry};
use crate::message::Message;
use crate::net::Net;

/// Questions between two looks at what the kernel says meanwhile.
const TURN: usize = 256;
/// Questions after one dump at most: each prefix is asked about by each port as long as they suffice, then without a port.
const MOST: usize = 1 << 17;
/// Prefixes with routes that expire that are asked about in one go.
const LAPSING: usize = 64;
/// Tries to find an address that has no longer prefix.
const TRIES: u32 = 4;

impl Daemon {
    /// Asks about each prefix of which only the kernel can say what it takes. Whether events were lost meanwhile.
    pub(super) fn ask_in_doubt(&mut self, waiting: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut lost = false;
        let mut outdone = HashSet::new();
        // Without an answer of before.
        self.state.set_outdone(HashSet::new());
        // One that does not forward IPv6 answers as the host that it is then.
        if self.state.forwards(true) {
            let mut random = Random::new(0);
            let own = std::iter::once(None);
            let entries: Vec<_> = own
                .chain(self.state.entries(true).into_iter().map(Some))
                .collect();
            let mut asked = 0;
            for net in self.state.in_doubt() {
                let entries = match asked + entries.len() <= MOST {
                    true => &entries[..],
                    false => &entries[..1],
                };
                if self.is_outdone(net, entries, &mut random)? {
                    outdone.insert(net);
                }
                let before = asked;
                asked += entries.len();
                if before / TURN != asked / TURN {
                    lost |= queue(&mut self.listener, waiting).map_err(Failure::Netlink)?;
                }
            }
        }
        self.state.set_outdone(outdone);
        Ok(lost)
    }

    /// Whether the kernel takes another route for a prefix than those that are known, be it for packets that come in at one of
    /// the ports.
    fn is_outdone(
        &mut self,
        net: Net,
        entries: &[Option<Entry>],
        random: &mut Random,
    ) -> Result<bool, Failure> {
        let Some(address) = self.lone(net, random) else {
            return Ok(false);
        };
        let target = self.state.desired(net);
        for entry in entries {
            let answer = entry::ask(&mut self.asker, address, *entry).map_err(Failure::Netlink)?;
            let fits = |answer| audit::fits(&self.state, &answer, address, target);
            if !answer.is_none_or(fits) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Asks about routes that expire: the kernel may have them do so sooner than it has said. Those that it does not name any more
    /// a dump is due for, once.
    pub(super) fn ask_lapsing(&mut self) -> Result<(), Failure> {
        let mut nets = self.state.lapsing();
        nets.sort_unstable();
        self.lapsed.retain(|net| nets.binary_search(net).is_ok());
        if nets.is_empty() || !self.state.forwards(true) {
            return Ok(());
        }
        let next = nets.partition_point(|net| self.lapsing.is_some_and(|last| *net <= last));
        nets.rotate_left(next);
        nets.truncate(LAPSING);
        self.lapsing = nets.last().copied();
        let mut random = Random::new(0);
        for net in nets {
            let Some(address) = self.lone(net, &mut random) else {
                continue;
            };
            let answer = entry::ask(&mut self.asker, address, None).map_err(Failure::Netlink)?;
            match answer {
                Some(Message::Route(route)) if route.net == net && self.state.lasts(&route) => {
                    self.lapsed.remove(&net);
                }
                _ => self.state.unsure |= self.lapsed.insert(net),
            }
        }
        Ok(())
    }

    /// An address of which a prefix is the longest.
    fn lone(&self, net: Net, random: &mut Random) -> Option<IpAddr> {
        let longest = |address| audit::longest(&self.state, address);
        (0..TRIES)
            .map(|_| net.inside(random.wide()))
            .find(|address| longest(*address).is_some_and(|(found, _)| found == net))
    }
}
