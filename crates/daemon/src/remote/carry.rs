// SPDX-License-Identifier: Apache-2.0
//! One end of a channel between machines: what it writes into its copy of the channel's memory goes into the NIC, to the
//! same places of the other machine's copy. The window is on as much of that as the end may write.
//!
//! Lines come first, then what the end says about itself: its end of the stream does not overtake its data.

use shm::channel::{Carrier, Copy, Hold, Outcome, Outgoing, Progress, Words, flags};

use crate::remote::nic::{Nic, WindowId};

/// Messages that are taken before other channels have their turn.
const TURN: usize = 64;

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Something was done.
    pub busy: bool,
    /// It has ended, and all that there is to say is on its way.
    pub ended: bool,
}

/// An end with its window.
#[derive(Debug)]
pub struct Carried {
    end: Carrier,
    pub window: WindowId,
    /// Where in the channel the window begins.
    first: u64,
    /// Own number of the session that it goes through.
    pub session: u8,
    /// Key of the other machine's copy.
    pub key: u16,
    /// How far it has come, if nobody else carries.
    progress: Progress,
    /// The end's processes have the window, too, and carry by themselves.
    direct: bool,
    /// A copy of what is stored next.
    copy: Vec<u8>,
    /// Nobody has the end any more.
    deserted: bool,
    /// Its position is to be told although nothing else is.
    lazy: bool,
    /// Nothing is taken from it any more: all was said, the peer is lost, or a process has written what no end does.
    still: bool,
}

/// The window, as where stores go.
struct Into<'a> {
    nic: &'a mut dyn Nic,
    window: WindowId,
    first: u64,
    copy: &'a mut Vec<u8>,
}

impl Copy for Into<'_> {
    fn message(&mut self, message: &Outgoing<'_>, at: u64, bytes: usize) -> Option<usize> {
        // Copies: a process can write there while they are looked at.
        self.copy.resize(bytes, 0);
        message.copy(at, self.copy);
        self.nic.store(self.window, at - self.first, self.copy).ok()
    }

    fn word(&mut self, at: u64, word: &[u8]) -> bool {
        self.nic
            .store(self.window, at - self.first, word)
            .is_ok_and(|taken| taken == word.len())
    }
}

impl Carried {
    /// For an end.
    pub fn new(end: Carrier, window: WindowId, session: u8, key: u16) -> Self {
        Self {
            first: end.target().start,
            end,
            window,
            session,
            key,
            progress: Progress::default(),
            direct: false,
            copy: Vec::new(),
            deserted: false,
            lazy: false,
            still: false,
        }
    }

    /// The end's processes get the window, and carry by themselves. Before anything was carried.
    pub fn direct(&mut self) {
        self.direct = true;
        self.end.arm(true);
    }

    /// Whether its processes carry by themselves.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Tells the processes whether they must wake the NIC's thread. Who carries by itself does not ask.
    pub fn arm(&self, armed: bool) {
        if armed || !self.direct {
            self.end.arm(armed);
        }
    }

    /// Nobody has the end any more.
    pub fn desert(&mut self) {
        self.deserted = true;
    }

    /// Whether something waits to be told that nobody waits for.
    pub fn is_lazy(&self) -> bool {
        !self.still && !self.direct && self.progress.is_lazy(&self.end.words())
    }

    /// There is time to tell what is only good to know.
    pub fn idle(&mut self) {
        self.lazy = self.is_lazy();
    }

    /// Nothing goes to the NIC any more: the session may be another peer's by now.
    pub fn cut(&mut self) {
        self.still = true;
    }

    /// What the daemon adds.
    fn said(&self) -> u32 {
        if self.deserted { flags::DESERTED } else { 0 }
    }

    /// What there is to tell.
    fn words(&self) -> Words {
        let mut words = self.end.words();
        words.flags |= self.said();
        words
    }

    /// Whether there is something to do. What processes carry by themselves is theirs to do.
    pub fn pending(&self) -> bool {
        if self.still || self.direct && !self.deserted {
            return false;
        }
        self.deserted || self.progress.pending(&self.words(), self.lazy)
    }

    /// Hands the NIC what is new.
    pub fn carry(&mut self, nic: &mut dyn Nic) -> Turn {
        if self.still {
            return Turn::default();
        }
        let (words, flags) = (self.words(), self.said());
        let mut into = Into {
            nic,
            window: self.window,
            first: self.first,
            copy: &mut self.copy,
        };
        let outcome = if self.direct {
            let hold = if self.deserted { Hold::Take } else { Hold::Try };
            match self.end.unsaid(flags) {
                true => self.end.carry(hold, flags, &mut into),
                false => Some(Outcome::Said { busy: false }),
            }
        } else {
            let (end, lazy) = (&self.end, self.lazy);
            Some(self.progress.carry(end, &words, TURN, lazy, &mut into))
        };
        let mut turn = Turn::default();
        match outcome {
            Some(Outcome::Said { busy }) => {
                turn.busy = busy;
                turn.ended = self.deserted;
                self.lazy = false;
                self.still = turn.ended;
            }
            Some(Outcome::Later { busy }) => turn.busy = busy,
            Some(Outcome::Never) => self.still = true,
            None => {}
        }
        turn
    }
}

#[cfg(test)]
pub(super) mod tests;
