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

/// Upper two bits of the source port of a frame of a session.
pub const SESSION_PORT_PREFIX: u16 = 3;
/// Cycles of the network clock in a tick, the unit of a session's timers.
pub const SESSION_TICK_CYCLES: u32 = 16;
/// Bytes of a control frame's payload.
pub const CONTROL_BYTES: usize = 10;
/// Code of a control frame: the sequence number that is expected next.
pub const CONTROL_ACK: u8 = 0;
/// Code of a control frame: the same, and a frame is missing.
pub const CONTROL_NACK: u8 = 1;
/// Code of a control frame: nothing, in the place of a refused operation.
pub const CONTROL_VOID: u8 = 2;
/// First byte of a sealed payload.
pub const SEAL_MAGIC: u8 = 0xA0;
/// Bytes before the sealed part of a payload.
pub const SEAL_HEADER_BYTES: usize = 8;
/// Bytes of the authentication tag after it.
pub const SEAL_TAG_BYTES: usize = 16;

/// Event: a session's retry limit is reached.
pub const EVENT_PEER_LOST: u8 = 16;
/// Event: all stores before the flush are delivered.
pub const EVENT_FLUSHED: u8 = 17;
/// Event: the flush can't succeed: the peer is lost or the session not valid.
pub const EVENT_FLUSH_FAILED: u8 = 18;
/// Event: the line went down.
pub const EVENT_LINK_DOWN: u8 = 19;
/// Event: the line came up.
pub const EVENT_LINK_UP: u8 = 20;
/// Event: events were lost here because the ring was full.
pub const EVENT_OVERFLOW: u8 = 21;

/// Names of the events; below 16 they are the error codes of refused operations.
pub const EVENT_CODES: &[(u64, &str)] = &[
    (ERR_BAD_KEY as u64, "refused: bad key"),
    (ERR_BAD_SOURCE as u64, "refused: bad source"),
    (ERR_BAD_RIGHTS as u64, "refused: bad rights"),
    (ERR_BAD_BOUNDS as u64, "refused: bad bounds"),
    (EVENT_PEER_LOST as u64, "peer lost"),
    (EVENT_FLUSHED as u64, "flushed"),
    (EVENT_FLUSH_FAILED as u64, "flush failed"),
    (EVENT_LINK_DOWN as u64, "link down"),
    (EVENT_LINK_UP as u64, "link up"),
    (EVENT_OVERFLOW as u64, "events lost"),
];

/// Names of the codes of control frames.
pub const CONTROL_CODES: &[(u64, &str)] = &[
    (CONTROL_ACK as u64, "acknowledgement"),
    (CONTROL_NACK as u64, "negative acknowledgement"),
    (CONTROL_VOID as u64, "void"),
];

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
        flag("control", "0: a store; 1: a control frame, see there"),
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

/// The payload of a control frame before its end code.
pub const CONTROL_HEADER: Layout = Layout {
    name: "control",
    doc: "a control frame of a session",
    fields: &[
        hex("format", 4, "0xC"),
        zero("acknowledged", 1),
        flag("control", "a control frame, not a store"),
        names("code", 2, CONTROL_CODES, "what it says"),
        dec(
            "sequence",
            16,
            "void: sequence number, bits 15:0; acknowledgements: the interval that is asked for, bits 11:0",
        ),
        dec(
            "expected",
            32,
            "acknowledgements: sequence number that is expected next",
        ),
        zero("zero", 8),
    ],
};

/// What stands before the sealed part of a payload.
pub const SEAL_HEADER: Layout = Layout {
    name: "seal",
    doc: "header of a sealed payload",
    fields: &[
        hex("magic", 8, "0xA0"),
        zero("zero", 7),
        dec("phase", 1, "which of the receiver's two keys it is"),
        dec(
            "packet_high",
            16,
            "packet number under this key, bits 47:32",
        ),
        dec("packet_low", 32, "bits 31:0"),
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
        dec(
            "sequence",
            16,
            "sequence number of the refused operation, bits 15:0",
        ),
        dec(
            "sequence_high",
            16,
            "bits 31:16 of it; 0 outside of sessions",
        ),
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
