// SPDX-License-Identifier: Apache-2.0
//! A switch with ports that lead out of the simulation, and what is behind its host port.

#[path = "common/switch.rs"]
#[allow(dead_code)] // what is only for the rack
mod stand_in;

use control::{Config, Control, PortConfig};
use ipnuma_rtl::NetSpeed;
use rack::live::{Agent, LiveRouter, Output};
use rack::model::{Hardware, SwitchModel};
use rack::run::rtl;
use rack::tables::{mac_bytes, port_mac, sizes};
use stand_in::StandInSwitch;

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xA];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xB];
const ALL: [u8; 6] = [0xFF; 6];
const TTL: usize = 22;

fn router(model: Box<dyn SwitchModel>, agent: Agent) -> LiveRouter {
    let mut config = Config {
        fib: sizes(),
        ..Config::default()
    };
    for number in 0..4 {
        let address = format!("10.0.{number}.254/24");
        config.ports.push(PortConfig {
            mac: mac_bytes(port_mac(0, number)),
            addresses: vec![address.parse().expect("an address")],
            ..PortConfig::default()
        });
    }
    let control = Control::new(config).expect("the configuration is sound");
    LiveRouter::new(model, control, agent).expect("the switch starts")
}

/// Stand-ins and RTL, at both rates.
fn all() -> Vec<Box<dyn SwitchModel>> {
    let speeds = [NetSpeed::TenGig, NetSpeed::OneGig];
    let mut all: Vec<Box<dyn SwitchModel>> = Vec::new();
    for speed in speeds {
        all.push(Box::new(StandInSwitch::new(speed)));
        all.push(rtl.switch(speed).expect("the RTL is built"));
    }
    all
}

fn arp(operation: u8, from: ([u8; 6], [u8; 4]), to: ([u8; 6], [u8; 4])) -> Vec<u8> {
    let ethernet = if operation == 1 { ALL } else { to.0 };
    let mut frame = [&ethernet[..], &from.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0]].concat();
    frame.push(operation);
    let target = if operation == 1 { [0; 6] } else { to.0 };
    frame.extend([&from.0[..], &from.1, &target, &to.1].concat());
    frame
}

/// A UDP packet from a host in the subnet of port 0 to one in that of port 1.
fn packet(number: u8) -> Vec<u8> {
    let mut frame = mac_bytes(port_mac(0, 0)).to_vec();
    frame.extend(A);
    frame.extend([8, 0, 0x45, 0, 0, 60, 0, number, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 1, 1]);
    let halves = frame[14..34].chunks(2);
    let mut sum: u32 = halves
        .map(|half| u32::from(u16::from_be_bytes([half[0], half[1]])))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    frame[24..26].copy_from_slice(&(!sum as u16).to_be_bytes());
    frame.extend([0x12, 0x34, 0, 7, 0, 40, 0, 0]);
    frame.extend([number; 32]);
    frame
}

fn run(router: &mut LiveRouter, now: u64) -> Vec<Output> {
    let mut out = Vec::new();
    loop {
        out.extend(router.run(now).expect("the switch runs"));
        if router.is_idle() {
            return out;
        }
    }
}

/// The one frame that left, its port, and where it must not have been padded.
fn only(out: Vec<Output>) -> (usize, Vec<u8>) {
    let [Output::Network { port, bytes }] = &out[..] else {
        panic!("one frame to the network, and not {out:?}");
    };
    (*port, bytes.clone())
}

#[test]
fn a_packet_waits_for_its_neighbour_and_the_next_does_not() {
    for model in all() {
        let mut router = router(model, Agent::Own);
        // A asks for its router.
        let (own, a, b) = ([10, 0, 0, 254], [10, 0, 0, 1], [10, 0, 1, 1]);
        router.receive(0, &arp(1, (A, a), ([0; 6], own)));
        let (port, reply) = only(run(&mut router, 1_000));
        let mac = mac_bytes(port_mac(0, 0));
        assert_eq!((port, &reply[..42]), (0, &arp(2, (mac, own), (A, a))[..]));
        // Its first packet makes the router ask for B,
        router.receive(0, &packet(1));
        let (port, request) = only(run(&mut router, 2_000));
        let mac = mac_bytes(port_mac(0, 1));
        let question = arp(1, (mac, [10, 0, 1, 254]), ([0; 6], b));
        assert_eq!((port, &request[..42]), (1, &question[..]));
        // and leaves when B has answered.
        router.receive(1, &arp(2, (B, b), (mac, [10, 0, 1, 254])));
        let (port, first) = only(run(&mut router, 3_000));
        let sent = packet(1);
        assert_eq!((port, &first[..12]), (1, &[B, mac].concat()[..]));
        assert_eq!(first[TTL], sent[TTL] - 1);
        assert_eq!(first[26..], sent[26..]);
        // The second is not seen by software.
        let seen = router.switch().host_side();
        router.receive(0, &packet(2));
        let (port, second) = only(run(&mut router, 4_000));
        assert_eq!((port, &second[..12]), (1, &[B, mac].concat()[..]));
        assert_eq!(second[TTL], packet(2)[TTL] - 1);
        assert_eq!(second[26..], packet(2)[26..]);
        let after = router.switch().host_side();
        assert_eq!(
            (seen.received, seen.sent),
            (after.received, after.sent),
            "hardware forwards alone"
        );
    }
}

#[test]
fn an_agent_outside_answers_and_the_tables_follow() {
    for model in all() {
        let mut router = router(model, Agent::Outside);
        let (own, a, b) = ([10, 0, 0, 254], [10, 0, 0, 1], [10, 0, 1, 1]);
        let question = arp(1, (A, a), ([0; 6], own));
        router.receive(0, &question);
        let out = run(&mut router, 1_000);
        let [Output::Host(frame)] = &out[..] else {
            panic!("one frame to the host, and not {out:?}");
        };
        assert_eq!((frame.port, frame.bad), (0, false));
        assert_eq!(frame.bytes[..42], question[..]);
        let mac = mac_bytes(port_mac(0, 0));
        let answer = arp(2, (mac, own), (A, a));
        router.send(0, &answer);
        let (port, bytes) = only(run(&mut router, 2_000));
        assert_eq!((port, &bytes[..42]), (0, &answer[..]));
        // The packet for B goes to the agent, which asks; B's answer goes to it, too.
        router.receive(0, &packet(1));
        let out = run(&mut router, 3_000);
        assert!(matches!(&out[..], [Output::Host(_)]), "{out:?}");
        let mac = mac_bytes(port_mac(0, 1));
        router.receive(1, &arp(2, (B, b), (mac, [10, 0, 1, 254])));
        let out = run(&mut router, 4_000);
        assert!(matches!(&out[..], [Output::Host(_)]), "{out:?}");
        // From then on hardware forwards.
        router.receive(0, &packet(2));
        let (port, second) = only(run(&mut router, 5_000));
        assert_eq!((port, &second[..6]), (1, &B[..]));
    }
}

#[test]
fn frames_right_behind_each_other() {
    for model in all() {
        let mut router = router(model, Agent::Own);
        let mac = mac_bytes(port_mac(0, 1));
        let b = [10, 0, 1, 1];
        // B is known because it asked.
        router.receive(1, &arp(1, (B, b), ([0; 6], [10, 0, 1, 254])));
        let (_, reply) = only(run(&mut router, 1_000));
        assert_eq!(
            reply[..42],
            arp(2, (mac, [10, 0, 1, 254]), (B, b))[..],
            "the answer"
        );
        for number in 0..20 {
            router.receive(0, &packet(number));
        }
        let out = run(&mut router, 2_000);
        let numbers = out.iter().map(|output| match output {
            Output::Network { port: 1, bytes } => bytes[42],
            other => panic!("frames for port 1, and not {other:?}"),
        });
        assert_eq!(numbers.collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    }
}
