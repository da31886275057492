// SPDX-License-Identifier: Apache-2.0
//! Audits in slices: between two of them everybody else has a turn, and an audit ends when nobody waits for it any more.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fib::layout::Memory;
use fib::synth::Random;

use super::{ATTEMPTS, DUMPS, Daemon, Failure, looking, take};
use crate::audit::{self, Plan, Report, Suspect};
use crate::control::{self, Reply, is_gone};
use crate::message::{self, AF_INET6, Messages, kind};
use crate::net::Net;
use crate::settle;
use crate::socket::{Netlink, Read};
use crate::state::{Config, Source, State};

/// How often audits look, since the kernel may have changed meanwhile: after the first time only at what differed, so that what
/// changes all the time differs only where it does each time.
const AUDITS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);
/// Audits that may wait for their turn.
const MOST_WAITING: usize = 4;
/// How often messages may be lost while the kernel is dumped.
const MOST_LOST: u32 = 20;
/// Of each kind of work, what is done in a slice: some milliseconds.
const BELIEFS: usize = 10_000;
const NETS: usize = 4_000;
const ADDRESSES: u32 = 1_000;
const QUESTIONS: usize = 200;
const WORDS: u32 = 1 << 16;
/// Reads of the listening socket between two of the kernel's answers to a dump.
const READS: u32 = 4;

/// What comes next.
enum Step {
    Dump,
    Beliefs(Box<State>, Vec<Net>, usize),
    Within(Vec<Net>, usize, Random),
    Anywhere(Vec<Net>, u32, Random),
    Kernel(Vec<Net>, Vec<Net>, usize, Random),
    Words(usize, u32),
    /// What differed is looked at again, and nothing else.
    Again(Box<State>, Vec<Suspect>, usize, Report),
    End,
}

/// One audit.
struct Audit {
    client: UnixStream,
    plan: Plan,
    attempt: u32,
    /// Dumps during which the kernel lost messages.
    lost: u32,
    /// It goes on only then.
    due: Option<Instant>,
    report: Report,
    step: Step,
}

/// The audit that goes on, and those that wait.
#[derive(Default)]
pub(super) struct Audits {
    now: Option<Audit>,
    waiting: VecDeque<(UnixStream, Plan)>,
}

impl Audits {
    /// Takes one on; what to answer at once if that can't be.
    pub(super) fn push(
        &mut self,
        client: UnixStream,
        plan: Plan,
    ) -> Result<(), (UnixStream, String)> {
        if let Err(remedy) = plan.check() {
            return Err((client, remedy));
        }
        if self.waiting.len() >= MOST_WAITING {
            let text =
                format!("{MOST_WAITING} audits wait already; ask again when they have ended");
            return Err((client, text));
        }
        self.waiting.push_back((client, plan));
        Ok(())
    }

    /// Gives up those that nobody waits for any more; returns how many.
    fn give_up(&mut self) -> u64 {
        let before = self.waiting.len();
        self.waiting.retain(|(client, _)| !is_gone(client));
        let gone = self.now.take_if(|audit| is_gone(&audit.client));
        (before - self.waiting.len()) as u64 + u64::from(gone.is_some())
    }

    /// How long there is nothing to do; none if there is no audit.
    pub(super) fn pause(&self) -> Option<Duration> {
        let due = |audit: &Audit| {
            let now = Instant::now();
            audit.due.map(|due| due.saturating_duration_since(now))
        };
        match &self.now {
            Some(audit) => Some(due(audit).unwrap_or_default()),
            None => (!self.waiting.is_empty()).then_some(Duration::ZERO),
        }
    }
}

impl Daemon {
    /// Does a slice of an audit, if there is one.
    pub(super) fn audit(&mut self) -> Result<(), Failure> {
        self.state.counters.audits_given_up += self.audits.give_up();
        let now = self.audits.now.take();
        let next = || {
            let (client, plan) = self.audits.waiting.pop_front()?;
            Some(Audit {
                client,
                plan,
                attempt: 1,
                lost: 0,
                due: None,
                report: Report::default(),
                step: Step::Dump,
            })
        };
        let Some(mut audit) = now.or_else(next) else {
            return Ok(());
        };
        if audit.due.is_some_and(|due| due > Instant::now()) {
            self.audits.now = Some(audit);
            return Ok(());
        }
        audit.due = None;
        audit.step = match audit.step {
            Step::Dump => match self.dumped(&audit.client)? {
                Some(fresh) if audit.attempt > 1 => {
                    let suspects = audit.report.doubt();
                    Step::Again(Box::new(fresh), suspects, 0, Report::default())
                }
                Some(fresh) => {
                    let nets = audit::prefixes(&fresh, &self.state);
                    Step::Beliefs(Box::new(fresh), nets, 0)
                }
                // Somebody else's turn comes first: the kernel has no room for its messages, or the client is gone.
                None if audit.lost < MOST_LOST => {
                    audit.lost += 1;
                    Step::Dump
                }
                None => {
                    let text = "the kernel loses messages in each dump, so that nothing can be compared; ask again when \
                                less changes, or start fibd with a larger --buffer";
                    control::reply(audit.client, &Reply::Error(text.to_owned()));
                    return Ok(());
                }
            },
            step => self.slice(step, audit.plan, &mut audit.report)?,
        };
        if !matches!(audit.step, Step::End) {
            self.audits.now = Some(audit);
        } else if audit.report.differences != 0 && audit.attempt < AUDITS {
            self.audits.now = Some(Audit {
                attempt: audit.attempt + 1,
                due: Some(Instant::now() + PAUSE),
                step: Step::Dump,
                ..audit
            });
        } else {
            self.state.counters.audits += 1;
            self.state.counters.differences += audit.report.differences;
            control::reply(audit.client, &Reply::Audit(audit.report));
        }
        Ok(())
    }

    /// All but the dump.
    fn slice(&mut self, step: Step, plan: Plan, report: &mut Report) -> Result<Step, Failure> {
        let (state, tables) = (&self.state, &mut self.tables);
        Ok(match step {
            Step::Beliefs(fresh, nets, at) => {
                let end = nets.len().min(at + BELIEFS);
                for net in &nets[at..end] {
                    audit::belief(&fresh, state, *net, report);
                }
                match end < nets.len() {
                    true => Step::Beliefs(fresh, nets, end),
                    false => Step::Within(state.candidates().collect(), 0, Random::new(plan.seed)),
                }
            }
            Step::Within(nets, at, mut random) => {
                let end = nets.len().min(at + NETS);
                for net in &nets[at..end] {
                    audit::within(state, tables, *net, &mut random, report);
                }
                match end < nets.len() {
                    true => Step::Within(nets, end, random),
                    false => Step::Anywhere(nets, plan.random, random),
                }
            }
            Step::Anywhere(nets, left, mut random) => {
                let some = left.min(ADDRESSES);
                for _ in 0..some {
                    audit::anywhere(state, tables, &mut random, report);
                }
                if left > some {
                    return Ok(Step::Anywhere(nets, left - some, random));
                }
                audit::room(tables, report);
                let interleaved = nets.iter().copied();
                let interleaved = interleaved.filter(|net| state.is_interleaved(*net));
                let interleaved = interleaved.collect();
                Step::Kernel(nets, interleaved, 0, Random::new(plan.seed ^ 0x5EED))
            }
            Step::Kernel(nets, interleaved, at, mut random) => {
                let all = interleaved.len() + plan.ask as usize;
                let end = all.min(at + QUESTIONS);
                let entries = [false, true].map(|six| state.entries(six));
                for at in at..end {
                    let address = audit::question(&nets, &interleaved, at, &mut random);
                    let entries = &entries[usize::from(address.is_ipv6())];
                    let entry = (!entries.is_empty())
                        .then(|| entries[random.below(entries.len() as u64) as usize]);
                    audit::kernel(state, tables, &mut self.asker, address, entry, report)
                        .map_err(Failure::Netlink)?;
                }
                if end < all {
                    return Ok(Step::Kernel(nets, interleaved, end, random));
                }
                audit::hops(state, tables, report);
                Step::Words(0, 0)
            }
            Step::Words(number, at) => {
                let Some(&memory) = Memory::ALL.get(number) else {
                    return Ok(Step::End);
                };
                let depth = tables.fib().image().depth(memory);
                let end = depth.min(at + WORDS);
                audit::words(tables, memory, at..end, report);
                match end < depth {
                    true => Step::Words(number, end),
                    false => Step::Words(number + 1, 0),
                }
            }
            Step::Again(fresh, suspects, at, mut found) => {
                let end = suspects.len().min(at + QUESTIONS);
                for suspect in &suspects[at..end] {
                    audit::again(&fresh, state, tables, &mut self.asker, *suspect, &mut found)
                        .map_err(Failure::Netlink)?;
                }
                if end < suspects.len() {
                    return Ok(Step::Again(fresh, suspects, end, found));
                }
                report.found_again(found);
                Step::End
            }
            Step::Dump | Step::End => step,
        })
    }

    /// A state of its own, from the kernel alone; none if it can't be had now. What the kernel and a routing daemon say
    /// meanwhile is taken in.
    fn dumped(&mut self, client: &UnixStream) -> Result<Option<State>, Failure> {
        self.catch_up()?;
        let mut fresh = State::new(Config {
            fpm: false,
            ..self.options.state.clone()
        });
        if self.state.is_split() {
            fresh.keep_apart();
        }
        fresh.begin_resync(false);
        for (kind, family) in DUMPS {
            for attempt in 1..=ATTEMPTS {
                if attempt > 1 && kind == kind::GET_ROUTE {
                    fresh.dump_again(family == AF_INET6);
                }
                let (mut lost, mut gone, mut refused) = (false, false, None);
                let (listener, state) = (&mut self.listener, &mut self.state);
                let (tables, fpm) = (&mut self.tables, &mut self.fpm);
                let done = self.asker.dump(
                    kind,
                    family,
                    &mut |event| {
                        if let Ok(event) = event {
                            fresh.take(event, Source::Kernel);
                        }
                    },
                    &mut || {
                        lost |= hear(listener, state)?;
                        if let Some(fpm) = fpm {
                            fpm.read(state);
                        }
                        refused = settle(state, tables).err();
                        if let Some(fpm) = fpm {
                            fpm.answer(state, tables);
                        }
                        gone = is_gone(client);
                        match lost || gone || refused.is_some() {
                            true => Err(ErrorKind::Interrupted.into()),
                            false => Ok(()),
                        }
                    },
                );
                if lost || gone || refused.is_some() {
                    // The kernel still answers there, and takes no other question until all is read.
                    self.asker = Netlink::asker().map_err(Failure::Netlink)?;
                }
                if let Some(error) = refused {
                    return Err(error.into());
                }
                if lost {
                    self.overrun()?;
                }
                if lost || gone {
                    return Ok(None);
                }
                if done.map_err(Failure::Netlink)? {
                    break;
                }
            }
        }
        looking::look(&mut fresh);
        fresh.end_resync();
        // What follows from all of it is found only now.
        fresh.changes();
        self.catch_up()?;
        self.settle()?;
        Ok(Some(fresh))
    }
}

/// Takes in what the kernel says; whether something was lost.
fn hear(listener: &mut Netlink, state: &mut State) -> io::Result<bool> {
    for _ in 0..READS {
        match listener.read()? {
            Read::Bytes(count) => {
                let mut messages = Messages(listener.bytes(count));
                if messages.any(|bytes| take(state, bytes.and_then(message::parse))) {
                    return Ok(true);
                }
            }
            Read::Nothing => break,
            Read::Overrun => return Ok(true),
        }
    }
    Ok(false)
}
