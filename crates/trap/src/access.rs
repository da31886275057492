// SPDX-License-Identifier: Apache-2.0
//! Carries one trapped instruction out.

use std::fmt::Write;

use crate::Refused;
use crate::cell::{Cell, Raised};
use crate::context::{Context, Vectors};
use crate::decode::{Copy, Kind, LONGEST, Plan, Segment, Unable, Use};
use crate::fault::Sentence;
use crate::local;
use crate::table::{self, Entry, PAGE};
use crate::template::OPERAND;
use crate::text::{self, Met};

/// A division by zero, or whose quotient has no room.
const FPE_INTDIV: i32 = 1;
/// A floating-point exception that is not masked.
const FPE_FLTINV: i32 = 7;

/// Why an instruction was not carried out.
#[derive(Clone, Copy, Debug)]
pub enum Failed {
    /// Its access to a range was refused.
    Refused {
        address: usize,
        /// Offset in the range, bytes, and whether they were to be stored.
        offset: isize,
        bytes: usize,
        stores: bool,
        why: Why,
    },
    /// Its other operand, in ordinary memory, cannot be accessed.
    Elsewhere { address: usize },
    /// The kernel copies nothing from or to its other operand, in ordinary memory.
    NoCopies { address: usize },
    /// It loads what the processor protects itself from.
    Protected,
    /// It raises an arithmetic exception, of this code.
    Arithmetic { code: i32 },
}

/// Why an access to a range was refused.
#[derive(Clone, Copy, Debug)]
pub enum Why {
    /// Beyond its end, or before its begin; it has so many bytes.
    Beyond(usize),
    /// The mapping gives no right to it.
    NoRight,
    /// By whose memory it is.
    Remote(Refused),
    /// The instruction is none that can be carried out.
    Unable(Unable),
    /// The vector registers are not all in the signal's frame.
    NoVectors,
    /// The mapping is another process's.
    Forked,
}

impl Failed {
    /// The sentence.
    pub fn say(&self, sentence: &mut Sentence) {
        if let Failed::NoCopies { .. } = self {
            let _ = sentence.write_str(
                "a string instruction between a mapped window and ordinary memory: this process may call neither process_vm_readv \
                 nor pipe2, or has no descriptors left: load and store by plain moves",
            );
            return;
        }
        let Failed::Refused {
            offset,
            bytes,
            stores,
            why,
            ..
        } = self
        else {
            return;
        };
        let what = match stores {
            true => "store",
            false => "load",
        };
        // A sentence takes what it has room for.
        let _ = match why {
            Why::Unable(_) | Why::NoVectors | Why::Forked => {
                write!(
                    sentence,
                    "an access at offset {offset} of a mapped window: "
                )
            }
            _ => write!(
                sentence,
                "a {what} of {bytes} bytes at offset {offset} of a mapped window: "
            ),
        };
        let _ = match why {
            Why::Beyond(size) => write!(sentence, "it has {size} bytes"),
            Why::NoRight => write!(sentence, "the token gives no right to it"),
            Why::Remote(refused) => sentence.write_str(refused.why()),
            Why::Unable(unable) => sentence.write_str(unable.why()),
            Why::NoVectors => sentence.write_str(
                "this kernel does not show the vector registers: load and store by plain moves",
            ),
            Why::Forked => {
                sentence.write_str("it is the parent's: open a device and connect in this process")
            }
        };
    }

    pub fn refused(entry: &Entry, address: usize, bytes: usize, stores: bool, why: Why) -> Self {
        Failed::Refused {
            address,
            offset: address.wrapping_sub(entry.range.start) as isize,
            bytes,
            stores,
            why,
        }
    }
}

/// The range that some bytes touch.
fn touched(address: u64, bytes: usize) -> Option<&'static Entry> {
    let first = address as usize;
    table::find(first).or_else(|| table::find(first.wrapping_add(bytes.max(1) - 1)))
}

/// Checks bounds and rights.
fn check(entry: &Entry, address: u64, bytes: usize, uses: Use) -> Result<(), Failed> {
    let first = address as usize;
    let stores = uses != Use::Load;
    let refuse = |why| Err(Failed::refused(entry, first, bytes, stores, why));
    if first < entry.range.start || bytes > entry.range.end.saturating_sub(first) {
        return refuse(Why::Beyond(entry.range.len()));
    }
    rights(entry, first, bytes, uses)
}

fn rights(entry: &Entry, first: usize, bytes: usize, uses: Use) -> Result<(), Failed> {
    let allowed =
        (uses == Use::Store || entry.shape.readable) && (uses == Use::Load || entry.shape.writable);
    match allowed {
        true => Ok(()),
        false => {
            let stores = uses == Use::Store || entry.shape.readable;
            Err(Failed::refused(entry, first, bytes, stores, Why::NoRight))
        }
    }
}

fn load(entry: &Entry, address: u64, into: &mut [u8]) -> Result<(), Failed> {
    let (first, bytes) = (address as usize, into.len());
    let done = entry.drain().and_then(|()| entry.load(first, into));
    done.map_err(|why| Failed::refused(entry, first, bytes, false, Why::Remote(why)))
}

fn store(entry: &Entry, address: u64, bytes: &[u8]) -> Result<(), Failed> {
    let first = address as usize;
    let turn = entry.turn();
    entry
        .store(&turn, first, bytes)
        .map_err(|why| Failed::refused(entry, first, bytes.len(), true, Why::Remote(why)))
}

/// All memory, as string instructions see it.
pub struct Space;

impl Space {
    /// Whether both operands are in ranges: then they may overlap.
    pub fn both_trap(&self, source: u64, target: u64) -> bool {
        touched(source, 8).is_some() && touched(target, 8).is_some()
    }

    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Failed> {
        match touched(address, into.len()) {
            Some(entry) => {
                check(entry, address, into.len(), Use::Load)?;
                load(entry, address, into)
            }
            None => local::read(address, into).map_err(|failed| elsewhere(address, failed)),
        }
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failed> {
        match touched(address, bytes.len()) {
            Some(entry) => {
                check(entry, address, bytes.len(), Use::Store)?;
                store(entry, address, bytes)
            }
            None => local::write(address, bytes).map_err(|failed| elsewhere(address, failed)),
        }
    }
}

/// A copy that the kernel has not made of ordinary memory.
fn elsewhere(address: u64, failed: local::Failed) -> Failed {
    match failed {
        local::Failed::Address => Failed::Elsewhere {
            address: address as usize,
        },
        local::Failed::NoCopies => Failed::NoCopies {
            address: address as usize,
        },
    }
}

/// The base of a segment.
fn base(segment: Option<Segment>) -> u64 {
    const GET_FS: i32 = 0x1003;
    const GET_GS: i32 = 0x1004;
    let call = match segment {
        None => return 0,
        Some(Segment::Fs) => GET_FS,
        Some(Segment::Gs) => GET_GS,
    };
    let mut base = 0u64;
    // SAFETY: the call writes 8 bytes.
    unsafe { libc::syscall(libc::SYS_arch_prctl, call, &raw mut base) };
    base
}

/// The plan for the instruction that a thread stands at.
fn plan(cell: &mut Cell, at: u64) -> Result<(Plan, usize), Unable> {
    let fetched = |count: usize| {
        // SAFETY: the processor has fetched an instruction from there; the bytes are on its page, or belong to it.
        unsafe { std::slice::from_raw_parts(at as *const u8, count) }
    };
    let page = PAGE - at as usize % PAGE;
    match cell.plan(fetched(page.min(LONGEST)), at) {
        Err(Unable::Short) if page < LONGEST => cell.plan(fetched(LONGEST), at),
        plan => plan,
    }
}

/// Carries out the instruction that a thread has faulted at, on an address of `entry`.
pub fn carry_out(
    cell: &mut Cell,
    context: &mut Context<'_>,
    entry: &Entry,
    fault: usize,
) -> Result<(), Failed> {
    let at = context.instruction();
    let unable = |unable| Failed::refused(entry, fault, 0, false, Why::Unable(unable));
    let (plan, slot) = plan(cell, at).map_err(unable)?;
    let mut registers = context.registers();
    let segment = base(plan.address.segment);
    match plan.kind {
        Kind::Skip => {}
        Kind::Text {
            text,
            width,
            repeat,
            narrow,
        } => {
            let met = Met {
                text,
                width: width.into(),
                repeat,
                narrow,
                segment,
            };
            let done = text::run(met, &mut Space, &mut registers, context);
            // It stops in its middle, if it must, as it does on the processor.
            context.set_registers(&registers);
            done?;
        }
        Kind::Copy(copy) => {
            let mut address = plan.address.of(&registers).wrapping_add(segment);
            if let Some((bits, _)) = copy.bits {
                let count = registers[usize::from(bits)];
                address = address.wrapping_add(beyond(count, plan.bytes));
            }
            let Some(entry) = touched(address, plan.bytes.into()) else {
                return Err(unable(Unable::Unknown));
            };
            let vectors = match copy.vector {
                false => None,
                true => Some(
                    context
                        .vectors()
                        .ok_or_else(|| Failed::refused(entry, fault, 0, false, Why::NoVectors))?,
                ),
            };
            let mut met = Operand {
                entry,
                address,
                plan: &plan,
                copy: &copy,
                slot,
                vectors,
            };
            met.carry_out(cell, context, &mut registers)?;
            context.set_registers(&registers);
        }
    }
    context.go_to(at.wrapping_add(plan.length.into()));
    Ok(())
}

/// How far from the operand the word is that has bit number `count` of a string of bits.
fn beyond(count: u64, bytes: u16) -> u64 {
    let (count, shift) = match bytes {
        2 => (i64::from(count as i16), 4),
        4 => (i64::from(count as i32), 5),
        _ => (count as i64, 6),
    };
    ((count >> shift) * i64::from(bytes)) as u64
}

/// An instruction with an operand in a range.
struct Operand<'a> {
    entry: &'a Entry,
    address: u64,
    plan: &'a Plan,
    copy: &'a Copy,
    slot: usize,
    vectors: Option<Vectors>,
}

impl Operand<'_> {
    fn bytes(&self) -> usize {
        self.plan.bytes.into()
    }

    fn carry_out(
        &mut self,
        cell: &mut Cell,
        context: &mut Context<'_>,
        registers: &mut [u64; 16],
    ) -> Result<(), Failed> {
        let (bytes, uses) = (self.bytes(), self.plan.uses);
        let inside = check(self.entry, self.address, bytes, uses);
        match (self.plan.partly, uses) {
            (true, Use::Store) => {
                rights(self.entry, self.address as usize, bytes, uses)?;
                return self.store_parts(cell, context, registers);
            }
            (true, Use::Load) if inside.is_err() => {
                rights(self.entry, self.address as usize, bytes, uses)?;
                return self.load_parts(cell, context, registers);
            }
            _ => inside?,
        }
        match uses {
            Use::Load => {
                load(self.entry, self.address, &mut cell.data().scratch[..bytes])?;
                self.divide(cell, registers)?;
                self.protected(cell)?;
                self.run(cell, context, registers)
            }
            Use::Store => {
                if let Some(vectors) = self.vectors {
                    cell.keep_state(vectors);
                }
                let before = *registers;
                self.run(cell, context, registers)?;
                let stored = store(self.entry, self.address, &cell.data().scratch[..bytes]);
                if stored.is_err() {
                    *registers = before;
                    if let Some(vectors) = self.vectors {
                        cell.swap_state(vectors);
                    }
                }
                stored
            }
            Use::Both | Use::Exchange => self.change(cell, context, registers),
        }
    }

    fn run(
        &self,
        cell: &mut Cell,
        context: &mut Context<'_>,
        registers: &mut [u64; 16],
    ) -> Result<(), Failed> {
        cell.run(self.slot, self.copy, registers, context, self.vectors)
            .map_err(|Raised::Exception| Failed::Arithmetic { code: FPE_FLTINV })
    }

    /// Load, then store; no thread of this process stores in between.
    fn change(
        &self,
        cell: &mut Cell,
        context: &mut Context<'_>,
        registers: &mut [u64; 16],
    ) -> Result<(), Failed> {
        let (first, bytes) = (self.address as usize, self.bytes());
        let failed = |why| Failed::refused(self.entry, first, bytes, true, Why::Remote(why));
        let turn = self.entry.turn();
        self.entry.drain_with(&turn).map_err(failed)?;
        let mut before = [0; 16];
        let data = cell.data();
        self.entry
            .load(first, &mut data.scratch[..bytes])
            .map_err(failed)?;
        before[..bytes.min(16)].copy_from_slice(&data.scratch[..bytes.min(16)]);
        let (kept, flags) = (*registers, context.flags());
        self.run(cell, context, registers)?;
        let data = cell.data();
        if self.plan.uses == Use::Exchange
            && before[..bytes.min(16)] == data.scratch[..bytes.min(16)]
        {
            return Ok(());
        }
        let stored = self.entry.store(&turn, first, &data.scratch[..bytes]);
        let stored = stored.and_then(|()| self.entry.drain_with(&turn));
        stored.map_err(|why| {
            *registers = kept;
            context.set_flags(flags);
            failed(why)
        })
    }

    /// Where the range is in the operand.
    fn within(&self) -> std::ops::Range<usize> {
        let (first, bytes) = (self.address as usize, self.bytes());
        let range = &self.entry.range;
        let begin = range.start.saturating_sub(first).min(bytes);
        let end = range.end.saturating_sub(first).min(bytes);
        begin..end.max(begin)
    }

    fn beyond(&self) -> Failed {
        let why = Why::Beyond(self.entry.range.len());
        let stores = self.plan.uses != Use::Load;
        Failed::refused(self.entry, self.address as usize, self.bytes(), stores, why)
    }

    /// A store by a mask: which bytes it stores is seen by what two runs leave of two fillings.
    fn store_parts(
        &self,
        cell: &mut Cell,
        context: &mut Context<'_>,
        registers: &mut [u64; 16],
    ) -> Result<(), Failed> {
        let bytes = self.bytes();
        let kept = *registers;
        if let Some(vectors) = self.vectors {
            cell.keep_state(vectors);
        }
        cell.data().scratch[..bytes].fill(0);
        self.run(cell, context, registers)?;
        if let Some(vectors) = self.vectors {
            cell.swap_state(vectors);
        }
        let data = cell.data();
        data.before = data.scratch;
        data.scratch[..bytes].fill(0xFF);
        *registers = kept;
        self.run(cell, context, registers)?;
        let data = cell.data();
        let stored = |at: usize| data.scratch[at] == data.before[at];
        let within = self.within();
        if (0..bytes).any(|at| stored(at) && !within.contains(&at)) {
            return Err(self.beyond());
        }
        let mut at = 0;
        while at < bytes {
            let count = (at..bytes).take_while(|&at| stored(at)).count();
            if count > 0 {
                let part = &data.scratch[at..at + count];
                store(self.entry, self.address + at as u64, part)?;
            }
            at += count.max(1);
        }
        Ok(())
    }

    /// A load by a mask that reaches beyond the range: what is there must not matter.
    fn load_parts(
        &self,
        cell: &mut Cell,
        context: &mut Context<'_>,
        registers: &mut [u64; 16],
    ) -> Result<(), Failed> {
        let bytes = self.bytes();
        let within = self.within();
        let mut there = [0; OPERAND];
        if !within.is_empty() {
            let first = self.address + within.start as u64;
            load(self.entry, first, &mut there[within.clone()])?;
        }
        let (kept, flags) = (*registers, context.flags());
        if let Some(vectors) = self.vectors {
            cell.keep_state(vectors);
        }
        cell.data().scratch[..bytes].copy_from_slice(&there[..bytes]);
        self.run(cell, context, registers)?;
        let first = (*registers, context.flags());
        // From the same state again, with something else beyond.
        if let Some(vectors) = self.vectors {
            cell.swap_state(vectors);
        }
        let data = cell.data();
        data.scratch[..bytes].fill(0xFF);
        data.scratch[within.clone()].copy_from_slice(&there[within]);
        *registers = kept;
        context.set_flags(flags);
        self.run(cell, context, registers)?;
        let same = self.vectors.is_none_or(|vectors| cell.same_state(vectors));
        match same && first == (*registers, context.flags()) {
            true => Ok(()),
            false => Err(self.beyond()),
        }
    }

    /// MXCSR with bits that there are not is not tried.
    fn protected(&self, cell: &mut Cell) -> Result<(), Failed> {
        let Some(vectors) = self.vectors.filter(|_| self.copy.mxcsr) else {
            return Ok(());
        };
        let [a, b, c, d, ..] = cell.data().scratch;
        match u32::from_le_bytes([a, b, c, d]) & !vectors.mxcsr_mask() {
            0 => Ok(()),
            _ => Err(Failed::Protected),
        }
    }

    /// A division that cannot be done is not tried.
    fn divide(&self, cell: &mut Cell, registers: &[u64; 16]) -> Result<(), Failed> {
        let Some(signed) = self.copy.divides else {
            return Ok(());
        };
        let bytes = self.bytes();
        let bits = 8 * bytes as u32;
        let mut by = [0; 8];
        by[..bytes].copy_from_slice(&cell.data().scratch[..bytes]);
        let by = u64::from_le_bytes(by);
        let mask = u64::MAX >> (64 - bits);
        let (low, high) = match bytes {
            1 => (registers[0] & 0xFF, registers[0] >> 8 & 0xFF),
            _ => (registers[0] & mask, registers[2] & mask),
        };
        let whole = u128::from(high) << bits | u128::from(low);
        let possible = match signed {
            false => by != 0 && whole / u128::from(by) <= u128::from(mask),
            true => {
                let up = 128 - 2 * bits;
                let whole = (whole << up) as i128 >> up;
                let by = i128::from((by << (64 - bits)) as i64 >> (64 - bits));
                let most = i128::from(mask >> 1);
                by != 0
                    && whole
                        .checked_div(by)
                        .is_some_and(|quotient| (-most - 1..=most).contains(&quotient))
            }
        };
        match possible {
            true => Ok(()),
            false => Err(Failed::Arithmetic { code: FPE_INTDIV }),
        }
    }
}
