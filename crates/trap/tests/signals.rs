// SPDX-License-Identifier: Apache-2.0
//! Threads, signals, forks and other people's handlers. Each test is a process of its own, as signals are the process's.
#![cfg(target_arch = "x86_64")]

mod elsewhere;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use elsewhere::Elsewhere;

/// Runs the rest of a test in a process of its own. `None`: this is that process.
fn apart(name: &str) -> Option<ExitStatus> {
    if std::env::var_os("IPNUMA_APART").is_some_and(|apart| apart == name) {
        return None;
    }
    let own = std::env::current_exe().expect("it has a name");
    let mut again = Command::new(own);
    let again = again.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    Some(again.env("IPNUMA_APART", name).status().expect("it starts"))
}

/// Has a handler for a signal, and says which was there.
fn handle(signal: i32, handler: usize, flags: i32) -> libc::sigaction {
    // SAFETY: an action of numbers, and a handler for three arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | flags;
        assert_eq!(
            libc::sigaction(signal, &raw const action, &raw mut before),
            0
        );
        before
    }
}

static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static TICKS: AtomicU64 = AtomicU64::new(0);

/// Stores to the mapping, wherever it interrupts a thread.
extern "C" fn tick(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: a word of the mapping.
    let word = unsafe { AtomicU64::from_ptr(BASE.load(Ordering::Relaxed).add(512).cast()) };
    word.fetch_add(1, Ordering::Relaxed);
    TICKS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn threads_under_a_storm_of_signals_count_right() {
    const NAME: &str = "threads_under_a_storm_of_signals_count_right";
    if let Some(ended) = apart(NAME) {
        assert!(ended.success(), "{ended}");
        return;
    }
    const THREADS: usize = 6;
    const ROUNDS: u64 = 4000;
    let there = Elsewhere::new();
    let mapping = there.whole();
    BASE.store(mapping.address(), Ordering::Relaxed);
    // One by the clock, and one as profilers have it.
    for (signal, timer) in [
        (libc::SIGALRM, libc::ITIMER_REAL),
        (libc::SIGPROF, libc::ITIMER_PROF),
    ] {
        handle(signal, tick as *const () as usize, 0);
        let often = libc::timeval {
            tv_sec: 0,
            tv_usec: 300,
        };
        let often = libc::itimerval {
            it_interval: often,
            it_value: often,
        };
        // SAFETY: the structure is there.
        unsafe { libc::setitimer(timer, &raw const often, std::ptr::null_mut()) };
    }
    let base = mapping.address() as usize;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                // SAFETY: words of the mapping, one of which is this thread's.
                let (own, shared) = unsafe {
                    (
                        (base as *mut u64).add(thread),
                        AtomicU64::from_ptr((base as *mut u64).add(32)),
                    )
                };
                for round in 1..=ROUNDS {
                    // SAFETY: as above.
                    unsafe {
                        own.write_volatile(round * 3);
                        assert_eq!(own.read_volatile(), round * 3);
                    }
                    shared.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let off = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
    };
    for timer in [libc::ITIMER_REAL, libc::ITIMER_PROF] {
        // SAFETY: as above.
        unsafe { libc::setitimer(timer, &raw const off, std::ptr::null_mut()) };
    }
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(there.word(256), THREADS as u64 * ROUNDS);
    assert_eq!(there.word(512), TICKS.load(Ordering::Relaxed));
    assert!(TICKS.load(Ordering::Relaxed) > 10);
}

static SEEN: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static OLD: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the page accessible that a fault is on.
extern "C" fn mend(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's.
    let address = unsafe { (*info).si_addr() } as usize;
    SEEN.store(address, Ordering::Relaxed);
    CALLS.fetch_add(1, Ordering::Relaxed);
    let page = (address & !4095) as *mut libc::c_void;
    // SAFETY: a page of this test's.
    unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) };
}

/// Calls the handler that it replaced.
extern "C" fn ask(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CALLS.fetch_add(100, Ordering::Relaxed);
    // SAFETY: stored before this was installed, and one for three arguments.
    unsafe {
        let old = &*OLD.load(Ordering::Acquire);
        let old: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            std::mem::transmute(old.sa_sigaction);
        old(signal, info, context);
    }
}

fn page() -> *mut u8 {
    // SAFETY: a fresh page.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    page.cast()
}

#[test]
fn faults_elsewhere_are_the_programs() {
    const NAME: &str = "faults_elsewhere_are_the_programs";
    if let Some(ended) = apart(NAME) {
        assert!(ended.success(), "{ended}");
        return;
    }
    handle(libc::SIGSEGV, mend as *const () as usize, 0);
    let there = Elsewhere::new();
    let mapping = there.whole();
    let store = |page: *mut u8| {
        // SAFETY: it faults, and is mended; then one to the mapping.
        unsafe {
            page.add(7).write_volatile(1);
            assert_eq!(page.add(7).read_volatile(), 1);
            mapping.address().write_volatile(9);
            assert_eq!(mapping.address().read_volatile(), 9);
        }
        assert_eq!(SEEN.load(Ordering::Relaxed), page as usize + 7);
    };
    store(page());
    assert_eq!(CALLS.swap(0, Ordering::Relaxed), 1);
    // One that comes later, and calls ours.
    let old = handle(libc::SIGSEGV, ask as *const () as usize, libc::SA_ONSTACK);
    OLD.store(Box::into_raw(Box::new(old)), Ordering::Release);
    store(page());
    assert_eq!(CALLS.swap(0, Ordering::Relaxed), 301);
    // Ours is put in front again, and neither calls the other for ever.
    let second = there.whole();
    store(page());
    assert_eq!(CALLS.swap(0, Ordering::Relaxed), 101);
    store(page());
    assert_eq!(CALLS.swap(0, Ordering::Relaxed), 101);
    drop(second);
    // A string whose other end is not there: the fault is that end's, also where the kernel has no call to copy by.
    let base = mapping.address() as usize;
    string_from_and_to_nowhere(base);
    elsewhere::denied(libc::ENOSYS, &elsewhere::COPIES, || {
        string_from_and_to_nowhere(base);
    });
}

fn string_from_and_to_nowhere(mapping: usize) {
    let mapping = mapping as *mut u64;
    for [source, target] in [[mapping, page().cast()], [page().cast(), mapping]] {
        // SAFETY: one of both is mended; the strings do not overlap.
        unsafe {
            mapping.write_volatile(0x0807_0605_0403_0201);
            std::arch::asm!("rep movsb", inout("rcx") 8usize => _, inout("rsi") source => _, inout("rdi") target => _);
            assert_eq!(target.read_volatile(), source.read_volatile());
        }
        let far = if source == mapping { target } else { source };
        assert_eq!(SEEN.load(Ordering::Relaxed), far as usize);
    }
}

#[test]
fn a_handler_for_one_fault_gets_one() {
    const NAME: &str = "a_handler_for_one_fault_gets_one";
    if let Some(ended) = apart(NAME) {
        assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{ended}");
        return;
    }
    handle(
        libc::SIGSEGV,
        mend as *const () as usize,
        libc::SA_RESETHAND,
    );
    let there = Elsewhere::new();
    let mapping = there.whole();
    // SAFETY: the first two are mended and in the mapping, the third ends the process.
    unsafe {
        page().write_volatile(1);
        mapping.address().write_volatile(9);
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        page().write_volatile(1);
    }
}

#[test]
fn without_a_handler_a_fault_elsewhere_ends_the_process() {
    const NAME: &str = "without_a_handler_a_fault_elsewhere_ends_the_process";
    if let Some(ended) = apart(NAME) {
        assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{ended}");
        return;
    }
    // Rust has one of its own.
    // SAFETY: the default action.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    let there = Elsewhere::new();
    let mapping = there.whole();
    // SAFETY: the first is in the mapping, the second ends the process.
    unsafe {
        mapping.address().write_volatile(9);
        page().write_volatile(1);
    }
}

extern "C" fn leave(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let mut sentence = [0; 256];
    let length = trap::last_fault(&mut sentence);
    let said = std::str::from_utf8(&sentence[..length]).unwrap_or("");
    // SAFETY: the kernel's.
    let right = unsafe { (*info).si_addr() } == BASE.load(Ordering::Relaxed).cast();
    // SAFETY: it ends the process.
    unsafe {
        libc::_exit(if right && said.contains("it is the parent's") {
            7
        } else {
            8
        })
    };
}

/// Runs in a child, and gives its exit status.
fn child(run: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does what is said here, and ends.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(run()),
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert!(libc::WIFEXITED(status), "{status:x}");
                libc::WEXITSTATUS(status)
            }
        }
    }
}

#[test]
fn a_child_has_no_use_of_the_parents_and_makes_its_own() {
    const NAME: &str = "a_child_has_no_use_of_the_parents_and_makes_its_own";
    if let Some(ended) = apart(NAME) {
        assert!(ended.success(), "{ended}");
        return;
    }
    let there = Elsewhere::new();
    let mapping = there.whole();
    BASE.store(mapping.address(), Ordering::Relaxed);
    // SAFETY: in the mapping, here and below.
    unsafe { mapping.address().write_volatile(1) };
    handle(libc::SIGBUS, leave as *const () as usize, 0);
    let refused = child(|| {
        // SAFETY: it is refused.
        unsafe { mapping.address().write_volatile(2) };
        0
    });
    assert_eq!(refused, 7);
    let own = child(|| {
        let there = Elsewhere::new();
        let mapping = there.whole();
        // SAFETY: as above.
        unsafe { mapping.address().write_volatile(3) };
        there.word(0) as i32
    });
    assert_eq!(own, 3);
    // SAFETY: as above.
    unsafe { mapping.address().add(1).write_volatile(4) };
    assert_eq!(there.word(0), 0x401);
}
