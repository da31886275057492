// SPDX-License-Identifier: Apache-2.0
//! fibd behind the kernel: whatever happens there, the tables say the same afterwards.
//!
//!     cargo test -p fibd --test kernel -- --ignored
//!
//! Needs root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;

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
    for name in ["overruns", "malformed", "differences"] {
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
