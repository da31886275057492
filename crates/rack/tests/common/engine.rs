// SPDX-License-Identifier: Apache-2.0
//! The TCP offload engine in RTL at a bench: IP packets in and out, cycle by cycle.

#![allow(dead_code)] // each test uses a part

use ipnuma_rtl::{NetSpeed, NetWord};
use offload::frame::Socket;
use rack::Picoseconds;
use rack::engine::pins::{Addresses, Cycle, Pins};
use rack::engine::sockets::Accept;
use rack::frame::{FCS_BYTES, Framer, words};

pub const SPEED: NetSpeed = NetSpeed::TenGig;
pub const PERIOD: Picoseconds = Picoseconds(SPEED.net_period_ps());
pub const ADDRESS: [u8; 4] = [10, 0, 0, 1];
const MAC: u64 = 0x0200_0000_0001;
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];

/// The words of a packet's frame, with the gap behind it.
pub fn frame_words(packet: &[u8]) -> Vec<NetWord> {
    words(SPEED, &[&ETHERNET, packet].concat())
}

/// A port of the engine.
pub const fn at(port: u16) -> Socket {
    Socket {
        address: ADDRESS,
        port,
    }
}

/// The engine at the other end of a cable without length.
pub struct Rtl {
    pub pins: Pins,
    pub now: Picoseconds,
    framer: Framer,
    /// IP packets that it sent.
    pub sent: Vec<Vec<u8>>,
}

impl Rtl {
    /// Its services listen.
    pub fn new(secret: u64, services: Vec<(u16, Accept)>) -> Self {
        let addresses = Addresses {
            mac: MAC,
            ip: u32::from_be_bytes(ADDRESS),
            secret,
        };
        let mut rtl = Self {
            pins: Pins::new(addresses, services).expect("the model is there"),
            now: Picoseconds::from_us(1),
            framer: Framer::default(),
            sent: Vec::new(),
        };
        rtl.run(40);
        rtl
    }

    /// One cycle; the time is that of its edge.
    pub fn cycle(&mut self, word: NetWord) -> Cycle {
        self.now += PERIOD;
        let cycle = self.pins.cycle(self.now, word);
        let cycle = cycle.unwrap_or_else(|error| panic!("{error}"));
        if let Some(frame) = self.framer.word(self.now, cycle.word) {
            let (bytes, fcs) = frame.bytes.split_at(frame.bytes.len() - FCS_BYTES);
            assert_eq!(wire::fcs(bytes), fcs);
            let packet = &bytes[ETHERNET.len()..];
            let length = usize::from(packet[2]) << 8 | usize::from(packet[3]);
            self.sent.push(packet[..length].to_vec());
        }
        cycle
    }

    /// Cycles without a word.
    pub fn run(&mut self, cycles: u64) {
        for _ in 0..cycles {
            self.cycle(SPEED.idle());
        }
    }

    /// A packet arrives.
    pub fn arrive(&mut self, packet: &[u8]) {
        for word in frame_words(packet) {
            self.cycle(word);
        }
    }
}
