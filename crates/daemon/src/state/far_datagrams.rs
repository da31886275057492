// SPDX-License-Identifier: Apache-2.0
//! Datagrams to programs on other machines.
//!
//! As with [streams](super::far) each machine has memory of its own for the channel. There is nothing to agree upon before: the
//! sender's daemon announces the channel at once, and gets the receiver's token, or none if nobody there has the library.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipc::protocol::{Notice, Reply};
use ipc::token::Token;
use shm::channel::flags;

use super::address::{canonical, destination};
use super::directory::Server;
use super::far::{Announced, far};
use super::guests::Thing;
use super::limits::room;
use super::{Answer, Channel, Effect, Machine, ProcessId, Refusal, Side, State};

/// How long no channel is made to who did not come to one, and of how many it is known at most.
const REST: Duration = Duration::from_secs(30);
const MOST_UNATTACHED: usize = 4096;

/// What becomes of a process's question for a channel to another machine.
#[derive(Debug)]
pub enum Asked<H> {
    /// It is answered.
    Answered(Answer<H>),
    /// The other machine is asked about this channel.
    Announce(u64, Announced),
}

impl<H: Clone> State<H> {
    /// A process sends datagrams to an address of the machine `peer`.
    ///
    /// # Errors
    /// If it may have no more channels, or there is no memory.
    pub fn datagrams_far<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        id: ProcessId,
        others: ProcessId,
        peer: Ipv4Addr,
        (from, to): (SocketAddr, SocketAddr),
    ) -> Result<Asked<H>, Refusal> {
        let limit = self.settings.limits.channels;
        let (from, to) = (canonical(from), destination(to));
        let process = self.process(id)?;
        let full = room(process.channels.len(), limit, "channels", "channels");
        let sender = Side::of(id, process);
        let over = |channel: &Channel<H>| {
            let peer = machine.counters(&channel.memory).unwrap_or_default()[1];
            peer.flags & (flags::CLOSED | flags::DESERTED | flags::REVOKED) != 0
        };
        let known = self.far_datagrams.get(&(from, to)).copied();
        if let Some(old) = known.filter(|old| self.channels.get(old).is_some_and(over)) {
            self.forget(old);
        }
        if let Some(&number) = self.far_datagrams.get(&(from, to))
            && let Some(channel) = self.channels.get_mut(&number)
        {
            // The other machine has not answered yet.
            if !channel.far.as_ref().is_some_and(|far| far.is_open()) {
                return Ok(Asked::Answered(Answer::kernel()));
            }
            if !channel.sides[0].holders.contains(&id) {
                full?;
                channel.sides[0].holders.insert(id);
                self.process(id)?.channels.insert(number);
            }
            let handles = self.channels.get(&number).map(|it| self.handles(it));
            let reply = Reply::FarChannel { channel: number };
            return Ok(Asked::Answered(Answer::new(
                reply,
                handles.unwrap_or_default(),
            )));
        }
        full?;
        let memory = machine.far_channel()?;
        let far = far(machine, &memory, 0, peer, None)?;
        let number = self.fresh_id();
        let token = self.far_token(number, &far);
        let receiver = Side {
            holders: [others].into(),
            program: format!("at {peer}"),
            ..Side::default()
        };
        let channel = Channel::of_datagrams(now, (from, to), memory, [sender, receiver], Some(far));
        self.channels.insert(number, channel);
        self.far_datagrams.insert((from, to), number);
        self.process(id)?.channels.insert(number);
        let said = Announced {
            peer,
            intent: None,
            from,
            to,
            token,
        };
        Ok(Asked::Announce(number, said))
    }

    /// A channel of datagrams is not the one between its ends any more.
    pub(super) fn find_no_more(
        &mut self,
        server: Server,
        ends: (SocketAddr, SocketAddr),
        number: u64,
    ) {
        let known = match server {
            Server::Here => &mut self.datagrams,
            Server::Elsewhere => &mut self.far_datagrams,
        };
        if known.get(&ends) == Some(&number) {
            known.remove(&ends);
        }
    }

    /// Whoever was told of a channel has not come to it: without descriptors it would not come to the next one either.
    pub(super) fn leave_to_the_kernel(&mut self, receiver: SocketAddr, now: Duration) {
        self.unattached
            .retain(|_, since| now.saturating_sub(*since) < REST);
        if self.unattached.len() >= MOST_UNATTACHED {
            self.unattached.clear();
        }
        self.unattached.insert(receiver, now);
    }

    /// A process of another machine sends datagrams to an address here: a token for this one's copy of the channel, if
    /// somebody with the library receives there.
    pub(super) fn datagrams_here<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        others: ProcessId,
        said: &Announced,
        theirs: u64,
    ) -> Result<Option<Token>, Refusal> {
        let (from, to) = (canonical(said.from), destination(said.to));
        let allowed = self
            .may_announce(machine, said, None)
            .and_then(|()| self.may_have(Thing::Channel, said.peer));
        if let Err(why) = allowed {
            self.refuse_peer(why);
            return Ok(None);
        }
        let rests = |since: &Duration| now.saturating_sub(*since) < REST;
        if self.unattached.get(&to).is_some_and(rests) {
            return Ok(None);
        }
        let Some((receiver, owners)) = self.receiving(to) else {
            return Ok(None);
        };
        let memory = machine.far_channel()?;
        let far = far(machine, &memory, 1, said.peer, Some(theirs))?;
        // The one before was of a socket that is no more.
        if let Some(&old) = self.datagrams.get(&(from, to)) {
            self.end_datagrams(machine, old);
        }
        let number = self.fresh_id();
        let token = self.far_token(number, &far);
        let sender = Side {
            holders: [others].into(),
            program: format!("at {}", said.peer),
            ..Side::default()
        };
        self.effects.push(Effect::Carry {
            channel: number,
            token: said.token,
            memory: memory.clone(),
            half: 1,
        });
        let handles = vec![memory.clone(), far.bell.clone()];
        let channel = Channel::of_datagrams(now, (from, to), memory, [sender, receiver], Some(far));
        self.channels.insert(number, channel);
        self.datagrams.insert((from, to), number);
        self.guests.add(Thing::Channel, number, said.peer);
        let notice = Notice::FarDatagrams {
            channel: number,
            from,
            to,
        };
        for owner in owners {
            if let Ok(process) = self.process(owner) {
                process.channels.insert(number);
            }
            self.notify(owner, notice.clone(), handles.clone());
        }
        Ok(Some(token))
    }
}
