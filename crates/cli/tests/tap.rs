// SPDX-License-Identifier: Apache-2.0
//! `ipnuma switch`: two namespaces of Linux, the switch in RTL between them. Skipped, with a message, where there are no
//! TAP devices or namespaces. Nothing is measured: time is the kernel's.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Sends echo requests until one is answered: prints what came, and from whom.
const PING: &str = r#"
import os, socket, struct, sys
target, hops = sys.argv[1], int(sys.argv[2])
six = ":" in target
family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, socket.IPPROTO_ICMP)
echo, reply, exceeded = (128, 129, 3) if six else (8, 0, 11)
end = socket.socket(family, socket.SOCK_RAW, protocol)
level, option = (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS) if six else (socket.IPPROTO_IP, socket.IP_TTL)
end.setsockopt(level, option, hops)
end.settimeout(1)
for number in range(1, 31):
    rest = struct.pack("!HH", os.getpid() & 0xFFFF, number) + b"through the RTL."
    words = struct.unpack(f"!{len(rest) // 2}H", rest)
    total = sum(words) + (echo << 8)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    try:
        # The kernel fills in the checksum of ICMPv6.
        end.sendto(struct.pack("!BBH", echo, 0, 0xFFFF - total) + rest, (target, 0))
        while True:
            data, source = end.recvfrom(2048)
            icmp = data if six else data[20:]
            if icmp[0] == reply and icmp[8:] == rest[4:]:
                sys.exit(print("reply", source[0]))
            if icmp[0] == exceeded:
                sys.exit(print("exceeded", source[0]))
    except (TimeoutError, OSError):
        pass
sys.exit("no answer")
"#;

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {arguments}: {}", error.trim()))
}

fn good(arguments: &str) {
    ip(arguments).expect("the namespace obeys");
}

/// Namespaces and the command; they go however the test ends.
struct Bench {
    spaces: Vec<String>,
    switch: Option<Child>,
    name: String,
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(child) = &mut self.switch {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.spaces {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

impl Bench {
    /// Two ports with their hosts; none, and why, where that can't be.
    fn new(kind: &str, rate: &str, more: &[&str]) -> Result<Self, String> {
        let id = std::process::id();
        let mut bench = Self {
            spaces: Vec::new(),
            switch: None,
            name: format!("{kind}{id}x"),
        };
        for host in 0..2 {
            let name = format!("ipnuma-{kind}{host}-{id}");
            ip(&format!("netns add {name}"))?;
            bench.spaces.push(name);
        }
        let python = Command::new("python3").arg("--version").output();
        python.map_err(|error| format!("python3: {error}"))?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_ipnuma"))
            .args(["switch", "--tap", &bench.name, "--rate", rate])
            .args(["--port", "10.0.0.254/24,2001:db8::254/64"])
            .args(["--port", "10.0.1.254/24,2001:db8:1::254/64"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command was built for this test");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        // Three lines when the devices are there.
        let said: Vec<_> = lines.take(3).map_while(Result::ok).collect();
        if said.len() < 3 {
            let output = child.wait_with_output().expect("it ended");
            assert_eq!(output.status.code(), Some(2));
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        bench.switch = Some(child);
        for (host, space) in bench.spaces.iter().enumerate() {
            let device = format!("{}{host}", bench.name);
            let subnet = if host == 0 {
                "2001:db8:".to_owned()
            } else {
                format!("2001:db8:{host}:")
            };
            good(&format!("link set {device} netns {space}"));
            good(&format!("-n {space} link set {device} up"));
            good(&format!(
                "-n {space} addr add 10.0.{host}.7/24 dev {device}"
            ));
            good(&format!(
                "-n {space} addr add {subnet}:7/64 dev {device} nodad"
            ));
            good(&format!("-n {space} route add default via 10.0.{host}.254"));
            good(&format!("-n {space} route add default via {subnet}:254"));
        }
        Ok(bench)
    }

    /// What comes back for an echo request of host 0.
    fn ping(&self, target: &str, hops: u8) -> String {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.spaces[0], "python3", "-c", PING])
            .args([target, &hops.to_string()])
            .output()
            .expect("ip is there");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}

fn bench(kind: &str, rate: &str, more: &[&str]) -> Option<Bench> {
    match Bench::new(kind, rate, more) {
        Ok(bench) => Some(bench),
        Err(reason) => {
            skip::skip!("no TAP devices or namespaces here: {reason}");
            None
        }
    }
}

#[test]
#[ignore = "makes devices and namespaces: cargo test -p cli --test tap -- --ignored"]
fn a_ping_through_the_rtl() {
    for rate in ["10g", "1g"] {
        let Some(bench) = bench("a", rate, &[]) else {
            return;
        };
        assert_eq!(bench.ping("10.0.0.254", 64), "reply 10.0.0.254", "{rate}");
        assert_eq!(bench.ping("10.0.1.7", 64), "reply 10.0.1.7", "{rate}");
        assert_eq!(bench.ping("10.0.1.7", 1), "exceeded 10.0.0.254", "{rate}");
        assert_eq!(bench.ping("2001:db8:1::7", 64), "reply 2001:db8:1::7");
        assert_eq!(
            bench.ping("2001:db8:1::7", 1),
            "exceeded 2001:db8::254",
            "{rate}"
        );
    }
}

#[test]
#[ignore = "makes devices and namespaces: cargo test -p cli --test tap -- --ignored"]
fn linux_behind_the_host_port() {
    let Some(mut bench) = bench("l", "10g", &["--linux"]) else {
        return;
    };
    let router = format!("ipnuma-router-{}", std::process::id());
    good(&format!("netns add {router}"));
    bench.spaces.push(router.clone());
    for (port, v6) in ["2001:db8::254", "2001:db8:1::254"].iter().enumerate() {
        let device = format!("{}h{port}", bench.name);
        good(&format!("link set {device} netns {router}"));
        good(&format!(
            "-n {router} link set {device} address 02:00:00:01:00:{:02x}",
            port + 1
        ));
        good(&format!("-n {router} link set {device} up"));
        good(&format!(
            "-n {router} addr add 10.0.{port}.254/24 dev {device}"
        ));
        good(&format!("-n {router} addr add {v6}/64 dev {device} nodad"));
    }
    for setting in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
        let write = format!("echo 1 > /proc/sys/{setting}");
        let status = Command::new("ip")
            .args(["netns", "exec", &router, "sh", "-c", &write])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{setting}");
    }
    // The kernel answers ARP and neighbour discovery, and echo requests to the router.
    assert_eq!(bench.ping("10.0.0.254", 64), "reply 10.0.0.254");
    assert_eq!(bench.ping("2001:db8::254", 64), "reply 2001:db8::254");
    assert_eq!(bench.ping("10.0.1.7", 64), "reply 10.0.1.7");
    assert_eq!(bench.ping("10.0.1.7", 1), "exceeded 10.0.0.254");
    assert_eq!(bench.ping("2001:db8:1::7", 64), "reply 2001:db8:1::7");
}
