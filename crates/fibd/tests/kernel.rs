// SPDX-License-Identifier: Apache-2.0
//! fibd behind the kernel: whatever happens there, the tables say the same afterwards.
//!
//!     cargo test -p fibd --test kernel -- --ignored
//!
//! Needs root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use common::{Changes, Net, missing, random, rounds};
use rand::RngExt;

macro_rules! ready {
    ($($program:literal),*) => {
        if let Some(why) = missing(&[$($program),*]) {
            skip::skip!("{why}");
            return;
        }
    };
}

#[test]
#[ignore = "needs root and network namespaces"]
fn random_changes_leave_no_difference() {
    ready!();
    let net = Net::new("random", 3);
    let fibd = net.fibd("");
    let mut changes = Changes {
        random: random(),
        ports: 3,
    };
    for round in 0..rounds(12) {
        net.batch(&changes.some(400));
        let prefixes = fibd.audit();
        assert!(prefixes > 20, "round {round}: {prefixes} prefixes");
    }
    net.carried.borrow().has_all();
    for name in ["overruns", "malformed", "differences", "healed"] {
        assert_eq!(fibd.counter(name), 0, "{name}");
    }
    assert_ne!(fibd.counter("multipath"), 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn links_and_addresses_that_go_take_their_routes_along() {
    ready!();
    let net = Net::new("links", 3);
    let fibd = net.fibd("");
    let mut changes = Changes {
        random: random(),
        ports: 3,
    };
    for _ in 0..rounds(8) {
        net.batch(&changes.some(150));
        let port = changes.random.random_range(0..3_u8);
        let other = format!("ip -n {} link set h{port}", net.others);
        match changes.random.random_range(0..6) {
            0 => net.batch(&format!("link set sw{port} down\n")),
            1 => common::run(&format!("{other} down")).clear(),
            2 => net.batch(&format!("addr del 10.0.{port}.1/24 dev sw{port}\n")),
            3 => net.batch(&format!("addr flush dev sw{port}\n")),
            4 => net.batch(&format!("link set sw{port} down\nlink set sw{port} up\n")),
            _ => net.batch(&format!("addr add 10.0.{port}.1/25 dev sw{port}\n")),
        }
        // The kernel looks at the carrier in its own time.
        fibd.audit();
        net.batch(&changes.some(50));
        fibd.audit();
        common::run(&format!("{other} up"));
        net.port_up(port);
        fibd.audit();
    }
    assert_ne!(fibd.counter("implied"), 0);
}

/// Of IPv6 and one metric: the kernel's order decides once the first next hop is dead or gone, and its dump passes over
/// what is between the next hops that it tells of as one route.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_route_between_next_hops_is_taken_when_its_turn_comes() {
    ready!();
    let net = Net::new("between", 2);
    let to = "2001:db8:ff::/48";
    let dead_and_gone = |fibd: &common::Fibd| {
        fibd.audit();
        net.ip("link set sw0 down");
        fibd.audit();
        net.port_up(0);
        fibd.audit();
        net.ip(&format!("route del {to} via 2001:db8::7"));
        fibd.audit();
        net.ip(&format!("route del {to} dev sw1"));
        fibd.audit();
        net.ip(&format!("route del {to} via 2001:db8:1::8"));
        fibd.audit();
    };
    let interleave = || {
        net.ip(&format!("route add {to} via 2001:db8::7"));
        net.ip(&format!("route append {to} dev sw1"));
        net.ip(&format!("route append {to} via 2001:db8:1::8"));
    };
    let fibd = net.fibd("");
    interleave();
    dead_and_gone(&fibd);
    // Of the device that goes down: the kernel forgets to take it out, and loses what it gets.
    net.ip(&format!("route add {to} via 2001:db8:1::8"));
    net.ip(&format!("route append {to} dev sw1"));
    net.ip(&format!("route append {to} via 2001:db8::7"));
    fibd.audit();
    net.ip("link set sw1 down");
    fibd.audit();
    net.port_up(1);
    fibd.audit();
    net.ip("link set sw1 down");
    net.ip("link set sw0 down");
    net.port_up(0);
    net.port_up(1);
    fibd.audit();
    net.may_ip(&format!("-6 route flush {to}"));
    fibd.audit();
    // A dump must not take out what it passes over.
    interleave();
    fibd.resync();
    dead_and_gone(&fibd);
    // Found by a dump, and not known to be there until something is taken out.
    drop(fibd);
    interleave();
    let fibd = net.fibd("");
    fibd.audit();
    net.ip(&format!("route del {to} via 2001:db8::7"));
    fibd.audit();
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_route_that_is_there_twice_stays_where_it_is() {
    ready!();
    let net = Net::new("twice", 2);
    let fibd = net.fibd("");
    let to = "2001:db8:ff::/48";
    net.ip("nexthop add id 7 via 2001:db8::7 dev sw0");
    net.ip(&format!("route append {to} dev sw1"));
    net.ip(&format!("route append {to} via 2001:db8:1::8"));
    net.ip(&format!("route append {to} nhid 7"));
    // The first of its kind is replaced, whatever is there besides.
    net.ip(&format!("route replace {to} nhid 7"));
    fibd.audit();
    fibd.resync();
    fibd.audit();
    net.ip(&format!("route replace {to} dev sw1"));
    fibd.audit();
    net.ip(&format!("route replace {to} nhid 7"));
    net.ip(&format!("route del {to} nhid 7"));
    fibd.audit();
}

/// A device that goes down takes the first of two equal routes along, which the kernel tells, and leaves the other, since
/// it is between next hops.
#[test]
#[ignore = "needs root and network namespaces"]
fn of_two_equal_routes_the_one_between_next_hops_outlives_its_device() {
    ready!();
    let net = Net::new("outlives", 2);
    let to = "2001:db8:ff::/48";
    let fibd = net.fibd("");
    net.ip(&format!("route append blackhole {to}"));
    net.ip(&format!("route append {to} via 2001:db8:1::8"));
    net.ip(&format!("route append {to} dev sw0"));
    net.ip(&format!("route append {to} via 2001:db8::7"));
    net.ip(&format!("route replace {to} dev sw0"));
    fibd.audit();
    net.ip("link set sw0 down");
    fibd.audit();
    net.port_up(0);
    fibd.audit();
    net.ip(&format!("route del {to} via 2001:db8:1::8"));
    net.ip(&format!("route del {to} via 2001:db8::7"));
    let left = net.ip(&format!("-6 route show {to}"));
    assert!(left.contains("dev sw0"), "{left}");
    fibd.audit();
    net.ip(&format!("route del {to} dev sw0"));
    fibd.audit();
}

/// Next hops of IPv6 that outlived their device, since others of the same route did, are dead until it has a carrier again.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_device_that_is_up_without_carrier_revives_no_next_hop_of_ipv6() {
    ready!();
    let net = Net::new("carrier", 2);
    let to = "2001:db8:ff::/48";
    let fibd = net.fibd("");
    net.ip(&format!("route add {to} via 2001:db8::7"));
    net.ip(&format!("route append {to} via 2001:db8:1::8"));
    common::run(&format!("ip -n {} link set h1 down", net.others));
    net.ip("link set sw1 down");
    net.ip("link set sw1 up");
    fibd.audit();
    net.ip(&format!("route del {to} via 2001:db8::7"));
    fibd.audit();
    fibd.resync();
    fibd.audit();
    common::run(&format!("ip -n {} link set h1 up", net.others));
    fibd.audit();
    net.port_up(1);
    fibd.audit();
}

/// Of each route by an object that changes the kernel says that it replaced a route; but it replaced none.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_change_of_an_object_replaces_no_route() {
    ready!();
    let net = Net::new("object", 2);
    let fibd = net.fibd("");
    let (four, six) = ("192.0.2.0/24", "2001:db8:ff::/48");
    net.ip("nexthop add id 1 via 10.0.0.7 dev sw0");
    net.ip("nexthop add id 101 via 2001:db8::7 dev sw0");
    net.ip("nexthop add id 107 group 101");
    for (to, object) in [(four, 1), (six, 107)] {
        net.ip(&format!("route append prohibit {to}"));
        net.ip(&format!("route append {to} nhid {object}"));
    }
    fibd.audit();
    net.ip("nexthop replace id 1 via 10.0.1.8 dev sw1");
    net.ip("nexthop replace id 101 via 2001:db8:1::8 dev sw1");
    fibd.audit();
    // With the objects go their routes, and no others.
    net.ip("nexthop del id 1");
    net.ip("nexthop del id 101");
    fibd.audit();
    let found = net.ip(&format!("-6 route show {six}"));
    assert!(found.contains("prohibit"), "{found}");
}

/// Asked for a route of IPv6 by an object, the kernel names any route that has the same next hop.
#[test]
#[ignore = "needs root and network namespaces"]
fn routes_that_share_an_object_are_not_mistaken_for_each_other() {
    ready!();
    let net = Net::new("share", 2);
    let fibd = net.fibd("");
    net.ip("nexthop add id 101 via 2001:db8::7 dev sw0");
    net.ip("nexthop add id 102 via 2001:db8:1::8 dev sw1");
    net.ip("nexthop add id 107 group 101/102");
    net.ip("route add 2001:db8:ff::/48 nhid 101");
    for to in 0..16 {
        net.ip(&format!("route add 2001:db8:ff0{to:x}::/48 nhid 107"));
    }
    // Each processor remembers the first that it looked up.
    let processors = std::thread::available_parallelism().unwrap().get();
    for processor in 0..processors {
        let get = [
            "-c",
            &processor.to_string(),
            "ip",
            "route",
            "get",
            "fibmatch",
            "2001:db8:ff::1",
        ];
        let command = net.within("taskset").args(get).output().unwrap();
        assert!(command.status.success(), "{command:?}");
    }
    fibd.audit();
}

/// What does not forward passes over routes whose next hop does not answer.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_kernel_that_does_not_forward_is_not_asked_for_ipv6() {
    ready!();
    let net = Net::new("host", 2);
    let fibd = net.fibd("--unmanaged");
    net.ip("route add 2001:db8:ff::/48 via 2001:db8::99");
    net.ip("neigh replace 2001:db8::99 dev sw0 nud failed");
    let audit = || {
        fibd.audit();
        fibd.ask("audit --random 0 --ask 500").1["unasked"].as_u64()
    };
    net.forward(false);
    assert!(audit() > Some(0));
    assert_eq!(fibd.status()["forwards6"], false);
    net.forward(true);
    assert_eq!(audit(), Some(0));
}

/// More messages wait than are taken in at a time.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_audit_waits_until_all_that_the_kernel_said_is_taken_in() {
    ready!();
    let net = Net::new("waits", 1);
    let fibd = net.fibd("");
    let id = fibd.child.id();
    common::run(&format!("kill -STOP {id}"));
    let lines = (0..5000).map(|host| {
        format!(
            "route add 192.0.{}.{}/32 via 10.0.0.7\n",
            host >> 8,
            host & 255
        )
    });
    net.batch(&lines.collect::<String>());
    // Asked before it goes on, so that the audit is in its first turn.
    let mut stream = UnixStream::connect(&fibd.control).unwrap();
    stream
        .write_all(b"{\"audit\":{\"random\":0,\"ask\":500,\"seed\":1}}\n")
        .unwrap();
    common::run(&format!("kill -CONT {id}"));
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["audit"]["differences"], 0, "{answer}");
    assert!(
        answer["audit"]["prefixes"].as_u64() > Some(5000),
        "{answer}"
    );
}

#[test]
#[ignore = "needs root and network namespaces"]
fn lost_messages_are_made_up_for() {
    ready!();
    let net = Net::new("lost", 2);
    let mut changes = Changes {
        random: random(),
        ports: 2,
    };
    // Room for a few messages only.
    let fibd = net.fibd("--buffer 4096");
    let mut audits = 0;
    common::eventually("the kernel has no room for its messages", || {
        net.batch(&changes.some(2000));
        audits += 1;
        fibd.audit();
        fibd.counter("overruns") > 2
    });
    assert!(fibd.counter("resyncs") > 1, "after {audits} audits");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_killed_fibd_begins_anew() {
    ready!();
    let net = Net::new("killed", 2);
    let mut changes = Changes {
        random: random(),
        ports: 2,
    };
    let mut fibd = net.fibd("");
    for _ in 0..3 {
        net.batch(&changes.some(300));
        // SIGKILL: its socket stays behind.
        fibd.child.kill().unwrap();
        fibd.child.wait().unwrap();
        net.batch(&changes.some(300));
        fibd = net.fibd("");
        assert!(fibd.audit() > 20);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn neighbours_are_found_and_kept_known() {
    ready!();
    let net = Net::new("known", 2);
    let fibd = net.fibd("");
    net.ip("route add 192.0.2.0/24 via 10.0.0.7");
    net.ip("route add 2001:db8:ff::/48 via 2001:db8:1::8");
    // Nobody sends anything: the kernel asks since fibd wants it to.
    let managed = |address: &str| {
        let line = net.ip(&format!("neigh show {address}"));
        line.contains("managed") && line.contains("lladdr")
    };
    common::eventually("both next hops are known", || {
        managed("10.0.0.7") && managed("2001:db8:1::8")
    });
    assert_eq!(fibd.counter("managed"), 2);
    fibd.audit();
    // Another MAC address, as after a change of cards.
    net.ip("neigh replace 10.0.0.7 lladdr 02:00:00:00:00:77 dev sw0");
    fibd.audit();
    // A neighbour in a subnet has a route of its own, and none when a longer route leads past it.
    net.ip("neigh replace 10.0.1.8 lladdr 02:00:00:00:00:78 dev sw1");
    fibd.audit();
    let hops = fibd.status()["next_hops"].as_u64();
    net.ip("route add 10.0.1.8/31 via 10.0.0.7");
    fibd.audit();
    assert_eq!(
        fibd.status()["next_hops"].as_u64(),
        hops.map(|count| count - 1)
    );
    // Nobody is there: by the kernel, as long as that lasts.
    net.ip("route add 198.51.100.0/24 via 10.0.0.99");
    fibd.audit();
}
