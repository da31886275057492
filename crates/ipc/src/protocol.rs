// SPDX-License-Identifier: Apache-2.0
//! What processes and their daemon say to each other.
//!
//! The daemon listens on a Unix SOCK_SEQPACKET socket. One packet is one [`Request`] or one [`Reply`] in postcard
//! encoding; descriptors travel beside it (SCM_RIGHTS), in the order that the messages' documentation says. A process
//! has one request open at a time, and the daemon answers every one at once. What the daemon has to say unasked are
//! [`Notice`]s, on a socket of their own that comes with [`Reply::Hello`]; the [notice page](notice_page) tells
//! without a system call whether there are any.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::token::{Rights, Token};

/// Version of this protocol: daemon and process must have the same.
pub const VERSION: u16 = 15;
/// Longest packet, in both directions.
pub const MAX_PACKET: usize = 32 * 1024;
/// Most descriptors beside a packet.
pub const MAX_FDS: usize = 64;

/// Offsets in the notice page, which the daemon writes and the process reads.
pub mod notice_page {
    /// Bytes of the page.
    pub const BYTES: usize = 4096;
    /// u64: notices sent to this process so far; written after the notice was sent.
    pub const NOTICES: usize = 0;
    /// u64: grows whenever a datagram address is bound or unbound.
    pub const GENERATION: usize = 8;
    /// 16 bytes, random for each daemon: content of a kernel datagram that is a doorbell.
    pub const MAGIC: usize = 16;
    /// Key of the daemon's register of the living, by its [`MAGIC`]; not 0.
    #[must_use]
    pub const fn living_key(magic: [u8; 16]) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = magic;
        u64::from_ne_bytes([a, b, c, d, e, f, g, h]) | 1
    }
    /// u64: whether a connection that this machine's kernel has accepted can be one that was announced or is about to be;
    /// [`ASK`], [`NOBODY`] or [`SOMEBODY`]. It is written before a client is told that it may connect.
    pub const CONNECTING: usize = 32;
    /// Only the daemon can say.
    pub const ASK: u64 = 0;
    /// No acceptor has to ask.
    pub const NOBODY: u64 = 1;
    /// A client is about to connect, or has, and was not accepted yet.
    pub const SOMEBODY: u64 = 2;
    /// u64: how many networks follow at [`NETWORK`], or [`EVERYWHERE`]: of listeners there only the daemon can say.
    pub const NETWORKS: usize = 40;
    /// More than there is room for.
    pub const EVERYWHERE: u64 = u64::MAX;
    /// u64s: an IPv4 network's address in the upper half, its mask in the lower one.
    pub const NETWORK: usize = 48;
    /// So many there is room for.
    pub const MOST_NETWORKS: usize = (LISTENERS - NETWORK) / 8;
    /// u64s with a bit for each [`listener_place`], from the lowest on: whether a program listens there on this machine. It is
    /// set before the listener is told that it is known.
    pub const LISTENERS: usize = 1024;
    /// Places.
    pub const LISTENER_PLACES: usize = 8 * (STREAMS - LISTENERS);
    /// The place of listeners at a port, whatever their address.
    #[must_use]
    pub const fn listener_place(port: u16) -> usize {
        port as usize % LISTENER_PLACES
    }
    /// u64s with a bit for each [`place`], from the lowest on: whether a stream's channel is there. One that is comes before its
    /// ends do, and stays as long as they.
    pub const STREAMS: usize = 2048;
    /// Places.
    pub const PLACES: usize = 8 * (BYTES - STREAMS);
    /// The place of a stream between two ports, seen from either end.
    #[must_use]
    pub const fn place(own: u16, peer: u16) -> usize {
        (own ^ peer) as usize % PLACES
    }
}

/// What a process asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// First of all: who asks. Answer: [`Reply::Hello`].
    Hello {
        /// [`VERSION`].
        version: u16,
        /// Name of the program.
        program: String,
        /// Inode of /proc/self/ns/net.
        netns: u64,
    },
    /// A new region. Answer: [`Reply::Region`].
    Create {
        /// Its size.
        bytes: u64,
    },
    /// A token for a range of an own region. Answer: [`Reply::Token`].
    Export {
        /// The region.
        region: u64,
        /// First byte of the range.
        first: u64,
        /// Bytes of the range.
        bytes: u64,
        /// What the holder may do.
        rights: Rights,
        /// The only machine that may use it.
        peer: Option<Ipv4Addr>,
    },
    /// Takes a token back, and begins to move the region as [`Request::Renew`] does. Answer: as there.
    Revoke {
        /// The token.
        token: Token,
    },
    /// Gives up an own region and all its tokens. Answer: [`Reply::Done`].
    Release {
        /// The region.
        region: u64,
    },
    /// Use of the range of a token. Answer: [`Reply::Window`].
    Connect {
        /// The token.
        token: Token,
    },
    /// End of use. Answer: [`Reply::Done`].
    Disconnect {
        /// The window.
        window: u64,
    },
    /// The process accepts stream connections to the address. Answer: [`Reply::Done`].
    Listen {
        /// Local address; may be a wildcard.
        address: SocketAddr,
    },
    /// It no longer does. Answer: [`Reply::Done`].
    Unlisten {
        /// As in [`Request::Listen`].
        address: SocketAddr,
    },
    /// The process is about to connect. Answer: [`Reply::Intent`]; [`Reply::Kernel`]: no accelerated listener there; or
    /// [`Reply::KernelIsFaster`].
    Intend {
        /// Where to.
        to: SocketAddr,
        /// Whether the user's policy asks for acceleration, also where it is no gain.
        asked: bool,
    },
    /// The connection has these addresses. Answer: [`Reply::Channel`] or [`Reply::FarChannel`] (the process owns half
    /// 0) or [`Reply::Kernel`].
    Announce {
        /// As answered to [`Request::Intend`].
        intent: u64,
        /// Own address.
        from: SocketAddr,
        /// The listener's.
        to: SocketAddr,
    },
    /// The connection does not come about. Answer: [`Reply::Done`].
    Withdraw {
        /// As answered to [`Request::Intend`].
        intent: u64,
    },
    /// The process has accepted a connection. Answer: [`Reply::Channel`] or [`Reply::FarChannel`] (the process owns half
    /// 1), [`Reply::Kernel`], or [`Reply::Wait`]: somebody is about to connect to the listener and has not announced it yet; ask again.
    Resolve {
        /// The peer's address.
        from: SocketAddr,
        /// Own address.
        to: SocketAddr,
    },
    /// This process has no more use of the channel. Answer: [`Reply::Done`].
    Close {
        /// The channel.
        channel: u64,
        /// Others, who have not asked for it yet, have the same end: children, or whoever gets it in a message.
        shared: bool,
    },
    /// The process receives datagrams at the address. Answer: [`Reply::Done`].
    Bind {
        /// Local address; may be a wildcard.
        address: SocketAddr,
    },
    /// It no longer does. Answer: [`Reply::Done`].
    Unbind {
        /// As in [`Request::Bind`].
        address: SocketAddr,
    },
    /// A channel for datagrams. Answer: [`Reply::Channel`] or [`Reply::FarChannel`] (the process owns half 0),
    /// [`Reply::Kernel`], or [`Reply::KernelIsFaster`]. The receiver gets [`Notice::Datagrams`] or [`Notice::FarDatagrams`].
    Datagrams {
        /// Own address.
        from: SocketAddr,
        /// The receiver's.
        to: SocketAddr,
        /// Whether the user's policy asks for acceleration, also where it is no gain.
        asked: bool,
    },
    /// All channels with ids above `after`, as many as fit. Answer: [`Reply::Sockets`]; an empty one is the end.
    Sockets {
        /// 0 at first, then the last id of the answer before.
        after: u64,
    },
    /// All regions with ids above `after`, as many as fit. Answer: [`Reply::Regions`]; an empty one is the end.
    Regions {
        /// 0 at first, then the last id of the answer before.
        after: u64,
    },
    /// Administrator: ends a channel. Answer: [`Reply::Done`].
    RevokeChannel {
        /// The channel.
        channel: u64,
    },
    /// Administrator: takes back all tokens of a region. Its windows end; its owner is told by [`Notice::Revoked`], and
    /// asks for fresh memory by [`Request::Renew`]. Answer: [`Reply::Done`].
    RevokeRegion {
        /// The region.
        region: u64,
    },
    /// The process has got an open connection from another one, by exec or in a message, and becomes one more holder of
    /// its end. Answer: [`Reply::Adopted`] or [`Reply::Kernel`].
    Adopt {
        /// Own address.
        own: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
    },
    /// The process waits no longer for the acceptor of a connection to another machine, whose channel it has. Answer:
    /// [`Reply::Kernel`], and both ends use the kernel, or [`Reply::Wait`]: the acceptor has the channel already.
    Abandon {
        /// The channel.
        channel: u64,
    },
    /// Begins to move an own region to fresh memory, so that those who had a token that was taken back keep memory that
    /// nobody reads. All windows end, whose holders are told by [`Notice::Revoked`]; from now until
    /// [`Request::Settle`] nobody gets a new one, and who asks for one waits. Tokens that were not taken back stay valid.
    /// Answer, when all holders are told and no other machine writes to the old memory any more: [`Reply::Done`]
    /// with a descriptor: memfd, to which the process copies what the old memory has, and which it maps in its place.
    Renew {
        /// The region.
        region: u64,
    },
    /// Ends the move of an own region. Answer: [`Reply::Done`].
    Settle {
        /// The region.
        region: u64,
        /// It lies in the fresh memory now; if not, it stays in the old.
        moved: bool,
    },
    /// So many sockets were left to the kernel for this reason. Answer: [`Reply::Done`].
    LeftToKernel {
        /// Why.
        why: Fallback,
        /// How many more since the process said so last.
        count: u64,
    },
    /// How many sockets were left to the kernel, and why. Answer: [`Reply::Fallbacks`].
    Fallbacks,
    /// The register of processes that have ends of channels: `shm::living`. A process asks once, and keeps what it gets.
    /// Answer: [`Reply::Done`] with a descriptor: memfd.
    Living,
}

/// Why a program's socket was left to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fallback {
    /// No listener at the address has the library.
    NoListener,
    /// The address or the daemon's answer made it impossible to announce the connection.
    NotAnnounced,
    /// A client that had not announced itself was accepted.
    Unannounced,
    /// The acceptor came later than the client waits, or not at all.
    Late,
    /// Something came through the kernel: the peer does not use the library.
    PlainPeer,
    /// Lately nobody came to the channels of connections to this address.
    Avoided,
    /// There are no descriptors for it.
    NoDescriptors,
    /// The program asked for an io_uring, which would work on sockets behind the library's back: it was told that there is none.
    IoUring,
    /// The program confines itself by seccomp.
    Seccomp,
    /// The connection goes to a program that cannot have the library.
    Exec,
    /// Connections to this address are short: setting one up would cost more than it saves.
    Short,
    /// The user's policy says so.
    Policy,
    /// To another machine there is only a NIC in software, and nobody has asked for it.
    SoftwareNic,
    /// The program sends out-of-band data, for which rings have no place.
    OutOfBand,
    /// A writer found no room for long.
    Stalled,
    /// The program has set an option that only the kernel can follow.
    Option,
    /// It is in a set of epoll that a child uses, too, which has it by a fork.
    SharedSet,
}

impl Fallback {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::NoListener,
        Self::NotAnnounced,
        Self::Unannounced,
        Self::Late,
        Self::PlainPeer,
        Self::Avoided,
        Self::NoDescriptors,
        Self::IoUring,
        Self::Seccomp,
        Self::Exec,
        Self::Short,
        Self::Policy,
        Self::SoftwareNic,
        Self::OutOfBand,
        Self::Stalled,
        Self::Option,
        Self::SharedSet,
    ];

    /// Its name, in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoListener => "no-listener",
            Self::NotAnnounced => "not-announced",
            Self::Unannounced => "unannounced",
            Self::Late => "late",
            Self::PlainPeer => "plain-peer",
            Self::Avoided => "avoided",
            Self::NoDescriptors => "no-descriptors",
            Self::IoUring => "io-uring",
            Self::Seccomp => "seccomp",
            Self::Exec => "exec",
            Self::Short => "short",
            Self::Policy => "policy",
            Self::SoftwareNic => "software-nic",
            Self::OutOfBand => "out-of-band",
            Self::Stalled => "stalled",
            Self::Option => "option",
            Self::SharedSet => "shared-set",
        }
    }

    /// What it means.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::NoListener => "no listener at the address has the library",
            Self::NotAnnounced => "the connection could not be announced",
            Self::Unannounced => "the client that was accepted does not have the library",
            Self::Late => "the acceptor came too late, or not at all",
            Self::PlainPeer => "the peer uses the kernel",
            Self::Avoided => "lately nobody came to connections to this address",
            Self::NoDescriptors => "there are no descriptors left",
            Self::IoUring => "the program asked for an io_uring and was told that there is none",
            Self::Seccomp => "the program confines itself by seccomp",
            Self::Exec => "the connection went to a program that cannot have the library",
            Self::Short => "connections to this address are too short to gain",
            Self::Policy => "the policy says so; `ipnuma doctor PROGRAM` names the line",
            Self::SoftwareNic => {
                "to that machine there is only a NIC in software, and the kernel is faster; a line `ipnuma` in the policy asks for it all the same"
            }
            Self::OutOfBand => "the program sent out-of-band data",
            Self::Stalled => "a writer found no room for long",
            Self::Option => "the program set an option that only the kernel can follow",
            Self::SharedSet => "a child by fork uses the set of epoll that it is in, too",
        }
    }
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// It cannot be done.
    Error {
        /// Error number, positive.
        errno: i32,
        /// A sentence.
        message: String,
    },
    /// Welcome. Descriptors: notice page (memfd, read-only), notice socket.
    Hello {
        /// [`VERSION`].
        version: u16,
        /// Where the daemon listens for other machines' daemons.
        management: Option<std::net::SocketAddrV4>,
        /// Names of the machines it has sessions with.
        peers: Vec<Ipv4Addr>,
    },
    /// A region. Descriptors: memfd (size rounded up to pages), eventfd, signal page (memfd, see [`signal_page`]).
    Region {
        /// Its number.
        region: u64,
    },
    /// A token.
    Token(Token),
    /// A window. Descriptors: memfd of the whole region (opened read-only if the token is), eventfd, signal page
    /// (opened read-only). If it is remote: operations ring (memfd), its eventfd, and nothing else.
    Window {
        /// Its number.
        window: u64,
        /// First byte of the token's range in the region.
        first: u64,
        /// Bytes of the range.
        bytes: u64,
        /// What may be done.
        rights: Rights,
        /// Whether the memory is another machine's.
        remote: bool,
    },
    /// A connection may be announced.
    Intent {
        /// Its number.
        intent: u64,
    },
    /// A channel. Descriptors: its memfd.
    Channel {
        /// Its number.
        channel: u64,
    },
    /// A channel to another machine. Descriptors: its memfd; an eventfd that is written when something has arrived for the
    /// process's end while its [`shm::channel::Control::armed`] is not zero; a socket, the tether, to which the process
    /// sends a byte where it would ring for a peer that has armed. It ends with the daemon, and the daemon takes the
    /// end for deserted when the process and all that have inherited the tether are gone.
    FarChannel {
        /// Its number.
        channel: u64,
    },
    /// Not accelerated: use the kernel.
    Kernel,
    /// The connection would go to another machine by a NIC in software, which takes longer than the kernel: use the kernel.
    KernelIsFaster,
    /// Not known yet: ask again soon.
    Wait,
    /// Channels.
    Sockets {
        /// Of all channels since the daemon's start, also of those that are gone.
        totals: Totals,
        /// Those that there are.
        sockets: Vec<SocketStatus>,
    },
    /// Regions.
    Regions(Vec<RegionStatus>),
    /// A channel of which the process owns a half now. Descriptors: its memfd, or those of [`Reply::FarChannel`].
    Adopted {
        /// Its number.
        channel: u64,
        /// The half: 0 the client's, 1 the acceptor's.
        half: u8,
    },
    /// Sockets that were left to the kernel since the daemon's start, by reason.
    Fallbacks(Vec<(Fallback, u64)>),
}

/// Offsets in a region's signal page, which its owner writes and window holders read.
pub mod signal_page {
    /// Bytes of the page.
    pub const BYTES: usize = 4096;
    /// u32: not zero while the owner sleeps on the eventfd.
    pub const ARMED: usize = 0;
}

/// What the daemon says unasked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Notice {
    /// Somebody sends datagrams to an address that the process has bound. Descriptors: the channel's memfd, of which
    /// the process owns half 1.
    Datagrams {
        /// The channel.
        channel: u64,
        /// The sender's address.
        from: SocketAddr,
        /// The receiver's.
        to: SocketAddr,
    },
    /// The same, from another machine. Descriptors: as of [`Reply::FarChannel`].
    FarDatagrams {
        /// The channel.
        channel: u64,
        /// The sender's address.
        from: SocketAddr,
        /// The receiver's.
        to: SocketAddr,
    },
    /// Something was taken back.
    Revoked {
        /// This channel.
        channel: Option<u64>,
        /// This window's token.
        window: Option<u64>,
        /// All tokens of this own region, by the administrator: the process shall [`Request::Renew`] it.
        region: Option<u64>,
    },
    /// The server of a window cannot be reached.
    PeerLost {
        /// The window.
        window: u64,
    },
}

/// What a channel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketKind {
    /// Bytes, both ways.
    Stream,
    /// Datagrams from end 0 to end 1.
    Datagrams,
}

/// One end of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndStatus {
    /// Process that asked for it; 0 if it has not yet.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Its address.
    pub address: SocketAddr,
    /// [`shm::channel::flags`].
    pub flags: u32,
    /// Messages sent by it.
    pub messages: u64,
    /// Bytes sent by it.
    pub bytes: u64,
    /// Doorbells it rang.
    pub doorbells: u64,
    /// Times it slept in the kernel.
    pub sleeps: u64,
    /// Times spinning was enough.
    pub spins_found: u64,
    /// Datagrams it dropped.
    pub dropped: u64,
}

/// Sums over all channels since the daemon's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Stream channels.
    pub streams: u64,
    /// Datagram channels.
    pub datagrams: u64,
    /// Messages sent, by either end.
    pub messages: u64,
    /// Bytes sent, by either end.
    pub bytes: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Sleeps in the kernel.
    pub sleeps: u64,
    /// Connections that other machines' daemons announced and had no right to.
    pub refused: u64,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SocketStatus {
    /// Its number.
    pub channel: u64,
    /// What it carries.
    pub kind: SocketKind,
    /// How long it exists, milliseconds.
    pub age_ms: u64,
    /// Client (sender) and server (receiver).
    pub ends: [EndStatus; 2],
}

/// A region.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// Its number.
    pub region: u64,
    /// Its owner.
    pub pid: u32,
    /// The owner's program.
    pub program: String,
    /// Its size.
    pub bytes: u64,
    /// Tokens that are valid.
    pub exports: Vec<ExportStatus>,
}

/// A valid token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExportStatus {
    /// First byte of the range.
    pub first: u64,
    /// Bytes of the range.
    pub bytes: u64,
    /// What it allows.
    pub rights: Rights,
    /// Windows that use it.
    pub windows: u32,
}

/// Encodes a message.
///
/// # Errors
/// If it does not fit into a packet.
pub fn encode<M: Serialize>(message: &M) -> crate::Result<Vec<u8>> {
    let packet = postcard::to_stdvec(message).map_err(|_| crate::Error::Protocol {
        what: "a message that cannot be encoded",
    })?;
    if packet.len() > MAX_PACKET {
        return Err(crate::Error::Protocol {
            what: "a message longer than a packet",
        });
    }
    Ok(packet)
}

/// Decodes a message; trailing bytes are an error, too.
///
/// # Errors
/// If it is none.
pub fn decode<'a, M: Deserialize<'a>>(packet: &'a [u8]) -> crate::Result<M> {
    match postcard::take_from_bytes(packet) {
        Ok((message, [])) => Ok(message),
        _ => Err(crate::Error::Protocol {
            what: "a packet that is no message",
        }),
    }
}
