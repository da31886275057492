// SPDX-License-Identifier: Apache-2.0
//! Memory of a region that this process owns.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock};

use ipc::client::{descriptors, unexpected};
use ipc::protocol::{Reply, Request, signal_page};
use ipc::token::{Rights, Token};
use shm::memory::{Access, Mapping};

use super::Link;
use crate::backend::RegionMemory;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct SoftRegion {
    link: Arc<Link>,
    region: u64,
    memory: Mapping,
    event: OwnedFd,
    signal: Mapping,
    /// The administrator has taken its tokens back: whoever had one may still write to the memory.
    tainted: Arc<AtomicBool>,
    /// Held by who moves the region, one at a time, and shared by those whose stores must not get lost on the way.
    moving: RwLock<()>,
}

impl SoftRegion {
    pub(super) fn new(
        link: Arc<Link>,
        region: u64,
        [memory, event, signal]: [OwnedFd; 3],
    ) -> Result<Self> {
        let tainted = link.watch(region);
        Ok(Self {
            link,
            region,
            memory: Mapping::whole(&memory, Access::ReadWrite)?,
            event,
            signal: Mapping::new(&signal, 0, signal_page::BYTES, Access::ReadWrite)?,
            tainted,
            moving: RwLock::default(),
        })
    }

    /// Moves the region to fresh memory, and has the daemon take a token back before if the request says so.
    fn renew(&self, request: &Request) -> ipc::Result<()> {
        let moved = match self.link.client.request(request) {
            // Nothing was begun, or nobody is there who would like to know how it ended.
            Err(error @ (ipc::Error::Refused { .. } | ipc::Error::DaemonLost { .. })) => {
                return Err(error);
            }
            Ok((Reply::Done, fds)) => descriptors(fds).and_then(|[fresh]| self.move_to(&fresh)),
            Ok((reply, _)) => Err(unexpected(reply)),
            Err(error) => Err(error),
        };
        let settle = Request::Settle {
            region: self.region,
            moved: moved.is_ok(),
        };
        let settled = self.link.client.done(&settle);
        moved.and(settled)
    }

    /// Holders of the old memory keep it, whatever we do; so we leave it to them. They were told before, so that what they
    /// stored until then is carried over; what they store from now on reaches nobody. Nobody else has the fresh memory yet.
    fn move_to(&self, fresh: &OwnedFd) -> ipc::Result<()> {
        let copy = Mapping::whole(fresh, Access::ReadWrite)?;
        if copy.len() != self.memory.len() {
            return Err(ipc::Error::Protocol {
                what: "fresh memory of another size",
            });
        }
        // Whatever a holder stored before it found no notice is seen here.
        fence(Ordering::SeqCst);
        // SAFETY: both are mapped with this length and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.as_ptr(), copy.as_ptr(), copy.len()) };
        self.memory
            .place(0, fresh, 0, copy.len(), Access::ReadWrite)?;
        Ok(())
    }

    /// Leaves memory behind that holders of tokens which the administrator has taken back still have.
    #[cold]
    fn leave(&self) {
        let _moving = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have done so meanwhile.
        if !self.tainted.swap(false, Ordering::AcqRel) {
            return;
        }
        let renew = Request::Renew {
            region: self.region,
        };
        match self.renew(&renew) {
            // Without a daemon there is no fresh memory, and nobody gets a window any more.
            Ok(()) | Err(ipc::Error::DaemonLost { .. }) => {}
            // There may be room for it later.
            Err(_) => self.tainted.store(true, Ordering::Release),
        }
    }

    fn armed(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped as long as `self` lives; the word is aligned.
        unsafe { AtomicU32::from_ptr(self.signal.as_ptr().add(signal_page::ARMED).cast()) }
    }
}

impl RegionMemory for SoftRegion {
    fn id(&self) -> u64 {
        self.region
    }

    fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
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
        match self
            .link
            .client
            .request(&Request::Export {
                region: self.region,
                first,
                bytes,
                rights,
                peer,
            })?
            .0
        {
            Reply::Token(token) => Ok(token),
            other => Err(unexpected(other).into()),
        }
    }

    fn revoke(&self, token: &Token) -> Result<()> {
        // The daemon would give the fresh memory of another one of our regions.
        if token.region != self.region {
            return Err(Error::OtherRegion);
        }
        let _moving = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        Ok(self.renew(&Request::Revoke { token: *token })?)
    }

    fn settle(&self) {
        self.link.listen();
        if self.tainted.load(Ordering::Acquire) {
            self.leave();
        }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let _stays = self.moving.read().unwrap_or_else(PoisonError::into_inner);
        super::super::copy_in(self, offset, bytes);
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn arm(&self, armed: bool) {
        self.armed().store(u32::from(armed), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

impl Drop for SoftRegion {
    fn drop(&mut self) {
        self.link.told().regions.remove(&self.region);
        // A daemon that is gone has forgotten the region anyway.
        let _ = self.link.client.done(&Request::Release {
            region: self.region,
        });
    }
}
