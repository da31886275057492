// SPDX-License-Identifier: Apache-2.0
//! What a guest finds in its directory: the first program, its command, names and addresses of the rack.
//!
//! The guest's root is the host's file system, read only. Its own directory is at `/run/ipnuma`, and what it writes there
//! is the host's to read: `stdout`, `stderr`, `status`.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::cpu::Cpu;
use crate::error::Error;
use crate::platform::Platform;
use crate::tables;
use crate::topology::{End, HostSpec, Neighbours, NicKind, Rate, Topology};

/// Where a guest finds its directory.
pub const DIRECTORY: &str = "/run/ipnuma";
/// File of the command's exit status.
pub const STATUS: &str = "status";
/// File of what the command printed.
pub const STDOUT: &str = "stdout";
/// File of what it printed to its standard error.
pub const STDERR: &str = "stderr";
/// File of what the kernel of a switch's host said of links and routes.
pub const KERNEL_LOG: &str = "kernel.log";
/// The first program.
pub const INIT: &str = "init.sh";
const COMMAND: &str = "command.sh";
const HOSTS: &str = "hosts";

/// Directories that a guest has of its own, beside `/run`.
const OWN: [&str; 3] = ["/tmp", "/var/tmp", "/var/log"];

/// Mounts back this project's checkout where a guest's own directories hide it and its command wants something of it.
/// Others see nothing of where it lies: a run has the same hash everywhere.
fn checkout(command: &str) -> String {
    let Ok(path) = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
    else {
        return String::new();
    };
    let hidden = OWN.iter().any(|own| path.starts_with(own));
    match path.to_str() {
        // Not what an option of mount or a shell would read otherwise.
        Some(path) if hidden && command.contains(path) && !path.contains([',', '\'', ' ']) => {
            format!("mkdir -p {path} && mount -t hostfs -o ro,{path} host {path}\n")
        }
        _ => String::new(),
    }
}

const IPNUMA_MODULE: &str = "ipnuma.ko";
const RING_MODULE: &str = "ring_nic.ko";
const UZURA_MODULE: &str = "uzura.ko";
const SWITCH_MODULE: &str = "fibnic.ko";
/// This program, for what a guest runs of it: `ipnuma fibd`.
pub const PROGRAM: &str = "ipnuma";

/// The modules of a NIC's drivers.
pub const fn modules(kind: NicKind) -> &'static [&'static str] {
    match kind {
        NicKind::Ipnuma => &[IPNUMA_MODULE],
        NicKind::Ring => &[RING_MODULE],
        NicKind::Shared => &[RING_MODULE, IPNUMA_MODULE],
        NicKind::Uzura => &[RING_MODULE, UZURA_MODULE],
        NicKind::HostPort => &[SWITCH_MODULE],
        NicKind::Virtio | NicKind::Toe => &[],
    }
}

/// Whether a guest's kernel has verbs, and its programs a time stamp counter on simulated time.
pub fn has_verbs(spec: &HostSpec) -> bool {
    spec.rdma || spec.nic.kind == NicKind::Uzura
}

/// What libibverbs loads for a NIC; it appends the number of its private ABI to the name.
const PROVIDER: &str = "libuzura";
const PROVIDER_FILE: &str = "libuzura-rdmav34.so";

/// The modules of a NIC's drivers, and its library for programs.
fn files(kind: NicKind) -> impl Iterator<Item = &'static str> {
    let library = (kind == NicKind::Uzura).then_some(PROVIDER_FILE);
    modules(kind).iter().copied().chain(library)
}

/// A MAC address as text.
pub fn mac_text(mac: u64) -> String {
    let bytes = tables::mac_bytes(mac).map(|byte| format!("{byte:02x}"));
    bytes.join(":")
}

/// Other hosts and switch ports in a NIC's subnet, with their MAC addresses.
fn neighbours(topology: &Topology, nic: usize) -> Vec<(Ipv4Addr, u64)> {
    let end = topology.opposite(End::Host(nic));
    let neighbour = |end: End| (topology.address(end), tables::mac(end));
    end.into_iter().map(neighbour).collect()
}

/// Parameters of a driver.
fn parameters(
    topology: &Topology,
    platform: &Platform,
    host: usize,
    cpu: &Cpu,
    module: &str,
) -> String {
    let nic = &topology.host[host].nic;
    let mut text = format!("store_ns={}", cpu.store_ns);
    match module {
        RING_MODULE => {
            let mac = mac_text(tables::host_mac(host));
            let (send, receive) = (cpu.kernel_send_ns, cpu.kernel_receive_ns);
            let (application, poll) = (cpu.application_ns, cpu.poll_ns);
            let link = topology.host[host].link;
            let link = link.unwrap_or_else(|| platform.default_link(nic.rate.into()));
            let read = platform
                .load_latency
                .at(link)
                .map_or(0, |time| time.as_ns().round() as u64);
            let _ = write!(
                text,
                " mac={mac} send_ns={send} receive_ns={receive} application_ns={application} poll_ns={poll} read_ns={read}"
            );
        }
        UZURA_MODULE => {
            let _ = write!(text, " mac={}", mac_text(tables::host_mac(host)));
        }
        IPNUMA_MODULE => {
            // A server that answers after some 2.5 us, as memcached does, sends the acknowledgement of its question along with
            // the answer; alone it would take the wire just before it, at 1G for 0.7 us.
            text += " ack_ticks=32";
            if nic.rate == Rate::One {
                // The reset value suits 10G.
                text += " pace=0x01006fff";
            }
        }
        _ => {}
    }
    text
}

/// Sets up the network device with a MAC address; neighbours that it is told of it does not ask for.
fn network(text: &mut String, (ip, prefix): (Ipv4Addr, u8), mac: u64, known: &[(Ipv4Addr, u64)]) {
    let mac = mac_text(mac);
    let _ = writeln!(
        text,
        "for d in /sys/class/net/*; do [ \"$(cat $d/address)\" = {mac} ] && IPNUMA_NETDEV=${{d##*/}}; done\n\
         export IPNUMA_NETDEV\n\
         ip address add {ip}/{prefix} dev $IPNUMA_NETDEV\n\
         ip link set $IPNUMA_NETDEV up"
    );
    for (ip, mac) in known {
        let mac = mac_text(*mac);
        let _ = writeln!(
            text,
            "ip neighbour replace {ip} lladdr {mac} dev $IPNUMA_NETDEV nud permanent"
        );
    }
}

/// Sets up the further cards of a guest, which are the PCI devices behind its first NIC: IPv4 is forwarded between all. The
/// driver has given each of them the first one's MAC address.
fn cards(text: &mut String, topology: &Topology, host: usize) {
    let cards = topology.cards(host);
    for (card, slot) in cards.iter().zip(1..) {
        let mac = mac_text(tables::host_mac(*card));
        let _ = writeln!(
            text,
            "for d in /sys/class/net/*; do case $(readlink $d/device) in *:{slot:02x}.0) \
             ip link set ${{d##*/}} address {mac} ;; esac; done"
        );
    }
    for card in &cards {
        let address = (topology.host_ip(*card), topology.prefix_len(*card));
        let known = known(topology, host, *card);
        network(text, address, tables::host_mac(*card), &known);
    }
    if !cards.is_empty() {
        text.push_str("echo 1 > /proc/sys/net/ipv4/ip_forward\n");
    }
}

/// The neighbours that a guest need not ask for at one of its NICs.
fn known(topology: &Topology, host: usize, nic: usize) -> Vec<(Ipv4Addr, u64)> {
    match topology.host[host].neighbours {
        Neighbours::Static => neighbours(topology, nic),
        Neighbours::Learn => Vec::new(),
    }
}

/// Sets up the network devices of a switch's host: port 2 is `sw2`, with the port's address. IPv4 is forwarded.
fn ports(text: &mut String, topology: &Topology, switch: usize) {
    let names = tables::guest_ports(topology, switch)
        .into_iter()
        .map(|port| {
            let number = usize::from(port);
            let mac = mac_text(tables::port_mac(switch, number));
            let address = topology.switch[switch].port(number);
            let address = address.map(|port| port.address.as_ref().to_string());
            let _ = writeln!(
                text,
                "for d in /sys/class/net/*; do [ \"$(cat $d/address)\" = {mac} ] && ip link set ${{d##*/}} name sw{port}; done\n\
                 ip address add {} dev sw{port}\n\
                 ip link set sw{port} up",
                address.unwrap_or_default()
            );
            format!("sw{port}")
        })
        .collect::<Vec<_>>();
    let _ = writeln!(
        text,
        "echo 1 > /proc/sys/net/ipv4/ip_forward\nexport IPNUMA_PORTS='{}'\n\
         TZ=UTC0 ip -ts -oneline monitor label link route > {DIRECTORY}/{KERNEL_LOG} 2> /dev/null < /dev/null &\n\
         MONITOR=$!",
        names.join(" ")
    );
}

/// Names the frequency of the time stamp counter, which this kernel does not, where perftest looks for it.
const COUNTER: &str = "{ cat /proc/cpuinfo; echo 'cpu MHz : 1000.000'; } > /run/cpuinfo\n\
    mount --bind /run/cpuinfo /proc/cpuinfo\n";

/// The first program of a guest.
pub fn init(topology: &Topology, platform: &Platform, host: usize, cpu: &Cpu) -> String {
    let spec = &topology.host[host];
    let name = spec.name.as_ref();
    let (ip, prefix) = match spec.nic.kind {
        NicKind::HostPort => (router_ip(topology, host), topology.prefix_len(host)),
        _ => (topology.host_ip(host), topology.prefix_len(host)),
    };
    let mac = mac_text(tables::host_mac(host));
    let mut text = format!(
        r#"#!/bin/sh
# Made by the rack for guest {name}.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8
mount -t tmpfs -o mode=755 run /run
mkdir -p {DIRECTORY} /run/lock
# Before the guest's own /proc is there: the working directory of the guest's process on the host.
mount -t hostfs -o /proc/self/cwd host {DIRECTORY}
mount -t proc proc /proc
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
for directory in {own}; do mount -t tmpfs -o mode=1777 tmp $directory; done
{checkout}ln -sf /proc/self/fd /dev/fd
mount --bind {DIRECTORY}/{HOSTS} /etc/hosts
hostname {name} 2>/dev/null || echo {name} > /proc/sys/kernel/hostname
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link set lo up
[ {loopback} = 0 ] || tc qdisc add dev lo root netem delay {loopback_us}us limit 100000 || echo "lo takes no time"
export IPNUMA_HOST={name} IPNUMA_IP={ip} IPNUMA_PREFIX={prefix} IPNUMA_MAC={mac}
export IPNUMA_APPLICATION_NS={application} IPNUMA_LOOPBACK_NS={loopback}
"#,
        own = OWN.join(" "),
        checkout = checkout(spec.command.as_deref().unwrap_or_default()),
        application = cpu.application_ns,
        loopback = cpu.loopback_ns,
        // Older tc has no nanoseconds.
        loopback_us = cpu.loopback_ns as f64 / 1000.0,
    );
    if has_verbs(spec) {
        text += COUNTER;
    }
    if let Some(gateway) = topology.gateway(host) {
        let _ = writeln!(text, "export IPNUMA_GATEWAY={}", gateway.address);
    }
    text += &calls(spec.nic.kind, cpu);
    for module in modules(spec.nic.kind) {
        let parameters = parameters(topology, platform, host, cpu, module);
        let _ = writeln!(
            text,
            "insmod {DIRECTORY}/{module} {parameters} || echo \"{module} cannot be loaded\""
        );
    }
    if spec.nic.kind == NicKind::Uzura {
        let _ = writeln!(text, "export RDMAV_DRIVERS={DIRECTORY}/{PROVIDER}");
    }
    if spec.nic.kind == NicKind::Ipnuma {
        let ip = tables::management_ip(host);
        let others = (0..topology.host.len()).filter(|other| *other != host);
        let others = others
            .map(|other| (tables::management_ip(other), tables::management_mac(other)))
            .collect::<Vec<_>>();
        let _ = writeln!(text, "export IPNUMA_MANAGEMENT={ip}");
        network(&mut text, (ip, 24), tables::management_mac(host), &others);
    } else if let Some(switch) = topology.switch_of(host) {
        ports(&mut text, topology, switch);
    } else {
        cards(&mut text, topology, host);
        let known = known(topology, host, host);
        network(&mut text, (ip, prefix), tables::host_mac(host), &known);
        if let Some(gateway) = topology.gateway(host) {
            let _ = writeln!(text, "ip route add default via {}", gateway.address);
        }
    }
    let _ = writeln!(
        text,
        "cd {DIRECTORY}\nsh {DIRECTORY}/{COMMAND} > {STDOUT} 2> {STDERR} < /dev/null\necho $? > {STATUS}"
    );
    if spec.nic.kind == NicKind::HostPort {
        // What goes with the machine is no change.
        text += "kill $MONITOR\n";
    }
    text += "echo o > /proc/sysrq-trigger\nsleep 10\n";
    text
}

/// Has the socket library charge its calls, of guests with the NIC that it uses, if they cost anything.
fn calls(kind: NicKind, cpu: &Cpu) -> String {
    let costs = cpu.library();
    if !modules(kind).contains(&IPNUMA_MODULE) || costs.iter().all(|(_, _, ns)| *ns == 0) {
        return String::new();
    }
    let costs = costs.map(|(_, name, ns)| format!("{name}={ns}"));
    format!("export IPNUMA_CALLS_NS={}\n", costs.join(","))
}

/// The address of a switch's host: that of its first port.
fn router_ip(topology: &Topology, host: usize) -> Ipv4Addr {
    let switch = topology.switch_of(host);
    let first = switch.and_then(|switch| topology.switch[switch].port.first());
    first.map_or(Ipv4Addr::UNSPECIFIED, |port| port.address.as_ref().address)
}

/// Names of all hosts, as sockets reach them: those with an IP-NUMA NIC by the network beside the rack's.
fn hosts(topology: &Topology) -> String {
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for (number, host) in topology.host.iter().enumerate() {
        let ip = match host.nic.kind {
            NicKind::Ipnuma => tables::management_ip(number),
            NicKind::Ring | NicKind::Shared | NicKind::Uzura | NicKind::Virtio | NicKind::Toe => {
                topology.host_ip(number)
            }
            NicKind::HostPort => router_ip(topology, number),
        };
        let _ = writeln!(text, "{ip} {}", host.name.as_ref());
    }
    text
}

/// What a guest without a command does: nothing, for ever.
const IDLE: &str = "while :; do sleep 1000000; done";

/// Writes everything into the directory of a guest.
pub fn prepare(
    topology: &Topology,
    host: usize,
    cpu: &Cpu,
    directory: &Path,
    drivers: Option<&Path>,
) -> Result<(), Error> {
    let failed = |path: &Path, reason: std::io::Error| Error::Output {
        path: path.display().to_string(),
        reason: reason.to_string(),
    };
    // Not the directory that it lies in: a signal may just have removed that.
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed(directory, error));
        }
        _ => {}
    }
    let platform = Platform::load(&topology.platform)?;
    let command = topology.host[host].command.as_deref().unwrap_or(IDLE);
    for (name, text) in [
        (INIT, init(topology, &platform, host, cpu)),
        (COMMAND, format!("{command}\n")),
        (HOSTS, hosts(topology)),
    ] {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    let init = directory.join(INIT);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&init, mode).map_err(|error| failed(&init, error))?;
    for name in [STATUS, STDOUT, STDERR, KERNEL_LOG] {
        let path = directory.join(name);
        if path.exists() {
            std::fs::remove_file(&path).map_err(|error| failed(&path, error))?;
        }
    }
    for file in &topology.host[host].files {
        let from = topology.beside(file);
        let name = from.file_name().unwrap_or_default();
        let copied = std::fs::copy(&from, directory.join(name));
        copied.map_err(|error| {
            Error::Config(format!(
                "host.files: {} can't be copied: {error}; name a file beside the topology",
                from.display()
            ))
        })?;
    }
    if topology.host[host].nic.kind == NicKind::HostPort {
        // A copy, since how long a path is moves a guest's stacks.
        let own = std::env::current_exe();
        let copied = own.and_then(|own| std::fs::copy(own, directory.join(PROGRAM)));
        copied.map_err(|error| failed(&directory.join(PROGRAM), error))?;
    }
    let Some(from) = drivers else {
        return Ok(());
    };
    for module in files(topology.host[host].nic.kind) {
        let source = from.join(module);
        std::fs::copy(&source, directory.join(module)).map_err(|error| {
            Error::Config(format!(
                "cannot read the driver {}: {error}; build kernel and drivers with tools/uml-kernel \
                 (--rdma for an uzura NIC)",
                source.display()
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuSpec;

    #[test]
    fn a_shared_nic_has_both_drivers_and_no_network_beside_the_racks() {
        let text = r#"
            platform = "keio-2016"
            [[host]]
            name = "a"
            kind = "uml"
            nic = { kind = "shared", rate = "10g" }
            command = "true"
            [[host]]
            name = "b"
            kind = "uml"
            nic = { kind = "virtio", rate = "10g" }
            [[cable]]
            between = ["a", "b"]
            metres = 1
            [program]
            kind = "uml"
        "#;
        let topology = Topology::parse(text, Path::new("test.toml")).expect("it is sound");
        let cpu = Cpu::new(&CpuSpec::default(), &CpuSpec::default());
        let platform = Platform::load(&topology.platform).expect("it is a platform");
        let program = init(&topology, &platform, 0, &cpu);
        for line in [
            "insmod /run/ipnuma/ring_nic.ko store_ns=223 mac=02:00:00:00:00:01 ",
            "insmod /run/ipnuma/ipnuma.ko store_ns=223 ack_ticks=32 ||",
            "ip address add 10.0.0.1/24 dev $IPNUMA_NETDEV\n",
        ] {
            assert!(program.contains(line), "{line} is not in:\n{program}");
        }
        assert!(!program.contains("IPNUMA_MANAGEMENT"), "{program}");
        // The library's calls cost something where that is said, and where there is its NIC.
        assert!(!program.contains("IPNUMA_CALLS_NS"), "{program}");
        let cpu = Cpu::new(
            &CpuSpec {
                library_recv_ns: Some(7),
                ..CpuSpec::default()
            },
            &CpuSpec::default(),
        );
        let program = init(&topology, &platform, 0, &cpu);
        let line =
            "export IPNUMA_CALLS_NS=send=0,send_kib=0,recv=7,recv_kib=0,epoll_wait=0,poll=0\n";
        assert!(program.contains(line), "{program}");
        assert!(!init(&topology, &platform, 1, &cpu).contains("IPNUMA_CALLS_NS"));
        assert!(hosts(&topology).contains("10.0.0.1 a\n"));
    }

    #[test]
    fn an_rdma_nic_has_both_drivers_one_address_and_a_library_for_programs() {
        let text = r#"
            platform = "keio-2016"
            [[host]]
            name = "a"
            kind = "uml"
            nic = { kind = "uzura", rate = "RATE" }
            command = "true"
            [[host]]
            name = "b"
            kind = "uml"
            rdma = true
            nic = { kind = "ring", rate = "RATE" }
            [[cable]]
            between = ["a", "b"]
            metres = 1
            [program]
            kind = "uml"
        "#;
        let parse = |rate| Topology::parse(&text.replace("RATE", rate), Path::new("test.toml"));
        let topology = parse("10g").expect("it is sound");
        let cpu = Cpu::new(&CpuSpec::default(), &CpuSpec::default());
        let platform = Platform::load(&topology.platform).expect("it is a platform");
        let program = init(&topology, &platform, 0, &cpu);
        for line in [
            "insmod /run/ipnuma/ring_nic.ko store_ns=223 mac=02:00:00:00:00:01 ",
            "insmod /run/ipnuma/uzura.ko store_ns=223 mac=02:00:00:00:00:01 ||",
            "export RDMAV_DRIVERS=/run/ipnuma/libuzura\n",
            "mount --bind /run/cpuinfo /proc/cpuinfo\n",
            "ip address add 10.0.0.1/24 dev $IPNUMA_NETDEV\n",
        ] {
            assert!(program.contains(line), "{line} is not in:\n{program}");
        }
        let other = init(&topology, &platform, 1, &cpu);
        assert!(!other.contains("RDMAV_DRIVERS") && other.contains("'cpu MHz : 1000.000'"));
        let error = parse("1g").expect_err("there is none");
        assert!(error.to_string().contains("with UZURA"), "{error}");
    }

    #[test]
    fn the_first_program_has_the_addresses_of_the_topology() {
        let text = r#"
            platform = "keio-2016"
            [[host]]
            name = "a"
            kind = "uml"
            nic = { kind = "ring", rate = "1g", ip = "10.0.0.1" }
            command = "true"
            [[host]]
            name = "b"
            kind = "uml"
            nic = { kind = "ring", rate = "1g", ip = "10.0.1.1" }
            [[switch]]
            name = "sw"
            rate = "1g"
            port = [{ number = 0, address = "10.0.0.254/24" }, { number = 1, address = "10.0.1.254/24" }]
            [[cable]]
            between = ["a", "sw:0"]
            metres = 1
            [[cable]]
            between = ["b", "sw:1"]
            metres = 1
            [program]
            kind = "uml"
        "#;
        let topology = Topology::parse(text, Path::new("test.toml")).expect("it is sound");
        let cpu = Cpu::new(&CpuSpec::default(), &CpuSpec::default());
        let platform = Platform::load(&topology.platform).expect("it is a platform");
        let text = init(&topology, &platform, 1, &cpu);
        for line in [
            "ip address add 10.0.1.1/24 dev $IPNUMA_NETDEV\n",
            "ip route add default via 10.0.1.254\n",
            "ip neighbour replace 10.0.1.254 lladdr 02:00:00:01:00:02 dev $IPNUMA_NETDEV nud permanent\n",
            "insmod /run/ipnuma/ring_nic.ko store_ns=223 mac=02:00:00:00:00:02 send_ns=2861 receive_ns=2861",
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn a_guest_with_cards_sets_them_up_and_forwards_and_is_the_gateway_of_its_neighbours() {
        let text = include_str!("../../../experiments/topologies/uml-pc-router.toml");
        let topology = Topology::parse(text, Path::new("test.toml")).expect("it is sound");
        let cpu = Cpu::new(&CpuSpec::default(), &CpuSpec::default());
        let platform = Platform::load(&topology.platform).expect("it is a platform");
        let number = |name| topology.host_index(name).expect("it is there");
        let router = init(&topology, &platform, number("router"), &cpu);
        let mut rest = router.as_str();
        for line in [
            "*:01.0) ip link set ${d##*/} address 02:00:00:00:00:03 ;; esac",
            "ip address add 10.0.2.254/24 dev $IPNUMA_NETDEV\n",
            "ip neighbour replace 10.0.2.1 lladdr 02:00:00:00:00:04 ",
            "echo 1 > /proc/sys/net/ipv4/ip_forward\n",
            "ip address add 10.0.1.1/24 dev $IPNUMA_NETDEV\n",
            "ip route add default via 10.0.1.254\n",
        ] {
            let (_, after) = rest
                .split_once(line)
                .unwrap_or_else(|| panic!("{line} is not behind the others in:\n{router}"));
            rest = after;
        }
        let end = init(&topology, &platform, number("b"), &cpu);
        assert!(
            end.contains("ip route add default via 10.0.2.254\n"),
            "{end}"
        );
        assert!(!end.contains("ip_forward"), "{end}");
    }
}
