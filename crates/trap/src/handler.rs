// SPDX-License-Identifier: Apache-2.0
//! The handler of SIGSEGV: which faults are ours, and whose the others are.

use std::arch::asm;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, sigaction, siginfo_t, ucontext_t};

use crate::access::{self, Failed, Why};
use crate::cell::Pool;
use crate::context::Context;
use crate::fault::{self, Sentence};
use crate::quiet::thread;
use crate::table::{self, Entry};

/// The cells of the process that has made them.
struct Made {
    pool: Pool,
    process: u32,
}

static MADE: AtomicPtr<Made> = AtomicPtr::new(std::ptr::null_mut());
/// What was there before, the newest first.
static BEFORE: AtomicPtr<Before> = AtomicPtr::new(std::ptr::null_mut());
static INSTALLING: Mutex<()> = Mutex::new(());

/// A handler that ours has replaced.
struct Before {
    action: sigaction,
    /// It was for one signal only, which has come.
    spent: AtomicBool,
    older: *mut Before,
}

impl Before {
    /// Whom the next signal is for.
    fn take(&self) -> usize {
        let once = self.action.sa_flags & libc::SA_RESETHAND != 0;
        match once && self.spent.swap(true, Ordering::Relaxed) {
            true => libc::SIG_DFL,
            false => self.action.sa_sigaction,
        }
    }
}

/// Has the handler in place, and cells for it.
///
/// # Errors
/// If memory can't be executed, or the system refuses the handler.
pub fn install() -> io::Result<()> {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    // SAFETY: NULL, or made below and never freed.
    let made = unsafe { MADE.load(Ordering::Acquire).as_ref() };
    if made.is_none_or(|made| made.process != process) {
        let pool = Pool::new()?;
        // The handler of another thread may be in the old one, which only a fork replaces.
        MADE.store(
            Box::into_raw(Box::new(Made { pool, process })),
            Ordering::Release,
        );
    }
    let mut now = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: it only asks, and there is room for the answer.
    if unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), now.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the call.
    let now = unsafe { now.assume_init() };
    let ours = entry as *const () as usize;
    if now.sa_sigaction == ours {
        return Ok(());
    }
    let older = BEFORE.load(Ordering::Acquire);
    let before = Box::new(Before {
        action: now,
        spent: AtomicBool::new(false),
        older,
    });
    BEFORE.store(Box::into_raw(before), Ordering::Release);
    // SAFETY: a structure of numbers, all of which may be 0.
    let mut action: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = ours;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: a set of our own; then an action whose handler is one for three arguments.
    let done = unsafe {
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut())
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What `on_stack` hands over.
struct Work<'a> {
    entry: &'a Entry,
    address: usize,
    context: *mut ucontext_t,
    done: Result<(), Failed>,
}

/// The handler. Signals are blocked; it is on the thread's alternative stack, if it has one.
unsafe extern "C" fn entry(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's arguments.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let ours = (code == SEGV_ACCERR)
        .then(|| table::find(address))
        .flatten();
    let Some(entry) = ours else {
        // SAFETY: as they came.
        unsafe { pass_on(signal, info, context.cast()) };
        return;
    };
    // SAFETY: every thread has one.
    let error = unsafe { *libc::__errno_location() };
    // SAFETY: NULL, or made by `install` and never freed.
    let made = unsafe { MADE.load(Ordering::Acquire).as_ref() };
    let own = std::process::id();
    let done = match made {
        Some(made) if made.process == own && entry.process == own => {
            let mut work = Work {
                entry,
                address,
                context: context.cast(),
                done: Ok(()),
            };
            let mut taken = made.pool.take();
            // SAFETY: the stack is the cell's, which is this thread's until `taken` goes.
            unsafe { on_stack(taken.cell().stack(), carry_out, (&mut work, taken.cell())) };
            drop(taken);
            work.done
        }
        _ => Err(Failed::refused(entry, address, 0, false, Why::Forked)),
    };
    if let Err(failed) = done {
        // SAFETY: the kernel's context.
        tell(&failed, &mut Context::new(unsafe { &mut *context.cast() }));
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

const SEGV_ACCERR: c_int = 2;
const SEGV_MAPERR: c_int = 1;
const BUS_ADRERR: c_int = 2;
const SI_KERNEL: c_int = 0x80;

/// Runs on a cell's stack: alternative stacks may be small.
extern "C" fn carry_out(work: *mut Work<'_>, cell: *mut crate::cell::Cell) {
    // SAFETY: both are `entry`'s, and nobody else's meanwhile; the context is the kernel's.
    let (work, cell) = unsafe { (&mut *work, &mut *cell) };
    // SAFETY: as above.
    let mut context = Context::new(unsafe { &mut *work.context });
    work.done = access::carry_out(cell, &mut context, work.entry, work.address);
}

/// Calls a function with another stack.
///
/// # Safety
/// `top` must be the end of a stack that nobody uses.
unsafe fn on_stack<A, B>(
    top: *mut u8,
    call: extern "C" fn(*mut A, *mut B),
    (a, b): (&mut A, &mut B),
) {
    // SAFETY: the function's arguments, and a stack as it must be: aligned, with room for the return address.
    unsafe {
        asm!(
            "xchg rsp, r12",
            "call {call}",
            "mov rsp, r12",
            call = in(reg) call,
            inout("r12") top => _,
            in("rdi") &raw mut *a,
            in("rsi") &raw mut *b,
            clobber_abi("sysv64"),
        );
    }
}

/// Has the thread get the signal for what was not carried out, at the instruction, when the handler returns.
fn tell(failed: &Failed, context: &mut Context<'_>) {
    let (signal, code, address) = match *failed {
        Failed::Refused { address, .. } | Failed::NoCopies { address } => {
            (libc::SIGBUS, BUS_ADRERR, address)
        }
        Failed::Protected => (libc::SIGSEGV, SI_KERNEL, 0),
        Failed::Elsewhere { address } => (libc::SIGSEGV, SEGV_MAPERR, address),
        Failed::Arithmetic { code } => (libc::SIGFPE, code, context.instruction() as usize),
    };
    if signal == libc::SIGBUS {
        let mut sentence = Sentence::new();
        failed.say(&mut sentence);
        fault::keep(thread(), &sentence);
        if dies(signal) {
            for part in [b"libipnuma: ", sentence.bytes(), b"\n"] {
                // SAFETY: the bytes are there. Where nobody reads them, nobody does.
                unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
            }
        }
    }
    // As the kernel does with signals that instructions bring about: they can't be blocked or ignored.
    // SAFETY: calls for a signal's own set and action, with structures of our own.
    unsafe {
        let mut now = MaybeUninit::<sigaction>::zeroed();
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        let ignored = now.assume_init().sa_sigaction == libc::SIG_IGN;
        let blocked = libc::sigismember(context.blocked(), signal) == 1;
        if ignored || blocked {
            let fresh = MaybeUninit::<sigaction>::zeroed();
            libc::sigaction(signal, fresh.as_ptr(), std::ptr::null_mut());
            libc::sigdelset(context.blocked(), signal);
        }
    }
    send(signal, code, address);
}

/// Whether a signal ends the process.
fn dies(signal: c_int) -> bool {
    let mut now = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: it only asks; zeroed, it is valid even if it fails.
    let now = unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    matches!(now.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// Sends the thread a signal as the kernel would.
fn send(signal: c_int, code: c_int, address: usize) {
    #[repr(C)]
    struct Info {
        signal: c_int,
        error: c_int,
        code: c_int,
        _pad: c_int,
        address: usize,
        _rest: [u64; 13],
    }
    const _: () = assert!(size_of::<Info>() == size_of::<siginfo_t>());
    let info = Info {
        signal,
        error: 0,
        code,
        _pad: 0,
        address,
        _rest: [0; 13],
    };
    // SAFETY: the structure has the size and the layout that the call reads.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            libc::gettid(),
            signal,
            &raw const info,
        )
    };
}

/// Contexts that are being passed on, and how deep the stack was.
static PASSED: [(AtomicUsize, AtomicUsize); 16] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 16];

/// The handler that ours has replaced, or the one before that, if that one has called ours again for the same fault.
fn replaced(context: usize) -> *mut Before {
    let here = 0u8;
    let depth = (&raw const here) as usize;
    let (seen, deep) = &PASSED[context / 64 % PASSED.len()];
    let newest = BEFORE.load(Ordering::Acquire);
    if seen.load(Ordering::Relaxed) == context && depth < deep.load(Ordering::Relaxed) {
        // SAFETY: entries are never freed.
        if let Some(older) = unsafe { newest.as_ref() }.map(|before| before.older)
            && !older.is_null()
        {
            return older;
        }
    }
    seen.store(context, Ordering::Relaxed);
    deep.store(depth, Ordering::Relaxed);
    newest
}

/// A fault that is not ours goes where it would have gone.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    // SAFETY: never freed, and there is one: ours was installed after it.
    let Some(before) = (unsafe { replaced(context as usize).as_ref() }) else {
        return;
    };
    let action = &before.action;
    // SAFETY: the kernel's.
    let sent = unsafe { (*info).si_code } <= 0;
    match before.take() {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: an action of numbers. The instruction faults again, and the kernel does the rest; what was sent is sent again.
            unsafe {
                let fresh = MaybeUninit::<sigaction>::zeroed();
                libc::sigaction(signal, fresh.as_ptr(), std::ptr::null_mut());
                if sent {
                    libc::syscall(
                        libc::SYS_rt_tgsigqueueinfo,
                        libc::getpid(),
                        libc::gettid(),
                        signal,
                        info,
                    );
                }
            }
        }
        handler => {
            // SAFETY: signals as that handler would have them blocked; then the handler, which is one for as many arguments as
            // its flags say.
            unsafe {
                let mut set = (*context).uc_sigmask;
                for other in 1..=64 {
                    if libc::sigismember(&raw const action.sa_mask, other) == 1 {
                        libc::sigaddset(&raw mut set, other);
                    }
                }
                if action.sa_flags & libc::SA_NODEFER == 0 {
                    libc::sigaddset(&raw mut set, signal);
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut ucontext_t) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}
