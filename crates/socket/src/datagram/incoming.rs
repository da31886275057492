// SPDX-License-Identifier: Apache-2.0
//! The receiving side: a ring for each sender.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ipc::client::Client;
use shm::channel::{End, armed, flags};

use super::Datagram;
use super::bells::{self, Bells};
use crate::address;
use crate::stream::Far;

/// A sender's ring.
pub(super) struct Ring {
    channel: u64,
    from: SocketAddr,
    end: End,
    /// The sender is on another machine.
    far: Option<Arc<Far>>,
    /// The sender is gone: to be dropped when it is empty.
    ended: bool,
    /// Places in the ring from which on its datagrams count no more, and do again, in turns: while the socket is connected
    /// to somebody else they are filtered, but what was queued before stays. None for nearly all rings.
    turns: Vec<u64>,
}

impl Ring {
    fn readable(&self) -> bool {
        self.end.receiver().readable() && (self.turns.is_empty() || self.has_visible())
    }

    /// Whether one of the datagrams counts.
    #[cold]
    fn has_visible(&self) -> bool {
        let receiver = self.end.receiver();
        let passed = passed(&self.turns, receiver.position());
        let later = || {
            let again = self.turns.get(passed);
            again.is_some_and(|again| receiver.arrived() > *again)
        };
        passed.is_multiple_of(2) || later()
    }

    /// What comes from now on counts, or not.
    fn mute(&mut self, on: bool) {
        if on == self.turns.len().is_multiple_of(2) {
            let here = self.end.receiver().arrived();
            if self.turns.last() == Some(&here) {
                self.turns.pop();
            } else {
                self.turns.push(here);
            }
        }
    }
}

/// How many of the turns are at `position` or before it. An odd number: what lies there does not count.
fn passed(turns: &[u64], position: u64) -> usize {
    turns.partition_point(|turn| *turn <= position)
}

/// Drops the datagrams in front that do not count. Whoever calls holds the receiver's lock.
#[cold]
fn uncover<T: shm::ring::Target>(turns: &mut Vec<u64>, receiver: &mut shm::ring::Receiver<'_, T>) {
    while receiver.peek().is_some() && passed(turns, receiver.position()) % 2 == 1 {
        receiver.release();
    }
    if turns.len().is_multiple_of(2) && passed(turns, receiver.position()) == turns.len() {
        turns.clear();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.end.own().refs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All rings of a socket.
#[derive(Default)]
pub(super) struct Incoming {
    rings: Vec<Ring>,
    /// The ring that is looked at first.
    turn: usize,
    /// Somebody sleeps.
    armed: bool,
    /// Edges of rings that are gone.
    gone: u64,
    /// Where the address is registered.
    pub client: Option<Arc<Client>>,
    /// Rung by other machines; none if there can be none.
    pub bells: Option<Bells>,
}

impl Incoming {
    /// A sender has appeared.
    pub fn attach(
        &mut self,
        channel: u64,
        from: SocketAddr,
        (end, far): (End, Option<Arc<Far>>),
        peer: Option<SocketAddr>,
    ) {
        if self.rings.iter().any(|ring| ring.channel == channel) {
            return;
        }
        end.own().refs.fetch_add(1, Ordering::Relaxed);
        let armed = if self.armed { armed::DATA } else { 0 };
        end.own().armed.store(armed, Ordering::SeqCst);
        if let Some(far) = &far {
            if let Some(bells) = &self.bells {
                bells.add(far.bell_fd());
            }
            if self.armed {
                far.arm();
            }
        }
        let muted = peer.is_some_and(|peer| peer != from);
        self.rings.push(Ring {
            channel,
            from,
            end,
            far,
            ended: false,
            turns: if muted { vec![0] } else { Vec::new() },
        });
    }

    /// A sender is gone.
    pub fn end(&mut self, channel: u64) {
        for ring in &mut self.rings {
            ring.ended |= ring.channel == channel;
        }
        self.tidy();
    }

    /// A daemon that is gone rings no more, and would be heard for ever.
    pub fn leave_the_lost(&mut self) {
        if let (Some(bells), Some(client)) = (&self.bells, &self.client)
            && bells::is_over(client.notice_socket())
        {
            bells.remove(client.notice_socket());
        }
    }

    /// The client, if it is of no more use.
    pub fn take_lost_client(&mut self) -> Option<Arc<Client>> {
        if !self.client.as_ref()?.is_lost() {
            return None;
        }
        if let (Some(bells), Some(client)) = (&self.bells, &self.client) {
            bells.remove(client.notice_socket());
        }
        self.client.take()
    }

    /// With a daemon its channels to other machines are gone.
    pub fn end_the_lost(&mut self) {
        for ring in &mut self.rings {
            let lost = |far: &Arc<Far>| far.daemon_is_gone();
            ring.ended |= ring.far.as_ref().is_some_and(lost);
        }
        self.tidy();
    }

    /// Only datagrams of `peer` count from now on; those that are here already stay.
    pub fn connect(&mut self, peer: Option<SocketAddr>) {
        for ring in &mut self.rings {
            ring.mute(peer.is_some_and(|peer| peer != ring.from));
        }
    }

    #[inline]
    pub fn readable(&self) -> bool {
        self.rings.iter().any(Ring::readable)
    }

    pub fn next_length(&mut self) -> Option<usize> {
        for ring in &mut self.rings {
            if !ring.turns.is_empty()
                && let Ok(_guard) = ring.end.lock_receiver()
            {
                uncover(&mut ring.turns, &mut ring.end.receiver());
            }
        }
        self.rings
            .iter()
            .filter(|ring| ring.readable())
            .find_map(|ring| ring.end.receiver().peek().map(|message| message.len()))
    }

    /// Asks the senders to ring, or not to.
    ///
    /// Says whether they were asked.
    pub fn arm(&mut self, on: bool) -> bool {
        if on == self.armed {
            // A bell of the NIC rings once.
            return on;
        }
        self.armed = on;
        for ring in &self.rings {
            let own = ring.end.own();
            if on {
                own.counters.sleeps.fetch_add(1, Ordering::Relaxed);
            }
            own.armed
                .store(if on { armed::DATA } else { 0 }, Ordering::SeqCst);
        }
        true
    }

    /// The ends to other machines.
    pub fn elsewhere(&self) -> Vec<Arc<Far>> {
        let far = |ring: &Ring| ring.far.clone();
        self.rings.iter().filter_map(far).collect()
    }

    /// Nothing more is taken from other machines than is here, or on its way.
    pub fn close_elsewhere(&self) -> Vec<Arc<Far>> {
        for ring in self.rings.iter().filter(|ring| ring.far.is_some()) {
            ring.end.flags().fetch_or(flags::CLOSED, Ordering::Release);
        }
        self.elsewhere()
    }

    /// Messages that ever arrived.
    pub fn arrived(&self) -> u64 {
        self.gone
            + self
                .rings
                .iter()
                .map(|ring| ring.end.receiver().arrived())
                .sum::<u64>()
    }

    /// Whether another process reads the same rings.
    pub fn shared(&self) -> bool {
        self.rings
            .iter()
            .any(|ring| ring.end.own().refs.load(Ordering::Relaxed) > 1)
    }

    pub fn after_fork(&mut self) {
        for ring in &self.rings {
            ring.end.own().refs.fetch_add(1, Ordering::Relaxed);
        }
        // Its descriptors are the parent's business and closed already.
        std::mem::forget(self.client.take());
        // What one took out of the set the other would miss.
        self.bells = None;
    }

    /// Drops rings of senders that are gone, once they are empty.
    fn tidy(&mut self) {
        let mut gone = 0;
        self.rings.retain(|ring| {
            let dead = ring.ended || ring.end.flags().load(Ordering::Relaxed) & flags::REVOKED != 0;
            let keep = !dead || ring.readable();
            if !keep {
                gone += ring.end.receiver().arrived();
                if let (Some(bells), Some(far)) = (&self.bells, &ring.far) {
                    bells.remove(far.bell_fd());
                }
            }
            keep
        });
        self.gone += gone;
    }
}

impl Datagram {
    /// Takes the next datagram of the rings, one ring after the other.
    ///
    /// # Safety
    /// `message` is the program's.
    pub(super) unsafe fn receive_from_rings(
        &self,
        message: &mut libc::msghdr,
        asked: i32,
    ) -> Option<usize> {
        let mut carrier = None;
        // SAFETY: by the caller.
        let taken = unsafe { self.take_from_rings(message, asked, &mut carrier) };
        if let Some(far) = carrier {
            far.call();
        }
        taken
    }

    /// The same; and whose `carrier` is to be called afterwards.
    ///
    /// # Safety
    /// As [`Self::receive_from_rings`].
    unsafe fn take_from_rings(
        &self,
        message: &mut libc::msghdr,
        asked: i32,
        carrier: &mut Option<Arc<Far>>,
    ) -> Option<usize> {
        let mut incoming = self.incoming.lock();
        let count = incoming.rings.len();
        let mut dead = false;
        for step in 0..count {
            let index = (incoming.turn + step) % count;
            let ring = &mut incoming.rings[index];
            let mut receiver = ring.end.receiver();
            if !receiver.readable() {
                dead |= ring.ended;
                continue;
            }
            // Another process may read the same ring.
            let Ok(_guard) = ring.end.lock_receiver() else {
                continue;
            };
            if !ring.turns.is_empty() {
                uncover(&mut ring.turns, &mut receiver);
            }
            let Some(datagram) = receiver.peek() else {
                continue;
            };
            // SAFETY: by the caller.
            let taken = unsafe { scatter(&datagram, message) };
            let length = datagram.len();
            // SAFETY: by the caller.
            unsafe { name(ring.from, self.family, message) };
            message.msg_controllen = 0;
            let cut = if length > taken { libc::MSG_TRUNC } else { 0 };
            message.msg_flags = cut | asked & libc::MSG_CMSG_CLOEXEC;
            if asked & libc::MSG_PEEK == 0 {
                let returned = receiver.release();
                drop(_guard);
                let far = ring.far.as_ref().filter(|_| returned);
                *carrier = bells::caller(&ring.end, far, armed::SPACE);
                incoming.turn = (index + 1) % count;
            }
            return Some(if asked & libc::MSG_TRUNC != 0 {
                length
            } else {
                taken
            });
        }
        if dead {
            incoming.tidy();
        }
        None
    }
}

/// Copies a datagram to the program's buffers. Returns how much of it went there.
///
/// # Safety
/// The buffers are the program's.
unsafe fn scatter(datagram: &shm::ring::Message<'_>, message: &libc::msghdr) -> usize {
    let mut done = 0;
    for index in 0..message.msg_iovlen {
        // SAFETY: by the caller.
        unsafe {
            let part = message.msg_iov.add(index).read_unaligned();
            let count = part.iov_len.min(datagram.len() - done);
            let first = datagram.as_ptr().add(done);
            shm::ring::copy_out(first, part.iov_base.cast::<u8>(), count);
            done += count;
        }
        if done == datagram.len() {
            break;
        }
    }
    done
}

/// Says who sent it, if the program asks.
///
/// # Safety
/// The buffer for the name is the program's.
unsafe fn name(from: SocketAddr, family: i32, message: &mut libc::msghdr) {
    if message.msg_name.is_null() {
        message.msg_namelen = 0;
        return;
    }
    let storage = super::setup::storage(from, family);
    // SAFETY: by the caller.
    unsafe {
        address::Storage::give(
            &storage,
            message.msg_name.cast(),
            &raw mut message.msg_namelen,
        )
    };
}
