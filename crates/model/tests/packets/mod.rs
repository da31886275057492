// SPDX-License-Identifier: Apache-2.0
//! Packets by hand, and a switch with four ports to give them to. Nothing here uses the formats of the code under test.

use std::net::{Ipv4Addr, Ipv6Addr};

use model::switch::{
    Media, NextHop, Outcome, Port, SwitchConfig, SwitchModel, Target, Verdict, fcs,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const STATION: [u8; 6] = [2, 0, 0, 0, 2, 0];
pub const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 3, 1];

pub fn port_mac(port: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, port]
}

/// Four ports; 192.0.2.0/24 and 2001:db8:2::/48 by port 2, special routes beside them.
pub fn switch() -> SwitchModel {
    switch_of(Media::Xgmii)
}

pub fn switch_of(media: Media) -> SwitchModel {
    let config = SwitchConfig {
        media,
        ..SwitchConfig::default()
    };
    let mut switch = SwitchModel::new(config);
    for port in 0..4 {
        let settings = Port {
            mac: port_mac(port),
            mtu: 1500,
            ..Port::default()
        };
        switch.set_port(port, settings);
    }
    let hop = |target, mac| Some(NextHop { target, mac });
    switch.set_next_hop(1, hop(Target::Host, None));
    switch.set_next_hop(2, hop(Target::Discard, None));
    switch.set_next_hop(3, hop(Target::Port(2), Some(NEIGHBOUR)));
    switch.set_next_hop(4, hop(Target::Port(2), None));
    switch.set_next_hop(5, hop(Target::Port(4), Some(NEIGHBOUR)));
    let v4 = |text: &str| u32::from(text.parse::<Ipv4Addr>().unwrap());
    let v6 = |text: &str| u128::from(text.parse::<Ipv6Addr>().unwrap());
    switch.set_route4(v4("192.0.2.0"), 24, Some(3));
    switch.set_route4(v4("192.0.2.128"), 32, Some(1));
    switch.set_route4(v4("192.0.2.129"), 32, Some(2));
    switch.set_route4(v4("192.0.2.130"), 32, Some(4));
    switch.set_route4(v4("192.0.2.131"), 32, Some(5));
    switch.set_route6(v6("2001:db8:2::"), 48, Some(3));
    switch.set_route6(v6("2001:db8:2::80"), 128, Some(1));
    switch
}

/// An IP packet in the making.
#[derive(Clone)]
pub struct Ip {
    pub frame: Vec<u8>,
    /// Put the right checksum in.
    pub sum: bool,
}

impl Ip {
    pub fn v4(src: &str, dst: &str) -> Self {
        let mut frame = [&port_mac(1)[..], &STATION, &[0x08, 0x00]].concat();
        frame.extend([0x45, 0, 0, 46, 0x12, 0x34, 0, 0, 64, 17, 0, 0]);
        frame.extend(src.parse::<Ipv4Addr>().unwrap().octets());
        frame.extend(dst.parse::<Ipv4Addr>().unwrap().octets());
        frame.extend([0x30, 0x39, 0, 7, 0, 26, 0, 0]); // UDP from 12345 to 7
        frame.extend(0..18);
        Self { frame, sum: true }
    }

    pub fn v6(src: &str, dst: &str) -> Self {
        let mut frame = [&port_mac(1)[..], &STATION, &[0x86, 0xDD]].concat();
        frame.extend([0x60, 0, 0, 0, 0, 26, 17, 64]);
        frame.extend(src.parse::<Ipv6Addr>().unwrap().octets());
        frame.extend(dst.parse::<Ipv6Addr>().unwrap().octets());
        frame.extend([0x30, 0x39, 0, 7, 0, 26, 0, 0]);
        frame.extend(0..18);
        Self { frame, sum: true }
    }

    /// Sets a byte of the IP header.
    pub fn with(mut self, at: usize, value: u8) -> Self {
        self.frame[14 + at] = value;
        self
    }

    /// Sets the frame's length without FCS, and the packet's if it is IPv4.
    pub fn sized(mut self, bytes: usize) -> Self {
        self.frame.resize(bytes, 0x5A);
        let v4 = self.frame[12] == 8;
        let (at, length) = if v4 {
            (16, bytes - 14)
        } else {
            (18, bytes - 54)
        };
        self.frame[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        self
    }

    pub fn body(mut self) -> Vec<u8> {
        if self.frame[12] == 8 && self.sum {
            self.frame[24..26].fill(0);
            let sum = !sum16(&self.frame[14..34]);
            self.frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        self.frame
    }

    pub fn frame(self) -> Vec<u8> {
        with_fcs(self.body())
    }
}

/// RFC 1071.
pub fn sum16(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

pub fn with_fcs(mut body: Vec<u8>) -> Vec<u8> {
    let sum = fcs(&body);
    body.extend(sum);
    body
}

pub fn forward(ip: Ip) -> Outcome {
    switch().forward(1, &ip.frame(), false).unwrap()
}

pub fn verdict(ip: Ip) -> Verdict {
    forward(ip).verdict
}

pub fn good4() -> Ip {
    Ip::v4("198.51.100.1", "192.0.2.1")
}

pub fn good6() -> Ip {
    Ip::v6("2001:db8:1::1", "2001:db8:2::1")
}

pub fn seeded() -> ChaCha8Rng {
    let seed = match std::env::var("IPNUMA_SEED") {
        Ok(text) => text.parse().expect("IPNUMA_SEED is a number"),
        Err(_) => rand::rng().random(),
    };
    println!("IPNUMA_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}
