// SPDX-License-Identifier: Apache-2.0
//! What a thread pays in the kernel that sleeps until something comes, on this machine: for `experiments/waiting.toml`.
//!
//! ```text
//! taskset --cpu-list 0 cargo run --release -p host --example wake
//! ```
//!
//! Two threads on one processor wake each other by eventfds: half of a round trip is a write that wakes, a switch to the
//! other thread, its return from `poll`, and its read. So a waker's own call is in it, too; a driver's handler has that as
//! a function call. And what a call costs that finds nothing: a wait arms, drains and disarms by three of such calls.

use std::os::fd::AsFd;
use std::thread;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};

/// Round trips, or calls, of one measurement; of several the median counts.
const ROUNDS: u32 = 20_000;
const REPEAT: usize = 9;

fn sleep_and_take(fd: impl AsFd + Copy) -> rustix::io::Result<()> {
    let mut count = [0; 8];
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)?;
    read(fd, &mut count).map(drop)
}

/// Nanoseconds of a wake-up.
fn wake() -> rustix::io::Result<f64> {
    let [ping, pong] = [(); 2].map(|()| eventfd(0, EventfdFlags::NONBLOCK));
    let (ping, pong) = (ping?, pong?);
    thread::scope(|scope| {
        let other = scope.spawn(|| -> rustix::io::Result<()> {
            for _ in 0..ROUNDS {
                sleep_and_take(&ping)?;
                write(&pong, &1u64.to_ne_bytes())?;
            }
            Ok(())
        });
        let began = Instant::now();
        for _ in 0..ROUNDS {
            write(&ping, &1u64.to_ne_bytes())?;
            sleep_and_take(&pong)?;
        }
        let ns = began.elapsed().as_nanos() as f64;
        other.join().expect("it does not panic")?;
        Ok(ns / f64::from(2 * ROUNDS))
    })
}

/// Nanoseconds of a call that finds nothing.
fn call() -> rustix::io::Result<f64> {
    let empty = eventfd(0, EventfdFlags::NONBLOCK)?;
    let mut count = [0; 8];
    let began = Instant::now();
    for _ in 0..ROUNDS {
        match read(&empty, &mut count) {
            Err(Errno::AGAIN) => {}
            other => drop(other?),
        }
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(ROUNDS))
}

fn median(measure: impl Fn() -> rustix::io::Result<f64>) -> rustix::io::Result<f64> {
    let all: Result<Vec<f64>, _> = (0..REPEAT).map(|_| measure()).collect();
    let mut all = all?;
    all.sort_by(f64::total_cmp);
    Ok(all[REPEAT / 2])
}

fn main() -> rustix::io::Result<()> {
    println!("wake_ns = {:.0}", median(wake)?);
    println!("call_ns = {:.0}", median(call)?);
    Ok(())
}
