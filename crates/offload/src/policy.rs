// SPDX-License-Identifier: Apache-2.0
//! When what was received becomes the connection's state.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Packets of an epoch that may have a bit each for their result; longer epochs have one for all.
pub const BITS: u32 = 8;
/// Packets after which the document's fallback waits, where none is given.
pub const STALL: u32 = 32;

/// How the controller decides that a packet counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One analyzer: packets are done in the order in which they came.
    Single,
    /// A packet counts when it is done; one that is not the next is dropped.
    Naive,
    /// A packet counts when it is done; one that is not the next is kept for reassembly.
    Reassembly,
    /// The document's: header results change a provisional state and count up, payload results count down, and at zero the
    /// provisional state is committed.
    Counter {
        /// The document's fallback: after that many packets without a commit no packet is analyzed until all are done.
        stall: Option<u32>,
    },
    /// `epochs` counters, each of `packets` packets; the oldest is committed when it is at zero.
    Epochs {
        /// Counters, 2 to 256 (1 is the document's counter with the fallback).
        epochs: u32,
        /// Packets of each; 1: a scoreboard of packets.
        packets: u32,
    },
    /// The document's counter with the mistake that invites: an error resets the counter. Only tests use it, to see that
    /// what they watch for would be found.
    ResetOnError,
}

impl Policy {
    /// What the RTL is built with: 64 slots, each an epoch of its own.
    pub const DEFAULT: Self = Self::Epochs {
        epochs: 64,
        packets: 1,
    };

    /// Those that are compared.
    pub const ALL: [Self; 8] = [
        Self::Single,
        Self::Naive,
        Self::Reassembly,
        Self::Counter { stall: None },
        Self::Counter { stall: Some(STALL) },
        Self::Epochs {
            epochs: 8,
            packets: 4,
        },
        Self::Epochs {
            epochs: 8,
            packets: 8,
        },
        Self::DEFAULT,
    ];

    /// Whether packets that are not the next are kept.
    pub const fn reassembles(self) -> bool {
        !matches!(self, Self::Naive)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => f.write_str("single"),
            Self::Naive => f.write_str("naive"),
            Self::Reassembly => f.write_str("reassembly"),
            Self::Counter { stall: None } => f.write_str("counter"),
            Self::Counter { stall: Some(stall) } => write!(f, "counter+{stall}"),
            Self::Epochs { epochs, packets } => write!(f, "{epochs}x{packets}"),
            Self::ResetOnError => f.write_str("reset-on-error"),
        }
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::Config(format!(
                "`{text}` is no policy; write single, naive, reassembly, counter, counter+PACKETS (fallback), or \
                 EPOCHSxPACKETS as in 8x8, with 2 to 256 epochs of 1 to 1024 packets"
            ))
        };
        let number = |text: &str, range: std::ops::RangeInclusive<u32>| {
            let number = text.parse().map_err(|_| wrong())?;
            range.contains(&number).then_some(number).ok_or_else(wrong)
        };
        Ok(match text {
            "single" => Self::Single,
            "naive" => Self::Naive,
            "reassembly" => Self::Reassembly,
            "counter" => Self::Counter { stall: None },
            _ => match (text.strip_prefix("counter+"), text.split_once('x')) {
                (Some(stall), _) => Self::Counter {
                    stall: Some(number(stall, 1..=65_536)?),
                },
                (None, Some((epochs, packets))) => Self::Epochs {
                    epochs: number(epochs, 2..=256)?,
                    packets: number(packets, 1..=1024)?,
                },
                (None, None) => return Err(wrong()),
            },
        })
    }
}

impl serde::Serialize for Policy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
