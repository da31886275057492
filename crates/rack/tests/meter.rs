// SPDX-License-Identifier: Apache-2.0
//! The bus meter finds the constants of the platform again.

use rack::meter::{Experiment, measure, measure_with};
use rack::platform::Platform;

#[test]
fn the_meter_finds_the_constants() {
    let platform = Platform::load("keio-2016").expect("built in");
    for (link, experiment, bytes, ns, tolerance) in [
        ("Gen2x8", Experiment::DmaRead, 4, 467.0, 2.0),
        ("Gen2x8", Experiment::DmaWrite, 64, 21.0, 1.0),
        ("Gen2x4", Experiment::CpuWrite, 4, 224.0, 1.0),
        ("Gen1x1", Experiment::CpuWrite, 64, 6_190.0, 15.0),
        ("Gen2x8", Experiment::CpuRead, 4, 1_731.0, 8.0),
        ("Gen1x1", Experiment::CombinedWrite, 64, 335.0, 2.0),
        ("Gen2x8", Experiment::CombinedWrite, 64, 21.0, 1.0),
        ("Gen2x4", Experiment::CombinedWrite, 4, 12.0, 1.1),
    ] {
        let link = link.parse().expect("a link");
        let found = measure(&platform, link, experiment, bytes).expect("it runs");
        let difference = (found.as_ns() - ns).abs();
        println!("{link} {experiment:?} {bytes} bytes: {found}, table {ns} ns");
        assert!(
            difference <= tolerance,
            "{link} {experiment:?} {bytes}: {found}"
        );
    }
}

#[test]
fn skipping_changes_nothing() {
    let platform = Platform::load("keio-2016").expect("built in");
    for (link, experiment) in [
        ("Gen2x4", Experiment::CpuRead),
        ("Gen2x8", Experiment::DmaRead),
    ] {
        let link = link.parse().expect("a link");
        let run = |skip| measure_with(&platform, link, experiment, 4, skip).expect("it runs");
        assert_eq!(run(true), run(false));
    }
}
