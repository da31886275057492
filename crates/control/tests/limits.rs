// SPDX-License-Identifier: Apache-2.0
//! Limits, mistakes of a configuration, routes that come and go; `docs/fibnic-rfc.md` names some of these tests.

mod common;

use common::*;
use control::{Action, Config, Control, Error, HostFrame, Police, PortConfig};

#[test]
fn a_scan_of_a_subnet_is_bounded() {
    let mut config = config();
    config.timers.neighbours = 16; // 4 of each port
    config.timers.ask_burst = 20;
    let mut rig = Rig::of(config);
    rig.introduce(1, 7);
    let mut requests = 0;
    for host in 10..200 {
        requests += rig
            .packet(1, 7, &transit(&format!("10.0.2.{host}"), 8).bytes())
            .len();
    }
    assert_eq!(requests, 20);
    let stats = *rig.control.stats();
    assert_eq!((stats.asks_limited, stats.neighbours_evicted), (170, 16));
    // Each that gave way had a packet.
    assert_eq!(stats.undelivered, 16);
    rig.wait(60 * SECOND);
    assert_eq!(rig.control.next_tick(), None);
    assert_eq!(rig.packet(1, 7, &transit("10.0.2.10", 8).bytes()).len(), 1);
}

/// Ten thousand addresses that nobody has, as fast as a host of port 1 can send: hosts of other ports are resolved
/// meanwhile, behind another port and behind the one that is scanned, and so is one that port 1 speaks to afterwards.
#[test]
fn a_scan_keeps_no_other_port_from_new_neighbours() {
    for family in [4, 6] {
        let mut config = config();
        config.ports[2]
            .addresses
            .push("10.64.0.1/16".parse().unwrap());
        let mut rig = Rig::of(config);
        rig.introduce(1, 7);
        rig.introduce(0, 5);
        let resolved = |rig: &mut Rig, from: (u8, u8), to: (u8, u8)| {
            let ((port, number), (there, host)) = (from, to);
            let asked = rig.now;
            let own = format!("10.0.{there}.{host}");
            let src = format!("10.0.{port}.{number}");
            let packet = ip4(&src, &own, UDP, udp(8)).bytes();
            let request = rig.packet(port, number, &packet);
            assert_eq!(
                (request.len(), request[0].0),
                (1, there),
                "{own} is asked for"
            );
            rig.scan(family, 100);
            let (us, mac) = (format!("10.0.{there}.1"), host_mac(there, host));
            let answer = arp(2, mac, &own, port_mac(there), &us);
            let sent = rig.give(there, &eth(port_mac(there), mac, ARP, &answer));
            assert_eq!(sent.len(), 1, "the packet to {own} goes on");
            assert_eq!(rig.mac(&own), Some(mac));
            assert!(rig.now - asked < SECOND);
        };
        rig.scan(family, 5_000);
        resolved(&mut rig, (0, 5), (3, 30));
        resolved(&mut rig, (0, 5), (2, 40));
        rig.scan(family, 5_000);
        resolved(&mut rig, (0, 5), (3, 31));
        let stats = rig.control.stats();
        assert!(stats.asks_limited > 5_000, "{stats:?}");
        assert_eq!(stats.neighbours_full, 0);
        rig.wait(SECOND / 10);
        resolved(&mut rig, (1, 7), (3, 32));
    }
}

/// Who answers for all addresses of his own port takes its share and no more.
#[test]
fn who_claims_all_addresses_takes_the_share_of_his_port() {
    let mut config = config();
    config.timers.neighbours = 64;
    let mut rig = Rig::of(config);
    for host in 10..200 {
        let mac = host_mac(1, host);
        let request = arp(1, mac, &format!("10.0.1.{host}"), [0; 6], "10.0.1.1");
        rig.give(1, &eth(BROADCAST, mac, ARP, &request));
    }
    assert_eq!(rig.control.neighbours().count(), 16);
    assert_eq!(rig.control.stats().neighbours_full, 174);
    assert_eq!(rig.control.stats().neighbours_evicted, 0);
    rig.introduce(2, 9);
    // They are asked, nobody answers: there is room again.
    rig.wait(60 * SECOND);
    rig.introduce(1, 9);
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

/// A withdrawal that full tables have no room for gives a /18 up to the host, which forwards it.
#[test]
fn what_the_tables_shed_goes_by_software() {
    let mut config = config();
    config.fib.v4 = fib::Config4::RunVec {
        leaves: 128,
        groups: 4,
        hosts: 64,
    };
    config.routes.clear();
    let mut rig = Rig::of(config);
    for (port, host) in [(1, 7), (2, 9), (3, 8)] {
        rig.introduce(port, host);
    }
    for route in [
        "20.1.0.0/16 via 10.0.2.9",
        "20.1.64.0/18 via 10.0.3.8",
        "20.1.80.0/20 via 10.0.3.8",
    ] {
        rig.control.announce(route.parse().unwrap()).unwrap();
    }
    let filler = |second: u32| format!("21.{second}.0.0/19");
    let mut fillers = 0;
    loop {
        let route = format!("{} via 10.0.2.9", filler(fillers));
        if rig.control.announce(route.parse().unwrap()).is_err() {
            break;
        }
        fillers += 1;
    }
    rig.control
        .withdraw("20.1.64.0/18".parse().unwrap())
        .unwrap();
    assert_eq!(rig.control.fib().shed(), 1);
    for (address, port) in [("20.1.80.1", 3), ("20.1.64.1", 2)] {
        let to: std::net::Ipv4Addr = address.parse().unwrap();
        let found = rig.control.fib().lookup4(to.into());
        assert_eq!(found, Some(fib::NextHopId::SHED));
        let sent = rig.packet(1, 7, &transit(address, 8).bytes());
        assert_eq!((sent.len(), sent[0].0), (1, port));
    }
    for second in 0..fillers {
        rig.control
            .withdraw(filler(second).parse().unwrap())
            .unwrap();
    }
    assert_eq!(rig.control.fib().shed(), 0);
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
    let error = refused(|config| config.ports[1].police.rate = 1 << 24);
    assert!(matches!(error, Error::Police { port: 1, .. }));
    let error = refused(|config| config.ports[1].police.burst = 1 << 12);
    assert!(matches!(error, Error::Police { port: 1, .. }));
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
    // MAC address, MTU, VLAN, check, police of port 3 at 24 to 28.
    assert_eq!(
        settings[15..],
        [
            (24, 0x0200_0000_0103),
            (25, 1280),
            (26, 0),
            (27, 0),
            (28, 1024 << 24 | 10_000)
        ]
    );
    let port = PortConfig {
        vlan_in: Some(0x123),
        vlan_out: Some(0x456),
        check: control::Check::Auto { on: 0x81, off: 3 },
        police: Police {
            rate: 0x12_3456,
            burst: 0x789,
        },
        ..PortConfig::default()
    };
    let words = port.words(5).map(|write| (write.address, write.data[0]));
    let tags = 1 << 25 | 0x456 << 13 | 1 << 12 | 0x123;
    let fields = [tags, 3 << 10 | 0x81 << 2 | 1, 0x7_8912_3456];
    assert_eq!(
        words[2..],
        [(42, fields[0]), (43, fields[1]), (44, fields[2])]
    );
}
