// SPDX-License-Identifier: Apache-2.0
//! The program's signal handlers, which run through the library.
//!
//! For two reasons. A handler may call the library, in the middle of whatever its thread was about: where that holds a
//! [latch](crate::latch) the handler would wait for its own thread for ever. So there it is put off until the last latch is let
//! go: the signal is blocked, sent again to the same thread with all that came along, and let in by [`leave`]. And a handler that
//! runs while a call spins has to end that call (EINTR) as one that runs in the kernel's sleep does: [`Watch`].
//!
//! Nobody pays for that but the handlers: a latch costs an addition, no system call.
//!
//! What a program installs behind the C library's back, or for the signals of faults, runs as it is.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

use libc::{c_int, c_void, siginfo_t, timespec};

use super::{cancel, entry};
use crate::epoll::SignalMask;
use crate::raw;
use crate::wait::FOR_EVER;

const SIGNALS: usize = 65;

/// The program's handlers, by signal; of those that run through here.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// Signals whose handler wants `SA_SIGINFO`.
static INFORMED: AtomicU64 = AtomicU64::new(0);
/// Signals whose handler is for one time (`SA_RESETHAND`). The kernel would take it away when the signal is put off.
static RESET: AtomicU64 = AtomicU64::new(0);
/// Signals whose handler has interrupted calls begin again (`SA_RESTART`).
static RESTARTING: AtomicU64 = AtomicU64::new(0);

/// Signals that are blocked around a sleep.
#[derive(Clone, Copy)]
struct Masks {
    /// In the program's thread.
    thread: u64,
    /// In the sleep (ppoll and its like), as the program passed it; null: the same.
    sleep: *const u8,
}

struct Here {
    /// Latches that the thread holds.
    held: Cell<u32>,
    /// Signals that wait until it holds none.
    put_off: Cell<u64>,
    /// The masks of the sleep in which one of them came, or the last: they are let in with its own, as the kernel has it.
    let_in_with: Cell<Option<Masks>>,
    /// Those of the sleep that the thread is in.
    sleeps_with: Cell<Option<Masks>>,
    /// The interrupted call is to begin again.
    again: Cell<bool>,
    /// Whether all handlers that came in this call want that; None: none came.
    restarts: Cell<Option<bool>>,
    /// Handlers that have run, or were put off.
    ran: Cell<u32>,
    /// The time limit of the sleep that the thread is about to begin.
    limit: Cell<*mut timespec>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            held: Cell::new(0),
            put_off: Cell::new(0),
            let_in_with: Cell::new(None),
            sleeps_with: Cell::new(None),
            again: Cell::new(false),
            restarts: Cell::new(None),
            ran: Cell::new(0),
            limit: Cell::new(ptr::null_mut()),
        }
    };
}

/// The thread is about to take a latch: no handler of the program runs until it [leaves](leave) the last.
#[inline]
pub fn enter() {
    HERE.with(|here| here.held.set(here.held.get().wrapping_add(1)));
    compiler_fence(Ordering::SeqCst);
}

/// It has let one go.
#[inline]
pub fn leave() {
    compiler_fence(Ordering::SeqCst);
    HERE.with(|here| {
        let held = here.held.get().wrapping_sub(1);
        here.held.set(held);
        compiler_fence(Ordering::SeqCst);
        if held == 0 && here.put_off.get() != 0 {
            let_in(here);
        }
    });
}

#[cold]
fn let_in(here: &Here) {
    // The handlers run before `change_mask` returns.
    let mask = here.put_off.replace(0);
    match here.let_in_with.take() {
        None => change_mask(libc::SIG_UNBLOCK, mask),
        Some(masks) => {
            if !masks.sleep.is_null() {
                // SAFETY: the kernel reads one word, or answers EFAULT.
                unsafe { mask_by(libc::SIG_SETMASK, masks.sleep) };
            }
            change_mask(libc::SIG_SETMASK, masks.thread);
        }
    }
}

/// Handlers that have run in this thread, or were put off.
pub(super) fn ran() -> u32 {
    HERE.with(|here| here.ran.get())
}

/// Nothing has interrupted the call that begins.
pub(super) fn begin_call() {
    HERE.with(|here| here.restarts.set(None));
}

/// Whether all handlers that interrupted the call want it to begin again; None if it was none that runs through here.
pub(super) fn all_restart() -> Option<bool> {
    HERE.with(|here| here.restarts.get())
}

/// Whether handlers wait for the end of the call.
pub(crate) fn are_put_off() -> bool {
    HERE.with(|here| here.put_off.get() != 0)
}

/// A sleep in the kernel that handlers end although they are put off, also those that were before it began: it has a signal mask.
#[derive(Debug)]
pub(crate) struct Masked {
    thread: u64,
    given: SignalMask,
}

impl Masked {
    /// With the program's mask for this call, or the thread's, without what is blocked for those that were put off. None: no
    /// handlers are put off, and they run as they come.
    pub(crate) fn begin(given: SignalMask) -> Option<Self> {
        HERE.with(|here| {
            if here.held.get() == 0 {
                return None;
            }
            let mut now = 0_u64;
            // SAFETY: the kernel writes one word.
            unsafe {
                raw::syscall(
                    libc::SYS_rt_sigprocmask as usize,
                    [libc::SIG_BLOCK as usize, 0, &raw mut now as usize, 8, 0, 0],
                )
            };
            let thread = now & !here.put_off.get();
            let sleep = given.0;
            here.sleeps_with.set(Some(Masks { thread, sleep }));
            Some(Self { thread, given })
        })
    }

    /// For the kernel.
    pub(crate) fn mask(&self) -> SignalMask {
        match self.given.0.is_null() {
            true => SignalMask(
                ptr::from_ref(&self.thread).cast(),
                size_of_val(&self.thread),
            ),
            false => self.given,
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        HERE.with(|here| here.sleeps_with.set(None));
    }
}

/// The interrupted call is to begin again. False: it holds nothing back, and can go on.
pub(super) fn begin_again() -> bool {
    HERE.with(|here| {
        let inside = here.held.get() > 0 || cancel::is_marked();
        here.again.set(inside);
        inside
    })
}

/// Whether [`begin_again`] was asked for. Asking forgets it.
pub(super) fn asked_to_begin_again() -> bool {
    HERE.with(|here| here.again.replace(false))
}

/// Makes a system call that may sleep in the kernel's own way, with nothing held: handlers run when they come, and may not return.
pub(crate) fn exposed<R>(call: impl FnOnce() -> R) -> R {
    struct Exposed(u32);
    impl Drop for Exposed {
        fn drop(&mut self) {
            compiler_fence(Ordering::SeqCst);
            HERE.with(|here| here.held.set(self.0));
        }
    }
    // Given back also when the thread is cancelled: what else it holds on the way out counts on it.
    let _exposed = Exposed(HERE.with(|here| {
        let held = here.held.replace(0);
        compiler_fence(Ordering::SeqCst);
        if here.put_off.get() != 0 {
            let_in(here);
        }
        held
    }));
    call()
}

fn change_mask(how: c_int, mask: u64) {
    // SAFETY: the kernel reads one word.
    unsafe { mask_by(how, (&raw const mask).cast()) };
}

/// # Safety
/// At `mask` is a word, or nothing that can be read.
unsafe fn mask_by(how: c_int, mask: *const u8) {
    // SAFETY: by the caller.
    unsafe {
        raw::syscall(
            libc::SYS_rt_sigprocmask as usize,
            [how as usize, mask as usize, 0, 8, 0, 0],
        )
    };
}

fn bit(signal: c_int) -> u64 {
    1 << ((signal - 1) & 63)
}

/// Runs in place of the program's handlers.
unsafe extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let runs = HERE.with(|here| {
        here.ran.set(here.ran.get().wrapping_add(1));
        let restarts = RESTARTING.load(Ordering::Relaxed) & bit(signal) != 0;
        let before = here.restarts.get().unwrap_or(true);
        here.restarts.set(Some(before && restarts));
        let limit = here.limit.get();
        if !limit.is_null() {
            // SAFETY: lent by `Watch::sleep` of this thread, which has not returned.
            unsafe {
                limit.write_volatile(timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                })
            };
            // It is over with that sleep. A handler that jumps leaves its place on the stack to others.
            here.limit.set(ptr::null_mut());
        }
        // SAFETY: what the kernel gave.
        here.held.get() == 0 || !unsafe { put_off(here, signal, info, context) }
    });
    let handler = HANDLERS[signal as usize % SIGNALS].load(Ordering::Acquire);
    if runs && RESET.load(Ordering::Relaxed) & bit(signal) != 0 {
        reset(signal);
    }
    if runs && handler > libc::SIG_IGN {
        // SAFETY: the program's handler; one that takes a number alone does not look at the rest.
        unsafe {
            let handler: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        }
    }
}

/// Takes a handler away that was for one time, as the kernel does: the flags stay.
fn reset(signal: c_int) {
    // The kernel's structure: handler, flags, and two words more.
    let mut action = [0_usize; 4];
    // SAFETY: the kernel writes the structure, or reads it.
    let call = |new: *const usize, old: *mut usize| unsafe {
        raw::syscall(
            libc::SYS_rt_sigaction as usize,
            [signal as usize, new as usize, old as usize, 8, 0, 0],
        )
    };
    call(ptr::null(), action.as_mut_ptr());
    action[0] = libc::SIG_DFL;
    action[1] |= libc::SA_RESETHAND as u32 as usize;
    if INFORMED.load(Ordering::Relaxed) & bit(signal) == 0 {
        action[1] &= !(libc::SA_SIGINFO as usize);
    }
    call(action.as_ptr(), ptr::null_mut());
}

/// Has the signal come again when it is let in. False: it can't be.
#[cold]
unsafe fn put_off(here: &Here, signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    let mask = bit(signal);
    // First: a handler with SA_NODEFER does not block its signal itself.
    change_mask(libc::SIG_BLOCK, mask);
    let process = rustix::process::getpid().as_raw_nonzero().get() as usize;
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as usize;
    // SAFETY: the kernel reads the structure that it wrote.
    let again = unsafe {
        raw::syscall(
            libc::SYS_rt_tgsigqueueinfo as usize,
            [process, thread, signal as usize, info as usize, 0, 0],
        )
    };
    if again != 0 {
        change_mask(libc::SIG_UNBLOCK, mask);
        return false;
    }
    // SAFETY: the kernel's structure, which it reads when the handler returns; the mask's first word is all there is.
    unsafe {
        let blocked = context
            .cast::<u8>()
            .add(offset_of!(libc::ucontext_t, uc_sigmask))
            .cast::<u64>();
        // With those that were put off above this one on the stack: they would come once more each time that one returns.
        *blocked |= mask | here.put_off.get();
    }
    here.put_off.set(here.put_off.get() | mask);
    if let Some(masks) = here.sleeps_with.get() {
        here.let_in_with.set(Some(masks));
    }
    true
}

/// Does something with handlers put off.
pub fn quietly<R>(what: impl FnOnce() -> R) -> R {
    let _quiet = Quiet::begin();
    what()
}

/// Puts handlers off as a latch does, for what a handler must not find half done, and the end of a thread that lets itself be
/// cancelled anywhere.
#[derive(Debug)]
pub struct Quiet {
    /// It does.
    asynchronous: bool,
}

impl Quiet {
    /// Until it is dropped.
    #[must_use]
    pub fn begin() -> Self {
        let asynchronous = cancel::protect();
        enter();
        Self { asynchronous }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        leave();
        if self.asynchronous {
            cancel::expose();
        }
    }
}

/// A call that is to be ended by a handler that runs meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Watch(u32);

impl Watch {
    /// From now on.
    #[inline]
    #[must_use]
    pub fn begin() -> Self {
        Self(HERE.with(|here| here.ran.get()))
    }

    /// Whether one has run, or waits for the call's end, or the thread was cancelled.
    #[inline]
    #[must_use]
    pub fn is_broken(self) -> bool {
        compiler_fence(Ordering::SeqCst);
        HERE.with(|here| here.ran.get() != self.0 || here.put_off.get() != 0) || cancel::is_marked()
    }

    /// Makes a system call that sleeps for at most `limit`, and for no time if a handler has run, also if that runs in the moment
    /// before the call begins. [`Duration::MAX`] is no limit, which is only so where time is simulated.
    pub fn sleep<R>(self, limit: Duration, call: impl FnOnce(*mut timespec) -> R) -> R {
        if limit == FOR_EVER {
            let mut none = timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            return match self.is_broken() {
                true => call(&raw mut none),
                false => call(ptr::null_mut()),
            };
        }
        let mut limit = timespec {
            tv_sec: limit.as_secs().min(1 << 30) as libc::time_t,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let limit = &mut limit;
        struct Lent(*mut timespec);
        impl Drop for Lent {
            fn drop(&mut self) {
                HERE.with(|here| here.limit.set(self.0));
            }
        }
        let limit = ptr::from_mut(limit);
        let _lent = Lent(HERE.with(|here| here.limit.replace(limit)));
        if self.is_broken() {
            // SAFETY: lent to this function.
            unsafe {
                limit.write_volatile(timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                })
            };
        }
        call(limit)
    }
}

/// Whether a handler of a signal can wait.
fn can_wait(signal: c_int) -> bool {
    let faults = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    (1..SIGNALS as c_int).contains(&signal) && !faults.contains(&signal)
}

/// sigaction(2) of the program. `next` is the C library's.
///
/// # Safety
/// As there.
pub unsafe fn action(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
    next: impl FnOnce(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
) -> c_int {
    // A child of vfork has the parent's memory, but handlers of its own.
    if !can_wait(signal) || crate::process::is_borrowed() {
        let result = next(signal, new, old);
        // SAFETY: by the caller.
        unsafe { as_installed(result, old, known(signal)) };
        return result;
    }
    let before = known(signal);
    // SAFETY: by the caller.
    let Some(wanted) = (!new.is_null()).then(|| unsafe { new.read_unaligned() }) else {
        let result = next(signal, new, old);
        // SAFETY: by the caller.
        unsafe { as_installed(result, old, before) };
        return result;
    };
    let mut mine = wanted;
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&wanted.sa_sigaction) {
        remember(signal, Known::of(&wanted));
        mine.sa_sigaction = handle as *const () as usize;
        entry::careful();
        mine.sa_flags |= libc::SA_SIGINFO;
        mine.sa_flags &= !libc::SA_RESETHAND;
    }
    let result = next(signal, &raw const mine, old);
    if result != 0 {
        remember(signal, before);
    }
    // SAFETY: by the caller.
    unsafe { as_installed(result, old, before) };
    result
}

/// What is known of a signal's handler.
#[derive(Clone, Copy)]
struct Known {
    handler: usize,
    /// The flags that the kernel does not have, or not only, and `SA_RESTART`.
    flags: c_int,
}

const FLAGS: [(c_int, &AtomicU64); 3] = [
    (libc::SA_SIGINFO, &INFORMED),
    (libc::SA_RESETHAND, &RESET),
    (libc::SA_RESTART, &RESTARTING),
];

impl Known {
    fn of(wanted: &libc::sigaction) -> Self {
        Self {
            handler: wanted.sa_sigaction,
            flags: wanted.sa_flags,
        }
    }
}

fn known(signal: c_int) -> Known {
    let has = |flag: &AtomicU64| flag.load(Ordering::Relaxed) & bit(signal.max(1)) != 0;
    Known {
        handler: HANDLERS[signal as usize % SIGNALS].load(Ordering::Acquire),
        flags: FLAGS
            .iter()
            .filter(|(_, signals)| has(signals))
            .fold(0, |all, (flag, _)| all | flag),
    }
}

fn remember(signal: c_int, known: Known) {
    for (flag, signals) in FLAGS {
        if known.flags & flag != 0 {
            signals.fetch_or(bit(signal), Ordering::Relaxed);
        } else {
            signals.fetch_and(!bit(signal), Ordering::Relaxed);
        }
    }
    HANDLERS[signal as usize % SIGNALS].store(known.handler, Ordering::Release);
}

/// Shows the program the handler that it installed.
unsafe fn as_installed(result: c_int, old: *mut libc::sigaction, known: Known) {
    if result != 0 || old.is_null() {
        return;
    }
    // SAFETY: by the caller.
    let mut shown = unsafe { old.read_unaligned() };
    if shown.sa_sigaction == handle as *const () as usize {
        shown.sa_sigaction = known.handler;
        shown.sa_flags |= known.flags & libc::SA_RESETHAND;
        if known.flags & libc::SA_SIGINFO == 0 {
            shown.sa_flags &= !libc::SA_SIGINFO;
        }
        // SAFETY: by the caller.
        unsafe { old.write_unaligned(shown) };
    }
}

/// signal(3) of the program, as `BSD` and Linux have it: with `SA_RESTART`. `next` is the C library's sigaction.
///
/// # Safety
/// As there.
pub unsafe fn set(
    signal: c_int,
    handler: usize,
    next: impl FnOnce(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
) -> usize {
    // SAFETY: zeros are a mask of no signals, and no flags.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    new.sa_sigaction = handler;
    new.sa_flags = libc::SA_RESTART;
    // SAFETY: by the caller.
    match unsafe { action(signal, &raw const new, &raw mut old, next) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}
