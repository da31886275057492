// SPDX-License-Identifier: Apache-2.0
//! Routes of IPv6 of which messages do not say which the kernel takes: those that expire, and those of router advertisements.
//!
//!     cargo test -p fibd --test unsettled -- --ignored
//!
//! Needs root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;
mod messages;

use std::net::IpAddr;
use std::time::Duration;

use common::{Net, missing};
use fibd::message::{Hop, Message, RouteMessage, flags};
use fibd::{State, Target};
use messages::{route, state, tell};

const SIX: &str = "2001:db8:ff::/48";
/// `RTPROT_RA`.
const ADVERTISED: u8 = 9;

fn hop(port: u32, host: u16) -> Hop {
    Hop {
        gateway: Some(IpAddr::from([0x2001, 0xdb8, port as u16, 0, 0, 0, 0, host])),
        ..messages::gateway(port, 0)
    }
}

fn prefix() -> fibd::Net {
    fibd::Net::host(IpAddr::from([0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 0])).around(48)
}

fn by(hops: &[Hop], expires: i32, protocol: u8) -> RouteMessage {
    RouteMessage {
        hops: hops.to_vec(),
        expires,
        protocol,
        ..route(prefix(), hops[0])
    }
}

/// A dump that has these routes.
fn dump(state: &mut State, routes: &[RouteMessage]) {
    state.begin_resync(false);
    for port in 0..2 {
        messages::link(state, port, true);
    }
    for route in routes {
        tell(state, 0, Message::Route(route.clone()));
    }
    state.end_resync();
    state.changes();
}

#[test]
fn of_several_that_expire_or_were_advertised_the_kernel_forwards() {
    let hops = [hop(0, 7), hop(1, 8)];
    let to = prefix();
    let target = Some(Target::Neighbour {
        port: 0,
        address: hops[0].gateway.unwrap(),
    });
    let at = |routes: &[RouteMessage]| {
        let mut state = state();
        dump(&mut state, routes);
        state
    };
    let host = Some(Target::Host);
    // One alone is what any other is, and what does not expire is left alone.
    for lone in [by(&hops[..1], 500, 4), by(&hops[..1], 0, ADVERTISED)] {
        assert_eq!(at(&[lone]).desired(to), target);
    }
    assert_ne!(at(&[by(&hops, 0, 4)]).desired(to), host);
    // Joined, of which the first expires, or has: another may not have.
    for expires in [500, -1] {
        assert_eq!(at(&[by(&hops, expires, 4)]).desired(to), host);
    }
    // One that has expired, and is not collected, beside another.
    let later = RouteMessage {
        metric: 2000,
        ..by(&hops[1..], 0, 4)
    };
    assert_eq!(
        at(&[by(&hops[..1], -1, 4), later.clone()]).desired(to),
        host
    );
    assert_eq!(at(&[by(&hops[..1], -1, 4)]).desired(to), None);
    // One that was advertised is not joined with others.
    let mut advertised = at(&[by(&hops[..1], 0, ADVERTISED)]);
    tell(
        &mut advertised,
        flags::APPEND,
        Message::Route(by(&hops[1..], 0, 4)),
    );
    advertised.changes();
    assert_eq!(advertised.desired(to), host);
    // It goes, and a dump says that all is settled.
    tell(
        &mut advertised,
        0,
        Message::RouteGone(by(&hops[..1], 0, ADVERTISED)),
    );
    assert!(advertised.is_unsure());
    dump(&mut advertised, &[by(&hops[1..], 0, 4)]);
    assert!(matches!(
        advertised.desired(to),
        Some(Target::Neighbour { port: 1, .. })
    ));
}

/// Behind the kernel: before next hops expire, between, and after.
#[test]
#[ignore = "needs root and network namespaces"]
fn next_hops_that_expire_one_after_the_other() {
    if let Some(why) = missing(&[]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("expiring", 2);
    let [one, two] = ["via 2001:db8::7", "via 2001:db8:1::8"];
    let fibd = net.fibd("");
    for [first, second] in [
        ["expires 1", "expires 3"],
        ["expires 3", "expires 1"],
        ["expires 2", ""],
    ] {
        println!("{first}, {second}");
        net.ip(&format!("-6 route add {SIX} {one} {first}"));
        net.ip(&format!("-6 route append {SIX} {two} {second}"));
        for _ in 0..5 {
            fibd.audit();
            std::thread::sleep(Duration::from_millis(800));
        }
        while net.may_ip(&format!("-6 route del {SIX}")) {}
        fibd.audit();
    }
}

/// What is refused as being there already may end sooner for it, without a message, and so may what is advertised again.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_route_that_is_made_to_expire_sooner_goes_in_time() {
    if let Some(why) = missing(&[]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("sooner", 2);
    let fibd = net.fibd("");
    net.ip("route add 2001:db8:f0::/44 via 2001:db8:1::8");
    for (to, how) in [(SIX, "via 2001:db8::7"), ("2001:db8:fe::/64", "dev sw0")] {
        net.ip("neigh replace 2001:db8:fe::9 lladdr 02:00:00:00:00:09 dev sw0 nud permanent");
        net.ip(&format!("-6 route add {to} {how} expires 1000"));
        fibd.audit();
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!net.may_ip(&format!("-6 route append {to} {how} expires 2")));
        let shown = || net.ip(&format!("-6 route show {to}"));
        assert!(!shown().contains("expires 9"), "{}", shown());
        std::thread::sleep(Duration::from_millis(4500));
        fibd.audit();
        let swept = fibd.counter("swept");
        fibd.resync();
        assert_eq!(fibd.counter("swept"), swept, "{to}");
        while net.may_ip(&format!("-6 route del {to}")) {}
    }
    // One whose prefix the kernel never names is dumped for once.
    net.ip("-6 route add 2001:db8:fd::/64 via 2001:db8::7 expires 1000");
    net.ip("-6 rule add to 2001:db8:fd::/64 blackhole");
    std::thread::sleep(Duration::from_millis(4500));
    let dumps = fibd.counter("resyncs");
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(fibd.counter("resyncs"), dumps);
}
