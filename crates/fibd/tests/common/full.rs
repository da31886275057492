// SPDX-License-Identifier: Apache-2.0
//! The Internet's table, as BIRD gives it to the kernel or as a peer of FRR tells it by BGP.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Fibd, Net, Running};

pub const BIRD: &str = "/usr/sbin/bird";
const TABLE: &str = "../../.build/routes/bart-v0.30.0.txt";
pub const PORTS: u8 = 4;
/// A busy machine takes a multiple of what a quiet one does.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// One of so many prefixes, to try the tests themselves; all by default.
fn part() -> usize {
    let part = std::env::var("IPNUMA_PART").ok();
    part.map_or(1, |part| part.parse().expect("IPNUMA_PART is a number"))
}

/// Prefixes that BIRD gives to the kernel, by family.
fn prefixes() -> [Vec<String>; 2] {
    let text = fs::read_to_string(TABLE).expect("run crates/fib/tools/fetch-routes first");
    let mut found = [Vec::new(), Vec::new()];
    for line in text.lines().step_by(part()) {
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

/// The table: a next hop for each prefix, or none while it is withdrawn.
#[derive(Clone)]
pub struct Full {
    prefixes: [Vec<String>; 2],
    hops: [Vec<Option<u8>>; 2],
}

impl Full {
    /// Each prefix by one of the sixteen neighbours.
    pub fn new(random: &mut ChaCha8Rng) -> Self {
        let prefixes = prefixes();
        let hops = [0, 1].map(|at: usize| {
            let any = |_: &String| Some(random.random_range(0..2 * PORTS));
            prefixes[at].iter().map(any).collect::<Vec<_>>()
        });
        Self { prefixes, hops }
    }

    /// How many are not withdrawn.
    pub fn count(&self) -> u64 {
        let there = self.hops.iter().flatten().flatten();
        there.count() as u64
    }

    /// The same with so many routes withdrawn or by another next hop.
    pub fn flapped(&self, random: &mut ChaCha8Rng, count: usize) -> Self {
        let mut flapping: Vec<(usize, usize)> = (0..2)
            .flat_map(|at| (0..self.hops[at].len()).map(move |index| (at, index)))
            .collect();
        flapping.shuffle(random);
        let mut other = self.clone();
        for (at, index) in &flapping[..count] {
            other.hops[*at][*index] = random
                .random_bool(0.5)
                .then(|| random.random_range(0..2 * PORTS));
        }
        other
    }

    /// What BIRD is to give to the kernel.
    fn for_kernel(&self) -> String {
        let mut text = "router id 10.0.0.1;\nprotocol device { scan time 60; }\n".to_owned();
        for (six, family) in [(false, "ipv4"), (true, "ipv6")] {
            let at = usize::from(six);
            // A BIRD that comes after one that was killed finds the last of what that one left in its second scan.
            writeln!(
                text,
                "protocol kernel {{ scan time 120; {family} {{ export all; import none; }}; }}\n\
                protocol static {{ check link; {family};"
            )
            .unwrap();
            for (prefix, hop) in self.prefixes[at].iter().zip(&self.hops[at]) {
                if let Some(hop) = hop {
                    writeln!(text, "route {prefix} via {};", gateway(*hop, six)).unwrap();
                }
            }
            text += "}\n";
        }
        text
    }

    /// What a peer of FRR has to say by BGP: each route with a next hop of its own.
    fn for_peer(&self) -> String {
        let mut text = "router id 10.0.0.7;\nprotocol device { scan time 60; }\n\
            protocol bgp frr { local 10.0.0.7 as 65000; neighbor 10.0.0.1 as 65000;\n\
            connect delay time 1; connect retry time 2; error wait time 1, 2;\n\
            ipv4 { export all; import none; next hop keep; };\n\
            ipv6 { export all; import none; next hop keep; }; }\n"
            .to_owned();
        for (six, family) in [(false, "ipv4"), (true, "ipv6")] {
            let at = usize::from(six);
            writeln!(text, "protocol static {{ {family};").unwrap();
            for (prefix, hop) in self.prefixes[at].iter().zip(&self.hops[at]) {
                if let Some(hop) = hop {
                    let gateway = gateway(*hop, six);
                    writeln!(
                        text,
                        "route {prefix} blackhole {{ bgp_next_hop = {gateway}; }};"
                    )
                    .unwrap();
                }
            }
            text += "}\n";
        }
        text
    }
}

/// A BIRD, of which there may be one in the router and one at its neighbours.
pub struct Bird {
    running: Running,
    file: String,
    socket: String,
}

impl Bird {
    fn start(net: &Net, namespace: &str, name: &str, text: &str) -> Self {
        let (file, socket) = (
            net.path(&format!("{name}.conf")),
            net.path(&format!("{name}.ctl")),
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace, BIRD])
            .args(["-f", "-c", &file, "-s", &socket])
            .stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        Self {
            running,
            file,
            socket,
        }
    }

    /// In the router, with the table for its kernel.
    pub fn router(net: &Net, table: &Full) -> Self {
        Self::start(net, &net.router, "bird", &table.for_kernel())
    }

    /// At the router's neighbours, with the table for its FRR.
    pub fn peer(net: &Net, table: &Full) -> Self {
        Self::start(net, &net.others, "peer", &table.for_peer())
    }

    /// Has the router's take another table.
    pub fn configure(&self, table: &Full) {
        fs::write(&self.file, table.for_kernel()).unwrap();
        assert!(super::may(&format!("birdc -s {} configure", self.socket)));
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.running.0.kill().unwrap();
        self.running.0.wait().unwrap();
    }
}

/// Seconds of processor time that it took so far, and the most memory that it had, in bytes.
pub fn used(fibd: &Fibd) -> (f64, u64) {
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

/// Prefixes that it has.
pub fn there(fibd: &Fibd) -> u64 {
    fibd.status()["prefixes"].as_u64().unwrap()
}

/// How many prefixes the ports have of their own, once the kernel has found that nobody else has their addresses.
pub fn own(fibd: &Fibd) -> u64 {
    let mut before = (there(fibd), Instant::now());
    while before.1.elapsed() < Duration::from_secs(4) {
        std::thread::sleep(Duration::from_millis(100));
        let now = there(fibd);
        if now != before.0 {
            before = (now, Instant::now());
        }
    }
    before.0
}

/// Waits until so many prefixes are there.
#[track_caller]
pub fn arrive(fibd: &Fibd, wanted: u64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let there = there(fibd);
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
