// SPDX-License-Identifier: Apache-2.0
//! fibd behind unmodified routing daemons: BIRD 2 by the kernel, FRR by the kernel and by FPM.
//!
//!     cargo test -p fibd --test daemons -- --ignored
//!
//! Needs root, network namespaces, and the Debian packages bird2 and frr.
#![cfg(target_os = "linux")]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;

use common::{Fibd, Net, Running, STATICD, ZEBRA, eventually, missing, random};
use rand::RngExt;

const BIRD: &str = "/usr/sbin/bird";

/// Random prefixes of both families, each with one of the neighbours.
fn table(seed: u64, v4: u32, v6: u32, change: u32) -> Vec<(String, String)> {
    let table = fib::synth::Table::synthetic(seed, v4, v6);
    let neighbour = |number: u32, prefix: &dyn std::fmt::Display, six: bool| {
        let (port, host) = (number % 2, 7 + number / 2 % 2);
        let gateway = match six {
            false => format!("10.0.{port}.{host}"),
            true => format!("2001:db8:{port}::{host}"),
        };
        (prefix.to_string(), gateway)
    };
    // BIRD takes none for "this network" and the loopback network.
    let refused = |prefix: &fib::Prefix4| matches!(prefix.addr() >> 24, 0 | 127);
    let four = table.v4.iter().filter(|prefix| !refused(prefix));
    let four = four.zip(change..);
    let four = four.map(|(prefix, number)| neighbour(number, prefix, false));
    // What the ports have of their own is not the daemons' to say.
    let own = |prefix: &fib::Prefix6| prefix.addr() >> 96 != 0x2001_0db8;
    let six = table.v6.iter().filter(|prefix| own(prefix)).zip(change..);
    four.chain(six.map(|(prefix, number)| neighbour(number, prefix, true)))
        .collect()
}

fn bird_config(routes: &[(String, String)]) -> String {
    let mut text = "router id 10.0.0.1;\nprotocol device { scan time 5; }\n\
        protocol kernel k4 { ipv4 { export all; import none; }; }\n\
        protocol kernel k6 { ipv6 { export all; import none; }; }\n"
        .to_owned();
    for (name, family, six) in [("s4", "ipv4", false), ("s6", "ipv6", true)] {
        writeln!(text, "protocol static {name} {{ {family};").unwrap();
        for (prefix, gateway) in routes
            .iter()
            .filter(|(prefix, _)| prefix.contains(':') == six)
        {
            writeln!(text, "route {prefix} via {gateway};").unwrap();
        }
        text += "}\n";
    }
    text
}

/// How many routes of the tables are not the ports' own.
fn routes(fibd: &Fibd) -> u64 {
    fibd.status()["prefixes"].as_u64().unwrap()
}

#[test]
#[ignore = "needs root, network namespaces and BIRD"]
fn bird_fills_the_switch_and_changes_it() {
    if let Some(why) = missing(&[BIRD]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new("bird", 2);
    let fibd = net.fibd("");
    let own = routes(&fibd);
    let seed = random().random();
    let (config, socket) = (net.path("bird.conf"), net.path("bird.ctl"));
    let all = table(seed, 4000, 1000, 0);
    fs::write(&config, bird_config(&all)).unwrap();
    let mut command = net.within(BIRD);
    command
        .args(["-f", "-c", &config, "-s", &socket])
        .stderr(Stdio::null());
    let mut bird = Running(command.spawn().unwrap());
    let arrived = own + all.len() as u64;
    eventually("BIRD's routes are in the tables", || {
        routes(&fibd) == arrived
    });
    assert!(fibd.audit() >= arrived);
    assert!(fibd.counter("words") > arrived / 2);

    // Other next hops for all, fewer prefixes, then all again.
    for (count, change) in [(4000, 1), (1000, 1), (4000, 2)] {
        let all = table(seed, count, count / 4, change);
        fs::write(&config, bird_config(&all)).unwrap();
        assert!(common::may(&format!("birdc -s {socket} configure")));
        let arrived = own + all.len() as u64;
        eventually("BIRD's routes are changed", || routes(&fibd) == arrived);
        fibd.audit();
    }
    // BIRD dies; what it has left in the kernel stays, here as there.
    bird.0.kill().unwrap();
    bird.0.wait().unwrap();
    fibd.audit();
    assert_eq!(fibd.counter("resyncs"), 1);
}

fn frr_routes(routes: &[(String, String)], no: bool) -> String {
    let mut text = String::new();
    for (prefix, gateway) in routes {
        let family = if prefix.contains(':') { "ipv6" } else { "ip" };
        let no = if no { "no " } else { "" };
        writeln!(text, "{no}{family} route {prefix} {gateway}").unwrap();
    }
    text
}

fn frr(by_fpm: bool) {
    if let Some(why) = missing(&[ZEBRA, STATICD, "/usr/bin/vtysh"]) {
        skip::skip!("{why}");
        return;
    }
    let net = Net::new(if by_fpm { "fpm" } else { "frr" }, 2);
    let options = if by_fpm { "--fpm --fpm-hold 5" } else { "" };
    let mut fibd = net.fibd(options);
    let own = routes(&fibd);
    let modules: &[&str] = if by_fpm {
        &["-M", "dplane_fpm_nl"]
    } else {
        &[]
    };
    let _frr = net.frr(modules, STATICD, &[]);
    if by_fpm {
        // FRR 8.4 does not connect until it is told to.
        net.vtysh("fpm address 127.0.0.1\n");
        eventually("zebra connects", || fibd.status()["fpm"] == true);
    }
    let seed = random().random();
    let all = table(seed, 2000, 500, 0);
    net.vtysh(&frr_routes(&all, false));
    let arrived = own + all.len() as u64;
    eventually("FRR's routes are in the tables", || {
        routes(&fibd) == arrived
    });
    assert!(fibd.audit() >= arrived);
    assert!(fibd.status()["objects"].as_u64().unwrap() > 0);
    if by_fpm {
        // FRR 8.4 throws away what is handed back; that it keeps sending is what can be seen.
        assert!(fibd.counter("fpm_offloaded") >= all.len() as u64);
    }
    // Fewer, and with another next hop for some: FRR adds one, so that there are two.
    net.vtysh(&frr_routes(&all[..600], true));
    eventually("fewer", || routes(&fibd) == arrived - 600);
    let others = table(seed, 2000, 500, 1);
    net.vtysh(&frr_routes(&others[700..900], false));
    eventually("two next hops", || fibd.counter("multipath") > 0);
    fibd.audit();
    // The carrier of one goes, and with it what the kernel does not speak of.
    common::run(&format!("ip -n {} link set h0 down", net.others));
    eventually("FRR and the kernel agree", || {
        fibd.ask("audit --random 10 --ask 10").0
    });
    common::run(&format!("ip -n {} link set h0 up", net.others));
    eventually("all is back", || routes(&fibd) == arrived - 600);
    let mut report = serde_json::Value::Null;
    eventually("and the same", || {
        let (good, now) = fibd.ask("audit --random 10 --ask 10");
        if report != now {
            println!("{now:#}");
            report = now;
        }
        good
    });
    if by_fpm {
        // A new fibd hears everything anew.
        fibd.child.kill().unwrap();
        fibd.child.wait().unwrap();
        let fibd = net.fibd(options);
        eventually("zebra comes back", || routes(&fibd) == arrived - 600);
        eventually("no difference", || fibd.ask("audit --random 10 --ask 10").0);
        fibd.audit();
    }
}

#[test]
#[ignore = "needs root, network namespaces and FRR"]
fn frr_fills_the_switch_by_the_kernel() {
    frr(false);
}

#[test]
#[ignore = "needs root, network namespaces and FRR"]
fn frr_fills_the_switch_by_fpm() {
    frr(true);
}
