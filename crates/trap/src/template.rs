// SPDX-License-Identifier: Apache-2.0
//! The machine code around a copied instruction, and the data beside it.
//!
//! A cell has [`CODE`] bytes of code and behind them its [`Data`], so that everything is reached relative to the instruction
//! pointer and no register is needed for it: the copy sees all registers as the program had them. The template below is copied to
//! the begin of each cell; it is never run where it lies.

use std::arch::global_asm;

/// Bytes of a cell's code: the template, then the slots.
pub const CODE: usize = 0x4000;
/// Where the first slot is.
pub const SLOTS: usize = 0x1000;
/// Bytes from slot to slot: a longest instruction and a jump.
pub const STRIDE: usize = 32;
/// Slots of a cell.
pub const COUNT: usize = 128;
/// Bytes of the longest operand.
pub const OPERAND: usize = 512;

/// What the template works with. The order is the template's.
#[repr(C, align(64))]
pub struct Data {
    /// Registers by their numbers.
    pub registers: [u64; 16],
    /// Flags that are loaded, and then those that came out.
    pub flags: u64,
    host_rsp: u64,
    /// The slot.
    pub target: u64,
    /// Where the vector state is, as XSAVE has it.
    pub area: u64,
    /// Which parts of it.
    pub mask: u64,
    host_mxcsr: u32,
    /// MXCSR that the copy runs with.
    pub run_mxcsr: u32,
    /// What became of it.
    pub after_mxcsr: u32,
    host_control: u16,
    /// 1 if the upper halves of vectors are to be cleared.
    pub wide: u16,
    _pad: u64,
    /// The copy's operand.
    pub scratch: [u8; OPERAND],
    /// What it was before; also what a first run left.
    pub before: [u8; OPERAND],
}

const _: () = assert!(std::mem::offset_of!(Data, flags) == 128);
const _: () = assert!(std::mem::offset_of!(Data, host_mxcsr) == 168);
const _: () = assert!(std::mem::offset_of!(Data, wide) == 182);
const _: () = assert!(std::mem::offset_of!(Data, scratch).is_multiple_of(64));
const _: () = assert!(SLOTS + STRIDE * COUNT <= CODE);

global_asm!(
    r#"
    .pushsection .rodata.ipnuma_trap, "a", @progbits
    .p2align 6
    .macro ipnuma_each op:req
      \op rax, 0
      \op rcx, 8
      \op rdx, 16
      \op rbx, 24
      \op rbp, 40
      \op rsi, 48
      \op rdi, 56
      \op r8, 64
      \op r9, 72
      \op r10, 80
      \op r11, 88
      \op r12, 96
      \op r13, 104
      \op r14, 112
      \op r15, 120
      \op rsp, 32
    .endm
    .macro ipnuma_take register:req, at:req
      mov \register, qword ptr [rip + ipnuma_trap_template + 0x4000 + \at]
    .endm
    .macro ipnuma_keep register:req, at:req
      mov qword ptr [rip + ipnuma_trap_template + 0x4000 + \at], \register
    .endm
    .macro ipnuma_enter
      push rbx
      push rbp
      push r12
      push r13
      push r14
      push r15
      ipnuma_keep rsp, 136
    .endm
    .macro ipnuma_go
      push qword ptr [rip + ipnuma_trap_template + 0x4000 + 128]
      popfq
      ipnuma_each ipnuma_take
      jmp qword ptr [rip + ipnuma_trap_template + 0x4000 + 144]
    .endm
    .macro ipnuma_leave
      pop r15
      pop r14
      pop r13
      pop r12
      pop rbp
      pop rbx
      ret
    .endm
    .macro ipnuma_came
      ipnuma_each ipnuma_keep
      ipnuma_take rsp, 136
      pushfq
      pop qword ptr [rip + ipnuma_trap_template + 0x4000 + 128]
      cld
    .endm

    .globl ipnuma_trap_template
    .hidden ipnuma_trap_template
    .globl ipnuma_trap_plain, ipnuma_trap_plain_done, ipnuma_trap_vector, ipnuma_trap_vector_done, ipnuma_trap_end
    .hidden ipnuma_trap_plain, ipnuma_trap_plain_done, ipnuma_trap_vector, ipnuma_trap_vector_done, ipnuma_trap_end
  ipnuma_trap_template:
  ipnuma_trap_plain:
    ipnuma_enter
    ipnuma_go
  ipnuma_trap_plain_done:
    ipnuma_came
    ipnuma_leave
  ipnuma_trap_vector:
    ipnuma_enter
    stmxcsr dword ptr [rip + ipnuma_trap_template + 0x4000 + 168]
    fnstcw word ptr [rip + ipnuma_trap_template + 0x4000 + 180]
    ipnuma_take rdi, 152
    mov eax, dword ptr [rip + ipnuma_trap_template + 0x4000 + 160]
    xor edx, edx
    xrstor64 [rdi]
    ldmxcsr dword ptr [rip + ipnuma_trap_template + 0x4000 + 172]
    ipnuma_go
  ipnuma_trap_vector_done:
    ipnuma_came
    stmxcsr dword ptr [rip + ipnuma_trap_template + 0x4000 + 176]
    ipnuma_take rdi, 152
    mov eax, dword ptr [rip + ipnuma_trap_template + 0x4000 + 160]
    xor edx, edx
    xsave64 [rdi]
    fninit
    fldcw word ptr [rip + ipnuma_trap_template + 0x4000 + 180]
    ldmxcsr dword ptr [rip + ipnuma_trap_template + 0x4000 + 168]
    cmp word ptr [rip + ipnuma_trap_template + 0x4000 + 182], 0
    je 1f
    vzeroupper
  1:
    ipnuma_leave
  ipnuma_trap_end:
    .popsection
"#
);

unsafe extern "C" {
    static ipnuma_trap_template: u8;
    static ipnuma_trap_plain: u8;
    static ipnuma_trap_plain_done: u8;
    static ipnuma_trap_vector: u8;
    static ipnuma_trap_vector_done: u8;
    static ipnuma_trap_end: u8;
}

/// Where things are in the template.
#[derive(Clone, Copy)]
pub struct Entries {
    /// Entry without vector state.
    pub plain: usize,
    /// Where a slot jumps to then.
    pub plain_done: usize,
    /// Entry with vector state.
    pub vector: usize,
    /// Where a slot jumps to then.
    pub vector_done: usize,
}

/// The template's bytes.
pub fn bytes() -> &'static [u8] {
    let (first, end) = (
        &raw const ipnuma_trap_template,
        (&raw const ipnuma_trap_end) as usize,
    );
    // SAFETY: the assembler laid the template out between the two symbols, in memory that never changes.
    unsafe { std::slice::from_raw_parts(first, end - first as usize) }
}

/// Offsets in the template.
pub fn entries() -> Entries {
    let first = (&raw const ipnuma_trap_template) as usize;
    Entries {
        plain: (&raw const ipnuma_trap_plain) as usize - first,
        plain_done: (&raw const ipnuma_trap_plain_done) as usize - first,
        vector: (&raw const ipnuma_trap_vector) as usize - first,
        vector_done: (&raw const ipnuma_trap_vector_done) as usize - first,
    }
}
