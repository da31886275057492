// SPDX-License-Identifier: Apache-2.0
//! What an instruction does with memory, and a copy of it that does the same to other memory.
//!
//! The decoder is iced-x86's. What an instruction *means* is left to the processor: only where its operand is, how long it
//! is, and whether it is loaded or stored has to be known here. No allocation, no lock, once the decoder's tables are built: this
//! runs in a signal handler.

use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderError, DecoderOptions, EncodingKind, FlowControl,
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::template::OPERAND;

/// Bytes of the longest instruction.
pub const LONGEST: usize = 15;

/// No register.
const NONE: u8 = 0xFF;

/// Where an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    base: u8,
    index: u8,
    scale: u8,
    displacement: u64,
    /// Register number of FS or GS, whose base counts.
    pub segment: Option<Segment>,
    /// The address is cut to 32 bits.
    narrow: bool,
    /// It depends on where the instruction lies.
    pub relative: bool,
}

/// A segment with a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// FS.
    Fs,
    /// GS.
    Gs,
}

impl Address {
    /// The address without the segment's base.
    pub fn of(&self, registers: &[u64; 16]) -> u64 {
        let part = |register: u8| match register {
            NONE => 0,
            register => registers[usize::from(register)],
        };
        let index = part(self.index).wrapping_mul(u64::from(self.scale));
        let whole = part(self.base)
            .wrapping_add(index)
            .wrapping_add(self.displacement);
        match self.narrow {
            true => whole & u64::from(u32::MAX),
            false => whole,
        }
    }
}

/// What is done with the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Loaded.
    Load,
    /// Stored.
    Store,
    /// Loaded, then stored.
    Both,
    /// Loaded, then stored if it is changed: a compare and exchange that fails stores nothing.
    Exchange,
}

/// A string instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// MOVS
    Move,
    /// STOS
    Fill,
    /// LODS
    Take,
    /// CMPS
    Compare,
    /// SCAS
    Search,
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Once.
    Once,
    /// As often as RCX says; comparisons while they are equal.
    Equal,
    /// As often as RCX says; comparisons while they differ.
    Differ,
}

/// How an access is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Run the copy, whose operand is the scratch memory.
    Copy(Copy),
    /// Nothing is accessed: go on behind it.
    Skip,
    /// A string instruction; the address is its source's segment only.
    Text {
        /// Which.
        text: Text,
        /// Bytes of an element.
        width: u8,
        /// How often.
        repeat: Repeat,
        /// Counter and pointers have 32 bits.
        narrow: bool,
    },
}

/// An instruction without its operand's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its bytes.
    pub bytes: [u8; LONGEST],
    /// How many.
    pub length: u8,
    /// Where the 4 bytes are that say how far behind the copy's end its operand is; none if `pointer` says it.
    pub place: Option<u8>,
    /// The register that implicitly points to the operand.
    pub pointer: Option<u8>,
    /// The register that counts bits from the operand on, and which part of it is not a part of the address.
    pub bits: Option<(u8, u8)>,
    /// It needs vector registers.
    pub vector: bool,
    /// It loads or stores MXCSR.
    pub mxcsr: bool,
    /// 64 or 128 bits are divided by the operand; true: signed.
    pub divides: Option<bool>,
}

/// What has to be done for an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of the instruction.
    pub length: u8,
    /// How.
    pub kind: Kind,
    /// Where.
    pub address: Address,
    /// Bytes.
    pub bytes: u16,
    /// What for.
    pub uses: Use,
    /// Perhaps only a part of the bytes is accessed.
    pub partly: bool,
}

/// Why an instruction can't be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unable {
    /// Its bytes end too early.
    Short,
    /// It is none.
    Invalid,
    /// A debugger has put a breakpoint there instead.
    Breakpoint,
    /// It transfers control or uses the stack as well.
    Stack,
    /// It saves or loads the processor's state.
    State,
    /// It gathers or scatters.
    Scattered,
    /// Not known how.
    Unknown,
}

impl Unable {
    /// The sentence.
    pub fn why(self) -> &'static str {
        match self {
            Unable::Short | Unable::Invalid => "the instruction cannot be decoded",
            Unable::Breakpoint => {
                "a debugger has a breakpoint on the instruction, as for a step over it: set one behind it, and continue"
            }
            Unable::Stack => {
                "push, pop, call and jmp cannot be carried out there: load the value into a register first"
            }
            Unable::State => {
                "instructions that save or load the processor's state or a segment cannot be carried out there: \
                 use ordinary memory and copy it"
            }
            Unable::Scattered => {
                "gather and scatter cannot be carried out there: load and store the elements one by one"
            }
            Unable::Unknown => {
                "this instruction cannot be carried out there: load and store by plain moves"
            }
        }
    }
}

/// Builds the decoder's tables, which allocates: to be called before the first [`plan`] of a process.
pub fn build_tables() {
    const NOP: [u8; 1] = [0x90];
    let mut decoder = Decoder::with_ip(64, &NOP, 0, DecoderOptions::NONE);
    let _ = decoder.decode();
}

/// A plan for the instruction that `bytes` begin with, which lies at `at`.
pub fn plan(bytes: &[u8], at: u64, factory: &mut InstructionInfoFactory) -> Result<Plan, Unable> {
    // INT3 accesses no memory: what has faulted was another instruction.
    if bytes.first() == Some(&0xCC) {
        return Err(Unable::Breakpoint);
    }
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return Err(match decoder.last_error() {
            DecoderError::NoMoreBytes => Unable::Short,
            _ => Unable::Invalid,
        });
    }
    let bytes = &bytes[..instruction.len()];
    if let Some(plan) = text(&instruction) {
        return Ok(plan);
    }
    let info = factory.info_options(&instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    refused(&instruction)?;
    let [used] = info.used_memory() else {
        // Without any, it does not fault where it would be of interest (CLFLUSH, PREFETCH and the like).
        return match info.used_memory() {
            [] => Ok(skip(&instruction)),
            _ if instruction.is_stack_instruction() => Err(Unable::Stack),
            _ => Err(Unable::Unknown),
        };
    };
    let (uses, partly) = match used.access() {
        OpAccess::NoMemAccess | OpAccess::None => return Ok(skip(&instruction)),
        OpAccess::Read => (Use::Load, false),
        OpAccess::CondRead => (Use::Load, true),
        OpAccess::Write => (Use::Store, false),
        OpAccess::CondWrite => (Use::Store, true),
        OpAccess::ReadWrite => (Use::Both, false),
        OpAccess::ReadCondWrite => (Use::Exchange, false),
    };
    if matches!(
        instruction.mnemonic(),
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb | Mnemonic::Cldemote
    ) {
        return Ok(skip(&instruction));
    }
    let size = used.memory_size().size();
    if size == 0 || size > OPERAND {
        return Err(Unable::State);
    }
    let number = |register: Register| match register {
        Register::None | Register::RIP | Register::EIP => Ok(NONE),
        register if register.is_gpr() => Ok(register.full_register().number() as u8),
        _ => Err(Unable::Scattered),
    };
    let mut address = Address {
        base: number(used.base())?,
        index: number(used.index())?,
        scale: used.scale() as u8,
        displacement: used.displacement(),
        segment: segment(used.segment()),
        narrow: used.address_size() == iced_x86::CodeSize::Code32,
        relative: instruction.is_ip_rel_memory_operand(),
    };
    let copy = copy(&instruction, bytes)?;
    if copy.pointer == Some(0) && instruction.mnemonic() != Mnemonic::Xlatb {
        // CLZERO: the line that the address is in.
        address.index = NONE;
    }
    Ok(Plan {
        length: instruction.len() as u8,
        kind: Kind::Copy(copy),
        address,
        bytes: size as u16,
        uses,
        partly: partly || masked(&instruction),
    })
}

/// Whether only some elements are accessed, by a mask.
fn masked(instruction: &Instruction) -> bool {
    instruction.op_mask() != Register::None
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Maskmovq
                | Mnemonic::Maskmovdqu
                | Mnemonic::Vmaskmovdqu
                | Mnemonic::Vmaskmovps
                | Mnemonic::Vmaskmovpd
                | Mnemonic::Vpmaskmovd
                | Mnemonic::Vpmaskmovq
        )
}

fn segment(register: Register) -> Option<Segment> {
    match register {
        Register::FS => Some(Segment::Fs),
        Register::GS => Some(Segment::Gs),
        _ => None,
    }
}

fn skip(instruction: &Instruction) -> Plan {
    Plan {
        length: instruction.len() as u8,
        kind: Kind::Skip,
        address: Address {
            base: NONE,
            index: NONE,
            scale: 0,
            displacement: 0,
            segment: None,
            narrow: false,
            relative: false,
        },
        bytes: 0,
        uses: Use::Load,
        partly: false,
    }
}

/// What is not tried.
fn refused(instruction: &Instruction) -> Result<(), Unable> {
    if instruction.is_stack_instruction() || instruction.flow_control() != FlowControl::Next {
        return Err(Unable::Stack);
    }
    if instruction.is_vsib() {
        return Err(Unable::Scattered);
    }
    let loads_segment = (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).is_segment_register()
            && operand == 0
    });
    let state = matches!(
        instruction.mnemonic(),
        Mnemonic::Fxsave
            | Mnemonic::Fxsave64
            | Mnemonic::Fxrstor
            | Mnemonic::Fxrstor64
            | Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
            | Mnemonic::Lfs
            | Mnemonic::Lgs
            | Mnemonic::Lss
            | Mnemonic::Fldenv
            | Mnemonic::Fnstenv
            | Mnemonic::Fnsave
            | Mnemonic::Frstor
            | Mnemonic::Ldtilecfg
            | Mnemonic::Sttilecfg
            | Mnemonic::Tileloadd
            | Mnemonic::Tileloaddt1
            | Mnemonic::Tilestored
    );
    match loads_segment || state {
        true => Err(Unable::State),
        false => Ok(()),
    }
}

/// String instructions have two operands, and RCX.
fn text(instruction: &Instruction) -> Option<Plan> {
    let (text, width) = match instruction.code() {
        Code::Movsb_m8_m8 => (Text::Move, 1),
        Code::Movsw_m16_m16 => (Text::Move, 2),
        Code::Movsd_m32_m32 => (Text::Move, 4),
        Code::Movsq_m64_m64 => (Text::Move, 8),
        Code::Stosb_m8_AL => (Text::Fill, 1),
        Code::Stosw_m16_AX => (Text::Fill, 2),
        Code::Stosd_m32_EAX => (Text::Fill, 4),
        Code::Stosq_m64_RAX => (Text::Fill, 8),
        Code::Lodsb_AL_m8 => (Text::Take, 1),
        Code::Lodsw_AX_m16 => (Text::Take, 2),
        Code::Lodsd_EAX_m32 => (Text::Take, 4),
        Code::Lodsq_RAX_m64 => (Text::Take, 8),
        Code::Cmpsb_m8_m8 => (Text::Compare, 1),
        Code::Cmpsw_m16_m16 => (Text::Compare, 2),
        Code::Cmpsd_m32_m32 => (Text::Compare, 4),
        Code::Cmpsq_m64_m64 => (Text::Compare, 8),
        Code::Scasb_AL_m8 => (Text::Search, 1),
        Code::Scasw_AX_m16 => (Text::Search, 2),
        Code::Scasd_EAX_m32 => (Text::Search, 4),
        Code::Scasq_RAX_m64 => (Text::Search, 8),
        _ => return None,
    };
    let repeat = match (instruction.has_rep_prefix(), instruction.has_repne_prefix()) {
        (_, true) => Repeat::Differ,
        (true, _) => Repeat::Equal,
        _ => Repeat::Once,
    };
    let narrow = (0..instruction.op_count()).any(|operand| {
        matches!(
            instruction.op_kind(operand),
            OpKind::MemorySegESI | OpKind::MemoryESEDI
        )
    });
    let mut plan = skip(instruction);
    plan.address.segment = segment(instruction.memory_segment());
    plan.kind = Kind::Text {
        text,
        width,
        repeat,
        narrow,
    };
    Some(plan)
}

/// Where the ModRM byte is, or what is there instead.
enum Encoded {
    ModRm(usize),
    /// MOV between the accumulator and an absolute address, with its opcode at this place.
    Offset(usize),
}

/// The legacy prefixes that only say where the operand is.
fn addresses(byte: u8) -> bool {
    matches!(byte, 0x67 | 0x26 | 0x2E | 0x36 | 0x3E | 0x64 | 0x65)
}

/// Begin of opcode or REX, and what follows.
fn encoded(bytes: &[u8]) -> Option<(usize, Encoded)> {
    let prefix = |byte: &u8| addresses(*byte) || matches!(byte, 0x66 | 0xF0 | 0xF2 | 0xF3);
    let first = bytes.iter().position(|byte| !prefix(byte))?;
    let opcode = match bytes[first] & 0xF0 {
        0x40 => first + 1,
        _ => first,
    };
    let place = match *bytes.get(opcode)? {
        0xC5 => opcode + 3,
        0xC4 => opcode + 4,
        0x62 => opcode + 5,
        0x8F if *bytes.get(opcode + 1)? & 0x1F >= 8 => opcode + 4,
        0x0F => match *bytes.get(opcode + 1)? {
            0x38 | 0x3A => opcode + 3,
            _ => opcode + 2,
        },
        0xA0..=0xA3 => return Some((first, Encoded::Offset(opcode))),
        _ => opcode + 1,
    };
    Some((first, Encoded::ModRm(place)))
}

/// A copy whose operand is relative to its own end.
fn copy(instruction: &Instruction, bytes: &[u8]) -> Result<Copy, Unable> {
    let mut copy = Copy {
        bytes: [0; LONGEST],
        length: 0,
        place: None,
        pointer: None,
        bits: None,
        vector: vector(instruction),
        mxcsr: matches!(
            instruction.mnemonic(),
            Mnemonic::Ldmxcsr | Mnemonic::Vldmxcsr | Mnemonic::Stmxcsr | Mnemonic::Vstmxcsr
        ),
        divides: match instruction.mnemonic() {
            Mnemonic::Div => Some(false),
            Mnemonic::Idiv => Some(true),
            _ => None,
        },
    };
    let put = |copy: &mut Copy, more: &[u8]| {
        let at = usize::from(copy.length);
        let room = copy.bytes.get_mut(at..at + more.len());
        room.ok_or(Unable::Unknown)?.copy_from_slice(more);
        copy.length += more.len() as u8;
        Ok(())
    };
    copy.pointer = match instruction.mnemonic() {
        Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => Some(7),
        Mnemonic::Xlatb => Some(3),
        Mnemonic::Clzero => Some(0),
        _ => None,
    };
    let (first, encoded) = encoded(bytes).ok_or(Unable::Unknown)?;
    for &byte in &bytes[..first] {
        if !addresses(byte) {
            put(&mut copy, &[byte])?;
        }
    }
    if copy.pointer.is_some() {
        put(&mut copy, &bytes[first..])?;
        return Ok(copy);
    }
    let (modrm, tail) = match encoded {
        Encoded::Offset(opcode) => {
            put(&mut copy, &bytes[first..opcode])?;
            put(
                &mut copy,
                &[match bytes[opcode] {
                    0xA0 => 0x8A,
                    0xA1 => 0x8B,
                    0xA2 => 0x88,
                    _ => 0x89,
                }],
            )?;
            (0, bytes.len())
        }
        Encoded::ModRm(place) => {
            let modrm = *bytes.get(place).ok_or(Unable::Unknown)?;
            put(&mut copy, &bytes[first..place])?;
            (modrm, behind(bytes, place, modrm).ok_or(Unable::Unknown)?)
        }
    };
    // Relative to the instruction pointer.
    put(&mut copy, &[modrm & 0x38 | 5])?;
    copy.place = Some(copy.length);
    put(&mut copy, &[0; 4])?;
    put(&mut copy, &bytes[tail..])?;
    if bit_string(instruction) {
        let register = instruction.op1_register();
        let inside = 8 * register.size() as u8 - 1;
        copy.bits = Some((register.full_register().number() as u8, inside));
    }
    Ok(copy)
}

/// Where the immediates begin.
fn behind(bytes: &[u8], place: usize, modrm: u8) -> Option<usize> {
    let (mode, low) = (modrm >> 6, modrm & 7);
    let mut at = place + 1;
    let mut base = low;
    match mode {
        3 => return None,
        _ if low == 4 => {
            base = bytes.get(at)? & 7;
            at += 1;
        }
        _ => {}
    }
    at += match mode {
        1 => 1,
        2 => 4,
        _ if base == 5 => 4,
        _ => 0,
    };
    (at <= bytes.len()).then_some(at)
}

/// BT and its kin with a register count bits from the operand on, as far as they like.
fn bit_string(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    ) && instruction.op1_kind() == OpKind::Register
}

/// Whether anything but general registers is concerned.
fn vector(instruction: &Instruction) -> bool {
    let registers = (0..instruction.op_count())
        .filter(|&operand| instruction.op_kind(operand) == OpKind::Register)
        .any(|operand| {
            let register = instruction.op_register(operand);
            !register.is_gpr() && !register.is_segment_register()
        });
    let old = instruction.cpuid_features().iter().any(|feature| {
        matches!(
            feature,
            CpuidFeature::FPU
                | CpuidFeature::FPU287
                | CpuidFeature::FPU387
                | CpuidFeature::FPU387SL_ONLY
                | CpuidFeature::SSE
                | CpuidFeature::SSE2
                | CpuidFeature::SSE3
                | CpuidFeature::SSE4_1
                | CpuidFeature::SSE4_2
                | CpuidFeature::MMX
        )
    });
    registers || old || instruction.encoding() != EncodingKind::Legacy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breakpoint_is_told_from_what_it_is_on() {
        let mut factory = InstructionInfoFactory::new();
        // mov [rax], ebx, with and without a breakpoint.
        let mut plan = |first| plan(&[first, 0x18], 0, &mut factory).map(|plan| plan.uses);
        assert_eq!(plan(0x89), Ok(Use::Store));
        assert_eq!(plan(0xCC), Err(Unable::Breakpoint));
    }
}
