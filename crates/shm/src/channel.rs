// SPDX-License-Identifier: Apache-2.0
//! The shared memory between the two ends of an accelerated socket connection.
//!
//! A channel is one memfd of two equal halves; each end owns one. A half is a control page, at whose end the [`Mail`] lies,
//! and the lines of the ring through which its owner receives. Everything an end remembers lies in its control page, so
//! that the processes that share a socket after `fork` share its place in the stream, too. All that its peer has to say
//! is in the mail and in the lines:
//!
//! ```text
//! half 0   | control of the client ... | mail: what the server says | lines: what the server sends |
//! half 1   | control of the server ... | mail: what the client says | lines: what the client sends |
//! ```
//!
//! Between two machines each has memory of its own for the channel, laid out alike. The ends do not know: what an end
//! writes for its peer is [carried](Carrier) to the same place of the other memory, where the other machine may write
//! [no more than that](inbox).
//!
//! In a stream channel the client owns half 0 and the server half 1. In a datagram channel the sender owns half 0 and
//! the receiver half 1, and only the receiver's ring is used.

mod carrier;
mod carry;
mod lock;
pub mod seat;

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

pub use carrier::{Carrier, Outgoing, Words, mark_both};
pub use carry::{Carried, Copy, Hold, Outcome, Progress};
pub use lock::{Guard, Lock, Reentered, fork_epoch, forked, thread_id};

use crate::error::{Error, Result};
use crate::living::{self, Living};
use crate::memory::{Access, Mapping};
use crate::ring::{
    LINE, Mapped, Receiver, ReceiverState, Sender, SenderState, recover_sender, valid_lines,
};

/// Bytes of a control page, its mail included.
pub const CONTROL: usize = 4096;
/// Where the mail of a half lies in it: in front of the lines.
const MAIL: usize = CONTROL - size_of::<Mail>();
/// Lines of a stream channel's rings, unless configured otherwise.
pub const STREAM_LINES: u32 = 2048;
/// Lines of a datagram channel's rings, unless configured otherwise.
pub const DATAGRAM_LINES: u32 = 4096;
/// Most lines of a ring.
pub const MAX_LINES: u32 = 1 << 20;

/// Bits of [`Control::armed`].
pub mod armed {
    /// The owner sleeps until data arrives.
    pub const DATA: u32 = 1;
    /// The owner sleeps until there is space to send.
    pub const SPACE: u32 = 2;
}

/// Bits of `Control::flags`.
pub mod flags {
    /// The owner sends no more.
    pub const FIN: u32 = 1;
    /// The owner has closed.
    pub const CLOSED: u32 = 2;
    /// The owner has closed without taking everything, or wants the connection to be reset.
    pub const RESET: u32 = 4;
    /// The owner has attached to the channel.
    pub const ATTACHED: u32 = 8;
    /// The daemon has revoked the channel.
    pub const REVOKED: u32 = 16;
    /// Of a peer on another machine, by its daemon: nobody has the end any more, and all that was stored has arrived.
    pub const DESERTED: u32 = 32;
    /// The owner uses the kernel from now on, although both had come: what it has not read of its ring the peer sends through
    /// the twin, unless the owner reads on.
    pub const RETIRED: u32 = 64;
    /// The owner has shut down both directions, and may keep the socket for ever: what is sent to it is answered by a reset.
    pub const DEAF: u32 = 128;
    /// In the acceptor's flags: the client waits for it no longer, and uses the kernel.
    pub const ABANDONED: u32 = 256;
    /// For those who share the end: one of them has dissolved the connection, and the socket is the kernel's without it.
    pub const DISSOLVED: u32 = 512;
    /// With `RETIRED`: the owner reads its ring to the end by itself, before it uses the kernel; its peer sends nothing of it on.
    pub const READS_ON: u32 = 1024;
    /// With `RETIRED`: what the peer has not read of its ring goes through the twin, too; the peer reads no more there.
    pub const PASSED: u32 = 2048;
}

/// Events that an end counts.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes rung through the twin.
    pub doorbells: AtomicU64,
    /// Waits that slept in the kernel.
    pub sleeps: AtomicU64,
    /// Waits that ended while spinning.
    pub spins_found: AtomicU64,
    /// Waits that spun without success.
    pub spins_lost: AtomicU64,
    /// Looks at the twin while spinning.
    pub kernel_polls: AtomicU64,
    /// Messages that found no room and were dropped (datagrams).
    pub dropped: AtomicU64,
    /// Messages that went through the kernel although the channel was there (datagrams too long).
    pub kernel_messages: AtomicU64,
    /// Other uses.
    pub spare: [AtomicU64; 9],
}

/// What the peer of a half's owner says besides the lines; written by it (or by who carries for it), and by the daemon.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Mail {
    /// Lines consumed of the ring that the owner sends into.
    pub credit: AtomicU64,
    /// The peer's place in that ring, if the peer is on another machine. On one machine it is in the peer's control page.
    pub position: AtomicU64,
    _pad0: [u64; 6],
    /// What the peer says about itself, [`flags`].
    pub flags: AtomicU32,
    _pad1: [u32; 15],
}

/// The control page of a half, without the mail: its owner's alone.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Control {
    /// What the owner sleeps for, [`armed`]; written by the owner, read by the peer.
    pub armed: AtomicU32,
    /// Threads of all processes that sleep on this end: the socket library's.
    pub sleepers: AtomicU32,
    _pad1: [u32; 14],
    /// Processes times descriptions that use this end.
    pub refs: AtomicU32,
    /// O_NONBLOCK and other options of the description: the socket library's.
    pub options: AtomicU32,
    /// Held while sending: see [`End::lock_sender`].
    pub tx: Lock,
    /// Held while receiving: see [`End::lock_receiver`].
    pub rx: Lock,
    /// More of the description that processes share: the socket library's.
    pub words: [AtomicU32; 10],
    /// Of the ring that the owner sends into.
    pub sender: SenderState,
    /// Where the sender stood when it found no room last: the socket library's.
    pub full_at: AtomicU64,
    _pad4: [u64; 7],
    /// Of the ring that the owner receives from.
    pub receiver: ReceiverState,
    _pad5: [u64; 8],
    /// What happened.
    pub counters: Counters,
    /// The owner's process, for the listing of connections.
    pub pid: AtomicU32,
    /// The owner's twin, as the file system of sockets numbers it: the socket library's.
    pub inode: AtomicU32,
    /// In half 0: the key of the register in which the ends' processes have their numbers.
    pub living: AtomicU64,
    /// What the other machine knows, where several carry.
    pub carried: Carried,
}

const _: () = {
    assert!(std::mem::offset_of!(Control, armed) == 0);
    assert!(std::mem::offset_of!(Control, refs) == 64);
    assert!(std::mem::offset_of!(Control, words) == 88);
    assert!(std::mem::offset_of!(Control, sender) == 128);
    assert!(std::mem::offset_of!(Control, receiver) == 256);
    assert!(std::mem::offset_of!(Control, counters) == 384);
    assert!(size_of::<Control>() <= MAIL);
    // The words are stored by a NIC: alone in their units of 8 and 4 bytes, each writer's lines for themselves.
    assert!(std::mem::offset_of!(Mail, position) == 8);
    assert!(std::mem::offset_of!(Mail, flags) == 64);
    assert!(size_of::<Mail>() == 128);
};

/// Bytes of a channel whose rings have `lines` lines.
#[must_use]
pub const fn bytes(lines: u32) -> usize {
    2 * half_bytes(lines)
}

const fn half_bytes(lines: u32) -> usize {
    CONTROL + lines as usize * LINE
}

/// Where in a channel whose rings have `lines` lines the peer of half `half`'s owner writes: its mail and its lines.
#[must_use]
pub const fn inbox(half: usize, lines: u32) -> Range<usize> {
    let begin = (half & 1) * half_bytes(lines);
    begin + MAIL..begin + half_bytes(lines)
}

/// As [`inbox`], of a channel of so many bytes; none if no channel is of that size.
#[must_use]
pub fn inbox_of(half: usize, bytes: usize) -> Option<Range<usize>> {
    lines_of(bytes).map(|lines| inbox(half, lines))
}

/// Lines of either ring of a channel of so many bytes.
fn lines_of(whole: usize) -> Option<u32> {
    let lines = (whole / 2).saturating_sub(CONTROL) / LINE;
    let lines = u32::try_from(lines).ok()?;
    (valid_lines(lines) && lines <= MAX_LINES && bytes(lines) == whole).then_some(lines)
}

/// A channel in this process's memory.
#[derive(Debug)]
pub struct Channel {
    memory: Mapping,
    lines: u32,
    /// The register of its processes, once it was looked for.
    living: OnceLock<Option<&'static Living>>,
    carried: AtomicBool,
}

impl Channel {
    /// Makes a channel for this process and its children: both ends are armed, so that the first bytes ring the doorbell.
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn create(lines: u32) -> Result<(Self, OwnedFd)> {
        // Before any fork, so that the children have the same.
        living::private();
        Self::create_for(0, lines)
    }

    /// Makes a channel for processes that know the register `key`.
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn create_for(key: u64, lines: u32) -> Result<(Self, OwnedFd)> {
        if !valid_lines(lines) || lines > MAX_LINES {
            return Err(Error::Lines { lines });
        }
        let fd = crate::memory::create("ipnuma-channel", bytes(lines))?;
        let channel = Self::map(&fd)?;
        channel.prepare(key);
        Ok((channel, fd))
    }

    /// Makes fresh memory full of zeros a channel for processes that know the register `key`.
    pub fn prepare(&self, key: u64) {
        self.control(0).living.store(key, Ordering::Relaxed);
        for half in 0..2 {
            self.control(half)
                .armed
                .store(armed::DATA | armed::SPACE, Ordering::Relaxed);
        }
    }

    /// Maps a channel; its size tells the number of lines.
    ///
    /// # Errors
    /// If the memory is no channel's or cannot be mapped.
    pub fn map(fd: impl std::os::fd::AsFd) -> Result<Self> {
        Self::over(Mapping::whole(fd.as_fd(), Access::ReadWrite)?)
    }

    /// As [`Channel::map`], in memory without seals of which the caller knows that it has `len` bytes and never shrinks.
    ///
    /// # Errors
    /// If that is no channel's size, or the mapping is refused.
    pub fn device(fd: impl std::os::fd::AsFd, len: usize) -> Result<Self> {
        Self::over(Mapping::device(fd, len, Access::ReadWrite)?)
    }

    fn over(memory: Mapping) -> Result<Self> {
        let bytes = memory.len();
        let lines = lines_of(bytes).ok_or(Error::ChannelSize { bytes })?;
        Ok(Self {
            memory,
            lines,
            living: OnceLock::new(),
            carried: AtomicBool::new(false),
        })
    }

    /// Says that the lines are carried to another machine, and that this memory is only a copy.
    pub fn set_carried(&self) {
        self.carried.store(true, Ordering::Relaxed);
    }

    /// The register of its processes. Where this process does not know it nobody is taken for dead.
    #[inline(always)]
    fn living(&self) -> Option<&'static Living> {
        *self
            .living
            .get_or_init(|| match self.control(0).living.load(Ordering::Relaxed) {
                0 => living::private(),
                key => living::find(key),
            })
    }

    /// Lines of either ring.
    #[inline(always)]
    #[must_use]
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// The control page of half `half` (0 or 1).
    #[inline(always)]
    #[must_use]
    pub fn control(&self, half: usize) -> &Control {
        // SAFETY: both halves lie in the mapping, begin at a page or line boundary, and `Control` is made of atomics
        // (and of padding that nobody reads).
        unsafe { &*self.half(half).cast::<Control>() }
    }

    /// The mail of half `half`: what its owner's peer says.
    #[inline(always)]
    #[must_use]
    pub fn mail(&self, half: usize) -> &Mail {
        // SAFETY: as for `control`; the mail lies at a line boundary in the half.
        unsafe { &*self.half(half).add(MAIL).cast::<Mail>() }
    }

    /// What the owner of half `half` says about itself, [`flags`]: in the mail of the other half.
    #[inline(always)]
    #[must_use]
    pub fn flags(&self, half: usize) -> &AtomicU32 {
        &self.mail(half ^ 1).flags
    }

    #[inline(always)]
    fn half(&self, half: usize) -> *mut u8 {
        // SAFETY: the mapping has two halves of this size, checked when it was made.
        unsafe {
            self.memory
                .as_ptr()
                .add((half & 1) * half_bytes(self.lines))
        }
    }
}

/// One end of a channel: what the socket library works with. Cloning shares the mapping.
#[derive(Debug, Clone)]
pub struct End {
    channel: Arc<Channel>,
    half: usize,
    peer: Mapped<'static>,
}

impl End {
    /// The end that owns half `half` (0 or 1).
    #[must_use]
    pub fn new(channel: Arc<Channel>, half: usize) -> Self {
        let half = half & 1;
        // SAFETY: the peer's half is mapped as long as `channel` lives, which this end holds; `peer` never leaves it
        // with a longer life, see `sender` and `receiver`.
        let peer = unsafe { Mapped::new(channel.half(half ^ 1), half_bytes(channel.lines)) };
        Self {
            channel,
            half,
            peer,
        }
    }

    /// The channel.
    #[inline(always)]
    #[must_use]
    pub fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Which half this end owns.
    #[inline(always)]
    #[must_use]
    pub fn half(&self) -> usize {
        self.half
    }

    /// This end's control page.
    #[inline(always)]
    #[must_use]
    pub fn own(&self) -> &Control {
        self.channel.control(self.half)
    }

    /// The other end's control page.
    #[inline(always)]
    #[must_use]
    pub fn peer(&self) -> &Control {
        self.channel.control(self.half ^ 1)
    }

    /// What this end says about itself, [`flags`].
    #[inline(always)]
    #[must_use]
    pub fn flags(&self) -> &AtomicU32 {
        self.channel.flags(self.half)
    }

    /// What the other end says about itself.
    #[inline(always)]
    #[must_use]
    pub fn peer_flags(&self) -> &AtomicU32 {
        self.channel.flags(self.half ^ 1)
    }

    /// Lines that the other end has consumed, as far as this machine knows.
    #[inline(always)]
    #[must_use]
    pub fn peer_position(&self) -> u64 {
        let position = match self.channel.carried.load(Ordering::Relaxed) {
            true => &self.channel.mail(self.half).position,
            false => &self.peer().receiver.next,
        };
        position.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn credit(&self) -> &AtomicU64 {
        &self.channel.mail(self.half).credit
    }

    /// Takes the lock for sending. From an owner that has died it takes it with all that one left undone, and makes that good;
    /// whom it was about to wake may still sleep.
    ///
    /// # Errors
    /// [`Reentered`] when the calling thread holds it.
    #[inline]
    pub fn lock_sender(&self) -> std::result::Result<Guard<'_>, Reentered> {
        let guard = self.own().tx.lock(self.channel.living())?;
        if guard.is_inherited() {
            self.recover_sender();
        }
        Ok(guard)
    }

    /// Takes the lock for receiving; as [`End::lock_sender`].
    ///
    /// # Errors
    /// [`Reentered`] when the calling thread holds it.
    #[inline]
    pub fn lock_receiver(&self) -> std::result::Result<Guard<'_>, Reentered> {
        let guard = self.own().rx.lock(self.channel.living())?;
        if guard.is_inherited() {
            self.receiver().recover();
        }
        Ok(guard)
    }

    #[cold]
    fn recover_sender(&self) {
        // What is carried counts by the sender's place alone: what lies behind it nobody has seen.
        if self.channel.carried.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the peer's half has its lines behind its control page, aligned, mapped while `self` lives; both ends are here.
        unsafe {
            recover_sender(
                &self.own().sender,
                self.channel.half(self.half ^ 1).add(CONTROL),
                self.channel.lines,
                self.credit(),
                &self.peer().receiver.next,
            );
        }
    }

    /// The ring this end sends into. Hold [`End::lock_sender`] while using it.
    #[inline(always)]
    #[must_use]
    pub fn sender(&self) -> Sender<'_, Mapped<'static>> {
        Sender::new(
            &self.own().sender,
            &self.peer,
            CONTROL,
            self.channel.lines,
            self.credit(),
        )
    }

    /// The ring this end receives from. Hold [`End::lock_receiver`] while using it.
    #[inline(always)]
    #[must_use]
    pub fn receiver(&self) -> Receiver<'_, Mapped<'static>> {
        // SAFETY: the half has `lines` lines behind its control page, aligned, mapped while `self` lives.
        unsafe {
            let base = self.channel.half(self.half).add(CONTROL);
            Receiver::new(
                &self.own().receiver,
                base,
                self.channel.lines,
                &self.peer,
                MAIL + std::mem::offset_of!(Mail, credit),
            )
        }
    }

    /// Whether the peer sleeps for one of `bits` ([`armed`]): ask after sending or returning credit, then ring.
    ///
    /// The full fence pairs with the one of [`End::arm`].
    #[inline(always)]
    #[must_use]
    pub fn peer_armed(&self, bits: u32) -> bool {
        fence(Ordering::SeqCst);
        self.peer().armed.load(Ordering::Relaxed) & bits != 0
    }

    /// Says what this end sleeps for, besides what it said before. Look again afterwards, then sleep.
    #[inline]
    pub fn arm(&self, bits: u32) {
        self.own().armed.fetch_or(bits, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that this end is awake.
    #[inline]
    pub fn disarm(&self, bits: u32) {
        // Most calls find nothing armed: a load is cheaper than a locked instruction.
        if self.own().armed.load(Ordering::Relaxed) & bits != 0 {
            self.own().armed.fetch_and(!bits, Ordering::Relaxed);
        }
    }
}

/// Maps a channel and takes the end that owns half `half`.
///
/// # Errors
/// As [`Channel::map`].
pub fn attach(fd: BorrowedFd<'_>, half: usize) -> Result<End> {
    let end = End::new(Arc::new(Channel::map(fd)?), half);
    end.flags().fetch_or(flags::ATTACHED, Ordering::Release);
    end.own().pid.store(
        rustix::process::getpid().as_raw_nonzero().get() as u32,
        Ordering::Relaxed,
    );
    Ok(end)
}
