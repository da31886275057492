// SPDX-License-Identifier: Apache-2.0
//! Datagrams: sockets by address, and a channel for each pair of sender and receiver.
//!
//! Several processes may have one socket, after fork; each is given the channel, whose cursors and locks are in its
//! memory.

use std::net::SocketAddr;
use std::time::Duration;

use ipc::protocol::{Notice, Reply};

use super::address::{canonical, destination};
use super::far::Far;
use super::limits::room;
use super::{Answer, Channel, Effect, Kind, Machine, ProcessId, Refusal, Side, State};

impl<H> Channel<H> {
    /// From a sender to a receiver.
    pub(super) fn of_datagrams(
        born: Duration,
        (from, to): (SocketAddr, SocketAddr),
        memory: H,
        sides: [Side; 2],
        far: Option<Far<H>>,
    ) -> Self {
        Self {
            kind: Kind::Datagram,
            from,
            to,
            memory,
            born,
            sides,
            taken: true,
            far,
        }
    }
}

impl<H: Clone> State<H> {
    pub(super) fn bind(
        &mut self,
        id: ProcessId,
        address: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.addresses;
        let address = canonical(address);
        let process = self.process(id)?;
        if process.near && !process.addresses.contains(&address) {
            room(
                process.addresses.len(),
                limit,
                "datagram addresses",
                "addresses",
            )?;
            process.addresses.insert(address);
            self.receivers.add(address, id);
            // Whoever comes now may come to channels.
            self.unattached
                .retain(|receiver, _| receiver.port() != address.port());
            self.effects.push(Effect::AddressesChanged);
            self.introduce(id, address);
        }
        Ok(Answer::done())
    }

    /// Tells a process that came to a socket later of the channels that others already send into.
    fn introduce(&mut self, id: ProcessId, address: SocketAddr) {
        let Self {
            datagrams,
            channels,
            receivers,
            ..
        } = self;
        let mut news = Vec::new();
        for (&(from, to), &number) in datagrams.iter() {
            if to.port() == address.port()
                && receivers.at(to).is_some_and(|owners| owners.contains(&id))
                && let Some(channel) = channels.get_mut(&number)
                && channel.sides[1].holders.insert(id)
            {
                news.push((number, from, to));
            }
        }
        for (channel, from, to) in news {
            if let Ok(process) = self.process(id) {
                process.channels.insert(channel);
            }
            let handles = self.channels.get(&channel).map(|it| self.handles(it));
            let notice = match self.is_far(channel) {
                true => Notice::FarDatagrams { channel, from, to },
                false => Notice::Datagrams { channel, from, to },
            };
            self.notify(id, notice, handles.unwrap_or_default());
        }
    }

    pub(super) fn unbind<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        address: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let address = canonical(address);
        if self.process(id)?.addresses.remove(&address) {
            self.unbind_address(machine, address, id);
        }
        Ok(Answer::done())
    }

    /// A process has left an address; with the last one go the channels to it.
    pub(super) fn unbind_address<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        address: SocketAddr,
        id: ProcessId,
    ) {
        self.receivers.remove(address, id);
        self.effects.push(Effect::AddressesChanged);
        let matches = |to: &SocketAddr| {
            to.port() == address.port()
                && (address.ip().is_unspecified() || to.ip() == address.ip())
        };
        let affected: Vec<u64> = self
            .datagrams
            .iter()
            .filter(|((_, to), _)| matches(to))
            .map(|(_, &number)| number)
            .collect();
        for number in affected {
            let Some(channel) = self.channels.get_mut(&number) else {
                continue;
            };
            if !channel.sides[1].holders.remove(&id) {
                continue;
            }
            // Children that nobody knows of may have it: its tethers tell.
            let far = channel.far.is_some();
            let (empty, sends) = (
                channel.sides[1].holders.is_empty(),
                channel.sides[0].holders.contains(&id),
            );
            if let Some(process) = self.processes.get_mut(&id)
                && !sends
            {
                process.channels.remove(&number);
            }
            if empty && !far {
                self.end_datagrams(machine, number);
            }
        }
    }

    /// One side has nobody left: senders see the flag and ask again, receivers take what is left and close.
    pub(super) fn end_datagrams<M: Machine<Handle = H>>(&mut self, machine: &mut M, number: u64) {
        let Some(channel) = self.channels.get(&number) else {
            return;
        };
        if channel.sides[1].holders.is_empty() {
            machine.revoke_channel(&channel.memory);
        }
        for process in channel.sides[1].holders.clone() {
            let notice = Notice::Revoked {
                channel: Some(number),
                window: None,
                region: None,
            };
            self.notify(process, notice, []);
        }
        self.forget(number);
    }

    /// The side of those who receive at an address. One without room for more is left to the kernel.
    pub(super) fn receiving(&self, to: SocketAddr) -> Option<(Side, Vec<ProcessId>)> {
        let limit = self.settings.limits.channels;
        let has_room = |owner: &ProcessId| {
            let process = self.processes.get(owner);
            process.is_some_and(|process| process.channels.len() < limit)
        };
        let owners: Vec<ProcessId> = self.receivers.at(to)?.iter().copied().collect();
        let owners: Vec<ProcessId> = owners.into_iter().filter(has_room).collect();
        let first = owners.first()?;
        let mut side = Side::of(*first, self.processes.get(first)?);
        side.holders.extend(&owners);
        Some((side, owners))
    }

    pub(super) fn open_datagrams<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        id: ProcessId,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.channels;
        let (from, to) = (canonical(from), destination(to));
        if !self.process(id)?.near {
            return Ok(Answer::kernel());
        }
        if self.receivers.at(to).is_none() {
            return Ok(Answer::kernel());
        }
        if !machine.is_local(to.ip()) {
            return Ok(Answer::kernel());
        }
        let process = self.process(id)?;
        let full = room(process.channels.len(), limit, "channels", "channels");
        let sender = Side::of(id, process);
        if let Some(&number) = self.datagrams.get(&(from, to))
            && let Some(channel) = self.channels.get_mut(&number)
        {
            if !channel.sides[0].holders.contains(&id) {
                full?;
                channel.sides[0].holders.insert(id);
            }
            let memory = channel.memory.clone();
            self.process(id)?.channels.insert(number);
            return Ok(Answer::new(Reply::Channel { channel: number }, [memory]));
        }
        full?;
        let Some((receiver, owners)) = self.receiving(to) else {
            return Ok(Answer::kernel());
        };
        let memory = machine.channel(Kind::Datagram)?;
        let number = self.fresh_id();
        let channel =
            Channel::of_datagrams(now, (from, to), memory.clone(), [sender, receiver], None);
        self.channels.insert(number, channel);
        self.datagrams.insert((from, to), number);
        self.process(id)?.channels.insert(number);
        for owner in owners {
            if let Ok(process) = self.process(owner) {
                process.channels.insert(number);
            }
            let notice = Notice::Datagrams {
                channel: number,
                from,
                to,
            };
            self.notify(owner, notice, [memory.clone()]);
        }
        Ok(Answer::new(Reply::Channel { channel: number }, [memory]))
    }
}
