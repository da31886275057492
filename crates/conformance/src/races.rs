// SPDX-License-Identifier: Apache-2.0
//! Programs for the test of races: clients that connect, send and end their connections in every way while the server is
//! still accepting, and a server that compares each connection with what its client must have sent, byte by byte.
//!
//! A connection begins with a header that says which one it is, how long and how it ends; all else follows from that.

use crate::support::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of the header.
const HEADER: usize = 16;
/// Bytes of the longest connection.
const LONGEST: usize = 20_000;
/// Threads of the server that accept.
const ACCEPTORS: usize = 8;
/// The server says how far it is after so many connections.
const STEP: usize = 100;
/// The first bytes of each header.
const MAGIC: u16 = 0x4e55;

/// How a client ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Closes as soon as everything is sent.
    Close,
    /// The same after a connect that did not block.
    CloseUnblocked,
    /// Closes when the acceptor may be half-way.
    CloseLater,
    /// Shuts down for writing, and closes.
    ShutAndClose,
    /// Shuts down for writing, reads the answer until its end, and closes.
    ShutAndRead,
    /// Reads an answer, and closes.
    ReadAndClose,
    /// A process that exits without closing.
    Exit,
    /// A process that is killed.
    Killed,
    /// Parent and child share the connection, and each sends a half.
    Shared,
}

const ENDINGS: [Ending; 9] = [
    Ending::Close,
    Ending::CloseUnblocked,
    Ending::CloseLater,
    Ending::ShutAndClose,
    Ending::ShutAndRead,
    Ending::ReadAndClose,
    Ending::Exit,
    Ending::Killed,
    Ending::Shared,
];

/// Which connection it is, its bytes, its ending.
#[derive(Clone, Copy)]
struct Plan {
    id: u64,
    bytes: usize,
    ending: usize,
}

impl Plan {
    fn draw(id: u64, random: &mut ChaCha8Rng) -> Plan {
        let bytes = match random.random_range(0..10) {
            0..6 => random.random_range(HEADER..=64),
            6..8 => random.random_range(HEADER..=1500),
            _ => random.random_range(HEADER..=LONGEST),
        };
        // Processes take long to make: fewer of them.
        let ending = match random.random_range(0..8) {
            0 => random.random_range(0..ENDINGS.len()),
            _ => random.random_range(0..6),
        };
        Plan { id, bytes, ending }
    }

    fn ending(&self) -> Ending {
        ENDINGS[self.ending]
    }

    /// What the client sends.
    fn content(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes);
        all.extend(MAGIC.to_le_bytes());
        all.extend((self.ending as u16).to_le_bytes());
        all.extend((self.bytes as u32).to_le_bytes());
        all.extend(self.id.to_le_bytes());
        all.extend((HEADER..self.bytes).map(|at| self.byte(at)));
        all
    }

    fn byte(&self, at: usize) -> u8 {
        (at.wrapping_mul(31) ^ (at >> 8) ^ (self.id as usize).wrapping_mul(167)) as u8
    }

    /// What the server answers.
    fn answer(&self) -> Vec<u8> {
        (0..self.bytes).map(|at| !self.byte(at)).collect()
    }

    fn parse(header: &[u8]) -> Option<Plan> {
        let word = |at: usize| Some(u16::from_le_bytes(header.get(at..at + 2)?.try_into().ok()?));
        let bytes = u32::from_le_bytes(header.get(4..8)?.try_into().ok()?) as usize;
        let id = u64::from_le_bytes(header.get(8..16)?.try_into().ok()?);
        let ending = usize::from(word(2)?);
        let right = word(0)? == MAGIC && ending < ENDINGS.len() && bytes <= LONGEST;
        right.then_some(Plan { id, bytes, ending })
    }
}

/// The roles: `server COUNT`, `client PORT SEED FIRST COUNT THREADS`.
pub fn play(words: &[&str]) -> Outcome {
    let number = |word: &str| {
        word.parse::<u64>()
            .map_err(|_| Failure::new(format!("{word} is no number")))
    };
    match words[..] {
        ["server", count] => serve(number(count)? as usize),
        ["client", port, seed, first, count, threads] => connect_all(
            number(port)? as u16,
            number(seed)?,
            number(first)?..number(first)? + number(count)?,
            number(threads)?,
        ),
        ["load"] => spin(),
        _ => Err(Failure::new(format!("there is no role {words:?}"))),
    }
}

/// Keeps a processor from others until it is killed.
fn spin() -> Outcome {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: as above.
    unsafe { libc::nice(19) };
    println!("spinning");
    loop {
        std::hint::spin_loop();
    }
}

/// Accepts so many connections and compares them; a line for each that is wrong, one now and then, one at the end.
fn serve(count: usize) -> Outcome {
    let (listener, address) = listener_at(&Address::v4(0), 1024)?;
    println!("port {}", address.port());
    let seen = Arc::new(Mutex::new(Seen::default()));
    for _ in 0..ACCEPTORS {
        let seen = seen.clone();
        std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn(move || {
                loop {
                    let said = match accept(listener) {
                        Ok(fd) => compare(fd),
                        Err(errno) => Err(format!("accept gave {errno:?}")),
                    };
                    note(&seen, said, count);
                }
            })?;
    }
    loop {
        std::thread::park();
    }
}

/// The connections that came.
#[derive(Default)]
struct Seen {
    right: HashSet<u64>,
    wrong: usize,
}

/// Takes note of a connection, or of what was wrong with one.
fn note(seen: &Mutex<Seen>, said: Result<u64, String>, count: usize) {
    let Ok(mut seen) = seen.lock() else { return };
    let wrong = match said {
        Ok(id) if !seen.right.insert(id) => Some(format!("connection {id} came twice")),
        Ok(_) => None,
        Err(what) => Some(what),
    };
    if let Some(what) = wrong {
        seen.wrong += 1;
        println!("wrong: {what}");
    }
    match seen.right.len() + seen.wrong {
        all if all == count => println!("all {count} came"),
        some if some % STEP == 0 => println!("{some} came"),
        _ => {}
    }
}

/// Reads a connection to its end: which one it is, or what is wrong.
fn compare(fd: Fd) -> Result<u64, String> {
    let mut all = Vec::new();
    let mut plan = None;
    let end = loop {
        match recv(fd, 4096, 0) {
            Ok(bytes) if bytes.is_empty() => break None,
            Ok(bytes) => all.extend(bytes),
            Err(errno) => break Some(errno),
        }
        plan = plan.or_else(|| Plan::parse(&all));
        if let Some(plan) = plan.filter(|plan| plan.ending() == Ending::ReadAndClose)
            && all.len() == plan.bytes
        {
            send_all(fd, &plan.answer())
                .map_err(|errno| format!("{}: no answer, {errno:?}", plan.id))?;
        }
    };
    let Some(plan) = plan else {
        return Err(format!("{} bytes without a header, {end:?}", all.len()));
    };
    let name = format!("{} ({:?}, {} bytes)", plan.id, plan.ending(), plan.bytes);
    if plan.ending() == Ending::ShutAndRead {
        send_all(fd, &plan.answer()).map_err(|errno| format!("{name}: no answer, {errno:?}"))?;
    }
    close(fd).map_err(|errno| format!("{name}: close gave {errno:?}"))?;
    let content = plan.content();
    if all != content {
        let first = all
            .iter()
            .zip(&content)
            .position(|(came, sent)| came != sent);
        let rest = all.get(content.len()..).unwrap_or_default();
        return Err(format!(
            "{name}: {} bytes came, the first other one at {first:?}, too many: {rest:?}",
            all.len()
        ));
    }
    match end {
        None => Ok(plan.id),
        Some(errno) => Err(format!("{name}: ended with {errno:?}")),
    }
}

/// Makes the connections with these numbers in some threads.
fn connect_all(port: u16, seed: u64, ids: std::ops::Range<u64>, threads: u64) -> Outcome {
    let next = Arc::new(AtomicU64::new(ids.start));
    let threads: Vec<Thread> = (0..threads)
        .map(|_| {
            let (next, last) = (next.clone(), ids.end);
            thread(move || {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= last {
                        return Ok(());
                    }
                    let mut random = ChaCha8Rng::seed_from_u64(seed ^ id);
                    let plan = Plan::draw(id, &mut random);
                    if let Err(Failure(what)) = one(port, plan, &mut random) {
                        println!(
                            "wrong: {id} ({:?}, {} bytes): {what}",
                            plan.ending(),
                            plan.bytes
                        );
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join()?;
    }
    println!("all were made");
    Ok(())
}

fn one(port: u16, plan: Plan, random: &mut ChaCha8Rng) -> Outcome {
    let content = plan.content();
    let to = Address::v4(port);
    match plan.ending() {
        Ending::Exit => {
            let child = fork(|| send_pieces(client(&to)?, &content, random))?;
            return child.join();
        }
        Ending::Killed => {
            let child = fork(|| {
                send_pieces(client(&to)?, &content, random)?;
                // SAFETY: ends this process.
                unsafe { libc::raise(libc::SIGKILL) };
                Ok(())
            })?;
            same!(child.status()?, libc::SIGKILL);
            return Ok(());
        }
        _ => {}
    }
    let fd = if plan.ending() == Ending::CloseUnblocked {
        unblocked(&to)?
    } else {
        client(&to)?
    };
    match plan.ending() {
        Ending::Shared => {
            let (mine, childs) = content.split_at(content.len() / 2);
            send_pieces(fd, mine, random)?;
            fork(|| send_pieces(fd, childs, random))?.join()?;
            return Ok(close(fd)?);
        }
        _ => send_pieces(fd, &content, random)?,
    }
    match plan.ending() {
        Ending::CloseLater => {
            std::thread::sleep(std::time::Duration::from_micros(
                random.random_range(0..300),
            ));
        }
        Ending::ShutAndClose => shutdown(fd, SHUT_WR)?,
        Ending::ShutAndRead => {
            shutdown(fd, SHUT_WR)?;
            answered(plan, recv_all(fd, plan.bytes + 1)?)?;
        }
        Ending::ReadAndClose => {
            answered(plan, recv_all(fd, plan.bytes)?)?;
        }
        _ => {}
    }
    Ok(close(fd)?)
}

fn answered(plan: Plan, got: Vec<u8>) -> Outcome {
    holds!(
        got == plan.answer(),
        "{} bytes of an answer of {} came, or others",
        got.len(),
        plan.bytes
    );
    Ok(())
}

/// Sends it in a few writes of random lengths.
fn send_pieces(fd: Fd, content: &[u8], random: &mut ChaCha8Rng) -> Outcome {
    let mut rest = content;
    for _ in 0..random.random_range(0..3) {
        let (piece, more) = rest.split_at(random.random_range(0..=rest.len()));
        send_all(fd, piece)?;
        rest = more;
    }
    Ok(send_all(fd, rest)?)
}

/// A connection whose connect did not block, and blocks from now on.
fn unblocked(to: &Address) -> Result<Fd, Failure> {
    let fd = socket(to.family(), SOCK_STREAM)?;
    nonblocking(fd, true)?;
    match connect(fd, to) {
        Ok(()) | Err(Errno(EINPROGRESS)) => {}
        Err(errno) => return Err(Failure::new(format!("connect gave {errno:?}"))),
    }
    poll_one(fd, POLLOUT, -1)?;
    same!(socket_error(fd)?, Errno(0));
    nonblocking(fd, false)?;
    Ok(fd)
}
