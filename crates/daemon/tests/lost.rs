// SPDX-License-Identifier: Apache-2.0
//! Connections to a machine whose daemon answers as it likes, and whose link ends: nothing of them stays.

mod stranger;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use daemon::Running;
use daemon::remote::messages::{self, Message};
use ipc::client::Client;
use ipc::protocol::{Reply, Request};
use ipc::{Rights, Token};
use stranger::{PATIENCE, Stranger, address, connect, start_with};

/// What a daemon says to an announcement.
#[derive(Clone, Copy, Debug)]
enum Says {
    /// Nothing.
    Nothing,
    /// An answer to another question with the same number, and then the right one.
    Twice,
    /// A token for memory of another size.
    Small,
    /// What an honest one says.
    Token,
    /// The same, too late for the program.
    Late,
    /// That the connection is the kernel's.
    Kernel,
}

/// A machine with a daemon at a loopback address.
fn machine() -> (Ipv4Addr, TcpListener) {
    loop {
        let own = address();
        if let Ok(listener) = TcpListener::bind((own, 3422)) {
            return (own, listener);
        }
    }
}

/// Answers the daemon that connects, until it has been told of one connection and, unless it is `quick`, `go` says so; then its
/// link ends.
fn serve(listener: &TcpListener, own: Ipv4Addr, says: Says, go: Option<&mpsc::Receiver<()>>) {
    let (mut stream, _) = listener.accept().expect("it connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let memory = shm::channel::bytes(shm::channel::STREAM_LINES);
    let inbox = shm::channel::inbox_of(1, memory).expect("it is one's size");
    while let Ok(Some(message)) = messages::read(&mut stream) {
        let mut answers = Vec::new();
        let mut last = false;
        match message {
            Message::Hello { start, version, .. } => answers.push(Message::Hello {
                version,
                mac: 0x0200_0000_0666,
                ip: own.into(),
                session: 1,
                start,
            }),
            Message::Ping => answers.push(Message::Pong),
            Message::Intend { question, .. } => {
                let intent = Some(5);
                answers.push(Message::Intended { question, intent });
            }
            Message::Announce { channel, .. } => {
                let token = |bytes| {
                    let token = Token {
                        rights: Rights::Write,
                        management: SocketAddrV4::new(own, 3422),
                        region: 9,
                        first: inbox.start as u64,
                        bytes,
                        secret: [6; 16],
                    };
                    let token = Some(token);
                    Message::Announced { channel, token }
                };
                let whole = inbox.len() as u64;
                match says {
                    Says::Nothing => {}
                    Says::Twice => answers.extend([
                        Message::Intended {
                            question: channel,
                            intent: Some(7),
                        },
                        token(whole),
                    ]),
                    Says::Small => answers.push(token(64)),
                    Says::Token | Says::Late => answers.push(token(whole)),
                    Says::Kernel => answers.push(Message::Announced {
                        channel,
                        token: None,
                    }),
                }
                last = true;
            }
            _ => {}
        }
        if let (true, Says::Late, Some(go)) = (last, says, go) {
            go.recv_timeout(PATIENCE).expect("it is said");
        }
        for answer in answers {
            // It may have closed the connection: not all of this makes sense.
            let _ = messages::write(&mut stream, &answer);
        }
        if last {
            if let Some(go) = go {
                go.recv_timeout(PATIENCE).expect("it is said");
            }
            return;
        }
    }
}

/// When the kernel will ask whether the other end of a daemon's connection is there, as /proc/net/tcp has it; none while it waits
/// for something else.
fn asked_in(own: Ipv4Addr, theirs: SocketAddrV4) -> Option<Duration> {
    let hex = |address: SocketAddrV4| {
        let ip = u32::from_ne_bytes(address.ip().octets());
        format!("{ip:08X}:{:04X}", address.port())
    };
    let ends = [hex(SocketAddrV4::new(own, 3422)), hex(theirs)];
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("the kernel's table");
    let row = table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        (words.get(1..3)? == ends).then(|| words[5].to_owned())
    });
    let row = row.expect("it is connected");
    // The kind of timer, 2 for keepalive, and when it goes off in hundredths of a second.
    let when = row.strip_prefix("02:")?;
    let hundredths = u64::from_str_radix(when, 16).expect("a number");
    Some(Duration::from_millis(10 * hundredths))
}

/// A machine that loses its power says no more: its places are to be free long before the kernel's own two hours.
#[test]
fn a_machine_that_says_nothing_is_asked_whether_it_is_there() {
    let (_running, own, _directory) = start_with(|_| ());
    let stranger = Stranger::connect(own);
    let Ok(SocketAddr::V4(theirs)) = stranger.stream.local_addr() else {
        panic!("an IPv4 address");
    };
    let begun = Instant::now();
    loop {
        if let Some(when) = asked_in(own, theirs) {
            assert!(when <= Duration::from_secs(10), "{when:?}");
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody asks");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What is listed of a daemon's connections.
fn listed(running: &Running) -> usize {
    match connect(running).request(&Request::Sockets { after: 0 }) {
        Ok((Reply::Sockets { sockets, .. }, _)) => sockets.len(),
        other => panic!("no list but {other:?}"),
    }
}

/// A program connects to another machine, and is gone; so is the other machine's link, before or after that.
fn connection(says: Says, quick: bool) {
    let (running, own, _directory) = start_with(|_| ());
    let (theirs, listener) = machine();
    let (say, go) = mpsc::channel();
    std::thread::scope(|scope| {
        let go = (!quick).then_some(go);
        let listener = &listener;
        scope.spawn(move || serve(listener, theirs, says, go.as_ref()));
        // Where no answer comes it does not wait for long, and takes its daemon for gone; that of a daemon which waits for nobody
        // comes at once, on a busy machine some time later.
        let limit = Duration::from_secs(if quick { 10 } else { 3 });
        let client =
            Client::connect_within(running.socket(), "test", limit).expect("the daemon runs");
        let to = SocketAddr::from((theirs, 80));
        let intend = Request::Intend { to, asked: true };
        let Ok((Reply::Intent { intent }, _)) = client.request(&intend) else {
            panic!("no intent");
        };
        let from = SocketAddr::from((own, 40_000));
        let announce = Request::Announce { intent, from, to };
        let begun = Instant::now();
        let answer = client.request(&announce);
        // Its end of the link says all that there is to say.
        assert!(!quick || answer.is_ok(), "{says:?}: {answer:?}");
        println!("{says:?}: {:?} after {:?}", answer, begun.elapsed());
        drop((answer, client));
        if !quick {
            // An answer that is late, and the link's end.
            for _ in 0..1 + usize::from(matches!(says, Says::Late)) {
                say.send(()).expect("it waits");
            }
        }
    });
    let begun = Instant::now();
    while listed(&running) > 0 {
        let what = format!("{says:?}, the link ended first: {quick}");
        assert!(begun.elapsed() < PATIENCE, "{what}: a channel stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_stays_of_a_connection_whose_machine_is_lost() {
    for says in [
        Says::Nothing,
        Says::Twice,
        Says::Small,
        Says::Token,
        Says::Kernel,
    ] {
        connection(says, true);
        connection(says, false);
    }
    connection(Says::Late, false);
}
