// SPDX-License-Identifier: Apache-2.0
//! What may be wrong with a configuration.

use std::net::IpAddr;

use thiserror::Error;

/// Why a configuration or a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// More ports than the switch can have.
    #[error("the switch has 2 to 16 ports, not {ports}")]
    Ports {
        /// Ports configured.
        ports: usize,
    },
    /// Not an address with a length.
    #[error("\"{text}\" is not an address with a prefix length; write it as in 192.0.2.1/24")]
    NotASubnet {
        /// The text as given.
        text: String,
    },
    /// Not a route.
    #[error(
        "\"{text}\" is not a route; write PREFIX via ADDRESS [port N], PREFIX discard, or PREFIX \
         host"
    )]
    NotARoute {
        /// The text as given.
        text: String,
    },
    /// The port's MAC address is a group's.
    #[error("port {port} has a group MAC address; clear the lowest bit of its first byte")]
    GroupMac {
        /// The port.
        port: u8,
    },
    /// MTU too small.
    #[error("port {port} has an MTU of {mtu} bytes; {family} needs {least}")]
    Mtu {
        /// The port.
        port: u8,
        /// Its MTU.
        mtu: u16,
        /// The family that needs more.
        family: &'static str,
        /// What it needs.
        least: u16,
    },
    /// An address that no interface can have.
    #[error("port {port} can't have the address {address}: it is not the address of a host")]
    NotAHost {
        /// The port.
        port: u8,
        /// The address.
        address: IpAddr,
    },
    /// Two subnets share addresses.
    #[error("{first} and {second} share addresses; give each port subnets of its own")]
    Overlap {
        /// One subnet.
        first: String,
        /// The other.
        second: String,
    },
    /// A VLAN id out of range.
    #[error("port {port} has the VLAN id {vlan}; ids go from 1 to 4094")]
    Vlan {
        /// The port.
        port: u8,
        /// The id.
        vlan: u16,
    },
    /// A rate or a burst that hardware has no room for.
    #[error(
        "port {port} lets {} frames a second to the host, {} at once; {} and {} are the most",
        police.rate, police.burst, fib::police::MAX_RATE, fib::police::MAX_BURST
    )]
    Police {
        /// The port.
        port: u8,
        /// What it was given.
        police: fib::police::Police,
    },
    /// A neighbour on no port's subnet.
    #[error("{address} is in no subnet of any port, so it can't be a gateway or neighbour")]
    NotConnected {
        /// The address.
        address: IpAddr,
    },
    /// A link-local gateway without its port.
    #[error("the gateway {address} is link-local: say which port it is behind")]
    NeedsPort {
        /// The address.
        address: IpAddr,
    },
    /// No such port.
    #[error("there is no port {port}; this switch has {ports}, from 0 on")]
    NoSuchPort {
        /// The port asked for.
        port: u8,
        /// Ports there are.
        ports: usize,
    },
    /// Gateway and prefix of different families.
    #[error("the route to {prefix} has a gateway of the other family, {gateway}")]
    MixedFamilies {
        /// The prefix.
        prefix: String,
        /// The gateway.
        gateway: IpAddr,
    },
    /// No next hop is free.
    #[error("all next hops are in use; withdraw routes by other gateways first")]
    NextHopsFull,
    /// The lookup's tables refused.
    #[error(transparent)]
    Fib(#[from] fib::Error),
}
