// SPDX-License-Identifier: Apache-2.0
//! Configuration: the file, the environment over it, and what is said about mistakes.

use std::collections::HashMap;
use std::time::Duration;

use host::Config;
use host::config::{BackendKind, Ports, Profile};

fn parse(text: &str) -> host::Result<Config> {
    Config::parse(text, "test.toml")
}

fn with(variables: &[(&str, &str)]) -> host::Result<Config> {
    let variables: HashMap<&str, &str> = variables.iter().copied().collect();
    parse("spin_us = 7\ntrace = true")?
        .with_environment(|name| variables.get(name).map(|value| (*value).to_owned()))
}

#[test]
fn a_file() {
    let config = parse("backend = 'pcie'\ndaemon = '/x'\nspin_us = 3\ntrace = true\n[socket]\nenable = false\nports = ['80', '8000-8099']").expect("right");
    assert_eq!(
        (
            config.backend,
            config.daemon.to_str(),
            config.spin,
            config.trace
        ),
        (
            BackendKind::Pcie,
            Some("/x"),
            Duration::from_micros(3),
            true
        )
    );
    assert_eq!(
        config.socket.ports,
        [
            Ports {
                first: 80,
                last: 80
            },
            Ports {
                first: 8000,
                last: 8099
            }
        ]
    );
    assert!(!config.socket.accelerates(80));
}

#[test]
fn nothing_is_a_configuration() {
    let config = parse("").expect("right");
    assert_eq!(config.backend, BackendKind::Soft);
    assert_eq!(config.spin, Duration::from_micros(50));
    assert!(config.socket.accelerates(1) && !config.trace);
}

#[test]
fn the_environment_wins() {
    let config = with(&[
        ("IPNUMA_SPIN_US", "9"),
        ("IPNUMA_TRACE", "0"),
        ("IPNUMA_PORTS", "5, 7-8"),
        ("IPNUMA_DAEMON", "/y"),
        ("IPNUMA_SOCKET", "on"),
        ("IPNUMA_REQUEST_NS", "1167"),
        (
            "IPNUMA_CALLS_NS",
            "send=1,send_kib=2,recv=3,recv_kib=4,epoll_wait=5,poll=6",
        ),
    ])
    .expect("right");
    let calls = config.rack.calls_ns;
    assert_eq!(
        [
            calls.send,
            calls.send_kib,
            calls.recv,
            calls.recv_kib,
            calls.epoll_wait,
            calls.poll
        ],
        [1, 2, 3, 4, 5, 6]
    );
    assert_eq!(config.rack.request_ns, 1167);
    assert_eq!(
        (config.spin, config.trace, config.daemon.to_str()),
        (Duration::from_micros(9), false, Some("/y"))
    );
    let ports: Vec<u16> = (0..20)
        .filter(|port| config.socket.accelerates(*port))
        .collect();
    assert_eq!(ports, [5, 7, 8]);
    assert!(with(&[]).expect("right").trace);
}

#[test]
fn a_profile_says_how_long_waits_spin_unless_that_is_said_nearer_by() {
    let us = |config: Config| config.spin.as_micros();
    let file = "profile = 'latency'";
    assert_eq!(us(parse(file).expect("right")), 100_000);
    assert_eq!(us(parse("profile = 'throughput'").expect("right")), 50);
    assert_eq!(
        us(parse("profile = 'latency'\nspin_us = 7").expect("right")),
        7
    );
    // That of the environment is nearer than the file, and a number nearer than a name.
    let nearer = |variables: &[(&str, &str)]| {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        parse("spin_us = 7")
            .and_then(|config| config.with_environment(find))
            .expect("right")
    };
    let config = nearer(&[("IPNUMA_PROFILE", "latency")]);
    assert_eq!(config.profile, Profile::Latency);
    assert_eq!(us(config), 100_000);
    let both = nearer(&[("IPNUMA_PROFILE", "throughput"), ("IPNUMA_SPIN_US", "9")]);
    assert_eq!(both.profile, Profile::Throughput);
    assert_eq!(us(both), 9);
}

#[test]
fn a_file_that_cannot_be_read_has_a_remedy() {
    for (path, words) in [
        ("/nowhere/config.toml", "No such file"),
        ("/dev/zero", "longer than"),
        ("/", "it is a directory"),
    ] {
        let error = Config::read(path.as_ref()).expect_err("no configuration");
        let error = error.to_string();
        assert!(
            error.starts_with(path) && error.contains(words) && error.contains("; name another"),
            "{error}"
        );
    }
}

#[test]
fn mistakes_are_named() {
    for (text, word) in [
        ("spin = 3", "spin"),
        ("backend = 'fpga'", "fpga"),
        ("profile = 'fast'", "fast"),
        ("[socket]\nports = ['a']", "\"a\""),
        ("[socket]\nports = ['9-1']", "9-1"),
        (
            "[socket]\nenable = true\nports = [\n  '80',\n  '9-x']",
            "line 5: \"9-x\" is no port and no range of ports; write 80",
        ),
        ("spin_us = -1", "spin_us"),
        ("[", "test.toml"),
        ("\n[", "line 2: "),
        (
            "spin_us = 3\nspinus = 3",
            "line 2: there is no key `spinus`; the keys are backend",
        ),
    ] {
        let error = parse(text).expect_err("wrong").to_string();
        assert!(
            error.contains(word) && error.contains("test.toml"),
            "{text:?}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{text:?}: {error}");
    }
    for (name, value) in [
        ("IPNUMA_SPIN_US", "soon"),
        ("IPNUMA_BACKEND", "verbs"),
        ("IPNUMA_PROFILE", "fast"),
        ("IPNUMA_TRACE", "maybe"),
        ("IPNUMA_PORTS", "70000"),
        ("IPNUMA_SOCKET", "2"),
        ("IPNUMA_REQUEST_NS", "-1"),
        ("IPNUMA_CALLS_NS", "send"),
        ("IPNUMA_CALLS_NS", "accept=1"),
        ("IPNUMA_CALLS_NS", "send=1,poll=soon"),
    ] {
        let error = with(&[(name, value)]).expect_err("wrong");
        assert_eq!(error.errno(), 22);
        let error = error.to_string();
        assert!(error.contains(name) && error.contains(value), "{error}");
    }
}
