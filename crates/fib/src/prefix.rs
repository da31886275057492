// SPDX-License-Identifier: Apache-2.0
//! Prefixes of both families, checked once.

use crate::error::Error;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 prefix without bits behind its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix4 {
    addr: u32,
    len: u8,
}

/// An IPv6 prefix without bits behind its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix6 {
    addr: u128,
    len: u8,
}

/// Mask of the upper `len` bits.
const fn mask4(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - len) }
}

/// Mask of the upper `len` bits.
const fn mask6(len: u8) -> u128 {
    if len == 0 {
        0
    } else {
        u128::MAX << (128 - len)
    }
}

impl Prefix4 {
    /// A prefix from an address as a number and a length in bits.
    pub fn new(addr: u32, len: u8) -> Result<Self, Error> {
        if len > 32 {
            return Err(Error::PrefixTooLong { len, bits: 32 });
        }
        let prefix = Self { addr, len };
        if addr & !mask4(len) != 0 {
            return Err(Error::HostBits {
                text: prefix.to_string(),
            });
        }
        Ok(prefix)
    }

    /// The prefix of `len` bits around an address: bits behind it are cleared, `len` is capped at 32.
    pub fn around(addr: u32, len: u8) -> Self {
        let len = len.min(32);
        Self {
            addr: addr & mask4(len),
            len,
        }
    }

    /// First address.
    pub const fn addr(self) -> u32 {
        self.addr
    }

    /// Last address.
    pub const fn last(self) -> u32 {
        self.addr | !mask4(self.len)
    }

    /// Length in bits.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Whether the address lies in the prefix.
    pub const fn contains(self, addr: u32) -> bool {
        addr & mask4(self.len) == self.addr
    }
}

impl Prefix6 {
    /// A prefix from an address as a number and a length in bits.
    pub fn new(addr: u128, len: u8) -> Result<Self, Error> {
        if len > 128 {
            return Err(Error::PrefixTooLong { len, bits: 128 });
        }
        let prefix = Self { addr, len };
        if addr & !mask6(len) != 0 {
            return Err(Error::HostBits {
                text: prefix.to_string(),
            });
        }
        Ok(prefix)
    }

    /// The prefix of `len` bits around an address: bits behind it are cleared, `len` is capped at 128.
    pub fn around(addr: u128, len: u8) -> Self {
        let len = len.min(128);
        Self {
            addr: addr & mask6(len),
            len,
        }
    }

    /// First address.
    pub const fn addr(self) -> u128 {
        self.addr
    }

    /// Last address.
    pub const fn last(self) -> u128 {
        self.addr | !mask6(self.len)
    }

    /// Length in bits.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Whether the address lies in the prefix.
    pub const fn contains(self, addr: u128) -> bool {
        addr & mask6(self.len) == self.addr
    }
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.addr), self.len)
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from(self.addr), self.len)
    }
}

/// Splits `address/length`.
fn split<A: FromStr>(text: &str) -> Result<(A, u8), Error> {
    let parsed = text
        .trim()
        .split_once('/')
        .and_then(|(addr, len)| Some((addr.parse().ok()?, len.parse().ok()?)));
    parsed.ok_or_else(|| Error::NotAPrefix {
        text: text.to_owned(),
    })
}

impl FromStr for Prefix4 {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (addr, len) = split::<Ipv4Addr>(text)?;
        Self::new(addr.into(), len)
    }
}

impl FromStr for Prefix6 {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (addr, len) = split::<Ipv6Addr>(text)?;
        Self::new(addr.into(), len)
    }
}
