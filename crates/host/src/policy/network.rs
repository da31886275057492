// SPDX-License-Identifier: Apache-2.0
//! Networks of IPv4 and IPv6.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// That of an address; none for IPv4 in IPv6's clothes, which no address is compared as, or for too many bits.
    pub(super) fn around(address: IpAddr, bits: u8) -> Option<Self> {
        let network = IpNet::new(address, bits).ok()?.trunc();
        (network.addr() == network.addr().to_canonical()).then_some(Self(network))
    }

    /// Whether an address is in it. IPv4 in IPv6's clothes is IPv4.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether another one is a part of it.
    pub(super) fn has_all(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Its lowest address.
    pub(super) fn first(&self) -> IpAddr {
        self.0.network()
    }

    /// The address behind its highest one.
    pub(super) fn behind(&self) -> Option<IpAddr> {
        match self.0.broadcast() {
            IpAddr::V4(last) => Some(IpAddr::V4(u32::from(last).checked_add(1)?.into())),
            IpAddr::V6(last) => Some(IpAddr::V6(u128::from(last).checked_add(1)?.into())),
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = match text.contains('/') {
            true => text.parse().ok(),
            false => text.parse().ok().map(|address: IpAddr| address.into()),
        };
        let Some(given): Option<IpNet> = read else {
            let text: String = text.chars().take(60).flat_map(char::escape_debug).collect();
            return Err(format!(
                "`{text}` is no address and no network; write 10.0.0.0/8, 192.0.2.1 or 2001:db8::/32"
            ));
        };
        let (address, bits) = (given.addr(), given.prefix_len());
        let Some(network) = Self::around(address, bits) else {
            return Err(format!(
                "`{text}` is IPv4 written as IPv6; write it as {}",
                address.to_canonical()
            ));
        };
        if network.0 != given {
            return Err(format!(
                "`{text}` has more bits than its first {bits}; write {network}, or {address} for the one address"
            ));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(f),
            false => self.0.fmt(f),
        }
    }
}
