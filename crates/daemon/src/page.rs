// SPDX-License-Identifier: Apache-2.0
//! The notice page: what a process reads without a system call, and only the daemon writes.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use ipc::protocol::notice_page;
use shm::memory::{Access, Mapping};

/// One process's page.
#[derive(Debug)]
pub struct NoticePage {
    memory: Mapping,
}

impl NoticePage {
    /// A new page, and the descriptor of it that the process gets.
    pub fn new(magic: [u8; 16], generation: u64) -> Result<(Self, OwnedFd), shm::Error> {
        let memfd = shm::memory::create_sealable("ipnuma-notices", notice_page::BYTES)?;
        // First this: afterwards nobody can any more.
        let memory = Mapping::whole(&memfd, Access::ReadWrite)?;
        let theirs = shm::memory::read_only(&memfd)?;
        let page = Self { memory };
        let (low, high) = magic.split_at(8);
        for (offset, half) in [(0, low), (8, high)] {
            let mut word = [0; 8];
            word.copy_from_slice(half);
            let word = u64::from_ne_bytes(word);
            page.word(notice_page::MAGIC + offset)
                .store(word, Ordering::Relaxed);
        }
        page.set_generation(generation);
        Ok((page, theirs))
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.memory.len());
        // SAFETY: in the mapping, aligned, and reached through atomics only, as long as the mapping lives.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(offset).cast()) }
    }

    /// One more notice was sent.
    pub fn count(&self) {
        self.word(notice_page::NOTICES)
            .fetch_add(1, Ordering::Release);
    }

    /// Whether a client is about to connect.
    pub fn set_connecting(&self, word: u64) {
        self.word(notice_page::CONNECTING)
            .store(word, Ordering::Release);
    }

    /// Whether a stream is at a place.
    pub fn set_stream(&self, place: usize, there: bool) {
        let word = self.word(notice_page::STREAMS + place / 64 * 8);
        let bit = 1 << (place % 64);
        match there {
            true => word.fetch_or(bit, Ordering::Release),
            false => word.fetch_and(!bit, Ordering::Release),
        };
    }

    /// The addresses have changed.
    pub fn set_generation(&self, generation: u64) {
        self.word(notice_page::GENERATION)
            .store(generation, Ordering::Release);
    }
}
