// SPDX-License-Identifier: Apache-2.0
//! Long exchanges in which every wait is of another, random kind, with pauses of random lengths: whatever way a
//! program waits, no wake-up is lost and no byte. The seed is told when something fails.

use crate::support::epoll;
use crate::support::prelude::*;
use crate::support::seen;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

cases! { "soak";
    two_processes Accelerated "two processes exchange blocks, each waiting in random ways"
    two_processes_busy Accelerated "the same without pauses"
    two_threads Accelerated "two threads of one process exchange blocks"
    interrupted Accelerated "the same under a timer's signals"
    pipeline Accelerated "a stream of random writes is read by random reads, with pauses on both sides"
    datagrams Accelerated "two processes exchange datagrams, each waiting in random ways"
    coming_and_going Accelerated "threads connect, exchange and end their connections in random ways, an epoll server serves"
    coming_and_going_edge Accelerated "the same with an edge-triggered server"
    many_idle Accelerated "one busy connection among two hundred idle ones"
}

/// A socket with everything that it can be waited for with.
struct Waiter {
    fd: Fd,
    level: Fd,
    edge: Fd,
    random: ChaCha8Rng,
    pauses: bool,
}

impl Waiter {
    fn new(fd: Fd, seed: u64, pauses: bool) -> Result<Waiter, Failure> {
        let (level, edge) = (epoll::create()?, epoll::create()?);
        epoll::add(level, fd, epoll::IN, 1)?;
        epoll::add(edge, fd, epoll::IN | epoll::ET, 1)?;
        timeout(fd, libc::SO_RCVTIMEO, Duration::from_secs(8))?;
        Ok(Waiter {
            fd,
            level,
            edge,
            random: ChaCha8Rng::seed_from_u64(seed),
            pauses,
        })
    }

    fn pause(&mut self) {
        if self.pauses && self.random.random_bool(0.1) {
            std::thread::sleep(Duration::from_micros(self.random.random_range(0..300)));
        }
    }

    /// At most `len` bytes, after a wait of some kind.
    fn receive(&mut self, len: usize) -> Result<Vec<u8>, Failure> {
        loop {
            match recv(self.fd, len, MSG_DONTWAIT) {
                Err(Errno(EAGAIN | EINTR)) => {}
                other => return Ok(other?),
            }
            let patience = 8000;
            let way = self.random.random_range(0..6);
            let told = match way {
                0 => match recv(self.fd, len, 0) {
                    Err(Errno(EAGAIN)) => Ok(0),
                    Err(Errno(EINTR)) => Ok(1),
                    other => return Ok(other?),
                },
                1 => poll_one(self.fd, POLLIN, patience).map(|events| events as usize),
                2 => epoll::wait(self.level, patience).map(|events| events.len()),
                3 => epoll::wait(self.edge, patience).map(|events| events.len()),
                4 => ppoll(&[(self.fd, POLLIN)], Some(Duration::from_secs(8)), None)
                    .map(|e| e[0] as usize),
                _ => select(&[self.fd], &[], Some(Duration::from_secs(8)))
                    .map(|selected| selected.count),
            };
            match told {
                Ok(0) => {
                    let names = [
                        "recv",
                        "poll",
                        "epoll",
                        "edge-triggered epoll",
                        "ppoll",
                        "select",
                    ];
                    return Err(Failure::new(format!(
                        "{} did not wake for eight seconds",
                        names[way]
                    )));
                }
                Err(Errno(EINTR)) | Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn receive_all(&mut self, len: usize) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        while all.len() < len {
            let bytes = self.receive(len - all.len())?;
            holds!(
                !bytes.is_empty(),
                "the stream ended after {} of {len} bytes",
                all.len()
            );
            all.extend(bytes);
        }
        Ok(all)
    }
}

fn seeded(body: impl FnOnce(u64) -> Outcome) -> Outcome {
    let seed = rand::random();
    body(seed).map_err(|failure| Failure(format!("{} (seed {seed})", failure.0)))
}

/// Sizes that both sides of an exchange know.
fn sizes(seed: u64, rounds: usize) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..rounds)
        .map(|_| {
            *[1, 8, 40, 56, 57, 200, 1000, 5000]
                .choose(&mut random)
                .unwrap_or(&1)
        })
        .collect()
}

fn lead(fd: Fd, seed: u64, rounds: usize, pauses: bool) -> Outcome {
    let mut end = Waiter::new(fd, seed ^ 1, pauses)?;
    for (round, size) in sizes(seed, rounds).into_iter().enumerate() {
        let block = vec![round as u8; size];
        send_all(fd, &block)?;
        holds!(
            end.receive_all(size)? == block,
            "another block came back in round {round}"
        );
        end.pause();
    }
    Ok(())
}

fn follow(fd: Fd, seed: u64, rounds: usize, pauses: bool) -> Outcome {
    let mut end = Waiter::new(fd, seed ^ 2, pauses)?;
    for size in sizes(seed, rounds) {
        let block = end.receive_all(size)?;
        end.pause();
        send_all(fd, &block)?;
    }
    Ok(())
}

fn processes(pauses: bool) -> Outcome {
    seeded(|seed| {
        let (listener, address) = listener()?;
        let child = fork(|| lead(client(&address)?, seed, 1500, pauses))?;
        let server = accept(listener)?;
        seen::stream(server);
        follow(server, seed, 1500, pauses)?;
        child.join()
    })
}

fn two_processes() -> Outcome {
    processes(true)
}

fn two_processes_busy() -> Outcome {
    processes(false)
}

fn two_threads() -> Outcome {
    seeded(|seed| {
        let (client, server) = pair()?;
        let other = thread(move || follow(server, seed, 1500, true));
        lead(client, seed, 1500, true)?;
        other.join()
    })
}

fn interrupted() -> Outcome {
    count_signal(libc::SIGALRM, libc::SA_RESTART)?;
    let often = libc::timeval {
        tv_sec: 0,
        tv_usec: 500,
    };
    let value = libc::itimerval {
        it_interval: often,
        it_value: often,
    };
    unsafe extern "C" {
        fn setitimer(which: i32, new: *const libc::itimerval, old: *mut libc::itimerval) -> i32;
    }
    // SAFETY: reads one value.
    done(unsafe { setitimer(0, &raw const value, std::ptr::null_mut()) })?;
    two_threads()
}

fn pipeline() -> Outcome {
    seeded(|seed| {
        let total = 4_000_000;
        let (listener, address) = listener()?;
        let child = fork(|| {
            let fd = client(&address)?;
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let bytes = pattern(total);
            let mut at = 0;
            while at < total {
                let end = (at + random.random_range(1..9000)).min(total);
                send_all(fd, &bytes[at..end])?;
                at = end;
                if random.random_bool(0.03) {
                    std::thread::sleep(Duration::from_micros(random.random_range(0..500)));
                }
            }
            Ok(close(fd)?)
        })?;
        let server = accept(listener)?;
        seen::stream(server);
        let mut end = Waiter::new(server, seed, true)?;
        let mut got = Vec::with_capacity(total);
        loop {
            let len = end.random.random_range(1..12_000);
            let bytes = end.receive(len)?;
            if bytes.is_empty() {
                break;
            }
            got.extend(bytes);
            end.pause();
        }
        holds!(
            got == pattern(total),
            "{} of {total} bytes came, or others",
            got.len()
        );
        child.join()
    })
}

fn datagrams() -> Outcome {
    seeded(|seed| {
        let rounds = 1500;
        let ((left, left_at), (right, right_at)) = (datagram()?, datagram()?);
        let child = fork(|| {
            close(left)?;
            let mut end = Waiter::new(right, seed ^ 2, true)?;
            for size in sizes(seed, rounds) {
                let bytes = end.receive(9000)?;
                same!(bytes.len(), size);
                end.pause();
                sendto(right, &bytes, 0, &left_at)?;
            }
            Ok(())
        })?;
        close(right)?;
        let mut end = Waiter::new(left, seed ^ 1, true)?;
        for (round, size) in sizes(seed, rounds).into_iter().enumerate() {
            let block = vec![round as u8; size];
            sendto(left, &block, 0, &right_at)?;
            holds!(
                end.receive(9000)? == block,
                "another datagram came back in round {round}"
            );
            end.pause();
            if round == rounds / 2
                && let (Some(from), Some(to)) = (left_at.socket_addr(), right_at.socket_addr())
            {
                seen::datagrams(from, to);
            }
        }
        child.join()
    })
}

/// A server in one thread: everything non-blocking, one set, as event libraries do it.
fn event_server(listener: Fd, stop: Fd, flags: u32) -> Outcome {
    nonblocking(listener, true)?;
    let set = epoll::create()?;
    epoll::add(set, listener, epoll::IN, 0)?;
    epoll::add(set, stop, epoll::IN, 1)?;
    loop {
        for (_, number) in epoll::wait(set, -1)? {
            match number {
                0 => {
                    if let Ok(fd) = accept4(listener, SOCK_NONBLOCK) {
                        epoll::add(set, fd, epoll::IN | epoll::RDHUP | flags, fd as u64)?;
                    }
                }
                1 => return Ok(()),
                fd => serve_event(fd as Fd)?,
            }
        }
    }
}

/// Reads until there is nothing more, sends it back, closes at the end.
fn serve_event(fd: Fd) -> Outcome {
    loop {
        match recv(fd, 500, 0) {
            Ok(bytes) if !bytes.is_empty() => {
                // Blocks are small: they fit, or the peer is gone.
                let _ = send(fd, &bytes, MSG_NOSIGNAL);
            }
            Err(Errno(EAGAIN)) => return Ok(()),
            Ok(_) | Err(Errno(ECONNRESET | EPIPE)) => return Ok(close(fd)?),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn visitor(address: Address, seed: u64) -> Outcome {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..60 {
        let fd = client(&address)?;
        if round % 20 == 0 {
            seen::stream(fd);
        }
        for _ in 0..random.random_range(0..4) {
            let block = vec![seed as u8; random.random_range(1..1500)];
            send_all(fd, &block)?;
            holds!(
                recv_all(fd, block.len())? == block,
                "another block came back"
            );
        }
        match random.random_range(0..5) {
            0 => {
                shutdown(fd, SHUT_WR)?;
                gets!(recv(fd, 10, 0), b"");
            }
            1 => linger(fd, true, 0)?,
            2 => send_all(fd, b"and gone")?,
            3 => shutdown(fd, SHUT_RDWR)?,
            _ => {}
        }
        close(fd)?;
    }
    Ok(())
}

fn coming(flags: u32) -> Outcome {
    seeded(|seed| {
        let (listener, address) = listener_at(&Address::v4(0), 64)?;
        let stop = eventfd(0, 0)?;
        let server = thread(move || event_server(listener, stop, flags));
        let visitors: Vec<_> = (0..4)
            .map(|number| thread(move || visitor(address, seed.wrapping_add(number))))
            .collect();
        let outcome = visitors.into_iter().try_for_each(Thread::join);
        write(stop, &1u64.to_ne_bytes())?;
        server.join()?;
        outcome
    })
}

fn coming_and_going() -> Outcome {
    coming(0)
}

fn coming_and_going_edge() -> Outcome {
    coming(epoll::ET)
}

fn many_idle() -> Outcome {
    limit_descriptors(seen::descriptors(1024))?;
    let (listener, address) = listener_at(&Address::v4(0), 64)?;
    let set = epoll::create()?;
    let mut pairs = Vec::new();
    for number in 0..200u64 {
        let client = client(&address)?;
        let server = accept(listener)?;
        if number % 50 == 0 {
            seen::stream(server);
        }
        epoll::add(set, server, epoll::IN, number)?;
        pairs.push((client, server));
    }
    for round in 0..600usize {
        let index = if round % 10 == 0 { round / 3 } else { 77 };
        let (client, server) = pairs[index];
        send_all(client, &[round as u8])?;
        same!(epoll::wait(set, 5000), Ok(vec![(epoll::IN, index as u64)]));
        gets!(recv(server, 10, 0), [round as u8]);
    }
    Ok(())
}
