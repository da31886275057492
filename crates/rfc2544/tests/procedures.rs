// SPDX-License-Identifier: Apache-2.0
//! The procedures find what was put into the fake.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rfc2544::fake::{Device, Fake};
use rfc2544::{
    Error, FRAME_SIZES, Family, Instrument, Line, Load, Traffic, back_to_back, congestion, latency,
    loss_rate, sweep, throughput,
};

fn ring(fake: &Fake, frames: u64) -> Traffic {
    Traffic::ring(fake, fake.ports(), Family::V4, 64, frames)
}

fn permille(permille: u32) -> Load {
    Load::permille(permille).expect("at most 1000")
}

#[test]
fn a_device_at_line_rate_takes_one_trial() {
    for size in FRAME_SIZES {
        let mut fake = Fake::default();
        let traffic = Traffic::ring(&fake, 4, Family::V4, size, 50);
        let found = throughput(&mut fake, &traffic).expect("it runs");
        assert_eq!((found.load, found.trials), (Load::FULL, 1));
        let published = Line::ONE_GIG.most_frames_per_second(size);
        assert_eq!(found.frames_per_second.floor(), published as f64);
        let found = latency(&mut fake, &traffic, found.load).expect("it runs");
        // Preamble and frame are stored, then the device's own 100 byte times; two ticks each.
        let expected = 2 * (8 + size as u64 + 100);
        assert_eq!((found.min, found.max), (expected, expected));
        assert_eq!(found.histogram, [(expected, 200)]);
        assert_eq!((found.frames, found.lost), (200, 0));
    }
}

#[test]
fn cut_through_does_not_depend_on_the_size() {
    for size in FRAME_SIZES {
        let mut fake = Fake::new(Device {
            store_and_forward: false,
            ..Device::default()
        });
        let traffic = Traffic::one(&fake, (0, 1), Family::V6, size, 10);
        let found = latency(&mut fake, &traffic, Load::FULL).expect("it runs");
        assert_eq!(found.ns(Line::ONE_GIG), [800.0; 3]);
    }
}

#[test]
fn a_slow_device_is_found_to_a_thousandth() {
    // An output that needs 5/4 of a frame's time forwards 80 %.
    let mut fake = Fake::new(Device {
        pace_permille: 1250,
        queue: 0,
        ..Device::default()
    });
    let traffic = ring(&fake, 4_000);
    let found = throughput(&mut fake, &traffic).expect("it runs");
    assert_eq!(found.load, permille(800));
    assert!(found.trials >= 10, "a search, not a guess");
    let expected = 0.8 * 125e6 / 84.0;
    assert!((found.frames_per_second / expected - 1.0).abs() < 1e-3);
    let steps = loss_rate(&mut fake, &traffic).expect("it runs").steps;
    let loads: Vec<_> = steps.iter().map(|step| step.load.as_permille()).collect();
    assert_eq!(loads, [1000, 900, 800, 700], "two without loss end it");
    // Without a queue every frame that meets another one is lost: at the line rate every second.
    assert_eq!(steps[0].loss_percent, 50.0);
    assert!(steps[1].loss_percent > 0.0);
    assert_eq!((steps[2].lost, steps[3].lost), (0, 0));
}

#[test]
fn loss_is_the_excess_when_there_is_a_queue() {
    let mut fake = Fake::new(Device {
        pace_permille: 1250,
        queue: 4,
        ..Device::default()
    });
    let traffic = ring(&fake, 4_000);
    let steps = loss_rate(&mut fake, &traffic).expect("it runs").steps;
    assert!((steps[0].loss_percent - 20.0).abs() < 0.2, "{steps:?}");
    let excess = 100.0 * (1.0 - 0.8 / 0.9);
    assert!((steps[1].loss_percent - excess).abs() < 0.2, "{steps:?}");
}

#[test]
fn bursts_as_long_as_the_queue_allows() {
    // Frame k is there at k and leaves at 5k/4: those before it that wait are k - 1 - floor(4k/5).
    let queue = 2;
    let lost = |k: u64| (k - 1) - 4 * k / 5 >= queue;
    let expected = (1..).find(|&k| lost(k)).expect("the queue is finite");
    let mut fake = Fake::new(Device {
        pace_permille: 1250,
        queue: queue as usize,
        ..Device::default()
    });
    let traffic = ring(&fake, 1_000);
    let found = back_to_back(&mut fake, &traffic).expect("it runs");
    assert_eq!((found.frames, found.longest_tried), (expected, false));
    let mut fake = Fake::default();
    let found = back_to_back(&mut fake, &traffic).expect("it runs");
    assert_eq!(
        (found.frames, found.longest_tried, found.trials),
        (1_000, true, 1)
    );
}

#[test]
fn loss_at_every_load_is_no_throughput() {
    let mut fake = Fake::new(Device {
        lose_every: 100,
        ..Device::default()
    });
    let traffic = ring(&fake, 1_000);
    let found = throughput(&mut fake, &traffic).expect("it runs");
    assert_eq!(found.load, permille(0));
    let steps = loss_rate(&mut fake, &traffic).expect("it runs").steps;
    assert_eq!(steps.len(), 10);
    assert!(steps.iter().all(|step| step.loss_percent == 1.0));
    let found = latency(&mut fake, &traffic, Load::FULL).expect("it runs");
    assert_eq!((found.frames, found.lost), (3_960, 40));
}

#[test]
fn latency_is_not_only_a_mean() {
    let mut fake = Fake::new(Device {
        slow_every: 4,
        ..Device::default()
    });
    let half = permille(500);
    let traffic = Traffic::one(&fake, (2, 0), Family::V4, 64, 100);
    let found = latency(&mut fake, &traffic, half).expect("it runs");
    assert_eq!((found.min, found.max), (344, 358));
    assert_eq!(found.mean, 347.5);
    assert_eq!(found.histogram, [(344, 75), (358, 25)]);
    assert!(!found.is_constant());
}

/// Addresses 192.0.2.0 and up, in turn to ports 1, 2 and 3.
fn routes4(count: u8) -> Vec<(IpAddr, usize)> {
    (0..count)
        .map(|n| {
            (
                IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)),
                1 + usize::from(n) % 3,
            )
        })
        .collect()
}

#[test]
fn a_sweep_visits_every_route() {
    let addresses = routes4(35);
    let mut fake = Fake::new(Device {
        routes: addresses.iter().copied().collect(),
        ..Device::default()
    });
    let found = sweep(&mut fake, 0, Family::V4, 64, &addresses).expect("it runs");
    assert_eq!(found.addresses, 35);
    assert_eq!(found.by_port, [0, 12, 12, 11]);
    assert_eq!(found.all_routes.frames, 35);
    assert!(found.is_constant());
    assert_eq!(fake.trials(), 1 + 4, "ten addresses at a time");
}

#[test]
fn a_sweep_finds_one_slow_route_and_one_wrong_one() {
    let addresses = routes4(30);
    let routes: std::collections::BTreeMap<_, _> = addresses.iter().copied().collect();
    let mut slow = Fake::new(Device {
        routes: routes.clone(),
        slow_every: 10,
        ..Device::default()
    });
    let found = sweep(&mut slow, 0, Family::V4, 64, &addresses).expect("it runs");
    assert!(!found.is_constant());
    let mut wrong = Fake::new(Device {
        routes,
        ..Device::default()
    });
    wrong.device.routes.insert(addresses[20].0, 1);
    let error = sweep(&mut wrong, 0, Family::V4, 64, &addresses).expect_err("a wrong port");
    assert_eq!(
        error.to_string(),
        "frames of port 0 at port 1: 1 more than have a route there; the device under test is at fault"
    );
    wrong.device.routes.remove(&addresses[20].0);
    let error = sweep(&mut wrong, 0, Family::V4, 64, &addresses).expect_err("a missing route");
    assert!(
        matches!(
            error,
            Error::Damage {
                to: 3,
                count: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_sweep_is_of_one_family() {
    let mut fake = Fake::default();
    let error = sweep(&mut fake, 0, Family::V6, 64, &routes4(1)).expect_err("IPv4 addresses");
    assert!(error.to_string().contains("192.0.2.0 is no IPv6 address"));
    let error = sweep(&mut fake, 0, Family::V6, 64, &[]).expect_err("no addresses");
    assert!(matches!(error, Error::Stream(_)), "{error}");
    let address = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    fake.device.routes.insert(address, 3);
    let found = sweep(&mut fake, 0, Family::V6, 64, &[(address, 3)]).expect("it runs");
    assert_eq!(found.frames_per_second.floor(), 1_250_000.0, "80 bytes");
}

#[test]
fn three_into_one_lose_two_thirds() {
    let mut fake = Fake::default();
    let traffic = Traffic::many_to_one(&fake, 4, 3, Family::V4, 64, 3_000);
    assert_eq!(traffic.flows, [(0, 3), (1, 3), (2, 3)]);
    let found = congestion(&mut fake, &traffic).expect("it runs");
    assert!((found.loss_percent - 66.666).abs() < 0.1, "{found:?}");
    assert!(found.is_accounted());
    assert!(found.spread_percent() < 1.0, "{found:?}");
    let full = Line::ONE_GIG.most_frames_per_second(64) as f64;
    assert!((found.frames_per_second / full - 1.0).abs() < 1e-3);
    fake.device.lose_every = 7;
    let found = congestion(&mut fake, &traffic).expect("it runs");
    assert!(!found.is_accounted(), "losses the device did not count");
}

#[test]
fn what_must_not_happen_is_an_error() {
    let mut fake = Fake::new(Device {
        damage_every: 50,
        ..Device::default()
    });
    let traffic = Traffic::one(&fake, (1, 2), Family::V4, 64, 100);
    let error = throughput(&mut fake, &traffic).expect_err("damage");
    assert_eq!(
        error.to_string(),
        "frames of port 1 at port 2: 2 with a wrong payload; the device under test is at fault"
    );
    let mut fake = Fake::new(Device {
        lose_every: 1,
        ..Device::default()
    });
    let error = latency(&mut fake, &traffic, Load::FULL).expect_err("nothing arrives");
    assert!(matches!(
        error,
        Error::Nothing {
            from: 1,
            sent: 100,
            size: 64
        }
    ));
}
