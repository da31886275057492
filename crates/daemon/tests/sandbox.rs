// SPDX-License-Identifier: Apache-2.0
//! A daemon that has given up what it has no use of: it serves, and whoever takes it over can do little. Restrictions are of
//! threads, so all of this is done by one of them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;

use daemon::keys::Key;
use daemon::{Options, Server, sandbox};
use host::{Config, Device, Rights};
use rand::RngExt;

#[test]
fn a_daemon_serves_without_what_it_has_given_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys");
    let key = Key::make(&keys.join("key")).expect("a key");
    assert!(key.fingerprint().to_string().starts_with("sha256:"));
    let [a, b, c]: [u8; 3] = rand::rng().random();
    let address = Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254));
    let mut options = Options {
        socket: directory.path().join("ipnuma/daemon.sock"),
        management: Some(SocketAddrV4::new(address, 3422)),
        ..Options::default()
    };
    options.remote.key = Some(keys.join("key"));
    options.remote.known_peers = Some(keys.join("known_peers"));
    let socket = options.socket.clone();
    let file = elsewhere.path().join("file");
    std::fs::write(&file, "content").expect("nothing is given up yet");

    let (give, take) = std::sync::mpsc::channel();
    let daemon = std::thread::spawn(move || {
        let active = sandbox::enter(&options).expect("the kernel has the means or not");
        println!("what protects: {active:?}");
        if active.contains(&"Landlock") {
            std::fs::read(&file).expect_err("a file that is none of its business");
            std::fs::write(&file, "other").expect_err("a file that is none of its business");
            std::fs::write(file.with_extension("new"), "").expect_err("nor is another");
        } else {
            skip::skipped("files that a daemon cannot open", &"no Landlock here");
        }
        if active.contains(&"seccomp") {
            let error = Command::new("/bin/true").spawn().expect_err("a program");
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::PermissionDenied,
                "{error}"
            );
            let trace = rustix::process::pidfd_open(
                rustix::process::getpid(),
                rustix::process::PidfdFlags::empty(),
            )
            .and_then(|own| {
                let flags = rustix::process::PidfdGetfdFlags::empty();
                rustix::process::pidfd_getfd(&own, 0, flags)
            });
            let error = trace.expect_err("another process's descriptor");
            assert_eq!(error, rustix::io::Errno::PERM);
        } else {
            skip::skipped("calls that a daemon cannot make", &"no seccomp here");
        }
        let mut server = Server::new(options).expect("it has what it needs");
        give.send(server.stopper()).expect("the test waits");
        server.run().expect("nothing fails that it needs");
    });
    let stopper = take.recv().expect("it starts");
    let config = Config {
        daemon: socket.clone(),
        ..Config::default()
    };
    let [owner, reader] = [0; 2].map(|_| Device::open(&config).expect("it serves"));
    let region = owner.alloc(4096).expect("memory");
    let token = region.export(0..64, Rights::Read, None).expect("a token");
    let window = reader.connect(&token).expect("the token is good");
    window.map().expect("it is this machine's memory");
    drop((window, region, owner, reader));
    stopper.stop();
    daemon.join().expect("it ends well");
    assert!(!socket.exists(), "its socket is left behind");
    assert_eq!(
        std::fs::read(elsewhere.path().join("file")).expect("it is there"),
        b"content"
    );
}
