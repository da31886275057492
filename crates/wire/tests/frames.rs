// SPDX-License-Identifier: Apache-2.0
//! Frames survive emit and parse; nothing makes the parser panic; every refusal is counted where the document says.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::seal::{LAST_PACKET, Sealer, packet_number};
use wire::{
    Compact, Completion, CompletionStatus, Control, EmitError, EndCode, ErrorReport, FCS_BYTES,
    Frame, FrameView, MAX_DATA_DW, Mac, MemRequest, NetCounter, PAYLOAD_OFFSET, Payload,
    PayloadView, SessionPort, Tlp, TlpHeader, UDP_PORT, WireError, byte_enables, contiguous,
    extend_sequence, fcs, seal_ip, seal_payload, wire_address,
};

fn data() -> impl Strategy<Value = Vec<u8>> {
    (1..=MAX_DATA_DW).prop_flat_map(|dws| vec(any::<u8>(), 4 * dws))
}

fn compact() -> impl Strategy<Value = Payload> {
    (
        any::<u16>(),
        option::of(any::<u16>()),
        0..1_u16 << 12,
        0..1_u32 << 28,
        0..4_u8,
        data(),
    )
        .prop_filter("stores at least one byte", |(.., offset, trail, data)| {
            byte_enables(data.len() as u16 / 4, *offset as u8 & 3, *trail).0 != 0
        })
        .prop_map(|(sequence, acknowledgement, key, offset, trail, data)| {
            Payload::Compact(Compact {
                sequence,
                acknowledgement,
                key,
                offset,
                trail,
                data,
            })
        })
}

fn request() -> impl Strategy<Value = MemRequest> {
    (
        1..=MAX_DATA_DW as u16,
        any::<(u8, u16, u32)>(),
        1..16_u8,
        1..16_u8,
    )
        .prop_map(|(length, (tag, key, offset), mut first_be, mut last_be)| {
            if length == 1 {
                last_be = 0;
            } else if length > 2 || offset & 4 != 0 {
                (first_be, last_be) = byte_enables(length, first_be & 3, last_be & 3);
            }
            MemRequest {
                length,
                tag,
                first_be,
                last_be,
                address: wire_address(key, offset & !3),
                ..MemRequest::default()
            }
        })
}

fn completion() -> impl Strategy<Value = Completion> {
    (
        0..=MAX_DATA_DW as u16,
        0..8_u8,
        0..4096_u16,
        any::<u8>(),
        0..128_u8,
    )
        .prop_map(
            |(length, status, byte_count, tag, lower_address)| Completion {
                tc: 0,
                attr: 0,
                ep: false,
                length,
                completer_id: 0,
                status: CompletionStatus::from_bits(status),
                byte_count,
                requester_id: 0,
                tag,
                lower_address,
            },
        )
}

fn tlp() -> impl Strategy<Value = Payload> {
    (
        any::<u8>(),
        option::of(any::<u16>()),
        option::of(any::<u16>()),
        prop_oneof![
            request().prop_map(TlpHeader::MemRead),
            request().prop_map(TlpHeader::MemWrite),
            completion().prop_map(TlpHeader::Completion),
        ],
        any::<u8>(),
    )
        .prop_map(|(epoch, sequence, acknowledgement, header, fill)| {
            let data = (0..4 * header.data_dws()).map(|i| (i as u8).wrapping_add(fill));
            Payload::Tlp(Tlp {
                epoch,
                sequence,
                acknowledgement,
                header,
                data: data.collect(),
            })
        })
}

fn error() -> impl Strategy<Value = Payload> {
    (
        any::<(u8, u8, u8, u32, u16, u64)>(),
        option::of(any::<u16>()),
    )
        .prop_map(
            |((epoch, code, fmt_type, sequence, length, address), acknowledgement)| {
                Payload::Error(ErrorReport {
                    epoch,
                    acknowledgement,
                    code,
                    fmt_type,
                    sequence,
                    length,
                    address,
                })
            },
        )
}

fn control() -> impl Strategy<Value = Payload> {
    prop_oneof![
        (any::<u32>(), 0..0x1000_u16)
            .prop_map(|(expected, interval)| Control::Acknowledgement { expected, interval }),
        (any::<u32>(), 0..0x1000_u16)
            .prop_map(|(expected, interval)| Control::Missing { expected, interval }),
        any::<u16>().prop_map(Control::Void),
    ]
    .prop_map(Payload::Control)
}

fn frame() -> impl Strategy<Value = Frame> {
    (
        any::<([u8; 6], [u8; 6], u32, u32, u16)>(),
        prop_oneof![compact(), tlp(), error(), control()],
    )
        .prop_map(
            |((dst_mac, src_mac, src_ip, dst_ip, src_port), payload)| Frame {
                dst_mac: Mac(dst_mac),
                src_mac: Mac(src_mac),
                src_ip: src_ip.into(),
                dst_ip: dst_ip.into(),
                src_port,
                dst_port: UDP_PORT,
                payload,
            },
        )
}

proptest! {
    #[test]
    fn frames_survive(frame in frame(), tag in 0..4096_u16) {
        let bytes = frame.emit(tag)?;
        prop_assert!(bytes.len() >= 60);
        let parsed = Frame::parse(&bytes)?;
        prop_assert_eq!(&parsed.frame, &frame);
        prop_assert_eq!(parsed.tag, u32::from(tag));
    }

    #[test]
    fn any_flipped_bit_of_the_payload_shows(frame in frame(), tag in 0..4096_u16, at in any::<prop::sample::Index>()) {
        let mut bytes = frame.emit(tag)?;
        let length = usize::from(u16::from_be_bytes([bytes[38], bytes[39]])) - 8;
        let bit = at.index(8 * length);
        bytes[PAYLOAD_OFFSET + bit / 8] ^= 1 << (bit % 8);
        if let Ok(parsed) = Frame::parse(&bytes) {
            prop_assert_ne!(parsed.tag, u32::from(tag));
        }
    }

    #[test]
    fn random_payloads_never_panic(mut bytes in vec(any::<u8>(), 0..400), start in 0..3_u8) {
        // Most random bytes are neither format; help two thirds of them.
        match (start, bytes.len()) {
            (1, 1..) => bytes[0] |= 0xC0,
            (2, 3..) => {
                bytes[..2].copy_from_slice(&[0x4E, 0x4D]);
                bytes[2] &= 0x13;
            }
            _ => {}
        }
        if let Ok(view) = PayloadView::new(&bytes) {
            let _ = (view.tag(), view.request());
            let payload = view.to_payload();
            // What was accepted can be said again, but for bits that receivers ignore.
            prop_assert_eq!(payload.emit(0)?.len(), bytes.len());
        }
        seal_payload(&mut bytes, 0);
    }

    #[test]
    fn random_frames_never_panic(frame in frame(), cut in 0..400_usize, noise in vec((0..400_usize, any::<u8>()), 0..8)) {
        let mut bytes = frame.emit(0)?;
        bytes.truncate(cut);
        for (at, value) in noise {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if bytes.len() >= 34 {
            seal_ip(&mut bytes);
        }
        if let Err(error) = Frame::parse(&bytes) {
            prop_assert!(!error.to_string().is_empty());
            let _ = error.counter();
        }
    }

    #[test]
    fn both_formats_ask_for_the_same(key in 0..4096_u16, offset in 0..1_u32 << 28, trail in 0..4_u8, data in data()) {
        let length = (data.len() / 4) as u16;
        let (first_be, last_be) = byte_enables(length, offset as u8 & 3, trail);
        prop_assume!(first_be != 0);
        prop_assert_eq!(contiguous(length, first_be, last_be), Some((offset as u8 & 3, trail)));
        let compact = Payload::Compact(Compact { sequence: 9, key, offset, trail, data: data.clone(), ..Compact::default() });
        let tlp = Payload::Tlp(Tlp {
            epoch: 0,
            sequence: Some(9),
            acknowledgement: None,
            header: TlpHeader::MemWrite(MemRequest {
                length, first_be, last_be, address: wire_address(key, offset & !3), ..MemRequest::default()
            }),
            data,
        });
        let (compact, tlp) = (compact.emit(1)?, tlp.emit(1)?);
        prop_assert_eq!(PayloadView::new(&compact)?.request(), PayloadView::new(&tlp)?.request());
    }
}

proptest! {
    #[test]
    fn sequence_numbers_are_extended(sequence in any::<u32>(), distance in -32768_i32..=32767) {
        let near = sequence.wrapping_sub(distance as u32);
        prop_assert_eq!(extend_sequence(sequence as u16, near), sequence);
    }

    #[test]
    fn session_ports_survive(port in any::<u16>()) {
        match SessionPort::from_port(port) {
            Some(session) => prop_assert_eq!(session.to_port(), port),
            None => prop_assert!(port < 0xC000),
        }
    }

    /// A frame that is a multiple of 65,536 frames late has the right number in its header and the wrong end code.
    #[test]
    fn a_frame_of_65536_ago_never_passes(
        payload in prop_oneof![compact(), tlp(), Just(Payload::Control(Control::Void(9)))],
        tag in 0..4096_u16,
        high in any::<u16>(),
        ago in 1..=u16::MAX,
    ) {
        let port = 0xC102;
        let end_code = EndCode { port, tag, sequence_high: high.wrapping_sub(ago) };
        let bytes = payload.emit_with(end_code)?;
        let expected = u32::from(tag ^ high);
        prop_assert_ne!(PayloadView::new(&bytes)?.tag_from(port), expected);
        let bytes = payload.emit_with(EndCode { port, tag, sequence_high: high })?;
        prop_assert_eq!(PayloadView::new(&bytes)?.tag_from(port), expected);
    }

    /// The source port of a session's frame is under the end code; others are not.
    #[test]
    fn a_changed_session_port_shows(frame in frame(), session in 0xC000..=u16::MAX, flip in 0..14_u32) {
        let mut frame = frame;
        frame.src_port = session;
        let mut bytes = frame.emit(5)?;
        bytes[34..36].copy_from_slice(&(session ^ 1 << flip).to_be_bytes());
        prop_assert_ne!(Frame::parse(&bytes)?.tag, 5);
        frame.src_port = session & 0x3FFF;
        let mut bytes = frame.emit(5)?;
        bytes[34..36].copy_from_slice(&((session & 0x3FFF) ^ 1 << flip).to_be_bytes());
        prop_assert_eq!(Frame::parse(&bytes)?.tag, 5);
    }

    #[test]
    fn sealed_frames_survive(frame in frame(), tag in 0..4096_u16, packet in 0..=LAST_PACKET) {
        let sealer = Sealer::new([5; 16], [6; 4]);
        let plain = frame.emit(tag)?;
        let mut bytes = plain.clone();
        sealer.seal_frame(&mut bytes, packet)?;
        let inner = usize::from(u16::from_be_bytes([plain[38], plain[39]])) - 8;
        prop_assert_eq!(bytes.len(), (PAYLOAD_OFFSET + inner + 24).max(60));
        let sealed = FrameView::new(&bytes)?.payload()?;
        prop_assert_eq!(packet_number(sealed), Some((false, packet)));
        prop_assert_eq!(PayloadView::new(sealed).expect_err("sealed"), WireError::BadMagic);
        // The receiver's padding is not the sender's business.
        bytes.resize(bytes.len() + 7, 0xEE);
        prop_assert_eq!(sealer.open_frame(&mut bytes)?, packet);
        prop_assert_eq!(bytes, plain);
    }
}

#[test]
fn control_frames_are_where_the_document_has_them() {
    let port = 0xC102;
    let bytes = |control, sequence_high| {
        let bytes = Payload::Control(control).emit_with(EndCode {
            port,
            tag: 0,
            sequence_high,
        });
        bytes.expect("control frames have no limits")
    };
    let check = |bytes: &[u8], high: u16| {
        let end = u16::from_be_bytes([bytes[8], bytes[9]]);
        let covered = [&[0xC1, 0x02], &bytes[..8]].concat();
        assert_eq!(wire::crc16(&covered) ^ high, end);
    };
    let expected = 0x0102_0304;
    let acknowledgement = bytes(
        Control::Acknowledgement {
            expected,
            interval: 0xFABC,
        },
        0,
    );
    assert_eq!(acknowledgement[..8], [0xC4, 0x0A, 0xBC, 1, 2, 3, 4, 0]);
    check(&acknowledgement, 0);
    let missing = bytes(
        Control::Missing {
            expected,
            interval: 0,
        },
        0,
    );
    assert_eq!(missing[..8], [0xC5, 0, 0, 1, 2, 3, 4, 0]);
    let void = bytes(Control::Void(0x0304), 0x0102);
    assert_eq!(void[..8], [0xC6, 3, 4, 0, 0, 0, 0, 0]);
    check(&void, 0x0102);
    assert_eq!(void.len(), 10);
}

fn example() -> Frame {
    Frame {
        dst_mac: Mac([2, 0, 0, 0, 0, 2]),
        src_mac: Mac([2, 0, 0, 0, 0, 1]),
        src_ip: [10, 0, 0, 1].into(),
        dst_ip: [10, 0, 0, 2].into(),
        src_port: UDP_PORT,
        dst_port: UDP_PORT,
        payload: Payload::Compact(Compact {
            sequence: 0x0102,
            acknowledgement: None,
            key: 0x345,
            offset: 0x678_9AB1,
            trail: 2,
            data: vec![0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88],
        }),
    }
}

#[test]
fn an_eight_byte_store_is_a_minimum_frame() {
    let bytes = example().emit(0).expect("valid");
    assert_eq!(bytes.len() + FCS_BYTES, 64);
    assert_eq!(
        bytes[42..58],
        [
            0xC2, 0x01, 0x02, 0x34, 0x56, 0x78, 0x9A, 0xB1, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
            0x77, 0x88
        ]
    );
    // The CRC over a frame and its FCS is a constant; that pins the order of the FCS's bytes.
    let mut whole = bytes.clone();
    whole.extend_from_slice(&fcs(&bytes));
    assert_eq!(fcs(&whole), 0x2144_DF1C_u32.to_le_bytes());
}

/// What a parser that expects no tag finds is the tag that was folded into the end code.
#[test]
fn the_tag_is_in_the_end_code_of_a_payload_on_its_own() {
    const TAG: u16 = 0xA5C;
    let compact = example().payload;
    let error = Payload::Error(ErrorReport {
        epoch: 0,
        acknowledgement: None,
        code: 1,
        fmt_type: 0x60,
        sequence: 0x0102_0304,
        length: 1,
        address: 0,
    });
    for payload in [compact, error] {
        let mut bytes = payload.emit(TAG).expect("valid");
        let found = |bytes: &[u8]| PayloadView::new(bytes).expect("valid").tag_from(UDP_PORT);
        assert_eq!(found(&bytes), u32::from(TAG), "{payload:?}");
        let end = bytes.len() - 1;
        bytes[end] ^= 0xFF;
        seal_payload(&mut bytes, TAG ^ 0xFFF);
        assert_eq!(found(&bytes), u32::from(TAG ^ 0xFFF), "{payload:?}");
    }
}

/// A change to a good frame, and the line of the verdict it must end in.
fn refused(change: impl FnOnce(&mut Vec<u8>)) -> WireError {
    let mut bytes = example().emit(0).expect("valid");
    change(&mut bytes);
    Frame::parse(&bytes).expect_err("must be refused")
}

fn resized(bytes: &mut [u8], payload: u16) {
    bytes[38..40].copy_from_slice(&(payload + 8).to_be_bytes());
    bytes[16..18].copy_from_slice(&(payload + 28).to_be_bytes());
    seal_ip(bytes);
}

#[test]
fn refusals_are_counted_by_the_first_line_that_applies() {
    use NetCounter::{RxBadIpChecksum, RxBadLength, RxBadMagic, RxBadTlp, RxNotIpnuma, RxRunt};
    type Change = fn(&mut Vec<u8>);
    let cases: &[(&str, NetCounter, Change)] = &[
        ("runt", RxRunt, |b| b.truncate(59)),
        ("IPv6", RxNotIpnuma, |b| b[12] = 0x86),
        ("options", RxNotIpnuma, |b| b[14] = 0x46),
        ("more fragments", RxNotIpnuma, |b| b[20] |= 0x20),
        ("fragment offset", RxNotIpnuma, |b| b[21] = 1),
        ("TCP", RxNotIpnuma, |b| b[23] = 6),
        ("port before checksum", RxNotIpnuma, |b| {
            b[37] ^= 1;
            b[24] ^= 1;
        }),
        ("checksum before length", RxBadIpChecksum, |b| b[17] += 1),
        ("UDP length", RxBadLength, |b| b[39] += 1),
        ("longer than the frame", RxBadLength, |b| resized(b, 19)),
        ("shorter than any payload", RxBadLength, |b| resized(b, 9)),
        ("magic", RxBadMagic, |b| b[42] = 0xD0),
        ("control of no meaning", RxBadMagic, |b| b[42] |= 7),
        ("control with A", RxBadMagic, |b| b[42] |= 0xC),
        ("control with data", RxBadLength, |b| b[42] |= 4),
        ("control, too long", RxBadLength, |b| {
            b[42] |= 4;
            resized(b, 12);
        }),
        ("tlp control bits 3:2", RxBadMagic, |b| {
            b[42..45].copy_from_slice(&[0x4E, 0x4D, 4]);
        }),
        ("tlp kind", RxBadMagic, |b| {
            b[42..45].copy_from_slice(&[0x4E, 0x4D, 0x20])
        }),
        ("tlp too short", RxBadLength, |b| {
            b[42..45].copy_from_slice(&[0x4E, 0x4D, 0])
        }),
        ("no data", RxBadLength, |b| resized(b, 10)),
        ("part of a DW", RxBadLength, |b| resized(b, 15)),
        ("no byte enabled", RxBadTlp, |b| {
            b[49] |= 3;
            resized(b, 14);
        }),
        ("A, and no room for it", RxBadLength, |b| b[42] |= 8),
    ];
    for (name, counter, change) in cases {
        let error = refused(change);
        assert_eq!(error.counter(), *counter, "{name}: {error}");
    }
}

#[test]
fn tlp_refusals() {
    let good = Payload::Tlp(Tlp {
        epoch: 0,
        sequence: Some(1),
        acknowledgement: None,
        header: TlpHeader::MemWrite(MemRequest {
            length: 2,
            first_be: 0xF,
            last_be: 0xF,
            address: wire_address(7, 0x40),
            ..MemRequest::default()
        }),
        data: vec![0; 8],
    })
    .emit(0)
    .expect("valid");
    type Change = fn(&mut Vec<u8>);
    let cases: &[(&str, WireError, Change)] = &[
        ("MWr32", WireError::BadTlpType(0x40), |p| p[8] = 0x40),
        ("TD", WireError::BadTlpFlags, |p| p[10] |= 0x80),
        ("EP", WireError::BadTlpFlags, |p| p[10] |= 0x40),
        (
            "bits 63:48",
            WireError::BadTlpAddress(0x0100_0007_0000_0040),
            |p| p[16] = 1,
        ),
        (
            "bits 1:0",
            WireError::BadTlpAddress(0x0007_0000_0042),
            |p| p[23] |= 2,
        ),
        (
            "last byte enables",
            WireError::BadByteEnables {
                first_be: 0xF,
                last_be: 0,
                length: 2,
            },
            |p| p[15] = 0x0F,
        ),
        (
            "byte enables that are not in a row, of two DWs that are not a quadword",
            WireError::BadByteEnables {
                first_be: 0x5,
                last_be: 0xF,
                length: 2,
            },
            |p| (p[15], p[23]) = (0xF5, p[23] | 4),
        ),
        (
            "last byte enables of one DW, before the length",
            WireError::BadByteEnables {
                first_be: 0xF,
                last_be: 0xF,
                length: 1,
            },
            |p| p[11] = 1,
        ),
        ("length 0", WireError::BadPayloadLength(36), |p| p[11] = 0),
        ("length 3", WireError::BadPayloadLength(36), |p| p[11] = 3),
        ("a read with data", WireError::BadPayloadLength(36), |p| {
            p[8] = 0x20
        }),
        (
            "an error report with data",
            WireError::BadPayloadLength(36),
            |p| p[2] = 0x11,
        ),
    ];
    assert!(PayloadView::new(&good).is_ok());
    for (name, error, change) in cases {
        let mut payload = good.clone();
        change(&mut payload);
        let found = PayloadView::new(&payload).expect_err(name);
        assert_eq!(found, *error, "{name}");
    }
}

#[test]
fn a_longer_frame_is_padding() {
    let mut bytes = example().emit(0).expect("valid");
    bytes.resize(80, 0xEE);
    assert_eq!(Frame::parse(&bytes).expect("valid").frame, example());
    let view = FrameView::new(&bytes).expect("long enough");
    assert_eq!(view.payload().expect("valid").len(), 18);
}

#[test]
fn what_cannot_be_written_says_why() {
    let mut frame = example();
    assert_eq!(
        frame.emit(0x1000).expect_err("tag").to_string(),
        "tag 0x1000 does not fit its 12 bits"
    );
    if let Payload::Compact(compact) = &mut frame.payload {
        compact.data.clear();
    }
    assert_eq!(frame.emit(0).expect_err("no data"), EmitError::BadData(0));
    assert_eq!(
        WireError::BadByteEnables {
            first_be: 15,
            last_be: 15,
            length: 1
        }
        .to_string(),
        "byte enables 0xf first, 0xf last do not fit a length of 1 DWs"
    );
}
