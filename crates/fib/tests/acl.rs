// SPDX-License-Identifier: Apache-2.0
//! The access list: text, words and decisions agree; what can't be is refused with a sentence.

use fib::acl::{
    self, Acl, Addresses, Decision, Error, Key, MAX_RULES, Ports, Prefixes, RULE_WORDS, Rule,
};
use fib::layout::Bits;
use fib::{Prefix4, Prefix6};
use proptest::prelude::*;

/// Lengths at which something changes, more often than others.
fn length(bits: u8) -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(bits), 0..=bits]
}

/// Few addresses, so that rules and keys meet.
fn addr4() -> impl Strategy<Value = u32> {
    (
        prop_oneof![Just(0x0a00_0000u32), Just(0xc000_0200)],
        0..32u32,
    )
        .prop_map(|(addr, bit)| addr ^ 1 << bit)
}

fn addr6() -> impl Strategy<Value = u128> {
    (0..2u128, 0..128u32).prop_map(|(low, bit)| 0x2001_0db8 << 96 ^ low ^ 1 << bit)
}

fn prefixes() -> impl Strategy<Value = Prefixes> {
    let four = (addr4(), length(32)).prop_map(|(addr, len)| Prefix4::around(addr, len));
    let six = (addr6(), length(128)).prop_map(|(addr, len)| Prefix6::around(addr, len));
    let four_too = (addr4(), length(32)).prop_map(|(addr, len)| Prefix4::around(addr, len));
    let six_too = (addr6(), length(128)).prop_map(|(addr, len)| Prefix6::around(addr, len));
    prop_oneof![
        (four, four_too).prop_map(|(src, dst)| Prefixes::V4(src, dst)),
        (six, six_too).prop_map(|(src, dst)| Prefixes::V6(src, dst)),
        Just(Prefixes::Any),
    ]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![0..4u16, 65533..=65535u16, Just(22), any::<u16>()]
}

fn ports() -> impl Strategy<Value = Option<Ports>> {
    prop::option::of(
        (port(), port()).prop_map(|(a, b)| Ports::new(a.min(b), a.max(b)).expect("in order")),
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let protocol = prop_oneof![
        Just(None),
        Just(Some(6)),
        Just(Some(17)),
        any::<Option<u8>>()
    ];
    let ingress = prop_oneof![Just(u16::MAX), Just(0), any::<u16>()];
    (
        any::<bool>(),
        prefixes(),
        protocol,
        ports(),
        ports(),
        ingress,
    )
        .prop_map(
            |(deny, prefixes, protocol, src_ports, dst_ports, ingress)| {
                // Only these have ports; a rule that asks for others' is refused.
                let has = protocol.is_none_or(|number| [6, 17, 132].contains(&number));
                Rule {
                    deny,
                    prefixes,
                    protocol,
                    src_ports: src_ports.filter(|_| has),
                    dst_ports: dst_ports.filter(|_| has),
                    ingress,
                }
            },
        )
}

fn key() -> impl Strategy<Value = Key> {
    let addresses = prop_oneof![
        (addr4(), addr4()).prop_map(|(a, b)| Addresses::V4(a.into(), b.into())),
        (addr6(), addr6()).prop_map(|(a, b)| Addresses::V6(a.into(), b.into())),
    ];
    let protocol = prop_oneof![Just(6), Just(17), any::<u8>()];
    (
        addresses,
        protocol,
        prop::option::of((port(), port())),
        0..16u8,
    )
        .prop_map(|(addresses, protocol, ports, ingress)| Key {
            addresses,
            protocol,
            ports,
            ingress,
        })
}

/// Bits of a word, counted by hand from the RTL's struct.
fn bits(word: &Bits, lsb: usize, width: usize) -> u128 {
    (0..width).fold(0, |sum, i| {
        let at = lsb + i;
        sum | u128::from(word[at / 64] >> (at % 64) & 1) << i
    })
}

/// What hardware makes of five words: it compares masked bits and knows nothing of prefixes.
fn hardware(words: &[Bits; RULE_WORDS], key: &Key) -> bool {
    let terms = |lsb, width| bits(&words[4], lsb, width);
    let (v6, src, dst) = match key.addresses {
        Addresses::V4(a, b) => (
            false,
            u128::from(u32::from(a)) << 96,
            u128::from(u32::from(b)) << 96,
        ),
        Addresses::V6(a, b) => (true, a.into(), b.into()),
    };
    let same = |at: usize, address: u128| {
        (address ^ bits(&words[at], 0, 128)) & bits(&words[at + 1], 0, 128) == 0
    };
    let within = |lsb, port: Option<u16>| {
        terms(lsb + 32, 1) == 1
            || port.is_some_and(|port| {
                terms(lsb, 16) <= port.into() && u128::from(port) <= terms(lsb + 16, 16)
            })
    };
    terms(94, 1) == 1
        && terms(if v6 { 92 } else { 91 }, 1) == 1
        && terms(key.ingress.into(), 1) == 1
        && (terms(90, 1) == 1 || terms(82, 8) == key.protocol.into())
        && same(0, src)
        && same(2, dst)
        && within(49, key.ports.map(|ports| ports.0))
        && within(16, key.ports.map(|ports| ports.1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn text_and_back(rule in rule()) {
        let text = rule.to_string();
        prop_assert_eq!(text.parse::<Rule>().map_err(|e| e.to_string()), Ok(rule), "{}", text);
    }

    #[test]
    fn words_and_back(rule in rule()) {
        prop_assert_eq!(Rule::from_words(&rule.words()), Ok(Some(rule)));
    }

    #[test]
    fn any_words_or_text_end_in_an_answer(
        words in prop::array::uniform5(prop::array::uniform3(any::<u64>())),
        text in "(deny|permit|default|v4|v6|any|tcp|sport|dport|in|10.0.0.0/8|::/0|[ -~]{0,9}| ){0,12}",
    ) {
        let _ = Rule::from_words(&words);
        if let Ok(rule) = text.parse::<Rule>() {
            prop_assert_eq!(rule.to_string().parse(), Ok(rule));
        }
    }

    #[test]
    fn decisions_are_those_of_the_words(
        rules in prop::collection::vec(prop::option::weighted(0.8, rule()), 1..8),
        default in any::<bool>(),
        keys in prop::collection::vec(key(), 1..40),
    ) {
        let mut acl = Acl::new(rules.len()).unwrap();
        // The hardware sees only the writes.
        let mut kept = [[0; 3]; RULE_WORDS];
        let mut hardware_rules = vec![[[0; 3]; RULE_WORDS]; rules.len()];
        for (index, rule) in rules.iter().enumerate() {
            for write in acl.set(index, *rule).unwrap() {
                let word = (write.addr & 7) as usize;
                kept[word] = write.data;
                if word == 4 {
                    hardware_rules[(write.addr >> 3) as usize] = kept;
                }
            }
        }
        let write = acl.set_default(default);
        prop_assert_eq!((write.addr & 7, write.data), (5, [u64::from(default), 0, 0]));
        for key in &keys {
            let first = hardware_rules.iter().position(|words| hardware(words, key));
            let deny = first.map_or(default, |index| bits(&hardware_rules[index][4], 93, 1) == 1);
            prop_assert_eq!(acl.decide(key), Decision { deny, rule: first });
        }
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let acl = Acl::parse(
        "# from the inside\n\
         permit v4 tcp 10.1.0.0/16 any dport 22   # ours\n\
         \n\
         deny v4 tcp 10.0.0.0/8 any dport 22-23 in 0,2\n\
         deny v6 any any any\n\
         default deny\n",
        4,
    )
    .unwrap();
    let ask = |src: [u8; 4], ports, ingress| {
        acl.decide(&Key {
            addresses: Addresses::V4(src.into(), [192, 0, 2, 1].into()),
            protocol: 6,
            ports,
            ingress,
        })
    };
    let decision = |deny, rule| Decision { deny, rule };
    assert_eq!(
        ask([10, 1, 2, 3], Some((9, 22)), 2),
        decision(false, Some(0))
    );
    assert_eq!(
        ask([10, 1, 2, 3], Some((9, 23)), 2),
        decision(true, Some(1))
    );
    assert_eq!(
        ask([10, 2, 2, 3], Some((9, 22)), 0),
        decision(true, Some(1))
    );
    // Not by that port, not without ports: the default.
    assert_eq!(ask([10, 2, 2, 3], Some((9, 22)), 1), decision(true, None));
    assert_eq!(ask([10, 2, 2, 3], None, 0), decision(true, None));
    let six = Key {
        addresses: Addresses::V6("::1".parse().unwrap(), "::2".parse().unwrap()),
        protocol: 58,
        ports: None,
        ingress: 15,
    };
    assert_eq!(acl.decide(&six), decision(true, Some(2)));
    assert_eq!(acl.rules()[3], None);
    // Three rules of five words, one removal, the default.
    assert_eq!(acl.writes().len(), 3 * 5 + 1 + 1);
    assert_eq!(
        acl.writes()[15],
        acl::Write {
            addr: 3 << 3 | 4,
            data: [0; 3]
        }
    );
}

#[test]
fn refusals_are_sentences() {
    for (text, message) in [
        ("", "the rule ends where its action should be"),
        (
            "deny v4 tcp any",
            "the rule ends where its destination should be",
        ),
        (
            "deny v4 tcp any any dport",
            "the rule ends where its destination port should be",
        ),
        (
            "drop v4 tcp any any",
            "\"drop\" is not an action; write permit or deny",
        ),
        (
            "deny ip tcp any any",
            "\"ip\" is not a family; write v4, v6 or any",
        ),
        ("deny v4 256 any any", "\"256\" is not a protocol"),
        (
            "deny v4 tcp 10.0.0.1/8 any",
            "10.0.0.1/8 has bits set behind its prefix length",
        ),
        (
            "deny v4 tcp 10.0.0.0/33 any",
            "/33 is longer than an address of 32 bits",
        ),
        ("deny v4 tcp ten any", "\"ten\" is not an address"),
        (
            "deny v4 tcp any 2001:db8::/32",
            "2001:db8::/32 is not an address of IPv4",
        ),
        (
            "deny v4 tcp any 2001:db8::1",
            "2001:db8::1 is not an address of IPv4",
        ),
        (
            "deny v6 tcp 10.0.0.0/8 any",
            "10.0.0.0/8 is not an address of IPv6",
        ),
        (
            "deny any tcp 10.0.0.0/8 any",
            "10.0.0.0/8 in a rule for any family",
        ),
        (
            "deny v4 tcp any any dport 23-22",
            "the ports 23-22 run backwards",
        ),
        (
            "deny v4 tcp any any dport 22-65536",
            "\"22-65536\" is not a port or a range",
        ),
        (
            "deny v4 tcp any any dport -",
            "\"-\" is not a port or a range",
        ),
        (
            "deny v4 tcp any any dport 1 dport 2",
            "\"dport\" is there twice",
        ),
        (
            "deny v4 icmp any any dport 22",
            "protocol icmp has no ports",
        ),
        ("deny v4 47 any any sport 22", "protocol 47 has no ports"),
        (
            "deny v4 tcp any any in 0,16",
            "\"0,16\" is not a list of ports of arrival",
        ),
        (
            "deny v4 tcp any any port 3",
            "\"port\" is not a condition; write sport, dport or in",
        ),
    ] {
        let error = text.parse::<Rule>().expect_err(text).to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    let error = Acl::parse("permit any any any any\n\ndeny v4 tcp any\n", 64).unwrap_err();
    assert!(
        error.to_string().starts_with("line 3: the rule ends"),
        "{error}"
    );
    let error = Acl::parse("default deny\ndefault deny", 64).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("line 2: \"default\" is there twice"),
        "{error}"
    );
    let error = Acl::parse("default deny all", 64).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 1: \"all\" is not wanted behind a default"
    );
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let line = "permit any any any any\n";
    assert!(Acl::parse(&line.repeat(64), 64).is_ok());
    let (rules, capacity) = (65, 64);
    let error = Acl::parse(&line.repeat(65), 64).unwrap_err();
    assert_eq!(error, Error::TooMany { rules, capacity });
    let mut acl = Acl::new(64).unwrap();
    let index = 64;
    assert_eq!(
        acl.set(64, None),
        Err(Error::NoSuchRule { index, capacity })
    );
    for capacity in [0, MAX_RULES + 1] {
        assert_eq!(Acl::new(capacity), Err(Error::Capacity { capacity }));
    }
    // A refused rule leaves the list as it was.
    let mut rule: Rule = "deny v4 tcp any any dport 22".parse().unwrap();
    acl.set(3, Some(rule)).unwrap();
    let before = acl.clone();
    rule.protocol = Some(1);
    assert!(matches!(acl.set(3, Some(rule)), Err(Error::NoPorts { .. })));
    assert_eq!(acl, before);
}

#[test]
fn words_are_those_of_the_bench() {
    let mut count = 0;
    for line in include_str!("acl_words.txt").lines() {
        let Some((text, words)) = line.split_once(" | ") else {
            continue;
        };
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.to_string(), text);
        let expected = words.split(' ').map(|word| {
            let value = u128::from_str_radix(word, 16).unwrap();
            [value as u64, (value >> 64) as u64, 0]
        });
        assert!(rule.words().into_iter().eq(expected), "{text}");
        count += 1;
    }
    assert!(count > 5);
}
