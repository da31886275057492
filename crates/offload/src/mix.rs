// SPDX-License-Identifier: Apache-2.0
//! Lengths of payloads, and what the wire allows with them.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, RngExt};

use crate::Error;

/// Bytes of the IP and TCP headers without options.
pub const HEADERS: u64 = 40;
/// Bytes that Ethernet adds to an IP packet: header, FCS, preamble, gap (section 3.1 of the document).
pub const ETHERNET: u64 = 38;
/// Bytes of the Ethernet header, which an analyzer reads as well.
pub const ETHERNET_HEADER: u64 = 14;
/// The line: 10 Gb/s.
pub const BYTE_PS: u64 = 800;
const LINE_GBPS: f64 = 10.0;

/// Payload lengths of a connection's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All the same.
    Uniform(u32),
    /// Whole socket writes, from the least number of them to the greatest, each as likely: table 3 of the document sends
    /// writes of 1,024 bytes, which the sender's TCP joins to at most 8,192.
    Joined {
        /// Bytes of a write, and the least segment.
        write: u32,
        /// Bytes of the greatest segment.
        most: u32,
    },
    /// Nine of ten short.
    Skewed {
        /// Bytes of the short ones.
        short: u32,
        /// Bytes of the long ones.
        long: u32,
    },
}

impl Mix {
    /// Table 3 of the document.
    pub const TABLE_3: Self = Self::Joined {
        write: 1024,
        most: 8192,
    };
    /// Nine of ten of the shortest, the others of the longest: harder than table 3.
    pub const SKEWED: Self = Self::Skewed {
        short: 1024,
        long: 8192,
    };
    /// Figure 8 of the document.
    pub const FIGURE_8: [Self; 4] = [
        Self::Uniform(1460),
        Self::Uniform(2048),
        Self::Uniform(4096),
        Self::Uniform(8192),
    ];

    /// The next segment's length.
    pub fn draw(self, rng: &mut impl Rng) -> u32 {
        match self {
            Self::Uniform(bytes) => bytes,
            Self::Joined { write, most } => write * rng.random_range(1..=most / write),
            Self::Skewed { short, long } => match rng.random_bool(0.9) {
                true => short,
                false => long,
            },
        }
    }

    /// The greatest length.
    pub const fn most(self) -> u32 {
        match self {
            Self::Uniform(bytes) => bytes,
            Self::Joined { most, .. } => most,
            Self::Skewed { long, .. } => long,
        }
    }
}

/// Time of a segment on the line, with all that surrounds it.
pub const fn line_time(payload: u64) -> crate::Picoseconds {
    crate::Picoseconds((payload + HEADERS + ETHERNET) * BYTE_PS)
}

/// Gb/s of payload that the line can carry, if these segments have these bytes.
pub fn ceiling_gbps(segments: u64, bytes: u64) -> f64 {
    let all = bytes + segments * (HEADERS + ETHERNET);
    LINE_GBPS * bytes as f64 / all.max(1) as f64
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(bytes) => write!(f, "{bytes}"),
            Self::Joined { write, most } => write!(f, "{write}-{most}"),
            Self::Skewed { short, long } => write!(f, "{short}/{long}"),
        }
    }
}

/// Least and greatest payload: the document's MTU is 16 kB.
const BYTES: std::ops::RangeInclusive<u32> = 1..=16_344;

impl FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::Config(format!(
                "`{text}` is no mix; write bytes as in 1460, LEAST-MOST as in 1024-8192 (whole writes of LEAST bytes), or \
                 SHORT/LONG as in 1024/8192 (nine of ten short), each from {} to {} bytes",
                BYTES.start(),
                BYTES.end()
            ))
        };
        let number = |text: &str| {
            let bytes = text.trim().parse().map_err(|_| wrong())?;
            BYTES.contains(&bytes).then_some(bytes).ok_or_else(wrong)
        };
        if let Some((write, most)) = text.split_once('-') {
            let (write, most) = (number(write)?, number(most)?);
            return match most >= write && most % write == 0 {
                true => Ok(Self::Joined { write, most }),
                false => Err(Error::Config(format!(
                    "of `{text}` the second is no multiple of the first; segments are whole writes, as in 1024-8192"
                ))),
            };
        }
        match text.split_once('/') {
            Some((short, long)) => Ok(Self::Skewed {
                short: number(short)?,
                long: number(long)?,
            }),
            None => Ok(Self::Uniform(number(text)?)),
        }
    }
}

impl serde::Serialize for Mix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
