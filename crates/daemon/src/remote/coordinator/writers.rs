// SPDX-License-Identifier: Apache-2.0
//! Processes here that write to other machines.

use std::collections::HashMap;
use std::net::{SocketAddrV4, TcpStream};
use std::time::Instant;

use ipnuma::operations::Operations;
use ipnuma::token::Token;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use softnic::{Identity, Shared};

use super::{Coordinator, EPOCHS, named, nic_result, refusal};
use crate::outside::{Event, Opened};
use crate::remote::link::{Link, LinkId};
use crate::remote::messages::{Message, VERSION};
use crate::remote::ring::Ring;
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
}

/// A connection to another daemon.
#[derive(Debug)]
pub struct Writer {
    pub peer: SocketAddrV4,
    link: Link,
    /// Own number of the session.
    pub session: Option<u8>,
    epoch: u8,
    /// The session is there.
    pub(super) up: bool,
    /// Epochs that were tried.
    tries: u8,
    windows: HashMap<u64, Window>,
    /// Questions about connections that have no answer yet, by the number that the answer will have.
    pub(super) asked: HashMap<u64, (Message, Instant)>,
}

impl Writer {
    /// Since when it waits for an answer, if it does.
    pub fn waits_since(&self) -> Option<Instant> {
        let asked = self.windows.values().filter_map(|window| match window {
            Window::Asked(_, since) => Some(*since),
            Window::Unwanted | Window::Open(_) => None,
        });
        let questions = self.asked.values().map(|(_, since)| *since);
        let heard = self.link.heard();
        let greeting = (!self.up).then_some(heard);
        let since = asked.chain(questions).chain(greeting).min();
        // It may have much to do: as long as it says something it is there.
        since.map(|since| since.max(heard))
    }

    /// Sends what needs no answer; without a session nobody there knows what it is about.
    pub(super) fn say(&self, message: Message) {
        if self.up {
            self.link.send(message);
        }
    }

    /// Asks, now or when there is a session.
    pub(super) fn question(&mut self, number: u64, message: Message) {
        if self.up {
            self.link.send(message.clone());
        }
        self.asked.insert(number, (message, Instant::now()));
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
        let id = match found {
            Some((&id, _)) => id,
            None => self.fresh_link(),
        };
        if !self.writers.contains_key(&id) {
            let epoch = self.next_epoch();
            let (from, patience) = (*self.own.ip(), self.patience());
            let link = Link::connect(id, from, peer, patience, self.inputs.clone());
            let writer = Writer {
                peer,
                link,
                session: None,
                epoch,
                up: false,
                tries: 1,
                windows: HashMap::new(),
                asked: HashMap::new(),
            };
            self.writers.insert(id, writer);
        }
        self.writers
            .entry(id)
            .or_insert_with(|| unreachable!("it was put there"))
    }

    pub(super) fn connected(&mut self, id: LinkId, stream: TcpStream) {
        let Some(writer) = self.writers.get_mut(&id) else {
            return;
        };
        writer.link.connected(stream);
        let epoch = writer.epoch;
        match self.hello(epoch) {
            Ok((session, hello)) => {
                if let Some(writer) = self.writers.get_mut(&id) {
                    writer.session = Some(session);
                    writer.link.send(hello);
                }
            }
            Err(why) => self.give_up(id, &why),
        }
    }

    /// Refuses all that is asked for, and ends the connection.
    fn give_up(&mut self, id: LinkId, why: &Refusal) {
        let Some(writer) = self.writers.remove(&id) else {
            return;
        };
        if writer.up {
            eprintln!("ipnuma daemon: {}", why.message);
        } else {
            self.absent.insert(writer.peer, Instant::now());
        }
        for (number, (question, _)) in writer.asked {
            self.unanswered(number, &question);
        }
        for (window, state) in writer.windows {
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
                Window::Open(_) => {
                    let _ = self.engine.call(move |engine| engine.cut(window));
                    self.tell(Event::Lost { window });
                }
            }
        }
        self.close_session(writer.session);
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
            } if !writer.up => {
                if version != VERSION {
                    self.writer_closed(id, "it is of another release");
                    return true;
                }
                self.welcome(id, session, Identity { mac, ip });
            }
            Message::Unwelcome { message, again } if !writer.up => {
                if !again || writer.tries >= EPOCHS {
                    self.writer_closed(id, &message);
                    return true;
                }
                writer.tries += 1;
                let session = writer.session.take();
                let epoch = self.next_epoch();
                self.close_session(session);
                self.again(id, epoch);
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
                let of_grant = |(_, state): &(&u64, &Window)| matches!(state, Window::Open(number) if *number == grant);
                let window = writer.windows.iter().find(of_grant);
                if let Some(window) = window.map(|(window, _)| *window) {
                    let _ = self.engine.call(move |engine| engine.revoke(window));
                    self.tell(Event::Revoked { window });
                }
            }
            Message::Intended { question, intent } => {
                if writer.asked.remove(&question).is_some() {
                    self.tell(Event::Intended { question, intent });
                } else if let Some(intent) = intent {
                    // The answer came too late.
                    writer.link.send(Message::Unintend { intent });
                }
            }
            Message::Announced { channel, token } => {
                if writer.asked.remove(&channel).is_some() {
                    // A token of another machine would let that one in.
                    let peer = writer.peer;
                    let token = token.filter(|token| token.management == peer);
                    self.tell(Event::Announced { channel, token });
                }
            }
            Message::Abandoned { channel, done } => {
                if writer.asked.remove(&channel).is_some() {
                    self.tell(Event::Abandoned { channel, done });
                }
            }
            _ => return false,
        }
        true
    }

    /// Another try with another epoch.
    fn again(&mut self, id: LinkId, epoch: u8) {
        match self.hello(epoch) {
            Ok((session, hello)) => {
                if let Some(writer) = self.writers.get_mut(&id) {
                    (writer.session, writer.epoch) = (Some(session), epoch);
                    writer.link.send(hello);
                }
            }
            Err(why) => self.give_up(id, &why),
        }
    }

    /// The other side has opened its end of the session.
    fn welcome(&mut self, id: LinkId, theirs: u8, identity: Identity) {
        let Some(writer) = self.writers.get(&id) else {
            return;
        };
        let Some(own) = writer.session else {
            return;
        };
        if let Err(why) = self.open_session(own, theirs, identity, writer.epoch) {
            self.give_up(id, &why);
            return;
        }
        let Some(writer) = self.writers.get_mut(&id) else {
            return;
        };
        writer.up = true;
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
        rights: ipnuma::token::Rights,
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
        let result = parts.and_then(|(operations, ring, event, copy)| {
            nic_result(self.engine.call(move |engine| {
                let nic = engine.nic();
                let pages = nic.map(session, &shared, token.first, token.bytes)?;
                let ours = Ring::new(operations, copy, pages, session, rights, shared.key);
                engine
                    .attach(window, ours)
                    .map_err(|error| softnic::Error::Io(std::io::Error::other(error.to_string())))
            }))?;
            Ok(Opened { ring, event })
        });
        if result.is_err()
            && let Some(writer) = self.writers.get_mut(&id)
        {
            writer.windows.remove(&window);
            writer.link.send(Message::Close { grant });
        }
        self.tell(Event::Opened { window, result });
        true
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
                Some(Window::Open(grant)) => {
                    writer.link.send(Message::Close { grant: *grant });
                    writer.windows.remove(&window);
                }
                _ => {}
            }
        }
    }
}
