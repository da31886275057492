// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, and the error numbers for it.

use std::path::PathBuf;

use rustix::io::Errno;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused memory.
    #[error("{what} ({bytes} bytes) failed: {source}")]
    Memory {
        /// What was tried.
        what: &'static str,
        /// How much.
        bytes: usize,
        /// Why.
        source: Errno,
    },
    /// Shared memory that could shrink under its mapping.
    #[error("the shared memory has no sealed size: only memory made by ipnuma can be mapped")]
    Unsealed,
    /// A range outside of what it belongs to.
    #[error("{bytes} bytes from offset {offset} on lie outside of the {size} bytes there are")]
    Outside {
        /// Begin of the range.
        offset: usize,
        /// Its length.
        bytes: usize,
        /// What there is.
        size: usize,
    },
    /// An offset that is not a multiple of what it must be.
    #[error("offset {offset} is not a multiple of {align}")]
    Unaligned {
        /// The offset.
        offset: usize,
        /// What it must be a multiple of.
        align: usize,
    },
    /// Not a ring's size.
    #[error("a ring of {lines} lines: it must be a power of two from 8 to 1048576")]
    Lines {
        /// The number of lines.
        lines: u32,
    },
    /// Not a channel's size.
    #[error(
        "shared memory of {bytes} bytes is no channel: the daemon and this library are of different versions; install both anew"
    )]
    ChannelSize {
        /// Size of the memory.
        bytes: usize,
    },
    /// There is no daemon.
    #[error("no daemon at {}: {source}; start one with 'ipnuma daemon', or say where it is with IPNUMA_DAEMON", path.display())]
    NoDaemon {
        /// Where it was looked for.
        path: PathBuf,
        /// Why it was not found.
        source: Errno,
    },
    /// What is at the daemon's place may be somebody else's.
    #[error("the daemon's socket {} can't be trusted: {why}; remove what is there, or say with IPNUMA_DAEMON where the daemon is", path.display())]
    Untrusted {
        /// The socket.
        path: PathBuf,
        /// A sentence without its end.
        why: String,
    },
    /// The daemon went away, or does not answer.
    #[error(
        "the daemon no longer answers ({source}): start it again with 'ipnuma daemon', then open the device anew"
    )]
    DaemonLost {
        /// What happened to the socket.
        source: Errno,
    },
    /// The daemon said no.
    #[error("{message}")]
    Refused {
        /// Error number.
        errno: Errno,
        /// What it said.
        message: String,
    },
    /// The daemon answered something else than was asked.
    #[error(
        "the daemon's answer does not fit the question ({what}): daemon and library are of different versions; install both anew"
    )]
    Protocol {
        /// What was odd.
        what: &'static str,
    },
    /// Not a token.
    #[error("the token is not valid: {0}")]
    Token(#[from] crate::token::TokenError),
    /// A token of a range that was not made as a ring.
    #[error(
        "the token is not a ring's: it is for {bytes} bytes from {first} on; take the one that came with the ring"
    )]
    NoRing {
        /// Begin of its range.
        first: u64,
        /// Its length.
        bytes: u64,
    },
    /// A token to be taken back that another region gave out.
    #[error("the token is not this region's; take it back at the region that exported it")]
    OtherRegion,
    /// The configuration is wrong.
    #[error("{place}: {problem}")]
    Config {
        /// File or variable.
        place: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Stores since the epoch may be lost: the server has revoked the token.
    #[error("the server has revoked the window's token: connect with a new one")]
    Revoked,
    /// Stores since the epoch may be lost: the server cannot be reached.
    #[error("the server of the window is gone or cannot be reached: connect again when it is back")]
    PeerLost,
    /// The window, region or ring does not allow this.
    #[error("{what}: the token gives no right to it")]
    Denied {
        /// What was tried.
        what: &'static str,
    },
    /// The back end can't do this.
    #[error("{what}: the {backend} back end cannot do it")]
    Unsupported {
        /// What was tried.
        what: &'static str,
        /// Name of the back end.
        backend: &'static str,
    },
    /// Time ran out.
    #[error("{what}: not within the time given")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
    },
    /// A board, or something on it, can't be used.
    #[cfg(feature = "pcie")]
    #[error(transparent)]
    Pcie(#[from] crate::backend::pcie::PcieError),
    /// There is no room now.
    #[error("the ring has no room for the message now: receive at the other end, or try again")]
    Full,
    /// A message that is too long for its ring.
    #[error("a message of {bytes} bytes: the ring takes {most} at most")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest there can be.
        most: usize,
    },
    /// A ring that holds what no sender writes.
    #[error("the ring holds what no sender writes: close it and connect anew")]
    Corrupt,
    /// The system refused something else.
    #[error("{what} failed: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: Errno,
    },
}

impl Error {
    /// The error number for it, positive, as in errno.h.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Error::Memory { source, .. } | Error::System { source, .. } => *source,
            Error::Unsealed
            | Error::Outside { .. }
            | Error::Unaligned { .. }
            | Error::Lines { .. }
            | Error::Token(_)
            | Error::NoRing { .. }
            | Error::Config { .. } => Errno::INVAL,
            Error::ChannelSize { .. } | Error::Protocol { .. } => Errno::PROTO,
            Error::NoDaemon { .. } => Errno::CONNREFUSED,
            Error::DaemonLost { .. } => Errno::CONNRESET,
            Error::Refused { errno, .. } => *errno,
            Error::Revoked => Errno::KEYREVOKED,
            Error::PeerLost => Errno::HOSTUNREACH,
            Error::Denied { .. } | Error::OtherRegion | Error::Untrusted { .. } => Errno::ACCESS,
            Error::Unsupported { .. } => Errno::OPNOTSUPP,
            Error::TimedOut { .. } => Errno::TIMEDOUT,
            Error::Full => Errno::AGAIN,
            Error::TooLong { .. } => Errno::MSGSIZE,
            #[cfg(feature = "pcie")]
            Error::Pcie(error) => error.errno(),
            Error::Corrupt => Errno::BADMSG,
        };
        errno.raw_os_error()
    }
}
