// SPDX-License-Identifier: Apache-2.0
//! What goes in and what comes out.

use fib::{NextHop, NextHopId, Op, Prefix4, Prefix6};

use crate::config::PortConfig;

/// `MemPort` of `fib_pkg`: settings of ports.
pub(crate) const MEMORY_PORT: u8 = 26;
/// `MemDrain` of `fib_pkg`: wait until every lookup under way has ended.
pub(crate) const MEMORY_DRAIN: u8 = 31;

/// A frame that the switch gave to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFrame<'a> {
    /// Port of arrival.
    pub port: u8,
    /// Number of the verdict, see [`crate::Verdict`]. It is counted; what to do is read from the
    /// frame again, because tables may have changed on its way.
    pub verdict: u8,
    /// The frame ended bad.
    pub bad: bool,
    /// From the destination MAC on, without FCS and VLAN tag.
    pub bytes: &'a [u8],
}

/// One word for the switch's write channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Memory, as `fib_pkg::memory_e` numbers it; 31 is no memory but a wait for lookups under way.
    pub memory: u8,
    /// Address in words.
    pub address: u32,
    /// The word, least significant part first.
    pub data: [u64; 3],
}

impl From<&Op> for Write {
    fn from(op: &Op) -> Self {
        match op {
            Op::Write(write) => Self {
                memory: write.memory.id(),
                address: write.addr,
                data: write.data,
            },
            Op::Drain => Self {
                memory: MEMORY_DRAIN,
                address: 0,
                data: [0; 3],
            },
        }
    }
}

/// What a list of writes changes; for models, which have no memories, and for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Settings of a port.
    Port(u8, PortConfig),
    /// A next hop is set, or removed.
    NextHop(NextHopId, Option<NextHop>),
    /// An IPv4 route is set, or removed.
    Route4(Prefix4, Option<NextHopId>),
    /// An IPv6 route is set, or removed.
    Route6(Prefix6, Option<NextHopId>),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a frame by the host port.
    Send {
        /// Egress port.
        port: u8,
        /// From the destination MAC on, without FCS, VLAN tag and padding.
        bytes: Vec<u8>,
    },
    /// Give a word to the write channel.
    Write(Write),
    /// The writes that follow, up to the next change, do this. Hardware needs only the writes.
    Change(Change),
}
