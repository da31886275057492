// SPDX-License-Identifier: Apache-2.0
//! Notices that come before what they are about: a daemon that this test plays answers later than it tells.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use host::{Config, Device, Error, Rights, Token};
use ipc::packet;
use ipc::protocol::{self, Notice, Reply, Request, notice_page, signal_page};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    listen, socketpair,
};
use shm::memory::{self, Access, Mapping};

/// Longer than anything takes: only so that a test does not hang.
const LIMIT: Duration = Duration::from_secs(60);

fn token(region: u64) -> Token {
    Token {
        rights: Rights::ReadWrite,
        management: "0.0.0.0:0".parse().expect("an address"),
        region,
        first: 0,
        bytes: 64,
        secret: [1; 16],
    }
}

/// A daemon with one client. Before it gives out the second window it says that both are revoked, and waits for a word.
fn play(listener: &OwnedFd, told: &mpsc::Sender<()>, go_on: &mpsc::Receiver<()>) {
    let socket = accept(listener).expect("a client");
    let page = memory::create("page", notice_page::BYTES).expect("memory");
    let shown = Mapping::whole(&page, Access::ReadWrite).expect("memory");
    let (notices, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a pair");
    let mut windows = 0;
    let mut buffer = vec![0; protocol::MAX_PACKET];
    loop {
        let (length, _) =
            packet::receive(&socket, &mut buffer, RecvFlags::empty()).expect("a request");
        if length == 0 {
            return;
        }
        let fresh = |bytes| memory::create("test", bytes).expect("memory");
        let (reply, handles) = match protocol::decode(&buffer[..length]).expect("a request") {
            Request::Hello { version, .. } => {
                let reply = Reply::Hello {
                    version,
                    management: None,
                    peers: Vec::new(),
                };
                let copy = |fd: &OwnedFd| fd.try_clone().expect("a descriptor");
                (reply, vec![copy(&page), copy(&theirs)])
            }
            Request::Connect { token } => {
                windows += 1;
                if windows == 2 {
                    for window in [2, 1] {
                        let notice = Notice::Revoked {
                            channel: None,
                            window: Some(window),
                            region: None,
                        };
                        let packet = protocol::encode(&notice).expect("a packet");
                        packet::send(&notices, &packet, &[], SendFlags::empty()).expect("room");
                        // SAFETY: in the page, and aligned.
                        let count = unsafe {
                            AtomicU64::from_ptr(shown.as_ptr().add(notice_page::NOTICES).cast())
                        };
                        count.fetch_add(1, Ordering::Release);
                    }
                    told.send(()).expect("the test runs");
                    go_on.recv().expect("the test runs");
                }
                let reply = Reply::Window {
                    window: windows,
                    first: token.first,
                    bytes: token.bytes,
                    rights: token.rights,
                    remote: false,
                };
                let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
                let handles = vec![
                    fresh(memory::PAGE),
                    event.expect("a counter"),
                    fresh(signal_page::BYTES),
                ];
                (reply, handles)
            }
            _ => (Reply::Done, Vec::new()),
        };
        let packet = protocol::encode(&reply).expect("a packet");
        let handles: Vec<_> = handles.iter().map(AsFd::as_fd).collect();
        packet::send(&socket, &packet, &handles, SendFlags::empty()).expect("it reads");
    }
}

#[test]
fn a_revocation_that_another_thread_reads_before_the_window_is_known_is_not_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("daemon.sock");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
    let listener = listener.expect("a socket");
    bind(&listener, &SocketAddrUnix::new(&path).expect("a path")).expect("a place");
    listen(&listener, 1).expect("it listens");
    let (told, is_told) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || play(&listener, &told, &may_go_on));
        let config = Config {
            daemon: path.clone(),
            ..Config::default()
        };
        let device = Device::open(&config).expect("a daemon");
        let first = device.connect(&token(1)).expect("a window");
        first.check(first.epoch()).expect("nothing was said");
        let another = device.clone();
        let second = scope.spawn(move || another.connect(&token(2)));
        is_told.recv().expect("it asks");
        // This thread takes both notices; the one about its own window is the last.
        let begun = Instant::now();
        while first.check(first.epoch()).is_ok() {
            assert!(begun.elapsed() < LIMIT, "the notices do not come");
            std::thread::yield_now();
        }
        go_on.send(()).expect("the daemon waits");
        let second = second.join().expect("a thread").expect("a window");
        let why = second.check(second.epoch());
        assert!(matches!(why, Err(Error::Revoked)), "{why:?}");
        drop((first, second, device));
    });
}
