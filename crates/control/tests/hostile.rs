// SPDX-License-Identifier: Apache-2.0
//! Any bytes from any port: no panic, few frames out, and the rules that must hold for all.

mod common;

use common::*;
use proptest::prelude::*;

/// Frames that one frame may bring about: its own answer, a packet that waited, cut to fragments,
/// and an error. Timers bring about more, of their own.
const MOST: usize = 12;

/// Well-formed things of the kinds that the control plane takes apart, as starting points.
fn seeds() -> Vec<Vec<u8>> {
    let mac = host_mac(1, 7);
    let (from, to) = (v6("2001:db8:1::7"), v6("2001:db8:1::1"));
    let echo6 = icmp6(from, to, 128, 0, 1, b"abc");
    let options = [&[ICMP6, 0, 5, 2, 0, 0, 1, 0][..], &echo6].concat();
    let fragment = [&[ICMP6, 0, 0, 1, 0, 0, 0, 0][..], &echo6].concat();
    let mut with_options = ip4("10.0.1.7", "192.0.2.1", UDP, udp(30));
    with_options.options = vec![7, 7, 4, 0, 0, 0, 0, 0];
    let mut expired = ip4("10.0.1.7", "192.0.2.1", UDP, udp(30));
    expired.ttl = 1;
    let v6s = ["2001:db8:1::7", "2001:db8:1::1"];
    let ns = ndp(135, 0, (v6s[0], v6s[1]), v6s[1], Some((1, mac)), 255);
    let na = ndp(
        136,
        0x6000_0000,
        (v6s[0], v6s[1]),
        v6s[0],
        Some((2, mac)),
        255,
    );
    let ping = ip4("10.0.1.7", "10.0.1.1", ICMP, icmp4(8, 0, 1, b"abc"));
    let error = ip4(
        "10.0.1.7",
        "198.51.100.1",
        ICMP,
        icmp4(3, 1, 0, &expired.bytes()),
    );
    let far = v6("2001:db8:99::1");
    let error6 = icmp6(from, far, 1, 0, 0, &ns);
    vec![
        eth(
            BROADCAST,
            mac,
            ARP,
            &arp(1, mac, "10.0.1.7", [0; 6], "10.0.1.1"),
        ),
        eth(
            port_mac(1),
            mac,
            ARP,
            &arp(2, mac, "10.0.1.7", port_mac(1), "10.0.1.1"),
        ),
        eth(port_mac(1), mac, V4, &ping.bytes()),
        eth(port_mac(1), mac, V4, &with_options.bytes()),
        eth(port_mac(1), mac, V4, &expired.bytes()),
        eth(port_mac(1), mac, V4, &error.bytes()),
        eth(
            port_mac(1),
            mac,
            V4,
            &ip4("10.0.1.7", "10.0.3.9", UDP, udp(1460)).bytes(),
        ),
        eth(port_mac(1), mac, V6, &ns),
        eth(port_mac(1), mac, V6, &na),
        eth(port_mac(1), mac, V6, &ip6(from, to, ICMP6, 64, &echo6)),
        eth(port_mac(1), mac, V6, &ip6(from, to, 0, 64, &options)),
        eth(port_mac(1), mac, V6, &ip6(from, to, 44, 64, &fragment)),
        eth(port_mac(1), mac, V6, &ip6(from, far, UDP, 1, &udp(8))),
        eth(port_mac(1), mac, V6, &ip6(from, far, ICMP6, 64, &error6)),
    ]
}

/// Makes checksums right again, so that changes get behind them.
fn mend(frame: &mut [u8]) {
    if frame.len() < 34 {
        return;
    }
    match u16::from_be_bytes([frame[12], frame[13]]) {
        V4 => {
            let header = 4 * usize::from(frame[14] & 15);
            if (20..=frame.len() - 14).contains(&header) {
                frame[24..26].fill(0);
                let sum = !sum16(&[&frame[14..14 + header]]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
        }
        V6 if frame.len() >= 62 && frame[20] == ICMP6 => {
            let address = |at: usize| -> std::net::Ipv6Addr {
                <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap().into()
            };
            let (src, dst) = (address(22), address(38));
            let length = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
            if (8..=frame.len() - 54).contains(&length) {
                frame[56..58].fill(0);
                let sum = !sum6(src, dst, &frame[54..54 + length]);
                frame[56..58].copy_from_slice(&sum.to_be_bytes());
            }
        }
        _ => {}
    }
}

/// Whether a frame carries an ICMP error, read here and not by the code under test.
fn is_error(frame: &[u8]) -> bool {
    // What is forwarded may have no payload at all.
    let kind = |at: usize| frame.get(at).copied();
    match u16::from_be_bytes([frame[12], frame[13]]) {
        V4 => frame[23] == ICMP && matches!(kind(34), Some(3 | 4 | 5 | 11 | 12)),
        V6 => frame[20] == ICMP6 && matches!(kind(54), Some(0..128 | 137)),
        _ => false,
    }
}

/// Whether an ICMP error in `frame` quotes an ICMP error.
fn is_error_about_error(frame: &[u8]) -> bool {
    if !is_error(frame) {
        return false;
    }
    let header = if frame[13] == 0xDD { 40 } else { 20 };
    let quoted = frame.get(14 + header + 8..).unwrap_or_default();
    if quoted.len() < 48 && header == 40 || quoted.len() < 28 {
        return false;
    }
    if header == 20 {
        let inner = 4 * usize::from(quoted[0] & 15);
        quoted[9] == ICMP
            && quoted
                .get(inner)
                .is_some_and(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12))
    } else {
        quoted[6] == ICMP6 && (quoted[40] < 128 || quoted[40] == 137)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Bytes(u8, Vec<u8>),
    Seed {
        port: u8,
        seed: usize,
        flips: Vec<(usize, u8)>,
        cut: Option<usize>,
        mend: bool,
    },
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let flips = prop::collection::vec((0usize..120, any::<u8>()), 0..5);
    let seed = (
        0u8..4,
        any::<usize>(),
        flips,
        prop::option::weighted(0.2, 0usize..150),
        any::<bool>(),
    );
    prop_oneof![
        1 => (0u8..5, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(p, b)| Step::Bytes(p, b)),
        12 => seed.prop_map(|(port, seed, flips, cut, mend)| Step::Seed { port, seed, flips, cut, mend }),
        2 => (0u64..40 * SECOND).prop_map(Step::Wait),
    ]
}

fn run(steps: Vec<Step>) {
    let mut config = config();
    config.timers.neighbours = 8;
    let mut rig = Rig::of(config);
    let seeds = seeds();
    for step in steps {
        let sent = match step {
            Step::Wait(ns) => {
                let sent = rig.wait(ns);
                // Eight dynamic neighbours and two gateways, three questions each, an error each.
                assert!(
                    sent.len() as u64 <= 40 * (1 + ns / SECOND),
                    "{}",
                    sent.len()
                );
                sent
            }
            Step::Bytes(port, bytes) => {
                let sent = rig.give(port, &bytes);
                assert!(sent.len() <= MOST);
                sent
            }
            Step::Seed {
                port,
                seed,
                flips,
                cut,
                mend: mended,
            } => {
                let mut frame = seeds[seed % seeds.len()].clone();
                for (at, value) in flips {
                    let at = at % frame.len();
                    frame[at] ^= value;
                }
                frame.truncate(cut.unwrap_or(frame.len()));
                if mended {
                    mend(&mut frame);
                }
                // Seeds are of port 1; elsewhere the MAC address must be that port's.
                if frame.get(..6) == Some(&port_mac(1)) {
                    frame[5] = port;
                }
                let sent = rig.give(port, &frame);
                assert!(sent.len() <= MOST);
                sent
            }
        };
        for (port, frame) in sent {
            assert!(usize::from(port) < 4);
            assert!(frame.len() >= 14 && frame.len() <= 14 + 1500);
            assert_eq!(frame[6..12], port_mac(port));
            assert!(!is_error_about_error(&frame), "{frame:02x?}");
            if is_error(&frame) {
                // Transit packets may be errors of others; ours have our precedence or address.
                assert_eq!(frame[0] & 1, 0, "errors go to one station");
            }
        }
        assert!(rig.control.neighbours().count() <= 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_at_any_time(steps in prop::collection::vec(step(), 1..60)) {
        run(steps);
    }

    /// RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 e: whatever surrounds it.
    #[test]
    fn an_error_never_brings_an_error(
        seed in prop::sample::select(vec![5usize, 13]),
        flips in prop::collection::vec((22usize..120, any::<u8>()), 0..8),
        ttl in 0u8..3,
    ) {
        let mut rig = Rig::new();
        rig.introduce(1, 7);
        let mut frame = seeds()[seed].clone();
        for (at, value) in flips {
            let at = at % frame.len();
            // Not what makes it an error to our neighbour: protocol, type, next header.
            if ![12, 13, 14, 20, 23, 34, 54].contains(&at) && at >= 14 {
                frame[at] ^= value;
            }
        }
        frame[if seed == 5 { 22 } else { 21 }] = ttl;
        mend(&mut frame);
        for (_, frame) in rig.give(1, &frame) {
            prop_assert!(!is_error_about_error(&frame));
            prop_assert!(!(is_error(&frame) && frame[..6] == host_mac(1, 7)), "{:02x?}", frame);
        }
    }
}

/// The checks above can fail.
#[test]
fn an_error_about_an_error_is_seen() {
    let about = ip4("10.0.1.7", "198.51.100.1", ICMP, icmp4(3, 1, 0, &[0; 28])).bytes();
    let error = ip4("10.0.1.1", "10.0.1.7", ICMP, icmp4(3, 0, 0, &about)).bytes();
    assert!(is_error_about_error(&eth(
        host_mac(1, 7),
        port_mac(1),
        V4,
        &error
    )));
    let (a, b) = (v6("2001:db8:1::7"), v6("2001:db8:1::1"));
    let about = ip6(a, b, ICMP6, 64, &icmp6(a, b, 1, 0, 0, &[0; 8]));
    let error = ip6(b, a, ICMP6, 64, &icmp6(b, a, 1, 0, 0, &about));
    assert!(is_error_about_error(&eth(
        host_mac(1, 7),
        port_mac(1),
        V6,
        &error
    )));
    let ping = ip6(a, b, ICMP6, 64, &icmp6(a, b, 128, 0, 0, &[0; 8]));
    let error = ip6(b, a, ICMP6, 64, &icmp6(b, a, 1, 0, 0, &ping));
    assert!(!is_error_about_error(&eth(
        host_mac(1, 7),
        port_mac(1),
        V6,
        &error
    )));
}
