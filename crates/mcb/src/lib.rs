// SPDX-License-Identifier: Apache-2.0
//! Times memcached's commands one by one, over ordinary sockets: the measurement of chapter 6 of the dissertation.
//!
//! A [`Job`] says what is sent and how often. [`run`] sends one command at a time for each thread, waits for its answer,
//! and compares it with what it must be, byte for byte. The values are made from the number of their key, so that a
//! value of another key, or of another length, is noticed.
//!
//! ```no_run
//! let job = mcb::Job {
//!     command: mcb::Command::Get,
//!     ..mcb::Job::default()
//! };
//! let report = mcb::run(&job)?;
//! println!("{} ns", report.ns.mean);
//! # Ok::<(), mcb::Error>(())
//! ```
//!
//! Not done here: several commands on their way in one thread, the binary protocol, commands that are not in [`Command`].

#![forbid(unsafe_code)]

mod client;
mod protocol;
mod report;

pub use client::run;
pub use protocol::{MOST_BY_TCP, MOST_BY_UDP, check as check_values, value};
pub use report::{Each, Report, Summary};

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is timed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Stores a value
    Set,
    /// Reads a value that was stored before measuring
    Get,
    /// Stores a value under a new key
    Add,
}

impl Command {
    /// As the protocol has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Get => "get",
            Self::Add => "add",
        }
    }
}

/// How commands travel.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// One datagram there, one or more back
    Udp,
    /// One connection for each thread
    Tcp,
}

impl Transport {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }
}

/// Commands at most, timed or before, and keys: the time of each command is kept.
pub const MOST_COUNT: u64 = 100_000_000;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Job {
    /// The command.
    pub command: Command,
    /// Name or address of the server.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// Clients at once, each with a socket of its own.
    pub threads: usize,
    /// Commands that are timed, of all threads together.
    pub count: u64,
    /// Commands of each thread before that, which are not timed.
    pub warmup: u64,
    /// Bytes of a value.
    pub length: usize,
    /// How commands travel.
    pub transport: Transport,
    /// Keys of each thread, used in turn; an add takes a new one each time.
    pub keys: u64,
    /// How every key begins.
    pub prefix: String,
    /// How long to wait for an answer; zero: for ever.
    pub timeout: Duration,
    /// How often a datagram is sent again that had no answer.
    pub retries: u32,
    /// The server is known to have none of the keys: an add needs no deletes before.
    pub fresh: bool,
    /// The clock is read only before the first command and after the last: where reading it takes time.
    pub total: bool,
    /// When the commands begin, since 1970, once all is ready: together with clients of other hosts.
    pub at: Option<Duration>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            command: Command::Set,
            address: "127.0.0.1".to_owned(),
            port: 11211,
            threads: 1,
            count: 10_000,
            warmup: 0,
            length: 16,
            transport: Transport::Udp,
            keys: 16,
            prefix: "mcb".to_owned(),
            timeout: Duration::from_secs(1),
            retries: 0,
            fresh: false,
            total: false,
            at: None,
        }
    }
}

/// What ends a measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A job that can't be.
    #[error("{0}")]
    Usage(String),
    /// The server can't be reached.
    #[error("cannot reach {transport} port {port} of {address}: {reason}; is a memcached running there that serves {transport} (-{option} {port})?", option = option(.transport))]
    Unreachable {
        /// Name or address.
        address: String,
        /// Port.
        port: u16,
        /// `UDP` or `TCP`.
        transport: &'static str,
        /// What the system says.
        reason: String,
    },
    /// No answer came in time.
    #[error("{place}: no answer within {waited:?}; {remedy}")]
    Timeout {
        /// Command, key and number.
        place: String,
        /// How long it was waited for.
        waited: Duration,
        /// What may help.
        remedy: &'static str,
    },
    /// The connection ended.
    #[error("{place}: {reason}")]
    Broken {
        /// Command, key and number.
        place: String,
        /// What the system says.
        reason: String,
    },
    /// An answer is not what it must be.
    #[error("{place}: the answer is {got}, not {expected}; they differ from byte {at} on")]
    Wrong {
        /// Command, key and number.
        place: String,
        /// How what came begins.
        got: String,
        /// How what should have come begins.
        expected: String,
        /// First byte that differs, from 0.
        at: usize,
    },
}

/// memcached's option for the port.
fn option(transport: &str) -> &'static str {
    if transport == Transport::Udp.name() {
        "U"
    } else {
        "p"
    }
}

impl Error {
    /// Whether the user's input is at fault (exit status 2) and not the measurement.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}
