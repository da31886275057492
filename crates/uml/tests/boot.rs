// SPDX-License-Identifier: Apache-2.0
//! Guests without devices: they boot and end, well or badly.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Directory, alone};
use uml::{Error, Guest, GuestEvent, GuestSpec, Next};

fn kernel() -> PathBuf {
    uml::kernel().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_guest_boots_to_its_init_and_halts() {
    let directory = Directory::new();
    let commands = "uname -s; cat /proc/sys/kernel/random/boot_id; sleep 2.5; cut -c1-3 /proc/uptime; date -u +%F.%T; exit_with() { return 3; }; exit_with";
    let run = || {
        let mut guest = directory.guest("boots", commands, vec![]);
        let mut events = Vec::new();
        assert_eq!(
            alone(&mut guest, &mut events),
            0,
            "{}",
            directory.console("boots")
        );
        assert_eq!(guest.next(), Next::Exited(0));
        assert_eq!(directory.status("boots"), Some(3));
        let end = events.pop().unwrap();
        assert_eq!(end.event, GuestEvent::Exited { status: 0 });
        assert!(
            (2_500_000_000..2_600_000_000).contains(&end.ns),
            "it slept and ended at {} ns",
            end.ns
        );
        (
            end,
            events,
            directory.out("boots"),
            directory.console("boots"),
        )
    };
    let (end, events, out, console) = run();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        [lines[0], lines[2], lines[3]],
        ["Linux", "2.5", "2026-01-01.00:00:02"],
        "{out}"
    );
    assert!(
        console.contains("Run /proc/self/cwd/init as init process"),
        "{console}"
    );
    // Random numbers and all.
    assert_eq!(run(), (end, events, out, console), "a second run differs");
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn an_init_that_only_ends_is_a_panic() {
    let directory = Directory::new();
    let mut guest =
        Guest::start(directory.spec("ends", kernel(), "#!/bin/sh\nexit 7\n", vec![])).unwrap();
    let status = alone(&mut guest, &mut Vec::new());
    assert_ne!(status, 0);
    assert!(
        directory
            .console("ends")
            .contains("Attempted to kill init! exitcode=0x00000700")
    );
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_guest_that_computes_for_ever_is_told_with_its_time() {
    let directory = Directory::new();
    let mut guest = Guest::start(directory.spec(
        "spins",
        kernel(),
        "#!/bin/sh\nwhile :; do :; done\n",
        vec![],
    ))
    .unwrap();
    guest.set_patience(Duration::from_secs(2));
    let error = loop {
        let Next::At(now) = guest.next() else {
            panic!("it does not spin")
        };
        if let Err(error) = guest.run(now, now + 1_000_000, 1000, &mut Vec::new()) {
            break error;
        }
    };
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("guest spins at ") && text.contains("must yield"),
        "{text}"
    );
}

#[test]
fn what_is_no_kernel_is_told() {
    let directory = Directory::new();
    let missing =
        Guest::start(directory.spec("a", "/nonexistent/linux".into(), "#!/bin/sh\n", vec![]))
            .err()
            .unwrap();
    assert!(
        missing.to_string().contains("tools/uml-kernel"),
        "{missing}"
    );
    let other = Guest::start(directory.spec("b", "/bin/false".into(), "#!/bin/sh\n", vec![]))
        .err()
        .unwrap();
    assert!(
        other
            .to_string()
            .contains("guest b ended with status 1 before it was up"),
        "{other}"
    );
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn calls_at_a_wrong_time_are_told() {
    let directory = Directory::new();
    let mut guest = directory.guest("order", "true", vec![]);
    let Next::At(now) = guest.next() else {
        panic!("it wants to run")
    };
    assert!(now > 0);
    let mut events = Vec::new();
    assert_eq!(
        guest.run(now - 1, u64::MAX, 0, &mut events).unwrap(),
        Next::At(now),
        "too early: nothing happens"
    );
    let late = guest.run(now + 1, u64::MAX, 0, &mut events).unwrap_err();
    assert!(matches!(late, Error::Order { .. }), "{late}");
    assert!(matches!(
        guest.read_memory(0, &mut [0]),
        Err(Error::Memory { .. })
    ));
    assert!(matches!(
        guest.receive(now, 0, &[0; 60]),
        Err(Error::Missing { .. })
    ));
}

/// Processes of the host that are in a guest's directory: its kernel, and those of its user space.
fn processes(directory: &Path) -> usize {
    let links = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path().join("cwd")).ok());
    links.filter(|link| link == directory).count()
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_dropped_guest_leaves_no_process() {
    let directory = Directory::new();
    let mut guest = directory.guest("dropped", "sleep 100", vec![]);
    let own = fs::canonicalize(directory.of("dropped")).unwrap();
    while let Next::At(now @ ..1_000_000_000) = guest.next() {
        guest
            .run(now, now + 1_000_000, 1000, &mut Vec::new())
            .unwrap();
    }
    assert!(processes(&own) > 1, "a kernel and its shell");
    drop(guest);
    for _ in 0..200 {
        if processes(&own) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!(
        "{} processes of it are left after ten seconds",
        processes(&own)
    );
}

/// Compiles `counter.c`.
fn compile_counter(to: &Path) {
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-static"])
        .args(["-nostdlib", "-fno-stack-protector", "-o"])
        .arg(to)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counter.c"))
        .status()
        .expect("a compiler");
    assert!(status.success(), "counter.c is not compiled");
}

/// Runs a guest whose time stamp counter is its clock, or is not; when it ended.
fn with_counter(mut spec: GuestSpec, counter: bool) -> u64 {
    spec.counter = counter;
    let mut guest = Guest::start(spec).unwrap_or_else(|error| panic!("{error}"));
    let mut events = Vec::new();
    let status = alone(&mut guest, &mut events);
    assert_eq!(status, 0, "{}", guest.console_tail());
    events.pop().map_or(0, |event| event.ns)
}

/// `rdtsc` is the guest's clock, takes as long as reading that, and lets others run.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn the_time_stamp_counter_is_the_guests_clock() {
    let directory = Directory::new();
    let run = || {
        // The second one ends while the first one spins.
        let script = "#!/bin/sh\nmount -t proc proc /proc\nmount -t tmpfs run /run\nmkdir /run/own\n\
             mount -t hostfs none /run/own -o /proc/self/cwd\nexec > /run/own/out 2>&1\n\
             /run/own/counter read &\nsleep 0.01\necho meanwhile\nwait\necho behind\n\
             echo o > /proc/sysrq-trigger\nsleep 1000\n";
        let spec = directory.spec("counts", kernel(), script, vec![]);
        compile_counter(&spec.directory.join("counter"));
        (with_counter(spec, true), directory.out("counts"))
    };
    let (end, out) = run();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        [lines[0], lines[2], lines[3], lines[4]],
        ["256", "0", "meanwhile", "behind"],
        "{out}"
    );
    // The other clock counts in steps of 256 ns, and two readings lie between its own.
    let apart: u64 = lines[1].parse().unwrap();
    assert!((257..768).contains(&apart), "{out}");
    assert_eq!(run(), (end, out), "a second run differs");
}

/// Who does not read the counter takes as long as if it were this machine's.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_counter_that_is_not_read_takes_no_time() {
    let directory = Directory::new();
    let [with, without] = [true, false].map(|counter| {
        let spec = directory.spec("sleeps", kernel(), "", vec![]);
        compile_counter(&spec.init);
        with_counter(spec, counter)
    });
    assert!(with > 3_000_000, "{with} ns");
    assert_eq!(with, without);
}
