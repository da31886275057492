// SPDX-License-Identifier: Apache-2.0
//! PCI Express links: how long a TLP occupies the lanes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::Picoseconds;

/// Bytes around a TLP on the lanes: start, sequence number, LCRC, end.
pub const FRAMING_BYTES: u64 = 8;
/// TLPs that the NIC's receive buffer holds; beyond them the root complex waits for credits.
pub const RECEIVE_CREDITS: u32 = 32;
/// Bytes that may wait in the endpoint for the lanes before the NIC is held back.
pub const TRANSMIT_BUFFER_BYTES: u64 = 512;

/// Generation and number of lanes, written as `Gen2x4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkKind {
    generation: u8,
    lanes: u8,
}

impl LinkKind {
    /// A link, if PCI Express has it: generation 1 to 5, 1 to 16 lanes.
    pub fn new(generation: u8, lanes: u8) -> Option<Self> {
        let exists = (1..=5).contains(&generation) && [1, 2, 4, 8, 16].contains(&lanes);
        exists.then_some(Self { generation, lanes })
    }

    /// Femtoseconds that one byte takes on one lane.
    const fn fs_per_lane_byte(self) -> u64 {
        match self.generation {
            1 => 4_000_000,
            2 => 2_000_000,
            // 8 GT/s, 130 bits on the lane for 128.
            3 => 1_015_625,
            4 => 507_813,
            _ => 253_907,
        }
    }

    /// Time that `bytes` occupy the lanes.
    pub const fn occupancy(self, bytes: u64) -> Picoseconds {
        Picoseconds((bytes * self.fs_per_lane_byte()).div_ceil(1_000 * self.lanes as u64))
    }

    /// Time that a TLP of so many bytes occupies the lanes, framing included.
    pub const fn serialisation(self, tlp_bytes: usize) -> Picoseconds {
        self.occupancy(tlp_bytes as u64 + FRAMING_BYTES)
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("Gen{}x{}", self.generation, self.lanes))
    }
}

impl From<LinkKind> for String {
    fn from(link: LinkKind) -> Self {
        link.to_string()
    }
}

impl FromStr for LinkKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.strip_prefix("Gen")
            .and_then(|rest| rest.split_once('x'))
            .and_then(|(generation, lanes)| {
                Self::new(generation.parse().ok()?, lanes.parse().ok()?)
            })
            .ok_or_else(|| {
                format!(
                    "`{text}` is no PCI Express link; write Gen1 to Gen5, x, and 1, 2, 4, 8 or 16 lanes, as in Gen2x4"
                )
            })
    }
}

impl TryFrom<String> for LinkKind {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The link.
    pub kind: LinkKind,
    /// From the last byte on the lanes to the far user, constant.
    pub latency: Picoseconds,
    free_at: Picoseconds,
}

impl Lanes {
    /// Idle lanes.
    pub const fn new(kind: LinkKind, latency: Picoseconds) -> Self {
        Self {
            kind,
            latency,
            free_at: Picoseconds::ZERO,
        }
    }

    /// Sends a TLP whose first byte is there at `first` and whose last byte at `last`; returns when the far user has it.
    pub fn send(&mut self, first: Picoseconds, last: Picoseconds, tlp_bytes: usize) -> Picoseconds {
        let start = first.max(self.free_at);
        self.free_at = (start + self.kind.serialisation(tlp_bytes)).max(last);
        self.free_at + self.latency
    }

    /// Whether the transmit buffer takes more at `now`.
    pub fn takes_more(&self, now: Picoseconds) -> bool {
        self.free_at <= now + self.kind.occupancy(TRANSMIT_BUFFER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_of_table_3_4() {
        // 12 bytes of header, 64 of data, 8 of framing: the write-combining column.
        for (link, ns) in [
            ("Gen1x1", 336),
            ("Gen1x4", 84),
            ("Gen2x1", 168),
            ("Gen2x8", 21),
        ] {
            let link: LinkKind = link.parse().expect("a link");
            assert_eq!(link.serialisation(76), Picoseconds::from_ns(ns), "{link}");
        }
    }

    #[test]
    fn links_that_do_not_exist() {
        for text in ["", "Gen6x1", "Gen2x3", "gen2x4", "Gen2", "Genx", "Gen0x1"] {
            assert!(text.parse::<LinkKind>().is_err(), "{text}");
        }
    }

    #[test]
    fn lanes_are_busy_one_after_the_other() {
        let mut lanes = Lanes::new("Gen2x4".parse().expect("a link"), Picoseconds(100));
        let zero = Picoseconds::ZERO;
        assert_eq!(lanes.send(zero, zero, 16), Picoseconds(12_100));
        assert_eq!(lanes.send(zero, zero, 16), Picoseconds(24_100));
        assert!(lanes.takes_more(zero));
    }
}
