// SPDX-License-Identifier: Apache-2.0
//! Two model NICs and a channel that loses, doubles, swaps, spoils and delays frames. Every store must arrive exactly
//! once and in order, or software must be told.
//!
//! Random tests print their seed; `IPNUMA_SEED` repeats one.

mod channel;

use model::BAR_PAGES;
use rand::RngExt;

use channel::*;
use wire::registers as reg;
use wire::seal::Sealer;
use wire::{EventEntry, NetCounter, PcieCounter, RegionEntry, SessionPort, TlpHeader};

#[test]
fn a_good_channel_needs_no_resend() {
    through(PLAIN, Faults::default(), 100_000);
}

#[test]
fn every_store_arrives_once_in_compact_frames() {
    through(PLAIN, EVERYTHING, 400_000);
}

#[test]
fn every_store_arrives_once_in_tlp_frames() {
    let setup = Setup {
        compact: false,
        ..PLAIN
    };
    through(setup, EVERYTHING, 400_000);
}

#[test]
fn every_store_arrives_once_through_much_loss() {
    let faults = Faults {
        lose: 1000,
        ..EVERYTHING
    };
    through(PLAIN, faults, 100_000);
}

#[test]
fn every_store_arrives_once_in_one_session_past_the_wrap() {
    let setup = Setup {
        sessions: 1,
        ..PLAIN
    };
    let faults = Faults {
        lose: 10,
        ..Faults::default()
    };
    through(setup, faults, 20 * 70_000);
}

#[test]
fn every_store_arrives_once_in_sealed_frames() {
    let setup = Setup {
        sealed: true,
        ..PLAIN
    };
    through(setup, EVERYTHING, 100_000);
}

/// What a host was told.
fn told(host: &Host) -> Vec<(u8, u16, u16)> {
    let events = host.events.iter();
    events.map(|e| (e.code, e.who, e.number)).collect()
}

/// What an event says of the frame with this number, counted from 0.
fn numbered(frame: u32) -> u16 {
    START.wrapping_add(frame) as u16
}

fn flush(host: &mut Host, pc_id: u16, cookie: u16) {
    host.write(reg::REG_FLUSH, u32::from(cookie) << 16 | u32::from(pc_id));
}

#[test]
fn the_time_out_follows_the_round_trip() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.hosts[0].write(reg::REG_RESEND_TICKS, 60);
    pair.hosts[0].write(reg::REG_RESEND_LIMIT, 0x32FF);
    pair.hosts[1].write(reg::REG_ACK_TICKS, 1);
    // Ticks until a store that is lost is sent again.
    let lost = |pair: &mut Pair| {
        let before = (pair.now, pair.hosts[0].net(NetCounter::TxTimeout));
        pair.store(PLAIN, 0, 1, false);
        pair.flying.clear();
        while pair.hosts[0].net(NetCounter::TxTimeout) == before.1 {
            pair.run(1);
        }
        let ticks = pair.now - before.0;
        pair.quiesce(10_000);
        ticks
    };
    // A store that is acknowledged after so many ticks.
    let store = |pair: &mut Pair, trip: u64| {
        pair.hosts[1].write(reg::REG_ACK_TICKS, (trip - 2 * WAY) as u32);
        pair.store(PLAIN, 0, 1, false);
        pair.quiesce(10_000);
    };
    assert_eq!(lost(&mut pair), 60 << 3, "the round trip is not known");
    store(&mut pair, 26);
    assert_eq!(lost(&mut pair), 60);
    assert_eq!(lost(&mut pair), 120, "it may have become longer");
    store(&mut pair, 180);
    assert_eq!(lost(&mut pair), 480, "twice what it is, at least");
    store(&mut pair, 26);
    store(&mut pair, 55);
    assert_eq!(lost(&mut pair), 120);
    store(&mut pair, 26);
    pair.hosts[0].write(reg::REG_RESEND_LIMIT, 0x02FF);
    store(&mut pair, 55);
    assert_eq!(lost(&mut pair), 60, "it is not asked for");
    assert_eq!(pair.hosts[0].net(NetCounter::TxTimeout), 6);
    pair.nothing_is_missing();
}

#[test]
fn a_black_out_is_survived_or_the_peer_is_lost() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    for host in &mut pair.hosts {
        // 20 ticks, twice as long after each of the first two time-outs, lost after the third.
        host.write(reg::REG_RESEND_TICKS, 20);
        host.write(reg::REG_RESEND_LIMIT, 0x203);
    }
    for _ in 0..20 {
        pair.store(PLAIN, 0, 1, false);
    }
    flush(&mut pair.hosts[0], 1, 77);
    assert_eq!(told(&pair.hosts[0]), [], "nothing is delivered yet");
    pair.flying.clear();
    pair.run(19);
    assert_eq!(pair.hosts[0].net(NetCounter::TxTimeout), 0);
    pair.run(1);
    assert_eq!(pair.hosts[0].net(NetCounter::TxTimeout), 1);
    pair.quiesce(1000);
    pair.nothing_is_missing();
    assert_eq!(told(&pair.hosts[0]), [(wire::EVENT_FLUSHED, 1, 77)]);

    pair.faults.lose = 10_000;
    let before = pair.now;
    pair.store(PLAIN, 0, 1, true);
    pair.store(PLAIN, 0, 2, true);
    flush(&mut pair.hosts[0], 1, 78);
    pair.quiesce(10_000);
    assert_eq!(
        pair.now - before,
        20 + 40 + 80 + 80,
        "time-outs double twice"
    );
    let mut events = told(&pair.hosts[0]).split_off(1);
    events.sort_unstable();
    assert_eq!(
        events,
        [
            (wire::EVENT_PEER_LOST, 1, numbered(20)),
            (wire::EVENT_PEER_LOST, 2, numbered(0)),
            (wire::EVENT_FLUSH_FAILED, 1, 78)
        ]
    );
    let lost = pair.hosts[0]
        .events
        .iter()
        .find(|event| event.who == 1 && event.code == 16);
    let [una, nxt] = [20, 21].map(|frame| u64::from(START.wrapping_add(frame)));
    assert_eq!(lost.map(|event| event.address), Some(nxt << 32 | una));
    let status = pair.hosts[0].status(1);
    assert!(status.lost && !status.open && status.valid);

    // Nobody waits for a lost peer, and other sessions go on.
    pair.faults.lose = 0;
    pair.store(PLAIN, 0, 1, true);
    pair.store(PLAIN, 0, 3, false);
    flush(&mut pair.hosts[0], 1, 79);
    flush(&mut pair.hosts[0], 9, 80);
    assert_eq!(pair.hosts[0].net(NetCounter::TxLost), 1);
    pair.quiesce(1000);
    pair.nothing_is_missing();
    let failed = wire::EVENT_FLUSH_FAILED;
    assert_eq!(
        told(&pair.hosts[0])[4..],
        [(failed, 1, 79), (failed, 9, 80)]
    );
}

/// Both ends of a session begin anew with another epoch, as software does after a restart.
fn begin_anew(pair: &mut Pair, setup: Setup, session: u8, epoch: u8) {
    for me in 0..2 {
        let (mine, other) = if me == 0 {
            (session, at_other(setup, session))
        } else {
            (at_other(setup, session), session)
        };
        let port = SessionPort {
            epoch,
            index: other,
        };
        pair.hosts[me].session(me, mine, epoch, setup.sealed, port.to_port());
    }
}

#[test]
fn old_frames_of_any_age_change_nothing() {
    for sealed in [false, true] {
        let setup = Setup {
            sealed,
            sessions: 1,
            ..PLAIN
        };
        let mut pair = Pair::new(setup, Faults::default(), seed());
        pair.capture = Some(Vec::new());
        for _ in 0..70_000 {
            while pair.hosts[0].nic.outgoing() > 8 {
                pair.step(u64::MAX);
            }
            pair.store(setup, 0, 1, false);
        }
        pair.quiesce(100_000);
        pair.nothing_is_missing();
        let capture = pair.capture.take().unwrap_or_default();
        let before = (pair.hosts[1].status(1), pair.hosts[0].status(1));
        let written = pair.hosts[1].written;
        // A frame of exactly 65,536 ago, and some around it.
        let expected = pair.hosts[1].status(1).expected.wrapping_sub(START) as usize;
        assert_eq!(expected, 70_000);
        for at in [
            expected - 65_536,
            expected - 65_537,
            expected - 65_535,
            0,
            expected - 1,
        ] {
            let counter = pair.hosts[1].receive(&capture[at]);
            let wanted = match at {
                _ if sealed => NetCounter::RxBadSeal,
                // 4,464 to 4,465 frames early by the low half of their number.
                _ if (4463..=4465).contains(&at) => NetCounter::RxBadEndCode,
                0 => NetCounter::RxBadEndCode,
                _ => NetCounter::RxDuplicate,
            };
            assert_eq!(counter, wanted, "frame {at}");
            pair.settle();
        }
        pair.quiesce(1000);
        // The peer has restarted: no frame of the old epoch is taken, not even with the right number.
        begin_anew(&mut pair, setup, 1, EPOCH + 1);
        for frame in capture.iter().take(300) {
            let counter = pair.hosts[1].receive(frame);
            let wanted = if sealed {
                NetCounter::RxBadSeal
            } else {
                NetCounter::RxBadSession
            };
            assert_eq!(counter, wanted);
        }
        assert_eq!(pair.hosts[1].written, written);
        assert_eq!(before.0.nxt, before.1.expected);
        pair.store(setup, 0, 1, false);
        pair.store(setup, 1, 1, false);
        pair.quiesce(1000);
        pair.nothing_is_missing();
    }
}

#[test]
fn a_refused_store_is_told_and_the_others_go_on() {
    for compact in [false, true] {
        let setup = Setup { compact, ..PLAIN };
        let mut pair = Pair::new(setup, EVERYTHING, seed());
        let mut refused = Vec::new();
        let peer = at_other(setup, 2);
        for round in 0..60 {
            let granted = pair.rng.random_bool(0.5);
            pair.hosts[1].region(1, peer, false, granted);
            for index in 0..3 {
                // Only the stores to session 2's region are refused.
                let session = if index == 1 { 2 } else { 1 };
                let (address, _) = pair.store(setup, 0, session, session == 2 && !granted);
                if session == 2 && !granted {
                    let offset = (address - base_of(peer)) as u32;
                    refused.push(wire::wire_address(key_number(peer) as u16, offset));
                }
            }
            flush(&mut pair.hosts[0], 2, round);
            pair.quiesce(1_000_000);
        }
        pair.nothing_is_missing();
        let events = pair.hosts[0]
            .events
            .iter()
            .filter(|event| event.who != 0xFFFF);
        let (flushed, told): (Vec<&EventEntry>, Vec<&EventEntry>) =
            events.partition(|event| event.code == wire::EVENT_FLUSHED);
        assert_eq!(flushed.len(), 60);
        let addresses: Vec<u64> = told.iter().map(|event| event.address).collect();
        assert_eq!(addresses, refused, "each refusal is told once, in order");
        for event in told {
            assert_eq!(
                (event.code, event.op, event.who),
                (wire::ERR_BAD_RIGHTS, wire::FMT_MWR64, 2)
            );
        }
        assert!(pair.hosts[0].net(NetCounter::TxVoid) as usize >= refused.len());
        assert_eq!(
            pair.hosts[1].net(NetCounter::RxVoid) as usize,
            refused.len()
        );
    }
}

#[test]
fn a_refusal_stays_one_when_the_region_is_granted_meanwhile() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    let peer = at_other(PLAIN, 1);
    pair.hosts[1].region(1, peer, false, false);
    pair.capture = Some(Vec::new());
    pair.store(PLAIN, 0, 1, true);
    let frame = pair.capture.take().unwrap_or_default().remove(0);
    pair.run(WAY);
    pair.hosts[1].region(1, peer, false, true);
    // A second copy comes before the sender knows.
    assert_eq!(pair.hosts[1].receive(&frame), NetCounter::RxBadRights);
    pair.settle();
    pair.quiesce(1000);
    assert_eq!(pair.hosts[1].written, 0);
    assert_eq!(
        told(&pair.hosts[0]),
        [(wire::ERR_BAD_RIGHTS, 1, numbered(0))]
    );
    assert_eq!(pair.hosts[1].receive(&frame), NetCounter::RxDuplicate);
    pair.store(PLAIN, 0, 1, false);
    pair.quiesce(1000);
    pair.nothing_is_missing();
}

#[test]
fn a_bad_key_is_refused_only_if_it_is_no_guess() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    let peer = at_other(PLAIN, 1);
    let revoke = |host: &mut Host, tag| {
        let gone = RegionEntry::revoked(tag).to_dws();
        host.write_entry(reg::REGION_BASE, key_number(peer), 32, &gone);
    };
    // The tag that its user knew is no more: nobody is answered.
    revoke(&mut pair.hosts[1], TAG ^ 1);
    pair.capture = Some(Vec::new());
    pair.store(PLAIN, 0, 1, true);
    let frame = pair.capture.take().unwrap_or_default().remove(0);
    pair.flying.clear();
    assert_eq!(pair.hosts[1].receive(&frame), NetCounter::RxBadEndCode);
    // A key that was altered on the way, or guessed: neither refused, nor acknowledged again when its number is old.
    let mut altered = frame.clone();
    // The first byte of the address, which holds the upper bits of the key.
    altered[wire::PAYLOAD_OFFSET + 3] ^= 0x80;
    assert_eq!(pair.hosts[1].receive(&altered), NetCounter::RxBadEndCode);
    revoke(&mut pair.hosts[1], TAG);
    assert_eq!(pair.hosts[1].receive(&altered), NetCounter::RxBadEndCode);
    assert!(pair.hosts[1].out.frames.is_empty());
    // Who has not heard of the revocation is told.
    assert_eq!(pair.hosts[1].receive(&frame), NetCounter::RxBadKey);
    pair.settle();
    pair.quiesce(1000);
    assert_eq!(pair.hosts[1].written, 0);
    assert_eq!(told(&pair.hosts[0]), [(wire::ERR_BAD_KEY, 1, numbered(0))]);
    pair.hosts[1].region(1, peer, false, true);
    assert_eq!(pair.hosts[1].receive(&altered), NetCounter::RxBadEndCode);
    pair.store(PLAIN, 0, 1, false);
    pair.quiesce(1000);
    pair.nothing_is_missing();
    assert_eq!(told(&pair.hosts[0]).len(), 1);
}

/// Frames that a host sent, which go nowhere.
fn take_frames(host: &mut Host) -> Vec<Vec<u8>> {
    host.out.frames.drain(..).map(|(_, frame)| frame).collect()
}

#[test]
fn the_answer_to_a_load_from_before_a_reset_answers_none_after_it() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    let peer = at_other(PLAIN, 1);
    for (offset, byte) in [(0, 0x0D), (8, 0x4E)] {
        pair.hosts[1]
            .memory
            .write(base_of(peer) + offset, &[byte; 4]);
    }
    // A load, and the read that the other end makes of it.
    let load = |pair: &mut Pair, tag: u8, offset: u64| {
        let mut request = whole_request(0x1000 + offset, 1);
        request.tag = tag;
        let tlp = TlpHeader::MemRead(request).emit(&[]).expect("a sound TLP");
        let host = &mut pair.hosts[0];
        host.nic.tlp_from_root(&tlp, BAR_PAGES, &mut host.out);
        let frames = take_frames(host);
        assert_eq!(frames.len(), 1);
        assert_eq!(pair.hosts[1].receive(&frames[0]), NetCounter::RxLoad);
        let reads = &mut pair.hosts[1].out.tlps;
        reads.pop_front().expect("a read")
    };
    let (source, before) = load(&mut pair, 7, 0);
    take_frames(&mut pair.hosts[1]);
    pair.hosts[0].nic = fresh_nic(0);
    pair.configure(0, PLAIN);
    begin_anew(&mut pair, PLAIN, 1, EPOCH + 1);
    let (_, after) = load(&mut pair, 9, 8);
    take_frames(&mut pair.hosts[1]);

    pair.hosts[1].root_complex(source, &before);
    let stale = take_frames(&mut pair.hosts[1]);
    assert_eq!(
        pair.hosts[0].receive(stale.last().expect("an answer")),
        NetCounter::RxBadSession
    );
    pair.settle();
    assert_eq!(pair.hosts[0].loaded, []);
    pair.hosts[1].root_complex(source, &after);
    pair.settle();
    pair.quiesce(1000);
    assert_eq!(pair.hosts[0].loaded, [(9, vec![0x4E; 4])]);
}

#[test]
fn loads_come_back_through_a_bad_channel() {
    let setup = Setup {
        sealed: true,
        ..PLAIN
    };
    let mut pair = Pair::new(setup, EVERYTHING, seed());
    for host in &mut pair.hosts {
        host.write(reg::REG_RESEND_LIMIT, 0x3FF);
        host.write(reg::REG_READ_TIMEOUT_US, 1_000_000);
        host.write(reg::REG_LOAD_RETRY_US, 10);
    }
    let peer = at_other(setup, 1);
    let mut retries = 0;
    for round in 0..600_u32 {
        let dws = pair.rng.random_range(1..=64_u16);
        let offset = 4 * pair.rng.random_range(0..=1024 - u64::from(dws));
        let data: Vec<u8> = (0..4 * dws).map(|_| pair.rng.random()).collect();
        pair.hosts[1].memory.write(base_of(peer) + offset, &data);
        let mut request = whole_request(0x1000 + offset, dws);
        request.tag = round as u8;
        // A refused load gives zeros, whatever its byte enables.
        let granted = pair.rng.random_bool(0.8);
        if dws > 1 {
            request.first_be = 0xE;
        }
        let mut region = 0x35;
        if !granted {
            region = 0x31;
        }
        pair.hosts[1].write_entry(reg::REGION_BASE + 28, key_number(peer), 32, &[region]);
        let tlp = TlpHeader::MemRead(request).emit(&[]).expect("a sound TLP");
        let host = &mut pair.hosts[0];
        host.nic.tlp_from_root(&tlp, BAR_PAGES, &mut host.out);
        pair.settle();
        pair.quiesce(10_000_000);
        let host = &mut pair.hosts[0];
        let pieces = std::mem::take(&mut host.loaded);
        assert!(pieces.iter().all(|(tag, _)| *tag == round as u8));
        let found: Vec<u8> = pieces.into_iter().flat_map(|(_, data)| data).collect();
        let wanted = if granted { data } else { vec![0; data.len()] };
        assert_eq!(found, wanted, "load {round}");
        retries = host.nic.counters().pcie(PcieCounter::LoadRetry);
        assert_eq!(host.nic.counters().pcie(PcieCounter::LoadTimeout), 0);
    }
    assert!(retries > 0, "some completions were lost");
    let repeated = pair.hosts[0].nic.counters();
    assert!(
        repeated.pcie(PcieCounter::LoadCompletionRepeated)
            + repeated.pcie(PcieCounter::LoadCompletionUnexpected)
            > 0,
        "some came twice"
    );
}

#[test]
fn forged_frames_change_nothing_when_sessions_are_sealed() {
    let setup = Setup {
        sealed: true,
        sessions: 1,
        ..PLAIN
    };
    let mut pair = Pair::new(setup, Faults::default(), seed());
    pair.capture = Some(Vec::new());
    for _ in 0..100 {
        pair.store(setup, 0, 1, false);
        pair.run(5);
    }
    pair.quiesce(1000);
    let capture = pair.capture.take().unwrap_or_default();
    let before = (pair.hosts[1].status(1), pair.hosts[1].written);
    let forger = Sealer::new([9; 16], [EPOCH; 4]);
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut frame = capture[pair.rng.random_range(0..capture.len())].clone();
        match pair.rng.random_range(0..4) {
            0 => {
                // Flipped bits, lengths and addresses included.
                for _ in 0..pair.rng.random_range(1..20) {
                    let at = pair.rng.random_range(0..frame.len());
                    frame[at] ^= 1 << pair.rng.random_range(0..8);
                }
                wire::seal_ip(&mut frame);
            }
            1 => {
                // A newer number.
                frame[44..50].copy_from_slice(&[0, 0, 0, 1, 0, 0]);
            }
            2 => {
                // Another key: the frame is sound inside.
                let (key, salt) = key_of(0, 1, 1, EPOCH);
                let genuine = Sealer::new(key, salt);
                genuine
                    .open_frame(&mut frame)
                    .expect("captured as it was sent");
                forger
                    .seal_frame(&mut frame, 1 << 30)
                    .expect("a number of 48 bits");
            }
            _ => {
                // Not sealed at all.
                let (key, salt) = key_of(0, 1, 1, EPOCH);
                let genuine = Sealer::new(key, salt);
                genuine
                    .open_frame(&mut frame)
                    .expect("captured as it was sent");
            }
        }
        let counter = pair.hosts[1].receive(&frame);
        taken += u32::from(matches!(
            counter,
            NetCounter::RxStore
                | NetCounter::RxAck
                | NetCounter::RxVoid
                | NetCounter::RxErrorReport
        ));
        assert!(pair.hosts[1].out.tlps.is_empty());
        pair.hosts[1].out.frames.clear();
    }
    assert_eq!(taken, 0);
    assert_eq!((pair.hosts[1].status(1), pair.hosts[1].written), before);
    pair.store(setup, 0, 1, false);
    pair.store(setup, 1, 1, false);
    pair.quiesce(1000);
    pair.nothing_is_missing();
}

#[test]
fn regions_and_sessions_ask_for_what_they_need() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.capture = Some(Vec::new());
    pair.store(PLAIN, 0, 1, true);
    pair.flying.clear();
    let genuine = pair.capture.take().unwrap_or_default().remove(0);
    let plain = wire::Frame::parse(&genuine).expect("sound");
    let mut receive = |change: &dyn Fn(&mut wire::Frame)| {
        let mut frame = plain.frame.clone();
        change(&mut frame);
        let of_session = SessionPort::from_port(frame.src_port).is_some();
        let high = if of_session { START >> 16 } else { 0 };
        let bytes = frame.emit_sequenced(TAG, high as u16).expect("sound");
        let found = pair.hosts[1].receive(&bytes);
        pair.hosts[1].out.frames.clear();
        found
    };
    let port = plain.frame.src_port;
    assert_eq!(receive(&|f| f.src_port = 4321), NetCounter::RxBadRights);
    assert_eq!(
        receive(&|f| f.src_port = port ^ 0x100),
        NetCounter::RxBadSession
    );
    assert_eq!(
        receive(&|f| f.src_port = port | 0xFF),
        NetCounter::RxBadSession
    );
    assert_eq!(
        receive(&|f| f.src_ip = [10, 0, 0, 9].into()),
        NetCounter::RxBadSession
    );
    let control = |code| wire::Payload::Control(code);
    assert_eq!(
        receive(&|f| {
            f.src_port = 4321;
            f.payload = control(wire::Control::Acknowledgement {
                expected: 0,
                interval: 0,
            });
        }),
        NetCounter::RxBadSession
    );
    assert_eq!(
        receive(&|f| {
            if let wire::Payload::Compact(compact) = &mut f.payload {
                compact.sequence = numbered(1);
            }
        }),
        NetCounter::RxGap
    );
    let other = at_other(PLAIN, 1);
    pair.hosts[1].region(1, other, true, true);
    assert_eq!(
        pair.hosts[1].receive(&genuine),
        NetCounter::RxBadRights,
        "not sealed"
    );
}

#[test]
fn a_region_that_is_one_sessions_is_no_others() {
    for (of_another, wanted) in [
        (true, NetCounter::RxBadSource),
        (false, NetCounter::RxStore),
    ] {
        let mut pair = Pair::new(PLAIN, Faults::default(), seed());
        let peer = at_other(PLAIN, 1);
        let only = peer ^ u8::from(of_another);
        pair.hosts[1].region_of(1, peer, Some(only), false, true);
        pair.capture = Some(Vec::new());
        pair.store(PLAIN, 0, 1, true);
        pair.flying.clear();
        let genuine = pair.capture.take().unwrap_or_default().remove(0);
        assert_eq!(pair.hosts[1].receive(&genuine), wanted);
    }
}

#[test]
fn interrupts_are_moderated_and_none_is_lost() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.hosts[1].write(reg::REG_MSI_CONTROL, 1);
    pair.hosts[1].write(reg::REG_MSI_MODERATION_US, 50);
    let peer = at_other(PLAIN, 1);
    pair.store(PLAIN, 0, 1, false);
    pair.quiesce(1000);
    assert_eq!(
        pair.hosts[1].interrupts, 0,
        "the region does not ask for one"
    );
    pair.hosts[1].write_entry(reg::REGION_BASE + 28, key_number(peer), 32, &[0x1F]);
    for _ in 0..20 {
        pair.store(PLAIN, 0, 1, false);
        pair.run(TICKS_PER_US);
    }
    pair.run(5 * TICKS_PER_US);
    assert_eq!(pair.hosts[1].interrupts, 1, "the others wait");
    pair.quiesce(1000);
    assert_eq!(pair.hosts[1].interrupts, 2, "and come as one");
    pair.nothing_is_missing();
}

#[test]
fn a_full_ring_says_how_many_events_it_missed() {
    let mut pair = Pair::new(PLAIN, Faults::default(), seed());
    pair.hosts[0].write(reg::REG_EVENT_LOG2, RING_LOG2);
    for cookie in 0..1 << RING_LOG2 {
        flush(&mut pair.hosts[0], 9, cookie);
    }
    for cookie in 0..20 {
        flush(&mut pair.hosts[0], 9, 2000 + cookie);
    }
    pair.settle();
    assert_eq!(pair.hosts[0].events.len(), 1 << RING_LOG2);
    assert_eq!(pair.hosts[0].net(NetCounter::EventLost), 4, "16 wait");
    pair.hosts[0].write(reg::REG_EVENT_TAIL, 1 << RING_LOG2);
    pair.settle();
    let told = told(&pair.hosts[0]);
    assert_eq!(told.len(), (1 << RING_LOG2) + 17);
    let last = pair.hosts[0]
        .events
        .last()
        .map(|event| (event.code, event.address));
    assert_eq!(last, Some((wire::EVENT_OVERFLOW, 4)));
    let mut out = Out::default();
    pair.hosts[0].nic.set_link(false, &mut out);
    pair.hosts[0].nic.set_link(true, &mut out);
    assert_eq!(out.tlps.len(), 2, "down and up are events");
}
