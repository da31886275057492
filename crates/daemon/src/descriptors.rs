// SPDX-License-Identifier: Apache-2.0
//! What is left of this process's descriptors.
//!
//! Each region, channel and window takes some. So that nobody takes the last ones, without which no process could even ask what
//! there is, those are refused that would be beyond a share of the limit. The kernel gives the lowest number that is free: who
//! gets number n knows that n are open.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::state::Refusal;

/// How often it is logged that there are too few.
const QUIET: Duration = Duration::from_secs(60);
/// Kept for what the daemon itself needs, and for processes that connect.
const LEAST_KEPT: u64 = 64;
const MOST_KEPT: u64 = 1024;

/// For whom a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A connection to another machine.
    Machine,
    /// A region, a channel or a window of a process.
    Process,
}

impl Use {
    /// The first number that is too high.
    fn bound(self, limit: u64) -> u64 {
        let kept = (limit / 8).clamp(LEAST_KEPT, MOST_KEPT).min(limit / 4);
        match self {
            Self::Machine => limit / 2,
            Self::Process => limit - kept,
        }
    }
}

/// Takes a new descriptor, unless it is one too many.
///
/// # Errors
/// If it is: it is closed, and that is logged now and then.
pub fn keep(descriptor: OwnedFd, what: Use) -> Result<OwnedFd, Refusal> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let number = u64::from(descriptor.as_fd().as_raw_fd().unsigned_abs());
    if number < what.bound(limit) {
        return Ok(descriptor);
    }
    let sentence = format!(
        "the daemon has {number} descriptors open, of {limit} that it may have, and keeps the rest; close connections, regions or \
         windows, or raise its limit (`ulimit -n`, `LimitNOFILE=` of its unit)"
    );
    static LOGGED: Mutex<Option<Instant>> = Mutex::new(None);
    if let Ok(mut logged) = LOGGED.lock()
        && logged.is_none_or(|at| at.elapsed() >= QUIET)
    {
        *logged = Some(Instant::now());
        crate::log(&sentence);
    }
    Err(Refusal::new(Errno::MFILE, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_leaves_some_to_the_next() {
        for limit in [64, 256, 1024, 20_000, 1 << 20] {
            let [machine, process] = [Use::Machine, Use::Process].map(|what| what.bound(limit));
            assert!(0 < machine && machine < process && process < limit);
        }
        assert_eq!(Use::Process.bound(64), 48);
        assert_eq!(Use::Process.bound(1024), 896);
        assert_eq!(Use::Process.bound(1 << 20), (1 << 20) - 1024);
    }
}
