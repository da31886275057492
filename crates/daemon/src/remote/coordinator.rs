// SPDX-License-Identifier: Apache-2.0
//! Decides who speaks with whom, and which window is whose. One thread, which waits for nobody: what the NIC's thread, the
//! server and other machines answer comes as an [`Input`].

mod joins;
mod readers;
mod rekey;
mod sockets;
mod writers;

use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use ipc::token::Token;
use rustix::io::Errno;
use softnic::{Identity, PeerAddress};

use crate::machine::Handle;
use crate::outside::{Announcement, Event, Half, Inbox};
use crate::refusals::Refusals;
use crate::remote::engine;
use crate::remote::link::{Link, LinkId, Owed, Wire};
use crate::remote::messages::{Message, Start, VERSION};
use crate::remote::options::{Options, Transport};
use crate::remote::tls::Secret;
use crate::state::{Granted, Refusal};

use readers::Reader;
pub use rekey::Numbers;
use writers::Writer;

/// What it is told.
#[derive(Debug)]
pub enum Input {
    /// A process wants a window.
    Open(u64, Token),
    /// It has no more use of it.
    Close(u64),
    /// A grant of this machine's ends.
    Withdraw(u64),
    /// Another daemon has connected.
    Accepted(Link, Ipv4Addr, Option<Secret>),
    /// A connection of this daemon's has come about.
    Connected(LinkId, Option<Secret>),
    /// A message has come.
    Arrived(LinkId, Message, Owed),
    /// So many connections were refused.
    Refused(u64),
    /// A connection is closed, or did not come about.
    Closed(LinkId, String),
    /// The NIC does not hear from the peer of a session any more.
    SessionLost(u8),
    /// The NIC's device fails.
    NicFailed(String),
    /// A process is about to connect to an address of another machine.
    Intend(u64, Ipv4Addr, SocketAddr),
    /// It does not after all.
    Unintend(Ipv4Addr, u64),
    /// It has connected.
    Announce(Ipv4Addr, Announcement),
    /// It does not wait for an acceptor any longer.
    Abandon(Ipv4Addr, u64, u64),
    /// What an end of a channel writes is to be carried to the token's memory.
    Carry(u64, Token, Half),
    /// Nobody has the end any more.
    Desert(u64),
    /// All that an end had to say has arrived, or never will.
    Carried(u64),
    /// All that was stored into a closed window has arrived, or never will.
    Left(u64),
    /// No process has the end of a channel.
    Untethered(u64, u64),
    /// Memory is shared, or can't be.
    Shared(Asked, Result<softnic::Shared, softnic::Error>),
    /// The NIC has a number for the session of a connection of this daemon's.
    Reserved(LinkId, Result<(u8, Identity), softnic::Error>),
    /// It has opened that session.
    SessionOpen(LinkId, Result<(), softnic::Error>),
    /// It has reserved and opened the session of another daemon's connection.
    Greeted(LinkId, Greeting, Result<(u8, Identity), softnic::Error>),
    /// It has no room for a window that another machine allows.
    Unmapped(LinkId, u64, u64, softnic::Error),
    /// What the server says to a question of another daemon.
    Answered(LinkId, Answered, Option<Owed>),
    /// A channel is over on both machines.
    Forgotten(u64),
    /// There is no room to carry a channel.
    Uncarried(u64),
    /// A store of a channel was refused, and the other machine does not say that it has ended the channel.
    Stuck(u64),
    /// A session has sent as many frames with its key as it should.
    Worn(u8),
    /// The NIC has taken keys, which makes these the numbers, or has not.
    Keyed(LinkId, Numbers, Result<(), softnic::Error>),
    /// It is time to end.
    Stop,
}

/// A window that another machine's daemon has asked for, and that the token allows.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    link: LinkId,
    window: u64,
    grant: u64,
    token: Token,
}

/// What another daemon has said of its end of a session.
#[derive(Clone, Copy, Debug)]
pub struct Greeting {
    ip: u32,
    /// Its number of the session.
    session: u8,
    start: Start,
}

/// What the server says to a question of another daemon.
#[derive(Debug)]
pub enum Answered {
    /// [`Message::Intend`]
    Intend(u64, Option<u64>),
    /// [`Message::Announce`]
    Announce(u64, Option<Token>),
    /// [`Message::Abandon`]
    Abandon(u64, u64, bool),
    /// [`Message::Open`]
    Open(u64, Box<Result<Granted<Handle>, Refusal>>),
}

/// How often it looks for those who do not answer.
const TICK: Duration = Duration::from_millis(250);
/// How long it waits after it has told how much was refused until it tells of more.
const QUIET: Duration = Duration::from_millis(100);
/// The longest that a daemon may take for an answer although it is there: processes wait for their daemon a little longer.
const LONGEST: Duration = Duration::from_secs(15);

/// First epoch of sessions: the source ports of these are outside of the range from which Linux gives ports to programs.
const FIRST_EPOCH: u8 = 48;
/// Epochs from there on.
const EPOCHS: u8 = 16;

/// The one who decides.
#[derive(Debug)]
pub struct Coordinator {
    options: Options,
    /// By which address tokens know this machine.
    own: SocketAddrV4,
    /// Where its NIC is.
    nic: Ipv4Addr,
    engine: engine::Handle,
    wire: Wire,
    inbox: Inbox,
    inputs: mpsc::Sender<Input>,
    peers: Arc<Mutex<Vec<Ipv4Addr>>>,
    refusals: Refusals,
    /// Of those, so many were not told to the server.
    refused: u64,
    told: Instant,
    /// Connections of this daemon's, by which processes here write.
    writers: HashMap<LinkId, Writer>,
    /// Connections of other daemons', whose processes write to memory here.
    readers: HashMap<LinkId, Reader>,
    /// Grants that the NIC is about to be told of; those that are withdrawn meanwhile are not among them.
    sharing: BTreeSet<u64>,
    /// Ends of channels that are carried, or will be once their windows are open.
    ends: HashMap<u64, sockets::End>,
    /// Daemons that could not be reached, and when.
    absent: HashMap<SocketAddrV4, Instant>,
    epoch: u8,
    /// How the NIC's device failed last.
    failure: Option<String>,
}

fn refusal(errno: Errno, message: impl Into<String>) -> Refusal {
    Refusal::new(errno, message)
}

impl Coordinator {
    pub fn new(
        options: Options,
        (own, nic): (SocketAddrV4, Ipv4Addr),
        engine: engine::Handle,
        wire: Wire,
        inbox: Inbox,
        inputs: mpsc::Sender<Input>,
        (peers, refusals): (Arc<Mutex<Vec<Ipv4Addr>>>, Refusals),
    ) -> Self {
        // So that a daemon that is started anew does not begin with the epoch that it had before.
        let epoch = crate::machine::random().map_or(0, |bytes| bytes[0] % EPOCHS);
        Self {
            options,
            own,
            nic,
            engine,
            wire,
            inbox,
            inputs,
            peers,
            refusals,
            refused: 0,
            told: Instant::now(),
            writers: HashMap::new(),
            readers: HashMap::new(),
            sharing: BTreeSet::new(),
            ends: HashMap::new(),
            absent: HashMap::new(),
            epoch,
            failure: None,
        }
    }

    /// Works until it is told to stop.
    pub fn run(mut self, received: &mpsc::Receiver<Input>) {
        let mut looked = Instant::now();
        loop {
            match received.recv_timeout(TICK) {
                Ok(Input::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Ok(input) => self.take(input),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let passed = looked.elapsed();
            if passed >= TICK {
                looked = Instant::now();
                // While this thread did not run the others could not be heard.
                self.lose_patience(passed.min(TICK * 2));
            }
            self.tell_refused();
            self.list_peers();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Open(window, token) => self.open(window, token),
            Input::Close(window) => self.close(window),
            Input::Withdraw(grant) => self.withdraw(grant),
            Input::Accepted(link, peer, secret) => self.accepted(link, peer, secret),
            Input::Connected(link, secret) => self.connected(link, secret),
            Input::Arrived(link, message, owed) => self.arrived(link, message, owed),
            Input::Refused(count) => self.tell(Event::Refused { count }),
            Input::Closed(link, why) => self.closed(link, &why),
            Input::SessionLost(session) => self.session_lost(session),
            Input::NicFailed(why) => {
                if self.failure.as_ref() != Some(&why) {
                    crate::log(&why);
                    self.failure = Some(why);
                }
            }
            Input::Intend(question, peer, to) => self.intend(question, peer, to),
            Input::Unintend(peer, intent) => self.unintend(peer, intent),
            Input::Announce(peer, announcement) => self.announce(peer, announcement),
            Input::Abandon(peer, channel, theirs) => self.abandon(peer, channel, theirs),
            Input::Carry(channel, token, half) => self.carry(channel, token, half),
            Input::Desert(channel) => self.desert(channel),
            Input::Carried(channel) => self.put_down(channel),
            Input::Left(window) => self.left(window),
            Input::Shared(asked, result) => self.shared(asked, nic_result(Some(result))),
            Input::Reserved(link, result) => self.reserved(link, nic_result(Some(result))),
            Input::SessionOpen(link, result) => self.session_open(link, nic_result(Some(result))),
            Input::Greeted(link, greeting, result) => {
                self.greeted(link, greeting, nic_result(Some(result)));
            }
            Input::Unmapped(link, window, grant, error) => {
                if let Err(why) = nic_result::<()>(Some(Err(error))) {
                    self.unmapped(link, window, grant, why);
                }
            }
            // What was owed is done with when this is.
            Input::Answered(link, answered, _owed) => self.answered(link, answered),
            Input::Forgotten(channel) => self.forgotten(channel),
            Input::Uncarried(channel) => self.uncarried(channel),
            Input::Stuck(channel) => self.stuck(channel),
            Input::Worn(session) => self.worn(session),
            Input::Keyed(link, ours, result) => {
                self.keyed(link, ours, nic_result(Some(result)));
            }
            Input::Untethered(channel, tethers) => {
                self.tell(Event::Untethered { channel, tethers });
            }
            // Seen by `run`.
            Input::Stop => {}
        }
    }

    /// Closes connections to those who do not answer, and of those who do not say who they are. So much time has passed.
    fn lose_patience(&mut self, passed: Duration) {
        let patience = self.patience();
        let longest = (patience * 4).min(LONGEST).max(patience);
        let mut lost = Vec::new();
        for (&link, writer) in &mut self.writers {
            let quiet = writer.listen(passed);
            let late = writer
                .waits_since()
                .is_some_and(|it| it.elapsed() > longest);
            if quiet > patience || late {
                lost.push(link);
            }
        }
        for (&link, reader) in &mut self.readers {
            reader.age += passed;
            if reader.session.is_none() && reader.age > patience {
                lost.push(link);
            }
        }
        for link in lost {
            self.closed(link, "it does not answer");
        }
        self.rekey_old();
        self.hurry();
    }

    fn list_peers(&self) {
        let writers = self.writers.values().map(|writer| *writer.peer.ip());
        let readers = self.readers.values().map(|reader| reader.peer);
        let mut now: Vec<_> = writers.chain(readers).collect();
        now.sort_unstable();
        now.dedup();
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    fn next_start(&mut self) -> Start {
        self.epoch = (self.epoch + 1) % EPOCHS;
        // Without random numbers there are no tokens either, so nothing that could be guessed.
        let random = crate::machine::random().unwrap_or_default();
        Start {
            epoch: FIRST_EPOCH + self.epoch,
            sequence: u32::from_ne_bytes([random[0], random[1], random[2], random[3]]),
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.options.patience.max(1))
    }

    /// Counts what another daemon must not say, and logs a sentence a second at most.
    fn refuse(&mut self, why: &str) {
        self.refusals.say(why);
        self.refused += 1;
    }

    /// Each by itself would keep the server busy.
    fn tell_refused(&mut self) {
        if self.refused > 0 && self.told.elapsed() >= QUIET {
            self.told = Instant::now();
            let count = std::mem::take(&mut self.refused);
            self.tell(Event::Refused { count });
        }
    }

    fn arrived(&mut self, link: LinkId, message: Message, owed: Owed) {
        let name = message.name();
        let writer = self.writers.get(&link).map(|writer| *writer.peer.ip());
        let peer = writer.or_else(|| self.readers.get(&link).map(|reader| reader.peer));
        let understood = if self.writers.contains_key(&link) {
            self.tell_writer(link, message)
        } else if self.readers.contains_key(&link) {
            self.tell_reader(link, message, owed)
        } else {
            // It was closed in the meantime.
            true
        };
        if let (false, Some(peer)) = (understood, peer) {
            self.refuse(&format!(
                "{peer} has said {name} where that makes no sense, and its connection was closed; see that both machines have \
                 the same release of ipnuma"
            ));
            self.closed(link, "it says what makes no sense");
        }
    }

    fn closed(&mut self, link: LinkId, why: &str) {
        self.writer_closed(link, why);
        self.reader_closed(link);
    }

    /// The connection that a session belongs to.
    fn link_of(&self, session: u8) -> Option<LinkId> {
        let of_writer = |(_, writer): &(&LinkId, &Writer)| {
            writer.session == Some(session) && writer.joined.is_none()
        };
        let of_reader = |(_, reader): &(&LinkId, &Reader)| {
            reader.session == Some(session) && reader.joined.is_none()
        };
        let writer = self.writers.iter().find(of_writer).map(|(link, _)| *link);
        let reader = self.readers.iter().find(of_reader).map(|(link, _)| *link);
        writer.or(reader)
    }

    fn session_lost(&mut self, session: u8) {
        if let Some(link) = self.link_of(session) {
            self.closed(link, "its NIC does not answer any more");
        }
    }

    /// How this side's NIC is reached.
    fn hello(session: u8, identity: Identity, start: Start) -> Message {
        let Identity { mac, ip } = identity;
        Message::Hello {
            version: VERSION,
            mac,
            ip,
            session,
            start,
        }
    }

    /// The other side's end of a session, as the NIC has to know it.
    fn peer_address(&self, theirs: u8, identity: Identity, start: Start) -> PeerAddress {
        // Keys come when both numbers of the session are known.
        let mut identity = identity;
        if matches!(self.options.nic, Transport::Xdp(..)) {
            // The other side may not know its own: a UDP socket has none.
            identity.mac = neighbour(identity.ip.into()).unwrap_or(identity.mac);
        }
        PeerAddress {
            identity,
            session: theirs,
            epoch: start.epoch,
            start: start.sequence,
            compact: true,
            keys: None,
        }
    }

    fn close_session(&self, session: Option<u8>) {
        if let Some(session) = session {
            self.engine
                .post(move |engine| engine.close_session(session));
        }
    }

    fn tell(&self, event: Event) {
        self.inbox.send(event);
    }
}

/// What the NIC's thread has answered; nothing if it has ended.
pub fn nic_result<T>(result: Option<Result<T, softnic::Error>>) -> Result<T, Refusal> {
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => {
            let errno = match error {
                softnic::Error::Full { .. } => Errno::NOSPC,
                softnic::Error::Range { .. } => Errno::INVAL,
                softnic::Error::Memory { .. } => Errno::NOMEM,
                softnic::Error::Port { .. } => Errno::ADDRINUSE,
                _ => Errno::IO,
            };
            Err(refusal(errno, error.to_string()))
        }
        None => Err(refusal(
            Errno::IO,
            "the daemon's NIC has ended; start the daemon anew",
        )),
    }
}

/// The MAC address of a machine on the same network, which the kernel knows because it has just spoken with it.
fn neighbour(ip: Ipv4Addr) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/arp").ok()?;
    let ip = ip.to_string();
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let found = words.next()? == ip;
        // Hardware type and flags stand in between.
        let mac = words.nth(2)?;
        found.then(|| super::options::parse_mac(mac))?
    })
}

/// How the machine of a token is called in messages.
fn named(peer: SocketAddrV4) -> String {
    format!("the daemon at {peer}")
}
