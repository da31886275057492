// SPDX-License-Identifier: Apache-2.0
//! Whole Linux machines in the rack. They need the kernel of `tools/uml-kernel`: `./test guests` builds it and runs them.

use std::path::Path;

use rack::Topology;
use rack::capture::write_pcapng_of;
use rack::cpu::{CpuSpec, STACK_NS};
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};

/// Two guests at the ends of what `between` describes.
fn topology(nic: &str, rate: &str, between: &str, commands: [&str; 2], faults: &str) -> Topology {
    let switched = !between.is_empty();
    let (ips, cables) = if switched {
        let ips = ["10.0.0.1", "10.0.1.1"];
        (ips, vec![("a", "sw:0"), ("b", "sw:1")])
    } else {
        (["10.0.0.1", "10.0.0.2"], vec![("a", "b")])
    };
    let mut text = "platform = \"keio-2016\"\nseed = 1\n".to_owned();
    for ((name, ip), command) in ["a", "b"].into_iter().zip(ips).zip(commands) {
        text += &format!(
            "[[host]]\nname = \"{name}\"\nkind = \"uml\"\n\
             nic = {{ kind = \"{nic}\", rate = \"{rate}\", ip = \"{ip}\" }}\n"
        );
        if !command.is_empty() {
            text += &format!("command = '''\n{command}\n'''\n");
        }
    }
    if switched {
        text += &format!(
            "[[switch]]\nname = \"sw\"\nrate = \"{rate}\"\n{between}\n\
             port = [{{ number = 0, address = \"10.0.0.254/24\" }}, {{ number = 1, address = \"10.0.1.254/24\" }}]\n"
        );
    }
    for (one, two) in cables {
        text += &format!("[[cable]]\nbetween = [\"{one}\", \"{two}\"]\nmetres = 1\n{faults}\n");
    }
    text += "[program]\nkind = \"uml\"\nuntil = [\"a\"]\n";
    Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound")
}

fn go(topology: &Topology) -> UmlOutcome {
    let outcome = run_uml(topology, &Options::default(), &rtl).expect("the run ends");
    for guest in &outcome.guests {
        println!(
            "{}: status {:?}, {:?}\n{}{}{}",
            guest.name,
            guest.status,
            guest.report,
            String::from_utf8_lossy(&guest.stdout),
            String::from_utf8_lossy(&guest.stderr),
            guest.console
        );
    }
    println!(
        "{} frames, {} edges, {} simulated, {:.2} s wall, {:.2} s of them guests, {:.2} s to start, hash {}",
        outcome.record.counted.0,
        outcome.effort.edges,
        outcome.simulated,
        outcome.wall_seconds,
        outcome.guest_seconds,
        outcome.start_seconds,
        outcome.digest()
    );
    outcome
}

const PING: &str = "ping -c 3 -i 0.1 b";

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn ping_over_a_cable() {
    let outcome = go(&topology("virtio", "1g", "", [PING, ""], ""));
    assert_eq!(outcome.guests[0].status, Some(0));
    assert!(outcome.guests[0].stdout.ends_with(b"ms\n"), "ping sums up");
}

/// A file of so many bytes that repeats itself nowhere, and a server for it; then the client that fetches and compares it.
fn http(bytes: usize) -> [String; 2] {
    let make = |file: &str| format!("seq 1 100000000 | head -c {bytes} > {file}");
    let server = format!(
        "mkdir /tmp/www\n{}\nexec /usr/bin/python3 -m http.server --directory /tmp/www 8000",
        make("/tmp/www/data")
    );
    let client = format!(
        "sleep 2\ncurl -sS -o /tmp/got http://b:8000/data || exit\n{}\ncmp /tmp/got /tmp/expected && wc -c < /tmp/got",
        make("/tmp/expected")
    );
    [client, server]
}

/// A file goes through the switch in RTL, and is what it was.
fn fetch(nic: &str, rate: &str, bytes: usize, faults: &str) -> UmlOutcome {
    let [client, server] = http(bytes);
    let commands = [client.as_str(), server.as_str()];
    let topology = topology(nic, rate, RTL_SWITCH, commands, faults);
    let outcome = go(&topology);
    assert_eq!(outcome.guests[0].status, Some(0));
    let counted = String::from_utf8_lossy(&outcome.guests[0].stdout);
    assert_eq!(counted.trim(), bytes.to_string());
    // Each frame of the data was on two cables.
    assert!(outcome.record.counted.0 as usize > 2 * bytes / 1_460);
    outcome
}

/// The switch learns its neighbours by ARP, as its own guests do not.
const RTL_SWITCH: &str = "neighbours = \"learn\"";
const LOSS: &str = "faults = { loss = 0.01 }";

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn http_through_the_switch_in_rtl_twice_the_same() {
    let one = fetch("virtio", "10g", 300_000, "");
    let two = fetch("virtio", "10g", 300_000, "");
    assert_eq!(one.digest(), two.digest());
    assert_eq!(one.simulated, two.simulated);
}

/// A capture of every link is written, and tshark finds nothing wrong in it.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn captures_are_sound() {
    let [client, server] = http(50_000);
    let commands = [client.as_str(), server.as_str()];
    let topology = topology("virtio", "1g", RTL_SWITCH, commands, "");
    let options = Options {
        keep: 100_000,
        ..Options::default()
    };
    let outcome = run_uml(&topology, &options, &rtl).expect("the run ends");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("links.pcapng");
    write_pcapng_of(&outcome.names(), &outcome.switches, &outcome.record, &path)
        .expect("it is written");
    let tshark = |filter: &str| {
        let mut command = std::process::Command::new("tshark");
        command.args([
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "tcp.check_checksum:TRUE",
        ]);
        command.arg("-r").arg(&path).args(["-Y", filter]);
        let output = command
            .output()
            .expect("tshark is there (tools/debian-packages.txt)");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).lines().count() as u64
    };
    assert_eq!(tshark("eth"), outcome.record.counted.0);
    assert!(tshark("http.response.code == 200") > 0);
    let wrong = "_ws.malformed || tcp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\"";
    assert_eq!(tshark(wrong), 0);
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn http_with_loss() {
    let outcome = fetch("virtio", "10g", 300_000, LOSS);
    assert!(outcome.faults.lost > 0, "{:?}", outcome.faults);
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn http_through_ring_nics_in_rtl() {
    let outcome = fetch("ring", "10g", 100_000, "");
    assert!(outcome.guests[1].accesses.dma_read > 100);
}

/// The driver leaves the NIC amid traffic, and takes it again: the connections wait, and lose nothing.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_ring_nics_driver_goes_and_comes_back_amid_traffic() {
    let [client, server] = http(1_000_000);
    let script = r#"
set -e
nic=$(basename $(readlink /sys/class/net/eth0/device))
driver=/sys/bus/pci/drivers/ring_nic
up() {
  ip link set eth0 up
  ip address replace $IPNUMA_IP/$IPNUMA_PREFIX dev eth0
  ip route replace default via $IPNUMA_GATEWAY
}
(sleep 2
for time in 1 2 3; do
  sleep 0.0003
  echo $nic > $driver/unbind
  sleep 0.01
  [ $time != 1 ] || [ $(wc -c < /tmp/got) -lt 1000000 ]
  echo $nic > $driver/bind
  up
  sleep 0.2
done
rmmod ring_nic
insmod /run/ipnuma/ring_nic.ko mac=$IPNUMA_MAC
up) &
"#;
    let client = format!("{script}{client}\nwait $!\n");
    let topology = topology("ring", "10g", RTL_SWITCH, [&client, &server], "");
    let outcome = go(&topology);
    let guest = &outcome.guests[0];
    assert_eq!(guest.status, Some(0));
    assert_eq!(guest.stdout, b"1000000\n");
    let complaint = ["WARNING", "BUG", "Oops"].map(|word| guest.console.contains(word));
    assert_eq!(complaint, [false; 3]);
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn http_of_ten_megabytes() {
    if !skip::long!() {
        return;
    }
    for nic in ["virtio", "ring"] {
        for faults in ["", LOSS] {
            fetch(nic, "10g", 10_000_000, faults);
        }
    }
}

/// Frames that passed a device of a rack with a router, and the greatest latency, ps.
fn passed(outcome: &UmlOutcome, name: &str, bytes: usize) -> (u64, u64) {
    let passages = outcome.passages();
    let mut of_name = passages.iter().filter(|passage| passage.name == name);
    let found = of_name.find(|passage| passage.bytes == bytes);
    found.map_or((0, 0), |passage| {
        (passage.latency.count, passage.latency.max.0)
    })
}

/// Each ping passes the FIBNIC and the router there and back; what the FIBNIC takes is its 51 cycles and the wait for one,
/// and the router's latency is the simulated one, to the last frame.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_pc_with_two_nics_is_a_router() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments/topologies/uml-pc-router.toml");
    let mut topology = Topology::load(&file).expect("the topology is sound");
    let outcome = go(&topology);
    assert_eq!(outcome.guests[0].status, Some(0));
    let said = String::from_utf8_lossy(&outcome.guests[0].stdout);
    assert!(said.contains(" 20 received, 0% packet loss"), "{said}");
    let (frames, router) = passed(&outcome, "router", 64);
    assert_eq!(frames, 40);
    // Frame in and out of memory, and the register that the driver reads to send: more than that alone.
    assert!(router > 4_824_000, "{router} ps");
    let (frames, fibnic) = passed(&outcome, "fibnic", 64);
    assert_eq!(frames, 40);
    assert!((408_000..=416_000).contains(&fibnic), "{fibnic} ps");
    // Each NIC of the router interrupted for each frame that came in by it.
    let guest = outcome.guest("router").expect("it is there");
    assert_eq!(guest.report.interrupts, 40);

    let again = go(&topology);
    assert_eq!(outcome.digest(), again.digest());

    // What more the kernel is charged is what more a frame takes, but for the microsecond in which a register is seen.
    let router_host = topology.host_index("router").expect("it is there");
    topology.host[router_host].cpu = CpuSpec::forwarding(true);
    let slower = passed(&go(&topology), "router", 64).1;
    let more = slower - router;
    let stack = 1_000 * STACK_NS;
    assert!(
        (stack - 1_000_000..=stack + 1_000_000).contains(&more),
        "{more} ps"
    );
}
