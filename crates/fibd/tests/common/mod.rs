// SPDX-License-Identifier: Apache-2.0
//! Network namespaces with fibd in one of them.
#![allow(dead_code)]

pub mod checking;
pub mod full;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const PATIENCE: Duration = Duration::from_secs(90);

pub fn seed() -> u64 {
    let seed = std::env::var("IPNUMA_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("IPNUMA_SEED={seed}");
    seed
}

pub fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed())
}

/// So many; more with IPNUMA_LONG=1.
pub fn rounds(count: u32) -> u32 {
    let long = std::env::var_os(skip::LONG).is_some_and(|value| value == "1");
    count * if long { 10 } else { 1 }
}

fn output(command: &str) -> std::process::Output {
    let words: Vec<_> = command.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    output.unwrap_or_else(|error| panic!("{command}: {error}"))
}

pub fn run(command: &str) -> String {
    let output = output(command);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// What may fail.
pub fn may(command: &str) -> bool {
    output(command).status.success()
}

/// Waits for something, whatever the machine is busy with.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// A program that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub const ZEBRA: &str = "/usr/lib/frr/zebra";
pub const STATICD: &str = "/usr/lib/frr/staticd";
pub const BGPD: &str = "/usr/lib/frr/bgpd";

impl Net {
    /// Starts FRR in the router: zebra with these options, and one other daemon of it.
    pub fn frr(&self, options: &[&str], other: &str, other_options: &[&str]) -> Vec<Running> {
        let directory = self.path("frr");
        std::fs::create_dir_all(&directory).unwrap();
        let whole = self.directory.path().display();
        run(&format!("chown -R frr:frr {whole}"));
        run(&format!("chmod -R 777 {whole}"));
        let start = |program: &str, options: &[&str], socket: &str| {
            let name = program.rsplit('/').next().unwrap();
            let config = format!("{directory}/{name}.conf");
            std::fs::write(&config, "").unwrap();
            let pid = format!("{directory}/{name}.pid");
            let zserv = format!("{directory}/zserv");
            let mut command = self.within(program);
            command
                .args(["-f", &config, "-i", &pid, "-z", &zserv])
                .args(["--vty_socket", &directory])
                .args(options)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child = Running(command.spawn().unwrap());
            let socket = format!("{directory}/{socket}");
            eventually(&format!("{name} listens"), || {
                std::fs::exists(&socket).unwrap()
            });
            child
        };
        let name = other.rsplit('/').next().unwrap();
        vec![
            start(ZEBRA, options, "zserv"),
            start(other, other_options, &format!("{name}.vty")),
        ]
    }

    /// Has FRR's shell read commands.
    pub fn vtysh(&self, lines: &str) {
        let file = self.path("commands");
        std::fs::write(&file, lines).unwrap();
        let directory = self.path("frr");
        let output = Command::new("vtysh")
            .args(["--vty_socket", &directory, "-f", &file])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    }
}

/// Why this machine cannot run the tests, if it cannot.
pub fn missing(programs: &[&str]) -> Option<String> {
    // Tests run side by side, and would find each other's namespace.
    static NAMESPACES: OnceLock<Option<String>> = OnceLock::new();
    if let Some(why) = NAMESPACES.get_or_init(no_namespaces) {
        return Some(why.clone());
    }
    let absent = programs
        .iter()
        .find(|program| !PathBuf::from(program).exists());
    absent.map(|program| format!("there is no {program}"))
}

/// Why there are no network namespaces here, if there are none.
fn no_namespaces() -> Option<String> {
    let name = format!("fibd-try-{}", std::process::id());
    for what in ["add", "del"] {
        let tried = Command::new("ip").args(["netns", what, &name]).output();
        match tried {
            Err(error) => return Some(format!("there is no ip of iproute2: {error}")),
            Ok(output) if !output.status.success() => {
                let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Some(format!("no network namespaces here: {error}"));
            }
            Ok(_) => {}
        }
    }
    None
}

/// Why the kernel may refuse a random change; what ip itself does not understand is none of it.
const REFUSALS: [&str; 23] = [
    "Carrier for nexthop device is down",
    "Nexthops can not be used with source routing",
    "RTNETLINK answers: File exists",
    "RTNETLINK answers: No such process",
    "RTNETLINK answers: No such file or directory",
    "RTNETLINK answers: No such device",
    "RTNETLINK answers: No route to host",
    "RTNETLINK answers: Network is down",
    "RTNETLINK answers: Network is unreachable",
    // An address of IPv6 at a device that has none.
    "RTNETLINK answers: Invalid argument",
    "IPv6 is disabled on this device",
    "IPv6 is disabled on nexthop device",
    "Nexthop id does not exist",
    "Invalid nexthop id",
    "Nexthop has invalid gateway",
    "Nexthop device is not up",
    "Device for nexthop is not up",
    "Gateway can not be a local address",
    "Invalid prefsrc address",
    "Invalid scope value",
    "Address not found",
    "ddress already assigned",
    "address not found",
];

/// Of each kind of command how many were carried out, and how many the kernel refused.
#[derive(Debug, Default)]
pub struct Carried(pub BTreeMap<String, (u32, u32)>);

impl Carried {
    /// Of the kinds of random changes there is none that the kernel never took.
    #[track_caller]
    pub fn has_all(&self) {
        let mut kinds = vec!["neigh add 4", "neigh replace 4", "neigh del 4"];
        kinds.extend(["nexthop replace 4", "nexthop replace 6"]);
        kinds.extend(["nexthop del 4", "nexthop del 6"]);
        kinds.extend(["route add 4", "route append 4", "route prepend 4"]);
        kinds.extend(["route add 6", "route append 6", "route prepend 6"]);
        kinds.extend(["route replace 4", "route replace 6"]);
        kinds.extend(["route del 4", "route del 6"]);
        for kind in kinds {
            let done = self.0.get(kind).map_or(0, |counts| counts.0);
            assert_ne!(done, 0, "`ip {kind}`: {self:?}");
        }
    }
}

/// Object, verb and family of a command of ip.
fn kind(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let six = match words[..] {
        ["nexthop", _, "id", id, ..] => id.len() > 2,
        _ => line.contains("2001:") || line.contains("fe80:"),
    };
    format!("{} {} {}", words[0], words[1], if six { 6 } else { 4 })
}

/// A router's namespace with ports `sw0` and up, each with a cable to a namespace of its neighbours.
pub struct Net {
    pub router: String,
    pub others: String,
    pub ports: u8,
    pub directory: tempfile::TempDir,
    pub carried: RefCell<Carried>,
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in [&self.router, &self.others] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

impl Net {
    /// Port N has 10.0.N.1/24 and 2001:db8:N::1/64; at its other end are .7 and .8, ::7 and ::8.
    pub fn new(name: &str, ports: u8) -> Self {
        let id = std::process::id();
        let net = Self {
            router: format!("fibd-{name}-r-{id}"),
            others: format!("fibd-{name}-o-{id}"),
            ports,
            directory: tempfile::tempdir().unwrap(),
            carried: RefCell::default(),
        };
        let (router, others) = (&net.router, &net.others);
        run(&format!("ip netns add {router}"));
        run(&format!("ip netns add {others}"));
        net.ip("link set lo up");
        net.forward(true);
        for port in 0..ports {
            let peer = format!("peer name h{port} netns {others}");
            run(&format!(
                "ip link add sw{port} netns {router} type veth {peer}"
            ));
            run(&format!("ip -n {others} link set h{port} up"));
            for host in [7, 8] {
                let at = format!("dev h{port}");
                run(&format!(
                    "ip -n {others} addr add 10.0.{port}.{host}/24 {at}"
                ));
                let six = format!("2001:db8:{port}::{host}/64");
                run(&format!("ip -n {others} addr add {six} {at} nodad"));
            }
            net.port_up(port);
        }
        net
    }

    /// Makes it a router, or a host.
    pub fn forward(&self, does: bool) {
        let does = u8::from(does);
        for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let setting = format!("{setting}={does}");
            let command = self.within("sysctl").args(["-qw", &setting]).status();
            assert!(command.unwrap().success(), "{setting}");
        }
    }

    /// Up and with its addresses, whatever it has of them.
    pub fn port_up(&self, port: u8) {
        self.ip(&format!("link set sw{port} up"));
        let at = format!("dev sw{port}");
        self.ip(&format!("addr replace 10.0.{port}.1/24 {at}"));
        self.ip(&format!("addr replace 2001:db8:{port}::1/64 {at} nodad"));
    }

    pub fn ip(&self, what: &str) -> String {
        run(&format!("ip -n {} {what}", self.router))
    }

    pub fn may_ip(&self, what: &str) -> bool {
        may(&format!("ip -n {} {what}", self.router))
    }

    /// Many at once; those that the kernel refuses for a reason that random ones give it are passed over.
    pub fn batch(&self, lines: &str) {
        let mut carried = self.carried.borrow_mut();
        let mut lines: Vec<&str> = lines.lines().collect();
        while !lines.is_empty() {
            let tried = self.batch_until_it_ends(&lines, &mut carried);
            lines.drain(..tried);
        }
    }

    /// Returns how many lines ip has come to: when a neighbour is refused it ends without a word, whatever it was told of
    /// going on.
    fn batch_until_it_ends(&self, lines: &[&str], carried: &mut Carried) -> usize {
        const MARK: &str = "link show dev lo";
        let file = self.path("batch");
        let marked = lines.iter().map(|line| format!("{line}\n{MARK}\n"));
        std::fs::write(&file, marked.collect::<String>()).unwrap();
        let output = Command::new("ip")
            .args(["-n", &self.router, "-o", "-force", "-batch", &file])
            .output()
            .unwrap();
        let marks = String::from_utf8(output.stdout).unwrap();
        let passed = marks.lines().filter(|line| line.contains(": lo:")).count();
        let tried = lines.len().min(passed + 1);
        let mut refused = HashMap::new();
        let text = String::from_utf8_lossy(&output.stderr);
        let mut why = "";
        for said in text.lines() {
            match said.strip_prefix(&format!("Command failed {file}:")) {
                Some(number) => {
                    let number: usize = number.parse().unwrap();
                    refused.insert((number - 1) / 2, std::mem::take(&mut why));
                }
                None => why = said,
            }
        }
        if passed < lines.len() {
            refused.insert(passed, why);
        }
        for (at, line) in lines[..tried].iter().enumerate() {
            let place = carried.0.entry(kind(line)).or_default();
            match refused.get(&at) {
                None => place.0 += 1,
                Some(why) if REFUSALS.iter().any(|it| why.contains(it)) => place.1 += 1,
                Some(why) => panic!("`ip {line}` is refused: {why}"),
            }
        }
        tried
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    pub fn within(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.router, program]);
        command
    }

    /// Starts fibd and waits until it follows the kernel.
    pub fn fibd(&self, options: &str) -> Fibd {
        let control = self.path("fibd.sock");
        let mut command = self.within(env!("CARGO_BIN_EXE_fibd"));
        command.args(["run", "--control", &control]);
        for port in 0..self.ports {
            command.args(["--port", &format!("sw{port}")]);
        }
        command.args(options.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "fibd follows the kernel\n");
        Fibd { child, control }
    }
}

/// A running fibd.
pub struct Fibd {
    pub child: Child,
    pub control: String,
}

impl Drop for Fibd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Fibd {
    pub fn ask(&self, what: &str) -> (bool, serde_json::Value) {
        let output = Command::new(env!("CARGO_BIN_EXE_fibd"))
            .args(what.split_whitespace())
            .args(["--json", "--control", &self.control])
            .output()
            .unwrap();
        let mut whole: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
                let text = String::from_utf8_lossy(&output.stderr);
                panic!("{what}: {error}: {text}")
            });
        (output.status.success(), whole["result"].take())
    }

    pub fn resync(&self) {
        let fibd = env!("CARGO_BIN_EXE_fibd");
        run(&format!("{fibd} resync --control {}", self.control));
    }

    pub fn status(&self) -> serde_json::Value {
        self.ask("status").1
    }

    pub fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        let all = status["counters"].as_array().unwrap();
        let found = all.iter().find(|pair| pair[0] == name);
        found.unwrap_or_else(|| panic!("no counter {name}"))[1]
            .as_u64()
            .unwrap()
    }

    /// No difference; returns how many prefixes were compared.
    #[track_caller]
    pub fn audit(&self) -> u64 {
        let seed = seed();
        let (good, report) = self.ask(&format!("audit --random 20000 --ask 500 --seed {seed}"));
        assert!(good, "{report:#}");
        assert_eq!(report["differences"], 0);
        assert_ne!(report["words"], 0);
        report["prefixes"].as_u64().unwrap()
    }
}

/// Random changes of routes, objects and neighbours, a command of `ip -batch` each.
pub struct Changes {
    pub random: ChaCha8Rng,
    pub ports: u8,
}

impl Changes {
    fn gateway(&mut self, six: bool) -> String {
        let port = self.random.random_range(0..self.ports);
        let host = self.random.random_range(7..10);
        match six {
            false => format!("via 10.0.{port}.{host}"),
            true => format!("via 2001:db8:{port}::{host}"),
        }
    }

    /// Few different ones, so that they meet.
    fn prefix(&mut self, six: bool) -> String {
        let random = &mut self.random;
        if six {
            let len = [32, 40, 44, 48, 56, 64, 112, 128][random.random_range(0..8)];
            let bits = 0x2001_0db8_u128 << 96 | u128::from(random.random_range(0..4_u32)) << 90;
            let bits = bits | 0xBB << 88 | u128::from(random.random_range(0..4_u32)) << 64;
            let bits = bits & u128::MAX << (128 - len);
            format!("{}/{len}", std::net::Ipv6Addr::from(bits))
        } else {
            let len = random.random_range(12..=32_u32);
            let bits = 0xC000_0000_u32 | random.random_range(0..8_u32) << 20;
            let bits = bits | random.random_range(0..8_u32) << 6 | random.random_range(0..4_u32);
            format!(
                "{}/{len}",
                std::net::Ipv4Addr::from(bits & u32::MAX << (32 - len))
            )
        }
    }

    /// A route command.
    fn route(&mut self) -> String {
        let six = self.random.random_bool(0.4);
        let prefix = self.prefix(six);
        let metric = [0, 0, 10, 20][self.random.random_range(0..4)];
        let metric = if metric == 0 {
            String::new()
        } else {
            format!(" metric {metric}")
        };
        let verb = ["add", "add", "append", "replace", "prepend", "del", "del"]
            [self.random.random_range(0..7)];
        if verb == "del" && self.random.random_bool(0.6) {
            return format!("route del {prefix}{metric}");
        }
        let how = match self.random.random_range(0..12) {
            0 => return format!("route {verb} blackhole {prefix}{metric}"),
            1 => return format!("route {verb} unreachable {prefix}{metric}"),
            2 => return format!("route {verb} prohibit {prefix}{metric}"),
            3 => format!("dev sw{}", self.random.random_range(0..self.ports)),
            4 | 5 if !self.random.random_bool(0.3) => {
                let mut how = String::new();
                for _ in 0..self.random.random_range(2..4) {
                    let weight = self.random.random_range(1..5);
                    let gateway = self.gateway(six);
                    write!(how, " nexthop {gateway} weight {weight}").unwrap();
                }
                how
            }
            6 if !six => {
                let gateway = self.gateway(false);
                format!(
                    "{gateway} src 10.0.{}.1",
                    self.random.random_range(0..self.ports)
                )
            }
            7 | 8 => {
                let base = if six { 100 } else { 0 };
                format!("nhid {}", base + self.random.random_range(1..9))
            }
            _ => self.gateway(six),
        };
        let pref = match six && verb != "del" && self.random.random_bool(0.3) {
            true => ["low", "medium", "high"][self.random.random_range(0..3)],
            false => "",
        };
        let pref = match pref {
            "" => String::new(),
            pref => format!(" pref {pref}"),
        };
        let mtu = match verb != "del" && self.random.random_bool(0.1) {
            true => [" mtu 1300", " mtu lock 1400", " mtu 9000"][self.random.random_range(0..3)],
            false => "",
        };
        let from = match six && self.random.random_bool(0.05) {
            true => {
                [" from 2001:db8:1::/64", " from 2001:db8::/32"][self.random.random_range(0..2)]
            }
            false => "",
        };
        // What is said of the route stands before its next hops.
        format!("route {verb} {prefix}{from}{metric}{pref}{mtu} {how}")
    }

    /// An object command: 1 to 6 are next hops, 7 and 8 groups; 100 more for IPv6.
    fn object(&mut self) -> String {
        let six = self.random.random_bool(0.4);
        let base = if six { 100 } else { 0 };
        let id = self.random.random_range(1..9);
        if self.random.random_bool(0.25) {
            return format!("nexthop del id {}", base + id);
        }
        if id < 7 {
            if id == 6 && !six && self.random.random_bool(0.5) {
                return format!("nexthop replace id {} blackhole", base + id);
            }
            let port = self.random.random_range(0..self.ports);
            let host = self.random.random_range(7..10);
            let gateway = match six {
                false => format!("10.0.{port}.{host}"),
                true => format!("2001:db8:{port}::{host}"),
            };
            return format!(
                "nexthop replace id {} via {gateway} dev sw{port}",
                base + id
            );
        }
        let (one, two) = (
            self.random.random_range(1..4),
            self.random.random_range(4..6),
        );
        let weight = self.random.random_range(1..5);
        let (one, two) = (base + one, base + two);
        format!(
            "nexthop replace id {} group {one},{weight}/{two}",
            base + id
        )
    }

    pub fn some(&mut self, count: u32) -> String {
        let mut lines = String::new();
        for _ in 0..count {
            let line = match self.random.random_range(0..20) {
                0..3 => self.object(),
                3 => {
                    let port = self.random.random_range(0..self.ports);
                    let host = self.random.random_range(7..12);
                    let verb = ["add", "replace", "del"][self.random.random_range(0..3)];
                    let mac = self.random.random_range(1..250);
                    format!(
                        "neigh {verb} 10.0.{port}.{host} lladdr 02:00:00:00:00:{mac:02x} dev sw{port}"
                    )
                }
                _ => self.route(),
            };
            lines += &line;
            lines += "\n";
        }
        lines
    }
}
