// SPDX-License-Identifier: Apache-2.0
//! String instructions, repeated and not, in both directions, with either or both of their operands on a mapping: what they leave
//! in memory and registers is what they leave on ordinary memory.
#![cfg(target_arch = "x86_64")]

mod elsewhere;
mod forms_machine;

use elsewhere::{BYTES, Elsewhere};
use forms_machine::{Code, End, State};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Opcodes of the widths above a byte: MOVS, CMPS, STOS, LODS, SCAS.
const OPCODES: [u8; 5] = [0xA5, 0xA7, 0xAB, 0xAD, 0xAF];
const RAX: usize = 0;
const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;
const DIRECTION: u64 = 0x400;

#[test]
fn strings_do_on_a_mapping_what_they_do_on_memory() {
    strings(5000);
}

#[test]
fn strings_do_so_where_the_kernel_has_no_process_vm_readv() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        elsewhere::denied(errno, &elsewhere::COPIES, || strings(500));
    }
}

fn strings(rounds: usize) {
    let given = std::env::var("IPNUMA_SEED").ok();
    let seed = given
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| rand::rng().random());
    println!("IPNUMA_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    forms_machine::listen();
    let there = Elsewhere::new();
    let mapping = there.whole();
    // What is ordinary in both runs, and what is the mapping in one of them.
    let mut ordinary = [vec![0u8; BYTES], vec![0u8; BYTES]];
    let mut model = vec![0u8; BYTES];
    for _ in 0..rounds {
        let mut code = Vec::new();
        let repeat = rng.random_range(0..3);
        code.extend([&[][..], &[0xF3], &[0xF2]][repeat]);
        let width: usize = 1 << rng.random_range(0..4);
        match width {
            2 => code.push(0x66),
            8 => code.push(0x48),
            _ => {}
        }
        let opcode = OPCODES[rng.random_range(0..OPCODES.len())];
        code.push(opcode - u8::from(width == 1));
        // Few different bytes: comparisons go on for a while then.
        let kinds = rng.random_range(1..3u8);
        for byte in &mut model {
            *byte = rng.random_range(0..=kinds) / kinds;
        }
        for byte in &mut ordinary[0] {
            *byte = rng.random_range(0..=kinds) / kinds;
        }
        ordinary[1] = ordinary[0].clone();
        there.set(0, &model);
        let mut state = State::random(&mut rng);
        state.registers[RCX] = match rng.random_range(0..4) {
            0 => 0,
            _ => rng.random_range(1..200),
        };
        state.registers[RAX] &= 0x0101_0101_0101_0101;
        if rng.random() {
            state.flags |= DIRECTION;
        }
        let [source, target] = [0, 1].map(|_| rng.random_range(2048..BYTES - 2048));
        let on_mapping: [bool; 2] = match rng.random_range(0..3) {
            0 => [true, true],
            1 => [true, false],
            _ => [false, true],
        };
        let run = |other: usize, mapped: usize| {
            let bases = on_mapping.map(|mapping| if mapping { mapped } else { other });
            let mut state = state.clone();
            state.registers[RSI] = (bases[0] + source) as u64;
            state.registers[RDI] = (bases[1] + target) as u64;
            let end = Code::new(&code).run(&mut state);
            assert_eq!(end, End::Done, "{code:x?}");
            state.registers[RSI] = state.registers[RSI].wrapping_sub(bases[0] as u64);
            state.registers[RDI] = state.registers[RDI].wrapping_sub(bases[1] as u64);
            state
        };
        let native = run(ordinary[0].as_ptr() as usize, model.as_ptr() as usize);
        let mapped = run(ordinary[1].as_ptr() as usize, mapping.address() as usize);
        let what = format!("{code:x?} {on_mapping:?} {source} {target}");
        assert_eq!(native.differs(&mapped), None, "{what}");
        assert!(ordinary[0] == ordinary[1], "{what}");
        let mut left = vec![0; BYTES];
        there.get(0, &mut left);
        assert!(left == model, "{what}");
    }
}
