// SPDX-License-Identifier: Apache-2.0
//! The model of the switch between two hosts of Linux, with Linux behind its host port:
//!
//!     cargo test -p control --test tap -- --ignored
//!
//! Needs root, /dev/net/tun, network namespaces, `ip` of iproute2 and python3. Nothing is measured:
//! time is the kernel's.
#![cfg(target_os = "linux")]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use control::HostFrame;
use control::tap::Taps;
use model::switch::{NextHop, Port, SwitchConfig, SwitchModel, Target, Verdict, fcs};

const PORTS: u8 = 2;

/// Sends one echo request and says what comes back: "reply" or "exceeded", and from whom.
const PING: &str = r#"
import os, socket, struct, sys
dst, hops = sys.argv[1], int(sys.argv[2])
six = ":" in dst
family, protocol = (socket.AF_INET6, 58) if six else (socket.AF_INET, 1)
s = socket.socket(family, socket.SOCK_RAW, protocol)
if six:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
s.settimeout(0.5)
body = struct.pack("!HH", os.getpid() & 0xFFFF, 1) + bytes(range(40))
def packet(kind):
    head = struct.pack("!BBH", kind, 0, 0)
    total = sum(struct.unpack("!%dH" % (len(head + body) // 2), head + body))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!BBH", kind, 0, 0 if six else ~total & 0xFFFF) + body
echo, reply, exceeded = (128, 129, 3) if six else (8, 0, 11)
for attempt in range(20):
    s.sendto(packet(echo), (dst, 0))
    try:
        while True:
            data, source = s.recvfrom(2000)
            icmp = data if six else data[20:]
            if icmp[0] == reply and icmp[4:] == body:
                sys.exit("reply " + source[0])
            if icmp[0] == exceeded:
                sys.exit("exceeded " + source[0])
    except TimeoutError:
        pass
sys.exit("nothing")
"#;

fn run(command: &str) -> String {
    let words: Vec<_> = command.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Why this machine cannot run the test, if it cannot.
fn missing() -> Option<String> {
    let name = format!("fibnic-try-{}", std::process::id());
    let ip = |what: &str| {
        let output = Command::new("ip").args(["netns", what, &name]).output();
        let output = output.map_err(|error| format!("there is no ip of iproute2: {error}"))?;
        let error = String::from_utf8_lossy(&output.stderr);
        let refused = || format!("no network namespaces here: {}", error.trim());
        output.status.success().then_some(()).ok_or_else(refused)
    };
    let python = Command::new("python3").arg("--version").output();
    let tun = Path::new("/dev/net/tun");
    ip("add")
        .and_then(|()| ip("del"))
        .and_then(|()| {
            tun.exists()
                .then_some(())
                .ok_or("there is no /dev/net/tun".into())
        })
        .and_then(|()| python.map_err(|error| format!("there is no python3: {error}")))
        .err()
}

/// Namespaces of this run; they go when it ends, however it ends.
struct Spaces(Vec<String>);

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn port_mac(port: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, port]
}

struct Bench {
    spaces: Spaces,
    /// Where the hosts' cables end.
    wires: Taps,
    /// Where the router's kernel is.
    host: Taps,
    switch: SwitchModel,
    verdicts: [u32; 18],
}

impl Bench {
    fn new() -> Self {
        let id = std::process::id();
        let space = |what: &str| format!("fibnic-{what}-{id}");
        let mut spaces = Spaces(Vec::new());
        for name in [space("router"), space("host0"), space("host1")] {
            run(&format!("ip netns add {name}"));
            spaces.0.push(name);
        }
        let wire_names = [format!("w0-{id}"), format!("w1-{id}")];
        let host_names = [format!("r0-{id}"), format!("r1-{id}")];
        let wires = Taps::open(&wire_names.each_ref().map(String::as_str)).unwrap();
        let host = Taps::open(&host_names.each_ref().map(String::as_str)).unwrap();
        for port in 0..PORTS {
            let at = usize::from(port);
            let router = &spaces.0[0];
            let own = &spaces.0[1 + at];
            for (name, space, number) in [(&host_names[at], router, 1), (&wire_names[at], own, 7)] {
                let inside = format!("ip -n {space}");
                run(&format!("ip link set {name} netns {space}"));
                if space == router {
                    let mac = port_mac(port).map(|byte| format!("{byte:02x}")).join(":");
                    run(&format!("{inside} link set {name} address {mac}"));
                }
                run(&format!("{inside} link set {name} up"));
                run(&format!(
                    "{inside} addr add 10.0.{port}.{number}/24 dev {name}"
                ));
                let v6 = format!("2001:db8:{port}::{number}/64");
                run(&format!("{inside} addr add {v6} dev {name} nodad"));
            }
            let inside = format!("ip -n {own}");
            run(&format!("{inside} route add default via 10.0.{port}.1"));
            run(&format!(
                "{inside} route add default via 2001:db8:{port}::1"
            ));
        }
        let within = format!("ip netns exec {}", spaces.0[0]);
        run(&format!("{within} sysctl -qw net.ipv4.ip_forward=1"));
        run(&format!(
            "{within} sysctl -qw net.ipv6.conf.all.forwarding=1"
        ));

        let mut switch = SwitchModel::new(SwitchConfig {
            ports: PORTS,
            ..SwitchConfig::default()
        });
        let target = Target::Host;
        switch.set_next_hop(1, Some(NextHop { target, mac: None }));
        for port in 0..PORTS {
            let mac = port_mac(port);
            let mtu = 1500;
            switch.set_port(
                port,
                Port {
                    mac,
                    mtu,
                    ..Port::default()
                },
            );
            let v4 = Ipv4Addr::new(10, 0, port, 0);
            switch.set_route4(v4.into(), 24, Some(1));
            let v6 = Ipv6Addr::new(0x2001, 0xDB8, port.into(), 0, 0, 0, 0, 0);
            switch.set_route6(v6.into(), 64, Some(1));
        }
        Self {
            spaces,
            wires,
            host,
            switch,
            verdicts: [0; 18],
        }
    }

    /// Moves what waits, one frame each way; says whether there was one.
    fn step(&mut self) -> bool {
        let mut moved = false;
        if let Some((port, mut frame)) = self.wires.take().unwrap() {
            moved = true;
            frame.resize(frame.len().max(60), 0);
            let sum = fcs(&frame);
            frame.extend(sum);
            let outcome = self.switch.forward(port, &frame, false).unwrap();
            self.verdicts[usize::from(outcome.verdict.number())] += 1;
            match outcome.egress {
                Some(Target::Port(egress)) => self.deliver(egress, &outcome.bytes),
                Some(Target::Host) => self
                    .host
                    .give(&HostFrame {
                        port,
                        verdict: outcome.verdict.number(),
                        bad: outcome.spoiled,
                        bytes: &outcome.bytes,
                    })
                    .unwrap(),
                _ => {}
            }
        }
        if let Some((port, frame)) = self.host.take().unwrap() {
            moved = true;
            let frame = self.switch.from_host(port, &frame);
            self.deliver(port, &frame);
        }
        moved
    }

    fn deliver(&self, port: u8, bytes: &[u8]) {
        let (verdict, bad) = (0, false);
        self.wires
            .give(&HostFrame {
                port,
                verdict,
                bad,
                bytes,
            })
            .unwrap();
    }

    /// Runs until a child has ended; returns what it said.
    fn until(&mut self, mut child: Child) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the ping does not end");
            if !self.step() {
                sleep(Duration::from_millis(1));
            }
        }
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap().trim().to_owned()
    }

    fn ping(&mut self, from: usize, to: &str, hops: u32) -> String {
        let child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &self.spaces.0[1 + from],
                "python3",
                "-c",
                PING,
            ])
            .args([to, &hops.to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.until(child)
    }

    /// Brings the neighbours that the router's kernel knows to the model.
    fn learn(&mut self) {
        let mut id = 2;
        let table = run(&format!("ip -n {} neigh show", self.spaces.0[0]));
        for line in table.lines() {
            // 10.0.0.7 dev r0-1234 lladdr 02:... REACHABLE
            let words: Vec<_> = line.split_whitespace().collect();
            let ["dev", device, "lladdr", mac] = words[1..5] else {
                continue;
            };
            let mac: Vec<u8> = mac
                .split(':')
                .map(|byte| u8::from_str_radix(byte, 16).unwrap())
                .collect();
            let target = Target::Port(device.as_bytes()[1] - b'0');
            let mac = Some(mac.try_into().unwrap());
            self.switch.set_next_hop(id, Some(NextHop { target, mac }));
            if let Ok(v4) = words[0].parse::<Ipv4Addr>() {
                self.switch.set_route4(v4.into(), 32, Some(id));
            } else {
                let v6: Ipv6Addr = words[0].parse().unwrap();
                self.switch.set_route6(v6.into(), 128, Some(id));
            }
            id += 1;
        }
    }

    fn forwarded(&self) -> u32 {
        self.verdicts[usize::from(Verdict::Forward.number())]
    }
}

#[test]
#[ignore = "needs root, /dev/net/tun and network namespaces"]
fn linux_behind_the_host_port_answers_and_pings_pass() {
    if let Some(why) = missing() {
        skip::skip!("{why}");
        return;
    }
    let mut bench = Bench::new();
    for (own, other, others_router) in [
        ("10.0.0.1", "10.0.1.7", "10.0.1.1"),
        ("2001:db8:0::1", "2001:db8:1::7", "2001:db8:1::1"),
    ] {
        let own: std::net::IpAddr = own.parse().unwrap();
        // The router itself, on both of its ports: ARP or NDP, and ICMP, by its kernel.
        assert_eq!(bench.ping(0, &own.to_string(), 64), format!("reply {own}"));
        assert_eq!(
            bench.ping(0, others_router, 64),
            format!("reply {others_router}")
        );
        // The other host, at first by the kernel.
        let before = bench.forwarded();
        assert_eq!(bench.ping(0, other, 64), format!("reply {other}"));
        assert_eq!(bench.forwarded(), before);
        // The kernel's neighbours are the model's: now without the kernel, both ways.
        bench.learn();
        assert_eq!(bench.ping(0, other, 64), format!("reply {other}"));
        assert_eq!(bench.forwarded(), before + 2);
        // Expired: the kernel says so.
        assert_eq!(bench.ping(0, other, 1), format!("exceeded {own}"));
    }
}

#[test]
fn a_device_that_can_not_be_is_named() {
    let Err(error) = Taps::open(&["a-name-that-is-far-too-long-for-a-device"]) else {
        panic!("such a name can't be");
    };
    assert!(error.to_string().contains("a-name-that-is-far-too-long"));
}
