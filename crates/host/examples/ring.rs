// SPDX-License-Identifier: Apache-2.0
//! Messages from one process to another through a ring.
//!
//! ```text
//! ring receive FILE MESSAGES &
//! ring send FILE MESSAGES
//! ```
//!
//! `FILE` carries the ring's token. Lengths and contents follow from the message's number, and the receiver checks them.

#[path = "shared/outcome.rs"]
mod outcome;
#[path = "shared/token_file.rs"]
mod token_file;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use host::{Device, ring};
use outcome::{Outcome, Wrong, number};

const LINES: u32 = 256;
const MOST: u64 = 3000;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

const USAGE: &str = "usage: ring receive|send FILE MESSAGES";

fn message(n: u64) -> Vec<u8> {
    let length = if n.is_multiple_of(4) {
        n * 101 % (MOST + 1)
    } else {
        n * 13 % 57
    };
    (0..length).map(|at| (n * 7 + at) as u8).collect()
}

fn receive(device: &Device, path: &Path, messages: u64) -> Outcome {
    let (mut receiver, token) = ring::create(device, LINES)?;
    token_file::give(path, &token)?;
    let mut into = vec![0; MOST as usize];
    let mut bytes = 0;
    for n in 0..messages {
        let (kind, length) = receiver.receive(&mut into, PATIENCE)?;
        if u64::from(kind) != n % 200 || into[..length] != message(n) {
            return Err(format!("message {n} is another").into());
        }
        bytes += length;
    }
    println!("{messages} messages of {bytes} bytes received");
    Ok(())
}

fn send(device: &Device, path: &Path, messages: u64) -> Outcome {
    let token = token_file::take(path)?;
    let mut sender = token_file::accepted(path, ring::connect(device, &token))?;
    for n in 0..messages {
        sender.send((n % 200) as u8, &[&message(n)], PATIENCE)?;
    }
    println!("{messages} messages sent");
    Ok(())
}

fn run() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [side, path, messages] = &arguments[..] else {
        return Err(Wrong(USAGE.to_owned()).into());
    };
    let side: fn(&Device, &Path, u64) -> Outcome = match side.as_str() {
        "receive" => receive,
        "send" => send,
        _ => return Err(Wrong(USAGE.to_owned()).into()),
    };
    let messages = number("MESSAGES", messages)?;
    side(&Device::open_default()?, Path::new(path), messages)
}

fn main() -> ExitCode {
    outcome::end(run())
}
