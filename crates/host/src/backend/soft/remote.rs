// SPDX-License-Identifier: Apache-2.0
//! A window into another machine's memory, by way of the daemon's software NIC.

use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipc::operations::{LOAD, LOAD_BYTES, Loads, MARK, Operations, STORE, state};
use ipc::token::Rights;

use super::Lease;
use super::window::Range;
use crate::backend::{Flush, WindowAccess};
use crate::clock::{Deadline, Ticks};
use crate::error::{Error, Result};

/// Bytes of one store message: long enough to be cheap, short enough to flow.
const CHUNK: usize = 8 * 1024;
/// How long answers are spun for before the processor is given up between looks.
const SPIN: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(super) struct RemoteWindow {
    lease: Lease,
    range: Range,
    operations: Operations,
    event: OwnedFd,
    /// The ring has one producer: threads take turns.
    turn: Mutex<Numbers>,
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
        })
    }

    fn turn(&self) -> MutexGuard<'_, Numbers> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message into the ring; waits for room as long as the daemon takes messages.
    fn post(&self, _turn: &MutexGuard<'_, Numbers>, kind: u8, parts: &[&[u8]]) {
        let sender = self.operations.sender();
        while sender.try_send(kind, parts).is_err() {
            self.wake();
            if self.ended().is_err() {
                // Nobody will ever take it: like a store to a peer that is lost, it is counted as a fault.
                self.lease.fate.faults.fetch_add(1, Ordering::Relaxed);
                return;
            }
            rustix::thread::sched_yield();
        }
        self.wake();
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.operations.control().armed.load(Ordering::Relaxed) != 0 {
            // Readable already if the counter is full.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Whether the window can never again be of use.
    fn ended(&self) -> Result<()> {
        self.lease.valid()?;
        match self.operations.control().state.load(Ordering::Acquire) {
            state::UP | state::LOST => {}
            state::REVOKED => return Err(Error::Revoked),
            _ => return Err(Error::PeerLost),
        }
        self.lease.link.alive()
    }

    fn wait<T>(
        &self,
        what: &'static str,
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
            self.ended()?;
            if deadline.passed() {
                return Err(Error::TimedOut { what });
            }
            rustix::thread::sched_yield();
        }
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

    fn coherent(&self) -> bool {
        false
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        let turn = self.turn();
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            let at = (offset + index * CHUNK) as u64;
            self.post(&turn, STORE, &[&at.to_le_bytes(), chunk]);
        }
    }

    fn store_line(&self, offset: usize, line: &[u8; 64]) {
        self.store(offset, line);
    }

    fn store_used(&self, offset: usize, line: &[u8; 64], begin: usize) {
        self.store(offset + begin, &line[begin..]);
    }

    fn store64(&self, offset: usize, value: u64) {
        self.store(offset, &value.to_le_bytes());
    }

    // The ring keeps the order, and so does the session that it is sent through.
    fn fence(&self) {}

    // The server's daemon wakes the owner when stores arrive.
    fn signal(&self) {}

    fn load(&self, offset: usize, into: &mut [u8], deadline: Deadline) -> Result<()> {
        for (index, chunk) in into.chunks_mut(LOAD_BYTES).enumerate() {
            let at = (offset + index * LOAD_BYTES) as u64;
            let bytes = chunk.len() as u64;
            // Those that nobody waits for any more keep their pages until they are answered.
            let number = self.wait("a page for the answer to a load", deadline, || {
                let mut turn = self.turn();
                let number = turn.loads.begin(&self.operations)?;
                let parts = [number, at, bytes].map(u64::to_le_bytes);
                self.post(&turn, LOAD, &[&parts[0], &parts[1], &parts[2]]);
                Some(number)
            })?;
            let answer = self.wait("the answer to a load", deadline, || {
                self.operations.answered(number, chunk)
            });
            self.turn().loads.end(number);
            if !answer? {
                self.state()?;
                return Err(Error::Denied { what: "a load" });
            }
        }
        // A load that the other machine refuses brings zeros.
        self.lease.valid()?;
        match self.operations.control().state.load(Ordering::Acquire) {
            state::REVOKED => Err(Error::Revoked),
            _ => Ok(()),
        }
    }

    fn flush(&self, how: Flush, deadline: Deadline) -> Result<()> {
        if how == Flush::Local {
            return Ok(());
        }
        let number = {
            let mut turn = self.turn();
            turn.mark += 1;
            let number = turn.mark;
            self.post(&turn, MARK, &[&number.to_le_bytes()]);
            number
        };
        let mark = &self.operations.control().mark;
        self.wait("the acknowledgement of stores", deadline, || {
            (mark.load(Ordering::Acquire) >= number).then_some(())
        })
    }

    fn faults(&self) -> u64 {
        let control = self.operations.control();
        let revoked = control.state.load(Ordering::Acquire) == state::REVOKED;
        self.lease.faults() + control.faults.load(Ordering::Acquire) + u64::from(revoked)
    }

    fn state(&self) -> Result<()> {
        self.ended()?;
        match self.operations.control().state.load(Ordering::Acquire) {
            state::LOST => Err(Error::PeerLost),
            _ => Ok(()),
        }
    }
}
