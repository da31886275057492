// SPDX-License-Identifier: Apache-2.0
//! String instructions: the only ones with two operands, either of which may be ordinary memory.

use crate::access::{Failed, Space};
use crate::context::{Context, DIRECTION, FLAGS};
use crate::decode::{Repeat, Text};
use crate::local;

/// Numbers of the registers that they use.
const RAX: usize = 0;
const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;
/// Bytes that are moved at once.
const CHUNK: usize = local::MOST;

/// A string instruction as it was met.
#[derive(Clone, Copy)]
pub struct Met {
    pub text: Text,
    pub width: usize,
    pub repeat: Repeat,
    pub narrow: bool,
    /// Base of the source's segment.
    pub segment: u64,
}

impl Met {
    /// Goes on from `value` by `count` elements.
    fn step(&self, value: &mut u64, count: u64, back: bool) {
        let by = count * self.width as u64;
        let next = match back {
            true => value.wrapping_sub(by),
            false => value.wrapping_add(by),
        };
        self.put(value, next);
    }

    fn put(&self, value: &mut u64, next: u64) {
        *value = match self.narrow {
            true => next & u64::from(u32::MAX),
            false => next,
        };
    }

    fn cut(&self, value: u64) -> u64 {
        match self.narrow {
            true => value & u64::from(u32::MAX),
            false => value,
        }
    }

    /// Elements that are moved or filled at once, from this address on.
    fn at_once(&self, left: u64, back: bool, addresses: &[u64]) -> usize {
        if back {
            return 1;
        }
        let page = |address: &u64| 4096 - (*address as usize) % 4096;
        let room = addresses.iter().map(page).min().unwrap_or(CHUNK).min(CHUNK);
        (room / self.width).clamp(1, usize::try_from(left).unwrap_or(usize::MAX))
    }
}

/// Carries it out. Registers are as far as it has come, also if it fails.
pub fn run(
    met: Met,
    space: &mut Space,
    registers: &mut [u64; 16],
    context: &mut Context<'_>,
) -> Result<(), Failed> {
    let back = context.flags() & DIRECTION != 0;
    let repeated = met.repeat != Repeat::Once;
    let mut buffer = [0; CHUNK];
    loop {
        let left = match repeated {
            true => met.cut(registers[RCX]),
            false => 1,
        };
        if left == 0 {
            return Ok(());
        }
        let source = met.cut(registers[RSI]).wrapping_add(met.segment);
        let target = met.cut(registers[RDI]);
        let count = match met.text {
            Text::Move if space.both_trap(source, target) => 1,
            Text::Move => met.at_once(left, back, &[source, target]),
            Text::Fill => met.at_once(left, back, &[target]),
            _ => 1,
        };
        let bytes = &mut buffer[..count * met.width];
        let mut end = false;
        match met.text {
            Text::Move => {
                space.read(source, bytes)?;
                space.write(target, bytes)?;
            }
            Text::Fill => {
                let value = registers[RAX].to_le_bytes();
                for element in bytes.chunks_exact_mut(met.width) {
                    element.copy_from_slice(&value[..met.width]);
                }
                space.write(target, bytes)?;
            }
            Text::Take => {
                space.read(source, bytes)?;
                let mut value = match met.width {
                    // A store to 32 bits of a register clears the others.
                    4 | 8 => [0; 8],
                    _ => registers[RAX].to_le_bytes(),
                };
                value[..met.width].copy_from_slice(bytes);
                registers[RAX] = u64::from_le_bytes(value);
            }
            Text::Compare | Text::Search => {
                let mut first = registers[RAX].to_le_bytes();
                if met.text == Text::Compare {
                    space.read(source, bytes)?;
                    first[..met.width].copy_from_slice(bytes);
                }
                space.read(target, bytes)?;
                let mut second = [0; 8];
                second[..met.width].copy_from_slice(bytes);
                let flags = compared(
                    u64::from_le_bytes(first),
                    u64::from_le_bytes(second),
                    met.width,
                );
                context.set_flags(context.flags() & DIRECTION | flags & !DIRECTION);
                let equal = flags & 0x40 != 0;
                end = equal != (met.repeat == Repeat::Equal);
            }
        }
        let count = count as u64;
        if matches!(met.text, Text::Move | Text::Take | Text::Compare) {
            met.step(&mut registers[RSI], count, back);
        }
        if met.text != Text::Take {
            met.step(&mut registers[RDI], count, back);
        }
        if !repeated {
            return Ok(());
        }
        met.put(&mut registers[RCX], left - count);
        if end {
            return Ok(());
        }
    }
}

/// What CMP sets.
fn compared(first: u64, second: u64, width: usize) -> u64 {
    // The highest bytes decide, and AF is of the lowest four bits: shifted up, the flags but AF and PF are right; those come from
    // the lowest byte.
    let up = 64 - 8 * width as u32;
    let (flags, low): (u64, u64);
    // SAFETY: it compares, and reads the flags by the stack, as is allowed without `nostack`.
    unsafe {
        std::arch::asm!(
            "cmp {a}, {b}",
            "pushfq",
            "pop {flags}",
            "cmp {c:l}, {d:l}",
            "pushfq",
            "pop {low}",
            a = in(reg) first << up,
            b = in(reg) second << up,
            c = in(reg) first,
            d = in(reg) second,
            flags = out(reg) flags,
            low = out(reg) low,
        );
    }
    const LOW: u64 = 0x14;
    (flags & !LOW | low & LOW) & FLAGS
}
