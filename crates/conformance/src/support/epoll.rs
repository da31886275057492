// SPDX-License-Identifier: Apache-2.0
//! epoll sets.

use super::errno::Call;
use super::sys::{Fd, answer, descriptor, done, raw, timespec};
pub use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP,
    EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP,
};
use std::time::Duration;

/// Events of one member, and the number that the program gave it.
pub type Event = (u32, u64);

pub const IN: u32 = EPOLLIN as u32;
pub const OUT: u32 = EPOLLOUT as u32;
pub const ERR: u32 = EPOLLERR as u32;
pub const HUP: u32 = EPOLLHUP as u32;
pub const RDHUP: u32 = EPOLLRDHUP as u32;
pub const ET: u32 = EPOLLET as u32;
pub const ONESHOT: u32 = EPOLLONESHOT as u32;
pub const EXCLUSIVE: u32 = EPOLLEXCLUSIVE as u32;

pub fn create() -> Call<Fd> {
    // SAFETY: takes numbers only.
    descriptor(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

pub fn control(set: Fd, operation: i32, fd: Fd, events: u32, data: u64) -> Call<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the event outlives the call.
    done(unsafe { libc::epoll_ctl(set, operation, fd, &raw mut event) })
}

pub fn add(set: Fd, fd: Fd, events: u32, data: u64) -> Call<()> {
    control(set, EPOLL_CTL_ADD, fd, events, data)
}

pub fn change(set: Fd, fd: Fd, events: u32, data: u64) -> Call<()> {
    control(set, EPOLL_CTL_MOD, fd, events, data)
}

pub fn remove(set: Fd, fd: Fd) -> Call<()> {
    // SAFETY: the event may be null for this operation.
    done(unsafe { libc::epoll_ctl(set, EPOLL_CTL_DEL, fd, std::ptr::null_mut()) })
}

fn collect(room: usize, call: impl FnOnce(*mut libc::epoll_event, i32) -> i32) -> Call<Vec<Event>> {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room];
    let count = answer(call(events.as_mut_ptr(), room as i32) as isize)?;
    let mut events: Vec<Event> = events[..count]
        .iter()
        .map(|event| (event.events, event.u64))
        .collect();
    // The order among members that are ready is nobody's promise.
    events.sort_by_key(|event| event.1);
    Ok(events)
}

/// `epoll_wait` for up to 16 events, ordered by the members' numbers.
pub fn wait(set: Fd, milliseconds: i32) -> Call<Vec<Event>> {
    wait_up_to(set, 16, milliseconds)
}

pub fn wait_up_to(set: Fd, room: usize, milliseconds: i32) -> Call<Vec<Event>> {
    // SAFETY: room for that many events.
    collect(room, |events, room| unsafe {
        libc::epoll_wait(set, events, room, milliseconds)
    })
}

pub fn pwait(set: Fd, milliseconds: i32, mask: Option<&libc::sigset_t>) -> Call<Vec<Event>> {
    let mask = mask.map_or(std::ptr::null(), |mask| &raw const *mask);
    // SAFETY: room for that many events; the mask is null or outlives the call.
    collect(16, |events, room| unsafe {
        libc::epoll_pwait(set, events, room, milliseconds, mask)
    })
}

pub fn pwait2(set: Fd, time: Option<Duration>) -> Call<Vec<Event>> {
    let time = time.map(timespec);
    let time = time
        .as_ref()
        .map_or(std::ptr::null(), |time| &raw const *time);
    // SAFETY: room for that many events; the time is null or outlives the call.
    collect(16, |events, room| unsafe {
        raw::epoll_pwait2(set, events, room, time, std::ptr::null())
    })
}
