// SPDX-License-Identifier: Apache-2.0
//! The board as a back end.
//!
//! A token's address is the board's own, its region is `{region 48, key 16}`, and the region's tag on the wire comes from
//! its secret. The other end needs no daemon to check it: its NIC does, by key, tag, source address, range and rights.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use ipc::token::{Rights, Token};
use rustix::rand::GetRandomFlags;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use super::bar::LINE;
use super::sysfs::DEVICES;
use super::{Board, BoardMemory, BoardWindow, PcieError, Range, Share};
use crate::backend::peers::tag_of;
use crate::backend::{Backend, Flush, Info, RegionMemory, WindowAccess};
use crate::clock::Deadline;
use crate::config::Config;
use crate::error::{Error, Result};

/// How often an owner that sleeps looks, in nanoseconds: interrupts need a driver that there is not yet.
const LOOK_NS: i64 = 100_000;
const KEY_BITS: u32 = 16;

/// A board as a back end.
pub struct Pcie {
    board: Arc<Board>,
    regions: AtomicU64,
}

impl fmt::Debug for Pcie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pcie")
            .field("address", &self.board.address())
            .finish_non_exhaustive()
    }
}

impl Pcie {
    /// Opens the board that the configuration names.
    ///
    /// # Errors
    /// If there is no `[pcie]` in it, or the board is not there or can't be used.
    pub fn open(config: &Config) -> Result<Self> {
        let pcie = config.pcie.as_ref().ok_or_else(|| Error::Config {
            place: "the configuration".to_owned(),
            problem: "the pcie back end needs a table [pcie] with the keys device, address and mac"
                .to_owned(),
        })?;
        Ok(Self::new(Board::open(Path::new(DEVICES), pcie)?))
    }

    /// The back end of a board that is open.
    #[must_use]
    pub fn new(board: Arc<Board>) -> Self {
        Self {
            board,
            regions: AtomicU64::new(1),
        }
    }
}

impl Backend for Pcie {
    fn info(&self) -> Info {
        Info {
            backend: "pcie",
            max_store: LINE,
            line_atomic: self.board.combining().is_ok(),
            mappable: self.board.is_mapped(),
            link_up: self.board.link_up(),
            peers: self.board.peers(),
        }
    }

    fn alloc(&self, bytes: usize) -> Result<Box<dyn RegionMemory>> {
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )
        .map_err(|source| Error::System {
            what: "making a timer",
            source,
        })?;
        Ok(Box::new(Memory {
            id: self.regions.fetch_add(1, Ordering::Relaxed),
            memory: self.board.alloc(bytes)?,
            board: Arc::clone(&self.board),
            timer,
            exports: Mutex::new(HashMap::new()),
        }))
    }

    fn connect(&self, token: &Token) -> Result<Arc<dyn WindowAccess>> {
        let share = Share {
            key: token.region as u16,
            tag: tag_of(&token.secret),
        };
        let peer = *token.management.ip();
        let window = self.board.connect(peer, share, token.first, token.bytes)?;
        Ok(Arc::new(Access {
            window,
            first: token.first,
            rights: token.rights,
            whole_lines: self.board.combining().is_ok(),
        }))
    }
}

struct Memory {
    id: u64,
    memory: BoardMemory,
    board: Arc<Board>,
    timer: OwnedFd,
    /// Valid tokens by their keys.
    exports: Mutex<HashMap<u16, Token>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("id", &self.id)
            .field("len", &self.memory.len())
            .finish_non_exhaustive()
    }
}

impl RegionMemory for Memory {
    fn id(&self) -> u64 {
        self.id
    }

    fn as_ptr(&self) -> *mut u8 {
        self.memory.base()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }

    fn export(
        &self,
        first: u64,
        bytes: u64,
        rights: Rights,
        peer: Option<Ipv4Addr>,
    ) -> Result<Token> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret, GetRandomFlags::empty()).map_err(|source| {
            Error::System {
                what: "getting random bytes",
                source,
            }
        })?;
        let range = Range {
            first,
            bytes,
            read: rights.can_read(),
            write: rights.can_write(),
            peer,
        };
        let share = self.memory.share(&range, tag_of(&secret))?;
        let token = Token {
            rights,
            management: SocketAddrV4::new(self.board.address(), 0),
            region: self.id << KEY_BITS | u64::from(share.key),
            first,
            bytes,
            secret,
        };
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        exports.insert(share.key, token);
        Ok(token)
    }

    fn revoke(&self, token: &Token) -> Result<()> {
        let key = token.region as u16;
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        if exports.get(&key) != Some(token) {
            return Err(PcieError::UnknownToken.into());
        }
        exports.remove(&key);
        Ok(self.board.revoke(key)?)
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    fn arm(&self, armed: bool) {
        let every = Timespec {
            tv_sec: 0,
            tv_nsec: if armed { LOOK_NS } else { 0 },
        };
        let timer = Itimerspec {
            it_interval: every,
            it_value: every,
        };
        // It can only fail for a bad descriptor or time, and both are ours.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer);
        fence(Ordering::SeqCst);
    }
}

struct Access {
    window: BoardWindow,
    first: u64,
    rights: Rights,
    whole_lines: bool,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("first", &self.first)
            .field("len", &self.window.len())
            .finish_non_exhaustive()
    }
}

impl WindowAccess for Access {
    fn first(&self) -> u64 {
        self.first
    }

    fn bytes(&self) -> u64 {
        self.window.len() as u64
    }

    fn rights(&self) -> Rights {
        self.rights
    }

    fn mapped(&self) -> Option<*mut u8> {
        self.window.base()
    }

    fn coherent(&self) -> bool {
        false
    }

    #[inline]
    fn store(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        // Callers stay inside. Write-combining buffers would keep what does not fill them.
        let _ = self.window.store(offset, bytes);
        self.window.fence();
        Ok(())
    }

    #[inline]
    fn store_line(&self, offset: usize, line: &[u8; LINE]) -> Result<()> {
        if self.whole_lines {
            return self.store(offset, line);
        }
        self.store(offset, &line[..LINE - 8])?;
        self.store(offset + LINE - 8, &line[LINE - 8..])
    }

    #[inline]
    fn store_used(&self, offset: usize, line: &[u8; LINE], begin: usize) -> Result<()> {
        if self.whole_lines && begin < LINE - 8 {
            // A buffer that is full leaves as one transaction; of one that is not, each word may become its own.
            return self.store(offset, line);
        }
        if begin < LINE - 8 {
            self.store(offset + begin, &line[begin..LINE - 8])?;
        }
        self.store(offset + LINE - 8, &line[LINE - 8..])
    }

    #[inline]
    fn store64(&self, offset: usize, value: u64) -> Result<()> {
        // Each store ends with a fence, so this one comes after all before.
        self.store(offset, &value.to_le_bytes())
    }

    #[inline]
    fn fence(&self) {
        self.window.fence();
    }

    fn signal(&self) {
        // The owner looks on its own while it sleeps.
    }

    fn load(&self, offset: usize, into: &mut [u8], _: Deadline) -> Result<()> {
        // The board ends a load that nobody answers by itself, with ones.
        self.window.load(offset, into)?;
        self.state()
    }

    fn flush(&self, how: Flush, deadline: Deadline) -> Result<()> {
        if how == Flush::Local {
            self.window.fence();
            return Ok(());
        }
        match self.window.flush(deadline) {
            Some(true) => Ok(()),
            Some(false) => Err(Error::PeerLost),
            None => Err(Error::TimedOut {
                what: "the peer's acknowledgement of earlier stores",
            }),
        }
    }

    fn faults(&self) -> u64 {
        self.window.faults()
    }

    fn state(&self) -> Result<()> {
        if self.window.is_lost() {
            return Err(Error::PeerLost);
        }
        if self.window.is_revoked() {
            return Err(Error::Revoked);
        }
        Ok(())
    }
}
