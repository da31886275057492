// SPDX-License-Identifier: Apache-2.0
//! Memory of a region that this process owns.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::Link;
use crate::backend::RegionMemory;
use crate::client::{descriptors, unexpected};
use crate::error::{Error, Result};
use crate::ipc::{Reply, Request, signal_page};
use crate::memory::{Access, Mapping};
use crate::token::{Rights, Token};

#[derive(Debug)]
pub(super) struct SoftRegion {
    link: Arc<Link>,
    region: u64,
    memory: Mapping,
    event: OwnedFd,
    signal: Mapping,
    /// One revocation at a time: each moves the whole region.
    moving: Mutex<()>,
}

impl SoftRegion {
    pub(super) fn new(
        link: Arc<Link>,
        region: u64,
        [memory, event, signal]: [OwnedFd; 3],
    ) -> Result<Self> {
        Ok(Self {
            link,
            region,
            memory: Mapping::whole(&memory, Access::ReadWrite)?,
            event,
            signal: Mapping::new(&signal, 0, signal_page::BYTES, Access::ReadWrite)?,
            moving: Mutex::default(),
        })
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
            other => Err(unexpected(other)),
        }
    }

    fn revoke(&self, token: &Token) -> Result<()> {
        // The daemon would give the fresh memory of another one of our regions.
        if token.region != self.region {
            return Err(Error::Denied {
                what: "revoking another region's token",
            });
        }
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, fds) = self
            .link
            .client
            .request(&Request::Revoke { token: *token })?;
        if reply != Reply::Done {
            return Err(unexpected(reply));
        }
        let [fresh] = descriptors(fds)?;
        // Holders of the old memory keep it, whatever we do; so we leave it to them. What they stored before they were
        // told is carried over, what they store from now on reaches nobody.
        let copy = Mapping::whole(&fresh, Access::ReadWrite)?;
        if copy.len() != self.memory.len() {
            return Err(Error::Protocol {
                what: "fresh memory of another size",
            });
        }
        // SAFETY: both are mapped with this length and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.as_ptr(), copy.as_ptr(), copy.len()) };
        self.memory
            .place(0, &fresh, 0, copy.len(), Access::ReadWrite)
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
        // A daemon that is gone has forgotten the region anyway.
        let _ = self.link.client.done(&Request::Release {
            region: self.region,
        });
    }
}
