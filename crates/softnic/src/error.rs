// SPDX-License-Identifier: Apache-2.0
//! Why something could not be done.

use std::io;
use std::net::Ipv4Addr;

use thiserror::Error;

/// What the NIC in software could not do.
#[derive(Debug, Error)]
pub enum Error {
    /// Memory could not be mapped.
    #[error(
        "can't map {bytes} bytes of memory: {source}; use smaller regions, or raise the limits of the process"
    )]
    Memory {
        /// How much.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A file that may shrink under the NIC.
    #[error(
        "a memfd of {has} bytes can't be used for {bytes}: it must be as large, and sealed with F_SEAL_SHRINK"
    )]
    Unsealed {
        /// What is needed.
        bytes: usize,
        /// What it has.
        has: i64,
    },
    /// A segment was changed too late.
    #[error("the segment is in use already; give it its eventfd before it is shared")]
    Shared,
    /// A table of the NIC is full.
    #[error(
        "the NIC's table of {what} is full ({count} entries); release some, or configure a larger one"
    )]
    Full {
        /// Which one.
        what: &'static str,
        /// Its size.
        count: usize,
    },
    /// Something that is not there.
    #[error("there is no {what} {number}; it may have been closed")]
    Missing {
        /// What.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// A range outside of what it is in.
    #[error("{bytes} bytes from {first:#x} are not inside the {what}, which has {limit:#x} bytes")]
    Range {
        /// What it should be in.
        what: &'static str,
        /// Where it begins.
        first: u64,
        /// How long it is.
        bytes: u64,
        /// How much there is.
        limit: u64,
    },
    /// A UDP port could not be had.
    #[error(
        "can't use UDP port {port} of {address}: {source}; another program has it, or the address is not this machine's"
    )]
    Port {
        /// Own address.
        address: Ipv4Addr,
        /// The port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// A device or a socket could not be set up.
    #[error("{device}: can't {what}: {source}; {remedy}")]
    Device {
        /// Its name.
        device: String,
        /// What failed.
        what: &'static str,
        /// What the system said.
        source: io::Error,
        /// What helps.
        remedy: &'static str,
    },
    /// The device failed while in use.
    #[error("the NIC's device failed: {0}; it may have been taken down or away")]
    Io(#[from] io::Error),
}
