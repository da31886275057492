// SPDX-License-Identifier: Apache-2.0
//! Handlers of signals in the middle of the library.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use socket::latch::Latch;
use socket::signals::handlers::{self, Quiet, Watch};

/// Installs a handler as the program does.
fn install(signal: i32, handler: usize, flags: i32) {
    // SAFETY: zeros are an empty mask; the handlers are functions of this file.
    let result = unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        handlers::action(
            signal,
            &raw const new,
            std::ptr::null_mut(),
            |signal, new, old| libc::sigaction(signal, new, old),
        )
    };
    assert_eq!(result, 0);
}

fn send(thread: libc::pthread_t, signal: i32) {
    // SAFETY: the thread was not joined yet.
    assert_eq!(unsafe { libc::pthread_kill(thread, signal) }, 0);
}

fn myself() -> libc::pthread_t {
    // SAFETY: always.
    unsafe { libc::pthread_self() }
}

static TABLE: Latch<u32> = Latch::new(0);
static VALUE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn takes_the_latch(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // As close() does.
    *TABLE.lock() += 1;
    // SAFETY: the kernel's.
    VALUE.store(
        unsafe { (*info).si_value() }.sival_ptr as usize,
        Ordering::Relaxed,
    );
}

/// A handler that wants what its own thread holds waits until that is let go, and then gets all that came along.
#[test]
fn a_handler_does_not_wait_for_its_own_thread() {
    for flags in [0, libc::SA_NODEFER] {
        install(
            libc::SIGUSR1,
            takes_the_latch as *const () as usize,
            libc::SA_SIGINFO | flags,
        );
        let before = *TABLE.lock();
        let held = TABLE.lock();
        let quiet = Quiet::begin();
        let value = libc::sigval {
            sival_ptr: 77 as *mut libc::c_void,
        };
        // SAFETY: to this thread.
        assert_eq!(
            unsafe { libc::pthread_sigqueue(myself(), libc::SIGUSR1, value) },
            0
        );
        // It came, and was put off.
        assert_eq!(*held, before);
        drop(held);
        drop(quiet);
        assert_eq!(*TABLE.lock(), before + 1);
        assert_eq!(VALUE.swap(0, Ordering::Relaxed), 77);
        // Nothing is blocked, and nothing comes twice.
        send(myself(), libc::SIGUSR1);
        assert_eq!(*TABLE.lock(), before + 2);
    }
}

extern "C" fn nothing(_: i32) {}

/// The program sees what it has installed.
#[test]
fn the_program_sees_its_own_handlers() {
    install(
        libc::SIGWINCH,
        nothing as *const () as usize,
        libc::SA_RESTART,
    );
    // SAFETY: asks only.
    let old = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        let next = |signal, new, old| libc::sigaction(signal, new, old);
        assert_eq!(
            handlers::action(libc::SIGWINCH, std::ptr::null(), &raw mut old, next),
            0
        );
        old
    };
    assert_eq!(old.sa_sigaction, nothing as *const () as usize);
    assert_eq!(
        old.sa_flags & (libc::SA_SIGINFO | libc::SA_RESTART),
        libc::SA_RESTART
    );
    // SAFETY: as above.
    let before = unsafe {
        handlers::set(libc::SIGWINCH, libc::SIG_DFL, |signal, new, old| {
            libc::sigaction(signal, new, old)
        })
    };
    assert_eq!(before, nothing as *const () as usize);
}

/// A signal in the very moment before the sleep begins ends it.
#[test]
fn no_moment_is_too_early_to_end_a_sleep() {
    install(libc::SIGUSR2, nothing as *const () as usize, 0);
    let begun = Instant::now();
    let watch = Watch::begin();
    let result = watch.sleep(Duration::from_secs(20), |time| {
        send(myself(), libc::SIGUSR2);
        // SAFETY: nothing to wait for, and a time limit.
        unsafe { libc::ppoll(std::ptr::null_mut(), 0, time, std::ptr::null()) }
    });
    assert_eq!(result, 0);
    assert!(watch.is_broken());
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// A signal while poll spins ends the call.
#[test]
fn a_signal_while_a_call_spins_ends_it() {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::sync::Arc;

    use shm::channel::{Channel, End, flags};
    use socket::object::Object;
    use socket::stream::Stream;
    use socket::table;

    // Longer than the test.
    socket::wait::configure(60_000_000, false);
    install(libc::SIGUSR2, nothing as *const () as usize, 0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let twin = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _server = listener.accept().unwrap();
    let channel = Arc::new(Channel::create(64).unwrap().0);
    for half in 0..2 {
        let word = channel.flags(half);
        word.fetch_or(flags::ATTACHED, Ordering::AcqRel);
    }
    let stream = Stream::new(End::new(channel, 0), 0, 0, true, None);
    let (description, _) = table::install(twin.as_raw_fd(), Object::Stream(stream));
    let description = description.unwrap();
    let stream = description.object().stream().unwrap();
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let target = myself() as usize;
        let over = &over;
        scope.spawn(move || {
            // The first may come before the call.
            while !over.load(Ordering::Relaxed) {
                send(target as libc::pthread_t, libc::SIGUSR2);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut byte = [0; 1];
        let part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        };
        // SAFETY: the part is writable.
        let got = unsafe { stream.receive(twin.as_raw_fd(), &description, &[part], 0) };
        over.store(true, Ordering::Relaxed);
        assert_eq!(got, Err(rustix::io::Errno::INTR));
    });
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    table::remove(twin.as_raw_fd());
}
