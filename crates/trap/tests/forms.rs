// SPDX-License-Identifier: Apache-2.0
//! Every form of every instruction that loads or stores, as the encoder offers them, with random registers: once on ordinary
//! memory and once on a mapping. Memory, registers, flags, vector state and exceptions must be the same, and what went elsewhere
//! must be one access of the operand's size. What this processor has not is found by trying.
//!
//! IPNUMA_SEED chooses the run. 100,000 accesses; the ignored form has 10 million.
#![cfg(target_arch = "x86_64")]

mod elsewhere;
mod forms_machine;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use elsewhere::{BYTES, Elsewhere};
use forms_machine::{Code as Machine, End, State};
use iced_x86::{Code, Encoder, Instruction, Mnemonic, OpCodeOperandKind as Kind, OpKind, Register};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use trap::Mapping;

/// Counts what is allocated.
struct Counting;

thread_local! {
    /// Of this thread: the test's runner has one of its own, which says after a minute that it waits.
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: as for this function.
        unsafe { System.dealloc(memory, layout) };
    }
}

/// What is not tried: it is refused, it says where it runs, or it changes more than a program's registers.
const LEFT_OUT: &[Mnemonic] = &[
    Mnemonic::Call,
    Mnemonic::Jmp,
    Mnemonic::Push,
    Mnemonic::Pop,
    Mnemonic::Fxsave,
    Mnemonic::Fxsave64,
    Mnemonic::Fxrstor,
    Mnemonic::Fxrstor64,
    Mnemonic::Fldenv,
    Mnemonic::Fnstenv,
    Mnemonic::Frstor,
    Mnemonic::Fnsave,
    Mnemonic::Ldtilecfg,
    Mnemonic::Sttilecfg,
    Mnemonic::Lfs,
    Mnemonic::Lgs,
    Mnemonic::Lss,
    Mnemonic::Sgdt,
    Mnemonic::Sidt,
    Mnemonic::Sldt,
    Mnemonic::Str,
    Mnemonic::Smsw,
    Mnemonic::Clflush,
    Mnemonic::Clflushopt,
    Mnemonic::Clwb,
    Mnemonic::Cldemote,
    Mnemonic::Nop,
    Mnemonic::Reservednop,
    Mnemonic::Prefetch,
    Mnemonic::Prefetchw,
    Mnemonic::Prefetchwt1,
    Mnemonic::Prefetchnta,
    Mnemonic::Prefetcht0,
    Mnemonic::Prefetcht1,
    Mnemonic::Prefetcht2,
    Mnemonic::Prefetchit0,
    Mnemonic::Prefetchit1,
];

/// Products of complex numbers, in which an overflow of a part is noted while it is masked, and not raised while it is not.
const COMPLEX: &[Mnemonic] = &[
    Mnemonic::Vfmulcph,
    Mnemonic::Vfmulcsh,
    Mnemonic::Vfcmulcph,
    Mnemonic::Vfcmulcsh,
    Mnemonic::Vfmaddcph,
    Mnemonic::Vfmaddcsh,
    Mnemonic::Vfcmaddcph,
    Mnemonic::Vfcmaddcsh,
];

/// A form, with its memory operand at `[base + index * scale + displacement]`.
struct Form {
    code: Code,
    machine: Machine,
    base: usize,
    index: Option<(usize, u64)>,
    displacement: i64,
    /// Bytes of the operand.
    bytes: usize,
    masked: bool,
    /// A register that is a bit number, or is added to the address.
    small: Option<usize>,
}

/// A register for an operand; none if the operand is something else.
fn register(kind: Kind, rng: &mut ChaCha8Rng) -> Option<Register> {
    // Neither RSP nor those that hold addresses (R8 to R15, RBP).
    const FREE: [usize; 6] = [0, 1, 2, 3, 6, 7];
    let from = |first: Register, number: usize| {
        Register::try_from(first as usize + number).expect("a register")
    };
    let mut free = || FREE[rng.random_range(0..FREE.len())];
    Some(match kind {
        Kind::r8_reg | Kind::r8_opcode => from(Register::AL, [0, 1, 2, 3][free() % 4]),
        Kind::r16_reg | Kind::r16_rm | Kind::r16_opcode => from(Register::AX, free()),
        Kind::r32_reg | Kind::r32_rm | Kind::r32_opcode | Kind::r32_vvvv => {
            from(Register::EAX, free())
        }
        Kind::r64_reg | Kind::r64_rm | Kind::r64_opcode | Kind::r64_vvvv => {
            from(Register::RAX, free())
        }
        Kind::k_reg | Kind::kp1_reg | Kind::k_vvvv | Kind::k_rm => {
            from(Register::K0, rng.random_range(0..8))
        }
        Kind::mm_reg | Kind::mm_rm => from(Register::MM0, rng.random_range(0..8)),
        Kind::xmm_reg | Kind::xmm_vvvv | Kind::xmm_rm | Kind::xmm_is4 | Kind::xmm_is5 => {
            from(Register::XMM0, rng.random_range(0..16))
        }
        Kind::ymm_reg | Kind::ymm_vvvv | Kind::ymm_rm | Kind::ymm_is4 | Kind::ymm_is5 => {
            from(Register::YMM0, rng.random_range(0..16))
        }
        Kind::zmm_reg | Kind::zmm_vvvv | Kind::zmm_rm => {
            from(Register::ZMM0, rng.random_range(0..32))
        }
        Kind::seg_reg => from(Register::ES, [0, 2, 3][rng.random_range(0..3)]),
        Kind::al => Register::AL,
        Kind::cl => Register::CL,
        Kind::ax => Register::AX,
        Kind::dx => Register::DX,
        Kind::eax => Register::EAX,
        Kind::rax => Register::RAX,
        Kind::st0 => Register::ST0,
        _ => return None,
    })
}

fn is_memory(kind: Kind) -> bool {
    use Kind::*;
    matches!(
        kind,
        mem | r8_or_mem
            | r16_or_mem
            | r32_or_mem
            | r32_or_mem_mpx
            | r64_or_mem
            | r64_or_mem_mpx
            | mm_or_mem
            | xmm_or_mem
            | ymm_or_mem
            | zmm_or_mem
            | k_or_mem
    )
}

fn immediate(kind: Kind) -> Option<OpKind> {
    Some(match kind {
        Kind::imm8 | Kind::imm4_m2z | Kind::imm8_const_1 => OpKind::Immediate8,
        Kind::imm8sex16 => OpKind::Immediate8to16,
        Kind::imm8sex32 => OpKind::Immediate8to32,
        Kind::imm8sex64 => OpKind::Immediate8to64,
        Kind::imm16 => OpKind::Immediate16,
        Kind::imm32 => OpKind::Immediate32,
        Kind::imm32sex64 => OpKind::Immediate32to64,
        Kind::imm64 => OpKind::Immediate64,
        _ => return None,
    })
}

/// A random encoding of a form, if it is one with a memory operand that can be tried.
fn form(code: Code, rng: &mut ChaCha8Rng) -> Option<Form> {
    let shape = code.op_code();
    let kinds = shape.op_kinds();
    let left_out = LEFT_OUT.contains(&code.mnemonic());
    if !shape.is_instruction() || !shape.mode64() || shape.is_privileged() || left_out {
        return None;
    }
    kinds.iter().position(|&kind| is_memory(kind))?;
    if kinds.first() == Some(&Kind::seg_reg) {
        return None;
    }
    let mut instruction = Instruction::new();
    instruction.set_code(code);
    let addresses = [5usize, 8, 9, 10, 11, 12, 13, 14, 15];
    let base = addresses[rng.random_range(0..addresses.len())];
    let index = addresses[rng.random_range(0..addresses.len())];
    let index = (rng.random() && index != base).then(|| (index, 1 << rng.random_range(0..4)));
    let displacement: i64 = match rng.random_range(0..3) {
        0 => 0,
        1 => 64 * rng.random_range(-1..=1i64) + rng.random_range(0..32),
        _ => rng.random_range(-0x4000_0000..0x4000_0000),
    };
    let wide = |number: usize| Register::try_from(Register::RAX as usize + number).expect("one");
    for (operand, &kind) in kinds.iter().enumerate() {
        let operand = operand as u32;
        if is_memory(kind) {
            instruction.set_op_kind(operand, OpKind::Memory);
            instruction.set_memory_base(wide(base));
            if let Some((index, scale)) = index {
                instruction.set_memory_index(wide(index));
                instruction.set_memory_index_scale(scale as u32);
            }
            instruction.set_memory_displacement64(displacement as u64);
            instruction.set_memory_displ_size(8);
        } else if let Some(register) = register(kind, rng) {
            instruction.set_op_kind(operand, OpKind::Register);
            instruction.set_op_register(operand, register);
        } else {
            let size = immediate(kind)?;
            instruction.set_op_kind(operand, size);
            let value: u64 = match kind {
                Kind::imm8_const_1 => 1,
                Kind::imm4_m2z => rng.random_range(0..4),
                _ => rng.random_range(0..0x70),
            };
            instruction.set_immediate_u64(operand, value);
        }
    }
    if shape.can_use_op_mask_register() && (rng.random() || shape.require_op_mask_register()) {
        let mask = Register::try_from(Register::K0 as usize + rng.random_range(1..8));
        instruction.set_op_mask(mask.expect("a mask"));
        let memory_first = instruction.op0_kind() == OpKind::Memory;
        if shape.can_use_zeroing_masking() && !memory_first && rng.random() {
            instruction.set_zeroing_masking(true);
        }
    }
    if shape.can_broadcast() && rng.random() {
        instruction.set_is_broadcast(true);
    }
    if shape.can_use_lock_prefix() && instruction.op0_kind() == OpKind::Memory && rng.random() {
        instruction.set_has_lock_prefix(true);
    }
    let mut encoder = Encoder::new(64);
    encoder.encode(&instruction, 0).ok()?;
    let bytes = encoder.take_buffer();
    // As it is read, not as it was meant.
    let mut decoder = iced_x86::Decoder::with_ip(64, &bytes, 0, 0);
    let read = decoder.decode();
    if read.is_invalid() || read.is_vsib() {
        return None;
    }
    let bit_string = matches!(
        read.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    let small = (bit_string && read.op1_kind() == OpKind::Register)
        .then(|| read.op1_register().full_register().number());
    let masked = read.op_mask() != Register::None
        || matches!(
            read.mnemonic(),
            Mnemonic::Vmaskmovps
                | Mnemonic::Vmaskmovpd
                | Mnemonic::Vpmaskmovd
                | Mnemonic::Vpmaskmovq
        );
    let size = read.memory_size().size();
    (size > 0 && size <= 512).then(|| Form {
        code,
        machine: Machine::new(&bytes),
        base,
        index,
        displacement,
        bytes: size,
        masked,
        small,
    })
}

fn seed() -> u64 {
    let given = std::env::var("IPNUMA_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    println!("IPNUMA_SEED={seed}");
    seed
}

/// Ordinary memory, with lines where the mapping has them.
#[repr(align(64))]
struct Here([u8; BYTES]);

/// Two memories, and what a run of each leaves.
struct Bench {
    there: Arc<Elsewhere>,
    mapping: Mapping,
    here: Box<Here>,
    /// What was refused, and what this processor has not.
    missing: BTreeSet<String>,
    met: BTreeMap<&'static str, u64>,
}

impl Bench {
    fn new() -> Self {
        forms_machine::listen();
        let there = Elsewhere::new();
        let mapping = there.whole();
        Self {
            there,
            mapping,
            here: Box::new(Here([0; BYTES])),
            missing: BTreeSet::new(),
            met: BTreeMap::new(),
        }
    }

    /// One access. `false`: the processor has no such instruction.
    fn access(&mut self, form: &Form, rng: &mut ChaCha8Rng) -> Result<bool, String> {
        if std::env::var_os("IPNUMA_TRACE").is_some() {
            eprintln!("{:?}", form.code);
        }
        let mut start = State::random(rng);
        if COMPLEX.contains(&form.code.mnemonic()) {
            start.mask_exceptions();
        }
        if let Some(small) = form.small {
            start.registers[small] %= 8192;
            start.registers[small] = start.registers[small].wrapping_sub(4096);
        }
        let room = BYTES - 2 * 1024;
        let offset = match rng.random_range(0..4) {
            0 => rng.random_range(1024..room),
            1 => rng.random_range(1024..room) / 8 * 8,
            _ => rng.random_range(1024..room) / 64 * 64,
        };
        rng.fill(&mut self.here.0[offset - 520..offset + 1032]);
        self.there
            .set(offset - 520, &self.here.0[offset - 520..offset + 1032]);
        let at = |base: usize| {
            let mut state = start.clone();
            let mut address = (base + offset) as u64;
            if let Some((index, scale)) = form.index {
                state.registers[index] %= 1 << 20;
                address = address.wrapping_sub(state.registers[index] * scale);
            }
            state.registers[form.base] = address.wrapping_sub(form.displacement as u64);
            state
        };
        let native_base = self.here.0.as_ptr() as usize;
        let mut native = at(native_base);
        let before = native.registers[form.base];
        let ended = form.machine.run(&mut native);
        if ended == End::Illegal {
            return Ok(false);
        }
        self.there.log();
        let mapped_base = self.mapping.address() as usize;
        let mut mapped = at(mapped_base);
        let after = mapped.registers[form.base];
        let allocated = ALLOCATED.get();
        let other = form.machine.run(&mut mapped);
        let allocated = ALLOCATED.get() - allocated;
        assert_eq!(allocated, 0, "{:?}: a handler must not allocate", form.code);
        let name = || format!("{:?} at offset {offset}", form.code);
        if ended != other {
            return Err(format!("{}: {ended:?} and {other:?}", name()));
        }
        assert_eq!(native.registers[form.base], before, "{}", name());
        assert_eq!(mapped.registers[form.base], after, "{}", name());
        mapped.registers[form.base] = before;
        if ended == End::Arithmetic {
            native.after_exception();
            mapped.after_exception();
        }
        if let Some(difference) = native.differs(&mapped) {
            return Err(format!("{}: {difference}", name()));
        }
        let (mut left, right) = (vec![0; 1552], &self.here.0[offset - 520..offset + 1032]);
        self.there.get(offset - 520, &mut left);
        if left != right {
            return Err(format!("{}: the memory is another", name()));
        }
        let log = self.there.log();
        if ended == End::Done && !form.masked {
            let loads = log.iter().filter(|access| !access.2).count();
            let stores = log.iter().filter(|access| access.2).count();
            let sizes = log.iter().all(|&(_, bytes, _)| bytes == form.bytes);
            if !sizes || loads > 1 || stores > 1 || loads + stores == 0 {
                let bytes = form.bytes;
                return Err(format!("{}: {log:?} instead of {bytes} bytes", name()));
            }
        }
        Ok(true)
    }
}

fn run(accesses: u64) {
    let seed = seed();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bench = Bench::new();
    let codes: Vec<Code> = Code::values().collect();
    let mut tried: Vec<Code> = Vec::new();
    let mut wrong = Vec::new();
    // Each form at least once, and which there are.
    for &code in &codes {
        let Some(form) = form(code, &mut rng) else {
            continue;
        };
        match bench.access(&form, &mut rng) {
            Ok(true) => tried.push(code),
            Ok(false) => {
                bench.missing.insert(format!("{:?}", code.mnemonic()));
            }
            Err(why) => wrong.push(why),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!(
        "{} forms; this processor has not: {:?}",
        tried.len(),
        bench.missing
    );
    assert!(tried.len() > 1000, "{}", tried.len());
    let mut done = tried.len() as u64;
    while done < accesses {
        let code = tried[rng.random_range(0..tried.len())];
        if let Some(form) = form(code, &mut rng) {
            // The same form again and again is what loops have.
            for _ in 0..4 {
                if let Err(why) = bench.access(&form, &mut rng) {
                    panic!("{why}");
                }
                done += 1;
            }
            *bench.met.entry("forms").or_default() += 1;
        }
    }
    println!("{done} accesses, {:?}", bench.met);
}

#[test]
fn every_form_does_on_a_mapping_what_it_does_on_memory() {
    run(100_000);
}

#[test]
#[ignore = "10 million accesses: cargo test -p trap --test forms -- --ignored"]
fn every_form_does_so_ten_million_times() {
    run(10_000_000);
}
