// SPDX-License-Identifier: Apache-2.0
//! The Internet's table from BIRD by the kernel, and from FRR that has it by BGP: all of it in hardware, how fast, and in
//! how much memory.
//!
//!     crates/fib/tools/fetch-routes
//!     cargo test --release -p fibd --test internet -- --ignored --nocapture
//!
//! Needs root, network namespaces, and the Debian packages bird2 and frr.
#![cfg(target_os = "linux")]

mod common;

use std::time::{Duration, Instant};

use common::full::{BIRD, Bird, Full, PATIENCE, PORTS, arrive, own, there, used};
use common::{BGPD, Net, ZEBRA, missing, random, run};

/// Bytes of memory that a route may take.
const BYTES: u64 = 600;

/// How fast they came: of fibd's own processor time, and of all the time that it took, in which the daemon and the kernel
/// had theirs on the same machine.
fn rates(by: &str, count: u64, processor: f64, wall: f64) {
    println!(
        "{count} routes by {by}: {:.0} a second of fibd's processor time ({processor:.1} s); \
         {:.0} a second end to end ({wall:.1} s of wall time)",
        count as f64 / processor,
        count as f64 / wall
    );
}

#[test]
#[ignore = "the Internet's table by BIRD: minutes, and a gigabyte"]
fn bird_gives_the_internet_to_the_switch() {
    if let Some(why) = missing(&[BIRD]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("all", PORTS);
    let fibd = net.fibd("");
    let mut random = random();
    let own = own(&fibd);
    let table = Full::new(&mut random);
    let count = table.count();
    let (before, _) = used(&fibd);
    let begun = Instant::now();
    let bird = Bird::router(&net, &table);
    arrive(&fibd, own + count);
    let wall = begun.elapsed().as_secs_f64();
    rates("BIRD", count, used(&fibd).0 - before, wall);
    assert_eq!(fibd.counter("spilled"), 0, "all are in hardware");
    assert!(fibd.audit() >= count);

    // Ten thousand routes go, or change, and come back.
    for table in [&table.flapped(&mut random, 10_000), &table] {
        bird.configure(table);
        arrive(&fibd, own + table.count());
        assert!(fibd.audit() >= table.count());
    }
    // A port goes down, and with it a quarter of all, of which the kernel says nothing; then it is back.
    net.ip("link set sw0 down");
    let end = Instant::now() + PATIENCE;
    loop {
        let there = there(&fibd);
        if there < count && fibd.ask("audit --random 10 --ask 10").0 {
            break;
        }
        assert!(
            Instant::now() < end,
            "{there} prefixes while a port is down"
        );
        std::thread::sleep(Duration::from_secs(1));
    }
    net.port_up(0);
    arrive(&fibd, own + count);
    assert!(fibd.audit() >= count);
    let (time, peak) = used(&fibd);
    println!(
        "{time:.1} s of processor time with audits and flaps; {} bytes a route at most, the switch's memories among them",
        peak / count
    );
    assert!(peak <= BYTES * count, "{} bytes a route", peak / count);
    // Killed, and started again.
    drop(fibd);
    let fibd = net.fibd("");
    arrive(&fibd, own + count);
    assert!(fibd.audit() >= count);
}

/// Lets FRR have the table by BGP.
fn peer(net: &Net, table: &Full) -> Bird {
    net.vtysh(
        "router bgp 65000\nbgp router-id 10.0.0.1\nneighbor 10.0.0.7 remote-as 65000\n\
        address-family ipv6 unicast\nneighbor 10.0.0.7 activate\nexit-address-family\n",
    );
    Bird::peer(net, table)
}

/// Routes that the kernel has.
fn kernels(net: &Net) -> u64 {
    let read = |file: &str| {
        run(&format!(
            "ip netns exec {} cat /proc/net/{file}",
            net.router
        ))
    };
    let four = read("fib_triestat");
    let four = four
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Prefixes:"));
    let four: u64 = four.map(|count| count.trim().parse::<u64>().unwrap()).sum();
    let six = read("rt6_stats");
    let entries = six.split_whitespace().nth(3).unwrap();
    four + u64::from_str_radix(entries, 16).unwrap()
}

/// What the others need for themselves: no switch can have the table sooner.
#[test]
#[ignore = "the Internet's table by BGP and FRR, without fibd: a minute, and gigabytes"]
fn frr_gives_the_internet_to_the_kernel_alone() {
    if let Some(why) = missing(&[BIRD, ZEBRA, BGPD, "/usr/bin/vtysh"]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("allo", PORTS);
    let table = Full::new(&mut random());
    let _frr = net.frr(&[], BGPD, &[]);
    let before = kernels(&net);
    let begun = Instant::now();
    let _peer = peer(&net, &table);
    while kernels(&net) < before + table.count() {
        assert!(begun.elapsed() < PATIENCE, "{} routes", kernels(&net));
        std::thread::sleep(Duration::from_millis(200));
    }
    println!(
        "{} routes by FRR to the kernel, without fibd: {:.0} a second",
        table.count(),
        table.count() as f64 / begun.elapsed().as_secs_f64()
    );
}

fn frr(by_fpm: bool) {
    if let Some(why) = missing(&[BIRD, ZEBRA, BGPD, "/usr/bin/vtysh"]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new(if by_fpm { "allf" } else { "allk" }, PORTS);
    let fibd = net.fibd(if by_fpm { "--fpm" } else { "" });
    let own = own(&fibd);
    let table = Full::new(&mut random());
    let count = table.count();
    let modules: &[&str] = if by_fpm {
        &["-M", "dplane_fpm_nl"]
    } else {
        &[]
    };
    let _frr = net.frr(modules, BGPD, &[]);
    if by_fpm {
        net.vtysh("fpm address 127.0.0.1\n");
        common::eventually("zebra connects", || fibd.status()["fpm"] == true);
    }
    let (before, _) = used(&fibd);
    let begun = Instant::now();
    let _peer = peer(&net, &table);
    arrive(&fibd, own + count);
    let wall = begun.elapsed().as_secs_f64();
    let (time, peak) = used(&fibd);
    let by = if by_fpm { "FRR and FPM" } else { "FRR" };
    rates(by, count, time - before, wall);
    println!("{} bytes a route at most", peak / count);
    assert_eq!(fibd.counter("spilled"), 0, "all are in hardware");
    assert!(fibd.audit() >= count);
}

#[test]
#[ignore = "the Internet's table by BGP and FRR: minutes, and gigabytes"]
fn frr_gives_the_internet_to_the_switch_by_the_kernel() {
    frr(false);
}

#[test]
#[ignore = "the Internet's table by BGP, FRR and FPM: minutes, and gigabytes"]
fn frr_gives_the_internet_to_the_switch_by_fpm() {
    frr(true);
}
