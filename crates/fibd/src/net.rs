// SPDX-License-Identifier: Apache-2.0
//! A prefix of either family.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A prefix of either family, without bits behind its length. Its address is at the upper end of the number, so that both
/// families are masked alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Net {
    six: bool,
    bits: u128,
    len: u8,
}

/// Upper bits.
const fn mask(len: u8) -> u128 {
    if len == 0 {
        0
    } else {
        u128::MAX << (128 - len)
    }
}

const fn width(six: bool) -> u8 {
    if six { 128 } else { 32 }
}

fn split(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (false, u128::from(u32::from(address)) << 96),
        IpAddr::V6(address) => (true, u128::from(address)),
    }
}

fn join(six: bool, bits: u128) -> IpAddr {
    if six {
        Ipv6Addr::from(bits).into()
    } else {
        Ipv4Addr::from((bits >> 96) as u32).into()
    }
}

impl Net {
    /// None if there are bits behind the length, or the length is longer than an address.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let (six, bits) = split(address);
        (len <= width(six) && bits & !mask(len) == 0).then_some(Self { six, bits, len })
    }

    /// Everything.
    pub const fn default_of(six: bool) -> Self {
        Self {
            six,
            bits: 0,
            len: 0,
        }
    }

    /// One address.
    pub fn host(address: IpAddr) -> Self {
        let (six, bits) = split(address);
        let len = width(six);
        Self { six, bits, len }
    }

    /// IPv6.
    pub const fn is_ipv6(self) -> bool {
        self.six
    }

    /// Length in bits.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// One address alone.
    pub const fn is_host(self) -> bool {
        self.len == width(self.six)
    }

    /// First address.
    pub fn first(self) -> IpAddr {
        join(self.six, self.bits)
    }

    /// Last address.
    pub fn last(self) -> IpAddr {
        join(self.six, self.bits | !mask(self.len))
    }

    /// The address that is so far behind the first, or as far as the prefix lets it.
    pub fn inside(self, offset: u128) -> IpAddr {
        let offset = if self.six { offset } else { offset << 96 };
        join(self.six, self.bits | offset & !mask(self.len))
    }

    /// The address as the host table's entry of it: the last of the prefix.
    pub const fn last_host(self) -> Self {
        let all = if self.six { u128::MAX } else { mask(32) };
        Self {
            six: self.six,
            bits: (self.bits | !mask(self.len)) & all,
            len: width(self.six),
        }
    }

    /// The prefix of `len` bits around this one; itself if it is not longer.
    pub const fn around(self, len: u8) -> Self {
        let len = if len < self.len { len } else { self.len };
        Self {
            six: self.six,
            bits: self.bits & mask(len),
            len,
        }
    }

    /// Whether the other lies in this one, or is it.
    pub const fn covers(self, other: Self) -> bool {
        self.six == other.six && self.len <= other.len && other.bits & mask(self.len) == self.bits
    }

    /// Shorter prefixes around it, longest first.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        (0..self.len).rev().map(move |len| self.around(len))
    }

    /// Multicast and link-local destinations: hardware gives them to the host before it looks for a route.
    pub const fn is_never_looked_up(self) -> bool {
        if self.six {
            self.len >= 8 && self.bits >> 120 == 0xFF
                || self.len >= 10 && self.bits >> 118 == 0xFE80 >> 6
        } else {
            self.len >= 4 && self.bits >> 124 == 0xE
        }
    }

    /// A number that spreads prefixes evenly over next hops; the same in every run.
    pub const fn spread(self) -> u64 {
        let mixed = (self.bits >> 64) as u64 ^ self.bits as u64 ^ (self.len as u64) << 56;
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// As the tables' crate has it.
    pub fn table(self) -> Table {
        if self.six {
            Table::V6(fib::Prefix6::around(self.bits, self.len))
        } else {
            Table::V4(fib::Prefix4::around((self.bits >> 96) as u32, self.len))
        }
    }
}

/// A prefix as the tables' crate has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// IPv4.
    V4(fib::Prefix4),
    /// IPv6.
    V6(fib::Prefix6),
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.len)
    }
}
