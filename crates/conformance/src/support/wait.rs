// SPDX-License-Identifier: Apache-2.0
//! poll and select, and waiting for a condition.

use super::errno::Call;
use super::outcome::{Failure, Outcome};
use super::sys::{Fd, answer, timespec};
use std::time::{Duration, Instant};

/// `poll` of descriptors and wanted events; gives the returned events of each, and how many have any.
pub fn poll(wanted: &[(Fd, i16)], milliseconds: i32) -> Call<(usize, Vec<i16>)> {
    let mut fds = entries(wanted);
    // SAFETY: pointer and count are of one vector.
    let count =
        answer(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, milliseconds) } as isize)?;
    Ok((count, fds.iter().map(|fd| fd.revents).collect()))
}

/// What `poll` says about one descriptor, at once or within the time.
pub fn poll_one(fd: Fd, events: i16, milliseconds: i32) -> Call<i16> {
    Ok(poll(&[(fd, events)], milliseconds)?.1[0])
}

/// `ppoll` with a mask of signals that are blocked meanwhile.
pub fn ppoll(
    wanted: &[(Fd, i16)],
    time: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> Call<Vec<i16>> {
    let mut fds = entries(wanted);
    let time = time.map(timespec);
    let time = time
        .as_ref()
        .map_or(std::ptr::null(), |time| &raw const *time);
    let mask = mask.map_or(std::ptr::null(), |mask| &raw const *mask);
    // SAFETY: pointer and count are of one vector; time and mask are null or outlive the call.
    answer(unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as _, time, mask) } as isize)?;
    Ok(fds.iter().map(|fd| fd.revents).collect())
}

/// The array that poll takes.
pub fn entries(wanted: &[(Fd, i16)]) -> Vec<libc::pollfd> {
    wanted
        .iter()
        .map(|&(fd, events)| libc::pollfd {
            fd,
            events,
            revents: 0x5555,
        })
        .collect()
}

/// What select said: how many, and which of the wanted descriptors are in each set.
#[derive(Debug, PartialEq, Eq)]
pub struct Selected {
    pub count: usize,
    pub read: Vec<Fd>,
    pub write: Vec<Fd>,
}

fn set_of(fds: &[Fd]) -> libc::fd_set {
    // SAFETY: all zeroes is the empty set; cases select descriptors below FD_SETSIZE only.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::FD_ZERO(&raw mut set);
        for &fd in fds {
            libc::FD_SET(fd, &raw mut set);
        }
        set
    }
}

fn members(set: &libc::fd_set, fds: &[Fd]) -> Vec<Fd> {
    // SAFETY: as above.
    fds.iter()
        .copied()
        .filter(|&fd| unsafe { libc::FD_ISSET(fd, set) })
        .collect()
}

/// `select` of descriptors for reading and writing.
pub fn select(read: &[Fd], write: &[Fd], time: Option<Duration>) -> Call<Selected> {
    let (mut reads, mut writes) = (set_of(read), set_of(write));
    let highest = read.iter().chain(write).max().map_or(0, |fd| fd + 1);
    let time = time.map(|t| libc::timeval {
        tv_sec: t.as_secs() as _,
        tv_usec: t.subsec_micros() as _,
    });
    let mut time = time;
    let time = time
        .as_mut()
        .map_or(std::ptr::null_mut(), |time| &raw mut *time);
    // SAFETY: the sets hold descriptors below `highest`; the third may be null.
    let count = unsafe {
        libc::select(
            highest,
            &raw mut reads,
            &raw mut writes,
            std::ptr::null_mut(),
            time,
        )
    };
    let count = answer(count as isize)?;
    Ok(Selected {
        count,
        read: members(&reads, read),
        write: members(&writes, write),
    })
}

/// `pselect` of descriptors for reading.
pub fn pselect(
    read: &[Fd],
    time: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> Call<Selected> {
    let mut reads = set_of(read);
    let highest = read.iter().max().map_or(0, |fd| fd + 1);
    let time = time.map(timespec);
    let time = time
        .as_ref()
        .map_or(std::ptr::null(), |time| &raw const *time);
    let mask = mask.map_or(std::ptr::null(), |mask| &raw const *mask);
    let null = std::ptr::null_mut();
    // SAFETY: the set holds descriptors below `highest`; the others may be null.
    let count =
        answer(unsafe { libc::pselect(highest, &raw mut reads, null, null, time, mask) } as isize)?;
    Ok(Selected {
        count,
        read: members(&reads, read),
        write: Vec::new(),
    })
}

/// Asks until the condition is true; fails after five seconds.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(5);
    let failure = Failure::new(format!("it never happened that {what}"));
    while !condition() {
        if Instant::now() > deadline {
            return Err(failure);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}
