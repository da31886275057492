// SPDX-License-Identifier: Apache-2.0
//! Prints what a channel's rings cost: round trips of two threads, and bytes per second one way.
//!
//! `cargo run --release -p shm --example channel_latency`. Give it two idle cores: what it prints is their caches' speed.

use std::os::fd::AsFd;
use std::time::Instant;

use shm::channel::{Channel, End, attach};

const ROUNDS: u32 = 100_000;
const BULK: u64 = 1 << 30;

fn main() -> shm::Result<()> {
    let (client, _) = ends()?;
    println!(
        "send and receive on one thread, 32 bytes: {:.1} ns",
        alone(&client)
    );
    for bytes in [1, 8, 56, 57, 256, 1024, 4096] {
        let (client, server) = ends()?;
        let nanoseconds = round_trip(&client, &server, bytes);
        println!("round trip  {bytes:>6} bytes: {nanoseconds:>8.0} ns");
    }
    for bytes in [56, 1024, 4096, 16 * 1024, 32_704] {
        let (client, server) = ends()?;
        println!(
            "one way     {bytes:>6} bytes: {:>8.2} GB/s",
            one_way(&client, &server, bytes)
        );
    }
    let (client, _) = ends()?;
    println!(
        "send and receive on one thread, 32 bytes: {:.1} ns",
        alone(&client)
    );
    Ok(())
}

fn ends() -> shm::Result<(End, End)> {
    let (_, fd) = Channel::create(2048)?;
    Ok((attach(fd.as_fd(), 0)?, attach(fd.as_fd(), 1)?))
}

fn send(end: &End, data: &[u8]) {
    while end.sender().try_send(0, &[data]).is_err() {
        std::hint::spin_loop();
    }
}

fn receive(end: &End, into: &mut [u8]) {
    let mut done = 0;
    while done < into.len() {
        let mut receiver = end.receiver();
        while !receiver.readable() {
            std::hint::spin_loop();
        }
        done += receiver.read(0, &mut into[done..]).0;
    }
}

fn round_trip(client: &End, server: &End, bytes: usize) -> f64 {
    let data = vec![1; bytes];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut into = vec![0; bytes];
            for _ in 0..ROUNDS {
                receive(server, &mut into);
                send(server, &into);
            }
        });
        let mut into = vec![0; bytes];
        let start = Instant::now();
        for _ in 0..ROUNDS {
            send(client, &data);
            receive(client, &mut into);
        }
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    })
}

fn one_way(client: &End, server: &End, bytes: usize) -> f64 {
    let messages = (BULK / bytes as u64).min(5_000_000);
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut into = vec![0; bytes];
            for _ in 0..messages {
                receive(server, &mut into);
            }
            into[bytes - 1]
        });
        let data = vec![1; bytes];
        let start = Instant::now();
        for _ in 0..messages {
            send(client, &data);
        }
        assert!(
            taker.join().is_ok_and(|last| last == 1),
            "the receiver failed"
        );
        (messages * bytes as u64) as f64 / start.elapsed().as_nanos() as f64
    })
}

fn alone(client: &End) -> f64 {
    let server = End::new(client.channel().clone(), 1);
    let mut into = [0; 32];
    let start = Instant::now();
    for _ in 0..3_000_000 {
        send(client, &[3; 32]);
        receive(&server, &mut into);
        std::hint::black_box(&into);
    }
    start.elapsed().as_nanos() as f64 / 3_000_000.0
}
