// SPDX-License-Identifier: Apache-2.0
//! The thread of connections by itself, with nobody behind it who decides.

use std::net::TcpStream;

use super::*;
use crate::remote::messages;

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Fewer than a connection may owe, so that it is read on.
const QUESTIONS: u64 = 100;

#[test]
fn a_daemon_that_decides_nothing_still_says_that_it_is_there() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener
        .set_nonblocking(true)
        .expect("a listener can be non-blocking");
    let at = listener.local_addr().expect("an address");
    let (inputs, received) = mpsc::channel();
    let setting = Setting {
        listener,
        from: Ipv4Addr::LOCALHOST,
        patience: PATIENCE,
        of_host: 1,
        tls: None,
        refusals: Default::default(),
    };
    let (wire, thread) = start(setting, inputs).expect("the thread starts");

    let mut other = TcpStream::connect(at).expect("it listens");
    other.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let Ok(Input::Accepted(link, ..)) = received.recv_timeout(PATIENCE) else {
        panic!("a connection is told of");
    };
    let heard = link.heard();
    // Nobody takes these.
    for intent in 0..QUESTIONS {
        messages::write(&mut other, &Message::Unintend { intent }).expect("it reads");
    }
    messages::write(&mut other, &Message::Ping).expect("it reads");
    let answer = messages::read(&mut other).expect("it answers");
    assert_eq!(answer, Some(Message::Pong));
    assert!(link.heard() > heard);

    // Neither a ping nor its answer is anything for those who decide.
    messages::write(&mut other, &Message::Pong).expect("it reads");
    messages::write(&mut other, &Message::Unintend { intent: QUESTIONS }).expect("it reads");
    for expected in 0..=QUESTIONS {
        match received.recv_timeout(PATIENCE) {
            Ok(Input::Arrived(id, Message::Unintend { intent }, _)) => {
                assert_eq!((id, intent), (link.id, expected));
            }
            other => panic!("{other:?}"),
        }
    }
    drop(link);
    assert_eq!(messages::read(&mut other).ok().flatten(), None);
    wire.stop();
    thread.join().expect("the thread ends");
}
