// SPDX-License-Identifier: Apache-2.0
//! A host whose TCP is the offload engine in RTL: its pins, its memory, and the programs behind it.
//!
//! The host is modelled: memory answers after a constant number of cycles, and programs take no time. While nothing moves
//! the clock stops until a frame comes or a timer of the engine is due, which the engine says.

pub mod pins;
pub mod services;
pub mod sockets;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ipnuma_rtl::{NetSpeed, NetWord, Toe, ToeCounts};

use crate::calendar::{ComponentId, Message, Outbox};
use crate::error::Error;
use crate::frame::Framer;
use crate::nic::{Attachment, Effort};
use crate::record::Recorder;
use crate::time::Picoseconds;
use pins::{Addresses, Pins};
use services::{Fetch, Fetched, Progress, services};
use sockets::{Peer, SocketCounts};

const SPEED: NetSpeed = NetSpeed::TenGig;
const PERIOD: Picoseconds = Picoseconds(SPEED.net_period_ps());
/// Cycles without anything at any pin behind which only time changes something: longer than a frame takes from the MAC to
/// memory or back, and than the engine takes to look at the timers of all connections.
const QUIET_CYCLES: u64 = 2_048;
/// From a refused connection to the next try.
const AGAIN: Picoseconds = Picoseconds::from_us(100_000);

/// What an engine is to fetch.
#[derive(Clone, Debug)]
pub struct FetchSetup {
    /// Where from.
    pub peer: Peer,
    /// Name of that host.
    pub host: String,
    /// Path of the resource.
    pub path: String,
}

/// Fixed parts of an engine.
pub struct EngineSetup {
    /// This component.
    pub id: ComponentId,
    /// Name of the host.
    pub name: String,
    /// Phase of the clock.
    pub phase: Picoseconds,
    /// Sleep when idle.
    pub skip_idle: bool,
    /// Its addresses.
    pub addresses: Addresses,
    /// What it fetches, if anything.
    pub fetch: Option<FetchSetup>,
}

/// What came out of an engine.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// Name of the host.
    pub name: String,
    /// What its programs did.
    pub sockets: SocketCounts,
    /// What the hardware counted.
    pub counts: ToeCounts,
    /// What it fetched, when that has ended.
    pub fetched: Option<Fetched>,
}

struct Fetching {
    setup: FetchSetup,
    progress: Rc<RefCell<Progress>>,
    again: Option<Picoseconds>,
}

/// The component.
pub struct EnginePort {
    id: ComponentId,
    name: String,
    pins: Pins,
    cable: Option<Attachment>,
    phase: Picoseconds,
    skip_idle: bool,
    next: Picoseconds,
    /// The edge that the calendar will tell of; others that it still has are of no use any more.
    due: Option<Picoseconds>,
    /// The last cycle in which something moved.
    moved: u64,
    words: VecDeque<NetWord>,
    sent: Framer,
    line_active: bool,
    fetching: Option<Fetching>,
    /// How much was simulated.
    pub effort: Effort,
}

impl EnginePort {
    /// An engine after reset, whose services listen.
    pub fn new(setup: EngineSetup) -> Result<Self, Error> {
        let pins = Pins::new(setup.addresses, services()).map_err(|source| Error::Rtl {
            time: Picoseconds::ZERO,
            source,
        })?;
        let fetching = setup.fetch.map(|setup| Fetching {
            setup,
            progress: Rc::default(),
            again: Some(Picoseconds::ZERO),
        });
        Ok(Self {
            id: setup.id,
            name: setup.name,
            pins,
            cable: None,
            phase: setup.phase,
            skip_idle: setup.skip_idle,
            next: setup.phase,
            due: None,
            moved: 0,
            words: VecDeque::new(),
            sent: Framer::default(),
            line_active: false,
            fetching,
            effort: Effort::default(),
        })
    }

    /// Plugs a cable in.
    pub fn attach(&mut self, cable: Attachment) {
        self.cable = Some(cable);
    }

    /// What came out.
    pub fn report(&self) -> EngineReport {
        let progress = self
            .fetching
            .as_ref()
            .map(|fetching| fetching.progress.borrow().clone());
        EngineReport {
            name: self.name.clone(),
            sockets: self.pins.sockets.counts,
            counts: self.pins.counts(),
            fetched: match progress {
                Some(Progress::Done(fetched)) => Some(fetched),
                _ => None,
            },
        }
    }

    /// The first edges: the services are to listen.
    pub fn start(&mut self, now: Picoseconds, out: &mut Outbox) {
        self.wake(now, out);
    }

    /// A word arrives.
    pub fn receive(&mut self, now: Picoseconds, message: Message, out: &mut Outbox) {
        let Message::Word { word, .. } = message else {
            unreachable!("an engine is sent words, and not {message:?}")
        };
        self.words.push_back(word);
        self.wake(now, out);
    }

    /// The clock runs, from its next edge on.
    fn wake(&mut self, now: Picoseconds, out: &mut Outbox) {
        self.moved = self.pins.cycles();
        let next = PERIOD.next_edge(self.phase, now.max(self.next));
        if self.due.is_none_or(|due| next < due) {
            self.due = Some(next);
            out.send(next, self.id, Message::Edge);
        }
    }

    /// One clock edge.
    pub fn edge(
        &mut self,
        now: Picoseconds,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), Error> {
        if self.due != Some(now) {
            return Ok(());
        }
        self.due = None;
        self.catch_up(now)?;
        self.next = now + PERIOD;
        self.effort.edges += 1;
        self.go_on(now);

        let word = self.words.pop_front().unwrap_or(SPEED.idle());
        let rtl = |source| Error::Rtl { time: now, source };
        let cycle = self.pins.cycle(now, word).map_err(rtl)?;
        self.launch_word(now, cycle.word, out, record);
        let us = now.whole_us();
        let left = cycle.alarm.map(|at| at.wrapping_sub(us as u32) as i32);
        // A timer that is due will be seen to, and what it does takes as long as what a frame does.
        let due = left.is_some_and(|left| left <= 0);
        if due || cycle.moves || self.line_active || !self.words.is_empty() {
            self.moved = self.pins.cycles();
        }
        let alarm = left.map(|left| Picoseconds::from_us(us + u64::from(left.max(0) as u32)));
        let next = match self.sleeps_until(alarm) {
            Some(None) => {
                self.effort.sleeps += 1;
                return Ok(());
            }
            Some(Some(time)) => {
                self.effort.sleeps += 1;
                PERIOD.next_edge(self.phase, time.max(self.next))
            }
            None => self.next,
        };
        self.due = Some(next);
        out.send(next, self.id, Message::Edge);
        Ok(())
    }

    /// Runs what was slept of the engine's last turn around its connections, so that it looks at their timers when it would
    /// have without sleep.
    fn catch_up(&mut self, now: Picoseconds) -> Result<(), Error> {
        let missed = now.saturating_sub(self.next).0 / PERIOD.0;
        for left in (1..=missed % Toe::IDLE_CYCLES).rev() {
            let time = now - Picoseconds(left * PERIOD.0);
            let rtl = |source| Error::Rtl { time, source };
            let cycle = self.pins.cycle(time, SPEED.idle()).map_err(rtl)?;
            assert!(
                !cycle.moves && cycle.word == SPEED.idle(),
                "the engine of {} did something at {time}, while it slept",
                self.name
            );
            self.effort.edges += 1;
        }
        Ok(())
    }

    /// Until when nothing can happen, if the clock may stop; without end if only a frame can change something.
    fn sleeps_until(&self, alarm: Option<Picoseconds>) -> Option<Option<Picoseconds>> {
        if !self.skip_idle || self.pins.cycles() - self.moved < QUIET_CYCLES {
            return None;
        }
        let again = self.fetching.as_ref().and_then(|fetching| fetching.again);
        Some([alarm, again].into_iter().flatten().min())
    }

    /// Opens the connection of a fetch whose time has come, and tries again later if it was refused.
    fn go_on(&mut self, now: Picoseconds) {
        let Some(fetching) = &mut self.fetching else {
            return;
        };
        if *fetching.progress.borrow() == Progress::Refused {
            fetching.progress.replace(Progress::Going);
            fetching.again = Some(now + AGAIN);
        }
        if fetching.again.is_some_and(|time| now >= time) {
            fetching.again = None;
            let setup = &fetching.setup;
            let session = Fetch::new(&setup.host, &setup.path, Rc::clone(&fetching.progress));
            self.pins.sockets.connect(setup.peer, Box::new(session));
        }
    }

    fn launch_word(
        &mut self,
        now: Picoseconds,
        word: NetWord,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let active = word != SPEED.idle();
        if !active && !self.line_active {
            return;
        }
        self.line_active = active;
        if let Some(frame) = self.sent.word(now, word) {
            record.frame(self.id, 0, &frame);
        }
        if let Some(cable) = self.cable {
            let message = Message::Word {
                port: cable.port,
                word,
                packet: None,
            };
            out.send(now + cable.delay, cable.peer, message);
        }
    }
}
