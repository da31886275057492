// SPDX-License-Identifier: Apache-2.0
//! What the headers of a frame say, as far as hardware looks.

use super::Media;
use super::acl::AclKey;

const BEAT_BYTES: usize = 8;
const MAC_BYTES: usize = 14;
const V4_BYTES: usize = 20;
const V6_BYTES: usize = 40;
const TYPE_V4: u16 = 0x0800;
const TYPE_V6: u16 = 0x86DD;
/// Protocols with two ports at the begin of their headers: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// A frame that ended may have bytes of anything, or none, where a header should be.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn byte(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn number<const N: usize>(self, at: usize) -> u128 {
        (at..at + N).fold(0, |number, at| number << 8 | u128::from(self.byte(at)))
    }

    fn half(self, at: usize) -> u16 {
        self.number::<2>(at) as u16
    }
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    V4(u32),
    V6(u128),
}

/// Why a packet can't be forwarded by hardware, in the order in which it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Objections {
    pub bad_header: bool,
    pub martian: bool,
    pub local_only: bool,
    pub options: bool,
    pub expires: bool,
}

/// An IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub destination: Destination,
    /// Bytes that its header claims, at most 65535.
    pub length: u16,
    pub objections: Objections,
    pub key: AclKey,
}

/// What is behind the MAC addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Headers {
    /// The frame ended before the destination address did.
    Incomplete,
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// IPv4 or IPv6.
    Ip(Packet),
}

/// Reads a frame without tag. The FCS may be read as if it were data, as hardware does, which does
/// not know yet that the frame ends. At 10G a header is there when the beat is in which it ends;
/// bytes that are missing then are zeros.
pub(super) fn read(frame: &[u8], port: u8, media: Media) -> Headers {
    let bytes = Bytes(frame);
    if frame.len() < MAC_BYTES {
        return Headers::Incomplete;
    }
    let (needs, packet): (usize, fn(Bytes, u8) -> Packet) = match bytes.half(12) {
        TYPE_V4 => (MAC_BYTES + V4_BYTES, read_v4),
        TYPE_V6 => (MAC_BYTES + V6_BYTES, read_v6),
        _ => return Headers::NotIp,
    };
    let needs = match media {
        Media::Xgmii => (needs - 1) / BEAT_BYTES * BEAT_BYTES + 1,
        Media::Gmii => needs,
    };
    if frame.len() < needs {
        return Headers::Incomplete;
    }
    Headers::Ip(packet(bytes, port))
}

fn ports(bytes: Bytes, protocol: u8, at: usize, there: bool) -> Option<(u16, u16)> {
    (there && WITH_PORTS.contains(&protocol)).then(|| (bytes.half(at), bytes.half(at + 2)))
}

/// RFC 791 section 3.1; addresses RFC 1812 section 5.3.7, RFC 1122 section 3.2.1.3.
fn read_v4(bytes: Bytes, port: u8) -> Packet {
    let ip = MAC_BYTES;
    let (version, header_words) = (bytes.byte(ip) >> 4, bytes.byte(ip) & 15);
    let length = bytes.half(ip + 2);
    let fragment_offset = bytes.half(ip + 6) & 0x1FFF;
    let protocol = bytes.byte(ip + 9);
    let src = bytes.number::<4>(ip + 12) as u32;
    let dst = bytes.number::<4>(ip + 16) as u32;

    let sum: u32 = (0..V4_BYTES / 2)
        .map(|word| u32::from(bytes.half(ip + 2 * word)))
        .sum();
    // In one's complement, all ones and all zeros are the same; no header has only zeros.
    let checksum_good = sum.is_multiple_of(0xFFFF);
    let options = header_words > 5;
    // Net 0, loopback, and class E; the limited broadcast is in class E.
    let nowhere = |address: u32| matches!(address >> 24, 0 | 127 | 240..=255);
    let multicast = |address: u32| address >> 28 == 0xE;
    let broadcast = dst == u32::MAX;
    // RFC 3927 section 7: a router forwards neither from nor to these.
    let link_local = |address: u32| address >> 16 == 0xA9FE;

    let objections = Objections {
        // With options the host checks the sum.
        bad_header: version != 4
            || header_words < 5
            || length < V4_BYTES as u16
            || !options && !checksum_good,
        martian: nowhere(src) || multicast(src) || nowhere(dst) && !broadcast,
        local_only: multicast(dst) || broadcast || link_local(src) || link_local(dst),
        options,
        expires: bytes.byte(ip + 8) <= 1,
    };
    let first = fragment_offset == 0;
    let there = !options && first && usize::from(length) >= V4_BYTES + 4;
    let key = AclKey {
        port,
        v6: false,
        src: u128::from(src) << 96,
        dst: u128::from(dst) << 96,
        protocol,
        ports: ports(bytes, protocol, ip + V4_BYTES, there),
    };
    Packet {
        destination: Destination::V4(dst),
        length,
        objections,
        key,
    }
}

/// RFC 8200 section 3; addresses RFC 4291 section 2.
fn read_v6(bytes: Bytes, port: u8) -> Packet {
    let ip = MAC_BYTES;
    let payload = bytes.half(ip + 4);
    let protocol = bytes.byte(ip + 6);
    let src = bytes.number::<16>(ip + 8);
    let dst = bytes.number::<16>(ip + 24);
    let multicast = |address: u128| address >> 120 == 0xFF;
    let link_local = |address: u128| address >> 118 == 0x3FA;

    let objections = Objections {
        bad_header: bytes.byte(ip) >> 4 != 6,
        // The unspecified address and the loopback address are 0 and 1.
        martian: multicast(src) || src <= 1 || dst <= 1,
        local_only: multicast(dst) || link_local(dst) || link_local(src),
        // Hop-by-hop options.
        options: protocol == 0,
        expires: bytes.byte(ip + 7) <= 1,
    };
    let key = AclKey {
        port,
        v6: true,
        src,
        dst,
        protocol,
        ports: ports(bytes, protocol, ip + V6_BYTES, payload >= 4),
    };
    Packet {
        destination: Destination::V6(dst),
        length: payload.saturating_add(V6_BYTES as u16),
        objections,
        key,
    }
}

/// Takes one hop off a packet (without options, not expired) behind MAC addresses. The checksum is
/// computed from the whole header: the RTL's update of RFC 1624 must come to the same.
pub(super) fn take_hop(frame: &mut [u8]) {
    let ip = &mut frame[MAC_BYTES..];
    if ip[0] >> 4 == 6 {
        ip[7] -= 1;
        return;
    }
    ip[8] -= 1;
    ip[10..12].fill(0);
    let mut sum: u32 = ip[..V4_BYTES]
        .chunks_exact(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
