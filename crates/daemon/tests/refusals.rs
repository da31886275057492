// SPDX-License-Identifier: Apache-2.0
//! What a daemon that is believed must not say: each time it is counted, and the log has a sentence about it, but no flood. The log is
//! this process's, so there is one test.

mod stranger;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Instant;

use daemon::keys::{Key, Known};
use daemon::remote::messages::{self, Message, Start, VERSION};
use ipc::protocol::Request;
use ipc::{Rights, Token};
use stranger::{PATIENCE, Stranger, connect, refused, start_with};

fn token(management: Ipv4Addr, secret: u8) -> Token {
    Token {
        rights: Rights::Write,
        management: SocketAddrV4::new(management, 3422),
        region: 3,
        first: 0,
        bytes: 64,
        secret: [secret; 16],
    }
}

fn hello(version: u16, own: Ipv4Addr) -> Message {
    Message::Hello {
        version,
        mac: 0x0200_0000_0666,
        ip: own.into(),
        session: 1,
        start: Start {
            epoch: 50,
            sequence: 1,
        },
    }
}

/// With a session, it says this and hears all that it is answered, until an answer to it comes or the connection ends.
fn says(to: Ipv4Addr, bytes: &[u8]) {
    let mut stranger = Stranger::connect(to);
    stranger.stream.write_all(bytes).expect("it reads");
    while let Ok(Some(Message::Hello { .. } | Message::Pong)) = messages::read(&mut stranger.stream)
    {
    }
}

fn packet(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages::write(&mut bytes, message).expect("a Vec has room");
    bytes
}

/// What somebody says: the words of the log, and how.
type Case = (&'static str, Box<dyn Fn(Ipv4Addr)>);

fn cases() -> Vec<Case> {
    let message = |words, message: Message| -> Case {
        (words, Box::new(move |to| says(to, &packet(&message))))
    };
    let raw =
        |words, bytes: &'static [u8]| -> Case { (words, Box::new(move |to| says(to, bytes))) };
    let theirs = Ipv4Addr::new(127, 9, 9, 9);
    let ends = |port| SocketAddr::from((theirs, port));
    let keys = Message::Keys {
        receives: 7,
        sends: 7,
    };
    let announce = Message::Announce {
        channel: 1,
        intent: Some(99),
        from: ends(4000),
        to: ends(80),
        token: token(theirs, 1),
    };
    let open = Message::Open {
        window: 1,
        token: token(theirs, 1),
    };
    vec![
        message("has shown a token and was refused", open.clone()),
        message("an intent that it has not asked for", announce),
        message("has said Keys where that makes no sense", keys),
        message(
            "has said Hello where that makes no sense",
            hello(VERSION, theirs),
        ),
        message(
            "has said Unwelcome where that makes no sense",
            Message::Unwelcome {
                message: "\u{1b}[2J".to_owned(),
                again: true,
            },
        ),
        raw("has said what is no message", &[255, 255, 255, 255]),
        raw(
            "has said what is no message",
            &[9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        ),
        (
            "is of another release",
            Box::new(|to| {
                let mut stranger = Stranger::reach(to, stranger::address()).expect("it listens");
                let own = stranger.own;
                let answer = stranger.ask(&hello(VERSION + 1, own));
                assert!(matches!(answer, Message::Unwelcome { .. }), "{answer:?}");
            }),
        ),
        (
            "has said Open where that makes no sense",
            Box::new(move |to| {
                let mut stranger = Stranger::reach(to, stranger::address()).expect("it listens");
                messages::write(&mut stranger.stream, &open).expect("it reads");
                assert!(!matches!(messages::read(&mut stranger.stream), Ok(Some(_))));
            }),
        ),
    ]
}

/// From now on what the daemon logs is in this file.
fn log_to(path: &Path) {
    let file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(path);
    let file = file.expect("a file");
    // What goes wrong is still shown.
    std::panic::set_hook(Box::new(|info| println!("{info}")));
    rustix::stdio::dup2_stderr(&file).expect("a descriptor");
}

/// One whose key is known, and who has as many connections as it may: the log does not say that it is not known.
fn too_many(logged: &dyn Fn() -> String) {
    let machine = |sessions: usize| {
        let [key, known] = ["key", "known_peers"].map(|name| move |at: &Path| at.join(name));
        let (running, own, directory) = start_with(|options| {
            let directory = options.socket.ancestors().nth(2).expect("it has");
            if !key(directory).exists() {
                Key::make(&key(directory)).expect("a key");
            }
            options.remote.key = Some(key(directory));
            options.remote.known_peers = Some(known(directory));
            options.remote.insecure = false;
            options.remote.guests.sessions = sessions;
        });
        let own_key = Key::load(&key(directory.path())).expect("it is right");
        let print = own_key.expect("it is there").fingerprint();
        (running, own, known(directory.path()), print, directory)
    };
    let (here, there) = (machine(0), machine(0));
    for (at, other) in [(&here, &there), (&there, &here)] {
        Known::trust(&at.2, "127.0.0.0/8", other.3, "").expect("it can be written");
    }
    let token = token(there.1, 1);
    let begun = Instant::now();
    while !logged().contains("has 0 connections to this daemon and was refused another") {
        assert!(begun.elapsed() < PATIENCE, "not logged: {}", logged());
        let refused = connect(&here.0).request(&Request::Connect { token });
        assert!(refused.is_err(), "{refused:?}");
    }
    assert!(!logged().contains("is no known daemon"), "{}", logged());
}

#[test]
fn what_must_not_be_said_is_counted_and_logged_and_a_flood_of_it_floods_no_log() {
    let (running, own, directory) = start_with(|options| {
        options.remote.guests.sessions = 1000;
    });
    let log = directory.path().join("log");
    log_to(&log);
    let logged = || std::fs::read_to_string(&log).expect("it is there");
    let server = connect(&running);
    let address = SocketAddr::from((own, 80));
    let listen = Request::Listen { address };
    server.done(&listen).expect("it may listen");
    for (words, say) in cases() {
        let before = refused(&running);
        (0..3).for_each(|_| say(own));
        let begun = Instant::now();
        while refused(&running) < before + 3 {
            assert!(begun.elapsed() < PATIENCE, "not counted: {words}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // A sentence a second, so it may be another's turn.
        std::fs::write(&log, "").expect("it can be written");
        while !logged().contains(words) {
            assert!(
                begun.elapsed() < PATIENCE,
                "not logged: {words}: {}",
                logged()
            );
            say(own);
        }
    }
    assert!(!logged().contains('\u{1b}'), "{}", logged());
    // Very often.
    std::fs::write(&log, "").expect("it can be written");
    let mut stranger = Stranger::connect(own);
    let (before, begun) = (refused(&running), Instant::now());
    for window in 0..3000 {
        let token = token(own, window as u8);
        let answer = stranger.ask(&Message::Open { window, token });
        assert!(matches!(answer, Message::Denied { .. }), "{answer:?}");
    }
    while refused(&running) < before + 3000 {
        assert!(begun.elapsed() < PATIENCE, "not all are counted");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (lines, seconds) = (logged().lines().count(), begun.elapsed().as_secs());
    assert!(lines as u64 <= seconds + 2, "{lines} lines in {seconds} s");
    std::fs::write(&log, "").expect("it can be written");
    too_many(&logged);
}
