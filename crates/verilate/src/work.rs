// SPDX-License-Identifier: Apache-2.0
//! Builds several models on several cores: what the first of them still needs comes first.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::build::{self, Compiler, Place, Unit, Verilated};
use crate::catalogue::Model;

/// Versions of a model that stay beside the newest: for those who go back and forth between two.
const KEPT: usize = 3;

/// What is told while models are built.
#[derive(Debug)]
pub enum Event<'a> {
    /// A model is there.
    Done {
        /// The model.
        model: &'a str,
        /// Models that are there now, and all that were asked for.
        done: usize,
        /// All that were asked for.
        of: usize,
        /// Since it was begun; none if it was there.
        took: Option<Duration>,
    },
    /// A model cannot be evaluated in two steps, and is slower.
    Slow {
        /// The model.
        model: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// Called with every [`Event`], by any thread.
pub type Report<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// Cores of this machine.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A model under way.
struct Order {
    model: &'static Model,
    place: Place,
    state: State,
}

enum State {
    Waiting,
    Verilating,
    Compiling(Parts),
    Linking,
    Done,
}

/// What a model is made of.
struct Parts {
    /// Keeps other processes from building it.
    lock: File,
    begun: Instant,
    units: Vec<Unit>,
    runtime: BTreeSet<String>,
    /// Units that some worker has taken, and those that are compiled.
    taken: usize,
    compiled: usize,
}

enum Step {
    Verilate,
    Compile(Unit),
    Link(Parts),
}

struct Work {
    orders: Vec<Order>,
    failed: Option<Error>,
}

/// Builds models on so many cores, each unless it is there.
pub fn build(
    root: &Path,
    models: &[&'static Model],
    cores: usize,
    report: Report<'_>,
) -> Result<(), Error> {
    let mut orders = Vec::new();
    for &model in models {
        let place = Place::of(root, model)?;
        if !place.library().is_file() {
            build::possible(root, model, Compiler::get())?;
        }
        orders.push(Order {
            model,
            place,
            state: State::Waiting,
        });
    }
    let work = Shared {
        work: Mutex::new(Work {
            orders,
            failed: None,
        }),
        changed: Condvar::new(),
        report,
    };
    thread::scope(|scope| {
        for _ in 0..cores.max(1) {
            scope.spawn(|| work.worker());
        }
    });
    let work = work.work.into_inner();
    work.unwrap_or_else(PoisonError::into_inner)
        .failed
        .map_or(Ok(()), Err)
}

struct Shared<'a> {
    work: Mutex<Work>,
    changed: Condvar,
    report: Report<'a>,
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker(&self) {
        let mut work = self.lock();
        loop {
            if work.failed.is_some() {
                break;
            }
            if let Some((index, step)) = work.next() {
                drop(work);
                let outcome = self.step(index, step);
                work = self.lock();
                if let Err(error) = outcome {
                    work.failed.get_or_insert(error);
                }
                self.changed.notify_all();
            } else if work.done() {
                break;
            } else {
                work = self
                    .changed
                    .wait(work)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.changed.notify_all();
    }

    fn step(&self, index: usize, step: Step) -> Result<(), Error> {
        let (model, place) = {
            let work = self.lock();
            let order = &work.orders[index];
            (order.model, order.place.clone())
        };
        match step {
            Step::Verilate => self.verilate(index, model, &place),
            Step::Compile(unit) => self.compile(index, &place, &unit),
            Step::Link(parts) => self.link(index, model, &place, parts),
        }
    }

    fn verilate(&self, index: usize, model: &Model, place: &Place) -> Result<(), Error> {
        if place.library().is_file() {
            return self.finish(index, model, None);
        }
        let lock = place.lock()?;
        // Another process may have built it in the meantime.
        if place.library().is_file() {
            return self.finish(index, model, None);
        }
        let begun = Instant::now();
        let Verilated {
            mut units,
            runtime,
            slow,
        } = build::verilate(place)?;
        if let Some(reason) = slow {
            (self.report)(Event::Slow {
                model: model.name,
                reason: &reason,
            });
        }
        units.sort_by_key(|unit| std::cmp::Reverse(unit.size));
        self.lock().orders[index].state = State::Compiling(Parts {
            lock,
            begun,
            units,
            runtime,
            taken: 0,
            compiled: 0,
        });
        Ok(())
    }

    fn compile(&self, index: usize, place: &Place, unit: &Unit) -> Result<(), Error> {
        build::compile(place, unit)?;
        if let State::Compiling(parts) = &mut self.lock().orders[index].state {
            parts.compiled += 1;
        }
        Ok(())
    }

    fn link(&self, index: usize, model: &Model, place: &Place, parts: Parts) -> Result<(), Error> {
        build::link(place, &parts.units, &parts.runtime)?;
        drop(parts.lock);
        prune(model, place);
        self.finish(index, model, Some(parts.begun.elapsed()))
    }

    fn finish(&self, index: usize, model: &Model, took: Option<Duration>) -> Result<(), Error> {
        let (done, of) = {
            let mut work = self.lock();
            work.orders[index].state = State::Done;
            let done = work.orders.iter().filter(|order| order.is_done()).count();
            (done, work.orders.len())
        };
        (self.report)(Event::Done {
            model: model.name,
            done,
            of,
            took,
        });
        Ok(())
    }
}

impl Order {
    fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    fn next(&mut self) -> Option<Step> {
        match &mut self.state {
            State::Waiting => {
                self.state = State::Verilating;
                Some(Step::Verilate)
            }
            State::Compiling(parts) if parts.taken < parts.units.len() => {
                parts.taken += 1;
                Some(Step::Compile(parts.units[parts.taken - 1].clone()))
            }
            State::Compiling(parts) if parts.compiled == parts.units.len() => {
                match std::mem::replace(&mut self.state, State::Linking) {
                    State::Compiling(parts) => Some(Step::Link(parts)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl Work {
    fn next(&mut self) -> Option<(usize, Step)> {
        let mut orders = self.orders.iter_mut().enumerate();
        orders.find_map(|(index, order)| Some((index, order.next()?)))
    }

    fn done(&self) -> bool {
        self.orders.iter().all(Order::is_done)
    }
}

/// Removes old versions of a model. One that a process has loaded stays with it.
fn prune(model: &Model, place: &Place) {
    let Some(entries) = place
        .folder()
        .parent()
        .and_then(|all| fs::read_dir(all).ok())
    else {
        return;
    };
    let mut versions: Vec<_> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let hash = name.to_str().and_then(|name| name.strip_prefix(model.name));
            hash.and_then(|hash| hash.strip_prefix('-'))
                .is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .filter(|(_, path)| path != place.folder())
        .collect();
    versions.sort();
    for (_, old) in versions.iter().rev().skip(KEPT) {
        let _ = fs::remove_dir_all(old);
    }
}
