// SPDX-License-Identifier: Apache-2.0
//! Other machines that write to memory here.

use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ipnuma::channel::{Carrier, Channel};
use ipnuma::token::Token;
use rustix::io::Errno;
use softnic::{Identity, Share, Shared};

use super::{Asked, Coordinator, MOST_READERS, refusal};
use crate::machine::Handle;
use crate::outside::{Announcement, Event};
use crate::remote::link::{Link, LinkId};
use crate::remote::messages::{Message, VERSION};
use crate::remote::nic::{Memory, Sleeper};
use crate::state::{Granted, Refusal, Sleeping};

/// How often it looks whether the daemon ends while it waits for the server.
const LOOK: Duration = Duration::from_millis(50);

/// A connection that another daemon has made.
#[derive(Debug)]
pub struct Reader {
    pub peer: Ipv4Addr,
    link: Link,
    /// When it came.
    pub since: Instant,
    /// Own number of the session.
    pub session: Option<u8>,
    /// Its NIC's address.
    ip: u32,
    /// Keys of what it may use.
    grants: HashMap<u64, u16>,
    /// Its processes' intents here.
    intents: BTreeSet<u64>,
    /// Channels here that it has announced.
    channels: BTreeSet<u64>,
}

impl Coordinator {
    pub(super) fn accepted(&mut self, stream: TcpStream, peer: Ipv4Addr) {
        if self.readers.len() >= MOST_READERS {
            return;
        }
        let id = self.fresh_link();
        // One that is gone at once has nothing to say.
        if let Ok(link) = Link::accepted(id, stream, self.inputs.clone()) {
            let reader = Reader {
                peer,
                link,
                since: Instant::now(),
                session: None,
                ip: 0,
                grants: HashMap::new(),
                intents: BTreeSet::new(),
                channels: BTreeSet::new(),
            };
            self.readers.insert(id, reader);
        }
    }

    /// `false` for a message that has no place here.
    pub(super) fn tell_reader(&mut self, id: LinkId, message: Message) -> bool {
        let Some(reader) = self.readers.get_mut(&id) else {
            return true;
        };
        match message {
            Message::Hello {
                version,
                mac,
                ip,
                session,
                epoch,
            } if reader.session.is_none() => {
                let answer = if version == VERSION {
                    self.greet(id, session, Identity { mac, ip }, epoch)
                } else {
                    Message::Unwelcome {
                        message: "it is of another release; install the same one on both machines"
                            .to_owned(),
                        again: false,
                    }
                };
                if let Some(reader) = self.readers.get(&id) {
                    reader.link.send(answer);
                }
            }
            Message::Open { window, token } if reader.session.is_some() => {
                if let Err(why) = self.grant(id, window, &token) {
                    self.deny(id, window, why);
                }
            }
            Message::Close { grant } => {
                // It may have been withdrawn at the same time.
                if let Some(key) = reader.grants.remove(&grant) {
                    // The writer has given it up itself: there is nothing to wait for.
                    self.engine.post(move |engine| engine.nic().unshare(key));
                    let lost = false;
                    self.tell(Event::Ended { grant, lost });
                }
            }
            Message::Intend { question, to } if reader.session.is_some() => {
                let intent = self.ask(|answer| Event::AskIntend { to, answer }).flatten();
                if let Some(reader) = self.readers.get_mut(&id) {
                    reader.intents.extend(intent);
                    reader.link.send(Message::Intended { question, intent });
                }
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
            } if reader.intents.remove(&intent) => {
                let peer = reader.peer;
                let announcement = Announcement {
                    channel,
                    intent,
                    from,
                    to,
                    token,
                };
                let token = self.ask(|answer| Event::AskAnnounce {
                    peer,
                    announcement,
                    answer,
                });
                let token = token.flatten();
                if let Some(reader) = self.readers.get_mut(&id) {
                    reader.channels.extend(token.map(|token| token.region));
                    reader.link.send(Message::Announced { channel, token });
                }
            }
            Message::Abandon { channel, theirs } if reader.channels.contains(&theirs) => {
                let peer = reader.peer;
                let done = self.ask(|answer| Event::AskAbandon {
                    peer,
                    channel: theirs,
                    answer,
                });
                if let Some(reader) = self.readers.get_mut(&id) {
                    let done = done.unwrap_or(true);
                    reader.link.send(Message::Abandoned { channel, done });
                }
            }
            // An intent or a channel that has ended in the meantime.
            Message::Announce { channel, .. } => {
                let token = None;
                reader.link.send(Message::Announced { channel, token });
            }
            Message::Abandon { channel, .. } => {
                let done = true;
                reader.link.send(Message::Abandoned { channel, done });
            }
            _ => return false,
        }
        true
    }

    /// Opens this side's end of the session.
    fn greet(&mut self, id: LinkId, theirs: u8, identity: Identity, epoch: u8) -> Message {
        let opened = self.hello(epoch).and_then(|(own, hello)| {
            if let Err(why) = self.open_session(own, theirs, identity, epoch) {
                self.close_session(Some(own));
                return Err(why);
            }
            Ok((own, hello))
        });
        match (opened, self.readers.get_mut(&id)) {
            (Ok((own, hello)), Some(reader)) => {
                (reader.session, reader.ip) = (Some(own), identity.ip);
                hello
            }
            (Ok((_, hello)), None) => hello,
            (Err(why), _) => Message::Unwelcome {
                again: why.errno == Errno::ADDRINUSE,
                message: why.message,
            },
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

    /// Asks the server what the token allows, and lets the other machine's NIC do it.
    fn grant(&mut self, id: LinkId, window: u64, token: &Token) -> Result<(), Refusal> {
        let Some(reader) = self.readers.get(&id) else {
            return Err(refusal(Errno::CONNRESET, "the connection is closed"));
        };
        let (peer, ip) = (reader.peer, reader.ip);
        let granted = self.ask(|answer| Event::Ask {
            peer,
            token: *token,
            answer,
        });
        let ends = || refusal(Errno::CONNREFUSED, "the daemon ends");
        let granted = granted.ok_or_else(ends)??;
        let grant = granted.grant;
        let asked = Asked {
            link: id,
            window,
            grant,
            rights: token.rights,
        };
        let shared = self.share(&granted, ip, asked);
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
            rights,
        } = asked;
        let result = match self.sharing.remove(&grant) {
            true => result,
            false => result.and_then(|shared| {
                self.unshare(shared.key);
                Err(refusal(
                    Errno::KEYREVOKED,
                    "the token was revoked by its owner",
                ))
            }),
        };
        match (result, self.readers.get_mut(&link)) {
            (Ok(Shared { key, tag }), Some(reader)) => {
                reader.grants.insert(grant, key);
                reader.link.send(Message::Opened {
                    window,
                    grant,
                    key,
                    tag,
                    rights,
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

    /// Asks the server, which answers at once; `None` if the daemon ends.
    fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> Event) -> Option<T> {
        let (answer, answered) = mpsc::channel();
        self.tell(question(answer));
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(answer) => return Some(answer),
                Err(mpsc::RecvTimeoutError::Timeout) if !self.stop.is_set() => {}
                Err(_) => return None,
            }
        }
    }

    /// [`Coordinator::shared`] follows.
    fn share(&self, granted: &Granted<Handle>, ip: u32, asked: Asked) -> Result<(), Refusal> {
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
            from: (ip, !0),
            sealed: false,
        };
        let bytes = usize::try_from(granted.region_bytes)
            .map_err(|_| refusal(Errno::FBIG, "the region is larger than memory"))?;
        let sleeper = match granted.sleeper.clone() {
            Sleeping::Page(page) => Sleeper::Page(page),
            Sleeping::End(half) => {
                let channel = Channel::map(&granted.memory).map_err(|error| {
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

    /// When it returns nothing is written any more.
    fn unshare(&self, key: u16) {
        let _ = self.engine.call(move |engine| engine.nic().unshare(key));
    }

    /// A grant ends here: when this is done nothing is written through it any more.
    pub(super) fn withdraw(&mut self, grant: u64) {
        self.sharing.remove(&grant);
        let found = self.readers.values_mut().find_map(|reader| {
            let key = reader.grants.remove(&grant)?;
            reader.link.send(Message::Withdrawn { grant });
            Some(key)
        });
        if let Some(key) = found {
            self.unshare(key);
        }
    }

    pub(super) fn reader_closed(&mut self, id: LinkId) {
        let Some(reader) = self.readers.remove(&id) else {
            return;
        };
        for (grant, key) in reader.grants {
            self.unshare(key);
            let lost = true;
            self.tell(Event::Ended { grant, lost });
        }
        for intent in reader.intents {
            self.tell(Event::Unintend { intent });
        }
        for window in reader.channels {
            self.tell(Event::Lost { window });
        }
        self.close_session(reader.session);
    }
}
