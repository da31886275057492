// SPDX-License-Identifier: Apache-2.0
//! fibd behind the kernel: which routes it tells apart, and which of several it takes.
//!
//!     cargo test -p fibd --test choices -- --ignored
//!
//! Needs root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;
mod messages;

use std::net::IpAddr;

use common::{Net, missing};
use fibd::message::{Hop, Message, flags};
use fibd::{State, Target, Terms};
use messages::{link, route, state, tell};

macro_rules! ready {
    ($($program:literal),*) => {
        if let Some(why) = missing(&[$($program),*]) {
            skip::skip!("{why}");
            return;
        }
    };
}

const FOUR: &str = "192.0.2.0/24";
const SIX: &str = "2001:db8:ff::/48";

/// Routes of IPv4 that lead to the same next hop are several if one of the words that say who made them, or how, differs.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_ipv4_with_one_next_hop_are_told_apart() {
    ready!();
    let net = Net::new("apart", 2);
    net.ip("nexthop add id 7 via 10.0.0.7 dev sw0");
    let by = "via 10.0.0.7 dev sw0";
    let fibd = net.fibd("");
    for [one, other] in [
        [
            "proto bird via 10.0.0.7 dev sw0",
            "proto static via 10.0.0.7 dev sw0",
        ],
        [by, "via 10.0.0.7 dev sw0 onlink"],
        [by, "via 10.0.0.7 dev sw0 advmss 1000"],
        [by, "via 10.0.0.7 dev sw0 mtu lock 1500"],
        [by, "via 10.0.0.7 dev sw0 realm 5"],
        ["scope link dev sw0", "scope global dev sw0"],
        ["nhid 7 proto bird", "nhid 7 proto static"],
        [
            "nexthop via 10.0.0.7 nexthop via 10.0.1.8",
            "nexthop via 10.0.0.7 nexthop via 10.0.1.8 dev sw1 onlink",
        ],
    ] {
        for [first, last] in [[one, other], [other, one]] {
            let mut states = vec![
                format!("add {FOUR} {one}"),
                format!("append {FOUR} {other}"),
            ];
            states.push(format!("del {FOUR} {first}"));
            states.push(format!("del {FOUR} {last}"));
            for what in states {
                println!("{what}");
                net.ip(&format!("route {what}"));
                fibd.audit();
            }
        }
    }
    assert_eq!(fibd.counter("unmatched"), 0);
    // Of one whose weight alone differs no message says so.
    net.ip(&format!("route add {FOUR} nexthop {by} weight 2"));
    net.ip(&format!("route append {FOUR} nexthop {by} weight 3"));
    fibd.audit();
    net.ip(&format!("route del {FOUR}"));
    fibd.audit();
}

/// What the kernel sends itself it sends by another of several default routes if the next hop of the first does not answer.
/// What it forwards it does not, and the switch forwards.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_audit_asks_what_the_kernel_forwards_not_what_it_sends() {
    ready!();
    let net = Net::new("defaults", 2);
    let fibd = net.fibd("--unmanaged");
    net.ip("route add default via 10.0.0.99");
    net.ip("route append default via 10.0.1.8");
    net.ip("neigh replace 10.0.0.99 dev sw0 nud failed");
    assert!(net.ip("route get 198.51.100.1").contains("via 10.0.1.8"));
    fibd.audit();
    let set = |setting: &str| {
        let status = net.within("sysctl").args(["-qw", setting]).status();
        assert!(status.unwrap().success());
    };
    // Ports from which the kernel forwards nothing, or not all.
    set("net.ipv4.conf.all.rp_filter=1");
    fibd.audit();
    set("net.ipv4.conf.sw1.forwarding=0");
    fibd.audit();
    set("net.ipv6.conf.sw1.disable_ipv6=1");
    fibd.audit();
}

/// Of routes of IPv6 of one metric that are not joined the kernel prefers those at the port at which a packet came in, which
/// the switch can't.
#[test]
#[ignore = "needs root and network namespaces"]
fn where_the_port_of_arrival_decides_the_kernel_forwards() {
    ready!();
    let net = Net::new("arrival", 3);
    let mut fibd = net.fibd("");
    // In no subnet, so that they are next hops of these routes alone.
    let [one, two] = [
        "via 2001:db8:9::7 dev sw0 onlink",
        "via 2001:db8:9::8 dev sw1 onlink",
    ];
    net.ip(&format!("nexthop add id 7 {one}"));
    net.ip(&format!("nexthop add id 8 {two}"));
    let hops = |fibd: &common::Fibd| fibd.status()["next_hops"].as_u64().unwrap();
    let none = hops(&fibd);
    for (routes, in_hardware) in [
        (&["dev sw0", "dev sw1"][..], false),
        (&["nhid 7", "nhid 8"], false),
        (&["nhid 7", "dev sw0"], true),
        (&["nhid 7 pref high", "nhid 8"], true),
        (&["blackhole", one], false),
        (&[one, "blackhole"], true),
        (&[one, two, "dev sw2"], false),
        (&[one, two], true),
        (&[one, "dev sw1", two], false),
        (&["nhid 7 metric 10", "nhid 8 metric 20"], true),
    ] {
        println!("{routes:?}");
        for route in routes {
            let rest = route.strip_prefix("blackhole");
            let (kind, rest) = rest.map_or(("", *route), |rest| ("blackhole", rest));
            net.ip(&format!("route append {kind} {SIX} {rest}"));
        }
        let check = |fibd: &common::Fibd| {
            fibd.audit();
            assert_eq!(hops(fibd) > none, in_hardware);
        };
        check(&fibd);
        fibd.resync();
        check(&fibd);
        drop(fibd);
        fibd = net.fibd("");
        check(&fibd);
        while net.may_ip(&format!("-6 route del {SIX}")) {}
        fibd.audit();
    }
}

/// What a dump passes over between joined next hops is taken once those before it are gone: at once it may be, and after the
/// next dump the kernel is asked.
#[test]
fn next_hops_of_which_only_a_dump_has_said_are_in_doubt_when_one_dies() {
    let to = fibd::Net::new("2001:db8:ff::".parse().unwrap(), 48).unwrap();
    let hop = |port: u32, host: u16| Hop {
        device: port + 1,
        gateway: Some(IpAddr::from([0x2001, 0xdb8, 9, 0, 0, 0, 0, host])),
        weight: 1,
        dead: false,
        terms: Terms::default(),
    };
    let joined = |hops: &[Hop]| {
        let mut route = route(to, hops[0]);
        route.hops = hops.to_vec();
        route
    };
    let hops = [hop(0, 7), hop(1, 8)];
    let dump = |state: &mut State, hops: &[Hop]| {
        state.begin_resync(false);
        for port in 0..2 {
            let up = port == 1 || hops.len() > 1;
            link(state, port, up);
        }
        tell(state, 0, Message::Route(joined(hops)));
        state.end_resync();
        state.changes();
    };
    let at = |hop: Hop| Target::Neighbour {
        port: (hop.device - 1) as u8,
        address: hop.gateway.unwrap(),
    };
    let state = || {
        let mut state = state();
        dump(&mut state, &hops);
        assert!(hops.map(at).contains(&state.desired(to).unwrap()));
        state
    };
    let check = |state: &mut State| {
        assert!(state.changes().nets.contains(&to));
        assert_eq!(state.desired(to), Some(Target::Host));
        assert!(state.is_unsure());
        dump(state, &hops[1..]);
        assert_eq!(state.desired(to), Some(at(hops[1])));
    };
    let mut down = state();
    link(&mut down, 0, false);
    check(&mut down);
    // All of them.
    let mut both = state();
    link(&mut both, 0, false);
    link(&mut both, 1, false);
    check(&mut both);
    let mut gone = state();
    tell(&mut gone, 0, Message::RouteGone(joined(&hops[..1])));
    check(&mut gone);
    // One of another kind replaces the first of its kind, which may be hidden.
    let mut replaced = state();
    let mut by_device = route(to, hop(1, 0));
    by_device.hops[0].gateway = None;
    tell(&mut replaced, flags::REPLACE, Message::Route(by_device));
    check(&mut replaced);
    // Where all was told nothing is in doubt.
    let mut told = messages::state();
    tell(&mut told, 0, Message::Route(joined(&hops)));
    link(&mut told, 0, false);
    told.changes();
    assert_eq!(told.desired(to), Some(at(hops[1])));
}

/// The same behind the kernel.
#[test]
#[ignore = "needs root and network namespaces"]
fn what_a_dump_hides_is_taken_when_the_next_hops_before_it_die() {
    ready!();
    let net = Net::new("unveiled", 3);
    let [one, two] = ["via 2001:db8::7", "via 2001:db8:1::8"];
    for change in [
        "link set sw0 down",
        &format!("route del {SIX} {one}"),
        &format!("route replace {SIX} dev sw2"),
    ] {
        println!("{change}");
        net.ip(&format!("route add {SIX} {one}"));
        net.ip(&format!("route append blackhole {SIX}"));
        net.ip(&format!("route append {SIX} {two}"));
        let fibd = net.fibd("");
        fibd.audit();
        net.ip(change);
        fibd.audit();
        net.port_up(0);
        fibd.audit();
        while net.may_ip(&format!("-6 route del {SIX}")) {}
        fibd.audit();
    }
}

/// Carriers count for next hops of IPv4 with a gateway of IPv6, too, but not for those that come while there is none.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_route_of_ipv4_by_a_gateway_of_ipv6_that_came_without_a_carrier_is_not_passed_over() {
    ready!();
    let net = Net::new("sixgate", 2);
    let setting = "net.ipv4.conf.sw1.ignore_routes_with_linkdown=1";
    let status = net.within("sysctl").args(["-qw", setting]).status();
    assert!(status.unwrap().success());
    let cable = |to: &str| {
        common::run(&format!("ip -n {} link set h1 {to}", net.others));
        let is_lost = to == "down";
        common::eventually("its carrier is told", || {
            net.ip("link show sw1").contains("NO-CARRIER") == is_lost
        });
    };
    let fibd = net.fibd("");
    net.ip("neigh replace 2001:db8:1::8 lladdr 02:00:00:00:00:08 dev sw1 nud permanent");
    net.ip("route add 192.0.0.0/16 via 10.0.0.7");
    let add = |to: &str| net.ip(&format!("route {to} via inet6 2001:db8:1::8 dev sw1"));
    cable("down");
    add("add 192.0.2.0/24");
    fibd.audit();
    let others = "nexthop via 10.0.0.8 nexthop via inet6 2001:db8:1::8 dev sw1";
    for to in 0..16 {
        net.ip(&format!("route add 192.0.{}.0/24 {others}", 16 + to));
    }
    fibd.audit();
    fibd.resync();
    fibd.audit();
    cable("up");
    fibd.audit();
    let hops = || fibd.status()["next_hops"].as_u64().unwrap();
    common::eventually("it is in hardware", || {
        fibd.audit();
        net.ip("neigh show 2001:db8:1::8").contains("PERMANENT") && hops() >= 3
    });
    cable("down");
    fibd.audit();
}

/// A port that waits for its neighbour to prove who it is has a carrier, and is not ready: whether the kernel ignores a route there
/// depends on when that came.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_ipv6_at_a_port_that_is_not_ready_go_by_the_host_port() {
    ready!();
    let net = Net::new("dormant", 2);
    let set = |ignores: u8| {
        let setting = format!("net.ipv6.conf.sw1.ignore_routes_with_linkdown={ignores}");
        let status = net.within("sysctl").args(["-qw", &setting]).status();
        assert!(status.unwrap().success());
    };
    let cable = |to: &str| common::run(&format!("ip -n {} link set h1 {to}", net.others));
    let fibd = net.fibd("");
    net.ip("neigh replace 2001:db8:1::8 lladdr 02:00:00:00:00:08 dev sw1 nud permanent");
    net.ip("route add 2001:db8:f0::/44 via 2001:db8::7");
    let add = |to: u8| {
        net.ip(&format!(
            "route add 2001:db8:f{to:x}::/48 via 2001:db8:1::8"
        ))
    };
    set(1);
    net.ip("link set sw1 mode dormant");
    let is = |state: &str| net.ip("link show sw1").contains(&format!("state {state}"));
    cable("down");
    common::eventually("its carrier is lost", || is("DOWN"));
    cable("up");
    common::eventually("it is dormant", || is("DORMANT"));
    add(0);
    fibd.audit();
    net.ip("link set sw1 mode default");
    add(1);
    fibd.audit();
    fibd.resync();
    add(2);
    fibd.audit();
    set(0);
    fibd.audit();
    set(1);
    fibd.audit();
    cable("down");
    add(3);
    fibd.audit();
    cable("up");
    common::eventually("it is ready", || is("UP"));
    fibd.audit();
}

/// A route of IPv4 for this machine alone stays when its device goes down, and comes at one that is.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_ipv4_of_the_scope_of_a_host_stay() {
    ready!();
    let net = Net::new("scope", 2);
    let fibd = net.fibd("");
    net.ip("route add 192.0.0.0/16 via 10.0.0.7");
    net.ip("route add 192.0.2.0/24 dev sw1 scope host");
    net.ip("neigh replace 192.0.2.7 lladdr 02:00:00:00:00:08 dev sw1 nud permanent");
    fibd.audit();
    net.ip("link set sw1 down");
    net.ip("route add 192.0.3.0/24 dev sw1 scope host");
    assert!(net.ip("route show").contains("192.0.2.0/24"));
    fibd.audit();
    fibd.resync();
    fibd.audit();
    net.ip("route del 192.0.2.0/24");
    net.port_up(1);
    fibd.audit();
    net.ip("link del sw1");
    fibd.audit();
}

/// Of several default routes the kernel takes for its own packets one whose neighbour it knows, and for others the first.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_audit_does_not_ask_for_default_routes_as_for_the_routers_own_packets() {
    ready!();
    let net = Net::new("gateways", 3);
    let fibd = net.fibd("");
    for (port, gateway) in [(0, "fe80::99"), (2, "10.0.2.2")] {
        net.ip(&format!(
            "neigh replace {gateway} lladdr 02:00:00:00:00:99 dev sw{port} nud permanent"
        ));
    }
    net.ip("route add 0.0.0.0/0 via inet6 fe80::99 dev sw0");
    net.ip("route append 0.0.0.0/0 via 10.0.2.2 dev sw2");
    // From nobody in this subnet it takes anything.
    net.ip("route add local 10.0.1.0/24 dev lo table local");
    let (good, report) = fibd.ask("audit --random 1000 --ask 20000 --seed 1");
    assert!(good, "{report:#}");
    assert_ne!(report["unasked"], 0);
}

/// The kernel may see to its routes, and tell of a device, a second after that lost its carrier, or has it again; what a route is told
/// to be that comes meanwhile is another matter.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_that_come_before_a_lost_carrier_is_told_go_by_the_host_port() {
    ready!();
    let net = Net::new("late", 2);
    for family in ["ipv4", "ipv6"] {
        let setting = format!("net.{family}.conf.sw1.ignore_routes_with_linkdown=1");
        let status = net.within("sysctl").args(["-qw", &setting]).status();
        assert!(status.unwrap().success());
    }
    let cable = |to: &str| common::run(&format!("ip -n {} link set h1 {to}", net.others));
    let has = |what: &str| net.ip("link show sw1").contains(what);
    let fibd = net.fibd("");
    // Of nobody, so that they are next hops of these routes alone.
    let routes = [
        ("192.0.0.0/16", FOUR, "10.0.0.7", "10.0.1.99"),
        ("2001:db8:f0::/44", SIX, "2001:db8::7", "2001:db8:1::99"),
    ];
    for (around, _, port, _) in routes {
        net.ip(&format!("route add {around} via {port}"));
    }
    fibd.audit();
    let hops = || fibd.status()["next_hops"].as_u64().unwrap();
    for (around, to, _, gateway) in routes.into_iter().cycle().take(8) {
        println!("beside {around}");
        let without = hops();
        cable("down");
        common::eventually("its carrier is lost", || has("state DOWN"));
        cable("up");
        common::eventually("it is ready", || has("state UP"));
        // Too soon after the last one to be looked at now, unless somebody asks about the link, as `ip` does of a device's name.
        cable("down");
        net.ip(&format!("route add {to} via {gateway}"));
        cable("up");
        let before = hops();
        let family = if to == SIX { "-6" } else { "-4" };
        if net
            .ip(&format!("{family} route show {to}"))
            .contains("linkdown")
        {
            println!("not seen to");
            assert_eq!(before, without, "{to}");
        }
        fibd.audit();
        common::eventually("it is in hardware", || hops() == without + 1);
        let dumps = fibd.counter("resyncs");
        std::thread::sleep(std::time::Duration::from_millis(4000));
        assert!(
            fibd.counter("resyncs") < dumps + 3,
            "it does not dump for ever"
        );
        net.ip(&format!("route del {to}"));
        fibd.audit();
    }
}

/// What is known of a carrier, and what a route is told to be, may not agree; then the kernel is asked to look, and forwards meanwhile.
#[test]
fn a_route_that_is_ignored_where_there_is_a_carrier_goes_by_the_host_port() {
    let net = |six| match six {
        true => fibd::Net::host(IpAddr::from([0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 0])).around(48),
        false => fibd::Net::host(IpAddr::from([192, 0, 2, 0])).around(24),
    };
    for six in [false, true] {
        let mut state = state();
        let carrier = |state: &mut State, carrier, running| {
            let message = Message::Link {
                device: 1,
                name: "sw0".into(),
                up: true,
                carrier,
                running,
                mac: None,
                mtu: 1500,
            };
            tell(state, 0, message);
        };
        let own = Message::Address {
            device: 1,
            address: net(six).first(),
            len: 64,
            peer: None,
            present: true,
        };
        let ignores = Message::IgnoresLinkDown {
            device: fibd::message::Settings::Of(1),
            six,
            ignores: true,
            forwards: None,
        };
        state.begin_resync(false);
        carrier(&mut state, true, true);
        tell(&mut state, 0, own);
        tell(&mut state, 0, ignores);
        state.end_resync();
        let mut ignored = route(net(six), messages::gateway(0, 7));
        if six {
            ignored.hops[0].gateway = Some(net(six).last());
        }
        ignored.idle = vec![1];
        ignored.hops[0].dead = six;
        tell(&mut state, flags::CREATE, Message::Route(ignored));
        state.changes();
        assert_eq!(state.desired(net(six)), Some(Target::Host));
        assert!(state.is_unsure());
        assert_eq!(state.take_late_devices(), [1]);
        // Not ready, and without a carrier before it ever was.
        carrier(&mut state, true, false);
        assert_eq!(state.take_late_devices(), [1]);
        carrier(&mut state, false, false);
        assert_eq!(state.take_late_devices(), [1]);
        carrier(&mut state, false, false);
        assert!(!state.has_late_devices());
    }
}
