// SPDX-License-Identifier: Apache-2.0
//! How long a program waits for its daemon.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use ipc::client::{Greeted, Greeting, is_silence};
use ipc::packet;
use ipc::protocol::{self, MAX_PACKET, Reply, Request, notice_page};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// How long an answer may take here.
const PATIENCE: Duration = Duration::from_secs(1);

/// A daemon that does as it is told.
struct Daemon {
    socket: OwnedFd,
}

impl Daemon {
    fn new(path: &Path) -> Self {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("a socket");
        let address = SocketAddrUnix::new(path).expect("an address");
        rustix::net::bind(&socket, &address).expect("the address is free");
        rustix::net::listen(&socket, 8).expect("a socket can listen");
        Self { socket }
    }

    /// The next process.
    fn accept(&self) -> OwnedFd {
        rustix::net::accept(&self.socket).expect("somebody connects")
    }

    /// Its next request.
    fn hear(process: &OwnedFd) -> Request {
        let mut buffer = vec![0; MAX_PACKET];
        let (length, _) = packet::receive(process, &mut buffer, RecvFlags::empty()).expect("one");
        protocol::decode(&buffer[..length]).expect("a request")
    }

    fn say(process: &OwnedFd, reply: &Reply, fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let packet = protocol::encode(reply).expect("a reply");
        packet::send(process, &packet, &fds, SendFlags::empty()).expect("it listens");
    }

    /// Answers a process's greeting.
    fn greet(process: &OwnedFd) {
        assert!(matches!(Self::hear(process), Request::Hello { .. }));
        let page = shm::memory::create("page", notice_page::BYTES).expect("memory");
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (notices, _) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)
            .expect("a pair of sockets");
        let hello = Reply::Hello {
            version: protocol::VERSION,
            management: None,
            peers: Vec::new(),
        };
        Self::say(process, &hello, &[&page, &notices]);
    }
}

fn how() -> Greeted {
    Greeted {
        patience: PATIENCE,
        asks_on: true,
        ..Greeted::default()
    }
}

/// A question that may have to wait for another machine.
fn announcement() -> Request {
    let any = "10.0.0.1:1".parse().expect("an address");
    Request::Announce {
        intent: 1,
        from: any,
        to: any,
    }
}

#[test]
fn a_daemon_that_says_nothing_is_given_up_and_nobody_waits_for_its_greeting() {
    let directory = Directory::new("given_up");
    let daemon = Daemon::new(&directory.socket());
    let greeting = Greeting::send(&directory.socket(), "test", how()).expect("it listens");
    assert!(!greeting.is_answered());
    let process = daemon.accept();
    Daemon::greet(&process);
    assert!(greeting.is_answered());
    let client = greeting.finish().expect("it has answered");
    assert!(!client.is_silent());
    let lost = client.request(&Request::Living).map(drop);
    assert!(is_silence(&lost) && client.is_silent() && client.is_lost());
    // What comes now would be the answer to another question.
    let asked = client.request(&Request::Living).map(drop);
    assert!(asked.is_err() && !is_silence(&asked), "{asked:?}");
}

#[test]
fn a_daemon_that_waits_for_another_machine_gets_its_time_while_it_answers_others() {
    let directory = Directory::new("waits");
    let daemon = Daemon::new(&directory.socket());
    let (there, path) = (PATIENCE * 3, directory.socket());
    let thread = std::thread::spawn(move || {
        let process = daemon.accept();
        Daemon::greet(&process);
        assert!(matches!(Daemon::hear(&process), Request::Announce { .. }));
        let asked = Instant::now();
        let mut others = 1;
        let last = loop {
            let other = daemon.accept();
            if asked.elapsed() >= there {
                break other;
            }
            Daemon::greet(&other);
            others += 1;
        };
        // Before it is believed to be there for the last time.
        Daemon::say(&process, &Reply::Kernel, &[]);
        Daemon::greet(&last);
        // And then it stands still.
        let _ = Daemon::hear(&process);
        (process, daemon, others)
    });
    let greeting = Greeting::send(&path, "test", how()).expect("it listens");
    let client = greeting.finish().expect("it answers");
    let answer = client.request(&announcement()).map(|(reply, _)| reply);
    assert!(matches!(answer, Ok(Reply::Kernel)), "{answer:?}");
    let silent = client.request(&announcement()).map(drop);
    assert!(is_silence(&silent) && client.is_silent());
    let (_process, _daemon, others) = thread.join().expect("the daemon ends");
    assert!(
        others > 1,
        "it was asked {others} times whether it is there"
    );
}

/// A directory of a test's own.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("silence-of-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn socket(&self) -> std::path::PathBuf {
        self.0.join("daemon.sock")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
