// SPDX-License-Identifier: Apache-2.0
//! Other machines that write to memory here.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use host::backend::rack::map_channel;
use ipc::token::Token;
use rustix::io::Errno;
use shm::channel::Carrier;
use softnic::{Identity, Share, Shared};

use super::rekey::Keys;
use super::{Answered, Asked, Coordinator, Greeting, Input, refusal};
use crate::machine::Handle;
use crate::outside::{Announcement, Answer, Event};
use crate::remote::link::{Link, LinkId, Owed};
use crate::remote::messages::{Message, Start, VERSION};
use crate::remote::nic::{Memory, Sleeper};
use crate::remote::tls::Secret;
use crate::state::{Granted, Refusal, Sleeping};

/// A connection that another daemon has made.
#[derive(Debug)]
pub struct Reader {
    pub peer: Ipv4Addr,
    link: Link,
    /// Keys of its session come of it; none without TLS.
    secret: Option<Secret>,
    /// How long it has been there.
    pub age: Duration,
    /// It has said who it is.
    greeted: bool,
    /// Own number of the session.
    pub session: Option<u8>,
    /// The other side's.
    pub(super) theirs: u8,
    /// The connection whose session it is, if it is another one's.
    pub(super) joined: Option<LinkId>,
    /// Keys of that.
    pub(super) keys: Option<Keys>,
    /// Its NIC's address.
    ip: u32,
    /// Keys of what it may use.
    grants: HashMap<u64, u16>,
    /// Its processes' intents here.
    intents: BTreeSet<u64>,
    /// Channels here that it has announced.
    channels: BTreeSet<u64>,
}

/// A sentence about a daemon that speaks otherwise.
pub(super) fn other_release(peer: Ipv4Addr, version: u16) -> String {
    format!(
        "the daemon of {peer} is of another release and was refused: it speaks version {version} and this one {VERSION}; install \
         the same release on both machines"
    )
}

impl Reader {
    /// Says something to the other daemon.
    pub(super) fn tell(&self, message: Message) {
        self.link.send(message);
    }
}

impl Coordinator {
    pub(super) fn accepted(&mut self, link: Link, peer: Ipv4Addr, secret: Option<Secret>) {
        let reader = Reader {
            peer,
            secret,
            age: Duration::ZERO,
            greeted: false,
            session: None,
            theirs: 0,
            joined: None,
            keys: None,
            ip: 0,
            grants: HashMap::new(),
            intents: BTreeSet::new(),
            channels: BTreeSet::new(),
            link,
        };
        self.readers.insert(reader.link.id, reader);
    }

    /// `false` for a message that has no place here.
    pub(super) fn tell_reader(&mut self, id: LinkId, message: Message, owed: Owed) -> bool {
        let Some(reader) = self.readers.get_mut(&id) else {
            return true;
        };
        match message {
            Message::Hello {
                version,
                mac,
                ip,
                session,
                start,
            } if !reader.greeted => {
                let peer = reader.peer;
                if version == VERSION {
                    if let Err(message) = self.options.may_name(peer, ip.into(), self.nic) {
                        let (why, again) = (message.clone(), false);
                        reader.link.send(Message::Unwelcome { message, again });
                        self.refuse(&why);
                        return true;
                    }
                    reader.greeted = true;
                    self.greet(id, session, Identity { mac, ip }, start);
                } else {
                    self.refuse_release(id, version);
                }
            }
            Message::Join {
                version,
                session,
                theirs,
                proof,
            } if !reader.greeted => {
                if version == VERSION {
                    self.let_join(id, (theirs, session), proof);
                } else {
                    self.refuse_release(id, version);
                }
            }
            Message::Open { window, token } if reader.session.is_some() => {
                self.ask_for_window(id, Some(owed), window, token);
            }
            Message::Close { grant } => {
                // It may have been withdrawn at the same time.
                if let Some(key) = reader.grants.remove(&grant) {
                    // The writer has given it up itself: there is nothing to wait for.
                    self.unshare(key);
                    let lost = false;
                    self.tell(Event::Ended { grant, lost });
                }
            }
            Message::Intend { question, to } if reader.session.is_some() => {
                let peer = reader.peer;
                let ask = |answer| Event::AskIntend { peer, to, answer };
                self.ask(id, Some(owed), ask, move |intent| {
                    Answered::Intend(question, intent)
                });
            }
            Message::Unintend { intent } => {
                if reader.intents.remove(&intent) {
                    self.tell(Event::Unintend { intent });
                }
            }
            Message::Announce {
                channel,
                intent,
                from,
                to,
                token,
            } if match intent {
                Some(intent) => reader.intents.remove(&intent),
                None => reader.session.is_some(),
            } =>
            {
                let peer = reader.peer;
                let announcement = Announcement {
                    channel,
                    intent,
                    from,
                    to,
                    token,
                };
                let ask = |answer| Event::AskAnnounce {
                    peer,
                    announcement,
                    answer,
                };
                self.ask(id, Some(owed), ask, move |token| {
                    Answered::Announce(channel, token)
                });
            }
            Message::Abandon { channel, theirs } if reader.channels.contains(&theirs) => {
                let peer = reader.peer;
                let ask = |answer| Event::AskAbandon {
                    peer,
                    channel: theirs,
                    answer,
                };
                self.ask(id, Some(owed), ask, move |done| {
                    Answered::Abandon(channel, theirs, done)
                });
            }
            Message::Keys { receives, sends } => return self.hear_keys(id, receives, sends),
            // An intent or a channel that has ended in the meantime.
            Message::Announce { channel, .. } => {
                let (peer, token) = (reader.peer, None);
                reader.link.send(Message::Announced { channel, token });
                self.refuse(&format!(
                    "{peer} has announced a connection and was refused: by an intent that it has not asked for, or that has \
                     ended"
                ));
            }
            Message::Abandon { channel, .. } => {
                let done = true;
                reader.link.send(Message::Abandoned { channel, done });
            }
            _ => return false,
        }
        true
    }

    fn refuse_release(&mut self, id: LinkId, version: u16) {
        let Some(reader) = self.readers.get(&id) else {
            return;
        };
        let peer = reader.peer;
        reader.tell(Message::Unwelcome {
            message: "it is of another release; install the same one on both machines".to_owned(),
            again: false,
        });
        self.refuse(&other_release(peer, version));
    }

    /// Its windows go by the session of another connection, of a NIC at this address.
    pub(super) fn joins(&mut self, id: LinkId, of: LinkId, session: u8, ip: u32) {
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.greeted = true;
            (reader.session, reader.joined, reader.ip) = (Some(session), Some(of), ip);
            reader.tell(Message::Joined);
        }
    }

    /// Has this side's end of the session opened; [`Coordinator::greeted`] follows.
    fn greet(&self, id: LinkId, theirs: u8, identity: Identity, start: Start) {
        let mut peer = self.peer_address(theirs, identity, start);
        let secret = self.readers.get(&id).and_then(|reader| reader.secret);
        let greeting = Greeting {
            ip: identity.ip,
            session: theirs,
            start,
        };
        self.engine.post(move |engine| {
            let opened = engine.nic().reserve_session().and_then(|own| {
                let keys =
                    secret.map(|secret| Keys::new(secret, (theirs, own, start.epoch), false));
                peer.keys = keys.and_then(|keys| keys.entry(0));
                let opened = engine.open_session(own, &peer);
                if opened.is_err() {
                    engine.close_session(own);
                }
                opened.map(|()| (own, engine.nic().identity()))
            });
            engine.say(Input::Greeted(id, greeting, opened));
        });
    }

    pub(super) fn greeted(
        &mut self,
        id: LinkId,
        greeting: Greeting,
        opened: Result<(u8, Identity), Refusal>,
    ) {
        match (opened, self.readers.get_mut(&id)) {
            (Ok((own, identity)), Some(reader)) => {
                (reader.session, reader.ip) = (Some(own), greeting.ip);
                reader.theirs = greeting.session;
                let of = (greeting.session, own, greeting.start.epoch);
                reader.keys = reader.secret.map(|secret| Keys::new(secret, of, false));
                reader.link.send(Self::hello(own, identity, greeting.start));
            }
            (Ok((own, _)), None) => self.close_session(Some(own)),
            (Err(why), Some(reader)) => {
                // It may try again.
                reader.greeted = false;
                reader.link.send(Message::Unwelcome {
                    again: why.errno == Errno::ADDRINUSE,
                    message: why.message,
                });
            }
            (Err(_), None) => {}
        }
    }

    /// Asks the server; the answer comes as an [`Input::Answered`].
    fn ask<T: 'static>(
        &self,
        id: LinkId,
        owed: Option<Owed>,
        question: impl FnOnce(Answer<T>) -> Event,
        answered: impl FnOnce(T) -> Answered + Send + 'static,
    ) {
        let inputs = self.inputs.clone();
        self.tell(question(Answer::new(move |value| {
            let answered = Input::Answered(id, answered(value), owed);
            inputs.send(answered).is_ok()
        })));
    }

    fn ask_for_window(&self, id: LinkId, owed: Option<Owed>, window: u64, token: Token) {
        let Some(peer) = self.readers.get(&id).map(|reader| reader.peer) else {
            return;
        };
        let question = |answer| Event::Ask {
            peer,
            token,
            answer,
        };
        let open = move |granted| Answered::Open(window, Box::new(granted));
        self.ask(id, owed, question, open);
    }

    /// The server has answered what another daemon has asked; that one may be gone.
    pub(super) fn answered(&mut self, id: LinkId, answered: Answered) {
        let reader = self.readers.get_mut(&id);
        match (answered, reader) {
            (Answered::Intend(question, intent), Some(reader)) => {
                reader.intents.extend(intent);
                reader.link.send(Message::Intended { question, intent });
            }
            (Answered::Intend(_, intent), None) => {
                if let Some(intent) = intent {
                    self.tell(Event::Unintend { intent });
                }
            }
            (Answered::Announce(channel, token), Some(reader)) => {
                reader.channels.extend(token.map(|token| token.region));
                reader.link.send(Message::Announced { channel, token });
            }
            (Answered::Announce(_, token), None) => {
                if let Some(token) = token {
                    let window = token.region;
                    self.tell(Event::Lost { window });
                }
            }
            (Answered::Abandon(channel, theirs, done), Some(reader)) => {
                if done {
                    reader.channels.remove(&theirs);
                }
                reader.link.send(Message::Abandoned { channel, done });
            }
            (Answered::Abandon(..), None) => {}
            (Answered::Open(window, granted), _) => {
                let granted = granted.and_then(|granted| self.grant(id, window, &granted));
                if let Err(why) = granted {
                    self.deny(id, window, why);
                }
            }
        }
    }

    fn deny(&self, id: LinkId, window: u64, why: Refusal) {
        if let Some(reader) = self.readers.get(&id) {
            reader.link.send(Message::Denied {
                window,
                errno: why.errno.raw_os_error(),
                message: why.message,
            });
        }
    }

    /// The server allows it: lets the other machine's NIC do what the token says.
    fn grant(&mut self, id: LinkId, window: u64, granted: &Granted<Handle>) -> Result<(), Refusal> {
        let grant = granted.grant;
        let asked = Asked {
            link: id,
            window,
            grant,
            token: granted.token,
        };
        let shared = match self.readers.get(&id) {
            Some(reader) => self.share(granted, reader, asked),
            None => Err(refusal(Errno::CONNRESET, "the connection is closed")),
        };
        if shared.is_err() {
            let lost = true;
            self.tell(Event::Ended { grant, lost });
        } else {
            self.sharing.insert(grant);
        }
        shared
    }

    /// The NIC has been told of memory that another machine may use.
    pub(super) fn shared(&mut self, asked: Asked, result: Result<Shared, Refusal>) {
        let Asked {
            link,
            window,
            grant,
            token,
        } = asked;
        if !self.sharing.remove(&grant) {
            // It was withdrawn meanwhile: with its token, or because another's is taken back and the region moves. The server knows.
            if let Ok(Shared { key, .. }) = result {
                self.unshare(key);
            }
            let lost = true;
            self.tell(Event::Ended { grant, lost });
            return self.ask_for_window(link, None, window, token);
        }
        match (result, self.readers.get_mut(&link)) {
            (Ok(Shared { key, tag }), Some(reader)) => {
                reader.grants.insert(grant, key);
                reader.link.send(Message::Opened {
                    window,
                    grant,
                    key,
                    tag,
                    rights: token.rights,
                });
            }
            (shared, _) => {
                let lost = true;
                self.tell(Event::Ended { grant, lost });
                match shared {
                    Ok(shared) => self.unshare(shared.key),
                    Err(why) => self.deny(link, window, why),
                }
            }
        }
    }

    /// [`Coordinator::shared`] follows.
    fn share(
        &self,
        granted: &Granted<Handle>,
        reader: &Reader,
        asked: Asked,
    ) -> Result<(), Refusal> {
        let token = &granted.token;
        let narrow = |value: u64| {
            u32::try_from(value).map_err(|_| {
                refusal(
                    Errno::FBIG,
                    "other machines can use the first 4 GB of a region; export a part of it",
                )
            })
        };
        let share = Share {
            first: narrow(token.first)?,
            bytes: narrow(token.bytes)?,
            read: token.rights.can_read(),
            write: token.rights.can_write(),
            from: (reader.ip, !0),
            sealed: reader.secret.is_some(),
            // Others at the same address have sessions of their own.
            session: reader.session,
        };
        let bytes = usize::try_from(granted.region_bytes)
            .map_err(|_| refusal(Errno::FBIG, "the region is larger than memory"))?;
        let sleeper = match granted.sleeper.clone() {
            Sleeping::Page(page) => Sleeper::Page(page),
            Sleeping::End(half) => {
                let channel = map_channel(&granted.memory).map_err(|error| {
                    let errno = Errno::from_raw_os_error(error.errno());
                    refusal(
                        errno,
                        format!("the daemon could not map a channel: {error}"),
                    )
                })?;
                let word = Carrier::armed_at(half, channel.lines());
                Sleeper::End(word, Carrier::new(Arc::new(channel), half))
            }
        };
        let memory = Memory {
            memory: granted.memory.clone(),
            bytes,
            event: granted.event.clone(),
            sleeper,
        };
        self.engine
            .post(move |engine| engine.share(&memory, &share, asked));
        Ok(())
    }

    /// Ends what the NIC lets another machine do. What is posted to its thread afterwards comes when nothing is written any
    /// more.
    fn unshare(&self, key: u16) {
        self.engine.post(move |engine| engine.nic().unshare(key));
    }

    /// A grant ends here. [`Event::Withdrawn`] follows, also if it had ended before: its end may be under way.
    pub(super) fn withdraw(&mut self, grant: u64) {
        self.sharing.remove(&grant);
        let key = self.readers.values_mut().find_map(|reader| {
            let key = reader.grants.remove(&grant)?;
            reader.link.send(Message::Withdrawn { grant });
            Some(key)
        });
        let inbox = self.inbox.clone();
        self.engine.post(move |engine| {
            if let Some(key) = key {
                engine.nic().unshare(key);
            }
            inbox.send(Event::Withdrawn { grant });
        });
    }

    /// Nobody knows a channel any more.
    pub(super) fn forgotten(&mut self, channel: u64) {
        for reader in self.readers.values_mut() {
            reader.channels.remove(&channel);
        }
        for writer in self.writers.values_mut() {
            writer.channels.remove(&channel);
        }
    }

    pub(super) fn reader_closed(&mut self, id: LinkId) {
        let Some(reader) = self.readers.remove(&id) else {
            return;
        };
        for (grant, key) in reader.grants {
            let inbox = self.inbox.clone();
            self.engine.post(move |engine| {
                engine.nic().unshare(key);
                let lost = true;
                inbox.send(Event::Ended { grant, lost });
            });
        }
        for intent in reader.intents {
            self.tell(Event::Unintend { intent });
        }
        for window in reader.channels {
            self.tell(Event::Lost { window });
        }
        self.end_session(id, reader.session, reader.joined);
    }
}
