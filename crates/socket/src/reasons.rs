// SPDX-License-Identifier: Apache-2.0
//! Why sockets were left to the kernel: counted, said once where the user wants to know, and told the daemon.
//!
//! The daemon is told when a count has doubled and at the end, so that a reason which comes often costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use ipc::protocol::{Fallback, Request};

use crate::process;

struct Count {
    seen: AtomicU64,
    told: AtomicU64,
}

static COUNTS: [Count; Fallback::ALL.len()] = [const {
    Count {
        seen: AtomicU64::new(0),
        told: AtomicU64::new(0),
    }
}; Fallback::ALL.len()];

fn of(why: Fallback) -> &'static Count {
    &COUNTS[why as usize % COUNTS.len()]
}

/// A socket is left to the kernel.
#[cold]
pub fn note(why: Fallback) {
    let count = of(why);
    let seen = count.seen.fetch_add(1, Ordering::Relaxed) + 1;
    if seen == 1 {
        process::trace(|| format!("left to the kernel: {}; said once", why.about()));
    }
    if seen.is_power_of_two() {
        tell(why, count);
    }
}

/// The process ends: what the daemon has not been told yet.
pub fn finish() {
    for why in Fallback::ALL {
        tell(why, of(why));
    }
}

fn tell(why: Fallback, count: &Count) {
    // Before there is a daemon the end will tell.
    let Some(client) = process::current() else {
        return;
    };
    let seen = count.seen.load(Ordering::Relaxed);
    let told = count.told.swap(seen, Ordering::Relaxed);
    if seen > told {
        let count = seen - told;
        let _ = process::done(&client, &Request::LeftToKernel { why, count });
    }
}

/// In a forked child: what was counted is the parent's.
pub(crate) fn after_fork() {
    for count in &COUNTS {
        count
            .told
            .store(count.seen.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
