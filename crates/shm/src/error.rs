// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with shared memory, and the error numbers for it.

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
}

impl Error {
    /// The error number for it, positive, as in errno.h.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Error::Memory { source, .. } => *source,
            Error::Unsealed | Error::Outside { .. } | Error::Lines { .. } => Errno::INVAL,
            Error::ChannelSize { .. } => Errno::PROTO,
        };
        errno.raw_os_error()
    }
}
