// SPDX-License-Identifier: Apache-2.0
//! The seat of each end: whether it has come to the channel, or its peer has given it up. Once, and one of the two.
//!
//! The seat is two bits of the end's flags. Its owner takes it (`ATTACHED`), its peer gives it up (`ABANDONED`), both by an
//! exchange that succeeds only while the seat is free. All that may be written into a twin follows from it:
//!
//! - a bell, only by an end whose own seat and whose peer's are taken. Both have the connection in their tables then, and
//!   take bytes of the twin for bells, as long as it lives;
//! - data, only by an end whose own seat was given up, or that has given up its peer's. Neither end is a ring's any more, or ever becomes
//!   one, so both take bytes of the twin for data.
//!
//! No seat is ever left, so no bell can meet a reader of data, however late a process is between two of these steps.

use std::sync::atomic::{AtomicU32, Ordering};

use shm::channel::flags::ABANDONED;
use shm::channel::seat;

/// The owner comes to its channel. False: it was given up, and uses the kernel.
pub(crate) fn take(flags: &AtomicU32) -> bool {
    decide(flags, seat::take)
}

/// The peer waits for the owner no longer. False: the owner has come.
pub(super) fn give_up(flags: &AtomicU32) -> bool {
    decide(flags, seat::give_up)
}

/// Whether the peer waits for the owner no longer.
#[inline]
pub(crate) fn is_given_up(flags: &AtomicU32) -> bool {
    flags.load(Ordering::Acquire) & ABANDONED != 0
}

/// Takes a step of the table. Says whether it was, or had been.
fn decide(flags: &AtomicU32, step: fn(u32) -> Option<u32>) -> bool {
    flags
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, step)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn one_of_two_gets_a_seat() {
        for _ in 0..2_000 {
            let (flags, together) = (AtomicU32::new(0), Barrier::new(2));
            let (taken, given_up) = std::thread::scope(|scope| {
                let owner = scope.spawn(|| {
                    together.wait();
                    take(&flags)
                });
                together.wait();
                let given_up = give_up(&flags);
                (owner.join().unwrap(), given_up)
            });
            assert_ne!(taken, given_up);
            // Asked again, it is as it was.
            assert_eq!((take(&flags), give_up(&flags)), (taken, given_up));
            assert_eq!(is_given_up(&flags), given_up);
        }
    }
}
