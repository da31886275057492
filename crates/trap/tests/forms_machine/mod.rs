// SPDX-License-Identifier: Apache-2.0
//! Runs one instruction with given registers, in code of its own, and says how it ended.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::arch::global_asm;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Bytes that are kept of the vector state.
const AREA: usize = 4096;
/// Where its header is.
const HEADER: usize = 512;
/// Offsets in [`State`].
const TARGET: usize = 136;

/// All registers of a program.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct State {
    pub registers: [u64; 16],
    pub flags: u64,
    target: u64,
    host: u64,
    mask: u64,
    end: u64,
    /// Address of the signal that ended it.
    pub address: u64,
    _pad: [u64; 2],
    pub area: [u8; AREA],
}

const _: () = assert!(std::mem::offset_of!(State, target) == TARGET);
const _: () = assert!(std::mem::offset_of!(State, area) == 192);

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Illegal,
    Arithmetic,
    Protection,
    /// SIGBUS
    Refused,
}

global_asm!(
    r#"
    .pushsection .bss.forms_state, "aw", @nobits
    .p2align 6
    .globl forms_state
    .hidden forms_state
  forms_state:
    .zero 4352
    .popsection
    .pushsection .text.forms, "ax", @progbits
    .macro forms_each op:req
      \op rax, 0
      \op rcx, 8
      \op rdx, 16
      \op rbx, 24
      \op rbp, 40
      \op rsi, 48
      \op r8, 64
      \op r9, 72
      \op r10, 80
      \op r11, 88
      \op r12, 96
      \op r13, 104
      \op r14, 112
      \op r15, 120
      \op rdi, 56
    .endm
    .macro forms_load register:req, at:req
      mov \register, qword ptr [rip + forms_state + \at]
    .endm
    .macro forms_save register:req, at:req
      mov qword ptr [rip + forms_state + \at], \register
    .endm
    .globl forms_run, forms_done, forms_ill, forms_fpe, forms_gp, forms_bus
    .hidden forms_run, forms_done, forms_ill, forms_fpe, forms_gp, forms_bus
  forms_run:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    forms_save rsp, 144
    mov qword ptr [rip + forms_state + 160], 0
    lea rdi, [rip + forms_state + 192]
    mov eax, dword ptr [rip + forms_state + 152]
    xor edx, edx
    xrstor64 [rdi]
    push qword ptr [rip + forms_state + 128]
    popfq
    forms_each forms_load
    jmp qword ptr [rip + forms_state + 136]
  forms_ill:
    mov qword ptr [rip + forms_state + 160], 1
    jmp forms_done
  forms_fpe:
    mov qword ptr [rip + forms_state + 160], 2
    jmp forms_done
  forms_gp:
    mov qword ptr [rip + forms_state + 160], 3
    jmp forms_done
  forms_bus:
    mov qword ptr [rip + forms_state + 160], 4
    jmp forms_done
  forms_done:
    forms_each forms_save
    forms_load rsp, 144
    pushfq
    pop qword ptr [rip + forms_state + 128]
    cld
    lea rdi, [rip + forms_state + 192]
    mov eax, dword ptr [rip + forms_state + 152]
    xor edx, edx
    xsave64 [rdi]
    fninit
    push 0x1F80
    ldmxcsr dword ptr [rsp]
    pop rax
    vzeroupper
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
    .popsection
"#
);

unsafe extern "C" {
    static mut forms_state: State;
    fn forms_run();
    fn forms_done();
    fn forms_ill();
    fn forms_fpe();
    fn forms_gp();
    fn forms_bus();
}

/// Components of the vector state that there are.
fn components() -> u64 {
    // SAFETY: programs may read which components the system uses, as it has AVX.
    let all = unsafe {
        let (low, high): (u32, u32);
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high);
        u64::from(high) << 32 | u64::from(low)
    };
    all & 0xE7
}

impl State {
    /// Something in every register.
    pub fn random(rng: &mut ChaCha8Rng) -> Self {
        let mut state = Self {
            registers: [0; 16],
            flags: rng.random::<u64>() & 0x8D5,
            target: 0,
            host: 0,
            mask: MASK.with(|mask| *mask),
            end: 0,
            address: 0,
            _pad: [0; 2],
            area: [0; AREA],
        };
        rng.fill(&mut state.registers);
        if rng.random_range(0..4) == 0 {
            // Small numbers: divisions come out then.
            let small = rng.random_range(0..100);
            state.registers[0] = small;
            state.registers[2] = 0;
        }
        rng.fill(&mut state.area);
        // Control word, status with the top of the stack only, tags, no pointers, MXCSR with all exceptions masked, or not.
        state.area[0..2].copy_from_slice(&0x037Fu16.to_le_bytes());
        let top: u16 = rng.random_range(0..8) << 11;
        state.area[2..4].copy_from_slice(&top.to_le_bytes());
        state.area[5..24].fill(0);
        let mxcsr: u32 = match rng.random_range(0..8) {
            // Not underflow: unmasked it is raised without a loss, too, which nobody sees while it is masked.
            0 => 0x1F80 & !(1 << [7, 8, 9, 10, 12][rng.random_range(0..5)]),
            _ => 0x1F80,
        };
        state.area[24..28].copy_from_slice(&mxcsr.to_le_bytes());
        state.area[28..32].fill(0);
        for register in 0..8 {
            let first = 32 + 16 * register;
            state.area[first + 10..first + 16].fill(0);
        }
        state.area[416..HEADER + 64].fill(0);
        state.area[HEADER..HEADER + 8].copy_from_slice(&state.mask.to_le_bytes());
        state
    }

    /// No exception of a vector instruction is raised.
    pub fn mask_exceptions(&mut self) {
        self.area[24..28].copy_from_slice(&0x1F80u32.to_le_bytes());
    }

    /// Sets a mask register.
    pub fn set_mask(&mut self, number: usize, value: u64) {
        if self.mask & 0x20 != 0 {
            let first = PLACES.with_borrow(|places| places[5].0) + 8 * number;
            self.area[first..first + 8].copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Leaves out what processors differ in when an exception ends an instruction: which others are noted beside it, and whether
    /// the x87 registers have become MMX registers by then.
    pub fn after_exception(&mut self) {
        self.area[24] = 0;
        self.area[0..24].fill(0);
        self.area[32..160].fill(0);
    }

    /// What is different; the place of the last x87 instruction and of its operand may be.
    pub fn differs(&self, other: &Self) -> Option<String> {
        if self.registers != other.registers {
            return Some(format!(
                "registers {:x?} and {:x?}",
                self.registers, other.registers
            ));
        }
        // Those that instructions set and look at.
        if (self.flags ^ other.flags) & 0xCD5 != 0 {
            return Some(format!("flags {:x} and {:x}", self.flags, other.flags));
        }
        let (mine, theirs) = (self.plain(), other.plain());
        let at = (0..AREA).find(|&at| mine[at] != theirs[at])?;
        Some(format!(
            "vector state at byte {at}: {:02x?} and {:02x?}",
            &mine[at..AREA.min(at + 16)],
            &theirs[at..AREA.min(at + 16)]
        ))
    }

    /// The vector state with initial parts written out.
    fn plain(&self) -> [u8; AREA] {
        let mut area = self.area;
        area[6..24].fill(0);
        let there = u64::from_le_bytes(area[HEADER..HEADER + 8].try_into().expect("8 bytes"));
        area[HEADER..HEADER + 64].fill(0);
        area[28..32].fill(0);
        area[464..HEADER].fill(0);
        if there & 1 == 0 {
            area[0..24].fill(0);
            area[32..160].fill(0);
        }
        if there & 2 == 0 {
            area[160..416].fill(0);
        }
        let mut known = [false; AREA];
        known[..HEADER].fill(true);
        for component in 2..8 {
            if self.mask >> component & 1 != 0 {
                let (first, bytes) = PLACES.with_borrow(|places| places[component]);
                known[first..first + bytes].fill(true);
                if there >> component & 1 == 0 {
                    area[first..first + bytes].fill(0);
                }
            }
        }
        for (byte, known) in area.iter_mut().zip(known) {
            if !known {
                *byte = 0;
            }
        }
        area
    }
}

thread_local! {
    static MASK: u64 = components();
    static PLACES: RefCell<[(usize, usize); 8]> = RefCell::new(std::array::from_fn(|component| {
        let place = std::arch::x86_64::__cpuid_count(0xD, component as u32);
        (place.ebx as usize, place.eax as usize)
    }));
    static BUFFERS: RefCell<(*mut u8, usize)> = const { RefCell::new((std::ptr::null_mut(), 0)) };
}

/// Bytes of code that are mapped at a time.
const CHUNK: usize = 1 << 16;
/// Bytes for an instruction.
const ROOM: usize = 32;

/// An instruction that can be run.
pub struct Code {
    at: *const u8,
}

impl Code {
    pub fn new(bytes: &[u8]) -> Self {
        assert!(bytes.len() <= 15);
        let at = BUFFERS.with_borrow_mut(|(first, used)| {
            if first.is_null() {
                // SAFETY: fresh memory.
                let memory = unsafe {
                    libc::mmap(
                        std::ptr::null_mut(),
                        CHUNK,
                        libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                        -1,
                        0,
                    )
                };
                assert_ne!(memory, libc::MAP_FAILED);
                *first = memory.cast();
            }
            // Used again and again: a form does not outlive the next thousand.
            *used = (*used + ROOM) % CHUNK;
            // SAFETY: inside of the chunk.
            unsafe { first.add(*used) }
        });
        let mut code = [0; ROOM];
        code[..bytes.len()].copy_from_slice(bytes);
        // jmp [rip], and where to.
        code[bytes.len()..bytes.len() + 6].copy_from_slice(&[0xFF, 0x25, 0, 0, 0, 0]);
        let done = (forms_done as *const () as u64).to_le_bytes();
        code[bytes.len() + 6..bytes.len() + 14].copy_from_slice(&done);
        // SAFETY: room for it, which nothing runs now.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at, ROOM) };
        Self { at }
    }

    /// Runs it.
    pub fn run(&self, state: &mut State) -> End {
        // The registers are kept in one place.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        state.target = self.at as u64;
        // SAFETY: one thread does so at a time; the code ends at `forms_done`, which restores what a function must.
        unsafe {
            let shared = &raw mut forms_state;
            std::ptr::copy_nonoverlapping(&raw const *state, shared, 1);
            forms_run();
            std::ptr::copy_nonoverlapping(shared, &raw mut *state, 1);
        }
        state.host = 0;
        state.address = ADDRESS.load(Ordering::Relaxed) as u64;
        state.target = 0;
        state.registers[4] = 0;
        match std::mem::take(&mut state.end) {
            0 => End::Done,
            1 => End::Illegal,
            2 => End::Arithmetic,
            3 => End::Protection,
            _ => End::Refused,
        }
    }
}

/// Address of the last signal.
static ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// Has signals end an instruction that [`Code::run`] runs. To be called before the first mapping is made.
///
/// Handlers are the process's, and its tests are threads of it: they are installed once, by whoever comes first, and the others wait
/// for that. Installed again they would take the place of the one that mappings have put before them, and until the next mapping
/// puts it back, accesses of the other threads would end here.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(install);
}

fn install() {
    extern "C" fn ended(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
        // SAFETY: the kernel's context.
        let at = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
        // SAFETY: a number. While another thread runs an instruction it is that one's, which is not where this thread is.
        let target = unsafe { (&raw const forms_state.target).read_volatile() };
        if !(target..target + ROOM as u64).contains(&(*at as u64)) {
            // No instruction that is run here: it faults again, and ends the process where it is.
            // SAFETY: an action of numbers, all of which may be 0.
            unsafe {
                let fresh: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const fresh, std::ptr::null_mut());
            }
            return;
        }
        let to: unsafe extern "C" fn() = match signal {
            libc::SIGILL => forms_ill,
            libc::SIGFPE => forms_fpe,
            libc::SIGBUS => forms_bus,
            _ => forms_gp,
        };
        // SAFETY: the kernel's.
        ADDRESS.store(unsafe { (*info).si_addr() } as usize, Ordering::Relaxed);
        *at = to as *const () as i64;
    }
    for signal in [libc::SIGILL, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: an action of numbers, and a handler for three arguments.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ended as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}
