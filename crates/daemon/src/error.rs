// SPDX-License-Identifier: Apache-2.0
//! Why a daemon does not start or ends.

use std::path::PathBuf;

use rustix::io::Errno;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something in the file system.
    #[error("cannot {what} {}: {source}; choose another place with --socket or --config", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// There is one.
    #[error("a daemon already runs at {} (process {owner}); stop it first, or give this one another --socket", path.display())]
    Running {
        /// Its socket.
        path: PathBuf,
        /// Its process number.
        owner: String,
    },
    /// A file of somebody else is in the way.
    #[error("{} exists and is no socket; remove it, or choose another --socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// Others can get at the place.
    #[error("the daemon's place {} is not safe: {why}; remove what is there, or choose another --socket", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// A sentence without its end.
        why: String,
    },
    /// The configuration.
    #[error("{place}: {problem}")]
    Config {
        /// File.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// The system refused something.
    #[error("the daemon could not {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: Errno,
    },
    /// Memory or random bytes.
    #[error("{0}")]
    Resource(String),
}
