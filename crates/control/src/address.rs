// SPDX-License-Identifier: Apache-2.0
//! Addresses with a prefix length, and what kind of address one is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use fib::{Prefix4, Prefix6};

use crate::error::Error;

/// Six bytes, first on the wire first.
pub(crate) type Mac = [u8; 6];

/// An address of an interface, and how many of its bits name the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subnet {
    /// The address.
    pub address: IpAddr,
    /// Bits of the prefix.
    pub len: u8,
}

impl Subnet {
    /// Bits of an address of its family.
    pub(crate) fn bits(self) -> u8 {
        match self.address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    /// Whether an address is in the subnet.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                Prefix4::around(own.into(), self.len).contains(other.into())
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                Prefix6::around(own.into(), self.len).contains(other.into())
            }
            _ => false,
        }
    }

    /// Whether two subnets share addresses.
    pub(crate) fn overlaps(self, other: Subnet) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// The broadcast address, and the form with zeros that old hosts took for one (RFC 1812 section
    /// 4.2.3.1). None in /31 (RFC 3021) and /32.
    pub(crate) fn broadcasts(self) -> Option<[Ipv4Addr; 2]> {
        match self.address {
            IpAddr::V4(address) if self.len <= 30 => {
                let prefix = Prefix4::around(address.into(), self.len);
                Some([prefix.addr().into(), prefix.last().into()])
            }
            _ => None,
        }
    }

    /// The subnet-router anycast address (RFC 4291 section 2.6.1); none in /127 (RFC 6164) and
    /// /128.
    pub(crate) fn anycast(self) -> Option<Ipv6Addr> {
        match self.address {
            IpAddr::V6(address) if self.len <= 126 => {
                Some(Prefix6::around(address.into(), self.len).addr().into())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Subnet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = text.trim().split_once('/').and_then(|(address, len)| {
            let subnet = Subnet {
                address: address.parse().ok()?,
                len: len.parse().ok()?,
            };
            (subnet.len <= subnet.bits()).then_some(subnet)
        });
        parsed.ok_or_else(|| Error::NotASubnet {
            text: text.to_owned(),
        })
    }
}

/// The address that a port makes of its MAC address (RFC 4291 appendix A).
pub(crate) fn link_local_of(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let half = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(
        0xFE80,
        0,
        0,
        0,
        half(a ^ 2, b),
        half(c, 0xFF),
        half(0xFE, d),
        half(e, f),
    )
}

/// Where those who have this address listen (RFC 4291 section 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = address.segments();
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00 | a & 0xFF, b)
}

/// The MAC address of a multicast group (RFC 2464 section 7).
pub(crate) fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// RFC 4291 section 2.5.6.
pub(crate) fn is_link_local6(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xFFC0 == 0xFE80
}

/// Whether a packet may have it as source and be forwarded or answered (RFC 1812 section 5.3.7).
pub(crate) fn is_host4(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[0], 0 | 127 | 224..=255)
}

/// Whether one host alone can have this address.
pub(crate) fn is_host6(address: Ipv6Addr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && !address.is_loopback()
}

/// Whether it is one station's.
pub(crate) fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}
