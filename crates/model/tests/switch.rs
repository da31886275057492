// SPDX-License-Identifier: Apache-2.0
//! The model of the switch against the RFCs and `docs/fibnic.md`. Frames and checksums are made
//! here by hand; `docs/fibnic-rfc.md` names these tests.

mod packets;

use model::switch::{
    AclPrefix, AclRule, CHECK_WINDOW, Check, Media, Port, Received, SwitchConfig, SwitchModel,
    Target, Verdict,
};
use rand::{Rng, RngExt};

use packets::*;

#[test]
fn a_forwarded_ipv4_packet_changes_in_its_macs_ttl_and_checksum_alone() {
    let before = good4().body();
    let outcome = forward(good4());
    assert_eq!(outcome.verdict, Verdict::Forward);
    assert_eq!(outcome.egress, Some(Target::Port(2)));
    let after = &outcome.bytes;
    assert_eq!(after[..6], NEIGHBOUR);
    assert_eq!(after[6..12], port_mac(2));
    assert_eq!(after[22], 63);
    assert_eq!(sum16(&after[14..34]), 0xFFFF);
    for at in (12..22).chain(23..24).chain(26..before.len()) {
        assert_eq!(after[at], before[at], "byte {at}");
    }
    assert_eq!(after.len(), before.len());
    assert!(!outcome.spoiled);
}

#[test]
fn a_forwarded_ipv6_packet_changes_in_its_macs_and_hop_limit_alone() {
    let before = good6().body();
    let outcome = forward(good6());
    assert_eq!(outcome.verdict, Verdict::Forward);
    assert_eq!(outcome.bytes[..6], NEIGHBOUR);
    assert_eq!(outcome.bytes[6..12], port_mac(2));
    assert_eq!(outcome.bytes[21], 63);
    for at in (12..21).chain(22..before.len()) {
        assert_eq!(outcome.bytes[at], before[at], "byte {at}");
    }
}

/// RFC 1624 equation 3 on every header checksum that can occur.
#[test]
fn rfc1624_checksum_update_is_right_for_every_checksum() {
    let mut switch = switch();
    let mut to_zero = 0;
    for identification in 0..=u16::MAX {
        let [high, low] = identification.to_be_bytes();
        let before = good4().with(4, high).with(5, low).body();
        let sum = u16::from_be_bytes([before[24], before[25]]);
        let ttl_protocol = u32::from(u16::from_be_bytes([before[22], before[23]]));
        // HC' = ~(~HC + ~m + m')
        let mut update = u32::from(!sum) + (0xFFFF - ttl_protocol) + (ttl_protocol - 0x100);
        while update > 0xFFFF {
            update = (update & 0xFFFF) + (update >> 16);
        }
        let outcome = switch.forward(1, &with_fcs(before), false).unwrap();
        assert_eq!(outcome.verdict, Verdict::Forward);
        let after = u16::from_be_bytes([outcome.bytes[24], outcome.bytes[25]]);
        assert_eq!(
            after,
            !(update as u16),
            "identification {identification:#x}"
        );
        assert_eq!(sum16(&outcome.bytes[14..34]), 0xFFFF);
        // RFC 1141's formula gives 0xFFFF here, which RFC 1624 section 3 calls wrong.
        assert_ne!(after, 0xFFFF);
        to_zero += u32::from(after == 0);
    }
    assert!(
        to_zero > 0,
        "the corner of RFC 1624 section 3 did not occur"
    );
}

/// RFC 1624: in one's complement 0x0000 and 0xFFFF are one number; both are valid on receipt.
#[test]
fn rfc1624_both_zeros_are_taken_and_a_true_sum_leaves() {
    let mut zeros = 0;
    for identification in 0..=u16::MAX {
        let [high, low] = identification.to_be_bytes();
        let mut ip = good4().with(4, high).with(5, low);
        let body = ip.clone().body();
        if body[24..26] != [0, 0] {
            continue;
        }
        zeros += 1;
        for sum in [0x00, 0xFF] {
            ip.frame[24..26].fill(sum);
            ip.sum = false;
            let outcome = forward(ip.clone());
            assert_eq!(outcome.verdict, Verdict::Forward);
            assert_eq!(outcome.bytes[24..26], [0x01, 0x00]);
        }
    }
    assert_eq!(zeros, 1);
}

#[test]
fn rfc1812_5_2_2_headers_are_validated() {
    assert_eq!(verdict(good4().with(0, 0x55)), Verdict::DropHeader); // version
    assert_eq!(verdict(good4().with(0, 0x44)), Verdict::DropHeader); // IHL below 5
    assert_eq!(verdict(good4().with(2, 0).with(3, 19)), Verdict::DropHeader); // total length
    assert_eq!(verdict(good4().with(2, 0).with(3, 20)), Verdict::Forward);
    let mut rand = seeded();
    for _ in 0..1000 {
        // Any one bit of the header wrong, but for the version and IHL, which are above.
        let mut ip = good4();
        ip.frame = ip.clone().body();
        ip.sum = false;
        let bit = rand.random_range(8..160);
        ip.frame[14 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(verdict(ip), Verdict::DropHeader, "bit {bit}");
    }
}

#[test]
fn rfc8200_version_is_validated() {
    for version in (0..16).filter(|&version| version != 6) {
        let expected = Verdict::DropHeader;
        assert_eq!(verdict(good6().with(0, version << 4)), expected);
    }
}

#[test]
fn rfc1812_5_3_1_a_ttl_of_0_or_1_is_never_forwarded() {
    assert_eq!(verdict(good4().with(8, 0)), Verdict::HostExpires);
    assert_eq!(verdict(good4().with(8, 1)), Verdict::HostExpires);
    let outcome = forward(good4().with(8, 2));
    assert_eq!((outcome.verdict, outcome.bytes[22]), (Verdict::Forward, 1));
    assert_eq!(forward(good4().with(8, 255)).bytes[22], 254);
}

#[test]
fn rfc8200_a_hop_limit_of_0_or_1_is_never_forwarded() {
    assert_eq!(verdict(good6().with(7, 0)), Verdict::HostExpires);
    assert_eq!(verdict(good6().with(7, 1)), Verdict::HostExpires);
    let outcome = forward(good6().with(7, 2));
    assert_eq!((outcome.verdict, outcome.bytes[21]), (Verdict::Forward, 1));
}

#[test]
fn rfc1812_5_3_7_martian_addresses_are_dropped() {
    for src in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.255.255",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
    ] {
        assert_eq!(
            verdict(Ip::v4(src, "192.0.2.1")),
            Verdict::DropMartian,
            "{src}"
        );
    }
    for dst in [
        "0.0.0.0",
        "0.255.255.255",
        "127.0.0.1",
        "240.0.0.0",
        "255.255.255.254",
    ] {
        assert_eq!(
            verdict(Ip::v4("10.0.0.1", dst)),
            Verdict::DropMartian,
            "{dst}"
        );
    }
    for src in ["1.0.0.0", "126.255.255.255", "128.0.0.0", "223.255.255.255"] {
        assert_eq!(verdict(Ip::v4(src, "192.0.2.1")), Verdict::Forward, "{src}");
    }
}

#[test]
fn rfc4291_impossible_addresses_are_dropped() {
    for src in ["::", "::1", "ff02::1", "ff0e::1"] {
        assert_eq!(
            verdict(Ip::v6(src, "2001:db8:2::1")),
            Verdict::DropMartian,
            "{src}"
        );
    }
    for dst in ["::", "::1"] {
        assert_eq!(
            verdict(Ip::v6("2001:db8::1", dst)),
            Verdict::DropMartian,
            "{dst}"
        );
    }
}

#[test]
fn multicast_and_limited_broadcast_go_to_the_host() {
    for dst in ["224.0.0.5", "239.1.2.3", "255.255.255.255"] {
        assert_eq!(
            verdict(Ip::v4("10.0.0.1", dst)),
            Verdict::HostLocal,
            "{dst}"
        );
    }
    assert_eq!(
        verdict(Ip::v6("2001:db8::1", "ff0e::1")),
        Verdict::HostLocal
    );
}

#[test]
fn rfc4291_link_local_is_never_forwarded() {
    let mut switch = switch();
    switch.set_route6(0, 0, Some(3));
    for (src, dst) in [
        ("fe80::1", "2001:db8:2::1"),
        ("2001:db8:1::1", "fe80::1"),
        ("febf::1", "2001:db8:2::1"),
    ] {
        let outcome = switch.forward(1, &Ip::v6(src, dst).frame(), false).unwrap();
        assert_eq!(outcome.verdict, Verdict::HostLocal, "{src} {dst}");
    }
    // fec0::/10 was site-local; RFC 4291 section 2.5.7 has it treated as global.
    assert_eq!(
        verdict(Ip::v6("fec0::1", "2001:db8:2::1")),
        Verdict::Forward
    );
}

#[test]
fn rfc3927_link_local_is_never_forwarded() {
    let mut switch = switch();
    switch.set_route4(0, 0, Some(3));
    for (src, dst) in [
        ("169.254.0.1", "192.0.2.1"),
        ("10.0.0.1", "169.254.255.255"),
    ] {
        let outcome = switch.forward(1, &Ip::v4(src, dst).frame(), false).unwrap();
        assert_eq!(outcome.verdict, Verdict::HostLocal, "{src} {dst}");
    }
    assert_eq!(
        verdict(Ip::v4("169.253.255.255", "192.0.2.1")),
        Verdict::Forward
    );
}

#[test]
fn rfc1812_4_2_2_1_options_go_to_the_host() {
    let mut ip = good4().with(0, 0x46);
    ip.frame.splice(34..34, [0x94, 4, 0, 0]); // router alert
    let outcome = forward(ip.sized(64));
    assert_eq!(
        (outcome.verdict, outcome.egress),
        (Verdict::HostOptions, Some(Target::Host))
    );
}

#[test]
fn rfc8200_4_3_hop_by_hop_options_go_to_the_host() {
    assert_eq!(verdict(good6().with(6, 0)), Verdict::HostOptions);
    // Other extension headers are none of a router's business.
    for next in [43, 44, 60, 51, 59] {
        assert_eq!(verdict(good6().with(6, next)), Verdict::Forward);
    }
}

#[test]
fn rfc1812_5_3_4_link_layer_broadcasts_are_not_forwarded() {
    let mut ip = good4();
    for mac in [[0xFF; 6], [1, 0, 0x5E, 0, 0, 5]] {
        ip.frame[..6].copy_from_slice(&mac);
        let outcome = forward(ip.clone());
        assert_eq!(
            (outcome.verdict, outcome.egress),
            (Verdict::HostLink, Some(Target::Host))
        );
        assert_eq!(outcome.bytes, ip.clone().body());
    }
}

#[test]
fn frames_to_another_station_are_dropped() {
    let mut ip = good4();
    ip.frame[..6].copy_from_slice(&port_mac(0));
    assert_eq!(verdict(ip), Verdict::DropNotMine);
}

#[test]
fn what_is_not_ip_goes_to_the_host() {
    for kind in [0x0806u16, 0x8100, 0x88CC, 46] {
        let mut ip = good4();
        ip.frame[12..14].copy_from_slice(&kind.to_be_bytes());
        let mut switch = switch();
        let outcome = switch.forward(1, &with_fcs(ip.frame), false).unwrap();
        assert_eq!(
            (outcome.verdict, outcome.key),
            (Verdict::HostNotIp, None),
            "{kind:#x}"
        );
    }
}

#[test]
fn routes_to_host_nowhere_and_the_unresolved() {
    let to = |dst| verdict(Ip::v4("198.51.100.1", dst));
    assert_eq!(to("192.0.2.128"), Verdict::HostRoute);
    assert_eq!(to("192.0.2.129"), Verdict::DropRoute);
    assert_eq!(to("192.0.2.130"), Verdict::HostNeighbour);
    assert_eq!(to("192.0.2.131"), Verdict::HostNoRoute); // a port that is not there
    assert_eq!(to("203.0.113.1"), Verdict::HostNoRoute);
    assert_eq!(
        verdict(Ip::v6("2001:db8:1::1", "2001:db8:2::80")),
        Verdict::HostRoute
    );
    assert_eq!(
        verdict(Ip::v6("2001:db8:1::1", "2001:db8:3::1")),
        Verdict::HostNoRoute
    );
}

/// RFC 791 fragments and packets longer than the next link takes.
#[test]
fn rfc1191_packets_longer_than_the_mtu_go_to_the_host() {
    for flags in [0x00, 0x40] {
        let sized = |bytes| verdict(good4().with(6, flags).sized(bytes));
        assert_eq!(sized(1514), Verdict::Forward);
        assert_eq!(sized(1515), Verdict::HostMtu);
        assert_eq!(sized(9212), Verdict::HostMtu);
    }
}

#[test]
fn rfc4443_3_2_packets_longer_than_the_mtu_go_to_the_host() {
    assert_eq!(verdict(good6().sized(1514)), Verdict::Forward);
    assert_eq!(verdict(good6().sized(1515)), Verdict::HostMtu);
}

#[test]
fn lookups_take_the_longest_prefix() {
    let mut rand = seeded();
    let mut switch = SwitchModel::new(SwitchConfig::default());
    let mut routes = Vec::new();
    for id in 1..500 {
        let (len, address) = (rand.random_range(0..=32), rand.next_u32() & 0x1F00_FFFF);
        switch.set_route4(address, len, Some(id));
        routes.push((address, len, id));
    }
    for _ in 0..20_000 {
        let (base, ..) = routes[rand.random_range(0..routes.len())];
        let address = base
            ^ rand
                .next_u32()
                .checked_shr(rand.random_range(0..40))
                .unwrap_or(0);
        // The last of the routes with the most common leading bits.
        let best = routes
            .iter()
            .filter(|(base, len, _)| (address ^ base).leading_zeros() >= u32::from(*len))
            .max_by_key(|(_, len, _)| *len)
            .map(|(_, _, id)| *id);
        assert_eq!(switch.lookup4(address), best);
    }
    for (address, len, _) in routes {
        switch.set_route4(address, len, None);
    }
    assert_eq!(switch.lookup4(0), None);
}

/// `docs/fibnic.md`, "Order of verdicts": a frame with everything wrong, put right step by step.
#[test]
fn verdicts_come_in_the_documented_order() {
    let mut switch = switch();
    switch.set_port(
        1,
        Port {
            vlan_in: Some(7),
            check: Check::Always,
            ..*switch.port(1)
        },
    );
    switch.set_port(
        2,
        Port {
            mtu: 59,
            ..*switch.port(2)
        },
    );
    let any = AclRule {
        deny: true,
        v4: true,
        v6: true,
        src: AclPrefix::default(),
        dst: AclPrefix::default(),
        protocol: None,
        src_ports: None,
        dst_ports: None,
        ingress: 0xFFFF,
    };
    switch.acl.rules = vec![Some(any)];

    let mut ip = Ip::v4("224.0.0.1", "224.0.0.2").with(0, 0x56).with(8, 1);
    ip.frame[0] = 1;
    let mut seen = Vec::new();
    let mut step = |switch: &mut SwitchModel, frame: &[u8]| {
        seen.push(switch.forward(1, frame, false).unwrap().verdict);
    };
    step(&mut switch, &ip.clone().body()[..50]);
    step(
        &mut switch,
        &with_fcs([ip.clone().body(), vec![0]].concat())[..64],
    ); // cut: FCS wrong
    ip = ip.sized(70);
    step(&mut switch, &ip.clone().frame());
    switch.set_port(
        1,
        Port {
            vlan_in: None,
            ..*switch.port(1)
        },
    );
    step(&mut switch, &ip.clone().frame());
    ip.frame[0] = 2;
    ip.frame[5] = 99;
    step(&mut switch, &ip.clone().frame());
    ip.frame[5] = 1;
    ip.frame[12] = 9;
    step(&mut switch, &ip.clone().frame());
    ip.frame[12] = 8;
    step(&mut switch, &ip.clone().frame());
    ip = ip.with(0, 0x46);
    step(&mut switch, &ip.clone().frame());
    ip = ip.with(12, 10);
    step(&mut switch, &ip.clone().frame());
    switch.acl.rules.clear();
    step(&mut switch, &ip.clone().frame());
    ip = ip.with(16, 192);
    step(&mut switch, &ip.clone().frame());
    ip = ip.with(0, 0x45);
    step(&mut switch, &ip.clone().frame());
    ip = ip.with(8, 64);
    step(&mut switch, &ip.clone().frame());
    for last in [128, 129, 130] {
        ip = ip.with(18, 2).with(19, last);
        step(&mut switch, &ip.clone().frame());
    }
    ip = ip.with(19, 2).sized(74);
    step(&mut switch, &ip.clone().frame());
    step(&mut switch, &ip.sized(73).frame());
    assert_eq!(
        seen,
        [
            Verdict::DropRunt,
            Verdict::DropBad,
            Verdict::DropVlan,
            Verdict::HostLink,
            Verdict::DropNotMine,
            Verdict::HostNotIp,
            Verdict::DropHeader,
            Verdict::DropMartian,
            Verdict::DropAcl,
            Verdict::HostLocal,
            Verdict::HostOptions,
            Verdict::HostExpires,
            Verdict::HostNoRoute,
            Verdict::HostRoute,
            Verdict::DropRoute,
            Verdict::HostNeighbour,
            Verdict::HostMtu,
            Verdict::Forward,
        ]
    );
}

#[test]
fn verdict_numbers_are_those_of_the_package() {
    for (number, verdict) in (0..).zip(Verdict::ALL) {
        assert_eq!(verdict.number(), number);
        assert_eq!(Verdict::from_number(number), Some(verdict));
    }
    assert_eq!(Verdict::from_number(18), None);
    // The enum of the RTL: camel case with a V in front.
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../rtl/fibnic/fibnic_pkg.sv"
    );
    let package = std::fs::read_to_string(path).unwrap();
    let (list, _) = package.split_once("} verdict_e;").unwrap();
    let (_, list) = list.rsplit_once('{').unwrap();
    let names: Vec<_> = list
        .lines()
        .filter_map(|line| line.trim().split([',', ' ']).next())
        .filter(|name| name.starts_with('V'))
        .map(|name| name[1..].to_owned())
        .collect();
    let expected: Vec<_> = Verdict::ALL
        .iter()
        .map(|verdict| format!("{verdict:?}"))
        .collect();
    assert_eq!(names, expected);
}

#[test]
fn bad_frames_leave_spoiled_in_cut_through() {
    let mut broken = good4().frame();
    *broken.last_mut().unwrap() ^= 1;
    let outcome = switch().forward(1, &broken, false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Forward);
    assert_eq!(
        (outcome.received, outcome.spoiled),
        (Received::BadFcs, true)
    );
    let outcome = switch().forward(1, &good4().frame(), true).unwrap();
    assert_eq!((outcome.received, outcome.spoiled), (Received::Error, true));
    // Shorter than its packet: the FCS is right, and yet it is bad.
    let mut ip = good4();
    ip.frame[17] = 47;
    let outcome = forward(ip);
    assert_eq!((outcome.received, outcome.spoiled), (Received::Good, true));
    let mut ip = good6();
    ip.frame[19] = 27;
    assert!(forward(ip).spoiled);
    // Longer is padding.
    let mut ip = good4();
    ip.frame.extend([0; 9]);
    assert!(!forward(ip).spoiled);
}

#[test]
fn stored_bad_frames_are_dropped_whole() {
    let mut switch = switch();
    switch.set_port(
        1,
        Port {
            check: Check::Always,
            ..*switch.port(1)
        },
    );
    let mut broken = good4().frame();
    broken[40] ^= 1;
    let outcome = switch.forward(1, &broken, false).unwrap();
    assert_eq!((outcome.verdict, outcome.egress), (Verdict::DropBad, None));
    assert!(!outcome.spoiled);
    let mut short = good4();
    short.frame[17] = 47;
    let outcome = switch.forward(1, &short.frame(), false).unwrap();
    assert_eq!(outcome.verdict, Verdict::DropBad);
    let outcome = switch.forward(1, &good4().frame(), true).unwrap();
    assert_eq!(outcome.verdict, Verdict::DropBad);
    let outcome = switch.forward(1, &good4().frame(), false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Forward);
}

#[test]
fn a_port_with_many_bad_frames_stores_until_they_end() {
    let mut switch = switch();
    let check = Check::Auto { on: 3, off: 1 };
    switch.set_port(
        1,
        Port {
            check,
            ..*switch.port(1)
        },
    );
    let good = good4().frame();
    let mut bad = good.clone();
    bad[45] ^= 4;
    for _ in 0..3 {
        assert!(!switch.forward(1, &bad, false).unwrap().check_begins);
    }
    assert!(!switch.stores(1));
    assert!(switch.forward(1, &bad, false).unwrap().check_begins);
    assert!(switch.stores(1));
    assert_eq!(
        switch.forward(1, &bad, false).unwrap().verdict,
        Verdict::DropBad
    );
    // Other ports go on.
    assert!(!switch.stores(0));
    // This window has two bad frames: it goes on. The next has one: it ends.
    switch.forward(1, &bad, false);
    for _ in 2..CHECK_WINDOW {
        switch.forward(1, &good, false);
    }
    assert!(switch.stores(1));
    switch.forward(1, &bad, false);
    for _ in 1..CHECK_WINDOW {
        assert!(switch.stores(1));
        switch.forward(1, &good, false);
    }
    assert!(!switch.stores(1));
}

#[test]
fn runts_are_dropped_whole_if_their_end_is_known() {
    let frame = good4().frame();
    for bytes in 1..64 {
        let outcome = switch().forward(1, &frame[..bytes], false).unwrap();
        assert_eq!(outcome.verdict, Verdict::DropRunt, "{bytes}");
        assert_eq!(outcome.received, Received::Runt);
        // At 1G the frame is on its way when its header is complete.
        let mut slow = switch_of(Media::Gmii);
        let outcome = slow.forward(1, &frame[..bytes], false).unwrap();
        if bytes < 34 {
            assert_eq!(outcome.verdict, Verdict::DropRunt, "{bytes}");
        } else {
            assert_eq!(outcome.verdict, Verdict::Forward, "{bytes}");
            assert!(outcome.may_be_runt && outcome.spoiled);
        }
    }
    // What is not forwarded waits until it is known.
    let mut other = good4();
    other.frame[12] = 9;
    for media in [Media::Xgmii, Media::Gmii] {
        let outcome = switch_of(media).forward(1, &other.clone().frame()[..63], false);
        let outcome = outcome.unwrap();
        assert_eq!(
            (outcome.verdict, outcome.may_be_runt),
            (Verdict::DropRunt, false)
        );
    }
    assert!(switch().forward(1, &[], false).is_none());
}

/// A runt may end anywhere in its tag, or in front of it.
#[test]
fn runts_on_a_port_with_a_vlan_are_runts() {
    let mut body = good4().body();
    body.splice(12..12, [0x81, 0, 0, 100]);
    let frame = with_fcs(body);
    for media in [Media::Xgmii, Media::Gmii] {
        for bytes in 1..64 {
            let mut switch = switch_of(media);
            let vlan_in = Some(100);
            let port = *switch.port(1);
            switch.set_port(1, Port { vlan_in, ..port });
            let outcome = switch.forward(1, &frame[..bytes], false).unwrap();
            assert_eq!(outcome.received, Received::Runt);
            // At 1G it is on its way when its header is complete.
            let expected = match media {
                Media::Gmii if bytes >= 34 + 4 => Verdict::Forward,
                _ => Verdict::DropRunt,
            };
            assert_eq!(outcome.verdict, expected, "{media:?} {bytes}");
        }
    }
}

#[test]
fn giants_are_cut_and_leave_spoiled() {
    let mut ip = good4();
    ip.frame.resize(9212, 0);
    assert!(!forward(ip.clone()).spoiled);
    for (media, extra, cut) in [
        (Media::Xgmii, 1, 9217),
        (Media::Xgmii, 8, 9224),
        (Media::Xgmii, 100, 9224),
        (Media::Gmii, 1, 9217),
        (Media::Gmii, 100, 9217),
    ] {
        let mut ip = ip.clone();
        ip.frame.resize(9212 + extra, 0);
        let outcome = switch_of(media).forward(1, &ip.frame(), false).unwrap();
        assert_eq!(outcome.verdict, Verdict::Forward);
        assert_eq!((outcome.received, outcome.spoiled), (Received::Giant, true));
        assert_eq!(outcome.bytes.len(), cut - 4, "{media:?} {extra}");
    }
}

#[test]
fn vlan_tags_come_off_and_go_on() {
    let mut switch = switch();
    switch.set_port(
        1,
        Port {
            vlan_in: Some(100),
            ..*switch.port(1)
        },
    );
    switch.set_port(
        2,
        Port {
            vlan_out: Some(200),
            ..*switch.port(2)
        },
    );
    let tagged = |tag: [u8; 4]| {
        let mut body = good4().body();
        body.splice(12..12, tag);
        with_fcs(body)
    };
    // The priority bits don't matter.
    let outcome = switch
        .forward(1, &tagged([0x81, 0, 0xE0, 100]), false)
        .unwrap();
    assert_eq!(outcome.verdict, Verdict::Forward);
    assert_eq!(outcome.bytes[12..18], [0x81, 0, 0, 200, 8, 0]);
    assert_eq!(outcome.bytes.len(), 64);
    let other = switch
        .forward(1, &tagged([0x81, 0, 0, 101]), false)
        .unwrap();
    assert_eq!(other.verdict, Verdict::DropVlan);
    let service = switch
        .forward(1, &tagged([0x88, 0xA8, 0, 100]), false)
        .unwrap();
    assert_eq!(service.verdict, Verdict::DropVlan);
    assert_eq!(
        switch.forward(1, &good4().frame(), false).unwrap().verdict,
        Verdict::DropVlan
    );

    // 64 bytes with the tag are no runt; padding makes them 64 again without it.
    switch.set_port(
        2,
        Port {
            vlan_out: None,
            ..*switch.port(2)
        },
    );
    let mut short = good4().with(3, 20).body();
    short.truncate(56);
    short.splice(12..12, [0x81, 0, 0, 100]);
    let outcome = switch.forward(1, &with_fcs(short), false).unwrap();
    assert_eq!(
        (outcome.verdict, outcome.bytes.len()),
        (Verdict::Forward, 60)
    );
    assert_eq!(outcome.bytes[56..], [0; 4]);
    assert!(!outcome.spoiled);

    // The host sees no tags, and its frames get them.
    switch.set_port(
        1,
        Port {
            vlan_out: Some(100),
            ..*switch.port(1)
        },
    );
    let mut to_host = Ip::v4("198.51.100.1", "192.0.2.128").body();
    to_host.splice(12..12, [0x81, 0, 0, 100]);
    let outcome = switch.forward(1, &with_fcs(to_host), false).unwrap();
    assert_eq!(outcome.bytes, Ip::v4("198.51.100.1", "192.0.2.128").body());
    assert_eq!(switch.from_host(1, &[1; 40])[12..16], [0x81, 0, 0, 100]);
    assert_eq!(switch.from_host(1, &[1; 40]).len(), 60);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let mut switch = switch();
    let any = AclRule {
        deny: false,
        v4: true,
        v6: false,
        src: AclPrefix::default(),
        dst: AclPrefix::default(),
        protocol: None,
        src_ports: None,
        dst_ports: None,
        ingress: 0xFFFF,
    };
    let ten = AclPrefix {
        value: 10 << 120,
        mask: 0xFF << 120,
    };
    switch.acl.rules = vec![
        None,
        Some(AclRule {
            dst_ports: Some((7, 9)),
            ingress: 1 << 1,
            src: ten,
            ..any
        }),
        Some(AclRule {
            deny: true,
            src: ten,
            ..any
        }),
        Some(AclRule {
            deny: true,
            protocol: Some(6),
            dst_ports: Some((22, 22)),
            ..any
        }),
    ];
    let mut to = |ip: Ip, port: u8| {
        let mut ip = ip;
        ip.frame[5] = port;
        let outcome = switch.forward(port, &ip.frame(), false).unwrap();
        (outcome.verdict == Verdict::DropAcl, outcome.rule)
    };
    let echo = || Ip::v4("10.0.0.1", "192.0.2.1");
    assert_eq!(to(echo(), 1), (false, Some(1)));
    assert_eq!(to(echo(), 0), (true, Some(2)));
    // Without ports a condition on ports does not hold: ICMP, later fragments, options.
    assert_eq!(to(echo().with(9, 1), 1), (true, Some(2)));
    assert_eq!(to(echo().with(7, 1), 1), (true, Some(2)));
    assert_eq!(to(echo().with(6, 0x20), 1), (false, Some(1)));
    assert_eq!(to(good4(), 1), (false, None));
    assert_eq!(to(good4().with(9, 6).with(23, 22), 1), (true, Some(3)));
    assert_eq!(to(good4().with(23, 22), 1), (false, None));
    assert_eq!(to(good6(), 1), (false, None));
    // A frame that is dropped for its header counts for no rule.
    assert_eq!(to(echo().with(0, 0x55), 1), (false, None));
    // One that ends within its header counts at 1G for a rule that its zeros match, or not.
    for (media, rule) in [(Media::Xgmii, None), (Media::Gmii, Some(2))] {
        let mut switch = switch_of(media);
        switch.acl.rules = vec![None, Some(AclRule { src: ten, ..any }), Some(any)];
        let outcome = switch
            .judge(1, &good4().frame()[..33], true, false)
            .unwrap();
        assert_eq!((outcome.verdict, outcome.rule), (Verdict::DropRunt, rule));
    }
    switch.acl.default_deny = true;
    let outcome = switch.forward(1, &good6().frame(), false).unwrap();
    assert_eq!((outcome.verdict, outcome.rule), (Verdict::DropAcl, None));
}

/// Whatever comes, nothing panics, and what leaves keeps its promises.
#[test]
fn any_bytes_are_judged() {
    let mut rand = seeded();
    let mut switch = switch();
    for round in 0..20_000 {
        let template = if rand.random() { good4() } else { good6() };
        let mut frame = template.frame();
        for _ in 0..rand.random_range(0..4) {
            let at = rand.random_range(0..frame.len());
            frame[at] ^= 1 << rand.random_range(0..8);
        }
        if rand.random_ratio(1, 4) {
            frame.truncate(rand.random_range(0..frame.len()));
        }
        if rand.random() && frame.len() > 4 {
            frame.truncate(frame.len() - 4);
            frame = with_fcs(frame);
        }
        let Some(outcome) = switch.forward(1, &frame, rand.random_ratio(1, 10)) else {
            assert!(frame.is_empty());
            continue;
        };
        assert_eq!(
            outcome.egress.is_none(),
            outcome.bytes.is_empty() && outcome.egress.is_none()
        );
        if outcome.verdict == Verdict::Forward {
            assert!(outcome.bytes.len() >= 60);
            assert_eq!(outcome.bytes[..6], NEIGHBOUR, "round {round}");
            if outcome.bytes[12] == 8 {
                assert_eq!(sum16(&outcome.bytes[14..34]), 0xFFFF);
            }
        }
    }
}
