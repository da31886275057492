// SPDX-License-Identifier: Apache-2.0
//! UDP sockets: datagrams between processes of this machine through rings, the rest through the kernel.
//!
//! Each pair of a sending and a receiving socket has a channel of its own, so a ring keeps having one producer. The
//! receiver goes round its rings, and looks at its twin now and then: datagrams of everybody else arrive there. So do
//! doorbells, datagrams of a content that only the daemon's clients know; they are swallowed.
//!
//! A ring that is full drops, as a socket's buffer does. What rings can't do goes by the kernel: datagrams longer than a
//! ring takes, ancillary data, multicast. A program that asks for ancillary data on receiving, or shares its port with
//! others by SO_REUSEPORT, has a socket of the kernel.

mod bells;
mod incoming;
mod outgoing;
mod registry;
mod setup;
mod twin;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use ipc::client::Client;
use rustix::io::Errno;
use std::net::SocketAddr;

pub use outgoing::send;
pub(crate) use registry::{after_fork, before_fork, hear_all};
pub use setup::{bound, closing, connected, kernel_only, nonblocking, option, shut};

use crate::cost::{self, Work};
use crate::latch::Latch;
use crate::object::Object;
use crate::process;
use crate::ready::{Events, Pollable};
use crate::signals;
use crate::table::Description;
use crate::wait::{Deadline, Wait, clock, kernel_due, wait_one};

/// A UDP socket.
pub struct Datagram {
    /// AF_INET or AF_INET6.
    family: i32,
    /// It never was anything but the kernel's.
    plain: bool,
    /// It is the kernel's from now on.
    kernel_only: AtomicBool,
    nonblocking: AtomicBool,
    /// SO_RCVTIMEO in nanoseconds; 0: none.
    patience: AtomicU64,
    /// What is known about the twin: [`twin::DATA`], [`twin::ERROR`], and what was shut.
    twin: AtomicU8,
    /// An error of the twin that was found while looking for something else.
    error: AtomicI32,
    /// Times that the kernel reported something about the twin.
    twin_edges: AtomicU64,
    /// When the twin was looked at last.
    looked: AtomicU64,
    /// Datagrams taken from rings since then.
    served: AtomicU32,
    /// The client with which the address is registered.
    epoch: AtomicU64,
    address: Latch<Address>,
    incoming: Latch<incoming::Incoming>,
    /// The number of what other machines ring; -1: none.
    bell: AtomicI32,
    outgoing: Latch<outgoing::Outgoing>,
    request: cost::Request,
}

#[derive(Clone, Copy, Default)]
struct Address {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
}

impl Datagram {
    fn new(family: i32, plain: bool) -> Self {
        Self {
            family,
            plain,
            kernel_only: AtomicBool::new(plain),
            nonblocking: AtomicBool::new(false),
            patience: AtomicU64::new(0),
            twin: AtomicU8::new(0),
            error: AtomicI32::new(0),
            twin_edges: AtomicU64::new(1),
            looked: AtomicU64::new(0),
            served: AtomicU32::new(0),
            epoch: AtomicU64::new(0),
            address: Latch::new(Address::default()),
            incoming: Latch::new(incoming::Incoming::default()),
            bell: AtomicI32::new(-1),
            outgoing: Latch::new(outgoing::Outgoing::default()),
            request: cost::Request::default(),
        }
    }

    /// User-level readiness; none for a socket that is the kernel's.
    #[must_use]
    pub fn pollable(&self) -> Option<&dyn Pollable> {
        (!self.plain).then_some(self)
    }

    /// Takes what the daemon has to say.
    #[inline]
    fn hear(&self) {
        let waiting = {
            let incoming = self.incoming.lock();
            match &incoming.client {
                Some(client) if client.has_notices() => Some(client.clone()),
                _ => None,
            }
        };
        if let Some(client) = waiting {
            registry::hear(&client);
        }
    }

    pub(crate) fn after_fork(&self) {
        self.epoch.store(0, Ordering::Relaxed);
        self.bell.store(-1, Ordering::Relaxed);
        self.incoming.lock().after_fork();
        self.outgoing.lock().after_fork();
    }

    pub(crate) fn before_fork(&self) {
        self.address.acquire();
        self.incoming.acquire();
        self.outgoing.acquire();
    }

    pub(crate) fn release(&self) {
        self.outgoing.release();
        self.incoming.release();
        self.address.release();
    }
}

impl Pollable for Datagram {
    #[inline]
    fn ready(&self) -> Events {
        let twin = self.twin.load(Ordering::Acquire);
        let mut events = Events::OUT;
        if twin & twin::DATA != 0 {
            events |= Events::IN;
        }
        if twin & twin::ERROR != 0 {
            events |= Events::ERR;
        }
        if twin & twin::SHUT != 0 {
            events |= Events::IN | Events::RDHUP;
            if twin & twin::MUTE != 0 {
                events |= Events::HUP;
            }
        }
        let waiting = {
            let incoming = self.incoming.lock();
            if incoming.readable() {
                return events | Events::IN;
            }
            match &incoming.client {
                Some(client) if client.has_notices() => client.clone(),
                _ => return events,
            }
        };
        registry::hear(&waiting);
        if self.incoming.lock().readable() {
            events |= Events::IN;
        }
        events
    }

    fn arm(&self, want: Events) {
        let (on, elsewhere) = (want.has(Events::IN), self.bell().is_some());
        let far = {
            let mut incoming = self.incoming.lock();
            let armed = incoming.arm(on);
            match armed && on && elsewhere {
                true => incoming.elsewhere(),
                false => Vec::new(),
            }
        };
        for far in far {
            far.arm();
        }
        fence(Ordering::SeqCst);
    }

    fn woken(&self, fd: RawFd, twin: Events) {
        if twin.has(Events::BELL) {
            let far = self.incoming.lock().elsewhere();
            far.iter().for_each(|far| far.silence());
            self.incoming.lock().leave_the_lost();
        }
        if twin == Events::BELL {
            // The kernel was asked about both, and the twin has nothing.
            self.looked.store(clock::ticks(), Ordering::Relaxed);
        } else {
            self.twin_edges.fetch_add(1, Ordering::Relaxed);
        }
        if twin.has(Events::RDHUP) {
            self.twin.fetch_or(twin::SHUT, Ordering::AcqRel);
        }
        if twin.has(Events::ERR) {
            self.twin.fetch_or(twin::ERROR, Ordering::AcqRel);
        } else if twin.has(Events::IN) {
            self.look_at_twin(fd);
        }
        self.hear();
    }

    fn edges(&self) -> (u64, u64) {
        let incoming = self.incoming.lock().arrived();
        (incoming + self.twin_edges.load(Ordering::Relaxed), 1)
    }

    fn twin_interest(&self, want: Events) -> Events {
        want & !(Events::OUT | Events::WRNORM | Events::WRBAND) | Events::IN | Events::RDHUP
    }

    fn heartbeat(&self) {
        // Who sleeps for long must not keep a daemon that was given up: it would take what this process had for in use.
        let lost = {
            let mut incoming = self.incoming.lock();
            incoming.take_lost_client()
        };
        drop(lost);
    }

    fn bell(&self) -> Option<RawFd> {
        let bell = self.bell.load(Ordering::Relaxed);
        (bell >= 0).then_some(bell)
    }

    fn shared(&self) -> bool {
        self.incoming.lock().shared()
    }
}

/// recvmsg and all that is made of it. None: the kernel does it.
///
/// # Safety
/// `message` is the program's, as recvmsg(2) says.
pub unsafe fn receive(
    fd: RawFd,
    description: &Description,
    message: &mut libc::msghdr,
    flags: i32,
) -> Option<Result<usize, Errno>> {
    if let Object::Pending(pending) = description.object()
        && pending.kind == libc::SOCK_DGRAM
    {
        // SAFETY: by the caller.
        let done = unsafe { setup::receive_pending(fd, description, message, flags) };
        if done.is_some() {
            return done;
        }
    }
    let Object::Datagram(datagram) = description.object() else {
        return None;
    };
    if datagram.plain || flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0 || lacks(message) {
        return None;
    }
    // SAFETY: by the caller.
    let received = unsafe { datagram.receive(fd, description, message, flags) };
    let length = received.unwrap_or(Ok(0)).unwrap_or(0);
    cost::call(Work::Receive(length));
    received
}

impl Datagram {
    /// # Safety
    /// As [`receive`].
    unsafe fn receive(
        &self,
        fd: RawFd,
        description: &Description,
        message: &mut libc::msghdr,
        flags: i32,
    ) -> Option<Result<usize, Errno>> {
        let waits = flags & libc::MSG_DONTWAIT == 0 && !self.nonblocking.load(Ordering::Relaxed);
        let mut deadline = None;
        loop {
            // Rings come first, but the twin is not left alone for long.
            let starved = self.served.load(Ordering::Relaxed) > 0 && self.is_due();
            if starved {
                // SAFETY: by the caller.
                if let Some(result) = unsafe { self.receive_from_twin(fd, message, flags) } {
                    return Some(result);
                }
            }
            // SAFETY: by the caller.
            if let Some(count) = unsafe { self.receive_from_rings(message, flags) } {
                self.served.fetch_add(1, Ordering::Relaxed);
                self.request.received();
                return Some(Ok(count));
            }
            let known = self.twin.load(Ordering::Acquire);
            if known & (twin::DATA | twin::ERROR) != 0 || self.is_due() {
                // SAFETY: by the caller.
                if let Some(result) = unsafe { self.receive_from_twin(fd, message, flags) } {
                    return Some(result);
                }
            }
            if known & twin::SHUT != 0 {
                return Some(if waits { Ok(0) } else { Err(Errno::AGAIN) });
            }
            self.hear();
            self.maintain(fd, description);
            if self.ready().has(Events::IN | Events::ERR) {
                continue;
            }
            if !waits {
                return Some(Err(Errno::AGAIN));
            }
            let patience = self.patience.load(Ordering::Relaxed);
            if patience > 0 && deadline.is_none() {
                deadline = Some(Deadline::after(Duration::from_nanos(patience)));
            }
            match wait_one(fd, description, self, Events::IN, deadline) {
                Wait::Ready => {}
                Wait::TimedOut => return Some(Err(Errno::AGAIN)),
                Wait::Interrupted if patience == 0 && signals::goes_on() => {}
                Wait::Interrupted => return Some(Err(Errno::INTR)),
                Wait::Closed => return Some(Err(Errno::BADF)),
            }
        }
    }
}

/// Whether a message's vectors are said to be where nothing is: the kernel says what is wrong.
#[inline(always)]
fn lacks(message: &libc::msghdr) -> bool {
    message.msg_iov.is_null() && message.msg_iovlen > 0
}

/// FIONREAD: the length of the next datagram. None: the kernel knows.
pub fn queued(_fd: RawFd, description: &Description) -> Option<i32> {
    let Object::Datagram(datagram) = description.object() else {
        return None;
    };
    if datagram.plain || datagram.twin.load(Ordering::Acquire) & twin::DATA != 0 {
        return None;
    }
    datagram.hear();
    let length = datagram.incoming.lock().next_length();
    // Not the kernel's word: a doorbell may be in its queue.
    Some(length.map_or(0, |length| i32::try_from(length).unwrap_or(i32::MAX)))
}

impl Datagram {
    fn is_due(&self) -> bool {
        kernel_due(self.looked.load(Ordering::Relaxed), clock::ticks())
    }

    /// The client with which the address is registered from now on: its notices wake who sleeps, where they may be about other
    /// machines.
    fn serve(&self, client: Arc<Client>) {
        let mut incoming = self.incoming.lock();
        if let (Some(bells), Some(before)) = (&incoming.bells, &incoming.client) {
            bells.remove(before.notice_socket());
        }
        if incoming.bells.is_none() && client.management().is_some() && process::has_room_apart() {
            incoming.bells = bells::Bells::new();
            let number = incoming.bells.as_ref().map(bells::Bells::number);
            self.bell.store(number.unwrap_or(-1), Ordering::Relaxed);
            if let Some(bells) = &incoming.bells {
                for far in incoming.elsewhere() {
                    bells.add(far.bell_fd());
                }
            }
        }
        if let Some(bells) = &incoming.bells {
            bells.add(client.notice_socket());
        }
        incoming.client = Some(client);
        incoming.end_the_lost();
    }

    /// Registers the address anew if there is another client than it was registered with.
    fn maintain(&self, fd: RawFd, description: &Description) {
        if self.kernel_only.load(Ordering::Relaxed) {
            return;
        }
        let registered = self.epoch.load(Ordering::Relaxed);
        let lost = self
            .incoming
            .lock()
            .client
            .as_ref()
            .is_none_or(|client| client.is_lost());
        if (registered != process::epoch() || lost) && process::client().is_some() {
            self.register(fd, description);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shm::channel::{Channel, End};

    use super::*;

    #[test]
    fn a_child_shares_the_rings_of_its_parent_and_asks_anew() {
        let channel = Arc::new(Channel::create(64).unwrap().0);
        let socket = Datagram::new(libc::AF_INET, false);
        let from = "127.0.0.1:1".parse().unwrap();
        let end = End::new(channel, 1);
        socket.incoming.lock().attach(1, from, (end, None), None);
        socket.epoch.store(7, Ordering::Relaxed);
        assert!(!socket.shared());
        socket.after_fork();
        // Who sleeps looks up often, for another process may have disarmed the ring.
        assert!(socket.shared());
        assert_eq!(socket.epoch.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_kernel_is_not_looked_at_again_at_once() {
        let socket = Datagram::new(libc::AF_INET, false);
        assert!(socket.is_due());
        // Between the two a busy machine may run something else, but not each time.
        assert!((0..10_000).any(|_| {
            socket.looked.store(clock::ticks(), Ordering::Relaxed);
            !socket.is_due()
        }));
    }
}
