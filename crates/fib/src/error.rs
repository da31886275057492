// SPDX-License-Identifier: Apache-2.0
//! Why a change was refused. A refused change leaves every table and every memory as it was.

use crate::layout::Memory;
use crate::prefix::{Prefix4, Prefix6};
use thiserror::Error;

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The prefix is longer than an address of its family.
    #[error("/{len} is longer than an address of {bits} bits")]
    PrefixTooLong {
        /// Length asked for, in bits.
        len: u8,
        /// Address width, in bits.
        bits: u8,
    },
    /// The address has bits behind the prefix.
    #[error("{text} has bits set behind its prefix length; clear them")]
    HostBits {
        /// The prefix as given.
        text: String,
    },
    /// The text is not a prefix.
    #[error("\"{text}\" is not a prefix; write address/length, as in 192.0.2.0/24")]
    NotAPrefix {
        /// The text as given.
        text: String,
    },
    /// The route is not in the table.
    #[error("there is no route {prefix} to withdraw")]
    NoSuchRoute {
        /// The prefix as text.
        prefix: String,
    },
    /// A memory is full.
    #[error(
        "memory {} is full: {needed} more words in one piece were asked for, {used} of {capacity} \
         are in use; withdraw routes or build the switch with a deeper memory",
        memory.name()
    )]
    Full {
        /// The memory that is full.
        memory: Memory,
        /// Words asked for, in one piece.
        needed: u32,
        /// Words in use.
        used: u32,
        /// Words there are.
        capacity: u32,
    },
    /// The exact-match table has no place for this key, after the bounded number of moves.
    #[error(
        "the exact-match table has no place for {key}: all places its hashes allow are taken \
         ({used} of {capacity} entries in use); build the switch with a larger table"
    )]
    HostTableFull {
        /// The key as text.
        key: String,
        /// Entries in use.
        used: u32,
        /// Entries there are.
        capacity: u32,
    },
    /// The TCAM is full.
    #[error("the TCAM is full: all {capacity} entries are in use, so {prefix} does not fit")]
    TcamFull {
        /// The prefix asked for.
        prefix: Prefix6,
        /// Entries there are.
        capacity: u32,
    },
    /// The TCAM compares fewer bits.
    #[error("{prefix} is longer than the {max} bits that this TCAM compares")]
    TcamTooLong {
        /// The prefix asked for.
        prefix: Prefix6,
        /// Longest prefix it takes, in bits.
        max: u8,
    },
    /// The dissertation's table ends at /24.
    #[error("the sram22 table holds prefixes up to /24, and {prefix} is longer")]
    Sram22TooLong {
        /// The prefix asked for.
        prefix: Prefix4,
    },
    /// The dissertation's table has two bits a segment.
    #[error(
        "the sram22 table holds three next hops beside the default route's, and {prefix} would be \
         the first with a fourth (next hop {next_hop})"
    )]
    Sram22NextHops {
        /// The prefix asked for.
        prefix: Prefix4,
        /// The next hop that has no code.
        next_hop: u16,
    },
    /// Next hop 0 means "no route".
    #[error("next hop {id} does not exist; ids go from 1 to {last}")]
    NextHopRange {
        /// The id asked for.
        id: u16,
        /// The largest id.
        last: u16,
    },
    /// The next hop was never set.
    #[error("next hop {id} is not set; set it before routes point to it")]
    NextHopUnknown {
        /// The id asked for.
        id: u16,
    },
    /// Routes point to the next hop.
    #[error("next hop {id} has {routes} routes; withdraw them before it is removed")]
    NextHopInUse {
        /// The id asked for.
        id: u16,
        /// Routes that point to it.
        routes: u32,
    },
    /// The port is part of every leaf.
    #[error(
        "next hop {id} has {routes} routes whose leaves name its port, so the port can't change; \
         set a new next hop and announce the routes again"
    )]
    NextHopPortFixed {
        /// The id asked for.
        id: u16,
        /// Routes that point to it.
        routes: u32,
    },
    /// The port does not exist.
    #[error("port {port} does not exist; network ports go from 0 to 15")]
    PortRange {
        /// The port asked for.
        port: u8,
    },
    /// The configuration can't be built.
    #[error("memory {} can't have {depth} words: {reason}", memory.name())]
    Depth {
        /// The memory.
        memory: Memory,
        /// Words asked for.
        depth: u32,
        /// What is wrong.
        reason: &'static str,
    },
}
