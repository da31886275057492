// SPDX-License-Identifier: Apache-2.0
//! Socket addresses as the calls want them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Environment variable with the address at which servers listen, in place of 127.0.0.1.
const HOST: &str = "SOCKETTEST_HOST";

/// A socket address in the memory layout of the C library.
#[derive(Clone, Copy)]
pub struct Address {
    pub storage: libc::sockaddr_storage,
    pub len: libc::socklen_t,
}

impl Address {
    /// Room for a call to write an address into.
    pub fn room() -> Address {
        // SAFETY: all zeroes is a valid sockaddr_storage.
        let storage = unsafe { std::mem::zeroed() };
        Address {
            storage,
            len: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    /// 127.0.0.1, or what [`HOST`] says, with this port; 0 lets the kernel choose.
    pub fn v4(port: u16) -> Address {
        let host = std::env::var(HOST).ok();
        let host = host.and_then(|host| host.parse().ok());
        SocketAddr::from((host.unwrap_or(Ipv4Addr::LOCALHOST), port)).into()
    }

    /// ::1 with this port.
    pub fn v6(port: u16) -> Address {
        SocketAddr::from((Ipv6Addr::LOCALHOST, port)).into()
    }

    /// ::ffff:127.0.0.1 with this port.
    pub fn mapped(port: u16) -> Address {
        SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port)).into()
    }

    /// The unspecified address, as `bind` takes it, of this one's family.
    pub fn any_v4(port: u16) -> Address {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()
    }

    /// The unspecified IPv6 address.
    pub fn any_v6(port: u16) -> Address {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into()
    }

    /// AF_UNSPEC: `connect` to it dissolves a datagram socket's connection.
    pub fn unspecified() -> Address {
        let mut address = Address::room();
        address.storage.ss_family = libc::AF_UNSPEC as libc::sa_family_t;
        address.len = 16;
        address
    }

    /// AF_INET or AF_INET6.
    pub fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.socket_addr().map_or(0, |address| address.port())
    }

    /// The same port at 127.0.0.1 or ::1: where a socket bound to any address is reached.
    pub fn local(&self) -> Address {
        match self.family() {
            libc::AF_INET6 => Address::v6(self.port()),
            _ => Address::v4(self.port()),
        }
    }

    /// As Rust has it; none if the family is not one of the internet's.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        let start = (&raw const self.storage).cast::<u8>();
        match self.family() {
            libc::AF_INET => {
                // SAFETY: storage is larger than and aligned for every sockaddr type.
                let v4 = unsafe { *start.cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { *start.cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }

    /// For calls that read an address.
    pub fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    /// For calls that write an address.
    pub fn pointer_mut(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.storage).cast()
    }
}

impl From<SocketAddr> for Address {
    fn from(from: SocketAddr) -> Address {
        let mut address = Address::room();
        let start = (&raw mut address.storage).cast::<u8>();
        match from {
            SocketAddr::V4(v4) => {
                // SAFETY: storage is larger than and aligned for every sockaddr type.
                let to = unsafe { &mut *start.cast::<libc::sockaddr_in>() };
                to.sin_family = libc::AF_INET as libc::sa_family_t;
                to.sin_port = v4.port().to_be();
                to.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                address.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let to = unsafe { &mut *start.cast::<libc::sockaddr_in6>() };
                to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                to.sin6_port = v6.port().to_be();
                to.sin6_addr.s6_addr = v6.ip().octets();
                address.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        address
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Address) -> bool {
        self.family() == other.family() && self.socket_addr() == other.socket_addr()
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.socket_addr() {
            Some(address) => write!(f, "{address}"),
            None => write!(f, "address of family {}", self.family()),
        }
    }
}
