// SPDX-License-Identifier: Apache-2.0
//! The frames and TLPs that the NIC makes, written into buffers that are used again and again.

use wire::{
    COMPACT_KEY_W, COMPACT_NIBBLE, COMPACT_OFFSET_W, CONTROL_VOID, FMT_CPL, FMT_CPLD, FMT_MRD32,
    FMT_MRD64, FMT_MWR32, FMT_MWR64, KIND_ERROR, KIND_TLP, MIN_FRAME_BYTES, PAYLOAD_OFFSET,
    SessionPort, TLP_MAGIC, UDP_PORT, contiguous, crc16, crc16_from, crc32c, crc32c_from,
};

use crate::bytes::put48;
use crate::nic::Load;
use crate::verdict::{Completion, Identity, Peer, Request};

/// Completion without data of a locked read.
const FMT_CPLLK: u8 = 0x0B;

/// Above this address a TLP needs a 4-DW header.
const FOUR_GIB: u64 = 1 << 32;

/// A frame's fields outside its payload.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The sender.
    pub from: Identity,
    /// Where it goes: MAC of the next hop and IP of the peer.
    pub to: Peer,
    /// UDP source port.
    pub source_port: u16,
    /// Epoch of the sender.
    pub epoch: u8,
    /// An acknowledgement to take along.
    pub acknowledgement: Option<u16>,
}

impl Route {
    /// The same in a session, with another epoch.
    pub(crate) fn with_epoch(self, epoch: u8) -> Self {
        Self {
            source_port: self.source_port & !0x3F00 | u16::from(epoch & 0x3F) << 8,
            epoch,
            ..self
        }
    }
}

/// End code of the `compact` format without tag; the source port of a session is under it.
pub fn end_code_16(port: u16, payload: &[u8]) -> u16 {
    match SessionPort::from_port(port) {
        Some(_) => crc16_from(port, payload),
        None => crc16(payload),
    }
}

/// End code of the `tlp` format without tag; the source port of a session is under it.
pub fn end_code_32(port: u16, payload: &[u8]) -> u32 {
    match SessionPort::from_port(port) {
        Some(_) => crc32c_from(port, payload),
        None => crc32c(payload),
    }
}

fn begin(out: &mut Vec<u8>, route: &Route) {
    out.clear();
    put48(out, route.to.mac);
    put48(out, route.from.mac);
    out.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
    // Total length, identification, DF, TTL 64, UDP; length and checksum come with `finish`.
    out.extend_from_slice(&[0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    out.extend_from_slice(&route.from.ip.to_be_bytes());
    out.extend_from_slice(&route.to.ip.to_be_bytes());
    out.extend_from_slice(&route.source_port.to_be_bytes());
    out.extend_from_slice(&UDP_PORT.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    debug_assert_eq!(out.len(), PAYLOAD_OFFSET);
}

/// The upper half of the number of a sequenced frame, which only sessions have.
fn fold(route: &Route, request: &Request) -> u16 {
    let session = SessionPort::from_port(route.source_port);
    session.map_or(0, |_| (request.sequence >> 16) as u16)
}

fn finish(out: &mut Vec<u8>) {
    let ip_length = (out.len() - 14) as u16;
    out[16..18].copy_from_slice(&ip_length.to_be_bytes());
    out[38..40].copy_from_slice(&(ip_length - 20).to_be_bytes());
    let mut sum: u32 = out[14..34]
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    out[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    if out.len() < MIN_FRAME_BYTES {
        out.resize(MIN_FRAME_BYTES, 0);
    }
}

/// Bytes left out at the start and at the end of a store, if it has a `compact` form.
pub fn compact_form(request: &Request) -> Option<(u8, u8)> {
    let fits = request.fmt_type == FMT_MWR64
        && request.key >> COMPACT_KEY_W == 0
        && request.offset >> COMPACT_OFFSET_W == 0;
    contiguous(request.dws as u16, request.first_be, request.last_be).filter(|_| fits)
}

/// A store in `compact` form, as [`compact_form`] found it.
pub fn compact(
    out: &mut Vec<u8>,
    route: &Route,
    request: &Request,
    (lead, trail): (u8, u8),
    tag: u16,
    data: &[u8],
) {
    let offset = u64::from(request.offset) | u64::from(lead);
    let address = u64::from(request.key) << COMPACT_OFFSET_W | offset;
    begin(out, route);
    let acknowledged = u8::from(route.acknowledgement.is_some());
    out.push(COMPACT_NIBBLE << 4 | acknowledged << 3 | trail);
    out.extend_from_slice(&(request.sequence as u16).to_be_bytes());
    out.extend_from_slice(&address.to_be_bytes()[3..]);
    out.extend_from_slice(data);
    if let Some(acknowledgement) = route.acknowledgement {
        out.extend_from_slice(&acknowledgement.to_be_bytes());
    }
    let code = end_code_16(route.source_port, &out[PAYLOAD_OFFSET..]) ^ tag ^ fold(route, request);
    out.extend_from_slice(&code.to_be_bytes());
    finish(out);
}

/// A control frame of a session: its code, and the number that it carries.
pub fn control(out: &mut Vec<u8>, route: &Route, code: u8, number: u32) {
    let (sequence, expected) = match code {
        CONTROL_VOID => (number, 0),
        _ => (0, number),
    };
    begin(out, route);
    out.push(COMPACT_NIBBLE << 4 | 0b0100 | code);
    out.extend_from_slice(&(sequence as u16).to_be_bytes());
    out.extend_from_slice(&expected.to_be_bytes());
    out.push(0);
    let code = end_code_16(route.source_port, &out[PAYLOAD_OFFSET..]) ^ (sequence >> 16) as u16;
    out.extend_from_slice(&code.to_be_bytes());
    finish(out);
}

fn tlp_header(out: &mut Vec<u8>, kind: u8, route: &Route, sequence: Option<u16>) {
    out.extend_from_slice(&TLP_MAGIC.to_be_bytes());
    let acknowledged = u8::from(route.acknowledgement.is_some());
    out.push(kind << 4 | acknowledged << 1 | u8::from(sequence.is_some()));
    out.push(route.epoch);
    out.extend_from_slice(&sequence.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&route.acknowledgement.unwrap_or(0).to_be_bytes());
}

fn tlp_end(out: &mut Vec<u8>, route: &Route, tag: u16) {
    let code = end_code_32(route.source_port, &out[PAYLOAD_OFFSET..]) ^ u32::from(tag);
    out.extend_from_slice(&code.to_le_bytes());
    finish(out);
}

fn dw0(out: &mut Vec<u8>, fmt_type: u8, tc: u8, length: u16) {
    out.extend_from_slice(&[fmt_type, tc << 4, (length >> 8) as u8 & 3, length as u8]);
}

/// A store or load in the `tlp` format.
pub fn tlp_request(out: &mut Vec<u8>, route: &Route, request: &Request, tag: u16, data: &[u8]) {
    begin(out, route);
    tlp_header(out, KIND_TLP, route, Some(request.sequence as u16));
    dw0(out, request.fmt_type, 0, request.dws as u16);
    out.extend_from_slice(&request.number.to_be_bytes());
    out.extend_from_slice(&[request.tag, request.last_be << 4 | request.first_be]);
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&request.key.to_be_bytes());
    out.extend_from_slice(&request.offset.to_be_bytes());
    out.extend_from_slice(data);
    tlp_end(out, route, tag ^ fold(route, request));
}

/// A completion in the `tlp` format.
pub fn tlp_completion(out: &mut Vec<u8>, route: &Route, completion: &Completion, data: &[u8]) {
    begin(out, route);
    tlp_header(out, KIND_TLP, route, None);
    completion_dws(out, 0, 0, (completion.number, completion.tag), completion);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(data);
    tlp_end(out, route, 0);
}

/// An error packet about a refused operation.
pub fn error_packet(out: &mut Vec<u8>, route: &Route, code: u8, request: &Request) {
    begin(out, route);
    tlp_header(out, KIND_ERROR, route, None);
    out.extend_from_slice(&[code, request.fmt_type]);
    out.extend_from_slice(&(request.sequence as u16).to_be_bytes());
    out.extend_from_slice(&((request.sequence >> 16) as u16).to_be_bytes());
    out.extend_from_slice(&(request.dws as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&request.key.to_be_bytes());
    out.extend_from_slice(&request.offset.to_be_bytes());
    tlp_end(out, route, 0);
}

/// The reply to the ARP request in `request`, a frame of at least 42 bytes.
pub fn arp_reply(out: &mut Vec<u8>, me: Identity, request: &[u8]) {
    let (sender_mac, sender_ip) = (&request[22..28], &request[28..32]);
    out.clear();
    out.extend_from_slice(sender_mac);
    put48(out, me.mac);
    out.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    put48(out, me.mac);
    out.extend_from_slice(&me.ip.to_be_bytes());
    out.extend_from_slice(sender_mac);
    out.extend_from_slice(sender_ip);
    out.resize(MIN_FRAME_BYTES, 0);
}

/// The three DWs of a completion's header for `requester` (its ID and tag).
fn completion_dws(
    out: &mut Vec<u8>,
    completer_id: u16,
    tc: u8,
    requester: (u16, u8),
    completion: &Completion,
) {
    let fmt_type = if completion.has_data {
        FMT_CPLD
    } else {
        FMT_CPL
    };
    dw0(out, fmt_type, tc, completion.length);
    out.extend_from_slice(&completer_id.to_be_bytes());
    let status = u16::from(completion.status) << 13 | completion.byte_count & 0xFFF;
    out.extend_from_slice(&status.to_be_bytes());
    out.extend_from_slice(&requester.0.to_be_bytes());
    out.extend_from_slice(&[requester.1, completion.lower_address & 0x7F]);
}

/// A completion of a request of the CPU, in its traffic class and with its attributes. The tag in `completion` is not
/// used: `load` has the CPU's.
pub fn cpu_completion(
    out: &mut Vec<u8>,
    completer_id: u16,
    load: &Load,
    completion: &Completion,
    data: &[u8],
) {
    out.clear();
    let requester = (load.requester_id, load.tag);
    completion_dws(out, completer_id, load.tc, requester, completion);
    // ID-based ordering stays 0: only who has it enabled for completions may set it.
    out[2] |= load.attr << 4;
    if load.locked {
        out[0] = FMT_CPLLK;
    }
    out.extend_from_slice(data);
}

/// A DMA read or write of the host's memory.
pub fn dma(
    out: &mut Vec<u8>,
    requester_id: u16,
    tag: u8,
    address: u64,
    request: &Request,
    data: &[u8],
) {
    let is_write = request.fmt_type != FMT_MRD64;
    let three_dw = if is_write { FMT_MWR32 } else { FMT_MRD32 };
    let fmt_type = if address < FOUR_GIB {
        three_dw
    } else {
        three_dw | 0x20
    };
    out.clear();
    dw0(out, fmt_type, 0, request.dws as u16);
    out.extend_from_slice(&requester_id.to_be_bytes());
    out.extend_from_slice(&[tag, request.last_be << 4 | request.first_be]);
    if address >= FOUR_GIB {
        out.extend_from_slice(&address.to_be_bytes());
    } else {
        out.extend_from_slice(&(address as u32).to_be_bytes());
    }
    out.extend_from_slice(data);
}
