// SPDX-License-Identifier: Apache-2.0
//! Who answers at which address: listeners and datagram sockets by address, wildcards included.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ProcessId;

/// One form for every spelling of an address: IPv4 inside IPv6 becomes IPv4, scope and flow go.
///
/// Both ends name the same connection, each as its own socket calls tell it; only in this form are they equal.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// As [`canonical`], for an address that somebody sends to: the kernel takes the wildcard there as loopback.
pub fn destination(address: SocketAddr) -> SocketAddr {
    let address = canonical(address);
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Addresses with the processes that registered them.
#[derive(Debug, Default)]
pub struct Registry {
    owners: HashMap<SocketAddr, BTreeSet<ProcessId>>,
}

impl Registry {
    /// Says whether this is news.
    pub fn add(&mut self, address: SocketAddr, process: ProcessId) -> bool {
        self.owners
            .entry(canonical(address))
            .or_default()
            .insert(process)
    }

    /// Says whether nobody is left at this address.
    pub fn remove(&mut self, address: SocketAddr, process: ProcessId) -> bool {
        let address = canonical(address);
        let Some(owners) = self.owners.get_mut(&address) else {
            return false;
        };
        if !owners.remove(&process) || !owners.is_empty() {
            return false;
        }
        self.owners.remove(&address);
        true
    }

    /// The processes that get what is sent to `address`: the kernel's order, the most specific socket first.
    pub fn at(&self, address: SocketAddr) -> Option<&BTreeSet<ProcessId>> {
        let address = destination(address);
        let port = address.port();
        let wildcards: &[IpAddr] = if address.is_ipv4() {
            &[
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            ]
        } else {
            &[IpAddr::V6(Ipv6Addr::UNSPECIFIED)]
        };
        self.owners.get(&address).or_else(|| {
            wildcards
                .iter()
                .find_map(|&ip| self.owners.get(&SocketAddr::new(ip, port)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn spellings_of_one_address_are_one() {
        assert_eq!(canonical(at("[::ffff:10.0.0.1]:80")), at("10.0.0.1:80"));
        assert_eq!(destination(at("0.0.0.0:80")), at("127.0.0.1:80"));
        assert_eq!(destination(at("[::]:80")), at("[::1]:80"));
        assert_eq!(destination(at("[::ffff:0.0.0.0]:80")), at("127.0.0.1:80"));
        assert_eq!(canonical(at("[fe80::1%3]:80")), at("[fe80::1]:80"));
    }

    #[test]
    fn the_most_specific_socket_wins() {
        let mut registry = Registry::default();
        let only = |registry: &Registry, address: &str| -> Vec<ProcessId> {
            let owners = registry.at(at(address));
            owners.into_iter().flatten().copied().collect()
        };
        assert!(registry.add(at("[::]:80"), 1));
        assert_eq!(only(&registry, "127.0.0.1:80"), [1]);
        assert_eq!(only(&registry, "[::1]:80"), [1]);
        assert!(registry.add(at("0.0.0.0:80"), 2));
        assert_eq!(only(&registry, "127.0.0.1:80"), [2]);
        assert!(registry.add(at("127.0.0.1:80"), 3));
        assert!(!registry.add(at("127.0.0.1:80"), 3));
        assert_eq!(only(&registry, "127.0.0.1:80"), [3]);
        assert_eq!(only(&registry, "127.0.0.2:80"), [2]);
        assert_eq!(only(&registry, "127.0.0.1:81"), []);
        assert!(registry.remove(at("0.0.0.0:80"), 2));
        assert_eq!(only(&registry, "127.0.0.2:80"), [1]);
    }

    #[test]
    fn an_address_lives_as_long_as_one_of_its_processes() {
        let mut registry = Registry::default();
        registry.add(at("127.0.0.1:80"), 1);
        registry.add(at("127.0.0.1:80"), 2);
        assert!(!registry.remove(at("127.0.0.1:80"), 1));
        assert!(!registry.remove(at("127.0.0.1:80"), 1));
        assert!(registry.remove(at("127.0.0.1:80"), 2));
        assert!(!registry.remove(at("127.0.0.1:80"), 2));
    }
}
