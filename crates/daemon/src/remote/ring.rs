// SPDX-License-Identifier: Apache-2.0
//! One window of a process on another machine's memory: its stores come out of a ring, and go into the NIC.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use ipc::operations::{LOAD, LOAD_BYTES, MARK, Operations, STORE, Unloaded, state};
use ipc::token::Rights;

use crate::remote::nic::{Nic, WindowId};

/// Messages that are taken before other rings have their turn.
const TURN: usize = 64;

/// What a process waits for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// A mark of this number.
    Mark(u64),
    /// A load of this number.
    Load(u64),
    /// That all that was stored has arrived: the process has closed the window.
    End,
}

/// What came of a turn.
#[derive(Debug, Default)]
pub struct Turn {
    /// Something was done.
    pub busy: bool,
    /// Flushes and loads to be told of: what, and the NIC's cookie or number.
    pub marks: Vec<(u64, Wanted)>,
    /// Loads likewise.
    pub loads: Vec<(u64, Wanted)>,
}

/// A ring with its window.
#[derive(Debug)]
pub struct Ring {
    operations: Operations,
    /// Wakes the NIC's thread.
    pub event: OwnedFd,
    window: WindowId,
    /// Own number of the session that it goes through.
    pub session: u8,
    rights: Rights,
    /// Key of the region.
    pub key: u16,
    /// Bytes of the store in front that the NIC has taken.
    partial: usize,
    /// Room for a copy of a message.
    message: Vec<u8>,
    /// Nothing goes to the NIC any more: the session may be another peer's by now, or the token was taken back.
    cut: bool,
    /// Nothing is taken from it any more.
    dead: bool,
}

/// A little-endian number at the front, and the rest.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first), rest))
}

impl Ring {
    /// A ring for a window.
    pub fn new(
        operations: Operations,
        event: OwnedFd,
        window: WindowId,
        session: u8,
        rights: Rights,
        key: u16,
    ) -> Self {
        Self {
            operations,
            event,
            window,
            session,
            rights,
            key,
            partial: 0,
            message: Vec::new(),
            cut: false,
            dead: false,
        }
    }

    /// Whether nothing goes to the NIC any more.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether there is something to take.
    pub fn readable(&self) -> bool {
        !self.dead && self.operations.receiver().readable()
    }

    /// Tells the process whether it must wake the NIC's thread.
    pub fn arm(&self, armed: bool) {
        let word = &self.operations.control().armed;
        word.store(armed.into(), Ordering::SeqCst);
    }

    /// Takes stores and the like; `next` gives numbers to flushes.
    pub fn drain(&mut self, nic: &mut dyn Nic, next: &mut u64) -> Turn {
        let mut turn = Turn::default();
        let mut copy = std::mem::take(&mut self.message);
        for _ in 0..TURN {
            if self.dead {
                break;
            }
            let mut receiver = self.operations.receiver();
            if receiver.is_corrupt() {
                // Whoever has written this has only its own window to lose.
                self.set_state(state::CLOSED);
                self.dead = true;
                break;
            }
            let Some(message) = receiver.peek() else {
                break;
            };
            // A copy: the process can write there while it is looked at.
            copy.resize(message.len(), 0);
            message.copy_to(0, &mut copy);
            let kind = message.kind();
            match (kind, number(&copy)) {
                (STORE, Some(_)) if self.cut => self.fault(),
                (MARK, Some((mark, []))) if self.cut => self.ended(Wanted::Mark(mark), false),
                (LOAD, Some((load, _))) if self.cut => self.ended(Wanted::Load(load), false),
                (STORE, Some((offset, data))) if self.rights.can_write() => {
                    let done = self.partial.min(data.len());
                    let at = offset.saturating_add(done as u64);
                    match nic.store(self.window, at, &data[done..]) {
                        Ok(taken) => {
                            turn.busy |= taken > 0;
                            self.partial = done + taken;
                            if self.partial < data.len() {
                                break;
                            }
                        }
                        Err(_) => self.fault(),
                    }
                }
                (MARK, Some((mark, []))) => {
                    *next += 1;
                    match nic.flush(self.session, *next) {
                        Ok(()) => turn.marks.push((*next, Wanted::Mark(mark))),
                        // Too many wait: this one is taken later.
                        Err(_) => break,
                    }
                }
                (LOAD, Some((load, rest))) => {
                    let (at, bytes) = match number(rest) {
                        Some((at, rest)) => (at, number(rest).map_or(u64::MAX, |(bytes, _)| bytes)),
                        None => (0, u64::MAX),
                    };
                    let fits = bytes <= LOAD_BYTES as u64 && self.rights.can_read();
                    let begun = fits.then(|| nic.load(self.window, at, bytes as usize));
                    match begun {
                        Some(Ok(id)) => turn.loads.push((id, Wanted::Load(load))),
                        _ => self.ended(Wanted::Load(load), false),
                    }
                }
                _ => self.fault(),
            }
            self.partial = 0;
            turn.busy = true;
            receiver.release();
        }
        self.message = copy;
        turn
    }

    /// A store was refused or lost.
    pub fn fault(&self) {
        self.operations
            .control()
            .faults
            .fetch_add(1, Ordering::Release);
    }

    /// A load has ended.
    pub fn loaded(&self, load: u64, data: Result<&[u8], softnic::Unloaded>) {
        let data = data.map_err(|why| match why {
            softnic::Unloaded::Unanswered => Unloaded::Unanswered,
            softnic::Unloaded::Impossible => Unloaded::Refused,
        });
        self.operations.answer(load, data);
    }

    /// Something the process waits for has ended; a load without its bytes.
    pub fn ended(&self, wanted: Wanted, delivered: bool) {
        match wanted {
            Wanted::Mark(mark) => {
                if !delivered {
                    self.fault();
                }
                self.operations
                    .control()
                    .mark
                    .store(mark, Ordering::Release);
            }
            Wanted::End => {}
            Wanted::Load(load) => self.operations.answer(load, Err(Unloaded::Refused)),
        }
    }

    /// Changes the state that the process sees, unless it has changed before.
    pub fn set_state(&self, to: u32) {
        let word = &self.operations.control().state;
        // Whichever was first stays.
        let _ = word.compare_exchange(state::UP, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The peer is lost: stores are counted as faults from now on.
    pub fn cut(&mut self) {
        if !self.cut {
            self.fault();
            self.set_state(state::LOST);
            self.cut = true;
        }
    }

    /// The token was taken back: what waits in the ring would be refused, one frame after the other, and each refusal has all
    /// that the session has under way sent again, also what is of other windows.
    pub fn revoke(&mut self) {
        self.set_state(state::REVOKED);
        self.cut = true;
    }

    /// Takes it apart; the process sees that it is closed.
    pub fn close(self) -> WindowId {
        self.set_state(state::CLOSED);
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::carry::tests::Stores;

    #[test]
    fn a_load_that_is_late_is_told_apart_from_one_that_is_refused() {
        let (operations, fd) = Operations::create().expect("memory");
        let process = Operations::map(&fd).expect("memory");
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty());
        let event = event.expect("an event counter");
        let ring = Ring::new(operations, event, 1, 1, Rights::ReadWrite, 5);
        let mut into = [0; 4];
        let mut answered = || process.answered(8, &mut into);
        ring.loaded(8, Err(softnic::Unloaded::Unanswered));
        assert_eq!(answered(), Some(Err(Unloaded::Unanswered)));
        ring.loaded(8, Err(softnic::Unloaded::Impossible));
        assert_eq!(answered(), Some(Err(Unloaded::Refused)));
        ring.ended(Wanted::Load(8), false);
        assert_eq!(answered(), Some(Err(Unloaded::Refused)));
        ring.loaded(8, Ok(b"1234"));
        assert_eq!(answered(), Some(Ok(())));
        assert_eq!(&into, b"1234");
    }

    #[test]
    fn nothing_that_waits_in_the_ring_goes_out_once_the_token_is_taken_back() {
        let (operations, fd) = Operations::create().expect("memory");
        let process = Operations::map(&fd).expect("memory");
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty());
        let event = event.expect("an event counter");
        let mut ring = Ring::new(operations, event, 1, 1, Rights::ReadWrite, 5);
        let put = |kind, parts: &[&[u8]]| {
            process.sender().try_send(kind, parts).expect("room");
        };
        let store = || put(STORE, &[&8_u64.to_le_bytes(), &[7; 24]]);
        let mut nic = Stores {
            room: Some(3),
            ..Stores::default()
        };
        for _ in 0..300 {
            store();
        }
        let mut next = 0;
        assert!(ring.drain(&mut nic, &mut next).busy);
        assert_eq!(nic.stores.len(), 3);
        put(MARK, &[&1_u64.to_le_bytes()]);
        let mut load = [0; 8];
        put(LOAD, &[&3_u64.to_le_bytes(), &[0; 16]]);
        ring.revoke();
        nic.room = None;
        while ring.readable() {
            assert!(ring.drain(&mut nic, &mut next).busy);
        }
        assert_eq!(nic.stores.len(), 3, "the NIC was given more");
        let control = process.control();
        // 297 stores, and the mark tells of them.
        assert_eq!(control.faults.load(Ordering::Acquire), 298);
        assert_eq!(control.mark.load(Ordering::Acquire), 1);
        let refused = Some(Err(Unloaded::Refused));
        assert_eq!(process.answered(3, &mut load), refused);
        assert_eq!(control.state.load(Ordering::Acquire), state::REVOKED);
    }
}
