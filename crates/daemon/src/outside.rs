// SPDX-License-Identifier: Apache-2.0
//! Between the server's thread and those that speak with other machines: what comes from there.
//!
//! The server's thread calls an [`Outside`], which never blocks; the other threads send [`Event`]s, which wake the
//! server.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;

use ipc::token::Token;
use rustix::event::EventfdFlags;

use crate::Error;
use crate::machine::Handle;
use crate::state::{Granted, Refusal};

/// What speaks with other machines. The server's thread calls it, so nothing here may block; dropped, it ends.
pub trait Outside: std::fmt::Debug + Send {
    /// A process wants a window on the region of another machine's token. The answer is [`Event::Opened`].
    fn open(&mut self, window: u64, token: Token);
    /// Its holder has no more use of it; it may not be open yet.
    fn close(&mut self, window: u64);
    /// A grant of this machine's ends, because its token was revoked or its owner is gone.
    fn withdraw(&mut self, grant: u64);
    /// The machines it speaks with.
    fn peers(&self) -> Vec<Ipv4Addr>;
    /// A process is about to connect to an address of another machine. The answer is [`Event::Intended`].
    fn intend(&mut self, question: u64, peer: Ipv4Addr, to: SocketAddr);
    /// It does not connect after all.
    fn unintend(&mut self, peer: Ipv4Addr, intent: u64);
    /// It has connected, or is about to, or sends datagrams. The answer is [`Event::Announced`].
    fn announce(&mut self, peer: Ipv4Addr, announcement: Announcement);
    /// It does not wait for the acceptor any longer. The answer is [`Event::Abandoned`].
    fn abandon(&mut self, peer: Ipv4Addr, channel: u64, theirs: u64);
    /// From now on what the end on this machine writes goes to the copy that the token is for.
    fn carry(&mut self, channel: u64, token: Token, end: Half);
    /// Nobody has the end on this machine any more: its last words are carried, and no more.
    fn desert(&mut self, channel: u64);
    /// Nobody knows the channel any more.
    fn forgotten(&mut self, channel: u64);
    /// Memory for `bytes` bytes of a channel, if not any will do.
    ///
    /// # Errors
    /// If there is no more of it.
    fn memory(&mut self, bytes: usize) -> Result<Option<OwnedFd>, Refusal>;
    /// A tether for a process that gets the end of a channel: it sends a byte there when it has written while the NIC's
    /// thread slept. When it and all that have inherited the tether are gone, and all other tethers of the channel,
    /// [`Event::Untethered`] follows.
    ///
    /// # Errors
    /// If there are no more descriptors.
    fn tether(&mut self, channel: u64) -> Result<Handle, Refusal>;
    /// Whether a channel has got a tether since so many of all channels' were made.
    fn is_tied_since(&self, channel: u64, tethers: u64) -> bool;
}

/// What one daemon tells the other about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// This machine's number of the channel.
    pub channel: u64,
    /// The other machine's of the intent; none for datagrams.
    pub intent: Option<u64>,
    /// The client's or sender's address.
    pub from: SocketAddr,
    /// The server's or receiver's.
    pub to: SocketAddr,
    /// For this machine's copy of the channel.
    pub token: Token,
}

/// The end of a channel that is on this machine.
#[derive(Clone, Debug)]
pub struct Half {
    /// This machine's copy of the channel.
    pub memory: Handle,
    /// 0 or 1.
    pub half: usize,
}

/// A window on another machine's region, as its holder gets it.
#[derive(Debug)]
pub struct Opened {
    /// The operations ring: a memfd.
    pub ring: OwnedFd,
    /// Its event counter.
    pub event: OwnedFd,
}

/// Where the answer to a question goes.
pub struct Answer<T>(Box<dyn FnOnce(T) -> bool + Send>);

impl<T> Answer<T> {
    /// `give` takes it; whether anybody will hear it.
    pub fn new(give: impl FnOnce(T) -> bool + Send + 'static) -> Self {
        Self(Box::new(give))
    }

    /// Answers; `false`: nobody is there any more.
    #[must_use]
    pub fn give(self, value: T) -> bool {
        (self.0)(value)
    }
}

impl<T> std::fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answer")
    }
}

/// What happens outside.
#[derive(Debug)]
pub enum Event {
    /// A window that was asked for is open, or is refused.
    Opened {
        /// The window.
        window: u64,
        /// What its holder gets.
        result: Result<Opened, Refusal>,
    },
    /// Another machine's daemon shows a token of this machine's.
    Ask {
        /// The other machine.
        peer: Ipv4Addr,
        /// Its token.
        token: Token,
        /// Where the answer goes.
        answer: Answer<Result<Granted<Handle>, Refusal>>,
    },
    /// The other machine has no more use of a grant, or is lost.
    Ended {
        /// The grant.
        grant: u64,
        /// It is lost.
        lost: bool,
    },
    /// By a grant that was [withdrawn](Outside::withdraw) nothing is written any more.
    Withdrawn {
        /// The grant.
        grant: u64,
    },
    /// The other machine cannot be reached any more.
    Lost {
        /// A window on its memory, or a channel to it.
        window: u64,
    },
    /// The other machine has taken its token back.
    Revoked {
        /// The window of this token, or the channel.
        window: u64,
    },
    /// The answer to [`Outside::intend`].
    Intended {
        /// As asked.
        question: u64,
        /// The other machine's number; none if it knows no such listener, or is not reached.
        intent: Option<u64>,
    },
    /// The answer to [`Outside::announce`].
    Announced {
        /// As asked.
        channel: u64,
        /// For the other machine's copy; none if the connection is the kernel's.
        token: Option<Token>,
    },
    /// The answer to [`Outside::abandon`].
    Abandoned {
        /// As asked.
        channel: u64,
        /// Whether the connection is the kernel's now.
        done: bool,
    },
    /// The other machine has refused a store into a channel that it has not ended.
    Stuck {
        /// The channel.
        channel: u64,
    },
    /// No process has the end of a channel.
    Untethered {
        /// The channel.
        channel: u64,
        /// How many tethers had been made by then.
        tethers: u64,
    },
    /// A process of another machine is about to connect to an address here.
    AskIntend {
        /// The other machine.
        peer: Ipv4Addr,
        /// Where to.
        to: SocketAddr,
        /// Where the answer goes.
        answer: Answer<Option<u64>>,
    },
    /// It does not after all.
    Unintend {
        /// As answered.
        intent: u64,
    },
    /// It has connected, or sends datagrams.
    AskAnnounce {
        /// The other machine.
        peer: Ipv4Addr,
        /// What its daemon says; the intent is one of this machine's.
        announcement: Announcement,
        /// Where the answer goes: for this machine's copy.
        answer: Answer<Option<Token>>,
    },
    /// So many connections to this daemon were refused.
    Refused {
        /// How many.
        count: u64,
    },
    /// It does not wait for an acceptor any longer.
    AskAbandon {
        /// The other machine.
        peer: Ipv4Addr,
        /// This machine's number of the channel.
        channel: u64,
        /// Where the answer goes.
        answer: Answer<bool>,
    },
}

/// Where the server takes events from.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<Event>,
    /// Readable when there are some.
    pub wake: Arc<OwnedFd>,
}

/// Where events are put; every thread has a clone.
#[derive(Clone, Debug)]
pub struct Inbox {
    sender: mpsc::Sender<Event>,
    wake: Arc<OwnedFd>,
}

/// A pair.
pub fn events() -> Result<(Inbox, Events), Error> {
    let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map(Arc::new)
        .map_err(|source| Error::System {
            what: "make an event counter",
            source,
        })?;
    let (sender, receiver) = mpsc::channel();
    let inbox = Inbox {
        sender,
        wake: Arc::clone(&wake),
    };
    Ok((inbox, Events { receiver, wake }))
}

impl Inbox {
    /// Tells the server; when it has ended, nobody.
    pub fn send(&self, event: Event) {
        if self.sender.send(event).is_ok() {
            // It can only fail when the server has been woken 2^64 times.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Events {
    /// There may be more to take.
    pub fn again(&self) {
        // As in `send`.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// The next one. Call it until there is none.
    pub fn take(&self) -> Option<Event> {
        // First the wake-up, then the events: one that comes in between wakes again.
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
        self.receiver.try_recv().ok()
    }
}
