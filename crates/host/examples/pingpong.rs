// SPDX-License-Identifier: Apache-2.0
//! Two processes store a line into each other's memory, in turn, and time the round trips.
//!
//! ```text
//! pingpong ping DIRECTORY ROUNDS &
//! pingpong pong DIRECTORY ROUNDS
//! ```
//!
//! Their tokens are in the directory's files `ping` and `pong`, which both processes write and read.

#[path = "shared/outcome.rs"]
mod outcome;
#[path = "shared/token_file.rs"]
mod token_file;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use host::{Device, Rights};
use outcome::{Outcome, Wrong, number};

/// So long that it only ends a program whose peer has gone.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

const USAGE: &str = "usage: pingpong ping|pong DIRECTORY ROUNDS";

fn run() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [side, directory, rounds] = &arguments[..] else {
        return Err(Wrong(USAGE.to_owned()).into());
    };
    let (own, peer) = match side.as_str() {
        "ping" => ("ping", "pong"),
        "pong" => ("pong", "ping"),
        _ => return Err(Wrong(USAGE.to_owned()).into()),
    };
    let directory = Path::new(directory);
    let rounds: u32 = number("ROUNDS", rounds)?;

    let device = Device::open_default()?;
    let region = device.alloc(4096)?;
    token_file::give(
        &directory.join(own),
        &region.export(0..64, Rights::Write, None)?,
    )?;
    let path = directory.join(peer);
    let token = token_file::take(&path)?;
    let window = token_file::accepted(&path, device.connect(&token))?;

    let mut times = Vec::new();
    let mut line = [0; 56];
    for round in 1..=rounds {
        let start = Instant::now();
        if own == "ping" {
            window.put_line(0, round, &round.to_le_bytes())?;
            window.signal()?;
        }
        let length = region.wait_until(PATIENCE, || region.poll_line(0, round, &mut line))?;
        if line[..length] != round.to_le_bytes() {
            return Err(format!("round {round}: another line came").into());
        }
        if own == "pong" {
            window.put_line(0, round, &line[..length])?;
            window.signal()?;
        }
        times.push(start.elapsed());
    }
    times.sort();
    if own == "ping" && !times.is_empty() {
        let (median, most) = (
            times[times.len() / 2],
            times[times.len() - 1 - times.len() / 100],
        );
        println!(
            "{rounds} round trips: median {} ns, 99 % {} ns",
            median.as_nanos(),
            most.as_nanos()
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    outcome::end(run())
}
