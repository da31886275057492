// SPDX-License-Identifier: Apache-2.0
//! Streams: listeners, clients that are about to connect, and the channel that both ends of a connection get.
//!
//! The client says before it connects that it is about to (`Intend`), and once it knows its own port, between which
//! addresses the connection runs (`Announce`). An acceptor asks by these addresses (`Resolve`). It may ask before the
//! client has announced: while an intent from before its question is open, the connection it has accepted may be
//! that client's, and it is told to wait.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use ipc::protocol::{Reply, notice_page};
use rustix::io::Errno;

use super::address::{canonical, destination};
use super::directory::Server;
use super::guests::Thing;
use super::limits::room;
use super::{Answer, Channel, Kind, Machine, ProcessId, Refusal, Side, State};

/// How long an acceptor waits for a client that said it would connect.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a client may still announce what was left to the kernel.
const MEMORY: Duration = Duration::from_secs(60);

/// How long a channel that its client has closed waits for an acceptor, with a listener and without.
const BACKLOG: Duration = Duration::from_secs(3600);
pub(super) const ORPHANED: Duration = Duration::from_secs(10);

/// An acceptor was told to wait.
#[derive(Debug)]
pub struct Waiting {
    since: Duration,
    /// Later intents are other connections'.
    newest: u64,
}

impl<H: Clone> State<H> {
    pub(super) fn listen(
        &mut self,
        id: ProcessId,
        address: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.listeners;
        let address = canonical(address);
        let process = self.process(id)?;
        if process.near && !process.listeners.contains(&address) {
            room(process.listeners.len(), limit, "listeners", "listeners")?;
            process.listeners.insert(address);
            self.listeners.add(address, id);
            self.listening
                .add(notice_page::listener_place(address.port()));
        }
        Ok(Answer::done())
    }

    pub(super) fn unlisten(
        &mut self,
        id: ProcessId,
        address: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let address = canonical(address);
        if self.process(id)?.listeners.remove(&address) {
            self.listens_no_more(id, address);
        }
        Ok(Answer::done())
    }

    pub(super) fn listens_no_more(&mut self, id: ProcessId, address: SocketAddr) {
        self.listeners.remove(address, id);
        self.listening
            .remove(notice_page::listener_place(address.port()));
    }

    /// Whether a connection that the kernel accepts now may be one that was announced, or is about to be.
    #[must_use]
    pub fn is_somebody_connecting(&self) -> bool {
        !self.intents.is_empty() || self.untaken > 0
    }

    pub(super) fn intend<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        to: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.intents;
        let to = destination(to);
        if !self.process(id)?.near || self.listeners.at(to).is_none() || !machine.is_local(to.ip())
        {
            return Ok(Answer::kernel());
        }
        let process = self.process(id)?;
        room(
            process.intents.len(),
            limit,
            "connections half open",
            "intents",
        )?;
        let intent = self.fresh_id();
        self.process(id)?.intents.insert(intent, to);
        self.intents.entry(to).or_default().insert(intent);
        Ok(Answer::new(Reply::Intent { intent }, []))
    }

    /// The channel's number is the intent's.
    pub(super) fn announce<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        id: ProcessId,
        intent: u64,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.channels;
        let (from, to) = (canonical(from), destination(to));
        // Whatever comes of it, no acceptor has to wait for this intent any more.
        if !self.end_intent(id, intent)? {
            return Err(Refusal::new(
                Errno::NOENT,
                format!(
                    "this process has no open intent {intent}; ask for one with Intend before each connect"
                ),
            ));
        }
        if self.left_to_kernel.remove(&(from, to)).is_some() {
            return Ok(Answer::kernel());
        }
        let process = self.process(id)?;
        room(process.channels.len(), limit, "channels", "channels")?;
        let client = Side::of(id, process);
        let memory = machine.channel(Kind::Stream)?;
        // A connection between these addresses from before is over, whether or not its ends have said so.
        if let Some(old) = self.streams.remove(Server::Here, &(from, to))
            && self.channels.get(&old).is_some_and(|old| !old.taken)
        {
            self.forget(old);
        }
        self.channels.insert(
            intent,
            Channel {
                kind: Kind::Stream,
                from,
                to,
                memory: memory.clone(),
                born: now,
                sides: [client, Side::default()],
                taken: false,
                far: None,
            },
        );
        self.untaken += 1;
        self.streams.insert(Server::Here, (from, to), intent);
        self.process(id)?.channels.insert(intent);
        Ok(Answer::new(Reply::Channel { channel: intent }, [memory]))
    }

    /// The connection does not come about, whether it was announced or not.
    pub(super) fn withdraw<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        intent: u64,
    ) -> Result<Answer<H>, Refusal> {
        if !self.end_intent(id, intent)? && self.process(id)?.channels.contains(&intent) {
            if self
                .channels
                .get(&intent)
                .is_some_and(|channel| !channel.taken)
            {
                self.forget(intent);
            } else {
                self.abandon_unasked(intent);
                self.let_go(machine, intent, id, None);
            }
        }
        Ok(Answer::done())
    }

    pub(super) fn resolve<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        id: ProcessId,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let (from, to) = (canonical(from), destination(to));
        if !self.process(id)?.near {
            return Ok(Answer::kernel());
        }
        if let Some(number) = self.streams.get(Server::Here, &(from, to))
            && !self.is_of_before(machine, id, number)
        {
            self.waiting.remove(&(from, to));
            return self.take(machine, id, number);
        }
        let newest = self.last_id;
        let waiting = self
            .waiting
            .entry((from, to))
            .or_insert(Waiting { since: now, newest });
        let (since, newest) = (waiting.since, waiting.newest);
        let oldest = self.intents.get(&to).and_then(BTreeSet::first);
        if oldest.is_some_and(|&oldest| oldest <= newest) {
            if now.saturating_sub(since) < PATIENCE {
                return Ok(Answer::new(Reply::Wait, []));
            }
            self.left_to_kernel.insert((from, to), now);
        }
        self.waiting.remove(&(from, to));
        Ok(Answer::kernel())
    }

    /// Gives an announced channel to its acceptor.
    fn take<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        number: u64,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.channels;
        let process = self.process(id)?;
        let server = Side::of(id, process);
        let full = room(process.channels.len(), limit, "channels", "channels");
        let Some(channel) = self.channels.get_mut(&number) else {
            return Ok(Answer::kernel());
        };
        // Asked again by the same process: the descriptor was lost on the way.
        let again = channel.sides[1].holders.contains(&id) || channel.sides[1].pid == server.pid;
        if channel.taken && !again {
            return Ok(Answer::kernel());
        }
        if let Err(refusal) = full {
            // The client already uses it, so this connection can't go on over the kernel.
            machine.revoke_channel(&channel.memory);
            if channel.far.is_some() {
                self.forget(number);
            }
            return Err(refusal);
        }
        if channel.taken {
            channel.sides[1].holders.insert(id);
        } else {
            channel.taken = true;
            self.guests.remove(Thing::Waiting, number);
            channel.sides[1] = server;
            self.untaken = self.untaken.saturating_sub(1);
        }
        let is_far = channel.far.is_some();
        let handles = self.channels.get(&number).map(|it| self.handles(it));
        self.process(id)?.channels.insert(number);
        if is_far {
            let reply = Reply::FarChannel { channel: number };
            return Ok(Answer::new(reply, handles.unwrap_or_default()));
        }
        let reply = Reply::Channel { channel: number };
        Ok(Answer::new(reply, handles.unwrap_or_default()))
    }

    pub(super) fn close<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        channel: u64,
        shared: Option<Duration>,
    ) -> Result<Answer<H>, Refusal> {
        if self.process(id)?.channels.contains(&channel) {
            self.let_go(machine, channel, id, shared);
        }
        Ok(Answer::done())
    }

    /// Says whether the intent was this process's and still open.
    pub(super) fn end_intent(&mut self, id: ProcessId, intent: u64) -> Result<bool, Refusal> {
        let Some(to) = self.process(id)?.intents.remove(&intent) else {
            return Ok(false);
        };
        self.drop_intent(intent, to);
        Ok(true)
    }

    pub(super) fn drop_intent(&mut self, intent: u64, to: SocketAddr) {
        self.guests.remove(Thing::Intent, intent);
        self.drop_far_intent(intent);
        if let Some(open) = self.intents.get_mut(&to) {
            open.remove(&intent);
            if open.is_empty() {
                self.intents.remove(&to);
            }
        }
    }

    /// Gives one more process an end of an open connection, which it has from another one.
    pub(super) fn adopt(
        &mut self,
        id: ProcessId,
        own: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.channels;
        if !self.process(id)?.near {
            return Ok(Answer::kernel());
        }
        let ends = [(own, peer), (peer, own)];
        let found = ends.iter().enumerate().find_map(|(half, &(from, to))| {
            let key = (canonical(from), destination(to));
            let clients = self.streams.get(Server::Elsewhere, &key);
            let clients = clients.filter(|_| half == 0);
            let number = clients.or_else(|| self.streams.get(Server::Here, &key))?;
            // Before it is taken there is no server's end to adopt.
            let there = self.channels.get(&number)?.taken || half == 0;
            there.then_some((number, half))
        });
        let Some((number, half)) = found else {
            return Ok(Answer::kernel());
        };
        let process = self.process(id)?;
        room(process.channels.len(), limit, "channels", "channels")?;
        let adopter = Side::of(id, process);
        process.channels.insert(number);
        let Some(channel) = self.channels.get_mut(&number) else {
            return Ok(Answer::kernel());
        };
        let side = &mut channel.sides[half];
        if side.holders.is_empty() {
            *side = adopter;
        } else {
            side.holders.insert(id);
        }
        side.lost = None;
        let handles = self.channels.get(&number).map(|it| self.handles(it));
        let half = u8::from(half == 1);
        Ok(Answer::new(
            Reply::Adopted {
                channel: number,
                half,
            },
            handles.unwrap_or_default(),
        ))
    }

    /// A process has no more use of one side of a channel, the first that it holds when both are its; or it is `lost`.
    pub(super) fn let_go<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        number: u64,
        id: ProcessId,
        lost: Option<Duration>,
    ) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let which = usize::from(!channel.sides[0].holders.contains(&id));
        let side = &mut channel.sides[which];
        // Children that nobody knows of may have a far channel's end: its tethers tell.
        if channel.far.as_ref().is_some_and(|far| far.half == which) {
            return;
        }
        if side.holders.remove(&id) && side.holders.is_empty() {
            side.lost = lost;
        }
        if !channel.sides[1].holders.contains(&id)
            && let Some(process) = self.processes.get_mut(&id)
        {
            process.channels.remove(&number);
        }
        let [near, far] = [0, 1].map(|side: usize| !channel.sides[side].holders.is_empty());
        match channel.kind {
            // Closed by its client, it still waits for the acceptor: there may be data in it.
            Kind::Stream if near || far || !channel.taken => {}
            Kind::Stream if channel.is_somebodys(machine, |_| Duration::ZERO) => {}
            Kind::Stream => self.forget(number),
            Kind::Datagram if near && far => {}
            Kind::Datagram => self.end_datagrams(machine, number),
        }
    }

    /// Drops a channel wherever it is known.
    pub(super) fn forget(&mut self, number: u64) {
        let Some(channel) = self.channels.remove(&number) else {
            return;
        };
        if channel.kind == Kind::Stream && !channel.taken {
            self.untaken = self.untaken.saturating_sub(1);
        }
        for id in channel.sides.iter().flat_map(|side| &side.holders) {
            if let Some(process) = self.processes.get_mut(id) {
                process.channels.remove(&number);
            }
        }
        let key = (channel.from, channel.to);
        let server = channel.server();
        match channel.kind {
            Kind::Stream if self.streams.get(server, &key) == Some(number) => {
                self.streams.remove(server, &key);
            }
            Kind::Stream => {}
            Kind::Datagram => self.find_no_more(server, key, number),
        }
        if let Some(far) = &channel.far {
            self.end_far(number, far);
        }
        self.retired.push(channel);
    }

    pub(super) fn tidy_streams<M: Machine<Handle = H>>(&mut self, machine: &mut M, now: Duration) {
        self.tidy_far(machine, now);
        let age = |since: Duration| now.saturating_sub(since);
        // Twice: an acceptor that asks in time gets its answer from `resolve`.
        self.waiting
            .retain(|_, waiting| age(waiting.since) < PATIENCE * 2);
        self.left_to_kernel
            .retain(|_, &mut since| age(since) < MEMORY);
        let late: Vec<u64> = self
            .channels
            .iter()
            .filter(|(_, channel)| channel.kind == Kind::Stream)
            .filter(|(_, channel)| channel.sides.iter().all(|side| side.holders.is_empty()))
            .filter(|(_, channel)| {
                if channel.taken {
                    return !channel.is_somebodys(machine, age);
                }
                let patience = match self.listeners.at(channel.to) {
                    Some(_) => BACKLOG,
                    None => ORPHANED,
                };
                age(channel.born) >= patience
            })
            .map(|(&number, _)| number)
            .collect();
        for number in late {
            self.forget(number);
        }
    }
}

impl<H: Clone> Channel<H> {
    /// Where its server or receiver is.
    pub(super) fn server(&self) -> Server {
        match &self.far {
            Some(far) if far.half == 0 => Server::Elsewhere,
            _ => Server::Here,
        }
    }

    /// Whether somebody has an end that none of its holders has any more, and may ask for it: a child, the program that a holder has
    /// become, or whoever gets a descriptor that is in a message. How old an answer may be is a question's `age`.
    fn is_somebodys<M: Machine<Handle = H>>(
        &self,
        machine: &mut M,
        age: impl Fn(Duration) -> Duration,
    ) -> bool {
        let ways = [(self.from, self.to), (self.to, self.from)];
        (self.sides.iter().zip(ways)).any(|(side, (own, peer))| {
            let lost = side.lost.filter(|_| side.holders.is_empty());
            lost.is_some_and(|lost| machine.is_open(own, peer, age(lost)))
        })
    }
}

impl Side {
    pub(super) fn of(id: ProcessId, process: &super::Process) -> Self {
        Self {
            holders: [id].into(),
            pid: process.pid,
            program: process.program.clone(),
            lost: None,
        }
    }
}
