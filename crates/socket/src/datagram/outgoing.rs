// SPDX-License-Identifier: Apache-2.0
//! The sending side: where datagrams for an address go.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::policy::Role;
use ipc::protocol::{Fallback, Reply, Request};
use rustix::io::Errno;
use shm::channel::{self, End, armed, flags};

use super::{Datagram, bells, lacks, setup, twin};
use crate::address;
use crate::attach;
use crate::cost::{self, Work};
use crate::object::Object;
use crate::policy;
use crate::process;
use crate::raw;
use crate::reasons;
use crate::stream::Far;
use crate::table::Description;
use crate::wait::clock;

/// Parts of a datagram that are gathered without an allocation.
const PARTS: usize = 8;
/// So many destinations are remembered before old ones are looked for.
const MANY: usize = 256;
/// Flags that a ring can honour.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;

enum Route {
    Ring {
        channel: u64,
        end: End,
        bell: [u8; 16],
        /// The receiver is on another machine.
        far: Option<Arc<Far>>,
        /// When the receiver was last seen alive, in ticks.
        asked: u64,
    },
    /// Nobody there has the library, as of this state of the daemon's registry.
    Kernel { epoch: u64, generation: u64 },
    /// Nobody on another machine has the library, as far as was known at a moment.
    Nobody { since: u64, asks_after: Duration },
    /// The policy leaves it to the kernel.
    Left,
}

/// How long nobody asks again after another machine has said that nobody there has the library: at first, and at most.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(60);

impl Route {
    fn is_stale(&self) -> bool {
        match self {
            Route::Ring { end, .. } => {
                (end.flags().load(Ordering::Acquire) | end.peer_flags().load(Ordering::Acquire))
                    & (flags::REVOKED | flags::DESERTED | flags::CLOSED)
                    != 0
            }
            Route::Nobody { since, asks_after } => {
                let ticks = asks_after.as_micros() as u64 * clock::per_microsecond();
                clock::ticks().wrapping_sub(*since) > ticks
            }
            Route::Kernel { epoch, generation } => {
                let now = process::current().map(|client| client.generation());
                *epoch != process::epoch() || now != Some(*generation)
            }
            Route::Left => false,
        }
    }

    /// How long nobody asks again, where nobody had the library.
    fn asks_after(&self) -> Option<Duration> {
        match self {
            Route::Nobody { asks_after, .. } => Some(*asks_after),
            _ => None,
        }
    }

    /// Tells the daemon that the channel is of no more use.
    fn close(self) {
        if let Route::Ring { channel, .. } = self {
            process::close(channel);
        }
    }
}

/// All destinations of a socket.
#[derive(Default)]
pub(super) struct Outgoing {
    routes: BTreeMap<SocketAddr, Route>,
}

impl Outgoing {
    /// The daemon knows the channels as the parent's: a child asks anew.
    pub fn after_fork(&mut self) {
        self.routes.clear();
    }

    /// Forgets everything; the address has changed, or the socket is closed.
    pub fn clear(&mut self) -> Vec<impl FnOnce() + use<>> {
        std::mem::take(&mut self.routes)
            .into_values()
            .map(|route| move || route.close())
            .collect()
    }
}

/// sendmsg and all that is made of it. None: the kernel does it.
///
/// # Safety
/// `message` is the program's, as sendmsg(2) says.
pub unsafe fn send(
    fd: RawFd,
    description: &Description,
    message: &libc::msghdr,
    flags: i32,
) -> Option<Result<usize, Errno>> {
    if flags & !FLAGS != 0 || message.msg_controllen > 0 || lacks(message) {
        return None;
    }
    let named = !message.msg_name.is_null() && message.msg_namelen > 0;
    let to = if named {
        // SAFETY: by the caller.
        Some(address::destination(unsafe {
            address::read(message.msg_name.cast(), message.msg_namelen)
        }?))
    } else {
        None
    };
    // Which addresses of the other family may be named is the kernel's to say.
    // SAFETY: by the caller; it was an address.
    let foreign = |own: i32| named && unsafe { address::family(message.msg_name.cast()) } != own;
    let datagram = match description.object() {
        Object::Datagram(datagram) => datagram,
        Object::Pending(pending) if pending.kind == libc::SOCK_DGRAM => {
            if foreign(pending.family) {
                return None;
            }
            setup::begin_sending(fd, description, to?)?
        }
        _ => return None,
    };
    if foreign(datagram.family) {
        return None;
    }
    if datagram.kernel_only.load(Ordering::Relaxed) {
        return None;
    }
    if datagram.twin.load(Ordering::Relaxed) & (twin::ERROR | twin::MUTE) != 0 {
        // The kernel gives the error to whoever comes first, and says what was shut.
        return datagram.take_error().map(Err);
    }
    let to = match to {
        Some(to) => to,
        None => datagram.address.lock().peer?,
    };
    // SAFETY: by the caller.
    unsafe { datagram.send_to(fd, to, message, named) }
}

impl Datagram {
    /// # Safety
    /// As [`send`].
    unsafe fn send_to(
        &self,
        fd: RawFd,
        to: SocketAddr,
        message: &libc::msghdr,
        named: bool,
    ) -> Option<Result<usize, Errno>> {
        let count = message.msg_iovlen;
        // SAFETY: by the caller; empty parts may have any address.
        let part = |index: usize| unsafe {
            let part = message.msg_iov.add(index).read_unaligned();
            if part.iov_len == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len)
            }
        };
        let mut few: [&[u8]; PARTS] = [&[]; PARTS];
        let many: Vec<&[u8]>;
        let parts = if count <= PARTS {
            for (index, place) in few[..count].iter_mut().enumerate() {
                *place = part(index);
            }
            &few[..count]
        } else {
            many = (0..count).map(part).collect();
            &many[..]
        };
        let length = parts
            .iter()
            .map(|part| part.len())
            .fold(0, usize::saturating_add);
        let mut ring = None;
        let carrier;
        {
            let mut outgoing = self.outgoing.lock();
            let mut known = outgoing.routes.get_mut(&to);
            if known.as_ref().is_none_or(|route| route.is_stale()) {
                let old = outgoing.routes.remove(&to);
                drop(outgoing);
                let asked_after = old.as_ref().and_then(Route::asks_after);
                if let Some(old) = old {
                    old.close();
                }
                let fresh = self.find_route(fd, to, asked_after)?;
                outgoing = self.outgoing.lock();
                outgoing.tidy();
                outgoing.routes.insert(to, fresh);
                known = outgoing.routes.get_mut(&to);
            }
            match known {
                Some(Route::Ring {
                    end,
                    bell,
                    far,
                    asked,
                    ..
                }) => {
                    if length > end.sender().max_message() {
                        end.own()
                            .counters
                            .kernel_messages
                            .fetch_add(1, Ordering::Relaxed);
                        return None;
                    }
                    self.request.answered();
                    cost::call(Work::Send);
                    cost::call(Work::SendBytes(length));
                    let Ok(guard) = end.lock_sender() else {
                        return None;
                    };
                    let sent = end.sender().try_send(0, parts);
                    drop(guard);
                    if sent.is_err() {
                        end.own().counters.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                    if (sent.is_err() || far.is_some())
                        && is_orphan(end, far.as_deref(), asked, clock::ticks())
                    {
                        outgoing.routes.remove(&to);
                        return None;
                    }
                    carrier = bells::caller(end, far.as_ref(), armed::DATA);
                    if far.is_none() && end.peer_armed(armed::DATA) {
                        end.own().counters.doorbells.fetch_add(1, Ordering::Relaxed);
                        ring = Some(*bell);
                    }
                }
                _ => return None,
            }
        }
        if let Some(far) = carrier {
            far.call();
        }
        if let Some(bell) = ring {
            let (name, name_length) = if named {
                (message.msg_name as usize, message.msg_namelen as usize)
            } else {
                (0, 0)
            };
            // SAFETY: the name is the program's; the doorbell lives as long as the call. If the twin cannot take it,
            // there are doorbells enough in the receiver's queue.
            unsafe {
                raw::syscall(
                    libc::SYS_sendto as usize,
                    [
                        fd as usize,
                        bell.as_ptr() as usize,
                        bell.len(),
                        (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize,
                        name,
                        name_length,
                    ],
                )
            };
        }
        Some(Ok(length))
    }

    /// Asks the daemon how to reach an address.
    ///
    /// `asked_after`: how long nobody had asked before, if it is of another machine.
    #[cold]
    fn find_route(
        &self,
        fd: RawFd,
        to: SocketAddr,
        asked_after: Option<Duration>,
    ) -> Option<Route> {
        let client = process::client()?;
        let (epoch, generation) = (process::epoch(), client.generation());
        let kernel = Route::Kernel { epoch, generation };
        if !setup::is_served(to.ip()) {
            return Some(kernel);
        }
        let from = setup::source(fd, to)?;
        // Bound to an address of the one family, an IPv6 socket reaches none of the other.
        if from.is_ipv4() != to.is_ipv4() {
            return Some(kernel);
        }
        // Either of the two is the server.
        if !process::accelerates(to.port()) && !process::accelerates(from.port()) {
            return Some(kernel);
        }
        if policy::leaves(Role::Connect, to) {
            return Some(Route::Left);
        }
        // A channel to another machine takes descriptors.
        if !setup::is_here(to.ip()) && !process::has_room_apart() {
            reasons::note(Fallback::NoDescriptors);
            return Some(kernel);
        }
        let asked = policy::asks_for(Role::Connect, to);
        match process::ask(&Request::Datagrams { from, to, asked }) {
            Some((Reply::FarChannel { channel }, descriptors)) => {
                let Some((end, Some(far))) = attach::map(descriptors, 0) else {
                    process::close(channel);
                    return Some(kernel);
                };
                let far = Arc::new(far);
                begin(&end);
                far.call();
                process::trace(|| {
                    format!("datagrams from {from} to {to}: accelerated, to another machine")
                });
                Some(Route::Ring {
                    channel,
                    end,
                    bell: client.doorbell_magic(),
                    far: Some(far),
                    asked: clock::ticks(),
                })
            }
            Some((Reply::KernelIsFaster, _)) => {
                reasons::note(Fallback::SoftwareNic);
                process::trace(|| {
                    format!(
                        "datagrams from {from} to {to}: the kernel's, there is only a NIC in software"
                    )
                });
                Some(kernel)
            }
            Some((Reply::Channel { channel }, fds)) => {
                match channel::attach(fds.first()?.as_fd(), 0) {
                    Ok(end) => {
                        process::trace(|| format!("datagrams from {from} to {to}: accelerated"));
                        Some(Route::Ring {
                            channel,
                            end,
                            bell: client.doorbell_magic(),
                            far: None,
                            asked: clock::ticks(),
                        })
                    }
                    Err(_) => Some(kernel),
                }
            }
            _ => {
                process::trace(|| {
                    format!(
                        "datagrams from {from} to {to}: the kernel's, nobody there has the library"
                    )
                });
                if setup::is_here(to.ip()) {
                    return Some(kernel);
                }
                let asks_after = asked_after.map_or(FIRST, |after| (2 * after).min(LONGEST));
                Some(Route::Nobody {
                    since: clock::ticks(),
                    asks_after,
                })
            }
        }
    }
}

/// A sender's end to another machine: this process is there, and sleeps for no room.
fn begin(end: &End) {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    end.own()
        .pid
        .store(process.cast_unsigned(), Ordering::Relaxed);
    end.own().armed.store(0, Ordering::SeqCst);
    end.flags().fetch_or(flags::ATTACHED, Ordering::Release);
}

impl Outgoing {
    /// Room for a new destination.
    fn tidy(&mut self) {
        if self.routes.len() >= MANY && self.routes.len().is_power_of_two() {
            self.routes
                .retain(|_, route| !route.is_stale() && !matches!(route, Route::Left));
        }
    }
}

/// Whether the receiver of a full ring is dead, or the daemon of one to another machine. Without a daemon nobody else would say so.
/// The kernel is asked once a millisecond at most, and `asked` says when it was; `now` is in the same ticks.
fn is_orphan(end: &End, far: Option<&Far>, asked: &mut u64, now: u64) -> bool {
    if now.wrapping_sub(*asked) < 1_000 * clock::per_microsecond() {
        return false;
    }
    *asked = now;
    if let Some(far) = far {
        return far.daemon_is_gone();
    }
    let process = end.peer().pid.load(Ordering::Relaxed);
    let Some(process) = i32::try_from(process)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    rustix::process::test_kill_process(process) == Err(Errno::SRCH)
}

/// Addresses that only the kernel serves.
pub(super) fn is_ordinary(to: SocketAddr) -> bool {
    let special = match to.ip() {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.is_multicast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    !special && to.port() != 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shm::channel::Channel;

    use super::*;

    #[test]
    fn the_kernel_is_asked_for_a_receiver_once_a_millisecond() {
        let channel = Arc::new(Channel::create(64).unwrap().0);
        let end = End::new(channel.clone(), 0);
        let receiver = End::new(channel, 1);
        let is = |process: u32| receiver.own().pid.store(process, Ordering::Relaxed);
        // Far longer than a millisecond at any rate of the counter.
        let long = 1 << 50;

        // Linux gives nobody so high a number.
        is(i32::MAX as u32);
        let mut asked = long;
        assert!(!is_orphan(&end, None, &mut asked, long + 1));
        assert_eq!(asked, long, "the kernel was asked too early");
        assert!(is_orphan(&end, None, &mut asked, 2 * long));
        assert_eq!(asked, 2 * long);
        assert!(!is_orphan(&end, None, &mut asked, 2 * long + 1));

        is(std::process::id());
        assert!(!is_orphan(&end, None, &mut asked, 3 * long));
        assert_eq!(asked, 3 * long);
        // It has not come to the channel yet.
        is(0);
        assert!(!is_orphan(&end, None, &mut asked, 4 * long));
    }
}
