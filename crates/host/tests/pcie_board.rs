// SPDX-License-Identifier: Apache-2.0
//! The board's software against the reference model of the NIC: two boards, joined by a cable that may lose frames.

#[path = "pcie/machine.rs"]
mod machine;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::backend::pcie::{Board, BoardMemory, Pcie, PcieConfig, PcieError, PeerConfig, Range};
use host::clock::Deadline;
use host::{Device, Error, Flush, Rights, Token};
use machine::{Shared, World, lock, parts};
use wire::{NetCounter, PcieCounter};

/// The model always answers.
const LONG: Deadline = Deadline::NEVER;
const TAG: u16 = 0x5A5;

fn config(at: u8) -> PcieConfig {
    let mac = |at: u8| format!("02:00:00:00:00:0{at}").parse().expect("a MAC");
    PcieConfig {
        device: "0000:01:00.0".into(),
        address: [10, 0, 0, at].into(),
        network_bits: 24,
        mac: mac(at),
        gateway_mac: Default::default(),
        memory: Default::default(),
        peers: vec![PeerConfig {
            address: [10, 0, 0, 3 - at].into(),
            mac: mac(3 - at),
            session: 3 + at,
            peer_session: 6 - at,
            epoch: 7,
            start: 0xFFFF_FFF0,
        }],
    }
}

fn boards() -> (Shared, Arc<Board>, Arc<Board>) {
    let world = World::new();
    let open = |at| Board::from_parts(parts(&world, at, 64), &config(at as u8 + 1)).expect("a NIC");
    let (left, right) = (open(0), open(1));
    (world, left, right)
}

fn all(memory: &BoardMemory) -> Range {
    Range {
        first: 0,
        bytes: memory.len() as u64,
        read: true,
        write: true,
        peer: None,
    }
}

fn bytes(memory: &BoardMemory) -> Vec<u8> {
    // SAFETY: the memory is there, and nobody stores to it now.
    unsafe { std::slice::from_raw_parts(memory.base(), memory.len()) }.to_vec()
}

#[test]
fn stores_arrive_loads_come_back() {
    let (world, left, right) = boards();
    let memory = right.alloc(8192).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 8192)
        .expect("pages are free");
    let data: Vec<u8> = (0..5000).map(|at| (at * 7 + 1) as u8).collect();
    // Odd places and lengths, over lines and pages.
    let mut expected = vec![0; 8192];
    for (offset, length) in [
        (0, 64),
        (64, 8),
        (61, 5),
        (131, 1),
        (250, 700),
        (4090, 12),
        (4096 + 3, 2049),
        (8191, 1),
    ] {
        window.store(offset, &data[..length]).expect("inside");
        expected[offset..offset + length].copy_from_slice(&data[..length]);
    }
    assert_eq!(window.flush(LONG), Some(true));
    assert!(
        bytes(&memory) == expected,
        "every byte is where it was stored, and no other"
    );
    let mut back = vec![0; 300];
    window.load(3999, &mut back).expect("inside");
    assert_eq!(back, expected[3999..4299]);
    assert_eq!(window.faults(), 0);
    assert_eq!(
        lock(&world).nic(1).counters().net(NetCounter::RxBadEndCode),
        0
    );
    assert!(matches!(
        window.store(8190, &[0; 3]),
        Err(PcieError::Outside { .. })
    ));
    assert!(window.store(usize::MAX, &[0; 3]).is_err());
}

#[test]
fn lost_frames_are_sent_again() {
    let (world, left, right) = boards();
    let memory = right.alloc(4096).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 4096)
        .expect("pages are free");
    lock(&world).lose_every = 5;
    for round in 0..200u8 {
        window
            .store(64 * usize::from(round % 64), &[round; 64])
            .expect("inside");
    }
    assert_eq!(window.flush(LONG), Some(true));
    let seen = bytes(&memory);
    for (index, line) in seen.chunks(64).enumerate() {
        let last = (0..200)
            .rfind(|round| round % 64 == index as u8)
            .expect("each line was stored");
        assert!(line.iter().all(|&byte| byte == last), "line {index}");
    }
    assert!(
        lock(&world).nic(0).counters().net(NetCounter::TxResend) > 0,
        "some were lost"
    );
    assert_eq!(window.faults(), 0, "nothing was lost in the end");
}

#[test]
fn a_range_is_all_that_a_window_reaches() {
    let (world, left, right) = boards();
    let memory = right.alloc(8192).expect("memory");
    let range = Range {
        first: 4096 + 64,
        bytes: 64,
        read: false,
        write: true,
        peer: Some(left.address()),
    };
    let share = memory.share(&range, TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 4096 + 64, 64)
        .expect("pages are free");
    window.store(0, &[1; 64]).expect("inside");
    assert_eq!(window.flush(LONG), Some(true));
    let mut expected = vec![0; 8192];
    expected[4160..4224].fill(1);
    assert_eq!(bytes(&memory), expected);
    // A window that claims more than was shared: the other board refuses, and says so.
    let greedy = left
        .connect(right.address(), share, 4096, 4096)
        .expect("pages are free");
    let before = greedy.faults();
    greedy.store(0, &[2; 64]).expect("inside the window");
    assert_eq!(greedy.flush(LONG), Some(true), "the stream goes on");
    assert_eq!(bytes(&memory), expected);
    assert!(greedy.faults() > before, "the refusal was told");
    let mut back = [7; 4];
    window.load(0, &mut back).expect("inside");
    assert_eq!(back, [0; 4], "loads are not permitted and read zeros");
    assert!(lock(&world).nic(1).counters().net(NetCounter::RxBadRights) > 0);
}

#[test]
fn another_tag_or_peer_changes_nothing() {
    let (world, left, right) = boards();
    let memory = right.alloc(4096).expect("memory");
    let elsewhere = Range {
        peer: Some([10, 0, 0, 9].into()),
        ..all(&memory)
    };
    let share = memory.share(&elsewhere, TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 4096)
        .expect("pages are free");
    window.store(0, &[1; 8]).expect("inside");
    assert_eq!(bytes(&memory), vec![0; 4096]);
    assert_eq!(
        lock(&world).nic(1).counters().net(NetCounter::RxBadSource),
        1
    );
    assert_eq!(window.faults(), 1);
    let mut forged = memory.share(&all(&memory), TAG).expect("an entry is free");
    forged.tag ^= 1;
    let window = left
        .connect(right.address(), forged, 0, 4096)
        .expect("pages are free");
    window.store(0, &[1; 8]).expect("inside");
    assert_eq!(bytes(&memory), vec![0; 4096]);
    assert!(lock(&world).nic(1).counters().net(NetCounter::RxBadEndCode) > 0);
}

#[test]
fn a_revoked_share_is_closed_and_its_entry_used_again() {
    let (_world, left, right) = boards();
    let memory = right.alloc(4096).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 4096)
        .expect("pages are free");
    window.store(0, &[1; 8]).expect("inside");
    right.revoke(share.key).expect("it is shared");
    window.store(0, &[2; 8]).expect("inside");
    assert_eq!(bytes(&memory)[..9], [1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(window.faults(), 1);
    assert!(matches!(
        right.revoke(share.key),
        Err(PcieError::UnknownToken)
    ));
    assert!(matches!(
        right.revoke(u16::MAX),
        Err(PcieError::UnknownToken)
    ));
    let shares: Vec<_> = (1..8)
        .map(|_| memory.share(&all(&memory), TAG).expect("free"))
        .collect();
    assert!(matches!(
        memory.share(&all(&memory), TAG),
        Err(PcieError::Exhausted { .. })
    ));
    right.revoke(shares[3].key).expect("it is shared");
    assert_eq!(
        memory.share(&all(&memory), TAG).expect("free again").key,
        shares[3].key
    );
}

#[test]
fn a_cut_cable_loses_the_peer() {
    let (world, left, right) = boards();
    let memory = right.alloc(4096).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 4096)
        .expect("pages are free");
    assert_eq!((left.peers().len(), window.is_lost()), (1, false));
    lock(&world).cut = true;
    window.store(0, &[1; 8]).expect("inside");
    assert_eq!(
        window.flush(LONG),
        Some(false),
        "the flush fails instead of hanging"
    );
    assert!(window.is_lost());
    assert!(window.faults() > 0);
    assert!(left.peers().is_empty());
}

#[test]
fn pages_are_given_back() {
    let (world, left, right) = boards();
    let memory = right.alloc(16 * 4096).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    for _ in 0..10 {
        let windows: Vec<_> = (0..3)
            .map(|_| {
                left.connect(right.address(), share, 0, 16 * 4096)
                    .expect("pages are free")
            })
            .collect();
        windows[2].store(16 * 4096 - 8, &[3; 8]).expect("inside");
        let error = left
            .connect(right.address(), share, 0, 16 * 4096)
            .err()
            .expect("all used");
        assert!(error.to_string().contains("pages"), "{error}");
    }
    let unmapped = lock(&world)
        .nic(0)
        .counters()
        .pcie(PcieCounter::TlpStoreUnmapped);
    assert_eq!(unmapped, 64, "the self-test's lines, and no store of ours");
    let error = left
        .connect([10, 0, 0, 77].into(), share, 0, 64)
        .err()
        .expect("unknown");
    assert!(error.to_string().contains("10.0.0.77"), "{error}");
    assert!(left.connect(right.address(), share, u64::MAX, 2).is_err());
    assert!(left.connect(right.address(), share, 0, 0).is_err());
}

#[test]
fn the_self_test_counts_tlps() {
    for (combine, text) in [
        (64, "WC: ok (1 TLP a line)"),
        (8, "WC: degraded (8.00 TLPs a line"),
    ] {
        let world = World::new();
        let board = Board::from_parts(parts(&world, 0, combine), &config(1)).expect("a NIC");
        assert_eq!(board.combining().is_ok(), combine == 64);
        assert!(
            board.combining().to_string().starts_with(text),
            "{}",
            board.combining()
        );
    }
}

#[test]
fn uncombined_stores_arrive_all_the_same() {
    let world = World::new();
    let left = Board::from_parts(parts(&world, 0, 8), &config(1)).expect("a NIC");
    let right = Board::from_parts(parts(&world, 1, 64), &config(2)).expect("a NIC");
    let memory = right.alloc(4096).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 4096)
        .expect("pages are free");
    window.store(3, &[9; 1000]).expect("inside");
    assert_eq!(window.flush(LONG), Some(true));
    let mut expected = vec![0; 4096];
    expected[3..1003].fill(9);
    assert_eq!(bytes(&memory), expected);
}

#[test]
fn memory_that_is_gone_is_not_written_to() {
    let (world, left, right) = boards();
    let memory = right.alloc(4096).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 4096)
        .expect("pages are free");
    drop(memory);
    // The model would stop the test at a DMA write to memory that the board must not reach.
    window.store(0, &[1; 8]).expect("inside");
    assert_eq!(lock(&world).nic(1).counters().net(NetCounter::RxBadKey), 1);
    let memory = right.alloc(4096).expect("memory");
    let again = memory.share(&all(&memory), TAG).expect("an entry is free");
    assert_ne!(
        again.key, share.key,
        "keys are used again as late as possible"
    );
}

#[test]
fn what_an_earlier_user_left_is_gone() {
    let (world, left, right) = boards();
    let memory = right.alloc(4096).expect("memory");
    let share = memory.share(&all(&memory), TAG).expect("an entry is free");
    drop(memory);
    drop(right);
    let again = Board::from_parts(parts(&world, 1, 64), &config(2)).expect("a NIC");
    let window = left
        .connect(again.address(), share, 0, 4096)
        .expect("pages are free");
    window.store(0, &[1; 8]).expect("inside");
    assert_eq!(
        lock(&world).nic(1).counters().net(NetCounter::RxStore),
        0,
        "nothing is written any more"
    );
}

#[test]
fn another_device_or_a_wrong_configuration_is_told() {
    let world = World::new();
    let mut swapped = parts(&world, 0, 64);
    std::mem::swap(&mut swapped.registers, &mut swapped.pages);
    let error = Board::from_parts(swapped, &config(1))
        .err()
        .expect("BAR 2 has no registers");
    assert!(error.to_string().contains("BAR 0"), "{error}");
    let mut wrong = config(1);
    wrong.peers[0].session = 8;
    let error = Board::from_parts(parts(&world, 0, 64), &wrong)
        .err()
        .expect("too many");
    assert!(error.to_string().contains("sessions 1 to 7"), "{error}");
}

#[test]
fn more_events_than_the_ring_holds_are_all_taken() {
    let (_world, left, right) = boards();
    let memory = right.alloc(4096).expect("memory");
    let share = memory
        .share(
            &Range {
                write: false,
                ..all(&memory)
            },
            TAG,
        )
        .expect("an entry is free");
    let window = left
        .connect(right.address(), share, 0, 4096)
        .expect("pages are free");
    for round in 1..=700 {
        window.store(0, &[1; 8]).expect("inside");
        assert_eq!(window.faults(), round);
    }
    assert_eq!(window.flush(LONG), Some(true));
}

#[test]
fn the_library_works_over_boards() {
    let (world, left, right) = boards();
    let device = |board: Arc<Board>| Device::with(Arc::new(Pcie::new(board)), Duration::ZERO);
    let (left, right) = (device(left), device(right));
    let info = left.info();
    assert_eq!(
        (info.backend, info.line_atomic, info.mappable),
        ("pcie", true, false)
    );
    assert_eq!(info.peers, [std::net::Ipv4Addr::new(10, 0, 0, 2)]);
    let region = right.alloc(8192).expect("memory");
    let token = region
        .export(64..8192, Rights::ReadWrite, None)
        .expect("inside");
    let window = left
        .connect(&Token::parse(&token.to_bytes()).expect("a token"))
        .expect("a peer");
    let epoch = window.epoch();
    window
        .put_line(0, 1, b"one line, one frame, one DMA write")
        .expect("inside");
    window.put_signal(64, &[5; 300], 4096, 77).expect("inside");
    window
        .flush(Flush::Delivered, None)
        .expect("the cable is whole");
    window.check(epoch).expect("nothing was refused");
    let mut line = [0; 56];
    assert_eq!(region.poll_line(64, 1, &mut line), Some(34));
    assert_eq!(&line[..34], b"one line, one frame, one DMA write");
    assert_eq!(region.poll_line(64, 2, &mut line), None);
    assert_eq!(region.word(64 + 4096).load(Ordering::Acquire), 77);
    let mut back = [0; 300];
    region.read(128, &mut back).expect("inside");
    assert_eq!(back, [5; 300]);
    // An owner that sleeps looks on its own.
    assert!(region.wait(Some(Duration::from_secs(60))).expect("a timer"));
    assert!(region.wait(Some(Duration::from_secs(60))).expect("a timer"));

    let other = region.export(0..64, Rights::Read, None).expect("inside");
    region.revoke(&token).expect("it is valid");
    assert!(region.revoke(&token).is_err());
    let epoch = window.epoch();
    window.put(0, b"late").expect("stores are posted");
    assert!(matches!(window.check(epoch), Err(Error::Revoked)));
    region.read(64, &mut back[..4]).expect("inside");
    assert_eq!(&back[..4], b"one ", "the late store did not arrive");
    let reader = left.connect(&other).expect("still valid");
    assert!(matches!(reader.put(0, b"x"), Err(Error::Denied { .. })));
    lock(&world).cut = true;
    window.put(0, b"lost").expect("stores are posted");
    assert!(matches!(
        window.flush(Flush::Delivered, None),
        Err(Error::PeerLost)
    ));
    assert!(matches!(reader.check(reader.epoch()), Err(Error::PeerLost)));
}
