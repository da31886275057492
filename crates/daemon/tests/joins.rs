// SPDX-License-Identifier: Apache-2.0
//! Two daemons have one session for both directions of windows: the second connection joins that of the first, if it shows
//! that it may.

mod stranger;

use std::net::{SocketAddrV4, TcpListener, TcpStream};

use daemon::remote::messages::{self, Message, Start, VERSION};
use ipc::protocol::Request;
use ipc::{Rights, Token};
use stranger::{PATIENCE, Stranger, address, connect, start};

/// A machine whose daemon the test plays, at an address where it listens.
fn machine() -> TcpListener {
    loop {
        if let Ok(listener) = TcpListener::bind((address(), 3422)) {
            return listener;
        }
    }
}

fn management(listener: &TcpListener) -> SocketAddrV4 {
    match listener.local_addr() {
        Ok(std::net::SocketAddr::V4(address)) => address,
        other => panic!("{other:?}"),
    }
}

/// A token for memory there.
fn token(management: SocketAddrV4) -> Token {
    Token {
        rights: Rights::Write,
        management,
        region: 1,
        first: 0,
        bytes: 64,
        secret: [1; 16],
    }
}

/// What comes next but for pings, which are answered.
fn next(stream: &mut TcpStream) -> Option<Message> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    loop {
        match messages::read(stream) {
            Ok(Some(Message::Ping)) => say(stream, &Message::Pong),
            // A reset is an end, too.
            message => return message.ok().flatten(),
        }
    }
}

fn say(stream: &mut TcpStream, message: &Message) {
    // It may have closed the connection.
    let _ = messages::write(stream, message);
}

#[test]
fn the_second_connection_joins_the_session_of_the_first() {
    for joined in [true, false] {
        let (running, own, _directory) = start();
        let listener = machine();
        let there = management(&listener);
        // Their connection, by which processes there write here.
        let mut first = Stranger::reach(own, *there.ip()).expect("it listens");
        let Ok(Some(Message::Hello { session, .. })) = first.greet() else {
            panic!("it is no daemon to it");
        };
        let client = connect(&running);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                client.request(&Request::Connect {
                    token: token(there),
                })
            });
            let (mut second, _) = listener.accept().expect("it connects");
            let join = Message::Join {
                version: VERSION,
                session,
                theirs: 1,
                proof: [0; 32],
            };
            assert_eq!(next(&mut second), Some(join));
            if joined {
                say(&mut second, &Message::Joined);
            } else {
                let message = "there is no such session".to_owned();
                say(
                    &mut second,
                    &Message::Unwelcome {
                        message,
                        again: true,
                    },
                );
                let Some(Message::Hello {
                    session: new,
                    start,
                    ..
                }) = next(&mut second)
                else {
                    panic!("it makes no session of its own");
                };
                assert_ne!(new, session, "its own is another one");
                let hello = Message::Hello {
                    version: VERSION,
                    mac: 0x0200_0000_0666,
                    ip: (*there.ip()).into(),
                    session: 2,
                    start,
                };
                say(&mut second, &hello);
            }
            let Some(Message::Open { window, .. }) = next(&mut second) else {
                panic!("it asks for no window");
            };
            drop(first);
            if joined {
                // The session was that connection's.
                assert_eq!(next(&mut second), None);
            } else {
                let denied = Message::Denied {
                    window,
                    errno: 2,
                    message: "no".to_owned(),
                };
                say(&mut second, &denied);
                drop(second);
            }
            asking
                .join()
                .expect("it ends")
                .expect_err("nobody grants it");
        });
    }
}

#[test]
fn who_does_not_have_the_session_cannot_join_it() {
    let (running, own, _directory) = start();
    let listener = machine();
    let there = management(&listener);
    let client = connect(&running);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            client.request(&Request::Connect {
                token: token(there),
            })
        });
        // This daemon's connection, with a session.
        let (mut first, _) = listener.accept().expect("it connects");
        let Some(Message::Hello { session, start, .. }) = next(&mut first) else {
            panic!("it makes no session");
        };
        let hello = Message::Hello {
            version: VERSION,
            mac: 0x0200_0000_0666,
            ip: (*there.ip()).into(),
            session: 7,
            start,
        };
        say(&mut first, &hello);
        assert!(matches!(next(&mut first), Some(Message::Open { .. })));
        let from = |address| {
            let stranger = Stranger::reach(own, address).expect("it listens");
            stranger.stream
        };
        let join = |session, theirs, proof, version| Message::Join {
            version,
            session,
            theirs,
            proof,
        };
        let right = join(7, session, [0; 32], VERSION);
        for (from_there, wrong) in [
            (true, join(8, session, [0; 32], VERSION)),
            (true, join(7, session ^ 1, [0; 32], VERSION)),
            (true, join(7, session, [1; 32], VERSION)),
            (false, right.clone()),
        ] {
            let mut stream = from(if from_there { *there.ip() } else { address() });
            say(&mut stream, &wrong);
            let answer = next(&mut stream);
            let again = matches!(answer, Some(Message::Unwelcome { again: true, .. }));
            assert!(again, "{wrong:?}: {answer:?}");
        }
        let mut old = from(*there.ip());
        say(&mut old, &join(7, session, [0; 32], VERSION - 1));
        let answer = next(&mut old);
        assert!(
            matches!(answer, Some(Message::Unwelcome { again: false, .. })),
            "{answer:?}"
        );
        // Who has it may, once in a connection.
        let mut second = from(*there.ip());
        say(&mut second, &right);
        assert_eq!(next(&mut second), Some(Message::Joined));
        let mut twice = from(*there.ip());
        say(&mut twice, &right);
        assert_eq!(next(&mut twice), Some(Message::Joined));
        say(&mut twice, &right);
        assert_eq!(next(&mut twice), None, "it was said before");
        // A connection that has joined does not take the session along.
        let intend = Message::Intend {
            question: 3,
            to: ([127, 0, 0, 1], 9).into(),
        };
        say(&mut second, &intend);
        let answer = next(&mut second);
        assert!(
            matches!(answer, Some(Message::Intended { question: 3, .. })),
            "{answer:?}"
        );
        drop(first);
        assert_eq!(next(&mut second), None, "the session has ended");
        asking
            .join()
            .expect("it ends")
            .expect_err("nobody grants it");
        // It is as if nothing had been.
        let mut last = from(*there.ip());
        say(&mut last, &right);
        let answer = next(&mut last);
        assert!(
            matches!(answer, Some(Message::Unwelcome { again: true, .. })),
            "{answer:?}"
        );
        let hello = Message::Hello {
            version: VERSION,
            mac: 0x0200_0000_0666,
            ip: (*there.ip()).into(),
            session: 1,
            start: Start {
                epoch: 50,
                sequence: 1 << 31,
            },
        };
        say(&mut last, &hello);
        let answer = next(&mut last);
        assert!(matches!(answer, Some(Message::Hello { .. })), "{answer:?}");
    });
}
