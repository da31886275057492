// SPDX-License-Identifier: Apache-2.0
//! Two Linux guests with the IP-NUMA NIC in RTL: the driver, the `rack` back end of libipnuma, and a program on both sides:
//! `examples/guest` of crate `host`, one that speaks to the driver itself, and the ping-pong of the dissertation's figure 4.3
//! in C; and that beside curl over the kernel's TCP, with one NIC and one cable for both. Sessions are sealed but where the
//! dissertation's times are measured, or with `IPNUMA_PLAIN=1`. Needs the kernel of `tools/uml-kernel`; without it this says so
//! and ends.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rack::Topology;
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};

const ROUNDS: u32 = 20;
const LOOPS: u32 = 200;
/// The machine that `guest` seals a session with, and nobody has.
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 3];

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

/// Compiles a program of `tests` that needs nothing but the driver, into a directory of its own.
fn speaks_to_the_driver(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("../../linux/ipnuma"))
        .arg(here.join("tests").join(name).with_extension("c"))
        .arg("-o")
        .arg(directory.path().join(name))
        .status()
        .expect("a compiler");
    assert!(status.success(), "{name}.c is not compiled");
    directory
}

/// Whether sessions are sealed: they are, unless it is the time without that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seal {
    Sealed,
    Clear,
}

impl Seal {
    /// Sealed, or, where tests are to run in the clear, not.
    fn usual() -> Self {
        match keyed::plain() {
            true => Self::Clear,
            false => Self::Sealed,
        }
    }

    /// Shell lines that seal the sessions of a configuration, or none. `seal` can be called again by its path.
    fn lines(self, config: &str) -> String {
        match self {
            Self::Clear => String::new(),
            Self::Sealed => format!(
                "mkdir /run/seal\nmount -t hostfs none /run/seal -o {}\nIPNUMA_CONFIG={config} /run/seal/seal\n",
                programs().display()
            ),
        }
    }

    /// Looks at all that went from NIC to NIC.
    fn check(self, outcome: &UmlOutcome) {
        let frames = outcome.record.frames.iter();
        let frames = frames.map(|captured| &captured.frame.bytes[..]);
        let ours: Vec<&[u8]> = frames
            .filter(|frame| {
                frame[..6] != NOBODY
                    && frame.get(23) == Some(&17)
                    && frame.get(36..38) == Some(&wire::UDP_PORT.to_be_bytes())
            })
            .collect();
        let sealed = ours
            .iter()
            .filter(|frame| frame[wire::PAYLOAD_OFFSET] == wire::SEAL_MAGIC)
            .count();
        println!("{} frames between the NICs, {sealed} sealed", ours.len());
        let expected = match self {
            Self::Sealed => ours.len(),
            Self::Clear => 0,
        };
        assert!(!ours.is_empty());
        assert_eq!(sealed, expected);
    }
}

/// A guest that knows the other as its peer, and finds the other's token in a directory of the host.
fn host(name: &str, own: u8, tokens: &Path, programs: &Path, seal: Seal, command: &str) -> String {
    let machine =
        |number: u8| format!("address = \"10.0.0.{number}\"\nmac = \"02:00:00:00:00:0{number}\"\n");
    format!(
        "[[host]]\nname = \"{name}\"\nkind = \"uml\"\n\
         nic = {{ kind = \"ipnuma\", rate = \"10g\", ip = \"10.0.0.{own}\" }}\n\
         command = '''\n\
         set -e\nmkdir /run/tokens /run/program\n\
         mount -t hostfs none /run/tokens -o {}\nmount -t hostfs none /run/program -o {}\n\
         cat > /tmp/config.toml <<END\nbackend = \"rack\"\n[rack]\n{}[[rack.peer]]\n{}\
         session = 1\npeer_session = 1\nepoch = 5\nEND\n\
         {}export IPNUMA_CONFIG=/tmp/config.toml\n/run/program/{command}\n'''\n",
        tokens.display(),
        programs.display(),
        machine(own),
        machine(3 - own),
        seal.lines("/tmp/config.toml"),
    )
}

/// Runs `program`, from a directory of the host, in guests `ping` and `pong`: its name is followed by which side it is, the
/// directory of the tokens and `arguments`.
fn go(programs: &Path, program: &str, sides: [&str; 2], seal: Seal, arguments: &str) -> UmlOutcome {
    let tokens = tempfile::tempdir().expect("a directory");
    let guest = |name: &str, own, side: &str| {
        let command = format!("{program} {side} /run/tokens {arguments}");
        host(name, own, tokens.path(), programs, seal, &command)
    };
    let text = cabled([guest("ping", 1, sides[0]), guest("pong", 2, sides[1])]);
    run_text(&text, &["ping", "pong"], seal)
}

/// The topology of two guests and a cable.
fn cabled([ping, pong]: [String; 2]) -> String {
    format!(
        "platform = \"keio-2016\"\nseed = 1\n{ping}{pong}\
         [[cable]]\nbetween = [\"ping\", \"pong\"]\nmetres = 1\n\
         [program]\nkind = \"uml\"\nuntil = [\"ping\", \"pong\"]\n"
    )
}

/// Runs a topology; `awaited` are the guests whose commands must have ended well.
fn run_text(text: &str, awaited: &[&str], seal: Seal) -> UmlOutcome {
    let topology = Topology::parse(text, Path::new("test.toml")).expect("the topology is sound");
    let options = Options {
        keep: usize::MAX,
        ..Options::default()
    };
    let outcome = run_uml(&topology, &options, &rtl).expect("the run ends");
    for guest in &outcome.guests {
        let out = String::from_utf8_lossy(&guest.stdout);
        let errors = String::from_utf8_lossy(&guest.stderr);
        println!("{}: {:?}\n{out}{errors}", guest.name, guest.report);
        if awaited.contains(&guest.name.as_str()) {
            assert_eq!(guest.status, Some(0), "{errors}\n{}", guest.console);
        }
        let complaint = ["WARNING", "BUG", "Oops"].map(|word| guest.console.contains(word));
        assert_eq!(complaint, [false; 3], "{}", guest.console);
    }
    println!(
        "{:.1} s wall, hash {}",
        outcome.wall_seconds,
        outcome.digest()
    );
    seal.check(&outcome);
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
    let run = || go(&programs(), "guest", ["ping", "pong"], Seal::Clear, &rounds);
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
    let run = |seal| {
        let sides = ["ping", "pong"];
        let outcome = go(programs.path(), "figure43", sides, seal, &arguments);
        let out = said(&outcome, "ping");
        let words: Vec<&str> = out.split_ascii_whitespace().collect();
        assert_eq!(words[..2], [LOOPS.to_string().as_str(), "loops:"], "{out}");
        let trip: f64 = words[4].parse().expect("nanoseconds");
        (outcome.digest(), trip / 2.0)
    };
    let (digest, one_way) = run(Seal::Clear);
    // What `ipnuma pingpong` takes apart, between hosts that are modelled: 857.6 ns.
    let (modelled, near) = (857.6, 0.05);
    assert!(
        (one_way / modelled - 1.0).abs() < near,
        "one way takes {one_way} ns, {modelled} between modelled hosts"
    );
    assert_eq!(digest, run(Seal::Clear).0, "two runs are the same");
    // What the seal costs, most of it in the NICs.
    let (_, sealed) = run(Seal::Sealed);
    println!("one way takes {sealed} ns sealed, {one_way} in the clear");
    assert!((130.0..160.0).contains(&(sealed - one_way)), "{sealed} ns");
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_queue_a_hash_table_and_rows_of_a_matrix_are_plain_stores_into_the_other_machine() {
    if !kernel() {
        return;
    }
    let programs = compiled(&[
        ("queue.c", "cc"),
        ("hashtable.c", "cc"),
        ("matrix.cpp", "c++"),
    ]);
    let queue = go(
        programs.path(),
        "queue",
        ["receiver", "sender"],
        Seal::usual(),
        &format!("{LOOPS} wait"),
    );
    assert_eq!(said(&queue, "ping"), "200 messages received, all whole\n");
    let table = go(
        programs.path(),
        "hashtable",
        ["owner", "writer"],
        Seal::usual(),
        &format!("{LOOPS} wait"),
    );
    assert_eq!(said(&table, "ping"), "200 changes, every value was whole\n");
    let matrix = go(
        programs.path(),
        "matrix",
        ["owner", "helper"],
        Seal::usual(),
        "24",
    );
    assert_eq!(
        said(&matrix, "ping"),
        "24 rows, 12 of them from the helper, all right\n"
    );
    // Collected to lines: 12 rows of 192 bytes are 36 of them, and the signal; no cell went alone.
    let owner = matrix.guest("ping").expect("it is there");
    assert_eq!(owner.report.dma_writes, 37);
}

/// Who flushes to a machine that does not answer gives up after a while; the NIC answers much later, and the mark's place is
/// nobody else's until then: behind a mark for which the NIC has no place all stores would wait.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_mark_that_is_answered_late_keeps_its_place() {
    if !kernel() {
        return;
    }
    let directory = speaks_to_the_driver("late_mark");
    // It gives the driver keys by itself.
    let seal = Seal::usual();
    let keys = match seal {
        Seal::Sealed => "sealed",
        Seal::Clear => "clear",
    };
    let sides = ["ping", "pong"];
    let tokens = tempfile::tempdir().expect("a directory");
    let guest = |own: u8, side: &str| {
        let command = format!("late_mark {side} /run/tokens {keys}");
        host(
            side,
            own,
            tokens.path(),
            directory.path(),
            Seal::Clear,
            &command,
        )
    };
    let outcome = run_text(
        &cabled([guest(1, sides[0]), guest(2, sides[1])]),
        &sides,
        seal,
    );
    assert_eq!(
        said(&outcome, "ping"),
        "to a machine that is there: flushed\nit arrived soon\nto nobody: No route to host\nagain: flushed\n"
    );
}

/// A program that a daemon has given a window may keep it when its connection has ended, and another connection's pages may be
/// those that it had.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_window_is_taken_back_from_all_who_have_it() {
    if !kernel() {
        return;
    }
    let directory = speaks_to_the_driver("given_window");
    let tokens = tempfile::tempdir().expect("a directory");
    let guest = |own: u8, side: &str| {
        let command = format!("given_window {side} /run/tokens");
        let (tokens, programs) = (tokens.path(), directory.path());
        host(side, own, tokens, programs, Seal::Clear, &command)
    };
    let sides = ["ping", "pong"];
    let text = cabled([guest(1, sides[0]), guest(2, sides[1])]);
    let outcome = run_text(&text, &sides, Seal::Clear);
    assert_eq!(
        said(&outcome, "ping"),
        "the child: stored\nthe child: Broken pipe\nthe child: Broken pipe\nthe next window: stored\n"
    );
    assert_eq!(
        said(&outcome, "pong"),
        "there: 1 2\nwoken: 3, a short count: Invalid argument\n"
    );
}

/// A guest whose NIC has no BAR 4.
fn by_interrupts(host: &str) -> String {
    host.replace("kind = \"ipnuma\"", "kind = \"ipnuma\", interrupts = true")
}

/// Two guests whose NICs have no BAR 4 play ping-pong with `board`, in regions of so many bytes. `host` is added to each.
fn boards(bytes: u64, host_keys: &str) -> UmlOutcome {
    let directory = speaks_to_the_driver("board");
    let tokens = tempfile::tempdir().expect("a directory");
    let guest = |own: u8, side: &str| {
        let command = format!("board {side} /run/tokens {LOOPS} {bytes}");
        let (tokens, programs) = (tokens.path(), directory.path());
        by_interrupts(&host(side, own, tokens, programs, Seal::Clear, &command))
            .replace("kind = \"uml\"\n", &format!("kind = \"uml\"\n{host_keys}"))
    };
    let text = cabled([guest(1, "ping"), guest(2, "pong")]);
    let outcome = run_text(&text, &["ping", "pong"], Seal::Clear);
    let common = "charging and the time to the nanosecond: not here\n";
    let checked = "the first and the last line came, and nothing else\n";
    for (side, checked) in [("ping", ""), ("pong", checked)] {
        let expected = format!("{common}{checked}{LOOPS} rounds\n");
        assert_eq!(said(&outcome, side), expected, "{side}");
    }
    outcome
}

/// Registers that a driver reads to set its NIC up, peers and a region included, and to have it interrupt once.
const SETTING_UP: u64 = 20;

/// The NIC's interrupts alone wake who waits, one for each wait but for the first if the store was there before, and to wait
/// again costs no access to a register.
fn is_woken_by_interrupts(outcome: &UmlOutcome, waits: u64) {
    for guest in &outcome.guests {
        let report = &guest.report;
        assert_eq!(report.polls, 0, "nothing stands for a core that polls");
        assert!(report.interrupts + 1 >= waits, "{report:?}");
        assert!(report.loads <= SETTING_UP, "{report:?}");
    }
}

/// Without BAR 4 the driver does as on a board: the NIC's interrupts wake who waits, by a word as by a descriptor, and no
/// time is charged.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn without_bar_4_interrupts_wake_who_waits() {
    if !kernel() {
        return;
    }
    is_woken_by_interrupts(&boards(4096, ""), u64::from(LOOPS));
}

/// One way of what `ipnuma wait` runs between modelled hosts, whose driver's calls take time: 8,676 ns from the store until
/// the program is woken.
const WOKEN_NS: f64 = 8_676.0;

/// The same by libipnuma: `ipn_wait` sleeps until the NIC interrupts, and goes on when a processor would have.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn ipn_wait_is_woken_by_the_nics_interrupts() {
    if !kernel() {
        return;
    }
    let programs = compiled(&[("figure43.c", "cc")]);
    let run = || {
        // Where a token lies already a side begins sooner.
        let tokens = tempfile::tempdir().expect("a directory");
        let guest = |own: u8, side: &str| {
            let command = format!("figure43 {side} /run/tokens {LOOPS} wait");
            let (tokens, programs) = (tokens.path(), programs.path());
            let host = host(side, own, tokens, programs, Seal::Clear, &command);
            by_interrupts(&host)
        };
        let text = cabled([guest(1, "ping"), guest(2, "pong")]);
        run_text(&text, &["ping", "pong"], Seal::Clear)
    };
    let first = run();
    is_woken_by_interrupts(&first, u64::from(LOOPS));
    let out = said(&first, "ping");
    let words: Vec<&str> = out.split_ascii_whitespace().collect();
    let trip: f64 = words[4].parse().expect("nanoseconds");
    let near = 0.005;
    assert!((trip / 2.0 / WOKEN_NS - 1.0).abs() < near, "{out}");
    for guest in &first.guests {
        let report = &guest.report;
        let each = report.interrupted_ns / report.interrupts;
        assert_eq!(each, rack::waiting::Costs::published().woken_ns());
    }
    assert_eq!(first.digest(), run().digest(), "two runs are the same");
}

/// What the buddy allocator has in one block is not the end, where the kernel can move pages away.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel --rdma; run by ./test guests"]
fn a_region_may_be_larger_than_a_block_of_the_allocator() {
    if let Err(error) = uml::rdma_kernel() {
        assert!(std::env::var_os("IPNUMA_UML_REQUIRED").is_none(), "{error}");
        skip::skip!("{error}");
        return;
    }
    boards((24 << 20) + 3 * 4096, "rdma = true\n");
}

/// A program is killed amid its stores, and the driver goes while what it began is still under way: loaded again, it serves as
/// before. While a program has the NIC open it stays. One that cannot finish its probe leaves nothing behind.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn the_driver_goes_and_comes_back() {
    if !kernel() {
        return;
    }
    let programs = compiled(&[("figure43.c", "cc")]);
    let script = r#"#!/bin/sh -e
play() {
  mkdir -p $tokens/$1
  exec /run/program/figure43 $side $tokens/$1 $2 wait
}
handlers() { grep --no-messages "irq/.*ipnuma" /proc/[0-9]*/comm | wc -l; }
side=$1 tokens=$2
[ $(handlers) = 1 ]
(play first 20)
play cut 100000000 &
pid=$!
until [ -e $tokens/cut/ping ] && [ -e $tokens/cut/pong ]; do sleep 0.001; done
sleep 0.001
if rmmod ipnuma 2> /tmp/why; then exit 3; fi
grep --quiet "in use" /tmp/why
kill -9 $pid
wait $pid || true
rmmod ipnuma
[ $(handlers) = 0 ]
insmod /run/program/misc_name.ko name=ipnuma0
insmod /run/ipnuma/ipnuma.ko
[ $(handlers) = 0 ]
rmmod ipnuma misc_name
insmod /run/ipnuma/ipnuma.ko store_ns=0
[ ! -e /run/seal/seal ] || /run/seal/seal
touch $tokens/$side
until [ -e $tokens/ping ] && [ -e $tokens/pong ]; do sleep 0.01; done
(play again 20)
"#;
    let reload = programs.path().join("reload");
    std::fs::write(&reload, script).expect("room for the script");
    std::fs::set_permissions(&reload, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let modules = uml::kernel().expect("it is there");
    let taken = modules.with_file_name("misc_name.ko");
    std::fs::copy(taken, programs.path().join("misc_name.ko")).expect("tools/uml-kernel builds it");
    let outcome = go(
        programs.path(),
        "reload",
        ["ping", "pong"],
        Seal::usual(),
        "",
    );
    let played = said(&outcome, "ping").matches("20 loops: ").count();
    assert_eq!(played, 2, "before and after");
}

/// Own and others' MAC addresses are those that the kernel knows. When a neighbour gets another one its session is lost, and
/// begun anew goes to where the neighbour is then; the own one follows the interface's.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn mac_addresses_are_the_kernels() {
    if !kernel() {
        return;
    }
    let directory = speaks_to_the_driver("neighbours");
    let tokens = tempfile::tempdir().expect("a directory");
    let guest = |own: u8, side: &str| {
        let command = format!("neighbours {side} /run/tokens $IPNUMA_NETDEV");
        let (tokens, programs) = (tokens.path(), directory.path());
        host(side, own, tokens, programs, Seal::Clear, &command)
            .replace("kind = \"ipnuma\"", "kind = \"shared\"")
            .replace(
                "kind = \"uml\"\n",
                "kind = \"uml\"\nneighbours = \"learn\"\n",
            )
    };
    let text = cabled([guest(1, "ping"), guest(2, "pong")]);
    let outcome = run_text(&text, &["ping", "pong"], Seal::Clear);
    assert_eq!(
        said(&outcome, "ping"),
        "no interface has 10.0.0.77: Cannot assign requested address\n\
         nobody has 10.0.0.99: No route to host\n\
         own: 020000000001, the other's: 020000000002\n\
         a store: flushed\n\
         the neighbour moves: session 1 is lost\n\
         a store: No route to host\n\
         begun anew: 020000000002\n\
         a store: flushed\n\
         own: 020000000077\n"
    );
}

/// The kernel's TCP and the window to the other machine's memory share a NIC, a cable and the switch in RTL. Both are whole,
/// and two runs are the same. The switch asks for addresses, and only the kernels answer. The window's session is sealed.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn curl_and_the_ping_pong_share_one_nic() {
    if !kernel() {
        return;
    }
    let programs = compiled(&[("figure43.c", "cc")]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments/topologies/uml-shared-nic.toml");
    let text = std::fs::read_to_string(&file).expect("it is in the repository");
    let installed = "programs=/usr/local/bin\n";
    assert_eq!(text.matches(installed).count(), 2, "one for each guest");
    let mounted = format!(
        "programs=/run/program\nmkdir $programs\nmount -t hostfs none $programs -o {}\n",
        programs.path().display()
    );
    let seal = Seal::usual();
    let configured = "mkdir /tmp/served\n";
    assert_eq!(text.matches(configured).count(), 2, "one for each guest");
    let text = text.replace(installed, &mounted);
    let sealing = seal.lines("/tmp/ipnuma.toml") + configured;
    let text = text.replace(configured, &sealing);
    let run = || run_text(&text, &["ping"], seal);
    let first = run();
    let out = said(&first, "ping");
    assert!(out.contains("100 loops: "), "{out}");
    let (fetched, _) = out
        .lines()
        .find_map(|line| line.split_once(" times 2000000 bytes meanwhile, all right"))
        .unwrap_or_else(|| panic!("curl says nothing:\n{out}"));
    let fetched: u32 = fetched.parse().expect("a number");
    assert!(fetched > 0, "{out}");
    assert_eq!(first.digest(), run().digest(), "two runs are the same");
}
