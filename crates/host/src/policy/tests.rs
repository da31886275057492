// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Policy {
    Policy::parse(text, "test").unwrap()
}

fn wrong(text: &str) -> String {
    let error = Policy::parse(text, "test").unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The number of the line that decides, for one program.
fn decides(text: &str, program: &str, role: Role, address: &str) -> Option<usize> {
    let policy = parse(text).of_program(program);
    policy.find(role, at(address)).map(|line| line.number)
}

#[test]
fn the_first_line_that_fits_decides() {
    let text = "\
        # the database's\n\
        ipnuma connect 10.1.0.0/16 port 5432\n\
        \n\
        kernel connect 10.0.0.0/8 port 5432 # all others\n\
        kernel listen port 8000-8099\n\
        kernel program sshd\n";
    use Role::{Connect, Listen};
    assert_eq!(decides(text, "x", Connect, "10.1.2.3:5432"), Some(2));
    assert_eq!(decides(text, "x", Connect, "10.2.2.3:5432"), Some(4));
    assert_eq!(
        decides(text, "x", Connect, "[::ffff:10.2.2.3]:5432"),
        Some(4)
    );
    assert_eq!(decides(text, "x", Connect, "10.2.2.3:5433"), None);
    assert_eq!(decides(text, "x", Listen, "10.1.2.3:5432"), None);
    assert_eq!(decides(text, "x", Listen, "[::]:8099"), Some(5));
    assert_eq!(decides(text, "x", Listen, "0.0.0.0:8100"), None);
    assert_eq!(decides(text, "x", Connect, "127.0.0.1:8000"), None);
    assert_eq!(decides(text, "sshd", Listen, "0.0.0.0:22"), Some(6));
    assert_eq!(decides(text, "sshd2", Listen, "0.0.0.0:22"), None);
    let policy = parse(text).of_program("sshd");
    assert!(!policy.leaves(Connect, at("10.1.0.0:5432")));
    assert!(policy.leaves(Connect, at("10.1.0.0:5433")));
}

#[test]
fn networks_have_their_first_and_last_address_and_no_more() {
    for (network, inside, outside) in [
        ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], "11.0.0.0"),
        ("192.0.2.4/30", ["192.0.2.4", "192.0.2.7"], "192.0.2.8"),
        ("192.0.2.1", ["192.0.2.1", "192.0.2.1"], "192.0.2.0"),
        ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], "::1"),
        ("::/0", ["::", "2001:db8::1"], "192.0.2.1"),
        (
            "2001:db8::/33",
            ["2001:db8::", "2001:db8:7fff::"],
            "2001:db8:8000::",
        ),
        ("::1", ["::1", "::1"], "::2"),
    ] {
        let network: Network = network.parse().unwrap();
        for inside in inside {
            assert!(network.has(inside.parse().unwrap()), "{network} {inside}");
        }
        assert!(
            !network.has(outside.parse().unwrap()),
            "{network} {outside}"
        );
    }
}

#[test]
fn a_program_may_be_the_begin_of_a_name() {
    let policy = parse("kernel program python3*\nkernel program a#b");
    for (name, lines) in [
        ("python3", 1),
        ("python3.11", 1),
        ("python", 0),
        ("a#b", 1),
        ("", 0),
    ] {
        assert_eq!(policy.clone().of_program(name).lines.len(), lines, "{name}");
    }
}

#[test]
fn what_leaves_a_program_nothing_is_known() {
    for (text, listen, connect) in [
        ("", false, false),
        ("kernel", true, true),
        ("kernel port 1-65534", false, false),
        ("kernel port 1-65535", true, true),
        ("kernel connect 10.0.0.0/8\nkernel connect", false, true),
        ("ipnuma port 80\nkernel", false, false),
        ("kernel\nipnuma port 80", true, true),
        ("ipnuma listen\nkernel", false, true),
        ("kernel program other", false, false),
    ] {
        let policy = parse(text).of_program("x");
        assert_eq!(policy.leaves_all(Role::Listen), listen, "{text}");
        assert_eq!(policy.leaves_all(Role::Connect), connect, "{text}");
    }
    let all = Policy::of_the_kernel();
    assert!(Role::ALL.iter().all(|role| all.leaves_all(*role)));
    assert!(all.leaves(Role::Connect, at("[::1]:1")));
}

#[test]
fn mistakes_are_named_with_line_and_remedy() {
    for (text, line, what, remedy) in [
        (
            "kernel\nallow port 80",
            2,
            "`allow` begins no rule",
            "write ipnuma or kernel",
        ),
        (
            "kernel prot 80",
            1,
            "`prot` is no word",
            "write ipnuma or kernel",
        ),
        (
            "kernel port",
            1,
            "behind `port` there is nothing",
            "write port 80",
        ),
        (
            "kernel program # x",
            1,
            "behind `program`",
            "write program NAME",
        ),
        ("kernel port 0", 1, "`0` is no port", "8000-8099"),
        ("kernel port 9-8", 1, "`9-8` is no port", "8000-8099"),
        ("kernel port 65536", 1, "`65536` is no port", "8000-8099"),
        ("kernel port +80", 1, "`+80` is no port", "8000-8099"),
        ("kernel port 1-2-3", 1, "is no port", "8000-8099"),
        ("kernel port 80 port 81", 1, "one port", "a line for each"),
        ("kernel listen connect", 1, "one part", "a line for each"),
        ("kernel 10.0.0.1/8", 1, "more bits", "write 10.0.0.0/8"),
        ("kernel 10.0.0.0/33", 1, "no network", "10.0.0.0/8"),
        ("kernel 10.0.0.0/+8", 1, "no network", "10.0.0.0/8"),
        ("kernel 10.0.0", 1, "no network", "10.0.0.0/8"),
        (
            "kernel ::ffff:10.0.0.1",
            1,
            "IPv4 written as IPv6",
            "10.0.0.1",
        ),
        (
            "kernel program /usr/sbin/sshd",
            1,
            "directory",
            "write program sshd",
        ),
        ("kernel program *ssh", 1, "star", "python3*"),
        ("kernel program a**", 1, "star", "quotes"),
        ("kernel program \"my server", 1, "no end", "write \""),
        ("\"kernel\" listen", 1, "begins no rule", "write ipnuma"),
        ("kernel \"listen\"", 1, "no word", "listen or connect"),
        ("# old\rkernel\r", 1, "carriage return", "line feed"),
    ] {
        let said = wrong(text);
        assert!(said.starts_with(&format!("test, line {line}: ")), "{said}");
        assert!(
            said.contains(what) && said.contains(remedy),
            "{text}: {said}"
        );
    }
}

#[test]
fn marks_and_line_ends_of_other_systems_are_known() {
    assert_eq!(parse("\u{feff}kernel\r\nipnuma\r\n").lines.len(), 2);
}

#[test]
fn a_link_that_leads_nowhere_is_a_file_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy");
    assert!(!is_there(&path));
    std::os::unix::fs::symlink("/nowhere/at/all", &path).unwrap();
    assert!(is_there(&path));
    assert!(Policy::read(&path).is_err());
}

#[test]
fn files_that_are_none_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy");
    let said = || Policy::read(&path).unwrap_err().to_string();
    assert!(said().contains("cannot be read") && said().contains(VARIABLE));
    std::fs::write(&path, b"kernel \xff").unwrap();
    assert!(said().contains("UTF-8"), "{}", said());
    std::fs::write(&path, vec![b' '; LONGEST as usize + 1]).unwrap();
    assert!(said().contains("longer"), "{}", said());
    std::fs::write(&path, "kernel port 80").unwrap();
    assert_eq!(Policy::read(&path).unwrap().lines.len(), 1);
    let nothing = Policy::read(Path::new("/dev/null")).unwrap();
    assert_eq!(nothing.lines, []);
    let none = Policy::read(directory.path()).unwrap_err().to_string();
    assert!(none.contains("no ordinary file"), "{none}");
}

#[test]
fn what_the_built_in_list_leaves_to_the_kernel_is_known_for_it() {
    let policy = parse(BUILT_IN);
    assert!(!policy.lines.is_empty());
    for line in &policy.lines {
        assert_eq!(line.rule.action, Action::Kernel);
        let name = line.rule.program.as_ref().unwrap().to_string();
        assert_eq!(known(&name).count(), 1, "{name}");
    }
}

#[test]
fn names_in_quotes_are_taken_as_they_are() {
    for (text, name, fits) in [
        ("kernel program \"my server\"", "my server", true),
        ("kernel program my\" \"server", "my server", true),
        ("kernel program \"my \"*", "my other", true),
        ("kernel program \"a*b\"", "a*b", true),
        ("kernel program \"a*\"", "ab", false),
        ("kernel program \"#x\" # y", "#x", true),
        ("kernel program a#b", "a#b", true),
    ] {
        let found = decides(text, name, Role::Listen, "10.0.0.1:1");
        assert_eq!(found, fits.then_some(1), "{text}");
    }
}

#[test]
fn lines_together_can_leave_all_to_the_kernel() {
    for (text, listen, connect) in [
        (
            "kernel 0.0.0.0/1\nkernel 128.0.0.0/1\nkernel ::/0",
            true,
            true,
        ),
        ("kernel 0.0.0.0/1\nkernel 128.0.0.0/1", false, false),
        ("kernel 0.0.0.0/0\nkernel ::/1\nkernel 8000::/1", true, true),
        (
            "kernel 0.0.0.0/0\nkernel ::/1\nkernel 8000::/2",
            false,
            false,
        ),
        ("kernel port 1-999\nkernel port 1000-65535", true, true),
        ("kernel port 1-999\nkernel port 1001-65535", false, false),
        ("kernel listen\nkernel connect", true, true),
        ("kernel listen", true, false),
        ("ipnuma 10.0.0.1 port 80\nkernel", false, false),
        (
            "kernel 10.0.0.0/8\nipnuma 10.0.0.1 port 80\nkernel",
            true,
            true,
        ),
        (
            "kernel 10.0.0.0/8 port 1-99\nkernel 10.0.0.0/8 port 100-65535 connect\nipnuma listen 10.9.0.0/16\nkernel",
            false,
            true,
        ),
        ("ipnuma\nkernel", false, false),
        ("", false, false),
    ] {
        let policy = parse(text);
        let all = Role::ALL.map(|role| policy.leaves_all(role));
        assert_eq!(all, [listen, connect], "{text}");
    }
}

#[test]
fn lines_that_decide_nothing_are_found() {
    for (text, shadows) in [
        ("kernel\nipnuma port 80", vec![(2, 1)]),
        ("ipnuma port 80\nkernel", vec![]),
        (
            "kernel program py*\nipnuma program python3 listen\nipnuma program p*",
            vec![(2, 1)],
        ),
        ("kernel program py\nipnuma program py*", vec![]),
        (
            "kernel 10.0.0.0/8 port 1-99\n\nipnuma 10.1.0.0/16 port 5",
            vec![(3, 1)],
        ),
        ("kernel 10.0.0.0/8 port 1-99\nipnuma 10.1.0.0/16", vec![]),
        ("kernel ::/0\nipnuma 10.1.0.0/16", vec![]),
        ("kernel connect\nipnuma", vec![]),
        ("kernel\nkernel", vec![(2, 1)]),
    ] {
        let policy = parse(text);
        let found: Vec<_> = policy
            .shadowed()
            .map(|(line, by)| (line.number, by.number))
            .collect();
        assert_eq!(found, shadows, "{text}");
    }
}

fn rules() -> impl Strategy<Value = Rule> {
    let network = (any::<std::net::IpAddr>(), 0..=128u8).prop_filter_map(
        "IPv4 is not written as IPv6",
        |(address, bits)| {
            let most = if address.is_ipv4() { 32 } else { 128 };
            Network::around(address, bits.min(most))
        },
    );
    let ports = (1..=u16::MAX, 1..=u16::MAX).prop_map(|(one, other)| Ports {
        first: one.min(other),
        last: one.max(other),
    });
    let role = prop_oneof![Just(Role::Listen), Just(Role::Connect)];
    let action = prop_oneof![Just(Action::Ipnuma), Just(Action::Kernel)];
    let program =
        "[a-z0-9._+:-][a-zA-Z0-9#._+:-]{0,20}[*]?".prop_map(|name| match name.strip_suffix('*') {
            Some(name) => (name.to_owned(), true),
            None => (name, false),
        });
    let odd = ("[a-z *#\u{a0}]{0,9}", any::<bool>());
    let program =
        prop_oneof![3 => program, 1 => odd].prop_map(|(name, open)| Program { name, open });
    (
        action,
        proptest::option::of(program),
        proptest::option::of(role),
        proptest::option::of(network),
        proptest::option::of(ports),
    )
        .prop_map(|(action, program, role, network, ports)| Rule {
            action,
            program,
            role,
            network,
            ports,
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read(written in proptest::collection::vec(rules(), 0..9)) {
        let text: String = written.iter().map(|rule| format!("{rule}\n")).collect();
        let read: Vec<Rule> = parse(&text).lines.into_iter().map(|line| line.rule).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn what_is_shadowed_decides_nothing(
        written in proptest::collection::vec(rules(), 0..9),
        address in any::<SocketAddr>(),
    ) {
        let text: String = written.iter().map(|rule| format!("{rule}\n")).collect();
        let policy = parse(&text);
        let shadowed: Vec<usize> = policy.shadowed().map(|(line, _)| line.number).collect();
        let names = policy.lines.iter().filter_map(|line| line.rule.program.as_ref());
        let names: Vec<String> = names.map(|program| program.name.clone()).collect();
        for name in names.iter().map(|name| &**name).chain(["", "x"]) {
            let policy = policy.clone().of_program(name);
            for role in Role::ALL {
                let line = policy.find(role, address);
                prop_assert!(line.is_none_or(|line| !shadowed.contains(&line.number)));
                prop_assert!(!policy.leaves_all(role) || policy.leaves(role, address) || address.port() == 0);
            }
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        text in "((ipnuma|kernel|program|listen|connect|port|[0-9a-f:./*#-]{1,20}|\\PC{0,9})[ \t\r\n]{0,2}){0,30}",
        address in any::<SocketAddr>(),
    ) {
        match Policy::parse(&text, "test") {
            Ok(policy) => {
                for role in Role::ALL {
                    let left = policy.leaves(role, address);
                    prop_assert!(left || !policy.leaves_all(role) || address.port() == 0);
                }
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}
