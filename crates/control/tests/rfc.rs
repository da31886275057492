// SPDX-License-Identifier: Apache-2.0
//! The control plane against the words of the RFCs of ARP and IPv4; `docs/fibnic-rfc.md` names these tests.

mod common;

use common::*;
use control::Timers;

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
