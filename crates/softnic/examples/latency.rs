// SPDX-License-Identifier: Apache-2.0
//! How long a store of 8 bytes takes from one NIC in software to another, and how many bytes a second go: over UDP
//! sockets of loopback addresses, plain and sealed in turns, and over AF_XDP on the two ends of a virtual cable (as root).
//!
//! `cargo run --release -p softnic --example latency`
//!
//! Half of a round trip: each side stores a number into the other's memory when it sees the next one in its own.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rand::RngExt;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use softnic::{
    AfXdp, Config, Error, PeerAddress, Segment, Share, Shared, SoftNic, Transport, Udp, Window,
};
use wire::KeyEntry;

const ROUNDS: u32 = 20_000;
const WARM: u32 = 1_000;
const PAIRS: usize = 5;
const BYTES: usize = 1 << 20;
const STREAM: usize = 16 << 20;
/// Looks in vain after which the processor is given up, for machines that are busy with other things.
const PATIENT: u32 = 200;

struct Side {
    nic: SoftNic,
    memory: Segment,
    session: u8,
    shared: Shared,
}

impl Side {
    fn new(transport: Box<dyn Transport>, sealed: bool) -> Result<Self, Error> {
        let mut nic = SoftNic::new(Config::default(), transport)?;
        let memory = Segment::anonymous(BYTES)?;
        let session = nic.reserve_session()?;
        let share = Share {
            sealed,
            ..Share::writable(0, BYTES as u32)
        };
        let shared = nic.share(&memory, &share)?;
        Ok(Self {
            nic,
            memory,
            session,
            shared,
        })
    }

    fn number(&self) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read(0, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Works; `vain` counts the times that nothing came.
    fn poll(&mut self, vain: &mut u32) -> Result<(), Error> {
        *vain = if self.nic.poll()? { 0 } else { *vain + 1 };
        if *vain > PATIENT {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn put(&mut self, window: &Window, number: u32) -> Result<(), Error> {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        self.nic.store(window, 0, &bytes)?;
        self.nic.kick();
        Ok(())
    }
}

/// The NIC of the other side in a thread of its own: it answers each number, and takes what is streamed.
fn echo(mut side: Side, window: Window, ready: &Barrier, stop: &AtomicBool) -> Result<(), Error> {
    ready.wait();
    let (mut last, mut vain) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        side.poll(&mut vain)?;
        let number = side.number();
        if number != last {
            last = number;
            side.put(&window, number)?;
        }
    }
    Ok(())
}

/// Random keys for the two ends of a session.
fn keys() -> [KeyEntry; 2] {
    let mut rng = rand::rng();
    let one = KeyEntry {
        tx_key: rng.random(),
        rx_key: rng.random(),
        tx_salt: rng.random(),
        rx_salt: rng.random(),
    };
    let other = KeyEntry {
        tx_key: one.rx_key,
        rx_key: one.tx_key,
        tx_salt: one.rx_salt,
        rx_salt: one.tx_salt,
    };
    [one, other]
}

/// Prints what was measured; the median of one way, in microseconds.
fn measure(
    name: &str,
    transports: [Box<dyn Transport>; 2],
    keys: Option<[KeyEntry; 2]>,
) -> Result<f64, Error> {
    let [one, two] = transports;
    let sealed = keys.is_some();
    let (mut near, mut far) = (Side::new(one, sealed)?, Side::new(two, sealed)?);
    let (at_near, at_far) = (near.session, far.session);
    let (mut to_far, mut to_near) = (
        PeerAddress::of(&far.nic, at_far, 50),
        PeerAddress::of(&near.nic, at_near, 50),
    );
    [to_far.keys, to_near.keys] = match keys {
        Some(keys) => keys.map(Some),
        None => [None, None],
    };
    near.nic.open_session(at_near, &to_far)?;
    far.nic.open_session(at_far, &to_near)?;
    let window = near.nic.map(at_near, &far.shared, 0, BYTES as u64)?;
    let back = far.nic.map(at_far, &near.shared, 0, BYTES as u64)?;
    let (ready, stop) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
    let (gate, end) = (Arc::clone(&ready), Arc::clone(&stop));
    let thread = std::thread::spawn(move || echo(far, back, &gate, &end));
    ready.wait();
    let (mut times, mut vain) = (Vec::new(), 0);
    for round in 1..=ROUNDS {
        let began = Instant::now();
        near.put(&window, round)?;
        while near.number() != round {
            near.poll(&mut vain)?;
        }
        if round > WARM {
            times.push(began.elapsed());
        }
    }
    times.sort_unstable();
    let one_way = |part: f64| {
        let at = (part * (times.len() - 1) as f64) as usize;
        times[at].as_secs_f64() * 1e6 / 2.0
    };
    let data = vec![0x5A; 65536];
    let began = Instant::now();
    let mut sent = 0;
    while sent < STREAM {
        let at = 4096 + sent % (BYTES / 2);
        let length = (65536 - sent % 65536).min(BYTES - at);
        sent += near.nic.store(&window, at as u64, &data[..length])?;
        near.poll(&mut vain)?;
    }
    while !near.nic.is_quiet() {
        near.poll(&mut vain)?;
    }
    let rate = sent as f64 / began.elapsed().as_secs_f64() / 1e6;
    stop.store(true, Ordering::Relaxed);
    println!(
        "{name:10} one way: {:.1} µs median, {:.1} µs 99 %, {:.1} µs least; {rate:.0} MB/s in stores of 256 bytes",
        one_way(0.5),
        one_way(0.99),
        one_way(0.0)
    );
    match thread.join() {
        Ok(result) => result.map(|()| one_way(0.5)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn ip(arguments: &str) -> bool {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    status.is_ok_and(|status| status.success())
}

fn main() -> Result<(), Error> {
    let udp = || -> Result<[Box<dyn Transport>; 2], Error> {
        let bind = |last| Udp::bind([127, 7, 5, last].into()).map(Box::new);
        Ok([bind(1)?, bind(2)?])
    };
    let mut ratios = Vec::new();
    for _ in 0..PAIRS {
        let plain = measure("UDP", udp()?, None)?;
        let sealed = measure("UDP sealed", udp()?, Some(keys()))?;
        ratios.push(sealed / plain);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!(
        "sealed takes {:.2} times as long, median of {PAIRS} pairs: {ratios:.2?}",
        ratios[PAIRS / 2]
    );
    // SAFETY: no other thread runs that would depend on this one's network namespace.
    if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
        println!("AF_XDP   not measured: no right to make a network namespace: {error}");
        return Ok(());
    }
    let plugged = ip("link add cable0 type veth peer name cable1")
        && ip("link set cable0 up")
        && ip("link set cable1 up");
    if !plugged {
        println!("AF_XDP   not measured: `ip` could not make a virtual cable");
        return Ok(());
    }
    // Until the cable is known to be plugged in at both ends.
    std::thread::sleep(Duration::from_millis(100));
    measure(
        "AF_XDP",
        [
            Box::new(AfXdp::open("cable0", 0, [10, 7, 5, 1].into())?),
            Box::new(AfXdp::open("cable1", 0, [10, 7, 5, 2].into())?),
        ],
        None,
    )
    .map(drop)
}
