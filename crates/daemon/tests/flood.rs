// SPDX-License-Identifier: Apache-2.0
//! What a host can take of a daemon that believes everybody: only so much, and others are served meanwhile. Descriptors, threads
//! and memory of this process are counted, so there is one test.

mod stranger;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

use daemon::Running;
use daemon::remote::messages::{self, Message};
use daemon::remote::{Guests, Peer};
use ipc::protocol::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stranger::{PATIENCE, Stranger, connect, counts_more_than, refused, start_with};

const QUOTA: Guests = Guests {
    sessions: 8,
    intents: 32,
    channels: 64,
    waiting: 48,
    windows: 16,
};
/// Bytes after which a look is taken at the daemon.
const MUCH: usize = 1 << 16;
/// What the daemon may grow by, in bytes.
const GROWTH: usize = 32 << 20;

fn entries(of: &str) -> usize {
    std::fs::read_dir(of).expect("/proc is there").count()
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("/proc is there");
    let pages = pages
        .split_ascii_whitespace()
        .nth(1)
        .expect("the second number");
    4096 * pages.parse::<usize>().expect("a number")
}

/// An honest daemon of another machine, and a process here, get their answers.
fn served(running: &Running, own: Ipv4Addr, to: SocketAddr) {
    let mut honest = Stranger::connect(own);
    assert_eq!(honest.ask(&Message::Ping), Message::Pong);
    let intended = honest.ask(&Message::Intend { question: 9, to });
    assert!(
        matches!(
            intended,
            Message::Intended {
                intent: Some(_),
                ..
            }
        ),
        "{intended:?}"
    );
    connect(running);
}

/// Waits until the daemon has closed a connection.
fn closed(stranger: &Stranger) {
    let limit = Timespec {
        tv_sec: PATIENCE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let mut one = [PollFd::new(&stranger.stream, PollFlags::RDHUP)];
    let count = poll(&mut one, Some(&limit)).expect("it can be asked");
    assert_eq!(count, 1, "the daemon keeps the connection");
}

/// Fills connections with pings, and reads no answer, until the daemon has closed all of them. Calls `meanwhile` when it has
/// taken much: how many bytes it has.
fn pings(strangers: &mut [Stranger], mut meanwhile: impl FnMut()) -> usize {
    let mut many = Vec::new();
    for _ in 0..10_000 {
        messages::write(&mut many, &Message::Ping).expect("a Vec has room");
    }
    let limit = Timespec {
        tv_sec: PATIENCE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let mut open: Vec<_> = strangers.iter_mut().map(|it| (&mut it.stream, 0)).collect();
    for (stream, _) in &open {
        stream.set_nonblocking(true).expect("a socket");
    }
    let (mut all, mut next) = (0, MUCH);
    while !open.is_empty() {
        let flags = PollFlags::OUT | PollFlags::RDHUP;
        let mut fds: Vec<_> = open
            .iter()
            .map(|(it, _)| PollFd::new(&**it, flags))
            .collect();
        let count = poll(&mut fds, Some(&limit)).expect("it can be asked");
        assert!(count > 0, "the daemon keeps {} connections", open.len());
        drop(fds);
        open.retain_mut(|(stream, taken)| {
            // What is cut off at the end is the beginning of what comes next.
            match stream.write(&many[*taken % many.len()..]) {
                Ok(count) => {
                    *taken += count;
                    all += count;
                    true
                }
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            }
        });
        if all >= next {
            next += MUCH;
            meanwhile();
        }
    }
    all
}

#[test]
fn a_flood_takes_what_one_host_may_have_and_no_more() {
    let (running, own, _directory) = start_with(|options| {
        options.remote.guests = QUOTA;
        options.remote.patience = 2;
        // All addresses here are this machine's; these are the others'.
        let machines = "127.0.0.0/8".parse().expect("a network");
        options.remote.peer = vec![Peer {
            daemon: machines,
            sources: vec![machines],
            nics: Vec::new(),
        }];
    });
    let server = connect(&running);
    let to = SocketAddr::from((own, 80));
    let listen = Request::Listen { address: to };
    server.done(&listen).expect("it may listen");
    served(&running, own, to);
    let before = [
        entries("/proc/self/task"),
        entries("/proc/self/fd"),
        resident(),
    ];

    // Sessions: one host holds as many as it may, another gets one.
    let host = stranger::address();
    let mut held = Vec::new();
    const TRIED: usize = 300;
    for _ in 0..TRIED {
        let mut stranger = Stranger::reach(own, host).expect("it listens");
        if let Ok(Some(Message::Hello { .. })) = stranger.greet() {
            held.push(stranger);
        }
    }
    assert_eq!(held.len(), QUOTA.sessions);
    assert_eq!(
        entries("/proc/self/task"),
        before[0],
        "threads come with connections"
    );
    // All of them, though no more come.
    counts_more_than(&running, (TRIED - QUOTA.sessions - 1) as u64);
    served(&running, own, to);

    // Connections that never say anything are closed, and give way to others.
    let silent = stranger::address();
    let quiet: Vec<_> = (0..QUOTA.sessions)
        .map(|_| Stranger::reach(own, silent).expect("it listens"))
        .collect();
    served(&running, own, to);
    quiet.iter().for_each(closed);

    // Pings whose answers nobody reads.
    let mut checks = 0;
    let taken = pings(&mut held, || {
        checks += 1;
        if checks == 1 {
            served(&running, own, to);
        }
        let grown = resident().saturating_sub(before[2]);
        assert!(grown < GROWTH, "{grown} bytes more");
    });
    assert!(checks > 0, "only {taken} bytes were taken");

    // Intents and channels.
    let mut stranger = Stranger::connect(own);
    let intents = (0..200).filter(|&question| {
        let answer = stranger.ask(&Message::Intend { question, to });
        matches!(
            answer,
            Message::Intended {
                intent: Some(_),
                ..
            }
        )
    });
    assert_eq!(intents.count(), QUOTA.intents);
    served(&running, own, to);
    let mut stranger = Stranger::connect(own);
    let management = SocketAddrV4::new(stranger.own, 3422);
    // There the daemon looks for the other copies of the channels, and is not answered.
    let _silent = TcpListener::bind(management).expect("nobody else has the address");
    let counted = refused(&running);
    let tokens = (0..200).filter(|port| {
        let from = SocketAddr::from((stranger.own, 10_000 + port));
        stranger.announce(from, to, management).is_some()
    });
    let tokens = tokens.count();
    assert!((1..200).contains(&tokens), "{tokens} channels of 200");
    counts_more_than(&running, counted);
    served(&running, own, to);
    drop(stranger);

    // What was given comes back: another round of all of it leaves nothing behind.
    let mut stranger = Stranger::reach(own, host).expect("it listens");
    let answer = stranger.greet();
    assert!(
        matches!(answer, Ok(Some(Message::Hello { .. }))),
        "{answer:?}"
    );
    let grown = resident().saturating_sub(before[2]);
    assert!(grown < GROWTH, "{grown} bytes more");
    assert_eq!(entries("/proc/self/task"), before[0]);
    let descriptors = entries("/proc/self/fd");
    assert!(
        descriptors <= before[1] + 4 * (QUOTA.sessions + QUOTA.waiting) + 16,
        "{descriptors} descriptors after {}",
        before[1]
    );
}
