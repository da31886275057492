// SPDX-License-Identifier: Apache-2.0
//! Chapter 6 without guests: its rows and checks, over times that guests had once (`expect_by_length` of tables 6.3, 6.4
//! and 6.6), and over such times changed.

use ::mcb::{Command, Report, Summary, Transport};

use super::super::file::{ExperimentFile, Run, parse, plan};
use super::super::source::{EXPERIMENTS, FIGURES};
use super::super::{Runner, Section};
use super::*;
use crate::memcached::{Library, Path, Place, SwitchKind};

/// Sections 6.6.1: what memcached itself takes of a GET.
const APPLICATION_NS: f64 = 1_167.0;
/// Where the recorded times stand.
const TIMES: [&str; 3] = ["table-6.3", "table-6.4", "table-6.6"];
/// What is made from them. Table 6.5 is a ping-pong, which needs no guests.
const SECTIONS: [&str; 12] = [
    "table-1.6",
    "table-6.3",
    "table-6.4",
    "table-6.6",
    "table-6.7",
    "table-6.8",
    "figure-6.13",
    "figure-6.14",
    "figure-6.15",
    "figure-6.16",
    "figure-6.17",
    "figure-6.18",
];

/// Times of commands, ns.
type Times = Vec<((Setup, Command, usize), f64)>;

fn experiment(id: &str) -> ExperimentFile {
    let text = EXPERIMENTS.iter().find(|(known, _)| *known == id);
    parse(text.expect("it is built in").1, id).expect("it is right")
}

fn figures() -> BTreeMap<String, Published> {
    parse(FIGURES, "paper.toml").expect("it is right")
}

fn recorded() -> Times {
    let figures = figures();
    let mut times = Times::new();
    for id in TIMES {
        let file = experiment(id);
        for row in plan(id, &file, &figures).expect("its figures are there") {
            let Run::Memcached(measurement) = &row.file.run else {
                panic!("{id}, {}: no times of memcached", row.name);
            };
            assert_eq!(measurement.figure, Figure::Time, "{id}, {}", row.name);
            let length = row.instance.length.expect("a length");
            let key = (measurement.setup(), measurement.command, length);
            let ns = row.expect.expect("it was recorded");
            match times.iter().find(|(known, _)| *known == key) {
                Some((_, known)) => assert_eq!(*known, ns, "{id}, {}", row.name),
                None => times.push((key, ns)),
            }
        }
    }
    times
}

/// The time of a GET.
fn get_time(times: &mut Times, setup: Setup, length: usize) -> &mut f64 {
    let key = (setup, Command::Get, length);
    let found = times.iter_mut().find(|(known, _)| *known == key);
    &mut found.expect("it was recorded").1
}

const fn setup(place: Place, path: Path, switch: SwitchKind) -> Setup {
    Setup {
        place,
        path,
        switch: Some(switch),
        rate: rack::topology::Rate::One,
        library: Library::Free,
        constants: Constants::Published,
    }
}

/// All sections over these times.
fn sections(times: &Times) -> Vec<Section> {
    let mut known = BTreeMap::<Setup, Result<Measured, String>>::new();
    for ((setup, command, length), ns) in times {
        let measured = known.entry(*setup).or_insert_with(|| {
            Ok(Measured {
                reports: Vec::new(),
                hash: String::new(),
                costs: Vec::new(),
                application_ns: APPLICATION_NS,
                guests: String::new(),
                simulated_ns: 0.0,
                wall_seconds: 0.0,
            })
        });
        measured
            .as_mut()
            .expect("none failed")
            .reports
            .push(Report {
                command: *command,
                transport: Transport::Udp,
                address: String::new(),
                port: 0,
                threads: 1,
                length: *length,
                count: 1,
                ns: Summary {
                    mean: *ns,
                    each: None,
                },
                elapsed_ns: 1,
                resent: 0,
            });
    }
    let memcached = Runs {
        ahead: None,
        known,
        ..Runs::new(1, false)
    };
    let mut runner = Runner::recorded(figures(), memcached);
    SECTIONS
        .map(|id| match runner.section(id, &experiment(id)) {
            Ok(section) => section,
            Err(failure) => panic!("{id}: {failure:?}"),
        })
        .into()
}

/// What `ipnuma paper` would exit with 1 for.
fn surprises(times: &Times) -> Vec<String> {
    let mut found = Vec::new();
    for section in sections(times) {
        for row in &section.rows {
            assert!(!row.lacks(), "{}, {}: {}", section.id, row.name, row.how);
            if row.as_expected == Some(false) || row.is_unexplained() {
                found.push(format!("{}, {}", section.id, row.name));
            }
        }
        let failed = section.checks.iter().filter(|check| check.surprises());
        found.extend(failed.map(|check| format!("{}: {}", section.id, check.sentence)));
    }
    found
}

const ORDER: &str = "the order of the rows is the dissertation's, at every length";

#[test]
fn what_was_recorded_surprises_nobody() {
    let times = recorded();
    assert_eq!(surprises(&times), Vec::<String>::new());
    let sections = sections(&times);
    let holds = |id: &str| {
        let section = sections.iter().find(|section| section.id == id);
        let checks = &section.expect("it was made").checks;
        checks.iter().map(|check| check.holds).collect::<Vec<_>>()
    };
    assert_eq!(holds("table-6.7"), [Some(true), Some(true)]);
    assert_eq!(holds("figure-6.13"), [Some(true)]);
    // For the reason that stands beside it.
    assert_eq!(holds("table-6.8"), [Some(false)]);
    assert_eq!(holds("figure-6.15"), [Some(false)]);
}

#[test]
fn every_time_that_changes_is_reported() {
    let times = recorded();
    for index in 0..times.len() {
        for factor in [0.97, 1.03] {
            let mut changed = times.clone();
            changed[index].1 *= factor;
            let found = surprises(&changed);
            assert!(!found.is_empty(), "{:?} times {factor}", times[index]);
        }
    }
}

#[test]
fn the_gain_in_the_rack_is_held_to_the_dissertation_s() {
    let fibnic = setup(Place::Rack, Path::Ipnuma, SwitchKind::Fibnic);
    let check = "table-6.7: IP-NUMA + FIBNIC, 16 B: at least 432";
    let mut times = recorded();
    let base = setup(Place::Rack, Path::Socket, SwitchKind::Ax3630s);
    let base = *get_time(&mut times, base, 16);
    for (percent, fails) in [(431.9, true), (432.1, false)] {
        *get_time(&mut times, fibnic, 16) = 100.0 * base / percent;
        let found = surprises(&times).iter().any(|surprise| surprise == check);
        assert_eq!(found, fails, "{percent} %");
    }
}

#[test]
fn the_order_in_the_rack_is_checked_at_every_length() {
    let sockets = setup(Place::Rack, Path::Socket, SwitchKind::Fibnic);
    let ip_numa = setup(Place::Rack, Path::Ipnuma, SwitchKind::Ax3630s);
    for length in LENGTHS {
        let mut times = recorded();
        let [first, second] = [sockets, ip_numa].map(|setup| *get_time(&mut times, setup, length));
        *get_time(&mut times, sockets, length) = second;
        *get_time(&mut times, ip_numa, length) = first;
        let found = surprises(&times);
        for id in ["table-6.7", "figure-6.13"] {
            let check = format!("{id}: {ORDER}");
            assert!(found.contains(&check), "{id}, {length}: {found:?}");
        }
    }
}

#[test]
fn an_order_between_racks_that_comes_right_is_reported() {
    let sockets = setup(Place::Racks, Path::Socket, SwitchKind::Fibnic);
    let ip_numa = setup(Place::Racks, Path::Ipnuma, SwitchKind::Ax3630s);
    let mut times = recorded();
    for length in LENGTHS {
        // Faster than sockets with FIBNIC, as in the dissertation.
        *get_time(&mut times, ip_numa, length) = 0.9 * *get_time(&mut times, sockets, length);
    }
    let found = surprises(&times);
    for id in ["table-6.8", "figure-6.15"] {
        let check = format!("{id}: {ORDER}");
        assert!(found.contains(&check), "{id}: {found:?}");
    }
}

#[test]
fn figures_are_made_from_times_as_their_captions_say() {
    let sections = sections(&recorded());
    let ours = |id: &str, name: &str| {
        let section = sections.iter().find(|section| section.id == id);
        let mut rows = section.expect("it was made").rows.iter();
        let row = rows.find(|row| row.name == name);
        row.and_then(|row| row.ours).expect("it was computed")
    };
    // Of GETs of 16 bytes at 1G: 31,181 ns over a cable by sockets, 6,515 by IP-NUMA; table 6.6 has those with switches.
    for (id, name, value) in [
        ("figure-6.13", "socket + AX3630S, 16 B", 1e9 / 39_501.0),
        ("figure-6.15", "IP-NUMA + FIBNIC, 512 B", 1e9 / 21_120.0),
        (
            "table-6.7",
            "IP-NUMA + FIBNIC, 16 B",
            100.0 * 39_501.0 / 7_821.0,
        ),
        (
            "table-6.7",
            "IP-NUMA + FIBNIC, calls charged, 16 B",
            100.0 * 39_501.0 / 8_141.0,
        ),
        (
            "table-6.8",
            "socket + FIBNIC, 16 B",
            100.0 * 65_690.0 / 39_322.0,
        ),
        (
            "figure-6.14",
            "socket + AX3630S: network",
            39_501.0 - 31_194.0,
        ),
        ("figure-6.14", "socket + AX3630S: hosts", 31_194.0 - 1_167.0),
        (
            "figure-6.14",
            "IP-NUMA + FIBNIC: network",
            7_821.0 - 6_093.0,
        ),
        ("figure-6.14", "IP-NUMA + FIBNIC: hosts", 6_093.0 - 1_167.0),
        ("figure-6.14", "IP-NUMA + FIBNIC: application", 1_167.0),
        (
            "figure-6.16",
            "socket + FIBNIC: network",
            39_322.0 - 31_194.0,
        ),
        (
            "figure-6.16",
            "IP-NUMA + AX3630S: network",
            40_602.0 - 6_093.0,
        ),
        (
            "figure-6.17",
            "application of 80 us",
            (80_000.0 + 39_501.0 - 1_167.0) / (80_000.0 + 7_821.0 - 1_167.0),
        ),
        (
            "figure-6.18",
            "application of 500 us",
            (500_000.0 + 65_690.0 - 1_167.0) / (500_000.0 + 14_246.0 - 1_167.0),
        ),
        ("table-1.6", "remote, 10G NIC", 20.467),
    ] {
        let found = ours(id, name);
        assert!(
            (found - value).abs() <= 1e-9 * value,
            "{id}, {name}: {found}, not {value}"
        );
    }
}
