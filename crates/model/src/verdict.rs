// SPDX-License-Identifier: Apache-2.0
//! What becomes of a frame: the table "Verdict on a received frame" of `docs/wire-format.md`, line
//! by line. The comments carry its line numbers.

use std::ops::Range;

use wire::{
    ACKNOWLEDGEMENT_BYTES, COMPACT_END_BYTES, COMPACT_NIBBLE, ERR_BAD_BOUNDS, ERR_BAD_KEY,
    ERR_BAD_RIGHTS, ERR_BAD_SOURCE, FCS_BYTES, FMT_CPL, FMT_CPLD, FMT_MRD64, FMT_MWR64,
    HEADER_BYTES, KIND_ERROR, KIND_TLP, MAX_DATA_DW, NetCounter, PAYLOAD_OFFSET, RegionEntry,
    TLP_END_BYTES, TLP_HEADER_BYTES, TLP_MAGIC, UDP_PORT, crc16, crc32c,
};

use crate::bytes::{be16, be32, be48, be64};
use crate::tables::Table;

/// Bytes of the `tlp` format without data.
const TLP_BYTES: usize = HEADER_BYTES + TLP_HEADER_BYTES + TLP_END_BYTES;
/// Bytes of the `compact` format without data and acknowledgement.
const COMPACT_BYTES: usize = HEADER_BYTES + COMPACT_END_BYTES;
const IP_OFFSET: usize = 14;
const UDP_OFFSET: usize = 34;
const UDP_HEADER_BYTES: usize = 8;
const IP_HEADER_BYTES: usize = 20;
const BROADCAST: u64 = 0xFFFF_FFFF_FFFF;

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// MAC address that the frame came from.
    pub mac: u64,
    /// IPv4 address that the frame came from.
    pub ip: u32,
}

/// A store or load as it stands in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `FMT_MWR64` or `FMT_MRD64`.
    pub fmt_type: u8,
    /// Shared-region key.
    pub key: u16,
    /// Offset in the region, DW aligned.
    pub offset: u32,
    /// Data DWs, 1..=64.
    pub dws: usize,
    /// Byte enables of the first DW.
    pub first_be: u8,
    /// Byte enables of the last DW, 0 if it is the first.
    pub last_be: u8,
    /// Tag of a load.
    pub tag: u8,
    /// Sequence number of its frame.
    pub sequence: u16,
}

impl Request {
    /// Where it is counted when it is accepted.
    pub fn accepted_as(&self) -> NetCounter {
        if self.fmt_type == FMT_MWR64 {
            NetCounter::RxStore
        } else {
            NetCounter::RxLoad
        }
    }
}

/// A completion as it stands in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Network tag.
    pub tag: u8,
    /// Completion status.
    pub status: u8,
    /// Byte count field.
    pub byte_count: u16,
    /// Lower address field.
    pub lower_address: u8,
    /// DW 0 says that data follow.
    pub has_data: bool,
    /// The length field as it stands there.
    pub length: u16,
}

/// An error report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorReport {
    /// Why.
    pub code: u8,
    /// fmt/type of the refused operation.
    pub fmt_type: u8,
    /// Its sequence number.
    pub sequence: u16,
    /// Its wire address.
    pub address: u64,
}

/// What becomes of a good frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Counted and gone.
    Drop(NetCounter),
    /// Counted and answered with an error packet.
    Deny(NetCounter, u8, Peer, Request),
    /// A permitted store or load, its local address, and where its data are in the frame.
    Request(Peer, Request, u64, Range<usize>),
    /// A completion, and where its data are in the frame.
    Completion(Peer, Completion, Range<usize>),
    /// An error report.
    Error(Peer, ErrorReport),
}

/// Own addresses, as the verdict needs them.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Own MAC address.
    pub mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
}

/// What the payload's header says, before the region is known.
enum Body {
    Request(Request),
    Completion(Completion),
    Error(ErrorReport),
}

/// A payload that passed lines 6 to 9.
struct Parsed {
    body: Body,
    data: Range<usize>,
    compact: bool,
}

/// Sum of 16-bit words in one's complement.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks_exact(2)
        .map(|pair| u32::from(be16(pair, 0)))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// Judges a frame that the MAC called good (64 bytes or more, `frame` is without FCS).
pub fn judge(frame: &[u8], me: Identity, regions: &Table<RegionEntry>) -> Verdict {
    match judge_headers(frame, me).and_then(|payload_end| parse(frame, payload_end)) {
        Err(counter) => Verdict::Drop(counter),
        Ok((parsed, end)) => judge_operation(frame, parsed, end, regions),
    }
}

/// Lines 1 to 5; returns where the UDP payload ends.
fn judge_headers(frame: &[u8], me: Identity) -> Result<usize, NetCounter> {
    // 1
    let destination = be48(frame, 0);
    if destination != me.mac && destination != BROADCAST {
        return Err(NetCounter::RxNotMine);
    }
    // 2
    let ethertype = be16(frame, 12);
    if ethertype == 0x0806 {
        return Err(NetCounter::RxArp);
    }
    // 3
    let ip = &frame[IP_OFFSET..];
    let fragment = be16(ip, 6) & 0x3FFF; // MF and the offset, without DF and the reserved flag
    if ethertype != 0x0800
        || destination == BROADCAST
        || ip[0] != 0x45
        || fragment != 0
        || ip[9] != 17
        || be32(ip, 16) != me.ip
        || be16(frame, UDP_OFFSET + 2) != UDP_PORT
    {
        return Err(NetCounter::RxNotIpnuma);
    }
    // 4
    if ones_complement_sum(&ip[..IP_HEADER_BYTES]) != 0xFFFF {
        return Err(NetCounter::RxBadIpChecksum);
    }
    // 5
    let ip_length = usize::from(be16(ip, 2));
    let udp_length = usize::from(be16(frame, UDP_OFFSET + 4));
    if udp_length + IP_HEADER_BYTES != ip_length
        || udp_length < UDP_HEADER_BYTES + 10
        || frame.len() + FCS_BYTES < ip_length + 18
    {
        return Err(NetCounter::RxBadLength);
    }
    Ok(UDP_OFFSET + udp_length)
}

/// Lines 6 to 9; also returns where the payload ends.
fn parse(frame: &[u8], end: usize) -> Result<(Parsed, usize), NetCounter> {
    let payload = &frame[PAYLOAD_OFFSET..end];
    let parsed = if payload[0] >> 4 == COMPACT_NIBBLE && payload[0] & 0b0100 == 0 {
        parse_compact(payload)
    } else if be16(payload, 0) == TLP_MAGIC
        && payload[2] & 0b1100 == 0
        && matches!(payload[2] >> 4, KIND_TLP | KIND_ERROR)
    {
        parse_tlp(payload)
    } else {
        Err(NetCounter::RxBadMagic) // 6
    };
    parsed.map(|parsed| (parsed, end))
}

fn parse_compact(payload: &[u8]) -> Result<Parsed, NetCounter> {
    let acknowledgement = if payload[0] & 0b1000 != 0 {
        ACKNOWLEDGEMENT_BYTES
    } else {
        0
    };
    let trail = payload[0] & 3;
    let address = u64::from(payload[3]) << 32 | u64::from(be32(payload, 4));
    let mut first_be = 0xF << (address & 3) & 0xF;
    let mut last_be = 0xF >> trail;
    let data = payload.len().checked_sub(COMPACT_BYTES + acknowledgement);
    if data == Some(4) {
        first_be &= last_be;
        last_be = 0;
        // 8
        if first_be == 0 {
            return Err(NetCounter::RxBadTlp);
        }
    }
    // 9
    let Some(data) = data.filter(|d| d % 4 == 0 && (1..=MAX_DATA_DW).contains(&(d / 4))) else {
        return Err(NetCounter::RxBadLength);
    };
    let start = PAYLOAD_OFFSET + HEADER_BYTES;
    Ok(Parsed {
        body: Body::Request(Request {
            fmt_type: FMT_MWR64,
            key: (address >> 28) as u16,
            offset: address as u32 & 0x0FFF_FFFC,
            dws: data / 4,
            first_be,
            last_be,
            tag: 0,
            sequence: be16(payload, 1),
        }),
        data: start..start + data,
        compact: true,
    })
}

fn parse_tlp(payload: &[u8]) -> Result<Parsed, NetCounter> {
    // 7
    if payload.len() < TLP_BYTES {
        return Err(NetCounter::RxBadLength);
    }
    let head = &payload[HEADER_BYTES..HEADER_BYTES + TLP_HEADER_BYTES];
    let extra = payload.len() - TLP_BYTES;
    let parsed = |body, data| {
        let start = PAYLOAD_OFFSET + HEADER_BYTES + TLP_HEADER_BYTES;
        Ok(Parsed {
            body,
            data: start..start + data,
            compact: false,
        })
    };
    if payload[2] >> 4 == KIND_ERROR {
        // 9
        if extra != 0 {
            return Err(NetCounter::RxBadLength);
        }
        let report = ErrorReport {
            code: head[0],
            fmt_type: head[1],
            sequence: be16(head, 2),
            address: be64(head, 8),
        };
        return parsed(Body::Error(report), 0);
    }

    let fmt_type = head[0];
    let length = be16(head, 2) & 0x3FF;
    let is_request = matches!(fmt_type, FMT_MWR64 | FMT_MRD64);
    let has_data = matches!(fmt_type, FMT_MWR64 | FMT_CPLD);
    let (first_be, last_be) = (head[7] & 0xF, head[7] >> 4);
    // 8
    if !is_request && !matches!(fmt_type, FMT_CPL | FMT_CPLD) || head[2] & 0xC0 != 0 {
        return Err(NetCounter::RxBadTlp);
    }
    if is_request {
        let bad_enables = if length == 1 {
            last_be != 0
        } else {
            first_be == 0 || last_be == 0
        };
        if be16(head, 8) != 0 || head[15] & 3 != 0 || bad_enables {
            return Err(NetCounter::RxBadTlp);
        }
    }
    // 9
    let dws = usize::from(length);
    let length_matters = is_request || has_data;
    if length_matters && !(1..=MAX_DATA_DW).contains(&dws)
        || extra != if has_data { 4 * dws } else { 0 }
    {
        return Err(NetCounter::RxBadLength);
    }
    let body = if is_request {
        Body::Request(Request {
            fmt_type,
            key: be16(head, 10),
            offset: be32(head, 12),
            dws,
            first_be,
            last_be,
            tag: head[6],
            sequence: be16(payload, 4),
        })
    } else {
        Body::Completion(Completion {
            tag: head[10],
            status: head[6] >> 5,
            byte_count: be16(head, 6) & 0xFFF,
            lower_address: head[11] & 0x7F,
            has_data,
            length,
        })
    };
    parsed(body, extra)
}

/// Whether the end code is that of the payload, folded with `tag`.
fn end_code_good(frame: &[u8], end: usize, compact: bool, tag: u16) -> bool {
    if compact {
        let at = end - COMPACT_END_BYTES;
        be16(frame, at) == crc16(&frame[PAYLOAD_OFFSET..at]) ^ tag
    } else {
        let at = end - TLP_END_BYTES;
        be32(frame, at).swap_bytes() == crc32c(&frame[PAYLOAD_OFFSET..at]) ^ u32::from(tag)
    }
}

/// Lines 10 to 14.
fn judge_operation(
    frame: &[u8],
    parsed: Parsed,
    end: usize,
    regions: &Table<RegionEntry>,
) -> Verdict {
    let peer = Peer {
        mac: be48(frame, 6),
        ip: be32(frame, IP_OFFSET + 12),
    };
    let Parsed {
        body,
        data,
        compact,
    } = parsed;
    let request = match body {
        Body::Request(request) => request,
        _ if !end_code_good(frame, end, compact, 0) => {
            return Verdict::Drop(NetCounter::RxBadEndCode);
        }
        Body::Completion(completion) => return Verdict::Completion(peer, completion, data),
        Body::Error(report) => return Verdict::Error(peer, report),
    };
    // 10
    let Some(region) = regions
        .get(usize::from(request.key))
        .filter(|region| region.valid)
    else {
        return Verdict::Deny(NetCounter::RxBadKey, ERR_BAD_KEY, peer, request);
    };
    // 11
    if !end_code_good(frame, end, compact, region.tag) {
        return Verdict::Drop(NetCounter::RxBadEndCode);
    }
    // 12
    if !region.shares_with(peer.ip) {
        return Verdict::Deny(NetCounter::RxBadSource, ERR_BAD_SOURCE, peer, request);
    }
    // 13
    let right = if request.fmt_type == FMT_MWR64 {
        region.write
    } else {
        region.read
    };
    if !right {
        return Verdict::Deny(NetCounter::RxBadRights, ERR_BAD_RIGHTS, peer, request);
    }
    // 14
    if !region.contains(request.offset, request.dws) {
        return Verdict::Deny(NetCounter::RxBadBounds, ERR_BAD_BOUNDS, peer, request);
    }
    // The base is whole pages; lower bits of the entry mean nothing.
    let address = (region.base & !0xFFF).wrapping_add(u64::from(request.offset));
    Verdict::Request(peer, request, address, data)
}
