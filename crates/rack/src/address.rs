// SPDX-License-Identifier: Apache-2.0
//! IPv4 addresses with prefixes, as topologies have them.

use std::fmt;
use std::net::Ipv4Addr;

use fib::Prefix4;
use serde::{Deserialize, Serialize};

/// Longest prefix of a subnet in which two ends of a cable have an address.
const LONGEST: u8 = 31;

/// A subnet: an address without host bits, and a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet(Prefix4);

/// An interface's own address in its subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interface {
    /// The address.
    pub address: Ipv4Addr,
    /// The subnet around it.
    pub subnet: Subnet,
}

impl Subnet {
    /// The subnet of an address.
    pub fn around(address: Ipv4Addr, len: u8) -> Self {
        Self(Prefix4::around(address.to_bits(), len))
    }

    /// As the switch's tables have it.
    pub const fn prefix(self) -> Prefix4 {
        self.0
    }

    /// Prefix length.
    #[allow(clippy::len_without_is_empty)] // of a prefix, not of a collection
    pub const fn len(self) -> u8 {
        self.0.len()
    }

    /// Whether an address is in it.
    pub const fn contains(self, address: Ipv4Addr) -> bool {
        self.0.contains(address.to_bits())
    }

    /// Whether the two share an address.
    pub const fn overlaps(self, other: Self) -> bool {
        self.0.contains(other.0.addr()) || other.0.contains(self.0.addr())
    }

    /// Whether an address can be an interface's here: not the subnet itself and not its broadcast address, which a
    /// /31 has not (RFC 3021).
    pub const fn has_host(self, address: Ipv4Addr) -> bool {
        let address = address.to_bits();
        self.0.contains(address)
            && (self.0.len() >= LONGEST || (address != self.0.addr() && address != self.0.last()))
    }
}

impl Interface {
    /// An address with the length of its subnet's prefix.
    pub fn new(address: Ipv4Addr, len: u8) -> Self {
        let subnet = Subnet::around(address, len);
        Self { address, subnet }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.subnet.len())
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

impl From<Interface> for String {
    fn from(interface: Interface) -> Self {
        interface.to_string()
    }
}

impl TryFrom<String> for Subnet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let prefix: Prefix4 = text
            .parse()
            .map_err(|error: fib::Error| error.to_string())?;
        if prefix.to_string() != text {
            return Err(format!("`{text}` is no prefix; write it as {prefix}"));
        }
        Ok(Self(prefix))
    }
}

impl TryFrom<String> for Interface {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(address, len)| Some((address.parse().ok()?, length(len)?)));
        let Some((address, len)) = parts else {
            return Err(format!(
                "`{text}` is no address with a prefix length; write it as in 192.0.2.1/24"
            ));
        };
        if !(1..=LONGEST).contains(&len) {
            return Err(format!(
                "`{text}` leaves no room for a neighbour; write a prefix length from 1 to {LONGEST}"
            ));
        }
        let interface = Self::new(address, len);
        if !interface.subnet.has_host(address) || !is_unicast(address) {
            return Err(format!(
                "`{text}` is no address of an interface; choose one that is neither the subnet nor a broadcast, \
                 multicast or loopback address"
            ));
        }
        Ok(interface)
    }
}

/// A prefix length as it is written: `+24` and `024` are none.
fn length(text: &str) -> Option<u8> {
    text.parse().ok().filter(|len: &u8| len.to_string() == text)
}

/// Whether an address can be one of a machine on a network.
pub fn is_unicast(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first < 224 && !address.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(text: &str) -> Result<Interface, String> {
        Interface::try_from(text.to_owned())
    }

    #[test]
    fn interfaces() {
        let good = interface("192.0.2.129/25").expect("an address");
        assert_eq!(good.to_string(), "192.0.2.129/25");
        assert_eq!(good.subnet.to_string(), "192.0.2.128/25");
        assert!(good.subnet.has_host(Ipv4Addr::new(192, 0, 2, 254)));
        assert!(!good.subnet.has_host(Ipv4Addr::new(192, 0, 2, 255)));
        assert!(!good.subnet.has_host(Ipv4Addr::new(192, 0, 2, 1)));
        interface("192.0.2.0/31").expect("RFC 3021");
        for bad in [
            "192.0.2.1",
            "192.0.2/24",
            "192.0.2.1/33",
            "192.0.2.1/32",
            "192.0.2.1/0",
            "192.0.2.0/24",
            "192.0.2.255/24",
            "224.0.0.1/24",
            "127.0.0.1/8",
            "0.0.0.1/24",
            "10.0.0.2/+24",
            "10.0.0.2/024",
            "",
        ] {
            interface(bad).expect_err(bad);
        }
    }

    #[test]
    fn overlaps() {
        let subnet = |text: &str| Subnet::try_from(text.to_owned()).expect("a subnet");
        let wide = subnet("10.0.0.0/16");
        assert!(wide.overlaps(subnet("10.0.3.0/24")));
        assert!(subnet("10.0.3.0/24").overlaps(wide));
        assert!(!wide.overlaps(subnet("10.1.0.0/24")));
        let signed = Subnet::try_from("10.0.0.0/+16".to_owned()).expect_err("a sign");
        assert_eq!(
            signed,
            "`10.0.0.0/+16` is no prefix; write it as 10.0.0.0/16"
        );
    }
}
