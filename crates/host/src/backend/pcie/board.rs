// SPDX-License-Identifier: Apache-2.0
//! A board with its peers: what it shares, and what it reaches at others.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::{
    ERR_BAD_KEY, EVENT_FLUSH_FAILED, EVENT_FLUSHED, EVENT_LINK_DOWN, EVENT_LINK_UP, EVENT_OVERFLOW,
    EVENT_PEER_LOST, EventEntry, PageMapEntry, PcIdEntry, RegionEntry, SessionEntry, UDP_PORT,
};

use super::PcieError;
use super::bar::Bar;
use super::combining::{self, WriteCombining};
use super::config::{MemoryKind, PcieConfig};
use super::control::{Control, Identity};
use super::events::Events;
use super::memory::{Buffer, Mapper, PAGE, Pagemap};
use super::pages::Pages;
use super::share::{BoardMemory, Share};
use super::sysfs::Function;
use super::vfio::Vfio;
use super::window::BoardWindow;
use crate::clock::Deadline;

/// Bytes of a page of BAR 2.
const PAGE_BYTES: u64 = wire::registers::PAGE_BYTES as u64;
/// The page that is never mapped: the self-test stores there.
const TEST_PAGE: usize = 0;
/// Keys from here on have no compact form on the wire.
const COMPACT_KEYS: usize = 4096;

/// Another board.
#[derive(Debug)]
pub(super) struct Peer {
    address: Ipv4Addr,
    pub(super) pc_id: u16,
    /// Stores that were lost, as far as we were told.
    pub(super) faults: AtomicU64,
    pub(super) lost: AtomicBool,
}

impl Peer {
    fn fault(&self) {
        self.faults.fetch_add(1, Ordering::Release);
    }
}

/// What a peer refused of the stores to one of its regions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    pub(super) count: u64,
    /// The peer has no such region any more.
    pub(super) gone: bool,
}

pub(super) struct State {
    pub(super) pages: Pages,
    /// Keys in use: the address of the memory that is shared.
    pub(super) shared: Vec<Option<u64>>,
    events: Events,
    cookie: u16,
    /// Flush marks that somebody waits for, and what became of them.
    marks: HashMap<u16, Option<bool>>,
    /// By PC ID and key.
    pub(super) refused: HashMap<(u16, u16), Refused>,
    /// The key that was given out last: keys are used again as late as possible, since frames with an old tag are
    /// not refused but look corrupted, and cost the session.
    pub(super) last_key: usize,
}

/// A board in use by this process.
pub struct Board {
    pub(super) control: Control,
    pub(super) bar2: Box<dyn Bar>,
    pub(super) mapper: Box<dyn Mapper>,
    only_huge: bool,
    address: Ipv4Addr,
    pub(super) peers: Vec<Peer>,
    link_up: AtomicBool,
    combining: WriteCombining,
    state: Mutex<State>,
}

/// What a [`Board`] is made of; tests make it of a model.
pub struct Parts {
    /// BAR 0.
    pub registers: Box<dyn Bar>,
    /// BAR 2.
    pub pages: Box<dyn Bar>,
    /// How the board reaches memory.
    pub mapper: Box<dyn Mapper>,
}

impl Board {
    /// Opens the board that the configuration names, below `devices` ([`super::sysfs::DEVICES`]).
    ///
    /// # Errors
    /// If it is not there, is another device, or this process may not use it.
    pub fn open(devices: &std::path::Path, config: &PcieConfig) -> Result<Arc<Self>, PcieError> {
        config.check().map_err(PcieError::Config)?;
        let function = Function::open(devices, &config.device)?;
        let mapper: Box<dyn Mapper> = match config.memory {
            MemoryKind::Vfio => Box::new(Vfio::open(&function, &config.device)?),
            MemoryKind::Hugepages => Box::new(Pagemap::open()?),
        };
        function.enable()?;
        let registers = function.map_bar(0, 1 << wire::registers::BAR0_ADDR_W, false)?;
        let control = Control::new(Box::new(registers))?;
        let pages = function.map_bar(2, control.features().pages as u64 * PAGE_BYTES, true)?;
        Self::with(control, Box::new(pages), mapper, config)
    }

    /// A board of these parts.
    ///
    /// # Errors
    /// If they are not those of an IP-NUMA NIC, or the configuration asks for more than it has.
    pub fn from_parts(parts: Parts, config: &PcieConfig) -> Result<Arc<Self>, PcieError> {
        config.check().map_err(PcieError::Config)?;
        Self::with(
            Control::new(parts.registers)?,
            parts.pages,
            parts.mapper,
            config,
        )
    }

    fn with(
        control: Control,
        bar2: Box<dyn Bar>,
        mapper: Box<dyn Mapper>,
        config: &PcieConfig,
    ) -> Result<Arc<Self>, PcieError> {
        let features = control.features();
        let most = features.sessions.min(features.pc_ids);
        if let Some(peer) = config
            .peers
            .iter()
            .find(|peer| usize::from(peer.session) >= most)
        {
            return Err(PcieError::Config(format!(
                "peer {} has session {}, but the board has sessions 1 to {} only",
                peer.address,
                peer.session,
                most.saturating_sub(1)
            )));
        }
        let identity = Identity {
            mac: config.mac.to_bits(),
            ip: config.address.into(),
            netmask: config.netmask(),
            gateway_mac: config.gateway_mac.to_bits(),
        };
        // Frames of sessions carry the session's epoch; the register's is for the others, of which we send none.
        control.identify(&identity, 0);
        // What an earlier user left must not stay: neither windows into its memory, nor pages.
        for key in 0..features.regions {
            control.set_region(key, &RegionEntry::default());
        }
        for page in 0..features.pages {
            control.set_page(page, &PageMapEntry::default());
        }
        let only_huge = config.memory == MemoryKind::Hugepages;
        let events = Events::new(&control, mapper.as_ref(), only_huge)?;
        let peers = config.peers.iter().map(|peer| {
            let outside = (u32::from(peer.address) ^ identity.ip) & identity.netmask != 0;
            control.set_session(
                peer.session.into(),
                &SessionEntry {
                    valid: true,
                    sealed: false,
                    epoch: peer.epoch,
                    start: peer.start,
                    port: 3 << 14 | u16::from(peer.epoch) << 8 | u16::from(peer.peer_session),
                    mac: if outside {
                        identity.gateway_mac
                    } else {
                        peer.mac.to_bits()
                    },
                    ip: peer.address.into(),
                },
            );
            control.set_peer(
                peer.session.into(),
                &PcIdEntry {
                    session: true,
                    compact: true,
                    valid: true,
                    source_port: UDP_PORT,
                    mac: peer.mac.to_bits(),
                    ip: peer.address.into(),
                },
            );
            Peer {
                address: peer.address,
                pc_id: peer.session.into(),
                faults: AtomicU64::new(0),
                lost: AtomicBool::new(false),
            }
        });
        let peers = peers.collect();
        control.settle();
        let combining = combining::test(&control, bar2.as_ref(), TEST_PAGE);
        let pages = features.pages.min(bar2.len() / PAGE);
        Ok(Arc::new(Self {
            combining,
            only_huge,
            address: config.address,
            peers,
            link_up: AtomicBool::new(true),
            state: Mutex::new(State {
                pages: Pages::new(TEST_PAGE + 1, pages),
                shared: vec![None; features.regions.min(COMPACT_KEYS)],
                events,
                cookie: 0,
                marks: HashMap::new(),
                refused: HashMap::new(),
                last_key: 0,
            }),
            control,
            bar2,
            mapper,
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Own address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Peers that are not lost.
    #[must_use]
    pub fn peers(&self) -> Vec<Ipv4Addr> {
        self.poll();
        let there = |peer: &&Peer| !peer.lost.load(Ordering::Relaxed);
        self.peers
            .iter()
            .filter(there)
            .map(|peer| peer.address)
            .collect()
    }

    /// Whether pages of peers are mapped into this process.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.bar2.base().is_some()
    }

    /// Whether the link is up, as far as the board has told.
    #[must_use]
    pub fn link_up(&self) -> bool {
        self.poll();
        self.link_up.load(Ordering::Relaxed)
    }

    /// What the write-combining self-test found.
    #[must_use]
    pub fn combining(&self) -> WriteCombining {
        self.combining
    }

    /// Registers, counters and tables.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Memory that the board can write to.
    ///
    /// # Errors
    /// If there is none, or the board can't reach it.
    pub fn alloc(self: &Arc<Self>, bytes: usize) -> Result<BoardMemory, PcieError> {
        let buffer = Buffer::new(bytes, self.only_huge)?;
        let address = self.mapper.map(buffer.base(), buffer.len())?;
        Ok(BoardMemory {
            buffer,
            address,
            board: Arc::clone(self),
        })
    }

    /// Takes a share back. Stores that the board takes in from now on don't reach the memory.
    ///
    /// # Errors
    /// If there is no such share.
    pub fn revoke(&self, key: u16) -> Result<(), PcieError> {
        let mut state = self.state();
        let owner = state
            .shared
            .get_mut(usize::from(key))
            .ok_or(PcieError::UnknownToken)?;
        owner.take().ok_or(PcieError::UnknownToken)?;
        self.control.revoke_region(key.into());
        self.control.settle();
        Ok(())
    }

    /// Maps what a peer shares.
    ///
    /// # Errors
    /// If nobody has the address, or the board has not as many pages in a row.
    pub fn connect(
        self: &Arc<Self>,
        peer: Ipv4Addr,
        share: Share,
        first: u64,
        bytes: u64,
    ) -> Result<BoardWindow, PcieError> {
        let end = first
            .checked_add(bytes)
            .filter(|&end| bytes > 0 && end <= 1 << 32);
        let end = end.ok_or(PcieError::Outside {
            offset: first,
            bytes,
            len: 1 << 32,
        })?;
        let index = self
            .peers
            .iter()
            .position(|known| known.address == peer)
            .ok_or(PcieError::UnknownPeer(peer))?;
        let count = (end.div_ceil(PAGE_BYTES) - first / PAGE_BYTES) as usize;
        let page = self
            .state()
            .pages
            .take(count)
            .ok_or(PcieError::Exhausted { what: "pages" })?;
        let start = first / PAGE_BYTES * PAGE_BYTES;
        for step in 0..count {
            let offset = start + step as u64 * PAGE_BYTES;
            let entry =
                PageMapEntry::new(self.peers[index].pc_id, share.key, offset as u32, share.tag);
            self.control.set_page(page + step, &entry);
        }
        self.control.settle();
        // A key that was given out anew is another region.
        let known = (self.peers[index].pc_id, share.key);
        if let Some(refused) = self.state().refused.get_mut(&known) {
            refused.gone = false;
        }
        Ok(BoardWindow {
            board: Arc::clone(self),
            peer: index,
            key: share.key,
            page,
            count,
            base: page * PAGE + (first - start) as usize,
            len: bytes as usize,
        })
    }

    /// Takes the events that the board has written.
    pub fn poll(&self) {
        let mut state = self.state();
        self.poll_locked(&mut state);
    }

    pub(super) fn poll_locked(&self, state: &mut State) {
        while let Some(event) = state.events.next(&self.control) {
            self.take(&event, state);
        }
    }

    fn take(&self, event: &EventEntry, state: &mut State) {
        match event.code {
            EVENT_FLUSHED | EVENT_FLUSH_FAILED => {
                if let Some(mark) = state.marks.get_mut(&event.number) {
                    *mark = Some(event.code == EVENT_FLUSHED);
                }
            }
            EVENT_LINK_DOWN => self.link_up.store(false, Ordering::Relaxed),
            EVENT_LINK_UP => self.link_up.store(true, Ordering::Relaxed),
            // Nobody knows whose they were.
            EVENT_OVERFLOW => self.peers.iter().for_each(Peer::fault),
            EVENT_PEER_LOST => {
                for peer in self.peers.iter().filter(|peer| peer.pc_id == event.who) {
                    peer.lost.store(true, Ordering::Relaxed);
                    peer.fault();
                }
            }
            code => {
                let key = (event.who, (event.address >> 32) as u16);
                let refused = state.refused.entry(key).or_default();
                refused.count += 1;
                refused.gone |= code == ERR_BAD_KEY;
            }
        }
    }

    /// Waits until all earlier stores to a peer are acknowledged: `Some(true)`, or are not: `Some(false)`; `None` if that
    /// is not known in time.
    pub(super) fn flush(&self, peer: &Peer, deadline: Deadline) -> Option<bool> {
        self.bar2.fence();
        let mut state = self.state();
        let cookie = loop {
            state.cookie = state.cookie.wrapping_add(1);
            if !state.marks.contains_key(&state.cookie) {
                break state.cookie;
            }
        };
        state.marks.insert(cookie, None);
        self.control.flush(peer.pc_id, cookie);
        drop(state);
        loop {
            let mut state = self.state();
            self.poll_locked(&mut state);
            let answer = state.marks.get(&cookie).copied().flatten();
            if answer.is_some() || deadline.passed() {
                state.marks.remove(&cookie);
                return answer;
            }
            drop(state);
            std::hint::spin_loop();
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // The board must stop to write before the memory goes.
        for key in 0..self.control.features().regions {
            self.control.set_region(key, &RegionEntry::default());
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.events.end(&self.control, self.mapper.as_ref());
    }
}
