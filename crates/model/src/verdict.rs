// SPDX-License-Identifier: Apache-2.0
//! What becomes of a frame: the table "Verdict on a received frame" of `docs/wire-format.md`, line
//! by line. The comments carry its line numbers. Sealed frames have been opened before.

use std::ops::Range;

use wire::{
    ACKNOWLEDGEMENT_BYTES, COMPACT_END_BYTES, COMPACT_NIBBLE, CONTROL_ACK, CONTROL_BYTES,
    CONTROL_NACK, CONTROL_VOID, ERR_BAD_BOUNDS, ERR_BAD_KEY, ERR_BAD_RIGHTS, ERR_BAD_SOURCE,
    FCS_BYTES, FMT_CPL, FMT_CPLD, FMT_MRD64, FMT_MWR64, HEADER_BYTES, KIND_ERROR, KIND_TLP,
    MAX_DATA_DW, NetCounter, PAYLOAD_OFFSET, RegionEntry, SEAL_MAGIC, TAG_W, TLP_END_BYTES,
    TLP_HEADER_BYTES, TLP_MAGIC, UDP_PORT,
};

use wire::seal::SEAL_BYTES;

use crate::build::{end_code_16, end_code_32};
use crate::bytes::{be16, be32, be48, be64};
use crate::session::Sessions;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// What tells loads of the same tag apart, in sessions.
    pub number: u16,
    /// Sequence number of its frame; outside of sessions 16 bits.
    pub sequence: u32,
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
    /// What tells loads of the same tag apart, in sessions.
    pub number: u16,
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
    pub sequence: u32,
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
    /// A permitted store or load, its local address, whether its region asks for an interrupt, and where its data are in
    /// the frame.
    Request(Peer, Request, u64, bool, Range<usize>),
    /// A completion, and where its data are in the frame.
    Completion(Peer, Completion, Range<usize>),
    /// An error report.
    Error(Peer, ErrorReport),
    /// A void in a session.
    Void,
    /// The peer of a session expects this sequence number next; with `true` it misses it.
    Acknowledgement(u32, bool),
}

/// Where a frame stands in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing to do for the session, or the frame was taken.
    InTurn,
    /// It was taken before: its acknowledgement was lost.
    Old,
    /// An earlier one is missing.
    Ahead(u32),
}

/// A verdict, and what the session is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What becomes of the frame.
    pub verdict: Verdict,
    /// The session that the frame is part of.
    pub session: Option<u8>,
    /// The acknowledgement in a sequenced frame.
    pub acknowledgement: Option<u16>,
    /// What the receiver of the session learns.
    pub order: Place,
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
    Void(u16),
    Acknowledgement(u32, bool),
}

/// A payload that passed lines 6 to 9.
struct Parsed {
    body: Body,
    data: Range<usize>,
    compact: bool,
    sequenced: bool,
    acknowledgement: Option<u16>,
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

/// What a verdict depends on beside the frame.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Own addresses.
    pub me: Identity,
    /// The shared regions.
    pub regions: &'a Table<RegionEntry>,
    /// The sessions.
    pub sessions: &'a Sessions,
    /// The frame came sealed, and was opened.
    pub sealed: bool,
}

/// Judges a frame that the MAC called good (64 bytes or more, `frame` is without FCS).
pub fn judge(frame: &[u8], context: &Context<'_>) -> Judged {
    match judge_headers(frame, context.me).and_then(|payload_end| parse(frame, payload_end)) {
        Err(counter) => dropped(counter),
        Ok((parsed, end)) => judge_operation(frame, parsed, end, context),
    }
}

/// Lines 1 to 5; returns where the UDP payload ends.
fn judge_headers(frame: &[u8], me: Identity) -> Result<usize, NetCounter> {
    let (ip_length, udp_length) = judge_addresses(frame, me)?;
    // 5
    if udp_length + IP_HEADER_BYTES != ip_length
        || udp_length < UDP_HEADER_BYTES + 10
        || frame.len() + FCS_BYTES < ip_length + 18
    {
        return Err(NetCounter::RxBadLength);
    }
    Ok(UDP_OFFSET + udp_length)
}

/// Whether a frame carries a sealed payload for this NIC, and where that ends; `None` as the end: the lengths can't be
/// those of a sealed payload.
pub fn sealed_payload(frame: &[u8], me: Identity) -> Option<Option<usize>> {
    let (ip_length, udp_length) = judge_addresses(frame, me).ok()?;
    if udp_length + IP_HEADER_BYTES != ip_length || frame[PAYLOAD_OFFSET] != SEAL_MAGIC {
        return None;
    }
    let shortest = UDP_HEADER_BYTES + CONTROL_BYTES + SEAL_BYTES;
    let whole = udp_length >= shortest && frame.len() + FCS_BYTES >= ip_length + 18;
    Some(whole.then_some(UDP_OFFSET + udp_length))
}

/// Lines 1 to 4; returns the lengths of IP and UDP.
fn judge_addresses(frame: &[u8], me: Identity) -> Result<(usize, usize), NetCounter> {
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
    let ip_length = usize::from(be16(ip, 2));
    let udp_length = usize::from(be16(frame, UDP_OFFSET + 4));
    Ok((ip_length, udp_length))
}

/// Lines 6 to 9; also returns where the payload ends.
fn parse(frame: &[u8], end: usize) -> Result<(Parsed, usize), NetCounter> {
    let payload = &frame[PAYLOAD_OFFSET..end];
    let parsed = if payload[0] >> 4 == COMPACT_NIBBLE && payload[0] & 0b0100 == 0 {
        parse_compact(payload)
    } else if matches!(payload[0], 0xC4..=0xC6) {
        parse_control(payload)
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
            number: 0,
            sequence: be16(payload, 1).into(),
        }),
        data: start..start + data,
        compact: true,
        sequenced: true,
        acknowledgement: (acknowledgement != 0).then(|| be16(payload, HEADER_BYTES + data)),
    })
}

fn parse_control(payload: &[u8]) -> Result<Parsed, NetCounter> {
    // 9
    if payload.len() != CONTROL_BYTES {
        return Err(NetCounter::RxBadLength);
    }
    let expected = be32(payload, 3);
    let body = match payload[0] & 3 {
        CONTROL_ACK => Body::Acknowledgement(expected, false),
        CONTROL_NACK => Body::Acknowledgement(expected, true),
        code => {
            debug_assert_eq!(code, CONTROL_VOID);
            Body::Void(be16(payload, 1))
        }
    };
    Ok(Parsed {
        sequenced: matches!(body, Body::Void(_)),
        body,
        data: 0..0,
        compact: true,
        acknowledgement: None,
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
            sequenced: payload[2] & 1 != 0,
            acknowledgement: (payload[2] & 2 != 0).then(|| be16(payload, 6)),
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
            sequence: u32::from(be16(head, 4)) << 16 | u32::from(be16(head, 2)),
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
        let legal = wire::byte_enables_valid(length, first_be, last_be, u64::from(head[15]));
        if be16(head, 8) != 0 || head[15] & 3 != 0 || !legal {
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
            number: be16(head, 4),
            sequence: be16(payload, 4).into(),
        })
    } else {
        Body::Completion(Completion {
            tag: head[10],
            number: be16(head, 8),
            status: head[6] >> 5,
            byte_count: be16(head, 6) & 0xFFF,
            lower_address: head[11] & 0x7F,
            has_data,
            length,
        })
    };
    parsed(body, extra)
}

/// Lines 9b to 14.
fn judge_operation(frame: &[u8], parsed: Parsed, end: usize, context: &Context<'_>) -> Judged {
    let peer = Peer {
        mac: be48(frame, 6),
        ip: be32(frame, IP_OFFSET + 12),
    };
    // 9b
    let session = match session_of(frame, &parsed, peer, context) {
        Ok(session) => session,
        Err(counter) => return dropped(counter),
    };
    let operation = Operation {
        frame,
        end,
        compact: parsed.compact,
        peer,
        session,
        // Only a frame that is taken in its turn is known to be a new one.
        acknowledgement: parsed
            .acknowledgement
            .filter(|_| session.is_some() && parsed.sequenced),
    };
    let verdict = match parsed.body {
        Body::Request(request) => return operation.judge_request(request, parsed.data, context),
        Body::Void(low) => return operation.judge_void(low),
        Body::Completion(mut completion) => {
            if session.is_none() {
                completion.number = 0;
            }
            Verdict::Completion(peer, completion, parsed.data)
        }
        Body::Error(report) => Verdict::Error(peer, report),
        Body::Acknowledgement(expected, missing) => Verdict::Acknowledgement(expected, missing),
    };
    // 11
    if operation.folded() != 0 {
        return dropped(NetCounter::RxBadEndCode);
    }
    Judged {
        acknowledgement: None,
        ..operation.judged(verdict, Place::InTurn)
    }
}

/// A frame that no session learns of.
fn dropped(counter: NetCounter) -> Judged {
    Judged {
        verdict: Verdict::Drop(counter),
        session: None,
        acknowledgement: None,
        order: Place::InTurn,
    }
}

/// The session that a frame belongs to.
#[derive(Clone, Copy)]
struct Session {
    index: u8,
    /// The sequence number that its receiver expects next.
    expected: u32,
}

/// Line 9b: the session of a frame; `None` if it belongs to none and may do so.
fn session_of(
    frame: &[u8],
    parsed: &Parsed,
    peer: Peer,
    context: &Context<'_>,
) -> Result<Option<Session>, NetCounter> {
    let Some(port) = wire::SessionPort::from_port(be16(frame, UDP_OFFSET)) else {
        let only_in_sessions = matches!(parsed.body, Body::Void(_) | Body::Acknowledgement(..));
        if only_in_sessions || context.sealed {
            return Err(NetCounter::RxBadSession);
        }
        return Ok(None);
    };
    let is_request = matches!(parsed.body, Body::Request(_));
    let expected = context.sessions.known(port, peer.ip, context.sealed);
    match expected.filter(|_| parsed.sequenced || !is_request) {
        Some(expected) => Ok(Some(Session {
            index: port.index,
            expected,
        })),
        None => Err(NetCounter::RxBadSession),
    }
}

/// A frame that passed line 9b.
struct Operation<'a> {
    frame: &'a [u8],
    /// Where its payload ends.
    end: usize,
    compact: bool,
    peer: Peer,
    session: Option<Session>,
    acknowledgement: Option<u16>,
}

impl Operation<'_> {
    fn judged(&self, verdict: Verdict, order: Place) -> Judged {
        Judged {
            verdict,
            session: self.session.map(|session| session.index),
            acknowledgement: self.acknowledgement,
            order,
        }
    }

    /// The end code that the payload should have XOR the one that it has: what was folded into it, if it is whole.
    fn folded(&self) -> u32 {
        let port = be16(self.frame, UDP_OFFSET);
        if self.compact {
            let at = self.end - COMPACT_END_BYTES;
            let code = end_code_16(port, &self.frame[PAYLOAD_OFFSET..at]);
            u32::from(code ^ be16(self.frame, at))
        } else {
            let at = self.end - TLP_END_BYTES;
            let code = end_code_32(port, &self.frame[PAYLOAD_OFFSET..at]);
            code ^ be32(self.frame, at).swap_bytes()
        }
    }

    /// The whole sequence number of a sequenced frame, what its end code knows of it (the upper half, in a session), and
    /// where the frame stands.
    fn order(&self, sequence: u32) -> (u32, u16, Place) {
        let Some(Session { expected, .. }) = self.session else {
            return (sequence, 0, Place::InTurn);
        };
        let sequence = wire::extend_sequence(sequence as u16, expected);
        let order = match sequence.wrapping_sub(expected) as i32 {
            0 => Place::InTurn,
            ..0 => Place::Old,
            _ => Place::Ahead(sequence),
        };
        (sequence, (sequence >> 16) as u16, order)
    }

    /// Line 11b.
    fn misplaced(order: Place) -> Option<NetCounter> {
        match order {
            Place::InTurn => None,
            Place::Old => Some(NetCounter::RxDuplicate),
            Place::Ahead(_) => Some(NetCounter::RxGap),
        }
    }

    /// Lines 11 and 11b.
    fn judge_void(&self, low: u16) -> Judged {
        let (_, fold, order) = self.order(low.into());
        if self.folded() != u32::from(fold) {
            return dropped(NetCounter::RxBadEndCode);
        }
        let verdict = Self::misplaced(order).map_or(Verdict::Void, Verdict::Drop);
        self.judged(verdict, order)
    }

    /// Lines 10 to 14.
    fn judge_request(
        &self,
        mut request: Request,
        data: Range<usize>,
        context: &Context<'_>,
    ) -> Judged {
        let (sequence, fold, order) = self.order(request.sequence);
        request.sequence = sequence;
        if self.session.is_none() {
            request.number = 0;
        }
        // 10
        let region = context.regions.get(usize::from(request.key));
        let Some(region) = region.filter(|region| region.valid) else {
            let index = usize::from(request.key) % context.regions.len();
            let kept = context.regions.get(index).map_or(0, |entry| entry.tag);
            return self.judge_unknown(request, fold, order, kept);
        };
        // 11
        if self.folded() != u32::from(region.tag ^ fold) {
            return dropped(NetCounter::RxBadEndCode);
        }
        // 11b
        if let Some(counter) = Self::misplaced(order) {
            return self.judged(Verdict::Drop(counter), order);
        }
        let refuse =
            |counter, code| self.judged(Verdict::Deny(counter, code, self.peer, request), order);
        // What was refused once stays refused, whatever became of the region since: the sender is being told.
        let state = self
            .session
            .and_then(|session| context.sessions.get(session.index));
        if let Some(code) = state.and_then(|state| state.receiver.refused_before(&request)) {
            let counter = match code {
                ERR_BAD_KEY => NetCounter::RxBadKey,
                ERR_BAD_SOURCE => NetCounter::RxBadSource,
                ERR_BAD_RIGHTS => NetCounter::RxBadRights,
                _ => NetCounter::RxBadBounds,
            };
            return refuse(counter, code);
        }
        // 12
        let session = self.session.map(|session| session.index);
        if !region.shares_with(self.peer.ip, session) {
            return refuse(NetCounter::RxBadSource, ERR_BAD_SOURCE);
        }
        // 13
        let right = if request.fmt_type == FMT_MWR64 {
            region.write
        } else {
            region.read
        };
        let unsafe_way =
            region.session && self.session.is_none() || region.sealed && !context.sealed;
        if !right || unsafe_way {
            return refuse(NetCounter::RxBadRights, ERR_BAD_RIGHTS);
        }
        // 14
        if !region.contains(request.offset, request.dws) {
            return refuse(NetCounter::RxBadBounds, ERR_BAD_BOUNDS);
        }
        // The base is whole pages; lower bits of the entry mean nothing.
        let address = (region.base & !0xFFF).wrapping_add(u64::from(request.offset));
        let verdict = Verdict::Request(self.peer, request, address, region.notify, data);
        self.judged(verdict, order)
    }

    /// Line 10, for a region that there is not. Its entry, that of the key's low bits if the table is smaller, has `kept` a
    /// tag.
    fn judge_unknown(&self, request: Request, fold: u16, order: Place, kept: u16) -> Judged {
        // Outside of sessions nobody knows the tag, but that it has 12 bits; a load whose key was spoilt on the way must
        // not be answered. In a session who is refused, or acknowledged again, must know what the region's user knew.
        let tag = self.folded() ^ u32::from(fold);
        let sound = match self.session {
            Some(_) => tag == u32::from(kept),
            None => self.compact || tag >> TAG_W == 0,
        };
        if !sound {
            return dropped(NetCounter::RxBadEndCode);
        }
        // A late frame may have been taken before its region went away.
        let counter = NetCounter::RxBadKey;
        match order {
            Place::InTurn => self.judged(
                Verdict::Deny(counter, ERR_BAD_KEY, self.peer, request),
                order,
            ),
            Place::Old => self.judged(Verdict::Drop(counter), order),
            Place::Ahead(_) => dropped(counter),
        }
    }
}
