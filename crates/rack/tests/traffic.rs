// SPDX-License-Identifier: Apache-2.0
//! Programs other than ping-pong on two RTL NICs: floods against back-pressure, and remote loads.

use std::future::Future;

use rack::NetSpeed;
use rack::Picoseconds;
use rack::host::{BAR2, HostApi};
use rack::pingpong::{KEY, PC_ID, REGION};
use rack::platform::Platform;
use rack::rack::{HostSetup, Rack};
use rack::run::rtl;
use rack::setup::{NicConfig, Pages, Peer, Region, Session, configure};
use rack::topology::End;

/// When both NICs are configured.
const START: Picoseconds = Picoseconds::from_us(50);

fn config(own: u64, peer: u64) -> NicConfig {
    NicConfig {
        mac: 0x0200_0000_0000 | own,
        ip: 0x0A00_0000 | own as u32,
        netmask: 0xFFFF_FF00,
        gateway: None,
        merge: false,
        registers: Vec::new(),
        peers: vec![Peer {
            pc_id: PC_ID,
            mac: 0x0200_0000_0000 | peer,
            ip: 0x0A00_0000 | peer as u32,
            compact: true,
            session: Some(Session {
                index: PC_ID as u8,
                keys: None,
            }),
            region: Some(Region {
                key: KEY,
                base: REGION,
                bytes: 4096,
                notify: false,
            }),
            pages: Some(Pages {
                first: 0,
                count: 1,
                key: KEY,
            }),
        }],
    }
}

/// Two hosts with a cable; the first runs `program`, the second only configures its NIC and waits until `end`.
fn two_hosts<F>(
    speed: NetSpeed,
    link: &str,
    end: Picoseconds,
    program: impl FnOnce(HostApi) -> F,
) -> Rack
where
    F: Future<Output = Result<(), String>> + 'static,
{
    let platform = Platform::load("keio-2016").expect("built in");
    let link = link.parse().expect("a link");
    let mut rack = Rack::new(true);
    rack.record.keep = 100_000;
    for (number, phase) in [(0, 100), (1, 2_300)] {
        rack.add_host(HostSetup {
            name: format!("pc{number}"),
            timing: platform.host_timing(link).expect("in the tables"),
            model: rtl(speed).expect("the RTL is built"),
            phases: (Picoseconds(phase), Picoseconds(phase / 2)),
        })
        .expect("the NIC comes out of reset");
    }
    rack.cable([End::Host(0), End::Host(1)], [Picoseconds::from_ns(305); 2]);
    let api = rack.host(0).api();
    let own = program(api.clone());
    rack.host(0).run(Box::pin(async move {
        configure(&api, &config(1, 2)).await;
        api.sleep_until(START).await;
        own.await
    }));
    let api = rack.host(1).api();
    rack.host(1).run(Box::pin(async move {
        configure(&api, &config(2, 1)).await;
        api.sleep_until(end).await;
        Ok(())
    }));
    rack.start();
    rack.run().expect("the run ends");
    rack
}

#[test]
fn a_flood_is_held_back_and_not_lost() {
    const LINES: u64 = 2_000;
    // The core issues a line every 21 ns; a frame of 120 bytes, its preamble and its gap are 140 byte times.
    for (speed, line_ns) in [(NetSpeed::TenGig, 112), (NetSpeed::OneGig, 1_120)] {
        let end = START + Picoseconds::from_us(LINES * 2 * line_ns / 1_000 + 100);
        let rack = two_hosts(speed, "Gen2x8", end, async |api: HostApi| {
            for line in 0..LINES {
                let data: Vec<u8> = (0..16)
                    .flat_map(|dw| ((line << 8 | dw) as u32).to_le_bytes())
                    .collect();
                api.store_combined(BAR2 + line * 64 % 4096, &data).await;
            }
            Ok(())
        });
        // DMA writes at the second NIC: all of them, in the order of the stores, with their data.
        let writes: Vec<_> = rack
            .record
            .tlps
            .iter()
            .filter(|tlp| !tlp.to_nic && tlp.nic == Rack::ids(1).1)
            .collect();
        assert_eq!(writes.len() as u64, LINES, "{speed:?}");
        for (line, tlp) in (0..).zip(&writes) {
            let first = u32::from_le_bytes(tlp.bytes[12..16].try_into().expect("4 bytes"));
            assert_eq!(u64::from(first), line << 8, "{speed:?}");
            let address = u32::from_be_bytes(tlp.bytes[8..12].try_into().expect("4 bytes"));
            assert_eq!(u64::from(address), REGION + line * 64 % 4096);
        }
        let span = writes[writes.len() - 1].beats.0 - writes[0].beats.0;
        let each = span.as_ns() / (LINES - 1) as f64;
        println!("{speed:?}: a line of 64 bytes every {each:.1} ns");
        // Line rate, with no gap longer than it must be.
        assert!(
            (each / line_ns as f64 - 1.0).abs() < 0.002,
            "{speed:?}: {each} ns"
        );
    }
}

#[test]
fn remote_loads_come_back() {
    for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
        let end = START + Picoseconds::from_us(2_000);
        two_hosts(speed, "Gen2x4", end, async |api: HostApi| {
            for round in 0..20_u32 {
                let bytes = 4 * (1 + round as usize % 16);
                let data: Vec<u8> = (0..bytes as u32)
                    .map(|byte| (byte * 7 + round) as u8)
                    .collect();
                let address = BAR2 + u64::from(round) * 128;
                api.store_combined(address, &data).await;
                api.fence().await;
                let found = api.load(address, bytes).await;
                if found != data {
                    return Err(format!("round {round}: {found:02x?} and not {data:02x?}"));
                }
            }
            Ok(())
        });
    }
}
