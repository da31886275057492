// SPDX-License-Identifier: Apache-2.0
//! fibd behind the kernel: which routes it tells apart, and which of several it takes.
//!
//!     cargo test -p fibd --test choices -- --ignored
//!
//! Needs root, network namespaces and `ip` of iproute2.
#![cfg(target_os = "linux")]

mod common;

use common::{Net, missing};

macro_rules! ready {
    ($($program:literal),*) => {
        if let Some(why) = missing(&[$($program),*]) {
            skip::skip!("{why}");
            return;
        }
    };
}

const FOUR: &str = "192.0.2.0/24";

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
