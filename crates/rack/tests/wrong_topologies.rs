// SPDX-License-Identifier: Apache-2.0
//! Topologies that are wrong: one sentence with the file, the line of the key, and the remedy, before anything runs.

use std::path::Path;

use rack::Topology;

/// Two hosts on a cable.
const PAIR: &str = r#"platform = "keio-2016"
[[host]]
name = "a"
nic = { rate = "10g" }
[[host]]
name = "b"
nic = { rate = "10g" }
[[cable]]
between = ["a", "b"]
metres = 1.0
[program]
kind = "pingpong"
first = "a"
second = "b"
"#;

/// Two guests with a switch of another make between them.
const GUESTS: &str = r#"platform = "keio-2016"
[[host]]
name = "a"
kind = "uml"
nic = { kind = "virtio", rate = "1g", ip = "10.0.0.1" }
command = "true"
[[host]]
name = "b"
kind = "uml"
nic = { kind = "virtio", rate = "1g", ip = "10.0.1.1" }
[[switch]]
name = "sw1"
rate = "1g"
latency_ns = 4000
port = [{ number = 0, address = "10.0.0.2/24" }, { number = 1, address = "10.0.1.2/24" }]
[[cable]]
between = ["a", "sw1:0"]
metres = 1
[[cable]]
between = ["sw1:1", "b"]
metres = 1
[program]
kind = "uml"
until = ["a"]
"#;

/// A switch whose host is a guest.
const ROUTER: &str = r#"platform = "keio-2016"
[[host]]
name = "r1"
kind = "uml"
nic = { kind = "host-port", rate = "10g" }
command = "true"
[[host]]
name = "b"
kind = "uml"
nic = { kind = "virtio", rate = "10g", ip = "10.0.0.1" }
[[switch]]
name = "s1"
rate = "10g"
control = "r1"
port = [{ number = 0, address = "10.0.0.2/24" }, { number = 1, address = "10.0.1.2/24" }]
[[cable]]
between = ["b", "s1:0"]
metres = 1
cut = { at_s = 1 }
[program]
kind = "uml"
"#;

/// Each change of the good text is refused with its sentence behind the file's name.
fn refused(good: &str, changes: &[(&str, &str, &str)]) {
    Topology::parse(good, Path::new("t.toml")).expect("it is right");
    let mut wrong = Vec::new();
    for &(from, to, sentence) in changes {
        assert!(good.contains(from), "{from} is not there");
        let text = good.replacen(from, to, 1);
        match Topology::parse(&text, Path::new("t.toml")) {
            Ok(_) => wrong.push(format!("accepted: {to}")),
            Err(error) => {
                assert!(error.is_usage());
                if error.to_string() != format!("t.toml, {sentence}") {
                    wrong.push(format!("{error}\n  want {sentence}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const NAME: &str =
    "is no name; write 1 to 63 letters, digits and hyphens, none of these at the ends";

#[test]
fn names_are_those_of_machines_and_directories() {
    let long = "x".repeat(300);
    for (name, shown) in [
        ("..", ".."),
        (".", "."),
        ("", ""),
        ("a.b", "a.b"),
        ("a_b", "a_b"),
        ("-a", "-a"),
        ("a-", "a-"),
        ("\u{e4}", "\u{e4}"),
        ("\\u001b", "\\u{1b}"),
        (&long, &long[..63]),
    ] {
        let line = format!("line 8: host.name: `{shown}` {NAME}");
        let to = format!("name = \"{name}\"");
        refused(GUESTS, &[("name = \"b\"", &to, &line)]);
        let line = format!("line 12: switch.name: `{shown}` {NAME}");
        refused(GUESTS, &[("name = \"sw1\"", &to, &line)]);
    }
    let good = PAIR.replace("\"a\"", &format!("\"{}\"", "9".repeat(63)));
    Topology::parse(&good, Path::new("t.toml")).expect("63 are not too many");
}

#[test]
fn two_hosts_on_a_cable_have_addresses_of_one_subnet() {
    let b = "name = \"b\"\nnic = { rate = \"10g\"";
    let with = |ip: &str| format!("{b}, ip = \"{ip}\"");
    for (ip, sentence) in [
        (
            "0.0.0.0",
            "0.0.0.0 is no address of a host; write one such as 10.0.0.1",
        ),
        (
            "255.255.255.255",
            "255.255.255.255 is no address of a host; write one such as 10.0.0.1",
        ),
        (
            "224.0.0.1",
            "224.0.0.1 is no address of a host; write one such as 10.0.0.1",
        ),
        (
            "127.0.0.1",
            "127.0.0.1 is no address of a host; write one such as 10.0.0.1",
        ),
        (
            "10.0.0.255",
            "10.0.0.255 is no address of a host in 10.0.0.0/24; give `b` another",
        ),
        (
            "10.0.0.1",
            "`a` and `b` have the same address 10.0.0.1; change one",
        ),
        (
            "192.0.2.1",
            "192.0.2.1 of `b` is not in 10.0.0.0/24 with `a` at the other end of the cable; set both in one subnet",
        ),
    ] {
        let sentence = format!("line 7: host.nic.ip: {sentence}");
        refused(PAIR, &[(b, &with(ip), &sentence)]);
    }
}

#[test]
fn numbers_have_bounds() {
    refused(
        PAIR,
        &[
            (
                "second = \"b\"",
                "second = \"b\"\nwarmup = 9223372036854775807",
                "line 15: program.warmup: 9223372036854775807 is not from 0 to 100000000; write fewer",
            ),
            (
                "metres = 1.0",
                "metres = 1.0\nfaults = { corrupt = 1 }",
                "line 11: cable.faults.corrupt: 1 is out of range; write 0 to 0.99",
            ),
            (
                "metres = 1.0",
                "metres = 1.0\n[cable.faults]\nreorder = 1\nloss = 1",
                "line 13: cable.faults.loss: 1 is out of range; write 0 to 0.99",
            ),
            (
                "metres = 1.0",
                "metres = 1.0\nfaults = { delay_ns = 1e9 }",
                "line 11: cable.faults.delay_ns: 1000000000 ns is out of range; write 0 to 1000000",
            ),
            (
                "metres = 1.0",
                "metres = -0.0",
                "line 10: cable.metres: -0 is no length; write 0 to 100000",
            ),
        ],
    );
}

#[test]
fn what_would_be_taken_for_something_else_is_refused() {
    refused(
        PAIR,
        &[
            (
                "[\"a\", \"b\"]",
                "[\"a\", \"b\", \"a\"]",
                "line 9: a cable has two ends, and 3 are here; write two",
            ),
            (
                "metres = 1.0",
                "metres = 1.0\nfaults = []",
                "line 11: a list is out of place; write a table, as in { KEY = VALUE }",
            ),
            (
                "nic = { rate = \"10g\" }",
                "nic = []",
                "line 4: a list is out of place; write a table, as in { KEY = VALUE }",
            ),
        ],
    );
    refused(
        GUESTS,
        &[
            (
                "\"sw1:0\"",
                "\"sw1:00\"",
                "line 17: cable.between: port 00 of `sw1` has no address; the ports are sw1:0, sw1:1, or add one to the switch",
            ),
            (
                "10.0.0.2/24",
                "10.0.0.2/+24",
                "line 15: `10.0.0.2/+24` is no address with a prefix length; write it as in 192.0.2.1/24",
            ),
            (
                "latency_ns = 4000",
                "store_and_forward = false",
                "line 14: switch.store_and_forward: it is for a switch with latency_ns, and this one does what its RTL does; remove it",
            ),
            (
                "until = [\"a\"]",
                "until = [\"a\", \"a\"]",
                "line 24: program.until: `a` is there twice; name each host once",
            ),
        ],
    );
}

#[test]
fn every_sentence_has_the_line_of_its_key() {
    refused(
        PAIR,
        &[
            (
                "keio-2016",
                "elsewhere",
                "line 1: platform: there is no platform `elsewhere`; choose keio-2016 or modern or keio-2016-fitted, or give the path of a .toml file",
            ),
            (
                "[[cable]]",
                "[register]\nWINDOW = 1\nNOSUCH = 1\n[[cable]]",
                "line 10: register.NOSUCH: there is no such register to write; docs/registers.md has their names",
            ),
            (
                "second = \"b\"",
                "second = \"b\"\nloops = 0",
                "line 15: program.loops: 0 is not from 1 to 100000000",
            ),
            (
                "second = \"b\"",
                "second = \"b\"\nloops = -1",
                "line 15: the number -1 is out of place; write a whole number from 0 to 18446744073709551615",
            ),
            (
                "second = \"b\"",
                "second = \"b\"\nlops = 1",
                "line 15: there is no key `lops`; the keys are first, second, bytes, loops, warmup",
            ),
            (
                "\"pingpong\"",
                "\"pong\"",
                "line 12: no such value: `pong`; write one of pingpong, stream, uml",
            ),
            (
                "\"pingpong\"",
                "5",
                "line 12: the number 5 is out of place; write a text in quotation marks",
            ),
        ],
    );
    refused(
        GUESTS,
        &[
            (
                "latency_ns = 4000",
                "latency_ns = 0",
                "line 14: switch.latency_ns: 0 ns of `sw1` are less than its physical layers take, 356.000 ns, and a cycle; write more",
            ),
            (
                "latency_ns = 4000",
                "latency_ns = { 64 = 4000, 0064 = 5000 }",
                "line 14: switch.latency_ns: 64 bytes are there twice; remove one",
            ),
            (
                "latency_ns = 4000",
                "latency_ns = { 1518 = 1, 64 = 20000 }",
                "line 14: switch.latency_ns: 1 ns of `sw1` are less than its physical layers take, 356.000 ns, and a cycle; write more",
            ),
        ],
    );
}

#[test]
fn the_host_of_a_switch_is_a_guest_of_its_own() {
    refused(
        ROUTER,
        &[
            (
                "control = \"r1\"",
                "control = \"r2\"",
                "line 14: switch.control: there is no host `r2`; the hosts are r1, b",
            ),
            (
                "control = \"r1\"",
                "control = \"b\"",
                "line 14: switch.control: `b` has a NIC of its own; give it kind = \"uml\" and nic.kind = \"host-port\"",
            ),
            (
                "control = \"r1\"\n",
                "",
                "line 5: host.nic.kind: `r1` is the host of no switch; give one control = \"r1\", or the guest a NIC",
            ),
            (
                "control = \"r1\"",
                "control = \"r1\"\nideal = true",
                "line 14: switch.control: `s1` has no tables that a guest could write: only the RTL has; remove ideal and latency_ns",
            ),
            (
                "control = \"r1\"",
                "control = \"r1\"\nroute = [{ prefix = \"10.2.0.0/16\", via = \"10.0.0.1\" }]",
                "line 14: switch.control: the routes of `s1` are those of `r1`'s kernel; remove its [[switch.route]]",
            ),
            (
                "kind = \"host-port\", rate = \"10g\"",
                "kind = \"host-port\", rate = \"1g\"",
                "line 14: switch.control: `r1` is 1g and `s1` is 10g; make the rates equal",
            ),
            (
                "[[cable]]",
                "[[switch]]\nname = \"s2\"\nrate = \"10g\"\ncontrol = \"r1\"\n\
                 port = [{ number = 0, address = \"10.1.0.2/24\" }]\n[[cable]]",
                "line 14: switch.control: `r1` has two switches; give one another guest",
            ),
            (
                "between = [\"b\", \"s1:0\"]",
                "between = [\"r1\", \"s1:0\"]",
                "line 17: cable.between: `r1` has no NIC, it is the host of a switch; name a port of that",
            ),
            (
                "at_s = 1",
                "at_s = 1, mend_s = 0.5",
                "line 19: cable.cut.mend_s: 0.5 is no time behind at_s, 1; write a later one",
            ),
            (
                "kind = \"host-port\"",
                "kind = \"hostport\"",
                "line 5: no such value: `hostport`; write one of ipnuma, ring, shared, uzura, virtio, host-port, toe",
            ),
        ],
    );
}

/// A guest and a host with a TCP offload engine.
const ENGINE: &str = r#"platform = "keio-2016"
[[host]]
name = "a"
kind = "uml"
nic = { kind = "virtio", rate = "10g", ip = "10.0.0.1" }
command = "true"
[[host]]
name = "b"
fetch = "a:80/x"
nic = { kind = "toe", rate = "10g", ip = "10.0.0.2" }
[[cable]]
between = ["a", "b"]
metres = 1
[program]
kind = "uml"
"#;

#[test]
fn engines_are_peers_of_guests() {
    refused(
        ENGINE,
        &[
            (
                "kind = \"virtio\"",
                "kind = \"toe\"",
                "line 5: host.nic.kind: no guest has a driver for a TCP offload engine; remove the kind = \"uml\" of `a`",
            ),
            (
                "kind = \"toe\", rate = \"10g\"",
                "kind = \"toe\", rate = \"1g\"",
                "line 10: host.nic.rate: there is no TCP offload engine at 1g; give that of `b` rate = \"10g\"",
            ),
            (
                "kind = \"toe\"",
                "kind = \"ring\"",
                "line 9: host.fetch: only a TCP offload engine fetches; give the nic of `b` kind = \"toe\"",
            ),
            (
                "a:80/x",
                "a/x",
                "line 9: host.fetch: `a/x` names nothing to fetch; write HOST:PORT/PATH",
            ),
            (
                "a:80/x",
                "c:80/x",
                "line 9: host.fetch: there is no host `c`; name one of this file",
            ),
            (
                "[program]\nkind = \"uml\"",
                "[program]\nkind = \"pingpong\"\nfirst = \"a\"\nsecond = \"b\"",
                "line 15: program.kind: `a` is a guest; write kind = \"uml\" for the program, too",
            ),
        ],
    );
}

#[test]
fn interrupts_of_the_nic_are_for_guests_with_one_of_ours() {
    let rate = "kind = \"virtio\", rate = \"1g\", ip = \"10.0.0.1\"";
    let asked = format!("{rate}, interrupts = true");
    let sentence = "they are for a guest's IP-NUMA NIC, and `a` has none";
    let line = format!("line 5: host.nic.interrupts: {sentence}");
    refused(GUESTS, &[(rate, &asked, &line)]);
    let rate = "rate = \"10g\"";
    let asked = format!("{rate}, interrupts = true");
    let line = format!("line 4: host.nic.interrupts: {sentence}");
    refused(PAIR, &[(rate, &asked, &line)]);
}

/// A guest with two NICs.
const TWO_NICS: &str = r#"platform = "keio-2016"
[[host]]
name = "router"
kind = "uml"
nic = { kind = "ring", rate = "1g", ip = "10.0.0.254" }
[[host]]
name = "router-2"
kind = "card"
of = "router"
nic = { kind = "ring", rate = "1g", ip = "10.0.1.254" }
[[host]]
name = "a"
kind = "uml"
nic = { kind = "virtio", rate = "1g", ip = "10.0.0.1" }
command = "true"
[[host]]
name = "b"
kind = "uml"
nic = { kind = "virtio", rate = "1g", ip = "10.0.1.1" }
[[cable]]
between = ["a", "router"]
metres = 1
[[cable]]
between = ["router-2", "b"]
metres = 1
[program]
kind = "uml"
"#;

#[test]
fn cards_are_in_guests() {
    refused(
        TWO_NICS,
        &[
            (
                "of = \"router\"\n",
                "",
                "line 7: host.of: `router-2` is in no guest; name the one that it is a card of",
            ),
            (
                "kind = \"card\"\n",
                "kind = \"uml\"\n",
                "line 9: host.of: `router-2` is a host of its own; give it kind = \"card\", or remove of",
            ),
            (
                "of = \"router\"",
                "of = \"c\"",
                "line 9: host.of: there is no host `c`; the hosts are router, router-2, a, b",
            ),
            (
                "of = \"router\"",
                "of = \"a\"",
                "line 9: host.of: `a` takes no cards; give it kind = \"uml\" and nic.kind = \"ring\"",
            ),
            (
                "of = \"router\"",
                "of = \"router-2\"",
                "line 9: host.of: `router-2` takes no cards; give it kind = \"uml\" and nic.kind = \"ring\"",
            ),
            (
                "of = \"router\"",
                "of = \"router\"\nlink = \"Gen2x4\"",
                "line 9: host.of: `router-2` is not like the first NIC of `router`; give both one nic.rate and one link",
            ),
            (
                "of = \"router\"\nnic = { kind = \"ring\"",
                "of = \"router\"\nnic = { kind = \"virtio\"",
                "line 10: host.nic.kind: a card of a guest is the conventional NIC; give `router-2` nic.kind = \"ring\"",
            ),
            (
                "of = \"router\"",
                "of = \"router\"\ncommand = \"true\"",
                "line 9: host.of: `router-2` is a card and no machine; give command, files, rdma, cpu and neighbours to its guest",
            ),
        ],
    );
}

#[test]
fn a_guest_has_as_many_nics_as_its_bus_has_places() {
    let card = "[[host]]\nname = \"NAME\"\nkind = \"card\"\nof = \"router\"\n\
                nic = { kind = \"ring\", rate = \"1g\", ip = \"10.0.NUMBER.254\" }\n";
    let with = |cards: std::ops::Range<usize>| {
        let cards = cards.map(|number| {
            let number = number.to_string();
            card.replace("NAME", &format!("more-{number}"))
                .replace("NUMBER", &number)
        });
        let text = TWO_NICS.replace(
            "[[cable]]\nbetween = [\"a\"",
            &format!("{}[[cable]]\nbetween = [\"a\"", cards.collect::<String>()),
        );
        Topology::parse(&text, Path::new("t.toml"))
    };
    with(2..8).expect("eight NICs");
    let error = with(2..9).expect_err("nine NICs").to_string();
    assert!(
        error.contains("`router` has more than 8 NICs; leave some out"),
        "{error}"
    );
}
