// SPDX-License-Identifier: Apache-2.0
//! An accelerated TCP connection: the kernel socket (twin) stays under the descriptor, the data goes through a channel.
//!
//! Everything that belongs to the connection and not to this process lies in the channel's memory, so that the processes
//! that share the connection after a fork see one state.

mod abandon;
mod far;
mod finish;
pub(crate) mod mark;
mod readiness;
mod receive;
mod retire;
pub(crate) mod seat;
mod send;
mod stall;
mod stand_in;

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use shm::channel::{Control, End, flags, seat as table};

use crate::ready::Events;

pub use far::Far;

/// Result of a call.
pub type Result<T = usize> = std::result::Result<T, Errno>;

/// Bits of the description's state that processes share (`Control::words[STATE]`).
mod state {
    /// The twin says that the peer's last descriptor is closed.
    pub const GONE: u32 = 1;
    /// A write after the peer's close was taken: the next one fails.
    pub const BROKEN: u32 = 2;
    /// The error has been told.
    pub const TOLD: u32 = 4;
    /// The receiving direction was shut down.
    pub const READ_SHUT: u32 = 8;
    /// The twin's receiving direction was shut down, to wake sleepers.
    pub const TWIN_SHUT: u32 = 16;
    /// Something came through the twin, or its end, before the peer had attached: the peer uses the kernel.
    pub const STRANGE: u32 = 32;
    /// The twin says that a peer on another machine is gone; its last bytes may be on their way.
    pub const TWIN_GONE: u32 = 64;
    /// The acceptor on another machine has the channel; its word is on its way.
    pub const COMING: u32 = 128;
    /// A client on another machine uses the kernel: it has sent bytes through the twin, which is never rung from there.
    pub const PLAIN: u32 = 256;
    /// Somebody sends through the twin what lay in the ring, or has died over it.
    pub const FLUSHING: u32 = 512;
    /// What a retired peer had not read has been sent through the twin.
    pub const FLUSHED: u32 = 1024;
    /// A reader was told the peer's end.
    pub const HEARD: u32 = 2048;
    /// A process has gone over to the kernel, since an end has retired.
    pub const OVER: u32 = 4096;
}

/// Use of `Control::words`.
mod word {
    /// Bits of [`super::state`].
    pub const STATE: usize = 0;
    /// Counts how often a writer that found no room got some.
    pub const ROOM: usize = 1;
    /// Since when a writer finds no room, see [`super::stall`]; 0: none that was not told of room since.
    pub const STARVED: usize = 2;
    /// Receive time limit, tens of microseconds; 0: none.
    pub const RECEIVE_LIMIT: usize = 3;
    /// Send time limit, tens of microseconds; 0: none.
    pub const SEND_LIMIT: usize = 4;
    /// Users that are counted already for programs that processes are about to become.
    pub const RESERVED: usize = 5;
    /// Bells rung through the twin, or about to be; see [`super::retire`].
    pub const BELLS: usize = 6;
    /// The peer's bells that were taken out of the twin.
    pub const DRAINED: usize = 7;
    /// Bells that are in the twin.
    pub const RUNG: usize = 8;
    /// What the program has set as TCP_NOTSENT_LOWAT; see [`super::mark`].
    pub const NOTSENT: usize = 9;
}

/// Bits of `Control::options`.
pub mod option {
    /// O_NONBLOCK.
    pub const NONBLOCKING: u32 = 1;
    /// SO_LINGER with a time of zero: close resets.
    pub const RESET: u32 = 2;
    /// What the program believes of TCP_NODELAY.
    pub const NODELAY: u32 = 4;
    /// What the program believes of TCP_CORK.
    pub const CORK: u32 = 8;
}

const CONNECTING: u8 = 0;
const OPEN: u8 = 1;
/// The handshake failed; the twin knows why.
const FAILED: u8 = 2;
/// The kernel's socket from now on.
const KERNEL: u8 = 3;

/// An accelerated connection.
pub struct Stream {
    end: End,
    channel: u64,
    intent: u64,
    phase: AtomicU8,
    looked: AtomicU64,
    /// The descriptor by which the connection was used last, once its peer has retired; -1: never.
    used_as: AtomicI32,
    born: u64,
    /// Which daemon made the channel.
    daemon: u64,
    /// The peer is on another machine.
    far: Option<Far>,
    /// In a guest of the virtual rack: what the program owes simulated time for.
    request: crate::cost::Request,
}

impl Stream {
    /// The connection whose channel `end` is; `open` says whether the twin is connected already. `intent` is the
    /// client's, by which it can be withdrawn.
    pub fn new(end: End, channel: u64, intent: u64, open: bool, far: Option<Far>) -> Self {
        let own = end.own();
        own.refs.fetch_add(1, Ordering::AcqRel);
        let phase = AtomicU8::new(if open { OPEN } else { CONNECTING });
        let born = crate::raw::ticks();
        Self {
            end,
            channel,
            intent,
            phase,
            looked: AtomicU64::new(born),
            used_as: AtomicI32::new(-1),
            born,
            daemon: crate::process::identity(),
            far,
            request: crate::cost::Request::default(),
        }
    }

    /// Whether the peer is on another machine.
    pub fn is_far(&self) -> bool {
        self.far.is_some()
    }

    /// Has a daemon that sleeps carry what this end says of itself.
    pub fn call_far(&self) {
        if let Some(far) = &self.far {
            far.call();
        }
    }

    /// The channel's number at the daemon.
    pub fn channel(&self) -> u64 {
        self.channel
    }

    /// Whether another process, or the next program, would get the channel from this process's daemon.
    pub(crate) fn is_served_by(&self, living: Option<u64>) -> bool {
        living == Some(self.daemon)
    }

    /// This end of the channel.
    pub fn end(&self) -> &End {
        &self.end
    }

    #[inline(always)]
    fn own(&self) -> &Control {
        self.end.own()
    }

    #[inline(always)]
    fn peer(&self) -> &Control {
        self.end.peer()
    }

    /// What this end says about itself.
    #[inline(always)]
    fn flags(&self) -> &AtomicU32 {
        self.end.flags()
    }

    /// What the other end says about itself.
    #[inline(always)]
    fn peer_flags(&self) -> &AtomicU32 {
        self.end.peer_flags()
    }

    /// Whether the peer has come to the channel.
    #[inline(always)]
    fn attached(&self) -> bool {
        self.peer_flags().load(Ordering::Acquire) & flags::ATTACHED != 0
    }

    /// Whether the peer has come, or is known to come.
    fn expected(&self) -> bool {
        self.attached() || self.state() & state::COMING != 0
    }

    #[inline(always)]
    fn state(&self) -> u32 {
        self.own().words[word::STATE].load(Ordering::Acquire)
    }

    /// Sets bits of the state; returns what it was.
    fn note(&self, bits: u32) -> u32 {
        self.own().words[word::STATE].fetch_or(bits, Ordering::AcqRel)
    }

    /// Whether the connection has come about and is not the kernel's.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.phase.load(Ordering::Acquire) == OPEN
    }

    /// Whether the connection failed.
    #[inline]
    pub fn is_failed(&self) -> bool {
        self.phase.load(Ordering::Acquire) == FAILED
    }

    /// Whether the connection has gone back to the kernel.
    #[inline]
    pub fn is_kernel(&self) -> bool {
        self.phase.load(Ordering::Acquire) == KERNEL
    }

    /// Whether the socket is a twin: of a connection in a channel, or one under way to it.
    #[inline]
    pub fn is_twin(&self) -> bool {
        !self.is_kernel() && !self.is_failed()
    }

    /// Finds out whether a connection under way has come about. False: still under way, or failed; the kernel serves it.
    pub fn settle(&self, fd: RawFd) -> bool {
        if self.phase.load(Ordering::Acquire) != CONNECTING {
            return self.is_open();
        }
        let twin = borrow(fd);
        let mut polled = [rustix::event::PollFd::new(
            &twin,
            rustix::event::PollFlags::OUT,
        )];
        if !matches!(
            rustix::event::poll(&mut polled, Some(&rustix::time::Timespec::default())),
            Ok(1..)
        ) {
            return false;
        }
        self.settled(fd, rustix::net::getpeername(twin).is_ok())
    }

    /// The connection has come about, or has failed.
    pub fn settled(&self, fd: RawFd, connected: bool) -> bool {
        let phase = if connected { OPEN } else { FAILED };
        let before =
            self.phase
                .compare_exchange(CONNECTING, phase, Ordering::AcqRel, Ordering::Acquire);
        if before.is_ok() && !connected {
            self.unmark(fd);
            crate::process::withdraw(self.intent);
        }
        self.is_open()
    }

    /// O_NONBLOCK as the program set it.
    #[inline(always)]
    pub fn nonblocking(&self) -> bool {
        self.own().options.load(Ordering::Relaxed) & option::NONBLOCKING != 0
    }

    /// Sets or clears bits of the options.
    pub fn set_option(&self, bits: u32, on: bool) {
        if on {
            self.own().options.fetch_or(bits, Ordering::Relaxed);
        } else {
            self.own().options.fetch_and(!bits, Ordering::Relaxed);
        }
    }

    /// Whether any of the option's bits is set.
    pub fn has_option(&self, bits: u32) -> bool {
        self.own().options.load(Ordering::Relaxed) & bits != 0
    }

    /// Sets a time limit; None: wait for ever.
    pub fn set_timeout(&self, send: bool, limit: Option<Duration>) {
        let tens = limit.map_or(0, |limit| {
            limit
                .as_micros()
                .div_ceil(10)
                .clamp(1, u128::from(u32::MAX)) as u32
        });
        self.limit(send).store(tens, Ordering::Relaxed);
    }

    fn timeout(&self, send: bool) -> Option<Duration> {
        match self.limit(send).load(Ordering::Relaxed) {
            0 => None,
            tens => Some(Duration::from_micros(u64::from(tens) * 10)),
        }
    }

    fn limit(&self, send: bool) -> &AtomicU32 {
        &self.own().words[if send {
            word::SEND_LIMIT
        } else {
            word::RECEIVE_LIMIT
        }]
    }

    #[inline(always)]
    fn may_ring(&self) -> bool {
        table::may_ring(self.peer_flags().load(Ordering::Acquire))
    }

    /// Rings the doorbell if the peer sleeps for one of `bits`.
    #[inline(always)]
    fn ring_if_armed(&self, fd: RawFd, bits: u32) -> bool {
        // A peer that is not attached yet looks at the ring when it does. Until then, and if it never does, the twin's bytes
        // are data to it: see `seat`.
        if self.end.peer_armed(bits) && (self.may_ring() || self.far.is_some()) {
            self.ring(fd, bits);
            return true;
        }
        false
    }

    #[cold]
    fn ring(&self, fd: RawFd, bits: u32) {
        if let Some(far) = &self.far
            && far.calls_always()
        {
            return far.call();
        }
        if self.peer().armed.fetch_and(!bits, Ordering::AcqRel) & bits == 0 {
            return;
        }
        self.own()
            .counters
            .doorbells
            .fetch_add(1, Ordering::Relaxed);
        if let Some(far) = &self.far {
            return far.call();
        }
        if !retire::count_bell(self.own()) {
            return;
        }
        let rung = rustix::net::send(borrow(fd), &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        retire::bell_rung(self.own(), rung.is_ok());
        // If there is no room, there are unread bytes enough to wake the peer.
        if matches!(rung, Err(Errno::PIPE | Errno::CONNRESET)) {
            self.note(state::GONE);
        }
    }

    /// Takes the doorbell's bytes out of the twin; notices its end. From another machine nobody rings that way: bytes there
    /// are a peer's that uses the kernel although it has come to the channel, and nothing may be lost in silence.
    fn drain(&self, fd: RawFd) {
        let mut scratch = [0u8; 256];
        // Whoever retires takes this lock, too: so what comes is bells until the flag is seen. From then on the next call, which
        // sends on what the peer has not read, takes them, and the last one not before.
        let Ok(_guard) = self.end.lock_receiver() else {
            return;
        };
        let own = self.flags().load(Ordering::Acquire);
        if table::may_hold_data(own, self.peer_flags().load(Ordering::Acquire)) {
            return;
        }
        loop {
            match rustix::net::recv(borrow(fd), &mut scratch, RecvFlags::DONTWAIT) {
                Ok((0, _)) if self.state() & state::TWIN_SHUT != 0 => return,
                Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE | Errno::TIMEDOUT) => {
                    match &self.far {
                        Some(far) => self.far_end(far),
                        None => {
                            self.note(state::GONE);
                        }
                    }
                    return;
                }
                Ok((1.., _)) if self.far.is_some() => {
                    self.flags().fetch_or(flags::REVOKED, Ordering::AcqRel);
                    crate::process::trace(|| {
                        let channel = self.channel;
                        format!("channel {channel}: reset, its peer uses the kernel after all")
                    });
                    return;
                }
                Ok((count, _)) => {
                    self.own().words[word::DRAINED].fetch_add(count as u32, Ordering::AcqRel);
                    if count < scratch.len() {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Asks the kernel about the twin if nobody has for a while: a peer that was killed says nothing in the ring.
    #[inline(always)]
    fn look(&self, fd: RawFd) {
        let now = crate::raw::ticks();
        if now.wrapping_sub(self.looked.load(Ordering::Relaxed)) > crate::raw::MILLISECOND {
            self.looked.store(now, Ordering::Relaxed);
            self.look_now(fd);
        }
    }

    #[cold]
    fn look_now(&self, fd: RawFd) {
        use rustix::event::{PollFd, PollFlags};
        if let Some(far) = &self.far {
            self.look_far(far);
            self.look_for_plain(fd);
            if self.state() & state::TWIN_GONE != 0 {
                return;
            }
        }
        let twin = borrow(fd);
        let mut polled = [PollFd::new(&twin, PollFlags::RDHUP)];
        if matches!(
            rustix::event::poll(&mut polled, Some(&rustix::time::Timespec::default())),
            Ok(1..)
        ) {
            let events = Events(u32::from(polled[0].revents().bits()));
            self.notice_end(events);
        }
    }

    fn notice_end(&self, twin: Events) {
        let mut signs = Events::HUP | Events::ERR;
        if self.state() & state::TWIN_SHUT == 0 {
            signs |= Events::RDHUP;
        }
        if twin.has(signs)
            && let Some(far) = &self.far
        {
            if !self.expected() {
                self.note(state::STRANGE);
            }
            return self.far_end(far);
        }
        // Behind the last bell the twin speaks for the kernel's socket.
        if twin.has(signs) && !self.is_retired() {
            self.note(if self.attached() {
                state::GONE
            } else {
                state::STRANGE
            });
        }
    }

    /// Whether the peer is gone with bytes of ours that it never read.
    fn left_unread(&self) -> bool {
        let sent = self.own().sender.next.load(Ordering::Acquire);
        self.end.peer_position() != sent
    }

    /// Whether a daemon has broken it off.
    fn is_revoked(&self) -> bool {
        let both = [self.peer_flags(), self.flags()].map(|word| word.load(Ordering::Acquire));
        (both[0] | both[1]) & flags::REVOKED != 0
    }

    /// Whether the connection was broken off rather than ended.
    fn is_reset(&self) -> bool {
        let peer = self.peer_flags().load(Ordering::Acquire);
        if self.is_revoked() || peer & flags::RESET != 0 || self.end.receiver().is_corrupt() {
            return true;
        }
        self.state() & state::GONE != 0
            && peer & (flags::CLOSED | flags::FIN) == 0
            && self.left_unread()
    }

    /// The error that was not told yet. The kernel chooses it by how far the connection was when it was broken off; one that both
    /// ends had ended by then gets none.
    fn pending_error(&self) -> Option<Errno> {
        let state = self.state();
        let broken = state & state::BROKEN != 0;
        if !broken && !self.is_reset() || state & state::TOLD != 0 {
            return None;
        }
        let ended = self.peer_flags().load(Ordering::Acquire) & flags::FIN != 0;
        let shut = self.flags().load(Ordering::Acquire) & flags::FIN != 0;
        match (ended || broken, shut) {
            (true, true) => None,
            (true, false) => Some(Errno::PIPE),
            (false, _) => Some(Errno::CONNRESET),
        }
    }

    /// The pending error, told once, as SO_ERROR does.
    pub fn take_error(&self) -> Option<Errno> {
        let error = self.pending_error()?;
        (self.note(state::TOLD) & state::TOLD == 0).then_some(error)
    }

    /// Bytes that can be read now (FIONREAD).
    pub fn queued_bytes(&self) -> usize {
        self.end.receiver().queued_bytes()
    }

    /// Lines of what was sent and the peer has not read, as far as this machine knows.
    pub fn unread_lines(&self) -> usize {
        let sent = self.own().sender.next.load(Ordering::Acquire);
        sent.saturating_sub(self.end.peer_position()) as usize
    }

    /// Before an exec, by the process itself or by a child of vfork (`borrowed`), which is no user yet. The next program
    /// is a user if the connection goes along.
    pub fn before_exec(&self, borrowed: bool, along: bool) {
        if along {
            self.own().words[word::RESERVED].fetch_add(1, Ordering::AcqRel);
        }
        if borrowed == along {
            self.count_user(along);
        }
    }

    /// Undoes [`Stream::before_exec`].
    pub fn after_exec_failed(&self, borrowed: bool, along: bool) {
        if along {
            self.take_reserved();
        }
        if borrowed == along {
            self.count_user(!along);
        }
    }

    /// Whether this process was counted as a user before its exec.
    pub fn take_reserved(&self) -> bool {
        let reserved = &self.own().words[word::RESERVED];
        reserved
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| {
                count.checked_sub(1)
            })
            .is_ok()
    }

    /// Before a fork: the child will be one more user. After one that failed: it is not.
    pub fn count_user(&self, more: bool) {
        if more {
            self.own().refs.fetch_add(1, Ordering::AcqRel);
        } else {
            self.own().refs.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The descriptor for the length of a call.
#[inline(always)]
pub(crate) fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: only used for system calls on a number that the program passed; the kernel checks it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
