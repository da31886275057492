// SPDX-License-Identifier: Apache-2.0
//! What the socket library's calls are taken to cost in a guest, where code takes no simulated time.

use std::str::FromStr;

use serde::Deserialize;

/// Nanoseconds of the processor; 0: nothing is charged, as on every real machine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallCosts {
    /// A call that sends on a stream, without its data.
    pub send: u32,
    /// More for each KiB that it sends.
    pub send_kib: u32,
    /// A call that receives from a stream, without its data.
    pub recv: u32,
    /// More for each KiB that it receives.
    pub recv_kib: u32,
    /// epoll_wait on a set with accelerated members.
    pub epoll_wait: u32,
    /// poll or select with accelerated sockets.
    pub poll: u32,
}

impl CallCosts {
    /// Whether anything is charged.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// As in the environment: `send=90,send_kib=200,recv=80`; what is absent costs nothing.
impl FromStr for CallCosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut costs = Self::default();
        for part in text.split(',') {
            let wrong = || {
                format!(
                    "{text:?}: write NAME=NS,... with names from send, send_kib, recv, recv_kib, epoll_wait, poll"
                )
            };
            let (name, ns) = part.split_once('=').ok_or_else(wrong)?;
            let place = match name.trim() {
                "send" => &mut costs.send,
                "send_kib" => &mut costs.send_kib,
                "recv" => &mut costs.recv,
                "recv_kib" => &mut costs.recv_kib,
                "epoll_wait" => &mut costs.epoll_wait,
                "poll" => &mut costs.poll,
                _ => return Err(wrong()),
            };
            *place = ns.trim().parse().map_err(|_| wrong())?;
        }
        Ok(costs)
    }
}
