// SPDX-License-Identifier: Apache-2.0
//! The whole 10G switch with one route and with a full table: the same latency, to the byte.

use std::time::Instant;

use fib::layout::Memory;
use fib::{NextHopId, Port, Prefix4, Prefix6};
use ipnuma_rtl::{NetSpeed, Switch, SwitchSize, SwitchWrite};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::switchtest::drive::Drive;
use crate::switchtest::flow::{self, Address};
use crate::switchtest::lookup::{HOPS, Routes, port_of};
use crate::switchtest::tables::Source;
use crate::switchtest::world::words;

const PORTS: usize = Switch::PORTS;
/// Frame sizes with FCS.
const SIZES: [usize; 6] = [64, 66, 128, 512, 1518, 9216];
/// Idle bytes between a frame and the next, so that each finds everything idle.
const APART: usize = 400;

/// Latencies in bytes of the line's time, IPv4 and IPv6, from least to most.
type Latencies = [Option<(u64, u64)>; 2];

/// Sends a frame of every size and family by every port; `find` gives destinations with next hops.
fn measure(
    drive: &mut Drive,
    frames: u32,
    mut find: impl FnMut(bool) -> (Address, u16),
) -> Result<Latencies, String> {
    let mut latencies: Latencies = [None; 2];
    for number in 0..frames {
        let port = number as usize % PORTS;
        let v6 = number / PORTS as u32 % 2 == 1;
        // Long frames take long to simulate.
        let at = if number < 2 * (PORTS * SIZES.len()) as u32 {
            number as usize / (2 * PORTS)
        } else {
            number as usize % 3
        };
        let (to, hop) = find(v6);
        let size = SIZES[at].max(to.shortest());
        let Port::Network(out) = port_of(hop) else {
            return Err(format!("next hop {hop} is no port"));
        };
        let out = usize::from(out);
        drive.send(port, flow::sent(port, to, size, number), APART, false);
        let (left, frame) = loop {
            if let Some(frame) = drive.cycle()?.frames.pop() {
                break frame;
            }
        };
        let expected = flow::forwarded(out, to, size, number);
        let fits = left == out && !frame.spoiled && flow::hop_of(&frame.bytes) == Some(hop);
        if !fits || frame.bytes[6..] != expected {
            return Err(format!(
                "a frame to {to:x?} by next hop {hop} left port {left}: {:02x?}",
                frame.bytes
            ));
        }
        let entered = drive.entered[port].pop_front().ok_or("no frame went in")?;
        let latency = frame.start + drive.bytes_a_cycle() - entered;
        let (least, most) = latencies[usize::from(v6)].unwrap_or((latency, latency));
        latencies[usize::from(v6)] = Some((least.min(latency), most.max(latency)));
    }
    Ok(latencies)
}

fn set_hops(fib: &mut fib::Fib, list: &mut Vec<SwitchWrite>) -> Result<(), String> {
    for hop in 1..=HOPS {
        let next_hop = fib::NextHop {
            port: port_of(hop),
            mac: Some(flow::hop_mac(hop)),
        };
        let ops = fib.set_next_hop(NextHopId(hop), next_hop);
        list.extend(words(ops.map_err(|error| error.to_string())?));
    }
    Ok(())
}

/// Measures with one route of each family, then with a table, in the same switch.
pub fn run(source: Source, frames: u32, seed: u64) -> Result<String, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let started = Instant::now();
    let mut drive = Drive::new(NetSpeed::TenGig, SwitchSize::Full)?;

    let mut one = fib::Fib::new(fib::Config::default()).map_err(|error| error.to_string())?;
    let mut list = Vec::new();
    set_hops(&mut one, &mut list)?;
    let hop = 2;
    let (only4, only6) = (
        Prefix4::around(0xCB00_7100, 24),
        Prefix6::around(0x2001_0DB8 << 96, 48),
    );
    let ops = one
        .announce4(only4, NextHopId(hop))
        .map_err(|error| error.to_string())?;
    list.extend(words(ops));
    let ops = one
        .announce6(only6, NextHopId(hop))
        .map_err(|error| error.to_string())?;
    list.extend(words(ops));
    drive.writes.extend(list.iter().copied());
    drive.finish_writes()?;
    let alone = measure(&mut drive, frames, |v6| {
        let to = if v6 {
            Address::V6(only6.addr() | u128::from(rng.random::<u64>()))
        } else {
            Address::V4(only4.addr() | u32::from(rng.random::<u8>()))
        };
        (to, hop)
    })?;

    // The routes go; the table's words are written over zeros.
    let ops = one.withdraw4(only4).map_err(|error| error.to_string())?;
    drive.writes.extend(words(ops));
    let ops = one.withdraw6(only6).map_err(|error| error.to_string())?;
    drive.writes.extend(words(ops));
    drive.finish_writes()?;
    let image = one.image();
    for memory in Memory::ALL
        .into_iter()
        .filter(|&memory| memory != Memory::NextHop)
    {
        for address in 0..image.depth(memory) {
            if image.read(memory, address) != [0; 3] {
                drive.writes.push_back(SwitchWrite {
                    memory: memory.id(),
                    address,
                    data: [0; 3],
                });
            }
        }
    }
    let mut routes = Routes::new(&source.table(rng.random())?, &mut rng)?;
    let image = routes.fib.image();
    for memory in Memory::ALL
        .into_iter()
        .filter(|&memory| memory != Memory::NextHop)
    {
        for address in 0..image.depth(memory) {
            let data = image.read(memory, address);
            if data != [0; 3] {
                drive.writes.push_back(SwitchWrite {
                    memory: memory.id(),
                    address,
                    data,
                });
            }
        }
    }
    let count = drive.writes.len();
    drive.finish_writes()?;
    let full = measure(&mut drive, frames, |v6| {
        routes.forwarded(v6, PORTS as u8, &mut rng)
    })?;
    if alone != full
        || alone
            .iter()
            .any(|latency| latency.is_none_or(|(least, most)| least != most))
    {
        return Err(format!(
            "latencies in bytes are {alone:?} with one route and {full:?} with the table"
        ));
    }
    let cycles = alone.map(|latency| latency.map_or(0, |(least, _)| least / drive.bytes_a_cycle()));
    let [count4, count6] = routes.count();
    Ok(format!(
        "{}: 64 to 9216 bytes take {} cycles (IPv4) and {} (IPv6) with one route and with {count4} + \
         {count6}; {frames} frames each, {count} words loaded, {:.1} s",
        source.name(),
        cycles[0],
        cycles[1],
        started.elapsed().as_secs_f64()
    ))
}
