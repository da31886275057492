// SPDX-License-Identifier: Apache-2.0
//! Networks of IPv4 and IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The first address that begins with the same bits.
fn cut(address: IpAddr, bits: u8) -> IpAddr {
    let gone = u32::from(width(address) - bits);
    match address {
        IpAddr::V4(ip) => {
            Ipv4Addr::from_bits(ip.to_bits() & u32::MAX.checked_shl(gone).unwrap_or(0)).into()
        }
        IpAddr::V6(ip) => {
            Ipv6Addr::from_bits(ip.to_bits() & u128::MAX.checked_shl(gone).unwrap_or(0)).into()
        }
    }
}

impl Network {
    /// That of an address; none for IPv4 in IPv6's clothes, which no address is compared as.
    pub(super) fn around(address: IpAddr, bits: u8) -> Option<Self> {
        let first = cut(address, bits);
        (first == first.to_canonical()).then_some(Self { first, bits })
    }

    /// Whether an address is in it. IPv4 in IPv6's clothes is IPv4.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(address) == width(self.first) && cut(address, self.bits) == self.first
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text: String = text.chars().take(60).flat_map(char::escape_debug).collect();
            format!(
                "`{text}` is no address and no network; write 10.0.0.0/8, 192.0.2.1 or 2001:db8::/32"
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
            None => width(address),
        };
        if bits > width(address) {
            return Err(wrong());
        }
        let Some(network) = Self::around(address, bits) else {
            return Err(format!(
                "`{text}` is IPv4 written as IPv6; write it as {}",
                address.to_canonical()
            ));
        };
        let first = network.first;
        if first != address {
            return Err(format!(
                "`{text}` has more bits than its first {bits}; write {first}/{bits}, or {address} for the one address"
            ));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits == width(self.first) {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.bits),
        }
    }
}
