// SPDX-License-Identifier: Apache-2.0
//! Arrangements and tables, without running anything.

use std::path::Path;

use mcb::Command;
use rack::Topology;
use rack::topology::{ProgramSpec, Rate};

use super::run::{kernel, reports};
use super::{
    Asked, Batch, Cost, Library, Load, Measured, Nic, Path as Route, Place, Row, Setup, SwitchKind,
    set_cost, show,
};
use crate::fitted::Constants;
use crate::text;

const PLACES: [Place; 4] = [Place::Loopback, Place::Direct, Place::Rack, Place::Racks];

fn setups() -> Vec<Setup> {
    let mut all = Vec::new();
    for place in PLACES {
        for path in [Route::Socket, Route::Ipnuma] {
            for rate in [Rate::One, Rate::Ten] {
                let switches = [Some(SwitchKind::Ax3630s), Some(SwitchKind::Fibnic)];
                let switches = if place.way().0 > 0 {
                    &switches[..]
                } else {
                    &[None]
                };
                all.extend(switches.iter().map(|switch| Setup {
                    place,
                    path,
                    switch: *switch,
                    rate,
                    library: Library::Free,
                    constants: Constants::Published,
                }));
            }
        }
    }
    all
}

#[test]
fn every_topology_is_one() {
    for setup in setups() {
        for (nic, loss) in [(Nic::Ring, 0.0), (Nic::Virtio, 0.01)] {
            let batch = Batch {
                nic,
                loss,
                ..Batch::all()
            };
            let topology = setup.topology(&batch).expect("it is right");
            // What is printed is the same when it is read again.
            let text = setup.file(&batch).expect("it is right");
            let again = Topology::parse(&text, Path::new("t"))
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(again.to_toml(), topology.to_toml());
            assert_eq!(topology.host.len(), 2);
            assert_eq!(topology.switch.len(), setup.place.way().0);
            let metres: f64 = topology
                .cable
                .iter()
                .map(|cable| *cable.metres.as_ref())
                .sum();
            assert!((metres - setup.place.way().1).abs() < 1e-9);
        }
    }
}

#[test]
fn every_load_is_a_topology() {
    for setup in setups()
        .into_iter()
        .filter(|setup| setup.place == Place::Rack)
    {
        for (clients, ports) in [(1, 2), (2, 4), (3, 4), (4, 9), (8, 9)] {
            let load = Load {
                setup,
                clients,
                threads: 3,
            };
            let text = load.file(&Batch::all()).expect("it is right");
            let topology = Topology::parse(&text, Path::new("t"))
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(topology.host.len(), clients + 1);
            assert_eq!(*topology.switch[0].ports.as_ref(), ports);
            // All ask for keys of their own, in as many threads, and the run ends when all have.
            for number in 0..clients {
                let command = topology.host[number].command.as_ref().expect("a command");
                let asks = format!("--prefix c{number} -t 3 --at ");
                assert!(command.contains(&asks), "{command}");
            }
            let ProgramSpec::Uml { until, .. } = topology.program.as_ref() else {
                panic!("{text}");
            };
            assert_eq!(until.len(), clients);
        }
    }
}

#[test]
fn loads_that_cannot_be_name_the_option() {
    let setup = setups()
        .into_iter()
        .find(|setup| setup.place == Place::Rack);
    let load = Load {
        setup: setup.expect("there is one"),
        clients: 1,
        threads: 1,
    };
    assert_eq!(load.check(), Ok(()));
    let racks = Setup {
        place: Place::Racks,
        ..load.setup
    };
    for (wrong, option) in [
        (Load { clients: 0, ..load }, "--clients: "),
        (Load { clients: 9, ..load }, "--clients: "),
        (Load { threads: 0, ..load }, "--threads: "),
        (
            Load {
                threads: 17,
                ..load
            },
            "--threads: ",
        ),
        (
            Load {
                setup: racks,
                ..load
            },
            "--place: ",
        ),
    ] {
        let sentence = wrong.check().expect_err("it cannot be");
        assert!(sentence.starts_with(option), "{sentence}");
        assert!(wrong.topology(&Batch::all()).is_err());
    }
}

/// Hosts with keys know each other's, which are the same whenever the topology is made; none has the other's or `--insecure`.
#[test]
fn sealed_hosts_have_keys_of_the_seed() {
    let batch = Batch {
        seal: true,
        ..Batch::all()
    };
    let setup = Setup {
        place: Place::Rack,
        path: Route::Ipnuma,
        switch: Some(SwitchKind::Fibnic),
        rate: Rate::Ten,
        library: Library::Free,
        constants: Constants::Published,
    };
    let topology = setup.topology(&batch).expect("it is right");
    let keys = |host: usize| {
        let command = topology.host[host].command.as_ref().expect("a command");
        assert!(!command.contains("--insecure"), "{command}");
        let pem = |name: &str| {
            let (_, rest) = command.split_once(&format!("cat > /tmp/{name} <<END\n"))?;
            let (pem, _) = rest.split_once("END\n")?;
            Some(pem.to_owned())
        };
        ["key", "other_key"].map(|name| pem(name).expect("a key"))
    };
    let [[client, servers], [server, clients]] = [keys(0), keys(1)];
    assert_eq!((&client, &server), (&clients, &servers));
    assert_ne!(client, server);
    let again = setup.file(&batch).expect("it is right");
    assert!(again.contains(client.trim_end()) && again.contains(server.trim_end()));
    let other = Batch { seed: 2, ..batch };
    let other = setup.file(&other).expect("it is right");
    assert!(!other.contains(client.trim_end()));
    let clear = setup.file(&Batch::all()).expect("it is right");
    assert_eq!(clear.matches(" --insecure ").count(), 2, "{clear}");
}

#[test]
fn the_library_s_calls_are_charged_of_ip_numa_where_that_is_asked() {
    let both = [Library::Free, Library::Charged];
    let transports = [Route::Socket, Route::Ipnuma];
    let switches = [SwitchKind::Fibnic];
    let setups = Setup::all(&[Place::Rack], &transports, &switches, &both, Rate::One);
    let names: Vec<_> = setups.iter().map(|setup| setup.name()).collect();
    assert_eq!(
        names,
        [
            "in the rack, socket + FIBNIC",
            "in the rack, IP-NUMA + FIBNIC",
            "in the rack, IP-NUMA + FIBNIC, calls charged"
        ]
    );
    let mut batch = Batch::all();
    let costs = |batch: &Batch, setup: Setup| setup.topology(batch).expect("it is right").cpu;
    assert!(costs(&batch, setups[1]).is_empty());
    assert_eq!(costs(&batch, setups[2]), rack::library::measured());
    // What is given takes the place of what was measured, and of nothing without the calls.
    for name in ["library_poll_ns", "library_recv_kib_ns", "store_ns"] {
        set_cost(&mut batch.costs, name, 1).expect("there is such a cost");
    }
    let free = costs(&batch, setups[1]);
    assert_eq!((free.store_ns, free.library_poll_ns), (Some(1), None));
    let charged = costs(&batch, setups[2]);
    assert_eq!(
        [charged.library_poll_ns, charged.library_recv_kib_ns],
        [Some(1); 2]
    );
    assert_eq!(
        charged.library_send_ns,
        rack::library::measured().library_send_ns
    );
}

/// As a client printed it.
const SAMPLE: &str = r#"{"format":1,"command":"mcb","version":"0","result":{"command":"set","transport":"udp","address":"10.0.0.2","port":11211,"threads":1,"length":16,"count":20,"ns":{"mean":51251.2},"elapsed_ns":1025024,"resent":0}}
{"format":1,"command":"mcb","version":"0","result":{"command":"get","transport":"udp","address":"10.0.0.2","port":11211,"threads":1,"length":16,"count":20,"ns":{"mean":50546.0},"elapsed_ns":1010920,"resent":1}}
"#;

#[test]
fn the_clients_lines_are_read() {
    let found = reports(SAMPLE.as_bytes()).expect("they are reports");
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[1].command, found[1].length, found[1].resent),
        (Command::Get, 16, 1)
    );
    assert!((found[1].ns.mean - 50_546.0).abs() < 1e-9);
    assert!(reports(b"").is_err());
    assert!(reports(b"{\"command\":\"get\"}\n").is_err());
    let console = "x\n[    0.000000] Linux version 6.1.192 (someone@somewhere) (gcc)\n";
    assert_eq!(kernel(console), "Linux 6.1.192, User-Mode Linux");
}

fn row(setup: Setup, ns: f64) -> Row {
    let mut reports = reports(SAMPLE.as_bytes()).expect("they are reports");
    reports[1].ns.mean = ns;
    let measured = Measured {
        reports,
        hash: "0123456789abcdef0123".to_owned(),
        costs: vec![Cost {
            name: "application_ns".to_owned(),
            ns: 1167,
            source: "a table".to_owned(),
        }],
        application_ns: 1167.0,
        guests: String::new(),
        simulated_ns: 2e6,
        wall_seconds: 0.5,
    };
    Row::new(setup, measured)
}

#[test]
fn the_tables_have_times_shares_costs_and_hashes() {
    let setups = Setup::all(
        &[Place::Rack],
        &[Route::Socket, Route::Ipnuma],
        &[SwitchKind::Ax3630s, SwitchKind::Fibnic],
        &[Library::Free],
        Rate::One,
    );
    assert_eq!(setups.len(), 4);
    let rows: Vec<_> = setups
        .into_iter()
        .zip([58_890.0, 52_698.0, 19_819.0, 13_627.0])
        .map(|(setup, ns)| row(setup, ns))
        .collect();
    let asked = Asked {
        commands: vec![Command::Get],
        lengths: vec![16],
        rate: Rate::One,
        count: 100,
        protocol: mcb::Transport::Udp,
        seal: false,
    };
    let out = show(&asked, &rows);
    let words_only = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "in the rack, socket + AX3630S 58890",
        "in the rack, IP-NUMA + FIBNIC 432 %",
        "application_ns 1167 ns a table",
        "2.0 80 0123456789abcdef",
    ] {
        assert!(words_only.contains(words), "{words}\n{out}");
    }
    assert!(
        out.lines().all(|line| line.chars().count() <= text::WIDTH),
        "{out}"
    );
}
