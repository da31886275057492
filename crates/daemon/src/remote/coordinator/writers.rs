// SPDX-License-Identifier: Apache-2.0
//! Processes here that write to other machines.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use ipc::operations::Operations;
use ipc::token::Token;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use softnic::{Identity, Shared};

use super::readers::other_release;
use super::rekey::Keys;
use super::{Coordinator, EPOCHS, Input, named, refusal};
use crate::descriptors::{self, Use};
use crate::outside::{Event, Opened};
use crate::remote::link::{Link, LinkId};
use crate::remote::messages::{Message, Start, VERSION};
use crate::remote::ring::Ring;
use crate::remote::tls::Secret;
use crate::state::Refusal;

/// A window on memory there.
#[derive(Debug)]
enum Window {
    /// It is asked for, since then.
    Asked(Token, Instant),
    /// It is asked for, and the process has lost interest.
    Unwanted,
    /// It is open; its number there.
    Open(u64),
    /// The process has closed it, and what it has stored before is on its way.
    Leaving(u64),
}

/// How far a connection to another daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is made, or the NIC looks for a number for the session.
    Begun,
    /// The other side knows the number.
    Offered,
    /// It has taken it, and the NIC opens the session.
    Opening,
    /// The session is there.
    Up,
}

/// A connection to another daemon.
#[derive(Debug)]
pub struct Writer {
    pub peer: SocketAddrV4,
    link: Link,
    /// Keys of its session come of it; none without TLS.
    secret: Option<Secret>,
    /// Own number of the session.
    pub session: Option<u8>,
    /// The other side's, and its NIC's address; 0 until it has said them.
    pub(super) theirs: u8,
    pub(super) ip: u32,
    /// The connection whose session it is, if it is another one's.
    pub(super) joined: Option<LinkId>,
    /// Keys of that.
    pub(super) keys: Option<Keys>,
    start: Start,
    stage: Stage,
    /// Epochs that were tried.
    tries: u8,
    /// How long nothing was heard although an answer is due, as far as this daemon listened.
    quiet: Duration,
    /// When something had been heard last, then.
    heard: Instant,
    windows: HashMap<u64, Window>,
    /// Questions about connections that have no answer yet, by the number that the answer will have.
    pub(super) asked: HashMap<u64, (Message, Instant)>,
    /// Channels that the other side has taken: they end with the connection, whatever is carried for them.
    pub(super) channels: BTreeSet<u64>,
}

impl Writer {
    /// The session is there.
    pub(super) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// Since when it waits for an answer to a question, if it does.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let asked = self.windows.values().filter_map(|window| match window {
            Window::Asked(_, since) => Some(*since),
            Window::Unwanted | Window::Open(_) | Window::Leaving(_) => None,
        });
        let questions = self.asked.values().map(|(_, since)| *since);
        asked.chain(questions).min()
    }

    /// How long nothing was heard of the other side although an answer is due. This daemon has listened for so long since it
    /// was asked last.
    pub(super) fn listen(&mut self, passed: Duration) -> Duration {
        let heard = self.link.heard();
        let due = !self.is_up() || self.waits_since().is_some();
        if !due || heard != self.heard {
            (self.quiet, self.heard) = (Duration::ZERO, heard);
        } else {
            self.quiet += passed;
        }
        if due && self.stage != Stage::Begun {
            // It may have much to do: as long as it says something it is there.
            self.link.send(Message::Ping);
        }
        self.quiet
    }

    /// Sends what needs no answer; without a session nobody there knows what it is about.
    pub(super) fn say(&self, message: Message) {
        if self.is_up() {
            self.link.send(message);
        }
    }

    /// Says something about the session itself.
    pub(super) fn tell(&self, message: Message) {
        self.link.send(message);
    }

    /// Asks, now or when there is a session.
    pub(super) fn question(&mut self, number: u64, message: Message) {
        if self.is_up() {
            self.link.send(message.clone());
        }
        self.asked.insert(number, (message, Instant::now()));
    }

    /// An answer to a question of this kind has come. `None`: to a question of another kind. `Some(false)`: nobody waits for it
    /// any longer.
    fn answered(&mut self, number: u64, is_kind: impl FnOnce(&Message) -> bool) -> Option<bool> {
        let Some((question, _)) = self.asked.get(&number) else {
            return Some(false);
        };
        is_kind(question).then(|| self.asked.remove(&number).is_some())
    }
}

impl Coordinator {
    pub(super) fn open(&mut self, window: u64, token: Token) {
        let writer = self.writer_to(token.management);
        writer
            .windows
            .insert(window, Window::Asked(token, Instant::now()));
        writer.say(Message::Open { window, token });
    }

    /// The connection to a daemon, which is made if there is none.
    pub(super) fn writer_to(&mut self, peer: SocketAddrV4) -> &mut Writer {
        let found = self.writers.iter().find(|(_, writer)| writer.peer == peer);
        let mut id = found.map_or(0, |(&id, _)| id);
        if !self.writers.contains_key(&id) {
            let start = self.next_start();
            let link = self.wire.connect(peer);
            id = link.id;
            let writer = Writer {
                peer,
                link,
                secret: None,
                session: None,
                theirs: 0,
                ip: 0,
                joined: None,
                keys: None,
                start,
                stage: Stage::Begun,
                tries: 1,
                quiet: Duration::ZERO,
                heard: Instant::now(),
                windows: HashMap::new(),
                asked: HashMap::new(),
                channels: BTreeSet::new(),
            };
            self.writers.insert(id, writer);
        }
        self.writers
            .entry(id)
            .or_insert_with(|| unreachable!("it was put there"))
    }

    pub(super) fn connected(&mut self, id: LinkId, secret: Option<Secret>) {
        let Some(writer) = self.writers.get_mut(&id) else {
            return;
        };
        writer.secret = secret;
        if !self.join(id) {
            self.reserve(id);
        }
    }

    /// Offers a session that another connection has.
    pub(super) fn offer_to_join(&mut self, id: LinkId, of: LinkId, session: u8, message: Message) {
        if let Some(writer) = self.writers.get_mut(&id) {
            (writer.session, writer.joined) = (Some(session), Some(of));
            writer.stage = Stage::Offered;
            writer.tell(message);
        }
    }

    /// Has the NIC take a number for a session; [`Coordinator::reserved`] follows.
    fn reserve(&self, id: LinkId) {
        self.engine.post(move |engine| {
            let nic = engine.nic();
            let reserved = nic.reserve_session().map(|own| (own, nic.identity()));
            engine.say(Input::Reserved(id, reserved));
        });
    }

    /// Offers the number to the other side.
    pub(super) fn reserved(&mut self, id: LinkId, reserved: Result<(u8, Identity), Refusal>) {
        match (reserved, self.writers.get_mut(&id)) {
            (Ok((session, identity)), Some(writer)) => {
                (writer.session, writer.stage) = (Some(session), Stage::Offered);
                writer
                    .link
                    .send(Self::hello(session, identity, writer.start));
            }
            (Ok((session, _)), None) => self.close_session(Some(session)),
            (Err(why), _) => self.give_up(id, &why),
        }
    }

    /// Refuses all that is asked for, and ends the connection.
    fn give_up(&mut self, id: LinkId, why: &Refusal) {
        let Some(writer) = self.writers.remove(&id) else {
            return;
        };
        if writer.is_up() {
            crate::log(&why.message);
        } else {
            self.absent.insert(writer.peer, Instant::now());
        }
        // First what is lost, then that questions about it have no answer.
        for (window, state) in writer.windows {
            let inbox = self.inbox.clone();
            if self.ends.remove(&window).is_some() {
                self.engine.post(move |engine| engine.put_down(window));
                self.tell(Event::Lost { window });
                continue;
            }
            match state {
                Window::Asked(..) => self.tell(Event::Opened {
                    window,
                    result: Err(why.clone()),
                }),
                Window::Unwanted => {}
                Window::Leaving(_) => self.engine.post(move |engine| engine.cut(window)),
                // In this order: its process shall not find it usable once it knows.
                Window::Open(_) => self.engine.post(move |engine| {
                    engine.cut(window);
                    inbox.send(Event::Lost { window });
                }),
            }
        }
        for window in writer.channels {
            self.tell(Event::Lost { window });
        }
        for (number, (question, _)) in writer.asked {
            self.unanswered(number, &question);
        }
        self.end_session(id, writer.session, writer.joined);
    }

    pub(super) fn writer_closed(&mut self, id: LinkId, why: &str) {
        if let Some(writer) = self.writers.get(&id) {
            let why = refusal(
                Errno::HOSTUNREACH,
                format!(
                    "{} can't be spoken with: {why}; see that it runs with --management {}",
                    named(writer.peer),
                    writer.peer
                ),
            );
            self.give_up(id, &why);
        }
    }

    /// `false` for a message that has no place here.
    pub(super) fn tell_writer(&mut self, id: LinkId, message: Message) -> bool {
        let Some(writer) = self.writers.get_mut(&id) else {
            return true;
        };
        match message {
            Message::Hello {
                version,
                mac,
                ip,
                session,
                ..
            } if writer.stage == Stage::Offered && writer.joined.is_none() => {
                if version != VERSION {
                    let peer = *writer.peer.ip();
                    self.refuse(&other_release(peer, version));
                    self.writer_closed(id, "it is of another release");
                    return true;
                }
                let peer = *writer.peer.ip();
                if let Err(why) = self.options.may_name(peer, ip.into(), self.nic) {
                    self.refuse(&why);
                    self.writer_closed(id, &why);
                    return true;
                }
                self.welcome(id, session, Identity { mac, ip });
            }
            Message::Joined if writer.stage == Stage::Offered && writer.joined.is_some() => {
                self.session_open(id, Ok(()));
            }
            Message::Unwelcome { message, again } if writer.stage == Stage::Offered => {
                if !again || writer.tries >= EPOCHS {
                    self.writer_closed(id, &message);
                    return true;
                }
                writer.tries += 1;
                writer.stage = Stage::Begun;
                let session = writer.session.take();
                // One that is another connection's stays.
                let session = session.filter(|_| writer.joined.take().is_none());
                let start = self.next_start();
                if let Some(writer) = self.writers.get_mut(&id) {
                    writer.start = start;
                }
                self.close_session(session);
                self.reserve(id);
            }
            Message::Opened {
                window,
                grant,
                key,
                tag,
                rights,
            } => return self.opened(id, window, grant, Shared { key, tag }, rights),
            Message::Denied {
                window,
                errno,
                message,
            } => match writer.windows.remove(&window) {
                Some(Window::Asked(..)) if self.ends.remove(&window).is_some() => {
                    self.tell(Event::Lost { window });
                }
                Some(Window::Asked(..)) => {
                    let errno = if errno > 0 {
                        Errno::from_raw_os_error(errno)
                    } else {
                        Errno::IO
                    };
                    self.tell(Event::Opened {
                        window,
                        result: Err(refusal(errno, message)),
                    });
                }
                Some(Window::Unwanted) => {}
                _ => return false,
            },
            Message::Withdrawn { grant } => {
                let found = writer
                    .windows
                    .iter()
                    .find_map(|(&window, state)| match state {
                        Window::Open(it) if *it == grant => Some((window, true)),
                        // What its process has stored before it closed the window is carried yet.
                        Window::Leaving(it) if *it == grant => Some((window, false)),
                        _ => None,
                    });
                let Some((window, open)) = found else {
                    return true;
                };
                // Nobody there hears what an end has to say: it is over.
                self.put_down(window);
                let inbox = self.inbox.clone();
                self.engine.post(move |engine| {
                    engine.revoke(window);
                    if open {
                        inbox.send(Event::Revoked { window });
                    }
                });
            }
            answer @ (Message::Intended { .. }
            | Message::Announced { .. }
            | Message::Abandoned { .. }) => return self.hear_answer(id, answer),
            Message::Keys { receives, sends } => return self.hear_keys(id, receives, sends),
            _ => return false,
        }
        true
    }

    /// An answer to a question about a connection; `false` for one that has no place here. An intent and its channel have one
    /// number: an answer to the one must not take the place of one to the other.
    fn hear_answer(&mut self, id: LinkId, answer: Message) -> bool {
        let Some(writer) = self.writers.get_mut(&id) else {
            return true;
        };
        match answer {
            Message::Intended { question, intent } => {
                match writer.answered(question, |it| matches!(it, Message::Intend { .. })) {
                    Some(true) => self.tell(Event::Intended { question, intent }),
                    // The answer came too late.
                    Some(false) => {
                        if let Some(intent) = intent {
                            writer.link.send(Message::Unintend { intent });
                        }
                    }
                    None => return false,
                }
            }
            Message::Announced { channel, token } => {
                match writer.answered(channel, |it| matches!(it, Message::Announce { .. })) {
                    Some(true) => {
                        // A token of another machine would let that one in.
                        let peer = writer.peer;
                        let own = token.filter(|token| token.management == peer);
                        if own.is_some() {
                            writer.channels.insert(channel);
                        } else if token.is_some() {
                            self.refuse(&format!(
                                "{} has taken a connection with a token of another machine, and was refused: the connection \
                                 is the kernel's",
                                peer.ip()
                            ));
                        }
                        let token = own;
                        self.tell(Event::Announced { channel, token });
                    }
                    Some(false) => {}
                    None => return false,
                }
            }
            Message::Abandoned { channel, done } => {
                match writer.answered(channel, |it| matches!(it, Message::Abandon { .. })) {
                    Some(true) => self.tell(Event::Abandoned { channel, done }),
                    Some(false) => {}
                    None => return false,
                }
            }
            _ => return false,
        }
        true
    }

    /// The other side has opened its end of the session; [`Coordinator::session_open`] follows.
    fn welcome(&mut self, id: LinkId, theirs: u8, identity: Identity) {
        let Some(writer) = self.writers.get(&id) else {
            return;
        };
        let (Some(own), start) = (writer.session, writer.start) else {
            return;
        };
        let mut peer = self.peer_address(theirs, identity, start);
        let of = (own, theirs, start.epoch);
        let keys = writer.secret.map(|secret| Keys::new(secret, of, true));
        peer.keys = keys.as_ref().and_then(|keys| keys.entry(0));
        if let Some(writer) = self.writers.get_mut(&id) {
            (writer.stage, writer.keys) = (Stage::Opening, keys);
            (writer.theirs, writer.ip) = (theirs, identity.ip);
        }
        self.engine.post(move |engine| {
            let opened = engine.open_session(own, &peer);
            engine.say(Input::SessionOpen(id, opened));
        });
    }

    /// Says what waits for the session.
    pub(super) fn session_open(&mut self, id: LinkId, opened: Result<(), Refusal>) {
        if let Err(why) = opened {
            self.give_up(id, &why);
            return;
        }
        let Some(writer) = self.writers.get_mut(&id) else {
            return;
        };
        writer.stage = Stage::Up;
        writer
            .windows
            .retain(|_, state| !matches!(state, Window::Unwanted));
        for (&window, state) in &writer.windows {
            if let Window::Asked(token, _) = state {
                writer.link.send(Message::Open {
                    window,
                    token: *token,
                });
            }
        }
        for (question, _) in writer.asked.values() {
            writer.link.send(question.clone());
        }
    }

    /// The other side allows the window.
    fn opened(
        &mut self,
        id: LinkId,
        window: u64,
        grant: u64,
        shared: Shared,
        rights: ipc::token::Rights,
    ) -> bool {
        let Some(writer) = self.writers.get_mut(&id) else {
            return true;
        };
        let (token, session) = match (writer.windows.get(&window), writer.session) {
            (Some(Window::Asked(token, _)), Some(session)) => (*token, session),
            (Some(Window::Unwanted), _) => {
                writer.windows.remove(&window);
                writer.link.send(Message::Close { grant });
                return true;
            }
            _ => return false,
        };
        writer.windows.insert(window, Window::Open(grant));
        if let Some(end) = self.ends.get(&window).cloned() {
            self.engine.post(move |engine| {
                let carried = |pages| end.carried(pages, session, shared.key);
                let range = (token.first, token.bytes);
                engine.carry_into(window, (session, shared), range, carried);
            });
            return true;
        }
        let parts = Operations::create()
            .map_err(|error| {
                refusal(
                    Errno::from_raw_os_error(error.errno()),
                    format!("the daemon could not make an operations ring: {error}"),
                )
            })
            .and_then(|(operations, ring)| {
                let ring = descriptors::keep(ring, Use::Process)?;
                let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
                let event = event.and_then(|event| Ok((rustix::io::dup(&event)?, event)));
                let (copy, event) = event.map_err(|errno| {
                    refusal(
                        errno,
                        format!("the daemon could not make an event counter: {errno}"),
                    )
                })?;
                Ok((operations, ring, event, copy))
            });
        let (operations, ring, event, copy) = match parts {
            Ok(parts) => parts,
            Err(why) => {
                self.unmapped(id, window, grant, why);
                return true;
            }
        };
        let inbox = self.inbox.clone();
        self.engine.post(move |engine| {
            let nic = engine.nic();
            let pages = nic.map(session, &shared, token.first, token.bytes);
            let attached = pages.and_then(|pages| {
                let ours = Ring::new(operations, copy, pages, session, rights, shared.key);
                engine
                    .attach(window, ours)
                    .map_err(|error| softnic::Error::Io(std::io::Error::other(error.to_string())))
            });
            match attached {
                // From here, so that what happens to it later is told later.
                Ok(()) => inbox.send(Event::Opened {
                    window,
                    result: Ok(Opened { ring, event }),
                }),
                Err(error) => engine.say(Input::Unmapped(id, window, grant, error)),
            }
        });
        true
    }

    /// There is no room for a window that the other side allows.
    pub(super) fn unmapped(&mut self, id: LinkId, window: u64, grant: u64, why: Refusal) {
        if let Some(writer) = self.writers.get_mut(&id)
            && writer.windows.remove(&window).is_some()
        {
            writer.link.send(Message::Close { grant });
        }
        let result = Err(why);
        self.tell(Event::Opened { window, result });
    }

    pub(super) fn close(&mut self, window: u64) {
        // Also of a connection that is gone: the process may have kept it.
        self.engine.post(move |engine| {
            engine.detach(window);
            engine.put_down(window);
        });
        for writer in self.writers.values_mut() {
            match writer.windows.get_mut(&window) {
                Some(state @ Window::Asked(..)) => *state = Window::Unwanted,
                Some(state @ Window::Open(_)) => {
                    if let Window::Open(grant) = *state {
                        *state = Window::Leaving(grant);
                    }
                }
                _ => {}
            }
        }
    }

    /// All that was stored into a closed window has arrived, or never will.
    pub(super) fn left(&mut self, window: u64) {
        for writer in self.writers.values_mut() {
            if let Some(Window::Leaving(grant)) = writer.windows.get(&window) {
                writer.link.send(Message::Close { grant: *grant });
                writer.windows.remove(&window);
            }
        }
    }
}
