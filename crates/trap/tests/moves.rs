// SPDX-License-Identifier: Apache-2.0
//! Plain stores and loads of a program in Rust, of every width, and lines that collect them.

mod elsewhere;

use std::sync::atomic::{AtomicU64, Ordering};

use elsewhere::{BYTES, Elsewhere};
use trap::Shape;

#[test]
fn plain_stores_and_loads_go_elsewhere_with_their_width_and_in_order() {
    let there = Elsewhere::new();
    let mapping = there.whole();
    let base = mapping.address();
    // SAFETY: all of it is in the mapping.
    unsafe {
        base.add(1).write_volatile(0x11);
        base.add(2).cast::<u16>().write_unaligned(0x2233);
        base.add(64).cast::<u32>().write_volatile(0x4455_6677);
        base.add(8)
            .cast::<u64>()
            .write_volatile(0x8899_AABB_CCDD_EEFF);
        assert_eq!(base.add(64).cast::<u32>().read_volatile(), 0x4455_6677);
        assert_eq!(base.add(1).read_volatile(), 0x11);
    }
    let log = there.log();
    let wanted = [
        (1, 1, true),
        (2, 2, true),
        (64, 4, true),
        (8, 8, true),
        (64, 4, false),
        (1, 1, false),
    ];
    assert_eq!(log, wanted);
    assert_eq!(there.word(8), 0x8899_AABB_CCDD_EEFF);
}

#[test]
fn blocks_are_copied_both_ways() {
    let there = Elsewhere::new();
    let mapping = there.whole();
    let bytes: Vec<u8> = (0..5000).map(|at| (at * 7 % 251) as u8).collect();
    let mut back = vec![0; bytes.len()];
    // SAFETY: all of it is in the mapping, and in the vectors.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.address().add(33), bytes.len());
        std::ptr::copy_nonoverlapping(mapping.address().add(33), back.as_mut_ptr(), back.len());
    }
    assert!(back == bytes);
    let mut seen = vec![0; bytes.len()];
    there.get(33, &mut seen);
    assert!(seen == bytes);
}

#[test]
fn atomic_instructions_are_loads_and_stores() {
    let there = Elsewhere::new();
    let mapping = there.whole();
    // SAFETY: in the mapping, aligned.
    let word = unsafe { AtomicU64::from_ptr(mapping.address().add(128).cast()) };
    assert_eq!(word.fetch_add(5, Ordering::SeqCst), 0);
    assert_eq!(word.swap(9, Ordering::SeqCst), 5);
    there.log();
    assert_eq!(
        word.compare_exchange(8, 1, Ordering::SeqCst, Ordering::SeqCst),
        Err(9)
    );
    assert_eq!(
        there.log(),
        [(128, 8, false)],
        "nothing is stored if it differs"
    );
    assert_eq!(
        word.compare_exchange(9, 1, Ordering::SeqCst, Ordering::SeqCst),
        Ok(9)
    );
    assert_eq!(there.log(), [(128, 8, false), (128, 8, true)]);
    assert_eq!(there.word(128), 1);
}

#[test]
fn a_combined_mapping_collects_a_line() {
    let there = Elsewhere::new();
    let mapping = there.map(Shape {
        bytes: BYTES,
        readable: true,
        writable: true,
        combined: true,
        ..Shape::default()
    });
    let word = |offset: usize| {
        // SAFETY: in the mapping, aligned.
        unsafe { mapping.address().add(offset).cast::<u32>() }
    };
    // SAFETY: as above, here and below.
    unsafe {
        word(0).write_volatile(1);
        word(4).write_volatile(2);
        word(12).write_volatile(3);
    }
    assert_eq!(there.log(), [], "they wait");
    mapping.drain().expect("nothing is refused");
    assert_eq!(there.log(), [(0, 8, true), (12, 4, true)]);
    // SAFETY: as above.
    unsafe {
        word(64).write_volatile(4);
        word(128).write_volatile(5);
    }
    assert_eq!(there.log(), [(64, 4, true)], "another line");
    // SAFETY: as above.
    assert_eq!(unsafe { word(64).read_volatile() }, 4);
    assert_eq!(there.log(), [(128, 4, true), (64, 4, false)], "a load");
    for part in 0..16 {
        // SAFETY: as above.
        unsafe { word(192 + 4 * part).write_volatile(part as u32) };
    }
    assert_eq!(there.log(), [(192, 64, true)], "a full line");
    // SAFETY: as above.
    unsafe { word(256).write_volatile(6) };
    drop(mapping);
    assert_eq!(there.log(), [(256, 4, true)]);
}
