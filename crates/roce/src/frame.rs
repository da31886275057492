// SPDX-License-Identifier: Apache-2.0
//! Packets as Ethernet frames without FCS.

use crc::{CRC_32_ISO_HDLC, Crc};

use crate::PSN_MASK;
use crate::packet::{Header, Packet};

static ICRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const BTH: usize = 12;
const ICRC_BYTES: usize = 4;
const HEADERS: usize = ETHERNET + IP + UDP + BTH;
const BTH_AT: usize = ETHERNET + IP + UDP;
const ETHER_TYPE: u16 = 0x0800;
const VERSION_LENGTH: u8 = 0x45;
const PROTOCOL_UDP: u8 = 17;
const PORT: u16 = 4791;
const PARTITION: u16 = 0xFFFF;
/// The top bit of a partition says whether its member is a full one.
const PARTITION_MASK: u16 = 0x7FFF;
const TTL: u8 = 64;
const DONT_FRAGMENT: u8 = 0x40;
/// The reserved bit and that of "do not fragment" are no fragment's.
const FRAGMENT_MASK: u16 = 0x3FFF;
const CAPABLE: u8 = 2;
const CONGESTED: u8 = 3;
const MIGRATED: u8 = 0x40;
const SOLICITED: u8 = 0x80;
const ACK_REQ: u32 = 1 << 31;
const MAX_PAYLOAD: usize = 4096;

/// Where an engine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// MAC address.
    pub mac: u64,
    /// IPv4 address.
    pub ip: u32,
}

/// Why a frame is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not RoCEv2 for this address.
    Other,
    /// A checksum is wrong.
    Broken,
    /// Lengths, versions or opcode are wrong.
    Malformed,
}

fn put(out: &mut Vec<u8>, value: u64, bytes: usize) {
    out.extend_from_slice(&value.to_be_bytes()[8 - bytes..]);
}

fn take(bytes: &mut &[u8], count: usize) -> u64 {
    let (head, rest) = bytes.split_at(count);
    *bytes = rest;
    head.iter().fold(0, |sum, b| sum << 8 | u64::from(*b))
}

fn at16(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// Sum of a header with ones' complement; all ones when its checksum is right.
fn ones_sum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|w| u32::from(at16(w, 0)));
    let mut sum: u32 = words.sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The invariant CRC of a frame that ends before it: what routers change counts as ones (annex A17.3.3).
#[must_use]
fn icrc(frame: &[u8]) -> [u8; ICRC_BYTES] {
    const ONES: [usize; 7] = [1, 8, 10, 11, IP + 6, IP + 7, IP + UDP + 4];
    let mut covered = frame[ETHERNET..].to_vec();
    for at in ONES {
        if let Some(byte) = covered.get_mut(at) {
            *byte = 0xFF;
        }
    }
    let mut digest = ICRC.digest();
    digest.update(&[0xFF; 8]);
    digest.update(&covered);
    digest.finalize().to_le_bytes()
}

impl Packet {
    /// The frame that carries it from `own` to its other end.
    #[must_use]
    pub fn emit(&self, own: Address) -> Vec<u8> {
        let headers = Header::of(self.opcode).unwrap_or(&[]);
        let pad = self.payload.len().wrapping_neg() % 4;
        let extension: usize = headers.iter().map(|h| h.bytes()).sum();
        let udp = UDP + BTH + extension + self.payload.len() + pad + ICRC_BYTES;
        let mut out = Vec::with_capacity(ETHERNET + IP + udp);
        put(&mut out, self.mac, 6);
        put(&mut out, own.mac, 6);
        put(&mut out, u64::from(ETHER_TYPE), 2);
        let ecn = if self.congestion { CONGESTED } else { CAPABLE };
        out.extend_from_slice(&[VERSION_LENGTH, ecn]);
        put(&mut out, (IP + udp) as u64, 2);
        out.extend_from_slice(&[0, 0, DONT_FRAGMENT, 0, TTL, PROTOCOL_UDP, 0, 0]);
        put(&mut out, u64::from(own.ip), 4);
        put(&mut out, u64::from(self.ip), 4);
        put(&mut out, u64::from(self.port), 2);
        put(&mut out, u64::from(PORT), 2);
        put(&mut out, udp as u64, 2);
        put(&mut out, 0, 2);
        let solicited = if self.solicited { SOLICITED } else { 0 };
        out.extend_from_slice(&[self.opcode, solicited | MIGRATED | (pad as u8) << 4]);
        put(&mut out, u64::from(PARTITION), 2);
        put(&mut out, u64::from(self.qpn), 4);
        let ack = if self.ack_req { ACK_REQ } else { 0 };
        put(&mut out, u64::from(ack | self.psn), 4);
        for header in headers {
            self.put_header(*header, &mut out);
        }
        out.extend_from_slice(&self.payload);
        out.resize(out.len() + pad, 0);
        mend(&mut out, false);
        out
    }

    fn put_header(&self, header: Header, out: &mut Vec<u8>) {
        let word = |value: u32| u64::from(value);
        match header {
            Header::Word => put(out, word(self.imm), 4),
            Header::Aeth => put(out, word(u32::from(self.syndrome) << 24 | self.msn), 4),
            Header::Original => put(out, self.swap, 8),
            Header::Deth => {
                put(out, word(self.key), 4);
                put(out, word(self.length), 4);
            }
            Header::Reth => {
                put(out, self.va, 8);
                put(out, word(self.key), 4);
                put(out, word(self.length), 4);
            }
            Header::Atomic => {
                put(out, self.va, 8);
                put(out, word(self.key), 4);
                put(out, self.swap, 8);
                put(out, self.compare, 8);
            }
        }
    }

    fn take_header(&mut self, header: Header, bytes: &mut &[u8]) {
        match header {
            Header::Word => self.imm = take(bytes, 4) as u32,
            Header::Aeth => {
                self.syndrome = take(bytes, 1) as u8;
                self.msn = take(bytes, 3) as u32;
            }
            Header::Original => self.swap = take(bytes, 8),
            Header::Deth => {
                self.key = take(bytes, 4) as u32;
                self.length = take(bytes, 4) as u32 & PSN_MASK;
            }
            Header::Reth => {
                self.va = take(bytes, 8);
                self.key = take(bytes, 4) as u32;
                self.length = take(bytes, 4) as u32;
            }
            Header::Atomic => {
                self.va = take(bytes, 8);
                self.key = take(bytes, 4) as u32;
                self.swap = take(bytes, 8);
                self.compare = take(bytes, 8);
            }
        }
    }

    /// Reads a frame that has come to `own`.
    pub fn parse(frame: &[u8], own: Address) -> Result<Self, Refused> {
        if frame.len() <= HEADERS + 2 || !is_ours(frame, own) {
            return Err(Refused::Other);
        }
        let (covered, check) = frame.split_at(frame.len() - ICRC_BYTES);
        if ones_sum(&frame[ETHERNET..ETHERNET + IP]) != u16::MAX || icrc(covered) != *check {
            return Err(Refused::Broken);
        }
        let mut bytes = &frame[6..];
        let mut packet = Self {
            mac: take(&mut bytes, 6),
            congestion: frame[ETHERNET + 1] & 3 == CONGESTED,
            ..Self::default()
        };
        let mut bytes = &frame[ETHERNET + 12..];
        packet.ip = take(&mut bytes, 4) as u32;
        packet.port = at16(frame, ETHERNET + IP);
        let mut bytes = &frame[BTH_AT..];
        packet.opcode = take(&mut bytes, 1) as u8;
        let flags = take(&mut bytes, 1) as u8;
        packet.solicited = flags & SOLICITED != 0;
        let pad = usize::from(flags >> 4 & 3);
        let partition = take(&mut bytes, 2) as u16;
        packet.qpn = take(&mut bytes, 4) as u32 & PSN_MASK;
        let word = take(&mut bytes, 4) as u32;
        packet.ack_req = word & ACK_REQ != 0;
        packet.psn = word & PSN_MASK;
        let ip_bytes = usize::from(at16(frame, ETHERNET + 2));
        let udp_bytes = usize::from(at16(frame, ETHERNET + IP + 4));
        let headers = Header::of(packet.opcode).ok_or(Refused::Malformed)?;
        let extension: usize = headers.iter().map(|h| h.bytes()).sum();
        let needed = UDP + BTH + extension + pad + ICRC_BYTES;
        let right = ip_bytes == udp_bytes + IP
            && frame.len() == ip_bytes + ETHERNET
            && udp_bytes >= needed
            && udp_bytes - needed <= MAX_PAYLOAD
            && flags & 0xF == 0
            && partition & PARTITION_MASK == PARTITION & PARTITION_MASK
            && (udp_bytes - needed + pad).is_multiple_of(4)
            && (udp_bytes == needed || Self::may_have_payload(packet.opcode));
        if !right {
            return Err(Refused::Malformed);
        }
        for header in headers {
            packet.take_header(*header, &mut bytes);
        }
        packet.payload = bytes[..udp_bytes - needed].to_vec();
        Ok(packet)
    }
}

fn is_ours(frame: &[u8], own: Address) -> bool {
    let mut mac = frame;
    let ip = &frame[ETHERNET..];
    take(&mut mac, 6) == own.mac
        && at16(frame, 12) == ETHER_TYPE
        && ip[0] == VERSION_LENGTH
        && at16(ip, 6) & FRAGMENT_MASK == 0
        && ip[9] == PROTOCOL_UDP
        && take(&mut &ip[16..], 4) as u32 == own.ip
        && at16(ip, IP + 2) == PORT
}

/// Makes the checksums of a frame right that has been changed; `has_icrc` says that its last bytes are the old one.
pub(crate) fn mend(frame: &mut Vec<u8>, has_icrc: bool) {
    if has_icrc {
        frame.truncate(frame.len() - ICRC_BYTES);
    }
    const CHECK: usize = ETHERNET + 10;
    frame[CHECK..CHECK + 2].fill(0);
    let sum = !ones_sum(&frame[ETHERNET..ETHERNET + IP]);
    frame[CHECK..CHECK + 2].copy_from_slice(&sum.to_be_bytes());
    let check = icrc(frame);
    frame.extend_from_slice(&check);
}

/// A frame with the checksums that its bytes ask for, that of IP and the ICRC; one that is too short for headers stays as it is.
pub fn with_right_checksums(mut frame: Vec<u8>) -> Vec<u8> {
    if frame.len() >= HEADERS + ICRC_BYTES {
        mend(&mut frame, true);
    }
    frame
}
