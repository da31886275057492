// SPDX-License-Identifier: Apache-2.0
//! Whole frames: Ethernet, IPv4, UDP and one of the two payload formats. Sealed payloads are opened before: [`crate::seal`].
//!
//! A receiver that must say why it dropped a frame uses the views: [`FrameView`] gives lines 1 to 5 of the verdict in
//! `docs/wire-format.md`, [`PayloadView`] lines 6 to 9, both without copying. Everyone else uses [`Frame`].

mod view;

use std::fmt;
use std::net::Ipv4Addr;

use crate::crc::{crc16, crc16_from, crc32c, crc32c_from};
use crate::format::{
    COMPACT_END_BYTES, COMPACT_HEADER, COMPACT_NIBBLE, CONTROL_ACK, CONTROL_BYTES, CONTROL_HEADER,
    CONTROL_NACK, CONTROL_VOID, ERROR_BODY, HEADER_BYTES, KIND_ERROR, KIND_TLP, MAX_DATA_DW,
    MIN_FRAME_BYTES, PAYLOAD_OFFSET, SESSION_PORT_PREFIX, TLP_END_BYTES, TLP_FORMAT_HEADER,
    TLP_HEADER_BYTES, TLP_MAGIC, WIRE_ADDRESS,
};
use crate::layout::Span;
use crate::tlp::{TlpError, TlpHeader};

pub use view::{
    CompactView, ControlView, ErrorView, FrameView, PayloadView, RequestView, TlpPayloadView,
    WireError,
};

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
/// Bits of the sequence number's field that are an interval in acknowledgements.
const INTERVAL_MASK: u16 = 0xFFF;

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
    Acknowledgement {
        /// The sequence number that comes next.
        expected: u32,
        /// Network cycles from the start of a frame to the next one's that the receiver asks for, 12 bits; 0: it does
        /// not mind.
        interval: u16,
    },
    /// The same, and the frame with this number is missing.
    Missing {
        /// The sequence number of that frame.
        expected: u32,
        /// As in [`Self::Acknowledgement`].
        interval: u16,
    },
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
                    Control::Acknowledgement { expected, interval } => {
                        N_SEQUENCE.put(&mut out, u64::from(interval & INTERVAL_MASK));
                        N_EXPECTED.put(&mut out, u64::from(expected));
                        CONTROL_ACK
                    }
                    Control::Missing { expected, interval } => {
                        N_SEQUENCE.put(&mut out, u64::from(interval & INTERVAL_MASK));
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
    /// UDP destination port: [`crate::UDP_PORT`].
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
