// SPDX-License-Identifier: Apache-2.0
//! Whole tables: against another implementation, full ones, and back to where they were.

mod common;

use common::{Change, Naive, id_of, set_next_hops};
use fib::layout::Memory;
use fib::synth::{Random, Table};
use fib::{Config, Config4, Config6, Error, Fib, NextHop, NextHopId, Op, Port, Prefix4, Prefix6};
use prefix_trie::PrefixMap;

const HOPS: u16 = 4095;

fn net4(prefix: Prefix4) -> ipnet::Ipv4Net {
    ipnet::Ipv4Net::new_assert(prefix.addr().into(), prefix.len())
}

fn net6(prefix: Prefix6) -> ipnet::Ipv6Net {
    ipnet::Ipv6Net::new_assert(prefix.addr().into(), prefix.len())
}

fn hop(random: &mut Random) -> u16 {
    1 + random.below(HOPS.into()) as u16
}

/// Loads a table in random order into a table and into hardware that sees only the writes, and
/// compares `keys` random and `keys` adversarial lookups a family with the other implementation.
fn agrees(table: &Table, config: Config, seed: u64, keys: u32) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut fib = Fib::new(config).unwrap();
    let mut hardware = fib.image().cleared();
    set_next_hops(&mut fib, HOPS);
    let (mut oracle4, mut oracle6) = (PrefixMap::new(), PrefixMap::new());
    let mut changes: Vec<Change> = Vec::new();
    changes.extend(
        table
            .v4
            .iter()
            .map(|&p| Change::Announce4(p, hop(&mut random))),
    );
    changes.extend(
        table
            .v6
            .iter()
            .map(|&p| Change::Announce6(p, hop(&mut random))),
    );
    for at in (1..changes.len()).rev() {
        changes.swap(at, random.below(at as u64 + 1) as usize);
    }
    for change in &changes {
        for op in change.on_fib(&mut fib).unwrap() {
            hardware.apply(&op);
        }
        match *change {
            Change::Announce4(prefix, hop) => drop(oracle4.insert(net4(prefix), hop)),
            Change::Announce6(prefix, hop) => drop(oracle6.insert(net6(prefix), hop)),
            _ => unreachable!("only announcements were made"),
        }
    }
    let check4 = |key: u32| {
        let want = oracle4
            .get_lpm(&net4(Prefix4::around(key, 32)))
            .map(|(_, hop)| *hop);
        assert_eq!(
            id_of(hardware.lookup4(key)),
            want,
            "{}",
            std::net::Ipv4Addr::from(key)
        );
    };
    let check6 = |key: u128| {
        let want = oracle6
            .get_lpm(&net6(Prefix6::around(key, 128)))
            .map(|(_, hop)| *hop);
        assert_eq!(
            id_of(hardware.lookup6(key)),
            want,
            "{}",
            std::net::Ipv6Addr::from(key)
        );
    };
    for _ in 0..keys {
        check4(random.bits() as u32);
        check6(random.wide() >> 3 | 1 << 125);
    }
    for _ in 0..keys / 5 {
        let prefix = table.v4[random.below(table.v4.len() as u64) as usize];
        let inside = random.bits() as u32 & (prefix.last() - prefix.addr());
        check4(prefix.addr());
        check4(prefix.last());
        check4(prefix.addr().wrapping_sub(1));
        check4(prefix.last().wrapping_add(1));
        check4(prefix.addr() | inside);
        let prefix = table.v6[random.below(table.v6.len() as u64) as usize];
        let inside = random.wide() & (prefix.last() - prefix.addr());
        check6(prefix.addr());
        check6(prefix.last());
        check6(prefix.addr().wrapping_sub(1));
        check6(prefix.last().wrapping_add(1));
        check6(prefix.addr() | inside);
    }
    // Only writes reached this copy of the memories, and it is the same, next hops aside.
    for memory in Memory::ALL
        .into_iter()
        .filter(|&memory| memory != Memory::NextHop)
    {
        for addr in 0..hardware.depth(memory) {
            assert_eq!(hardware.read(memory, addr), fib.image().read(memory, addr));
        }
    }
}

#[test]
fn a_synthetic_table_agrees_with_another_implementation() {
    agrees(
        &Table::synthetic(11, 60_000, 30_000),
        Config::default(),
        12,
        100_000,
    );
}

#[test]
#[ignore = "needs the table that crates/fib/tools/fetch-routes brings; a minute without --release"]
fn the_real_table_agrees_with_another_implementation() {
    let path = "../../.build/routes/bart-v0.30.0.txt";
    let text = std::fs::read_to_string(path).expect("run crates/fib/tools/fetch-routes first");
    let table = Table::parse(&text).unwrap();
    assert_eq!((table.v4.len(), table.v6.len()), (901_899, 160_147));
    agrees(&table, Config::default(), 13, 1_000_000);
}

#[test]
#[ignore = "needs the table that crates/fib/tools/grow-routes makes; a minute without --release"]
fn the_grown_ipv6_table_fits_and_agrees() {
    let path = "../../.build/routes/grown6.txt";
    let text = std::fs::read_to_string(path).expect("run crates/fib/tools/grow-routes first");
    let table = Table {
        v6: Table::parse(&text).unwrap().v6,
        ..Table::synthetic(16, 1000, 0)
    };
    assert_eq!(table.v6.len(), 281_516);
    agrees(&table, Config::default(), 17, 500_000);
}

#[test]
#[ignore = "1.2 million routes: a minute without --release"]
fn a_table_of_the_next_years_fits_and_agrees() {
    let table = Table::synthetic(14, 1_200_000, 280_000);
    agrees(&table, Config::default(), 15, 1_000_000);
}

#[test]
fn churn_returns_to_the_same_memory() {
    let seed = 21;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let table = Table::synthetic(seed, 12_000, 8_000);
    let mut fib = Fib::new(Config::default()).unwrap();
    set_next_hops(&mut fib, HOPS);
    let mut routes: Vec<Change> = Vec::new();
    routes.extend(
        table
            .v4
            .iter()
            .map(|&p| Change::Announce4(p, hop(&mut random))),
    );
    routes.extend(
        table
            .v6
            .iter()
            .map(|&p| Change::Announce6(p, hop(&mut random))),
    );
    for route in &routes {
        route.on_fib(&mut fib).unwrap();
    }
    let used = |fib: &Fib| {
        fib.usage()
            .iter()
            .map(|u| (u.memory, u.used))
            .collect::<Vec<_>>()
    };
    let before = used(&fib);
    let extra = Table::synthetic(seed + 1, 12_000, 8_000);
    for prefix in &extra.v4 {
        let Ok(_) = fib.announce4(*prefix, NextHopId(hop(&mut random))) else {
            continue;
        };
    }
    for prefix in &extra.v6 {
        let Ok(_) = fib.announce6(*prefix, NextHopId(hop(&mut random))) else {
            continue;
        };
    }
    assert_ne!(used(&fib), before);
    for _ in 0..10_000 {
        let at = random.below(routes.len() as u64) as usize;
        let withdrawal = match routes[at] {
            Change::Announce4(prefix, _) => Change::Withdraw4(prefix),
            Change::Announce6(prefix, _) => Change::Withdraw6(prefix),
            other => other,
        };
        withdrawal.on_fib(&mut fib).unwrap();
        routes[at].on_fib(&mut fib).unwrap();
    }
    for prefix in &extra.v4 {
        let _ = fib.withdraw4(*prefix);
    }
    for prefix in &extra.v6 {
        let _ = fib.withdraw6(*prefix);
    }
    for route in &routes {
        route.on_fib(&mut fib).unwrap();
    }
    assert_eq!(fib.routes4() + fib.routes6(), routes.len() as u32);
    assert_eq!(used(&fib), before);
}

/// Announces until 300 refusals; each must leave everything as it was and say why. Then
/// withdraws everything, which must work in a full table too.
fn refuses_when_full(config: Config, v6: bool, full: Memory, seed: u64) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut fib = Fib::new(config).unwrap();
    set_next_hops(&mut fib, HOPS);
    let mut hardware = fib.image().clone();
    let table = if v6 {
        Table::synthetic(seed, 0, 30_000)
    } else {
        Table::synthetic(seed, 30_000, 0)
    };
    let mut oracle = Naive::default();
    let mut done = Vec::new();
    let mut refused = 0;
    let announcements: Vec<Change> = if v6 {
        table
            .v6
            .iter()
            .map(|&p| Change::Announce6(p, hop(&mut random)))
            .collect()
    } else {
        table
            .v4
            .iter()
            .map(|&p| Change::Announce4(p, hop(&mut random)))
            .collect()
    };
    for change in announcements {
        match change.on_fib(&mut fib) {
            Ok(ops) => {
                ops.iter().for_each(|op| hardware.apply(op));
                change.on_oracle(&mut oracle);
                done.push(change);
            }
            Err(Error::Full {
                memory,
                used,
                capacity,
                ..
            }) => {
                assert_eq!(memory, full);
                assert!(used <= capacity);
                refused += 1;
                if refused <= 40 {
                    assert!(*fib.image() == hardware, "a refusal changed a memory");
                }
                if refused == 300 {
                    break;
                }
            }
            Err(Error::TcamFull { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused >= 40, "only {refused} refusals");
    let count = if v6 { fib.routes6() } else { fib.routes4() };
    assert_eq!(count as usize, done.len());
    assert_eq!(fib.metrics().changes as usize, done.len());
    while !done.is_empty() {
        let at = random.below(done.len() as u64) as usize;
        let change = match done.swap_remove(at) {
            Change::Announce4(prefix, _) => Change::Withdraw4(prefix),
            Change::Announce6(prefix, _) => Change::Withdraw6(prefix),
            other => other,
        };
        let ops = change.on_fib(&mut fib).expect("withdrawals have a reserve");
        ops.iter().for_each(|op| hardware.apply(op));
        change.on_oracle(&mut oracle);
        if done.len() % 64 == 0 {
            for change in &done {
                let (v4, (addr, _, _)) = (change.is_v4(), change.range());
                assert_eq!(common::lookup(&hardware, v4, addr), oracle.lookup(addr));
            }
        }
    }
    for usage in fib.usage().iter().filter(|u| u.memory == full) {
        assert_eq!((usage.used, usage.held), (0, 0));
    }
}

/// Builds that are small in the other family, so that whole memories can be compared.
const SMALL4: Config4 = Config4::RunVec {
    leaves: 1 << 13,
    groups: 64,
    hosts: 1 << 10,
};
const SMALL6: Config6 = Config6::Trie {
    nodes: [64; 7],
    leaves: 64,
    hosts: 64,
    tcam: 64,
};

#[test]
fn full_ipv4_leaves_refuse_and_recover() {
    refuses_when_full(
        Config {
            v4: SMALL4,
            v6: SMALL6,
        },
        false,
        Memory::V4Leaf,
        31,
    );
}

#[test]
fn a_memory_left_out_refuses_like_a_full_one() {
    let v4 = Config4::RunVec {
        leaves: 1 << 13,
        groups: 0,
        hosts: 1 << 10,
    };
    let mut fib = fib_of(v4, SMALL6);
    fib.announce4("192.0.2.0/24".parse().unwrap(), NextHopId(1))
        .expect("needs no group");
    let refusal = fib
        .announce4("192.0.2.0/25".parse().unwrap(), NextHopId(2))
        .expect_err("needs a group");
    assert!(matches!(
        refusal,
        Error::Full {
            memory: Memory::V4Group,
            capacity: 0,
            ..
        }
    ));
    assert_eq!(fib.lookup4(0xC000_0201), Some(NextHopId(1)));
}

#[test]
fn full_ipv6_leaves_refuse_and_recover() {
    let v6 = Config6::Trie {
        nodes: [1 << 15; 7],
        leaves: 1 << 12,
        hosts: 64,
        tcam: 64,
    };
    refuses_when_full(Config { v4: SMALL4, v6 }, true, Memory::V6Leaf, 32);
}

#[test]
fn full_ipv6_nodes_refuse_and_recover() {
    let mut nodes = [1 << 15; 7];
    nodes[4] = 1 << 11;
    let v6 = Config6::Trie {
        nodes,
        leaves: 1 << 16,
        hosts: 64,
        tcam: 64,
    };
    refuses_when_full(Config { v4: SMALL4, v6 }, true, Memory::V6Node5, 33);
}

fn fib_of(v4: Config4, v6: Config6) -> Fib {
    let mut fib = Fib::new(Config { v4, v6 }).unwrap();
    set_next_hops(&mut fib, 16);
    fib
}

#[test]
fn groups_and_hosts_run_out_with_a_reason() {
    let v4 = Config4::RunVec {
        leaves: 1 << 13,
        groups: 3,
        hosts: 4,
    };
    let mut fib = fib_of(v4, Config::default().v6);
    let hop = NextHopId(3);
    for slot in 0..3u32 {
        fib.announce4(Prefix4::around(0x0a00_0080 + (slot << 8), 25), hop)
            .unwrap();
    }
    let error = fib
        .announce4(Prefix4::around(0x0a00_0380, 25), hop)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory v4_group is full: 256 more words in one piece were asked for, 768 of 768 are in \
         use; withdraw routes or build the switch with a deeper memory"
    );
    // Hosts in a group's /24 need no new group, whatever the exact-match table does.
    for host in 0..64 {
        fib.announce4(Prefix4::around(0x0a00_0000 + host, 32), hop)
            .unwrap();
    }
    // Elsewhere at most the sixteen places of the four banks are left.
    let mut taken = 0;
    while fib
        .announce4(Prefix4::around(0x0b00_0000 + (taken << 8), 32), hop)
        .is_ok()
    {
        taken += 1;
        assert!(taken <= 16);
    }
    fib.withdraw4(Prefix4::around(0x0a00_0080, 25)).unwrap();
    assert_eq!(fib.lookup4(0x0a00_0001), Some(hop));
    assert_eq!(fib.lookup4(0x0a00_0081), None);
}

#[test]
fn exact_match_fills_most_of_its_table_and_says_when_not() {
    let seed = 41;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let v6 = Config6::Trie {
        nodes: [256; 7],
        leaves: 256,
        hosts: 256,
        tcam: 0,
    };
    let mut fib = fib_of(
        Config4::RunVec {
            leaves: 1024,
            groups: 16,
            hosts: 0,
        },
        v6,
    );
    let mut keys = Vec::new();
    let error = loop {
        let key = random.wide();
        match fib.announce6(
            Prefix6::around(key, 128),
            NextHopId(1 + keys.len() as u16 % 16),
        ) {
            Ok(_) => keys.push(key),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, Error::HostTableFull { capacity: 1024, .. }),
        "{error}"
    );
    assert!(
        keys.len() > 900,
        "only {} of 1024 entries before the first refusal",
        keys.len()
    );
    for (at, &key) in keys.iter().enumerate() {
        assert_eq!(fib.lookup6(key), Some(NextHopId(1 + at as u16 % 16)));
        assert_eq!(fib.lookup6(key ^ 1), None);
    }
    for &key in &keys {
        fib.withdraw6(Prefix6::around(key, 128)).unwrap();
    }
    assert_eq!(fib.routes6(), 0);
}

#[test]
fn the_dissertations_tables_refuse_what_they_can_not_hold() {
    let mut fib = fib_of(Config::DISSERTATION.v4, Config::DISSERTATION.v6);
    let p = |text: &str| text.parse::<Prefix4>().unwrap();
    fib.announce4(p("0.0.0.0/0"), NextHopId(9)).unwrap();
    fib.announce4(p("10.0.0.0/8"), NextHopId(1)).unwrap();
    fib.announce4(p("10.1.0.0/16"), NextHopId(2)).unwrap();
    fib.announce4(p("10.1.2.0/24"), NextHopId(3)).unwrap();
    assert_eq!(
        fib.announce4(p("10.1.3.0/24"), NextHopId(4))
            .unwrap_err()
            .to_string(),
        "the sram22 table holds three next hops beside the default route's, and 10.1.3.0/24 \
         would be the first with a fourth (next hop 4)"
    );
    assert_eq!(
        fib.announce4(p("10.1.2.0/25"), NextHopId(3))
            .unwrap_err()
            .to_string(),
        "the sram22 table holds prefixes up to /24, and 10.1.2.0/25 is longer"
    );
    let answers = |fib: &Fib| {
        [0x0a01_0203, 0x0a01_0303, 0x0a02_0303, 0x0b01_0203].map(|key| fib.lookup4(key).unwrap().0)
    };
    assert_eq!(answers(&fib), [3, 2, 1, 9]);
    // A code that only this prefix uses may change its next hop.
    fib.announce4(p("10.1.2.0/24"), NextHopId(4)).unwrap();
    assert_eq!(answers(&fib), [4, 2, 1, 9]);
    fib.withdraw4(p("10.1.0.0/16")).unwrap();
    fib.announce4(p("10.1.3.0/24"), NextHopId(5)).unwrap();
    assert_eq!(answers(&fib), [4, 5, 1, 9]);

    for at in 0..32u128 {
        let prefix = Prefix6::around(0x2001 << 112 | at << 80, 48);
        fib.announce6(prefix, NextHopId(1 + at as u16 % 16))
            .unwrap();
    }
    let one_more: Prefix6 = "2001:db8::/32".parse().unwrap();
    assert_eq!(
        fib.announce6(one_more, NextHopId(1))
            .unwrap_err()
            .to_string(),
        "the TCAM is full: all 32 entries are in use, so 2001:db8::/32 does not fit"
    );
    let long: Prefix6 = "2001:db8::/65".parse().unwrap();
    assert_eq!(
        fib.announce6(long, NextHopId(1)).unwrap_err(),
        Error::TcamTooLong {
            prefix: long,
            max: 64
        }
    );
}

#[test]
fn next_hops_are_checked() {
    let mut fib = Fib::new(Config::default()).unwrap();
    let prefix: Prefix4 = "192.0.2.0/24".parse().unwrap();
    let unknown = fib.announce4(prefix, NextHopId(5)).unwrap_err();
    assert_eq!(unknown, Error::NextHopUnknown { id: 5 });
    for id in [0, 4096] {
        let to = NextHop {
            port: Port::Host,
            mac: None,
        };
        let error = fib.set_next_hop(NextHopId(id), to).unwrap_err();
        assert_eq!(error, Error::NextHopRange { id, last: 4095 });
    }
    let on = |port, last| NextHop {
        port,
        mac: Some([2, 0, 0, 0, 0, last]),
    };
    fib.set_next_hop(NextHopId(5), on(Port::Network(1), 1))
        .unwrap();
    fib.announce4(prefix, NextHopId(5)).unwrap();
    assert_eq!(
        fib.set_next_hop(NextHopId(5), on(Port::Network(2), 1))
            .unwrap_err(),
        Error::NextHopPortFixed { id: 5, routes: 1 }
    );
    assert_eq!(
        fib.remove_next_hop(NextHopId(5)).unwrap_err(),
        Error::NextHopInUse { id: 5, routes: 1 }
    );
    // A new MAC address is one word, however many routes there are.
    let ops = fib
        .set_next_hop(NextHopId(5), on(Port::Network(1), 9))
        .unwrap();
    assert!(matches!(ops, [Op::Write(write), Op::Drain] if write.memory == Memory::NextHop));
    // The same again is nothing.
    assert_eq!(
        fib.set_next_hop(NextHopId(5), on(Port::Network(1), 9))
            .unwrap(),
        []
    );
    assert_eq!(fib.announce4(prefix, NextHopId(5)).unwrap(), []);
    fib.withdraw4(prefix).unwrap();
    assert!(matches!(
        fib.withdraw4(prefix),
        Err(Error::NoSuchRoute { .. })
    ));
    fib.remove_next_hop(NextHopId(5)).unwrap();
    assert_eq!(
        fib.remove_next_hop(NextHopId(5)).unwrap_err(),
        Error::NextHopUnknown { id: 5 }
    );
    assert_eq!(
        fib.set_next_hop(NextHopId(5), on(Port::Network(16), 1))
            .unwrap_err(),
        Error::PortRange { port: 16 }
    );
}

#[test]
fn bad_builds_are_refused() {
    let config = |hosts, leaves, groups| Config {
        v4: Config4::RunVec {
            leaves,
            groups,
            hosts,
        },
        ..Config::default()
    };
    assert!(matches!(
        Fib::new(config(3, 64, 4)),
        Err(Error::Depth {
            memory: Memory::V4Host0,
            ..
        })
    ));
    assert!(matches!(
        Fib::new(config(4, (1 << 22) + 1, 4)),
        Err(Error::Depth {
            memory: Memory::V4Leaf,
            ..
        })
    ));
    assert!(matches!(
        Fib::new(config(4, 64, u32::MAX)),
        Err(Error::Depth {
            memory: Memory::V4Group,
            ..
        })
    ));
    assert!(Prefix4::new(0x0a00_0001, 8).is_err());
    assert!(Prefix6::new(0, 129).is_err());
    assert!("10.0.0.0".parse::<Prefix4>().is_err());
}

#[test]
fn a_child_can_leave_a_full_node_memory() {
    let mut nodes = [1 << 10; 7];
    nodes[4] = 256; // 192 words in three slabs, and the scratch place
    let v6 = Config6::Trie {
        nodes,
        leaves: 1 << 14,
        hosts: 0,
        tcam: 0,
    };
    let mut fib = fib_of(SMALL4, v6);
    let child = |parent: u128, slot: u128| {
        Prefix6::around(0x2001_0db8 << 96 | parent << 88 | slot << 82, 48)
    };
    for (parent, children) in [(0, 64), (1, 40), (2, 1)] {
        for slot in 0..children {
            fib.announce6(child(parent, slot), NextHopId(1 + slot as u16 % 16))
                .unwrap();
        }
    }
    let error = fib.announce6(child(1, 40), NextHopId(1)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Full {
                memory: Memory::V6Node5,
                ..
            }
        ),
        "{error}"
    );
    let mut hardware = fib.image().clone();
    let ops = fib.withdraw6(child(0, 5)).unwrap().to_vec();
    let drains = ops.iter().filter(|op| **op == Op::Drain).count();
    assert_eq!(drains, 2, "by way of the scratch place, and back");
    for op in ops {
        hardware.apply(&op);
        for slot in (0..64).filter(|&slot| slot != 5) {
            let want = Some(1 + slot as u16 % 16);
            assert_eq!(id_of(hardware.lookup6(child(0, slot).addr())), want);
        }
    }
    assert_eq!(id_of(hardware.lookup6(child(0, 5).addr())), None);
    for slot in (0..64).filter(|&slot| slot != 5) {
        fib.withdraw6(child(0, slot)).unwrap();
    }
}
