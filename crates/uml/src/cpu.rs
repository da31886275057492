// SPDX-License-Identifier: Apache-2.0
//! One processor of the host for a rack and its guests: only one of them runs at any time, and handing over to a process on
//! the same processor costs a quarter of waking another processor.

use std::io;
use std::marker::PhantomData;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// While it lives, the thread that made it stays on one processor. Dropping it lets the thread go where it could before.
#[derive(Debug)]
pub struct OneCpu {
    before: CpuSet,
    /// It is about the thread that it was made in.
    thread: PhantomData<*const ()>,
}

impl OneCpu {
    /// Keeps this thread, and the guests that it starts from now on, on the processor that it is on. Results are the same
    /// without; they take several times longer.
    pub fn here() -> io::Result<OneCpu> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        only.set(sched_getcpu());
        sched_setaffinity(None, &only)?;
        Ok(OneCpu {
            before,
            thread: PhantomData,
        })
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        // If that is refused the thread stays where it is: slower, and nothing worse.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_on_one_processor_and_is_let_go() {
        let count = || sched_getaffinity(None).unwrap().count();
        let before = count();
        let one = OneCpu::here().unwrap();
        assert_eq!(count(), 1);
        drop(one);
        assert_eq!(count(), before);
    }
}
