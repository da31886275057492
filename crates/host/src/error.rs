// SPDX-License-Identifier: Apache-2.0
//! What can go wrong for an application, and the error numbers for it.

use rustix::io::Errno;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Memory can't be had or mapped, or an offset or a size is not one of it.
    #[error(transparent)]
    Memory(#[from] shm::Error),
    /// The daemon is not there, or says no.
    #[error(transparent)]
    Daemon(#[from] ipc::Error),
    /// An offset that is not a multiple of what it must be.
    #[error("offset {offset} is not a multiple of {align}")]
    Unaligned {
        /// The offset.
        offset: usize,
        /// What it must be a multiple of.
        align: usize,
    },
    /// A region of a size that there is none of.
    #[error("a region of {bytes} bytes: it has 1 at least and {most} at most")]
    RegionSize {
        /// The size.
        bytes: usize,
        /// The largest there can be.
        most: usize,
    },
    /// An address that is no machine's.
    #[error("peer {peer} is no machine's address: write that of one, or none for all machines")]
    Peer {
        /// The address.
        peer: std::net::Ipv4Addr,
    },
    /// Not a token.
    #[error("the token is not valid: {0}")]
    Token(#[from] ipc::token::TokenError),
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
    /// Stores that this machine's daemon has not taken.
    #[error(
        "the daemon of this machine has taken no stores for 20 s: see that it runs and is not stopped"
    )]
    Stalled,
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
            Error::Memory(error) => return error.errno(),
            Error::Daemon(error) => return error.errno(),
            Error::System { source, .. } => *source,
            Error::Unaligned { .. }
            | Error::RegionSize { .. }
            | Error::Peer { .. }
            | Error::Token(_)
            | Error::NoRing { .. }
            | Error::Config { .. } => Errno::INVAL,
            Error::Revoked => Errno::KEYREVOKED,
            Error::PeerLost => Errno::HOSTUNREACH,
            Error::Denied { .. } | Error::OtherRegion => Errno::ACCESS,
            Error::Unsupported { .. } => Errno::OPNOTSUPP,
            Error::TimedOut { .. } | Error::Stalled => Errno::TIMEDOUT,
            Error::Full => Errno::AGAIN,
            Error::TooLong { .. } => Errno::MSGSIZE,
            #[cfg(feature = "pcie")]
            Error::Pcie(error) => error.errno(),
            Error::Corrupt => Errno::BADMSG,
        };
        errno.raw_os_error()
    }
}
