// SPDX-License-Identifier: Apache-2.0
//! NICs in software over AF_XDP on the ends of a virtual cable, and against one over UDP sockets.

mod common;

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::mpsc;

use common::{BAD, Side, connect, exchange, in_namespace, ip, seed};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use softnic::{AfXdp, Config, Error, Faulty, Transport, Udp};
use wire::SessionPort;

/// An AF_XDP socket; none, and the reason is printed, if this machine does not let us.
fn xdp(device: &str, address: [u8; 4]) -> Option<AfXdp> {
    match AfXdp::open(device, 0, address.into()) {
        Ok(xdp) => Some(xdp),
        Err(Error::Device { what, source, .. })
            if matches!(
                source.kind(),
                ErrorKind::PermissionDenied | ErrorKind::Unsupported
            ) || source.raw_os_error() == Some(libc::EAFNOSUPPORT) =>
        {
            skip::skip!("{device}: can't {what}: {source}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn two_sockets_exchange_stores() {
    in_namespace(|| {
        let seed = seed();
        ip("link add cable0 type veth peer name cable1");
        for device in ["cable0", "cable1"] {
            ip(&format!("link set {device} up"));
        }
        let (Some(one), Some(two)) = (xdp("cable0", [10, 9, 0, 1]), xdp("cable1", [10, 9, 0, 2]))
        else {
            return;
        };
        assert_ne!(one.identity().mac, two.identity().mac);
        let mut sides = [
            Side::new(Config::default(), Faulty::new(one, BAD, seed)),
            Side::new(Config::default(), Faulty::new(two, BAD, seed + 1)),
        ];
        connect(&mut sides, 50, None);
        exchange(&mut sides, 20_000, &mut ChaCha8Rng::seed_from_u64(seed));
    });
}

#[test]
fn a_socket_and_the_kernel_exchange_stores() {
    in_namespace(|| {
        let seed = seed();
        ip("link add cable0 type veth peer name cable1");
        ip("addr add 10.9.0.1/24 dev cable0");
        ip("link set cable0 up");
        // A thread in another namespace has the other end of the cable, with the kernel's UDP stack on it.
        let (give, take) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            // SAFETY: of this thread only the network namespace changes.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a second namespace");
            let me = gettid().as_raw_nonzero().get();
            give.send((me, None)).expect("the test waits");
            wait.recv().expect("the cable is plugged in");
            ip("addr add 10.9.0.2/24 dev cable1");
            ip("link set cable1 address 02:00:0a:09:00:02");
            ip("link set cable1 up");
            let mut udp = Udp::bind(Ipv4Addr::new(10, 9, 0, 2)).expect("an own address");
            // The session's port is taken here already, whatever its number: the test is in another namespace.
            for index in 1..=255 {
                let port = SessionPort { epoch: 50, index };
                udp.open_port(port.to_port()).expect("an own address");
            }
            give.send((me, Some(udp))).expect("the test waits");
            // The namespace lives as long as this thread.
            let _ = wait.recv();
        });
        let (thread, _) = take.recv().expect("a thread");
        ip(&format!("link set cable1 netns {thread}"));
        go.send(()).expect("the thread waits");
        let udp = take.recv().expect("a socket").1.expect("a socket");
        let Some(xdp) = xdp("cable0", [10, 9, 0, 1]) else {
            return;
        };
        // A UDP socket's MAC address is one that stands for its IP address; here the device has it.
        assert_eq!(udp.identity().mac, 0x0200_0A09_0002);
        let mut sides = [
            Side::new(Config::default(), Faulty::new(xdp, BAD, seed)),
            Side::new(Config::default(), Faulty::new(udp, BAD, seed + 1)),
        ];
        connect(&mut sides, 50, None);
        exchange(&mut sides, 20_000, &mut ChaCha8Rng::seed_from_u64(seed));
        drop(go);
        other.join().expect("the other thread");
    });
}

#[test]
fn what_is_missing_is_named() {
    match AfXdp::open("nosuchdevice", 0, Ipv4Addr::LOCALHOST) {
        Ok(_) => panic!("there is no such device"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("nosuchdevice"), "{text}");
        }
    }
}
