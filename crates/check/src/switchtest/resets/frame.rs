// SPDX-License-Identifier: Apache-2.0
//! Frames that say who they are: a number in the IP header, in front of what a switch looks up, and payload of which no
//! eight bytes occur twice. What must come of them is built without the switch's model.

use wire::FCS_BYTES;

use crate::switchtest::flow;

const MAC_BYTES: usize = 12;
const TYPE_BYTES: usize = 2;
const TAG_BYTES: usize = 4;
const V4_BYTES: usize = 20;
const V6_BYTES: usize = 40;
const HOPS_IN: u8 = 64;
const UDP: u8 = 17;
const TAG_TYPE: [u8; 2] = [0x81, 0x00];
const V4_TYPE: [u8; 2] = [0x08, 0x00];
const V6_TYPE: [u8; 2] = [0x86, 0xDD];
/// First byte of the IPv4 destinations; the second one is the port.
pub const NET4: u8 = 20;
/// First word of the IPv6 destinations; the third one is the port.
pub const NET6: u128 = 0x2001_0DB8 << 96;

/// What a frame is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Who it is.
    pub number: u32,
    /// Port by which it enters.
    pub from: usize,
    /// Port by which it leaves.
    pub out: usize,
    /// IPv6.
    pub v6: bool,
    /// Bytes with FCS, without a tag.
    pub size: usize,
}

/// The next hop behind a port.
pub fn hop_of(out: usize) -> u16 {
    out as u16 + 1
}

/// Eight bytes that only this place of this frame has.
fn filling(number: u32, word: usize) -> u64 {
    let mut value = u64::from(number) << 32 | word as u64;
    for factor in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        value = (value ^ value >> 30).wrapping_mul(factor);
    }
    value ^ value >> 31
}

fn packet(parts: &Parts, hops: u8) -> Vec<u8> {
    let count = parts.size - MAC_BYTES - TYPE_BYTES - FCS_BYTES;
    let mut bytes = Vec::with_capacity(count);
    let [a, b, c, d] = parts.number.to_be_bytes();
    let host = filling(parts.number, usize::MAX).to_be_bytes();
    if parts.v6 {
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend((count as u16 - V6_BYTES as u16).to_be_bytes());
        bytes.extend([UDP, hops]);
        bytes.extend((NET6 | u128::from(parts.number)).to_be_bytes());
        let net = NET6 | (parts.out as u128) << 80;
        bytes.extend(net.to_be_bytes()[..8].iter().chain(&host));
    } else {
        bytes.extend([0x45, 0]);
        bytes.extend((count as u16).to_be_bytes());
        bytes.extend([c, d, 0x40, 0, hops, UDP, 0, 0, 192, 1, a, b]);
        bytes.extend([NET4, parts.out as u8, host[0], host[1]]);
        let mut sum: u32 = bytes
            .chunks_exact(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        while sum > 0xFFFF {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    let mut word = 0;
    while bytes.len() < count {
        let more = filling(parts.number, word).to_be_bytes();
        bytes.extend(&more[..more.len().min(count - bytes.len())]);
        word += 1;
    }
    bytes
}

fn frame(macs: [[u8; 6]; 2], vlan: Option<u16>, parts: &Parts, hops: u8) -> Vec<u8> {
    let mut bytes = macs.concat();
    if let Some(vid) = vlan {
        bytes.extend(TAG_TYPE);
        bytes.extend(vid.to_be_bytes());
    }
    bytes.extend(if parts.v6 { V6_TYPE } else { V4_TYPE });
    bytes.extend(packet(parts, hops));
    bytes
}

/// As it enters, with FCS, and with a tag if its port wants one.
pub fn sent(parts: &Parts, vlan: Option<u16>) -> Vec<u8> {
    let source = [2, 0, 0, 9, 9, parts.from as u8];
    let mut bytes = frame([flow::port_mac(parts.from), source], vlan, parts, HOPS_IN);
    let fcs = wire::fcs(&bytes);
    bytes.extend(fcs);
    bytes
}

/// As it must leave, without FCS.
pub fn forwarded(parts: &Parts, vlan: Option<u16>) -> Vec<u8> {
    let macs = [flow::hop_mac(hop_of(parts.out)), flow::port_mac(parts.out)];
    frame(macs, vlan, parts, HOPS_IN - 1)
}

/// Bytes of a frame as it leaves in which a switch can have found where it goes.
pub fn header_bytes(v6: bool, vlan: Option<u16>) -> usize {
    let tag = vlan.map_or(0, |_| TAG_BYTES);
    MAC_BYTES + tag + TYPE_BYTES + if v6 { V6_BYTES } else { V4_BYTES }
}

/// The number of a frame that has its whole IP header.
pub fn number_of(bytes: &[u8]) -> Option<u32> {
    let behind = bytes.get(MAC_BYTES..)?;
    let (kind, mut packet) = behind.split_first_chunk::<TYPE_BYTES>()?;
    let mut kind = *kind;
    if kind == TAG_TYPE {
        let inner = packet.get(TAG_BYTES - TYPE_BYTES..)?;
        let (next, rest) = inner.split_first_chunk::<TYPE_BYTES>()?;
        (kind, packet) = (*next, rest);
    }
    let number = match kind {
        V4_TYPE => {
            let header = packet.get(..V4_BYTES)?;
            [header[14], header[15], header[4], header[5]]
        }
        V6_TYPE => {
            let header = packet.get(..V6_BYTES)?;
            [header[20], header[21], header[22], header[23]]
        }
        _ => return None,
    };
    Some(u32::from_be_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_who_it_is() {
        for (v6, vlan) in [
            (false, None),
            (true, Some(7)),
            (false, Some(9)),
            (true, None),
        ] {
            let parts = Parts {
                number: 0x1234_5678,
                from: 1,
                out: 3,
                v6,
                size: 64,
            };
            let bytes = sent(&parts, vlan);
            assert_eq!(number_of(&bytes), Some(parts.number));
            assert_eq!(bytes.len(), 64 + vlan.map_or(0, |_| TAG_BYTES));
            assert_eq!(number_of(&forwarded(&parts, vlan)), Some(parts.number));
            assert_eq!(number_of(&bytes[..header_bytes(v6, vlan) - 1]), None);
        }
    }
}
