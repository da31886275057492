// SPDX-License-Identifier: Apache-2.0
//! A daemon at a loopback address, and a process that has none and says that it is one.
#![allow(dead_code)]

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use daemon::remote::messages::{self, Message, Start, VERSION};
use daemon::{Options, Running};
use ipc::client::Client;
use ipc::protocol::{Reply, Request};
use ipc::{Rights, Token};
use rand::RngExt;
use tempfile::TempDir;

/// Longer than anything takes: only so that a test does not hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A loopback address that most likely nobody uses.
pub fn address() -> Ipv4Addr {
    let [a, b, c]: [u8; 3] = rand::rng().random();
    Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254))
}

/// A daemon that asks all machines of the loopback network about listeners.
pub fn start() -> (Running, Ipv4Addr, TempDir) {
    start_with(|_| ())
}

/// The same, with other options.
pub fn start_with(change: impl Fn(&mut Options)) -> (Running, Ipv4Addr, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    loop {
        let own = address();
        let mut options = Options {
            socket: directory.path().join("ipnuma/daemon.sock"),
            management: Some(SocketAddrV4::new(own, 3422)),
            ..Options::default()
        };
        options.remote.sockets = vec!["127.0.0.0/8".parse().expect("a network")];
        options.remote.software_sockets = true;
        options.remote.insecure = true;
        change(&mut options);
        if let Ok(running) = daemon::spawn(options) {
            return (running, own, directory);
        }
    }
}

/// How many of other machines' connections the daemon has refused.
pub fn refused(running: &Running) -> u64 {
    match connect(running).request(&Request::Sockets { after: 0 }) {
        Ok((Reply::Sockets { totals, .. }, _)) => totals.refused,
        other => panic!("no list but {other:?}"),
    }
}

/// Waits until it has counted more refusals: it tells of many at once, and who is refused knows it before.
#[track_caller]
pub fn counts_more_than(running: &Running, before: u64) {
    let begun = Instant::now();
    while refused(running) <= before {
        assert!(begun.elapsed() < PATIENCE, "nothing was counted");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that has no daemon, and says that it is one.
pub struct Stranger {
    pub stream: TcpStream,
    pub own: Ipv4Addr,
}

impl Stranger {
    /// With a session.
    pub fn connect(to: Ipv4Addr) -> Self {
        let mut stranger = Self::reach(to, address()).expect("it listens");
        let answer = stranger.greet();
        assert!(
            matches!(answer, Ok(Some(Message::Hello { .. }))),
            "{answer:?}"
        );
        stranger
    }

    /// Only a connection, from an address.
    pub fn reach(to: Ipv4Addr, own: Ipv4Addr) -> std::io::Result<Self> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddrV4::new(own, 0))?;
        connect(&socket, &SocketAddrV4::new(to, 3422))?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, own })
    }

    /// Says that it is a daemon; what it is answered.
    pub fn greet(&mut self) -> std::io::Result<Option<Message>> {
        self.greet_at(self.own)
    }

    /// The same, with its NIC at an address.
    pub fn greet_at(&mut self, nic: Ipv4Addr) -> std::io::Result<Option<Message>> {
        let hello = Message::Hello {
            version: VERSION,
            mac: 0x0200_0000_0666,
            ip: nic.into(),
            session: 1,
            start: Start {
                epoch: 50,
                sequence: 1 << 31,
            },
        };
        messages::write(&mut self.stream, &hello)?;
        messages::read(&mut self.stream)
    }

    pub fn ask(&mut self, message: &Message) -> Message {
        messages::write(&mut self.stream, message).expect("it reads");
        let answer = messages::read(&mut self.stream).expect("an answer");
        answer.expect("it is there")
    }

    /// Says that a program of its machine is about to connect, and has connected.
    pub fn announce(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        management: SocketAddrV4,
    ) -> Option<Token> {
        let question = 7;
        let Message::Intended { intent, .. } = self.ask(&Message::Intend { question, to }) else {
            panic!("no answer to the question");
        };
        // Whatever the answer: a stranger says it anyhow.
        let announce = Message::Announce {
            channel: 1,
            intent: intent.or(Some(1)),
            from,
            to,
            token: Token {
                rights: Rights::Write,
                management,
                region: 1,
                first: 0,
                bytes: 4096,
                secret: [6; 16],
            },
        };
        let answer = self.ask(&announce);
        match answer {
            Message::Announced { token, .. } => token,
            other => panic!("{other:?}"),
        }
    }
}

/// A process of the daemon's machine.
pub fn connect(running: &Running) -> Client {
    Client::connect(running.socket(), "memcached").expect("the daemon runs")
}
