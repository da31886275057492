// SPDX-License-Identifier: Apache-2.0
//! fibd behind the kernel: preferences of routes, their longest packets, their sources, and policy rules.
//!
//!     cargo test -p fibd --test terms -- --ignored
//!
//! Needs root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;

use common::{Net, missing};

macro_rules! ready {
    () => {
        if let Some(why) = missing(&[]) {
            skip::skip!("{why}");
            return;
        }
    };
}

const SIX: &str = "2001:db8:ff::/48";

/// Of routes of one metric that are not joined the kernel takes the preferred one, wherever in its order it is.
#[test]
#[ignore = "needs root and network namespaces"]
fn the_preferred_of_several_routes_of_ipv6_is_taken() {
    ready!();
    let net = Net::new("pref", 2);
    let fibd = net.fibd("");
    let gateways = ["via 2001:db8::7", "via 2001:db8:1::8"];
    net.ip("nexthop add id 7 via 2001:db8::7 dev sw0");
    net.ip("nexthop add id 8 via 2001:db8:1::8 dev sw1");
    net.ip("-6 nexthop add id 9 blackhole");
    let routes = |what: &[&str]| {
        for route in what {
            let verb = ["blackhole", "unreachable"]
                .iter()
                .find_map(|it| route.strip_prefix(it).map(|rest| (*it, rest)));
            let (kind, rest) = verb.unwrap_or(("", route));
            net.ip(&format!("route append {kind} {SIX} {rest}"));
        }
        fibd.audit();
        fibd.resync();
        fibd.audit();
        while net.may_ip(&format!("-6 route del {SIX}")) {}
        fibd.audit();
    };
    routes(&["dev sw0 pref low", "dev sw1 pref high"]);
    routes(&["blackhole pref low", "via 2001:db8::7 pref high"]);
    routes(&["blackhole pref low", "via 2001:db8::7"]);
    routes(&["nhid 7 pref low", "nhid 8 pref high"]);
    routes(&["nhid 7", "nhid 8 pref low"]);
    routes(&["dev sw0", "nhid 8", "blackhole pref high"]);
    // Joined next hops have preferences of their own, and all are taken if one is preferred.
    let (low, high) = (
        format!("{} pref low", gateways[0]),
        format!("{} pref high", gateways[1]),
    );
    routes(&["unreachable", &low, &high]);
    routes(&[&low, "unreachable", &high]);
    routes(&[&high, "unreachable", &low]);
    routes(&["unreachable", &low]);
    // An object that drops ends the search.
    routes(&["dev sw0 pref high", "nhid 9 pref low"]);
}

/// A dump passes over what is between joined next hops. If the first of these is of low preference, the kernel takes that.
#[test]
#[ignore = "needs root and network namespaces"]
fn what_a_dump_hides_may_be_preferred_to_next_hops_of_low_preference() {
    ready!();
    let net = Net::new("hidden", 2);
    let [one, other] = ["via 2001:db8::7", "via 2001:db8:1::8"];
    for (first, kind, last) in [
        ("low", "unreachable", "low"),
        ("low", "prohibit", "medium"),
        ("low", "blackhole", "high"),
        ("medium", "unreachable", "low"),
        ("high", "unreachable", "low"),
    ] {
        net.ip(&format!("route append {SIX} pref {first} {one}"));
        net.ip(&format!("route append {kind} {SIX}"));
        net.ip(&format!("route append {SIX} pref {last} {other}"));
        let fibd = net.fibd("");
        fibd.audit();
        fibd.resync();
        fibd.audit();
        while net.may_ip(&format!("-6 route del {SIX}")) {}
        fibd.audit();
        // Where nothing was hidden, fibd is told so, and a later dump changes nothing.
        net.ip(&format!("route append {SIX} pref low {one}"));
        net.ip(&format!("route append {SIX} pref low {other}"));
        fibd.audit();
        fibd.resync();
        fibd.audit();
        while net.may_ip(&format!("-6 route del {SIX}")) {}
    }
}

/// The same of a route that says that it is to be preferred. Only the kernel itself can be asked for it.
#[test]
#[ignore = "needs root and network namespaces"]
fn what_a_dump_hides_may_be_preferred_by_itself() {
    ready!();
    let net = Net::new("preferred", 2);
    for hidden in [
        "dev sw0 pref high",
        "dev sw1 pref medium",
        "dev lo pref high",
    ] {
        net.ip(&format!("route append {SIX} via 2001:db8::7"));
        net.ip(&format!("route append {SIX} {hidden}"));
        net.ip(&format!("route append {SIX} via 2001:db8:1::8"));
        let fibd = net.fibd("");
        fibd.audit();
        fibd.resync();
        fibd.audit();
        net.ip(&format!("route del {SIX} {hidden}"));
        fibd.audit();
        while net.may_ip(&format!("-6 route del {SIX}")) {}
        fibd.audit();
    }
}

/// If none of the lowest metric can be used the kernel no longer looks at metrics.
#[test]
#[ignore = "needs root and network namespaces"]
fn behind_the_lowest_metric_the_preferred_route_is_taken_whatever_its_metric() {
    ready!();
    let net = Net::new("metrics", 3);
    let fibd = net.fibd("");
    for port in 0..3 {
        let setting = format!("net.ipv6.conf.sw{port}.ignore_routes_with_linkdown=1");
        assert!(
            net.within("sysctl")
                .args(["-qw", &setting])
                .status()
                .unwrap()
                .success()
        );
    }
    net.ip(&format!("route add {SIX} via 2001:db8::7 metric 10"));
    net.ip(&format!("route add {SIX} via 2001:db8:1::7 metric 20"));
    net.ip(&format!(
        "route add {SIX} via 2001:db8:2::7 metric 30 pref high"
    ));
    fibd.audit();
    common::run(&format!("ip -n {} link set h0 down", net.others)).clear();
    fibd.audit();
    common::run(&format!("ip -n {} link set h0 up", net.others)).clear();
    fibd.audit();
}

/// Packets that are too long for a route are answered by the kernel alone.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_route_for_short_packets_goes_by_the_host_port() {
    ready!();
    let net = Net::new("mtu", 2);
    let fibd = net.fibd("");
    let hops = || fibd.status()["next_hops"].as_u64().unwrap();
    // In no subnet, so that it is a next hop of this route alone.
    let none = hops();
    for (to, via) in [("192.0.2.0/24", "10.9.0.7"), (SIX, "2001:db8:9::7")] {
        let say = |how: &str| {
            net.ip(&format!(
                "route replace {to} {how} via {via} dev sw0 onlink"
            ));
            fibd.audit();
            hops()
        };
        let counted = fibd.counter("narrow");
        assert_eq!(say(""), none + 1);
        assert_eq!(say("mtu 1300"), none);
        assert_eq!(say("mtu 1500"), none + 1);
        assert_eq!(say("mtu lock 1499"), none);
        assert_eq!(fibd.counter("narrow"), counted + 2);
        // The port's own.
        net.ip("link set sw0 mtu 1400");
        fibd.audit();
        assert_eq!(hops(), none + 1);
        net.ip("link set sw0 mtu 1500");
        fibd.audit();
        assert_eq!(hops(), none);
        net.ip(&format!("route del {to}"));
        fibd.audit();
    }
}

/// The kernel changes what a route of IPv6 says of its longest packet with its device's, and does not say so.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_ipv6_for_short_packets_go_with_their_device() {
    ready!();
    let net = Net::new("mtus", 1);
    let fibd = net.fibd("");
    net.ip(&format!("route add {SIX} via 2001:db8::7 mtu 1400"));
    fibd.audit();
    net.ip("link set sw0 mtu 1400");
    fibd.audit();
    net.ip("link set sw0 mtu 1500");
    assert!(net.ip(&format!("-6 route show {SIX}")).contains("mtu 1500"));
    fibd.audit();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    fibd.audit();
}

/// The switch does not look at sources: all that may concern such a route the kernel forwards.
#[test]
#[ignore = "needs root and network namespaces"]
fn where_a_route_for_one_source_is_all_packets_go_by_the_host_port() {
    ready!();
    let net = Net::new("from", 2);
    let fibd = net.fibd("");
    let prefixes = || fibd.status()["next_hops"].as_u64().unwrap();
    // In no subnet, so that they are next hops of these routes alone.
    let via = |host: u8| format!("via 2001:db8:9::{host} dev sw0 onlink");
    let source = "from 2001:db8:1::/64 via 2001:db8:1::8";
    net.ip(&format!("route add {SIX} {}", via(7)));
    net.ip(&format!("route add 2001:db8:ff:1::/64 {}", via(8)));
    net.ip(&format!("route add default {}", via(9)));
    fibd.audit();
    let all = prefixes();
    let gone = |to: &str, what: &str| {
        net.ip(&format!("route {what}"));
        fibd.audit();
        let at = prefixes();
        fibd.resync();
        fibd.audit();
        assert_eq!(prefixes(), at, "{to}");
        at
    };
    assert_eq!(gone(SIX, &format!("add {SIX} {source}")), all - 1);
    assert_eq!(fibd.counter("from_by_host"), 1);
    assert_eq!(
        gone(
            SIX,
            &format!("append {SIX} from 2001:db8:1::/64 via 2001:db8:1::7")
        ),
        all - 1
    );
    assert_eq!(gone("::/0", &format!("add default {source}")), all - 2);
    assert_eq!(gone(SIX, &format!("del {SIX} {source}")), all - 2);
    assert_eq!(gone("::/0", &format!("del default {source}")), all - 1);
    // Without a message.
    net.ip("link set sw1 down");
    fibd.audit();
    assert_eq!(prefixes(), all);
    net.port_up(1);
    // Neighbours of a subnet, too.
    net.ip("neigh replace 2001:db8::99 lladdr 02:00:00:00:00:99 dev sw0");
    fibd.audit();
    let known = prefixes();
    net.ip("route add 2001:db8::/64 from 2001:db8:1::/64 via 2001:db8:1::8");
    fibd.audit();
    assert!(prefixes() < known);
}

/// From the first policy rule on the kernel looks into the local table first, and for good.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_policy_rule_keeps_the_tables_apart_though_it_is_taken_back() {
    ready!();
    let net = Net::new("rules", 2);
    let begin = || net.fibd("");
    let fibd = begin();
    net.ip("route add local 198.51.0.0/16 dev lo table local");
    net.ip("route add 198.51.100.0/24 via 10.9.0.7 dev sw0 onlink");
    fibd.audit();
    let hops = |fibd: &common::Fibd| fibd.status()["next_hops"].as_u64().unwrap();
    let all = hops(&fibd);
    net.ip("rule add pref 100 from 192.0.2.1 lookup 100");
    fibd.audit();
    assert_eq!(hops(&fibd), all - 1);
    assert_eq!(fibd.status()["rules"], 1);
    net.ip("rule del pref 100");
    fibd.audit();
    fibd.resync();
    fibd.audit();
    assert_eq!(hops(&fibd), all - 1);
    assert_eq!(fibd.status()["rules"], 0);
    // Who comes later was told of no rule.
    drop(fibd);
    let fibd = begin();
    fibd.audit();
    assert_eq!(hops(&fibd), all - 1);
    net.ip("route del local 198.51.0.0/16 dev lo table local");
    fibd.audit();
    assert_eq!(hops(&fibd), all);
    net.ip("-6 rule add pref 100 lookup 100");
    common::eventually("the rule is there", || fibd.status()["rules"] == 1);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_port_from_which_the_kernel_forwards_nothing_is_told_of() {
    ready!();
    let net = Net::new("deaf", 2);
    let fibd = net.fibd("");
    let set = |to: u8| {
        let setting = format!("net.ipv4.conf.sw1.forwarding={to}");
        let status = net.within("sysctl").args(["-qw", &setting]).status();
        assert!(status.unwrap().success());
    };
    let forwards = || [0, 1].map(|port| fibd.status()["ports"][port]["forwards4"] == true);
    assert_eq!(forwards(), [true, true]);
    set(0);
    common::eventually("status says so", || forwards() == [true, false]);
    fibd.resync();
    assert_eq!(forwards(), [true, false]);
    set(1);
    common::eventually("status says so", || forwards() == [true, true]);
}

/// What the kernel forwards from is a setting of each port: that for all only sets it.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_router_whose_ports_forward_forwards_whatever_is_set_for_all() {
    ready!();
    let net = Net::new("each", 2);
    let fibd = net.fibd("");
    let set = |of: &str, to: u8| {
        let setting = format!("net.ipv4.conf.{of}.forwarding={to}");
        let status = net.within("sysctl").args(["-qw", &setting]).status();
        assert!(status.unwrap().success());
    };
    let forwards = || fibd.status()["forwards4"] == true;
    assert!(forwards());
    set("all", 0);
    common::eventually("status says so", || !forwards());
    set("sw1", 1);
    common::eventually("status says so", forwards);
    fibd.resync();
    assert!(forwards());
    assert_eq!(fibd.status()["ports"][0]["forwards4"], false);
    fibd.audit();
}

/// IPv6 forwards by a longest packet of its own, of which no message says anything.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_port_that_is_for_short_packets_of_ipv6_alone_takes_none_in_hardware() {
    ready!();
    let net = Net::new("sixmtu", 2);
    let set = |to: u32| {
        let setting = format!("net.ipv6.conf.sw0.mtu={to}");
        let status = net.within("sysctl").args(["-qw", &setting]).status();
        assert!(status.unwrap().success());
    };
    net.ip(&format!("route add {SIX} via 2001:db8:9::7 dev sw0 onlink"));
    net.ip("neigh replace 2001:db8::99 lladdr 02:00:00:00:00:99 dev sw0 nud permanent");
    net.ip("route add 192.0.2.0/24 via 10.9.0.7 dev sw0 onlink");
    let fibd = net.fibd("");
    let hops = || fibd.status()["next_hops"].as_u64().unwrap();
    fibd.audit();
    let all = hops();
    set(1300);
    common::eventually("by itself", || hops() < all);
    set(1500);
    // At once for an audit.
    fibd.audit();
    assert_eq!(hops(), all);
    set(1300);
    fibd.audit();
    let few = hops();
    assert!(few < all);
    fibd.resync();
    fibd.audit();
    assert_eq!(hops(), few);
    drop(fibd);
    let fibd = net.fibd("");
    fibd.audit();
    let hops = || fibd.status()["next_hops"].as_u64().unwrap();
    assert_eq!(hops(), few);
    // The device's own sets it, too.
    net.ip("link set sw0 mtu 1400");
    fibd.audit();
    assert_eq!(hops(), all);
    set(1300);
    net.ip("link set sw0 mtu 1500");
    fibd.audit();
    assert_eq!(hops(), all);
    set(1300);
    fibd.audit();
    assert_eq!(hops(), few);
    net.ip("link set sw0 down");
    net.port_up(0);
    fibd.audit();
}

/// What the kernel learns by redirects it says nowhere: the log names the ports where it may learn it.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_port_at_which_the_kernel_takes_redirects_is_told_of() {
    ready!();
    let net = Net::new("redirects", 2);
    let log = net.path("log");
    let child = net
        .within(env!("CARGO_BIN_EXE_fibd"))
        .args(["run", "--control", &net.path("redirects.sock")])
        .args(["--port", "sw0", "--port", "sw1"])
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn();
    let _child = common::Running(child.unwrap());
    let set = |setting: &str| {
        let status = net.within("sysctl").args(["-qw", setting]).status();
        assert!(status.unwrap().success());
    };
    let said = || std::fs::read_to_string(&log).unwrap();
    let of = |family: &str, port: u8| format!("redirects of {family} at `sw{port}`");
    set("net.ipv4.conf.sw0.accept_redirects=0");
    set("net.ipv4.conf.all.accept_redirects=1");
    set("net.ipv6.conf.sw0.forwarding=0");
    common::eventually("both are told of", || {
        let said = said();
        said.contains(&of("IPv4", 1)) && said.contains(&of("IPv6", 0))
    });
    let said = said();
    assert!(
        !said.contains(&of("IPv4", 0)) && !said.contains(&of("IPv6", 1)),
        "{said}"
    );
}
