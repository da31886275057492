// SPDX-License-Identifier: Apache-2.0
//! What the daemon knows, apart from sockets and clocks: requests go in, answers and notices come out.
//!
//! Whatever touches the machine (memory, addresses, randomness) goes through [`Machine`], so that tests can stand in
//! for it. Time is what the caller says it is.

mod address;
mod datagrams;
mod directory;
mod far;
mod far_datagrams;
mod guests;
mod limits;
mod outside;
mod regions;
mod shown;
mod status;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipc::protocol::{self, Notice, Reply, Request, notice_page};
use rustix::io::Errno;

pub use far::Announced;
pub use far_datagrams::Asked;
pub use limits::Limits;
pub use outside::{Granted, Sleeping};

use address::Registry;
use regions::{Region, Window};

/// One client of the daemon: a connection to its socket.
pub type ProcessId = u64;

/// Why a request is not done: an error number for the program, and a sentence for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What a system call would give.
    pub errno: Errno,
    /// The thing, the place and the remedy.
    pub message: String,
}

impl Refusal {
    /// A refusal in words.
    pub fn new(errno: Errno, message: impl Into<String>) -> Self {
        Self {
            errno,
            message: message.into(),
        }
    }
}

/// Which rings a channel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One ring each way.
    Stream,
    /// One ring, from the sender to the receiver.
    Datagram,
}

/// What one side of a channel has counted in the channel's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Flags as of now.
    pub flags: u32,
    /// Messages sent.
    pub messages: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Times it slept in the kernel.
    pub sleeps: u64,
    /// Times spinning was enough.
    pub spins_found: u64,
    /// Datagrams dropped.
    pub dropped: u64,
}

/// The machine under the daemon.
pub trait Machine {
    /// Something that can be given to a process: a descriptor, in life.
    type Handle: Clone;

    /// Memory for a region.
    fn memory(&mut self, bytes: u64) -> Result<Self::Handle, Refusal>;
    /// An event counter for a region.
    fn event(&mut self) -> Result<Self::Handle, Refusal>;
    /// What tells who sleeps at the end of a channel of arrivals in its memory: that itself, if it can.
    fn bell(&mut self, memory: &Self::Handle) -> Result<Self::Handle, Refusal> {
        let _ = memory;
        self.event()
    }
    /// The same memory, for reading only. Nobody can map it writable from now on; who has done so goes on.
    fn read_only(&mut self, memory: &Self::Handle) -> Result<Self::Handle, Refusal>;
    /// Memory for a channel, laid out and fresh.
    fn channel(&mut self, kind: Kind) -> Result<Self::Handle, Refusal>;
    /// Memory for a channel to another machine.
    fn far_channel(&mut self) -> Result<Self::Handle, Refusal>;
    /// Its size.
    fn channel_bytes(&self, memory: &Self::Handle) -> u64;
    /// The register of the processes that have ends of channels (see `shm::living`).
    fn living(&mut self) -> Result<Self::Handle, Refusal>;
    /// Wakes whoever sleeps on an event counter.
    fn ring(&mut self, event: &Self::Handle);
    /// Tells both sides, in the channel's memory, that it is revoked.
    fn revoke_channel(&mut self, memory: &Self::Handle);
    /// What the two sides have counted, client or sender first.
    fn counters(&self, memory: &Self::Handle) -> Option<[Counted; 2]>;
    /// Whether a process has the kernel's socket of a connection, or had it within the last `age`. Also if that is not known
    /// yet.
    fn is_open(&mut self, own: SocketAddr, peer: SocketAddr, age: Duration) -> bool;
    /// Whether the kernel has a connection with these ends, if only one that nobody has accepted. Also if that cannot be known.
    fn is_connected(&mut self, own: SocketAddr, peer: SocketAddr) -> bool;
    /// Whether this address is one of this machine.
    fn is_local(&mut self, ip: IpAddr) -> bool;
    /// Sixteen bytes that nobody can guess.
    fn secret(&mut self) -> Result<[u8; 16], Refusal>;
}

/// The answer to one request, with what goes along.
#[derive(Clone, Debug)]
pub struct Answer<H> {
    /// The reply.
    pub reply: Reply,
    /// Descriptors beside it.
    pub handles: Vec<H>,
}

impl<H> Answer<H> {
    fn new(reply: Reply, handles: impl Into<Vec<H>>) -> Self {
        Self {
            reply,
            handles: handles.into(),
        }
    }

    fn done() -> Self {
        Self::new(Reply::Done, [])
    }

    fn kernel() -> Self {
        Self::new(Reply::Kernel, [])
    }

    /// The answer that a connection to another machine is not worth a NIC in software.
    pub fn kernel_is_faster() -> Self {
        Self::new(Reply::KernelIsFaster, [])
    }

    /// The answer that is a refusal.
    pub fn refused(refusal: Refusal) -> Self {
        Self::new(
            Reply::Error {
                errno: refusal.errno.raw_os_error(),
                message: refusal.message,
            },
            [],
        )
    }
}

/// Something to do beside the answer.
#[derive(Clone, Debug)]
pub enum Effect<H> {
    /// Tell a process.
    Notify {
        /// Whom.
        process: ProcessId,
        /// What.
        notice: Notice,
        /// With which descriptors.
        handles: Vec<H>,
    },
    /// Tell the other machine that a window on its region is no longer used.
    CloseElsewhere {
        /// The window.
        window: u64,
    },
    /// A datagram address came or went: tell every process to ask again.
    AddressesChanged,
    /// A process that was about to connect to another machine does not.
    UnintendElsewhere {
        /// The machine.
        peer: std::net::Ipv4Addr,
        /// Its number of the intent.
        intent: u64,
    },
    /// What the end on this machine writes is to be carried to the other one's copy.
    Carry {
        /// The channel.
        channel: u64,
        /// For the other machine's copy.
        token: ipc::token::Token,
        /// This machine's copy.
        memory: H,
        /// The end.
        half: usize,
    },
    /// Nobody has the end here any more.
    Desert {
        /// The channel.
        channel: u64,
    },
    /// A client's connection to another machine has not come about, or is the kernel's.
    AbandonElsewhere {
        /// The machine.
        peer: std::net::Ipv4Addr,
        /// This machine's number of the channel.
        channel: u64,
        /// The other machine's.
        theirs: u64,
    },
    /// Nobody here knows a channel to another machine any more.
    Forgotten {
        /// The channel.
        channel: u64,
    },
    /// Who waits for the move of a region may have waited long enough.
    Moved {
        /// The region.
        region: u64,
    },
    /// Wakes the owner of a region.
    Ring {
        /// Its event counter.
        event: H,
    },
    /// What another machine's daemon has said was refused: to be logged.
    Refused {
        /// A sentence.
        why: String,
    },
    /// Another machine's use of something here ends.
    Withdraw {
        /// As it was granted.
        grant: u64,
    },
}

/// A process as the daemon sees it.
#[derive(Debug, Default)]
struct Process {
    pid: u32,
    program: String,
    /// It has said hello.
    greeted: bool,
    /// It shares the daemon's network namespace; all others get the kernel's sockets.
    near: bool,
    listeners: HashSet<SocketAddr>,
    addresses: HashSet<SocketAddr>,
    intents: HashMap<u64, SocketAddr>,
    channels: BTreeSet<u64>,
    regions: BTreeSet<u64>,
    region_bytes: u64,
    windows: BTreeSet<u64>,
}

/// One side of a channel.
#[derive(Debug, Default)]
struct Side {
    /// The processes that hold it.
    holders: BTreeSet<ProcessId>,
    /// The one that had it first, for statistics; it may be gone.
    pid: u32,
    program: String,
    /// When its last holder went without a word, or left it to others that have not asked.
    lost: Option<Duration>,
}

#[derive(Debug)]
struct Channel<H> {
    kind: Kind,
    /// Address of the client or sender.
    from: SocketAddr,
    /// Address of the server or receiver.
    to: SocketAddr,
    memory: H,
    born: Duration,
    /// Client or sender, then server or receiver.
    sides: [Side; 2],
    /// The server has asked for it; always so with datagrams, and for clients of other machines' servers.
    taken: bool,
    /// The other end is on another machine.
    far: Option<far::Far<H>>,
}

/// What the daemon is told at its start.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What one process may have.
    pub limits: Limits,
    /// Inode of the network namespace in which addresses are ours.
    pub netns: u64,
    /// Where other machines reach this daemon; tokens name it.
    pub management: Option<std::net::SocketAddrV4>,
    /// Machines whose daemons are asked about listeners, and may ask about those here.
    pub sockets: Vec<crate::remote::Network>,
    /// More about some of them.
    pub peers: Vec<crate::remote::Peer>,
    /// What each other machine may have here.
    pub guests: crate::remote::Guests,
    /// Connections within this machine go as if between machines.
    pub loopback: bool,
}

/// Everything the daemon knows.
#[derive(Debug)]
pub struct State<H> {
    settings: Settings,
    last_id: u64,
    processes: HashMap<ProcessId, Process>,
    listeners: Registry,
    /// Where they are on the notice pages, once for each process that has one.
    listening: shown::Shown,
    /// Clients about to connect, by where to.
    intents: HashMap<SocketAddr, BTreeSet<u64>>,
    /// Clients about to connect to other machines.
    far_intents: HashMap<u64, far::FarIntent>,
    /// What other machines have here.
    guests: guests::Guests,
    channels: BTreeMap<u64, Channel<H>>,
    streams: directory::Directory,
    /// Acceptors that were told to wait: since when, and the newest intent that could be theirs.
    waiting: HashMap<(SocketAddr, SocketAddr), streams::Waiting>,
    /// Streams that were left to the kernel before the client announced them.
    left_to_kernel: HashMap<(SocketAddr, SocketAddr), Duration>,
    /// Datagram sockets.
    receivers: Registry,
    /// Live datagram channels by sender and receiver address: to receivers here, and to those on other machines.
    datagrams: HashMap<(SocketAddr, SocketAddr), u64>,
    far_datagrams: HashMap<(SocketAddr, SocketAddr), u64>,
    /// Receivers who have not come to a channel from another machine: since when.
    unattached: HashMap<SocketAddr, Duration>,
    /// When an end to another machine was left last whose kernel's socket was still there.
    last_lost: Option<Duration>,
    regions: BTreeMap<u64, Region<H>>,
    windows: BTreeMap<u64, Window>,
    /// The process that stands for all other machines.
    others: Option<ProcessId>,
    /// Grants that were taken back and that their NIC may still write by, and of which regions.
    leaving: BTreeMap<u64, u64>,
    /// Streams that no acceptor has taken.
    untaken: usize,
    /// Sums over channels that are gone.
    gone: protocol::Totals,
    /// Sockets that programs left to the kernel.
    fallbacks: BTreeMap<protocol::Fallback, u64>,
    /// Channels just dropped, not yet in the sums.
    retired: Vec<Channel<H>>,
    effects: Vec<Effect<H>>,
}

impl<H: Clone> State<H> {
    /// An empty state.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            last_id: 0,
            processes: HashMap::new(),
            listeners: Registry::default(),
            listening: shown::Shown::new(notice_page::LISTENER_PLACES),
            intents: HashMap::new(),
            far_intents: HashMap::new(),
            guests: guests::Guests::default(),
            channels: BTreeMap::new(),
            streams: directory::Directory::default(),
            waiting: HashMap::new(),
            left_to_kernel: HashMap::new(),
            receivers: Registry::default(),
            datagrams: HashMap::new(),
            far_datagrams: HashMap::new(),
            unattached: HashMap::new(),
            last_lost: None,
            regions: BTreeMap::new(),
            windows: BTreeMap::new(),
            others: None,
            leaving: BTreeMap::new(),
            gone: protocol::Totals::default(),
            fallbacks: BTreeMap::new(),
            untaken: 0,
            retired: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Numbers are never used twice, so that a late message cannot mean something new.
    const fn fresh_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A process has connected.
    pub fn arrive(&mut self, pid: u32) -> ProcessId {
        let id = self.fresh_id();
        self.processes.insert(
            id,
            Process {
                pid,
                ..Process::default()
            },
        );
        id
    }

    /// A process is gone, by exit or by death; what it alone had goes with it.
    pub fn leave<M: Machine<Handle = H>>(&mut self, machine: &mut M, now: Duration, id: ProcessId) {
        let Some(process) = self.processes.remove(&id) else {
            return;
        };
        for address in process.listeners {
            self.listens_no_more(id, address);
        }
        for (intent, to) in process.intents {
            self.drop_intent(intent, to);
        }
        for address in process.addresses {
            self.unbind_address(machine, address, id);
        }
        for channel in process.channels {
            // Both sides may be its own.
            self.let_go(machine, channel, id, Some(now));
            self.let_go(machine, channel, id, Some(now));
        }
        for window in process.windows {
            self.drop_window(window);
        }
        for region in process.regions {
            self.drop_region(region, regions::Why::OwnerGone);
        }
        self.sum_up(machine);
    }

    /// What is to be done beside the answers since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect<H>> {
        std::mem::take(&mut self.effects)
    }

    /// Answers a request.
    pub fn request<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        id: ProcessId,
        request: Request,
    ) -> Answer<H> {
        let answer = self.answer(machine, now, id, request);
        self.sum_up(machine);
        answer.unwrap_or_else(Answer::refused)
    }

    fn answer<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        now: Duration,
        id: ProcessId,
        request: Request,
    ) -> Result<Answer<H>, Refusal> {
        if let Request::Hello {
            version,
            program,
            netns,
        } = request
        {
            return self.hello(id, version, program, netns);
        }
        if !self.process(id)?.greeted {
            return Err(Refusal::new(
                Errno::PROTO,
                "the first request must be Hello; connect to the daemon again",
            ));
        }
        match request {
            Request::Hello { .. } => unreachable!("answered above"),
            Request::Create { bytes } => self.create(machine, id, bytes),
            Request::Export {
                region,
                first,
                bytes,
                rights,
                peer,
            } => {
                let range = first..first.saturating_add(bytes);
                self.export(machine, id, region, range, rights, peer)
            }
            Request::Revoke { token } => self.revoke(machine, id, &token),
            Request::Release { region } => self.release(id, region),
            Request::Connect { token } => self.connect(machine, id, &token),
            Request::Disconnect { window } => self.disconnect(id, window),
            Request::Listen { address } => self.listen(id, address),
            Request::Unlisten { address } => self.unlisten(id, address),
            Request::Intend { to, .. } => self.intend(machine, id, to),
            Request::Announce { intent, from, to } => {
                self.announce(machine, now, id, intent, from, to)
            }
            Request::Withdraw { intent } => self.withdraw(machine, id, intent),
            Request::Resolve { from, to } => self.resolve(machine, now, id, from, to),
            Request::Close { channel, shared } => {
                self.close(machine, id, channel, shared.then_some(now))
            }
            Request::Bind { address } => self.bind(id, address),
            Request::Unbind { address } => self.unbind(machine, id, address),
            Request::Datagrams { from, to, .. } => self.open_datagrams(machine, now, id, from, to),
            Request::Sockets { after } => Ok(self.sockets(machine, now, after)),
            Request::Regions { after } => Ok(self.region_list(after)),
            Request::RevokeChannel { channel } => self.revoke_channel(machine, channel),
            Request::RevokeRegion { region } => self.revoke_region(region),
            Request::Renew { region } => self.renew(machine, id, region),
            Request::Settle { region, moved } => self.settle(id, region, moved),
            Request::Adopt { own, peer } => self.adopt(id, own, peer),
            Request::LeftToKernel { why, count } => {
                let counted = self.fallbacks.entry(why).or_default();
                *counted = counted.saturating_add(count);
                Ok(Answer::new(Reply::Done, []))
            }
            Request::Living => Ok(Answer::new(Reply::Done, [machine.living()?])),
            Request::Fallbacks => {
                let counted = self.fallbacks.iter().map(|(why, count)| (*why, *count));
                Ok(Answer::new(Reply::Fallbacks(counted.collect()), []))
            }
            // Another machine is asked, where one is.
            Request::Abandon { channel } => Err(Refusal::new(
                Errno::NOENT,
                format!("channel {channel} is none to another machine"),
            )),
        }
    }

    fn hello(
        &mut self,
        id: ProcessId,
        version: u16,
        program: String,
        netns: u64,
    ) -> Result<Answer<H>, Refusal> {
        if version != protocol::VERSION {
            return Err(Refusal::new(
                Errno::PROTONOSUPPORT,
                format!(
                    "the library speaks version {version} of the daemon's protocol and the daemon {}; \
                     install both from one release and start the daemon again",
                    protocol::VERSION
                ),
            ));
        }
        let ours = self.settings.netns;
        let process = self.process(id)?;
        if process.greeted {
            return Err(Refusal::new(
                Errno::PROTO,
                "Hello came twice on one connection to the daemon",
            ));
        }
        process.greeted = true;
        process.near = netns == ours;
        process.program = program.chars().take(limits::PROGRAM_NAME).collect();
        Ok(Answer::new(
            Reply::Hello {
                version: protocol::VERSION,
                management: self.settings.management,
                peers: Vec::new(),
            },
            [],
        ))
    }

    fn process(&mut self, id: ProcessId) -> Result<&mut Process, Refusal> {
        self.processes
            .get_mut(&id)
            .ok_or_else(|| Refusal::new(Errno::NOTCONN, "this process is not connected"))
    }

    /// Drops what has waited for too long; to be called about once a second.
    pub fn tick<M: Machine<Handle = H>>(&mut self, machine: &mut M, now: Duration) {
        self.tidy_streams(machine, now);
        self.sum_up(machine);
    }

    /// What the notice pages show of streams.
    pub fn shown_streams(&mut self) -> &mut shown::Shown {
        &mut self.streams.shown
    }

    /// What they show of listeners.
    pub fn shown_listeners(&mut self) -> &mut shown::Shown {
        &mut self.listening
    }

    /// Number of channels and of connected processes, for the daemon's own log.
    pub fn census(&self) -> (usize, usize) {
        (self.channels.len(), self.processes.len())
    }

    fn notify(&mut self, process: ProcessId, notice: Notice, handles: impl Into<Vec<H>>) {
        self.effects.push(Effect::Notify {
            process,
            notice,
            handles: handles.into(),
        });
    }
}
