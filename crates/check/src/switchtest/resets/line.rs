// SPDX-License-Identifier: Apache-2.0
//! The line into a port: its clock, its frames, and what goes wrong with it.

use std::collections::VecDeque;

use ipnuma_rtl::{NetSpeed, NetWord};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Clock, Totals};
use crate::difftest::phy::{Encoder, LineFrame};
use crate::switchtest::resets::frame::Parts;
use crate::switchtest::resets::ledger::Ledger;

const START: u64 = 0xFB;
const TERMINATE: u64 = 0xFD;
const LANES: usize = 8;
const PREAMBLE_BYTES: usize = 8;

/// What a line shows instead of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Idle,
    /// Error characters; at 1G the bytes of frames are marked.
    Errors,
    /// Fault sequences of 10G.
    LocalFault,
    RemoteFault,
}

impl Failure {
    /// One that the line can have.
    pub fn random(speed: NetSpeed, rng: &mut ChaCha8Rng) -> Self {
        match (speed, rng.random_range(0..4)) {
            (_, 0) | (NetSpeed::OneGig, 1) => Self::Idle,
            (_, 1) | (NetSpeed::OneGig, _) => Self::Errors,
            (_, 2) => Self::LocalFault,
            _ => Self::RemoteFault,
        }
    }

    fn word(self, word: NetWord) -> NetWord {
        const SEQUENCE: u64 = 0x9C;
        let fault = |code: u64| {
            let column = code << 24 | SEQUENCE;
            NetWord::Xgmii {
                data: column << 32 | column,
                control: 0x11,
            }
        };
        match (self, word) {
            (Self::LocalFault, _) => fault(1),
            (Self::RemoteFault, _) => fault(2),
            (Self::Errors, NetWord::Xgmii { .. }) => NetWord::Xgmii {
                data: 0xFEFE_FEFE_FEFE_FEFE,
                control: 0xFF,
            },
            (Self::Errors, NetWord::Gmii { data, enable, .. }) => NetWord::Gmii {
                data,
                enable,
                error: enable,
            },
            (Self::Idle, NetWord::Xgmii { .. }) => NetSpeed::TenGig.idle(),
            (Self::Idle, NetWord::Gmii { .. }) => NetSpeed::OneGig.idle(),
        }
    }

    /// Whether the port is silent meanwhile.
    fn mutes(self) -> bool {
        matches!(self, Self::LocalFault | Self::RemoteFault)
    }
}

/// The line into a port.
#[derive(Debug)]
pub struct Line {
    pub clock: Clock,
    encoder: Encoder,
    /// Frames that have not begun.
    waiting: VecDeque<Parts>,
    current: Option<Parts>,
    /// Words of it that have come.
    place: usize,
    /// Edges for which the reset stays as it is, and the level then.
    pub resets: VecDeque<(u64, bool)>,
    reset: bool,
    /// What goes wrong, edges from now, and for how many.
    failing: Option<(Failure, u64, u64)>,
    /// When the last edge was.
    before: u64,
    /// When the frame that leaves the port began to.
    pub began: u64,
}

impl Line {
    /// An idle line.
    pub fn new(speed: NetSpeed, next: u64) -> Self {
        Self {
            clock: Clock {
                period: speed.net_period_ps() * super::FS,
                next,
            },
            encoder: Encoder::new(speed),
            waiting: VecDeque::new(),
            current: None,
            place: 0,
            resets: VecDeque::new(),
            reset: false,
            failing: None,
            before: 0,
            began: 0,
        }
    }

    /// Bytes that wait.
    pub fn backlog(&self) -> usize {
        self.encoder.backlog()
    }

    /// Queues a frame.
    pub fn push(&mut self, parts: Parts, frame: &LineFrame) {
        self.encoder.push(frame);
        self.waiting.push_back(parts);
    }

    /// Lets it fail, if it does not do so already.
    pub fn fail(&mut self, failure: Failure, wait: u64, words: u64) -> bool {
        let free = self.failing.is_none();
        if free {
            self.failing = Some((failure, wait, words));
        }
        free
    }

    /// Nothing is to come.
    pub fn is_quiet(&self) -> bool {
        self.encoder.backlog() == 0
            && self.current.is_none()
            && self.resets.is_empty()
            && self.failing.is_none()
    }

    /// What an edge sees: the word and the reset.
    pub fn edge(
        &mut self,
        port: usize,
        now: u64,
        ledger: &mut Ledger,
        totals: &mut Totals,
    ) -> (NetWord, bool) {
        self.move_reset(port, now, ledger, totals);
        let word = self.encoder.word();
        let shown = match &mut self.failing {
            Some((failure, 0, left)) => {
                let failure = *failure;
                *left -= 1;
                // At 1G the rest of a frame may look like a preamble, and be a frame for anybody.
                let rest = failure == Failure::Idle
                    && matches!(word, NetWord::Gmii { .. })
                    && self.current.is_some();
                if *left == 0 && rest {
                    *left = 1;
                } else if *left == 0 {
                    self.failing = None;
                }
                if failure.mutes() {
                    ledger.fault(port, now);
                }
                failure.word(word)
            }
            Some((_, wait, _)) => {
                *wait -= 1;
                word
            }
            None => word,
        };
        self.follow(word, shown, now, ledger);
        self.before = now;
        (shown, self.reset)
    }

    fn move_reset(&mut self, port: usize, now: u64, ledger: &mut Ledger, totals: &mut Totals) {
        let Some((edges, level)) = self.resets.front_mut() else {
            return;
        };
        if *edges > 0 {
            *edges -= 1;
            return;
        }
        self.reset = *level;
        self.resets.pop_front();
        if let Some((edges, _)) = self.resets.front_mut() {
            *edges -= 1;
        }
        if self.reset {
            totals.resets += 1;
            ledger.reset(port, now, true);
        } else {
            ledger.reset(port, self.before, false);
        }
    }

    /// Notes where frames begin and end.
    fn follow(&mut self, word: NetWord, shown: NetWord, now: u64, ledger: &mut Ledger) {
        let whole = word == shown;
        let (begins, ends) = match word {
            NetWord::Xgmii { data, control } => {
                let is = |character: u64| {
                    (0..LANES).any(|lane| {
                        control >> lane & 1 == 1 && data >> (8 * lane) & 0xFF == character
                    })
                };
                (is(START), is(TERMINATE))
            }
            NetWord::Gmii { enable, .. } => (
                enable && self.current.is_none(),
                !enable && self.current.is_some(),
            ),
        };
        self.place += 1;
        let preamble = matches!(word, NetWord::Gmii { .. }) && self.place < PREAMBLE_BYTES;
        if let Some(parts) = &self.current {
            match whole {
                false if preamble => ledger.doubt(parts),
                false => ledger.hurt(parts, now),
                true => {}
            }
            if ends {
                ledger.ended(parts, now);
                self.current = None;
            }
        }
        if begins {
            (self.current, self.place) = (self.waiting.pop_front(), 0);
            if let Some(parts) = &self.current {
                ledger.started(parts, now);
                match word {
                    _ if whole => {}
                    NetWord::Xgmii { .. } => ledger.unseen(parts),
                    // A preamble may be short.
                    NetWord::Gmii { .. } => ledger.doubt(parts),
                }
            }
        }
    }
}
