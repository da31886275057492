// SPDX-License-Identifier: Apache-2.0
//! Received frames and payloads, checked and read where they lie: [`FrameView`] gives lines 1 to 5 of the verdict in
//! `docs/wire-format.md`, [`PayloadView`] lines 6 to 9.

use std::net::Ipv4Addr;

use super::{
    C_ACKNOWLEDGED, C_CONTROL, C_FORMAT, C_KEY, C_OFFSET, C_SEQUENCE, C_TRAIL, Compact, Control,
    E_ADDRESS, E_CODE, E_FMT_TYPE, E_LENGTH, E_SEQUENCE, E_SEQUENCE_HIGH, ETHERTYPE_IPV4, EndCode,
    ErrorReport, INTERVAL_MASK, Mac, N_CODE, N_EXPECTED, N_SEQUENCE, PROTOCOL_UDP, Payload,
    T_ACKNOWLEDGED, T_ACKNOWLEDGEMENT, T_EPOCH, T_KIND, T_MAGIC, T_SEQUENCE, T_SEQUENCED, T_ZERO,
    TLP_BARE_BYTES, Tlp, W_KEY, W_OFFSET, W_ZERO, ip_checksum,
};
use crate::counters::NetCounter;
use crate::format::{
    ACKNOWLEDGEMENT_BYTES, COMPACT_END_BYTES, COMPACT_NIBBLE, CONTROL_ACK, CONTROL_BYTES,
    CONTROL_NACK, CONTROL_VOID, FMT_CPL, FMT_CPLD, FMT_MRD64, FMT_MWR64, HEADER_BYTES, KIND_ERROR,
    KIND_TLP, MAX_DATA_DW, MIN_FRAME_BYTES, PAYLOAD_OFFSET, TLP_DW0, TLP_END_BYTES,
    TLP_HEADER_BYTES, TLP_MAGIC, UDP_PORT,
};
use crate::tlp::{TlpHeader, TlpView, byte_enables, byte_enables_valid};

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
        let sequence = N_SEQUENCE.get(bytes) as u16;
        let interval = sequence & INTERVAL_MASK;
        let control = match N_CODE.get(bytes) as u8 {
            CONTROL_ACK => Control::Acknowledgement { expected, interval },
            CONTROL_NACK => Control::Missing { expected, interval },
            CONTROL_VOID => Control::Void(sequence),
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
            if !byte_enables_valid(length, first_be, last_be, view.address_field()) {
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
