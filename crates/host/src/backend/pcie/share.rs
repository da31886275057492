// SPDX-License-Identifier: Apache-2.0
//! Own memory that peers' boards may use, through ours.

use std::net::Ipv4Addr;
use std::sync::Arc;

use wire::RegionEntry;

use super::PcieError;
use super::board::Board;
use super::memory::Buffer;

/// Who may use what is shared, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Key on the wire: the entry in the shared-region table.
    pub key: u16,
    /// Folded into the end code of every frame to the region.
    pub tag: u16,
}

/// What is to be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte, from the region's begin.
    pub first: u64,
    /// Length.
    pub bytes: u64,
    /// Loads are permitted.
    pub read: bool,
    /// Stores are permitted.
    pub write: bool,
    /// The only peer that may, or any.
    pub peer: Option<Ipv4Addr>,
}

/// Memory that the board can write to.
pub struct BoardMemory {
    pub(super) buffer: Buffer,
    pub(super) address: u64,
    pub(super) board: Arc<Board>,
}

impl BoardMemory {
    /// Its first byte.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.buffer.base()
    }

    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether it has no bytes; it always has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Shares a part of it.
    ///
    /// # Errors
    /// If the part is outside, or the board has no entry left.
    pub fn share(&self, range: &Range, tag: u16) -> Result<Share, PcieError> {
        let len = self.len() as u64;
        let end = range.first.checked_add(range.bytes);
        if range.bytes == 0 || end.is_none_or(|end| end > len) {
            return Err(PcieError::Outside {
                offset: range.first,
                bytes: range.bytes,
                len,
            });
        }
        // What is not whole DWs would share its neighbours, too.
        if !range.first.is_multiple_of(4) || !range.bytes.is_multiple_of(4) || len > 1 << 32 {
            return Err(PcieError::Granularity {
                first: range.first,
                bytes: range.bytes,
            });
        }
        let board = &self.board;
        let mut state = board.state();
        let keys = state.shared.len();
        let last = state.last_key;
        // Key 0 stays unused: it is what a forgotten field has.
        let key = (1..=keys)
            .map(|step| (last + step) % keys)
            .find(|&key| key != 0 && state.shared[key].is_none())
            .ok_or(PcieError::Exhausted {
                what: "entries of the shared-region table",
            })?;
        state.last_key = key;
        state.shared[key] = Some(self.address);
        drop(state);
        let (ip, mask) = match range.peer {
            Some(peer) => (u32::from(peer), u32::MAX),
            None => (0, 0),
        };
        board.control.set_region(
            key,
            &RegionEntry {
                number: 0,
                bound: false,
                valid: true,
                write: range.write,
                read: range.read,
                notify: false,
                session: true,
                sealed: false,
                tag,
                mask,
                ip,
                first: range.first as u32,
                last: (range.first + range.bytes - 1) as u32,
                base: self.address,
            },
        );
        board.control.settle();
        Ok(Share {
            key: key as u16,
            tag,
        })
    }
}

impl Drop for BoardMemory {
    fn drop(&mut self) {
        // The board must stop to write before the memory goes.
        let mut state = self.board.state();
        for (key, owner) in state.shared.iter_mut().enumerate() {
            if *owner == Some(self.address) {
                self.board.control.revoke_region(key);
                *owner = None;
            }
        }
        drop(state);
        self.board.control.settle();
        self.board.mapper.unmap(self.address, self.buffer.len());
    }
}
