// SPDX-License-Identifier: Apache-2.0
//! A window into another machine's memory, by way of the daemon's software NIC.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipc::operations::{LOAD, LOAD_BYTES, Loads, MARK, Operations, STORE, Unloaded, state};
use ipc::token::Rights;

use super::Lease;
use super::window::Range;
use crate::backend::{Flush, WindowAccess, refused};
use crate::clock::{Deadline, Ticks};
use crate::error::{Error, Result};

/// Bytes of one store message: long enough to be cheap, short enough to flow.
const CHUNK: usize = 8 * 1024;
/// How long answers are spun for before the processor is given up between looks.
const SPIN: Duration = Duration::from_micros(50);
/// How long a store waits for a daemon that takes nothing, and a plain load for a word of it: neither has a time-out of its own.
const SILENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct RemoteWindow {
    lease: Lease,
    range: Range,
    operations: Operations,
    event: OwnedFd,
    /// The ring has one producer: threads take turns.
    turn: Mutex<Numbers>,
    /// Plain loads and stores are carried out in a handler of signals: who has the turn must not be interrupted by one.
    trapped: AtomicBool,
    /// The thread whose turn it is, if `trapped`.
    holder: AtomicU32,
    /// [`SILENCE`], but in tests.
    silence: Duration,
}

/// A turn, and the signals of its thread that wait for its end.
struct Turn<'a> {
    numbers: MutexGuard<'a, Numbers>,
    holder: Option<&'a AtomicU32>,
    _quiet: Option<trap::Quiet>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(holder) = self.holder {
            holder.store(0, Ordering::Relaxed);
        }
    }
}

/// Who asks whether a window is still of use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// A call: it takes what the daemon has said, too.
    Call,
    /// A handler of signals: only what is known without allocation and locks.
    Handler,
}

/// What has numbers.
#[derive(Debug, Default)]
struct Numbers {
    /// The last mark.
    mark: u64,
    loads: Loads,
}

impl RemoteWindow {
    pub(super) fn new(
        lease: Lease,
        range: Range,
        [operations, event]: [OwnedFd; 2],
    ) -> Result<Self> {
        let operations = Operations::map(&operations)?;
        Ok(Self {
            lease,
            range,
            operations,
            event,
            turn: Mutex::default(),
            trapped: AtomicBool::new(false),
            holder: AtomicU32::new(0),
            silence: SILENCE,
        })
    }

    fn turn(&self) -> Turn<'_> {
        loop {
            let trapped = self.trapped.load(Ordering::Acquire);
            let quiet = trapped.then(trap::Quiet::begin);
            let numbers = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have been mapped meanwhile.
            if self.trapped.load(Ordering::Relaxed) == trapped {
                let holder = trapped.then_some(&self.holder);
                if let Some(holder) = holder {
                    holder.store(trap::thread(), Ordering::Relaxed);
                }
                return Turn {
                    numbers,
                    holder,
                    _quiet: quiet,
                };
            }
        }
    }

    /// The turn of a handler of signals, all of which wait.
    fn turn_in_handler(&self) -> Result<Turn<'_>, trap::Refused> {
        // An access of this very call's own: it would wait for itself.
        if self.holder.load(Ordering::Relaxed) == trap::thread() {
            return Err(trap::Refused::Inside);
        }
        let numbers = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.holder.store(trap::thread(), Ordering::Relaxed);
        Ok(Turn {
            numbers,
            holder: Some(&self.holder),
            _quiet: None,
        })
    }

    /// Puts a store into the ring; waits for room while the daemon takes messages.
    fn post_store(&self, turn: &Turn<'_>, asks: Asks, parts: &[&[u8]]) -> Result<()> {
        let taken = || self.operations.control().credit.load(Ordering::Relaxed);
        let mut before = taken();
        let mut silence = None;
        let posted = self.post(turn, asks, STORE, parts, || {
            let now = taken();
            if now != before {
                before = now;
                silence = None;
            }
            let silence = *silence.get_or_insert_with(|| Deadline::after(Some(self.silence)));
            match silence.passed() {
                true => Err(Error::Stalled),
                false => Ok(()),
            }
        });
        if posted.is_err() {
            // Nobody will ever take it: like a store to a peer that is lost, it is counted as a fault.
            self.lease.fate.faults.fetch_add(1, Ordering::Relaxed);
        }
        posted
    }

    /// Puts a question into the ring whose answer is waited for until `deadline`.
    fn post_question(
        &self,
        turn: &Turn<'_>,
        asks: Asks,
        kind: u8,
        parts: &[&[u8]],
        deadline: Deadline,
    ) -> Result<()> {
        let what = "room for a question to the daemon";
        self.post(turn, asks, kind, parts, || match deadline.passed() {
            true => Err(Error::TimedOut { what }),
            false => Ok(()),
        })
    }

    /// Puts a message into the ring; waits for room until the window ends, or `patient` has an error.
    fn post(
        &self,
        _turn: &Turn<'_>,
        asks: Asks,
        kind: u8,
        parts: &[&[u8]],
        mut patient: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let sender = self.operations.sender();
        while sender.try_send(kind, parts).is_err() {
            self.wake();
            self.ended(asks)?;
            patient()?;
            rustix::thread::sched_yield();
        }
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.operations.control().armed.load(Ordering::Relaxed) != 0 {
            // Readable already if the counter is full.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Whether the window can never again be of use.
    fn ended(&self, asks: Asks) -> Result<()> {
        match asks {
            Asks::Call => self.lease.valid()?,
            Asks::Handler => self.lease.known_valid()?,
        }
        match self.operations.control().state.load(Ordering::Acquire) {
            state::UP | state::LOST => {}
            state::REVOKED => return Err(Error::Revoked),
            _ => return Err(Error::PeerLost),
        }
        match asks {
            Asks::Call => self.lease.link.alive(),
            Asks::Handler => self.lease.link.answers(),
        }
    }

    fn wait<T>(
        &self,
        what: &'static str,
        asks: Asks,
        deadline: Deadline,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let spin = Ticks::now().after(SPIN);
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if !spin.passed() {
                std::hint::spin_loop();
                continue;
            }
            self.ended(asks)?;
            if deadline.passed() {
                return Err(Error::TimedOut { what });
            }
            rustix::thread::sched_yield();
        }
    }

    /// Loads what fits into a page of answers, as a call does; `false`: it is refused. A server that does not answer its NIC's loads
    /// may only stand still: it is asked again until it answers, the daemons take it for lost, or time is over.
    fn load_page(&self, at: usize, into: &mut [u8], deadline: Deadline) -> Result<bool> {
        loop {
            match self.ask_page(at, into, Asks::Call, deadline)? {
                Ok(()) => return Ok(true),
                Err(Unloaded::Refused) => return Ok(false),
                Err(Unloaded::Unanswered) if deadline.passed() => {
                    let what = "the answer to a load";
                    return Err(Error::TimedOut { what });
                }
                Err(Unloaded::Unanswered) => {}
            }
        }
    }

    /// The same in a handler of signals.
    fn load_in_handler(&self, at: usize, into: &mut [u8]) -> Result<bool> {
        loop {
            // Each answer, also that there is none of the server's, says that the daemon runs.
            let silence = Deadline::after(Some(self.silence));
            match self.ask_page(at, into, Asks::Handler, silence)? {
                Ok(()) => return Ok(true),
                Err(Unloaded::Refused) => return Ok(false),
                Err(Unloaded::Unanswered) => {}
            }
        }
    }

    /// Asks once for what fits into a page of answers.
    fn ask_page(
        &self,
        at: usize,
        into: &mut [u8],
        asks: Asks,
        deadline: Deadline,
    ) -> Result<Result<(), Unloaded>> {
        let bytes = into.len() as u64;
        // Those that nobody waits for any more keep their pages until they are answered.
        let what = "a page for the answer to a load";
        let number = self.wait(what, asks, deadline, || {
            let turn = match asks {
                Asks::Call => Ok(self.turn()),
                Asks::Handler => self.turn_in_handler(),
            };
            let Ok(mut turn) = turn else {
                return Some(Err(Error::System {
                    what: "a load within a call about the same window",
                    source: rustix::io::Errno::DEADLK,
                }));
            };
            let number = turn.numbers.loads.begin(&self.operations)?;
            let parts = [number, at as u64, bytes].map(u64::to_le_bytes);
            let parts = [&parts[0][..], &parts[1], &parts[2]];
            let posted = self.post_question(&turn, asks, LOAD, &parts, deadline);
            if posted.is_err() {
                turn.numbers.loads.cancel(number);
            }
            Some(posted.map(|()| number))
        })??;
        let answer = self.wait("the answer to a load", asks, deadline, || {
            self.operations.answered(number, into)
        });
        match asks {
            Asks::Call => self.turn().numbers.loads.end(number),
            Asks::Handler => {
                if let Ok(mut turn) = self.turn_in_handler() {
                    turn.numbers.loads.end(number);
                }
            }
        }
        answer
    }

    /// A load that the other machine refuses brings zeros.
    fn loaded(&self) -> Result<()> {
        match self.operations.control().state.load(Ordering::Acquire) {
            state::REVOKED => Err(Error::Revoked),
            _ => Ok(()),
        }
    }

    /// Whether stores arrive, as far as is known without asking anybody.
    fn reaches(&self) -> Result<()> {
        self.lease.known_valid()?;
        match self.operations.control().state.load(Ordering::Acquire) {
            state::UP => Ok(()),
            state::REVOKED => Err(Error::Revoked),
            _ => Err(Error::PeerLost),
        }
    }
}

/// The ring, the answers and the daemon's state are shared memory, and the turn is never held by a thread that a handler
/// interrupts.
impl trap::Remote for RemoteWindow {
    fn store(&self, offset: usize, bytes: &[u8]) -> Result<(), trap::Refused> {
        let turn = self.turn_in_handler()?;
        let at = (offset as u64).to_le_bytes();
        let stored = self
            .reaches()
            .and_then(|()| self.post_store(&turn, Asks::Handler, &[&at, bytes]));
        stored.map_err(|error| refused(&error))
    }

    fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), trap::Refused> {
        let loaded = self
            .reaches()
            .and_then(|()| self.load_in_handler(offset, into));
        match loaded {
            Ok(true) => self.loaded().map_err(|error| refused(&error)),
            Ok(false) => Err(match self.reaches() {
                Err(error) => refused(&error),
                Ok(()) => trap::Refused::Denied,
            }),
            Err(Error::System {
                source: rustix::io::Errno::DEADLK,
                ..
            }) => Err(trap::Refused::Inside),
            Err(error) => Err(refused(&error)),
        }
    }

    fn state(&self) -> Result<(), trap::Refused> {
        self.reaches().map_err(|error| refused(&error))
    }
}

impl WindowAccess for RemoteWindow {
    fn first(&self) -> u64 {
        self.range.first
    }

    fn bytes(&self) -> u64 {
        self.range.bytes
    }

    fn rights(&self) -> Rights {
        self.range.rights
    }

    fn mapped(&self) -> Option<*mut u8> {
        None
    }

    fn trapped(self: Arc<Self>) -> Option<Arc<dyn trap::Remote>> {
        // The clock's rate is measured once, and not in a handler.
        let _ = Ticks::now().after(SPIN);
        // Who has the turn now was not asked to keep its signals waiting.
        let turn = self.turn();
        self.trapped.store(true, Ordering::Release);
        drop(turn);
        Some(self)
    }

    fn coherent(&self) -> bool {
        false
    }

    fn store(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        // What another window's, or this one's, plain loads have to bring is brought before the turn is taken.
        let brought = trap::traps(bytes).then(|| bytes.to_vec());
        let bytes = brought.as_deref().unwrap_or(bytes);
        let turn = self.turn();
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            let at = (offset + index * CHUNK) as u64;
            match self.post_store(&turn, Asks::Call, &[&at.to_le_bytes(), chunk]) {
                Ok(()) => {}
                Err(Error::Stalled) => return Err(Error::Stalled),
                // It is counted, and so is the end of the window.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn store_line(&self, offset: usize, line: &[u8; 64]) -> Result<()> {
        self.store(offset, line)
    }

    fn store_used(&self, offset: usize, line: &[u8; 64], begin: usize) -> Result<()> {
        self.store(offset + begin, &line[begin..])
    }

    fn store64(&self, offset: usize, value: u64) -> Result<()> {
        self.store(offset, &value.to_le_bytes())
    }

    // The ring keeps the order, and so does the session that it is sent through.
    fn fence(&self) {}

    // The server's daemon wakes the owner when stores arrive.
    fn signal(&self) {}

    fn load(&self, offset: usize, into: &mut [u8], deadline: Deadline) -> Result<()> {
        for (index, chunk) in into.chunks_mut(LOAD_BYTES).enumerate() {
            let at = offset + index * LOAD_BYTES;
            if !self.load_page(at, chunk, deadline)? {
                self.state()?;
                return Err(Error::Denied { what: "a load" });
            }
        }
        self.lease.valid()?;
        self.loaded()
    }

    fn flush(&self, how: Flush, deadline: Deadline) -> Result<()> {
        if how == Flush::Local {
            return Ok(());
        }
        let number = {
            let mut turn = self.turn();
            turn.numbers.mark += 1;
            let number = turn.numbers.mark;
            self.post_question(&turn, Asks::Call, MARK, &[&number.to_le_bytes()], deadline)?;
            number
        };
        let mark = &self.operations.control().mark;
        self.wait(
            "the acknowledgement of stores",
            Asks::Call,
            deadline,
            || (mark.load(Ordering::Acquire) >= number).then_some(()),
        )
    }

    fn faults(&self) -> u64 {
        let control = self.operations.control();
        let revoked = control.state.load(Ordering::Acquire) == state::REVOKED;
        // Without a daemon nobody takes what is in the ring.
        let gone = self.lease.link.daemon_gone.load(Ordering::Relaxed);
        let faults = self.lease.faults() + control.faults.load(Ordering::Acquire);
        faults + u64::from(revoked) + u64::from(gone)
    }

    fn state(&self) -> Result<()> {
        self.ended(Asks::Call)?;
        match self.operations.control().state.load(Ordering::Acquire) {
            state::LOST => Err(Error::PeerLost),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
