// SPDX-License-Identifier: Apache-2.0
//! Streams to programs on other machines.
//!
//! The client's daemon asks the server's: whether somebody with the library listens at the address (an intent, there as
//! here), then, once the client's port is known, for the connection. Each of the two has memory of its own for the
//! channel, with a token by which the other one carries into it what its end writes. The far end of the channel is held
//! by the process that stands for all other machines.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use ipc::protocol::Reply;
use ipc::token::{Rights, Token};
use rustix::io::Errno;
use shm::channel::{flags, inbox_of};
use subtle::ConstantTimeEq;

use super::address::{canonical, destination};
use super::directory::Server;
use super::guests::Thing;
use super::limits::room;
use super::outside::{Granted, Sleeping};
use super::regions::{Place, refused};
use super::streams::ORPHANED;
use super::{Answer, Channel, Effect, Kind, Machine, ProcessId, Refusal, Side, State};

/// A channel whose copy here the other machine has not opened after so long is of no use to it: it has been asked for all
/// answers by then.
const UNOPENED: Duration = Duration::from_secs(60);

/// How long the exit of a process may take, between the end of its tether and that of its socket.
const EXITING: Duration = Duration::from_secs(1);

/// What a channel to another machine has besides.
#[derive(Debug)]
pub struct Far<H> {
    /// Written when something has arrived for the end on this machine.
    pub(super) bell: H,
    /// What the other machine shows to get at this one's copy.
    secret: [u8; 16],
    /// The end on this machine: 0 the client's, 1 the acceptor's.
    pub(super) half: usize,
    /// Size of this machine's copy.
    bytes: u64,
    peer: Ipv4Addr,
    /// The other machine's number of the channel, once it is known.
    theirs: Option<u64>,
    /// The other machine's use of this one's copy.
    grant: Option<u64>,
}

impl<H> Far<H> {
    /// Whether the other machine has answered.
    pub(super) fn is_open(&self) -> bool {
        self.theirs.is_some()
    }
}

/// A client here that is about to connect to another machine.
#[derive(Clone, Copy, Debug)]
pub struct FarIntent {
    peer: Ipv4Addr,
    /// The other machine's number, once it has answered.
    theirs: Option<u64>,
}

/// What another machine is told about a connection of one of its listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Whom to tell.
    pub peer: Ipv4Addr,
    /// Its number of the intent; none for datagrams.
    pub intent: Option<u64>,
    /// Canonical address of the client or sender.
    pub from: SocketAddr,
    /// Canonical address of the server or receiver.
    pub to: SocketAddr,
    /// For this machine's copy.
    pub token: Token,
}

impl<H: Clone> State<H> {
    /// The machine whose daemon has to be asked about a listener, or a receiver of datagrams.
    pub fn whose(&self, id: ProcessId, kind: Kind, to: SocketAddr) -> Option<Ipv4Addr> {
        let to = destination(to);
        let IpAddr::V4(ip) = to.ip() else {
            return None;
        };
        let process = self.processes.get(&id)?;
        let own = self.settings.management?;
        if !process.greeted || !process.near {
            return None;
        }
        let among = self.settings.sockets.iter().any(|network| network.has(ip));
        let served = match kind {
            Kind::Stream => self.listeners.at(to),
            Kind::Datagram => self.receivers.at(to),
        };
        let here = served.is_some() || ip == *own.ip();
        if here && self.settings.loopback {
            return Some(*own.ip());
        }
        (among && !here).then_some(ip)
    }

    /// A process is about to connect to another machine: the number of the question.
    ///
    /// # Errors
    /// If it may have no more intents.
    pub fn intend_far(
        &mut self,
        id: ProcessId,
        to: SocketAddr,
        peer: Ipv4Addr,
    ) -> Result<u64, Refusal> {
        let limit = self.settings.limits.intents;
        let process = self.process(id)?;
        room(
            process.intents.len(),
            limit,
            "connections half open",
            "intents",
        )?;
        let question = self.fresh_id();
        self.process(id)?.intents.insert(question, destination(to));
        let theirs = None;
        self.far_intents
            .insert(question, FarIntent { peer, theirs });
        Ok(question)
    }

    /// The other machine has answered; the process's answer. If that has gone meanwhile, the other machine is told so: it lets
    /// this one have so many intents and no more.
    pub fn intended(&mut self, id: ProcessId, question: u64, theirs: Option<u64>) -> Answer<H> {
        let Some(far) = self.far_intents.get_mut(&question) else {
            return Answer::kernel();
        };
        let mut asker = self.processes.get_mut(&id);
        let wanted = asker
            .as_mut()
            .is_some_and(|process| process.intents.contains_key(&question));
        if let (Some(intent), false) = (theirs, wanted) {
            let peer = far.peer;
            self.effects
                .push(Effect::UnintendElsewhere { peer, intent });
        } else if theirs.is_some() {
            far.theirs = theirs;
            return Answer::new(Reply::Intent { intent: question }, []);
        }
        self.far_intents.remove(&question);
        if let Some(process) = asker {
            process.intents.remove(&question);
        }
        Answer::kernel()
    }

    /// Whether an intent is one to another machine.
    pub fn is_far_intent(&self, intent: u64) -> bool {
        self.far_intents.contains_key(&intent)
    }

    /// An intent to another machine ends without a connection. One that was not answered stays until it is.
    pub(super) fn drop_far_intent(&mut self, number: u64) {
        let far = self.far_intents.get(&number).copied();
        if let Some(FarIntent {
            peer,
            theirs: Some(intent),
        }) = far
        {
            self.far_intents.remove(&number);
            self.effects
                .push(Effect::UnintendElsewhere { peer, intent });
        }
    }

    /// A client here has connected to another machine: what to tell that one.
    ///
    /// # Errors
    /// If it has no such intent, or there is no room.
    pub fn announce_far<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        id: ProcessId,
        others: ProcessId,
        intent: u64,
        (from, to): (SocketAddr, SocketAddr),
    ) -> Result<Announced, Refusal> {
        let limit = self.settings.limits.channels;
        let (from, to) = (canonical(from), destination(to));
        let process = self.process(id)?;
        let own = process.intents.contains_key(&intent);
        let full = room(process.channels.len(), limit, "channels", "channels");
        let client = Side::of(id, process);
        let Some(&FarIntent {
            peer,
            theirs: Some(theirs),
        }) = self.far_intents.get(&intent).filter(|_| own)
        else {
            return Err(Refusal::new(
                Errno::NOENT,
                format!(
                    "this process has no open intent {intent}; ask for one with Intend before each connect"
                ),
            ));
        };
        full?;
        let memory = machine.far_channel()?;
        let far = far(machine, &memory, 0, peer, None)?;
        self.process(id)?.intents.remove(&intent);
        self.far_intents.remove(&intent);
        let token = self.far_token(intent, &far);
        let server = Side {
            holders: [others].into(),
            program: format!("at {peer}"),
            ..Side::default()
        };
        self.channels.insert(
            intent,
            Channel {
                kind: Kind::Stream,
                from,
                to,
                memory,
                born: now,
                sides: [client, server],
                taken: true,
                far: Some(far),
            },
        );
        self.streams.insert(Server::Elsewhere, (from, to), intent);
        self.process(id)?.channels.insert(intent);
        Ok(Announced {
            peer,
            intent: Some(theirs),
            from,
            to,
            token,
        })
    }

    /// The other machine has answered; the client's answer.
    pub fn announced(&mut self, channel: u64, token: Option<Token>) -> Answer<H> {
        let Some(known) = self.channels.get_mut(&channel) else {
            return Answer::kernel();
        };
        let (Some(far), Some(token)) = (&mut known.far, token) else {
            // Nothing was said about it there, so nothing ends there.
            self.forget(channel);
            return Answer::kernel();
        };
        far.theirs = Some(token.region);
        let (memory, bell, half) = (known.memory.clone(), far.bell.clone(), far.half);
        // With its process gone before it was answered, nobody was ever tied to the end.
        let side = &mut known.sides[half];
        let gone = !(side.holders.iter()).any(|holder| self.processes.contains_key(holder));
        if gone {
            side.holders.clear();
            side.lost = None;
        }
        self.effects.push(Effect::Carry {
            channel,
            token,
            memory: memory.clone(),
            half,
        });
        if gone {
            self.effects.push(Effect::Desert { channel });
        }
        Answer::new(Reply::FarChannel { channel }, [memory, bell])
    }

    /// A process of another machine is about to connect to an address here: the intent, if somebody listens there, and
    /// that machine may announce connections.
    pub fn intend_here<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        others: ProcessId,
        peer: Ipv4Addr,
        to: SocketAddr,
    ) -> Option<u64> {
        let limit = self.settings.limits.intents;
        let to = destination(to);
        if let Err(why) = self.may_intend(machine, peer, to) {
            self.refuse_peer(why);
            return None;
        }
        self.listeners.at(to)?;
        if let Err(why) = self.may_have(Thing::Intent, peer) {
            self.refuse_peer(why);
            return None;
        }
        let process = self.process(others).ok()?;
        if process.intents.len() >= limit || !machine.is_local(to.ip()) {
            return None;
        }
        let intent = self.fresh_id();
        self.process(others).ok()?.intents.insert(intent, to);
        self.guests.add(Thing::Intent, intent, peer);
        self.intents.entry(to).or_default().insert(intent);
        Some(intent)
    }

    /// Whether the daemon at `peer` may announce connections to an address here. The sentence says why not.
    fn may_intend<M: Machine>(
        &self,
        machine: &mut M,
        peer: Ipv4Addr,
        to: SocketAddr,
    ) -> Result<(), String> {
        let own = self.settings.management.map(|own| *own.ip());
        if self.settings.loopback && own == Some(peer) {
            return Ok(());
        }
        if !self.settings.sockets.iter().any(|it| it.has(peer)) {
            return Err(format!(
                "{peer} has announced a connection to {to} and was refused: it is in none of the networks in `sockets`; \
                 if its daemon is to be trusted, start this one with --sockets {peer}"
            ));
        }
        // Any process of this machine could say so, of connections of all others.
        let known = self.settings.peers.iter().any(|it| it.daemon.has(peer));
        if !known && machine.is_local(IpAddr::V4(peer)) {
            return Err(format!(
                "{peer} has announced a connection to {to} and was refused: it is an address of this machine; \
                 if a second daemon runs there, name it in a [[remote.peer]] of the configuration"
            ));
        }
        if own.map(IpAddr::V4) != Some(to.ip()) {
            return Err(format!(
                "{peer} has announced a connection to {to} and was refused: other machines connect to the address of \
                 --management only"
            ));
        }
        Ok(())
    }

    /// Whether what the daemon at `said.peer` announces is about a connection of a program of its machine, to a listener
    /// that it has asked about, or about datagrams. The sentence says why not.
    pub(super) fn may_announce<M: Machine>(
        &self,
        machine: &mut M,
        said: &Announced,
        intended: Option<SocketAddr>,
    ) -> Result<(), String> {
        let peer = said.peer;
        let (from, to) = (canonical(said.from), destination(said.to));
        let refused = |why: &str| {
            Err(format!(
                "{peer} has announced a connection from {from} to {to} and was refused: {why}"
            ))
        };
        self.may_intend(machine, peer, to)?;
        if intended.is_some_and(|asked| to != asked || self.listeners.at(to).is_none()) {
            return refused("it has asked about another listener, or that one is gone");
        }
        let own = self.settings.management;
        if self.settings.loopback && own.map(|own| *own.ip()) == Some(peer) {
            // The other machine is this one: then the connection is one of its own.
            return match self.is_own_announcement(said) {
                true => Ok(()),
                false => refused("this daemon has announced no such connection"),
            };
        }
        let IpAddr::V4(source) = from.ip() else {
            return refused("connections between machines are of IPv4");
        };
        let known =
            self.settings.peers.iter().any(|it| {
                it.daemon.has(peer) && it.sources.iter().any(|network| network.has(source))
            });
        if !known && (source != peer || machine.is_local(from.ip())) {
            return refused(
                "that source is no address of that machine's daemon; if it is one of its machine, list it in the \
                 `sources` of a [[remote.peer]] of the configuration",
            );
        }
        let port = own.map_or(0, |own| own.port());
        if said.token.management != SocketAddrV4::new(peer, port) {
            return refused("its token is of another machine");
        }
        Ok(())
    }

    /// Whether an announcement is one that this daemon has made itself.
    fn is_own_announcement(&self, said: &Announced) -> bool {
        let channel = self.channels.get(&said.token.region);
        channel.is_some_and(|channel| {
            let ends = (canonical(said.from), destination(said.to));
            let secret = channel.far.as_ref().filter(|far| far.half == 0);
            let secret = secret.map(|far| far.secret.ct_eq(&said.token.secret));
            secret.is_some_and(bool::from)
                && (channel.from, channel.to) == ends
                && Some(said.token.management) == self.settings.management
        })
    }

    /// Whether another machine may have one more. The sentence says why not.
    pub(super) fn may_have(&self, thing: Thing, peer: Ipv4Addr) -> Result<(), String> {
        let most = &self.settings.guests;
        let (most, what, key) = match thing {
            Thing::Intent => (most.intents, "connections half open", "intents"),
            Thing::Channel => (most.channels, "channels", "channels"),
            Thing::Waiting => (most.waiting, "channels that nobody has accepted", "waiting"),
            Thing::Window => (most.windows, "windows", "windows"),
        };
        match self.guests.count(thing, peer) < most {
            true => Ok(()),
            false => Err(format!(
                "{peer} has {most} {what} here and was refused another; `{key}` in the configuration's \
                 [remote.guests] allows more"
            )),
        }
    }

    /// Other daemons were refused so often, and it is logged.
    pub fn count_refused(&mut self, count: u64) {
        self.gone.refused += count;
    }

    /// Counts what another machine's daemon must not say, and has it logged.
    pub(super) fn refuse_peer(&mut self, why: String) {
        self.gone.refused += 1;
        self.effects.push(Effect::Refused { why });
    }

    /// It does not connect.
    pub fn unintend_here(&mut self, others: ProcessId, intent: u64) {
        // Its connection may have been announced in the meantime.
        let _ = self.end_intent(others, intent);
    }

    /// A process of another machine has connected: a token for this one's copy of the channel.
    ///
    /// # Errors
    /// If the acceptor has been told that it is the kernel's, or there is no room.
    pub fn announce_here<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        others: ProcessId,
        said: Announced,
        theirs: u64,
    ) -> Result<Option<Token>, Refusal> {
        let (from, to) = (canonical(said.from), destination(said.to));
        let Some(intent) = said.intent else {
            return self.datagrams_here(machine, now, others, &said, theirs);
        };
        let Some(&intended) = self.process(others)?.intents.get(&intent) else {
            return Ok(None);
        };
        // Whatever comes of it, no acceptor has to wait for this intent any more.
        self.end_intent(others, intent)?;
        if let Err(why) = self.may_announce(machine, &said, Some(intended)) {
            self.refuse_peer(why);
            return Ok(None);
        }
        if self.left_to_kernel.remove(&(from, to)).is_some() {
            return Ok(None);
        }
        for thing in [Thing::Channel, Thing::Waiting] {
            if let Err(why) = self.may_have(thing, said.peer) {
                self.refuse_peer(why);
                return Ok(None);
            }
        }
        let memory = machine.far_channel()?;
        let far = far(machine, &memory, 1, said.peer, Some(theirs))?;
        if let Some(old) = self.streams.remove(Server::Here, &(from, to))
            && self.channels.get(&old).is_some_and(|old| !old.taken)
        {
            self.forget(old);
        }
        let channel = self.fresh_id();
        let token = self.far_token(channel, &far);
        let client = Side {
            holders: [others].into(),
            program: format!("at {}", said.peer),
            ..Side::default()
        };
        self.effects.push(Effect::Carry {
            channel,
            token: said.token,
            memory: memory.clone(),
            half: 1,
        });
        self.channels.insert(
            channel,
            Channel {
                kind: Kind::Stream,
                from,
                to,
                memory,
                born: now,
                sides: [client, Side::default()],
                taken: false,
                far: Some(far),
            },
        );
        self.untaken += 1;
        self.streams.insert(Server::Here, (from, to), channel);
        for thing in [Thing::Channel, Thing::Waiting] {
            self.guests.add(thing, channel, said.peer);
        }
        Ok(Some(token))
    }

    /// A token for what the other machine, and nobody else, has to write in this one's copy of a channel.
    pub(super) fn far_token(&self, channel: u64, far: &Far<H>) -> Token {
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        // What is no channel's size is no channel: nobody gets a window on it.
        let inbox = usize::try_from(far.bytes).ok();
        let inbox = inbox.and_then(|bytes| inbox_of(far.half, bytes));
        let inbox = inbox.unwrap_or(0..0);
        Token {
            rights: Rights::Write,
            management: self.settings.management.unwrap_or(nowhere),
            region: channel,
            first: inbox.start as u64,
            bytes: inbox.len() as u64,
            secret: far.secret,
        }
    }

    /// Another machine shows a channel's token.
    pub(super) fn grant_channel(
        &mut self,
        outside: ProcessId,
        peer: Ipv4Addr,
        token: &Token,
    ) -> Result<Granted<H>, Refusal> {
        let unknown = || refused(token, "there is no such channel any more");
        let channel = self.channels.get(&token.region).ok_or_else(unknown)?;
        let far = channel.far.as_ref().ok_or_else(unknown)?;
        let given = self.far_token(token.region, far);
        let right = bool::from(given.secret.ct_eq(&token.secret)) && far.peer == peer;
        let same =
            (token.rights, token.first, token.bytes) == (given.rights, given.first, given.bytes);
        if !right || !same || far.grant.is_some() {
            return Err(unknown());
        }
        let (memory, event, half) = (channel.memory.clone(), far.bell.clone(), far.half);
        let region_bytes = far.bytes;
        let place = Place::Channel {
            channel: token.region,
        };
        let grant = self.add_window(outside, place);
        if let Some(far) = self.far_mut(token.region) {
            far.grant = Some(grant);
        }
        Ok(Granted {
            grant,
            memory,
            event,
            sleeper: Sleeping::End(half),
            region_bytes,
            token: given,
        })
    }

    fn far_mut(&mut self, channel: u64) -> Option<&mut Far<H>> {
        self.channels.get_mut(&channel)?.far.as_mut()
    }

    /// Whether a channel goes to another machine.
    pub fn is_far(&self, channel: u64) -> bool {
        let channel = self.channels.get(&channel);
        channel.is_some_and(|channel| channel.far.is_some())
    }

    /// The other machine has said all that its end of a channel had to say, or is `lost`.
    pub(super) fn far_end_closed<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        others: ProcessId,
        channel: u64,
        lost: bool,
    ) {
        if let Some(far) = self.far_mut(channel) {
            far.grant = None;
        }
        if lost {
            self.lose(machine, others, channel);
        } else {
            self.let_go(machine, channel, others, None);
        }
    }

    /// A channel's other machine cannot be reached any more: the end here finds the connection reset.
    pub fn lose<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        others: ProcessId,
        number: u64,
    ) {
        let Some(channel) = self.channels.get(&number) else {
            return;
        };
        let Some(far) = &channel.far else {
            return;
        };
        machine.revoke_channel(&channel.memory);
        machine.ring(&far.bell);
        self.let_go(machine, number, others, None);
    }

    /// An end on this machine that cannot be given out: the connection is over, on the other machine as well.
    pub fn break_off<M: Machine<Handle = H>>(&mut self, machine: &mut M, number: u64) {
        if let Some(channel) = self.channels.get(&number) {
            machine.revoke_channel(&channel.memory);
        }
        self.ring_far(machine, number);
        self.forget(number);
    }

    /// Rings for the end on this machine.
    pub(super) fn ring_far<M: Machine<Handle = H>>(&self, machine: &mut M, number: u64) {
        if let Some(far) = self.channels.get(&number).and_then(|it| it.far.as_ref()) {
            machine.ring(&far.bell);
        }
    }

    /// No process has the end here any more, whoever has asked for it.
    pub fn untethered<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        number: u64,
    ) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        let Some(half) = channel.far.as_ref().map(|far| far.half) else {
            return;
        };
        let counted = machine.counters(&channel.memory).unwrap_or_default();
        let closed = counted[half].flags & shm::channel::flags::CLOSED != 0;
        let closed = closed || channel.kind == Kind::Datagram;
        let ends = [channel.from, channel.to];
        // A program may be about to replace the one that has gone, and a message may carry the descriptor.
        let closed = closed || !machine.is_open(ends[half], ends[half ^ 1], Duration::ZERO);
        let side = &mut channel.sides[half];
        let holders = std::mem::take(&mut side.holders);
        side.lost = (!closed).then_some(now);
        if !closed {
            self.last_lost = Some(now);
        }
        for id in holders {
            if let Some(process) = self.processes.get_mut(&id) {
                process.channels.remove(&number);
            }
        }
        if closed {
            if let Some(channel) = self.channels.get(&number)
                && channel.kind == Kind::Datagram
            {
                let (server, ends) = (channel.server(), (channel.from, channel.to));
                self.find_no_more(server, ends, number);
                if half == 1 && counted[half].flags & shm::channel::flags::ATTACHED == 0 {
                    self.leave_to_the_kernel(ends.1, now);
                }
            }
            self.desert(number);
        }
    }

    /// Whether an end was left a moment ago by a process that may be about to exit: then it is soon known whether anybody has it.
    pub fn has_just_lost(&self, now: Duration) -> bool {
        self.last_lost
            .is_some_and(|lost| now.saturating_sub(lost) < EXITING)
    }

    /// Nobody will have the end here again.
    fn desert(&mut self, channel: u64) {
        self.effects.push(Effect::Desert { channel });
        self.end_if_over(channel);
    }

    /// Whether a channel is that of an earlier connection between the same addresses: daemons take their time to forget one
    /// whose processes were killed, and the new connection may not have been announced yet. A connection is accepted once, so
    /// its acceptor asks again only before it has come to the channel, when the answer was lost on the way.
    pub(super) fn is_of_before<M: Machine<Handle = H>>(
        &self,
        machine: &M,
        id: ProcessId,
        number: u64,
    ) -> bool {
        let Some(channel) = self.channels.get(&number) else {
            return true;
        };
        if !channel.taken {
            return false;
        }
        let pid = self.processes.get(&id).map(|process| process.pid);
        let same = channel.sides[1].holders.contains(&id) || Some(channel.sides[1].pid) == pid;
        let counted = machine.counters(&channel.memory).unwrap_or_default();
        let come = flags::ATTACHED | flags::ABANDONED | flags::CLOSED;
        !same || counted[1].flags & come != 0
    }

    /// Forgets a channel of which neither end is anybody's.
    fn end_if_over(&mut self, number: u64) {
        let over = self.channels.get(&number).is_some_and(|channel| {
            channel.taken
                && channel.sides.iter().all(|side| side.holders.is_empty())
                && channel.sides.iter().all(|side| side.lost.is_none())
        });
        if over {
            self.forget(number);
        }
    }

    /// A channel is forgotten: nothing more is carried, and the other machine may not write any more.
    pub(super) fn end_far(&mut self, number: u64, far: &Far<H>) {
        self.effects.push(Effect::Desert { channel: number });
        self.effects.push(Effect::Forgotten { channel: number });
        self.guests.remove(Thing::Channel, number);
        self.guests.remove(Thing::Waiting, number);
        if let Some(grant) = far.grant {
            self.windows.remove(&grant);
            self.effects.push(Effect::Withdraw { grant });
        }
    }

    /// Ends that nobody has any more: no program has replaced the one that had them.
    pub fn tidy_far<M: Machine<Handle = H>>(&mut self, machine: &mut M, now: Duration) {
        let mut late = Vec::new();
        for (&number, channel) in &mut self.channels {
            let Some(half) = channel.far.as_ref().map(|far| far.half) else {
                continue;
            };
            let ends = [channel.from, channel.to];
            let side = &mut channel.sides[half];
            if side.holders.is_empty()
                && let Some(lost) = side.lost
                && !machine.is_open(ends[half], ends[half ^ 1], now.saturating_sub(lost))
            {
                side.lost = None;
                late.push(number);
            }
        }
        for number in late {
            self.desert(number);
        }
        // What nobody here has any more waits for the other machine's last words only if that has come for its copy.
        let deserted = |channel: &Channel<H>| {
            let far = channel.far.as_ref().filter(|far| far.grant.is_none());
            let side = far.map(|far| &channel.sides[far.half]);
            let left = |side: &Side| side.holders.is_empty() && side.lost.is_none();
            channel.taken && side.is_some_and(|it| left(it) || channel.kind == Kind::Datagram)
        };
        let mut nobodys: Vec<u64> = (self.channels.iter())
            .filter(|(_, it)| deserted(it) && now.saturating_sub(it.born) >= UNOPENED)
            .map(|(&number, _)| number)
            .collect();
        // What another machine has announced and then left waits for an acceptor only if the kernel has a connection, too.
        for (&number, channel) in &self.channels {
            let announced = channel.far.as_ref().is_some_and(|far| far.half == 1);
            let left = channel.sides.iter().all(|side| side.holders.is_empty());
            if announced
                && left
                && !channel.taken
                && now.saturating_sub(channel.born) >= ORPHANED
                && !machine.is_connected(channel.to, channel.from)
            {
                nobodys.push(number);
            }
        }
        for number in nobodys {
            self.forget(number);
        }
    }

    /// A client waits no longer for its acceptor on another machine: whom to ask, and for which channel.
    ///
    /// # Errors
    /// If it is not one of the process's.
    pub fn abandon(&mut self, id: ProcessId, channel: u64) -> Result<(Ipv4Addr, u64), Refusal> {
        let own = self.process(id)?.channels.contains(&channel);
        let far = self.far_mut(channel).filter(|far| own && far.half == 0);
        far.and_then(|far| Some((far.peer, far.theirs?)))
            .ok_or_else(|| {
                Refusal::new(
                    Errno::NOENT,
                    format!("channel {channel} is none of this process's to another machine"),
                )
            })
    }

    /// A client's connection has not come about, or is the kernel's: if nobody has accepted it there, nobody shall.
    pub(super) fn abandon_unasked(&mut self, channel: u64) {
        if let Some(far) = self.far_mut(channel)
            && let (0, peer, Some(theirs)) = (far.half, far.peer, far.theirs)
        {
            self.effects.push(Effect::AbandonElsewhere {
                peer,
                channel,
                theirs,
            });
        }
    }

    /// The other machine has given up a connection of a client here: it is the kernel's, whoever has it or gets it.
    pub fn left_to_the_kernel(&mut self, channel: u64) {
        if self.is_far(channel) {
            self.forget(channel);
        }
    }

    /// The client of another machine does not wait any longer. `false`: its acceptor has come.
    pub fn abandoned_here(&mut self, peer: Ipv4Addr, channel: u64) -> bool {
        match self.channels.get(&channel) {
            None => true,
            Some(known) if known.far.as_ref().is_none_or(|far| far.peer != peer) => true,
            Some(known) if known.taken => false,
            Some(_) => {
                self.forget(channel);
                true
            }
        }
    }

    /// What a process gets that has an end of the channel.
    pub(super) fn handles(&self, channel: &Channel<H>) -> Vec<H> {
        let mut handles = vec![channel.memory.clone()];
        handles.extend(channel.far.as_ref().map(|far| far.bell.clone()));
        handles
    }
}

pub(super) fn far<M: Machine>(
    machine: &mut M,
    memory: &M::Handle,
    half: usize,
    peer: Ipv4Addr,
    theirs: Option<u64>,
) -> Result<Far<M::Handle>, Refusal> {
    Ok(Far {
        bytes: machine.channel_bytes(memory),
        bell: machine.bell(memory)?,
        secret: machine.secret()?,
        half,
        peer,
        theirs,
        grant: None,
    })
}
