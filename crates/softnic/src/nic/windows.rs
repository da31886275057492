// SPDX-License-Identifier: Apache-2.0
//! Memory that is shared, and windows on that of others.

use model::BAR_PAGES;
use rand::RngExt;
use wire::registers as reg;
use wire::{PageMapEntry, RegionEntry, SessionStatus, TlpHeader};

use crate::error::Error;
use crate::loads::{pieces, request};
use crate::memory::Segment;
use crate::nic::{SoftNic, leap};
use crate::outside::base_of;

const PAGE: u64 = reg::PAGE_BYTES as u64;
/// Bits of the tag that is folded into the end code.
const TAG_MASK: u16 = (1 << wire::TAG_W) - 1;

/// What others may do with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Where it begins in the segment.
    pub first: u32,
    /// Bytes of it. Whole DWs are checked.
    pub bytes: u32,
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// By whom: IPv4 address and mask.
    pub from: (u32, u32),
    /// Only sealed frames may.
    pub sealed: bool,
    /// The only session that may; `None`: all may.
    pub session: Option<u8>,
}

impl Share {
    /// For stores of every session.
    pub const fn writable(first: u32, bytes: u32) -> Self {
        Self {
            first,
            bytes,
            read: false,
            write: true,
            from: (0, 0),
            sealed: false,
            session: None,
        }
    }
}

/// How a peer reaches memory that was shared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// Key of the region.
    pub key: u16,
    /// What is folded into the end code.
    pub tag: u16,
}

/// Pages of BAR 2 that lead to a peer's memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Window {
    session: u8,
    page: usize,
    pages: usize,
    /// Address in BAR 2 of the first byte.
    start: usize,
    bytes: u64,
}

impl Window {
    /// Own number of the session that it goes through.
    pub fn session(&self) -> u8 {
        self.session
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Whether the NIC sends at once what is stored into or loaded from windows of a session. It drops what is for one that is lost.
pub(super) fn may_send(nic: &model::Nic, backlog: usize, session: u8) -> bool {
    let at_once = |status: SessionStatus| status.open || status.lost || !status.valid;
    nic.outgoing() < backlog && nic.session_status(session).is_none_or(at_once)
}

impl SoftNic {
    /// Lets peers with a session use a part of a segment, under a key of its own.
    ///
    /// # Errors
    /// [`Error::Full`], and [`Error::Range`] if it is not inside of the segment.
    pub fn share(&mut self, segment: &Segment, share: &Share) -> Result<Shared, Error> {
        let limit = segment.bytes() as u64;
        if share.bytes == 0 || u64::from(share.first) + u64::from(share.bytes) > limit {
            return Err(Error::Range {
                what: "segment",
                first: share.first.into(),
                bytes: share.bytes.into(),
                limit,
            });
        }
        let count = self.outside.segments.len();
        // A key is not used again at once, so that late stores find nothing.
        let key = (0..count)
            .map(|step| (self.next_key + step) % count)
            .find(|&key| self.outside.segments[key].is_none())
            .ok_or(Error::Full {
                what: "regions",
                count,
            })?;
        self.next_key = key + leap(count);
        let shared = Shared {
            key: key as u16,
            tag: rand::rng().random::<u16>() & TAG_MASK,
        };
        let entry = RegionEntry {
            number: share.session.unwrap_or_default(),
            bound: share.session.is_some(),
            sealed: share.sealed,
            session: true,
            notify: false,
            read: share.read,
            write: share.write,
            valid: true,
            tag: shared.tag,
            mask: share.from.1,
            ip: share.from.0,
            last: share.first + (share.bytes - 1),
            first: share.first,
            base: base_of(shared.key),
        };
        self.outside.segments[key] = Some(segment.clone());
        self.tags[key] = shared.tag;
        self.write_entry(reg::REGION_BASE, key, &entry.to_dws());
        Ok(shared)
    }

    /// Ends it: when this returns nothing of it is written any more.
    pub fn unshare(&mut self, key: u16) {
        let at = usize::from(key);
        if at < self.outside.segments.len() {
            // With the tag of before: who may not know yet is told, see `RegionEntry::revoked`.
            let entry = RegionEntry::revoked(self.tags[at]);
            self.write_entry(reg::REGION_BASE, at, &entry.to_dws());
            self.outside.segments[at] = None;
        }
    }

    /// Maps bytes of a region of the peer of a session; `first` is their offset in it.
    ///
    /// # Errors
    /// [`Error::Full`] without so many pages in a row, [`Error::Range`] beyond the 4 GB of a region.
    pub fn map(
        &mut self,
        session: u8,
        shared: &Shared,
        first: u64,
        bytes: u64,
    ) -> Result<Window, Error> {
        let limit = 1 << wire::OFFSET_W;
        if bytes == 0 || first.checked_add(bytes).is_none_or(|end| end > limit) {
            return Err(Error::Range {
                what: "region",
                first,
                bytes,
                limit,
            });
        }
        let lead = first % PAGE;
        let pages = (lead + bytes).div_ceil(PAGE) as usize;
        let page = self.pages.take(pages).ok_or(Error::Full {
            what: "pages",
            count: self.pages.count(),
        })?;
        for at in 0..pages {
            let offset = first - lead + at as u64 * PAGE;
            let entry = PageMapEntry::new(session.into(), shared.key, offset as u32, shared.tag);
            self.write_entry(reg::PAGE_MAP_BASE, page + at, &entry.to_dws());
        }
        Ok(Window {
            session,
            page,
            pages,
            start: page * PAGE as usize + lead as usize,
            bytes,
        })
    }

    /// Gives a window's pages back.
    pub fn unmap(&mut self, window: Window) {
        for page in window.page..window.page + window.pages {
            let none = PageMapEntry::default().to_dws();
            self.write_entry(reg::PAGE_MAP_BASE, page, &none);
        }
        self.pages.give(window.page, window.pages);
    }

    /// Whether stores into windows of a session are taken at present. The NIC keeps PCI Express order: what waits for one
    /// session would hold up all that comes behind it, for whichever peer. So nothing is given to it that would wait.
    pub fn can_store(&self, session: u8) -> bool {
        may_send(&self.nic, self.config.backlog, session)
    }

    fn inside(&self, window: &Window, offset: u64, bytes: usize) -> Result<usize, Error> {
        let bytes = bytes as u64;
        if offset
            .checked_add(bytes)
            .is_none_or(|end| end > window.bytes)
        {
            return Err(Error::Range {
                what: "window",
                first: offset,
                bytes,
                limit: window.bytes,
            });
        }
        Ok(window.start + offset as usize)
    }

    /// Stores bytes; returns how many were taken, fewer than all while [too much waits](Self::can_store). A store of at most 256 bytes that
    /// crosses no multiple of 256 in the region is one frame.
    ///
    /// # Errors
    /// [`Error::Range`] if they are not all inside of the window.
    pub fn store(&mut self, window: &Window, offset: u64, data: &[u8]) -> Result<usize, Error> {
        let address = self.inside(window, offset, data.len())?;
        let mut taken = 0;
        for (at, bytes) in pieces(address, data.len()) {
            if !self.can_store(window.session) {
                break;
            }
            let (request, lead, trail) = request(at, bytes);
            let mut dws = [0; 4 * wire::MAX_DATA_DW];
            let dws = &mut dws[..lead + bytes + trail];
            dws[lead..lead + bytes].copy_from_slice(&data[taken..taken + bytes]);
            if let Ok(tlp) = TlpHeader::MemWrite(request).emit(dws) {
                self.tlp(&tlp, BAR_PAGES);
            }
            taken += bytes;
        }
        self.settle();
        Ok(taken)
    }

    /// Loads bytes; [`crate::Event::Loaded`] brings them. A load that is refused brings zeros, and
    /// [`crate::Event::Refused`] says so.
    ///
    /// # Errors
    /// [`Error::Range`] if they are not all inside of the window.
    pub fn load(&mut self, window: &Window, offset: u64, bytes: usize) -> Result<u64, Error> {
        let address = self.inside(window, offset, bytes)?;
        let load = self.outside.loads.begin(window.session, address, bytes);
        self.settle();
        Ok(load)
    }

    /// Sends what was stored at once; [`SoftNic::poll`] does so too.
    pub fn kick(&mut self) {
        self.flush_frames();
    }
}
