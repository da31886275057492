// SPDX-License-Identifier: Apache-2.0
//! What may go wrong while the switch has the Internet's table: carriers and ports that go and come back, messages that the
//! kernel throws away, connections that are reset, SIGKILL of the routing daemon and of fibd. Each ends with an audit.
//!
//!     crates/fib/tools/fetch-routes
//!     cargo test --release -p fibd --test faults -- --ignored --nocapture
//!
//! `IPNUMA_PART=20` takes one of twenty prefixes, to try the tests themselves. Needs root, network namespaces, and the
//! Debian packages bird2 and frr.
#![cfg(target_os = "linux")]

mod common;

use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::full::{BIRD, Bird, Full, PATIENCE, PORTS, arrive, own, there};
use common::{BGPD, Fibd, Net, Running, ZEBRA, missing, random, run};

/// The port that goes away; traffic comes by the last one.
const LOST: u8 = 1;
/// When no route has changed for so long a daemon has said what it had to say; of neighbours there is always something.
const QUIET: Duration = Duration::from_secs(8);

/// One table at a time: each takes gigabytes, and all processors.
static TURN: Mutex<()> = Mutex::new(());

/// Packets of the router's neighbours, by its last port to all of the Internet, until dropped.
struct Traffic<'a> {
    net: &'a Net,
    _pings: Vec<Running>,
    before: u64,
}

impl<'a> Traffic<'a> {
    fn start(net: &'a Net) -> Self {
        let port = PORTS - 1;
        for (family, gateway) in [
            ("-4", format!("10.0.{port}.1")),
            ("-6", format!("2001:db8:{port}::1")),
        ] {
            let route = format!("route replace default via {gateway} dev h{port}");
            common::run(&format!("ip -n {} {family} {route}", net.others));
        }
        let pings = (0..8).map(|at| {
            let to = match at % 2 {
                0 => format!("{}.{at}.8.8", 8 + 23 * at),
                _ => format!("2a0{at}:400:{at}::{at}"),
            };
            let mut ping = std::process::Command::new("ip");
            ping.args(["netns", "exec", &net.others, "ping", "-f", "-q", &to])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            Running(ping.spawn().unwrap())
        });
        let mut traffic = Self {
            net,
            _pings: pings.collect(),
            before: 0,
        };
        traffic.before = traffic.sent();
        traffic
    }

    /// Packets that left by the ports.
    fn sent(&self) -> u64 {
        let links = self.net.ip("-j -s link show");
        let links: serde_json::Value = serde_json::from_str(&links).unwrap();
        let ports = links.as_array().unwrap().iter();
        let ports = ports.filter(|link| link["ifname"].as_str().unwrap().starts_with("sw"));
        let sent = ports.map(|link| link["stats64"]["tx"]["packets"].as_u64().unwrap());
        sent.sum()
    }

    /// It flowed since this was last asked.
    fn flows(&mut self, what: &str) {
        let sent = self.sent();
        println!("  {} packets were forwarded", sent - self.before);
        assert!(sent > self.before + 10, "nothing is forwarded: {what}");
        self.before = sent;
    }
}

/// Waits until no more routes are told.
fn quiet(fibd: &Fibd) {
    let said = || fibd.counter("route_changes") + fibd.counter("fpm_messages");
    let end = Instant::now() + PATIENCE;
    let (mut before, mut since) = (said(), Instant::now());
    while since.elapsed() < QUIET {
        assert!(Instant::now() < end, "changes without end");
        sleep(Duration::from_millis(500));
        let now = said();
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}

/// A fault, all that follows from it, and an audit.
struct Faults<'a> {
    net: &'a Net,
    traffic: Traffic<'a>,
    begun: Instant,
}

impl<'a> Faults<'a> {
    fn new(net: &'a Net) -> Self {
        Self {
            net,
            traffic: Traffic::start(net),
            begun: Instant::now(),
        }
    }

    fn tell(&self, what: &str) {
        println!("{:4} s: {what}", self.begun.elapsed().as_secs());
    }

    /// After a fault: so many routes must have changed in the tables at least, and no difference is left.
    fn audit(&mut self, fibd: &Fibd, what: &str, before: u64, least: u64) {
        let changed = || fibd.counter("route_changes") - before;
        let end = Instant::now() + PATIENCE;
        while changed() < least {
            assert!(
                Instant::now() < end,
                "{what}: only {} routes changed",
                changed()
            );
            sleep(Duration::from_millis(500));
        }
        quiet(fibd);
        self.tell(&format!("{what}: {} routes changed", changed()));
        let compared = fibd.audit();
        assert!(compared > 0 && fibd.counter("spilled") == 0, "{what}");
        self.traffic.flows(what);
    }

    /// A neighbour's end of a cable is pulled and plugged in, then the port is put down and up.
    fn port(&mut self, fibd: &Fibd, own: u64, count: u64) {
        let least = count / 16;
        let other = format!("ip -n {} link set h{LOST}", self.net.others);
        for (what, goes) in [("carrier lost", true), ("port down", false)] {
            let before = fibd.counter("route_changes");
            match goes {
                true => common::run(&format!("{other} down")),
                false => self.net.ip(&format!("link set sw{LOST} down")),
            };
            self.audit(fibd, what, before, least);
            let before = fibd.counter("route_changes");
            common::run(&format!("{other} up"));
            self.net.port_up(LOST);
            arrive(fibd, own + count);
            self.audit(fibd, &format!("{what}, and back"), before, least);
            assert_eq!(there(fibd), own + count);
        }
    }
}

#[test]
#[ignore = "the Internet's table by BIRD, and what goes wrong: minutes, and a gigabyte"]
fn faults_leave_no_difference_in_birds_table() {
    if let Some(why) = missing(&[BIRD]) {
        skip::skip!("{why}");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let net = Net::new("faultb", PORTS);
    let mut random = random();
    let table = Full::new(&mut random);
    let count = table.count();
    let fibd = net.fibd("");
    let own = own(&fibd);
    let bird = Bird::router(&net, &table);
    arrive(&fibd, own + count);
    let mut faults = Faults::new(&net);
    faults.audit(&fibd, "all are there", 0, count / 2);
    faults.port(&fibd, own, count);

    // BIRD is killed; what it has given to the kernel stays. Another comes with ten thousand differences.
    bird.kill();
    faults.audit(&fibd, "BIRD killed", fibd.counter("route_changes"), 0);
    assert_eq!(there(&fibd), own + count);
    let other = table.flapped(&mut random, 10_000);
    let before = fibd.counter("route_changes");
    let bird = Bird::router(&net, &other);
    arrive(&fibd, own + other.count());
    faults.audit(&fibd, "BIRD back, with another table", before, 5000);

    // fibd is killed, and much happens until it is back.
    drop(fibd);
    bird.configure(&table);
    let fibd = net.fibd("");
    arrive(&fibd, own + count);
    faults.audit(&fibd, "fibd killed, and back", 0, count / 2);

    // A buffer for some hundred messages: the kernel throws most of the changes away.
    drop(fibd);
    let fibd = net.fibd("--buffer 65536");
    for table in [&other, &table] {
        let before = fibd.counter("overruns");
        // However fast it is: it stands until some are lost.
        let lost = thrown_away(&fibd);
        let pid = fibd.child.id();
        run(&format!("kill -STOP {pid}"));
        bird.configure(table);
        let begin = Instant::now();
        while thrown_away(&fibd) == lost {
            assert!(begin.elapsed() < PATIENCE, "there is room for all messages");
            sleep(Duration::from_millis(20));
        }
        run(&format!("kill -CONT {pid}"));
        arrive(&fibd, own + table.count());
        faults.audit(&fibd, "no room for messages", 0, count / 2);
        let overruns = fibd.counter("overruns") - before;
        println!("  {overruns} times");
        assert!(overruns > 0, "nobody has noticed that messages were lost");
    }
}

/// How many messages the kernel has thrown away that were for a fibd.
fn thrown_away(fibd: &Fibd) -> u64 {
    let process = format!("/proc/{}", fibd.child.id());
    let open = std::fs::read_dir(format!("{process}/fd")).unwrap();
    let open: Vec<String> = open
        .filter_map(|fd| {
            Some(
                std::fs::read_link(fd.ok()?.path())
                    .ok()?
                    .display()
                    .to_string(),
            )
        })
        .collect();
    let sockets = std::fs::read_to_string(format!("{process}/net/netlink")).unwrap();
    let words = sockets
        .lines()
        .skip(1)
        .map(|line| line.split_ascii_whitespace());
    words
        .filter_map(|mut words| {
            let (drops, inode) = (words.nth(8)?, words.next()?);
            let own = open.contains(&format!("socket:[{inode}]"));
            own.then(|| drops.parse::<u64>().ok())?
        })
        .sum()
}

fn start_frr(net: &Net, by_fpm: bool) -> Vec<Running> {
    // With a buffer of the usual length zebra loses what the kernel says of links while its table is installed.
    let buffer = ["-s", "536870912"];
    let modules = ["-M", "dplane_fpm_nl"];
    let options = [&buffer[..], if by_fpm { &modules } else { &[] }].concat();
    // Sockets of one that was killed would pass for those of the next.
    let _ = std::fs::remove_dir_all(net.path("frr"));
    let frr = net.frr(&options, BGPD, &[]);
    if by_fpm {
        net.vtysh("fpm address 127.0.0.1\n");
    }
    net.vtysh(
        "router bgp 65000\nbgp router-id 10.0.0.1\nneighbor 10.0.0.7 remote-as 65000\n\
        address-family ipv6 unicast\nneighbor 10.0.0.7 activate\nexit-address-family\n",
    );
    frr
}

/// How many routes bgpd has of its peer.
fn learned(net: &Net) -> u64 {
    let output = std::process::Command::new("vtysh")
        .args(["--vty_socket", &net.path("frr")])
        .args(["-c", "show bgp summary json"])
        .output()
        .unwrap();
    // As long as it starts it says nothing that could be read.
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let families = ["ipv4Unicast", "ipv6Unicast"].iter();
    let received = families.map(|family| &summary[family]["peers"]["10.0.0.7"]["pfxRcd"]);
    received.map(|count| count.as_u64().unwrap_or(0)).sum()
}

/// Has the kernel abort zebra's connection to fibd: both ends get a reset, whatever is under way.
fn reset(net: &Net) {
    let mut command = net.within("ss");
    let output = command
        .args(["-K", "-t", "-n", "dst", "127.0.0.1", "dport", "=", "2620"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(":2620"), "no connection was reset: {text}");
}

fn frr(by_fpm: bool) {
    if let Some(why) = missing(&[BIRD, ZEBRA, BGPD, "/usr/bin/vtysh"]) {
        skip::skip!("{why}");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let net = Net::new(if by_fpm { "faultm" } else { "faultk" }, PORTS);
    let table = Full::new(&mut random());
    let count = table.count();
    let options = if by_fpm { "--fpm" } else { "" };
    let fibd = net.fibd(options);
    let own = own(&fibd);
    let daemons = start_frr(&net, by_fpm);
    let _peer = Bird::peer(&net, &table);
    let mut faults = Faults::new(&net);
    if by_fpm {
        // In the middle of the table.
        common::eventually("some routes are there", || there(&fibd) > own + count / 10);
        reset(&net);
    }
    arrive(&fibd, own + count);
    faults.audit(&fibd, "all are there", 0, count / 2);
    if by_fpm {
        let connections = fibd.counter("fpm_connections");
        assert!(connections > 1, "zebra was not reset");
        for more in 1..3 {
            reset(&net);
            assert_eq!(there(&fibd), own + count, "routes stay");
            common::eventually("zebra comes back", || {
                fibd.counter("fpm_connections") == connections + more
            });
            let before = fibd.counter("route_changes");
            faults.audit(&fibd, "FPM reset", before, 0);
            assert_eq!(
                fibd.counter("route_changes"),
                before,
                "routes stay as they were"
            );
        }
    }
    faults.port(&fibd, own, count);

    // zebra and bgpd are killed; what they have given to the kernel stays until the next zebra takes it out.
    drop(daemons);
    faults.audit(&fibd, "FRR killed", fibd.counter("route_changes"), 0);
    assert_eq!(there(&fibd), own + count);
    let before = fibd.counter("route_changes");
    let _daemons = start_frr(&net, by_fpm);
    // What it takes out of what the old one left, and when, is its own affair; it hears everything anew.
    let end = Instant::now() + PATIENCE;
    while learned(&net) != count {
        let (learned, wanted) = (learned(&net), count);
        assert!(Instant::now() < end, "bgpd has {learned} of {wanted}");
        sleep(Duration::from_secs(1));
    }
    quiet(&fibd);
    arrive(&fibd, own + count);
    faults.audit(&fibd, "FRR back", before, 0);

    // fibd is killed, and hears everything anew.
    drop(fibd);
    let fibd = net.fibd(options);
    arrive(&fibd, own + count);
    faults.audit(&fibd, "fibd killed, and back", 0, count / 2);
}

#[test]
#[ignore = "the Internet's table by BGP and FRR, and what goes wrong: many minutes, and gigabytes"]
fn faults_leave_no_difference_in_frrs_table_by_the_kernel() {
    frr(false);
}

#[test]
#[ignore = "the Internet's table by BGP, FRR and FPM, and what goes wrong: many minutes, and gigabytes"]
fn faults_leave_no_difference_in_frrs_table_by_fpm() {
    frr(true);
}
