// SPDX-License-Identifier: Apache-2.0
//! Model of the switch and control plane together: a router, seen from its hosts.

mod common;

use common::*;
use control::{Action, Change, Check, Config, Control, HostFrame, Verdict};
use fib::{NextHop, Port};
use model::switch::{self, SwitchConfig, SwitchModel, Target, fcs};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

struct Router {
    switch: SwitchModel,
    control: Control,
    now: u64,
    last: Option<Verdict>,
}

impl Router {
    fn new(config: Config) -> Self {
        let mut router = Self {
            switch: SwitchModel::new(SwitchConfig::default()),
            control: Control::new(config).unwrap(),
            now: 0,
            last: None,
        };
        let actions = router.control.start(0);
        assert_eq!(router.apply(actions), []);
        router
    }

    /// Changes go to the model, frames out of its ports.
    fn apply(&mut self, actions: Vec<Action>) -> Sent {
        let mut out = Vec::new();
        for action in actions {
            match action {
                Action::Send { port, bytes } => {
                    out.push((port, self.switch.from_host(port, &bytes)));
                }
                Action::Write(_) => {}
                Action::Change(change) => self.change(change),
            }
        }
        out
    }

    fn change(&mut self, change: Change) {
        let switch = &mut self.switch;
        match change {
            Change::Port(number, port) => switch.set_port(
                number,
                switch::Port {
                    mac: port.mac,
                    mtu: port.mtu,
                    vlan_in: port.vlan_in,
                    vlan_out: port.vlan_out,
                    check: port.check,
                    police: switch::Police {
                        rate: port.police.rate,
                        burst: port.police.burst,
                    },
                },
            ),
            Change::NextHop(id, next_hop) => {
                let next_hop = next_hop.map(|NextHop { port, mac }| switch::NextHop {
                    target: match port {
                        Port::Network(port) => Target::Port(port),
                        Port::Host => Target::Host,
                        Port::Discard => Target::Discard,
                    },
                    mac,
                });
                switch.set_next_hop(id.0, next_hop);
            }
            Change::Route4(prefix, id) => {
                switch.set_route4(prefix.addr(), prefix.len(), id.map(|id| id.0));
            }
            Change::Route6(prefix, id) => {
                switch.set_route6(prefix.addr(), prefix.len(), id.map(|id| id.0));
            }
        }
    }

    /// A frame from the wire, without FCS; returns what leaves.
    fn frame(&mut self, port: u8, mut bytes: Vec<u8>) -> Sent {
        bytes.resize(bytes.len().max(60), 0);
        let sum = fcs(&bytes);
        bytes.extend(sum);
        let outcome = self.switch.forward(port, &bytes, false).unwrap();
        assert!(!outcome.spoiled);
        self.last = Some(outcome.verdict);
        match outcome.egress {
            None => Vec::new(),
            Some(Target::Port(egress)) => vec![(egress, outcome.bytes)],
            Some(_) => {
                let frame = HostFrame {
                    port,
                    verdict: outcome.verdict.number(),
                    bad: outcome.spoiled,
                    bytes: &outcome.bytes,
                };
                let actions = self.control.host_frame(self.now, &frame);
                self.apply(actions)
            }
        }
    }

    fn packet(&mut self, port: u8, number: u8, packet: &[u8]) -> Sent {
        let kind = if packet[0] >> 4 == 4 { V4 } else { V6 };
        self.frame(
            port,
            eth(port_mac(port), host_mac(port, number), kind, packet),
        )
    }

    /// Host `number` behind a port answers what asks for it; the rest comes back.
    fn answer(&mut self, port: u8, number: u8, sent: Sent) -> Sent {
        let mac = host_mac(port, number);
        let own4 = format!("10.0.{port}.{number}");
        let own6 = format!("2001:db8:{port}::{number:x}");
        let mut rest = Vec::new();
        for (egress, frame) in sent {
            let asks4 = frame[12..14] == ARP.to_be_bytes()
                && frame[20..22] == [0, 1]
                && frame[38..42] == v4(&own4).octets();
            let asks6 = is_icmp(&frame) && frame[54] == 135 && frame[62..78] == v6(&own6).octets();
            if egress == port && asks4 {
                let reply = arp(2, mac, &own4, port_mac(port), &format!("10.0.{port}.1"));
                rest.extend(self.frame(port, eth(port_mac(port), mac, ARP, &reply)));
            } else if egress == port && asks6 {
                let us = format!("2001:db8:{port}::1");
                let na = ndp(136, 0x6000_0000, (&own6, &us), &own6, Some((2, mac)), 255);
                rest.extend(self.frame(port, eth(port_mac(port), mac, V6, &na)));
            } else {
                rest.push((egress, frame));
            }
        }
        rest
    }

    fn wait(&mut self, ns: u64) -> Sent {
        let end = self.now + ns;
        let mut out = Vec::new();
        while let Some(next) = self.control.next_tick().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            let actions = self.control.tick(self.now);
            out.extend(self.apply(actions));
        }
        self.now = end;
        out
    }
}

#[test]
fn the_first_packet_waits_for_arp_and_the_second_goes_by_hardware() {
    let mut router = Router::new(config());
    let packet = ip4("10.0.1.7", "10.0.2.9", UDP, udp(30)).bytes();
    let sent = router.packet(1, 7, &packet);
    assert_eq!(router.last, Some(Verdict::HostRoute));
    let first = router.answer(2, 9, sent);
    assert_eq!(first.len(), 1);
    let second = router.packet(1, 7, &packet);
    assert_eq!(router.last, Some(Verdict::Forward));
    assert_eq!(first, second);

    let packet = ip6(v6("2001:db8:1::7"), v6("2001:db8:2::9"), UDP, 64, &udp(30));
    let sent = router.packet(1, 7, &packet);
    assert_eq!(router.last, Some(Verdict::HostRoute));
    let first = router.answer(2, 9, sent);
    assert_eq!(first.len(), 1);
    assert_eq!(first, router.packet(1, 7, &packet));
    assert_eq!(router.last, Some(Verdict::Forward));

    // It falls silent: after the questions the way by the host is back.
    router.wait(60 * SECOND);
    router.packet(1, 7, &packet);
    assert_eq!(router.last, Some(Verdict::HostRoute));
}

#[test]
fn a_gateway_is_asked_for_by_the_verdict_neighbour() {
    let mut router = Router::new(config());
    let packets = [
        ip4("10.0.1.7", "192.0.2.77", UDP, udp(30)).bytes(),
        ip6(
            v6("2001:db8:1::7"),
            v6("2001:db8:ff::77"),
            UDP,
            64,
            &udp(30),
        ),
    ];
    for packet in &packets {
        let sent = router.packet(1, 7, packet);
        assert_eq!(router.last, Some(Verdict::HostNeighbour));
        let first = router.answer(2, 9, sent);
        assert_eq!((first.len(), first[0].0), (1, 2));
        assert_eq!(first, router.packet(1, 7, packet));
        assert_eq!(router.last, Some(Verdict::Forward));
    }
    router.wait(60 * SECOND);
    router.packet(1, 7, &packets[0]);
    assert_eq!(router.last, Some(Verdict::HostNeighbour));
}

#[test]
fn every_verdict_to_the_host_has_its_answer() {
    let mut router = Router::new(config());
    let own = arp(1, host_mac(1, 7), "10.0.1.7", [0; 6], "10.0.1.1");
    let sent = router.frame(1, eth(BROADCAST, host_mac(1, 7), ARP, &own));
    assert_eq!((router.last, sent.len()), (Some(Verdict::HostLink), 1));
    let sent = router.frame(1, eth(port_mac(1), host_mac(1, 7), ARP, &own));
    assert_eq!((router.last, sent.len()), (Some(Verdict::HostNotIp), 1));
    let mut ask = |packet: Ip4, verdict| {
        let sent = router.packet(1, 7, &packet.bytes());
        assert_eq!(router.last, Some(verdict));
        assert_eq!(sent.len(), 1, "{verdict:?}");
        let icmp = read_icmp(&sent[0].1);
        (icmp.kind, icmp.code)
    };
    let to = |dst: &str| ip4("10.0.1.7", dst, UDP, udp(30));
    assert_eq!(ask(to("198.51.100.1"), Verdict::HostNoRoute), (3, 0));
    assert_eq!(
        ask(
            Ip4 {
                ttl: 1,
                ..to("10.0.3.5")
            },
            Verdict::HostExpires
        ),
        (11, 0)
    );
    assert_eq!(ask(to("10.0.3.1"), Verdict::HostRoute), (3, 3));
    let ping = ip4("10.0.1.7", "10.0.3.1", ICMP, icmp4(8, 0, 1, b"ping"));
    assert_eq!(ask(ping, Verdict::HostRoute), (0, 0));
    let options = vec![131, 7, 4, 10, 0, 2, 9, 0];
    assert_eq!(
        ask(
            Ip4 {
                options,
                ..to("10.0.2.9")
            },
            Verdict::HostOptions
        ),
        (3, 5)
    );

    // Once the neighbour is known, the MTU decides.
    let sent = router.packet(1, 7, &to("10.0.3.5").bytes());
    assert_eq!(router.answer(3, 5, sent).len(), 1);
    let long = Ip4 {
        payload: udp(1300),
        fragment: 0x4000,
        ..to("10.0.3.5")
    };
    let sent = router.packet(1, 7, &long.bytes());
    assert_eq!(router.last, Some(Verdict::HostMtu));
    let icmp = read_icmp(&sent[0].1);
    assert_eq!((icmp.kind, icmp.code, icmp.word), (3, 4, 1280));
    let long = Ip4 {
        fragment: 0,
        ..long
    };
    assert_eq!(router.packet(1, 7, &long.bytes()).len(), 2);
    let link_local = ip6(v6("fe80::7"), v6("fe80::ff:fe00:101"), UDP, 64, &udp(8));
    router.packet(1, 7, &link_local);
    assert_eq!(router.last, Some(Verdict::HostLocal));
}

#[test]
fn vlans_and_checks_of_the_configuration_reach_the_ports() {
    let mut config = config();
    config.ports[1].vlan_in = Some(7);
    config.ports[1].vlan_out = Some(8);
    config.ports[1].check = Check::Always;
    let mut router = Router::new(config);
    let mut request = eth(
        BROADCAST,
        host_mac(1, 7),
        ARP,
        &arp(1, host_mac(1, 7), "10.0.1.7", [0; 6], "10.0.1.1"),
    );
    request.splice(12..12, [0x81, 0, 0, 7]);
    let sent = router.frame(1, request);
    assert_eq!(sent[0].1[12..18], [0x81, 0, 0, 8, 8, 6]);
    assert!(router.switch.stores(1));
}

const DST4: [&str; 6] = [
    "10.0.0.9",
    "10.0.2.9",
    "10.0.3.5",
    "192.0.2.5",
    "203.0.113.9",
    "10.0.2.255",
];
const DST6: [&str; 6] = [
    "2001:db8:0::9",
    "2001:db8:3::5",
    "2001:db8:ff::5",
    "fe80::9",
    "ff02::5",
    "::1",
];

/// A packet of host 7 behind port 1 to anywhere, some of its bytes changed.
fn any_packet(rand: &mut ChaCha8Rng) -> Vec<u8> {
    let size = if rand.random_ratio(1, 8) {
        1250 + rand.random_range(0..40)
    } else {
        30
    };
    let mut packet = if rand.random() {
        let mut ip = ip4("10.0.1.7", DST4[rand.random_range(0..6)], UDP, udp(size));
        ip.ttl = rand.random_range(0..5);
        ip.bytes()
    } else {
        let dst = v6(DST6[rand.random_range(0..6)]);
        let limit = rand.random_range(0..5);
        ip6(v6("2001:db8:1::7"), dst, UDP, limit, &udp(size))
    };
    for _ in 0..rand.random_range(0..3) {
        // Lengths stay: a frame that is too short is another matter.
        let at = rand.random_range(6..40);
        packet[at] ^= rand.next_u32() as u8;
    }
    let options = rand.random_ratio(1, 20);
    if packet[0] == 0x60 && options {
        packet[6] = 0;
    }
    if packet[0] == 0x45 && options {
        packet[0] = 0x46; // the first bytes of UDP become options
    }
    if packet[0] == 0x45 && rand.random() {
        packet[10..12].fill(0);
        let sum = !sum16(&[&packet[..20]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// What the model of the hardware forwards, software would forward the same; what it drops,
/// software would not forward.
#[test]
fn hardware_and_software_forward_alike() {
    let seed = match std::env::var("IPNUMA_SEED") {
        Ok(text) => text.parse().expect("IPNUMA_SEED is a number"),
        Err(_) => rand::rng().random(),
    };
    println!("IPNUMA_SEED={seed}");
    let mut rand = ChaCha8Rng::seed_from_u64(seed);
    let mut config = config();
    config.timers.error_ns = 1; // errors are no matter here
    let mut router = Router::new(config);
    for (port, number) in [(0, 9), (1, 7), (2, 9), (3, 5)] {
        for packet in [
            ip4("10.0.1.99", &format!("10.0.{port}.{number}"), UDP, udp(8)).bytes(),
            ip6(
                v6("2001:db8:1::99"),
                v6(&format!("2001:db8:{port}::{number:x}")),
                UDP,
                64,
                &udp(8),
            ),
        ] {
            let sent = router.packet(1, 99, &packet);
            assert_eq!(router.answer(port, number, sent).len(), 1);
        }
    }
    // All neighbours that matter are known to both.
    let mut alone = router.control.clone();
    let mut counts = [0; 18];
    for _ in 0..20_000 {
        let packet = any_packet(&mut rand);
        let kind = if packet[0] >> 4 == 4 { V4 } else { V6 };
        let bytes = eth(port_mac(1), host_mac(1, 7), kind, &packet);
        let frame = HostFrame {
            port: 1,
            verdict: 0,
            bad: false,
            bytes: &bytes,
        };
        let forwarded = alone.stats().forwarded;
        let software = sent(alone.host_frame(router.now, &frame));
        let forwarded = alone.stats().forwarded - forwarded;
        let hardware = router.frame(1, bytes);
        let verdict = router.last.unwrap();
        counts[usize::from(verdict.number())] += 1;
        // The addresses of its own subnets are nothing that hardware compares sources with.
        let of_router = if packet[0] >> 4 == 4 {
            packet[12..14] == [10, 0] && packet[14] < 4 && matches!(packet[15], 0 | 1 | 255)
        } else {
            (0..4).any(|port| packet[8..24] == v6(&format!("2001:db8:{port}::1")).octets())
        };
        if verdict == Verdict::Forward && !of_router {
            let padded: Sent = software
                .into_iter()
                .map(|(port, bytes)| (port, router.switch.from_host(port, &bytes)))
                .collect();
            assert_eq!(hardware, padded, "{packet:02x?}");
        } else if !verdict.to_host() {
            assert_eq!(forwarded, 0, "{verdict:?} {packet:02x?}");
        }
    }
    for verdict in [
        Verdict::Forward,
        Verdict::HostLocal,
        Verdict::HostOptions,
        Verdict::HostExpires,
        Verdict::HostNoRoute,
        Verdict::HostMtu,
        Verdict::DropHeader,
        Verdict::DropMartian,
        Verdict::DropRoute,
    ] {
        assert!(
            counts[usize::from(verdict.number())] > 0,
            "{verdict:?} did not occur"
        );
    }
}
