// SPDX-License-Identifier: Apache-2.0
//! The control plane against the words of the RFCs of IPv6; `docs/fibnic-rfc.md` names these tests.

mod common;

use common::*;

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
