// SPDX-License-Identifier: Apache-2.0
//! A window of another machine whose daemon the test plays: nobody waits for a clock.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use ipc::client::Client;
use ipc::packet;
use ipc::protocol::{self, Reply, Request, notice_page};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    listen, socketpair,
};
use shm::memory;
use trap::Remote;

use super::super::{Link, Soft};
use super::*;

/// Greets one client, and says yes to all it asks for.
fn greet(listener: &OwnedFd) {
    let socket = accept(listener).expect("a client");
    let page = memory::create("page", notice_page::BYTES).expect("memory");
    let kind = SocketType::SEQPACKET;
    let (_notices, theirs) =
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair");
    let mut buffer = vec![0; protocol::MAX_PACKET];
    loop {
        let (length, _) =
            packet::receive(&socket, &mut buffer, RecvFlags::empty()).expect("a request");
        if length == 0 {
            return;
        }
        let (reply, handles) = match protocol::decode(&buffer[..length]).expect("a request") {
            Request::Hello { version, .. } => {
                let reply = Reply::Hello {
                    version,
                    management: None,
                    peers: Vec::new(),
                };
                (reply, vec![page.as_fd(), theirs.as_fd()])
            }
            _ => (Reply::Done, Vec::new()),
        };
        let packet = protocol::encode(&reply).expect("a packet");
        packet::send(&socket, &packet, &handles, SendFlags::empty()).expect("it reads");
    }
}

/// Runs a test with a window and the daemon's side of it.
fn with_window(run: impl FnOnce(&mut RemoteWindow, &Operations)) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("daemon.sock");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
    let listener = listener.expect("a socket");
    let address = SocketAddrUnix::new(&path).expect("a path");
    bind(&listener, &address).expect("a path");
    listen(&listener, 1).expect("a socket");
    std::thread::scope(|scope| {
        scope.spawn(|| greet(&listener));
        let link = Link {
            client: Client::connect(&path, "test").expect("it greets"),
            told: Mutex::default(),
            daemon_gone: AtomicBool::new(false),
        };
        let soft = Soft {
            link: Arc::new(link),
        };
        let (operations, fd) = Operations::create().expect("memory");
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK);
        let range = Range {
            first: 0,
            bytes: 4096,
            rights: Rights::ReadWrite,
        };
        let handles = [fd, event.expect("a counter")];
        let window = RemoteWindow::new(soft.link.lease(1), range, handles);
        run(&mut window.expect("a window"), &operations);
    });
}

/// Answers loads, one after the other, and says how many there were; 8 bytes of 7 are what is there.
fn answer_loads(
    operations: &Operations,
    answers: &[Result<(), Unloaded>],
    over: &AtomicBool,
) -> usize {
    let mut answers: VecDeque<_> = answers.iter().collect();
    let mut asked = 0;
    while !over.load(Ordering::Relaxed) {
        let mut receiver = operations.receiver();
        let Some(message) = receiver.peek() else {
            std::thread::yield_now();
            continue;
        };
        assert_eq!(message.kind(), LOAD);
        let mut number = [0; 8];
        message.copy_to(0, &mut number);
        asked += 1;
        let answer = answers.pop_front().copied().unwrap_or(Ok(()));
        operations.answer(u64::from_le_bytes(number), answer.map(|()| &[7; 8][..]));
        receiver.release();
    }
    asked
}

/// What a load does that gets these answers, and how often it asks.
fn loads<T: Send>(
    answers: &[Result<(), Unloaded>],
    load: impl FnOnce(&RemoteWindow) -> T + Send,
) -> (T, usize) {
    let mut result = None;
    with_window(|window, operations| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let daemon = scope.spawn(|| answer_loads(operations, answers, &over));
            let loaded = load(window);
            over.store(true, Ordering::Relaxed);
            result = Some((loaded, daemon.join().expect("it ends")));
        });
    });
    result.expect("it has run")
}

const LATE: Result<(), Unloaded> = Err(Unloaded::Unanswered);
const REFUSED: Result<(), Unloaded> = Err(Unloaded::Refused);

#[test]
fn a_load_that_a_server_does_not_answer_is_asked_for_again() {
    let mut into = [0; 8];
    let (loaded, asked) = loads(&[LATE; 20], |window| {
        WindowAccess::load(window, 0, &mut into, Deadline::NEVER)
    });
    loaded.expect("it is answered at last");
    assert_eq!((into, asked), ([7; 8], 21));
    let mut into = [0; 8];
    let (loaded, asked) = loads(&[LATE; 20], |window| Remote::load(window, 0, &mut into));
    assert_eq!((loaded, into, asked), (Ok(()), [7; 8], 21));
}

#[test]
fn with_a_limit_it_was_not_in_time() {
    let over = Deadline::after(Some(Duration::ZERO));
    let (loaded, _) = loads(&[LATE; 2], |window| {
        WindowAccess::load(window, 0, &mut [0; 8], over)
    });
    let error = loaded.expect_err("there is no time");
    assert_eq!(error.errno(), libc::ETIMEDOUT, "{error}");
}

#[test]
fn a_refusal_is_none_of_time_and_ends_the_load() {
    let (loaded, asked) = loads(&[LATE, REFUSED], |window| {
        WindowAccess::load(window, 0, &mut [0; 8], Deadline::NEVER)
    });
    assert!(matches!(loaded, Err(Error::Denied { .. })), "{loaded:?}");
    assert_eq!(asked, 2);
    // A peer that is lost meanwhile: the daemon says so, and that nothing comes of the load.
    let (loaded, _) = loads(&[LATE, REFUSED], |window| {
        let asked = window.ask_page(0, &mut [0; 8], Asks::Call, Deadline::NEVER);
        assert_eq!(asked.expect("an answer"), LATE);
        let state = &window.operations.control().state;
        state.store(state::LOST, Ordering::Release);
        WindowAccess::load(window, 0, &mut [0; 8], Deadline::NEVER)
    });
    assert!(matches!(loaded, Err(Error::PeerLost)), "{loaded:?}");
}

/// Stores until one is given up, and says how many were not.
fn fill(mut store: impl FnMut() -> bool) -> usize {
    let most = 10 * ipc::operations::LINES as usize;
    let stored = (0..most).take_while(|_| store()).count();
    assert!(stored < most, "somebody takes them");
    stored
}

#[test]
fn stores_that_the_daemon_does_not_take_are_given_up_and_those_before_are_not() {
    with_window(|window, operations| {
        window.silence = Duration::ZERO;
        let mut at = 0_u64;
        let stored = fill(|| {
            at += 1;
            match WindowAccess::store64(window, 8, at) {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.errno(), libc::ETIMEDOUT);
                    assert!(error.to_string().contains("daemon"), "{error}");
                    false
                }
            }
        });
        assert_eq!(WindowAccess::faults(window), 1, "a flush tells of it");
        let refused = Remote::store(window, 8, &[1; 8]);
        assert_eq!(refused, Err(trap::Refused::Stalled));
        // It asks nobody either, and leaves no page behind.
        let over = Deadline::after(Some(Duration::ZERO));
        for _ in 0..3 * ipc::operations::LOADS {
            let loaded = WindowAccess::load(window, 0, &mut [0; 8], over);
            assert_eq!(loaded.expect_err("full").errno(), libc::ETIMEDOUT);
        }
        let flushed = window.flush(Flush::Delivered, over);
        assert_eq!(flushed.expect_err("full").errno(), libc::ETIMEDOUT);
        // The daemon goes on: all that was stored is there, in its order.
        let mut receiver = operations.receiver();
        for value in 1..=stored as u64 {
            let message = receiver.peek().expect("a store");
            let mut bytes = [0; 16];
            message.copy_to(0, &mut bytes);
            assert_eq!(bytes[8..], value.to_le_bytes());
            receiver.release();
        }
        assert!(receiver.peek().is_none());
        WindowAccess::store(window, 0, &[1; 8]).expect("there is room");
    });
}

#[test]
fn a_daemon_that_takes_something_now_and_then_is_waited_for() {
    with_window(|window, operations| {
        // No daemon is so slow, and the test ends when it has taken all.
        window.silence = Duration::from_secs(3600);
        let over = AtomicBool::new(false);
        let stores = 3 * ipc::operations::LINES as usize;
        let taken = std::thread::scope(|scope| {
            let daemon = scope.spawn(|| {
                let mut taken = 0;
                loop {
                    let ended = over.load(Ordering::Acquire);
                    let mut receiver = operations.receiver();
                    if receiver.peek().is_some() {
                        receiver.release();
                        taken += 1;
                    } else if ended {
                        return taken;
                    }
                    std::thread::yield_now();
                }
            });
            for _ in 0..stores {
                WindowAccess::store(window, 0, &[1; 8]).expect("it is taken");
            }
            over.store(true, Ordering::Release);
            daemon.join().expect("it ends")
        });
        assert_eq!(taken, stores);
    });
}
