// SPDX-License-Identifier: Apache-2.0
//! Who reaches a daemon's management address and is no other daemon.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use daemon::remote::messages::{self, Message, VERSION};
use daemon::{Options, Running};
use ipnuma::client::Client;
use ipnuma::ipc::{Reply, Request};
use ipnuma::{Rights, Token};
use rand::Rng;
use tempfile::TempDir;

/// Longer than anything takes: only so that a test does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A loopback address that most likely nobody uses.
fn address() -> Ipv4Addr {
    let [a, b, c]: [u8; 3] = rand::rng().random();
    Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254))
}

/// A daemon that asks all machines of the loopback network about listeners.
fn start() -> (Running, Ipv4Addr, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    loop {
        let own = address();
        let mut options = Options {
            socket: directory.path().join("ipnuma/daemon.sock"),
            management: Some(SocketAddrV4::new(own, 3422)),
            ..Options::default()
        };
        options.remote.sockets = vec!["127.0.0.0/8".parse().expect("a network")];
        if let Ok(running) = daemon::spawn(options) {
            return (running, own, directory);
        }
    }
}

/// A process that has no daemon, and says that it is one.
struct Stranger {
    stream: TcpStream,
    own: Ipv4Addr,
}

impl Stranger {
    fn connect(to: Ipv4Addr) -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let own = address();
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddrV4::new(own, 0)).expect("all of the network is this machine's");
        connect(&socket, &SocketAddrV4::new(to, 3422)).expect("it listens");
        let stream = TcpStream::from(socket);
        let patience = Some(PATIENCE);
        stream.set_read_timeout(patience).expect("a time limit");
        let mut stranger = Self { stream, own };
        let hello = Message::Hello {
            version: VERSION,
            mac: 0x0200_0000_0666,
            ip: own.into(),
            session: 1,
            epoch: 50,
        };
        let answer = stranger.ask(&hello);
        assert!(matches!(answer, Message::Hello { .. }), "{answer:?}");
        stranger
    }

    fn ask(&mut self, message: &Message) -> Message {
        messages::write(&mut self.stream, message).expect("it reads");
        let answer = messages::read(&mut self.stream).expect("an answer");
        answer.expect("it is there")
    }

    /// Says that a program of its machine is about to connect, and has connected.
    fn announce(&mut self, from: SocketAddr, to: SocketAddr, management: SocketAddrV4) {
        let question = 7;
        let Message::Intended { intent, .. } = self.ask(&Message::Intend { question, to }) else {
            panic!("no answer to the question");
        };
        // Whatever the answer: a stranger says it anyhow.
        let announce = Message::Announce {
            channel: 1,
            intent: intent.unwrap_or(1),
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
        assert!(matches!(answer, Message::Announced { .. }), "{answer:?}");
    }
}

fn connect(running: &Running) -> Client {
    Client::connect(running.socket(), "memcached").expect("the daemon runs")
}

#[test]
fn a_stranger_takes_over_no_connection() {
    let (running, own, _directory) = start();
    let server = connect(&running);
    let port = 11211;
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let public = SocketAddr::from((own, port));
    for address in [local, public] {
        let listen = Request::Listen { address };
        server.done(&listen).expect("it may listen");
    }
    // Where the stranger wants the daemon to connect to.
    let trap = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let SocketAddr::V4(trap) = trap.local_addr().expect("an address") else {
        panic!("it was bound to an IPv4 address");
    };
    for (number, to) in [(1, local), (2, public)] {
        let mut stranger = Stranger::connect(own);
        let theirs = SocketAddr::from((stranger.own, 4000 + number));
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000 + number));
        let same = SocketAddr::from((own, 4000 + number));
        for from in [loopback, same, theirs] {
            stranger.announce(from, to, trap);
            // The program whose connection it is has gone by the kernel, or by its own daemon.
            let resolve = Request::Resolve { from, to };
            let (reply, _) = server.request(&resolve).expect("an answer");
            assert_eq!(reply, Reply::Kernel, "{from} to {to} is the stranger's");
        }
    }
}
