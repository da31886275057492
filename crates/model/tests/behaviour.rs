// SPDX-License-Identifier: Apache-2.0
//! The model against the words of `docs/architecture.md` and `docs/wire-format.md`. Frames are
//! made and read back with the codec of the `wire` crate, byte offsets are counted by hand here.

use model::{BAR_PAGES, BAR_REGISTERS, Config, Effect, FrameSource, LineFault, Nic, TlpSource};
use wire::registers as reg;
use wire::{
    Compact, Completion, CompletionStatus, ErrorReport, Frame, Mac, MemRequest, NetCounter,
    PageMapEntry, Payload, PcIdEntry, PcieCounter, RegionEntry, Tlp, TlpHeader,
};

const ME: (u64, u32) = (0x0200_0000_0001, 0x0A00_0001);
const PEER: (u64, u32) = (0x0200_0000_0002, 0x0A00_0002);
const FAR: (u64, u32) = (0x0200_0000_0003, 0x0B00_0003);
const GATEWAY: u64 = 0x0200_0000_00FE;
const TAG: u16 = 0x5A5;
const KEY: u16 = 7;
const BASE: u64 = 0x12_3456_0000;
const FIRST: u32 = 0x100;
const LAST: u32 = 0x2FFF;
const COMPLETER: u16 = 0x0300;
const CPU: u16 = 0x0010;
const COMPLETION: Completion = Completion {
    tc: 0,
    attr: 0,
    ep: false,
    length: 0,
    completer_id: 0,
    status: CompletionStatus::Successful,
    byte_count: 0,
    requester_id: 0,
    tag: 0,
    lower_address: 0,
};

fn request(address: u64, length: u16, first_be: u8, last_be: u8) -> MemRequest {
    MemRequest {
        length,
        requester_id: CPU,
        tag: 0x42,
        first_be,
        last_be,
        address,
        ..MemRequest::default()
    }
}

fn emit(header: TlpHeader, data: &[u8]) -> Vec<u8> {
    header.emit(data).expect("the test's TLP is well formed")
}

fn store(address: u64, data: &[u8]) -> Vec<u8> {
    let length = (data.len() / 4) as u16;
    let last_be = if length == 1 { 0 } else { 0xF };
    emit(
        TlpHeader::MemWrite(request(address, length, 0xF, last_be)),
        data,
    )
}

fn load(address: u64, length: u16) -> Vec<u8> {
    let last_be = if length == 1 { 0 } else { 0xF };
    emit(
        TlpHeader::MemRead(request(address, length, 0xF, last_be)),
        &[],
    )
}

fn write_register(nic: &mut Nic, offset: u32, value: u32) {
    let mut effects = Vec::new();
    let tlp = store(u64::from(offset), &value.to_le_bytes());
    nic.tlp_from_root(&tlp, BAR_REGISTERS, &mut effects);
    assert_eq!(effects, []);
}

fn write_entry(nic: &mut Nic, base: u32, index: u32, dws: &[u32]) {
    for (dw, value) in (0..).zip(dws) {
        write_register(nic, base + 4 * (index * dws.len() as u32 + dw), *value);
    }
}

fn region() -> RegionEntry {
    RegionEntry {
        read: true,
        write: true,
        valid: true,
        tag: TAG,
        mask: 0xFFFF_FF00,
        ip: PEER.1,
        first: FIRST,
        last: LAST,
        base: BASE,
        ..RegionEntry::default()
    }
}

/// Page 0 goes to the peer in `compact`, page 1 to the far peer in `tlp`, others nowhere.
fn nic() -> Nic {
    let mut nic = Nic::new(Config {
        pages: 1024,
        completer_id: COMPLETER,
        ..Config::default()
    });
    for (offset, value) in [
        (reg::REG_MAC_LO, ME.0 as u32),
        (reg::REG_MAC_HI, (ME.0 >> 32) as u32),
        (reg::REG_IP, ME.1),
        (reg::REG_NETMASK, 0xFF00_0000),
        (reg::REG_GATEWAY_MAC_LO, GATEWAY as u32),
        (reg::REG_GATEWAY_MAC_HI, (GATEWAY >> 32) as u32),
        (reg::REG_EPOCH, 9),
    ] {
        write_register(&mut nic, offset, value);
    }
    for (id, peer, compact) in [(1, PEER, true), (2, FAR, false)] {
        let entry = PcIdEntry {
            compact,
            valid: true,
            source_port: 5000 + id as u16,
            mac: peer.0,
            ip: peer.1,
            ..PcIdEntry::default()
        };
        write_entry(&mut nic, reg::PC_ID_BASE, id, &entry.to_dws());
        let page = PageMapEntry::new(id as u16, KEY, 0x3000, TAG);
        write_entry(&mut nic, reg::PAGE_MAP_BASE, id - 1, &page.to_dws());
    }
    write_entry(&mut nic, reg::REGION_BASE, KEY.into(), &region().to_dws());
    nic
}

fn to_nic(nic: &mut Nic, tlp: &[u8]) -> Vec<Effect> {
    let mut effects = Vec::new();
    nic.tlp_from_root(tlp, BAR_PAGES, &mut effects);
    effects
}

fn only_frame(effects: &[Effect], expected: FrameSource) -> Frame {
    let [Effect::Frame(source, bytes)] = effects else {
        panic!("one frame was expected, not {effects:?}")
    };
    assert_eq!(*source, expected);
    parse(bytes)
}

fn parse(bytes: &[u8]) -> Frame {
    let parsed = Frame::parse(bytes).expect("the model's frames are well formed");
    parsed.frame
}

fn only_tlp(effects: &[Effect], expected: TlpSource) -> (TlpHeader, Vec<u8>) {
    let [Effect::Tlp(source, bytes)] = effects else {
        panic!("one TLP was expected, not {effects:?}")
    };
    assert_eq!(*source, expected);
    let view = wire::TlpView::new(bytes).expect("the model's TLPs are well formed");
    let header = view.header().expect("a known type");
    (header, view.data().to_vec())
}

fn with_fcs(mut frame: Vec<u8>) -> Vec<u8> {
    let fcs = wire::fcs(&frame);
    frame.extend_from_slice(&fcs);
    frame
}

fn frame_with(payload: Payload) -> Frame {
    Frame {
        dst_mac: Mac::from_u64(ME.0),
        src_mac: Mac::from_u64(PEER.0),
        src_ip: PEER.1.into(),
        dst_ip: ME.1.into(),
        src_port: 4321,
        dst_port: wire::UDP_PORT,
        payload,
    }
}

fn compact_store(offset: u32, data: Vec<u8>) -> Vec<u8> {
    let payload = Payload::Compact(Compact {
        sequence: 77,
        acknowledgement: None,
        key: KEY,
        offset,
        trail: 0,
        data,
    });
    frame_with(payload).emit(TAG).expect("a sound frame")
}

fn tlp_frame(header: TlpHeader, data: Vec<u8>, tag: u16) -> Vec<u8> {
    let payload = Payload::Tlp(Tlp {
        epoch: 3,
        sequence: None,
        acknowledgement: None,
        header,
        data,
    });
    frame_with(payload).emit(tag).expect("a sound frame")
}

fn remote_load(offset: u32, length: u16) -> Vec<u8> {
    let address = wire::wire_address(KEY, offset);
    let last_be = if length == 1 { 0 } else { 0xF };
    let mut read = request(address, length, 0xF, last_be);
    (read.requester_id, read.tag) = (0, 0x23);
    tlp_frame(TlpHeader::MemRead(read), Vec::new(), TAG)
}

fn receive(nic: &mut Nic, frame: Vec<u8>) -> (NetCounter, Vec<Effect>) {
    let mut effects = Vec::new();
    let counter = nic.frame_from_wire(&with_fcs(frame), LineFault::None, &mut effects);
    assert_eq!(nic.counters().net(counter), 1);
    assert_eq!(nic.counters().net(NetCounter::RxFrames), 1);
    (counter, effects)
}

fn reseal(frame: &mut [u8], tag: u16) {
    let udp = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
    wire::seal_payload(&mut frame[42..34 + udp], tag);
    wire::seal_ip(frame);
}

#[test]
fn a_store_becomes_a_compact_frame() {
    let mut nic = nic();
    for sequence in 0..3 {
        let frame = only_frame(
            &to_nic(&mut nic, &store(0x8, &[1, 2, 3, 4, 5, 6, 7, 8])),
            FrameSource::Requester,
        );
        assert_eq!(frame.dst_mac.to_u64(), PEER.0);
        assert_eq!(u32::from(frame.dst_ip), PEER.1);
        assert_eq!((frame.src_port, frame.dst_port), (5001, 3422));
        let Payload::Compact(compact) = frame.payload else {
            panic!("page 0 is compact")
        };
        assert_eq!((compact.key, compact.offset), (KEY, 0x3008));
        assert_eq!((compact.sequence, compact.trail), (sequence, 0));
        assert_eq!(compact.data, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
    assert_eq!(nic.counters().pcie(PcieCounter::TlpStore), 3);
    assert_eq!(nic.counters().net(NetCounter::TxStore), 3);
}

#[test]
fn byte_enables_choose_the_format() {
    let mut nic = nic();
    for (length, first_be, last_be, compact) in [
        (1, 0b0110, 0, true),
        (1, 0b0101, 0, false),
        (1, 0, 0, false),
        (2, 0b1100, 0b0111, true),
        (2, 0b0110, 0b0001, false),
        (2, 0b1000, 0b0010, false),
    ] {
        let header = TlpHeader::MemWrite(request(0x10, length, first_be, last_be));
        let tlp = emit(header, &vec![0xAB; 4 * usize::from(length)]);
        let frame = only_frame(&to_nic(&mut nic, &tlp), FrameSource::Requester);
        match frame.payload {
            Payload::Compact(payload) => {
                assert!(compact, "{first_be:04b} {last_be:04b} is not contiguous");
                let lead = first_be.trailing_zeros();
                assert_eq!(payload.offset, 0x3010 + lead);
                let end = if length == 1 { first_be } else { last_be };
                assert_eq!(u32::from(payload.trail), (end << 4).leading_zeros());
            }
            Payload::Tlp(payload) => {
                assert!(!compact, "{first_be:04b} {last_be:04b} is contiguous");
                assert_eq!(payload.epoch, 9);
                let TlpHeader::MemWrite(write) = payload.header else {
                    panic!("a store stays a store")
                };
                assert_eq!((write.first_be, write.last_be), (first_be, last_be));
            }
            _ => panic!("a store is neither report nor control"),
        }
    }
}

#[test]
fn another_subnet_is_reached_through_the_gateway() {
    let mut nic = nic();
    let frame = only_frame(
        &to_nic(&mut nic, &store(0x1000, &[0; 4])),
        FrameSource::Requester,
    );
    assert_eq!(frame.dst_mac.to_u64(), GATEWAY);
    assert_eq!(u32::from(frame.dst_ip), FAR.1);
    assert!(matches!(frame.payload, Payload::Tlp(_)));
}

#[test]
fn a_load_goes_out_and_its_completion_comes_back() {
    let mut nic = nic();
    let frame = only_frame(&to_nic(&mut nic, &load(0x24, 2)), FrameSource::Requester);
    let Payload::Tlp(payload) = frame.payload else {
        panic!("loads have no compact form")
    };
    let TlpHeader::MemRead(read) = payload.header else {
        panic!("a load stays a load")
    };
    assert_eq!(read.address, wire::wire_address(KEY, 0x3024));
    assert_eq!((read.tag, read.length, payload.sequence), (0, 2, Some(0)));

    let answer = TlpHeader::Completion(Completion {
        length: 2,
        status: CompletionStatus::Successful,
        byte_count: 8,
        tag: 0,
        lower_address: 0x24,
        ..COMPLETION
    });
    let data = vec![1, 2, 3, 4, 5, 6, 7, 8];
    let mut stranger = tlp_frame(answer, data.clone(), 0);
    stranger[29] ^= 1;
    reseal(&mut stranger, 0);
    let mut effects = Vec::new();
    nic.frame_from_wire(&with_fcs(stranger), LineFault::None, &mut effects);
    assert_eq!(effects, [], "only the load's peer may answer");

    let frame = with_fcs(tlp_frame(answer, data.clone(), 0));
    nic.frame_from_wire(&frame, LineFault::None, &mut effects);
    let (TlpHeader::Completion(completion), passed) = only_tlp(&effects, TlpSource::Server) else {
        panic!("a completion stays one")
    };
    assert_eq!((completion.requester_id, completion.tag), (CPU, 0x42));
    assert_eq!(completion.completer_id, COMPLETER);
    assert_eq!(passed, data);
    nic.frame_from_wire(&frame, LineFault::None, &mut effects);
    assert_eq!(
        effects.len(),
        1,
        "a second answer to the same load is passed on"
    );
    let counters = nic.counters();
    assert_eq!(counters.pcie(PcieCounter::LoadCompleted), 1);
    assert_eq!(counters.pcie(PcieCounter::LoadCompletionUnexpected), 2);
    assert_eq!(counters.net(NetCounter::RxCompletion), 3);
}

#[test]
fn a_load_that_failed_ends_with_its_failure_alone() {
    use CompletionStatus as S;
    for (status, told) in [
        (S::UnsupportedRequest, S::UnsupportedRequest),
        (S::CompleterAbort, S::CompleterAbort),
        (S::ConfigurationRetry, S::CompleterAbort),
    ] {
        let mut nic = nic();
        only_frame(&to_nic(&mut nic, &load(0x24, 1)), FrameSource::Requester);
        let mut answer = |status, data: &[u8]| {
            let completion = TlpHeader::Completion(Completion {
                length: (data.len() / 4) as u16,
                status,
                byte_count: 4,
                lower_address: 0x24,
                ..COMPLETION
            });
            let mut effects = Vec::new();
            let frame = with_fcs(tlp_frame(completion, data.to_vec(), 0));
            let counter = nic.frame_from_wire(&frame, LineFault::None, &mut effects);
            assert_eq!(counter, NetCounter::RxCompletion);
            effects
        };
        // A success brings data, and a failure none: what is neither leaves the load to its answer.
        assert_eq!(answer(S::Successful, &[]), []);
        assert_eq!(answer(status, &[1, 2, 3, 4]), []);
        let effects = answer(status, &[]);
        let (TlpHeader::Completion(completion), data) = only_tlp(&effects, TlpSource::Server)
        else {
            panic!("a completion stays one")
        };
        assert_eq!((completion.requester_id, completion.tag), (CPU, 0x42));
        assert_eq!((completion.status, data), (told, Vec::new()));
        assert_eq!(answer(status, &[]), [], "the load has ended");
        let counters = nic.counters();
        assert_eq!(counters.pcie(PcieCounter::LoadCompleted), 1);
        assert_eq!(counters.pcie(PcieCounter::LoadCompletionUnexpected), 3);
    }
}

#[test]
fn loads_end_with_ca_when_tags_or_time_run_out() {
    let mut nic = nic();
    for _ in 0..32 {
        assert!(matches!(
            to_nic(&mut nic, &load(0, 1))[..],
            [Effect::Frame(..)]
        ));
    }
    let refused = to_nic(&mut nic, &load(0x44, 1));
    let (TlpHeader::Completion(completion), _) = only_tlp(&refused, TlpSource::Refusal) else {
        panic!("a refused load is completed")
    };
    assert_eq!(completion.status, CompletionStatus::CompleterAbort);
    assert_eq!((completion.byte_count, completion.lower_address), (4, 0x44));
    assert_eq!(nic.counters().pcie(PcieCounter::LoadNoTag), 1);

    let mut effects = Vec::new();
    nic.tick(reg::READ_TIMEOUT_US_RESET - 1, &mut effects);
    assert_eq!(effects, []);
    nic.tick(reg::READ_TIMEOUT_US_RESET, &mut effects);
    assert_eq!(effects.len(), 32);
    assert_eq!(nic.counters().pcie(PcieCounter::LoadTimeout), 32);
    let frame = only_frame(&to_nic(&mut nic, &load(0, 1)), FrameSource::Requester);
    let Payload::Tlp(payload) = frame.payload else {
        panic!("loads have no compact form")
    };
    let TlpHeader::MemRead(read) = payload.header else {
        panic!("a load stays a load")
    };
    assert_eq!(read.tag, 1 << 5, "index 0, generation 1");
}

#[test]
fn tlps_that_are_not_sent_end_in_their_counters() {
    use PcieCounter as C;
    let unmapped = 0x2000;
    let beyond = 1024 << 12;
    let mut poisoned = load(0, 1);
    poisoned[2] |= 0x40;
    let mut digest = store(0, &[0; 4]);
    digest[2] |= 0x80;
    let malformed = digest;
    let mut message = store(0, &[0; 4]);
    message[0] = 0x74;
    message.extend_from_slice(&[0; 4]);
    let cases: &[(&[u8], u8, C, Option<CompletionStatus>)] = {
        use CompletionStatus::UnsupportedRequest as UR;
        &[
            (&store(unmapped, &[0; 4]), 2, C::TlpStoreUnmapped, None),
            (&load(unmapped, 1), 2, C::TlpLoadUnmapped, Some(UR)),
            (&store(beyond, &[0; 4]), 2, C::TlpPageBeyond, None),
            (&load(beyond, 1), 2, C::TlpPageBeyond, Some(UR)),
            (&store(0, &[0; 260]), 2, C::TlpUnsupported, None),
            (&load(0xFFC, 2), 2, C::TlpUnsupported, Some(UR)),
            (&load(0, 3), 0, C::TlpUnsupported, Some(UR)),
            (&load(0, 1), 7, C::TlpUnsupported, Some(UR)),
            (&message, 7, C::TlpUnsupported, None),
            (&malformed, 2, C::TlpMalformed, None),
            (&poisoned, 2, C::TlpPoisoned, Some(UR)),
        ]
    };
    for (tlp, bar, counter, status) in cases {
        let mut nic = nic();
        let mut effects = Vec::new();
        nic.tlp_from_root(tlp, *bar, &mut effects);
        assert_eq!(nic.counters().pcie(*counter), 1, "{counter:?}");
        match status {
            None => assert_eq!(effects, [], "{counter:?}"),
            Some(status) => {
                let (TlpHeader::Completion(completion), _) = only_tlp(&effects, TlpSource::Refusal)
                else {
                    panic!("{counter:?} is completed")
                };
                assert_eq!(completion.status, *status, "{counter:?}");
            }
        }
    }
}

#[test]
fn every_request_that_wants_an_answer_gets_one() {
    // fmt/type, DWs; fmt/type of the completion, byte count, lower address
    let cases = [
        (0x01, 2, 0x0A | 1, 8, 0x44),
        (0x21, 1, 0x0A | 1, 4, 0x44),
        (0x02, 1, 0x0A, 4, 0),
        (0x42, 1, 0x0A, 4, 0),
        (0x04, 1, 0x0A, 4, 0),
        (0x45, 1, 0x0A, 4, 0),
        (0x4C, 2, 0x0A, 8, 0),
        (0x6D, 1, 0x0A, 4, 0),
        (0x6E, 4, 0x0A, 8, 0),
    ];
    for (fmt_type, length, kind, byte_count, lower_address) in cases {
        let mut tlp = vec![fmt_type, 5 << 4, 0x30, length, 0x12, 0x34, 0x56, 0x0F];
        if length > 1 {
            tlp[7] = 0xFF;
        }
        if fmt_type & 0x20 != 0 {
            tlp.extend_from_slice(&[0; 4]);
        }
        tlp.extend_from_slice(&[0, 0, 0, 0x44]);
        if fmt_type & 0x40 != 0 {
            tlp.extend_from_slice(&vec![0; 4 * usize::from(length)]);
        }
        let [Effect::Tlp(TlpSource::Refusal, answer)] = &to_nic(&mut nic(), &tlp)[..] else {
            panic!("{fmt_type:#04x} is completed")
        };
        let [high, low] = COMPLETER.to_be_bytes();
        let expected = [
            [kind, 5 << 4, 0x30, 0],
            [high, low, 1 << 5, byte_count],
            [0x12, 0x34, 0x56, lower_address],
        ];
        assert_eq!(answer[..], expected.concat(), "{fmt_type:#04x}");
    }
    // A locked write does not exist, and nobody waits for an answer to it.
    let mut tlp = store(0, &[0; 4]);
    tlp[0] |= 1;
    assert_eq!(to_nic(&mut nic(), &tlp), []);
}

#[test]
fn a_digest_is_no_data() {
    let mut nic = nic();
    let plain = store(0, &[1, 2, 3, 4]);
    let mut digest = plain.clone();
    digest[2] |= 0x80;
    digest.extend_from_slice(b"DIGE");
    let (with, without) = (to_nic(&mut nic, &digest), to_nic(&mut self::nic(), &plain));
    assert_eq!(with, without);
    let mut read = load(reg::REG_ID.into(), 1);
    read[2] |= 0x90;
    read.extend_from_slice(b"DIGE");
    let mut effects = Vec::new();
    nic.tlp_from_root(&read, BAR_REGISTERS, &mut effects);
    let (TlpHeader::Completion(completion), data) = only_tlp(&effects, TlpSource::Registers) else {
        panic!("a register is read")
    };
    assert_eq!(
        (completion.attr, data),
        (1, reg::ID_VALUE.to_le_bytes().to_vec())
    );
}

#[test]
fn registers_refuse_what_is_not_theirs() {
    let mut nic = nic();
    let mut effects = Vec::new();
    let two = emit(
        TlpHeader::MemWrite(request(reg::REG_IP.into(), 2, 0xF, 0x3)),
        &[1, 0, 0, 0, 2, 0, 0, 0],
    );
    nic.tlp_from_root(&two, BAR_REGISTERS, &mut effects);
    nic.tlp_from_root(&load(reg::REG_IP.into(), 2), BAR_REGISTERS, &mut effects);
    nic.tlp_from_root(
        &load(reg::REG_VERSION.into(), 1),
        BAR_REGISTERS,
        &mut effects,
    );
    nic.tlp_from_root(&load(0xFFC, 1), BAR_REGISTERS, &mut effects);
    write_register(&mut nic, reg::REG_ID, 0);
    let data: Vec<&[u8]> = effects
        .iter()
        .map(|effect| match effect {
            Effect::Tlp(TlpSource::Registers, bytes) => &bytes[12..],
            other => panic!("registers do not send {other:?}"),
        })
        .collect();
    let ip_and_mask = [1, 0, 0, 0, 0, 0, 0, 0xFF];
    let expected: [&[u8]; 3] = [&ip_and_mask, &[0, 0, 2, 0], &[0; 4]];
    assert_eq!(data, expected);
    assert_eq!(nic.counters().pcie(PcieCounter::RegisterRefused), 3);
}

#[test]
fn a_permitted_store_is_written() {
    let mut nic = nic();
    let (counter, effects) = receive(&mut nic, compact_store(FIRST + 2, vec![1; 8]));
    assert_eq!(counter, NetCounter::RxStore);
    let (TlpHeader::MemWrite(write), data) = only_tlp(&effects, TlpSource::Server) else {
        panic!("a store is written")
    };
    assert_eq!(write.address, BASE + u64::from(FIRST));
    assert_eq!((write.first_be, write.last_be), (0b1100, 0b1111));
    assert_eq!((write.requester_id, write.tag), (COMPLETER, 0));
    assert_eq!(data, [1; 8]);
}

#[test]
fn a_permitted_load_is_read_and_answered() {
    let mut nic = nic();
    let (counter, effects) = receive(&mut nic, remote_load(0x2FC0, 16));
    assert_eq!(counter, NetCounter::RxLoad);
    let (TlpHeader::MemRead(read), _) = only_tlp(&effects, TlpSource::Server) else {
        panic!("a load is read")
    };
    assert_eq!((read.address, read.length), (BASE + 0x2FC0, 16));
    for (byte_count, lower_address, dws, outstanding) in [(64, 0x40, 12, 1), (16, 0x70, 4, 0)] {
        let part = emit(
            TlpHeader::Completion(Completion {
                length: dws,
                byte_count,
                tag: read.tag,
                lower_address,
                requester_id: COMPLETER,
                ..COMPLETION
            }),
            &vec![byte_count as u8; 4 * usize::from(dws)],
        );
        let frame = only_frame(&to_nic(&mut nic, &part), FrameSource::Completions);
        assert_eq!(frame.dst_mac.to_u64(), PEER.0);
        let Payload::Tlp(payload) = frame.payload else {
            panic!("completions have no compact form")
        };
        let TlpHeader::Completion(completion) = payload.header else {
            panic!("a completion stays one")
        };
        assert_eq!(completion.tag, 0x23);
        assert_eq!(completion.byte_count, byte_count);
        assert_eq!(completion.lower_address, lower_address);
        assert_eq!((completion.completer_id, payload.sequence), (0, None));
        assert_eq!(payload.data.len(), 4 * usize::from(dws));
        assert_eq!(nic.outstanding_reads().count(), outstanding);
    }
}

#[test]
fn loads_wait_for_a_dma_tag_and_hold_what_follows() {
    let mut nic = nic();
    let mut effects = Vec::new();
    for _ in 0..10 {
        let frame = with_fcs(remote_load(FIRST, 1));
        nic.frame_from_wire(&frame, LineFault::None, &mut effects);
    }
    let frame = with_fcs(compact_store(FIRST, vec![1; 4]));
    let counter = nic.frame_from_wire(&frame, LineFault::None, &mut effects);
    assert_eq!(counter, NetCounter::RxStore);
    assert_eq!((effects.len(), nic.waiting()), (8, 3));
    for _ in 0..29 {
        nic.frame_from_wire(&frame, LineFault::None, &mut effects);
    }
    let counter = nic.frame_from_wire(&frame, LineFault::None, &mut effects);
    assert_eq!(counter, NetCounter::RxOverflow);
    effects.clear();
    let abort = |tag| {
        emit(
            TlpHeader::Completion(Completion {
                status: CompletionStatus::CompleterAbort,
                tag,
                ..COMPLETION
            }),
            &[],
        )
    };
    nic.tlp_from_root(&abort(5), 7, &mut effects);
    nic.tlp_from_root(&abort(5), 7, &mut effects);
    assert_eq!(nic.counters().pcie(PcieCounter::TlpCompletionUnexpected), 1);
    let [
        Effect::Frame(FrameSource::Completions, _),
        Effect::Tlp(_, read),
    ] = &effects[..]
    else {
        panic!("one answer and the next read were expected, not {effects:?}")
    };
    assert_eq!(read[6], 5 | 1 << 3, "index 5, generation 1");
    nic.tlp_from_root(&abort(0), 7, &mut effects);
    assert_eq!(nic.waiting(), 0, "the stores follow the last load at once");
    effects.clear();
    nic.tick(1000, &mut effects);
    assert_eq!(effects.len(), 8);
    assert_eq!(nic.counters().pcie(PcieCounter::DmaReadTimeout), 8);
}

#[test]
fn a_refused_load_gets_zeros_and_a_report() {
    let mut nic = nic();
    let (counter, effects) = receive(&mut nic, remote_load(0xFC, 3));
    assert_eq!(counter, NetCounter::RxBadBounds);
    let [
        Effect::Frame(FrameSource::Refusals, zeros),
        Effect::Frame(_, report),
    ] = &effects[..]
    else {
        panic!("two frames were expected, not {effects:?}")
    };
    let Payload::Tlp(zeros) = parse(zeros).payload else {
        panic!("zeros come as a completion")
    };
    let TlpHeader::Completion(completion) = zeros.header else {
        panic!("zeros come as a completion")
    };
    assert_eq!((completion.tag, completion.byte_count), (0x23, 12));
    assert_eq!(completion.lower_address, 0x7C);
    assert_eq!(zeros.data, [0; 12]);
    assert_eq!(
        parse(report).payload,
        Payload::Error(ErrorReport {
            epoch: 9,
            acknowledgement: None,
            code: wire::ERR_BAD_BOUNDS,
            fmt_type: wire::FMT_MRD64,
            sequence: 0,
            length: 3,
            address: wire::wire_address(KEY, 0xFC),
        })
    );
}

#[test]
fn an_error_report_is_shown_in_the_registers() {
    let mut nic = nic();
    let payload = Payload::Error(ErrorReport {
        epoch: 1,
        acknowledgement: None,
        code: wire::ERR_BAD_KEY,
        fmt_type: wire::FMT_MWR64,
        sequence: 0x1234,
        length: 1,
        address: 0x0005_0000_1000,
    });
    let frame = frame_with(payload).emit(0).expect("a sound frame");
    let (counter, effects) = receive(&mut nic, frame);
    assert_eq!((counter, effects), (NetCounter::RxErrorReport, vec![]));
    let registers = nic.registers();
    assert_eq!(registers.read(reg::REG_LAST_ERROR), Some(0x1234_6001));
    assert_eq!(registers.read(reg::REG_LAST_ERROR_ADDR_LO), Some(0x1000));
    assert_eq!(registers.read(reg::REG_LAST_ERROR_ADDR_HI), Some(5));
    assert_eq!(registers.read(reg::REG_LAST_ERROR_IP), Some(PEER.1));
}

#[test]
fn arp_requests_for_the_own_address_are_answered() {
    let mut nic = nic();
    let mut request = vec![0xFF; 6];
    request.extend_from_slice(&PEER.0.to_be_bytes()[2..]);
    request.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend_from_slice(&PEER.0.to_be_bytes()[2..]);
    request.extend_from_slice(&PEER.1.to_be_bytes());
    request.extend_from_slice(&[0; 6]);
    request.extend_from_slice(&ME.1.to_be_bytes());
    request.resize(60, 0);
    let (counter, effects) = receive(&mut nic, request);
    assert_eq!(counter, NetCounter::RxArp);
    let [Effect::Frame(FrameSource::Arp, reply)] = &effects[..] else {
        panic!("one reply was expected, not {effects:?}")
    };
    assert_eq!(reply[..6], PEER.0.to_be_bytes()[2..]);
    assert_eq!(reply[20..28], [&[0, 2], &ME.0.to_be_bytes()[2..]].concat());
    assert_eq!(reply[28..32], ME.1.to_be_bytes());
    assert_eq!(reply[38..42], PEER.1.to_be_bytes());
    assert_eq!(reply.len(), 60);
}

/// Each line of the verdict table, with as many later faults in the same frame as fit, so that
/// the order counts too.
#[test]
fn every_line_of_the_verdict_table() {
    use NetCounter as C;
    let store = || compact_store(FIRST, vec![1; 8]);
    let write = |offset, data: usize| {
        let address = wire::wire_address(KEY, offset);
        let last_be = if data == 1 { 0 } else { 0xF };
        let mut request = request(address, data as u16, 0xF, last_be);
        (request.requester_id, request.tag) = (0, 0);
        tlp_frame(TlpHeader::MemWrite(request), vec![1; 4 * data], TAG)
    };
    type Change = fn(&mut Vec<u8>);
    fn sealed(frame: &mut [u8]) {
        reseal(frame, TAG);
    }
    let cases: &[(&str, C, Vec<u8>, Change)] = &[
        ("own MAC", C::RxNotMine, store(), |f| (f[5], f[23]) = (9, 6)),
        ("type", C::RxNotIpnuma, store(), |f| (f[13], f[25]) = (1, 0)),
        ("broadcast", C::RxNotIpnuma, store(), |f| f[..6].fill(0xFF)),
        ("options", C::RxNotIpnuma, store(), |f| f[14] = 0x46),
        ("more fragments", C::RxNotIpnuma, store(), |f| f[20] |= 0x20),
        ("fragment", C::RxNotIpnuma, store(), |f| f[21] = 1),
        ("TCP", C::RxNotIpnuma, store(), |f| f[23] = 6),
        ("own IP", C::RxNotIpnuma, store(), |f| f[33] = 9),
        ("port", C::RxNotIpnuma, store(), |f| f[37] ^= 1),
        ("checksum", C::RxBadIpChecksum, store(), |f| {
            (f[25], f[39]) = (f[25] ^ 1, 0);
        }),
        ("UDP length", C::RxBadLength, store(), |f| {
            (f[39], f[42]) = (f[39] ^ 4, 0)
        }),
        ("too short", C::RxBadLength, write(FIRST, 12), |f| {
            f.truncate(f.len() - 1);
            f[42] = 0;
        }),
        ("magic", C::RxBadMagic, store(), |f| f[42] = 0xD0),
        ("control of no meaning", C::RxBadMagic, store(), |f| {
            f[42] |= 7
        }),
        ("control with A", C::RxBadMagic, store(), |f| f[42] = 0xCC),
        ("control with data", C::RxBadLength, store(), |f| f[42] |= 4),
        ("tlp magic", C::RxBadMagic, write(FIRST, 1), |f| f[43] ^= 1),
        ("kind", C::RxBadMagic, write(FIRST, 1), |f| f[44] |= 0x20),
        ("control", C::RxBadMagic, write(FIRST, 1), |f| f[44] |= 4),
        ("short tlp", C::RxBadLength, store(), |f| {
            f[42..45].copy_from_slice(&[0x4E, 0x4D, 0]);
        }),
        ("type", C::RxBadTlp, write(FIRST, 1), |f| f[50] = 0x40),
        ("TD", C::RxBadTlp, write(FIRST, 1), |f| f[52] |= 0x80),
        ("EP", C::RxBadTlp, write(FIRST, 1), |f| f[52] |= 0x40),
        ("last BE", C::RxBadTlp, write(FIRST, 1), |f| f[57] |= 0x10),
        ("first BE", C::RxBadTlp, write(FIRST, 2), |f| f[57] &= 0xF0),
        ("high address", C::RxBadTlp, write(FIRST, 1), |f| f[59] = 1),
        ("low address", C::RxBadTlp, write(FIRST, 1), |f| f[65] |= 2),
        ("length", C::RxBadLength, write(FIRST, 2), |f| f[53] = 3),
        ("no length", C::RxBadLength, write(FIRST, 2), |f| f[53] = 0),
        ("data in a read", C::RxBadLength, write(FIRST, 2), |f| {
            f[50] = 0x20
        }),
        ("compact acknowledged", C::RxBadLength, store(), |f| {
            f[42] |= 8
        }),
        ("no key", C::RxBadKey, store(), |f| {
            (f[45], f[59]) = (1, f[59] ^ 1)
        }),
        ("invalid key", C::RxBadKey, store(), |f| f[46] = 0x60),
        ("no key in tlp", C::RxBadKey, write(FIRST, 1), |f| {
            f[61] ^= 0x60;
            reseal(f, 0xABC);
        }),
        ("spoilt key in tlp", C::RxBadEndCode, write(FIRST, 1), |f| {
            f[61] ^= 0x60;
        }),
        ("end code", C::RxBadEndCode, store(), |f| {
            let source = f[28];
            f[28] = source ^ 1;
            wire::seal_ip(f);
            f[59] ^= 1;
        }),
        ("tag", C::RxBadEndCode, write(FIRST, 1), |f| {
            reseal(f, TAG ^ 1)
        }),
        (
            "source",
            C::RxBadSource,
            compact_store(0, vec![1; 4]),
            |f| {
                f[28] ^= 1;
                sealed(f);
            },
        ),
        ("first", C::RxBadBounds, store(), |f| {
            f[49] = 0xFC;
            f[48] = 0;
            sealed(f);
        }),
        ("page", C::RxBadBounds, write(0x0FFC, 2), |_| ()),
        ("last", C::RxBadBounds, write(0x2FFC, 2), |_| ()),
        ("right", C::RxStore, write(0x2FF8, 2), |_| ()),
        ("padding", C::RxStore, store(), |f| f.resize(100, 0xEE)),
    ];
    for (name, counter, frame, change) in cases {
        let mut frame = frame.clone();
        change(&mut frame);
        let mut nic = nic();
        let (found, effects) = receive(&mut nic, frame);
        assert_eq!(found, *counter, "{name}");
        let expected = match counter {
            C::RxStore | C::RxBadKey | C::RxBadSource | C::RxBadBounds => 1,
            _ => 0,
        };
        assert_eq!(effects.len(), expected, "{name}: {effects:?}");
    }
    let mut nic = nic();
    let mut read_only = region();
    read_only.write = false;
    write_entry(&mut nic, reg::REGION_BASE, KEY.into(), &read_only.to_dws());
    assert_eq!(receive(&mut nic, store()).0, C::RxBadRights);
}

#[test]
fn the_mac_judges_first() {
    use NetCounter as C;
    let good = with_fcs(compact_store(FIRST, vec![1; 8]));
    let mut bad = good.clone();
    bad[60] ^= 1;
    let giant = with_fcs(vec![0; 1515]);
    let cases: &[(C, &[u8], LineFault)] = &[
        (C::RxStore, &good, LineFault::None),
        (C::RxBadFcs, &bad, LineFault::None),
        (C::RxRunt, &good[..63], LineFault::None),
        (C::RxGiant, &giant, LineFault::None),
        (C::RxPhyError, &good, LineFault::Error),
        (C::RxBadPreamble, &good, LineFault::BadPreamble),
    ];
    for (counter, frame, fault) in cases {
        let mut effects = Vec::new();
        let found = nic().frame_from_wire(frame, *fault, &mut effects);
        assert_eq!(found, *counter);
        assert_eq!(effects.len(), usize::from(*counter == C::RxStore));
    }
}
