// SPDX-License-Identifier: Apache-2.0
//! poll and ppoll with accelerated sockets among the descriptors; select is made of the same.

use std::cell::Cell;
use std::os::fd::RawFd;
use std::time::Duration;

use libc::pollfd;
use rustix::io::Errno;

use crate::cost::{self, Work};
use crate::epoll::SignalMask;
use crate::object::Object;
use crate::raw;
use crate::ready::{self, Events, Pollable};
use crate::signals::handlers::{Masked, Watch};
use crate::table::{self, Ref};
use crate::unaligned;
use crate::wait::{Deadline, Spin, Step, clock, kernel_due, longest, poll_kernel};

thread_local! {
    /// When this thread's poll asked the kernel last.
    static POLLED: Cell<u64> = const { Cell::new(0) };
}

/// An accelerated socket among the descriptors.
struct Own {
    index: usize,
    description: Ref,
}

impl Own {
    fn pollable(&self) -> Option<&dyn Pollable> {
        self.description.object().pollable()
    }
}

/// Whether user-level readiness has a say about `fd`.
pub(crate) fn has_say(fd: RawFd) -> bool {
    table::known(fd)
        && table::get(fd).is_some_and(|description| {
            if let Object::Lost(lost) = description.object() {
                lost.touch(fd);
            }
            speaks(&description)
        })
}

fn speaks(description: &Ref) -> bool {
    match description.object() {
        Object::Epoll(epoll) => epoll.has_accelerated(),
        object => object.pollable().is_some(),
    }
}

/// poll and ppoll. None: no accelerated socket is among the descriptors, the C library's own function shall run.
///
/// # Safety
/// `fds` is the program's array of `count` descriptors; `mask` is as the program passed it.
pub unsafe fn poll(
    fds: *mut pollfd,
    count: usize,
    timeout: Option<Duration>,
    mask: SignalMask,
) -> Option<Result<usize, Errno>> {
    if fds.is_null() || count > table::LIMIT {
        return None;
    }
    if !fds.is_aligned() {
        // SAFETY: passed on.
        return unsafe { poll_copied(fds, count, timeout, mask) };
    }
    // SAFETY: by the caller, and it is aligned.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count) };
    if !fds.iter().any(|entry| has_say(entry.fd)) {
        return None;
    }
    Some(wait_many(fds, timeout, mask))
}

/// The same for an array that is not aligned.
///
/// # Safety
/// As [`poll`].
#[cold]
unsafe fn poll_copied(
    fds: *mut pollfd,
    count: usize,
    timeout: Option<Duration>,
    mask: SignalMask,
) -> Option<Result<usize, Errno>> {
    // SAFETY: by the caller.
    let mut copy = unsafe { unaligned::copied(fds, count) };
    // SAFETY: the array is ours; the mask is passed on.
    let result = unsafe { poll(copy.as_mut_ptr(), count, timeout, mask) };
    if result.is_some() {
        for (index, entry) in copy.iter().enumerate() {
            // SAFETY: by the caller; the kernel would write there as well.
            unsafe { (&raw mut (*fds.add(index)).revents).write_unaligned(entry.revents) };
        }
    }
    result
}

/// Waits for any of the descriptors, of which at least one is accelerated.
pub(crate) fn wait_many(
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: SignalMask,
) -> Result<usize, Errno> {
    let found = wait_for_any(fds, timeout, mask);
    cost::call(Work::Poll);
    found
}

#[inline]
fn wait_for_any(
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: SignalMask,
) -> Result<usize, Errno> {
    // What ends the sleep ends the spin in front of it, too. With a mask of its own the sleep decides.
    let watch = mask.0.is_null().then(Watch::begin);
    let mut own = Vec::with_capacity(8);
    for (index, entry) in fds.iter_mut().enumerate() {
        entry.revents = 0;
        if let Some(description) = table::get(entry.fd)
            && speaks(&description)
        {
            fall_back(entry, &description, Events::NONE);
            own.push(Own { index, description });
        }
    }
    let mixed = own.len() < fds.len();
    let mut found = look(fds, &own);
    let due = (mixed || only_room(fds, &own)) && kernel_due(POLLED.get(), clock::ticks());
    if due || (found == 0 && timeout == Some(Duration::ZERO)) {
        if found == 0 {
            leave_full_rings(fds, &own);
        }
        found = look_at_all(fds, &own)?;
    }
    if found == 0 && timeout == Some(Duration::ZERO) && !mask.0.is_null() {
        let_in(mask)?;
    }
    if found > 0 || timeout == Some(Duration::ZERO) {
        return Ok(found);
    }
    let deadline = timeout.map(Deadline::after);
    let mut spin = Spin::begin(POLLED.get());
    loop {
        match spin.step() {
            Step::Again => found = look(fds, &own),
            _ if watch.is_some_and(Watch::is_broken) => return Err(Errno::INTR),
            Step::Kernel => found = look_at_all(fds, &own)?,
            Step::Sleep => break,
        }
        if found > 0 {
            spin.found();
            return Ok(found);
        }
    }
    drop(spin);
    sleep(fds, &own, deadline, mask, watch)
}

fn sleep(
    fds: &mut [pollfd],
    own: &[Own],
    deadline: Option<Deadline>,
    mask: SignalMask,
    watch: Option<Watch>,
) -> Result<usize, Errno> {
    let token = ready::token();
    loop {
        leave_full_rings(fds, own);
        let mut shared = false;
        for each in own {
            if let Some(pollable) = each.pollable() {
                let want = asked(&fds[each.index]);
                each.description
                    .waiters
                    .thread_sleeps(token, want, pollable);
                shared |= pollable.shared();
            }
        }
        let longest = longest(shared);
        let left = if look(fds, own) > 0 {
            Duration::ZERO
        } else {
            deadline.map_or(longest, |deadline| deadline.left().min(longest))
        };
        let twins = ask_kernel(fds, own, mask, left, watch);
        let mut all_drained = true;
        for each in own {
            let Some(pollable) = each.pollable() else {
                continue;
            };
            let fd = fds[each.index].fd;
            let twin = twins
                .as_ref()
                .map_or(Events::NONE, |twins| twins[each.index]);
            all_drained &= each
                .description
                .waiters
                .thread_wakes(token, pollable, fd, twin);
        }
        let found = match twins {
            Ok(twins) => {
                if twins.iter().all(|twin| twin.is_empty()) {
                    let pollables = own.iter().filter_map(Own::pollable);
                    pollables.for_each(Pollable::heartbeat);
                }
                gather(fds, own, &twins)
            }
            Err(error) => {
                let found = look(fds, own);
                if found == 0 {
                    return Err(error);
                }
                found
            }
        };
        if found > 0 || deadline.is_some_and(Deadline::passed) {
            return Ok(found);
        }
        if watch.is_some_and(Watch::is_broken) {
            return Err(Errno::INTR);
        }
        if !all_drained {
            // Others sleep on the same twin and have yet to wake.
            rustix::thread::sched_yield();
        }
    }
}

/// What the program asks of a descriptor.
fn asked(entry: &pollfd) -> Events {
    Events(entry.events as u16 as u32)
}

/// A connection that waits in vain goes over to the kernel here, where no thread of this call sleeps on it.
fn fall_back(entry: &pollfd, description: &Ref, want: Events) {
    let object = description.object();
    if object.is_overdue(want) && table::still(entry.fd, description) {
        object.fall_back(entry.fd, description);
    }
}

/// There is nothing to tell: so does one that waits for room for long.
fn leave_full_rings(fds: &[pollfd], own: &[Own]) {
    for each in own {
        let entry = &fds[each.index];
        if let Some(pollable) = each.pollable() {
            pollable.waited_for(asked(entry));
        }
        fall_back(entry, &each.description, asked(entry));
    }
}

/// User-level readiness alone.
fn look(fds: &mut [pollfd], own: &[Own]) -> usize {
    let mut found = 0;
    for each in own {
        // Of one that has gone back to the kernel the kernel has spoken; one that is about to says nothing any more.
        let Some(pollable) = each.pollable() else {
            continue;
        };
        let entry = &mut fds[each.index];
        let asked = asked(entry) | Events::ALWAYS;
        let events = pollable.ready().with_aliases() & asked;
        entry.revents = events.0 as i16;
        found += usize::from(!events.is_empty());
    }
    found
}

/// Whether there is room to write for somebody who asks for input, too: that a peer was killed only the kernel says, and nobody will
/// sleep to hear it.
fn only_room(fds: &[pollfd], own: &[Own]) -> bool {
    let input = libc::POLLIN | libc::POLLRDHUP;
    own.iter().any(|each| {
        let entry = &fds[each.index];
        entry.revents != 0 && entry.events & input != 0 && entry.revents & input == 0
    })
}

/// Signals that are blocked but for a call come in where it finds nothing ready, however short it is. Asked of the kernel without
/// the descriptors: it would rather tell of a bell that has rung.
#[cold]
fn let_in(mask: SignalMask) -> Result<(), Errno> {
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let masked = Masked::begin(mask);
    let mask = masked.as_ref().map_or(mask, Masked::mask);
    let arguments = [0, 0, &raw const now as usize, mask.0 as usize, mask.1, 0];
    // SAFETY: no descriptors; the time lives as long as the call, the mask is the program's.
    unsafe { raw::call(libc::SYS_ppoll, arguments) }.map(drop)
}

/// The kernel's word about all descriptors.
fn look_at_all(fds: &mut [pollfd], own: &[Own]) -> Result<usize, Errno> {
    let twins = ask_kernel(fds, own, SignalMask::NONE, Duration::ZERO, None)?;
    for each in own {
        let twin = twins[each.index];
        if let Some(pollable) = each.pollable()
            && !twin.is_empty()
        {
            each.description
                .waiters
                .seen(pollable, fds[each.index].fd, twin);
        }
    }
    Ok(gather(fds, own, &twins))
}

/// Puts both words together.
fn gather(fds: &mut [pollfd], own: &[Own], twins: &[Events]) -> usize {
    for (entry, twin) in fds.iter_mut().zip(twins) {
        entry.revents = twin.0 as i16;
    }
    look(fds, own);
    for each in own {
        let entry = &mut fds[each.index];
        // It has gone over to the kernel meanwhile: what the kernel saw may have been a doorbell, which is gone.
        if entry.revents != 0 && each.pollable().is_none() {
            let now = poll_kernel(entry.fd, asked(entry), Duration::ZERO);
            entry.revents = now.map_or(entry.revents, |events| events.0 as i16);
        }
    }
    fds.iter().filter(|entry| entry.revents != 0).count()
}

/// Asks the kernel: about plain files what the program asks, about twins what they can tell.
fn ask_kernel(
    fds: &[pollfd],
    own: &[Own],
    mask: SignalMask,
    timeout: Duration,
    watch: Option<Watch>,
) -> Result<Vec<Events>, Errno> {
    let mut asked = fds.to_vec();
    let mut bells = Vec::new();
    for each in own {
        let entry = &mut asked[each.index];
        if let Some(pollable) = each.pollable()
            && table::still(entry.fd, &each.description)
        {
            let want = Events(entry.events as u16 as u32);
            let interest = pollable.twin_interest(want);
            entry.events = interest.0 as i16;
            if interest.has(Events::SKIP) {
                entry.fd = -1;
            }
            if let Some(bell) = pollable.bell() {
                bells.push(each.index);
                asked.push(pollfd {
                    fd: bell,
                    events: libc::POLLIN,
                    revents: 0,
                });
            }
        }
    }
    POLLED.set(clock::ticks());
    let own = !mask.0.is_null();
    let masked = own.then(|| Masked::begin(mask)).flatten();
    let mask = masked.as_ref().map_or(mask, Masked::mask);
    let watch = watch.unwrap_or_else(Watch::begin);
    watch.sleep(timeout, |time| {
        // SAFETY: the array and the time live as long as the call; the mask is the program's.
        unsafe {
            raw::call(
                libc::SYS_ppoll,
                [
                    asked.as_mut_ptr() as usize,
                    asked.len(),
                    time as usize,
                    mask.0 as usize,
                    mask.1,
                    0,
                ],
            )
        }
    })?;
    let mut events: Vec<Events> = asked
        .iter()
        .map(|entry| Events(entry.revents as u16 as u32))
        .collect();
    for (at, index) in bells.into_iter().enumerate() {
        if !events[fds.len() + at].is_empty() {
            events[index] |= Events::BELL;
        }
    }
    events.truncate(fds.len());
    Ok(events)
}
