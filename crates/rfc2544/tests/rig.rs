// SPDX-License-Identifier: Apache-2.0
//! The instrument in RTL on the switch in RTL.

use fib::synth::Table;
use ipnuma_rtl::NetSpeed;
use rfc2544::{
    Destinations, FRAME_SIZES, Family, Instrument, Load, SWEEP_FROM, Stream, SwitchRig, Traffic,
    congestion, latency, sweep, throughput,
};

fn rig(speed: NetSpeed) -> SwitchRig {
    SwitchRig::new(speed).expect("the rig is built")
}

/// All four ports at the line rate both ways.
fn line_rate(speed: NetSpeed) {
    let mut rig = rig(speed);
    for (family, size) in [(Family::V4, 64), (Family::V6, 80), (Family::V4, 1518)] {
        let traffic = Traffic::ring(&rig, 4, family, size, 60);
        let found = throughput(&mut rig, &traffic).expect("it runs");
        assert_eq!(found.load, Load::FULL, "{speed:?} {family:?} {size}");
        let line_rate = rig.line().most_frames_per_second(size) as f64;
        assert!((found.frames_per_second / line_rate - 1.0).abs() < 0.02);
        let found = latency(&mut rig, &traffic, Load::FULL).expect("it runs");
        assert_eq!((found.frames, found.lost, found.outside), (240, 0, 0));
        let histogram: u64 = found.histogram.iter().map(|&(_, frames)| frames).sum();
        assert_eq!(histogram, 240);
    }
}

/// One latency for every size of frame and of table, within the goals of the design.
fn constant(speed: NetSpeed, bounds: [u64; 2]) {
    let mut rig = rig(speed);
    let table = Table::synthetic(5, 2_000, 400);
    for (family, bound) in [Family::V4, Family::V6].into_iter().zip(bounds) {
        let mut all = Vec::new();
        for size in FRAME_SIZES {
            let traffic = Traffic::one(&rig, (0, 2), family, size, 3);
            // Frames far apart find the clock of 10G in the same phase.
            let slow = Load::permille(500).expect("half");
            let found = latency(&mut rig, &traffic, slow).expect("it runs");
            assert!(
                found.is_constant(),
                "{speed:?} {family:?} {size}: {found:?}"
            );
            all.push(found.min);
        }
        println!("{speed:?} {family:?}: {all:?} ticks");
        assert!(all.iter().all(|&ticks| ticks == all[0]), "{all:?}");
        let cycles = rig.line().cycles(all[0] as f64);
        assert!(
            cycles <= bound as f64,
            "{speed:?} {family:?}: {cycles} cycles"
        );
    }
    let loaded = rig.load(&table, 5).expect("it is written");
    assert_eq!(
        (loaded.routes4, loaded.routes6, loaded.refused),
        (2_004, 404, 0)
    );
    for family in [Family::V4, Family::V6] {
        let addresses = rig.addresses(&table, family, 300, 5);
        assert!(addresses.len() > 250, "{} addresses", addresses.len());
        let found = sweep(&mut rig, SWEEP_FROM, family, 64, &addresses).expect("it runs");
        assert!(found.is_constant(), "{speed:?} {family:?}: {found:?}");
        assert_eq!(found.by_port[SWEEP_FROM], 0);
        assert!(found.by_port[1..].iter().all(|&count| count > 20));
    }
}

/// Frames of an input that may wait for an output: `Waiting` of the switch.
const WAITING: f64 = 4.0;

fn loss(speed: NetSpeed) {
    let mut rig = rig(speed);
    let traffic = Traffic::many_to_one(&rig, 4, 1, Family::V4, 64, 600);
    let found = congestion(&mut rig, &traffic).expect("it runs");
    println!("{speed:?}: {found:?}");
    // Two thirds, less the frames of each input that wait when the last have been sent, one more or less of each.
    let least = 100.0 * (2.0 / 3.0 - 3.0 * (WAITING + 1.0) / 1800.0);
    let most = 100.0 * (2.0 / 3.0 - 3.0 * (WAITING - 1.0) / 1800.0);
    assert!(
        (least - 1e-6..=most + 1e-6).contains(&found.loss_percent),
        "{found:?}"
    );
    assert!(found.is_accounted(), "{found:?}");
    assert!(found.spread_percent() < 1.0, "{found:?}");
}

#[test]
fn line_rate_at_10g() {
    line_rate(NetSpeed::TenGig);
}

#[test]
fn line_rate_at_1g() {
    line_rate(NetSpeed::OneGig);
}

#[test]
fn constant_at_10g() {
    constant(NetSpeed::TenGig, [16, 24]);
}

#[test]
fn constant_at_1g() {
    constant(NetSpeed::OneGig, [54, 72]);
}

#[test]
fn congestion_at_10g() {
    loss(NetSpeed::TenGig);
}

#[test]
fn congestion_at_1g() {
    loss(NetSpeed::OneGig);
}

#[test]
fn what_the_instrument_cannot_send_is_refused() {
    let mut rig = rig(NetSpeed::TenGig);
    let good = Stream {
        from: 0,
        to: Destinations::Port(1),
        family: Family::V6,
        size: 80,
        frames: 1,
        spacing: rig.line().spacing(80, Load::FULL),
    };
    let refused = |rig: &mut SwitchRig, stream: &Stream| {
        let error = rig.configure(stream).expect_err("it is wrong");
        error.to_string()
    };
    let small = Stream {
        size: 64,
        ..good.clone()
    };
    assert_eq!(
        refused(&mut rig, &small),
        "frames of 64 bytes can't be sent; choose 80 to 9216 for IPv6"
    );
    let none = Stream {
        frames: 0,
        ..good.clone()
    };
    assert!(refused(&mut rig, &none).contains("0 frames"));
    let long = Stream {
        to: Destinations::V6(vec![rfc2544::host6(1); 1025]),
        ..good.clone()
    };
    assert!(refused(&mut rig, &long).contains("1024"));
    rig.configure(&good).expect("it is right");
    rig.run().expect("it runs");
    assert_eq!(rig.sent(0).expect("a register"), 1);
    assert_eq!(rig.counts(0, 1).expect("registers").frames, 1);
    assert_eq!(rig.counts(0, 2).expect("registers").frames, 0);
}
