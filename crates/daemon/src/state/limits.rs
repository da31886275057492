// SPDX-License-Identifier: Apache-2.0
//! What one process may have, so that one that runs wild takes nothing from the others.

use rustix::io::Errno;
use serde::Deserialize;

use super::Refusal;

/// Longest program name that is kept, in characters.
pub const PROGRAM_NAME: usize = 64;

/// Limits per process; the configuration's table `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Processes that are connected at a time, in all.
    pub processes: usize,
    /// Addresses on which a process listens.
    pub listeners: usize,
    /// Datagram addresses of a process.
    pub addresses: usize,
    /// Connections that a process is just opening.
    pub intents: usize,
    /// Open channels of a process.
    pub channels: usize,
    /// Regions of a process.
    pub regions: usize,
    /// Memory of all regions of a process, bytes.
    pub region_bytes: u64,
    /// Tokens of a region.
    pub tokens: usize,
    /// Windows of a process.
    pub windows: usize,
    /// Notices that wait for a process that doesn't read them; beyond, it is disconnected.
    pub notices: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 4096,
            listeners: 4096,
            addresses: 16384,
            intents: 4096,
            channels: 65536,
            regions: 4096,
            region_bytes: 1 << 40,
            tokens: 4096,
            windows: 4096,
            notices: 4096,
        }
    }
}

/// Checks that one more thing fits.
pub fn room(have: usize, limit: usize, what: &str, key: &str) -> Result<(), Refusal> {
    if have < limit {
        return Ok(());
    }
    Err(Refusal::new(
        Errno::NOBUFS,
        format!(
            "this process has {have} {what}, the most that the daemon allows; \
             close some, or raise `{key}` in its configuration's [limits]"
        ),
    ))
}
