// SPDX-License-Identifier: Apache-2.0
//! What can go wrong between a process and its daemon, and the error numbers for it.

use std::path::PathBuf;

use rustix::io::Errno;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// Memory that the daemon gave can't be used.
    #[error(transparent)]
    Memory(#[from] shm::Error),
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
            Error::NoDaemon { .. } => Errno::CONNREFUSED,
            Error::Untrusted { .. } => Errno::ACCESS,
            Error::DaemonLost { .. } => Errno::CONNRESET,
            Error::Refused { errno, .. } => *errno,
            Error::Protocol { .. } => Errno::PROTO,
            Error::Memory(error) => return error.errno(),
            Error::System { source, .. } => *source,
        };
        errno.raw_os_error()
    }
}
