// SPDX-License-Identifier: Apache-2.0
//! Chapter 6 on a thread of its own, while other tables are run: a guest uses one core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use crate::memcached::{Measured, Setup};
use crate::waterfall::Waterfall;

/// What can be run ahead of the rows that want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// All commands of an arrangement.
    Measure(Setup),
    /// One GET, taken apart.
    TakeApart(Setup),
}

/// A job's end.
pub enum Done {
    Measured(Setup, Result<Measured, String>),
    Apart(Setup, Result<Option<Waterfall>, String>),
}

/// Jobs that a thread runs one after the other. Dropped, it ends after the one that runs.
pub struct Ahead {
    done: Receiver<Done>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins; `None` if there is no thread to be had, and whoever wants a result runs it.
    pub fn begin(jobs: Vec<Job>, run: impl Fn(Job) -> Done + Send + 'static) -> Option<Self> {
        let (sender, done) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            for job in jobs {
                if stopped.load(Ordering::Relaxed) || sender.send(run(job)).is_err() {
                    return;
                }
            }
        };
        let builder = std::thread::Builder::new().name("chapter 6".to_owned());
        let thread = builder.spawn(work).ok()?;
        Some(Self {
            done,
            stop,
            thread: Some(thread),
        })
    }

    /// Waits for the next job's end; `None` behind the last one.
    pub fn next(&self) -> Option<Done> {
        self.done.recv().ok()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so, and its result was missed where it was wanted.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::{Path, Place, SwitchKind};
    use rack::topology::Rate;

    fn setup(rate: Rate) -> Setup {
        Setup {
            place: Place::Rack,
            path: Path::Socket,
            switch: Some(SwitchKind::Fibnic),
            rate,
        }
    }

    #[test]
    fn jobs_end_in_order_and_a_dropped_thread_begins_no_more() {
        let jobs = vec![
            Job::TakeApart(setup(Rate::One)),
            Job::Measure(setup(Rate::Ten)),
        ];
        let run = |job| match job {
            Job::Measure(setup) => Done::Measured(setup, Err("nothing".to_owned())),
            Job::TakeApart(setup) => Done::Apart(setup, Ok(None)),
        };
        let ahead = Ahead::begin(jobs, run).expect("a thread");
        assert!(matches!(ahead.next(), Some(Done::Apart(at, Ok(None))) if at.rate == Rate::One));
        assert!(matches!(ahead.next(), Some(Done::Measured(at, Err(_))) if at.rate == Rate::Ten));
        assert!(ahead.next().is_none());

        let (begun, told) = channel();
        let (go, wait) = channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let jobs = vec![Job::Measure(setup(Rate::One)); 3];
        let ahead = Ahead::begin(jobs, move |job| {
            begun.send(()).expect("it is heard");
            let _ = wait.lock().expect("alone").recv();
            run(job)
        })
        .expect("a thread");
        told.recv().expect("the first one");
        let stop = ahead.stop.clone();
        let dropper = std::thread::spawn(move || drop(ahead));
        while !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        drop(go);
        dropper.join().expect("it ends");
        assert_eq!(told.try_iter().count(), 0);
    }
}
