// SPDX-License-Identifier: Apache-2.0
//! The two payload formats and the TLP headers inside them, as tables.

use crate::layout::{Field, Layout, Show};

/// UDP destination port of every frame, and source port of replies.
pub const UDP_PORT: u16 = 3422;
/// First two bytes of the `tlp` format, "NM".
pub const TLP_MAGIC: u16 = 0x4E4D;
/// First four bits of the `compact` format.
pub const COMPACT_NIBBLE: u8 = 0xC;
/// Bytes before the body in both formats.
pub const HEADER_BYTES: usize = 8;
/// Bytes of a TLP header, or an error body, in the `tlp` format.
pub const TLP_HEADER_BYTES: usize = 16;
/// Bytes of the `compact` format's end code.
pub const COMPACT_END_BYTES: usize = 2;
/// Bytes of the `tlp` format's end code.
pub const TLP_END_BYTES: usize = 4;
/// Bytes of an acknowledgement in the `compact` format.
pub const ACKNOWLEDGEMENT_BYTES: usize = 2;
/// Data DWs that one frame carries at most.
pub const MAX_DATA_DW: usize = 64;
/// Bits of the key in the `compact` format.
pub const COMPACT_KEY_W: u32 = 12;
/// Bits of the byte offset in the `compact` format.
pub const COMPACT_OFFSET_W: u32 = 28;
/// Bits of a shared-region key.
pub const KEY_W: u32 = 16;
/// Bits of an offset in a shared region.
pub const OFFSET_W: u32 = 32;
/// Bits of the tag that is folded into the end code.
pub const TAG_W: u32 = 12;
/// Ethernet + IPv4 + UDP headers in bytes: the payload starts here.
pub const PAYLOAD_OFFSET: usize = 42;
/// Shortest frame without FCS, in bytes.
pub const MIN_FRAME_BYTES: usize = 60;
/// Bytes of the frame check sequence.
pub const FCS_BYTES: usize = 4;

/// Kind in the control byte: a TLP.
pub const KIND_TLP: u8 = 0;
/// Kind in the control byte: an error report.
pub const KIND_ERROR: u8 = 1;

/// Error report: the key is beyond the table or its region is not valid.
pub const ERR_BAD_KEY: u8 = 1;
/// Error report: the region is not shared with the sender's address.
pub const ERR_BAD_SOURCE: u8 = 2;
/// Error report: a store without the write right or a load without the read right.
pub const ERR_BAD_RIGHTS: u8 = 3;
/// Error report: outside the region, or across a 4 KB boundary.
pub const ERR_BAD_BOUNDS: u8 = 4;

/// Names of the kinds.
pub const KINDS: &[(u64, &str)] = &[
    (KIND_TLP as u64, "TLP"),
    (KIND_ERROR as u64, "error report"),
];

/// Names and reasons of the error codes.
pub const ERROR_CODES: &[(u64, &str)] = &[
    (ERR_BAD_KEY as u64, "bad key"),
    (ERR_BAD_SOURCE as u64, "bad source"),
    (ERR_BAD_RIGHTS as u64, "bad rights"),
    (ERR_BAD_BOUNDS as u64, "bad bounds"),
];

/// fmt/type: memory read, 3-DW header.
pub const FMT_MRD32: u8 = 0x00;
/// fmt/type: memory read, 4-DW header.
pub const FMT_MRD64: u8 = 0x20;
/// fmt/type: memory write, 3-DW header.
pub const FMT_MWR32: u8 = 0x40;
/// fmt/type: memory write, 4-DW header.
pub const FMT_MWR64: u8 = 0x60;
/// fmt/type: completion without data.
pub const FMT_CPL: u8 = 0x0A;
/// fmt/type: completion with data.
pub const FMT_CPLD: u8 = 0x4A;

/// Names of the fmt/type values this project handles.
pub const FMT_TYPES: &[(u64, &str)] = &[
    (FMT_MRD32 as u64, "MRd32"),
    (FMT_MRD64 as u64, "MRd64"),
    (FMT_MWR32 as u64, "MWr32"),
    (FMT_MWR64 as u64, "MWr64"),
    (FMT_CPL as u64, "Cpl"),
    (FMT_CPLD as u64, "CplD"),
];

/// Names of completion statuses.
pub const STATUSES: &[(u64, &str)] = &[
    (0, "SC, successful"),
    (1, "UR, unsupported request"),
    (2, "CRS, configuration retry"),
    (4, "CA, completer abort"),
];

const fn hex(name: &'static str, bits: u32, doc: &'static str) -> Field {
    Field::new(name, bits, Show::Hex, doc)
}
const fn dec(name: &'static str, bits: u32, doc: &'static str) -> Field {
    Field::new(name, bits, Show::Dec, doc)
}
const fn flag(name: &'static str, doc: &'static str) -> Field {
    Field::new(name, 1, Show::Flag, doc)
}
const fn zero(name: &'static str, bits: u32) -> Field {
    Field::new(name, bits, Show::Zero, "sent as 0")
}
const fn names(
    name: &'static str,
    bits: u32,
    values: &'static [(u64, &'static str)],
    doc: &'static str,
) -> Field {
    Field::new(name, bits, Show::Names(values), doc)
}

/// The header of a `compact` frame.
pub const COMPACT_HEADER: Layout = Layout {
    name: "compact",
    doc: "header of the compact format: a store",
    fields: &[
        hex("format", 4, "0xC"),
        flag(
            "acknowledged",
            "an acknowledgement stands before the end code",
        ),
        zero("zero", 1),
        dec(
            "trail",
            2,
            "bytes that are not written at the end of the last DW",
        ),
        dec("sequence", 16, "sequence number"),
        hex("key", COMPACT_KEY_W, "shared-region key"),
        hex(
            "offset",
            COMPACT_OFFSET_W,
            "byte offset in the region; bits 1:0 are the bytes that are not written at the start of the first DW",
        ),
    ],
};

/// The header of a `tlp` frame.
pub const TLP_FORMAT_HEADER: Layout = Layout {
    name: "tlp",
    doc: "header of the tlp format: any operation",
    fields: &[
        hex("magic", 16, "0x4E4D, \"NM\""),
        names("kind", 4, KINDS, "what the body is"),
        zero("zero", 2),
        flag("acknowledged", "the acknowledgement is valid"),
        flag("sequenced", "the frame counts in its sender's sequence"),
        dec("epoch", 8, "the sender's epoch register"),
        dec("sequence", 16, "sequence number, 0 if not sequenced"),
        dec("acknowledgement", 16, "acknowledgement, 0 if not valid"),
    ],
};

/// The body of an error report.
pub const ERROR_BODY: Layout = Layout {
    name: "error",
    doc: "body of an error report",
    fields: &[
        names("code", 8, ERROR_CODES, "why the operation was refused"),
        names(
            "fmt_type",
            8,
            FMT_TYPES,
            "fmt/type of the refused operation",
        ),
        dec("sequence", 16, "sequence number of the refused operation"),
        zero("zero", 16),
        dec("length", 16, "length of the refused operation in DW"),
        hex(
            "address",
            64,
            "wire address of the refused operation, DW aligned",
        ),
    ],
};

/// DW 0 of every TLP header.
pub const TLP_DW0: Layout = Layout {
    name: "head",
    doc: "DW 0 of every TLP header",
    fields: &[
        names(
            "fmt_type",
            8,
            FMT_TYPES,
            "format (DWs of header, data or not) and type",
        ),
        zero("zero0", 1),
        dec("tc", 3, "traffic class"),
        zero("zero1", 4),
        flag("td", "a digest DW follows the TLP"),
        flag("ep", "the data are poisoned"),
        dec("attr", 2, "relaxed ordering, no snoop"),
        zero("at", 2),
        dec("length", 10, "data DWs; 0 means 1024"),
    ],
};

/// DW 1 of a memory request.
pub const REQUEST_DW1: Layout = Layout {
    name: "request",
    doc: "DW 1 of a memory request",
    fields: &[
        hex("requester_id", 16, "bus, device, function of the requester"),
        hex("tag", 8, "tag of the request"),
        hex("last_be", 4, "bytes enabled in the last DW"),
        hex("first_be", 4, "bytes enabled in the first DW"),
    ],
};

/// DWs 1 and 2 of a completion.
pub const COMPLETION_DW12: Layout = Layout {
    name: "completion",
    doc: "DWs 1 and 2 of a completion",
    fields: &[
        hex("completer_id", 16, "bus, device, function of the completer"),
        names("status", 3, STATUSES, "completion status"),
        flag("bcm", "byte count modified (PCI-X bridges only)"),
        dec(
            "byte_count",
            12,
            "bytes still to come, these included; 0 means 4096",
        ),
        hex("requester_id", 16, "bus, device, function of the requester"),
        hex("tag", 8, "tag of the request"),
        zero("zero", 1),
        hex(
            "lower_address",
            7,
            "address bits 6:0 of the first byte of data",
        ),
    ],
};

/// DWs 2 and 3 of a memory request on the wire: the wire address.
pub const WIRE_ADDRESS: Layout = Layout {
    name: "wire_address",
    doc: "a wire address, as DWs 2 and 3 of a memory request",
    fields: &[
        zero("zero", 16),
        hex("key", KEY_W, "shared-region key"),
        hex("offset", OFFSET_W, "byte offset in the region, DW aligned"),
    ],
};
