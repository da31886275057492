// SPDX-License-Identifier: Apache-2.0
//! Peers' memory, through pages of BAR 2.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::PageMapEntry;

use super::PcieError;
use super::board::{Board, Refused};
use crate::clock::Deadline;

/// Pages of BAR 2 that are a peer's memory.
pub struct BoardWindow {
    pub(super) board: Arc<Board>,
    pub(super) peer: usize,
    pub(super) key: u16,
    pub(super) page: usize,
    pub(super) count: usize,
    pub(super) base: usize,
    pub(super) len: usize,
}

impl BoardWindow {
    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; it always has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is mapped, if the BAR is.
    #[must_use]
    pub fn base(&self) -> Option<*mut u8> {
        let base = self.board.bar2.base()?;
        // SAFETY: the window's pages are inside the BAR.
        Some(unsafe { base.add(self.base) })
    }

    fn at(&self, offset: usize, bytes: usize) -> Result<usize, PcieError> {
        if offset > self.len || bytes > self.len - offset {
            return Err(PcieError::Outside {
                offset: offset as u64,
                bytes: bytes as u64,
                len: self.len as u64,
            });
        }
        Ok(self.base + offset)
    }

    /// Stores bytes at the peer. They are on their way when [`BoardWindow::fence`] returns, there after
    /// [`BoardWindow::flush`].
    ///
    /// # Errors
    /// If they are outside the window.
    #[inline]
    pub fn store(&self, offset: usize, bytes: &[u8]) -> Result<(), PcieError> {
        self.board.bar2.store(self.at(offset, bytes.len())?, bytes);
        Ok(())
    }

    /// Loads bytes from the peer: a round trip each eight bytes.
    ///
    /// # Errors
    /// If they are outside the window.
    pub fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), PcieError> {
        self.board.bar2.load(self.at(offset, into.len())?, into);
        Ok(())
    }

    /// Stores before it arrive before those after it.
    #[inline]
    pub fn fence(&self) {
        self.board.bar2.fence();
    }

    /// See [`Board::connect`]; waits until all stores so far are acknowledged by the peer's NIC. `None`: not known in time.
    #[must_use]
    pub fn flush(&self, deadline: Deadline) -> Option<bool> {
        self.board.flush(&self.board.peers[self.peer], deadline)
    }

    /// How many stores to the region were refused, or lost on the way to the peer, as far as the board has told; it
    /// grows.
    #[must_use]
    pub fn faults(&self) -> u64 {
        let lost = &self.board.peers[self.peer].faults;
        self.refused().count + lost.load(Ordering::Acquire)
    }

    /// Whether the peer has said that there is no such region any more.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.refused().gone
    }

    /// What was refused, all events so far included.
    fn refused(&self) -> Refused {
        let mut state = self.board.state();
        self.board.poll_locked(&mut state);
        let key = (self.board.peers[self.peer].pc_id, self.key);
        state.refused.get(&key).copied().unwrap_or_default()
    }

    /// Whether the peer is lost: nothing arrives until the configuration begins a session with a new epoch.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.board.poll();
        self.board.peers[self.peer].lost.load(Ordering::Relaxed)
    }
}

impl Drop for BoardWindow {
    fn drop(&mut self) {
        self.fence();
        for page in self.page..self.page + self.count {
            self.board.control.set_page(page, &PageMapEntry::default());
        }
        self.board.control.settle();
        self.board.state().pages.give(self.page, self.count);
    }
}
