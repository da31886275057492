// SPDX-License-Identifier: Apache-2.0
//! The ring as a model: every interleaving of a sender and a receiver, either of which dies between any two of its stores,
//! whereupon another process recovers the end and goes on, and may die, too. No message is lost, doubled, moved or made up,
//! and nobody stalls.
//!
//! A step here is a store (or a load that decides) of `ring/sender.rs`, `ring/receiver.rs` and `ring/recover.rs`, in their
//! order; `tests/crash.rs` kills processes between the instructions of these themselves.

use stateright::{Checker, HasDiscoveries, Model, Property};

/// Lines of the ring, and how many the longest message has.
const LINES: u8 = 4;
/// Messages that are sent.
const MESSAGES: u8 = 6;
/// Deaths of each end.
const DEATHS: u8 = 2;

/// What lies in the place of a line's tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Tag {
    Empty,
    /// Of a header: its absolute line, the lines it takes, and which message it is. A body's line looks like the header of a
    /// message that nobody sent.
    Header {
        line: u8,
        lines: u8,
        message: u8,
    },
    /// The rest of the ring is unused.
    Pad {
        line: u8,
    },
}

/// A message that nobody sent.
const PHANTOM: u8 = 99;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sender {
    Idle,
    /// A message of so many lines; the pad in front of it is to be stored.
    Pad {
        lines: u8,
    },
    Body {
        lines: u8,
        at: u8,
    },
    Header {
        lines: u8,
        at: u8,
    },
    Place {
        next: u8,
    },
    /// Another process has the lock: it has looked at the credit, and at the tag.
    Look {
        next: u8,
    },
    Seen {
        next: u8,
        credit: u8,
        tag: Tag,
    },
    /// The place is known, so many of the lines behind it are to be cleared.
    Found {
        next: u8,
        free: u8,
    },
    Clear {
        at: u8,
        free: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Receiver {
    Idle,
    /// Has found a header, and steps over it.
    Step {
        next: u8,
        lines: u8,
        written: u8,
    },
    Forget {
        from: u8,
        written: u8,
    },
    Clear {
        at: u8,
        left: u8,
    },
    Return,
    Credit,
    /// Another process has the lock.
    Wipe {
        at: u8,
        left: u8,
    },
    Again,
    CreditAgain,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    tags: [Tag; LINES as usize],
    sender: Sender,
    receiver: Receiver,
    /// Of the sender: its place. Of the receiver: its place, the line of which a half was taken, the lines given back.
    sent: u8,
    next: u8,
    half: Option<u8>,
    returned: u8,
    credit: u8,
    /// Messages whose tags were stored, and halves of these that were taken.
    published: Vec<(u8, u8)>,
    taken: u8,
    wrong: bool,
    deaths: [u8; 2],
}

impl State {
    fn tag(&mut self, line: u8) -> &mut Tag {
        &mut self.tags[(line % LINES) as usize]
    }

    fn at(&self, line: u8) -> Tag {
        self.tags[(line % LINES) as usize]
    }

    /// What is at a line, if it is that line's: lines that it takes, and the message.
    fn parse(&self, line: u8) -> Option<(u8, Option<u8>)> {
        parse(self.at(line), line)
    }

    fn free(&self) -> u8 {
        LINES.saturating_sub(self.sent.saturating_sub(self.credit))
    }

    /// A reader has got a half of a message, or all that is left of it.
    fn got(&mut self, message: u8, lines: u8, all: bool) {
        let halves: u8 = if lines == 2 { 2 } else { 1 };
        let done: u8 = self
            .published
            .iter()
            .take(message as usize)
            .map(|(_, lines)| *lines)
            .sum();
        let known = self.published.get(message as usize);
        self.wrong |= known != Some(&(message, halves));
        let from = self.taken.wrapping_sub(done);
        // Nothing twice, nothing left out.
        self.wrong |= message == PHANTOM || from >= halves;
        self.taken = if all { done + halves } else { done + 1 };
        self.wrong |= !all && from != 0;
    }
}

fn parse(tag: Tag, line: u8) -> Option<(u8, Option<u8>)> {
    match tag {
        Tag::Header {
            line: of,
            lines,
            message,
        } if of == line => Some((lines, Some(message))),
        Tag::Pad { line: of } if of == line => Some((LINES - line % LINES, None)),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Act {
    Send(u8),
    Sender,
    Read,
    ReadHalf,
    Receiver,
    SenderDies,
    ReceiverDies,
}

/// What is left out, for the tests that the model finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The place is taken as it is.
    Publication,
    /// What the receiver has stepped over is not looked at.
    Consumed,
    /// What is left of bodies stays.
    Clearing,
    /// The receiver clears before it steps, as it did once.
    Order,
    /// The receiver's lines and credit are not made good.
    Credit,
}

struct Ring(Without);

impl Ring {
    fn sender(&self, s: &mut State) {
        s.sender = match s.sender {
            Sender::Idle => Sender::Idle,
            Sender::Pad { lines } => {
                let at = s.sent;
                *s.tag(at) = Tag::Pad { line: at };
                Sender::Body {
                    lines,
                    at: at + (LINES - at % LINES),
                }
            }
            Sender::Body { lines, at } => {
                if lines == 2 {
                    *s.tag(at + 1) = Tag::Header {
                        line: at + 1,
                        lines: 1,
                        message: PHANTOM,
                    };
                }
                Sender::Header { lines, at }
            }
            Sender::Header { lines, at } => {
                let message = s.published.len() as u8;
                *s.tag(at) = Tag::Header {
                    line: at,
                    lines,
                    message,
                };
                s.published.push((message, lines));
                Sender::Place { next: at + lines }
            }
            Sender::Place { next } => {
                s.sent = next;
                Sender::Idle
            }
            Sender::Look { next } => {
                if self.0 == Without::Publication {
                    Sender::Found {
                        next,
                        free: LINES.saturating_sub(next.saturating_sub(s.credit)),
                    }
                } else {
                    let used = next.saturating_sub(s.credit);
                    let tag = if used < LINES { s.at(next) } else { Tag::Empty };
                    Sender::Seen {
                        next,
                        credit: s.credit,
                        tag,
                    }
                }
            }
            Sender::Seen { next, .. } if s.next > next && self.0 != Without::Consumed => {
                Sender::Look { next: s.next }
            }
            Sender::Seen { next, credit, tag } => {
                let used = next.saturating_sub(credit);
                match parse(tag, next) {
                    Some((lines, _)) if used + lines <= LINES => {
                        Sender::Look { next: next + lines }
                    }
                    _ => Sender::Found {
                        next,
                        free: LINES.saturating_sub(used),
                    },
                }
            }
            Sender::Found { next, free } => {
                s.sent = next;
                match self.0 {
                    Without::Clearing => Sender::Idle,
                    _ => Sender::Clear { at: next, free },
                }
            }
            Sender::Clear { free: 0, .. } => Sender::Idle,
            Sender::Clear { at, free } => {
                *s.tag(at) = Tag::Empty;
                Sender::Clear {
                    at: at + 1,
                    free: free - 1,
                }
            }
        };
    }

    fn receiver(&self, s: &mut State) {
        s.receiver = match s.receiver {
            Receiver::Idle => Receiver::Idle,
            Receiver::Step {
                next,
                lines,
                written,
            } => {
                let from = next - lines;
                if self.0 == Without::Order {
                    for line in from..from + written {
                        *s.tag(line) = Tag::Empty;
                    }
                    Receiver::Forget {
                        from: next,
                        written: lines,
                    }
                } else {
                    self.step(s, next, lines);
                    Receiver::Forget { from, written }
                }
            }
            Receiver::Forget { from, written } if self.0 == Without::Order => {
                // The header is cleared; who it was is still in the published list.
                let next = from;
                let message = s.taken_message();
                s.next = next;
                if let Some((message, lines)) = message {
                    s.got(message, lines, true);
                }
                let _ = written;
                Receiver::Return
            }
            Receiver::Forget { from, written } => {
                s.half = None;
                Receiver::Clear {
                    at: from,
                    left: written,
                }
            }
            Receiver::Clear { left: 0, .. } => Receiver::Return,
            Receiver::Clear { at, left } => {
                *s.tag(at) = Tag::Empty;
                Receiver::Clear {
                    at: at + 1,
                    left: left - 1,
                }
            }
            Receiver::Return => {
                s.returned = s.next;
                Receiver::Credit
            }
            Receiver::Credit => {
                s.credit = s.returned;
                Receiver::Idle
            }
            Receiver::Wipe { left: 0, .. } => Receiver::Again,
            Receiver::Wipe { at, left } => {
                *s.tag(at) = Tag::Empty;
                Receiver::Wipe {
                    at: at + 1,
                    left: left - 1,
                }
            }
            Receiver::Again => {
                if s.half != Some(s.next) {
                    s.half = None;
                }
                s.returned = s.next;
                Receiver::CreditAgain
            }
            Receiver::CreditAgain => {
                s.credit = s.next;
                Receiver::Idle
            }
        };
    }

    /// The one store that takes a message.
    fn step(&self, s: &mut State, next: u8, lines: u8) {
        if let Some((_, Some(message))) = s.parse(next - lines) {
            s.got(message, lines, true);
        }
        s.next = next;
    }
}

impl State {
    /// The first message that is not wholly taken.
    fn taken_message(&self) -> Option<(u8, u8)> {
        let mut done = 0;
        for &(message, lines) in &self.published {
            done += lines;
            if done > self.taken {
                return Some((message, lines));
            }
        }
        None
    }
}

impl Model for Ring {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            tags: [Tag::Empty; LINES as usize],
            sender: Sender::Idle,
            receiver: Receiver::Idle,
            sent: 0,
            next: 0,
            half: None,
            returned: 0,
            credit: 0,
            published: Vec::new(),
            taken: 0,
            wrong: false,
            deaths: [0; 2],
        }]
    }

    fn actions(&self, s: &State, acts: &mut Vec<Act>) {
        if s.sender != Sender::Idle {
            acts.push(Act::Sender);
        } else if (s.published.len() as u8) < MESSAGES {
            for lines in [1, 2] {
                let left = LINES - s.sent % LINES;
                let pad = if lines > left { left } else { 0 };
                if s.free() >= pad + lines {
                    acts.push(Act::Send(lines));
                }
            }
        }
        match (s.receiver, s.parse(s.next)) {
            (Receiver::Idle, None) => {}
            (Receiver::Idle, Some((lines, message))) => {
                acts.push(Act::Read);
                if lines == 2 && message.is_some() && s.half != Some(s.next) {
                    acts.push(Act::ReadHalf);
                }
            }
            _ => acts.push(Act::Receiver),
        }
        if s.sender != Sender::Idle && s.deaths[0] < DEATHS {
            acts.push(Act::SenderDies);
        }
        if s.receiver != Receiver::Idle && s.deaths[1] < DEATHS {
            acts.push(Act::ReceiverDies);
        }
    }

    fn next_state(&self, last: &State, act: Act) -> Option<State> {
        let mut s = last.clone();
        match act {
            Act::Send(lines) => {
                let left = LINES - s.sent % LINES;
                s.sender = match lines > left {
                    true => Sender::Pad { lines },
                    false => Sender::Body { lines, at: s.sent },
                };
            }
            Act::Sender => self.sender(&mut s),
            Act::Read => {
                let (lines, message) = s.parse(s.next)?;
                let written = if message.is_some() { lines } else { 1 };
                s.receiver = Receiver::Step {
                    next: s.next + lines,
                    lines,
                    written,
                };
            }
            Act::ReadHalf => {
                let (lines, message) = s.parse(s.next)?;
                s.got(message?, lines, false);
                s.half = Some(s.next);
            }
            Act::Receiver => self.receiver(&mut s),
            Act::SenderDies => {
                s.deaths[0] += 1;
                s.sender = Sender::Look { next: s.sent };
            }
            Act::ReceiverDies => {
                s.deaths[1] += 1;
                s.receiver = match self.0 {
                    Without::Credit => Receiver::Idle,
                    _ => Receiver::Wipe {
                        at: s.returned,
                        left: s.next - s.returned,
                    },
                };
            }
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing lost, doubled, moved or made up", |_, s: &State| {
                !s.wrong
            }),
            Property::always("nobody stalls", |model: &Ring, s: &State| {
                let mut acts = Vec::new();
                model.actions(s, &mut acts);
                let sent: u8 = s.published.iter().map(|(_, lines)| *lines).sum();
                !acts.is_empty() || s.published.len() as u8 == MESSAGES && s.taken == sent
            }),
        ]
    }
}

#[test]
fn every_interleaving_with_every_death() {
    let checked = Ring(Without::Nothing)
        .checker()
        .threads(2)
        .spawn_bfs()
        .join();
    checked.assert_properties();
    eprintln!("the ring: {} states", checked.unique_state_count());
}

/// The model sees what each part of the recovery is for.
#[test]
fn nothing_of_the_recovery_can_be_left_out() {
    for (without, name) in [
        (Without::Publication, "the tag that was stored"),
        (Without::Consumed, "what was stepped over"),
        (Without::Clearing, "the lines of a body"),
        (Without::Order, "the order of step and clearing"),
        (Without::Credit, "the credit"),
    ] {
        let any = HasDiscoveries::AnyFailures;
        let checked = Ring(without)
            .checker()
            .threads(2)
            .finish_when(any)
            .spawn_bfs()
            .join();
        assert!(
            !checked.discoveries().is_empty(),
            "without {name} all is well"
        );
    }
}
