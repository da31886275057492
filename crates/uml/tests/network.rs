// SPDX-License-Identifier: Apache-2.0
//! Two guests with a cable between their network cards: ping and TCP by programs of the host, the same in every run.

mod common;

use common::{Directory, Pair};
use uml::{DeviceSpec, Error, Next};

const UP: &str = "ip link set lo up\nip link set eth0 up\nip address add 10.0.0.$ME/24 dev eth0\n";

fn run(first: &str, second: &str) -> (Pair, Directory) {
    let directory = Directory::new();
    let start = |name: &str, me: u8, commands: &str| {
        let device = DeviceSpec::Network {
            mac: [2, 0, 0, 0, 0, me],
        };
        directory.guest(name, &format!("ME={me}\n{UP}{commands}"), vec![device])
    };
    let guests = [start("a", 1, first), start("b", 2, second)];
    let mut pair = Pair {
        guests,
        frames: Vec::new(),
        dropped: 0,
    };
    pair.run();
    for name in ["a", "b"] {
        assert_eq!(
            directory.status(name),
            Some(0),
            "{name}: {}\n{}",
            directory.out(name),
            directory.console(name)
        );
    }
    (pair, directory)
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn ping_and_tcp_are_the_same_in_two_runs() {
    // The guest's own /tmp may hide this directory.
    let ping = format!(
        "cat > ping.pl <<'END'\n{}END\nperl ping.pl 10.0.0.1 3",
        include_str!("ping.pl")
    );
    let transfer = || {
        let (pair, directory) = run(
            "iperf3 -s -1",
            &format!("{ping} && iperf3 -c 10.0.0.1 -n 300K"),
        );
        (pair, directory.out("b"))
    };
    let (first, said) = transfer();
    let (second, said_again) = transfer();
    eprintln!("{said}");
    eprintln!("{} frames, {}", first.frames.len(), first.hash());
    for (index, (one, other)) in first.frames.iter().zip(&second.frames).enumerate() {
        assert_eq!(one, other, "frame {index} differs");
    }
    assert_eq!(first.hash(), second.hash());
    assert_eq!(said, said_again);
}

/// The kernel would panic if its time went back, but only if it has come so far: the calendar's mistake is told always.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_frame_earlier_than_promised_is_told() {
    let directory = Directory::new();
    let device = DeviceSpec::Network {
        mac: [2, 0, 0, 0, 0, 1],
    };
    let mut guest = directory.guest("early", "ip link set eth0 up; sleep 10", vec![device]);
    let mut events = Vec::new();
    while guest.now() < 1_000_000 {
        let Next::At(now) = guest.next() else {
            panic!("it sleeps")
        };
        guest
            .run(now, now + 2_000_000_000, 500, &mut events)
            .unwrap();
    }
    // It may be anywhere in the time that it was given, or in the lookahead after its last frame.
    let early = guest.now() + 1;
    let error = guest.receive(early, 0, &[0xff; 60]).unwrap_err();
    assert!(matches!(error, Error::Order { .. }), "{error}");
    assert!(
        error.to_string().contains("nothing would reach it before"),
        "{error}"
    );
}

/// A cable is pulled out and put back; the guest's kernel sees it as the carrier, and says so to who listens.
#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn a_link_that_is_lost_is_a_carrier_that_is_lost() {
    const LOST: u64 = 2_500_000_000;
    const BACK: u64 = 3_500_000_000;
    let directory = Directory::new();
    let device = DeviceSpec::NetworkWithLink {
        mac: [2, 0, 0, 0, 0, 1],
    };
    let commands = "ip link set eth0 up\nip -o monitor link > monitor &\nsleep 2\n\
         for second in 2 3 4; do cat /sys/class/net/eth0/carrier; sleep 1; done\n\
         grep -c NO-CARRIER monitor";
    let mut guest = directory.guest("link", commands, vec![device]);
    let mut events = Vec::new();
    let mut changes = vec![(BACK, true), (LOST, false)];
    loop {
        let change = changes.last().copied();
        match guest.next() {
            Next::Exited(_) => break,
            Next::At(now) if change.is_none_or(|(time, _)| now < time) => {
                let until = change.map_or(now + 10_000_000, |(time, _)| time);
                guest.run(now, until, 1000, &mut events).unwrap();
            }
            _ => {
                let (time, up) = changes.pop().expect("it waits for a device for ever");
                guest.set_link(time, 0, up).unwrap();
            }
        }
    }
    assert_eq!(directory.out("link"), "1\n0\n1\n1\n");
    let error = guest.set_link(guest.now(), 1, true).unwrap_err();
    assert!(error.to_string().contains("device"), "{error}");
}
