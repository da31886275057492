// SPDX-License-Identifier: Apache-2.0
//! The registers of a thread that was interrupted, as the kernel has laid them on the stack.

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, greg_t};

/// Where in the kernel's order the registers are, by their numbers.
const PLACES: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Carry, parity, adjust, zero, sign, direction and overflow: what instructions set and look at.
pub const FLAGS: u64 = 0xCD5;
/// The direction flag.
pub const DIRECTION: u64 = 0x400;

/// What marks a frame whose vector state has the layout of XSAVE.
const MAGIC: u32 = 0x4650_5853;
/// Where the marks are in it: magic, size of the whole, components, size of the state.
const MARKS: usize = 464;
/// Components that instructions of programs work with: x87, SSE, AVX, masks, and the two of AVX-512's registers.
const COMPONENTS: u64 = 0xE7;
/// Where MXCSR is.
const MXCSR: usize = 24;

/// The registers.
pub struct Context<'a>(&'a mut libc::ucontext_t);

impl<'a> Context<'a> {
    pub fn new(context: &'a mut libc::ucontext_t) -> Self {
        Self(context)
    }

    pub fn registers(&self) -> [u64; 16] {
        PLACES.map(|place| self.get(place))
    }

    pub fn set_registers(&mut self, registers: &[u64; 16]) {
        for (place, value) in PLACES.into_iter().zip(registers) {
            self.0.uc_mcontext.gregs[place as usize] = *value as greg_t;
        }
    }

    pub fn instruction(&self) -> u64 {
        self.get(libc::REG_RIP)
    }

    pub fn go_to(&mut self, address: u64) {
        self.0.uc_mcontext.gregs[libc::REG_RIP as usize] = address as greg_t;
    }

    pub fn flags(&self) -> u64 {
        self.get(libc::REG_EFL)
    }

    /// Sets those of [`FLAGS`].
    pub fn set_flags(&mut self, flags: u64) {
        let whole = self.flags() & !FLAGS | flags & FLAGS;
        self.0.uc_mcontext.gregs[libc::REG_EFL as usize] = whole as greg_t;
    }

    fn get(&self, place: c_int) -> u64 {
        self.0.uc_mcontext.gregs[place as usize] as u64
    }

    /// The vector state, and which components it has. `None`: it is not complete here.
    pub fn vectors(&mut self) -> Option<Vectors> {
        let area = self.0.uc_mcontext.fpregs.cast::<u8>();
        if area.is_null() || !(area as usize).is_multiple_of(64) {
            return None;
        }
        // SAFETY: the kernel's frame has 512 bytes there at least, and says at their end whether there are more.
        let (magic, components) = unsafe {
            (
                area.add(MARKS).cast::<u32>().read(),
                area.add(MARKS + 8).cast::<u64>().read(),
            )
        };
        (magic == MAGIC).then_some(Vectors {
            area,
            mask: components & COMPONENTS,
        })
    }

    /// Signals that are blocked outside of the handler.
    pub fn blocked(&mut self) -> &mut libc::sigset_t {
        &mut self.0.uc_sigmask
    }
}

/// Where the vector state is; valid as long as the context.
#[derive(Clone, Copy)]
pub struct Vectors {
    pub area: *mut u8,
    pub mask: u64,
}

impl Vectors {
    /// Bytes of the parts in `mask`: the layout is the processor's.
    pub fn bytes(self) -> usize {
        static KNOWN: AtomicUsize = AtomicUsize::new(0);
        // It takes long to ask the processor, and the answer is always the same.
        let known = KNOWN.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let mut most = 576;
        for component in 2..8 {
            if self.mask >> component & 1 != 0 {
                let place = std::arch::x86_64::__cpuid_count(0xD, component);
                most = most.max((place.ebx + place.eax) as usize);
            }
        }
        KNOWN.store(most, Ordering::Relaxed);
        most
    }

    pub fn mxcsr(self) -> u32 {
        // SAFETY: inside of the state, aligned.
        unsafe { self.area.add(MXCSR).cast::<u32>().read() }
    }

    /// Bits that MXCSR has.
    pub fn mxcsr_mask(self) -> u32 {
        // SAFETY: as above, behind it.
        match unsafe { self.area.add(MXCSR + 4).cast::<u32>().read() } {
            0 => 0xFFBF,
            mask => mask,
        }
    }

    pub fn set_mxcsr(self, value: u32) {
        // SAFETY: as above.
        unsafe { self.area.add(MXCSR).cast::<u32>().write(value) };
    }
}
