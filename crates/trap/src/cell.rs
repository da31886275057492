// SPDX-License-Identifier: Apache-2.0
//! Where copies of instructions run: cells of code, data and a stack, one for each thread that is inside the handler.

use std::arch::x86_64::__cpuid;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use iced_x86::InstructionInfoFactory;

use crate::context::{Context, FLAGS, Vectors};
use crate::decode::{self, Copy, Kind, LONGEST, Plan, Unable};
use crate::table::PAGE;
use crate::template::{self, CODE, COUNT, Data, Entries, SLOTS, STRIDE};

/// Cells of a process.
pub const CELLS: usize = 64;
/// Bytes of a cell's stack.
const STACK: usize = 128 * 1024;
/// Bytes of its data.
const DATA: usize = size_of::<Data>().next_multiple_of(PAGE);
/// Bytes that are kept of a vector state.
const STATE: usize = 4096;
/// All exceptions of SSE are masked.
const MASKED: u32 = 0x1F80;
/// The flags of those that have occurred.
const OCCURRED: u32 = 0x3F;
/// Those that are raised before anything is computed.
const OF_OPERANDS: u32 = 0x7;

/// An instruction, and what to do for it.
struct Known {
    bytes: [u8; LONGEST],
    plan: Option<Plan>,
}

/// A cell.
pub struct Cell {
    /// Code, with the data behind it.
    code: *mut u8,
    /// The same code, where it can be written.
    writable: *mut u8,
    stack: *mut u8,
    entries: Entries,
    known: Box<[Known]>,
    factory: InstructionInfoFactory,
    /// A vector state that is kept: what a copy ran with.
    state: Box<[u64]>,
    /// What a copy runs with that may raise an exception.
    spare: Box<[u64]>,
}

/// What a copy has raised.
pub enum Raised {
    /// A floating-point exception that the program has not masked. Vector registers are as before.
    Exception,
}

impl Cell {
    fn new(entries: Entries) -> io::Result<Self> {
        let whole = CODE + DATA + PAGE + STACK;
        let base = map(std::ptr::null_mut(), whole, libc::PROT_NONE, 0, -1)?;
        let writable = match code(base) {
            Ok(writable) => writable,
            // Where memory by descriptor may not be executed, there may be the other kind.
            Err(_) => {
                let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
                map(base, CODE, all, libc::MAP_FIXED | libc::MAP_ANONYMOUS, -1)?
            }
        };
        let (read, fixed) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_FIXED | libc::MAP_ANONYMOUS,
        );
        let behind = |bytes: usize| {
            // SAFETY: inside of what was reserved.
            unsafe { base.add(bytes) }
        };
        map(behind(CODE), DATA, read, fixed, -1)?;
        // A page without access stays below the stack.
        map(behind(CODE + DATA + PAGE), STACK, read, fixed, -1)?;
        let template = template::bytes();
        assert!(template.len() <= SLOTS, "the slots are behind the template");
        // SAFETY: `CODE` bytes are mapped there, which nobody runs yet.
        unsafe { std::ptr::copy_nonoverlapping(template.as_ptr(), writable, template.len()) };
        let known = (0..COUNT).map(|_| Known {
            bytes: [0; LONGEST],
            plan: None,
        });
        Ok(Self {
            code: base,
            writable,
            stack: behind(whole),
            entries,
            known: known.collect(),
            factory: InstructionInfoFactory::new(),
            state: vec![0; STATE / 8].into(),
            spare: vec![0; STATE / 8].into(),
        })
    }

    /// The end of its stack.
    pub fn stack(&self) -> *mut u8 {
        self.stack
    }

    /// What it works with.
    pub fn data(&mut self) -> &mut Data {
        // SAFETY: mapped for as long as the process lives, and only reached through the cell. All bytes are valid.
        unsafe { &mut *self.code.add(CODE).cast::<Data>() }
    }

    /// The plan for an instruction, and the slot with its copy. `bytes` are those that can be read there.
    pub fn plan(&mut self, bytes: &[u8], at: u64) -> Result<(Plan, usize), Unable> {
        let hash = bytes.iter().take(8).fold(0x811C_9DC5u32, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        let slot = (hash ^ hash >> 15) as usize % COUNT;
        let known = &self.known[slot];
        if let Some(plan) = known.plan {
            let length = usize::from(plan.length);
            // An address relative to the instruction pointer would be another one elsewhere.
            if length <= bytes.len() && known.bytes[..length] == bytes[..length] {
                return Ok((plan, slot));
            }
        }
        let plan = decode::plan(bytes, at, &mut self.factory)?;
        self.known[slot].plan = None;
        if let Kind::Copy(copy) = &plan.kind {
            self.place(slot, copy);
            if !plan.address.relative {
                let length = usize::from(plan.length);
                self.known[slot].bytes[..length].copy_from_slice(&bytes[..length]);
                self.known[slot].plan = Some(plan);
            }
        }
        Ok((plan, slot))
    }

    /// Puts a copy into a slot.
    fn place(&mut self, slot: usize, copy: &Copy) {
        let first = SLOTS + slot * STRIDE;
        let length = usize::from(copy.length);
        let mut bytes = [0xCC; STRIDE];
        bytes[..length].copy_from_slice(&copy.bytes[..length]);
        let end = first + length;
        if let Some(place) = copy.place {
            let place = usize::from(place);
            let operand = CODE + std::mem::offset_of!(Data, scratch);
            let distance = (operand - end) as u32;
            bytes[place..place + 4].copy_from_slice(&distance.to_le_bytes());
        }
        let done = match copy.vector {
            true => self.entries.vector_done,
            false => self.entries.plain_done,
        };
        bytes[length] = 0xE9;
        let distance = (done as u32).wrapping_sub((end + 5) as u32);
        bytes[length + 1..length + 5].copy_from_slice(&distance.to_le_bytes());
        // SAFETY: the slot is inside of the cell's code, and the thread that has the cell is here and not there.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.writable.add(first), STRIDE);
        }
        // The processor may have fetched ahead what was there before, and does not see that it was written elsewhere: it is
        // made to begin anew.
        let _ = __cpuid(0);
    }

    /// Runs the copy in a slot with the registers of a thread, and leaves in them what comes out.
    pub fn run(
        &mut self,
        slot: usize,
        copy: &Copy,
        registers: &mut [u64; 16],
        context: &mut Context<'_>,
        vectors: Option<Vectors>,
    ) -> Result<(), Raised> {
        let entry = match copy.vector {
            true => self.entries.vector,
            false => self.entries.plain,
        };
        let target = self.code as u64 + (SLOTS + slot * STRIDE) as u64;
        let code = self.code;
        let flags = context.flags();
        if let Some(vectors) = vectors
            && vectors.mxcsr() & MASKED != MASKED
        {
            keep(vectors, &mut self.spare);
        }
        let data = self.data();
        data.registers = *registers;
        data.flags = flags & FLAGS;
        data.target = target;
        let mut control = MASKED;
        if let Some(vectors) = vectors {
            data.area = vectors.area as u64;
            data.mask = vectors.mask;
            data.wide = u16::from(vectors.mask & 4 != 0);
            control = vectors.mxcsr();
            data.run_mxcsr = match copy.mxcsr {
                true => control,
                false => control | MASKED,
            };
        }
        if let Some(pointer) = copy.pointer {
            let scratch = (&raw const data.scratch) as u64;
            let index = match pointer {
                3 => data.registers[0] & 0xFF,
                _ => 0,
            };
            data.registers[usize::from(pointer)] = scratch.wrapping_sub(index);
        }
        if let Some((bits, inside)) = copy.bits {
            data.registers[usize::from(bits)] &= u64::from(inside);
        }
        // SAFETY: the entry is code of the template, a function without arguments; it keeps what a function must keep. The slot
        // holds a copy that reads and writes the scratch memory, or the operand's register points to it, and jumps back.
        unsafe {
            let entry: extern "C" fn() = std::mem::transmute(code.add(entry));
            entry();
        }
        let data = self.data();
        let (after, flags, mut out) = (data.after_mxcsr, data.flags, data.registers);
        if let Some(vectors) = vectors {
            let raised = after & OCCURRED & !(control & OCCURRED);
            let unmasked = !(control >> 7) & OCCURRED;
            if copy.mxcsr {
                vectors.set_mxcsr(after);
            } else {
                if raised & unmasked != 0 {
                    // The results are not written, and what they would have been does not count if the operands are the reason.
                    let before = raised & unmasked & OF_OPERANDS != 0;
                    let raised = if before { raised & OF_OPERANDS } else { raised };
                    let count = vectors.bytes().min(STATE);
                    // SAFETY: as when it was kept.
                    unsafe {
                        let from = self.spare.as_ptr().cast();
                        std::ptr::copy_nonoverlapping(from, vectors.area, count);
                    }
                    vectors.set_mxcsr(control | raised);
                    return Err(Raised::Exception);
                }
                vectors.set_mxcsr(control | after & OCCURRED);
            }
        }
        let bits = copy.bits.map(|(bits, _)| bits);
        let kept = [copy.pointer, bits].into_iter().flatten();
        let kept = kept.map(|register| (usize::from(register), registers[usize::from(register)]));
        for (register, value) in kept {
            out[register] = value;
        }
        *registers = out;
        context.set_flags(flags);
        Ok(())
    }

    /// Keeps the vector state as it is.
    pub fn keep_state(&mut self, vectors: Vectors) {
        keep(vectors, &mut self.state);
    }

    /// Puts the state back, and keeps what is there instead.
    pub fn swap_state(&mut self, vectors: Vectors) {
        let count = vectors.bytes().min(STATE);
        // SAFETY: as above; they do not overlap.
        unsafe {
            std::ptr::swap_nonoverlapping(vectors.area, self.state.as_mut_ptr().cast(), count);
        }
    }

    /// Whether the state is the one that is kept.
    pub fn same_state(&self, vectors: Vectors) -> bool {
        let count = vectors.bytes().min(STATE);
        // SAFETY: as above.
        let (now, kept) = unsafe {
            (
                std::slice::from_raw_parts(vectors.area, count),
                std::slice::from_raw_parts(self.state.as_ptr().cast::<u8>(), count),
            )
        };
        now == kept
    }
}

fn keep(vectors: Vectors, into: &mut [u64]) {
    let count = vectors.bytes().min(8 * into.len());
    // SAFETY: the state has that many bytes, and there is room for them.
    unsafe { std::ptr::copy_nonoverlapping(vectors.area, into.as_mut_ptr().cast(), count) };
}

fn map(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32) -> io::Result<*mut u8> {
    let flags = match (fd, flags) {
        (-1, flags) => flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        (_, flags) => flags | libc::MAP_SHARED,
    };
    // SAFETY: fresh addresses, or those that the caller has reserved.
    let base = unsafe { libc::mmap(at.cast(), bytes, protection, flags, fd, 0) };
    match base {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        base => Ok(base.cast()),
    }
}

/// Memory for code at `at`, which is not writable there; where it is.
fn code(at: *mut u8) -> io::Result<*mut u8> {
    // SAFETY: a name and a flag.
    let fd = unsafe { libc::memfd_create(c"ipnuma-trap".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: it is a descriptor of ours.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), CODE as i64) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (read, fd) = (libc::PROT_READ, fd.as_raw_fd());
    let writable = map(std::ptr::null_mut(), CODE, read | libc::PROT_WRITE, 0, fd)?;
    match map(at, CODE, read | libc::PROT_EXEC, libc::MAP_FIXED, fd) {
        Ok(_) => Ok(writable),
        Err(error) => {
            // SAFETY: mapped above.
            unsafe { libc::munmap(writable.cast(), CODE) };
            Err(error)
        }
    }
}

/// The cells of a process.
pub struct Pool {
    /// A bit for each that is free.
    free: AtomicU64,
    cells: Box<[UnsafeCell<Cell>]>,
}

// SAFETY: a cell is only reached by who has taken its bit.
unsafe impl Sync for Pool {}
// SAFETY: nothing in it is a thread's own.
unsafe impl Send for Pool {}

impl Pool {
    /// Makes all cells.
    ///
    /// # Errors
    /// If there is no memory that can be executed.
    pub fn new() -> io::Result<Self> {
        // The first decoding would do so in the handler, which may have interrupted malloc().
        decode::build_tables();
        let entries = template::entries();
        let cells = (0..CELLS).map(|_| Cell::new(entries).map(UnsafeCell::new));
        Ok(Self {
            free: AtomicU64::new(u64::MAX >> (64 - CELLS)),
            cells: cells.collect::<io::Result<_>>()?,
        })
    }

    /// A cell: the first that is free, since it knows most. Only with signals blocked, so that whoever has one always gives it
    /// back.
    pub fn take(&self) -> Taken<'_> {
        loop {
            let free = self.free.load(Ordering::Relaxed);
            let Some(first) = free.checked_sub(1).map(|_| free.trailing_zeros()) else {
                std::thread::yield_now();
                continue;
            };
            let bit = 1 << first;
            if self.free.fetch_and(!bit, Ordering::Acquire) & bit != 0 {
                return Taken {
                    pool: self,
                    number: first as usize,
                };
            }
        }
    }
}

/// A cell that is the caller's.
pub struct Taken<'a> {
    pool: &'a Pool,
    number: usize,
}

impl Taken<'_> {
    pub fn cell(&mut self) -> &mut Cell {
        // SAFETY: its bit was taken, and is given back when `self` goes.
        unsafe { &mut *self.pool.cells[self.number].get() }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.pool.free.fetch_or(1 << self.number, Ordering::Release);
    }
}
