// SPDX-License-Identifier: Apache-2.0
//! What signals mean for calls that wait: restart, and SIGPIPE; and the handlers.

pub mod cancel;
pub mod entry;
pub mod handlers;

use crate::raw;

/// What the kernel's `rt_sigaction` fills in.
#[repr(C)]
#[derive(Clone, Copy)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// Whether a wait that a signal interrupted is to be taken up again: yes if every handler wants that (SA_RESTART).
///
/// Which signals these were is known of handlers that run [through the library](handlers). Of others it can't be told; a program that
/// mixes both kinds gets EINTR then, which it must expect anyway.
#[cold]
pub fn restart() -> bool {
    if let Some(all) = handlers::all_restart() {
        return all;
    }
    (1..=64_i32).all(|signal| {
        let mut action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: asks only; the kernel writes one structure of this layout.
        let result = unsafe {
            raw::syscall(libc::SYS_rt_sigaction as usize, [signal as usize, 0, &raw mut action as usize, 8, 0, 0])
        };
        result != 0
            || action.handler == libc::SIG_DFL
            || action.handler == libc::SIG_IGN
            // The C library's own (thread cancellation, setuid), and faults, which interrupt no wait.
            || matches!(signal, 32 | 33 | libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP | libc::SIGSYS)
            || action.flags & libc::SA_RESTART as usize != 0
    })
}

/// Whether a wait that a signal interrupted goes on where it is: not if the call is [whole](entry::whole), which begins again.
#[cold]
pub(crate) fn goes_on() -> bool {
    restart() && !handlers::begin_again()
}

/// Sends SIGPIPE to the calling thread, as a write to a closed connection does: to a handler it is from the process itself.
#[cold]
pub fn pipe() {
    /// A signal from a process, as the kernel lays it out.
    #[repr(C)]
    struct Info {
        signal: i32,
        error: i32,
        code: i32,
        _gap: i32,
        process: i32,
        user: u32,
        _rest: [u8; 104],
    }
    let info = Info {
        signal: libc::SIGPIPE,
        error: 0,
        code: libc::SI_USER,
        _gap: 0,
        process: rustix::process::getpid().as_raw_nonzero().get(),
        user: rustix::process::getuid().as_raw(),
        _rest: [0; 104],
    };
    let process = info.process as usize;
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as usize;
    let signal = libc::SIGPIPE as usize;
    let at = &raw const info as usize;
    // SAFETY: a signal to the calling thread, with what the kernel reads of it.
    let sent = unsafe {
        raw::call(
            libc::SYS_rt_tgsigqueueinfo,
            [process, thread, signal, at, 0, 0],
        )
    };
    if sent.is_err() {
        // SAFETY: a signal to the calling thread.
        unsafe {
            raw::syscall(
                libc::SYS_tgkill as usize,
                [process, thread, signal, 0, 0, 0],
            )
        };
    }
}
