// SPDX-License-Identifier: Apache-2.0
//! select and pselect, by way of poll.
//!
//! The sets are bit strings of as many bits as the program says, so descriptors beyond 1023 work as far as the program's
//! own sets reach.

use std::os::fd::RawFd;
use std::time::Duration;

use libc::pollfd;
use rustix::io::Errno;

use crate::epoll::SignalMask;
use crate::poll::{has_say, wait_many};
use crate::ready::Events;
use crate::table;

const READ: Events = Events(Events::RDNORM.0 | 0x80 | Events::IN.0 | Events::HUP.0 | Events::ERR.0);
const WRITE: Events = Events(Events::WRBAND.0 | Events::WRNORM.0 | Events::OUT.0 | Events::ERR.0);
const EXCEPT: Events = Events::PRI;
const INVALID: i16 = 0x20;
const BITS: usize = u64::BITS as usize;

/// A program's set of descriptors.
#[derive(Clone, Copy)]
struct Bits(*mut u64);

impl Bits {
    /// # Safety
    /// The set has more than `fd` bits, or is null.
    unsafe fn has(self, fd: usize) -> bool {
        // SAFETY: by the caller.
        !self.0.is_null()
            && unsafe { self.0.add(fd / BITS).read_unaligned() } >> (fd % BITS) & 1 == 1
    }

    /// # Safety
    /// As [`Bits::has`].
    unsafe fn set(self, fd: usize) {
        // SAFETY: by the caller; not null, for only what was in the set is put back.
        unsafe {
            let word = self.0.add(fd / BITS);
            word.write_unaligned(word.read_unaligned() | 1 << (fd % BITS));
        }
    }

    /// # Safety
    /// The set has at least `count` bits, rounded up to whole words, or is null.
    unsafe fn clear(self, count: usize) {
        if !self.0.is_null() {
            for word in 0..count.div_ceil(BITS) {
                // SAFETY: by the caller.
                unsafe { self.0.add(word).write_unaligned(0) };
            }
        }
    }
}

/// select and pselect. None: no accelerated socket is in the sets, the C library's own function shall run.
///
/// # Safety
/// The sets are the program's, of `count` bits rounded up to whole words, or null; `mask` is as the program passed it.
pub unsafe fn select(
    count: i32,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    timeout: Option<Duration>,
    mask: SignalMask,
) -> Option<Result<usize, Errno>> {
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= table::LIMIT)?;
    let sets = [Bits(read.cast()), Bits(write.cast()), Bits(except.cast())];
    let masks = [READ, WRITE, EXCEPT];
    // SAFETY: by the caller, below as well: every descriptor is less than `count`.
    let asked = |fd: usize| {
        let mut events = Events::NONE;
        for (set, mask) in sets.iter().zip(masks) {
            if unsafe { set.has(fd) } {
                events |= mask;
            }
        }
        events
    };
    if !(0..count)
        .any(|fd| table::known(fd as RawFd) && !asked(fd).is_empty() && has_say(fd as RawFd))
    {
        return None;
    }
    let mut fds: Vec<pollfd> = (0..count)
        .filter_map(|fd| {
            let events = asked(fd) & !Events::ALWAYS;
            (!asked(fd).is_empty()).then_some(pollfd {
                fd: fd as RawFd,
                events: events.0 as i16,
                revents: 0,
            })
        })
        .collect();
    if let Err(error) = wait_many(&mut fds, timeout, mask) {
        return Some(Err(error));
    }
    if fds.iter().any(|entry| entry.revents & INVALID != 0) {
        return Some(Err(Errno::BADF));
    }
    let mut total = 0;
    let results: Vec<(usize, [bool; 3])> = fds
        .iter()
        .map(|entry| {
            let fd = entry.fd as usize;
            let events = Events(entry.revents as u16 as u32);
            let mut hits = [false; 3];
            for ((hit, set), mask) in hits.iter_mut().zip(sets).zip(masks) {
                // SAFETY: as above.
                *hit = unsafe { set.has(fd) } && events.has(mask);
                total += usize::from(*hit);
            }
            (fd, hits)
        })
        .collect();
    for set in sets {
        // SAFETY: by the caller.
        unsafe { set.clear(count) };
    }
    for (fd, hits) in results {
        for (hit, set) in hits.into_iter().zip(sets) {
            if hit {
                // SAFETY: it was in the set.
                unsafe { set.set(fd) };
            }
        }
    }
    Some(Ok(total))
}
