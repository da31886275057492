// SPDX-License-Identifier: Apache-2.0
//! Packets by hand, and a switch with four ports to give them to. Nothing here uses the wire
//! formats of the code under test.
#![allow(dead_code)] // each test file uses a part

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use control::{Action, Config, Control, HostFrame, PortConfig};

pub type Mac = [u8; 6];

pub const ARP: u16 = 0x0806;
pub const V4: u16 = 0x0800;
pub const V6: u16 = 0x86DD;
pub const ICMP: u8 = 1;
pub const UDP: u8 = 17;
pub const ICMP6: u8 = 58;
pub const BROADCAST: Mac = [0xFF; 6];
pub const SECOND: u64 = 1_000_000_000;

/// MAC address of a port.
pub fn port_mac(port: u8) -> Mac {
    [2, 0, 0, 0, 1, port]
}

/// MAC address of host `number` behind a port.
pub fn host_mac(port: u8, number: u8) -> Mac {
    [2, 0, 0, 1, port, number]
}

pub fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// RFC 1071.
pub fn sum16(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

pub fn eth(dst: Mac, src: Mac, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &kind.to_be_bytes(), payload].concat()
}

pub fn arp(operation: u8, sha: Mac, spa: &str, tha: Mac, tpa: &str) -> Vec<u8> {
    [
        &[0, 1, 8, 0, 6, 4, 0, operation][..],
        &sha,
        &v4(spa).octets(),
        &tha,
        &v4(tpa).octets(),
    ]
    .concat()
}

/// An IPv4 packet in the making.
#[derive(Clone)]
pub struct Ip4 {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub protocol: u8,
    pub ttl: u8,
    pub tos: u8,
    /// Flags and fragment offset.
    pub fragment: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

pub fn ip4(src: &str, dst: &str, protocol: u8, payload: Vec<u8>) -> Ip4 {
    Ip4 {
        src: v4(src),
        dst: v4(dst),
        protocol,
        ttl: 64,
        tos: 0,
        fragment: 0,
        options: Vec::new(),
        payload,
    }
}

impl Ip4 {
    pub fn bytes(&self) -> Vec<u8> {
        let words = 5 + self.options.len() / 4;
        let length = (4 * words + self.payload.len()) as u16;
        let mut header = vec![0x40 | words as u8, self.tos];
        header.extend(length.to_be_bytes());
        header.extend([0x12, 0x34]);
        header.extend(self.fragment.to_be_bytes());
        header.extend([self.ttl, self.protocol, 0, 0]);
        header.extend(self.src.octets());
        header.extend(self.dst.octets());
        header.extend(&self.options);
        let sum = !sum16(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [header, self.payload.clone()].concat()
    }
}

pub fn icmp4(kind: u8, code: u8, word: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = [&[kind, code, 0, 0][..], &word.to_be_bytes(), data].concat();
    let sum = !sum16(&[&bytes]);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

pub fn udp(payload: usize) -> Vec<u8> {
    let length = (8 + payload) as u16;
    let mut bytes = vec![0x30, 0x39, 0x82, 0x9A];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend((0..payload).map(|at| at as u8));
    bytes
}

pub fn ip6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    [
        &[0x60, 0, 0, 0, length[0], length[1], next, hop_limit][..],
        &src.octets(),
        &dst.octets(),
        payload,
    ]
    .concat()
}

/// Sum of an ICMPv6 message with its pseudo header.
pub fn sum6(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> u16 {
    let length = (message.len() as u32).to_be_bytes();
    let pseudo = [&src.octets()[..], &dst.octets(), &length, &[0, 0, 0, ICMP6]];
    sum16(&[&pseudo.concat(), message])
}

pub fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, kind: u8, code: u8, word: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = [&[kind, code, 0, 0][..], &word.to_be_bytes(), data].concat();
    let sum = !sum6(src, dst, &bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// A neighbour solicitation (135) or advertisement (136) as a packet.
pub fn ndp(
    kind: u8,
    flags: u32,
    (src, dst): (&str, &str),
    target: &str,
    option: Option<(u8, Mac)>,
    hop_limit: u8,
) -> Vec<u8> {
    let mut data = v6(target).octets().to_vec();
    if let Some((kind, mac)) = option {
        data.extend([kind, 1]);
        data.extend(mac);
    }
    let (src, dst) = (v6(src), v6(dst));
    ip6(
        src,
        dst,
        ICMP6,
        hop_limit,
        &icmp6(src, dst, kind, 0, flags, &data),
    )
}

/// What an IPv4 ICMP frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ttl: u8,
    pub tos: u8,
    pub kind: u8,
    pub code: u8,
    pub word: u32,
    pub data: Vec<u8>,
    pub length: usize,
}

/// Reads an ICMP frame of either family; checks every checksum and length.
pub fn read_icmp(frame: &[u8]) -> Icmp {
    let word = |bytes: &[u8]| u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    let packet = &frame[14..];
    match u16::from_be_bytes([frame[12], frame[13]]) {
        V4 => {
            assert_eq!(packet[0], 0x45);
            assert_eq!(sum16(&[&packet[..20]]), 0xFFFF);
            // The rest is padding.
            let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let packet = &packet[..length];
            assert_eq!(packet[9], ICMP);
            let icmp = &packet[20..];
            assert_eq!(sum16(&[icmp]), 0xFFFF);
            let address = |at: usize| {
                let bytes: [u8; 4] = packet[at..at + 4].try_into().unwrap();
                IpAddr::from(bytes)
            };
            Icmp {
                src: address(12),
                dst: address(16),
                ttl: packet[8],
                tos: packet[1],
                kind: icmp[0],
                code: icmp[1],
                word: word(icmp),
                data: icmp[8..].to_vec(),
                length: packet.len(),
            }
        }
        V6 => {
            assert_eq!(packet[0] >> 4, 6);
            let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            let packet = &packet[..length + 40];
            assert_eq!(packet[6], ICMP6);
            let address = |at: usize| -> Ipv6Addr {
                let bytes: [u8; 16] = packet[at..at + 16].try_into().unwrap();
                bytes.into()
            };
            let icmp = &packet[40..];
            assert_eq!(sum6(address(8), address(24), icmp), 0xFFFF);
            Icmp {
                src: address(8).into(),
                dst: address(24).into(),
                ttl: packet[7],
                tos: 0,
                kind: icmp[0],
                code: icmp[1],
                word: word(icmp),
                data: icmp[8..].to_vec(),
                length: packet.len(),
            }
        }
        kind => panic!("not IP: {kind:#x}"),
    }
}

/// Whether a frame is IP with ICMP in it.
pub fn is_icmp(frame: &[u8]) -> bool {
    match u16::from_be_bytes([frame[12], frame[13]]) {
        V4 => frame[23] == ICMP,
        V6 => frame[20] == ICMP6,
        _ => false,
    }
}

/// Tables small enough for thousands of switches.
pub fn small_tables() -> fib::Config {
    fib::Config {
        v4: fib::Config4::RunVec {
            leaves: 1 << 12,
            groups: 64,
            hosts: 64,
        },
        v6: fib::Config6::Trie {
            nodes: [1 << 10; 7],
            leaves: 1 << 12,
            hosts: 64,
            tcam: 8,
        },
    }
}

/// Port p has 10.0.p.1/24 and 2001:db8:p::1/64; behind port 2 is a gateway (9) to 192.0.2.0/24 and
/// 2001:db8:ff::/48; port 3 has an MTU of 1280.
pub fn config() -> Config {
    let mut config = Config {
        fib: small_tables(),
        ..Config::default()
    };
    for port in 0..4 {
        config.ports.push(PortConfig {
            mac: port_mac(port),
            mtu: if port == 3 { 1280 } else { 1500 },
            addresses: vec![
                format!("10.0.{port}.1/24").parse().unwrap(),
                format!("2001:db8:{port}::1/64").parse().unwrap(),
            ],
            ..PortConfig::default()
        });
    }
    for route in [
        "192.0.2.0/24 via 10.0.2.9",
        "2001:db8:ff::/48 via 2001:db8:2::9",
        "203.0.113.0/24 discard",
    ] {
        config.routes.push(route.parse().unwrap());
    }
    config
}

pub type Sent = Vec<(u8, Vec<u8>)>;

/// The frames among some actions.
pub fn sent(actions: Vec<Action>) -> Sent {
    actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Send { port, bytes } => Some((port, bytes)),
            _ => None,
        })
        .collect()
}

/// A control plane and its clock.
pub struct Rig {
    pub control: Control,
    pub now: u64,
    /// Addresses that were scanned.
    pub scanned: u32,
}

impl Rig {
    pub fn new() -> Self {
        Self::of(config())
    }

    pub fn of(config: Config) -> Self {
        let mut control = Control::new(config).unwrap();
        assert!(!control.start(0).is_empty());
        let (now, scanned) = (0, 0);
        Self {
            control,
            now,
            scanned,
        }
    }

    /// Gives a frame; returns what is sent.
    pub fn give(&mut self, port: u8, bytes: &[u8]) -> Sent {
        let frame = HostFrame {
            port,
            verdict: 6,
            bad: false,
            bytes,
        };
        sent(self.control.host_frame(self.now, &frame))
    }

    /// Gives an IP packet from host `number` behind the port to the port's MAC address.
    pub fn packet(&mut self, port: u8, number: u8, packet: &[u8]) -> Sent {
        let kind = if packet[0] >> 4 == 4 { V4 } else { V6 };
        let frame = eth(port_mac(port), host_mac(port, number), kind, packet);
        self.give(port, &frame)
    }

    /// Makes host `number` behind a port known, in both families.
    pub fn introduce(&mut self, port: u8, number: u8) {
        let mac = host_mac(port, number);
        let own = format!("10.0.{port}.{number}");
        let request = arp(1, mac, &own, [0; 6], &format!("10.0.{port}.1"));
        self.give(port, &eth(BROADCAST, mac, ARP, &request));
        let own = format!("2001:db8:{port}::{number:x}");
        let target = format!("2001:db8:{port}::1");
        let ns = ndp(
            135,
            0,
            (&own, "ff02::1:ff00:1"),
            &target,
            Some((1, mac)),
            255,
        );
        let group = [0x33, 0x33, 0xFF, 0, 0, 1];
        self.give(port, &eth(group, mac, V6, &ns));
        assert!(self.mac(&own).is_some(), "{own} was not learned");
    }

    /// What is known of an address.
    pub fn mac(&self, address: &str) -> Option<Mac> {
        let address: IpAddr = address.parse().unwrap();
        let mut all = self.control.neighbours();
        all.find(|(_, own, _)| *own == address)
            .map(|(_, _, mac)| mac)
    }

    /// Host 7 behind port 1 sends to so many new addresses behind port 2 that nobody has, one in 10 us.
    pub fn scan(&mut self, family: u8, packets: u32) {
        for _ in 0..packets {
            self.scanned += 1;
            let [.., high, low] = self.scanned.to_be_bytes();
            let packet = if family == 4 {
                transit(&format!("10.64.{}.{low}", high + 1), 8).bytes()
            } else {
                transit6(&format!("2001:db8:2::5ca:{:x}", self.scanned), 8)
            };
            self.packet(1, 7, &packet);
            self.wait(10_000);
        }
    }

    /// Lets time pass, tick by tick.
    pub fn wait(&mut self, ns: u64) -> Sent {
        let end = self.now + ns;
        let mut all = Vec::new();
        while let Some(next) = self.control.next_tick().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            all.extend(sent(self.control.tick(self.now)));
        }
        self.now = end;
        all
    }
}

pub const ALL_NODES: Mac = [0x33, 0x33, 0, 0, 0, 1];

/// A transit packet of host 7 behind port 1.
pub fn transit(dst: &str, payload: usize) -> Ip4 {
    ip4("10.0.1.7", dst, UDP, udp(payload))
}

pub fn transit6(dst: &str, payload: usize) -> Vec<u8> {
    ip6(v6("2001:db8:1::7"), v6(dst), UDP, 64, &udp(payload))
}

/// A rig where host 7 behind port 1 is known, so that errors reach it at once.
pub fn known() -> Rig {
    let mut rig = Rig::new();
    rig.introduce(1, 7);
    rig
}

/// The one ICMP message that a transit packet brings back to host 7.
pub fn error_of(rig: &mut Rig, packet: &[u8]) -> Icmp {
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
