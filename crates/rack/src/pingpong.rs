// SPDX-License-Identifier: Apache-2.0
//! The programs of figure 4.3: a number goes back and forth, and each side adds 1.

use std::cell::RefCell;
use std::rc::Rc;

use wire::registers::{
    PAGE_MAP_BASE, PC_ID_BASE, REG_GATEWAY_IP, REG_GATEWAY_MAC_HI, REG_GATEWAY_MAC_LO, REG_IP,
    REG_MAC_HI, REG_MAC_LO, REG_NETMASK, REGION_BASE,
};
use wire::{PageMapEntry, PcIdEntry, RegionEntry};

use crate::host::{BAR0, BAR2, HostApi, LINE_BYTES};
use crate::time::Picoseconds;

/// Where the receive region is in the memory of every host: the page of the dissertation's figure 3.14.
pub const REGION: u64 = 0x1806_A000;
/// Largest message that is one uncached store; longer ones go through the write-combining buffer.
const LARGEST_STORE: usize = 8;

/// Different pauses of [`PingPong::stagger`].
const STAGGERS: u64 = 8;

/// What a NIC must know of itself and its peer.
#[derive(Clone, Copy, Debug)]
pub struct NicConfig {
    /// Own addresses.
    pub mac: u64,
    /// Own addresses.
    pub ip: u32,
    /// The peer's.
    pub peer_mac: u64,
    /// The peer's.
    pub peer_ip: u32,
    /// Own netmask: a peer outside is reached through the gateway.
    pub netmask: u32,
    /// The gateway, if there is one.
    pub gateway: Option<Gateway>,
    /// Send stores in the compact format.
    pub compact: bool,
}

/// The switch port that a NIC sends to what is not in its subnet.
#[derive(Clone, Copy, Debug)]
pub struct Gateway {
    /// Its IPv4 address.
    pub ip: u32,
    /// Its MAC address.
    pub mac: u64,
}

/// Key of the region, PC ID of the peer, tag: the same on both sides, none of them 0 where it could hide a fault.
const KEY: u16 = 5;
const PC_ID: u16 = 1;
const TAG: u16 = 0x3A5;

/// Writes registers and tables: page 0 of BAR 2 becomes the peer's region.
pub async fn configure(api: &HostApi, config: NicConfig) {
    let register =
        async |offset: u32, value: u32| api.store4(BAR0 + u64::from(offset), value).await;
    register(REG_MAC_LO, config.mac as u32).await;
    register(REG_MAC_HI, (config.mac >> 32) as u32).await;
    register(REG_IP, config.ip).await;
    register(REG_NETMASK, config.netmask).await;
    if let Some(gateway) = config.gateway {
        register(REG_GATEWAY_IP, gateway.ip).await;
        register(REG_GATEWAY_MAC_LO, gateway.mac as u32).await;
        register(REG_GATEWAY_MAC_HI, (gateway.mac >> 32) as u32).await;
    }
    let peer = PcIdEntry {
        compact: config.compact,
        valid: true,
        source_port: wire::UDP_PORT,
        mac: config.peer_mac,
        ip: config.peer_ip,
    };
    let region = RegionEntry {
        read: true,
        write: true,
        valid: true,
        tag: TAG,
        mask: 0xFFFF_FFFF,
        ip: config.peer_ip,
        last: wire::registers::PAGE_BYTES - 1,
        first: 0,
        base: REGION,
    };
    let page = PageMapEntry::new(PC_ID, KEY, 0, TAG);
    let peer_at = PC_ID_BASE + 16 * u32::from(PC_ID);
    let region_at = REGION_BASE + 32 * u32::from(KEY);
    for (base, dws) in [
        (peer_at, &peer.to_dws()[..]),
        (region_at, &region.to_dws()[..]),
        (PAGE_MAP_BASE, &page.to_dws()[..]),
    ] {
        for (offset, value) in (base..).step_by(4).zip(dws) {
            register(offset, *value).await;
        }
    }
}

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
    configure(api, config).await;
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
    Ok(())
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
    Ok(())
}
