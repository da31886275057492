// SPDX-License-Identifier: Apache-2.0
//! Whole frames: Ethernet, IPv4, UDP and one of the two payload formats. Sealed payloads are opened before: [`crate::seal`].
//!
//! A receiver that must say why it dropped a frame uses the views: [`FrameView`] gives lines 1 to 5 of the verdict in
//! `docs/wire-format.md`, [`PayloadView`] lines 6 to 9, both without copying. Everyone else uses [`Frame`].

use std::fmt;
use std::net::Ipv4Addr;

use crate::counters::NetCounter;
use crate::crc::{crc16, crc16_from, crc32c, crc32c_from};
use crate::format::{
    ACKNOWLEDGEMENT_BYTES, COMPACT_END_BYTES, COMPACT_HEADER, COMPACT_NIBBLE, CONTROL_ACK,
    CONTROL_BYTES, CONTROL_HEADER, CONTROL_NACK, CONTROL_VOID, ERROR_BODY, FMT_CPL, FMT_CPLD,
    FMT_MRD64, FMT_MWR64, HEADER_BYTES, KIND_ERROR, KIND_TLP, MAX_DATA_DW, MIN_FRAME_BYTES,
    PAYLOAD_OFFSET, SESSION_PORT_PREFIX, TLP_DW0, TLP_END_BYTES, TLP_FORMAT_HEADER,
    TLP_HEADER_BYTES, TLP_MAGIC, UDP_PORT, WIRE_ADDRESS,
};
use crate::layout::Span;
use crate::tlp::{TlpError, TlpHeader, TlpView, byte_enables, byte_enables_valid};

const C_FORMAT: Span = COMPACT_HEADER.span("format");
const C_ACKNOWLEDGED: Span = COMPACT_HEADER.span("acknowledged");
const C_CONTROL: Span = COMPACT_HEADER.span("control");
const C_TRAIL: Span = COMPACT_HEADER.span("trail");
const C_SEQUENCE: Span = COMPACT_HEADER.span("sequence");
const C_KEY: Span = COMPACT_HEADER.span("key");
const C_OFFSET: Span = COMPACT_HEADER.span("offset");

const N_CODE: Span = CONTROL_HEADER.span("code");
const N_SEQUENCE: Span = CONTROL_HEADER.span("sequence");
const N_EXPECTED: Span = CONTROL_HEADER.span("expected");

const T_MAGIC: Span = TLP_FORMAT_HEADER.span("magic");
const T_KIND: Span = TLP_FORMAT_HEADER.span("kind");
const T_ZERO: Span = TLP_FORMAT_HEADER.span("zero");
const T_ACKNOWLEDGED: Span = TLP_FORMAT_HEADER.span("acknowledged");
const T_SEQUENCED: Span = TLP_FORMAT_HEADER.span("sequenced");
const T_EPOCH: Span = TLP_FORMAT_HEADER.span("epoch");
const T_SEQUENCE: Span = TLP_FORMAT_HEADER.span("sequence");
const T_ACKNOWLEDGEMENT: Span = TLP_FORMAT_HEADER.span("acknowledgement");

const E_CODE: Span = ERROR_BODY.span("code");
const E_FMT_TYPE: Span = ERROR_BODY.span("fmt_type");
const E_SEQUENCE: Span = ERROR_BODY.span("sequence");
const E_SEQUENCE_HIGH: Span = ERROR_BODY.span("sequence_high");
const E_LENGTH: Span = ERROR_BODY.span("length");
const E_ADDRESS: Span = ERROR_BODY.span("address");

const W_ZERO: Span = WIRE_ADDRESS.span("zero");
const W_KEY: Span = WIRE_ADDRESS.span("key");
const W_OFFSET: Span = WIRE_ADDRESS.span("offset");

/// Bytes of a `tlp` payload without data.
const TLP_BARE_BYTES: usize = HEADER_BYTES + TLP_HEADER_BYTES + TLP_END_BYTES;
const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;

/// The wire address of a region's key and an offset in it.
#[must_use]
pub const fn wire_address(key: u16, offset: u32) -> u64 {
    (key as u64) << 32 | offset as u64
}

/// The source port of a frame of a session: the session's epoch and number, both at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionPort {
    /// Epoch, 6 bits.
    pub epoch: u8,
    /// Number of the session at the receiver, which is the sender's PC ID there.
    pub index: u8,
}

impl SessionPort {
    /// Reads a source port; `None` if the frame belongs to no session.
    #[must_use]
    pub const fn from_port(port: u16) -> Option<Self> {
        if port >> 14 != SESSION_PORT_PREFIX {
            return None;
        }
        Some(Self {
            epoch: (port >> 8) as u8 & 0x3F,
            index: port as u8,
        })
    }

    /// The source port; bits of the epoch above its 6 are dropped.
    #[must_use]
    pub const fn to_port(self) -> u16 {
        SESSION_PORT_PREFIX << 14 | (self.epoch as u16 & 0x3F) << 8 | self.index as u16
    }
}

/// The 32-bit sequence number nearest to `near` that has these low 16 bits: up to 32,768 before and 32,767 after it.
#[must_use]
pub const fn extend_sequence(low: u16, near: u32) -> u32 {
    let distance = low.wrapping_sub(near as u16) as i16;
    near.wrapping_add(distance as i32 as u32)
}

/// An Ethernet address, first byte on the wire first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address that every station takes.
    pub const BROADCAST: Self = Self([0xFF; 6]);

    /// From a number as registers and tables hold it: bits 47:40 are the first byte.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// The number that registers and tables hold.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// Why received bytes are not an IP-NUMA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Shorter than the minimum.
    #[error("a frame of {0} bytes is a runt; without FCS the minimum is 60 bytes")]
    Runt(usize),
    /// Line 3 of the verdict.
    #[error("the frame is not IPv4 without options and fragments carrying UDP to port 3422")]
    NotIpnuma,
    /// Line 4.
    #[error("the checksum of the IPv4 header is wrong")]
    BadIpChecksum,
    /// Line 5.
    #[error("IP length {ip}, UDP length {udp} and a frame of {frame} bytes contradict each other")]
    BadFrameLength {
        /// Total length field of the IPv4 header.
        ip: u16,
        /// Length field of the UDP header.
        udp: u16,
        /// Bytes of the frame without FCS.
        frame: usize,
    },
    /// Line 6.
    #[error("the payload begins as neither the compact nor the tlp format does")]
    BadMagic,
    /// Line 8: type.
    #[error("fmt/type {0:#04x} does not travel in the tlp format")]
    BadTlpType(u8),
    /// Line 8: TD or EP.
    #[error("a TLP with digest or poisoned data does not travel in the tlp format")]
    BadTlpFlags,
    /// Line 8: address.
    #[error("wire address {0:#018x} has bits above the key or below a DW")]
    BadTlpAddress(u64),
    /// Line 8: byte enables.
    #[error(
        "byte enables {first_be:#x} first, {last_be:#x} last do not fit a length of {length} DWs"
    )]
    BadByteEnables {
        /// Of the first DW.
        first_be: u8,
        /// Of the last DW.
        last_be: u8,
        /// DWs.
        length: u16,
    },
    /// Lines 7 and 9.
    #[error("a payload of {0} bytes does not have the length its header says")]
    BadPayloadLength(usize),
}

impl WireError {
    /// The counter that a NIC counts the frame in.
    #[must_use]
    pub const fn counter(self) -> NetCounter {
        match self {
            Self::Runt(_) => NetCounter::RxRunt,
            Self::NotIpnuma => NetCounter::RxNotIpnuma,
            Self::BadIpChecksum => NetCounter::RxBadIpChecksum,
            Self::BadFrameLength { .. } | Self::BadPayloadLength(_) => NetCounter::RxBadLength,
            Self::BadMagic => NetCounter::RxBadMagic,
            Self::BadTlpType(_)
            | Self::BadTlpFlags
            | Self::BadTlpAddress(_)
            | Self::BadByteEnables { .. } => NetCounter::RxBadTlp,
        }
    }
}

/// Why a frame can't be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// A value is wider than its field.
    #[error("{field} {value:#x} does not fit its {bits} bits")]
    TooWide {
        /// Which field.
        field: &'static str,
        /// The value.
        value: u64,
        /// The field's width.
        bits: u32,
    },
    /// The amount of data.
    #[error("{0} bytes of data: a frame carries whole DWs, 1 to 64 of them in a store")]
    BadData(usize),
    /// The TLP in the payload.
    #[error(transparent)]
    Tlp(#[from] TlpError),
}

fn fits(field: &'static str, value: u64, bits: u32) -> Result<(), EmitError> {
    if value >> bits == 0 {
        Ok(())
    } else {
        Err(EmitError::TooWide { field, value, bits })
    }
}

/// A store in the `compact` format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compact {
    /// Sequence number.
    pub sequence: u16,
    /// Acknowledgement, if one is carried.
    pub acknowledgement: Option<u16>,
    /// Shared-region key, 12 bits.
    pub key: u16,
    /// Byte offset in the region, 28 bits; bits 1:0 are the bytes not written at the start of the first DW.
    pub offset: u32,
    /// Bytes not written at the end of the last DW, 0 to 3.
    pub trail: u8,
    /// 1 to 64 DWs in memory order.
    pub data: Vec<u8>,
}

/// An operation in the `tlp` format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tlp {
    /// The sender's epoch.
    pub epoch: u8,
    /// Sequence number, if the frame is sequenced.
    pub sequence: Option<u16>,
    /// Acknowledgement, if one is carried.
    pub acknowledgement: Option<u16>,
    /// The TLP's header; written as it stands here, so that the sender of a correct frame sets traffic class,
    /// attributes, EP and the IDs to 0 itself. A request's address is the wire address.
    pub header: TlpHeader,
    /// 0 to 64 DWs in memory order.
    pub data: Vec<u8>,
}

/// A report that an operation was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorReport {
    /// The reporter's epoch.
    pub epoch: u8,
    /// Acknowledgement, if one is carried.
    pub acknowledgement: Option<u16>,
    /// Why: `ERR_BAD_KEY` and so on.
    pub code: u8,
    /// fmt/type of the refused operation.
    pub fmt_type: u8,
    /// Its sequence number; outside of sessions 16 bits.
    pub sequence: u32,
    /// Its length in DWs.
    pub length: u16,
    /// Its wire address, DW aligned.
    pub address: u64,
}

/// A frame of a session without an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// All sequence numbers before this one have arrived.
    Acknowledgement(u32),
    /// The same, and the frame with this number is missing.
    Missing(u32),
    /// Nothing, in the place of an operation that was refused: the low half of its sequence number. The upper half is
    /// folded into the end code, as in every sequenced frame.
    Void(u16),
}

/// What a frame's end code knows beside the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndCode {
    /// UDP source port; one of a session is under the code, others are not.
    pub port: u16,
    /// Tag of the region, 12 bits; 0 for completions, error reports and control frames.
    pub tag: u16,
    /// Upper half of the sequence number of a sequenced frame of a session; else 0.
    pub sequence_high: u16,
}

impl EndCode {
    fn compact(self, body: &[u8]) -> u16 {
        let crc = match SessionPort::from_port(self.port) {
            Some(_) => crc16_from(self.port, body),
            None => crc16(body),
        };
        crc ^ self.tag ^ self.sequence_high
    }

    fn tlp(self, body: &[u8]) -> u32 {
        let crc = match SessionPort::from_port(self.port) {
            Some(_) => crc32c_from(self.port, body),
            None => crc32c(body),
        };
        crc ^ u32::from(self.tag ^ self.sequence_high)
    }
}

/// What a frame carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A store in the `compact` format.
    Compact(Compact),
    /// An operation in the `tlp` format.
    Tlp(Tlp),
    /// An error report (`tlp` format, kind 1).
    Error(ErrorReport),
    /// A control frame of a session.
    Control(Control),
}

impl Payload {
    /// The UDP payload; the end code is XORed with the tag of the region (0 for completions, error reports and control
    /// frames).
    ///
    /// # Errors
    /// If a value does not fit its field or the data don't match the header.
    pub fn emit(&self, tag: u16) -> Result<Vec<u8>, EmitError> {
        self.emit_with(EndCode {
            tag,
            ..EndCode::default()
        })
    }

    /// The UDP payload of a frame of a session.
    ///
    /// # Errors
    /// As [`Payload::emit`].
    pub fn emit_with(&self, end_code: EndCode) -> Result<Vec<u8>, EmitError> {
        fits("tag", u64::from(end_code.tag), crate::format::TAG_W)?;
        let mut out = vec![0; HEADER_BYTES];
        match self {
            Self::Compact(compact) => {
                let data = &compact.data;
                if data.is_empty() || data.len() % 4 != 0 || data.len() > 4 * MAX_DATA_DW {
                    return Err(EmitError::BadData(data.len()));
                }
                fits("key", u64::from(compact.key), C_KEY.bits)?;
                fits("offset", u64::from(compact.offset), C_OFFSET.bits)?;
                fits("trail", u64::from(compact.trail), C_TRAIL.bits)?;
                C_FORMAT.put(&mut out, u64::from(COMPACT_NIBBLE));
                C_ACKNOWLEDGED.put(&mut out, u64::from(compact.acknowledgement.is_some()));
                C_TRAIL.put(&mut out, u64::from(compact.trail));
                C_SEQUENCE.put(&mut out, u64::from(compact.sequence));
                C_KEY.put(&mut out, u64::from(compact.key));
                C_OFFSET.put(&mut out, u64::from(compact.offset));
                out.extend_from_slice(data);
                if let Some(acknowledgement) = compact.acknowledgement {
                    out.extend_from_slice(&acknowledgement.to_be_bytes());
                }
                out.resize(out.len() + COMPACT_END_BYTES, 0);
            }
            Self::Tlp(tlp) => {
                if tlp.data.len() > 4 * MAX_DATA_DW {
                    return Err(EmitError::BadData(tlp.data.len()));
                }
                tlp.header.check(&tlp.data)?;
                T_MAGIC.put(&mut out, u64::from(TLP_MAGIC));
                T_KIND.put(&mut out, u64::from(KIND_TLP));
                T_EPOCH.put(&mut out, u64::from(tlp.epoch));
                T_SEQUENCED.put(&mut out, u64::from(tlp.sequence.is_some()));
                T_SEQUENCE.put(&mut out, u64::from(tlp.sequence.unwrap_or(0)));
                put_acknowledgement(&mut out, tlp.acknowledgement);
                out.extend_from_slice(&tlp.header.emit_wire());
                out.extend_from_slice(&tlp.data);
                out.resize(out.len() + TLP_END_BYTES, 0);
            }
            Self::Error(error) => {
                T_MAGIC.put(&mut out, u64::from(TLP_MAGIC));
                T_KIND.put(&mut out, u64::from(KIND_ERROR));
                T_EPOCH.put(&mut out, u64::from(error.epoch));
                put_acknowledgement(&mut out, error.acknowledgement);
                out.resize(TLP_BARE_BYTES, 0);
                let body = &mut out[HEADER_BYTES..];
                E_CODE.put(body, u64::from(error.code));
                E_FMT_TYPE.put(body, u64::from(error.fmt_type));
                E_SEQUENCE.put(body, u64::from(error.sequence));
                E_SEQUENCE_HIGH.put(body, u64::from(error.sequence >> 16));
                E_LENGTH.put(body, u64::from(error.length));
                E_ADDRESS.put(body, error.address);
            }
            Self::Control(control) => {
                C_FORMAT.put(&mut out, u64::from(COMPACT_NIBBLE));
                C_CONTROL.put(&mut out, 1);
                let code = match *control {
                    Control::Acknowledgement(expected) => {
                        N_EXPECTED.put(&mut out, u64::from(expected));
                        CONTROL_ACK
                    }
                    Control::Missing(expected) => {
                        N_EXPECTED.put(&mut out, u64::from(expected));
                        CONTROL_NACK
                    }
                    Control::Void(sequence) => {
                        N_SEQUENCE.put(&mut out, u64::from(sequence));
                        CONTROL_VOID
                    }
                };
                N_CODE.put(&mut out, u64::from(code));
                out.resize(CONTROL_BYTES, 0);
            }
        }
        seal_payload_with(&mut out, end_code);
        Ok(out)
    }
}

fn put_acknowledgement(header: &mut [u8], acknowledgement: Option<u16>) {
    T_ACKNOWLEDGED.put(header, u64::from(acknowledgement.is_some()));
    T_ACKNOWLEDGEMENT.put(header, u64::from(acknowledgement.unwrap_or(0)));
}

/// Recomputes the end code of a UDP payload outside of sessions that was changed; a payload too short for one, or of
/// neither format, is left alone.
pub fn seal_payload(payload: &mut [u8], tag: u16) {
    seal_payload_with(
        payload,
        EndCode {
            tag,
            ..EndCode::default()
        },
    );
}

/// The same in a session.
pub fn seal_payload_with(payload: &mut [u8], end_code: EndCode) {
    let is_compact = payload
        .first()
        .is_some_and(|first| first >> 4 == COMPACT_NIBBLE);
    let end_bytes = if is_compact {
        COMPACT_END_BYTES
    } else {
        TLP_END_BYTES
    };
    let Some(at) = payload.len().checked_sub(end_bytes) else {
        return;
    };
    let (body, end) = payload.split_at_mut(at);
    if is_compact {
        end.copy_from_slice(&end_code.compact(body).to_be_bytes());
    } else {
        end.copy_from_slice(&end_code.tlp(body).to_le_bytes());
    }
}

/// Recomputes the checksum of a frame's IPv4 header that was changed.
///
/// # Panics
/// If the frame ends inside the IPv4 header.
pub fn seal_ip(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let checksum = ip_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// The ones' complement checksum of an IPv4 header; 0 over a header that holds its right checksum.
#[must_use]
pub fn ip_checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// A frame in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Ethernet destination.
    pub dst_mac: Mac,
    /// Ethernet source.
    pub src_mac: Mac,
    /// IPv4 source.
    pub src_ip: Ipv4Addr,
    /// IPv4 destination.
    pub dst_ip: Ipv4Addr,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port: [`UDP_PORT`].
    pub dst_port: u16,
    /// What it carries.
    pub payload: Payload,
}

/// A frame that was received, with the tag that its end code would be right for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The frame.
    pub frame: Frame,
    /// Computed end code XOR received end code: the frame is whole if this is the expected tag, in a session XOR the
    /// upper half of the sequence number.
    pub tag: u32,
}

impl Frame {
    /// The bytes without FCS, padded to the Ethernet minimum.
    ///
    /// # Errors
    /// If a value does not fit its field or the data don't match the header.
    pub fn emit(&self, tag: u16) -> Result<Vec<u8>, EmitError> {
        self.emit_sequenced(tag, 0)
    }

    /// The same for a sequenced frame of a session: `sequence_high`, the upper half of its number, is folded into the
    /// end code as well.
    ///
    /// # Errors
    /// As [`Frame::emit`].
    pub fn emit_sequenced(&self, tag: u16, sequence_high: u16) -> Result<Vec<u8>, EmitError> {
        let payload = self.payload.emit_with(EndCode {
            port: self.src_port,
            tag,
            sequence_high,
        })?;
        let udp_length = (8 + payload.len()) as u16;
        let mut frame = Vec::with_capacity((PAYLOAD_OFFSET + payload.len()).max(MIN_FRAME_BYTES));
        frame.extend_from_slice(&self.dst_mac.0);
        frame.extend_from_slice(&self.src_mac.0);
        frame.extend_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        frame.extend_from_slice(&[0x45, 0]);
        frame.extend_from_slice(&(20 + udp_length).to_be_bytes());
        // Identification 0, don't fragment, TTL 64, UDP, checksum still 0.
        frame.extend_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_UDP, 0, 0]);
        frame.extend_from_slice(&self.src_ip.octets());
        frame.extend_from_slice(&self.dst_ip.octets());
        frame.extend_from_slice(&self.src_port.to_be_bytes());
        frame.extend_from_slice(&self.dst_port.to_be_bytes());
        frame.extend_from_slice(&udp_length.to_be_bytes());
        frame.extend_from_slice(&[0, 0]);
        frame.extend_from_slice(&payload);
        frame.resize(frame.len().max(MIN_FRAME_BYTES), 0);
        seal_ip(&mut frame);
        Ok(frame)
    }

    /// Parses a frame without FCS. Addresses are not compared with anything, and the end code is left to the caller:
    /// see [`Parsed::tag`].
    ///
    /// # Errors
    /// The first line of the verdict, from 3 to 9, that applies.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, WireError> {
        let view = FrameView::new(bytes)?;
        let payload = PayloadView::new(view.payload()?)?;
        Ok(Parsed {
            tag: payload.tag_from(view.src_port()),
            frame: Self {
                dst_mac: view.dst_mac(),
                src_mac: view.src_mac(),
                src_ip: view.src_ip(),
                dst_ip: view.dst_ip(),
                src_port: view.src_port(),
                dst_port: view.dst_port(),
                payload: payload.to_payload(),
            },
        })
    }
}

/// A frame without FCS that is at least as long as Ethernet demands, so that every header field is there.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    bytes: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// Checks the length.
    ///
    /// # Errors
    /// [`WireError::Runt`] below 60 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < MIN_FRAME_BYTES {
            return Err(WireError::Runt(bytes.len()));
        }
        Ok(Self { bytes })
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn mac_at(&self, at: usize) -> Mac {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.bytes[at..at + 6]);
        Mac(mac)
    }

    fn ip_at(&self, at: usize) -> Ipv4Addr {
        let b = &self.bytes[at..at + 4];
        Ipv4Addr::new(b[0], b[1], b[2], b[3])
    }

    /// Ethernet destination.
    #[must_use]
    pub fn dst_mac(&self) -> Mac {
        self.mac_at(0)
    }

    /// Ethernet source.
    #[must_use]
    pub fn src_mac(&self) -> Mac {
        self.mac_at(6)
    }

    /// EtherType.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        self.u16_at(12)
    }

    /// Total length field of the IPv4 header.
    #[must_use]
    pub fn ip_length(&self) -> u16 {
        self.u16_at(16)
    }

    /// IPv4 source.
    #[must_use]
    pub fn src_ip(&self) -> Ipv4Addr {
        self.ip_at(26)
    }

    /// IPv4 destination.
    #[must_use]
    pub fn dst_ip(&self) -> Ipv4Addr {
        self.ip_at(30)
    }

    /// UDP source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        self.u16_at(34)
    }

    /// UDP destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        self.u16_at(36)
    }

    /// Length field of the UDP header.
    #[must_use]
    pub fn udp_length(&self) -> u16 {
        self.u16_at(38)
    }

    /// Line 3 of the verdict but for the addresses: IPv4 without options and fragments, UDP, to port 3422.
    #[must_use]
    pub fn is_ipnuma(&self) -> bool {
        // More fragments, or an offset: of the flags only don't-fragment and the reserved one may be set.
        let fragmented = self.u16_at(20) & 0x3FFF != 0;
        self.ethertype() == ETHERTYPE_IPV4
            && self.bytes[14] == 0x45
            && !fragmented
            && self.bytes[23] == PROTOCOL_UDP
            && self.dst_port() == UDP_PORT
    }

    /// Line 4 of the verdict: whether the IPv4 header's checksum is right.
    #[must_use]
    pub fn ip_checksum_ok(&self) -> bool {
        ip_checksum(&self.bytes[14..34]) == 0
    }

    /// The UDP payload.
    ///
    /// # Errors
    /// The first of lines 3 to 5 of the verdict that applies, addresses not compared.
    pub fn payload(&self) -> Result<&'a [u8], WireError> {
        if !self.is_ipnuma() {
            return Err(WireError::NotIpnuma);
        }
        if !self.ip_checksum_ok() {
            return Err(WireError::BadIpChecksum);
        }
        let (ip, udp) = (self.ip_length(), self.udp_length());
        let end = 14 + usize::from(ip);
        if u32::from(ip) != u32::from(udp) + 20 || udp < 18 || self.bytes.len() < end {
            return Err(WireError::BadFrameLength {
                ip,
                udp,
                frame: self.bytes.len(),
            });
        }
        Ok(&self.bytes[PAYLOAD_OFFSET..end])
    }
}

/// A store or load as it came over the wire, the same for both formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestView<'a> {
    /// A store; otherwise a load.
    pub is_store: bool,
    /// Shared-region key.
    pub key: u16,
    /// Offset in the region in bytes, DW aligned.
    pub offset: u32,
    /// DWs, 1 to 64.
    pub length: u16,
    /// Bytes enabled in the first DW.
    pub first_be: u8,
    /// Bytes enabled in the last DW; 0 if the length is 1.
    pub last_be: u8,
    /// The requester's network tag; 0 in stores.
    pub tag: u8,
    /// Sequence field, 0 if not sequenced.
    pub sequence: u16,
    /// Whether the frame is sequenced; in the `compact` format every store is.
    pub sequenced: bool,
    /// The data of a store in memory order.
    pub data: &'a [u8],
}

impl RequestView<'_> {
    /// The 64-bit wire address, DW aligned.
    #[must_use]
    pub fn address(&self) -> u64 {
        wire_address(self.key, self.offset)
    }

    /// fmt/type of the same operation in the `tlp` format, as error reports name it.
    #[must_use]
    pub fn fmt_type(&self) -> u8 {
        if self.is_store { FMT_MWR64 } else { FMT_MRD64 }
    }
}

/// A UDP payload whose format, header and lengths have been checked (lines 6 to 9 of the verdict). The end code has
/// not: compare [`PayloadView::tag`].
#[derive(Clone, Copy, Debug)]
pub enum PayloadView<'a> {
    /// A store in the `compact` format.
    Compact(CompactView<'a>),
    /// An operation in the `tlp` format.
    Tlp(TlpPayloadView<'a>),
    /// An error report.
    Error(ErrorView<'a>),
    /// A control frame of a session.
    Control(ControlView<'a>),
}

impl<'a> PayloadView<'a> {
    /// Checks everything about a payload that needs no table.
    ///
    /// # Errors
    /// The first of lines 6 to 9 of the verdict that applies.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let too_short = WireError::BadPayloadLength(bytes.len());
        if bytes.len() < HEADER_BYTES + COMPACT_END_BYTES {
            return Err(too_short);
        }
        if C_FORMAT.get(bytes) == u64::from(COMPACT_NIBBLE) {
            if C_CONTROL.get(bytes) == 0 {
                return CompactView::new(bytes).map(Self::Compact);
            }
            return ControlView::new(bytes).map(Self::Control);
        }
        let kind = T_KIND.get(bytes);
        if T_MAGIC.get(bytes) != u64::from(TLP_MAGIC)
            || T_ZERO.get(bytes) != 0
            || kind > u64::from(KIND_ERROR)
        {
            return Err(WireError::BadMagic);
        }
        if bytes.len() < TLP_BARE_BYTES {
            return Err(too_short);
        }
        if kind == u64::from(KIND_TLP) {
            return TlpPayloadView::new(bytes).map(Self::Tlp);
        }
        if bytes.len() != TLP_BARE_BYTES {
            return Err(too_short);
        }
        Ok(Self::Error(ErrorView { bytes }))
    }

    /// Computed end code XOR received end code: a payload outside of sessions is whole if this is the expected tag.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.tag_from(0)
    }

    /// The same for a payload that came from the UDP source port `port`. In a session it is the tag XOR the upper half
    /// of the sequence number.
    #[must_use]
    pub fn tag_from(&self, port: u16) -> u32 {
        let code = EndCode {
            port,
            ..EndCode::default()
        };
        match self {
            Self::Compact(CompactView { bytes, .. }) | Self::Control(ControlView { bytes, .. }) => {
                let (body, end) = bytes.split_at(bytes.len() - COMPACT_END_BYTES);
                u32::from(code.compact(body) ^ u16::from_be_bytes([end[0], end[1]]))
            }
            Self::Tlp(TlpPayloadView { bytes, .. }) | Self::Error(ErrorView { bytes }) => {
                let (body, end) = bytes.split_at(bytes.len() - TLP_END_BYTES);
                code.tlp(body) ^ u32::from_le_bytes([end[0], end[1], end[2], end[3]])
            }
        }
    }

    /// The store or load; `None` for completions and error reports.
    #[must_use]
    pub fn request(&self) -> Option<RequestView<'a>> {
        match self {
            Self::Compact(view) => Some(view.request()),
            Self::Tlp(view) => view.request(),
            Self::Error(_) | Self::Control(_) => None,
        }
    }

    /// The acknowledgement that a data frame carries beside its operation.
    #[must_use]
    pub fn acknowledgement(&self) -> Option<u16> {
        match self {
            Self::Compact(view) => view.acknowledgement(),
            Self::Tlp(view) => view.acknowledgement(),
            Self::Error(view) => acknowledgement(view.bytes),
            Self::Control(_) => None,
        }
    }

    /// The plain representation.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        match self {
            Self::Compact(view) => Payload::Compact(view.to_compact()),
            Self::Tlp(view) => Payload::Tlp(view.to_tlp()),
            Self::Error(view) => Payload::Error(view.report()),
            Self::Control(view) => Payload::Control(view.control()),
        }
    }
}

/// A payload in the `compact` format.
#[derive(Clone, Copy, Debug)]
pub struct CompactView<'a> {
    bytes: &'a [u8],
    data_end: usize,
}

impl<'a> CompactView<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut end_bytes = COMPACT_END_BYTES;
        if C_ACKNOWLEDGED.get(bytes) != 0 {
            end_bytes += ACKNOWLEDGEMENT_BYTES;
        }
        let data_end = bytes.len() - end_bytes;
        let view = Self { bytes, data_end };
        let data_bytes = data_end.saturating_sub(HEADER_BYTES);
        if data_bytes == 4 {
            let (first_be, last_be) = byte_enables(1, view.lead(), view.trail());
            if first_be == 0 {
                return Err(WireError::BadByteEnables {
                    first_be,
                    last_be,
                    length: 1,
                });
            }
        }
        if data_bytes == 0 || !data_bytes.is_multiple_of(4) || data_bytes > 4 * MAX_DATA_DW {
            return Err(WireError::BadPayloadLength(bytes.len()));
        }
        Ok(view)
    }

    fn lead(&self) -> u8 {
        C_OFFSET.get(self.bytes) as u8 & 3
    }

    fn trail(&self) -> u8 {
        C_TRAIL.get(self.bytes) as u8
    }

    /// The store.
    #[must_use]
    pub fn request(&self) -> RequestView<'a> {
        let data = &self.bytes[HEADER_BYTES..self.data_end];
        let length = (data.len() / 4) as u16;
        let (first_be, last_be) = byte_enables(length, self.lead(), self.trail());
        RequestView {
            is_store: true,
            key: C_KEY.get(self.bytes) as u16,
            offset: C_OFFSET.get(self.bytes) as u32 & !3,
            length,
            first_be,
            last_be,
            tag: 0,
            sequence: C_SEQUENCE.get(self.bytes) as u16,
            sequenced: true,
            data,
        }
    }

    /// Acknowledgement, if one is carried.
    #[must_use]
    pub fn acknowledgement(&self) -> Option<u16> {
        let field = &self.bytes[self.data_end..];
        (C_ACKNOWLEDGED.get(self.bytes) != 0).then(|| u16::from_be_bytes([field[0], field[1]]))
    }

    /// The plain representation.
    #[must_use]
    pub fn to_compact(&self) -> Compact {
        Compact {
            sequence: C_SEQUENCE.get(self.bytes) as u16,
            acknowledgement: self.acknowledgement(),
            key: C_KEY.get(self.bytes) as u16,
            offset: C_OFFSET.get(self.bytes) as u32,
            trail: self.trail(),
            data: self.bytes[HEADER_BYTES..self.data_end].to_vec(),
        }
    }
}

/// The payload of a control frame.
#[derive(Clone, Copy, Debug)]
pub struct ControlView<'a> {
    bytes: &'a [u8],
    control: Control,
}

impl<'a> ControlView<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let expected = N_EXPECTED.get(bytes) as u32;
        let control = match N_CODE.get(bytes) as u8 {
            CONTROL_ACK => Control::Acknowledgement(expected),
            CONTROL_NACK => Control::Missing(expected),
            CONTROL_VOID => Control::Void(N_SEQUENCE.get(bytes) as u16),
            _ => return Err(WireError::BadMagic),
        };
        if C_ACKNOWLEDGED.get(bytes) != 0 {
            return Err(WireError::BadMagic);
        }
        if bytes.len() != CONTROL_BYTES {
            return Err(WireError::BadPayloadLength(bytes.len()));
        }
        Ok(Self { bytes, control })
    }

    /// What the frame says.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control
    }
}

/// A payload in the `tlp` format that carries a TLP.
#[derive(Clone, Copy, Debug)]
pub struct TlpPayloadView<'a> {
    bytes: &'a [u8],
    header: TlpHeader,
}

impl<'a> TlpPayloadView<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut head = [0; TLP_HEADER_BYTES];
        head.copy_from_slice(&bytes[HEADER_BYTES..HEADER_BYTES + TLP_HEADER_BYTES]);
        let view = TlpView::wire_header(&head);
        let fmt_type = view.fmt_type();
        if !matches!(fmt_type, FMT_MRD64 | FMT_MWR64 | FMT_CPL | FMT_CPLD) {
            return Err(WireError::BadTlpType(fmt_type));
        }
        if view.td() || view.ep() {
            return Err(WireError::BadTlpFlags);
        }
        let header = view.header().map_err(|_| WireError::BadTlpType(fmt_type))?;
        let is_request = !matches!(header, TlpHeader::Completion(_));
        let length = view.length_field();
        if is_request {
            let address = &head[8..];
            if W_ZERO.get(address) != 0 || W_OFFSET.get(address) & 3 != 0 {
                return Err(WireError::BadTlpAddress(view.address_field()));
            }
            let (first_be, last_be) = (view.first_be(), view.last_be());
            if !byte_enables_valid(length, first_be, last_be) {
                return Err(WireError::BadByteEnables {
                    first_be,
                    last_be,
                    length: view.length(),
                });
            }
        }
        let has_length = is_request || view.has_data();
        let in_range = (1..=MAX_DATA_DW).contains(&usize::from(length));
        if has_length && !in_range || bytes.len() != TLP_BARE_BYTES + 4 * header.data_dws() {
            return Err(WireError::BadPayloadLength(bytes.len()));
        }
        Ok(Self { bytes, header })
    }

    /// The TLP's header.
    #[must_use]
    pub fn header(&self) -> &TlpHeader {
        &self.header
    }

    /// The length field as it came. A Cpl has no data whatever stands there, so [`TlpHeader`] does not keep it.
    #[must_use]
    pub fn length_field(&self) -> u16 {
        TLP_DW0.span("length").get(&self.bytes[HEADER_BYTES..]) as u16
    }

    /// The TLP's data in memory order.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES + TLP_HEADER_BYTES..self.bytes.len() - TLP_END_BYTES]
    }

    /// The sender's epoch.
    #[must_use]
    pub fn epoch(&self) -> u8 {
        T_EPOCH.get(self.bytes) as u8
    }

    /// Sequence number, if the frame is sequenced.
    #[must_use]
    pub fn sequence(&self) -> Option<u16> {
        (T_SEQUENCED.get(self.bytes) != 0).then(|| T_SEQUENCE.get(self.bytes) as u16)
    }

    /// Acknowledgement, if one is carried.
    #[must_use]
    pub fn acknowledgement(&self) -> Option<u16> {
        acknowledgement(self.bytes)
    }

    /// The store or load; `None` for completions.
    #[must_use]
    pub fn request(&self) -> Option<RequestView<'a>> {
        let (is_store, request) = match &self.header {
            TlpHeader::MemWrite(request) => (true, request),
            TlpHeader::MemRead(request) => (false, request),
            TlpHeader::Completion(_) => return None,
        };
        let address = &self.bytes[HEADER_BYTES + 8..];
        Some(RequestView {
            is_store,
            key: W_KEY.get(address) as u16,
            offset: W_OFFSET.get(address) as u32,
            length: request.length,
            first_be: request.first_be,
            last_be: request.last_be,
            tag: request.tag,
            sequence: T_SEQUENCE.get(self.bytes) as u16,
            sequenced: T_SEQUENCED.get(self.bytes) != 0,
            data: self.data(),
        })
    }

    /// The plain representation.
    #[must_use]
    pub fn to_tlp(&self) -> Tlp {
        Tlp {
            epoch: self.epoch(),
            sequence: self.sequence(),
            acknowledgement: self.acknowledgement(),
            header: self.header,
            data: self.data().to_vec(),
        }
    }
}

fn acknowledgement(header: &[u8]) -> Option<u16> {
    (T_ACKNOWLEDGED.get(header) != 0).then(|| T_ACKNOWLEDGEMENT.get(header) as u16)
}

/// A payload in the `tlp` format that carries an error report.
#[derive(Clone, Copy, Debug)]
pub struct ErrorView<'a> {
    bytes: &'a [u8],
}

impl ErrorView<'_> {
    /// The report.
    #[must_use]
    pub fn report(&self) -> ErrorReport {
        let body = &self.bytes[HEADER_BYTES..];
        ErrorReport {
            epoch: T_EPOCH.get(self.bytes) as u8,
            acknowledgement: acknowledgement(self.bytes),
            code: E_CODE.get(body) as u8,
            fmt_type: E_FMT_TYPE.get(body) as u8,
            sequence: (E_SEQUENCE_HIGH.get(body) << 16 | E_SEQUENCE.get(body)) as u32,
            length: E_LENGTH.get(body) as u16,
            address: E_ADDRESS.get(body),
        }
    }
}
