// SPDX-License-Identifier: Apache-2.0
//! The programs of figure 4.3: a number goes back and forth, and each side adds 1.

use std::cell::RefCell;
use std::rc::Rc;

use crate::host::{BAR2, HostApi, LINE_BYTES};
use crate::setup::{NicConfig, configure};
use crate::stream::{Statistics, statistics};
use crate::time::Picoseconds;

/// Where the receive region is in the memory of every host: the page of the dissertation's figure 3.14.
pub const REGION: u64 = 0x1806_A000;
/// Largest message that is one uncached store; longer ones go through the write-combining buffer.
const LARGEST_STORE: usize = 8;

/// Different pauses of [`PingPong::stagger`].
const STAGGERS: u64 = 8;

/// Index of the region, and PC ID of the peer: the same on both sides, none of them 0 where it could hide a fault.
pub const KEY: u16 = 5;
/// See [`KEY`].
pub const PC_ID: u16 = 1;

/// How often the second host looks whether the first is done.
const LOOK: Picoseconds = Picoseconds::from_us(1);

/// What the two programs share with the one who started them.
#[derive(Debug, Default)]
pub struct PingPong {
    /// Bytes of a message.
    pub bytes: usize,
    /// Round trips before measuring.
    pub warmup: u64,
    /// Measured round trips.
    pub loops: u64,
    /// Pause before each round trip, a different one each time, so that stores meet the clocks in every way.
    pub stagger: Picoseconds,
    /// When both begin; the NICs are ready by then.
    pub start: Picoseconds,
    /// Round-trip times.
    pub round_trips: Vec<Picoseconds>,
    /// When measuring began and ended.
    pub span: (Picoseconds, Picoseconds),
    /// Whether the NICs' counters are to be read at the end.
    pub counters: bool,
    /// What the first and the second host's NIC counted.
    pub statistics: [Statistics; 2],
    /// Whether the first host is done.
    pub done: bool,
}

/// Message number `value`: every DW has the number and its place, so that a lost or stale DW shows.
fn message(value: u32, bytes: usize) -> Vec<u8> {
    (0..bytes as u32 / 4)
        .flat_map(|place| (value ^ (place << 24)).to_le_bytes())
        .collect()
}

async fn send(api: &HostApi, value: u32, bytes: usize) {
    let data = message(value, bytes);
    if bytes <= LARGEST_STORE {
        api.store(BAR2, &data).await;
    } else {
        api.store_combined(BAR2, &data).await;
        if bytes < LINE_BYTES {
            api.fence().await;
        }
    }
}

/// Polls until something new is there, and checks all of it.
async fn receive(api: &HostApi, old: &mut Vec<u8>, expected: u32) -> Result<(), String> {
    let data = api.poll(REGION, old).await;
    if data != message(expected, data.len()) {
        return Err(format!(
            "received {data:02x?} where number {expected} was due"
        ));
    }
    *old = data;
    Ok(())
}

async fn begin(api: &HostApi, shared: &RefCell<PingPong>, config: NicConfig) -> Result<(), String> {
    configure(api, &config).await;
    let start = shared.borrow().start;
    if api.now() > start {
        return Err(format!("the NIC was not configured by {start}"));
    }
    api.sleep_until(start).await;
    Ok(())
}

/// PC1 of figure 4.3.
pub async fn first(
    api: HostApi,
    config: NicConfig,
    shared: Rc<RefCell<PingPong>>,
) -> Result<(), String> {
    begin(&api, &shared, config).await?;
    let (bytes, warmup, loops, stagger) = {
        let shared = shared.borrow();
        (shared.bytes, shared.warmup, shared.loops, shared.stagger)
    };
    let mut old = vec![0; bytes];
    let mut number = 0;
    for round in 0..warmup + loops {
        if round == warmup {
            api.measure(true).await;
            shared.borrow_mut().span.0 = api.now();
        }
        if stagger > Picoseconds::ZERO {
            let pause = Picoseconds(stagger.0 * (round % STAGGERS));
            api.compute(pause).await;
        }
        let before = api.now();
        send(&api, number + 1, bytes).await;
        number += 2;
        receive(&api, &mut old, number).await?;
        if round >= warmup {
            shared.borrow_mut().round_trips.push(api.now() - before);
        }
    }
    api.measure(false).await;
    shared.borrow_mut().span.1 = api.now();
    shared.borrow_mut().done = true;
    finish(&api, &shared, 0).await;
    Ok(())
}

/// Reads the counters, if somebody wants to know.
async fn finish(api: &HostApi, shared: &RefCell<PingPong>, own: usize) {
    if shared.borrow().counters {
        let found = statistics(api, PC_ID).await;
        shared.borrow_mut().statistics[own] = found;
    }
}

/// PC2 of figure 4.3.
pub async fn second(
    api: HostApi,
    config: NicConfig,
    shared: Rc<RefCell<PingPong>>,
) -> Result<(), String> {
    begin(&api, &shared, config).await?;
    let (bytes, rounds) = {
        let shared = shared.borrow();
        (shared.bytes, shared.warmup + shared.loops)
    };
    let mut old = vec![0; bytes];
    let mut number = 1;
    for _ in 0..rounds {
        receive(&api, &mut old, number).await?;
        send(&api, number + 1, bytes).await;
        number += 2;
    }
    if shared.borrow().counters {
        // What is lost on the way to the first host is sent again meanwhile, and counted.
        while !shared.borrow().done {
            api.compute(LOOK).await;
        }
    }
    finish(&api, &shared, 1).await;
    Ok(())
}
