// SPDX-License-Identifier: Apache-2.0
//! What a packet costs on the bus, the conventional ways: the counts of figures 3.5 and 3.6.

use ipnuma_rtl::{NetSpeed, Nic};
use rack::model::{Meter, NicModel, PCIE_PERIOD};
use rack::platform::Platform;
use rack::sending::{Sending, Way, send};

fn run(way: Way, model: Box<dyn NicModel>, packets: u32, bytes: usize) -> Sending {
    let platform = Platform::load("keio-2016").expect("built in");
    let link = "Gen2x4".parse().expect("a link");
    send(&platform, link, way, model, packets, bytes).expect("it runs")
}

fn ring(speed: NetSpeed, packets: u32, bytes: usize) -> Sending {
    let model = Nic::ring(speed).expect("it is built");
    run(Way::Ring, Box::new(model), packets, bytes)
}

#[test]
fn a_ring_takes_four_accesses_and_more_for_long_packets() {
    for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
        for (bytes, reads) in [(64, 2), (512, 2), (1514, 4)] {
            let sent = ring(speed, 5, bytes);
            let bus = sent.accesses;
            assert_eq!(
                (bus.cpu_read, bus.cpu_write, bus.dma_read, bus.dma_write),
                (5, 5, 5 * reads, 0),
                "{speed:?}, {bytes} bytes"
            );
            assert_eq!(sent.times.len(), 5);
            println!("{speed:?}, {bytes} bytes: {} to the wire", sent.times[4]);
        }
    }
}

#[test]
fn a_ring_goes_round() {
    let sent = ring(NetSpeed::TenGig, 300, 64);
    assert_eq!(sent.times.len(), 300);
    assert_eq!(sent.accesses.dma_read, 600);
    assert_eq!(sent, ring(NetSpeed::TenGig, 300, 64), "runs are alike");
}

#[test]
fn rdma_takes_two_accesses() {
    let sent = run(
        Way::Rdma,
        Box::new(Meter::new(PCIE_PERIOD).expect("the meter is built")),
        5,
        64,
    );
    let bus = sent.accesses;
    assert_eq!(
        (bus.cpu_read, bus.cpu_write, bus.dma_read, bus.dma_write),
        (0, 5, 5, 0)
    );
}
