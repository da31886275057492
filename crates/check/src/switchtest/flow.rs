// SPDX-License-Identifier: Apache-2.0
//! Plain traffic for the tests of routes: UDP of both families with a number in it, and what must
//! come of it, built without the switch's model.

use wire::FCS_BYTES;

/// Where a port of the switch can be reached.
pub fn port_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, port as u8]
}

/// MAC address of a next hop: its number can be read off.
pub fn hop_mac(hop: u16) -> [u8; 6] {
    [2, 0, 0, 1, (hop >> 8) as u8, hop as u8]
}

/// The next hop to which a frame goes.
pub fn hop_of(frame: &[u8]) -> Option<u16> {
    let hop = u16::from(*frame.get(4)?) << 8 | u16::from(*frame.get(5)?);
    (frame[..4] == hop_mac(0)[..4]).then_some(hop)
}

/// A destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// IPv4.
    V4(u32),
    /// IPv6.
    V6(u128),
}

impl Address {
    /// Shortest frame with FCS.
    pub fn shortest(self) -> usize {
        match self {
            Self::V4(_) => 64,
            Self::V6(_) => 66,
        }
    }
}

const HOPS_IN: u8 = 64;

/// A packet of `size` bytes with its MAC header and FCS, without them.
fn packet(to: Address, size: usize, hops: u8, number: u32) -> Vec<u8> {
    let count = size - 14 - FCS_BYTES;
    let mut bytes = Vec::with_capacity(count);
    match to {
        Address::V4(to) => {
            bytes.extend([0x45, 0]);
            bytes.extend((count as u16).to_be_bytes());
            bytes.extend([number as u8, 1, 0x40, 0, hops, 17, 0, 0, 192, 0, 2, 1]);
            bytes.extend(to.to_be_bytes());
            let mut sum: u32 = bytes
                .chunks_exact(2)
                .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
                .sum();
            while sum > 0xFFFF {
                sum = (sum & 0xFFFF) + (sum >> 16);
            }
            bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Address::V6(to) => {
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend((count as u16 - 40).to_be_bytes());
            bytes.extend([17, hops]);
            bytes.extend((0x2001_0DB8_u128 << 96 | 1).to_be_bytes());
            bytes.extend(to.to_be_bytes());
        }
    }
    // UDP without a checksum, which nobody here looks at.
    let ports = [0xC0, 0, 0, 7];
    bytes.extend(ports);
    bytes.extend(number.to_be_bytes());
    let filled = bytes.len() as u8;
    bytes.extend((bytes.len()..count).map(|at| (at as u8).wrapping_sub(filled) ^ number as u8));
    bytes
}

/// A frame for a port, with FCS.
pub fn sent(port: usize, to: Address, size: usize, number: u32) -> Vec<u8> {
    let mut frame = port_mac(port).to_vec();
    frame.extend([2, 0, 0, 9, 9, 9]);
    frame.extend(kind(to));
    frame.extend(packet(to, size, HOPS_IN, number));
    let fcs = wire::fcs(&frame);
    frame.extend(fcs);
    frame
}

/// What must leave a port, behind the destination's MAC address and without FCS.
pub fn forwarded(port: usize, to: Address, size: usize, number: u32) -> Vec<u8> {
    let mut rest = port_mac(port).to_vec();
    rest.extend(kind(to));
    rest.extend(packet(to, size, HOPS_IN - 1, number));
    rest
}

fn kind(to: Address) -> [u8; 2] {
    match to {
        Address::V4(_) => [0x08, 0x00],
        Address::V6(_) => [0x86, 0xDD],
    }
}
