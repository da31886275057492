// SPDX-License-Identifier: Apache-2.0
//! Connections between programs of two machines: questions to the other daemon, and the ends of channels that are carried.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use host::backend::rack::map_channel;
use ipc::token::Token;
use shm::channel::Carrier;

use super::Coordinator;
use crate::outside::{Announcement, Event, Half};
use crate::remote::carry::Carried;
use crate::remote::messages::Message;
use crate::remote::nic::WindowId;

/// How long a program waits for its connect because its daemon looks for another machine's.
const HURRY: Duration = Duration::from_millis(250);
/// The same, of one that has answered before.
const BUSY: Duration = Duration::from_secs(1);
/// How long a daemon that was not there is not looked for.
const ABSENCE: Duration = Duration::from_secs(5);

/// The end of a channel that is on this machine.
#[derive(Clone, Debug)]
pub struct End {
    carrier: Carrier,
    deserted: bool,
}

impl End {
    /// With its window.
    pub fn carried(self, window: WindowId, session: u8, key: u16) -> Carried {
        let mut carried = Carried::new(self.carrier, window, session, key);
        if self.deserted {
            carried.desert();
        }
        carried
    }
}

/// Whether a program waits with what it could as well do by the kernel.
fn is_hurried(question: &Message) -> bool {
    matches!(
        question,
        Message::Intend { .. } | Message::Announce { intent: None, .. }
    )
}

impl Coordinator {
    /// Where the daemon of a machine is: at the port that this one has.
    fn daemon_of(&self, peer: Ipv4Addr) -> SocketAddrV4 {
        SocketAddrV4::new(peer, self.own.port())
    }

    pub(super) fn intend(&mut self, question: u64, peer: Ipv4Addr, to: SocketAddr) {
        let daemon = self.daemon_of(peer);
        if self.is_absent(daemon) {
            let intent = None;
            self.tell(Event::Intended { question, intent });
            return;
        }
        self.writer_to(daemon)
            .question(question, Message::Intend { question, to });
    }

    pub(super) fn unintend(&mut self, peer: Ipv4Addr, intent: u64) {
        let daemon = self.daemon_of(peer);
        let found = self.writers.values().find(|writer| writer.peer == daemon);
        if let Some(writer) = found {
            writer.say(Message::Unintend { intent });
        }
    }

    pub(super) fn announce(&mut self, peer: Ipv4Addr, announcement: Announcement) {
        let Announcement {
            channel,
            intent,
            from,
            to,
            token,
        } = announcement;
        let message = Message::Announce {
            channel,
            intent,
            from,
            to,
            token,
        };
        let daemon = self.daemon_of(peer);
        if intent.is_none() && self.is_absent(daemon) {
            return self.unanswered(channel, &message);
        }
        self.writer_to(daemon).question(channel, message);
    }

    /// Whether a daemon that was not there a moment ago is not looked for.
    fn is_absent(&mut self, daemon: SocketAddrV4) -> bool {
        self.absent.retain(|_, since| since.elapsed() < ABSENCE);
        self.absent.contains_key(&daemon)
    }

    pub(super) fn abandon(&mut self, peer: Ipv4Addr, channel: u64, theirs: u64) {
        if !self.ends.contains_key(&channel) {
            // It was lost in the meantime, and perhaps an acceptor with it.
            let done = false;
            self.tell(Event::Abandoned { channel, done });
            return;
        }
        self.writer_to(self.daemon_of(peer))
            .question(channel, Message::Abandon { channel, theirs });
    }

    /// A question will have no answer.
    pub(super) fn unanswered(&self, number: u64, question: &Message) {
        match question {
            Message::Intend { .. } => self.tell(Event::Intended {
                question: number,
                intent: None,
            }),
            Message::Announce { .. } => self.tell(Event::Announced {
                channel: number,
                token: None,
            }),
            // Perhaps an acceptor has come, and has taken what was sent. The connection is lost anyhow.
            _ => self.tell(Event::Abandoned {
                channel: number,
                done: false,
            }),
        }
    }

    /// Programs that are about to connect do not wait for long.
    pub(super) fn hurry(&mut self) {
        let mut late = Vec::new();
        for writer in self.writers.values_mut() {
            let most = if writer.is_up() { BUSY } else { HURRY };
            let intends = writer
                .asked
                .extract_if(|_, (question, since)| is_hurried(question) && since.elapsed() > most);
            late.extend(intends);
        }
        for (number, (question, _)) in late {
            self.unanswered(number, &question);
        }
    }

    pub(super) fn carry(&mut self, channel: u64, token: Token, half: Half) {
        let Ok(mapped) = map_channel(&half.memory) else {
            self.tell(Event::Lost { window: channel });
            return;
        };
        let carrier = Carrier::new(Arc::new(mapped), half.half);
        // The other machine's memory is as large as this one's, or the two do not speak of the same.
        let target = carrier.target();
        if (token.first, token.bytes) != (target.start, target.end - target.start) {
            self.tell(Event::Lost { window: channel });
            return;
        }
        let end = End {
            carrier,
            deserted: false,
        };
        self.ends.insert(channel, end);
        self.open(channel, token);
    }

    pub(super) fn desert(&mut self, channel: u64) {
        if let Some(end) = self.ends.get_mut(&channel) {
            end.deserted = true;
            self.engine.post(move |engine| engine.desert(channel));
        }
    }

    /// There is no room to carry a channel: it is lost.
    pub(super) fn uncarried(&mut self, channel: u64) {
        if self.ends.remove(&channel).is_some() {
            self.close(channel);
            self.tell(Event::Lost { window: channel });
        }
    }

    /// What was refused is lost, so the connection is over at both ends.
    pub(super) fn stuck(&mut self, channel: u64) {
        if self.ends.remove(&channel).is_some() {
            self.close(channel);
            self.tell(Event::Stuck { channel });
        }
    }

    /// All that an end had to say has arrived.
    pub(super) fn put_down(&mut self, channel: u64) {
        if self.ends.remove(&channel).is_some() {
            self.close(channel);
        }
    }
}
