// SPDX-License-Identifier: Apache-2.0
//! The model with its surroundings, and the software that would sit above a NIC: who has which key, page and session.

mod sessions;
mod windows;

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use model::{BAR_REGISTERS, Counters, Nic};
use rand::RngExt;
use wire::registers as reg;
use wire::{
    ERR_BAD_BOUNDS, ERR_BAD_KEY, ERR_BAD_RIGHTS, ERR_BAD_SOURCE, EVENT_FLUSH_FAILED, EVENT_FLUSHED,
    EVENT_PEER_LOST, EventEntry, FMT_MRD64, MemRequest, TlpHeader,
};

use crate::config::Config;
use crate::error::Error;
use crate::outside::Outside;
use crate::pages::Pages;
use crate::transport::{Identity, Transport};

pub use sessions::PeerAddress;
pub use windows::{Share, Shared, Window};

/// BAR of completions: none.
const NO_BAR: u8 = 7;
/// Frames that are taken from the transport before anything else has its turn.
const AT_ONCE: usize = 64;
/// log2 of the entries of the event ring, which is emptied at once.
const RING_LOG2: u32 = 16;
/// Where the event ring would be. No region is there.
const RING: u64 = 1 << 63;

/// How far behind a number that is given out the next one is looked for: at random, because on a plain session who guesses
/// them can write; and not far, so that a number does not soon come again.
fn leap(count: usize) -> usize {
    rand::rng().random_range(1..=1 + count / 64)
}

/// Why a peer refused a store or load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The region is not there any more.
    Key,
    /// It is not shared with this machine.
    Source,
    /// It may not be written, or not be read.
    Rights,
    /// Outside of it.
    Bounds,
}

/// What the NIC has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer does not answer any more; stores to it are dropped until its session is opened anew.
    PeerLost {
        /// Own number of the session.
        session: u8,
    },
    /// A peer refused a store or load. Those before and after it are not concerned, unless it is for its key: stores behind it with the
    /// same key and tag are not sent any more, and nothing more is said of them.
    Refused {
        /// Own number of the session.
        session: u8,
        /// Why.
        reason: Refusal,
        /// Key of the region.
        key: u16,
        /// Offset in the region.
        offset: u32,
        /// Whether it was a load, which has been answered with zeros.
        load: bool,
    },
    /// A flush has ended.
    Flushed {
        /// What it was asked with.
        cookie: u64,
        /// Whether all stores before it were delivered.
        delivered: bool,
    },
    /// A load has ended.
    Loaded {
        /// Its number.
        load: u64,
        /// Its bytes.
        data: Result<Vec<u8>, Unloaded>,
    },
}

/// Why a load has brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unloaded {
    /// The peer has not answered in time; it may if it is asked again.
    Unanswered,
    /// It leads nowhere.
    Impossible,
}

/// A NIC in software.
pub struct SoftNic {
    nic: Nic,
    outside: Outside,
    config: Config,
    /// When time was last let pass.
    last: Instant,
    now_us: u32,
    pages: Pages,
    sessions: Vec<Option<sessions::Link>>,
    next_session: usize,
    next_key: usize,
    /// Tags of regions by key, also of those that are revoked.
    tags: Vec<u16>,
    flushes: HashMap<u16, u64>,
    next_cookie: u16,
    tail: u32,
    events: VecDeque<Event>,
    frame: Vec<u8>,
}

impl SoftNic {
    /// A NIC that sends and receives through `transport`.
    ///
    /// # Errors
    /// None at present.
    pub fn new(config: Config, transport: Box<dyn Transport>) -> Result<Self, Error> {
        let model = config.model();
        let identity = transport.identity();
        let outside = Outside::new(
            transport,
            config.regions,
            model.load_tags,
            model.completer_id,
        );
        let mut nic = Self {
            nic: Nic::new(model),
            outside,
            last: Instant::now(),
            now_us: 0,
            pages: Pages::new(config.pages),
            sessions: vec![None; config.sessions],
            next_session: 1 + rand::rng().random_range(0..config.sessions.max(2) - 1),
            tags: vec![0; config.regions],
            next_key: rand::rng().random_range(0..config.regions.max(1)),
            flushes: HashMap::new(),
            next_cookie: 0,
            tail: 0,
            events: VecDeque::new(),
            frame: Vec::new(),
            config,
        };
        nic.set_up(identity);
        Ok(nic)
    }

    fn set_up(&mut self, identity: Identity) {
        let config = &self.config;
        let limit = u32::from(config.doublings) << 8 | u32::from(config.resend_limit);
        let window = u32::from(config.acknowledge_every) << 8 | u32::from(config.window.min(127));
        let writes = [
            (reg::REG_MAC_LO, identity.mac as u32),
            (reg::REG_MAC_HI, (identity.mac >> 32) as u32),
            (reg::REG_IP, identity.ip),
            (reg::REG_NETMASK, config.netmask),
            (reg::REG_GATEWAY_MAC_LO, config.gateway_mac as u32),
            (reg::REG_GATEWAY_MAC_HI, (config.gateway_mac >> 32) as u32),
            (reg::REG_READ_TIMEOUT_US, config.read_timeout_us),
            (reg::REG_RESEND_TICKS, u32::from(config.resend_us)),
            (reg::REG_RESEND_LIMIT, limit),
            (reg::REG_ACK_TICKS, u32::from(config.ack_us)),
            (reg::REG_WINDOW, window),
            (reg::REG_LOAD_RETRY_US, u32::from(config.load_retry_us)),
            (reg::REG_EVENT_BASE_LO, RING as u32),
            (reg::REG_EVENT_BASE_HI, (RING >> 32) as u32),
            (reg::REG_EVENT_LOG2, RING_LOG2),
        ];
        for (offset, value) in writes {
            self.write_register(offset, value);
        }
    }

    /// Its addresses.
    pub fn identity(&self) -> Identity {
        self.outside.transport.identity()
    }

    /// The counters of the hardware.
    pub fn counters(&self) -> &Counters {
        self.nic.counters()
    }

    fn write_register(&mut self, offset: u32, value: u32) {
        let request = MemRequest {
            length: 1,
            first_be: 0xF,
            address: offset.into(),
            ..MemRequest::default()
        };
        if let Ok(tlp) = TlpHeader::MemWrite(request).emit(&value.to_le_bytes()) {
            self.tlp(&tlp, BAR_REGISTERS);
        }
    }

    fn write_entry(&mut self, base: u32, index: usize, dws: &[u32]) {
        let at = base + (4 * dws.len() * index) as u32;
        for (dw, &value) in (0..).zip(dws) {
            self.write_register(at + 4 * dw, value);
        }
    }

    fn tlp(&mut self, tlp: &[u8], bar: u8) {
        self.nic.tlp_from_root(tlp, bar, &mut self.outside);
    }

    /// The next read of a load, as far as sessions let it.
    fn next_read(&mut self) -> Option<Vec<u8>> {
        let (nic, backlog) = (&self.nic, self.config.backlog);
        let may_send = |session| windows::may_send(nic, backlog, session);
        self.outside.loads.next_read(may_send)
    }

    /// Gives the NIC what it waits for from its host.
    fn settle(&mut self) {
        loop {
            while let Some(tlp) = self.outside.answers.pop_front() {
                self.tlp(&tlp, NO_BAR);
            }
            let before = self.tail;
            while let Some(entry) = self.outside.events.pop_front() {
                self.tail = self.tail.wrapping_add(1);
                self.event(&entry);
            }
            if self.tail != before {
                self.write_register(reg::REG_EVENT_TAIL, self.tail);
            }
            while let Some(read) = self.next_read() {
                self.tlp(&read, model::BAR_PAGES);
            }
            while let Some((load, data)) = self.outside.loads.done() {
                self.events.push_back(Event::Loaded { load, data });
            }
            if self.outside.answers.is_empty() && self.outside.events.is_empty() {
                return;
            }
        }
    }

    fn event(&mut self, entry: &EventEntry) {
        let Ok(session) = u8::try_from(entry.who) else {
            // It is about no session.
            return;
        };
        let event = match entry.code {
            EVENT_PEER_LOST => Event::PeerLost { session },
            EVENT_FLUSHED | EVENT_FLUSH_FAILED => {
                let Some(cookie) = self.flushes.remove(&entry.number) else {
                    return;
                };
                Event::Flushed {
                    cookie,
                    delivered: entry.code == EVENT_FLUSHED,
                }
            }
            code => {
                let reason = match code {
                    ERR_BAD_KEY => Refusal::Key,
                    ERR_BAD_SOURCE => Refusal::Source,
                    ERR_BAD_RIGHTS => Refusal::Rights,
                    ERR_BAD_BOUNDS => Refusal::Bounds,
                    _ => return,
                };
                Event::Refused {
                    session,
                    reason,
                    key: (entry.address >> 32) as u16,
                    offset: entry.address as u32,
                    load: entry.op == FMT_MRD64,
                }
            }
        };
        self.events.push_back(event);
    }

    /// Does all there is to do, without waiting: frames in and out, time. `true` if frames came.
    ///
    /// # Errors
    /// [`Error::Io`] if the transport failed.
    pub fn poll(&mut self) -> Result<bool, Error> {
        let passed = (self.last.elapsed().as_nanos() / self.tick().as_nanos()) as u64;
        let mut came = false;
        if self.due_us().is_some_and(|due| due <= passed) {
            // What is due may have been prevented by a frame that waits.
            came = self.receive();
        }
        self.clock(passed);
        came |= self.receive();
        self.flush_frames();
        self.outside.wake();
        match self.outside.failure.take() {
            Some(error) => Err(error.into()),
            None => Ok(came),
        }
    }

    /// Takes frames that wait, as many as have a turn.
    fn receive(&mut self) -> bool {
        let mut came = false;
        let mut frame = std::mem::take(&mut self.frame);
        for _ in 0..AT_ONCE {
            match self.outside.transport.receive(&mut frame) {
                Ok(true) => {
                    self.nic.frame_from_mac(&frame, &mut self.outside);
                    came = true;
                }
                Ok(false) => break,
                Err(error) => {
                    self.outside.failure.get_or_insert(error);
                    break;
                }
            }
            self.settle();
        }
        self.frame = frame;
        self.settle();
        came
    }

    fn tick(&self) -> Duration {
        self.config.tick.max(Duration::from_nanos(1))
    }

    /// Microseconds of the NIC's time until something is due.
    fn due_us(&self) -> Option<u64> {
        let ticks = self.nic.net_deadline();
        let us = self.nic.us_deadline().map(u64::from);
        ticks.into_iter().chain(us).min()
    }

    /// Lets time pass, but not beyond the first thing that is due: if this process stood still, that is no silence of
    /// its peers.
    fn clock(&mut self, passed: u64) {
        if passed == 0 {
            return;
        }
        self.last += Duration::from_nanos(self.tick().as_nanos() as u64 * passed);
        let us = self.due_us().map_or(passed, |due| passed.min(due.max(1)));
        self.now_us = self.now_us.wrapping_add(us as u32);
        self.nic.tick_net(us, &mut self.outside);
        self.nic.tick(self.now_us, &mut self.outside);
        self.settle();
    }

    /// Sends what the transport has kept back.
    fn flush_frames(&mut self) {
        if let Err(error) = self.outside.transport.flush() {
            self.outside.failure.get_or_insert(error);
        }
    }

    /// What there is to say, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How long nothing has to be done if no frame comes; `None`: for ever.
    pub fn deadline(&self) -> Option<Duration> {
        let due = Duration::from_nanos(self.tick().as_nanos() as u64 * self.due_us()?);
        Some(due.saturating_sub(self.last.elapsed()))
    }

    /// What becomes readable when frames wait.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.outside.transport.descriptor()
    }

    /// Whether all that was asked for is done: every store acknowledged, every load answered.
    pub fn is_quiet(&self) -> bool {
        self.nic.is_quiet() && self.outside.loads.is_empty()
    }
}
