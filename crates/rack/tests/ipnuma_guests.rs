// SPDX-License-Identifier: Apache-2.0
//! Two Linux guests with the IP-NUMA NIC in RTL: the driver, the `rack` back end of libipnuma, and a program on both sides:
//! `examples/guest` of crate `host`, and the ping-pong of the dissertation's figure 4.3 in C; and the same beside curl over
//! the kernel's TCP, with one NIC and one cable for both. Needs the kernel of `tools/uml-kernel`; without it this says so and
//! ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use rack::Topology;
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};

const ROUNDS: u32 = 20;
const LOOPS: u32 = 200;

fn kernel() -> bool {
    match uml::kernel() {
        Ok(_) => true,
        Err(error) => {
            // CI sets this, so that a missing kernel is no success there.
            assert!(std::env::var_os("IPNUMA_UML_REQUIRED").is_none(), "{error}");
            skip::skip!("{error}");
            false
        }
    }
}

/// The directory of this profile in cargo's target directory.
fn profile() -> PathBuf {
    let executable = std::env::current_exe().expect("this test has a name");
    let profile = executable.parent().and_then(Path::parent);
    profile
        .expect("tests are in target/PROFILE/deps")
        .to_owned()
}

/// Where the guests' program is: an example of another crate, in the same target directory. Guests see it by a mount of
/// its own, since their /tmp is not the host's.
fn programs() -> PathBuf {
    let programs = profile().join("examples");
    assert!(
        programs.join("guest").exists(),
        "{}/guest is not built: cargo build -p host --examples",
        programs.display()
    );
    programs
}

/// Compiles examples in C and C++ against the C library, all in a directory of their own.
fn compiled(programs: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let built = profile().join("libipnuma.so");
    assert!(
        built.exists(),
        "{} is not built: cargo build -p libipnuma",
        built.display()
    );
    let library = directory.path().join("libipnuma.so.0");
    std::fs::copy(&built, &library).expect("room for the library");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libipnuma");
    for (source, compiler) in programs {
        let source = sources.join("examples/c").join(source);
        let program = directory.path().join(source.file_stem().expect("a name"));
        let status = Command::new(compiler)
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(sources.join("include"))
            .args([&source, &library])
            .args(["-Wl,-rpath,$ORIGIN", "-o"])
            .arg(program)
            .status()
            .expect("a compiler");
        assert!(status.success(), "{} is not compiled", source.display());
    }
    directory
}

/// Where a guest of these tests is, and how it reaches the other.
struct Network {
    /// Kind of the NIC.
    nic: &'static str,
    /// Of both guests.
    ips: [&'static str; 2],
    /// More about the other: how to reach it, for libipnuma.
    way: &'static str,
    /// The rest of the topology.
    cables: &'static str,
}

const CABLE: Network = Network {
    nic: "ipnuma",
    ips: ["10.0.0.1", "10.0.0.2"],
    way: "",
    cables: "[[cable]]\nbetween = [\"ping\", \"pong\"]\nmetres = 1\n",
};

/// One NIC for everything, and the switch in RTL, which learns its neighbours from the guests' kernels.
const SHARED: Network = Network {
    nic: "shared",
    ips: ["10.0.0.1", "10.0.1.1"],
    way: "network_bits = 24\ngateway_mac = \"GATEWAY\"\n",
    cables: "[[switch]]\nname = \"sw\"\nrate = \"10g\"\nports = 2\nneighbours = \"learn\"\n\
             port = [{ number = 0, address = \"10.0.0.254/24\" }, { number = 1, address = \"10.0.1.254/24\" }]\n\
             [[cable]]\nbetween = [\"ping\", \"sw:0\"]\nmetres = 10\n\
             [[cable]]\nbetween = [\"pong\", \"sw:1\"]\nmetres = 10\n",
};

/// A guest that knows the other as its peer, and finds the other's token in a directory of the host.
fn host(
    name: &str,
    own: u8,
    network: &Network,
    tokens: &Path,
    programs: &Path,
    command: &str,
) -> String {
    let machine = |number: u8| {
        let ip = network.ips[usize::from(number) - 1];
        format!("address = \"{ip}\"\nmac = \"02:00:00:00:00:0{number}\"\n")
    };
    let gateway = format!("02:00:00:01:00:0{own}");
    format!(
        "[[host]]\nname = \"{name}\"\nkind = \"uml\"\nneighbours = \"{neighbours}\"\n\
         nic = {{ kind = \"{nic}\", rate = \"10g\", ip = \"{ip}\" }}\n\
         command = '''\n\
         set -e\nmkdir /run/tokens /run/program\n\
         mount -t hostfs none /run/tokens -o {}\nmount -t hostfs none /run/program -o {}\n\
         cat > /tmp/config.toml <<END\nbackend = \"rack\"\n[rack]\n{}{}[[rack.peer]]\n{}\
         session = 1\npeer_session = 1\nepoch = 5\nEND\n\
         export IPNUMA_CONFIG=/tmp/config.toml\n{command}\n'''\n",
        tokens.display(),
        programs.display(),
        machine(own),
        network.way.replace("GATEWAY", &gateway),
        machine(3 - own),
        nic = network.nic,
        ip = network.ips[usize::from(own) - 1],
        neighbours = if network.nic == "shared" {
            "learn"
        } else {
            "static"
        },
    )
}

/// Runs `program`, from a directory of the host, in guests `ping` and `pong`: its name is followed by which side it is, the
/// directory of the tokens and `arguments`.
fn go(programs: &Path, program: &str, sides: [&str; 2], arguments: &str) -> UmlOutcome {
    let commands =
        sides.map(|side| format!("/run/program/{program} {side} /run/tokens {arguments}"));
    go_with(&CABLE, programs, &commands, "\"ping\", \"pong\"")
}

/// Runs commands in guests `ping` and `pong` until those of `until` have ended.
fn go_with(network: &Network, programs: &Path, commands: &[String; 2], until: &str) -> UmlOutcome {
    let tokens = tempfile::tempdir().expect("a directory");
    let guest = |name: &str, own: u8, command: &str| {
        host(name, own, network, tokens.path(), programs, command)
    };
    let text = format!(
        "platform = \"keio-2016\"\nseed = 1\n{}{}{}\
         [program]\nkind = \"uml\"\nuntil = [{until}]\n",
        guest("ping", 1, &commands[0]),
        guest("pong", 2, &commands[1]),
        network.cables,
    );
    let topology = Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound");
    let outcome = run_uml(&topology, &Options::default(), &rtl).expect("the run ends");
    for guest in &outcome.guests {
        let out = String::from_utf8_lossy(&guest.stdout);
        let errors = String::from_utf8_lossy(&guest.stderr);
        println!("{}: {:?}\n{out}{errors}", guest.name, guest.report);
        if until.contains(&guest.name) {
            assert_eq!(guest.status, Some(0), "{errors}\n{}", guest.console);
        }
        let complaint = ["WARNING", "BUG", "Oops"].map(|word| guest.console.contains(word));
        assert_eq!(complaint, [false; 3], "{}", guest.console);
    }
    println!(
        "{} simulated, {:.1} s wall, hash {}",
        outcome.simulated,
        outcome.wall_seconds,
        outcome.digest()
    );
    outcome
}

fn said(outcome: &UmlOutcome, name: &str) -> String {
    let guest = outcome.guest(name).expect("it is there");
    String::from_utf8_lossy(&guest.stdout).into_owned()
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_line_goes_there_and_back_in_what_constants_and_rtl_take() {
    if !kernel() {
        return;
    }
    let rounds = ROUNDS.to_string();
    let run = || go(&programs(), "guest", ["ping", "pong"], &rounds);
    let first = run();
    let out = said(&first, "ping");
    let times: Vec<u64> = out
        .split_once("round trips: ")
        .expect("it says so")
        .1
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    // One way: 254 ns down, 300 of the PHYs, 5 of the cable, 254 up, all constants; the NICs' part is 190 ns for 64 bytes,
    // and up to 64 more where a store waits behind an acknowledgement of its own.
    let constants = 2 * (254 + 300 + 5 + 254);
    let (least, median) = (times[0], times[1]);
    for time in [least, median] {
        let nics = time.checked_sub(constants).expect("no faster than light");
        assert!(
            (360..=500).contains(&nics),
            "{nics} ns of {time} are the NICs'"
        );
    }
    assert!(
        out.contains("after the revocation: the server has revoked"),
        "{out}"
    );
    let second = run();
    assert_eq!(first.digest(), second.digest(), "two runs are the same");
    assert_eq!(
        out.as_bytes(),
        second.guest("ping").expect("it is there").stdout
    );
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn the_loop_of_figure_4_3_runs_as_it_is_printed() {
    if !kernel() {
        return;
    }
    let programs = compiled(&[("figure43.c", "cc")]);
    let arguments = format!("{LOOPS} wait");
    let run = || go(programs.path(), "figure43", ["ping", "pong"], &arguments);
    let first = run();
    let out = said(&first, "ping");
    let words: Vec<&str> = out.split_ascii_whitespace().collect();
    assert_eq!(words[..2], [LOOPS.to_string().as_str(), "loops:"], "{out}");
    let one_way: f64 = words[4].parse::<f64>().expect("nanoseconds") / 2.0;
    // What `ipnuma pingpong` takes apart, between hosts that are modelled: 857.6 ns.
    let (modelled, near) = (857.6, 0.05);
    assert!(
        (one_way / modelled - 1.0).abs() < near,
        "one way takes {one_way} ns, {modelled} between modelled hosts"
    );
    assert_eq!(first.digest(), run().digest(), "two runs are the same");
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_queue_and_rows_of_a_matrix_are_plain_stores_into_the_other_machine() {
    if !kernel() {
        return;
    }
    let programs = compiled(&[("queue.c", "cc"), ("matrix.cpp", "c++")]);
    let queue = go(
        programs.path(),
        "queue",
        ["receiver", "sender"],
        &format!("{LOOPS} wait"),
    );
    assert_eq!(said(&queue, "ping"), "200 messages received, all whole\n");
    let matrix = go(programs.path(), "matrix", ["owner", "helper"], "24");
    assert_eq!(
        said(&matrix, "ping"),
        "24 rows, 12 of them from the helper, all right\n"
    );
    // Collected to lines: 12 rows of 192 bytes are 36 of them, and the signal; no cell went alone.
    let owner = matrix.guest("ping").expect("it is there");
    assert_eq!(owner.report.dma_writes, 37);
}

/// Megabytes that curl fetches, and loops of the ping-pong meanwhile.
const FILE_MB: usize = 2;
const SHARED_LOOPS: u32 = 2_000;

/// The words behind `key` in what a guest printed, as numbers.
fn times(out: &str, key: &str) -> (f64, f64) {
    let line = out.lines().find_map(|line| line.strip_prefix(key));
    let line = line.unwrap_or_else(|| panic!("no line {key} in:\n{out}"));
    let words: Vec<f64> = line
        .split_ascii_whitespace()
        .map(|word| word.parse().expect("seconds"))
        .collect();
    (words[0], words[1])
}

/// The kernel's TCP and the window to the other machine's memory share NIC, cable and switch: both are whole, and the same
/// twice. The switch asks for addresses, and only the kernels answer.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn curl_and_the_ping_pong_share_one_nic() {
    if !kernel() {
        return;
    }
    let programs = compiled(&[("figure43.c", "cc")]);
    let bytes = FILE_MB * 1_000_000;
    let data = format!("seq 1 100000000 | head -c {bytes}");
    let ping = format!(
        "{data} > /tmp/expected\n\
         sleep 2\n\
         (began=$(date +%s.%N)\n\
         /run/program/figure43 ping /run/tokens {SHARED_LOOPS} wait\n\
         echo ping-pong $began $(date +%s.%N)) &\n\
         began=$(date +%s.%N)\n\
         curl -sS -o /tmp/got http://pong:8000/data\n\
         echo curl $began $(date +%s.%N)\n\
         cmp /tmp/got /tmp/expected\n\
         wc -c < /tmp/got\n\
         wait $!"
    );
    let pong = format!(
        "mkdir /tmp/www\n{data} > /tmp/www/data\n\
         /usr/bin/python3 -m http.server --directory /tmp/www 8000 &\n\
         /run/program/figure43 pong /run/tokens {SHARED_LOOPS} wait\n\
         wait"
    );
    let commands = [ping, pong];
    let run = || go_with(&SHARED, programs.path(), &commands, "\"ping\"");
    let first = run();
    let out = said(&first, "ping");
    assert!(out.contains(&format!("\n{bytes}\n")), "{out}");
    assert!(out.contains(&format!("{SHARED_LOOPS} loops:")), "{out}");
    // They did run at once.
    let (curl, pong) = (times(&out, "curl "), times(&out, "ping-pong "));
    let both = curl.1.min(pong.1) - curl.0.max(pong.0);
    assert!(
        both > 0.5 * (curl.1 - curl.0),
        "only {both} s at once:\n{out}"
    );
    assert_eq!(first.digest(), run().digest(), "two runs are the same");
}
