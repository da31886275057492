// SPDX-License-Identifier: Apache-2.0
//! The Unix socket: one thread, which never waits for a client.

mod client;
mod elsewhere;
mod moving;

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipc::protocol::{self, Notice, Reply, Request, notice_page};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags};
use rustix::process::PidfdFlags;

use crate::machine::{Handle, Real, random};
use crate::outside::{self, Events, Half, Opened, Outside};
use crate::place::Place;
use crate::refusals::Refusals;
use crate::state::{Answer, Effect, Kind, Machine, ProcessId, Refusal, Settings, State};
use crate::{Error, Options, Stopper};

use client::{Awaited, Client, Gone};
use moving::Ask;

/// What an event is about: the lowest two bits say which descriptor of a client.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const OUTSIDE: u64 = 2;
const FOLLOWED: u64 = 3;
const REQUESTS: u64 = 0;
const NOTICES: u64 = 1;
const LIFE: u64 = 2;

/// Requests of one client before the others get their turn.
const TURN: usize = 16;

/// Events from other machines before clients get their turn.
const HEARD: usize = 64;

/// How often it looks for what has waited too long.
const TICK: Duration = Duration::from_secs(1);
/// How long it waits where somebody is about to be gone.
const SOON: Duration = Duration::from_millis(10);

/// A daemon that serves its socket.
#[derive(Debug)]
pub struct Server {
    place: Place,
    epoll: OwnedFd,
    stopper: Stopper,
    state: State<Handle>,
    machine: Real,
    clients: HashMap<ProcessId, Client>,
    /// What speaks with other machines, if anything does.
    outside: Option<Box<dyn Outside>>,
    events: Events,
    /// Stands for the other machines among the processes.
    others: ProcessId,
    /// The process whose end is this daemon's, unless others are connected then.
    _followed: Option<OwnedFd>,
    /// That process has ended.
    leaves: bool,
    /// Ticks without clients since then.
    idle: u32,
    /// Given up to accept and refuse a client when descriptors run out.
    spare: Option<OwnedFd>,
    magic: [u8; 16],
    generation: u64,
    /// What acceptors are told of clients that are about to connect.
    connecting: u64,
    started: Instant,
    options: Options,
    refusals: Refusals,
    /// Other machines' questions about regions on the move.
    postponed: Vec<Ask>,
    buffer: Vec<u8>,
}

fn system(what: &'static str) -> impl Fn(Errno) -> Error {
    move |source| Error::System { what, source }
}

fn spare() -> Option<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Watches for a process's end; nothing if it has ended already.
fn follow(epoll: &OwnedFd, pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)?;
    let followed = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // It stays readable, so it is told once.
    let flags = EventFlags::IN | EventFlags::ONESHOT;
    epoll::add(epoll, &followed, EventData::new_u64(FOLLOWED), flags).ok()?;
    Some(followed)
}

impl Server {
    /// Takes the socket; clients can connect from now on.
    ///
    /// # Errors
    /// If the socket can't be had, as when another daemon has it.
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check().map_err(|problem| Error::Config {
            place: "options".to_owned(),
            problem,
        })?;
        let place = Place::take(&options.socket, options.own_directory)?;
        let stopper = Stopper::new()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll"))?;
        let (inbox, events) = outside::events()?;
        for (fd, data) in [
            (place.listener.as_fd(), LISTENER),
            (stopper.event.as_fd(), STOP),
            (events.wake.as_fd(), OUTSIDE),
        ] {
            epoll::add(&epoll, fd, EventData::new_u64(data), EventFlags::IN)
                .map_err(system("watch its socket"))?;
        }
        let followed = options.follow.map(|pid| follow(&epoll, pid));
        let mut state = State::new(Settings {
            limits: options.limits.clone(),
            netns: ipc::client::network_namespace(),
            management: options.management,
            sockets: options.remote.sockets.clone(),
            peers: options.remote.peer.clone(),
            guests: options.remote.guests,
            loopback: options.remote.loopback,
        });
        // The first number; clients have higher ones, which makes their keys differ from LISTENER, STOP and OUTSIDE.
        let others = state.outside();
        let magic: [u8; 16] = random().map_err(Error::Resource)?;
        let refusals = Refusals::default();
        let outside = match options.management {
            Some(management) => {
                let (remote, said) = (&options.remote, refusals.clone());
                Some(crate::remote::start(remote, management, inbox, said)?)
            }
            None => None,
        };
        Ok(Self {
            place,
            epoll,
            stopper,
            state,
            machine: Real {
                stream_lines: options.ring_lines,
                datagram_lines: options.datagram_lines,
                far_lines: options.remote.ring_lines,
                far_memory: None,
                twins: Default::default(),
                living: None,
                living_key: notice_page::living_key(magic),
            },
            clients: HashMap::new(),
            outside,
            events,
            others,
            idle: 0,
            leaves: matches!(followed, Some(None)),
            _followed: followed.flatten(),
            spare: spare(),
            magic,
            generation: 1,
            connecting: notice_page::ASK,
            started: Instant::now(),
            options,
            refusals,
            postponed: Vec::new(),
            buffer: vec![0; protocol::MAX_PACKET],
        })
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.place.path()
    }

    /// Ends it from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// If the system fails it; what a client does never ends it.
    pub fn run(&mut self) -> Result<(), Error> {
        let mut events: Vec<Event> = Vec::with_capacity(64);
        let mut ticked = self.started;
        loop {
            events.clear();
            let soon = self.state.has_just_lost(self.started.elapsed());
            let patience = if soon { SOON } else { TICK };
            let patience = rustix::event::Timespec {
                tv_sec: patience.as_secs().cast_signed(),
                tv_nsec: patience.subsec_nanos().into(),
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(system("wait for clients")(errno)),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return Ok(()),
                    LISTENER => self.accept(),
                    OUTSIDE => self.hear(),
                    FOLLOWED => self.leaves = true,
                    data => self.event(data >> 2, data & 3, event.flags),
                }
            }
            if soon {
                let now = self.started.elapsed();
                self.state.tidy_far(&mut self.machine, now);
                self.carry_out();
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.state.tick(&mut self.machine, self.started.elapsed());
                self.retry_notices();
                self.lose_patience();
                self.idle = match self.leaves && self.clients.is_empty() {
                    true => self.idle + 1,
                    false => 0,
                };
                // Twice: a child that its parent has left may be about to connect.
                if self.idle > 1 {
                    return Ok(());
                }
                self.carry_out();
            }
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // It may have been lost to others while it was given up.
        self.spare = self.spare.take().or_else(spare);
        loop {
            match rustix::net::accept_with(&self.place.listener, flags) {
                Ok(socket) => self.welcome(socket),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Nothing can be done for this client, but it must not wait in vain, nor wake us for ever. The system
                // says the same when there is no client.
                Err(Errno::MFILE | Errno::NFILE) if self.spare.take().is_some() => {
                    let refused = rustix::net::accept_with(&self.place.listener, flags).map(drop);
                    self.spare = spare();
                    if refused.is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd) {
        if self.clients.len() >= self.options.limits.processes {
            self.trace(0, "refused: there are too many processes");
            return;
        }
        let Ok(peer) = ipc::credentials::of_peer(&socket) else {
            return;
        };
        let pid = rustix::process::Pid::as_raw(peer.pid).unsigned_abs();
        let allowed = [rustix::process::geteuid(), rustix::process::Uid::ROOT];
        let refusal = if !allowed.contains(&peer.uid) {
            Some(Refusal::new(
                Errno::ACCESS,
                format!(
                    "the daemon at {} serves user {} only; start one of your own with `ipnuma daemon`",
                    self.place.path().display(),
                    rustix::process::geteuid().as_raw()
                ),
            ))
        } else if peer.pid.is_none() {
            // Nobody would tell of its end.
            Some(Refusal::new(
                Errno::SRCH,
                format!(
                    "the daemon at {} is in a PID namespace that this process is not in; start it outside of the container",
                    self.place.path().display()
                ),
            ))
        } else {
            None
        };
        // A child that has inherited the socket must not keep a dead process alive.
        let life = peer
            .pid
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let id = self.state.arrive(pid);
        let mut client = Client::new(socket, life, pid, refusal);
        if client.watch(&self.epoll, id).is_err() {
            let now = self.started.elapsed();
            self.state.leave(&mut self.machine, now, id);
            return;
        }
        self.clients.insert(id, client);
    }

    fn event(&mut self, id: ProcessId, which: u64, flags: EventFlags) {
        let over = EventFlags::HUP | EventFlags::ERR;
        let result = match which {
            REQUESTS => self.serve(id),
            NOTICES if flags.intersects(over) => Err(Gone),
            NOTICES => match self.clients.get_mut(&id) {
                Some(client) => client.flush(&self.epoll, id),
                None => Ok(()),
            },
            // LIFE: the process has exited; what it asked for before is done first.
            _ => self.serve(id).and(Err(Gone)),
        };
        if result.is_err() {
            self.farewell(id);
        }
        self.carry_out();
    }

    fn farewell(&mut self, id: ProcessId) {
        if let Some(client) = self.clients.remove(&id) {
            self.trace(client.pid, "gone");
            let now = self.started.elapsed();
            self.state.leave(&mut self.machine, now, id);
        }
    }

    /// Answers what a client has asked.
    fn serve(&mut self, id: ProcessId) -> Result<(), Gone> {
        for _ in 0..TURN {
            let Some(client) = self.clients.get_mut(&id) else {
                return Ok(());
            };
            let length =
                match ipc::packet::receive(&client.socket, &mut self.buffer, RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Err(Gone),
                    Ok((length, _)) => length,
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(_) => return Err(Gone),
                };
            let Ok(request) = protocol::decode::<Request>(&self.buffer[..length]) else {
                let refusal = Refusal::new(
                    Errno::PROTO,
                    "the daemon does not understand the request; install library and daemon from one release",
                );
                return client.refuse(refusal).and(Err(Gone));
            };
            if let Some(refusal) = client.refusal.take() {
                return client.refuse(refusal).and(Err(Gone));
            }
            // One request at a time; a client that does not wait for its answer is none of ours.
            if client.awaits.is_some() {
                return Err(Gone);
            }
            self.answer(id, request)?;
        }
        Ok(())
    }

    fn answer(&mut self, id: ProcessId, request: Request) -> Result<(), Gone> {
        let now = self.started.elapsed();
        let told = self.options.trace.then(|| format!("{request:?}"));
        let later = moving::awaited(&request);
        // The answer, if there is one already; none: it comes as an event.
        let comes = |asked: Result<(), Refusal>| Some(asked.map(|()| None));
        let worth = |asked: bool| asked || self.options.remote.carries_sockets();
        let slower = || Some(Ok(Some(Answer::kernel_is_faster())));
        let elsewhere = match &request {
            Request::Connect { token } if self.state.is_elsewhere(token) => {
                comes(self.connect_elsewhere(id, *token))
            }
            Request::Intend { to, asked } => match self.state.whose(id, Kind::Stream, *to) {
                Some(peer) if worth(*asked) => comes(self.intend_elsewhere(id, peer, *to)),
                peer => peer.and_then(|_| slower()),
            },
            Request::Datagrams { from, to, asked } => {
                match self.state.whose(id, Kind::Datagram, *to) {
                    Some(peer) if worth(*asked) => {
                        Some(self.datagrams_elsewhere(id, peer, (*from, *to)))
                    }
                    peer => peer.and_then(|_| slower()),
                }
            }
            Request::Announce { intent, from, to } if self.state.is_far_intent(*intent) => {
                comes(self.announce_elsewhere(id, *intent, (*from, *to)))
            }
            Request::Abandon { channel } if self.state.is_far(*channel) => {
                comes(self.abandon_elsewhere(id, *channel))
            }
            _ => None,
        };
        let mut answer = match (elsewhere, request) {
            (Some(Ok(Some(answer))), _) => answer,
            (Some(Ok(None)), _) => return Ok(()),
            (Some(Err(refusal)), _) => Answer::refused(refusal),
            (None, request) => self.state.request(&mut self.machine, now, id, request),
        };
        self.tie(&mut answer);
        let Some(client) = self.clients.get_mut(&id) else {
            return Ok(());
        };
        if let Reply::Hello { peers, .. } = &mut answer.reply {
            *peers = self
                .outside
                .as_ref()
                .map_or_else(Vec::new, |outside| outside.peers());
            match client.open_notices(&self.epoll, id, self.magic, self.generation) {
                Ok(handles) => {
                    client.set_connecting(self.connecting);
                    for place in self.state.shown_streams().all() {
                        client.set_stream(place, true);
                    }
                    if self.outside.is_some() {
                        let networks = self.options.remote.sockets.iter();
                        let words: Vec<_> = networks.map(crate::remote::Network::words).collect();
                        client.set_networks(&words);
                    }
                    for place in self.state.shown_listeners().all() {
                        client.set_listener(place, true);
                    }
                    answer.handles = handles;
                }
                Err(refusal) => return client.refuse(refusal).and(Err(Gone)),
            }
        }
        if let Some(told) = told {
            say(client.pid, &format!("{told} -> {:?}", answer.reply));
        }
        if answer.reply == Reply::Wait && later.is_some() {
            client.awaits = later;
            self.carry_out();
            return Ok(());
        }
        // A doorbell that the answer leads to must not overtake the notice that says what it is about.
        self.carry_out();
        match self.clients.get_mut(&id) {
            Some(client) => client.reply(&answer),
            None => Ok(()),
        }
    }

    /// Who gets the end of a channel to another machine is tethered.
    fn tie(&mut self, answer: &mut Answer<Handle>) {
        let channel = match answer.reply {
            Reply::FarChannel { channel } => channel,
            Reply::Adopted { channel, .. } if answer.handles.len() > 1 => channel,
            _ => return,
        };
        let Some(outside) = &mut self.outside else {
            return;
        };
        match outside.tether(channel) {
            Ok(tether) => answer.handles.push(tether),
            Err(refusal) => {
                // The other machine may use it already.
                self.state.break_off(&mut self.machine, channel);
                *answer = Answer::refused(refusal);
            }
        }
    }

    /// The NIC may want to receive into memory of its own.
    fn fetch_memory(&mut self) -> Result<(), Refusal> {
        if let Some(outside) = &mut self.outside {
            let bytes = shm::channel::bytes(self.machine.far_lines);
            self.machine.far_memory = outside.memory(bytes)?;
        }
        Ok(())
    }

    /// Answers the client that waits for another machine's answer. It may have gone: `answer` is made anyhow.
    fn answer_awaiting(
        &mut self,
        awaited: Awaited,
        answer: impl FnOnce(&mut State<Handle>, Option<ProcessId>) -> Answer<Handle>,
    ) {
        let waits = |client: &Client| client.awaits == Some(awaited);
        let found = self.clients.iter().find(|(_, client)| waits(client));
        let id = found.map(|(&id, _)| id);
        let mut answer = answer(&mut self.state, id);
        if id.is_some() {
            self.tie(&mut answer);
        }
        self.carry_out();
        let Some(id) = id else {
            return;
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.awaits = None;
            if client.reply(&answer).is_err() {
                self.farewell(id);
            }
        }
    }

    /// Takes what comes from other machines.
    fn hear(&mut self) {
        for _ in 0..HEARD {
            let Some(event) = self.events.take() else {
                return;
            };
            match event {
                outside::Event::Opened { window, result } => self.opened(window, result),
                outside::Event::Ask {
                    peer,
                    token,
                    answer,
                } => {
                    let since = Instant::now();
                    self.asked(Ask {
                        peer,
                        token,
                        answer,
                        since,
                    });
                }
                outside::Event::Withdrawn { grant } => self.state.withdrawn(grant),
                outside::Event::Ended { grant, lost } => {
                    self.state
                        .grant_ended(&mut self.machine, self.others, grant, lost);
                }
                outside::Event::Lost { window: channel }
                | outside::Event::Revoked { window: channel }
                    if self.state.is_far(channel) =>
                {
                    self.state.lose(&mut self.machine, self.others, channel);
                }
                // Somebody else may have got the end since.
                outside::Event::Untethered { channel, tethers }
                    if (self.outside.as_ref())
                        .is_some_and(|outside| outside.is_tied_since(channel, tethers)) => {}
                outside::Event::Untethered { channel, .. } => {
                    let now = self.started.elapsed();
                    self.state.untethered(&mut self.machine, now, channel);
                }
                outside::Event::Stuck { channel } => {
                    self.refusals.say(
                        "another machine has refused what a connection's end had written, and has not ended the connection: it is reset at both \
                         ends; see that both machines run the same version, and that nobody forges frames between them (--key seals them)",
                    );
                    self.state.break_off(&mut self.machine, channel);
                }
                outside::Event::Lost { window } => {
                    self.state.tell_holder(window, Notice::PeerLost { window });
                }
                outside::Event::Intended { question, intent } => {
                    self.answer_awaiting(Awaited::Intent(question), |state, id| {
                        let id = id.unwrap_or_default();
                        state.intended(id, question, intent)
                    });
                }
                outside::Event::Announced { channel, token } => {
                    self.answer_awaiting(Awaited::Channel(channel), |state, _| {
                        state.announced(channel, token)
                    });
                }
                outside::Event::Abandoned { channel, done } => {
                    self.answer_awaiting(Awaited::Abandoned(channel), |state, _| {
                        if done {
                            state.left_to_the_kernel(channel);
                        }
                        Answer {
                            reply: if done { Reply::Kernel } else { Reply::Wait },
                            handles: Vec::new(),
                        }
                    });
                }
                outside::Event::AskIntend { peer, to, answer } => {
                    let (machine, others) = (&mut self.machine, self.others);
                    let intent = self.state.intend_here(machine, others, peer, to);
                    if !answer.give(intent)
                        && let Some(intent) = intent
                    {
                        self.state.unintend_here(self.others, intent);
                    }
                }
                outside::Event::Unintend { intent } => {
                    self.state.unintend_here(self.others, intent);
                }
                outside::Event::AskAnnounce {
                    peer,
                    announcement,
                    answer,
                } => {
                    let token = self.announced_here(peer, announcement);
                    // If it ends, so does the connection to the other daemon.
                    let _ = answer.give(token);
                }
                outside::Event::Refused { count } => self.state.count_refused(count),
                outside::Event::AskAbandon {
                    peer,
                    channel,
                    answer,
                } => {
                    let _ = answer.give(self.state.abandoned_here(peer, channel));
                }
                outside::Event::Revoked { window } => {
                    let notice = Notice::Revoked {
                        channel: None,
                        window: Some(window),
                        region: None,
                    };
                    self.state.tell_holder(window, notice);
                }
            }
            self.carry_out();
        }
        self.events.again();
    }

    /// Gives a process its window on another machine's region, or says why there is none.
    fn opened(&mut self, window: u64, result: Result<Opened, Refusal>) {
        let awaits = |client: &Client| matches!(client.awaits, Some(Awaited::Window(awaited, _)) if awaited == window);
        let found = self.clients.iter_mut().find(|(_, client)| awaits(client));
        let Some((&id, client)) = found else {
            // It has gone in the meantime, and its going has closed the window.
            return;
        };
        let Some(Awaited::Window(_, token)) = client.awaits.take() else {
            return;
        };
        let answer = match result {
            Ok(Opened { ring, event }) => Answer {
                reply: Reply::Window {
                    window,
                    first: token.first,
                    bytes: token.bytes,
                    rights: token.rights,
                    remote: true,
                },
                handles: vec![Arc::new(ring), Arc::new(event)],
            },
            Err(refusal) => {
                self.state.end_window(window);
                Answer::refused(refusal)
            }
        };
        if client.reply(&answer).is_err() {
            self.farewell(id);
        }
    }

    /// Tells acceptors whether they have to ask, other machines' clients are not told of in time; who connects, whether there may be
    /// a listener; and who gets a socket from another process, whether it may be a stream's.
    fn publish(&mut self) {
        for (place, there) in self.state.shown_streams().take_changes() {
            for client in self.clients.values() {
                client.set_stream(place, there);
            }
        }
        for (place, there) in self.state.shown_listeners().take_changes() {
            for client in self.clients.values() {
                client.set_listener(place, there);
            }
        }
        let word = match (&self.outside, self.state.is_somebody_connecting()) {
            (Some(_), _) => notice_page::ASK,
            (None, true) => notice_page::SOMEBODY,
            (None, false) => notice_page::NOBODY,
        };
        if word != self.connecting {
            self.connecting = word;
            for client in self.clients.values() {
                client.set_connecting(word);
            }
        }
    }

    /// Does what the state wants done beside the answers.
    fn carry_out(&mut self) {
        self.publish();
        loop {
            let effects = self.state.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::AddressesChanged => {
                        self.generation += 1;
                        for client in self.clients.values() {
                            client.set_generation(self.generation);
                        }
                    }
                    Effect::UnintendElsewhere { peer, intent } => {
                        if let Some(outside) = &mut self.outside {
                            outside.unintend(peer, intent);
                        }
                    }
                    Effect::AbandonElsewhere {
                        peer,
                        channel,
                        theirs,
                    } => {
                        if let Some(outside) = &mut self.outside {
                            outside.abandon(peer, channel, theirs);
                        }
                    }
                    Effect::Carry {
                        channel,
                        token,
                        memory,
                        half,
                    } => {
                        if let Some(outside) = &mut self.outside {
                            outside.carry(channel, token, Half { memory, half });
                        }
                    }
                    Effect::Desert { channel } => {
                        if let Some(outside) = &mut self.outside {
                            outside.desert(channel);
                        }
                    }
                    Effect::Refused { why } => self.refusals.say(&why),
                    Effect::Forgotten { channel } => {
                        if let Some(outside) = &mut self.outside {
                            outside.forgotten(channel);
                        }
                    }
                    Effect::Moved { region } => self.moved(region),
                    Effect::Ring { event } => self.machine.ring(&event),
                    Effect::Withdraw { grant } => {
                        if let Some(outside) = &mut self.outside {
                            outside.withdraw(grant);
                        }
                    }
                    Effect::CloseElsewhere { window } => {
                        if let Some(outside) = &mut self.outside {
                            outside.close(window);
                        }
                    }
                    Effect::Notify {
                        process, notice, ..
                    } if process == self.others => {
                        if let (
                            Some(outside),
                            Notice::PeerLost { window: grant }
                            | Notice::Revoked {
                                window: Some(grant),
                                ..
                            },
                        ) = (&mut self.outside, notice)
                        {
                            outside.withdraw(grant);
                        }
                    }
                    Effect::Notify {
                        process,
                        notice,
                        mut handles,
                    } => {
                        if !self.tie_notice(&notice, &mut handles) {
                            continue;
                        }
                        let most = self.options.limits.notices;
                        let Some(client) = self.clients.get_mut(&process) else {
                            continue;
                        };
                        if client
                            .notify(&self.epoll, process, &notice, handles, most)
                            .is_err()
                        {
                            // It does not read; its going may have effects of its own.
                            self.farewell(process);
                        }
                    }
                }
            }
        }
    }

    /// Sends what the kernel had no room for although the socket had.
    fn retry_notices(&mut self) {
        let mut gone = Vec::new();
        for (&id, client) in &mut self.clients {
            if client.flush(&self.epoll, id).is_err() {
                gone.push(id);
            }
        }
        for id in gone {
            self.farewell(id);
        }
    }

    fn trace(&self, pid: u32, what: &str) {
        if self.options.trace {
            say(pid, what);
        }
    }
}

/// A line of the trace; nobody needs to read it.
fn say(pid: u32, what: &str) {
    let _ = writeln!(std::io::stderr(), "ipnuma daemon: process {pid}: {what}");
}

/// The key of a client's descriptor in the epoll.
const fn key(id: ProcessId, which: u64) -> EventData {
    EventData::new_u64(id << 2 | which)
}
