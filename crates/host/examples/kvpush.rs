// SPDX-License-Identifier: Apache-2.0
//! A key-value table that its writer pushes into its reader's memory: a reader's get is a load from its own memory.
//!
//! ```text
//! kvpush reader FILE WRITES &
//! kvpush writer FILE WRITES
//! ```
//!
//! `FILE` carries the token. Slot k of the table has a version, the write's number and the value's length, and the value;
//! the version is odd while the value changes, so a reader that sees the same even version before and after has seen one
//! value, whole.

#[path = "shared/outcome.rs"]
mod outcome;
#[path = "shared/token_file.rs"]
mod token_file;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use host::{Device, Flush, Rights};
use outcome::{Outcome, Wrong, number};

const SLOTS: usize = 64;
const SLOT: usize = 256;
const VALUE: usize = SLOT - 16;
/// Where the number of writes is told.
const DONE: usize = SLOTS * SLOT;
const BYTES: usize = DONE + 64;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

const USAGE: &str = "usage: kvpush reader|writer FILE WRITES";

/// What write number `n` puts into its slot.
fn value(n: u64) -> Vec<u8> {
    let length = 1 + n * 37 % VALUE as u64;
    (0..length).map(|at| (n + at) as u8).collect()
}

fn reader(device: &Device, path: &Path, writes: u64) -> Outcome {
    let region = device.alloc(BYTES)?;
    token_file::give(path, &region.export(0..BYTES, Rights::Write, None)?)?;
    let (mut done, mut gets, mut torn) = (0, 0u64, 0u64);
    while done < writes {
        done = region.wait_until(PATIENCE, || {
            Some(region.word(DONE).load(Ordering::Acquire)).filter(|&now| now != done)
        })?;
        for key in 0..SLOTS {
            let version = region.word(key * SLOT);
            let before = version.load(Ordering::Acquire);
            let what = region.word(key * SLOT + 8).load(Ordering::Acquire);
            let (n, length) = (what >> 16, what as usize & 0xFFFF);
            let mut seen = vec![0; length.min(VALUE)];
            region.read(key * SLOT + 16, &mut seen)?;
            fence(Ordering::Acquire);
            if before == 0 || before % 2 == 1 || version.load(Ordering::Relaxed) != before {
                torn += 1;
                continue;
            }
            if seen != value(n) || n as usize % SLOTS != key {
                return Err(format!("key {key}: write {n} is not whole").into());
            }
            gets += 1;
        }
    }
    println!("{gets} gets, all whole; {torn} met a write");
    Ok(())
}

fn writer(device: &Device, path: &Path, writes: u64) -> Outcome {
    let token = token_file::take(path)?;
    let window = token_file::accepted(path, device.connect(&token))?;
    let epoch = window.epoch();
    let mut versions = [0; SLOTS];
    for n in 0..writes {
        let key = n as usize % SLOTS;
        let value = value(n);
        versions[key] += 1;
        window.store64(key * SLOT, versions[key])?;
        window.fence();
        window.put(key * SLOT + 16, &value)?;
        window.store64(key * SLOT + 8, n << 16 | value.len() as u64)?;
        versions[key] += 1;
        window.store64(key * SLOT, versions[key])?;
        if key == SLOTS - 1 && n + 1 < writes {
            window.put_signal(0, &[], DONE, n + 1)?;
        }
    }
    // The reader goes when it has seen the last number, so everything before it is checked first.
    window.flush(Flush::Delivered, PATIENCE)?;
    window.check(epoch)?;
    window.put_signal(0, &[], DONE, writes)?;
    println!("{writes} writes pushed");
    Ok(())
}

fn run() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [side, path, writes] = &arguments[..] else {
        return Err(Wrong(USAGE.to_owned()).into());
    };
    let side: fn(&Device, &Path, u64) -> Outcome = match side.as_str() {
        "reader" => reader,
        "writer" => writer,
        _ => return Err(Wrong(USAGE.to_owned()).into()),
    };
    let writes = number("WRITES", writes)?;
    side(&Device::open_default()?, Path::new(path), writes)
}

fn main() -> ExitCode {
    outcome::end(run())
}
