// SPDX-License-Identifier: Apache-2.0
//! The table of descriptors under threads that open, duplicate, use and close the same numbers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use socket::object::Object;
use socket::pending::Pending;
use socket::table;

fn pending(kind: i32) -> Object {
    Object::Pending(Pending {
        family: libc::AF_INET,
        kind,
    })
}

/// Numbers that no real descriptor of this test has.
const FIRST: i32 = 50_000;

#[test]
fn numbers_share_a_description_until_the_last_is_closed() {
    let (description, displaced) = table::install(FIRST + 100, pending(1));
    let description = description.unwrap();
    assert!(displaced.is_none());
    assert!(table::duplicate(FIRST + 100, FIRST + 101).is_none());
    assert_eq!(description.fds(), 2);
    assert_eq!(table::get(FIRST + 101).unwrap().id(), description.id());
    assert!(!table::remove(FIRST + 100).unwrap().last);
    assert!(table::get(FIRST + 100).is_none());
    assert!(table::still(FIRST + 101, &description));
    assert!(table::remove(FIRST + 101).unwrap().last);
    assert!(table::remove(FIRST + 101).is_none());
    assert!(!table::still(FIRST + 101, &description));
    // Whoever holds it may go on using it.
    assert!(matches!(description.object(), Object::Pending(_)));
    assert!(table::get(-1).is_none() && table::get(i32::MAX).is_none());
}

#[test]
fn what_a_pending_socket_becomes_is_decided_once() {
    let (description, _) = table::install(FIRST + 110, pending(1));
    let description = description.unwrap();
    let id = description.id();
    assert!(description.decide(pending(2)).is_ok());
    assert!(matches!(
        description.object(),
        Object::Pending(Pending { kind: 2, .. })
    ));
    assert!(description.decide(pending(3)).is_err());
    assert_eq!(table::get(FIRST + 110).unwrap().id(), id);
    table::remove(FIRST + 110);
}

#[test]
fn threads_never_see_a_description_that_is_gone() {
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let stop = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for fd in FIRST..FIRST + 4 {
                        if let Some(description) = table::get(fd) {
                            // The kind was made from the number: a recycled one would show another.
                            let Object::Pending(pending) = description.object() else {
                                unreachable!()
                            };
                            assert_eq!(pending.family, libc::AF_INET);
                            assert!((1..1_000_000).contains(&pending.kind));
                            seen.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let mut numbers = StdRng::seed_from_u64(seed ^ thread);
                    for round in 1..20_000 {
                        let fd = FIRST + numbers.random_range(0..4);
                        match numbers.random_range(0..3) {
                            0 => drop(table::install(fd, pending(round))),
                            1 => drop(table::remove(fd)),
                            _ => drop(table::duplicate(fd, FIRST + numbers.random_range(0..4))),
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    for fd in FIRST..FIRST + 4 {
        table::remove(fd);
    }
    println!("{} looks", seen.load(Ordering::Relaxed));
}
