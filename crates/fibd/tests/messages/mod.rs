// SPDX-License-Identifier: Apache-2.0
//! What the kernel would say, for tests without privileges.
#![allow(dead_code, reason = "each test takes some")]

use std::net::IpAddr;

use fibd::message::{Event, Hop, Message, RouteKind, RouteMessage};
use fibd::{Config, Net, Source, State, Tables, Terms, sink};

pub fn tell(state: &mut State, flags: u16, message: Message) {
    let event = Event {
        flags,
        sequence: 0,
        port: 0,
        message,
    };
    state.take(event, Source::Kernel);
}

/// Two ports, up.
pub fn state() -> State {
    let mut state = State::new(Config {
        ports: vec!["sw0".into(), "sw1".into()],
        ..Config::default()
    });
    for port in 0..2 {
        link(&mut state, port, true);
    }
    state
}

pub fn link(state: &mut State, port: u32, up: bool) {
    let message = Message::Link {
        device: port + 1,
        name: format!("sw{port}"),
        up,
        carrier: up,
        running: up,
        mac: None,
        mtu: 1500,
    };
    tell(state, 0, message);
}

pub fn tables(config: fib::Config) -> Tables {
    Tables::new(config, |image| Ok(Box::new(sink::Memory::like(image)))).unwrap()
}

pub fn gateway(port: u32, host: u8) -> Hop {
    Hop {
        device: port + 1,
        gateway: Some(IpAddr::from([10, 0, port as u8, host])),
        weight: 1,
        dead: false,
        terms: Terms::default(),
    }
}

pub fn route(net: Net, hop: Hop) -> RouteMessage {
    RouteMessage {
        net,
        table: 254,
        tos: 0,
        metric: 0,
        protocol: 4,
        kind: RouteKind::Unicast,
        source: None,
        object: None,
        hops: vec![hop],
        dead: Vec::new(),
        idle: Vec::new(),
        expires: 0,
        from: None,
        terms: Terms::default(),
        identity: 0,
        flags: 0,
    }
}
