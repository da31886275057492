// SPDX-License-Identifier: Apache-2.0
//! Loads and stores outside of sessions, which anybody can send under anybody's address: so many are answered in a second, and no
//! more, whatever would have been the answer.

mod common;

use std::time::Instant;

use common::cable::{Way, joined};
use common::{Side, connect, quiet, windows, work};
use softnic::Config;
use wire::{Frame, Payload, TlpHeader, UDP_PORT, wire_address};

/// Frames that are forged of each kind.
const FORGED: usize = 20_000;
/// Refusals in a second.
const MOST: u64 = 200;

/// A load that nobody asked for, of a key that nobody has, outside of sessions.
fn forged(sides: &mut [Side; 2], ways: &[Way; 2]) -> Vec<u8> {
    connect(sides, 50, None);
    let windows = windows(sides);
    sides[0].nic.load(&windows[0], 0, 256).expect("inside");
    work(sides, quiet);
    let mut loads = ways[0].with(|way| way.seen.clone()).into_iter();
    let load = loads.find_map(|bytes| {
        let frame = Frame::parse(&bytes).ok()?.frame;
        let read = |it: &Frame| matches!(&it.payload, Payload::Tlp(it) if matches!(it.header, TlpHeader::MemRead(_)));
        Some(frame).filter(read)
    });
    let mut load = load.expect("it has gone");
    load.src_port = UDP_PORT;
    if let Payload::Tlp(tlp) = &mut load.payload
        && let TlpHeader::MemRead(request) = &mut tlp.header
    {
        request.address = wire_address(4000, 64);
    }
    load.emit(0).expect("a frame")
}

/// Sends it again and again; how many frames come back.
fn flood(sides: &mut [Side; 2], ways: &[Way; 2], forged: &[u8]) -> u64 {
    let before = ways[1].with(|way| way.sent);
    for _ in 0..FORGED / 100 {
        for _ in 0..100 {
            ways[0].with(|way| way.waiting.push_back(forged.to_vec()));
        }
        work(sides, |_| ways[0].with(|way| way.waiting.is_empty()));
    }
    (ways[1].with(|way| way.sent) - before) as u64
}

#[test]
fn who_asks_under_another_machines_address_has_it_sent_no_more_than_so_much() {
    let (mut sides, ways) = joined(&Config::default());
    let forged = forged(&mut sides, &ways);
    let begun = Instant::now();
    assert_eq!(
        flood(&mut sides, &ways, &forged),
        0,
        "there is a session, so nobody waits"
    );
    for side in &mut sides {
        side.nic.close_session(side.session);
    }
    let answers = flood(&mut sides, &ways, &forged);
    // Whatever the machine's speed: a period more at each end.
    let most = MOST * (begun.elapsed().as_secs() + 2);
    println!("{FORGED} loads, {answers} frames back");
    assert!((2..=most).contains(&answers), "{answers} frames came back");
}
