// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, in one sentence each.

use std::path::Path;

use crate::time::Picoseconds;
use input::own_words;

/// Errors of the virtual rack.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A topology, a platform or an option is wrong; the sentence has the place and the remedy.
    #[error("{0}")]
    Config(String),
    /// The RTL failed.
    #[error("at {time}: {source}")]
    Rtl {
        /// When.
        time: Picoseconds,
        /// What the simulator said.
        source: ipnuma_rtl::Error,
    },
    /// The RTL could not be created or traced.
    #[error(transparent)]
    Model(#[from] ipnuma_rtl::Error),
    /// A program of a host gave up.
    #[error("at {time}, host {host}: {reason}")]
    Program {
        /// When.
        time: Picoseconds,
        /// Which host.
        host: String,
        /// What it said.
        reason: String,
    },
    /// Nothing will ever happen again, but programs are not done.
    #[error("at {time}, {waiting}: nothing more will come; a packet was lost or refused")]
    Stuck {
        /// When the last event was.
        time: Picoseconds,
        /// Who waits for what.
        waiting: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {reason}")]
    Output {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Whether the user's input is at fault (exit status 2) and not the run.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Config(_))
    }
}

/// Line of a byte offset, counted from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset.min(text.len())].matches('\n').count()
}

/// A TOML error as one sentence with file and line.
pub fn located(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let offset = error.span().map_or(0, |span| span.start);
    located_at(path, text, offset, &own_words(error.message()))
}

/// A sentence with file and line.
pub(crate) fn located_at(path: &Path, text: &str, offset: usize, sentence: &str) -> Error {
    let line = line_of(text, offset);
    Error::Config(format!("{}, line {line}: {sentence}", path.display()))
}
