// SPDX-License-Identifier: Apache-2.0
//! Two guests of the rack store into each other's memory, in turn, and time the round trips; then the first tries what must
//! be refused. To the nanosecond: the driver's clock is read, which takes no simulated time, as the kernel's does.
//!
//! ```text
//! guest ping DIRECTORY ROUNDS     # in one guest
//! guest pong DIRECTORY ROUNDS     # in the other
//! ```
//!
//! The back end is `rack` (`docs/linux.md`). Tokens are in files of a directory that both see.

#[path = "shared/outcome.rs"]
mod outcome;
#[path = "shared/token_file.rs"]
mod token_file;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::backend::rack::Nic;
use host::backend::rack::nic::{KEY_DWS, Part, Peer, Wanted, peer};
use host::clock::Deadline;
use host::{Config, Device, Flush, Region, Rights, Token, Window};
use outcome::{Outcome, Wrong, number};
use wire::{KeyEntry, KeyUse};

/// Bytes of a region: the line of the ping-pong, and a block.
const BYTES: usize = 12_288;
/// Where words of the second part are: what the first has done, and the second.
const DID: usize = 64;
/// Where the block is: not at a line.
const BLOCK: usize = 4099;
const BLOCK_BYTES: usize = 6000;

fn run() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: guest ping|pong DIRECTORY ROUNDS";
    let [side, directory, rounds] = &arguments[..] else {
        return Err(Wrong(usage.to_owned()).into());
    };
    let peer = match side.as_str() {
        "ping" => "pong",
        "pong" => "ping",
        _ => return Err(Wrong(usage.to_owned()).into()),
    };
    let directory = Path::new(directory);
    let rounds = number("ROUNDS", rounds)?;

    let config = Config::load()?;
    let device = Device::open(&config)?;
    let region = device.alloc(BYTES)?;
    let own = region.export(0..BYTES, Rights::ReadWrite, None)?;
    token_file::give(&directory.join(side), &own)?;
    let path = directory.join(peer);
    let token = token_file::take(&path)?;
    let window = token_file::accepted(&path, device.connect(&token))?;
    if side == "ping" {
        let nic = Nic::open(&config.rack.device)?;
        ping(&nic, &region, &window, rounds)?;
        block(&region, &window)?;
        refused(&nic, &token, &window)?;
        impatient(&window)?;
        withdrawn(&region, &window)?;
        another_peer(&nic, &token, &window)?;
        sealed(&nic, &token)?;
        nobody(&nic, &token)
    } else {
        pong(&region, &window, rounds)?;
        serve(&region, &window, &own)
    }
}

fn main() -> ExitCode {
    outcome::end(run())
}

fn ping(nic: &Nic, region: &Region, window: &Window, rounds: u32) -> Outcome {
    let mut line = [0; 56];
    let mut times = Vec::new();
    for round in 1..=rounds {
        let start = nic.now()?;
        window.put_line(0, round, &round.to_le_bytes())?;
        let length = region.wait_until(None, || region.poll_line(0, round, &mut line))?;
        times.push(nic.now()? - start);
        if line[..length] != round.to_le_bytes() {
            return Err(format!("round {round}: another line came").into());
        }
    }
    times.sort_unstable();
    if let (Some(least), Some(most)) = (times.first(), times.last()) {
        let median = times[times.len() / 2];
        println!("{rounds} round trips: least {least} ns, median {median} ns, most {most} ns");
    }
    Ok(())
}

fn pong(region: &Region, window: &Window, rounds: u32) -> Outcome {
    let mut line = [0; 56];
    for round in 1..=rounds {
        let length = region.wait_until(None, || region.poll_line(0, round, &mut line))?;
        window.put_line(0, round, &line[..length])?;
    }
    Ok(())
}

fn byte(index: usize) -> u8 {
    (index * 7 + index / 251) as u8
}

/// Waits until the other has done this much.
fn done(region: &Region, what: u64) -> Outcome {
    let word = region.word(DID);
    let seen = || (word.load(Ordering::Acquire) >= what).then_some(());
    Ok(region.wait_until(None, seen)?)
}

/// Stores a block that is not aligned, flushes, loads it back.
fn block(region: &Region, window: &Window) -> Outcome {
    let epoch = window.epoch();
    let sent: Vec<u8> = (0..BLOCK_BYTES).map(byte).collect();
    window.put(BLOCK, &sent)?;
    window.flush(Flush::Delivered, Some(Duration::from_millis(10)))?;
    window.store64(DID, 1)?;
    done(region, 1)?;
    let mut back = vec![0; 200];
    window.load(BLOCK + 1, &mut back, None)?;
    if back[..] != sent[1..201] {
        return Err("a load brought other bytes than were stored".into());
    }
    window.check(epoch)?;
    println!("a block of {BLOCK_BYTES} bytes arrived");
    Ok(())
}

fn must_fail(what: &str, result: host::Result<()>) -> Outcome {
    match result {
        Err(error) => {
            println!("{what}: {error}");
            Ok(())
        }
        Ok(()) => Err(format!("{what} was allowed").into()),
    }
}

/// The part of the peer's region that a token names, by its address.
fn wanted(token: &Token) -> Wanted {
    Wanted {
        peer: Some(*token.management.ip()),
        session: None,
        key: token.region as u16,
        tag: u16::from_le_bytes([token.secret[0], token.secret[1]]) % 0xFFF + 1,
        first: 0,
        bytes: 4096,
        rights: Rights::Write,
    }
}

/// What the driver must not do.
fn refused(nic: &Nic, token: &Token, window: &Window) -> Outcome {
    let region = nic.region(5000)?;
    let part = Part {
        first: 0,
        bytes: 8192,
        rights: Rights::Write,
        peer: None,
        tag: 1,
        sealed: false,
        session: None,
    };
    must_fail("no memory", nic.region(0).map(drop))?;
    must_fail("too much memory", nic.region(1 << 30).map(drop))?;
    let beyond = Part {
        bytes: 8196,
        ..part
    };
    must_fail("to share beyond the end", region.export(&beyond).map(drop))?;
    let around = Part {
        first: u64::MAX - 3,
        bytes: 8,
        ..part
    };
    must_fail("to share around the end", region.export(&around).map(drop))?;
    must_fail(
        "to share without a tag",
        region.export(&Part { tag: 0, ..part }).map(drop),
    )?;
    must_fail(
        "to take back another's key",
        region.revoke(token.region as u16),
    )?;
    let soon = Deadline::after(Some(Duration::from_micros(20)));
    must_fail("a word that nobody writes", region.wait(8, 0, soon))?;
    must_fail(
        "a word beyond the end",
        region.wait(8192, 0, Deadline::NEVER),
    )?;
    must_fail("more than a second", nic.charge(1_000_000_001))?;
    let wanted = wanted(token);
    let nobody = Wanted {
        peer: Some([192, 0, 2, 1].into()),
        ..wanted
    };
    must_fail("a window to nobody", nic.window(&nobody).map(drop))?;
    let large = Wanted {
        bytes: 1 << 32,
        ..wanted
    };
    must_fail("more pages than there are", nic.window(&large).map(drop))?;
    let file = nic.window(&wanted)?;
    must_fail("a store beyond the end", file.store(4090, &[0; 8]))?;
    must_fail("a load without the right", file.load(0, &mut [0; 8]))?;
    drop(file);
    // A read of a BAR also takes a microsecond for each earlier write that the bus has not forgotten: the second has none.
    nic.now()?;
    let before = nic.now()?;
    nic.charge(1234)?;
    println!("a charge of 1234 ns took {} ns", nic.now()? - before);
    window.check(window.epoch())?;
    Ok(())
}

/// Who does not wait for a flush takes no place from the next: the NIC has eight, and each is taken until it has answered.
fn impatient(window: &Window) -> Outcome {
    // Else the kernel's timers may take 50 us longer, in which the peer answers.
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    for _ in 0..40 {
        // Else there is nothing to wait for.
        window.put(BLOCK, &[byte(0)])?;
        let flushed = window.flush(Flush::Delivered, Some(Duration::from_nanos(1)));
        if flushed.is_ok() {
            return Err("a flush took less than a nanosecond".into());
        }
    }
    for _ in 0..20 {
        window.flush(Flush::Delivered, Some(Duration::from_millis(10)))?;
    }
    println!("patience is rewarded");
    Ok(())
}

/// The session becomes a stranger's, and then the peer's again: what was mapped for the peer leads to neither.
fn another_peer(nic: &Nic, token: &Token, window: &Window) -> Outcome {
    let ip = u32::from(*token.management.ip());
    let known = (1..=u8::MAX)
        .map_while(|session| nic.peer(session).ok())
        .find(|peer| peer.ip == ip)
        .ok_or("the peer has no session")?;
    let epoch = window.epoch();
    let file = nic.window(&wanted(token))?;
    let stranger = Peer {
        mac: 0x0200_0000_0066,
        ip: ip + 100,
        ..known
    };
    for peer in [stranger, known] {
        nic.set_peer(&peer)?;
        file.store(0, &[0x66; 64])?;
        must_fail("a flush of what is cut", file.flush(Deadline::NEVER))?;
    }
    must_fail("a window of the former peer", window.check(epoch))?;
    must_fail("its state", file.state())?;
    // A new one leads to the peer.
    let fresh = nic.window(&wanted(token))?;
    fresh.state()?;
    Ok(())
}

/// Keys, no two of which are the same, and their use.
fn entry(number: u8, what: KeyUse) -> [u32; KEY_DWS] {
    let keys = KeyEntry {
        tx_key: [number; 16],
        rx_key: [number + 1; 16],
        tx_salt: [number; 4],
        rx_salt: [number + 1; 4],
    };
    keys.to_dws_for(what)
}

/// A session that is sealed, with nobody: what may be done with its keys, and what may not.
fn sealed(nic: &Nic, token: &Token) -> Outcome {
    let nobody = Peer {
        mac: 0x0200_0000_0003,
        ip: u32::from(*token.management.ip()) + 100,
        session: 2,
        peer_session: 2,
        epoch: 9,
        flags: peer::VALID | peer::COMPACT,
        start: 0xFEED_FACE,
        reserved: 0,
    };
    let next = |session, what| nic.next_key(session, &entry(3, what));
    must_fail("a key for nobody", next(2, KeyUse::Send(true)))?;
    must_fail("a key for no session", next(0, KeyUse::Send(true)))?;
    must_fail("a key in the clear", next(1, KeyUse::Send(true)))?;
    let first = entry(1, KeyUse::Begin);
    let mut same = first;
    same.copy_within(..4, 4);
    same[9] = same[8];
    must_fail("one key both ways", nic.seal_peer(&nobody, &same))?;
    let none = Peer {
        session: 255,
        ..nobody
    };
    must_fail("a seal of no session", nic.seal_peer(&none, &first))?;
    let ended = Peer { flags: 0, ..nobody };
    must_fail("a seal of what ends", nic.seal_peer(&ended, &first))?;

    nic.seal_peer(&nobody, &first)?;
    if nic.peer(2)?.flags & peer::SEALED == 0 || nic.peer(1)?.flags & peer::SEALED != 0 {
        return Err("another session is sealed than should be".into());
    }
    let wanted = Wanted {
        peer: None,
        session: Some(2),
        ..wanted(token)
    };
    let file = nic.window(&wanted)?;
    file.store(60, &[1; 8])?;
    let before = nic.frames(2)?;
    must_fail("to begin again", next(2, KeyUse::Begin))?;
    next(2, KeyUse::Receive(true))?;
    let between = nic.frames(2)?;
    next(2, KeyUse::Send(true))?;
    file.store(0, &[1; 8])?;
    let after = nic.frames(2)?;
    if (before, between, after) != (2, 2, 1) {
        return Err(format!("{before}, {between} and {after} frames were counted").into());
    }
    nic.set_peer(&nobody)?;
    must_fail("a window to what was sealed", file.state())?;
    nic.set_peer(&ended)?;
    println!("a session was sealed");
    Ok(())
}

/// What a user without privileges may have.
fn nobody(nic: &Nic, token: &Token) -> Outcome {
    const UID: libc::uid_t = 65534;
    // The program has three pages already.
    let few = libc::rlimit {
        rlim_cur: 64 << 10,
        rlim_max: 64 << 10,
    };
    // SAFETY: the limit is lent to the call; there is one thread, and nothing of it needs to be root's.
    if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const few) + libc::setuid(UID) } != 0 {
        return Err("it stays root".into());
    }
    must_fail(
        "memory beyond RLIMIT_MEMLOCK",
        nic.region(128 << 10).map(drop),
    )?;
    let region = nic.region(32 << 10)?;
    must_fail("both together", nic.region(48 << 10).map(drop))?;
    drop(region);
    drop(nic.region(48 << 10)?);

    let half = u64::from(nic.info()?.pages / 2);
    let pages = |pages: u64| {
        nic.window(&Wanted {
            bytes: 4096 * pages,
            ..wanted(token)
        })
    };
    must_fail("more than half of the pages", pages(half + 1).map(drop))?;
    let most = pages(half)?;
    must_fail("a page more", pages(1).map(drop))?;
    drop(most);
    drop(pages(half)?);

    let region = nic.region(4096)?;
    let part = Part {
        first: 0,
        bytes: 4096,
        rights: Rights::Write,
        peer: None,
        tag: 1,
        sealed: false,
        session: None,
    };
    let keys: u32 = nic.info()?.regions / 2;
    let mut taken = Vec::new();
    for _ in 0..keys {
        taken.push(region.export(&part)?);
    }
    must_fail("more than half of the keys", region.export(&part).map(drop))?;
    region.revoke(taken[0])?;
    region.export(&part)?;
    let peer = nic.peer(1)?;
    must_fail("a peer", nic.set_peer(&peer))?;
    must_fail(
        "a sealed peer",
        nic.seal_peer(&peer, &entry(5, KeyUse::Begin)),
    )?;
    must_fail("a key", nic.next_key(1, &entry(5, KeyUse::Send(true))))?;
    println!("nobody has his share");
    Ok(())
}

/// The other takes its token back.
fn withdrawn(region: &Region, window: &Window) -> Outcome {
    let epoch = window.epoch();
    window.store64(DID, 2)?;
    done(region, 2)?;
    window.store64(DID, 3)?;
    // The refusal comes by itself, and may come after the flush.
    match window.flush(Flush::Delivered, Some(Duration::from_millis(10))) {
        Ok(()) | Err(host::Error::Revoked) => {}
        Err(error) => return Err(error.into()),
    }
    for _ in 0..1000 {
        match window.check(epoch) {
            Ok(()) => std::thread::sleep(Duration::from_micros(10)),
            Err(error) => {
                println!("after the revocation: {error}");
                return Ok(());
            }
        }
    }
    Err("nobody told that the token was revoked".into())
}

fn serve(region: &Region, window: &Window, own: &Token) -> Outcome {
    done(region, 1)?;
    let mut got = vec![0; BLOCK_BYTES];
    region.read(BLOCK, &mut got)?;
    if !got.iter().enumerate().all(|(at, got)| *got == byte(at)) {
        return Err("other bytes came than were stored".into());
    }
    window.store64(DID, 1)?;
    done(region, 2)?;
    region.revoke(own)?;
    window.store64(DID, 2)?;
    std::thread::sleep(Duration::from_millis(20));
    if region.word(DID).load(Ordering::Acquire) != 2 {
        return Err("a store came after the revocation".into());
    }
    println!("nothing came after the revocation");
    Ok(())
}
