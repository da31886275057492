// SPDX-License-Identifier: Apache-2.0
//! What others try who may reach a daemon, its files or its descriptors: another user, a reader, who reaches its management
//! address and is no other daemon.

mod stranger;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use daemon::Options;
use daemon::remote::messages::{self, Message};
use ipc::Rights;
use ipc::protocol::{Reply, Request};
use stranger::{Stranger, connect, counts_more_than, start};

/// Another user's name for the place that a daemon takes without XDG_RUNTIME_DIR.
#[test]
fn a_directory_that_somebody_else_has_taken_is_not_used() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let directory = tempfile::tempdir().expect("a directory");
    let theirs = directory.path().join("theirs");
    std::fs::create_dir(&theirs).expect("a directory");
    let link = directory.path().join("ipnuma-link");
    symlink(&theirs, &link).expect("a link");
    let dangling = directory.path().join("ipnuma-dangling");
    symlink(directory.path().join("nothing"), &dangling).expect("a link");
    let mut places = vec![
        (link, "is a symbolic link"),
        (dangling, "is a symbolic link"),
    ];
    let squatted = directory.path().join("ipnuma-1000");
    std::fs::create_dir(&squatted).expect("a directory");
    match chown(&squatted, Some(12345), Some(12345)) {
        Ok(()) => places.push((squatted, "belongs to user 12345")),
        Err(error) => skip::skipped("the directory of another user", &error),
    }
    for (place, words) in places {
        let options = Options {
            socket: place.join("daemon.sock"),
            ..Options::default()
        };
        let error = daemon::spawn(options).expect_err("the place is somebody else's");
        let error = error.to_string();
        assert!(error.contains(words), "{error}");
        assert!(
            std::fs::read_dir(&theirs)
                .expect("it is there")
                .next()
                .is_none()
        );
        let error = ipc::client::check_directory(&place).expect_err("so is it for a client");
        assert!(error.contains(words), "{error}");
    }
    // One that is the user's own is closed to others.
    let own = directory.path().join("ipnuma-own");
    std::fs::create_dir(&own).expect("a directory");
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    ipc::client::check_directory(&own).expect_err("others may use it");
    let options = Options {
        socket: own.join("daemon.sock"),
        ..Options::default()
    };
    let running = daemon::spawn(options).expect("it starts");
    ipc::client::check_directory(&own).expect("it is closed now");
    running.stop().expect("it ends well");
}

/// All that a reader has, opened anew for writing.
#[test]
fn a_token_for_reading_lets_nobody_write() {
    use rustix::fs::{Mode, OFlags};
    use shm::memory::{Access, Mapping};
    use std::os::fd::AsRawFd;
    let (running, _, _directory) = start();
    let (owner, reader) = (connect(&running), connect(&running));
    let create = Request::Create { bytes: 8192 };
    let (Reply::Region { region }, owned) = owner.request(&create).expect("a region") else {
        panic!("no region");
    };
    let [memory, _event, signal] = <[_; 3]>::try_from(owned).expect("three descriptors");
    let own = Mapping::whole(&memory, Access::ReadWrite).expect("it is the owner's");
    let _signal = Mapping::whole(&signal, Access::ReadWrite).expect("it is the owner's");
    let export = |rights| {
        let request = Request::Export {
            region,
            first: 0,
            bytes: 64,
            rights,
            peer: None,
        };
        match owner.request(&request) {
            Ok((Reply::Token(token), _)) => Ok(token),
            other => Err(format!("{other:?}")),
        }
    };
    let token = export(Rights::Read).expect("a token");
    let (_, given) = reader
        .request(&Request::Connect { token })
        .expect("a window");
    let [memory, _event, signal] = <[_; 3]>::try_from(given).expect("three descriptors");
    for (what, weak) in [("the region", memory), ("its signal page", signal)] {
        Mapping::whole(&weak, Access::Read).expect("it may be read");
        Mapping::whole(&weak, Access::ReadWrite).expect_err("it may not be written");
        let path = format!("/proc/self/fd/{}", weak.as_raw_fd());
        // Whether it can be opened is the kernel's: it must be of no use.
        if let Ok(strong) = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            let mapped = Mapping::whole(&strong, Access::ReadWrite);
            assert!(mapped.is_err(), "a reader may write {what}");
            let written = rustix::io::pwrite(&strong, b"x", 0);
            assert!(written.is_err(), "a reader may write {what}");
        }
    }
    // SAFETY: mapped as long as `own` lives.
    unsafe { own.as_ptr().write_volatile(5) };
    // Nobody gets the memory for writing any more, and a region that has writers is for no readers.
    let refused = export(Rights::ReadWrite).expect_err("readers have the memory");
    assert!(refused.contains("allocate a region for these"), "{refused}");
    let (Reply::Region { region: other }, _) = owner.request(&create).expect("a region") else {
        panic!("no region");
    };
    let tokens = [Rights::Read, Rights::Write].map(|rights| {
        let request = Request::Export {
            region: other,
            first: 0,
            bytes: 64,
            rights,
            peer: None,
        };
        match owner.request(&request) {
            Ok((Reply::Token(token), _)) => token,
            answer => panic!("{answer:?}"),
        }
    });
    let error = reader.request(&Request::Connect { token: tokens[0] });
    let error = error.expect_err("a writer may map it").to_string();
    assert!(error.contains("a region for each"), "{error}");
    reader
        .request(&Request::Connect { token: tokens[1] })
        .expect("a window");
}

/// Whoever is believed could have this machine send its stores to a third one.
#[test]
fn a_daemon_speaks_for_its_own_nic_only() {
    let (running, own, _directory) = start();
    let third = stranger::address();
    let nics = [
        third,
        own,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(224, 0, 0, 1),
    ];
    let mut count = 0;
    for nic in nics {
        let mut stranger = Stranger::reach(own, stranger::address()).expect("it listens");
        let answer = stranger.greet_at(nic).expect("an answer");
        match answer {
            Some(Message::Unwelcome { message, .. }) => {
                assert!(message.contains("address of its NIC"), "{message}");
            }
            other => panic!("{nic}: {other:?}"),
        }
        counts_more_than(&running, count);
        count += 1;
    }
    // The other way round: this daemon connects.
    let listener = loop {
        if let Ok(listener) = TcpListener::bind((stranger::address(), 3422)) {
            break listener;
        }
    };
    let SocketAddr::V4(there) = listener.local_addr().expect("an address") else {
        panic!("it was bound to an IPv4 address");
    };
    let client = connect(&running);
    for nic in nics {
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("it connects");
                let hello = messages::read(&mut stream).expect("it says something");
                let Some(Message::Hello { version, start, .. }) = hello else {
                    panic!("{hello:?}");
                };
                let hello = Message::Hello {
                    version,
                    mac: 0x0200_0000_0666,
                    ip: nic.into(),
                    session: 1,
                    start,
                };
                messages::write(&mut stream, &hello).expect("it reads");
                // Nothing but the end.
                while let Ok(Some(message)) = messages::read(&mut stream) {
                    assert_eq!(message, Message::Ping, "{nic}");
                }
            });
            let token = ipc::Token {
                rights: Rights::Write,
                management: there,
                region: 1,
                first: 0,
                bytes: 64,
                secret: [1; 16],
            };
            client.request(&Request::Connect { token })
        });
        let why = answer.expect_err("the NIC is not its own").to_string();
        assert!(why.contains("address of its NIC"), "{nic}: {why}");
        counts_more_than(&running, count);
        count += 1;
    }
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
