// SPDX-License-Identifier: Apache-2.0
//! Calls that wait for events: epoll, poll, select.

use std::time::Duration;

use libc::{c_int, c_long, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use socket::epoll::{Epoll, SignalMask};
use socket::object::Object;
use socket::signals::entry::whole;
use socket::signals::handlers::{Quiet, quietly};
use socket::{poll as polling, select as selecting, table};

use crate::next::next;
use crate::{answer, status};

/// Bytes of a signal set that the kernel knows of.
const KERNEL_SET: usize = 8;

fn mask(set: *const sigset_t) -> SignalMask {
    SignalMask(set.cast(), KERNEL_SET)
}

/// poll on what may be ours. None: it is the kernel's.
unsafe fn polled(
    fds: *mut pollfd,
    count: usize,
    limit: Option<Duration>,
    mask: SignalMask,
) -> Option<socket::stream::Result> {
    // SAFETY: as poll(2).
    whole(|| unsafe { polling::poll(fds, count, limit, mask) })
}

/// select on what may be ours. None: it is the kernel's.
unsafe fn selected(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: Option<Duration>,
    mask: SignalMask,
) -> Option<socket::stream::Result> {
    // SAFETY: as select(2).
    whole(|| unsafe { selecting::select(count, read, write, except, limit, mask) })
}

/// Milliseconds as poll and epoll_wait take them: negative is for ever.
fn milliseconds(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// A time as ppoll takes it: null is for ever. Err: the kernel shall refuse it.
unsafe fn span(timeout: *const timespec) -> Result<Option<Duration>, ()> {
    if timeout.is_null() {
        return Ok(None);
    }
    // SAFETY: as ppoll(2).
    match unsafe { timeout.read_unaligned() } {
        time if time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec) => {
            Ok(Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)))
        }
        _ => Err(()),
    }
}

/// An epoll set was made.
fn made(fd: c_int) -> c_int {
    if fd >= 0 {
        quietly(|| drop(table::install(fd, Object::Epoll(Epoll::new(fd)))));
    }
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    made(next!(epoll_create(size: c_int) -> c_int))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    made(next!(epoll_create1(flags: c_int) -> c_int))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    epoll: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let quiet = Quiet::begin();
    let mut description = table::get(epoll);
    if description.is_none() && op == libc::EPOLL_CTL_ADD && table::known(fd) {
        // Made behind the library's back: in a set that it does not know nobody would hear of the connection.
        socket::inherit::adopt(epoll);
        description = table::get(epoll);
    }
    if let Some(description) = description
        && let Object::Epoll(set) = description.object()
    {
        // SAFETY: as epoll_ctl(2).
        return status(unsafe { set.control(epoll, op, fd, event) });
    }
    drop(quiet);
    next!(epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int)
}

/// Waits on a set of ours. None: it is none.
unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: Option<Duration>,
    mask: SignalMask,
) -> Option<c_int> {
    let result = whole(|| {
        let description = table::get(epoll)?;
        let Object::Epoll(set) = description.object() else {
            return None;
        };
        // SAFETY: as epoll_wait(2).
        Some(unsafe { set.wait(epoll, events, max, timeout, mask) })
    })?;
    Some(answer(result) as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: as epoll_wait(2).
    match unsafe { wait(epoll, events, max, milliseconds(timeout), SignalMask::NONE) } {
        Some(count) => count,
        None => {
            next!(epoll_wait(epoll: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    signals: *const sigset_t,
) -> c_int {
    // SAFETY: as epoll_pwait(2).
    match unsafe { wait(epoll, events, max, milliseconds(timeout), mask(signals)) } {
        Some(count) => count,
        None => {
            next!(epoll_pwait(epoll: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, signals: *const sigset_t) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    // SAFETY: as epoll_pwait2(2).
    if let Ok(limit) = unsafe { span(timeout) }
        && let Some(count) = unsafe { wait(epoll, events, max, limit, mask(signals)) }
    {
        return count;
    }
    next!(epoll_pwait2(epoll: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, signals: *const sigset_t) -> c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: as poll(2).
    match unsafe { polled(fds, count as usize, milliseconds(timeout), SignalMask::NONE) } {
        Some(result) => answer(result) as c_int,
        None => next!(poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: as poll(2).
    unsafe { poll(fds, count, timeout) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: usize,
) -> c_int {
    if (count as usize).saturating_mul(size_of::<pollfd>()) > room {
        return next!(__poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: usize) -> c_int);
    }
    // SAFETY: as poll(2).
    unsafe { poll(fds, count, timeout) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    // SAFETY: as ppoll(2).
    if let Ok(limit) = unsafe { span(timeout) }
        && let Some(result) = unsafe { polled(fds, count as usize, limit, mask(signals)) }
    {
        return answer(result) as c_int;
    }
    next!(ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, signals: *const sigset_t) -> c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    signals: *const sigset_t,
    room: usize,
) -> c_int {
    if (count as usize).saturating_mul(size_of::<pollfd>()) > room {
        return next!(__ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, signals: *const sigset_t, room: usize) -> c_int);
    }
    // SAFETY: as ppoll(2).
    unsafe { ppoll(fds, count, timeout, signals) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: as select(2).
    let time = (!timeout.is_null()).then(|| unsafe { timeout.read_unaligned() });
    let limit = match time {
        None => Ok(None),
        Some(time) if time.tv_sec >= 0 && time.tv_usec >= 0 => Ok(Some(
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64),
        )),
        Some(_) => Err(()),
    };
    if let Ok(limit) = limit {
        let deadline = limit.map(socket::wait::Deadline::after);
        // SAFETY: as select(2).
        if let Some(result) =
            unsafe { selected(count, read, write, except, limit, SignalMask::NONE) }
        {
            // Linux tells how much time was left.
            if let Some(deadline) = deadline {
                let left = deadline.left();
                // SAFETY: as select(2).
                unsafe {
                    timeout.write_unaligned(timeval {
                        tv_sec: left.as_secs() as libc::time_t,
                        tv_usec: libc::suseconds_t::from(left.subsec_micros()),
                    });
                }
            }
            return answer(result) as c_int;
        }
    }
    next!(select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    // SAFETY: as pselect(2).
    if let Ok(limit) = unsafe { span(timeout) }
        && let Some(result) = unsafe { selected(count, read, write, except, limit, mask(signals)) }
    {
        return answer(result) as c_int;
    }
    next!(pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, signals: *const sigset_t) -> c_int)
}

/// The event calls by number. None: the kernel shall do it.
///
/// # Safety
/// The arguments are those of the call of that number.
pub unsafe fn by_number(number: c_long, arguments: [usize; 6]) -> Option<isize> {
    let [a, b, c, d, e, _] = arguments;
    // SAFETY: the arguments are those of the call of that number. The raw calls take kernel signal sets, which are a
    // prefix of the C library's.
    unsafe {
        let count = match number {
            libc::SYS_epoll_create1 => epoll_create1(a as c_int),
            libc::SYS_epoll_ctl => {
                epoll_ctl(a as c_int, b as c_int, c as c_int, d as *mut epoll_event)
            }
            libc::SYS_epoll_pwait => wait(
                a as c_int,
                b as *mut epoll_event,
                c as c_int,
                milliseconds(d as c_int),
                SignalMask(e as *const u8, KERNEL_SET),
            )?,
            libc::SYS_ppoll => {
                let limit = span(c as *const timespec).ok()?;
                answer(polled(
                    a as *mut pollfd,
                    b,
                    limit,
                    SignalMask(d as *const u8, KERNEL_SET),
                )?) as c_int
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => epoll_create(a as c_int),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => wait(
                a as c_int,
                b as *mut epoll_event,
                c as c_int,
                milliseconds(d as c_int),
                SignalMask::NONE,
            )?,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => answer(polled(
                a as *mut pollfd,
                b,
                milliseconds(c as c_int),
                SignalMask::NONE,
            )?) as c_int,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => select(
                a as c_int,
                b as *mut fd_set,
                c as *mut fd_set,
                d as *mut fd_set,
                e as *mut timeval,
            ),
            _ => return None,
        };
        Some(count as isize)
    }
}
