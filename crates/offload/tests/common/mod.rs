// SPDX-License-Identifier: Apache-2.0
//! What tests with real packets share: addresses, seeds, and transfers over a cable with faults.

#![allow(dead_code)] // each test uses a part

use offload::client::{Client, File};
use offload::endpoint::{GAPS, Listening, State};
use offload::frame::Socket;
use offload::link::{Faults, Link};
use offload::node::Node;
use offload::peer::Peer;
use offload::{Hardware, Picoseconds, Policy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const ENGINE: Socket = Socket {
    address: [10, 0, 0, 1],
    port: 5001,
};
pub const OTHER: Socket = Socket {
    address: [10, 0, 0, 2],
    port: 40_000,
};

/// `IPNUMA_SEED`, or one for all.
pub fn seed() -> u64 {
    let seed = match std::env::var("IPNUMA_SEED") {
        Ok(text) => text.parse().expect("IPNUMA_SEED is a number"),
        Err(_) => 1,
    };
    println!("IPNUMA_SEED={seed}");
    seed
}

pub fn file(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    ChaCha8Rng::seed_from_u64(seed).fill(&mut data[..]);
    data
}

pub fn listening(window: u32, mss: u16, iss: u32) -> Listening {
    Listening {
        local: ENGINE,
        window,
        mss,
        iss,
        delay: true,
        gaps: GAPS,
    }
}

/// Virtual time after which a transfer hangs.
const LIMIT: Picoseconds = Picoseconds::from_us(600_000_000);
const DELAY: Picoseconds = Picoseconds::from_us(10);

/// How a transfer is made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub policy: Policy,
    pub faults: Faults,
    pub mtu: usize,
    pub window: u32,
    pub bytes: usize,
    pub seed: u64,
}

fn node(setup: &Setup) -> Node {
    let iss = ChaCha8Rng::seed_from_u64(setup.seed).random();
    let mss = setup.mtu as u16 - 40;
    Node::new(
        Hardware::OURS,
        setup.policy,
        listening(setup.window, mss, iss),
    )
}

/// Moves what a node has sent, and what has arrived for it.
fn carry(now: Picoseconds, node: &mut Node, to: &mut Link, from: &mut Link, got: &mut Vec<u8>) {
    while let Some(packet) = to.receive(now) {
        node.arrive(now, packet);
    }
    node.step(now);
    got.extend(node.take(now));
    for (time, packet) in node.transmit() {
        from.send(time.max(now), packet);
    }
}

/// smoltcp sends a file to the engine; what the engine's application got.
pub fn smoltcp_to_engine(setup: &Setup) -> Vec<u8> {
    let data = file(setup.bytes, setup.seed);
    let mut peer = Peer::new(OTHER, setup.mtu, 1 << 17, setup.seed);
    peer.connect(ENGINE).expect("nothing is in the way");
    let mut node = node(setup);
    let mut to = Link::new(DELAY, setup.faults, setup.seed);
    let mut from = Link::new(DELAY, setup.faults, setup.seed + 1);
    let (mut sent, mut got) = (0, Vec::new());
    let mut now = Picoseconds::ZERO;
    let mut closed = false;
    loop {
        carry(now, &mut node, &mut to, &mut from, &mut got);
        while let Some(packet) = from.receive(now) {
            peer.arrive(packet);
        }
        for packet in peer.poll(now) {
            to.send(now, packet);
        }
        if peer.socket().may_send() && sent < data.len() {
            sent += peer.socket().send_slice(&data[sent..]).unwrap_or(0);
        } else if sent == data.len() && !closed {
            closed = true;
            peer.socket().close();
        }
        for packet in peer.poll(now) {
            to.send(now, packet);
        }
        let done = matches!(node.endpoint.state(), State::Closed | State::Reset);
        if (done && got.len() >= data.len()) || !peer.socket().is_open() && closed {
            break;
        }
        let next = [to.next(), from.next(), node.next(), peer.next(now)];
        now = now.max(next.into_iter().min().expect("four"));
        assert!(now < LIMIT, "{setup:?}: hangs at {} bytes", got.len());
    }
    assert!(
        got == data,
        "{setup:?}: {} bytes of {}",
        got.len(),
        data.len()
    );
    got
}

/// The bulk sender sends a file to the engine.
pub fn client_to_engine(setup: &Setup, lengths: &[u32]) -> (Client, Node) {
    let mut client = client(setup, lengths);
    let mut node = node(setup);
    let mut to = Link::new(DELAY, setup.faults, setup.seed);
    let mut from = Link::new(DELAY, setup.faults, setup.seed + 1);
    let mut got: Vec<u8> = Vec::new();
    let mut now = Picoseconds::ZERO;
    while !client.is_done() {
        carry(now, &mut node, &mut to, &mut from, &mut got);
        while let Some(packet) = from.receive(now) {
            client.arrive(now, &packet);
        }
        for packet in client.poll(now) {
            to.send(now, packet);
        }
        let next = [to.next(), from.next(), node.next(), client.next()];
        now = now.max(next.into_iter().min().expect("four"));
        assert!(now < LIMIT, "{setup:?}: hangs at {} bytes", got.len());
        // The last acknowledgement of the FIN may be lost: the engine then is closed, and says so by a reset.
        if client.is_reset() {
            assert!(matches!(node.endpoint.state(), State::Closed));
            break;
        }
    }
    let data = file(setup.bytes, setup.seed);
    assert!(
        got == data,
        "{setup:?}: {} bytes of {}",
        got.len(),
        data.len()
    );
    (client, node)
}

fn client(setup: &Setup, lengths: &[u32]) -> Client {
    Client::new(File {
        local: OTHER,
        remote: ENGINE,
        mss: setup.mtu as u16 - 40,
        lengths: lengths.to_vec(),
        // The numbers wrap early in the stream.
        iss: u32::MAX - 20_000,
        floor: Picoseconds::from_us(1_000),
        data: file(setup.bytes, setup.seed),
    })
}

/// The bulk sender sends a file to smoltcp, which knows nothing of it.
pub fn client_to_smoltcp(setup: &Setup) -> Client {
    let mut client = client(setup, &[]);
    let mut peer = Peer::new(ENGINE, setup.mtu, setup.window as usize, setup.seed);
    peer.listen().expect("nothing is in the way");
    let mut to = Link::new(DELAY, setup.faults, setup.seed);
    let mut from = Link::new(DELAY, setup.faults, setup.seed + 1);
    let mut got: Vec<u8> = Vec::new();
    let mut now = Picoseconds::ZERO;
    while !client.is_done() && !client.is_reset() {
        while let Some(packet) = to.receive(now) {
            peer.arrive(packet);
        }
        let mut packets = peer.poll(now);
        let mut bytes = [0; 65_536];
        while let Ok(read @ 1..) = peer.socket().recv_slice(&mut bytes) {
            got.extend(&bytes[..read]);
        }
        if peer.socket().state() == smoltcp::socket::tcp::State::CloseWait {
            peer.socket().close();
        }
        packets.extend(peer.poll(now));
        for packet in packets {
            from.send(now, packet);
        }
        while let Some(packet) = from.receive(now) {
            client.arrive(now, &packet);
        }
        for packet in client.poll(now) {
            to.send(now, packet);
        }
        let next = [to.next(), from.next(), client.next(), peer.next(now)];
        now = now.max(next.into_iter().min().expect("four"));
        assert!(now < LIMIT, "{setup:?}: hangs at {} bytes", got.len());
    }
    let data = file(setup.bytes, setup.seed);
    assert!(
        got == data,
        "{setup:?}: {} bytes of {}",
        got.len(),
        data.len()
    );
    client
}
