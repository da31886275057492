// SPDX-License-Identifier: Apache-2.0
//! Random sequences of operations on two sockets, played over the kernel and over IP-NUMA; what every operation gave
//! must be equal, line for line. A sequence never has more under way than both kinds of sockets take, and waits
//! until what was sent has arrived before it looks: then everything that Linux does is determined.

use crate::runner::{Over, SEEN, run_for};
use crate::support::epoll;
use crate::support::prelude::*;
use crate::support::seen;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::process::Command;
use std::time::Duration;

/// Plays sequences over everything and compares; gives the number of sequences that differ.
pub fn compare(overs: &[Over], seed: u64, sequences: u32) -> Result<usize, std::io::Error> {
    let mut bad = 0;
    for number in 0..u64::from(sequences) {
        let seed = seed.wrapping_add(number);
        let mut transcripts = Vec::new();
        for over in overs {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["--role", "property", &seed.to_string()]);
            over.prepare(&mut command);
            let (status, mut text) = run_for(&mut command, Duration::from_secs(30))?;
            if !status.is_some_and(|status| status.success()) {
                text.push_str(&format!("\nended with {status:?}"));
            }
            let (text, counts) = text.split_once(SEEN).unwrap_or((&text, ""));
            if !matches!(over, Over::Kernel) && counts.trim() != "1 1" {
                bad += 1;
                println!(
                    "  seed {seed}: the sockets were not accelerated ({})",
                    counts.trim()
                );
            }
            transcripts.push(text.to_string());
        }
        for other in &transcripts[1..] {
            if let Some(difference) = difference(&transcripts[0], other) {
                bad += 1;
                println!("  seed {seed}: {difference}");
            }
        }
        if transcripts[0].contains("ended with") {
            bad += 1;
            println!(
                "  seed {seed}: {}",
                transcripts[0].lines().last().unwrap_or_default()
            );
        }
    }
    println!("  {sequences} sequences, {bad} bad");
    Ok(bad)
}

fn difference(kernel: &str, library: &str) -> Option<String> {
    let (mut left, mut right) = (kernel.lines(), library.lines());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (left, right) if left == right => {}
            (left, right) => {
                let text = |line: Option<&str>| line.unwrap_or("nothing more").to_string();
                return Some(format!(
                    "the kernel gave\n    {}\n  IP-NUMA\n    {}",
                    text(left),
                    text(right)
                ));
            }
        }
    }
}

/// Plays one sequence here and writes what every operation gave.
pub fn play(seed: u64) -> Outcome {
    seen::begin();
    let random = ChaCha8Rng::seed_from_u64(seed);
    let outcome = if seed % 3 == 2 {
        datagrams(random)
    } else {
        streams(random)
    };
    let (connections, accelerated) = seen::counts();
    println!("{SEEN}{connections} {accelerated}");
    outcome
}

/// One end of the connection, and what the model knows of it.
struct End {
    fd: Fd,
    name: char,
    level: Fd,
    edge: Fd,
    /// Bytes sent to this end that it has not read.
    waiting: usize,
    /// Sends to this end since it was last empty.
    sends: usize,
    /// The other end has shut down or closed.
    ended: bool,
    /// This end has shut down.
    shut: bool,
    /// Number of the next byte that this end sends.
    sent: usize,
}

impl End {
    fn new(fd: Fd, name: char) -> Result<End, Failure> {
        nonblocking(fd, true)?;
        let (level, edge) = (epoll::create()?, epoll::create()?);
        epoll::add(level, fd, epoll::IN | epoll::OUT | epoll::RDHUP, 1)?;
        epoll::add(edge, fd, epoll::IN | epoll::RDHUP | epoll::ET, 1)?;
        Ok(End {
            fd,
            name,
            level,
            edge,
            waiting: 0,
            sends: 0,
            ended: false,
            shut: false,
            sent: 0,
        })
    }

    /// Waits until what the model says is there.
    fn settle(&self) -> Outcome {
        if self.waiting > 0 {
            arrived(self.fd, self.waiting)?;
        }
        if self.ended {
            eventually("the end arrived", || {
                poll_one(self.fd, POLLRDHUP, 0).is_ok_and(|events| events & POLLRDHUP != 0)
            })?;
        }
        Ok(())
    }
}

fn streams(mut random: ChaCha8Rng) -> Outcome {
    let (client, server) = pair()?;
    let mut ends = [End::new(client, 'c')?, End::new(server, 's')?];
    for step in 0..random.random_range(50..250) {
        let this = random.random_range(0..2);
        let (left, right) = ends.split_at_mut(1);
        let (one, other) = if this == 0 {
            (&mut left[0], &mut right[0])
        } else {
            (&mut right[0], &mut left[0])
        };
        one.settle()?;
        let name = one.name;
        match random.random_range(0..100) {
            0..35 => {
                let len = length(&mut random);
                if other.waiting + len > 20_000 || other.sends > 250 {
                    continue;
                }
                let bytes: Vec<u8> = (0..len)
                    .map(|index| ((one.sent + index) * 7) as u8)
                    .collect();
                let (how, sent) = send_somehow(&mut random, one.fd, &bytes);
                println!("{step} {name} {how} {len}: {sent:?}");
                if sent == Ok(len) {
                    one.sent += len;
                    other.waiting += len;
                    other.sends += 1;
                }
            }
            35..70 => {
                let len = length(&mut random);
                let (how, got, consumed) = receive_somehow(&mut random, one.fd, len);
                println!("{step} {name} {how} {len}: {}", digest(&got));
                if consumed {
                    one.waiting -= got.map_or(0, |bytes| bytes.len());
                    if one.waiting == 0 {
                        one.sends = 0;
                    }
                }
            }
            70..78 => {
                let events =
                    [POLLIN, POLLOUT, POLLIN | POLLOUT | POLLRDHUP, 0][random.random_range(0..4)];
                println!(
                    "{step} {name} poll {events:#x}: {:?}",
                    poll_one(one.fd, events, 0)
                );
            }
            78..82 => println!("{step} {name} FIONREAD: {:?}", fionread(one.fd)),
            82..87 => println!("{step} {name} epoll level: {:?}", epoll::wait(one.level, 0)),
            87..93 => println!("{step} {name} epoll edge: {:?}", epoll::wait(one.edge, 0)),
            93 => println!("{step} {name} SO_ERROR: {:?}", socket_error(one.fd)),
            94 => {
                let chosen = select(&[one.fd], &[one.fd], Some(Duration::ZERO))?;
                println!(
                    "{step} {name} select: {} {} {}",
                    chosen.count,
                    chosen.read.len(),
                    chosen.write.len()
                );
            }
            95 => {
                // The same connection under another number; the sets keep the first, which lives on in its copy.
                let copy = dup(one.fd)?;
                close(one.fd)?;
                one.fd = copy;
                println!("{step} {name} dup and close");
            }
            96 => {
                println!("{step} {name} change: {:?}", changed(one));
            }
            97 if step > 40 && random.random_bool(0.5) => {
                let fd = one.fd;
                if one.shut && one.ended {
                    // The last acknowledgement, which makes the connection one that is not, has no event.
                    eventually("there is no connection", || {
                        shutdown(fd, SHUT_WR) == Err(Errno(ENOTCONN))
                    })?;
                    println!("{step} {name} shutdown of none");
                } else {
                    println!("{step} {name} shutdown: {:?}", shutdown(fd, SHUT_WR));
                }
                one.shut = true;
                other.ended = true;
                // To the kernel the own shutdown is an edge as well, and its acknowledgement another: they tell bytes
                // again that are known already. No program can need that; they are overlooked.
                eventually("the end is acknowledged", || {
                    tcp_state(fd).is_ok_and(|state| !UNACKNOWLEDGED.contains(&state))
                })?;
                epoll::wait(one.edge, 0)?;
            }
            98 if step > 60 && random.random_bool(0.3) => {
                let reset = random.random_bool(0.3);
                return ending(one, other, reset, step);
            }
            _ => {}
        }
    }
    let (left, right) = ends.split_at_mut(1);
    ending(&mut left[0], &mut right[0], false, 1000)
}

/// States of TCP in which the peer has yet to acknowledge the own end: FIN_WAIT1, LAST_ACK, CLOSING.
const UNACKNOWLEDGED: [u8; 3] = [4, 9, 11];

/// Removes and adds the end in its edge-triggered set; what is there is told again.
fn changed(end: &End) -> Call<()> {
    // After dup and close the set holds a number that is gone; then nothing can be changed.
    match epoll::remove(end.edge, end.fd) {
        Ok(()) => epoll::add(end.edge, end.fd, epoll::IN | epoll::RDHUP | epoll::ET, 1),
        Err(errno) => Err(errno),
    }
}

/// One end is closed; what the other end sees.
fn ending(one: &mut End, other: &mut End, reset: bool, step: u32) -> Outcome {
    one.settle()?;
    other.settle()?;
    if reset {
        linger(one.fd, true, 0)?;
    }
    let unread = one.waiting > 0;
    println!("{step} {} closes, reset {reset}, unread {unread}", one.name);
    close(one.fd)?;
    let fd = other.fd;
    eventually("the end arrived", || {
        poll_one(fd, POLLRDHUP, 0).is_ok_and(|events| events & POLLRDHUP != 0)
    })?;
    let name = other.name;
    if reset || unread {
        // A reset throws away what had arrived, or not: only that it is one is determined.
        eventually("the connection is reset", || match recv(fd, 100_000, 0) {
            Err(Errno(errno)) => errno == ECONNRESET,
            Ok(bytes) => bytes.is_empty(),
        })?;
        println!("{step} {name} is reset");
    } else {
        println!(
            "{step} {name} poll: {:?}",
            poll_one(fd, POLLIN | POLLRDHUP, 0)
        );
        println!("{step} {name} rest: {}", digest(&recv_all(fd, 100_000)));
        println!("{step} {name} end: {}", digest(&recv(fd, 10, 0)));
        println!("{step} {name} error: {:?}", socket_error(fd));
    }
    println!("{step} {name} closes: {:?}", close(fd));
    Ok(())
}

/// Lengths around the units of rings, small ones often.
fn length(random: &mut ChaCha8Rng) -> usize {
    match random.random_range(0..10) {
        0 => 0,
        1..5 => random.random_range(1..60),
        5..7 => random.random_range(50..70),
        7..9 => random.random_range(60..600),
        _ => random.random_range(600..6000),
    }
}

fn send_somehow(random: &mut ChaCha8Rng, fd: Fd, bytes: &[u8]) -> (&'static str, Call) {
    let middle = random.random_range(0..=bytes.len());
    let (first, second) = bytes.split_at(middle);
    match random.random_range(0..6) {
        0 if !bytes.is_empty() => ("write", no_signal(fd, || write(fd, bytes))),
        1 => (
            "writev",
            no_signal(fd, || writev(fd, &[first, &[], second])),
        ),
        2 => ("sendmsg", sendmsg(fd, &[first, second], None, MSG_NOSIGNAL)),
        3 => (
            "sendmmsg",
            sendmmsg(fd, &[first, second], None, MSG_NOSIGNAL).map(|sent| sent.iter().sum()),
        ),
        4 => (
            "send dontwait",
            send(fd, bytes, MSG_NOSIGNAL | MSG_DONTWAIT),
        ),
        _ => ("send", send(fd, bytes, MSG_NOSIGNAL)),
    }
}

/// SIGPIPE would end the sequence.
fn no_signal<T>(_fd: Fd, call: impl FnOnce() -> T) -> T {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    call()
}

fn receive_somehow(
    random: &mut ChaCha8Rng,
    fd: Fd,
    len: usize,
) -> (&'static str, Call<Vec<u8>>, bool) {
    match random.random_range(0..8) {
        0 => ("read", read(fd, len), true),
        1 => (
            "readv",
            readv(fd, &[len / 3, 0, len - len / 3]).map(|rooms| rooms.concat()),
            true,
        ),
        2 => (
            "recvmsg",
            recvmsg(fd, &[len / 2, len - len / 2], 0).map(|message| message.bytes),
            true,
        ),
        3 => ("peek", recv(fd, len, MSG_PEEK), false),
        4 => (
            "peek recvmsg",
            recvmsg(fd, &[len], MSG_PEEK).map(|message| message.bytes),
            false,
        ),
        5 => (
            "recvfrom",
            recvfrom(fd, len, MSG_DONTWAIT).map(|(bytes, _)| bytes),
            true,
        ),
        6 => ("recv all", recv(fd, len, MSG_WAITALL | MSG_DONTWAIT), true),
        _ => ("recv", recv(fd, len, 0), true),
    }
}

/// Short text that tells one result from another.
fn digest(got: &Call<Vec<u8>>) -> String {
    match got {
        Ok(bytes) => {
            // FNV-1a.
            let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, &byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
            format!("{} bytes, {sum:016x}", bytes.len())
        }
        Err(errno) => format!("{errno:?}"),
    }
}

fn datagrams(mut random: ChaCha8Rng) -> Outcome {
    let ends = [datagram()?, datagram()?];
    let mut queues: [VecDeque<usize>; 2] = Default::default();
    let mut sets = [0; 2];
    for (index, (fd, _)) in ends.iter().enumerate() {
        nonblocking(*fd, true)?;
        sets[index] = epoll::create()?;
        epoll::add(sets[index], *fd, epoll::IN, 1)?;
    }
    // The first datagram makes the channel that is looked up.
    sendto(ends[0].0, b"first", 0, &ends[1].1)?;
    queues[1].push_back(5);
    if let (Some(from), Some(to)) = (ends[0].1.socket_addr(), ends[1].1.socket_addr()) {
        seen::datagrams(from, to);
    }
    let mut connected = [false; 2];
    for step in 0..random.random_range(50..250) {
        let this = random.random_range(0..2usize);
        let ((fd, _), (_, to)) = (ends[this], ends[1 - this]);
        if !queues[this].is_empty() {
            readable(fd)?;
        }
        match random.random_range(0..100) {
            0..40 => {
                let len = length(&mut random);
                if queues[1 - this].len() > 40
                    || queues[1 - this].iter().sum::<usize>() + len > 30_000
                {
                    continue;
                }
                let bytes: Vec<u8> = (0..len)
                    .map(|index| (step as usize * 3 + index * 7) as u8)
                    .collect();
                let sent = match random.random_range(0..4) {
                    0 if connected[this] => send(fd, &bytes, 0),
                    1 => sendmsg(fd, &[&bytes[..len / 2], &bytes[len / 2..]], Some(&to), 0),
                    2 => sendmmsg(fd, &[&bytes], Some(&to), 0).map(|sent| sent[0]),
                    _ => sendto(fd, &bytes, 0, &to),
                };
                println!("{step} {this} sends {len}: {sent:?}");
                if sent.is_ok() {
                    queues[1 - this].push_back(len);
                }
            }
            40..80 => {
                let len = length(&mut random);
                let peek = random.random_bool(0.2);
                let flags = if peek { MSG_PEEK } else { 0 };
                match random.random_range(0..3) {
                    0 => println!(
                        "{step} {this} recv {len} {flags}: {}",
                        digest(&recv(fd, len, flags))
                    ),
                    1 => {
                        let got = recvfrom(fd, len, flags);
                        let right = got.as_ref().is_ok_and(|(_, from)| *from == to);
                        println!(
                            "{step} {this} recvfrom {len} {flags}: {} {right}",
                            digest(&got.map(|got| got.0))
                        );
                    }
                    _ => {
                        let got = recvmsg(fd, &[len / 2, len - len / 2], flags);
                        let text = got.as_ref().map_or(String::new(), |message| {
                            format!("{:#x} {}", message.flags & MSG_TRUNC, message.from == to)
                        });
                        let got = digest(&got.map(|message| message.bytes));
                        println!("{step} {this} recvmsg {len} {flags}: {got} {text}");
                    }
                }
                if !peek {
                    queues[this].pop_front();
                }
            }
            80..86 => println!(
                "{step} {this} poll: {:?}",
                poll_one(fd, POLLIN | POLLOUT, 0)
            ),
            86..91 => println!("{step} {this} epoll: {:?}", epoll::wait(sets[this], 0)),
            91..95 => println!("{step} {this} FIONREAD: {:?}", fionread(fd)),
            95..97 => {
                println!("{step} {this} connects: {:?}", connect(fd, &to));
                connected[this] = true;
            }
            97 => println!("{step} {this} SO_ERROR: {:?}", socket_error(fd)),
            _ => {}
        }
    }
    Ok(())
}
