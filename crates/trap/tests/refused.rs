// SPDX-License-Identifier: Apache-2.0
//! What cannot be carried out is SIGBUS with the address and a sentence; registers and memory are as before, and other accesses go
//! on.
#![cfg(target_arch = "x86_64")]

mod elsewhere;
mod forms_machine;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use elsewhere::Elsewhere;
use forms_machine::{Code, End, State};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use trap::{Mapping, Shape};

/// Bytes of the mapping: not a whole page.
const ROOM: usize = 100;

struct Bench {
    there: Arc<Elsewhere>,
    mapping: Mapping,
}

impl Bench {
    fn new(readable: bool, writable: bool) -> Self {
        forms_machine::listen();
        let there = Elsewhere::new();
        let mapping = there.map(Shape {
            bytes: ROOM,
            skip: 64,
            readable,
            writable,
            combined: false,
        });
        Self { there, mapping }
    }

    /// Runs an instruction with RAX at an offset, RBX a number and K1 a mask.
    fn run(&self, bytes: &[u8], offset: isize, mask: u64) -> (End, State, State) {
        let address = self.address(offset) as u64;
        Self::run_with(bytes, mask, [(0, address), (3, 0x0102_0304_0506_0708)])
    }

    fn address(&self, offset: isize) -> usize {
        self.mapping.address().wrapping_offset(offset) as usize
    }

    /// Runs an instruction with some registers, by their numbers, and K1 a mask.
    fn run_with(
        bytes: &[u8],
        mask: u64,
        registers: impl IntoIterator<Item = (usize, u64)>,
    ) -> (End, State, State) {
        let mut state = State::random(&mut ChaCha8Rng::seed_from_u64(1));
        for (register, value) in registers {
            state.registers[register] = value;
        }
        state.set_mask(1, mask);
        // XMM2: where the elements of a gather are.
        for (element, place) in [0u32, 4, 8, 12].into_iter().enumerate() {
            let at = 192 + 4 * element;
            state.area[at..at + 4].copy_from_slice(&place.to_le_bytes());
        }
        let before = state.clone();
        let end = Code::new(bytes).run(&mut state);
        (end, before, state)
    }

    fn refused(&self, bytes: &[u8], offset: isize, why: &str) {
        let ran = self.run(bytes, offset, u64::MAX);
        self.was_refused(bytes, offset, why, ran);
    }

    fn was_refused(
        &self,
        bytes: &[u8],
        offset: isize,
        why: &str,
        (end, mut before, after): (End, State, State),
    ) {
        before.registers[4] = 0;
        assert_eq!(end, End::Refused, "{bytes:x?}");
        assert!(
            before.differs(&after).is_none(),
            "{bytes:x?}: {:?}",
            before.differs(&after)
        );
        let mut sentence = [0; 256];
        let length = trap::last_fault(&mut sentence);
        let said = std::str::from_utf8(&sentence[..length]).expect("text");
        assert!(said.contains(why), "{bytes:x?}: {said:?}");
        let address = self.address(offset);
        let told = after.address as usize;
        // The processor names any byte of what it did not get.
        assert!(told.abs_diff(address) < 1024, "{told:x} and {address:x}");
        assert_eq!(self.there.stores.load(Ordering::Relaxed), 0, "{bytes:x?}");
    }
}

/// mov [rax], ebx; mov ebx, [rax]; xchg [rax], ebx
const STORE: &[u8] = &[0x89, 0x18];
const LOAD: &[u8] = &[0x8B, 0x18];
const EXCHANGE: &[u8] = &[0x87, 0x18];

#[test]
fn beyond_the_window() {
    let bench = Bench::new(true, true);
    for access in [STORE, LOAD, EXCHANGE] {
        for offset in [97, 100, 2000, -1, -4, -200] {
            bench.refused(access, offset, "it has 100 bytes");
        }
    }
    assert_eq!(bench.run(STORE, 96, 0).0, End::Done);
    assert_eq!(bench.there.log(), [(96, 4, true)]);
}

#[test]
fn without_the_right() {
    let reader = Bench::new(true, false);
    reader.refused(
        STORE,
        0,
        "a store of 4 bytes at offset 0 of a mapped window: the token gives no right",
    );
    reader.refused(EXCHANGE, 0, "the token gives no right");
    assert_eq!(reader.run(LOAD, 0, 0).0, End::Done);
    let writer = Bench::new(false, true);
    writer.refused(
        LOAD,
        4,
        "a load of 4 bytes at offset 4 of a mapped window: the token gives no right",
    );
    writer.refused(EXCHANGE, 0, "the token gives no right");
    assert_eq!(writer.run(STORE, 0, 0).0, End::Done);
}

#[test]
fn revoked_and_lost() {
    let bench = Bench::new(true, true);
    let other = Elsewhere::new();
    let unharmed = other.whole();
    for (state, why) in [
        (1, "revoked"),
        (2, "cannot be reached"),
        (5, "the device has failed"),
    ] {
        bench.there.refuses.store(state, Ordering::Relaxed);
        for access in [STORE, LOAD, EXCHANGE] {
            bench.there.stores.store(0, Ordering::Relaxed);
            let (end, ..) = bench.run(access, 8, 0);
            assert_eq!(end, End::Refused);
            let mut sentence = [0; 256];
            let length = trap::last_fault(&mut sentence);
            let said = std::str::from_utf8(&sentence[..length]).expect("text");
            assert!(said.contains(why), "{said}");
        }
        // SAFETY: in the mapping.
        unsafe { unharmed.address().write_volatile(state as u8) };
        assert_eq!(other.word(0), state as u64);
    }
    bench.there.refuses.store(0, Ordering::Relaxed);
    assert_eq!(bench.run(STORE, 8, 0).0, End::Done);
    // fstp qword [rax]: the stack of the unit is as it was, too.
    bench.there.refuses.store(1, Ordering::Relaxed);
    let (end, before, after) = bench.run(&[0xDD, 0x18], 8, 0);
    assert_eq!(end, End::Refused);
    assert_eq!(before.area[..5], after.area[..5]);
    assert_eq!(before.area[32..160], after.area[32..160]);
}

#[test]
fn instructions_that_cannot_be_carried_out() {
    let bench = Bench::new(true, true);
    for (bytes, why) in [
        (&[0xFF, 0x30][..], "push, pop, call and jmp"),
        (&[0x8F, 0x00], "push, pop, call and jmp"),
        (&[0xFF, 0x10], "push, pop, call and jmp"),
        (&[0xFF, 0x20], "push, pop, call and jmp"),
        (&[0x0F, 0xAE, 0x00], "the processor's state"),
        (&[0x8E, 0x20], "a segment"),
        (&[0xD9, 0x30], "the processor's state"),
        // vpgatherdd xmm1, [rax + xmm2], xmm3, with all elements wanted; vpscatterdd [rax + xmm2] {k1}, xmm3
        (
            &[0x62, 0xF2, 0x7D, 0x09, 0x90, 0x0C, 0x10],
            "gather and scatter",
        ),
        (
            &[0x62, 0xF2, 0x7D, 0x09, 0xA0, 0x1C, 0x10],
            "gather and scatter",
        ),
    ] {
        // 62: EVEX, which a processor without AVX-512 does not know.
        if bytes[0] == 0x62 && !std::arch::is_x86_feature_detected!("avx512vl") {
            continue;
        }
        // The elements are near.
        bench.refused(bytes, 0, why);
    }
    // ldtilecfg [rax], which a processor without AMX does not know, and some systems do not let programs have.
    let tiles = [0xC4, 0xE2, 0x78, 0x49, 0x00];
    if bench.run(&tiles, 0, 0).0 != End::Illegal {
        bench.refused(&tiles, 0, "the processor's state");
    }
    // xsave64 [rbx]. EDX:EAX says which parts: x87, SSE and AVX are near, others are kilobytes away.
    let xsave = [0x48, 0x0F, 0xAE, 0x23];
    let registers = [(0, 0b111), (2, 0), (3, bench.address(0) as u64)];
    let ran = Bench::run_with(&xsave, u64::MAX, registers);
    bench.was_refused(&xsave, 0, "the processor's state", ran);
}

#[test]
fn parts_by_a_mask() {
    if !std::arch::is_x86_feature_detected!("avx512bw") {
        return;
    }
    let bench = Bench::new(true, true);
    // vmovdqu8 [rax] {k1}, zmm1; vmovdqu8 zmm1 {k1}, [rax]
    let store = [0x62, 0xF1, 0x7F, 0x49, 0x7F, 0x08];
    let load = [0x62, 0xF1, 0x7F, 0x49, 0x6F, 0x08];
    let offset = 60;
    let inside = 0x00FF_000F_8000_0001u64 & u64::MAX >> 24;
    assert_eq!(bench.run(&store, offset, inside).0, End::Done);
    let log = bench.there.log();
    assert_eq!(
        log,
        [(60, 1, true), (91, 5, true)],
        "only what the mask says, in order"
    );
    assert_eq!(bench.run(&load, offset, inside).0, End::Done);
    assert_eq!(bench.there.log(), [(60, 40, false)], "nothing beyond");
    for access in [&store, &load] {
        assert_eq!(bench.run(access, offset, 1 << 40).0, End::Refused);
        assert!(
            bench.there.log().iter().all(|access| !access.2),
            "nothing is stored"
        );
        assert_eq!(bench.run(access, offset, 1 << 39).0, End::Done);
        bench.there.log();
    }
    assert_eq!(bench.run(&store, offset, 0).0, End::Done);
    assert_eq!(bench.there.log(), []);
}

#[test]
fn without_a_handler_the_process_ends_with_a_sentence() {
    // In a process of its own, which this test starts again.
    if std::env::var_os("IPNUMA_END").is_some() {
        let there = Elsewhere::new();
        let mapping = there.map(Shape {
            bytes: 8,
            ..Shape::default()
        });
        // SAFETY: it is refused.
        unsafe { mapping.address().write_volatile(1) };
        unreachable!("it was refused");
    }
    let name = "without_a_handler_the_process_ends_with_a_sentence";
    let own = std::env::current_exe().expect("it has a name");
    let mut again = std::process::Command::new(own);
    let out = again
        .args([name, "--exact", "--nocapture"])
        .env("IPNUMA_END", "1")
        .output();
    let out = out.expect("it starts");
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{out:?}");
    let said = String::from_utf8_lossy(&out.stderr);
    let sentence = "libipnuma: a store of 1 bytes at offset 0 of a mapped window: the token gives no right to it\n";
    assert!(said.contains(sentence), "{said}");
}

#[test]
fn a_string_that_nothing_copies_to_ordinary_memory() {
    let bench = Bench::new(true, true);
    let local = [7u8; 8];
    let (here, there) = (local.as_ptr() as u64, bench.address(8) as u64);
    let calls = [&elsewhere::COPIES[..], &[libc::SYS_pipe2]].concat();
    for operands in [[here, there], [there, here]] {
        elsewhere::denied(libc::EPERM, &calls, || {
            let [source, target] = operands;
            let registers = [(1, 8), (6, source), (7, target)];
            let (end, mut before, after) = Bench::run_with(&[0xF3, 0xA4], 0, registers);
            before.registers[4] = 0;
            before.flags &= !0x400;
            assert_eq!((end, after.address), (End::Refused, here));
            assert_eq!(before.differs(&after), None);
            let mut sentence = [0; 256];
            let length = trap::last_fault(&mut sentence);
            let said = std::str::from_utf8(&sentence[..length]).expect("text");
            assert!(
                said.contains("neither process_vm_readv nor pipe2"),
                "{said}"
            );
        });
    }
}
