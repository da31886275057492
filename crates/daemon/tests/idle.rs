// SPDX-License-Identifier: Apache-2.0
//! A daemon that nobody asks for anything, and its NIC in software, take no processor. Alone in its process, whose time is counted.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use daemon::Options;
use daemon::remote::{self, Transport};
use rustix::time::{ClockId, clock_gettime};

/// What all threads of this process have computed.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("a clock does not run backwards from zero")
}

#[test]
fn an_idle_daemon_sleeps() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = Ipv4Addr::new(127, 71, 3, 9);
    let mut options = Options {
        socket: directory.path().join("ipnuma/daemon.sock"),
        management: Some(SocketAddrV4::new(address, 3422)),
        remote: remote::Options {
            nic: Transport::Udp,
            ..remote::Options::default()
        },
        ..Options::default()
    };
    keyed::among(&mut options.remote, directory.path(), "127.0.0.0/8");
    let _running = daemon::spawn(options).expect("it starts");
    let (started, before) = (Instant::now(), computed());
    std::thread::sleep(Duration::from_secs(2));
    let (passed, computed) = (started.elapsed(), computed() - before);
    // A thread that spins takes a whole processor, or a fair share of a busy one.
    assert!(
        computed < passed / 20,
        "it computed for {computed:?} of {passed:?}"
    );
}
