// SPDX-License-Identifier: Apache-2.0
//! Two Linux guests with the IP-NUMA NIC in RTL: the driver, the `rack` back end of libipnuma, and `examples/guest` of crate
//! `host` on both sides. Needs the kernel of `tools/uml-kernel`; without it this says so and ends.

use std::path::{Path, PathBuf};

use rack::Topology;
use rack::guests::{UmlOutcome, run_uml};
use rack::run::{Options, rtl};

const ROUNDS: u32 = 20;

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

/// Where the guests' program is: an example of another crate, in the same target directory. Guests see it by a mount of
/// its own, since their /tmp is not the host's.
fn programs() -> PathBuf {
    let executable = std::env::current_exe().expect("this test has a name");
    let profile = executable.parent().and_then(Path::parent);
    let programs = profile
        .expect("tests are in target/PROFILE/deps")
        .join("examples");
    assert!(
        programs.join("guest").exists(),
        "{}/guest is not built: cargo build -p host --examples",
        programs.display()
    );
    programs
}

/// A guest that knows the other as its peer, and finds the other's token in a directory of the host.
fn host(name: &str, own: u8, tokens: &Path) -> String {
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
         IPNUMA_CONFIG=/tmp/config.toml /run/program/guest {name} /run/tokens {ROUNDS}\n'''\n",
        tokens.display(),
        programs().display(),
        machine(own),
        machine(3 - own),
    )
}

fn go() -> UmlOutcome {
    let tokens = tempfile::tempdir().expect("a directory");
    let text = format!(
        "platform = \"keio-2016\"\nseed = 1\n{}{}\
         [[cable]]\nbetween = [\"ping\", \"pong\"]\nmetres = 1\n\
         [program]\nkind = \"uml\"\nuntil = [\"ping\", \"pong\"]\n",
        host("ping", 1, tokens.path()),
        host("pong", 2, tokens.path())
    );
    let topology = Topology::parse(&text, Path::new("test.toml")).expect("the topology is sound");
    let outcome = run_uml(&topology, &Options::default(), &rtl).expect("the run ends");
    for guest in &outcome.guests {
        let out = String::from_utf8_lossy(&guest.stdout);
        let errors = String::from_utf8_lossy(&guest.stderr);
        println!("{}: {:?}\n{out}{errors}", guest.name, guest.report);
        assert_eq!(guest.status, Some(0), "{errors}\n{}", guest.console);
        let complaint = ["WARNING", "BUG", "Oops"].map(|word| guest.console.contains(word));
        assert_eq!(complaint, [false; 3], "{}", guest.console);
    }
    println!(
        "{:.1} s wall, hash {}",
        outcome.wall_seconds,
        outcome.digest()
    );
    outcome
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_line_goes_there_and_back_in_what_constants_and_rtl_take() {
    if !kernel() {
        return;
    }
    let first = go();
    let out =
        String::from_utf8_lossy(&first.guest("ping").expect("it is there").stdout).into_owned();
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
    let second = go();
    assert_eq!(first.digest(), second.digest(), "two runs are the same");
    assert_eq!(
        out.as_bytes(),
        second.guest("ping").expect("it is there").stdout
    );
}
