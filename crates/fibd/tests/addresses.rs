// SPDX-License-Identifier: Apache-2.0
//! Addresses, neighbours and settings in unusual shapes: an address of the router's that is a neighbour's as well, the same
//! subnet at two ports, what ends without a message.
//!
//!     cargo test -p fibd --test addresses -- --ignored
//!
//! Needs root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;
mod messages;

use std::net::IpAddr;

use common::{Net, missing, random, rounds};
use fibd::message::{Hop, Message, RouteKind, RouteMessage};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

macro_rules! ready {
    () => {
        if let Some(why) = missing(&[]) {
            skip::skip!("{why}");
            return;
        }
    };
}

/// Sets one of the router's settings; whether there is one of that name.
fn set(net: &Net, name: &str, value: u8) -> bool {
    let setting = format!("net.{name}={value}");
    let command = net.within("sysctl").args(["-qw", &setting]).output();
    command.unwrap().status.success()
}

/// A subnet of IPv6 goes when IPv6 ends at a device that stays up, and the kernel need not say so of routes.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_ipv6_go_with_it_whether_the_kernel_says_so_or_not() {
    ready!();
    let net = Net::new("ends", 2);
    let fibd = net.fibd("");
    net.ip("route add 2001:db8:ff::/48 via 2001:db8::7");
    for quiet in 0..2 {
        if quiet == 1 && !set(&net, "ipv6.route.skip_notify_on_dev_down", 1) {
            skip::skip!("this kernel always says so");
        }
        set(&net, "ipv6.conf.sw0.disable_ipv6", 1);
        assert_eq!(net.ip("-6 route show dev sw0 table all"), "");
        fibd.audit();
        set(&net, "ipv6.conf.sw0.disable_ipv6", 0);
        net.port_up(0);
        fibd.audit();
        // Too short for IPv6.
        net.ip("link set sw0 mtu 1200");
        fibd.audit();
        net.ip("link set sw0 mtu 1500");
        net.port_up(0);
        fibd.audit();
        net.ip("-6 addr flush dev sw0");
        fibd.audit();
        net.port_up(0);
    }
    // Nor does somebody have to ask: it is dumped anew by itself.
    let before = fibd.counter("swept");
    set(&net, "ipv6.conf.sw0.disable_ipv6", 1);
    if set(&net, "ipv6.route.skip_notify_on_dev_down", 1) {
        common::eventually("they are swept", || fibd.counter("swept") > before);
    }
}

/// IPv6 ends at a device that had lost its carrier: its next hops of routes that have others are dead, not only without a
/// carrier, until IPv6 is there again and runs.
#[test]
#[ignore = "needs root and network namespaces"]
fn next_hops_of_ipv6_die_with_it_whether_there_is_a_carrier_or_not() {
    ready!();
    let net = Net::new("dies", 2);
    let fibd = net.fibd("");
    let disable = |value| assert!(set(&net, "ipv6.conf.sw1.disable_ipv6", value));
    let shown = || net.ip("-6 route show 2001:db8:f0::/48");
    for (carrier, ignores) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
        for to in 0..16 {
            let hops = "nexthop via 2001:db8:1::8 weight 4 nexthop via 2001:db8::7";
            net.ip(&format!("route add 2001:db8:f{to:x}::/48 {hops}"));
        }
        set(&net, "ipv6.conf.sw1.ignore_routes_with_linkdown", ignores);
        fibd.audit();
        if !carrier {
            common::run(&format!("ip -n {} link set h1 down", net.others));
            common::eventually("it is told", || shown().contains("linkdown"));
            fibd.audit();
        }
        disable(1);
        assert!(shown().contains("dead linkdown"), "{}", shown());
        fibd.audit();
        fibd.resync();
        fibd.audit();
        // A message of the link, and a setting of it, let nothing live again.
        net.ip("link set sw1 mtu 1400");
        fibd.audit();
        set(&net, "ipv6.conf.sw1.ignore_routes_with_linkdown", 0);
        fibd.audit();
        common::run(&format!("ip -n {} link set h1 up", net.others));
        fibd.audit();
        disable(0);
        net.ip("link set sw1 mtu 1500");
        net.port_up(1);
        fibd.audit();
        for to in 0..16 {
            net.ip(&format!("-6 route flush 2001:db8:f{to:x}::/48"));
        }
    }
}

/// A device that is no more takes a whole route of IPv4 along, whatever other next hops it has; that it goes down does not.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_device_that_leaves_takes_routes_of_ipv4_with_other_next_hops_along() {
    ready!();
    let net = Net::new("leaves", 3);
    let (four, six) = ("192.0.2.0/24", "2001:db8:ff::/48");
    let fibd = net.fibd("");
    net.ip("route add 192.0.0.0/16 via 10.0.2.8");
    for (port, how) in [
        (1, "link set sw1 down"),
        (1, "link del sw1"),
        (0, "link set sw0 netns"),
    ] {
        net.may_ip(&format!("route flush {four}"));
        net.may_ip(&format!("-6 route flush {six}"));
        net.port_up(port);
        net.ip(&format!(
            "route add {four} nexthop via 10.0.2.7 nexthop via 10.0.{port}.7"
        ));
        net.ip(&format!(
            "route add {six} nexthop via 2001:db8:2::7 nexthop via 2001:db8:{port}::7"
        ));
        fibd.audit();
        let [swept, dumps] = ["swept", "resyncs"].map(|name| fibd.counter(name));
        match how.ends_with("netns") {
            true => net.ip(&format!("{how} {}", net.others)),
            false => net.ip(how),
        };
        fibd.audit();
        // The dump that comes after it finds nothing more.
        common::eventually("it dumps", || fibd.counter("resyncs") > dumps);
        fibd.audit();
        assert_eq!(fibd.counter("swept"), swept, "{how}");
    }
}

/// What a device takes over of settings when it comes is in the messages before it is known.
#[test]
#[ignore = "needs root and network namespaces"]
fn settings_that_a_device_takes_over_are_known_at_once() {
    ready!();
    let mut net = Net::new("settings", 1);
    net.ports = 2;
    let fibd = net.fibd("");
    set(&net, "ipv4.conf.default.ignore_routes_with_linkdown", 1);
    set(&net, "ipv6.conf.default.ignore_routes_with_linkdown", 1);
    let add = |port: u8| {
        let peer = format!("type veth peer name h{port} netns {}", net.others);
        net.ip(&format!("link add sw{port} {peer}"));
    };
    add(1);
    // The other end is down: no carrier.
    net.port_up(1);
    fibd.audit();
    common::run(&format!("ip -n {} link set h1 up", net.others));
    fibd.audit();
    net.ip("link del sw1");
    // One that has no address yet takes over what is set later.
    add(1);
    set(&net, "ipv4.conf.default.ignore_routes_with_linkdown", 0);
    net.port_up(1);
    net.ip("neigh add 10.0.1.0 lladdr 02:00:00:00:00:05 dev sw1 nud permanent");
    fibd.audit();
    // What is set for all counts beside what is set for each.
    for ignores in [1, 0, 1] {
        set(&net, "ipv4.conf.all.ignore_routes_with_linkdown", ignores);
        fibd.audit();
    }
    common::run(&format!("ip -n {} link set h1 up", net.others));
    fibd.audit();
    set(&net, "ipv6.conf.all.ignore_routes_with_linkdown", 0);
    common::run(&format!("ip -n {} link set h1 down", net.others));
    fibd.audit();
    assert_eq!(fibd.counter("differences"), 0);
}

/// Where there is no ARP the kernel gives neighbours the device's own MAC address, without a message.
#[test]
#[ignore = "needs root and network namespaces"]
fn neighbours_that_are_made_up_go_by_the_host_port() {
    ready!();
    let net = Net::new("noarp", 2);
    let fibd = net.fibd("");
    net.ip("link set sw0 arp off");
    net.ip("neigh add 10.0.0.7 lladdr 02:00:00:00:00:05 dev sw0 nud permanent use");
    net.ip("route add 192.0.2.0/24 via 10.0.0.8");
    net.ip("route add 2001:db8:ff::/48 via 2001:db8::8");
    let _ = net
        .within("ping")
        .args(["-c1", "-W1", "192.0.2.1"])
        .output();
    let made_up = net.ip("neigh show dev sw0 nud noarp");
    assert!(made_up.contains("10.0.0.8"), "{made_up}");
    fibd.audit();
    fibd.resync();
    fibd.audit();
    // Those that somebody gave are taken.
    let hops = fibd.status()["next_hops"].as_u64().unwrap();
    net.ip("neigh replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev sw0 nud noarp");
    net.ip("neigh replace 10.0.0.10 lladdr 02:00:00:00:00:10 dev sw0 nud permanent");
    fibd.audit();
    assert_eq!(fibd.status()["next_hops"].as_u64(), Some(hops + 2));
    net.ip("link set sw0 arp on");
    fibd.audit();
    net.ip("neigh replace 10.0.0.7 lladdr 02:00:00:00:00:07 dev sw0 nud reachable");
    fibd.audit();
    assert_eq!(fibd.counter("differences"), 0);
}

/// The kernel looks into the local table of IPv6 first, and takes what it finds there, however short.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_local_subnet_hides_longer_routes_of_ipv6() {
    ready!();
    let net = Net::new("hides", 2);
    let fibd = net.fibd("");
    let inside = "2001:db8:ff:1::/64";
    net.ip(&format!("route add {inside} via 2001:db8::7"));
    net.ip("route add 192.0.2.0/25 via 10.0.0.7");
    fibd.audit();
    net.ip("route add local 2001:db8:ff::/48 dev lo");
    net.ip("route add local 192.0.2.0/24 dev lo");
    fibd.audit();
    fibd.resync();
    net.ip(&format!("route replace {inside} via 2001:db8:1::8"));
    // Around a neighbour and its subnet.
    net.ip("neigh add 2001:db8:1::9 lladdr 02:00:00:00:00:05 dev sw1 nud permanent");
    net.ip("route add local 2001:db8:1::/63 dev lo");
    fibd.audit();
    net.ip("route del local 2001:db8:ff::/48 dev lo");
    net.ip("route del local 192.0.2.0/24 dev lo");
    net.ip("route del local 2001:db8:1::/63 dev lo");
    fibd.audit();
}

/// To have the kernel keep a neighbour known that somebody gave would make it forget what was given.
#[test]
#[ignore = "needs root and network namespaces"]
fn neighbours_that_somebody_gave_stay_given() {
    ready!();
    let net = Net::new("given", 1);
    let fibd = net.fibd("");
    let (four, six) = ("10.0.0.17", "2001:db8::17");
    for address in [four, six] {
        net.ip(&format!(
            "neigh add {address} lladdr 02:00:00:00:00:05 dev sw0 nud permanent"
        ));
    }
    net.ip(&format!("route add 192.0.2.0/24 via {four}"));
    net.ip(&format!("route add 2001:db8:ff::/48 via {six}"));
    fibd.audit();
    let permanent = net.ip("neigh show nud permanent");
    for address in [four, six] {
        let there = permanent.lines().any(|it| it.starts_with(address));
        assert!(there, "{address} is not in {permanent}");
    }
    assert_eq!(fibd.counter("managed"), 0);
    // Once nobody gives it, the kernel is to find it.
    net.ip(&format!("neigh del {four} dev sw0"));
    net.ip(&format!(
        "neigh replace {six} lladdr 02:00:00:00:00:05 dev sw0 nud stale"
    ));
    common::eventually("both are managed", || fibd.counter("managed") == 2);
    fibd.audit();
}

/// An address at a device that is down has a route there, and goes with a message that knows nothing of what the device's own
/// messages, or settings, have made of its next hop.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_address_goes_whatever_its_next_hop_was_told_to_be() {
    ready!();
    let net = Net::new("down", 1);
    let fibd = net.fibd("");
    let address = "2001:db8::1/64 dev sw0";
    let ignores = |value| {
        set(
            &net,
            "ipv6.conf.sw0.ignore_routes_with_linkdown",
            u8::from(value),
        );
    };
    for (before, after) in [(false, false), (true, false), (false, true)] {
        ignores(before);
        net.ip("link set sw0 down");
        net.may_ip(&format!("addr del {address}"));
        net.ip(&format!("addr add {address} nodad"));
        net.ip("link set sw0 mtu 1400");
        ignores(after);
        fibd.audit();
        // It looks once more after a link went; a later look would hide what is tried here.
        common::eventually("nothing is in doubt", || {
            let dumps = fibd.counter("resyncs");
            std::thread::sleep(std::time::Duration::from_millis(1500));
            fibd.counter("resyncs") == dumps
        });
        net.ip("link set sw0 mtu 1500");
        let unmatched = fibd.counter("unmatched");
        net.ip(&format!("addr del {address}"));
        fibd.audit();
        assert_eq!(fibd.counter("unmatched"), unmatched);
        net.port_up(0);
        fibd.audit();
    }
}

/// One address with two peers is two, and remains while one of them does.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_address_with_two_peers_goes_with_the_second() {
    ready!();
    let net = Net::new("peers", 2);
    net.ip("route add 10.77.0.0/16 via 10.0.1.7");
    let fibd = net.fibd("");
    let [one, other] = ["10.77.0.1/32", "10.77.0.1 peer 10.77.0.2/32"];
    net.ip("addr flush dev sw0");
    for (first, second) in [(one, other), (other, one)] {
        net.ip(&format!("addr add {one} dev sw0"));
        net.ip(&format!("addr add {other} dev sw0"));
        fibd.audit();
        let [implied, swept] = ["implied", "swept"].map(|name| fibd.counter(name));
        net.ip(&format!("addr del {first} dev sw0"));
        fibd.audit();
        assert_eq!(fibd.counter("implied"), implied);
        let dumps = fibd.counter("resyncs");
        net.ip(&format!("addr del {second} dev sw0"));
        fibd.audit();
        common::eventually("it dumps", || fibd.counter("resyncs") > dumps);
        fibd.audit();
        assert_eq!(fibd.counter("swept"), swept);
    }
}

/// What is to be known of such an address at a device that is down, once it goes.
#[test]
fn an_address_of_a_device_that_is_down_may_take_routes_along() {
    let address = IpAddr::from([0x2001, 0xdb8, 5, 0, 0, 0, 0, 1]);
    let told = |present| Message::Address {
        device: 1,
        address,
        len: 64,
        peer: None,
        present,
    };
    let mut state = messages::state();
    messages::tell(&mut state, 0, told(true));
    state.begin_resync(false);
    state.end_resync();
    messages::link(&mut state, 0, false);
    messages::tell(&mut state, 0, told(true));
    let hop = Hop {
        gateway: None,
        ..messages::gateway(0, 0)
    };
    let local = RouteMessage {
        table: 255,
        kind: RouteKind::Local,
        ..messages::route(fibd::Net::host(address), hop)
    };
    messages::tell(&mut state, 0, Message::Route(local.clone()));
    let mut silent = state.clone();
    messages::tell(&mut silent, 0, told(false));
    assert!(silent.is_unsure());
    // Where that is said nothing is open.
    messages::tell(&mut state, 0, Message::RouteGone(local));
    messages::tell(&mut state, 0, told(false));
    assert!(!state.is_unsure());
}

/// IPv6 ends at a device that is down already: nothing is said of the routes of addresses that it was given since.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_addresses_of_a_device_that_is_down_go_without_a_message() {
    ready!();
    let net = Net::new("downs", 1);
    let fibd = net.fibd("");
    if !set(&net, "ipv6.route.skip_notify_on_dev_down", 1) {
        skip::skip!("this kernel always says so");
        return;
    }
    for ends in ["ipv6.conf.sw0.disable_ipv6", "link set sw0 mtu 1200"] {
        net.ip("link set sw0 down");
        net.ip("addr add 2001:db8:5::1/64 dev sw0 nodad");
        fibd.audit();
        // It looks once more after a link went; a later look would hide what is tried here.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        match ends.strip_prefix("link") {
            Some(_) => drop(net.ip(ends)),
            None => assert!(set(&net, ends, 1)),
        }
        assert_eq!(net.ip("-6 route show dev sw0 table all"), "");
        fibd.audit();
        set(&net, "ipv6.conf.sw0.disable_ipv6", 0);
        net.ip("link set sw0 mtu 1500");
        net.port_up(0);
        fibd.audit();
    }
}

/// Random changes of addresses, neighbours, links and settings.
struct Shapes {
    random: ChaCha8Rng,
    ports: u8,
}

impl Shapes {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.choose(&mut self.random).unwrap()
    }

    fn port(&mut self) -> u8 {
        self.random.random_range(0..self.ports)
    }

    fn address(&mut self) -> String {
        let (port, of) = (self.port(), self.port());
        let verb = self.one(&["add", "add", "replace", "del", "del"]);
        let address = match self.random.random_range(0..4) {
            // The same subnet at two ports, from time to time.
            0 | 1 => {
                let of = if self.random.random_bool(0.2) {
                    of
                } else {
                    port
                };
                let host = self.one(&["1", "1", "7", "9", "129"]);
                let len = self.one(&["24", "24", "25", "32", "31"]);
                format!("10.0.{of}.{host}/{len}")
            }
            2 => {
                let host = self.one(&["1", "1", "7", "9", ""]);
                let len = self.one(&["64", "64", "127", "128", "48"]);
                format!("2001:db8:{port}::{host}/{len}")
            }
            _ => {
                let peer = ["10.77.0.1 peer 10.77.0.2/32", "10.77.0.1/32"];
                self.one(&peer).to_owned()
            }
        };
        let more = match verb {
            "del" => "",
            _ => self.one(&["", "", "", " noprefixroute", " metric 50", " scope link"]),
        };
        let nodad = if address.contains(':') && verb != "del" {
            " nodad"
        } else {
            ""
        };
        format!("addr {verb} {address} dev sw{port}{more}{nodad}\n")
    }

    /// Of those that are the router's own and the ends of subnets among others.
    fn neighbour(&mut self) -> String {
        let port = self.port();
        let four = ["0", "1", "7", "8", "9", "127", "128", "255"];
        let address = match self.random.random_range(0..3) {
            0 | 1 => format!("10.0.{port}.{}", self.one(&four)),
            _ => format!("2001:db8:{port}::{}", self.one(&["", "1", "7", "9"])),
        };
        if self.random.random_bool(0.25) {
            return format!("neigh del {address} dev sw{port}\n");
        }
        let states = [
            "permanent",
            "permanent",
            "reachable",
            "stale",
            "noarp",
            "failed",
            "none",
        ];
        let (verb, state) = (self.one(&["add", "replace"]), self.one(&states));
        let mac = self.random.random_range(1..250);
        let more = self.one(&["", "", "", " use", " managed"]);
        format!(
            "neigh {verb} {address} lladdr 02:00:00:00:00:{mac:02x} dev sw{port} nud {state}{more}\n"
        )
    }

    /// To the ends of subnets, and to what may be an address of the router's.
    fn route(&mut self) -> String {
        let (port, via) = (self.port(), self.port());
        let verb = self.one(&["add", "append", "replace", "del", "del"]);
        let four = [
            "0/32", "1/32", "7/32", "255/32", "0/24", "0/25", "0/31", "8/31",
        ];
        let six = ["/128", "1/128", "7/128", "/64", "/127", "/48"];
        let (prefix, gateway) = match self.random.random_bool(0.6) {
            true => (
                format!("10.0.{port}.{}", self.one(&four)),
                format!("via 10.0.{via}.{}", self.one(&["7", "8"])),
            ),
            false => (
                format!("2001:db8:{port}::{}", self.one(&six)),
                format!("via 2001:db8:{via}::{}", self.one(&["7", "8"])),
            ),
        };
        let how = match self.random.random_range(0..5) {
            0 => format!("dev sw{via}"),
            1 if verb != "del" => return format!("route {verb} blackhole {prefix}\n"),
            2 if verb == "del" => String::new(),
            _ => gateway,
        };
        let table = self.one(&["", "", "", " metric 20", " table local"]);
        format!("route {verb} {prefix} {how}{table}\n")
    }

    fn link(&mut self) -> String {
        let port = self.port();
        let what = self.one(&[
            "down",
            "up",
            "up",
            "arp off",
            "arp on",
            "mtu 1200",
            "mtu 1500",
            "address 02:11:00:00:00:01",
        ]);
        format!("link set sw{port} {what}\n")
    }

    fn setting(&mut self) -> (String, u8) {
        let port = self.port();
        let of = [&format!("sw{port}"), "all", "default"];
        let of = *of.choose(&mut self.random).unwrap();
        let name = match self.random.random_range(0..6) {
            0 => format!("ipv4.conf.{of}.promote_secondaries"),
            1 => format!("ipv4.conf.{of}.ignore_routes_with_linkdown"),
            2 => format!("ipv6.conf.{of}.ignore_routes_with_linkdown"),
            3 => format!("ipv6.conf.{of}.keep_addr_on_down"),
            4 => format!("ipv6.conf.sw{port}.disable_ipv6"),
            _ => "ipv6.route.skip_notify_on_dev_down".to_owned(),
        };
        (name, self.random.random_range(0..2))
    }

    fn some(&mut self, count: u32) -> String {
        let mut lines = String::new();
        for _ in 0..count {
            lines += &match self.random.random_range(0..10) {
                0..4 => self.address(),
                4..7 => self.neighbour(),
                7 | 8 => self.route(),
                _ => self.link(),
            };
        }
        lines
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn random_addresses_and_neighbours_leave_no_difference() {
    ready!();
    let net = Net::new("shapes", 3);
    let fibd = net.fibd("");
    let mut shapes = Shapes {
        random: random(),
        ports: 3,
    };
    for round in 0..rounds(25) {
        for _ in 0..shapes.random.random_range(1..4) {
            let count = [3, 10, 40, 150].choose(&mut shapes.random);
            let lines = shapes.some(*count.unwrap());
            net.batch(&lines);
            match shapes.random.random_range(0..4) {
                0 => {
                    let (name, value) = shapes.setting();
                    set(&net, &name, value);
                }
                1 => {
                    let (port, to) = (shapes.port(), shapes.one(&["up", "down"]));
                    common::run(&format!("ip -n {} link set h{port} {to}", net.others));
                }
                2 if shapes.random.random_bool(0.3) => {
                    let port = shapes.port();
                    let peer = format!("type veth peer name h{port} netns {}", net.others);
                    net.ip(&format!("link del sw{port}"));
                    net.ip(&format!("link add sw{port} {peer}"));
                }
                _ => {}
            }
        }
        println!("round {round}");
        fibd.audit();
        if shapes.random.random_bool(0.4) {
            for port in 0..3 {
                set(&net, &format!("ipv6.conf.sw{port}.disable_ipv6"), 0);
                common::run(&format!("ip -n {} link set h{port} up", net.others));
                // One with another scope can't be replaced.
                net.batch(&format!(
                    "link set sw{port} mtu 1500\nlink set sw{port} up\n\
                     addr del 10.0.{port}.1/24 dev sw{port}\naddr add 10.0.{port}.1/24 dev sw{port}\n\
                     addr replace 2001:db8:{port}::1/64 dev sw{port} nodad\n"
                ));
            }
            fibd.audit();
        }
    }
    assert_ne!(fibd.counter("implied"), 0);
}

/// Ports exchange their names while fibd does not read: at the end each device is at the other's port.
#[test]
#[ignore = "needs root and network namespaces"]
fn neighbours_move_with_devices_that_exchange_names() {
    ready!();
    let net = Net::new("swap", 2);
    let fibd = net.fibd("");
    net.ip("neigh replace fe80::1 lladdr 02:00:00:00:00:02 dev sw0 nud permanent");
    net.ip("route add 2001:db8:f0::/48 via fe80::1 dev sw0");
    net.ip("route add 2001:db8:f1::/48 via fe80::1 dev sw1");
    fibd.audit();
    let id = fibd.child.id();
    common::run(&format!("kill -STOP {id}"));
    for (old, new) in [("sw0", "swx"), ("sw1", "sw0"), ("swx", "sw1")] {
        net.ip(&format!("link set {old} name {new}"));
    }
    common::run(&format!("kill -CONT {id}"));
    fibd.audit();
    fibd.resync();
    fibd.audit();
    assert_eq!(fibd.counter("healed"), 0);
}

/// Of IPv6 the kernel calls next hops dead for want of a carrier, too, if they are to be ignored then, and does not say so
/// when they are to be no longer.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_that_were_ignored_are_alive_at_once() {
    ready!();
    let net = Net::new("ignored", 2);
    let to = "2001:db8:ff::/48";
    let set = |of: &str, ignores| {
        let name = format!("ipv6.conf.{of}.ignore_routes_with_linkdown");
        assert!(set(&net, &name, ignores));
    };
    for of in ["sw1", "all"] {
        let fibd = net.fibd("");
        net.ip(&format!("route add {to} via 2001:db8::7"));
        net.ip(&format!("route append {to} via 2001:db8:1::8"));
        set(of, 1);
        let dumps = fibd.counter("resyncs");
        common::run(&format!("ip -n {} link set h1 down", net.others));
        common::eventually("the kernel calls them dead", || {
            net.ip("-6 route show dev sw1").contains("dead linkdown")
        });
        fibd.audit();
        // It looks once more after the loss; a later look would hide what is tried here.
        common::eventually("it dumps", || fibd.counter("resyncs") > dumps);
        // Told anew while it is ignored.
        net.ip("route add 2001:db8:fe::/48 via 2001:db8:1::8");
        net.ip("route add 2001:db8:fd::/48 via 2001:db8:1::8");
        net.ip("route del 2001:db8:fd::/48");
        fibd.audit();
        set(of, 0);
        fibd.audit();
        set(of, 1);
        fibd.audit();
        // One of the next hops of the first outlives this, and is dead whatever is set.
        net.ip("link set sw1 down");
        net.ip("link set sw1 up");
        fibd.audit();
        drop(fibd);
        let fibd = net.fibd("");
        set(of, 0);
        net.ip(&format!("route del {to} via 2001:db8::7"));
        fibd.audit();
        common::run(&format!("ip -n {} link set h1 up", net.others));
        net.port_up(1);
        fibd.audit();
        net.may_ip(&format!("-6 route flush {to}"));
    }
}

/// The kernel passes over a route that has expired, and says so only when it collects it.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_ipv6_that_expire_are_taken_out_in_time() {
    ready!();
    let net = Net::new("expires", 1);
    let fibd = net.fibd("");
    // The next hops are known first: each has a prefix of its own, which would be counted with those of the routes.
    for (to, host) in [(0xfc, 7), (0xfe, 8)] {
        net.ip(&format!(
            "route add 2001:db8:{to:x}::/48 via 2001:db8::{host}"
        ));
        common::eventually("its next hop is known", || {
            let address = format!("2001:db8::{host}");
            net.ip(&format!("neigh show {address}")).contains("lladdr")
        });
    }
    net.ip("route add 2001:db8:ff::/48 via 2001:db8::7 expires 1");
    let prefixes = fibd.audit();
    let unreachable = || !net.may_ip("route get 2001:db8:ff::1");
    common::eventually("the kernel passes over it", unreachable);
    // This one may look before fibd has dumped the kernel, and looks again at what differs, but counts what it saw first.
    fibd.audit();
    assert_eq!(fibd.audit(), prefixes - 1);
    // By itself, too.
    let routes = || fibd.status()["prefixes"].as_u64().unwrap();
    let before = routes();
    net.ip("route add 2001:db8:fd::/48 via 2001:db8::7 expires 2");
    common::eventually("it is there", || routes() == before + 1);
    let since = std::time::Instant::now();
    common::eventually("it is gone", || routes() == before);
    println!("gone after {:?}", since.elapsed());
    fibd.audit();
}
