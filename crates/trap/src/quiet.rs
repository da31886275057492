// SPDX-License-Identifier: Apache-2.0
//! A thread whose signals wait.

use std::mem::MaybeUninit;

/// While it lives, the calling thread runs no signal handlers but those of its own mistakes. What a trapped access may want is
/// held only meanwhile.
#[derive(Debug)]
pub struct Quiet {
    before: libc::sigset_t,
    /// It is the thread's.
    _here: std::marker::PhantomData<*const ()>,
}

/// All signals but those that an instruction brings about.
pub(crate) fn waiting() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes all of the set, the others change it.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for signal in [
            libc::SIGSEGV,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGBUS,
        ] {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

impl Quiet {
    /// From now on.
    #[must_use]
    pub fn begin() -> Self {
        let all = waiting();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both are sets; with a valid `how` the call cannot fail, and then fills `before`.
        let before = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, before.as_mut_ptr());
            before.assume_init()
        };
        Self {
            before,
            _here: std::marker::PhantomData,
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: the set is what the system gave.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            );
        }
    }
}

/// Number of the calling thread.
#[must_use]
pub fn thread() -> u32 {
    // SAFETY: it only asks.
    unsafe { libc::gettid() }.unsigned_abs()
}
