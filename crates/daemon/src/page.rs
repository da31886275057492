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

    /// Networks whose machines' listeners only the daemon knows, each an address and a mask.
    pub fn set_networks(&self, networks: &[(u32, u32)]) {
        let room = networks.len() <= notice_page::MOST_NETWORKS;
        for (index, (address, mask)) in networks.iter().enumerate().filter(|_| room) {
            self.word(notice_page::NETWORK + 8 * index).store(
                u64::from(*address) << 32 | u64::from(*mask),
                Ordering::Relaxed,
            );
        }
        let count = match room {
            true => networks.len() as u64,
            false => notice_page::EVERYWHERE,
        };
        self.word(notice_page::NETWORKS)
            .store(count, Ordering::Release);
    }

    /// Whether a client is about to connect.
    pub fn set_connecting(&self, word: u64) {
        self.word(notice_page::CONNECTING)
            .store(word, Ordering::Release);
    }

    /// Whether a stream is at a place.
    pub fn set_stream(&self, place: usize, there: bool) {
        self.set_bit(notice_page::STREAMS, place, there);
    }

    /// Whether somebody listens at a place.
    pub fn set_listener(&self, place: usize, there: bool) {
        self.set_bit(notice_page::LISTENERS, place, there);
    }

    fn set_bit(&self, words: usize, place: usize, there: bool) {
        let word = self.word(words + place / 64 * 8);
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
