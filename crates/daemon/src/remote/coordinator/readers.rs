// SPDX-License-Identifier: Apache-2.0
//! Other machines that write to memory here.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ipnuma::token::Token;
use rustix::io::Errno;
use softnic::{Identity, Segment, Share, Shared};

use super::{Coordinator, MOST_READERS, nic_result, refusal};
use crate::machine::Handle;
use crate::outside::Event;
use crate::remote::link::{Link, LinkId};
use crate::remote::messages::{Message, VERSION};
use crate::state::{Granted, Refusal};

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
                let answer = match self.grant(id, &token) {
                    Ok((grant, shared)) => Message::Opened {
                        window,
                        grant,
                        key: shared.key,
                        tag: shared.tag,
                        rights: token.rights,
                    },
                    Err(why) => Message::Denied {
                        window,
                        errno: why.errno.raw_os_error(),
                        message: why.message,
                    },
                };
                if let Some(reader) = self.readers.get(&id) {
                    reader.link.send(answer);
                }
            }
            Message::Close { grant } => {
                // It may have been withdrawn at the same time.
                if let Some(key) = reader.grants.remove(&grant) {
                    self.unshare(key);
                    self.tell(Event::Ended { grant });
                }
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

    /// Asks the server what the token allows, and lets the other machine's NIC do it.
    fn grant(&mut self, id: LinkId, token: &Token) -> Result<(u64, Shared), Refusal> {
        let Some(reader) = self.readers.get(&id) else {
            return Err(refusal(Errno::CONNRESET, "the connection is closed"));
        };
        let (peer, ip) = (reader.peer, reader.ip);
        let (answer, answered) = mpsc::channel();
        self.tell(Event::Ask {
            peer,
            token: *token,
            answer,
        });
        let granted = loop {
            match answered.recv_timeout(LOOK) {
                Ok(granted) => break granted?,
                Err(mpsc::RecvTimeoutError::Timeout) if !self.stop.is_set() => {}
                Err(_) => return Err(refusal(Errno::CONNREFUSED, "the daemon ends")),
            }
        };
        let grant = granted.grant;
        let shared = self.share(&granted, ip);
        match (shared, self.readers.get_mut(&id)) {
            (Ok(shared), Some(reader)) => {
                reader.grants.insert(grant, shared.key);
                Ok((grant, shared))
            }
            (shared, _) => {
                self.tell(Event::Ended { grant });
                Err(shared
                    .err()
                    .unwrap_or_else(|| refusal(Errno::CONNRESET, "the connection is closed")))
            }
        }
    }

    fn share(&self, granted: &Granted<Handle>, ip: u32) -> Result<Shared, Refusal> {
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
        let (memory, event) = (granted.memory.clone(), granted.event.clone());
        let signal = granted.signal.clone();
        nic_result(self.engine.call(move |engine| {
            let segment = Segment::map(memory.as_fd(), bytes)?;
            let segment = segment.with_wake(event, Some(signal.as_fd()))?;
            engine.nic().share(&segment, &share)
        }))
    }

    fn unshare(&self, key: u16) {
        // Without a NIC nothing is written any more.
        let _ = self.engine.call(move |engine| engine.nic().unshare(key));
    }

    /// A grant ends here: when this is done nothing is written through it any more.
    pub(super) fn withdraw(&mut self, grant: u64) {
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
            self.tell(Event::Ended { grant });
        }
        self.close_session(reader.session);
    }
}
