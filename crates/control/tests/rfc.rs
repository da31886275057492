// SPDX-License-Identifier: Apache-2.0
//! The control plane against the words of the RFCs; `docs/fibnic-rfc.md` names these tests.

mod common;

use common::*;
use control::{Action, Config, Control, Error, HostFrame, PortConfig, Timers};

const ALL_NODES: Mac = [0x33, 0x33, 0, 0, 0, 1];

/// A transit packet of host 7 behind port 1.
fn transit(dst: &str, payload: usize) -> Ip4 {
    ip4("10.0.1.7", dst, UDP, udp(payload))
}

fn transit6(dst: &str, payload: usize) -> Vec<u8> {
    ip6(v6("2001:db8:1::7"), v6(dst), UDP, 64, &udp(payload))
}

/// A rig where host 7 behind port 1 is known, so that errors reach it at once.
fn known() -> Rig {
    let mut rig = Rig::new();
    rig.introduce(1, 7);
    rig
}

/// The one ICMP message that a transit packet brings back to host 7.
fn error_of(rig: &mut Rig, packet: &[u8]) -> Icmp {
    let sent = rig.packet(1, 7, packet);
    let [(1, frame)] = &sent[..] else {
        panic!("one frame by port 1 was expected, not {sent:?}");
    };
    assert_eq!(frame[..6], host_mac(1, 7));
    assert_eq!(frame[6..12], port_mac(1));
    let icmp = read_icmp(frame);
    let quoted = packet.len().min(icmp.data.len());
    assert_eq!(
        icmp.data,
        packet[..quoted],
        "the packet is quoted as it came"
    );
    assert_eq!(icmp.ttl, 64);
    icmp
}

// --- ARP ---------------------------------------------------------------------------------------

#[test]
fn rfc826_requests_for_our_address_are_answered() {
    let mut rig = Rig::new();
    let asker = host_mac(1, 7);
    let request = arp(1, asker, "10.0.1.7", [0; 6], "10.0.1.1");
    let sent = rig.give(1, &eth(BROADCAST, asker, ARP, &request));
    let reply = arp(2, port_mac(1), "10.0.1.1", asker, "10.0.1.7");
    assert_eq!(sent, [(1, eth(asker, port_mac(1), ARP, &reply))]);
    assert_eq!(rig.mac("10.0.1.7"), Some(asker));
    // Nobody else's, not even those of our other ports.
    for target in ["10.0.1.2", "10.0.2.1", "10.0.1.255"] {
        let request = arp(1, asker, "10.0.1.7", [0; 6], target);
        assert_eq!(rig.give(1, &eth(BROADCAST, asker, ARP, &request)), []);
    }
}

#[test]
fn rfc826_only_who_talks_to_us_is_learned() {
    let mut rig = Rig::new();
    let asker = host_mac(1, 7);
    let request = arp(1, asker, "10.0.1.7", [0; 6], "10.0.1.2");
    rig.give(1, &eth(BROADCAST, asker, ARP, &request));
    assert_eq!(rig.mac("10.0.1.7"), None);
    // Who is known already is updated by whatever he says.
    rig.introduce(1, 7);
    let moved = host_mac(1, 99);
    let gratuitous = arp(1, moved, "10.0.1.7", [0; 6], "10.0.1.7");
    rig.give(1, &eth(BROADCAST, moved, ARP, &gratuitous));
    assert_eq!(rig.mac("10.0.1.7"), Some(moved));
}

#[test]
fn rfc5227_probes_are_answered_and_not_learned() {
    let mut rig = Rig::new();
    let prober = host_mac(1, 7);
    let probe = arp(1, prober, "0.0.0.0", [0; 6], "10.0.1.1");
    let sent = rig.give(1, &eth(BROADCAST, prober, ARP, &probe));
    let reply = arp(2, port_mac(1), "10.0.1.1", prober, "0.0.0.0");
    assert_eq!(sent, [(1, eth(prober, port_mac(1), ARP, &reply))]);
    assert_eq!(rig.control.neighbours().count(), 0);
}

#[test]
fn arp_that_can_not_be_true_is_ignored() {
    let mut rig = Rig::new();
    let liar = host_mac(1, 7);
    for (sha, spa) in [
        (liar, "10.0.1.1"),                  // our own address
        (liar, "10.0.2.7"),                  // of another subnet
        (liar, "10.0.1.255"),                // a broadcast
        (liar, "224.0.0.1"),                 // a group
        ([1, 0, 0x5E, 0, 0, 1], "10.0.1.7"), // a group's MAC address
        ([0; 6], "10.0.1.7"),
    ] {
        for operation in [1, 2] {
            let packet = arp(operation, sha, spa, port_mac(1), "10.0.1.1");
            let sent = rig.give(1, &eth(port_mac(1), liar, ARP, &packet));
            assert_eq!(sent, [], "{spa}");
        }
    }
    // A reply that nobody asked for.
    let reply = arp(2, liar, "10.0.1.7", port_mac(1), "10.0.1.1");
    assert_eq!(rig.give(1, &eth(port_mac(1), liar, ARP, &reply)), []);
    assert_eq!(rig.control.neighbours().count(), 0);
}

#[test]
fn rfc1122_2_3_2_2_the_newest_packet_waits_for_its_neighbour() {
    let mut rig = known();
    let packets = [
        transit("10.0.2.5", 10).bytes(),
        transit("10.0.2.5", 20).bytes(),
    ];
    let request = arp(1, port_mac(2), "10.0.2.1", [0; 6], "10.0.2.5");
    let sent = rig.packet(1, 7, &packets[0]);
    assert_eq!(sent, [(2, eth(BROADCAST, port_mac(2), ARP, &request))]);
    // RFC 1122 section 2.3.2.1: one request a second, however many packets come.
    assert_eq!(rig.packet(1, 7, &packets[1]), []);
    assert_eq!(rig.control.stats().held_replaced, 1);

    let mac = host_mac(2, 5);
    let reply = arp(2, mac, "10.0.2.5", port_mac(2), "10.0.2.1");
    let sent = rig.give(2, &eth(port_mac(2), mac, ARP, &reply));
    let mut hopped = transit("10.0.2.5", 20);
    hopped.ttl = 63;
    assert_eq!(sent, [(2, eth(mac, port_mac(2), V4, &hopped.bytes()))]);
    // From now on hardware does it, and software too if it is asked to.
    let hop = rig.control.fib().lookup4(v4("10.0.2.5").into()).unwrap();
    assert_ne!(Some(hop), rig.control.fib().lookup4(v4("10.0.2.6").into()));
    assert_eq!(rig.packet(1, 7, &packets[1]), sent);
}

#[test]
fn a_gateway_is_resolved_for_all_its_routes() {
    let mut rig = known();
    rig.control
        .announce("198.51.100.0/24 via 10.0.2.9".parse().unwrap())
        .unwrap();
    let before = rig.control.fib().lookup4(v4("192.0.2.1").into());
    let sent = rig.packet(1, 7, &transit("192.0.2.1", 10).bytes());
    let request = arp(1, port_mac(2), "10.0.2.1", [0; 6], "10.0.2.9");
    assert_eq!(sent, [(2, eth(BROADCAST, port_mac(2), ARP, &request))]);
    rig.introduce(2, 9);
    // The leaf stays, only the next hop changes.
    assert_eq!(rig.control.fib().lookup4(v4("192.0.2.1").into()), before);
    let sent = rig.packet(1, 7, &transit("198.51.100.1", 10).bytes());
    assert_eq!((sent.len(), &sent[0].1[..6]), (1, &host_mac(2, 9)[..]));
}

#[test]
fn rfc1812_5_2_7_1_host_unreachable_when_nobody_answers() {
    let mut rig = known();
    rig.packet(1, 7, &transit("10.0.2.5", 10).bytes());
    let sent = rig.wait(10 * SECOND);
    let requests = sent.iter().filter(|(port, _)| *port == 2).count();
    assert_eq!(requests, 2, "two more after the first");
    let icmp = read_icmp(&sent.iter().find(|(port, _)| *port == 1).unwrap().1);
    assert_eq!((icmp.kind, icmp.code), (3, 1));
    assert_eq!(icmp.data, transit("10.0.2.5", 10).bytes(), "TTL as it came");
    // It is tried again later.
    rig.introduce(1, 7);
    assert_eq!(rig.packet(1, 7, &transit("10.0.2.5", 10).bytes())[0].0, 2);
}

#[test]
fn packets_to_a_neighbour_that_did_not_answer_are_refused_at_once() {
    let mut rig = known();
    rig.packet(1, 7, &transit("10.0.2.5", 10).bytes());
    rig.wait(3 * SECOND);
    let icmp = error_of(&mut rig, &transit("10.0.2.5", 11).bytes());
    assert_eq!((icmp.kind, icmp.code), (3, 1));
}

#[test]
fn neighbours_that_fall_silent_are_given_up() {
    let mut rig = Rig::new();
    rig.introduce(2, 9);
    let route = "10.0.2.9/32".parse().unwrap();
    assert!(rig.control.fib().get4(route).is_some());
    let sent = rig.wait(5 * SECOND);
    // Asked at its own address, not all of the subnet.
    assert!(sent.iter().any(|(_, frame)| frame[..6] == host_mac(2, 9)));
    assert!(sent.iter().all(|(_, frame)| frame[..6] == host_mac(2, 9)));
    rig.wait(10 * SECOND);
    assert_eq!(rig.mac("10.0.2.9"), None);
    assert_eq!(rig.control.fib().get4(route), None);
    // Nothing is left to do.
    assert_eq!(rig.control.next_tick(), None);
}

#[test]
fn neighbours_that_answer_stay() {
    let mut rig = Rig::new();
    rig.introduce(2, 9);
    let mut asked = 0;
    for _ in 0..400 {
        for (port, frame) in rig.wait(SECOND / 2) {
            asked += 1;
            if frame[12..14] == ARP.to_be_bytes() {
                let reply = arp(2, host_mac(2, 9), "10.0.2.9", port_mac(2), "10.0.2.1");
                rig.give(port, &eth(port_mac(2), host_mac(2, 9), ARP, &reply));
            } else {
                // Solicited, without the option (RFC 4861 section 7.2.4 permits it for unicast).
                let own = "2001:db8:2::9";
                let na = ndp(136, 0x4000_0000, (own, "2001:db8:2::1"), own, None, 255);
                rig.give(port, &eth(port_mac(2), host_mac(2, 9), V6, &na));
            }
            assert_eq!(rig.mac("10.0.2.9"), Some(host_mac(2, 9)));
            assert_eq!(rig.mac("2001:db8:2::9"), Some(host_mac(2, 9)));
        }
    }
    // Every 30 s in both families, the first time after 5 s.
    assert_eq!(asked, 14);
}

#[test]
fn fixed_neighbours_need_no_arp() {
    let mut config = config();
    let gateway = host_mac(2, 9);
    let address = v4("10.0.2.9").into();
    let port = None;
    config.neighbours.push(control::Neighbour {
        address,
        port,
        mac: gateway,
    });
    let mut rig = Rig::of(config);
    assert_eq!(rig.control.next_tick(), None);
    let sent = rig.packet(1, 7, &transit("192.0.2.1", 10).bytes());
    assert_eq!((sent.len(), &sent[0].1[..6]), (1, &gateway[..]));
    // Nobody talks them into another address.
    let other = arp(1, host_mac(2, 1), "10.0.2.9", [0; 6], "10.0.2.1");
    rig.give(2, &eth(BROADCAST, host_mac(2, 1), ARP, &other));
    assert_eq!(rig.mac("10.0.2.9"), Some(gateway));
}

// --- ICMP --------------------------------------------------------------------------------------

#[test]
fn rfc1812_4_3_3_6_echo_requests_are_answered() {
    let mut rig = known();
    // To each of our addresses, also that of another port; data and type of service come back.
    for target in ["10.0.1.1", "10.0.3.1"] {
        let mut ping = ip4(
            "10.0.1.7",
            target,
            ICMP,
            icmp4(8, 0, 0x1234_0001, b"abcdefg"),
        );
        ping.tos = 0x48;
        ping.ttl = 1;
        let sent = rig.packet(1, 7, &ping.bytes());
        assert_eq!(sent.len(), 1);
        let reply = read_icmp(&sent[0].1);
        assert_eq!((reply.kind, reply.code, reply.word), (0, 0, 0x1234_0001));
        assert_eq!(
            (reply.data, reply.tos, reply.ttl),
            (b"abcdefg".to_vec(), 0x48, 64)
        );
        assert_eq!(reply.src, v4(target));
        assert_eq!(reply.dst, v4("10.0.1.7"));
    }
    let mut wrong = icmp4(8, 0, 1, b"abc");
    wrong[9] ^= 1;
    assert_eq!(
        rig.packet(1, 7, &ip4("10.0.1.7", "10.0.1.1", ICMP, wrong).bytes()),
        []
    );
}

#[test]
fn rfc1812_4_3_3_6_echo_requests_to_broadcasts_are_not() {
    let mut rig = known();
    for (mac, target) in [
        (BROADCAST, "255.255.255.255"),
        (BROADCAST, "10.0.1.255"),
        (BROADCAST, "10.0.1.1"),
        ([1, 0, 0x5E, 0, 0, 1], "224.0.0.1"),
    ] {
        let ping = ip4("10.0.1.7", target, ICMP, icmp4(8, 0, 1, b""));
        let frame = eth(mac, host_mac(1, 7), V4, &ping.bytes());
        assert_eq!(rig.give(1, &frame), [], "{target}");
    }
}

#[test]
fn rfc1812_5_3_1_time_exceeded() {
    let mut rig = known();
    for ttl in [0, 1] {
        let mut packet = transit("192.0.2.1", 100);
        packet.ttl = ttl;
        let icmp = error_of(&mut rig, &packet.bytes());
        assert_eq!((icmp.kind, icmp.code, icmp.word), (11, 0, 0));
        assert_eq!(icmp.src, v4("10.0.1.1"));
        assert_eq!(icmp.data.len(), 128, "all of the packet fits");
    }
}

#[test]
fn rfc1812_5_2_7_1_net_unreachable_without_a_route() {
    let mut rig = known();
    let icmp = error_of(&mut rig, &transit("198.51.100.1", 10).bytes());
    assert_eq!((icmp.kind, icmp.code), (3, 0));
}

#[test]
fn rfc1191_fragmentation_needed_names_the_mtu() {
    let mut rig = known();
    let mut packet = transit("10.0.3.5", 1272);
    packet.fragment = 0x4000;
    let icmp = error_of(&mut rig, &packet.bytes());
    assert_eq!((icmp.kind, icmp.code, icmp.word), (3, 4, 1280));
    // One byte less fits.
    packet.payload.pop();
    packet.payload = udp(1252);
    assert_eq!(
        rig.packet(1, 7, &packet.bytes())[0].1[12..14],
        ARP.to_be_bytes()
    );
}

#[test]
fn rfc1812_5_2_6_packets_without_df_are_fragmented() {
    let mut rig = known();
    rig.introduce(3, 5);
    let sent = rig.packet(1, 7, &transit("10.0.3.5", 1464).bytes());
    assert_eq!(sent.len(), 2);
    let mut data = Vec::new();
    for (port, frame) in &sent {
        let packet = &frame[14..];
        assert_eq!(*port, 3);
        assert!(packet.len() <= 1280);
        assert_eq!((packet[8], sum16(&[&packet[..20]])), (63, 0xFFFF));
        let field = u16::from_be_bytes([packet[6], packet[7]]);
        assert_eq!(usize::from(field & 0x1FFF) * 8, data.len());
        assert_eq!(field & 0x2000 != 0, data.is_empty());
        data.extend_from_slice(&packet[20..]);
    }
    assert_eq!(data, udp(1464));
}

#[test]
fn rfc1812_4_3_2_3_errors_quote_up_to_576_bytes() {
    let mut rig = known();
    let mut packet = transit("198.51.100.1", 1400);
    let icmp = error_of(&mut rig, &packet.bytes());
    assert_eq!(icmp.length, 576);
    packet.payload = udp(8);
    assert_eq!(error_of(&mut rig, &packet.bytes()).data.len(), 36);
}

#[test]
fn rfc1812_4_3_2_5_errors_have_the_precedence_of_control() {
    let mut rig = known();
    let mut packet = transit("198.51.100.1", 8);
    packet.tos = 0x28; // precedence 1, type of service 4
    assert_eq!(error_of(&mut rig, &packet.bytes()).tos, 0xC8);
}

#[test]
fn rfc1812_4_3_2_7_no_errors_about_errors() {
    let mut rig = known();
    for kind in [3, 4, 5, 11, 12, 99] {
        let message = icmp4(kind, 0, 0, &transit("10.0.1.9", 8).bytes());
        let packet = ip4("10.0.1.7", "198.51.100.1", ICMP, message);
        assert_eq!(rig.packet(1, 7, &packet.bytes()), [], "type {kind}");
    }
    for kind in [0, 8, 13, 17] {
        let packet = ip4("10.0.1.7", "198.51.100.1", ICMP, icmp4(kind, 0, 0, b""));
        assert_eq!(error_of(&mut rig, &packet.bytes()).kind, 3);
    }
}

#[test]
fn rfc1812_4_3_2_7_no_errors_about_later_fragments() {
    let mut rig = known();
    let mut packet = transit("198.51.100.1", 8);
    packet.fragment = 1;
    assert_eq!(rig.packet(1, 7, &packet.bytes()), []);
    packet.fragment = 0x2000;
    assert_eq!(error_of(&mut rig, &packet.bytes()).kind, 3);
}

#[test]
fn rfc1812_4_3_2_7_no_errors_about_broadcasts_and_groups() {
    let mut rig = known();
    let packet = transit("198.51.100.1", 8).bytes();
    for mac in [BROADCAST, [1, 0, 0x5E, 1, 2, 3]] {
        assert_eq!(rig.give(1, &eth(mac, host_mac(1, 7), V4, &packet)), []);
    }
    for dst in [
        "224.0.0.9",
        "239.1.1.1",
        "255.255.255.255",
        "10.0.2.255",
        "10.0.2.0",
    ] {
        let mut packet = transit(dst, 8);
        packet.ttl = 1;
        assert_eq!(rig.packet(1, 7, &packet.bytes()), [], "{dst}");
    }
}

#[test]
fn rfc1812_4_3_2_7_no_errors_to_what_is_not_a_host() {
    let mut rig = known();
    for src in [
        "0.0.0.0",
        "0.0.0.9",
        "127.0.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "10.0.1.255",
        "10.0.2.0",
        "10.0.1.1",
    ] {
        let packet = ip4(src, "198.51.100.1", UDP, udp(8));
        assert_eq!(rig.packet(1, 7, &packet.bytes()), [], "{src}");
    }
}

#[test]
fn rfc1812_4_3_2_8_errors_are_limited() {
    let mut config = config();
    config.timers = Timers {
        error_burst: 5,
        error_ns: SECOND,
        ..Timers::default()
    };
    let mut rig = Rig::of(config);
    rig.introduce(1, 7);
    let packet = transit("198.51.100.1", 8).bytes();
    let count = |rig: &mut Rig| {
        (0..20)
            .map(|_| rig.packet(1, 7, &packet).len())
            .sum::<usize>()
    };
    assert_eq!(count(&mut rig), 5);
    assert_eq!(rig.control.stats().errors_limited, 15);
    rig.wait(2 * SECOND);
    assert_eq!(count(&mut rig), 2);
}

#[test]
fn rfc6633_no_source_quench_and_no_redirects() {
    // Out by the port it came in by: a redirect would be permitted; none is sent.
    let mut rig = known();
    rig.introduce(1, 9);
    let sent = rig.packet(1, 7, &transit("10.0.1.9", 8).bytes());
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, &sent[0].1[..6]), (1, &host_mac(1, 9)[..]));
    // A source quench is ignored, also for us.
    let quench = ip4("10.0.1.7", "10.0.1.1", ICMP, icmp4(4, 0, 0, &[0; 28]));
    assert_eq!(rig.packet(1, 7, &quench.bytes()), []);
}

#[test]
fn rfc2644_directed_broadcasts_are_not_forwarded() {
    let mut rig = known();
    for dst in ["10.0.2.255", "10.0.2.0", "10.0.1.255"] {
        assert_eq!(rig.packet(1, 7, &transit(dst, 8).bytes()), [], "{dst}");
        // Hardware drops them by a route to nowhere.
        let route = fib::Prefix4::new(v4(dst).into(), 32).unwrap();
        assert_eq!(rig.control.fib().get4(route), Some(fib::NextHopId(2)));
    }
}

#[test]
fn rfc3021_both_addresses_of_a_31_are_hosts() {
    let mut config = config();
    config.ports[2].addresses[0] = "10.0.2.0/31".parse().unwrap();
    config.routes.clear();
    let mut rig = Rig::of(config);
    rig.introduce(1, 7);
    let sent = rig.packet(1, 7, &transit("10.0.2.1", 8).bytes());
    let request = arp(1, port_mac(2), "10.0.2.0", [0; 6], "10.0.2.1");
    assert_eq!(sent, [(2, eth(BROADCAST, port_mac(2), ARP, &request))]);
    let mac = host_mac(2, 1);
    let reply = arp(2, mac, "10.0.2.1", port_mac(2), "10.0.2.0");
    let sent = rig.give(2, &eth(port_mac(2), mac, ARP, &reply));
    assert_eq!((sent.len(), &sent[0].1[..6]), (1, &mac[..]));
}

#[test]
fn rfc1812_5_3_4_what_came_as_a_broadcast_is_not_forwarded() {
    let mut rig = known();
    rig.introduce(2, 9);
    let packet = transit("192.0.2.1", 8).bytes();
    assert_eq!(rig.packet(1, 7, &packet).len(), 1);
    assert_eq!(
        rig.give(1, &eth(BROADCAST, host_mac(1, 7), V4, &packet)),
        []
    );
}

#[test]
fn rfc3927_7_link_local_is_not_forwarded() {
    let mut rig = known();
    rig.introduce(2, 9);
    assert_eq!(rig.packet(1, 7, &transit("169.254.1.1", 8).bytes()), []);
    let packet = ip4("169.254.1.1", "192.0.2.1", UDP, udp(8));
    assert_eq!(rig.packet(1, 7, &packet.bytes()), []);
}

#[test]
fn rfc1812_5_2_2_bad_headers_are_dropped_in_silence() {
    let mut rig = known();
    rig.introduce(2, 9);
    let mut good = transit("192.0.2.1", 8);
    good.options = vec![0x94, 4, 0, 0];
    assert_eq!(rig.packet(1, 7, &good.bytes()).len(), 1);
    for at in 1..24 {
        // Any change must be seen by the checksum; hardware leaves it to us if there are options.
        let mut packet = good.bytes();
        packet[at] ^= 0x10;
        assert_eq!(rig.packet(1, 7, &packet), [], "byte {at}");
    }
    for version in [0x56, 0x44, 0x4F] {
        let mut packet = good.bytes();
        packet[0] = version;
        assert_eq!(rig.packet(1, 7, &packet), [], "{version:#x}");
    }
}

#[test]
fn rfc1812_4_2_2_1_packets_with_options_are_forwarded_by_software() {
    let mut rig = known();
    rig.introduce(2, 9);
    let mut packet = transit("192.0.2.1", 8);
    packet.options = vec![0x94, 4, 0, 0];
    let sent = rig.packet(1, 7, &packet.bytes());
    packet.ttl -= 1;
    assert_eq!(
        sent,
        [(2, eth(host_mac(2, 9), port_mac(2), V4, &packet.bytes()))]
    );
}

#[test]
fn rfc7126_source_routes_are_refused() {
    let mut rig = known();
    for kind in [131, 137] {
        let mut packet = transit("192.0.2.1", 8);
        packet.options = vec![1, kind, 7, 4, 10, 0, 3, 9];
        let icmp = error_of(&mut rig, &packet.bytes());
        assert_eq!((icmp.kind, icmp.code), (3, 5));
    }
}

#[test]
fn rfc1812_5_3_13_malformed_options_are_a_parameter_problem() {
    let mut rig = known();
    for options in [[7, 9, 4, 0], [7, 1, 4, 0], [7, 0, 4, 0]] {
        let mut packet = transit("192.0.2.1", 8);
        packet.options = options.to_vec();
        let icmp = error_of(&mut rig, &packet.bytes());
        assert_eq!(
            (icmp.kind, icmp.code, icmp.word),
            (12, 0, 20 << 24),
            "{options:?}"
        );
    }
}

#[test]
fn rfc1122_ports_and_protocols_that_we_do_not_have_are_unreachable() {
    let mut rig = known();
    let icmp = error_of(&mut rig, &transit("10.0.1.1", 8).bytes());
    assert_eq!((icmp.kind, icmp.code), (3, 3));
    let other = ip4("10.0.1.7", "10.0.1.1", 89, vec![0; 20]);
    assert_eq!(error_of(&mut rig, &other.bytes()).code, 2);
    let packet = transit6("2001:db8:1::1", 8);
    let icmp = error_of(&mut rig, &packet);
    assert_eq!((icmp.kind, icmp.code), (1, 4));
    let packet = ip6(v6("2001:db8:1::7"), v6("2001:db8:1::1"), 89, 64, &[0; 8]);
    let icmp = error_of(&mut rig, &packet);
    assert_eq!((icmp.kind, icmp.code, icmp.word), (4, 1, 6));
}

#[test]
fn discard_routes_are_silent() {
    let mut rig = known();
    assert_eq!(rig.packet(1, 7, &transit("203.0.113.1", 8).bytes()), []);
}

// --- IPv6 --------------------------------------------------------------------------------------

#[test]
fn rfc4861_7_2_4_solicitations_for_our_addresses_are_answered() {
    let mut rig = Rig::new();
    let asker = host_mac(1, 7);
    // fe80::ff:fe00:101 is made of 02:00:00:00:01:01.
    for target in ["2001:db8:1::1", "fe80::ff:fe00:101"] {
        for src in ["2001:db8:1::7", "fe80::7"] {
            let ns = ndp(135, 0, (src, target), target, Some((1, asker)), 255);
            let sent = rig.give(1, &eth(port_mac(1), asker, V6, &ns));
            // Router, solicited, override.
            let na = ndp(
                136,
                0xE000_0000,
                (target, src),
                target,
                Some((2, port_mac(1))),
                255,
            );
            assert_eq!(
                sent,
                [(1, eth(asker, port_mac(1), V6, &na))],
                "{src} {target}"
            );
        }
    }
    assert_eq!(rig.mac("2001:db8:1::7"), Some(asker));
    for (target, group, last) in [
        ("2001:db8:1::2", "ff02::1:ff00:2", [0, 0, 2]),
        ("2001:db8:2::1", "ff02::1:ff00:1", [0, 0, 1]),
        ("fe80::ff:fe00:102", "ff02::1:ff00:102", [0, 1, 2]),
    ] {
        let ns = ndp(135, 0, ("fe80::7", group), target, Some((1, asker)), 255);
        let mac = [0x33, 0x33, 0xFF, last[0], last[1], last[2]];
        assert_eq!(rig.give(1, &eth(mac, asker, V6, &ns)), [], "{target}");
    }
}

#[test]
fn rfc4862_5_4_3_who_checks_our_address_is_told_that_it_is_taken() {
    let mut rig = Rig::new();
    let (asker, target) = (host_mac(1, 7), "2001:db8:1::1");
    let group = [0x33, 0x33, 0xFF, 0, 0, 1];
    let ns = ndp(135, 0, ("::", "ff02::1:ff00:1"), target, None, 255);
    let sent = rig.give(1, &eth(group, asker, V6, &ns));
    // To all nodes, not solicited.
    let na = ndp(
        136,
        0xA000_0000,
        (target, "ff02::1"),
        target,
        Some((2, port_mac(1))),
        255,
    );
    assert_eq!(sent, [(1, eth(ALL_NODES, port_mac(1), V6, &na))]);
    assert_eq!(rig.control.neighbours().count(), 0);
    // With the option it is not valid, nor to another group (section 7.1.1 of RFC 4861).
    let ns = ndp(
        135,
        0,
        ("::", "ff02::1:ff00:1"),
        target,
        Some((1, asker)),
        255,
    );
    assert_eq!(rig.give(1, &eth(group, asker, V6, &ns)), []);
    let ns = ndp(135, 0, ("::", "ff02::1"), target, None, 255);
    assert_eq!(rig.give(1, &eth(ALL_NODES, asker, V6, &ns)), []);
}

#[test]
fn rfc4861_7_1_what_came_over_a_router_is_not_believed() {
    let mut rig = Rig::new();
    let asker = host_mac(1, 7);
    let target = "2001:db8:1::1";
    for hop_limit in [0, 1, 64, 254] {
        let ns = ndp(
            135,
            0,
            ("2001:db8:1::7", target),
            target,
            Some((1, asker)),
            hop_limit,
        );
        assert_eq!(rig.give(1, &eth(port_mac(1), asker, V6, &ns)), []);
    }
    // From another subnet, though with the right hop limit.
    let ns = ndp(
        135,
        0,
        ("2001:db8:2::7", target),
        target,
        Some((1, asker)),
        255,
    );
    assert_eq!(rig.give(1, &eth(port_mac(1), asker, V6, &ns)), []);
    // A wrong checksum.
    let mut ns = ndp(
        135,
        0,
        ("2001:db8:1::7", target),
        target,
        Some((1, asker)),
        255,
    );
    ns[42] ^= 1;
    assert_eq!(rig.give(1, &eth(port_mac(1), asker, V6, &ns)), []);
    // An option of length 0.
    let (src, dst) = (v6("2001:db8:1::7"), v6(target));
    let data = [&dst.octets()[..], &[1, 0, 2, 0, 0, 1, 1, 7]].concat();
    let ns = ip6(src, dst, ICMP6, 255, &icmp6(src, dst, 135, 0, 0, &data));
    assert_eq!(rig.give(1, &eth(port_mac(1), asker, V6, &ns)), []);
    assert_eq!(rig.control.neighbours().count(), 0);
}

#[test]
fn rfc4861_7_2_2_the_newest_packet_waits_for_its_neighbour() {
    let mut rig = known();
    let target = "2001:db8:2::1:5";
    let ns = ndp(
        135,
        0,
        ("2001:db8:2::1", "ff02::1:ff01:5"),
        target,
        Some((1, port_mac(2))),
        255,
    );
    let group = [0x33, 0x33, 0xFF, 1, 0, 5];
    let sent = rig.packet(1, 7, &transit6(target, 10));
    assert_eq!(sent, [(2, eth(group, port_mac(2), V6, &ns))]);
    assert_eq!(rig.packet(1, 7, &transit6(target, 20)), []);

    let mac = host_mac(2, 5);
    let na = ndp(
        136,
        0x6000_0000,
        (target, "2001:db8:2::1"),
        target,
        Some((2, mac)),
        255,
    );
    let sent = rig.give(2, &eth(port_mac(2), mac, V6, &na));
    let mut hopped = transit6(target, 20);
    hopped[7] = 63;
    assert_eq!(sent, [(2, eth(mac, port_mac(2), V6, &hopped))]);
    assert!(
        rig.control
            .fib()
            .lookup6(v6(target).into())
            .is_some_and(|hop| hop.0 > 2)
    );
}

#[test]
fn rfc4861_7_2_5_advertisements_change_what_they_may() {
    let mut rig = Rig::new();
    let (own, us) = ("2001:db8:2::9", "2001:db8:2::1");
    let (old, new) = (host_mac(2, 9), host_mac(2, 10));
    let advertise = |rig: &mut Rig, flags, dst, mac| {
        let na = ndp(136, flags, (own, dst), own, Some((2, mac)), 255);
        assert_eq!(rig.give(2, &eth(port_mac(2), mac, V6, &na)), []);
        rig.mac(own)
    };
    // Not known: nothing is made of it.
    assert_eq!(advertise(&mut rig, 0x6000_0000, us, new), None);
    rig.introduce(2, 9);
    // Without override another address is not taken.
    assert_eq!(advertise(&mut rig, 0x4000_0000, us, new), Some(old));
    assert_eq!(advertise(&mut rig, 0x2000_0000, "ff02::1", new), Some(new));
    // Solicited, and yet to a group: not valid.
    assert_eq!(advertise(&mut rig, 0x6000_0000, "ff02::1", old), Some(new));
    assert_eq!(
        advertise(&mut rig, 0x6000_0000, us, [1, 2, 3, 4, 5, 6]),
        Some(new)
    );
}

#[test]
fn rfc4443_4_2_echo_requests_are_answered() {
    let mut rig = known();
    let from = v6("2001:db8:1::7");
    for (to, source) in [
        ("2001:db8:1::1", "2001:db8:1::1"),
        ("2001:db8:3::1", "2001:db8:3::1"),
        // The routers of a subnet (RFC 4291 section 2.6.1), and all nodes: from one of our own.
        ("2001:db8:1::", "2001:db8:1::1"),
        ("ff02::1", "2001:db8:1::1"),
        ("ff02::2", "2001:db8:1::1"),
    ] {
        let to = v6(to);
        let ping = ip6(
            from,
            to,
            ICMP6,
            1,
            &icmp6(from, to, 128, 0, 0x1234_0001, b"abcdefg"),
        );
        let sent = rig.packet(1, 7, &ping);
        assert_eq!(sent.len(), 1, "{to}");
        let reply = read_icmp(&sent[0].1);
        assert_eq!((reply.kind, reply.code, reply.word), (129, 0, 0x1234_0001));
        assert_eq!((reply.data, reply.ttl), (b"abcdefg".to_vec(), 64));
        assert_eq!((reply.src, reply.dst), (v6(source).into(), from.into()));
    }
}

#[test]
fn rfc4443_3_3_time_exceeded() {
    let mut rig = known();
    for hop_limit in [0, 1] {
        let mut packet = transit6("2001:db8:ff::1", 10);
        packet[7] = hop_limit;
        let icmp = error_of(&mut rig, &packet);
        assert_eq!((icmp.kind, icmp.code, icmp.word), (3, 0, 0));
        assert_eq!(icmp.src, v6("2001:db8:1::1"));
    }
}

#[test]
fn rfc4443_3_2_packet_too_big() {
    let mut rig = known();
    let packet = transit6("2001:db8:3::5", 1233);
    assert_eq!(packet.len(), 1281);
    let icmp = error_of(&mut rig, &packet);
    assert_eq!((icmp.kind, icmp.code, icmp.word), (2, 0, 1280));
    // One byte less is on its way.
    let sent = rig.packet(1, 7, &transit6("2001:db8:3::5", 1232));
    assert_eq!(read_icmp(&sent[0].1).kind, 135);
}

#[test]
fn rfc4443_2_4_c_errors_quote_up_to_1280_bytes() {
    let mut rig = known();
    let icmp = error_of(&mut rig, &transit6("2001:db8:99::1", 1400));
    assert_eq!((icmp.kind, icmp.length), (1, 1280));
}

#[test]
fn rfc4443_3_1_no_route_and_address_unreachable() {
    let mut rig = known();
    let icmp = error_of(&mut rig, &transit6("2001:db8:99::1", 10));
    assert_eq!((icmp.kind, icmp.code), (1, 0));

    let packet = transit6("2001:db8:2::5", 10);
    rig.packet(1, 7, &packet);
    let sent = rig.wait(4 * SECOND);
    let icmp = read_icmp(&sent.iter().find(|(port, _)| *port == 1).unwrap().1);
    assert_eq!((icmp.kind, icmp.code), (1, 3));
    assert_eq!(icmp.data, packet);
}

#[test]
fn rfc4291_2_5_6_link_local_is_never_forwarded() {
    let mut rig = known();
    rig.introduce(2, 9);
    let ns = ndp(
        135,
        0,
        ("fe80::7", "fe80::ff:fe00:101"),
        "fe80::ff:fe00:101",
        Some((1, host_mac(1, 7))),
        255,
    );
    rig.packet(1, 7, &ns);
    // RFC 4443 section 3.1: beyond the scope of the source.
    let packet = ip6(v6("fe80::7"), v6("2001:db8:ff::1"), UDP, 64, &udp(8));
    let icmp = error_of(&mut rig, &packet);
    assert_eq!((icmp.kind, icmp.code), (1, 2));
    assert_eq!(icmp.src, v6("fe80::ff:fe00:101"));
    assert_eq!(rig.packet(1, 7, &transit6("fe80::99", 8)), []);
    // The link-local address of another port is not ours here.
    assert_eq!(rig.packet(1, 7, &transit6("fe80::ff:fe00:102", 8)), []);
}

#[test]
fn rfc4443_2_4_e_no_errors_about_errors() {
    let mut rig = known();
    let (src, dst) = (v6("2001:db8:1::7"), v6("2001:db8:99::1"));
    for kind in [1, 2, 3, 4, 100, 127, 137] {
        let message = icmp6(src, dst, kind, 0, 0, &[0; 48]);
        let packet = ip6(src, dst, ICMP6, 64, &message);
        assert_eq!(rig.packet(1, 7, &packet), [], "type {kind}");
        // Behind extension headers, too.
        for extension in [60, 43] {
            let payload = [&[ICMP6, 0, 0, 0, 0, 0, 0, 0][..], &message].concat();
            let packet = ip6(src, dst, extension, 64, &payload);
            assert_eq!(
                rig.packet(1, 7, &packet),
                [],
                "type {kind} behind {extension}"
            );
        }
    }
    for kind in [128, 129, 135] {
        let packet = ip6(src, dst, ICMP6, 64, &icmp6(src, dst, kind, 0, 0, &[0; 16]));
        assert_eq!(error_of(&mut rig, &packet).kind, 1);
    }
}

#[test]
fn rfc4443_2_4_e_no_errors_about_groups_or_to_nobody() {
    let mut rig = known();
    let packet = transit6("2001:db8:99::1", 8);
    assert_eq!(
        rig.give(1, &eth(ALL_NODES, host_mac(1, 7), V6, &packet)),
        []
    );
    for (src, dst) in [
        ("2001:db8:1::7", "ff02::1"),
        ("2001:db8:1::7", "ff0e::5"),
        ("::", "2001:db8:99::1"),
        ("ff02::1", "2001:db8:99::1"),
        ("::1", "2001:db8:99::1"),
    ] {
        let packet = ip6(v6(src), v6(dst), UDP, 64, &udp(8));
        assert_eq!(rig.packet(1, 7, &packet), [], "{src} {dst}");
    }
}

#[test]
fn rfc4443_2_4_f_errors_are_limited() {
    let mut rig = known();
    let packet = transit6("2001:db8:99::1", 8);
    let sent: usize = (0..1000).map(|_| rig.packet(1, 7, &packet).len()).sum();
    assert_eq!(sent, 10);
}

#[test]
fn rfc8200_4_3_hop_by_hop_options_are_read() {
    let mut rig = known();
    rig.introduce(2, 9);
    let packet = |dst: &str, option: u8| {
        let payload = [&[UDP, 0, option, 1, 0, 1, 1, 0][..], &udp(8)].concat();
        ip6(v6("2001:db8:1::7"), v6(dst), 0, 64, &payload)
    };
    let to = "2001:db8:ff::1";
    // Skipped: unknown with 00, PadN, router alert.
    for option in [0x1E, 1, 5] {
        let sent = rig.packet(1, 7, &packet(to, option));
        assert_eq!(sent.len(), 1, "{option:#x}");
        assert_eq!((sent[0].0, sent[0].1[21]), (2, 63));
    }
    assert_eq!(rig.packet(1, 7, &packet(to, 0x5E)), []);
    for option in [0x9E, 0xDE] {
        let icmp = error_of(&mut rig, &packet(to, option));
        assert_eq!((icmp.kind, icmp.code, icmp.word), (4, 2, 42));
    }
    // To a group: only with 10.
    assert_eq!(rig.packet(1, 7, &packet("ff02::1", 0xDE)), []);
    assert_eq!(error_of(&mut rig, &packet("ff02::1", 0x9E)).code, 2);
}

#[test]
fn rfc5095_routing_headers_are_not_followed() {
    let mut rig = known();
    let onward = v6("2001:db8:2::9");
    let payload = [&[UDP, 2, 0, 1, 0, 0, 0, 0][..], &onward.octets(), &udp(8)].concat();
    let packet = ip6(v6("2001:db8:1::7"), v6("2001:db8:1::1"), 43, 64, &payload);
    let icmp = error_of(&mut rig, &packet);
    assert_eq!((icmp.kind, icmp.code, icmp.word), (4, 0, 42));
}

// --- Limits and mistakes -----------------------------------------------------------------------

#[test]
fn a_scan_of_a_subnet_is_bounded() {
    let mut config = config();
    config.timers.neighbours = 16;
    let mut rig = Rig::of(config);
    rig.introduce(1, 7);
    let mut requests = 0;
    for host in 10..200 {
        requests += rig
            .packet(1, 7, &transit(&format!("10.0.2.{host}"), 8).bytes())
            .len();
    }
    assert_eq!(requests, 14, "16 less the two of host 7");
    rig.wait(60 * SECOND);
    assert_eq!(rig.control.next_tick(), None);
    assert_eq!(rig.packet(1, 7, &transit("10.0.2.10", 8).bytes()).len(), 1);
}

#[test]
fn what_the_tables_have_no_room_for_goes_by_software() {
    let mut config = config();
    config.fib.v4 = fib::Config4::RunVec {
        leaves: 256,
        groups: 1,
        hosts: 8,
    };
    config.routes.clear();
    let mut rig = Rig::of(config);
    rig.introduce(1, 7);
    // Each subnet whose hosts spill over needs a group.
    let hosts = || (10..60).flat_map(|host| [(0, host), (2, host), (3, host)]);
    for (port, host) in hosts() {
        rig.introduce(port, host);
    }
    for (port, host) in hosts() {
        let sent = rig.packet(1, 7, &transit(&format!("10.0.{port}.{host}"), 8).bytes());
        assert_eq!(
            (sent.len(), &sent[0].1[..6]),
            (1, &host_mac(port, host)[..])
        );
    }
    assert!(rig.control.stats().tables_full > 0);
    rig.wait(60 * SECOND);
    assert_eq!(rig.control.neighbours().count(), 0);
}

#[test]
fn spoiled_frames_are_ignored() {
    let mut rig = Rig::new();
    let request = arp(1, host_mac(1, 7), "10.0.1.7", [0; 6], "10.0.1.1");
    let bytes = &eth(BROADCAST, host_mac(1, 7), ARP, &request)[..];
    let frame = HostFrame {
        port: 1,
        verdict: 2,
        bad: true,
        bytes,
    };
    assert_eq!(rig.control.host_frame(0, &frame), []);
    let frame = HostFrame {
        port: 9,
        verdict: 2,
        bad: false,
        bytes,
    };
    assert_eq!(rig.control.host_frame(0, &frame), []);
}

#[test]
fn mistakes_of_a_configuration_are_named() {
    let refused = |change: fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        Control::new(config).expect_err("the configuration is wrong")
    };
    let error = refused(|config| config.ports.truncate(1));
    assert_eq!(error, Error::Ports { ports: 1 });
    let error = refused(|config| config.ports[1].mac = BROADCAST);
    assert_eq!(error, Error::GroupMac { port: 1 });
    let error = refused(|config| config.ports[1].mtu = 1279);
    assert!(matches!(
        error,
        Error::Mtu {
            port: 1,
            least: 1280,
            ..
        }
    ));
    let error = refused(|config| config.ports[1].vlan_in = Some(4095));
    assert_eq!(
        error,
        Error::Vlan {
            port: 1,
            vlan: 4095
        }
    );
    for address in ["10.9.0.0/24", "10.9.0.255/24", "224.0.0.1/8", "127.0.0.1/8"] {
        let mut config = config();
        config.ports[0].addresses.push(address.parse().unwrap());
        let error = Control::new(config).unwrap_err();
        assert!(
            matches!(error, Error::NotAHost { port: 0, .. }),
            "{address}"
        );
    }
    let error = refused(|config| {
        config.ports[0]
            .addresses
            .push("10.0.1.77/28".parse().unwrap());
    });
    assert!(matches!(error, Error::Overlap { .. }));
    assert!(error.to_string().contains("10.0.1.77/28"));
    let route = |text: &'static str| {
        let mut config = config();
        config.routes.push(text.parse().unwrap());
        Control::new(config).expect_err(text)
    };
    assert!(matches!(
        route("1.0.0.0/8 via 10.9.9.9"),
        Error::NotConnected { .. }
    ));
    assert!(matches!(
        route("2000::/3 via fe80::1"),
        Error::NeedsPort { .. }
    ));
    assert!(matches!(
        route("2000::/3 via fe80::1 port 9"),
        Error::NoSuchPort { .. }
    ));
    assert!(matches!(
        route("1.0.0.0/8 via 2001:db8:1::9"),
        Error::MixedFamilies { .. }
    ));
    for text in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129"] {
        assert!(text.parse::<control::Subnet>().is_err(), "{text}");
    }
    for text in [
        "",
        "1.0.0.0/8",
        "1.0.0.0/8 via",
        "1.0.0.0/8 via x",
        "1.0.0.0/8 to 1.1.1.1",
    ] {
        assert!(text.parse::<control::Route>().is_err(), "{text}");
    }
}

#[test]
fn a_link_local_gateway_forwards() {
    let mut rig = known();
    let route = "2001:db8:aa::/48 via fe80::9 port 2".parse().unwrap();
    rig.control.announce(route).unwrap();
    let sent = rig.packet(1, 7, &transit6("2001:db8:aa::1", 8));
    let us = "fe80::ff:fe00:102";
    let ns = ndp(
        135,
        0,
        (us, "ff02::1:ff00:9"),
        "fe80::9",
        Some((1, port_mac(2))),
        255,
    );
    assert_eq!(
        sent,
        [(2, eth([0x33, 0x33, 0xFF, 0, 0, 9], port_mac(2), V6, &ns))]
    );
    let mac = host_mac(2, 9);
    let na = ndp(
        136,
        0xE000_0000,
        ("fe80::9", us),
        "fe80::9",
        Some((2, mac)),
        255,
    );
    let sent = rig.give(2, &eth(port_mac(2), mac, V6, &na));
    assert_eq!((sent.len(), &sent[0].1[..6]), (1, &mac[..]));
}

#[test]
fn routes_come_and_go() {
    let mut rig = known();
    rig.introduce(2, 9);
    let prefix = "198.51.100.0/24";
    let packet = transit("198.51.100.1", 8).bytes();
    assert_eq!(error_of(&mut rig, &packet).code, 0);
    rig.control
        .announce(format!("{prefix} via 10.0.2.9").parse().unwrap())
        .unwrap();
    assert_eq!(rig.packet(1, 7, &packet)[0].0, 2);
    rig.control
        .announce(format!("{prefix} discard").parse().unwrap())
        .unwrap();
    assert_eq!(rig.packet(1, 7, &packet), []);
    rig.control.withdraw(prefix.parse().unwrap()).unwrap();
    assert_eq!(error_of(&mut rig, &packet).code, 0);
    assert!(rig.control.withdraw(prefix.parse().unwrap()).is_err());
}

/// The writes alone, applied to empty memories, give the same lookups.
#[test]
fn the_writes_keep_hardware_equal() {
    let mut control = Control::new(config()).unwrap();
    let mut hardware = control.fib().image().cleared();
    let mut settings = Vec::new();
    let mut apply = |actions: Vec<Action>| {
        for action in actions {
            let Action::Write(write) = action else {
                continue;
            };
            let memory = fib::layout::Memory::ALL.get(usize::from(write.memory));
            match memory {
                Some(&memory) => hardware.write(&fib::Write {
                    memory,
                    addr: write.address,
                    data: write.data,
                }),
                None if write.memory == 26 => settings.push((write.address, write.data[0])),
                None => assert_eq!(write.memory, 31),
            }
        }
        hardware.clone()
    };
    assert_eq!(&apply(control.start(0)), control.fib().image());
    let mac = host_mac(2, 9);
    let request = arp(1, mac, "10.0.2.9", [0; 6], "10.0.2.1");
    let bytes = &eth(BROADCAST, mac, ARP, &request)[..];
    let frame = HostFrame {
        port: 2,
        verdict: 2,
        bad: false,
        bytes,
    };
    assert_eq!(&apply(control.host_frame(0, &frame)), control.fib().image());
    let mut now = 0;
    while let Some(next) = control.next_tick() {
        now = next;
        assert_eq!(&apply(control.tick(now)), control.fib().image());
    }
    assert!(now > 0);
    // MAC address, MTU, VLAN, check of port 3 at 24 to 27.
    assert_eq!(
        settings[12..],
        [(24, 0x0200_0000_0103), (25, 1280), (26, 0), (27, 0)]
    );
    let port = PortConfig {
        vlan_in: Some(0x123),
        vlan_out: Some(0x456),
        check: control::Check::Auto { on: 0x81, off: 3 },
        ..PortConfig::default()
    };
    let words = port.words(5).map(|write| (write.address, write.data[0]));
    let tags = 1 << 25 | 0x456 << 13 | 1 << 12 | 0x123;
    assert_eq!(words[2..], [(42, tags), (43, 3 << 10 | 0x81 << 2 | 1)]);
}
