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

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{BGPD, Fibd, Net, Running, ZEBRA, missing, random};
use rand::RngExt;
use rand::seq::SliceRandom;

const BIRD: &str = "/usr/sbin/bird";
const TABLE: &str = "../../.build/routes/bart-v0.30.0.txt";
const PORTS: u8 = 4;
/// Bytes of memory that a route may take.
const BYTES: u64 = 600;
/// A busy machine takes a multiple of what a quiet one does.
const PATIENCE: Duration = Duration::from_secs(600);

/// Prefixes that BIRD gives to the kernel, by family.
fn prefixes() -> [Vec<String>; 2] {
    let text = fs::read_to_string(TABLE).expect("run crates/fib/tools/fetch-routes first");
    let mut found = [Vec::new(), Vec::new()];
    for line in text.lines() {
        let (address, len) = line.split_once('/').expect("a prefix");
        // This network, loopback and multicast are not a routing daemon's.
        let refused = match address.parse().expect("an address") {
            std::net::IpAddr::V4(four) => matches!(four.octets()[0], 0 | 127 | 224..),
            std::net::IpAddr::V6(six) => !(0x2000..0x4000).contains(&six.segments()[0]),
        };
        if !refused || len == "0" {
            found[usize::from(address.contains(':'))].push(line.to_owned());
        }
    }
    found
}

/// Where a route goes.
fn gateway(hop: u8, six: bool) -> String {
    let (port, host) = (hop % PORTS, 7 + hop / PORTS % 2);
    match six {
        false => format!("10.0.{port}.{host}"),
        true => format!("2001:db8:{port}::{host}"),
    }
}

/// A table: a next hop for each prefix, or none while it is withdrawn.
fn config(prefixes: &[Vec<String>; 2], hops: &[Vec<Option<u8>>; 2]) -> String {
    let mut text = "router id 10.0.0.1;\nprotocol device { scan time 60; }\n".to_owned();
    for (six, family) in [(false, "ipv4"), (true, "ipv6")] {
        let at = usize::from(six);
        writeln!(
            text,
            "protocol kernel {{ scan time 3600; {family} {{ export all; import none; }}; }}\nprotocol static {{ {family};"
        )
        .unwrap();
        for (prefix, hop) in prefixes[at].iter().zip(&hops[at]) {
            if let Some(hop) = hop {
                writeln!(text, "route {prefix} via {};", gateway(*hop, six)).unwrap();
            }
        }
        text += "}\n";
    }
    text
}

/// Seconds of processor time that it took so far, and the most memory that it had, in bytes.
fn used(fibd: &Fibd) -> (f64, u64) {
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", fibd.child.id())).unwrap();
    let stat = of("stat");
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<_> = after_name.split_whitespace().collect();
    // Of the program and of the system on its behalf, in hundredths.
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    let status = of("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = peak
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    (ticks as f64 / 100.0, 1024 * kib)
}

/// Waits until so many prefixes are there.
fn arrive(fibd: &Fibd, wanted: u64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let there = fibd.status()["prefixes"].as_u64().unwrap();
        if there == wanted {
            return;
        }
        assert!(
            Instant::now() < end,
            "{there} of {wanted} prefixes after {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
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
    let prefixes = prefixes();
    let mut hops = [0, 1].map(|at: usize| {
        let any = |_: &String| Some(random.random_range(0..2 * PORTS));
        prefixes[at].iter().map(any).collect::<Vec<_>>()
    });
    let own = fibd.status()["prefixes"].as_u64().unwrap();
    let count = (prefixes[0].len() + prefixes[1].len()) as u64;
    let (file, socket) = (net.path("bird.conf"), net.path("bird.ctl"));
    fs::write(&file, config(&prefixes, &hops)).unwrap();
    let before = used(&fibd);
    let begun = Instant::now();
    let mut command = net.within(BIRD);
    command
        .args(["-f", "-c", &file, "-s", &socket])
        .stderr(Stdio::null());
    let _bird = Running(command.spawn().unwrap());
    arrive(&fibd, own + count);
    let (after, seconds) = (used(&fibd), begun.elapsed().as_secs_f64());
    println!(
        "{count} routes: {:.0} a second of fibd's processor time, {:.0} a second in all",
        count as f64 / (after.0 - before.0),
        count as f64 / seconds
    );
    assert_eq!(fibd.counter("spilled"), 0, "all are in hardware");
    assert!(fibd.audit() >= count);

    // Ten thousand routes go, or change, and come back.
    let mut flapping: Vec<(usize, usize)> = (0..2)
        .flat_map(|at| (0..prefixes[at].len()).map(move |index| (at, index)))
        .collect();
    flapping.shuffle(&mut random);
    flapping.truncate(10_000);
    let whole = hops.clone();
    for (at, index) in &flapping {
        let hop = &mut hops[*at][*index];
        *hop = random
            .random_bool(0.5)
            .then(|| random.random_range(0..2 * PORTS));
    }
    let gone = hops.iter().flatten().filter(|hop| hop.is_none()).count() as u64;
    for (table, wanted) in [(&hops, count - gone), (&whole, count)] {
        fs::write(&file, config(&prefixes, table)).unwrap();
        assert!(common::may(&format!("birdc -s {socket} configure")));
        arrive(&fibd, own + wanted);
        assert!(fibd.audit() >= wanted);
    }
    // A port goes down, and with it a quarter of all, of which the kernel says nothing; then it is back.
    net.ip("link set sw0 down");
    let end = Instant::now() + PATIENCE;
    loop {
        let there = fibd.status()["prefixes"].as_u64().unwrap();
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

/// What a peer of FRR has to say by BGP: each route with a next hop of its own.
fn peer(prefixes: &[Vec<String>; 2], hops: &[Vec<Option<u8>>; 2]) -> String {
    let mut text = "router id 10.0.0.7;\nprotocol device { scan time 60; }\n\
        protocol bgp frr { local 10.0.0.7 as 65000; neighbor 10.0.0.1 as 65000;\n\
        ipv4 { export all; import none; next hop keep; };\n\
        ipv6 { export all; import none; next hop keep; }; }\n"
        .to_owned();
    for (six, family) in [(false, "ipv4"), (true, "ipv6")] {
        let at = usize::from(six);
        writeln!(text, "protocol static {{ {family};").unwrap();
        for (prefix, hop) in prefixes[at].iter().zip(&hops[at]) {
            let gateway = gateway(hop.expect("none is withdrawn"), six);
            writeln!(
                text,
                "route {prefix} blackhole {{ bgp_next_hop = {gateway}; }};"
            )
            .unwrap();
        }
        text += "}\n";
    }
    text
}

fn frr(by_fpm: bool) {
    if let Some(why) = missing(&[BIRD, ZEBRA, BGPD, "/usr/bin/vtysh"]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new(if by_fpm { "allf" } else { "allk" }, PORTS);
    let fibd = net.fibd(if by_fpm { "--fpm" } else { "" });
    let mut random = random();
    let prefixes = prefixes();
    let hops = [0, 1].map(|at: usize| {
        let any = |_: &String| Some(random.random_range(0..2 * PORTS));
        prefixes[at].iter().map(any).collect::<Vec<_>>()
    });
    let own = fibd.status()["prefixes"].as_u64().unwrap();
    let count = (prefixes[0].len() + prefixes[1].len()) as u64;
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
    net.vtysh(
        "router bgp 65000\nbgp router-id 10.0.0.1\nneighbor 10.0.0.7 remote-as 65000\n\
        address-family ipv6 unicast\nneighbor 10.0.0.7 activate\nexit-address-family\n",
    );
    let (file, socket) = (net.path("peer.conf"), net.path("peer.ctl"));
    fs::write(&file, peer(&prefixes, &hops)).unwrap();
    let (before, _) = used(&fibd);
    let begun = Instant::now();
    let mut command = std::process::Command::new("ip");
    command
        .args(["netns", "exec", &net.others, BIRD])
        .args(["-f", "-c", &file, "-s", &socket])
        .stderr(Stdio::null());
    let _bird = Running(command.spawn().unwrap());
    arrive(&fibd, own + count);
    let (time, peak) = used(&fibd);
    println!(
        "{count} routes by FRR{}: {:.0} a second of fibd's processor time, {:.0} a second in all, {} bytes a route at most",
        if by_fpm { " and FPM" } else { "" },
        count as f64 / (time - before),
        count as f64 / begun.elapsed().as_secs_f64(),
        peak / count
    );
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
