// SPDX-License-Identifier: Apache-2.0
//! Chapter 6 on threads of its own, while other tables are run: two guests in a rack use one core.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::memcached::{Load, Loaded, Measured, Setup};
use crate::waterfall::Waterfall;

/// What can be run ahead of the rows that want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// All commands of an arrangement.
    Measure(Setup),
    /// One GET, taken apart.
    TakeApart(Setup),
    /// GETs of several clients.
    Load(Load),
}

/// A job's end.
pub enum Done {
    Measured(Setup, Result<Measured, String>),
    Apart(Setup, Result<Option<Waterfall>, String>),
    Loaded(Load, Result<Loaded, String>),
}

/// Jobs that threads take one after the other. Dropped, it ends after those that run.
pub struct Ahead {
    done: Receiver<Done>,
    left: Arc<Mutex<VecDeque<Job>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Ahead {
    /// Begins on so many threads. Whoever wants a result of which none is left runs it.
    pub fn begin(
        jobs: Vec<Job>,
        threads: usize,
        run: impl Fn(Job) -> Done + Clone + Send + 'static,
    ) -> Self {
        let (sender, done) = channel();
        let left = Arc::new(Mutex::new(VecDeque::from(jobs)));
        let threads = (0..threads).filter_map(|_| {
            let (left, sender, run) = (left.clone(), sender.clone(), run.clone());
            let work = move || {
                while let Some(job) = next(&left) {
                    if sender.send(run(job)).is_err() {
                        return;
                    }
                }
            };
            let builder = std::thread::Builder::new().name("chapter 6".to_owned());
            builder.spawn(work).ok()
        });
        Self {
            threads: threads.collect(),
            left,
            done,
        }
    }

    /// Waits for the next job's end; `None` behind the last one.
    pub fn next(&self) -> Option<Done> {
        self.done.recv().ok()
    }
}

fn next(left: &Mutex<VecDeque<Job>>) -> Option<Job> {
    // Nobody can panic while it is held.
    left.lock().ok()?.pop_front()
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Ok(mut left) = self.left.lock() {
            left.clear();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so, and its result was missed where it was wanted.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fitted::Constants;
    use crate::memcached::{Library, Path, Place, SwitchKind};
    use rack::topology::Rate;

    fn setup(rate: Rate) -> Setup {
        Setup {
            place: Place::Rack,
            path: Path::Socket,
            switch: Some(SwitchKind::Fibnic),
            rate,
            library: Library::Free,
            constants: Constants::Published,
        }
    }

    #[test]
    fn jobs_end_in_order_and_dropped_threads_begin_no_more() {
        let jobs = vec![
            Job::TakeApart(setup(Rate::One)),
            Job::Measure(setup(Rate::Ten)),
        ];
        let run = |job| match job {
            Job::Measure(setup) => Done::Measured(setup, Err("nothing".to_owned())),
            Job::TakeApart(setup) => Done::Apart(setup, Ok(None)),
            Job::Load(load) => Done::Loaded(load, Err("nothing".to_owned())),
        };
        let ahead = Ahead::begin(jobs, 1, run);
        assert!(matches!(ahead.next(), Some(Done::Apart(at, Ok(None))) if at.rate == Rate::One));
        assert!(matches!(ahead.next(), Some(Done::Measured(at, Err(_))) if at.rate == Rate::Ten));
        assert!(ahead.next().is_none());

        let (begun, told) = channel();
        let (go, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let jobs = vec![Job::Measure(setup(Rate::One)); 4];
        let ahead = Ahead::begin(jobs, 2, move |job| {
            begun.send(()).expect("it is heard");
            let _ = wait.lock().expect("nobody panicked").recv();
            run(job)
        });
        told.recv().expect("the first one");
        told.recv().expect("the second one");
        let left = ahead.left.clone();
        let dropper = std::thread::spawn(move || drop(ahead));
        while !left.lock().expect("nobody panicked").is_empty() {
            std::thread::yield_now();
        }
        drop(go);
        dropper.join().expect("it ends");
        assert_eq!(told.try_iter().count(), 0);
    }
}
