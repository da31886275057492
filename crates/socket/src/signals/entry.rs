// SPDX-License-Identifier: Apache-2.0
//! The program's way into the library and out of it.
//!
//! A handler may leave by siglongjmp, and a cancelled thread by unwinding: nothing of what a call holds (a count, a lock in shared
//! memory, a mark that somebody sleeps) would be given back. So handlers are put off for a whole call, not only for its latches. A
//! call that sleeps or spins is ended by them, gives all back, and begins again here when they have run, as the kernel's call
//! does (SA_RESTART). A cancelled thread ends here, too.
//!
//! A program that has neither handlers nor cancels threads pays a load and a branch.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use super::{cancel, handlers};

static CAREFUL: AtomicBool = AtomicBool::new(false);

/// From now on calls can be left in the middle.
pub(crate) fn careful() {
    CAREFUL.store(true, Ordering::Relaxed);
}

/// A call that the program makes; it is made again after an interruption that it is to survive, so it must have done nothing if
/// it says that it was interrupted.
#[inline(always)]
pub fn whole<T>(mut call: impl FnMut() -> Option<Result<T, Errno>>) -> Option<Result<T, Errno>> {
    let mut turn = CAREFUL.load(Ordering::Relaxed).then(Turn::first);
    loop {
        // In one place only, so that it is no function of its own.
        let result = call();
        let interrupted = matches!(result, Some(Err(Errno::INTR)));
        let again = match turn.take() {
            None => interrupted && is_meant_for_us(),
            Some(turn) => turn.end(interrupted),
        };
        if !again {
            return result;
        }
        turn = Some(Turn::begin());
    }
}

/// Whether a call that began before anybody was careful was interrupted to be cancelled, or to begin again.
#[cold]
fn is_meant_for_us() -> bool {
    let again = handlers::asked_to_begin_again();
    cancel::test() || again
}

/// A call from its beginning on, in which handlers are put off.
struct Turn {
    quiet: handlers::Quiet,
    /// Handlers that had run before.
    before: u32,
}

impl Turn {
    #[inline(never)]
    fn first() -> Self {
        cancel::test();
        Self::begin()
    }

    #[cold]
    fn begin() -> Self {
        let before = handlers::ran();
        handlers::begin_call();
        let quiet = handlers::Quiet::begin();
        Self { quiet, before }
    }

    /// Lets in the handlers that were put off, as the call holds nothing any more. True: it is to begin again.
    #[inline(never)]
    fn end(self, interrupted: bool) -> bool {
        let again = handlers::asked_to_begin_again();
        drop(self.quiet);
        if !interrupted {
            return false;
        }
        let called = cancel::test();
        let alone = called && self.before == handlers::ran();
        again || alone
    }
}
