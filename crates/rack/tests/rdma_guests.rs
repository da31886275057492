// SPDX-License-Identifier: Apache-2.0
//! Linux guests with UZURA in RTL: the verbs driver and Debian's `ibverbs-utils`, `perftest` and `rdmacm-utils`, unmodified, over it,
//! against itself and against the kernel's RoCEv2 in software behind the conventional NIC. Needs the kernel of `tools/uml-kernel --rdma`; without it this
//! says so and ends.

mod rdma;

use std::path::Path;
use std::process::Command;

use rack::guests::UmlOutcome;
use rdma::{Device, kernel, run_hosts};

/// Runs a program of `ibverbs-utils` on both sides, with a cable that loses this part of the frames.
fn go(devices: [Device; 2], program: &str, loss: f64) -> UmlOutcome {
    let client = devices[0].host("client", &format!("sleep 0.1\n{program} server"));
    run(&client, &devices[1].host("server", program), loss)
}

fn run(client: &str, server: &str, loss: f64) -> UmlOutcome {
    run_text(&format!(
        "{client}{server}\
         [[cable]]\nbetween = [\"client\", \"server\"]\nmetres = 1\nfaults = {{ loss = {loss} }}\n",
    ))
}

/// Runs hosts and cables until both ends are done.
fn run_text(rack: &str) -> UmlOutcome {
    run_hosts(rack, &["client", "server"])
}

/// A program of this directory, in /run/program of a guest that runs these commands first.
fn compiled(name: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(directory.path().join(name))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.c")))
        .arg("-libverbs")
        .status()
        .expect("a compiler");
    assert!(status.success(), "{name}.c is not compiled");
    let mount = format!(
        "mkdir /run/program\nmount -t hostfs none /run/program -o {}\n",
        directory.path().display()
    );
    (directory, mount)
}

/// SEND, WRITE, READ and atomics of many lengths, everywhere in memory and in several segments, against itself, over a cable that
/// loses frames, and against the kernel's RoCEv2. `IPNUMA_SEED` draws other segments.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn every_byte_of_every_operation_is_right() {
    if !kernel() {
        return;
    }
    let (_directory, mount) = compiled("verbs_bytes");
    let seed = std::env::var("IPNUMA_SEED").unwrap_or_else(|_| "1".into());
    println!("IPNUMA_SEED={seed}");
    for (shared, other, loss) in [
        ("", Device::Uzura, 0.0),
        ("", Device::Uzura, 0.005),
        ("", Device::Software, 0.0),
        ("-s", Device::Uzura, 0.005),
        ("-s", Device::Software, 0.0),
    ] {
        let program = format!("/run/program/verbs_bytes {shared} {seed}");
        let client = Device::Uzura.host("client", &format!("{mount}sleep 0.1\n{program} server"));
        let server = other.host("server", &format!("{mount}{program}"));
        let outcome = run(&client, &server, loss);
        assert_eq!(outcome.faults.lost > 0, loss > 0.0);
        for guest in &outcome.guests {
            let out = String::from_utf8_lossy(&guest.stdout);
            assert_eq!(out, "every byte was right\n", "{}", guest.name);
        }
    }
}

/// Two subnets with the switch in RTL between: the frames' next hop is the switch.
fn through_the_switch(client: &str, server: &str) -> UmlOutcome {
    let address =
        |text: &str, ip: &str| text.replace("\"10g\"", &format!("\"10g\", ip = \"{ip}\""));
    let text = format!(
        "{}{}[[switch]]\nname = \"sw\"\nrate = \"10g\"\nports = 2\n\
         port = [{{ number = 0, address = \"10.0.0.254/24\" }}, {{ number = 1, address = \"10.0.1.254/24\" }}]\n\
         [[cable]]\nbetween = [\"client\", \"sw:0\"]\nmetres = 1\n\
         [[cable]]\nbetween = [\"server\", \"sw:1\"]\nmetres = 1\n",
        address(client, "10.0.0.1"),
        address(server, "10.0.1.1"),
    );
    run_text(&text)
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn verbs_go_through_the_switch_in_rtl() {
    if !kernel() {
        return;
    }
    let pingpong = "ibv_rc_pingpong -d DEVICE -g 1 -c -n 20 -s 3000";
    let client = Device::Uzura.host("client", &format!("sleep 0.1\n{pingpong} server"));
    through_the_switch(&client, &Device::Uzura.host("server", pingpong));
}

/// More programs than there are queue pairs, and shared queues, come and are killed; then the driver goes and comes back. What they had is
/// there for who comes behind them.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn what_a_killed_program_had_is_free_again() {
    if !kernel() {
        return;
    }
    const KILLED: &str = "for i in $(seq 70); do\n\
        timeout --signal KILL 0.005 ibv_rc_pingpong -d DEVICE -g 1 > /dev/null || true\ndone\n\
        for i in $(seq 20); do\n\
        timeout --signal KILL 0.005 ibv_srq_pingpong -d DEVICE -g 1 > /dev/null || [ $? = 137 ]\ndone\n\
        rmmod uzura\n[ ! -e /sys/class/infiniband/uzura0 ]\n\
        insmod /run/ipnuma/uzura.ko mac=$IPNUMA_MAC\n";
    let pingpong = "ibv_rc_pingpong -d DEVICE -g 1 -e -c -n 5 -s 5000";
    let client = Device::Uzura.host("client", &format!("{KILLED}sleep 0.1\n{pingpong} server"));
    let server = Device::Uzura.host("server", pingpong);
    run(&client, &server, 0.0);
}

/// Microseconds of an iteration, as the client has them.
fn iteration_us(outcome: &UmlOutcome) -> f64 {
    let client = outcome.guest("client").expect("it is there");
    let out = String::from_utf8_lossy(&client.stdout);
    let words: Vec<&str> = out.split_ascii_whitespace().collect();
    let unit = words.iter().position(|word| *word == "usec/iter");
    unit.and_then(|at| words[at - 1].parse().ok())
        .unwrap_or_else(|| panic!("no time is in:\n{out}"))
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn a_pingpong_of_verbs_is_whole_and_the_same_twice() {
    if !kernel() {
        return;
    }
    // Polling; the bytes go with the doorbell.
    let run = || {
        go(
            [Device::Uzura; 2],
            "ibv_rc_pingpong -d DEVICE -g 1 -c -n 100 -s 64",
            0.0,
        )
    };
    let first = run();
    // Two messages: constants of the platform, posted writes of the CPU, the NICs. 4.03 us one way is the document's figure for
    // its own engine.
    let time = iteration_us(&first);
    assert!((4.0..8.06).contains(&time), "{time} us an iteration");
    assert_eq!(first.digest(), run().digest(), "two runs are the same");
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn it_speaks_to_the_kernels_rocev2_in_software() {
    if !kernel() {
        return;
    }
    for devices in [
        [Device::Software, Device::Uzura],
        [Device::Uzura, Device::Software],
    ] {
        go(
            devices,
            "ibv_rc_pingpong -d DEVICE -g 1 -e -c -n 20 -s 3000",
            0.0,
        );
    }
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn datagrams_and_interrupts_and_loss() {
    if !kernel() {
        return;
    }
    go(
        [Device::Uzura; 2],
        "ibv_ud_pingpong -d DEVICE -g 1 -e -n 50 -s 1000",
        0.0,
    );
    // A lost last packet is sent again after the time-out that the program sets: 67 ms.
    let outcome = go(
        [Device::Uzura; 2],
        "ibv_rc_pingpong -d DEVICE -g 1 -e -c -n 20 -s 20000",
        0.005,
    );
    assert!(outcome.faults.lost > 0, "nothing was lost");
}

/// Several queue pairs receive from one queue: of `ibverbs-utils`, with a cable that loses frames, and against the kernel's RoCEv2.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn queue_pairs_share_a_receive_queue() {
    if !kernel() {
        return;
    }
    use Device::{Software, Uzura};
    for (devices, options, loss) in [
        ([Uzura, Uzura], "-q 4 -r 30 -n 40 -s 3000", 0.0),
        ([Uzura, Uzura], "-e -q 8 -r 100 -n 60 -s 5000", 0.005),
        ([Uzura, Software], "-e -q 4 -r 30 -n 40 -s 3000", 0.0),
        ([Software, Uzura], "-e -q 4 -r 30 -n 40 -s 3000", 0.0),
    ] {
        let program = format!("timeout 5 ibv_srq_pingpong -d DEVICE -g 1 -c {options}");
        let outcome = go(devices, &program, loss);
        assert_eq!(outcome.faults.lost > 0, loss > 0.0);
    }
}

/// Every byte that many queue pairs send to a shared queue, the queue's events, and what a program may have of them.
/// `IPNUMA_SEED` draws other segments.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn a_shared_receive_queue_tells_of_its_limit_and_of_a_last_request() {
    if !kernel() {
        return;
    }
    let (_directory, mount) = compiled("verbs_shared");
    let seed = std::env::var("IPNUMA_SEED").unwrap_or_else(|_| "1".into());
    println!("IPNUMA_SEED={seed}");
    let program = format!("timeout 5 /run/program/verbs_shared {seed}");
    for (other, loss) in [
        (Device::Uzura, 0.0),
        (Device::Uzura, 0.005),
        (Device::Software, 0.0),
    ] {
        let client = Device::Uzura.host("client", &format!("{mount}sleep 0.1\n{program} server"));
        let server = other.host("server", &format!("{mount}{program}"));
        let outcome = run(&client, &server, loss);
        assert_eq!(outcome.faults.lost > 0, loss > 0.0);
        for guest in &outcome.guests {
            let out = String::from_utf8_lossy(&guest.stdout);
            assert_eq!(out, "every message was right\n", "{}", guest.name);
        }
    }
}

/// What may not be asked is refused, what ends says so, and who leaves with a request under way leaves nothing to wait for.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn what_verbs_refuse_is_refused() {
    if !kernel() {
        return;
    }
    let (_directory, mount) = compiled("verbs_refused");
    let client = Device::Uzura.host("client", &format!("{mount}/run/program/verbs_refused"));
    let outcome = run(&client, &Device::Uzura.host("server", "sleep 0.5"), 0.0);
    let client = outcome.guest("client").expect("it is there");
    let out = String::from_utf8_lossy(&client.stdout);
    assert_eq!(out, "all as verbs have it\n");
    // 300 ms asleep are 75 million edges of the PCIe clock alone, if anything keeps a NIC awake.
    assert!(
        outcome.effort.edges < 20_000_000,
        "{} edges",
        outcome.effort.edges
    );
}

/// What a program of perftest printed for 64 bytes in this column, at one of the guests.
fn perftest(outcome: &UmlOutcome, guest: &str, column: &str) -> f64 {
    let out = String::from_utf8_lossy(&outcome.guest(guest).expect("it is there").stdout);
    let mut lines = out.lines().skip_while(|line| !line.contains("#bytes"));
    let heads = lines.next().unwrap_or_default();
    // Some heads have two words.
    let heads = heads
        .replace("BW ", "BW-")
        .replace(" percentile", "-percentile");
    let at = heads
        .split_ascii_whitespace()
        .position(|head| head.starts_with(column));
    let values = lines.next().unwrap_or_default();
    at.and_then(|at| values.split_ascii_whitespace().nth(at)?.parse().ok())
        .unwrap_or_else(|| panic!("no {column} is in:\n{out}"))
}

/// perftest times with the processor's counter, which is the guest's clock.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn perftest_measures_simulated_time() {
    if !kernel() {
        return;
    }
    let latency = |program: &str| {
        let program = format!("{program} -d DEVICE -x 1 -n 100 -s 64");
        go([Device::Uzura; 2], &program, 0.0)
    };
    let (first, second) = (latency("ib_send_lat"), latency("ib_send_lat"));
    assert_eq!(first.digest(), second.digest(), "two runs are the same");
    let typical = ["client", "server"].map(|guest| perftest(&first, guest, "t_typical"));
    // As ib_send_lat this posts a buffer for each message (-r 2), but reads no clock; that takes 256 ns.
    let pingpong = go(
        [Device::Uzura; 2],
        "ibv_rc_pingpong -d DEVICE -g 1 -r 2 -n 100 -s 64",
        0.0,
    );
    let half = iteration_us(&pingpong) / 2.0 + 0.256;
    for typical in typical {
        assert!(
            (typical / half - 1.0).abs() < 0.05,
            "{typical} us, and {half} us of ibv_rc_pingpong"
        );
    }
    let read = perftest(&latency("ib_read_lat"), "client", "t_typical");
    assert!((2.0..5.0).contains(&read), "ib_read_lat: {read} us");

    // MB of 2^20 bytes: 10G less the headers of packets of 1 KB. Four atomics are under way at a time.
    for (program, bytes, column, range) in [
        ("ib_send_bw", "-s 65536", "BW-average", 900.0..1192.0),
        ("ib_read_bw", "-s 65536", "BW-average", 900.0..1192.0),
        ("ib_write_bw", "-s 65536", "BW-average", 900.0..1192.0),
        ("ib_atomic_bw", "", "MsgRate", 0.5..5.0),
    ] {
        let program = format!("{program} -d DEVICE -x 1 -n 30 {bytes}");
        let outcome = go([Device::Uzura; 2], &program, 0.0);
        let figure = perftest(&outcome, "client", column);
        assert!(range.contains(&figure), "{program}: {figure}");
    }
}

/// `rdma_cm` speaks over queue pair 1: a connection made, used and ended, its buffers given back.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn rdma_cm_connects_through_the_switch_and_to_the_kernels_rocev2() {
    if !kernel() {
        return;
    }
    let hosts = |devices: [Device; 2], client: &str, server: &str| {
        [
            devices[0].host("client", &format!("sleep 0.1\ntimeout 2 {client}")),
            devices[1].host("server", &format!("timeout 2 {server}")),
        ]
    };
    let (client, server) = (
        "rping -c -v -C 5 -S 1000 -a server",
        "rping -s -v -C 5 -S 1000",
    );
    let [first, second] = hosts([Device::Uzura; 2], client, server);
    let switched = [(); 2].map(|()| through_the_switch(&first, &second));
    assert_eq!(switched[0].digest(), switched[1].digest());
    for guest in &switched[0].guests {
        let out = String::from_utf8_lossy(&guest.stdout);
        assert_eq!(out.matches("ping data: rdma-ping-").count(), 5, "{out}");
    }
    for devices in [
        [Device::Software, Device::Uzura],
        [Device::Uzura, Device::Software],
    ] {
        let [first, second] = hosts(devices, client, server);
        run(&first, &second, 0.0);
    }
    // Two connections at a time, over a cable that loses what managers send, too.
    let (client, server) = ("ucmatose -s server -c 2 -C 10", "ucmatose -c 2 -C 10");
    let [first, second] = hosts([Device::Uzura; 2], client, server);
    let outcome = run(&first, &second, 0.02);
    assert!(outcome.faults.lost > 0, "nothing was lost");
}

/// libfabric's verbs provider: its connections made by `rdma_cm`, reliable datagrams over them, and UD.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn libfabric_runs_over_it() {
    if !kernel() {
        return;
    }
    for (provider, size) in [
        ("-p verbs -e msg", 64),
        ("-p verbs -e msg", 65536),
        // By default it wants a completion queue for 256 peers.
        ("-p \"verbs;ofi_rxm\" -e rdm", 64),
        ("-p verbs -e dgram", 64),
    ] {
        let program = format!(
            "export FI_UNIVERSE_SIZE=2 FI_VERBS_GID_IDX=1\n\
             timeout 2 fi_pingpong {provider} -c -I 50 -S {size}"
        );
        let outcome = go([Device::Uzura; 2], &program, 0.0);
        let client = outcome.guest("client").expect("it is there");
        let out = String::from_utf8_lossy(&client.stdout);
        let values = out.lines().nth(1).unwrap_or_default();
        let us = values.split_ascii_whitespace().nth(6);
        let us: f64 = us.and_then(|us| us.parse().ok()).expect(&out);
        // Connecting is part of it for ofi_rxm. A look in vain that sleeps would cost a millisecond each.
        assert!(values.contains("=50") && us < 300.0, "{provider}: {out}");
    }
}

/// UCX's reliable connections, which receive from a shared queue, and its datagrams, over which they connect.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn ucx_runs_over_it() {
    if !kernel() {
        return;
    }
    for (transport, test, loss, most_us) in [
        ("rc_v", "tag_lat -n 100 -w 10 -s 64", 0.0, 6.0),
        ("rc_v", "tag_bw -n 30 -w 2 -s 65536", 0.0, 100.0),
        ("rc_v", "tag_lat -n 100 -w 10 -s 20000", 0.005, 1e5),
        ("ud_v", "tag_lat -n 100 -w 10 -s 64", 0.0, 100.0),
    ] {
        // Its own spinlock never ends here when the one that holds it has to wait: time passes in calls only. A lost last packet
        // would take a second by default.
        let program = format!(
            "export UCX_TLS={transport} UCX_USE_MT_MUTEX=y UCX_RC_TIMEOUT=2ms\n\
             timeout 5 ucx_perftest -t {test}"
        );
        let outcome = go([Device::Uzura; 2], &program, loss);
        assert_eq!(outcome.faults.lost > 0, loss > 0.0);
        let client = outcome.guest("client").expect("it is there");
        let out = String::from_utf8_lossy(&client.stdout);
        let values = out.lines().find(|line| line.starts_with("Final:"));
        let us = values.and_then(|values| values.split_ascii_whitespace().nth(3));
        let us: f64 = us.and_then(|us| us.parse().ok()).expect(&out);
        assert!(us > 0.0 && us < most_us, "{transport} {test}: {out}");
    }
}

/// Both ends are one machine, as many try it first.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn a_machine_reaches_itself() {
    if !kernel() {
        return;
    }
    let both = |program: &str, server: &str, to: &str| {
        format!(
            "timeout 2 {program} {server} > /run/server.txt &\nsleep 0.1\n\
             timeout 2 {program} {to}\nwait $!\n! grep 'invalid data' /run/server.txt\n"
        )
    };
    let rc = both(
        "ibv_rc_pingpong -d DEVICE -g 1 -c -n 30 -s 3000",
        "",
        "localhost",
    );
    let ud = both(
        "ibv_ud_pingpong -d DEVICE -g 1 -c -n 30 -s 1000",
        "",
        "localhost",
    );
    let cm = both("rping -v -C 3", "-s", "-c -a 10.0.0.1");
    let client = Device::Uzura
        .host("client", &format!("{rc}{ud}{cm}"))
        .replace("\"10g\"", "\"10g\", ip = \"10.0.0.1\"");
    let outcome = run(&client, &Device::Uzura.host("server", "true"), 0.0);
    let client = outcome.guest("client").expect("it is there");
    let out = String::from_utf8_lossy(&client.stdout);
    assert_eq!(out.matches(" iters in ").count(), 2, "{out}");
    assert_eq!(out.matches("ping data: rdma-ping-").count(), 3, "{out}");
}
