// SPDX-License-Identifier: Apache-2.0
//! Transaction layer packets: a view that checks lengths once, a plain representation, and byte-enable arithmetic.
//!
//! The same types serve TLPs at the PCI Express side (three or four DWs of header) and the four-DW headers inside
//! frames of the `tlp` format.

use crate::format::{
    COMPLETION_DW12, FMT_CPL, FMT_CPLD, FMT_MRD32, FMT_MRD64, FMT_MWR32, FMT_MWR64, REQUEST_DW1,
    TLP_DW0, TLP_HEADER_BYTES,
};
use crate::layout::Span;

const FMT_TYPE: Span = TLP_DW0.span("fmt_type");
const TC: Span = TLP_DW0.span("tc");
const TD: Span = TLP_DW0.span("td");
const EP: Span = TLP_DW0.span("ep");
const ATTR: Span = TLP_DW0.span("attr");
const LENGTH: Span = TLP_DW0.span("length");
const REQ_REQUESTER: Span = REQUEST_DW1.span("requester_id");
const REQ_TAG: Span = REQUEST_DW1.span("tag");
const LAST_BE: Span = REQUEST_DW1.span("last_be");
const FIRST_BE: Span = REQUEST_DW1.span("first_be");
const CPL_COMPLETER: Span = COMPLETION_DW12.span("completer_id");
const CPL_STATUS: Span = COMPLETION_DW12.span("status");
const CPL_BYTE_COUNT: Span = COMPLETION_DW12.span("byte_count");
const CPL_REQUESTER: Span = COMPLETION_DW12.span("requester_id");
const CPL_TAG: Span = COMPLETION_DW12.span("tag");
const CPL_LOWER: Span = COMPLETION_DW12.span("lower_address");

/// Why bytes are not a TLP, or a header can't be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlpError {
    /// The header is not complete.
    #[error("a TLP of {have} bytes ends inside its header of {need} bytes")]
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes the header has.
        need: usize,
    },
    /// Length field and bytes differ.
    #[error("a TLP of {have} bytes whose header says {need} bytes is malformed")]
    LengthMismatch {
        /// Bytes there are.
        have: usize,
        /// Bytes the header says.
        need: usize,
    },
    /// None of MRd, MWr, Cpl, CplD.
    #[error("fmt/type {0:#04x} is none of MRd, MWr, Cpl and CplD")]
    Unsupported(u8),
    /// The data don't fit the header's length field.
    #[error("{have} bytes of data do not match a header with {need} DWs of data")]
    DataMismatch {
        /// Bytes of data.
        have: usize,
        /// DWs in the header.
        need: usize,
    },
    /// A length that the field can't hold.
    #[error("a TLP of {0} DWs does not exist; the length is 1 to 1024 DWs")]
    BadLength(u16),
    /// The address has bits below a DW.
    #[error("address {0:#x} of a memory request is not DW aligned")]
    Unaligned(u64),
}

/// Completion status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionStatus {
    /// Successful completion.
    Successful,
    /// Unsupported request.
    UnsupportedRequest,
    /// Configuration request retry.
    ConfigurationRetry,
    /// Completer abort.
    CompleterAbort,
    /// A code that PCI Express reserves (3, 5, 6 or 7).
    Reserved(u8),
}

impl CompletionStatus {
    /// From the three bits of the header.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::Successful,
            1 => Self::UnsupportedRequest,
            2 => Self::ConfigurationRetry,
            4 => Self::CompleterAbort,
            other => Self::Reserved(other),
        }
    }

    /// The three bits of the header.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        match self {
            Self::Successful => 0,
            Self::UnsupportedRequest => 1,
            Self::ConfigurationRetry => 2,
            Self::CompleterAbort => 4,
            Self::Reserved(bits) => bits & 7,
        }
    }
}

/// A memory read or write request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemRequest {
    /// Traffic class, 0 to 7.
    pub tc: u8,
    /// Relaxed ordering (bit 1) and no snoop (bit 0).
    pub attr: u8,
    /// Poisoned.
    pub ep: bool,
    /// Length in DWs, 1 to 1024.
    pub length: u16,
    /// Bus, device, function of the requester.
    pub requester_id: u16,
    /// Tag.
    pub tag: u8,
    /// Bytes enabled in the last DW; 0 if the length is 1.
    pub last_be: u8,
    /// Bytes enabled in the first DW.
    pub first_be: u8,
    /// Byte address of the first DW.
    pub address: u64,
}

impl MemRequest {
    /// The bytes that a completion for this request counts.
    #[must_use]
    pub const fn byte_count(&self) -> u16 {
        read_byte_count(self.length, self.first_be, self.last_be)
    }

    /// Lower address of the first completion for this request.
    #[must_use]
    pub const fn lower_address(&self) -> u8 {
        (self.address as u8 & 0x7C) | first_byte(self.first_be)
    }

    /// Whether the request touches more than one 4 KB page.
    #[must_use]
    pub const fn crosses_page(&self) -> bool {
        (self.address & 0xFFF) + 4 * self.length as u64 > 4096
    }
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Traffic class, 0 to 7.
    pub tc: u8,
    /// Relaxed ordering (bit 1) and no snoop (bit 0).
    pub attr: u8,
    /// Poisoned.
    pub ep: bool,
    /// DWs of data: 0 for Cpl, 1 to 1024 for CplD.
    pub length: u16,
    /// Bus, device, function of the completer.
    pub completer_id: u16,
    /// Status.
    pub status: CompletionStatus,
    /// Bytes still to come, these included; 0 means 4096.
    pub byte_count: u16,
    /// Bus, device, function of the requester.
    pub requester_id: u16,
    /// Tag of the request.
    pub tag: u8,
    /// Address bits 6:0 of the first byte.
    pub lower_address: u8,
}

/// The plain representation of a TLP's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlpHeader {
    /// MRd.
    MemRead(MemRequest),
    /// MWr.
    MemWrite(MemRequest),
    /// Cpl (length 0) or CplD.
    Completion(Completion),
}

impl TlpHeader {
    /// DWs of data that follow the header.
    #[must_use]
    pub const fn data_dws(&self) -> usize {
        match self {
            Self::MemRead(_) => 0,
            Self::MemWrite(request) => request.length as usize,
            Self::Completion(completion) => completion.length as usize,
        }
    }

    /// The fmt/type byte: at the PCI Express side requests below 4 GB have three DWs of header.
    #[must_use]
    pub const fn fmt_type(&self) -> u8 {
        match self {
            Self::MemRead(request) if request.address >> 32 == 0 => FMT_MRD32,
            Self::MemRead(_) => FMT_MRD64,
            Self::MemWrite(request) if request.address >> 32 == 0 => FMT_MWR32,
            Self::MemWrite(_) => FMT_MWR64,
            Self::Completion(completion) if completion.length == 0 => FMT_CPL,
            Self::Completion(_) => FMT_CPLD,
        }
    }

    /// The TLP as it crosses PCI Express.
    ///
    /// # Errors
    /// If the data do not match the length, the length does not exist or the address is not DW aligned.
    pub fn emit(&self, data: &[u8]) -> Result<Vec<u8>, TlpError> {
        self.check(data)?;
        let fmt_type = self.fmt_type();
        let header_bytes = header_bytes(fmt_type);
        let mut tlp = Vec::with_capacity(header_bytes + data.len());
        tlp.resize(header_bytes, 0);
        self.write_header(&mut tlp, fmt_type);
        tlp.extend_from_slice(data);
        Ok(tlp)
    }

    /// The 16 bytes that stand for the header in the `tlp` format: requests have 64-bit addresses, completions a
    /// fourth DW of 0.
    #[must_use]
    pub fn emit_wire(&self) -> [u8; TLP_HEADER_BYTES] {
        let mut header = [0; TLP_HEADER_BYTES];
        self.write_header(&mut header, self.fmt_type_wire());
        header
    }

    /// The fmt/type byte in the `tlp` format.
    #[must_use]
    pub const fn fmt_type_wire(&self) -> u8 {
        match self {
            Self::MemRead(_) => FMT_MRD64,
            Self::MemWrite(_) => FMT_MWR64,
            Self::Completion(_) => self.fmt_type(),
        }
    }

    pub(crate) fn check(&self, data: &[u8]) -> Result<(), TlpError> {
        let (length, least) = match self {
            Self::MemRead(request) | Self::MemWrite(request) => {
                if request.address & 3 != 0 {
                    return Err(TlpError::Unaligned(request.address));
                }
                (request.length, 1)
            }
            Self::Completion(completion) => (completion.length, 0),
        };
        if !(least..=1024).contains(&length) {
            return Err(TlpError::BadLength(length));
        }
        if data.len() != 4 * self.data_dws() {
            return Err(TlpError::DataMismatch {
                have: data.len(),
                need: self.data_dws(),
            });
        }
        Ok(())
    }

    fn write_header(&self, out: &mut [u8], fmt_type: u8) {
        FMT_TYPE.put(out, u64::from(fmt_type));
        match self {
            Self::MemRead(r) | Self::MemWrite(r) => {
                TC.put(out, u64::from(r.tc));
                ATTR.put(out, u64::from(r.attr));
                EP.put(out, u64::from(r.ep));
                LENGTH.put(out, u64::from(r.length));
                let dw1 = &mut out[4..];
                REQ_REQUESTER.put(dw1, u64::from(r.requester_id));
                REQ_TAG.put(dw1, u64::from(r.tag));
                LAST_BE.put(dw1, u64::from(r.last_be));
                FIRST_BE.put(dw1, u64::from(r.first_be));
                if fmt_type & 0x20 == 0 {
                    out[8..12].copy_from_slice(&(r.address as u32).to_be_bytes());
                } else {
                    out[8..16].copy_from_slice(&r.address.to_be_bytes());
                }
            }
            Self::Completion(c) => {
                TC.put(out, u64::from(c.tc));
                ATTR.put(out, u64::from(c.attr));
                EP.put(out, u64::from(c.ep));
                LENGTH.put(out, u64::from(c.length));
                let dw1 = &mut out[4..];
                CPL_COMPLETER.put(dw1, u64::from(c.completer_id));
                CPL_STATUS.put(dw1, u64::from(c.status.to_bits()));
                CPL_BYTE_COUNT.put(dw1, u64::from(c.byte_count));
                CPL_REQUESTER.put(dw1, u64::from(c.requester_id));
                CPL_TAG.put(dw1, u64::from(c.tag));
                CPL_LOWER.put(dw1, u64::from(c.lower_address));
            }
        }
    }
}

/// Bytes of the header that a fmt/type byte announces.
#[must_use]
pub const fn header_bytes(fmt_type: u8) -> usize {
    if fmt_type & 0x20 == 0 { 12 } else { 16 }
}

/// A TLP at the PCI Express side whose lengths have been checked: header, data and digest are all there, and nothing
/// more. Any type of TLP has a view; [`TlpView::header`] knows only the six that the NIC handles.
#[derive(Clone, Copy, Debug)]
pub struct TlpView<'a> {
    bytes: &'a [u8],
}

impl<'a> TlpView<'a> {
    /// Checks the lengths.
    ///
    /// # Errors
    /// If the bytes end inside the header, or are more or fewer than the header says.
    pub fn new(bytes: &'a [u8]) -> Result<Self, TlpError> {
        let have = bytes.len();
        let need = header_bytes(bytes.first().copied().unwrap_or(0));
        if have < need {
            return Err(TlpError::Truncated { have, need });
        }
        let view = Self { bytes };
        let need = need + 4 * view.data_dws() + if view.td() { 4 } else { 0 };
        if have != need {
            return Err(TlpError::LengthMismatch { have, need });
        }
        Ok(view)
    }

    /// Wraps a header from the `tlp` format, whose data stand elsewhere.
    pub(crate) fn wire_header(bytes: &'a [u8; TLP_HEADER_BYTES]) -> Self {
        Self { bytes }
    }

    /// Format and type, byte 0.
    #[must_use]
    pub fn fmt_type(&self) -> u8 {
        FMT_TYPE.get(self.bytes) as u8
    }

    /// Whether data follow the header.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.fmt_type() & 0x40 != 0
    }

    /// Whether somebody waits for a completion: reads, I/O, configuration and atomics, not writes, messages and
    /// completions, nor what does not exist, such as a locked write.
    #[must_use]
    pub fn is_non_posted(&self) -> bool {
        matches!(
            self.fmt_type(),
            FMT_MRD32 | FMT_MRD64 | 0x02 | 0x42 | 0x04 | 0x44 | 0x05 | 0x45
        ) || self.is_locked_read()
            || self.is_atomic()
    }

    /// Whether it is a locked memory read.
    #[must_use]
    pub fn is_locked_read(&self) -> bool {
        matches!(self.fmt_type(), 0x01 | 0x21)
    }

    /// Whether it is an atomic operation: fetch and add, swap, compare and swap.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        matches!(self.fmt_type() & !0x20, 0x4C..=0x4E)
    }

    /// Byte count and lower address of a completion of this request: a read's follow from its bytes, an atomic
    /// operation tells the size of its operand, of which compare and swap carries two, and the others tell 4.
    #[must_use]
    pub fn completion_span(&self) -> (u16, u8) {
        let length = self.length() & 0x3FF;
        match self.fmt_type() {
            FMT_MRD32 | FMT_MRD64 | 0x01 | 0x21 => (
                read_byte_count(self.length(), self.first_be(), self.last_be()),
                self.address_field() as u8 & 0x7C | first_byte(self.first_be()),
            ),
            0x4E | 0x6E => (2 * length, 0),
            _ if self.is_atomic() => (4 * length, 0),
            _ => (4, 0),
        }
    }

    /// Traffic class.
    #[must_use]
    pub fn tc(&self) -> u8 {
        TC.get(self.bytes) as u8
    }

    /// Relaxed ordering (bit 1) and no snoop (bit 0).
    #[must_use]
    pub fn attr(&self) -> u8 {
        ATTR.get(self.bytes) as u8
    }

    /// Whether a digest follows.
    #[must_use]
    pub fn td(&self) -> bool {
        TD.get(self.bytes) != 0
    }

    /// Whether the data are poisoned.
    #[must_use]
    pub fn ep(&self) -> bool {
        EP.get(self.bytes) != 0
    }

    /// The length field as it stands there; 0 means 1024 where there are data or a request for them.
    #[must_use]
    pub fn length_field(&self) -> u16 {
        LENGTH.get(self.bytes) as u16
    }

    /// The length field decoded, 1 to 1024 DWs.
    #[must_use]
    pub fn length(&self) -> u16 {
        match self.length_field() {
            0 => 1024,
            length => length,
        }
    }

    /// DWs of data that follow the header.
    #[must_use]
    pub fn data_dws(&self) -> usize {
        if self.has_data() {
            usize::from(self.length())
        } else {
            0
        }
    }

    /// Requester ID of a request.
    #[must_use]
    pub fn requester_id(&self) -> u16 {
        REQ_REQUESTER.get(&self.bytes[4..]) as u16
    }

    /// Tag of a request.
    #[must_use]
    pub fn tag(&self) -> u8 {
        REQ_TAG.get(&self.bytes[4..]) as u8
    }

    /// Byte enables of a request's first DW.
    #[must_use]
    pub fn first_be(&self) -> u8 {
        FIRST_BE.get(&self.bytes[4..]) as u8
    }

    /// Byte enables of a request's last DW.
    #[must_use]
    pub fn last_be(&self) -> u8 {
        LAST_BE.get(&self.bytes[4..]) as u8
    }

    /// The address words of a request, as they stand there.
    #[must_use]
    pub fn address_field(&self) -> u64 {
        let word = |at: usize| {
            self.bytes[at..at + 4]
                .iter()
                .fold(0_u64, |word, &byte| word << 8 | u64::from(byte))
        };
        if header_bytes(self.fmt_type()) == 12 {
            word(8)
        } else {
            word(8) << 32 | word(12)
        }
    }

    /// The data after the header; empty for types without data.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        let start = header_bytes(self.fmt_type());
        &self.bytes[start..start + 4 * self.data_dws()]
    }

    /// The plain representation.
    ///
    /// # Errors
    /// [`TlpError::Unsupported`] if it is none of MRd, MWr, Cpl and CplD.
    pub fn header(&self) -> Result<TlpHeader, TlpError> {
        let fmt_type = self.fmt_type();
        let request = || MemRequest {
            tc: self.tc(),
            attr: self.attr(),
            ep: self.ep(),
            length: self.length(),
            requester_id: self.requester_id(),
            tag: self.tag(),
            last_be: self.last_be(),
            first_be: self.first_be(),
            address: self.address_field() & !3,
        };
        match fmt_type {
            FMT_MRD32 | FMT_MRD64 => Ok(TlpHeader::MemRead(request())),
            FMT_MWR32 | FMT_MWR64 => Ok(TlpHeader::MemWrite(request())),
            FMT_CPL | FMT_CPLD => {
                let dw1 = &self.bytes[4..];
                Ok(TlpHeader::Completion(Completion {
                    tc: self.tc(),
                    attr: self.attr(),
                    ep: self.ep(),
                    length: self.data_dws() as u16,
                    completer_id: CPL_COMPLETER.get(dw1) as u16,
                    status: CompletionStatus::from_bits(CPL_STATUS.get(dw1) as u8),
                    byte_count: CPL_BYTE_COUNT.get(dw1) as u16,
                    requester_id: CPL_REQUESTER.get(dw1) as u16,
                    tag: CPL_TAG.get(dw1) as u8,
                    lower_address: CPL_LOWER.get(dw1) as u8,
                }))
            }
            other => Err(TlpError::Unsupported(other)),
        }
    }
}

/// Bytes that a read of `length` DWs (1 to 1024) with these byte enables asks for, modulo 4096 as the 12-bit field
/// holds it. A read without any byte enabled asks for one.
#[must_use]
pub const fn read_byte_count(length: u16, first_be: u8, last_be: u8) -> u16 {
    if length == 1 && first_be & 0xF == 0 {
        return 1;
    }
    let end_be = if length == 1 { first_be } else { last_be } & 0xF;
    let skip_back = match end_be {
        0 => 0,
        _ => end_be.leading_zeros() as u16 - 4,
    };
    (4 * (length & 0x3FF))
        .wrapping_sub(first_byte(first_be) as u16)
        .wrapping_sub(skip_back)
        & 0xFFF
}

/// Address bits 1:0 of the first enabled byte; 0 if none is.
#[must_use]
pub const fn first_byte(first_be: u8) -> u8 {
    match first_be & 0xF {
        0 => 0,
        be => be.trailing_zeros() as u8,
    }
}

/// Whether byte enables are as PCI Express has them: for one DW the last are 0; for the two DWs of a quadword neither is;
/// for others the enabled bytes are in a row from somewhere in the first DW to somewhere in the last.
#[must_use]
pub const fn byte_enables_valid(length: u16, first_be: u8, last_be: u8, address: u64) -> bool {
    match length {
        1 => last_be == 0,
        2 if address & 4 == 0 => first_be != 0 && last_be != 0,
        _ => matches!(first_be, 0xF | 0xE | 0xC | 0x8) && matches!(last_be, 0xF | 0x7 | 0x3 | 0x1),
    }
}

/// The form of a store whose enabled bytes are contiguous: bytes not written at the start of the first DW, and at the
/// end of the last. `None` if they are not contiguous or there are none: such a store has no `compact` form.
#[must_use]
pub const fn contiguous(length: u16, first_be: u8, last_be: u8) -> Option<(u8, u8)> {
    if length == 1 {
        if first_be == 0 || last_be != 0 {
            return None;
        }
        let lead = first_byte(first_be);
        let trail = first_be.leading_zeros() as u8 - 4;
        let (first, _) = byte_enables(1, lead, trail);
        if first == first_be {
            Some((lead, trail))
        } else {
            None
        }
    } else {
        let lead = first_byte(first_be);
        if last_be == 0 || first_be == 0 {
            return None;
        }
        let trail = last_be.leading_zeros() as u8 - 4;
        let (first, last) = byte_enables(length, lead, trail);
        if first == first_be && last == last_be {
            Some((lead, trail))
        } else {
            None
        }
    }
}

/// First and last byte enables of a store that leaves out `lead` bytes at its start and `trail` at its end (0 to 3).
/// For one DW the first may come out empty.
#[must_use]
pub const fn byte_enables(length: u16, lead: u8, trail: u8) -> (u8, u8) {
    let first = 0xF << lead & 0xF;
    let last = 0xF >> trail;
    if length == 1 {
        (first & last, 0)
    } else {
        (first, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts the bytes between the first and the last enabled one, one by one.
    fn count_by_hand(length: u16, first_be: u8, last_be: u8) -> u16 {
        let mut enabled = vec![true; 4 * usize::from(length)];
        for i in 0..4 {
            if length == 1 {
                enabled[i] = first_be >> i & 1 == 1;
            } else {
                let last = enabled.len() - 4 + i;
                enabled[i] = first_be >> i & 1 == 1;
                enabled[last] = last_be >> i & 1 == 1;
            }
        }
        let first = enabled.iter().position(|&e| e);
        let last = enabled.iter().rposition(|&e| e);
        match (first, last) {
            (Some(first), Some(last)) => ((last - first + 1) % 4096) as u16,
            _ => 1,
        }
    }

    #[test]
    fn byte_counts_of_all_byte_enables() {
        for length in [1, 2, 3, 64, 1023, 1024] {
            for first_be in 0..16 {
                for last_be in 0..16 {
                    let legal = |address| byte_enables_valid(length, first_be, last_be, address);
                    // Two DWs that are not a quadword are as any more are.
                    let runs = contiguous(length, first_be, last_be).is_some();
                    assert_eq!(legal(4), if length == 1 { last_be == 0 } else { runs });
                    if legal(8) {
                        assert_eq!(
                            read_byte_count(length, first_be, last_be),
                            count_by_hand(length, first_be, last_be),
                            "{length} {first_be:04b} {last_be:04b}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn contiguous_agrees_with_a_search() {
        for length in [1, 2, 64] {
            for first_be in 0..16 {
                for last_be in 0..16 {
                    let found = (0..16_u8).map(|i| (i & 3, i >> 2)).find(|&(lead, trail)| {
                        byte_enables(length, lead, trail) == (first_be, last_be) && first_be != 0
                    });
                    assert_eq!(
                        contiguous(length, first_be, last_be),
                        found,
                        "{length} {first_be:04b} {last_be:04b}"
                    );
                }
            }
        }
    }

    #[test]
    fn known_bytes() {
        let write = TlpHeader::MemWrite(MemRequest {
            length: 2,
            requester_id: 0x0100,
            tag: 0x42,
            first_be: 0xF,
            last_be: 0x3,
            address: 0x9000_0010,
            ..MemRequest::default()
        });
        let data = [1, 2, 3, 4, 5, 6, 7, 8];
        let tlp = write.emit(&data).expect("valid");
        assert_eq!(
            tlp[..12],
            [0x40, 0, 0, 2, 1, 0, 0x42, 0x3F, 0x90, 0, 0, 0x10]
        );
        assert_eq!(write.emit_wire()[8..], [0, 0, 0, 0, 0x90, 0, 0, 0x10]);
        let completion = TlpHeader::Completion(Completion {
            tc: 0,
            attr: 0,
            ep: false,
            length: 0,
            completer_id: 0x0200,
            status: CompletionStatus::CompleterAbort,
            byte_count: 4,
            requester_id: 0x0100,
            tag: 7,
            lower_address: 0x1C,
        });
        assert_eq!(
            completion.emit(&[]).expect("valid"),
            [0x0A, 0, 0, 0, 2, 0, 0x80, 4, 1, 0, 7, 0x1C]
        );
    }

    #[test]
    fn errors_are_sentences() {
        assert_eq!(
            TlpView::new(&[0x40, 0, 0, 1])
                .expect_err("short")
                .to_string(),
            "a TLP of 4 bytes ends inside its header of 12 bytes"
        );
        assert_eq!(
            TlpView::new(&[0x40, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
                .expect_err("no data")
                .to_string(),
            "a TLP of 12 bytes whose header says 16 bytes is malformed"
        );
        assert!(TlpView::new(&[]).is_err());
    }

    pub(crate) fn request() -> impl Strategy<Value = MemRequest> {
        (
            0..8_u8,
            0..4_u8,
            any::<bool>(),
            1..=1024_u16,
            any::<(u16, u8)>(),
            0..16_u8,
            0..16_u8,
            prop_oneof![any::<u64>(), any::<u32>().prop_map(u64::from)],
        )
            .prop_map(
                |(tc, attr, ep, length, (requester_id, tag), last_be, first_be, address)| {
                    MemRequest {
                        tc,
                        attr,
                        ep,
                        length,
                        requester_id,
                        tag,
                        last_be,
                        first_be,
                        address: address & !3,
                    }
                },
            )
    }

    pub(crate) fn completion() -> impl Strategy<Value = Completion> {
        (
            (0..8_u8, 0..4_u8, any::<bool>(), 0..=1024_u16),
            any::<(u16, u16, u8)>(),
            (0..8_u8, 0..4096_u16, 0..128_u8),
        )
            .prop_map(
                |(
                    (tc, attr, ep, length),
                    (completer_id, requester_id, tag),
                    (status, byte_count, lower_address),
                )| {
                    Completion {
                        tc,
                        attr,
                        ep,
                        length,
                        completer_id,
                        status: CompletionStatus::from_bits(status),
                        byte_count,
                        requester_id,
                        tag,
                        lower_address,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn headers_survive(header in prop_oneof![
            request().prop_map(TlpHeader::MemRead),
            request().prop_map(TlpHeader::MemWrite),
            completion().prop_map(TlpHeader::Completion),
        ]) {
            let data: Vec<u8> = (0..4 * header.data_dws()).map(|i| i as u8).collect();
            let tlp = header.emit(&data)?;
            let view = TlpView::new(&tlp)?;
            prop_assert_eq!(view.header()?, header);
            prop_assert_eq!(view.data(), &data[..]);
        }

        #[test]
        fn views_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(view) = TlpView::new(&bytes) {
                let _ = (view.header(), view.data().len(), view.is_non_posted(), view.address_field());
            }
        }
    }
}
