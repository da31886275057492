// SPDX-License-Identifier: Apache-2.0
//! Both transports and families, wrong answers, no answers.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use echo::{Error, Job, Server, run};
use mcb::Transport;

fn serve(address: &str, transport: Transport) -> SocketAddr {
    let address = address.parse().expect("an address");
    let server = Server::bind(address, transport).expect("a port");
    let address = server.address().expect("it has one");
    std::thread::spawn(move || server.serve());
    address
}

fn job(server: SocketAddr, transport: Transport) -> Job {
    Job {
        server,
        transport,
        count: 50,
        timeout: Duration::from_secs(60),
        ..Job::default()
    }
}

#[test]
fn what_is_sent_comes_back_and_is_timed() {
    for transport in [Transport::Udp, Transport::Tcp] {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let server = serve(address, transport);
            for bytes in [1, 4, 1_472] {
                let asked = Job {
                    bytes,
                    ..job(server, transport)
                };
                let report = run(&asked).expect("it answers");
                let each = report.ns.each.expect("each was timed");
                assert!(each.min > 0 && each.min <= each.p50 && each.p50 <= each.max);
                assert_eq!((report.bytes, report.count), (bytes, 50));
                let together = Job {
                    total: true,
                    ..asked
                };
                let report = run(&together).expect("it answers");
                assert!(report.ns.each.is_none() && report.ns.mean > 0.0);
            }
        }
    }
}

#[test]
fn other_bytes_are_noticed() {
    for change in [
        |bytes: &mut Vec<u8>| bytes[3] ^= 1,
        |bytes: &mut Vec<u8>| bytes.push(0),
    ] {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let server = socket.local_addr().expect("it has one");
        let liar = std::thread::spawn(move || {
            let mut buffer = [0; 64];
            let (length, peer) = socket.recv_from(&mut buffer).expect("a message");
            let mut bytes = buffer[..length].to_vec();
            change(&mut bytes);
            socket.send_to(&bytes, peer).expect("sent");
        });
        let found = run(&job(server, Transport::Udp));
        assert!(
            matches!(found, Err(Error::Wrong { number: 0, .. })),
            "{found:?}"
        );
        liar.join().expect("it ran");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let quiet = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = quiet.local_addr().expect("it has one");
    let mut asked = job(server, Transport::Udp);
    asked.timeout = Duration::from_millis(20);
    let sentence = run(&asked).expect_err("nobody answers").to_string();
    assert!(sentence.contains("no answer within 20ms"), "{sentence}");
    for (change, place) in [
        (
            Job {
                bytes: 0,
                ..asked.clone()
            },
            "--bytes: 0",
        ),
        (
            Job {
                bytes: 1_473,
                ..asked.clone()
            },
            "--bytes: 1473",
        ),
        (
            Job {
                count: 0,
                ..asked.clone()
            },
            "--count",
        ),
        (
            Job {
                server: "127.0.0.1:0".parse().expect("an address"),
                ..asked.clone()
            },
            "SERVER",
        ),
        (
            Job {
                count: u64::MAX,
                ..asked.clone()
            },
            "--count",
        ),
        (
            Job {
                warmup: u64::MAX,
                ..asked.clone()
            },
            "--warmup",
        ),
        (
            Job {
                timeout: Duration::ZERO,
                ..asked.clone()
            },
            "--timeout-ms",
        ),
    ] {
        let error = run(&change).expect_err("it is refused");
        assert!(
            error.is_usage() && error.to_string().starts_with(place),
            "{error}"
        );
    }
    let taken = Server::bind(server, Transport::Udp).expect_err("it is taken");
    assert!(taken.to_string().contains("a port that is free"), "{taken}");
}
