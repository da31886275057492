// SPDX-License-Identifier: Apache-2.0
//! Random changes against a naive longest-prefix match; every state between two writes, and
//! lookups torn by writes, answer as before or as after the change.

mod common;

use common::{Change, Naive, edges, lookup, set_next_hops, torn_lookup};
use fib::{Config, Config4, Config6, Error, Fib, Op, Prefix4, Prefix6, Write};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

const HOPS: u16 = 40;

/// What a shed word answers: the host, by no next hop.
const HOST: Option<u16> = Some(0);

/// Deep enough for the test's tables, small enough to be quick.
fn small() -> Config {
    Config {
        v4: Config4::RunVec {
            leaves: 1 << 15,
            groups: 256,
            hosts: 16,
        },
        v6: Config6::Trie {
            nodes: [1 << 12; 7],
            leaves: 1 << 14,
            hosts: 16,
            tcam: 32,
        },
    }
}

/// Full most of the time: refusals, and all that is done to avoid them.
fn tight() -> Config {
    Config {
        v4: Config4::RunVec {
            leaves: 256,
            groups: 3,
            hosts: 2,
        },
        v6: Config6::Trie {
            nodes: [256; 7],
            leaves: 256,
            hosts: 2,
            tcam: 8,
        },
    }
}

/// So small that there is no reserve: withdrawals often need more room than there is.
fn tiny() -> Config {
    Config {
        v4: Config4::RunVec {
            leaves: 64,
            groups: 4,
            hosts: 2,
        },
        v6: Config6::Trie {
            nodes: [64; 7],
            leaves: 64,
            hosts: 2,
            tcam: 4,
        },
    }
}

/// Node memories are full, leaves are not: then every withdrawal must find room.
fn few_nodes() -> Config {
    let v6 = Config6::Trie {
        nodes: [256; 7],
        leaves: 1 << 14,
        hosts: 2,
        tcam: 8,
    };
    Config { v6, ..tight() }
}

/// Prefixes crowd in a few places, so that they nest, touch and replace each other.
fn prefix4() -> impl Strategy<Value = Prefix4> {
    let base = prop_oneof![
        8 => Just(0x0a01_4000u32),
        2 => Just(0xc0a8_ff00u32),
        1 => any::<u32>(),
    ];
    let len = prop_oneof![
        1 => Just(0u8), 2 => 1u8..14, 6 => 14u8..=18, 10 => 19u8..=24, 8 => 25u8..=31, 3 => Just(32),
    ];
    (base, 0u32..0x1_0000, len)
        .prop_map(|(base, offset, len)| Prefix4::around(base.wrapping_add(offset), len))
}

fn prefix6() -> impl Strategy<Value = Prefix6> {
    let base = 0x2001_0db8_4000_8000_0000_0000_0000_0000u128;
    let len = prop_oneof![
        1 => Just(0u8), 2 => 1u8..=16, 5 => 17u8..=34, 10 => 35u8..=48, 10 => 49u8..=64,
        2 => 65u8..=127, 2 => Just(128),
    ];
    // The bits that are turned over lie near the end of the prefix or anywhere.
    (len, 0u8..128, any::<u8>(), 0u8..4, any::<u128>(), 0u32..12).prop_map(
        move |(len, at, flip, near, wild, sparse)| {
            let shift = if near > 0 {
                128u8.saturating_sub(len + 1)
            } else {
                at
            };
            let mut addr = base ^ u128::from(flip) << shift.min(120);
            if sparse == 0 {
                addr ^= wild >> 20;
            }
            Prefix6::around(addr, len)
        },
    )
}

/// Many words under one short prefix, and so few next hops that runs join and part.
fn crowd4() -> impl Strategy<Value = Prefix4> {
    let len = prop_oneof![2 => 14u8..=17, 1 => 18u8..24, 6 => Just(24u8)];
    (0u32..16, 0u32..64, len).prop_map(|(word, slot, len)| {
        Prefix4::around(0x0a40_0000 | word << 14 | (slot * slot % 64) << 8, len)
    })
}

/// Three nodes with many children each, so that arrays of children grow and shrink.
fn siblings6() -> impl Strategy<Value = Prefix6> {
    let len = prop_oneof![1 => 38u8..=46, 8 => 47u8..=50];
    (0u128..3, 0u128..64, 0u128..4, len).prop_map(|(parent, slot, low, len)| {
        let addr = 0x2001_0db8 << 96 | parent << 88 | slot << 82 | low << 80;
        Prefix6::around(addr, len)
    })
}

/// Nested prefixes in a few words, half of the changes withdrawals of what is there: where runs
/// have joined they part again.
fn nested(v4: bool) -> impl Strategy<Value = Vec<Change>> {
    let bits = (0u32..4, 0u32..64, 0u32..4, 0u32..64);
    let one = (bits, 0u8..24, 1u16..=3, 0u8..10, any::<Index>());
    prop::collection::vec(one, 1..200).prop_map(move |list| {
        let mut there: Vec<Change> = Vec::new();
        let change = |(bits, len, hop, kind, pick): (_, u8, _, _, Index)| {
            let (top, word, slot, low): (u32, u32, u32, u32) = bits;
            if kind < 5 && !there.is_empty() {
                return match there.swap_remove(pick.index(there.len())) {
                    Change::Announce4(prefix, _) => Change::Withdraw4(prefix),
                    Change::Announce6(prefix, _) => Change::Withdraw6(prefix),
                    withdrawal => withdrawal,
                };
            }
            // Slots near each other and far from each other.
            let (word, slot) = (word & 0x21, slot * 9);
            let announced = if v4 {
                let addr = 0x0a40_0000 | top << 14 | (word | slot) << 8 | low << 2;
                let len = [14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 24, 26][usize::from(len / 2)];
                Change::Announce4(Prefix4::around(addr, len), hop)
            } else {
                let path = [top, word, slot, low].map(u128::from);
                let addr = (0x2001 << 112) | path[0] << 108 | path[1] << 100 | path[2] << 94;
                Change::Announce6(Prefix6::around(addr | path[3] << 88, 17 + len), hop)
            };
            there.retain(|other| other.range() != announced.range());
            there.push(announced);
            announced
        };
        list.into_iter().map(change).collect()
    })
}

/// What a list of changes is about.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    V4,
    V6,
    Crowd4,
    Siblings6,
    Nested4,
    Nested6,
}

fn changes(family: Family) -> BoxedStrategy<Vec<Change>> {
    if let Family::Nested4 | Family::Nested6 = family {
        return nested(family == Family::Nested4).boxed();
    }
    let v4 = |prefix: BoxedStrategy<Prefix4>, hops: u16| {
        prop_oneof![
            3 => (prefix.clone(), 1..=hops).prop_map(|(p, hop)| Change::Announce4(p, hop)),
            1 => prefix.prop_map(Change::Withdraw4),
        ]
        .boxed()
    };
    let v6 = |prefix: BoxedStrategy<Prefix6>, hops: u16| {
        prop_oneof![
            3 => (prefix.clone(), 1..=hops).prop_map(|(p, hop)| Change::Announce6(p, hop)),
            1 => prefix.prop_map(Change::Withdraw6),
        ]
        .boxed()
    };
    let one = match family {
        Family::V4 => v4(prefix4().boxed(), HOPS),
        Family::Crowd4 => v4(crowd4().boxed(), 3),
        Family::V6 => v6(prefix6().boxed(), HOPS),
        Family::Siblings6 => v6(siblings6().boxed(), 3),
        Family::Nested4 | Family::Nested6 => unreachable!("they have a strategy of their own"),
    };
    let most = if matches!(family, Family::V4 | Family::V6) {
        60
    } else {
        250
    };
    (
        prop::collection::vec(one, 1..most),
        any::<Index>(),
        0usize..4,
    )
        .prop_map(|(mut list, pick, again)| {
            // Withdrawals of what is there, not only of random prefixes.
            for round in 0..list.len() * again / 2 {
                let of = list[(pick.index(list.len()) + round * 7) % list.len()];
                list.push(match of {
                    Change::Announce4(p, _) => Change::Withdraw4(p),
                    Change::Announce6(p, _) => Change::Withdraw6(p),
                    withdrawal => withdrawal,
                });
            }
            // And what comes after them.
            list.extend_from_within(..list.len() / 4);
            list
        })
        .boxed()
}

/// Whether a table may give routes up to the host, for want of room.
fn may_shed(config: Config) -> bool {
    config == tight() || config == tiny()
}

/// Whether a change may be refused for this reason: a withdrawal of what is there never.
fn may_fail(config: Config, change: &Change, present: bool, error: &Error) -> bool {
    match change {
        Change::Withdraw4(_) | Change::Withdraw6(_) => {
            matches!(error, Error::NoSuchRoute { .. }) && !present
        }
        _ => match error {
            Error::TcamFull { .. }
            | Error::HostTableFull { .. }
            | Error::Sram22TooLong { .. }
            | Error::Sram22NextHops { .. }
            | Error::TcamTooLong { .. } => true,
            Error::Full { .. } => may_shed(config) || config == few_nodes(),
            _ => false,
        },
    }
}

/// Plays changes to a table, the oracle and the hardware; checks all states in between.
/// Counts in `shed` after how many of them something was shed.
fn play(config: Config, list: &[Change], seed: u64, shed: &Cell<u32>) -> Result<(), TestCaseError> {
    let sheds = may_shed(config);
    let mut random = fib::synth::Random::new(seed);
    let mut fib = Fib::new(config).expect("the configuration is valid");
    let mut hardware = fib.image().cleared();
    let mut shadow = hardware.clone();
    set_next_hops(&mut fib, HOPS);
    let mut oracle = Naive::default();
    let mut keys: Vec<u128> = Vec::new();
    for change in list {
        let (v4, (first, last, length)) = (change.is_v4(), change.range());
        keys.extend(edges(v4, first, last));
        let mut probe = edges(v4, first, last);
        for _ in 0..12 {
            probe.push(keys[random.below(keys.len() as u64) as usize]);
            let inside = first + random.wide() % (last - first).max(1);
            probe.push(if v4 { inside >> 96 << 96 } else { inside });
        }
        let before = oracle.clone();
        let ops = match change.on_fib(&mut fib) {
            Ok(ops) => {
                change.on_oracle(&mut oracle);
                ops
            }
            Err(error) => {
                let present = before.routes.contains_key(&(first, length));
                let known = may_fail(config, change, present, &error);
                prop_assert!(known, "{change:?}: {error}");
                continue;
            }
        };
        let answers: Vec<_> = probe
            .iter()
            .map(|&key| (key, before.lookup(key), oracle.lookup(key)))
            .collect();
        let mut writes: Vec<Write> = Vec::new();
        let check_torn = |image: &fib::Image, writes: &[Write], random: &mut fib::synth::Random| {
            for &(key, old, new) in &answers {
                let start = random.below(writes.len() as u64 + 1) as usize;
                let end = start + random.below((writes.len() - start) as u64 + 1) as usize;
                for reads in 0..10 {
                    let got = torn_lookup(image, writes, start, end, v4, key, reads);
                    prop_assert!(
                        got == old || got == new || (sheds && got == HOST),
                        "torn after {reads} reads: {change:?}, key {key:#x}: {got:?}, \
                         not {old:?} or {new:?}"
                    );
                }
            }
            Ok(())
        };
        prop_assert!(ops.is_empty() || ops.last() == Some(&Op::Drain));
        // Long lists are looked into at some places only; `shadow` is where the segment began.
        let stride = ops.len() / 300 + 1;
        for (at, op) in ops.iter().enumerate() {
            if let Op::Write(write) = op {
                hardware.write(write);
                writes.push(*write);
                for &(key, old, new) in answers.iter().filter(|_| at % stride == 0) {
                    let got = lookup(&hardware, v4, key);
                    prop_assert!(
                        got == old || got == new || (sheds && got == HOST),
                        "{change:?}, key {key:#x}: {got:?}, not {old:?} or {new:?}"
                    );
                }
            }
            if *op == Op::Drain || at + 1 == ops.len() {
                if writes.len() < 130 {
                    check_torn(&shadow, &writes, &mut random)?;
                }
                writes.drain(..).for_each(|write| shadow.write(&write));
            }
        }
        for &(key, _, new) in &answers {
            right_or_host(&fib, &hardware, v4, key, new)?;
        }
        shed.set(shed.get() + u32::from(fib.shed() != 0));
        let routes = if v4 { fib.routes4() } else { fib.routes6() };
        prop_assert_eq!(routes as usize, oracle.routes.len());
    }
    withdraw_all(
        config,
        list[0].is_v4(),
        &keys,
        &mut fib,
        &mut hardware,
        &oracle,
        shed,
    )
}

/// What is left of a table answers by the longest route; or by the host, if words are shed.
fn right_or_host(
    fib: &Fib,
    hardware: &fib::Image,
    v4: bool,
    key: u128,
    want: Option<u16>,
) -> Result<(), TestCaseError> {
    let got = lookup(hardware, v4, key);
    prop_assert!(
        got == want || (got == HOST && fib.shed() != 0),
        "key {key:#x}: {got:?}, not {want:?}, with {} words shed",
        fib.shed()
    );
    Ok(())
}

/// Withdraws every route that is left, each at once; nothing of them stays.
fn withdraw_all(
    config: Config,
    v4: bool,
    keys: &[u128],
    fib: &mut Fib,
    hardware: &mut fib::Image,
    oracle: &Naive,
    shed: &Cell<u32>,
) -> Result<(), TestCaseError> {
    // All that was ever interesting, at the end; then everything is withdrawn.
    for &key in keys {
        right_or_host(fib, hardware, v4, key, oracle.lookup(key))?;
    }
    prop_assert!(may_shed(config) || fib.shed() == 0);
    let mut left: Vec<Change> = Vec::new();
    for (&(addr, len), &hop) in &oracle.routes {
        if v4 {
            let prefix = Prefix4::around((addr >> 96) as u32, len);
            prop_assert_eq!(fib.get4(prefix).map(|id| id.0), Some(hop));
            left.push(Change::Withdraw4(prefix));
        } else {
            let prefix = Prefix6::around(addr, len);
            prop_assert_eq!(fib.get6(prefix).map(|id| id.0), Some(hop));
            left.push(Change::Withdraw6(prefix));
        }
    }
    let mut rest = oracle.clone();
    for change in left {
        match change.on_fib(fib) {
            Ok(ops) => ops.iter().for_each(|op| hardware.apply(op)),
            Err(error) => prop_assert!(false, "{change:?}: {error}"),
        }
        change.on_oracle(&mut rest);
        shed.set(shed.get() + u32::from(fib.shed() != 0));
        for &key in keys.iter().step_by(keys.len() / 40 + 1) {
            right_or_host(fib, hardware, v4, key, rest.lookup(key))?;
        }
    }
    prop_assert_eq!(fib.shed(), 0);
    prop_assert_eq!((fib.routes4(), fib.routes6()), (0, 0));
    for (usage, empty) in fib
        .usage()
        .iter()
        .zip(Fib::new(config).expect("valid").usage())
    {
        if usage.memory != fib::layout::Memory::NextHop
            && usage.memory != fib::layout::Memory::Sram22NextHop
        {
            prop_assert_eq!(*usage, empty, "everything withdrawn");
        }
    }
    for &key in keys {
        prop_assert_eq!(lookup(hardware, v4, key), None);
    }
    Ok(())
}

/// Plays many lists; returns after how many changes something was shed.
fn run(config: Config, family: Family, cases: u32) -> u32 {
    // proptest prints the seed and the shrunk list when a case fails.
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let strategy = (changes(family), any::<u64>());
    let shed = Cell::new(0);
    let played = runner.run(&strategy, |(list, seed)| play(config, &list, seed, &shed));
    if let Err(error) = played {
        panic!("{error}");
    }
    shed.get()
}

#[test]
fn runvec_never_answers_with_a_third_next_hop() {
    run(small(), Family::V4, 40);
}

#[test]
fn trie_never_answers_with_a_third_next_hop() {
    run(small(), Family::V6, 60);
}

#[test]
fn full_tables_never_answer_with_a_third_next_hop() {
    run(tight(), Family::V4, 15);
    run(tight(), Family::V6, 15);
    run(tight(), Family::Crowd4, 15);
    run(tight(), Family::Siblings6, 15);
    run(few_nodes(), Family::Siblings6, 15);
}

/// Every withdrawal is taken, and what it leaves leads to where it should or to the host.
#[test]
fn a_withdrawal_is_never_refused_however_full_the_table() {
    for families in [
        [Family::V4, Family::Crowd4, Family::Nested4],
        [Family::V6, Family::Siblings6, Family::Nested6],
    ] {
        let shed = families.map(|family| run(tiny(), family, 40));
        println!("something was shed after so many changes: {shed:?}");
        assert!(shed != [0; 3], "no table was too full for a withdrawal");
    }
}

#[test]
fn tcam_never_answers_with_a_third_next_hop() {
    run(
        Config {
            v4: small().v4,
            v6: Config::DISSERTATION.v6,
        },
        Family::V6,
        40,
    );
}

#[test]
fn sram22_never_answers_with_a_third_next_hop() {
    // One table for all is too slow to set up: a few long lists.
    run(
        Config {
            v4: Config4::Sram22,
            v6: Config::DISSERTATION.v6,
        },
        Family::V4,
        6,
    );
}
